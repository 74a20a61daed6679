"""Corpora: drawn from a model, found on the machine, or read from files."""

from skbnp.datasets._generators import (
    make_bars,
    make_dependent_trees,
    make_hdp,
    make_subspace_tree,
    make_tree,
)
from skbnp.datasets._loaders import load_docstrings, load_ldac, load_uci_bag_of_words

__all__ = [
    "load_docstrings",
    "load_ldac",
    "load_uci_bag_of_words",
    "make_bars",
    "make_dependent_trees",
    "make_hdp",
    "make_subspace_tree",
    "make_tree",
]
