"""
A stream that learns every night
================================

Each night a job reads the model of the night before, learns the texts of the day, lists
topics that are new, and writes the model. The texts are docstrings; those of
``numpy.polynomial`` come from night 9 on.
"""

# %%
# Texts of twelve nights
# ----------------------

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

import skbnp
from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import (
    TopicSharesDisplay,
    align_components,
    emerging_topics,
    set_topic_names,
    top_terms,
)

docs = load_docstrings(remove=("code", "references"))
rng = np.random.default_rng(0)
package = np.array(docs.target_names)[docs.target]
late = rng.permutation(np.flatnonzero(package == "numpy.polynomial")).tolist()
old = rng.permutation(np.flatnonzero(package != "numpy.polynomial")).tolist()
n_texts = min(len(old) // 12, 120)
n_late, texts = min(len(late) // 4, n_texts // 6), {}
for night in range(1, 13):
    rows = [old.pop() for _ in range(n_texts)]
    if night >= 9:
        rows[:n_late] = [late.pop() for _ in range(n_late)]
    texts[night] = [docs.data[row] for row in rows]

# %%
# The job
# -------
#
# Columns of frames go by their names, so each night may bring new terms. Terms that are
# left out are the same every night (a limit as ``max_df`` would make topics of common
# terms come and go). The file is written under another name and renamed: a night that
# fails leaves the file of before. One file per night is the way back.

folder = Path(tempfile.mkdtemp())
options = {"stop_words": "english", "min_df": 2, "token_pattern": r"\b[a-z]{3,}\b"}


def counted(some, **options):
    """Return a frame of the counts of some texts."""
    vectorizer = CountVectorizer(**options)
    counts = vectorizer.fit_transform(some)
    return pd.DataFrame(counts.toarray(), columns=vectorizer.get_feature_names_out())


first = counted(texts[1], **options)
is_common = (first > 0).mean() > 0.1
options["stop_words"] = sorted({*ENGLISH_STOP_WORDS, *first.columns[is_common]})


def job(before, night):
    """Learn the texts of a night after those of another; return the alerts."""
    model = HDP(random_state=0)
    if before is not None:
        model = skbnp.load(folder / f"{before:02d}.skbnp")
    model.partial_fit(counted(texts[night], **options))
    if before is not None:
        keep_names(skbnp.load(folder / f"{before:02d}.skbnp"), model)
    skbnp.save(model, folder / f"{night:02d}.skbnp")
    return emerging_topics(model)


# %%
# Names that people gave stay with the ids of topics. If trials of other numbers of
# topics have ended an id, its name goes to the topic most like it.


def keep_names(before, now):
    """Give names of topics that have ended to the topics most like them."""
    names = dict(getattr(before, "topic_names_", {}))
    pairs = align_components(before, now, min_similarity=0.6)
    for row, other in pairs.pairs:
        topic = before.component_ids_[row]
        if topic in names and topic not in now.component_ids_:
            set_topic_names(now, {now.component_ids_[other]: names[topic]})


# %%
# Night 5 is missed
# -----------------
#
# The job of night 5 failed. Night 6 goes on from night 4. After four nights someone
# gives names to the two largest topics.

before = None
for night in (1, 2, 3, 4, 6):
    alerts = job(before, night)
    if night == 4:
        model = skbnp.load(folder / "04.skbnp")
        for row in np.argsort(-model.topic_weights_)[:2]:
            name = " and ".join(top_terms(model, n=2)[row])
            set_topic_names(model, {model.component_ids_[row]: name})
        skbnp.save(model, folder / "04.skbnp")
    before = night

# %%
# The missed night can be learned at any time: order matters little, and documents count
# by the call in which they came.

job(6, 5)
print(skbnp.load(folder / "05.skbnp").n_iter_, "calls")

# %%
# Alerts
# ------

before = 5
for night in range(7, 13):
    alerts = job(before, night)
    for line in alerts["line"]:
        print(f"night {night}: {line}")
    before = night

# %%
# Drift
# -----
#
# The texts of all nights, by the topics of the last one.

model = skbnp.load(folder / "12.skbnp")
rows = pd.concat([counted(texts[night], **options) for night in texts]).fillna(0)
rows = rows.reindex(columns=model.feature_names_in_, fill_value=0)
shown = {*alerts["topic"], *getattr(model, "topic_names_", {})}
display = TopicSharesDisplay.from_estimator(
    model,
    rows.to_numpy(),
    np.repeat([*texts], n_texts),
    model.feature_names_in_,
    topics=sorted(shown & {*model.component_ids_}) or None,
)
display.ax_.axvline(8.5, color="0.6", linestyle=":")
display.ax_.set_xlabel("night")
plt.show()

# %%
# Two versions
# ------------
#
# What has changed since night 8? Topics are compared by their words.

change = align_components(skbnp.load(folder / "08.skbnp"), model)
frame = change.to_frame()
print(frame["kind"].value_counts().to_string())

# %%
# Back to yesterday
# -----------------
#
# Texts of night 12 were wrong? The file of night 11 is as it was, and the corrected
# texts are learned after it.

job(11, 12)
print(skbnp.load(folder / "12.skbnp").n_iter_, "calls")
