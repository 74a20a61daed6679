"""`HDP` with and without burstiness: prediction, coherence, topics and time.

SKBNP_DATA=... python benchmarks/burstiness.py [CORPUS ...] [--seeds SEED ...]
    [--models MODEL ...]

Rows of other corpora, seeds and models are kept in results/burstiness.json, with the
commit that they are of. Instead of corpora: "planted" (documents drawn with
burstiness), "streams" (`partial_fit`), "passes" (the cost of one) and "numbers" (fits
of fewer topics) have pages of their own. The model "tomotopy" needs that package.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from itertools import product

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
import scipy.sparse as sp

from skbnp import HDP
from skbnp.datasets import make_hdp
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop, StepInput
from skbnp.metrics import held_out_log_likelihood, split_tokens
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.collapsed_local import MAX_ITER, TOL, CollapsedStep
from skbnp.rows.batch import Batch

CHOICE = ("ap", "kos", "docstrings", "bbc_tech")
REPORT = ("nips", "sotu", "arxiv_large_30", "jacm", "reuters395", "citeulike_titles")
MODELS = {"topics alone": {"burstiness": False}, "burstiness": {}}
#: Topics and sweeps of the peer, latent Dirichlet allocation by Gibbs sampling.
PEER = "tomotopy"
PEER_TOPICS, PEER_SWEEPS = 100, 200
#: Topics of fits at most, fewer than the defaults have.
NUMBERS = {"ap": (147, 80), "docstrings": (400, 280, 200)}
#: Documents of a chunk of a stream.
CHUNKS = (20, 100)
#: Share of the documents that test, and these at most.
TEST_SHARE, MOST_TEST = 0.25, 2000
#: Most likely terms whose coherence is measured.
N_TERMS = 10
COLUMNS = (
    "corpus",
    "model",
    "seed",
    "seeds",
    "tokens",
    "types",
    "tokens, no cache",
    "raw types",
    "NPMI",
    "NPMI, mean",
    "topics",
    "d",
    "c",
    "CPU s",
    "commit",
)


def load(name):
    """Training documents, and a quarter as test documents."""
    counts = corpora.docstring_counts() if name == "docstrings" else None
    if counts is None:
        counts = common.load_corpus(name.removesuffix("_30"))
    if name.endswith("_30"):
        rows = np.random.default_rng(1).permutation(counts.shape[0])
        counts = counts[np.sort(rows[: int(0.3 * counts.shape[0])])]
    train, test = common.standard_split(counts, TEST_SHARE)
    return train, test[:MOST_TEST]


def coherence(topics, weights, test):
    """NPMI of the top terms of topics in test documents: weighted, and plain means."""
    shown = sp.csc_array((test > 0).astype(np.float64))
    n_docs, values = test.shape[0], []
    for topic in topics:
        top = np.argsort(-topic, kind="stable")[:N_TERMS]
        some = shown[:, top]
        both = (some.T @ some).toarray() / n_docs
        one, other = np.triu_indices(len(top), 1)
        p, p_both = both.diagonal(), both[one, other]
        with np.errstate(divide="ignore", invalid="ignore"):
            npmi = np.log(p_both / (p[one] * p[other])) / -np.log(p_both)
        values.append(np.where(p_both > 0, np.minimum(npmi, 1.0), -1.0).mean())
    values = np.array(values)
    return float(values @ weights / weights.sum()), float(values.mean())


def measure(topics, prior, weights, test):
    """All scores of topics: (K, V), Dirichlet parameters, weights."""
    tokens, types = split_tokens(test, random_state=0), common.split_types(test)
    weighted, plain = coherence(topics, weights, test)
    return {
        "tokens": held_out_log_likelihood(topics, prior, *tokens, repeats=True),
        "types": common.type_score(topics, prior, *types),
        "tokens, no cache": held_out_log_likelihood(
            topics, prior, *tokens, repeats=False
        ),
        "raw types": held_out_log_likelihood(topics, prior, *types, repeats=False),
        "NPMI": weighted,
        "NPMI, mean": plain,
        "topics": len(topics),
    }


def measure_hdp(hdp, test):
    """All scores of a fit."""
    topics, weights = hdp.topic_word_distr_, hdp.topic_weights_
    return measure(topics, common.hdp_prior(hdp), weights, test) | {
        "d": hdp.word_discount_,
        "c": hdp.word_concentration_,
    }


def measure_peer(train, test, seed):
    """All scores of topics of tomotopy, which have the cache at prediction alone."""
    import tomotopy

    lda = tomotopy.LDAModel(k=PEER_TOPICS, seed=seed)
    names = np.array([str(word) for word in range(train.shape[1])])
    for row in range(train.shape[0]):
        part = slice(train.indptr[row], train.indptr[row + 1])
        counts = train.data[part].astype(np.int64)
        lda.add_doc(np.repeat(names[train.indices[part]], counts).tolist())
    _, seconds = common.cpu_seconds(lambda: lda.train(PEER_SWEEPS, workers=1))
    topics = np.full((lda.k, train.shape[1]), 1e-12)
    columns = [int(name) for name in lda.used_vocabs]
    for k in range(lda.k):
        topics[k, columns] = lda.get_topic_word_dist(k)
    weights = np.asarray(lda.get_count_by_topics(), float)
    scores = measure(topics, np.asarray(lda.alpha, float), weights, test)
    return scores | {"d": np.nan, "c": np.nan, "CPU s": seconds}


def run(corpus, seed, models):
    """Rows of some models on a corpus."""
    train, test = load(corpus)
    for name in models:
        where = {"corpus": corpus, "model": name, "seed": seed}
        where |= {"commit": common.commit()}
        if name == PEER:
            yield where | measure_peer(train, test, seed)
            continue
        hdp = HDP(random_state=seed, **MODELS[name])
        _, seconds = common.cpu_seconds(lambda hdp=hdp: hdp.fit(train))
        yield where | measure_hdp(hdp, test) | {"CPU s": seconds}


def draw_bursty(concentration, seed):
    """600 documents of 15 topics, whose tokens a Dirichlet process of each repeats."""
    drawn = make_hdp(600, n_features=500, n_components=15, random_state=seed)
    rng = np.random.default_rng(seed)
    counts = np.zeros(drawn.data.shape)
    means = drawn.doc_topic_distr @ drawn.topic_word_distr
    for row, mean in zip(counts, means, strict=True):
        words = rng.choice(len(mean), p=mean / mean.sum(), size=rng.poisson(100))
        for at in range(len(words)):
            if rng.random() * (concentration + at) >= concentration:
                words[at] = words[rng.integers(at)]
        np.add.at(row, words, 1.0)
    return counts


def planted():
    """Numbers of topics and concentrations that fits of bursty documents find."""
    rows = []
    for concentration in (20.0, 100.0):
        for seed in range(3):
            counts = draw_bursty(concentration, seed)
            hdp = HDP(random_state=seed).fit(counts)
            alone = HDP(burstiness=False, random_state=seed).fit(counts)
            rows.append(
                {
                    "c": concentration,
                    "draw": seed,
                    "topics": hdp.n_components_,
                    "topics without": alone.n_components_,
                    "c found": hdp.word_concentration_,
                    "d found": hdp.word_discount_,
                }
            )
            print(*rows[-1].values(), flush=True)
    reading = """
600 documents of some 100 tokens over 15 topics, 500 words; the tokens of a document
come from a Dirichlet process of concentration c over its mixture. "topics": of default
fits; "topics without": with `burstiness=False`.
"""
    common.save("burstiness_planted", rows, list(rows[0]), reading)


def streams():
    """One pass of `partial_fit`, with and without burstiness."""
    rows = []
    for corpus in ("docstrings", "arxiv2000", "nips_abstracts", "ap"):
        train, test = load(corpus)
        for name, settings in MODELS.items():
            for chunk, seed in product(CHUNKS, range(2)):
                hdp = HDP(random_state=seed, **settings)
                order = np.random.default_rng(seed).permutation(train.shape[0])

                def learn(hdp=hdp, order=order, train=train, chunk=chunk):
                    for first in range(0, len(order), chunk):
                        hdp.partial_fit(train[order[first : first + chunk]])

                _, seconds = common.cpu_seconds(learn)
                where = {"corpus": corpus, "model": name, "chunk": chunk, "seed": seed}
                row = where | measure_hdp(hdp, test) | {"CPU s": seconds}
                rows.append(row)
                print(*row.values(), flush=True)
    table = common.medians(rows, ("corpus", "model", "chunk"))
    reading = """
One pass of `partial_fit` over documents in random order, "chunk" at a time. Columns as
in burstiness.md. Once burstiness is learned, topics of streams explain tables; trials
learn from tokens.
"""
    common.save("burstiness_streams", [*table, *rows], list(rows[0]), reading)


def numbers(names, seeds):
    """Fits of at most so many topics, the start and the limit."""
    rows = []
    for corpus in names:
        train, test = load(corpus)
        for seed, most in product(seeds, NUMBERS[corpus]):
            hdp = HDP(most, max_components=most, random_state=seed)
            _, seconds = common.cpu_seconds(partial(hdp.fit, train))
            where = {"corpus": corpus, "at most": most, "seed": seed}
            rows.append(where | measure_hdp(hdp, test) | {"CPU s": seconds})
            print(*rows[-1].values(), flush=True)
    reading = """
Fits of `HDP` that start from so many topics and may have no more ("at most");
reductions may end some of them. Columns, test documents and the defaults as in
burstiness.md.
"""
    columns = ["corpus", "at most", "seed", *COLUMNS[4:-1]]
    common.save("burstiness_numbers", rows, columns, reading)


def passes():
    """Processor seconds of one pass with and without tables, side by side."""
    rows = []
    for corpus, n_docs in (
        ("ap", 600),
        ("nips", 150),
        ("docstrings", 600),
        ("draw", 0),
    ):
        counts = draw_bursty(20.0, 0) if corpus == "draw" else load(corpus)[0][:n_docs]
        for size in (100, 300):
            hdp = HDP(size, split_merge=False, burstiness=False, max_iter=12, tol=0)
            hdp.set_params(random_state=0).fit(counts)
            posterior = hdp._posterior
            batch = Batch.from_counts(
                sp.csr_array(counts), posterior.state.n_components
            )
            best = [np.inf, np.inf]
            with Executor(None) as executor:
                for at in 7 * (0, 1):
                    there = posterior.copy()
                    if at:
                        there.state = replace(
                            there.state,
                            burstiness=Burstiness(0.73, 31.0),
                            by_tables=True,
                        )
                    begin = time.process_time()
                    stop, held = LocalStop(MAX_ITER, TOL), np.ones(batch.n_docs)
                    given = StepInput(there, batch, stop, executor, remembered=held)
                    CollapsedStep.prepare(given).collect(given)
                    best[at] = min(best[at], time.process_time() - begin)
            row = {"corpus": corpus, "K": posterior.state.n_components}
            row |= {"tokens": float(counts.sum()), "without, s": best[0]}
            rows.append(row | {"with, s": best[1], "ratio": best[1] / best[0]})
            print(*rows[-1].values(), flush=True)
    reading = """
The document step over all documents, without and with tables of words, under the same
topics: least processor time of seven runs, in turn. Some hundred documents of each
corpus; "draw" is the first of burstiness_planted.md with c = 20.
"""
    common.save("burstiness_passes", rows, list(rows[0]), reading)


READING = """
Default fits of `HDP`, and those with `burstiness=False`, of topics alone: medians of so
many "seeds", and below each fit, with the commit that it is of. "tokens":
nats per held-out token of test documents, 80 % of the tokens observed, with repeats
(the cache is learned from the observed tokens for either model); "types": new word
types, each once, renormalised to words that the document has not shown; "tokens, no
cache" and "raw types": the same splits by topics alone. "NPMI": coherence of the ten
most likely terms of topics in test documents, weighted by topics, and as plain mean.
"tomotopy": latent Dirichlet allocation with 100 topics after 200 sweeps of collapsed
Gibbs sampling, with the same cache at prediction. "d", "c": discount and concentration
of words. Designs were chosen on ap, kos, docstrings and bbc_tech (that reductions come
after tables: on ap, docstrings, nips and kos); the other corpora decided nothing.
The docstrings are those of the
packages that were installed: of c438cf6 and of later commits they are not the same.

What a reader sees in the ten largest topics, seed 0, by relevance: of `ap`, they hold
.48 of the corpus rather than .27, half of it is in 12 topics rather than 33, and
"christmas, day, ranch, restaurants, bring" is no topic of its own any more; of
docstrings, the same ten topics, .21 rather than .17 of the corpus, half of it in 58
rather than 72; of `bbc_tech`, the same topics, for those of tables were rejected. Small
topics are what plain means of NPMI are about: of `reuters395`, the smallest quarter of
the topics has -.85 (topics alone: -.62), the others .03, -.45, -.59 (.01, -.47, -.56).
"""


def by_corpus(rows):
    """Medians over seeds, and the commits that these are of."""
    table = common.medians(rows, ("corpus", "model"))
    for one in table:
        same = [r for r in rows if all(r[n] == one[n] for n in ("corpus", "model"))]
        one["commit"] = ", ".join(sorted({row["commit"] for row in same}))
        one["seeds"] = len(same)
    return table


def main():
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="*", default=CHOICE + REPORT)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    parser.add_argument(
        "--models", nargs="+", choices=(*MODELS, PEER), default=tuple(MODELS)
    )
    given = parser.parse_args()
    parts = {"planted": planted, "streams": streams, "passes": passes}
    parts |= {"numbers": lambda: numbers(NUMBERS, given.seeds)}
    for name in parts.keys() & set(given.corpora):
        parts[name]()
    chosen = [name for name in given.corpora if name not in parts]
    if not chosen:
        return
    path = common.RESULTS / "burstiness.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in rows if row["seed"] != "median"]
    for corpus in chosen:
        for seed in given.seeds:
            rows = [
                row
                for row in rows
                if (row["corpus"], row["seed"]) != (corpus, seed)
                or row["model"] not in given.models
            ]
            for row in run(corpus, seed, given.models):
                print(*(row.get(name) for name in COLUMNS), flush=True)
                rows.append(row)
    order = CHOICE + REPORT
    rows.sort(key=lambda r: (order.index(r["corpus"]), r["model"], r["seed"]))
    shown = [row for row in rows if row["corpus"] in order]
    table = by_corpus(shown)
    common.save("burstiness", rows, COLUMNS, READING, n_shown=0)
    common.save("burstiness", [*table, *rows], COLUMNS, READING)


if __name__ == "__main__":
    main()
