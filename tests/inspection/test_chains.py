"""Whether chains agree: against the library on several, by construction on one."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from numpy.testing import assert_allclose, assert_array_equal

from skbnp.utils.mixing import best_sample, has_mixed, mixing


def draws(n_chains=4, n_sweeps=100, shift=0.0, seed=0):
    """Independent normal draws; the last chain is shifted."""
    values = np.random.default_rng(seed).normal(size=(n_chains, n_sweeps))
    values[-1] += shift
    return values


@pytest.mark.parametrize("n_sweeps", [8, 9, 50, 101])
@pytest.mark.parametrize("shift", [0.0, 2.0])
@pytest.mark.parametrize("is_rounded", [False, True])
def test_mixing_of_several_chains_is_that_of_the_library(n_sweeps, shift, is_rounded):
    traces = draws(n_sweeps=n_sweeps, shift=shift)
    traces = np.round(traces) if is_rounded else traces
    expected = array_stats.rhat(traces), array_stats.ess(traces)
    assert_allclose(mixing(traces), expected)


@pytest.mark.parametrize("shift", [2.0, 10.0])
def test_a_chain_that_disagrees_is_seen(shift):
    r_hat, size = mixing(draws(shift=shift))
    assert r_hat > 1.1
    assert size < 50


def test_one_chain_is_compared_with_itself():
    assert mixing(draws(1))[0] < 1.02
    assert mixing(np.arange(40.0)[None])[0] > 1.5


@pytest.mark.parametrize("traces", [np.full((2, 20), 5.0), np.full((1, 8), np.nan)])
def test_nothing_is_said_of_what_never_changes_or_is_not_known(traces):
    assert np.isnan(mixing(traces)).all()


@pytest.mark.parametrize(
    "traces", [np.ones((2, 20)) * [[1], [2]], np.repeat([3.0, 4.0], 8)[None]]
)
@pytest.mark.filterwarnings("error")
def test_chains_that_stand_still_apart_never_agree(traces):
    assert mixing(traces)[0] == np.inf


# What is read of a model --------------------------------------------------------------


def longer(sampler, n_sweeps):
    """Give a sampler a history of two chains, each value the number of its sweep."""
    steps = np.arange(1, n_sweeps + 1).repeat(2).tolist()
    sampler.history_ = {"step": steps, "chain": [0, 1] * n_sweeps, "log_joint": steps}
    sampler.n_iter_ = sampler.max_iter = n_sweeps
    return sampler


@pytest.mark.parametrize(("burn_in", "first"), [(None, 21), (0, 1), (30, 31)])
def test_sweeps_after_burn_in_are_read_chain_by_chain(sampler, burn_in, first):
    sampler = longer(sampler, 40).set_params(burn_in=burn_in)
    assert_array_equal(has_mixed(sampler, "log_joint"), [np.arange(first, 41)] * 2)


def test_of_a_longer_history_the_last_fit_is_read(sampler):
    sampler = longer(sampler, 100).set_params(max_iter=20)
    assert_array_equal(has_mixed(sampler, "log_joint"), [np.arange(91, 101)] * 2)


def test_the_sample_shown_has_the_highest_log_joint(sampler):
    assert (best_sample(sampler).step, best_sample(sampler).chain) == (8, 1)
