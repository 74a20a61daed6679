"""Splits and merges of siblings in the sampler of dependent trees (MH).

Two rows are drawn. Two rows of one node seed a split: its other rows are allocated to
it or a new sibling one by one, given the rows allocated so far, Dahl (2003). Rows of
two siblings, the second one new and without children, seed a merge. The directions of
both nodes are integrated out, given those of their parent and of their children, and
are drawn when a proposal is accepted.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from skbnp.distributions import draw_natural, expansion
from skbnp.kernels._tree_rows import allocate
from skbnp.models.dependent_slices.model import SlicedTree
from skbnp.models.dependent_trees.state import log_normaliser_gain
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Flags, Ints32


def propose_split_or_merge(state: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose a split or a merge, with equal probability; return the state."""
    propose = propose_split if rng.random() < 0.5 else propose_merge
    return propose(state, rng)


def propose_split(state: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose to split a node: the reverse of `propose_merge`."""
    n = np.where(_can_share(state.tree, state.is_old), state.counts, 0.0)
    pairs = n * (n - 1.0)
    if not pairs.any():
        return state
    node = int(rng.choice(len(n), p=pairs / pairs.sum()))
    rows = rng.permutation(np.flatnonzero(state.place == node)).astype(np.int32)
    base = state.natural_without_rows(node)
    new = state.pull * state.directions[state.tree.parent[node]]
    side = np.zeros(len(rows) - 2, dtype=np.int8)
    log_forward, naturals = _share_out(state, base, new, rows, side, "drawn", rng)
    # The first row stays, the second one goes, the others go where they are shared out.
    goes = np.append(rows[1], rows[2:][side == 1])
    tree = state.tree.add(int(state.tree.ids[state.tree.parent[node]]))
    place = tree.positions(state.tree.ids)[state.place].astype(np.int32)
    new_place = int(tree.positions(tree.next_id - 1))
    place[goes] = new_place
    onto = tree.positions(state.tree.ids)
    gone, is_old = np.zeros(len(tree)), np.zeros(len(tree), dtype=bool)
    gone[onto], is_old[onto] = state.gone, state.is_old
    counts = np.bincount(place, minlength=len(tree)).astype(np.float64)
    log_ratio = state.log_prior_in(tree, counts + gone) - state.log_prior()
    log_ratio += _log_split_ratio(state, new, *naturals)
    reverse = _merge_pairs(tree, counts, gone, is_old)[0].sum()
    log_ratio += np.log(pairs.sum()) - np.log(reverse) - log_forward
    if np.log(rng.random()) >= log_ratio:
        return state
    state = state.edited(tree, place)
    for at, natural in zip((onto[node], new_place), naturals, strict=True):
        state.directions[at] = draw_natural(natural, rng)
    return state


def propose_merge(state: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose to merge a node into a sibling: the reverse of `propose_split`."""
    pairs, siblings = _merge_pairs(state.tree, state.counts, state.gone, state.is_old)
    if not pairs.any():
        return state
    gone = int(rng.choice(len(pairs), p=pairs / pairs.sum()))
    theirs = np.flatnonzero(state.place == gone)
    second = int(rng.choice(theirs))
    near = siblings & (state.tree.parent == state.tree.parent[gone])
    near[gone] = False
    first = int(rng.choice(np.flatnonzero(near[state.place])))
    node = int(state.place[first])
    both = np.flatnonzero((state.place == node) | (state.place == gone))
    rest = rng.permutation(both[(both != first) & (both != second)])
    rows = np.concatenate([[first, second], rest]).astype(np.int32)
    side = (state.place[rest] == gone).astype(np.int8)
    base = state.natural_without_rows(node)
    new = state.pull * state.directions[state.tree.parent[gone]]
    log_reverse, naturals = _share_out(state, base, new, rows, side, "given", rng)
    masses = state.masses
    masses[node] += masses[gone]
    tree = state.tree.remove(int(state.tree.ids[gone]))
    left = state.tree.positions(tree.ids)
    n = np.where(_can_share(tree, state.is_old[left]), state.counts[left], 0.0)
    at = int(tree.positions(state.tree.ids[node]))
    n[at] += len(theirs)
    log_ratio = state.log_prior_in(tree, masses[left]) - state.log_prior()
    log_ratio -= _log_split_ratio(state, new, *naturals)
    log_ratio += log_reverse + np.log(pairs.sum()) - np.log((n * (n - 1.0)).sum())
    if np.log(rng.random()) >= log_ratio:
        return state
    onto = np.zeros(len(state.tree), dtype=np.int32)
    onto[left] = np.arange(len(left))
    onto[gone] = at
    state = state.edited(tree, onto[state.place])
    state.directions[at] = draw_natural(naturals[0] + naturals[1] - new, rng)
    return state


def _can_share(tree: Tree, is_old: Flags) -> Flags:
    """Whether each node may be split or merged, (n_nodes,): no root, no old child."""
    parents = tree.parent[1:][is_old[1:]]
    can = np.bincount(parents, minlength=len(tree)) == 0
    can[0] = False
    return can


def _merge_pairs(
    tree: Tree, counts: Array, gone: Array, is_old: Flags
) -> tuple[Array, Flags]:
    """Pairs of a row of a node that may end and one of a sibling; which may merge."""
    can = _can_share(tree, is_old)
    n = np.where(can, counts, 0.0)
    around = np.bincount(tree.parent[1:], n[1:], len(tree))
    ends = can & (tree.size == 1) & ~is_old & (gone == 0.0)
    pairs = np.zeros(len(tree))
    pairs[ends] = n[ends] * (around[tree.parent[ends]] - n[ends])
    return pairs, can


def _share_out(
    state: SlicedTree,
    base: Array,
    new: Array,
    rows: Ints32,
    side: NDArray[np.int8],
    sides: Literal["drawn", "given"],
    rng: np.random.Generator,
) -> tuple[float, Array]:
    """Allocate rows to two nodes, the first two rows one to each.

    The `side` of the others is drawn, or given. Returns the log probability, and both
    natural parameters.
    """
    table = np.stack([base, new])
    indptr, words, values = state.rows.arrays
    for at in range(2):
        some = slice(indptr[rows[at]], indptr[rows[at] + 1])
        gain = state.concentration * values[some].astype(np.float64)
        table[at, words[some]] += gain
    squares = np.einsum("ij,ij->i", table, table)
    own = log_normaliser_gain(squares, state.dimension)
    log_probability = allocate(
        *state.rows.arrays,
        rows[2:],
        side,
        sides == "given",
        table,
        squares,
        own,
        np.ones(2),
        state.concentration,
        expansion(state.dimension),
        rng.bit_generator,
    )
    return log_probability, table


def _log_split_ratio(state: SlicedTree, new: Array, one: Array, other: Array) -> float:
    """Log density of the rows of a split node at two nodes less that at one.

    Arguments are natural parameters, (width,); directions are integrated out.
    """
    parameters = (one + other - new, new, one, other)
    squares = np.array([g @ g for g in parameters])
    joined, prior, first, second = log_normaliser_gain(squares, state.dimension)
    return float(joined + prior - first - second)


# Moves of new nodes of the sampler of dependent trees below other parents (MH).
#
# Parents are proposed by their similarity, the product of every direction with the
# natural parameter of the node by rows and children, the direction of the node
# integrated out and all others given; the acceptance depends on the change of the
# probability of the nodes of all rows. The direction is drawn afterwards.


def attach_some(
    state: SlicedTree, n_proposals: int, rng: np.random.Generator
) -> SlicedTree:
    """Propose other parents for random new nodes, one after another."""
    movable = state.tree.ids[1:][~state.is_old[1:]]
    n = n_proposals if len(movable) else 0
    for node in rng.choice(movable, n).tolist() if n else []:
        natural = natural_of(state, node)
        state = attach(state, node, natural, state.directions @ natural, rng)
    return state


def natural_of(state: SlicedTree, node: int) -> Array:
    """Natural parameter of a node from rows and children, (width,)."""
    at = int(state.tree.positions(node))
    total = state.rows.total(np.flatnonzero(state.place == at))
    natural = state.natural_below(at)
    state.add_rows(natural, total)
    return natural


def attach(
    state: SlicedTree, node: int, natural: Array, along: Array, rng: np.random.Generator
) -> SlicedTree:
    """Propose another parent for a node; return the state after the decision.

    `natural` is the natural parameter from rows and children, (width,), and `along`
    are the products of all directions with it, (n_nodes,).
    """
    tree, masses = state.tree, state.masses
    at = int(tree.positions(node))
    now, end = int(tree.parent[at]), at + int(tree.size[at])
    if not (now == 0 or state.is_old[now] or masses[now] > 0.0):
        if (tree.parent == now).sum() == 1:
            return state  # its parent would have nothing left
    squares = natural @ natural + state.pull**2 + 2.0 * state.pull * along
    scores = -log_normaliser_gain(np.maximum(squares, 0.0), state.dimension)
    scores[at:end] = -np.inf
    shares = np.exp(scores - scores.max())
    chosen = int(rng.choice(len(shares), p=shares / shares.sum()))
    above = state.directions[chosen].copy()
    if chosen != now:
        edited = tree.move(node, int(tree.ids[chosen]))
        after = state.log_prior_in(edited, masses[tree.positions(edited.ids)])
        if np.log(rng.random()) < after - state.log_prior():
            place = edited.positions(tree.ids)[state.place].astype(np.int32)
            state = state.edited(edited, place)
            at = int(edited.positions(node))
        else:
            above = state.directions[now]
    state.directions[at] = draw_natural(natural + state.pull * above, rng)
    return state
