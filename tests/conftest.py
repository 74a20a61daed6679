"""What all tests share: seeds, corpora, one thread per library."""

import os

# Before NumPy, SciPy and matplotlib are imported for the first time: scikit-learn's
# checks of array-API input run only then, and threads are ours to count.
os.environ["SCIPY_ARRAY_API"] = "1"
for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"

from pathlib import Path

import pytest
import scipy.sparse as sp

from checks.corpora import topic_counts
from skbnp.models.hdp import cross_fit
from skbnp.rows import batch
from skbnp.utils.sklearn import IS_NEW

# Small corpora stand for large ones: they too are cut into blocks, three at
# least where eight are usual, and one split of the documents judges numbers of topics,
# not each of five or ten. So HDP, with passes enough for trials, takes a tenth of
# the time.
batch.LEAST_WORK, batch.BLOCKS_PER_BATCH = 1, 3
_FEWEST_DOCS, cross_fit.FEWEST_DOCS = cross_fit.FEWEST_DOCS, 10**9


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let a worker run tests in their order, so that fits of a module are made once."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def _skip_before_new(item):
    """Skip what needs callbacks, or names of frames, that scikit-learn lacks."""
    try:
        return (yield)
    except (ImportError, TypeError) as error:
        if "scikit-learn>=1.9" in str(error):
            pytest.skip(str(error))
        raise


if not IS_NEW:  # from 1.9 on these errors fail a test
    pytest_runtest_setup = pytest.hookimpl(wrapper=True)(_skip_before_new)
    pytest_runtest_call = pytest.hookimpl(wrapper=True)(_skip_before_new)


def _seeds():
    """Seeds named by SKBNP_TEST_SEEDS: "7", "0-99" or "0-9,42"."""
    seeds = []
    for part in os.environ.get("SKBNP_TEST_SEEDS", "0").split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


@pytest.fixture(params=_seeds(), ids=lambda seed: f"seed{seed}")
def seed(request):
    """0, or each seed of the sweep that SKBNP_TEST_SEEDS asks for."""
    return request.param


def _all_splits():
    """Let each split of few documents judge numbers of topics, as it is for users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fit, "FEWEST_DOCS", _FEWEST_DOCS)
        yield


all_splits = pytest.fixture(_all_splits)
all_splits_in_module = pytest.fixture(_all_splits, scope="module")


@pytest.fixture
def one_split():
    """Let one split judge in a test that takes long, too."""


@pytest.fixture(autouse=True)
def _as_users_fit(request):
    """All splits judge in tests that take long, but for those of `one_split`."""
    is_long = any(map(request.node.get_closest_marker, ("long", "weekly")))
    if is_long and "one_split" not in request.fixturenames:
        request.getfixturevalue("all_splits")


@pytest.fixture
def counts():
    """60 documents over 24 words from 3 topics, a csr_array; yours to change."""
    return topic_counts(60, 24)


@pytest.fixture
def corpus_with_empty_rows():
    """A corpus whose first, last and several inner documents are empty."""
    X = topic_counts(30, 24)
    empty = sp.csr_array((1, 24))
    return sp.vstack([empty, X[:7], empty, empty, X[7:], empty], format="csr")


@pytest.fixture
def data_folder():
    """Folder named by SKBNP_DATA."""
    folder = os.environ.get("SKBNP_DATA")
    if folder is None:
        pytest.skip("SKBNP_DATA names no folder of corpora")
    return Path(folder)


@pytest.fixture
def corpus(data_folder):
    """Load ``<name>.npz`` from the folder named by SKBNP_DATA."""

    def load(name):
        return sp.csr_array(sp.load_npz(data_folder / f"{name}.npz"))

    return load
