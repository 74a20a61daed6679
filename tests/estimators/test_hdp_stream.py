"""Numbers of topics of a stream: `HDP.partial_fit`."""

import pickle
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from checks.corpora import n_found
from checks.judges import with_own_words
from checks.lineages import check_lineage
from checks.long import daily
from skbnp import HDP
from skbnp.datasets import make_bars, make_hdp
from skbnp.estimators import SplitMerge
from skbnp.inference.engine import Learner
from skbnp.inference.protocols import OnlineSchedule
from skbnp.models.hdp import posterior as reservoir
from skbnp.models.hdp.held_out import Gain
from skbnp.models.hdp.posterior import Reservoir
from skbnp.models.hdp.stream_trials import AGAIN, Candidate, StreamTrials


@pytest.fixture(scope="module")
def bars():
    return make_bars(2000, random_state=3)


def learn(hdp, X, size=500):
    for begin in range(0, X.shape[0], size):
        hdp.partial_fit(X[begin : begin + size])
    return hdp


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "size", "family"),
    [(300, 500, "collapsed"), (1, 100, "mean_field"), (1, 2000, "collapsed")],
)
def test_bars_are_found_from_any_start(start, size, family, bars):
    hdp = HDP(start, variational_family=family, random_state=0)
    learn(hdp, bars.data, size)
    assert abs(hdp.n_components_ - 20) <= 1
    assert n_found(hdp, bars.topic_word_distr) == 20


def test_planted_topics_are_found():
    made = make_hdp(1200, n_components=15, random_state=0)
    hdp = learn(HDP(2, random_state=0), made.data)
    assert abs(hdp.n_components_ - 15) <= 2


def test_equivalent_topics_merge_if_these_need_no_gain():
    made = make_bars(1000, side=5, random_state=2)
    hdp = learn(HDP(2, min_gain=0, random_state=0), made.data)
    assert hdp.n_components_ == n_found(hdp, made.topic_word_distr) == 10


@pytest.mark.long
@pytest.mark.usefixtures("all_splits")
def test_one_topic_is_found_where_there_is_one():
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.multinomial(80, rng.dirichlet(np.full(200, 0.1)), size=500))
    assert learn(HDP(40, random_state=0), X).n_components_ <= 2


@pytest.mark.long
def test_topics_of_late_documents_are_born():
    """A fifth of the topics is in none of the first documents.

    These may end with trials in vain at 600; the next are at 2,400.
    """
    made = make_hdp(4000, n_components=15, random_state=1)
    late = np.argsort(-made.topic_weights)[:3]
    has_late = made.doc_topic_distr[:, late].sum(axis=1) > 0.05
    early, rest = np.flatnonzero(~has_late)[:700], np.flatnonzero(has_late)
    assert len(early) >= 300
    assert len(early) + len(rest) >= 2400
    hdp = learn(HDP(5, random_state=0), made.data[early], 100)
    before = n_found(hdp, made.topic_word_distr[late])
    learn(hdp, made.data[rest], 100)
    assert n_found(hdp, made.topic_word_distr[late]) == 3 > before


@pytest.mark.long
def test_documents_that_come_again_are_kept_once(bars):
    hdp, X = HDP(5, random_state=0), bars.data[:600]
    for _ in range(3):
        learn(hdp, X, 200)
    assert len(hdp._posterior.reservoir.keys) == 600
    assert abs(hdp.n_components_ - 20) <= 1


@pytest.mark.long
def test_what_is_kept_is_bounded(bars, monkeypatch):
    monkeypatch.setattr(reservoir, "FEWEST_DOCS", 300)
    moves = SplitMerge(reservoir_tokens=100_000)
    hdp = learn(HDP(5, split_merge=moves, random_state=0), bars.data)
    kept = hdp._posterior.reservoir
    assert kept.counts.sum() <= 1.2 * 100_000
    assert kept.n_docs == pytest.approx(2000, rel=0.2)
    assert abs(hdp.n_components_ - 20) <= 1


def test_without_moves_topics_stay_and_nothing_is_kept(bars):
    hdp = learn(HDP(8, split_merge=False, random_state=0), bars.data)
    assert hdp.component_ids_.tolist() == list(range(8))
    assert hdp._posterior.reservoir is None


@pytest.mark.long
@pytest.mark.parametrize("method", ["online", "batch"])
def test_a_short_chunk_does_not_unlearn_a_fit(method, bars):
    hdp = HDP(40, learning_method=method, random_state=0).fit(bars.data)
    ids = hdp.component_ids_.tolist()
    made = make_hdp(400, n_features=bars.data.shape[1], random_state=0)
    learn(hdp, made.data, 100)
    assert hdp.component_ids_.tolist() == ids


@pytest.mark.parametrize("n_rounds", [2, 9])
def test_an_interrupt_while_kept_documents_are_learned_counts_none_twice(
    bars, n_rounds, monkeypatch
):
    learn_round, left = Learner.learn_round, [n_rounds]

    def interrupted(*args):
        result = learn_round(*args)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(Learner, "learn_round", interrupted)
    hdp = HDP(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        hdp.partial_fit(bars.data[:40])
    assert left[0] == 0
    assert hdp._posterior.n_seen <= 40
    learn(hdp, bars.data[40:200], 40)
    assert hdp._posterior.n_seen <= 200


def test_documents_are_learned_from_where_all_would_be_held_out():
    X = np.tile([3.0, 0.0, 1.0, 2.0], (100, 1))
    for seed in range(20):
        hdp = HDP(3, random_state=seed).partial_fit(X)
        assert hdp.history_["step"]
    words = np.eye(20)[np.random.default_rng(0).integers(0, 20, 600)]
    hdp = learn(HDP(3, random_state=0), sp.csr_array(words), 100)
    held = hdp.components_.sum(axis=0) - hdp.n_components_ * hdp.topic_word_prior_
    assert (held > 1.0).all()


@pytest.mark.parametrize(
    ("size", "n_docs"),
    [
        (100, 500),
        *(pytest.param(*of, marks=pytest.mark.weekly) for of in ((1, 200), (500, 500))),
    ],
)
def test_no_topic_knows_a_document_that_judges(size, n_docs, bars):
    """It is not learned from, and no topic starts from it."""
    X = with_own_words(bars.data[:n_docs])
    hdp = learn(HDP(40, random_state=0), X, size)
    kept, global_stats = (
        hdp._posterior.reservoir,
        hdp._posterior.global_stats.topic_words,
    )
    held = kept.keys <= np.uint64(kept.last_held_key)
    words = kept.counts[held].indices
    own = words[words >= bars.data.shape[1]]
    assert len(own) == held.sum() > n_docs / 20
    assert (global_stats.dense()[own] == 0.0).all()
    others = kept.counts[~held].indices
    others = others[others >= bars.data.shape[1]]
    assert (global_stats.dense()[others].sum(axis=1) > 0.0).all()


@pytest.mark.parametrize("moves", [False, SplitMerge(reservoir_tokens=0)])
def test_a_stream_without_trials_starts_from_all_documents(moves, bars):
    X = with_own_words(bars.data[:100])
    hdp = HDP(100, split_merge=moves, random_state=0)
    posterior = hdp._start_stream(hdp._make_model(), X, 0, X.shape[0])
    assert (posterior.global_stats.topic_words.dense().sum(axis=1) > 0.0).all()


def test_total_samples_count_where_no_documents_judge(bars):
    """Else a topic prior would be chosen for counts that are scaled up."""

    def topics(total, **given):
        hdp = HDP(8, total_samples=total, random_state=0, **given)
        return learn(hdp, bars.data[:400], 100).components_

    with pytest.warns(UserWarning, match=r"total_samples=100000 has no effect"):
        with_total = topics(1e5)
    assert_array_equal(with_total, topics(None))
    fixed = {"split_merge": False}
    assert topics(1e5, **fixed).sum() > 10 * topics(None, **fixed).sum()


def test_a_long_stream_learns_fewer_documents_again(bars, monkeypatch):
    """In proportion to the share that it keeps; a restart beside it learns as many."""
    spent, most, learn_round = [], [], Learner.learn_round

    def counted(self, round, monitor):
        spent[-1] += round.n_docs
        learn_round(self, round, monitor)

    monkeypatch.setattr(reservoir, "FEWEST_DOCS", 100)
    hdp = HDP(split_merge=SplitMerge(reservoir_tokens=1), random_state=0)
    hdp.partial_fit(bars.data[:100])
    monkeypatch.setattr(Learner, "learn_round", counted)
    for begin in range(100, 1600, 100):
        share = 110 / hdp.n_samples_seen_
        most.append(2 * (100 + np.ceil(AGAIN * 100 * min(share, 1.0))))
        spent.append(0)
        hdp.partial_fit(bars.data[begin : begin + 100])
    assert len(hdp._posterior.reservoir.keys) <= 110
    assert (np.array(spent) <= most).all()
    assert max(spent[:3]) > 2 * most[-1]


def test_a_restart_is_due_again_when_the_stream_has_doubled(bars, monkeypatch):
    monkeypatch.setattr(Candidate, "gain_over", lambda *arguments: Gain(-1.0, 0.0))
    hdp = HDP(4, random_state=0).partial_fit(bars.data[:200])
    for begin, n_next in ((200, 600), (400, 600), (600, 600), (800, 1200)):
        hdp.partial_fit(bars.data[begin : begin + 200])
        assert hdp._posterior.reservoir.n_next == n_next


def steps_of(hdp, X):
    """Steps of the minibatches of a call."""
    steps, one_pass = [], OnlineSchedule.one_pass

    def record(self, number):
        for round in one_pass(self, number):
            steps.append(round.step)
            yield round

    with (
        mock.patch.object(OnlineSchedule, "one_pass", record),
        mock.patch.object(StreamTrials, "restart"),
        mock.patch.object(Reservoir, "draw", lambda self, n, rng: self.counts[:0]),
    ):
        hdp.partial_fit(X)
    return steps


@pytest.mark.parametrize("is_stream", daily(1, [True, False]))
def test_documents_of_small_calls_weigh_no_more(is_stream, bars):
    """Whatever the sizes of calls: a single one gets an 80th of a step."""
    X = bars.data
    hdp = HDP(4, random_state=0, max_iter=60)
    if is_stream:
        assert steps_of(hdp, X[:20])[0] == pytest.approx(2.0**-0.5)  # from the start
        for begin in range(20, 1000, 245):
            hdp.partial_fit(X[begin : begin + 245])
        assert hdp._posterior.step_origin != 0
    else:
        hdp.fit(X[:1000])
    whole = 1.0 + hdp._posterior.n_steps - hdp._posterior.step_origin
    (large,) = steps_of(clone_of(hdp), X[1000:1110])
    assert large == pytest.approx((1.0 + whole) ** -0.5, rel=0.05)
    small = [steps_of(clone_of(hdp), X[[row]]) for row in range(1110, 1130)]
    small = [step for steps in small for step in steps]  # some are held out
    assert len(small) > 5
    assert small == pytest.approx([large / 80.0] * len(small), rel=0.05)


def clone_of(hdp):
    return pickle.loads(pickle.dumps(hdp))


@pytest.mark.long
def test_singles_after_a_fit_or_large_calls_leave_topics(bars):
    X = bars.data
    for hdp in (
        HDP(20, random_state=0).fit(X[:600]),
        learn(HDP(20, random_state=0), X[:600], 300),
    ):
        before = hdp.score(X[1500:])
        for begin in range(600, 660):
            hdp.partial_fit(X[begin : begin + 1])
        assert hdp.score(X[1500:]) > before - 0.03


@pytest.mark.long
@pytest.mark.usefixtures("all_splits")
@pytest.mark.parametrize("size", daily(1, [15, 40]))
def test_a_stream_of_few_documents_gets_more_topics_as_they_come(size, monkeypatch):
    """Control: by what the first call chooses alone, prediction is far worse."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(200, 0.05), 12)
    shares = rng.dirichlet(np.full(12, 0.1), 400)
    X = sp.csr_array(rng.multinomial(100, shares @ topics).astype(float))
    scores, numbers = [], []
    for fewest in (20, 1000):
        monkeypatch.setattr(reservoir, "FEWEST_CHOOSING", fewest)
        hdp = HDP(random_state=0)
        with pytest.warns(ConvergenceWarning, match="tries more at each doubling"):
            learn(hdp, X[:160], size)
        scores.append(hdp.score(X[160:]))
        numbers.append(hdp.n_components_)
        check_lineage(hdp)
    assert scores[0] > scores[1] + 0.1
    assert numbers[0] >= 12 > numbers[1]


@pytest.mark.usefixtures("all_splits")
def test_few_documents_choose_no_number_where_topics_were_given(bars):
    """After a fit or an edit, and from given topics; known ones may be many."""
    X = bars.data[:160]
    fitted = HDP(12, split_merge=False, max_iter=5, random_state=0).fit(X[:60])
    given = HDP(init=fitted, random_state=0)
    fitted.set_params(split_merge=True)
    edited = HDP(random_state=0).partial_fit(X[:30])
    edited.merge_components(edited.component_ids_[:2])
    for hdp in (fitted, given, edited):
        learn(hdp, X[60:100], 10)
    assert fitted.n_components_ == given.n_components_ == 12
    ids = edited.component_ids_.tolist()
    assert ids == learn(edited, X[100:], 20).component_ids_.tolist()
    seeds = {f"topic {j}": [j] for j in range(10)}
    known = HDP(topic_word_prior=seeds, random_state=0)
    assert learn(known, X[:25]).n_components_ >= 10
