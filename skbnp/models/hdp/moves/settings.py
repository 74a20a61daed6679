"""Settings of the moves of an HDP that users may choose."""

from dataclasses import dataclass
from typing import Literal

from skbnp.utils.settings import check_settings, repr_settings

LEAST = {"births": 0, "trial_passes": 1}
CHOICES = {"algorithm": ("default", "paper")}


@dataclass(frozen=True, slots=True, repr=False)
class SplitMerge:
    """Settings of the moves and trials that choose the number of topics of an HDP.

    Documents that are held out judge numbers of topics by how well they are predicted.
    `SplitMerge.paper()` are the moves of Bryant and Sudderth (2012).

    Parameters
    ----------
    births : bool
        Whether trials add topics.
    trial_passes : int
        Passes of a trial.
    prune_tokens : float
        A topic with fewer expected tokens of the corpus ends (0: none does).
    reservoir_tokens : int
        Tokens of documents that are kept of a stream, to try other numbers of topics
        on, and at least 1,000 documents; 0 keeps none, and tries none.
    algorithm : {"default", "paper"}
        "paper": Algorithm 2 of Bryant and Sudderth (2012) as printed, see `paper`. It
        reads `max_splits` alone.
    max_splits : int
        Splits that a minibatch makes, at most (paper).
    """

    births: bool = True
    trial_passes: int = 4
    prune_tokens: float = 1.0
    reservoir_tokens: int = 1_500_000
    algorithm: Literal["default", "paper"] = "default"
    max_splits: int = 1

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
        return cls(algorithm="paper")

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)

    def __repr__(self) -> str:
        return repr_settings(self, self.paper)
