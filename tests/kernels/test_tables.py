"""The document step with sticks against its slow twin, on random and on nasty input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi, softmax

from reference import hdp_sticks as reference
from skbnp.kernels._tables import EMPTY, infer_tables, log_weights, table_sums

TABLES = 5


class Problem:
    """Random documents and topics, dense."""

    def __init__(self, seed, n_topics=8, n_words=30, n_docs=12, *, eta=0.1, size=20):
        rng = np.random.default_rng(seed)
        self.held = rng.gamma(0.1, 40.0, size=(n_words, n_topics))
        self.eta, self.alpha = eta, rng.gamma(2.0, 0.5)
        topics = (self.held + eta) / (self.held + eta).sum(axis=0)
        shares = rng.dirichlet(np.full(n_topics, 0.3), size=n_docs)
        p = shares @ topics.T
        self.counts = np.array([rng.multinomial(size, row) for row in p]).astype(float)
        self.counts *= rng.choice([1.0, 0.5, 2.0], size=self.counts.shape)
        weights = rng.dirichlet(np.ones(n_topics))
        self.log_beta = np.log(weights) - rng.random()  # E log beta is below log E beta

    @property
    def logs(self):
        """E log phi_wk, minus the largest of each word, as the kernel takes it."""
        norm = psi(len(self.held) * self.eta + self.held.sum(axis=0))
        table = np.full(self.held.shape, np.nan, dtype=np.float32)
        rows = np.arange(len(self.held))
        log_weights(self.held, 1.0, rows, norm, self.eta, False, table)
        return table

    def sparse(self):
        rows, words = np.nonzero(self.counts)
        limits = np.searchsorted(rows, np.arange(len(self.counts) + 1))
        return (
            limits.astype(np.int32),
            words.astype(np.int32),
            self.counts[rows, words],
        )

    def run(self, n_tables=TABLES, remembered=None, max_iter=400, tol=1e-7):
        return infer_tables(
            *self.sparse(),
            self.logs,
            self.log_beta,
            self.alpha,
            n_tables,
            remembered,
            max_iter,
            tol,
        )


class Document:
    """What the kernel found in one document, dense, and its bound."""

    def __init__(self, problem, result, row, n_tables=TABLES):
        tables, tokens, limits, topics, phi, zeta = result
        self.problem, words = problem, np.flatnonzero(problem.counts[row])
        self.counts = problem.counts[row, words]
        self.logs = problem.logs[words].astype(float)
        sizes = np.diff(tables) * (problem.counts > 0).sum(axis=1)
        begin, used = sizes[:row].sum(), tables[row + 1] - tables[row]
        self.tokens = np.zeros(n_tables)
        self.tokens[:used] = tokens[tables[row] : tables[row + 1]]
        self.phi = np.tile(softmax(problem.log_beta), (n_tables, 1))
        self.zeta = np.zeros((len(words), n_tables))
        part = zeta[begin : begin + len(words) * used]
        self.zeta[:, :used] = part.reshape(len(words), used)
        for t in range(used):
            entries = slice(limits[tables[row] + t], limits[tables[row] + t + 1])
            self.phi[t] = 0.0
            self.phi[t, topics[entries]] = phi[entries]

    def bound(self, phi=None, zeta=None):
        """At the best sticks given the seats."""
        phi = self.phi if phi is None else phi
        zeta = self.zeta if zeta is None else zeta
        alpha = self.problem.alpha
        a, b = reference.doc_sticks(self.counts, zeta, alpha)
        terms = reference.document_terms(
            self.counts, self.logs, self.problem.log_beta, alpha, phi, zeta, a, b
        )
        return sum(terms.values())

    def swept(self, n_sweeps):
        """phi and zeta after sweeps of the twin from here."""
        return reference.fixed_point(
            self.counts,
            self.logs,
            self.problem.log_beta,
            self.problem.alpha,
            self.zeta,
            n_sweeps,
            np.inf,
        )


def documents(problem, result, n_tables=TABLES):
    rows = np.flatnonzero(problem.counts.sum(axis=1))
    return [Document(problem, result, row, n_tables) for row in rows]


@pytest.mark.parametrize("n_topics", [1, 7, 8, 33])
@pytest.mark.parametrize("n_tables", [1, 5, 8, 17])
def test_seats_add_up(n_topics, n_tables, seed):
    problem = Problem([seed, n_topics], n_topics)
    problem.counts[3] = 0.0
    for document in documents(problem, problem.run(n_tables), n_tables):
        assert_allclose(document.zeta.sum(axis=1), 1.0, rtol=1e-12)
        assert_allclose(document.phi.sum(axis=1), 1.0, rtol=1e-12)
        assert_allclose(document.counts @ document.zeta, document.tokens, rtol=1e-12)
        used = np.count_nonzero(document.tokens)
        assert 1 <= used <= min(n_tables, n_topics)
        # The order is that of the iteration; the last zeta may move a little. Where the
        # last stick is in use, another order may be better.
        if used < n_tables or problem.alpha <= 1.0:
            rise = np.diff(document.tokens[:used])
            assert (rise < 0.02 * document.counts.sum()).all()


def check_is_stationary(document):
    """A sweep of the twin neither moves what was found nor improves on it.

    But for the tables that are left empty: they would take some hundredths of a token
    (they had less when they were given up, but the others have moved since).
    """
    phi, zeta = document.swept(1)
    tokens = document.counts.sum()
    moved = np.abs(document.counts @ zeta - document.tokens)
    n_idle = (document.tokens == 0.0).sum()
    assert moved.max() <= 2e-3 * tokens + 10.0 * EMPTY * n_idle
    gain = document.bound(phi, zeta) - document.bound()
    assert -1e-4 * tokens <= gain <= 1e-4 * tokens + 10.0 * EMPTY * n_idle


@pytest.mark.parametrize("case", range(4))
def test_what_is_found_is_stationary(case, seed):
    problem = Problem([seed, case])
    for document in documents(problem, problem.run()):
        check_is_stationary(document)


@pytest.mark.parametrize("case", range(4))
def test_what_is_remembered_is_never_worse(case, seed):
    """Under other topics, weights and another concentration each time."""
    problem = Problem([seed, case], eta=[0.1, 1e-5][case % 2])
    rng = np.random.default_rng([seed, case])
    result = problem.run(max_iter=3)
    for _ in range(6):
        problem.held *= rng.gamma(5.0, 0.2, size=problem.held.shape)
        problem.alpha *= rng.gamma(5.0, 0.2)
        problem.log_beta = np.log(rng.dirichlet(np.ones(8)))
        held = documents(problem, result)
        # Its sticks are at their best for the new concentration.
        before = [document.bound() for document in held]
        result = problem.run(remembered=result, max_iter=3)
        after = [document.bound() for document in documents(problem, result)]
        tokens = problem.counts.sum(axis=1)
        assert (np.array(after) >= np.array(before) - 1e-5 * tokens).all()


def test_a_document_takes_up_what_it_did_not_have(seed):
    """The remembered start is stuck with one table; the new one is not."""
    problem = Problem(seed, n_docs=40)
    stuck = problem.run(n_tables=1)
    both = problem.run(remembered=stuck)
    gained = [
        new.bound() - old.bound()
        for new, old in zip(
            documents(problem, both), documents(problem, stuck), strict=True
        )
    ]
    assert np.mean(np.array(gained) > 1.0) > 0.5


@pytest.mark.parametrize("n_topics", [1, 5, 40])
def test_sums_by_word_equal_their_twin(n_topics, seed):
    problem = Problem([seed, n_topics], n_topics)
    problem.counts[5] = 0.0
    result = problem.run()
    sums = summed(problem, result)
    rows = [Document(problem, result, row) for row in range(len(problem.counts))]
    zetas = []
    for row, document in enumerate(rows):
        zeta = np.zeros((problem.counts.shape[1], TABLES))
        zeta[problem.counts[row] > 0] = document.zeta
        zetas.append(zeta)
    expected = reference.topic_counts(
        problem.counts, zetas, [document.phi for document in rows]
    )
    assert_allclose(sums, expected.T, rtol=1e-12, atol=1e-12)


def summed(problem, result, ranges=((0, 11), (11, 12), (12, 30))):
    """Sums by word of the kernel, dense."""
    tables, _, limits, topics, phi, zeta = result
    rows, words = np.nonzero(problem.counts)
    n_used = np.diff(tables)[rows]
    places = np.cumsum(n_used) - n_used
    by_word = np.lexsort((rows, words))
    columns = np.searchsorted(words[by_word], np.arange(problem.counts.shape[1] + 1))
    sums = np.zeros(problem.held.shape)
    for begin, end in ranges:
        lengths, put, values = table_sums(
            begin,
            end,
            columns.astype(np.int32),
            rows[by_word].astype(np.int32),
            problem.counts[rows, words][by_word],
            places[by_word],
            zeta,
            tables,
            limits,
            topics,
            phi,
            problem.held.shape[1],
        )
        sums[np.repeat(np.arange(begin, end), lengths), put] = values
        assert (
            np.diff(np.repeat(np.arange(end - begin), lengths) * 1000 + put) > 0
        ).all()
    return sums


# Nasty documents ----------------------------------------------------------------------


# Log weights --------------------------------------------------------------------------


@pytest.mark.parametrize("n_topics", [1, 7, 8, 17])
@pytest.mark.parametrize("eta", [1e-5, 0.05, 3.0])
@pytest.mark.parametrize("mean", [False, True])
def test_log_weights_equal_their_twin(n_topics, eta, mean, seed):
    rng = np.random.default_rng([seed, n_topics])
    held = rng.gamma(0.2, 30.0, size=(20, n_topics)) * (rng.random((20, 1)) < 0.8)
    total = held.sum(axis=0) + 20 * eta
    words = np.array([3, 3, 0, 19])
    norm = np.log(total) if mean else psi(total)
    table = np.full((4, -(-n_topics // 8) * 8), np.nan, dtype=np.float32)
    padded = np.column_stack([4.0 * held, np.full(20, np.nan)])
    log_weights(padded, 0.25, words, norm, eta, mean, table)
    expected = (np.log if mean else psi)(held[words] + eta) - norm
    expected -= expected.max(axis=1, keepdims=True)
    scale = 1e-6 * max(1.0, 1.0 / eta)
    assert_allclose(table[:, :n_topics], expected, rtol=1e-6, atol=1e-7 * scale + 1e-6)
    assert_array_equal(table[:, n_topics:], 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_docs": 5}, "the same documents"),
        ({"n_topics": 6}, "columns of logs"),
        ({"drop": 4}, "disagree"),
        ({"n_tables": 1}, "more tables"),
    ],
)
def test_what_is_remembered_must_fit(change, message):
    held, change = list(Problem(0).run()), dict(change)
    if drop := change.pop("drop", None):
        held[drop] = held[drop][:-1]
    n_tables = change.pop("n_tables", TABLES)
    with pytest.raises(ValueError, match=message):
        Problem(0, **change).run(n_tables, remembered=held)
