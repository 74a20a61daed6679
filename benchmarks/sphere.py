"""Scores of rows under directions on the sphere, beside a product of SciPy.

    SKBNP_DATA=... python benchmarks/sphere.py [--runs N]

SciPy multiplies sparse rows by a dense table, both in single precision, and keeps
nothing; ours keeps the eight best nodes of each row.
"""

import argparse
import time

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp

from skbnp.kernels._sphere import TILE, score_rows

#: Corpus, its most frequent words (None: all), number of nodes; least ratio wanted.
CASES = [
    ("arxiv_large", None, 1000, 2.0),
    ("arxiv_large", None, 5000, 2.0),
    *(
        ("arxiv_large", n_words, n_nodes, None)
        for n_words in (2000, 8000)
        for n_nodes in (100, 1000, 5000)
    ),
    ("arxiv_large", None, 100, None),
]
N_ROWS, N_BEST, STRENGTH = 16384, 8, 5000.0
#: Rows that SciPy multiplies at a time: the product would not fit otherwise.
ROWS_AT_A_TIME = 1024


def unit_rows(name, n_words):
    counts = common.load_corpus(name)
    if n_words is not None:
        frequent = np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")
        counts = counts[:, np.sort(frequent[:n_words])]
    order = np.random.default_rng(0).permutation(counts.shape[0])[:N_ROWS]
    X = sp.csr_array(counts[order])
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(np.maximum(lengths, 1e-300), np.diff(X.indptr))
    X.sort_indices()
    return X.astype(np.float32)


def random_means(X, n_nodes):
    """Means of ten rows each, dense as learned ones are, (n_words, n_nodes)."""
    rng = np.random.default_rng(1)
    means = np.full((X.shape[1], n_nodes), 1e-3, dtype=np.float32)
    for node in range(n_nodes):
        means[:, node] += X[rng.integers(X.shape[0], size=10)].sum(axis=0)
    return means / np.linalg.norm(means, axis=0)


def tiles_of(means):
    n_words, n_nodes = means.shape
    n_tiles = -(-n_nodes // TILE)
    table = np.zeros((n_tiles, n_words, TILE), dtype=np.float32)
    for tile in range(n_tiles):
        part = means[:, tile * TILE : (tile + 1) * TILE]
        table[tile, :, : part.shape[1]] = part
    prior = np.full(n_tiles * TILE, -np.inf)
    prior[:n_nodes] = -np.log(n_nodes)
    return table, prior


def run(name, n_words, n_nodes, target, n_runs):
    X = unit_rows(name, n_words)
    means = random_means(X, n_nodes)
    table, prior = tiles_of(means)
    indptr, words = X.indptr.astype(np.int32), X.indices.astype(np.int32)
    nodes = np.empty((X.shape[0], N_BEST), dtype=np.int32)
    scores = np.empty(nodes.shape)
    rows = (indptr, words, X.data, table, prior, STRENGTH)
    seconds = np.empty((n_runs, 2))
    for number in range(n_runs):
        begin = time.process_time()
        for first in range(0, X.shape[0], ROWS_AT_A_TIME):
            theirs = X[first : first + ROWS_AT_A_TIME] @ means
        middle = time.process_time()
        score_rows(*rows, nodes, scores)
        seconds[number] = middle - begin, time.process_time() - middle
    best = STRENGTH * theirs.max(axis=1) - np.log(n_nodes)
    assert np.allclose(scores[first:, 0], best, rtol=1e-5)
    ratios = seconds[:, 0] / seconds[:, 1]
    per_product = 1e9 * np.median(seconds, axis=0) / X.nnz / n_nodes
    return {
        "corpus": name,
        "vocabulary": X.shape[1],
        "words per row": X.nnz / X.shape[0],
        "nodes": n_nodes,
        "SciPy ns": per_product[0],
        "skbnp ns": per_product[1],
        "ratio": float(np.median(ratios)),
        "least": float(ratios.min()),
        "target": target,
        "rows/s": X.shape[0] / float(np.median(seconds[:, 1])),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    results = []
    for case in CASES:
        results.append(run(*case, options.runs))
        print(results[-1], flush=True)
    common.save("sphere", results, list(results[0]))
