"""A damaged file gives an error or an answer, never the end of the process."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from checks.estimators import INSTANCES
from skbnp import HDP

TESTS = Path(__file__).parents[1]
#: States for each; SKBNP_TEST_DAMAGES asks for more.
N_STATES = int(os.environ.get("SKBNP_TEST_DAMAGES", "15"))
#: Whose states are damaged.
DAMAGED = (
    "HDP-online",
    "HDP-mean-field-online",
    "StickBreakingHDP-online",
    "NestedCRP-batch",
    "GibbsHDP",
    "GibbsNestedCRP-chains",
    "HierarchicalComponentAnalysis",
)


@pytest.mark.long
def test_damaged_state_neither_crashes_nor_hangs(seed):
    runner = [sys.executable, "-m", "checks.damage_runner"]
    first = seed * N_STATES
    done = subprocess.run(
        [*runner, str(first), str(first + N_STATES), *DAMAGED],
        cwd=TESTS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    for name, line in zip(DAMAGED, lines, strict=True):
        refused, failed, answered = map(int, line.split())
        assert refused + failed + answered == N_STATES, name
        assert refused > 0, name  # shapes and ranges
        assert answered > 0, name  # what does not matter


def _cut(counts):
    counts.indptr = counts.indptr[:0]


def _point_beyond(counts):
    counts.indices[0] = 10**6


def _end_at_nothing(counts):
    counts.indptr[-1] = 0


@pytest.mark.parametrize("name", ["GibbsHDP", "GibbsNestedCRP"])
@pytest.mark.parametrize("damage", [_cut, _point_beyond, _end_at_nothing])
def test_damaged_counts_of_a_sample_are_refused(name, damage, counts):
    fitted = clone(INSTANCES[name]).fit(counts)
    damage(fitted.samples_[-1].topic_word_counts)
    saved = pickle.dumps(fitted)
    with pytest.raises(ValueError, match=r"The saved (csr/1|topic_word_counts) is dam"):
        pickle.loads(saved)


@pytest.mark.parametrize("name", ["GibbsHDP", "GibbsNestedCRP"])
def test_damaged_seats_of_a_chain_are_refused_when_it_goes_on(name, counts):
    fitted = clone(INSTANCES[name]).set_params(warm_start=True).fit(counts)
    state = fitted._chains[0]
    seats = state.tables.dish if name == "GibbsHDP" else state.paths.level
    seats[0] = 100
    with pytest.raises(ValueError, match="of a chain are damaged"):
        pickle.loads(pickle.dumps(fitted)).fit(counts)


def test_words_of_another_vocabulary_are_refused(counts):
    fitted = HDP(4, max_iter=1, random_state=0).fit(counts)
    fitted.n_features_in_ = np.int64(1000)
    saved = pickle.dumps(fitted)
    with pytest.raises(ValueError, match="topic_words is damaged"):
        pickle.loads(saved)


def test_more_names_than_topics_are_refused(counts):
    fitted = clone(INSTANCES["HDP-mean-field-online"]).fit(counts)
    fitted._posterior.ids = np.arange(100)
    saved = pickle.dumps(fitted)
    with pytest.raises(ValueError, match="component_ids_ is damaged"):
        pickle.loads(saved)
