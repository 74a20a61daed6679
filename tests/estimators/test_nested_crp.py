"""What `NestedCRP` promises beyond what all estimators do."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import adjusted_rand_score

from checks.long import daily
from reference.ncrp_topics import conditional_step, log_predictive
from skbnp import GibbsNestedCRP, NestedCRP
from skbnp.datasets import make_tree
from skbnp.estimators import TreeMoves
from skbnp.inference.executor import Executor
from skbnp.metrics import fold_in_score
from skbnp.models.nested_crp.model import path_globals

#: Priors of the corpus, nearly.
PRIORS = {
    "level_prior": 4.0,
    "topic_word_prior": 0.1,
    "learn_priors": False,
    "random_state": 0,
}
#: A fit of a moment.
MOVES = TreeMoves(max_tries=2, max_rounds=2)
QUICK = {
    "init": "sequential",
    "structure_moves": MOVES,
    "max_iter": 3,
    "tol": 0.0,
    **PRIORS,
}
METHODS = ["batch", "memoized", "online"]
#: Rounding of sums of some thousand terms of one size.
SUMS = 1e-10


@pytest.fixture(scope="module")
def corpus():
    return make_tree(240, random_state=2)


@pytest.fixture(scope="module")
def docs(corpus):
    return sp.csr_array(corpus.data[:90].astype(float))


@pytest.fixture(scope="module")
def few(docs):
    return docs[:24]


@pytest.fixture(scope="module")
def X_test(corpus):
    return sp.csr_array(corpus.data[90:120].astype(float))


@pytest.fixture(scope="module")
def sampler(docs):
    return GibbsNestedCRP(max_iter=60, burn_in=50, thin=5, **PRIORS).fit(docs)


@pytest.fixture(scope="module")
def model(docs, sampler):
    return NestedCRP(**(QUICK | {"init": sampler, "max_iter": 6})).fit(docs)


def copy_of(model):
    return pickle.loads(pickle.dumps(model))


# -- what it finds ---------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("method", daily(1, METHODS))
def test_documents_of_a_planted_tree_end_with_their_like(method, corpus, docs, sampler):
    settings = QUICK | {"init": sampler, "max_iter": 6}
    if method == "batch":
        settings |= {"init": "gibbs", "structure_moves": False}
    crp = NestedCRP(learning_method=method, batch_size=45, **settings).fit(docs)
    assert adjusted_rand_score(corpus.target[:90], crp.apply(docs)) > 0.7
    group = crp.decision_path(docs).toarray()[:, crp.tree_.depth == 1].argmax(axis=1)
    assert adjusted_rand_score(corpus.path[:90, 1], group) > 0.3
    distance = np.abs(corpus.topic_word_distr[0] - crp.topic_word_distr_[0]).sum() / 2
    assert distance < 0.2


# -- what it publishes -----------------------------------------------------------------


def test_attributes_are_tokens_of_nodes_and_their_priors(model, docs):
    # Tokens of a node, and the prior of each word.
    held = model.components_.sum(axis=1) - 80 * 0.1
    np.testing.assert_allclose(held / docs.sum(), model.topic_weights_, atol=1e-12)
    assert 0.99 < model.topic_weights_.sum() <= 1.0 + SUMS
    assert model.n_active_components_ == (held >= max(1.0, 1e-4 * held.sum())).sum()
    assert model.child_concentration_ == 1.0
    np.testing.assert_array_equal(model.level_prior_, [4.0, 4.0, 4.0])


def test_weight_of_a_node_is_the_probability_to_pass_it(model):
    tree = model.tree_
    masses = model._posterior.global_stats.stub_masses
    through = np.array(
        [
            sum(m for m, k in zip(masses, range(len(masses))) if i in tree.path(k))  # noqa: B905
            for i in range(tree.n_nodes)
        ]
    )
    assert tree.weight[0] == 1.0
    for i in range(tree.n_nodes):
        left = tree.weight[i]
        children = tree.children(i)
        assert (np.diff(through[children]) <= 1e-9).all()  # siblings by their mass
        for place, child in enumerate(children):
            # E v = (1 + stays) / (1 + stays + gamma + goes by).
            goes_by = through[children[place + 1 :]].sum() + masses[i]
            stays = 1.0 + through[child]
            share = stays / (stays + 1.0 + goes_by)
            assert tree.weight[child] == pytest.approx(left * share, rel=1e-9)
            left *= 1.0 - share


def test_methods_about_documents_agree(model, X_test):
    tree, distr = model.tree_, model.transform(X_test)
    ends, paths = model.apply(X_test), model.decision_path(X_test).toarray()
    probabilities, levels = model.doc_paths(X_test), model.doc_levels(X_test)
    dense = probabilities.toarray()
    np.testing.assert_array_equal(ends, dense.argmax(axis=1))
    for row, end in zip(paths, ends, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(row), np.sort(tree.path(end)))
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, rtol=SUMS)
    np.testing.assert_allclose(levels.sum(axis=1), 1.0, rtol=SUMS)
    np.testing.assert_allclose(distr.sum(axis=1), 1.0, rtol=SUMS)
    # A document that ends at a leaf has the levels of that path.
    sure = dense[np.arange(30), ends] > 1.0 - 1e-12
    assert sure.sum() > 20
    for row in np.flatnonzero(sure):
        np.testing.assert_allclose(distr[row, tree.path(ends[row])], levels[row])
    by_level = np.array(
        [distr[:, tree.depth == level].sum(axis=1) for level in range(3)]
    )
    at_leaves = np.isin(ends, tree.leaves) & sure
    np.testing.assert_allclose(by_level.T[at_leaves], levels[at_leaves], rtol=1e-9)


def test_an_empty_document_has_the_prior_proportions(model):
    X = np.zeros((1, 80))
    levels, paths = model.doc_levels(X)[0], model.doc_paths(X).toarray()[0]
    np.testing.assert_allclose(levels, 1 / 3, rtol=1e-12)
    given = model._predictor().samples[0]
    prior = np.exp(given.log_prior - logsumexp(given.log_prior))
    np.testing.assert_allclose(paths, prior, rtol=1e-6, atol=1e-8)
    distr = model.transform(X)[0]
    passing = np.array(
        [
            sum(p for k, p in enumerate(paths) if i in model.tree_.path(k))
            for i in range(model.n_components_)
        ]
    )
    np.testing.assert_allclose(distr, passing / passing.sum(), rtol=1e-9)


@pytest.mark.parametrize("method", ["batch", "memoized"])
def test_bound_of_the_training_data_is_that_of_the_fit(method, docs, model):
    # No move any more, and documents that have settled: afresh they say the same, but
    # for some that settle in another optimum.
    crp = copy_of(model).set_params(
        learning_method=method,
        structure_moves=False,
        mean_change_tol=1e-6,
        warm_start=True,
        max_iter=300,
        tol=1e-4,
    )
    crp.fit(docs)
    assert crp.converged_
    assert crp.elbo_ == crp.history_["elbo"][-1]
    assert crp.elbo(docs) == pytest.approx(crp.elbo_, abs=2e-3)
    assert set(crp.elbo_terms(docs)) == {"topics", "sticks", "documents"}


# -- going on --------------------------------------------------------------------------


@pytest.mark.long
def test_single_path_of_short_documents_names_the_cure():
    """A prior of 80 words at the levels leaves nothing for five."""
    drawn = make_tree(150, n_words=5, branching=(3,), random_state=0)
    crp = NestedCRP(
        2,
        init="sequential",
        level_prior=40.0,
        topic_word_prior=1.0,
        learn_priors=False,
        random_state=0,
    )
    with pytest.warns(UserWarning, match="single path.*80 words.*have 5: smaller"):
        crp.fit(drawn.data)
    assert len(crp.tree_.leaves) == 1
    crp.set_params(level_prior=1.0, topic_word_prior=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crp.fit(drawn.data)
    assert len(crp.tree_.leaves) > 1
    # Nobody asked for branches.
    crp.set_params(level_prior=40.0, structure_moves=False, init="sequential")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        crp.set_params(max_depth=1).fit(drawn.data)


# -- streams ---------------------------------------------------------------------------


def test_steps_of_a_stream_are_those_of_their_formula(docs):
    few = docs[:40]
    crp = NestedCRP(
        learning_offset=3.0,
        learning_decay=0.7,
        total_samples=1000,
        batch_size=20,
        **(QUICK | {"structure_moves": False}),
    )
    crp.partial_fit(few[:20])
    before = crp._posterior
    crp.partial_fit(few[20:])
    rho = (3.0 + 2.0) ** -0.7
    masses = crp._posterior.global_stats.stub_masses.sum()
    expected = (1.0 - rho) * before.global_stats.stub_masses.sum() + rho * 1000
    assert masses == pytest.approx(expected, rel=1e-9)
    tokens = (1.0 - rho) * before.global_stats.n_tokens + rho * 50 * few[20:].sum()
    assert crp._posterior.global_stats.n_tokens == pytest.approx(tokens, rel=1e-9)


@pytest.mark.long
def test_stream_grows_branches_for_what_is_new():
    corpus = make_tree(240, random_state=0)
    X, group = sp.csr_array(corpus.data), corpus.path[:, 1]
    settings = {"batch_size": 40, "total_samples": 240, **QUICK}
    still = NestedCRP(**(settings | {"structure_moves": False}))
    crp = NestedCRP(**settings)
    for one in (crp, still):
        one.partial_fit(X[group == 1])
        assert adjusted_rand_score(corpus.target, one.apply(X)) < 0.9
        n_before = len(one.tree_.leaves)
        for begin in [0, 80, 160] * 2:
            one.partial_fit(X[begin : begin + 80])
    assert n_before == len(still.tree_.leaves)
    assert {entry.kind for entry in crp.lineage_[1:]} & {"birth", "split"}
    assert adjusted_rand_score(corpus.target, crp.apply(X)) > 0.9
    assert crp.score(X) > still.score(X) + 0.05


# -- starts ----------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [False, True])
def test_start_from_a_sampler(frozen, docs, sampler):
    settings = QUICK | {"max_iter": 1, "structure_moves": False}
    init = FrozenEstimator(sampler) if frozen else sampler
    crp = NestedCRP(**(settings | {"init": init})).fit(docs)
    best = max(sampler.samples_, key=lambda sample: sample.log_joint)
    assert crp.n_components_ == len(best.doc_counts)
    assert crp.lineage_[0].children == tuple(range(crp.n_components_))
    assert adjusted_rand_score(sampler.apply(docs), crp.apply(docs)) > 0.9
    plain = NestedCRP(**settings).fit(docs)
    assert crp.elbo_ > plain.elbo_
    limited = NestedCRP(max_components=5, **(settings | {"init": init})).fit(docs)
    assert limited.n_components_ <= 5


def test_sampler_starts_from_a_tree(docs, model):
    settings = {"max_iter": 2, "burn_in": 0, **PRIORS}
    crp = GibbsNestedCRP(init=model, **settings).fit(docs)
    plain = GibbsNestedCRP(init="sequential", **settings).fit(docs)
    assert crp.history_["log_joint"][0] > plain.history_["log_joint"][0] + 0.1
    assert adjusted_rand_score(model.apply(docs), crp.apply(docs)) > 0.5


# -- model selection and scores --------------------------------------------------------


def transcribed_score(model, X_seen, X):
    """Equation (8): paths share their tokens; levels, topics and sticks are means."""
    topics, priors = model._posterior.state, model._posterior.model.priors
    given = path_globals(topics, priors, is_mean=True)
    # What leaves the tree at a node: what its children lack to its weight.
    tree, stubs = model.tree_, model.tree_.weight.copy()
    np.subtract.at(stubs, tree.parent[1:], tree.weight[1:])
    logs = np.log(model.topic_word_distr_)
    total = 0.0
    for seen, row in zip(X_seen.toarray(), X.toarray(), strict=True):
        result = conditional_step(
            seen,
            logs.T,
            np.full(3, -np.log(80)),
            given.stub_nodes,
            np.log(stubs),
            priors.level_prior,
            1000,
            1e-9,
        )
        total += log_predictive(
            row, model.topic_word_distr_.T, given.stub_nodes, result[:3]
        )
    return total / X.sum()


@pytest.fixture
def settled(model):
    """The model, whose document step goes on to its fixed point."""
    return copy_of(model).set_params(max_doc_update_iter=1000, mean_change_tol=1e-9)


@pytest.mark.weekly
def test_fold_in_score_equals_its_transcription(settled, X_test):
    expected = transcribed_score(settled, X_test, X_test)
    assert fold_in_score(settled, X_test) == pytest.approx(expected, rel=1e-6)


def test_tasks_go_to_other_processes(monkeypatch):
    """Their backends pickle each task."""
    X, made, n_tasks = make_tree(30, random_state=0).data, Executor.map_all, []

    def map_all(self, task, items):
        n_tasks.append(1)
        return made(self, pickle.loads(pickle.dumps(task)), items)

    one = NestedCRP(**QUICK).fit(X)
    monkeypatch.setattr(Executor, "map_all", map_all)
    other = NestedCRP(**QUICK).fit(X)
    assert n_tasks
    np.testing.assert_array_equal(one.topic_word_distr_, other.topic_word_distr_)
