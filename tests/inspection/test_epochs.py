"""Topics over epochs: frames and the figure."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from checks.long import daily
from skbnp import HDP, DependentTrees, GibbsHDP, NestedCRP
from skbnp.datasets import make_dependent_trees
from skbnp.inspection import (
    EpochTreeDisplay,
    emerging_topics,
    top_terms,
    topics_over_time,
)
from skbnp.trees import TreeView

LIFETIMES = np.tile([0, 2], (10, 1))
LIFETIMES[9, 0], LIFETIMES[6, 1] = 1, 1


def halved(given):
    """Make rows of what only a Pipeline can read."""
    return 0.5 * given["rows"]


@pytest.fixture(scope="module")
def drawn():
    return make_dependent_trees(
        200, n_epochs=3, lifetimes=LIFETIMES, past_weight=3.0, random_state=2
    )


@pytest.fixture(scope="module")
def trees(drawn):
    return DependentTrees(random_state=0).fit(drawn.data, epochs=drawn.epochs + 1990)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_frame_has_each_topic_of_each_epoch(trees):
    frame = topics_over_time(
        trees, feature_names=[f"w{j}" for j in range(40)], n_terms=3
    )
    assert frame["epoch"].unique().tolist() == [1990, 1991, 1992]
    assert_allclose(frame.groupby("epoch")["share"].sum(), 1.0)
    for label, record in trees.epochs_.items():
        part = frame[frame["epoch"] == label]
        assert_array_equal(part["topic"], record.component_ids)
        assert_allclose(part["n_samples"].sum(), 200.0)
        ids = part.set_index("topic")
        for topic, parent in ids["parent"].items():
            assert parent == -1 or ids["depth"][parent] == ids["depth"][topic] - 1
    first = frame["epoch"] == 1990
    assert frame[first]["is_new"].all()
    assert frame[first]["cosine"].isna().all()
    old = frame[~frame["is_new"]]
    assert (old["cosine"] > 0.7).all()
    record = trees.epochs_[1992]
    row = frame[frame["epoch"] == 1992].iloc[1]
    direction = record.components[[1]].toarray()[0]
    assert row["terms"] == [f"w{j}" for j in np.argsort(-direction)[:3]]


def test_report_finds_the_topic_that_was_born(trees, drawn):
    report = emerging_topics(trees, drawn.data, drawn.epochs + 1990, min_samples=5)
    assert report["epoch"].tolist() == [1991]
    documents = report["documents"].iloc[0]
    assert len(documents) == 5
    assert_array_equal(drawn.epochs[documents], 1)
    assert_array_equal(drawn.target[documents], 9)
    sparse = emerging_topics(
        trees, sp.csr_array(2 * drawn.data), drawn.epochs + 1990, min_samples=5
    )
    assert sparse.equals(report)
    twice = Pipeline([("half", FunctionTransformer(halved)), ("trees", trees)])
    assert emerging_topics(
        twice, {"rows": 2 * drawn.data}, drawn.epochs + 1990, min_samples=5
    ).equals(report)
    alone = emerging_topics(trees, min_samples=5)
    assert alone["documents"].tolist() == [[]]
    with pytest.raises(ValueError, match="epochs must"):
        emerging_topics(trees, drawn.data)
    with pytest.raises(ValueError, match="features"):
        emerging_topics(trees, drawn.data[:, :5], drawn.epochs + 1990)


def test_figure_has_a_line_for_each_topic(trees):
    display = EpochTreeDisplay.from_estimator(trees)
    ids = set().union(*(set(r.component_ids.tolist()) for r in trees.epochs_.values()))
    assert set(display.topics_) == ids
    texts = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert [int(text.split(":")[0]) for text in texts] == display.topics_
    assert texts[0].startswith(f"{trees.component_ids_[0]}: column ")
    depth = {
        node: d
        for record in trees.epochs_.values()
        for node, d in zip(
            record.component_ids.tolist(), record.tree.depth, strict=True
        )
    }
    indents = [(len(text) - len(text.lstrip())) // 4 for text in texts]
    newest = set(trees.component_ids_.tolist())
    for node, indent in zip(display.topics_, indents, strict=True):
        if node in newest:
            assert indent == depth[node]
    labels = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert labels == ["1990", "1991", "1992"]
    # Texts end before the first disc.
    ends = [text.get_window_extent().x1 for text in display.ax_.get_yticklabels()]
    assert max(ends) <= display.ax_.transData.transform((-0.5, 0))[0]


def test_models_without_epochs_are_refused(counts):
    hdp = HDP(4, max_iter=1).fit(counts)
    for function in (
        topics_over_time,
        emerging_topics,
        EpochTreeDisplay.from_estimator,
    ):
        with pytest.raises(TypeError, match="epochs_"):
            function(hdp)


@pytest.fixture(scope="module")
def rising():
    """Documents of two topics in two years, and of a third that begins after these."""
    rng = np.random.default_rng(0)
    words = np.kron(np.eye(3), np.ones(4)) + 0.05
    years = np.repeat(["1999", "2000", "10000"], 40)
    kinds = np.where(years == "10000", 2, np.arange(120) % 2)
    kinds[80:100] = np.arange(20) % 2
    X = np.array([rng.multinomial(30, words[k] / words[k].sum()) for k in kinds])
    X[5] = 0
    return X, years, kinds


@pytest.mark.parametrize(
    "model",
    daily(
        2,
        [
            HDP(n_components=5, max_iter=20, random_state=0),
            LatentDirichletAllocation(3, max_iter=50, random_state=1),
            GibbsHDP(max_iter=100, random_state=0),
            NestedCRP(max_iter=5, random_state=0),
        ],
    ),
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_topic_model_has_topics_over_time(model, rising):
    X, years, kinds = rising
    names = [f"w{j}" for j in range(12)]
    model = clone(model).fit(X)
    frame = topics_over_time(model, X, years, names)
    assert frame["epoch"].unique().tolist() == ["1999", "2000", "10000"]
    assert_allclose(frame.groupby("epoch")["share"].sum(), 1.0)
    tokens = model.transform(X) * X.sum(axis=1, keepdims=True)
    part = frame[frame["epoch"] == "10000"]
    assert_allclose(part["n_tokens"], tokens[years == "10000"].sum(axis=0))
    assert part["terms"].tolist() == top_terms(model, names, 5)
    assert emerging_topics(model, X, years, names, min_samples=100).empty
    report = emerging_topics(model, X, years, names, n_documents=3)
    assert set(report["epoch"]) == {"10000"}
    for terms, documents in zip(report["terms"], report["documents"], strict=True):
        assert set(terms[:4]) == {"w8", "w9", "w10", "w11"}
        assert_array_equal(kinds[documents], 2)


def test_shares_in_given_rows_are_those_of_dependent_trees(trees, drawn):
    X, years = drawn.data[::2], drawn.epochs[::2] + 1990
    frame = topics_over_time(trees, X, years)
    shares = trees.transform(X, epochs=years)[years == 1991].mean(axis=0)
    part = frame[frame["epoch"] == 1991]
    assert_allclose(part["share"], shares)
    assert_array_equal(part["topic"], trees.component_ids_)


def test_models_whose_columns_are_no_shares_are_refused(drawn):
    X = np.abs(drawn.data)
    model = NMF(2, random_state=0).fit(X)
    with pytest.raises(TypeError, match="NMF does not return shares"):
        topics_over_time(model, X, drawn.epochs)
    with pytest.raises(ValueError, match="feature_names="):
        topics_over_time(model, X)


# -- what a figure says ----------------------------------------------------------------


@pytest.fixture(scope="module")
def many():
    """Epochs of a tree of 40 topics, of which the last is small in all."""
    rng = np.random.default_rng(0)
    parent = np.r_[-1, np.zeros(8, int), rng.integers(1, 9, 31)]
    base = rng.dirichlet(np.full(60, 0.2), size=40)
    epochs = {}
    for year in (1946, 1947, 2020):
        words = base.copy()
        words[5] = np.eye(60)[year % 60]
        masses = rng.gamma(0.5, size=40) + 0.01
        epochs[year] = SimpleNamespace(
            tree=TreeView(parent, np.full(40, 1 / 40)),
            components=sp.csr_array(words / np.linalg.norm(words, axis=1)[:, None]),
            component_ids=np.arange(40),
            masses=masses,
        )
    return SimpleNamespace(epochs_=epochs, components_=base, get_params=dict)


def display_of(model):
    names = [f"w{j}" for j in range(60)]
    return EpochTreeDisplay(epochs=model.epochs_, columns=names, n_terms=2)


def test_terms_beside_a_line_are_those_of_the_epoch_in_which_it_is_largest(many):
    display = display_of(many).plot(n_lines=100)
    texts = [text.get_text().strip() for text in display.ax_.get_yticklabels()]
    (text,) = (text for text in texts if text.startswith("5: "))
    shares = [r.masses[5] / r.masses.sum() for r in many.epochs_.values()]
    year = list(many.epochs_)[int(np.argmax(shares))]
    assert text.startswith(f"5: w{year % 60}")
    assert text.endswith(f"({year})")
