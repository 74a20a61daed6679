"""Which recipe finds planted mutational signatures, and how well their exposures.

    python benchmarks/signature_recipes.py [--recipes R ...] [--seeds FIRST LAST]

Eight signatures over 96 kinds of mutations, each strong in one or two substitutions and
uneven over neighbours, the last one flat. Samples have some of them.
"""

import argparse
import warnings
from functools import partial

import common  # before NumPy: it pins the threads
import numpy as np

from skbnp import HDP, GibbsHDP
from skbnp.inspection import align_components, consensus_components

#: Substitutions of each signature.
STRONG = [[0], [1], [2], [2, 4], [3], [5], [0, 2], range(6)]
#: Samples, and the range of their mutations: genomes, few of them, exomes.
DESIGNS = {
    "genomes": (150, 200, 5000),
    "few": (50, 200, 5000),
    "exomes": (150, 20, 200),
}


def planted(seed, n_samples, least, most):
    """Counts, signatures and exposures."""
    rng = np.random.default_rng(seed)
    signatures = np.full((len(STRONG), 6), 0.02)
    for row, strong in zip(signatures, STRONG, strict=True):
        row[list(strong)] = 0.9 / len(strong)
    signatures = np.hstack(
        [
            rng.dirichlet(np.full(16, 0.5), len(STRONG)) * of[:, None]
            for of in signatures.T
        ]
    )
    signatures /= signatures.sum(axis=1, keepdims=True)
    exposures = rng.dirichlet(np.full(len(STRONG), 0.3), n_samples)
    lengths = np.exp(rng.uniform(*np.log((least, most)), n_samples)).astype(int)
    pairs = zip(lengths, exposures, strict=True)
    X = np.array([rng.multinomial(n, share @ signatures) for n, share in pairs])
    return X, signatures, exposures


def mean_field(seed):
    """Return the mean-field family with a large topic prior."""
    more = {"variational_family": "mean_field", "learning_method": "memoized"}
    return HDP(30, topic_word_prior=0.5, random_state=seed, **more)


def sampled(X, seed):
    """Return the consensus of two chains, and exposures by it."""
    more = {"learn_priors": True, "n_chains": 2, "random_state": seed}
    chains = GibbsHDP(20, max_iter=200, burn_in=100, thin=5, **more).fit(X)
    consensus = consensus_components(chains, X)
    return consensus.components_, consensus.doc_topic_distr_


def fitted(model, X):
    """Return topics and exposures of a fit."""
    return model.fit(X).topic_word_distr_, model.transform(X)


RECIPES = {
    "HDP": lambda X, seed: fitted(HDP(random_state=seed), X),
    "HDP, all topics": lambda X, seed: fitted(HDP(min_gain=0, random_state=seed), X),
    "HDP, mean field": lambda X, seed: fitted(mean_field(seed), X),
    "GibbsHDP, consensus": sampled,
}


def main():
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS))
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 104])
    arguments = parser.parse_args()
    rows = []
    for design in arguments.designs:
        for name in arguments.recipes:
            results = []
            for seed in range(arguments.seeds[0], arguments.seeds[1] + 1):
                X, signatures, exposures = planted(seed, *DESIGNS[design])
                with warnings.catch_warnings(action="ignore"):
                    (topics, shares), seconds = common.cpu_seconds(
                        partial(RECIPES[name], X, seed)
                    )
                found = align_components(signatures, topics, min_similarity=0.9)
                error = exposures.copy()
                error[:, found.pairs[:, 0]] -= shares[:, found.pairs[:, 1]]
                results.append(
                    {
                        "found": len(found.pairs),
                        "more": len(topics) - len(found.pairs),
                        "cosine": float(np.median(found.similarity)),
                        "exposures": float(np.abs(error).sum(axis=1).mean()),
                        "CPU s": seconds,
                    }
                )
            means = {
                key: float(np.mean([of[key] for of in results])) for key in results[0]
            }
            all_right = sum(of["found"] == 8 and of["more"] == 0 for of in results)
            row = {"design": design, "recipe": name, "draws": len(results)}
            rows.append(row | {"all right": all_right} | means)
            print(rows[-1], flush=True)
            common.save("signature_recipes", rows, list(rows[0]))


if __name__ == "__main__":
    main()
