"""Trials of numbers of topics of an HDP on the sample of a stream, over many calls."""

import sys
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.inference.engine import RunningAverage, Steps
from skbnp.inference.executor import Executor, commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.protocols import Corpus, OnlineSchedule
from skbnp.kernels._moves import late_topics_step
from skbnp.models.hdp.births import add_topics
from skbnp.models.hdp.fold_in import score_documents, word_probabilities
from skbnp.models.hdp.held_out import HeldOut, compare
from skbnp.models.hdp.held_out_trials import (
    ALIKE,
    ALIKE_ERRORS,
    HeldOutTrials,
    OnlineLearner,
    Trial,
)
from skbnp.models.hdp.model import HDPState
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior, Outliers, Proposal
from skbnp.models.hdp.topic_ids import aligned_ids
from skbnp.utils.arrays import deal_tokens, rows_of, with_columns
from skbnp.utils.matching import cosines, most_similar
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, Flags, Ints, Ints32

#: Visits of learning that it takes as long as to begin, and to judge a pass, for each
#: row that judges.
BEGIN_COST, PASS_JUDGE_COST = 24.0, 8.0
#: The same of a step of judgement, and of each row in it.
JUDGE_COST, ROW_COST = 500.0, 0.25
#: Share of a pass that the last minibatches of forgetting stand for, at least:
#: where they are many, steps as from a start would leave hardly any of the corpus.
REMEMBERED = 1.0 / 3.0
#: Visits of trials for each document of a call: those of a doubled stream suffice for
#: most trials.
VISITS = 200.0


@dataclass(eq=False, repr=False)
class StreamTrials(HeldOutTrials):
    """Trials on the documents kept of a stream, judged by held-out ones.

    The learner is that of a copy of the stream's posterior.
    """

    # Documents that the stream has learned meanwhile.
    missed: list[sp.csr_array] = field(default_factory=list)
    #: State of the stream, with priors that suit once trials have begun.
    suited: HDPState | None = None
    #: The copy is read when all trials are over: it need not hold what is as good.
    is_unseen: ClassVar[bool] = True

    def _begin(self, candidate: Trial | None, monitor: Monitor) -> None:
        """Begin a trial, or the final passes, over missed documents, too."""
        super()._begin(candidate, monitor)
        if self.final is not None and self.n_accepted:
            self._learn_missed(self.model.learner)

    def _learn_missed(self, learner: OnlineLearner) -> None:
        """Add missed documents in place to those that a learner has.

        Steps are as from a start, and half of the passes do not forget.
        """
        missed, posterior = self.missed, self.posterior
        n_words = max([learner.corpus.n_features, *(X.shape[1] for X in missed)])
        rows = [with_columns(X, n_words) for X in (learner.corpus.X, *missed)]
        n_before = learner.corpus.n_docs
        corpus = Corpus(sp.vstack(rows, format="csr"))
        words = posterior.global_stats.topic_words
        if n_words > words.shape[0]:
            words.widen(n_words)
        documents = learner.cache.documents
        if hasattr(documents, "spread"):
            documents = documents.spread(np.arange(n_before), corpus.n_docs)
        posterior.global_stats.decay(corpus.n_docs / n_before)
        schedule = learner.schedule
        assert isinstance(schedule, OnlineSchedule)
        learner.schedule = replace(
            schedule,
            n_rows=corpus.n_docs,
            total_samples=corpus.n_docs,
            first_step=0,
            n_forgetting=self.n_final_passes // 2,
        ).remembering(REMEMBERED)
        learner.corpus, learner.n_passes, self.missed = corpus, 0, []
        learner.cache = RunningAverage(documents)

    def _after_births(self) -> Steps[Trial | None]:
        """Return the first reduction: the stream itself learns on."""
        if self.learns_burstiness:
            yield from self._judge_anew(self.model)
        return (yield from self._first_reduction())

    @property
    def have_begun(self) -> bool:
        """Whether the first trial has begun."""
        return bool(self.model.logs)

    def steps(self, monitor: Monitor) -> Steps[bool]:
        """Make one pass; before the first, begin the first trial, if any."""
        if self.have_begun:
            return (yield from super().steps(monitor))
        start, length, posterior = self.model, self.length, self.posterior
        state = posterior.state
        if self.suited is not None:  # the priors of the stream
            posterior.state = self.suited
            yield from self._suited_prediction(start, self.learns_burstiness)
            self.suited, posterior.state = posterior.state, state
        yield self.judge_cost
        result = self.held_out.predict(posterior, start.executor)
        n_tokens = posterior.global_stats.topic_words.tokens.sum()
        scale = self.held_out.train.n_tokens / max(n_tokens, 1e-300)
        posterior.global_stats.decay(scale)
        start.n_passes = length
        self._record(start, result)
        start.logs[(length + 1) // 2] = start.logs[length]
        yield from self._decide(start, discarding())
        return False

    @property
    def cost_of_pass(self) -> float:
        """Cost of the next pass, in local steps of documents."""
        if not self.have_begun:
            return BEGIN_COST * len(self.held_out.docs)
        n_made, length = self.run.n_passes + 1, self.length
        is_judged = self.final is None and n_made in ((length + 1) // 2, length)
        n_judges = PASS_JUDGE_COST * len(self.held_out.docs) if is_judged else 0.0
        return self.run.learner.corpus.n_docs + n_judges

    @property
    def are_over(self) -> bool:
        """Whether no pass is left."""
        return self.final is not None and (not self.n_accepted or self.has_ended)

    def predicts_better(self, posterior: HDPPosterior) -> bool:
        """Whether topics predict better than those of a stream, which cost more.

        More topics are free: of these each has brought its price in reductions.
        """
        new, old = (
            self.held_out.log_probability(
                self.held_out.predict(each, self.model.executor)
            )
            for each in (self.posterior, posterior)
        )
        gain = compare(new, old, self.n_tokens)
        n_fewer = posterior.state.n_components - self.posterior.state.n_components
        least = max(ALIKE, ALIKE_ERRORS * gain.error)
        return gain.mean + self.price * max(n_fewer, 0) > least

    def attach(self, local_step: Any) -> None:
        """Set the local step of all learners in place; None between calls."""
        self.judge_cost = JUDGE_COST + ROW_COST * len(self.held_out.docs)
        for learner in (self.model.learner, self.run.learner):
            learner.local_step = local_step

    def copied(self) -> "StreamTrials":
        """Return independent trials; what no pass changes is shared.

        Shared are documents, and the topics of the model beside a candidate.
        """
        rows = self.held_out, self.held_out.train, self.held_out.train.X
        shared: list[Any] = [*rows, self.folds, *self.missed]
        if self.run is not self.model:
            for posterior in (self.posterior, self.model.posterior):
                topic_words = posterior.global_stats.topic_words
                if not len(topic_words.known):  # these follow priors
                    shared.append(topic_words)
        local_step = self.model.learner.local_step
        self.attach(None)
        other = deepcopy(self, {id(each): each for each in shared})
        self.attach(local_step)
        return other


class PausedTrials:
    """Trials that calls continue, pass by pass or step by step.

    Saved are their state when the pass under way began, and the number of its steps
    since then: a copy, or trials read from a file, take the same steps again.
    """

    trials: StreamTrials
    n_steps: int

    def __init__(
        self, trials: StreamTrials, n_steps: int = 0, live: StreamTrials | None = None
    ) -> None:
        self.trials, self.n_steps = trials, n_steps
        self.live = live  # in memory, after these steps
        self._steps: Steps[bool] | None = None  # of the pass under way
        self._cost = 0.0  # of the next step

    def __reduce__(self) -> tuple[Any, ...]:
        return PausedTrials, (self.trials, self.n_steps)

    def resumed(self, local_step: Any) -> "PausedTrials":
        """Return trials that continue by a local step in one call; these are kept."""
        live = self.live or self.trials.copied()
        other = PausedTrials(self.trials, self.n_steps, live)
        other._steps, other._cost = self._steps, self._cost
        self.live = self._steps = None  # for one call alone
        live.attach(local_step)
        if self.n_steps and other._steps is None:
            other._begin_pass()
            for _ in range(self.n_steps):
                if other._steps is None:
                    raise ValueError(
                        "The saved trials are damaged: a pass has fewer than "
                        f"{self.n_steps} steps."
                    )
                other._step()
        live.missed = list(self.trials.missed)  # which calls extend
        return other

    def advance(self, n_visits: float) -> bool:
        """Take steps that cost `n_visits` local steps of documents.

        At least one if `n_visits` is positive. Returns whether no step is left.
        """
        n_spent = 0.0
        while n_visits > 0.0 and not self._live.are_over:
            if self._steps is None:
                self._begin_pass()
            if n_spent and n_spent + self._cost > n_visits:
                break
            n_spent += self._cost
            self._step()
        return self._live.are_over

    @property
    def _live(self) -> StreamTrials:
        assert self.live is not None
        return self.live

    def _begin_pass(self) -> None:
        """Keep a copy of the trials, and begin the steps of a pass."""
        self.trials, self.n_steps = self._live.copied(), -1
        self._steps = self._live.steps(discarding())
        self._step()

    def _step(self) -> None:
        """Take a step, and record the cost of the next one."""
        assert self._steps is not None
        try:
            self._cost = next(self._steps)
            self.n_steps += 1
        except StopIteration:
            self.trials, self.n_steps, self._steps = self._live, 0, None

    def paused(self) -> "PausedTrials":
        """Return the trials to keep until a later call."""
        self._live.attach(None)
        if self._steps is None:
            return PausedTrials(self._live)
        self.trials = copy(self.trials)
        self.trials.missed = self._live.missed  # of no pass
        return self


def begin_on_sample(
    posterior: HDPPosterior,
    make_learner: Callable[[HDPPosterior], OnlineLearner],
    held_out: HeldOut,
    moves: SplitMerge,
    **priors: Any,
) -> StreamTrials:
    """Return trials on the sample of a stream, as a copy of the posterior.

    The totals of the copy stand for the sample alone. `priors` are the settings by
    which `HeldOutTrials` learn priors.
    """
    learner = make_learner(posterior)
    beside = learner.posterior = posterior.copy()
    beside.reservoir = beside.outliers = None
    return StreamTrials(
        learner,
        held_out,
        moves,
        passes_left=sys.maxsize,
        finish=None,
        n_final_passes=moves.trial_passes,  # the stream goes on
        **priors,
        suited=posterior.state,
    )


def share(
    trials: StreamTrials,
    posterior: HDPPosterior,
    n_docs: float,
    monitor: Monitor,
) -> None:
    """Give a stream of `n_docs` documents the topics of its trials, in place.

    Topics that are the same keep their ids.
    """
    result, reservoir = trials.posterior, posterior.reservoir
    assert reservoir is not None
    result.global_stats.decay(n_docs / trials.model.learner.corpus.n_docs)
    result.global_stats.topic_words.trim()
    n_words = posterior.global_stats.topic_words.shape[0]
    if n_words > result.global_stats.topic_words.shape[0]:  # new terms came meanwhile
        result.global_stats.topic_words.widen(n_words)
    result.set_state(by_tables=result.state.burstiness is not None)
    result.ids, log = aligned_ids(
        posterior, result, reservoir.sample(), trials.model.executor
    )
    with commit():
        posterior.adopt(result, monitor, log)
        posterior.alike = min(trials.alike), max(trials.alike)
        posterior.gains = tuple(trials.gains)
        posterior.step_origin = posterior.n_steps - trials.model.learner.n_updates


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

    def expected_tokens(
        self, shares: Array, topics: Array, n_words: int = 0
    ) -> tuple[Array, Array]:
        """Expected tokens of components in documents, (n, 1 + T).

        And those of new topics by word, (T, n_words), if all words are counted.
        """
        tokens, sums = np.empty_like(shares), np.empty((n_words, len(topics)))
        columns = np.ascontiguousarray(topics.T)
        late_topics_step(*self, shares, columns, tokens, sums)
        return tokens, sums.T

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
    whether topics were proposed, which takes as long as the trials of a call. `scores`
    are those of the documents `X`, (n_docs,), and `place` the number of the chunk in
    its call.
    """
    entropy, reservoir = posterior.seed_entropy, posterior.reservoir
    assert reservoir is not None
    outliers = posterior.outliers or Outliers.empty(X.shape[1])
    if outliers.proposal is not None:
        born = outliers.born
        rng = stream(entropy, Purpose.MOVE, posterior.n_steps, 1 + place)
        outliers = judge_proposal(posterior, outliers, X, rng, executor, monitor)
        if outliers.born != born:
            posterior.trials = None  # of topics without these
    without = _provisional_columns(posterior, outliers)
    if without:  # they are to be learned anew from all of their documents
        scores = score_documents(posterior, X, executor, without)
    bad = reservoir.select_learned(X[reservoir.are_outliers(scores)], entropy)
    outliers = outliers.with_documents(bad)
    outliers = outliers.advance_ages(X.shape[0], MOST_JUDGES, posterior.ids)
    has_drifted = reservoir.has_drifted
    is_free = posterior.trials is None or has_drifted
    proposes = is_free and outliers.is_due(has_drifted or bool(outliers.provisional))
    if proposes:
        rng = stream(entropy, Purpose.MOVE, posterior.n_steps, 1 + place, 1)
        outliers = propose(posterior, outliers, rng, executor)
        posterior.reservoir = reservoir.reset_cusum()
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
        for _ in range(n_rounds):
            tokens, sums = mixture.expected_tokens(shares, topics, self.n_words)
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

    Topics that are most alike are joined until one is left. Half of the tokens of each
    document, predicted from the other half, tell how many there are.
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
    large = _large(tokens)
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


def _large(tokens: Array) -> list[int]:
    """Positions of topics with enough tokens and documents, of (n_docs, T)."""
    is_large = tokens.sum(axis=0) >= FEWEST_TOKENS
    is_large &= (tokens >= 1.0).sum(axis=0) >= FEWEST_DOCS
    return np.flatnonzero(is_large).tolist()


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
        add_topics(posterior, topics, np.minimum(shares, MOST_SHARE))
        born = posterior.ids[len(posterior.ids) - len(chosen) :]
        outliers = outliers.with_births(born)
        monitor.recount(posterior)
    is_left = proposal.n_judges < MOST_JUDGES
    is_left[chosen] = False
    if not (is_left.any() or len(chosen)):
        return outliers.wait_longer()
    return outliers.with_proposal(proposal.take(is_left))


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
