"""A topic has one number: in rows, columns, accounts, figures and edits."""

import copy
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from checks.lineages import replay
from skbnp import (
    HDP,
    DependentTrees,
    GibbsDependentTrees,
    GibbsHDP,
    GibbsNestedCRP,
    NestedCRP,
    StickBreakingHDP,
)
from skbnp.callbacks import TopicTermsMonitor
from skbnp.datasets import make_bars, make_dependent_trees
from skbnp.inspection import (
    EpochTreeDisplay,
    LineageDisplay,
    TopicTermsDisplay,
    TopicTreeDisplay,
    set_topic_names,
    summary,
    top_terms,
    topics_over_time,
    topics_to_frame,
)
from skbnp.utils.arrays import rows_by_id

MODELS = {
    "collapsed": HDP(8, max_iter=30, random_state=0),
    "mean-field": HDP(
        3,
        variational_family="mean_field",
        batch_size=40,
        warm_up=0,
        max_iter=30,
        random_state=0,
    ),
    "sticks": StickBreakingHDP(12, max_iter=3, random_state=0),
    "sampler": GibbsHDP(max_iter=20, random_state=1),
}
TREES = {
    "tree": NestedCRP(init="sequential", max_iter=5, random_state=0),
    "sampled tree": GibbsNestedCRP(
        init="sequential", max_iter=8, thin=2, random_state=0
    ),
}


@pytest.fixture(scope="module")
def X():
    return make_bars(80, side=4, random_state=0).data.toarray()


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


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_rows_show_each_topic_once_whatever_the_order_of_ids(n, seed):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(2 * n)[:n]
    rows = rows_by_id(ids)
    assert_array_equal(np.sort(rows), np.arange(n))
    assert is_unambiguous(ids[rows])
    shuffle = rng.permutation(n)
    assert_array_equal(ids[shuffle][rows_by_id(ids[shuffle])], ids[rows])


def numbers_in(account):
    """Numbers of the topics in a table; lines that go on have none."""
    table = account.split("terms\n")[-1]
    return [int(number) for number in re.findall(r"^ *(\d+) +\d+\.\d %", table, re.M)]


def test_account_and_figures_show_the_number_of_each_topic(hdp):
    numbers = [0, 1, 2]  # of the heaviest
    shown = numbers_in(summary(hdp, n_components=3))[:3]
    assert sorted(shown) == numbers
    display = TopicTermsDisplay.from_estimator(hdp, n_components=3)
    assert display.labels.tolist() == shown
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
    assert sorted(numbers_in(text)[:2]) == sorted(heaviest)
    labels = TopicTermsDisplay.from_estimator(crp, n_components=2).labels.tolist()
    assert labels == numbers_in(text)[:2]


# -- trees over epochs -----------------------------------------------------------------

EPOCH_TREES = {
    "epochs": DependentTrees(max_iter=5, random_state=0),
    "sampled epochs": GibbsDependentTrees(max_iter=5, random_state=0),
}


@pytest.fixture(scope="module", params=list(EPOCH_TREES))
def dated(request):
    """Trees whose nodes have other ids than rows, and the leading term of each id."""
    bunch = make_dependent_trees(n_samples=150, random_state=0)
    trees = clone(EPOCH_TREES[request.param]).fit(bunch.data, epochs=bunch.epochs)
    ids, names = trees.component_ids_, [f"w{j}" for j in range(bunch.data.shape[1])]
    assert (ids != np.arange(len(ids))).any()
    leading = [terms[0] for terms in top_terms(trees, names, n=1)]
    return trees, names, dict(zip(ids.tolist(), leading, strict=True)), bunch


def pairs_in(text):
    """Numbers of nodes, each with the term that follows it in a text."""
    entries = re.findall(r"(\d+)(?:: | +\(?\d+\.\d %\)? +)(-?w\d+)", text)
    return {int(number): term for number, term in entries}


def test_nodes_over_epochs_go_by_their_id_in_all_that_is_printed_or_drawn(dated):
    trees, names, leading, bunch = dated
    account = pairs_in(summary(trees, names, n_components=len(leading), n_terms=1))
    terms = top_terms(trees, names, n=1)
    printed = pairs_in(trees.tree_.to_text(terms, fold_chains=False))
    drawn = TopicTreeDisplay.from_estimator(trees, names, n_terms=1, fold_chains=False)
    figure = pairs_in(" ".join(text.get_text() for text in drawn.texts_))
    in_use = set(trees.component_ids_[trees.tree_.in_use].tolist())
    for shown in (printed, figure):
        assert in_use <= set(shown)
        assert shown == {node: leading[node] for node in shown}
    assert set(account) == in_use
    bars = TopicTermsDisplay.from_estimator(trees, names, n_components=3).labels
    assert set(bars.tolist()) <= in_use
    over_time = EpochTreeDisplay.from_estimator(trees, names, n_lines=99).topics_
    assert set(bars.tolist()) <= set(over_time)
    assert_array_equal(topics_to_frame(trees)["topic"], trees.component_ids_)
    by_epoch = topics_over_time(trees, bunch.data[:9], bunch.epochs[:9])
    assert set(by_epoch["topic"]) <= set(leading)


def test_columns_and_names_of_nodes_over_epochs_go_by_their_id(dated):
    trees = copy.deepcopy(dated[0])
    prefix, ids = type(trees).__name__.lower(), trees.component_ids_.tolist()
    assert list(trees.get_feature_names_out()) == [f"{prefix}{node}" for node in ids]
    row = int(np.flatnonzero(trees.component_ids_ != np.arange(len(ids)))[0])
    set_topic_names(trees, {ids[row]: "statistics"})
    assert list(trees.get_feature_names_out()).index("statistics") == row


# -- numbers at the end of a fit -------------------------------------------------------


@pytest.mark.parametrize("name", list(MODELS))
def test_a_fit_numbers_its_topics_by_tokens_and_tells_its_monitors(name, X):
    monitor = TopicTermsMonitor(n_terms=3)
    model = clone(MODELS[name]).set_callbacks(monitor).fit(X)
    assert_array_equal(model.component_ids_, np.arange(model.n_components_))
    tokens = (model.components_ - model.topic_word_prior_).sum(axis=1)
    assert (np.diff(tokens) <= 1e-9 * tokens.max()).all()
    assert replay(model.lineage_) == set(model.component_ids_.tolist())
    ids, terms = (monitor.history_[key][-1] for key in ("component_ids", "terms"))
    place = {number: row for row, number in enumerate(model.component_ids_.tolist())}
    last = [place[number] for number in ids.tolist() if number in place]
    known = [row for row, number in enumerate(ids.tolist()) if number in place]
    ranked = np.argsort(-model.components_[last], axis=1, kind="stable")[:, 0]
    assert (ranked == terms[known, 0]).mean() > 0.9


@pytest.mark.parametrize("name", list(MODELS))
def test_numbers_stay_whatever_comes_after_a_fit(name, fits, X):
    model = copy.deepcopy(fits[name])
    before = dict(zip(model.component_ids_.tolist(), model.components_, strict=True))
    model.partial_fit(X[::-1][:40])
    alive = [n for n in model.component_ids_.tolist() if n in before]
    rows = {n: row for row, n in enumerate(model.component_ids_.tolist())}
    assert len(alive) > 0.5 * len(before)
    cosines = [
        cosine(before[n], model.components_[rows[n]])
        for n in alive
        if before[n].sum() > 30
    ]
    assert np.median(cosines) > 0.9
    new = set(rows) - set(before)
    assert all(n >= len(before) for n in new)
    assert replay(model.lineage_) == set(rows)


def test_known_and_given_topics_keep_the_numbers_of_their_rows(X):
    rng = np.random.default_rng(0)
    seeds = {name: rng.choice(16, 3, replace=False).tolist() for name in "abc"}
    hdp = HDP(topic_word_prior=seeds, random_state=0).fit(X)
    assert {n: hdp.topic_names_[n] for n in range(3)} == {0: "a", 1: "b", 2: "c"}
    given = HDP(8, split_merge=False, random_state=0).fit(X)
    again = HDP(init=given, max_iter=2, warm_up=0, split_merge=False, random_state=0)
    again.fit(X)
    similar = [
        cosine(a, b) for a, b in zip(given.components_, again.components_, strict=True)
    ]
    assert min(similar[:4]) > 0.8


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def test_topics_without_documents_are_warned_of():
    X = make_bars(100, random_state=0).data[:, :50]
    with pytest.warns(
        ConvergenceWarning, match="topics have less than one token"
    ) as got:
        HDP(100, split_merge=False, max_iter=20, random_state=0).fit(X)
    n = int(re.search(r"n_components=(\d+)", str(got[-1].message))[1])
    assert 2 <= n < 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HDP(5, split_merge=False, max_iter=20, tol=0, random_state=0).fit(X)
