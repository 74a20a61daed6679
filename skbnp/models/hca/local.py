"""The local step of component analysis: rows on paths of a tree, and their statistics.

Rows are updated in blocks that depend on the data alone, and sums are added in their
order, so that results do not depend on threads. There is no loop over rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, multigammaln

from skbnp.components.statistics import Supports
from skbnp.inference.engine import RunningAverage, learn_priors
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Part, Round, StatisticsCache, Visit
from skbnp.models.hca import state as bound
from skbnp.models.hca.model import Model, convert, coordinate_ascent, expand
from skbnp.models.hca.state import Frame, Paths, State, Stats
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, some_rows, stream
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

    def changed(self, tree: Tree, change: Array) -> "Memo":
        """Apply a linear change to the coordinates of rows, see `change_on_paths`."""
        n_levels = self.means.shape[1]
        on_paths = bound.change_on_paths(tree, change, n_levels)
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
    parts = executor.map_all(task, bound.blocks(X.shape)) or [task(slice(0, 0))]
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
    for part in executor.map(task, bound.blocks(X.shape)):
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

    return np.concatenate([np.zeros(0), *executor.map(task, bound.blocks(X.shape))])


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

    result = executor.map_all(task, bound.blocks(X.shape))
    return best, np.concatenate([np.zeros((0, nodes.shape[1])), *result])


# Cache of component analysis: rows by part, their local step and statistics.


@dataclass(frozen=True, slots=True)
class RowResult:
    """Result of a local step: statistics of rows, and the globals they belong to."""

    stats: Stats
    cache: Memo
    state: State


@dataclass(frozen=True, slots=True)
class RowLocalStep:
    """Local step of the rows of a part, by an executor."""

    executor: Executor

    def update_local(self, posterior: Posterior, X: NDArray, visit: Visit) -> RowResult:
        """Run the local step under the present globals of a posterior.

        If the totals are those of what is remembered, other coordinates may be better:
        see `expand`.
        """
        model, state = posterior.model, posterior.state
        if visit.remembered is not None:
            state = expand(model, state, posterior.global_stats)
        memo, stats = self.update_rows(model, state, X)
        return RowResult(stats, memo, state)

    def update_rows(self, model: Model, state: State, X: NDArray) -> tuple[Memo, Stats]:
        """Run the local step of rows under given globals; return memo and sums."""
        memo = update_local(
            bound.paths(model, state), state.tree, X, model.frame, self.executor
        )
        return memo, sums(memo, X, state.tree, model.frame, self.executor)


class FramedAverage(RunningAverage):
    """Running averages in units of the standard deviation of all rows so far."""

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[Any]
    ) -> None:
        """Step totals and globals in place, then change the unit of the frame."""
        super().stochastic_update(posterior, round, change)
        frame = posterior.model.frame
        n_rows = sum(result.stats.n_rows for result in change)
        square = sum(result.stats.square for result in change)
        if frame.scale == 0.0 or not square > 0.0:
            return
        fresh = frame.unit * math.sqrt(square / (n_rows * len(frame.shift)))
        grown = frame.grown(fresh, n_rows, posterior.n_seen)
        posterior.model, *state_and_stats = posterior.model.in_frame(
            grown, posterior.state, posterior.global_stats
        )
        posterior.replace_globals(*state_and_stats)


class RowCache(StatisticsCache):
    """Totals contain each row once, with its statistics at its last local step.

    `scale` is the number of rows behind each, and `others` are statistics of rows
    of earlier calls, by the present tree.
    """

    scale: float
    others: Stats | None
    memo: Memo | None

    def __init__(self, scale: float = 1.0, others: Stats | None = None):
        self.scale, self.others, self.memo = scale, others, None

    def initial_local(self, part: Part) -> Memo | None:
        """Return the memo of all rows; None if there are rows of earlier calls."""
        return self.memo if self.others is None else None

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[RowResult]
    ) -> None:
        """Replace the totals by the present statistics of all rows."""
        (result,) = change
        stats = result.stats.times(self.scale)
        if self.others is not None:
            stats = stats.plus(self.others)
        model, memo = posterior.model, result.cache
        state, stats = coordinate_ascent(model, result.state, stats)
        if self.others is not None:  # which cannot be updated with other coordinates
            others = self.others.reindex_to(result.state.tree, state.tree)
            state, stats, flipped = convert(model, state, stats)
            self.others = others.changed(state.tree, flipped)
            memo = memo.changed(state.tree, flipped)
        self.memo = memo
        posterior.replace_globals(state, stats)

    def put(self, rows: Ints, memo: Memo) -> None:
        """Replace the memo of some rows, in place."""
        assert self.memo is not None
        self.memo = self.memo.replaced(rows, memo)

    def end_pass(self, posterior: Posterior) -> None:
        """Learn the hyperparameters, in place."""
        learn_priors(posterior)


# Test whether the leaves of a component analysis are groups or one Gaussian cloud.


#: Rows that the prior of a mean is worth: its variance is 50 times that of rows.
PRIOR_ROWS = 0.02


def directions_of_one_cloud(
    posterior: Posterior, local_step: RowLocalStep, X: NDArray
) -> int | None:
    """Number of directions in which rows vary, if one Gaussian explains them better.

    Better than the tree, and than a Gaussian for each leaf with the rows whose most
    probable paths end there, whether these share their covariance or not; else None.
    Labels cost parts of one Gaussian more than they gain. Of many rows some are drawn.
    """
    model, state = posterior.model, posterior.state
    rng = stream(posterior.seed_entropy, Purpose.START)
    X = X[some_rows(np.arange(len(X)), rng)]
    memo, _ = local_step.update_rows(model, state, X)
    _, labels = np.unique(memo.stubs[memo.best], return_inverse=True)
    counts = np.bincount(labels)
    if len(counts) < 2:
        return None
    rest = model.frame.enter(X)
    one = _log_evidence([rest])
    nats = model.bound(state, posterior.global_stats)
    if not one / len(rest) > nats / max(posterior.global_stats.n_rows, 1.0):
        return None
    groups = [rest[labels == label] for label in range(len(counts))]
    log_labels = gammaln(len(counts)) - gammaln(len(counts) + len(rest))
    log_labels += gammaln(1.0 + counts).sum()
    separate = sum(_log_evidence([group]) for group in groups)
    if not one > log_labels + max(separate, _log_evidence(groups)):
        return None
    squares = _squares([rest])
    return int(np.count_nonzero(squares > squares.sum() / rest.shape[1]))


def _log_evidence(groups: Sequence[Array]) -> float:
    """Log evidence of groups of rows, Gaussians of separate means and one covariance.

    Conjugate: mean ~ N(0, S / k), S ~ inverse Wishart(I, D + 2), so that E S = I.
    """
    n_features = groups[0].shape[1]
    sizes = np.array([len(group) for group in groups])
    before, after = n_features + 2.0, n_features + 2.0 + sizes.sum()
    value = multigammaln(0.5 * after, n_features)
    value -= multigammaln(0.5 * before, n_features)
    value -= 0.5 * n_features * sizes.sum() * np.log(np.pi)
    value -= 0.5 * n_features * np.log1p(sizes / PRIOR_ROWS).sum()
    return float(value - 0.5 * after * np.log1p(_squares(groups)).sum())


def _squares(groups: Sequence[Array]) -> Array:
    """Squared singular values of rows about their means, and of the means."""
    parts = []
    for group in groups:
        mean, n_rows = group.mean(axis=0), len(group)
        weight = np.sqrt(PRIOR_ROWS * n_rows / (PRIOR_ROWS + n_rows))
        parts += [group - mean, weight * mean[None]]
    rows = np.concatenate(parts)
    gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    return np.maximum(np.linalg.eigvalsh(gram), 0.0)
