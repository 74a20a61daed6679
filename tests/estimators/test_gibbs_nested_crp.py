"""What `GibbsNestedCRP` promises beyond what all estimators do."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import (
    ConvergenceWarning,
    DataConversionWarning,
    NotFittedError,
)
from sklearn.metrics import adjusted_rand_score

from checks.failures import Failure, failing_visit
from checks.lineages import check_lineage
from checks.long import along_diagonal
from checks.states import assert_same, learned
from skbnp import HDP, GibbsNestedCRP, NestedCRP
from skbnp.callbacks import HeldOutMonitor
from skbnp.datasets import make_tree
from skbnp.estimators import TreeMoves
from skbnp.inspection import summary
from skbnp.metrics import document_completion_score, fold_in_score
from skbnp.models.nested_crp_walks import chain as nested_chain
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
def X_test(corpus):
    return sp.csr_array(corpus.data[120:180])


@pytest.fixture(scope="module")
def model(docs):
    return GibbsNestedCRP(max_iter=12, n_chains=2, **CHAIN).fit(docs)


def sequential(*args, **settings):
    """Sampler from a start that takes no time."""
    return GibbsNestedCRP(*args, init="sequential", **settings)


def copy_of(model):
    return pickle.loads(pickle.dumps(model))


# -- what it finds ---------------------------------------------------------------------


def test_documents_of_a_planted_tree_end_with_their_like(corpus):
    crp = GibbsNestedCRP(max_iter=200, random_state=0, **PRIORS).fit(corpus.data)
    assert adjusted_rand_score(corpus.target, crp.apply(corpus.data)) > 0.6
    words = corpus.topic_word_distr
    distance = np.abs(words[:, None] - crp.topic_word_distr_[None]).sum(axis=2) / 2
    leaves = np.isin(np.arange(len(words)), corpus.tree.leaves)
    # Each topic of a leaf, and that of the root, which all documents have.
    assert (distance[leaves][:, crp.tree_.leaves].min(axis=1) < 0.6).all()
    assert distance[0, 0] < 0.15


def test_levels_explain_documents_better_than_fewer(corpus, X_test):
    scores = [
        GibbsNestedCRP(depth, max_iter=60, random_state=0, **PRIORS)
        .fit(corpus.data[:120])
        .score(X_test)
        for depth in (1, 2, 3)
    ]
    assert (np.diff(scores) > 0.0).all()


def test_predictions_of_samples_are_averaged(model, X_test):
    single = []
    for sample in model.samples_:
        alone = copy_of(model)
        alone.samples_ = [sample]
        single.append(alone.score(X_test))
    # Averages of probabilities are above those of their logarithms.
    assert len(set(single)) == len(single)
    assert np.mean(single) < model.score(X_test) < max(single) + 0.1


def test_score_is_document_completion(model, X_test):
    assert document_completion_score(model, X_test) == model.score(X_test)
    assert fold_in_score(model, X_test) > model.score(X_test)


def test_larger_concentration_makes_more_branches(docs):
    docs = docs[:40]
    n_leaves = [
        GibbsNestedCRP(child_concentration=gamma, max_iter=10, random_state=0, **PRIORS)
        .fit(docs)
        .history_["n_leaves"][-1]
        for gamma in (1e-50, 1e9)
    ]
    assert n_leaves[0] < n_leaves[1] == docs.shape[0]


@pytest.mark.parametrize("learn", [False, "concentrations", True])
def test_hyperparameters_are_learned_as_asked(learn, docs):
    crp = sequential(learn_priors=learn, max_iter=6, random_state=0).fit(docs[:60])
    moved = {
        name: len(set(crp.history_[name])) > 1
        for name in ("child_concentration", "topic_word_prior")
    }
    assert moved["child_concentration"] == (learn is not False)
    assert moved["topic_word_prior"] == (learn is True)
    assert len(set(crp.level_prior_)) == (1 if learn is False else 3)
    assert np.shape(crp.topic_word_prior_) == ((3,) if learn is True else ())


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


# -- shapes of trees -------------------------------------------------------------------


@along_diagonal(("max_depth", "learn"), [1, 2, 3, 50], [True, False])
def test_trees_of_any_depth(max_depth, learn, docs, X_test):
    crp = sequential(
        max_depth, level_prior=1.0, learn_priors=learn, max_iter=4, random_state=0
    ).fit(docs[: 30 if max_depth < 50 else 5])
    docs, X_test = docs[:3], X_test[:3]
    tree = crp.tree_
    assert tree.max_depth == max_depth - 1
    assert (tree.depth[tree.leaves] == max_depth - 1).all()
    assert crp.history_["n_leaves"][-1] == len(tree.leaves)
    assert crp.n_components_ == len(tree.parent) == crp.transform(docs).shape[1]
    assert crp.doc_levels(docs).shape == (3, max_depth)
    assert np.isfinite([crp.score(X_test), crp.log_joint_]).all()


def test_a_single_path_is_not_kept_secret(docs):
    """Noise has no branches: right, and a warning that names the cure."""
    X = np.random.default_rng(0).poisson(1.0, size=(60, 30))
    rare = (1.0, 1000.0)  # no branches that a few sweeps have not closed yet
    crp = GibbsNestedCRP(max_iter=6, child_concentration_prior=rare, random_state=0)
    with pytest.warns(UserWarning, match=r"single path.*60 documents.*topic_word_pri"):
        crp.fit(X)
    assert len(crp.tree_.leaves) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        crp.fit(docs)
        crp.set_params(max_depth=1).fit(X)
    assert len(crp.tree_.leaves) == 1


def test_a_single_level_is_a_single_topic(docs):
    crp = sequential(1, level_prior=1.0, topic_word_prior=0.5, max_iter=2).fit(docs)
    assert crp.tree_ == TreeView([-1], [1.0])
    np.testing.assert_array_equal(crp.components_, docs.sum(axis=0)[None] + 0.5)


def test_one_document_has_a_path_of_its_own():
    crp = sequential(learn_priors=False, max_iter=5, random_state=0)
    crp.fit([[3, 0, 1]])
    np.testing.assert_array_equal(crp.tree_.parent, [-1, 0, 1])
    np.testing.assert_allclose(crp.tree_.weight, [1.0, 0.5, 0.25])
    assert len(crp.lineage_) == 1  # it leaves its path and takes it again
    assert crp.components_.sum() == pytest.approx(4 + 3 * 3 * 0.3)


def test_documents_of_a_single_token():
    crp = sequential(max_iter=20, random_state=0).fit(np.eye(30, 6))
    assert crp.samples_[0].topic_word_counts.sum() == 6
    assert crp.samples_[0].doc_counts[0] == 6  # the others have no token
    assert np.isfinite(crp.history_["log_joint"]).all()


def test_empty_documents_change_nothing(docs):
    empty, docs = sp.csr_array((3, 80)), docs[:60]
    X = sp.vstack([empty, docs[:50], empty, docs[50:], empty], format="csr")
    one, two = (sequential(max_iter=3, random_state=0).fit(x) for x in (docs, X))
    assert_same(learned(one), learned(two))
    np.testing.assert_array_equal(two.transform(X)[3:53], one.transform(docs)[:50])


def test_a_corpus_without_tokens_has_a_root():
    X = np.zeros((4, 6))
    crp = sequential(max_iter=3, random_state=0, warm_start=True).fit(X)
    assert crp.tree_ == TreeView([-1], [1.0])
    assert crp.component_ids_.tolist() == [0]
    assert crp.topic_weights_.tolist() == [0.0]
    np.testing.assert_allclose(crp.topic_word_distr_, 1 / 6)
    np.testing.assert_array_equal(crp.transform(X), np.ones((4, 1)))
    assert crp.fit(X).lineage_ == [(0, "init", (), (0,))]
    crp.fit(np.eye(6))
    assert crp.component_ids_[0] == 0
    assert crp.samples_[0].doc_counts[0] == 6
    other = sequential(max_iter=3).partial_fit(X).partial_fit(np.eye(6))
    assert other.component_ids_[0] == 0
    assert other.samples_[0].doc_counts[0] == 6


# -- what it publishes -----------------------------------------------------------------


def test_samples_are_kept_after_burn_in_and_thinned(model):
    kept = [(sample.step, sample.chain) for sample in model.samples_]
    assert kept == [(step, chain) for step in (6, 8, 10, 12) for chain in (0, 1)]


def test_without_a_kept_sweep_the_present_states_are_the_samples(docs):
    crp = sequential(max_iter=3, thin=50, n_chains=2, random_state=0)
    crp.fit(docs[:40])
    assert [(s.step, s.chain) for s in crp.samples_] == [(3, 0), (3, 1)]


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


def test_document_without_tokens_gets_the_prior_proportions(model):
    tree = model.tree_
    expected = tree.weight * model.level_prior_[tree.depth]
    row = model.transform(np.zeros((1, 80)))[0]
    np.testing.assert_allclose(row, expected / expected.sum(), rtol=1e-9)


def test_siblings_stand_by_their_documents(model):
    tree, docs_of = model.tree_, model._best().doc_counts
    np.testing.assert_array_equal(tree.ids, model.component_ids_)
    for i in range(tree.n_nodes):
        children = tree.children(i)
        assert (np.diff(docs_of[children]) <= 0).all()
        if tree.depth[i] < 2:
            assert docs_of[children].sum() == docs_of[i]


def test_log_joint_of_samples_is_that_of_the_history(model):
    history = zip(
        model.history_["step"],
        model.history_["chain"],
        model.history_["log_joint"],
        strict=True,
    )
    result = {(step, chain): value for step, chain, value in history}
    for sample in model.samples_:
        assert sample.log_joint == result[sample.step, sample.chain]
    assert model.log_joint_ == model.history_["log_joint"][-1]


def test_posterior_of_the_number_of_nodes_counts_sweeps_after_burn_in(model):
    counted = [
        k
        for k, step in zip(
            model.history_["n_components"], model.history_["step"], strict=True
        )
        if step > 4
    ]
    assert sum(model.n_components_posterior_.values()) == pytest.approx(1.0)
    for k, share in model.n_components_posterior_.items():
        assert share == counted.count(k) / len(counted)


def test_chains_differ_and_the_first_is_the_chain_alone(docs, model):
    alone = clone(model).set_params(n_chains=1).fit(docs)
    trace = np.array(model.history_["log_joint"]).reshape(-1, 2)
    assert trace[:, 0].tolist() == alone.history_["log_joint"]
    assert (trace[:, 0] != trace[:, 1]).all()


def test_lineage_ends_in_the_nodes_shown(docs, model, X_test):
    check_lineage(model)
    crp = GibbsNestedCRP(max_iter=9, random_state=0, warm_start=True, **PRIORS)
    for _ in range(2):
        crp.fit(docs)
        check_lineage(crp)
    crp.fit(X_test)
    check_lineage(crp)
    crp.partial_fit(docs)
    check_lineage(crp)
    kinds = [entry.kind for entry in crp.lineage_]
    assert kinds[0] == "init"
    assert set(kinds[1:]) == {"birth", "prune"}
    assert (np.diff([entry.step for entry in crp.lineage_]) >= 0).all()
    steps = [(entry.step, entry.kind) for entry in model.lineage_]
    assert sorted(set(steps)) == steps  # once per sweep


def test_a_node_keeps_its_parent(docs):
    crp = GibbsNestedCRP(
        4, init="sequential", max_iter=30, thin=1, random_state=0, **PRIORS
    ).fit(docs)
    parents = {}
    for sample in crp.samples_:
        tree = sample.tree
        for node in tree.ids.tolist():
            assert parents.setdefault(node, tree.parent_of(node)) == tree.parent_of(
                node
            )
    assert len(parents) > crp.n_components_


# -- chains ----------------------------------------------------------------------------


def test_agreement_of_chains_is_that_of_their_last_states(model, docs):
    nodes = [state.paths.node for state in model._chains]
    expected = [adjusted_rand_score(*(n[:, level] for n in nodes)) for level in (1, 2)]
    np.testing.assert_allclose(model.chain_agreement_, expected)
    line = f"{expected[0]:.2f} (level 2), {expected[1]:.2f} (level 3)"
    assert f"chains agree         {line}" in summary(model)
    alone = GibbsNestedCRP(max_iter=2, random_state=0, **PRIORS).fit(docs[:20])
    assert len(alone.chain_agreement_) == 0
    assert "chains agree" not in summary(alone)


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


@pytest.mark.parametrize("learn", ["concentrations", True])
def test_warm_start_continues_the_chains_exactly(learn, docs):
    whole = GibbsNestedCRP(
        max_iter=12, n_chains=2, n_jobs=2, **(CHAIN | {"learn_priors": learn})
    ).fit(docs)
    parts = clone(whole).set_params(max_iter=5, warm_start=True, n_jobs=1)
    parts = copy_of(parts.fit(docs))
    parts.set_params(max_iter=7).fit(docs)
    one, two = learned(whole), learned(parts)
    assert (one.pop("n_iter_"), two.pop("n_iter_")) == (12, 7)
    assert_same(one, two)


def test_sweeps_in_pieces_are_the_same(docs, model, monkeypatch):
    monkeypatch.setattr(nested_chain, "TOKENS_PER_PIECE", 500)
    assert_same(learned(model), learned(clone(model).set_params(n_jobs=2).fit(docs)))


@pytest.mark.parametrize("error", [Failure, KeyboardInterrupt])
def test_warm_start_continues_after_an_interrupt(error, docs):
    whole = GibbsNestedCRP(max_iter=9, n_chains=2, **CHAIN).fit(docs)
    parts = clone(whole).set_params(max_iter=5, warm_start=True)
    with failing_visit(5, error), pytest.raises(error):
        parts.fit(docs)
    assert parts.history_["step"][-1] == 4
    parts.fit(docs)
    one, two = learned(whole), learned(parts)
    assert (one.pop("n_iter_"), two.pop("n_iter_")) == (9, 5)
    assert_same(one, two)


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


def test_warm_start_on_other_documents_begins_with_the_nodes_there_are(docs, X_test):
    crp = GibbsNestedCRP(max_iter=40, warm_start=True, random_state=0, **PRIORS)
    crp.fit(docs)
    before, tree = set(crp.component_ids_.tolist()), crp._best().tree
    crp.set_params(max_iter=1).fit(X_test)
    assert crp.history_["step"][-1] == 41
    (sample,) = crp.samples_
    assert sample.topic_word_counts.sum() == X_test.sum()
    assert sample.doc_counts[0] == X_test.shape[0]
    known = before & set(crp.component_ids_.tolist())
    assert len(known) > 9
    assert all(sample.tree.parent_of(node) == tree.parent_of(node) for node in known)
    fresh = GibbsNestedCRP(init="sequential", max_iter=1, random_state=0, **PRIORS)
    fresh.fit(X_test)
    assert crp.log_joint_ > fresh.log_joint_ + 0.2


def test_burn_in_stays_what_it_was_unless_it_is_set(docs):
    crp = sequential(max_iter=20, thin=5, warm_start=True, random_state=0)
    crp.fit(docs).set_params(max_iter=10).fit(docs)
    assert [sample.step for sample in crp.samples_] == [15, 20, 25, 30]


def test_warm_start_with_other_chains_or_levels_is_refused(docs):
    docs = docs[:20]
    crp = sequential(max_iter=2, warm_start=True, level_prior=1.0).fit(docs)
    with pytest.raises(ValueError, match=r"n_chains=2 with warm_start=True"):
        crp.set_params(n_chains=2).fit(docs)
    crp.set_params(n_chains=1, max_depth=4)
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"max_depth=4, but the fit .* 3 levels"):
            getattr(crp, method)(docs)
    assert crp.set_params(warm_start=False).fit(docs).tree_.max_depth == 3


# -- chunks ----------------------------------------------------------------------------


def test_chunks_add_up(docs):
    crp = GibbsNestedCRP(max_iter=5, random_state=0, **PRIORS)
    for begin in (0, 20, 40):
        crp.partial_fit(docs[begin : begin + 20])
    (sample,) = crp.samples_
    np.testing.assert_array_equal(
        sample.topic_word_counts.sum(axis=0), docs.sum(axis=0)
    )
    assert sample.doc_counts[0] == 60
    assert crp.history_["step"] == list(range(1, 16))
    assert crp.n_iter_ == 3
    assert crp.n_components_posterior_ == {crp.n_components_: 1.0}


def test_counts_of_earlier_chunks_stay(docs):
    crp = GibbsNestedCRP(max_iter=5, random_state=0, **PRIORS).partial_fit(docs[:30])
    before, tree = crp._best(), crp._best().tree
    counts = dict(zip(crp.component_ids_.tolist(), crp.components_, strict=True))
    crp.partial_fit(docs[30:])
    now = crp._best()
    after = dict(zip(crp.component_ids_.tolist(), crp.components_, strict=True))
    assert counts.keys() <= after.keys()
    for name, held in counts.items():
        assert (after[name] >= held).all()
        assert now.tree.parent_of(name) == tree.parent_of(name)
    grown = now.doc_counts[now.tree.positions(before.component_ids)]
    assert (grown >= before.doc_counts).all()


def test_chunk_goes_on_from_the_best_sample_of_a_fit(docs, model):
    crp = copy_of(model)
    best = max(crp.samples_, key=lambda sample: sample.log_joint)
    crp.partial_fit(docs[:10])
    (sample,) = crp.samples_
    assert sample.chain == best.chain
    assert sample.topic_word_counts.sum() == docs.sum() + docs[:10].sum()
    assert set(best.component_ids) <= set(sample.component_ids)


def test_chunk_learns_from_all_counts(docs):
    crp = GibbsNestedCRP(max_iter=30, random_state=0, learn_priors=True).fit(docs)
    before = crp._best()
    crp.partial_fit(docs[:1])
    gammas = np.array(crp.history_["child_concentration"])[-30:]
    children = len(before.component_ids) - 1
    # One document among 121 says little: the mean stays that of all branches.
    assert len(set(gammas)) == 30
    inner = before.doc_counts[before.depth < 2]
    expected = sum(
        (gammas.mean() / (gammas.mean() + np.arange(n))).sum() for n in inner
    )
    assert expected == pytest.approx(children, rel=0.35)


@pytest.mark.parametrize("n_sweeps", [0, 2])
def test_failure_in_a_chunk_leaves_the_complete_sweeps(n_sweeps, docs, model):
    crp = copy_of(model)
    with failing_visit(n_sweeps + 1), pytest.raises(Failure):
        crp.partial_fit(docs[:10])
    other = copy_of(model)
    if n_sweeps:
        other.set_params(max_iter=n_sweeps, burn_in=1).partial_fit(docs[:10])
    left, right = learned(crp), learned(other)
    assert_same(left["samples_"], right["samples_"])
    assert_same(left["history_"], right["history_"])


def test_failure_in_the_first_chunk_leaves_nothing(docs):
    crp = sequential(max_iter=3)
    with failing_visit(1), pytest.raises(Failure):
        crp.partial_fit(docs[:20])
    assert learned(crp) == {}


# -- starts ----------------------------------------------------------------------------


STARTS = {
    "sampler": GibbsNestedCRP(max_iter=40, random_state=0, **PRIORS),
    "variational": NestedCRP(
        max_iter=3,
        structure_moves=TreeMoves(max_tries=1, max_rounds=1),
        random_state=0,
        **PRIORS,
    ),
    "sequential": NestedCRP(max_iter=3, init="sequential", random_state=0, **PRIORS),
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name == "variational" else ())
        for name in STARTS
    ],
)
def test_start_from_a_fitted_tree(name, docs):
    docs = docs[:50]
    start = clone(STARTS[name]).fit(docs)
    settings = {"max_iter": 2, "burn_in": 0, "random_state": 1, **PRIORS}
    crp = GibbsNestedCRP(init=start, **settings).fit(docs)
    plain = GibbsNestedCRP(init="sequential", **settings).fit(docs)
    assert crp.history_["log_joint"][0] > plain.history_["log_joint"][0] + 0.2
    paths = start.apply(docs)
    assert len(crp.lineage_[0].children) >= len(set(paths))


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


# -- parameters and input --------------------------------------------------------------


def test_fractions_are_rounded_with_one_warning(docs):
    docs = docs[:20]
    X = docs.toarray() + 0.2
    with pytest.warns(DataConversionWarning, match="rounded") as caught:
        crp = sequential(max_iter=3, random_state=0).fit(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(DataConversionWarning, match="rounded") as caught:
        clone(crp).partial_fit(X)
    assert caught[0].filename == __file__
    other = sequential(max_iter=3, random_state=0).fit(docs)
    assert_same(crp.components_, other.components_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(crp.transform(X)).all()


def test_too_many_tokens_are_refused_by_row():
    with pytest.raises(ValueError, match=r"from row 21 on; GibbsNestedCRP takes"):
        sequential().fit(np.full((23, 1), 9.9e7))
    crp = sequential(max_iter=2, random_state=0).partial_fit(np.eye(5))
    counts = crp.samples_[0].topic_word_counts
    counts.data[0] += 2**31 - 1 - counts.sum() - 7
    with pytest.raises(ValueError, match=r"tokens after .*, too many from row 0 on"):
        crp.partial_fit(8 * np.eye(1, 5))
    crp.partial_fit(7 * np.eye(1, 5))
    assert crp.samples_[0].topic_word_counts.sum() == 2**31 - 1
    assert np.isfinite(crp.log_joint_)


@along_diagonal(("size", "learn"), [1e-100, 1e-40, 1e-5, 1e5, 1e10], [False, True])
def test_extreme_hyperparameters_give_finite_numbers(size, learn, docs):
    for name in ("child_concentration", "level_prior", "topic_word_prior"):
        crp = sequential(max_iter=4, learn_priors=learn, random_state=0)
        crp.set_params(**{name: size}).fit(docs[:9])
        assert np.isfinite(crp.history_["log_joint"]).all()
        assert np.isfinite(crp.transform(docs[:20])).all()
        assert np.isfinite(crp.score(docs[:20]))
        assert crp.samples_[0].topic_word_counts.sum() == docs[:9].sum()
        crp.partial_fit(docs[9:12])
        assert np.isfinite(crp.log_joint_)


def test_burn_in_must_leave_a_sweep(docs):
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="burn_in=5 must be less than max_iter=5"):
            getattr(sequential(max_iter=5, burn_in=5), method)(docs)


def test_callback_sees_the_model_of_each_sweep(docs, X_test):
    monitor = HeldOutMonitor(X_test, every=5)
    crp = sequential(max_iter=20, random_state=0).set_callbacks(monitor).fit(docs)
    assert monitor.history_["step"] == [5, 10, 15, 20]
    assert monitor.history_["score"][-1] == crp.score(X_test)


def test_memory_of_a_chain_is_small_in_a_pickle(docs):
    crp = sequential(max_iter=2, random_state=0).fit(docs)
    # A byte for the level of a token, 4 for each node that a document walks.
    assert len(pickle.dumps(crp._chains)) < docs.sum() + 3 * 4 * 60 + 4000


def test_indices_of_64_bits_give_the_same_bits(docs):
    docs = docs[:40]
    wide = sp.csr_array(docs)
    wide.indices, wide.indptr = (
        wide.indices.astype(np.int64),
        wide.indptr.astype(np.int64),
    )
    one = sequential(max_iter=2, random_state=0).fit(docs)
    two = sequential(max_iter=2, random_state=0).fit(wide)
    assert_same(learned(one), learned(two))


def test_documents_without_tokens_go_on_from_a_tree(model, docs):
    nothing = sp.csr_array((5, docs.shape[1]))
    gone_on = copy_of(model).set_params(warm_start=True, max_iter=5).fit(nothing)
    started = GibbsNestedCRP(max_iter=5, **(CHAIN | {"init": model})).fit(nothing)
    for crp in (gone_on, started):
        assert crp.n_components_ == 1
        np.testing.assert_array_equal(crp.transform(docs), 1.0)
    assert gone_on.fit(docs).n_components_ > 1
