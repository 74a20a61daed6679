"""Phase of a sweep of dependent trees: rows move, every second level integrated out.

A phase has slices u_n < pi_zn of weights that are drawn; given them rows may go to all
nodes with pi_e > u_n, which are few, also nodes that have no rows yet. In a phase rows
may open children of nodes whose directions are given and fixed to its end. These nodes
must not end in the phase: see `Phase._share_out`.

Nodes are assigned at random to groups, and rows move within their group alone. So
groups are independent of each other, and run in parallel.
"""

import mmap
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skbnp.distributions.von_mises_fisher import draw_in_place, expansion
from skbnp.kernels._tree_rows import fill_parameters, move_rows
from skbnp.models.dependent_slices import model
from skbnp.models.dependent_slices.weights import break_rest, draw_log_weights
from skbnp.models.dependent_trees.directions import log_normaliser_gain
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints32

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
            # Small pages: those of `np.empty`, of 2 MB, are cleared for a single row.
            pages = mmap.mmap(-1, 8 * (2 * n + SPARE) * width)
            memory = np.frombuffer(pages).reshape(-1, width)
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
        """Draw weights of new children of nodes whose directions are fixed.

        Rows do not move if their slice may be below the weight of a child that is not
        drawn.
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
        state = self.sampler_state
        if state.directions.n_unseen:
            given = ~self.is_free[: self.n_nodes]
            directions = state.directions.with_axes_for(self._n_drawn, given)
            self.sampler_state = replace(state, directions=directions)
        nodes = np.arange(self.n_nodes, dtype=np.int32)
        return model.blocks_of(nodes, self.sampler_state.width, model.ENTRIES // 4)

    def blocks_to_draw(self) -> list[Ints32]:
        """Blocks of nodes whose directions are drawn, also opened ones with rows."""
        mine = np.flatnonzero(self.sampler_state.tree.depth % 2 == self.parity)
        opened = np.unique(self.place[self.place >= self.n_nodes])
        nodes = np.append(mine, opened).astype(np.int32)
        directions = self.sampler_state.directions
        n_known = directions.n_used + np.arange(len(nodes))
        self.n_known = np.zeros(len(self.is_free), dtype=np.intp)
        self.n_known[nodes] = directions.n_seen + np.minimum(n_known, directions.n_axes)
        self.n_used = min(directions.n_used + len(nodes), directions.n_axes)
        return model.blocks_of(nodes, self.sampler_state.width)

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
        if self.sampler_state.directions.n_unseen:
            unseen = self.sampler_state.dimension, self.n_known[free]
            draw_in_place(self.table, rows, lengths, rng, *unseen)
        else:
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
        past = state.wide_previous[state.past[below[state.is_old[below]]]]
        given = state, natural, past, state.directions[at], rng
        if state.directions.n_unseen == 0:
            return model.accept_direction(*given)
        return model.accept_direction(*given, state.dimension, int(self.n_known[at]))

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
        row = self.source[source].astype(np.intp)
        directions = state.directions.placed(self.memory, row)
        directions.n_used = self.n_used
        return state.edited(tree, onto[self.place], directions)
