"""What moves of topics gain and lose, against slow twins."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from reference import hdp_direct as reference
from skbnp.distributions import log_growth
from skbnp.kernels._moves import compare_merges


class Documents:
    """Random documents with responsibilities in factors, r = e b / s."""

    def __init__(self, rng, n_topics, n_docs=9, n_words=14, *, unused=0.4):
        counts = rng.poisson(0.8, size=(n_docs, n_words)) * rng.gamma(
            2.0, 0.7, size=(n_docs, n_words)
        )
        counts[:, 0] += 1.0
        counts[4] = 0.0
        self.counts, self.prior = counts, rng.gamma(0.4, 1.0, size=n_topics) + 1e-6
        weights = rng.gamma(0.3, 1.0, size=(n_words, n_topics)) + 1e-20
        self.word_weights = weights.astype(np.float32)
        self.doc_weights = rng.gamma(0.3, 1.0, size=(n_docs, n_topics)) + 1e-150
        self.doc_weights[rng.random((n_docs, n_topics)) < unused] = 0.0
        self.doc_weights[np.arange(n_docs), np.arange(n_docs) % n_topics] = 0.7
        self.rows, self.words = np.nonzero(counts)

    @property
    def norms(self):
        pairs = self.doc_weights[self.rows] * self.word_weights[self.words]
        return pairs.sum(axis=1)

    @property
    def resp(self):
        """Dense r, one (n_words, K) for each document."""
        r = np.zeros((*self.counts.shape, len(self.prior)))
        r[self.rows, self.words] = (
            self.doc_weights[self.rows]
            * self.word_weights[self.words]
            / self.norms[:, None]
        )
        return list(r)

    @property
    def doc_topic(self):
        return np.array(
            [row @ part for row, part in zip(self.counts, self.resp, strict=True)]
        )


def run(docs, pairs, sums=None, **changes):
    """Call the kernel; `changes` replace arguments by name."""
    sums = np.zeros((len(pairs), 2)) if sums is None else sums
    arguments = {
        "indptr": np.searchsorted(docs.rows, np.arange(len(docs.counts) + 1)),
        "words": docs.words,
        "counts": docs.counts[docs.rows, docs.words],
        "word_weights": docs.word_weights,
        "doc_weights": docs.doc_weights,
        "norms": docs.norms,
        "doc_topic": docs.doc_topic,
        "growth": log_growth(docs.prior, docs.doc_topic),
        "prior": docs.prior,
        "pairs": np.array(pairs, dtype=np.int32).reshape(-1, 2),
        "sums": sums,
    }
    for name in ("indptr", "words"):
        arguments[name] = arguments[name].astype(np.int32)
    compare_merges(**{**arguments, **changes})
    return sums


def every_pair(n_topics):
    return list(zip(*np.triu_indices(n_topics, 1), strict=True))


def check_equals_twin(got, docs, pairs):
    for row, (one, other) in zip(got, pairs, strict=True):
        twin = reference.merge_sums(docs.counts, docs.resp, docs.prior, one, other)
        assert_allclose(row, twin, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("n_topics", [2, 17])
@pytest.mark.parametrize("unused", [0.0, 0.4, 0.9])
def test_kernel_equals_its_twin(n_topics, unused, seed):
    rng = np.random.default_rng([seed, n_topics])
    docs, pairs = Documents(rng, n_topics, unused=unused), every_pair(n_topics)
    check_equals_twin(run(docs, pairs), docs, pairs)


def test_the_twin_tells_a_wrong_argument(seed):
    docs = Documents(np.random.default_rng(seed), 5)
    growth = 1.001 * log_growth(docs.prior, docs.doc_topic)
    with pytest.raises(AssertionError):
        check_equals_twin(run(docs, every_pair(5), growth=growth), docs, every_pair(5))


def test_sums_are_added_to_what_was_there():
    docs = Documents(np.random.default_rng(0), 4)
    pairs = every_pair(4)
    begin = np.arange(12.0).reshape(6, 2)
    assert_allclose(run(docs, pairs, begin.copy()) - begin, run(docs, pairs))
