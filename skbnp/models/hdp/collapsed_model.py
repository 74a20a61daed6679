"""The HDP topic model with topics and proportions integrated out, to zero order.

Symbols: topic weights beta (K represented topics and, as last entry, all others
together), concentrations alpha of documents and gamma of the corpus, topic prior eta;
a_k = alpha beta_k; N_jk expected tokens of topic k in document j, S_kw expected tokens
of word w in topic k. Documents are visited by `infer_collapsed` of the kernels, the
step of [1] with what [2] does for proportions; weights are those of [3]: with tables of
the Chinese restaurant franchise that are expected under Poisson counts of mean N_jk,

    P_jk = 1 - exp(-N_jk),
    M_k = sum_j P_jk a_k [psi(a_k + N_jk / P_jk) - psi(a_k)],
    beta_k = M_k / (M + gamma),    beta_{K+1} = gamma / (M + gamma),    M = sum_k M_k,

and concentrations are posterior means given the auxiliary variables' expected
logarithms, under Gamma(shape, rate) priors,

    alpha = (shape + M) / (rate + sum_j [psi(alpha + N_j) - psi(alpha)]),
    gamma = (shape + sum_k [1 - exp(-M_k)]) / (rate + psi(gamma + M) - psi(gamma)).

Nothing here is a bound of the evidence. What can be told is how well each token is
predicted from all others.

References
----------
.. [1] Asuncion, Welling, Smyth and Teh, "On Smoothing and Inference for Topic Models",
   UAI 2009.
.. [2] Teh, Kurihara and Welling, "Collapsed Variational Inference for HDP", NIPS 2007.
.. [3] Sato, Kurihara and Nakagawa, "Practical Collapsed Variational Bayes Inference for
   Hierarchical Dirichlet Process", KDD 2012.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import psi

from skbnp.components.statistics import WordsT
from skbnp.components.topics import HIGHEST, LOWEST
from skbnp.components.word_topics import WordTopics
from skbnp.kernels._special import log_gamma
from skbnp.models.hdp.model import SMALLEST_WEIGHT, HDPModel, HDPState, TopicStats
from skbnp.utils.ranges import Number, Sized
from skbnp.utils.typing import Array

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


@dataclass(frozen=True, slots=True)
class CollapsedHDP(HDPModel[CollapsedStats]):
    """The collapsed HDP: statistics, updates of weights and concentrations."""

    has_bound: ClassVar[bool] = False
    criterion: ClassVar[str] = "log_predictive"

    def collapsed_statistics(
        self,
        state: HDPState,
        topic_words: WordsT,
        doc_topic: sp.csr_array,
        lengths: Array,
        n_tokens: float,
        log_predictive: float,
    ) -> CollapsedStats[WordsT]:
        """Statistics of documents from their expected counts N, (n_docs, K).

        `lengths` are the sums of these: of tokens, or of the tables of words.
        """
        alpha, used = state.doc_concentration, doc_topic.data > 0.0
        tokens, topic = doc_topic.data[used], doc_topic.indices[used]
        at = state.doc_prior[topic]
        some = -np.expm1(-tokens)
        # psi(x) is about -1/x where x is small: psi(x) = psi(x + 1) - 1 / x.
        parameter = np.concatenate([at + tokens / some, at + 1.0])
        digamma = np.empty_like(parameter)
        log_gamma(parameter, np.empty_like(parameter), digamma)
        high, low = np.split(digamma, 2)
        tables = some * (1.0 + at * (high - low))
        return CollapsedStats(
            topic_words=topic_words,
            tables=np.bincount(topic, tables, state.n_components).astype(np.float64),
            length_slope=float((psi(alpha + lengths) - psi(alpha)).sum()),
            log_predictive=log_predictive,
            n_tokens=n_tokens,
        )

    # -- global -----------------------------------------------------------------------

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
