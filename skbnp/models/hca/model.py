"""Model of hierarchical component analysis of Wang and Blei (2009), [1]: globals.

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

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from skbnp.models.hca import state as bound
from skbnp.models.hca.state import Equations, Frame, Priors, State, Stats
from skbnp.trees import Tree
from skbnp.utils.typing import Array

# Updates of component analysis: each maximises the bound over one block of globals.


#: Rows below which a node keeps its coordinates.
LEAST_STUB_MASS = 1e-6
#: Rounds over means, variances and noise in which the globals follow the statistics.
N_ROUNDS = 3


def update_means(model: Priors, state: State, sums: Equations) -> State:
    """Means of all loadings and of mu, updated together.

    For node i alone, section 4.2 of [1] has m_i = s_i E tau (right_i - sum_j left_ij
    m_j): this solves the equations of all nodes at once.
    """
    left = state.precision * sums.left
    left[np.diag_indices_from(left)] += 1.0 / model.loading_variance
    means = _solved(left, state.precision * sums.right)
    return replace(state, loadings=means[:-1], mean=means[-1].copy())


def _solved(left: Array, right: Array) -> Array:
    """Solve equations whose matrix is positive definite, except for rounding errors."""
    scales = 1.0 / np.sqrt(np.diag(left))
    left, right = left * scales * scales[:, None], right * scales[:, None]
    try:
        result = cho_solve(cho_factor(left, lower=True), right)
    except LinAlgError:
        result = np.linalg.lstsq(left, right, rcond=None)[0]
    return np.ascontiguousarray(result * scales[:, None])


def update_variances(model: Priors, state: State, sums: Equations) -> State:
    """Variances of all loadings and of mu."""
    squares = state.precision * np.diag(sums.left)
    variances = 1.0 / (1.0 / model.loading_variance + squares)
    return replace(
        state, loading_variances=variances[:-1], mean_variance=float(variances[-1])
    )


def update_centres(model: Priors, state: State, sums: Equations) -> State:
    """Centres of the coordinates on all nodes but the root."""
    variances = 1.0 / (1.0 / model.centre_variance + sums.through)
    variances[0] = 0.0
    return replace(
        state, centres=variances * sums.left[:-1, -1], centre_variances=variances
    )


def update_noise(model: Priors, state: State, stats: Stats, sums: Equations) -> State:
    """Gamma posterior of tau."""
    residual = bound.residual_of(model, state, sums)
    return replace(
        state,
        noise_shape=model.noise_shape + 0.5 * stats.n_rows * len(stats.total),
        noise_rate=model.noise_rate + 0.5 * residual,
    )


def update_masses(state: State, stats: Stats) -> tuple[State, Stats]:
    """Return state and statistics with siblings sorted by decreasing mass.

    For given masses no other order has a larger bound.
    """
    tree = state.tree
    new = tree.sort_siblings(-tree.accumulate(stats.stub_masses))
    stats = stats.reindex_to(tree, new)
    return replace(state.reindex_to(new), stub_masses=stats.stub_masses), stats


def coordinate_ascent(model: Priors, state: State, stats: Stats) -> tuple[State, Stats]:
    """Update the globals in turn, given the statistics."""
    state, stats = update_masses(state, stats)
    return _update_in_turn(
        model, state, stats, bound.equations(state.tree, stats)
    ), stats


def _update_in_turn(
    model: Priors, state: State, stats: Stats, sums: Equations
) -> State:
    """Update the globals in turn, given the equations of the statistics."""
    for _ in range(N_ROUNDS):
        state = update_means(model, state, sums)
        state = update_variances(model, state, sums)
        state = update_centres(model, state, sums)
        state = update_noise(model, state, stats, sums)
    return state


def expand(
    model: Priors, state: State, stats: Stats, within: int | None = None
) -> State:
    """Globals for other coordinates of the rows that explain them as well, see [2].

    Loadings and coordinates change each other slowly if w x has several forms: adding
    multiples of the loadings above to a loading, or of the root's loading to the mean,
    or scaling a loading is compensated by the coordinates. Coordinates nearest to their
    prior have no correlation with any below them, and variance one about the centre,
    which is updated. If the bound is higher with them, the globals change accordingly,
    and rows need a local step: all rows, or with `within`, the id of a node, those
    whose paths pass it.
    """
    sums = bound.equations(state.tree, stats)
    top = 0 if within is None else int(state.tree.positions([within])[0])
    change = _decorrelation(state.tree, stats, sums.left, top, frees_mean=True)
    left = change @ sums.left @ change.T
    new = replace(sums, left=left, right=change @ sums.right)
    gain = float(sums.through @ np.log(np.diag(change)[:-1]))
    result = _update_in_turn(model, state, stats, new)
    before = sum(bound.elbo_terms(model, state, stats, sums).values())
    after = sum(bound.elbo_terms(model, result, stats, new).values()) + gain
    return result if after > before else state


def convert(model: Priors, state: State, stats: Stats) -> tuple[State, Stats, Array]:
    """Globals and statistics for other coordinates, without a local step.

    As `expand`, but the mean is fixed: no sum of the rows of a stub is kept.
    """
    sums = bound.equations(state.tree, stats)
    change = _decorrelation(state.tree, stats, sums.left, 0, frees_mean=False)
    changed = stats.changed(state.tree, change)
    result = _update_in_turn(
        model, state, changed, bound.equations(state.tree, changed)
    )
    before = sum(bound.elbo_terms(model, state, stats).values())
    if sum(bound.elbo_terms(model, result, changed).values()) > before:
        return result, changed, change
    return state, stats, np.eye(len(change))


def _decorrelation(
    tree: Tree, stats: Stats, left: Array, top: int, *, frees_mean: bool
) -> Array:
    """Linear change of the coordinates of a node and of all nodes below it.

    The part of a node's coordinates that the nodes below predict is subtracted; the
    mean of the remainder is the centre, and for the root, which has none, part of the
    mean of all rows. Rows that do not pass a node have no coordinate there.
    """
    n = len(tree)
    change = np.eye(n + 1)
    through = tree.accumulate(stats.stub_masses)
    used = through > LEAST_STUB_MASS
    for place in top + np.flatnonzero(used[top : top + tree.size[top]]):
        below = np.arange(place + 1, place + tree.size[place])
        below = below[used[below]]
        has_mean = place > 0 or frees_mean
        if has_mean:
            below = np.append(below, n)
        factors = np.zeros(0)
        if len(below):
            squares = left[np.ix_(below, below)]
            if has_mean:
                squares[-1, -1] = through[place]
            factors = np.linalg.lstsq(squares, left[below, place], rcond=None)[0]
        rest = left[place, place] - factors @ left[below, place]
        if rest > 1e-12 * left[place, place]:
            if place > 0:
                below, factors = below[:-1], factors[:-1]
            change[place, below] = -factors
            change[place] *= np.sqrt(through[place] / rest)
    return change


@dataclass(frozen=True, slots=True)
class Model(Priors):
    """Model of component analysis: hyperparameters, updates and objective."""

    #: Whether `objective` is a bound of the evidence, and its name.
    has_bound: ClassVar[bool] = True
    criterion: ClassVar[str] = "elbo"
    parts_name: ClassVar[str] = "nodes"
    unit: ClassVar[str] = "row"

    def objective(self, state: State, stats: Stats) -> dict[str, float]:
        """Terms of the bound by name, for rows in the user's unit."""
        terms = bound.elbo_terms(self, state, stats)
        terms["rows"] -= stats.n_rows * self.frame.log_volume
        return terms

    def bound(self, state: State, stats: Stats) -> float:
        """Evidence lower bound of the rows behind `stats`, in the unit of the frame."""
        return sum(bound.elbo_terms(self, state, stats).values())

    def stochastic_update(
        self, state: State, global_stats: Stats, stats: Stats, step: float, scale: float
    ) -> tuple[State, Stats]:
        """Step from totals towards scaled statistics; the globals follow."""
        blended = global_stats.blended(stats, 1.0 - step, step * scale)
        return convert(self, *coordinate_ascent(self, state, blended))[:2]

    def in_frame(
        self, frame: Frame, state: State, stats: Stats
    ) -> tuple["Model", State, Stats]:
        """Return model, state and statistics, relative to the unit of another frame."""
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

    def learn_priors(self, state: State, stats: Stats) -> tuple["Model", State]:
        """Return the model whose loading variance has the highest bound, and state."""
        if not self.learn_loading_variance:
            return self, state
        # n D / s0 - S / s0^2 + T = 0, where T is what unknown loadings cost.
        n_features = len(self.frame.shift)
        variances = np.append(state.loading_variances, state.mean_variance)
        squares = float(np.sum(state.loadings**2) + state.mean @ state.mean)
        squares += n_features * float(variances.sum())
        n = len(variances) * n_features
        unseen = bound.unseen_second_moments(state.tree, stats.moments)
        lost = state.precision * n_features * unseen
        # The root of T s0^2 + n s0 - S without cancellation.
        best = 2.0 * squares / (n + np.sqrt(n * n + 4.0 * lost * squares))
        return replace(self, loading_variance=float(best)), state
