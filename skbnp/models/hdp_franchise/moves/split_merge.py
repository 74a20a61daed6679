"""Split-merge Metropolis-Hastings on tables, Figure 2 of Wang and Blei (2012).

Two random tables are drawn. If they serve the same dish, a split of it is proposed, if
not, a merge of their dishes; the other tables of the dish are allocated one by one, by
what has been allocated so far, as in Dahl (2005); or by a last one of some restricted
Gibbs scans, as in Jain and Neal (2004). The kernel computes and decides.
"""

import numpy as np
from numpy.typing import NDArray

from skbnp.kernels._seating import group
from skbnp.kernels._split_merge import SPLIT, propose
from skbnp.models.hdp_franchise.model import Seating
from skbnp.utils.typing import Ints32


def propose_moves(
    seating: Seating, n_proposals: int, rng: np.random.Generator, n_scans: int = 0
) -> list[tuple[bool, int, int]]:
    """Make `n_proposals` split-merge proposals in place, one after another.

    Each follows `n_scans` restricted scans. Returns those accepted: whether it was a
    split, and the numbers of the dish that stays and of the other.
    """
    accepted: list[tuple[bool, int, int]] = []
    if seating.n_all_tables < 2:
        return accepted
    words, begin = np.zeros((2, len(seating.words)), dtype=np.int32)
    group(seating, seating.workspace, words, begin)
    listed = None
    for _ in range(n_proposals):
        if seating.n_free == 0 and seating.n_served == len(seating.dish_tables):
            seating.make_places()
        listed = listed or _list_tables(seating)
        if len(listed[0]) < 2:
            return accepted
        outcome, stays, comes = propose(
            seating,
            seating.workspace,
            words,
            begin,
            *listed,
            n_scans,
            rng.bit_generator,
        )
        if outcome:
            accepted.append((outcome == SPLIT, stays, comes))
            listed = None
            if outcome == SPLIT:
                seating.is_new[comes] = 0
    return accepted


def _list_tables(
    seating: Seating,
) -> tuple[Ints32, Ints32, NDArray[np.int64]]:
    """All tables dish by dish: their documents and numbers, limits of the dishes.

    Except tables of dishes from before, which neither split nor merge.
    """
    at = seating.live()
    doc = np.repeat(np.arange(len(seating.n_tables)), seating.n_tables)
    dish = seating.dish[at]
    if seating.before is not None:
        may_move = dish >= len(seating.before.tables)
        at, doc, dish = at[may_move], doc[may_move], dish[may_move]
    tables = np.bincount(dish, minlength=seating.n_served)
    if seating.n_served <= np.iinfo(np.uint16).max:
        dish = dish.astype(np.uint16)  # by radix
    order = np.argsort(dish, kind="stable")
    first = np.cumsum(tables, dtype=np.int64)
    return (
        doc[order].astype(np.int32),
        (at - seating.begin[doc])[order].astype(np.int32),
        np.concatenate([[0], first]),
    )
