"""Slow references for the collapsed document step of the HDP, to zero order.

Everything here is a transcription of formulas: dense float64 arrays and loops. Nothing
is tuned, nothing is shared with the package.

Letters: ``alpha`` and ``gamma`` are the document and the corpus concentration, ``eta``
the topic prior, ``weights`` the corpus weights beta_1 .. beta_{K+1} whose last entry is
the mass of all topics not represented, ``prior`` (K,) = a_k = alpha beta_k,
``topic_words`` S (V, K), ``counts`` (V,) the n_w of one document, ``resp`` its r (V, K)
and ``tokens`` (K,) its N_k = sum_w n_w r_wk. All values are in nats.

References
----------
[VR08] R. Varadhan and C. Roland. Simple and globally convergent methods for
accelerating the convergence of any EM algorithm. Scandinavian Journal of Statistics,
2008.
[AWST09] A. Asuncion, M. Welling, P. Smyth and Y. W. Teh. On smoothing and inference for
topic models. Uncertainty in Artificial Intelligence, 2009.
[TKW07] Y. W. Teh, K. Kurihara and M. Welling. Collapsed variational inference for HDP.
Advances in Neural Information Processing Systems 20, 2007.
[SKN12] I. Sato, K. Kurihara and H. Nakagawa. Practical collapsed variational Bayes
inference for hierarchical Dirichlet process. KDD, 2012.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from reference import restaurant

Array = NDArray[np.float64]

N_START, ACTIVE, ACTIVE_SHARE = 3, 0.5, 0.02
IDLE = 0.1
LEAST = 1e-3
#: Word weights relative to those of the best topic, and weights of topics, never fall
#: below.
WORD_FLOOR, TOPIC_FLOOR = 1e-20, 1e-17
#: Longest extrapolation of a fixed point, in iterations; no topic keeps less.
FURTHEST, KEPT = 8.0, 0.25


def growth_rate(prior: Array, tokens: Array) -> Array:
    """(G - a) / N with G = exp(E[log(a + n)]) of [TKW07], n ~ Poisson(N).

    n is zero with probability 1 - q = exp(-N), and is else taken for its mean N / q:
    log G = (1 - q) log a + q log(a + N / q).
    """
    mean = np.clip(tokens, 1e-20, 1e20)
    some = -np.expm1(-mean)
    rise = np.expm1(some * np.log1p(mean / (some * prior)))
    return np.minimum(prior * rise / mean, 1.0)


@dataclass
class Repeats:
    """Words that a document repeats, see `restaurant`.

    ``rest`` is the prior of all other topics together, ``tables`` E[t | n, m, d].
    """

    discount: float
    concentration: float
    rest: float
    tables: Callable[[float, float, float], float] = restaurant.expected_tables

    def base(self, mass: float, others: float, prior: Array, n_words: int) -> float:
        """p, from the mass of a word in the topics of all other tables."""
        whole = others + prior.sum() + self.rest
        return (mass + self.rest / n_words) / whole

    def seat(self, n: float, t: float, total: float, p: float) -> float:
        """Expected tables of n tokens, t of ``total`` before."""
        if n <= 1.0:
            return t
        mass = (self.concentration + self.discount * (total - t)) * p
        return self.tables(n, mass, self.discount)


@dataclass
class Document:
    """What one document says."""

    topics: NDArray[np.intp]  # in use
    tokens: Array  # (K,) N
    sums: Array  # (V, K) n_w r_wk
    log_predictive: float
    #: Relative distance of the closest of all decisions that a rounding error could
    #: turn: topics in use, idle topics, small responsibilities, the end.
    margin: float
    tables: Array = field(default_factory=lambda: np.zeros(0))  # (V,) t, if repeated
    base: Array = field(default_factory=lambda: np.zeros(0))  # (V,) p


def _distance(values: Array | float, threshold: float) -> float:
    """Relative distance of the value that is closest to a threshold."""
    return float(np.min(np.abs(np.ravel(values) / threshold - 1.0), initial=np.inf))


def start(
    counts: Array,
    phi: Array,
    prior: Array,
    share: Array,
    active: float,
    tol: float,
    n_tokens: float,
    n_start: int = N_START,
) -> tuple[NDArray[np.bool_], Array, float]:
    """Topics in use, those of ``active`` tokens, first responsibilities and margin.

    Of all topics, own counts included.
    """
    words, margin = np.flatnonzero(counts), np.inf
    tokens = counts.sum() * share
    for _ in range(n_start):
        before, tokens = tokens, np.zeros(len(prior))
        for w in words:
            resp = (prior + before) * phi[w]
            tokens += counts[w] * resp / resp.sum()
        change = np.abs(tokens - before).sum()
        if tol > 0.0:
            margin = min(margin, _distance(change, tol * n_tokens))
        if change < tol * n_tokens:
            break
    margin = min(margin, _distance(tokens, active))
    used = tokens >= active
    if not used.any():
        used[np.argmax(tokens)] = True
        first, *others = np.sort(tokens)[::-1]
        margin = min(margin, _distance(others, first))
    r = np.zeros(phi.shape)
    for w in words:
        r[w, used] = ((prior + tokens) * phi[w])[used]
        r[w] /= r[w].sum()
    return used, r, margin


def drop_idle(
    used: NDArray[np.bool_], tokens: Array, idle: float
) -> tuple[NDArray[np.bool_], float]:
    """Topics that stay in use, if more than a fifth have fewer tokens; and margin."""
    busy = used & (tokens >= idle)
    n_idle = used.sum() - busy.sum()
    leave = busy.any() and n_idle > used.sum() // 5
    return (busy if leave else used), _distance(tokens[used], idle)


def extrapolate(first: Array, second: Array, third: Array, furthest: float) -> Array:
    """Scheme S3 of [VR08] from three iterates of N, whose sum stays."""
    r = second - first
    v = third - second - r
    steps, turns = np.square(r).sum(), np.square(v).sum()
    if steps <= turns:
        return third
    is_far = steps >= furthest**2 * turns
    length = furthest if is_far else np.sqrt(steps / turns)
    x = first + 2.0 * length * r + length**2 * v
    x = np.maximum(x, KEPT * third)
    return x * third.sum() / x.sum()


def zero_order_step(
    counts: Array,
    phi: Array,
    prior: Array,
    n_start: int,
    active: float,
    max_iter: int,
    tol: float,
    *,
    takes_out: bool = True,
    repeats: Repeats | None = None,
    furthest: float = FURTHEST,
) -> tuple[Array, float, Array, Array]:
    """N (K,) of a document whose topics ``phi`` (V, K) are fixed, margin, t and p.

    CVB0 of [AWST09]: one token of a word is taken out (none without ``takes_out``). Of
    every two iterations, but the last, N is extrapolated, by ``furthest`` at most.
    """
    n_tokens, words = counts.sum(), np.flatnonzero(counts)
    t = counts.astype(float) if repeats is None else np.minimum(counts, 1.0)
    base = mass = np.zeros(len(counts))
    if n_tokens == 0.0:
        return np.zeros(len(prior)), np.inf, t, base
    phi = np.maximum(phi, WORD_FLOOR * phi.max(axis=1, keepdims=True))
    active = min(active, ACTIVE_SHARE * n_tokens)
    used, r, margin = start(
        t, phi, prior, prior / prior.sum(), active, tol, n_tokens, n_start
    )
    tokens, total = t @ r, t.sum()
    first = tokens
    for n_made in range(max_iter):
        new = np.zeros_like(r)
        for w in words:
            taken = min(counts[w], 1.0)
            others = np.maximum(tokens - takes_out * taken * r[w], 0.0)
            new[w, used] = (np.maximum(prior + others, TOPIC_FLOOR) * phi[w])[used]
            mass[w] = new[w].sum()
            new[w] /= mass[w]
            if repeats is not None:
                p = repeats.base(mass[w], total - t[w], prior, len(counts))
                t[w] = repeats.seat(counts[w], t[w], total, p)
        r = new
        before, tokens, total = tokens, t @ r, t.sum()
        change = np.abs(tokens - before).sum()
        if tol > 0.0:
            margin = min(margin, _distance(change, tol * n_tokens))
        if change < tol * n_tokens:
            break
        if n_made % 2 == 0:
            first = before
        elif n_made + 1 < max_iter:
            first = np.where(used, first, 0.0)
            tokens = extrapolate(first, before, tokens, furthest)
        used, near = drop_idle(used, tokens, IDLE * active)
        margin, r, tokens = min(margin, near), r * used, tokens * used
    if repeats is not None:
        others = t.sum() - t
        pairs = zip(mass, others, strict=True)
        base = np.array([repeats.base(*pair, prior, len(counts)) for pair in pairs])
    tokens = np.where(used, tokens, 0.0)
    return tokens * t.sum() / tokens.sum(), margin, t, base


def document_step(
    counts: Array,
    topic_words: Array,
    eta: float,
    prior: Array,
    rest: float,
    share: Array,
    held: float,
    max_iter: int,
    tol: float,
    *,
    takes_out: bool = True,
    grows: bool = True,
    repeats: Repeats | None = None,
) -> Document:
    """Responsibilities of one document, each token's own counts taken out, [AWST09].

    ``rest`` is the prior of all other topics together, ``share`` (K,) the start N /
    tokens, ``held`` how often ``topic_words`` counts the document. Without
    ``takes_out`` own counts stay where they are, and without ``grows`` the rate is one.
    """
    n_words, n_topics = topic_words.shape
    norm = n_words * eta + topic_words.sum(axis=0)
    phi = (eta + topic_words) / norm
    top = phi.max(axis=1, keepdims=True)
    phi = np.maximum(phi, WORD_FLOOR * top)
    n_tokens, words = counts.sum(), np.flatnonzero(counts)
    if n_tokens == 0.0:
        nothing = np.zeros((n_words, n_topics))
        return Document(np.arange(0), np.zeros(n_topics), nothing, 0.0, np.inf)
    t = counts.astype(float) if repeats is None else np.minimum(counts, 1.0)
    active = min(ACTIVE, ACTIVE_SHARE * n_tokens)
    used, r, margin = start(t, phi, prior, share, active, tol, n_tokens)
    tokens, total = t @ r, t.sum()

    def weight(w: int, r: Array) -> Array:
        """Mean of the word in each topic, without what the document put there."""
        own = held * t[w] * r[w] / norm if takes_out else 0.0
        return np.maximum(np.maximum(phi[w] - own, eta / norm), WORD_FLOOR * top[w])

    def others(w: int, r: Array) -> Array:
        """Tokens of the document but for those of the word."""
        own = t[w] * r[w] if takes_out else 0.0
        return np.maximum(tokens - own, 0.0)

    for _ in range(max_iter):
        rate = growth_rate(prior, tokens) if grows else 1.0
        new = np.zeros_like(r)
        for w in words:
            e = np.maximum(prior + rate * others(w, r), TOPIC_FLOOR)
            new[w, used] = (e * weight(w, r))[used]
            mass = new[w].sum()
            new[w] /= mass
            if repeats is not None:
                p = repeats.base(mass, total - t[w], prior, n_words)
                t[w] = repeats.seat(counts[w], t[w], total, p)
        r = new
        before, tokens, total = tokens, t @ r, t.sum()
        change = np.abs(tokens - before).sum()
        if tol > 0.0:
            margin = min(margin, _distance(change, tol * n_tokens))
        if change < tol * n_tokens:
            break
        used, near = drop_idle(used, tokens, IDLE * active)
        margin, r, tokens = min(margin, near), r * used, tokens * used

    # Small ones to zero, then sums of one; prediction from the others.
    least = min(LEAST, 0.5 / used.sum())
    kept, margin = np.zeros_like(r), min(margin, _distance(r[words], least))
    for w in words:
        kept[w] = np.where(r[w] >= least, r[w], 0.0)
        kept[w] /= kept[w].sum()
    sums = t[:, None] * kept
    tokens = sums.sum(axis=0)
    logs, base = 0.0, np.zeros(n_words)
    for w in words:
        each = np.maximum(prior + others(w, r), TOPIC_FLOOR) * weight(w, r)
        whole = prior.sum() + rest + n_tokens - counts[w]
        if repeats is not None:
            base[w] = repeats.base(each[used].sum(), total - t[w], prior, n_words)
        logs += counts[w] * np.log(each[used].sum() / whole)
    if repeats is not None:
        logs = restaurant.leave_one_out(
            counts[words],
            t[words],
            base[words],
            repeats.discount,
            repeats.concentration,
        ).sum()
    return Document(np.flatnonzero(used), tokens, sums, float(logs), margin, t, base)


# Weights and concentrations, [SKN12] ------------------------------------------------


def expected_tables(doc_topic: Array, prior: Array) -> Array:
    """M_k = sum_j P_jk a_k {psi(a_k + N_jk / P_jk) - psi(a_k)}; (D, K) -> (K,).

    P_jk = 1 - exp(-N_jk) is the probability that document j uses topic k.
    """
    tables = np.zeros(prior.shape)
    for row in doc_topic:
        for topic in np.flatnonzero(row):
            some = -np.expm1(-row[topic])
            a = prior[topic]
            tables[topic] += some * a * (psi(a + row[topic] / some) - psi(a))
    return tables


def length_slope(lengths: Array, alpha: float) -> float:
    """Sum over documents of psi(alpha + N_j) - psi(alpha)."""
    return float(sum(psi(alpha + length) - psi(alpha) for length in lengths))


def update(
    tables: Array,
    slope: float,
    alpha: float,
    gamma: float,
    doc_prior: tuple[float, float],
    corpus_prior: tuple[float, float],
    *,
    learns: bool,
    n_rounds: int = 3,
) -> tuple[Array, float, float]:
    """Weights beta (K + 1,), alpha and gamma from tables and ``length_slope``."""
    n_tables = tables.sum()
    if learns:
        shape, rate = corpus_prior
        n_dishes = sum(1.0 - np.exp(-m) for m in tables)
        for _ in range(n_rounds):
            gamma = (shape + n_dishes) / (rate + psi(gamma + n_tables) - psi(gamma))
        shape, rate = doc_prior
        alpha = (shape + n_tables) / (rate + slope)
    weights = np.append(tables, gamma) / (n_tables + gamma)
    return weights, float(alpha), float(gamma)


# Enumeration ------------------------------------------------------------------------


def exact_responsibilities(
    docs: Sequence[Sequence[int]],
    prior: Array,
    eta: float,
    n_features: int,
    topic_words: Array | None = None,
) -> list[Array]:
    """Exact p(z = k | words) of each token, one (n_tokens, K) array per document.

    All K^tokens assignments are summed over; topics and proportions are integrated
    out: prod_j DirMult(z_j | prior) prod_k DirMult(words of topic k | eta). With
    ``topic_words`` (V, K) topics are Dirichlet(eta + topic_words_k) before the words.
    """
    n_topics = prior.size
    doc_of = np.array([doc for doc, tokens in enumerate(docs) for _ in tokens], int)
    word_of = np.array([word for tokens in docs for word in tokens], int)
    base = np.full((n_features, n_topics), float(eta))
    if topic_words is not None:
        base += topic_words
    states = np.array(list(itertools.product(range(n_topics), repeat=word_of.size)))
    logs = np.zeros(len(states))
    for topic in range(n_topics):
        for doc in range(len(docs)):
            number = (states[:, doc_of == doc] == topic).sum(axis=1)
            logs += gammaln(prior[topic] + number)
        logs -= gammaln(base[:, topic].sum() + (states == topic).sum(axis=1))
        for word in range(n_features):
            number = (states[:, word_of == word] == topic).sum(axis=1)
            logs += gammaln(base[word, topic] + number)
    chance = np.exp(logs - logs.max())
    chance /= chance.sum()
    shares = np.zeros((word_of.size, n_topics))
    for topic in range(n_topics):
        shares[:, topic] = chance @ (states == topic)
    return [shares[doc_of == doc] for doc in range(len(docs))]
