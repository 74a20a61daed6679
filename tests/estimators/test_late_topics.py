"""Topics that begin late in a stream, and restarts beside it."""

import copy
import pickle
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import skbnp
from checks.lineages import check_lineage
from checks.long import daily
from checks.states import NOTES, TIMES, assert_same, learned
from skbnp import HDP
from skbnp.estimators import SplitMerge
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.models.hdp import posterior as reservoir
from skbnp.models.hdp import stream_trials
from skbnp.models.hdp.fold_in import score_documents
from skbnp.models.hdp.held_out import Gain
from skbnp.models.hdp.posterior import Outliers
from skbnp.models.hdp.stream_trials import AGAIN, Candidate

N_TOPICS, N_LATE, BEGIN = 8, 2, 700
#: What copies have for themselves.
OWN = TIMES | NOTES | {"monitor"}


def plant(n_docs, seed, begin=BEGIN):
    """Documents of sparse topics, of which the first begin late: counts and topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(200, 0.05), N_TOPICS)
    weights = rng.gamma(0.2, size=(n_docs, N_TOPICS)) + 1e-9
    weights[:begin, :N_LATE] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    counts = [rng.multinomial(60, row @ topics) for row in weights]
    return sp.csr_array(np.array(counts, dtype=float)), topics


def learn(hdp, X, size):
    for begin in range(0, X.shape[0], size):
        hdp.partial_fit(X[begin : begin + size])
    return hdp


def cosines(one, other):
    one, other = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (one, other)
    )
    return one @ other.T


def n_late_found(hdp, topics):
    return int(
        (cosines(topics[:N_LATE], hdp.topic_word_distr_).max(axis=1) > 0.9).sum()
    )


SEEDS = 1, 2


@pytest.fixture(scope="module")
def streams():
    return [plant(1500, seed) for seed in SEEDS]


def test_late_topics_are_found_and_named(streams):
    """In eight streams 16 of 16 were there, and births gave 14."""
    n_there = n_born = 0
    for X, topics in streams:
        hdp = learn(HDP(2, random_state=0), X, 100)
        n_there += n_late_found(hdp, topics)
        born = hdp.emerged_component_ids_
        columns = np.flatnonzero(np.isin(hdp.component_ids_, born))
        near = cosines(topics[:N_LATE], hdp.topic_word_distr_[columns])
        n_born += int((near.max(axis=1, initial=0.0) > 0.9).sum())
        assert {("birth", (n,)) for n in born} <= {
            (entry.kind, entry.children) for entry in hdp.lineage_
        }
    assert n_there >= 3
    assert n_born >= 3


@cache
def learned_before(seed):
    """Return a fit to the documents before late topics, all documents, and topics."""
    X, topics = plant(1000, seed)
    return learn(HDP(2, random_state=0), X[:BEGIN], 100), X, topics


def two_late_as_one(seed):
    """Return a posterior in which the mean of two late topics is the last topic.

    And kept documents of both, and the topics.
    """
    hdp, X, topics = learned_before(seed)
    posterior = hdp._posterior.copy()
    mean = sp.csr_array(topics[:N_LATE].mean(axis=0, keepdims=True))
    stream_trials.held_out_moves.add_topics(posterior, mean, np.array([0.1]))
    with Executor(1) as executor:
        scores = score_documents(
            posterior, X[BEGIN:], executor, [len(posterior.ids) - 1]
        )
    bad = X[BEGIN:][posterior.reservoir.are_outliers(scores)]
    return posterior, Outliers.empty(200).with_documents(bad), topics


def learned_anew(seed, is_young):
    """Return cosines of the two with the last topic, and with proposed ones."""
    posterior, outliers, topics = two_late_as_one(seed)
    if is_young:
        outliers = replace(outliers, provisional=((int(posterior.ids[-1]), 0),))
    rng = np.random.default_rng(seed)
    with Executor(1) as executor:
        outliers = stream_trials.propose(posterior, outliers, rng, executor)
    last = posterior.global_stats.topic_words.rows(slice(None))[:, -1]
    proposal, late = outliers.proposal, topics[:N_LATE]
    proposed = np.zeros((0, 200)) if proposal is None else proposal.topics.toarray()
    return cosines(late, last[None])[:, 0], cosines(late, proposed)


@pytest.mark.long
def test_a_young_topic_that_stands_for_two_becomes_one_of_them():
    """The other one is proposed, and hardly more: one more at most."""
    n_each = 0
    for seed in range(4):
        near, proposed = learned_anew(seed, is_young=True)
        assert near.max() > 0.8
        assert 1 <= proposed.shape[1] <= 2
        n_each += near.max() > 0.85 and proposed[near.argmin()].max() > 0.75
    assert n_each >= 3


def test_a_topic_that_is_no_longer_young_stays():
    """A control: of the two together, each has a cosine of about .7."""
    near, _ = learned_anew(2, is_young=False)
    assert 0.6 < near.min() <= near.max() < 0.8


@pytest.fixture(scope="module")
def dense():
    """Fits without the first two of topics that few documents show little of."""

    def fitted(seed):
        rng = np.random.default_rng(seed)
        topics = rng.dirichlet(np.full(400, 0.3), 8)
        X = draw(300, topics[2:], rng)
        hdp = HDP(6, split_merge=False, max_iter=20, random_state=0)
        return hdp.fit(X)._posterior, topics

    return [fitted(seed) for seed in range(6)]


def draw(n_docs, topics, rng):
    shares = rng.gamma(0.3, size=(n_docs, len(topics))) + 1e-9
    shares /= shares.sum(axis=1, keepdims=True)
    counts = [rng.multinomial(60, row @ topics) for row in shares]
    return sp.csr_array(np.array(counts, dtype=float))


def proposed(dense, n_late, n_docs):
    """Return cosines of late topics and proposed ones, for documents of those only."""
    cases = []
    for posterior, topics in dense:
        for seed in range(5):
            rng, late = np.random.default_rng(seed), topics[:n_late]
            kept = Outliers.empty(400).with_documents(draw(n_docs, late, rng))
            with Executor(1) as executor:
                kept = stream_trials.propose(posterior, kept, rng, executor)
            cases.append(cosines(late, kept.proposal.topics.toarray()))
    return cases


def test_few_documents_of_two_topics_propose_both(dense, monkeypatch):
    """More often than the number that predicts best: 24 of 30 and 14."""

    def n_both():
        return sum((c.max(axis=1) > 0.75).all() for c in proposed(dense, 2, 14))

    n_within = n_both()
    monkeypatch.setattr(stream_trials, "_standard_error", lambda *sums: 0.0)
    assert n_within >= n_both() + 3


def test_documents_of_one_topic_propose_no_pieces_of_it(dense):
    """A control."""
    numbers = [case.shape[1] for case in proposed(dense, 1, 40)]
    assert max(numbers) <= 2
    assert numbers.count(1) >= 25


def test_the_first_number_within_one_standard_error_of_the_best_is_chosen():
    """Documents lose one nat on average, by a spread of nine or of one."""
    best, lost = np.zeros(16), 1.0 - np.resize([1.0, -1.0], 16)
    clear, unclear = best - lost, 9.0 * np.resize([1.0, -1.0], 16) - 1.0
    assert stream_trials._first_of_the_best(np.array([clear, unclear, best])) == 1
    assert stream_trials._first_of_the_best(np.array([clear, best])) == 1


def test_edited_topics_are_not_learned_anew():
    hdp, X, _ = learned_before(2)
    hdp = learn(copy.copy(hdp), X[BEGIN:], 100)
    assert len(hdp._posterior.outliers.provisional) > 0
    hdp.drop_components([int(hdp.component_ids_[0])])
    assert len(hdp._posterior.outliers.provisional) == 0


@pytest.mark.long
def test_no_topic_is_found_without_births(streams):
    """A control: what is found above is found by births."""
    n_there = 0
    for X, topics in streams:
        moves = SplitMerge(births=False)
        hdp = learn(HDP(12, split_merge=moves, random_state=0), X, 100)
        assert len(hdp.emerged_component_ids_) == 0
        n_there += n_late_found(hdp, topics)
    assert n_there < 3


def test_quiet_streams_have_no_births():
    X, topics = plant(1000, seed=1, begin=0)
    hdp = learn(HDP(2, random_state=0), X, 50)
    is_planted = cosines(topics, hdp.topic_word_distr_).max(axis=0) > 0.8
    is_born = np.isin(hdp.component_ids_, hdp.emerged_component_ids_)
    assert (is_born & ~is_planted).sum() <= 1


@pytest.fixture
def accept_all(monkeypatch):
    """Let all proposals be born, and make many of them."""
    monkeypatch.setattr(stream_trials, "LEAST_GAIN", -np.inf)
    monkeypatch.setattr(stream_trials, "ERRORS", -np.inf)
    monkeypatch.setattr(reservoir, "OUTLIER", 0.5)


@pytest.mark.usefixtures("accept_all")
def test_documents_that_judge_refuse_topics_of_chosen_ones():
    """A control: documents that nobody has chosen are needed."""
    X, _ = plant(1000, seed=1, begin=0)
    hdp = learn(HDP(2, random_state=0), X, 50)
    assert len(hdp._posterior.outliers.born) > 1


@pytest.mark.usefixtures("accept_all")
def test_no_topic_begins_beyond_a_limit_that_was_lowered():
    X, _ = plant(1300, seed=1, begin=0)
    hdp = learn(HDP(2, random_state=0), X[:600], 50)
    posterior = hdp._posterior
    posterior.outliers = Outliers.empty(200).proposed(X[:4], 0.5)
    posterior.restart = None  # which would end with fewer topics
    posterior.reservoir = replace(posterior.reservoir, n_next=1e100)
    hdp.set_params(max_components=hdp.n_components_ - 2)
    learn(hdp, X[600:], 50)
    assert hdp._posterior.outliers.born == ()


def test_documents_that_judge_stay_as_they_are(monkeypatch):
    """Those predicted badly are kept afterwards, to propose other topics from."""
    judged, judge_proposal = [], stream_trials.judge_proposal

    def judge(posterior, outliers, X, *given):
        before = X.toarray()
        result = judge_proposal(posterior, outliers, X, *given)
        judged.append((X.toarray() == before).all())
        return result

    monkeypatch.setattr(stream_trials, "judge_proposal", judge)
    learn(HDP(2, random_state=0), plant(900, seed=1)[0], 100)
    assert judged
    assert all(judged)


def test_a_call_learns_a_bounded_number_of_documents(monkeypatch):
    """Its own and those kept, and as many beside it for topics that start again."""
    spent, learn_round = [0.0], Learner.learn_round

    def counted(self, round, monitor):
        spent[-1] += round.n_docs
        learn_round(self, round, monitor)

    X, _ = plant(800, seed=2, begin=0)
    hdp = HDP(2, random_state=0).partial_fit(X[:40])  # a number is chosen first
    monkeypatch.setattr(Learner, "learn_round", counted)
    for begin in range(40, X.shape[0], 40):
        spent.append(0.0)
        hdp.partial_fit(X[begin : begin + 40])
    once = 40 * (1 + AGAIN)
    assert max(spent) <= 2 * once
    assert sum(np.array(spent) > once) > 10


def paused():
    """Return a stream whose restart goes on in the next call, and what follows."""
    X, _ = plant(420, seed=3, begin=0)
    hdp = learn(HDP(2, random_state=0), X[:260], 20)
    assert hdp._posterior.restart is not None
    return hdp, X[260:]


def test_a_stream_that_is_copied_after_each_call_has_the_same_bits():
    """With topics that begin late and those that start again; by two jobs, too."""
    X, _ = plant(1200, seed=1)
    hdp, other, n_left = HDP(2, random_state=0), HDP(2, random_state=0, n_jobs=2), []
    for begin in range(0, X.shape[0], 100):
        other = pickle.loads(pickle.dumps(other))
        for each in (hdp, other):
            each.partial_fit(X[begin : begin + 100])
        restart = hdp._posterior.restart
        n_left += [] if restart is None else [restart.n_left]
    assert len(set(n_left)) > 2
    assert len(hdp.emerged_component_ids_) > 0
    hdp, other = (pickle.loads(pickle.dumps(each)) for each in (hdp, other))
    assert_same(learned(hdp), learned(other), ignore=OWN)


@pytest.mark.parametrize("copied", daily(1, ["saved", "shallow"]))
def test_a_restart_goes_on_in_a_copy(copied, tmp_path):
    """A shallow copy has that of the other, and leaves it as it is."""
    hdp, rest = paused()
    other = copy.copy(hdp)
    if copied == "saved":
        skbnp.save(hdp, tmp_path / "hdp.skbnp")
        other = skbnp.load(tmp_path / "hdp.skbnp")
    for each in (hdp, other):
        learn(each, rest, 20)
    assert_same(learned(hdp), learned(other), ignore=OWN)


def test_a_restart_learns_what_comes_meanwhile_and_the_same_topics_keep_ids():
    X, topics = plant(800, seed=3, begin=0)
    hdp = learn(HDP(24, random_state=0), X[:240], 80)
    before = dict(zip(hdp.component_ids_.tolist(), hdp.topic_word_distr_, strict=True))
    ahead = []
    gain_over = Candidate.gain_over

    def accept(self, *others):  # after reductions
        return Gain(1.0, 0.0) if len(others) == 4 else gain_over(self, *others)

    with mock.patch.object(Candidate, "gain_over", accept):
        for begin in range(240, 800, 40):
            hdp.partial_fit(X[begin : begin + 40])
            posterior = hdp._posterior
            if posterior.restart is not None:
                ahead.append(posterior.restart.posterior.n_seen - posterior.n_seen)
    assert ahead == [0] * len(ahead) != []
    assert hdp._posterior.reservoir.n_next > reservoir.FIRST_RESTART  # one has ended
    kept = [row for row, n in enumerate(hdp.component_ids_) if int(n) in before]
    assert len(kept) >= len(topics) - 1
    for row in kept:
        old = before[int(hdp.component_ids_[row])]
        assert cosines(hdp.topic_word_distr_[[row]], old[None]) > 0.8
    check_lineage(hdp)


def test_a_restart_goes_on_where_terms_are_new():
    X, _ = plant(600, seed=3, begin=0)
    frame = pd.DataFrame(X.toarray(), columns=[f"w{n:03d}" for n in range(200)])
    hdp = learn(HDP(2, min_gain=0, random_state=0), frame[:260].iloc[:, :180], 20)
    assert hdp._posterior.restart is not None
    learn(hdp, frame[260:280], 20)
    beside = hdp._posterior.restart.posterior
    assert beside.global_stats.topic_words.shape[0] == 200
    learn(hdp, frame[280:], 320)
    assert hdp.components_.shape[1] == 200
    assert hdp.n_components_ > 2


def test_an_edit_ends_a_restart():
    hdp, rest = paused()
    hdp.drop_components([int(hdp.component_ids_[0])])
    assert hdp._posterior.restart is None
    learn(hdp, rest, 20)
