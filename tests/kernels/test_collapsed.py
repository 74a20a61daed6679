"""The collapsed document step against its slow twin, on random and on nasty input."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.grids import on_grid
from checks.long import along_diagonal
from reference import hdp_collapsed as reference
from skbnp.components.word_topics import Weighting, WordTopics
from skbnp.kernels._collapsed import collapsed_sums, infer_collapsed, infer_zero_order
from skbnp.kernels._restaurant import expected_tables_grid, n_grid_rows

#: Single precision rounds by 6e-8 relatively. Sums of some dozens of products and the
#: logarithm and exponential of a rate make that 1e-6; ten iterations pass it on, and
#: what is taken out of a topic's tokens may leave a hundredth of them.
SINGLE = 1e-4
#: Decisions closer than this may fall otherwise in single precision; the relative error
#: of a small responsibility, too, is below.
CLEAR = 2e-4
#: Sums in double precision of at most some thousand terms.
EXACT = 1e-12


def inputs(counts, topic_words, eta, prior, held):
    """Arguments of the kernel but for the last four, from dense arrays."""
    counts = np.atleast_2d(np.asarray(counts, dtype=float))
    rows, words = np.nonzero(counts)
    indptr = np.searchsorted(rows, np.arange(len(counts) + 1)).astype(np.int32)
    norm = len(topic_words) * eta + topic_words.sum(axis=0)
    tops = np.empty(len(topic_words))
    table = WordTopics(topic_words).weights(
        np.arange(len(topic_words)), norm, eta, Weighting.MEAN, tops=tops
    )
    return {
        "indptr": indptr,
        "words": words.astype(np.int32),
        "counts": counts[rows, words],
        "weights": table,
        "tops": tops,
        "norm": norm,
        "eta": eta,
        "prior": np.ascontiguousarray(prior, dtype=float),
        "held": np.full(len(counts), float(held)) if np.isscalar(held) else held,
    }


def by_row(limits, columns, values, n_columns):
    """A dense matrix of its stored entries, row by row."""
    shape = len(limits) - 1, n_columns
    return sp.csr_array((values, columns, limits), shape=shape).toarray()


def repeating(counts, discount, concentration):
    """Arguments of the kernels where documents repeat words."""
    return {
        "grid": expected_tables_grid(discount, n_grid_rows(counts.max())),
        "discount": discount,
        "concentration": concentration,
        "n_features": float(counts.shape[1]),
    }


def run(
    counts,
    topic_words,
    eta,
    prior,
    *,
    rest=0.2,
    share=None,
    held=1.0,
    repeats=None,
    **options,
):
    """Call the kernel: N (D, K), n r (nnz, K), log predictive, t and p (nnz,)."""
    counts = np.atleast_2d(np.asarray(counts, dtype=float))
    given = inputs(counts, topic_words, eta, prior, held)
    given["share"] = prior / prior.sum() if share is None else share
    given |= {"rest": rest, "max_iter": 10, "tol": 1e-3} | options
    given |= {} if repeats is None else repeating(counts, *repeats)
    limits, topics, tokens, ends, used, sums, *others = infer_collapsed(**given)
    n_topics = len(prior)
    doc_topic = by_row(limits, topics, tokens, n_topics)
    return doc_topic, by_row(ends, used, sums, n_topics), *others


def corpus(seed, n_docs, n_words, n_topics, eta, *, length=40.0):
    """Documents of a few topics, counts of topics that hold them, and a prior."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.2), size=n_topics)
    shares = rng.dirichlet(np.full(n_topics, 2.0 / n_topics), size=n_docs)
    counts = rng.poisson(length * shares @ topics).astype(float)
    topic_words = 20.0 * length * topics.T + rng.gamma(0.3, 3.0, (n_words, n_topics))
    prior = 1.5 * rng.dirichlet(np.full(n_topics, 2.0)) + 0.01
    return counts, topic_words, prior


def bursty(seed, n_docs, n_words, n_topics):
    """Documents that repeat words: counts times a few."""
    counts, topic_words, prior = corpus(seed, n_docs, n_words, n_topics, 0.05)
    counts *= np.random.default_rng(seed).geometric(0.4, size=counts.shape)
    counts[0] = np.minimum(counts[0], 1.0)
    return counts, topic_words, prior


def check_equals_twin(
    counts, topic_words, eta, prior, *, mixed=None, repeats=None, **options
):
    """N, sums, log predictive, tables and p are those of the transcription.

    Documents whose topics hang on a rounding error have no part; most do not.
    `mixed` are changes of the twin.
    """
    given = {"rest": 0.2, "share": prior / prior.sum(), "held": 1.0, "max_iter": 10}
    given |= {"tol": 1e-3} | options
    n_clear = 0
    for row in counts:
        twin = dict(mixed or {})
        if repeats is not None:
            grid = repeating(row[None], *repeats)["grid"]
            twin["repeats"] = reference.Repeats(*repeats, 0.2, on_grid(grid))
        want = reference.document_step(row, topic_words, eta, prior, **given, **twin)
        if want.margin < CLEAR:
            continue
        n_clear += 1
        doc_topic, sums, logs, tables, base = run(
            row, topic_words, eta, prior, repeats=repeats, **given
        )
        near, words = SINGLE * row.sum(), np.flatnonzero(row)
        assert_allclose(doc_topic[0], want.tokens, rtol=0, atol=near)
        each = row[words, None]
        assert_allclose(sums / each, want.sums[words] / each, rtol=0, atol=SINGLE)
        # The log of a probability, as exact as that relatively.
        assert_allclose(logs, want.log_predictive, rtol=SINGLE, atol=near)
        if repeats is not None:
            assert_allclose(tables, want.tables[words], rtol=SINGLE)
            assert_allclose(base, want.base[words], rtol=10.0 * SINGLE)
            # Of each table one part of a topic: sums are the tables exactly.
            assert_allclose(sums.sum(axis=1), tables, rtol=EXACT)
    assert 2 * n_clear > len(counts), "most documents should be clear"


@pytest.mark.parametrize("n_topics", [1, 2, 8, 9, 70])
@pytest.mark.parametrize("eta", [0.01, 0.5])
def test_kernel_equals_its_twin(n_topics, eta, seed):
    given = corpus([seed, n_topics], 6, 30, n_topics, eta)
    given[0][2] = 0.0
    check_equals_twin(given[0], given[1], eta, given[2])


@along_diagonal(("max_iter", "held"), [0, 1, 2, 10, 100], [0.0, 0.3, 1.0, 1.4])
def test_kernel_takes_out_what_totals_hold(held, max_iter, seed):
    counts, topic_words, prior = corpus([seed, 1], 6, 30, 9, 0.05)
    options = {"held": held, "max_iter": max_iter}
    check_equals_twin(counts, topic_words, 0.05, prior, **options)


@pytest.mark.parametrize("n_words", [1, 8, 32, 33, 65, 150])
def test_kernel_equals_its_twin_on_documents_of_any_length(n_words, seed):
    """All words in use, in whole and fractional counts."""
    counts, topic_words, prior = corpus([seed, 2], 4, n_words, 5, 0.05, length=90.0)
    counts += 1.0
    counts[2:] *= np.random.default_rng(seed).gamma(2.0, 0.3, counts[2:].shape)
    check_equals_twin(counts, topic_words, 0.05, prior)


@pytest.mark.parametrize("size", [1e-8, 1e-3, 1e3, 1e8])
def test_kernel_equals_its_twin_under_any_prior(size, seed):
    counts, topic_words, prior = corpus([seed, 7], 8, 30, 9, 0.05)
    check_equals_twin(counts, topic_words, 0.05, size * prior)


@pytest.mark.parametrize("discount", [0.0, 0.4, 0.9])
@along_diagonal(("concentration", "held"), [1.0, 40.0, 1e6], [0.0, 1.0])
def test_kernel_equals_its_twin_where_words_repeat(held, concentration, discount, seed):
    counts, topic_words, prior = bursty([seed, 23], 8, 40, 9)
    given = {"held": held, "repeats": (discount, concentration)}
    check_equals_twin(counts, topic_words, 0.05, prior, **given)


@pytest.mark.parametrize("held", [0.0, 1.0])
def test_the_twin_tells_what_was_left_out(held, seed):
    counts, topic_words, prior = corpus([seed, 9], 6, 30, 9, 0.05)
    wrong = {"held": held, "mixed": {"grows": False}}
    with pytest.raises(AssertionError, match="Not equal"):
        check_equals_twin(counts, topic_words, 0.05, prior, **wrong)


# Laws ---------------------------------------------------------------------------------


def test_results_of_documents_are_those_of_calls_of_their_own(seed):
    counts, topic_words, prior = corpus([seed, 13], 12, 50, 9, 0.05)
    counts[3] *= 1e12
    args = topic_words, 0.05, prior
    doc_topic, _, logs, *_ = run(counts, *args)
    alone = [run(row, *args) for row in counts]
    assert_array_equal(doc_topic, np.vstack([one[0] for one in alone]))
    assert_allclose(logs, sum(one[2] for one in alone), rtol=EXACT)


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e-12, 1.0, 1e12, 1e40, 1e200])
@pytest.mark.parametrize("concentration", [1e-100, 1e-8, 1e4, 1e20])
def test_results_are_finite_whatever_is_given(concentration, size):
    for eta, held in product([1e-18, 1e-5, 1e10], [0.0, 1.0, 1.4, 1e6]):
        check_finite(concentration, size, eta, held)


def check_finite(concentration, size, eta, held):
    counts, topic_words, prior = corpus(0, 9, 40, 12, 0.05)
    counts[1] = np.eye(40)[0]
    counts[2, ::2] *= 1e-9
    topic_words[:, 3] = topic_words[4] = 0.0
    counts, prior = size * counts, concentration * prior
    doc_topic, sums, logs, *_ = run(
        counts, topic_words, eta, prior, held=held, tol=1e-2
    )
    assert np.isfinite(logs)
    assert np.isfinite(doc_topic).all()
    assert (sums >= 0.0).all()
    assert_allclose(sums.sum(axis=1), counts[np.nonzero(counts)], rtol=EXACT)
    assert_allclose(doc_topic.sum(axis=1), counts.sum(axis=1), rtol=EXACT)


@pytest.mark.parametrize("size", [1e-300, 1e-3, 1.0, 1e12, 1e200])
@pytest.mark.parametrize("concentration", [1.0, 1e10])
def test_tables_are_finite_whatever_is_given(concentration, size):
    counts, topic_words, prior = bursty(0, 9, 40, 12)
    counts *= size
    doc_topic, _, logs, tables, base = run(
        counts, topic_words, 0.05, prior, tol=1e-2, repeats=(0.7, concentration)
    )
    n = counts[np.nonzero(counts)]
    assert np.isfinite(logs)
    assert (tables <= n * (1.0 + SINGLE)).all()
    assert (tables >= np.minimum(n, 1.0) * (1.0 - SINGLE)).all()
    assert ((base > 0.0) & (base <= 1.0 + SINGLE)).all()
    assert_allclose(doc_topic.sum(), tables.sum(), rtol=EXACT)


# Fixed topics -------------------------------------------------------------------------


def fixed(seed, n_docs, n_words, n_topics, *, length=40.0):
    """Documents of a few topics, these topics (V, K), and a prior."""
    _, topic_words, prior = corpus(seed, n_docs, n_words, n_topics, 0.05)
    phi, rng = topic_words / topic_words.sum(axis=0), np.random.default_rng(seed)
    shares = rng.dirichlet(prior, size=n_docs)
    return rng.poisson(length * shares @ phi.T), phi, prior


def fixed_inputs(counts, phi, prior):
    given = inputs(counts, phi, 0.0, prior, 0.0)
    weights = np.zeros_like(given["weights"])
    relative = phi / phi.max(axis=1, keepdims=True)
    weights[:, : len(prior)] = np.maximum(relative, reference.WORD_FLOOR)
    names = ("indptr", "words", "counts")
    return {name: given[name] for name in names} | {
        "weights": weights,
        "prior": prior[None],
    }


def check_zero_order(counts, phi, prior, *, mixed=None, repeats=None, **options):
    """N, tables and p of documents that hang on no rounding error are the twin's."""
    options = {"n_start": 3, "active": 0.1, "max_iter": 10, "tol": 1e-3} | options
    twin, more = options | (mixed or {}), {}
    if repeats is not None:
        more = repeating(counts, *repeats)
        more |= {"tops": phi.max(axis=1), "rest": np.array([0.3])}
        twin["repeats"] = reference.Repeats(*repeats, 0.3, on_grid(more["grid"]))
    limits, topics, tokens, tables, base = infer_zero_order(
        **fixed_inputs(counts, phi, prior), **options, **more
    )
    result = by_row(limits, topics, tokens, len(prior))
    (rows, words), n_clear = np.nonzero(counts), 0
    for doc, row in enumerate(counts.astype(float)):
        want, margin, t, p = reference.zero_order_step(row, phi, prior, **twin)
        if margin < CLEAR:
            continue
        n_clear += 1
        assert_allclose(result[doc], want, rtol=0, atol=SINGLE * row.sum())
        if repeats is not None:
            here = rows == doc
            assert_allclose(tables[here], t[words[here]], rtol=SINGLE)
            assert_allclose(base[here], p[words[here]], rtol=SINGLE)
    assert 2 * n_clear > len(counts), "most documents should be clear"


@along_diagonal(
    ("n_topics", "steps"),
    [1, 2, 7, 8, 9, 70, 70],
    [(2, 0), (3, 1), (1, 10), (3, 100)],
)
def test_zero_order_equals_its_twin(n_topics, steps, seed):
    n_start, max_iter = steps
    counts, phi, prior = fixed([seed, 17, n_topics], 12, 60, n_topics)
    counts[2] = 0
    check_zero_order(counts, phi, prior, n_start=n_start, max_iter=max_iter)


def test_zero_order_begins_with_so_many_iterations(seed):
    given = fixed([seed, 17], 12, 60, 9)
    with pytest.raises(AssertionError, match="Not equal"):
        check_zero_order(*given, n_start=1, max_iter=0, mixed={"n_start": 3})


@pytest.mark.parametrize("discount", [None, 0.4])
def test_documents_with_priors_of_their_own_are_as_in_calls_of_their_own(
    discount, seed
):
    counts, phi, _ = fixed([seed, 22], 12, 60, 9)
    counts[3] = 0
    counts[5] *= 10**12  # priors go with it in single precision
    priors = np.random.default_rng(seed).gamma(0.5, size=(12, 9)) + 0.01
    options, more = {"n_start": 3, "active": 0.1, "max_iter": 10, "tol": 1e-3}, {}
    if discount is not None:
        options |= {"tops": phi.max(axis=1), **repeating(counts, discount, 20.0)}
        more = {"rest": priors.sum(axis=1) / 7.0}

    def infer(docs, rows):
        given = fixed_inputs(counts[docs], phi, priors[0]) | {"prior": priors[rows]}
        own = {name: values[rows] for name, values in more.items()}
        return infer_zero_order(**given, **own, **options)

    docs = np.arange(12)
    together, alone = infer(docs, docs), [infer([doc], [doc]) for doc in docs]
    for place in range(1, 5):
        joined = np.concatenate([result[place] for result in alone])
        assert_array_equal(together[place], joined)
    # The same prior in each row is one prior, bit by bit; and priors matter.
    for of_many, of_one in zip(infer(docs, 0 * docs), infer(docs, [0]), strict=True):
        assert_array_equal(of_many, of_one)
    assert not np.array_equal(together[0], infer(docs, [0])[0])
    with pytest.raises(ValueError, match="disagree on documents"):
        infer(docs, docs[:5])


@pytest.mark.parametrize("discount", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("concentration", [1.0, 40.0, 1e6])
def test_zero_order_equals_its_twin_where_words_repeat(concentration, discount, seed):
    counts, phi, prior = fixed([seed, 25], 12, 60, 9)
    counts = counts * np.random.default_rng(seed).geometric(0.4, size=counts.shape)
    counts[2] = 0
    check_zero_order(counts, phi, prior, repeats=(discount, concentration))


# Sums by word -------------------------------------------------------------------------


def by_word(sums, words, n_words):
    """Arguments of `collapsed_sums` for dense sums (nnz, K) of stored counts."""
    stored = np.argsort(words, kind="stable")
    columns = np.searchsorted(words[stored], np.arange(n_words + 1)).astype(np.int32)
    rows, topics = np.nonzero(sums)
    limits = np.searchsorted(rows, np.arange(len(sums) + 1))
    values = sums[rows, topics]
    return columns, stored, limits, topics.astype(np.int32), values, sums.shape[1]


def test_sums_by_word_are_those_of_stored_counts(seed):
    rng = np.random.default_rng(seed)
    words = rng.integers(30, size=200)
    sums = rng.gamma(1.0, size=(200, 9)) * (rng.random((200, 9)) < 0.4)
    n_used, used, totals = collapsed_sums(0, 30, *by_word(sums, words, 30))
    want = np.zeros((30, 9))
    np.add.at(want, words, sums)
    limits = np.cumsum([0, *n_used])
    assert_allclose(by_row(limits, used, totals, 9), want, rtol=EXACT)


# Shapes -------------------------------------------------------------------------------


def test_sums_by_word_refuse_words_out_of_range():
    sums, words = np.ones((6, 3)), np.array([0, 0, 1, 2, 2, 4])
    columns, stored, limits, topics, values, n_topics = by_word(sums, words, 5)
    arrays = (columns, stored, limits, topics, values)
    collapsed_sums(0, 5, *arrays, n_topics)
    for begin, end in ((-1, 2), (3, 2), (0, 6)):
        with pytest.raises(ValueError, match="between 0"):
            collapsed_sums(begin, end, *arrays, n_topics)
