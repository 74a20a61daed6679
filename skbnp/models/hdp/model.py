"""The direct-assignment HDP topic model of Bryant and Sudderth (2012), [1].

Symbols of [1]: topic weights beta (K represented topics and, as last entry, all others
together), document concentration alpha, corpus concentration gamma, topic prior eta;
x_k = alpha beta_k; N_jk expected tokens of topic k in document j; S_kw expected tokens
of word w in topic k. f(x, N) = lnG(x + N) - lnG(x).

With theta_jk = x_k + N_jk and lambda_kw = eta + S_kw, which Eqs. (4) and (5) make
optimal, the objective (2) of [1] is

    L = sum_j { lnG(alpha) - lnG(alpha + N_j) + sum_k f(x_k, N_jk) }       assignments
      + sum_k { logB(eta + S_k) - logB(eta) }                              words
      - sum_jwk n_jw r_jwk log r_jwk                                       entropy
      + gamma log beta_{K+1}                                               weights

lnG is convex, so for any tangent point x0 and t = x0 + N > x0

    f(x, N) >= lnG(t) + psi(t) (x - x0) - lnG(x),

with equality at x = x0; likewise -f(alpha, N_j) has a tangent in alpha. So a few sums
per topic stand for all documents, and the lower bound that they give is maximised in
closed form. "Refreshing" moves the tangent points to the present x and alpha.

References
----------
.. [1] Bryant and Sudderth, "Truly Nonparametric Online Variational Inference for
   Hierarchical Dirichlet Processes", NIPS 2012.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Annotated, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.special import gammaln, psi, zeta

from skbnp.components import topics
from skbnp.components.statistics import WordsT, WordStats
from skbnp.components.topics import HIGHEST, LOWEST
from skbnp.components.word_topics import WordTopics, remaining
from skbnp.distributions import expected_tables, inverse_digamma, log_growth
from skbnp.kernels._special import log_gamma
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.utils.ranges import In, Number, Positive, Share, Sized
from skbnp.utils.typing import Array, Ints

#: No topic weight falls below this: x psi(x) loses all digits near 1e-12.
SMALLEST_WEIGHT = 1e-8


@dataclass(frozen=True, slots=True)
class HDPState:
    """Topic weights, concentrations and priors of an HDP; replaced as a whole."""

    # beta; the last entry is the mass of all other topics
    weights: Annotated[Array, Sized("n_weights", least=1e-300, most=1.0)]
    doc_concentration: Positive  # alpha
    corpus_concentration: Positive  # gamma
    topic_word_prior: Positive  # eta
    burstiness: Burstiness | None = None  # None: documents repeat no word
    by_tables: bool = False  # whether topics explain the tables of words, not tokens
    # alpha where documents are predicted
    prediction_concentration: Annotated[float, In(0, 1e100)] = 0.0
    background_weight: Share = 0.0  # of the mean topic in topics that predict

    @property
    def n_components(self) -> int:
        """Number of represented topics, K."""
        return len(self.weights) - 1

    @property
    def topic_weights(self) -> Array:
        """Weights of the represented topics, (K,)."""
        return self.weights[:-1]

    @property
    def doc_prior(self) -> Array:
        """Dirichlet parameters of a document, x_k = alpha beta_k, (K,)."""
        return self.doc_concentration * self.weights[:-1]

    @property
    def for_prediction(self) -> "HDPState":
        """The state with the concentration of prediction, which is no smaller."""
        alpha = max(self.doc_concentration, self.prediction_concentration)
        return replace(self, doc_concentration=alpha)


@dataclass(slots=True)
class TopicStats(WordStats[WordsT]):
    """Additive statistics of topics, of either variational family."""

    def joint(self, x: Array, one: Array, other: Array) -> dict[str, Array | float]:
        """Columns of pairs of topics that merge: sums; `x` are priors of all, (K,)."""
        columns = ((name, getattr(self, name)) for name in self.columns)
        return {name: values[one] + values[other] for name, values in columns}


TopicStatsT = TypeVar("TopicStatsT", bound=TopicStats)


@dataclass(slots=True)
class HDPStats(TopicStats[WordsT]):
    """Additive statistics of the mean-field HDP, of some documents or of a corpus.

    The tangents stand for the documents' part of the bound: with x0 and alpha0 the
    tangent points, t = x0 + N, sums over the documents j with N_jk > 0.
    """

    entropy: Annotated[Array, Sized("n_components")]  # of the responsibilities, nats
    n_docs_using: Annotated[Array, Sized("n_components")]  # documents with N_jk > 0
    weight_slope: Annotated[Array, Sized("n_components")]  # sum psi(t)
    weight_offset: Annotated[Array, Sized("n_components")]  # sum lnG(t) - x0 psi(t)
    length_slope: Number  # sum_j psi(alpha0 + N_j) - psi(alpha0)
    length_offset: Number  # sum_j -f(alpha0, N_j) + alpha0 (its length_slope)
    n_tokens: Number

    columns: ClassVar[tuple[str, ...]] = (
        "entropy",
        "n_docs_using",
        "weight_slope",
        "weight_offset",
    )

    def joint(self, x: Array, one: Array, other: Array) -> dict[str, Array | float]:
        """Columns of the statistics for pairs of topics that merge."""
        tokens, slopes = self.topic_words.tokens, x * self.weight_slope
        parts = self.weight_offset + slopes - self.n_docs_using * gammaln(x)
        entropy = self.entropy[one] + self.entropy[other]
        lost = np.log(2.0) * (tokens[one] + tokens[other])
        return {
            "entropy": np.maximum(entropy - lost, 0.0),
            "n_docs_using": 0.0,
            "weight_slope": 0.0,
            "weight_offset": parts[one] + parts[other],
        }


@dataclass(frozen=True, slots=True)
class HDPModel(topics.WordTopicModel[HDPState, TopicStatsT]):
    """What both families of the HDP share: changes of topics, and priors."""

    learn_concentrations: bool
    learn_topic_prior: bool
    corpus_prior: tuple[float, float] = (1.0, 1.0)
    doc_prior: tuple[float, float] = (1.0, 1.0)

    # -- local ------------------------------------------------------------------------

    def initial_shares(self, state: HDPState) -> Array:
        """Initial share of each topic in the tokens of a document, (K,)."""
        return state.weights[:-1] / (1.0 - state.weights[-1])

    def statistics(
        self,
        state: HDPState,
        topic_words: WordsT,
        entropy: Array,
        doc_topic: sp.csr_array,
        n_tokens: Array,
    ) -> HDPStats[WordsT]:
        """Statistics of documents from their expected counts (Eq. (4)).

        Weights and document concentration of `state` become the tangent points.
        `topic_words` are S, `entropy`, (K,), is that of responsibilities, `doc_topic`,
        (n_docs, K), are N without topics off the support, and `n_tokens` N_j.
        """
        n_components, topic = state.n_components, doc_topic.indices
        at, alpha = state.doc_prior[topic], state.doc_concentration
        theta = at + doc_topic.data
        slope, logs = np.empty_like(theta), np.empty_like(theta)
        log_gamma(theta, logs, slope)
        length_slope = (psi(alpha + n_tokens) - psi(alpha)).sum()

        def sums(values: Array) -> Array:
            return np.bincount(topic, values, n_components).astype(np.float64)

        return HDPStats(
            topic_words=topic_words,
            entropy=entropy,
            n_docs_using=sums(np.ones_like(theta)),
            weight_slope=sums(slope),
            weight_offset=sums(logs - at * slope),
            length_slope=length_slope,
            length_offset=alpha * length_slope - log_growth(alpha, n_tokens).sum(),
            n_tokens=n_tokens.sum(),
        )

    # -- global -----------------------------------------------------------------------

    def blend(self, old: HDPState, new: HDPState, step: float) -> HDPState:
        """Step from old to new state: weights by Eq. (7), logarithms of the rest."""
        if step == 1.0:
            return new

        return replace(
            topics.with_blended_concentrations(old, new, step),
            weights=(1.0 - step) * old.weights + step * new.weights,
        )

    def merge(
        self,
        state: HDPState,
        global_stats: TopicStatsT,
        pairs: Sequence[tuple[int, int]],
    ) -> tuple[HDPState, TopicStatsT]:
        """Merge disjoint pairs of topics (source, target): r, theta, beta and S add up.

        The word counts of `global_stats` are changed in place, as by every change of
        topics.

        lambda = lambda' + lambda'' - eta. Sums over documents do not determine the
        bound of the merged topics, which is bounded from below: (x + y)^(m + n) >=
        x^(m) y^(n) for rising factorials, and merging loses at most log 2 nats of
        entropy per token, and the entropy stays at least 0.
        """
        sources, targets = np.transpose(pairs)
        weights = state.weights.copy()
        weights[targets] += weights[sources]
        columns = {
            name: getattr(global_stats, name).copy() for name in global_stats.columns
        }
        for name, value in global_stats.joint(
            state.doc_prior, sources, targets
        ).items():
            columns[name][targets] = value
        global_stats.topic_words.merge(pairs)
        order = remaining(state.n_components, sources)
        merged = replace(global_stats, **columns)
        return _take_columns(replace(state, weights=weights), merged, order)

    def split(
        self,
        state: HDPState,
        global_stats: TopicStatsT,
        column: int,
        halves: Array,
        shares: Array,
    ) -> tuple[HDPState, TopicStatsT]:
        """Replace topic `column` by two: the first in its place, the second at the end.

        The word counts of `global_stats` are changed in place. Sums over documents stay
        with the first topic, and the entropy too: these documents have no share of the
        second yet.
        """
        weights = np.insert(
            state.weights, state.n_components, shares[1] * state.weights[column]
        )
        weights[column] *= shares[0]
        global_stats.topic_words.part(column, *halves)
        state = replace(state, weights=weights)
        return state, global_stats.with_columns(lambda values: np.append(values, 0.0))

    def remove(
        self, state: HDPState, global_stats: TopicStatsT, gone: Sequence[int]
    ) -> tuple[HDPState, TopicStatsT]:
        """Remove topics, their counts in place; beta_{K+1} takes their weight."""
        weights = state.weights.copy()
        weights[-1] += weights[list(gone)].sum()
        order = remaining(state.n_components, gone)
        global_stats.topic_words.drop(gone)
        return _take_columns(replace(state, weights=weights), global_stats, order)

    def _terms(
        self, state: HDPState, stats: HDPStats, words: Array
    ) -> dict[str, float]:
        """Terms of the bound, tight where the tangents are fresh."""
        alpha, x = state.doc_concentration, state.doc_prior
        assignments = (
            stats.length_offset
            - alpha * stats.length_slope
            + (
                stats.weight_offset
                + x * stats.weight_slope
                - stats.n_docs_using * gammaln(x)
            ).sum()
        )
        terms = {
            "words": words.sum(),
            "assignments": assignments,
            "entropy": stats.entropy.sum(),
            "weights": state.corpus_concentration * np.log(state.weights[-1]),
        }
        if self.learn_concentrations:
            shape, rate = self.doc_prior
            terms["doc_concentration"] = (shape - 1.0) * np.log(alpha) - rate * alpha
        return {name: float(value) for name, value in terms.items()}


@dataclass(frozen=True, slots=True)
class DirectHDP(HDPModel[HDPStats]):
    """The mean-field HDP: statistics, updates of weights and concentrations, bound."""

    def start(self, state: HDPState, topic_words: WordTopics) -> HDPStats[WordTopics]:
        """Totals with the words of the starting topics and without documents."""
        zeros = np.zeros(state.n_components)
        return HDPStats(topic_words, zeros, zeros, zeros, zeros, 0.0, 0.0, 0.0)

    def update(self, state: HDPState, stats: HDPStats, scale: float = 1.0) -> HDPState:
        """Maximise the bound over the topic weights, then over the concentrations.

        `scale` multiplies the statistics of documents, never a prior.
        """
        state = replace(state, weights=update_weights(state, stats, scale))
        if self.learn_concentrations:
            state = replace(
                state,
                doc_concentration=update_doc_concentration(
                    state, stats, scale, self.doc_prior
                ),
                corpus_concentration=update_corpus_concentration(
                    state, self.corpus_prior
                ),
            )
        return state


def _take_columns(
    state: HDPState, global_stats: TopicStatsT, order: Ints
) -> tuple[HDPState, TopicStatsT]:
    """Take columns of the state and of all statistics but the words."""
    weights = state.weights[[*order, -1]]
    return replace(state, weights=weights), global_stats.with_columns(itemgetter(order))


def weights_bound(
    state: HDPState, stats: HDPStats, scale: float, weights: Array
) -> float:
    """Terms of the tangent bound that depend on the topic weights, in nats."""
    x = state.doc_concentration * weights[:-1]
    return float(
        scale * (x * stats.weight_slope - stats.n_docs_using * gammaln(x)).sum()
        + state.corpus_concentration * np.log(weights[-1])
    )


def update_weights(state: HDPState, stats: HDPStats, scale: float = 1.0) -> Array:
    """Maximise the tangent bound over the topic weights, (K + 1,).

    With the multiplier mu of the simplex, x_k = psi^-1((slope_k - mu / alpha) / n_k)
    and beta_{K+1} = gamma / mu: one root in mu. The old weights stay if the floor
    below keeps the bound from rising.
    """
    alpha, gamma = state.doc_concentration, state.corpus_concentration
    n_docs, slope = scale * stats.n_docs_using, scale * stats.weight_slope
    used = n_docs > 0
    if not used.any():
        return state.weights

    def shares(log_mu: float) -> tuple[Array, float]:
        """Weights, and the derivative of their sum in log mu."""
        mu = np.exp(log_mu)
        weights = np.zeros(len(n_docs) + 1)
        level = (slope[used] - mu / alpha) / n_docs[used]
        x = inverse_digamma(level)
        weights[:-1][used] = x / alpha
        weights[-1] = gamma / mu
        change = (mu / alpha**2) * (1.0 / (n_docs[used] * zeta(2.0, x))).sum()
        return weights, -change - weights[-1]

    low = np.log(gamma)  # there the last weight alone is one
    if shares(low)[0].sum() <= 1.0:  # the others are lost in rounding
        return state.weights
    old = max(low, np.log(gamma / state.weights[-1]))
    weights, _ = shares(_root_of_shares(shares, old, low))
    weights = np.maximum(weights / weights.sum(), SMALLEST_WEIGHT)
    weights /= weights.sum()
    rose = weights_bound(state, stats, scale, weights) >= weights_bound(
        state, stats, scale, state.weights
    )
    return weights if rose else state.weights


def _root_of_shares(
    shares: Callable[[float], tuple[Array, float]], start: float, low: float
) -> float:
    """Solve for log mu at which weights sum to one: Newton's method in a bracket."""
    high, at, last = np.inf, start, np.inf
    for _ in range(200):
        weights, slope = shares(at)
        total = weights.sum()
        if total > 1.0:
            low = at
        else:
            high = at
        step = np.inf
        if total > 0.0 and slope < 0.0:  # of the logarithm, which is nearly straight
            step = -total * np.log(total) / slope
        if abs(step) <= 1e-13 * max(1.0, abs(at)):
            return at
        # Halve what is known of the root where Newton's method does not halve its step.
        if high == np.inf:
            step = min(step, 3.0)
        elif not (low < at + step < high and 2.0 * abs(step) <= last):
            step = 0.5 * (low + high) - at
            if at + step in (low, high):
                return at
        last = abs(step) if high < np.inf else np.inf
        at += step
    return at


def _log_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Root of a decreasing function of a positive number, clipped to [low, high]."""
    if function(low) <= 0.0:
        return low
    if function(high) >= 0.0:
        return high
    return float(
        np.exp(brentq(lambda log_x: function(np.exp(log_x)), np.log(low), np.log(high)))
    )


def update_doc_concentration(
    state: HDPState, stats: HDPStats, scale: float, prior: tuple[float, float]
) -> float:
    """Maximise the tangent bound, with a Gamma(shape, rate) prior, over alpha."""
    (shape, rate), beta = prior, state.weights[:-1]
    if stats.n_tokens <= 0:
        return state.doc_concentration

    def slope(alpha: float) -> float:
        """Derivative of the tangent bound and the log prior in alpha."""
        gain = stats.weight_slope - stats.n_docs_using * psi(alpha * beta)
        documents = (beta * gain).sum() - stats.length_slope
        return float(scale * documents + (shape - 1.0) / alpha - rate)

    return _log_root(slope, LOWEST, HIGHEST)


def update_corpus_concentration(state: HDPState, prior: tuple[float, float]) -> float:
    """Maximise p(beta | gamma) p(gamma) over gamma, with a Gamma(shape, rate) prior."""
    shape, rate = prior
    gamma = (state.n_components + shape - 1.0) / (rate - np.log(state.weights[-1]))
    return float(np.clip(gamma, LOWEST, HIGHEST))


# The HDP topic model with topics and proportions integrated out, to zero order.
#
# Symbols: topic weights beta (K represented topics and, as last entry, all others
# together), concentrations alpha of documents and gamma of the corpus, topic prior eta;
# a_k = alpha beta_k; N_jk expected tokens of topic k in document j, S_kw expected
# tokens of word w in topic k. Documents are visited by `infer_collapsed` of the
# kernels, the step of [1] with what [2] does for proportions; weights are those of [3]:
# with tables of the Chinese restaurant franchise that are expected under Poisson counts
# of mean N_jk,
#
#     P_jk = 1 - exp(-N_jk),
#     M_k = sum_j P_jk a_k [psi(a_k + N_jk / P_jk) - psi(a_k)],
#     beta_k = M_k / (M + gamma),    beta_{K+1} = gamma / (M + gamma),    M = sum_k M_k,
#
# and concentrations are posterior means given the auxiliary variables' expected
# logarithms, under Gamma(shape, rate) priors,
#
#     alpha = (shape + M) / (rate + sum_j [psi(alpha + N_j) - psi(alpha)]),
#     gamma = (shape + sum_k [1 - exp(-M_k)]) / (rate + psi(gamma + M) - psi(gamma)).
#
# Nothing here is a bound of the evidence. What can be told is how well each token is
# predicted from all others.
#
# References
# ----------
# .. [1] Asuncion, Welling, Smyth and Teh, "On Smoothing and Inference for Topic
# Models",
#    UAI 2009.
# .. [2] Teh, Kurihara and Welling, "Collapsed Variational Inference for HDP", NIPS
# 2007.
# .. [3] Sato, Kurihara and Nakagawa, "Practical Collapsed Variational Bayes Inference
# for
#    Hierarchical Dirichlet Process", KDD 2012.


#: Rounds of the fixed point of gamma.
N_ROUNDS = 3


@dataclass(slots=True)
class CollapsedStats(TopicStats[WordsT]):
    """Additive statistics of some documents, or of a corpus."""

    tables: Annotated[Array, Sized("n_components")]  # M
    length_slope: Number  # sum_j psi(alpha + N_j) - psi(alpha)
    log_predictive: Number  # of each token given all others, nats
    n_tokens: Number

    columns: ClassVar[tuple[str, ...]] = ("tables",)


def tables_and_slope(
    state: HDPState, doc_topic: sp.csr_array, lengths: Array
) -> tuple[Array, float]:
    """M and the slope of lengths, from expected counts N of documents, (n_docs, K).

    `lengths` are the sums of these: of tokens, or of the tables of words.
    """
    alpha, used = state.doc_concentration, doc_topic.data > 0.0
    tokens, topic = doc_topic.data[used], doc_topic.indices[used]
    tables = expected_tables(state.doc_prior[topic], tokens)
    sums = np.bincount(topic, tables, state.n_components).astype(np.float64)
    return sums, float((psi(alpha + lengths) - psi(alpha)).sum())


@dataclass(frozen=True, slots=True)
class CollapsedHDP(HDPModel[CollapsedStats]):
    """The collapsed HDP: statistics, updates of weights and concentrations."""

    has_bound: ClassVar[bool] = False
    criterion: ClassVar[str] = "log_predictive"

    def start(self, state: HDPState, topic_words: WordTopics) -> CollapsedStats:
        """Totals with the words of the starting topics and without documents."""
        return CollapsedStats(topic_words, np.zeros(state.n_components), 0.0, 0.0, 0.0)

    def update(
        self, state: HDPState, stats: CollapsedStats, scale: float = 1.0
    ) -> HDPState:
        """The state with weights and concentrations updated from expected tables.

        `scale` multiplies the statistics of documents, never a prior.
        """
        tables, gamma = scale * stats.tables, state.corpus_concentration
        n_tables, alpha = tables.sum(), state.doc_concentration
        if n_tables <= 0.0:
            return state
        if self.learn_concentrations:
            shape, rate = self.corpus_prior
            n_dishes = -np.expm1(-tables).sum()
            for _ in range(N_ROUNDS):
                growth = psi(gamma + n_tables) - psi(gamma)
                gamma = np.clip((shape + n_dishes) / (rate + growth), LOWEST, HIGHEST)
            shape, rate = self.doc_prior
            alpha = (shape + n_tables) / (rate + scale * stats.length_slope)
            alpha = np.clip(alpha, LOWEST, HIGHEST)
        weights = np.append(tables, gamma) / (n_tables + gamma)
        weights = np.maximum(weights, SMALLEST_WEIGHT)
        return replace(
            state,
            weights=weights / weights.sum(),
            doc_concentration=float(alpha),
            corpus_concentration=float(gamma),
        )

    def add(
        self, state: HDPState, global_stats: CollapsedStats, words: Array, shares: Array
    ) -> tuple[HDPState, CollapsedStats]:
        """State and totals with new topics that have `shares` of tokens and tables.

        The words of `global_stats` are changed in place. `words`, (n, n_words), are
        topics over the words that have been seen; each sums to one.
        """
        topic_words, tables = global_stats.topic_words, global_stats.tables
        n_tokens, n_tables = topic_words.tokens.sum(), tables.sum()
        left = 1.0 - shares.sum()
        topic_words.decay(left)
        for topic, share in zip(words, shares, strict=True):
            topic_words.append(topic * (share * n_tokens))
        rest = state.weights[-1]
        weights = np.concatenate([left * state.weights[:-1], (1.0 - rest) * shares])
        weights = np.maximum(np.append(weights, rest), SMALLEST_WEIGHT)
        tables = np.concatenate([left * tables, shares * n_tables])
        state = replace(state, weights=weights / weights.sum())
        return state, replace(global_stats, tables=tables)

    def objective(
        self, state: HDPState, global_stats: CollapsedStats
    ) -> dict[str, float]:
        """Log probability of tokens, each given all others, in nats."""
        return {"log_predictive": float(global_stats.log_predictive)}
