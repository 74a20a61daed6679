"""Which nodes merge: all pairs of a part are ranked, the best of each node judged."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.model import (
    EpochState,
    EpochStats,
    MergeGain,
    TreePriors,
    merge_gain,
    stick_gain,
)
from skbnp.models.dependent_trees.moves.partition import merge_units
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.moves.records import Merge

__all__ = ["PairLosses", "propose_merges"]

Ints = NDArray[np.intp]

#: Nats below zero down to which merges are judged by exact differences.
SLACK = 20.0
#: Nats that sticks do not gain by a merge, and beyond them by which the ranking is off
#: at the most.
MOST_STICKS, MOST_OFF = 200.0, 200.0
#: Targets of a node that are judged, the best of the ranking.
N_TARGETS = 2


def propose_merges(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    products: Products,
    parity: int,
    test: Literal["safe", "lax"],
    losses: "PairLosses",
    stays: Ints,
    run: Callable[..., Iterable[Any]] = map,
) -> list[tuple[Merge, float]]:
    """Find disjoint merges in the units of a parity, each worth its while by itself.

    `stays` are places of nodes that do not.

    With each comes the entropy that rows may lose by it; a lax test does not ask. No
    node has a part in two of them. In a unit those of larger gain come first; `run`
    maps over units, whose merges are independent but for sticks and for what a node
    says to its parent.
    """
    tree = state.tree
    units = merge_units(tree, parity)
    heavy = tree.accumulate(stats.masses + state.history)
    # What was there before has a name that users know.
    old = state.with_past
    heavy[old] += 2.0 * heavy[0] + 1.0
    merges = np.ones(len(tree), dtype=bool)
    merges[stays] = False
    lists = [np.flatnonzero(tree.parent == node) for node in np.unique(tree.parent[1:])]

    def judge(unit: int) -> list[tuple[Merge, float]]:
        own = [rows for rows in lists if units[rows[0]] == unit]
        pairs = [
            pair
            for rows in own
            for pair in _ranked(rows[merges[rows]], units, heavy, products)
        ]
        judged = []
        for source, target in pairs:
            about = products.merge(source, target)
            if about > -MOST_STICKS:
                about += stick_gain(state, priors, source, target)
            if about <= -SLACK:
                continue
            record = Merge(int(tree.ids[source]), int(tree.ids[target]))
            found = merge_gain(state, stats, priors, record.source, record.target)
            lost = losses.of(record, found) if test == "safe" else 0.0
            if found.gain > lost or (test == "lax" and found.gain == 0.0):
                judged.append((found.gain - lost, record, lost))
        judged.sort(key=lambda one: (-one[0], one[1].source, one[1].target))
        return _disjoint([(record, lost) for _, record, lost in judged])

    return [one for found in run(judge, np.unique(units)) for one in found]


@dataclass(frozen=True, slots=True)
class PairLosses:
    """Entropy that rows lose if two of their nodes are one, additive over rows.

    Of rows at hand it is known, (a + b) log(a + b) - a log a - b log b each; of others
    the bound holds that `merge_gain` has.
    """

    pairs: NDArray[np.int64]  # (n_pairs, 2) ids, the smaller first, in order
    values: NDArray[np.float64]  # (n_pairs,)
    has_others: bool = False

    @classmethod
    def of_rows(cls, memo: Memo) -> "PairLosses":
        """Sum over rows that have a part in two nodes."""
        keys, values = [np.empty((0, 2), dtype=np.int64)], [np.empty(0)]
        rows = np.flatnonzero(memo.weights[:, 1] > 0.0)  # the best come first
        some = memo.taken(rows)
        shares = some.shares()
        for one, other in combinations(range(shares.shape[1]), 2):
            both = np.flatnonzero((shares[:, one] > 0.0) & (shares[:, other] > 0.0))
            a, b = shares[both, one], shares[both, other]
            pair = some.nodes[both][:, [one, other]].astype(np.int64)
            keys.append(np.sort(pair, axis=1))
            values.append(xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b))
        return cls._summed(np.concatenate(keys), np.concatenate(values))

    def plus(self, other: "PairLosses") -> "PairLosses":
        """Add up."""
        pairs = np.concatenate([self.pairs, other.pairs])
        return self._summed(pairs, np.concatenate([self.values, other.values]))

    @classmethod
    def _summed(
        cls, pairs: NDArray[np.int64], values: NDArray[np.float64]
    ) -> "PairLosses":
        kinds, at = np.unique(pairs, axis=0, return_inverse=True)
        totals = np.bincount(at.ravel(), values, len(kinds))
        return cls(kinds, totals.astype(np.float64, copy=False))

    def of(self, merge: Merge, found: MergeGain) -> float:
        """Entropy that rows lose by a merge, or the most that they may lose."""
        if self.has_others:
            return found.most_lost
        first, second = sorted((merge.source, merge.target))
        begin, end = np.searchsorted(self.pairs[:, 0], [first, first + 1])
        at = begin + int(np.searchsorted(self.pairs[begin:end, 1], second))
        is_known = at < end and self.pairs[at, 1] == second
        return min(float(self.values[at]), found.most_lost) if is_known else 0.0


def _ranked(
    rows: Ints, units: Ints, heavy: NDArray[np.float64], products: Products
) -> list[tuple[int, int]]:
    """Pairs of a list of siblings, the lighter into the heavier, or into the parent.

    Nodes with a past count as heavier than any without.
    """
    if len(rows) == 0:
        return []
    parent = products.parent[rows[0]]
    targets = rows
    if units[parent] == units[rows[0]]:
        targets = np.append(parent, rows)
    gains = products.merges(rows, targets)
    # The earlier of equally heavy siblings stays.
    order = np.lexsort((rows, -heavy[rows]))
    rank = np.empty(len(rows), dtype=np.intp)
    rank[order] = np.arange(len(rows))
    ranks = rank if len(targets) == len(rows) else np.append(-1, rank)
    gains[rank[:, None] <= ranks[None]] = -np.inf
    if len(targets) > len(rows):  # into a parent without a past: none that has one
        gains[heavy[rows] > heavy[parent], 0] = -np.inf
    best = np.argsort(-gains, axis=1, kind="stable")[:, :N_TARGETS]
    return [
        (int(rows[one]), int(targets[other]))
        for one in range(len(rows))
        for other in best[one].tolist()
        if gains[one, other] > -MOST_STICKS - MOST_OFF
    ]


def _disjoint(judged: list[tuple[Merge, float]]) -> list[tuple[Merge, float]]:
    used: set[int] = set()
    chosen = []
    for merge, lost in judged:
        if not used & {merge.source, merge.target}:
            used |= {merge.source, merge.target}
            chosen.append((merge, lost))
    return chosen
