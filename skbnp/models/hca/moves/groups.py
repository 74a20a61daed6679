"""Move of component analysis: leaves that start with the means of groups of rows."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skbnp.models.hca.model import Model
from skbnp.models.hca.moves.proposals import Context, Proposal
from skbnp.models.hca.start import principal_directions
from skbnp.models.hca.state import State
from skbnp.utils.clusters import cluster_rows
from skbnp.utils.random import some_rows
from skbnp.utils.typing import Array

#: Numbers of groups that are tried.
SIZES = (2, 3, 4, 5, 6, 8, 11, 16, 23, 32)
#: Standard deviations from the centre at which a group begins, at most.
FARTHEST = 30.0


def propose_groups(context: Context, n_groups: int) -> Proposal | None:
    """Propose a leaf for each of `n_groups` k-means groups of rows of a single path.

    The directions above are those in which rows of a group differ: beside principal
    directions of all rows no group could have another mean. The loading of a leaf is
    the mean of its group, which is as many standard deviations away.
    """
    tree, model = context.tree, context.model
    if model.n_levels == 1 or len(tree) < model.n_levels:
        return None
    leaf, parent = tree.ids[-1:-3:-1].tolist()
    everyone = np.arange(context.memo.n_rows)
    rows = some_rows(everyone, context.rng)
    if len(rows) < 2 * n_groups:
        return None
    rest = context.rest(rows)
    labels = cluster_rows(rest, n_groups, context.rng)
    sizes = np.bincount(labels).astype(np.float64)
    if len(sizes) < 2:
        return None
    means = np.stack(
        [rest[labels == group].mean(axis=0) for group in range(len(sizes))]
    )
    within = rest - means[labels]
    new = tree
    for _ in sizes[1:]:
        new = new.add(parent)
    fresh = np.arange(tree.next_id, new.next_id)
    edited = context.state.reindex_to(new)
    path = new.positions(tree.path_to(parent))
    edited = _within_groups(model, edited, path, within)
    noise = 1.0 / edited.precision
    at = new.positions(np.append(leaf, fresh))
    lengths = np.maximum(np.linalg.norm(means, axis=1), 1e-300)
    along = np.einsum("ij,ij->i", within, means[labels] / lengths[labels, None]) ** 2
    spreads = np.bincount(labels, along) / sizes
    spreads = np.sqrt(np.maximum(spreads - noise, 0.25 * noise))
    spreads = np.maximum(spreads, lengths / FARTHEST)
    masses = sizes * (len(everyone) / len(rows))
    edited.centres[at] = lengths / spreads
    edited.loadings[at] = means * (spreads / lengths)[:, None]
    edited.stub_masses[at] = masses
    squares = masses * (1.0 + edited.centres[at] ** 2)
    edited.loading_variances[at] = 1.0 / (
        1.0 / model.loading_variance + edited.precision * squares
    )
    edited.centre_variances[at] = 1.0 / (1.0 / model.centre_variance + masses)
    names = tuple(fresh.tolist())
    return Proposal(
        "split", (leaf,), (leaf, *names), edited, everyone, top=0, fresh=names[0]
    )


def _within_groups(model: Model, state: State, path: NDArray, within: Array) -> State:
    """Give a path the directions in which rows of a group differ, and their noise."""
    n_rows, n_features = within.shape
    n_directions = min(len(path), n_features - 1)
    proposals = principal_directions(within, n_directions)
    squares = np.sum(proposals**2, axis=1)
    left = max(float(np.vdot(within, within)) / n_rows - float(squares.sum()), 0.0)
    noise = left / (n_features - n_directions)
    loadings, centres = state.loadings.copy(), state.centres.copy()
    loadings[path], centres[path] = 0.0, 0.0
    share = np.maximum(1.0 - noise / np.maximum(squares, 1e-300), 0.0)
    loadings[path[:n_directions]] = proposals * np.sqrt(share)[:, None]
    rate = model.noise_rate + noise * (state.noise_shape - model.noise_shape)
    return replace(state, loadings=loadings, centres=centres, noise_rate=rate)
