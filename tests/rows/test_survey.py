"""What counts show before anything is learned from them."""

import numpy as np
import pytest
import scipy.sparse as sp

from checks.corpora import topic_counts
from skbnp.rows.batch import Tokens
from skbnp.rows.survey import ENOUGH_DOCS, CountSurvey

#: Long documents, so that values are well above one.
COUNTS = topic_counts(150, 20, length=400.0).toarray()
LENGTHS = COUNTS.sum(axis=1, keepdims=True)


def survey(X):
    return CountSurvey.of(sp.csr_array(np.asarray(X, dtype=np.float64)))


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


def test_surveys_of_parts_make_that_of_all():
    X = np.insert(COUNTS, 3, np.arange(150.0) + 1.0, axis=1)
    parts = [survey(X[:60]), survey(np.zeros((2, 21))), survey(X[60:])]
    both, whole = parts[0].plus(parts[1]).plus(parts[2]), survey(X)
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
