"""Start of an epoch of dependent trees: each row at one node, chosen one by one.

With thousands of features a node's mean is so near to its rows that none would leave,
and the result of soft assignments depends on where they start. So before the local
steps by which the bound rises, rows choose their nodes by scores without their own
part. First in some collapsed steps of all rows at once (`NodeTable.collapsed`), by
which nodes follow their rows from the epoch before. Then one by one: given the nodes of
all others, a row goes to the best node e by

    log E pi_e + h(|n_e + beta x|; v_e) - h(|n_e|; v_e),

n_e being the natural parameter without the row, see `directions`; or to a new child of
a node, of which n is kappa0 k1 E_e. The sampler of the model draws from this
distribution, [1]; here its mode is taken, as Dhillon, Guan and Kogan (2002) move rows
between clusters of spherical k-means one by one. Statistics of a row are left out of
the means of the nodes above, too, and so of the priors of their children: else all
nodes near its own would have high scores. Tree and globals are updated after each pass
over the rows.

In an epoch with a past a new node must be better by the evidence that a birth needs. If
rows of a new topic join those of another, whose direction then follows them, that
topic's own rows would leave it. So after the first step, when these rows are at one
node, births are tried; rows then choose nodes with and without the births, and the
result with the higher bound is kept.

[1] Dubey, Ho, Williamson and Xing, "Dependent nonparametric trees for dynamic
hierarchical clustering", 2014.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.distributions import expansion
from skbnp.inference.executor import Run
from skbnp.inference.posterior import Lineage
from skbnp.inference.shards import Shard, Shards
from skbnp.kernels import _assignments as kernels
from skbnp.models.dependent_trees import epoch, records
from skbnp.models.dependent_trees import moves as kinds
from skbnp.models.dependent_trees.epoch import EpochModel, EpochMoves
from skbnp.models.dependent_trees.local import Memo, Naturals, NodeTable, update_local
from skbnp.models.dependent_trees.moves import Collected, Proposed
from skbnp.models.dependent_trees.state import EpochState, EpochStats
from skbnp.models.dependent_trees.updates import natural_of, node_sums
from skbnp.trees import Tree
from skbnp.utils.typing import Ints, Ints32

#: Collapsed steps of all rows, and passes in which they choose nodes one by one.
N_VISITS, N_PASSES = 3, 4
#: Turns of priors and directions after each.
PRIOR_TURNS = 1
#: Nodes that one pass may open: as a share of those that are there, and the least.
NEW_SHARE, LEAST_NEW = 0.5, 64
#: Nodes up to which new ones are opened, as a multiple of the square root of the number
#: of rows: pairs of nodes are then as many as rows, times a constant.
MOST_NODES = 24.0
#: Nodes whose natural parameters are made at a time.
N_NODES = 64


@dataclass(frozen=True, slots=True)
class Assigned:
    """Globals of an epoch whose rows are at one node each."""

    model: EpochModel
    state: EpochState
    stats: EpochStats  # of these rows and of others
    others: EpochStats
    nodes: Ints  # (n_rows,) ids

    @property
    def bound(self) -> float:
        """The bound of the globals and these assignments, in nats."""
        return self.model.bound(self.state, self.stats)

    def lineage_since(self, tree: Tree, step: int) -> list[Lineage]:
        """Entries of births and ends of nodes since `tree`."""
        now, result = self.state.tree, []
        for place in np.argsort(now.depth, kind="stable")[1:].tolist():
            node, above = int(now.ids[place]), int(now.ids[now.parent[place]])
            if node not in tree:
                result.append(Lineage(step, "birth", (above,), (above, node)))
        gone = np.setdiff1d(tree.ids, now.ids).tolist()
        return [*result, *(Lineage(step, "prune", (node,), ()) for node in gone)]


def assign_rows(
    model: EpochModel,
    state: EpochState,
    others: EpochStats,
    X: sp.csr_array,
    moves: EpochMoves | None,
    max_components: float,
    rng: np.random.Generator,
    run: Run = map,
) -> Assigned:
    """Assign each row of an epoch to one node, and update the globals.

    `others` are statistics of rows that stay where they are, by the same tree; `X`
    are rows of length one, (n_rows, V) in single precision. Without `moves` no node
    is opened, and none beyond `max_components`; leaves without rows end in any
    case. `rng` draws the order in which rows choose, and `run` maps over blocks of
    rows, on which the result does not depend.
    """
    n_rows = X.shape[0] + float(others.masses.sum())
    most = min(max_components, MOST_NODES * n_rows**0.5)
    if moves is None or not moves.birth or moves.algorithm == "paper":
        moves, most = None, 0.0
    first, memo = _score_all(model, state, others, X, run)
    starts = [first]
    if moves is not None and len(state.places_with_past):
        proposals = _propose_births(first, memo, X, moves, rng, run)
        proposals = proposals[: int(max(most - len(first.state.tree), 0))]
        if proposals:
            starts.append(_with_births(first, proposals))
        del proposals
    del first, memo
    rows = _Rows.of(X)
    result = _choose_nodes(starts.pop(0), X, rows, most, rng, run)
    if starts:
        born = _choose_nodes(starts.pop(), X, rows, most, rng, run)
        result = born if born.bound > result.bound else result
    return result


def _score_all(
    model: EpochModel, state: EpochState, others: EpochStats, X: sp.csr_array, run: Run
) -> tuple[Assigned, Memo]:
    """Run a collapsed step of all rows, their own parts left out; update the globals.

    Rows are assigned to the nodes of largest weight; the memo has all weights.
    """
    table = NodeTable.collapsed(state, model.priors)
    memo, stats = update_local(table, X, run=run)
    result = _updated(model, state, others.plus(stats), others)
    gone = np.setdiff1d(state.tree.ids, result[1].tree.ids).tolist()
    memo = records.replay_memo(memo, dict.fromkeys(gone, -1))
    return Assigned(*result, memo.nodes[:, 0].astype(np.intp)), memo


def _choose_nodes(
    start: Assigned,
    X: sp.csr_array,
    rows: "_Rows",
    most: float,
    rng: np.random.Generator,
    run: Run,
) -> Assigned:
    """Run collapsed steps; then rows choose one by one among at most `most` nodes."""
    for _ in range(1, N_VISITS):
        start = _score_all(start.model, start.state, start.others, X, run)[0]
    model, state, others, nodes = start.model, start.state, start.others, start.nodes
    stats = _sums_of_nodes(state.tree, others, X, nodes)
    for _ in range(N_PASSES):
        n_new = max(int(NEW_SHARE * len(state.tree)), LEAST_NEW)
        n_new = int(min(n_new, max(most - len(state.tree), 0)))
        sequence = rng.permutation(X.shape[0])
        before, tree = nodes, state.tree
        state, nodes = _choose(model, state, stats, rows, nodes, sequence, n_new)
        if np.array_equal(nodes, before):
            break
        others = others.reindexed(tree, state.tree)
        model, state, stats, others = _updated(
            model, state, _sums_of_nodes(state.tree, others, X, nodes), others
        )
    return Assigned(model, state, stats, others, nodes)


def _propose_births(
    start: Assigned,
    memo: Memo,
    X: sp.csr_array,
    moves: EpochMoves,
    rng: np.random.Generator,
    run: Run,
) -> list[Proposed]:
    """Propose a new child of each node that has rows; the largest gain first."""
    model, state, stats, tree = start.model, start.state, start.stats, start.state.tree
    targets = tree.ids[stats.masses > kinds.LEAST_ROWS + epoch.NO_ROWS]
    targets = np.sort(targets).tolist()
    candidates = kinds.collect(memo, targets, len(tree), 0, 0, moves.birth_rows)
    lists = kinds.shared_out([rows for rows, _ in candidates], X.shape[0])
    collected = [
        Collected(target, rows, sp.csr_array(X[rows]), memo.taken(rows))
        for target, rows in zip(targets, lists, strict=True)
    ]
    given = state, stats, model.priors, collected, moves, model.least_gain
    return kinds.propose_births(*given, rng.spawn(len(collected)), run)


def _with_births(start: Assigned, proposals: list[Proposed]) -> Assigned:
    """Return the start with the rows of births at the new nodes."""
    tree, nodes = start.state.tree, start.nodes.copy()
    proposals = kinds.renumbered(proposals, tree)
    for one in proposals:
        nodes[one.rows] = one.memo.nodes[:, 0]
    made = [one.record for one in proposals]
    state, stats = records.replay(start.state, start.stats, start.model.priors, made)
    others = start.others.reindexed(tree, state.tree)
    return Assigned(start.model, state, stats, others, nodes)


def _updated(
    model: EpochModel, state: EpochState, stats: EpochStats, others: EpochStats
) -> tuple[EpochModel, EpochState, EpochStats, EpochStats]:
    """Remove empty leaves, update globals and priors, and re-index the others."""
    tree = state.tree
    while idle := records.propose_removals(state, stats):
        state, stats = records.replay(state, stats, model.priors, idle)
    state, stats = epoch.coordinate_ascent(model, state, stats)
    model, state = model.learn_priors(state, stats, PRIOR_TURNS)
    gone = dict.fromkeys(np.setdiff1d(tree.ids, state.tree.ids).tolist(), -1)
    return model, state, stats, others.reindexed(tree, state.tree, gone)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of an epoch over the words that occur in them."""

    indptr: Ints32
    columns: Ints32  # (nnz,) words, as numbered here
    values: NDArray[np.float32]
    words: Ints  # (n_words,) columns of the matrix

    @classmethod
    def of(cls, X: sp.csr_array) -> "_Rows":
        """Number the words of a matrix."""
        words, columns = np.unique(X.indices, return_inverse=True)
        return cls(
            X.indptr.astype(np.int32, copy=False),
            columns.astype(np.int32),
            X.data.astype(np.float32, copy=False),
            words.astype(np.intp),
        )


def _sums_of_nodes(
    tree: Tree, others: EpochStats, X: sp.csr_array, nodes: Ints
) -> EpochStats:
    """Sum the statistics of rows at their nodes, and those of others."""
    return others.plus(node_sums(X, tree.positions(nodes), len(tree)))


def _choose(
    model: EpochModel,
    state: EpochState,
    stats: EpochStats,
    rows: _Rows,
    nodes: Ints,
    sequence: Ints,
    n_new: int,
) -> tuple[EpochState, Ints]:
    """Move rows to their best nodes in a sequence; open at most `n_new` nodes."""
    tree, priors = state.tree, model.priors
    n_nodes = len(tree)
    shape = n_nodes + n_new
    naturals = Naturals.of(state, priors).by_position(tree)
    sticks = state.sticks(priors)

    def filled(values: NDArray, rest: float) -> NDArray:
        """Values by column with room for new nodes, which have `rest`."""
        result = np.full(shape, rest, dtype=values.dtype)
        result[:n_nodes] = values
        return result

    table, squares = np.zeros((len(rows.words), shape)), np.zeros(shape)
    for begin in range(0, n_nodes, N_NODES):
        some = range(begin, min(begin + N_NODES, n_nodes))
        vectors = np.stack([natural_of(state, stats, priors, place) for place in some])
        squares[some.start : some.stop] = np.einsum("ij,ij->i", vectors, vectors)
        table[:, some.start : some.stop] = vectors[:, rows.words].T
    lasting = (state.past >= 0) | (state.history > 0.0)
    parent, places = filled(tree.parent, -1), tree.positions(nodes)
    n_found = kernels.assign_rows(
        rows.indptr,
        rows.columns,
        rows.values,
        sequence,
        table,
        squares,
        filled(naturals.shares, 1.0),
        filled(naturals.spreads, 0.0),
        filled(np.log(sticks.mean_weights(tree)), -np.inf),
        filled(np.log(sticks.mean_weights_below(tree, priors)), -np.inf),
        filled(stats.masses + state.history, 0.0),
        filled(lasting.astype(np.uint8), 0),
        parent,
        places,
        n_nodes,
        state.concentration,
        state.prior_concentration * priors.parent_weight,
        model.least_gain,
        expansion(state.dimension),
    )
    new = tree
    for above in tree.ids[parent[n_nodes:n_found]].tolist():
        new = new.add(above)
    ids = np.append(tree.ids, np.arange(tree.next_id, new.next_id))
    return state.resized(new), ids[places]


# Random sample of the rows of dependent trees in shards, to choose nodes one by one.
#
# The sample does not depend on how rows are divided into shards.


#: Rows that are drawn at most, and rows for each cluster of a start at least.
SAMPLE, ROWS_PER_CLUSTER = 20_000, 10


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows with the smallest keys."""

    keys: NDArray[np.uint64]  # increasing
    X: sp.csr_array
    most: int

    def plus(self, other: "KeyedRows") -> "KeyedRows":
        """Return the rows of the smallest keys of both."""
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys, kind="stable")[: self.most]
        X = sp.csr_array(sp.vstack([self.X, other.X], format="csr"))
        return KeyedRows(keys[order], X[order], self.most)


def sample_rows(shard: Shard, broadcast: None, argument: tuple[int, int]) -> KeyedRows:
    """Task: draw rows of a shard by keys of their numbers."""
    seed, most = argument
    numbers = shard.first_row + np.arange(shard.X.shape[0])
    keys = kinds.row_keys(seed, 0, numbers)
    order = np.argsort(keys, kind="stable")[:most]
    return KeyedRows(keys[order], shard.X[order], most)


def draw_rows(shards: Shards, rng: np.random.Generator) -> sp.csr_array:
    """Draw rows of all shards, and send them to this process."""
    seed, numbers = int(rng.integers(1 << 62)), range(len(shards.n_rows))
    sample: KeyedRows = shards.total(sample_rows, numbers, None, (seed, SAMPLE))
    return sample.X
