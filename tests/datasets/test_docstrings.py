import gzip
import importlib
import inspect
import json
import warnings

import numpy as np
import pytest
import scipy
import sklearn

from skbnp.datasets import _loaders, load_docstrings

FEW = {"numpy.sum": "Sum of array elements.", "scipy.stats.norm": "A normal."}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def corpus(home):
    """One load from scratch, which lets no warning escape."""
    with warnings.catch_warnings(action="error"):
        return load_docstrings(data_home=home)


@pytest.fixture
def few(monkeypatch):
    """A collection of two documents that counts how often it is asked for."""
    calls = []

    def collect():
        calls.append(1)
        return dict(FEW)

    monkeypatch.setattr(_loaders, "_collect", collect)
    return calls


# The documents


def test_the_three_libraries_give_thousands_of_documents(corpus):
    assert len(corpus.data) > 2500
    assert {name.partition(".")[0] for name in corpus.names} == {
        "numpy",
        "scipy",
        "sklearn",
    }


def test_every_document_is_the_docstring_of_its_name(corpus):
    for name, text in zip(corpus.names, corpus.data, strict=True):
        module, _, attribute = name.rpartition(".")
        member = getattr(importlib.import_module(module), attribute)
        assert inspect.cleandoc(member.__doc__).strip() == text


def test_functions_ufuncs_distributions_and_classes_are_documents(corpus):
    names = {"numpy.sin", "numpy.ndarray", "scipy.stats.norm", "scipy.stats.qmc.Sobol"}
    assert names | {"sklearn.metrics.pairwise.cosine_similarity"} <= {*corpus.names}


def test_modules_are_public_and_hold_no_tests(corpus):
    parts = {part for path in corpus.module_paths for part in path.split(".")}
    assert not any(part.startswith("_") for part in parts)
    assert not parts & {"tests", "conftest", "externals", "core", "distutils"}


def test_versions_and_description_name_the_libraries(corpus):
    assert corpus.versions == {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
    }
    assert f"scipy {scipy.__version__}" in corpus.DESCR
    assert f"{len(corpus.data)} documents" in corpus.DESCR


# Options


def test_return_X_y_gives_data_and_target(corpus, home):
    data, target = load_docstrings(data_home=home, return_X_y=True)
    assert data == corpus.data
    np.testing.assert_array_equal(target, corpus.target)


NUMPYDOC = """Add numbers.

Notes
-----
See [1]_.

References
----------
.. [1] A. Author,
   "Title".

.. [2] Another.

Examples
--------
One example:

>>> add([1,
...      2])
3

Some text.

>>> add([])
0"""


@pytest.mark.parametrize(
    ("part", "left"),
    [
        (
            "code",
            NUMPYDOC.replace(">>> add([1,\n...      2])\n3\n", "").replace(
                ">>> add([])\n0", ""
            ),
        ),
        (
            "references",
            NUMPYDOC[: NUMPYDOC.index("References")]
            + NUMPYDOC[NUMPYDOC.index("Examples") :],
        ),
    ],
)
def test_remove_takes_nothing_else(monkeypatch, tmp_path, part, left):
    monkeypatch.setattr(_loaders, "_collect", lambda: {"numpy.add": NUMPYDOC})
    assert load_docstrings(data_home=tmp_path, remove=(part,)).data == [left]


@pytest.mark.parametrize(
    ("name", "value"), [("data_home", 3), ("remove", "code"), ("return_X_y", "yes")]
)
def test_parameter_outside_its_domain_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of load_docstrings"):
        load_docstrings(**{name: value})


# The cache


def test_second_load_reads_the_cache(few, tmp_path):
    first, second = (load_docstrings(data_home=tmp_path) for _ in range(2))
    assert len(few) == 1
    assert first.data == second.data == list(FEW.values())
    assert first.names == second.names == list(FEW)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        gzip.compress(b"[1, 2", mtime=0)[:-9],
        gzip.compress(b"no json", mtime=0),
        gzip.compress(b"[]", mtime=0),
        gzip.compress(json.dumps({"numpy.sum": 1}).encode(), mtime=0),
    ],
)
def test_corrupt_cache_is_rebuilt(few, tmp_path, content):
    load_docstrings(data_home=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(content)
    assert load_docstrings(data_home=tmp_path).names == list(FEW)
    assert len(few) == 2
    assert path.read_bytes() == whole
