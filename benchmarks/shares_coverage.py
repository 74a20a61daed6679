"""How often intervals of shares, differences, slopes and coefficients have the truth.

    python benchmarks/shares_coverage.py [groups] [documents] [--models M ...]
        [--tokens N ...] [--seeds FIRST LAST]

"groups": documents are drawn from four topics over 60 words; the mean of two shares
differs between two groups, and changes with time. "documents": the consensus of four
fits has intervals of each of 250 samples of ten signatures over 96 kinds.
"""

import argparse
import warnings

import common  # before NumPy: it pins the threads
import numpy as np
import pandas as pd

from skbnp import HDP, GibbsHDP, StickBreakingHDP
from skbnp.inspection import align_components, consensus_components, topic_shares

MODELS = {
    "HDP": HDP,
    "GibbsHDP": lambda **seed: GibbsHDP(max_iter=150, burn_in=75, thin=5, **seed),
    "StickBreakingHDP": StickBreakingHDP,
    "StickBreakingHDP, batch": lambda **seed: StickBreakingHDP(
        learning_method="batch", **seed
    ),
}
BASE = np.array([0.1, 0.4, 0.3, 0.2])
GROUP, SLOPE = (of * np.array([1.0, -1.0, 0.0, 0.0]) for of in (0.1, 0.025))
N_TIMES = 10
#: Of groups.
PAGE = "shares_coverage"


def planted(seed, n_tokens, n_docs=200, n_words=60, concentration=2.0):
    """Counts, group and time of documents, and the topics that they are drawn from."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.1), len(BASE))
    group, time = rng.integers(0, 2, n_docs), rng.integers(0, N_TIMES, n_docs)
    means = BASE + GROUP * group[:, None] + SLOPE * time[:, None]
    theta = np.array([rng.dirichlet(concentration * mean) for mean in means])
    pairs = zip(1 + rng.poisson(n_tokens, n_docs), theta, strict=True)
    X = np.array([rng.multinomial(n, shares @ topics) for n, shares in pairs])
    return X, np.array(["a", "b"])[group], time, topics


def covered(model, X, group, time, topics):
    """Share of intervals with the truth of each kind, and the number of topics."""
    of_groups = topic_shares(model, X, group)
    differences, slopes = of_groups.differences(), topic_shares(model, X, time)
    frame = pd.DataFrame({"group": group, "time": time})
    coefficients = topic_shares(model, X, frame)
    mean = BASE + SLOPE * (N_TIMES - 1) / 2

    def inside(shares, low, high, truth):
        ids = model.component_ids_.tolist()
        parts = [[ids.index(number) for number in of] for of in shares.members]
        found = np.array([model.components_[of].sum(axis=0) for of in parts])
        unit = found / np.linalg.norm(found, axis=1, keepdims=True)
        place = (unit @ topics.T / np.linalg.norm(topics, axis=1)).argmax(axis=0)
        low, high = low[..., place], high[..., place]
        return float(((low <= truth) & (truth <= high)).mean())

    def of(shares, truth):
        return inside(shares, shares.low, shares.high, truth)

    return {
        "shares": of(of_groups, np.array([mean, mean + GROUP])),
        "differences": of(differences, GROUP[None]),
        "slopes": inside(slopes, slopes.slope_low, slopes.slope_high, SLOPE),
        "coefficients": float(
            inside(
                coefficients,
                coefficients.low[1:],
                coefficients.high[1:],
                [GROUP, SLOPE],
            )
        ),
        "topics": len(of_groups.topics),
        "of the fit": model.n_components_,
    }


def signatures(seed, least, n_samples=250, n_topics=10, n_words=96):
    """Counts of samples, of up to ten times the least number, and what they mix."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.2), n_topics)
    theta = rng.dirichlet(np.full(n_topics, 0.1), n_samples)
    lengths = np.exp(rng.uniform(*np.log((least, 10 * least)), n_samples)).astype(int)
    pairs = zip(lengths, theta @ topics, strict=True)
    return np.array([rng.multinomial(n, p) for n, p in pairs]), topics, theta


#: Of signatures.
FAMILIES = {"HDP": {}, "HDP, mean field": {"variational_family": "mean_field"}}


def of_documents(family, seed, least):
    """Share of intervals of documents with the truth, of all and of those above .02."""
    X, topics, theta = signatures(seed, least)
    fits = [HDP(random_state=k, **FAMILIES[family]).fit(X) for k in range(4)]
    consensus = consensus_components(fits, X)
    rows, found = align_components(topics, consensus.components_).pairs.T
    low, high = consensus.doc_topic_interval_[:, :, found]
    truth = theta[:, rows]
    is_inside = (low <= truth) & (truth <= high)
    return {
        "shares": float(is_inside.mean()),
        "above .02": float(is_inside[truth > 0.02].mean()),
        "signatures": len(rows),
    }


def measure_documents(seeds):
    """Measure intervals of documents, and write their page."""
    rows = []
    for family in FAMILIES:
        for least in (60, 300):
            with warnings.catch_warnings(action="ignore"):
                results = [of_documents(family, seed, least) for seed in seeds]
            means = {
                key: float(np.mean([of[key] for of in results])) for key in results[0]
            }
            row = {"model": family, "tokens": f"{least} to {10 * least}"}
            rows.append(row | {"draws": len(results)} | means)
            print(rows[-1], flush=True)
            common.save("document_coverage", rows, list(rows[0]))


def measure_groups(models, tokens, seeds):
    """Measure intervals of groups and covariates, and add them to their page."""
    rows = {(row["model"], row["tokens"]): row for row in common.stored(PAGE)[1]}
    for n_tokens in tokens:
        for name in models:
            results = []
            for seed in seeds:
                X, *given = planted(seed, n_tokens)
                with warnings.catch_warnings(action="ignore"):
                    model = MODELS[name](random_state=seed).fit(X)
                    results.append(covered(model, X, *given))
            means = {
                key: float(np.mean([of[key] for of in results])) for key in results[0]
            }
            row = {"model": name, "tokens": n_tokens, "draws": len(results)} | means
            print(row, flush=True)
            rows[name, n_tokens] = row
            common.save(PAGE, [*rows.values()], list(row))


def main():
    """Measure, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["groups", "documents"])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--tokens", nargs="+", type=int, default=[60, 20])
    parser.add_argument("--seeds", nargs=2, type=int, default=[1000, 1199])
    arguments = parser.parse_args()
    seeds = range(arguments.seeds[0], arguments.seeds[1] + 1)
    if "groups" in arguments.parts:
        measure_groups(arguments.models, arguments.tokens, seeds)
    if "documents" in arguments.parts:
        measure_documents(seeds)


if __name__ == "__main__":
    main()
