"""What an expert may set of the moves of a dependent tree."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skbnp.utils.validation import check_settings

__all__ = ["LEAST_EVIDENCE", "NO_ROWS", "PAUSE_ROWS", "EpochMoves"]

CHOICES = {"merge": ("safe", "lax", "none")}
LEAST = {"max_births": 1, "birth_rows": 2, "birth_rounds": 1}
#: Log Bayes factor, in nats, that a birth, another parent of a node with a past, or the
#: end of one that has rows needs in an epoch with a past: of a thousand that chance
#: makes likelier, one gains as much.
LEAST_EVIDENCE = float(np.log(1000.0))
#: Rows that are none: a leaf with fewer ends, if it has none in the window.
NO_ROWS = 1e-3
#: Rows below which a topic that was there before pauses in an epoch.
PAUSE_ROWS = 1.0


@dataclass(frozen=True, slots=True)
class EpochMoves:
    """What an expert may set of the moves of a dependent tree.

    Parameters
    ----------
    merge : {"safe", "lax", "none"}
        Nodes merge with siblings or parents if the bound rises for certain; or, as in
        the paper, if it rises but for the entropy that rows lose, which may lower it;
        or never. Merges that are judged with new parents and learned priors raise it.
    reattach, birth : bool
        Whether nodes are tried below other parents, and new nodes for some of the rows
        of another.
    max_births : int or None
        Nodes of which rows are tried for a new one after a pass; `None` is a tenth
        of the nodes, twenty at least.
    birth_rows : int
        Rows from which a new node begins, at the most.
    birth_rounds : int
        Visits of these rows before it is judged, at the most.
    """

    merge: Literal["safe", "lax", "none"] = "safe"
    reattach: bool = True
    birth: bool = True
    max_births: int | None = None
    birth_rows: int = 1000
    birth_rounds: int = 10

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)
