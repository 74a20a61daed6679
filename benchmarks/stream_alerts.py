"""Alerts of streams: topics that begin on a night, quiet nights, and cost.

    SKBNP_DATA=... python benchmarks/stream_alerts.py PAGE [--AXIS VALUE ...] [--write]

`sweep.py` has the options. A stream is planted, or documents of a corpus in random
order. From a night on some documents of each night are of a topic that has not come
before: a planted one, some of whose words are mixtures of older topics, or a section of
a corpus. Sections of docstrings are packages; those of other corpora are the documents
that have much of one of 50 topics of all of them, and documents that have some of it
are left out.
"""

import tempfile
import warnings
from collections import namedtuple
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from unittest.mock import patch

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
import scipy.sparse as sp
from sweep import Case, Fit, main

import skbnp
from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.models.hdp import emerging
from skbnp.utils.matching import cosines

#: Streams by which settings were chosen, and others.
CHOICE = ("planted", "planted, shared words", "docstrings", "kos")
REPORT = ("planted, new seeds", "arxiv_titles", "ap", "nips_abstracts", "sotu")
#: Quiet nights before a topic begins; texts of it on one, out of 400 or so many less.
N_QUIET, RATES, N_TEXTS = 8, (5, 20, 60, 120), 400
#: Texts of a night of smaller corpora.
FEW_TEXTS = {"docstrings": 200, "kos": 200, "ap": 120, "nips_abstracts": 100}
#: Texts of the new topic, and nights, after which an alert is late.
LATE, MOST_NIGHTS = 500, 20
#: Cosine of an alert to words that are new, from which it is about these.
SAME = 0.5
#: Packages that begin, documents of other sections at least, and of corpora at most.
PACKAGES = ("scipy.signal", "scipy.linalg", "numpy.polynomial", "scipy.sparse")
LEAST_SECTION, MOST_DOCUMENTS = 60, 12_000
#: Shares of a topic in documents that have much of it, and some.
MUCH, SOME = 0.3, 0.05

#: Nights in order, (counts, whether each is new), and words that are new.
Stream = namedtuple("Stream", "nights words")


def new_share(counts, is_new):
    """Words of new documents beyond those of others, by first uses."""
    uses = counts.sign()
    new, old = (np.asarray(uses[of].mean(axis=0)).ravel() for of in (is_new, ~is_new))
    return np.maximum(new - old, 0.0)


def planted(rate, seed, shared, n_nights):
    """Nights of 20 topics, and of a further one."""
    rng = np.random.default_rng(seed + 7000)
    topics = rng.dirichlet(np.full(1000, 0.05), 21)
    older = rng.dirichlet(np.ones(3)) @ topics[rng.choice(20, 3, replace=False)]
    topics[-1] = (1.0 - shared) * topics[-1] + shared * older
    prior = np.maximum(3.0 * rng.dirichlet(np.full(20, 5.0)), 1e-3)
    nights = []
    for night in range(n_nights):
        is_new = np.zeros(N_TEXTS, bool)
        is_new[: rate * (night >= N_QUIET)] = True
        shares = np.pad(rng.dirichlet(prior, N_TEXTS), ((0, 0), (0, 1)))
        own = rng.uniform(0.5, 1.0, rate * (night >= N_QUIET))
        shares[is_new] *= 1.0 - own[:, None]
        shares[is_new, -1] = own
        lengths = 2 + rng.poisson(58, N_TEXTS)
        nights.append((sp.csr_array(rng.multinomial(lengths, shares @ topics)), is_new))
    return Stream(nights, topics[-1])


@lru_cache(maxsize=1)
def corpus(name):
    """Counts of documents of five tokens or more, in random order."""
    counts = corpora.load_counts(name)
    rows = np.flatnonzero(np.asarray(counts.sum(axis=1)).ravel() >= 5)
    rows = np.random.default_rng(0).permutation(rows)[:MOST_DOCUMENTS]
    return counts[rows], rows


@lru_cache(maxsize=1)
def sections(name):
    """Documents of each section, and documents that are left out with it."""
    counts, rows = corpus(name)
    if name == "docstrings":
        docs = load_docstrings()
        packages = np.array(docs.target_names)[docs.target][rows]
        return [(packages == one, np.zeros(len(rows), bool)) for one in PACKAGES]
    fit = HDP(50, split_merge=False, max_iter=20, random_state=0).fit(counts)
    shares = fit.transform(counts)
    pairs = [(share >= MUCH, (share >= SOME) & (share < MUCH)) for share in shares.T]
    return [pair for pair in pairs if pair[0].sum() >= LEAST_SECTION]


def of_corpus(name, rate, seed, n_nights):
    """Nights of a corpus in random order, without a section until it begins."""
    counts, _ = corpus(name)
    rng, n_texts = np.random.default_rng(seed), FEW_TEXTS.get(name, N_TEXTS)
    order = rng.permutation(len(sections(name)))
    is_new, is_out = sections(name)[order[seed % len(order)]]
    n_new = -(-rate * n_texts // N_TEXTS)
    new, old = (
        rng.permutation(np.flatnonzero(of & ~is_out)) for of in (is_new, ~is_new)
    )
    nights = []
    for night in range(n_nights):
        n_now = n_new * (night >= N_QUIET)
        if len(new) < n_now or len(old) < n_texts - n_now:
            break
        rows = np.concatenate([new[:n_now], old[: n_texts - n_now]])
        new, old = new[n_now:], old[n_texts - n_now :]
        nights.append((counts[rows], np.arange(len(rows)) < n_now))
    return Stream(nights, new_share(counts, is_new))


def stream(stream, rate, seed):
    """Nights of a stream in which a topic begins."""
    n_nights = N_QUIET + min(MOST_NIGHTS, -(-LATE // rate))
    if stream.startswith("planted"):
        shared = 0.0 if stream == "planted" else 0.5
        more = 100 if stream == "planted, new seeds" else 0
        return planted(rate, seed + more, shared, n_nights)
    return of_corpus(stream, rate, seed, n_nights)


def is_about(change, words):
    """Whether an alert is about words."""
    return cosines(change.words[None], words[change.columns][None])[0, 0] >= SAME


def alerts(hdp, since):
    """Alerts since a call, and seconds that they take."""
    return common.cpu_seconds(lambda: hdp._changes(since))


def learn_new(docs, seed):
    """Learn night by night, until an alert is about the new topic.

    Nothing if the section is too small for a night.
    """
    if len(docs.nights) <= N_QUIET:
        return
    hdp, n_new, others, after = HDP(random_state=seed), 0, 0, None
    for night, (counts, is_new) in enumerate(docs.nights, 1):
        with warnings.catch_warnings(action="ignore"):
            hdp.partial_fit(counts)
        n_new += int(is_new.sum())
        if night <= N_QUIET:
            continue
        changes, seconds = alerts(hdp, N_QUIET)
        about = [one for one in changes if is_about(one, docs.words)]
        others = max(others, len(changes) - len(about))
        if about:
            after = n_new
            break
    more = {"nights": night - N_QUIET, "texts": n_new, "alert after": after}
    if after:
        more |= {
            "p": float(f"{about[0].p_value:.1g}"),
            "counted": round(about[0].n_documents, 1),
            "gain": about[0].gain,
            "cosine": about[0].cosine,
        }
    yield Fit(docs, hdp, seconds, more | {"others": others})


def within(rows):
    """Share of streams with an alert, by texts of the topic until then."""
    result = []
    for key, some in common.groups(rows, ("stream", "rate")):
        after = np.array([row["alert after"] or np.inf for row in some], float)
        row = {**key, "seed": "all", "streams": len(some)}
        row["median"] = float(np.median(after))
        for limit in (100, 300, 500):
            row[f"within {limit}"] = int((after <= limit).sum())
        row["others"] = sum(one["others"] for one in some)
        result.append(row | {"most CPU s": max(one["CPU s"] for one in some)})
    return result


#: Texts of a night, so that a corpus makes as many nights, and nights at most.
QUIET_TEXTS = {"docstrings": 40, "kos": 40, "ap": 25, "nips_abstracts": 20, "sotu": 80}
N_NIGHTS = 60


def quiet(stream, seed):
    """Nights of a stream in which nothing begins."""
    if stream.startswith("planted"):
        more = 100 if stream == "planted, new seeds" else 0
        nights = planted(0, seed + more, 0.0, N_NIGHTS // 4).nights
        return [night[k::4] for night, _ in nights for k in range(4)]
    counts, _ = corpus(stream)
    rows = np.random.default_rng(seed).permutation(counts.shape[0])
    size = QUIET_TEXTS.get(stream, 200)
    n_nights = min(N_NIGHTS, len(rows) // size)
    return [counts[rows[size * k : size * (k + 1)]] for k in range(n_nights)]


def learn_quiet(docs, seed):
    """Learn night by night, with alerts of topics in the second half of the nights."""
    hdp, listed, seconds, n_calls = HDP(random_state=seed), [], 0.0, 0
    for night, counts in enumerate(docs, 1):
        with warnings.catch_warnings(action="ignore"):
            hdp.partial_fit(counts)
        if night == 1:
            continue
        changes, more = alerts(hdp, night // 2)
        seconds, n_calls = seconds + more, n_calls + 1
        for change in changes:
            if not any(change.is_like(other) for other in listed):
                listed.append(change)
    kinds = [change.kind for change in listed]
    more = {"calls": n_calls, "texts": docs[0].shape[0]}
    more |= {kind: kinds.count(kind) for kind in ("new", "faded")}
    yield Fit(docs, hdp, seconds / n_calls, more)


#: Settings of `emerging`, half and twice.
SETTINGS = {
    "as they are": {},
    **{
        f"{name} {value:g}": {name: value}
        for name, values in {
            "FALSE_ALARMS": (0.005, 0.02),
            "MOST_BEFORE": (0.1, 0.4),
            "OLDER": (0.25, 1.0),
            "MOST_PROPOSED": (4, 16),
            "ROUNDS": (5, 20),
            "LEAST_SIMILARITY": (0.1, 0.4),
            "MOST_COMPARED": (500, 1000),
        }.items()
        for value in values
    },
}


@contextmanager
def setting(changes):
    """Other settings."""
    with ExitStack() as stack:
        for name, value in changes.items():
            stack.enter_context(patch.object(emerging, name, value))
        yield


def learn_settings(docs, rate, seed):
    """Learn night by night, and list alerts by each setting."""
    hdp, n_new = HDP(random_state=seed), 0
    after = dict.fromkeys(SETTINGS)
    seconds, others = dict.fromkeys(SETTINGS, 0.0), dict.fromkeys(SETTINGS, 0)
    for night, (counts, is_new) in enumerate(docs.nights, 1):
        with warnings.catch_warnings(action="ignore"):
            hdp.partial_fit(counts)
        n_new += int(is_new.sum())
        if night <= N_QUIET:
            continue
        for name, changes in SETTINGS.items():
            if after[name] is not None:
                continue
            with setting(changes):
                some, more = alerts(hdp, N_QUIET)
            about = [one for one in some if is_about(one, docs.words)]
            others[name] = max(others[name], len(some) - len(about))
            after[name], seconds[name] = n_new if about else None, more
    for name in SETTINGS:
        more = {"setting": name, "texts": n_new, "alert after": after[name]}
        yield Fit(docs, hdp, seconds[name], more | {"others": others[name]})


#: Nights after which a stream of many is measured.
MARKS = (1, 10, 30, 100, 200, 300)


def many_nights(stream):
    """Nights of abstracts by date."""
    counts = corpora.load_counts(stream)
    size = max(min(counts.shape[0] // MARKS[-1], N_TEXTS), 1)
    n_nights = min(counts.shape[0] // size, MARKS[-1])
    return [counts[size * k : size * (k + 1)] for k in range(n_nights)]


def learn_many(docs, seed):
    """Learn night by night; measure calls, alerts, memory and the file."""
    hdp, calls = HDP(random_state=seed), []
    for night, counts in enumerate(docs, 1):
        with warnings.catch_warnings(action="ignore"):
            _, seconds = common.cpu_seconds(partial(hdp.partial_fit, counts))
        calls.append(seconds)
        if night not in MARKS:
            continue
        listed, seconds = alerts(hdp, max(night - 10, 1)) if night > 1 else ([], 0.0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stream.skbnp"
            _, saving = common.cpu_seconds(partial(skbnp.save, hdp, path))
            size = path.stat().st_size / 2**20
        yield Fit(
            docs,
            hdp,
            sum(calls),
            {
                "nights": night,
                "median call": float(np.median(calls)),
                "longest call": max(calls),
                "alerts": len(listed),
                "s of alerts": seconds,
                "s of saving": saving,
                "file, MB": size,
                "memory, MB": common.resident(),
            },
        )


SEEDS = {"stream": (*CHOICE, *REPORT), "rate": RATES, "seed": range(3)}
CASES = {
    "stream_alerts": Case(
        axes=SEEDS,
        documents=stream,
        learn=learn_new,
        summary=within,
        over="seed",
        shows_rows=False,
        keeps=("stream", "rate", "seed"),
    ),
    "stream_alerts_quiet": Case(
        axes={"stream": (*CHOICE, *REPORT), "seed": range(2)},
        documents=quiet,
        learn=learn_quiet,
        keeps=("stream", "seed"),
    ),
    "stream_alerts_settings": Case(
        axes={
            "stream": ("planted, shared words", "docstrings"),
            "rate": (5, 20),
            "seed": range(2),
        },
        documents=stream,
        learn=learn_settings,
        keeps=("stream", "rate", "seed", "setting"),
    ),
    "stream_300_nights": Case(
        axes={"stream": ("arxiv_large",), "seed": (0,)},
        documents=many_nights,
        learn=learn_many,
        keeps=("stream", "seed", "nights"),
    ),
}

if __name__ == "__main__":
    main(__doc__, CASES)
