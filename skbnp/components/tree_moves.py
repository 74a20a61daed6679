"""What an expert may set of the moves of a topic tree."""

from dataclasses import dataclass
from typing import Literal

from skbnp.utils.validation import check_settings

__all__ = ["TreeMoves"]

CHOICES = {"merge": ("elbo", "cosine"), "grow": ("document", "neutral")}
LEAST = {"max_tries": 1, "max_rounds": 1}


@dataclass(frozen=True, slots=True)
class TreeMoves:
    """What an expert may set of the moves of a topic tree.

    Parameters
    ----------
    grow : {"document", "neutral"}
        How new branches begin: fitted to a document, or, as in the paper, as the prior
        that they are drawn from.
    merge : {"elbo", "cosine"}
        Siblings merge if the collapsed bound rises, as all others move, or, as in the
        paper, if the cosine of their documents' shares exceeds 0.95.
    reattach, split : bool
        Whether nodes are tried below other parents, and nodes as two; with growth for
        documents, also branches for half of the documents of a node.
    max_tries : int
        Moves of a kind that are tried after a pass.
    max_rounds : int
        Visits of the documents that a move touches before it is judged.
    """

    grow: Literal["document", "neutral"] = "document"
    merge: Literal["elbo", "cosine"] = "elbo"
    reattach: bool = True
    split: bool = True
    max_tries: int = 10
    max_rounds: int = 4

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)
