"""Merges of nodes of dependent trees: pairs of a part are ranked, the best judged.

Gain of the bound by merging two nodes of dependent trees, from nodes near them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy

from skbnp.inference.executor import Run
from skbnp.inference.trials import without_overlap
from skbnp.kernels import _sticks as stick_kernels
from skbnp.models.dependent_trees.epoch import LEAST_EVIDENCE, PAUSE_ROWS
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.records import Products, Record, exchange, merge
from skbnp.models.dependent_trees.state import (
    EpochState,
    EpochStats,
    TreePriors,
    direction_bound,
    log_normaliser_gain,
)
from skbnp.models.dependent_trees.updates import update_rows
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Flags, Ints


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


#: Nats below zero down to which merges are judged by exact differences.
SLACK = 20.0
#: Nats that sticks do not gain by a merge, and beyond them by which the ranking is
#: seldom too low.
MOST_STICKS, MOST_OFF = 200.0, 200.0
#: Targets of a node that are judged, the best of the ranking.
N_TARGETS = 2
#: Pairs that are ranked at a time, and at least those of one node.
PAIRS_PER_BLOCK = 1 << 19


@dataclass(frozen=True, slots=True)
class MergeProposal:
    """A merge, the past that is kept, and the entropy that rows may lose by it."""

    source: int
    target: int
    past_of: Literal["source", "target"]  # that the merged node keeps
    lost: float
    evidence: float = 0.0  # nats that it needs beyond, where a topic with rows ends

    @property
    def least(self) -> float:
        """Least rise of the bound, in nats."""
        return self.lost + self.evidence

    @property
    def records(self) -> tuple[Record, ...]:
        """The records to replay."""
        source, target = self.source, self.target
        if self.past_of == "target":
            return (merge(source, target),)
        return exchange((source, target), (target, source)), merge(target, source)


def propose_merges(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    products: Products,
    parity: int,
    test: Literal["safe", "lax"],
    losses: "EntropyLosses",
    stays: Ints,
    run: Run = map,
) -> list[MergeProposal]:
    """Propose disjoint merges in the units of a parity, each of which gains by itself.

    If both nodes have a past the better one is kept: a topic that ended may still have
    a few rows, and the place above another. `stays` are positions of nodes that do not
    merge, and no node with a past merges into these.

    Each comes with the entropy that rows may lose by it; a lax test ignores this. If a
    topic ends by it, as much evidence is needed as for a birth. No node is in two of
    the merges. In a unit those of larger gain come first; `run` maps over units, whose
    merges are independent except for sticks and for terms of a node and its parent.
    """
    tree = state.tree
    units = merge_units(tree, parity)
    heavy = tree.accumulate(stats.masses + state.history)
    # What was there before has a name that users know.
    old = state.places_with_past
    heavy[old] += 2.0 * heavy[0] + 1.0
    merges = np.ones(len(tree), dtype=bool)
    merges[stays] = False
    sources, targets = _ranked(tree, np.flatnonzero(merges), units, heavy, products)
    may = merges[targets] | (state.past[sources] < 0)
    sources, targets = sources[may], targets[may]
    gains = products.exact_merges(sources, targets)
    gains += stick_gains(state, priors, sources, targets)
    likely = np.flatnonzero(gains > -SLACK)

    def judge(unit: int) -> list[MergeProposal]:
        judged = []
        for at in likely[units[sources[likely]] == unit].tolist():
            both = int(tree.ids[sources[at]]), int(tree.ids[targets[at]])
            rise, past_of = _best_merge(state, stats, priors, *both)
            lost = losses.of(*both, rise) if test == "safe" else 0.0
            if rise.gain > lost or (test == "lax" and rise.gain == 0.0):
                evidence = _evidence_of_end(state, stats, *both)
                proposal = MergeProposal(*both, past_of, lost, evidence)
                judged.append((rise.gain - lost, proposal))
        judged.sort(key=lambda one: (-one[0], one[1].source, one[1].target))
        proposals = [one for _, one in judged]
        return without_overlap(proposals, lambda one: {one.source, one.target})

    some = np.unique(units[sources[likely]])
    return [one for proposals in run(judge, some) for one in proposals]


def merge_units(tree: Tree, parity: int) -> Ints:
    """Unit of each node in odd (1) or even (0) merges, section 4 of Hu et al. (2015).

    It is the position of the node's owner: every copy of a tree has the same units. A
    node at a depth of this parity owns its children and grandchildren. Nodes without
    an owner above, the root and in odd merges its children, are one more unit, -1. So
    units are disjoint, contain whole lists of siblings, and nodes of a depth of this
    parity together with their parents: merges with siblings or with those parents stay
    in a unit. Merges that odd units lack are in even ones.
    """
    if parity not in (0, 1):
        raise ValueError(f"parity must be 0 or 1, got {parity!r}.")
    parent, depth = tree.parent, tree.depth
    owner = np.where((depth - 1) % 2 == parity, parent, parent[parent])
    owner[depth == 0] = -1
    if parity == 1:
        owner[depth == 1] = -1
    return owner


def _best_merge(
    state: EpochState, stats: EpochStats, priors: TreePriors, source: int, target: int
) -> tuple[MergeGain, Literal["source", "target"]]:
    """Gain of a merge of an epoch's nodes, and whose past the merged node keeps."""
    both = source, target
    rise = merge_gain(state, stats, priors, *both)
    if (state.past[state.tree.positions(both)] >= 0).all():
        other = merge_gain(state, stats, priors, *both, past_of="source")
        if other.gain > rise.gain:
            return other, "source"
    return rise, "target"


def _evidence_of_end(
    state: EpochState, stats: EpochStats, source: int, target: int
) -> float:
    """Nats that a merge needs if one of two topics with a past ends.

    Zero if one has few rows. Of topics that come near each other for one epoch one
    would end in it, and start again in the next.
    """
    both = state.tree.positions([source, target])
    if (state.past[both] >= 0).all() and (stats.masses[both] >= PAUSE_ROWS).all():
        return LEAST_EVIDENCE
    return 0.0


@dataclass(frozen=True, slots=True)
class EntropyLosses:
    """Entropy that rows lose by merging two of their nodes, additive over rows.

    For each row in the cache it is (a + b) log(a + b) - a log a - b log b; for others
    the bound of `merge_gain` is used.
    """

    pairs: NDArray[np.int64]  # (n_pairs, 2) ids, the smaller first, in order
    values: Array  # (n_pairs,)
    has_others: bool = False

    @classmethod
    def of_rows(cls, memo: Memo) -> "EntropyLosses":
        """Sum over rows that have a part in two nodes."""
        keys, values = [np.empty((0, 2), dtype=np.int64)], [np.empty(0)]
        rows = np.flatnonzero(memo.weights[:, 1] > 0.0)  # the best come first
        some = memo.taken(rows)
        shares = some.shares()
        for one, other in combinations(range(shares.shape[1]), 2):
            both = np.flatnonzero((shares[:, one] > 0.0) & (shares[:, other] > 0.0))
            a, b = shares[both, one], shares[both, other]
            pair = some.nodes[both][:, [one, other]].astype(np.int64)
            keys.append(np.sort(pair, axis=1))
            values.append(xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b))
        return cls._summed(np.concatenate(keys), np.concatenate(values))

    def plus(self, other: "EntropyLosses") -> "EntropyLosses":
        """Add the losses of two sets of rows."""
        pairs = np.concatenate([self.pairs, other.pairs])
        return self._summed(pairs, np.concatenate([self.values, other.values]))

    @classmethod
    def _summed(cls, pairs: NDArray[np.int64], values: Array) -> "EntropyLosses":
        """Sum values of equal pairs."""
        distinct, at = np.unique(pairs, axis=0, return_inverse=True)
        sums = np.bincount(at.ravel(), values, len(distinct))
        return cls(distinct, sums.astype(np.float64, copy=False))

    def of(self, source: int, target: int, result: MergeGain) -> float:
        """Entropy that rows lose by a merge, or an upper bound of it."""
        if self.has_others:
            return result.most_lost
        first, second = sorted((source, target))
        begin, end = np.searchsorted(self.pairs[:, 0], [first, first + 1])
        at = begin + int(np.searchsorted(self.pairs[begin:end, 1], second))
        is_known = at < end and self.pairs[at, 1] == second
        return min(float(self.values[at]), result.most_lost) if is_known else 0.0


def _ranked(
    tree: Tree, nodes: Ints, units: Ints, heavy: Array, products: Products
) -> tuple[Ints, Ints]:
    """Candidate pairs, the lighter into the heavier sibling, or into the parent.

    The best of each node by rank, of equal ones the first. Nodes with a past count as
    heavier than any without.
    """
    best_pairs: list[tuple[Ints, Ints, Array]] = []
    for sources, targets, n_targets in _iterate_pairs(tree, nodes):
        gains = np.full(len(sources), -np.inf)
        can = _can_merge(tree, sources, targets, units, heavy)
        gains[can] = products.merges(sources[can], targets[can])
        gains[~(gains > -MOST_STICKS - MOST_OFF)] = -np.inf
        firsts = np.cumsum(n_targets) - n_targets
        for _ in range(N_TARGETS):
            best = np.maximum.reduceat(gains, firsts)
            as_good = np.flatnonzero(gains == np.repeat(best, n_targets))
            at = as_good[np.searchsorted(as_good, firsts)][best > -np.inf]
            best_pairs.append((sources[at], targets[at], gains[at]))
            gains[at] = -np.inf
    sources, targets, gains = map(np.concatenate, zip(*best_pairs, strict=True))
    order = np.lexsort((targets, -gains, sources))
    return sources[order], targets[order]


def _can_merge(
    tree: Tree, sources: Ints, targets: Ints, units: Ints, heavy: Array
) -> Flags:
    """Whether pairs may merge: into the heavier sibling, or into a parent as heavy."""
    into_parent = tree.parent[sources] == targets
    # The earlier of equally heavy siblings stays.
    lighter = (heavy[sources] < heavy[targets]) | (
        (heavy[sources] == heavy[targets]) & (sources > targets)
    )
    return np.where(
        into_parent,
        (units[sources] == units[targets]) & (heavy[sources] <= heavy[targets]),
        lighter & (sources != targets),
    )


def _iterate_pairs(tree: Tree, nodes: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield pairs of each node with its parent and with all siblings, in blocks.

    Yields sources, targets, and the number of targets of each source; pairs of a source
    are adjacent, by the position of the target, that of the parent first. In a flat
    tree there are as many pairs as the square of its nodes, hence the blocks.
    """
    nodes = nodes[nodes > 0]
    nodes = nodes[np.argsort(tree.parent[nodes], kind="stable")]
    _, begins = np.unique(tree.parent[nodes], return_index=True)
    counts = np.diff(begins, append=len(nodes))
    begins, n_targets = np.repeat(begins, counts), np.repeat(counts, counts) + 1
    ends = np.flatnonzero(np.diff((np.cumsum(n_targets) - 1) // PAIRS_PER_BLOCK)) + 1
    for block in np.split(np.arange(len(nodes)), ends):
        sizes = n_targets[block]
        within = np.arange(int(sizes.sum())) - np.repeat(
            np.cumsum(sizes) - sizes, sizes
        )
        sources = np.repeat(nodes[block], sizes)
        siblings = nodes[np.repeat(begins[block], sizes) + within - 1]
        yield sources, np.where(within == 0, tree.parent[sources], siblings), sizes


# Exchanges of the pasts of nodes of dependent trees: which node continues which.
#
# When an epoch begins, rows of a topic that has drifted may be nearer to the past of
# another topic: then that node has the rows of both, and the topic's own node has none.
# A birth separates the rows, but leaves wrong names: the new node has no past, and a
# past has no rows. So nodes exchange their names, pasts and shares of past rows if the
# bound rises; rows, positions and directions stay. A node that has ended, in this epoch
# or one of three before, may have ended because its rows were taken for those of
# another one: a node that began since takes its name, or hands it on. The assignment of
# pasts that is best if all directions but one are fixed is found at once, and made
# cycle by cycle.


#: Nats that each node of an exchange gains at least: their directions are updated
#: with it, and two would change pasts for ever.
LEAST_GAIN = 1.0
#: More nats than anything gains.
HUGE = 1e12


def past_gains(state: EpochState, products: Products, of_pasts: Array) -> Array:
    """Gains of directions if a node has another past, (n_nodes, n_nodes + n_ended).

    Rows are nodes, columns pasts: of nodes, then of those that have ended, if a node
    that began could replace one; the products of pasts with each other are given. The
    direction of the node is updated, all others are fixed.
    """
    everywhere = np.arange(len(state.tree))
    ended = state.ended if (state.past < 0).any() else everywhere[:0]
    if products.past is None or products.of_previous is None:
        return np.zeros((len(everywhere), len(everywhere) + len(ended)))
    k1 = state.prior_concentration * products.parent_weights[:, None]
    k2 = state.prior_concentration * products.priors.past_weight
    # E_e'mu_p; last: of what is above the root.
    along = np.hstack([products.past.T, products.of_previous[ended].T])
    pasts = np.concatenate([state.past, ended])
    has_past, there = state.past[:, None] >= 0, pasts >= 0
    both = np.where(has_past & there, of_pasts[np.ix_(state.past, pasts)], 0)
    naturals = products.naturals
    shares, spreads = naturals.shares[:, None], naturals.spreads[:, None]
    eta, of_means = naturals.lengths, np.maximum(naturals.mean_lengths, 1e-300)
    with_own = (eta / of_means)[:, None] * along[:-1]
    own = np.diagonal(with_own)[:, None]
    squares = eta[:, None] ** 2 + 2.0 * k2 * (with_own - own)
    squares += k2**2 * (has_past * 1.0 + there[None] - 2.0 * both)
    counts = np.maximum(squares, 0.0) * shares**2 + spreads
    rho = k1**2 + there[None] * (k2**2 + 2.0 * k1 * k2 * along[state.tree.parent])
    worth = log_normaliser_gain(rho, state.dimension)
    worth -= log_normaliser_gain(counts, state.dimension) / shares
    return np.asarray(worth - np.diagonal(worth)[:, None])


def propose_exchanges(
    state: EpochState, gains: Array, most_lost: float = 0.0
) -> list[Record]:
    """Cycles of the best assignment of pasts to nodes, the largest gain first.

    Only directions decide which past a node has: if one topic ends as another begins,
    shares of rows would give the new one any past. The root, which cannot end, takes no
    new name. `gains` are those of `past_gains`; directions lose at most `most_lost`
    nats by a cycle in which a node that has ended is revived.
    """
    if len(state.places_with_past) == 0:
        return []
    names = _assigned(gains, state, most_lost)
    ids = np.concatenate([state.tree.ids, state.past_ids[state.ended]])
    proposals = []
    for cycle in _cycles_and_chains(names):
        gain = float(gains[cycle, names[cycle]].sum())
        both = ids[cycle].tolist(), ids[names[cycle]].tolist()
        record = exchange(tuple(both[0]), tuple(both[1]))
        if gain >= (-most_lost if record.kind == "revive" else 0.0):
            proposals.append((gain, record))
    proposals.sort(key=lambda one: (-one[0], one[1].parents))
    return [record for _, record in proposals]


def _assigned(gains: Array, state: EpochState, worth_of_return: float) -> Ints:
    """Past of each node in the best assignment; the root has one.

    All nodes with a past remain; some that began since may be replaced by nodes that
    ended, each of which counts as a gain of `worth_of_return` nats.
    """
    n_nodes, n_ended = len(gains), gains.shape[1] - len(gains)
    gains = np.vstack([gains, np.zeros((n_ended, gains.shape[1]))])
    new = np.setdiff1d(np.arange(1, n_nodes), state.places_with_past)
    gains[:n_nodes, n_nodes:] += worth_of_return
    gains[0, new] = -HUGE
    gains[n_nodes:, state.places_with_past] = -HUGE
    gains += LEAST_GAIN * np.eye(len(gains))
    _, names = linear_sum_assignment(gains, maximize=True)
    return np.asarray(names)[:n_nodes]


def _cycles_and_chains(names: Ints) -> list[Ints]:
    """Cut an assignment into cycles, and chains to names of nodes that have ended."""
    places = np.arange(len(names))
    seen, cycles = np.zeros(len(names), dtype=bool), []
    firsts = np.setdiff1d(places, names)  # of chains: no node has their names
    for first in [*firsts.tolist(), *np.flatnonzero(names != places).tolist()]:
        cycle, place = [], first
        while place < len(names) and not seen[place]:
            seen[place] = True
            cycle.append(place)
            place = int(names[place])
        if cycle:
            cycles.append(np.array(cycle))
    return cycles
