"""Packages with equal numbers of topics, by completion and left to right.

    SKBNP_DATA=... python benchmarks/equal_topics.py [corpus ...] [--sizes K ...]
        [--seconds S] [--documents N]

gensim, tomotopy and topica must be installed.
"""

import argparse

import common  # before NumPy: it pins the threads
import numpy as np
import peers
from corpora import load

from skbnp import HDP
from skbnp.metrics import held_out_log_likelihood, split_tokens

CORPORA = ("ap", "nips_abstracts")
SIZES = (100, 300, 1000)
#: Topic priors of peers, by the number of topics: the better of those in `peers.md`.
PRIORS = {100: 0.05, 300: 0.01, 1000: 0.01}
MODELS = ("tomotopy LDAModel", "scikit-learn LDA", "gensim LdaModel", "topica LDA")
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


def fitted(name, train, size, seconds):
    """Topics and document prior of a model that has learned for some seconds."""
    if name.startswith("skbnp"):
        fixed = {} if size is None else {"n_components": size, "split_merge": False}
        plain = {"burstiness": False} if "no burstiness" in name else {}
        hdp = HDP(max_iter=10**6, random_state=0, **fixed, **plain)
        with peers.Interrupts(seconds):
            hdp.fit(train)
        return common.topics_of(hdp)
    model = peers.PEERS[name](train, 0, size, PRIORS.get(size, PRIORS[1000]))
    if isinstance(model, peers.Topica):
        model.points(lambda *topics: (), seconds)
        return model.topics()
    common.watch(model.step, lambda: (0.0,), seconds, times=(seconds,))
    return model.topics()


def rows_of(corpus, sizes, seconds, n_docs):
    """Yield a row for each model on a corpus."""
    train, test = load(corpus)
    tokens, types = split_tokens(test, random_state=0), common.split_types(test)
    unigram = np.atleast_2d(train.sum(axis=0)) + 0.01
    cases = [("word frequencies", None), ("skbnp HDP", None)]
    cases += [("skbnp HDP, no burstiness", None)]
    cases += [(name, size) for size in sizes for name in ("skbnp HDP", *MODELS)]
    for name, size in cases:
        if name == "word frequencies":
            topics, prior, n_topics = unigram, np.ones(1), 1
        else:
            topics, prior, n_topics = fitted(name, train, size, seconds)
        yield {
            "corpus": corpus,
            "model": name,
            "K": size,
            "topics": n_topics,
            "tokens": held_out_log_likelihood(topics, prior, *tokens, repeats=True),
            "types": common.type_score(topics, prior, *types),
            "no cache": held_out_log_likelihood(topics, prior, *tokens),
            "left to right": left_to_right(topics, prior, test, n_docs),
        }


COLUMNS = ["corpus", "model", "K", "topics", "tokens", "types", "no cache"]
COLUMNS += ["left to right"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="*", default=CORPORA)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--documents", type=int, default=30)
    options = parser.parse_args()
    rows = [
        row
        for corpus in options.corpus
        for row in rows_of(corpus, options.sizes, options.seconds, options.documents)
    ]
    common.save("equal_topics", rows, COLUMNS)
