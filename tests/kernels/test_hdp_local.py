"""The document step against its slow twin, on random and on nasty input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

from checks.long import daily
from reference import hdp_direct as reference
from skbnp.kernels._hdp_local import (
    ACTIVE,
    LANES,
    SMALLEST_WORD_WEIGHT,
    infer_documents,
    word_sums,
    word_weights,
)

SUPPORT = 1e-9
#: Single precision rounds by 6e-8 relatively, in sums of some dozens of products, and
#: an iteration passes on errors of the one before.
SINGLE = 2e-5


def table(weights):
    """Word weights as the kernel takes them: single precision, whole vectors."""
    n_words, n_topics = np.shape(weights)
    padded = np.zeros((n_words, -(-n_topics // LANES) * LANES), dtype=np.float32)
    padded[:, :n_topics] = np.minimum(weights, 1e30)
    return padded


def run(
    counts,
    weights,
    prior,
    *,
    share=None,
    start=None,
    max_iter=100,
    tol=1e-6,
    support=SUPPORT,
    plain=True,
):
    """Call the kernel on a dense corpus; returns N, S and the entropy by topic."""
    counts = np.atleast_2d(np.asarray(counts, dtype=float))
    n_docs, n_topics = len(counts), len(prior)
    rows, words = np.nonzero(counts)
    weights = table(weights)
    indptr = np.searchsorted(rows, np.arange(n_docs + 1)).astype(np.int32)
    starts = np.full((n_docs, weights.shape[1]), np.nan, dtype=np.float32)
    if start is not None:
        starts[:, :n_topics] = start
    limits, topics, tokens, e, norms = infer_documents(
        indptr,
        words.astype(np.int32),
        counts[rows, words],
        weights,
        np.ascontiguousarray(prior),
        np.empty(0) if share is None else share,
        starts,
        start is not None,
        max_iter,
        tol,
        support,
        plain,
    )
    doc = np.repeat(np.arange(n_docs), np.diff(limits))
    doc_topic = np.zeros((n_docs, n_topics))
    doc_topic[doc, topics] = tokens
    by_word = np.argsort(words, kind="stable")
    columns = np.searchsorted(words[by_word], np.arange(counts.shape[1] + 1))
    ratios = counts[rows, words] / norms
    n_used, used, b, sums, log_norms = word_sums(
        0,
        counts.shape[1],
        columns.astype(np.int32),
        rows[by_word].astype(np.int32),
        ratios[by_word],
        (ratios * np.log(norms))[by_word],
        limits,
        topics,
        e,
        weights,
        n_topics,
    )
    word = np.repeat(np.arange(counts.shape[1]), n_used)
    word_topic = np.zeros((counts.shape[1], n_topics))
    word_topic[word, used] = sums
    entropy = log_norms - np.bincount(used, sums * np.log(b), n_topics)
    entropy -= np.bincount(topics, tokens * np.log(e), n_topics)
    return doc_topic, word_topic, entropy


def scaled(log_weights):
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.maximum(weights, SMALLEST_WORD_WEIGHT).astype(np.float32).astype(float)


def corpus(rng, n_docs, n_words, n_topics, eta):
    counts = rng.poisson(0.7, size=(n_docs, n_words)).astype(float)
    topics = rng.dirichlet(np.full(n_words, 0.3), size=n_topics).T * 40 + eta
    log_weights = psi(topics) - psi(topics.sum(axis=0))
    weights = rng.dirichlet(np.ones(n_topics + 1))
    return counts, log_weights, weights


def check_equals_twin(
    got, counts, log_weights, prior, starts, *, max_iter, tol, active=0.0
):
    """The kernel's N, S and entropy are those of the transcription."""
    doc_topic, word_topic, entropy = got
    expected_words = np.zeros_like(word_topic)
    expected_entropy = np.zeros_like(entropy)
    for j, row in enumerate(counts):
        n, r, _ = reference.document_step(
            row, log_weights, prior, starts[j], max_iter, tol, SUPPORT, active
        )
        near = {"rtol": SINGLE, "atol": SINGLE * row.sum()}
        assert_allclose(doc_topic[j], n, **near)
        expected_words += row[:, None] * r
        with np.errstate(divide="ignore", invalid="ignore"):
            expected_entropy -= np.nansum(
                np.where(r > 0, row[:, None] * r * np.log(r), 0.0), axis=0
            )
    near = {"rtol": SINGLE, "atol": SINGLE * counts.sum()}
    assert_allclose(word_topic, expected_words, **near)
    assert_allclose(entropy, expected_entropy, **near)


@pytest.mark.parametrize("n_topics", [1, 3, 4, 16, 17, 40])
@pytest.mark.parametrize("eta", daily(1, [0.01, 0.5]))
def test_kernel_equals_its_twin(n_topics, eta, seed):
    rng = np.random.default_rng([seed, n_topics])
    counts, log_weights, weights = corpus(rng, 6, 30, n_topics, eta)
    counts[2] = 0.0
    prior = 0.8 * weights[:-1]
    share = weights[:-1] / (1 - weights[-1])
    got = run(counts, scaled(log_weights), prior, share=share, max_iter=30)
    starts = [reference.cold_start(row.sum(), weights) for row in counts]
    check_equals_twin(got, counts, log_weights, prior, starts, max_iter=30, tol=1e-6)


@pytest.mark.parametrize("n_topics", [1, 8, 17, 40])
@pytest.mark.parametrize("max_iter", daily(2, [6, 1, 4, 300]))
def test_kernel_leaves_out_topics_like_its_twin(n_topics, max_iter, seed):
    rng = np.random.default_rng([seed, n_topics])
    counts, log_weights, weights = corpus(rng, 6, 30, n_topics, 0.05)
    counts[1] *= 0.1
    counts[2] = 0.0
    prior, share = 0.8 * weights[:-1], weights[:-1] / (1 - weights[-1])
    options = {"max_iter": max_iter, "tol": 1e-6}
    got = run(counts, scaled(log_weights), prior, share=share, plain=False, **options)
    starts = [reference.cold_start(row.sum(), weights) for row in counts]
    args = (got, counts, log_weights, prior, starts)
    check_equals_twin(*args, **options, active=ACTIVE)
    if n_topics == 40 and max_iter == 6:
        with pytest.raises(AssertionError):
            check_equals_twin(*args, **options, active=5 * ACTIVE)


def test_better_of_two_starts_is_kept(seed):
    rng = np.random.default_rng(seed)
    counts, log_weights, weights = corpus(rng, 40, 30, 8, 0.01)
    prior = 0.05 * weights[:-1]
    share = weights[:-1] / (1 - weights[-1])
    start = np.zeros((40, 8))
    start[np.arange(40), rng.integers(8, size=40)] = counts.sum(axis=1)
    tables = scaled(log_weights)
    both, _, _ = run(counts, tables, prior, share=share, start=start)
    cold, _, _ = run(counts, tables, prior, share=share)
    kept, _, _ = run(counts, tables, prior, start=start)

    def bound(doc, n):
        _, r, _ = reference.document_step(
            counts[doc], log_weights, prior, n, 0, 0.0, SUPPORT
        )
        return reference.document_objective(counts[doc], log_weights, prior, r)

    chosen = set()
    for doc in range(40):
        bounds = bound(doc, cold[doc]), bound(doc, kept[doc])
        # The bound of a result is read one sweep later, near the fixed point.
        assert bound(doc, both[doc]) >= max(bounds) - 1e-6
        if abs(bounds[0] - bounds[1]) > 1e-3:
            chosen.add(bounds[0] > bounds[1])
    assert chosen == {True, False}, "the corpus should need both starts"


# Word weights -------------------------------------------------------------------------


def weighed(counts, eta, *, mean=False, scale=1.0, words=None):
    """The kernel's table, and the total of each topic."""
    n_words, n_topics = counts.shape
    words = np.arange(n_words) if words is None else words
    total = np.maximum(n_words * eta + counts.sum(axis=0), 1e-18)
    got = np.full_like(table(counts[words]), np.nan)
    norm = total if mean else psi(total)
    held = np.column_stack([counts / scale, np.full(n_words, np.nan)])  # in reserve
    word_weights(held, scale, words, norm, eta, mean, got)
    assert not got[:, n_topics:].any()
    return got[:, :n_topics], total


@pytest.mark.parametrize("n_topics", [1, 2, 7, 15, 16, 17, 33])
@pytest.mark.parametrize("eta", [1e-5, 2e-3, 0.05, 3.0])
@pytest.mark.parametrize("mean", [False, True])
def test_word_weights_equal_their_definition(n_topics, eta, mean, seed):
    rng = np.random.default_rng([seed, n_topics])
    counts = rng.gamma(0.2, 30.0, size=(40, n_topics))
    counts[rng.random(counts.shape) < 0.5] = 0.0
    counts[3] = 0.0  # a word that no topic holds
    words = rng.permutation(40)[:25]
    got, total = weighed(counts, eta, mean=mean, scale=0.25, words=words)
    logs = np.log(eta + counts) - np.log(total)
    if not mean:
        logs = psi(eta + counts) - psi(total)
    logs -= logs.max(axis=1, keepdims=True)
    expected = np.maximum(np.exp(logs), SMALLEST_WORD_WEIGHT)[words]
    # Exponents down to log(1e-20) are rounded by 6e-8 some times; beyond is clamped.
    near = {"rtol": 1e-6 + 4 * 6e-8 * np.log(1e20)}
    assert_allclose(got, expected, **near)
    assert (got.max(axis=1) == 1.0).all()


def test_word_weights_refuse_words_that_are_no_rows():
    args = {
        "sums": np.ones((4, 3)),
        "scale": 1.0,
        "words": np.array([0, 3]),
        "norm": np.ones(3),
        "eta": 0.1,
        "mean": False,
        "table": np.empty((2, 8), dtype=np.float32),
    }
    word_weights(**args)
    for word in (-1, 4):
        with pytest.raises(ValueError, match="must be rows"):
            word_weights(**{**args, "words": np.array([0, word])})


# Leaving topics out -------------------------------------------------------------------


def local_bound(counts, log_weights, prior, doc_topic):
    """Sum over documents of the bound of the responsibilities that N gives."""
    total = 0.0
    for row, n in zip(counts, doc_topic, strict=True):
        _, r, _ = reference.document_step(row, log_weights, prior, n, 0, 0.0, SUPPORT)
        total += reference.document_objective(row, log_weights, prior, r)
    return total


@pytest.mark.parametrize("tokens", daily(1, [0.1, 1.0, 5.0]))
@pytest.mark.parametrize("plain", [False, True])
def test_documents_of_little_weight_choose_their_topics(plain, tokens, seed):
    """All theta small: exponents far below the range, their differences within it."""
    rng = np.random.default_rng(seed)
    n_topics = 100
    log_weights = np.log(rng.dirichlet(np.full(40, 0.1), size=n_topics).T + 1e-9)
    counts = rng.poisson(0.5, size=(8, 40)).astype(float)
    counts[:, 0] += 1.0
    counts *= tokens / counts.sum(axis=1, keepdims=True)
    prior = rng.uniform(0.5, 1.5, size=n_topics) / n_topics
    share = prior / prior.sum()
    n, _, _ = run(
        counts, scaled(log_weights), prior, share=share, plain=plain, max_iter=300
    )
    for doc in range(8):
        expected, _, _ = reference.document_step(
            counts[doc], log_weights, prior, tokens * share, 300, 1e-6, SUPPORT
        )
        bounds = [
            local_bound(counts[[doc]], log_weights, prior, [x])
            for x in (n[doc], expected)
        ]
        assert bounds[0] >= bounds[1] - 0.02 * tokens


# Sums by word -------------------------------------------------------------------------


def sum_documents(n_docs=6, n_words=9, n_topics=5, seed=0):
    """Arguments of `word_sums`, from random responsibilities."""
    rng = np.random.default_rng(seed)
    used = rng.random((n_docs, n_topics)) < 0.5
    docs, words = np.nonzero(rng.random((n_docs, n_words)) < 0.6)
    by_word = np.argsort(words, kind="stable")
    doc, topics = np.nonzero(used)
    return {
        "begin": 0,
        "end": n_words,
        "columns": np.searchsorted(words[by_word], np.arange(n_words + 1)).astype("i4"),
        "docs": docs[by_word].astype("i4"),
        "ratios": rng.gamma(1.0, size=len(docs)),
        "log_ratios": rng.normal(size=len(docs)),
        "limits": np.searchsorted(doc, np.arange(n_docs + 1)).astype("i4"),
        "doc_topics": topics.astype("i4"),
        "doc_weights": rng.gamma(1.0, size=len(topics)),
        "weights": table(rng.gamma(1.0, size=(n_words, n_topics))),
        "n_topics": n_topics,
    }


def dense_sums(args, begin, end):
    """The obvious twin: sums (n_words, K), and logs (K,)."""
    n_topics = args["n_topics"]
    sums, logs = np.zeros((end - begin, n_topics)), np.zeros(n_topics)
    for word in range(begin, end):
        for at in range(*args["columns"][word : word + 2]):
            for a in range(*args["limits"][args["docs"][at] :][:2]):
                k = args["doc_topics"][a]
                part = args["doc_weights"][a] * float(args["weights"][word, k])
                sums[word - begin, k] += args["ratios"][at] * part
                logs[k] += args["log_ratios"][at] * part
    return sums, logs


def check_word_sums(got, args, begin, end):
    n_used, topics, b, sums, logs = got
    expected, expected_logs = dense_sums(args, begin, end)
    word = np.repeat(np.arange(end - begin), n_used)
    result = np.zeros_like(expected)
    result[word, topics] = sums
    assert_allclose(result, expected, rtol=1e-13)
    assert_allclose(logs, expected_logs, rtol=1e-12, atol=1e-13)
    assert_array_equal(b, args["weights"][begin + word, topics])
    for part in np.split(topics, np.cumsum(n_used)[:-1]):
        assert (np.diff(part) > 0).all()


@pytest.mark.parametrize("part", [(0, 9), (0, 4), (4, 9), (3, 3)])
def test_word_sums_equal_their_twin(part, seed):
    args = sum_documents(seed=seed)
    check_word_sums(
        word_sums(**{**args, "begin": part[0], "end": part[1]}), args, *part
    )
