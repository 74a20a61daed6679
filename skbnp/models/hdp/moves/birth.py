"""Births of topics of an HDP for documents of low probability, judged by the bound.

Splitting one topic costs about -log(eta) nats for every further word in use, about what
it gains while topics are broad: if the vocabulary is large, only many new topics
together raise the bound. So a proposal adds many, and drops some of the present topics
(converged topics take the documents back from new ones). It learns for some passes
beside the model, and replaces it if its bound is higher.
"""

import numpy as np
import scipy.sparse as sp

from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.typing import Array

#: Documents looked at for each new topic.
DRAWN_PER_BIRTH = 10
#: Documents of the corpus for each new topic, at least.
DOCS_PER_BIRTH = 3
#: Tokens of a new topic, in units of the prior's.
CLEAR = 4.0


#: A proposal adds so many topics, or half as many as there are.
LEAST, BIRTHS = 80, 0.5


def share_kept(number: int, n_topics: int) -> float:
    """Share of `n_topics` topics that a birth keeps: all and a half in turn.

    Few topics are broad, and take the documents back from new ones if all are kept; if
    there are many, most have their own documents.
    """
    all_stay = (number % 2 == 0) == (n_topics >= LEAST)
    return 1.0 if all_stay else 0.5


def propose(
    posterior: HDPPosterior,
    X: sp.csr_array,
    doc_topic: sp.csr_array,
    share: float,
    n_docs: float,
    rng: np.random.Generator,
) -> HDPPosterior:
    """Return a posterior with a random share of the topics, and with new ones.

    `doc_topic` are the expected counts of the documents `X`, of a corpus of `n_docs`.
    Known topics are kept. New topics start from documents of low probability, with few
    tokens: enough to stand out from the prior, so that the documents that they explain
    soon outweigh the start.
    """
    words, state = posterior.global_stats.topic_words, posterior.state
    n_here, limit = X.shape[0], posterior.max_components
    n_kept = int(min(np.ceil(share * state.n_components), limit - 1))
    n_known = int(words.is_known.sum())  # at most so many are kept besides
    most = min(n_docs / DOCS_PER_BIRTH, n_here, limit - n_kept - n_known)
    n_births = max(int(min(max(LEAST, BIRTHS * state.n_components), most)), 1)
    drawn = rng.choice(n_here, min(DRAWN_PER_BIRTH * n_births, n_here), replace=False)
    drawn.sort()
    surprise = _surprise(posterior, X[drawn], doc_topic[drawn])
    surprise += 1e-9 - surprise.min()
    chosen = rng.choice(drawn, n_births, replace=False, p=surprise / surprise.sum())
    kept = np.sort(rng.choice(state.n_components, n_kept, replace=False))
    kept = np.union1d(np.flatnonzero(words.is_known), kept)
    n_kept = len(kept)

    seen = words.seen.with_words(np.unique(X.indices))
    born = 0.1 * rng.standard_gamma(1.0, size=(len(seen), n_births))
    born += X[chosen][:, seen.words].T.toarray()
    n_topics, n_words = n_kept + n_births, words.shape[0]
    mass = words.tokens.sum() / n_topics
    born *= min(mass, CLEAR * n_words * state.topic_word_prior) / born.sum(axis=0)
    topics = np.column_stack([words.rows(seen.words)[:, kept], born])

    weights = np.full(n_topics + 1, 1.0 / (n_topics + 1))
    old = state.weights[:-1][kept]
    weights[:n_kept] = old * weights[:n_kept].sum() / old.sum()
    return posterior.restarted(words.remade(topics, seen, kept), weights, kept)


def _surprise(
    posterior: HDPPosterior, X: sp.csr_array, doc_topic: sp.csr_array
) -> Array:
    """Mean of -log p(token) in each document under expected topics, nats."""
    words, eta = posterior.global_stats.topic_words, posterior.state.topic_word_prior
    total = words.shape[0] * eta + words.total
    theta = doc_topic.toarray() + posterior.state.doc_prior
    theta /= theta.sum(axis=1, keepdims=True)
    surprise = np.empty(X.shape[0])
    for row in range(X.shape[0]):
        here = slice(X.indptr[row], X.indptr[row + 1])
        topics = (words.rows(X.indices[here]) + eta) / total
        counts = X.data[here]
        surprise[row] = -(counts * np.log(topics @ theta[row])).sum() / counts.sum()
    return surprise
