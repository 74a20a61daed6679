"""Put a new node with all below it under another parent: Metropolis-Hastings.

Parents are proposed by how near they are, the direction of the node integrated out and
all others given; what is accepted or not is the change of the probability of the nodes
of all rows. The direction is drawn afterwards.
"""

import numpy as np

from skbnp.distributions.von_mises_fisher import draw_natural
from skbnp.models.dependent_slices.model import SlicedTree, log_normaliser_gain

__all__ = ["propose_attachment"]


def propose_attachment(world: SlicedTree, rng: np.random.Generator) -> SlicedTree:
    """Propose another parent for a random new node; returns what comes of it.

    Directions are drawn in place.
    """
    tree = world.tree
    movable = np.flatnonzero(~world.is_old)
    movable = movable[movable > 0]
    if len(movable) == 0:
        return world
    node = int(rng.choice(movable))
    now, masses = int(tree.parent[node]), world.masses
    end = node + int(tree.size[node])
    if not (now == 0 or world.is_old[now] or masses[now] > 0.0):
        if (tree.parent == now).sum() == 1:
            return world  # its parent would have nothing left
    rows = np.flatnonzero(world.place == node)
    total = np.asarray(world.rows.X[rows].sum(axis=0, dtype=np.float64)).ravel()
    natural = world.natural_without_rows(node) - world.prior_natural(node)
    natural += world.concentration * total
    squares = natural @ natural + world.pull**2
    squares = squares + 2.0 * world.pull * (world.directions @ natural)
    scores = -log_normaliser_gain(np.maximum(squares, 0.0), world.dimension)
    scores[node:end] = -np.inf
    shares = np.exp(scores - scores.max())
    chosen = int(rng.choice(len(shares), p=shares / shares.sum()))
    if chosen != now:
        edited = tree.move(int(tree.ids[node]), int(tree.ids[chosen]))
        after = world.log_prior_in(edited, masses[tree.positions(edited.ids)])
        if np.log(rng.random()) < after - world.log_prior():
            place = edited.positions(tree.ids)[world.place].astype(np.int32)
            above = world.directions[chosen]
            world = world.edited(edited, place)
            at = int(edited.positions(tree.ids[node]))
            world.directions[at] = draw_natural(natural + world.pull * above, rng)
            return world
    parent = world.directions[now]
    world.directions[node] = draw_natural(natural + world.pull * parent, rng)
    return world
