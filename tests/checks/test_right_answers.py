"""Legal but unusual corpora give right answers, whatever container holds them.

Containers and types are seen by one function for each sort of rows, which all methods
ask (see `test_bad_input`). So each is given to that function alone, and one that nobody
could use unconverted to each method.
"""

import copy
import warnings
from operator import methodcaller

import numpy as np
import pytest
import scipy.sparse as sp

from checks.corpora import FORMATS
from checks.estimators import (
    DAILY,
    DOORS,
    EVALUATIONS,
    FEW,
    FIRST,
    INSTANCES,
    LEARNING,
    OF_EACH_CLASS,
    criterion,
    dense,
    door_of,
    every_count_model,
    every_estimator,
    every_method,
    fresh,
    gives_proportions,
    has_bound,
    instance,
    is_variational,
    needs_two_columns,
    takes_counts_only,
    takes_sparse,
)
from checks.states import assert_same, learned

# -- degenerate corpora ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        instance(name, e, method)
        for name, e in INSTANCES.items()
        for method in LEARNING
        if takes_counts_only(e) and (method == "fit" or name in FIRST)
    ],
    indirect=["estimator"],
)
def test_corpus_without_tokens_says_nothing(estimator, method):
    X = np.zeros((5, 3))
    distr = getattr(estimator, method)(X).transform(X)
    np.testing.assert_allclose(distr.sum(axis=1), 1.0, rtol=1e-12)
    assert estimator.score(X) == 0.0
    assert estimator.perplexity(X) == 1.0
    if has_bound(estimator):
        assert estimator.elbo(X) == 0.0
        assert set(estimator.elbo_terms(X).values()) == {0.0}
    if method == "fit" and is_variational(estimator):
        assert getattr(estimator, f"{criterion(estimator)}_") == 0.0
        assert set(estimator.history_[criterion(estimator)]) == {0.0}


@every_count_model()
def test_chunks_without_tokens_begin_a_stream_or_teach_nothing(estimator, counts):
    empty = sp.csr_array((5, counts.shape[1]))
    estimator.partial_fit(empty).partial_fit(counts)
    assert np.isfinite(estimator.score(counts))
    before = estimator.components_
    assert_same(before, estimator.partial_fit(empty).components_)


@every_count_model(among=INSTANCES)
def test_documents_without_tokens_teach_nothing(estimator, corpus_with_empty_rows):
    X = corpus_with_empty_rows
    other = fresh(estimator).fit(X[np.diff(X.indptr) > 0])
    assert_same(learned(estimator.fit(X)), learned(other))


SMALL = {
    "one-document": np.array([[3.0, 0.0, 1.0, 2.0]]),
    "one-word-type": np.array([[3.0], [1.0], [0.0], [7.0]]),
    "one-token": np.array([[0.0, 1.0, 0.0]]),
    "one-token-per-document": np.eye(6),
    "two-documents-for-four-topics": np.array([[3.0, 0.0, 1.0], [0.0, 4.0, 1.0]]),
    "identical-documents": np.ones((7, 5)),
    "fractions": np.array([[0.25, 0.5, 0.0], [0.0, 1.5, 3.3], [1e-3, 0.0, 0.1]]),
    "billions": np.array([[1e9, 0.0, 3e9], [2e9, 1e9, 0.0], [0.0, 1.0, 1e9]]),
    "one-huge-count": np.array([[1e9, 1.0, 0.0], [1.0, 0.0, 2.0]]),
    "tiny-weights": np.array([[1e-300, 0.0, 2e-300], [0.0, 3e-300, 1e-300]]),
    "tiny-and-huge": np.array([[1e-300, 1e9, 0.0], [1.0, 0.0, 1e-300]]),
}


SIGNED = {
    "zeros": np.zeros((5, 3)),
    "constant-column": np.array([[1.0, -2.0, 0.5], [1.0, 3.0, 0.1], [1.0, 0.0, -7.0]]),
    "equal-columns": np.array([[1.0], [-2.0], [0.5], [3.0]]) * np.ones(4),
    "far-from-zero": 1e8 + np.array([[0.5, -1.0], [2.0, 0.0], [-1.0, 1.0]]),
    "opposite-rows": np.array([[1.0, -2.0, 3.0], [-1.0, 2.0, -3.0]]),
}

#: Documents that a sampler would have to take apart into more tokens than it takes.
TOO_LONG = {"billions", "one-huge-count", "tiny-and-huge"}
#: Weights of which rounding to tokens would leave nothing.
TOO_SMALL = {"tiny-weights"}


def each_small(*methods):
    """Parametrise over estimators with a method, and corpora that they take.

    Fits of one of each kind are tried on all, those of the others on every sixth, in
    turn; other methods of one of each kind on every third. Few learn by them each day.
    """
    weekly = pytest.mark.weekly
    turns = {label: at for at, label in enumerate(INSTANCES)}
    every = {(True, True): 1, (True, False): 6, (False, True): 3}
    return pytest.mark.parametrize(
        ("estimator", "method", "X"),
        [
            pytest.param(
                estimator,
                method,
                X,
                id=f"{label}-{method}-{name}",
                marks=[] if label in (DAILY if method == "fit" else FEW) else [weekly],
            )
            for label, estimator in INSTANCES.items()
            for method in methods
            if method == "fit" or label in FIRST
            for at, (name, X) in enumerate((SMALL | SIGNED).items())
            if (at + turns[label]) % every[method == "fit", label in FIRST] == 0
            if (is_variational(estimator) or name not in TOO_LONG | TOO_SMALL)
            if (name not in SIGNED or not takes_counts_only(estimator))
            if (X.shape[1] > 1 or not needs_two_columns(estimator))
        ],
        indirect=["estimator"],
    )


@every_method(
    *LEARNING,
    wanted=lambda e: takes_counts_only(e) and not is_variational(e),
    among=FIRST,
)
@pytest.mark.parametrize("name", sorted(TOO_LONG | TOO_SMALL))
def test_samplers_refuse_documents_of_too_many_or_no_tokens(estimator, method, name):
    X, message = SMALL[name], "rounding leaves 0 of"
    if name in TOO_LONG:
        X = np.roll(X, 1 - int(X.sum(axis=1).argmax()), axis=0)
        X[0] = X[0] > 0
        message = rf"^Row 1 of X has .* tokens; {type(estimator).__name__} takes"
    with pytest.raises(ValueError, match=message):
        getattr(estimator, method)(X)
    assert not estimator.__sklearn_is_fitted__()


@each_small(*LEARNING)
def test_small_and_extreme_corpora_give_finite_answers(estimator, method, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        distr = getattr(estimator, method)(X).transform(X)
        score, bound = estimator.score(X), 0.0
        if has_bound(estimator):
            bound = estimator.elbo(X)
        if takes_counts_only(estimator):
            assert np.isfinite(estimator.perplexity(X))
    assert np.isfinite(distr).all()
    if gives_proportions(estimator):
        assert (distr >= 0).all()
        np.testing.assert_allclose(distr.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(estimator.components_).all()
    assert np.isfinite([score, bound]).all()
    if takes_counts_only(estimator):
        assert (estimator.components_ > 0).all()
        assert score <= 0.0


# -- containers ------------------------------------------------------------------------


def at_the_door(estimator, X):
    """Return what an estimator learns from, whatever `X` is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of features on one side
        result = door_of(estimator)(fresh(estimator), X, reset=True, method="fit")
    if isinstance(result, np.ndarray):
        return result, result.dtype
    rows, dtype = result
    # Of either width: learning and evaluation are given wide ones by `_unusable`.
    indices, indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows.data, indices, indptr, rows.shape, dtype


def check_same_rows(estimator, X, Y):
    """Raise unless X and Y are the same bits behind the door."""
    assert_same(at_the_door(estimator, X), at_the_door(estimator, Y))


def check_same_answers(estimator, X, Y, method="fit"):
    """Raise unless learning from X and from Y, and transforming, give equal bits."""
    one, two = fresh(estimator), fresh(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of features on one side
        getattr(one, method)(X)
        getattr(two, method)(Y)
        assert_same(one.transform(X), two.transform(Y).astype(np.float64))
    left, right = learned(one), learned(two)
    left.pop("feature_names_in_", None), right.pop("feature_names_in_", None)
    assert_same(left, right)


@every_estimator(takes_sparse, among=DOORS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("name", FORMATS)
def test_sparse_containers_equal_dense_ones(estimator, name, kind, rows):
    given = getattr(sp, f"{name}_{kind}")(rows)
    check_same_rows(estimator, dense(rows), given)


@every_estimator(takes_sparse, among=DOORS)
@pytest.mark.parametrize("name", ["csr", "csc", "coo", "bsr"])
def test_wide_indices_equal_narrow_ones(estimator, name, rows):
    given = getattr(sp, f"{name}_array")(rows)
    if name == "coo":
        given.coords = tuple(index.astype(np.int64) for index in given.coords)
    else:
        given.indices = given.indices.astype(np.int64)
        given.indptr = given.indptr.astype(np.int64)
    check_same_rows(estimator, rows, given)


def _doubled(X):
    """Store every count in two parts, in reverse order, beside explicit zeros."""
    parts = sp.coo_array(X)
    row, column = (np.tile(index, 3)[::-1] for index in parts.coords)
    data = np.concatenate([parts.data - 0.5, np.zeros(parts.nnz), 0.5 + 0 * parts.data])
    return sp.coo_array((data[::-1], (row, column)), shape=X.shape)


def _raw(X, kind):
    """Compress coordinates without summing, as SciPy's own conversion would."""
    axis = 0 if kind == "csr" else 1
    order = np.argsort(X.coords[axis], kind="stable")
    indptr = np.searchsorted(X.coords[axis][order], np.arange(X.shape[axis] + 1))
    arrays = X.data[order], X.coords[1 - axis][order], indptr
    return getattr(sp, f"{kind}_array")(arrays, shape=X.shape)


@every_estimator(takes_sparse, among=DOORS)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_repeated_and_unsorted_indices_equal_their_sums(estimator, kind, rows):
    given = _doubled(rows)
    given = given if kind == "coo" else _raw(given, kind)
    assert given.nnz == 3 * rows.nnz
    check_same_rows(estimator, rows, given)


def _unusable(rows, kind):
    """Repeated entries in no order, or no array: nobody can use these rows as given."""
    if not sp.issparse(rows):
        return rows.tolist()
    X = _raw(_doubled(rows), kind)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@every_method(*LEARNING, among=OF_EACH_CLASS, daily=[*DOORS, *FEW])
def test_every_learning_method_learns_from_what_the_door_returns(
    estimator, method, rows
):
    check_same_answers(estimator, rows, _unusable(rows, "csr"), method)


@every_method(*EVALUATIONS, among=OF_EACH_CLASS, daily=[*DOORS, *FEW])
def test_every_evaluation_reads_what_the_door_returns(fitted, method, rows):
    evaluate = getattr(fitted, method)
    assert_same(evaluate(rows), evaluate(_unusable(rows, "csc")))


# -- the caller's matrix ---------------------------------------------------------------


def check_leaves_matrix(call, X):
    """Raise if the call changes the matrix, or what SciPy notes in it."""
    held = copy.deepcopy(X)
    call(X)
    assert_same(held, X, ignore=())


def _with_room(rows):
    """Entries behind the last row."""
    X = rows.copy()
    X.data, X.indices = (np.append(part, [1, 1]) for part in (X.data, X.indices))
    return X


def _read_only(rows):
    X = _raw(_doubled(rows), "csr")
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    return X


KEPT = {"dense": dense, "float32": lambda rows: dense(rows).astype(np.float32)}
KEPT_SPARSE = {
    "csr-int64": lambda rows: rows.astype(np.int64),
    "room to spare": _with_room,
    "read-only": _read_only,
    "doubled-csc": lambda rows: _raw(_doubled(rows), "csc"),
    "doubled-coo": _doubled,
    **{name: methodcaller("asformat", name) for name in FORMATS},
}


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        instance(name, e, kind)
        for name, e in DOORS.items()
        for kind in [*KEPT, *[*KEPT_SPARSE] * takes_sparse(e)]
    ],
    indirect=["estimator"],
)
def test_matrix_of_the_caller_is_not_changed(estimator, kind, rows):
    given = (KEPT | KEPT_SPARSE)[kind](rows)
    check_leaves_matrix(lambda X: at_the_door(estimator, X), given)


@every_estimator(among=FIRST)
def test_fitted_estimator_does_not_share_memory_with_the_data(estimator, rows):
    estimator.fit(rows)
    before = estimator.components_, estimator.transform(rows[:5])
    kept = rows[:5].copy()
    (rows.data if takes_sparse(estimator) else rows)[:] = -1.0
    assert_same(before, (estimator.components_, estimator.transform(kept)))


@every_estimator(lambda e: hasattr(type(e), "topic_word_distr_"), among=FIRST)
def test_attributes_made_at_access_are_the_callers_own(fitted):
    before = fitted.components_
    fitted.components_[:] = -1.0
    fitted.topic_word_distr_[:] = -1.0
    assert_same(before, fitted.components_)
