"""How many topics `HDP` finds, with defaults, from 1, 10, 100 and 300.

SKBNP_DATA=... python benchmarks/hdp_topic_numbers.py [planted] [nothing] [text]
    [--corpora NAME ...] [--methods NAME ...] [--starts K ...] [--seeds SEED ...]

Rows replace those of the same corpus, method, start and seed in the results.
"""

import argparse
import json

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from common import cpu_seconds, hdp_prior, save, standard_score
from corpora import load as load_text

from skbnp import HDP
from skbnp.datasets import make_bars, make_hdp

#: Corpora that settings were chosen on, but for seeds from 2 on; the rest decided
#: nothing.
CHOICE = ("ap", "sotu", "nips_abstracts", "arxiv2000", "bbc_tech", "citeulike_titles")
REPORT = ("kos", "reuters395", "jacm", "arxiv_titles", "docstrings")
GROUPS = {
    "planted": (
        "bars 5x5, 300",
        "bars 5x5, 450",
        "bars 5x5, 2000",
        "bars 10x10, 300",
        "bars 10x10, 2000",
        "bars 10x10, 5000",
        "hdp 15, 800",
        "hdp 15, 3000",
        "hdp 40, 2000",
    ),
    "nothing": (
        "one topic",
        "uniform",
        "permuted ap",
        "permuted arxiv2000",
        "permuted nips_abstracts",
    ),
    "text": CHOICE + REPORT,
}
N_TEST = 300
STARTS = (1, 10, 100, 300)
METHODS = {
    "online": {},
    "memoized": {"learning_method": "memoized"},
    "mean field": {"variational_family": "mean_field"},
}


def load(name, seed):
    """Training and test documents, and the topics and document prior they are from."""
    kind, _, rest = name.partition(" ")
    if kind in ("bars", "hdp"):
        size, n_docs = rest.split(", ")
        n_docs = int(n_docs)
        if kind == "bars":
            side = int(size.split("x")[0])
            made = make_bars(n_docs + N_TEST, side=side, random_state=seed)
            prior = np.full(2 * side, 0.1)
        else:
            n_topics = int(size)
            made = make_hdp(n_docs + N_TEST, n_components=n_topics, random_state=seed)
            prior = np.full(n_topics, 1.0 / n_topics)
        counts = sp.csr_array(made.data)
        return counts[:n_docs], counts[n_docs:], (made.topic_word_distr, prior)
    rng = np.random.default_rng(seed)
    if name in ("one topic", "uniform"):
        topic = rng.dirichlet(np.full(500, 0.1))
        if name == "uniform":
            topic = np.full(500, 1.0 / 500)
        counts = sp.csr_array(rng.multinomial(80, topic, size=1000 + N_TEST))
        return counts[:1000], counts[1000:], (topic[None], np.ones(1))
    if kind == "permuted":
        train, test = load_text(rest)
        return permuted(train, rng), permuted(test, rng), None
    return *load_text(name), None


def permuted(counts, rng):
    """Documents of the same lengths, their tokens dealt out at random."""
    n_tokens = counts.data.astype(int)
    words = rng.permutation(np.repeat(counts.indices, n_tokens))
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    rows = np.repeat(rows, n_tokens)
    return sp.csr_array((np.ones(len(words)), (rows, words)), counts.shape)


class Scores:
    """A callback that scores the test documents after every pass."""

    def __init__(self, score):
        self.score, self.values, self.seconds = score, [], 0.0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is not None and context.task_name == "pass":
            value, seconds = cpu_seconds(lambda: self.score(fitted_estimator))
            self.values.append(value)
            self.seconds += seconds


def run(name, method, start, seed):
    train, test, truth = load(name, seed)

    def score(hdp):
        return standard_score(hdp.topic_word_distr_, hdp_prior(hdp), test)

    hdp = HDP(start, random_state=seed, **METHODS[method])
    scores = Scores(score)
    if truth is None:
        hdp.set_callbacks(scores)
    hdp, seconds = cpu_seconds(lambda: hdp.fit(train))
    values = [*scores.values, score(hdp)]
    row = {
        "corpus": name,
        "method": method,
        "start": start,
        "seed": seed,
        "topics": hdp.n_components_,
        "active": hdp.n_active_components_,
        "score": values[-1],
        "fall": max(np.max(np.maximum.accumulate(values) - values), 0.0),
        "passes": hdp.n_iter_,
        "converged": hdp.converged_,
        "CPU s": seconds - scores.seconds,
        "commit": common.commit(),
    }
    if truth is not None:
        row["truth"] = standard_score(*truth, test)
        row["found"] = n_found(hdp.topic_word_distr_, truth[0])
    return row


def n_found(topics, true_topics):
    """True topics with one of a cosine of 0.95 at least."""
    one, other = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (true_topics, topics)
    )
    return int(((one @ other.T).max(axis=1) > 0.95).sum())


def key(row):
    return (row["corpus"], row["method"], row["start"], row["seed"])


def medians(rows):
    """One row for each corpus and method: medians over seeds, side by side."""
    table = []
    for name, method in dict.fromkeys((r["corpus"], r["method"]) for r in rows):
        same = [r for r in rows if (r["corpus"], r["method"]) == (name, method)]
        line = {
            "corpus": name,
            "method": method,
            "seeds": len({r["seed"] for r in same}),
        }
        topics, scores = [], []
        for start in STARTS:
            here = [r for r in same if r["start"] == start]
            if not here:
                continue
            topics.append(np.median([r["topics"] for r in here]))
            scores.append(np.median([r["score"] for r in here]))
            line[f"topics from {start}"] = float(topics[-1])
            line[f"score from {start}"] = float(scores[-1])
        line["apart"] = float(max(scores) - min(scores))
        line["ratio"] = float(max(topics) / min(topics))
        line["fall"] = float(np.median([r["fall"] for r in same]))
        line["CPU s"] = float(np.median([r["CPU s"] for r in same]))
        if "truth" in same[0]:
            line["least found"] = min(r["found"] for r in same)
            line["most topics"] = max(r["topics"] for r in same)
            line["truth"] = float(np.median([r["truth"] for r in same]))
        line["commit"] = ", ".join(sorted({r["commit"] for r in same}))
        table.append(line)
    return table


READING = """
`HDP(n_components=start, random_state=seed)`, everything else at its default, but for
`learning_method` where it is "memoized", and for the family where it is "mean field".
Medians over seeds, which name the corpus, too, where it is made. Score: nats per
held-out token of unseen documents, the standard split;
"apart" and "ratio": of the medians of the starts, the largest against the smallest;
"fall": by how much the score was below its best so far, at the most, after any pass;
"found": true topics with one of a cosine of 0.95 at least, fewest of all runs. "bars
5x5, 300": 10 bars, 300 documents; "hdp 15, 800": 15 topics, 800 documents. "permuted":
tokens dealt out at random to documents of the same lengths. Settings were chosen on
ap, sotu, nips_abstracts, arxiv2000, bbc_tech and citeulike_titles and on seeds 0 and 1
of corpora that are made; that models go on before reductions, and how much of a pass
the last steps remember, was seen on arxiv_titles, and what tells the topic prior on kos
and docstrings; the rest decided nothing.

Rows are of the commits that the last column names. Online rows of the older ones are of
the trials of 26 November, before burstiness. The others of these are of trials before,
in which documents were folded in by mean field, as for their scores: memoized ones of
ap of nearly those trials else; all others of trials in which held-out tokens told the
topic prior, too: memoized rows of kos, docstrings and arxiv_titles of seed 0 of nearly
the present ones else, other ones of trials in which models did not go on before
reductions; mean-field rows, and memoized ones of sotu, nips_abstracts, arxiv2000,
bbc_tech and citeulike_titles, of such in which documents that judged reductions had
chosen them, too.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="*", default=list(GROUPS))
    parser.add_argument("--corpora", nargs="*")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--starts", nargs="*", type=int, default=list(STARTS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    asked = parser.parse_args()
    names = asked.corpora or [n for group in asked.groups for n in GROUPS[group]]
    path = common.RESULTS / "hdp_topic_numbers.json"
    for name in names:
        for method in asked.methods:
            for start in asked.starts:
                for seed in asked.seeds:
                    row = run(name, method, start, seed)
                    print(row, flush=True)
                    rows = json.loads(path.read_text())["rows"] if path.exists() else []
                    rows = [r for r in rows if "passes" in r and key(r) != key(row)]
                    rows = [*rows, row]
                    table = medians(rows)
                    columns = list(dict.fromkeys(c for line in table for c in line))
                    columns.sort(key="commit".__eq__)  # the last
                    save(
                        "hdp_topic_numbers",
                        table + rows,
                        columns,
                        READING,
                        (),
                        len(table),
                    )
