"""Which nodes rows are at, under the globals of an epoch.

    q(z = e) is proportional to exp(E log pi_e + beta E_e'x).

Of each row the eight best nodes are kept, as many as within 40 nats of the best: with
hundreds of words the ninth is hundreds of nats below. They are rounded to single
precision and made to add up to one before anything is summed over them, so that what a
memo recalls has the bits of the visit that made it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from skbnp.distributions.von_mises_fisher import log_normaliser
from skbnp.kernels._sphere import NEGLIGIBLE, TILE, score_rows
from skbnp.models.dependent_trees.model import EpochState, EpochStats, TreePriors
from skbnp.trees import Tree

__all__ = [
    "Memo",
    "NodeTable",
    "log_gain",
    "log_predictive",
    "plug_in_gain",
    "recall",
    "visit",
]

Array = NDArray[np.float64]

#: Nodes of a row that are kept.
N_BEST = 8
#: Rows of a block: a tile of nodes is read from memory once for all of them.
ROWS_PER_BLOCK = 8192
#: Densities of a block of rows.
SCORES = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeTable:
    """What rows see of an epoch; columns go by position in the tree."""

    tree: Tree
    directions: NDArray[np.float32]  # (n_tiles, V, TILE) E
    log_weights: Array  # (n_tiles * TILE,) E log pi, -inf behind the last
    concentration: float  # beta

    @classmethod
    def of(cls, state: EpochState, priors: TreePriors) -> "NodeTable":
        """Copy the means, rounded to single precision."""
        n_nodes, dimension = state.means.shape
        n_tiles = -(-n_nodes // TILE)
        table = np.zeros((n_tiles, dimension, TILE), dtype=np.float32)
        for tile in range(n_tiles):
            part = state.means[tile * TILE : (tile + 1) * TILE]
            table[tile, :, : len(part)] = part.T
        log_weights = np.full(n_tiles * TILE, -np.inf)
        log_weights[:n_nodes] = state.log_weights(priors)
        return cls(state.tree, table, log_weights, state.concentration)

    def drift(self, old: "NodeTable") -> Array:
        """By how much scores of each tile may have risen since an older table.

        |beta E - beta' E'| plus the rise of E log pi, for rows of length one; without
        limit for nodes that were not there.
        """
        rise = np.full(len(self.log_weights), -np.inf)
        is_old = np.isin(self.tree.ids, old.tree.ids)
        rise[: len(self.tree)][~is_old] = np.inf
        places = np.flatnonzero(is_old)
        at_old = old.tree.positions(self.tree.ids[places])
        for place, was in zip(places.tolist(), at_old.tolist(), strict=True):
            new = self.concentration * self._direction(place)
            step = np.linalg.norm(new - old.concentration * old._direction(was))
            weight = self.log_weights[place] - old.log_weights[was]
            rise[place] = step + max(weight, 0.0)
        return rise.reshape(-1, TILE).max(axis=1)

    def _direction(self, place: int) -> Array:
        tile, column = divmod(place, TILE)
        return self.directions[tile, :, column].astype(np.float64)


@dataclass(frozen=True, slots=True)
class Memo:
    """What is remembered of rows; rows without words are at no node."""

    nodes: NDArray[np.int32]  # (n_rows, N_BEST) ids, best first; -1: none
    weights: NDArray[np.float32]  # (n_rows, N_BEST) q(z), zero where it is negligible
    rest: Array  # (n_rows,) no other node has a larger score

    def shares(self) -> Array:
        """q(z), adding up to one, (n_rows, N_BEST)."""
        shares = self.weights.astype(np.float64)
        total = shares.sum(axis=1, keepdims=True)
        return shares / np.where(total > 0.0, total, 1.0)

    def taken(self, rows: NDArray[np.intp] | slice) -> "Memo":
        """Return those of some rows."""
        return Memo(self.nodes[rows], self.weights[rows], self.rest[rows])

    def replaced(self, rows: NDArray[np.intp], new: "Memo") -> "Memo":
        """Let some rows say something else."""
        nodes, weights = self.nodes.copy(), self.weights.copy()
        rest = self.rest.copy()
        nodes[rows], weights[rows], rest[rows] = new.nodes, new.weights, new.rest
        return Memo(nodes, weights, rest)

    @classmethod
    def joined(cls, parts: Sequence["Memo"]) -> "Memo":
        """Put those of several sets of rows together; of none, one of no rows."""
        parts = [_none(), *parts]
        return cls(
            np.concatenate([part.nodes for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.rest for part in parts]),
        )


def visit(
    table: NodeTable,
    X: sp.csr_array,
    memo: Memo | None = None,
    drift: Array | None = None,
    *,
    run: Callable[..., Iterable[Any]] = map,
) -> tuple[Memo, EpochStats]:
    """Find the nodes of rows, and sum over them.

    Parameters
    ----------
    table : NodeTable
        What rows see.
    X : csr_array of float32 of shape (n_rows, V)
        Rows of length one, or zero.
    memo, drift : Memo, ndarray of shape (n_tiles,), default=None
        What is remembered of the rows, and by how much scores may have risen since
        (`NodeTable.drift`): nodes are left out that cannot be within 40 nats of the
        best. The result has the same bits but for `rest`.
    run : callable, default=map
        Maps over blocks of rows, in order; they do not depend on the number of jobs.

    Returns
    -------
    memo : Memo
        Of these rows.
    stats : EpochStats
        Sums by block, added in order.
    """
    n_rows = X.shape[0]
    begins = range(0, n_rows, ROWS_PER_BLOCK)

    def score(begin: int) -> Memo:
        rows = slice(begin, min(begin + ROWS_PER_BLOCK, n_rows))
        known = None if memo is None or drift is None else memo.taken(rows)
        return _score(table, X[rows], known, drift)

    found = Memo.joined(list(run(score, begins)))
    return found, recall(table.tree, found, X, run=run)


def recall(
    tree: Tree,
    memo: Memo,
    X: sp.csr_array,
    *,
    run: Callable[..., Iterable[Any]] = map,
) -> EpochStats:
    """Sum over remembered rows, as the visit did that they are remembered from."""
    n_rows = X.shape[0]

    def add_up(begin: int) -> EpochStats:
        rows = slice(begin, min(begin + ROWS_PER_BLOCK, n_rows))
        return _sums(tree, memo.taken(rows), X[rows])

    total = EpochStats.zero(len(tree), X.shape[1])
    for part in run(add_up, range(0, n_rows, ROWS_PER_BLOCK)):
        total = total.plus(part)
    return total


def _none() -> Memo:
    """Nothing to remember, of no rows."""
    empty = (0, N_BEST)
    return Memo(np.empty(empty, np.int32), np.empty(empty, np.float32), np.empty(0))


def _score(
    table: NodeTable, X: sp.csr_array, known: Memo | None, drift: Array | None
) -> Memo:
    """Find the best nodes of a block of rows, and their weights."""
    n_rows = X.shape[0]
    nodes = np.full((n_rows, N_BEST), -1, dtype=np.int32)
    scores, rest = np.empty((n_rows, N_BEST)), np.full(n_rows, np.inf)
    if known is not None:
        there = np.isin(known.nodes, table.tree.ids)
        nodes[there] = table.tree.positions(known.nodes[there])
        rest[:] = known.rest
    score_rows(
        X.indptr.astype(np.int32),
        X.indices.astype(np.int32),
        X.data.astype(np.float32, copy=False),
        table.directions,
        table.log_weights,
        table.concentration,
        nodes,
        scores,
        rest,
        None if known is None else drift,
    )
    below = scores - scores[:, :1]
    weights = np.where(below >= -NEGLIGIBLE, np.exp(below), 0.0)
    weights[np.diff(X.indptr) == 0] = 0.0
    total = weights.sum(axis=1, keepdims=True)
    weights /= np.where(total > 0.0, total, 1.0)
    ids = np.where(nodes >= 0, table.tree.ids[nodes], -1)
    return Memo(ids.astype(np.int32), weights.astype(np.float32), rest)


def _sums(tree: Tree, memo: Memo, X: sp.csr_array) -> EpochStats:
    """Sum over a block of rows."""
    shares, n_nodes = memo.shares(), len(tree)
    rows, columns = np.nonzero(shares)
    own, places = shares[rows, columns], tree.positions(memo.nodes[rows, columns])
    spread = sp.csr_array((own, (places, rows)), shape=(n_nodes, X.shape[0]))
    masses, entropies = np.zeros(n_nodes), np.zeros(n_nodes)
    np.add.at(masses, places, own)
    np.add.at(entropies, places, -xlogy(own, own))
    return EpochStats(masses, sp.csr_array(spread @ X.astype(np.float64)), entropies)


def log_predictive(
    state: EpochState,
    priors: TreePriors,
    X: sp.csr_array,
    *,
    run: Callable[..., Iterable[Any]] = map,
) -> Array:
    """Log density of new rows, with directions and sticks integrated out, (n_rows,).

    Of node e, C_V(beta) C_V(eta_e) / C_V(|beta x + eta_e mu_e|); the mass of nodes that
    are not there yet has the uniform density. `run` maps over blocks of rows.
    """
    uniform = float(log_normaliser(0.0, state.dimension))
    return log_gain(state, priors, X, run=run) + uniform


def log_gain(
    state: EpochState,
    priors: TreePriors,
    X: sp.csr_array,
    *,
    run: Callable[..., Iterable[Any]] = map,
) -> Array:
    """Log density of new rows less that of the uniform density, see `log_predictive`.

    The densities have logarithms as large as V: their difference is formed once for all
    rows, and that of nodes by row.
    """
    dimension, beta = state.dimension, state.concentration
    eta = state.concentrations
    own = log_normaliser(eta, dimension)

    def log_node(products: Array) -> Array:
        squares = beta**2 + eta**2 + 2.0 * beta * eta * products
        joint = np.sqrt(np.maximum(squares, 0.0))
        return own - log_normaliser(joint, dimension)

    return _mixed(state, priors, X, log_node, run)


def plug_in_gain(
    state: EpochState,
    priors: TreePriors,
    X: sp.csr_array,
    *,
    run: Callable[..., Iterable[Any]] = map,
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
    run: Callable[..., Iterable[Any]],
) -> Array:
    """Mix densities of nodes, C_V(beta) / C_V(0) aside functions of cosines to them."""
    lengths = np.linalg.norm(state.means, axis=1)
    directions = state.means / np.maximum(lengths, 1e-300)[:, None]
    directions = np.ascontiguousarray(directions.T)
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
