"""Gibbs chain of dependent trees: the steps of one sweep, epoch by epoch."""

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.distributions import draw_in_place, expansion, inverse_bessel_ratio
from skbnp.inference import chains
from skbnp.inference.chains import Chain
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.inference.posterior import Lineage
from skbnp.kernels._tree_directions import prior_products
from skbnp.kernels._tree_rows import fill_parameters, move_rows
from skbnp.models.dependent_slices import model
from skbnp.models.dependent_slices.model import Directions, Rows, SlicedTree
from skbnp.models.dependent_slices.moves import attach_some, propose_split_or_merge
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees import updates
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.local import NodeTable, update_local
from skbnp.models.dependent_trees.state import EpochState, TreePriors
from skbnp.trees import Tree
from skbnp.utils.arrays import kernel_arrays
from skbnp.utils.labels import Label
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import Amount, LeastAmount, Sized
from skbnp.utils.typing import Array, Ints, Ints32

# State of a Gibbs chain of dependent trees between two sweeps, and its settings.


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Settings of a chain: priors, and which of them are learned."""

    priors: TreePriors
    learns_concentration: bool
    learns_prior_concentration: bool
    learns_past_weight: bool
    window: int
    n_proposals: int  # of splits or merges in a sweep, and as many of parents
    sweeps: int  # of an epoch but the last


@dataclass(frozen=True, slots=True)
class EpochRows:
    """Rows of an epoch that have a direction."""

    label: Label
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStart(chains.ChainStart):
    """Start of a chain: an epoch whose rows are at nodes."""

    state: EpochState
    place: Ints32  # (n_rows,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChainState(chains.ChainState):
    """State of a chain between two sweeps; arrays as in `SlicedTree`.

    `begin` is the number of sweeps before the open epoch.
    """

    number_of_epoch: int
    tree: Tree
    place: Annotated[Ints32, Sized("n_rows")]
    directions: Directions
    history: Annotated[Array, Sized("n_nodes", least=0)]
    past: Annotated[Ints, Sized("n_nodes", least=-1)]
    previous: Annotated[Array, Sized("n_before", "n_features")]
    concentration: LeastAmount
    prior_concentration: LeastAmount
    past_weight: Amount
    sums: Annotated[sp.csr_array, Sized("n_nodes", "n_features")]  # of all rows
    gone: Annotated[Array, Sized("n_nodes", least=0)]
    gone_sums: Annotated[sp.csr_array, Sized("n_nodes", "n_features")]
    closed: tuple[ClosedEpoch, ...]

    def without_rows(self) -> "TreeChainState":
        """Fix the nodes of all rows, and go on with none of them."""
        masses = self.gone + np.bincount(self.place, minlength=len(self.tree))
        return replace(
            self,
            begin=self.step,
            number_of_epoch=0,
            place=np.zeros(0, dtype=np.int32),
            gone=masses,
            gone_sums=self.sums,
        )


def fields_of(state: SlicedTree, sums: sp.csr_array) -> dict[str, Any]:
    """Fields of a state that record the nodes of rows."""
    weight = state.priors.past_weight
    return shared_fields(state) | {"past_weight": weight, "sums": sums}


def shared_fields(state: SlicedTree | TreeChainState) -> dict[str, Any]:
    """Fields that the state of a sampler and that of its chain have both."""
    names = [item.name for item in fields(SlicedTree) if item.init]
    return {name: getattr(state, name) for name in names[2:]}  # rows and priors aside


def check_places(state: TreeChainState, epochs: Sequence[EpochRows]) -> None:
    """Raise ValueError if saved nodes of rows do not fit these epochs."""
    number, place, tree = state.number_of_epoch, state.place, state.tree
    is_sound = (
        isinstance(number, int)
        and 0 <= number < len(epochs)
        and isinstance(place, np.ndarray)
        and (place.dtype, place.shape) == (np.int32, (len(epochs[number].rows),))
        and (len(place) == 0 or (place.min() >= 0 and place.max() < len(tree)))
    )
    if is_sound:
        masses = np.bincount(place, minlength=len(tree))
        has_rows = tree.accumulate(masses + state.gone) > 0
        has_rows |= tree.accumulate((state.past >= 0).astype(int)) > 0
        is_sound = bool(has_rows[1:].all())
    if not is_sound:
        raise ValueError("The saved nodes of the rows of a chain are damaged.")


# Phase of a sweep of dependent trees: rows move, every second level integrated out.
#
# A phase has slices u_n < pi_zn of weights that are drawn; given them rows may go to
# all nodes with pi_e > u_n, which are few, also nodes that have no rows yet. In a phase
# rows may open children of nodes whose directions are given and fixed to its end. These
# nodes must not end in the phase: see `Phase._share_out`.
#
# Nodes are assigned at random to groups, and rows move within their group alone. So
# groups are independent of each other, and run in parallel.


Streams = Callable[..., np.random.Generator]

#: New children of a node that rows may open in one phase.
MOST_OPENED = 8
#: Nodes of a group, about.
NODES_PER_GROUP = 12
#: Groups whose rows one task moves.
GROUPS_PER_TASK = 6
#: Rows for directions beyond those of candidates: nodes that split need some.
SPARE = 32


class Phase:
    """A phase: rows move between nodes, directions of one parity integrated out.

    *Candidates* are the nodes of the tree, by position, and after them children that
    rows may open.

    Directions of nodes whose depth has this `parity` are integrated out, if no
    child has a past. `streams` returns a generator for each name, some integers;
    `memory`, (n_rows, width), is for the directions of candidates, if it has a row
    of each.
    """

    def __init__(
        self,
        state: model.SlicedTree,
        parity: int,
        streams: Streams,
        memory: Array | None = None,
    ):
        """Draw weights and slices, open children, and form the groups."""
        self.sampler_state, self.streams, self.parity = state, streams, parity
        tree, n_nodes = state.tree, len(state.tree)
        rng = streams(0)
        is_free = (tree.depth % 2 == parity) & ~state.has_old_children()
        log_weights, log_rest = state.draw_log_weights(rng)
        with np.errstate(divide="ignore"):
            slices = np.log(rng.random(len(state.rows)))
        self.log_slices = log_weights[state.place] + slices
        # A direction that is proposed anew in this phase has no new children here.
        self._open(tree.depth % 2 != parity, log_weights, log_rest, rng)
        self.is_free = np.append(is_free, np.ones(len(self.above), dtype=bool))
        self.is_drawn = (~self.is_free).view(np.uint8)
        self.parent = np.append(tree.parent, self.above).astype(np.int32)
        n = len(self.is_free)
        width = state.dimension
        if memory is None or len(memory) < n or memory.shape[1] != width:
            # Small pages: those of `np.empty`, of 2 MB, are cleared for a single row.
            pages = mmap.mmap(-1, 8 * (2 * n + SPARE) * width)
            memory = np.frombuffer(pages).reshape(-1, width)
        self.memory, self.table = memory, memory[:n]
        self.place = state.place.copy()
        self.n_nodes = n_nodes
        self._share_out(rng)
        self.queues = self._queues()
        order, limits = state.rows.grouped(state.place, n_nodes)
        self.order, self.limits = order, limits
        # Rows of the table: opened nodes get one with their first row.
        self.source = np.append(np.arange(n_nodes), self.above).astype(np.int32)
        self.squares = np.full(n, state.pull**2)
        self.own = np.full(
            n, bound.log_normaliser_gain(self.squares[:1], state.dimension)
        )

    def _open(self, given: NDArray, log_weights: Array, log_rest: Array, rng) -> None:
        """Draw weights of new children of nodes whose directions are fixed.

        Rows do not move if their slice may be below the weight of a child that is not
        drawn.
        """
        least = float(self.log_slices.min(initial=np.inf))
        places = np.flatnonzero(given & (log_rest > least))
        rest, state = log_rest[places], self.sampler_state
        result, left = state.break_rest(rest, least, MOST_OPENED, rng)
        seen = result > least  # no row may be at the others
        self.above = places[np.nonzero(seen)[0]].astype(np.int32)
        self.log_weights = np.append(log_weights, result[seen])
        self.stays = self.log_slices < left.max(initial=-np.inf)

    def _share_out(self, rng: np.random.Generator) -> None:
        """Assign candidate nodes to groups.

        A node whose direction is given may not end in the phase. If no node below is
        certain to stay, its own row or a row at one of its children in its own group
        must: these are a *set* with a number in `keeper`. If the set has no row, no
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

    def _queues(self) -> list[Ints32]:
        """List the rows that each task moves, and that may leave their nodes."""
        n_tasks = len(self.groups())
        task = (self.group // GROUPS_PER_TASK).astype(np.min_scalar_type(n_tasks))
        task[~self.is_open] = n_tasks
        of_rows = task[self.place]
        of_rows[self.stays] = n_tasks
        order = np.argsort(of_rows, kind="stable").astype(np.int32)
        return np.split(order, np.cumsum(np.bincount(of_rows, minlength=n_tasks)))

    # -- directions and natural parameters, some nodes at a time -----------------------

    def blocks(self) -> list[Ints32]:
        """Blocks of nodes by task, of few nodes, as new pages take longer."""
        nodes = np.arange(self.n_nodes, dtype=np.int32)
        return model.blocks_of(nodes, self.sampler_state.dimension, model.ENTRIES // 4)

    def blocks_to_draw(self) -> list[Ints32]:
        """Blocks of nodes whose directions are drawn, also opened ones with rows."""
        mine = np.flatnonzero(self.sampler_state.tree.depth % 2 == self.parity)
        opened = np.unique(self.place[self.place >= self.n_nodes])
        nodes = np.append(mine, opened).astype(np.int32)
        return model.blocks_of(nodes, self.sampler_state.dimension)

    def fill(self, nodes: Ints32) -> None:
        """Compute natural parameters of nodes, or copy given directions."""
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
            state.previous,
            state.past,
            *kernel_arrays(gone),
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
            expansion(state.dimension),
        )

    def groups(self) -> list[Ints32]:
        """Groups of candidates by task."""
        numbers = np.arange(self.group.max() + 1, dtype=np.int32)
        return [
            numbers[begin : begin + GROUPS_PER_TASK]
            for begin in range(0, len(numbers), GROUPS_PER_TASK)
        ]

    def sweep(self, number: int, groups: Ints32) -> int:
        """Move rows of some groups from node to node; return how many moved."""
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
            # Rows for opened nodes are taken in order of groups: few pages are touched.
            self.n_nodes + int((self.group[self.n_nodes :] < groups[0]).sum()),
            state.pull,
            self.table,
            self.squares,
            self.own,
            state.concentration,
            np.empty(int(np.diff(limits).max())),
            expansion(state.dimension),
            rng.bit_generator,
        )

    def draw_directions(self, number: int, nodes: Ints32) -> None:
        """Draw directions that were integrated out, over their parameters.

        Directions of the same levels that are never integrated out are proposed.
        """
        rng = self.streams(2, number)
        free = nodes[self.is_free[nodes]]
        lengths = np.sqrt(np.maximum(self.squares[free], 0.0))
        rows = self.source[free].astype(np.intp)
        draw_in_place(self.table, rows, lengths, rng)
        for at in nodes[~self.is_free[nodes]].tolist():
            self.table[at] = self._step_direction(at, rng)

    def _step_direction(self, at: int, rng: np.random.Generator) -> Array:
        """Draw a direction whose children have a past, given those of other levels."""
        state = self.sampler_state
        natural = state.natural_without_rows(at)
        mine = np.flatnonzero(self.place == at)
        state.add_rows(natural, state.rows.total(mine))
        below = np.flatnonzero(state.tree.parent == at)
        past = state.previous[state.past[below[state.is_old[below]]]]
        return model.accept_direction(state, natural, past, state.directions[at], rng)

    def close(self, next_id: int) -> model.SlicedTree:
        """Return the state with opened nodes, without empty ones."""
        state = self.sampler_state
        counts = np.bincount(self.place, minlength=len(self.is_free))
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
        directions = Directions(self.memory, self.source[source].astype(np.intp))
        return state.edited(tree, onto[self.place], directions)


#: Columns of the history of a fit.
COLUMNS = (
    "step",
    "chain",
    "seconds",
    "epoch",
    "n_components",
    "max_depth",
    "log_joint",
    "vmf_concentration",
    "prior_concentration",
    "past_weight",
)
#: Depths whose directions are integrated out, in turns: odd ones first.
PARITIES = (1, 0)


class SliceChain(Chain[TreeChainState]):
    """One Gibbs chain of dependent trees: sweeps of an epoch, and the step to the next.

    A sweep consists of two phases, of proposals that change the tree, of updates of
    what is learned, and of the log probability of what has come of it. Each has pieces
    whose tasks run side by side: all that reads or writes the directions of all nodes.

    Of `epochs` in their order; `start` is where to go on, `number` that of the
    chain, where it starts.
    """

    phase: Phase
    _sums: sp.csr_array  # of the rows at each node, after a sweep
    _along: float  # products of rows with the directions of their nodes
    _products: Array  # (n_nodes, 4) of neighbours, see `prior_products`
    _joint: model.LogJoint

    def __init__(
        self,
        epochs: Sequence[EpochRows],
        settings: TreeSettings,
        seed_entropy: int,
        start: TreeStart | TreeChainState,
        *,
        number: int = 0,
    ):
        """Restore a saved state, or start with rows at nodes."""
        self.epochs, self.settings, self.seed_entropy = epochs, settings, seed_entropy
        self._arrays: list[Array] = []  # of phases, for those to come
        if isinstance(start, TreeChainState):
            start = replace(start, lineage=list(start.lineage))
            self._restore(self._joined(start) if len(start.place) == 0 else start)
            check_places(self.state, epochs)
            return
        self._restore(self._started(start, number))

    def _started(self, start: TreeStart, number: int) -> TreeChainState:
        """Return the state of a start: nodes without rows end, others have means."""
        state = start.state
        sampler_state = SlicedTree(
            self.epochs[0].rows,
            self.settings.priors,
            state.tree,
            start.place,
            Directions.of(_unit(state.means)),
            state.history,
            np.full(len(state.tree), -1),
            np.zeros((0, state.dimension)),
            state.concentration,
            state.prior_concentration,
            np.zeros(len(state.tree)),
            sp.csr_array(state.means.shape),
        ).without_empty()
        ids = sampler_state.tree.ids
        if start.lineage:
            log = chains.end_entries(start.step, np.setdiff1d(state.tree.ids, ids))
        else:
            log = [Lineage(start.step, "init", (), tuple(np.sort(ids).tolist()))]
        return TreeChainState(
            number=number,
            step=start.step,
            ids=ids.copy(),
            next_id=max(start.next_id, state.tree.next_id),
            lineage=[*start.lineage, *log],
            begin=start.step,
            log_joint=model.log_joint_of(sampler_state),
            number_of_epoch=0,
            closed=(),
            **fields_of(sampler_state, sampler_state.sums),
        )

    def _joined(self, state: TreeChainState) -> TreeChainState:
        """Assign rows to their most probable nodes, if the state has none."""
        rows = self.epochs[state.number_of_epoch].rows
        if len(rows) == 0:
            return state
        nobody = replace(self.epochs[state.number_of_epoch], rows=rows.none())
        alone = SliceChain([nobody], self.settings, self.seed_entropy, state)
        table = NodeTable.of(
            model.variational_state_of(alone.sampler_state), self.settings.priors
        )
        memo, _ = update_local(table, rows.X)
        place = state.tree.positions(memo.nodes[:, 0]).astype(np.int32)
        return replace(state, place=place)

    def _restore(self, state: TreeChainState) -> None:
        """Replace the state of the sampler by that after a sweep."""
        self.state, self.opened = state, state
        priors = self.settings.priors
        if self.settings.learns_past_weight:
            priors = replace(priors, past_weight=state.past_weight)
        rows = self.epochs[state.number_of_epoch].rows
        self.sampler_state = SlicedTree(rows, priors, **shared_fields(state))

    # -- one sweep --------------------------------------------------------------------

    @property
    def n_pieces(self) -> int:
        """Number of pieces of a sweep, each a list of parallel tasks."""
        return 3 * len(PARITIES) + 5

    def tasks(self, piece: int) -> Sequence[Callable[[], object]]:
        """List the tasks of a piece: blocks of nodes, or rows of groups of these."""
        if piece == 0:
            return [partial(self._begin_phase, 0)]
        number, part = divmod(piece - 1, 3)
        if number < len(PARITIES):
            return self._tasks_of_phase(number, part)
        return self._tasks_after(piece - 1 - 3 * len(PARITIES))

    def _tasks_of_phase(self, number: int, part: int) -> Sequence[Callable[[], object]]:
        """List the tasks of a part of a phase: parameters, rows, or directions."""
        phase = self.phase
        if part == 0:
            return [partial(phase.fill, block) for block in phase.blocks()]
        if part == 1:
            return [partial(phase.sweep, *group) for group in enumerate(phase.groups())]
        blocks = enumerate(phase.blocks_to_draw())
        draws = [partial(phase.draw_directions, *block) for block in blocks]
        # What comes next reads where rows are, and no direction.
        return [partial(self._end_phase, number), *draws]

    def _tasks_after(self, part: int) -> Sequence[Callable[[], object]]:
        """List tasks after phases: proposals, learning of priors, log joint."""
        if part == 0:
            return [self._change_tree]
        if part == 1:
            return self._tasks_of_products()
        if part == 2:
            return [self._learn]
        return self._joint.tasks() if part == 3 else []

    def _begin_phase(self, number: int) -> None:
        """Begin a phase of a sweep in place, in free arrays of an earlier phase."""
        if number == 0:
            self._open_epoch()
        memory = self._free_memory()
        self.phase = Phase(
            self.sampler_state, PARITIES[number], self._streams(number), memory
        )
        if self.phase.memory is not memory:
            kept = [one for one in self._arrays if one is not memory]
            self._arrays = [*kept, self.phase.memory]

    def _end_phase(self, number: int) -> None:
        """End a phase: take its tree, and begin the next phase."""
        self.sampler_state = self.phase.close(self.sampler_state.tree.next_id)
        if number + 1 < len(PARITIES):
            self._begin_phase(number + 1)

    def _free_memory(self) -> Array | None:
        """Return an array of a phase that is not in use, or None.

        Touching new pages for thousands of features takes longer than filling them.
        """
        used = {id(one.directions.drawn) for one in (self.state, self.sampler_state)}
        return next((one for one in self._arrays if id(one) not in used), None)

    def _streams(self, number: int) -> Callable[..., np.random.Generator]:
        place = self.state.number, self.state.step + 1, number
        return partial(stream, self.seed_entropy, Purpose.SWEEP, *place)

    def _change_tree(self) -> None:
        """Propose splits, merges and other parents."""
        state, rng = self.sampler_state, self._streams(len(PARITIES))()
        for _ in range(self.settings.n_proposals):
            state = propose_split_or_merge(state, rng)
        self.sampler_state = attach_some(state, self.settings.n_proposals, rng)
        self._products = np.zeros((len(self.sampler_state.tree), 4))

    def _tasks_of_products(self) -> Sequence[Callable[[], object]]:
        """List sums of rows, and blocks of products of directions with parents."""
        settings, state = self.settings, self.sampler_state
        if not (settings.learns_prior_concentration or settings.learns_past_weight):
            return [self._sum_rows]
        blocks = model.blocks_of(np.arange(len(state.tree)), state.dimension)
        products = [
            partial(
                prior_products,
                nodes,
                state.directions.drawn,
                state.directions.row,
                state.tree.parent,
                state.previous,
                state.past,
                self._products,
            )
            for nodes in blocks
        ]
        return [self._sum_rows, *products]

    def _sum_rows(self) -> None:
        """Sum the rows at each node, and their products with its direction."""
        self._sums = self.sampler_state.sums
        if self.settings.learns_concentration:
            self._along = self.sampler_state.directions.products(self._sums)

    def _learn(self) -> None:
        """Set the learned concentrations and weights to their maximum, in place."""
        state, settings = self.sampler_state, self.settings
        n_rows = float(state.masses.sum())
        if settings.learns_concentration and n_rows > 0.0:
            length = self._along / n_rows
            beta = inverse_bessel_ratio(np.clip(length, 0.0, 1.0), state.dimension)
            beta = np.clip(beta, updates.LOWEST, updates.HIGHEST)
            state = replace(state, concentration=float(beta))
        if settings.learns_prior_concentration and len(state.tree) > 1:
            result = prior_cosines(self._products, state.priors)
            kappa = updates.best_prior_concentration(*result, state.dimension)
            state = replace(state, prior_concentration=kappa)
        if settings.learns_past_weight and state.is_old.any():
            weight = best_past_weight(state, self._products)
            state = replace(state, priors=replace(state.priors, past_weight=weight))
        self.sampler_state, self._joint = state, model.LogJoint(state, self._sums)

    def accept(self) -> None:
        """Make the sweep that was run the last complete one."""
        sampler_state, before = self.sampler_state, self.opened
        step, ids = self.state.step + 1, sampler_state.tree.ids
        entries = chains.birth_entries(step, np.setdiff1d(ids, before.ids))
        entries += chains.end_entries(step, np.setdiff1d(before.ids, ids))
        state = replace(
            before,
            step=step,
            ids=ids.copy(),
            next_id=sampler_state.tree.next_id,
            lineage=[*before.lineage, *entries],
            log_joint=self._joint.value(),
            **fields_of(sampler_state, self._sums),
        )
        self._restore(state)

    # -- epochs -----------------------------------------------------------------------

    def _open_epoch(self) -> None:
        """Begin the next epoch if this one has had its sweeps."""
        kept = state = self.state
        while state.number_of_epoch + 1 < len(self.epochs) and (
            state.step - state.begin >= self.settings.sweeps
            or len(self.epochs[state.number_of_epoch].rows) == 0
        ):
            state = self._next(state)
        if state is not kept:
            self._restore(state)
            self.state = kept
            rng = stream(self.seed_entropy, Purpose.START, state.number, state.step)
            self.sampler_state = model.draw_all(self.sampler_state, rng)

    def _next(self, state: TreeChainState) -> TreeChainState:
        """Close an epoch: its mean directions are the past of the next one.

        Rows of the next epoch start at their most probable nodes.
        """
        number = state.number_of_epoch + 1
        rows, settings = self.epochs[number].rows, self.settings
        self._restore(state)
        epoch = self._closed(self.sampler_state)
        closed = (*state.closed, epoch)
        past = [(one.state.tree.ids, one.state.masses) for one in closed]
        history = bound.windowed(state.tree, past[-settings.window :])
        after = bound.next_epoch(epoch.state, history)
        kept = after.tree.accumulate(after.history) > 0.0  # in the window, or below
        kept[0] = True
        places = np.flatnonzero(kept)
        ids, depth = after.tree.ids[places], after.tree.depth[places]
        tree = Tree(ids, depth, max(state.next_id, after.tree.next_id))
        after = after.reordered(tree, places)
        memo, _ = update_local(NodeTable.of(after, settings.priors), rows.X)
        log = chains.end_entries(state.step + 1, np.setdiff1d(state.ids, ids))
        return replace(
            state,
            ids=ids.copy(),
            lineage=[*state.lineage, *log],
            begin=state.step,
            number_of_epoch=number,
            closed=closed,
            tree=after.tree,
            place=after.tree.positions(memo.nodes[:, 0]).astype(np.int32),
            directions=Directions.of(_unit(after.means)),
            history=after.history,
            past=after.past,
            previous=after.previous,
            sums=sp.csr_array(after.means.shape),  # follows
            gone=np.zeros(len(ids)),
            gone_sums=sp.csr_array(after.means.shape),
        )

    def _closed(
        self, sampler_state: SlicedTree, run: RunTasks = run_in_turn
    ) -> ClosedEpoch:
        """Return the present epoch as prediction reads it."""
        state, reading = self.state, model.variational_state_of(sampler_state, run)
        label = self.epochs[state.number_of_epoch].label
        n_rows, n_records = int(sampler_state.masses.sum()), len(state.lineage)
        return ClosedEpoch(label, reading, n_rows, state.begin, n_records)

    # -- what it tells ----------------------------------------------------------------

    def trace(self) -> dict[str, object]:
        """Return the entries of the last complete sweep in the history."""
        state = self.state
        return {
            **super().trace(),
            "epoch": self.epochs[state.number_of_epoch].label,
            "max_depth": state.tree.max_depth,
            "vmf_concentration": state.concentration,
            "prior_concentration": state.prior_concentration,
            "past_weight": state.past_weight,
        }

    def saved_state(self, run: RunTasks = run_in_turn) -> TreeChainState:
        """Return the present state without unused rows of directions."""
        directions = self.state.directions
        if len(directions.drawn) != len(directions):
            directions = directions.in_order(run)
            self.state = replace(self.state, directions=directions)
        self._arrays = [one for one in self._arrays if one is not directions.drawn]
        return self.state

    def sample(self, run: RunTasks = run_in_turn) -> model.TreeSample:
        """Copy what prediction reads of the present state."""
        state, is_sorted = self.state, model.with_sorted_siblings(self.sampler_state)
        epoch, weight = self._closed(is_sorted, run), state.past_weight
        given = epoch, state.log_joint, state.number, state.step, weight
        return model.TreeSample(*given)


def prior_cosines(products: Array, priors: TreePriors) -> tuple[Array, Array]:
    """Lengths of k1 theta_parent + k2 mu^(t-1), and products with directions.

    Given the `prior_products` of all nodes, the root first, which has no parent.
    """
    k1, k2 = priors.parent_weight, priors.past_weight
    of_parents, of_pasts, both, squares_of_past = products.T
    squares = k2**2 * squares_of_past + 2.0 * k1 * k2 * both
    squares[1:] += k1**2
    return np.sqrt(np.maximum(squares, 0.0)), k1 * of_parents + k2 * of_pasts


def best_past_weight(state: SlicedTree, products: Array) -> float:
    """Return k2 of the largest density of directions, kappa0 k2 not below V / 100.

    Given the `prior_products` of all nodes; the root has no parent.
    """
    old = np.flatnonzero(state.is_old)
    _, of_pasts, cosines, _ = products[old].T
    pulls = np.where(old > 0, state.pull, 0.0)
    pull = updates.best_past_pull(pulls, of_pasts, cosines, state.dimension)
    return pull / state.prior_concentration


def _unit(means: Array) -> Array:
    """Normalise means; zero means become the first axis."""
    lengths = np.linalg.norm(means, axis=1)
    result = means / np.maximum(lengths, 1e-300)[:, None]
    result[lengths == 0.0] = np.eye(1, means.shape[1])[0]
    return np.asarray(result)
