"""Settings of the moves of topic trees (nested CRP, component analysis) for users."""

from dataclasses import dataclass
from typing import Literal

from skbnp.utils.settings import check_settings, repr_settings

CHOICES = {"algorithm": ("default", "paper")}
LEAST = {"max_tries": 1, "max_rounds": 1}


@dataclass(frozen=True, slots=True, repr=False)
class TreeMoves:
    """What an expert may set of the moves of a topic tree.

    `TreeMoves.paper()` are those of Wang and Blei (2009).

    Parameters
    ----------
    algorithm : {"default", "paper"}
        "paper": prune, merge and grow by the printed rules, whatever the bound, and no
        other moves, see `paper`. `reattach` and `split` have no effect then.
    reattach, split : bool
        Whether nodes are tried below other parents, and nodes as two; with `split` also
        branches for half of the documents of a node.
    max_tries : int
        Moves of a kind that are tried after a pass, of those that a bound judges.
    max_rounds : int
        Visits of the documents that a move touches before it is judged.
    """

    algorithm: Literal["default", "paper"] = "default"
    reattach: bool = True
    split: bool = True
    max_tries: int = 10
    max_rounds: int = 4

    @classmethod
    def paper(cls) -> "TreeMoves":
        """Return the moves of section 3.2 of Wang and Blei (2009) [1]_, as printed.

        For `NestedCRP` with ``init="sequential"``, ``local_family="factorised"`` and
        ``learning_method="batch"``. After each pass, whatever the bound is,

        - prune: a leaf ends if sum_n q(c_n = leaf) < 1e-6;
        - merge: of any two paths i and j to leaves whose vectors P_i = (q(c_n = i))_n
          have a cosine above 0.95 the second joins the first, level by level;
        - grow: of some documents, one in a hundred, one path each is drawn from
          q(c_n), and one inner path in proportion to g(c) = sum_n q(c_n = c); each that
          ends at an inner node becomes one to a new leaf.

        What is left to choose in the paper, and how it is chosen: the number of
        documents (there "several"), at most a quarter of the nodes; and new nodes have
        the prior as their posterior, by which the bound hardly changes.

        Returns
        -------
        moves : TreeMoves

        References
        ----------
        .. [1] Chong Wang and David M. Blei, "Variational Inference for the Nested
           Chinese Restaurant Process", Advances in Neural Information Processing
           Systems 22, 2009.
        """
        return cls(algorithm="paper", reattach=False, split=False, max_rounds=1)

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)

    def __repr__(self) -> str:
        return repr_settings(self, self.paper)
