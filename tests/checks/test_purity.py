"""Evaluation reads: it changes nothing, draws nothing, and treats rows one by one."""

import copy

import numpy as np
import pytest

from checks.corpora import topic_counts
from checks.estimators import (
    EVALUATIONS,
    FIRST,
    dense,
    evaluate,
    every_estimator,
    every_kind,
    every_method,
    fresh,
    has_bound,
    is_tree,
    is_variational,
    rows_of,
    stacked,
    takes_counts_only,
)
from checks.states import assert_same, check_leaves_global_random_state, snapshot
from skbnp import NestedHDP

#: Rounding of a mean over tokens: sums of fewer than 10^5 terms of one size, in another
#: order, differ by less than 10^5 eps = 2e-11, and by its root unless luck is bad.
SUMS = 1e-11


@pytest.fixture
def rich(estimator):
    """Many components, so that a mistake has room."""
    X = rows_of(estimator, topic_counts(60, 24))
    return fresh(estimator, n_components=17, max_iter=2).fit(X)


def check_evaluation_changes_nothing(estimator, method, X):
    """Raise if the method writes to the estimator."""
    before = snapshot(estimator)
    getattr(estimator, method)(X)
    assert_same(before, vars(estimator), ignore=())


def assert_same_rows(estimator, left, right):
    """Raise unless rows of `transform` are the same bits, or as good as these.

    Kernels for counts add in one order; for other rows BLAS chooses one by their
    number.
    """
    if takes_counts_only(estimator):
        assert_same(left, right)
    else:
        np.testing.assert_allclose(left, right, rtol=0, atol=SUMS * np.abs(left).max())


def check_rows_are_independent(estimator, X, seed=0):
    """Raise unless what is said of a row is the same wherever the row stands."""
    whole = estimator.transform(X)
    rng = np.random.default_rng(seed)
    order = rng.permutation(X.shape[0])
    for chosen in [order, rng.choice(X.shape[0], 11), *order[:5, None]]:
        assert_same_rows(estimator, whole[chosen], estimator.transform(X[chosen]))


@every_method(*EVALUATIONS, among=FIRST)
def test_evaluation_leaves_the_estimator_as_it_is(fitted, method, rows):
    check_evaluation_changes_nothing(fitted, method, rows)


@every_estimator(among=FIRST)
@pytest.mark.parametrize("random_state", [None, 0, np.random.RandomState(0)])
def test_evaluation_draws_no_random_numbers(fitted, random_state, rows):
    fitted.set_params(random_state=copy.deepcopy(random_state))
    before = copy.deepcopy(fitted.random_state)
    check_leaves_global_random_state(lambda: evaluate(fitted, rows))
    assert_same(before, fitted.random_state)


@every_estimator(among=FIRST)
@pytest.mark.parametrize("kind", ["as taken", "dense"])
def test_row_does_not_depend_on_neighbours_or_position(rich, kind, seed):
    X = rows_of(rich, topic_counts(60, 24, seed=seed))
    check_rows_are_independent(rich, dense(X) if kind == "dense" else X, seed)


@every_kind()
def test_means_do_not_depend_on_the_order_of_rows(rich, rows, seed):
    order = np.random.default_rng(seed).permutation(rows.shape[0])
    for name in {"score", "elbo"} & set(dir(rich)):
        evaluate = getattr(rich, name)
        assert evaluate(rows) == pytest.approx(evaluate(rows[order]), rel=SUMS)


@pytest.mark.long
@every_estimator(has_bound)
def test_document_terms_of_the_bound_do_not_change_when_all_documents_are_repeated(
    rich, rows
):
    one = rich.elbo_terms(rows)
    two = rich.elbo_terms(stacked(rows, rows))
    for name in one.keys() & {"assignments", "entropy", "documents", "rows"}:
        assert one[name] == pytest.approx(two[name], rel=SUMS)


@every_kind(takes_counts_only)
def test_score_is_the_mean_over_held_out_tokens_of_parts(rich):
    # 20 % of 20 tokens: each document holds out 4, so that parts weigh by documents.
    X = np.random.default_rng(0).multinomial(20, np.full(24, 1 / 24), size=60)
    parts = rich.score(X[:20]) * 20 + rich.score(X[20:]) * 40
    assert rich.score(X) == pytest.approx(parts / 60, rel=SUMS)


@every_kind(has_bound)
def test_bound_is_the_sum_of_its_terms(rich, rows):
    assert rich.elbo(rows) == sum(rich.elbo_terms(rows).values())


#: Sums over 60 documents in another order, 2 passes of 20 iterations each: a relative
#: error of about 60 eps enters at each of 40 steps, and a step of the fixed point
#: enlarges what came before by a small factor at the most. 1e-9 leaves room for 10^4.
#: Beside that a count near the support threshold of 1e-9 tokens may fall on either side
#: of it in each of 60 documents.
ROUNDING = {"rtol": 1e-9, "atol": 6e-8}
PASSES = {
    "mean_change_tol": 0.0,
    "max_doc_update_iter": 20,
    "max_iter": 2,
    "warm_up": 0,
}


def batch_like(estimator):
    """All documents in one update, a fixed number of iterations, start from noise."""
    return fresh(
        estimator, batch_size=60, learning_offset=0.0, learning_decay=1.0, **PASSES
    )


@every_estimator(lambda e: is_variational(e) and not is_tree(e))
def test_learning_from_all_rows_at_once_does_not_depend_on_their_order(
    estimator, rows, seed
):
    order = np.random.default_rng(seed).permutation(rows.shape[0])
    one, two = (
        batch_like(estimator).set_params(init="random").fit(X)
        for X in (rows, rows[order])
    )
    np.testing.assert_allclose(one.components_, two.components_, **ROUNDING)


def starts_near(estimator):
    """Whether there are no hundred passes before the first that enlarge rounding."""
    return not isinstance(estimator, NestedHDP)


@every_estimator(lambda e: is_variational(e) and starts_near(e))
def test_learning_does_not_depend_on_the_order_of_the_vocabulary(
    estimator, rows, seed, monkeypatch
):
    # The start draws noise word by word; without it topics start as documents.
    class NoNoise:
        def __init__(self, generator):
            self._generator = generator

        def __getattr__(self, name):
            return getattr(self._generator, name)

        def standard_gamma(self, shape, size):
            return np.ones(size)

    from skbnp.estimators import _variational

    stream = _variational.stream
    monkeypatch.setattr(_variational, "stream", lambda *name: NoNoise(stream(*name)))
    order = np.random.default_rng(seed).permutation(rows.shape[1])
    # Where a new and a remembered start lead to one optimum, rounding chooses between
    # them; documents must reach it for the choice not to matter.
    estimator = fresh(batch_like(estimator), max_doc_update_iter=1000)
    one = fresh(estimator).fit(rows)
    two = fresh(estimator).fit(rows[:, order])
    # Sums of words in single precision take another order: iterations pass on 6e-8.
    np.testing.assert_allclose(one.components_[:, order], two.components_, rtol=1e-5)
