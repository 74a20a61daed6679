"""Settings of the moves of an HDP that users may choose."""

from dataclasses import dataclass
from typing import Literal

from skbnp.inference.posterior import sparing
from skbnp.utils.settings import check_settings, repr_settings
from skbnp.utils.typing import Array, Flags

LEAST = {"births": 0, "prune_patience": 1, "trial_passes": 1}
CHOICES = {
    "criterion": ("held_out", "bound"),
    "algorithm": ("default", "paper"),
    "start": ("mixed", "doc", "word"),
    "judge": ("others", "same"),
}


@dataclass(frozen=True, slots=True, repr=False)
class SplitMerge:
    """Settings of the moves and trials that choose the number of topics of an HDP.

    `SplitMerge.paper()` are those of Bryant and Sudderth (2012).

    Parameters
    ----------
    criterion : {"held_out", "bound"}
        What judges numbers of topics: how well documents that are held out are
        predicted, or in the mean-field family the bound, which prefers fewer topics:
        online that of minibatches, as in the paper, otherwise exact.
    births : bool
        Whether trials add topics.
    trial_passes : int
        Passes of a trial. With the bound, exact ones.
    prune_tokens : float
        A topic with fewer expected tokens of the corpus ends (0: none does); with the
        bound, online, after `prune_patience` minibatches in a row.
    reservoir_tokens : int
        Tokens of documents that are kept of a stream, to try other numbers of topics
        on, and at least 1,000 documents; 0 keeps none, and tries none. Not with the
        bound.
    max_tries, max_splits : int
        Topics that a minibatch tries to split, and splits that it makes, at most
        (bound, online).
    algorithm : {"default", "paper"}
        "paper": Algorithm 2 of Bryant and Sudderth (2012) as printed, see `paper`. Of
        the settings below it reads `max_splits`, `confidence` and `min_child_tokens`
        (bound, online).
    start : {"mixed", "doc", "word"}
        How the children of a split begin: as a document against the rest of the topic,
        as words that go together, or as one of these at random (bound, online).
    judge : {"others", "same"}
        Documents of the minibatch that judge a split: those that the children were not
        fitted to, or the same. The latter is biased towards splitting, but does with
        small minibatches (bound, online).
    confidence : float
        Standard errors by which a move must raise the bound where minibatches judge it;
        0 as in the paper. On a synthetic corpus useful splits had 2 and more,
        superfluous ones below 1.3 (bound, online).
    min_child_tokens : float
        Expected corpus tokens that each child of a split must hold (bound, online).
    prune_patience : int
        Minibatches in a row, together of at least 50 times as many documents, after
        which an idle topic ends (bound, online).
    prune_mass : float
        Topics that hold fewer tokens of the corpus after a warm-up, and less than a
        tenth of the mean of all topics, end (bound, memoized and batch).
    max_rejections : int
        Trials rejected in a row after which none is made (bound, memoized and batch).
    trial_warm_up : int
        Passes of a trial with mean weights (bound, memoized and batch).
    """

    criterion: Literal["held_out", "bound"] = "held_out"
    births: bool = True
    trial_passes: int = 4
    prune_tokens: float = 1.0
    reservoir_tokens: int = 1_500_000
    max_tries: int = 20
    max_splits: int = 1
    algorithm: Literal["default", "paper"] = "default"
    start: Literal["mixed", "doc", "word"] = "mixed"
    judge: Literal["others", "same"] = "others"
    confidence: float = 1.5
    min_child_tokens: float = 1.0
    prune_patience: int = 3
    prune_mass: float = 20.0
    max_rejections: int = 2
    trial_warm_up: int = 5

    @classmethod
    def paper(cls) -> "SplitMerge":
        """Return the moves of Algorithm 2 of Bryant and Sudderth (2012) [1]_.

        For `HDP` with ``variational_family="mean_field"``, ``learning_method="online"``
        and ``warm_up=0``. A minibatch S of a corpus of D documents is visited once.

        - Merges (section 3.2; lines 9 to 13), before the update: of all pairs of topics
          whose theta_jk have a positive covariance in the minibatch, those that raise
          the bound (2), its documents those of the minibatch, each D / S times for S
          documents, under the topics before the update; the best first, each topic in
          one at most.
        - The update, Eqs. (6) and (7).
        - Splits (section 3.1; lines 15 to 20): all topics in turn, until one split
          (`max_splits`) has raised the bound of the same documents, with the
          responsibilities that they had before the update. Children start with
          (1 - rho) lambda_k and rho lambda^_k, and follow by the restricted iteration.

        No difference needs to be larger than its error, no topic waits, and none ends
        but by a merge.

        Departures that remain, as what is printed is no difference of two bounds:
        children share the responsibilities of their parent, r' + r'' = r, where the
        paper normalises them over all topics while others stay; both lambda^ and
        lambda' + lambda'' count the prior once; the restricted iteration updates the
        children's topics after each sweep over the minibatch, four times, to its own
        sufficient statistics; theta follows the updated beta where splits are judged;
        a child has at least one expected token of the corpus; and a topic that no
        document of the minibatch uses is compared with all others, for a count below
        1e-9 is zero here and has no covariance.

        Returns
        -------
        moves : SplitMerge

        References
        ----------
        .. [1] Michael Bryant and Erik B. Sudderth, "Truly Nonparametric Online
           Variational Inference for Hierarchical Dirichlet Processes", Advances in
           Neural Information Processing Systems 25, 2012.
        """
        return cls(criterion="bound", algorithm="paper", confidence=0.0)

    def light(self, mass: Array) -> Flags:
        """Return which topics end after a warm-up.

        Parameters
        ----------
        mass : ndarray of shape (n_components,)
            Expected tokens of each topic.

        Returns
        -------
        light : ndarray of bool of shape (n_components,)
            Whether it ends: those below `prune_mass` and a tenth of the mean.
        """
        return sparing(mass < min(self.prune_mass, 0.1 * mass.mean()), mass)

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)
        if self.algorithm == "paper" and self.criterion != "bound":
            raise ValueError(
                'algorithm="paper" needs criterion="bound", by which the paper judges.'
            )

    def __repr__(self) -> str:
        return repr_settings(self, self.paper)
