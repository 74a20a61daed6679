"""Gain of the bound by merging two nodes of dependent trees, from nodes near them."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy

from skbnp.kernels import _sticks as stick_kernels
from skbnp.models.dependent_trees.bound import direction_bound
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.updates import update_rows
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints


@dataclass(frozen=True, slots=True)
class MergeGain:
    """Rise of the bound by a merge, in nats, with the entropy that rows may lose."""

    gain: float  # of the bound, but for the entropy that is lost
    most_lost: float  # that entropy is between 0 and this


def merged(
    state: EpochState, stats: EpochStats, priors: TreePriors, source: int, target: int
) -> tuple[EpochState, EpochStats]:
    """Return state and statistics with a node merged into a sibling or its parent.

    Nodes are given by id. Rows of both become rows of the target, whose q(theta) is
    updated once; children of the source come after its own. Entropies are added, which
    is too much for rows with a part in both: see `merge_gain`.
    """
    tree = state.tree.merge(source, target)
    place = state.tree.positions(source)
    places = state.tree.positions(tree.ids)
    at = tree.positions(target)
    new, kept = state.reordered(tree, places), stats.taken(places)
    for mine, all_of in (
        (new.history, state.history),
        (kept.masses, stats.masses),
        (kept.entropies, stats.entropies),
    ):
        mine[at] += all_of[place]
    row = sp.csr_array(([1.0], ([at], [0])), shape=(len(tree), 1))
    sums = sp.csr_array(kept.sums + row @ stats.sums[[place]])
    kept = replace(kept, sums=sums)
    new = replace(new, masses=kept.masses)
    update_rows(new, kept, priors, np.array([at]))
    return new, kept


def merge_gain(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    source: int,
    target: int,
    past_of: Literal["source", "target"] = "target",
) -> MergeGain:
    """Rise of the bound by `merged`, from the statistics of the nodes concerned alone.

    Both may have a past, of which the merged node keeps one.

    A row that has a and b of the two nodes loses (a + b) log(a + b) - a log a - b log b
    >= 0 of its entropy. That of all rows is at most M h(M_source / M), M = M_source +
    M_target, h the entropy of a coin, by Jensen's inequality, and at most what both
    have. The supplement of [1], Eq. (4), has this loss with the opposite sign, and
    merges wherever the gain is not negative, which can lower the bound.

    The sticks must have followed the masses (`update_sticks`). Time O(V) for each child
    of the two, and O(n_nodes).
    """
    tree = state.tree
    place, into = tree.positions([source, target]).tolist()
    top = into if tree.parent[place] == into else int(tree.parent[place])
    below = [np.flatnonzero(tree.parent == node) for node in (place, into)]
    near = np.unique(np.concatenate([[top, place, into], *below]))  # depth first
    (around,) = state.parents(np.array([top]))
    shape = Tree(tree.ids[near], tree.depth[near] - tree.depth[top])
    small = state.reordered(shape, near)
    centroid = state.centroid if top == 0 else np.zeros(state.width)
    small = replace(small, above=around, centroid=centroid)
    few, kept = stats.taken(near), small
    if past_of == "source":
        both, past = shape.positions([source, target]), small.past.copy()
        past[both] = past[both[::-1]]
        kept = replace(small, past=past)
    after = merged(kept, few, priors, source, target)
    gain = direction_bound(*after, priors) - direction_bound(small, few, priors)
    gain += float(stick_gains(state, priors, *tree.positions([[source], [target]]))[0])

    both = stats.masses[place] + stats.masses[into]
    share = stats.masses[place] / both if both > 0.0 else 0.0
    coin = -(xlogy(share, share) + xlogy(1.0 - share, 1.0 - share))
    entropy = stats.entropies[place] + stats.entropies[into]
    return MergeGain(float(gain), float(min(both * coin, entropy)))


def stick_gains(
    state: EpochState, priors: TreePriors, sources: Ints, targets: Ints
) -> Array:
    """Rise of the terms with sticks when nodes are merged into others, by pair.

    At its optimum a stick adds log B(posterior) - log B(prior), whatever the others.
    """
    result, work = np.empty(len(sources)), np.empty((2, len(state.tree)))
    stick_kernels.merge_gains(
        sources,
        targets,
        state.tree.parent,
        *state.tree.child_lists,
        state.masses,
        state.history,
        priors.stop_concentration,
        priors.child_concentration,
        work,
        result,
    )
    return result
