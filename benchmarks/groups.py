"""What labels of documents bring to an HDP: prediction, exposures, streams.

    SKBNP_DATA=... python benchmarks/groups.py PAGE [PAGE ...] [--AXIS VALUE ...]

`sweep.py` has the options.
"""

import warnings
from dataclasses import replace
from functools import lru_cache, partial
from time import perf_counter

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sweep import Case, Fit, main

from skbnp import HDP, GibbsHDP
from skbnp.datasets import load_docstrings, make_bars, make_hdp
from skbnp.inference.executor import Executor
from skbnp.metrics import split_tokens
from skbnp.metrics._held_out import score_completion
from skbnp.models.hdp import groups as module
from skbnp.models.hdp.fold_in import MeanTopics, fold_in, fold_in_posterior, mix
from skbnp.utils.arrays import rows_of
from skbnp.utils.labels import check_groups

#: Shares of tokens that are seen.
SEEN = 0.8, 0.5, 0.2
#: Documents that are drawn of a corpus, and test documents, at most.
MOST, MOST_TEST = 12_000, 1000
#: Weights of group frequencies beside topics, and counts of the corpus in these.
MIXED, SMOOTHED = (0.01, 0.02, 0.05, 0.1, 0.2), (10.0, 100.0, 1000.0)


@lru_cache(maxsize=1)
def labelled(corpus):
    """Counts of a corpus and a label of each document."""
    if corpus == "docstrings":
        data = load_docstrings(remove=("code", "references"))
        options = {"min_df": 5, "token_pattern": r"\b[a-z]{3,}\b"}
        return corpora.counted(data.data, **options), np.asarray(data.target)
    years = np.load(common.data_folder() / f"{corpus}.years.npy")
    return common.load_corpus(corpus), years


def documents(corpus, split, labels="own"):
    """Training and test documents, and their labels, in `truth`."""
    X, groups = labelled(corpus)
    rng = np.random.default_rng(split)
    rows = np.flatnonzero(np.asarray(X.sum(axis=1)).ravel() >= 5)
    rows = rng.permutation(rows)[:MOST]
    n_test = min(len(rows) // 5, MOST_TEST)
    test, train = rows[:n_test], rows[n_test:]
    used = np.asarray((X[train] > 0).sum(axis=0)).ravel() > 0
    own = groups[train]
    if labels == "shuffled":
        own = rng.permutation(own)
    docs = corpora.Documents(X[train][:, used], X[test][:, used])
    return docs._replace(truth=(own, groups[test]))


# Prediction ---------------------------------------------------------------------------


def learn(docs, min_gain):
    """Yield a fit with groups, and what they bring where so many tokens are seen."""
    hdp, (own, others) = HDP(random_state=0, min_gain=min_gain), docs.truth
    with warnings.catch_warnings(action="ignore"):
        _, seconds = common.cpu_seconds(lambda: hdp.fit(docs.train, groups=own))
    groups, posterior = hdp._posterior.groups, hdp._posterior
    more = {"groups": len(groups.n_docs), "kept": groups.are_kept}
    more |= {"judged": groups.gain.mean, "ratio": groups.ratio}
    given = partial(module.doc_priors, groups, posterior)
    known = check_groups(others, docs.test.shape[0])
    none = replace(hdp._predictor(), doc_priors=None)
    for seen in SEEN:
        base = score_completion(none, docs.test, None, seen)
        for name, factors in (("label", known), ("inferred", None)):
            predictor = replace(none, doc_priors=priors_by(given, factors))
            gain = score_completion(predictor, docs.test, None, seen) - base
            more[f"{name} {seen:.0%}"] = gain
        more[f"words {seen:.0%}"] = gain_of_words(hdp, docs, seen)
    if groups.are_kept:
        both = time_ratios(hdp, docs.test, others)
        more["time"], more["time inferred"] = both
    yield Fit(docs, hdp, seconds, more)


def priors_by(given, factors):
    """Return what makes the priors of documents by their labels, for a predictor."""
    return lambda _, X, executor: given(factors, X, executor)


def gain_of_words(hdp, docs, seen):
    """Gain by the word frequencies of a group beside topics, at their best weight."""
    (own, others), posterior = docs.truth, hdp._posterior
    observed, held = split_tokens(docs.test, observed=seen)
    state = posterior.state.for_prediction
    with Executor(None) as executor:
        seated = fold_in_posterior(posterior, observed, executor)
    topics = MeanTopics.of(posterior.global_stats.topic_words, state.topic_word_prior)
    theta = seated.doc_topic.toarray() + state.doc_prior
    rest = state.doc_concentration * state.weights[-1]
    rows, n_words = rows_of(held.indptr), held.shape[1]
    mixed = mix(theta, topics, held) + rest / n_words
    mixed /= (theta.sum(axis=1) + rest)[rows]
    shown, opens = np.zeros(held.nnz), np.ones(held.shape[0])
    if state.burstiness is not None:
        shown, opens = state.burstiness.repeats(observed, seated.tables, held)
    names, codes = np.unique(np.append(own, others), return_inverse=True)
    own, others = codes[: len(own)], codes[len(own) :]
    shape = len(names), len(own)
    of_group = sp.csr_array((np.ones(len(own)), (own, np.arange(len(own)))), shape)
    counts = (of_group @ docs.train).toarray()
    corpus = counts.sum(axis=0) + 0.01
    corpus /= corpus.sum()

    def score(weight, smoothed):
        group = others[rows]
        words = counts[group, held.indices] + smoothed * corpus[held.indices]
        words /= (counts.sum(axis=1) + smoothed)[group]
        p = shown + opens[rows] * ((1.0 - weight) * mixed + weight * words)
        return held.data @ np.log(p) / held.sum()

    best = max(score(weight, smoothed) for weight in MIXED for smoothed in SMOOTHED)
    return best - score(0.0, 1.0)


def time_ratios(hdp, X, labels):
    """Times of `transform` with labels, and without, over that of a fit without groups.

    Medians over turns of each, in seconds of the processor.
    """
    groups, seconds = hdp._posterior.groups, []
    for _ in range(15):
        known, inferred = (
            common.cpu_seconds(lambda g=g: hdp.transform(X, groups=g))[1]
            for g in (labels, None)
        )
        hdp._posterior.groups = None
        alone = transform_seconds(hdp, X)
        hdp._posterior.groups = groups
        seconds.append((known / alone, inferred / alone))
    return np.median(seconds, axis=0).tolist()


def over_splits(rows):
    """Mean over splits, and its standard error for gains."""
    table = []
    by = "corpus", "min_gain", "labels"
    for key in dict.fromkeys(tuple(row[name] for name in by) for row in rows):
        some = [row for row in rows if tuple(row[name] for name in by) == key]
        line = dict(zip(by, key, strict=True)) | {"split": f"{len(some)} splits"}
        for name in ("topics", "groups", "judged", "ratio"):
            line[name] = float(np.mean([row[name] for row in some]))
        line["kept"] = sum(row["kept"] for row in some)
        for what in ("label", "inferred", "words"):
            for seen in SEEN:
                values = [row[f"{what} {seen:.0%}"] for row in some]
                error = np.std(values) / np.sqrt(max(len(values) - 1, 1))
                line[f"{what} {seen:.0%}"] = f"{np.mean(values):+.4f} ± {error:.4f}"
        for name in ("time", "time inferred"):
            times = [row[name] for row in some if name in row]
            line[name] = float(np.median(times)) if times else float("nan")
        table.append(line)
    return table


# Exposures of planted mutations -------------------------------------------------------

N_TYPES, N_SIGNATURES, N_SAMPLES, N_TEST = 8, 10, 400, 400


def mutations(seed, concentration, flattest):
    """Counts of 96 kinds in samples of eight types, and their exposures.

    Exposures are Dirichlet draws of this concentration around those of the type, and
    signatures have Dirichlet parameters from .03 to `flattest`.
    """
    rng = np.random.default_rng(seed)
    topics = signatures(rng, flattest)
    weights = rng.dirichlet(np.full(N_SIGNATURES, 0.4), size=N_TYPES)
    return samples(rng, topics, concentration * weights, N_SAMPLES, N_TEST, (100, 3000))


def signatures(rng, flattest):
    """Words of mutations, from one kind or two of them to many."""
    alphas = np.geomspace(0.03, flattest, N_SIGNATURES)
    return np.array([rng.dirichlet(np.full(96, alpha)) for alpha in alphas])


def samples(rng, topics, priors, n_train, n_test, lengths):
    """Samples to learn from, of log-uniform lengths, and others of 10 and 50."""
    types = rng.integers(len(priors), size=n_train + n_test)
    shares = rng.gamma(priors[types]) + 1e-12
    shares /= shares.sum(axis=1, keepdims=True)
    lengths = np.exp(rng.uniform(*np.log(lengths), n_train)).astype(int)
    train = [
        rng.multinomial(n, row @ topics)
        for n, row in zip(lengths, shares[:n_train], strict=True)
    ]
    test = {
        n: np.array([rng.multinomial(n, p) for p in shares[n_train:] @ topics])
        for n in (10, 50)
    }
    truth = topics, types, shares[n_train:], priors
    return corpora.Documents(sp.csr_array(np.array(train, float)), test, truth)


def learn_exposures(docs, labels):
    """Yield a fit, and the L1 error of exposures without and with the type."""
    topics, types, shares, priors = docs.truth
    own, others = types[:N_SAMPLES], types[N_SAMPLES:]
    if labels == "shuffled":
        own = np.random.default_rng(0).permutation(own)
    hdp = HDP(random_state=0, min_gain=0)
    with warnings.catch_warnings(action="ignore"):
        _, seconds = common.cpu_seconds(lambda: hdp.fit(docs.train, groups=own))
    groups = hdp._posterior.groups
    error, least = errors_of(hdp.topic_word_distr_, topics, shares)
    more = {"kept": groups.are_kept, "least cosine": least}
    for n, X in docs.test.items():
        with_type = hdp.transform(X, groups=others)
        without_type = hdp.transform(X)
        hdp._posterior.groups = None
        more[f"{n}, no groups"] = error(hdp.transform(X))
        hdp._posterior.groups = groups
        more[f"{n}, type inferred"] = error(without_type)
        more[f"{n}, type known"] = error(with_type)
        prior = np.maximum(priors[others], 1e-12)
        with Executor(None) as executor:
            counts = fold_in(topics.T.copy(), prior, sp.csr_array(X * 1.0), executor)
        exact = counts.toarray() + prior
        exact /= exact.sum(axis=1, keepdims=True)
        more[f"{n}, truth"] = float(np.abs(exact - shares).sum(axis=1).mean())
    yield Fit(docs, hdp, seconds, more)


def errors_of(distr, topics, shares):
    """Return the L1 error of exposures by topics, and the least cosine of these."""
    lengths = np.linalg.norm(topics, axis=1)[:, None], np.linalg.norm(distr, axis=1)
    cosines = topics @ distr.T / lengths[0] / lengths[1]
    at, columns = linear_sum_assignment(-cosines)

    def error(inferred):
        matched = np.zeros_like(shares)
        matched[:, at] = inferred[:, columns]
        others = 1.0 - matched.sum(axis=1)
        return float((np.abs(matched - shares).sum(axis=1) + others).mean())

    return error, float(cosines[at, columns].min())


# Groups with signatures of their own --------------------------------------------------

N_OWN, N_COMMON = 2, 2


def exclusive(seed, least, most):
    """Samples of groups that have two signatures of their own, and share two."""
    rng = np.random.default_rng(seed)
    topics = signatures(rng, 0.5)[rng.permutation(N_SIGNATURES)]
    priors = np.zeros(((N_SIGNATURES - N_COMMON) // N_OWN, N_SIGNATURES))
    for g, row in enumerate(priors):
        own = N_COMMON + N_OWN * g + np.arange(N_OWN)
        row[[*range(N_COMMON), *own]] = 5.0 * rng.dirichlet(np.ones(N_COMMON + N_OWN))
    return samples(rng, topics, priors, 250, 250, (least, most))


def learn_exclusive(docs, model, labels):
    """Yield a fit, and errors of exposures with labels and without."""
    topics, types, shares, _ = docs.truth
    n_train = docs.train.shape[0]
    own, others = types[:n_train], types[n_train:]
    if labels == "shuffled":
        own = np.random.default_rng(0).permutation(own)
    hdp = {
        "HDP": HDP(random_state=0, min_gain=0),
        "GibbsHDP": GibbsHDP(
            20, burstiness=False, learn_priors=True, max_iter=1000, random_state=0
        ),
    }[model]
    given = {} if labels == "none" else {"groups": own}
    with warnings.catch_warnings(action="ignore"):
        _, seconds = common.cpu_seconds(lambda: hdp.fit(docs.train, **given))
    error, least = errors_of(hdp.topic_word_distr_, topics, shares)
    more = {"least cosine": least, "a": getattr(hdp, "group_concentration_", np.nan)}
    for n, X in docs.test.items():
        known = error(hdp.transform(X, groups=others)) if given else np.nan
        more[f"{n}, group known"] = known
        more[f"{n}, not given"] = error(hdp.transform(X))
    yield Fit(docs, hdp, seconds, more)


def over_halves(rows):
    """Mean over the seeds of each half, and the standard error of exposures."""
    table, by = [], ("least", "most", "model", "labels")
    for key in dict.fromkeys(tuple(row[name] for name in by) for row in rows):
        of_key = [row for row in rows if tuple(row[name] for name in by) == key]
        for half in (range(10), range(10, 20)):
            some = [row for row in of_key if row["seed"] in half]
            if not some:
                continue
            seeds = f"{some[0]['seed']} to {some[-1]['seed']}"
            line = dict(zip(by, key, strict=True)) | {"seed": seeds}
            for name in ("topics", "least cosine", "a"):
                line[name] = float(np.mean([row[name] for row in some]))
            for name in (name for name in some[0] if "," in name):
                values = [row[name] for row in some]
                error = np.std(values) / np.sqrt(max(len(values) - 1, 1))
                line[name] = f"{np.mean(values):.3f} ± {error:.3f}"
                if np.isnan(values).any():
                    line[name] = float("nan")
            line["CPU s"] = float(np.mean([row["CPU s"] for row in some]))
            table.append(line)
    return table


# Streams ------------------------------------------------------------------------------


#: Decays of the weights of earlier documents.
DECAYS = 0.25, 0.5, 1.0


def learn_streams(docs, order, chunk):
    """Yield fits to a third, then to chunks of others, by decays of earlier ones."""
    own, others = docs.truth
    n_fit = docs.train.shape[0] // 3
    rest = np.arange(n_fit, docs.train.shape[0])
    if order == "by label":
        labels = np.unique(own)
        turns = np.random.default_rng(0).permutation(len(labels))
        rest = rest[
            np.argsort(turns[np.searchsorted(labels, own[rest])], kind="stable")
        ]
    known = check_groups(others, docs.test.shape[0])
    hdp, groups = HDP(random_state=0), dict.fromkeys(DECAYS)
    chunks = [np.arange(n_fit), *np.split(rest, range(chunk, len(rest), chunk))]
    begin = perf_counter()
    for rows in chunks:
        X, labels = docs.train[rows], check_groups(own[rows], len(rows))
        with warnings.catch_warnings(action="ignore"), Executor(None) as executor:
            (hdp.fit if rows is chunks[0] else hdp.partial_fit)(X)
            some = module.LabelledDocuments.of(hdp._posterior, X, executor)
            for decay, so_far in groups.items():
                given = so_far, hdp._posterior, labels, some, decay
                groups[decay] = module.learn_groups(*given, executor)
    seconds, none = perf_counter() - begin, hdp._predictor()
    for decay, learned in groups.items():
        more = {"way": f"decay {decay:g}", "kept": learned.are_kept}
        more["judged"] = learned.gain.mean
        given = partial(module.doc_priors, learned, hdp._posterior)
        priors = priors_by(given, known)
        for seen in SEEN:
            base = score_completion(none, docs.test, None, seen)
            predictor = replace(none, doc_priors=priors)
            gain = score_completion(predictor, docs.test, None, seen) - base
            more[f"label {seen:.0%}"] = gain
        yield Fit(docs, hdp, seconds, more)


# Kinds of documents without labels ----------------------------------------------------


def without_kinds(corpus, split):
    """Documents of a corpus, or drawn so that they have no kinds."""
    if corpus not in ("bars", "planted", "no topics"):
        return documents(corpus, split)
    rng = np.random.default_rng(split)
    if corpus == "bars":
        X = make_bars(1000, random_state=split).data
    elif corpus == "planted":
        X = make_hdp(1000, random_state=split).data
    else:  # words by their frequencies
        real = common.load_corpus("nips_abstracts")
        words = np.asarray(real.sum(axis=0)).ravel()
        lengths = np.asarray(real.sum(axis=1)).ravel().astype(int)
        X = np.array([rng.multinomial(n, words / words.sum()) for n in lengths[:1000]])
    X = sp.csr_array(X, dtype=np.float64)
    return corpora.Documents(X[:800], X[800:], None)


def learn_kinds(docs, min_gain):
    """Yield what kinds bring, with the topics of one fit."""
    hdp = HDP(random_state=0, min_gain=min_gain)
    with warnings.catch_warnings(action="ignore"):
        _, seconds = common.cpu_seconds(lambda: hdp.fit(docs.train))
    posterior, none = hdp._posterior, hdp._predictor()
    for n_kinds in (10, 20, 40):
        with Executor(None) as executor:
            some = module.LabelledDocuments.of(posterior, docs.train, executor)
            given = n_kinds, posterior, some, executor
            groups, more_seconds = common.cpu_seconds(
                partial(module.learn_kinds, *given)
            )
        priors = partial(module.doc_priors, groups, posterior)
        predictor = replace(none, doc_priors=priors_by(priors, None))
        more = {"kinds": n_kinds, "kept": groups.are_kept, "judged": groups.gain.mean}
        more |= {"error": groups.gain.error, "ratio": groups.ratio}
        for seen in SEEN:
            base = score_completion(none, docs.test, None, seen)
            gain = score_completion(predictor, docs.test, None, seen) - base
            more[f"gain {seen:.0%}"] = gain
        more["kinds CPU s"] = more_seconds
        times = []
        for _ in range(3):
            times.append(transform_seconds(hdp, docs.test))
            posterior.groups = replace(groups, judged=ALWAYS)
            times[-1] = transform_seconds(hdp, docs.test) / times[-1]
            posterior.groups = None
        yield Fit(docs, hdp, seconds, more | {"time": float(np.median(times))})


#: Judged so, groups are kept.
ALWAYS = np.array([2.0, 2.0, 2.0, 2.0, 2.0, 2.0])


def transform_seconds(hdp, X):
    """Seconds of a processor that `transform` takes."""
    return common.cpu_seconds(lambda: hdp.transform(X))[1]


CASES = {
    "groups": Case(
        axes={
            "corpus, min_gain": (
                ("docstrings", 0.005),
                ("docstrings", 0.0),
                ("nips_abstracts", 0.005),
                ("sotu", 0.005),
                ("sotu", 0.0),
                ("arxiv_large", 0.005),
            ),
            "labels": ("own", "shuffled"),
            "split": range(5),
        },
        documents=documents,
        learn=learn,
        summary=over_splits,
        over="split",
        keeps=("corpus", "min_gain", "labels", "split"),
    ),
    "groups_planted": Case(
        axes={
            "concentration": (5.0, 20.0),
            "flattest": (1.0, 0.2),
            "labels": ("own", "shuffled"),
            "seed": (0, 1, 2, 10, 11, 12, 13, 14),
        },
        documents=mutations,
        learn=learn_exposures,
        keeps=("concentration", "flattest", "labels", "seed"),
    ),
    "groups_exclusive": Case(
        axes={
            "least, most": ((100, 3000), (20, 100)),
            "seed": (*range(4), *range(10, 14)),
            "model": ("GibbsHDP", "HDP"),
            "labels": ("own", "none", "shuffled"),
        },
        documents=exclusive,
        learn=learn_exclusive,
        summary=over_halves,
        over="seed",
        keeps=("least", "most", "seed", "model", "labels"),
    ),
    "groups_kinds": Case(
        axes={
            "corpus, min_gain": (
                ("docstrings", 0.005),
                ("docstrings", 0.0),
                ("nips_abstracts", 0.005),
                ("sotu", 0.005),
                ("arxiv2000", 0.005),
                ("bars", 0.005),
                ("planted", 0.005),
                ("no topics", 0.005),
            ),
            "split": range(6),
        },
        documents=without_kinds,
        learn=learn_kinds,
        keeps=("corpus", "min_gain", "split", "kinds"),
    ),
    "groups_streams": Case(
        axes={
            "corpus": ("docstrings", "nips_abstracts", "sotu", "arxiv_large"),
            "order": ("by label", "mixed"),
            "chunk": (100,),
            "split": (0, 1),
        },
        documents=documents,
        learn=learn_streams,
        keeps=("corpus", "order", "chunk", "split", "way"),
    ),
}


if __name__ == "__main__":
    main(__doc__, CASES)
