"""Start of component analysis: one path of principal directions, from the root down."""

import numpy as np
from numpy.typing import NDArray

from skbnp.models.hca.model import Model
from skbnp.models.hca.state import State
from skbnp.trees import Tree
from skbnp.utils.random import some_rows
from skbnp.utils.typing import Array


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
