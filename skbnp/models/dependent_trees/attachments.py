"""Moves of nodes of dependent trees below other parents, and reversals of edges.

Rows stay at their nodes, so that their entropy does not change and the difference of
the bound follows from statistics. Births and merges alone leave nodes below where they
were born. The term of two adjacent directions is the same whichever is the parent: the
terms of the nodes above them alone decide, and a tree whose edge is the wrong way round
needs a reversal, as nodes that are moved one by one would have to lose first.
"""

from dataclasses import replace

import numpy as np

from skbnp.inference.trials import Rejections, without_overlap
from skbnp.kernels import _attachments as kernels
from skbnp.models.dependent_trees.epoch import LEAST_EVIDENCE
from skbnp.models.dependent_trees.records import Products, Record, attach, reverse
from skbnp.models.dependent_trees.state import (
    EpochState,
    EpochStats,
    TreePriors,
    direction_bound,
    stick_evidence,
)
from skbnp.models.dependent_trees.updates import known_to_kernels, update_nodes
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Flags, Ints

#: Nats below zero down to which directions may lose: sticks gain some.
SLACK = 1.0
#: Parents of a node that are judged, the best of the ranking.
N_PARENTS = 2
#: Nodes whose parents are ranked at a time: a row of gains of each is in memory.
N_NODES = 1024
#: Nats that a move gains at least, so that rounding moves nothing for ever.
LEAST_GAIN = 1e-6
#: Edges that are judged, the best of the ranking, and updates of both nodes for it.
N_EDGES, N_UPDATES = 6, 2
#: By how much less a node may point to what is above its parent than this does.
COSINE_SLACK = 0.05
#: Nats that the reversal of an edge gains at least: ends are nearly alike.
LEAST_REVERSAL = 1.0


def attachment_gains(
    state: EpochState, stats: EpochStats, priors: TreePriors, nodes: Ints, parents: Ints
) -> Array:
    """Rise of the bound if nodes go below other parents, by pair, each by itself.

    Nodes are positions, pairs of one node adjacent. Its direction is updated once, at
    both places. From statistics of the node and its children alone; time O(V) for each
    pair, and O(n_nodes). The sticks must have followed the masses (`update_sticks`).
    """
    n_nodes, gains = len(state.tree), np.empty(len(nodes))
    kernels.attachment_gains(
        nodes,
        parents,
        np.stack([state.masses + state.history, state.history]),
        priors.stop_concentration,
        priors.child_concentration,
        np.full(n_nodes, -1.0),
        np.empty((9, n_nodes)),
        np.empty((2, state.width)),
        gains,
        known_to_kernels(state, stats, priors),
    )
    return gains


def _evidence_of_sticks(state: EpochState, tree: Tree, priors: TreePriors) -> float:
    """Log evidence of the sticks of another tree of the same nodes."""
    at = state.tree.positions(tree.ids)
    return stick_evidence(tree, state.masses[at], state.history[at], priors)


def propose_attachments(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    products: Products,
    rejections: Rejections,
    n_passes: int,
) -> list[Record]:
    """Propose moves of nodes to other parents, the largest gain of the bound first.

    No node moves twice, and none goes below one that moves: together they leave a tree.
    Nodes with a past do not go deeper. Nodes and parents that gain nothing wait in
    `rejections` for some passes.
    """
    tree, least = state.tree, _least_gains(state, LEAST_GAIN)
    if len(tree) < 3:
        return []
    nodes, parents = _best_parents(tree, products)
    pairs = zip(tree.ids[nodes].tolist(), tree.ids[parents].tolist(), strict=True)
    keys = [("attachment", *pair) for pair in pairs]
    is_tried = [rejections.is_over(key, n_passes) for key in keys]
    tried, judged = np.flatnonzero(is_tried), []
    gains = attachment_gains(state, stats, priors, nodes[tried], parents[tried])
    for at, gain in zip(tried.tolist(), gains.tolist(), strict=True):
        _, node, parent = keys[at]
        if gain > least[nodes[at]]:
            judged.append((-gain, node, parent))
        else:
            rejections.add(keys[at], n_passes)
    return _compatible(tree, [(node, parent) for _, node, parent in sorted(judged)])


def _best_parents(tree: Tree, products: Products) -> tuple[Ints, Ints]:
    """Nodes and promising new parents, pairwise, by position."""
    nodes, everywhere = np.arange(1, len(tree)), np.arange(len(tree))
    best = np.empty((len(nodes), N_PARENTS), dtype=np.intp)
    worth = np.empty(best.shape)
    for begin in range(0, len(nodes), N_NODES):
        some = slice(begin, begin + N_NODES)
        gains = products.attachments(nodes[some], everywhere)
        rows = np.arange(len(gains))
        gains[rows, tree.parent[nodes[some]]] = -np.inf
        gains[_goes_deeper(tree, products, nodes[some])] = -np.inf
        for row, node in enumerate(nodes[some].tolist()):
            gains[row, node : node + tree.size[node]] = -np.inf
        for rank in range(N_PARENTS):
            proposals = gains.argmax(axis=1)
            best[some, rank], worth[some, rank] = proposals, gains[rows, proposals]
            gains[rows, proposals] = -np.inf
    is_near = worth > -SLACK
    return nodes[np.nonzero(is_near)[0]], best[is_near]


def _goes_deeper(tree: Tree, products: Products, nodes: Ints) -> Flags:
    """Whether a node with a past would be deeper below each candidate parent.

    Given its past, only the change since then says what the parent of a direction is,
    and that is most similar in the nearest node: trees would become chains.
    """
    deeper = tree.depth[None] > tree.depth[tree.parent[nodes]][:, None]
    return np.asarray(products.has_past[nodes][:, None] & deeper)


def _least_gains(state: EpochState, least: float) -> np.ndarray:
    """Least gains of moves of nodes: more evidence if they have a past."""
    return np.where(state.past >= 0, LEAST_EVIDENCE, least)


def _compatible(tree: Tree, moves: list[tuple[int, int]]) -> list[Record]:
    """Return attachments on one tree that can be made together, in their order."""
    moving: set[int] = set()
    parents: set[int] = set()  # new ones, and all above them
    chosen = []
    for node, parent in moves:
        path = set(tree.path_to(parent).tolist())
        if node in moving | parents or path & moving:
            continue
        moving.add(node)
        parents |= path
        old = tree.parent_of(node)
        assert old is not None  # the root has no other parent
        chosen.append(attach(node, old, parent))
    return chosen


def reverse_gain(
    state: EpochState, stats: EpochStats, priors: TreePriors, node: int
) -> float:
    """Rise of the bound if a node takes the place of its parent.

    The directions of both are updated several times, at both places.
    """
    tree = state.tree
    place = int(tree.positions(node))
    parent = int(tree.parent[place])
    near = np.flatnonzero(np.isin(tree.parent, [parent, place]))
    near = np.sort(np.append(near, parent))
    shape = Tree(tree.ids[near], tree.depth[near] - tree.depth[parent])
    above = state.parents(np.array([parent]))[0]
    centroid = state.centroid if parent == 0 else np.zeros(state.width)
    edge = node, int(tree.ids[parent])

    def worth(shape: Tree) -> float:
        """Bound of an edge's two nodes in a tree of this shape, directions updated."""
        at = tree.positions(shape.ids)
        small = state.reordered(shape, at)
        small = replace(small, above=above, centroid=centroid)
        few = stats.taken(at)
        for _ in range(N_UPDATES):
            small = update_nodes(small, few, priors, np.array(edge))
        return direction_bound(small, few, priors)

    gain = worth(shape.reverse(*edge)) - worth(shape)
    gain += _evidence_of_sticks(state, tree.reverse(*edge), priors)
    return gain - _evidence_of_sticks(state, tree, priors)


def propose_reversals(
    state: EpochState,
    stats: EpochStats,
    priors: TreePriors,
    products: Products,
    rejections: Rejections,
    n_passes: int,
) -> list[Record]:
    """Propose reversals of edges that raise the bound, no two adjacent, best first.

    Edges are ranked by the fit of each end to what is above them; those that gain
    nothing wait in `rejections` for some passes.
    """
    tree, places = state.tree, np.arange(1, len(state.tree))
    least = _least_gains(state, LEAST_REVERSAL)
    if len(places) == 0:
        return []
    parents = tree.parent[places]
    lengths = np.maximum(np.sqrt(np.diagonal(products.means)), 1e-300)
    over = tree.parent[parents]
    if state.centroid.any():
        of_root = state.means @ state.centroid
        along = np.where(parents == 0, of_root[places], products.means[places, over])
        other = np.where(parents == 0, of_root[0], products.means[parents, over])
    else:
        along, other = products.means[places, over], products.means[parents, over]
    scale = np.where(over >= 0, lengths[over], 1.0)
    better = (along / lengths[places] - other / lengths[parents]) / scale
    best = np.argsort(-better, kind="stable")[:N_EDGES]
    judged = []
    for at in best[better[best] > -COSINE_SLACK].tolist():
        node, parent = int(tree.ids[places[at]]), int(tree.ids[parents[at]])
        key = ("reversal", node, parent)
        if not rejections.is_over(key, n_passes):
            continue
        gain = reverse_gain(state, stats, priors, node)
        if gain > least[parents[at]]:
            judged.append((-gain, node, parent))
        else:
            rejections.add(key, n_passes)

    def near(judged: tuple[float, int, int]) -> set[int]:
        """Both nodes, the one above them, and all children of both."""
        _, node, parent = judged
        above = tree.path_to(parent).tolist()[-2:]
        children = map(tree.children_of, (parent, node))
        return {node, parent, *above, *np.concatenate([*children]).tolist()}

    chosen = without_overlap(sorted(judged), near)
    return [reverse(node, parent) for _, node, parent in chosen]
