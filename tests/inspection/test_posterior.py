"""Figures of a sampler: the posterior of the number of topics, and shares by sweep."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from checks.long import along_diagonal
from skbnp import GibbsHDP
from skbnp.datasets import make_bars
from skbnp.inspection import ComponentsPosteriorDisplay, TopicTraceDisplay
from skbnp.utils.fitted import best_sample, has_mixed, mixing

DISPLAYS = [ComponentsPosteriorDisplay, TopicTraceDisplay]


def bars_of(display):
    """Left edge, right edge and height of each bar."""
    return np.array(
        [
            (bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height())
            for bars in display.bars_
            for bar in bars
        ]
    )


# -- number of topics ------------------------------------------------------------------


def test_each_number_of_topics_has_a_bar_as_high_as_its_share(sampler):
    display = ComponentsPosteriorDisplay.from_estimator(sampler)
    left, right, height = bars_of(display).T
    assert_allclose((left + right) / 2, [3, 4, 5, 6])
    assert_allclose(height, [0.5, 0.25, 0.2, 0.05])


# -- trace -----------------------------------------------------------------------------


def trace(*shares, **settings):
    return TopicTraceDisplay(step=np.arange(len(shares)), shares=shares).plot(
        **settings
    )


def heights(display):
    return np.array([line.get_ydata() for line in display.lines_])


def test_topics_of_one_size_have_lines_at_equal_distances():
    display = trace(*[np.full(5, 0.2)] * 3)
    assert_allclose(heights(display), np.repeat([[0.2, 0.4, 0.6, 0.8, 1]], 3, 0).T)


def test_lines_add_up_the_tokens_of_the_largest_topics(sampler):
    display = TopicTraceDisplay.from_estimator(sampler, chain=0)
    assert_array_equal(display.lines_[0].get_xdata(), [8, 10])
    assert_allclose(heights(display), np.repeat([[0.6, 0.9, 1.0]], 2, 0).T)


def test_the_chain_is_that_of_the_best_sample(sampler):
    display = TopicTraceDisplay.from_estimator(sampler)
    assert display.chain == 1
    assert display.ax_.get_xlabel() == "Sweep of chain 1"


@pytest.mark.parametrize("n_components", [1, 7, 20])
def test_only_the_largest_topics_have_lines(n_components):
    display = trace(*[np.full(1000, 0.001)] * 2, n_components=n_components)
    assert_allclose(heights(display)[:, 0], 0.001 * np.arange(1, n_components + 1))


# -- both ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gibbs():
    X = make_bars(60, side=3, n_words=30, random_state=0).data
    return GibbsHDP(5, max_iter=12, thin=2, n_chains=2, random_state=0).fit(X)


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_displays_show_a_fitted_sampler(display, gibbs, is_wrapped):
    estimator = make_pipeline(FunctionTransformer(), gibbs) if is_wrapped else gibbs
    shown = display.from_estimator(estimator)
    shown.figure_.canvas.draw()
    assert shown.ax_.patches or shown.ax_.lines


def test_shares_of_a_fitted_sampler_are_those_of_its_samples(gibbs):
    display = TopicTraceDisplay.from_estimator(gibbs, chain=1)
    kept = [sample for sample in gibbs.samples_ if sample.chain == 1]
    assert_array_equal(display.step, [8, 10, 12])
    largest = [s.n_tokens.max() / s.n_tokens.sum() for s in kept]
    assert_allclose(display.lines_[0].get_ydata(), largest)


def test_bands_have_numbers_and_terms_of_the_last_sample(sampler, words):
    display = TopicTraceDisplay.from_estimator(sampler, words, n_terms=2)
    last = [s for s in sampler.samples_ if s.chain == best_chain(sampler)][-1]
    counts = last.topic_word_counts.toarray()
    written = [text.get_text() for text in display.ax_.texts]
    for k in np.argsort(-counts.sum(axis=1), kind="stable")[:2]:
        best = np.argsort(-counts[k], kind="stable")[:2]
        names = ", ".join(words[j] for j in best if counts[k, j] > 0)
        assert f"{last.component_ids[k]}: {names}" in written
    texts = TopicTraceDisplay(step=[1], shares=[[0.6, 0.4]]).plot().ax_.texts
    assert [text.get_text() for text in texts] == ["1, the largest", "2"]


def best_chain(sampler):
    return max(sampler.samples_, key=lambda sample: sample.log_joint).chain


def test_trace_numbers_the_topics_beside_their_shares():
    display = trace([0.5, 0.3, 0.17, 0.02, 0.01])
    places = {text.get_text(): text.get_position()[1] for text in display.ax_.texts}
    assert places == pytest.approx({"1, the largest": 0.25, "2": 0.65, "3": 0.885})


def test_bars_of_chains_add_up_to_the_posterior():
    X = make_bars(60, random_state=0).data
    gibbs = GibbsHDP(5, max_iter=20, n_chains=2, random_state=0).fit(X)
    display = ComponentsPosteriorDisplay.from_estimator(gibbs)
    posterior = gibbs.n_components_posterior_
    assert len(display.bars_) == gibbs.n_chains > 1
    assert_allclose(np.sum(display.shares, axis=0), list(posterior.values()))
    assert list(display.n_components) == list(posterior)


def draws(n_chains=4, n_sweeps=100, shift=0.0, seed=0):
    """Independent normal draws; the last chain is shifted."""
    values = np.random.default_rng(seed).normal(size=(n_chains, n_sweeps))
    values[-1] += shift
    return values


@along_diagonal(("memory", "n_chains"), [-0.9, 0.0, 0.8, 0.99], [1, 2, 5])
def test_mixing_is_that_of_the_library(n_chains, memory):
    """Of chains that alternate or wander, in lengths even and odd; some stand still."""
    for n_sweeps in (*range(8, 24), 50, 101):
        traces = draws(n_chains, n_sweeps, shift=n_sweeps % 3, seed=n_sweeps)
        for step in range(1, n_sweeps):
            traces[:, step] += memory * traces[:, step - 1]
        still = np.where(np.arange(n_chains)[:, None] > 0, traces, traces[0, 0])
        for values in (traces, np.round(traces), *[still] * (n_chains > 1)):
            n = n_sweeps // 2
            halves = np.vstack([values[:, :n], values[:, -n:]])
            folded = np.abs(halves - np.median(halves))
            scores = [array_stats._z_scale(part) for part in (halves, folded)]
            r_hats = [array_stats.rhat(part, method="identity") for part in scores]
            if n_chains > 1:  # it leaves one chain out
                assert_allclose(max(r_hats), array_stats.rhat(values))
            expected = max(r_hats), array_stats.ess(values)
            assert_allclose(mixing(values), expected, rtol=1e-9)


def test_one_chain_is_compared_with_itself():
    assert mixing(draws(1))[0] < 1.02
    assert mixing(np.arange(40.0)[None])[0] > 1.5


@pytest.mark.parametrize(
    "traces",
    [
        np.full((2, 20), 5.0),
        np.full((1, 8), np.nan),
        [[3.0] * 4 + [4.0] + [3.0] * 4],  # the halves are equal
        draws(n_sweeps=7),
    ],
)
def test_what_never_changes_or_is_not_known_is_left_out(traces):
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
