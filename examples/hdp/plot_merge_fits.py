"""
Two fits as one
===============

Two hospitals, or two years, have documents that may not leave them. Each fits its own,
with its own vocabulary, and hands over the fit: topics and sums of words, no document.
Here two places have docstrings of SciPy and of scikit-learn, one mainly of the former,
the other mainly of the latter.
"""

# %%
# Terms go by the names of columns, so that a fit knows its vocabulary. A fifth of the
# documents of each place is kept to compare fits by.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

from skbnp import HDP, merge_fits
from skbnp.datasets import load_docstrings
from skbnp.inspection import align_components, top_terms

docs = load_docstrings(remove=("code", "references"))
packages = np.array(docs.target_names)[docs.target]
rng = np.random.default_rng(0)
scipy, sklearn = (
    rng.permutation(np.flatnonzero(np.char.startswith(packages, name)))[:600]
    for name in ("scipy", "sklearn")
)
most, few = 3 * len(scipy) // 4, len(sklearn) // 4


def counts_of(rows):
    """Counts of some docstrings in random order, terms as columns."""
    vectorizer = CountVectorizer(
        stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
    )
    counts = vectorizer.fit_transform([docs.data[row] for row in rng.permutation(rows)])
    return pd.DataFrame(counts.toarray(), columns=vectorizer.get_feature_names_out())


places = {
    "North": counts_of(np.concatenate([scipy[:most], sklearn[:few]])),
    "South": counts_of(np.concatenate([scipy[most:], sklearn[few:]])),
}
n_kept = {name: len(frame) // 5 for name, frame in places.items()}
fits = {
    name: HDP(random_state=0).fit(frame[n_kept[name] :])
    for name, frame in places.items()
}
merged = merge_fits(list(fits.values()))
for name, fit in [*fits.items(), ("merged", merged)]:
    print(f"{name}: {fit.n_components_} topics, {fit.n_features_in_} terms")

# %%
# Topics that are alike are one, all others stay. How much of the text of each place is
# of the topics that both have, and what are they about?
result = align_components(fits["North"], fits["South"], min_similarity=0.5)
weights = [
    fit.topic_weights_[column]
    for fit, column in zip(fits.values(), result.pairs.T, strict=True)
]
order = np.argsort(-np.minimum(*weights))[:8][::-1]
terms = top_terms(fits["North"], n=4, relevance=0.6)

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name, shares, side in zip(fits, weights, (-1, 1), strict=True):
    ax.barh(np.arange(len(order)), side * 100 * shares[order], label=name)
ax.set_yticks(
    np.arange(len(order)), [", ".join(terms[result.pairs[k, 0]]) for k in order]
)
ax.axvline(0.0, color="black", lw=0.8)
ax.xaxis.set_major_formatter(lambda x, position: f"{abs(x):g}")
ax.set_xlabel("% of the text")
ax.legend(frameon=False)
plt.show()

# %%
# The merged fit predicts the documents of either place as well as the fit of that
# place, or better, and knows the terms of both.
for name, frame in places.items():
    for of, fit in [*fits.items(), ("merged", merged)]:
        rows = frame[: n_kept[name]].reindex(
            columns=fit.feature_names_in_, fill_value=0
        )
        known = frame.columns.isin(fit.feature_names_in_).mean()
        score = fit.score(rows)
        print(f"{name} by {of}: {score:.2f} nats per token, {known:.0%} of the terms")
