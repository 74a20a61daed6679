"""Random epochs of dependent trees, and what tests read of them."""

import numpy as np
import scipy.sparse as sp

from reference import dependent_trees as reference
from skbnp.distributions import draw
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.trees import Tree

#: 0 above 1, 5, 3; 1 above 2, 6; 5 above 4; nothing below 3. Ids are not positions.
TREE = Tree([0, 1, 2, 6, 5, 4, 3], [0, 1, 2, 2, 1, 2, 1])
PRIORS = TreePriors(0.7, 0.4, 1.1, 0.8)
DIMENSION = 6


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def random_state(rng, tree=TREE, dimension=DIMENSION, *, past=True):
    n = len(tree)
    eta = rng.gamma(2.0, 20.0, size=n)
    ratio = reference.bessel_ratio(eta, dimension)[:, None]
    previous = unit(rng.standard_normal((n, dimension)))
    was_there = past & (np.arange(n) != 2)
    return EpochState(
        tree,
        rng.gamma(1.0, 5.0, size=n),
        rng.gamma(1.0, 3.0, size=n) * past,
        ratio * unit(rng.standard_normal((n, dimension))),
        eta,
        previous,
        np.where(was_there, rng.permutation(n), -1),
        unit(rng.random(dimension)),
        unit(rng.random(dimension)),
        30.0,
        12.0,
    )


def random_rows(rng, n_rows=120, dimension=DIMENSION, topics=None):
    """Rows from some topics; the first is empty."""
    if topics is None:
        topics = unit(rng.standard_normal((5, dimension)))
    rows = np.vstack(
        [draw(topic, 20.0, n_rows // len(topics), rng) for topic in topics]
    )
    rows[0] = 0.0
    return sp.csr_array(rows.astype(np.float32))


def stats_of(q, rows):
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(q > 0.0, q * np.log(q), 0.0).sum(axis=0)
    return EpochStats(q.sum(axis=0), sp.csr_array(q.T @ rows.astype(float)), entropy)


def pairs_of(tree):
    """All pairs that may merge: siblings, and a child into its parent."""
    for source in range(1, len(tree)):
        above = tree.parent[source]
        yield tree.ids[source], tree.ids[above]
        for target in range(1, len(tree)):
            if target != source and tree.parent[target] == above:
                yield tree.ids[source], tree.ids[target]


def pasts_of(state):
    """Directions in the epoch before, as `means`, zero of new nodes."""
    result, old = np.zeros_like(state.means), state.places_with_past
    result[old] = state.previous[state.past[old]]
    return result
