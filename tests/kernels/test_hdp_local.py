"""The document step against its slow twin, on random and on nasty input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

from reference import hdp_direct as reference
from skbnp.kernels._hdp_local import infer_documents

SUPPORT = 1e-9


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
    collect=True,
):
    """Call the kernel on a dense corpus; returns N, S and the entropy by topic."""
    counts = np.atleast_2d(np.asarray(counts, dtype=float))
    n_docs, n_topics = len(counts), len(prior)
    rows, words = np.nonzero(counts)
    indptr = np.searchsorted(rows, np.arange(n_docs + 1)).astype(np.int32)
    doc_topic = np.full((n_docs, n_topics), np.nan) if start is None else start.copy()
    word_topic = np.zeros((counts.shape[1] if collect else 0, n_topics))
    entropy = np.zeros(n_topics)
    infer_documents(
        indptr,
        words.astype(np.int32),
        counts[rows, words],
        weights,
        prior,
        np.empty(0) if share is None else share,
        doc_topic,
        start is not None,
        word_topic,
        entropy,
        np.empty((3, n_topics)),
        max_iter,
        tol,
        support,
    )
    if collect:
        entropy -= (word_topic * np.log(weights)).sum(axis=0)
    return doc_topic, word_topic, entropy


def scaled(log_weights):
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return np.ascontiguousarray(np.maximum(weights, 1e-140))


def corpus(rng, n_docs, n_words, n_topics, eta):
    counts = rng.poisson(0.7, size=(n_docs, n_words)).astype(float)
    topics = rng.dirichlet(np.full(n_words, 0.3), size=n_topics).T * 40 + eta
    log_weights = psi(topics) - psi(topics.sum(axis=0))
    weights = rng.dirichlet(np.ones(n_topics + 1))
    return counts, log_weights, weights


def check_equals_twin(got, counts, log_weights, prior, starts, *, max_iter, tol):
    """The kernel's N, S and entropy are those of the transcription."""
    doc_topic, word_topic, entropy = got
    expected_words = np.zeros_like(word_topic)
    expected_entropy = np.zeros_like(entropy)
    for j, row in enumerate(counts):
        n, r, _ = reference.document_step(
            row, log_weights, prior, starts[j], max_iter, tol, SUPPORT
        )
        assert_allclose(doc_topic[j], n, rtol=1e-8, atol=1e-10)
        expected_words += row[:, None] * r
        with np.errstate(divide="ignore", invalid="ignore"):
            expected_entropy -= np.nansum(
                np.where(r > 0, row[:, None] * r * np.log(r), 0.0), axis=0
            )
    assert_allclose(word_topic, expected_words, rtol=1e-8, atol=1e-10)
    assert_allclose(entropy, expected_entropy, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n_topics", [1, 2, 3, 4, 5, 15, 16, 17, 40])
@pytest.mark.parametrize("eta", [0.01, 0.5])
def test_kernel_equals_its_twin(n_topics, eta, seed):
    rng = np.random.default_rng([seed, n_topics])
    counts, log_weights, weights = corpus(rng, 6, 30, n_topics, eta)
    counts[2] = 0.0
    prior = 0.8 * weights[:-1]
    share = weights[:-1] / (1 - weights[-1])
    got = run(counts, scaled(log_weights), prior, share=share, max_iter=30)
    starts = [reference.cold_start(row.sum(), weights) for row in counts]
    check_equals_twin(got, counts, log_weights, prior, starts, max_iter=30, tol=1e-6)


def test_kernel_starts_from_remembered_counts(seed):
    rng = np.random.default_rng(seed)
    counts, log_weights, weights = corpus(rng, 6, 30, 7, 0.05)
    prior, start = 0.8 * weights[:-1], rng.gamma(0.5, 5.0, size=(6, 7))
    got = run(counts, scaled(log_weights), prior, start=start, max_iter=3)
    check_equals_twin(got, counts, log_weights, prior, start, max_iter=3, tol=1e-6)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda n, s, h: (n + 1e-3, s, h),
        lambda n, s, h: (n, s[:, ::-1], h),
        lambda n, s, h: (n, s, h * 1.001),
    ],
    ids=["expected counts", "swapped topics", "entropy"],
)
def test_the_twin_tells_a_wrong_result(spoil):
    rng = np.random.default_rng(0)
    counts, log_weights, weights = corpus(rng, 6, 30, 4, 0.05)
    prior = 0.8 * weights[:-1]
    share = weights[:-1] / (1 - weights[-1])
    got = spoil(*run(counts, scaled(log_weights), prior, share=share, max_iter=30))
    starts = [reference.cold_start(row.sum(), weights) for row in counts]
    with pytest.raises(AssertionError):
        check_equals_twin(
            got, counts, log_weights, prior, starts, max_iter=30, tol=1e-6
        )


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


def test_exp_digamma_is_exact_to_1e_12():
    """Two topics, one token, no iteration: N_1 / N_2 = exp(psi(x)) / exp(psi(1)).

    Below x = 2.9e-3 topic weights are clamped at 1e-150.
    """
    for x in np.logspace(np.log10(3e-3), 8, 2001):
        doc_topic, _, _ = run(
            [[1.0]],
            np.ones((1, 2)),
            np.array([x, 1.0]),
            start=np.zeros((1, 2)),
            max_iter=0,
            support=0.0,
        )
        ratio = doc_topic[0, 0] / doc_topic[0, 1]
        expected = np.exp(psi(x) - psi(1.0))
        # exp turns an absolute error of psi into a relative one: psi is itself only
        # known to 2^-53 |psi|.
        assert_allclose(ratio, expected, rtol=1e-12 + 2e-16 * abs(psi(x)))


def test_expected_counts_sum_to_the_tokens(seed):
    rng = np.random.default_rng(seed)
    counts, log_weights, weights = corpus(rng, 20, 50, 12, 0.05)
    share = weights[:-1] / (1 - weights[-1])
    n, s, _ = run(counts, scaled(log_weights), weights[:-1], share=share)
    assert_allclose(n.sum(axis=1), counts.sum(axis=1), rtol=1e-13)
    assert_allclose(s.sum(axis=1), counts.sum(axis=0), rtol=1e-13)


def test_entropy_is_not_negative(seed):
    rng = np.random.default_rng(seed)
    counts, log_weights, weights = corpus(rng, 20, 50, 12, 0.05)
    share = weights[:-1] / (1 - weights[-1])
    _, s, entropy = run(counts, scaled(log_weights), weights[:-1], share=share)
    # A difference of sums of size N |log r|.
    assert (entropy >= -1e-12 * s.sum() * 300).all()


def test_an_empty_document_uses_no_topic():
    n, s, entropy = run(
        np.zeros((3, 4)), np.ones((4, 2)), np.ones(2), share=np.array([0.5, 0.5])
    )
    assert not n.any()
    assert not s.any()
    assert not entropy.any()


def test_no_statistics_without_a_place_for_them(seed):
    rng = np.random.default_rng(seed)
    counts, log_weights, weights = corpus(rng, 5, 20, 4, 0.05)
    share = weights[:-1] / (1 - weights[-1])
    args = (counts, scaled(log_weights), weights[:-1])
    n, s, entropy = run(*args, share=share, collect=False)
    assert_array_equal(n, run(*args, share=share)[0])
    assert s.shape == (0, 4)
    assert not entropy.any()


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e12])
def test_weights_of_any_size_are_conserved(scale):
    rng = np.random.default_rng(0)
    counts, log_weights, weights = corpus(rng, 5, 20, 6, 0.05)
    counts *= scale
    share = weights[:-1] / (1 - weights[-1])
    n, s, _ = run(counts, scaled(log_weights), weights[:-1], share=share)
    assert np.isfinite(n).all()
    assert_allclose(n.sum(axis=1), counts.sum(axis=1), rtol=1e-12)
    assert_allclose(s.sum(axis=1), counts.sum(axis=0), rtol=1e-12)


def test_a_word_of_one_clamped_topic_is_explained():
    """Every topic at the clamp for the one word of a document: no 0/0."""
    weights = np.array([[1.0, 1e-140], [1e-140, 1.0]])
    prior = np.array([1e-8, 1e-8])
    for share in ([0.5, 0.5], [1.0, 1e-300]):
        n, _, _ = run([[0.0, 3.0]], weights, prior, share=np.array(share))
        assert_allclose(n.sum(), 3.0, rtol=1e-15)


def test_a_hundred_thousand_tokens_in_one_document(seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(100_000, rng.dirichlet(np.ones(500)))[None].astype(float)
    _, log_weights, weights = corpus(rng, 1, 500, 20, 0.05)
    share = weights[:-1] / (1 - weights[-1])
    n, _, _ = run(counts, scaled(log_weights), weights[:-1], share=share)
    assert_allclose(n.sum(), 100_000, rtol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"prior": np.ones(3)},
        {"share": np.ones(3) / 3},
        {"share": np.empty(0)},
        {"work": np.empty((2, 2))},
        {"doc_topic": np.zeros((2, 2))},
        {"words": np.zeros(2, dtype=np.int32)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_face_refuses_shapes_that_disagree(change):
    arguments = {
        "indptr": np.array([0, 1], dtype=np.int32),
        "words": np.zeros(1, dtype=np.int32),
        "counts": np.ones(1),
        "weights": np.ones((1, 2)),
        "prior": np.ones(2),
        "share": np.full(2, 0.5),
        "doc_topic": np.zeros((1, 2)),
        "remembered": False,
        "word_topic": np.zeros((1, 2)),
        "entropy": np.zeros(2),
        "work": np.empty((3, 2)),
        "max_iter": 5,
        "tol": 0.0,
        "support": 0.0,
    }
    infer_documents(**arguments)
    with pytest.raises(ValueError, match=r"disagree|too small|share"):
        infer_documents(**{**arguments, **change})
