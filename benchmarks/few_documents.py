"""`HDP` where documents are few, beside tomotopy's models: splits of each corpus.

SKBNP_DATA=... python benchmarks/few_documents.py [CORPUS ...] [--splits SPLIT ...]
    [--models MODEL ...] [--seconds SECONDS]

"kos:400" are 400 documents of `kos`. Rows of other corpora, splits and models are kept
in results/few_documents.json. tomotopy must be installed.
"""

import argparse
import json

import common  # before NumPy: it pins the threads
import numpy as np
from corpora import docstring_counts
from peers import PRIORS, SIZES, TomotopyHDP, TomotopyLDA, topics_of

from skbnp import HDP
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
    rows = {
        (row["corpus"], row["split"], row["model"]): row
        for row in saved_rows()
        if "split" in row
    }
    for corpus in arguments.corpora:
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
