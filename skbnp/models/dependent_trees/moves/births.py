"""New nodes for some of the rows of another.

Of the rows of a target those with q(z = target) >= 1 / sqrt(n_nodes) are collected, a
thousand at the most, by a hash of step, target and number of the row: which, does not
depend on how rows are cut into parts. A new child of the target begins near some of
them and takes what it can, all else held fixed. It is born if the bound rises, in which
rows count once: what they said before leaves the statistics as they join it. Births as
in section 3 of Hu et al. (2015) leave their rows counted twice until the next pass is
over, and have no bound until then; theirs begin in a direction that may be far from all
rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.distributions.von_mises_fisher import bessel_ratio, log_normaliser
from skbnp.kernels._sphere import NEGLIGIBLE
from skbnp.models.dependent_trees.local import Memo, recall
from skbnp.models.dependent_trees.model import (
    EpochState,
    EpochStats,
    TreePriors,
    stick_evidence,
)
from skbnp.models.dependent_trees.moves.records import Birth
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.trees import Tree

__all__ = [
    "Collected",
    "Proposed",
    "collect",
    "propose_birth",
    "renumbered",
    "row_keys",
]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

#: Shares of the collected rows that a new node begins from, each tried.
SHARES = (0.05, 0.3)
#: Rows that it begins from, at the least.
LEAST_ROWS = 2
#: A new node has settled when its mass changes by less, relatively.
TOL = 1e-3


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows of a target, and where they are now."""

    target: int
    rows: Ints  # numbers in the epoch, increasing
    X: sp.csr_array
    memo: Memo


@dataclass(frozen=True, slots=True)
class Proposed:
    """A birth, what the rows that it concerns say then, and what the bound gains."""

    birth: Birth
    rows: Ints
    memo: Memo
    gain: float


def row_keys(step: int, target: int, rows: Ints) -> NDArray[np.uint64]:
    """Keys of rows: a hash of step, target and row, by the mixer of splitmix64."""
    key = np.zeros(1, dtype=np.uint64)
    for part in (np.array([step]), np.array([target]), rows):
        key = _mixed(key + part.astype(np.uint64))
    return key


def _mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of integers, Steele, Lea and Flood (2014)."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


def collect(
    memo: Memo, target: int, n_nodes: int, step: int, first_row: int, most: int
) -> tuple[Ints, NDArray[np.uint64]]:
    """Find rows of a part that are at a target: the `most` smallest keys, and these.

    Of several parts, those with the smallest keys of all are the ones of the whole.
    """
    rows = np.flatnonzero((memo.nodes == target).any(axis=1))
    shares = np.where(memo.nodes[rows] == target, memo.weights[rows], 0.0)
    total = memo.weights[rows].sum(axis=1)
    # Single precision may keep all of a row a little below one.
    least = (1.0 / np.sqrt(n_nodes) - 1e-6) * total
    rows = rows[shares.sum(axis=1) >= least] + first_row
    keys = row_keys(step, target, rows)
    order = np.argsort(keys, kind="stable")[:most]
    return rows[order], keys[order]


def propose_birth(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    collected: Collected,
    moves: EpochMoves,
    rng: np.random.Generator,
) -> Proposed | None:
    """Let a new child of the target take rows; None if there is nothing to gain.

    The sticks must have followed the masses (`update_sticks`). Its id is the next one
    of the tree. Time O(V + n_nodes) for each round, and of the words of the rows.
    """
    if len(collected.rows) < LEAST_ROWS:
        return None
    trial = _Trial(state, stats, priors, collected)
    cosines = trial.cosines_to(trial.draw_seed(rng))
    order = np.argsort(-cosines, kind="stable")
    best = None
    for share in SHARES:
        n_first = max(LEAST_ROWS, int(share * len(order)))
        if n_first < len(order):
            found = trial.run(order[:n_first], moves.birth_rounds)
            if found is not None and (best is None or found.gain > best.gain):
                best = found
    return best if best is not None and best.gain > 0.0 else None


class _Trial:
    """A new node below a target, for collected rows."""

    def __init__(
        self,
        state: EpochState,
        stats: EpochStats,
        priors: TreePriors,
        collected: Collected,
    ):
        self.state, self.stats, self.priors = state, stats, priors
        self.collected, self.target = collected, collected.target
        self.new = state.tree.next_id
        self.tree = state.tree.add(self.target, first_id=self.new)
        self.place = int(self.tree.positions(self.new))
        self.at = int(state.tree.positions(self.target))
        self.old = recall(state.tree, collected.memo, collected.X)
        k0 = state.prior_concentration
        self.prior = k0 * priors.parent_weight * state.means[self.at]
        self.n_words = np.diff(collected.X.indptr)
        self.scores = self._scores()

    def _scores(self) -> Array:
        """Scores of the nodes of each row, (n_rows, N_BEST)."""
        memo, state = self.collected.memo, self.state
        there = (memo.nodes >= 0) & (memo.weights > 0.0)
        scores = np.full(memo.nodes.shape, -np.inf)
        log_weights = state.log_weights(self.priors)
        rows, columns = np.nonzero(there)
        places = state.tree.positions(memo.nodes[rows, columns])
        for node in np.unique(places):
            of = places == node
            found = self.collected.X[rows[of]] @ state.means[node]
            found = log_weights[node] + state.concentration * found
            scores[rows[of], columns[of]] = found
        return scores

    def cosines_to(self, direction: Array) -> Array:
        return np.asarray(self.collected.X @ direction, dtype=np.float64)

    def draw_seed(self, rng: np.random.Generator) -> Array:
        """Draw a row that is far from the target and its children."""
        state = self.state
        children = np.flatnonzero(state.tree.parent == self.at)
        near = np.append(self.at, children)
        lengths = bessel_ratio(state.concentrations[near], state.dimension)
        cosines = np.full(len(self.n_words), -1.0)
        for node, length in zip(near.tolist(), lengths.tolist(), strict=True):
            found = self.cosines_to(state.means[node]) / max(length, 1e-300)
            cosines = np.maximum(cosines, found)
        shares = np.cumsum(np.maximum(1.0 - cosines, 0.0) ** 2 + 1e-12)
        draw = rng.random() * shares[-1]
        row = min(int(np.searchsorted(shares, draw, side="right")), len(shares) - 1)
        return self.collected.X[[row]].toarray()[0].astype(np.float64)

    def run(self, first: Ints, n_rounds: int) -> Proposed | None:
        """Begin with some rows, and let the new node take what it can."""
        weights = np.zeros(len(self.n_words))
        weights[first] = 1.0
        for _ in range(n_rounds):
            mass = float(weights.sum())
            if mass < 1.0:
                return None
            mean, log_weight = self._mean(weights), self._log_weight(weights)
            scores = log_weight + self.state.concentration * self.cosines_to(mean)
            weights = self._taken(scores)
            if abs(float(weights.sum()) - mass) < TOL * mass:
                break
        return self._proposed(self._memo(scores))

    def _mean(self, weights: Array) -> Array:
        natural = self._natural(weights)
        eta = float(np.linalg.norm(natural))
        ratio = float(bessel_ratio(eta, self.state.dimension))
        return natural * (ratio / max(eta, 1e-300))

    def _natural(self, weights: Array) -> Array:
        total = np.asarray(weights @ self.collected.X, dtype=np.float64).ravel()
        return self.prior + self.state.concentration * total

    def _log_weight(self, weights: Array) -> float:
        """E log pi of the new node, had it these rows of the target's and others'."""
        masses = np.insert(self.state.masses, self.place, 0.0)
        shares = self.collected.memo.shares()
        rows, columns = np.nonzero(shares)
        places = self.tree.positions(self.collected.memo.nodes[rows, columns])
        np.subtract.at(masses, places, weights[rows] * shares[rows, columns])
        masses[self.place] = weights.sum()
        both = np.insert(self.state.history, self.place, 0.0) + np.maximum(masses, 0.0)
        sticks = replace(
            self.state, tree=self.tree, masses=both, history=np.zeros(len(both))
        ).sticks(self.priors)
        return float(sticks.log_weights(self.tree)[self.place])

    def _taken(self, scores: Array) -> Array:
        """q(z = new) of each row."""
        best = np.maximum(self.scores.max(axis=1), scores)
        own = np.exp(scores - best)
        others = np.exp(self.scores - best[:, None]).sum(axis=1)
        return own / (own + others)

    def _memo(self, scores: Array) -> Memo:
        """What rows say with the new node: as many nodes as before, the best."""
        memo = self.collected.memo
        both = np.column_stack([scores, self.scores])
        nodes = np.column_stack([np.full(len(both), self.new), memo.nodes])
        order = np.argsort(-both, axis=1, kind="stable")[:, : memo.nodes.shape[1]]
        both = np.take_along_axis(both, order, axis=1)
        below = both - both[:, :1]
        weights = np.where(below >= -NEGLIGIBLE, np.exp(below), 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        nodes = np.take_along_axis(nodes, order, axis=1)
        nodes = np.where(weights > 0.0, nodes, -1)
        return Memo(nodes.astype(np.int32), weights.astype(np.float32), memo.rest)

    def _proposed(self, memo: Memo) -> Proposed | None:
        """Judge, against rows that choose among the old nodes alone."""
        change = self._change(memo)
        if change.masses[self.place] < 1.0:
            return None
        gain = self._gain(change) - self.refreshed
        concerned = np.flatnonzero(np.diff(change.sums.indptr) + (change.masses != 0.0))
        birth = Birth(
            self.target, self.new, self.tree.ids[concerned], change.taken(concerned)
        )
        return Proposed(birth, self.collected.rows, memo, gain)

    @cached_property
    def refreshed(self) -> float:
        """What the bound gains if rows choose among the old nodes once more."""
        nobody = np.full(len(self.n_words), -np.inf)
        return self._gain(self._change(self._memo(nobody)), is_born=False)

    def _change(self, memo: Memo) -> EpochStats:
        """Statistics that rows add, by the tree with the new node."""
        new = recall(self.tree, memo, self.collected.X)
        places = np.delete(np.arange(len(self.tree)), self.place)
        spread = sp.csr_array(
            (np.ones(len(places)), (places, np.arange(len(places)))),
            shape=(len(self.tree), len(places)),
        )
        return EpochStats(
            new.masses - spread @ self.old.masses,
            sp.csr_array(new.sums - spread @ self.old.sums),
            new.entropies - spread @ self.old.entropies,
        )

    def _gain(self, change: EpochStats, *, is_born: bool = True) -> float:
        """Rise of the bound: sticks at their optimum, old directions as they are."""
        state, dimension, place = self.state, self.state.dimension, self.place
        masses, history = state.masses, state.history
        old = change.taken(np.delete(np.arange(len(self.tree)), place))
        gain = float(change.entropies.sum())
        gain += state.concentration * _product(old.sums, state.means)
        gain -= stick_evidence(state.tree, masses, history, self.priors)
        if not is_born:
            masses = np.maximum(masses + old.masses, 0.0)
            return gain + stick_evidence(state.tree, masses, history, self.priors)
        masses = np.insert(masses, place, 0.0) + change.masses
        history = np.insert(history, place, 0.0)
        gain += stick_evidence(self.tree, np.maximum(masses, 0.0), history, self.priors)
        own = change.sums[[place]].toarray()[0]
        eta = np.linalg.norm(self.prior + state.concentration * own)
        rho = state.prior_concentration * self.priors.parent_weight
        logs = log_normaliser(rho, dimension) - log_normaliser(eta, dimension)
        return gain + float(logs)


def _product(sums: sp.csr_array, means: Array) -> float:
    rows = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
    return float(sums.data @ means[rows, sums.indices])


def renumbered(proposed: Proposed, tree: Tree) -> Proposed:
    """Give a new node the next id of a tree, in the record and in what rows say."""
    birth, new = proposed.birth, tree.next_id
    ids = np.where(birth.ids == birth.new, new, birth.ids)
    nodes = np.where(proposed.memo.nodes == birth.new, new, proposed.memo.nodes)
    memo = replace(proposed.memo, nodes=nodes.astype(np.int32))
    return replace(proposed, birth=replace(birth, new=new, ids=ids), memo=memo)
