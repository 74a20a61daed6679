"""Learning with memory: the bound is that of all documents, whatever has happened."""

import copy
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.lineages import replay
from checks.posteriors import posterior_of
from checks.states import assert_same
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, discarding, new_history
from skbnp.inference.posterior import Lineage
from skbnp.inference.protocols import (
    NO_MOVES,
    Corpus,
    DocumentLocalStep,
    LocalStop,
    OnlineSchedule,
)
from skbnp.models.hdp.births import EndUnused
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.model import DirectHDP, HDPState
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.posterior import PartCache, refreshed, resummed

#: Topics end that no document uses.
MOVES = SplitMerge(prune_tokens=1e-9)


LOCAL_STEP = DocumentLocalStep(LocalStop(40, 1e-7), Executor(1), DocumentStep)


def corpus(rng, n_docs=24, n_words=16, n_topics=4):
    """Documents that mix a few topics, no two alike."""
    topics = rng.dirichlet(np.full(n_words, 0.15), size=n_topics)
    shares = rng.dirichlet(np.full(n_topics, 0.3), size=n_docs)
    counts = rng.poisson(15.0 * shares @ topics).astype(float)
    counts[:, 0] += 0.001 * (1 + np.arange(n_docs))
    return sp.csr_array(counts)


def start(rng, X, n_topics, *, learn=False, limit=np.inf):
    # A prior that pins the corpus concentration: each value has a scale of its own.
    model = DirectHDP(learn, learn, corpus_prior=(1e15, 1e15))
    state = HDPState(np.full(n_topics + 1, 1 / (n_topics + 1)), 1.0, 1.0, 0.1)
    topics = rng.gamma(1.0, size=(X.shape[1], n_topics))
    topics += X[rng.integers(X.shape[0], size=n_topics)].T.toarray()
    topics *= X.sum() / n_topics / topics.sum(axis=0)
    entropy = int(rng.integers(1 << 30))
    return posterior_of(
        state, topics, model, seed_entropy=entropy, max_components=limit
    )


def learner(
    rng, n_topics=7, *, batch_size=7, learn=False, moves=MOVES, warm_up=0, X=None
):
    X = corpus(rng) if X is None else X
    n_docs = X.shape[0]
    posterior = start(rng, X, n_topics, learn=learn)
    schedule = OnlineSchedule(
        n_docs, batch_size, 1.0, 0.6, 5, total_samples=n_docs, reshuffle=False
    )
    return Learner(
        posterior,
        Corpus(X),
        schedule,
        LOCAL_STEP,
        PartCache(max(warm_up, 1)),
        NO_MOVES if moves is None else EndUnused(moves),
        warm_up=warm_up * n_docs,
    )


def passes(one, n_passes):
    monitor = Monitor(new_history())
    for _ in range(n_passes):
        yield one.one_pass(monitor)


def bound_of(posterior):
    """Bound of the totals, in nats."""
    return sum(
        posterior.model.objective(posterior.state, posterior.global_stats).values()
    )


def refreshed_bound(learner):
    """Bound of what is cached, with tangents at the present weights."""
    posterior = learner.posterior
    global_stats, _ = refreshed(posterior, learner.cache.memos)
    return sum(posterior.model.objective(posterior.state, global_stats).values())


def check_exact(learner):
    """The bound of the totals is that of all documents."""
    got, exact = bound_of(learner.posterior), refreshed_bound(learner)
    assert abs(got - exact) <= 1e-9 * abs(exact), f"{got} is not {exact}"


def check_global_stats(learner):
    """The totals are the sums of the memos."""
    global_stats, memos = learner.posterior.global_stats, learner.cache.memos
    for item in fields(global_stats):
        if item.name != "topic_words":
            parts = [getattr(memo.stats, item.name) for memo in memos]
            assert_allclose(
                getattr(global_stats, item.name), sum(parts), rtol=1e-9, atol=1e-9
            )
    dense = resummed((memo.stats for memo in memos), global_stats.topic_words)
    assert_allclose(
        global_stats.topic_words.dense(), dense.dense(), rtol=1e-9, atol=1e-9
    )
    assert_allclose(global_stats.topic_words.total, dense.total, rtol=1e-9, atol=1e-9)
    tokens = sum(memo.doc_topic.sum(axis=0) for memo in memos)
    assert_allclose(tokens, dense.total, rtol=1e-9, atol=1e-9)


def check_never_falls(trace):
    falls = -np.diff(trace)
    assert falls.max() <= 1e-8 * np.abs(trace).max(), f"fell by {falls.max():.2e}"


# The bound ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("learn", [False, True])
def test_bound_after_any_passes_is_that_of_all_documents(case, learn, seed):
    """Topics end on the way; several batches, and one. It never falls."""
    rng, trace = np.random.default_rng([seed, case]), []
    one = learner(rng, 3 + case, batch_size=(5, 7, 100)[case % 3], learn=learn)
    for is_exact in passes(one, 6):
        check_exact(one)
        check_global_stats(one)
        trace += [bound_of(one.posterior)] * is_exact
    assert len(trace) == 5
    check_never_falls(trace)


# Ascent -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(3))
def test_no_visit_lowers_the_bound_whatever_the_order(case, seed):
    """Batches in any order, some of them twice."""
    rng = np.random.default_rng([seed, case])
    one = learner(rng, 6, moves=None, batch_size=4, learn=case % 2 == 1)
    list(passes(one, 2))
    rounds, trace = list(one.schedule.one_pass(0)), [bound_of(one.posterior)]
    for index in rng.integers(len(rounds), size=30):
        one.learn_round(rounds[index], discarding())
        check_global_stats(one)
        trace.append(bound_of(one.posterior))
    check_never_falls(trace)
    exact = refreshed_bound(one)
    assert trace[-1] <= exact + 1e-9 * abs(exact)  # stale tangents lie below


# Relations ----------------------------------------------------------------------------


def test_a_topic_that_was_born_merged_and_ended_leaves_a_consistent_log(seed):
    """In one trial: 3 and 4 are born, 4 joins 3, 3 ends."""
    one = learner(np.random.default_rng(seed), 3)
    posterior = one.posterior
    candidate = posterior.copy()
    for entry in (("birth", (), (3,)), ("birth", (), (4,))):
        candidate.lineage = [*candidate.lineage, Lineage(0, *entry)]
    candidate.lineage = [
        *candidate.lineage,
        Lineage(0, "merge", (3, 4), (3,)),
        Lineage(0, "prune", (3,), ()),
    ]
    posterior.adopt(candidate, discarding())
    assert replay(posterior.lineage) == set(posterior.ids.tolist()) == {0, 1, 2}


# Memos --------------------------------------------------------------------------------


def test_an_edit_of_memos_leaves_the_old_ones(seed):
    """Who holds an old list of memos holds an old state."""
    one = learner(np.random.default_rng(seed), moves=None)
    list(passes(one, 2))
    before, memo = copy.deepcopy(one.cache.memos), one.cache.memos[0]
    memo.merged([(2, 0), (1, 3)], np.array([0.5, 0.1]))
    memo.without([4, 0])
    refreshed(one.posterior, one.cache.memos)
    assert_same(before, one.cache.memos)


def test_a_merged_memo_adds_columns(seed):
    one = learner(np.random.default_rng(seed), 5, moves=None)
    list(passes(one, 2))
    memo = one.cache.memos[0]
    merged = memo.merged([(2, 0), (1, 3)], np.array([0.5, 0.25]))
    old, new = memo.doc_topic.toarray(), merged.doc_topic.toarray()
    assert_array_equal(
        new, np.stack([old[:, 0] + old[:, 2], old[:, 3] + old[:, 1], old[:, 4]], axis=1)
    )
    entropy = memo.stats.entropy
    assert_allclose(
        merged.stats.entropy,
        [entropy[0] + entropy[2] - 0.5, entropy[3] + entropy[1] - 0.25, entropy[4]],
    )
    words, rows = (m.stats.topic_words.values.toarray() for m in (memo, merged))
    assert_allclose(rows[:, 0], words[:, 0] + words[:, 2])
    gone = memo.without([1, 4])
    assert_array_equal(gone.doc_topic.toarray(), old[:, [0, 3, 2]])
    assert_array_equal(gone.stats.entropy, entropy[[0, 3, 2]])
