"""Rows on the paths of a tree: memos, their sums, blocks, awkward data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skbnp.inference.executor import Executor
from skbnp.models.hca import local
from skbnp.models.hca import state as frame
from skbnp.models.hca.local import coordinates, sums, update_local
from skbnp.models.hca.model import Model
from skbnp.models.hca.state import Frame, State, Stats, paths
from skbnp.trees import Tree

TREE = Tree([0, 1, 5, 4, 2, 6, 3], [0, 1, 2, 2, 1, 2, 1])
N_LEVELS, N_FEATURES = 3, 6
MODEL = Model(N_LEVELS, 0.7, 5.0, Frame(np.full(N_FEATURES, 0.5), 2.0))
SERIAL = Executor(1)


def random_state(rng, tree=TREE):
    n = len(tree)
    loadings = rng.normal(size=(n, N_FEATURES))
    variances, masses = rng.gamma(2.0, 0.1, size=n), rng.gamma(1.0, size=n)
    mean = rng.normal(size=N_FEATURES)
    centres = np.append(0.0, rng.normal(size=n - 1))
    spread = np.append(0.0, np.full(n - 1, 0.1))
    return State(
        tree, loadings, variances, masses, centres, spread, mean, 0.1, 6.0, 4.0
    )


def assert_stats_equal(one, other, rtol=1e-9):
    for name in Stats.__slots__:
        held = getattr(other, name)
        scale = max(np.abs(held).max(), 1e-300)
        assert_allclose(
            getattr(one, name), held, rtol=rtol, atol=rtol * scale, err_msg=name
        )


@pytest.fixture
def rows(seed):
    return np.random.default_rng(seed + 100).normal(size=(50, N_FEATURES)) * 2.0


@pytest.fixture
def state(seed):
    return random_state(np.random.default_rng(seed))


def say(state, X, model=MODEL, executor=SERIAL):
    memo = update_local(paths(model, state), state.tree, X, model.frame, executor)
    return memo, sums(memo, X, state.tree, model.frame, executor)


# Memos --------------------------------------------------------------------------------


def test_exchange_of_memos_keeps_totals(state, rows):
    """Totals less what rows said, and what they say now, are those of a fresh visit."""
    other = random_state(np.random.default_rng(9))
    memo, global_stats = say(state, rows)
    chosen = np.arange(10, 30)
    stats = sums(memo.take(chosen), rows[chosen], TREE, MODEL.frame, SERIAL)
    fresh, now = say(other, rows[chosen])
    global_stats = global_stats.plus(stats, -1.0).plus(now)
    memo = memo.replaced(chosen, fresh)
    assert_stats_equal(global_stats, sums(memo, rows, TREE, MODEL.frame, SERIAL))


def test_stubs_that_cannot_matter_are_left_out(state, rows, monkeypatch):
    memo, stats = say(state, 5.0 * rows)
    monkeypatch.setattr(local, "PRUNE", np.inf)
    full, all_stats = say(state, 5.0 * rows)
    assert len(memo.stubs) < len(full.stubs) == len(rows) * len(TREE)
    assert_allclose(np.add.reduceat(memo.shares, memo.limits[:-1]), 1.0, rtol=1e-12)
    assert_stats_equal(stats, all_stats, rtol=1e-7)
    assert (memo.bounds <= full.bounds + 1e-12).all()


# Blocks -------------------------------------------------------------------------------


def test_blocks_say_what_all_rows_say(state, rows, monkeypatch):
    _, whole = say(state, rows)
    monkeypatch.setattr(frame, "BLOCK", 7)
    _, parts = say(state, rows)
    assert_stats_equal(parts, whole)


# Coordinates --------------------------------------------------------------------------


def test_coordinates_are_least_squares_on_the_best_path(state, rows):
    given = paths(MODEL, state)
    memo, _ = say(state, rows)
    best, result = coordinates(given, memo, rows, TREE, MODEL.frame, SERIAL)
    for row, stub, own in zip(rows, best, result, strict=True):
        path = TREE.positions(TREE.path_to(int(TREE.ids[stub])))
        rest = MODEL.frame.enter(row) - state.mean
        fit = np.linalg.lstsq(state.loadings[path].T, rest, rcond=None)[0]
        assert_allclose(own[: len(path)], fit, rtol=1e-7)
        assert_array_equal(own[len(path) :], 0.0)
