"""Moves of dependent trees: births, merges, exchanges of pasts, other parents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import xlogy

from skbnp.distributions import expansion
from skbnp.inference.executor import Run
from skbnp.inference.trials import Rejections, without_overlap
from skbnp.kernels._births import find_birth
from skbnp.kernels._special import log_gamma
from skbnp.kernels._sticks import beta_parameters, merge_gains
from skbnp.models.dependent_trees import records, updates
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees.epoch import LEAST_EVIDENCE, PAUSE_ROWS, EpochMoves
from skbnp.models.dependent_trees.local import Memo, Naturals, sum_rows
from skbnp.models.dependent_trees.records import Products, Record
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.trees import Tree
from skbnp.utils.arrays import entries_of, kernel_arrays, rows_of
from skbnp.utils.random import splitmix64
from skbnp.utils.typing import Array, Flags, Ints

# Births of nodes of dependent trees from some of the rows of another node.
#
# Of the rows of a target those with q(z = target) >= 1 / sqrt(n_nodes) are collected,
# at most a thousand, by a hash of step, target and number of the row: the choice does
# not depend on how rows are divided into parts. A new child of the target starts near
# one row, a seed, and takes the rows that fit; the target is updated, all else is
# fixed. The best of some seeds is born if the bound rises, in epochs with a past by
# log 1000. In this bound rows count once: their former statistics are subtracted as
# they join it. Births as in section 3 of Hu et al. (2015) leave their rows counted
# twice until the next pass is over, and have no bound until then; theirs start in a
# direction that may be far from all rows. With `EpochMoves.paper` they are always
# accepted, as there.


#: Seeds: rows that a new node is tried near, one by one. More of them in an epoch
#: without a past: a topic that is missed there would emerge in a later one.
N_SEEDS, FIRST_SEEDS = 2, 4
#: Share of the collected rows that it begins from, the nearest, and the least of them.
SHARE, LEAST_ROWS = 0.3, 2

#: Rows of births, increasing, and their assignments after these.
Joined = tuple[Ints, Memo]


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows of a target of a birth, and their present assignments."""

    target: int
    rows: Ints  # numbers in the epoch, increasing
    X: sp.csr_array
    memo: Memo


@dataclass(frozen=True, slots=True)
class Proposed:
    """A birth, the assignments of its rows after it, and the gain of the bound."""

    target: int
    new: int
    ids: Ints  # nodes whose statistics change, the new one included
    change: EpochStats  # in the order of `ids`
    rows: Ints
    memo: Memo
    gain: float

    @property
    def record(self) -> Record:
        """The birth to replay."""
        return records.birth(self.target, self.new, self.ids, self.change)


def row_keys(step: int, target: int, rows: Ints) -> NDArray[np.uint64]:
    """Keys of rows: a hash of step, target and row."""
    key = np.zeros(1, dtype=np.uint64)
    for part in (np.array([step]), np.array([target]), rows):
        key = splitmix64(key + part.astype(np.uint64))
    return key


def collect(
    memo: Memo,
    targets: Sequence[int],
    n_nodes: int,
    step: int,
    first_row: int,
    most: int,
) -> list[tuple[Ints, NDArray[np.uint64]]]:
    """Rows of each target in a part, those of the `most` smallest keys, and these keys.

    Targets with too few rows get none. Over several parts, the smallest keys of all are
    those of the whole.
    """
    nodes, weights = memo.nodes.ravel(), memo.weights.ravel()
    # Slots that have a target, by target and row; a row may have several.
    slots = np.flatnonzero((weights > 0.0) & np.isin(nodes, targets))
    slots = slots[np.argsort(nodes[slots], kind="stable")]
    begins = np.searchsorted(nodes[slots], targets)
    ends = np.searchsorted(nodes[slots], targets, side="right")
    # Single precision may keep all of a row a little below one.
    least = (1.0 / np.sqrt(n_nodes) - 1e-6) * memo.weights.sum(axis=1)
    drawn = []
    for target, begin, end in zip(targets, begins, ends, strict=True):
        own = slots[begin:end]
        rows, firsts = np.unique(own // memo.nodes.shape[1], return_index=True)
        shares = np.add.reduceat(weights[own], firsts) if len(own) else weights[:0]
        rows = rows[shares >= least[rows]] + first_row
        keys = row_keys(step, target, rows)
        order = np.argsort(keys, kind="stable")[:most]
        drawn.append((rows[order], keys[order]))
    return drawn


def shared_out(lists: Sequence[Ints], n_rows: int) -> list[Ints]:
    """Give each row to the first target that wants it; rows are increasing."""
    given, is_free = [], np.ones(n_rows, dtype=bool)
    for rows in lists:
        given.append(np.sort(rows[is_free[rows]]))
        is_free[rows] = False
    return given


def propose_birth(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    naturals: Naturals,
    collected: Collected,
    moves: EpochMoves,
    least_gain: float,
    rng: np.random.Generator,
) -> Proposed | None:
    """Propose a new child of a target, which takes some of its rows.

    None if the bound does not rise by more than `least_gain`, in nats, or if the child
    has less than one row. The sticks must have followed the masses
    (`update_sticks`); `naturals` go by position. The child's id is the next one of the
    tree. Time O(V) for the target and each of its children; O(n_nodes), and of the
    words of the rows, for each round of each seed.
    """
    n_rows, target = len(collected.rows), collected.target
    if n_rows <= LEAST_ROWS:
        return None
    tree, new = state.tree.add(target), state.tree.next_id
    place = int(tree.positions(new))
    memo, X = collected.memo, collected.X
    known = np.where(memo.weights > 0.0, memo.nodes, new)
    places, weights = np.empty(known.shape, np.intp), np.empty_like(memo.weights)
    gain = find_birth(
        *kernel_arrays(X.astype(np.float32, copy=False)),
        tree.positions(known),
        memo.weights,
        state.means,
        updates.natural_of(state, stats, priors, int(tree.parent[place])),
        naturals.lengths,
        naturals.mean_lengths,
        naturals.shares,
        naturals.spreads,
        tree.parent,
        np.insert(state.masses, place, 0.0),
        np.insert(state.history, place, 0.0),
        place,
        state.concentration,
        state.prior_concentration * priors.parent_weight,
        priors.stop_concentration,
        priors.child_concentration,
        rng.random(N_SEEDS if len(state.places_with_past) else FIRST_SEEDS),
        max(LEAST_ROWS, int(SHARE * n_rows)),
        moves.birth_rounds,
        places,
        weights,
        expansion(state.dimension),
    )
    if gain <= least_gain:
        return None
    nodes = np.where(weights > 0.0, tree.ids[places], -1).astype(np.int32)
    assignments = replace(memo, nodes=nodes, weights=weights)
    change = sum_rows(tree, assignments, X).plus(sum_rows(tree, memo, X), -1.0)
    concerned = np.flatnonzero(np.diff(change.sums.indptr) + (change.masses != 0.0))
    ids, change = tree.ids[concerned], change.taken(concerned)
    return Proposed(target, new, ids, change, collected.rows, assignments, gain)


def propose_births(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    collected: Sequence[Collected],
    moves: EpochMoves,
    least_gain: float,
    streams: Sequence[np.random.Generator],
    run: Run,
) -> list[Proposed]:
    """Propose a birth of each target, whose random stream it has; best first."""
    naturals = Naturals.of(state, priors).by_position(state.tree)
    given = state, stats, priors, naturals

    def propose(one: tuple[Collected, np.random.Generator]) -> Proposed | None:
        return propose_birth(*given, one[0], moves, least_gain, one[1])

    result = run(propose, list(zip(collected, streams, strict=True)))
    return sorted(filter(None, result), key=lambda one: -one.gain)


def join_rows(proposed: Sequence[Proposed]) -> Joined:
    """Return the rows of births, increasing, and their assignments."""
    rows = np.concatenate([one.rows for one in proposed])
    order = np.argsort(rows)
    return rows[order], Memo.joined([one.memo for one in proposed]).taken(order)


def renumbered(proposed: Sequence[Proposed], tree: Tree) -> list[Proposed]:
    """Give new nodes the next ids of a tree, in records and assignments."""
    result = []
    for new, one in enumerate(proposed, tree.next_id):
        ids = np.where(one.ids == one.new, new, one.ids)
        nodes = np.where(one.memo.nodes == one.new, new, one.memo.nodes)
        memo = replace(one.memo, nodes=nodes.astype(np.int32))
        result.append(replace(one, new=new, ids=ids, memo=memo))
    return result


# Merges of nodes of dependent trees: pairs of a part are ranked, the best judged.
#
# Gain of the bound by merging two nodes of dependent trees, from nodes near them.


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
    updates.update_rows(new, kept, priors, np.array([at]))
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
    gain = bound.direction_bound(*after, priors) - bound.direction_bound(
        small, few, priors
    )
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
    merge_gains(
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
MERGE_SLACK = 20.0
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
            return (records.merge(source, target),)
        return records.exchange((source, target), (target, source)), records.merge(
            target, source
        )


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
    likely = np.flatnonzero(gains > -MERGE_SLACK)

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
LEAST_EXCHANGE = 1.0
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
    worth = bound.log_normaliser_gain(rho, state.dimension)
    worth -= bound.log_normaliser_gain(counts, state.dimension) / shares
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
        record = records.exchange(tuple(both[0]), tuple(both[1]))
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
    gains += LEAST_EXCHANGE * np.eye(len(gains))
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


# Moves of nodes of dependent trees below other parents, and reversals of edges.
#
# Rows stay at their nodes, so that their entropy does not change and the difference
# of the bound follows from statistics. Births and merges alone leave nodes below
# where they were born. The term of two adjacent directions is the same whichever is
# the parent: the terms of the nodes above them alone decide, and a tree whose edge is
# the wrong way round needs a reversal, as nodes that are moved one by one would have
# to lose first.


#: Nats below zero down to which directions may lose: sticks gain some.
PARENT_SLACK = 1.0
#: Parents of a node that are judged, the best of the ranking.
N_PARENTS = 2
#: Nodes whose parents are ranked at a time: a row of gains of each is in memory.
N_NODES = 1024
#: Nats that a move gains at least, so that rounding moves nothing for ever.
LEAST_ATTACHMENT = 1e-6
#: Edges that are judged, the best of the ranking, and updates of both nodes for it.
N_EDGES, N_UPDATES = 6, 2
#: By how much less a node may point to what is above its parent than this does.
COSINE_SLACK = 0.05
#: Nats that the reversal of an edge gains at least: ends are nearly alike.
LEAST_REVERSAL = 1.0


def attachment_gains(
    state: EpochState, stats: EpochStats, priors: TreePriors, nodes: Ints, parents: Ints
) -> Array:
    """Rise of the bound if nodes become last children of others, each by itself.

    By pair; nodes are positions. The direction of a node is updated once, at both
    places. From statistics of the node and its children alone; time O(V) for each pair,
    and O(n_nodes). The sticks must have followed the masses (`update_sticks`).
    """
    first = np.flatnonzero(np.diff(nodes, prepend=-1))  # where pairs of a node begin
    old = state.tree.parent[nodes[first]]
    pairs = np.insert(nodes, first, nodes[first]), np.insert(parents, first, old)
    worths = _worths_below(state, stats, priors, *pairs)
    present = first + np.arange(len(first))
    gains = np.delete(worths, present)
    gains -= np.repeat(worths[present], np.diff(first, append=len(nodes)))
    for begin in range(0, len(nodes), N_NODES):
        some = slice(begin, begin + N_NODES)
        gains[some] += _attached_sticks(state, priors, nodes[some], parents[some])
    return gains


def _worths_below(
    state: EpochState, stats: EpochStats, priors: TreePriors, nodes: Ints, parents: Ints
) -> Array:
    """Terms of nodes, at their best below parents, and of their children, by pair.

    Without those that are the same below all parents.
    """
    tree, means, dimension = state.tree, state.means, state.dimension
    k1 = state.prior_concentration * priors.parent_weight
    k2 = state.prior_concentration * priors.past_weight
    children, limits = tree.child_lists
    entries, ends = entries_of(limits, nodes)
    below, pair = children[entries], rows_of(ends)
    here, places = np.unique(np.append(parents, below), return_inverse=True)
    inner = bound.inner_products(state, here)[:, places]
    squares, of_below = inner[0, : len(nodes)], inner[:, len(nodes) :]
    along, has_past = np.zeros(len(below)), state.past[below] >= 0
    lengths, along_past = np.empty((2, len(nodes)))
    for i, (node, parent) in enumerate(np.column_stack([nodes, parents]).tolist()):
        if i == 0 or node != nodes[i - 1]:
            rest = updates.natural_of(state, stats, priors, node)
            rest -= k1 * means[tree.parent[node]]
            square = rest @ rest
        lengths[i] = square + 2.0 * k1 * (rest @ means[parent])
        mine = slice(ends[i], ends[i + 1])
        if has_past[mine].any():
            pasts = state.previous[state.past[below[mine]]]
            along[mine] = pasts @ (rest + k1 * means[parent])
        if state.past[node] >= 0:
            along_past[i] = state.previous[state.past[node]] @ means[parent]
    lengths = np.sqrt(np.maximum(lengths + k1**2 * squares, 0.0))
    spreads = k1**2 * np.maximum(1.0 - squares, 0.0)
    given = lengths, spreads, np.sqrt(of_below[0]), ends, k1, dimension
    worths, best = bound.best_worths(*given)

    def rho(cosines: Array) -> Array:
        return k1**2 + k2**2 + 2.0 * k1 * k2 * cosines

    own = np.flatnonzero(state.past[nodes] >= 0)
    worths[own] += bound.log_normaliser_gain(rho(along_past[own]), dimension)
    # Of a child with a past the prior itself, not the slope that is in `rest`.
    along *= (best / np.maximum(lengths, 1e-300))[pair]
    slopes = -k1 * k2 * bound.bessel_slope(rho(of_below[4]), dimension)
    terms = bound.log_normaliser_gain(rho(along), dimension) - slopes * along
    worths += np.bincount(pair, np.where(has_past, terms, 0.0), len(nodes))
    return worths


def _attached_sticks(
    state: EpochState, priors: TreePriors, nodes: Ints, parents: Ints
) -> Array:
    """Rise of the log evidence of sticks if nodes become last children, by pair.

    Nodes above the old parent lose the rows of a node, those above the new one gain
    them, and so do their earlier siblings among the rows behind them.
    """
    tree, pairs = state.tree, np.arange(len(nodes))
    more = np.zeros((len(nodes), len(tree) + 1))  # how often these rows are added below
    more[pairs[:, None], tree.paths(parents)] += 1.0  # the last column is of no node
    more[pairs[:, None], tree.paths(tree.parent[nodes])] -= 1.0
    more = more[:, :-1]
    more[pairs, nodes] = -1.0
    later = bound.behind(tree, more) + (tree.parent == parents[:, None])
    more[pairs, nodes], later[pairs, nodes] = 0.0, 1.0
    pair, at = np.nonzero((more != 0.0) | (later != 0.0))
    more, later, is_last = more[pair, at], later[pair, at], at == nodes[pair]

    def evidence(own: Array, under: Array, rest: Array) -> Array:
        """Log evidence of both sticks of nodes by their rows, not below zero."""
        own, under = 1.0 + own, np.maximum(under, 0.0)
        stop = _log_beta(own, priors.stop_concentration + under)
        child = priors.child_concentration + np.maximum(rest, 0.0)
        return stop + _log_beta(own + under, child)

    gains = np.zeros(len(nodes))
    for sign, rows in ((1.0, state.masses + state.history), (-1.0, state.history)):
        through, parameters = tree.accumulate(rows), np.empty((4, len(tree)))
        beta_parameters(tree.parent, rows, 0.0, 0.0, parameters)
        rest, moved = parameters[3], through[nodes][pair]
        # Where all rows go away nothing is left, to the last bit.
        under = np.bincount(tree.parent[1:], through[1:], len(tree)).astype(float)
        new_rest = np.where(is_last, 0.0, rest[at] + later * moved)
        change = evidence(rows[at], under[at] + more * moved, new_rest)
        change -= evidence(rows, under, rest)[at]
        gains += sign * np.bincount(pair, change, len(nodes))
    return gains


def _log_beta(a: Array, b: Array) -> Array:
    """Log B(a, b) by element."""
    x = np.concatenate([a, b, a + b])
    logs = np.empty_like(x)
    log_gamma(x, logs, np.empty_like(x))
    one, other, both = np.split(logs, 3)
    return one + other - both


def _evidence_of_sticks(state: EpochState, tree: Tree, priors: TreePriors) -> float:
    """Log evidence of the sticks of another tree of the same nodes."""
    at = state.tree.positions(tree.ids)
    return bound.stick_evidence(tree, state.masses[at], state.history[at], priors)


def propose_attachments(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    products: Products,
    rejections: Rejections,
    n_passes: int,
) -> list[Record]:
    """Propose moves of nodes to other parents, the largest gain of the bound first.

    No node moves twice, and none goes below one that moves: together they leave a tree.
    Nodes with a past do not go deeper. Nodes and parents that gain nothing wait in
    `rejections` for some passes.
    """
    tree, least = state.tree, _least_gains(state, LEAST_ATTACHMENT)
    if len(tree) < 3:
        return []
    nodes, parents = _best_parents(tree, products)
    pairs = zip(tree.ids[nodes].tolist(), tree.ids[parents].tolist(), strict=True)
    keys = [("attachment", *pair) for pair in pairs]
    is_tried = [rejections.is_over(key, n_passes) for key in keys]
    tried, judged = np.flatnonzero(is_tried), []
    gains = attachment_gains(state, stats, priors, nodes[tried], parents[tried])
    for at, gain in zip(tried.tolist(), gains.tolist(), strict=True):
        _, node, parent = keys[at]
        if gain > least[nodes[at]]:
            judged.append((-gain, node, parent))
        else:
            rejections.add(keys[at], n_passes)
    return _compatible(tree, [(node, parent) for _, node, parent in sorted(judged)])


def _best_parents(tree: Tree, products: Products) -> tuple[Ints, Ints]:
    """Nodes and promising new parents, pairwise, by position."""
    nodes, everywhere = np.arange(1, len(tree)), np.arange(len(tree))
    best = np.empty((len(nodes), N_PARENTS), dtype=np.intp)
    worth = np.empty(best.shape)
    for begin in range(0, len(nodes), N_NODES):
        some = slice(begin, begin + N_NODES)
        gains = products.attachments(nodes[some], everywhere)
        rows = np.arange(len(gains))
        gains[rows, tree.parent[nodes[some]]] = -np.inf
        gains[_goes_deeper(tree, products, nodes[some])] = -np.inf
        for row, node in enumerate(nodes[some].tolist()):
            gains[row, node : node + tree.size[node]] = -np.inf
        for rank in range(N_PARENTS):
            proposals = gains.argmax(axis=1)
            best[some, rank], worth[some, rank] = proposals, gains[rows, proposals]
            gains[rows, proposals] = -np.inf
    is_near = worth > -PARENT_SLACK
    return nodes[np.nonzero(is_near)[0]], best[is_near]


def _goes_deeper(tree: Tree, products: Products, nodes: Ints) -> Flags:
    """Whether a node with a past would be deeper below each candidate parent.

    Given its past, only the change since then says what the parent of a direction is,
    and that is most similar in the nearest node: trees would become chains.
    """
    deeper = tree.depth[None] > tree.depth[tree.parent[nodes]][:, None]
    return np.asarray(products.has_past[nodes][:, None] & deeper)


def _least_gains(state: EpochState, least: float) -> np.ndarray:
    """Least gains of moves of nodes: more evidence if they have a past."""
    return np.where(state.past >= 0, LEAST_EVIDENCE, least)


def _compatible(tree: Tree, moves: list[tuple[int, int]]) -> list[Record]:
    """Return attachments on one tree that can be made together, in their order."""
    moving: set[int] = set()
    parents: set[int] = set()  # new ones, and all above them
    chosen = []
    for node, parent in moves:
        path = set(tree.path_to(parent).tolist())
        if node in moving | parents or path & moving:
            continue
        moving.add(node)
        parents |= path
        old = tree.parent_of(node)
        assert old is not None  # the root has no other parent
        chosen.append(records.attach(node, old, parent))
    return chosen


def reverse_gain(
    state: EpochState, stats: EpochStats, priors: TreePriors, node: int
) -> float:
    """Rise of the bound if a node takes the place of its parent.

    The directions of both are updated several times, at both places.
    """
    tree = state.tree
    place = int(tree.positions(node))
    parent = int(tree.parent[place])
    near = np.flatnonzero(np.isin(tree.parent, [parent, place]))
    near = np.sort(np.append(near, parent))
    shape = Tree(tree.ids[near], tree.depth[near] - tree.depth[parent])
    above = state.parents(np.array([parent]))[0]
    centroid = state.centroid if parent == 0 else np.zeros(state.width)
    edge = node, int(tree.ids[parent])

    def worth(shape: Tree) -> float:
        """Bound of an edge's two nodes in a tree of this shape, directions updated."""
        at = tree.positions(shape.ids)
        small = state.reordered(shape, at)
        small = replace(small, above=above, centroid=centroid)
        few = stats.taken(at)
        for _ in range(N_UPDATES):
            small = updates.update_nodes(small, few, priors, np.array(edge))
        return bound.direction_bound(small, few, priors)

    gain = worth(shape.reverse(*edge)) - worth(shape)
    gain += _evidence_of_sticks(state, tree.reverse(*edge), priors)
    return gain - _evidence_of_sticks(state, tree, priors)


def propose_reversals(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    products: Products,
    rejections: Rejections,
    n_passes: int,
) -> list[Record]:
    """Propose reversals of edges that raise the bound, no two adjacent, best first.

    Edges are ranked by the fit of each end to what is above them; those that gain
    nothing wait in `rejections` for some passes.
    """
    tree, places = state.tree, np.arange(1, len(state.tree))
    least = _least_gains(state, LEAST_REVERSAL)
    if len(places) == 0:
        return []
    parents = tree.parent[places]
    lengths = np.maximum(np.sqrt(np.diagonal(products.means)), 1e-300)
    over = tree.parent[parents]
    if state.centroid.any():
        of_root = state.means @ state.centroid
        along = np.where(parents == 0, of_root[places], products.means[places, over])
        other = np.where(parents == 0, of_root[0], products.means[parents, over])
    else:
        along, other = products.means[places, over], products.means[parents, over]
    scale = np.where(over >= 0, lengths[over], 1.0)
    better = (along / lengths[places] - other / lengths[parents]) / scale
    best = np.argsort(-better, kind="stable")[:N_EDGES]
    judged = []
    for at in best[better[best] > -COSINE_SLACK].tolist():
        node, parent = int(tree.ids[places[at]]), int(tree.ids[parents[at]])
        key = ("reversal", node, parent)
        if not rejections.is_over(key, n_passes):
            continue
        gain = reverse_gain(state, stats, priors, node)
        if gain > least[parents[at]]:
            judged.append((-gain, node, parent))
        else:
            rejections.add(key, n_passes)

    def near(judged: tuple[float, int, int]) -> set[int]:
        """Both nodes, the one above them, and all children of both."""
        _, node, parent = judged
        above = tree.path_to(parent).tolist()[-2:]
        children = map(tree.children_of, (parent, node))
        return {node, parent, *above, *np.concatenate([*children]).tolist()}

    chosen = without_overlap(sorted(judged), near)
    return [records.reverse(node, parent) for _, node, parent in chosen]
