"""Settings of moves that are the algorithms of the papers, as users meet them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

from checks.corpora import topic_counts
from checks.estimators import mean_field_hdp
from checks.lineages import check_lineage
from skbnp import DependentTrees, NestedCRP
from skbnp.estimators import EpochMoves, SplitMerge, TreeMoves

SETTINGS = {"SplitMerge": SplitMerge, "TreeMoves": TreeMoves, "EpochMoves": EpochMoves}
each_kind = pytest.mark.parametrize("kind", SETTINGS.values(), ids=SETTINGS)
ESTIMATORS = {
    "HDP": mean_field_hdp(
        6, split_merge=SplitMerge.paper(), max_iter=3, batch_size=20, random_state=0
    ),
    "NestedCRP": NestedCRP(
        structure_moves=TreeMoves.paper(),
        init="sequential",
        local_family="factorised",
        level_prior=2.0,
        topic_word_prior=0.1,
        max_iter=4,
        random_state=0,
    ),
    "DependentTrees": DependentTrees(
        structure_moves=EpochMoves.paper(),
        vmf_concentration=20.0,
        prior_concentration=10.0,
        past_weight=1.0,
        max_components=12,
        max_iter=4,
        random_state=0,
    ),
}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def X():
    return topic_counts(120, 20, n_topics=4)


@each_kind
def test_settings_print_as_the_code_that_makes_them(kind):
    name, paper = kind.__name__, kind.paper()
    assert repr(paper) == f"{name}.paper()"
    assert repr(kind()) == f"{name}()"
    field = {"SplitMerge": "max_splits", "TreeMoves": "max_tries"}
    changed = replace(paper, **{field.get(name, "max_births"): 7})
    for moves in (paper, kind(), changed):
        assert eval(repr(moves), SETTINGS) == moves
    assert "paper()" not in repr(changed)
    assert paper != kind()


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (SplitMerge, "max_splits", 2.5),
        (SplitMerge, "trial_passes", 0),
        (TreeMoves, "algorithm", "neutral"),
        (TreeMoves, "split", "yes"),
        (EpochMoves, "merge", "cosine"),
        (EpochMoves, "birth", 1),
        (EpochMoves, "birth_rows", 1),
    ],
)
def test_settings_are_checked_by_name(kind, name, value):
    with pytest.raises(ValueError, match=f"^{name} must be .*, got"):
        kind(**{name: value})


@each_estimator
def test_estimators_with_the_moves_of_a_paper_are_ordinary(name, X):
    """They print, are cloned, and give the same bits on any number of threads."""
    estimator = ESTIMATORS[name]
    assert ".paper()" in repr(estimator)
    one = clone(estimator).fit(X)
    two = clone(estimator).set_params(n_jobs=2).fit(X)
    assert_array_equal(one.components_, two.components_)
    check_lineage(one)
    assert np.isfinite(one.score(X))
    stream = clone(estimator).partial_fit(X[:2]).partial_fit(X[2:])
    assert np.isfinite(stream.score(X))
    assert clone(estimator).fit(sp.csr_array((5, 20))).n_components_ >= 1
