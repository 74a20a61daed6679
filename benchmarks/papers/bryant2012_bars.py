"""The bars of Bryant and Sudderth (2012), Figure 2(a, d, g): topics from any start.

20 topics on a 10 x 10 grid, 2000 documents of 250 words, Dirichlet(0.1) proportions
(the paper does not state them); online learning with rho_t = (1 + t)^-0.5, and
memoized learning.

    python benchmarks/papers/bryant2012_bars.py [--starts N ...] [--seeds N ...]
"""

import argparse
import sys
import time
from pathlib import Path
from textwrap import fill

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from common import RESULTS, Curve, save, standard_score
from scipy.optimize import linear_sum_assignment

from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge

STARTS, SEEDS = (2, 5, 10, 20, 40, 50, 80, 100), (0, 1, 2)
#: What judges numbers of topics; the paper's moves are online.
MOVES = {
    "paper": SplitMerge.paper(),
    "held-out documents": True,
    "none": False,
}
#: Passes, at the most where held-out documents judge.
PASSES = {"online": 10, "memoized": 20}
MOST_PASSES = 60
#: Starts and seeds of the figure's curves without moves.
FIXED, FIXED_SEEDS = (20, 50), range(8)


def run(bars, method, n_components, seed, moves):
    train, test = bars.data[:2000], bars.data[2000:]
    begin = time.process_time()
    curve = Curve(
        lambda model: [model.score(test), model.n_active_components_],
        limit=np.inf,
        spacing=1.0,
        gap=0.0,
    )
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
    ).set_callbacks(curve)
    hdp.fit(train)
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
        "CPU s": time.process_time() - begin - curve.looking,
        "curve": curve.points,
        "topics by minibatch": hdp.history_["n_components"],
    }


def draw(rows, truth):
    """Figure 2(a, d, g): one curve for each start with the moves, eight without."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    styles = {
        ("paper", None): ("C0", "with splits and merges, from 2 to 100"),
        ("none", 20): ("C1", "without, 20 topics, eight seeds"),
        ("none", 50): ("C3", "without, 50 topics, eight seeds"),
    }
    labelled = set()
    for row in rows:
        key = (row["moves"], None if row["moves"] == "paper" else row["start"])
        if row["method"] != "online" or key not in styles:
            continue
        if key[0] == "paper" and row["seed"] != 0:
            continue
        colour, label = styles[key]
        label = None if key in labelled else label
        labelled.add(key)
        _, scores, used = zip(*row["curve"], strict=True)
        passes = 1 + np.arange(len(scores))
        style = {"color": colour, "linewidth": 1.2, "alpha": 0.8}
        axes[0].plot(passes, scores, label=label, **style)
        axes[1].plot(passes, used, **style)
        axes[2].plot(used, scores, **style)
        axes[2].plot(used[-1], scores[-1], "o", color=colour, markersize=4)
    for axis in (axes[0], axes[2]):
        axis.axhline(truth, color="0.6", linestyle=":")
        axis.set(ylabel="nats per held-out token", ylim=(truth - 0.6, truth + 0.03))
    axes[1].axhline(20, color="0.6", linestyle=":")
    axes[0].set(xlabel="passes of 10 minibatches", title="(a)")
    axes[1].set(xlabel="passes of 10 minibatches", ylabel="topics in use", title="(d)")
    axes[2].set(xlabel="topics in use", title="(g)")
    figure.legend(loc="outside lower center", ncols=3)
    figure.savefig(RESULTS / "bryant2012_bars.png", dpi=120)
    plt.close(figure)


READING = """
Figure 2(a, d, g) of the paper: 20 bars on a 10 x 10 grid, 2,000 documents of 250 words,
as there; proportions of documents are Dirichlet(0.1), which the paper does not state.
Starts from 2 to 100 topics, three seeds; "bars found" are true topics with a learned
one within total variation 0.3, the score is nats per held-out token. "paper" is
`SplitMerge.paper()`, Algorithm 2 of the paper. Without moves the number is that of the
start, and of 20 and fewer too few are bars.

{findings}

bryant2012_bars.png has the curves of the paper's Figure 2(a), (d) and (g), after each
pass: with the paper's moves from each start (first seed), without moves from 20 and 50
topics (eight seeds each); dotted, the score of the true topics and their number.

As printed, all runs with the paper's moves end at the same score with 20 topics, and
those without moves from 20 stay in local optima of too few. Not as printed, those from
50 do not keep too many in use, and most reach the score of the others.
{figure}
"""


def describe(rows, truth):
    """What the numbers say, in words."""
    result = []
    for method in PASSES:
        for moves in MOVES:
            own = [
                r for r in rows if (r.get("method"), r.get("moves")) == (method, moves)
            ]
            if not own or moves == "none":
                continue
            right = sum(row["topics"] == 20 for row in own)
            most = max(abs(row["topics"] - 20) for row in own)
            bars = min(row["bars found"] for row in own)
            gap = truth - min(row["score"] for row in own)
            others = "" if right == len(own) else f", the others at most {most} away"
            text = (
                f'- {method}, "{moves}": {right} of {len(own)} runs end with 20 topics'
            )
            text += f"{others}, all find {bars} bars at least, at most {gap:.3f} nats "
            text += "below the true topics."
            result.append(fill(text, 88, subsequent_indent="  "))
    return "\n".join(result)


def describe_figure(rows):
    """The sentence on what differs from the figure of the paper."""
    parts = []
    for start in FIXED:
        own = [
            row
            for row in rows
            if (row.get("method"), row.get("moves"), row.get("start"))
            == ("online", "none", start)
        ]
        used, scores = ([row[key] for row in own] for key in ("in use", "score"))
        parts.append(
            f"from {start} topics without moves {min(used)} to {max(used)} are in use "
            f"in the end, with {min(scores):.3f} to {max(scores):.3f}"
        )
    return fill("Here " + ", and ".join(parts) + ".", 88)


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
                seeds = options.seeds if MOVES[moves] else options.seeds[:1]
                if (method, moves) == ("online", "none") and start in FIXED:
                    seeds = FIXED_SEEDS
                for seed in seeds:
                    rows.append(run(bars, method, start, seed, moves))
                    shown = list(rows[-1].items())
                    print(dict(shown[:-2]), flush=True)
    reading = READING.format(
        findings=describe(rows, truth),
        figure=describe_figure(rows) if set(FIXED) <= set(options.starts) else "",
    )
    columns = [name for name in rows[1] if name not in ("curve", "topics by minibatch")]
    save("bryant2012_bars", rows, columns, reading)
    draw(rows[1:], truth)
