"""Numbers of topics that are found, and what these depend on.

    SKBNP_DATA=... python benchmarks/topic_numbers.py PAGE [PAGE ...]
        [--AXIS VALUE ...] [--write]

A page of results is a case in `CASES`; `sweep.py` has the options. tomotopy must be
installed for "few_documents" and "few_short_texts".
"""

import gc
import resource
import time
import warnings
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from operator import attrgetter
from unittest.mock import patch

import common  # before NumPy: it pins the threads
import corpora
import draws
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sweep import Case, Fit, completion, fitted, main, type_score

from skbnp import HDP, GibbsHDP
from skbnp.estimators import SplitMerge, _hdp
from skbnp.metrics import topic_coherence, topic_diversity
from skbnp.models.hdp import held_out_trials
from skbnp.models.hdp.stream_trials import StreamTrials
from skbnp.rows.batch import Tokens
from skbnp.utils.fitted import token_shares

# -- what is recorded of a fit ---------------------------------------------------------


def plain_score(fit):
    """Score of the estimator, topics alone."""
    return fit.model.score(fit.docs.test, repeats=False)


def standard_score(fit):
    """Score of its topics by their mean weights."""
    prior = common.hdp_prior(fit.model)
    return common.standard_score(fit.model.topic_word_distr_, prior, fit.docs.test)


def true_score(fit):
    """The same of the topics that documents are drawn from."""
    return common.standard_score(*fit.docs.truth, fit.docs.test)


def nearest(fit):
    """Largest cosine of each true topic with one of the model."""
    one, other = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (fit.docs.truth[0], fit.model.topic_word_distr_)
    )
    return (one @ other.T).max(axis=1)


def n_found(fit):
    """True topics with one of a cosine above .95."""
    return int((nearest(fit) > 0.95).sum())


def n_near(fit):
    """True topics with one of a cosine of at least .9."""
    return int((nearest(fit) >= 0.9).sum())


#: Documents of which a topic that has half of its tokens there is of few.
FEW_DOCUMENTS = 3
#: Cosine of topics of which the lighter one is a copy.
COPIES = 0.9
KINDS = "incoherent", "few", "copies", "junk"


def junk(fit):
    """Shares of the tokens of topics that say little, by kind, and of all of them.

    "incoherent": the ten words are together no more often than by chance; "few": half
    of the tokens are in at most three documents; "copies" of heavier topics.
    """
    hdp, train = fit.model, fit.docs.train
    shares = token_shares(hdp)
    tokens = hdp.transform(train) * np.asarray(train.sum(axis=1)).reshape(-1, 1)
    most = -np.sort(-tokens, axis=0)[:FEW_DOCUMENTS].sum(axis=0)
    rows = hdp.topic_word_distr_[np.argsort(-shares, kind="stable")]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    is_copy = np.empty(len(shares), bool)
    nearest_heavier = np.tril(rows @ rows.T, -1).max(axis=1)
    is_copy[np.argsort(-shares, kind="stable")] = nearest_heavier > COPIES
    kinds = {
        "incoherent": topic_coherence(hdp, train) < 0.0,
        "few": most >= 0.5 * tokens.sum(axis=0),
        "copies": is_copy,
    }
    kinds["junk"] = np.any([*kinds.values()], axis=0)
    return {kind: float(shares[marked].sum()) for kind, marked in kinds.items()}


def median(rows, column):
    return float(np.median([row[column] for row in rows]))


# -- fits from several starts ----------------------------------------------------------

METHODS = {
    "online": {},
    "memoized": {"learning_method": "memoized"},
    "mean field": {"variational_family": "mean_field"},
}


def learn_numbers(docs, method, start, seed):
    hdp = HDP(start, random_state=seed, **METHODS[method], min_gain=0)
    curve = common.Curve(
        lambda hdp: [standard_score(Fit(docs, hdp))], np.inf, spacing=0.0, gap=0.0
    )
    if docs.truth is None:
        hdp.set_callbacks(curve)
    fit = fitted(hdp, docs)
    fit.seconds -= curve.looking
    scores = [*(score for _, score in curve.points), standard_score(fit)]
    fall = max(np.max(np.maximum.accumulate(scores) - scores), 0.0)
    fit.more = {"score": scores[-1], "fall": fall}
    if docs.truth is not None:
        fit.more |= {"truth": true_score(fit), "found": n_found(fit)}
    yield fit


def starts_side_by_side(rows):
    """One row for each corpus and method, medians over seeds."""
    table = []
    for line, same in common.groups(rows, ("corpus", "method")):
        line["seeds"] = len({row["seed"] for row in same})
        starts = common.medians(same, ("start",))
        for row in sorted(starts, key=lambda row: row["start"]):
            for column in ("topics", "score"):
                line[f"{column} from {row['start']}"] = row[column]
        topics, scores = ([row[name] for row in starts] for name in ("topics", "score"))
        line["apart"], line["ratio"] = np.ptp(scores), max(topics) / min(topics)
        line |= {column: median(same, column) for column in ("fall", "CPU s")}
        if "truth" in same[0]:
            line["least found"] = min(row["found"] for row in same)
            line["most topics"] = max(row["topics"] for row in same)
            line["truth"] = median(same, "truth")
        line["commit"] = ", ".join(sorted({row["commit"] for row in same}))
        table.append(line)
    return table


ONLINE = {"variational_family": "mean_field"}
MEMOIZED = {**ONLINE, "learning_method": "memoized"}
RECIPES = {
    "memoized": MEMOIZED,
    "online": ONLINE,
    "memoized, no warm-up": {**MEMOIZED, "warm_up": 0},
    "online, no warm-up": {**ONLINE, "warm_up": 0},
    "online, moves of the paper": {**ONLINE, "split_merge": SplitMerge.paper()},
    "memoized, no moves": {**MEMOIZED, "split_merge": False},
    "online, no moves": {**ONLINE, "split_merge": False},
}


def learn_recipe(docs, recipe, start, seed):
    fit = fitted(HDP(start, random_state=seed, **RECIPES[recipe], min_gain=0), docs)
    for kind in ("births", "splits", "merges"):
        fit.more[kind] = fit.model.history_[f"n_{kind}"][-1]
    yield fit


def recipe_medians(rows):
    """Medians over seeds, but of numbers of moves."""
    columns = ("recipe", "start", "score", "bound", "topics", "CPU s")
    some = [{name: row[name] for name in columns} for row in rows]
    return common.medians(some, ("recipe", "start"))


# -- streams ---------------------------------------------------------------------------

#: Documents by date of a chunk; chunks after which scores are taken.
CHUNK, MARKS = 1000, (1, 2, 4, 8, 16, 32, 64, 100, 150)
#: Documents before a share of time is taken; of all topics before 50 quiet chunks.
FIRST, BEFORE_QUIET, N_QUIET = 1000, 3000, 50


def learn_in_chunks(hdp, train, chunk):
    """Learn; yield the number of documents so far, and the seconds of each call."""
    for begin in range(0, train.shape[0], chunk):
        part = train[begin : begin + chunk]
        _, seconds = common.cpu_seconds(partial(hdp.partial_fit, part))
        yield begin + part.shape[0], seconds


def learn_stream(docs, start, chunk, seed, min_gain):
    hdp = HDP(start, random_state=seed, min_gain=min_gain)
    yield Fit(docs, hdp, sum(s for _, s in learn_in_chunks(hdp, docs.train, chunk)))


def learn_by_date(docs, start, moves, seed):
    hdp, total = HDP(start, split_merge=moves, random_state=seed, min_gain=0), 0.0
    for n_docs, seconds in learn_in_chunks(hdp, docs.train, CHUNK):
        total += seconds
        if -(-n_docs // CHUNK) in MARKS:
            births = sum(entry.kind == "birth" for entry in hdp.lineage_)
            yield Fit(docs, hdp, total, {"documents": n_docs, "births": births})


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


@contextmanager
def timed(places, other=None):
    """Yield a clock of functions, (owner, names of several) each."""
    clock = Clock(other)
    with ExitStack() as stack:
        for owner, names in places:
            for name in names:
                wrapped = clock.wrap(getattr(owner, name))
                stack.enter_context(patch.object(owner, name, wrapped))
        yield clock


def learn_late(docs, documents, begin, start, chunk, seed):
    fit, shares = Fit(docs, HDP(start, random_state=seed, min_gain=0)), docs.truth[1]
    n_late = shares.shape[1] // 4
    n_own = (shares[:, :n_late] >= 0.1).cumsum(axis=0)
    after, calls, of_trials = np.full(n_late, np.inf), [], []
    gc.collect()
    gc.freeze()  # a call that collects all imported objects takes 100 ms more
    with timed([(StreamTrials, ("restart",))]) as clock:
        for n_docs, seconds in learn_in_chunks(fit.model, docs.train, chunk):
            calls.append(seconds)
            of_trials.append(clock.seconds)
            if n_docs > int(begin * documents):
                is_near = nearest(fit)[:n_late] >= 0.9
                after[is_near] = np.minimum(after, n_own[n_docs - 1])[is_near]
    shares_of_time = of_trials / np.cumsum(calls)
    fit.seconds = float(np.sum(calls))
    fit.more = {
        "late": n_late,
        "within 500": int((after <= 500).sum()),
        "in the end": n_near(fit),
        "worst call": float(np.max(calls) / np.median(calls)),
        "trials": float(shares_of_time[FIRST // chunk - 1 :].max()),
        "trials, end": float(shares_of_time[-1]),
    }
    yield fit


def learn_quiet(docs, start, chunk, seed):
    fit, born = Fit(docs, HDP(start, random_state=seed, min_gain=0)), set()
    for n_docs, seconds in learn_in_chunks(fit.model, docs.train, chunk):
        fit.seconds += seconds
        if n_docs <= BEFORE_QUIET:
            before = {*fit.model.component_ids_}
            fit.more = {"topics before": len(before), "of 20 before": n_near(fit)}
        else:
            born |= {*fit.model.component_ids_} - before
    n_topics, n_true = fit.model.n_components_, n_near(fit)
    fit.more |= {"born": len(born), "stay": len(born & {*fit.model.component_ids_})}
    fit.more |= {"topics": n_topics, "of 20": n_true, "beyond": n_topics - n_true}
    yield fit


#: Documents of a large stream before the moves end, and at which scores are taken.
WITH_MOVES, LARGE_MARKS = 100_000, (20_000, 100_000, 200_000, 1_000_000, 4_000_000)


def learn_file(hdp, path, split_merge):
    """Learn from the documents of a file; return their number."""
    counts = sp.load_npz(path)
    hdp.set_params(split_merge=split_merge).partial_fit(counts)
    return counts.shape[0]


def learn_large(docs, documents, min_gain, seed):
    """One pass over files: with moves at first, then without."""
    fit, n_docs = Fit(docs, HDP(min_gain=min_gain, random_state=seed)), 0
    fit.more = {"read": 0, "clock s": 0.0, "peak MB": 0.0}
    for path in docs.train.files():
        begin = time.perf_counter()
        step = partial(learn_file, fit.model, path, n_docs < WITH_MOVES)
        n_new, seconds = common.cpu_seconds(step)
        fit.more["clock s"] += time.perf_counter() - begin
        n_docs, fit.seconds = n_docs + n_new, fit.seconds + seconds
        if n_docs in LARGE_MARKS or n_docs == documents:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            fit.more |= {"read": n_docs, "peak MB": peak}
            yield fit


# -- few documents ---------------------------------------------------------------------

#: A topic prior that is kept, for words that documents repeat.
SMALL_PRIOR = {"topic_word_prior": 0.003, "learn_priors": "concentrations"}
OURS = {
    "HDP": {},
    "HDP from 30": {"n_components": 30},
    "HDP from 100": {"n_components": 100},
    "HDP from 600, eta=0.003": {"n_components": 600, **SMALL_PRIOR},
}
#: Topics and topic priors of peers; topics of the peer of short texts, and topic priors
#: of one topic, of which the best counts.
SIZES, PRIORS = (100, 300), (0.01, 0.05)
SHORT_SIZES, ONE_PRIORS = (5, 10, 20, 50), (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Fits of a sample; those of fewer documents have one, and no peer.
N_FITS, MANY = 3, 300


def fits_of_peer(name, docs, seed, sizes, limit):
    """Yield size, prior and fit of a model of tomotopy after some processor seconds."""
    import peers

    make = {"tomotopy LDA": peers.TomotopyLDA, "tomotopy HDP": peers.TomotopyHDP}[name]
    for size, prior in product(sizes, PRIORS):
        peer, seconds = make(docs.train, seed, size, prior), 0.0
        while seconds < limit:
            seconds += common.cpu_seconds(peer.step)[1]
        yield size, prior, Fit(docs, peer.topics(), seconds)


def default_fit(docs, seed):
    """A default fit with its range of numbers, and whether it warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = fitted(HDP(random_state=seed, min_gain=0), docs)
    low, high = fit.model.n_components_range_ or 2 * (fit.model.n_components_,)
    fit.more = {"least": int(low), "most": int(high)}
    return fit, any(w.category is ConvergenceWarning for w in caught)


#: Shares of the gain of all topics that a topic must bring, and as many fixed topics.
SHARES = {
    "all": {"min_gain": 0},
    "default": {},
    "half": {"min_gain": 0.0025},
    "twice": {"min_gain": 0.01},
    "small steps": {},
    "large steps": {},
    "fixed": {"split_merge": False},
}
#: Least shares of the topics that a reduction merges or ends.
STEPS = {"small steps": 0.1, "large steps": 0.3}


def stored_number(corpus, seed):
    """Number of topics of the default fit, on the page so far."""
    _, rows = CASES["min_gain"].stored("min_gain")
    keys = "corpus", "way", "seed"
    rows = {tuple(row[key] for key in keys): row["topics"] for row in rows}
    return rows[corpus, "default", seed]


def learn_min_gain(docs, corpus, way, seed):
    options = dict(SHARES[way])
    if way == "fixed":
        options["n_components"] = stored_number(corpus, seed)
    step = STEPS.get(way, held_out_trials.LEAST_REDUCED)
    with patch.object(held_out_trials, "LEAST_REDUCED", step):
        with warnings.catch_warnings(action="ignore"):
            fit = fitted(HDP(random_state=seed, **options), docs)
    fit.more = junk(fit)
    if docs.truth is not None:
        fit.more["near"] = n_near(fit)
    yield fit


def min_gain_summary(rows):
    """One row for each corpus and way: numbers of the seeds, and medians."""
    result = []
    for corpus, way in dict.fromkeys((row["corpus"], row["way"]) for row in rows):
        same = [row for row in rows if (row["corpus"], row["way"]) == (corpus, way)]
        numbers = ", ".join(str(row["topics"]) for row in same)
        columns = ("near", "score", "coherence", "diversity", "CPU s", *KINDS)
        medians = {
            name: median(same, name)
            for name in columns
            if all(name in row for row in same)
        }
        result.append({"corpus": corpus, "way": way, "topics": numbers} | medians)
    return result


def learn_few(docs, model, split, limit):
    if model in OURS:
        yield fitted(HDP(random_state=split, **OURS[model], min_gain=0), docs)
        return
    for size, prior, fit in fits_of_peer(model, docs, split, SIZES, limit):
        fit.more["model"] = f"{model}, K={size}, eta={prior}"
        yield fit


def few_summary(rows):
    """Means over splits of each model, and by how much `HDP` is ahead, paired."""
    table = []
    scores = ("tokens", "types")
    for _, here in common.groups(rows, ("corpus",)):
        ours = {row["split"]: row for row in here if row["model"] == "HDP"}
        lines = []
        for line, some in common.groups(here, ("corpus", "documents", "model")):
            line["splits"] = len(some)
            for key in (*scores, "no cache", "topics"):
                line[key] = float(np.mean([row[key] for row in some]))
            line["topics"] = round(line["topics"])
            for key in scores:
                ahead = [ours[row["split"]][key] - row[key] for row in some]
                error = np.std(ahead, ddof=1) if len(ahead) > 1 else np.nan
                error /= np.sqrt(len(ahead))
                text = f"{np.mean(ahead):+.3f} ± {error:.3f}"
                line[f"HDP ahead, {key}"] = text if line["model"] != "HDP" else ""
            line["CPU s"] = float(np.mean([row["CPU s"] for row in some]))
            lines.append(line)
        peers = [line for line in lines if "tomotopy" in line["model"]]
        best = {max(line[key] for line in peers) for key in scores if peers}
        table += [
            line
            for line in lines
            if line not in peers or not best.isdisjoint(line[key] for key in scores)
        ]
    return table


def learn_short(docs, documents, sample, limit):
    words = np.asarray(docs.train.sum(axis=0)).reshape(1, -1)
    one = [Fit(docs, (words + prior, np.ones(1), 1)) for prior in ONE_PRIORS]
    one = max(one, key=completion)
    one.more["model"] = "one topic"
    yield one
    for seed in range(N_FITS if documents >= MANY else 1):
        fit, is_warned = default_fit(docs, seed)
        fit.more |= {"model": "HDP", "seed": seed, "warns": is_warned}
        yield fit
    peer = fits_of_peer("tomotopy LDA", docs, sample, SHORT_SIZES, limit)
    for size, prior, fit in peer if documents >= MANY else ():
        fit.more = {"model": "tomotopy LDA", "K": size, "eta": prior}
        yield fit


def learn_thin(docs):
    for model in (HDP(random_state=0), HDP(1, split_merge=False, random_state=0)):
        fit = fitted(model, docs)
        fit.more["model"] = "one topic" if model.split_merge is False else "HDP"
        fit.more["range"] = model.n_components_range_
        yield fit


def short_documents(corpus, documents, tokens, sample):
    kind, _, prior = corpus.partition(" ")
    if kind == "mixtures":
        return draws.short(float(prior), documents, tokens, sample)
    return corpora.thin_sample(corpus, documents, tokens, sample)


def learn_from_start(docs, start):
    sweeps = int(start.split()[0]) if start != "documents" else 0
    with ExitStack() as stack:
        stack.enter_context(patch.object(_hdp, "N_SWEEPS", sweeps))
        if sweeps == 0:
            stack.enter_context(patch.object(HDP, "_is_sampled", lambda *_: False))
        yield fitted(HDP(random_state=0), docs)


def short_summary(rows):
    """One row for each kind of sample: gains over one topic, nats per token."""
    table = []
    for line, here in common.groups(rows, ("corpus", "documents", "min_df")):
        gains, apart, ahead, blind = [], [], [], 0
        samples = [same for _, same in common.groups(here, ("sample",))]
        for same in samples:
            alone, *others = same
            fits = [row for row in others if row["model"] == "HDP"]
            scores = np.array([row["score"] for row in fits])
            gains += list(scores - alone["score"])
            apart += list(np.abs(scores - np.median(scores)))
            peers = [row for row in others if row["model"] == "tomotopy LDA"]
            if peers:
                best = max(row["score"] for row in peers)
                ahead.append(np.median(scores) - best)
                some = max(row["score"] for row in peers if row["K"] <= 20)
                ones = sum(row["topics"] == 1 for row in fits)
                blind += ones if some > alone["score"] + 0.02 else 0
        fits = [row for row in here if row["model"] == "HDP"]
        quartiles = np.percentile([row["topics"] for row in fits], (25, 50, 75))
        table.append(
            line
            | {
                "samples": len(samples),
                "fits": len(fits),
                "gain": float(np.median(gains)),
                "least gain": float(min(gains)),
                "from median": float(max(apart)) if len(fits) > len(samples) else "",
                "ahead of LDA": float(np.median(ahead)) if ahead else "",
                "least ahead": float(min(ahead)) if ahead else "",
                "one topic where LDA gains": blind if ahead else "",
                "topics, quartiles": " ".join(f"{value:g}" for value in quartiles),
                "warn": sum(row["warns"] for row in fits),
                "wide ranges": sum(row["most"] > 2 * row["least"] for row in fits),
                "CPU s": median(fits, "CPU s"),
            }
        )
    return table


def learn_signatures(docs, draw):
    fit, _ = default_fit(docs, draw)
    sizes = {"samples": len(docs.train), "mutations": int(docs.train.sum())}
    fit.more = sizes | fit.more
    yield fit


# -- the topic prior -------------------------------------------------------------------

N_SWEEPS = 1000


def sampled_sizes(chain, train):
    """Tokens of each topic of a chain, and the share of its first document in them."""
    doc, tables = Tokens.from_counts(train).doc, chain.tables
    first = np.concatenate([[0], np.cumsum(tables.n_tables)[:-1]])
    topic = tables.dish[first[doc] + tables.table].astype(np.int64)
    pairs, counts = np.unique(topic * (doc.max() + 1) + doc, return_counts=True)
    most, size = np.zeros((2, int(topic.max()) + 1))
    owner = pairs // (doc.max() + 1)
    np.maximum.at(most, owner, counts)
    np.add.at(size, owner, counts)
    return size, most / np.maximum(size, 1.0)


def learn_prior(docs, model, prior):
    if model == "HDP":
        given = {"topic_word_prior": prior, "learn_priors": "concentrations"}
        fit = fitted(HDP(**given, random_state=0, min_gain=0), docs)
        size = fit.model.components_.sum(axis=1) - prior * docs.train.shape[1]
    else:
        given = {"learn_priors": True} if prior is None else {"topic_word_prior": prior}
        hdp = GibbsHDP(max_iter=N_SWEEPS, random_state=0, **given)
        fit = fitted(hdp, docs)
        size, share = sampled_sizes(hdp._chains[0], docs.train)
        posterior = sorted(hdp.n_components_posterior_.items())
        numbers, shares = zip(*posterior, strict=True)
        fit.more = {
            "prior": hdp.history_["topic_word_prior"][-1],
            "topics": len(size),
            "median": numbers[int(np.searchsorted(np.cumsum(shares), 0.5))],
            "one document's": int((share > 0.5).sum()),
            "their tokens": float(size[share > 0.5].sum() / size.sum()),
            "log joint": hdp.log_joint_,
        }
    fit.more["large"] = int((size >= 1e-3 * size.sum()).sum())
    yield fit


# -- the cases -------------------------------------------------------------------------

CASES = {
    "hdp_topic_numbers": Case(
        axes={
            "corpus": (
                *("bars 5x5, 300", "bars 5x5, 450", "bars 5x5, 2000"),
                *("bars 10x10, 300", "bars 10x10, 2000", "bars 10x10, 5000"),
                *("hdp 15, 800", "hdp 15, 3000", "hdp 40, 2000"),
                *("one topic", "uniform"),
                *("permuted ap", "permuted arxiv2000", "permuted nips_abstracts"),
                *("ap", "sotu", "nips_abstracts", "arxiv2000", "bbc_tech"),
                *("citeulike_titles", "kos", "reuters395", "jacm"),
                *("arxiv_titles", "docstrings"),
            ),
            "method": METHODS,
            "start": (1, 10, 100, 300),
            "seed": (0, 1, 2),
        },
        documents=draws.planted,
        learn=learn_numbers,
        records={
            "active": attrgetter("model.n_active_components_"),
            "passes": attrgetter("model.n_iter_"),
            "converged": attrgetter("model.converged_"),
            "commit": lambda fit: common.commit(),
        },
        summary=starts_side_by_side,
        over="seed",
        keeps=("corpus", "method", "start", "seed"),
    ),
    "hdp_starts": Case(
        axes={  # those that show what parts are for run once
            "recipe, start, seed": [
                *product(("memoized", "online"), (1, 10, 100), (0, 1, 2)),
                *product([*RECIPES][2:], (1, 10, 100), (0,)),
            ]
        },
        documents=lambda: draws.planted("ap"),
        learn=learn_recipe,
        records={"score": plain_score, "bound": attrgetter("model.elbo_")},
        summary=recipe_medians,
        over="seed",
        shows_rows=True,
    ),
    "hdp_stream_planted": Case(
        axes={
            "corpus": (
                *("bars 5x5, 10000", "bars 10x10, 10000"),
                *("hdp 15, 10000", "hdp 40, 10000"),
            ),
            "start": (2,),
            "chunk": (100, 500),
            "seed": (2, 3, 4),
            "min_gain": (0.005, 0.0),
        },
        documents=draws.planted,
        learn=learn_stream,
        records={
            "true topics": lambda fit: len(fit.docs.truth[0]),
            "found": n_found,
            "score": standard_score,
            "truth": true_score,
        },
    ),
    "hdp_stream": Case(
        axes={"seed": (0,), "start, moves": ((2, True), (300, True), (300, False))},
        documents=lambda seed: corpora.by_date("arxiv_large", 600, seed),
        learn=learn_by_date,
        records={
            "score": standard_score,
            "resident MB": lambda fit: common.resident(),
        },
    ),
    "hdp_stream_late": Case(
        axes={
            "documents, begin, start, chunk": [
                *product((4000,), (0.5, 0.7, 0.9), (2,), (20, 100, 500)),
                *product((8000,), (0.7,), (300,), (20, 100, 500)),
                (20_000, 0.9, 2, 100),
            ],
            "seed": (0,),
        },
        documents=draws.late_topics,
        learn=learn_late,
    ),
    "hdp_stream_quiet": Case(
        axes={"start": (2, 300), "chunk": (20, 100), "seed": (0,)},
        documents=lambda chunk, seed: draws.late_topics(
            BEFORE_QUIET + N_QUIET * chunk, 0.0, seed
        ),
        learn=learn_quiet,
    ),
    "hdp_stream_large": Case(
        axes={"documents": (8_400_000,), "min_gain": (0.001,), "seed": (0,)},
        documents=draws.stream_on_disk,
        learn=learn_large,
        records={"found": n_near, "score": standard_score, "truth": true_score},
    ),
    "few_documents": Case(
        axes={
            "corpus": (
                *("jacm", "bbc_tech", "reuters395"),
                *("ap:400", "kos:400", "nips:400", "docstrings:400"),
                *("arxiv2000", "nips_abstracts", "citeulike_titles"),
            ),
            "split": range(5),
            "model": (*OURS, "tomotopy LDA", "tomotopy HDP"),
            "limit": (2.0,),
        },
        documents=corpora.sample,
        learn=learn_few,
        records={
            "documents": lambda fit: fit.docs.train.shape[0],
            "tokens": completion,
            "types": type_score,
            "no cache": partial(completion, repeats=False),
        },
        summary=few_summary,
        over="split",
        keeps=("corpus", "split", "model"),
    ),
    "few_short_texts": Case(
        axes={
            "documents, min_df": ((350, 2), (350, 1), (100, 1), (30, 1)),
            "corpus": ("citeulike_titles", "arxiv_titles", "first lines of docstrings"),
            "sample": range(5),
            "limit": (2.0,),
        },
        documents=corpora.short_sample,
        learn=learn_short,
        records={"score": completion},
        summary=short_summary,
        over="sample",
    ),
    "few_lengths": Case(
        axes={
            "corpus": (
                *("ap", "kos", "docstrings", "citeulike_titles", "reuters395"),
                *("sotu", "arxiv2000", "nips_abstracts", "bbc_tech", "arxiv_titles"),
            ),
            "documents, tokens": ((30, 50), (100, 20), (100, 80), (300, 20)),
            "sample": (0, 1),
        },
        documents=corpora.thin_sample,
        learn=learn_thin,
        records={"score": lambda fit: fit.model.score(fit.docs.test)},
        keeps=("corpus", "documents", "tokens", "sample", "model"),
    ),
    "short_documents": Case(
        axes={
            "corpus, documents, tokens": (
                *(("mixtures 1", 3000, 5), ("mixtures 3", 3000, 5)),
                *(("mixtures 3", 1000, 11), ("mixtures 6", 30000, 5)),
                *(("kos", 1500, 10), ("kos", 3000, 10), ("kos", 1200, 15)),
                *(("ap", 2000, 10), ("ap", 1000, 15), ("ap", 2000, 19)),
                *(("citeulike_titles", 2500, 19), ("docstrings", 2500, 8)),
                *(("nips_abstracts", 1300, 15), ("arxiv2000", 1700, 12)),
                *(("arxiv_titles", 10000, 19), ("mixtures 1", 500, 8)),
                *(("mixtures 3", 300, 19), ("mixtures 3", 1000, 5)),
                *(("kos", 600, 15), ("ap", 300, 15), ("docstrings", 400, 10)),
                *(("arxiv2000", 500, 15), ("nips_abstracts", 300, 15)),
                ("arxiv_titles", 700, 12),
            ),
            "sample": (0, 1),
            "start": ("documents", *(f"{n} sweeps" for n in (50, 100, 200, 400))),
        },
        documents=short_documents,
        learn=learn_from_start,
        records={"score": lambda fit: fit.model.score(fit.docs.test)},
        keeps=("corpus", "documents", "tokens", "sample", "start"),
    ),
    "min_gain": Case(
        axes={
            "corpus": (
                *("ap", "kos", "nips_abstracts", "docstrings", "bbc_tech", "sotu"),
                *("arxiv2000", "citeulike_titles", "reuters395", "jacm"),
                *("bars 5x5, 2000", "bars 10x10, 2000", "equal 40, 2000"),
                *("equal 100, 4000", "power 20, 2000", "power 50, 4000"),
            ),
            "way": tuple(SHARES),
            "seed": (0, 1, 2),
        },
        documents=draws.planted,
        learn=learn_min_gain,
        records={
            "score": lambda fit: fit.model.score(fit.docs.test[:2000]),
            "coherence": lambda fit: np.nanmean(
                topic_coherence(fit.model, fit.docs.train)
            ),
            "diversity": lambda fit: topic_diversity(fit.model),
        },
        summary=min_gain_summary,
        over="seed",
        keeps=("corpus", "way", "seed"),
    ),
    "few_signatures": Case(
        axes={"draw": range(5)},
        documents=draws.signatures,
        learn=learn_signatures,
        records={"found": n_found, "c": attrgetter("model.word_concentration_")},
    ),
    "gibbs_topic_prior": Case(
        axes={
            "model, prior": (
                *product(("GibbsHDP",), (0.01, 0.05, 0.2)),
                ("GibbsHDP, learned", None),
                *product(("HDP",), (0.01, 0.05, 0.2)),
            )
        },
        documents=lambda: draws.planted("ap"),
        learn=learn_prior,
        records={"score": plain_score},
    ),
}


if __name__ == "__main__":
    main(__doc__, CASES)
