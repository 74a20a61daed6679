"""Held-out score against processor time: `HDP` and the usual topic models of others.

    SKBNP_DATA=... python benchmarks/peers.py [corpus ...] [--models NAME ...]
        [--sizes K ...] [--priors ETA ...] [--seeds N ...] [--seconds S]

Rows of other corpora, models, settings and seeds are kept in results/peers.json, so
that the table can be made in several runs. gensim and tomotopy must be installed;
topica is among the models if it is.
"""

import argparse
import logging
import signal
from importlib.util import find_spec
from itertools import cycle

import common  # before NumPy: it pins the threads
import numpy as np
import tomotopy
from corpora import load
from gensim.matutils import Sparse2Corpus
from gensim.models import HdpModel, LdaModel
from hlda import Tomotopy
from sklearn.decomposition import LatentDirichletAllocation

from skbnp import HDP, GibbsHDP
from skbnp.metrics import held_out_log_likelihood, split_tokens

logging.getLogger("gensim").setLevel(logging.ERROR)

CORPORA = (
    "ap",
    "kos",
    "sotu",
    "nips",
    "docstrings",
    "jacm",
    "bbc_tech",
    "reuters395",
    "citeulike_titles",
    "arxiv_large_30",
    "arxiv2000",
    "nips_abstracts",
)
SIZES = (100, 300)
PRIORS = (0.01, 0.05)
TIMES = (2.0, 5.0, 15.0, 30.0, 60.0)
#: Of test documents, at the least: titles have few, and a score of fewer differs by
#: .01 nats from that of others.
TEST_TOKENS = 50_000
#: Documents of a minibatch of others.
BATCH_SIZE = 256
#: Shares that each topic must bring.
OURS = {"skbnp HDP": 0.0, "skbnp HDP, default": 0.005}


# -- ours -----------------------------------------------------------------------------


class Interrupts:
    """Ends a fit, as Ctrl-C does, after so many processor seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        signal.signal(signal.SIGPROF, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, kind, *error):
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        return kind is KeyboardInterrupt


class Latest(common.Curve):
    """Looks at the latest pass before each of `TIMES`, and ends the fit at a limit.

    Copies of topics are made after each pass and scored when a pass ends later.
    """

    def __init__(self, look, limit):
        super().__init__(self.copy, limit, spacing=1.0, gap=0.0)
        self.score, self.looks = look, []

    def copy(self, hdp):
        """Score the earlier topics if a time has come, and return the new ones."""
        self.pass_time()
        return [common.topics_of(hdp)]

    def pass_time(self):
        """Score the latest topics if a time has come since."""
        if self.points:
            last, topics = self.points.pop()
            times = (*TIMES, self.limit)
            if any(last <= moment < self.seconds() for moment in times):
                self.looks.append([last, *self.score(*topics)])


def fit_ours(train, look, seconds, seed, min_gain):
    """Looks at a fit after passes; at earlier times, at fits that were interrupted.

    Returned with the seconds of a fit that ends by itself: it stays as it is.
    """
    hdp = HDP(max_iter=10**6, random_state=seed, min_gain=min_gain)
    latest = Latest(look, seconds)
    hdp.set_callbacks(latest).fit(train)
    end, points = latest.seconds(), latest.looks
    if hdp.converged_:
        latest.pass_time()
    if hdp.converged_ or not points:
        points.append([end, *look(*common.topics_of(hdp))])
    for limit in TIMES:
        if limit < min(seconds, points[0][0] if points else seconds):
            part = HDP(max_iter=10**6, random_state=seed, min_gain=min_gain)
            with Interrupts(limit):
                part.fit(train)
            points.append([limit, *look(*common.topics_of(part))])
    return sorted(points), {"ends": end} if hdp.converged_ else {}


class Sampler:
    """`GibbsHDP` with its defaults; a step is a sweep, and the latest state is read."""

    def __init__(self, train, seed):
        self.run = common.GibbsRun(GibbsHDP(random_state=seed), train)

    def step(self):
        self.run.step()

    def topics(self):
        sample = self.run.chain.sample()
        return sample.word_topic().T, sample.doc_prior, len(sample.component_ids)


# -- peers: `step` learns, `topics` returns topics, document prior and their number ----


class ScikitLearnLDA:
    """Online LDA with the defaults of scikit-learn; one minibatch a step."""

    def __init__(self, train, seed, size, prior):
        self.model = LatentDirichletAllocation(
            size,
            topic_word_prior=prior,
            learning_method="online",
            total_samples=train.shape[0],
            random_state=seed,
        )
        self.stream = common.minibatches(train, self.model.batch_size, seed)

    def step(self):
        self.model.partial_fit(next(self.stream))

    def topics(self):
        topics = self.model.components_
        return topics, self.model.doc_topic_prior_, topics.shape[0]


class GensimLDA:
    """Learns its document prior; its default of 2000 documents is a corpus here."""

    def __init__(self, train, seed, size, prior):
        self.docs = gensim_documents(train)
        self.model = LdaModel(
            id2word=gensim_names(train),
            num_topics=size,
            alpha="auto",
            eta=prior,
            chunksize=BATCH_SIZE,
            eval_every=None,
            random_state=seed,
        )
        starts = range(0, len(self.docs), 20 * BATCH_SIZE)
        self.parts = cycle(self.docs[at : at + 20 * BATCH_SIZE] for at in starts)

    def step(self):
        # Or the same documents would count as new ones.
        self.model.state.numdocs = len(self.docs)
        self.model.update(next(self.parts))

    def topics(self):
        return self.model.get_topics(), self.model.alpha, self.model.num_topics


class GensimHDP:
    """`HdpModel` with its defaults; one minibatch a step."""

    def __init__(self, train, seed, size, prior):
        self.docs, self.names = gensim_documents(train), gensim_names(train)
        self.seed, self.size, self.prior, self.model = seed, size, prior, None
        starts = range(0, len(self.docs), BATCH_SIZE)
        self.chunks = cycle(self.docs[at : at + BATCH_SIZE] for at in starts)

    def step(self):
        chunk = next(self.chunks)
        if self.model is None:  # what it is made of is what it learns from first
            self.model = HdpModel(
                self.docs,
                self.names,
                T=self.size,
                eta=self.prior,
                max_chunks=1,
                random_state=self.seed,
            )
        else:
            self.model.update_chunk(chunk)

    def topics(self):
        self.model.update_expectations()
        prior, topics = self.model.hdp_to_lda()
        tokens = self.model.m_lambda_sum
        active = int((tokens >= 1e-4 * tokens.sum()).sum())
        return np.maximum(topics, 1e-300), np.maximum(prior, 1e-12), active


def gensim_documents(train):
    """Documents as gensim walks over them, made before the clock starts."""
    return list(Sparse2Corpus(train, documents_columns=False))


def gensim_names(train):
    return {word: str(word) for word in range(train.shape[1])}


class TomotopyLDA(Tomotopy):
    """`LDAModel`, which learns its document prior."""

    def __init__(self, train, seed, size, prior):
        super().__init__(train, tomotopy.LDAModel(k=size, eta=prior, seed=seed))

    def topics(self):
        return self.topic_words(), self.model.alpha, self.model.k


class TomotopyHDP(Tomotopy):
    """`HDPModel` from a number of topics, which learns its concentrations."""

    def __init__(self, train, seed, size, prior):
        super().__init__(train, tomotopy.HDPModel(initial_k=size, eta=prior, seed=seed))

    def alive(self):
        return [k for k in range(self.model.k) if self.model.is_live_topic(k)]

    def topics(self):
        # Tables of a topic are not to be had; documents that use it are, and they are
        # nearly as many.
        users = np.zeros(self.model.k)
        for doc in self.model.docs:
            users[np.unique(doc.topics)] += 1
        alive = self.alive()
        weights = np.append(users[alive], self.model.gamma)
        return (
            self.topic_words(),
            self.model.alpha * weights / weights.sum(),
            len(alive),
        )


class Topica:
    """A model of topica, whose fits cannot be continued.

    Each look is at a fit of its own, of as many sweeps as shall take that time.
    """

    def __init__(self, train):
        words = np.array([str(word) for word in range(train.shape[1])])
        self.n_words = train.shape[1]
        self.docs = [
            np.repeat(words[train[[row]].indices], train[[row]].data.astype(int))
            for row in range(train.shape[0])
        ]
        self.docs = [doc.tolist() for doc in self.docs]

    def points(self, look, limit):
        """Looks at times up to a limit, by the processor seconds of the fit."""
        some, more = self.fit(5), self.fit(10)
        each = max(more - some, 1e-3) / 5
        points, rest = [], max(some - 5 * each, 0.0)  # what it takes beside sweeps
        for goal in sorted({limit, *(moment for moment in TIMES if moment < limit)}):
            n_sweeps = int((0.95 * goal - rest) / each)
            if n_sweeps > 0:
                seconds = self.fit(n_sweeps)
                each = (seconds - rest) / n_sweeps
                points.append([seconds, *look(*self.topics())])
        return points or [[more, *look(*self.topics())]]

    def fit(self, n_sweeps):
        """Learn from scratch; return processor seconds."""
        self.model = self.make()
        return common.cpu_seconds(
            lambda: self.model.fit(self.docs, iters=n_sweeps, **self.settings)
        )[1]

    def topic_words(self):
        """Topics with words in the order of the columns."""
        topics = np.zeros((self.model.num_topics, self.n_words))
        topics[:, np.array(self.model.vocabulary, dtype=int)] = self.model.topic_word
        return topics


class TopicaLDA(Topica):
    """`LDA`, one state; it learns its document prior from its 200th sweep on."""

    settings = {"num_samples": 1, "keep_theta_draws": False}

    def __init__(self, train, seed, size, prior):
        super().__init__(train)
        self.make = lambda: topica().LDA(size, beta=prior, seed=seed)

    def topics(self):
        return self.topic_words(), self.model.alpha, self.model.num_topics


class TopicaHDP(Topica):
    """`HDP`, whose number of topics has no start; it learns its concentrations."""

    settings = {"keep_theta_draws": False}

    def __init__(self, train, seed, size, prior):
        super().__init__(train)
        self.sizes = np.array([[len(doc)] for doc in self.docs])
        self.make = lambda: topica().HDP(beta=prior, seed=seed)

    def topics(self):
        # As of tomotopy's: the share of documents that use a topic.
        users = (self.model.doc_topic * self.sizes >= 0.5).sum(axis=0)
        weights = np.append(np.maximum(users, 1e-12), self.model.gamma)
        prior = self.model.alpha * weights / weights.sum()
        return self.topic_words(), prior, self.model.num_topics


def topica():
    """Return the package, which may not be installed."""
    import topica

    return topica


PEERS = {
    "topica LDA": TopicaLDA,
    "topica HDP": TopicaHDP,
    "tomotopy LDAModel": TomotopyLDA,
    "tomotopy HDPModel": TomotopyHDP,
    "scikit-learn LDA": ScikitLearnLDA,
    "gensim LdaModel": GensimLDA,
    "gensim HdpModel": GensimHDP,
}
SAMPLER = "skbnp GibbsHDP"


def run(corpus, name, seed, seconds, sizes, priors):
    """Rows of a model on a corpus, one for each of its settings."""
    train, test = load(corpus, TEST_TOKENS)
    tokens = split_tokens(test, random_state=0)
    types = common.split_types(test)

    def look(topics, prior, n_topics):
        return (
            held_out_log_likelihood(topics, prior, *tokens, repeats=True),
            common.type_score(topics, prior, *types),
            held_out_log_likelihood(topics, prior, *tokens),
            n_topics,
        )

    if name in OURS:
        points, ends = fit_ours(train, look, seconds, seed, OURS[name])
        yield {"K": None, "eta": None} | ends, points
        return
    if name == SAMPLER:
        yield {"K": None, "eta": None}, look_at(Sampler(train, seed), look, seconds)
        return
    for size in sizes if name != "topica HDP" else (None,):
        for prior in priors:
            model = PEERS[name](train, seed, size, prior)
            yield {"K": size, "eta": prior}, look_at(model, look, seconds)


def look_at(model, look, seconds):
    """Looks at a model that learns step by step, or anew for each look."""
    if isinstance(model, Topica):
        return model.points(look, seconds)
    times = (*TIMES, seconds)
    return common.watch(model.step, lambda: look(*model.topics()), seconds, times=times)


def at_times(points, end):
    """The latest look at each time up to an end, a twentieth late at the most."""
    result = {}
    for limit in (moment for moment in TIMES if moment <= end):
        seen = [point for point in points if point[0] <= 1.05 * limit]
        if seen:
            _, score, by_type, alone, n_topics = seen[-1]
            result |= {f"{limit:g} s": score, f"types, {limit:g} s": by_type}
            result |= {"no cache": alone, "topics": n_topics}
    return result


COLUMNS = ["corpus", "model", "K", "eta", "seeds"]
COLUMNS += [f"{limit:g} s" for limit in TIMES]
COLUMNS += [f"types, {limit:g} s" for limit in TIMES] + ["no cache", "topics", "ends"]
COLUMNS += ["commit"]


def is_same(row, other):
    names = ("corpus", "model", "K", "eta", "seed")
    return all(row.get(name) == other.get(name) for name in names)


def save(new):
    """Put rows in the place of earlier ones, and write the table."""
    rows = [row for row in common.stored("peers")[1] if "looks" in row]
    rows = [row for row in rows if not any(is_same(row, other) for other in new)] + new
    order = {
        name: place for place, name in enumerate([*CORPORA, *OURS, SAMPLER, *PEERS])
    }
    rows.sort(
        key=lambda r: (
            order[r["corpus"]],
            order[r["model"]],
            r["K"] or 0,
            r["eta"] or 0,
            r["seed"],
        )
    )
    table = common.medians(rows, ("corpus", "model", "K", "eta"))
    for row in table:
        same = [r for r in rows if is_same(r, row | {"seed": r["seed"]})]
        row["seeds"] = len(same)
        row["commit"] = ", ".join(sorted({r["commit"] for r in same}))
    common.save("peers", table + rows, COLUMNS, n_shown=len(table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="*", help=", ".join(CORPORA))
    known = [*OURS, SAMPLER, *PEERS]
    if not find_spec("topica"):
        known = [name for name in known if not name.startswith("topica")]
    parser.add_argument("--models", nargs="*", default=known)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--priors", nargs="*", type=float, default=PRIORS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    parser.add_argument("--seconds", type=float, default=TIMES[-1])
    options = parser.parse_args()
    for seed in options.seeds:
        for corpus in options.corpus or CORPORA:
            for name in options.models:
                settings = options.seconds, options.sizes, options.priors
                for setting, points in run(corpus, name, seed, *settings):
                    row = {"corpus": corpus, "model": name, **setting, "seed": seed}
                    end = TIMES[-1] if "ends" in setting else options.seconds
                    row |= at_times(points, end) | {"looks": points}
                    row["commit"] = common.commit()
                    print({k: v for k, v in row.items() if k != "looks"}, flush=True)
                    save([row])
