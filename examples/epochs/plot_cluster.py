"""
Trees of rows that stay in files
================================

:class:`skbnp.dask.DependentTrees` learns from blocks of rows that are never together in
one place: here from files, which the workers of a small cluster read. The result does
not depend on the workers, and survives their loss.
"""

# %%
# Rows in files
# -------------
# Rows of four epochs go to twelve files, as :func:`scipy.sparse.save_npz` writes them,
# with the labels of their epochs beside. Files need not agree with epochs.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster

import skbnp
from skbnp.callbacks import Checkpoint
from skbnp.dask import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.inspection import EpochTreeDisplay

lifetimes = [(0, 3)] * 10
lifetimes[5] = (2, 3)  # a leaf begins in the third epoch
corpus = make_dependent_trees(500, n_epochs=4, lifetimes=lifetimes, random_state=0)
folder = Path(tempfile.mkdtemp())
for number, rows in enumerate(np.array_split(np.arange(len(corpus.epochs)), 12)):
    X = sp.csr_array(corpus.data[rows])
    np.savez(
        folder / f"rows-{number:02d}.npz",
        data=X.data,
        indices=X.indices,
        indptr=X.indptr,
        shape=X.shape,
        format=b"csr",
        epochs=corpus.epochs[rows],
    )

# %%
# A cluster
# ---------
# Two workers, threads of this process: enough to see how it is done. A script would
# have processes (``processes=True``), or the address of a scheduler in the place of the
# cluster. What is learned is written to a file after each pass.

files, checkpoint = str(folder / "rows-*.npz"), Checkpoint(folder / "fit.skbnp")
with (
    LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster,
    Client(cluster) as client,
):
    trees = DependentTrees(client=client, random_state=0).set_callbacks(checkpoint)
    trees.fit(files)
    # Lazy: workers do it when somebody asks.
    shares = trees.transform(files)
    score = float(trees.score(files))
print(trees.tree_)
print(f"{score:.2f} nats per row over the uniform density")
print(shares)

# %%
# Each line is a topic, indented below its parent; each column is an epoch. One begins
# in the third epoch, as it was planted.

EpochTreeDisplay.from_estimator(trees)
plt.show()

# %%
# The same bits
# -------------
# Without a cluster the same files lead to the same bits, and the file of the fit has
# them, too:

alone = DependentTrees(random_state=0).fit(files)
again = skbnp.load(checkpoint.path)
print(np.array_equal(alone.components_, trees.components_))
print(np.array_equal(again.components_, trees.components_))
