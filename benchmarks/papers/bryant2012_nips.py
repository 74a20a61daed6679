"""NIPS papers of Bryant and Sudderth (2012), Figure 2(b, d): moves or fixed numbers.

SKBNP_DATA=... python benchmarks/papers/bryant2012_nips.py [CPU seconds of a run]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import RESULTS, Curve, load_corpus, save, standard_split

from skbnp import HDP

RUNS = [
    ("online", 100, True),
    ("online", 300, True),
    ("online", 300, False),
    ("online", 1000, False),
    ("memoized", 100, True),
    ("memoized", 300, True),
    ("memoized", 300, False),
    ("batch", 300, True),
    ("batch", 300, False),
    ("batch", 1000, False),
]


def run(train, test, method, start, moves, limit):
    curve = Curve(
        lambda model: [model.score(test, repeats=False), model.n_components_], limit
    )
    hdp = HDP(
        start,
        variational_family="mean_field",
        learning_method=method,
        split_merge=moves,
        max_iter=1000,
        tol=1e-6,
        random_state=0,
    ).set_callbacks(curve)
    hdp.fit(train)
    seconds = curve.seconds()
    return {
        "method": method,
        "start": start,
        "moves": moves,
        "score": hdp.score(test, repeats=False),
        "bound": hdp.elbo_,
        "topics": hdp.n_components_,
        "active": hdp.n_active_components_,
        "births": hdp.history_["n_births"][-1],
        "splits": hdp.history_["n_splits"][-1],
        "merges": hdp.history_["n_merges"][-1],
        "passes": hdp.n_iter_,
        "CPU s": seconds,
        "curve": curve.points,
    }


def draw(rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    colours = dict(
        zip(("online", "memoized", "batch"), ("C0", "C1", "C2"), strict=True)
    )
    widths = {100: 0.8, 300: 1.6, 1000: 2.6}
    for row in rows:
        seconds, scores, topics = zip(*row["curve"], strict=True)
        style = {
            "color": colours[row["method"]],
            "linestyle": "-" if row["moves"] else ":",
            "linewidth": widths[row["start"]],
        }
        kind = "moves" if row["moves"] else "no moves"
        label = f"{row['method']}, from {row['start']}, {kind}"
        left.plot(seconds, scores, label=label, **style)
        right.plot(seconds, topics, **style)
    left.set(xscale="log", xlabel="CPU seconds", ylabel="nats per held-out token")
    best = max(row["score"] for row in rows)
    left.set_ylim(best - 0.15, best + 0.01)
    right.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="topics")
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(RESULTS / "bryant2012_nips.png", dpi=120)


READING = """
`nips`, 1392 papers to learn from, 348 to test on, 80/20 completion, topic prior 0.05;
curves in the JSON file and in bryant2012_nips.png.
"""


if __name__ == "__main__":
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    train, test = standard_split(load_corpus("nips"), 0.2)
    rows = []
    for method, start, moves in RUNS:
        rows.append(run(train, test, method, start, moves, limit))
        print({k: v for k, v in rows[-1].items() if k != "curve"}, flush=True)
    columns = [name for name in rows[0] if name != "curve"]
    save("bryant2012_nips", rows, columns, READING + f"At most {limit:.0f} CPU s each.")
    draw(rows)
