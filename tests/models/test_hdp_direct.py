"""The model's objective and updates against brute force and first principles."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

from checks.posteriors import posterior_of, responsibilities
from reference import hdp_direct as reference
from skbnp.components.known_topics import TopicPriors
from skbnp.components.topics import log_marginal, update_topic_prior
from skbnp.components.word_topics import SeenWords, WordRows, WordTopics
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import discarding
from skbnp.inference.protocols import (
    BatchSchedule,
    Corpus,
    DocumentLocalStep,
    LocalStop,
    StepInput,
    Visit,
)
from skbnp.models.hdp import model as hdp_direct
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.model import (
    DirectHDP,
    HDPState,
    update_corpus_concentration,
    update_doc_concentration,
    update_weights,
)
from skbnp.models.hdp.posterior import PartCache
from skbnp.rows.batch import Batch

EXACT = LocalStop(max_iter=50, tol=1e-9)


def random_corpus(rng, n_docs=8, n_words=12, mean=1.0):
    counts = rng.poisson(mean, size=(n_docs, n_words)).astype(float)
    counts[:, 0] += counts.sum(axis=1) == 0
    return counts


def random_state(rng, n_topics):
    return HDPState(
        weights=rng.dirichlet(np.full(n_topics + 1, 2.0)),
        doc_concentration=rng.gamma(2.0, 1.0) + 0.1,
        corpus_concentration=rng.gamma(2.0, 1.0) + 0.1,
        topic_word_prior=rng.choice([0.02, 0.1, 0.7]),
    )


def random_posterior(rng, n_topics, n_words, *, learn=True):
    model = DirectHDP(learn_concentrations=learn, learn_topic_prior=learn)
    state = random_state(rng, n_topics)
    return posterior_of(state, rng.gamma(0.5, 4.0, size=(n_words, n_topics)), model)


def collected(posterior, counts):
    """Statistics of a corpus under the posterior, and its brute-force r."""
    batch = Batch.from_counts(sp.csr_array(counts))
    with Executor(1) as executor:
        visit = Visit(block_hook=copy.copy)
        given = StepInput(posterior, batch, EXACT, executor, visit)
        result = DocumentStep.prepare(given).collect(given)
    r = responsibilities(result.seen, counts.shape, posterior.state.n_components)
    return result.stats, result.doc_topic, result.n_tokens, list(r)


def as_global_stats(fresh, n_words):
    """The statistics of a visit as the totals of a corpus."""
    rows = fresh.topic_words
    dense = np.zeros((n_words, rows.values.shape[1]))
    dense[rows.words] = rows.values.toarray()
    return replace(fresh, topic_words=WordTopics(dense))


def check_terms(got, expected):
    for name in ("words", "assignments", "entropy", "weights"):
        assert_allclose(got[name], expected[name], rtol=1e-8, atol=1e-7, err_msg=name)


# Objective --------------------------------------------------------------------------


@pytest.mark.parametrize("n_topics", [1, 2, 5])
def test_each_term_of_the_objective_equals_brute_force(n_topics, seed):
    rng = np.random.default_rng([seed, n_topics])
    counts = random_corpus(rng)
    posterior = random_posterior(rng, n_topics, counts.shape[1])
    fresh, _, _, r = collected(posterior, counts)
    state = posterior.state
    got = posterior.model.objective(state, as_global_stats(fresh, counts.shape[1]))
    check_terms(
        got,
        reference.profile_terms(
            counts,
            r,
            state.weights,
            state.doc_concentration,
            state.corpus_concentration,
            state.topic_word_prior,
        ),
    )


def bound_by_brute_force(posterior, counts, r):
    """Group the four terms of the full objective as the model names them."""
    state = posterior.state
    doc_topic, _ = reference.sufficient_statistics(counts, r)
    theta = np.column_stack([doc_topic, np.zeros(len(counts))])
    theta += state.doc_concentration * state.weights
    lam = posterior.global_stats.topic_words.dense().T + state.topic_word_prior
    terms = reference.elbo_terms(
        counts,
        r,
        theta,
        lam,
        state.weights,
        state.doc_concentration,
        state.corpus_concentration,
        state.topic_word_prior,
    )
    log_phi = reference.expected_log_topics(lam).T
    log_pi = psi(theta) - psi(theta.sum(axis=1, keepdims=True))
    words = sum(
        (row[:, None] * part * log_phi).sum()
        for row, part in zip(counts, r, strict=True)
    )
    assigned = (doc_topic * log_pi[:, :-1]).sum()
    return {
        "words": words + terms["phi"],
        "assignments": assigned + terms["pi"],
        "entropy": terms["z"] - words - assigned,
        "weights": terms["beta"],
    }


@pytest.mark.parametrize("n_topics", [1, 2, 5])
def test_each_term_of_the_bound_of_other_documents_equals_brute_force(n_topics, seed):
    rng = np.random.default_rng([seed, n_topics])
    counts = random_corpus(rng)
    posterior = random_posterior(rng, n_topics, counts.shape[1])
    fresh, _, _, r = collected(posterior, counts)
    got = posterior.model.bound(
        posterior.state, posterior.global_stats.topic_words, fresh
    )
    want = bound_by_brute_force(posterior, counts, r)
    check_terms(got, want)
    with pytest.raises(AssertionError, match="words"):
        check_terms(got | {"words": 1.00001 * got["words"]}, want)


# Ascent -----------------------------------------------------------------------------


def check_never_falls(trace, scale):
    """Falls are rounding: 1e-9 of the bound, and 1e-9 tokens dropped per topic."""
    falls = -np.diff(trace)
    assert falls.max() <= 1e-8 * scale, f"fell by {falls.max():.2e} of {scale:.2e}"


def ascent(rng, learn, n_passes=8):
    """Objective after every pass of a small batch fit, in nats."""
    counts = random_corpus(rng, n_docs=10, n_words=15, mean=rng.choice([0.3, 2.0]))
    posterior = random_posterior(rng, int(rng.integers(1, 7)), 15, learn=learn)
    # A prior that pins the corpus concentration: each value has a scale of its own.
    posterior.model = replace(posterior.model, corpus_prior=(1e15, 1e15))
    posterior.state = replace(posterior.state, corpus_concentration=1.0)
    corpus = Corpus(sp.csr_array(counts))
    local_step = DocumentLocalStep(EXACT, Executor(1), DocumentStep)
    schedule = BatchSchedule.of_rows(corpus.n_docs)
    learner = Learner(posterior, corpus, schedule, local_step, PartCache())
    trace = []
    for _ in range(n_passes):
        learner.one_pass(discarding())
        trace.append(sum(posterior.objective().values()) * counts.sum())
    return trace


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("corpus", range(5))
def test_the_objective_never_falls(corpus, learn, seed):
    trace = ascent(np.random.default_rng([seed, corpus]), learn)
    check_never_falls(trace, abs(trace[0]))


@pytest.mark.parametrize("corpus", range(4))
def test_the_tangent_bound_lies_below_the_objective(corpus, seed):
    rng = np.random.default_rng([seed, corpus])
    counts = random_corpus(rng)
    posterior = random_posterior(rng, 4, counts.shape[1])
    fresh, doc_topic, n_tokens, _ = collected(posterior, counts)
    global_stats, model = as_global_stats(fresh, counts.shape[1]), posterior.model
    for _ in range(20):
        state = replace(
            posterior.state,
            weights=rng.dirichlet(np.ones(5)),
            doc_concentration=rng.gamma(1.0, 2.0) + 0.01,
        )
        tight = model.statistics(
            state, global_stats.topic_words, global_stats.entropy, doc_topic, n_tokens
        )
        outdated = model.objective(state, global_stats)["assignments"]
        assert outdated <= model.objective(state, tight)["assignments"] + 1e-9
        assert_allclose(
            outdated,
            reference.surrogate_T(
                doc_topic.toarray(),
                posterior.state.doc_prior,
                state.weights,
                state.doc_concentration,
                posterior.state.doc_concentration,
            ),
            rtol=1e-9,
            atol=1e-8,
        )


# Updates ----------------------------------------------------------------------------


def refreshed_weights(doc_topic, state, n_rounds):
    """The model's update of the weights with fresh tangents, iterated."""
    model = DirectHDP(learn_concentrations=False, learn_topic_prior=False)
    rows = WordRows(np.zeros(0, np.intp), sp.csr_array((0, doc_topic.shape[1])))
    for _ in range(n_rounds):
        stats = model.statistics(
            state,
            rows,
            np.zeros(doc_topic.shape[1]),
            sp.csr_array(doc_topic),
            doc_topic.sum(axis=1),
        )
        state = replace(state, weights=update_weights(state, stats))
    return state.weights


def random_doc_topic(rng, n_docs=40, n_topics=5):
    """Integer counts with many zeros, every topic used."""
    counts = rng.poisson(rng.gamma(0.3, 8.0, size=(n_docs, n_topics))).astype(float)
    counts[0] += 1.0
    return counts


def test_weights_reach_the_optimum_of_a_search(seed):
    rng = np.random.default_rng(seed)
    doc_topic, state = random_doc_topic(rng), random_state(rng, 5)
    alpha, gamma = state.doc_concentration, state.corpus_concentration
    paper = reference.weights_by_search(doc_topic, alpha, gamma, state.weights)
    assert_allclose(refreshed_weights(doc_topic, state, 60), paper, atol=1e-4)
    value = reference.weights_objective(
        doc_topic, refreshed_weights(doc_topic, state, 60), alpha, gamma
    )
    best = reference.weights_objective(doc_topic, paper, alpha, gamma)
    assert value >= best - 1e-7 * abs(best)


def test_the_document_concentration_reaches_its_optimum(seed):
    rng = np.random.default_rng(seed)
    doc_topic, state = random_doc_topic(rng), random_state(rng, 5)
    model = DirectHDP(learn_concentrations=True, learn_topic_prior=False)
    rows = WordRows(np.zeros(0, np.intp), sp.csr_array((0, 5)))
    for _ in range(200):
        stats = model.statistics(
            state, rows, np.zeros(5), sp.csr_array(doc_topic), doc_topic.sum(axis=1)
        )
        alpha = update_doc_concentration(state, stats, 1.0, (2.0, 0.5))
        state = replace(state, doc_concentration=alpha)
    best = reference.concentration_by_search(doc_topic, state.weights, (2.0, 0.5))
    assert_allclose(state.doc_concentration, best, rtol=1e-4)


def test_the_topic_prior_reaches_its_optimum(seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.2, 5.0, size=(30, 4))).astype(float)
    model = DirectHDP(learn_concentrations=False, learn_topic_prior=True)
    state = random_state(rng, 4)
    global_stats = model.start(state, WordTopics(counts))
    for _ in range(500):
        state = replace(
            state,
            topic_word_prior=update_topic_prior(
                global_stats.topic_words, state.topic_word_prior
            ),
        )
    best = reference.topic_prior_by_search(counts.T)
    assert_allclose(state.topic_word_prior, best, rtol=1e-4)


def test_the_corpus_concentration_maximises_its_posterior(seed):
    """Stick density of the weights times Gamma(shape, rate), on a grid."""
    rng = np.random.default_rng(seed)
    state, (shape, rate) = random_state(rng, 6), (2.0, 3.0)
    grid = np.linspace(0.01, 20, 200_001)
    log_density = (6 + shape - 1) * np.log(grid) + grid * np.log(state.weights[-1])
    best = grid[np.argmax(log_density - rate * grid)]
    assert_allclose(update_corpus_concentration(state, (shape, rate)), best, atol=1e-4)


# Edits ------------------------------------------------------------------------------


def pieces(posterior, counts):
    """Totals of a visit, the brute-force r, and the same with topics 0 and 2 merged."""
    fresh, _, _, r = collected(posterior, counts)
    joined = [part.copy() for part in r]
    for part in joined:
        part[:, 0] += part[:, 2]
    return as_global_stats(fresh, counts.shape[1]), [
        np.delete(p, 2, axis=1) for p in joined
    ]


@pytest.mark.parametrize("corpus", range(6))
def test_the_bound_after_a_merge_lies_below_the_exact_one(corpus, seed):
    rng = np.random.default_rng([seed, corpus])
    counts = random_corpus(rng)
    posterior = random_posterior(rng, 4, counts.shape[1])
    global_stats, merged_r = pieces(posterior, counts)
    model = posterior.model
    state, merged = model.merge(posterior.state, global_stats, [(2, 0)])
    got = model.objective(state, merged)
    exact = reference.profile_terms(
        counts,
        merged_r,
        state.weights,
        state.doc_concentration,
        state.corpus_concentration,
        state.topic_word_prior,
    )
    for name in ("words", "weights"):
        assert_allclose(got[name], exact[name], rtol=1e-9)
    for name in ("assignments", "entropy"):
        assert got[name] <= exact[name] + 1e-9
    assert merged.entropy.min() >= 0.0


# Weights ------------------------------------------------------------------------------


def random_weights_problem(rng):
    """Weights to start from, concentrations, and sums over documents of any size."""
    n_topics = int(rng.integers(1, 30))
    x = 10.0 ** rng.uniform(-6, 2, size=n_topics)
    used = np.round(10.0 ** rng.uniform(0, 4, size=n_topics))
    used[rng.random(n_topics) < 0.2] = 0.0
    used[0] += 1.0
    zeros = np.zeros(n_topics)
    stats = hdp_direct.HDPStats(
        None, zeros, used, used * psi(x) + used, zeros, 0.0, 0.0, 1.0
    )
    weights = rng.dirichlet(10.0 ** rng.uniform(-2, 1, size=n_topics + 1)) + 1e-8
    alpha, gamma = 10.0 ** rng.uniform(-4, 4, size=2)
    return HDPState(weights / weights.sum(), alpha, gamma, 0.1), stats


def check_root(solve, state, stats):
    """The shares that the solver ends at sum to one."""
    seen = []

    def remembered(shares, start, low):
        root = solve(shares, start, low)
        seen.append(shares(root)[0].sum())
        return root

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdp_direct, "_root_of_shares", remembered)
        hdp_direct.update_weights(state, stats)
    assert_allclose(seen, 1.0, rtol=1e-8)


def test_weights_are_a_root_whatever_the_start(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        check_root(hdp_direct._root_of_shares, *random_weights_problem(rng))


# Word weights -----------------------------------------------------------------------


def test_word_weights_are_those_of_equation_3(seed):
    rng = np.random.default_rng(seed)
    posterior = random_posterior(rng, 4, 20)
    words = np.array([3, 7, 19])
    batch = Batch.from_counts(sp.csr_array(np.isin([range(20)], words).astype(float)))
    with Executor(1) as executor:
        given = StepInput(posterior, batch, EXACT, executor)
        got = DocumentStep.prepare(given).weights
    lam = (
        posterior.global_stats.topic_words.dense().T + posterior.state.topic_word_prior
    )
    expected = np.exp(reference.expected_log_topics(lam)).T[words]
    expected = np.maximum(expected / expected.max(axis=1, keepdims=True), 1e-20)
    check_table(got, expected)


def check_table(got, expected):
    """Single precision, and zeros that fill the last vector."""
    assert_allclose(got[:, : expected.shape[1]], expected, rtol=1e-5)
    assert not got[:, expected.shape[1] :].any()
    assert got.dtype == np.float32


# Topics that are known ----------------------------------------------------------------


def some_known(rng, n_words, eta, kind):
    """Two of four topics: seed words, or whole priors, of which one may be fixed."""
    words = np.array([1, 3, 4]) if kind == "seeds" else np.arange(n_words)
    values = rng.gamma(1.0, 2.0, size=(len(words), 2))
    is_fixed = np.array([False, kind == "fixed"])
    stats = np.zeros((2, 2))
    columns = np.array([0, 2])
    return TopicPriors(columns, words, values, is_fixed, kind != "seeds", eta, stats)


def known_posterior(rng, n_words, kind):
    posterior = random_posterior(rng, 4, n_words)
    topics = posterior.global_stats.topic_words.dense()
    known = some_known(rng, n_words, posterior.state.topic_word_prior, kind)
    words = WordTopics(topics, SeenWords.all(n_words), known)
    posterior.global_stats = posterior.model.start(posterior.state, words)
    return posterior


def as_known_totals(posterior, fresh):
    """Statistics of a visit as totals, with the boosts of their topics."""
    words = posterior.global_stats.topic_words.emptied()
    words.add(fresh.topic_words)
    return replace(fresh, topic_words=words)


KINDS = pytest.mark.parametrize("kind", ["seeds", "whole", "fixed"])


@KINDS
def test_each_term_of_the_objective_with_known_topics_equals_brute_force(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    counts = random_corpus(rng)
    posterior = known_posterior(rng, counts.shape[1], kind)
    state, words = posterior.state, posterior.global_stats.topic_words
    fresh, _, _, r = collected(posterior, counts)
    got = posterior.model.objective(state, as_known_totals(posterior, fresh))
    priors = words.priors().T
    if kind == "fixed":
        priors[2] = words.known.parameters[:, 1]
    alpha, gamma = state.doc_concentration, state.corpus_concentration
    expected = reference.profile_terms(counts, r, state.weights, alpha, gamma, priors)
    if kind == "fixed":  # phi is known: no part of it is learned
        _, stats = reference.sufficient_statistics(counts, r)
        shares = np.log(priors[2] / priors[2].sum())
        expected["words"] = stats[2] @ shares + reference.topic_part(
            np.delete(stats, 2, axis=0), np.delete(priors, 2, axis=0)
        )
    check_terms(got, expected)


@KINDS
def test_the_bound_with_known_topics_equals_brute_force(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    counts = random_corpus(rng)
    posterior = known_posterior(rng, counts.shape[1], kind)
    words, state = posterior.global_stats.topic_words, posterior.state
    fresh, _, _, r = collected(posterior, counts)
    got = posterior.model.bound(state, words, fresh)["words"]
    priors, lam = words.priors().T, words.dense().T + state.topic_word_prior
    if kind == "fixed":
        priors[2] = lam[2]
    _, stats = reference.sufficient_statistics(counts, r)
    expected = (stats * reference.expected_log_topics(lam)).sum()
    for prior, row in zip(priors, lam, strict=True):
        log_phi = psi(row) - psi(row.sum())
        expected += (prior - row) @ log_phi
        expected += reference.log_multivariate_beta(row)
        expected -= reference.log_multivariate_beta(prior)
    assert_allclose(got, expected, rtol=1e-7)


@KINDS
def test_steps_leave_the_boosts_of_known_topics(kind, seed):
    rng = np.random.default_rng(seed)
    counts = random_corpus(rng)
    posterior = known_posterior(rng, counts.shape[1], kind)
    words = posterior.global_stats.topic_words
    before, boosts = words.dense(), words.emptied().dense()
    fresh = collected(posterior, counts)[0].topic_words
    added = np.zeros_like(before)
    added[fresh.words] = fresh.values.toarray()
    added[:, words.is_fixed] = 0.0
    for keep in (0.3, 1e-9):
        words.decay(keep)
        words.add(fresh, 2.0)
        before = boosts + keep * (before - boosts) + 2.0 * added
    assert_allclose(words.dense(), before, rtol=1e-9, atol=1e-9)
    assert_allclose(words.total, words.dense().sum(axis=0), rtol=1e-9)
    words.incremental_update(fresh, fresh)
    assert_allclose(words.dense(), before, rtol=1e-9, atol=1e-9)


def test_known_topics_keep_their_columns_when_others_end(seed):
    posterior = known_posterior(np.random.default_rng(seed), 12, "whole")
    words = posterior.global_stats.topic_words
    third = words.dense()[:, 2]
    words.drop([1])
    assert_array_equal(words.known.columns, [0, 2])
    words.drop([0])  # the last takes its place
    assert_array_equal(words.known.columns, [0])
    assert_allclose(words.dense()[:, 0], third)


@KINDS
def test_the_prior_of_others_is_learned_while_the_bound_rises(kind, seed):
    rng = np.random.default_rng(seed)
    posterior = known_posterior(rng, 12, kind)
    words, eta = posterior.global_stats.topic_words, posterior.state.topic_word_prior
    new = update_topic_prior(words, eta)
    before, priors = log_marginal(words, eta).sum(), words.priors()
    words.rebase(new)
    assert log_marginal(words, new).sum() >= before - 1e-9
    moved = words.priors() - priors
    assert_allclose(moved[:, 1], new - eta)
    assert_allclose(moved[:, 0], new - eta if kind == "seeds" else 0.0, atol=1e-12)
