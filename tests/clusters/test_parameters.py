"""Parameters of estimators on a cluster are documented as those of the local ones."""

import inspect

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import skbnp
import skbnp.dask
from skbnp.dask._base import ShardedMixin
from test_docstrings import CHECKED

#: What differs on a cluster, and has entries of its own.
OWN = {
    "HDP": {
        "learning_method",
        "split_merge",
        "batch_size",
        "total_samples",
        "random_state",
        "shards_per_round",
        "n_iter_",
    },
    "DependentTrees": {
        "structure_moves",
        "batch_size",
        "random_state",
        "shards_per_round",
    },
}


def entries(kind):
    sections = NumpyDocString(inspect.cleandoc(kind.__doc__))
    return {entry.name: entry for entry in sections["Parameters"]} | {
        entry.name: entry for entry in sections["Attributes"]
    }


@pytest.mark.parametrize("name", OWN)
def test_entries_are_those_of_the_local_estimator_and_of_clusters(name):
    kind, local = getattr(skbnp.dask, name), getattr(skbnp, name)
    ours, theirs = entries(kind), entries(local) | entries(ShardedMixin)
    same = [one for one in ours if one not in OWN[name]]
    assert [ours[one] for one in same] == [theirs[one] for one in same]
    assert all(ours[one] != theirs[one] for one in OWN[name])
    documented = {word for one in ours for word in one.split(", ")}
    assert set(inspect.signature(kind).parameters) <= documented


@pytest.mark.parametrize("name", OWN)
def test_docstring_on_a_cluster_is_complete(name):
    errors = validate(f"skbnp.dask.{name}")["errors"]
    assert not [error for error in errors if error[0] in CHECKED]
