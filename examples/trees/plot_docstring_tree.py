"""
A tree of topics
================

A flat topic model lists topics side by side. The nested Chinese restaurant process puts
them on a tree: each document takes a path from the root to a leaf, its general words
come from topics near the root, its special ones from those near the leaf, and how many
branches there are is learned. Here the documents are the docstrings of NumPy, SciPy and
scikit-learn; nobody says which library they are from.
"""

# %%
# The tree
# --------
# The estimator has three levels, and begins, merges, splits and regroups branches by
# itself. To be quick, every eighth docstring is learned from, in four passes at the
# most; with all docstrings and the defaults it takes some minutes and finds a better
# tree. Each line below is a node, with the share of documents that pass it and its most
# probable terms.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from skbnp import NestedCRP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicTreeDisplay, top_terms

docs = load_docstrings(remove=("code", "references"))
vectorizer = CountVectorizer(
    stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
)
every = 8
X = vectorizer.fit_transform(docs.data[::every])
crp = NestedCRP(max_iter=4, random_state=0).fit(X)
terms = vectorizer.get_feature_names_out()
print(crp.tree_.to_text(top_terms(crp, terms, n=8)))

# %%
# Words that all docstrings share have gone to the root. Size below is the share of
# documents that pass a node.
TopicTreeDisplay.from_estimator(crp, terms, n_terms=6)
plt.show()

# %%
# Where documents are
# -------------------
# ``decision_path`` gives the nodes on the path of each document, as of a decision tree.
# The branches below the root tell the libraries apart, although no word said so.
library = np.array([name.split(".")[0] for name in docs.names[::every]])
paths = crp.decision_path(X).toarray()
for branch in np.flatnonzero(crp.tree_.depth == 1):
    names, counts = np.unique(library[paths[:, branch] > 0], return_counts=True)
    print(branch, dict(zip(names.tolist(), counts.tolist(), strict=True)))
