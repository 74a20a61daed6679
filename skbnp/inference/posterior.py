"""What learning changes and inference reads: the global variational parameters.

Edits change their components, by id: no new component has the id of one before, while
columns may move. Each edit adds entries to the lineage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from skbnp.components.known_topics import KnownWordTopics
from skbnp.components.statistics import StateT, StatsT
from skbnp.components.word_topics import remaining
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.utils.ordering import rows_by_id

__all__ = [
    "Birth",
    "Lineage",
    "Merge",
    "Model",
    "Posterior",
    "Remove",
    "Split",
    "apply",
    "per_token",
    "renamed",
    "sparing",
]


class Lineage(NamedTuple):
    """One entry of the log of edits, as users read it.

    Parents of an entry are alive before it, children after it; a component that has
    ended comes back by a "revive" alone.
    """

    step: int  # updates made before
    # "init", "birth", "split", "merge", "prune", "reattach", "exchange" or "revive"
    kind: str
    parents: tuple[int, ...]  # ids that it changed or ended
    children: tuple[int, ...]  # ids that live on, or begin


def renamed(lineage: Sequence[Lineage], names: NDArray[np.intp]) -> list[Lineage]:
    """Give ids other names, one each: the log of the same edits."""
    return [
        entry._replace(
            parents=tuple(names[list(entry.parents)].tolist()),
            children=tuple(names[list(entry.children)].tolist()),
        )
        for entry in lineage
    ]


class Model(Protocol[StateT, StatsT]):
    """A variational model: hyperparameters in force, and updates of its globals.

    A state holds the small globals; totals are the additive statistics of what the
    globals know, components' counts included. Totals may change in place.
    """

    criterion: ClassVar[str]  # monitored value of a fit
    has_bound: ClassVar[bool]  # whether that is a bound of the evidence
    parts_name: ClassVar[str]  # what messages call components
    unit: ClassVar[str]  # of the data, per which the criterion is given

    def stochastic_update(
        self,
        state: StateT,
        global_stats: StatsT,
        stats: StatsT,
        step: float,
        scale: float,
    ) -> tuple[StateT, StatsT]:
        """Move globals by a step towards their optimum for scaled statistics."""

    def incremental_update(
        self, state: StateT, global_stats: StatsT, old: StatsT, new: StatsT
    ) -> tuple[StateT, StatsT]:
        """Put new statistics in the place of old ones, and let globals follow."""

    def learn_priors(self, state: StateT, global_stats: StatsT) -> tuple[Self, StateT]:
        """Learn the hyperparameters that are learned once in a pass."""

    def objective(self, state: StateT, global_stats: StatsT) -> dict[str, float]:
        """Named terms of the criterion, in nats."""


ModelT = TypeVar("ModelT", bound=Model)


@dataclass(slots=True)
class Posterior(Generic[ModelT, StateT, StatsT]):
    """Global variational parameters, and the record of their learning."""

    model: ModelT
    state: StateT
    global_stats: StatsT
    ids: NDArray[np.intp]  # (K,) stable name of each component
    lineage: list[Lineage]  # where each id came from
    seed_entropy: int = 0  # of its random streams
    n_steps: int = 0  # updates
    step_origin: int = 0  # `n_steps` from which step sizes decrease
    n_seen: int = 0  # documents learned from, by a stream as often as they come
    is_warm: bool = False  # the warm-up lies behind
    init_fraction: float = 1.0  # share of the totals from the start and the warm-up
    max_components: float = np.inf  # that moves may reach

    @property
    def n_named(self) -> int:
        """Ids given so far; also the next one."""
        return 1 + max(max(entry.children, default=-1) for entry in self.lineage)

    @property
    def n_moves(self) -> dict[str, int]:
        """Births, splits and merges accepted so far."""
        kinds = [entry.kind for entry in self.lineage]
        return {f"n_{kind}s": kinds.count(kind) for kind in ("birth", "split", "merge")}

    @property
    def columns(self) -> dict[int, int]:
        """Column of each living id."""
        return {int(name): column for column, name in enumerate(self.ids)}

    def replace_globals(self, state: StateT, global_stats: StatsT) -> None:
        """Set state and totals; nodes of a tree may have another order then."""
        self.state, self.global_stats = state, global_stats
        self.ids = getattr(state, "ids", self.ids)

    @commit()
    def set_state(self, **changes: Any) -> None:
        """Change some of the small globals, and what depends on the topic prior."""
        self.state = replace(self.state, **changes)
        if "topic_word_prior" in changes:
            self.follow_prior()

    def follow_prior(self) -> None:
        """Rebase topics with priors of their own on the present topic prior."""
        state: Any = self.state
        words = getattr(self.global_stats, "topic_words", None)
        if isinstance(words, KnownWordTopics):
            words.rebase(state.topic_word_prior)

    def rename(self, names: NDArray[np.intp]) -> None:
        """Replace each id by another one, in the lineage too."""
        self.ids, self.lineage = names[self.ids], renamed(self.lineage, names)

    @property
    def rows(self) -> NDArray[np.intp]:
        """Columns of the components in the order in which users see them, (K,)."""
        return rows_by_id(self.ids)

    def record(self, monitor: Monitor) -> None:
        """Add an update to the trace."""
        monitor.record(self.n_steps, self.state.n_components, self.n_moves)

    def recount(self, monitor: Monitor, n_logged: int = -1) -> None:
        """Correct the last entry of the trace if moves have logged more edits."""
        if len(self.lineage) > n_logged:
            monitor.recount(self.state.n_components, self.n_moves)

    def objective(self) -> dict[str, float]:
        """Named terms of the bound of what the totals hold, in nats per token."""
        terms = self.model.objective(self.state, self.global_stats)
        return per_token(terms, self.global_stats.n_tokens)


def per_token(terms: dict[str, float], n_tokens: float) -> dict[str, float]:
    """Divide the terms of a bound by a number of tokens; without any, they are zero."""
    if n_tokens == 0:
        return dict.fromkeys(terms, 0.0)
    return {name: float(value / n_tokens) for name, value in terms.items()}


# -- edits ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Merge:
    """Targets take over what sources hold; the pairs (source, target) are disjoint."""

    pairs: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Remove:
    """Components end; their weight goes to the components not represented."""

    ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Split:
    """A component becomes two: one keeps its id and place, the child is new."""

    id: int
    child: int
    halves: NDArray[np.float64]  # (2, n_words) of the words that have been seen
    shares: NDArray[np.float64]  # (2,)


@dataclass(frozen=True, slots=True)
class Birth:
    """Components begin with a share of all totals, which the others leave to them."""

    ids: Sequence[int]  # new ones
    words: NDArray[np.float64]  # (n, n_words) that sum to one, of words that are seen
    shares: NDArray[np.float64]  # (n,)


Edit = Birth | Merge | Remove | Split


@commit()  # words change in place
def apply(edit: Edit, posterior: Posterior) -> None:
    """Change state, totals, ids and log of a posterior, all at once or not at all."""
    columns, ids = posterior.columns, posterior.ids
    model, state, global_stats = (
        posterior.model,
        posterior.state,
        posterior.global_stats,
    )
    entries: list[tuple[str, tuple[int, ...], tuple[int, ...]]]
    if isinstance(edit, Split):
        state, global_stats = model.split(
            state, global_stats, columns[edit.id], edit.halves, edit.shares
        )
        ids = np.append(ids, edit.child)
        entries = [("split", (edit.id,), (edit.id, edit.child))]
    elif isinstance(edit, Birth):
        state, global_stats = model.add(state, global_stats, edit.words, edit.shares)
        ids = np.append(ids, edit.ids)
        entries = [("birth", (), (name,)) for name in edit.ids]
    elif isinstance(edit, Merge):
        pairs = [(columns[source], columns[target]) for source, target in edit.pairs]
        state, global_stats = model.merge(state, global_stats, pairs)
        ids = ids[remaining(len(ids), [source for source, _ in pairs])]
        entries = [("merge", (t, s), (t,)) for s, t in edit.pairs]
    else:
        gone = [columns[name] for name in edit.ids]
        state, global_stats = model.remove(state, global_stats, gone)
        ids = ids[remaining(len(ids), gone)]
        entries = [("prune", (name,), ()) for name in edit.ids]
    posterior.state, posterior.global_stats = state, global_stats
    posterior.ids = ids
    log = [Lineage(posterior.n_steps, *entry) for entry in entries]
    posterior.lineage = [*posterior.lineage, *log]


def sparing(ending: NDArray[np.bool_], mass: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return what shall end, but for the heaviest where nothing would be left."""
    spared = ending.copy()
    if ending.all():
        spared[np.argmax(mass)] = False
    return spared
