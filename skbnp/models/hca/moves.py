"""Moves of a component analysis after passes, judged by local steps of touched rows.

A row counts once, with its statistics at its last local step, so that the bound is that
of all rows. Moves are judged on the rows that they touch: these get local steps under
the edited tree, all others keep their statistics, and the edit is kept if the bound
rises. The tree grows past the size that it needs, then shrinks, in turns.

Moves of a component analysis that learns online, judged by the latest rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skbnp.components.tree_sticks import TreeMoves, stub_nodes
from skbnp.inference import trials
from skbnp.inference.engine import Learner, RunningAverage
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import BatchSchedule, Corpus, CountingMoves
from skbnp.inference.trials import NO_MERGES, Ids, Kind
from skbnp.models.hca.local import Memo, RowCache, RowLocalStep, sums
from skbnp.models.hca.model import Model, coordinate_ascent, expand
from skbnp.models.hca.state import State, Stats, white_noise
from skbnp.trees import Tree
from skbnp.utils.matching import cluster_rows
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.ranges import Mass, Sized, Steps
from skbnp.utils.typing import Array, Ints

# Start of component analysis: one path of principal directions, from the root down.


def principal_directions(rest: Array, n_directions: int) -> Array:
    """First loadings of a node: principal directions times the deviation along them.

    Zero if there are fewer directions than requested. Each has the sign that makes
    its largest entry positive.
    """
    result = np.zeros((n_directions, rest.shape[1]))
    if min(rest.shape) == 0:
        return result
    _, lengths, directions = np.linalg.svd(rest, full_matrices=False)
    n = min(n_directions, len(lengths))
    result[:n] = directions[:n] * (lengths[:n, None] / np.sqrt(len(rest)))
    largest = np.abs(result).argmax(axis=1)
    result *= np.where(result[np.arange(n_directions), largest] < 0.0, -1.0, 1.0)[
        :, None
    ]
    return result


def path_of_directions(model: Model, X: NDArray, rng: np.random.Generator) -> State:
    """Return the state of one path with principal directions of (some of) the rows."""
    rest = model.frame.enter(X[some_rows(np.arange(len(X)), rng)])
    return _path(model, len(X), rest, principal_directions(rest, model.n_levels))


def _path(model: Model, n_rows: int, rest: Array, loadings: Array) -> State:
    """Return the state of one path with given directions of some of the rows."""
    n_features, n_levels = rest.shape[1], model.n_levels
    # What the directions leave is noise, in them as in others: section 3.2 of [2].
    left = max(float(np.vdot(rest, rest)) / len(rest) - float(np.sum(loadings**2)), 0.0)
    noise = left / max(n_features - n_levels, 1)
    squares = np.sum(loadings**2, axis=1, keepdims=True)
    loadings *= np.sqrt(np.maximum(1.0 - noise / np.maximum(squares, 1e-300), 0.0))
    shape = model.noise_shape + 0.5 * n_rows * n_features
    rate = model.noise_rate + 0.5 * n_rows * n_features * noise
    tree = Tree() if n_levels == 1 else Tree().add(0, depth=n_levels - 1)
    variance = 1.0 / (1.0 / model.loading_variance + n_rows * shape / rate)
    centre_variances = np.full(n_levels, 1.0 / (1.0 / model.centre_variance + n_rows))
    centre_variances[0] = 0.0
    masses = np.zeros(n_levels)
    masses[-1] = n_rows
    return State(
        tree,
        loadings,
        np.full(n_levels, variance),
        masses,
        np.zeros(n_levels),
        centre_variances,
        np.zeros(n_features),
        variance,
        shape,
        rate,
    )


# Proposals of changes of the tree of a component analysis, for the bound to judge.
#
# Nodes that start at the prior remain there: their loadings have mean zero, and so have
# the coordinates of rows. So new branches start with directions that the data show.


#: Part of the rows below a node that a new branch starts from.
NEIGHBOURS = 1.0 / 6.0
#: Pairs of siblings that are looked at.
MOST_PAIRS = 20


@dataclass(frozen=True, eq=False, slots=True)
class Proposal(trials.Proposal):
    """A changed tree, and the rows that the change touches."""

    top: int | None = None  # a node; all rows whose paths pass it are among these
    fresh: int | None = None  # a node that no row has passed before
    flip_sign: int | None = None  # a node whose coordinates have the other sign now

    def reindexed(self, stats: Stats, old: Tree) -> Stats:
        """Re-index statistics from the old tree's nodes to the new tree's."""
        if self.flip_sign is not None:
            stats = stats.flip_sign(old, self.flip_sign)
        return stats.reindex_to(old, self.tree, self.merged_into)


@dataclass(frozen=True, slots=True)
class Context(trials.Context):
    """What proposals read: the learner's posterior, rows and memo."""

    cache: RowCache
    X: NDArray

    proposal: ClassVar[type[trials.Proposal]] = Proposal

    @property
    def model(self) -> Model:
        """Hyperparameters in force."""
        return self.posterior.model

    @property
    def state(self) -> State:
        """The present globals."""
        return self.posterior.state

    @property
    def memo(self) -> Memo:
        """Path probabilities and coordinates of all rows."""
        assert self.cache.memo is not None
        return self.cache.memo

    def touching(self, ids: Ints) -> Ints:
        """Rows with a share in any of some stubs."""
        return self.memo.touching(ids)

    def edited(self, tree: Tree, merged_into: Mapping[int, int] = NO_MERGES) -> State:
        """Return the globals re-indexed to an edited tree; new nodes have zeros."""
        return self.state.reindex_to(tree)

    def rest(self, rows: Ints) -> Array:
        """Rows less the mean of the model."""
        return self.model.frame.enter(self.X[rows]) - self.state.mean


# More nodes ---------------------------------------------------------------------------


def _propose_split(context: Context, node: int) -> Proposal | None:
    """Propose a branch for rows of large error, and those in the same direction.

    A row below the node is drawn with probability proportional to its squared error.
    Residuals of rows on the path to the node are compared with the residual of this row
    by the cosine; the branch starts with the principal directions of the nearest rows.
    """
    tree, state, n_levels = context.tree, context.state, context.n_levels
    if node not in tree or tree.depth_of(node) == n_levels - 1:
        return None
    touched = context.below(node)
    rows = some_rows(touched, context.rng)
    if len(rows) < 2:
        return None
    rest = context.rest(rows)
    errors = np.sum((rest - _fitted(context, rows)) ** 2, axis=1)
    if not errors.sum() > 0.0:
        return None
    path = state.loadings[tree.positions(tree.path_to(node))]
    rest -= _projected(rest, path)
    lengths = np.linalg.norm(rest, axis=1)
    seed = context.rng.choice(len(rows), p=errors / errors.sum())
    cosines = np.abs(rest @ rest[seed]) / np.maximum(lengths * lengths[seed], 1e-300)
    n_new = n_levels - 1 - tree.depth_of(node)
    n_near = max(n_new + 1, int(NEIGHBOURS * len(rows)))
    near = np.argsort(-cosines, kind="stable")[:n_near]
    new = tree.add(node, depth=n_levels - 1)
    fresh = np.arange(tree.next_id, new.next_id)
    edited, at = state.reindex_to(new), new.positions(fresh)
    edited.loadings[at] = principal_directions(rest[near], n_new)
    mass = len(near) * len(touched) / len(rows)
    precisions = state.precision * mass
    edited.loading_variances[at] = 1.0 / (
        1.0 / context.model.loading_variance + precisions
    )
    edited.stub_masses[at[-1]] = mass
    edited.centre_variances[at] = 1.0 / (1.0 / context.model.centre_variance + mass)
    names = tuple(fresh.tolist())
    return Proposal(
        edited,
        touched,
        kind="split",
        parents=(node,),
        children=(node, *names),
        top=node,
        fresh=names[0],
    )


def _fitted(context: Context, rows: Ints) -> Array:
    """Fitted values of rows on their most probable paths."""
    memo = context.memo.take(rows)
    best = memo.best
    nodes = stub_nodes(context.tree, context.n_levels)
    nodes = nodes[context.tree.positions(memo.stubs[best])]
    weights = np.zeros((len(rows), len(context.tree) + 1))
    weights[np.arange(len(rows))[:, None], nodes] = memo.means[best]
    return weights[:, :-1] @ context.state.loadings


def _projected(rest: Array, loadings: Array) -> Array:
    """Least-squares fit of rows by loadings."""
    _, lengths, basis = np.linalg.svd(loadings, full_matrices=False)
    basis = basis[lengths > 1e-12 * lengths.max(initial=0.0)]
    return (rest @ basis.T) @ basis


# Fewer nodes --------------------------------------------------------------------------


def _propose_prune(context: Context, leaf: int) -> Proposal | None:
    """Propose to remove a leaf, but not the last path."""
    proposal = trials.propose_prune(context, leaf)
    is_last = proposal is not None and len(proposal.tree) == 1
    return None if is_last else proposal


def _list_siblings(context: Context) -> list[Ids]:
    """Candidates to merge: pairs of siblings, those of most similar loadings first."""
    tree, loadings = context.tree, context.state.loadings
    lengths = np.linalg.norm(loadings, axis=1)
    candidates = []
    for parent in tree.ids[tree.depth < tree.max_depth]:
        places = tree.positions(tree.children_of(int(parent)))
        for one, other in combinations(places.tolist(), 2):
            product = max(float(lengths[one] * lengths[other]), 1e-300)
            cosine = abs(float(loadings[one] @ loadings[other])) / product
            candidates.append((-cosine, int(tree.ids[one]), int(tree.ids[other])))
    return [(one, other) for _, one, other in sorted(candidates)[:MOST_PAIRS]]


def _propose_merge(context: Context, target: int, source: int) -> Proposal | None:
    """Propose to merge two siblings into one with the children of both."""
    proposal = trials.propose_merge(context, target, source)
    if proposal is None:
        return None
    tree, state, edited = context.tree, context.state, proposal.state
    through = tree.accumulate(context.masses)
    one, other = tree.positions([target, source])
    mass, more = through[one], through[other]
    sign = -1.0 if state.loadings[one] @ state.loadings[other] < 0.0 else 1.0
    (at,) = edited.tree.positions([target])
    edited.loadings[at] = (
        mass * state.loadings[one] + sign * more * state.loadings[other]
    )
    edited.loadings[at] /= max(mass + more, 1e-300)
    centre = mass * state.centres[one] + sign * more * state.centres[other]
    edited.centres[at] = centre / max(mass + more, 1e-300)
    edited.stub_masses[at] += state.stub_masses[other]
    return replace(proposal, top=target, flip_sign=source if sign < 0.0 else None)


# Other parents ------------------------------------------------------------------------


def _list_attachments(context: Context) -> list[Ids]:
    """Candidates to move: nodes and other parents, by the fit of the rows below.

    By the evidence of the rows, if the path to the parent had the only loadings,
    compared with that of the present parent. It needs second moments along the loadings
    alone.
    """
    tree, state, n_levels = context.tree, context.state, context.n_levels
    moments, masses = _moments(context)
    nodes = stub_nodes(tree, n_levels)

    def fits(place: int, parents: Ints) -> Array | None:
        """Log evidence of the rows below a node, below each parent."""
        depth, stubs = tree.depth[place], np.arange(place, place + tree.size[place])
        stubs = stubs[masses[stubs] > 0.0]
        if len(stubs) == 0:
            return None
        # (n_parents, n_stubs, n_levels)
        routes = np.full((len(parents), len(stubs), n_levels), -1)
        routes[:, :, :depth] = nodes[parents][:, None, :depth]
        return _evidence(state, routes, moments[stubs], masses[stubs]).sum(axis=1)

    return trials.list_attachments(context, fits)


def _moments(context: Context) -> tuple[Array, Array]:
    """Sum p p' over the rows of each stub, p their products with loadings, and masses.

    Shape (n_stubs, n_nodes + 1, n_nodes + 1); the last node, off the tree, is zero.
    """
    tree, memo, n = context.tree, context.memo, len(context.tree)
    stubs = tree.positions(memo.stubs[memo.best])
    moments, masses = np.zeros((n, n + 1, n + 1)), np.bincount(stubs, minlength=n)
    order = np.argsort(stubs, kind="stable")
    for stub, rows in enumerate(np.split(order, np.cumsum(masses)[:-1])):
        for start in range(0, len(rows), 4096):
            part = context.rest(rows[start : start + 4096]) @ context.state.loadings.T
            moments[stub, :n, :n] += part.T @ part
    return moments, masses.astype(np.float64)


def _evidence(state: State, routes: NDArray, moments: Array, masses: Array) -> Array:
    """Log evidence of the rows of stubs on some routes, constants left out.

    Shape (n_parents, n_stubs), at the means of loadings and noise.
    """
    n, n_levels = len(state.tree), routes.shape[-1]
    gram = np.zeros((n + 1, n + 1))
    gram[:-1, :-1] = state.loadings @ state.loadings.T
    one, other = routes[..., :, None], routes[..., None, :]
    inverse = np.eye(n_levels) + state.precision * gram[one, other]
    outer_products = moments[np.arange(len(moments))[:, None, None], one, other]
    quadratic = np.einsum("...lm,...ml->...", np.linalg.inv(inverse), outer_products)
    log_dets = np.linalg.slogdet(inverse)[1]
    return 0.5 * state.precision**2 * quadratic - 0.5 * masses * log_dets


def _propose_attachment(context: Context, node: int, parent: int) -> Proposal | None:
    """Propose to move a node, with its coordinates, below another parent.

    A chain of nodes starts with the principal directions of the residuals of its rows
    on the new path: with only one child, a node and its parent share what they explain.
    """
    proposal = trials.propose_attachment(context, node, parent)
    if proposal is None:
        return None
    new, edited, chain = proposal.tree, proposal.state, context.tree.subtree_of(node)
    if new.depth_of(int(chain[-1])) - new.depth_of(node) == len(chain) - 1:
        memo = context.memo  # rows whose most probable path ends in the chain
        ending = np.flatnonzero(np.isin(memo.stubs[memo.best], chain))
        rest = context.rest(some_rows(ending, context.rng))
        path = edited.loadings[new.positions(new.path_to(parent))]
        directions = principal_directions(rest - _projected(rest, path), len(chain))
        edited.loadings[new.positions(chain)] = directions
    return replace(proposal, top=node)


def kinds_of(moves: TreeMoves) -> list[Kind]:
    """Return the kinds of moves of HCA that the settings ask for, in their order."""
    kinds = [
        Kind("prune", trials.list_leaves, _propose_prune),
        Kind("merge", _list_siblings, _propose_merge),
    ]
    if moves.reattach:
        kinds.append(Kind("reattach", _list_attachments, _propose_attachment))
    if moves.split:
        kinds.append(Kind("split", trials.list_inner_nodes, _propose_split, grows=True))
    return kinds


# Move of component analysis: leaves that start with the means of groups of rows.


#: Numbers of groups that are tried.
SIZES = (2, 3, 4, 5, 6, 8, 11, 16, 23, 32)
#: Standard deviations from the centre at which a group begins, at most.
FARTHEST = 30.0


def propose_groups(context: Context, n_groups: int) -> Proposal | None:
    """Propose a leaf for each of `n_groups` k-means groups of rows of a single path.

    The directions above are those in which rows of a group differ: beside principal
    directions of all rows no group could have another mean. The loading of a leaf is
    the mean of its group, which is as many standard deviations away.
    """
    tree, model = context.tree, context.model
    if model.n_levels == 1 or len(tree) < model.n_levels:
        return None
    leaf, parent = tree.ids[-1:-3:-1].tolist()
    everyone = np.arange(context.memo.n_rows)
    rows = some_rows(everyone, context.rng)
    if len(rows) < 2 * n_groups:
        return None
    rest = context.rest(rows)
    labels = cluster_rows(rest, n_groups, context.rng)
    sizes = np.bincount(labels).astype(np.float64)
    if len(sizes) < 2:
        return None
    means = np.stack(
        [rest[labels == group].mean(axis=0) for group in range(len(sizes))]
    )
    within = rest - means[labels]
    new = tree
    for _ in sizes[1:]:
        new = new.add(parent)
    fresh = np.arange(tree.next_id, new.next_id)
    edited = context.state.reindex_to(new)
    path = new.positions(tree.path_to(parent))
    edited = _within_groups(model, edited, path, within)
    noise = 1.0 / edited.precision
    at = new.positions(np.append(leaf, fresh))
    lengths = np.maximum(np.linalg.norm(means, axis=1), 1e-300)
    along = np.einsum("ij,ij->i", within, means[labels] / lengths[labels, None]) ** 2
    spreads = np.bincount(labels, along) / sizes
    spreads = np.sqrt(np.maximum(spreads - noise, 0.25 * noise))
    spreads = np.maximum(spreads, lengths / FARTHEST)
    masses = sizes * (len(everyone) / len(rows))
    edited.centres[at] = lengths / spreads
    edited.loadings[at] = means * (spreads / lengths)[:, None]
    edited.stub_masses[at] = masses
    squares = masses * (1.0 + edited.centres[at] ** 2)
    edited.loading_variances[at] = 1.0 / (
        1.0 / model.loading_variance + edited.precision * squares
    )
    edited.centre_variances[at] = 1.0 / (1.0 / model.centre_variance + masses)
    names = tuple(fresh.tolist())
    return Proposal(
        edited,
        everyone,
        kind="split",
        parents=(leaf,),
        children=(leaf, *names),
        top=0,
        fresh=names[0],
    )


def _within_groups(model: Model, state: State, path: NDArray, within: Array) -> State:
    """Give a path the directions in which rows of a group differ, and their noise."""
    n_rows, n_features = within.shape
    n_directions = min(len(path), n_features - 1)
    proposals = principal_directions(within, n_directions)
    squares = np.sum(proposals**2, axis=1)
    left = max(float(np.vdot(within, within)) / n_rows - float(squares.sum()), 0.0)
    noise = left / (n_features - n_directions)
    loadings, centres = state.loadings.copy(), state.centres.copy()
    loadings[path], centres[path] = 0.0, 0.0
    share = np.maximum(1.0 - noise / np.maximum(squares, 1e-300), 0.0)
    loadings[path[:n_directions]] = proposals * np.sqrt(share)[:, None]
    rate = model.noise_rate + noise * (state.noise_shape - model.noise_shape)
    return replace(state, loadings=loadings, centres=centres, noise_rate=rate)


ComponentLearner = Learner[Posterior, Corpus, RowLocalStep, RowCache]

#: Splits refused one after the other that end the growth.
PATIENCE = 5
#: Rows of a leaf that has none, and nats by which a smaller tree may be behind: leaves
#: that rows have left keep shares of them that are worth less.
EMPTY, AS_GOOD = 0.5, 1e-6
#: Another turn of growing and shrinking must raise the bound by this part of the nats
#: of white noise.
TURN = 1e-4


@dataclass(frozen=True, slots=True)
class Rival:
    """An alternative start by groups, put off, and the posterior it belongs to."""

    posterior: Posterior
    memo: Memo | None
    others: Stats | None
    proposal: Proposal
    result: trials.Result


class ComponentEdits(trials.EditMoves):
    """Moves of a component analysis after each pass, judged by the bound.

    Growing and shrinking take turns until nothing is gained.

    Splits that raise the bound by less than `tol`, in parts of the nats of white
    noise, are refused. With `groups_only`, a single path learns only if groups have
    a higher bound, from these.
    """

    overtime: ClassVar[int] = 5

    groups_only: bool
    tol: float
    grows: bool
    has_grown: bool
    n_refused: int
    has_ended: bool
    best: float  # bound where the last turn ended
    has_begun: bool
    rival: Rival | None

    def __init__(self, moves: TreeMoves, tol: float, *, groups_only: bool = False):
        super().__init__(moves)
        self.groups_only, self.tol = groups_only, tol
        self.grows, self.has_grown, self.n_refused = True, False, 0
        self.has_ended, self.best = False, -np.inf
        self.has_begun, self.rival = False, None

    def end_pass(self, learner: ComponentLearner, monitor: Monitor) -> bool:
        """Try moves; return whether they have ended, so the fit may converge."""
        posterior = learner.posterior
        before = len(posterior.lineage)
        if self.has_ended:
            return True
        rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
        context = Context(posterior, rng, learner.cache, learner.corpus.X)
        if not self.has_begun:
            self.has_begun, self.rival = True, self._propose_rival(learner, context)
            if self.groups_only and self.rival is None:
                self.has_ended = True
                return True
        if self.groups_only and self.rival is not None:
            self._learn_rival(learner, monitor)
        elif self.grows:
            self._grow(learner, context, monitor)
            self.has_grown |= len(posterior.lineage) > before
        else:
            for leaf in trials.idle_leaves(posterior, EMPTY):  # whether refused or not
                self.rejections.forget(("prune", leaf))
            for kind in kinds_of(self.moves):
                if not kind.grows:
                    self.try_kind(learner, kind, context, monitor)
            if len(posterior.lineage) == before:
                self._end_turn(self.bound(posterior), nats_of(posterior))
                if self.has_ended and self.rival is not None:
                    self._learn_rival(learner, monitor)
        self._present = None  # frees its statistics
        if len(posterior.lineage) > before:
            with commit():
                monitor.record(posterior)
        return False

    def _end_turn(self, bound: float, nats: float) -> None:
        """Decide whether to grow again: if the bound has gained since last time."""
        gain = bound - self.best
        least = max(trials.LEAST_GAIN, TURN * nats)
        self.has_ended = not self.has_grown or gain < least
        self.grows, self.has_grown = True, False
        self.best, self.n_refused = bound, 0

    def _propose_rival(
        self, learner: ComponentLearner, context: Context
    ) -> "Rival | None":
        """Propose groups with separate means for a single path, as many as are best.

        Directions that one path shares hide groups that lie along them, so that no
        branch at a time leads there from the path.
        """
        best, rival = 0.0, None
        if not self.moves.split or len(context.tree.leaves) > 1:
            return None
        posterior, cache = learner.posterior, learner.cache
        for size in SIZES:
            proposal = propose_groups(context, size)
            if proposal is not None and context.has_room(proposal.tree):
                gain, result = self.judge(learner, proposal)
                if gain > best:
                    best = gain
                    rival = Rival(
                        replace(posterior), cache.memo, cache.others, proposal, result
                    )
        return rival

    def _learn_rival(self, learner: ComponentLearner, monitor: Monitor) -> None:
        """Learn from the groups, and adopt them if their bound is higher in the end.

        They learn in as many passes as the path, and grow and shrink by moves of their
        own, so that both trees are equally refined when they are compared.
        """
        rival, posterior = self.rival, learner.posterior
        assert rival is not None
        self.rival = None
        cache = RowCache(learner.cache.scale, rival.others)
        cache.memo = rival.memo
        inner = learner.fork(replace(rival.posterior), cache)
        inner.moves = edits = ComponentEdits(self.moves, self.tol)
        edits.has_begun = True
        edits.make(inner, rival.proposal, rival.result)
        text = f"pass {learner.n_passes}: tries groups that differ by mean"
        trials.learn_by_moves(inner, learner.n_passes, partial(monitor.remind, text))
        learned, n_before = inner.posterior, len(rival.posterior.lineage)
        if not trials.bound_of(learned) > self.bound(posterior):
            return
        with commit():
            posterior.model, posterior.lineage = learned.model, rival.posterior.lineage
            log = learned.lineage[n_before:]
            trials.adopt(posterior, learned.state, learned.global_stats, log)
            learner.cache.memo, learner.cache.others = cache.memo, cache.others
            monitor.record(posterior)
        self.has_ended, self.has_grown, self.best = False, False, -np.inf

    def _grow(
        self, learner: ComponentLearner, context: Context, monitor: Monitor
    ) -> None:
        """Try moves that add nodes; end growing after several refusals."""

        def fits(proposal: trials.Proposal | None) -> bool:
            """Whether a tree has room, and at most as many leaves as rows."""
            if proposal is None or not context.has_room(proposal.tree):
                return False
            return len(proposal.tree.leaves) <= context.memo.n_rows

        kinds = [kind for kind in kinds_of(self.moves) if kind.grows]
        for kind in kinds:
            for _ in range(self.moves.max_tries):
                candidates = kind.candidates(context)
                made = (kind.make(context, *ids) for ids in candidates)
                proposal = next(filter(fits, made), None)
                if proposal is None:
                    self.n_refused = PATIENCE
                    break
                monitor.remind(f"pass {learner.n_passes}: tries moves ({kind.name})")
                accepted = self.attempt(learner, proposal)
                self.n_refused = 0 if accepted else self.n_refused + 1
                if self.n_refused == PATIENCE:
                    break
        self.grows = bool(kinds) and self.n_refused < PATIENCE

    def least_gain(self, learner: ComponentLearner, new: Tree) -> float:
        """Nats by which the bound must rise for a tree in the place of the present."""
        posterior, size = learner.posterior, len(learner.posterior.state.tree)
        bound, nats = self.bound(posterior), nats_of(posterior)
        if len(new) > size:
            return max(trials.LEAST_GAIN, self.tol * nats)
        least = -trials.ROUNDING * (abs(bound) + nats)
        return min(least, -AS_GOOD) if len(new) < size else least

    def prepare(
        self, learner: ComponentLearner, proposal: Proposal
    ) -> tuple[Stats, trials.LocalUpdate]:
        """Statistics of the rows that a move does not touch; the step of the others.

        The globals are updated after each step. The statistics that are kept in the end
        are those of the last step, so that coordinates change between steps.
        """
        posterior, cache = learner.posterior, learner.cache
        model, tree, rows = posterior.model, posterior.state.tree, proposal.rows
        X = learner.corpus.X[rows]
        # Rows of earlier calls cannot be updated with other coordinates.
        top = proposal.top if cache.others is None else proposal.fresh

        def update(
            state: State, last: Stats | None, memo: Memo | None, rest: Stats
        ) -> trials.Result:
            if last is not None and top is not None:
                state = expand(model, state, last, top)
            memo, stats = learner.local_step.update_rows(model, state, X)
            stats = stats.times(cache.scale).plus(rest)
            return *coordinate_ascent(model, state, stats), memo

        assert cache.memo is not None
        if len(rows) == cache.memo.n_rows and cache.others is None:
            return Stats.zero(len(tree), model.n_levels, X.shape[1]), update
        executor = learner.local_step.executor
        old_stats = sums(cache.memo.take(rows), X, tree, model.frame, executor)
        return posterior.global_stats.plus(old_stats, -cache.scale).clipped(), update


def nats_of(posterior: Posterior) -> float:
    """Unit of changes of the bound: white noise of all rows, in nats."""
    global_stats = posterior.global_stats
    return white_noise(global_stats.n_rows, len(global_stats.total))


StreamOfRows = Learner[Posterior, Corpus, RowLocalStep, RunningAverage]

#: Rows by which the tree changes, at least, and passes at most.
LEAST_ROWS, MOST_PASSES = 20, 100
#: Rows that are kept from chunk to chunk, at most, and entries of these.
MOST_ROWS, MOST_ENTRIES = 1024, 1 << 22


@dataclass(frozen=True, slots=True)
class RecentRows:
    """Latest rows of a stream, which judge branches: one chunk may be too few."""

    rows: Annotated[Array, Sized("n_recent", "n_features")] = field(
        default_factory=lambda: np.zeros((0, 0))
    )
    mass: Mass = 0.0  # rows of the totals for which they stand
    n_new: Steps = 0  # of them, since the tree has changed by them
    n_last: Steps = 0  # rows by which it changed then

    @property
    def is_due(self) -> bool:
        """Whether as many rows are new as there were when the tree last changed."""
        return self.n_new >= max(LEAST_ROWS, min(self.n_last, len(self.rows)))

    def add(self, X: NDArray) -> "RecentRows":
        """Append a chunk, and drop the oldest rows if there are too many."""
        most, rows = _most_rows(X), X
        n_old = min(len(self.rows), max(most - len(X), 0))
        if len(X) < most:  # a large chunk is due at once, and not kept as a whole
            old = self.rows[len(self.rows) - n_old :] if n_old else X[:0]
            rows = np.concatenate([old, X], dtype=np.float64)
        mass = self.mass * (n_old / max(len(self.rows), 1))
        return RecentRows(rows, mass, self.n_new + len(X), self.n_last)

    def tried(self) -> "RecentRows":
        """Return the record after moves; of a large chunk, its last rows."""
        rows = self.rows[-_most_rows(self.rows) :].astype(np.float64)
        mass = self.mass * (len(rows) / len(self.rows))
        return RecentRows(rows, mass, 0, len(rows))


def _most_rows(X: NDArray[Any]) -> int:
    return min(MOST_ROWS, max(MOST_ENTRIES // X.shape[1], LEAST_ROWS))


class StreamEdits(CountingMoves):
    """Moves of a stream, judged by its latest rows and the statistics of others.

    A row counts at most once, however many it stands for in the totals: else the first
    rows of a long stream would make a tree of their noise.

    `recent` are the rows of the chunks before, then those for the next one.
    """

    def __init__(self, moves: TreeMoves, tol: float, recent: RecentRows):
        self.moves, self.tol, self.recent = moves, tol, recent

    def begin_pass(self, learner: StreamOfRows) -> None:
        """Add the rows of the chunk to the latest ones."""
        self.recent = self.recent.add(learner.corpus.X)
        self._n_counted = self.recent.mass

    def end_pass(self, learner: StreamOfRows, monitor: Monitor) -> bool:
        """Change the tree if moves are due; return whether it is unchanged."""
        posterior = learner.posterior
        self.recent = replace(self.recent, mass=self._n_counted)
        if not self.recent.is_due:
            return True
        X, is_first = self.recent.rows, self.recent.n_last == 0
        before, mass = len(posterior.lineage), posterior.global_stats.n_rows
        rng = stream(posterior.seed_entropy, Purpose.SOME_DOCS, posterior.n_steps)
        X = X[some_rows(np.arange(len(X)), rng)]
        docs_per_row, others = self._n_counted / len(X), None
        share = min(1.0, 1.0 / docs_per_row)  # of a row, where moves are judged
        if self._n_counted < (1.0 - trials.ROUNDING) * mass:
            kept = share * (1.0 - self._n_counted / mass)
            others = posterior.global_stats.times(kept)
        start, edits = replace(posterior), ComponentEdits(self.moves, self.tol)
        learned = self._learn(learner, start, edits, X, share * docs_per_row, others)
        if others is None and not is_first and len(learned.state.tree.leaves) > 1:
            start = _restarted(learned, X, rng)
            edits = ComponentEdits(self.moves, self.tol, groups_only=True)
            restarted = self._learn(learner, start, edits, X, share * docs_per_row)
            learned = max(learned, restarted, key=trials.bound_of)
        state, global_stats = learned.state, learned.global_stats
        if share < 1.0:
            state, global_stats = coordinate_ascent(
                learned.model, state, global_stats.times(1.0 / share)
            )
        with commit():
            trials.adopt(posterior, state, global_stats, learned.lineage[before:])
            self.recent = self.recent.tried()
        return len(posterior.lineage) == before

    def _learn(
        self,
        learner: StreamOfRows,
        posterior: Posterior,
        edits: ComponentEdits,
        X: NDArray,
        scale: float,
        others: Stats | None = None,
    ) -> Posterior:
        """Learn a tree from the given rows, as `fit` does; return its posterior."""
        rows, schedule = Corpus(X), BatchSchedule.of_rows(len(X))
        cache = RowCache(scale, others)
        inner = Learner(posterior, rows, schedule, learner.local_step, cache, edits)
        trials.learn_by_moves(inner, MOST_PASSES)
        return posterior


def _restarted(posterior: Posterior, X: NDArray, rng: np.random.Generator) -> Posterior:
    """Return an HCA posterior of one path: a tree of few rows may not suit more."""
    model, old = posterior.model, posterior.state.tree
    first, ended = old.next_id, tuple(old.ids[1:].tolist())
    names = np.arange(first, first + model.n_levels - 1)
    ids = np.append(old.ids[:1], names)
    tree = Tree(ids, np.arange(model.n_levels), first + len(names))
    state = replace(path_of_directions(model, X, rng), tree=tree)
    global_stats = Stats.zero(len(ids), model.n_levels, X.shape[1])
    root = int(ids[0])
    log = [
        Lineage(posterior.n_steps, "split", (root,), (root, *names.tolist())),
        Lineage(posterior.n_steps, "prune", ended, ()),
    ]
    return replace(
        posterior,
        state=state,
        global_stats=global_stats,
        ids=ids,
        lineage=[*posterior.lineage, *log],
    )
