"""Births of nodes of dependent trees from some of the rows of another node.

Of the rows of a target those with q(z = target) >= 1 / sqrt(n_nodes) are collected, at
most a thousand, by a hash of step, target and number of the row: the choice does not
depend on how rows are divided into parts. A new child of the target starts near one
row, a seed, and takes the rows that fit; the target is updated, all else is fixed. The
best of some seeds is born if the bound rises, in epochs with a past by log 1000. In
this bound rows count once: their former statistics are subtracted as they join it.
Births as in section 3 of Hu et al. (2015) leave their rows counted twice until the next
pass is over, and have no bound until then; theirs start in a direction that may be far
from all rows. With `EpochMoves.paper` they are always accepted, as there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.distributions import expansion
from skbnp.inference.executor import Run
from skbnp.kernels._births import find_birth
from skbnp.models.dependent_trees.epoch import EpochMoves
from skbnp.models.dependent_trees.local import Memo, Naturals, sum_rows
from skbnp.models.dependent_trees.records import Record, birth
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.updates import natural_of
from skbnp.trees import Tree
from skbnp.utils.typing import Ints

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
        return birth(self.target, self.new, self.ids, self.change)


def row_keys(step: int, target: int, rows: Ints) -> NDArray[np.uint64]:
    """Keys of rows: a hash of step, target and row.

    Bits are mixed as by splitmix64, Steele, Lea and Flood (2014).
    """
    key = np.zeros(1, dtype=np.uint64)
    for part in (np.array([step]), np.array([target]), rows):
        key = key + part.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        key ^= key >> np.uint64(31)
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
        X.indptr.astype(np.int32, copy=False),
        X.indices.astype(np.int32, copy=False),
        X.data.astype(np.float32, copy=False),
        tree.positions(known),
        memo.weights,
        state.means,
        natural_of(state, stats, priors, int(tree.parent[place])),
        naturals.lengths,
        naturals.mean_lengths,
        naturals.shares,
        naturals.spreads,
        tree.parent,
        state.masses,
        state.history,
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
