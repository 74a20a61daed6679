"""`HDP` where documents are few, beside tomotopy's models: splits of each corpus.

SKBNP_DATA=... python benchmarks/few_documents.py [CORPUS ...] [--splits SPLIT ...]
    [--models MODEL ...] [--seconds SECONDS]

"kos:400" are 400 documents of `kos`. Rows of other corpora, splits and models are kept
in results/few_documents.json. tomotopy must be installed. Instead of corpora: "short"
(samples of short texts) and "signatures" (samples of 96 kinds of mutations) have pages
of their own; `--splits` are their samples.
"""

import argparse
import json
import warnings
from itertools import product

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from corpora import docstring_counts
from hdp_topic_numbers import n_found
from peers import PRIORS, SIZES, TomotopyHDP, TomotopyLDA, topics_of
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.metrics import held_out_log_likelihood, split_tokens

CORPORA = (
    "jacm",
    "bbc_tech",
    "reuters395",
    "ap:400",
    "kos:400",
    "nips:400",
    "docstrings:400",
    "arxiv2000",
    "nips_abstracts",
    "citeulike_titles",
)
#: A topic prior that is kept, for words that documents repeat.
SMALL_PRIOR = {"topic_word_prior": 0.003, "learn_priors": "concentrations"}
OURS = {
    "HDP": {},
    "HDP from 30": {"n_components": 30},
    "HDP from 100": {"n_components": 100},
    "HDP from 600, eta=0.003": {"n_components": 600, **SMALL_PRIOR},
}
PEERS = {"tomotopy LDA": TomotopyLDA, "tomotopy HDP": TomotopyHDP}
#: Share of the documents that test, and these at the most.
SHARE, MOST_TEST = 0.2, 1000
#: Processor seconds of a peer.
SECONDS = 2.0

#: What has pages of its own.
PARTS = ("short", "signatures")
SHORT = ("citeulike_titles", "arxiv_titles", "first lines of docstrings")
#: Documents of a sample, and in how many of them a term must be.
SAMPLES = ((350, 2), (350, 1), (100, 1), (30, 1))
#: Other documents, which test.
MOST_OTHERS = 3000
#: Fits of a sample; those of fewer documents have one, and no peer.
N_FITS, MANY = 3, 300
#: Topics of the peer, and topic priors of one topic: the best count.
SHORT_SIZES, ONE_PRIORS = (5, 10, 20, 50), (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def load(name, split):
    """Training and test documents, of the words that the former have."""
    name, _, n_docs = name.partition(":")
    counts = docstring_counts() if name == "docstrings" else common.load_corpus(name)
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 5]
    rows = np.random.default_rng(split).permutation(counts.shape[0])
    rows = rows[: int(n_docs or len(rows))]
    n_test = min(int(SHARE * len(rows)), MOST_TEST)
    test, train = counts[rows[:n_test]], counts[rows[n_test:]]
    used = np.asarray(train.sum(axis=0)).ravel() > 0
    return train[:, used], test[:, used]


def run(corpus, split, models, limit):
    """Rows of some models on one split; peers learn up to a limit of seconds."""
    train, test = load(corpus, split)
    parts = split_tokens(test, random_state=0), common.split_types(test)

    def row(model, topics, prior, n_topics, seconds):
        tokens, types = parts
        result = {
            "tokens": held_out_log_likelihood(topics, prior, *tokens, repeats=True),
            "types": common.type_score(topics, prior, *types),
            "no cache": held_out_log_likelihood(topics, prior, *tokens),
            "topics": n_topics,
        }
        where = {"corpus": corpus, "split": split, "documents": train.shape[0]}
        return where | {"model": model} | result | {"CPU s": seconds}

    for name in filter(models.__contains__, OURS):
        hdp = HDP(random_state=split, **OURS[name])
        seconds = common.cpu_seconds(lambda hdp=hdp: hdp.fit(train))[1]
        yield row(name, *topics_of(hdp), seconds)
    for name in filter(models.__contains__, PEERS):
        for size in SIZES:
            for prior in PRIORS:
                peer, seconds = PEERS[name](train, split, size, prior), 0.0
                while seconds < limit:
                    seconds += common.cpu_seconds(peer.step)[1]
                yield row(f"{name}, K={size}, eta={prior}", *peer.topics(), seconds)


def summarise(rows):
    """Means over splits of each model, and by how much `HDP` is ahead, paired."""
    table = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        here = [row for row in rows if row["corpus"] == corpus]
        ours = {row["split"]: row for row in here if row["model"] == "HDP"}
        of_corpus = []
        for model in dict.fromkeys(row["model"] for row in here):
            some = [row for row in here if row["model"] == model]
            line = {"corpus": corpus, "documents": some[0]["documents"], "model": model}
            line |= {key: float(np.mean([row[key] for row in some])) for key in MEANS}
            for key in SCORES if model != "HDP" else ():
                ahead = [ours[row["split"]][key] - row[key] for row in some]
                error = np.std(ahead, ddof=1) / np.sqrt(len(ahead))
                line[f"HDP ahead, {key}"] = f"{np.mean(ahead):+.3f} ± {error:.3f}"
            line |= {"topics": round(line["topics"]), "splits": len(some)}
            of_corpus.append(line)
        peers = [line for line in of_corpus if "tomotopy" in line["model"]]
        best = {max(line[key] for line in peers) for key in SCORES if peers}
        table += [
            line
            for line in of_corpus
            if line not in peers or not best.isdisjoint(line[key] for key in SCORES)
        ]
    return table


SCORES = ("tokens", "types")
MEANS = (*SCORES, "no cache", "topics", "CPU s")
COLUMNS = ["corpus", "documents", "model", "splits", *SCORES, "no cache", "topics"]
COLUMNS += ["HDP ahead, tokens", "HDP ahead, types", "CPU s"]
READING = """
Held-out scores (nats per token, larger is better) by document completion as in
`peers.md`, by tokens and by new word types, with the same cache of repeated words for
all models, and by tokens of topics alone ("no cache"): means over random splits into
training and test documents (a fifth). `HDP` has its defaults, which is a start of 300
topics, or another start, or a small topic prior that it keeps, which was chosen on
`bbc_tech`; it ends by itself. Peers: models of tomotopy with 100 and 300 topics (HDP:
at the start) and topic priors .01 and .05, the state after so many seconds of a
processor (`CPU s`); of these eight the page shows the best by tokens and the best by
types, chosen by these scores. "Ahead": mean and standard error of the differences.
"""


def short_texts(name):
    """Counts of all documents."""
    if name in SHORT[:2]:
        return common.load_corpus(name)
    lines = [text.split("\n\n")[0] for text in load_docstrings().data]
    vectorizer = CountVectorizer(stop_words="english", max_df=0.3)
    return sp.csr_array(vectorizer.fit_transform(lines).astype(float))


def short_sample(name, n_docs, min_df, sample):
    """A sample of documents, and other documents, of terms in `min_df` of it."""
    counts = short_texts(name)
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() > 0]
    rows = np.random.default_rng(sample).permutation(counts.shape[0])
    train, test = counts[rows[:n_docs]], counts[rows[n_docs : n_docs + MOST_OTHERS]]
    used = np.asarray((train > 0).sum(axis=0)).ravel() >= min_df
    return train[:, used], test[:, used]


def run_short(name, n_docs, min_df, sample, limit):
    """Rows of fits, of the best one topic and of the best of the peer's settings."""
    train, test = short_sample(name, n_docs, min_df, sample)
    parts = split_tokens(test, random_state=0)
    where = {"corpus": name, "documents": n_docs, "min_df": min_df, "sample": sample}

    def score(topics, prior):
        return held_out_log_likelihood(topics, prior, *parts, repeats=True)

    words = np.asarray(train.sum(axis=0)).reshape(1, -1)
    alone = max(score(words + prior, np.ones(1)) for prior in ONE_PRIORS)
    yield where | {"model": "one topic", "score": alone}
    for seed in range(N_FITS if n_docs >= MANY else 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hdp = HDP(random_state=seed)
            _, seconds = common.cpu_seconds(lambda hdp=hdp: hdp.fit(train))
        topics, prior, _ = topics_of(hdp)
        low, high = hdp.n_components_range_ or 2 * (hdp.n_components_,)
        yield where | {
            "model": "HDP",
            "seed": seed,
            "score": score(topics, prior),
            "topics": hdp.n_components_,
            "least": int(low),
            "most": int(high),
            "warns": any(w.category is ConvergenceWarning for w in caught),
            "CPU s": seconds,
        }
    for size, prior in product(SHORT_SIZES, PRIORS) if n_docs >= MANY else ():
        peer, seconds = TomotopyLDA(train, sample, size, prior), 0.0
        while seconds < limit:
            seconds += common.cpu_seconds(peer.step)[1]
        topics, prior_of_docs, _ = peer.topics()
        setting = {"model": "tomotopy LDA", "K": size, "eta": prior}
        yield where | setting | {"score": score(topics, prior_of_docs)}


def summarise_short(rows):
    """One row for each kind of sample: gains over one topic, nats per token."""
    table = []
    by = ("corpus", "documents", "min_df")
    for key in dict.fromkeys(tuple(row[name] for name in by) for row in rows):
        here = [row for row in rows if tuple(row[name] for name in by) == key]
        gains, apart, behind, blind = [], [], [], 0
        for sample in dict.fromkeys(row["sample"] for row in here):
            same = [row for row in here if row["sample"] == sample]
            alone = next(r["score"] for r in same if r["model"] == "one topic")
            fits = [row for row in same if row["model"] == "HDP"]
            scores = np.array([row["score"] for row in fits])
            gains += list(scores - alone)
            apart += list(np.abs(scores - np.median(scores)))
            peers = [row for row in same if row["model"] == "tomotopy LDA"]
            if peers:
                best = max(row["score"] for row in peers)
                behind.append(np.median(scores) - best)
                some = max(row["score"] for row in peers if row["K"] <= 20)
                ones = sum(row["topics"] == 1 for row in fits)
                blind += ones if some > alone + 0.02 else 0
        fits = [row for row in here if row["model"] == "HDP"]
        quartiles = np.percentile([row["topics"] for row in fits], (25, 50, 75))
        line = dict(zip(by, key, strict=True))
        line |= {"samples": len({row["sample"] for row in here}), "fits": len(fits)}
        line |= {"gain": float(np.median(gains)), "least gain": float(min(gains))}
        line["from median"] = float(max(apart)) if len(fits) > line["samples"] else ""
        line["ahead of LDA"] = float(np.median(behind)) if behind else ""
        line["least ahead"] = float(min(behind)) if behind else ""
        line |= {"one topic where LDA gains": blind if behind else ""}
        line["topics, quartiles"] = " ".join(f"{value:g}" for value in quartiles)
        line["warn"] = sum(row["warns"] for row in fits)
        line["wide ranges"] = sum(row["most"] > 2 * row["least"] for row in fits)
        line["CPU s"] = float(np.median([row["CPU s"] for row in fits]))
        table.append(line)
    return table


def short(samples, limit):
    """Samples of short texts."""
    rows = []
    for n_docs, min_df in SAMPLES:
        for name in SHORT:
            for sample in samples:
                rows += run_short(name, n_docs, min_df, sample, limit)
            table = summarise_short(rows)
            print(table[-1], flush=True)
            columns = list(table[0])
            common.save(
                "few_short_texts",
                table + rows,
                columns,
                READING_SHORT,
                ("tomotopy",),
                len(table),
            )


def draw_signatures(seed):
    """Counts of 96 kinds in some samples, and the ten signatures that they mix.

    Signatures are Dirichlet draws from a few kinds to nearly all; samples have some
    of them, in different shares.
    """
    rng = np.random.default_rng(seed)
    n_samples = int(np.exp(rng.uniform(*np.log((100, 500)))))
    signatures = [rng.dirichlet(np.full(96, a)) for a in np.geomspace(0.03, 1.0, 10)]
    weights = rng.dirichlet(np.full(10, 5.0))
    shares = rng.gamma(np.tile(3.0 * weights, (n_samples, 1))) + 1e-12
    means = shares / shares.sum(axis=1, keepdims=True) @ signatures
    lengths = np.exp(rng.uniform(*np.log((300, 10_000)), n_samples)).astype(int)
    counts = [rng.multinomial(n, p) for n, p in zip(lengths, means, strict=True)]
    return np.array(counts, dtype=float), np.array(signatures)


def signatures(seeds):
    """Numbers of signatures that default fits find."""
    rows = []
    for seed in seeds:
        counts, true = draw_signatures(seed)
        hdp = HDP(random_state=seed)
        with warnings.catch_warnings(action="ignore"):
            _, seconds = common.cpu_seconds(lambda hdp=hdp, X=counts: hdp.fit(X))
        row = {"draw": seed, "samples": len(counts), "mutations": int(counts.sum())}
        low, high = hdp.n_components_range_ or 2 * (hdp.n_components_,)
        row |= {"topics": hdp.n_components_, "least": int(low), "most": int(high)}
        row["found"] = n_found(hdp.topic_word_distr_, true)
        rows.append(row | {"c": hdp.word_concentration_, "CPU s": seconds})
        print(rows[-1], flush=True)
    common.save("few_signatures", rows, list(rows[0]), READING_SIGNATURES)


READING_SHORT = f"""
Samples of short texts, and scores of at most {MOST_OTHERS} others: nats per held-out
token by document completion, a fifth of the tokens, with the same cache of repeated
words for all models. "min_df": documents of the sample that a term is in. "gain": of
default fits of `HDP`, by the concentration that its own `score` has, over the word
frequencies alone under the best of {len(ONE_PRIORS)} topic priors, chosen by this
score: median and least of all fits. "from median": largest distance of a fit from the
median of the fits of its sample. "ahead of LDA": of the median fit, from tomotopy's
LDA at the best of 5, 10, 20, 50 topics and priors .01 and .05, chosen by this score:
median and least of the samples. "one topic where LDA gains": fits that have one topic
where LDA of 5 to 20 topics is .02 ahead of word frequencies. "warn": fits with a
`ConvergenceWarning`; "wide ranges": with an `n_components_range_` of more than a factor
of 2.
"""
READING_SIGNATURES = """
Draws of ten signatures over 96 kinds of mutations, from ones of a few kinds to flat
ones, in 100 to 500 samples of 300 to 10,000 mutations; default fits of `HDP`. "least",
"most": `n_components_range_`; "found": signatures with a topic of a cosine of .95 at
least; "c": concentration of repeated words.
"""


def saved_rows():
    path = common.RESULTS / "few_documents.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", default=CORPORA)
    parser.add_argument("--splits", nargs="*", type=int, default=range(5))
    parser.add_argument("--models", nargs="*", default=[*OURS, *PEERS])
    parser.add_argument("--seconds", type=float, default=SECONDS)
    arguments = parser.parse_args()
    if "short" in arguments.corpora:
        short(arguments.splits, arguments.seconds)
    if "signatures" in arguments.corpora:
        signatures(arguments.splits)
    corpora = [name for name in arguments.corpora if name not in PARTS]
    if not corpora:
        return
    rows = {
        (row["corpus"], row["split"], row["model"]): row
        for row in saved_rows()
        if "split" in row
    }
    for corpus in corpora:
        for split in arguments.splits:
            for row in run(corpus, split, arguments.models, arguments.seconds):
                print(row, flush=True)
                rows[corpus, split, row["model"]] = row
    order = {name: place for place, name in enumerate([*CORPORA, *OURS])}
    kept = sorted(
        rows.values(),
        key=lambda row: (order[row["corpus"]], order.get(row["model"], len(order))),
    )
    table = summarise(kept)
    common.save(
        "few_documents", table + kept, COLUMNS, READING, ("tomotopy",), len(table)
    )


if __name__ == "__main__":
    main()
