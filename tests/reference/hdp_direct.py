"""Slow references for the direct assignment HDP of Bryant and Sudderth (2012).

Everything here is a transcription of formulas: dense float64 arrays, loops, generic
root finding. Nothing is tuned, nothing is shared with the package.

Letters of the paper: ``alpha`` and ``gamma`` are the document and the corpus
concentration, ``eta`` the topic prior, ``lam`` the Dirichlet parameters of the topics
(K, V), ``theta`` those of the documents (D, K + 1), ``weights`` the corpus weights
beta_1 .. beta_{K+1} whose last entry is the mass of all topics not represented.
``resp`` is r (one (V, K) array per document), ``doc_topic`` is N (D, K) with
N_jk = sum_w n_jw r_jwk, ``topic_counts`` is S (K, V) with S_kw = sum_j n_jw r_jwk.
In the "profile" objective theta and lam are at their optimum given r. All values are
in nats; every term of a token is weighted by its count n_jw.

``scale`` multiplies the terms of the documents (number of documents over size of the
minibatch), never the prior of the weights.

References
----------
[BS12] M. Bryant and E. B. Sudderth. Truly nonparametric online variational inference
for hierarchical Dirichlet processes. Advances in Neural Information Processing
Systems 25, 2012.
[TJBB06] Y. W. Teh, M. I. Jordan, M. J. Beal and D. M. Blei. Hierarchical Dirichlet
processes. Journal of the American Statistical Association 101, 2006.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, logsumexp, psi, softmax, xlogy

Array = NDArray[np.float64]

CONCENTRATION_RANGE = (1e-4, 1e4)


def expected_log_topics(lam: Array) -> Array:
    """E[log phi_kw] under Dir(lam_k), (K, V) -> (K, V); used by [BS12] Eq. (3)."""
    return psi(lam) - psi(lam.sum(axis=1, keepdims=True))


def log_multivariate_beta(parameters: Array) -> float:
    """Return logB(x) = sum_i log Gamma(x_i) - log Gamma(sum_i x_i) of a vector x."""
    return float(gammaln(parameters).sum() - gammaln(parameters.sum()))


def log_rising(base: float, count: float) -> float:
    """f(x, N) = log Gamma(x + N) - log Gamma(x), exactly 0 for N = 0."""
    return 0.0 if count == 0 else float(gammaln(base + count) - gammaln(base))


# Documents --------------------------------------------------------------------------


def cold_start(n_total: float, weights: Array) -> Array:
    """Start of a document, N_j beta_k / (1 - beta_{K+1}); (K + 1,) -> (K,)."""
    return n_total * weights[:-1] / weights[:-1].sum()


def _responsibilities(
    counts: Array, log_weights: Array, theta: Array, is_kept: NDArray[np.bool_]
) -> Array:
    """[BS12] Eq. (3) over the topics of ``is_kept``; rows without count stay zero."""
    resp = np.zeros(log_weights.shape)
    for word in np.flatnonzero(counts):
        log_resp = log_weights[word, is_kept] + psi(theta[is_kept])
        resp[word, is_kept] = np.exp(log_resp - logsumexp(log_resp))
    return resp


def fast_fixed_point(
    counts: Array,
    log_weights: Array,
    prior: Array,
    start: Array,
    max_iter: int,
    tol: float,
    active: float,
) -> tuple[Array, int]:
    """Iterate [BS12] Eqs. (3) and (4) with shortcuts; N (K,) and the iterations made.

    Whenever two iterations or more leave N_k < active for at least three quarters of
    the topics, those have no part in the next iterations, until the others have settled
    (of these, more are left out once that are more than one in five); then an iteration
    with all topics follows. Up to three times.
    """
    everything = np.arange(prior.size)
    expected = start
    n_iter = n_left_out = 0

    def step(expected: Array, topics: NDArray[np.intp]) -> tuple[Array, float]:
        """One iteration over some topics, and by how much it changes N."""
        kept = np.isin(everything, topics)
        theta = prior + expected
        new = counts @ _responsibilities(counts, log_weights, theta, kept)
        return new, np.abs(new - expected).sum()

    while n_iter < max_iter:
        expected, change = step(expected, everything)
        n_iter += 1
        if change < tol:
            break
        topics = np.flatnonzero(expected >= active)
        if n_iter < 2 or n_left_out == 3 or not 0 < 4 * len(topics) <= prior.size:
            continue
        n_left_out += 1
        expected = np.where(np.isin(everything, topics), expected, 0.0)
        while n_iter < max_iter:
            expected, change = step(expected, topics)
            n_iter += 1
            if change < tol:
                break
            fewer = topics[expected[topics] >= active]
            if 0 < len(fewer) < len(topics) - len(topics) // 5:
                topics = fewer
                expected = np.where(np.isin(everything, topics), expected, 0.0)
    return expected, n_iter


def document_step(
    counts: Array,
    log_weights: Array,
    prior: Array,
    start: Array,
    max_iter: int,
    tol: float,
    support: float,
    active: float = 0.0,
) -> tuple[Array, Array, int]:
    """Iterate [BS12] Eqs. (3) and (4) for one document, then truncate.

    ``counts`` (V,); ``log_weights`` (V, K), any constant may be added to a row;
    ``prior`` (K,) = alpha beta_k; ``start`` (K,) = expected counts N_k to begin with.
    Stops after an iteration with sum_k abs(change of N_k) < tol N_j. The final pass
    keeps the topics with N_k >= support min(1, N_j) and computes r once more over
    these with theta = prior + N. ``support`` = 0 keeps every topic.

    ``active`` > 0 is the fast way, `fast_fixed_point`.

    Returns N (K,), r (V, K) and the number of iterations before the final pass.
    """
    n_total = counts.sum()
    if n_total == 0:
        return np.zeros(prior.shape), np.zeros(log_weights.shape), 0
    expected = np.array(start, dtype=np.float64)
    n_iter = 0
    if active > 0:
        expected, n_iter = fast_fixed_point(
            counts,
            log_weights,
            prior,
            expected,
            max_iter,
            tol * n_total,
            active * min(1.0, n_total),
        )
    everything = np.ones(prior.shape, dtype=bool)
    while active <= 0 and n_iter < max_iter:
        theta = prior + expected
        resp = _responsibilities(counts, log_weights, theta, everything)
        previous, expected = expected, counts @ resp
        n_iter += 1
        if np.abs(expected - previous).sum() < tol * n_total:
            break
    is_kept = expected >= support * min(1.0, n_total)
    resp = _responsibilities(counts, log_weights, prior + expected, is_kept)
    return counts @ resp, resp, n_iter


def document_objective(
    counts: Array, log_weights: Array, prior: Array, resp: Array
) -> float:
    """Part of the profile objective that depends on the r (V, K) of one document.

    sum_wk n_w r_wk (log_weights_wk - log r_wk) + sum_k f(prior_k, N_k).
    """
    value = 0.0
    for word in np.flatnonzero(counts):
        for topic in range(prior.size):
            share = resp[word, topic]
            if share > 0:
                value += (
                    counts[word] * share * (log_weights[word, topic] - np.log(share))
                )
    expected = counts @ resp
    return value + sum(log_rising(*pair) for pair in zip(prior, expected, strict=True))


# Objectives -------------------------------------------------------------------------


def elbo_terms(
    counts: Array,
    resp: Sequence[Array],
    theta: Array,
    lam: Array,
    weights: Array,
    alpha: float,
    gamma: float,
    eta: float | Array,
) -> dict[str, float]:
    """Evidence lower bound of [BS12] written out term by term, for any q.

    ``eta`` is that of all topics, or the parameters of the prior of each, (K, V).

    ``counts`` (D, V), ``resp`` D arrays (V, K), ``theta`` (D, K + 1), ``lam`` (K, V),
    ``weights`` (K + 1,). "z", "pi" and "phi" sum to E_q[log p(w, z, pi, phi | beta)
    - log q]; "beta" is gamma log beta_{K+1}. The normaliser of q(pi_j) is taken from
    theta_j itself, which is alpha + N_j whenever theta_j = alpha beta + N_j.
    """
    n_topics, n_features = lam.shape
    log_phi = expected_log_topics(lam)

    value_z = value_pi = 0.0
    for doc in range(len(counts)):
        log_pi = psi(theta[doc]) - psi(theta[doc].sum())
        for word in np.flatnonzero(counts[doc]):
            for topic in range(n_topics):
                share = resp[doc][word, topic]
                value_z += counts[doc, word] * (
                    share * (log_phi[topic, word] + log_pi[topic]) - xlogy(share, share)
                )
        value_pi += gammaln(alpha)
        value_pi -= gammaln(theta[doc].sum())
        for topic in range(weights.size):
            prior = alpha * weights[topic]
            value_pi += (prior - 1) * log_pi[topic] - gammaln(prior)
            value_pi -= (theta[doc, topic] - 1) * log_pi[topic]
            value_pi += gammaln(theta[doc, topic])

    value_phi, priors = 0.0, np.broadcast_to(eta, lam.shape)
    for topic, prior in enumerate(priors):
        value_phi += gammaln(prior.sum()) - gammaln(prior).sum()
        value_phi -= gammaln(lam[topic].sum())
        for word in range(n_features):
            value_phi += (prior[word] - 1) * log_phi[topic, word]
            value_phi -= (lam[topic, word] - 1) * log_phi[topic, word]
            value_phi += gammaln(lam[topic, word])

    return {
        "z": float(value_z),
        "pi": float(value_pi),
        "phi": float(value_phi),
        "beta": float(gamma * np.log(weights[-1])),
    }


def sufficient_statistics(counts: Array, resp: Sequence[Array]) -> tuple[Array, Array]:
    """N (D, K) and S (K, V) of ``counts`` (D, V) and D arrays r (V, K)."""
    n_docs, n_features = counts.shape
    n_topics = resp[0].shape[1]
    doc_topic = np.zeros((n_docs, n_topics))
    topic_counts = np.zeros((n_topics, n_features))
    for doc in range(n_docs):
        for word in range(n_features):
            for topic in range(n_topics):
                mass = counts[doc, word] * resp[doc][word, topic]
                doc_topic[doc, topic] += mass
                topic_counts[topic, word] += mass
    return doc_topic, topic_counts


def document_part(doc_topic: Array, weights: Array, alpha: float) -> float:
    """Profile objective of the assignments, N (D, K) and beta (K + 1,).

    sum_j { -f(alpha, N_j) + sum_{k <= K} f(alpha beta_k, N_jk) }.
    """
    value = 0.0
    for row in doc_topic:
        value -= log_rising(alpha, row.sum())
        for topic in range(row.size):
            value += log_rising(alpha * weights[topic], row[topic])
    return value


def topic_part(topic_counts: Array, eta: float | Array) -> float:
    """Profile objective of the words, sum_k logB(eta_k + S_k) - logB(eta_k)."""
    priors = np.broadcast_to(np.asarray(eta, dtype=float), topic_counts.shape)
    return sum(
        log_multivariate_beta(prior + row) - log_multivariate_beta(prior)
        for prior, row in zip(priors, topic_counts, strict=True)
    )


def profile_terms(
    counts: Array,
    resp: Sequence[Array],
    weights: Array,
    alpha: float,
    gamma: float,
    eta: float,
) -> dict[str, float]:
    """Evidence lower bound with theta, lam at [BS12] Eqs. (4), (5), in four parts.

    ``counts`` (D, V), ``resp`` D arrays (V, K), ``weights`` (K + 1,). The sum equals
    the sum of ``elbo_terms`` at theta = alpha beta + N and lam = eta + S.
    """
    doc_topic, topic_counts = sufficient_statistics(counts, resp)
    entropy = 0.0
    for doc in range(len(counts)):
        entropy -= (counts[doc][:, None] * xlogy(resp[doc], resp[doc])).sum()
    return {
        "assignments": document_part(doc_topic, weights, alpha),
        "words": topic_part(topic_counts, eta),
        "entropy": float(entropy),
        "weights": float(gamma * np.log(weights[-1])),
    }


def merge_sums(
    counts: Array, resp: Sequence[Array], prior: Array, one: int, other: int
) -> Array:
    """Loss and gain when two topics merge, summed over documents, (2,).

    ``counts`` (D, V), ``resp`` D arrays (V, K), ``prior`` (K,) = alpha beta_k. With
    h(r) = r log r, a document loses sum_w n_w {h(r_a + r_b) - h(r_a) - h(r_b)} of its
    entropy and gains f(x_a + x_b, N_a + N_b) - f(x_a, N_a) - f(x_b, N_b) - loss.
    """
    sums = np.zeros(2)
    for row, part in zip(counts, resp, strict=True):
        loss = 0.0
        for word in np.flatnonzero(row):
            first, second = part[word, one], part[word, other]
            joint = first + second
            change = xlogy(joint, joint) - xlogy(first, first) - xlogy(second, second)
            loss += row[word] * change
        first, second = row @ part[:, one], row @ part[:, other]
        gain = log_rising(prior[one] + prior[other], first + second) - loss
        gain -= log_rising(prior[one], first) + log_rising(prior[other], second)
        sums += loss, gain
    return sums


def surrogate_T(
    doc_topic: Array, tangent: Array, weights: Array, alpha: float, alpha0: float
) -> float:
    """Lower bound of ``document_part`` from tangents at x0 and alpha0, entry by entry.

    ``doc_topic`` N (D, K); ``tangent`` x0 (K,), or (D, K) when documents were looked
    at under different weights; ``weights`` (K + 1,). With x = alpha beta_k, t = x0 + N:
    f(x, N) >= log Gamma(t) + psi(t) (x - x0) - log Gamma(x), and 0 for N = 0;
    -f(alpha, N_j) >= -f(alpha0, N_j)
    - (alpha - alpha0) {psi(alpha0 + N_j) - psi(alpha0)}.
    """
    tangents = np.broadcast_to(tangent, doc_topic.shape)
    value = 0.0
    for doc in range(len(doc_topic)):
        n_total = doc_topic[doc].sum()
        value -= log_rising(alpha0, n_total)
        value -= (alpha - alpha0) * (psi(alpha0 + n_total) - psi(alpha0))
        for topic in range(doc_topic.shape[1]):
            if doc_topic[doc, topic] > 0:
                old, new = tangents[doc, topic], alpha * weights[topic]
                shifted = old + doc_topic[doc, topic]
                value += gammaln(shifted) + psi(shifted) * (new - old) - gammaln(new)
    return float(value)


# Corpus weights ---------------------------------------------------------------------


def weights_objective(
    doc_topic: Array, weights: Array, alpha: float, gamma: float
) -> float:
    """Profile objective of beta, ``document_part`` + gamma log beta_{K+1}."""
    rest = float(gamma * np.log(weights[-1]))
    return document_part(doc_topic, weights, alpha) + rest


def weights_by_search(
    doc_topic: Array, alpha: float, gamma: float, start: Array
) -> Array:
    """Maximise ``weights_objective`` over beta = softmax(b_1, ..., b_K, 0)."""

    def loss(logits: Array) -> float:
        weights = softmax(np.append(logits, 0.0))
        return -weights_objective(doc_topic, weights, alpha, gamma)

    result = minimize(loss, np.log(start[:-1] / start[-1]), method="BFGS")
    return softmax(np.append(result.x, 0.0))


# Concentrations ---------------------------------------------------------------------


def _maximise_positive(objective: Callable[[float], float]) -> float:
    """Maximise over h in [1e-4, 1e4]: a grid in log h, then a bounded search."""
    low, high = CONCENTRATION_RANGE
    grid = np.linspace(np.log(low), np.log(high), 93)
    values = [objective(float(np.exp(point))) for point in grid]
    best = int(np.argmax(values))
    result = minimize_scalar(
        lambda point: -objective(float(np.exp(point))),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]),
        method="bounded",
        options={"xatol": 1e-12, "maxiter": 1000},
    )
    return float(np.exp(result.x))


def concentration_by_search(
    doc_topic: Array, weights: Array, alpha_prior: tuple[float, float] = (1.0, 0.0)
) -> float:
    """Maximise ``document_part`` + (a - 1) log alpha - b alpha over alpha.

    ``doc_topic`` N (D, K), ``weights`` (K + 1,), ``alpha_prior`` = (shape a, rate b).
    """
    shape, rate = alpha_prior
    return _maximise_positive(
        lambda alpha: (
            document_part(doc_topic, weights, alpha)
            + (shape - 1) * np.log(alpha)
            - rate * alpha
        )
    )


def topic_prior_by_search(
    topic_counts: Array, eta_prior: tuple[float, float] = (1.0, 0.0)
) -> float:
    """Maximise ``topic_part`` + (a - 1) log eta - b eta over eta; S is (K, V)."""
    shape, rate = eta_prior
    return _maximise_positive(
        lambda eta: (
            topic_part(topic_counts, eta) + (shape - 1) * np.log(eta) - rate * eta
        )
    )
