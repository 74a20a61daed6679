"""A topic brings at least the share `min_gain` of what all topics gain, or it ends."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from checks.corpora import n_found
from checks.long import daily
from checks.states import assert_same, snapshot
from skbnp import HDP, load, save
from skbnp.inspection import summary
from skbnp.models.hdp import held_out_trials
from skbnp.models.hdp.births import Reduction, reduce
from skbnp.models.hdp.held_out import Gain, compare
from skbnp.models.hdp.held_out_trials import HeldOutTrials


def draw(weights, n_docs=1200, seed=0):
    """Documents of 100 words from topics of given weights."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(300, 0.05), len(weights))
    shares = rng.dirichlet(2.0 * np.asarray(weights) / np.sum(weights), n_docs)
    return sp.csr_array(rng.multinomial(100, shares @ topics).astype(float)), topics


@pytest.fixture(scope="module")
def unequal():
    """Twelve topics, of which the last ten have a share of .5 % each at the start."""
    return draw([60.0, 35.0, *np.full(10, 0.5)])


def fit_with_runs(X, *given, **settings):
    """Fit; also return the runs that trials decide on, and which learn repeats.

    Runs are trials, kind, number, state and logs; the others kind, whether there were
    no repeats before, and what was asked for.
    """
    runs, predicted = [], []
    judge, predict = HeldOutTrials._is_accepted, HeldOutTrials._predict_by_best

    def spy(trials, run, gain):
        n_passes = run.n_passes
        runs.append((trials, run.kind, run.n_topics, run.posterior.state, run.logs))
        assert n_passes in run.logs
        return judge(trials, run, gain)

    def spy_predict(trials, run, repeats):
        predicted.append((run.kind, run.posterior.state.burstiness is None, repeats))
        return predict(trials, run, repeats)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeldOutTrials, "_is_accepted", spy)
        patch.setattr(HeldOutTrials, "_predict_by_best", spy_predict)
        hdp = HDP(*given, random_state=0, **settings).fit(X)
    return hdp, runs, predicted


@pytest.fixture(scope="module")
def fits_by_share(unequal):
    """Fits of the unequal topics by the share, with their runs; each is made once."""
    return cache(lambda share: fit_with_runs(unequal[0], min_gain=share))


@pytest.mark.parametrize("kind", daily(1, ["power", "equal"]))
def test_planted_topics_are_kept_by_default(kind):
    weights = np.ones(15) if kind == "equal" else 1.0 / np.arange(1.0, 13.0)
    X, topics = draw(weights)
    hdp = HDP(random_state=0).fit(X)
    assert len(topics) - 1 <= hdp.n_components_ <= len(topics) + 1
    assert n_found(hdp, topics, 0.9) >= len(topics) - 1


def test_a_larger_share_leaves_fewer_topics(unequal, fits_by_share):
    _, topics = unequal
    fits = [fits_by_share(share)[0] for share in (0, 0.03, 0.3)]
    numbers = [hdp.n_components_ for hdp in fits]
    assert numbers[0] > numbers[2] == 2
    assert numbers[0] >= numbers[1] >= numbers[2]
    assert n_found(fits[0], topics, 0.9) > n_found(fits[2], topics, 0.9) == 2


def test_the_number_maximises_the_gain_less_the_penalty(fits_by_share):
    """Of the numbers compared, by a formula of its own over the recorded logs.

    The documents that choose reductions, every other one, flatter these: by them the
    number would be another one.
    """
    hdp, compared, _ = fits_by_share(0.03)
    trials = compared[-1][0]
    reduced = [run for run in compared if run[1] in ("tables", "reduction")]

    def best(first, share):
        n_tokens = trials.n_tokens[first::2].sum()
        penalty = share * max(gain for _, gain in trials.gains)
        nets = {
            n: logs[max(logs)][first::2].sum() / n_tokens - penalty * n
            for _, _, n, _, logs in reduced
        }
        return max(nets, key=nets.get)

    assert hdp.n_components_ == best(1, 0.03)
    assert best(1, 0.0) != best(1, 0.03) != best(0, 0.03)


def reductions_of(net, n_topics, error=0.01):
    """Best number of topics by reductions where `net` is the gain less the penalty."""
    start = SimpleNamespace(n_topics=n_topics, n_changes=0, kind="start")
    trials = object.__new__(HeldOutTrials)
    trials.model = start

    def reduction(run, limit=None):
        n = limit or max(run.n_topics // 5, 1)
        return SimpleNamespace(n_topics=run.n_topics - n, n_changes=n, kind="reduction")

    def attempt(run, other, is_optional):
        yield
        gain = Gain(net(run.n_topics) - net(other.n_topics), error)
        accepted = gain.mean >= 0.0
        trials.model = run if accepted else trials.model
        return accepted, gain

    trials._reduction, trials._try = reduction, attempt
    assert list(trials._reduce_penalised())
    return trials.model.n_topics


@pytest.mark.parametrize("best", range(20, 100, 7))
@pytest.mark.parametrize("is_kinked", [False, True])
def test_reductions_come_near_the_best_number_from_both_sides(best, is_kinked):
    """Of curves that bend, and of those that fall by as much above it as below."""

    def net(n):
        away = abs(n - best)
        return -0.01 * away if is_kinked else -0.001 * away**2

    assert abs(reductions_of(net, 110) - best) <= max(0.06 * best, 2)


@pytest.mark.parametrize(
    ("least", "limit", "expected"),
    [(0, None, 3), (1, None, 3), (6, None, 3), (7, None, 7), (7, 5, 5), (7, 2, 2)],
)
def test_reductions_without_loss_are_made_alone_if_they_are_many(
    least, limit, expected
):
    X, _ = draw(np.ones(5), n_docs=60)
    hdp = HDP(20, split_merge=False, max_iter=1, random_state=0).fit(X)
    posterior, losses = hdp._posterior.copy(), np.repeat([-0.1, 0.0, 0.01], [1, 2, 9])
    ends = [Reduction(loss, k, None) for k, loss in enumerate(losses)]
    assert reduce(posterior, ends, 0.001, limit, least) == expected
    assert posterior.state.n_components == hdp.n_components_ - expected


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


def test_without_a_minimum_gain_nothing_of_it_counts(unequal, monkeypatch):
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


def test_whether_words_repeat_is_known_before_reductions(fits_by_share):
    """One topic with repeats of its own may gain more than the right topics do."""
    _, _, predicted = fits_by_share(0.005)
    of_reductions = [entry for entry in predicted if entry[0] == "reduction"]
    assert any(has_none for _, has_none, _ in of_reductions)
    assert not any(has_none and repeats for _, has_none, repeats in of_reductions)


def test_gains_are_kept_in_files_and_in_summaries(fits_by_share, tmp_path):
    hdp, *_ = fits_by_share(0.03)
    gains = hdp.n_components_gains_
    assert len(gains) > 3
    assert list(gains) == sorted(gains)
    assert gains[max(gains)] > 0.0
    save(hdp, tmp_path / "hdp.skbnp")
    assert load(tmp_path / "hdp.skbnp").n_components_gains_ == gains
    text = " ".join(str(summary(hdp)).split())
    assert "each brings at least 3 % of what all gain" in text
    assert "min_gain=0" in text
    fewer = max(n for n in gains if n < hdp.n_components_)
    assert f"{fewer} would lose" in text
    plain, *_ = fits_by_share(0)
    assert plain.n_components_gains_ == {}
    assert "why so many" not in str(summary(plain))


def test_streams_have_a_minimum_gain(unequal):
    numbers = []
    for share in (0.0, 0.3):
        stream = HDP(min_gain=share, random_state=0)
        for begin in range(0, 1200, 400):
            stream.partial_fit(unequal[0][begin : begin + 400])
        numbers.append(stream.n_components_)
    assert numbers[0] > numbers[1]


@pytest.mark.long
def test_few_documents_have_a_minimum_gain(unequal):
    numbers = []
    for share in (0.0, 0.3):
        few = HDP(min_gain=share, random_state=0).fit(unequal[0][:80])
        assert few._posterior.is_cross_fitted
        assert bool(few.n_components_gains_) == bool(share)
        numbers.append(few.n_components_)
    assert numbers[0] >= numbers[1]
