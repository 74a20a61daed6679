"""Trials of other numbers of topics, judged by held-out documents."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from checks.callbacks import StopAfter
from checks.corpora import n_found
from checks.judges import note_trials, with_own_words, words_of_none
from checks.lineages import check_lineage
from checks.long import along_diagonal, daily
from skbnp import HDP
from skbnp.components.topics import HIGHEST
from skbnp.datasets import make_bars, make_hdp
from skbnp.estimators import SplitMerge
from skbnp.estimators._variational import VariationalTopicModel
from skbnp.models.hdp import births as held_out_moves
from skbnp.models.hdp import held_out, held_out_trials
from skbnp.models.hdp.held_out import SECOND_HALF, Gain, HeldOut, choose_prior, compare
from skbnp.models.hdp.held_out_trials import HeldOutTrials

pytestmark = pytest.mark.usefixtures("one_split")

METHODS = ["online", "memoized", "batch"]


@pytest.fixture(scope="module")
def bars():
    return make_bars(900, random_state=3)


class Seen(Exception):
    """What a test asks for has happened: the rest of the fit is of no use to it."""


@pytest.mark.long
@along_diagonal(("start", "method"), [1, 10, 100], METHODS)
def test_bars_are_found_from_any_start(method, start, bars):
    hdp = HDP(start, learning_method=method, random_state=0).fit(bars.data)
    assert abs(hdp.n_components_ - 20) <= 1
    assert n_found(hdp, bars.topic_word_distr) == 20
    assert hdp.converged_


@pytest.mark.parametrize("start", [1, 40])
def test_one_topic_is_found_where_there_is_one(start):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.multinomial(80, rng.dirichlet(np.full(200, 0.1)), size=500))
    assert HDP(start, random_state=0).fit(X).n_components_ <= 2


def short_documents(length, concentration, n_docs=3000):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(200, 0.3), size=3)
    proportions = rng.dirichlet(np.full(3, concentration), size=n_docs)
    return sp.csr_array(rng.multinomial(length, proportions @ topics))


@pytest.mark.long
def test_births_begin_anew_where_words_alone_predict_better(capsys, monkeypatch):
    """Of five tokens: 200 topics of documents are worse than none, and later births."""
    X = short_documents(5, 1.0, 5200)
    monkeypatch.setattr(HDP, "_is_sampled", lambda *_: False)
    assert HDP(200, random_state=0, verbose=100).fit(X).n_components_ == 1
    trials = re.findall(r"trial of (\d+) topics (\w+)", capsys.readouterr().out)
    at = trials.index(("1", "accepted"))
    assert [int(n) > 1 for n, _ in trials[at + 1 :]] == [True]
    merged = HDP(200, split_merge=SplitMerge(births=False), max_iter=14, random_state=0)
    merged.fit(X)  # there is time for one trial
    assert merged.n_components_ == 1


@pytest.mark.long
def test_topics_of_short_documents_are_found():
    assert HDP(200, random_state=0).fit(short_documents(8, 0.3)).n_components_ == 3


@pytest.fixture
def own_words(bars):
    return with_own_words(bars.data[:100])


def find_starts_from_judges(topics, held_out):
    """Words that judges alone have, and whether any topic starts from a judge."""
    judges = words_of_none(held_out.train.X)
    counts = topics[judges]
    return judges, (counts.max(axis=1) > 15.0 * np.median(counts, axis=1)).any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["collapsed", "mean_field"])
def test_no_topic_starts_from_a_document_that_judges(
    family, method, own_words, monkeypatch
):
    begun = note_trials(monkeypatch)
    settings = {"variational_family": family, "learning_method": method}
    HDP(40, max_iter=20, random_state=0, **settings).fit(own_words)
    ((topics, held_out),) = begun
    judges, is_any = find_starts_from_judges(topics, held_out)
    assert judges.sum() == 25
    assert not is_any
    others = topics[~judges]
    assert (others.sum(axis=1) > 0.0).all()
    assert (others.max(axis=1) > 15.0 * np.median(others, axis=1)).any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_check_of_starts_tells_topics_of_judges(own_words, monkeypatch):
    monkeypatch.setattr(HDP, "_start", VariationalTopicModel._start)
    begun = note_trials(monkeypatch)
    HDP(40, max_iter=20, random_state=0).fit(own_words)
    ((topics, held_out),) = begun
    assert find_starts_from_judges(topics, held_out)[1]


def test_a_fit_without_trials_starts_from_all_documents(own_words):
    for settings in ({"split_merge": False}, {"max_iter": 2}):
        hdp = HDP(40, random_state=0).set_params(**settings)
        posterior = hdp._start(hdp._make_model(), own_words, 0, own_words.shape[0])
        assert (posterior.global_stats.topic_words.dense().sum(axis=1) > 0.0).all()


def test_after_an_interrupt_nobody_knows_the_documents_that_judge(
    own_words, monkeypatch
):
    begun = note_trials(monkeypatch)
    hdp = HDP(4, warm_start=True, random_state=0)
    hdp.set_callbacks(StopAfter(6)).fit(own_words)
    hdp.set_callbacks().fit(own_words)
    (_, held_out), (topics, again) = begun
    np.testing.assert_array_equal(held_out.rows, again.rows)
    assert (topics[words_of_none(held_out.train.X)] == 0.0).all()


@pytest.mark.long
def test_few_documents_are_predicted_equally_well_from_any_start(corpus):
    """Topics that start from judges seem better than births: .05 to .1 nats lost."""
    counts, losses = corpus("kos"), []
    for seed in (1, 2):
        rows = np.random.default_rng(seed).permutation(counts.shape[0])
        train, test = counts[rows[:320]], counts[rows[320:420]]
        usual, other = (HDP(n, random_state=seed).fit(train) for n in (300, 60))
        losses.append(usual.score(test) - other.score(test))
    assert np.mean(losses) < 0.025


def no_passes(trials):
    """Leave out that the model goes on after births."""
    yield from ()


@pytest.mark.parametrize("n_gains", [0, 2])
def test_the_model_goes_on_while_it_predicts_better(n_gains, bars, monkeypatch):
    """Its steps go on, too; what gains nothing is forgotten."""
    begun = []
    new_run, gain = HeldOutTrials._new_trial, HeldOutTrials._gain

    def note_run(self, kind, *given):
        run = new_run(self, kind, *given)
        learner = run.learner
        begun.append((kind, learner.n_updates // learner.schedule.n_batches))
        return run

    def say_gain(self, run, *others):
        if run.kind != "continuation":
            return gain(self, run, *others)
        n_tried = sum(kind == "continuation" for kind, _ in begun)
        return Gain(0.01 if n_tried <= n_gains else 0.0, 0.001)

    monkeypatch.setattr(HeldOutTrials, "_new_trial", note_run)
    monkeypatch.setattr(HeldOutTrials, "_gain", say_gain)
    moves = SplitMerge(births=False)
    HDP(30, split_merge=moves, random_state=0).fit(bars.data[:300])
    length = moves.trial_passes
    tried = [("continuation", length * (n + 1)) for n in range(n_gains + 1)]
    reduced = ("reduction", length * (n_gains + 1) if n_gains else 0)
    assert begun[: n_gains + 3] == [("start", 0), *tried, reduced]
    assert not any(kind == "continuation" for kind, _ in begun[n_gains + 3 :])


def test_mean_field_models_do_not_go_on(bars, monkeypatch):
    """Their topics have been learned with mean weights, and would not be any more."""
    kinds, new_run = [], HeldOutTrials._new_trial

    def note_run(self, kind, *given):
        kinds.append(kind)
        return new_run(self, kind, *given)

    monkeypatch.setattr(HeldOutTrials, "_new_trial", note_run)
    hdp = HDP(30, variational_family="mean_field", random_state=0)
    hdp.fit(bars.data[:300])
    assert "reduction" in kinds
    assert "continuation" not in kinds
    hdp.set_params(variational_family="collapsed").fit(bars.data[:300])
    assert "continuation" in kinds


@pytest.mark.parametrize("eta", [1e-3, 50.0])
def test_the_prior_is_freed_where_its_limit_held_it(eta, bars, monkeypatch):
    """Once for the model that births end with, not again for one that went on."""
    limits, freed = [], HeldOutTrials._judge_anew

    def note_limit(folds, posterior, highest, executor):
        choose_prior(folds, posterior, highest, executor)
        limits.append(highest)

    result = []

    def block_hook(self, run):
        before = len(limits)
        freed(self, run)
        result.append((run.kind, limits[before:]))

    monkeypatch.setattr(held_out, "choose_prior", note_limit)
    monkeypatch.setattr(HeldOutTrials, "_judge_anew", block_hook)
    monkeypatch.setattr(held_out_trials, "MARGIN", -1.0)  # all go on
    monkeypatch.setattr(held_out_trials, "MARGIN_ERRORS", -1e9)
    moves = SplitMerge(births=False)
    HDP(30, topic_word_prior=eta, split_merge=moves, max_iter=30, random_state=0).fit(
        bars.data[:300]
    )
    assert limits[0] == eta  # while births may come
    (kind, of_start), *others = result
    assert kind == "start"
    assert of_start == ([HIGHEST] if eta < 1.0 else [])
    assert others
    assert all(other == ("continuation", []) for other in others)


@pytest.mark.parametrize(
    ("prior", "moved", "n_leading", "expected"),
    [
        (0.05, False, 0, 1),  # the limit held it
        (0.05, False, 2, 3),
        (0.05, False, 99, held_out_trials.MOST_STEPS),
        (0.01, False, 99, 0),
        (0.01, True, 0, 1),  # one step had not been enough
        (0.01, True, 2, 3),
    ],
)
def test_the_prior_steps_on_while_it_falls(
    prior, moved, n_leading, expected, bars, monkeypatch
):
    freed, steps = [], []

    def step(folds, posterior, highest, executor):
        steps.append(highest)
        return len(steps) <= n_leading

    def block_hook(self, run):
        if run.kind == "start" and not freed:
            posterior = run.learner.posterior
            posterior.state = replace(posterior.state, topic_word_prior=prior)
            run.prior_falls = moved
            steps.clear()
            free(self, run)
            freed.append(list(steps))
            raise Seen

    free = HeldOutTrials._judge_anew
    monkeypatch.setattr(held_out, "choose_prior", step)
    monkeypatch.setattr(HeldOutTrials, "_judge_anew", block_hook)
    hdp = HDP(30, split_merge=SplitMerge(births=False), random_state=0)
    with pytest.raises(Seen):
        hdp.fit(bars.data[:300])
    assert freed == [[HIGHEST] * expected]


@pytest.mark.parametrize(("gain", "expected"), [(-0.0011, False), (-0.0009, True)])
def test_words_are_as_good_within_half_of_what_may_be_lost(
    gain, expected, bars, monkeypatch
):
    stats, ask = set(), HeldOut.is_matched_by_words

    def block_hook(self, *args, **settings):
        monkeypatch.setattr(held_out, "compare", lambda *_: Gain(gain, 0.1))
        stats.add(ask(self, *args, **settings))
        monkeypatch.setattr(held_out, "compare", compare)
        return False

    monkeypatch.setattr(HeldOut, "is_matched_by_words", block_hook)
    HDP(30, random_state=0).fit(bars.data[:300])
    assert stats == {expected}


def topics_of_prior(concentration, rng):
    """Documents of five topics that are drawn by a prior."""
    topics = rng.dirichlet(np.full(100, concentration), size=5)
    theta = rng.dirichlet(np.full(5, 0.1), 400)
    return sp.csr_array(rng.multinomial(60, theta @ topics))


def test_states_are_judged_under_the_prior_that_they_have(monkeypatch):
    """After each step of the prior, also where its limit is taken away."""
    X = topics_of_prior(1.0, np.random.default_rng(0))
    judged, end = [], HeldOutTrials._record_gain

    def block_hook(self, run):
        if run.result is not None and run.n_passes == self.length:
            posterior = run.learner.posterior
            result = self.held_out.predict(posterior, run.learner.local_step.executor)
            np.testing.assert_array_equal(
                run.logs[self.length], self.held_out.log_probability(result)
            )
            judged.append((run.kind, posterior.state.topic_word_prior))
        end(self, run)

    freed, free = [], HeldOutTrials._judge_anew

    def look_again(self, run):
        before = run.learner.posterior.state.topic_word_prior
        free(self, run)
        posterior = run.learner.posterior
        if posterior.state.topic_word_prior != before:
            result = self.held_out.predict(posterior, run.learner.local_step.executor)
            logs = self.held_out.log_probability(result)
            np.testing.assert_array_equal(run.logs[run.n_passes], logs)
            np.testing.assert_array_equal(
                self.held_out.log_probability(run.result), logs
            )
            freed.append(run.kind)

    monkeypatch.setattr(HeldOutTrials, "_record_gain", block_hook)
    monkeypatch.setattr(HeldOutTrials, "_judge_anew", look_again)
    HDP(30, random_state=0).fit(X)
    assert {"start", "continuation"} <= {kind for kind, _ in judged}
    assert len({prior for _, prior in judged}) > 1
    assert freed


def ask_for_births(bars, monkeypatch, ask):
    """Call `ask` with the births of trials and the run that they begin from."""
    births = HeldOutTrials._births

    def block_hook(self, run):
        ask(self, run, lambda: births(self, run) is not None)

    monkeypatch.setattr(HeldOutTrials, "_births", block_hook)
    HDP(30, random_state=0).fit(bars.data[:300])


def test_births_do_not_try_as_many_topics_again(bars, monkeypatch):
    """Where `max_components` leaves room for no more than have been tried."""
    tried = []

    def ask(trials, run, is_tried):
        run.n_started = run.n_topics + 3
        for room in (0, 1):
            trials.posterior.max_components = run.n_started + room
            tried.append(is_tried())
        run.n_started, trials.posterior.max_components = 4 * run.n_topics, np.inf
        tried.append(is_tried())

    monkeypatch.setattr(held_out_moves, "ALIVE", 0.0)
    ask_for_births(bars, monkeypatch, ask)
    assert tried[:3] == [False, True, True]


@pytest.mark.parametrize(
    ("batch_size", "is_smaller"),
    [(8, True), pytest.param(128, False, marks=pytest.mark.weekly)],
)
def test_last_steps_of_many_minibatches_are_small(
    batch_size, is_smaller, bars, monkeypatch
):
    made, fit_schedule = [], HDP._fit_schedule

    def note_schedule(self, *given):
        made.append(fit_schedule(self, *given))
        return made[-1]

    monkeypatch.setattr(HDP, "_fit_schedule", note_schedule)
    HDP(20, batch_size=batch_size, random_state=0).fit(bars.data[:300])
    (schedule,) = made
    assert np.isfinite(schedule.n_forgetting)
    assert (schedule.first_step > 0) == is_smaller
    if is_smaller:
        last = schedule.step_size(schedule.n_updates(int(schedule.n_forgetting)))
        assert last <= 3.0 / schedule.n_batches


def test_the_model_goes_on_in_a_copy(bars, monkeypatch):
    """The model itself stays as it is until that is known to gain."""
    seen, end = [], HeldOutTrials._record_gain

    def block_hook(self, run):
        seen.append((run.kind, self.posterior.global_stats.topic_words.dense()))
        end(self, run)

    monkeypatch.setattr(HeldOutTrials, "_record_gain", block_hook)
    HDP(30, random_state=0).fit(bars.data[:300])
    place = [kind for kind, _ in seen].index("continuation")
    np.testing.assert_array_equal(seen[place - 1][1], seen[place][1])


@pytest.mark.long
@pytest.mark.parametrize("part", [slice(0, None, 2), SECOND_HALF])
def test_documents_that_choose_reductions_do_not_judge_them(part, bars, monkeypatch):
    """Of planted topics none may end, whatever those that choose say of it."""
    log_probability = HeldOut.log_probability
    flattering = []

    def flattered(self, result):
        """Praise each later state more: reductions, where there are no births."""
        logs = log_probability(self, result)
        flattering.append(len(flattering) * 10.0)
        logs[part] += flattering[-1] * self.n_tokens[part]
        return logs

    monkeypatch.setattr(HeldOut, "log_probability", flattered)
    monkeypatch.setattr(HeldOutTrials, "_learn_on", no_passes)
    monkeypatch.setattr(HeldOutTrials, "_is_matched_by_mean", lambda *_: False)
    monkeypatch.setattr(held_out_trials, "BUDGET", 10.0)
    moves = SplitMerge(births=False)
    hdp = HDP(20, split_merge=moves, min_gain=0, random_state=0).fit(bars.data)
    unchanged = part == slice(0, None, 2)
    assert (hdp.n_components_ >= 15) == unchanged


def test_a_wrong_judge_does_not_find_them(bars, monkeypatch):
    """What is checked above depends on the judge."""
    monkeypatch.setattr(
        HeldOut, "log_probability", lambda self, result: -self.n_tokens * 1e3
    )
    hdp = HDP(5, random_state=0).fit(bars.data[:400])
    assert abs(hdp.n_components_ - 20) > 5


def test_lineage_tells_of_births_and_ends(bars):
    hdp = HDP(2, random_state=0).fit(bars.data[:300])
    check_lineage(hdp)
    assert hdp.history_["n_components"][-1] == hdp.n_components_
    assert hdp.history_["n_births"][-1] > 0


def test_max_components_is_kept(bars):
    hdp = HDP(4, max_components=12, random_state=0).fit(bars.data[:300])
    assert hdp.n_components_ <= 12
    assert max(hdp.history_["n_components"]) <= 12


def test_without_births_topics_only_end(bars):
    moves = SplitMerge(births=False)
    hdp = HDP(8, split_merge=moves, random_state=0).fit(bars.data[:200])
    assert hdp.n_components_ <= 8
    assert not any(entry.kind == "birth" for entry in hdp.lineage_)
    many = HDP(40, split_merge=moves, random_state=0).fit(bars.data[:400])
    assert abs(many.n_components_ - 20) <= 1


def merge_two(posterior, result, budget, limit, least):
    """Reduce by one topic."""
    posterior.merge([tuple(posterior.ids[:2].tolist())])
    return 1


@pytest.mark.long
@pytest.mark.parametrize("gain", [0.0, 1.9, 2.1])
def test_reductions_that_do_not_gain_for_certain_wait(gain, bars, monkeypatch):
    """Until everything is learned from, the model keeps the topics that are as good."""
    monkeypatch.setattr(HeldOutTrials, "_gain", lambda *runs: Gain(gain, 1.0))
    monkeypatch.setattr(HeldOutTrials, "_learn_on", no_passes)
    monkeypatch.setattr(held_out_moves, "reduce", merge_two)
    monkeypatch.setattr(held_out_trials, "FEW", 0.0)
    moves = SplitMerge(births=False)
    for min_gain in (0.0, 0.005):  # with a minimum gain all reductions wait
        hdp = HDP(25, split_merge=moves, max_iter=30, min_gain=min_gain, random_state=0)
        log = hdp.fit(bars.data).lineage_
        steps = [entry.step for entry in log if entry.kind == "merge"]
        assert len(steps) >= 3
        waits = gain < 2.0 or min_gain > 0.0
        assert len(set(steps)) == (1 if waits else len(steps))


@pytest.mark.long
@pytest.mark.parametrize("case", daily(1, [(2, 0.1), (30, 1.0), (30, 0.1)]), ids=str)
def test_the_topic_prior_of_the_documents_is_found(case):
    """On average: five topics say little of it, about a factor of two."""
    start, concentration = case
    result = []
    for seed in range(5):
        X = topics_of_prior(concentration, np.random.default_rng(seed))
        hdp = HDP(start, random_state=0).fit(X)
        assert abs(hdp.n_components_ - 5) <= 1
        result.append(hdp.topic_word_prior_)
    assert 0.5 < np.exp(np.log(result).mean()) / concentration < 2.0


@pytest.mark.parametrize(
    ("fall", "share"),
    [
        (1.5, 0.75),
        *(pytest.param(x, 0.5, marks=pytest.mark.weekly) for x in (1.0, 0.5)),
    ],
)
def test_births_are_tried_if_more_would_live_under_the_topic_prior_now(
    fall, share, bars, monkeypatch
):
    tried = []

    def ask(trials, run, is_tried):
        prior = run.learner.posterior.state.topic_word_prior
        run.n_started, run.prior_started = 2 * run.n_topics, fall * prior
        for alive in (share - 0.01, share + 0.01):
            monkeypatch.setattr(held_out_moves, "ALIVE", alive)
            tried.append(is_tried())

    ask_for_births(bars, monkeypatch, ask)
    assert tried[:2] == [True, False]


def test_the_topic_prior_stays_on_request(bars):
    hdp = HDP(20, learn_priors="concentrations", max_iter=20, random_state=0)
    assert hdp.fit(bars.data[:200]).topic_word_prior_ == 0.05
    hdp.set_params(learn_priors="auto").fit(bars.data[:200])
    assert hdp.topic_word_prior_ != 0.05


def test_without_moves_topics_stay(bars):
    hdp = HDP(8, split_merge=False, random_state=0).fit(bars.data[:200])
    assert hdp.n_components_ == 8
    assert hdp.component_ids_.tolist() == list(range(8))


def test_a_fit_without_time_for_trials_says_so(bars):
    with pytest.warns(ConvergenceWarning, match="number of topics may not be final"):
        hdp = HDP(4, max_iter=15, random_state=0).fit(bars.data[:300])
    assert hdp.n_iter_ <= 15
    assert not hdp.converged_


@pytest.mark.long
def test_trials_go_on_in_a_warm_start(bars):
    with pytest.warns(ConvergenceWarning, match="may not be final"):
        hdp = HDP(4, max_iter=17, warm_start=True, random_state=0).fit(bars.data)
    assert hdp.n_components_ < 20
    hdp.set_params(max_iter=60).fit(bars.data)
    assert abs(hdp.n_components_ - 20) <= 1
    assert n_found(hdp, bars.topic_word_distr) == 20
    ids = hdp.component_ids_.tolist()
    hdp.fit(bars.data)  # they have ended
    assert hdp.component_ids_.tolist() == ids


def test_documents_of_one_token_have_nothing_to_judge_by():
    words = np.random.default_rng(0).integers(0, 150, 400)
    with pytest.warns(UserWarning, match="connect no two documents") as caught:
        hdp = HDP(20, random_state=0).fit(np.eye(150)[words])
    assert len(caught) == 1
    assert hdp.converged_


@pytest.mark.long
def test_topics_of_long_documents_are_found():
    X = make_hdp(120, n_components=10, n_words=20_000, n_features=200, random_state=0)
    assert abs(HDP(30, random_state=0).fit(X.data).n_components_ - 10) <= 1


@pytest.mark.long
def test_a_stream_keeps_its_topics_in_a_later_fit(bars):
    hdp = HDP(30, max_iter=20, warm_start=True, random_state=0)
    hdp.partial_fit(bars.data)
    ids, n_entries = set(hdp.component_ids_.tolist()), len(hdp.lineage_)
    hdp.fit(bars.data[:50])
    assert set(hdp.component_ids_.tolist()) <= ids
    assert not any(entry.kind == "merge" for entry in hdp.lineage_[n_entries:])


def test_a_fit_that_a_callback_ends_warns_of_nothing(bars):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HDP(4, random_state=0).set_callbacks(StopAfter(5)).fit(bars.data[:200])


def test_zero_tolerance_makes_all_passes(bars):
    hdp = HDP(20, tol=0, max_iter=30, random_state=0).fit(bars.data[:200])
    assert hdp.n_iter_ == 30
    assert not hdp.converged_


def test_messages_tell_of_trials(bars, capsys, monkeypatch):
    noted, is_accepted = [], HeldOutTrials._is_accepted

    def note(trials, run, gain):
        noted.append((run.n_topics, is_accepted(trials, run, gain)))
        return noted[-1][1]

    monkeypatch.setattr(HeldOutTrials, "_is_accepted", note)
    HDP(3, random_state=0, verbose=1).fit(bars.data[:200])
    trials = re.findall(
        r"trial of (\d+) topics (accepted|rejected)", capsys.readouterr().out
    )
    assert {word for _, word in trials} == {"accepted", "rejected"}
    assert noted == [(int(number), word == "accepted") for number, word in trials]


@pytest.mark.parametrize("is_stream", daily(1, [False, True]))
def test_another_single_reduction_is_tried_after_a_rejected_one(is_stream, monkeypatch):
    """The next cheapest each time, `MOST_REJECTED` in a row, in a stream the first."""
    predict, lists, tried = held_out_moves.reductions, [], []
    reduce, gain_of = held_out_moves.reduce, HeldOutTrials._gain

    def note_list(*given):
        lists.append(predict(*given))
        return lists[-1]

    def make_one(posterior, cheapest, budget, limit, least):
        tried.append(len(lists[-1]) - len(cheapest))
        return reduce(posterior, cheapest, budget, 1, 1)

    def reject(trials, run, *others):
        gain = gain_of(trials, run, *others)
        return gain._replace(mean=-1.0) if run.kind == "reduction" else gain

    monkeypatch.setattr(held_out_moves, "reductions", note_list)
    monkeypatch.setattr(held_out_moves, "reduce", make_one)
    monkeypatch.setattr(HeldOutTrials, "_gain", reject)
    X = make_bars(600, random_state=0).data
    hdp = HDP(25, min_gain=0, random_state=0)
    hdp = hdp.partial_fit(X) if is_stream else hdp.fit(X)
    if is_stream:
        assert {*tried} == {0}
    else:
        assert tried == list(range(held_out_trials.MOST_REJECTED))
        assert hdp.converged_


@pytest.mark.parametrize("is_stream", daily(1, [False, True]))
def test_the_cheapest_reduction_is_tried_whatever_it_costs(is_stream, monkeypatch):
    """Unless trials have to end soon, in a stream."""
    given, reduce = [], held_out_moves.reduce

    def note(posterior, cheapest, budget, limit, least):
        given.append((cheapest[0].loss > budget and limit is None, least))
        return reduce(posterior, cheapest, budget, limit, least)

    monkeypatch.setattr(held_out_moves, "reduce", note)
    X = make_bars(600, random_state=0).data
    hdp = HDP(10, min_gain=0, random_state=0)
    if is_stream:
        hdp.partial_fit(X)
    else:
        hdp.fit(X)
        assert any(is_dear for is_dear, _ in given)
        assert hdp.n_components_ == 20
    assert {least for _, least in given} == {0 if is_stream else 1}
