"""The HDP with sticks in the corpus and in each document: Wang, Paisley and Blei [1].

Symbols of [1]: corpus sticks beta'_k ~ Beta(1, gamma) of K topics, q Beta(u_k, v_k); in
each document T tables with sticks pi'_jt ~ Beta(1, alpha), q Beta(a_jt, b_jt), table t
serves topic k with probability phi_jtk (varphi in [1]); a word w sits at table t with
probability zeta_jwt. m_k = sum_jt phi_jtk expected tables, S_kw = sum n_jw zeta_jwt
phi_jtk expected tokens. The last stick of the corpus and of a document is one.

With a_jt = 1 + n_jt, b_jt = alpha0 + n_j>t, n_jt = sum_w n_jw zeta_jwt (Eqs. (15) and
(16)), alpha0 the value at the visit, and u, v, lambda at their optimum (Eqs. (19) to
(21)), the bound is

    L = sum_k { logB(eta + S_k) - logB(eta) }                                 words
      + sum_k m_k E log beta_k - sum_jtk phi_jtk log phi_jtk                  tables
      + sum_jt<T { log alpha + (alpha - alpha0) E log(1 - pi'_jt)
                   + lnB(a_jt, b_jt) }                                     assignments
      - sum_jwt n_jw zeta_jwt log zeta_jwt                                  entropy
      + sum_k<K { log gamma + (gamma - 1) E log(1 - beta'_k) + H(beta'_k) }   weights

H the entropy of Beta(u_k, v_k). Four sums over documents and two arrays by topic hold
all that it needs. Topics take sticks in the order of their expected tables (which is
best, but for the last stick); their columns stay where they are.

References
----------
.. [1] Wang, Paisley and Blei, "Online Variational Inference for the Hierarchical
   Dirichlet Process", AISTATS 2011.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp, psi, xlogy

from skbnp.components import topics
from skbnp.components.statistics import WordsT, WordStats
from skbnp.components.topics import HIGHEST, LOWEST
from skbnp.components.word_topics import Weighting, WordTopics, remaining
from skbnp.distributions.stick_breaking import log_weights, mean_weights
from skbnp.kernels._special import log_gamma
from skbnp.kernels._tables import log_weights as fill_logs
from skbnp.utils.ranges import Number, Positive, Sized
from skbnp.utils.typing import Array, Ints, Ints32


@dataclass(frozen=True, slots=True)
class StickState:
    """Expected tables of topics and concentrations; replaced as a whole."""

    # m, expected tables of each topic
    tables: Annotated[Array, Sized("n_components", least=0)]
    doc_concentration: Positive  # alpha
    corpus_concentration: Positive  # gamma
    topic_word_prior: Positive  # eta
    last: int = -1  # column of the topic that the last stick is kept for; -1: none

    @property
    def n_components(self) -> int:
        """Number of topics, K."""
        return len(self.tables)

    @property
    def order(self) -> Ints:
        """Columns of the topics, most tables first, (K,)."""
        return np.argsort(-self.tables, kind="stable")

    @property
    def by_stick(self) -> Ints:
        """Columns of the topics by the sticks that they take, (K,)."""
        order = self.order
        if self.last >= 0:
            order = np.append(order[order != self.last], self.last)
        return order

    def sticks(self) -> tuple[Array, Array]:
        """Parameters of the sticks in their order, (K - 1,) each: Eqs. (19), (20)."""
        tables_of_sticks = self.tables[self.by_stick]
        behind = np.cumsum(tables_of_sticks[::-1])[::-1][1:]
        return 1.0 + tables_of_sticks[:-1], self.corpus_concentration + behind

    @property
    def topic_weights(self) -> Array:
        """E[beta_k], products of means, (K,)."""
        return self._by_column(mean_weights(*self.sticks()))

    @property
    def log_weights(self) -> Array:
        """E[log beta_k], (K,)."""
        return self._by_column(log_weights(*self.sticks()))

    @property
    def doc_prior(self) -> Array:
        """Dirichlet parameters of a document in prediction, alpha E[beta_k], (K,)."""
        # Far down the sticks weights leave the range in which psi means something.
        return self.doc_concentration * np.maximum(self.topic_weights, 1e-12)

    def _by_column(self, values: Array) -> Array:
        """Return values of sticks in the order of topic columns, (K,)."""
        placed = np.empty_like(values)
        placed[self.by_stick] = values
        return placed

    def with_best_last_stick(self) -> "StickState":
        """Give the last stick to the topic of fewest tables, if the bound rises.

        For all other sticks the order of tables is optimal. The last stick has all
        remaining mass, and with a concentration above one another topic may gain more
        by it.
        """
        if self.last < 0 or self.corpus_concentration <= 1.0:
            return replace(self, last=-1)
        fewest = replace(self, last=-1)
        is_better = betaln(*fewest.sticks()).sum() >= betaln(*self.sticks()).sum()
        return fewest if is_better else self

    def with_last_stick(self) -> "StickState":
        """Record which topic has the last stick, before tables change."""
        return replace(self, last=int(self.by_stick[-1]))


@dataclass(slots=True)
class StickStats(WordStats[WordsT]):
    """Additive statistics of some documents, or of a corpus."""

    tables: Annotated[Array, Sized("n_components")]  # m
    table_entropy: Number  # - sum phi log phi, nats
    entropy: Number  # - sum n zeta log zeta, nats
    n_sticks: Number  # but the last, of documents with tokens
    log_left: Number  # sum_jt<T E log(1 - pi'_jt)
    stick_offset: Number  # sum_jt<T lnB(a_jt, b_jt) - alpha0 E log(1 - pi'_jt)
    n_tokens: Number

    columns: ClassVar[tuple[str, ...]] = ("tables",)


@dataclass(frozen=True, slots=True)
class StickHDP(topics.WordTopicModel[StickState, StickStats]):
    """Model of the stick-breaking HDP: statistics, updates of sticks, bound."""

    n_tables: int  # T
    learn_concentrations: bool
    learn_topic_prior: bool
    corpus_prior: tuple[float, float] = (1.0, 1.0)
    doc_prior: tuple[float, float] = (1.0, 1.0)

    # -- local ------------------------------------------------------------------------

    def log_word_weights(
        self,
        state: StickState,
        topic_words: WordTopics,
        words: Ints,
        weighting: Weighting,
        *,
        run: Callable[..., Iterable[None]] = map,
    ) -> NDArray[np.float32]:
        """Logarithms of the weights of words in topics, not clamped, (n_words, K)."""
        eta = max(state.topic_word_prior, topics.SMALLEST_PRIOR)
        norm = topics.word_norm(topic_words, eta, weighting)
        norm = np.log(norm) if weighting is Weighting.MEAN else norm
        return topic_words.weights(
            words, norm, eta, weighting, run=run, fill_rows=fill_logs
        )

    def cold_share(self, state: StickState) -> Array:
        """Initial share of each topic in the tokens of a document, (K,)."""
        return state.topic_weights

    def statistics(
        self,
        state: StickState,
        topic_words: WordsT,
        doc_tables: Array,
        n_used: int,
        served: tuple[Ints32, Array],
        entropy: float,
    ) -> StickStats[WordsT]:
        """Statistics of documents with tokens, from their local step under `state`.

        `topic_words` are their S; `doc_tables`, (n_docs, T), are n_jt, of which
        `n_used` are in use; `served` are topics and phi of these, entry by entry;
        `entropy` is that of zeta, every token counted, in nats.
        """
        alpha, (topic, phi) = state.doc_concentration, served
        log_beta = state.log_weights
        # A table that is not in use serves whatever the corpus does.
        n_idle = doc_tables.size - n_used
        log_prior = log_beta - logsumexp(log_beta)
        prior = np.exp(log_prior)
        behind = np.cumsum(doc_tables[:, ::-1], axis=1)[:, -2::-1]
        a, b = 1.0 + doc_tables[:, :-1], alpha + behind
        logs, psis = np.empty((3, a.size)), np.empty((3, a.size))
        for row, x in enumerate((a, b, a + b)):
            log_gamma(x.ravel(), logs[row], psis[row])
        log_left = (psis[1] - psis[2]).sum()
        return StickStats(
            topic_words=topic_words,
            tables=np.bincount(topic, phi, len(prior)) + n_idle * prior,
            table_entropy=-(phi * np.log(phi)).sum() - n_idle * (prior @ log_prior),
            entropy=entropy,
            n_sticks=float(a.size),
            log_left=log_left,
            stick_offset=(logs[0] + logs[1] - logs[2]).sum() - alpha * log_left,
            n_tokens=doc_tables.sum(),
        )

    # -- global -----------------------------------------------------------------------

    def start(self, state: StickState, topic_words: WordTopics) -> StickStats:
        """Totals with the words of the starting topics and without documents."""
        tables = state.tables.copy()
        return StickStats(topic_words, tables, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def update(
        self, state: StickState, stats: StickStats, scale: float = 1.0
    ) -> StickState:
        """Maximise the bound over the corpus sticks, then over the concentrations.

        `scale` multiplies the statistics of documents, never a prior.
        """
        state = replace(
            state.with_last_stick(), tables=scale * stats.tables
        ).with_best_last_stick()
        if not self.learn_concentrations:
            return state
        gamma, alpha = state.corpus_concentration, state.doc_concentration
        if state.n_components > 1:
            (shape, rate), (u, v) = self.corpus_prior, state.sticks()
            left = (psi(v) - psi(u + v)).sum()
            gamma = _mode(len(u) + shape - 1.0, rate - left)
        if stats.n_sticks > 0:
            shape, rate = self.doc_prior
            count = scale * stats.n_sticks + shape - 1.0
            alpha = _mode(count, rate - scale * stats.log_left)
        return replace(state, corpus_concentration=gamma, doc_concentration=alpha)

    def blend(self, old: StickState, new: StickState, step: float) -> StickState:
        """Step from old to new: tables by Eqs. (26), (27), logs of concentrations."""
        if step == 1.0:
            return new

        blended = replace(
            topics.with_blended_concentrations(old, new, step),
            tables=(1.0 - step) * old.tables + step * new.tables,
            last=old.with_last_stick().last,
        )
        return blended.with_best_last_stick()

    def merged(
        self, state: StickState, stats: StickStats, pairs: Sequence[tuple[int, int]]
    ) -> tuple[StickState, StickStats]:
        """Merge disjoint pairs of topics (source, target) but for their words.

        The tables' entropy is bounded from below: h is concave, so that tables of
        masses phi' and phi'' of two topics lose at most M h(m' / M) nats, m' the sum of
        phi', M of both, and h(p) = -p log p - (1 - p) log(1 - p).
        """
        sources, targets = np.transpose(pairs)
        order = remaining(state.n_components, sources)
        one, other = stats.tables[sources], stats.tables[targets]
        lost = float((xlogy(one + other, one + other) - xlogy(one, one)).sum())
        entropy = max(stats.table_entropy - lost + xlogy(other, other).sum(), 0.0)
        tables, of_sticks = stats.tables.copy(), state.tables.copy()
        tables[targets] += tables[sources]
        of_sticks[targets] += of_sticks[sources]
        stats = replace(stats, tables=tables[order], table_entropy=float(entropy))
        return replace(state, tables=of_sticks[order], last=-1), stats

    def merge(
        self,
        state: StickState,
        global_stats: StickStats,
        pairs: Sequence[tuple[int, int]],
    ) -> tuple[StickState, StickStats]:
        """Merge pairs of topics (source, target); word counts change in place."""
        global_stats.topic_words.merge(pairs)
        return self.merged(state, global_stats, pairs)

    def merge_gains(
        self,
        state: StickState,
        global_stats: StickStats,
        pairs: Sequence[tuple[int, int]],
    ) -> Array:
        """Rise of the bound, at least, by the merge of each pair alone, nats."""
        eta, words = state.topic_word_prior, global_stats.topic_words
        counts, (sources, targets) = words.seen_counts(), np.transpose(pairs)
        joined = WordTopics(counts[:, sources] + counts[:, targets], words.seen)
        alone = topics.log_marginal(words, eta)
        gains = topics.log_marginal(joined, eta) - alone[sources] - alone[targets]
        none = np.zeros(0)
        before = sum(self._terms(state, global_stats, none).values())
        for place, pair in enumerate(pairs):
            after = self._terms(*self.merged(state, global_stats, [pair]), none)
            gains[place] += sum(after.values()) - before
        return gains

    def remove(
        self, state: StickState, global_stats: StickStats, gone: Sequence[int]
    ) -> tuple[StickState, StickStats]:
        """Remove topics, their words in place; sums keep the share of tokens left."""
        before = global_stats.topic_words.tokens.sum()
        global_stats.topic_words.drop(gone)
        share = global_stats.topic_words.tokens.sum() / before if before > 0.0 else 1.0
        sums = {item.name for item in fields(StickStats)} - {"topic_words", "tables"}
        scaled = {name: share * getattr(global_stats, name) for name in sums}
        global_stats = replace(global_stats, **scaled)
        return _columns(state, global_stats, remaining(state.n_components, gone))

    def _terms(
        self, state: StickState, stats: StickStats, words: Array
    ) -> dict[str, float]:
        """Terms of the bound by name, in nats."""
        alpha, gamma = state.doc_concentration, state.corpus_concentration
        u, v = state.sticks()
        whole = psi(u + v)
        taken, left = psi(u) - whole, psi(v) - whole
        entropy = betaln(u, v) - (u - 1.0) * taken - (v - 1.0) * left
        sticks = np.log(gamma) + (gamma - 1.0) * left + entropy
        terms = {
            "words": words.sum(),
            "tables": stats.tables @ state.log_weights + stats.table_entropy,
            "assignments": stats.n_sticks * np.log(alpha)
            + alpha * stats.log_left
            + stats.stick_offset,
            "entropy": stats.entropy,
            "weights": sticks.sum(),
        }
        if self.learn_concentrations:
            for name, prior in (
                ("doc_concentration", self.doc_prior),
                ("corpus_concentration", self.corpus_prior),
            ):
                (shape, rate), value = prior, getattr(state, name)
                terms[name] = (shape - 1.0) * np.log(value) - rate * value
        return {name: float(value) for name, value in terms.items()}


def _columns(
    state: StickState, global_stats: StickStats, order: Ints
) -> tuple[StickState, StickStats]:
    """Take columns of the state and of all statistics but the words."""
    state = replace(state, tables=state.tables[order], last=-1)
    return state, global_stats.with_columns(itemgetter(order))


def _mode(count: float, rate: float) -> float:
    """Maximum of count log x - rate x over x, within the range of concentrations."""
    return float(np.clip(count / rate, LOWEST, HIGHEST))
