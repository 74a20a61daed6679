"""Gibbs chain of dependent trees: the steps of one sweep, epoch by epoch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from skbnp.components.word_topics import SeenWords
from skbnp.distributions.von_mises_fisher import inverse_bessel_ratio
from skbnp.inference.chains import Chain, birth_entries, end_entries
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.inference.posterior import Lineage
from skbnp.kernels._tree_directions import prior_products
from skbnp.models.dependent_slices import chain_state, sample
from skbnp.models.dependent_slices.chain_state import TreeChainState, TreeStart
from skbnp.models.dependent_slices.directions import Directions
from skbnp.models.dependent_slices.joint import LogJoint, log_joint_of
from skbnp.models.dependent_slices.model import SlicedTree, blocks_of, draw_all
from skbnp.models.dependent_slices.moves.attachments import Attachments
from skbnp.models.dependent_slices.moves.intermediates import propose_intermediate
from skbnp.models.dependent_slices.moves.split_merge import propose_split_or_merge
from skbnp.models.dependent_slices.phase import Phase
from skbnp.models.dependent_trees import updates
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.local import update_local
from skbnp.models.dependent_trees.node_table import NodeTable
from skbnp.models.dependent_trees.state import TreePriors, next_epoch, windowed
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array

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
    chain, where it starts, and `seen` the columns that rows have, in the order of
    the rows here, None for all.
    """

    phase: Phase
    _attachments: Attachments
    _sums: sp.csr_array  # of the rows at each node, after a sweep
    _along: float  # products of rows with the directions of their nodes
    _products: Array  # (n_nodes, 4) of neighbours, see `prior_products`
    _joint: LogJoint

    def __init__(
        self,
        epochs: Sequence[chain_state.EpochRows],
        settings: chain_state.TreeSettings,
        seed_entropy: int,
        start: TreeStart | TreeChainState,
        *,
        number: int = 0,
        seen: SeenWords | None = None,
    ):
        """Restore a saved state, or start with rows at nodes."""
        self.epochs, self.settings, self.seed_entropy = epochs, settings, seed_entropy
        self.seen = seen
        self._arrays: list[Array] = []  # of phases, for those to come
        if isinstance(start, TreeChainState):
            start = replace(start, lineage=list(start.lineage))
            n_seen = epochs[0].rows.X.shape[1]
            if n_seen > start.directions.n_seen:
                rng = stream(
                    seed_entropy, Purpose.START, start.number, start.step, n_seen
                )
                start = start.with_columns(n_seen, rng)
            self._restore(self._joined(start) if len(start.place) == 0 else start)
            chain_state.check_places(self.state, epochs)
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
            Directions.of(_unit(state.means), state.n_unseen),
            state.history,
            np.full(len(state.tree), -1),
            np.zeros((0, state.width)),
            state.concentration,
            state.prior_concentration,
            np.zeros(len(state.tree)),
            sp.csr_array(state.means.shape),
        ).without_empty()
        ids = sampler_state.tree.ids
        if start.lineage:
            log = end_entries(start.step, np.setdiff1d(state.tree.ids, ids))
        else:
            log = [Lineage(start.step, "init", (), tuple(np.sort(ids).tolist()))]
        return TreeChainState(
            number=number,
            step=start.step,
            ids=ids.copy(),
            next_id=max(start.next_id, state.tree.next_id),
            lineage=[*start.lineage, *log],
            begin=start.step,
            log_joint=log_joint_of(sampler_state),
            number_of_epoch=0,
            closed=(),
            **chain_state.fields_of(sampler_state, sampler_state.sums),
        )

    def _joined(self, state: TreeChainState) -> TreeChainState:
        """Assign rows to their most probable nodes, if the state has none."""
        rows = self.epochs[state.number_of_epoch].rows
        if len(rows) == 0:
            return state
        nobody = replace(self.epochs[state.number_of_epoch], rows=rows.none())
        alone = SliceChain([nobody], self.settings, self.seed_entropy, state)
        table = NodeTable.of(
            sample.variational_state_of(alone.sampler_state), self.settings.priors
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
        self.sampler_state = SlicedTree(
            rows, priors, **chain_state.shared_fields(state)
        )

    # -- one sweep --------------------------------------------------------------------

    @property
    def n_pieces(self) -> int:
        """Number of pieces of a sweep, each a list of parallel tasks."""
        return 3 * len(PARITIES) + 7

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
            return self._attachments.tasks()
        if part == 2:
            return [self._attach]
        if part == 3:
            return self._tasks_of_products()
        if part == 4:
            return [self._learn]
        return self._joint.tasks() if part == 5 else []

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
        """Propose splits, merges and intermediate nodes; choose nodes to attach."""
        state = self.sampler_state
        self._rng = self._streams(len(PARITIES))()
        if state.directions.n_unseen:
            n_draws = 3 * self.settings.n_proposals + 1
            directions = state.directions.with_axes_for(n_draws)
            state = replace(state, directions=directions)
        for _ in range(self.settings.n_proposals):
            state = propose_split_or_merge(state, self._rng)
        if self.settings.n_proposals:
            state = propose_intermediate(state, self._rng)
        self._attachments = Attachments(state, self.settings.n_proposals, self._rng)

    def _attach(self) -> None:
        self.sampler_state = self._attachments.judge(self._rng)
        self._products = np.zeros((len(self.sampler_state.tree), 4))

    def _tasks_of_products(self) -> Sequence[Callable[[], object]]:
        """List sums of rows, and blocks of products of directions with parents."""
        settings, state = self.settings, self.sampler_state
        if not (settings.learns_prior_concentration or settings.learns_past_weight):
            return [self._sum_rows]
        blocks = blocks_of(np.arange(len(state.tree)), state.width)
        products = [
            partial(
                prior_products,
                nodes,
                state.directions.drawn,
                state.directions.row,
                state.tree.parent,
                state.wide_previous,
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
        self.sampler_state, self._joint = state, LogJoint(state, self._sums)

    def accept(self) -> None:
        """Make the sweep that was run the last complete one."""
        sampler_state, before = self.sampler_state, self.opened
        step, ids = self.state.step + 1, sampler_state.tree.ids
        news = birth_entries(step, np.setdiff1d(ids, before.ids))
        news += end_entries(step, np.setdiff1d(before.ids, ids))
        state = replace(
            before,
            step=step,
            ids=ids.copy(),
            next_id=sampler_state.tree.next_id,
            lineage=[*before.lineage, *news],
            log_joint=self._joint.value(),
            **chain_state.fields_of(sampler_state, self._sums),
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
            self.sampler_state = draw_all(self.sampler_state, rng)

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
        history = windowed(state.tree, past[-settings.window :])
        after = next_epoch(epoch.state, history)
        kept = after.tree.accumulate(after.history) > 0.0  # in the window, or below
        kept[0] = True
        places = np.flatnonzero(kept)
        ids, depth = after.tree.ids[places], after.tree.depth[places]
        tree = Tree(ids, depth, max(state.next_id, after.tree.next_id))
        after = after.reordered(tree, places)
        memo, _ = update_local(NodeTable.of(after, settings.priors), rows.X)
        log = end_entries(state.step + 1, np.setdiff1d(state.ids, ids))
        return replace(
            state,
            ids=ids.copy(),
            lineage=[*state.lineage, *log],
            begin=state.step,
            number_of_epoch=number,
            closed=closed,
            tree=after.tree,
            place=after.tree.positions(memo.nodes[:, 0]).astype(np.int32),
            directions=Directions.of(_unit(after.means), after.n_unseen),
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
        state, reading = self.state, sample.variational_state_of(sampler_state, run)
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

    def sample(self, run: RunTasks = run_in_turn) -> sample.TreeSample:
        """Copy what prediction reads of the present state."""
        state, is_sorted = self.state, sample.with_sorted_siblings(self.sampler_state)
        epoch, weight = self._closed(is_sorted, run), state.past_weight
        given = epoch, state.log_joint, state.number, state.step, weight
        return sample.TreeSample(*given)


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
