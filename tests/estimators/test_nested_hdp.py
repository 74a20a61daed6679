"""NestedHDP: planted trees, prediction, and where it starts."""

import warnings
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score

from checks.states import assert_same
from skbnp import HDP, NestedHDP, StickBreakingHDP
from skbnp.estimators import _nested_hdp as module
from skbnp.models.nested_hdp import NestedStep

pytestmark = pytest.mark.usefixtures("one_split")

#: Words of a node that all others hardly have, and themes and topics of the tree.
OWN, N_THEMES, N_TOPICS = 12, 3, 4


def planted(rng, n_docs=400, n_tokens=60):
    """Documents that mix a theme's topics and its own words, and the theme of each.

    Nodes are the root, three themes, and four topics of each.
    """
    n_nodes = 1 + N_THEMES * (1 + N_TOPICS)
    topics = np.full((n_nodes, n_nodes * OWN), 1e-3)
    for node in range(n_nodes):
        topics[node, node * OWN : (node + 1) * OWN] += rng.dirichlet(np.full(OWN, 2.0))
    topics /= topics.sum(axis=1, keepdims=True)
    theme = rng.integers(N_THEMES, size=n_docs)
    shares = np.zeros((n_docs, n_nodes))
    for doc, t in enumerate(theme):
        first = 1 + N_THEMES + t * N_TOPICS
        leaves = rng.dirichlet(np.full(N_TOPICS, 0.5))
        shares[doc, [0, 1 + t]] = 0.2, 0.25
        shares[doc, first : first + N_TOPICS] = 0.55 * leaves
    distr = shares @ topics
    X = np.array([rng.multinomial(n_tokens, p / p.sum()) for p in distr])
    return X, theme, topics


@pytest.fixture(scope="module")
def fit():
    X, theme, topics = planted(np.random.default_rng(0))
    return NestedHDP(random_state=0).fit(X[:300]), X, theme, topics


def test_planted_themes_are_the_main_branches(fit):
    nested, X, theme, _ = fit
    assert adjusted_rand_score(theme[300:], nested.apply(X[300:])) > 0.95


def test_planted_topics_are_below_the_branch_of_their_theme(fit):
    nested, _, _, topics = fit
    result, tree = nested.topic_word_distr_, nested.tree_
    distances = np.abs(topics[:, None] - result[None]).sum(axis=2)
    branch = np.array([*map(tree.path, range(tree.n_nodes))], dtype=object)
    leaves = distances[1 + N_THEMES :]
    assert leaves.min(axis=1).mean() < 0.6
    tops = [branch[node][1] for node in leaves.argmin(axis=1)]
    for t in range(N_THEMES):
        assert len(set(tops[t * N_TOPICS : (t + 1) * N_TOPICS])) == 1
    assert len(set(tops)) == N_THEMES


def test_words_that_themes_share_are_above_their_topics(fit):
    nested, _, _, _ = fit
    words = nested.components_ - nested.topic_word_prior_
    root = words[:, :OWN]
    assert root.sum(axis=1).argmax() == 0
    assert root[0].sum() > 3.0 * root.sum() / nested.n_components_
    assert (words[0].argsort()[-OWN:] < OWN).mean() > 0.8


def test_it_predicts_as_well_as_the_flat_fit_that_it_starts_from(fit):
    nested, X, _, _ = fit
    flat = HDP(random_state=0).fit(X[:300])
    assert (
        nested.score(X[300:], repeats=False)
        > flat.score(X[300:], repeats=False) - 0.005
    )


def test_it_starts_from_a_flat_fit_that_is_given(fit):
    _, X, _, _ = fit
    flat = HDP(6, split_merge=False, random_state=0).fit(X)
    nested = NestedHDP(max_depth=2, init=FrozenEstimator(flat), random_state=0).fit(X)
    assert nested.tree_.n_nodes == 7
    assert NestedHDP(max_depth=2, init=flat, random_state=0).fit(X).tree_.n_nodes == 7
    with pytest.raises(ValueError, match=r"X has 5 features, but init has 192"):
        NestedHDP(init=flat).fit(X[:, :5])
    with pytest.raises(ValueError, match="init must be a fitted HDP, got StickBreak"):
        NestedHDP(init=StickBreakingHDP(4, 3, max_iter=1).fit(X)).fit(X)


@pytest.fixture(scope="module")
def bursty():
    """Planted documents, each of which repeats words by a Dirichlet process."""
    rng = np.random.default_rng(0)
    X, theme, topics = planted(rng, n_tokens=200)
    shares = np.array([rng.dirichlet(20.0 * row / row.sum() + 1e-9) for row in X])
    repeated = np.array([rng.multinomial(60, row) for row in shares])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        nested = NestedHDP(random_state=0).fit(repeated[:300])
    return nested, repeated, theme, topics


def test_nodes_of_bursty_documents_explain_first_uses(bursty):
    nested, X, theme, _ = bursty
    assert 10.0 < nested.word_concentration_ < 40.0
    assert nested._posterior.state.by_tables
    # Tables of the training documents, not tokens.
    uses, tables = nested._expected_uses(nested._check_counts(X, "transform")[0])
    assert_allclose(uses.sum(axis=1), np.add.reduceat(tables, starts_of(X)), rtol=1e-9)
    assert tables.sum() < 0.8 * X.sum()
    learned = (nested.components_ - nested.topic_word_prior_).sum()
    assert learned == pytest.approx(tables[: np.count_nonzero(X[:300])].sum(), rel=0.1)
    assert adjusted_rand_score(theme[300:], nested.apply(X[300:])) > 0.6


def starts_of(X):
    """Place of the first stored count of each row, all of which have some."""
    return np.concatenate([[0], np.count_nonzero(X, axis=1).cumsum()[:-1]])


@pytest.mark.long
def test_bursty_documents_are_predicted_better_than_by_topics_of_tokens(bursty):
    nested, X, _, _ = bursty
    plain = NestedHDP(burstiness=False, random_state=0).fit(X[:300])
    assert not plain._posterior.state.by_tables
    assert plain.word_concentration_ == np.inf
    assert nested.score(X[300:]) > plain.score(X[300:]) + 0.1
    flat = HDP(random_state=0).fit(X[:300])
    assert nested.score(X[300:]) > flat.score(X[300:]) - 0.01
    assert nested.score(X[300:]) > nested.score(X[300:], repeats=False) + 0.05


def in_chunks(X, sizes):
    stream, at = NestedHDP(random_state=0), 0
    for size in sizes:
        stream.partial_fit(X[at : at + size])
        at += size
    return stream


def test_a_stream_in_one_chunk_is_a_fit(bursty):
    nested, X, _, _ = bursty
    assert_same(in_chunks(X, [300]).components_, nested.components_)


@pytest.mark.long
def test_a_stream_is_a_fit_of_all_documents_when_these_have_doubled(bursty):
    nested, X, _, _ = bursty
    stream = in_chunks(X, [20] * 5 + [150])
    fit = NestedHDP(random_state=0).fit(X[:250])
    assert_same(stream.components_, fit.components_)
    assert stream._posterior.documents.shape == (250, X.shape[1])
    ids = set(stream.component_ids_)
    assert not ids & set(stream.lineage_[0].children)
    kinds = {entry.kind for entry in stream.lineage_}
    assert kinds <= {"init", "merge", "prune", "birth"}
    stream.partial_fit(X[250:300])
    assert set(stream.component_ids_) == ids
    assert np.abs(stream.components_ - fit.components_).max() > 0.1
    assert stream.score(X[300:]) == pytest.approx(nested.score(X[300:]), abs=0.05)
    assert stream._posterior.n_seen == 300


def test_a_long_stream_keeps_no_documents(bursty):
    _, X, _, _ = bursty
    with mock.patch.object(module, "MOST_KEPT", X[:100].sum()):
        stream = in_chunks(X, [100])
        ids = stream.component_ids_.tolist()
        assert stream._posterior.documents is not None
        stream.partial_fit(X[100:300])
        assert stream._posterior.documents is None
        assert stream.component_ids_.tolist() == ids
        stream.partial_fit(X[:300])
    assert stream._posterior.documents is None


def test_an_interrupted_call_keeps_no_documents_that_are_not_learned(bursty):
    _, X, _, _ = bursty
    stream, calls = NestedHDP(batch_size=5, random_state=0).partial_fit(X[:60]), []
    collect = NestedStep.collect

    def stop(*args, **kwargs):
        calls.append(0)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return collect(*args, **kwargs)

    with (
        mock.patch.object(NestedStep, "collect", stop),
        pytest.raises(KeyboardInterrupt),
    ):
        stream.partial_fit(X[60:80])
    assert stream._posterior.documents.shape[0] == 60
    stream.partial_fit(X[60:80])
    assert stream._posterior.documents.shape[0] == 80


def test_a_fit_leaves_no_topic_that_no_document_has(fit):
    """A flat fit of too many topics has some that its tree has no use for."""
    _, X, _, _ = fit
    flat = HDP(300, split_merge=False, max_iter=1, random_state=0).fit(X[:100])
    nested = NestedHDP(init=flat, random_state=0).fit(X[:100])
    tables = nested._posterior.global_stats.tables
    assert (tables[nested.tree_.leaves] >= 0.5).all()
    ended = [entry for entry in nested.lineage_ if entry.kind == "merge"]
    assert nested.n_components_ + len(ended) == len(nested.lineage_[0].children)
    assert len(ended) > 0
    assert nested.transform(X).shape == (len(X), nested.n_components_)
    nested.partial_fit(X[100:])
