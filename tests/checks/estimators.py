"""The public estimators, small and fast, and the marks that run a check on each."""

from inspect import isfunction, signature

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import get_tags

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
from skbnp.estimators._variational import VariationalEstimator
from skbnp.utils import validation

#: Weights are compared there with copies in another order of rows, from which starts
#: are drawn: it is another fit. In the same order `checks` compare them bit by bit.
OTHER_ORDER = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}


def mean_field_hdp(*args, **changes):
    """HDP of the variational family that has a bound, moves and a warm-up."""
    return HDP(*args, variational_family="mean_field", **changes)


_SMALL = {
    "batch_size": 16,
    "max_iter": 3,
    "warm_up": 1,
    "tol": 0.0,
    "random_state": 0,
}

# So that a longer fit begins as a shorter one.
_SAMPLER = {"max_iter": 3, "burn_in": 0, "split_merge_sweeps": 2, "random_state": 0}

# A prior for whatever number of levels.
_TREE_SAMPLER = {
    "level_prior": 5.0,
    "init": "sequential",
    **{name: value for name, value in _SAMPLER.items() if "split" not in name},
}

_ROW_SAMPLER = {"max_iter": 3, "burn_in": 0, "random_state": 0}

_TREE = {
    "level_prior": 5.0,
    "learn_priors": False,
    "topic_word_prior": 0.2,
    "init": "sequential",
    "structure_moves": TreeMoves(max_tries=1, max_rounds=1),
    **{name: value for name, value in _SMALL.items() if name != "warm_up"},
}

_STILL = {name: value for name, value in _SMALL.items() if name != "warm_up"}

_STILL_TREE = _TREE | {"structure_moves": False}

#: A new estimator joins the checks here. Each loop of learning and each memory of a
#: class is among them, not each with and without moves: `still` ends these.
INSTANCES = {
    "HDP-online": HDP(4, learning_method="online", **_SMALL),
    "HDP-collapsed-memoized": HDP(4, learning_method="memoized", **_SMALL),
    "HDP-memoized": mean_field_hdp(4, learning_method="memoized", **_SMALL),
    "HDP-mean-field-online": mean_field_hdp(4, **_SMALL),
    "HDP-batch": mean_field_hdp(
        4, learning_method="batch", split_merge=False, **_SMALL
    ),
    "StickBreakingHDP-online": StickBreakingHDP(4, 3, **_SMALL),
    "StickBreakingHDP-batch": StickBreakingHDP(4, 3, learning_method="batch", **_SMALL),
    "GibbsHDP": GibbsHDP(4, thin=1, **_SAMPLER),
    "GibbsHDP-chains": GibbsHDP(
        None, thin=2, n_chains=3, learn_priors=True, **_SAMPLER
    ),
    "GibbsNestedCRP": GibbsNestedCRP(thin=1, **_TREE_SAMPLER),
    "GibbsNestedCRP-chains": GibbsNestedCRP(
        2, thin=2, n_chains=3, learn_priors=True, **_TREE_SAMPLER
    ),
    "NestedCRP-batch": NestedCRP(**_STILL_TREE),
    "NestedCRP-online": NestedCRP(
        learning_method="online", local_family="factorised", **_STILL_TREE
    ),
    "NestedCRP-memoized-moves": NestedCRP(learning_method="memoized", **_TREE),
    "NestedCRP-online-moves": NestedCRP(
        learning_method="online", local_family="factorised", **_TREE
    ),
    "NestedHDP-online": NestedHDP(max_components=8, **_STILL),
    "NestedHDP-memoized": NestedHDP(
        3, max_components=8, learning_method="memoized", **_STILL
    ),
    "NestedHDP-batch": NestedHDP(
        2, max_components=5, learning_method="batch", **_STILL
    ),
    "HierarchicalComponentAnalysis": HierarchicalComponentAnalysis(
        structure_moves=False, **_STILL
    ),
    "HierarchicalComponentAnalysis-moves": HierarchicalComponentAnalysis(
        structure_moves=TreeMoves(max_tries=1, max_rounds=1), **_STILL
    ),
    "DependentTrees": DependentTrees(
        max_components=5,
        structure_moves=EpochMoves(max_births=1, birth_rounds=2),
        batch_size=30,
        max_iter=3,
        tol=0.0,
        random_state=0,
    ),
    "GibbsDependentTrees": GibbsDependentTrees(n_split_merge=2, thin=1, **_ROW_SAMPLER),
    "GibbsDependentTrees-chains": GibbsDependentTrees(
        n_split_merge=2, thin=2, n_chains=3, **_ROW_SAMPLER
    ),
}

#: Those that every check sees each day; the others are marked as long. A sampler, and
#: one for each sort: topics, trees of topics, trees of directions, trees over epochs.
DAILY = (
    "HDP-online",
    "GibbsHDP",
    "NestedCRP-batch",
    "HierarchicalComponentAnalysis",
    "DependentTrees",
)


def _kind(estimator):
    """Class and family of posteriors; all else is how it learns."""
    families = ("variational_family", "local_family")
    return type(estimator), *(getattr(estimator, name, None) for name in families)


#: The first instance of each kind, for what does not depend on how it learns.
FIRST = {}
for _name, _estimator in INSTANCES.items():
    if _kind(_estimator) not in map(_kind, FIRST.values()):
        FIRST[_name] = _estimator

#: The first instance of each class, for what its posterior does not change.
OF_EACH_CLASS = {}
for _name, _estimator in FIRST.items():
    if type(_estimator) not in map(type, OF_EACH_CLASS.values()):
        OF_EACH_CLASS[_name] = _estimator

#: The first of those that take rows of a sort: counts or signed, sparse or dense alone.
DOORS = {}
for _name, _estimator in FIRST.items():
    _tags = get_tags(_estimator).input_tags
    if (_tags.positive_only, _tags.sparse) not in [
        (tags.positive_only, tags.sparse)
        for tags in (get_tags(other).input_tags for other in DOORS.values())
    ]:
        DOORS[_name] = _estimator

#: Those that every check of classes sees each day: of counts in minibatches, of signed
#: rows, and of samplers.
FEW = ("HDP-online", "DependentTrees", "GibbsHDP")

#: What learns from data.
LEARNING = ("fit", "partial_fit")

#: What reads a fitted estimator and data; an estimator has some of them.
EVALUATIONS = (
    "transform",
    "score",
    "score_samples",
    "perplexity",
    "elbo",
    "elbo_terms",
    "apply",
    "decision_path",
    "doc_paths",
    "doc_levels",
)


def readers(estimator):
    """Names of all public methods that are given rows of data."""
    kind = type(estimator)
    return [
        name
        for name in dir(kind)
        if not name.startswith("_")
        and name != "inverse_transform"  # is given coordinates
        and isfunction(method := getattr(kind, name))
        and "X" in signature(method).parameters
    ]


def takes_counts_only(estimator):
    """Whether signed rows are illegal."""
    return get_tags(estimator).input_tags.positive_only


def takes_sparse(estimator):
    """Whether rows may be sparse."""
    return get_tags(estimator).input_tags.sparse


def door_of(estimator):
    """Return the function that checks rows and converts them, for all its methods."""
    if takes_counts_only(estimator):
        return validation.check_documents
    sparse = takes_sparse(estimator)
    return validation.check_directions if sparse else validation.check_rows


def dense(rows):
    """Rows as an ndarray."""
    return rows.toarray() if sp.issparse(rows) else rows


def stacked(*parts):
    """Rows below each other, in the container of the first."""
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    return np.vstack([dense(part) for part in parts])


def takes_warm_start(estimator):
    """Whether `fit` may go on from what was learned before."""
    return "warm_start" in estimator.get_params()


def learns_by_minibatch(estimator):
    """Whether each minibatch of a chunk is an update of its own."""
    return "learning_offset" in estimator.get_params()


def needs_two_columns(estimator):
    """Whether rows are directions, of which one column has none."""
    return "vmf_concentration" in estimator.get_params()


def gives_proportions(estimator):
    """Whether rows of `transform` sum to one; coordinates can be inverted."""
    return not hasattr(estimator, "inverse_transform")


def rows_of(estimator, counts):
    """Return counts as the estimator takes rows: dense, and signed, where it says so.

    Signs differ by column, so that rows stay as close to each other as they were.
    """
    if not takes_counts_only(estimator):
        counts = counts @ sp.diags_array((-1.0) ** np.arange(counts.shape[1]))
        counts = sp.csr_array(counts)
    return counts if takes_sparse(estimator) else counts.toarray()


def finds_start(estimator):
    """Whether a fit begins with a task of its own, in which a start is found."""
    if not is_variational(estimator):
        return True
    return type(estimator)._find_start is not VariationalEstimator._find_start


def is_tree(estimator):
    """Whether its topics are nodes of a tree."""
    return hasattr(estimator, "max_depth") or hasattr(estimator, "decision_path")


def is_variational(estimator):
    """Whether it has a variational posterior; the others are samplers."""
    return isinstance(estimator, VariationalEstimator)


def has_bound(estimator):
    """Whether it can bound the evidence of documents."""
    return hasattr(estimator, "elbo")


def criterion(estimator):
    """Name of what its trace follows; with an underscore, of the attribute."""
    if not is_variational(estimator):
        return "log_joint"
    family = estimator.get_params().get("variational_family")
    is_bound = has_bound(estimator) and family != "collapsed"
    return "elbo" if is_bound else "log_predictive"


def evaluate(estimator, X):
    """All that it says about documents."""
    names = (name for name in EVALUATIONS if hasattr(estimator, name))
    return {name: getattr(estimator, name)(X) for name in names}


def size_name(estimator):
    """Name of the parameter that says how many topics, or levels, a fit starts from."""
    names = estimator.get_params()
    return next(
        n for n in ("max_depth", "n_components", "max_components") if n in names
    )


def fresh(estimator, **changes):
    """Clone with other parameters, as far as the estimator has them.

    `n_components` is the number of topics, whatever its name; trees have none.
    """
    known = estimator.get_params()
    if "n_components" in changes and not is_tree(estimator):
        changes[size_name(estimator)] = changes.pop("n_components")
    return clone(estimator).set_params(
        **{name: value for name, value in changes.items() if name in known}
    )


def still(estimator):
    """Set to learn without moves: each visit is an update, and K stays as it is."""
    for name in ("split_merge", "structure_moves"):
        if name in estimator.get_params():
            estimator.set_params(**{name: False})
    return estimator


#: Parametrise a test over the variational families of an HDP.
each_family = pytest.mark.parametrize("family", ["collapsed", "mean_field"])


def instance(name, *values, daily=DAILY):
    """Parameters of a test of an instance of the list: it, and what is done to it."""
    label = "-".join([name, *map(str, values[1:])])
    marks = [] if name in daily else [pytest.mark.weekly]
    return pytest.param(*values, id=label, marks=marks)


def every_estimator(
    wanted=lambda estimator: True, among=INSTANCES, daily=DAILY, indirect=True
):
    """Parametrise a test over the fixture `estimator`, an unfitted clone."""
    return pytest.mark.parametrize(
        "estimator",
        [instance(name, e, daily=daily) for name, e in among.items() if wanted(e)],
        indirect=indirect,
    )


def every_kind(wanted=lambda estimator: True, indirect=True):
    """Parametrise a test over one estimator of each class, few of them each day."""
    return every_estimator(wanted, OF_EACH_CLASS, FEW, indirect)


#: Parametrise a test over names of one of each class, few of them each day.
each_class = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in DAILY else [pytest.mark.weekly])
        for name in OF_EACH_CLASS
    ],
)


def every_count_model(among=FIRST):
    """Parametrise a test over the estimators of counts, one of each kind."""
    return every_estimator(takes_counts_only, among)


def every_method(*methods, wanted=lambda estimator: True, among=INSTANCES, daily=DAILY):
    """Parametrise a test over `estimator` and those of the methods that it has."""
    return pytest.mark.parametrize(
        ("estimator", "method"),
        [
            instance(name, e, method, daily=daily)
            for name, e in among.items()
            if wanted(e)
            for method in methods
            if hasattr(e, method)
        ],
        indirect=["estimator"],
    )
