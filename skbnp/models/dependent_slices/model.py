"""An epoch of dependent trees whose rows are at one node each.

With the symbols of `dependent_trees/bound.py`, given the nodes z of all rows and the
directions theta of all nodes but e, and of no child of e with a past,

    theta_e ~ vMF of natural parameter
    g_e = beta s_e + kappa0 (k1 theta_parent + k2 mu_e^(t-1) + k1 sum_children theta_c),

whose normaliser tells how probable rows are at e, theta_e integrated out. So a sweep
goes through `Phase`s: directions of the nodes of even depth are given while rows go
from node to node, those of odd depth being integrated out, and are drawn when these
are. Nothing else moves rows when there are thousands of features: the direction of a
node is so near to its rows that each is hundreds of nats better off where it is.

The density of theta_e has factors C_V(rho_c(theta_e)) where children c have a past.
Such nodes are never integrated out; they are drawn by an independent proposal, in which
the logarithms of these factors are replaced by tangents, and are accepted or not.

A phase has slices u_n < pi_zn of weights that are drawn; given them rows may go to all
nodes with pi_e > u_n, of which there are a few, those included that have no rows yet.
In a phase rows may open children of nodes whose directions are given and stay as they
are to its end. These last must not end as long: see `Phase._share_out`.

Nodes are shared out at random between groups, and rows go to nodes of their group
alone. So groups are independent of each other, and run side by side.
"""

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.distributions.von_mises_fisher import (
    draw_in_place,
    draw_natural,
    expansion,
)
from skbnp.kernels._tree_rows import (
    fill_parameters,
    move_rows,
)
from skbnp.models.dependent_slices.directions import Directions
from skbnp.models.dependent_slices.weights import (
    break_rest,
    draw_log_weights,
    log_prior,
)
from skbnp.models.dependent_trees.directions import bessel_slope, log_normaliser_gain
from skbnp.models.dependent_trees.state import TreePriors, padded
from skbnp.trees import Tree

__all__ = ["Phase", "Rows", "SlicedTree", "blocks_of", "draw_all"]

Array = NDArray[np.float64]
Places = NDArray[np.int32]
Streams = Callable[..., np.random.Generator]

#: New children of a node that rows may open in one phase.
MOST_OPENED = 8
#: Nodes of a group, about.
NODES_PER_GROUP = 12
#: Groups whose rows one task moves.
GROUPS_PER_TASK = 6
#: Entries of the directions that one task computes.
ENTRIES = 1 << 20
#: Rows for directions beyond those of candidates: nodes that split need some.
SPARE = 32


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of length one of an epoch, none of them zero."""

    X: sp.csr_array  # (n_rows, n_seen) float32
    indptr: Places
    words: Places

    @classmethod
    def of(cls, X: sp.csr_array) -> "Rows":
        """Take what kernels read of a sparse array."""
        X = sp.csr_array(X, dtype=np.float32)
        return cls(X, X.indptr.astype(np.int32), X.indices.astype(np.int32))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def none(self) -> "Rows":
        """Return no rows of the same features."""
        return Rows.of(self.X[:0])

    @property
    def arrays(self) -> tuple[Places, Places, NDArray[np.float32]]:
        """What kernels take."""
        return self.indptr, self.words, self.X.data

    def grouped(self, place: Places, n_nodes: int) -> tuple[Places, Places]:
        """Rows node by node, and where each node begins among them."""
        small = place.astype(np.min_scalar_type(n_nodes))  # sorted faster
        order = np.argsort(small, kind="stable").astype(np.int32)
        counts = np.bincount(place, minlength=n_nodes)
        return order, np.append(0, np.cumsum(counts)).astype(np.int32)

    def total(self, rows: NDArray[np.integer]) -> Array:
        """Sum of some rows, (n_seen,)."""
        begin, sizes = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        behind = np.cumsum(sizes)
        at = np.repeat(begin - behind + sizes, sizes) + np.arange(sizes.sum())
        n_words = self.X.shape[1]
        return np.asarray(np.bincount(self.words[at], self.X.data[at], n_words))

    def sums(self, place: Places, n_nodes: int) -> sp.csr_array:
        """Sum of the rows at each node, (n_nodes, n_seen)."""
        ones = np.ones(len(place))
        shape = (n_nodes, len(place))
        spread = sp.csr_array((ones, (place, np.arange(len(place)))), shape=shape)
        return sp.csr_array(spread @ self.X.astype(np.float64))


@dataclass(slots=True)
class SlicedTree:
    """Where rows are and how directions are drawn; arrays go by position in the tree.

    Every new node, one that was not there in the epoch before, has a row at it or
    below, the root aside. Old siblings stand before new ones.
    """

    rows: Rows
    priors: TreePriors
    tree: Tree
    place: Places  # (n_rows,) position of the node of each row
    directions: Directions  # theta
    history: Array  # (n_nodes,) past rows in the window
    past: NDArray[np.intp]  # (n_nodes,) row of `previous`, -1 of new nodes
    previous: Array  # (n_old, n_seen) mu of the epoch before
    concentration: float  # beta
    prior_concentration: float  # kappa0
    gone: (
        Array  # (n_nodes,) rows that are not at hand any more, and stay where they are
    )
    gone_sums: sp.csr_array  # (n_nodes, n_seen) of these
    _log_prior: float | None = field(default=None, init=False, repr=False)
    _wide_previous: Array | None = field(default=None, init=False, repr=False)

    @property
    def dimension(self) -> int:
        """V."""
        return self.directions.dimension

    @property
    def width(self) -> int:
        """Columns of directions and of natural parameters."""
        return self.directions.width

    @property
    def wide_previous(self) -> Array:
        """Previous directions by the columns of directions, (n_old, width)."""
        result = self._wide_previous
        if result is None or result.shape[1] != self.width:
            result = self._wide_previous = padded(self.previous, self.width)
        return result

    @property
    def is_old(self) -> NDArray[np.bool_]:
        """Whether nodes were there in the epoch before."""
        return self.past >= 0

    @property
    def counts(self) -> Array:
        """Rows at hand at each node."""
        return np.bincount(self.place, minlength=len(self.tree)).astype(np.float64)

    @property
    def masses(self) -> Array:
        """Rows at each node."""
        return self.counts + self.gone

    @property
    def sums(self) -> sp.csr_array:
        """Sum of the rows at each node, (n_nodes, n_seen)."""
        here = self.rows.sums(self.place, len(self.tree))
        return sp.csr_array(here + self.gone_sums) if self.gone_sums.nnz else here

    @property
    def pull(self) -> float:
        """Kappa0 k1."""
        return self.prior_concentration * self.priors.parent_weight

    @property
    def pull_of_past(self) -> float:
        """Kappa0 k2."""
        return self.prior_concentration * self.priors.past_weight

    def has_old_children(self) -> NDArray[np.bool_]:
        """Whether nodes have children with a past: never integrated out."""
        parents = self.tree.parent[1:][self.is_old[1:]]
        return np.bincount(parents, minlength=len(self.tree)) > 0

    def prior_natural(self, place: int) -> Array:
        """Natural parameter of the prior of a node, given its parent, (width,)."""
        natural = np.zeros(self.width)
        if place:
            natural += self.pull * self.directions[self.tree.parent[place]]
        if self.is_old[place]:
            natural += self.pull_of_past * self.wide_previous[self.past[place]]
        return natural

    def natural_without_rows(self, place: int) -> Array:
        """Natural parameter of a node without its rows at hand, (width,)."""
        return self.prior_natural(place) + self.natural_below(place)

    def natural_below(self, place: int) -> Array:
        """What children of a node and rows that are gone say in its direction."""
        natural = np.zeros(self.width)
        below = np.flatnonzero(self.tree.parent == place)
        if len(below):
            natural += self.pull * self.directions[below].sum(axis=0)
        if self.gone[place] > 0.0:
            self.add_rows(natural, self.gone_sums[[place]].toarray()[0])
        return natural

    def add_rows(self, natural: Array, total: Array) -> None:
        """Add what a sum of rows, (n_seen,), says to a natural parameter, in place."""
        natural[: len(total)] += self.concentration * total

    def log_prior(self) -> float:
        """Log probability of the nodes of all rows, see `weights.log_prior`."""
        if self._log_prior is None:
            given = self.tree, self.masses, self.history, self.is_old, self.priors
            self._log_prior = log_prior(*given)
        return self._log_prior

    def log_prior_in(self, tree: Tree, masses: Array) -> float:
        """Log probability in another tree with the same names, of its masses."""
        is_there, source = self._sources(tree)
        history = np.where(is_there, self.history[source], 0.0)
        is_old = is_there & self.is_old[source]
        return log_prior(tree, masses, history, is_old, self.priors)

    def _sources(self, tree: Tree) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Tell which nodes of another tree are in this one, and where."""
        return self.tree.find(tree.ids)

    def edited(
        self, tree: Tree, place: Places, directions: Directions | None = None
    ) -> "SlicedTree":
        """Return that of another tree, with the same names of nodes.

        All have the directions given, or those that they had. New nodes have no past,
        and no direction yet.
        """
        is_there, source = self._sources(tree)
        if directions is None:
            directions = self.directions.taken(source, is_there)
        gone_sums = sp.csr_array((len(tree), self.gone_sums.shape[1]))
        if self.gone_sums.nnz:
            onto = np.flatnonzero(is_there)
            pick = sp.csr_array(
                (np.ones(len(onto)), (onto, source[onto])),
                shape=(len(tree), len(self.tree)),
            )
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
        """Leave out new nodes without rows at them or below."""
        through = self.tree.count(self.masses)
        kept = (through > 0.0) | self.tree_of_old()
        kept[0] = True
        if kept.all():
            return self
        places = np.flatnonzero(kept)
        tree = Tree(self.tree.ids[places], self.tree.depth[places], self.tree.next_id)
        onto = np.cumsum(kept) - 1
        return self.edited(tree, onto[self.place].astype(np.int32))

    def tree_of_old(self) -> NDArray[np.bool_]:
        """Nodes that are old, or above old ones."""
        return np.asarray(self.tree.count(self.is_old.astype(np.intp)) > 0)


class Phase:
    """Rows go from node to node, directions of every second level integrated out.

    *Candidates* are the nodes of the tree, by position, and behind them children that
    rows may open.

    Parameters
    ----------
    world : SlicedTree
    parity : {0, 1}
        Of the depth of the nodes whose directions are integrated out, if no child has a
        past.
    streams : callable
        Returns a generator for each name, some integers.
    memory : ndarray of shape (n_rows, width), optional
        For the directions of candidates, if it has a row of each.
    """

    def __init__(
        self,
        state: SlicedTree,
        parity: int,
        streams: Streams,
        memory: Array | None = None,
    ):
        self.sampler_state, self.streams, self.parity = state, streams, parity
        tree, n_nodes = state.tree, len(state.tree)
        rng = streams(0)
        is_free = (tree.depth % 2 == parity) & ~state.has_old_children()
        masses = state.masses
        log_weights, log_rest = draw_log_weights(
            tree, masses, state.history, state.is_old, state.priors, rng
        )
        with np.errstate(divide="ignore"):
            slices = np.log(rng.random(len(state.rows)))
        self.log_slices = log_weights[state.place] + slices
        # A direction that is proposed anew in this phase has no new children here.
        self._open(tree.depth % 2 != parity, log_weights, log_rest, rng)
        self.is_free = np.append(is_free, np.ones(len(self.above), dtype=bool))
        self.is_drawn = (~self.is_free).view(np.uint8)
        self.parent = np.append(tree.parent, self.above).astype(np.int32)
        n = len(self.is_free)
        self._n_drawn = int((tree.depth % 2 == parity).sum()) + len(self.above)
        directions, n_given = state.directions, int((~is_free).sum())
        width = directions.n_seen + directions.n_axes_for(self._n_drawn, n_given)
        if memory is None or len(memory) < n or memory.shape[1] != width:
            memory = _small_pages(2 * n + SPARE, width)
        self.memory, self.table = memory, memory[:n]
        self.place = state.place.copy()
        self.n_nodes, self.n_used = n_nodes, directions.n_used
        self._share_out(rng)
        self.queues = self._queues()
        order, limits = state.rows.grouped(state.place, n_nodes)
        self.order, self.limits = order, limits
        # Rows of the table: opened nodes get one with their first row.
        self.source = np.append(np.arange(n_nodes), self.above).astype(np.int32)
        self.squares = np.full(n, state.pull**2)
        self.own = np.full(n, log_normaliser_gain(self.squares[:1], state.dimension))

    def _open(self, given: NDArray, log_weights: Array, log_rest: Array, rng) -> None:
        """Break weights of new children of nodes whose directions stay as they are.

        Rows whose slice may be below the weight of some that is not broken off stay.
        """
        least = float(self.log_slices.min(initial=np.inf))
        places = np.flatnonzero(given & (log_rest > least))
        result, left = break_rest(
            log_rest[places], self.sampler_state.priors, least, MOST_OPENED, rng
        )
        seen = result > least  # no row may be at the others
        self.above = places[np.nonzero(seen)[0]].astype(np.int32)
        self.log_weights = np.append(log_weights, result[seen])
        self.stays = self.log_slices < left.max(initial=-np.inf)

    def _share_out(self, rng: np.random.Generator) -> None:
        """Share candidates out between groups.

        A node whose direction is given may not end in the phase. If no node below is
        certain to stay, its own row or a row at one of its children in its own group
        must: these are a *set* with a number in `keeper`. Where the set has no row, no
        row leaves or enters the node and its children.
        """
        state, n = self.sampler_state, len(self.is_free)
        n_groups = max(n // NODES_PER_GROUP, 1)
        self.group = (rng.permutation(n) % n_groups).astype(np.int32)
        tree, given = state.tree, ~self.is_free
        stays = np.zeros(self.n_nodes, dtype=bool)
        stays[given[: self.n_nodes]] = True
        below = tree.count(stays.astype(np.intp)) - stays
        lives_anyhow = (below > 0) | state.tree_of_old()
        lives_anyhow |= tree.count(state.gone) > 0.0
        lives_anyhow[0] = True
        last = given[: self.n_nodes] & ~lives_anyhow
        family = np.where(given, np.arange(n), self.parent)
        family[0] = 0
        in_set = last[family] & (self.group == self.group[family])
        self.keeper = np.where(in_set, family, -1).astype(np.int32)
        counts = np.bincount(self.place, minlength=n)
        self.kept = np.bincount(family[in_set], counts[in_set], n).astype(np.int32)
        shut = last[family] & (self.kept[family] == 0)
        self.is_open = ~shut
        members = np.flatnonzero(self.is_open).astype(np.int32)
        members = members[np.argsort(self.group[members], kind="stable")]
        limits = np.searchsorted(self.group[members], np.arange(n_groups + 1))
        self.members = members, limits.astype(np.int32)

    def _queues(self) -> list[Places]:
        """List the rows that each task moves, and that may leave their nodes."""
        n_tasks = len(self.groups())
        task = (self.group // GROUPS_PER_TASK).astype(np.min_scalar_type(n_tasks))
        task[~self.is_open] = n_tasks
        of_rows = task[self.place]
        of_rows[self.stays] = n_tasks
        order = np.argsort(of_rows, kind="stable").astype(np.int32)
        return np.split(order, np.cumsum(np.bincount(of_rows, minlength=n_tasks)))

    # -- directions and natural parameters, some nodes at a time -----------------------

    def blocks(self) -> list[Places]:
        """Nodes of the tree by task: few, as those on new pages take longer."""
        state = self.sampler_state
        if state.directions.n_unseen:
            given = ~self.is_free[: self.n_nodes]
            directions = state.directions.with_axes_for(self._n_drawn, given)
            self.sampler_state = replace(state, directions=directions)
        nodes = np.arange(self.n_nodes, dtype=np.int32)
        return blocks_of(nodes, self.sampler_state.width, ENTRIES // 4)

    def blocks_to_draw(self) -> list[Places]:
        """Nodes whose directions are drawn, opened ones with rows too, by task."""
        mine = np.flatnonzero(self.sampler_state.tree.depth % 2 == self.parity)
        opened = np.unique(self.place[self.place >= self.n_nodes])
        nodes = np.append(mine, opened).astype(np.int32)
        directions = self.sampler_state.directions
        n_known = directions.n_used + np.arange(len(nodes))
        self.n_known = np.zeros(len(self.is_free), dtype=np.intp)
        self.n_known[nodes] = directions.n_seen + np.minimum(n_known, directions.n_axes)
        self.n_used = min(directions.n_used + len(nodes), directions.n_axes)
        return blocks_of(nodes, self.sampler_state.width)

    def fill(self, nodes: NDArray[np.int32]) -> None:
        """Compute natural parameters of nodes; those given have their directions."""
        state, tree = self.sampler_state, self.sampler_state.tree
        children, limits_below = tree.child_lists
        gone, (indptr, words, values) = state.gone_sums, state.rows.arrays
        fill_parameters(
            nodes,
            self.is_drawn,
            state.directions.drawn,
            state.directions.row,
            tree.parent,
            children,
            limits_below,
            state.wide_previous,
            state.past,
            gone.indptr.astype(np.int32, copy=False),
            gone.indices.astype(np.int32, copy=False),
            gone.data,
            indptr,
            words,
            values,
            self.order,
            self.limits,
            state.concentration,
            state.pull,
            state.pull_of_past,
            self.table,
            self.squares,
            self.own,
            *expansion(state.dimension),
        )

    def groups(self) -> list[NDArray[np.int32]]:
        """Groups of candidates by task."""
        numbers = np.arange(self.group.max() + 1, dtype=np.int32)
        return [
            numbers[begin : begin + GROUPS_PER_TASK]
            for begin in range(0, len(numbers), GROUPS_PER_TASK)
        ]

    def sweep(self, number: int, groups: NDArray[np.int32]) -> int:
        """Let rows of some groups go from node to node; returns how many moved."""
        rng = self.streams(1, number)
        queue = rng.permutation(self.queues[number])
        state, (members, limits) = self.sampler_state, self.members
        return move_rows(
            *state.rows.arrays,
            queue,
            self.log_slices,
            self.place,
            self.group,
            members,
            limits,
            self.log_weights,
            self.is_drawn,
            self.keeper,
            self.kept,
            self.source,
            self.n_nodes,
            self._first_row(int(groups[0])),
            state.pull,
            self.table,
            self.squares,
            self.own,
            state.concentration,
            np.empty(int(np.diff(limits).max())),
            *expansion(state.dimension),
            rng.bit_generator,
        )

    def _first_row(self, group: int) -> int:
        """Row of the table that opened nodes of a group and of those behind it have.

        The first ones, as they get rows: so few pages are touched.
        """
        return self.n_nodes + int((self.group[self.n_nodes :] < group).sum())

    def draw_directions(self, number: int, nodes: NDArray[np.int32]) -> None:
        """Draw directions that were integrated out, in the place of their parameters.

        Those of the same levels that never are, by a proposal.
        """
        rng = self.streams(2, number)
        free = nodes[self.is_free[nodes]]
        lengths = np.sqrt(np.maximum(self.squares[free], 0.0))
        rows = self.source[free].astype(np.intp)
        if self.sampler_state.directions.n_unseen:
            unseen = self.sampler_state.dimension, self.n_known[free]
            draw_in_place(self.table, rows, lengths, rng, *unseen)
        else:
            draw_in_place(self.table, rows, lengths, rng)
        for at in nodes[~self.is_free[nodes]].tolist():
            self.table[at] = self._propose_direction(at, rng)

    def _propose_direction(self, at: int, rng: np.random.Generator) -> Array:
        """Draw a direction whose children have a past, given those of other levels."""
        state = self.sampler_state
        natural = state.natural_without_rows(at)
        mine = np.flatnonzero(self.place == at)
        state.add_rows(natural, state.rows.total(mine))
        below = np.flatnonzero(state.tree.parent == at)
        past = state.wide_previous[state.past[below[state.is_old[below]]]]
        given = state, natural, past, state.directions[at], rng
        if state.directions.n_unseen == 0:
            return accept_direction(*given)
        return accept_direction(*given, state.dimension, int(self.n_known[at]))

    def close(self, next_id: int) -> SlicedTree:
        """Return the tree with opened nodes, without those that are empty."""
        state, counts = (
            self.sampler_state,
            np.bincount(self.place, minlength=len(self.is_free)),
        )
        opened = self.n_nodes + np.flatnonzero(counts[self.n_nodes :])
        first_id = max(next_id, state.tree.next_id)
        names = np.append(state.tree.ids, first_id + np.arange(len(opened)))
        parents = np.append(state.tree.parent, self.parent[opened])
        tree = Tree.from_parents(parents, names, first_id + len(opened))
        kept = np.concatenate([np.arange(self.n_nodes), opened])
        by_name = np.argsort(names)
        source = kept[by_name[np.searchsorted(names[by_name], tree.ids)]]
        masses = counts[source] + np.append(state.gone, np.zeros(len(counts)))[source]
        is_old = np.append(state.is_old, np.zeros(len(counts), dtype=bool))[source]
        stays = tree.count(masses + is_old) > 0.0
        stays[0] = True
        left = np.flatnonzero(stays)
        source = source[left]
        tree = Tree(tree.ids[left], tree.depth[left], tree.next_id)
        onto = np.zeros(len(self.is_free), dtype=np.int32)
        onto[source] = np.arange(len(source))
        row = self.source[source].astype(np.intp)
        directions = state.directions.placed(self.memory, row)
        directions.n_used = self.n_used
        return state.edited(tree, onto[self.place], directions)


def blocks_of(nodes: NDArray, width: int, n_entries: int = ENTRIES) -> list[NDArray]:
    """Cut nodes into those whose directions one task computes, or reads.

    Blocks are alike and, if there is not one alone, a multiple of four: two threads, or
    four, end together.
    """
    size = max(n_entries // max(width, 1), 1)
    if len(nodes) <= size:
        return [nodes] if len(nodes) else []
    n_blocks = 4 * -(-len(nodes) // (4 * size))
    return [block for block in np.array_split(nodes, n_blocks) if len(block)]


def _small_pages(n_rows: int, width: int) -> Array:
    """Return an array of which only rows that are written to take time and memory.

    That of `np.empty` has pages of 2 MB, each of which is cleared for a single row.
    """
    return np.frombuffer(mmap.mmap(-1, 8 * n_rows * width)).reshape(n_rows, -1)


@dataclass(frozen=True, slots=True)
class PastPull:
    """What previous directions m_c of the children of a node do to its own, theta.

    Factors C_V(rho_c), rho_c^2 = kappa0^2 (k1^2 + k2^2 + 2 k1 k2 theta'm_c), and the
    tangents of their logarithms in theta'm_c, at the mean of theta without them.
    """

    past: Array  # (n_children, width) m_c
    scale: tuple[float, float]  # rho_c^2 = the first + the second theta'm_c
    slopes: Array  # (n_children,)
    dimension: int

    @classmethod
    def of(cls, state: SlicedTree, natural: Array, past: Array) -> "PastPull":
        """Lay tangents, given the natural parameter without these factors."""
        k1, k2 = state.priors.parent_weight, state.priors.past_weight
        square = state.prior_concentration**2
        scale = square * (k1**2 + k2**2), square * 2.0 * k1 * k2
        eta = natural @ natural
        centre = natural * bessel_slope(np.array([eta]), state.dimension)[0]
        squares = np.maximum(scale[0] + scale[1] * (past @ centre), 0.0)
        slopes = -0.5 * scale[1] * bessel_slope(squares, state.dimension)
        return cls(past, scale, slopes, state.dimension)

    @property
    def natural(self) -> Array:
        """What the tangents add to the natural parameter."""
        return np.asarray(self.slopes @ self.past)

    def log_weight(self, theta: Array) -> float:
        """Log of the factors less their tangents, but for a constant."""
        cosines = self.past @ theta
        squares = np.maximum(self.scale[0] + self.scale[1] * cosines, 0.0)
        exact = log_normaliser_gain(squares, self.dimension)
        return float((exact - self.slopes * cosines).sum())


def accept_direction(
    state: SlicedTree,
    natural: Array,
    past: Array,
    now: Array,
    rng: np.random.Generator,
    *unseen: int,
) -> Array:
    """Propose a direction whose children have a past, and accept it or not; exact.

    The proposal has tangents in the place of what is no exponential, and does not
    depend on the present direction. Of a direction that is likely it is accepted nearly
    always, of one at the mode never: that has to be drawn first, `draw_all`. What
    `draw_natural` knows of `unseen` columns follows.
    """
    pull = PastPull.of(state, natural, past)
    other = draw_natural(natural + pull.natural, rng, *unseen)
    gain = pull.log_weight(other) - pull.log_weight(now)
    return other if np.log(rng.random()) < gain else now


def draw_all(state: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Draw all directions one after the other, given mean directions; not exact.

    Tangents stand for what is no exponential, and all draws are taken: a start.
    """
    directions = state.directions.with_axes_for(2 * len(state.tree))
    state, sums = replace(state, directions=directions), state.sums
    for at in [*range(len(state.tree)), *range(len(state.tree) - 1, -1, -1)]:
        natural = state.prior_natural(at)
        state.add_rows(natural, sums[[at]].toarray()[0])
        below = np.flatnonzero(state.tree.parent == at)
        if len(below):
            natural += state.pull * state.directions[below].sum(axis=0)
        old = state.past[below][state.is_old[below]]
        if len(old):
            natural += PastPull.of(state, natural, state.wide_previous[old]).natural
        state.directions[at] = draw_natural(natural, rng, *directions.next_axis())
    return state
