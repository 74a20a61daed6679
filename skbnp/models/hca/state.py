"""Hyperparameters, state and statistics of hierarchical component analysis."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln, psi

from skbnp.components import tree_sticks
from skbnp.components.statistics import NodeState, NodeStatistics, ended_nodes
from skbnp.trees import Tree
from skbnp.utils.ranges import LARGE_SQUARE, LEAST_MASS, In, SignedSquare, Sized, Square
from skbnp.utils.typing import Array, Ints32

# Frame of the rows of a component analysis: subtract a shift, divide by a unit.


#: Rows of a block at most, and entries: half of what fits into memory near a core.
BLOCK, ENTRIES = 4096, 1 << 20
#: Deviations of this part of the largest value are rounding errors of the mean.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
#: Products of rows this many standard deviations away leave the range of floats.
FARTHEST = 1e70


@dataclass(frozen=True, slots=True)
class Frame:
    """Shift and unit of rows, with the number of rows that they are estimated from.

    One unit for all columns keeps directions and angles. With |t|^2 - 2 t'mu + |mu|^2
    all digits would be lost if columns have large offsets: hence the shift.
    """

    shift: Annotated[Array, Sized("n_features")]
    # root mean square of entries about the shift; 0: all were equal
    scale: Annotated[float, In(0, 1e101)]

    @property
    def unit(self) -> float:
        """Divisor of entries: 1 as long as there is no scale."""
        return self.scale or 1.0

    @property
    def log_volume(self) -> float:
        """Log of the volume of a unit cube, subtracted from log densities of rows."""
        return len(self.shift) * float(np.log(self.unit))

    def enter(self, X: NDArray) -> Array:
        """Return rows less the shift, over the unit: a copy."""
        rest = np.subtract(X, self.shift, dtype=np.float64)
        rest /= self.unit
        return rest

    @classmethod
    def of_rows(cls, X: NDArray) -> "Frame":
        """Return the frame of rows: their mean, and the root of their mean variance."""
        frame = cls(X.mean(axis=0, dtype=np.float64), 0.0)
        return cls(frame.shift, frame.spread(X))

    def grown(self, fresh: float, n_rows: float, n_seen: float) -> "Frame":
        """Return the frame of `n_rows` more rows of spread `fresh`, with its shift."""
        largest = max(self.scale, fresh)
        if largest == 0.0:
            return self
        squares = n_seen * (self.scale / largest) ** 2
        squares += n_rows * (fresh / largest) ** 2
        return Frame(self.shift, largest * float(np.sqrt(squares / (n_seen + n_rows))))

    def spread(self, X: NDArray) -> float:
        """Root mean square of the entries of rows about the shift, without overflow."""
        parts = [X[rows] for rows in blocks(X.shape)]
        largest = max(float(np.abs(rest).max()) for rest in self._rests(parts))
        values = max(float(np.abs(part).max()) for part in parts)
        if not largest > ROUNDING * values:
            return 0.0
        squares = 0.0
        for rest in self._rests(parts):
            rest /= largest
            squares += float(np.vdot(rest, rest))
        return largest * float(np.sqrt(squares / X.size))

    def _rests(self, parts: list[NDArray]) -> Iterator[Array]:
        return (np.subtract(part, self.shift, dtype=np.float64) for part in parts)

    def farthest(self, X: NDArray) -> tuple[int, float]:
        """Row with the largest entry about the shift, and its size in units."""
        parts = [X[rows] for rows in blocks(X.shape)]
        sizes = [np.abs(rest).max(axis=1) for rest in self._rests(parts)]
        largest = np.concatenate(sizes)
        row = int(largest.argmax())
        return row, float(largest[row]) / self.unit

    def heaviest(self, X: NDArray) -> tuple[int, float]:
        """Row of the frame without which the least spread is left, and that share.

        The share of the sum of squares about the mean that all other rows have.
        """
        n_rows = len(X)
        squares = np.concatenate(
            [np.square(self.enter(X[rows])).sum(axis=1) for rows in blocks(X.shape)]
        )
        row = int(squares.argmax())
        taken = squares[row] * n_rows / max(n_rows - 1, 1)
        return row, 1.0 - float(taken / max(squares.sum(), 1e-300))


def blocks(shape: tuple[int, ...]) -> list[slice]:
    """Slices of rows, of equal size except the last."""
    n_rows, n_features = shape
    size = min(BLOCK, max(1, ENTRIES // n_features))
    return [slice(at, min(at + size, n_rows)) for at in range(0, n_rows, size)]


#: Part of sum |t|^2 below which the residual is rounding error.
LEAST_RESIDUAL = 1e-13


@dataclass(frozen=True, slots=True)
class State(NodeState, NodeStatistics):
    """Globals of component analysis; arrays go by position in the tree."""

    tree: Tree
    loadings: Annotated[Array, Sized("n_nodes", "n_features")]  # m_i
    # s_i
    loading_variances: Annotated[
        Array, Sized("n_nodes", least=1e-300, most=LARGE_SQUARE)
    ]
    # sum of q(c), of the sticks
    stub_masses: Annotated[Array, Sized("n_nodes", least=LEAST_MASS)]
    centres: Annotated[Array, Sized("n_nodes")]  # c_i, 0 at the root
    centre_variances: Annotated[Array, Sized("n_nodes", least=0)]  # r_i, 0 at the root
    mean: Annotated[Array, Sized("n_features")]  # m
    mean_variance: Square  # s_mu
    noise_shape: Square  # a
    noise_rate: Square  # b

    per_node: ClassVar[tuple[str, ...]] = (
        "loadings",
        "loading_variances",
        "stub_masses",
        "centres",
        "centre_variances",
    )

    @property
    def precision(self) -> float:
        """E tau."""
        return self.noise_shape / self.noise_rate

    def reindex_to(self, new: Tree) -> "State":
        """Re-index the state to another tree; new nodes have zero loadings."""
        return replace(self.take_nodes(self.tree, new), tree=new)


@dataclass(frozen=True, slots=True)
class Stats(NodeStatistics):
    """Sums over rows, additive; stubs go by position in a tree.

    t is a row in the frame, m and E[xx'] are its coordinates' moments given a stub of
    which it has the share q. Entries of levels below a stub are those of the prior's
    loadings: their coordinates have mean zero.
    """

    stub_masses: Annotated[Array, Sized("n_nodes", least=LEAST_MASS)]  # sum q
    # E: sum q E[xx']
    moments: Annotated[
        Array, Sized("n_nodes", "n_levels", "n_levels", most=LARGE_SQUARE)
    ]
    coordinates: Annotated[Array, Sized("n_nodes", "n_levels")]  # g: sum q m
    # F: sum q m t'
    products: Annotated[
        Array, Sized("n_nodes", "n_levels", "n_features", most=LARGE_SQUARE)
    ]
    total: Annotated[Array, Sized("n_features")]  # sum t
    square: SignedSquare  # sum |t|^2
    n_rows: SignedSquare
    entropy: SignedSquare  # sum q (-log q + 1/2 log |C|) + n L / 2, at their last step

    per_node: ClassVar[tuple[str, ...]] = (
        "stub_masses",
        "moments",
        "coordinates",
        "products",
    )

    @classmethod
    def zero(cls, n_nodes: int, n_levels: int, n_features: int) -> "Stats":
        """Return the statistics of no rows."""
        shapes = (), (n_levels, n_levels), (n_levels,), (n_levels, n_features)
        masses, moments, means, products = (np.zeros((n_nodes, *s)) for s in shapes)
        total = np.zeros(n_features)
        return cls(masses, moments, means, products, total, 0.0, 0.0, 0.0)

    @property
    def n_tokens(self) -> float:
        """Number of rows, the unit of bounds."""
        return self.n_rows

    def clipped(self) -> "Stats":
        """Return the statistics with negative masses of differences set to zero."""
        return replace(self, stub_masses=np.maximum(self.stub_masses, 0.0))

    def flip_sign(self, tree: Tree, node: int) -> "Stats":
        """Change the sign of the coordinates of a node."""
        level, stubs = tree.depth_of(node), tree.positions(tree.subtree_of(node))
        signs = np.ones(self.coordinates.shape)
        signs[stubs, level] = -1.0
        return replace(
            self,
            moments=self.moments * signs[:, :, None] * signs[:, None, :],
            coordinates=self.coordinates * signs,
            products=self.products * signs[:, :, None],
        )

    def changed(self, tree: Tree, change: Array) -> "Stats":
        """Apply a linear change to the coordinates of rows, see `change_on_paths`."""
        on_paths = change_on_paths(tree, change, self.coordinates.shape[1])
        flipped = on_paths.transpose(0, 2, 1)
        log_dets = np.linalg.slogdet(on_paths)[1]
        return replace(
            self,
            moments=on_paths @ self.moments @ flipped,
            coordinates=np.einsum("klm,km->kl", on_paths, self.coordinates),
            products=on_paths @ self.products,
            entropy=self.entropy + float(self.stub_masses @ log_dets),
        )

    def reindex_to(
        self, old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
    ) -> "Stats":
        """Re-index the statistics to the stubs of another tree.

        Rows of a stub that has ended go to the target of its merge, if any, or to the
        nearest node above that remains. Of levels below, whose loadings are not in the
        tree any more, only squares of coordinates stay.
        """
        moved = self.take_nodes(old, new)
        for place, to, is_heir in ended_nodes(old, new, merged_into):
            known = 1 + (old.depth[place] if is_heir else new.depth[to])
            moved.stub_masses[to] += self.stub_masses[place]
            diagonal = np.diag(np.diag(self.moments[place]))
            diagonal[:known, :known] = self.moments[place, :known, :known]
            moved.moments[to] += diagonal
            moved.coordinates[to, :known] += self.coordinates[place, :known]
            moved.products[to, :known] += self.products[place, :known]
        return moved


@dataclass(frozen=True, slots=True)
class Priors:
    """Hyperparameters of component analysis, and the frame of rows."""

    n_levels: int  # L
    concentration: Square  # gamma
    loading_variance: Square  # s0
    frame: Frame  # in which rows enter: all below is in its units
    noise_shape: Square = 1e-3  # a0
    noise_rate: Square = 1e-3  # b0
    centre_variance: Square = 10.0  # r0
    learn_loading_variance: bool = False


@dataclass(frozen=True, slots=True)
class Equations:
    """Statistics by node, the mean last as a loading of coordinate one.

    The expected squared residual of all rows is quadratic in the loadings z of nodes
    and mean: square - 2 <right, z> + <left, z z' + D diag(s)>, and D s0 unknown.
    """

    left: Array  # (n_nodes + 1, n_nodes + 1) sum E[x_i x_j]
    right: Array  # (n_nodes + 1, n_features) sum E[x_i] t'
    square: float
    unknown: float  # sum E[x^2] of coordinates whose loading is the prior's
    through: Array  # (n_nodes,) rows whose paths pass
    missing: float  # levels off the tree, all rows together

    def residual(
        self, means: Array, variances: Array, loading_variance: float
    ) -> float:
        """Sum E |t - sum_l w_l x_l - mu|^2 over all rows."""
        n_features = means.shape[1]
        gram = means @ means.T
        fitted = np.vdot(self.left, gram) - 2.0 * np.vdot(self.right, means)
        spread = np.diag(self.left) @ variances + loading_variance * self.unknown
        fit = max(self.square + float(fitted), LEAST_RESIDUAL * self.square)
        return fit + n_features * float(spread)


def equations(tree: Tree, stats: Stats) -> Equations:
    """Add up the statistics of stubs by the nodes on their paths."""
    n, n_levels = len(tree), stats.coordinates.shape[1]
    nodes = tree_sticks.stub_nodes(tree, n_levels)
    nodes = np.where(nodes < 0, n + 1, nodes)  # off the tree: left out in the end
    pairs = (n + 2) * nodes[:, :, None] + nodes[:, None, :]
    moments = np.bincount(pairs.ravel(), stats.moments.ravel(), (n + 2) ** 2)
    left = np.asarray(moments, dtype=np.float64).reshape(n + 2, n + 2)[:-1, :-1]
    means = np.bincount(nodes.ravel(), stats.coordinates.ravel(), n + 2)[:n]
    left[n, :n], left[:n, n], left[n, n] = means, means, stats.n_rows
    right = np.zeros((n + 2, len(stats.total)))
    order = np.argsort(nodes, axis=None, kind="stable")
    groups, first = np.unique(nodes.ravel()[order], return_index=True)
    products = stats.products.reshape(nodes.size, -1)
    right[groups] = np.add.reduceat(products[order], first)
    right[n] = stats.total
    missing = float(stats.stub_masses @ (n_levels - 1 - tree.depth))
    return Equations(
        left,
        right[:-1],
        stats.square,
        unseen_second_moments(tree, stats.moments),
        tree.accumulate(stats.stub_masses),
        missing,
    )


def unseen_second_moments(tree: Tree, moments: Array) -> float:
    """Sum E[x^2] of coordinates whose loadings are not in the tree."""
    squares = np.diagonal(moments, axis1=1, axis2=2)
    return float(squares[tree_sticks.stub_nodes(tree, moments.shape[1]) < 0].sum())


def change_on_paths(tree: Tree, change: Array, n_levels: int) -> Array:
    """Linear change of the coordinates of each stub, (n_stubs, n_levels, n_levels).

    `change` is that of all nodes and, last, of the constant; levels that are not in the
    tree keep their coordinates.
    """
    nodes = tree_sticks.stub_nodes(tree, n_levels)
    known = nodes >= 0
    both = known[:, :, None] & known[:, None, :]
    return np.where(
        both, change[nodes[:, :, None], nodes[:, None, :]], np.eye(n_levels)
    )


# Means and variances of paths, which the local step of component analysis reads.


@dataclass(frozen=True, slots=True)
class Paths:
    """What rows read of each stub: under the posterior, or at its means.

    With r = t - mu a row scores, for stub k of the loadings M,

        constants_k - precision / 2 |r|^2 + h' C h / 2,   h = c + precision M' r,

    and its coordinates have mean C h and covariance C = R' R; c are the centres.
    """

    loadings: Array  # (n_nodes, n_features)
    mean: Array  # (n_features,)
    precision: float
    stub_nodes: Ints32  # (n_stubs, n_levels) -1: off the tree
    covariances: Array  # (n_stubs, n_levels, n_levels) C
    roots: Array  # (n_stubs, n_levels, n_levels) R, lower triangles
    centres: Array  # (n_stubs, n_levels) c
    log_dets: Array  # (n_stubs,) log |C|
    constants: Array  # (n_stubs,)


def paths(model: Priors, state: State) -> Paths:
    """Return paths under the posterior: q(x | c) and q(c) as in section 4.2 of [1]."""
    tree, gamma, n_levels = state.tree, model.concentration, model.n_levels
    a, b = tree_sticks.stick_parameters(tree, state.stub_masses, gamma)
    log_prior = tree_sticks.log_stub_priors(tree, a, b, gamma, n_levels)
    nodes = tree_sticks.stub_nodes(tree, n_levels)
    variances = np.where(
        nodes >= 0, state.loading_variances[nodes], model.loading_variance
    )
    log_precision = psi(state.noise_shape) - np.log(state.noise_rate)
    n_features = len(state.mean)
    spread = state.precision * n_features * state.mean_variance
    centre_variances = np.where(
        nodes >= 0, state.centre_variances[nodes], model.centre_variance
    )
    spread = spread + centre_variances.sum(axis=1)
    return _paths(
        state, nodes, n_features * variances, log_prior, log_precision, spread
    )


def mean_paths(model: Priors, state: State) -> Paths:
    """Return paths with all globals at their means, for log p(t) of new rows.

    Levels that are not in the tree have no loadings then.
    """
    tree, gamma = state.tree, model.concentration
    a, b = tree_sticks.stick_parameters(tree, state.stub_masses, gamma)
    _, log_prior = tree_sticks.log_mean_stubs(tree, a, b, model.n_levels)
    nodes = tree_sticks.stub_nodes(tree, model.n_levels)
    spreads = np.zeros(nodes.shape)
    nothing = np.zeros(len(nodes))
    return _paths(state, nodes, spreads, log_prior, np.log(state.precision), nothing)


def _paths(
    state: State,
    nodes: Ints32,
    spreads: Array,
    log_prior: Array,
    log_precision: float,
    spread: Array,
) -> Paths:
    """Invert I + tau E[W'W] for each stub; `spreads` are E[w'w] - m'm.

    `spread` is what the variance of the mean and of centres subtracts from the score.
    """
    centres = np.where(nodes >= 0, state.centres[nodes], 0.0)
    gram = np.zeros((len(state.tree) + 1, len(state.tree) + 1))  # -1: off the tree
    gram[:-1, :-1] = state.loadings @ state.loadings.T
    n_levels, precision = nodes.shape[1], state.precision
    inverse = precision * gram[nodes[:, :, None], nodes[:, None, :]]
    at = np.arange(n_levels)
    inverse[:, at, at] += 1.0 + precision * spreads
    factors = np.linalg.cholesky(inverse)
    log_dets = -2.0 * np.log(factors[:, at, at]).sum(axis=1)
    identity = np.eye(n_levels)
    roots = np.array([solve_triangular(f, identity, lower=True) for f in factors])
    covariances = roots.transpose(0, 2, 1) @ roots
    constants = log_prior + 0.5 * (log_dets - spread - np.square(centres).sum(axis=1))
    constants += 0.5 * len(state.mean) * (log_precision - np.log(2.0 * np.pi))
    return Paths(
        state.loadings,
        state.mean,
        precision,
        nodes,
        covariances,
        roots,
        centres,
        log_dets,
        constants,
    )


# Evidence lower bound of hierarchical component analysis, by term.


def white_noise(n_rows: float, n_features: int) -> float:
    """Log density of rows of white noise of variance one, in nats: the unit of bounds.

    What changes of the bound are compared with: a bound has a unit, and a zero.
    """
    return 0.5 * n_rows * n_features * (1.0 + float(np.log(2.0 * np.pi)))


def residual_of(model: Priors, state: State, sums: Equations) -> float:
    """Expected sum of squared residuals of all rows."""
    means = np.vstack([state.loadings, state.mean])
    variances = np.append(state.loading_variances, state.mean_variance)
    return sums.residual(means, variances, model.loading_variance)


def elbo_terms(
    model: Priors, state: State, stats: Stats, sums: Equations | None = None
) -> dict[str, float]:
    """Evidence lower bound of the globals and the rows behind `stats`, by terms.

    Both go by the same tree. The terms are E log p - E log q of loadings, centres, mu,
    tau and sticks, and the remainder, that of the rows. `sums` are the equations of the
    statistics, if they are known.
    """
    sums = equations(state.tree, stats) if sums is None else sums
    tree, n_features = state.tree, len(state.mean)
    masses, gamma = state.stub_masses, model.concentration
    a, b = tree_sticks.stick_parameters(tree, masses, gamma)
    log_prior = tree_sticks.log_stub_priors(tree, a, b, gamma, model.n_levels)

    residual = residual_of(model, state, sums)
    log_precision = psi(state.noise_shape) - np.log(state.noise_rate)
    rows = stats.entropy + stats.stub_masses @ log_prior
    rows -= 0.5 * _from_centres(model, state, sums)
    rows += 0.5 * stats.n_rows * n_features * (log_precision - np.log(2.0 * np.pi))
    rows -= 0.5 * state.precision * residual
    s0, r0 = model.loading_variance, model.centre_variance
    of_centres = state.centre_variances[1:]
    return {
        "loadings": _log_gaussians(state.loadings, state.loading_variances, s0),
        "centres": _log_gaussians(state.centres[1:, None], of_centres, r0),
        "mean": _log_gaussians(state.mean[None], np.array([state.mean_variance]), s0),
        "noise": _log_noise(model, state),
        "sticks": tree_sticks.stick_bound(a, b, gamma),
        "rows": float(rows),
    }


def _from_centres(model: Priors, state: State, sums: Equations) -> float:
    """Sum E |x - a|^2 over all rows: coordinates about the centres of nodes."""
    left, centres = sums.left, state.centres
    squares = np.trace(left[:-1, :-1]) - 2.0 * float(centres @ left[:-1, -1])
    squares += float(sums.through @ (centres**2 + state.centre_variances))
    return float(squares + sums.unknown + sums.missing * model.centre_variance)


def _log_gaussians(means: Array, variances: Array, prior: float) -> float:
    """E log p - E log q of vectors with prior N(0, prior I)."""
    ratios = variances / prior
    spread = means.shape[1] * (1.0 + np.log(ratios) - ratios).sum()
    return float(0.5 * spread - 0.5 * np.vdot(means, means) / prior)


def _log_noise(model: Priors, state: State) -> float:
    """E log p - E log q of the noise precision tau."""
    a, b = state.noise_shape, state.noise_rate
    a0, b0 = model.noise_shape, model.noise_rate
    divergence = (a - a0) * psi(a) - gammaln(a) + gammaln(a0)
    divergence += a0 * (np.log(b) - np.log(b0)) + a * (b0 - b) / b
    return float(-divergence)
