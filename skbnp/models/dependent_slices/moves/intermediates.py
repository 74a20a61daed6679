"""Births and ends of intermediate nodes in the sampler of dependent trees (MH).

Rows that move one by one never end a node that has others below it. An *intermediate*
node is a new one without rows. When it ends, its parent takes its children, or one of
these, the *head*, takes its place and the other children. The reverse gathers some
children of a head below a new node, or with them the head. The direction of the
intermediate node is integrated out, given those of its parent and of its children, and
is drawn when the node is added.
"""

from typing import Literal, TypeAlias

import numpy as np
from scipy.special import gammaln

from skbnp.distributions.von_mises_fisher import draw_natural
from skbnp.models.dependent_slices.model import SlicedTree, log_normaliser_gain
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Flags, Ints

Head: TypeAlias = Literal["parent", "child"]  # of the intermediate node


def propose_intermediate(state: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose that an intermediate node begins or ends; return the state."""
    kind: Head = "parent" if rng.random() < 0.5 else "child"
    propose = propose_begin if rng.random() < 0.5 else propose_end
    return propose(state, kind, rng)


def propose_begin(
    state: SlicedTree, kind: Head, rng: np.random.Generator
) -> SlicedTree:
    """Propose to add an intermediate node: the reverse of `propose_end`."""
    tree, is_new = state.tree, ~state.is_old
    most = _most_gathered(tree, state.masses, is_new, kind)
    heads = np.flatnonzero(most >= 0)
    if len(heads) == 0:
        return state
    head = int(rng.choice(heads))
    children = np.flatnonzero((tree.parent == head) & is_new)
    sizes, shares = _sizes(head, int(most[head]), kind)
    size = int(rng.choice(sizes, p=shares))
    gathered = rng.choice(children, size, replace=False)
    if kind == "parent":
        above, below, after = head, gathered, tree.add(int(tree.ids[head]))
    else:
        above, below = int(tree.parent[head]), np.append(head, gathered)
        after = tree.subdivide(int(tree.ids[head]))
    for child in tree.ids[np.sort(gathered)].tolist():
        after = after.move(child, tree.next_id)
    onto = after.positions(tree.ids).astype(np.int32)
    masses, are_new = np.zeros(len(after)), np.ones(len(after), dtype=bool)
    masses[onto], are_new[onto] = state.masses, is_new
    natural, log_density = _integrate_out(state, head, above, below)
    log_ratio = state.log_prior_in(after, masses) - state.log_prior() + log_density
    log_ratio += _log_end(after, masses, are_new, len(below), kind)
    log_ratio -= _log_begin(tree, state.masses, is_new, head, size, kind)
    if not _accept(log_ratio, rng):
        return state
    state = state.edited(after, onto[state.place])
    directions, at = state.directions, int(after.positions(tree.next_id))
    directions[at] = draw_natural(natural, rng, *directions.next_axis())
    return state


def propose_end(state: SlicedTree, kind: Head, rng: np.random.Generator) -> SlicedTree:
    """Propose to remove an intermediate node: the reverse of `propose_begin`."""
    tree, masses, is_new = state.tree, state.masses, ~state.is_old
    able = np.flatnonzero(_can_end(tree, masses, is_new, kind))
    if len(able) == 0:
        return state
    node = int(rng.choice(able))
    above, below = int(tree.parent[node]), np.flatnonzero(tree.parent == node)
    name = int(tree.ids[node])
    if kind == "parent":
        head, size = above, len(below)
        after = tree.merge(name, int(tree.ids[head]))
    else:
        head, size, after = int(rng.choice(below)), len(below) - 1, tree
        for child in tree.ids[below[below != head]].tolist():
            after = after.move(child, int(tree.ids[head]))
        after = after.suppress(name)
    left = tree.positions(after.ids)
    _, log_density = _integrate_out(state, head, above, below)
    log_ratio = state.log_prior_in(after, masses[left]) - state.log_prior()
    now = int(after.positions(tree.ids[head]))
    way_back = after, masses[left], is_new[left], now, size, kind
    log_ratio += _log_begin(*way_back) - log_density
    log_ratio -= _log_end(tree, masses, is_new, len(below), kind)
    if not _accept(log_ratio, rng):
        return state
    onto = np.zeros(len(tree), dtype=np.int32)
    onto[left] = np.arange(len(left))
    return state.edited(after, onto[state.place])


def _accept(log_ratio: float, rng: np.random.Generator) -> bool:
    """Accept a Metropolis-Hastings proposal with probability min(1, ratio)."""
    return bool(np.log(rng.random()) < log_ratio)


def _most_gathered(tree: Tree, masses: Array, is_new: Flags, kind: Head) -> Ints:
    """Most children of each node that a new intermediate node may take; -1: no head.

    A head that goes below keeps a child if it has no row: else it would end.
    """
    most = np.bincount(tree.parent[1:][is_new[1:]], minlength=len(tree))
    if kind == "child":
        most -= masses == 0.0
        most[~is_new] = -1
    first = 0 if kind == "parent" else 1  # the root may be put below alone
    most[first:][most[first:] == 0] = -1
    return most


def _sizes(head: int, most: int, kind: Head) -> tuple[Ints, Array]:
    """Numbers of children of a head to gather, and their probabilities.

    The root goes below a new node with or without some of its children. Any other node
    does so alone, too, when it is gathered below its parent.
    """
    sizes = np.arange(0 if kind == "child" and head == 0 else 1, most + 1)
    shares = 1.0 / (1.0 + sizes)
    return sizes, shares / shares.sum()


def _log_begin(
    tree: Tree, masses: Array, is_new: Flags, head: int, size: int, kind: Head
) -> float:
    """Log probability that `propose_begin` chooses a head and these children."""
    most = _most_gathered(tree, masses, is_new, kind)
    n_children = int(((tree.parent == head) & is_new).sum())
    sizes, shares = _sizes(head, int(most[head]), kind)
    n_ways = gammaln(n_children + 1.0) - gammaln(size + 1.0)
    n_ways -= gammaln(n_children - size + 1.0)
    n_heads = int((most >= 0).sum())
    return float(np.log(shares[size - sizes[0]]) - n_ways - np.log(n_heads))


def _can_end(tree: Tree, masses: Array, is_new: Flags, kind: Head) -> Flags:
    """Intermediate nodes that `propose_end` may remove."""
    n_children = np.bincount(tree.parent[1:], minlength=len(tree))
    result = is_new & (masses == 0.0)
    result[1:] &= n_children[1:] > (0 if kind == "parent" else 1)
    result[0] &= kind == "child" and n_children[0] > 0
    return result


def _log_end(
    tree: Tree, masses: Array, is_new: Flags, n_children: int, kind: Head
) -> float:
    """Log probability of choosing an intermediate node and a head."""
    n_able = int(_can_end(tree, masses, is_new, kind).sum())
    return -float(np.log(n_able * (n_children if kind == "child" else 1)))


def _integrate_out(
    state: SlicedTree, head: int, above: int, below: Ints
) -> tuple[Array, float]:
    """Return the natural parameter of an intermediate node, and its log density ratio.

    That is the log density of the directions of others with it less that without it,
    with the head in its place; `above` is -1 if it is the root.
    """
    natural = state.pull * state.directions[below].sum(axis=0)
    if above >= 0:
        natural += state.pull * state.directions[above]
    squares = np.array([state.pull**2, natural @ natural])
    own, all_of_it = log_normaliser_gain(squares, state.dimension)
    along = float(state.directions[head] @ natural) - state.pull
    return natural, float(own - all_of_it) - along
