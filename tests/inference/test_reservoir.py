"""The documents that a stream keeps, and what is held out of them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from checks.corpora import topic_counts
from skbnp.models.hdp import held_out
from skbnp.models.hdp import posterior as module
from skbnp.models.hdp.posterior import Reservoir, document_keys

N_DOCS, N_WORDS, ENTROPY, PLENTY = 400, 30, 2**100 + 17, 10**9


@pytest.fixture(scope="module")
def X():
    return topic_counts(N_DOCS, N_WORDS, n_topics=4)


@pytest.fixture
def few(monkeypatch):
    """Few documents at the least, and few tokens to judge by."""
    monkeypatch.setattr(module, "FEWEST_DOCS", 5)
    monkeypatch.setattr(held_out, "FEWEST_DOCS", 5)
    monkeypatch.setattr(held_out, "N_TOKENS", 100)


def add_all(X, size, n_tokens=PLENTY):
    """Add documents `size` at a time; what is kept, and what may be learned from."""
    kept, learned = Reservoir.empty(X.shape[1], 0), []
    for begin in range(0, X.shape[0], size):
        kept, part = kept.add(X[begin : begin + size], n_tokens, ENTROPY)
        learned.append(part)
    return kept, sp.vstack(learned, format="csr")


def as_tuples(X):
    return [tuple(row) for row in X.toarray().tolist()]


def hold_out(kept):
    return kept.held_out(np.random.default_rng(0))


def test_equal_documents_have_equal_keys_and_no_others(X):
    keys = document_keys(X, ENTROPY)
    dense = X.toarray()
    same = (dense[:, None] == dense[None]).all(axis=2)
    assert_array_equal(keys[:, None] == keys[None], same)
    order = np.random.default_rng(0).permutation(N_DOCS)
    assert_array_equal(document_keys(X[order], ENTROPY), keys[order])
    assert not np.isin(document_keys(X, ENTROPY + 1), keys).any()


def test_keys_are_uniform():
    """Of documents that differ as little as they can."""
    X = sp.csr_array(np.arange(1.0, 2001.0)[:, None])
    shares = np.sort(document_keys(X, ENTROPY) / 2.0**64)
    steps = np.arange(1, 2001) / 2000
    assert np.abs(shares - steps).max() < 1.63 / np.sqrt(2000)  # Kolmogorov, 1 %


def test_without_limit_all_documents_are_kept_once(X):
    kept, learned = add_all(sp.vstack([X, X[::-1]], format="csr"), 50)
    assert sorted(as_tuples(kept.counts)) == sorted(set(as_tuples(X)))
    assert kept.n_docs == len(kept.keys)
    # The second time the same are learned from.
    n_learned = learned.shape[0] // 2
    assert_array_equal(
        learned[:n_learned].toarray(), learned[n_learned:][::-1].toarray()
    )


def test_what_is_held_out_is_not_learned(X):
    kept, learned = add_all(X, 70)
    parts = hold_out(kept)
    train = set(as_tuples(parts.train.X))
    assert set(as_tuples(learned)) == train
    judges = set(as_tuples(kept.counts)) - train
    assert len(judges) == len(kept.keys) - len(parts.rows)
    expected = 0.1 * N_DOCS
    assert abs(len(judges) - expected) < 4 * np.sqrt(0.9 * expected)


@pytest.mark.parametrize("size", [7, 400])
def test_the_sample_does_not_depend_on_chunks(X, size, few, monkeypatch):
    monkeypatch.setattr(module, "MARGIN", 1.0)
    n_tokens = 0.2 * X.sum()
    kept, _ = add_all(X, size, n_tokens)
    keys = np.unique(document_keys(X, ENTROPY))
    assert_array_equal(np.sort(kept.keys), keys[: len(kept.keys)])
    assert kept.last_key == kept.keys.max()
    assert 0.15 * X.sum() < kept.counts.sum() <= n_tokens


def test_sizes_are_bounded_and_the_stream_is_counted(X, few):
    kept, learned = add_all(X, 20, 0.2 * X.sum())
    assert kept.counts.sum() <= module.MARGIN * 0.2 * X.sum() * 1.1
    assert kept.n_docs == pytest.approx(N_DOCS, rel=4 / np.sqrt(0.2 * N_DOCS))
    assert set(as_tuples(kept.counts)) <= set(as_tuples(X))
    parts = hold_out(kept)
    assert parts.held_out.sum() <= 100
    assert not set(as_tuples(learned)) & (
        set(as_tuples(kept.counts)) - set(as_tuples(parts.train.X))
    )


@pytest.mark.parametrize("is_better", [True, False])
def test_trials_are_due_when_the_stream_has_grown(is_better, X):
    """At 250 documents, and when these have doubled."""
    kept, _ = add_all(X[:240], 240)
    assert not kept.is_due
    kept, _ = add_all(X[:260], 260)
    assert kept.is_due
    tried = kept.begin_restart().end_restart(is_better)
    for n_more, is_due in ((259, False), (1, True)):
        others = np.random.default_rng(n_more).poisson(1.0, (n_more, N_WORDS))
        tried, _ = tried.add(sp.csr_array(others.astype(float)), PLENTY, ENTROPY)
        assert tried.is_due == is_due
    later, _ = Reservoir.empty(N_WORDS, 500).add(X, PLENTY, ENTROPY)
    assert not later.is_due  # a fit has seen 500 before


@pytest.mark.parametrize("is_better", [True, False])
def test_later_trials_wait_until_the_stream_has_doubled(is_better):
    """Since trials began, whether they were accepted or not."""
    reservoir = replace(Reservoir.empty(5, 0), n_before=3000.0, n_next=2000.0)
    assert reservoir.is_due
    tried = replace(reservoir.begin_restart(), n_before=3500.0).end_restart(is_better)
    assert not replace(tried, n_before=2.0 * 3000.0 - 1.0).is_due
    assert replace(tried, n_before=2.0 * 3000.0).is_due


def test_documents_of_one_token_leave_nothing_to_judge_by():
    kept, _ = add_all(sp.csr_array(np.eye(40)), 20)
    assert hold_out(kept) is None


def scores_of(rng, n, mean=-4.0):
    return mean + 0.5 * rng.standard_normal(n)


def test_calls_that_score_worse_make_trials_due_early():
    rng = np.random.default_rng(0)
    reservoir = replace(Reservoir.empty(5, 0), n_before=5000.0, n_next=10_000.0)
    for _ in range(40):
        reservoir = reservoir.record_scores(scores_of(rng, 100))
        assert not reservoir.is_due_early
    worse = reservoir
    for _ in range(3):
        worse = worse.record_scores(scores_of(rng, 100, mean=-4.2))
    assert worse.is_due_early
    assert not reservoir.record_scores(
        scores_of(rng, 100, mean=-3.0)
    ).is_due_early  # better
    tried = worse.begin_restart().end_restart(0)
    assert not tried.is_due_early
    for _ in range(3):  # the stream has hardly grown since
        tried = tried.record_scores(scores_of(rng, 100, mean=-4.4))
    assert tried.cusum > worse.cusum > 0.0
    assert not tried.is_due_early
    assert worse.end_restart(1).n_scored == 0.0


def test_record_of_scores_is_that_of_all_at_once():
    scores = np.random.default_rng(0).standard_normal(300) - 4.0
    reservoir = Reservoir.empty(5, 0)
    for part in np.split(scores, [7, 100, 101]):
        reservoir = reservoir.record_scores(part)
    assert reservoir.n_scored == 300
    np.testing.assert_allclose(reservoir.mean_score, scores.mean())
    np.testing.assert_allclose(reservoir.score_spread, 300 * scores.var())
    assert reservoir.record_scores(scores[:0]) is reservoir
