"""Pruning of the nested HDP: leaves that no document uses join their parents."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.components.statistics import WordTopics
from skbnp.models.nested_hdp.model import MixedTree, NestedHDPModel, NestedStats
from skbnp.utils.typing import Array, Ints

#: Expected tables M_c of a leaf that no document uses.
UNUSED = 0.5


def prune(
    model: NestedHDPModel, state: MixedTree, stats: NestedStats[WordTopics]
) -> tuple[MixedTree, NestedStats[WordTopics], list[tuple[int, int]]]:
    """The tree without leaves that no document uses, and its statistics.

    And pairs of ids: a leaf, and the node that it is merged into. A leaf whose siblings
    have all ended is merged into its parent too, unless that is the root.
    """
    into = joined(state, stats.tables)
    tree, stays = state.tree, into == np.arange(len(into))
    if stays.all():
        return state, stats, []
    pairs = [
        (int(tree.ids[leaf]), int(tree.ids[into[leaf]]))
        for leaf in np.flatnonzero(~stays)[::-1].tolist()
    ]
    for leaf, _ in pairs:  # the deepest first
        tree = tree.remove(leaf)
    column = (np.cumsum(stays) - 1)[into]
    member = sp.csr_array((np.ones(len(into)), (np.arange(len(into)), column)))
    words = stats.topic_words
    stats = replace(
        stats,
        topic_words=WordTopics(words.seen_counts() @ member, words.seen),
        tables=stats.tables[stays],
        growth=stats.growth[stays],
    )
    state = replace(
        state,
        tree=tree,
        weights=state.weights[stays],
        concentrations=state.concentrations[: max(tree.max_depth, 1)],
    )
    return model.update(state, stats), stats, pairs


def joined(state: MixedTree, tables: Array) -> Ints:
    """Position of the node that takes the tokens of each node, (n_nodes,)."""
    parent, n = state.tree.parent, len(state.tree)
    into, n_children = np.arange(n), np.bincount(parent[1:], minlength=n)
    had = n_children.copy()
    for node in range(n - 1, 0, -1):  # children before their parents
        if n_children[node] == 0 and tables[node] < UNUSED:
            into[node] = parent[node]
            n_children[parent[node]] -= 1
    for node in range(n - 1, 0, -1):
        above = parent[node]
        is_alone = above > 0 and n_children[above] == 1 < had[above]
        if into[node] == node and n_children[node] == 0 and is_alone:
            into[node] = above
            n_children[above] = 0
    for node in range(n):  # parents before their children
        into[node] = into[into[node]]
    return into
