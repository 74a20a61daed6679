"""What an expert may set of the moves of a topic model."""

from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.edits import Remove, apply, sparing

__all__ = ["SplitMerge", "end_unused"]

#: Of what must not be zero.
LEAST = {"prune_patience": 1, "trial_passes": 1}
CHOICES = {
    "start": ("mixed", "doc", "word", "paper"),
    "judge": ("others", "same"),
}


@dataclass(frozen=True, slots=True)
class SplitMerge:
    """What an expert may set of the moves of a topic model.

    Parameters
    ----------
    births : bool
        Whether trials add topics: for documents that are explained badly, or in the
        collapsed family for random ones. Where the vocabulary is large, splits alone do
        not climb from few topics.
    max_tries, max_splits : int
        Topics that a minibatch tries to split, and splits at the most (online).
    start : {"mixed", "doc", "word", "paper"}
        How the children of a split begin: as a document against the rest of the topic,
        as words that go together, as one of these at random, or, as in the paper, as
        what the topic held against what the last minibatch added.
    judge : {"others", "same"}
        Documents of the minibatch that judge a split: those that the children were not
        fitted to, or, as in the paper, the same. The latter is biased towards
        splitting, but does with small minibatches.
    confidence : float
        Standard errors by which a move must raise the bound where minibatches judge it
        (online). On a synthetic corpus useful splits had 2 and more, superfluous ones
        below 1.3.
    min_child_tokens : float
        Expected corpus tokens that each child of a split must hold.
    prune_tokens, prune_patience : float, int
        A topic with fewer expected tokens in so many minibatches in a row, of so many
        times 50 documents together at the least, ends (online).
    prune_mass : float
        Topics that hold fewer tokens of the corpus after a warm-up, and less than a
        tenth of the mean of all topics, end.
    quiet, rest : int
        Minibatches without accepted moves before a trial, and without trials after a
        rejected one; the latter grows with each rejection (online).
    max_rejections : int
        Trials rejected in a row after which none is made (memoized, batch).
    trial_warm_up, trial_passes : int
        Passes of a trial with mean weights, and exact ones (memoized, batch). In the
        collapsed family trials have `trial_passes` alone, by all learning methods.
    reservoir_tokens : int
        Tokens of documents that collapsed learning keeps of a stream, to try other
        numbers of topics on, but 1,000 documents at the least; 0 keeps none, and tries
        none.
    """

    births: bool = True
    max_tries: int = 20
    max_splits: int = 1
    start: Literal["mixed", "doc", "word", "paper"] = "mixed"
    judge: Literal["others", "same"] = "others"
    confidence: float = 1.5
    min_child_tokens: float = 1.0
    prune_tokens: float = 1.0
    prune_patience: int = 3
    prune_mass: float = 20.0
    quiet: int = 10
    rest: int = 50
    max_rejections: int = 2
    trial_warm_up: int = 5
    trial_passes: int = 4
    reservoir_tokens: int = 1_500_000

    def light(self, mass: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Topics of so many tokens that end after a warm-up, (K,)."""
        return sparing(mass < min(self.prune_mass, 0.1 * mass.mean()), mass)

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} must be one of {', '.join(map(repr, choices))}, got "
                    f"{getattr(self, name)!r}."
                )
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in CHOICES and not (
                isinstance(value, (int, float)) and 0 <= value < float("inf")
            ):
                raise ValueError(f"{item.name} must be a number >= 0, got {value!r}.")
        for item in fields(self):
            value, least = getattr(self, item.name), LEAST.get(item.name, 0)
            if isinstance(item.default, int) and not (
                isinstance(value, Integral) and int(value) >= least
            ):
                raise ValueError(
                    f"{item.name} must be an integer >= {least}, got {value!r}."
                )


def end_unused(moves: SplitMerge, posterior: Any) -> list[int]:
    """End topics that hold hardly a token of the corpus; return their columns."""
    mass = posterior.totals.topic_words.total
    gone = np.flatnonzero(sparing(mass < moves.prune_tokens, mass))
    if len(gone):
        apply(Remove(posterior.ids[gone].tolist()), posterior)
    return gone.tolist()
