"""Generator of rows on the sphere from a tree of directions that drift over epochs."""

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from skbnp.datasets._generators import _paths
from skbnp.distributions.von_mises_fisher import draw
from skbnp.trees import TreeView
from skbnp.utils.random import Purpose, draw_seed_entropy, stream
from skbnp.utils.typing import RandomStateLike
from skbnp.utils.validation import Interval, validate_params

_NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
_AT_LEAST_TWO = Interval(Integral, 2, None, closed="left")

_DESCR = """\
{n_rows} unit vectors of {n_features} features, {n_samples} in each of {n_epochs}
epochs, around the {n_nodes} directions of a tree: those of children are near their
parents', and each is near where it was in the epoch before."""


@validate_params(
    {
        "n_samples": [_AT_LEAST_ONE],
        "n_epochs": [_AT_LEAST_ONE],
        "n_features": [_AT_LEAST_TWO],
        "branching": ["array-like"],
        "concentration": [_NOT_NEGATIVE],
        "prior_concentration": [_NOT_NEGATIVE],
        "parent_weight": [_NOT_NEGATIVE],
        "past_weight": [_NOT_NEGATIVE],
        "lifetimes": ["array-like", None],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_dependent_trees(
    n_samples: int = 400,
    *,
    n_epochs: int = 1,
    n_features: int = 40,
    branching: Sequence[int] = (3, 2),
    concentration: float = 120.0,
    prior_concentration: float = 100.0,
    parent_weight: float = 1.0,
    past_weight: float = 3.0,
    lifetimes: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw rows on the sphere from a tree of directions that drifts over epochs.

    ::

        theta_i^t ~ vMF of natural parameter kappa_0 (k_1 theta_p^t + k_2 theta_i^(t-1))
        z_n ~ Uniform(nodes there in epoch t)          the node of row n
        x_n ~ vMF(theta_z^t, beta)

    where p is the parent of node i; the root has a uniform direction at first, and
    where a node was not there in the epoch before its second part is missing.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows of each epoch. The first rows of an epoch do not depend on it.
    n_epochs : int, default=1
        Number of epochs.
    n_features : int, default=40
        Dimension of the rows (V), 2 or more.
    branching : sequence of int, default=(3, 2)
        Number of children of each node, level by level from the root.
    concentration : float, default=120.0
        Of rows around their direction (beta), >= 0; larger values bring them closer.
    prior_concentration : float, default=100.0
        Of directions around their parents and their past (kappa_0), >= 0; larger values
        make children more alike their parents, and epochs more alike.
    parent_weight, past_weight : float, default=1.0 and 3.0
        Shares of the parent (k_1) and of the past (k_2) in the former, >= 0. With
        k_2 = 1 a third of the directions are nearer to the past of another node than to
        their own, and names are uncertain even for known parameters.
    lifetimes : array-like of int of shape (n_nodes, 2), default=None
        First and last epoch of each node, depth-first; a parent is there as long as its
        children are. `None` is all epochs.
    random_state : int, RandomState instance or None, default=None
        Determines the draw. Pass an int for the same rows at every call.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : ndarray of shape (n_epochs * n_samples, n_features)
            Rows of length one, epoch by epoch.
        epochs : ndarray of int of shape (n_epochs * n_samples,)
            Epoch of each row.
        target : ndarray of int of shape (n_epochs * n_samples,)
            Node of each row (z), a row of the tree.
        tree : :class:`~skbnp.trees.TreeView`
            The tree, depth-first. The weight of a node is the share of rows at it or
            below.
        directions : ndarray of shape (n_epochs, n_nodes, n_features)
            Of each node in each epoch (theta); zero where it is not there.
        DESCR : str
            Description of the rows.

    Raises
    ------
    InvalidParameterError
        A `ValueError`, if a parameter is outside of its domain.
    ValueError
        If `branching` holds anything but positive integers, or `lifetimes` are not
        those of a tree within the epochs.

    Notes
    -----
    The emissions of [1]_, given the tree. **Departures from the paper.** Its sticks are
    left out: all nodes that are there are as probable.

    References
    ----------
    .. [1] Z. Hu, Q. Ho, A. Dubey and E. P. Xing, "Large-scale distributed dependent
       nonparametric trees", International Conference on Machine Learning, 2015.

    Examples
    --------
    >>> from skbnp.datasets import make_dependent_trees
    >>> corpus = make_dependent_trees(50, n_epochs=3, random_state=0)
    >>> corpus.tree
    TreeView(n_nodes=10, n_leaves=6, max_depth=2)
    >>> corpus.data.shape, corpus.directions.shape
    ((150, 40), (3, 10, 40))
    """
    entropy = draw_seed_entropy(random_state)
    paths = _paths(branching)
    parent = np.full(paths[-1, -1] + 1, -1)
    parent[paths[:, 1:]] = paths[:, :-1]
    spans = _spans(lifetimes, parent, n_epochs)
    directions = np.zeros((n_epochs, len(parent), n_features))
    target = np.empty((n_epochs, n_samples), dtype=np.intp)
    data = np.empty((n_epochs, n_samples, n_features))
    rng = stream(entropy, Purpose.START)
    for epoch in range(n_epochs):
        past = directions[epoch - 1] if epoch else np.zeros_like(directions[0])
        there = (spans[:, 0] <= epoch) & (epoch <= spans[:, 1])
        for node in np.flatnonzero(there):
            natural = past_weight * past[node]
            if node > 0:
                natural = natural + parent_weight * directions[epoch, parent[node]]
            directions[epoch, node] = _draw_natural(prior_concentration * natural, rng)
        rows = stream(entropy, Purpose.SOME_DOCS, epoch)
        for row in range(n_samples):
            node = rows.choice(np.flatnonzero(there))
            target[epoch, row] = node
            data[epoch, row] = draw(directions[epoch, node], concentration, 1, rows)[0]
    weight = np.bincount(target.ravel(), minlength=len(parent)) / target.size
    for below in range(len(parent) - 1, 0, -1):
        weight[parent[below]] += weight[below]
    return Bunch(
        data=data.reshape(-1, n_features),
        epochs=np.repeat(np.arange(n_epochs), n_samples),
        target=target.ravel(),
        tree=TreeView(parent, weight),
        directions=directions,
        DESCR=_DESCR.format(
            n_rows=target.size,
            n_features=n_features,
            n_samples=n_samples,
            n_epochs=n_epochs,
            n_nodes=len(parent),
        ),
    )


def _draw_natural(natural: NDArray, rng: np.random.Generator) -> NDArray:
    """Draw a unit vector by its natural parameter; uniformly if that is zero."""
    strength = float(np.linalg.norm(natural))
    mean = natural / strength if strength > 0.0 else np.eye(len(natural))[0]
    return draw(mean, strength, 1, rng)[0]


def _spans(lifetimes: ArrayLike | None, parent: NDArray, n_epochs: int) -> NDArray:
    """First and last epoch of each node."""
    if lifetimes is None:
        return np.tile([0, n_epochs - 1], (len(parent), 1))
    spans = np.asarray(lifetimes)
    if (
        spans.shape != (len(parent), 2)
        or spans.dtype.kind not in "iu"
        or (spans[:, 0] > spans[:, 1]).any()
        or spans.min() < 0
        or spans.max() >= n_epochs
        or (spans[0] != [0, n_epochs - 1]).any()
        or (spans[parent[1:], 0] > spans[1:, 0]).any()
        or (spans[parent[1:], 1] < spans[1:, 1]).any()
    ):
        raise ValueError(
            f"lifetimes must hold the first and the last epoch, of {n_epochs}, of each "
            f"of {len(parent)} nodes, the root in all, parents as long as their "
            f"children, got {lifetimes!r}."
        )
    return spans
