"""Wang and Blei (2012), Figures 3 to 8: split-merge against plain Gibbs.

SKBNP_DATA=... python benchmarks/papers/wang2012.py [topics] [starts] [merged]
    [curves] [similarity] [--runs N] [--sweeps N]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import common  # before NumPy: it pins the threads
import matplotlib
import numpy as np
from common import RESULTS, load_corpus, save, standard_split

from skbnp import GibbsHDP
from skbnp.metrics import split_tokens

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def show(row):
    print({k: v for k, v in row.items() if k != "each"}, flush=True)
    return row


# -- topics: five topics, twelve words ------------------------------------------------

TOPICS = """
Section 4.1 of the paper: 100 documents of 50 words, 12 words, five topics of which the
first two share seven words and differ in words 1 and 2: 0.12 on one and `p2` on the
other, over their sum with 0.12 on each of seven more. Topic prior 0.5, Gamma(0.1, 1) on
both concentrations, {sweeps} sweeps, one proposal after each, sequential start;
"truth": plain Gibbs sweeps from the true topics. The corpus and the chain change with
the run.

"all five" counts the runs whose last state has, among its dishes of at least 100
tokens, one whose best match (cosine) is each of the true topics, and whose ratio of
word 1 to word 2 is above 1.5 and below 1 / 1.5 in the largest dishes of the pair;
"share": of the states of the second half (every tenth) that have; "first": the first
sweep (of every tenth) that has, median over runs (inf: in half of the runs none). "K"
is the median number of dishes of at least 100 tokens at the end. "log joint" (nats per
token) is the mean of the last states, "best" that of the best states (Eq. (14)).
Figures 3 and 4 are in wang2012_topics.png: best log joint so far of split-merge less
that of plain Gibbs, of the runs at p2 = 0.02 (the paper draws its topics, without
numbers); the other panels are of the first of these.

Target at p2 = 0.02: at least four of five runs with split-merge, and at most a tenth of
all runs fewer than plain Gibbs. As printed, all runs with split-merge find five topics.
Not as printed, so do all of plain Gibbs from a sequential start, where the paper
reports that it stays at four: see wang2012_starts and wang2012_merged, where it does.
(a) is below zero as often as above, where the paper's is above; the best states of (c)
and (d) have five large topics each, where the paper's plain chain has four. They are
none that a chain is in often: their log joint is .1 above that of the last states. With
0.04 and above a chain that starts at the truth leaves it: five topics are not what the
posterior is about.
"""
#: Probability of the other's word in the first two topics, before normalisation.
P2 = (0.05, 0.04, 0.03, 0.02, 0.005)
N_DOCS, N_TOKENS, LEAST_RATIO = 100, 50, 1.5
METHODS = ("split-merge", "Gibbs", "truth")
SHOWN_P2 = 0.02


def true_topics(p2):
    topics = np.zeros((5, 12))
    topics[:2, 2:9] = 0.12
    topics[:2, :2] = [[0.12, p2], [p2, 0.12]]
    topics[2:, 9:] = 0.1 + 0.7 * np.eye(3)
    return topics / topics.sum(axis=1, keepdims=True)


def draw_corpus(topics, seed, n_docs=N_DOCS):
    """Two topics in each document, with a proportion uniform on (0, 1)."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((n_docs, topics.shape[1]), dtype=np.int64)
    for row in counts:
        pair, share = rng.choice(len(topics), 2, replace=False), rng.random()
        row[:] = rng.multinomial(
            N_TOKENS, share * topics[pair[0]] + (1.0 - share) * topics[pair[1]]
        )
    return counts


def fit_topics(
    counts, method, seed, n_sweeps, *, init=None, start=None, concentration=1.0
):
    """All states of a chain, from some topics if they are given."""
    if init is not None:
        init = common.KnownTopics(init, np.full(len(init), 1.0 / len(init)))
    hdp = GibbsHDP(
        start,
        corpus_concentration=concentration,
        doc_concentration=concentration,
        topic_word_prior=0.5,
        burstiness=False,
        corpus_concentration_prior=(0.1, 1.0),
        doc_concentration_prior=(0.1, 1.0),
        split_merge=method == "split-merge",
        n_split_merge=1,
        split_merge_sweeps=n_sweeps,
        max_iter=n_sweeps,
        burn_in=0,
        thin=1,
        init=init,
        random_state=seed,
    )
    return hdp.fit(counts)


def large_dishes(sample):
    """Counts of the dishes of at least 2 % of the tokens, the largest first."""
    counts = sample.topic_word_counts.toarray()
    sizes = counts.sum(axis=1)
    order = np.argsort(-sizes, kind="stable")
    return counts[order[sizes[order] >= 0.02 * sizes.sum()]]


def has_all_five(sample, truth):
    dishes = large_dishes(sample)
    unit = dishes / np.linalg.norm(dishes, axis=1, keepdims=True)
    best = (unit @ (truth / np.linalg.norm(truth, axis=1, keepdims=True)).T).argmax(1)
    if set(best) != set(range(5)):
        return False
    sizes = dishes.sum(axis=1)
    one, two = (
        dishes[np.flatnonzero(best == k)[sizes[best == k].argmax()]] for k in (0, 1)
    )
    return bool(one[0] > LEAST_RATIO * one[1] and two[1] > LEAST_RATIO * two[0])


def topics(options):
    table, n_sweeps, shown = [], options.sweeps or 1000, {}
    for p2 in P2:
        truth = true_topics(p2)
        for method in METHODS:
            same = []
            for seed in range(options.runs or 20):
                counts = draw_corpus(truth, seed)
                init = truth if method == "truth" else None
                hdp, seconds = common.cpu_seconds(
                    lambda counts=counts, init=init, method=method, seed=seed: (
                        fit_topics(counts, method, seed, n_sweeps, init=init)
                    )
                )
                result = [has_all_five(state, truth) for state in hdp.samples_[9::10]]
                joints = hdp.history_["log_joint"]
                row = {"p2": p2, "method": method, "seed": seed}
                row |= {"all five": has_all_five(hdp.samples_[-1], truth)}
                row["share"] = float(np.mean(result[len(result) // 2 :]))
                row["first"] = 10.0 * (1 + np.argmax(result)) if any(result) else np.inf
                row["K"] = len(large_dishes(hdp.samples_[-1]))
                row |= {"log joint": joints[-1], "best": max(joints)}
                for name in ("n_splits", "n_merges"):
                    row[name] = hdp.history_[name][-1]
                row["CPU s"] = seconds
                same.append(row)
                if p2 == SHOWN_P2:
                    best = np.maximum.accumulate(joints)
                    shown.setdefault(method, {"best": []})["best"].append(best)
                    if seed == 0:
                        shown[method]["samples"] = hdp.samples_
                        shown[method]["mode"] = hdp.samples_[int(np.argmax(joints))]
            mean = {"p2": p2, "method": method, "runs": len(same)}
            mean["all five"] = sum(row["all five"] for row in same)
            mean["share"] = float(np.mean([row["share"] for row in same]))
            for name in ("first", "K"):
                mean[name] = float(np.median([row[name] for row in same]))
            for name in ("log joint", "best", "n_splits", "n_merges", "CPU s"):
                mean[name] = float(np.mean([row[name] for row in same]))
            table.append(show(mean | {"each": same}))
    draw_topics(shown, true_topics(SHOWN_P2))
    columns = [name for name in table[0] if name != "each"]
    save("wang2012_topics", table, columns, TOPICS.format(sweeps=n_sweeps))


def draw_topics(shown, truth):
    """Figures 3 and 4."""
    figure, panels = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
    draw_dots(panels[0, 0], truth, "Figure 3: the true topics")
    best = [np.array(shown[method]["best"]) for method in ("split-merge", "Gibbs")]
    sweeps, panel = 1 + np.arange(best[0].shape[1]), panels[1, 0]
    differences = best[0] - best[1]
    for line in differences:
        panel.plot(sweeps, line, color="0.8", linewidth=0.6)
    panel.plot(sweeps, differences[0], color="C1", label="the run of the other panels")
    panel.plot(sweeps, differences.mean(axis=0), color="C0", label="mean of all runs")
    panel.axhline(0.0, color="0.5", linewidth=0.8)
    panel.set(title="(a) Gibbs+SM minus Gibbs: best log joint so far", xlabel="sweep")
    panel.set(ylabel="nats per token", xscale="log")
    panel.legend(fontsize="small")
    for column, (method, place) in enumerate((("Gibbs", "c"), ("split-merge", "d"))):
        name = {"split-merge": "Gibbs+SM"}.get(method, method)
        draw_trace(panels[0, 1 + column], shown[method]["samples"][:100])
        panels[0, 1 + column].set_title(f"(b) {name}")
        dishes = large_dishes(shown[method]["mode"])
        topics = (dishes + 0.5) / (dishes + 0.5).sum(axis=1, keepdims=True)
        title = f"({place}) {name}, its best mode: {len(topics)} topics"
        draw_dots(panels[1, 1 + column], topics, title)
    figure.savefig(RESULTS / "wang2012_topics.png", dpi=100)


def draw_dots(panel, topics, title):
    """Topics as columns of dots, whose areas are the probabilities of words."""
    for k, topic in enumerate(topics, start=1):
        words = 1 + np.arange(len(topic))
        panel.scatter(np.full(len(topic), k), words, s=600 * topic, color=f"C{k - 1}")
    panel.set(title=title, xlabel="topic", ylabel="word")
    panel.set_xlim(0.5, max(len(topics), 5) + 0.5)
    panel.set(yticks=range(1, 13), xticks=range(1, 1 + len(topics)), ylim=(12.7, 0.3))


def draw_trace(panel, samples):
    """Cumulated shares of the largest topics, sweep by sweep."""
    rng = np.random.default_rng(0)
    for step, sample in enumerate(samples, start=1):
        sizes = np.sort(sample.n_tokens)[::-1]
        shares = np.cumsum(sizes) / sizes.sum()
        jitter = rng.uniform(-0.3, 0.3, len(shares))
        panel.scatter(step + jitter, shares, s=3, color="C0")
    for level in (0.2, 0.4, 0.6, 0.8, 1.0):
        panel.axhline(level, color="0.7", linewidth=0.6, zorder=0)
    panel.set(xlabel="sweep", ylabel="share of the largest topics", ylim=(0, 1.03))


# -- starts: where plain Gibbs is slow -------------------------------------------------

STARTS = """
The same corpora with p2 = 0.02, {sweeps} sweeps, {runs} runs, from other starts:
concentrations of 1 as above, or of 0.1, the mean of their prior; sequential or with all
tokens in one dish. "by 50", "by 200", "later": share of the states of the sweeps 1 to
50, 51 to 200 and beyond (every fifth) that have all five topics, and "first" the first
of these sweeps, median over runs.

Not as printed: the paper reports a plain Gibbs chain that stays at four topics for all
of its 1000 sweeps; here plain chains end with all five from every start, in 23 of 24
runs. As printed, proposals help: with split-merge all 24 do, and sooner from each
start.
"""
SPANS = {"by 50": (0, 50), "by 200": (50, 200), "later": (200, None)}
FROM = {
    "sequential, 1": (None, 1.0),
    "sequential, 0.1": (None, 0.1),
    "one dish, 1": (1, 1.0),
    "one dish, 0.1": (1, 0.1),
}


def starts(options):
    n_sweeps, n_runs, truth = (
        options.sweeps or 1000,
        options.runs or 20,
        true_topics(0.02),
    )
    rows = []
    for name, (start, concentration) in FROM.items():
        for method in ("split-merge", "Gibbs"):
            result = []
            for seed in range(n_runs):
                counts = draw_corpus(truth, seed)
                hdp = fit_topics(
                    counts,
                    method,
                    seed,
                    n_sweeps,
                    start=start,
                    concentration=concentration,
                )
                states = hdp.samples_[4::5]
                result.append([has_all_five(state, truth) for state in states])
            row = {"start": name, "method": method, "runs": n_runs}
            rows.append(show(row | shares_of(np.array(result))))
    reading = STARTS.format(sweeps=n_sweeps, runs=n_runs)
    save("wang2012_starts", rows, list(rows[0]), reading)


def shares_of(result):
    """Shares of states, every fifth, that have all topics: in spans and in the end."""
    first = np.where(result.any(axis=1), 5 * (1.0 + result.argmax(axis=1)), np.inf)
    row = {"first": float(np.median(first))}
    for span, (begin, end) in SPANS.items():
        part = result[:, begin // 5 : end and end // 5]
        if part.size:
            row[span] = float(part.mean())
    return row | {"at the end": int(result[:, -1].sum())}


# -- merged: where similar topics stay together ----------------------------------------

MERGED = """
Where similar topics stay merged without splits: corpora as in wang2012_topics with p2 =
0.02, of more documents of the same kind, {runs} runs of {sweeps} sweeps, from four
topics of which one is the mean of the first two. Columns as in wang2012_starts; dishes
count from 2 % of the tokens on, which are the 100 tokens there.

This is what the paper reports of its plain chain: without splits the similar topics
stay one in most states of the first 200 sweeps, and in 5 to 7 of ten runs to the end,
with 100 documents and with 1,600; with one proposal after each sweep all runs have five
topics in the end, most from sweep 15 to 23 on. Chains of wang2012_topics and
wang2012_starts do not start there, and pass more topics than five before they settle.
"""
SIZES = (100, 400, 1600)


def merged(options):
    n_sweeps, n_runs, truth = (
        options.sweeps or 200,
        options.runs or 10,
        true_topics(0.02),
    )
    four, rows = np.vstack([truth[:2].mean(axis=0), truth[2:]]), []
    for n_docs in SIZES:
        for method in ("split-merge", "Gibbs"):
            each, seconds = [], 0.0
            for seed in range(n_runs):
                counts = draw_corpus(truth, seed, n_docs)
                hdp, cost = common.cpu_seconds(
                    lambda counts=counts, method=method, seed=seed: fit_topics(
                        counts, method, seed, n_sweeps, init=four
                    )
                )
                seconds += cost
                each.append([has_all_five(s, truth) for s in hdp.samples_[4::5]])
            row = {"documents": n_docs, "method": method, "runs": n_runs}
            row |= shares_of(np.array(each))
            rows.append(show(row | {"CPU s": seconds / n_runs}))
    reading = MERGED.format(sweeps=n_sweeps, runs=n_runs)
    save("wang2012_merged", rows, list(rows[0]), reading)


# -- curves: Figures 5 to 7 ------------------------------------------------------------

CURVES = """
Figures 5 to 7 of the paper: split-merge ("Gibbs+SM": {proposals} proposals after each
of the first {first} of {sweeps} sweeps) against plain Gibbs on 80 % of the documents,
Gamma(1, 1) on both concentrations, {runs} pairs of runs from the same sequential start
(the paper: 20 runs). Differences, above zero where split-merge is better, with the
standard error of the mean over pairs, of the best log joint so far (nats per training
token, Eq. (14)) and of the held-out score of the present state (nats per token, 80/20
completion of the other documents): at the same processor time, of which the last is
that of the shortest run, and after as many sweeps. "accepted": share of the proposals;
"more time": how much longer the first {first} sweeps took with proposals; K: dishes of
at least 1e-3 of the tokens at the end, medians. Curves are in wang2012_figure5.png (log
joint and score, 0.2), wang2012_figure6.png (log joint) and wang2012_figure7.png
(score): differences against time, and dashed after as many sweeps, at the mean time at
which plain Gibbs has made them.

After 500 sweeps neither is better, as printed of most settings: the held-out score of
split-merge is .001 behind on average and within .014 in each; its log joint is ahead in
two of nine settings, by twice its standard error in one, and .010 behind on average, by
twice its error in four settings. The one is `nips_abstracts` with 0.2, .012 +- .003
ahead, where the paper has a gain, too; two pairs cannot confirm it, and a run before it
had none. ML+IR, where the paper has its other gains, is not to be had. A proposal helps
in the first sweeps of `arxiv2000`, by up to .08 after as many sweeps, and costs 8 to 56
% more time while it is tried; at most 1 % are accepted.
"""
CORPORA = ("arxiv2000", "nips_abstracts", "jacm")
ETAS = (0.1, 0.2, 0.5)
MOVE_SWEEPS, N_PROPOSALS = 50, 5
SHARES, SWEEPS = (0.05, 0.2, 0.5, 1.0), (5, 50, 500)


def follow(train, parts, eta, moves, seed, n_sweeps):
    """Time, best log joint so far and held-out score of a chain on its way."""
    hdp = GibbsHDP(
        None,
        topic_word_prior=eta,
        burstiness=False,
        split_merge=moves,
        n_split_merge=N_PROPOSALS,
        split_merge_sweeps=MOVE_SWEEPS,
        max_iter=n_sweeps,
        random_state=seed,
    )
    run = common.GibbsRun(hdp, train)
    joints, looks, looked, best, following = [], [], [], -np.inf, 1
    for sweep in range(1, n_sweeps + 1):
        entry = run.step()
        best = max(best, entry["log_joint"])
        joints.append([run.seconds, best])
        if sweep >= following or sweep == n_sweeps:
            score = common.sample_score([run.chain.sample()], parts)
            looks.append([run.seconds, score])
            looked.append([float(sweep), score])
            following = max(sweep + 1, int(1.2 * sweep))
    n_moves = entry["n_splits"] + entry["n_merges"]
    sizes = run.chain.sample().n_tokens
    return {
        "log joint": joints,
        "score": looks,
        "sweeps, log joint": [[i + 1.0, value[1]] for i, value in enumerate(joints)],
        "sweeps, score": looked,
        "first": joints[min(MOVE_SWEEPS, n_sweeps) - 1][0],
        "accepted": n_moves / (N_PROPOSALS * min(MOVE_SWEEPS, n_sweeps)),
        "n_splits": entry["n_splits"],
        "n_merges": entry["n_merges"],
        "K": int((sizes >= 1e-3 * sizes.sum()).sum()),
        "seconds": run.seconds,
    }


def at(times, curve):
    """Values of a curve at some times."""
    seconds, values = np.array(curve).T
    return np.interp(times, seconds, values)


def curves(options):
    n_sweeps, n_runs, table = options.sweeps or 500, options.runs or 10, []
    for corpus in CORPORA:
        train, test = standard_split(load_corpus(corpus), 0.2)
        parts = split_tokens(test, random_state=0)
        for eta in ETAS:
            runs = {True: [], False: []}
            for seed in range(n_runs):
                for moves in (seed % 2 == 0, seed % 2 == 1):  # neither always first
                    row = follow(train, parts, eta, moves, seed, n_sweeps)
                    runs[moves].append(row)
            end = min(row["seconds"] for same in runs.values() for row in same)
            ends = [{"moves": moves} | last(r) for moves in runs for r in runs[moves]]
            for line in compare(runs, end):
                table.append(show({"corpus": corpus, "eta": eta} | line))
            table[-1] |= {"each": ends, "curves": averages(runs, end)}
        save_curves(table, n_sweeps, n_runs)


def save_curves(table, n_sweeps, n_runs):
    """Write and draw what there is so far."""
    rows = [row for row in table if "curves" in row]
    draw_likelihoods([row for row in rows if row["eta"] == 0.2])
    for number, name in ((6, "log joint"), (7, "score")):
        draw_differences(rows, number, name)
    reading = CURVES.format(
        proposals=N_PROPOSALS, first=MOVE_SWEEPS, sweeps=n_sweeps, runs=n_runs
    )
    columns = [name for name in table[0] if name not in ("each", "curves")]
    save("wang2012_curves", table, columns, reading)


def averages(runs, end):
    """Means over runs, and mean differences with their standard errors, at times."""
    begin = max(row["score"][0][0] for same in runs.values() for row in same)
    times = np.geomspace(begin, end, 60)
    result = {"times": times.tolist()}
    for name in ("log joint", "score"):
        for moves, method in ((True, "Gibbs+SM"), (False, "Gibbs")):
            values = np.mean([at(times, row[name]) for row in runs[moves]], axis=0)
            result[f"{method}, {name}"] = values.tolist()
        mean, error = differences(times, runs, name)
        result |= {name: mean.tolist(), f"{name} +-": error.tolist()}
        # After as many sweeps, at the mean time at which plain Gibbs has made them.
        plain = [np.array(run["log joint"])[:, 0] for run in runs[False]]
        seconds = np.mean(plain, axis=0)
        mean, _ = differences(1.0 + np.arange(len(seconds)), runs, f"sweeps, {name}")
        result[f"sweeps, {name}"] = np.interp(times, seconds, mean).tolist()
    return result


def draw_likelihoods(rows):
    """Figure 5: log joint and held-out score themselves, eta = 0.2."""
    size = (4 * len(rows), 6)
    figure, panels = plt.subplots(
        2, len(rows), figsize=size, layout="constrained", squeeze=False
    )
    for row, column in zip(rows, panels.T, strict=True):
        for panel, name in zip(column, ("log joint", "score"), strict=True):
            for method in ("Gibbs+SM", "Gibbs"):
                values = row["curves"][f"{method}, {name}"]
                panel.plot(row["curves"]["times"], values, label=method)
            panel.set(title=f"{row['corpus']}: {name}", xscale="log")
            panel.grid(alpha=0.3)
    panels[0, 0].legend()
    figure.supxlabel("CPU seconds")
    figure.supylabel("nats per token")
    figure.savefig(RESULTS / "wang2012_figure5.png", dpi=100)


def draw_differences(rows, number, name):
    """Figure 6 or 7: split-merge less plain Gibbs."""
    n_corpora = len(rows) // len(ETAS)
    size = (12, 1.0 + 2.5 * n_corpora)
    figure, panels = plt.subplots(
        n_corpora, len(ETAS), figsize=size, layout="constrained", squeeze=False
    )
    for panel, row in zip(panels.ravel(), rows, strict=True):
        times = row["curves"]["times"]
        mean, error = (np.array(row["curves"][n]) for n in (name, f"{name} +-"))
        panel.axhline(0.0, color="0.5", linewidth=0.8)
        panel.fill_between(times, mean - error, mean + error, alpha=0.25, linewidth=0)
        panel.plot(times, mean, label="at the same time")
        same_time = row["curves"][f"sweeps, {name}"]
        panel.plot(times, same_time, "--", label="after as many sweeps")
        panel.set(title=f"{row['corpus']}, eta = {row['eta']:g}", xscale="log")
        panel.grid(alpha=0.3)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    title = f"Gibbs+SM minus Gibbs: {name}"
    figure.legend(
        handles, labels, loc="outside upper center", ncols=len(labels), title=title
    )
    figure.supxlabel("CPU seconds")
    figure.supylabel("nats per token")
    figure.savefig(RESULTS / f"wang2012_figure{number}.png", dpi=100)


def last(row):
    """A run without its curves."""
    return {k: v[-1][1] if isinstance(v, list) else v for k, v in row.items()}


def differences(times, runs, name):
    """Mean difference at some times, and its standard error; starts are paired."""
    with_moves, without = (
        np.array([at(times, row[name]) for row in runs[moves]])
        for moves in (True, False)
    )
    result = with_moves - without
    error = result.std(axis=0) / np.sqrt(max(len(result) - 1, 1))
    return result.mean(axis=0), error


def compare(runs, end):
    """Rows of the table."""
    rest = {"accepted": float(np.mean([run["accepted"] for run in runs[True]]))}
    first = {moves: np.mean([run["first"] for run in runs[moves]]) for moves in runs}
    rest["more time"] = float(first[True] / first[False] - 1.0)
    for moves, name in ((True, "K, SM"), (False, "K, Gibbs")):
        rest[name] = float(np.median([run["K"] for run in runs[moves]]))
    places = [("", f"{share * end:.2f} s", share * end) for share in SHARES]
    places += [("sweeps, ", f"{sweep} sweeps", sweep) for sweep in SWEEPS]
    for kind, label, place in places:
        row = {"at": label}
        for name in ("log joint", "score"):
            mean, error = differences(np.array([place]), runs, kind + name)
            row |= {name: float(mean[0]), f"{name} +-": float(error[0])}
        yield row | rest


# -- similarity: Figure 8 -------------------------------------------------------------

SIMILARITY = """
Figure 8 of the paper: cosine similarity of all pairs of topics, of the last state after
{sweeps} sweeps with split-merge in the first 50, topic prior 0.5. "expected": of the
expected topics, which the prior of 0.5 on each of thousands of words makes alike,
foremost those of few tokens; "counts": of their tokens alone; pairs of topics with at
least 1e-3 of the tokens in "large". Dots are in wang2012_similarity.png, grey where a
topic is not large; their heights are drawn and have no meaning, as there.

No corpus has many alike, as the paper finds for ARXIV and NIPS; ML+IR, where it finds
many, is not to be had. Pairs above .75 have a topic of few tokens. Not as printed,
large topics of NIPS and arXiv are about as similar (medians .29 and .34, 95 % of pairs
below .57 and .56), where the paper ranks NIPS above ARXIV.
"""
PERCENTILES = (5, 25, 50, 75, 95, 99)


def similarity(options):
    n_sweeps, rows = options.sweeps or 500, []
    figure, panels = plt.subplots(
        len(CORPORA), 1, figsize=(9, 6), sharex=True, layout="constrained"
    )
    rng = np.random.default_rng(0)
    for panel, corpus in zip(panels, CORPORA, strict=True):
        train, _ = standard_split(load_corpus(corpus), 0.2)
        hdp = GibbsHDP(
            None,
            topic_word_prior=0.5,
            burstiness=False,
            split_merge_sweeps=MOVE_SWEEPS,
            max_iter=n_sweeps,
            burn_in=n_sweeps - 1,
            thin=1,
            random_state=0,
        ).fit(train)
        counts, expected = hdp.samples_[-1].topic_word_counts, hdp.topic_word_distr_
        sizes = hdp.samples_[-1].n_tokens
        large = sizes >= 1e-3 * sizes.sum()
        dense = counts.toarray()
        for kind, topics in (
            ("expected", expected),
            ("expected, large", expected[large]),
            ("counts, large", dense[large]),
        ):
            cosines = pairs(topics)
            row = {"corpus": corpus, "of": kind, "topics": len(topics)}
            row["pairs"] = len(cosines)
            result = np.percentile(cosines, PERCENTILES)
            names = [f"{p} %" for p in PERCENTILES]
            row |= dict(zip(names, result.tolist(), strict=True))
            rows.append(show(row | {"most": float(cosines.max())}))
        one, other = np.triu_indices(len(expected), 1)
        colours = np.where(large[one] & large[other], "C0", "0.7")
        panel.scatter(pairs(expected), rng.random(len(one)), s=5, color=colours)
        panel.set(title=f"{corpus}: {len(expected)} topics", yticks=[], xlim=(0, 1))
    figure.supxlabel("cosine similarity of a pair of topics")
    figure.savefig(RESULTS / "wang2012_similarity.png", dpi=110)
    reading = SIMILARITY.format(sweeps=n_sweeps)
    save("wang2012_similarity", rows, list(rows[0]), reading)


def pairs(topics):
    unit = topics / np.linalg.norm(topics, axis=1, keepdims=True)
    return (unit @ unit.T)[np.triu_indices(len(unit), 1)]


SECTIONS = {
    "topics": topics,
    "starts": starts,
    "merged": merged,
    "curves": curves,
    "similarity": similarity,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("section", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=int, help="default: 20, of merged and curves 10")
    parser.add_argument("--sweeps", type=int, help="default: 1000, of texts 500")
    options = parser.parse_args()
    for name in options.section or SECTIONS:
        SECTIONS[name](options)
