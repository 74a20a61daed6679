"""
What was new in SciPy and scikit-learn
======================================

Dependent trees follow topics over epochs: a topic keeps its name from one epoch to the
next, its words may change, topics end, and new ones are born where the rows of an epoch
ask for them. Here the rows are docstrings of SciPy and scikit-learn, and their epochs
the years of the releases that they name.
"""

# %%
# Texts with dates
# ----------------
# 700 docstrings or so say ``versionadded`` somewhere. The oldest release that a text
# names is about when the object came, or when it was first extended. Six epochs are
# enough to see something and have some dozens of texts each; they are named after their
# first year, and begin with the releases below.
#
# Of a docstring we take what stands before its first section, a few sentences that say
# what the object is for, and of these the words by tf-idf: rare words say more.

import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from skbnp import DependentTrees
from skbnp.datasets import load_docstrings
from skbnp.inspection import EpochTreeDisplay, emerging_topics, topics_over_time

FIRST_RELEASES = {
    2010: {"scipy": (0, 0), "sklearn": (0, 0)},
    2013: {"scipy": (0, 12), "sklearn": (0, 13)},
    2015: {"scipy": (0, 15), "sklearn": (0, 16)},
    2017: {"scipy": (0, 19), "sklearn": (0, 19)},
    2019: {"scipy": (1, 3), "sklearn": (0, 21)},
    2021: {"scipy": (1, 7), "sklearn": (1, 0)},
}
RELEASE = re.compile(r"versionadded:: *v?(\d+)\.(\d+)")
SECTION = re.compile(r"\n[A-Z][A-Za-z ]+\n---|The documentation is written assuming")
MARKUP = re.compile(r":\w+:|\.\. .*")

corpus = load_docstrings()
names, texts, epochs = [], [], []
for name, text in zip(corpus.names, corpus.data, strict=True):
    library = name.partition(".")[0]
    releases = [(int(major), int(minor)) for major, minor in RELEASE.findall(text)]
    if library != "numpy" and releases:
        years = [y for y, of in FIRST_RELEASES.items() if of[library] <= min(releases)]
        names.append(name)
        texts.append(MARKUP.sub("", SECTION.split(text)[0]))
        epochs.append(max(years))
names, epochs = np.array(names), np.array(epochs)
vectorizer = TfidfVectorizer(
    sublinear_tf=True,
    stop_words="english",
    min_df=3,
    max_df=0.3,
    token_pattern=r"\b[a-z]{3,}\b",
)
X = vectorizer.fit_transform(texts)
terms = vectorizer.get_feature_names_out()
for epoch, n_texts in zip(*np.unique(epochs, return_counts=True), strict=True):
    print(f"from {epoch}: {n_texts} texts")

# %%
# Trees over epochs
# -----------------
# ``vmf_concentration`` says how alike the texts of a topic are. Learned from texts as
# short as these it becomes so large that topics are pairs of texts which share whole
# sentences; with 400 a topic is some ten texts. ``window=6`` lets a topic that has no
# texts in one epoch have some in a later one.
#
# Each line below is a topic, indented below its parent, each column an epoch. Discs are
# shares of the texts of an epoch; the first disc of a topic that was born is red. Terms
# are those of the epoch in brackets, in which the topic is largest. Most topics last;
# a ring is a topic that waits for an epoch with texts of its own.
trees = DependentTrees(vmf_concentration=400, window=6, random_state=0)
trees.fit(X, epochs=epochs)
display = EpochTreeDisplay.from_estimator(trees, terms)
plt.show()

# %%
# What emerged
# ------------
# The topics that were born with four texts or more, each with its terms at that time
# and the texts that are nearest to it. This is what release notes tell of these years:
# from 2015 kernels of Gaussian processes in scikit-learn 0.18, and filters as
# second-order sections in SciPy 0.16; from 2017 distances of distributions in SciPy
# 1.0, and the transformation of Yeo and Johnson in SciPy 1.2; from 2019 displays in
# scikit-learn 0.22 and later.
report = emerging_topics(trees, X, epochs, terms, n_documents=3, min_samples=4)
for topic in report.itertuples():
    print(f"{topic.epoch}, topic {topic.topic}:", ", ".join(topic.terms))
    print("    " + ", ".join(n.rpartition(".")[2] for n in names[topic.documents]))

# %%
# A topic that stays
# ------------------
# A topic that stays may drift. Below is the one that most texts are at, the root aside,
# with its words in each epoch: some stay, others come with what was new then.
#
# :func:`skbnp.inspection.topics_over_time` has these numbers as a data frame. Its
# ``cosine`` says how much of its direction a topic keeps from one epoch to the next.
frame = topics_over_time(trees, feature_names=terms)
n_texts = frame.loc[frame["depth"] > 0].groupby("topic")["n_samples"].sum()
most = int(n_texts.idxmax())
own = frame.loc[frame["topic"] == most, ["epoch", "share", "cosine", "terms"]]
print(own.round(2).to_string(index=False))
