"""The collapsed document step in learning: what the totals hold, whoever visits."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose

from checks.corpora import topic_counts
from checks.posteriors import posterior_of
from checks.states import assert_same, differences
from skbnp import HDP
from skbnp.inference.engine import DocumentWeights, Learner
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.protocols import (
    NO_MOVES,
    BatchSchedule,
    Corpus,
    DocumentLocalStep,
    LocalStop,
    OnlineSchedule,
    Part,
)
from skbnp.models.hdp.births import EndUnused
from skbnp.models.hdp.local import CollapsedStep
from skbnp.models.hdp.model import HDPState
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.posterior import PartCache, Reservoir, resummed

STOP = LocalStop(100, 1e-3)
LOCAL_STEP = DocumentLocalStep(STOP, Executor(1), CollapsedStep)
N_DOCS, N_WORDS = 90, 40
#: Sums in double precision of some thousand terms, in another order.
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def X():
    return topic_counts(N_DOCS, N_WORDS, n_topics=5)


def start(X, n_topics=6, *, seed=0, mass=1.0):
    """A posterior before its first update; `mass` times the tokens in its topics."""
    rng = np.random.default_rng(seed)
    state = HDPState(np.full(n_topics + 1, 1.0 / (n_topics + 1)), 1.0, 1.0, 0.05)
    topics = rng.gamma(1.0, size=(X.shape[1], n_topics))
    topics *= mass * X.sum() / topics.sum()
    return posterior_of(state, topics)


def schedule(*, batch_size=20, n_docs=N_DOCS, offset=1.0, reshuffle=False):
    return OnlineSchedule(
        n_docs, batch_size, offset, 0.6, 5, total_samples=n_docs, reshuffle=reshuffle
    )


def edits(moves):
    return NO_MOVES if moves is None else EndUnused(moves)


def incremental(X, rounds=None, *, moves=None, n_topics=6):
    local_step, rounds = LOCAL_STEP, rounds or schedule()
    memory, corpus = (
        PartCache(document_weights=DocumentWeights(X.shape[0])),
        Corpus(X),
    )
    one = start(X, n_topics)
    return Learner(one, corpus, rounds, local_step, memory, edits(moves))


def statistics_of(learner):
    return [memo.stats for memo in learner.cache.memos]


def passes(learner, n_passes):
    monitor = Monitor(new_history("log_predictive"), criterion="log_predictive")
    for _ in range(n_passes):
        learner.one_pass(monitor)
    return learner


# Holdings -----------------------------------------------------------------------------


@pytest.mark.parametrize("smallest", [1e-9, 0.1, 0.99])
def test_holdings_follow_the_plain_formula(smallest, seed):
    """keep * all + gain of some; for so long that the scale must be written out."""
    rng = np.random.default_rng(seed)
    document_weights, plain, scales = DocumentWeights(30), np.zeros(30), []
    for _ in range(400):
        rows = rng.choice(30, rng.integers(0, 9), replace=False)
        keep, gain = rng.uniform(smallest, 1.0), rng.gamma(1.0)
        document_weights.decay_and_add(rows, keep=keep, gain=gain)
        plain *= keep
        plain[rows] += gain
        scales.append(document_weights._scale)
        # Some hundred roundings; what has faded below 1e-100 of the rest is nothing.
        assert_allclose(
            document_weights.initial_local(Part(0, np.arange(30))),
            plain,
            rtol=1e-12,
            atol=1e-90,
        )
    assert (np.diff(scales) > 0).any() == (smallest < 0.9)


def test_new_documents_of_a_stream_have_no_counts_in_the_totals(X, monkeypatch):
    seen, prepare = [], CollapsedStep.prepare.__func__

    def note(cls, given):
        step = prepare(cls, given)
        seen.append(step.doc_weights)
        return step

    monkeypatch.setattr(CollapsedStep, "prepare", classmethod(note))
    nothing = X[:0]  # of known ones
    monkeypatch.setattr(Reservoir, "draw", lambda *given: nothing)
    HDP(5, batch_size=30, random_state=0).partial_fit(X).partial_fit(X)
    assert len(seen) == 6
    assert not np.concatenate(seen).any()
    seen.clear()
    HDP(5, batch_size=30, burstiness=False, random_state=0, max_iter=2).fit(X)
    held = [(part > 0.0).all() for part in seen]
    assert held == [False] * 3 + [True] * 3


# Batches with memory ------------------------------------------------------------------


def check_global_stats(learner):
    """Totals are the sums of what all batches say."""
    global_stats, near = (
        learner.posterior.global_stats,
        {"rtol": ROUNDING, "atol": ROUNDING},
    )
    words = resummed(statistics_of(learner), global_stats.topic_words)
    assert_allclose(global_stats.topic_words.dense(), words.dense(), **near)
    assert_allclose(global_stats.topic_words.total, words.total, **near)
    for item in fields(global_stats):
        if item.name != "topic_words":
            parts = sum(getattr(memo, item.name) for memo in statistics_of(learner))
            assert_allclose(getattr(global_stats, item.name), parts, **near)


def check_counts_once(learner):
    """Each token of the corpus counts once."""
    global_stats, X = learner.posterior.global_stats, learner.corpus.X
    words = global_stats.topic_words.dense().sum(axis=1)
    assert_allclose(words, X.sum(axis=0), rtol=ROUNDING)
    assert_allclose(global_stats.n_tokens, X.sum(), rtol=ROUNDING)


def test_totals_are_the_sums_of_all_batches_when_topics_have_ended(X):
    """The tokens of a topic that ends are missing until the next pass."""
    moves = SplitMerge(prune_tokens=20.0)
    learner, n_ended = incremental(X, moves=moves, n_topics=12), []
    for _ in range(8):
        before = learner.posterior.state.n_components
        passes(learner, 1)
        check_global_stats(learner)
        n_ended.append(before - learner.posterior.state.n_components)
        lack = X.sum() - learner.posterior.global_stats.topic_words.total.sum()
        assert -ROUNDING * X.sum() <= lack <= 20.0 * n_ended[-1] + ROUNDING * X.sum()
    assert sum(n_ended) > 0
    assert n_ended[-1] == 0
    check_counts_once(learner)


def test_one_batch_is_batch_learning(X):
    """The same bits: the same rows in the same order, step and scale one."""
    whole = OnlineSchedule(
        N_DOCS, N_DOCS, 0.0, 0.6, None, total_samples=N_DOCS, reshuffle=False
    )
    one, other = (
        passes(incremental(X, rounds), 5)
        for rounds in (BatchSchedule.of_rows(N_DOCS), whole)
    )
    assert_same(one.posterior, other.posterior)
    assert_same(one.cache.memos, other.cache.memos)
    parts = passes(incremental(X), 5)
    assert list(differences(one.posterior.global_stats, parts.posterior.global_stats))
