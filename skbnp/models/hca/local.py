"""The local step of component analysis: rows on paths of a tree, and their statistics.

Rows are updated in blocks that depend on the data alone, and sums are added in their
order, so that results do not depend on threads. There is no loop over rows.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from skbnp.components.statistics import Supports
from skbnp.inference.executor import Executor
from skbnp.models.hca.frame import Frame, blocks
from skbnp.models.hca.paths import Paths
from skbnp.models.hca.state import Stats, change_on_paths
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints

#: Nats below the best of a row at which a stub is left out.
PRUNE = 20.0


@dataclass(frozen=True, slots=True)
class Memo(Supports):
    """Local parameters of rows: q(c) and the moments of q(x | c)."""

    limits: Ints  # (n_rows + 1,) of their supports
    stubs: Ints  # (n_support,) by id, increasing by position in the tree of the step
    shares: Array  # (n_support,) q(c)
    means: Array  # (n_support, n_levels) m
    moments: Array  # (n_support, n_levels (n_levels + 1) / 2) E[xx'], one triangle
    entropies: Array  # (n_rows,) sum q (-log q + 1/2 log |C|) + L / 2
    bounds: Array  # (n_rows,) of the rows, at their local step

    ragged: ClassVar = {"limits": ("stubs", "shares", "means", "moments")}

    @property
    def best(self) -> Ints:
        """Entry of the most probable stub of each row; of equal ones the first."""
        order = np.lexsort((-self.shares, self.row))
        return order[self.limits[:-1]]

    def changed(self, tree: Tree, change: Array) -> "Memo":
        """Apply a linear change to the coordinates of rows, see `change_on_paths`."""
        n_levels = self.means.shape[1]
        on_paths = change_on_paths(tree, change, n_levels)
        log_dets = np.linalg.slogdet(on_paths)[1]
        place = tree.positions(self.stubs)
        own, (one, other) = on_paths[place], np.triu_indices(n_levels)
        moments = np.empty((len(place), n_levels, n_levels))
        moments[:, one, other] = moments[:, other, one] = self.moments
        moments = own @ moments @ own.transpose(0, 2, 1)
        lost = np.bincount(self.row, self.shares * log_dets[place], self.n_rows)
        return replace(
            self,
            means=np.einsum("ilm,im->il", own, self.means),
            moments=moments[:, one, other],
            entropies=self.entropies + lost,
        )


def update_local(
    paths: Paths, tree: Tree, X: NDArray, frame: Frame, executor: Executor
) -> Memo:
    """Infer paths and coordinates of rows, stubs by ids of `tree`."""
    task = partial(_visit, X=X, paths=paths, frame=frame)
    parts = executor.map_all(task, blocks(X.shape)) or [task(slice(0, 0))]
    memo = Memo.joined(parts)
    return memo.renamed(tree.ids[memo.stubs])


def _visit(rows: slice, X: NDArray, paths: Paths, frame: Frame) -> Memo:
    """Run the local step of one block of rows."""
    rest, products = _products(X[rows], paths, frame)
    scores = _scores(rest, products, paths)
    best = scores.max(axis=1, keepdims=True)
    row, stubs = np.nonzero(scores >= best - PRUNE)  # the best is, however large
    n_levels = paths.stub_nodes.shape[1]
    limits = np.searchsorted(row, np.arange(len(rest) + 1))
    logs = scores[row, stubs]
    weights = np.exp(logs - best[row, 0])
    bounds = best[:, 0] + np.log(np.bincount(row, weights, len(rest)))
    log_shares = logs - bounds[row]
    shares = np.exp(log_shares)
    entropies = np.bincount(
        row, shares * (0.5 * paths.log_dets[stubs] - log_shares), len(rest)
    )
    means = _means(products, paths, row, stubs)
    one, other = np.triu_indices(n_levels)
    moments = paths.covariances[:, one, other][stubs]
    moments += means[:, one] * means[:, other]
    return Memo(
        limits, stubs, shares, means, moments, entropies + 0.5 * n_levels, bounds
    )


def _products(X: NDArray, paths: Paths, frame: Frame) -> tuple[Array, Array]:
    """Rows less the mean, and their inner products with all loadings, and zero."""
    rest = frame.enter(X)
    rest -= paths.mean
    products = np.zeros((len(rest), len(paths.loadings) + 1))  # -1: off the tree
    np.matmul(rest, paths.loadings.T, out=products[:, :-1])
    return rest, products


def _scores(rest: Array, products: Array, paths: Paths) -> Array:
    """Log weight of stubs for rows, (n_rows, n_stubs), h' C h = |R h|^2 by level."""
    nodes, precision = paths.stub_nodes, paths.precision
    n_stubs, n_levels = nodes.shape
    squares = np.zeros((len(rest), n_stubs))
    for level in range(n_levels):
        table = np.zeros((products.shape[1], n_stubs))
        for above in range(level + 1):
            table[nodes[:, above], np.arange(n_stubs)] = paths.roots[:, level, above]
        table[-1] = 0.0
        result = products @ (precision * table)
        result += np.einsum("ij,ij->i", paths.roots[:, level], paths.centres)
        squares += np.square(result, out=result)
    squares *= 0.5
    squares += paths.constants
    squares -= 0.5 * precision * np.einsum("ij,ij->i", rest, rest)[:, None]
    return squares


def _means(products: Array, paths: Paths, row: Ints, stubs: Ints) -> Array:
    """Mean coordinates of some rows on some stubs, (n_pairs, n_levels)."""
    own = paths.precision * products[row[:, None], paths.stub_nodes[stubs]]
    own += paths.centres[stubs]
    return np.einsum("il,ilm->im", own, paths.covariances[stubs])


def sums(memo: Memo, X: NDArray, tree: Tree, frame: Frame, executor: Executor) -> Stats:
    """Sum the statistics of rows."""
    task = partial(_sums, memo=memo, X=X, tree=tree, frame=frame)
    n_levels = memo.means.shape[1]
    total = Stats.zero(len(tree), n_levels, X.shape[1])
    for part in executor.map(task, blocks(X.shape)):
        total = total.plus(part)
    return total


def _sums(rows: slice, memo: Memo, X: NDArray, tree: Tree, frame: Frame) -> Stats:
    """Sum the statistics of one block of rows."""
    part = memo.take(np.arange(rows.start, rows.stop))
    X = frame.enter(X[rows])
    n_levels = part.means.shape[1]
    place = tree.positions(part.stubs)
    order = np.argsort(place, kind="stable")
    used, first = np.unique(place[order], return_index=True)
    shares, row = part.shares[order], part.row[order]
    means = shares[:, None] * part.means[order]
    stats = Stats.zero(len(tree), n_levels, X.shape[1])
    one, other = np.triu_indices(n_levels)
    if len(used):
        stats.stub_masses[used] = np.add.reduceat(shares, first)
        stats.coordinates[used] = np.add.reduceat(means, first)
        moments = np.add.reduceat(shares[:, None] * part.moments[order], first)
        stats.moments[used[:, None], one, other] = moments
        stats.moments[used[:, None], other, one] = moments
    ordered, ends = X[row], [*first[1:], len(order)]
    for stub, begin, end in zip(used, first, ends, strict=True):
        stats.products[stub] = means[begin:end].T @ ordered[begin:end]
    return replace(
        stats,
        total=X.sum(axis=0),
        square=float(np.vdot(X, X)),
        n_rows=float(len(X)),
        entropy=float(part.entropies.sum()),
    )


def log_density(paths: Paths, X: NDArray, frame: Frame, executor: Executor) -> Array:
    """Log density of rows at the means of the globals, (n_rows,)."""

    def task(rows: slice) -> Array:
        rest, products = _products(X[rows], paths, frame)
        return logsumexp(_scores(rest, products, paths), axis=1) - frame.log_volume

    return np.concatenate([np.zeros(0), *executor.map(task, blocks(X.shape))])


def coordinates(
    paths: Paths, memo: Memo, X: NDArray, tree: Tree, frame: Frame, executor: Executor
) -> tuple[Ints, Array]:
    """Most probable stubs of rows, and least-squares coordinates (n_rows, n_levels).

    Zero along loadings of negligible length relative to noise.
    """
    nodes = paths.stub_nodes
    gram = np.zeros((len(tree) + 1, len(tree) + 1))
    gram[:-1, :-1] = paths.loadings @ paths.loadings.T
    is_null = np.diagonal(gram) * paths.precision < np.finfo(np.float64).eps
    gram[is_null], gram[:, is_null] = 0.0, 0.0
    inverses = np.linalg.pinv(gram[nodes[:, :, None], nodes[:, None]], hermitian=True)
    best = tree.positions(memo.stubs[memo.best])

    def task(rows: slice) -> Array:
        _, products = _products(X[rows], paths, frame)
        stubs = best[rows]
        own = products[np.arange(len(stubs))[:, None], nodes[stubs]]
        return np.einsum("il,ilm->im", own, inverses[stubs])

    result = executor.map_all(task, blocks(X.shape))
    return best, np.concatenate([np.zeros((0, nodes.shape[1])), *result])
