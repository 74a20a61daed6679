"""Expected tokens of topics in documents, and topics that count as one.

A fit to few documents may give a topic twice, each part with words of its own documents
by chance. Their cosine is below that of near copies, but the documents are more
probable if all these tokens have one topic.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph  # noqa: F401
from scipy.special import polygamma, xlogy

from skbnp.distributions.dirichlet import log_growth
from skbnp.inference.executor import Executor
from skbnp.inspection._compared import draw_of_sample
from skbnp.inspection._terms import (
    NOT_BURSTY,
    check_shares,
    doc_counts,
    doc_prior,
    transformed,
)
from skbnp.models.hdp.fold_in import mix
from skbnp.models.hdp.prediction import MixturePredictor
from skbnp.utils import fitted as read
from skbnp.utils.arrays import rows_of
from skbnp.utils.matching import cosines
from skbnp.utils.ordering import evenly_spaced
from skbnp.utils.typing import Array, Flags, Ints
from skbnp.utils.validation import SMALLEST_PRIOR, check_counts

#: Kept samples of a chain that are used, evenly spaced, at most.
SAMPLES = 20
#: Cosine from which two topics may be the same one.
SIMILAR = 0.7
#: Updates of the means of groups.
MEANS = 2


class Uses(NamedTuple):
    """Expected tokens, or first uses, of topics in documents."""

    samples: list[sp.csr_array | Array]  # (n_docs, n_components), one for each sample
    words: sp.csr_array | None  # (n_docs, n_features) that they add up to, if available


def uses_of(estimator: Any, model: Any, rows: Any, epochs: Any, parts: Ints) -> Uses:
    """Infer tokens of topics in documents, with group means as their prior."""
    is_here = not hasattr(model, "_row_totals")
    if is_here and hasattr(model, "_sample_uses") and len(model.samples_) > 1:
        counts = check_counts(rows, whom="topic_shares")
        return Uses(_sample_uses(model, counts, parts), counts)
    if is_here and hasattr(model, "_expected_uses"):
        counts = check_counts(rows, whom="topic_shares")
        if getattr(model, "word_concentration_", np.inf) < NOT_BURSTY:
            uses, data = model._expected_uses(counts)
            parts_of = (data, counts.indices, counts.indptr)
            return Uses([uses], sp.csr_array(parts_of, counts.shape))
        distr = read.distributions(estimator)
        prior = doc_prior(read.fitted_model(estimator), len(distr))
        return Uses([_by_group(distr, prior, counts, parts)], counts)
    shares = transformed(model, rows, epochs)
    check_shares(model, shares)
    counts = None
    if is_here and hasattr(model, "topic_word_prior_"):
        counts = check_counts(rows, whom="topic_shares")
    return Uses([doc_counts(model, rows, shares)[0]], counts)


def _sample_uses(model: Any, counts: sp.csr_array, parts: Ints) -> list[sp.csr_array]:
    """Re-index topics of samples to the most similar ones of the best sample."""
    components, result = model.components_, []
    topics = components - components.min(axis=1, keepdims=True)
    for values, depth, uses in _uses_by_sample(model, counts, parts):
        similar = cosines(topics, np.asarray(read.in_memory(values), np.float64))
        if depth is not None:
            similar[model.tree_.depth[:, None] != depth] = 0.0
        best = similar.argmax(axis=0)
        is_one = similar[best, np.arange(len(best))] >= SIMILAR
        onto = sp.csr_array(
            (np.ones(is_one.sum()), (np.flatnonzero(is_one), best[is_one])),
            shape=(len(best), len(topics)),
        )
        result.append(sp.csr_array(uses) @ onto)
    return result


def _uses_by_sample(
    model: Any, counts: sp.csr_array, parts: Ints
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield words of topics, their depth or None, and tokens in documents."""
    is_bursty = getattr(model, "word_concentration_", np.inf) < NOT_BURSTY
    if hasattr(model, "tree_") or is_bursty:
        yield from model._sample_uses(counts, SAMPLES)
        return
    for sample in evenly_spaced(model.samples_, SAMPLES):
        draw = draw_of_sample(sample)
        assert draw.prior is not None  # no tree
        yield draw.values, None, _by_group(draw.distr(), draw.prior, counts, parts)


def _by_group(distr: Array, prior: Array, counts: sp.csr_array, parts: Ints) -> Array:
    """Infer tokens of topics, with documents shrunk towards means of their group."""
    prior = np.maximum(prior, SMALLEST_PRIOR)
    uses = np.zeros((counts.shape[0], len(distr)))
    with Executor(None) as executor:
        for own in (np.flatnonzero(parts == part) for part in np.unique(parts)):
            of_group = prior
            for _ in range(1 + MEANS):
                predictor = MixturePredictor.of_topics(distr, of_group)
                tokens = predictor.infer_counts(
                    predictor.samples[0], counts[own], executor
                )
                shares, totals = shares_of_tokens(tokens)
                if not totals.any():
                    break
                mean = shares[totals > 0.0].mean(axis=0)
                of_group = np.maximum(prior.sum() * mean, SMALLEST_PRIOR)
            uses[own] = tokens.toarray()
    return uses


def shares_of_tokens(uses: sp.csr_array | Array) -> tuple[Array, Array]:
    """Return shares of topics in documents, and their numbers of tokens."""
    uses = np.asarray(read.in_memory(uses), dtype=np.float64)
    totals = uses.sum(axis=1)
    return uses / np.maximum(totals, 1e-300)[:, None], totals


#: Documents of a block, and pairs of topics.
DOCS, PAIRS = 512, 256
#: The largest responsibility below one.
ALL = np.nextafter(1.0, 0.0)


def copies(estimator: Any, merge_similarity: float, uses: Uses) -> sp.csr_array:
    """Return which topics count as one, (n_components, n_topics) of ones.

    Flat topics are copies from a cosine of `merge_similarity` on; those from `SIMILAR`
    on are if the evidence of the documents is larger for one topic. 1 keeps all apart.
    """
    model = read.fitted_model(estimator)
    n = len(model.components_)
    of = np.arange(n)
    if merge_similarity < 1.0 and not hasattr(model, "tree_"):
        topics = read.distributions(estimator)
        similarity = np.triu(cosines(topics, topics), 1)
        is_one = similarity >= merge_similarity
        pairs = np.argwhere((similarity >= SIMILAR) & ~is_one)
        _, of = sp.csgraph.connected_components(sp.csr_array(is_one), directed=False)
        state = getattr(getattr(model, "_posterior", None), "state", None)
        prior = getattr(model, "topic_word_prior_", 0.0)
        eta = float(np.median(getattr(state, "topic_word_prior", prior)))
        if len(pairs) and eta and uses.words is not None:
            mean = sum(map(read.in_memory, uses.samples)) / len(uses.samples)
            prior = np.maximum(doc_prior(model, n), SMALLEST_PRIOR)
            gains = evidence_of_one(topics, prior, eta, uses.words, mean, pairs)
            of = _joined(of, is_one, pairs, gains)
    return sp.csr_array((np.ones(n), (np.arange(n), of)))


def _joined(of: Ints, is_one: Flags, pairs: Ints, gains: Array) -> Ints:
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
