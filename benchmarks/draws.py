"""Documents that are drawn from known topics, late topics, or none."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp
from corpora import Documents, load

from skbnp.datasets import make_bars, make_hdp

#: Test documents of a draw.
N_TEST = 300


def planted(corpus, seed=0):
    """Documents of bars ("bars 5x5, 300"), of an HDP ("hdp 15, 800"), or of no topics.

    Or of topics of equal weights ("equal 40, 2000"), or of weights 1 / k ("power ...").
    These are documents of "one topic", of "uniform" words, and of the words of a corpus
    in random order ("permuted ap"). Other names are corpora of text.
    """
    kind, _, rest = corpus.partition(" ")
    if kind in ("bars", "hdp"):
        size, n_docs = rest.split(", ")
        n_docs, size = int(n_docs), int(size.split("x")[0])
        make, option, n_topics, prior = {
            "bars": (make_bars, "side", 2 * size, 0.1),
            "hdp": (make_hdp, "n_components", size, 1.0 / size),
        }[kind]
        made = make(n_docs + N_TEST, **{option: size}, random_state=seed)
        counts = sp.csr_array(made.data)
        truth = made.topic_word_distr, np.full(n_topics, prior)
        return Documents(counts[:n_docs], counts[n_docs:], truth)
    rng = np.random.default_rng(seed)
    if kind in ("equal", "power"):
        size, n_docs = (int(number) for number in rest.split(", "))
        weights = np.arange(1.0, size + 1.0) ** -float(kind == "power")
        prior = 2.0 * weights / weights.sum()
        topics = rng.dirichlet(np.full(1000, 0.05), size)
        shares = rng.dirichlet(prior, n_docs + N_TEST)
        counts = sp.csr_array(rng.multinomial(100, shares @ topics))
        return Documents(counts[:n_docs], counts[n_docs:], (topics, prior))
    if corpus in ("one topic", "uniform"):
        topic = rng.dirichlet(np.full(500, 0.1))
        if corpus == "uniform":
            topic = np.full(500, 1.0 / 500)
        counts = sp.csr_array(rng.multinomial(80, topic, size=1000 + N_TEST))
        return Documents(counts[:1000], counts[1000:], (topic[None], np.ones(1)))
    if kind == "permuted":
        return Documents(*(permuted(counts, rng) for counts in load(rest)))
    return Documents(*load(corpus))


def short(prior, n_docs, n_tokens, seed=0):
    """Documents of `n_tokens` that mix 12 topics, by a Dirichlet of sum `prior`.

    Those that test have 20 tokens.
    """
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(600, 0.05), 12)
    alpha = np.full(12, prior / 12)
    train, test = (
        sp.csr_array(rng.multinomial(n, rng.dirichlet(alpha, size) @ topics))
        for n, size in ((n_tokens, n_docs), (20, N_TEST))
    )
    return Documents(train, test, (topics, alpha))


def permuted(counts, rng):
    """Documents of the same lengths, their tokens dealt out at random."""
    n_tokens = counts.data.astype(int)
    words = rng.permutation(np.repeat(counts.indices, n_tokens))
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    rows = np.repeat(rows, n_tokens)
    return sp.csr_array((np.ones(len(words)), (rows, words)), counts.shape)


def late_topics(documents, begin, seed, n_topics=20, n_words=500, length=60):
    """Documents of topics, the first quarter of which begins after a share of them."""
    rng = np.random.default_rng(seed + 1000)
    topics = rng.dirichlet(np.full(n_words, 0.05), n_topics)
    weights, n_late = rng.dirichlet(np.full(n_topics, 5.0)), n_topics // 4
    shares = np.empty((documents, n_topics))
    for row, share in enumerate(shares):
        share[:] = rng.gamma(np.maximum(0.15 * n_topics * weights, 1e-3))
        if row < int(begin * documents):
            share[:n_late] = 0.0
        share /= share.sum()
    lengths = rng.poisson(length, documents) + 2
    pairs = zip(lengths, shares, strict=True)
    counts = np.stack([rng.multinomial(n, share @ topics) for n, share in pairs])
    return Documents(sp.csr_array(counts.astype(float)), truth=(topics, shares))


def of_topics(topics, lengths, rng):
    """Counts of documents that have so many tokens (n_docs, n_topics) of each topic."""
    rows, words = [], []
    for topic, count in zip(topics, lengths.T, strict=True):
        rows.append(np.repeat(np.arange(len(lengths)), count))
        steps = np.cumsum(topic)
        drawn = steps[-1] * rng.random(count.sum())
        words.append(np.searchsorted(steps, drawn, side="right"))
    rows, words = np.concatenate(rows), np.concatenate(words)
    shape = len(lengths), topics.shape[1]
    return sp.coo_array((np.ones(len(rows)), (rows, words)), shape).tocsr()


#: Documents in a file of a stream on a disk, their mean tokens, topics, and words.
FILE, LENGTH, STREAM_TOPICS, STREAM_WORDS = 20_000, 86, 100, 10_000


class StreamOnDisk:
    """Documents of topics of equal weights, in files of a folder of its own."""

    def __init__(self, documents, seed):
        self.folder = TemporaryDirectory(prefix="stream-")
        with ProcessPoolExecutor(1, get_context("spawn")) as other:  # own memory
            other.submit(self.write, self.folder.name, documents, seed).result()

    @staticmethod
    def truth(seed):
        """Topics, and the document prior."""
        rng = np.random.default_rng(seed)
        topics = rng.dirichlet(np.full(STREAM_WORDS, 0.05), STREAM_TOPICS)
        return topics, np.full(STREAM_TOPICS, 2.0 / STREAM_TOPICS)

    @classmethod
    def block(cls, n_docs, seed, number):
        """Counts of a block, from its number alone."""
        topics, prior = cls.truth(seed)
        rng = np.random.default_rng((seed, number))
        lengths = rng.poisson(LENGTH - 2, n_docs) + 2
        lengths = rng.multinomial(lengths, rng.dirichlet(prior, n_docs))
        return of_topics(topics, lengths, rng)

    @classmethod
    def write(cls, folder, documents, seed):
        """Write all blocks, the first of which is number 1."""
        for number, begin in enumerate(range(0, documents, FILE), 1):
            counts = cls.block(min(FILE, documents - begin), seed, number)
            counts.indices, counts.indptr = (
                counts.indices.astype(np.int32),
                counts.indptr.astype(np.int32),
            )
            name = Path(folder) / f"{number:06d}.npz"
            sp.save_npz(name, counts.astype(np.int32), compressed=False)

    def files(self):
        """Names of the files, in order."""
        return sorted(Path(self.folder.name).iterdir())


def stream_on_disk(documents, seed):
    """A stream of documents in files, and others that test."""
    test = StreamOnDisk.block(2000, seed, 0)
    return Documents(StreamOnDisk(documents, seed), test, StreamOnDisk.truth(seed))


def signatures(draw):
    """Counts of 96 kinds in some samples, and the ten signatures that they mix.

    Signatures are Dirichlet draws from a few kinds to nearly all; samples have some
    of them, in different shares.
    """
    rng = np.random.default_rng(draw)
    n_samples = int(np.exp(rng.uniform(*np.log((100, 500)))))
    topics = [rng.dirichlet(np.full(96, a)) for a in np.geomspace(0.03, 1.0, 10)]
    weights = rng.dirichlet(np.full(10, 5.0))
    shares = rng.gamma(np.tile(3.0 * weights, (n_samples, 1))) + 1e-12
    means = shares / shares.sum(axis=1, keepdims=True) @ topics
    lengths = np.exp(rng.uniform(*np.log((300, 10_000)), n_samples)).astype(int)
    counts = [rng.multinomial(n, p) for n, p in zip(lengths, means, strict=True)]
    return Documents(np.array(counts, dtype=float), truth=(np.array(topics), shares))
