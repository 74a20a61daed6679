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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import (
    betaln,
    expit,
    gammaln,
    logit,
    logsumexp,
    polygamma,
    psi,
    xlogy,
)

from skbnp.components import topics
from skbnp.components.statistics import WordsT, WordStats
from skbnp.components.topics import HIGHEST, LOWEST
from skbnp.components.word_topics import Weighting, WordRows, WordTopics, remaining
from skbnp.distributions import log_weights, mean_weights
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor, commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.protocols import Collected, LocalStop, Moves, StepInput
from skbnp.kernels._special import log, log_gamma
from skbnp.kernels._tables import infer_tables, table_sums
from skbnp.kernels._tables import log_weights as fill_logs
from skbnp.rows.batch import Batch, Block, joined, joined_limits, sum_word_ranges
from skbnp.utils.arrays import rows_of
from skbnp.utils.matching import best_disjoint, cosines
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

    def initial_shares(self, state: StickState) -> Array:
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
        scaled = {name: share * value for name, value in global_stats.sums.items()}
        scaled["tables"] = global_stats.tables
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


# The local step of the HDP with sticks in documents: blocks in, statistics out.


#: Stored counts whose seats are held at a time.
PART_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of some documents and their topics, as `infer_tables` returns them."""

    limits: Ints32  # (n_docs + 1,) of the documents in `tokens`
    tokens: Array  # (n_used,) n_jt
    served: Ints  # (n_used + 1,) limits of the tables in the next two
    topics: Ints32
    phi: Array
    zeta: Array  # word by word of each document, for each of its tables

    @classmethod
    def joined(cls, parts: list["Tables"]) -> "Tables":
        """Concatenate the tables of several blocks."""
        return cls(
            joined_limits([part.limits for part in parts]).astype(np.int32),
            joined(parts, "tokens"),
            joined_limits([part.served for part in parts]),
            joined(parts, "topics", np.int32),
            joined(parts, "phi"),
            joined(parts, "zeta"),
        )

    def of_documents(self, rows: slice) -> "Tables":
        """Return the tables of adjacent documents, without zeta."""
        limits = self.limits[rows.start : rows.stop + 1]
        tables = slice(limits[0], limits[-1])
        served = self.served[limits[0] : limits[-1] + 1]
        entries = slice(served[0], served[-1])
        return Tables(
            limits - limits[0],
            self.tokens[tables],
            served - served[0],
            self.topics[entries],
            self.phi[entries],
            np.zeros(0),
        )

    def with_columns(self, columns: Ints) -> "Tables":
        """Return tables whose topic k is in column `columns[k]`; equal ones add up."""
        served = sp.csr_array(
            (self.phi, columns[self.topics], self.served),
            shape=(len(self.tokens), columns.max() + 1),
            copy=True,
        )
        served.sum_duplicates()
        topics = served.indices.astype(np.int32)
        limits = served.indptr.astype(np.intp)
        return replace(self, served=limits, topics=topics, phi=served.data)

    def by_document(self, n_tables: int) -> Array:
        """Expected tokens of tables n_jt, (n_docs, T)."""
        rows, values = rows_of(self.limits), np.zeros((len(self.limits) - 1, n_tables))
        values[rows, np.arange(len(rows)) - self.limits[rows]] = self.tokens
        return values


@dataclass(frozen=True, slots=True)
class TableStep:
    """What all documents of a batch read in the local step, and its stopping rule."""

    logs: NDArray[np.float32]  # (n_words, stride) of the batch, see `log_weights`
    log_beta: Array  # (K,)
    concentration: float
    n_tables: int
    remembered: Tables | None  # to start from
    stop: LocalStop

    @classmethod
    def prepare(cls, given: StepInput) -> "TableStep":
        """Prepare the local step of a batch from the globals of a posterior."""
        posterior, executor = given.posterior, given.executor
        state, weighting = posterior.state, given.visit.weighting
        topic_words = posterior.global_stats.topic_words
        eta = max(state.topic_word_prior, topics.SMALLEST_PRIOR)
        norm = topics.word_norm(topic_words, eta, weighting)
        norm = np.log(norm) if weighting is Weighting.MEAN else norm
        of = given.batch.words, norm, eta, weighting
        return cls(
            logs=topic_words.weights(*of, run=executor.map_here, fill_rows=fill_logs),
            log_beta=state.log_weights,
            concentration=state.doc_concentration,
            n_tables=posterior.model.n_tables,
            remembered=given.to_start_from,
            stop=given.stop,
        )

    def collect(self, given: StepInput) -> Collected:
        """Run the local step; return statistics and document lengths."""
        posterior, batch, executor = given.posterior, given.batch, given.executor
        shape = (len(batch.words), len(self.log_beta))
        sums, entropy, result = sp.csr_array(shape), 0.0, list[Tables]()
        for part in batch.parts(PART_SIZE):
            first = len(result)
            result += self.visit(part.blocks, executor)
            tables = Tables.joined(result[first:])
            entropy += _entropy(part, tables)
            sums = sums + _sum_words(part, tables, shape[1], executor)
            result[first:] = [replace(one, zeta=np.zeros(0)) for one in result[first:]]
        tables = Tables.joined(result)
        stats = posterior.model.statistics(
            posterior.state,
            WordRows(batch.words, sums),
            tables.by_document(self.n_tables)[batch.n_tokens > 0.0],
            len(tables.tokens),
            (tables.topics, tables.phi),
            entropy,
        )
        return Collected(stats, batch.n_tokens, [], cache=tables)

    def visit(self, blocks: list[Block], executor: Executor) -> Iterator[Tables]:
        """Run the local step block by block."""
        starts: list[Tables | None] = [None] * len(blocks)
        if self.remembered is not None:
            for place, block in enumerate(blocks):
                start = self.remembered.of_documents(block.rows)
                if np.diff(start.limits).max() <= len(self.log_beta):
                    starts[place] = start  # no document has more tables than topics
        # Another process needs the memory of its block alone.
        step = replace(self, remembered=None)
        return executor.map(step._run, list(zip(blocks, starts, strict=True)))

    def _run(self, work: tuple[Block, Tables | None]) -> Tables:
        """Run the local step of one block, from its tables of the pass before."""
        block, start = work
        parts = "limits", "tokens", "served", "topics", "phi"
        first = None if start is None else tuple(getattr(start, n) for n in parts)
        return Tables(
            *infer_tables(
                *block.arrays,
                self.logs,
                self.log_beta,
                self.concentration,
                self.n_tables,
                first,
                *self.stop,
            )
        )


def _entropy(batch: Batch, tables: Tables) -> float:
    """Entropy of zeta over all tokens, in nats."""
    n_used = np.diff(tables.limits)[rows_of(batch.indptr)]
    logs = np.empty_like(tables.zeta)
    log(tables.zeta, logs)
    # A product of vectors would depend on the threads of BLAS.
    return -float((np.repeat(batch.counts, n_used) * tables.zeta * logs).sum())


def _sum_words(
    batch: Batch, tables: Tables, n_topics: int, executor: Executor
) -> sp.csr_array:
    """Sum n zeta phi over documents, (n_words, K)."""
    by_word, n_used = batch.by_word(), np.diff(tables.limits)[rows_of(batch.indptr)]
    places = np.cumsum(n_used) - n_used
    return sum_word_ranges(
        table_sums,
        by_word,
        by_word.indices.astype(np.int32),
        batch.counts[by_word.data],
        places[by_word.data].astype(np.intp),
        tables.zeta,
        tables.limits,
        tables.served,
        tables.topics,
        tables.phi,
        n_topics=n_topics,
        n_ranges=len(batch.blocks),
        run=executor.map_all,
    )[0]


# Merges of topics of the HDP with sticks, where these raise the bound of a corpus.
#
# Batch learning starts more topics than documents need, and coordinate ascent leaves a
# topic in the many parts that different documents began: each part explains its own
# documents best. A topic S_k and that of the most similar words, S_l, become S_k + S_l,
# tables stay where they are, and the bound changes by
#
#     logB(eta + S_k + S_l) - logB(eta + S_k) - logB(eta + S_l) + logB(eta)     words
#     + sum m E log beta and the terms of the corpus sticks, after and before
#     - the entropy that phi loses, see `StickHDP.merged`.


class BoundMerges(Moves[Learner]):
    """Merges of topics after passes over all documents, from the last warm-up pass on.

    From the second pass on text ends with fewer topics, a higher bound, and worse
    predictions: `ap` -7.735 with 93, -7.707 with 139, -7.703 without merges.
    """

    def end_pass(self, learner: Learner, monitor: Monitor) -> bool:
        """Merge topics in place where the bound rises; return whether none were."""
        posterior = learner.posterior
        pairs = similar_pairs(posterior.global_stats.topic_words)
        if learner.is_warming_up or not pairs:
            return True
        gains = posterior.model.merge_gains(
            posterior.state, posterior.global_stats, pairs
        )
        chosen = [pairs[place] for place in best_disjoint(pairs, gains)]
        if not chosen:
            return True
        sources, targets = np.transpose(chosen)
        names, order = posterior.ids, remaining(len(posterior.ids), sources)
        columns = np.empty(len(names), dtype=np.intp)
        columns[order] = np.arange(len(order))
        columns[sources] = columns[targets]
        merged = [(int(names[one]), int(names[other])) for one, other in chosen]
        with commit():
            posterior.merge(merged)
            learner.cache.documents.change(lambda one: one.with_columns(columns))
        return False


def similar_pairs(words: WordTopics) -> list[tuple[int, int]]:
    """Columns of each topic that is not known, and of that of most similar words."""
    counts = words.seen_counts().T
    similarity = cosines(counts, counts)
    np.fill_diagonal(similarity, -np.inf)
    similarity[:, words.is_known] = similarity[words.is_known] = -np.inf
    others = similarity.argmax(axis=1)
    return [
        (source, target)
        for source, target in enumerate(others.tolist())
        if similarity[source, target] >= 0.0
    ]


# Bound of the evidence of the HDP for every number of topics, Hughes et al. [1].
#
# Symbols: sticks v_k, weights beta_k = v_k prod_{l<k} (1 - v_l) of K represented topics
# and beta_{K+1} of all others together; concentrations alpha of documents, gamma of the
# corpus; N_jk expected tokens of topic k in document j of D. A point estimate of beta
# gives no bound of log p(w). Here each stick has a distribution,
#
#     q(v_k) = Beta(rho_k w_k, (1 - rho_k) w_k),     Eb_k = E[beta_k],
#
# and the normaliser of a document's Dirichlet, whose expectation has no closed form, is
# replaced by a lower bound (lnG(1 + x) is superadditive for x >= 0):
#
#     lnG(alpha) - sum_{k<=K+1} lnG(alpha beta_k)
#     >= K log alpha + sum_{k<=K+1} log beta_k.
#
# With theta_jk = alpha Eb_k + N_jk (N_{j,K+1} = 0), which is optimal,
#
#     assignments = sum_j { sum_{k<=K+1} lnG(theta_jk) - lnG(alpha + N_j) }
#                 + D { K log alpha + sum_{k<=K} (E log v_k + (K+1-k) E log(1 - v_k)) }
#     weights     = -sum_k KL( q(v_k) || Beta(1, gamma) )
#
# stand where the objective of the direct-assignment model has terms of the same names.
# The bound depends on the order of topics, but is one in any order.
#
# References
# ----------
# .. [1] Hughes, Kim and Sudderth, "Reliable and Scalable Variational Inference for the
#    Hierarchical Dirichlet Process", AISTATS 2015.


#: Range of logit rho and of log w. Sharper sticks gain next to nothing, and rounding,
#: about 1e-15 w nats, must not lift the bound.
MEANS, TOTALS = (-25.0, 25.0), (-10.0, 23.0)
#: Share of the start that is spread evenly: the way up from an all but empty stick is
#: long and flat.
SPREAD = 0.01
#: Below, alpha Eb_k counts as this: lnG falls there, so the bound remains one.
SMALLEST = 1e-290


@dataclass(frozen=True, slots=True)
class Sticks:
    """q(v): a Beta distribution for each represented topic, in the order of sticks."""

    logit_mean: Array  # (K,) logit rho
    log_total: Array  # (K,) log w

    @classmethod
    def around(cls, weights: Array, n_docs: int) -> "Sticks":
        """Return a start: means near the given weights, (K + 1,), a and b above D.

        That is about optimal for a topic that no document uses; from less concentrated
        sticks the first steps are large and may end in another maximum.
        """
        spread = (1.0 - SPREAD) * weights + SPREAD / len(weights)
        rest = np.cumsum(spread[::-1])[::-1]
        means = np.clip(logit(spread[:-1] / rest[:-1]), *MEANS)
        log_totals = np.log(n_docs + 1.0) - np.log(expit(means) * expit(-means))
        return cls(means, np.clip(log_totals, *TOTALS))

    @property
    def parameters(self) -> tuple[Array, Array]:
        """Parameters a = rho w and b = (1 - rho) w, (K,) each."""
        total = np.exp(self.log_total)
        return total * expit(self.logit_mean), total * expit(-self.logit_mean)

    @property
    def expected_weights(self) -> Array:
        """Eb, (K + 1,)."""
        rest = np.cumprod(np.append(1.0, expit(-self.logit_mean)))
        return rest * np.append(expit(self.logit_mean), 1.0)


@dataclass(frozen=True, slots=True)
class Assignments:
    """Statistics of expected counts of documents with tokens, for the bound."""

    topic: Ints  # (nnz,) of each positive N_jk, in the order of sticks
    count: Array  # (nnz,) N_jk
    n_docs_using: Array  # (K + 1,) documents with N_jk > 0; the last entry is 0
    n_tokens: Array  # (D,) N_j

    @classmethod
    def of(cls, doc_topic: sp.csr_array, n_tokens: Array, order: Ints) -> "Assignments":
        """Read N, (n_docs, K), column `order[0]` as the first stick, and so on."""
        used = doc_topic.data > 0.0
        place = np.argsort(order)
        topic = place[doc_topic.indices[used]]
        n_docs_using = np.bincount(topic, minlength=len(order) + 1).astype(np.float64)
        return cls(topic, doc_topic.data[used], n_docs_using, n_tokens[n_tokens > 0.0])


def terms_and_gradient(
    sticks: Sticks, documents: Assignments, alpha: float, gamma: float
) -> tuple[dict[str, float], Array]:
    """Terms of the bound, and the gradient of their sum in (logit rho, log w), (2 K,).

    The terms are "assignments" and "weights" as above, in nats.

    theta is at its optimum, so it adds nothing to the gradient: that is the one of
    fixed P_k = sum_j E log pi_jk,

        dL/dw_k   = A_k [rho_k psi'(a_k) - psi'(w_k)]
                  + B_k [(1 - rho_k) psi'(b_k) - psi'(w_k)]
        dL/drho_k = w_k [A_k psi'(a_k) - B_k psi'(b_k)]
                  + alpha {Eb_k P_k / rho_k - sum_{l>k} Eb_l P_l / (1 - rho_k)}

    with A_k = D + 1 - a_k, B_k = D (K + 1 - k) + gamma - b_k.
    """
    n_docs, n_topics = len(documents.n_tokens), len(sticks.log_total)
    total = np.exp(sticks.log_total)
    mean, rest = expit(sticks.logit_mean), expit(-sticks.logit_mean)
    a, b = sticks.parameters
    log_v, log_rest = psi(a) - psi(total), psi(b) - psi(total)
    n_later = np.arange(n_topics, 0, -1)  # K + 1 - k

    x = np.maximum(alpha * sticks.expected_weights, SMALLEST)
    theta = x[documents.topic] + documents.count
    n_without = n_docs - documents.n_docs_using
    assignments = (
        gammaln(theta).sum()
        + n_without @ gammaln(x)
        - gammaln(alpha + documents.n_tokens).sum()
        + n_docs * (n_topics * np.log(alpha) + (log_v + n_later * log_rest).sum())
    )
    prior = np.log(gamma) + (gamma - 1.0) * log_rest
    posterior = (a - 1.0) * log_v + (b - 1.0) * log_rest - betaln(a, b)

    slope = n_without * psi(x) - psi(alpha + documents.n_tokens).sum()
    slope += np.bincount(documents.topic, psi(theta), n_topics + 1)
    gain = x * slope  # alpha Eb_k P_k
    gain_later = np.cumsum(gain[::-1])[::-1][1:]
    first, second = n_docs + 1.0 - a, n_docs * n_later + gamma - b
    tri_a, tri_b, tri = polygamma(1, a), polygamma(1, b), polygamma(1, total)
    by_mean = a * b * (first * tri_a - second * tri_b) / total
    by_mean += rest * gain[:-1] - mean * gain_later
    by_total = first * (a * tri_a - total * tri) + second * (b * tri_b - total * tri)
    values = {
        "assignments": float(assignments),
        "weights": float((prior - posterior).sum()),
    }
    return values, np.concatenate([by_mean, by_total])


def fit_sticks(
    sticks: Sticks, documents: Assignments, alpha: float, gamma: float
) -> Sticks:
    """Maximise the bound over q(v) and theta together, by L-BFGS from given sticks."""
    n_topics = len(sticks.log_total)
    unit = max(len(documents.count), 1)  # for the tolerances of the optimiser

    def negative(point: Array) -> tuple[float, Array]:
        values, gradient = terms_and_gradient(
            Sticks(*np.split(point, 2)), documents, alpha, gamma
        )
        return -sum(values.values()) / unit, -gradient / unit

    result = minimize(
        negative,
        np.concatenate([sticks.logit_mean, sticks.log_total]),
        jac=True,
        method="L-BFGS-B",
        bounds=[MEANS] * n_topics + [TOTALS] * n_topics,
        options={"maxiter": 1000, "maxfun": 5000, "ftol": 1e-12, "gtol": 1e-8},
    )
    return Sticks(*np.split(result.x, 2))
