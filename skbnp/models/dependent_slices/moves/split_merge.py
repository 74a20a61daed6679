"""Split a node into siblings, or merge siblings: Metropolis-Hastings.

Two rows are drawn. Those of one node seed a split: its other rows are shared out
between it and a new sibling one by one, by what has been shared out so far, Dahl
(2003). Those of siblings, the second one new and without children, seed a merge. The
directions of both nodes are integrated out, given those of their parent and of their
children, and are drawn when a proposal is accepted.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skbnp.distributions.von_mises_fisher import draw_natural, expansion
from skbnp.kernels._tree_rows import allocate
from skbnp.models.dependent_slices.model import SlicedTree, log_normaliser_gain
from skbnp.trees import Tree

__all__ = ["propose_split_or_merge"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def propose_split_or_merge(world: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose one or the other, with equal probability; returns what comes of it."""
    propose = propose_split if rng.random() < 0.5 else propose_merge
    return propose(world, rng)


def propose_split(world: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose to split a node: half of a step, as `propose_merge` is the other."""
    n = np.where(_can_share(world.tree, world.is_old), world.counts, 0.0)
    pairs = n * (n - 1.0)
    if not pairs.any():
        return world
    node = int(rng.choice(len(n), p=pairs / pairs.sum()))
    rows = rng.permutation(np.flatnonzero(world.place == node)).astype(np.int32)
    base = world.natural_without_rows(node)
    new = world.pull * world.directions[world.tree.parent[node]]
    side = np.zeros(len(rows) - 2, dtype=np.int8)
    log_forward, naturals = _share_out(world, base, new, rows, side, "drawn", rng)
    # The first row stays, the second one goes, the others go where they are shared out.
    goes = np.append(rows[1], rows[2:][side == 1])
    tree = world.tree.add(int(world.tree.ids[world.tree.parent[node]]))
    place = tree.positions(world.tree.ids)[world.place].astype(np.int32)
    new_place = int(tree.positions(tree.next_id - 1))
    place[goes] = new_place
    onto = tree.positions(world.tree.ids)
    masses, is_old = np.zeros(len(tree)), np.zeros(len(tree), dtype=bool)
    masses[onto], is_old[onto] = world.gone, world.is_old
    gone = masses.copy()
    counts = np.bincount(place, minlength=len(tree)).astype(np.float64)
    log_ratio = world.log_prior_in(tree, counts + gone) - world.log_prior()
    log_ratio += _log_density(world, new, *naturals)
    reverse = _merge_pairs(tree, counts, gone, is_old)[0].sum()
    log_ratio += np.log(pairs.sum()) - np.log(reverse) - log_forward
    if np.log(rng.random()) >= log_ratio:
        return world
    world = world.edited(tree, place)
    for at, natural in zip((onto[node], new_place), naturals, strict=True):
        axis = world.directions.next_axis()
        world.directions[at] = draw_natural(natural, rng, *axis)
    return world


def propose_merge(world: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose to merge a node into a sibling: half of a step."""
    pairs, siblings = _merge_pairs(world.tree, world.counts, world.gone, world.is_old)
    if not pairs.any():
        return world
    gone = int(rng.choice(len(pairs), p=pairs / pairs.sum()))
    theirs = np.flatnonzero(world.place == gone)
    second = int(rng.choice(theirs))
    near = siblings & (world.tree.parent == world.tree.parent[gone])
    near[gone] = False
    first = int(rng.choice(np.flatnonzero(near[world.place])))
    node = int(world.place[first])
    both = np.flatnonzero((world.place == node) | (world.place == gone))
    rest = rng.permutation(both[(both != first) & (both != second)])
    rows = np.concatenate([[first, second], rest]).astype(np.int32)
    side = (world.place[rest] == gone).astype(np.int8)
    base = world.natural_without_rows(node)
    new = world.pull * world.directions[world.tree.parent[gone]]
    log_reverse, naturals = _share_out(world, base, new, rows, side, "given", rng)
    masses = world.masses
    masses[node] += masses[gone]
    tree = world.tree.remove(int(world.tree.ids[gone]))
    left = world.tree.positions(tree.ids)
    n = np.where(_can_share(tree, world.is_old[left]), world.counts[left], 0.0)
    at = int(tree.positions(world.tree.ids[node]))
    n[at] += len(theirs)
    log_ratio = world.log_prior_in(tree, masses[left]) - world.log_prior()
    log_ratio -= _log_density(world, new, *naturals)
    log_ratio += log_reverse + np.log(pairs.sum()) - np.log((n * (n - 1.0)).sum())
    if np.log(rng.random()) >= log_ratio:
        return world
    onto = np.zeros(len(world.tree), dtype=np.int32)
    onto[left] = np.arange(len(left))
    onto[gone] = at
    world = world.edited(tree, onto[world.place])
    natural, axis = naturals[0] + naturals[1] - new, world.directions.next_axis()
    world.directions[at] = draw_natural(natural, rng, *axis)
    return world


def _can_share(tree: Tree, is_old: Flags) -> Flags:
    """Nodes whose directions can be integrated out, and that may have siblings."""
    parents = tree.parent[1:][is_old[1:]]
    can = np.bincount(parents, minlength=len(tree)) == 0
    can[0] = False
    return can


def _merge_pairs(
    tree: Tree, counts: Array, gone: Array, is_old: Flags
) -> tuple[Array, Flags]:
    """Pairs of a row of each node that may end and one of its siblings; these."""
    can = _can_share(tree, is_old)
    n = np.where(can, counts, 0.0)
    around = np.bincount(tree.parent[1:], n[1:], len(tree))
    ends = can & (tree.size == 1) & ~is_old & (gone == 0.0)
    pairs = np.zeros(len(tree))
    pairs[ends] = n[ends] * (around[tree.parent[ends]] - n[ends])
    return pairs, can


def _share_out(
    world: SlicedTree,
    base: Array,
    new: Array,
    rows: NDArray[np.int32],
    side: NDArray[np.int8],
    sides: Literal["drawn", "given"],
    rng: np.random.Generator,
) -> tuple[float, Array]:
    """Share out rows, the first two each to its node.

    The `side` of the others is drawn, or given. Returns the log probability, and both
    natural parameters.
    """
    table = np.stack([base, new])
    indptr, words, values = world.rows.arrays
    for at in range(2):
        some = slice(indptr[rows[at]], indptr[rows[at] + 1])
        gain = world.concentration * values[some].astype(np.float64)
        table[at, words[some]] += gain
    squares = np.einsum("ij,ij->i", table, table)
    own = log_normaliser_gain(squares, world.dimension)
    log_probability = allocate(
        *world.rows.arrays,
        rows[2:],
        side,
        sides == "given",
        table,
        squares,
        own,
        np.ones(2),
        world.concentration,
        *expansion(world.dimension),
        rng.bit_generator,
    )
    return log_probability, table


def _log_density(world: SlicedTree, new: Array, one: Array, other: Array) -> float:
    """Log density of rows at two nodes less that of all at the first."""
    parameters = (one + other - new, new, one, other)
    squares = np.array([g @ g for g in parameters])
    joined, prior, first, second = log_normaliser_gain(squares, world.dimension)
    return float(joined + prior - first - second)
