"""Slow references for predicting held-out tokens, and for what a reduction costs.

Everything here is a transcription of formulas, by loops. Letters: ``theta`` (n, K) and
``rest`` (n,) the proportions of documents, the latter of all topics not represented,
which predict 1 / V; ``topic_words`` S (V, K) expected tokens, ``eta`` the topic prior,
``held`` (n, V) the held-out counts. All values are in nats.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference import hdp_collapsed

Array = NDArray[np.float64]

#: Tokens of a topic in use; iterations of a fold-in and mean change per token, for
#: scores and of documents that judge.
ACTIVE = 0.1
SCORE, JUDGE = {"max_iter": 10, "tol": 0.01}, {"max_iter": 100, "tol": 0.001}


def fold_in(
    topic_word: Array,
    doc_prior: Array,
    X: Array,
    stop: dict[str, Any] = SCORE,
    active: float = ACTIVE,
) -> tuple[Array, Array]:
    """Expected tokens (D, K) to zero order, and margins (D,) as of `document_step`.

    ``topic_word`` (K, V) rows sum to one; ``doc_prior`` (K,) = alpha beta_k. Words that
    no topic has are left out.
    """
    possible = topic_word.any(axis=0)
    result = [
        hdp_collapsed.zero_order_step(
            np.where(possible, counts, 0.0), topic_word.T, doc_prior, 3, active, **stop
        )[:2]
        for counts in X
    ]
    return np.array([tokens for tokens, _ in result]), np.array([m for _, m in result])


def completion_score(
    topic_word: Array,
    doc_prior: Array,
    leftover: float,
    X_observed: Array,
    X_held: Array,
) -> float:
    """Mean log probability of a held token given the observed part of its document.

    ``leftover`` = alpha beta_{K+1}, whose topic predicts 1 / V, or 0 for a model
    without leftover. pi_j = theta_j / sum theta_j with theta_j = doc_prior + N_j.
    """
    n_words, score = topic_word.shape[1], 0.0
    tokens, _ = fold_in(topic_word, doc_prior, X_observed)
    for expected, held in zip(tokens, X_held, strict=True):
        theta = np.append(doc_prior + expected, leftover)
        proportions = theta / theta.sum()
        for word in np.flatnonzero(held):
            probability = proportions[:-1] @ topic_word[:, word]
            probability += proportions[-1] / n_words
            score += held[word] * np.log(probability)
    return float(score / X_held.sum())


def mean_topics(topic_words: Array, eta: float) -> Array:
    """phi_kw = (eta + S_kw) / (V eta + S_k), (V, K)."""
    n_words = len(topic_words)
    return (eta + topic_words) / (n_words * eta + topic_words.sum(axis=0))


def mixture(shares: Array, phi: Array, held: Array) -> Array:
    """sum_k theta_jk phi_kw where documents have words, document by document."""
    mixed = [
        sum(s * p for s, p in zip(shares[doc], phi[word], strict=True))
        for doc, word in zip(*np.nonzero(held), strict=True)
    ]
    return np.array(mixed)


def background_mixture(
    shares: Array, rest: float, words: Array, eta: float, mean: Array, weight: float
) -> Array:
    """Probability of each word in each document, (n, V), up to its normaliser.

    Topics have the prior V eta m_w, with m = (1 - weight) / V + weight b, for expected
    counts ``words`` (V, K), the mean topic b = ``mean`` (V,) and Dirichlet parameters
    ``shares`` (n, K) and ``rest`` of documents.
    """
    n_words = len(mean)
    base = (1.0 - weight) / n_words + weight * mean
    result = np.zeros((len(shares), n_words))
    for document, share in enumerate(shares):
        for word in range(n_words):
            for topic in range(words.shape[1]):
                count = words[word, topic] + n_words * eta * base[word]
                phi = count / (words[:, topic].sum() + n_words * eta)
                result[document, word] += share[topic] * phi
            result[document, word] += rest * base[word]
    return result


def log_probability(theta: Array, rest: Array, phi: Array, held: Array) -> Array:
    """sum_w held_jw log(sum_k theta_jk phi_kw + rest_j / V) of each document."""
    n_docs, n_words = held.shape
    logs = np.zeros(n_docs)
    for doc in range(n_docs):
        for word in range(n_words):
            if held[doc, word] > 0.0:
                mixed = sum(t * p for t, p in zip(theta[doc], phi[word], strict=True))
                logs[doc] += held[doc, word] * np.log(mixed + rest[doc] / n_words)
    return logs


def mean_proportions(
    tokens: Array, prior: Array, n_tokens: Array, share: Array
) -> Array:
    """(a_k + N_jk) / (alpha + n_j [1 - Phi_k]), (n, K), of words outside a fold.

    `prior` is a, with all other topics as its last entry, of which nothing is expected
    but `prior`; `share` Phi has an entry for these, too.
    """
    result = np.zeros((len(tokens), len(prior)))
    for doc, topic in np.ndindex(*result.shape):
        expected = tokens[doc, topic] if topic < tokens.shape[1] else 0.0
        exposure = prior.sum() + n_tokens[doc] * (1.0 - share[topic])
        result[doc, topic] = (prior[topic] + expected) / exposure
    return result


def fold_log_likelihood(
    proportions: Array, phi: Array, n_tokens: Array, words: Array, held: Array
) -> float:
    """Log probability of Poisson counts of the words of a fold, but for constants.

    Means are n_j (sum_k lambda_jk phi_kw + lambda_j,rest / V).
    """
    total, n_words = 0.0, len(phi)
    for doc in range(len(held)):
        for word in words:
            mean = sum(
                own * weight
                for own, weight in zip(proportions[doc, :-1], phi[word], strict=True)
            )
            mean = n_tokens[doc] * (mean + proportions[doc, -1] / n_words)
            constant = held[doc, word] * np.log(n_tokens[doc])
            total += held[doc, word] * np.log(mean) - mean - constant
    return total


def loss_of_end(
    topic: int,
    theta: Array,
    rest: Array,
    phi: Array,
    weights: Array,
    held: Array,
    elsewhere: float,
) -> float:
    """Loss per held-out token when a topic ends, proportions as they are.

    Its proportion falls to the others of the document in proportion to theirs, and to
    the corpus mixture as if the document had a share ``elsewhere`` of it there.
    """
    corpus, changed = phi @ weights, np.zeros(len(held))
    for doc, word in zip(*np.nonzero(held), strict=True):
        own = theta[doc, topic]
        others = sum(
            theta[doc, k] * phi[word, k] for k in range(phi.shape[1]) if k != topic
        )
        others += rest[doc] / len(phi) + elsewhere * own * corpus[word]
        changed[doc] += held[doc, word] * np.log(others / (1.0 - own + elsewhere * own))
    before = log_probability(theta, rest, phi, held)
    return float((before - changed).sum() / held.sum())


def loss_of_merge(
    one: int,
    other: int,
    theta: Array,
    rest: Array,
    topic_words: Array,
    eta: float,
    held: Array,
) -> float:
    """Loss per held-out token when two topics become one, proportions added."""
    merged = np.delete(topic_words, other, axis=1)
    place = one if one < other else one - 1
    merged[:, place] += topic_words[:, other]
    joined = np.delete(theta, other, axis=1)
    joined[:, place] += theta[:, other]
    before = log_probability(theta, rest, mean_topics(topic_words, eta), held)
    after = log_probability(joined, rest, mean_topics(merged, eta), held)
    return float((before - after).sum() / held.sum())
