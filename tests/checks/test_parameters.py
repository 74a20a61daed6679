"""Parameters of a wrong type or outside their range are refused by name.

Classes declare what they take, and every learning method has scikit-learn compare it.
So each bad value is tried on one class, one for each parameter on each class, and each
method is seen to ask. Values of one parameter are one test, which names the one that
fails.
"""

from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from checks.estimators import (
    FEW,
    FIRST,
    LEARNING,
    OF_EACH_CLASS,
    every_estimator,
    every_kind,
    every_method,
    is_tree,
    is_variational,
    rows_of,
    size_name,
    still,
)
from checks.failures import of_case
from checks.states import assert_same, snapshot
from skbnp import GibbsHDP, GibbsNestedCRP, NestedCRP, StickBreakingHDP
from skbnp.estimators import SplitMerge

NAN, INF = float("nan"), float("inf")
_COUNT = [0, -1, 2.5, 3.0, NAN, INF, "3", None, [3], 1 + 0j]
_POSITIVE = [0, 0.0, -1e-300, -1.0, NAN, INF, -INF, "1", None, [1.0], 1j]
_NOT_NEGATIVE = [-1e-300, -1, NAN, INF, "1", None, [1.0]]
_NO_PAIR = [
    (1.0,),
    (1.0, 1.0, 1.0),
    (),
    (0.0, 1.0),
    (1.0, 0.0),
    (-1.0, 1.0),
    (1.0, NAN),
    (INF, 1.0),
    ("a", "b"),
    (1j, 1.0),
    (None, 1.0),
    [[1.0, 1.0]],
    1.0,
    "ab",
    None,
    {"shape": 1.0, "rate": 1.0},
]

#: Values that an estimator with the parameter must refuse.
BAD = {
    "n_components": _COUNT,
    "n_split_merge": _COUNT,
    "split_merge_sweeps": [-1, 1.5, "10", NAN],
    "split_merge_scans": [-1, 1.5, "10", NAN, None],
    "burn_in": [-1, 1.5, "10", NAN],
    "thin": _COUNT,
    "n_chains": _COUNT,
    "max_components": [c for c in _COUNT if c is not None],
    "max_doc_components": _COUNT,
    "min_gain": [-1e-300, 0.51, NAN, INF, "0.005", None, [0.0]],
    "variational_family": ["Collapsed", "mean-field", "", 1, None, True],
    "learning_method": ["Batch", "svi", "", 1, None, True],
    "doc_concentration": _POSITIVE,
    "corpus_concentration": _POSITIVE,
    "topic_word_prior": _POSITIVE,
    "max_depth": [*_COUNT, 256],
    "n_themes": [c for c in _COUNT if c is not None],
    "stop_prior": _NO_PAIR,
    "child_concentration": _POSITIVE,
    "stop_concentration": _POSITIVE,
    "vmf_concentration": [*_POSITIVE, "Auto", ""],
    "prior_concentration": [*_POSITIVE, "Auto", ""],
    "parent_weight": _NOT_NEGATIVE,
    "past_weight": _NOT_NEGATIVE,
    "window": _COUNT,
    "level_prior": [*_POSITIVE, [1.0, 1.0, 1.0, 1.0]],
    "child_concentration_prior": _NO_PAIR,
    "learn_priors": ["yes", "topics", None, 2, 0.5],
    "split_merge": ["yes", 1.5, {}],
    "burstiness": ["yes", "Auto", True, None, 1, 0.5],
    "structure_moves": ["yes", None, 1.5, {}, SplitMerge()],
    "local_family": ["mean-field", "", None, 1, True],
    "loading_variance": [*_POSITIVE, "Auto", ""],
    "sparse_output": ["yes", 2, None, 0.5],
    "corpus_concentration_prior": _NO_PAIR,
    "doc_concentration_prior": _NO_PAIR,
    "batch_size": _COUNT,
    "learning_offset": _NOT_NEGATIVE,
    "learning_decay": [0.0, 0.49, 1.01, -1, NAN, INF, "0.7", None],
    "total_samples": [0, -1, NAN, INF, "100", [100]],
    "max_iter": _COUNT,
    "tol": _NOT_NEGATIVE,
    "max_doc_update_iter": _COUNT,
    "mean_change_tol": _NOT_NEGATIVE,
    "warm_up": [-1, 0.5, 2.0, NAN, "1", None],
    "init": ["kmeans", "Docs", None, 0, np.ones((4, 24))],
    "n_jobs": [0, 1.5, "2", [1]],
    "random_state": [-1, 2**32, 0.5, "seed", np.random.default_rng(0)],
    "verbose": [-1, 1.5, "yes", None],
    "warm_start": ["yes", 2, None, 0.5],
}

#: Where None has a meaning.
NONE_IS_FINE = {
    "GibbsDependentTrees": ("n_components",),
    "GibbsHDP": ("n_components", "init"),
    "GibbsNestedCRP": ("init",),
}


def check_refuses_parameter(estimator, method, name, value, X):
    """Raise unless the method raises a ValueError that names the parameter.

    Where the constraint is declared it is scikit-learn's InvalidParameterError; pairs
    and numbers of jobs are our own check and joblib's.
    """
    estimator.set_params(**{name: value})
    with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
        getattr(estimator, method)(X)
    if not name.endswith("_prior") and not (name == "n_jobs" and value == 0):
        assert isinstance(caught.value, InvalidParameterError)


def check_asks(estimator, method, X):
    """Raise unless the method has all parameters compared with what they may be."""
    asked = AssertionError("asked")
    with (
        mock.patch.object(type(estimator), "_validate_params", side_effect=asked),
        pytest.raises(AssertionError) as caught,
    ):
        getattr(estimator, method)(X)
    assert caught.value is asked


def bad_values(name, estimator):
    """Values of a parameter that the estimator must refuse."""
    fine = NONE_IS_FINE.get(type(estimator).__name__, ())
    return [v for v in BAD[name] if v is not None or name not in fine]


def each_value(cases, daily=FIRST):
    """Parametrise over triples of an estimator, a parameter and a value."""
    return pytest.mark.parametrize(
        ("estimator", "name", "value"),
        [
            pytest.param(
                e,
                name,
                value,
                id=f"{label}-{name}-{str(value)[:16]}",
                marks=[] if label in daily else [pytest.mark.weekly],
            )
            for label, e, name, value in cases
        ],
        indirect=["estimator"],
    )


def first_with(name, value):
    """Return the first estimator that has the parameter and refuses the value."""
    return next(
        estimator
        for estimator in FIRST.values()
        if name in estimator.get_params()
        and any(value is other for other in bad_values(name, estimator))
    )


@every_method(*LEARNING, among=FIRST)
def test_every_learning_method_asks(estimator, method, rows):
    check_asks(estimator, method, rows)
    assert not estimator.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", BAD)
def test_bad_parameter_is_refused_by_name(name, counts):
    for value in BAD[name]:
        estimator = clone(first_with(name, value))
        with of_case(name, value):
            rows = rows_of(estimator, counts)
            check_refuses_parameter(estimator, "fit", name, value, rows)


@every_estimator(among=FIRST, daily=FIRST)
def test_every_kind_refuses_a_bad_parameter(estimator, rows):
    """A bad value of each parameter is refused, and nothing is set."""
    good, before = estimator.get_params(), snapshot(estimator)
    for name in estimator.get_params():
        value = bad_values(name, estimator)[0]
        with of_case(name, value):
            check_refuses_parameter(estimator, "fit", name, value, rows)
            assert_same(before, vars(estimator.set_params(**{name: good[name]})))


@every_kind()
def test_table_of_bad_values_covers_every_parameter(estimator):
    assert estimator.get_params().keys() <= BAD.keys()


#: The ends of what is legal, and other types of numbers.
FINE = [
    ("n_components", np.int64(3)),
    ("doc_concentration", np.float32(0.5)),
    ("corpus_concentration_prior", [2, 1]),
    ("learn_priors", True),
    ("learning_decay", 0.5),
    ("total_samples", 1e6),
    ("n_jobs", -1),
    ("random_state", np.random.RandomState(0)),
    ("random_state", None),
    ("max_doc_components", 1),
    ("max_components", None),
    ("n_components", None),
    ("burn_in", None),
    ("split_merge_sweeps", 0),
    ("max_depth", 1),
    ("child_concentration", 1e-100),
    ("level_prior", 1e-100),
    ("topic_word_prior", 1e-100),
    ("loading_variance", np.float32(1.0)),
    ("sparse_output", np.False_),
]


#: What one place of the code uses, whatever the model.
SAME_IN_ALL = (
    "learning_decay",
    "learning_offset",
    "total_samples",
    "n_jobs",
    "random_state",
)


@each_value(
    [
        (label, e, name, value)
        for label, e in OF_EACH_CLASS.items()
        for name, value in FINE
        if name in e.get_params()
        if value is not None or name != size_name(e) or not is_variational(e)
        if label == "HDP-online" or name not in SAME_IN_ALL
    ],
    daily=FEW,
)
def test_parameter_on_the_border_of_its_range_is_accepted(estimator, name, value, rows):
    estimator = still(estimator) if is_tree(estimator) else estimator
    distr = estimator.set_params(**{name: value}).fit(rows).transform(rows)
    assert np.isfinite(distr).all()


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (GibbsHDP, "n_components", 2**62),
        (GibbsHDP, "n_chains", 10**9),
        (GibbsNestedCRP, "max_depth", 255),
        (NestedCRP, "max_depth", 255),
    ],
)
def test_more_than_a_fit_could_do_is_refused(kind, name, value, counts):
    with pytest.raises(InvalidParameterError, match=f"'{name}' .*range"):
        kind(**{name: value}).fit(counts)


def test_chunks_keep_the_truncation_of_the_first(counts):
    hdp = StickBreakingHDP(5, random_state=0).partial_fit(counts)
    with pytest.raises(ValueError, match=r"max_components=7 in partial_fit, but .* 5"):
        hdp.set_params(max_components=7).partial_fit(counts)
    assert hdp.n_iter_ == 1
    assert hdp.set_params(max_components=5).partial_fit(counts).n_iter_ == 2
