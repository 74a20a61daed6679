"""The nested HDP beside a flat HDP: completion, time, agreement of seeds, coherence.

Each corpus is split into 80 % of its documents to learn from and 20 % to predict, once.
The flat fit has burstiness=False, all else are defaults. Per seed:

- completion: `score` of the unseen documents by topics alone, nats per token;
- CPU seconds of the fit;
- NPMI of the 10 top terms in the training documents, mean over the leaves, and over all
  topics of the flat fit;
- agreement: adjusted Rand index of `apply` on training documents, of which 60 % are in
  the main branch under both seeds.

    SKBNP_DATA=... python -m benchmarks.nested_hdp arxiv2000 kos

Corpora are files `<name>.npz` of `SKBNP_DATA`; "docstrings" is `load_docstrings`.
"""

import argparse
import os
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score

from skbnp import HDP, NestedHDP
from skbnp.datasets import load_docstrings
from skbnp.metrics import topic_coherence

#: Share of a document that its main branch has, where branches are compared.
CLEAR = 0.6


def load(name):
    """Return counts, those to learn from and those to predict."""
    if name == "docstrings":
        texts = load_docstrings(remove=("code", "references")).data
        words = CountVectorizer(
            stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
        )
        X = sp.csr_array(words.fit_transform(texts), dtype=float)
    else:
        path = Path(os.environ["SKBNP_DATA"]) / f"{name}.npz"
        X = sp.csr_array(sp.load_npz(path), dtype=float)
    order = np.random.default_rng(0).permutation(X.shape[0])
    n_test = X.shape[0] // 5
    train = X[np.sort(order[n_test:])]
    return train[np.diff(train.indptr) > 0], X[np.sort(order[:n_test])]


def fit(estimator, X):
    """Fit; return the CPU seconds that it took."""
    start = time.process_time()
    estimator.fit(X)
    return time.process_time() - start


def main_branches(nested, X):
    """Return the main branch of each document, and whether it is clear."""
    tree, shares = nested.tree_, nested.transform(X)
    branch = np.zeros(tree.n_nodes, dtype=int)
    for node in range(1, tree.n_nodes):
        branch[node] = tree.path(node)[1]
    main = nested.apply(X)
    share = (shares * (branch == main[:, None])).sum(axis=1)
    return main, share >= CLEAR


def measure(name, seeds):
    """Print a row of figures for each seed, and medians."""
    train, test = load(name)
    rows, branches = [], []
    for seed in seeds:
        flat, nested = (
            HDP(random_state=seed, burstiness=False),
            NestedHDP(random_state=seed),
        )
        flat_seconds, seconds = fit(flat, train), fit(nested, train)
        tree = nested.tree_
        topics = nested.components_[tree.leaves]
        upper = nested.components_[tree.depth == 2]
        rows.append(
            [
                flat.score(test, repeats=False),
                nested.score(test, repeats=False),
                flat_seconds,
                seconds,
                flat.n_components_,
                tree.n_nodes,
                (tree.depth == 1).sum(),
                (tree.depth == 2).sum(),
                np.nanmean(topic_coherence(flat.components_, train)),
                np.nanmean(topic_coherence(topics, train)),
                np.nanmean(topic_coherence(upper, train)) if len(upper) else np.nan,
            ]
        )
        branches.append(main_branches(nested, train))
    agreement = [
        adjusted_rand_score(one[both], other[both])
        for (one, clear), (other, too) in combinations(branches, 2)
        for both in [clear & too]
    ]
    shares = [clear.mean() for _, clear in branches]
    median = np.median(rows, axis=0)
    figures = [*median, np.median(agreement), np.median(shares)]
    print(f"| {name} | " + " | ".join(f"{value:.4g}" for value in figures) + " |")


def main():
    """Measure the corpora that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    columns = (
        "corpus | flat | nested | flat, s | nested, s | topics | nodes | themes | "
        "depth 2 | NPMI flat | leaves | depth 2 | agreement | clear"
    )
    print(f"| {columns} |")
    print("|---" * (columns.count("|") + 1) + "|")
    for name in given.corpora:
        measure(name, range(given.seeds))


if __name__ == "__main__":
    main()
