"""What `GibbsNestedCRP` promises beyond what all estimators do."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

from checks.failures import Failure, failing_visit
from checks.states import assert_same, learned
from skbnp import HDP, GibbsNestedCRP
from skbnp.datasets import make_tree
from skbnp.models import nested_crp_walks as nested_chain
from skbnp.trees import TreeView

#: Priors of the corpus, nearly; and a chain whose sweeps do not depend on their number,
#: from a start that takes no time.
PRIORS = {"level_prior": 4.0, "topic_word_prior": 0.1, "learn_priors": False}
CHAIN = {"init": "sequential", "burn_in": 4, "thin": 2, "random_state": 0, **PRIORS}


@pytest.fixture(scope="module")
def corpus():
    return make_tree(240, random_state=2)


@pytest.fixture(scope="module")
def docs(corpus):
    return sp.csr_array(corpus.data[:60])


@pytest.fixture(scope="module")
def model(docs):
    return GibbsNestedCRP(max_iter=12, n_chains=2, **CHAIN).fit(docs)


def sequential(*args, **settings):
    """Sampler from a start that takes no time."""
    return GibbsNestedCRP(*args, init="sequential", **settings)


# -- what it finds ---------------------------------------------------------------------


@pytest.mark.long
def test_documents_of_a_planted_tree_end_with_their_like(corpus):
    crp = GibbsNestedCRP(max_iter=200, random_state=0, **PRIORS).fit(corpus.data)
    assert adjusted_rand_score(corpus.target, crp.apply(corpus.data)) > 0.6
    words = corpus.topic_word_distr
    distance = np.abs(words[:, None] - crp.topic_word_distr_[None]).sum(axis=2) / 2
    leaves = np.isin(np.arange(len(words)), corpus.tree.leaves)
    # Each topic of a leaf, and that of the root, which all documents have.
    assert (distance[leaves][:, crp.tree_.leaves].min(axis=1) < 0.6).all()
    assert distance[0, 0] < 0.15


def test_priors_by_level_are_those_of_their_level(docs):
    eta = (1.0, 0.5, 0.25)
    crp = sequential(topic_word_prior=eta, max_iter=3, random_state=0).fit(docs)
    np.testing.assert_array_equal(crp.topic_word_prior_, eta)
    own = np.array(eta)[crp.tree_.depth]
    np.testing.assert_allclose((crp.components_ % 0.25), 0.0, atol=1e-12)
    np.testing.assert_allclose(crp.components_.min(axis=1)[1:], own[1:])
    same = sequential(topic_word_prior=[0.5] * 3, max_iter=3, random_state=0)
    one = sequential(topic_word_prior=0.5, max_iter=3, random_state=0)
    assert_same(learned(same.fit(docs[:40])), learned(one.fit(docs[:40])))
    assert same.topic_word_prior_ == 0.5


# -- what it publishes -----------------------------------------------------------------


def test_attributes_are_those_of_the_sample_with_the_highest_log_joint(model, docs):
    best = max(model.samples_, key=lambda sample: sample.log_joint)
    n_tokens = docs.sum()
    assert model.n_components_ == len(best.doc_counts)
    np.testing.assert_array_equal(model.component_ids_, best.component_ids)
    np.testing.assert_allclose(
        model.components_, best.topic_word_counts.toarray() + 0.1
    )
    for sample in model.samples_:
        assert sample.topic_word_counts.sum() == n_tokens
        assert sample.doc_counts[0] == docs.shape[0]
        assert (sample.doc_counts > 0).all()
    np.testing.assert_allclose(model.topic_weights_, best.n_tokens / n_tokens)
    assert best.child_concentration == model.child_concentration_
    assert model.n_active_components_ == (best.n_tokens >= 1).sum()


def test_weight_of_a_node_is_the_probability_to_pass_it(model, docs):
    tree, docs_of = model.tree_, model._best().doc_counts
    assert tree.weight[0] == 1.0
    for i in range(1, tree.n_nodes):
        up = tree.parent[i]
        expected = tree.weight[up] * docs_of[i] / (docs_of[up] + 1.0)
        assert tree.weight[i] == pytest.approx(expected)
    # An empty document says nothing; the share that leaves the tree is the rest.
    ends = model.doc_paths(np.zeros((1, 80))).toarray()[0]
    assert ends.sum() == pytest.approx(1.0)
    assert ends[tree.leaves].sum() == pytest.approx(tree.weight[tree.leaves].sum())


# -- chains ----------------------------------------------------------------------------


def test_chains_that_disagree_warn_and_others_do_not(docs):
    settings = {"n_chains": 2, "max_iter": 2, "random_state": 0, **PRIORS}
    with pytest.warns(ConvergenceWarning, match="different paths: at level [23]"):
        crp = GibbsNestedCRP(init="sequential", **settings).fit(docs)
    assert crp.chain_agreement_.min() < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crp = GibbsNestedCRP(**settings).fit(docs)
    assert crp.chain_agreement_.min() > 0.5


# -- going on --------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Failure, KeyboardInterrupt])
def test_interrupt_in_the_middle_of_a_sweep_is_undone(error, docs, monkeypatch):
    monkeypatch.setattr(nested_chain, "TOKENS_PER_PIECE", 500)
    crp = GibbsNestedCRP(max_iter=9, **(CHAIN | {"learn_priors": True}))
    run = nested_chain.NestedChain.run

    def fail(self, piece):
        run(self, piece)
        if (self.state.step, piece) == (2, 7):
            raise error

    monkeypatch.setattr(nested_chain.NestedChain, "run", fail)
    with pytest.raises(error):
        crp.fit(docs)
    other = clone(crp).set_params(max_iter=2, burn_in=1).fit(docs)
    one, two = learned(crp), learned(other)
    for state in (one, two):  # another burn-in
        for name in ("_burnt", "n_components_posterior_", "_kept", "samples_"):
            state.pop(name)
    assert_same(one, two)


# -- starts ----------------------------------------------------------------------------


class Told(BaseEstimator):
    """A fitted tree that says where documents go; -1: they leave it below node 1."""

    def __init__(self, ends):
        self.tree_ = TreeView([-1, 0, 1, 1, 0, 4], np.ones(6))
        self.ends, self.n_features_in_ = ends, 80

    def fit(self, X):
        raise NotImplementedError

    def decision_path(self, X):
        steps = np.zeros((X.shape[0], 6), dtype=int)
        for row, end in enumerate(self.ends):
            steps[row, self.tree_.path(max(end, 1))] = 1
        return sp.csr_array(steps)


def test_start_takes_each_path_that_is_told(docs):
    ends = np.resize([2, 5, 3, 2], 40)
    crp = GibbsNestedCRP(init=Told(ends), max_iter=1, **PRIORS)
    with failing_visit(1), pytest.raises(Failure):
        crp.fit(docs[:40])
    np.testing.assert_array_equal(crp.tree_.parent, [-1, 0, 1, 1, 0, 4])
    assert crp.samples_[0].doc_counts.tolist() == [40, 30, 20, 10, 10, 10]
    ends[7:9] = -1
    crp = GibbsNestedCRP(init=Told(ends), max_iter=1, random_state=0, **PRIORS)
    with failing_visit(1), pytest.raises(Failure):
        crp.fit(docs[:40])
    assert crp.samples_[0].doc_counts[0] == 40
    assert crp.n_components_ >= 6
    with pytest.raises(ValueError, match="max_depth=2, but the tree of init has 3"):
        GibbsNestedCRP(2, level_prior=1.0, init=Told(ends)).fit(docs[:40])


def test_start_must_be_fitted_a_tree_and_of_the_same_vocabulary(docs):
    docs = docs[:20]
    with pytest.raises(NotFittedError):
        GibbsNestedCRP(init=GibbsNestedCRP()).fit(docs)
    with pytest.raises(ValueError, match="init"):
        GibbsNestedCRP(init=HDP(3, max_iter=1).fit(docs)).fit(docs)
    crp = sequential(max_iter=2, random_state=0).fit(docs)
    score = crp.score(docs)
    crp.init = sequential(max_iter=1, random_state=0).fit(docs[:, :50])
    with pytest.raises(ValueError, match="X has 80 features, but init has 50"):
        crp.fit(docs)
    assert crp.score(docs) == score
