"""The local step of dependent trees: weights of nodes for rows, under the globals.

    q(z = e) is proportional to exp(E log pi_e + beta E_e'x).

With thousands of features E_e is so near to the rows of e that none of them would
leave. So an epoch begins with collapsed steps, see `assignments`: the part that a row
has in E_e is left out, and theta_e integrated out given the other rows,

    q(z = e) is proportional to exp(E log pi_e + h(|n_e + beta x|) - h(|n_e|)),

n_e being the natural parameter without the row, see `directions`. The bound may fall in
such steps.

Of each row the eight best nodes are kept, as many as within 40 nats of the best: with
hundreds of words the ninth is hundreds of nats below. They are rounded to single
precision and made to add up to one before anything is summed over them, so that what a
memo returns has the bits of the step that made it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from skbnp.distributions import log_normaliser
from skbnp.inference.executor import Run
from skbnp.kernels._sphere import NEGLIGIBLE, TILE, score_rows
from skbnp.models.dependent_trees.state import (
    EpochState,
    EpochStats,
    TreePriors,
    bessel_slope,
    lengths_and_spreads,
    natural_lengths,
    row_gains,
)
from skbnp.trees import Tree
from skbnp.utils.arrays import padded
from skbnp.utils.typing import Array, Ints, Ints32

# Table of node scores that the local step of dependent trees reads, and their rise.


#: Relative rounding error of single precision.
UNIT = 2.0**-24
#: A score of which nothing is known.
ANYTHING = float(np.finfo(np.float32).max)
#: Tables since which it is known how far scores may have risen.
N_KEPT = 256


@dataclass(frozen=True, slots=True)
class Naturals:
    """Natural parameters of nodes as lengths along their means; columns go by id.

    If a node has children, a row moves its mean less: only a share of the natural
    parameter by priors and rows counts.
    """

    lengths: Array  # (n_nodes,) |n|, the share aside
    mean_lengths: Array  # (n_nodes,) |E|
    shares: Array  # (n_nodes,)
    spreads: Array  # (n_nodes,) v
    slopes: Array  # (n_nodes,) g
    dimension: int

    @classmethod
    def of(cls, state: EpochState, priors: TreePriors) -> "Naturals":
        """Compute natural parameters from the means of a state."""
        dimension = state.dimension
        lengths, spreads = lengths_and_spreads(state, priors)
        y = natural_lengths(lengths, spreads, dimension)
        slopes = bessel_slope(y * y + spreads, dimension)
        pull = state.prior_concentration * priors.parent_weight
        weights = np.bincount(
            state.tree.parent[1:], pull**2 * slopes[1:], len(state.tree)
        )
        shares = 1.0 / (1.0 + weights * slopes)
        places = cls(y / shares, lengths, shares, spreads, slopes, dimension)
        return places.taken(np.argsort(state.tree.ids))

    def taken(self, order: Ints) -> "Naturals":
        """Return the nodes in another order."""
        names = ("lengths", "mean_lengths", "shares", "spreads", "slopes")
        return replace(self, **{name: getattr(self, name)[order] for name in names})

    def by_position(self, tree: Tree) -> "Naturals":
        """Return the nodes in the order of the tree."""
        return self.taken(np.searchsorted(np.sort(tree.ids), tree.ids))

    def gains(self, columns: Ints, products: Array, own: Array, beta: float) -> Array:
        """Rise of the log normaliser of nodes if a row joins, (n_rows, n_columns).

        `products` are of rows and mean directions, `own` the shares of rows that are
        at the nodes already, and `beta` is the concentration of rows.
        """
        length = self.lengths[columns]
        scale = length / np.maximum(self.mean_lengths[columns], 1e-300)
        return row_gains(
            length**2,
            scale * products,
            own,
            beta,
            self.shares[columns],
            self.spreads[columns],
            self.dimension,
        )


@dataclass(frozen=True, slots=True)
class NodeTable:
    """What the local step reads of an epoch; columns go by id, new nodes last."""

    tree: Tree
    ids: Ints  # (n_nodes,) of columns, increasing
    directions: NDArray[np.float32]  # (n_tiles, n_columns, TILE) E
    log_weights: Array  # (n_tiles * TILE,) E log pi, -inf behind the last
    concentration: float  # beta
    naturals: "Naturals | None" = None  # for collapsed steps

    @classmethod
    def collapsed(cls, state: EpochState, priors: TreePriors) -> "NodeTable":
        """Return what rows read of an epoch in a collapsed step."""
        table = cls.of(state, priors)
        return replace(table, naturals=Naturals.of(state, priors))

    @classmethod
    def of(cls, state: EpochState, priors: TreePriors) -> "NodeTable":
        """Copy the means in single precision; unseen columns share one, of zeros."""
        n_nodes, n_columns = len(state.tree), state.n_columns
        places = np.argsort(state.tree.ids)
        n_tiles = -(-n_nodes // TILE)
        table = np.zeros((n_tiles, n_columns, TILE), dtype=np.float32)
        for tile in range(n_tiles):
            part = places[tile * TILE : (tile + 1) * TILE]
            table[tile, : state.width, : len(part)] = state.means[part].T
        log_weights = np.full(n_tiles * TILE, -np.inf)
        log_weights[:n_nodes] = state.log_weights(priors)[places]
        ids = state.tree.ids[places]
        return cls(state.tree, ids, table, log_weights, state.concentration)

    def columns(self, ids: NDArray[np.integer]) -> Ints:
        """Columns of nodes, -1 for those that are not there."""
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, at, -1)

    def rises(self, old: "NodeTable") -> Array:
        """Upper bound of the rise of scores of each node since an older table.

        |beta E - beta' E'| plus the rise of E log pi, for rows of length one, by
        column; infinite for new nodes. The error of single precision is added.
        """
        n_nodes, n_features = len(self.ids), self.directions.shape[1]
        rises, at_old = np.full(n_nodes, np.inf), old.columns(self.ids)
        beta, was_beta = np.float32(self.concentration), np.float32(old.concentration)
        relative = 1.0 + UNIT * n_features
        absolute = 4.0 * UNIT * float(max(beta, was_beta))
        for tile in range(len(self.directions)):
            part = slice(tile * TILE, min((tile + 1) * TILE, n_nodes))
            columns = part.start + np.flatnonzero(at_old[part] >= 0)
            was, lanes = at_old[columns], columns - part.start
            if len(was) and np.array_equal(was, columns):  # as they are stored
                now, then = self.directions[tile], old.directions[tile]
            else:
                now = self.directions[tile][:, lanes]
                then = old.directions[was // TILE, :, was % TILE].T
                lanes = np.arange(len(was))
            step = beta * now
            step -= was_beta * then
            squares = np.einsum("ij,ij->j", step, step)[lanes].astype(np.float64)
            weights = self.log_weights[columns] - old.log_weights[was]
            rises[columns] = relative * np.sqrt(squares) + absolute
            rises[columns] += np.maximum(weights, 0.0)
        return rises

    def by_tile(self, rises: Array) -> Array:
        """Return the largest value of each tile, (n_tiles,)."""
        padded = np.full(len(self.log_weights), -np.inf)
        padded[: len(rises)] = rises
        return np.asarray(padded.reshape(-1, TILE).max(axis=1))


@dataclass(frozen=True, slots=True)
class Drift:
    """Bounds of the rise of scores from table to table; the newest is table `step`.

    Sums by node start with the first table that has it, or has it again. Those of the
    latest `N_KEPT` tables are kept.
    """

    step: int = -1
    sums: tuple[tuple[Ints, Array], ...] = ()  # ids, rises; newest last

    def followed_by(self, table: NodeTable, last: NodeTable | None) -> "Drift":
        """Return the drift with one more table."""
        total, sums = np.zeros(len(table.ids)), self.sums
        if last is not None:
            rises, at_last = table.rises(last), last.columns(table.ids)
            known = at_last >= 0
            total[known] = sums[-1][1][at_last[known]] + rises[known]
            new = table.ids[~known]  # of one that comes back nothing is known
            sums = tuple(
                (ids, np.where(np.isin(ids, new), -np.inf, was)) for ids, was in sums
            )
        return Drift(self.step + 1, (*sums, (table.ids, total))[-N_KEPT:])

    def latest(self, n_tables: int) -> "Drift":
        """Return the drift with sums of the latest tables alone."""
        return Drift(self.step, self.sums[-n_tables:])

    def since(self, step: int, table: NodeTable) -> Array | None:
        """Most that scores of tiles rose since a step; None where unknown."""
        back = self.step - step
        if not 0 <= back < len(self.sums):
            return None
        (then, was), (ids, now) = self.sums[-1 - back], self.sums[-1]
        at = np.minimum(np.searchsorted(then, ids), len(then) - 1)
        return table.by_tile(np.where(then[at] == ids, now - was[at], np.inf))


#: Fields of a memo that are arrays by row.
PER_ROW = ("nodes", "weights", "scores", "rest")
#: Nodes of a row that are kept.
N_BEST = 8
#: Rows of a block: a tile of nodes is read from memory once for all of them.
ROWS_PER_BLOCK = 8192
#: Densities of a block of rows.
SCORES = 1 << 20
#: Share of the tiles from which rows are rather scored under all: tile by tile, each is
#: read from memory once for all rows.
MOST_SCREENED = 0.25


@dataclass(frozen=True, slots=True)
class Memo:
    """Local parameters of rows: their best nodes; rows without words have none."""

    nodes: Ints32  # (n_rows, N_BEST) ids, best first; -1: none
    weights: NDArray[np.float32]  # (n_rows, N_BEST) q(z), zero where it is negligible
    scores: NDArray[np.float32]  # (n_rows, N_BEST) not below those of the nodes
    rest: Array  # (n_rows,) no other node has a larger score
    step: int = -1  # of the table that scores are of, see `Drift`

    def shares(self) -> Array:
        """Weights q(z), adding up to one, (n_rows, N_BEST)."""
        shares = self.weights.astype(np.float64)
        total = shares.sum(axis=1, keepdims=True)
        return shares / np.where(total > 0.0, total, 1.0)

    def taken(self, rows: Ints | slice) -> "Memo":
        """Return the local parameters of some rows."""
        return replace(self, **{name: getattr(self, name)[rows] for name in PER_ROW})

    def replaced(self, rows: Ints, new: "Memo") -> "Memo":
        """Replace assignments of some rows; the bound of nodes left out is dropped."""
        nodes, weights = self.nodes.copy(), self.weights.copy()
        scores, rest = self.scores.copy(), self.rest.copy()
        nodes[rows], weights[rows] = new.nodes, new.weights
        scores[rows], rest[rows] = ANYTHING, ANYTHING
        return Memo(nodes, weights, scores, rest, self.step)

    @classmethod
    def joined(cls, parts: Sequence["Memo"]) -> "Memo":
        """Concatenate the local parameters of sets of rows; the oldest step."""
        step = min((part.step for part in parts), default=-1)
        values = np.empty((0, N_BEST), np.float32)
        parts = [cls(values.astype(np.int32), values, values, np.empty(0)), *parts]
        nodes, weights, scores, rest = (
            np.concatenate([getattr(part, name) for part in parts]) for name in PER_ROW
        )
        return cls(nodes, weights, scores, rest, step)


def update_local(
    table: NodeTable,
    X: sp.csr_array,
    memo: Memo | None = None,
    drift: Array | None = None,
    *,
    run: Run = map,
) -> tuple[Memo, EpochStats]:
    """Run the local step: find the best nodes of rows, and sum their statistics.

    Rows of `X` in single precision, (n_rows, n_columns), have length one, or zero;
    columns behind those of the table are as its last. `memo` is that of the rows,
    and `drift`, (n_tiles,), by how much scores may have risen since
    (`Drift.since`): nodes are left out that cannot be within 40 nats of the best,
    where these are most. The result has the same bits but for `rest`, and for nodes
    that count for nothing. `run` maps over blocks of rows, which do not depend on
    the number of jobs; their sums are added in order.
    """
    n_rows, n_columns = X.shape[0], table.directions.shape[1]
    if X.shape[1] > n_columns:
        X = _folded(X, n_columns)
    begins = range(0, n_rows, ROWS_PER_BLOCK)

    def score(begin: int) -> Memo:
        rows = slice(begin, min(begin + ROWS_PER_BLOCK, n_rows))
        known = None if memo is None or drift is None else memo.taken(rows)
        return _score(table, X[rows], known, drift)

    result = Memo.joined(list(run(score, begins)))
    return result, sum_rows(table.tree, result, X, run=run)


def sum_rows(tree: Tree, memo: Memo, X: sp.csr_array, *, run: Run = map) -> EpochStats:
    """Sum the statistics of rows by their memo, with the bits of the local step."""
    n_rows = X.shape[0]

    def add_up(begin: int) -> EpochStats:
        rows = slice(begin, min(begin + ROWS_PER_BLOCK, n_rows))
        return _sums(tree, memo.taken(rows), X[rows])

    total = EpochStats.zero(len(tree), X.shape[1])
    for part in run(add_up, range(0, n_rows, ROWS_PER_BLOCK)):
        total = total.plus(part)
    return total


def _folded(X: sp.csr_array, n_columns: int) -> sp.csr_array:
    """Return rows with `n_columns` columns; further ones are added to the last."""
    columns = np.minimum(X.indices, n_columns - 1)
    return sp.csr_array((X.data, columns, X.indptr), (X.shape[0], n_columns))


def _score(
    table: NodeTable, X: sp.csr_array, known: Memo | None, drift: Array | None
) -> Memo:
    """Find the best nodes of a block of rows, and their weights."""
    n_rows = X.shape[0]
    nodes = np.full((n_rows, N_BEST), -1, dtype=np.int32)
    scores, rest = np.empty((n_rows, N_BEST)), np.full(n_rows, np.inf)
    log_weights, naturals = table.log_weights, table.naturals
    if naturals is not None:
        # What the variance of theta adds to the score of any row, about.
        bonus, scale = np.zeros(len(log_weights)), 0.5 * table.concentration**2
        bonus[: len(table.ids)] = scale * naturals.shares * naturals.slopes
        log_weights, known = log_weights + bonus, None
    if known is None or drift is None or not _can_skip_tiles(known, drift, table):
        known = drift = None
    else:
        nodes[:], scores[:] = table.columns(known.nodes), known.scores
        rest[:] = known.rest
    score_rows(
        X.indptr.astype(np.int32),
        X.indices.astype(np.int32),
        X.data.astype(np.float32, copy=False),
        table.directions,
        log_weights,
        table.concentration,
        nodes,
        scores,
        rest,
        drift,
    )
    if naturals is not None:
        fits = np.where(nodes >= 0, scores - log_weights[np.maximum(nodes, 0)], 0.0)
        nodes, scores = _collapsed(table, naturals, nodes, fits)
    below = scores - scores[:, :1]
    weights = np.where(below >= -NEGLIGIBLE, np.exp(below), 0.0)
    weights[np.diff(X.indptr) == 0] = 0.0
    total = weights.sum(axis=1, keepdims=True)
    weights /= np.where(total > 0.0, total, 1.0)
    ids = np.where(nodes >= 0, table.ids[nodes], -1)
    ids, weights = ids.astype(np.int32), weights.astype(np.float32)
    if naturals is not None:  # by means, scores may be anything
        anything = np.full(weights.shape, ANYTHING, dtype=np.float32)
        return Memo(ids, weights, anything, np.full(n_rows, ANYTHING))
    most = np.nextafter(scores.astype(np.float32), np.float32(np.inf))
    return Memo(ids, weights, most, rest)


def _collapsed(
    table: NodeTable, naturals: Naturals, nodes: Ints32, fits: Array
) -> tuple[Ints32, Array]:
    """Score the nodes of rows with their own parts left out, the best first.

    `fits` are beta E'x. A row's part in a node is its weight there by means, so that
    rows with the same globals have the same scores, wherever they were before. A row
    that leaves its node by means alone is counted at its new node, and may stay there
    for one step.
    """
    logs = np.where(nodes >= 0, table.log_weights[nodes], -np.inf)
    by_means = logs + fits
    own = np.exp(by_means - by_means.max(axis=1, keepdims=True))
    own /= own.sum(axis=1, keepdims=True)
    products = fits / table.concentration
    columns = np.maximum(nodes, 0)
    scores = logs + naturals.gains(columns, products, own, table.concentration)
    order = np.argsort(-scores, axis=1, kind="stable")
    return (
        np.take_along_axis(nodes, order, axis=1),
        np.take_along_axis(scores, order, axis=1),
    )


def _can_skip_tiles(known: Memo, drift: Array, table: NodeTable) -> bool:
    """Whether most tiles could be skipped if scores of the best nodes stay alike."""
    least = known.scores[:, 0] - NEGLIGIBLE
    n_scored = int(np.searchsorted(np.sort(least - known.rest), drift, "right").sum())
    columns = table.columns(known.nodes)
    counts = known.scores + drift[columns // TILE] >= least[:, None]
    n_scored += int((counts & (columns >= 0)).sum())
    return n_scored <= MOST_SCREENED * len(least) * len(drift)


def _sums(tree: Tree, memo: Memo, X: sp.csr_array) -> EpochStats:
    """Sum the statistics of a block of rows."""
    shares, n_nodes = memo.shares(), len(tree)
    rows, columns = np.nonzero(shares)
    own, places = shares[rows, columns], tree.positions(memo.nodes[rows, columns])
    spread = sp.csr_array((own, (places, rows)), shape=(n_nodes, X.shape[0]))
    masses, entropies = np.zeros(n_nodes), np.zeros(n_nodes)
    np.add.at(masses, places, own)
    np.add.at(entropies, places, -xlogy(own, own))
    return EpochStats(masses, sp.csr_array(spread @ X.astype(np.float64)), entropies)


def log_gain(
    state: EpochState, priors: TreePriors, X: sp.csr_array, *, run: Run = map
) -> Array:
    """Log density of new rows less that of the uniform density, (n_rows,).

    Directions and sticks are integrated out. Of node e, the density is
    C_V(beta) C_V(eta_e) / C_V(|beta x + eta_e mu_e|); the mass of nodes that are not
    there yet has the uniform density. The densities have logarithms as large as V:
    their difference is formed once for all rows, and that of nodes by row. `run` maps
    over blocks of rows.
    """
    dimension, beta = state.dimension, state.concentration
    eta = state.concentrations
    own = log_normaliser(eta, dimension)

    def log_node(products: Array) -> Array:
        """Log predictive density of rows at nodes less the uniform one."""
        squares = beta**2 + eta**2 + 2.0 * beta * eta * products
        joint = np.sqrt(np.maximum(squares, 0.0))
        return own - log_normaliser(joint, dimension)

    return _mixed(state, priors, X, log_node, run)


def plug_in_gain(
    state: EpochState, priors: TreePriors, X: sp.csr_array, *, run: Run = map
) -> Array:
    """Log density of new rows at mean directions, less that of the uniform density.

    Of node e, C_V(beta) exp(beta mu_e'x), as in Hu et al. (2015).
    """
    return _mixed(
        state, priors, X, lambda products: state.concentration * products, run
    )


def _mixed(
    state: EpochState,
    priors: TreePriors,
    X: sp.csr_array,
    log_node: Callable[[Array], Array],
    run: Run,
) -> Array:
    """Log of mixed densities of nodes, functions of products with means, (n_rows,)."""
    lengths = np.linalg.norm(state.means, axis=1)
    directions = state.means / np.maximum(lengths, 1e-300)[:, None]
    directions = np.ascontiguousarray(padded(directions, state.n_columns).T)
    if X.shape[1] != len(directions):
        X = _folded(X, len(directions))
    both = log_normaliser(np.array([state.concentration, 0.0]), state.dimension)
    weights = state.sticks(priors).mean_weights(state.tree)
    with np.errstate(divide="ignore"):
        logs = np.log(weights) + (both[0] - both[1])
    rest = np.log(max(1.0 - float(weights.sum()), 1e-300))
    size = max(SCORES // len(weights), 1)

    def task(begin: int) -> Array:
        rows = X[begin : begin + size]
        products = np.asarray(rows @ directions, dtype=np.float64)
        new = np.full((rows.shape[0], 1), rest)
        return np.asarray(
            logsumexp(np.hstack([logs + log_node(products), new]), axis=1)
        )

    parts = list(run(task, range(0, X.shape[0], size)))
    return np.concatenate([np.empty(0), *parts])
