"""Where the nested HDP starts: the topics of a flat fit, grouped.

With S_kw expected tokens of word w in topic k of a flat HDP, and N_jk of topic k in
document j, topics are grouped by the evidence of N (`group_topics`), and each group
again, down to the level above the last. A group is an inner node, a topic a leaf; a
topic that is a group by itself is a leaf in its place. A token of word w and topic k
is then split over the nodes on the path to the leaf k by p_u(w), the distribution of
the words of all topics at u or below: what general words there are go up.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.seen_words import SeenWords
from skbnp.components.statistics import WordTopics
from skbnp.components.topic_evidence import TopicCounts
from skbnp.components.topic_groups import group_topics
from skbnp.models.nested_hdp.model import (
    MixedTree,
    NestedHDPModel,
    NestedStats,
    ancestors,
)
from skbnp.trees import Tree

__all__ = ["Start", "grouped_start", "outline"]

Array = NDArray[np.float64]

#: Updates of weights and concentrations from the counts of the start.
N_UPDATES = 5
#: Topics that are grouped once more, at the least.
LEAST_TOPICS = 4


class Start(NamedTuple):
    """The globals of a start."""

    state: MixedTree
    totals: NestedStats[WordTopics]


def outline(
    doc_topic: sp.csr_array, max_depth: int, n_groups: int | None
) -> tuple[list[int], NDArray[np.intp]]:
    """Group topics, and groups again: parents of nodes, and the leaf of each topic.

    Nodes are in any order, but for the root, which is the first.
    """
    parent, leaf = [-1], np.zeros(doc_topic.shape[1], dtype=np.intp)

    def divide(node: int, depth: int, topics: NDArray[np.intp], number: int | None):
        n_left = max_depth - 1 - depth
        labels = np.arange(len(topics))
        if n_left > 1 and (number is not None or len(topics) >= LEAST_TOPICS):
            labels = _grouped(doc_topic[:, topics], number)
        elif n_left == 0:
            labels = np.zeros(len(topics), dtype=int)
        for label in np.unique(labels):
            members = topics[labels == label]
            if n_left == 0:
                leaf[members] = node
                continue
            parent.append(node)
            child = len(parent) - 1
            if len(members) == 1:
                leaf[members] = child
            else:
                divide(child, depth + 1, members, None)

    divide(0, 0, np.arange(doc_topic.shape[1]), n_groups)
    return parent, leaf


def _grouped(doc_topic: sp.csr_array, n_groups: int | None) -> NDArray[np.intp]:
    """Group topics by their evidence; each by itself where there is none."""
    counts = sp.csr_array(doc_topic)
    counts.eliminate_zeros()
    n = counts.shape[1]
    if n_groups is not None and n_groups >= n:
        return np.arange(n)
    used = np.flatnonzero(np.bincount(counts.indices, counts.data, n) > 0.0)
    labels = np.full(n, -1)
    if len(used) > 1:
        counts = counts[:, used]
        counts = counts[np.diff(counts.indptr) > 0]
        short = counts.indices.astype(np.int32), counts.indptr.astype(np.int32)
        counts = sp.csr_array((counts.data, *short), counts.shape)
        found = group_topics(
            TopicCounts.of(counts), min(n_groups, len(used)) if n_groups else None
        )
        is_grouped = n_groups is not None or found.is_worth_it
        labels[used] = found.labels if is_grouped else np.arange(len(used))
    alone = np.flatnonzero(labels < 0)
    labels[alone] = labels.max() + 1 + np.arange(len(alone))
    if labels.max() == 0 and n_groups is None:  # one group is none
        return np.arange(n)
    return labels


def grouped_start(
    model: NestedHDPModel,
    flat: WordTopics,
    doc_topic: sp.csr_array,
    eta: float,
    max_depth: int,
    n_groups: int | None,
    concentration: tuple[float, float],
) -> Start:
    """Return a tree of the topics of a flat fit.

    Parameters
    ----------
    model : NestedHDPModel
    flat : WordTopics
        S of the flat fit, (n_words, K).
    doc_topic : csr_array of shape (n_docs, K)
        N of the documents.
    eta : float
        Topic prior.
    max_depth : int
        Levels of the tree, the root included.
    n_groups : int or None
        Children of the root; None finds their number.
    concentration : (float, float)
        Of children, gamma, and of documents, A; to start from.
    """
    parent, leaf = outline(doc_topic, max_depth, n_groups)
    weight = np.bincount(leaf, flat.total, len(parent))
    tree = Tree.from_parents(parent)
    tree = tree.sort_siblings(-tree.accumulate(weight[tree.ids]))
    leaf = tree.positions(leaf)
    words, shares = _split(tree, leaf, flat.held().T)
    doc_nodes = sp.csr_array(doc_topic @ shares)
    tree = Tree(np.arange(len(tree)), tree.depth)
    return begin(model, tree, words, flat.seen, doc_nodes, eta, concentration)


def begin(
    model: NestedHDPModel,
    tree: Tree,
    words: Array,
    seen: SeenWords,
    doc_nodes: sp.csr_array,
    eta: float,
    concentration: tuple[float, float],
) -> Start:
    """Return the globals for words (n_nodes, n_seen) and documents of nodes."""
    tokens = np.asarray(doc_nodes.sum(axis=0)).ravel()
    through = np.maximum(tree.accumulate(tokens), 1e-8)
    weights = np.ones(len(tree))
    weights[1:] = through[1:] / through[tree.parent[1:]]
    gamma, a = concentration
    n_levels = max(int(tree.depth.max()), 1)
    state = MixedTree(tree, 0.9 * weights, np.full(n_levels, a), gamma, eta)
    topics = WordTopics(words.T.copy(), seen)
    for _ in range(N_UPDATES):
        stats = model.statistics(state, topics, doc_nodes, float(tokens.sum()), 0.0)
        state = model.update(state, stats)
    return Start(state, stats)


def _split(
    tree: Tree, leaf: NDArray[np.intp], topics: Array
) -> tuple[Array, sp.csr_array]:
    """Split tokens over paths: words of nodes, and the share of each topic's tokens.

    `topics` are counts (K, n_words). The second is (K, n_nodes).
    """
    words = np.zeros((len(tree), topics.shape[1]))
    np.add.at(words, leaf, topics)
    pooled = tree.accumulate(words)
    pooled /= np.maximum(pooled.sum(axis=1, keepdims=True), 1e-300)
    split, shares = np.zeros_like(words), sp.lil_array((len(topics), len(tree)))
    above = ancestors(tree)
    for k, node in enumerate(leaf.tolist()):
        path = above.indices[above.indptr[node] : above.indptr[node + 1]]
        parts = pooled[path]
        parts *= topics[k] / np.maximum(parts.sum(axis=0), 1e-300)
        split[path] += parts
        sums = parts.sum(axis=1)
        shares[k, path] = sums / max(sums.sum(), 1e-300)
    return split, sp.csr_array(shares)
