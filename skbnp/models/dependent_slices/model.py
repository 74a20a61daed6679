"""Sampler state of an epoch of dependent trees: each row at one node, directions drawn.

With the symbols of `dependent_trees/bound.py`, given the nodes z of all rows and the
directions theta of all nodes but e, and of no child of e with a past,

    theta_e ~ vMF of natural parameter
    g_e = beta s_e + kappa0 (k1 theta_parent + k2 mu_e^(t-1) + k1 sum_children theta_c),

whose normaliser tells how probable rows are at e, theta_e integrated out. So a sweep
goes through phases (`phase.py`): directions of the nodes of even depth are given while
rows go from node to node, those of odd depth being integrated out, and are drawn when
these are. Nothing else moves rows when there are thousands of features: the direction
of a node is so near to its rows that each is hundreds of nats better off where it is.

The density of theta_e has factors C_V(rho_c(theta_e)) where children c have a past.
Such nodes are never integrated out; they are drawn by an independent proposal, in which
the logarithms of these factors are replaced by tangents, and are accepted or not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from skbnp.distributions import draw_natural, expansion
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.kernels._tree_directions import integrate_out
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.updates import update_own_means
from skbnp.trees import Tree
from skbnp.utils.arrays import kernel_arrays, members
from skbnp.utils.labels import Label
from skbnp.utils.ranges import Log, Sized, Steps
from skbnp.utils.typing import Array, Flags, Ints, Ints32

# Directions of nodes in the sampler of dependent trees, shared by edited trees.


Places: TypeAlias = "int | Ints | Sequence[int]"

#: Rows by which an array grows that is full.
GROWTH = 16
#: Share of a vector above which entries are read in a row, whether zero or not.
SPARSE = 0.05


@dataclass(slots=True)
class Directions:
    """Directions by position in a tree, rows of one array that several trees share.

    A tree that is edited has other positions, the rows of most nodes, and few new ones:
    thousands of features are not copied for each of hundreds of nodes. Of two trees
    that share an array the one before must not be read after the other is written to.
    """

    # in any order, some rows of no node
    drawn: Annotated[Array, Sized("n_nodes", "n_features")]
    row: Annotated[Ints, Sized("n_nodes", least=-1)]  # -1 of nodes that have none yet

    @classmethod
    def of(cls, directions: Array) -> "Directions":
        """Return directions given in the order of the tree, (n_nodes, n_features)."""
        return cls(directions, np.arange(len(directions)))

    def __len__(self) -> int:
        return len(self.row)

    @property
    def width(self) -> int:
        """Number of features V, columns of the array."""
        return int(self.drawn.shape[1])

    def __getitem__(self, places: Places) -> Array:
        """Return the directions of some nodes."""
        return np.asarray(self.drawn[self.row[places]])

    def __setitem__(self, place: int, direction: Array) -> None:
        """Set the direction of a node, in place, in an unused row."""
        if self.row[place] < 0:
            self.row[place] = self._free_row()
        self.drawn[self.row[place]] = direction

    def __matmul__(self, vector: Array) -> Array:
        """Inner products of all directions with a vector, most of it zero."""
        (words,) = np.nonzero(vector)
        if len(words) < SPARSE * self.width:
            return np.asarray(self.drawn[np.ix_(self.row, words)] @ vector[words])
        return np.array([self.drawn[row] @ vector for row in self.row.tolist()])

    def gathered(self, run: RunTasks = run_in_turn) -> Array:
        """Return an array in the order of the tree."""
        result = np.empty((len(self), self.width))
        size = max(ENTRIES // max(self.width, 1), 1)

        def copy(begin: int) -> None:
            some = slice(begin, begin + size)
            # Without checks of the rows there is no second copy.
            np.take(self.drawn, self.row[some], axis=0, out=result[some], mode="clip")

        run([partial(copy, begin) for begin in range(0, len(self), size)])
        return result

    def taken(self, places: Ints, is_there: NDArray) -> "Directions":
        """Return the directions of another tree, from `places` where they exist."""
        return Directions(self.drawn, np.where(is_there, self.row[places], -1))

    def in_order(self, run: RunTasks = run_in_turn) -> "Directions":
        """Copy directions to a new array, in the order of the tree."""
        return Directions.of(self.gathered(run))

    def products(self, sums: sp.csr_array) -> float:
        """Sum of the inner products with the rows of a sparse array."""
        row = np.repeat(self.row, np.diff(sums.indptr))
        return float(sums.data @ self.drawn[row, sums.indices])

    def _free_row(self) -> int:
        """Return a row of the array that no node uses."""
        is_free = np.ones(len(self.drawn), dtype=bool)
        is_free[self.row[self.row >= 0]] = False
        if not is_free.any():
            n = len(self.drawn)
            more = np.empty((GROWTH, self.width))
            self.drawn = np.concatenate([self.drawn, more])
            return n
        return int(np.argmax(is_free))


# Weights of the nodes of the sampler's infinite tree, of which a few have rows.
#
# Nodes are of two sorts. *Old* ones were there in the epoch before: they come first
# among their siblings, in an order that stands, and their sticks have the priors of Hu
# et al. (2015), see `dependent_trees/sticks.py`. What they leave is for *new* ones,
# whose sticks are Beta(1, gamma): a Dirichlet process of concentration gamma. There is
# no order of the new ones here: given n_c rows at child c or below, weights of those
# that have rows, and of all others together, are Dirichlet(n_1, n_2, .., gamma), and
# the others break their share by sticks again.


def log_prior(
    tree: Tree, masses: Array, history: Array, is_old: Flags, priors: TreePriors
) -> float:
    """Log probability of the nodes of all rows, weights integrated out.

    Of the partition of rows that the tree is: new nodes, each with a row at it or
    below, are not distinguished by their order among siblings.

    `masses` are the rows at each node, and `history` past rows: whole numbers,
    (n_nodes,).
    """
    alpha, gamma = priors.stop_concentration, priors.child_concentration
    now = tree.count(masses)
    past = tree.count(history) if history.any() else history
    both, own = now + past, masses + history
    stop = betaln(1.0 + own, alpha + (both - own))
    if history.any():
        stop -= betaln(1.0 + history, alpha + (past - history))
    else:
        stop -= betaln(1.0, alpha)
    total = stop.sum()
    old, new = is_old.copy(), ~is_old
    old[0] = new[0] = False
    if old.any():
        child = betaln(1.0 + both, gamma + bound.behind(tree, both))
        child -= betaln(1.0 + past, gamma + bound.behind(tree, past))
        total += child[old].sum()
    if new.any():
        parents = np.bincount(tree.parent[new], now[new], len(tree))
        parents = parents[np.bincount(tree.parent[new], minlength=len(tree)) > 0]
        total += new.sum() * np.log(gamma) + gammaln(now[new]).sum()
        total += len(parents) * gammaln(gamma) - gammaln(gamma + parents).sum()
    return float(total)


def _draw_logs(a: Array, b: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Log v and log(1 - v) of draws v from Beta(a, b), a >= 1."""
    one, other = rng.standard_gamma(a), rng.standard_gamma(b)
    with np.errstate(divide="ignore"):
        log_total = np.log(one + other)
        return np.log(one) - log_total, np.log(other) - log_total


#: Entries of the directions that one task computes.
ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of length one of an epoch, none of them zero."""

    X: sp.csr_array  # (n_rows, n_features) float32
    indptr: Ints32
    words: Ints32

    @classmethod
    def of(cls, X: sp.csr_array) -> "Rows":
        """Return the arrays that kernels read of a sparse matrix."""
        X = sp.csr_array(X, dtype=np.float32)
        return cls(X, X.indptr.astype(np.int32), X.indices.astype(np.int32))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def none(self) -> "Rows":
        """Return no rows of the same features."""
        return Rows.of(self.X[:0])

    @property
    def arrays(self) -> tuple[Ints32, Ints32, NDArray[np.float32]]:
        """The arrays that kernels read."""
        return self.indptr, self.words, self.X.data

    def grouped(self, place: Ints32, n_nodes: int) -> tuple[Ints32, Ints32]:
        """Row numbers sorted by node, and the first position of each node."""
        small = place.astype(np.min_scalar_type(n_nodes))  # sorted faster
        order = np.argsort(small, kind="stable").astype(np.int32)
        counts = np.bincount(place, minlength=n_nodes)
        return order, np.append(0, np.cumsum(counts)).astype(np.int32)

    def total(self, rows: NDArray[np.integer]) -> Array:
        """Sum of some rows, (n_features,)."""
        begin, sizes = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        behind = np.cumsum(sizes)
        at = np.repeat(begin - behind + sizes, sizes) + np.arange(sizes.sum())
        n_words = self.X.shape[1]
        return np.asarray(np.bincount(self.words[at], self.X.data[at], n_words))

    def sums(self, place: Ints32, n_nodes: int) -> sp.csr_array:
        """Sum of the rows at each node, (n_nodes, n_features)."""
        return sp.csr_array(members(place, n_nodes) @ self.X.astype(np.float64))


@dataclass(slots=True)
class SlicedTree:
    """Nodes of rows and directions of nodes; arrays go by position in the tree.

    Every new node, which the epoch before did not have, has a row at it or below,
    except the root. Old siblings come before new ones.
    """

    rows: Rows
    priors: TreePriors
    tree: Tree
    place: Ints32  # (n_rows,) position of the node of each row
    directions: Directions  # theta
    history: Array  # (n_nodes,) past rows in the window
    past: Ints  # (n_nodes,) row of `previous`, -1 of new nodes
    previous: Array  # (n_old, n_features) mu of the epoch before
    concentration: float  # beta
    prior_concentration: float  # kappa0
    gone: Array  # (n_nodes,) rows of earlier calls, which stay where they are
    gone_sums: sp.csr_array  # (n_nodes, n_features) of these
    _log_prior: float | None = field(default=None, init=False, repr=False)

    @property
    def dimension(self) -> int:
        """Number of features V."""
        return self.directions.width

    @property
    def is_old(self) -> Flags:
        """Whether nodes were in the epoch before."""
        return self.past >= 0

    @property
    def counts(self) -> Array:
        """Rows of this call at each node."""
        return np.bincount(self.place, minlength=len(self.tree)).astype(np.float64)

    @property
    def masses(self) -> Array:
        """All rows at each node."""
        return self.counts + self.gone

    @property
    def sums(self) -> sp.csr_array:
        """Sum of the rows at each node, (n_nodes, n_features)."""
        here = self.rows.sums(self.place, len(self.tree))
        return sp.csr_array(here + self.gone_sums) if self.gone_sums.nnz else here

    @property
    def pull(self) -> float:
        """kappa0 k1."""
        return self.prior_concentration * self.priors.parent_weight

    @property
    def pull_of_past(self) -> float:
        """kappa0 k2."""
        return self.prior_concentration * self.priors.past_weight

    def has_old_children(self) -> Flags:
        """Whether nodes have children with a past: never integrated out."""
        parents = self.tree.parent[1:][self.is_old[1:]]
        return np.bincount(parents, minlength=len(self.tree)) > 0

    def prior_natural(self, place: int) -> Array:
        """Natural parameter of a node given its parent and its past, (width,)."""
        natural = np.zeros(self.dimension)
        if place:
            natural += self.pull * self.directions[self.tree.parent[place]]
        if self.is_old[place]:
            natural += self.pull_of_past * self.previous[self.past[place]]
        return natural

    def natural_without_rows(self, place: int) -> Array:
        """Natural parameter of a node without its rows of this call, (width,)."""
        return self.prior_natural(place) + self.natural_below(place)

    def natural_below(self, place: int) -> Array:
        """Natural parameter of a node by its children and rows of earlier calls."""
        natural = np.zeros(self.dimension)
        below = np.flatnonzero(self.tree.parent == place)
        if len(below):
            natural += self.pull * self.directions[below].sum(axis=0)
        if self.gone[place] > 0.0:
            self.add_rows(natural, self.gone_sums[[place]].toarray()[0])
        return natural

    def add_rows(self, natural: Array, total: Array) -> None:
        """Add a sum of rows, (n_features,), to a natural parameter, in place."""
        natural += self.concentration * total

    def log_prior(self) -> float:
        """Log probability of the nodes of all rows, see `weights.log_prior`."""
        if self._log_prior is None:
            given = self.tree, self.masses, self.history, self.is_old, self.priors
            self._log_prior = log_prior(*given)
        return self._log_prior

    def log_prior_in(self, tree: Tree, masses: Array) -> float:
        """Log probability in another tree with the same names, of its masses."""
        is_there, source = self.tree.find(tree.ids)
        history = np.where(is_there, self.history[source], 0.0)
        is_old = is_there & self.is_old[source]
        return log_prior(tree, masses, history, is_old, self.priors)

    def edited(
        self, tree: Tree, place: Ints32, directions: Directions | None = None
    ) -> "SlicedTree":
        """Return the state of another tree, whose common nodes have the same ids.

        Nodes have the directions given, or those that they had. New nodes have no past,
        and no direction yet.
        """
        is_there, source = self.tree.find(tree.ids)
        if directions is None:
            directions = self.directions.taken(source, is_there)
        gone_sums = sp.csr_array((len(tree), self.gone_sums.shape[1]))
        if self.gone_sums.nnz:
            stays, onto = tree.find(self.tree.ids)
            pick = members(np.where(stays, onto, -1), len(tree))
            gone_sums = sp.csr_array(pick @ self.gone_sums)
        return replace(
            self,
            tree=tree,
            place=place,
            directions=directions,
            history=np.where(is_there, self.history[source], 0.0),
            past=np.where(is_there, self.past[source], -1),
            gone=np.where(is_there, self.gone[source], 0.0),
            gone_sums=gone_sums,
        )

    def without_empty(self) -> "SlicedTree":
        """Remove new nodes without rows at or below them."""
        through = self.tree.count(self.masses)
        kept = (through > 0.0) | self.tree_of_old()
        kept[0] = True
        if kept.all():
            return self
        places = np.flatnonzero(kept)
        tree = Tree(self.tree.ids[places], self.tree.depth[places], self.tree.next_id)
        onto = np.cumsum(kept) - 1
        return self.edited(tree, onto[self.place].astype(np.int32))

    def draw_log_weights(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw log weights of nodes given the nodes of rows.

        Returns log pi_e, and the log mass at each node of all children that are not in
        the tree, with all below them, (n_nodes,) each.
        """
        tree, own = self.tree, self.masses + self.history
        alpha, gamma = self.priors.stop_concentration, self.priors.child_concentration
        both = tree.count(own)
        log_stay, log_leave = _draw_logs(1.0 + own, alpha + (both - own), rng)
        old, new = self.is_old, ~self.is_old
        old[0] = new[0] = False
        take, skip = np.zeros(len(tree)), np.zeros(len(tree))
        take[old], skip[old] = _draw_logs(
            1.0 + both[old], gamma + bound.behind(tree, both)[old], rng
        )
        into = take + bound.before(tree, skip)
        shares = np.zeros(len(tree))
        shares[new] = rng.standard_gamma(both[new])
        others = rng.standard_gamma(gamma, len(tree))
        total = others + np.bincount(tree.parent[new], shares[new], len(tree))
        parent = tree.parent[1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            has_new = np.bincount(tree.parent[new], minlength=len(tree)) > 0
            share = np.where(has_new, others / total, 1.0)
            log_share = np.log(np.where(new, shares, 1.0))
            into[1:] += np.where(new[1:], log_share[1:] - np.log(total[parent]), 0.0)
            log_rest = np.log(share)
        into[1:] += log_leave[parent]
        into[0] = 0.0
        log_reach = tree.distribute(into)
        left = np.bincount(parent, skip[1:], len(tree))
        return log_reach + log_stay, log_reach + log_leave + left + log_rest

    def break_rest(
        self, log_rest: Array, least: float, limit: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw weights of new children until at most `least` is left, in logs.

        Returns log pi of the first children of each node, (n_nodes, limit), -inf for
        missing ones, and the mass of all others, (n_nodes,): more than `least` if
        `limit` children are not enough.
        """
        log_rest = log_rest.copy()
        result = np.full((len(log_rest), limit), -np.inf)
        for child in range(limit):
            more = np.flatnonzero(log_rest > least)
            ones = np.ones(len(more))
            take, skip = _draw_logs(ones, self.priors.child_concentration * ones, rng)
            stay, _ = _draw_logs(ones, self.priors.stop_concentration * ones, rng)
            result[more, child] = log_rest[more] + take + stay
            log_rest[more] += skip
        return result, log_rest

    def tree_of_old(self) -> Flags:
        """Whether nodes are old, or above old ones."""
        return np.asarray(self.tree.count(self.is_old.astype(np.intp)) > 0)


def blocks_of(nodes: NDArray, width: int, n_entries: int = ENTRIES) -> list[NDArray]:
    """Cut nodes into blocks whose directions one task computes or reads.

    Blocks have equal size and, if there are several, their number is a multiple of
    four, so that two or four threads end together.
    """
    size = max(n_entries // max(width, 1), 1)
    if len(nodes) <= size:
        return [nodes] if len(nodes) else []
    n_blocks = 4 * -(-len(nodes) // (4 * size))
    return [block for block in np.array_split(nodes, n_blocks) if len(block)]


@dataclass(frozen=True, slots=True)
class PastPull:
    """Factors of a direction theta by the pasts m_c of its children, as tangents.

    Factors C_V(rho_c), rho_c^2 = kappa0^2 (k1^2 + k2^2 + 2 k1 k2 theta'm_c), and the
    tangents of their logarithms in theta'm_c, at the mean of theta without them.
    """

    past: Array  # (n_children, width) m_c
    scale: tuple[float, float]  # rho_c^2 = the first + the second theta'm_c
    slopes: Array  # (n_children,)
    dimension: int

    @classmethod
    def of(cls, state: SlicedTree, natural: Array, past: Array) -> "PastPull":
        """Compute tangents, given the natural parameter without these factors."""
        k1, k2 = state.priors.parent_weight, state.priors.past_weight
        square = state.prior_concentration**2
        scale = square * (k1**2 + k2**2), square * 2.0 * k1 * k2
        eta = natural @ natural
        centre = natural * bound.bessel_slope(np.array([eta]), state.dimension)[0]
        squares = np.maximum(scale[0] + scale[1] * (past @ centre), 0.0)
        slopes = -0.5 * scale[1] * bound.bessel_slope(squares, state.dimension)
        return cls(past, scale, slopes, state.dimension)

    @property
    def natural(self) -> Array:
        """Contribution of the tangents to the natural parameter."""
        return np.asarray(self.slopes @ self.past)

    def log_weight(self, theta: Array) -> float:
        """Log of the factors less their tangents, up to a constant."""
        cosines = self.past @ theta
        squares = np.maximum(self.scale[0] + self.scale[1] * cosines, 0.0)
        exact = bound.log_normaliser_gain(squares, self.dimension)
        return float((exact - self.slopes * cosines).sum())


def accept_direction(
    state: SlicedTree,
    natural: Array,
    past: Array,
    now: Array,
    rng: np.random.Generator,
) -> Array:
    """Propose a direction whose children have a past, and accept it or not; exact.

    The proposal replaces factors that are not exponential by tangents, and does not
    depend on the present direction. A probable direction is nearly always replaced, one
    at the mode never: that has to be drawn first, `draw_all`.
    """
    pull = PastPull.of(state, natural, past)
    other = draw_natural(natural + pull.natural, rng)
    gain = pull.log_weight(other) - pull.log_weight(now)
    return other if np.log(rng.random()) < gain else now


def draw_all(state: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Draw all directions one after another, given mean directions: an inexact start.

    Tangents replace factors that are not exponential, and all draws are accepted.
    """
    directions = Directions.of(state.directions.gathered())
    state, sums = replace(state, directions=directions), state.sums
    for at in [*range(len(state.tree)), *range(len(state.tree) - 1, -1, -1)]:
        natural = state.prior_natural(at)
        state.add_rows(natural, sums[[at]].toarray()[0])
        below = np.flatnonzero(state.tree.parent == at)
        if len(below):
            natural += state.pull * state.directions[below].sum(axis=0)
        old = state.past[below][state.is_old[below]]
        if len(old):
            natural += PastPull.of(state, natural, state.previous[old]).natural
        state.directions[at] = draw_natural(natural, rng)
    return state


# Log joint probability of dependent trees: rows and their nodes, by subtree.
#
# Weights are integrated out exactly, and directions from the leaves up: given its
# parent, the direction of a node is integrated out in closed form, with the log factors
# of its children replaced by their tangents at the drawn direction. They bend so little
# over the plausible directions that the error is below one nat for each node. Densities
# are with respect to the uniform one.


#: Nodes of the subtrees of one task, about.
NODES_PER_TASK = 64


class LogJoint:
    """Log joint probability of rows and nodes, nats per row, as parallel tasks.

    `sums` are those of the rows at each node, (n_nodes, n_features).
    """

    def __init__(self, state: SlicedTree, sums: sp.csr_array):
        """Prepare the sums over subtrees of a state."""
        self._state, self._sums = state, sums
        self._parts = _subtrees(state.tree)
        self._log_integrals = np.zeros(len(self._parts))
        self._slopes = np.zeros((len(self._parts), state.dimension))

    def tasks(self) -> Sequence[Callable[[], object]]:
        """List tasks: groups of subtrees below the root, and the nodes of rows."""
        parts = [partial(self._add_up, part) for part in range(len(self._parts))]
        return [self._state.log_prior, *parts]  # which is kept

    def _add_up(self, part: int) -> None:
        """Sum the terms of one group of subtrees."""
        begin, end = self._parts[part]
        n_levels = int(self._state.tree.depth[begin:end].max()) + 1
        below = np.zeros((n_levels + 1, self._state.dimension))
        self._log_integrals[part] = self._integrate_out(begin, end, below)
        self._slopes[part] = below[1]

    def value(self) -> float:
        """Return the log joint, nats per row, once all tasks have run."""
        state = self._state
        below = np.stack([np.zeros(state.dimension), self._slopes.sum(axis=0)])
        total = self._log_integrals.sum() + self._integrate_out(0, 1, below)
        n_rows = float(state.masses.sum())
        rows = bound.log_normaliser_gain(state.concentration**2, state.dimension)
        total += n_rows * float(rows) + state.log_prior()
        return float(total) / max(n_rows, 1.0)

    def _integrate_out(self, begin: int, end: int, below: Array) -> float:
        state, sums = self._state, self._sums
        return integrate_out(
            begin,
            end,
            state.tree.depth,
            state.tree.parent,
            state.directions.drawn,
            state.directions.row,
            state.previous,
            state.past,
            *kernel_arrays(sums),
            state.concentration,
            state.pull,
            state.pull_of_past,
            below,
            expansion(state.dimension),
        )


def log_joint_of(state: SlicedTree) -> float:
    """Log probability of rows and their nodes, in nats per row."""
    joint = LogJoint(state, state.sums)
    for task in joint.tasks():
        task()
    return joint.value()


def _subtrees(tree: Tree) -> list[tuple[int, int]]:
    """Limits of groups of subtrees below the root."""
    begins = np.append(np.flatnonzero(tree.depth == 1), len(tree))
    part = (begins - 1) // NODES_PER_TASK
    limits = begins[np.flatnonzero(np.diff(part, prepend=-1))]
    if limits[-1] < len(tree):
        limits = np.append(limits, len(tree))
    return list(pairwise(limits.tolist()))


# Samples of the sampler of dependent trees, which prediction reads as a fitted epoch.
#
# Given the nodes of all rows, directions have the posterior of the variational model,
# whose statistics are counts. So samples and variational fits predict by the same
# equations, and differ in the trees alone.


#: Updates of the posterior of directions, each down the tree and up again.
N_UPDATES = 3


@dataclass(frozen=True, slots=True)
class TreeSample:
    """Tree, rows and directions of a sample; siblings by decreasing rows."""

    epoch: ClosedEpoch
    log_joint: Log  # nats per row
    chain: Steps
    step: Steps  # sweeps made
    past_weight: float

    @property
    def label(self) -> Label:
        """Label of the epoch."""
        return self.epoch.label

    @property
    def component_ids(self) -> Ints:
        """Ids of the nodes."""
        return self.epoch.state.tree.ids

    @property
    def masses(self) -> Array:
        """Rows at each node, (n_nodes,)."""
        return self.epoch.state.masses


def with_sorted_siblings(state: SlicedTree) -> SlicedTree:
    """Return the state with siblings by decreasing rows, old ones before new."""
    through = state.tree.accumulate(state.masses + state.history)
    tree = state.tree.sort_siblings(-through)
    place = tree.positions(state.tree.ids)[state.place].astype(np.int32)
    return state.edited(tree, place)


def variational_state_of(
    sampler_state: SlicedTree, run: RunTasks = run_in_turn
) -> EpochState:
    """Return the variational posterior of directions given the nodes of rows.

    It is updated a few times from the directions that are drawn.
    """
    width, masses = sampler_state.dimension, sampler_state.masses
    directions, none = sampler_state.directions.gathered(run), np.zeros(len(masses))
    state = EpochState(
        sampler_state.tree,
        masses,
        sampler_state.history,
        directions,
        none.copy(),  # follows
        sampler_state.previous,
        sampler_state.past,
        np.zeros(width),
        np.zeros(width),
        sampler_state.concentration,
        sampler_state.prior_concentration,
    )
    stats = EpochStats(masses, sampler_state.sums, none)
    for _ in range(N_UPDATES):
        state = update_own_means(state, stats, sampler_state.priors, run)
    return state.without_past()
