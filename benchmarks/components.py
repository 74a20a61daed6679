"""What `HierarchicalComponentAnalysis` recovers of planted trees, and what rows cost.

python benchmarks/components.py [planted] [noise] [rows] [stream] [--seeds N ...]
    [--n-rows N]
"""

import argparse
import resource
import time

import common  # before NumPy: it pins the threads
import numpy as np
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from skbnp import HierarchicalComponentAnalysis
from skbnp.datasets import make_subspace_tree

SEEDS = (200, 201, 202, 203, 204)
#: Columns of rows whose number is varied, and rows of a chunk of the stream.
N_FEATURES, CHUNK = 64, 2_000
#: Standard deviation of the noise of planted rows.
NOISE = 0.5


def peak_memory():
    """Peak of the resident memory so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def classify_by_truth(drawn):
    """Leaves of highest density under the tree that rows were drawn from."""
    X, scores = drawn.data - drawn.mean, []
    for path in np.unique(drawn.path, axis=0):
        loadings = drawn.components[path]
        covariance = loadings.T @ loadings + NOISE**2 * np.eye(X.shape[1])
        scores.append(multivariate_normal(cov=covariance).logpdf(X))
    return np.argmax(scores, axis=0)


def planted(seed):
    """Root, three nodes and nine leaves, whose number nobody says."""
    drawn = make_subspace_tree(noise_std=NOISE, random_state=seed)
    model = HierarchicalComponentAnalysis(3, random_state=seed)
    _, seconds = common.cpu_seconds(lambda: model.fit(drawn.data))
    leaves, tree = model.apply(drawn.data), model.tree_
    groups = leaves.copy()
    while (tree.depth[groups] > 1).any():
        groups = np.where(tree.depth[groups] > 1, tree.parent[groups], groups)
    return {
        "seed": seed,
        "nodes": model.n_components_,
        "leaf adjusted Rand": adjusted_rand_score(drawn.target, leaves),
        "by the truth": adjusted_rand_score(drawn.target, classify_by_truth(drawn)),
        "level 2 adjusted Rand": adjusted_rand_score(drawn.path[:, 1], groups),
        "converged": model.converged_,
        "CPU s": seconds,
    }


def noise(seed):
    """Rows without a direction."""
    X = np.random.default_rng(seed).normal(size=(900, 30))
    model = HierarchicalComponentAnalysis(3, random_state=seed)
    _, seconds = common.cpu_seconds(lambda: model.fit(X))
    n_paths = len(model.tree_.leaves)
    return {"seed": seed, "paths": n_paths, "CPU s": seconds}


def rows(n_rows):
    """A planted tree of many columns."""
    drawn = make_subspace_tree(n_rows, n_features=N_FEATURES, random_state=0)
    model = HierarchicalComponentAnalysis(3, random_state=0)
    _, seconds = common.cpu_seconds(lambda: model.fit(drawn.data))
    return {"rows": n_rows, "nodes": model.n_components_, "CPU s": seconds}


def stream(n_rows):
    """The same in chunks; memory above that of the rows."""
    drawn = make_subspace_tree(n_rows, n_features=N_FEATURES, random_state=0)
    model = HierarchicalComponentAnalysis(3, total_samples=n_rows, random_state=0)
    looks, spent = [], 0.0
    before = peak_memory()
    for begin in range(0, n_rows, CHUNK):
        chunk = drawn.data[begin : begin + CHUNK]
        begun = time.process_time()
        model.partial_fit(chunk)
        spent += time.process_time() - begun
        if (begin // CHUNK + 1).bit_count() == 1 or begin + CHUNK >= n_rows:
            leaves = model.apply(drawn.data[:CHUNK])
            score = adjusted_rand_score(drawn.target[:CHUNK], leaves)
            looks.append(
                {
                    "rows": begin + len(chunk),
                    "nodes": model.n_components_,
                    "leaf adjusted Rand": score,
                    "CPU s": spent,
                    "peak MB above": peak_memory() - before,
                }
            )
    return looks


PARTS = ("planted", "noise", "rows", "stream")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS)
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--n-rows", type=int, default=100_000)
    options = parser.parse_args()
    sizes = [options.n_rows // 10, options.n_rows]
    for part in options.parts:
        if part == "planted":
            result = [planted(seed) for seed in options.seeds]
        elif part == "noise":
            result = [noise(seed) for seed in options.seeds]
        elif part == "rows":
            result = [rows(n_rows) for n_rows in sizes]
        else:
            result = stream(options.n_rows)
        for row in result:
            print(row, flush=True)
        common.save(f"components_{part}", result, list(result[0]))
