"""
Three hierarchies of one corpus
===============================

Topics can be put in order in three ways: by groups of the topics of a flat fit
(``topic_groups``), by a tree over which documents mix (``NestedHDP``), and by a tree of
which each document takes one path (``NestedCRP``). Here all three learn from docstrings
of NumPy, SciPy and scikit-learn.
"""

# %%
# The corpus
# ----------
# Every eighth docstring is there to learn from, others to predict.

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer

from skbnp import HDP, NestedCRP, NestedHDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicTreeDisplay, top_terms, topic_groups
from skbnp.metrics import document_completion_score

docs = load_docstrings(remove=("code", "references"))
vectorizer = CountVectorizer(
    stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
)
every = 8
X = vectorizer.fit_transform(docs.data[::every])
X_test = vectorizer.transform(docs.data[1::every])
terms = vectorizer.get_feature_names_out()

# %%
# Groups of topics
# ----------------
# The fit is flat, and stays so: topics that documents use together form a group. That
# costs next to nothing, and works for topics of any model.
hdp = HDP(random_state=0).fit(X)
groups = topic_groups(hdp, X, feature_names=terms)
print(groups.to_text(n_lines=25))

# %%
# A tree that documents mix
# -------------------------
# Words that a theme shares move up to the theme. A document has shares of all nodes.
nested = NestedHDP(random_state=0).fit(X)
names = top_terms(nested, terms, n=6)
print(nested.tree_.to_text(names, max_leaves=25))

# %%
# A tree of paths
# ---------------
# Each document takes one path: one topic on each level. To be quick, four passes are
# made at the most.
crp = NestedCRP(max_iter=4, random_state=0).fit(X)
print(crp.tree_.to_text(top_terms(crp, terms, n=6), max_leaves=25))

# %%
# One document
# ------------
# Shares of a document below the root: the first tree mixes, the second one has a path.
document = next(i for i, name in enumerate(docs.names[::every]) if "stats" in name)
print(docs.names[::every][document])
for model in (nested, crp):
    shares = model.transform(X[[document]])[0]
    largest = sorted(range(1, len(shares)), key=lambda u: -shares[u])[:4]
    called = top_terms(model, terms, n=3)
    for node in largest:
        print(f"  {shares[node]:.2f}  {', '.join(called[node])}")
    print()

# %%
# Which one predicts?
# -------------------
# Mean log probability of a word of unseen docstrings, given 80 % of their words, by
# topics alone: a tree of paths does not know that documents repeat words. One path
# cannot say all that a docstring is about.
for name, model in {"HDP": hdp, "NestedHDP": nested, "NestedCRP": crp}.items():
    print(f"{name:9s} {document_completion_score(model, X_test, repeats=False):.2f}")
print(f"NestedHDP {nested.score(X_test):.2f} with repeats")

# %%
# The mixed tree as a picture; size is the share of words.
TopicTreeDisplay.from_estimator(nested, terms, n_terms=4, max_leaves=25)
plt.show()
