"""Trees over epochs: a topic is born, and another has no rows any more."""

import numpy as np

from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.inspection import EpochTreeDisplay

lifetimes = np.tile([0, 5], (10, 1))
lifetimes[9, 0], lifetimes[6, 1] = 2, 2  # a leaf that begins, and one that ends
corpus = make_dependent_trees(
    300, n_epochs=6, lifetimes=lifetimes, past_weight=3.0, random_state=0
)
trees = DependentTrees(random_state=0)
trees.fit(corpus.data, epochs=corpus.epochs)
names = [f"column {number}" for number in range(corpus.data.shape[1])]
EpochTreeDisplay.from_estimator(trees, names, n_terms=3)
