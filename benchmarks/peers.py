"""Held-out score against processor time: `HDP` and the usual topic models of others.

    SKBNP_DATA=... python benchmarks/peers.py [corpus ...] [--seconds S] [--runs N]

Corpora: ap, nips. gensim and tomotopy must be installed.
"""

import argparse
import logging
from itertools import cycle

import common  # before NumPy: it pins the threads
import numpy as np
import tomotopy
from gensim.matutils import Sparse2Corpus
from gensim.models import HdpModel, LdaModel
from sklearn.decomposition import LatentDirichletAllocation

from skbnp import HDP

logging.getLogger("gensim").setLevel(logging.ERROR)

#: Corpus: share of test documents.
CORPORA = {"ap": 0.1, "nips": 0.2}
N_TOPICS = 100
OURS = "skbnp HDP"


class Ours:
    """`HDP` with its defaults; one minibatch a step."""

    def __init__(self, train, seed):
        self.model = HDP(total_samples=train.shape[0], random_state=seed)
        self.stream = common.minibatches(train, self.model.batch_size, seed)

    def step(self):
        self.model.partial_fit(next(self.stream))

    def topics(self):
        return self.model.topic_word_distr_, common.hdp_prior(self.model)

    def n_topics(self):
        return self.model.n_components_


class ScikitLearnLDA:
    """Online LDA with the defaults of scikit-learn; one minibatch a step."""

    def __init__(self, train, seed):
        self.model = LatentDirichletAllocation(
            N_TOPICS,
            learning_method="online",
            total_samples=train.shape[0],
            random_state=seed,
        )
        self.stream = common.minibatches(train, self.model.batch_size, seed)

    def step(self):
        self.model.partial_fit(next(self.stream))

    def topics(self):
        return self.model.components_, self.model.doc_topic_prior_

    def n_topics(self):
        return N_TOPICS


class GensimLDA:
    """One pass a step, minibatches of 256: its default of 2000 is a corpus here."""

    def __init__(self, train, seed):
        self.docs = gensim_documents(train)
        self.model = LdaModel(
            id2word=gensim_names(train),
            num_topics=N_TOPICS,
            chunksize=256,
            eval_every=None,
            random_state=seed,
        )

    def step(self):
        self.model.state.numdocs = 0  # or the same documents would count as new ones
        self.model.update(self.docs)

    def topics(self):
        return self.model.get_topics(), self.model.alpha

    def n_topics(self):
        return N_TOPICS


class GensimHDP:
    """`HdpModel` with its defaults; one minibatch a step."""

    def __init__(self, train, seed):
        self.docs, self.names = gensim_documents(train), gensim_names(train)
        self.seed, self.model = seed, None
        size = 256
        self.chunks = cycle(
            self.docs[begin : begin + size] for begin in range(0, len(self.docs), size)
        )

    def step(self):
        chunk = next(self.chunks)
        if self.model is None:  # what it is made of is what it learns from first
            self.model = HdpModel(
                self.docs, self.names, max_chunks=1, random_state=self.seed
            )
        else:
            self.model.update_chunk(chunk)

    def topics(self):
        self.model.update_expectations()
        prior, topics = self.model.hdp_to_lda()
        return np.maximum(topics, 1e-300), np.maximum(prior, 1e-12)

    def n_topics(self):
        tokens = self.model.m_lambda_sum
        return int((tokens >= 1e-4 * tokens.sum()).sum())


def gensim_documents(train):
    """Documents as gensim walks over them, made before the clock starts."""
    return list(Sparse2Corpus(train, documents_columns=False))


def gensim_names(train):
    return {word: str(word) for word in range(train.shape[1])}


class Tomotopy:
    """A model of tomotopy; five sweeps a step."""

    def __init__(self, train, model):
        self.model, self.n_words = model, train.shape[1]
        names = np.array([str(word) for word in range(self.n_words)])
        for row in range(train.shape[0]):
            part = slice(train.indptr[row], train.indptr[row + 1])
            counts = train.data[part].astype(np.int64)
            model.add_doc(np.repeat(names[train.indices[part]], counts).tolist())

    def step(self):
        self.model.train(5, workers=1)

    def alive(self):
        return range(self.model.k)

    def n_topics(self):
        return len(self.alive())

    def topic_words(self):
        """Topics with words in the order of the columns."""
        columns = [int(name) for name in self.model.used_vocabs]
        topics = np.zeros((self.n_topics(), self.n_words))
        for row, topic in enumerate(self.alive()):
            topics[row, columns] = self.model.get_topic_word_dist(topic)
        return topics


class TomotopyLDA(Tomotopy):
    """`LDAModel` with its defaults."""

    def __init__(self, train, seed):
        super().__init__(train, tomotopy.LDAModel(k=N_TOPICS, seed=seed))

    def topics(self):
        return self.topic_words(), self.model.alpha


class TomotopyHDP(Tomotopy):
    """`HDPModel` with its defaults, or from more topics than the two of its default."""

    def __init__(self, train, seed, initial_k=2):
        super().__init__(train, tomotopy.HDPModel(initial_k=initial_k, seed=seed))

    def alive(self):
        return [k for k in range(self.model.k) if self.model.is_live_topic(k)]

    def topics(self):
        # Tables of a topic are not to be had; documents that use it are, and they are
        # nearly as many.
        users = np.zeros(self.model.k)
        for doc in self.model.docs:
            users[np.unique(doc.topics)] += 1
        weights = np.append(users[self.alive()], self.model.gamma)
        return self.topic_words(), self.model.alpha * weights / weights.sum()


MODELS = {
    OURS: Ours,
    "scikit-learn LDA": ScikitLearnLDA,
    "gensim LdaModel": GensimLDA,
    "gensim HdpModel": GensimHDP,
    "tomotopy LDAModel": TomotopyLDA,
    "tomotopy HDPModel": TomotopyHDP,
    "tomotopy HDPModel(initial_k=100)": lambda train, seed: TomotopyHDP(
        train, seed, N_TOPICS
    ),
}


def watch(model, test, seconds):
    """Scores of a model on the way."""

    def look():
        score = common.standard_score(*model.topics(), test)
        return score, model.n_topics()

    return common.watch(model.step, look, seconds, spacing=1.1)


def compare(corpus, seed, seconds):
    """One row for each model, ours first."""
    train, test = common.standard_split(common.load_corpus(corpus), CORPORA[corpus])
    ours = None
    for name, make in MODELS.items():
        points = watch(make(train, seed), test, seconds)
        ours = ours or points
        end, score, n_topics = points[-1]
        row = {"corpus": corpus, "model": name, "seed": seed, "CPU s": end}
        row |= {"score": score, "topics": n_topics}
        row |= {"s to score": common.time_to(score, points)}
        row |= {"HDP s to score": common.time_to(score, ours)}
        row["ratio"] = row["s to score"] / row["HDP s to score"]
        print(row, flush=True)
        yield row | {"looks": points}


READING = """
Held-out score (nats per token, larger is better) by document completion after about the
same processor time, one thread: the same test documents, the same 80/20 split of their
tokens, the same fold-in of each model's topics under its own document prior. Where the
number of topics is fixed it is 100; everything else is at the defaults of each library,
but for gensim's LDA, whose minibatches are of 256 documents (its default of 2000 makes
one of either corpus). Making documents from the counts and looks at the score do not
count; models are looked at whenever their time has grown by a tenth, after steps of one
minibatch, one pass (gensim's LDA) or five sweeps (tomotopy).

"s to score" is the time at which a model first had the score that it ended with, "HDP s
to score" that at which skbnp's HDP first had it (`inf`: it had not when it ended), and
the ratio is the first to the second: above one, HDP was faster.

Topics: those of gensim's HDP are the ones, of 150, with at least 1e-4 of the tokens.
tomotopy's scores are those of the last sweep, not means over sweeps; the weight of a
topic in its HDP is the share of documents that use it. tomotopy's HDP starts from two
topics by default and ours from 100, so it is shown with 100, too.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="*", help=", ".join(CORPORA))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for corpus in options.corpus or CORPORA:
        for seed in range(options.runs):
            rows += compare(corpus, seed, options.seconds)
    columns = ["corpus", "model", "seed", "CPU s", "score", "topics", "s to score"]
    columns += ["HDP s to score", "ratio"]
    rows = common.medians(rows, ("corpus", "model")) + rows
    common.save("peers", rows, columns, READING, packages=("gensim", "tomotopy"))
