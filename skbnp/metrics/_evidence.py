"""A lower bound of the evidence, for comparing numbers of topics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalStop, StepInput
from skbnp.metrics._held_out import unwrap
from skbnp.models import hdp_sticks
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.model import HDPModel
from skbnp.rows.batch import Batch
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_documents, check_is_fitted

#: Rounds end when one gains less than this, in nats per token, or after so many.
TOL, MAX_ROUNDS = 1e-6, 100


def evidence_bound(estimator: BaseEstimator, X: MatrixLike) -> float:
    """Lower bound of the log probability of documents, for comparing numbers of topics.

    The surrogate bound of [1]_: for every number of topics and every order of them,

        evidence_bound(estimator, X) <= log p(X | alpha, gamma, eta) / tokens of X

    under the hierarchical Dirichlet process with all its infinitely many topics, at the
    concentrations and the topic prior of the estimator (tokens are in order: there is
    no multinomial coefficient). So models of any numbers of topics can be compared,
    best at equal concentrations; learned ones are compared along with the topics. A
    superfluous topic costs some nats, an empty one too. `HDP.elbo`, with its point
    estimate of the topic weights, is not a bound of the evidence and counts empty
    topics as free.

    Parameters
    ----------
    estimator : HDP or Pipeline that ends in one
        A fitted model; it is not changed.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts; rows are documents. The bound is that of a corpus that consists of `X`:
        best the documents that the model was fitted to.

    Returns
    -------
    bound : float
        Nats per token of `X`; larger is better. 0.0 if `X` has no token.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    TypeError
        If it is not an HDP.
    ValueError
        If `X` holds no valid counts or has another number of features.

    See Also
    --------
    document_completion_score : How well unseen tokens are predicted.

    Notes
    -----
    With K topics, D documents that have tokens, sticks v_k ~ Beta(1, gamma), topic
    weights beta_k = v_k prod_{l<k} (1 - v_l) and beta_{K+1} for all other topics
    together, the bound is that of q(phi) q(z) q(pi) q(v), of which q(phi) is the
    estimator's and the others are fitted to `X` without randomness:

        E[log p(w | z, phi)] - KL(q(phi) || p(phi)) + H[q(z)]
        + sum_j { sum_{k<=K+1} lnG(theta_jk) - lnG(alpha + N_j) }
        + D { K log alpha + sum_{k<=K+1} E[log beta_k] } - KL(q(v) || p(v)),

    N_j the tokens of document j, N_jk those expected of topic k, and
    theta_jk = alpha E[beta_k] + N_jk. In it

        lnG(alpha) - sum_{k<=K+1} lnG(alpha beta_k)
        >= K log alpha + sum_{k<=K+1} log beta_k

    stands for an expectation without closed form; that is nearly tight where
    alpha beta_k is small. Documents and sticks are fitted in turn until a round gains
    less than 1e-6 nats per token. Time: that of some ten calls of `transform`.

    **Departures from the paper**

    - Topics take their sticks in the order of their expected tokens in `X`.
    - Sticks are fitted together with theta, for given q(z): its optimum enters their
      objective and leaves the gradient as it is. One after the other they would take
      hundreds of rounds.

    References
    ----------
    .. [1] Michael C. Hughes, Dae Il Kim and Erik B. Sudderth, "Reliable and Scalable
       Variational Inference for the Hierarchical Dirichlet Process", AISTATS 2015.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.metrics import evidence_bound
    >>> X = make_bars(200, side=3, random_state=0).data
    >>> few = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> enough = HDP(12, split_merge=False, random_state=0).fit(X)
    >>> bool(evidence_bound(few, X) < evidence_bound(enough, X))
    True
    """
    estimator, X = unwrap(estimator, X)
    check_is_fitted(estimator)
    posterior = getattr(estimator, "_posterior", None)
    model = getattr(posterior, "model", None)
    if not isinstance(posterior, Posterior) or not isinstance(model, HDPModel):
        raise TypeError(f"estimator must be an HDP, got {type(estimator).__name__}.")
    counts, _ = check_documents(estimator, X, reset=False, method="evidence_bound")
    counts = counts[np.diff(counts.indptr) > 0]  # empty ones have probability one
    if counts.shape[0] == 0:
        return 0.0
    stop = LocalStop(estimator.max_doc_update_iter, estimator.mean_change_tol)
    with Executor(estimator.n_jobs) as executor:
        *_, bound = fitting_rounds(posterior, counts, stop, executor)
    return float(bound)


def fitting_rounds(
    posterior: Posterior, counts: MatrixLike, stop: LocalStop, executor: Executor
) -> Iterator[float]:
    """Yield the bound in nats per token after each round, until it has converged."""
    state, n_tokens = posterior.state, counts.sum()
    alpha, gamma = state.doc_concentration, state.corpus_concentration
    batch = Batch.from_counts(counts, state.n_components)
    given = StepInput(posterior, batch, stop, executor)
    step = DocumentStep.prepare(given)
    sticks, last = None, -np.inf
    for _ in range(MAX_ROUNDS):
        result = step.collect(given)
        doc_topic: sp.csr_array = result.doc_topic
        lengths = result.n_tokens
        if sticks is None:
            topic_counts = posterior.global_stats.topic_words.total
            order = np.lexsort((-topic_counts, -doc_topic.sum(axis=0)))
            weights = state.weights[np.append(order, -1)]
            sticks = hdp_sticks.Sticks.around(weights, len(lengths))
        documents = hdp_sticks.Assignments.of(doc_topic, lengths, order)
        sticks = hdp_sticks.fit_sticks(sticks, documents, alpha, gamma)
        topics = posterior.model.bound(
            state, posterior.global_stats.topic_words, result.stats
        )
        bound = topics["words"] + topics["entropy"]
        terms, _ = hdp_sticks.terms_and_gradient(sticks, documents, alpha, gamma)
        bound += sum(terms.values())
        bound /= n_tokens
        yield bound
        if bound - last < TOL:
            return
        last = bound
        share = np.empty(state.n_components)
        share[order] = sticks.expected_weights[:-1]
        step = replace(
            step,
            prior=np.maximum(alpha * share, hdp_sticks.SMALLEST),
            share=share / share.sum(),
            remembered=doc_topic,
        )
