"""Proposals of changes of the tree of a component analysis, for the bound to judge.

Nodes that start at the prior remain there: their loadings have mean zero, and so have
the coordinates of rows. So new branches start with directions that the data show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skbnp.components.tree_moves import TreeMoves
from skbnp.components.tree_sticks import stub_nodes
from skbnp.inference import trials
from skbnp.inference.trials import Ids, Kind
from skbnp.models.hca.local import Memo
from skbnp.models.hca.memory import RowCache
from skbnp.models.hca.model import Model
from skbnp.models.hca.start import principal_directions
from skbnp.models.hca.state import State, Stats
from skbnp.trees import Tree
from skbnp.utils.random import some_rows
from skbnp.utils.typing import Array, Ints

#: Part of the rows below a node that a new branch starts from.
NEIGHBOURS = 1.0 / 6.0
#: Pairs of siblings that are looked at.
MOST_PAIRS = 20


@dataclass(frozen=True, slots=True)
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

    def edited(self, tree: Tree, merged_into: Mapping[int, int] | None = None) -> State:
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
        "split", (node,), (node, *names), edited, touched, top=node, fresh=names[0]
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
