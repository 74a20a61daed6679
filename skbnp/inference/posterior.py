"""Posterior of a variational model: globals, component ids and lineage.

Edits change components by id. Ids are never used again; columns may move. Each edit
adds entries to the lineage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
)

import numpy as np

from skbnp.components.statistics import StateT, StatsT
from skbnp.components.word_topics import remaining
from skbnp.inference.executor import commit
from skbnp.utils import ranges
from skbnp.utils.arrays import rows_by_id
from skbnp.utils.typing import Array, Flags, Ints


class Lineage(NamedTuple):
    """An entry of the log of births, splits, merges and ends, as users read it.

    Parents of an entry exist before it, children after it; a component that has ended
    exists again after a "revive" alone.
    """

    step: ranges.Steps  # updates made before
    # "init", "birth", "split", "merge", "prune", "reattach", "exchange" or "revive"
    kind: str
    parents: tuple[ranges.Id, ...]  # ids that it changed or ended
    children: tuple[ranges.Id, ...]  # ids that live on, or begin

    def __deepcopy__(self, memo: dict) -> "Lineage":
        return self  # logs of many entries are copied often


#: Each component has begun.
Log = Annotated[list[Lineage], ranges.NotEmpty]


def renamed(lineage: Sequence[Lineage], names: Ints) -> list[Lineage]:
    """Return the log with id n replaced by `names[n]`."""
    return [
        entry._replace(
            parents=tuple(names[list(entry.parents)].tolist()),
            children=tuple(names[list(entry.children)].tolist()),
        )
        for entry in lineage
    ]


class Model(Protocol):
    """Protocol of a variational model: hyperparameters and updates of the globals.

    A state has the small globals; totals are the additive statistics that the globals
    were learned from, components' counts included. Totals may change in place.

    A cache calls its update: running averages `stochastic_update(state, global_stats,
    stats, step, scale)`, a step towards the optimum for scaled statistics; statistics
    of parts `incremental_update(state, global_stats, old, new)`, new ones in the place
    of old ones. Both return globals, (state, global_stats).
    """

    criterion: ClassVar[str]  # monitored value of a fit
    has_bound: ClassVar[bool]  # whether that is a bound of the evidence
    parts_name: ClassVar[str]  # what messages call components
    unit: ClassVar[str]  # of the data, per which the criterion is given

    def learn_priors(self, state: Any, global_stats: Any) -> tuple[Self, Any]:
        """Update the hyperparameters that are learned once in a pass."""

    def objective(self, state: Any, global_stats: Any) -> dict[str, float]:
        """Terms of the objective by name, in nats."""


ModelT = TypeVar("ModelT", bound=Model)


@dataclass(slots=True)
class Posterior(Generic[ModelT, StateT, StatsT]):
    """Global variational parameters, and the record of their learning."""

    model: ModelT
    state: StateT
    global_stats: StatsT
    # stable name of each component
    ids: Annotated[Ints, ranges.Sized("n_components", most=ranges.MOST_IDS)]
    lineage: Log  # where each id came from
    seed_entropy: ranges.Entropy = 0  # of its random streams
    n_steps: ranges.Steps = 0  # updates
    step_origin: int = 0  # `n_steps` from which step sizes decrease
    #: Documents learned from, by a stream as often as they come.
    n_seen: ranges.Steps = 0
    is_warm: bool = False  # the warm-up lies behind
    #: Share of the totals from the start and the warm-up.
    init_fraction: ranges.Share = 1.0
    max_components: ranges.Limit = np.inf  # that moves may reach

    @property
    def n_named(self) -> int:
        """Number of ids given so far, also the next id."""
        return 1 + max(max(entry.children, default=-1) for entry in self.lineage)

    @property
    def n_moves(self) -> dict[str, int]:
        """Numbers of births, splits and merges accepted so far."""
        kinds = [entry.kind for entry in self.lineage]
        return {f"n_{kind}s": kinds.count(kind) for kind in ("birth", "split", "merge")}

    @property
    def columns(self) -> dict[int, int]:
        """Column of each present id."""
        return {int(name): column for column, name in enumerate(self.ids)}

    def replace_globals(self, state: StateT, global_stats: StatsT) -> None:
        """Set state and totals; the ids of a tree are updated to its new order."""
        self.state, self.global_stats = state, global_stats
        self.ids = getattr(state, "ids", self.ids)

    @commit()
    def set_state(self, **changes: Any) -> None:
        """Change some of the small globals, and what depends on the topic prior."""
        self.state = replace(self.state, **changes)
        if "topic_word_prior" in changes:
            self.follow_prior()

    def follow_prior(self) -> None:
        """Update topics with other priors for a new topic prior, in place."""
        state: Any = self.state
        words = getattr(self.global_stats, "topic_words", None)
        if words is not None:
            words.rebase(state.topic_word_prior)

    @commit()  # words change in place
    def give_known_priors(self) -> list[tuple[int, int]]:
        """Give priors of known topics to the topics of their words, in place.

        Known topics keep their ids. Returns the ids of topics that have exchanged
        columns, (the other, the known one).
        """
        words = getattr(self.global_stats, "topic_words", None)
        if words is None or not len(words.known):
            return []
        old, new = words.known.columns, words.best_columns()
        moved = old != new
        if not moved.any():
            return []
        words.give_priors(new)
        known, others = self.ids[old[moved]], self.ids[new[moved]]
        self.ids = self.ids.copy()
        self.ids[old[moved]], self.ids[new[moved]] = others, known
        pairs = list(zip(others.tolist(), known.tolist(), strict=True))
        changed = tuple(sorted(one for pair in pairs for one in pair))
        entry = Lineage(self.n_steps, "exchange", changed, changed)
        self.lineage = [*self.lineage, entry]
        return pairs

    def merge(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Merge disjoint pairs of ids (source, target), in place.

        Targets take the statistics of sources.
        """
        columns = self.columns
        at = [(columns[source], columns[target]) for source, target in pairs]
        left = remaining(len(self.ids), [source for source, _ in at])
        log = [("merge", (target, source), (target,)) for source, target in pairs]
        self._edit("merge", at, ids=self.ids[left], log=log)

    def remove(self, ids: Sequence[int]) -> None:
        """End components, in place; those not represented take their weight."""
        columns = self.columns
        gone = [columns[name] for name in ids]
        left = remaining(len(self.ids), gone)
        log = [("prune", (name,), ()) for name in ids]
        self._edit("remove", gone, ids=self.ids[left], log=log)

    def split(self, name: int, halves: Array, shares: Sequence[float] | Array) -> None:
        """Split a component in two, in place: one keeps id and column, one is new.

        `halves` are words that have been seen, (2, n_words), and `shares` (2,).
        """
        child, column = self.n_named, self.columns[name]
        log = [("split", (name,), (name, child))]
        ids = np.append(self.ids, child)
        self._edit("split", column, halves, shares, ids=ids, log=log)

    def add(self, words: Array, shares: Array) -> None:
        """Add components with shares of all totals, in place; others keep the rest.

        `words`, (n, n_words), are of words that have been seen, and sum to one.
        """
        born = self.n_named + np.arange(len(words))
        log = [("birth", (), (name,)) for name in born.tolist()]
        self._edit("add", words, shares, ids=np.append(self.ids, born), log=log)

    @commit()  # words change in place
    def _edit(self, name: str, *given: Any, ids: Ints, log: Sequence[tuple]) -> None:
        """Change state, totals, ids and log in one commit, by a method of the model."""
        change = getattr(self.model, name)
        self.state, self.global_stats = change(self.state, self.global_stats, *given)
        entries = [Lineage(self.n_steps, *entry) for entry in log]
        self.ids, self.lineage = ids, [*self.lineage, *entries]

    def rename(self, names: Ints) -> None:
        """Replace each id n by `names[n]`, in the lineage too, in place."""
        self.ids, self.lineage = names[self.ids], renamed(self.lineage, names)

    @property
    def rows(self) -> Ints:
        """Columns of the components in the order in which users see them, (K,)."""
        return rows_by_id(self.ids)

    def objective(self) -> dict[str, float]:
        """Terms of the objective of the documents in the totals, nats per token."""
        terms = self.model.objective(self.state, self.global_stats)
        return per_token(terms, self.global_stats.n_tokens)


def per_token(terms: dict[str, float], n_tokens: float) -> dict[str, float]:
    """Divide the terms of a bound by a number of tokens; zeros if there are none."""
    if n_tokens == 0:
        return dict.fromkeys(terms, 0.0)
    return {name: float(value / n_tokens) for name, value in terms.items()}


def keep_heaviest(ending: Flags, mass: Array) -> Flags:
    """Return which components end, without the heaviest if all would end."""
    result = ending.copy()
    if ending.all():
        result[np.argmax(mass)] = False
    return result
