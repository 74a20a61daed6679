"""Moves of new nodes of the sampler of dependent trees below other parents (MH).

Parents are proposed by their similarity, the direction of the node integrated out and
all others given; the acceptance depends on the change of the probability of the nodes
of all rows. The direction is drawn afterwards.

The similarity is the product of every direction with the natural parameter of the node
by rows and children. The nodes that get a proposal do not depend on the results of
others: so all are chosen first, and their products come from one pass over the
directions. A proposal changes one direction, and the children of its old and its new
parent: the products of the others are updated.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from skbnp.distributions.von_mises_fisher import draw_natural
from skbnp.kernels._tree_directions import products, sparse_products
from skbnp.models.dependent_slices.directions import SPARSE
from skbnp.models.dependent_slices.model import SlicedTree, blocks_of
from skbnp.models.dependent_trees.directions import log_normaliser_gain
from skbnp.utils.typing import Array, Ints


class Attachments:
    """Proposals of other parents for random new nodes, one after another.

    The directions of `state` are drawn in place.
    """

    def __init__(self, state: SlicedTree, n_proposals: int, rng: np.random.Generator):
        """Choose the nodes, and compute their natural parameters."""
        self._state = state
        movable = state.tree.ids[1:][~state.is_old[1:]]
        n = n_proposals if len(movable) else 0
        self._nodes: list[int] = rng.choice(movable, n).tolist() if n else []
        naturals = {node: natural_of(state, node) for node in self._nodes}
        words = {node: np.flatnonzero(naturals[node]) for node in naturals}
        most = SPARSE * state.width
        dense = [node for node in naturals if len(words[node]) > most]
        sparse = [node for node in naturals if len(words[node]) <= most]
        self._n_dense = len(dense)
        self._number = {node: at for at, node in enumerate([*dense, *sparse])}
        self._naturals = np.zeros((len(self._number), state.width))
        for node, number in self._number.items():
            self._naturals[number] = naturals[node]
        # By row of the array of directions: an edit leaves these where they are.
        self._products = np.zeros((len(self._number), len(state.directions.drawn)))
        sizes = [len(words[node]) for node in sparse]
        self._sparse = (
            np.append(0, np.cumsum(sizes)).astype(np.int32),
            np.concatenate([np.zeros(0), *(words[n] for n in sparse)]).astype(np.int32),
            np.concatenate([np.zeros(0), *(naturals[n][words[n]] for n in sparse)]),
        )

    def tasks(self) -> Sequence[Callable[[], object]]:
        """List blocks of directions to multiply with all natural parameters."""
        if not self._nodes:
            return []
        directions = self._state.directions
        return [
            partial(self._multiply, rows)
            for rows in blocks_of(directions.row, directions.width)
        ]

    def _multiply(self, rows: Ints) -> None:
        """Multiply the directions in some rows with all natural parameters."""
        drawn, n = self._state.directions.drawn, self._n_dense
        products(rows, drawn, self._naturals[:n], self._products[:n])
        sparse_products(rows, drawn, *self._sparse, self._products[n:])

    def judge(self, rng: np.random.Generator) -> SlicedTree:
        """Accept each proposal or not, once all tasks have run; return the state."""
        for node in self._nodes:
            number = self._number[node]
            along = self._products[number, self._state.directions.row]
            before = self._state.tree.parent_of(node)
            natural = self._naturals[number]
            self._state = attach(self._state, node, natural, along, rng)
            self._update_products(node, {before, self._state.tree.parent_of(node)})
        return self._state

    def _update_products(self, node: int, parents: set[int | None]) -> None:
        """Update natural parameters and products for a node's new direction."""
        directions = self._state.directions
        at = self._state.tree.positions(node)
        row = directions.row[at]
        for other, number in self._number.items():
            if other in parents:
                self._naturals[number] = natural_of(self._state, other)
                along = directions @ self._naturals[number]
                self._products[number, directions.row] = along
            else:
                along = directions.drawn[row] @ self._naturals[number]
                self._products[number, row] = along


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
    state.directions[at] = draw_natural(
        natural + state.pull * above, rng, *state.directions.next_axis()
    )
    return state
