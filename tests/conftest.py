"""What all tests share: seeds, corpora, one thread per library."""

import os

# Before NumPy, SciPy and matplotlib are imported for the first time: scikit-learn's
# checks of array-API input run only then, and threads are ours to count.
os.environ["SCIPY_ARRAY_API"] = "1"
for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM"):
    os.environ.setdefault(f"{_name}_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from checks.corpora import topic_counts
from skbnp.models.hdp import cross_fit
from skbnp.rows import batch

# Small corpora stand for large ones: they too are cut into several blocks.
batch.LEAST_WORK = 1


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


@pytest.fixture
def one_split(monkeypatch):
    """Let one split of few documents judge numbers of topics, not each of five or ten.

    HDP with passes enough for trials, and the flat fit that a nested HDP starts from,
    take a tenth of the time; `monkeypatch.undo()` has all splits again.
    """
    monkeypatch.setattr(cross_fit, "FEWEST_DOCS", 10_000)


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
def tiny_counts():
    """Four documents over five words: an empty one, repeated words, a single token."""
    return np.array(
        [[0, 0, 0, 0, 0], [3, 1, 0, 0, 0], [0, 0, 2, 5, 1], [0, 0, 0, 0, 1]],
        dtype=float,
    )


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
