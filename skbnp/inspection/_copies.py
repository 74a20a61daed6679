"""Copies among the topics of a fit: near copies, and one topic in two parts.

A fit to few documents may give a topic twice, each part with words of its own documents
by chance. Their cosine is below that of near copies, but the documents are more
probable if all these tokens have one topic.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph  # noqa: F401
from numpy.typing import NDArray
from scipy.special import polygamma, xlogy

from skbnp.distributions.dirichlet import log_growth
from skbnp.inspection._terms import doc_prior
from skbnp.inspection._uses import SIMILAR, Uses, unit
from skbnp.models.hdp.fold_in import mix
from skbnp.utils.arrays import rows_of
from skbnp.utils.fitted import distributions, fitted_model, in_memory
from skbnp.utils.validation import SMALLEST_PRIOR

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

#: Documents of a block, and pairs of topics.
DOCS, PAIRS = 512, 256
#: The largest responsibility below one.
ALL = np.nextafter(1.0, 0.0)


def copies(estimator: Any, merge_similarity: float, uses: Uses) -> sp.csr_array:
    """Return which topics count as one, (n_components, n_topics) of ones.

    Flat topics are copies from a cosine of `merge_similarity` on; those from `SIMILAR`
    on are if the evidence of the documents is larger for one topic. 1 keeps all apart.
    """
    model = fitted_model(estimator)
    n = len(model.components_)
    of = np.arange(n)
    if merge_similarity < 1.0 and not hasattr(model, "tree_"):
        topics = distributions(estimator)
        cosines = np.triu(unit(topics) @ unit(topics).T, 1)
        is_one = cosines >= merge_similarity
        pairs = np.argwhere((cosines >= SIMILAR) & ~is_one)
        _, of = sp.csgraph.connected_components(sp.csr_array(is_one), directed=False)
        state = getattr(getattr(model, "_posterior", None), "state", None)
        prior = getattr(model, "topic_word_prior_", 0.0)
        eta = float(np.median(getattr(state, "topic_word_prior", prior)))
        if len(pairs) and eta and uses.words is not None:
            mean = sum(map(in_memory, uses.samples)) / len(uses.samples)
            prior = np.maximum(doc_prior(model, n), SMALLEST_PRIOR)
            gains = evidence_of_one(topics, prior, eta, uses.words, mean, pairs)
            of = _joined(of, is_one, pairs, gains)
    return sp.csr_array((np.ones(n), (np.arange(n), of)))


def _joined(of: Ints, is_one: NDArray[np.bool_], pairs: Ints, gains: Array) -> Ints:
    """Join groups of topics, the best pair first, if all their pairs may be one."""
    may_join = is_one.copy()
    may_join[tuple(pairs[gains > 0.0].T)] = True
    may_join |= may_join.T
    for pair in np.argsort(-gains, kind="stable")[: int((gains > 0.0).sum())].tolist():
        one, other = of[pairs[pair]]
        if one != other and may_join[np.ix_(of == one, of == other)].all():
            of = np.where(of == other, one, of)
    return np.unique(of, return_inverse=True)[1]


def evidence_of_one(
    topics: Array,
    prior: Array,
    eta: float,
    words: sp.csr_array,
    uses: Array,
    pairs: Ints,
) -> Array:
    """Gain of the evidence if two topics are one, in nats, (n_pairs,).

    `topics` (n_topics, n_features), `prior` (n_topics,) of the topics of a document,
    `eta` of topics over words, `words` (n_docs, n_features), `uses` n_jk (n_docs,
    n_topics), `pairs` (n_pairs, 2). Of each pair, the change of

        E_q[sum_k log DirMult(S_k | eta) + sum_jk [lnG(a_k + N_jk) - lnG(a_k)]] + H[q],

    a the prior of documents. Tokens of word w in document j are of topic k by
    q ~ (a_k + n_jk) phi_kw; S_kw and N_jk are their sums. A joint topic has the tokens
    and the prior of both. Expectations are to the second order about the mean of N
    given N > 0 (Teh, Newman and Welling 2007): topics that overlap have tokens of much
    variance, and to the first order one topic has more evidence than two that were
    planted.
    """
    if len(pairs) > PAIRS:
        parts = np.array_split(pairs, -(-len(pairs) // PAIRS))
        some = (evidence_of_one(topics, prior, eta, words, uses, p) for p in parts)
        return np.concatenate([*some])
    used, places = np.unique(pairs, return_inverse=True)
    places = places.reshape(pairs.shape)
    # Columns of `used` that count as one topic: each alone, then pairs.
    groups = [[k] for k in range(len(used))] + [list(pair) for pair in places]
    priors = [prior[used[group]].sum() for group in groups]
    values = np.zeros(len(groups))
    moments = np.zeros((len(groups), 3, topics.shape[1]))
    by_word = np.ascontiguousarray(topics.T)
    for begin in range(0, words.shape[0], DOCS):
        X = words[begin : begin + DOCS]
        shares = prior + uses[begin : begin + DOCS]
        # Tokens of each topic, of all others that `pairs` does not name too.
        norm = 1.0 / np.maximum(mix(shares, by_word, X), 1e-300)
        q = shares[rows_of(X.indptr)][:, used] * by_word[X.indices][:, used]
        q *= norm[:, None]
        ones, entries = np.ones(X.nnz), np.arange(X.nnz)
        in_docs = sp.csr_array((ones, entries, X.indptr))
        of_words = sp.csr_array((ones, (X.indices, entries)), (X.shape[1], X.nnz))
        for k, group in enumerate(groups):
            part = np.minimum(q[:, group].sum(axis=1), ALL)
            tokens = X.data * part
            of_entries = np.stack(
                [tokens, tokens * (1.0 - part), X.data * np.log1p(-part)], axis=1
            )
            moments[k] += (of_words @ of_entries).T
            values[k] += expected_growth(priors[k], *(in_docs @ of_entries).T).sum()
            values[k] -= xlogy(tokens, part).sum()
    for k, of_topic in enumerate(moments):
        values[k] += expected_growth(eta, *of_topic).sum()
        whole = of_topic.sum(axis=1, keepdims=True)
        values[k] -= expected_growth(topics.shape[1] * eta, *whole).sum()
    return values[len(used) :] - values[places].sum(axis=1)


def expected_growth(
    prior: float, mean: Array, variance: Array, log_none: Array
) -> Array:
    """E[lnG(prior + N) - lnG(prior)] of sums N of indicators, to the second order.

    By their mean, their variance, and the log probability that all are 0.
    """
    some = np.maximum(-np.expm1(log_none), 1e-300)  # probability that N > 0
    given = mean / some
    spread = np.maximum((variance + mean**2) / some - given**2, 0.0)
    curvature = 0.5 * polygamma(1, prior + given)
    return some * (log_growth(prior, given) + curvature * spread)


def members_of(onto: sp.csr_array, weights: Array) -> list[Ints]:
    """Return the topics of each group of copies, the heaviest first."""
    order = np.argsort(-weights, kind="stable")
    of = onto.indices[order]
    return [order[of == k] for k in range(onto.shape[1])]
