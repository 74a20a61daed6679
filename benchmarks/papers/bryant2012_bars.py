"""The bars of Bryant and Sudderth (2012), Figure 2(a, d): topics found from any start.

20 topics on a 10 x 10 grid, 2000 documents of 250 words, Dirichlet(0.1) proportions
(the paper does not state them); online learning with rho_t = (1 + t)^-0.5, and
memoized learning.

    python benchmarks/papers/bryant2012_bars.py [--starts N ...] [--seeds N ...]
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from common import save, standard_score
from scipy.optimize import linear_sum_assignment

from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge

STARTS, SEEDS = (2, 5, 10, 20, 40, 50, 80, 100), (0, 1, 2)
#: What judges numbers of topics: the paper's moves are online, with its verdicts.
MOVES = {
    "paper": SplitMerge.paper(),
    "bound": SplitMerge(criterion="bound"),
    "held-out documents": True,
    "none": False,
}
#: Passes, at the most where held-out documents judge.
PASSES = {"online": 10, "memoized": 20}
MOST_PASSES = 60


def run(bars, method, n_components, seed, moves):
    train, test = bars.data[:2000], bars.data[2000:]
    begin = time.perf_counter()
    hdp = HDP(
        n_components,
        variational_family="mean_field",
        learning_method=method,
        batch_size=200,
        max_iter=MOST_PASSES if MOVES[moves] is True else PASSES[method],
        learning_offset=1,
        learning_decay=0.5,
        topic_word_prior=0.1,
        doc_concentration=1,
        corpus_concentration=1,
        learn_priors=False,
        warm_up=0,
        tol=1e-4 if MOVES[moves] is True else 0,
        split_merge=MOVES[moves],
        random_state=seed,
    ).fit(train)
    gap = bars.topic_word_distr[:, None] - hdp.topic_word_distr_[None]
    distance = np.abs(gap).sum(axis=2) / 2
    return {
        "method": method,
        "moves": moves,
        "start": n_components,
        "seed": seed,
        "topics": hdp.n_components_,
        "in use": hdp.n_active_components_,
        "bars found": int((distance[linear_sum_assignment(distance)] < 0.3).sum()),
        "score": hdp.score(test, repeats=False),
        "births": hdp.history_["n_births"][-1],
        "splits": hdp.history_["n_splits"][-1],
        "merges": hdp.history_["n_merges"][-1],
        "seconds": time.perf_counter() - begin,
    }


READING = """
Starts from 2 to 100 topics, three seeds; "bars found" are true topics with a learned
one within total variation 0.3, the score is nats per held-out token. The paper's
splits and merges, the exact bound and held-out documents find the number of topics of
the truth from every start; splits judged by other documents ("bound", online) may leave
some too many. Without moves the number is that of the start, and of 20 and fewer too
few are bars.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", nargs="+", type=int, default=STARTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    options = parser.parse_args()
    bars = make_bars(2200, random_state=0)
    truth = standard_score(bars.topic_word_distr, 0.1, bars.data[2000:])
    rows = [{"method": "truth", "topics": 20, "bars found": 20, "score": truth}]
    for method in PASSES:
        for moves in MOVES:
            if (method, moves) == ("memoized", "paper"):
                continue
            for start in options.starts:
                for seed in options.seeds if MOVES[moves] else options.seeds[:1]:
                    rows.append(run(bars, method, start, seed, moves))
                    print(rows[-1], flush=True)
    save("bryant2012_bars", rows, list(rows[1]), READING)
