"""Fits of some milliseconds on blocks, which workers of a script may learn."""

from functools import cache, partial
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from skbnp.callbacks import Checkpoint
from skbnp.dask import HDP, DependentTrees
from skbnp.datasets import make_bars, make_dependent_trees
from skbnp.estimators import EpochMoves, SplitMerge
from skbnp.models.dependent_trees import updates

CHUNKS = (25, 0, 40, 30, 25)

#: With births, reductions and passes over everything.
HDP_SETTINGS = {
    "n_components": 6,
    "max_iter": 11,
    "warm_up": 1,
    "batch_size": 60,
    "random_state": 0,
    "split_merge": SplitMerge(trial_passes=1),
}
BARS = make_bars(120, n_words=16, random_state=0).data
COUNTS = sp.lil_array(sp.csr_array(BARS).astype(np.float64))
COUNTS[[3, 70]] = 0.0
COUNTS = sp.csr_array(COUNTS)

TREE_SETTINGS = {
    "max_iter": 3,
    "tol": 0.0,
    "random_state": 0,
    "structure_moves": EpochMoves(max_births=2, birth_rounds=4),
}
CORPUS = make_dependent_trees(60, n_epochs=2, n_features=12, random_state=0)


def blocks_of(rows):
    """Blocks of the sizes of the chunks."""
    limits = np.cumsum((0, *CHUNKS))
    return [rows[begin:end] for begin, end in pairwise(limits)]


def chunked(array, chunks=CHUNKS):
    """A Dask array of such chunks, sparse if it has two dimensions."""
    if array.ndim == 1:
        return da.from_array(array, chunks=(chunks,))
    blocks = da.from_array(array, chunks=(chunks, (array.shape[1],)))
    return blocks.map_blocks(sp.csr_array, meta=sp.csr_array((0, array.shape[1])))


X, EPOCHS = chunked(CORPUS.data), chunked(CORPUS.epochs)


def fit_hdp(path=None, rows=COUNTS, **settings):
    hdp = HDP(**HDP_SETTINGS | settings)
    if path is not None:
        hdp.set_callbacks(Checkpoint(path))
    return hdp.fit(blocks_of(rows))


def fit_trees(path=None, rows=X, **settings):
    """Begin with fewer clusters than there are nodes, for births."""
    trees = DependentTrees(**TREE_SETTINGS | settings)
    if path is not None:
        trees.set_callbacks(Checkpoint(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(updates, "n_clusters_for", lambda n_rows: 4)
        return trees.fit(rows, epochs=EPOCHS)


FITS = {
    "HDP": fit_hdp,
    "HDP-mean-field": partial(fit_hdp, variational_family="mean_field"),
    "HDP-batch": partial(fit_hdp, learning_method="batch"),
    "DependentTrees": fit_trees,
    "DependentTrees-still": partial(fit_trees, structure_moves=False),
}


@cache
def undisturbed(name, **settings):
    """A fit in this process."""
    return FITS[name](**settings)


def assert_same_fit(one, other):
    assert_array_equal(one.components_, other.components_)
    assert_array_equal(one.component_ids_, other.component_ids_)
    assert one.lineage_ == other.lineage_
    assert (one.converged_, one.n_iter_) == (other.converged_, other.n_iter_)
    if hasattr(one, "epochs_"):
        assert list(one.epochs_) == list(other.epochs_)
        assert one.elbo_ == other.elbo_
    else:
        assert_array_equal(one.topic_weights_, other.topic_weights_)
    for name, values in one.history_.items():
        if name != "seconds":
            assert_array_equal(values, other.history_[name])
