"""What topic trees promise, whichever algorithm learns them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from checks.states import learned
from skbnp import GibbsNestedCRP, NestedCRP
from skbnp.datasets import make_tree

#: Each class, and a fit of a moment.
TREES = {
    "variational": NestedCRP(structure_moves=False, max_iter=1, tol=0, random_state=0),
    "gibbs": GibbsNestedCRP(max_iter=2, random_state=0),
}

each = pytest.mark.parametrize("crp", TREES.values(), ids=TREES)
each_prior = pytest.mark.parametrize("name", ["level_prior", "topic_word_prior"])


@pytest.fixture(scope="module")
def docs():
    return make_tree(40, random_state=2).data


def start(X):
    return GibbsNestedCRP(max_iter=2, random_state=0).fit(X)


@each
def test_start_survives_a_clone_when_it_is_frozen(crp, docs):
    crp = clone(crp).set_params(init=FrozenEstimator(start(docs)))
    search = GridSearchCV(crp, {"topic_word_prior": [0.05, 0.2]}, cv=2)
    assert np.isfinite(search.fit(docs).best_score_)


@each
def test_names_of_terms_of_a_start_do_not_matter(crp, docs):
    frame = pd.DataFrame(docs.toarray()).add_prefix("w")
    crp = clone(crp).set_params(init=start(frame), warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crp.fit(frame).fit(frame[:20])


@each
@each_prior
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ((1.0, 1.0), "one for each of max_depth=3 levels, got 2"),
        (np.ones(4), "one for each of max_depth=3 levels, got 4"),
        ([], "one for each of max_depth=3 levels, got 0"),
        ((1.0, 0.0, 1.0), "at each level"),
        ((1.0, -1.0, 1.0), "at each level"),
        ((1.0, np.nan, 1.0), "at each level"),
        ((1.0, np.inf, 1.0), "at each level"),
        ((1.0, "1", 1.0), "at each level"),
        ((1.0, None, 1.0), "at each level"),
        (np.ones((3, 3)), "at each level"),
        (1e-101, "at each level"),
        (1e11, "at each level"),
        (np.array(-1.0), "at each level"),
    ],
)
def test_priors_must_be_one_or_one_for_each_level(crp, name, value, says, docs):
    crp = clone(crp).set_params(**{name: value})
    for method in (crp.fit, crp.partial_fit):
        with pytest.raises(ValueError, match=f"{name} must .*{says}"):
            method(docs)
    assert learned(crp) == {}


@each
@each_prior
@pytest.mark.parametrize("value", [2, 2.0, [2, 2, 2], (2.0,) * 3, np.full(3, 2)])
def test_priors_may_be_numbers_or_sequences(crp, name, value, docs):
    crp = clone(crp).set_params(
        **{"init": start(docs), "learn_priors": False, name: value}
    )
    crp.fit(docs)
    np.testing.assert_array_equal(getattr(crp, f"{name}_"), np.broadcast_to(2.0, 3))
