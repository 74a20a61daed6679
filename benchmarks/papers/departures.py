"""What some departures from the papers change, each beside what is printed.

    SKBNP_DATA=... python benchmarks/papers/departures.py [--what NAME ...]
        [--seed N ...]

`sweep.py` has the options.
"""

import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import common  # before NumPy: it pins the threads
import dependent_trees
import hu2015
import numpy as np
import wang2009
from corpora import Documents
from sweep import Case, Fit, main

from skbnp import HDP, DependentTrees, GibbsNestedCRP, NestedCRP, StickBreakingHDP
from skbnp.metrics import fold_in_score, held_out_log_likelihood, split_tokens
from skbnp.models import hdp_sticks
from skbnp.models.dependent_trees import local

#: Of Bryant and Sudderth (2012), without moves; of Wang et al. (2011).
DIRECT = {"variational_family": "mean_field", "split_merge": False, "warm_up": 0}
DIRECT |= {"learning_offset": 1, "learning_decay": 0.5, "batch_size": 200}
STICKS = {"learn_priors": False, "warm_up": 0, "learning_decay": 0.6, "tol": 0.0}
#: Starts of a sampler, and sweeps of a short and of a long chain.
N_STARTS, SHORT, LONG = 10, 500, 10_000


def direct(learn_priors):
    """Fit a topic model of direct assignments, 12 passes."""
    given = DIRECT | {"learn_priors": learn_priors, "max_iter": 12, "tol": 0.0}
    return lambda seed: HDP(100, **given, random_state=seed)


def sticks(**given):
    """Fit one with two stick-breaking constructions."""
    return lambda seed: StickBreakingHDP(**STICKS, **given, random_state=seed)


def chain(n_starts, n_sweeps):
    """Sample trees from sequential starts, of which the most probable one counts."""

    def fit(docs, seed):
        seeds = N_STARTS * seed + np.arange(n_starts)
        chains = [
            GibbsNestedCRP(
                **wang2009.PRIORS,
                init="sequential",
                max_iter=n_sweeps,
                random_state=int(one),
            ).fit(docs.train)
            for one in seeds
        ]
        return max(chains, key=lambda one: np.mean([s.log_joint for s in one.samples_]))

    return fit


def tree(tol):
    """Fit a tree by the moves of the paper."""
    given = wang2009.VARIATIONAL["NestedCRP, paper"] | {"tol": tol}
    return lambda seed: NestedCRP(**wang2009.PRIORS, **given, random_state=seed)


def epochs(n_best):
    """Fit dependent trees whose rows keep so many nodes."""

    def fit(docs, seed):
        with patch.object(local, "N_BEST", n_best):
            trees = DependentTrees(random_state=seed)
            return trees.fit(docs.train, epochs=docs.truth[0])

    return fit


def printed_epochs(kappa_0=None):
    """Fit them by the moves of the paper, with concentrations of our fit."""

    def fit(docs, seed):
        given = epochs(local.N_BEST)(docs, seed), kappa_0
        trees = hu2015.by_the_paper(given, seed)
        return trees.fit(docs.train, epochs=docs.truth[0])

    return fit


#: Ways by what differs; the first is ours. Some fit by themselves.
WAYS = {
    "BS12, concentrations": {
        "learned": direct("concentrations"),
        "of 1": direct(False),
        "learned, topic prior too": direct(True),
    },
    "WPB11, start": {
        "documents": sticks(max_iter=10),
        "noise": sticks(max_iter=10, init="random"),
    },
    "WPB11, batch": {
        "topics merge": sticks(learning_method="batch", max_iter=30),
        "no merges": sticks(learning_method="batch", max_iter=30),
    },
    "WB09, sampler": {
        "one start": chain(1, SHORT),
        "best of ten starts": chain(N_STARTS, SHORT),
        "10,000 sweeps": chain(1, LONG),
    },
    "WB09, end": {
        "change of .001 of the bound": tree(1e-3),
        "of .00001": tree(1e-5),
    },
    "HU15, nodes of a row": {
        "eight": epochs(8),
        "32 nodes": epochs(32),
        "four": epochs(4),
    },
    "HU15, moves": {
        "ours": epochs(8),
        "of the paper": printed_epochs(),
        "of the paper, kappa_0 of 100": printed_epochs(100.0),
    },
}
#: Those that take documents.
BY_DOCUMENTS = "WB09, sampler", "HU15, nodes of a row", "HU15, moves"


def documents(what, seed):
    """Training and test documents, as on the pages of each paper."""
    if what.startswith("WB09"):
        counts = wang2009.corpus_of("jacm")
        folds = np.random.default_rng(0).permutation(counts.shape[0])
        test = folds % wang2009.N_FOLDS == seed
        return Documents(counts[~test], counts[test])
    if what.startswith("HU15"):
        X, labels = dependent_trees.unit_rows("nips")
        held = dependent_trees.split(labels, seed)
        return Documents(X[~held], X[held], (labels[~held], labels[held]))
    name = "nips_abstracts" if what.startswith("WPB11") else "nips"
    return Documents(*common.standard_split(common.load_corpus(name), 0.2))


def score(what, docs, model):
    """Held-out score of the pages of a paper."""
    if what.startswith("WB09"):
        return fold_in_score(model, docs.test)
    if what.startswith("HU15"):
        return float(model.score(docs.test, epochs=docs.truth[1]))
    topics, prior = model.topic_word_distr_, common.hdp_prior(model)
    observed = 0.8
    if what.startswith("WPB11"):
        prior, observed = prior[:-1], 0.9
    parts = split_tokens(docs.test, observed=observed, random_state=0)
    return held_out_log_likelihood(topics, prior, *parts, repeats=False)


def learn(docs, what, way, seed):
    """Yield a fit and its score."""
    make = WAYS[what][way]
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        if way == "no merges":
            stack.enter_context(patch.object(hdp_sticks, "similar_pairs", lambda _: []))
        if what in BY_DOCUMENTS:
            model, seconds = common.cpu_seconds(lambda: make(docs, seed))
        else:
            model, seconds = common.cpu_seconds(lambda: make(seed).fit(docs.train))
    yield Fit(docs, model, seconds, {"score": score(what, docs, model)})


def mean(rows, name):
    """Mean of a column."""
    return float(np.mean([row[name] for row in rows]))


def beside_ours(rows):
    """Means over seeds, and how far another way is ahead of ours, paired."""
    table = []
    for line, same in common.groups(rows, ("what", "way")):
        first = line["what"], next(iter(WAYS[line["what"]]))
        ours = {
            row["seed"]: row["score"]
            for row in rows
            if (row["what"], row["way"]) == first
        }
        ahead = [row["score"] - ours[row["seed"]] for row in same]
        line |= {"seeds": len(same), "score": mean(same, "score")}
        line |= {"ahead of ours": float(np.mean(ahead)), "error": np.nan}
        if len(same) > 1:
            line["error"] = float(np.std(ahead, ddof=1) / np.sqrt(len(ahead)))
        line |= {name: mean(same, name) for name in ("topics", "CPU s")}
        table.append(line)
    return table


CASE = Case(
    axes={
        "what, way": [(what, way) for what, ways in WAYS.items() for way in ways],
        "seed": (0, 1, 2),
    },
    documents=documents,
    learn=learn,
    summary=beside_ours,
    over="seed",
    keeps=("what", "way", "seed"),
)


if __name__ == "__main__":
    main(__doc__, {"departures": CASE})
