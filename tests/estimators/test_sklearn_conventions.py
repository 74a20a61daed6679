"""Every public estimator is a good citizen of scikit-learn."""

import warnings
from inspect import signature
from operator import methodcaller
from unittest import SkipTest

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, SkipTestWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags

from checks.estimators import (
    FEW,
    FIRST,
    LEARNING,
    OTHER_ORDER,
    every_estimator,
    every_kind,
    fresh,
    is_tree,
    is_variational,
    mean_field_hdp,
    size_name,
    still,
    takes_counts_only,
    takes_sparse,
)
from checks.long import daily
from skbnp import (
    HDP,
    DependentTrees,
    GibbsDependentTrees,
    GibbsHDP,
    GibbsNestedCRP,
    HierarchicalComponentAnalysis,
    NestedCRP,
    NestedHDP,
    StickBreakingHDP,
)
from skbnp.estimators import EpochMoves, TreeMoves

pytestmark = pytest.mark.usefixtures("one_split")

#: Trees that are soon there.
_TREE = {
    "max_iter": 2,
    "init": "sequential",
    "structure_moves": TreeMoves(max_tries=1, max_rounds=1),
}

#: Of each kind, each day of the first three. `checks` have what depends on how else an
#: estimator learns: of states, copies, order of rows and repeated fits.
KINDS = {
    "HDP": HDP(max_iter=10),
    "GibbsHDP": GibbsHDP(max_iter=6),
    "HierarchicalComponentAnalysis": HierarchicalComponentAnalysis(
        max_iter=2, structure_moves=False
    ),
    "HDP-mean-field": mean_field_hdp(max_iter=5),
    "StickBreakingHDP": StickBreakingHDP(20, 5, max_iter=5),
    "GibbsNestedCRP": GibbsNestedCRP(max_iter=4, init="sequential"),
    "NestedCRP": NestedCRP(**(_TREE | {"structure_moves": False})),
    "NestedHDP": NestedHDP(max_components=10, max_iter=2),
    "DependentTrees": DependentTrees(
        max_iter=2, structure_moves=EpochMoves(max_births=1, birth_rounds=2)
    ),
    "GibbsDependentTrees": GibbsDependentTrees(max_iter=3),
}
#: The first of each class, for what does not depend on how it learns.
OF_EACH_CLASS = {}
for _estimator in KINDS.values():
    OF_EACH_CLASS.setdefault(type(_estimator).__name__, _estimator)

#: Checks of scikit-learn's own suite that `check_estimator` does not run.
FURTHER = [
    "check_param_validation",
    "check_dataframe_column_names_consistency",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_get_feature_names_out_error",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_inplace_ensure_writeable",
    "check_estimators_partial_fit_n_features",
]

#: Of counts, of dense rows, of either, and of samplers.
OF_EACH_DOOR = ["HDP", "HierarchicalComponentAnalysis", "DependentTrees", "GibbsHDP"]

each = every_kind(indirect=False)


def reader(estimator):
    """Steps that make rows, as the estimator takes them, of texts."""
    steps = [("words", CountVectorizer())]
    if not takes_sparse(estimator):
        to_dense = methodcaller("toarray")
        steps.append(("dense", FunctionTransformer(to_dense, accept_sparse=True)))
    return Pipeline(steps)


def pipeline(estimator):
    """Pipeline that learns from texts."""
    return Pipeline([("reader", reader(estimator)), ("topics", clone(estimator))])


@pytest.fixture
def text():
    """Two subjects, a few words in common, one document without words."""
    rng = np.random.default_rng(0)
    subjects = ["troll dragon giant kraken gorgon", "apple cherry quince medlar plum"]
    documents = [
        " ".join(rng.choice([*subjects[i % 2].split(), "the", "and"], size=15))
        for i in range(40)
    ]
    return [*documents, ""]


# -- scikit-learn's checks -------------------------------------------------------------


def run_check(check, *arguments):
    """Run a check of scikit-learn; it fails where it would be skipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("error", SkipTestWarning)
        try:
            check(*arguments)
        except SkipTest as skipped:
            pytest.fail(f"skipped: {skipped}")


def checks_of(estimator):
    """Pairs of a name and a check of scikit-learn."""
    return [
        (check.func.__name__, check)
        for _, check in estimator_checks.estimator_checks_generator(estimator)
        if check.func.__name__ not in OTHER_ORDER
    ]


@pytest.mark.parametrize("label", daily(3, KINDS))
def test_scikit_learn_checks(label):
    for _, check in checks_of(KINDS[label]):
        run_check(check, KINDS[label])


@pytest.mark.weekly
@pytest.mark.usefixtures("all_splits")
def test_scikit_learn_checks_of_the_defaults():
    """As users have them: all splits judge numbers of topics."""
    for _, check in checks_of(HDP()):
        run_check(check, HDP())


@pytest.mark.parametrize("name", FURTHER)
@pytest.mark.parametrize("kind", daily(1, OF_EACH_DOOR))
def test_further_scikit_learn_check(kind, name):
    check, estimator = getattr(estimator_checks, name), OF_EACH_CLASS[kind]
    if name == "check_dataframe_column_names_consistency" and extends(estimator):
        estimator = without_partial_fit(estimator)
    run_check(check, kind, still(clone(estimator)))


def extends(estimator):
    """Whether new columns of frames extend topics, in `test_growing_vocabulary`."""
    growing = HDP, StickBreakingHDP, GibbsHDP, NestedCRP, GibbsNestedCRP
    return isinstance(estimator, growing)


def without_partial_fit(estimator):
    """Return one whose other methods have their strict errors."""

    def missing(self):
        raise AttributeError("partial_fit")

    kind = type(estimator)
    fixed = type(kind.__name__, (kind,), {"partial_fit": property(missing)})
    return fixed(**estimator.get_params(deep=False))


@each
def test_tags_say_what_the_estimator_takes(estimator):
    tags = get_tags(estimator)
    assert not tags.non_deterministic
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]


# -- model selection -------------------------------------------------------------------


def grid_search(estimator, cv, n_jobs=None):
    grid = {f"topics__{size_name(estimator)}": [1, 4]}
    if takes_counts_only(estimator):
        grid["topics__topic_word_prior"] = [0.01, 5.0]
    return GridSearchCV(pipeline(estimator), grid, cv=cv, n_jobs=n_jobs)


@every_estimator(
    among={name: FIRST[name] for name in (*FEW, "NestedCRP-batch")},
    daily=["HDP-online"],
    indirect=False,
)
def test_grid_search_over_raw_text_selects_by_held_out_score(estimator, text):
    cv = KFold(3, shuffle=True, random_state=0)
    estimator = fresh(estimator, max_iter=8)
    estimator = still(estimator) if is_tree(estimator) else estimator
    with joblib.parallel_config("threading"):  # which have the setting of `conftest`
        search = grid_search(estimator, cv, n_jobs=2).fit(text)
    text = np.array(text, dtype=object)
    by_hand = [
        np.mean(
            [
                clone(search.estimator)
                .set_params(**params)
                .fit(text[train])
                .score(text[test])
                for train, test in cv.split(text)
            ]
        )
        for params in search.cv_results_["params"]
    ]
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_score_ == max(by_hand)
    if not (is_variational(estimator) and takes_counts_only(estimator)):
        return  # a sampler finds from one topic as many as from four
    # Two subjects cannot share one topic, and a prior of 5 blurs topics of 40 texts.
    assert search.best_params_ == {
        f"topics__{size_name(estimator)}": 4,
        "topics__topic_word_prior": 0.01,
    }


# -- output ----------------------------------------------------------------------------


@every_kind(takes_counts_only, indirect=False)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_output_has_the_shares_of_topics_with_tokens(estimator, dtype, text):
    X = reader(estimator).fit_transform(text).astype(dtype)
    estimator = fresh(estimator, n_components=4).fit(X)
    dense = estimator.transform(X)
    sparse = estimator.set_params(sparse_output=True).transform(X)
    assert isinstance(sparse, sp.csr_array)
    assert sparse.dtype == dense.dtype == dtype
    assert sparse.has_sorted_indices
    result, is_stored = sparse.toarray(), np.zeros(dense.shape, dtype=bool)
    is_stored[sparse.nonzero()] = True
    np.testing.assert_allclose(result[is_stored], dense[is_stored], rtol=1e-6)
    prior = np.broadcast_to(dense[-1], dense.shape)  # shares of the row without tokens
    assert (dense <= prior + 1e-6)[~is_stored].all()
    np.testing.assert_allclose(result[-1], dense[-1], rtol=1e-6)


@pytest.mark.parametrize("kind", map(type, OF_EACH_CLASS.values()))
def test_outputs_of_all_classes_are_made_by_scikit_learn(kind):
    for name in ("set_output", "_repr_html_", "get_metadata_routing"):
        owner = next(base for base in kind.__mro__ if name in vars(base))
        assert owner.__module__.startswith("sklearn."), name
    assert hasattr(kind.transform, "__wrapped__")  # by `set_output`


# -- metadata --------------------------------------------------------------------------


@each
def test_requests_for_metadata_are_those_of_parameters(estimator):
    """`sample_weight`, `epochs` and `groups` of what has them, `repeats` of scores."""
    requests = clone(estimator).get_metadata_routing()
    for method in LEARNING:
        parameters = signature(getattr(estimator, method)).parameters
        wanted = {"sample_weight", "epochs", "groups"} & parameters.keys()
        assert set(getattr(requests, method).requests) == wanted
        assert "sample_weight" in wanted
    has_repeats = "repeats" in signature(estimator.score).parameters
    assert ("repeats" in requests.score.requests) == has_repeats
