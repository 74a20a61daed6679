"""Bound of the evidence of the HDP for every number of topics, Hughes et al. [1].

Symbols: sticks v_k, weights beta_k = v_k prod_{l<k} (1 - v_l) of K represented topics
and beta_{K+1} of all others together; concentrations alpha of documents, gamma of the
corpus; N_jk expected tokens of topic k in document j of D. A point estimate of beta
gives no bound of log p(w). Here each stick has a distribution,

    q(v_k) = Beta(rho_k w_k, (1 - rho_k) w_k),     Eb_k = E[beta_k],

and the normaliser of a document's Dirichlet, whose expectation has no closed form, is
replaced by a lower bound (lnG(1 + x) is superadditive for x >= 0):

    lnG(alpha) - sum_{k<=K+1} lnG(alpha beta_k)
    >= K log alpha + sum_{k<=K+1} log beta_k.

With theta_jk = alpha Eb_k + N_jk (N_{j,K+1} = 0), which is optimal,

    assignments = sum_j { sum_{k<=K+1} lnG(theta_jk) - lnG(alpha + N_j) }
                + D { K log alpha + sum_{k<=K} (E log v_k + (K+1-k) E log(1 - v_k)) }
    weights     = -sum_k KL( q(v_k) || Beta(1, gamma) )

stand where the objective of the direct-assignment model has terms of the same names.
The bound depends on the order of topics, but is one in any order.

References
----------
.. [1] Hughes, Kim and Sudderth, "Reliable and Scalable Variational Inference for the
   Hierarchical Dirichlet Process", AISTATS 2015.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import betaln, expit, gammaln, logit, polygamma, psi

from skbnp.utils.typing import Array, Ints

#: Range of logit rho and of log w. Sharper sticks gain next to nothing, and rounding,
#: about 1e-15 w nats, must not lift the bound.
MEANS, TOTALS = (-25.0, 25.0), (-10.0, 23.0)
#: Share of the start that is spread evenly: the way up from an all but empty stick is
#: long and flat.
SPREAD = 0.01
#: Below, alpha Eb_k counts as this: lnG falls there, so the bound remains one.
SMALLEST = 1e-290


@dataclass(frozen=True, slots=True)
class Sticks:
    """q(v): a Beta distribution for each represented topic, in the order of sticks."""

    logit_mean: Array  # (K,) logit rho
    log_total: Array  # (K,) log w

    @classmethod
    def around(cls, weights: Array, n_docs: int) -> "Sticks":
        """Return a start: means near the given weights, (K + 1,), a and b above D.

        That is about optimal for a topic that no document uses; from less concentrated
        sticks the first steps are large and may end in another maximum.
        """
        spread = (1.0 - SPREAD) * weights + SPREAD / len(weights)
        rest = np.cumsum(spread[::-1])[::-1]
        means = np.clip(logit(spread[:-1] / rest[:-1]), *MEANS)
        log_totals = np.log(n_docs + 1.0) - np.log(expit(means) * expit(-means))
        return cls(means, np.clip(log_totals, *TOTALS))

    @property
    def parameters(self) -> tuple[Array, Array]:
        """Parameters a = rho w and b = (1 - rho) w, (K,) each."""
        total = np.exp(self.log_total)
        return total * expit(self.logit_mean), total * expit(-self.logit_mean)

    @property
    def expected_weights(self) -> Array:
        """Eb, (K + 1,)."""
        rest = np.cumprod(np.append(1.0, expit(-self.logit_mean)))
        return rest * np.append(expit(self.logit_mean), 1.0)


@dataclass(frozen=True, slots=True)
class Assignments:
    """Statistics of expected counts of documents with tokens, for the bound."""

    topic: Ints  # (nnz,) of each positive N_jk, in the order of sticks
    count: Array  # (nnz,) N_jk
    n_docs_using: Array  # (K + 1,) documents with N_jk > 0; the last entry is 0
    n_tokens: Array  # (D,) N_j

    @classmethod
    def of(cls, doc_topic: sp.csr_array, n_tokens: Array, order: Ints) -> "Assignments":
        """Read N, (n_docs, K), column `order[0]` as the first stick, and so on."""
        used = doc_topic.data > 0.0
        place = np.argsort(order)
        topic = place[doc_topic.indices[used]]
        n_docs_using = np.bincount(topic, minlength=len(order) + 1).astype(np.float64)
        return cls(topic, doc_topic.data[used], n_docs_using, n_tokens[n_tokens > 0.0])


def terms(
    sticks: Sticks, documents: Assignments, alpha: float, gamma: float
) -> dict[str, float]:
    """The terms "assignments" and "weights" of the module's docstring, in nats."""
    return terms_and_gradient(sticks, documents, alpha, gamma)[0]


def terms_and_gradient(
    sticks: Sticks, documents: Assignments, alpha: float, gamma: float
) -> tuple[dict[str, float], Array]:
    """Terms, and the gradient of their sum in (logit rho, log w), (2 K,).

    theta is at its optimum, so it adds nothing to the gradient: that is the one of
    fixed P_k = sum_j E log pi_jk,

        dL/dw_k   = A_k [rho_k psi'(a_k) - psi'(w_k)]
                  + B_k [(1 - rho_k) psi'(b_k) - psi'(w_k)]
        dL/drho_k = w_k [A_k psi'(a_k) - B_k psi'(b_k)]
                  + alpha {Eb_k P_k / rho_k - sum_{l>k} Eb_l P_l / (1 - rho_k)}

    with A_k = D + 1 - a_k, B_k = D (K + 1 - k) + gamma - b_k.
    """
    n_docs, n_topics = len(documents.n_tokens), len(sticks.log_total)
    total = np.exp(sticks.log_total)
    mean, rest = expit(sticks.logit_mean), expit(-sticks.logit_mean)
    a, b = sticks.parameters
    log_v, log_rest = psi(a) - psi(total), psi(b) - psi(total)
    n_later = np.arange(n_topics, 0, -1)  # K + 1 - k

    x = np.maximum(alpha * sticks.expected_weights, SMALLEST)
    theta = x[documents.topic] + documents.count
    n_without = n_docs - documents.n_docs_using
    assignments = (
        gammaln(theta).sum()
        + n_without @ gammaln(x)
        - gammaln(alpha + documents.n_tokens).sum()
        + n_docs * (n_topics * np.log(alpha) + (log_v + n_later * log_rest).sum())
    )
    prior = np.log(gamma) + (gamma - 1.0) * log_rest
    posterior = (a - 1.0) * log_v + (b - 1.0) * log_rest - betaln(a, b)

    slope = n_without * psi(x) - psi(alpha + documents.n_tokens).sum()
    slope += np.bincount(documents.topic, psi(theta), n_topics + 1)
    gain = x * slope  # alpha Eb_k P_k
    gain_later = np.cumsum(gain[::-1])[::-1][1:]
    first, second = n_docs + 1.0 - a, n_docs * n_later + gamma - b
    tri_a, tri_b, tri = polygamma(1, a), polygamma(1, b), polygamma(1, total)
    by_mean = a * b * (first * tri_a - second * tri_b) / total
    by_mean += rest * gain[:-1] - mean * gain_later
    by_total = first * (a * tri_a - total * tri) + second * (b * tri_b - total * tri)
    values = {
        "assignments": float(assignments),
        "weights": float((prior - posterior).sum()),
    }
    return values, np.concatenate([by_mean, by_total])


def fit_sticks(
    sticks: Sticks, documents: Assignments, alpha: float, gamma: float
) -> Sticks:
    """Maximise the bound over q(v) and theta together, by L-BFGS from given sticks."""
    n_topics = len(sticks.log_total)
    unit = max(len(documents.count), 1)  # for the tolerances of the optimiser

    def negative(point: Array) -> tuple[float, Array]:
        values, gradient = terms_and_gradient(
            Sticks(*np.split(point, 2)), documents, alpha, gamma
        )
        return -sum(values.values()) / unit, -gradient / unit

    result = minimize(
        negative,
        np.concatenate([sticks.logit_mean, sticks.log_total]),
        jac=True,
        method="L-BFGS-B",
        bounds=[MEANS] * n_topics + [TOTALS] * n_topics,
        options={"maxiter": 1000, "maxfun": 5000, "ftol": 1e-12, "gtol": 1e-8},
    )
    return Sticks(*np.split(result.x, 2))
