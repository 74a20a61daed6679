"""The HDP with sticks: bound term by term, updates, natural gradients, evidence."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betaln, gammaln, logsumexp, psi, xlogy

from reference import hdp_sticks as reference
from skbnp.components.word_topics import WordTopics
from skbnp.inference.engine import DocumentStarts, Learner, RunningAverage
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import (
    BatchSchedule,
    Corpus,
    DocumentLocalStep,
    LocalStop,
    StepInput,
    Visit,
)
from skbnp.models.hdp_sticks import StickHDP, StickState, Tables, TableStep
from skbnp.rows.batch import Batch
from skbnp.utils.arrays import rows_of

EXACT = LocalStop(300, 1e-8)
TABLES = 4


def make_posterior(rng, n_topics=5, n_words=12, learned=True, n_tables=TABLES):
    state = StickState(
        tables=rng.gamma(2.0, 5.0, size=n_topics),
        doc_concentration=rng.gamma(2.0, 0.5),
        corpus_concentration=rng.gamma(2.0, 0.5),
        topic_word_prior=0.1,
    )
    model = StickHDP(n_tables, learned, learned, (2.0, 0.5), (1.5, 2.0))
    words = WordTopics(rng.gamma(0.3, 10.0, size=(n_words, n_topics)))
    ids = np.arange(n_topics)
    return Posterior(model, state, model.start(state, words), ids, [])


def make_counts(rng, n_docs=14, n_words=12):
    counts = rng.poisson(rng.gamma(0.3, 3.0, size=(n_docs, n_words))).astype(float)
    counts *= rng.choice([1.0, 0.5], size=counts.shape)
    counts[:, 0] += counts.sum(axis=1) == 0
    return counts


def batch_learner(posterior, X, stop, executor):
    """Passes whose documents start from where they ended."""
    local_step = DocumentLocalStep(stop, executor, TableStep)
    memory = RunningAverage(DocumentStarts())
    schedule = BatchSchedule.of_rows(X.shape[0])
    return Learner(posterior, Corpus(X), schedule, local_step, memory)


class Visited:
    """What a visit found, dense."""

    def __init__(self, posterior, counts, remembered=None):
        self.posterior, self.counts, state = posterior, counts, posterior.state
        with Executor(1) as executor:
            batch = Batch.from_counts(sp.csr_array(counts), state.n_components)
            cold = StepInput(posterior, batch, EXACT, executor)
            given = replace(cold, visit=Visit(remembered=remembered))
            self.result = TableStep.prepare(given).collect(given)
            visited = TableStep.prepare(cold).visit(batch.blocks, executor)
            tables = Tables.joined(list(visited))
        n_tables = posterior.model.n_tables
        self.phis, self.zetas, at = [], [], 0
        prior = np.exp(state.log_weights - logsumexp(state.log_weights))
        for row, words in enumerate(counts > 0):
            first, last = tables.limits[row], tables.limits[row + 1]
            phi, n = np.tile(prior, (n_tables, 1)), words.sum()
            zeta = np.zeros((counts.shape[1], n_tables))
            used = last - first
            part = tables.zeta[at : at + n * used].reshape(n, used)
            zeta[np.ix_(words, np.arange(used))] = part
            at += n * used
            for t in range(used):
                entries = slice(tables.served[first + t], tables.served[first + t + 1])
                phi[t] = 0.0
                phi[t, tables.topics[entries]] = tables.phi[entries]
            self.phis.append(phi)
            self.zetas.append(zeta)

    def terms(self, alpha, gamma, eta, alpha_at_visit, order_of_sticks):
        """The whole bound by the twin, topics and corpus sticks at their optimum."""
        topics = reference.topic_counts(self.counts, self.zetas, self.phis)
        tables = sum(phi.sum(axis=0) for phi in self.phis)
        order = order_of_sticks
        u, v = reference.corpus_sticks(tables[order], gamma)
        log_beta = np.empty(len(order))
        log_beta[order] = reference.log_weights(u, v)
        lam = eta + topics
        logs = (psi(lam) - psi(lam.sum(axis=1, keepdims=True))).T
        total = {"weights": reference.corpus_stick_terms(gamma, u, v)}
        total["words"] = reference.topic_terms(eta, lam)
        for counts, phi, zeta in zip(self.counts, self.phis, self.zetas, strict=True):
            a, b = reference.doc_sticks(counts, zeta, alpha_at_visit)
            parts = reference.document_terms(
                counts, logs, log_beta, alpha, phi, zeta, a, b
            )
            parts["assignments"] += parts.pop("sticks")
            for name, value in parts.items():
                total[name] = total.get(name, 0.0) + value
        return total


def fitted_global_stats(posterior, result):
    """Totals of a batch, and the state that is best for them."""
    global_stats = posterior.model.start(
        posterior.state, posterior.global_stats.topic_words
    )
    global_stats.decay(0.0)
    global_stats.add(result.stats, 1.0)
    return global_stats, posterior.model.update(posterior.state, global_stats)


def check_terms(got, expected):
    for name, value in expected.items():
        assert_allclose(got[name], value, rtol=1e-9, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("n_tables", [1, 2, 6])
@pytest.mark.parametrize("n_topics", [1, 2, 5])
def test_bound_equals_its_twin_term_by_term(n_topics, n_tables, seed):
    rng = np.random.default_rng([seed, n_topics, n_tables])
    posterior = make_posterior(rng, n_topics, n_tables=n_tables)
    visited = Visited(posterior, make_counts(rng))
    global_stats, state = fitted_global_stats(posterior, visited.result)
    got = posterior.model.objective(state, global_stats)
    alpha, gamma = state.doc_concentration, state.corpus_concentration
    at = posterior.state.doc_concentration
    eta = state.topic_word_prior
    expected = visited.terms(alpha, gamma, eta, at, state.by_stick)
    check_terms(got, expected)
    global_stats.table_entropy += 1e-3
    with pytest.raises(AssertionError):
        check_terms(posterior.model.objective(state, global_stats), expected)
    assert_allclose(got["doc_concentration"], 0.5 * np.log(alpha) - 2.0 * alpha)
    assert_allclose(got["corpus_concentration"], np.log(gamma) - 0.5 * gamma)


@pytest.mark.parametrize("case", range(3))
def test_updates_never_lower_the_bound(case, seed):
    rng = np.random.default_rng([seed, case])
    posterior = make_posterior(rng)
    model = posterior.model
    visited = Visited(posterior, make_counts(rng))
    global_stats, state = fitted_global_stats(posterior, visited.result)

    def bound(state):
        return sum(model.objective(state, global_stats).values())

    last = bound(state)
    for _ in range(5):
        for change in (model.update, lambda *args: model.learn_priors(*args)[1]):
            state = change(state, global_stats)
            now = bound(state)
            assert now >= last - 1e-9 * abs(last)
            last = now


def test_visits_do_not_depend_on_parts_or_blocks(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    posterior, counts = make_posterior(rng), make_counts(rng, n_docs=50)
    expected = Visited(posterior, counts).result.stats
    monkeypatch.setattr("skbnp.models.hdp_sticks.PART_SIZE", 7)
    parts = Visited(posterior, counts).result
    for name in ("tables", "table_entropy", "entropy", "log_left", "stick_offset"):
        assert_allclose(getattr(parts.stats, name), getattr(expected, name), rtol=1e-12)
    assert_allclose(
        parts.stats.topic_words.values.toarray(),
        expected.topic_words.values.toarray(),
        rtol=1e-12,
    )
    batch = Batch.from_counts(sp.csr_array(counts), posterior.state.n_components)
    assert len(list(batch.parts(7))) > 1


# Sticks -------------------------------------------------------------------------------


def value_of_order(state, order):
    u, v = reference.corpus_sticks(state.tables[order], state.corpus_concentration)
    tables = state.tables[order] @ reference.log_weights(u, v)
    return tables + reference.corpus_stick_terms(state.corpus_concentration, u, v)


@pytest.mark.parametrize("gamma", [0.2, 1.0, 4.0, 30.0])
def test_no_order_of_the_sticks_is_better(gamma, seed):
    """Of those with the same last stick, where that may be worth a detour."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        state = make_posterior(rng, 5).state
        state = replace(state, corpus_concentration=gamma)
        last = state.by_stick[-1]
        values = [
            value_of_order(state, list(order))
            for order in itertools.permutations(range(5))
            if order[-1] == last or gamma <= 1.0
        ]
        assert value_of_order(state, state.by_stick) >= max(values) - 1e-9


@pytest.mark.parametrize("gamma", [0.2, 1.0, 4.0, 30.0])
def test_an_update_finds_no_worse_order_than_there_was(gamma, seed):
    rng, kept = np.random.default_rng(seed), set()
    for _ in range(100):
        posterior = make_posterior(rng, 5, learned=False)
        state = replace(posterior.state, corpus_concentration=gamma)
        stats = replace(
            posterior.global_stats, tables=state.tables * rng.gamma(3.0, 0.3, 5)
        )
        new = posterior.model.update(state, stats)
        value = value_of_order(new, new.by_stick)
        assert value >= value_of_order(new, state.by_stick) - 1e-9
        assert value >= value_of_order(new, new.order) - 1e-9
        kept.add(bool(new.by_stick[-1] == new.order[-1]))
    assert kept == ({True} if gamma <= 1.0 else {True, False})


def test_natural_gradients_are_fisher_inverse_times_gradient(seed):
    """Eqs. (22) to (24): what a step of online learning adds, by finite differences."""
    rng = np.random.default_rng(seed)
    posterior = make_posterior(rng, learned=False)
    model, state = posterior.model, posterior.state
    state = replace(state, tables=np.sort(state.tables)[::-1].copy())
    posterior.state, scale, step = state, 7.0, 0.3
    visited = Visited(posterior, make_counts(rng))
    stats = visited.result.stats
    gamma, eta = state.corpus_concentration, state.topic_word_prior

    def bound(lam, u, v):
        """Terms in which topics and sticks occur, for a corpus `scale` times that."""
        logs = psi(lam) - psi(lam.sum(axis=1, keepdims=True))
        rows = stats.topic_words
        counts = np.zeros(lam.shape)
        counts[:, rows.words] = rows.values.toarray().T
        value = scale * (counts * logs).sum() + reference.topic_terms(eta, lam)
        value += scale * stats.tables @ reference.log_weights(u, v)
        return value + reference.corpus_stick_terms(gamma, u, v)

    def gradient(function, x):
        moved = np.zeros_like(x)
        for index in np.ndindex(*x.shape):
            h = 1e-5 * x[index]
            up, down = x.copy(), x.copy()
            up[index] += h
            down[index] -= h
            moved[index] = (function(up) - function(down)) / (2.0 * h)
        return moved

    def fisher(x):
        """Of a Dirichlet distribution."""
        from scipy.special import polygamma

        return np.diag(polygamma(1, x)) - polygamma(1, x.sum())

    lam = eta + posterior.global_stats.topic_words.dense().T
    u, v = reference.corpus_sticks(state.tables, gamma)
    by_topics = gradient(lambda x: bound(x, u, v), lam)
    by_u = gradient(lambda x: bound(lam, x, v), u)
    by_v = gradient(lambda x: bound(lam, u, x), v)
    new = model.blend(state, model.update(state, stats, scale), step)
    posterior.global_stats.decay(1.0 - step)
    posterior.global_stats.add(stats, step * scale)
    new_lam = eta + posterior.global_stats.topic_words.dense().T
    for row in range(len(lam)):
        expected = step * np.linalg.solve(fisher(lam[row]), by_topics[row])
        assert_allclose(new_lam[row] - lam[row], expected, rtol=1e-4, atol=1e-5)
    # Sticks keep their order here: u = 1 + m, v = gamma + what is behind.
    new_u, new_v = reference.corpus_sticks(new.tables, gamma)
    for k in range(len(u)):
        information = fisher(np.array([u[k], v[k]]))
        expected = step * np.linalg.solve(information, [by_u[k], by_v[k]])
        moved = [new_u[k] - u[k], new_v[k] - v[k]]
        assert_allclose(moved, expected, rtol=1e-4, atol=1e-5)


# Evidence -----------------------------------------------------------------------------


def log_evidence(docs, n_words, n_topics, n_tables, alpha, gamma, eta):
    """Of the truncated model, summed over all topics of tables and tables of words."""

    def sticks(counts, concentration):
        behind = reference.later(counts)
        ahead = 1.0 + counts[:-1]
        return (np.log(concentration) + betaln(ahead, concentration + behind)).sum()

    words = np.concatenate(docs)
    doc_of = np.repeat(np.arange(len(docs)), [len(doc) for doc in docs])
    values = []
    for served in itertools.product(range(n_topics), repeat=len(docs) * n_tables):
        served = np.reshape(served, (len(docs), n_tables))
        prior = sticks(np.bincount(served.ravel(), minlength=n_topics) * 1.0, gamma)
        for seats in itertools.product(range(n_tables), repeat=len(words)):
            seats = np.array(seats)
            value = prior
            for doc in range(len(docs)):
                held = np.bincount(seats[doc_of == doc], minlength=n_tables) * 1.0
                value += sticks(held, alpha)
            topic = served[doc_of, seats]
            for k in range(n_topics):
                held = np.bincount(words[topic == k], minlength=n_words)
                value += gammaln(eta + held).sum() - gammaln(n_words * eta + held.sum())
                value += gammaln(n_words * eta) - n_words * gammaln(eta)
            values.append(value)
    return logsumexp(values)


@pytest.mark.parametrize("concentrations", [(0.4, 0.7), (1.0, 1.0), (3.0, 2.0)])
@pytest.mark.parametrize("spoil", [False, True])
def test_bound_is_below_the_evidence_of_the_truncated_model(
    concentrations, spoil, seed
):
    """Over converged fits; a divergence of the wrong sign (the control) lifts it."""
    alpha, gamma = concentrations
    docs, n_words, eta = [np.array([0, 0, 1]), np.array([2, 2])], 3, 0.3
    counts = np.array([np.bincount(doc, minlength=n_words) for doc in docs], float)
    evidence = log_evidence(docs, n_words, 2, 2, alpha, gamma, eta)
    best = -np.inf
    for start in range(4):
        rng = np.random.default_rng([seed, start])
        posterior = make_posterior(rng, 2, n_words, learned=False, n_tables=2)
        posterior.state = replace(
            posterior.state,
            doc_concentration=alpha,
            corpus_concentration=gamma,
            topic_word_prior=eta,
        )
        with Executor(1) as executor:
            learner = batch_learner(posterior, sp.csr_array(counts), EXACT, executor)
            for _ in range(30):
                learner.one_pass(Monitor(new_history()))
        terms = posterior.model.objective(posterior.state, posterior.global_stats)
        if spoil:
            lam = eta + posterior.global_stats.topic_words.dense().T
            terms["words"] -= 2.0 * reference.topic_terms(eta, lam)
        best = max(best, sum(terms.values()))
    assert (best < evidence) == (not spoil)
    if not spoil:
        assert best > evidence - 4.0  # mean field loses some, not all


# Edits --------------------------------------------------------------------------------


def test_merged_tables_and_words_add_up(seed):
    rng = np.random.default_rng(seed)
    posterior = make_posterior(rng)
    held, tables = (
        posterior.global_stats.topic_words.dense(),
        posterior.global_stats.tables.copy(),
    )
    state, global_stats = posterior.model.merge(
        posterior.state, posterior.global_stats, [(1, 3)]
    )
    order = [0, 4, 2, 3]
    expected = held.copy()
    expected[:, 3] += held[:, 1]
    assert_allclose(global_stats.topic_words.dense(), expected[:, order])
    tables[3] += tables[1]
    assert_array_equal(global_stats.tables, tables[order])
    assert_array_equal(state.tables, tables[order])


def pair_bound(visited, pair, state):
    """Words, tables and weights of the bound by the twin, with two topics as one."""
    source, target = pair
    for phi in visited.phis:
        phi[:, target] += phi[:, source]
    visited.phis = [np.delete(phi, source, axis=1) for phi in visited.phis]
    tables = sum(phi.sum(axis=0) for phi in visited.phis)
    gamma, eta = state.corpus_concentration, state.topic_word_prior
    topics = reference.topic_counts(visited.counts, visited.zetas, visited.phis)
    order = np.argsort(-tables, kind="stable")
    u, v = reference.corpus_sticks(tables[order], gamma)
    value = reference.corpus_stick_terms(gamma, u, v)
    value += (gammaln(eta + topics) - gammaln(eta)).sum()
    whole = eta * topics.shape[1]
    value -= (gammaln(whole + topics.sum(axis=1)) - gammaln(whole)).sum()
    value += tables[order] @ reference.log_weights(u, v)
    value -= sum(reference.plogp(phi) for phi in visited.phis)
    return value


@pytest.mark.parametrize("is_equal", [False, True])
def test_gain_of_a_merge_is_a_bound_of_that_of_the_twin(is_equal, seed):
    """Lower by the entropy of tables that two topics share, and by no more."""
    rng = np.random.default_rng([seed, is_equal])
    posterior, pair = make_posterior(rng), (1, 3)
    if is_equal:
        words = posterior.global_stats.topic_words.dense()
        words[:, 3] = words[:, 1]
        posterior.global_stats.topic_words = WordTopics(words)
    visited = Visited(posterior, make_counts(rng))
    global_stats, state = fitted_global_stats(posterior, visited.result)
    model = posterior.model
    terms = model.objective(state, global_stats)
    before = sum(terms[name] for name in ("words", "tables", "weights"))
    found = model.merge_gains(state, global_stats, [pair, (0, 2)])
    lost = sum(
        reference.plogp(phi[:, 1] + phi[:, 3]) - reference.plogp(phi[:, [1, 3]])
        for phi in visited.phis
    )
    one, other = global_stats.tables[list(pair)]
    most = xlogy(one + other, one + other) - xlogy(one, one) - xlogy(other, other)
    assert 0.0 <= lost <= most
    exact = pair_bound(visited, pair, state) - before
    assert_allclose(found[0], exact + lost - most, rtol=1e-8, atol=1e-7)
    assert found[0] != pytest.approx(found[1])


def test_tables_of_some_documents_and_of_merged_topics(seed):
    rng = np.random.default_rng(seed)
    tables = Visited(make_posterior(rng), make_counts(rng)).result.cache
    columns = np.array([0, 1, 2, 1, 3])
    joined = tables.with_columns(columns)
    parts = [joined.of_documents(slice(*rows)) for rows in ((0, 5), (5, 5), (5, 14))]
    again = Tables.joined(parts)
    for name in ("limits", "tokens", "served", "topics", "phi"):
        assert_array_equal(getattr(again, name), getattr(joined, name))
    expected = np.zeros((len(tables.tokens), 4))
    np.add.at(expected, (rows_of(tables.served), columns[tables.topics]), tables.phi)
    found = sp.csr_array((joined.phi, joined.topics, joined.served), expected.shape)
    assert_allclose(found.toarray(), expected)
    assert (np.diff(parts[2].limits) > 0).any()
