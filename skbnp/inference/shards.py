"""Rows in shards, in this process or on workers, and tasks that read them there.

The reply of a task is a function of the rows of a shard, a broadcast and an argument.
So a shard that is lost with its process is loaded elsewhere and the task repeated:
processes keep only caches besides rows. Sums are formed along one binary tree over the
positions of shards in a call, so that their bits do not depend on where they are
formed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol, Self, TypeVar
from uuid import uuid4

import numpy as np
import scipy.sparse as sp

from skbnp.inference.executor import Run, T
from skbnp.utils.typing import Ints


class Additive(Protocol):
    """Protocol: replies that are added up."""

    def plus(self, other: Self) -> Self:
        """Return the sum of two replies."""


SumT = TypeVar("SumT", bound=Additive)


class Broadcast:
    """What tasks read: sent once to each process, then known by its name.

    Parameters
    ----------
    content : object
        Never changed.
    name : str or None
        Unique name; made if None.
    """

    content: Any
    name: str

    def __init__(self, content: Any, name: str | None = None):
        self.content = content
        self.name = uuid4().hex if name is None else name

    def emptied(self) -> "Broadcast":
        """Return the broadcast without content, for shards whose caches last."""
        return Broadcast(None, self.name)


class ProcessCache:
    """Cache that the shards of a process share: the newest value of a fit."""

    def __init__(self) -> None:
        self._kept: tuple[str | None, Any] = (None, None)
        self._lock = Lock()

    def follow(
        self, broadcast: Broadcast, make: Callable[[str | None, Any], T | None]
    ) -> T | None:
        """Return a value computed once for all shards from that of the last broadcast.

        `make` gets the name of that broadcast, and the value, which it may change; it
        returns None if it cannot use that.
        """
        with self._lock:
            name, value = self._kept
            if name != broadcast.name:
                value = make(name, value)
                if value is not None:
                    self._kept = broadcast.name, value
            return value


@dataclass(slots=True)
class Shard:
    """Rows, and caches that are functions of them and of broadcasts."""

    number: int
    first_row: int  # rows of all shards before
    X: sp.csr_array  # (n_rows, n_features)
    run: Run = map  # over blocks of rows, in order
    cache: dict[str, Any] = field(default_factory=dict)  # may be empty at any moment
    process: ProcessCache = field(default_factory=ProcessCache)


#: A function of a module: (shard, broadcast or None, argument) -> reply.
Task = Callable[[Shard, Any, Any], T]


class Shards(ABC):
    """Base of rows in shards: map tasks over them, and add replies."""

    n_rows: Ints  # (n_shards,)
    n_features: int
    is_lasting: bool  # whether caches of shards are never lost

    @abstractmethod
    def _ask(
        self, task: Task, numbers: Sequence[int], *given: Any, adds_up: bool
    ) -> dict[Any, Any]:
        """Run a task on some shards, `given` broadcast and argument.

        Return replies by position, or their sums by nodes of the tree.
        """

    def map(
        self,
        task: Task[T],
        numbers: Sequence[int],
        broadcast: Broadcast | None = None,
        argument: object = None,
    ) -> list[T]:
        """Run a task on some shards; return the replies in the order of numbers."""
        replies = self._ask(task, numbers, broadcast, argument, adds_up=False)
        return [replies[place] for place in range(len(numbers))]

    def total(
        self,
        task: Task[SumT],
        numbers: Sequence[int],
        broadcast: Broadcast | None = None,
        argument: object = None,
    ) -> SumT:
        """Run a task on some shards; add replies along a fixed binary tree."""
        sums = self._ask(task, numbers, broadcast, argument, adds_up=True)
        (whole,) = sums.values()
        return whole


class LocalShards(Shards):
    """Shards in this process.

    Parameters
    ----------
    blocks : sequence of csr_array
        Rows of each shard.
    n_features : int
    run : callable
        Maps over the blocks of rows of a shard, in order.
    is_lasting : bool
        Whether the learner can count on caches: not if it may continue elsewhere.
    """

    def __init__(
        self,
        blocks: Sequence[sp.csr_array],
        n_features: int,
        run: Run = map,
        *,
        is_lasting: bool = True,
    ):
        """Make shards of blocks of rows in this process."""
        self.n_features, self.is_lasting = n_features, is_lasting
        self.n_rows = np.array([X.shape[0] for X in blocks], dtype=np.intp)
        process = ProcessCache()
        self._shards = [
            Shard(number, first, X, run, {}, process)
            for number, (first, X) in enumerate(
                zip(first_rows(self.n_rows), blocks, strict=True)
            )
        ]

    def _ask(
        self, task: Task, numbers: Sequence[int], *given: Any, adds_up: bool
    ) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for place, number in enumerate(numbers):
            reply = task(self._shards[number], *given)
            if adds_up:
                add_up(result, len(numbers), {(0, place): reply})
            else:
                result[place] = reply
        return result


def first_rows(n_rows: Ints) -> list[int]:
    """Number of rows before each shard."""
    return (np.cumsum(n_rows) - n_rows).tolist()


# Sums ---------------------------------------------------------------------------------

#: Replies [index * 2**level, (index + 1) * 2**level), as far as there are any.
Node = tuple[int, int]


def add_up(sums: dict[Node, SumT], n: int, new: Mapping[Node, SumT]) -> None:
    """Add sums of some of n replies to others, in place: pairs of nodes become one.

    The process that has all replies of a node adds them in the common order.
    """
    for node, value in new.items():
        (level, index), total = node, value
        while level < (n - 1).bit_length():
            other = index ^ 1
            if other << level < n:
                if (level, other) not in sums:
                    break
                sibling = sums.pop((level, other))
                left, right = (sibling, total) if other < index else (total, sibling)
                total = left.plus(right)
            level, index = level + 1, index >> 1
        sums[level, index] = total
