"""A topic brings at least the share `min_gain` of what all topics gain, or it ends."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from checks.states import assert_same, snapshot
from skbnp import HDP, load, save
from skbnp.inspection import summary
from skbnp.models.hdp import held_out_trials
from skbnp.models.hdp.held_out import compare
from skbnp.models.hdp.held_out_trials import HeldOutTrials


def draw(weights, n_docs=1200, seed=0):
    """Documents of 100 words from topics of given weights."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(300, 0.05), len(weights))
    shares = rng.dirichlet(2.0 * np.asarray(weights) / np.sum(weights), n_docs)
    return sp.csr_array(rng.multinomial(100, shares @ topics).astype(float)), topics


def n_near(hdp, topics):
    """Number of planted topics with one of a cosine above .9."""
    found, true = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (hdp.topic_word_distr_, topics)
    )
    return int(((found @ true.T).max(axis=0) > 0.9).sum())


@pytest.fixture(scope="module")
def unequal():
    """Twelve topics, of which the last ten have a share of .5 % each at the start."""
    return draw([60.0, 35.0, *np.full(10, 0.5)])


def fit_with_runs(X, *given, **settings):
    """Fit; also return the runs that trials decide on, and what suits repeats.

    Runs are trials, kind, number, state and logs; the others kind, whether there were
    no repeats before, and what was asked for.
    """
    runs, suited = [], []
    decide, suit = HeldOutTrials._decide, HeldOutTrials._suited_prediction

    def spy(trials, run, monitor):
        n_passes = run.n_passes
        runs.append((trials, run.kind, run.n_topics, run.posterior.state, run.logs))
        assert n_passes in run.logs
        yield from decide(trials, run, monitor)

    def spy_suited(trials, run, repeats):
        suited.append((run.kind, run.posterior.state.burstiness is None, repeats))
        return suit(trials, run, repeats)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeldOutTrials, "_decide", spy)
        patch.setattr(HeldOutTrials, "_suited_prediction", spy_suited)
        hdp = HDP(*given, random_state=0, **settings).fit(X)
    return hdp, runs, suited


@pytest.fixture(scope="module")
def priced(unequal):
    """Fits of the unequal topics by the share, with their runs; each is made once."""
    return cache(lambda share: fit_with_runs(unequal[0], min_gain=share))


@pytest.mark.parametrize("kind", ["equal", "power"])
def test_planted_topics_are_kept_by_default(kind):
    weights = np.ones(15) if kind == "equal" else 1.0 / np.arange(1.0, 13.0)
    X, topics = draw(weights)
    hdp = HDP(random_state=0).fit(X)
    assert len(topics) - 1 <= hdp.n_components_ <= len(topics) + 1
    assert n_near(hdp, topics) >= len(topics) - 1


def test_a_larger_share_leaves_fewer_topics(unequal, priced):
    _, topics = unequal
    fits = [priced(share)[0] for share in (0, 0.005, 0.3)]
    numbers = [hdp.n_components_ for hdp in fits]
    assert numbers[0] > numbers[2] == 2
    assert numbers[0] >= numbers[1] >= numbers[2]
    assert n_near(fits[0], topics) > n_near(fits[2], topics) == 2


def test_the_number_maximises_the_gain_less_the_price(priced):
    """Of the numbers compared, by a formula of its own over the recorded logs."""
    hdp, compared, _ = priced(0.02)
    trials = compared[-1][0]
    n_tokens = trials.n_tokens.sum()
    reduced = [run for run in compared if run[1] in ("tables", "reduction")]
    scores = {n: logs[max(logs)].sum() / n_tokens for _, _, n, _, logs in reduced}
    price = 0.02 * max(gain for _, gain in trials.gains)
    best = max(scores, key=lambda n: scores[n] - price * n)
    assert hdp.n_components_ == best
    unpriced = max(scores, key=scores.get)
    assert unpriced != best  # the price decides


def test_one_topic_has_the_repeats_of_the_topics():
    """What topics gain is over one topic with the same repeats of words."""
    rng = np.random.default_rng(0)
    X, _ = draw(np.ones(6), n_docs=400)
    words = [rng.multinomial(100, rng.dirichlet(row + 1e-9)) for row in X.toarray()]
    _, runs, _ = fit_with_runs(np.array(words))
    trials, _, n_topics, state, logs = runs[-1]
    assert state.burstiness is not None
    posterior, executor = trials.posterior, trials.model.executor
    held_out, gains = trials.held_out, []
    for burstiness in (state.burstiness, None):
        words, _ = held_out.log_probability_of_words(
            burstiness, posterior, executor, learns_prior=True
        )
        gains.append(compare(logs[max(logs)], words, trials.n_tokens).mean)
    assert_allclose(dict(trials.gains)[n_topics], gains[0], rtol=1e-6)
    assert abs(gains[1] - gains[0]) > 0.1  # without repeats, another gain


def test_births_that_would_cost_more_than_all_gain_are_not_tried(unequal):
    for share, is_tried in ((0.005, True), (0.1, False)):
        _, runs, _ = fit_with_runs(unequal[0], 5, min_gain=share)  # ten at the least
        assert any(kind == "births" for _, kind, *_ in runs) == is_tried


def test_without_a_price_nothing_of_it_counts(unequal, monkeypatch):
    """Control: with one the same change of the least reduction changes the fit."""
    X, _ = unequal
    for share, is_same in ((0.0, True), (0.02, False)):
        usual = snapshot(HDP(min_gain=share, random_state=0).fit(X[:400]))
        with monkeypatch.context() as patch:
            patch.setattr(held_out_trials, "LEAST_REDUCED", 0.4)
            other = snapshot(HDP(min_gain=share, random_state=0).fit(X[:400]))
        if is_same:
            assert_same(usual, other)
        else:
            with pytest.raises(AssertionError):
                assert_same(usual, other)


def test_whether_words_repeat_is_known_before_reductions(priced):
    """One topic with repeats of its own may gain more than the right topics do."""
    _, _, suited = priced(0.005)
    of_reductions = [entry for entry in suited if entry[0] == "reduction"]
    assert any(has_none for _, has_none, _ in of_reductions)
    assert not any(has_none and repeats for _, has_none, repeats in of_reductions)


def test_gains_are_kept_in_files_and_in_summaries(priced, tmp_path):
    hdp, *_ = priced(0.02)
    gains = hdp.n_components_gains_
    assert len(gains) > 3
    assert list(gains) == sorted(gains)
    assert gains[max(gains)] > 0.0
    save(hdp, tmp_path / "hdp.skbnp")
    assert load(tmp_path / "hdp.skbnp").n_components_gains_ == gains
    text = " ".join(str(summary(hdp)).split())
    assert "each brings at least 2 % of what all gain" in text
    assert "min_gain=0" in text
    fewer = max(n for n in gains if n < hdp.n_components_)
    assert f"{fewer} would lose" in text
    plain, *_ = priced(0)
    assert plain.n_components_gains_ == {}
    assert "why so many" not in str(summary(plain))


def test_streams_have_a_price(unequal):
    numbers = []
    for share in (0.0, 0.3):
        stream = HDP(min_gain=share, random_state=0)
        for begin in range(0, 1200, 200):
            stream.partial_fit(unequal[0][begin : begin + 200])
        numbers.append(stream.n_components_)
    assert numbers[0] > numbers[1]


@pytest.mark.long
def test_few_documents_have_a_price(unequal):
    numbers = []
    for share in (0.0, 0.3):
        few = HDP(min_gain=share, random_state=0).fit(unequal[0][:80])
        assert few._posterior.is_cross_fitted
        assert bool(few.n_components_gains_) == bool(share)
        numbers.append(few.n_components_)
    assert numbers[0] >= numbers[1]
