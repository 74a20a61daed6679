"""Rows in blocks of all kinds, read as one matrix each."""

import inspect

import dask.array as da
import dask.bag as db
import numpy as np
import pytest
import scipy.sparse as sp
from dask import delayed
from numpy.testing import assert_array_equal
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import skbnp
import skbnp.dask
from skbnp.dask._base import LocalSession, ShardedMixin
from skbnp.dask._inputs import blocks_of, computed, is_lazy, read_block
from test_docstrings import CHECKED

X = np.arange(24.0).reshape(8, 3) % 5
LABELS = np.array([0, 0, 0, 1, 1, 1, 1, 2])
CUTS = [slice(0, 3), slice(3, 3), slice(3, 6), slice(6, 8)]
PARTS = [X[cut] for cut in CUTS]
LABEL_PARTS = [LABELS[cut] for cut in CUTS]


def save(folder, with_labels=True):
    for number, (part, labels) in enumerate(zip(PARTS, LABEL_PARTS, strict=True)):
        matrix = sp.csr_array(part)
        more = {"epochs": labels} if with_labels else {}
        np.savez(
            folder / f"part-{number}.npz",
            data=matrix.data,
            indices=matrix.indices,
            indptr=matrix.indptr,
            shape=matrix.shape,
            format=b"csr",
            **more,
        )
    return [folder / f"part-{number}.npz" for number in range(len(PARTS))]


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def read_all(rows, epochs=None):
    """Rows and labels of all blocks that have any."""
    result = [read_block(*pair) for pair in computed(blocks_of(rows, epochs))]
    assert len(result) >= 3
    kept = [pair for pair in result if pair[0] is not None]
    assert all(rows.shape[0] for rows, _ in kept)
    together = np.vstack([dense(rows) for rows, _ in kept])
    if kept[0][1] is None:
        return together, None
    return together, np.concatenate([labels for _, labels in kept])


def arrays():
    array = da.from_array(X, chunks=((3, 0, 3, 2), (3,)))
    labels = da.from_array(LABELS, chunks=((3, 0, 3, 2),))
    yield array, labels
    yield array.map_blocks(sp.csr_array), labels
    yield da.from_array(X, chunks=((3, 0, 3, 2), (2, 1))), labels
    everything = da.ones(8, chunks=((3, 0, 3, 2),)) > 0.0
    yield array[everything], LABEL_PARTS  # of unknown size


def lists():
    yield [sp.csr_matrix(part) for part in PARTS], LABEL_PARTS
    yield PARTS, LABEL_PARTS
    yield PARTS, LABELS
    yield [da.from_array(X[:3]), da.from_array(X[3:], chunks=(3, 3))], LABELS
    yield [delayed(sp.csr_array)(part) for part in PARTS], LABEL_PARTS
    yield [delayed(part) for part in PARTS], [delayed(part) for part in LABEL_PARTS]
    yield db.from_delayed([delayed(list)(part) for part in PARTS]), LABEL_PARTS
    matrices = [delayed([sp.csr_array(part)]) for part in PARTS]
    yield db.from_delayed(matrices), [delayed(part) for part in LABEL_PARTS]
    yield db.from_sequence(list(X), npartitions=4), None


@pytest.mark.parametrize(("rows", "labels"), [*arrays(), *lists()])
def test_blocks_are_read(rows, labels):
    assert is_lazy(rows)
    result, kinds = read_all(rows, labels)
    assert_array_equal(result, X)
    if labels is not None:
        assert_array_equal(kinds, LABELS)


def test_files_are_read_by_name_and_by_pattern(tmp_path):
    names = save(tmp_path)
    for given in (names, list(map(str, names)), str(tmp_path / "part-*.npz")):
        result, labels = read_all(given)
        assert_array_equal(result, X)
        assert_array_equal(labels, LABELS)
    # Labels that are given come first.
    assert_array_equal(
        read_all(names, [7 + part for part in LABEL_PARTS])[1], LABELS + 7
    )
    save(tmp_path, with_labels=False)
    assert read_all(names)[1] is None


@pytest.mark.parametrize(
    ("rows", "epochs", "message"),
    [
        ("/nowhere/*.npz", None, "No file matches"),
        (da.ones(3), None, "two dimensions"),
        (da.ones((6, 2), chunks=(2, 2)), [0, 1], "each of 3 blocks"),
        (
            da.ones((6, 2), chunks=(2, 2)),
            da.ones(5, chunks=3),
            "each of 3 blocks .* each of 6 rows, got 5",
        ),
        (
            da.ones((6, 2), chunks=(2, 2)),
            db.from_sequence([1, 2]),
            "each of 6 rows, got 2",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(rows, epochs, message):
    with pytest.raises(ValueError, match=message):
        blocks_of(rows, epochs)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [([(2, 3), (2, 4)], "block 0 has 3, block 1 has 4"), ([(0, 3)] * 2, "no rows")],
)
def test_blocks_have_the_same_columns(shapes, message):
    blocks = blocks_of([sp.csr_array(shape) for shape in shapes])
    with pytest.raises(ValueError, match=message):
        LocalSession(blocks, lambda rows, labels: {0: rows})


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


def test_labels_that_are_given_replace_those_of_files(tmp_path):
    paths = save(tmp_path, with_labels=False)
    for path in paths:
        np.savez(path, epochs=np.array([{}], dtype=object), **np.load(path))
    rows, labels = read_all(paths, LABEL_PARTS)
    assert_array_equal(rows, X)
    assert_array_equal(labels, LABELS)
