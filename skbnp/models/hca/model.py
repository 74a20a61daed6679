"""Hierarchical component analysis of Wang and Blei (2009), [1]: what is global.

Symbols of [1]: node i of a tree of L levels has a stick v_i ~ Beta(1, gamma), its share
of what its earlier siblings leave, a loading w_i ~ N(0, s0 I) and a centre
a_i ~ N(0, r0) of the coordinates on it, but for the root, whose centre is 0: mu does
the same. Row n takes a path c and has coordinates x_l ~ N(a_{c_l}, 1),

    t_n = mu + sum_l w_{c_l} x_l + e,   mu ~ N(0, s0 I),  e ~ N(0, I / tau),

tau ~ Gamma(a0, b0) with rate b0. So a path has a mean of its own, mu + sum_l w_l a_l,
as section 4.2 of [1] suggests; it has one mean for all. The posterior knows a finite
part of the tree, of depth below L; elsewhere it is the prior. Each node of that part is
a *stub*: the path to it if it is at the last level, otherwise all paths that leave the
known tree below it. It is

    q(c) q(x | c) q(w_i) q(a_i) q(mu) q(tau) q(v_i),   q(w_i) = N(m_i, s_i I),
    q(a_i) = N(c_i, r_i),  q(mu) = N(m, s_mu I),  q(tau) = Gamma(a, b).

Rows enter in a frame, which is part of the model: less a shift, in units of their
standard deviation, so that priors are relative to it and a tree has no unit.

[2] Luttinen and Ilin, "Transformations in variational Bayesian factor analysis to speed
up learning", Neurocomputing 73, 2010.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.special import betaln, gammaln, psi

from skbnp.components.node_statistics import NodeState, NodeStatistics, ended_nodes
from skbnp.components.tree_sticks import (
    expected_log_sticks,
    log_breaks,
    log_stub_priors,
    stick_parameters,
    stub_nodes,
)
from skbnp.models.hca.frame import Frame
from skbnp.trees import Tree

__all__ = [
    "Equations",
    "Model",
    "Paths",
    "State",
    "Stats",
    "change_on_paths",
    "convert",
    "coordinate_ascent",
    "elbo_terms",
    "equations",
    "expand",
    "mean_paths",
    "paths",
    "update_centres",
    "update_masses",
    "update_means",
    "update_noise",
    "update_variances",
    "white_noise",
]

Array = NDArray[np.float64]

#: Rounds over means, variances and noise in which the globals follow the statistics.
N_ROUNDS = 3
#: Part of sum |t|^2 below which the residual is rounding error.
ROUNDING = 1e-13
#: Rows below which a node keeps its coordinates.
LEAST_MASS = 1e-6


@dataclass(frozen=True, slots=True)
class State(NodeState):
    """The globals; arrays go by position in the tree."""

    tree: Tree
    loadings: Array  # (n_nodes, n_features) m_i
    loading_variances: Array  # (n_nodes,) s_i
    stub_masses: Array  # (n_nodes,) sum of q(c), of the sticks
    centres: Array  # (n_nodes,) c_i, 0 at the root
    centre_variances: Array  # (n_nodes,) r_i, 0 at the root
    mean: Array  # (n_features,) m
    mean_variance: float  # s_mu
    noise_shape: float  # a
    noise_rate: float  # b

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

    def follow(self, new: Tree) -> "State":
        """Have the nodes of another tree; those it adds are as nothing is."""
        old = self.tree
        stays = np.isin(old.ids, new.ids)
        at, n = new.positions(old.ids[stays]), len(new)
        moved: dict[str, Any] = {}
        for name in self.per_node:
            value = getattr(self, name)
            moved[name] = np.zeros((n, *value.shape[1:]))
            moved[name][at] = value[stays]
        return replace(self, tree=new, **moved)


@dataclass(frozen=True, slots=True)
class Stats(NodeStatistics):
    """Sums over rows, additive; stubs go by position in a tree.

    t is a row in the frame, m and E[xx'] are its coordinates' moments given a stub of
    which it has the share q. Entries of levels below a stub are those of the prior's
    loadings: their coordinates have mean zero.
    """

    stub_masses: Array  # (n_nodes,) sum q
    moments: Array  # (n_nodes, n_levels, n_levels) E: sum q E[xx']
    coordinates: Array  # (n_nodes, n_levels) g: sum q m
    products: Array  # (n_nodes, n_levels, n_features) F: sum q m t'
    total: Array  # (n_features,) sum t
    square: float  # sum |t|^2
    n_rows: float
    entropy: float  # sum q (-log q + 1/2 log |C|) + n L / 2, as rows were visited

    per_node: ClassVar[tuple[str, ...]] = (
        "stub_masses",
        "moments",
        "coordinates",
        "products",
    )

    @classmethod
    def zero(cls, n_nodes: int, n_levels: int, n_features: int) -> "Stats":
        """Of no rows."""
        return cls(
            np.zeros(n_nodes),
            np.zeros((n_nodes, n_levels, n_levels)),
            np.zeros((n_nodes, n_levels)),
            np.zeros((n_nodes, n_levels, n_features)),
            np.zeros(n_features),
            0.0,
            0.0,
            0.0,
        )

    @property
    def n_tokens(self) -> float:
        """Units of the bound: rows."""
        return self.n_rows

    def clipped(self) -> "Stats":
        """Without the negative masses that differences leave."""
        return replace(self, stub_masses=np.maximum(self.stub_masses, 0.0))

    def flip_sign(self, tree: Tree, node: int) -> "Stats":
        """Let the coordinates of a node have the other sign."""
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
        """Let rows have other coordinates, see `change_on_paths`."""
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

    def follow(
        self, old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
    ) -> "Stats":
        """Speak of the stubs of another tree.

        A stub that has gone leaves its rows to its heir, if there is one, otherwise to
        the closest node above that has stayed; what they said of levels below it was
        about loadings that are not in the tree any more.
        """
        moved = self.reindex(old, new)
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
class Model:
    """Hyperparameters in force, and the frame of rows."""

    n_levels: int  # L
    concentration: float  # gamma
    loading_variance: float  # s0
    frame: Frame  # in which rows enter: all below is in its units
    noise_shape: float = 1e-3  # a0
    noise_rate: float = 1e-3  # b0
    centre_variance: float = 10.0  # r0
    learn_loading_variance: bool = False

    #: Whether `objective` is a bound of the evidence, and its name.
    has_bound: ClassVar[bool] = True
    criterion: ClassVar[str] = "elbo"
    parts_name: ClassVar[str] = "nodes"
    unit: ClassVar[str] = "row"

    def objective(self, state: State, stats: Stats) -> dict[str, float]:
        """Terms of the bound of the rows as they were given, by name."""
        terms = elbo_terms(self, state, stats)
        terms["rows"] -= stats.n_rows * self.frame.log_volume
        return terms

    def bound(self, state: State, stats: Stats) -> float:
        """Evidence lower bound of the rows behind `stats`, in units of the frame."""
        return sum(elbo_terms(self, state, stats).values())

    def stochastic_update(
        self, state: State, global_stats: Stats, stats: Stats, step: float, scale: float
    ) -> tuple[State, Stats]:
        """Move totals by a step towards scaled statistics; the globals follow."""
        blended = global_stats.blended(stats, 1.0 - step, step * scale)
        return convert(self, *coordinate_ascent(self, state, blended))[:2]

    def in_frame(
        self, frame: Frame, state: State, stats: Stats
    ) -> tuple["Model", State, Stats]:
        """Say the same in another unit; priors are relative to this one then."""
        gain = self.frame.unit / frame.unit
        square, model = gain**2, replace(self, frame=frame)
        rate = self.noise_rate + square * (state.noise_rate - self.noise_rate)
        state = replace(
            state,
            loadings=gain * state.loadings,
            loading_variances=square * state.loading_variances,
            mean=gain * state.mean,
            mean_variance=square * state.mean_variance,
            noise_rate=rate,
        )
        stats = replace(
            stats,
            products=gain * stats.products,
            total=gain * stats.total,
            square=square * stats.square,
        )
        return model, state, stats

    def learn_priors(self, state: State, global_stats: Stats) -> tuple["Model", State]:
        """Learn what is to be learned of the hyperparameters."""
        return self.learned(state, global_stats), state

    def learned(self, state: State, stats: Stats) -> "Model":
        """Return the model whose loading variance has the highest bound."""
        if not self.learn_loading_variance:
            return self
        # n D / s0 - S / s0^2 + T = 0, where T is what unknown loadings cost.
        n_features = len(self.frame.shift)
        variances = np.append(state.loading_variances, state.mean_variance)
        squares = float(np.sum(state.loadings**2) + state.mean @ state.mean)
        squares += n_features * float(variances.sum())
        n = len(variances) * n_features
        lost = state.precision * n_features * _unknown(state.tree, stats.moments)
        # The root of T s0^2 + n s0 - S without cancellation.
        best = 2.0 * squares / (n + np.sqrt(n * n + 4.0 * lost * squares))
        return replace(self, loading_variance=float(best))


def white_noise(n_rows: float, n_features: int) -> float:
    """Nats of rows of white noise of variance one.

    What changes of the bound are compared with: a bound has a unit, and a zero.
    """
    return 0.5 * n_rows * n_features * float(np.log(2.0 * np.pi * np.e))


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
        fit = max(self.square + float(fitted), ROUNDING * self.square)
        return fit + n_features * float(spread)


def equations(tree: Tree, stats: Stats) -> Equations:
    """Add up the statistics of stubs by the nodes on their paths."""
    n, n_levels = len(tree), stats.coordinates.shape[1]
    nodes = stub_nodes(tree, n_levels)
    nodes = np.where(nodes < 0, n + 1, nodes)  # off the tree: left out in the end
    pairs = (n + 2) * nodes[:, :, None] + nodes[:, None, :]
    precisions = np.bincount(pairs.ravel(), stats.moments.ravel(), (n + 2) ** 2)
    left = np.asarray(precisions, dtype=np.float64).reshape(n + 2, n + 2)[:-1, :-1]
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
        _unknown(tree, stats.moments),
        tree.accumulate(stats.stub_masses),
        missing,
    )


def _unknown(tree: Tree, moments: Array) -> float:
    """Sum E[x^2] of coordinates whose loadings are not in the tree."""
    squares = np.diagonal(moments, axis1=1, axis2=2)
    return float(squares[stub_nodes(tree, moments.shape[1]) < 0].sum())


# Exact coordinate steps: each maximises the bound over what it names ------------------


def update_means(model: Model, state: State, sums: Equations) -> State:
    """Means of all loadings and of mu, together.

    Of node i alone, section 4.2 of [1] would have
    m_i = s_i E tau (right_i - sum_j left_ij m_j): this solves all these at once.
    """
    left = state.precision * sums.left
    left[np.diag_indices_from(left)] += 1.0 / model.loading_variance
    means = _solved(left, state.precision * sums.right)
    return replace(state, loadings=means[:-1], mean=means[-1].copy())


def _solved(left: Array, right: Array) -> Array:
    """Solve equations whose matrix is positive definite, but for rounding errors."""
    scales = 1.0 / np.sqrt(np.diag(left))
    left, right = left * scales * scales[:, None], right * scales[:, None]
    try:
        result = cho_solve(cho_factor(left, lower=True), right)
    except LinAlgError:
        result = np.linalg.lstsq(left, right, rcond=None)[0]
    return np.ascontiguousarray(result * scales[:, None])


def update_variances(model: Model, state: State, sums: Equations) -> State:
    """Variances of all loadings and of mu."""
    precisions = state.precision * np.diag(sums.left)
    variances = 1.0 / (1.0 / model.loading_variance + precisions)
    return replace(
        state, loading_variances=variances[:-1], mean_variance=float(variances[-1])
    )


def update_centres(model: Model, state: State, sums: Equations) -> State:
    """Centres of the coordinates on all nodes but the root."""
    variances = 1.0 / (1.0 / model.centre_variance + sums.through)
    variances[0] = 0.0
    return replace(
        state, centres=variances * sums.left[:-1, -1], centre_variances=variances
    )


def update_noise(model: Model, state: State, stats: Stats, sums: Equations) -> State:
    """Gamma posterior of tau."""
    residual = _residual(model, state, sums)
    return replace(
        state,
        noise_shape=model.noise_shape + 0.5 * stats.n_rows * len(stats.total),
        noise_rate=model.noise_rate + 0.5 * residual,
    )


def update_masses(state: State, stats: Stats) -> tuple[State, Stats]:
    """Posterior of the sticks, siblings by decreasing mass.

    For given masses no other order has a larger bound. State and statistics follow.
    """
    tree = state.tree
    new = tree.sort_siblings(-tree.accumulate(stats.stub_masses))
    stats = stats.follow(tree, new)
    return replace(state.follow(new), stub_masses=stats.stub_masses), stats


def coordinate_ascent(
    model: Model, state: State, stats: Stats, n_rounds: int = N_ROUNDS
) -> tuple[State, Stats]:
    """Let the globals follow the statistics, from where they are."""
    state, stats = update_masses(state, stats)
    sums = equations(state.tree, stats)
    return _follow(model, state, stats, sums, n_rounds), stats


def _follow(
    model: Model, state: State, stats: Stats, sums: Equations, n_rounds: int = N_ROUNDS
) -> State:
    for _ in range(n_rounds):
        state = update_means(model, state, sums)
        state = update_variances(model, state, sums)
        state = update_centres(model, state, sums)
        state = update_noise(model, state, stats, sums)
    return state


def expand(
    model: Model, state: State, stats: Stats, within: int | None = None
) -> State:
    """Globals for other coordinates of the rows that explain them as well, see [2].

    Loadings and coordinates change each other slowly where w x can be said in other
    ways: adding multiples of the loadings above to a loading, of the root's loading to
    the mean, or scaling it is made up for by the coordinates. Those that are closest to
    their prior have no correlation with any below them, and variance one about the
    centre, which follows. If the bound
    is higher with them, the globals follow them, and rows are to be visited: all rows,
    or with `within`, the name of a node, those whose paths pass it.
    """
    sums = equations(state.tree, stats)
    top = 0 if within is None else int(state.tree.positions([within])[0])
    change = _decorrelation(state.tree, stats, sums.left, top, frees_mean=True)
    left = change @ sums.left @ change.T
    new = replace(sums, left=left, right=change @ sums.right)
    gain = float(sums.through @ np.log(np.diag(change)[:-1]))
    result = _follow(model, state, stats, new)
    before = sum(_terms(model, state, stats, sums).values())
    after = sum(_terms(model, result, stats, new).values()) + gain
    return result if after > before else state


def convert(model: Model, state: State, stats: Stats) -> tuple[State, Stats, Array]:
    """Globals and statistics for other coordinates, without a visit; and the change.

    As `expand`, but the mean stays as it is: no sum of the rows of a stub is kept.
    """
    sums = equations(state.tree, stats)
    change = _decorrelation(state.tree, stats, sums.left, 0, frees_mean=False)
    changed = stats.changed(state.tree, change)
    result = _follow(model, state, changed, equations(state.tree, changed))
    if model.bound(result, changed) > model.bound(state, stats):
        return result, changed, change
    return state, stats, np.eye(len(change))


def change_on_paths(tree: Tree, change: Array, n_levels: int) -> Array:
    """Linear change of the coordinates of each stub, (n_stubs, n_levels, n_levels).

    `change` is that of all nodes and of the constant behind them; levels that are not
    in the tree keep theirs.
    """
    nodes = stub_nodes(tree, n_levels)
    known = nodes >= 0
    both = known[:, :, None] & known[:, None, :]
    return np.where(
        both, change[nodes[:, :, None], nodes[:, None, :]], np.eye(n_levels)
    )


def _decorrelation(
    tree: Tree, stats: Stats, left: Array, top: int, *, frees_mean: bool
) -> Array:
    """Linear change of the coordinates of a node and all below it.

    Those of a node are freed of what the nodes below it predict; the mean of what is
    left is the centre, and of the root, which has none, part of the mean of all rows.
    Rows that do not pass a node have no coordinate there.
    """
    n = len(tree)
    change = np.eye(n + 1)
    through = tree.accumulate(stats.stub_masses)
    used = through > LEAST_MASS
    for place in top + np.flatnonzero(used[top : top + tree.size[top]]):
        below = np.arange(place + 1, place + tree.size[place])
        below = below[used[below]]
        has_mean = place > 0 or frees_mean
        if has_mean:
            below = np.append(below, n)
        factors = np.zeros(0)
        if len(below):
            precisions = left[np.ix_(below, below)]
            if has_mean:
                precisions[-1, -1] = through[place]
            factors = np.linalg.lstsq(precisions, left[below, place], rcond=None)[0]
        rest = left[place, place] - factors @ left[below, place]
        if rest > 1e-12 * left[place, place]:
            if place > 0:
                below, factors = below[:-1], factors[:-1]
            change[place, below] = -factors
            change[place] *= np.sqrt(through[place] / rest)
    return change


def _residual(model: Model, state: State, sums: Equations) -> float:
    means = np.vstack([state.loadings, state.mean])
    variances = np.append(state.loading_variances, state.mean_variance)
    return sums.residual(means, variances, model.loading_variance)


# The bound ----------------------------------------------------------------------------


def elbo_terms(model: Model, state: State, stats: Stats) -> dict[str, float]:
    """Evidence lower bound of the globals and the rows behind `stats`.

    Both go by the same tree. The terms are E log p - E log q of the loadings, of the
    centres, of mu, of tau and of the sticks, and what is left: the part of the rows.
    """
    return _terms(model, state, stats, equations(state.tree, stats))


def _terms(
    model: Model, state: State, stats: Stats, sums: Equations
) -> dict[str, float]:
    tree, n_features = state.tree, len(state.mean)
    masses, gamma = state.stub_masses, model.concentration
    a, b = stick_parameters(tree, masses, gamma)
    log_stay, log_pass = expected_log_sticks(a, b)
    sticks = betaln(a, b) - betaln(1.0, gamma)
    sticks += (1.0 - a) * log_stay + (gamma - b) * log_pass
    log_prior = log_stub_priors(tree, a, b, gamma, model.n_levels)

    residual = _residual(model, state, sums)
    log_precision = psi(state.noise_shape) - np.log(state.noise_rate)
    rows = stats.entropy + stats.stub_masses @ log_prior
    rows -= 0.5 * _from_centres(model, state, sums)
    rows += 0.5 * stats.n_rows * n_features * (log_precision - np.log(2.0 * np.pi))
    rows -= 0.5 * state.precision * residual
    return {
        "loadings": _log_gaussians(
            state.loadings, state.loading_variances, model.loading_variance
        ),
        "centres": _log_gaussians(
            state.centres[1:, None], state.centre_variances[1:], model.centre_variance
        ),
        "mean": _log_gaussians(
            state.mean[None], np.array([state.mean_variance]), model.loading_variance
        ),
        "noise": _log_noise(model, state),
        "sticks": float(sticks[1:].sum()),
        "rows": float(rows),
    }


def _from_centres(model: Model, state: State, sums: Equations) -> float:
    """Sum E |x - a|^2 over all rows."""
    left, centres = sums.left, state.centres
    squares = np.trace(left[:-1, :-1]) - 2.0 * float(centres @ left[:-1, -1])
    squares += float(sums.through @ (centres**2 + state.centre_variances))
    return float(squares + sums.unknown + sums.missing * model.centre_variance)


def _log_gaussians(means: Array, variances: Array, prior: float) -> float:
    """E log p - E log q of vectors with prior N(0, prior I)."""
    ratios = variances / prior
    spread = means.shape[1] * (1.0 + np.log(ratios) - ratios).sum()
    return float(0.5 * spread - 0.5 * np.vdot(means, means) / prior)


def _log_noise(model: Model, state: State) -> float:
    """E log p - E log q of tau."""
    a, b, a0, b0 = (
        state.noise_shape,
        state.noise_rate,
        model.noise_shape,
        model.noise_rate,
    )
    divergence = (a - a0) * psi(a) - gammaln(a) + gammaln(a0)
    divergence += a0 * (np.log(b) - np.log(b0)) + a * (b0 - b) / b
    return float(-divergence)


# What rows see ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paths:
    """The stubs as rows see them, under the posterior or at its means.

    With r = t - mu a row scores, for stub k of the loadings M,

        constants_k - precision / 2 |r|^2 + h' C h / 2,   h = c + precision M' r,

    and its coordinates have mean C h and covariance C = R' R; c are the centres.
    """

    loadings: Array  # (n_nodes, n_features)
    mean: Array  # (n_features,)
    precision: float
    stub_nodes: NDArray[np.int32]  # (n_stubs, n_levels) -1: off the tree
    covariances: Array  # (n_stubs, n_levels, n_levels) C
    roots: Array  # (n_stubs, n_levels, n_levels) R, lower triangles
    centres: Array  # (n_stubs, n_levels) c
    log_dets: Array  # (n_stubs,) log |C|
    constants: Array  # (n_stubs,)


def paths(model: Model, state: State) -> Paths:
    """What rows see under the posterior: q(x | c) and q(c) as in section 4.2 of [1]."""
    tree, gamma, n_levels = state.tree, model.concentration, model.n_levels
    a, b = stick_parameters(tree, state.stub_masses, gamma)
    log_prior = log_stub_priors(tree, a, b, gamma, n_levels)
    nodes = stub_nodes(tree, n_levels)
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


def mean_paths(model: Model, state: State) -> Paths:
    """What rows see with all globals at their means: log p(t), for new rows.

    Levels that are not in the tree have no loadings then.
    """
    tree, gamma = state.tree, model.concentration
    a, b = stick_parameters(tree, state.stub_masses, gamma)
    log_stay, log_pass = np.log(a) - np.log(a + b), np.log(b) - np.log(a + b)
    to_here, passed_all = log_breaks(tree, log_stay, log_pass)
    inner = tree.depth < model.n_levels - 1
    log_prior = to_here + np.where(inner, passed_all, 0.0)
    nodes = stub_nodes(tree, model.n_levels)
    spreads = np.zeros(nodes.shape)
    nothing = np.zeros(len(nodes))
    return _paths(state, nodes, spreads, log_prior, np.log(state.precision), nothing)


def _paths(
    state: State,
    nodes: NDArray[np.int32],
    spreads: Array,
    log_prior: Array,
    log_precision: float,
    spread: Array,
) -> Paths:
    """Invert I + tau E[W'W] for each stub; `spreads` is what E[w'w] exceeds m'm by.

    `spread` is what the uncertainty of the mean and of centres takes of the score.
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
