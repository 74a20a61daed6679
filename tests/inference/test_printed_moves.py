"""Moves as printed by Bryant and Sudderth (2012), step by step against the paper."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from checks.corpora import topic_counts
from checks.estimators import mean_field_hdp
from checks.posteriors import responsibilities
from reference import bryant2012 as reference
from skbnp.inference.engine import Learner, RunningAverage
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.protocols import (
    BatchSchedule,
    Corpus,
    DocumentLocalStep,
    LocalStop,
    Part,
    Round,
    Visit,
)
from skbnp.models.hdp import moves as printed
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.moves import MergeComparison, PrintedMoves, SplitMerge
from skbnp.utils.matching import best_disjoint

PAPER = SplitMerge.paper()
MERGES = replace(PAPER, max_splits=0)
LOCAL_STEP = DocumentLocalStep(LocalStop(50, 1e-9), Executor(1), DocumentStep)
N_DOCS, SIZE, STEP = 240.0, 24, 0.6
SCALE = N_DOCS / SIZE


@pytest.fixture(scope="module")
def X():
    return topic_counts(96, 20, n_topics=4, length=12)


@pytest.fixture(scope="module")
def long_docs():
    return topic_counts(96, 20, n_topics=6, length=120)


def stream(X, n_components, seed=0):
    """A posterior amid a stream, before any move."""
    hdp = mean_field_hdp(n_components, warm_up=0, split_merge=False, batch_size=SIZE)
    hdp.set_params(total_samples=N_DOCS, learn_priors=False, random_state=seed)
    hdp.set_params(topic_word_prior=0.2)  # not that whose constants are zero
    return hdp.partial_fit(X[: 2 * SIZE])._posterior


def learned(posterior, X, moves):
    """The posterior after one more minibatch."""
    posterior = copy.deepcopy(posterior)
    learner = Learner(
        posterior,
        Corpus(X),
        BatchSchedule.of_rows(0),
        LOCAL_STEP,
        RunningAverage(),
        PrintedMoves(moves),
    )
    rows = np.arange(X.shape[0])
    learner.learn_round(Round((Part(0, rows),), STEP, SCALE), Monitor(new_history()))
    return posterior


def priors_of(posterior):
    state = posterior.state
    return state.doc_concentration, state.corpus_concentration, state.topic_word_prior


def lam_of(posterior):
    return (
        posterior.global_stats.topic_words.dense().T + posterior.state.topic_word_prior
    )


def visited(posterior, X):
    """Responsibilities of a visit, and what its blocks say."""
    visits = LOCAL_STEP.update_local(posterior, X, Visit(block_hook=copy.copy)).seen
    return responsibilities(visits, X.shape, posterior.state.n_components), visits


def given_to(posterior, X):
    """What the twin starts from."""
    r, _ = visited(posterior, X)
    weights = posterior.state.weights
    return X.toarray(), r, lam_of(posterior), weights, priors_of(posterior), SCALE


# Merges -------------------------------------------------------------------------------


def check_merge_gains(posterior, X, judged):
    """Gains of pairs are differences of two bounds under the topics of `judged`."""
    stats = LOCAL_STEP.update_local(posterior, X)
    pairs = printed.covarying_pairs(stats.doc_topic)
    _, visits = visited(posterior, X)
    sums = sum(MergeComparison(pairs)(visit) for visit in visits)
    gains = SCALE * sums[:, 1] + printed.words_gains(
        judged.global_stats.topic_words,
        stats.stats.topic_words,
        SCALE,
        posterior.state.topic_word_prior,
        pairs,
    )
    wanted, _ = reference.merges(*given_to(posterior, X))
    assert set(wanted) == set(map(tuple, pairs.tolist()))
    assert_allclose(gains, [wanted[tuple(pair)] for pair in pairs.tolist()], rtol=1e-7)


def test_gains_of_merges_are_differences_of_the_bound_before_the_update(
    X, seed, monkeypatch
):
    posterior = stream(X, 5, seed)
    check_merge_gains(posterior, X[48:72], posterior)
    with monkeypatch.context() as patch:
        patch.setattr(printed, "best_disjoint", lambda *arguments: [])
        after = learned(posterior, X[48:72], MERGES)
    with pytest.raises(AssertionError):
        check_merge_gains(posterior, X[48:72], after)


def check_merged(before, after, X, merges=reference.merges):
    """The pairs of the paper have merged, then the update followed."""
    counts, r, lam, weights, priors, scale = given_to(before, X)
    _, chosen = merges(counts, r, lam, weights, priors, scale)
    ids, names = before.ids.tolist(), []
    for one, other in chosen:
        names.append((ids[one], ids[other]))
    made = [one.parents for one in after.lineage if one.kind == "merge"]
    assert made == names
    for one, other in names:
        pair = ids.index(one), ids.index(other)
        r, lam, weights = reference.merged(r, lam, weights, pair, priors[2])
        ids.remove(other)
    fresh = priors[2] + scale * np.einsum("jw,jwk->kw", counts, r)
    updated = (1.0 - STEP) * lam + STEP * fresh
    assert set(after.ids.tolist()) == set(ids)
    order = [ids.index(name) for name in after.ids.tolist()]
    assert_allclose(lam_of(after), updated[order], rtol=1e-6, atol=1e-9)


def test_one_minibatch_decides_about_merges_before_its_update(X, seed):
    before = stream(X, 7, seed)
    after = learned(before, X[48:72], MERGES)
    assert after.n_moves["n_merges"] > 0
    check_merged(before, after, X[48:72])


# Splits -------------------------------------------------------------------------------


def check_split(before, X, step=STEP):
    """The first topic that the paper would split has split, as it says."""
    updated, gains, wanted = learned(before, X, MERGES), [], []
    with pytest.MonkeyPatch.context() as patch:
        judge = printed.gain
        patch.setattr(
            printed, "gain", lambda *given: gains.append(judge(*given)) or gains[-1]
        )
        after = learned(before, X, PAPER)
    assert updated.n_moves["n_merges"] == 0  # topics are those of the visit
    counts, r, *_ = given_to(before, X)
    given = lam_of(updated), updated.state.weights, priors_of(updated), SCALE
    for topic in range(len(before.ids)):
        old = before.state.weights[topic]
        gain, sums, shares = reference.split_of(counts, r, *given, topic, old, step)
        wanted.append(gain)
        if gain > 0.0:
            break
    assert_allclose(gains[: len(wanted)], wanted, rtol=1e-6)
    if gain <= 0.0:
        assert after.n_moves["n_splits"] == 0
        return 0
    made = [one.parents for one in after.lineage if one.kind == "split"]
    assert made == [(before.ids[topic],)]
    eta = after.state.topic_word_prior
    lam = np.vstack([given[0], eta + sums[1]])
    lam[topic] = eta + sums[0]
    assert_allclose(lam_of(after), lam, rtol=1e-4, atol=1e-4)
    split = updated.state.weights[topic] * shares
    assert_allclose(after.state.weights[[topic, -2]], split, rtol=1e-4)
    return 1


def test_topics_are_tried_in_turn_and_split_as_printed(long_docs, seed):
    assert (
        sum(
            check_split(stream(long_docs, 2, 4 * seed + k), long_docs[48:72])
            for k in range(4)
        )
        > 0
    )


# Pairs --------------------------------------------------------------------------------


def test_pairs_are_those_of_positive_covariance_and_of_idle_topics():
    tokens = np.array(
        [[2.0, 3.0, 0.0, 1.0], [0.0, 0.1, 0.0, 2.0], [4.0, 1.0, 0.0, 0.0]]
    )
    pairs = printed.covarying_pairs(printed.sp.csr_array(tokens))
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]


def test_best_pairs_come_first_and_share_no_member():
    pairs = [(0, 1), (1, 2), (3, 4), (2, 5), (6, 7)]
    assert best_disjoint(pairs, [1.0, 3.0, 0.0, 2.0, -1.0]).tolist() == [1]
    assert best_disjoint(pairs, [4.0, 3.0, 1.0, 2.0, 1.0]).tolist() == [0, 3, 2, 4]
    assert best_disjoint([], []).tolist() == []
