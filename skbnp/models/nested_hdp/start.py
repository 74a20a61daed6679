"""Start of the nested HDP: a tree of grouped topics of a flat HDP.

With S_kw expected tokens of word w in topic k of a flat HDP, and N_jk of topic k in
document j, topics are grouped by the evidence of N (`group_topics`), and in each group
the heaviest topics are above the others. A group is an inner node without a topic of
its own; a group of one topic is a leaf instead. Tokens of word w and topic k are then
divided over the nodes on the path to topic k. With p_u(w) the word distribution of all
topics at u or below, half of them is divided by p_u(w); of the other half a node gets
the excess of the lowest p(w) from there down over that of its parent, so that words are
moved up as far as they are as frequent there.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.components import topic_groups
from skbnp.components.topic_evidence import TopicCounts
from skbnp.components.word_topics import WordTopics
from skbnp.models.nested_hdp.model import (
    MixedTree,
    NestedHDPModel,
    NestedStats,
    ancestors,
)
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints

#: Updates of weights and concentrations from the counts of the start.
N_UPDATES = 5
#: Topics that stand above others: about as many as people read.
N_READABLE = 40


class Start(NamedTuple):
    """Globals and expected counts of nodes at the start of a nested HDP."""

    state: MixedTree
    global_stats: NestedStats[WordTopics]


def outline(
    doc_topic: sp.csr_array, topics: Array, max_depth: int, n_groups: int | None
) -> tuple[list[int], Ints]:
    """Group topics into a tree: return parents of nodes, and the node of each topic.

    The root comes first, parents before their children. Its children are groups by the
    evidence of documents, or `n_groups` of them; if there is one group, its topics are
    below the root. In a group the heaviest topics, about `N_READABLE` of all groups
    together, are above the others, each of which is below the most similar one, see
    `likeness`; `topics` are counts (K, n_words).
    """
    n = doc_topic.shape[1]
    parent, place = [-1], np.zeros(n, dtype=np.intp)
    tokens = np.bincount(doc_topic.indices, doc_topic.data, n)
    likes = likeness(doc_topic, topics) if max_depth > 2 else np.zeros((n, n))

    def put(above: int, members: Ints, n_levels: int) -> None:
        """Put topics below the node `above` of the outline in place, on `n_levels`."""
        share = tokens[members].sum() / max(tokens.sum(), 1e-300)
        number = max(round(N_READABLE * share), 1)
        heads = members
        if n_levels > 1 and number < len(members):
            heads = members[np.argsort(-tokens[members], kind="stable")[:number]]
        others = np.setdiff1d(members, heads)
        nearest = likes[np.ix_(others, heads)].argmax(axis=1) if len(others) else others
        for i, head in enumerate(heads.tolist()):
            place[head] = len(parent)
            parent.append(above)
            if len(below := others[nearest == i]):
                put(int(place[head]), below, n_levels - 1)

    if max_depth == 1:
        return parent, place
    labels = np.zeros(n, dtype=int)
    if max_depth > 2:
        labels = _grouped(doc_topic, n_groups)
    is_used = tokens > 0.0
    if len(np.unique(labels[is_used])) <= 1:  # one group is none
        put(0, np.arange(n), max(max_depth - 2, 1))
        return parent, place
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            parent.append(0)
            put(len(parent) - 1, members, max_depth - 2)
        else:
            put(0, members, 1)
    return parent, place


def likeness(doc_topic: sp.csr_array, topics: Array) -> Array:
    """Similarity of a flat fit's topics in documents and in words, (K, K).

    The correlation of P_jk, and the cosine of square roots of mean topics, both without
    their component along the square root of the word distribution of all topics.
    """
    whole = np.sqrt(topics.sum(axis=0) / max(topics.sum(), 1e-300))
    roots = np.sqrt(topics / np.maximum(topics.sum(axis=1, keepdims=True), 1e-300))
    roots -= np.outer(roots @ whole, whole)
    cosines = topic_groups.normalised(roots @ roots.T)
    return topic_groups.presence_correlations(doc_topic) + cosines


def _grouped(doc_topic: sp.csr_array, n_groups: int | None) -> Ints:
    """Group of each topic of a flat fit by their evidence; one without evidence, (K,).

    Topics without tokens are groups by themselves.
    """
    counts, n = doc_topic.copy(), doc_topic.shape[1]
    counts.eliminate_zeros()
    used = np.flatnonzero(np.bincount(counts.indices, counts.data, n) > 0.0)
    labels = np.full(n, -1)
    number = None if n_groups is None else min(n_groups, len(used))
    if len(used) > 1:
        counts = counts[:, used]
        counts = counts[np.diff(counts.indptr) > 0]
        short = counts.indices.astype(np.int32), counts.indptr.astype(np.int32)
        counts = sp.csr_array((counts.data, *short), counts.shape)
        result = topic_groups.group_topics(TopicCounts.of(counts), number)
        is_grouped = number is not None or result.is_worth_it
        labels[used] = result.labels if is_grouped else 0
    alone = np.flatnonzero(labels < 0)
    labels[alone] = labels.max() + 1 + np.arange(len(alone))
    return labels


def grouped_start(
    model: NestedHDPModel,
    flat: WordTopics,
    doc_topic: sp.csr_array,
    eta: float,
    max_depth: int,
    n_groups: int | None,
    concentration: tuple[float, float],
    max_components: float = np.inf,
) -> Start:
    """Return a start of the nested HDP: a tree of the topics of a flat fit.

    `flat` is S of the flat fit, (n_words, K), and `doc_topic` N of the documents,
    (n_docs, K). The tree has `max_depth` levels, the root included, `n_groups`
    children of the root, if given, and at most `max_components` nodes.
    `concentration` are those of children, gamma, and of documents, A, to start
    from.
    """
    topics = flat.seen_counts().T
    parent, leaf = outline(doc_topic, topics, max_depth, n_groups)
    parent, leaf = fold_leaves(parent, leaf, flat.total, max_components)
    weight = np.bincount(leaf, flat.total, len(parent))
    tree = Tree.from_parents(parent)
    tree = tree.sort_siblings(-tree.accumulate(weight[tree.ids]))
    leaf = tree.positions(leaf)
    words, shares = _split(tree, leaf, topics)
    doc_nodes = sp.csr_array(doc_topic @ shares)
    tree = Tree(np.arange(len(tree)), tree.depth)
    tokens = np.asarray(doc_nodes.sum(axis=0)).ravel()
    through = np.maximum(tree.accumulate(tokens), 1e-8)
    weights = np.ones(len(tree))
    weights[1:] = through[1:] / through[tree.parent[1:]]
    gamma, a = concentration
    n_levels = max(int(tree.depth.max()), 1)
    state = MixedTree(tree, 0.9 * weights, np.full(n_levels, a), gamma, eta)
    of_words = WordTopics(words.T.copy(), flat.seen)
    for _ in range(N_UPDATES):
        stats = model.statistics(state, of_words, doc_nodes, float(tokens.sum()), 0.0)
        state = model.update(state, stats)
    return Start(state, stats)


def fold_leaves(
    parent: list[int], place: Ints, tokens: Array, most: float
) -> tuple[list[int], Ints]:
    """Merge the lightest leaves of a start into parents until `most` nodes are left."""
    above, place = np.array(parent), place.copy()
    held = np.bincount(place, np.maximum(tokens, 0.0), len(parent))
    n_children = np.bincount(above[1:], minlength=len(parent))
    stays = np.ones(len(parent), dtype=bool)
    while stays.sum() > max(most, 1.0):
        leaves = np.flatnonzero(stays & (n_children == 0))
        gone = leaves[held[leaves].argmin()]
        stays[gone] = False
        place[place == gone] = above[gone]
        held[above[gone]] += held[gone]
        n_children[above[gone]] -= 1
    new = np.cumsum(stays) - 1
    kept = np.flatnonzero(stays)
    return [-1, *new[above[kept[1:]]].tolist()], new[place]


def _split(tree: Tree, leaf: Ints, topics: Array) -> tuple[Array, sp.csr_array]:
    """Divide the tokens of topics over their paths: words of nodes, and shares.

    `topics` are counts (K, n_words). Shares are those of each topic's tokens in nodes,
    (K, n_nodes).
    """
    words = np.zeros((len(tree), topics.shape[1]))
    np.add.at(words, leaf, topics)
    pooled = tree.accumulate(words)
    pooled /= np.maximum(pooled.sum(axis=1, keepdims=True), 1e-300)
    split, shares = np.zeros_like(words), sp.lil_array((len(topics), len(tree)))
    above = ancestors(tree)
    for k, node in enumerate(leaf.tolist()):
        path = above.indices[above.indptr[node] : above.indptr[node + 1]]
        among = pooled[path]
        lowest = np.minimum.accumulate(among[::-1], axis=0)[::-1]
        excess = np.diff(lowest, axis=0, prepend=0.0)
        parts = excess / np.maximum(lowest[-1], 1e-300)
        parts += among / np.maximum(among.sum(axis=0), 1e-300)
        parts *= 0.5 * topics[k]
        split[path] += parts
        sums = parts.sum(axis=1)
        shares[k, path] = sums / max(sums.sum(), 1e-300)
    return split, sp.csr_array(shares)
