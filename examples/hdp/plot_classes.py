"""
Classes by topics
=================

Documents have labels, and new ones shall get theirs: shares of topics are columns for
any classifier of scikit-learn. Words predict better, as a rule; what topics add is that
one can read why.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import top_terms

# %%
# Docstrings of the 20 largest subpackages of NumPy, SciPy and scikit-learn; three in
# ten are kept for the test.
docs = load_docstrings(remove=("code", "references"))
names = np.array(docs.target_names)[docs.target]
labels, sizes = np.unique(names, return_counts=True)
kept = np.isin(names, labels[sizes >= len(names) / 80])
texts = np.array(docs.data, dtype=object)[kept]
given = train_test_split(
    texts, names[kept], test_size=0.3, random_state=0, stratify=names[kept]
)
train, test, train_labels, test_labels = given

# %%
# Columns are shares of the topics of an ``HDP``, their square roots, under which small
# shares count more, or components of a singular value decomposition; words themselves
# are the measure. All topics that help to predict (``min_gain=0``) tell classes apart
# better than the few that are read.
words = {"stop_words": "english", "min_df": 5, "max_df": 0.3}
few = make_pipeline(CountVectorizer(**words), HDP(random_state=0))
many = make_pipeline(CountVectorizer(**words), HDP(min_gain=0, random_state=0))
weights = TfidfVectorizer(sublinear_tf=True, **words)
svd = make_pipeline(weights, TruncatedSVD(40, random_state=0))


def columns_of(model):
    """Fit a model of texts; return the columns of those to learn from and of others."""
    return model.fit_transform(train), model.transform(test)


shares = columns_of(few)
columns = {
    "topics to read": shares,
    "topics to read, square roots": [np.sqrt(part) for part in shares],
    "all topics, square roots": [np.sqrt(part) for part in columns_of(many)],
    "40 components of SVD": columns_of(svd),
    "words": columns_of(weights),
}
accuracy = {}
for name, (seen, unseen) in columns.items():
    classifier = LogisticRegression(C=10, max_iter=1000).fit(seen, train_labels)
    accuracy[name] = classifier.score(unseen, test_labels)
figure, ax = plt.subplots(figsize=(7, 2.5), layout="constrained")
bars = ax.barh(list(accuracy), list(accuracy.values()), height=0.6)
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="share of test documents with the right label", xlim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Why a document is in a class: the topics with the largest coefficients.
model = LogisticRegression(C=10, max_iter=1000)
model.fit(np.sqrt(shares[0]), train_labels)
terms = top_terms(few, n=4, relevance=0.6)
for label in ("scipy.linalg", "scipy.signal", "sklearn.metrics"):
    row = model.coef_[model.classes_.tolist().index(label)]
    best = np.argsort(-row)[:2]
    print(f"{label}: " + "; ".join(" ".join(terms[k]) for k in best))
