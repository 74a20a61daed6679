"""The documents that a stream keeps, and what is held out of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from checks.corpora import topic_counts
from skbnp.inference import reservoir as module
from skbnp.inference.reservoir import Reservoir, document_keys

N_DOCS, N_WORDS, ENTROPY, PLENTY = 400, 30, 2**100 + 17, 10**9


@pytest.fixture(scope="module")
def X():
    return topic_counts(N_DOCS, N_WORDS, n_topics=4)


@pytest.fixture
def few(monkeypatch):
    """Few documents and few held-out tokens at the least."""
    monkeypatch.setattr(module, "FEWEST_DOCS", 5)
    monkeypatch.setattr(module, "N_TOKENS", 100)


def add_all(X, size, n_tokens=PLENTY):
    """Add documents `size` at a time; what they keep and what may be learned."""
    kept, learned = Reservoir.empty(X.shape[1], 0), []
    for begin in range(0, X.shape[0], size):
        part, rng = X[begin : begin + size], np.random.default_rng(begin)
        kept, observed = kept.add(part, n_tokens, ENTROPY, rng)
        learned.append(observed)
    return kept, sp.vstack(learned, format="csr")


def whole(kept):
    """Documents with their held-out tokens, as tuples in the order of their keys."""
    rows = (kept.observed + kept.held).toarray()[np.argsort(kept.keys)]
    return [tuple(row) for row in rows.tolist()]


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
    assert sorted(whole(kept)) == sorted(set(map(tuple, X.toarray().tolist())))
    assert kept.n_docs == len(kept.keys)
    # The second time they are learned from as the first time.
    assert_array_equal(learned[:N_DOCS].toarray(), learned[N_DOCS:][::-1].toarray())


def test_what_is_held_out_is_not_learned(X):
    kept, learned = add_all(X, 70)
    order = np.argsort(kept.keys)
    place = order[np.searchsorted(kept.keys[order], document_keys(X, ENTROPY))]
    assert_array_equal(learned.toarray(), kept.observed[place].toarray())
    assert_array_equal(X.toarray(), (kept.observed + kept.held)[place].toarray())
    share = kept.held.sum() / X.sum()
    assert 0.08 < share < 0.12
    assert (kept.observed.sum(axis=1) > 0).all()


@pytest.mark.parametrize("size", [7, 400])
def test_the_sample_does_not_depend_on_chunks(X, size, few, monkeypatch):
    monkeypatch.setattr(module, "MARGIN", 1.0)
    n_tokens = 0.2 * X.sum()
    kept, _ = add_all(X, size, n_tokens)
    keys = np.unique(document_keys(X, ENTROPY))
    assert_array_equal(np.sort(kept.keys), keys[: len(kept.keys)])
    assert kept.last_key == kept.keys.max()
    assert 0.15 * X.sum() < (kept.observed + kept.held).sum() <= 1.2 * n_tokens


def test_sizes_are_bounded_and_the_stream_is_counted(X, few):
    kept, _ = add_all(X, 20, 0.2 * X.sum())
    assert kept.observed.sum() <= module.MARGIN * 0.2 * X.sum() * 1.1
    assert kept.held.sum() <= module.MARGIN * 100 * 1.2
    assert kept.n_docs == pytest.approx(N_DOCS, rel=4 / np.sqrt(0.2 * N_DOCS))
    # Tokens of a document that no longer judges are learned from.
    documents = set(map(tuple, X.toarray().tolist()))
    assert set(whole(kept)) <= documents
    assert kept.held_out().n_tokens.sum() == kept.held.sum()


def test_of_long_documents_little_is_held_out(X, few):
    kept, _ = add_all(1000.0 * X[:20], 20)
    assert 0.7 < kept.held_out().n_tokens.mean() / (100 / 5) < 1.3


def test_trials_are_due_when_the_stream_has_doubled(X):
    kept, _ = add_all(X[:240], 240)
    assert not kept.is_due
    kept, _ = add_all(X[:260], 260)
    assert kept.is_due
    assert not kept.tried().is_due
    later = Reservoir.empty(N_WORDS, 250).add(
        X, PLENTY, ENTROPY, np.random.default_rng()
    )
    assert not later[0].is_due  # a fit has seen 250 before


def test_documents_of_one_token_leave_nothing_to_judge_by():
    kept, learned = add_all(sp.csr_array(np.eye(5)), 2)
    assert kept.held_out() is None
    assert_array_equal(learned.toarray(), np.eye(5))
