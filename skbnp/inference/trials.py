"""Trials of edits of trees: a proposal learns for some rounds, and is kept or rejected.

Rows that it touches get a local step under the edited components; all others keep their
statistics. A kind of move lists its candidates, the most promising first, as tuples of
ids by which rejected ones are recorded, and makes proposals of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Moves
from skbnp.trees import Tree

__all__ = [
    "LEAST_GAIN",
    "ROUNDING",
    "Context",
    "EditMoves",
    "Ids",
    "Kind",
    "Rejections",
    "accept",
    "run_rounds",
]

Ids = tuple[int, ...]
LocalResultT = TypeVar("LocalResultT")

#: Nats by which a move must raise the bound that adds components.
LEAST_GAIN = 1.0
#: Relative rounding errors of a bound: a move that removes some may lose so much.
ROUNDING = 1e-10
#: A trial ends when a round makes up for less than this part of what is missing.
LEAST_RISE = 0.1
#: Passes until a rejected move is tried again, doubled with each rejection.
WAIT = 4


class Proposal(Protocol):
    """Protocol: an edited tree, and the components that it changes."""

    @property
    def kind(self) -> str:
        """Name of the move in the log."""

    @property
    def parents(self) -> Ids:
        """Ids of components that it changes or ends."""

    @property
    def children(self) -> Ids:
        """Ids of components that remain, or begin."""

    @property
    def tree(self) -> Tree:
        """The edited tree."""


@dataclass(frozen=True, slots=True)
class Context:
    """Base of what proposals read: the learner and its present tree."""

    posterior: Posterior
    rng: np.random.Generator

    @property
    def tree(self) -> Tree:
        """The present tree."""
        return self.posterior.state.tree

    def are_siblings(self, one: int, other: int) -> bool:
        """Whether both ids are in the tree, with the same parent."""
        tree = self.tree
        are_there = one in tree and other in tree
        return are_there and tree.parent_of(one) == tree.parent_of(other)

    def has_room(self, tree: Tree) -> bool:
        """Whether a tree has at most the largest number of nodes."""
        return len(tree) <= max(self.posterior.max_components, len(self.tree))


ContextT = TypeVar("ContextT", bound=Context)
ProposalT = TypeVar("ProposalT", bound=Proposal)


@dataclass(frozen=True, slots=True)
class Kind(Generic[ContextT, ProposalT]):
    """A kind of move: its candidates, and the proposal of a candidate."""

    name: str
    candidates: Callable[[ContextT], list[Ids]]
    make: Callable[..., ProposalT | None]
    grows: bool = False
    ignores_bound: bool = False  # all candidates are made, whatever the bound


class Rejections:
    """Numbers of passes that rejected proposals wait; doubled by each rejection."""

    _waits: dict[tuple, tuple[int, int]]  # pass to wait for, how long

    def __init__(self) -> None:
        self._waits = {}

    def is_over(self, key: tuple, n_passes: int) -> bool:
        """Whether a proposal may be tried in pass `n_passes`."""
        return self._waits.get(key, (0, 0))[0] <= n_passes

    def add(self, key: tuple, n_passes: int) -> None:
        """Record that a proposal was rejected in pass `n_passes`."""
        wait = max(2 * self._waits.get(key, (0, 0))[1], WAIT)
        self._waits[key] = n_passes + wait, wait

    def forget(self, key: tuple) -> None:
        """Remove the record of a proposal, which may be tried again."""
        self._waits.pop(key, None)

    def account(self) -> list[tuple[tuple, int, int]]:
        """Return the records, from which others continue."""
        return [(key, *waits) for key, waits in sorted(self._waits.items())]

    @classmethod
    def resumed(cls, account: Iterable[tuple[tuple, int, int]]) -> "Rejections":
        """Return rejections from the records of others."""
        result = cls()
        result._waits = {tuple(key): (until, wait) for key, until, wait in account}
        return result


def run_rounds(
    rounds: Iterator[tuple[float, LocalResultT]],
    bound: float,
    least: float,
    n_rounds: int,
    n_at_most: int | None = None,
) -> tuple[float, LocalResultT]:
    """Run the rounds of a candidate while its bound may still rise enough.

    Parameters
    ----------
    rounds : iterator of (float, object)
        The bound after each round, and what was found. Rounds are made when
        they are requested.
    bound, least : float
        The bound without the edit, and nats by which it must rise.
    n_rounds, n_at_most : int
        Rounds; one that is behind after these, but still gains enough, continues
        until it is ahead or has made `n_at_most`, by default no more.

    Returns
    -------
    value : float
        The bound after the last round.
    result : object
        What was found then.
    """
    value = -np.inf
    for n_done in range(1, max(n_rounds, n_at_most or 0) + 1):
        before, (value, result) = value, next(rounds)
        is_ahead = value > bound + least
        if value - before < LEAST_RISE * (bound + least - value):
            break
        if is_ahead and n_done >= n_rounds:
            break
    return value, result


class EditMoves(Moves, Generic[ContextT, ProposalT]):
    """Base of moves of trees after passes, each judged by itself.

    Parameters
    ----------
    moves : TreeMoves
    """

    moves: TreeMoves
    rejections: Rejections

    def __init__(self, moves: TreeMoves):
        self.moves, self.rejections = moves, Rejections()

    @abstractmethod
    def attempt(self, learner: Learner, proposal: ProposalT) -> bool:
        """Try a proposal; return whether it was accepted."""

    def try_kind(
        self,
        learner: Learner,
        kind: Kind[ContextT, ProposalT],
        context: ContextT,
        monitor: Monitor,
    ) -> list[ProposalT]:
        """Try the candidates of a kind; return the accepted proposals."""
        accepted: list[ProposalT] = []
        n_tries, now = 0, learner.n_passes
        for ids in kind.candidates(context):
            key = (kind.name, *ids)
            is_enough = n_tries == self.moves.max_tries and not kind.ignores_bound
            if is_enough or not self.rejections.is_over(key, now):
                continue
            proposal = kind.make(context, *ids)
            if proposal is None or not context.has_room(proposal.tree):
                continue
            n_tries += 1
            monitor.remind(f"pass {now}: tries moves ({kind.name})")
            if self.attempt(learner, proposal):
                accepted.append(proposal)
            else:
                self.rejections.add(key, now)
        return accepted


def accept(
    posterior: Posterior,
    proposal: Proposal,
    state: object,
    global_stats: object,
    remember: Callable[[], None],
) -> None:
    """Write an edit into globals, cache and log of a posterior, in one commit."""
    entry = Lineage(
        posterior.n_steps, proposal.kind, proposal.parents, proposal.children
    )
    with commit():
        remember()
        posterior.replace_globals(state, global_stats)
        posterior.lineage = [*posterior.lineage, entry]
