"""Groups of documents: the fixed point, priors of documents, columns that move."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma

from reference import hdp_groups as reference
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.models.hdp import groups as module
from skbnp.models.hdp.groups import Groups
from skbnp.utils.labels import MISSING, NEW, check_groups

NEAR = {"rtol": 1e-9}


def documents(seed, n_docs=20, n_topics=5):
    """Expected counts, two factors with missing labels, and corpus weights."""
    rng = np.random.default_rng(seed)
    n = rng.gamma(0.5, 4.0, size=(n_docs, n_topics)) * (
        rng.random((n_docs, n_topics)) < 0.7
    )
    labels = np.stack(
        [rng.choice(["a", "b", "c"], n_docs), rng.choice([1, 2], n_docs)], axis=1
    ).astype(object)
    labels[:, 1] = [int(one) for one in labels[:, 1]]
    labels[rng.random(labels.shape) < 0.2] = None
    return n, labels, rng.dirichlet(np.full(n_topics + 1, 2.0))


def started(labels, beta, alpha=0.8):
    factors = check_groups(labels, len(labels))
    state = SimpleNamespace(doc_concentration=alpha)
    posterior = SimpleNamespace(ids=np.arange(len(beta) - 1), state=state)
    groups = Groups.empty(factors.names, posterior)
    groups = groups.extended(factors)
    return groups, groups.codes(factors, len(labels))


def twin(groups, codes, n, beta, **wrong):
    numbers = [[None if one < 0 else one for one in row] for row in codes.tolist()]
    given = n, numbers, groups.factors.tolist(), beta, 0.8, module.N_ROUNDS
    return reference.learn(*given, **wrong)


def check_learned(learned, want):
    assert_allclose(learned.tables.toarray(), want.m, **NEAR)
    assert_allclose(learned.amounts, want.amounts, **NEAR)
    assert_allclose(learned.concentrations, want.a, **NEAR)
    assert_allclose(learned.doc_concentration, want.a0, **NEAR)
    assert_allclose(learned.flat[2], want.alpha, **NEAR)


def test_the_fixed_point_is_that_of_the_twin(seed):
    n, labels, beta = documents([seed, 1])
    groups, codes = started(labels, beta)
    learned = groups.learn(sp.csr_array(n), codes, beta)
    want = twin(groups, codes, n, beta)
    check_learned(learned, want)
    factor = groups.factors.tolist()
    assert_allclose(learned.weights(beta), want.weights(beta, factor), **NEAR)
    wrong = twin(groups, codes, n, beta, forgets_shares=True)
    with pytest.raises(AssertionError, match="Not equal"):
        check_learned(learned, wrong)


def test_tables_of_groups_and_of_the_corpus_are_those_of_documents(seed):
    """sum_fg M_fg + M_0 = M, where missing labels count for their factor."""
    n, labels, beta = documents([seed, 2])
    groups, codes = started(labels, beta)
    learned = groups.learn(sp.csr_array(n), codes, beta)
    assert_allclose(
        learned.amounts.sum(), twin(groups, codes, n, beta).n_tables, **NEAR
    )
    tables = np.asarray(learned.tables.sum(axis=1)).ravel()
    of_factors = np.bincount(learned.factors, tables)
    assert (of_factors < learned.amounts[1:]).all()  # the others have no label
    labels[labels == None] = "a"  # noqa: E711
    labels[:, 1] = 1
    groups, codes = started(labels, beta)
    learned = groups.learn(sp.csr_array(n), codes, beta)
    tables = np.asarray(learned.tables.sum(axis=1)).ravel()
    assert_allclose(np.bincount(learned.factors, tables), learned.amounts[1:], **NEAR)


def test_two_calls_have_the_documents_of_one(seed):
    """Tables of earlier documents stay: a group has sums over all of its documents."""
    n, labels, beta = documents([seed, 3], n_docs=40)
    groups, codes = started(labels[:, 0], beta)
    once = groups.learn(sp.csr_array(n), codes, beta)
    twice = groups.learn(sp.csr_array(n[:20]), codes[:20], beta)
    twice = twice.learn(sp.csr_array(n[20:]), codes[20:], beta)
    assert_array_equal(twice.n_docs, once.n_docs)
    assert_allclose(twice.amounts.sum(), once.amounts.sum(), rtol=0.05)
    assert_allclose(twice.tables.sum(axis=1), once.tables.sum(axis=1), rtol=0.3)
    nothing = once.learn(sp.csr_array((0, 5)), codes[:0], beta)
    assert_allclose(nothing.tables.toarray(), once.tables.toarray(), **NEAR)


def test_tables_are_near_those_of_an_enumeration():
    """Two documents of one group; without the group's level they are further away."""
    n, beta = np.array([[2, 1], [3, 0]]), np.array([0.3, 0.6, 0.1])
    groups, codes = started(np.array(["a", "a"]), beta)
    learned = groups.learn(sp.csr_array(n.astype(float)), codes, beta)
    given = learned.doc_concentration, learned.concentrations[0], learned.shares
    exact = reference.exact_tables(n, beta, *given)
    actual = learned.tables.toarray()[0]
    assert_allclose(actual, exact[1], rtol=0.2)
    assert_allclose(learned.amounts.sum(), exact.sum(), rtol=0.2)
    own = learned.weights(beta)[0, :2]
    a, total = learned.concentrations[0], exact[1].sum()
    exact_own = (a * beta[:2] + exact[1]) / (a + total)
    assert np.abs(own - exact_own).max() < 0.2 * np.abs(beta[:2] - exact_own).max()


def test_priors_of_documents_are_mixtures_by_their_labels(seed):
    n, labels, beta = documents([seed, 4])
    groups, codes = started(labels, beta)
    learned = groups.learn(sp.csr_array(n), codes, beta)
    own, w, ratio = learned.weights(beta), learned.shares, learned.ratio
    some = np.array([[0, 3], [1, NEW], [NEW, NEW], [2, MISSING], [MISSING, MISSING]])
    tokens = sp.csr_array(n[:5])
    priors = learned.priors(beta, 1.5, some, tokens)
    full = 1.5 * ratio
    assert_allclose(priors[0], full * (w[0] * beta + w[1] * own[0] + w[2] * own[3]))
    share = 1.5 * ratio ** (w[1] / (w[1] + w[2]))
    assert_allclose(priors[1], share * ((w[0] + w[2]) * beta + w[1] * own[1]))
    assert_array_equal(priors[2], 1.5 * beta)  # as without groups, bit by bit
    counts, limits = learned.n_docs, learned.limits
    q = reference.label_probabilities(
        n[3],
        ((w[0] + w[2]) * beta + w[1] * own[2])[:-1],
        (w[0] * beta + w[1] * own[2] + w[2] * own[limits[1] :])[:, :-1],
        counts[limits[1] :],
        full,
    )
    want = w[0] * beta + w[1] * own[2] + w[2] * (q @ own[limits[1] :])
    assert_allclose(priors[3], full * want, rtol=1e-5)  # q is of single precision
    assert_allclose(priors.sum(axis=1)[[0, 3, 4]], full)


def test_labels_are_inferred_by_a_bound_that_is_near_for_whole_tokens(seed):
    """The tangent of the log probability in ln b, at the shares of the document."""
    rng = np.random.default_rng([seed, 8])
    n, beta = rng.integers(1, 9, 5), rng.dirichlet(np.full(5, 2.0))
    own, a = 0.5 * beta + 0.5 * rng.dirichlet(np.full(5, 2.0), 3), 1.5
    exact = np.array([reference.log_probability(n, one, a) for one in own])
    q = reference.label_probabilities(n * 1.0, beta, own, np.zeros(3), a)
    at = n / n.sum()
    slope = a * at * (digamma(a * at + n) - digamma(a * at))
    bound = reference.log_probability(n, at, a) + slope @ np.log(own / at).T
    assert (bound <= exact + 1e-12).all()
    best = np.exp(exact - exact.max())
    assert np.abs(q - best / best.sum()).max() < 0.1


def test_tables_follow_topics_that_merge_end_and_begin():
    n, labels, beta = documents(5)
    groups, codes = started(labels, beta)
    learned = groups.learn(sp.csr_array(n), codes, beta)
    log = [
        Lineage(0, "init", (), (0, 1, 2, 3, 4)),
        Lineage(3, "merge", (4, 1), (4,)),
        Lineage(4, "prune", (2,), ()),
        Lineage(5, "birth", (), (5,)),
        Lineage(6, "merge", (0, 4), (0,)),
    ]
    posterior = Posterior(None, None, None, np.array([5, 3, 0]), log)
    tables, old = (
        learned.following(posterior).tables.toarray(),
        learned.tables.toarray(),
    )
    assert_allclose(tables[:, 0], 0.0)
    assert_allclose(tables[:, 1], old[:, 3])
    assert_allclose(tables[:, 2], old[:, 0] + old[:, 1] + old[:, 4])


def test_new_labels_are_new_groups_behind_those_of_their_factor():
    n, labels, beta = documents(6)
    groups, codes = started(labels, beta)
    learned = groups.learn(sp.csr_array(n), codes, beta)
    more = check_groups(np.array([["d", 2], ["a", 3]], dtype=object), 2)
    extended = learned.extended(more)
    assert extended.labels == (("a", "b", "c", "d"), (1, 2, 3))
    assert_array_equal(extended.codes(more, 2), [[3, 5], [0, 6]])
    kept = [0, 1, 2, 4, 5]
    assert_array_equal(extended.tables.toarray()[kept], learned.tables.toarray())
    assert_array_equal(extended.n_docs[kept], learned.n_docs)
    assert_allclose(extended.weights(beta)[[3, 6]], [beta, beta])


@pytest.mark.parametrize("shift", [0.0, 0.02])
def test_groups_are_kept_if_they_gain_two_standard_errors(shift):
    _, labels, beta = documents(7)
    groups, _ = started(labels, beta)
    assert not groups.are_kept  # nobody has judged
    rng = np.random.default_rng(0)
    n_tokens = rng.integers(5, 20, 500).astype(float)
    gains = n_tokens * (rng.normal(0.0, 0.05, 500) + shift)
    gains -= (1.0 if shift == 0.0 else 0.0) * n_tokens * gains.sum() / n_tokens.sum()
    sums = [np.ones(500), gains, gains**2, gains * n_tokens, n_tokens, n_tokens**2]
    judged = replace(groups, judged=np.array([one.sum() for one in sums]))
    rest = gains - gains.sum() / n_tokens.sum() * n_tokens
    error = np.sqrt((rest**2).sum() * 500 / 499) / n_tokens.sum()
    assert_allclose(judged.gain.error, error)
    assert judged.are_kept == (shift > 0.0)
    with pytest.raises(ValueError, match="disagree"):
        replace(groups, labels=(("a",), (1,)))
    one = started(np.array(["a"] * 20), beta)[0]
    assert not replace(one, judged=judged.judged).are_kept  # one group is the corpus
