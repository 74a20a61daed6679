"""Packages with equal numbers of topics, by completion and left to right.

    SKBNP_DATA=... python benchmarks/equal_topics.py [--AXIS VALUE ...]

`sweep.py` has the options. gensim, tomotopy and topica must be installed.
"""

from functools import partial
from itertools import chain

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
import peers
from sweep import Case, Fit, completion, main, type_score

from skbnp import HDP

#: Models without a number of topics, and with one.
MODELS = (
    ("word frequencies", "skbnp HDP", "skbnp HDP, no burstiness"),
    (
        *("skbnp HDP", "tomotopy LDAModel", "scikit-learn LDA"),
        *("gensim LdaModel", "topica LDA"),
    ),
)
#: Topic priors of peers, by the number of topics: the better of those in `peers.md`.
PRIORS = {100: 0.05, 300: 0.01, 1000: 0.01}
#: Of a document, in random order, since the estimate takes the square of it in time.
MOST_TOKENS = 60
N_PARTICLES = 10


def left_to_right(topics, prior, counts, n_docs, seed=0):
    """Estimate the log probability of documents, nats per token, by particles.

    Algorithm of Wallach, Murray, Salakhutdinov and Mimno (2009), section 3.4: before
    each token, the topics of all tokens before it are drawn anew. Topics alone, without
    a cache of repeated words; mass of the prior beyond the topics is of words that are
    equally probable.
    """
    topics, prior = np.atleast_2d(topics), np.atleast_1d(prior)
    prior = np.broadcast_to(prior, len(topics)) if len(prior) == 1 else prior
    topics = topics / topics.sum(axis=1, keepdims=True)
    if len(prior) > len(topics):
        topics = np.vstack([topics, np.full(topics.shape[1], 1.0 / topics.shape[1])])
    rng, total, n_tokens = np.random.default_rng(seed), 0.0, 0
    for row in range(min(n_docs, counts.shape[0])):
        doc = counts[[row]]
        words = rng.permutation(np.repeat(doc.indices, doc.data.astype(int)))
        words = words[:MOST_TOKENS]
        total += document_log_probability(topics[:, words].T, prior, rng)
        n_tokens += len(words)
    return total / n_tokens


def document_log_probability(likelihood, prior, rng, n_particles=N_PARTICLES):
    """Log probability of tokens in order, given their likelihoods, (n_tokens, K)."""
    n_tokens, particles = len(likelihood), np.arange(n_particles)
    drawn = np.zeros((n_tokens, n_particles), dtype=int)
    weights = np.tile(np.asarray(prior, dtype=float), (n_particles, 1))
    total = 0.0
    for at in range(n_tokens):
        for earlier in range(at):
            weights[particles, drawn[earlier]] -= 1.0
            drawn[earlier] = draw(weights * likelihood[earlier], rng)
            weights[particles, drawn[earlier]] += 1.0
        joint = weights * likelihood[at]
        total += np.log(joint.sum(axis=1).mean() / (at + np.sum(prior)))
        drawn[at] = draw(joint, rng)
        weights[particles, drawn[at]] += 1.0
    return total


def draw(weights, rng):
    """Draw a topic for each particle, a row of weights each."""
    sums = weights.cumsum(axis=1)
    points = rng.random(len(sums)) * sums[:, -1]
    return np.minimum((sums <= points[:, None]).sum(axis=1), sums.shape[1] - 1)


def topics_after(docs, model, K, seconds):
    """Topics, document prior and number of a model that learns for some seconds."""
    if model == "word frequencies":
        return np.atleast_2d(docs.train.sum(axis=0)) + 0.01, np.ones(1), 1
    if model.startswith("skbnp"):
        fixed = {} if K is None else {"n_components": K, "split_merge": False}
        plain = {"burstiness": False} if "no burstiness" in model else {}
        hdp = HDP(max_iter=10**6, random_state=0, **fixed, **plain, min_gain=0)
        with peers.Interrupts(seconds):
            hdp.fit(docs.train)
        return common.topics_of(hdp)
    peer = peers.PEERS[model](docs.train, 0, K, PRIORS.get(K, PRIORS[1000]))
    if isinstance(peer, peers.Topica):
        peer.points(lambda *topics: (), seconds)
    else:
        common.watch(peer.step, lambda: (0.0,), seconds, times=(seconds,))
    return peer.topics()


def learn(docs, model, K, seconds, most):
    if model not in MODELS[K is not None]:
        return
    fit = Fit(docs, topics_after(docs, model, K, seconds), seconds)
    topics, prior, _ = fit.topics()
    fit.more = {"left to right": left_to_right(topics, prior, docs.test, most)}
    yield fit


CASE = Case(
    axes={
        "corpus": ("ap", "nips_abstracts"),
        "K": (None, *PRIORS),
        "model": dict.fromkeys(chain(*MODELS)),
        "seconds": (5.0,),
        "most": (30,),
    },
    documents=lambda corpus: corpora.Documents(*corpora.load(corpus)),
    learn=learn,
    records={
        "tokens": completion,
        "types": type_score,
        "no cache": partial(completion, repeats=False),
    },
)


if __name__ == "__main__":
    main(__doc__, {"equal_topics": CASE})
