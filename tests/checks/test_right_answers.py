"""Legal but unusual corpora give right answers, whatever container holds them.

Containers and types are seen by `check_documents` alone, which all methods ask (see
`test_bad_input`). So each is tried on one estimator, and one that nobody could use
unconverted on each method.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from checks.corpora import FORMATS
from checks.estimators import (
    EVALUATIONS,
    FIRST,
    INSTANCES,
    LEARNING,
    LONG,
    criterion,
    every_count_model,
    every_estimator,
    every_kind,
    every_method,
    fresh,
    is_tree,
    is_variational,
    still,
    takes_counts_only,
)
from checks.states import assert_same, differences, learned
from skbnp import HDP

#: Who is shown every container.
ONE = {"HDP-online": INSTANCES["HDP-online"]}

# -- degenerate corpora ----------------------------------------------------------------


@every_method(*LEARNING, wanted=takes_counts_only)
def test_corpus_without_tokens_says_nothing(estimator, method):
    X = np.zeros((5, 3))
    distr = getattr(estimator, method)(X).transform(X)
    np.testing.assert_allclose(distr.sum(axis=1), 1.0, rtol=1e-12)
    assert estimator.score(X) == 0.0
    assert estimator.perplexity(X) == 1.0
    if is_variational(estimator):
        assert estimator.elbo(X) == 0.0
        assert set(estimator.elbo_terms(X).values()) == {0.0}


@every_estimator(is_variational)
def test_fit_without_tokens_reports_a_bound_of_zero(estimator):
    estimator.fit(np.zeros((5, 3)))
    assert getattr(estimator, f"{criterion(estimator)}_") == 0.0
    assert set(estimator.history_[criterion(estimator)]) == {0.0}


@every_count_model()
def test_stream_may_begin_without_tokens(estimator, counts):
    empty = sp.csr_array((5, counts.shape[1]))
    estimator.partial_fit(empty).partial_fit(counts)
    assert np.isfinite(estimator.score(counts))


@every_count_model()
def test_documents_without_tokens_teach_nothing(estimator, corpus_with_empty_rows):
    X = corpus_with_empty_rows
    other = fresh(estimator).fit(X[np.diff(X.indptr) > 0])
    assert_same(learned(estimator.fit(X)), learned(other))


@every_count_model()
def test_documents_of_stored_zeros_teach_nothing(estimator, fitted, counts):
    zeros = sp.csr_array(
        (np.zeros(3), [1, 4, 2], [0, 2, 3]), shape=(2, counts.shape[1])
    )
    X = sp.vstack([zeros, counts, zeros], format="csr")
    assert_same(learned(estimator.fit(X)), learned(fitted))


@every_count_model()
def test_chunk_without_tokens_teaches_nothing(estimator, counts):
    estimator.partial_fit(counts)
    before = estimator.components_
    estimator.partial_fit(sp.csr_array((5, counts.shape[1])))
    assert_same(before, estimator.components_)


@every_count_model()
def test_documents_without_tokens_do_not_change_the_score(
    fitted, corpus_with_empty_rows
):
    X = corpus_with_empty_rows
    assert fitted.score(X) == fitted.score(X[np.diff(X.indptr) > 0])


@every_estimator(lambda e: takes_counts_only(e) and not is_tree(e))
def test_document_without_tokens_gets_the_corpus_proportions(fitted):
    row = fitted.transform(np.zeros((1, fitted.n_features_in_)))[0]
    expected = fitted.topic_weights_ / fitted.topic_weights_.sum()
    np.testing.assert_allclose(row, expected, rtol=1e-12)  # two roundings in a row


SMALL = {
    "one-document": np.array([[3.0, 0.0, 1.0, 2.0]]),
    "one-word-type": np.array([[3.0], [1.0], [0.0], [7.0]]),
    "one-word-type-used": np.array([[0.0, 3.0, 0.0], [0.0, 5.0, 0.0]]),
    "one-token": np.array([[0.0, 1.0, 0.0]]),
    "one-token-one-word": np.array([[1.0]]),
    "one-token-per-document": np.eye(6),
    "two-documents-for-four-topics": np.array([[3.0, 0.0, 1.0], [0.0, 4.0, 1.0]]),
    "identical-documents": np.ones((7, 5)),
    "fractions": np.array([[0.25, 0.5, 0.0], [0.0, 1.5, 3.3], [1e-3, 0.0, 0.1]]),
    "billions": np.array([[1e9, 0.0, 3e9], [2e9, 1e9, 0.0], [0.0, 1.0, 1e9]]),
    "one-huge-count": np.array([[1e9, 1.0, 0.0], [1.0, 0.0, 2.0]]),
    "tiny-weights": np.array([[1e-300, 0.0, 2e-300], [0.0, 3e-300, 1e-300]]),
    "tiny-and-huge": np.array([[1e-300, 1e9, 0.0], [1.0, 0.0, 1e-300]]),
}


#: Documents that a sampler would have to take apart into more tokens than it takes.
TOO_LONG = {"billions", "one-huge-count", "tiny-and-huge"}


def each_small(*methods):
    """Parametrise over estimators with a method, and corpora that they take.

    Fits are tried on all estimators, other methods on one of each kind.
    """
    return pytest.mark.parametrize(
        ("estimator", "method", "X"),
        [
            pytest.param(
                estimator,
                method,
                X,
                id=f"{label}-{method}-{name}",
                marks=[pytest.mark.long] if label in LONG else [],
            )
            for label, estimator in INSTANCES.items()
            for method in methods
            if method == "fit" or label in FIRST
            for name, X in SMALL.items()
            if (is_variational(estimator) or name not in TOO_LONG)
        ],
        indirect=["estimator"],
    )


@every_method(*LEARNING, wanted=lambda e: not is_variational(e), among=FIRST)
@pytest.mark.parametrize("name", sorted(TOO_LONG))
def test_samplers_refuse_documents_that_are_too_long_by_row(estimator, method, name):
    long = int(SMALL[name].sum(axis=1).argmax())
    X = np.roll(SMALL[name], 1 - long, axis=0)
    X[0] = X[0] > 0
    name = type(estimator).__name__
    with pytest.raises(ValueError, match=rf"^Row 1 of X has .* tokens; {name} takes"):
        getattr(estimator, method)(X)
    assert not estimator.__sklearn_is_fitted__()


@each_small(*LEARNING)
def test_small_and_extreme_corpora_give_finite_answers(estimator, method, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        distr = getattr(estimator, method)(X).transform(X)
        score, perplexity = estimator.score(X), estimator.perplexity(X)
        bound = estimator.elbo(X) if is_variational(estimator) else 0.0
    assert (distr >= 0).all()
    np.testing.assert_allclose(distr.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(estimator.components_).all()
    assert (estimator.components_ > 0).all()
    assert np.isfinite([score, perplexity, bound]).all()
    assert score <= 0.0


@every_count_model()
def test_document_of_one_token_has_nothing_to_score(fitted):
    assert fitted.score(np.eye(1, fitted.n_features_in_)) == 0.0


@every_estimator(is_variational)
def test_one_component_explains_every_document(estimator, counts):
    estimator = fresh(estimator, n_components=1, max_components=1).fit(counts)
    assert (estimator.transform(counts) == 1.0).all()


@every_estimator(is_variational)
def test_one_topic_is_the_distribution_of_words(estimator, counts):
    # Batch learning of one topic counts words; online learning averages minibatches.
    estimator = fresh(
        estimator, n_components=1, max_depth=1, batch_size=60, learning_offset=0.0
    )
    still(estimator).set_params(learning_decay=1.0, max_iter=1).fit(counts)
    expected = counts.sum(axis=0) + estimator.topic_word_prior_
    np.testing.assert_allclose(estimator.components_[0], expected, rtol=1e-12)


@every_estimator(lambda e: is_variational(e) and not is_tree(e))
def test_more_topics_than_documents_are_allowed(estimator, counts):
    estimator = fresh(estimator, n_components=30).fit(counts[:3])
    assert estimator.transform(counts).shape == (60, estimator.n_components_)
    still(estimator).fit(counts[:3])
    assert estimator.transform(counts).shape == (60, 30)
    assert np.isfinite(estimator.score(counts))


# -- containers ------------------------------------------------------------------------

DTYPES = [
    "float32",
    "float16",
    "int8",
    "uint8",
    "int32",
    "int64",
    "uint64",
    "longdouble",
]
NO_SUCH = ("csr", "float16")  # SciPy has none


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


@every_estimator(among=ONE)
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("name", FORMATS)
def test_sparse_containers_equal_dense_ones(estimator, name, kind, counts):
    given = getattr(sp, f"{name}_{kind}")(counts)
    check_same_answers(estimator, counts.toarray(), given)


@every_estimator(among=ONE)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(kind, d) for kind in ("dense", "csr") for d in DTYPES if (kind, d) != NO_SUCH],
)
def test_dtype_of_small_integers_does_not_matter(estimator, dtype, kind, counts):
    given = counts.toarray().astype(dtype)
    given = sp.csr_array(given) if kind == "csr" else given
    if dtype == "float32":
        one, two = fresh(estimator), fresh(estimator)
        assert_same(learned(one.fit(counts)), learned(two.fit(given)))
    else:
        check_same_answers(estimator, counts.toarray(), given)


@every_estimator(among=ONE)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_matrix])
def test_booleans_count_one(estimator, kind, counts):
    present = counts.toarray() > 0
    check_same_answers(estimator, present.astype(float), kind(present))


@every_kind()
def test_float32_comes_back_as_the_rounded_result_of_float64(fitted, counts):
    given = counts.astype(np.float32)
    assert_same(fitted.transform(counts).astype(np.float32), fitted.transform(given))


@every_kind()
def test_float32_is_computed_in_float64(estimator):
    # Fractions of tenths differ in float32: the result must be that of their values.
    X = (np.arange(60).reshape(12, 5) % 7 / 10).astype(np.float32)
    one, two = fresh(estimator).fit(X), fresh(estimator).fit(X.astype(np.float64))
    assert_same(learned(one), learned(two))


@every_estimator(among=ONE)
@pytest.mark.parametrize("name", ["csr", "csc", "coo", "bsr"])
def test_wide_indices_equal_narrow_ones(estimator, name, counts):
    given = getattr(sp, f"{name}_array")(counts)
    if name == "coo":
        given.coords = tuple(index.astype(np.int64) for index in given.coords)
    else:
        given.indices = given.indices.astype(np.int64)
        given.indptr = given.indptr.astype(np.int64)
    check_same_answers(estimator, counts, given)


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


@every_estimator(among=ONE)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_repeated_and_unsorted_indices_equal_their_sums(estimator, kind, counts):
    given = _doubled(counts)
    given = given if kind == "coo" else _raw(given, kind)
    assert given.nnz == 3 * counts.nnz
    check_same_answers(estimator, counts, given)


@every_method(*LEARNING, among=FIRST)
def test_every_learning_method_takes_the_sums_of_repeated_entries(
    estimator, method, counts
):
    check_same_answers(estimator, counts, _raw(_doubled(counts), "csr"), method)


@every_method(*EVALUATIONS)
def test_every_evaluation_takes_the_sums_of_repeated_entries(fitted, method, counts):
    evaluate = getattr(fitted, method)
    assert_same(evaluate(counts), evaluate(_raw(_doubled(counts), "csc")))


@every_estimator(among=ONE)
def test_stale_flags_of_a_matrix_are_not_believed(estimator, counts):
    given = _raw(_doubled(counts), "csr")
    given.has_canonical_format = True
    check_same_answers(estimator, counts, given)


@every_estimator(among=ONE)
def test_room_behind_the_last_entry_is_ignored(estimator, counts):
    given = counts.copy()
    given.indices = np.append(given.indices, [7, 999]).astype(given.indices.dtype)
    given.data = np.append(given.data, [3.0, 5.0])
    check_same_answers(estimator, counts, given)


def check_takes_read_only(estimator, kind, counts, method="fit"):
    """Raise unless the buffers of a matrix may be read-only."""
    given = counts.toarray() if kind == "dense" else counts.asformat(kind)
    for array in [given] if kind == "dense" else _buffers(given):
        array.flags.writeable = False
    check_same_answers(estimator, counts, given, method)


@every_estimator(among=ONE)
@pytest.mark.parametrize("kind", ["dense", "csc", "coo"])
def test_read_only_buffers_are_accepted(estimator, kind, counts):
    check_takes_read_only(estimator, kind, counts)


@every_method(*LEARNING, among=FIRST)
def test_read_only_counts_are_not_written_to_while_learning(estimator, method, counts):
    check_takes_read_only(estimator, "csr", counts, method)


def _misaligned(A):
    buffer = np.zeros(A.nbytes + 1, dtype=np.uint8)
    shifted = buffer[1:].view(A.dtype).reshape(A.shape)
    shifted[:] = A
    assert not shifted.flags.aligned
    return shifted


LAYOUTS = {
    "fortran": np.asfortranarray,
    "every-other": lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda A: A[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": lambda A: A.T.copy().T,
    "misaligned": _misaligned,
    "big-endian": lambda A: A.astype(">f8"),
    "list": lambda A: A.tolist(),
    "object": lambda A: A.astype(object),
}


@every_estimator(among=ONE)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_memory_layout_does_not_matter(estimator, layout, counts):
    check_same_answers(estimator, counts, layout(counts.toarray()))


FRAMES = {
    "pandas": lambda A: pd.DataFrame(A),
    "pandas-named": lambda A: pd.DataFrame(A).rename(columns="w{}".format),
    "pandas-int": lambda A: pd.DataFrame(A.astype(np.int16)),
    "pandas-nullable": lambda A: pd.DataFrame(A.astype(int)).astype("Int64"),
    "pandas-arrow": lambda A: pd.DataFrame(A).astype("double[pyarrow]"),
    "pandas-sparse": lambda A: pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(A)),
    "pandas-mixed": lambda A: pd.DataFrame(A).astype({0: np.int8, 1: np.float32}),
    "polars": lambda A: pl.DataFrame(A, schema=[f"w{i}" for i in range(A.shape[1])]),
}


@every_estimator(among=ONE)
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_data_frames_equal_arrays(estimator, frame, counts):
    check_same_answers(estimator, counts, frame(counts.toarray()))


# -- the caller's matrix ---------------------------------------------------------------


def _buffers(X):
    return [part for part in _arrays(vars(X)) if part.dtype != object]


def _arrays(parts):
    for part in parts.values():
        if isinstance(part, np.ndarray):
            yield part
        elif isinstance(part, tuple):
            yield from (each for each in part if isinstance(each, np.ndarray))


def _describe(X):
    """All of a matrix that a method might change, also what SciPy caches in it."""
    if isinstance(X, np.ndarray):
        return {"array": X.copy(), "flags": str(X.flags), "strides": X.strides}
    arrays = list(_arrays(vars(X)))
    return {
        "format": X.format,
        "parts": {
            name: part for name, part in vars(X).items() if name[0] == "_"
        }.copy(),
        "where": [id(array) for array in arrays],
        "content": [array.tolist() for array in arrays],
        "dtypes": [array.dtype for array in arrays],
        "flags": [str(array.flags) for array in arrays],
        "items": dict(X._dict) if X.format == "dok" else None,
    }


def check_leaves_matrix(call, X):
    """Raise if the call changes the matrix, or as much as a flag of it."""
    before = _describe(X)
    call(X)
    assert_same(before, _describe(X))


def _given(kind, counts):
    if kind == "dense":
        return counts.toarray()
    if kind == "fortran":
        return np.asfortranarray(counts.toarray())
    if kind == "float32":
        return counts.toarray().astype(np.float32)
    if kind.startswith("doubled"):
        doubled = _doubled(counts)
        return doubled if kind.endswith("coo") else _raw(doubled, kind[-3:])
    if kind == "csr-int64":
        X = counts.astype(np.int64)
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
        return X
    return counts.asformat(kind)


KEPT = ["dense", "fortran", "float32", "csr-int64"]
KEPT += ["doubled-csr", "doubled-csc", "doubled-coo", *FORMATS]


@every_method("fit", "transform", among=ONE)
@pytest.mark.parametrize("kind", KEPT)
def test_matrix_of_the_caller_is_not_changed(fitted, method, kind, counts):
    check_leaves_matrix(getattr(fitted, method), _given(kind, counts))


@every_method(*LEARNING, "fit_transform", *EVALUATIONS, among=FIRST)
@pytest.mark.parametrize("kind", ["csr", "doubled-csr"])
def test_no_method_changes_the_matrix_of_the_caller(fitted, method, kind, counts):
    """Canonical counts are used where they are, others are converted."""
    check_leaves_matrix(getattr(fitted, method), _given(kind, counts))


@every_estimator()
def test_fitted_estimator_does_not_share_memory_with_the_data(estimator, counts):
    estimator.fit(counts)
    before = estimator.components_, estimator.transform(counts[:5])
    kept = counts[:5]
    counts.data[:] = -1.0
    assert_same(before, (estimator.components_, estimator.transform(kept)))


@every_estimator()
def test_result_of_transform_is_the_callers_own(fitted, counts):
    before = fitted.transform(counts)
    fitted.transform(counts)[:] = -1.0
    assert_same(before, fitted.transform(counts))


@every_estimator()
def test_attributes_made_at_access_are_the_callers_own(fitted):
    before = fitted.components_
    fitted.components_[:] = -1.0
    fitted.topic_word_distr_[:] = -1.0
    assert_same(before, fitted.components_)


# -- negative controls -----------------------------------------------------------------


class IgnoresRepeats(HDP):
    """Keeps the last of repeated entries, as a careless conversion would."""

    def fit(self, X, y=None):
        if sp.issparse(X):
            dense = np.zeros(X.shape)
            coo = X.tocoo()
            dense[coo.coords] = coo.data
            X = dense
        return super().fit(X)


class ComputesInFloat32(HDP):
    def fit(self, X, y=None):
        return super().fit((X / 3).astype(np.float32) if sp.issparse(X) else X / 3)


class SumsInPlace(HDP):
    def transform(self, X):
        X.sum_duplicates()
        return super().transform(X)


class LooksAtFlags(HDP):
    def transform(self, X):
        assert X.has_sorted_indices in (True, False)
        return super().transform(X)


class WritesData(HDP):
    def transform(self, X):
        X.data *= 1.0 + 1e-16
        X.data[0] += 1.0
        return super().transform(X)


def test_check_fails_where_repeated_entries_are_dropped(counts):
    X = _raw(_doubled(counts), "csr")
    with pytest.raises(AssertionError):
        check_same_answers(IgnoresRepeats(4, max_iter=2, random_state=0), counts, X)


def test_check_fails_where_a_container_loses_precision(counts):
    wrong = ComputesInFloat32(4, max_iter=2, random_state=0)
    with pytest.raises(AssertionError):
        check_same_answers(wrong, counts.toarray(), counts)


@pytest.mark.parametrize("wrong", [SumsInPlace, LooksAtFlags, WritesData])
def test_check_fails_where_the_matrix_of_the_caller_changes(wrong, counts):
    estimator = wrong(4, max_iter=1, random_state=0).fit(counts)
    with pytest.raises(AssertionError):
        check_leaves_matrix(estimator.transform, _raw(_doubled(counts), "csr"))


def test_description_of_a_matrix_is_a_copy(counts):
    before = _describe(counts)
    counts.data[0] += 1
    assert list(differences(before, _describe(counts)))
