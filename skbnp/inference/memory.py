"""Statistics caches of flat models: running averages, or memoized sums of parts."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Generic, Self, TypeVar

import numpy as np

from skbnp.inference.executor import commit
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalResult, StatisticsCache, Summed
from skbnp.inference.schedules import Part, Round
from skbnp.utils.typing import Array, Ints


class DocumentCache:
    """Starts of the local step of documents in running averages: none here."""

    def initial_local(self, part: Part) -> object:
        """Return what the local step of a part starts from."""
        return None

    def keep(self, round: Round, results: Sequence[LocalResult]) -> None:
        """Record the local parameters of a part for its next local step."""

    def empty(self) -> "DocumentCache":
        """Return an empty cache."""
        return self

    def copy(self) -> Self:
        """Return an independent copy."""
        return deepcopy(self)


LocalResultT = TypeVar("LocalResultT", bound=LocalResult)
MemoT = TypeVar("MemoT", bound=Summed)

NOTHING = DocumentCache()


@dataclass(eq=False)
class DocumentStarts(DocumentCache):
    """Starts of the local step: documents start from their last result, if better."""

    _starts: dict[int, object] = field(default_factory=dict)

    def initial_local(self, part: Part) -> object:
        """Return what the local step of a part starts from."""
        return self._starts.get(part.number)

    def keep(self, round: Round, results: Sequence[LocalResult]) -> None:
        """Record the local parameters of a part for its next local step."""
        for part, result in zip(round.parts, results, strict=True):
            self._starts[part.number] = result.cache

    def change(self, changed: Callable[[Any], object]) -> None:
        """Replace the start of each part, if any, by what a function returns of it."""
        for part, start in self._starts.items():
            self._starts[part] = None if start is None else changed(start)


class DocumentWeights(DocumentCache):
    """Effective count of each document in the totals; all decay by one lazy scale.

    An update with step rho by a minibatch that stands for `scale` times its documents
    multiplies all weights by 1 - rho and adds rho * scale to those of the minibatch.
    """

    _values: Array
    _scale: float

    def __init__(self, n_docs: int, start: float = 0.0):
        self._values, self._scale = np.full(n_docs, start), 1.0

    def empty(self) -> "DocumentWeights":
        """Return weights for totals without any of the documents."""
        return DocumentWeights(len(self._values))

    def spread(self, rows: Ints, n_docs: int) -> "DocumentWeights":
        """Return the weights of `n_docs` documents; these are those of `rows`."""
        other = DocumentWeights(n_docs)
        other._values[rows], other._scale = self._values, self._scale
        return other

    def initial_local(self, part: Part) -> Array:
        """Effective counts of the documents of a part, (n_docs,)."""
        return self._values[part.rows] * self._scale

    def keep(self, round: Round, results: Sequence[object]) -> None:
        """Update the effective counts in place after a round."""
        self.decay_and_add(
            round.rows, keep=1.0 - round.step, gain=round.step * round.scale
        )

    def decay_and_add(self, rows: Ints, *, keep: float, gain: float) -> None:
        """Multiply all weights by `keep` in place, and add `gain` to `rows`."""
        self._scale *= keep
        if self._scale < 1e-100:
            self._values *= self._scale
            self._scale = 1.0
        self._values[rows] += gain / self._scale


@dataclass(eq=False)
class RunningAverage(StatisticsCache):
    """Cache of online learning: totals are running averages of statistics."""

    documents: DocumentCache = NOTHING
    holds_corpus = False

    def initial_local(self, part: Part) -> object:
        """Return what the local step of a part starts from."""
        return self.documents.initial_local(part)

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[LocalResult]
    ) -> None:
        """Step totals and globals in place towards the statistics of the round."""
        blend(posterior, round, change)
        self.documents.keep(round, change)

    def end_pass(self, posterior: Posterior) -> None:
        """Learn the hyperparameters, in place."""
        learn_priors(posterior)


@dataclass(eq=False, repr=False)
class Remembered(StatisticsCache, Generic[LocalResultT, MemoT]):
    """Base of memoized caches: new statistics of a part replace its old ones.

    Passes before any statistics are cached are those of online learning.

    Parameters
    ----------
    n_forgetful : int
        Passes that begin without cached statistics, at least one.
    n_passes : int
        Passes made.
    memos : list
        One of each part, with its statistics `stats`; replaced, never changed in place.
    """

    n_forgetful: int = 1
    n_passes: int = 0
    memos: list[MemoT] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the statistics of every part are cached."""
        return self.n_passes >= self.n_forgetful

    @abstractmethod
    def _memo(self, results: LocalResultT) -> MemoT:
        """Return the cached statistics of a part."""

    @abstractmethod
    def _recompute_sums(self, posterior: Posterior) -> None:
        """Set totals to the sum of cached statistics, free of rounding errors."""

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: Sequence[LocalResultT]
    ) -> None:
        """Replace statistics of parts in the totals and the cache in place.

        In the first passes, before all parts are cached, take a stochastic step
        instead.
        """
        if not self.is_complete:
            blend(posterior, round, change)
        for part, result in zip(round.parts, change, strict=True):
            memo = self._memo(result)
            if self.is_complete:
                incremental_update(
                    posterior, self.memos[part.number].stats, result.stats
                )
                self.memos[part.number] = memo
            elif self.n_passes + 1 == self.n_forgetful:
                self.memos.append(memo)

    def end_pass(self, posterior: Posterior) -> None:
        """Recompute the totals once all parts are cached, and learn priors."""
        self.n_passes += 1
        if self.is_complete:
            self._recompute_sums(posterior)
            posterior.init_fraction = 0.0  # nothing is left of the start
            learn_priors(posterior)


def blend(posterior: Posterior, round: Round, results: Sequence[LocalResult]) -> None:
    """Step totals and globals in place, Eqs. (6) and (7) of Bryant and Sudderth."""
    stats = reduce(
        lambda one, other: one.plus(other), (result.stats for result in results)
    )
    posterior.replace_globals(
        *posterior.model.stochastic_update(
            posterior.state, posterior.global_stats, stats, round.step, round.scale
        )
    )


def incremental_update(posterior: Posterior, old: object, new: object) -> None:
    """Replace the statistics of some documents, then update the globals, in place."""
    posterior.replace_globals(
        *posterior.model.incremental_update(
            posterior.state, posterior.global_stats, old, new
        )
    )


def learn_priors(posterior: Posterior) -> None:
    """Update the learned hyperparameters of a posterior, in place."""
    model, state = posterior.model.learn_priors(posterior.state, posterior.global_stats)
    with commit():
        posterior.model, posterior.state = model, state
        posterior.follow_prior()
