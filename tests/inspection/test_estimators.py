"""Every estimator can be looked at by every function, or is told what to use."""

import copy
import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.corpora import topic_counts
from checks.estimators import (
    DAILY,
    FIRST,
    INSTANCES,
    fresh,
    gives_proportions,
    is_tree,
    is_variational,
    rows_of,
    takes_counts_only,
)
from checks.long import daily
from skbnp import (
    HDP,
    DependentTrees,
    GibbsHDP,
    HierarchicalComponentAnalysis,
    inspection,
)
from skbnp.datasets import make_dependent_trees
from skbnp.inspection import (
    HistoryDisplay,
    TopicTermsDisplay,
    TopicTraceDisplay,
    summary,
    top_documents,
    top_terms,
    topics_over_time,
)

#: What needs labels of time has tests of its own.
OVER_TIME = {
    "EpochTreeDisplay",
    "TopicSharesDisplay",
    "emerging_topics",
    "topic_shares",
    "topics_over_time",
}
WITH_ROWS = {"to_pyldavis", "token_topics", "top_documents"}
OF_SHARES = {"top_documents"}
OF_FLAT_MODELS = {"TopicGroupsDisplay", "topic_groups"}
#: What they return, what fits models itself, and what has tests of its own.
OTHERS = {
    "Alignment",
    "Consensus",
    "Matches",
    "Stability",
    "TokenTopics",
    "TopicPath",
    "TopicPathDisplay",
    "TopicShares",
    "TopicText",
    "match_components",
    "report",
    "stability",
    "topic_path",
}
FUNCTIONS = sorted(set(inspection.__all__) - OVER_TIME - OTHERS)
ON_DASK = ["HDP", "DependentTrees"]


def fit_on_dask(name, X):
    from skbnp import dask

    settings = {"max_iter": 3, "random_state": 0}
    if name == "HDP":
        settings |= {"n_components": 4, "warm_up": 1, "split_merge": False}
    return getattr(dask, name)(**settings).fit([X[:40], X[40:]])


BRANCHING = {
    "HierarchicalComponentAnalysis": INSTANCES["HierarchicalComponentAnalysis-moves"]
}


class Models(dict):
    """Each kind of estimator, and those on a cluster: fitted when it is asked for."""

    def __missing__(self, name):
        X = topic_counts(60, 24)
        if name.startswith("dask."):
            self[name] = fit_on_dask(name.removeprefix("dask."), X), X
        else:
            estimator = BRANCHING.get(name, FIRST.get(name))
            X = rows_of(estimator, X)
            self[name] = fresh(estimator, max_iter=5).fit(X), X
        return self[name]


@pytest.fixture(scope="module")
def models():
    return Models()


OF_OTHERS = [*FIRST.keys() - {*DAILY}, *(f"dask.{name}" for name in ON_DASK)]
every_model = pytest.mark.parametrize(
    "name", daily(len(DAILY), [*DAILY, *sorted(OF_OTHERS)])
)


def look(function, model, X):
    """Call it as a user would who has no settings in mind."""
    read = getattr(inspection, function)
    if inspect.isclass(read):
        return read.from_estimator(model)
    if function == "set_topic_names":
        return read(copy.copy(model), [f"name {k}" for k in range(model.n_components_)])
    if function == "align_components":
        return read(model, model)
    if function == "consensus_components":
        return read([model, model])
    return read(model, X) if function in WITH_ROWS else read(model)


def lacks(function, model):
    """What a function needs that a model does not have, or nothing."""
    if function == "TopicTreeDisplay" and not hasattr(model, "tree_"):
        return "TopicTermsDisplay draws topics without a tree"
    if function == "ComponentsPosteriorDisplay" and not hasattr(model, "samples_"):
        return "HistoryDisplay draws the number of topics"
    if function == "TopicTraceDisplay" and not hasattr(model, "samples_"):
        return "one estimate, which TopicTermsDisplay draws"
    if function in OF_FLAT_MODELS and hasattr(model, "tree_"):
        return "has a tree: TopicTreeDisplay draws it"
    if function in OF_SHARES and not gives_proportions(model):
        return "gives coordinates: sort the columns"
    if function in ("to_lda", "to_pyldavis") and not takes_counts_only(model):
        return "has directions: use topics_to_frame"
    if function == "token_topics" and not takes_counts_only(model):
        return "has directions: `apply` gives the node"
    return None


@every_model
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_read_every_estimator_or_say_what_to_use(models, name, function):
    model, X = models[name]
    if says := lacks(function, model):
        with pytest.raises(TypeError, match=says):
            look(function, model, X)
        return
    result = look(function, model, X)
    if hasattr(result, "figure_"):
        for ax in result.figure_.axes:
            drawn = ax.axison and (ax.lines or ax.patches or ax.collections)
            assert ax.get_ylabel() or ax.get_yticklabels() or not drawn
        result.figure_.draw_without_rendering()
        plt.close("all")


@every_model
def test_account_is_in_the_units_of_the_rows(models, name):
    model, X = models[name]
    text = summary(model, X=X)
    assert ("per token" in text or "training token" in text) == takes_counts_only(model)
    assert ("nats per row" in text) != takes_counts_only(model)
    assert ("node   weight" in text) == hasattr(model, "tree_")
    assert max(map(len, text.splitlines())) <= 80
    assert "nan" not in text


def test_history_of_a_stream_is_that_of_its_topics(models):
    model, X = models["HDP-online"]
    stream = fresh(model).partial_fit(X[:30]).partial_fit(X[30:])
    display = HistoryDisplay.from_estimator(stream)
    assert display.ax_.get_ylabel() == "topics"
    drawn = display.ax_.lines[-1].get_ydata()
    assert_array_equal(drawn, stream.history_["n_components"])
    plt.close("all")


# -- attributes ------------------------------------------------------------------------


@every_model
def test_every_estimator_has_the_attributes_of_the_guide(models, name):
    model, X = models[name]
    k, n_features = model.n_components_, model.n_features_in_
    assert n_features == X.shape[1]
    assert model.components_.shape == (k, n_features)
    assert np.shape(model.component_ids_) == np.shape(model.topic_weights_) == (k,)
    assert len(np.unique(model.component_ids_)) == k
    assert 1 <= model.n_active_components_ <= k
    assert (model.topic_weights_ >= 0.0).all()
    total = model.topic_weights_.sum()
    if is_tree(model):
        assert_allclose(total, 1.0)
        assert len(model.tree_.parent) == k
        assert_array_equal(model.tree_.ids, model.component_ids_)
    assert 0.0 < total <= 1.0 + 1e-9
    assert model.n_iter_ >= 1
    for column in ("step", "seconds", "n_components"):
        assert len(model.history_[column]) == len(model.history_["step"]) > 0
    assert model.lineage_[0].kind == "init"
    assert isinstance(model.converged_, bool) if is_variational(model) else True
    assert hasattr(model, "samples_") == (not is_variational(model))
    with pytest.raises(AttributeError):
        _ = fresh(model).topic_weights_


@pytest.mark.parametrize("name", ["DependentTrees", "GibbsDependentTrees"])
def test_weights_of_trees_over_epochs_are_shares_of_the_newest_rows(models, name):
    model, _ = models[name]
    masses = list(model.epochs_.values())[-1].masses
    assert_allclose(model.topic_weights_, masses / masses.sum())


# -- directions ------------------------------------------------------------------------


def test_terms_of_directions_are_the_largest_entries_with_their_signs(models):
    model, _ = models["HierarchicalComponentAnalysis"]
    names = [f"w{j}" for j in range(24)]
    for row, terms in zip(model.components_, top_terms(model, names, 5), strict=True):
        columns = np.argsort(-np.abs(row), kind="stable")[:5]
        assert terms == [("-" if row[j] < 0 else "") + f"w{j}" for j in columns]
    display = TopicTermsDisplay.from_estimator(model, names, n_components=1, n_terms=24)
    widths = [bar.get_width() for bar in display.axes_[0].patches]
    assert min(widths) < 0.0 < max(widths)
    low, high = display.axes_[0].get_xlim()
    assert low < min(widths) < max(widths) < high
    assert display.axes_[0].get_xlabel() == "loading"
    plt.close("all")


# -- documents without tokens ----------------------------------------------------------


def with_empty_rows(X, empty):
    X = sp.lil_array(X) if sp.issparse(X) else X.copy()
    X[empty] = 0.0
    return sp.csr_array(X) if sp.issparse(X) else X


def check_no_empty_row(documents, shares, empty):
    """Raise where a row without tokens is listed, or a row without a share."""
    assert not np.isin(documents, empty).any()
    assert_array_equal(np.isnan(shares), documents < 0)
    assert (documents >= 0).any()
    for row in documents:
        listed = row[row >= 0]
        assert (row[len(listed) :] == -1).all()  # they come last
        assert len(np.unique(listed)) == len(listed)


@pytest.mark.parametrize("by", ["share", "tokens"])
@every_model
def test_rows_without_tokens_are_no_evidence(models, name, by):
    model, X = models[name]
    if not gives_proportions(model):
        return
    empty = [0, 7, 31]
    given = {"by": by, "n": 60, "return_shares": True}
    check_no_empty_row(*top_documents(model, with_empty_rows(X, empty), **given), empty)


def test_documents_on_a_cluster_are_ranked_as_here(models):
    model, X = models["dask.HDP"]
    blocks, local = [X[:25], X[25:]], top_documents(model, X)
    assert_array_equal(top_documents(model, blocks), local)


@pytest.mark.parametrize("name", ["dask.HDP", "dask.DependentTrees"])
def test_account_on_a_cluster_is_that_of_the_same_rows_here(models, name):
    model, X = models[name]
    assert summary(model, X=[X[:25], X[25:]]) == summary(model, X=X)


@every_model
def test_documents_of_sparse_shares_are_those_of_dense_ones(models, name):
    model, X = models[name]
    if not gives_proportions(model):
        return
    dense = top_documents(model, X, 5, by="tokens")
    model.set_params(sparse_output=True)
    assert_array_equal(top_documents(model, X, 5, by="tokens"), dense)
    if takes_counts_only(model):
        frame = topics_over_time(model, X, np.repeat([1, 2], 30))
        assert_allclose(frame.groupby("epoch")["share"].sum(), 1.0)
    model.set_params(sparse_output=False)


@pytest.mark.parametrize("scale", [1e-3, 100.0])
@pytest.mark.parametrize("length", [5, 5000])
def test_a_batch_of_one_topic_is_no_evidence_of_another(length, scale):
    rng = np.random.default_rng(0)
    X = np.zeros((90, 30))
    for i in range(90):
        words = slice(10 * (i % 3), 10 * (i % 3) + 10)
        X[i, words] = rng.multinomial(length, np.full(10, 0.1))
    hdp = HDP(6, split_merge=False, max_iter=40, random_state=0).fit(X)
    of_first = hdp.topic_word_distr_[:, :10].sum(axis=1)
    documents = top_documents(hdp, scale * X[::3][:6], n=3)
    assert (documents[of_first < 0.1] == -1).all()
    assert (documents[of_first > 0.9] >= 0).any()


def test_documents_are_ranked_within_their_epochs():
    drawn = make_dependent_trees(60, n_epochs=2, random_state=0)
    trees = DependentTrees(random_state=0).fit(drawn.data, epochs=drawn.epochs)
    documents, shares = top_documents(
        trees, drawn.data, 3, epochs=drawn.epochs, return_shares=True
    )
    distr = trees.transform(drawn.data, epochs=drawn.epochs)
    for k, (rows, result) in enumerate(zip(documents, shares, strict=True)):
        assert_allclose(result[rows >= 0], distr[rows[rows >= 0], k])


SIGNS = "$", "$$", "\\frac$x^{", "$a_$b"


def test_dollar_signs_are_drawn_as_such():
    X, n = topic_counts(90, 12), 90
    terms = [f"{SIGNS[j % 4]}{j}" for j in range(12)]
    groups = np.array(SIGNS)[np.arange(n) % 3]
    flat = HDP(4, split_merge=False, max_iter=10, random_state=0).fit(X)
    names = {int(k): f"{i}{SIGNS[i]}" for i, k in enumerate(flat.component_ids_)}
    inspection.set_topic_names(flat, names)
    trees = DependentTrees(random_state=0, max_iter=3).fit(X, epochs=groups)
    epochs = inspection.EpochTreeDisplay.from_estimator
    chain = GibbsHDP(max_iter=20, random_state=0).fit(X)
    given = inspection.TopicSharesDisplay.from_estimator(flat, X, groups, terms)
    displays = [
        given,
        inspection.TopicSharesDisplay(shares=given.shares).plot(plt.subplots()[1]),
        TopicTermsDisplay.from_estimator(flat, terms),
        inspection.TopicGroupsDisplay.from_estimator(flat, terms, X=X),
        inspection.LineageDisplay.from_estimator(flat, terms),
        HistoryDisplay.from_estimator(flat),
        TopicTraceDisplay.from_estimator(chain),
        epochs(trees, terms),
        inspection.TopicTreeDisplay.from_estimator(trees, terms),
    ]
    for display in displays:
        display.figure_.draw_without_rendering()
        for text in display.figure_.findobj(plt.Text):
            assert "$" not in text.get_text() or not text.get_parse_math()


OF_ERRORS = {
    "HDP": HDP(random_state=0),
    "GibbsHDP": GibbsHDP(max_iter=20, random_state=0),
    "DependentTrees": DependentTrees(max_iter=5, random_state=0),
    "HCA": HierarchicalComponentAnalysis(max_iter=5, random_state=0),
}


@pytest.mark.parametrize("name", OF_ERRORS)
def test_small_numbers_are_zero_whatever_numpy_is_set_to(name):
    rng = np.random.default_rng(0)
    model = fresh(OF_ERRORS[name])
    X = rng.normal(size=(60, 3)) @ (40 * rng.normal(size=(3, 20)))
    X = 1e3 * X if name == "HCA" else X
    X = topic_counts(90, 12) if name.endswith("HDP") else X
    with np.errstate(all="raise"):
        model.fit(X).score(X)
        model.transform(X)
        summary(model, X=X)
        if name.endswith("HDP"):
            inspection.consensus_components([model, model], X)
            inspection.token_topics(model, X)
