"""Text of Bryant and Sudderth (2012), Figure 2(b, e, h; c, f, i) and Figure 3.

SKBNP_DATA=... python benchmarks/papers/bryant2012_nips.py [curves] [large] [split]
    [readings] [--seconds S] [--seeds N ...] [--updates N]

Processor seconds of a run; curves that the figure shows are those of the first seed.
`readings` goes on from the rows of its page.
"""

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import common  # before NumPy: it pins the threads
import matplotlib
import numpy as np
from common import RESULTS, Curve, load_corpus, save, standard_score, standard_split

from skbnp import HDP, GibbsHDP, StickBreakingHDP
from skbnp.estimators import SplitMerge, _hdp
from skbnp.inspection import top_terms
from skbnp.models.hdp import moves

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

#: Of the paper: rho_t = (1 + t)^-0.5, minibatches of 200 documents.
STEPS = {"learning_offset": 1, "learning_decay": 0.5, "batch_size": 200, "warm_up": 0}
MEAN_FIELD = {"variational_family": "mean_field", "max_iter": 10_000}
ENDLESS = MEAN_FIELD | {"tol": 0.0}
METHODS = {
    "oHDP-SM": (HDP, (100, 300), ENDLESS | STEPS | {"split_merge": SplitMerge.paper()}),
    "oHDP": (HDP, (300, 1000), ENDLESS | STEPS | {"split_merge": False}),
    "bHDP": (
        HDP,
        (300, 1000),
        ENDLESS | {"learning_method": "batch", "warm_up": 0, "split_merge": False},
    ),
    "oHDP-CRF": (StickBreakingHDP, (300,), {"max_iter": 10_000, "tol": 0.0} | STEPS),
    "CGS": (GibbsHDP, (300,), {"burstiness": False, "split_merge": False}),
    "held-out trials": (HDP, (100, 300), MEAN_FIELD | {"tol": 1e-6}),
}
COLOURS = dict(zip(METHODS, ("C3", "C0", "C2", "C4", "C1", "C5"), strict=True))
STYLES = {100: ":", 200: ":", 300: "-", 500: "--", 1000: "--"}
SPACING = 1.3
#: Nats per token.
LEVEL = 0.0005


def run(train, test, method, start, seed, limit, batch_size):
    make, _, settings = METHODS[method]
    if "batch_size" in settings:
        settings = settings | {"batch_size": batch_size}
    hdp = make(start, random_state=seed, **settings)
    if make is GibbsHDP:
        points = sample(hdp, train, test, limit)
    else:

        def look(model):
            prior = common.hdp_prior(model)
            if make is StickBreakingHDP:
                prior = prior[:-1]
            score = standard_score(model.topic_word_distr_, prior, test)
            if is_level(curve.points):
                curve.limit = 0.0
            return [score, model.n_active_components_]

        curve = Curve(look, limit, spacing=SPACING, gap=0.0)
        hdp.set_callbacks(curve).fit(train)
        points = [*curve.points, [curve.seconds(), *look(hdp)]]
    seconds, scores, used = (list(column) for column in zip(*points, strict=True))
    half = half_way(points)
    row = {"method": method, "start": start, "seed": seed, "score": scores[-1]}
    row |= {"last half": scores[-1] - float(half), "in use": used[-1]}
    for name in ("n_splits", "n_merges"):
        moves = getattr(hdp, "history_", {}).get(name)
        row[name] = moves[-1] if moves else ""
    row |= {"passes": getattr(hdp, "n_iter_", ""), "CPU s": seconds[-1]}
    return row | {"curve": points}


def half_way(points):
    """The score after half of the time."""
    seconds, scores, _ = zip(*points, strict=True)
    return np.interp(seconds[-1] / 2.0, seconds, scores)


def is_level(points):
    """Whether the score has not changed since half of the time, of ten seconds."""
    if not points or points[-1][0] < max(10.0, 2.0 * points[0][0]):
        return False
    return abs(points[-1][1] - half_way(points)) < LEVEL


def sample(hdp, train, test, limit):
    """Looks at the present state of a chain."""
    chain = common.GibbsRun(hdp, train)

    def look():
        state = chain.chain.sample()
        used = int((state.n_tokens >= 1e-4 * state.n_tokens.sum()).sum())
        return standard_score(state.word_topic().T, state.doc_prior, test), used

    return common.watch(chain.step, look, limit, spacing=SPACING)


def draw(rows, name, letters):
    """Score and topics against time, and score against topics."""
    figure, panels = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
    for row in rows:
        seconds, scores, used = zip(*row["curve"], strict=True)
        style = {"color": COLOURS[row["method"]], "linestyle": STYLES[row["start"]]}
        label = f"{row['method']}, {row['start']}"
        panels[0].plot(seconds, scores, label=label, **style)
        panels[1].plot(seconds, used, **style)
        panels[2].plot(used, scores, **style)
        panels[2].plot(used[-1], scores[-1], "o", color=style["color"])
    best = max(row["score"] for row in rows)
    least = min(score for row in rows for _, score, _ in row["curve"])
    limits = max(best - 0.6, least - 0.03), best + 0.03
    for panel, title in zip(panels, letters, strict=True):
        panel.set(title=f"({title})", xscale="log", xlabel="CPU seconds")
        panel.grid(alpha=0.3)
    panels[1].set(ylabel="topics in use", yscale="log")
    panels[2].set(xlabel="topics in use")
    for axis in (*(panel.xaxis for panel in panels), panels[1].yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    for panel in (panels[0], panels[2]):
        panel.set(ylabel="nats per held-out token", ylim=limits)
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(RESULTS / f"{name}.png", dpi=110)


READING = """
Figure 2(b, e, h) of the paper, on its corpus: `nips`, 1,392 papers to learn from, 348
to test on, 80/20 completion, nats per held-out token; topic prior 0.05, concentrations
learned, minibatches of 200 and step sizes (1 + t)^-0.5 as there, at most {seconds:g}
processor seconds of a run (the paper: 40 hours). "oHDP-SM" is `SplitMerge.paper()`,
"oHDP" and "bHDP" are without moves, "oHDP-CRF" is `StickBreakingHDP`, "CGS" plain
`GibbsHDP` without burstiness, by its present state; "held-out trials" are not in the
paper: the default moves of `HDP`, in the same family. Variational runs end once the
score is level: within .0005 of that after half of the time. "start": topics to start
from; "in use": those with at least 1e-4 of the tokens; "last half": what the score has
gained in the second half of the time. Curves are in bryant2012_nips.png, of seed
{seed}; (h): the dot is the end.

As printed: oHDP-CRF is far behind, and most topics that it starts from fade; batch fits
are behind online ones. Not as printed: the paper's own moves end .15 to .29 behind
oHDP, where they are ahead there, after 40 hours, in the best of several trials. One
minibatch of a seventh of the corpus judges each merge, before the update: hundreds of
merges leave 29 to 84 topics in use, which splits win back slowly, and the score rises
by .009 or less in the second half. Trials judged by held-out documents end ahead of all
others, which is the paper's finding for moves. CGS, by its present state, is ahead of
all variational fits without moves by .03 to .08, where the paper has it at the bottom
with oHDP-CRF. The three seeds agree within .03.
"""


def curves(options):
    train, test = standard_split(load_corpus("nips"), 0.2)
    cases = [
        (name, start) for name, (_, starts, _) in METHODS.items() for start in starts
    ]
    size = STEPS["batch_size"]
    compare("bryant2012_nips", "beh", train, test, cases, READING, options, size)


def compare(name, letters, train, test, cases, reading, options, batch_size):
    """Run some methods from some numbers of topics with each seed."""
    rows = []
    for seed in options.seeds:
        for method, start in cases:
            rows.append(
                run(train, test, method, start, seed, options.seconds, batch_size)
            )
            print({k: v for k, v in rows[-1].items() if k != "curve"}, flush=True)
        columns = [column for column in rows[0] if column != "curve"]
        text = reading.format(seconds=options.seconds, seed=options.seeds[0])
        save(name, rows, columns, text)
    draw([row for row in rows if row["seed"] == options.seeds[0]], name, letters)


# -- large: Figure 2(c, f, i) ----------------------------------------------------------

LARGE = """
Figure 2(c, f, i) of the paper, which is of 1.8 million articles of the New York Times:
the 150,000 abstracts of `arxiv_large` take their place, 5 % of them left out, of which
1,000 are scored; at most {seconds:g} processor seconds of a run, seed {seed}. Numbers
of topics to start from and minibatches of 10,000 are those of the paper; held-out
trials keep the default of `HDP`, 128 then. Methods and columns as in bryant2012_nips.
Curves are in bryant2012_large.png.

As printed, the paper's own moves are ahead of fits without, by .06 and .07, from their
first pass on: with minibatches of 10,000, where those of 200 leave 84 topics of `nips`
at most (bryant2012_nips). They make four passes, the last of which began before 60 s
and ended at 85 s. That 500 topics are behind 300, as printed, is no finding here: .006
with one seed, of which the 500 still rise. Not as printed, they are not all used: 60
are in the end, of 68 after the first pass, and 58 of 300; these fall by .006 from 6 s
on. The moves do not add topics to the 200 that they start from, as those of the paper
do, but keep 68 of them. Held-out trials are .03 ahead of the paper's moves, with 57
topics, and level from 9 s on; they end after 27 s. At commit ddd989f3f6 they were at
-7.449 after 63 s, .11 behind. The paper's moves and fits of 500 topics are not level.
"""
LARGE_CASES = [("oHDP", 300), ("oHDP", 500), ("oHDP-SM", 200), ("held-out trials", 200)]
LARGE_SIZE = 10_000


def large(options):
    train, test = standard_split(load_corpus("arxiv_large"), 0.05)
    compare(
        "bryant2012_large",
        "cfi",
        train,
        test[:1000],
        LARGE_CASES,
        LARGE,
        options,
        LARGE_SIZE,
    )


# -- split: Figure 3 -------------------------------------------------------------------

SPLIT = """
Figure 3 of the paper: how a topic that was split goes on, in a stream of minibatches of
200 papers of `nips` in random order, pass after pass, with `SplitMerge.paper()` from
100 topics. Of the splits from update {first} to {last} of {updates} whose topics are
both there in the end, the one whose smaller topic is the largest then. "documents":
seen since the split; "tokens": expected ones of the topic, the prior left out.

As printed, topics of a split part from each other as documents come, over 6,400 of them
here: a topic of moving fields becomes one of motion and its direction, and one of
fields in space. The paper prints 240,000 documents, ten words of each topic every
40,000, of a topic of neurons that parts into behaviour and firing; its section and
words are those of NIPS, of which these are some 140 passes, and 6,400 documents are 4.
"""
MOMENTS = (1, 2, 4, 8, 16, 32)


def split(options):
    """Follow both topics of a split."""
    counts = load_corpus("nips")
    path = common.data_folder() / "nips.vocab.txt"
    names = np.array(path.read_text().split())
    make, _, settings = METHODS["oHDP-SM"]
    hdp = make(100, total_samples=counts.shape[0], random_state=0, **settings)
    stream, snapshots, splits = common.minibatches(counts, 200, 0), [], []
    for update in range(options.updates):
        hdp.partial_fit(next(stream))
        ids = hdp.component_ids_.tolist()
        words = dict(zip(ids, top_terms(hdp, names, n=10), strict=True))
        prior = hdp.topic_word_prior_ * hdp.components_.shape[1]
        tokens = (hdp.components_.sum(axis=1) - prior).tolist()
        snapshots.append((words, dict(zip(ids, tokens, strict=True))))
        splits += [
            (update, entry.parents[0], entry.children)
            for entry in hdp.lineage_
            if entry.kind == "split" and entry.step >= update
        ]
    first, last = options.updates // 4, 3 * options.updates // 4
    rows, best = [], None
    for update, parent, children in splits:
        alive = [snapshots[-1][1].get(child, 0.0) for child in children]
        least = 0.0 if best is None else best[0]
        if first <= update <= last and min(alive) > least:
            best = (min(alive), update, parent, children)
    if best is None:
        print("No split in time has both topics in the end: give more --updates.")
        return
    _, update, parent, children = best
    moments = [(0, parent, update - 1)]
    for child in children:
        moments += [(n, child, update + n - 1) for n in MOMENTS]
    for n_updates, topic, place in moments:
        if place < len(snapshots) and topic in snapshots[place][0]:
            words, tokens = snapshots[place]
            row = {"topic": topic, "documents": 200 * n_updates}
            row |= {"tokens": round(tokens[topic]), "words": " ".join(words[topic])}
            rows.append(row)
            print(row, flush=True)
    reading = SPLIT.format(first=first, last=last, updates=options.updates)
    save("bryant2012_split", rows, list(rows[0]), reading)


# -- readings of the merges ------------------------------------------------------------


def gains_of(topics, results, scale, eta, pairs, step=0.0, extra=0.0):
    """`moves.words_gains`, with topics after a step, or more priors in a merged one."""
    seen = topics.seen.with_words(results.words)
    counts, n_unseen = topics.rows(seen.words), seen.n_unseen
    sums = np.zeros_like(counts)
    sums[seen.rows_of(results.words)] = scale * results.values.toarray()
    counts = np.ascontiguousarray(((1.0 - step) * counts + step * sums).T)
    sums = np.ascontiguousarray(sums.T)
    term = partial(moves.words_term, eta, n_unseen=n_unseen)
    alone, (one, other) = term(counts, sums), pairs.T
    joined = counts[one] + counts[other] + extra * eta
    return term(joined, sums[one] + sums[other]) - alone[one] - alone[other]


class UpdatedMoves(moves.PrintedMoves):
    """Merges that are judged with the topics after the update."""

    def end_local_step(self, learner, round, results):
        gains = partial(gains_of, step=round.step)
        with patch.object(moves, "words_gains", gains):
            return super().end_local_step(learner, round, results)


class EntropyOnce(moves.MergeComparison):
    """Losses of entropy that do not stand for documents beyond the minibatch."""

    scale = 1392 / STEPS["batch_size"]

    def __call__(self, block_visit):
        sums = super().__call__(block_visit)
        sums[:, 1] += sums[:, 0] * (1.0 - 1.0 / self.scale)
        return sums


def correlated(doc_topic, least):
    """Pairs of topics with a correlation above `least`, in use in the minibatch."""
    used = np.asarray(doc_topic.sum(axis=0)).ravel() > 0
    with np.errstate(invalid="ignore"):
        matrix = np.corrcoef(doc_topic.toarray().T)
    one, other = np.triu_indices(len(used), 1)
    chosen = used[one] & used[other] & (matrix[one, other] > least)
    return np.column_stack([one[chosen], other[chosen]]).astype(np.int32)


def first_alone(pairs, gains, disjoint=moves.best_disjoint):
    """The best merge alone."""
    return disjoint(pairs, gains)[:1]


TEN_SPLITS = {"split_merge": SplitMerge(algorithm="paper", max_splits=10)}
UPDATED, ONE_MERGE = {"PrintedMoves": UpdatedMoves}, {"best_disjoint": first_alone}
#: Changed settings of "oHDP-SM" and parts of its moves.
READINGS = {
    "no moves": ({"split_merge": False}, {}),
    "as `SplitMerge.paper()`": ({}, {}),
    "prior twice": ({}, {"words_gains": partial(gains_of, extra=1.0)}),
    "updated topics": ({}, UPDATED),
    "entropy once": ({}, {"MergeComparison": EntropyOnce}),
    "no idle topics": ({}, {"covarying_pairs": partial(correlated, least=0.0)}),
    "correlation": ({}, {"covarying_pairs": partial(correlated, least=0.1)}),
    "one merge": ({}, ONE_MERGE),
    "10 splits": (TEN_SPLITS, {}),
    "eta": ({"learn_priors": True}, {}),
    "minibatches of 696": ({"batch_size": 696}, {}),
    "minibatches of 1,392": ({"batch_size": 1392}, {}),
    "updated topics, 10 splits": (TEN_SPLITS, UPDATED),
    "updated topics, one merge": ({}, UPDATED | ONE_MERGE),
    "updated topics, one merge, 10 splits": (TEN_SPLITS, UPDATED | ONE_MERGE),
    "the same, longer": (TEN_SPLITS, UPDATED | ONE_MERGE),
}


def readings(options):
    """Run what the page does not have yet."""
    train, test = standard_split(load_corpus("nips"), 0.2)
    rows = common.stored("bryant2012_readings")[1]
    done = {(row["reading"], row["seed"]) for row in rows}
    method, seed = "oHDP-SM", options.seeds[0]
    for name, (settings, parts) in READINGS.items():
        if (name, seed) in done:
            continue
        make, starts, given = METHODS[method]
        size = settings.get("batch_size", given["batch_size"])
        changed = {**METHODS, method: (make, starts, given | settings)}
        with ExitStack() as stack:
            stack.enter_context(patch.dict(METHODS, changed))
            for part, other in parts.items():
                owner = _hdp if part == "PrintedMoves" else moves
                stack.enter_context(patch.object(owner, part, other))
            row = run(train, test, method, 100, seed, options.seconds, size)
        rows.append({"reading": name, **row})
        del rows[-1]["method"], rows[-1]["curve"]
        print(rows[-1], flush=True)
        save("bryant2012_readings", rows, list(rows[0]))


SECTIONS = {"curves": curves, "large": large, "split": split, "readings": readings}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--updates", type=int, default=48, help="of the split")
    options = parser.parse_args()
    for name in options.sections or SECTIONS:
        SECTIONS[name](options)


if __name__ == "__main__":
    main()
