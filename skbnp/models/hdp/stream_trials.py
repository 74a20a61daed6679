"""Topics of an HDP that learns a stream: restarts, and topics that begin late.

When a stream has doubled, its topics start again beside it, with births. They learn
what the stream learns; then topics that bring less than the minimum gain merge or end,
the others learn on, and held-out documents choose between them and those of the stream.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.inference.engine import PassLearner
from skbnp.inference.executor import Executor, commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.posterior import Lineage
from skbnp.inference.protocols import Corpus, even_limits
from skbnp.models.hdp import births as held_out_moves
from skbnp.models.hdp import cross_fit, held_out_trials
from skbnp.models.hdp import held_out as judging
from skbnp.models.hdp import posterior as records
from skbnp.models.hdp.fold_in import score_documents, word_probabilities
from skbnp.models.hdp.held_out import Gain, HeldOut, Prediction, compare
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior, Outliers, Proposal
from skbnp.models.hdp.topic_ids import aligned_ids
from skbnp.utils.arrays import deal_tokens, members, rows_of
from skbnp.utils.matching import cosines, most_similar
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import Amount
from skbnp.utils.typing import Array, Flags, Ints, Ints32

#: Documents of a call that are learned from together, over those that a stream keeps.
PART_SHARE = 0.125
#: Documents of those kept that are learned again for each new one, as long as all are
#: kept, see `benchmarks/results/stream_nights.md`.
AGAIN = 24.0
#: Tokens of the first call that choose a number of topics, about.
MOST_CHOOSING = 25_000
#: Documents of the first call that suffice to try other numbers of topics.
ENOUGH_TRIED = 1000
#: Births of a restart for each topic, and at least.
BIRTH_RATE, FEWEST_BIRTHS = 1.0, 32
#: Documents that a restart learns before topics end, and again before it is judged, as
#: a multiple of those kept.
PASSES = 8.0
#: Growth of a stream before the next restart after one that added such a share of
#: topics.
GROWTH_AFTER_BIRTHS, MANY_BIRTHS = 1.25, 0.2


@dataclass(eq=False, slots=True)
class Restart:
    """Topics that started again beside those of a stream, and learn the same documents.

    Until topics have ended, documents are not subtracted from totals before they are
    learned again: what began as noise has none of them.
    """

    posterior: HDPPosterior
    n_docs: Amount  # kept by the stream when it began
    n_left: Amount  # documents to learn until topics end, or until it is judged
    is_reduced: bool = False

    @classmethod
    def of(
        cls, posterior: HDPPosterior, learned: Corpus, n_samples: float, births: bool
    ) -> "Restart":
        """Start topics of a stream of `n_samples` documents again, beside it.

        `learned` are the documents kept that are not held out.
        """
        now, n_topics = posterior.copy(), posterior.state.n_components
        now.reservoir = now.outliers = now.restart = None
        n_births = max(int(BIRTH_RATE * n_topics), FEWEST_BIRTHS) if births else 0
        n_births = int(min(n_births, learned.n_docs, now.max_components - n_topics))
        rng = stream(now.seed_entropy, Purpose.MOVE, now.n_steps, 2)
        begun = held_out_moves.propose_births(now, learned, n_births, rng)
        begun.global_stats.decay(n_samples / learned.n_docs)
        begun.set_state(by_tables=False)
        begun.step_origin = begun.n_steps
        return cls(begun, learned.n_docs, PASSES * learned.n_docs)


class Candidate(NamedTuple):
    """Topics, and how they predict held-out documents."""

    posterior: HDPPosterior
    prediction: Prediction
    logs: Array  # (n_docs,)
    executor: Executor

    @classmethod
    def of(
        cls,
        posterior: HDPPosterior,
        held_out: HeldOut,
        executor: Executor,
        prediction: Prediction | None = None,
    ) -> "Candidate":
        """Return topics with their prediction, if it was not made before."""
        prediction = prediction or held_out.predict(posterior, executor)
        logs = held_out.log_probability(prediction)
        return cls(posterior, prediction, logs, executor)

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return self.posterior.state.n_components

    def with_fewer(
        self, held_out: HeldOut, most: int | None, least: int
    ) -> "Candidate | None":
        """Return topics after the cheapest merges and ends; None if there are none.

        Every other document chooses these.
        """
        fewer = self.posterior.copy()
        choosers = held_out.half(0, self.prediction)
        cheapest = held_out_moves.reductions(self.posterior, *choosers)
        budget = held_out_trials.BUDGET if most is None else np.inf
        if self.n_topics < 2 or not held_out_moves.reduce(
            fewer, cheapest, budget, most, least
        ):
            return None
        return Candidate.of(fewer, held_out, self.executor)

    def reduced(self, held_out: HeldOut, penalty: float) -> "Candidate":
        """Return the number of topics that gains most, less the penalty of each.

        A share of the topics merges or ends at a time, down to numbers that are clearly
        worse; then half as many at a time from the best, as long as that gains. Topics
        do not learn between, and documents that did not choose decide.
        """
        best = chosen = now = self
        while True:
            fewer = now.with_fewer(
                held_out,
                None,
                max(int(held_out_trials.LEAST_REDUCED * now.n_topics), 1),
            )
            if fewer is None:
                break
            gain = fewer.gain_over(best, held_out, penalty)
            if gain.mean > -_cost(gain, penalty):
                best, chosen = (fewer if gain.mean > 0.0 else best), fewer
            elif gain.mean < -held_out_trials.NEAR * gain.error:
                break
            now = fewer
        return chosen.reduced_finely(held_out, penalty, best)

    def reduced_finely(
        self, held_out: HeldOut, penalty: float, best: "Candidate | None" = None
    ) -> "Candidate":
        """Return the best number of topics by fewer and fewer changes at a time.

        Candidates are compared with the best so far, by default this one.
        """
        best, chosen = best or self, self
        n_changes = max(int(held_out_trials.LEAST_REDUCED * self.n_topics), 1)
        while n_changes:
            fewer = chosen.with_fewer(held_out, n_changes, n_changes)
            if fewer is not None:
                gain = fewer.gain_over(best, held_out, penalty)
                if gain.mean > -_cost(gain, penalty):
                    best, chosen = (fewer if gain.mean > 0.0 else best), fewer
                    continue
            n_changes //= 2
        return chosen

    def gain_over(
        self,
        other: "Candidate",
        held_out: HeldOut,
        penalty: float,
        judges: slice = judging.SECOND_HALF,
    ) -> Gain:
        """Gain over another candidate less the penalty of topics, nats per token.

        By default by documents that did not choose what ends.
        """
        new, old, n_tokens = (
            values[judges] for values in (self.logs, other.logs, held_out.n_tokens)
        )
        gain = compare(new, old, n_tokens)
        n_more = self.n_topics - other.n_topics
        return gain._replace(mean=gain.mean - penalty * n_more)


@dataclass(frozen=True, slots=True)
class StreamTrials:
    """Learns documents of a stream in place, and tries other topics beside it.

    Topics explain tables in updates, and tokens in restarts until some have ended.

    Parameters
    ----------
    posterior : HDPPosterior
        Of the stream; its reservoir has the documents that are kept.
    moves : SplitMerge
    min_gain : float
        Share of what all topics gain that one must bring.
    learn_new : callable (posterior, X, executor, monitor)
        Learns documents that come.
    learner_of_kept : callable (posterior, X, executor, are_counted)
        Returns the learner of documents that came; `are_counted`: whether totals hold
        each once.
    n_samples : callable (posterior, X)
        Returns how many documents totals stand for.
    cross_fitted : callable (posterior, splits, X, executor)
        Returns trials of which each of few documents judges some.
    is_collapsed, folds_words, learns_burstiness : bool
        Family, and what held-out documents choose.
    """

    posterior: HDPPosterior
    executor: Executor
    monitor: Monitor
    moves: SplitMerge
    min_gain: float
    learn_new: Callable[..., None]
    learner_of_kept: Callable[..., PassLearner]
    n_samples: Callable[..., float]
    cross_fitted: Callable[..., cross_fit.CrossFittedTrials]
    _: KW_ONLY
    is_collapsed: bool
    folds_words: bool
    learns_burstiness: bool

    def learn(
        self, X: sp.csr_array, batch_size: int, call: int, *, is_first: bool
    ) -> None:
        """Learn the documents of a call part by part, with trials that are due."""
        posterior, begin = self.posterior, 0
        while begin < X.shape[0]:
            n_left = X.shape[0] - begin
            size = max(batch_size, int(PART_SHARE * len(posterior.kept.keys)))
            n_docs = -(-n_left // -(-n_left // size))  # parts of equal size
            self._learn_part(X[begin : begin + n_docs], call, is_first=is_first)
            begin += n_docs
        if not is_first:
            return
        posterior.reservoir = posterior.kept.begin_restart()
        tries = X.shape[0] >= ENOUGH_TRIED
        while tries:
            self.restart(X[:0], X.shape[0])
            tries = posterior.restart is not None

    def _learn_part(self, X: sp.csr_array, call: int, *, is_first: bool) -> None:
        """Score documents, learn them and those kept, and continue what is due."""
        posterior, has_proposed = self.posterior, False
        if posterior.n_steps > 0:
            has_proposed = self._score(X[np.diff(X.indptr) > 0])
        given = self.moves.reservoir_tokens, posterior.seed_entropy, call
        reservoir, learned = posterior.kept.add(X, *given)
        posterior.reservoir = reservoir
        if learned.shape[0] == 0 and posterior.n_steps == 0:
            learned = X  # there is nothing else yet
        if learned.shape[0] > 0:
            # After a fit, what is kept is no sample of all documents.
            n_again = 0.0 if reservoir.n_before else self._n_again(X.shape[0])
            self._learn_and_again(posterior, learned, n_again, self.monitor)
        if reservoir.priors_are_due and (held_out := self._judges()) is not None:
            self._with_best_priors(posterior, held_out)
            posterior.reservoir = replace(reservoir, n_priors=reservoir.n_docs)
        if not is_first and reservoir.number_is_due:
            self._choose_again()
        elif not (is_first or has_proposed):
            self.restart(learned, X.shape[0])

    def _score(self, X: sp.csr_array) -> bool:
        """Score documents before they are learned from; late topics may be born.

        Returns whether topics were proposed.
        """
        posterior, has_proposed = self.posterior, False
        for begin, end in pairwise(
            even_limits(X.shape[0], -(-X.shape[0] // records.SCORED))
        ):
            scores = score_documents(posterior, X[begin:end], self.executor)
            posterior.reservoir = posterior.kept.record_scores(scores)
            if self.is_collapsed and self.moves.births:
                given = X[begin:end], scores, begin, self.executor, self.monitor
                has_proposed |= propose_late_topics(posterior, *given)
        return has_proposed

    def _n_again(self, n_docs: int) -> float:
        """Documents of those kept that are learned again after `n_docs` new ones.

        In proportion to the share of the stream that is kept: each of these is learned
        as often in the time in which the stream doubles.
        """
        n_kept = len(self.posterior.kept.keys)
        return AGAIN * n_docs * min(n_kept / max(self.posterior.n_seen, 1), 1.0)

    def _learn_and_again(
        self,
        posterior: HDPPosterior,
        X: sp.csr_array,
        n_again: float,
        monitor: Monitor,
        *,
        are_counted: bool = True,
    ) -> None:
        """Learn new documents, and so many of those kept, in place.

        `are_counted`: whether totals hold each kept document once.
        """
        self.learn_new(posterior, X, self.executor, monitor)
        rng = stream(posterior.seed_entropy, Purpose.ORDER, posterior.n_steps)
        kept = self.posterior.kept.draw(int(np.ceil(n_again)), rng)
        if kept.shape[0] == 0:
            return
        n_seen = posterior.n_seen
        learner = self.learner_of_kept(posterior, kept, self.executor, are_counted)
        try:
            learner.one_pass(monitor)
        finally:
            posterior.n_seen = n_seen  # they are no new ones

    # -- few documents ----------------------------------------------------------------

    def choose_first_number(self, X: sp.csr_array) -> None:
        """Start from the number of topics that predicts the first documents best."""
        posterior, priors = self.posterior, dict[str, Any]()
        some, splits = self._splits(X)
        n_topics = some.shape[0] // cross_fit.DOCS_PER_TOPIC
        n_topics = min(n_topics, posterior.state.n_components)
        if splits:
            n_topics, priors = self._choose(posterior, some, splits, self.monitor, 1)
        self._start(posterior, X, X.shape[0], n_topics, priors)

    def _choose_again(self) -> None:
        """Start again if another number of topics predicts the documents so far best.

        While documents are too few to be held out. If it is the same, its priors alone
        are new.
        """
        posterior = self.posterior
        posterior.reservoir = posterior.kept.begin_restart()
        kept, beside = posterior.reservoir.counts, posterior.copy()
        some, splits = self._splits(kept)
        if not splits:  # nothing judges
            return
        present = posterior.state.n_components
        n_topics, priors = self._choose(beside, some, splits, discarding(), present)
        if n_topics == present:
            has_tables = priors["burstiness"] is not None
            posterior.set_state(**priors, by_tables=has_tables)
            return
        self._start(beside, kept, posterior.n_seen, n_topics, priors)
        beside.set_state(by_tables=False)
        beside.step_origin, n_again = beside.n_steps, PASSES * kept.shape[0]
        monitor = discarding()
        self._learn_and_again(beside, kept[:0], n_again, monitor, are_counted=False)
        replace_topics(posterior, beside, self.executor, self.monitor)

    def _splits(self, X: sp.csr_array) -> tuple[sp.csr_array, list[HeldOut]]:
        """Return documents that choose a number, and those held out in each split.

        If they are many, some of them choose as well.
        """
        rng = stream(cross_fit.OF_ALL_FITS, Purpose.SPLIT_TOKENS, 1)
        some = X[np.diff(X.indptr) > 0]
        if not judging.has_few_tokens(some):
            n_tokens = np.asarray(some.sum(axis=1)).ravel()
            order = rng.permutation(some.shape[0])
            n_some = int((np.cumsum(n_tokens[order]) < MOST_CHOOSING).sum())
            some = some[np.sort(order[: max(n_some, records.ENOUGH_CHOOSING)])]
        return some, cross_fit.hold_out_each(some, rng, cross_fit.FEWER_SPLITS)

    def _choose(
        self,
        posterior: HDPPosterior,
        some: sp.csr_array,
        splits: list[HeldOut],
        monitor: Monitor,
        least: int,
    ) -> tuple[int, dict[str, Any]]:
        """Return the number of topics that predicts best, and its priors.

        The smallest within one standard error of the best, the same whatever the seed;
        of numbers below `least`, one topic is tried.
        """
        every = self.cross_fitted(posterior, splits, some, self.executor)
        n_topics, best = every.choose_number(monitor, least)
        return n_topics, {
            name: getattr(best, name) for name in cross_fit.LEARNED_PRIORS
        }

    def _start(
        self,
        posterior: HDPPosterior,
        X: sp.csr_array,
        n_docs: float,
        n_topics: int,
        priors: dict[str, Any],
    ) -> None:
        """Start again in place from a number of topics, for so many documents."""
        n_known = int(posterior.global_stats.topic_words.is_known.sum())
        n_topics = max(n_topics, n_known, 1)
        rows = posterior.kept.select_learned(X, posterior.seed_entropy)
        rows = rows if rows.shape[0] else X
        rng = stream(posterior.seed_entropy, Purpose.START, 1)
        given = n_topics - n_known, rng, n_known, 1.0, held_out_moves.DOC_SHARE
        begun = held_out_moves.propose_births(posterior, Corpus(rows), *given)
        begun.global_stats.decay(n_docs / rows.shape[0])
        ids = np.arange(n_topics)
        ids[:n_known] = posterior.ids[:n_known]
        with commit():
            posterior.replace_globals(begun.state, begun.global_stats)
            posterior.ids = ids
            posterior.lineage = [Lineage(0, "init", (), tuple(ids.tolist()))]
            posterior.set_state(**priors)

    # -- restarts ---------------------------------------------------------------------

    def restart(self, X: sp.csr_array, n_docs: int) -> None:
        """Continue a restart by documents of the stream, or begin one if it has grown.

        `X` are those of `n_docs` that are learned. An interrupt ends the restart, and
        it begins again.
        """
        posterior, restart = self.posterior, self.posterior.restart
        posterior.restart = None
        if restart is None:
            restart, X = self._begun(), X[:0]  # documents are among those kept
            if restart is None:
                return
        else:
            restart = replace(restart, posterior=restart.posterior.copy())
        beside, n_again = restart.posterior, self._n_again(n_docs)
        if X.shape[1] > beside.global_stats.topic_words.shape[0]:
            beside.global_stats.topic_words.widen(X.shape[1])
        given = beside, X, n_again, discarding()
        self._learn_and_again(*given, are_counted=restart.is_reduced)
        restart.n_left = max(restart.n_left - n_again, 0.0)
        if restart.n_left == 0.0:
            restart = self._end_topics(restart)
        posterior.restart = restart

    def _begun(self) -> Restart | None:
        """Return a new restart if one is due and documents judge, or None."""
        posterior = self.posterior
        reservoir, outliers = posterior.kept, posterior.outliers
        is_due = reservoir.is_due or (reservoir.is_due_early and not self.is_collapsed)
        if not is_due or (outliers is not None and outliers.proposal is not None):
            return None
        if (held_out := self._judges()) is None:
            return None
        posterior.reservoir = reservoir.begin_restart()
        n_samples = self.n_samples(posterior, held_out.train.X)
        return Restart.of(posterior, held_out.train, n_samples, self.moves.births)

    def _end_topics(self, restart: Restart) -> Restart | None:
        """End topics of a restart, which learns on, or judge it if they have ended."""
        posterior, held_out = self.posterior, self._judges()
        if held_out is None:
            return None
        beside = self._with_best_priors(restart.posterior, held_out)
        given = beside.posterior, beside.logs, self.executor, self.folds_words
        gain = held_out.gain_over_words(*given).mean
        penalty = self.min_gain * max(gain, 0.0)
        if not restart.is_reduced:  # the others learn on
            restart.posterior = beside.reduced(held_out, penalty).posterior
            restart.is_reduced, restart.n_left = True, PASSES * restart.n_docs
            return restart
        beside = beside.reduced_finely(held_out, penalty)
        present = self._with_best_priors(posterior, held_out)
        net = beside.gain_over(present, held_out, penalty, slice(None))
        least = held_out_trials.margin(net)
        if beside.n_topics < present.n_topics and not penalty:
            least = -least
        is_better = net.mean > least
        self.monitor.report(
            f"restart with {beside.n_topics} topics "
            f"{'accepted' if is_better else 'rejected'}: "
            f"held-out documents gain {net.mean:.4f} +- {net.error:.4f} nats"
        )
        n_before, n_next = present.n_topics, 0.0
        if is_better:
            replace_topics(posterior, beside.posterior, self.executor, self.monitor)
            posterior.equivalent, posterior.gains = None, ((beside.n_topics, gain),)
            if beside.n_topics > (1.0 + MANY_BIRTHS) * n_before:
                n_next = GROWTH_AFTER_BIRTHS * posterior.kept.n_docs
        posterior.reservoir = posterior.kept.end_restart(is_better, n_next)
        return None

    def _with_best_priors(
        self, posterior: HDPPosterior, held_out: HeldOut
    ) -> Candidate:
        """Set priors in place under which held-out documents of a stream are likely."""
        posterior.global_stats.topic_words.trim()
        folds = judging.fold_words(held_out) if self.folds_words else ()
        given = held_out, posterior, self.executor, folds
        result = judging.choose_priors(*given, repeats=self.learns_burstiness)
        if (
            held_out.first_uses(result) < held_out_trials.FEWEST_FIRST_USES
        ):  # repeats predict it all
            posterior.set_state(burstiness=None)
            result = held_out.predict(posterior, self.executor)
        posterior.set_state(by_tables=posterior.state.burstiness is not None)
        return Candidate.of(posterior, held_out, self.executor, result)

    def _judges(self) -> HeldOut | None:
        """Documents of a stream that are held out, or None if they are too few."""
        posterior = self.posterior
        rng = stream(posterior.seed_entropy, Purpose.SPLIT_TOKENS, posterior.n_steps)
        return posterior.kept.held_out(rng)


def _cost(gain: Gain, penalty: float) -> float:
    """Loss, nats per token, that fewer topics may have; none if topics have a penalty.

    Without one numbers would depend on the start: equivalent ones differ by chance.
    """
    return 0.0 if penalty else held_out_trials.margin(gain)


def replace_topics(
    posterior: HDPPosterior, restart: HDPPosterior, executor: Executor, monitor: Monitor
) -> None:
    """Give a stream the topics of a restart, in place; the same ones keep their ids."""
    n_updates, sample = restart.n_steps - restart.step_origin, posterior.kept.sample()
    restart.ids, log = aligned_ids(posterior, restart, sample, executor)
    with commit():
        posterior.adopt(restart, monitor, log)
        posterior.step_origin = posterior.n_steps - n_updates


# Topics of an HDP that begin late in a stream, from documents predicted badly.
#
# Documents of a stream are scored before they are learned from. Those that are
# predicted worse than documents were before are kept, as many as fit. When enough new
# ones have come, topics are proposed for what the present topics leave unexplained in
# them, by an EM algorithm over documents of which each mixes the prediction of all
# present topics, as one component, with the proposed ones. Half of the tokens of each
# document choose how many: the most that predict them as well from the other half,
# within one standard error, as the best number does. Chosen documents flatter the
# topics that were made from them, so the next documents of the stream judge, whatever
# their scores, before they are learned from: the words of one half of each are
# predicted from the other half, with proposed topics and without. A proposed topic is
# born once documents gain clearly by it, and is dropped if it takes too long.
#
# Topics that begin together look like one as long as there are few documents of them.
# So a provisional topic is not among the present ones when topics are proposed: it is
# learned anew from the documents kept, and what it has covered besides is proposed by
# itself.
#
# All of it costs some steps over the kept documents, and one over those that judge.


#: Topics of a proposal, at most, and kept documents for each.
MOST_TOPICS, DOCS_PER_TOPIC = 16, 2
#: Rounds of EM with a topic for all that is unexplained, with its parts, and after two
#: of these are joined.
ROUNDS_OF_ONE, ROUNDS, ROUNDS_OF_JOIN = 10, 20, 5
#: Prior tokens of a proposed topic in a document.
TOKENS = 0.05
#: Tokens that a topic needs, in documents that have at least one of it.
FEWEST_TOKENS, FEWEST_DOCS = 20.0, 5.0
#: Cosine of a topic and of the same one learned anew, at least.
SAME = 0.5
#: Nats, and standard errors, that documents must gain by a topic.
LEAST_GAIN, ERRORS = 10.0, 2.0
#: Documents that judge before a topic is born, and at most.
FEWEST_JUDGES, MOST_JUDGES = 30, 300
#: Share of the stream of a topic that is born, at most.
MOST_SHARE = 0.2


class LateMixture(NamedTuple):
    """Counts of documents, and their probability under the present topics."""

    indptr: Ints32  # (n_docs + 1,)
    words: Ints32  # (nnz,) columns of the topics
    counts: Array  # (nnz,)
    old: Array  # (nnz,) probability under the present topics

    @property
    def rows(self) -> Ints:
        """The document of each stored count, (nnz,)."""
        return rows_of(self.indptr)

    def shares(self, topics: Array, n_rounds: int) -> Array:
        """Infer proportions of all present topics together and of new ones, (n, 1 + T).

        `topics` are the new ones, (T, n_words), fixed.
        """
        shares = np.full((len(self.indptr) - 1, 1 + len(topics)), TOKENS)
        shares[:, 0] = 1.0
        for _ in range(n_rounds):
            shares = _proportions(self.expected_tokens(shares, topics)[0])
        return shares

    def expected_tokens(self, shares: Array, topics: Array) -> tuple[Array, Array]:
        """Expected tokens of components in documents, (n, 1 + T), and in counts.

        Those in a count, (nnz, 1 + T), are in proportion to s_0 p of all present topics
        together, and to s_t b_tw of each new one.
        """
        parts = shares[self.rows]
        parts[:, 0] *= self.old
        parts[:, 1:] *= topics.T[self.words]
        parts *= (self.counts / parts.sum(axis=1))[:, None]
        entries = np.ones(len(parts)), np.arange(len(parts)), self.indptr
        by_document = sp.csr_array(entries, shape=(len(shares), len(parts)))
        return by_document @ parts, parts

    def probability(self, shares: Array, topics: Array) -> Array:
        """Probability of each stored count by present and new topics, (nnz,)."""
        shares = shares[self.rows]
        new = np.einsum("nt,tn->n", shares[:, 1:], topics[:, self.words])
        return shares[:, 0] * self.old + new

    def log_probability(self, shares: Array, topics: Array) -> Array:
        """Log probability of the counts of each document, in nats, (n_docs,)."""
        logs = self.counts * np.log(self.probability(shares, topics))
        sums = np.bincount(self.rows, logs, len(self.indptr) - 1)
        return sums.astype(np.float64)


def _proportions(tokens: Array) -> Array:
    """Proportions of components by expected and prior tokens, (n, 1 + T).

    Prior tokens are 1 of the present topics and `TOKENS` of each new one.
    """
    prior = np.full(tokens.shape[1], TOKENS)
    prior[0] = 1.0
    tokens = tokens + prior
    return tokens / tokens.sum(axis=1, keepdims=True)


def _mixture(
    posterior: HDPPosterior,
    observed: sp.csr_array,
    predicted: sp.csr_array,
    executor: Executor,
    some: Ints,
    without: Sequence[int] = (),
) -> LateMixture:
    """Return counts of `predicted`, their topic proportions folded in from `observed`.

    By all topics except those of the columns `without`; words by their positions in
    `some`, which are sorted.
    """
    state = posterior.state.for_prediction
    old = word_probabilities(posterior, state, observed, predicted, executor, without)
    words = np.searchsorted(some, predicted.indices).astype(np.int32)
    return LateMixture(predicted.indptr.astype(np.int32), words, predicted.data, old)


# -- a call -------------------------------------------------------------------------


def propose_late_topics(
    posterior: HDPPosterior,
    X: sp.csr_array,
    scores: Array,
    place: int,
    executor: Executor,
    monitor: Monitor,
) -> bool:
    """Judge proposed topics by a chunk of a stream, then propose others from outliers.

    Called before the chunk is learned from; changes `posterior` in place. Returns
    whether topics were proposed, which takes as long as a restart in a call. `scores`
    are those of the documents `X`, (n_docs,), and `place` the number of the chunk in
    its call.
    """
    entropy, reservoir = posterior.seed_entropy, posterior.kept
    outliers = posterior.outliers or Outliers.empty(X.shape[1])
    if outliers.proposal is not None:
        born = outliers.born
        rng = stream(entropy, Purpose.MOVE, posterior.n_steps, 1 + place)
        outliers = judge_proposal(posterior, outliers, X, rng, executor, monitor)
        if outliers.born != born:
            posterior.restart = None  # of topics without these
    without = _provisional_columns(posterior, outliers)
    if without:  # they are to be learned anew from all of their documents
        scores = score_documents(posterior, X, executor, without)
    bad = reservoir.select_learned(X[reservoir.are_outliers(scores)], entropy)
    outliers = outliers.with_documents(bad)
    outliers = outliers.advance_ages(X.shape[0], MOST_JUDGES, posterior.ids)
    has_drifted = reservoir.has_drifted
    is_free = posterior.restart is None or has_drifted
    proposes = is_free and outliers.is_due(has_drifted or bool(outliers.provisional))
    if proposes:
        rng = stream(entropy, Purpose.MOVE, posterior.n_steps, 1 + place, 1)
        outliers = propose(posterior, outliers, rng, executor)
        posterior.reservoir = replace(reservoir, cusum=0.0)
    posterior.outliers = outliers
    return proposes


# -- proposals ----------------------------------------------------------------------


class CandidateDocuments(NamedTuple):
    """Counts of documents that topics are proposed for, and the topic prior."""

    mixture: LateMixture
    n_words: int  # that are seen
    n_features: int
    prior: float

    def topics(self, sums: Array) -> Array:
        """Normalised topics of expected counts `sums`, (T, n_words)."""
        total = sums.sum(axis=1) + self.prior * self.n_features
        return (sums + self.prior) / total[:, None]

    def learn(self, sums: Array, n_rounds: int) -> tuple[Array, Array, Array]:
        """Learn new topics by EM from expected counts, (T, n_words).

        Returns their expected counts, and the tokens (n_docs, T) and shares (n_docs, 1
        + T) of documents.
        """
        mixture, topics = self.mixture, self.topics(sums)
        shares = mixture.shares(topics, 1)
        by_word = members(mixture.words, self.n_words)
        for _ in range(n_rounds):
            tokens, parts = mixture.expected_tokens(shares, topics)
            sums = np.ascontiguousarray((by_word @ parts[:, 1:]).T)
            shares, topics = _proportions(tokens), self.topics(sums)
        return sums, tokens[:, 1:], shares

    def residual(self) -> tuple[Array, Array]:
        """Expected counts of one topic for unexplained words, by word and entry."""
        mixture = self.mixture
        words = np.bincount(mixture.words, mixture.counts, self.n_words)
        one, _, shares = self.learn(words[None].astype(np.float64), ROUNDS_OF_ONE)
        topic, shares = self.topics(one), shares[mixture.rows]
        explained = shares[:, 0] * mixture.old
        unexplained = shares[:, 1] * topic[0, mixture.words]
        return one, mixture.counts * unexplained / (explained + unexplained)


def propose(
    posterior: HDPPosterior,
    outliers: Outliers,
    rng: np.random.Generator,
    executor: Executor,
) -> Outliers:
    """Propose topics for unexplained words of documents that are predicted badly.

    Topics that are most similar are joined until one is left. Half of the tokens of
    each document, predicted from the other half, tell how many there are.
    """
    X, provisional = outliers.counts, _provisional_columns(posterior, outliers)
    some = posterior.global_stats.topic_words.seen.among(np.unique(X.indices))
    part = X[:, some]
    X = sp.csr_array((part.data, some[part.indices], part.indptr), X.shape)

    def candidates(
        observed: sp.csr_array, predicted: sp.csr_array
    ) -> CandidateDocuments:
        """Return the counts `predicted`, over the words `some`."""
        mixture = _mixture(posterior, observed, predicted, executor, some, provisional)
        return CandidateDocuments(
            mixture, len(some), X.shape[1], posterior.state.topic_word_prior
        )

    judges, observed, held_out = next(deal_tokens(X, 2, rng))
    if len(judges) == 0:
        return outliers.proposed(None, SAME)
    half, judge = candidates(observed, observed), candidates(observed, held_out)
    one, residual = half.residual()
    parts = sp.csr_array(
        (residual, half.mixture.words, observed.indptr), (observed.shape[0], len(some))
    )
    limit = posterior.max_components - posterior.state.n_components + len(provisional)
    n_topics = int(min(MOST_TOPICS, X.shape[0] // DOCS_PER_TOPIC, limit))
    seeds = _seeds(parts, n_topics)
    if len(seeds) == 0:
        return outliers.proposed(None, SAME)
    sums = parts[seeds].toarray() + 0.1 * one / len(seeds)
    numbers, scores, n_rounds = list[Array](), list[Array](), ROUNDS
    while True:
        sums, _, shares = half.learn(sums, n_rounds)
        numbers.append(sums)
        scores.append(judge.mixture.log_probability(shares, half.topics(sums)))
        if len(sums) == 1:
            break
        sums, n_rounds = _joined(sums), ROUNDS_OF_JOIN
    sums = numbers[_first_of_the_best(np.array(scores))]
    sums, tokens, _ = candidates(X, X).learn(sums, ROUNDS_OF_ONE)
    is_large = tokens.sum(axis=0) >= FEWEST_TOKENS
    large = np.flatnonzero(is_large & ((tokens >= 1.0).sum(axis=0) >= FEWEST_DOCS))
    if len(large) == 0:
        return outliers.proposed(None, SAME)
    new = _relearn(posterior, provisional, sums[large], some)
    topics = sp.csr_array(sums[large][new])
    columns = some[topics.indices]
    topics = sp.csr_array((topics.data, columns, topics.indptr), (len(new), X.shape[1]))
    return outliers.proposed(topics, SAME)


def _relearn(
    posterior: HDPPosterior, provisional: list[int], sums: Array, some: Ints
) -> list[int]:
    """Replace the words of provisional topics in place; return the other new topics.

    `sums` are of the words `some`, (T, n_words); `provisional` are columns. A
    provisional topic began with few documents, and may stand for two topics.
    """
    topic_words = posterior.global_stats.topic_words
    if not provisional:
        return list(range(len(sums)))
    before = topic_words.rows(some)[:, provisional].T
    found, replaced = most_similar(cosines(sums, before), SAME)
    with commit():
        for new, old in zip(found, replaced, strict=True):
            whole = np.zeros(topic_words.shape[0])
            whole[some] = sums[new]
            column = whole[topic_words.seen.words]
            column *= topic_words.total[provisional[old]] / column.sum()
            topic_words.put(provisional[old], column)
    return np.setdiff1d(np.arange(len(sums)), found).tolist()


def _provisional_columns(posterior: HDPPosterior, outliers: Outliers) -> list[int]:
    """Columns of topics that proposals may replace; none if these are all."""
    columns = posterior.columns
    provisional = [columns[name] for name, _ in outliers.provisional if name in columns]
    return provisional if len(provisional) < len(columns) else []


def _seeds(parts: sp.csr_array, n_topics: int) -> list[int]:
    """Choose documents of many unexplained words that differ from one another."""
    weight = np.asarray(parts.sum(axis=1)).ravel()
    norm = np.sqrt(np.asarray(parts.multiply(parts).sum(axis=1)).ravel())
    cosine = sp.diags_array(1.0 / np.maximum(norm, 1e-300)) @ parts
    far, seeds = np.ones(len(weight)), list[int]()
    for _ in range(n_topics):
        seed = int(np.argmax(far * weight))
        if far[seed] * weight[seed] < 1.0:
            break
        seeds.append(seed)
        near = np.asarray((cosine @ cosine[[seed]].T).todense()).ravel()
        far = np.minimum(far, 1.0 - np.clip(near, 0.0, 1.0))
        far[seed] = 0.0
    return seeds


def _joined(sums: Array) -> Array:
    """Add the two most similar of the topics together, (T - 1, n_words)."""
    similarity = np.tril(1.0 + cosines(sums, sums), -1)
    one, other = divmod(int(np.argmax(similarity)), len(sums))
    joined = sums.copy()
    joined[other] += joined[one]
    return np.delete(joined, one, axis=0)


def _first_of_the_best(scores: Array) -> int:
    """Position of the first row within a standard error of the best, of (n, n_docs)."""
    lost = scores[np.argmax(scores.sum(axis=1))] - scores
    total = lost.sum(axis=1)
    squares = np.square(lost).sum(axis=1)
    return int(np.argmax(total <= _standard_error(total, squares, scores.shape[1])))


# -- judgement ----------------------------------------------------------------------


def judge_proposal(
    posterior: HDPPosterior,
    outliers: Outliers,
    X: sp.csr_array,
    rng: np.random.Generator,
    executor: Executor,
    monitor: Monitor,
) -> Outliers:
    """Judge proposed topics by documents; those with a clear gain are born.

    Changes `posterior` in place; returns the outliers with what is left of the
    proposal.
    """
    proposal = outliers.proposal
    assert proposal is not None
    some, eta = np.unique(X.indices), posterior.state.topic_word_prior
    n_tokens = np.asarray(proposal.topics.sum(axis=1)).ravel()
    topics = proposal.topics[:, some].toarray() + eta
    topics /= (n_tokens + eta * X.shape[1])[:, None]

    judges, observed, held_out = next(deal_tokens(X, 2, rng))
    if len(judges) == 0:
        return outliers
    mixture = _mixture(posterior, observed, observed, executor, some)
    shares = mixture.shares(topics, ROUNDS)
    mixture = _mixture(posterior, observed, held_out, executor, some)
    gains = _gains(mixture, shares, topics)
    proposal = proposal.judged(gains, shares[:, 1:])
    limit = max(int(posterior.max_components - posterior.state.n_components), 0)
    chosen = np.flatnonzero(_needed(proposal))[:limit]
    if len(chosen):
        shares = proposal.shares[chosen] / proposal.n_judges[chosen]
        topics = proposal.topics[chosen]
        held_out_moves.add_topics(posterior, topics, np.minimum(shares, MOST_SHARE))
        born = posterior.ids[len(posterior.ids) - len(chosen) :]
        outliers = outliers.with_births(born)
        monitor.recount(posterior)
    is_left = proposal.n_judges < MOST_JUDGES
    is_left[chosen] = False
    if not (is_left.any() or len(chosen)):
        return outliers.wait_longer()
    left = proposal.take(is_left) if is_left.any() else None
    return replace(outliers, proposal=left)


def _gains(mixture: LateMixture, shares: Array, topics: Array) -> Array:
    """Gain of each document by each proposed topic, in nats, (n_docs, T)."""
    whole, shares = mixture.probability(shares, topics), shares[mixture.rows, 1:]
    parts = shares * topics[:, mixture.words].T
    logs = np.log(whole[:, None] / ((whole[:, None] - parts) / (1.0 - shares)))
    entries = mixture.counts, np.arange(len(logs)), mixture.indptr
    return sp.csr_array(entries, (len(mixture.indptr) - 1, len(logs))) @ logs


def _needed(proposal: Proposal) -> Flags:
    """Whether the gain of documents by each proposed topic is clear, (T,)."""
    n_docs, gains = proposal.n_judges, proposal.gains
    error = _standard_error(gains, proposal.squares, n_docs)
    is_clear = gains > np.maximum(LEAST_GAIN, ERRORS * error)
    return is_clear & (n_docs >= FEWEST_JUDGES)


def _standard_error(sums: Array, squares: Array, n_docs: Ints | int) -> Array:
    """Return standard errors of sums over documents, by their sums of squares."""
    n = np.maximum(n_docs, 1)
    spread = np.maximum(squares - sums**2 / n, 0.0)
    return np.sqrt(spread * n / np.maximum(n - 1, 1))
