"""One epoch of dependent trees on the common loop: its model, and the closed epochs.

The bound of an epoch is given those before it, which are updated no more. Densities
are with respect to the uniform one on the sphere, so that a bound, as a score, is what
is gained over knowing nothing, and does not depend on how the sphere is measured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skbnp.components.word_topics import SeenWords
from skbnp.distributions import log_normaliser
from skbnp.inference.executor import commit
from skbnp.inference.posterior import Posterior
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees import updates
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.utils.labels import Label, check_labels, fitted_places, warn_of_newest
from skbnp.utils.ranges import Count, Steps
from skbnp.utils.typing import Ints
from skbnp.utils.validation import check_settings, repr_settings

# Settings of the moves of dependent trees that users may choose.


CHOICES = {"algorithm": ("default", "paper"), "merge": ("safe", "lax", "none")}
LEAST = {"max_births": 1, "birth_rows": 2, "birth_rounds": 1}
#: Log Bayes factor, in nats, that a birth, another parent of a node with a past, or the
#: end of one that has rows needs in an epoch with a past: of a thousand that chance
#: makes likelier, one gains as much.
LEAST_EVIDENCE = float(np.log(1000.0))
#: Rows that are none: a leaf with fewer ends, if it has none in the window.
NO_ROWS = 1e-3
#: Rows below which a topic that was there before pauses in an epoch.
PAUSE_ROWS = 1.0


@dataclass(frozen=True, slots=True, repr=False)
class EpochMoves:
    """What an expert may set of the moves of a dependent tree.

    `EpochMoves.paper()` are those of Hu et al. (2015).

    Parameters
    ----------
    algorithm : {"default", "paper"}
        "paper": merges and births in turn, births whatever the bound, and no other
        moves, see `paper`. `reattach` has no effect then.
    merge : {"safe", "lax", "none"}
        Nodes merge with siblings or parents if the bound rises for certain; or, as in
        the paper, if it rises but for the entropy that rows lose, which may lower it;
        or never.
    reattach, birth : bool
        Whether nodes are tried below other parents, and new nodes for some of the rows
        of another.
    max_births : int or None
        Nodes of which rows are tried for a new one after a pass; `None` is a tenth
        of the nodes, twenty at least.
    birth_rows : int
        Largest number of rows from which a new node begins.
    birth_rounds : int
        Largest number of passes over these rows before it is judged.
    """

    algorithm: Literal["default", "paper"] = "default"
    merge: Literal["safe", "lax", "none"] = "safe"
    reattach: bool = True
    birth: bool = True
    max_births: int | None = None
    birth_rows: int = 1000
    birth_rounds: int = 10

    @classmethod
    def paper(cls) -> "EpochMoves":
        """Return the moves of Algorithm 1 of Hu et al. (2015) [1]_.

        For `DependentTrees` with concentrations and weights that are given and not
        learned, as they are in the paper (``vmf_concentration``,
        ``prior_concentration=100``, ``past_weight``). After each pass

        - merges (section 3.2.2): nodes merge with siblings or parents, those of odd
          depth before those of even depth, if the bound rises but for the entropy that
          rows lose, which is judged by statistics alone;
        - births (section 3.2.1): of nodes drawn by their mass, the rows with
          q(z = node) above 1 / sqrt(n_nodes), 1,000 at most, make a new child,
          which is always accepted: merges shall end it if it is superfluous.

        No leaf ends otherwise, and nodes go to no other parents and do not exchange
        their pasts. The tree does not stay as it is: learning ends by `tol`, with the
        births after the last pass in the tree; they are as many as `max_births`.

        Departures that remain: all pairs are ranked for merges, not some drawn; a child
        begins near one of the rows that are far from the target and its children, not
        at mu_target minus the normalised sum of its children, and one that ends its
        iteration with less than a row is none; rows count once at once, not from the
        next pass on; leaves start from clusters of rows.

        Returns
        -------
        moves : EpochMoves

        References
        ----------
        .. [1] Zhiting Hu, Qirong Ho, Avinava Dubey and Eric P. Xing, "Large-scale
           Distributed Dependent Nonparametric Trees", International Conference on
           Machine Learning, 2015.
        """
        return cls(algorithm="paper", merge="lax", reattach=False)

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)

    def __repr__(self) -> str:
        return repr_settings(self, self.paper)


#: Order in which levels are updated in each turn of `EpochModel.learn_priors`, of which
#: there are as many at most.
TURNS: tuple[Literal["down", "up"], ...] = ("down", "up", "down", "up", "down")
#: Relative change of the priors that are learned below which turns end.
TURN_TOL = 1e-3
#: Epochs in which a node may come back after that in which it ended.
N_RETURN = 3


@dataclass(frozen=True, slots=True)
class EpochModel:
    """Model of an epoch: priors, which of them are learned, updates and objective."""

    priors: TreePriors
    learns_concentration: bool = True
    learns_prior_concentration: bool = True
    learns_past_weight: bool = True
    is_first: bool = True  # so that the best order of siblings is that of their masses

    criterion: ClassVar[str] = "elbo"
    has_bound: ClassVar[bool] = True
    parts_name: ClassVar[str] = "nodes"
    unit: ClassVar[str] = "row"

    @property
    def least_gain(self) -> float:
        """Least gain of a new node, nats."""
        return 0.0 if self.is_first else LEAST_EVIDENCE

    def incremental_update(
        self,
        state: EpochState,
        global_stats: EpochStats,
        old: EpochStats,
        new: EpochStats,
    ) -> tuple[EpochState, EpochStats]:
        """Subtract old statistics, add new ones, and update the globals."""
        rest = global_stats.plus(old, -1.0)  # what rounding leaves of nothing is zero
        masses, entropies = np.maximum([rest.masses, rest.entropies], 0.0)
        rest = replace(rest, masses=masses, entropies=entropies)
        return coordinate_ascent(self, state, rest.plus(new))

    def learn_priors(
        self, state: EpochState, global_stats: EpochStats, n_turns: int = len(TURNS)
    ) -> tuple["EpochModel", EpochState]:
        """Learn prior concentration and past weight, and update directions, in turn.

        A strong prior makes directions similar, which makes it stronger: with one turn
        in each pass that would take a hundred passes. Directions are updated from the
        root down in one turn and up again in the next, in at most `n_turns` turns.
        """
        learns_past_weight = self.learns_past_weight and len(state.places_with_past) > 0
        if not (self.learns_prior_concentration or learns_past_weight):
            return self, state
        model, state = self._with_learned(updates.with_own_means(state))
        for order in TURNS[:n_turns]:
            last = state.prior_concentration, model.priors.past_weight
            given = state, global_stats, model.priors
            state = updates.update_own_means(*given, order=order)
            if self.learns_concentration:
                state = updates.learn_concentration(state, global_stats)
            model, state = model._with_learned(state)
            now = state.prior_concentration, model.priors.past_weight
            if np.allclose(now, last, rtol=TURN_TOL, atol=0.0):
                break
        return model, state

    def _with_learned(self, state: EpochState) -> tuple["EpochModel", EpochState]:
        """Update each prior that is learned, given directions."""
        inner = bound.inner_products(state, np.arange(len(state.tree)))
        if self.learns_prior_concentration:
            state = updates.learn_prior_concentration(state, self.priors, inner)
        if not self.learns_past_weight:
            return self, state
        priors = updates.learn_past_weight(state, self.priors, inner)
        return replace(self, priors=priors), state

    def bound(self, state: EpochState, global_stats: EpochStats) -> float:
        """Bound of all rows of the epoch, in nats."""
        return sum(self.objective(state, global_stats).values())

    def objective(
        self, state: EpochState, global_stats: EpochStats
    ) -> dict[str, float]:
        """Terms of the bound, densities with respect to the uniform one, in nats."""
        terms = bound.objective(state, global_stats, self.priors)
        uniform = float(log_normaliser(0.0, state.dimension))
        terms["rows"] -= global_stats.n_tokens * uniform
        return terms


def coordinate_ascent(
    model: EpochModel, state: EpochState, stats: EpochStats
) -> tuple[EpochState, EpochStats]:
    """Update all globals but the prior concentration, each to its maximum."""
    state = updates.update_sticks(state, stats)
    # Both copy the directions, which are then updated in place.
    if model.is_first:
        state, stats = bound.sort_siblings(state, stats)
    else:
        state = updates.with_own_means(state)
    state = updates.update_own_means(state, stats, model.priors)
    if model.learns_concentration:
        state = updates.learn_concentration(state, stats)
    return state, stats


@dataclass(frozen=True, slots=True)
class ClosedEpoch:
    """An epoch that is not updated any more, as prediction reads it."""

    label: Label
    state: EpochState  # without its past
    n_rows: int
    first_step: int  # updates made before it
    n_records: int  # of the log, when it was closed


@dataclass(slots=True)
class EpochPosterior(Posterior[EpochModel, EpochState, EpochStats]):
    """The posterior of the open epoch, and those of the epochs before it."""

    label: Label = None  # of the open epoch
    first_step: Steps = 0  # updates made before it
    window: Count = 1  # epochs whose rows count for the sticks
    n_open: Steps = 0  # rows of the open epoch that the totals may hold
    unsettled: tuple[object, ...] = ()  # epochs whose bound has not converged
    seen: SeenWords | None = None  # columns of the state; closed ones have the first
    closed: list[ClosedEpoch] = field(default_factory=list)

    def extend_columns(self, seen: SeenWords) -> None:
        """Add columns to the state, in place, so that it has all that are seen."""
        width = len(seen)
        with commit():
            if width > self.state.width:
                state, global_stats = self.state, self.global_stats
                wider = state.with_columns(width), global_stats.with_columns(width)
                self.replace_globals(*wider)
            self.seen = seen

    def as_closed(self) -> ClosedEpoch:
        """Return the open epoch as it would be closed now."""
        state = self.state.without_past()
        n_rows = round(self.global_stats.n_tokens)
        n_records = len(self.lineage)
        return ClosedEpoch(self.label, state, n_rows, self.first_step, n_records)

    @property
    def epochs(self) -> list[ClosedEpoch]:
        """All epochs, the open one last."""
        return [*self.closed, self.as_closed()]


def rows_by_epoch(
    known: Sequence[ClosedEpoch], labels: ArrayLike | None, n_rows: int
) -> Iterator[tuple[ClosedEpoch, Ints]]:
    """Yield epochs whose trees explain the rows of some labels, and these rows.

    Rows with a label, or with one label for all, are explained by the tree of that
    epoch, or of the latest before it; rows without labels by the newest. A warning is
    raised if rows have no label and there are several epochs, or if the epoch is an
    earlier one.

    Raises ValueError if a label is earlier than all epochs.
    """
    names = [epoch.label for epoch in known]
    if labels is None:
        warn_of_newest(names)
        yield known[-1], np.arange(n_rows)
        return
    checked = check_labels(labels, n_rows)
    of = np.asarray(fitted_places(checked, names), dtype=np.intp)
    for number in np.unique(of).tolist():
        yield known[number], np.flatnonzero(of[checked.codes] == number)


def close_epoch(posterior: EpochPosterior, label: Label) -> None:
    """Close the open epoch of a posterior in place, and begin the next one."""
    closed = [*posterior.closed, posterior.as_closed()]
    past = [(one.state.tree.ids, one.state.masses) for one in closed]
    history = bound.windowed(posterior.state.tree, past[-posterior.window :])
    before = [ids for ids, _ in past[-1 - N_RETURN : -1]]
    returning = np.unique(np.concatenate([bound.NO_IDS, *before]))
    state = bound.next_epoch(posterior.state, history, returning)
    global_stats = EpochStats.zero(len(state.tree), state.width)
    with commit():
        posterior.closed = closed
        posterior.model = replace(posterior.model, is_first=False)
        posterior.label, posterior.first_step = label, posterior.n_steps
        posterior.n_open = 0
        posterior.replace_globals(state, global_stats)
