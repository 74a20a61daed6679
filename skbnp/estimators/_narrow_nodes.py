"""Warnings of learned concentrations that describe single rows, not topics.

A von Mises-Fisher density is unbounded: equal rows let the concentration grow without
limit, and nodes of one row each. Rows of few features lie on a lattice: nodes of rows
that share nearly all of these predict best, and are many. Neither can be seen from the
bound, which rises.
"""

import numpy as np
import scipy.sparse as sp

from skbnp.distributions.von_mises_fisher import bessel_ratio
from skbnp.utils.warnings import warn_caller

#: Share of rows that are copies of others from which these make the concentration.
MOST_COPIES = 0.05
#: Features of a row, in the median, up to which rows are short, and as a share of all.
SHORT, SPARSE = 15, 1 / 3
#: Cosine of rows and their nodes above which short rows share nearly all features. Of
#: titles it is 0.4 to 0.5, of abstracts 0.4.
NEAR = 0.65
#: Nodes, as a multiple of the square root of the number of rows, that are many.
MANY = 1.5
#: Concentration near the largest that is learned.
LARGEST = 1e8


def share_of_copies(rows: sp.csr_array) -> float:
    """Share of the rows of length one that are copies of other rows."""
    n_rows, n_features = rows.shape
    rng = np.random.default_rng(0)
    places = rows @ rng.standard_normal((n_features, 2))
    return 1.0 - len(np.unique(np.round(places, 5), axis=0)) / max(n_rows, 1)


def warn_of_narrow_nodes(
    rows: sp.csr_array | None, n_features: int, n_nodes: int, concentration: float
) -> None:
    """Warn if a learned concentration is due to equal or short rows.

    `rows` have length one, or zero; None if they are elsewhere.
    """
    copies, is_short = 0.0, False
    if rows is not None:
        sizes = np.diff(rows.indptr)
        rows, sizes = rows[sizes > 0], sizes[sizes > 0]
        copies = share_of_copies(rows)
        size = float(np.median(sizes)) if len(sizes) else np.inf
        is_short = size <= min(SHORT, SPARSE * n_features)
        is_short &= bool(bessel_ratio(concentration, n_features) > NEAR)
        is_short &= n_nodes > MANY * np.sqrt(len(sizes))
    learned = f"vmf_concentration={concentration:.3g} was learned"
    if copies >= MOST_COPIES or concentration >= LARGEST:
        share = f"{copies:.0%} of the rows of X are" if copies else "rows of X may be"
        warn_caller(
            f"{learned} while {share} copies of others, which make it larger: nodes "
            f"({n_nodes}) may be single rows. Drop duplicates, or set "
            "vmf_concentration."
        )
    elif is_short:
        warn_caller(
            f"{learned} from rows of {size:.0f} features in the median: rows of a node "
            f"share nearly all of them, and there are {n_nodes} nodes. For fewer and "
            f"wider topics set vmf_concentration={concentration / 4:.2g} or so."
        )
