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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from skbnp.distributions import log_normaliser
from skbnp.inference.executor import Run
from skbnp.kernels._sphere import NEGLIGIBLE, TILE, score_rows
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.trees import Tree
from skbnp.utils.arrays import kernel_arrays, padded
from skbnp.utils.typing import Array, Ints, Ints32


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
        lengths, spreads = bound.lengths_and_spreads(state, priors)
        y = bound.natural_lengths(lengths, spreads, dimension)
        slopes = bound.bessel_slope(y * y + spreads, dimension)
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
        return bound.row_gains(
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


#: Nodes of a row that are kept.
N_BEST = 8
#: Rows of a block: a tile of nodes is read from memory once for all of them.
ROWS_PER_BLOCK = 8192
#: Densities of a block of rows.
SCORES = 1 << 20


@dataclass(frozen=True, slots=True)
class Memo:
    """Local parameters of rows: their best nodes; rows without words have none."""

    nodes: Ints32  # (n_rows, N_BEST) ids, best first; -1: none
    weights: NDArray[np.float32]  # (n_rows, N_BEST) q(z), zero where it is negligible

    def shares(self) -> Array:
        """Weights q(z), adding up to one, (n_rows, N_BEST)."""
        shares = self.weights.astype(np.float64)
        total = shares.sum(axis=1, keepdims=True)
        return shares / np.where(total > 0.0, total, 1.0)

    def taken(self, rows: Ints | slice) -> "Memo":
        """Return the local parameters of some rows."""
        return Memo(self.nodes[rows], self.weights[rows])

    def replaced(self, rows: Ints, new: "Memo") -> "Memo":
        """Replace the local parameters of some rows."""
        nodes, weights = self.nodes.copy(), self.weights.copy()
        nodes[rows], weights[rows] = new.nodes, new.weights
        return Memo(nodes, weights)

    @classmethod
    def joined(cls, parts: Sequence["Memo"]) -> "Memo":
        """Concatenate the local parameters of sets of rows."""
        nodes, weights = np.empty((0, N_BEST), np.int32), np.empty((0, N_BEST))
        return cls(
            np.concatenate([nodes, *(part.nodes for part in parts)]),
            np.concatenate([weights.astype(np.float32), *(p.weights for p in parts)]),
        )


def update_local(
    table: NodeTable, X: sp.csr_array, *, run: Run = map
) -> tuple[Memo, EpochStats]:
    """Run the local step: find the best nodes of rows, and sum their statistics.

    Rows of `X` in single precision, (n_rows, n_columns), have length one, or zero;
    columns behind those of the table are as its last. `run` maps over blocks of rows,
    which do not depend on the number of jobs; their sums are added in order.
    """
    n_rows, n_columns = X.shape[0], table.directions.shape[1]
    if X.shape[1] > n_columns:
        X = _folded(X, n_columns)
    begins = range(0, n_rows, ROWS_PER_BLOCK)

    def score(begin: int) -> Memo:
        return _score(table, X[begin : begin + ROWS_PER_BLOCK])

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


def _score(table: NodeTable, X: sp.csr_array) -> Memo:
    """Find the best nodes of a block of rows, and their weights."""
    n_rows = X.shape[0]
    nodes = np.empty((n_rows, N_BEST), dtype=np.int32)
    scores = np.empty((n_rows, N_BEST))
    log_weights, naturals = table.log_weights, table.naturals
    if naturals is not None:
        # What the variance of theta adds to the score of any row, about.
        bonus, scale = np.zeros(len(log_weights)), 0.5 * table.concentration**2
        bonus[: len(table.ids)] = scale * naturals.shares * naturals.slopes
        log_weights = log_weights + bonus
    score_rows(
        *kernel_arrays(X.astype(np.float32, copy=False)),
        table.directions,
        log_weights,
        table.concentration,
        nodes,
        scores,
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
    return Memo(ids.astype(np.int32), weights.astype(np.float32))


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
    lengths = np.linalg.norm(state.means, axis=1)
    directions = state.means / np.maximum(lengths, 1e-300)[:, None]
    directions = np.ascontiguousarray(padded(directions, state.n_columns).T)
    if X.shape[1] != len(directions):
        X = _folded(X, len(directions))
    both = log_normaliser(np.array([beta, 0.0]), dimension)
    weights = state.sticks(priors).mean_weights(state.tree)
    with np.errstate(divide="ignore"):
        logs = np.log(weights) + (both[0] - both[1])
    rest = np.log(max(1.0 - float(weights.sum()), 1e-300))
    size = max(SCORES // len(weights), 1)

    def task(begin: int) -> Array:
        rows = X[begin : begin + size]
        products = np.asarray(rows @ directions, dtype=np.float64)
        squares = beta**2 + eta**2 + 2.0 * beta * eta * products
        joint = np.sqrt(np.maximum(squares, 0.0))
        nodes = logs + (own - log_normaliser(joint, dimension))
        new = np.full((rows.shape[0], 1), rest)
        return np.asarray(logsumexp(np.hstack([nodes, new]), axis=1))

    parts = list(run(task, range(0, X.shape[0], size)))
    return np.concatenate([np.empty(0), *parts])
