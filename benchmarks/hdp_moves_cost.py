"""What moves that the bound judges cost: their share of the passes with moves.

SKBNP_DATA=... python benchmarks/hdp_moves_cost.py
"""

import time
from contextlib import ExitStack
from unittest.mock import patch

from common import load_corpus, save, standard_split

from skbnp import HDP
from skbnp.estimators import SplitMerge
from skbnp.inference.engine import Learner
from skbnp.models.hdp.bound_trials import BoundTrials
from skbnp.models.hdp.moves import merge as hdp_merge
from skbnp.models.hdp.moves import minibatch, structure

#: Where moves happen; trials, with memory, are passes of their own.
MOVES = {
    "online": [
        (minibatch, "merge"),
        (minibatch, "prune"),
        (minibatch, "split"),
        (hdp_merge.MergeComparison, "__call__"),
    ],
    "memoized": [
        (structure.ExactMoves, "_merge"),
        (structure.ExactMoves, "_choose_pairs"),
        (hdp_merge.MergeComparison, "__call__"),
    ],
}
TRIALS = {
    "online": [],
    "memoized": [(Learner, "one_pass"), (BoundTrials, "_propose")],
}


class Clock:
    """Adds up the processor time of what it wraps, but for what runs in another."""

    def __init__(self, other=None):
        self.seconds, self.depth, self.other = 0.0, 0, other

    def wrap(self, function):
        def timed(*args, **kwargs):
            self.depth += 1
            begin = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.depth -= 1
                if self.depth == 0 and not (self.other and self.other.depth):
                    self.seconds += time.process_time() - begin

        return timed


def run(name, train, method, start):
    trial = Clock()
    moves = Clock(trial)
    with ExitStack() as stack:
        for clock, places in ((moves, MOVES[method]), (trial, TRIALS[method])):
            for owner, attribute in places:
                wrapped = clock.wrap(getattr(owner, attribute))
                stack.enter_context(patch.object(owner, attribute, wrapped))
        hdp = HDP(
            start,
            variational_family="mean_field",
            learning_method=method,
            split_merge=SplitMerge(criterion="bound"),
            max_iter=25,
            tol=0,
            random_state=0,
        )
        warm_up = hdp.warm_up
        before = time.process_time()
        hdp.fit(train)
        total = time.process_time() - before
    warm = HDP(
        start,
        variational_family="mean_field",
        learning_method=method,
        max_iter=warm_up,
        tol=0,
        random_state=0,
        split_merge=False,
    )
    before = time.process_time()
    warm.fit(train)
    total -= time.process_time() - before
    plain = total - moves.seconds - trial.seconds
    return {
        "corpus": name,
        "method": method,
        "start": start,
        "end": hdp.n_components_,
        "moves s": moves.seconds,
        "trials s": trial.seconds,
        "visits and updates s": plain,
        "moves / visits": moves.seconds / plain,
        "trials / all": trial.seconds / total,
    }


READING = """
Processor seconds of 20 passes after the warm-up, moves judged by the bound. "Moves" are
merges, splits and prunes and what they look at during visits; trials, with memory, are
passes of their own.
"""


if __name__ == "__main__":
    rows = []
    for name, share in (("ap", 0.1), ("nips", 0.2)):
        train, _ = standard_split(load_corpus(name), share)
        for method in MOVES:
            rows.append(run(name, train, method, 100))
            print(rows[-1], flush=True)
    save("hdp_moves_cost", rows, list(rows[0]), READING)
