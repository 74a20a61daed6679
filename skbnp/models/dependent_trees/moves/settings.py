"""Settings of the moves of dependent trees that users may choose."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skbnp.utils.settings import check_settings, repr_settings

CHOICES = {"algorithm": ("default", "paper"), "merge": ("safe", "lax", "none")}
LEAST = {"max_births": 1, "birth_rows": 2, "birth_rounds": 1}
#: Log Bayes factor, in nats, that a birth, another parent of a node with a past, or the
#: end of one that has rows needs in an epoch with a past: of a thousand that chance
#: makes likelier, one gains as much.
LEAST_EVIDENCE = float(np.log(1000.0))
#: Rows that are none: a leaf with fewer ends, if it has none in the window.
NO_ROWS = 1e-3
#: Rows below which a topic that was there before pauses in an epoch.
PAUSE_ROWS = 1.0


@dataclass(frozen=True, slots=True, repr=False)
class EpochMoves:
    """What an expert may set of the moves of a dependent tree.

    `EpochMoves.paper()` are those of Hu et al. (2015).

    Parameters
    ----------
    algorithm : {"default", "paper"}
        "paper": merges and births in turn, births whatever the bound, and no other
        moves, see `paper`. `reattach` has no effect then.
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
        Largest number of rows from which a new node begins.
    birth_rounds : int
        Largest number of passes over these rows before it is judged.
    """

    algorithm: Literal["default", "paper"] = "default"
    merge: Literal["safe", "lax", "none"] = "safe"
    reattach: bool = True
    birth: bool = True
    max_births: int | None = None
    birth_rows: int = 1000
    birth_rounds: int = 10

    @classmethod
    def paper(cls) -> "EpochMoves":
        """Return the moves of Algorithm 1 of Hu et al. (2015) [1]_.

        For `DependentTrees` with concentrations and weights that are given and not
        learned, as they are in the paper (``vmf_concentration``,
        ``prior_concentration=100``, ``past_weight``). After each pass

        - merges (section 3.2.2): nodes merge with siblings or parents, those of odd
          depth before those of even depth, if the bound rises but for the entropy that
          rows lose, which is judged by statistics alone;
        - births (section 3.2.1): of nodes drawn by their mass, the rows with
          q(z = node) above 1 / sqrt(n_nodes), 1,000 at most, make a new child,
          which is always accepted: merges shall end it if it is superfluous.

        No leaf ends otherwise, and nodes go to no other parents and do not exchange
        their pasts. The tree does not stay as it is: learning ends by `tol`, with the
        births after the last pass in the tree; they are as many as `max_births`.

        Departures that remain: all pairs are ranked for merges, not some drawn; a child
        begins near one of the rows that are far from the target and its children, not
        at mu_target minus the normalised sum of its children, and one that ends its
        iteration with less than a row is none; rows count once at once, not from the
        next pass on; leaves start from clusters of rows.

        Returns
        -------
        moves : EpochMoves

        References
        ----------
        .. [1] Zhiting Hu, Qirong Ho, Avinava Dubey and Eric P. Xing, "Large-scale
           Distributed Dependent Nonparametric Trees", International Conference on
           Machine Learning, 2015.
        """
        return cls(algorithm="paper", merge="lax", reattach=False)

    def __post_init__(self) -> None:
        check_settings(self, CHOICES, LEAST)

    def __repr__(self) -> str:
        return repr_settings(self, self.paper)
