"""`GibbsHDP`: time of a sweep, held-out score against time, memory, chains on threads.

    SKBNP_DATA=... python benchmarks/gibbs.py [speed] [quality] [memory] [scaling]
        [--seconds S] [--runs N]

gensim and tomotopy must be installed for the first two.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from corpora import load

from skbnp import GibbsHDP
from skbnp.metrics import split_tokens
from skbnp.models.hdp.fold_in import FixedTopics
from skbnp.models.hdp_franchise.chain import propose_moves
from skbnp.models.hdp_franchise.model import Seating


def show(row):
    print({k: v for k, v in row.items() if k != "looks"}, flush=True)
    return row


# -- speed: a sweep beside tomotopy's -------------------------------------------------

SPEED_CORPORA = ("ap", "kos", "docstrings", "nips", "reuters395", "bbc_tech")
ETA, BEFORE, SWEEPS, FEWER, TURNS = 0.05, 60, 40, 20, 5
#: Factor of tomotopy's alpha that makes about as many tables as the model has.
MORE_TABLES = 1.7


def speed(options):
    rows = []
    for corpus in SPEED_CORPORA:
        rows += [show(row) for row in time_sweeps(corpus)]
        common.save("gibbs_speed", rows, list(rows[0]))


def time_sweeps(corpus):
    """Rows of tomotopy's models beside the same chain of ours."""
    counts, _ = load(corpus)
    run, repeating = burnt_in(counts, False), burnt_in(counts, "auto")
    seating, rng, n_docs = copy_of(run.chain), np.random.default_rng(0), counts.shape[0]
    proposal = time_proposal(run.chain, rng)
    for name in ("equal priors", "equal tables"):
        peer = start_peer(counts, name, seating)
        times = [turn(run, repeating, seating, rng, peer) for _ in range(TURNS)]
        sweep, repeats, tokens, theirs = np.median(times, axis=0).tolist()
        yield {
            "corpus": corpus,
            "tomotopy": name,
            "tokens": len(seating.words),
            "topics/word": float(seating.n_entries[seating.words].mean()),
            "K": run.chain.seating.n_dishes,
            "tomotopy K": int(peer.model.live_k),
            "tables": run.chain.seating.n_all_tables / n_docs,
            "tomotopy tables": peer.model.num_tables / n_docs,
            "sweep ms": 1e3 * sweep,
            "tokens ms": 1e3 * tokens,
            "tomotopy ms": 1e3 * theirs,
            "ratio": theirs / sweep,
            "repeats ms": 1e3 * repeats,
            "proposal ms": 1e3 * proposal,
            "proposal %": 100.0 * proposal / sweep,
        }


def burnt_in(counts, burstiness):
    """A chain that has learned its concentrations, which are fixed from now on."""
    hdp = GibbsHDP(
        topic_word_prior=ETA, burstiness=burstiness, split_merge=False, random_state=0
    )
    run = common.GibbsRun(hdp, counts)
    for _ in range(BEFORE):
        run.step()
    run.chain.priors = replace(run.chain.priors, learn_concentrations=False)
    return run


def start_peer(counts, name, seating):
    import tomotopy
    from peers import Tomotopy

    is_equal = name == "equal tables"
    model = tomotopy.HDPModel(
        initial_k=seating.n_dishes,
        eta=ETA,
        alpha=seating.doc_concentration
        * (MORE_TABLES * seating.n_all_tables if is_equal else 1.0),
        gamma=seating.corpus_concentration,
        seed=0,
    )
    model.optim_interval = 0  # or it would learn its concentrations
    peer = Tomotopy(counts, model)
    model.train(FEWER if is_equal else SWEEPS, workers=1)
    return peer


def turn(run, repeating, seating, rng, peer):
    """Seconds of a sweep, of one with repeats, of its tokens, and of tomotopy's."""
    before = run.seconds, repeating.seconds
    run.step()
    repeating.step()
    tokens = token_step(run.chain, seating, rng)
    theirs = common.cpu_seconds(lambda: peer.model.train(1, workers=1))[1]
    return run.seconds - before[0], repeating.seconds - before[1], tokens, theirs


def copy_of(chain):
    tables, concentrations = chain.state.tables, chain.state.concentrations
    return Seating(chain.seating.tokens, concentrations, tables)


def token_step(chain, seating, rng):
    """Processor time of a sweep that leaves the dishes of tables alone."""
    kept, chain.seating = chain.seating, seating
    begin = time.process_time()
    for piece in chain.pieces:
        chain._advance(*piece, 0, rng)
    seconds = time.process_time() - begin
    chain.seating = kept
    seating.tidy()
    return seconds


def time_proposal(chain, rng, n_calls=60, n_proposals=5):
    """Mean time of a proposal; an accepted one is undone."""
    seating, seconds = copy_of(chain), 0.0
    for _ in range(n_calls):
        begin = time.process_time()
        moves = propose_moves(seating, n_proposals, rng)
        seconds += time.process_time() - begin
        if moves:
            seating.tidy()
            seating.restore(chain.state.tables)
    return seconds / (n_calls * n_proposals)


# -- quality: held-out score against time ---------------------------------------------

LOOKS = (15.0, 30.0, 50.0, 70.0)
STARTS = {"from 1": 1, "from 100": 100, "sequential": None}
QUALITY_COLUMNS = ["model", "seed", "CPU s", "sweeps", "score", "one", "K"]
QUALITY_COLUMNS += ["active", "alpha", "gamma", "log joint"]
QUALITY_ETA, QUALITY_TOPICS, N_AVERAGED, SAMPLE_EVERY = 0.01, 100, 10, 10


def quality(options):
    import peers

    train, test = common.standard_split(common.load_corpus("ap"))
    parts = split_tokens(test, random_state=0)
    rows = []
    for seed in range(options.runs or 1):
        looks = {
            f"GibbsHDP {name}": follow(train, parts, start, seed, options.seconds)
            for name, start in STARTS.items()
        }
        looks |= {
            name: follow_peer(make, train, parts, seed, options.seconds)
            for name, make in peers.PEERS.items()
            if name.startswith("tomotopy")
        }
        for name, points in looks.items():
            for row in points:
                rows.append(show({"model": name, "seed": seed} | row))
            common.save("gibbs_quality", rows, QUALITY_COLUMNS)


def follow(train, parts, start, seed, seconds):
    hdp = GibbsHDP(start, topic_word_prior=QUALITY_ETA, random_state=seed)
    run, samples = common.GibbsRun(hdp, train), []
    for limit in looks_until(seconds):
        while run.seconds < limit:
            entry = run.step()
            if entry["step"] % SAMPLE_EVERY == 0 or not samples:
                samples.append(run.chain.sample())
        half = [sample for sample in samples if sample.step > entry["step"] / 2]
        half = half or samples[-1:]
        some = np.linspace(0, len(half) - 1, min(N_AVERAGED, len(half)))
        averaged = [half[place] for place in some.astype(int)]
        latest = run.chain.sample()
        sizes = latest.n_tokens
        yield {
            "CPU s": run.seconds,
            "sweeps": entry["step"],
            **scores(averaged, latest, parts),
            "K": entry["n_components"],
            "active": int((sizes >= 1e-4 * sizes.sum()).sum()),
            "alpha": entry["doc_concentration"],
            "gamma": entry["corpus_concentration"],
            "log joint": entry["log_joint"],
        }


def follow_peer(make, train, parts, seed, seconds):
    model = make(train, seed, QUALITY_TOPICS, QUALITY_ETA)
    spent, sweeps = 0.0, 0
    for limit in looks_until(seconds):
        while spent < limit:
            spent += common.cpu_seconds(model.step)[1]
            sweeps += model.n_sweeps
        topics, prior, n_topics = model.topics()
        prior = np.asarray(prior, dtype=np.float64)
        if len(prior) == len(topics):
            prior = np.append(prior, 1e-12)
        state = FixedTopics(topics / topics.sum(axis=1, keepdims=True), prior)
        sizes = np.array(model.model.get_count_by_topics())
        yield {
            "CPU s": spent,
            "sweeps": sweeps,
            **scores([state], state, parts),
            "K": n_topics,
            "active": int((sizes >= 1e-4 * sizes.sum()).sum()),
            "alpha": float(np.sum(prior)),
            "gamma": float(getattr(model.model, "gamma", 0.0)),
        }


def looks_until(seconds):
    return [limit for limit in LOOKS if limit < seconds] + [seconds]


def scores(averaged, latest, parts):
    """Score of some samples and of the latest one."""
    return {
        "score": common.sample_score(averaged, parts, repeats=True),
        "one": common.sample_score([latest], parts, repeats=True),
    }


# -- memory: peak of a fit ------------------------------------------------------------

MEMORY = """
Peak of the resident memory (MB) of a `fit` of all of `arxiv_large` ({n_docs} documents,
{n_tokens} tokens), three sweeps, topic prior 0.05, one chain; each in a process of its
own. "more MB" is beyond a process that has only loaded the corpus and the libraries
(first row). Target: peak below 1 GB (1024 MB), by default {default:.0f} MB. A second
chain adds {chain:.0f} bytes per token.
"""
LEARNERS = {
    "corpus and libraries": {},
    "from 20": {"n_components": 20},
    "from 100 (default)": {"n_components": 100},
    "sequential": {"n_components": None},
    "from 20, two chains": {"n_components": 20, "n_chains": 2},
}


def memory(options):
    counts, rows = common.load_corpus("arxiv_large"), []
    n_tokens = int(counts.sum())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "counts.npz"
        sp.save_npz(path, counts, compressed=False)  # loading leaves no peak behind
        for name in LEARNERS:
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
                megabytes, n_topics = fresh.submit(measure, name, path).result()
            first = rows[0]["peak MB"] if rows else megabytes
            row = {"fit": name, "peak MB": megabytes, "more MB": megabytes - first}
            row["bytes/token"] = row["more MB"] * 2**20 / n_tokens
            rows.append(show(row | {"topics": n_topics}))
    reading = MEMORY.format(
        n_docs=counts.shape[0],
        n_tokens=n_tokens,
        default=rows[2]["peak MB"],
        chain=rows[4]["bytes/token"] - rows[1]["bytes/token"],
    )
    common.save("gibbs_memory", rows, list(rows[0]), reading)


def measure(name, path):
    """Peak after a fit, MB; `ru_maxrss` would count the process that began this."""
    counts, n_topics = sp.load_npz(path), 0
    if LEARNERS[name]:
        hdp = GibbsHDP(max_iter=3, random_state=0, **LEARNERS[name]).fit(counts)
        n_topics = hdp.n_components_
    status = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
    )
    return int(status["VmHWM"].split()[0]) / 2**10, n_topics


# -- scaling: chains on threads -------------------------------------------------------

SCALING_SWEEPS = 50


def scaling(options):
    import os

    train, _ = common.standard_split(common.load_corpus("ap"))
    rows = []
    for seed in range(options.runs or 3):
        seconds, ends = {}, {}
        for n_jobs in (1, 2):
            hdp = GibbsHDP(
                100,
                n_chains=2,
                n_jobs=n_jobs,
                max_iter=SCALING_SWEEPS,
                random_state=seed,
            )
            begin = time.perf_counter()
            hdp.fit(train)
            seconds[n_jobs] = time.perf_counter() - begin
            ends[n_jobs] = hdp.history_["log_joint"][-2:]
        assert ends[1] == ends[2]
        row = {"seed": seed, "cores": os.cpu_count()}
        row |= {f"{n_jobs} thread s": taken for n_jobs, taken in seconds.items()}
        rows.append(show(row | {"ratio": seconds[1] / seconds[2]}))
    rows = common.medians(rows, ("cores",)) + rows
    common.save("gibbs_scaling", rows, list(rows[-1]))


SECTIONS = {
    "speed": speed,
    "quality": quality,
    "memory": memory,
    "scaling": scaling,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("section", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--seconds", type=float, default=70.0, help="of quality")
    parser.add_argument("--runs", type=int, help="default: 1, of scaling 3")
    options = parser.parse_args()
    for name in options.section or SECTIONS:
        SECTIONS[name](options)
