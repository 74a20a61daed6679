"""What counts show before anything is learned from them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler, normalize

from checks.corpora import topic_counts
from skbnp.rows.batch import Tokens
from skbnp.rows.survey import ENOUGH_DOCS, CountSurvey

#: Long documents, so that values are well above one.
COUNTS = topic_counts(150, 20, length=400.0).toarray()
LENGTHS = COUNTS.sum(axis=1, keepdims=True)


def survey(X):
    return CountSurvey.of(sp.csr_array(np.asarray(X, dtype=np.float64)))


@pytest.mark.parametrize(
    ("transform", "form"),
    [
        (np.log1p, "np.log1p(x)"),
        (lambda x: np.log1p(x / LENGTHS * 1e4), "np.log1p(x)"),
        (lambda x: np.log2(1.0 + x), "np.log2(1 + x)"),
        (lambda x: np.log10(1.0 + x), "np.log10(1 + x)"),
        (lambda x: (x > 0) * (1.0 + np.log(np.maximum(x, 1.0))), "1 + np.log(x)"),
        (np.sqrt, "np.sqrt(x)"),
    ],
)
def test_transformed_counts_are_known_by_what_undoes_it(transform, form):
    assert survey(transform(COUNTS)).form == form


@pytest.mark.parametrize(
    "linear",
    [
        lambda x: x,
        lambda x: 100.0 * x / LENGTHS,
        lambda x: 1e6 * x[:, :15] / LENGTHS,  # some columns of counts per million
        lambda x: x / 4.0,  # means of four
        lambda x: x * np.linspace(1.1, 3.0, len(x))[:, None],  # weighted documents
        lambda x: x * np.linspace(1.1, 3.0, x.shape[1]),  # weighted words
        lambda x: np.random.default_rng(0).gamma(x + 1e-9),  # expected counts
    ],
)
def test_multiples_of_counts_are_as_good_as_counts(linear):
    assert survey(linear(COUNTS)).form == ""


TEXTS = topic_counts(300, 200, length=60.0).toarray()
LOG1P, LOG = (
    f"{name} and scales of rows or columns" for name in ("np.log1p(x)", "1 + np.log(x)")
)


def scaled_columns(x):
    return StandardScaler(with_mean=False).fit_transform(x)


@pytest.mark.parametrize(
    ("scale", "form"),
    [
        (lambda x: 100.0 * TfidfTransformer().fit_transform(x), "tf-idf"),
        (lambda x: TfidfTransformer(smooth_idf=False).fit_transform(x), "tf-idf"),
        (lambda x: TfidfTransformer(norm="l1").fit_transform(x), "tf-idf"),
        (lambda x: TfidfTransformer(sublinear_tf=True).fit_transform(x), LOG),
        (lambda x: 2.5 * np.log1p(x), LOG1P),
        (lambda x: scaled_columns(np.log1p(x)), LOG1P),
        (lambda x: 100.0 * normalize(np.log1p(x), "l1"), LOG1P),
        (scaled_columns, ""),  # words that are weighted
        (lambda x: 100.0 * normalize(x, "l1"), ""),
    ],
)
def test_scaled_logarithms_and_tf_idf_are_known_by_the_ratios_of_values(scale, form):
    scaled = scale(TEXTS)
    assert survey(scaled.toarray() if sp.issparse(scaled) else scaled).form == form


@pytest.mark.parametrize("transform", [lambda x: x**0.6, lambda x: x**0.7])
def test_values_that_come_again_and_again_are_made_of_counts(transform):
    X = topic_counts(300, 20, length=60.0).toarray()
    assert survey(transform(X)).form == "some transformation"
    assert survey(X * 0.7 + (X > 0) / 60.0).form == ""


def test_copies_of_a_document_count_once():
    X = np.repeat(COUNTS[:7], 30, axis=0)
    assert len(survey(X).different) == 7
    assert len(survey(COUNTS).different) == ENOUGH_DOCS


@pytest.mark.parametrize(
    "column",
    [
        np.arange(150.0),
        np.random.default_rng(0).permutation(150) + 1.0,
        np.sort(np.random.default_rng(0).random(150)) + 10.0,
        LENGTHS.ravel(),
    ],
    ids=["position", "number", "time", "total"],
)
def test_columns_that_are_no_words_are_known(column):
    X = np.insert(COUNTS, 3, column, axis=1)
    assert survey(X).labels == {3}
    assert survey(COUNTS).labels == frozenset()
    assert survey(X[:10]).labels is None  # too few rows to tell


@pytest.mark.parametrize("transform", [np.asarray, np.log1p])
def test_surveys_of_parts_make_that_of_all(transform):
    X = np.insert(transform(COUNTS), 3, np.arange(150.0) + 1.0, axis=1)
    parts = [survey(X[:60]), survey(np.zeros((2, 21))), survey(X[60:])]
    both, whole = parts[0].plus(parts[1]).plus(parts[2]), survey(X)
    assert both.form == whole.form
    assert both.labels == whole.labels == {3}
    assert (both.n_docs, both.n_stored) == (whole.n_docs, whole.n_stored)
    assert both.n_tokens == pytest.approx(whole.n_tokens)
    assert len(both.different) == len(whole.different) == ENOUGH_DOCS


def test_runs_are_the_stored_counts_of_each_document():
    counts = sp.csr_array(np.array([[0, 2, 1], [0, 0, 0], [0, 0, 3], [1, 0, 0]]))
    starts, n = Tokens.from_counts(counts).runs()
    assert starts.tolist() == [0, 2, 3, 6]
    assert n.tolist() == counts.data.tolist()
    starts, n = Tokens.from_counts(sp.csr_array((2, 3), dtype=float)).runs()
    assert len(starts) == len(n) == 0
