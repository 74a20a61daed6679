"""Edits of a fitted HDP, and the log that tells where each topic came from."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from skbnp import HDP
from skbnp.datasets import make_bars


@pytest.fixture(scope="module")
def X():
    return sp.csr_array(make_bars(200, side=5, random_state=0).data)


@pytest.fixture(params=["collapsed", "mean_field"])
def hdp(request, X):
    return HDP(8, variational_family=request.param, max_iter=3, random_state=0).fit(X)


def prior_free(hdp):
    return hdp.components_ - hdp.topic_word_prior_


def test_a_fit_names_its_topics_and_their_start(hdp):
    assert_array_equal(hdp.component_ids_, np.arange(8))
    [(step, kind, parents, children)] = hdp.lineage_
    assert (step, kind, parents) == (0, "init", ())
    assert sorted(children) == list(range(8))
    assert hdp.lineage_[0].kind == "init"


def test_merge_adds_counts_and_weights_to_the_first(hdp):
    counts, weights = prior_free(hdp), hdp.topic_weights_
    assert hdp.merge_components([5, 1, 7]) is hdp
    assert_array_equal(hdp.component_ids_, [0, 6, 2, 3, 4, 5])
    assert hdp.n_components_ == 6
    assert_allclose(prior_free(hdp)[5], counts[[5, 1, 7]].sum(axis=0), rtol=1e-9)
    assert_allclose(prior_free(hdp)[:5], counts[[0, 6, 2, 3, 4]], rtol=1e-9)
    assert_allclose(hdp.topic_weights_[5], weights[[5, 1, 7]].sum())


def test_drop_forgets_counts_and_frees_weights(hdp):
    counts, weights = prior_free(hdp), hdp.topic_weights_
    hdp.drop_components(np.array([3, 0]))
    kept = [6, 1, 2, 7, 4, 5]
    assert_array_equal(hdp.component_ids_, kept)
    assert_allclose(prior_free(hdp), counts[kept], rtol=1e-9)
    assert_allclose(hdp.topic_weights_, weights[kept])
    assert [entry[1:] for entry in hdp.lineage_[1:]] == [
        ("prune", (3,), ()),
        ("prune", (0,), ()),
    ]


@pytest.mark.parametrize(
    ("method", "ids"),
    [
        ("merge_components", [1]),
        ("merge_components", [1, 1]),
        ("merge_components", [1, 8]),
        ("merge_components", [1.0, 2.0]),
        ("merge_components", [[1, 2]]),
        ("merge_components", "12"),
        ("drop_components", []),
        ("drop_components", [-1]),
        ("drop_components", range(8)),
        ("drop_components", None),
    ],
)
def test_ids_that_name_no_edit_are_refused_and_change_nothing(hdp, method, ids):
    before = pickle.dumps(hdp)
    with pytest.raises(ValueError, match="ids must"):
        getattr(hdp, method)(ids)
    assert pickle.dumps(hdp) == before
