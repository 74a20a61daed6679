"""Trials of other numbers of topics of an HDP, judged by held-out documents.

Topics are learned from all documents except held-out ones. Candidates with three times
as many topics learn as long, and replace the model if they predict these better, as
long as nearly all topics live. Then the model learns on while its prediction improves;
topics explain tables instead of tokens, if that predicts no worse; topics without which
prediction is no worse, or which bring less than their price, are merged or end, several
at a time. At last a copy learns from all documents, by steps as from a start, with
topics of held-out documents if many are of one document. The topic prior predicts words
of held-out documents from others best.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from skbnp.components.topics import HIGHEST
from skbnp.inference.engine import (
    Learner,
    PassLearner,
    RunningAverage,
)
from skbnp.inference.executor import Executor, commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.protocols import Corpus, DocumentLocalStep
from skbnp.models.hdp import births as held_out_moves
from skbnp.models.hdp import held_out as priors
from skbnp.models.hdp.births import (
    add_document_births,
    join_topics_of_one_document,
)
from skbnp.models.hdp.held_out import SECOND_HALF, Gain, HeldOut, Prediction, compare
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array

OnlineLearner = Learner[HDPPosterior, Corpus, DocumentLocalStep, RunningAverage]
Kind = Literal["start", "births", "continuation", "reduction", "merge of all", "tables"]

#: Nats per token that twice as many topics must gain, more than two equivalent ones may
#: differ.
GAIN_OF_TWICE = 0.005
#: Nats per token, or standard errors, within which predictions are equivalent.
MARGIN, MARGIN_ERRORS = 0.002, 0.25
#: Nats per token that word frequencies may lose: half of what a merge of all may.
WORDS_LOSS = MARGIN / 2.0
#: Standard errors by which fewer topics may predict worse if words are repeated, and at
#: most so many nats per token. (Without repeats titles lose up to .08 by this rule.)
FEWER_ERRORS, FEWER_COST = 1.0, 0.01
#: Where topics have a smaller share in the probability of tokens, what documents have
#: shown predicts all that is to come, and tokens cannot tell numbers of topics.
FEWEST_FIRST_USES = 0.05
#: Twice as far behind, half as many changes are tried; if topics have a price, these
#: are standard errors behind the best, and from there no fewer topics are tried.
NEAR = 2.0
#: Standard errors by which a reduction must gain to be the posterior before the end.
SURE_ERRORS = 2.0
#: Steps of the topic prior before the model goes on, at most.
MOST_STEPS = 5
#: Nats per token that reductions of a trial, if several, may cost, as predicted.
BUDGET = 0.001
#: A reduction of a smaller share of the topics is the last.
FEW = 0.03
#: Rejections in a row of a single merge or end, each time of the next cheapest, until
#: none is tried.
MOST_REJECTED = 4
#: Runs that are judged when half of their passes are made, too: births are many, and
#: often fall behind.
COMPARED_AT_HALF = ("start", "births", "merge of all")
#: Reductions that there must be time for after the model has gone on.
REDUCTIONS = 2
#: Share of the topics that a reduction merges or ends at least if topics have a price.
LEAST_REDUCED = 0.2
#: Share of a pass that the last minibatches of forgetting stand for, at least: where
#: they are many, steps as from a start would leave hardly any of the corpus.
REMEMBERED = 1.0 / 3.0


@dataclass(slots=True)
class Trial:
    """A learner on trial: its passes, and held-out log probabilities after them."""

    kind: Kind
    learner: OnlineLearner
    monitor: Monitor  # of a candidate, whose updates are not the model's
    n_started: int  # topics
    prior_started: float  # of topics
    n_changes: int  # births, or merges and ends
    prior_falls: bool = True  # whether the last step of the topic prior was far down
    n_passes: int = 0
    gain: float = 0.0  # of an accepted trial, nats per held-out token
    logs: dict[int, Array] = field(default_factory=dict)
    result: Prediction | None = None  # after the last pass, until it is used
    over_words: Gain | None = None  # if recorded

    @property
    def posterior(self) -> HDPPosterior:
        """The posterior that the trial learns."""
        return self.learner.posterior

    @property
    def executor(self) -> Executor:
        """The executor of the local step."""
        return self.learner.local_step.executor

    @property
    def n_topics(self) -> int:
        """Present number of topics."""
        return self.posterior.state.n_components


@dataclass(eq=False, repr=False)
class HeldOutTrials(PassLearner[HDPPosterior]):
    """Passes with trials judged by held-out documents, then final passes over all.

    Of K topics with the held-out log probability s(K) per token, trials look for the
    largest s(K) - K rho (s* - s(1)), where s* is the largest s so far and rho is
    `min_gain`: a topic must bring the share rho of what all topics bring.
    """

    learner: InitVar[OnlineLearner]  # at its start, over documents not held out
    held_out: HeldOut
    moves: SplitMerge
    passes_left: int  # no trial begins that could not be completed
    #: Makes the learner over everything.
    finish: Callable[[HeldOut, HDPPosterior, OnlineLearner], PassLearner]
    _: KW_ONLY
    n_final_passes: int  # over everything, the first half of them beside the model
    folds_words: bool = False  # whether the topic prior is learned
    #: Largest topic prior learned until topics have grown; a larger one ends many.
    prior_limit: float = HIGHEST
    learns_burstiness: bool = False
    length: int = 0  # passes of a run; 0 for those that `moves` ask for
    min_gain: float = 0.0  # least share of the gain of all topics that one must bring
    posterior: HDPPosterior = field(init=False)
    n_tokens: Array = field(init=False)  # of each judge
    n_trials: int = 0
    n_accepted: int = 0
    final: PassLearner | None = None  # over everything
    is_complete: bool = False  # no trial is left
    n_final: int = 0  # passes of `final`
    model: Trial = field(init=False)
    run: Trial = field(init=False)  # of the model or of a candidate
    best: dict[int, Array] = field(init=False)  # of the reductions
    n_best: int = 0  # topics that predicted these
    #: Held-out log probabilities by number of topics, from the first reduction on.
    path: dict[int, Array] = field(default_factory=dict)
    #: Numbers of topics, and their gain over one topic with the same repeats of words.
    gains: list[tuple[int, float]] = field(default_factory=list)
    knows_repeats: bool = False
    tries_tables: bool = field(init=False)
    equivalent: list[int] = field(default_factory=list)  # numbers that predict as well
    #: Of the model over word frequencies at the end of trials, and its standard error.
    gain: tuple[float, float] | None = None
    is_halving: bool = False  # whether fewer changes at a time are tried
    # Of priced reductions: what the present one reduces, what the best one reduced, and
    # what remains to be tried near that, with numbers of changes.
    origin: Trial | None = None
    above: Trial | None = None
    finer: list[tuple[Trial, int]] = field(default_factory=list)
    may_reduce: bool = True
    n_rejected: int = 0  # single reductions since the last accepted one

    def __post_init__(self, learner: OnlineLearner) -> None:
        posterior = self.posterior = learner.posterior
        posterior.set_state(
            burstiness=None,
            by_tables=False,
            prediction_concentration=0.0,
            background_weight=0.0,
        )
        self.length = self.length or self.moves.trial_passes
        self.n_tokens = self.held_out.n_tokens
        self.tries_tables = self.learns_burstiness
        self.model = self.run = self._new_run("start", learner)
        self.best = self.model.logs

    @cached_property
    def folds(self) -> list[priors.WordFold]:
        """Folds of words of the held-out documents, if the topic prior is learned."""
        return priors.fold_words(self.held_out) if self.folds_words else []

    @property
    def has_ended(self) -> bool:
        """Whether final passes are over; False if an exact bound ends the fit."""
        final, is_level = self.final, self.n_final >= self.n_final_passes
        has_sums = isinstance(final, Learner) and final.cache.holds_corpus
        return is_level and not (has_sums and self.posterior.model.has_bound)

    @property
    def n_updates(self) -> int:
        """Number of updates made; step sizes decrease with it."""
        return (self.final or self.model.learner).n_updates

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; return whether to test convergence."""
        self.passes_left -= 1
        if self.final is not None:
            return self._final_pass(self.final, monitor)
        run, length = self.run, self.length
        run.learner.one_pass(monitor if run is self.model else run.monitor)
        run.n_passes += 1
        is_half, is_over = run.n_passes == (length + 1) // 2, run.n_passes == length
        if is_over or (is_half and run.kind in COMPARED_AT_HALF):
            self._record(run, self._choose_and_predict(run))
        elif is_half:
            self._choose_prior(run)
        if is_half and not is_over:  # topics change in place
            run.result = None
            if run.kind == "births":  # may end
                gain = self._gain(run, self.model.logs, self.model.n_topics)
                is_over = gain.mean < -gain.error
        if is_over:
            self._decide(run, monitor)
        return False

    def _final_pass(self, learner: PassLearner, monitor: Monitor) -> bool:
        """Learn from all documents, at first by a copy beside the model."""
        n_beside = self.n_final_passes // 2
        is_beside = learner.posterior is not self.posterior
        is_exact_pass = learner.one_pass(discarding() if is_beside else monitor)
        self.n_final += 1
        if is_beside and self.n_final >= n_beside:
            self._adopt(learner, monitor)
            self.posterior.trials_ended = self.is_complete
            self.posterior.equivalent = min(self.equivalent), max(self.equivalent)
            self.posterior.held_out_gain = self.gain
            self.posterior.gains = tuple(self.gains)
        return is_exact_pass and self.n_final > n_beside + 1

    def _record(self, run: Trial, result: Prediction) -> None:
        """Record a prediction and its log probabilities after the passes made."""
        run.result = result
        run.logs[run.n_passes] = self.held_out.log_probability(result)

    def _choose_prior(self, run: Trial) -> None:
        """Set the topic prior in place to what predicts best, if it is learned."""
        posterior, executor = run.posterior, run.executor
        with commit():
            posterior.global_stats.topic_words.trim()
        if not self.folds:
            return
        if run.kind == "merge of all":  # as words have been judged
            _, prior = self.held_out.log_probability_of_words(
                posterior.state.burstiness, posterior, executor, learns_prior=True
            )
            posterior.set_state(topic_word_prior=prior)
        else:
            has_grown = run.kind in ("continuation", "reduction", "tables")
            limit = HIGHEST if has_grown else self.prior_limit
            run.prior_falls = priors.choose_prior(
                self.folds, posterior, limit, executor
            )

    def _predict_by_best(self, run: Trial, repeats: bool) -> Prediction:
        """Set the best concentration and, if `repeats`, burstiness; predict."""
        return priors.choose_priors(
            self.held_out, run.posterior, run.executor, repeats=repeats
        )

    def _choose_and_predict(self, run: Trial) -> Prediction:
        """Set the best parameters in place, and predict held-out documents."""
        if run.kind == "start" and run.n_passes < self.length:  # topics form first
            return self.held_out.predict(run.posterior, run.executor)
        self._choose_prior(run)
        # Where topics have a price, one with repeats would replace them at last.
        may_learn = not self.price or run.posterior.state.burstiness is not None
        repeats = self.knows_repeats and may_learn
        return self._predict_by_best(run, repeats)

    @property
    def price(self) -> float:
        """Nats per held-out token that each topic must bring."""
        return self.min_gain * max((gain for _, gain in self.gains), default=0.0)

    def _gain(self, run: Trial, others: dict[int, Array], n_others: int) -> Gain:
        """Held-out gain over `n_others` topics after as many passes, less the price.

        The price is of reductions alone: births that bring less end in these.
        """
        goes_on = run.kind in ("continuation", "tables")
        is_less = run.kind in ("reduction", "merge of all")
        n_passes = max(others) if goes_on else run.n_passes
        new, old = run.logs[run.n_passes], others[n_passes]
        judges = SECOND_HALF if run.kind == "reduction" else slice(None)
        gain = compare(new[judges], old[judges], self.n_tokens[judges])
        n_more = run.n_topics - n_others if is_less else 0
        return gain._replace(mean=gain.mean - self.price * n_more)

    # -- decisions --------------------------------------------------------------------

    def _decide(self, run: Trial, monitor: Monitor) -> None:
        """Accept or reject the run that has ended; begin the next trial, if any."""
        if run.n_passes == self.length:
            self._record_gain(run)
        if run.kind == "start":
            more = self._births(run)
            self._begin(more or self._after_births())
            return
        model, is_less = self.model, run.kind in ("reduction", "merge of all")
        others = (self.best, self.n_best) if is_less else (model.logs, model.n_topics)
        gain = self._gain(run, *others)
        accepted = self._is_accepted(run, gain)
        what = "tables" if run.kind == "tables" else f"{run.n_topics} topics"
        monitor.report(
            f"trial of {what} {'accepted' if accepted else 'rejected'}: "
            f"held-out documents gain {gain.mean:.4f} +- {gain.error:.4f} nats"
        )
        if accepted:
            is_sure = gain.mean > SURE_ERRORS * gain.error and not self.price
            if run.kind != "tables" and (run.kind != "reduction" or is_sure):
                self._adopt(run.learner, monitor)
            # Otherwise the posterior, which is as good, stays until the end.
            self.model, self.n_accepted, run.gain = run, self.n_accepted + 1, gain.mean
        elif run.kind != "reduction" or not self.price:
            # Its topics are free before others begin; priced reductions go on there.
            self.run, run.learner, run.result = self.model, self.model.learner, None
        more = None
        if run.kind == "reduction":
            more = self._next_reduction(run, gain, accepted)
        elif run.kind == "continuation" and accepted:
            more = self._after_births()
        elif run.kind in ("continuation", "tables"):
            more = self._first_reduction()
        else:  # one topic is as a start with one: the others predicted nothing more
            if accepted:
                more = self._births(run)
            if run.kind == "births":
                more = more or self._after_births()
        self._begin(more)

    def _next_reduction(self, run: Trial, gain: Gain, accepted: bool) -> Trial | None:
        """Return the trial of a further reduction after that of a run, or None."""
        if gain.mean > 0.0:
            self.best, self.n_best = run.logs, run.n_topics
        if accepted or run.n_topics not in self.path:
            self.path[run.n_topics] = run.logs[run.n_passes]
        if self.price:
            return self._next_priced_reduction(run, gain, accepted)
        self.is_halving |= not accepted
        self.n_rejected = 0 if accepted else self.n_rejected + (run.n_changes == 1)
        most = max(run.n_changes // 2, 1) if self.is_halving else None
        n_next = run.n_changes if most is None else most
        is_few = n_next < FEW * (run.n_started + run.n_changes)
        is_over = self.n_rejected >= MOST_REJECTED
        is_near = self.knows_repeats and gain.mean > -NEAR * self._cost(run, gain)
        is_near |= self.n_rejected > 0  # another one may be better
        if (accepted or is_near) and not is_few and not is_over:
            return self._reduction(self.model, most)
        return None

    def _next_priced_reduction(
        self, run: Trial, gain: Gain, accepted: bool
    ) -> Trial | None:
        """Return the trial of a further reduction of topics that have a price.

        Down to numbers that are clearly worse than the best one. Then by fewer changes,
        half as many each time: of what the best one was reduced from while that gains;
        else of the best one until that gains.
        """
        self.n_rejected += not accepted
        if not self.is_halving:
            self.above = self.origin if accepted else self.above
            if gain.mean > -NEAR * gain.error and run.n_topics > 2:
                self.origin = run
                return self._reduction(run)
            self.is_halving, model = True, self.model
            sides = [(model, int(LEAST_REDUCED * model.n_topics))]
            if self.above is not None:
                sides.insert(0, (self.above, model.n_changes))
            self.finer = [
                (origin, most >> halved)
                for origin, most in sides
                for halved in range(1, most.bit_length())
            ]
        elif accepted or self.origin is self.above:
            goes_on = accepted and self.origin is self.above
            self.finer = [
                step for step in self.finer if (step[0] is self.origin) == goes_on
            ]
        if not self.finer:
            return None
        self.origin, n_changes = self.finer.pop(0)
        return self._reduction(self.origin, n_changes)

    def _is_accepted(self, run: Trial, gain: Gain) -> bool:
        """Whether a trial gains enough or, with fewer topics, loses little."""
        error = MARGIN_ERRORS * gain.error
        if run.kind == "births":
            n_twice = np.log2(max(run.n_topics / self.model.n_topics, 1.0))
            is_better = gain.mean > max(error, GAIN_OF_TWICE * n_twice)
            return run.n_passes == self.length and bool(is_better)
        if run.kind == "continuation":
            return gain.mean > max(error, MARGIN)
        if run.kind == "tables" and run.n_passes < self.length:
            return False
        return gain.mean >= -self._cost(run, gain)

    def _cost(self, run: Trial, gain: Gain) -> float:
        """Loss, nats per token, that fewer topics may have; none if topics cost."""
        if self.price and run.kind == "reduction":
            return 0.0
        cost = MARGIN_ERRORS * gain.error
        is_bursty = run.posterior.state.burstiness is not None
        if is_bursty and run.kind == "reduction":
            cost = min(FEWER_ERRORS * gain.error, FEWER_COST)
        return max(cost, MARGIN)

    def _after_births(self) -> Trial | None:
        """Return a trial that learns on, or reductions if too few passes are left.

        Mean-field topics do not: exact passes would change the kind of step.
        """
        run = self.model
        self._judge_anew(run)
        n_both = (1 + REDUCTIONS) * self.length + self.n_final_passes
        is_early = self.passes_left < n_both or self.posterior.model.has_bound
        logs = run.logs[run.n_passes]
        if is_early or self.held_out.is_matched_by_words(
            run.posterior, logs, run.executor, WORDS_LOSS, learns_prior=self.folds_words
        ):
            return self._first_reduction()
        return self._new_run("continuation", run.learner)

    def _judge_anew(self, run: Trial) -> None:
        """Score a run again as reductions are scored, once births have ended.

        The topic prior is no longer limited, and burstiness is learned. Births must not
        learn it: one topic with repeats explains as much as a few topics.
        """
        posterior = run.posterior
        is_at_limit = posterior.state.topic_word_prior >= self.prior_limit
        is_limited = run.kind != "continuation" and is_at_limit
        learns_prior = bool(self.folds) and (is_limited or run.prior_falls)
        is_first = self.learns_burstiness and not self.knows_repeats
        self.knows_repeats = self.learns_burstiness
        if run.result is None or not (learns_prior or is_first):
            return
        for _ in range(MOST_STEPS if learns_prior else 0):
            if not priors.choose_prior(self.folds, posterior, HIGHEST, run.executor):
                break
        result = self._predict_by_best(run, self.knows_repeats)
        if is_first and self.held_out.first_uses(result) < FEWEST_FIRST_USES:
            self.learns_burstiness = self.knows_repeats = False
            posterior.set_state(burstiness=None)
            result = self.held_out.predict(posterior, run.executor)
        self._record(run, result)
        self.gains = []  # those so far are of states without repeats
        self._record_gain(run)

    def end_births(self) -> None:
        """Keep the number of topics of the model, without reductions."""
        model, self.may_reduce = self.model, False
        self.knows_repeats, model.n_passes = self.learns_burstiness, self.length
        self._record(model, self.held_out.predict(model.posterior, model.executor))
        self._begin(self._first_reduction())

    def _first_reduction(self) -> Trial | None:
        """Return the trial of topics that explain tables, or the first reduction."""
        model = self.model
        if self.tries_tables and model.posterior.state.burstiness is not None:
            self.tries_tables = False
            trial = self._new_run("tables", model.learner)
            trial.posterior.set_state(by_tables=True)
            return trial
        self.best, self.n_best = model.logs, model.n_topics
        self.path[model.n_topics] = model.logs[max(model.logs)]
        self.origin = model
        return self._reduction(model) if self.may_reduce else None

    def _begin(self, candidate: Trial | None) -> None:
        """Begin a trial if passes for it are left; else the final passes."""
        enough = self.passes_left >= self.length + self.n_final_passes
        if candidate is not None and enough:
            self.run = candidate
            return
        # After a rejected one, another single reduction is optional.
        self.is_complete = candidate is None or self.n_rejected > 0
        self.equivalent = self._equivalent_numbers()
        self.run, self.model.result = self.model, None  # what others held is free
        self.origin, self.above, self.finer = None, None, []
        if self.gain is None:
            gain = self.model.over_words or self._gain_over_words(self.model)
            self.gain = gain.mean, gain.error
        last = self.model.learner
        posterior = last.posterior.copy()
        if isinstance(self.held_out.train, Corpus):
            train, executor = self.held_out.train, self.run.executor
            join_topics_of_one_document(posterior, train, executor)
        if self.moves.births:
            add_document_births(
                posterior, self.held_out, MARGIN, self.price, self.run.executor
            )
        posterior.step_origin = posterior.n_steps  # steps as from a start
        self.final = self.finish(self.held_out, posterior, last)
        last.posterior = self.posterior  # its topics are in the copy

    def _equivalent_numbers(self) -> list[int]:
        """Numbers of topics, of those that reductions compared, as good as the best."""
        n_tokens, size = self.n_tokens[SECOND_HALF], self.price
        nets = {
            n: logs[SECOND_HALF] - size * n * n_tokens for n, logs in self.path.items()
        }
        best = max(nets, key=lambda n: nets[n].sum(), default=None)
        if best is None or len(n_tokens) < 2:  # passes, or judges, were too few
            return [self.model.n_topics]
        return equivalent_numbers(nets, best, n_tokens)

    def _record_gain(self, run: Trial) -> None:
        """Record what the topics of a run gain over one, if topics have a price."""
        if self.min_gain:
            run.over_words = self._gain_over_words(run)
            self.gains.append((run.n_topics, run.over_words.mean))

    def _gain_over_words(self, run: Trial) -> Gain:
        """Gain of a run over one topic with the same repeats of words."""
        posterior, logs = run.posterior, run.logs[run.n_passes]
        words, _ = self.held_out.log_probability_of_words(
            posterior.state.burstiness,
            posterior,
            run.executor,
            learns_prior=self.folds_words,
        )
        return compare(logs, words, self.n_tokens)

    def _adopt(self, learner: PassLearner, monitor: Monitor) -> None:
        """Replace the model's globals by those of a learner, which then learns them."""
        posterior = self.posterior
        with commit():
            posterior.adopt(learner.posterior, monitor)
            posterior.step_origin = posterior.n_steps - learner.n_updates
        learner.posterior = posterior

    # -- proposals --------------------------------------------------------------------

    def _births(self, run: Trial) -> Trial | None:
        """Return a trial with three times as many topics, unless many have died."""
        now, train = self.posterior, self.held_out.train
        most, started = train.n_docs, (run.n_started, run.prior_started)
        n_births = held_out_moves.number_of_births(run.posterior, most, *started)
        may_add = self.moves.births and run.posterior.state.burstiness is None
        may_add &= n_births * self.min_gain < 1.0  # or they cost more than all gain
        if n_births < 1 or not may_add:
            return None
        rng = stream(now.seed_entropy, Purpose.MOVE, now.n_steps, self.n_trials)
        posterior = held_out_moves.propose_births(now, train, n_births, rng)
        return self._new_run("births", run.learner, posterior, n_births, True)

    def _reduction(self, run: Trial, limit: int | None = None) -> Trial | None:
        """Return a trial without topics that prediction does not need, or None.

        With one topic, if word frequencies predict as well as all topics. After a
        rejected reduction, `limit` is the largest number of changes.
        """
        proposal, run.result = run.result, None
        if proposal is None and limit is not None:
            proposal = self.held_out.predict(run.posterior, run.executor)
        if proposal is None or run.n_topics < 2:
            return None
        kind: Kind = "reduction"
        posterior, logs = run.posterior.copy(), run.logs[run.n_passes]
        if self.held_out.is_matched_by_words(
            run.posterior, logs, run.executor, WORDS_LOSS, learns_prior=self.folds_words
        ):
            kind, n_changes = "merge of all", held_out_moves.merge_all(posterior)
        else:
            choosers = self.held_out.half(0, proposal)
            del proposal
            cheapest = held_out_moves.reductions(posterior, *choosers)
            if not self.price:
                cheapest = cheapest[self.n_rejected :]  # the others were tried
            del choosers
            least = max(int(LEAST_REDUCED * run.n_topics), 1) if self.price else 1
            n_changes = held_out_moves.reduce(posterior, cheapest, BUDGET, limit, least)
        if n_changes == 0:
            return None
        # A model that has gone on keeps its step sizes.
        is_young = run.learner.n_passes <= self.length
        return self._new_run(kind, run.learner, posterior, n_changes, is_young)

    def _new_run(
        self,
        kind: Kind,
        learner: OnlineLearner,
        posterior: HDPPosterior | None = None,
        n_changes: int = 0,
        restarts: bool = False,
    ) -> Trial:
        """Return a trial, and count it: a start learns as it is, others are forks."""
        if kind != "start":
            documents = learner.cache.documents
            kept = documents.empty() if kind == "births" else documents.copy()
            new = learner.posterior.copy() if posterior is None else posterior
            learner = learner.fork(new, RunningAverage(kept), restarts=restarts)
        self.n_trials, state = self.n_trials + 1, learner.posterior.state
        size, eta = state.n_components, state.topic_word_prior
        return Trial(kind, learner, discarding(), size, eta, n_changes)


def equivalent_numbers(nets: dict[int, Array], best: int, n_tokens: Array) -> list[int]:
    """Numbers of topics within one standard error of the best one, and this itself.

    `nets` are log probabilities of documents by number, less penalties, (n_docs,).
    """
    losses = {n: compare(nets[best], net, n_tokens) for n, net in nets.items()}
    return [n for n, loss in losses.items() if loss.mean <= loss.error]
