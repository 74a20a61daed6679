"""
Topics that you know
====================

You know some of the topics of your texts, and want to see how much of each there is,
and what else the texts are about. Give each of these topics a name and a few seed
words: documents decide which other words belong to it, and topics that you did not
think of are found beside it. The texts are docstrings of SciPy.
"""

# %%
# Three topics are named by two or three words each. They come first, keep their names
# to the end of the fit, and have as much of the text as documents give them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import top_terms

docs = load_docstrings(remove=("code", "references"))
packages = np.array(docs.target_names)[docs.target]
is_scipy = np.char.startswith(packages, "scipy.")
texts = [text for text, one in zip(docs.data, is_scipy, strict=True) if one]
packages = np.char.replace(packages[is_scipy], "scipy.", "")

words = CountVectorizer(
    stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
)
counts = words.fit_transform(texts)
names = words.get_feature_names_out()
column = {name: place for place, name in enumerate(names)}
seeds = {
    "sparse matrices": ["sparse", "csr", "csc"],
    "tests": ["hypothesis", "null", "statistic"],
    "filters": ["filter", "frequency"],
}
seeds = {
    name: [column[word] for word in those if word in column]
    for name, those in seeds.items()
}
hdp = HDP(topic_word_prior=seeds, random_state=0).fit(counts)
print(f"{hdp.n_components_} topics, {len(seeds)} of them known")
for name, terms in zip(seeds, top_terms(hdp, names, 9, relevance=0.6), strict=False):
    print(f"{name}: {', '.join(terms)}")

# %%
# Where are they? Each bar is the mean share of a known topic in the docstrings of a
# subpackage. The fit does not know the subpackages.
shares = hdp.transform(counts)[:, : len(seeds)]
known, number = np.unique(packages, return_inverse=True)
means = np.array([shares[number == n].mean(axis=0) for n in range(len(known))])
shown = np.argsort(-means.max(axis=1))[:6]

fig, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for place, name in enumerate(seeds):
    at = np.arange(len(shown)) + 0.27 * (place - 1)
    ax.bar(at, 100 * means[shown, place], 0.25, label=name)
ax.set_xticks(np.arange(len(shown)), known[shown])
ax.set_ylabel("% of the text")
ax.set_xlabel("subpackage of SciPy")
ax.legend(frameon=False)
plt.show()
