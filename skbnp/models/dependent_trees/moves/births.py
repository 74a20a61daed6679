"""New nodes for some of the rows of another.

Of the rows of a target those with q(z = target) >= 1 / sqrt(n_nodes) are collected, a
thousand at the most, by a hash of step, target and number of the row: which, does not
depend on how rows are cut into parts. A new child of the target begins near some of
them and takes what it can; the target follows, all else is held fixed. It is born if
the bound rises, in which rows count once: what they said before leaves the statistics
as they join it. Births as in section 3 of Hu et al. (2015) leave their rows counted
twice until the next pass is over, and have no bound until then; theirs begin in a
direction that may be far from all rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import xlogy

from skbnp.kernels._sphere import NEGLIGIBLE
from skbnp.models.dependent_trees.directions import (
    bessel_slope,
    conjugate,
    log_normaliser_gain,
    optimal_length,
    row_gains,
)
from skbnp.models.dependent_trees.local import Memo, Naturals, recall
from skbnp.models.dependent_trees.model import (
    EpochState,
    EpochStats,
    TreePriors,
    natural_of,
    stick_evidence,
)
from skbnp.models.dependent_trees.moves.records import Birth
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.models.dependent_trees.sticks import Sticks
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
    naturals: Naturals,
    collected: Collected,
    moves: EpochMoves,
    rng: np.random.Generator,
) -> Proposed | None:
    """Let a new child of the target take rows; None if there is nothing to gain.

    The sticks must have followed the masses (`update_sticks`). Its id is the next one
    of the tree. Time O(V + n_nodes) for each round, and of the words of the rows.
    """
    if len(collected.rows) <= LEAST_ROWS:
        return None
    trial = _Trial(state, stats, priors, naturals, collected)
    cosines = trial.cosines_to(trial.draw_seed(rng))
    order = np.argsort(-cosines, kind="stable")
    best = None
    for n_first in sorted(
        {max(LEAST_ROWS, int(share * len(order))) for share in SHARES}
    ):
        if n_first < len(order):
            found = trial.run(order[:n_first], moves.birth_rounds)
            if found is not None and (best is None or found.gain > best.gain):
                best = found
    return best if best is not None and best.gain > 0.0 else None


class _Trial:
    """A new node below a target, for collected rows.

    Its direction and that of the target follow the rows in turn; all others stay. They
    stay in a space of few dimensions, see `_on_features`.
    """

    def __init__(
        self,
        state: EpochState,
        stats: EpochStats,
        priors: TreePriors,
        naturals: Naturals,
        collected: Collected,
    ):
        self.state, self.priors = state, priors
        self.collected, self.target = collected, collected.target
        self.new = state.tree.next_id
        self.tree = state.tree.add(self.target, first_id=self.new)
        self.place = int(self.tree.positions(self.new))
        self.at = int(state.tree.positions(self.target))
        self.masses = np.insert(state.masses, self.place, 0.0)
        self.history = np.insert(state.history, self.place, 0.0)
        self.pull = state.prior_concentration * priors.parent_weight
        self.used, inverse = np.unique(collected.X.indices, return_inverse=True)
        values, limits = collected.X.data.astype(np.float64), collected.X.indptr
        shape = (collected.X.shape[0], len(self.used) + 2)
        self.X = sp.csr_array((values, inverse.ravel(), limits), shape=shape)
        self.transposed = self.X.T
        natural = natural_of(state, stats, priors, self.at)
        self.natural, self.mean = _on_features(self.used, natural, state.means[self.at])
        below = np.flatnonzero(state.tree.parent == self.at)
        self.below = np.linalg.norm(state.means[below], axis=1)
        memo = collected.memo
        shares = memo.shares()
        self.rows, self.columns = np.nonzero(shares)
        nodes = memo.nodes[self.rows, self.columns]
        places = np.full(shares.shape, -1, dtype=np.intp)
        places[self.rows, self.columns] = self.tree.positions(nodes)
        self.places = places[self.rows, self.columns]
        self.is_target = nodes == self.target
        self.products = self._products(state.tree.positions(nodes))
        products = np.zeros(shares.shape)
        products[self.rows, self.columns] = self.products
        self.said = _Said(memo, shares, places, products)
        beta, own = state.concentration, shares[self.rows, self.columns]
        names = np.sort(state.tree.ids)
        column = np.searchsorted(names, self.target)
        self.share = float(naturals.shares[column])
        self.spread = float(naturals.spreads[column])
        by_id = np.searchsorted(names, nodes)
        self.gains = naturals.gains(by_id, self.products, own, beta)
        self.on_target = self.said.shares_of(int(self.tree.positions(self.target)))
        self.before = self._terms(self.said)
        self.evidence = stick_evidence(
            state.tree, state.masses, state.history, self.priors
        )

    def _products(self, places: Ints) -> Array:
        """Products of rows with the means of their nodes, one for each share."""
        if len(places) == 0:
            return np.empty(0)
        X, means = self.collected.X, self.state.means
        first, counts = X.indptr[self.rows], np.diff(X.indptr)[self.rows]
        begins = np.cumsum(counts) - counts
        at = np.arange(int(counts.sum())) + np.repeat(first - begins, counts)
        values = X.data[at] * means[np.repeat(places, counts), X.indices[at]]
        return np.add.reduceat(values, begins)

    def cosines_to(self, directions: Array) -> Array:
        """Products of all rows with a direction, or with some in columns."""
        return np.asarray(self.X @ directions)

    def draw_seed(self, rng: np.random.Generator) -> Array:
        """Draw a row that is far from the target and its children."""
        state = self.state
        children = np.flatnonzero(state.tree.parent == self.at)
        near = np.append(self.at, children)
        eta = state.concentrations[near]
        lengths = eta * bessel_slope(eta**2, state.dimension)
        directions = np.zeros((self.X.shape[1], len(near)))
        directions[: len(self.used)] = state.means[np.ix_(near, self.used)].T
        found = self.cosines_to(directions) / np.maximum(lengths, 1e-300)
        cosines = np.maximum(found.max(axis=1), -1.0)
        shares = np.cumsum(np.maximum(1.0 - cosines, 0.0) ** 2 + 1e-12)
        draw = rng.random() * shares[-1]
        row = min(int(np.searchsorted(shares, draw, side="right")), len(shares) - 1)
        part = slice(self.X.indptr[row], self.X.indptr[row + 1])
        seed = np.zeros(self.X.shape[1])
        seed[self.X.indices[part]] = self.X.data[part]
        return seed

    def run(self, first: Ints, n_rounds: int) -> Proposed | None:
        """Begin with some rows, and let the new node take what it can."""
        taken = np.zeros(self.collected.X.shape[0])
        taken[first] = 1.0
        mean = self.mean
        for _ in range(n_rounds):
            mass = float(taken.sum())
            if mass < 1.0:
                return None
            rows = self._rows(taken)
            own = self._mean_of_new(rows, mean)
            moved = self.natural - self._rows(taken * self.on_target)
            moved += self.pull * own
            mean = self._mean_of_target(moved)
            scores, others = self._scores(taken, rows + self.pull * mean, moved, mean)
            taken = _taken(scores, others)
            if abs(float(taken.sum()) - mass) < TOL * mass:
                break
        said = self._choose(scores, others)
        if said.shares_of(self.place).sum() < 1.0:
            return None
        gain = self._gain(said, mean)
        if gain <= 0.0:
            return None
        gain -= self.refreshed
        change = self._change(said.memo)
        concerned = np.flatnonzero(np.diff(change.sums.indptr) + (change.masses != 0.0))
        birth = Birth(
            self.target, self.new, self.tree.ids[concerned], change.taken(concerned)
        )
        return Proposed(birth, self.collected.rows, said.memo, gain)

    def _rows(self, weights: Array) -> Array:
        """Natural parameter that weighted rows give."""
        return self.state.concentration * np.asarray(self.transposed @ weights)

    def _mean_of_new(self, rows: Array, mean: Array) -> Array:
        """Mean of the new node, given what rows say and the mean of the target."""
        natural = rows + self.pull * mean
        square = natural @ natural + self._spread_below(float(np.linalg.norm(mean)))
        return natural * bessel_slope(square, self.state.dimension)

    def _mean_of_target(self, natural: Array) -> Array:
        """Mean of the target, about: what children say in its length stays a share."""
        counts = self.share * natural
        slope = bessel_slope(counts @ counts + self.spread, self.state.dimension)
        return counts * slope

    def _length_of_target(self, natural: Array, own: Array | None) -> float:
        """Length of the best mean of the target, by that of the new node, if any."""
        return optimal_length(
            float(np.linalg.norm(natural)),
            self.spread,
            self._lengths_below(own),
            self.pull,
            self.state.dimension,
        )

    def _lengths_below(self, own: Array | None) -> Array:
        """Lengths of the means of the children of the target, the new one last."""
        if own is None:
            return self.below
        return np.append(self.below, np.linalg.norm(own))

    def _worth(self, natural: float, length: float, below: Array) -> float:
        """What the directions of the target and of its children add to the bound.

        `natural` is what all but the lengths of the children says in its direction.
        """
        dimension, spread = self.state.dimension, self._spread_below(length)
        own = natural * length - conjugate(length, self.spread, dimension)
        return float(own - conjugate(below, spread, dimension).sum())

    def _spread_below(self, length: float) -> float:
        """Return v of children of a node with a mean of a length."""
        return self.pull**2 * max((1.0 - length) * (1.0 + length), 0.0)

    def _scores(
        self, taken: Array, new: Array, target: Array, mean: Array
    ) -> tuple[Array, Array]:
        """Scores of the new node, (n_rows,), and of the others, (n_rows, N_BEST).

        With natural parameters of the new node and of the target, and the mean of this;
        parts that rows have in a node are left out, see `local`.
        """
        state, logs = self.state, self._log_weights(taken)
        beta, dimension = state.concentration, state.dimension
        spread = self._spread_below(float(np.linalg.norm(mean)))
        gains = row_gains(
            new @ new, self.cosines_to(new), taken, beta, 1.0, spread, dimension
        )
        part = self.said.shares * (1.0 - taken)[:, None]
        of_target = row_gains(
            target @ target,
            self.cosines_to(target)[self.rows],
            part[self.rows, self.columns],
            beta,
            self.share,
            self.spread,
            dimension,
        )
        others = np.full(self.said.shares.shape, -np.inf)
        found = np.where(self.is_target, of_target, self.gains)
        others[self.rows, self.columns] = logs[self.places] + found
        return logs[self.place] + gains, others

    def _others(self, logs: Array) -> Array:
        """Scores of the old nodes by their means."""
        others = np.full(self.said.shares.shape, -np.inf)
        found = logs[self.places] + self.state.concentration * self.products
        others[self.rows, self.columns] = found
        return others

    def _log_weights(self, taken: Array) -> Array:
        """E log pi of all nodes, had the new one these parts of the rows."""
        masses = self.masses.copy()
        lost = taken[self.rows] * self.said.shares[self.rows, self.columns]
        np.subtract.at(masses, self.places, lost)
        masses[self.place] = taken.sum()
        both, priors = self.history + np.maximum(masses, 0.0), self.priors
        sticks = Sticks.given(
            self.tree, both, priors.stop_concentration, priors.child_concentration
        )
        return sticks.log_weights(self.tree)

    @cached_property
    def refreshed(self) -> float:
        """What the bound gains if rows choose among the old nodes once more."""
        state = self.state
        logs = np.insert(state.log_weights(self.priors), self.place, 0.0)
        nobody = np.full(self.X.shape[0], -np.inf)
        return self._gain(self._choose(nobody, self._others(logs)), None)

    def _choose(self, scores: Array, others: Array) -> "_Said":
        """What rows say by scores: as many nodes as before, the best."""
        memo, old = self.collected.memo, self.said
        both = np.column_stack([scores, others])
        order = np.argsort(-both, axis=1, kind="stable")[:, : memo.nodes.shape[1]]

        def best(new: Array | Ints, table: NDArray) -> NDArray:
            return np.take_along_axis(np.column_stack([new, table]), order, axis=1)

        both = np.take_along_axis(both, order, axis=1)
        below = both - both[:, :1]
        weights = np.where(below >= -NEGLIGIBLE, np.exp(below), 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        nodes = best(np.full(len(both), self.new), memo.nodes)
        nodes = np.where(weights > 0.0, nodes, -1)
        memo = replace(
            memo, nodes=nodes.astype(np.int32), weights=weights.astype(np.float32)
        )
        places = best(np.full(len(both), self.place), old.places)
        products = best(np.zeros(len(both)), old.products)
        return _Said(memo, memo.shares(), places, products)

    def _change(self, memo: Memo) -> EpochStats:
        """Statistics that rows add, by the tree with the new node."""
        new = recall(self.tree, memo, self.collected.X)
        old = recall(self.tree, self.collected.memo, self.collected.X)
        return new.plus(old, -1.0)

    def _terms(self, said: "_Said") -> tuple[Array, float, float]:
        """Masses, entropy, and products with nodes but the target and the new one."""
        shares, places = said.shares, said.places
        is_there = shares > 0.0
        masses = np.zeros(len(self.tree))
        np.add.at(masses, places[is_there], shares[is_there])
        away = (places != self.place) & (places != self.tree.positions(self.target))
        fit = float((shares * said.products)[away].sum())
        return masses, -float(xlogy(shares, shares).sum()), fit

    def _gain(self, said: "_Said", mean: Array | None) -> float:
        """Rise of the bound; the new node is there if the target has another mean.

        Sticks are at their optimum, and so is the new node for the mean of the target,
        and then the target for the new node and for the lengths of its children.
        """
        state, dimension, place = self.state, self.state.dimension, self.place
        rise = self._terms(said)
        change = rise[0] - self.before[0]
        masses, history = np.maximum(self.masses + change, 0.0), self.history
        gain = rise[1] - self.before[1]
        gain += state.concentration * (rise[2] - self.before[2])
        gain -= self.evidence
        before = self.mean
        length = float(np.linalg.norm(before))
        along = float(self.natural @ before) / max(length, 1e-300)
        gain -= self._worth(along, length, self.below)
        on_target = said.shares_of(int(self.tree.positions(self.target)))
        natural = self.natural + self._rows(on_target - self.on_target)
        own, tree = None, self.tree
        if mean is None:
            tree, masses = state.tree, np.delete(masses, place)
            history = state.history
        else:
            rows = self._rows(said.shares_of(place))
            own = self._mean_of_new(rows, mean)
            gain += float(rows @ own)
            gain += float(log_normaliser_gain(self.pull**2, dimension))
            natural = natural + self.pull * own
        gain += stick_evidence(tree, masses, history, self.priors)
        length = self._length_of_target(natural, own)
        along = float(np.linalg.norm(natural))
        return gain + self._worth(along, length, self._lengths_below(own))


def _on_features(used: Ints, natural: Array, mean: Array) -> tuple[Array, Array]:
    """Coordinates of two vectors where they and rows with these features span a space.

    Those of the features, and two of an orthonormal basis of what is left of the two
    vectors: products and lengths are what they were.
    """
    left, other = natural.copy(), mean.copy()
    left[used] = other[used] = 0.0
    length = float(np.linalg.norm(left))
    both = float(left @ other) / max(length, 1e-300)
    other -= both / max(length, 1e-300) * left
    first = np.append(natural[used], [length, 0.0])
    return first, np.append(mean[used], [both, float(np.linalg.norm(other))])


@dataclass(frozen=True, slots=True)
class _Said:
    """What rows say, and how near they are to their nodes."""

    memo: Memo
    shares: Array  # (n_rows, n_best)
    places: Ints  # (n_rows, n_best) in the tree with the new node
    products: Array  # (n_rows, n_best) E'x; zero for the new node

    def shares_of(self, place: int) -> Array:
        """Shares of a node, (n_rows,)."""
        return np.where(self.places == place, self.shares, 0.0).sum(axis=1)


def _taken(scores: Array, others: Array) -> Array:
    """q(z = new) of each row."""
    best = np.maximum(others.max(axis=1), scores)
    own = np.exp(scores - best)
    return own / (own + np.exp(others - best[:, None]).sum(axis=1))


def renumbered(proposed: Proposed, tree: Tree) -> Proposed:
    """Give a new node the next id of a tree, in the record and in what rows say."""
    birth, new = proposed.birth, tree.next_id
    ids = np.where(birth.ids == birth.new, new, birth.ids)
    nodes = np.where(proposed.memo.nodes == birth.new, new, proposed.memo.nodes)
    memo = replace(proposed.memo, nodes=nodes.astype(np.int32))
    return replace(proposed, birth=replace(birth, new=new, ids=ids), memo=memo)
