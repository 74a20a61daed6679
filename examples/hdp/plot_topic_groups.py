"""
An outline of many topics
=========================

With ``min_gain=0`` a fit keeps all topics that predict, often more than anybody reads.
Topics that occur in the same documents belong together: ``topic_groups`` puts them into
groups, the number of which follows from the documents, too. Here the documents are the
docstrings of NumPy, SciPy and scikit-learn.
"""

# %%
# Topics in groups
# ----------------
# Each group has a line with the terms that tell it apart, and its heaviest topics
# below; a topic that fits no other is by itself.

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram
from sklearn.feature_extraction.text import CountVectorizer

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicGroupsDisplay, topic_groups

docs = load_docstrings(remove=("code", "references"))
every = 2
vectorizer = CountVectorizer(
    stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
)
X = vectorizer.fit_transform(docs.data[::every])
terms = vectorizer.get_feature_names_out()
hdp = HDP(min_gain=0, random_state=0).fit(X)
groups = topic_groups(hdp, X, feature_names=terms)
print(hdp.n_components_, "topics,", groups.n_groups, "groups")
print(groups)

# %%
# As a figure
# -----------
# The tree on the left merges groups: the farther to the left, the less the evidence of
# documents is for it. The bar below is the scale, in nats, the unit of log probability:
# one nat less is a factor of 2.7 in probability.
TopicGroupsDisplay(groups=groups).plot()
plt.show()

# %%
# The whole tree
# --------------
# All merges are there as SciPy takes them. Topics merge within their groups first, so
# that the last merges are those of groups; each leaf is a group, with its first terms.
n_topics = len(groups.labels)


def name_of(node):
    """Name the group that a node of the tree has topics of."""
    while node >= n_topics:
        node = int(groups.linkage[node - n_topics, 0])
    return ", ".join(groups.terms[groups.labels[node]][:3])


_, ax = plt.subplots(figsize=(9, 5), layout="constrained")
dendrogram(
    groups.linkage,
    p=groups.n_groups,
    truncate_mode="lastp",
    orientation="left",
    leaf_label_func=name_of,
    leaf_font_size=9,
    link_color_func=lambda node: "#0072B2",
    ax=ax,
)
ax.set_xlabel("gain below that of the best merge (nats per document)")
ax.spines[["top", "left", "right"]].set_visible(False)
plt.show()

# %%
# Where documents are
# -------------------
# Shares of topics add up to shares of groups. Groups have not seen which library a
# docstring is from.
library = np.array([name.split(".")[0] for name in docs.names[::every]])
member = np.equal.outer(groups.labels, np.arange(groups.n_groups))
main = (hdp.transform(X) @ member).argmax(axis=1)
for g in range(min(groups.n_groups, 6)):
    names, counts = np.unique(library[main == g], return_counts=True)
    result = dict(zip(names.tolist(), counts.tolist(), strict=True))
    print(g, groups.terms[g][:3], result)
