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

from skbnp.models.hca.bound import elbo_terms
from skbnp.models.hca.frame import Frame
from skbnp.models.hca.state import Priors, State, Stats, unseen_second_moments
from skbnp.models.hca.updates import convert, coordinate_ascent


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
        terms = elbo_terms(self, state, stats)
        terms["rows"] -= stats.n_rows * self.frame.log_volume
        return terms

    def bound(self, state: State, stats: Stats) -> float:
        """Evidence lower bound of the rows behind `stats`, in the unit of the frame."""
        return sum(elbo_terms(self, state, stats).values())

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
        unseen = unseen_second_moments(state.tree, stats.moments)
        lost = state.precision * n_features * unseen
        # The root of T s0^2 + n s0 - S without cancellation.
        best = 2.0 * squares / (n + np.sqrt(n * n + 4.0 * lost * squares))
        return replace(self, loading_variance=float(best)), state
