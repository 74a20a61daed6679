"""A topic has one number: in rows, columns, accounts, figures and edits."""

import copy
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skbnp import HDP, GibbsHDP, GibbsNestedCRP, NestedCRP, StickBreakingHDP
from skbnp.datasets import make_bars
from skbnp.inspection import LineageDisplay, TopicTermsDisplay, summary
from skbnp.utils.ordering import rows_by_id

MODELS = {
    "collapsed": HDP(8, random_state=0),
    "mean-field": HDP(
        3, variational_family="mean_field", batch_size=40, warm_up=0, random_state=0
    ),
    "sticks": StickBreakingHDP(12, max_iter=3, random_state=0),
    "sampler": GibbsHDP(max_iter=20, random_state=1),
}
TREES = {
    "tree": NestedCRP(init="sequential", max_iter=5, random_state=0),
    "sampled tree": GibbsNestedCRP(max_iter=8, thin=2, random_state=0),
}


@pytest.fixture(scope="module")
def X():
    return make_bars(120, side=4, random_state=0).data.toarray()


@pytest.fixture(scope="module")
def fits(X):
    return {name: model.fit(X) for name, model in {**MODELS, **TREES}.items()}


@pytest.fixture(params=list(MODELS))
def hdp(request, fits):
    return copy.deepcopy(fits[request.param])


@pytest.fixture(params=list(TREES))
def crp(request, fits):
    return fits[request.param]


def is_unambiguous(ids):
    rows = np.arange(len(ids))
    return (ids[np.isin(rows, ids)] == rows[np.isin(rows, ids)]).all()


def test_the_check_of_rows_tells_a_row_with_another_topics_number():
    assert is_unambiguous(np.array([0, 7, 2]))
    assert not is_unambiguous(np.array([0, 2, 7]))


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_rows_show_each_topic_once_whatever_the_order_of_ids(n, seed):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(2 * n)[:n]
    rows = rows_by_id(ids)
    assert_array_equal(np.sort(rows), np.arange(n))
    assert is_unambiguous(ids[rows])
    shuffle = rng.permutation(n)
    assert_array_equal(ids[shuffle][rows_by_id(ids[shuffle])], ids[rows])


@pytest.mark.long
def test_no_row_number_is_the_id_of_another_topic(hdp, X):
    assert is_unambiguous(hdp.component_ids_)
    one, two, three = hdp.component_ids_[[1, 0, 2]].tolist()
    assert is_unambiguous(hdp.merge_components([one, two]).component_ids_)
    assert is_unambiguous(hdp.drop_components([three]).component_ids_)
    assert is_unambiguous(hdp.partial_fit(X[:40]).component_ids_)


@pytest.mark.long
def test_an_edit_is_of_the_topic_that_figures_show_under_that_number(hdp):
    numbers = TopicTermsDisplay.from_estimator(hdp, n_components=2).labels
    named = dict(zip(hdp.get_feature_names_out(), hdp.components_, strict=True))
    prefix = type(hdp).__name__.lower()
    first, second = (named[f"{prefix}{number}"] for number in numbers)
    prior = hdp.topic_word_prior_
    hdp.merge_components(numbers)
    names = hdp.get_feature_names_out().tolist()
    assert f"{prefix}{numbers[1]}" not in names
    merged = hdp.components_[names.index(f"{prefix}{numbers[0]}")]
    assert_allclose(merged, first + second - prior, rtol=1e-9)


def numbers_in(account):
    """Numbers of the topics in a table; lines that go on have none."""
    table = account.split("terms\n")[-1]
    return [int(number) for number in re.findall(r"^ *(\d+) +\d+\.\d %", table, re.M)]


def test_account_and_figures_show_the_number_of_each_topic(hdp):
    heaviest = np.argsort(-hdp.topic_weights_, kind="stable")[:3]
    numbers = hdp.component_ids_[heaviest].tolist()
    assert numbers_in(summary(hdp, n_components=3))[:3] == numbers
    display = TopicTermsDisplay.from_estimator(hdp, n_components=3)
    assert display.labels.tolist() == numbers
    lineage = LineageDisplay.from_estimator(hdp, ids=numbers)
    assert set(numbers) <= set(lineage.ids_)


def test_columns_of_transform_carry_the_numbers(hdp, X):
    table = hdp.set_output(transform="pandas").transform(X)
    prefix = type(hdp).__name__.lower()
    assert list(table) == [f"{prefix}{number}" for number in hdp.component_ids_]
    # A document of the heaviest topic's words is put down to its column.
    heaviest = hdp.topic_weights_.argmax()
    words = np.round(200 * hdp.topic_word_distr_[[heaviest]])
    assert hdp.transform(words).to_numpy().argmax() == heaviest


def test_nodes_go_by_their_row_everywhere(crp, X):
    prefix = type(crp).__name__.lower()
    rows = range(crp.n_components_)
    assert list(crp.get_feature_names_out()) == [f"{prefix}{row}" for row in rows]
    heaviest = np.argsort(-crp.topic_weights_, kind="stable")[:2]
    text = summary(crp, n_components=2)
    assert " node   weight  terms" in text
    assert numbers_in(text)[:2] == heaviest.tolist()
    assert TopicTermsDisplay.from_estimator(crp, n_components=2).labels.tolist() == (
        heaviest.tolist()
    )
