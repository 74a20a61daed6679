"""Trials of other numbers of topics of an HDP, judged by held-out documents.

Topics are learned from all documents except held-out ones. Candidates with three times
as many topics learn as long, and replace the model if they predict these better, as
long as nearly all topics live. Then the model learns on while its prediction improves;
topics explain tables instead of tokens, if that predicts no worse; topics without which
prediction is no worse, or which bring less than the penalty, are merged or end, several
at a time. At last a copy learns from all documents, by steps as from a start. The topic
prior predicts words of held-out documents from others best.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from skbnp.components.topics import HIGHEST
from skbnp.inference.engine import Learner, MadePass, Passes, RunningAverage
from skbnp.inference.executor import Executor, commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.protocols import Corpus, DocumentLocalStep
from skbnp.models.hdp import births as held_out_moves
from skbnp.models.hdp import held_out as priors
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
#: Standard errors by which fewer topics may predict worse if words are repeated, and at
#: most so many nats per token. (Without repeats titles lose up to .08 by this rule.)
FEWER_ERRORS, FEWER_COST = 1.0, 0.01
#: Where topics have a smaller share in the probability of tokens, what documents have
#: shown predicts all that is to come, and tokens cannot tell numbers of topics.
FEWEST_FIRST_USES = 0.05
#: Twice as far behind, half as many changes are tried; if topics have a penalty, these
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
#: Trials that are judged when half of their passes are made, too: births are many, and
#: often fall behind.
COMPARED_AT_HALF = ("start", "births", "merge of all")
#: Reductions that there must be time for after the model has gone on.
REDUCTIONS = 2
#: Share of the topics that a reduction merges or ends at least if there is a penalty.
LEAST_REDUCED = 0.2
#: Share of a pass that the last minibatches of forgetting stand for, at least: where
#: they are many, steps as from a start would leave hardly any of the corpus.
REMEMBERED = 1.0 / 3.0


def margin(gain: Gain) -> float:
    """Nats per token within which predictions are equivalent."""
    return max(MARGIN, MARGIN_ERRORS * gain.error)


class NoPassesLeft(Exception):
    """A trial could not be completed."""


@dataclass(slots=True)
class Trial:
    """A learner on trial: its passes, and held-out log probabilities after them."""

    kind: Kind
    learner: OnlineLearner
    n_started: int  # topics
    prior_started: float  # of topics
    n_changes: int  # births, or merges and ends
    prior_falls: bool = True  # whether the last step of the topic prior was far down
    n_passes: int = 0
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
class HeldOutTrials:
    """Trials judged by held-out documents, then final passes over all documents.

    Of K topics with the held-out log probability s(K) per token, trials look for the
    largest s(K) - K rho (s* - s(1)), where s* is the largest s so far and rho is
    `min_gain`: a topic must bring the share rho of what all topics bring.
    """

    learner: InitVar[OnlineLearner]  # at its start, over documents not held out
    held_out: HeldOut
    moves: SplitMerge
    passes_left: int  # no trial begins that could not be completed
    #: Makes the learner over everything.
    finish: Callable[[HeldOut, HDPPosterior, OnlineLearner], Learner]
    _: KW_ONLY
    n_final_passes: int  # over everything, the first half of them beside the model
    folds_words: bool = False  # whether the topic prior is learned
    #: Largest topic prior learned until topics have grown; a larger one ends many.
    prior_limit: float = HIGHEST
    learns_burstiness: bool = False
    length: int = 0  # passes of a trial; 0 for those that `moves` ask for
    min_gain: float = 0.0  # least share of the gain of all topics that one must bring
    posterior: HDPPosterior = field(init=False)
    model: Trial = field(init=False)  # accepted last
    monitor: Monitor = field(default_factory=discarding)  # of the present pass
    n_tokens: Array = field(init=False)  # of each judge
    n_trials: int = 0
    is_complete: bool = False  # no trial is left
    final: Learner | None = None  # over everything, once trials have ended
    knows_repeats: bool = False
    #: Held-out log probabilities by number of topics, from the first reduction on.
    path: dict[int, Array] = field(default_factory=dict)
    #: Numbers of topics, and their gain over one topic with the same repeats of words.
    gains: list[tuple[int, float]] = field(default_factory=list)
    equivalent: list[int] = field(default_factory=list)  # numbers that predict as well
    #: Of the model over word frequencies at the end of trials, and its standard error.
    gain: tuple[float, float] | None = None

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
        self.model = self._new_trial("start", learner)

    @cached_property
    def folds(self) -> list[priors.WordFold]:
        """Folds of words of the held-out documents, if the topic prior is learned."""
        return priors.fold_words(self.held_out) if self.folds_words else []

    @property
    def penalty(self) -> float:
        """Nats per held-out token that each topic must bring."""
        return self.min_gain * max((gain for _, gain in self.gains), default=0.0)

    # -- the search -------------------------------------------------------------------

    def passes(self) -> Passes[None]:
        """Make all passes: of the search, then over all documents."""
        yield from self.search()
        yield from self.learn_all()

    def search(self) -> Passes[None]:
        """Learn; try births, further passes, tables, and reductions, in this order.

        Births begin again from one topic if it predicts as well as all.
        """
        with self._until_no_passes_are_left():
            yield from self._learn(self.model)
            births = self._births(self.model)
            while True:
                while births is not None:
                    accepted, _ = yield from self._try(births)
                    births = self._births(births) if accepted else None
                yield from self._learn_on()
                yield from self._explain_tables()
                was_one = self.model.kind == "merge of all"
                yield from self._reduce()
                if self.model.kind == "merge of all" and not was_one:
                    births = self._births(self.model)
                if births is None:
                    break

    def keep_number(self) -> None:
        """End the search with the number of topics and the priors of the model."""
        model = self.model
        is_bursty = model.posterior.state.burstiness is not None
        self.knows_repeats, model.n_passes = self.learns_burstiness, self.length
        self._record(model, self.held_out.predict(model.posterior, model.executor))
        with self._until_no_passes_are_left():
            model.posterior.set_state(by_tables=is_bursty)

    @contextmanager
    def _until_no_passes_are_left(self) -> Iterator[None]:
        """End trials, also those that are broken off; make the learner of all."""
        try:
            yield
            self.is_complete = True
        except NoPassesLeft:
            pass
        self.equivalent = self._equivalent_numbers()
        self.model.result = None
        if self.gain is None:
            gain = self.model.over_words or self._gain_over_words(self.model)
            self.gain = gain.mean, gain.error
        last = self.model.learner
        posterior = last.posterior.copy()
        if isinstance(self.held_out.train, Corpus):
            train, executor = self.held_out.train, self.model.executor
            held_out_moves.join_topics_of_one_document(posterior, train, executor)
        posterior.step_origin = posterior.n_steps  # steps as from a start
        self.final = self.finish(self.held_out, posterior, last)
        last.posterior = self.posterior  # its topics are in the copy

    def learn_all(self) -> Passes[None]:
        """Learn from all documents, at first by a copy beside the model."""
        final, n_passes, result = self.final, 0, MadePass()
        assert final is not None
        n_beside = self.n_final_passes // 2
        has_bound = final.cache.holds_corpus and self.posterior.model.has_bound
        while True:
            self.monitor = yield result
            is_beside = final.posterior is not self.posterior
            is_exact = final.one_pass(discarding() if is_beside else self.monitor)
            n_passes += 1
            if is_beside and n_passes >= n_beside:
                self._adopt(final)
                self.posterior.trials_ended = self.is_complete
                self.posterior.equivalent = min(self.equivalent), max(self.equivalent)
                self.posterior.held_out_gain = self.gain
                self.posterior.gains = tuple(self.gains)
            has_ended = n_passes >= self.n_final_passes and not has_bound
            result = MadePass(is_exact and n_passes > n_beside + 1, has_ended)

    def _learn_on(self) -> Passes[None]:
        """Learn the model on, in copies, while prediction improves.

        Not mean-field topics: exact passes would change the kind of step. Nor if too
        few passes are left, or words alone predict as well.
        """
        accepted = True
        while accepted:
            model = self.model
            self._judge_anew(model)
            n_further = (1 + REDUCTIONS) * self.length + self.n_final_passes
            has_time = self.passes_left >= n_further
            if self.posterior.model.has_bound or not has_time:
                return
            if self._is_matched_by_words(model):
                return
            candidate = self._new_trial("continuation", model.learner)
            accepted, _ = yield from self._try(candidate)

    def _explain_tables(self) -> Passes[None]:
        """Let topics explain tables in place of tokens if that predicts no worse."""
        state = self.model.posterior.state
        if state.burstiness is not None and not state.by_tables:
            trial = self._new_trial("tables", self.model.learner)
            trial.posterior.set_state(by_tables=True)
            yield from self._try(trial)

    def _reduce(self) -> Passes[None]:
        """Merge and end topics; all of them if one topic predicts as well."""
        self.path[self.model.n_topics] = self.model.logs[max(self.model.logs)]
        yield from self._reduce_penalised() if self.penalty else self._reduce_free()

    def _reduce_free(self) -> Passes[None]:
        """Merge and end topics that prediction does not need.

        As many as are predicted to cost nothing; once that costs too much half as many
        each time, and at last one by one.
        """
        best, is_halving, n_rejected = self.model, False, 0
        trial = self._reduction(best)
        while trial is not None:
            accepted, gain = yield from self._try(trial, best, n_rejected > 0)
            best = trial if gain.mean > 0.0 else best
            is_halving |= not accepted
            n_rejected = 0 if accepted else n_rejected + (trial.n_changes == 1)
            most = max(trial.n_changes // 2, 1) if is_halving else None
            n_next = most or trial.n_changes
            is_few = n_next < FEW * (trial.n_started + trial.n_changes)
            is_near = self.knows_repeats and gain.mean > -NEAR * self._cost(trial, gain)
            is_near |= n_rejected > 0  # another one may be better
            is_over = is_few or n_rejected >= MOST_REJECTED
            if trial.kind != "reduction" or is_over or not (accepted or is_near):
                return
            trial = self._reduction(self.model, most, n_rejected)

    def _reduce_penalised(self) -> Passes[None]:
        """Merge and end topics that bring less than the penalty.

        Down to numbers that are clearly worse than the best one. Then by fewer changes,
        half as many each time: of what the best one was reduced from while that gains;
        else of the best one until that gains.
        """
        best = origin = self.model
        above, is_worse, any_rejected = None, False, False
        while not is_worse:
            trial = self._reduction(origin)
            if trial is None:
                return
            accepted, gain = yield from self._try(trial, best, any_rejected)
            if trial.kind != "reduction":
                return
            best, above = (trial, origin) if accepted else (best, above)
            any_rejected |= not accepted
            is_worse = gain.mean <= -NEAR * gain.error or trial.n_topics <= 2
            origin = trial
        sides = [(best, int(LEAST_REDUCED * best.n_topics))]
        if above is not None:
            sides.insert(0, (above, best.n_changes))
        for origin, most in sides:
            first = best
            for half in range(1, most.bit_length()):
                trial = self._reduction(origin, most >> half)
                if trial is None:
                    return
                accepted, _ = yield from self._try(trial, best, any_rejected)
                if trial.kind != "reduction":
                    return
                best = trial if accepted else best
                any_rejected |= not accepted
                if accepted != (origin is above):
                    break
            if best is not first:
                return

    # -- a trial ----------------------------------------------------------------------

    def _learn(self, trial: Trial) -> Passes[None]:
        """Make the passes of a trial, and predict held-out documents after them.

        Births end at half of them if they are behind.
        """
        while trial.n_passes < self.length:
            self.monitor = yield MadePass()
            self.passes_left -= 1
            is_model = trial is self.model
            trial.learner.one_pass(self.monitor if is_model else discarding())
            trial.n_passes += 1
            is_half = trial.n_passes == (self.length + 1) // 2
            if not is_half or trial.n_passes == self.length:
                continue
            if trial.kind not in COMPARED_AT_HALF:
                self._choose_prior(trial)
                continue
            self._record(trial, self._choose_and_predict(trial))
            trial.result = None  # topics change in place
            if trial.kind == "births":
                gain = self._gain(trial, self.model)
                if gain.mean < -gain.error:
                    return
        self._record(trial, self._choose_and_predict(trial))
        self._record_gain(trial)

    def _try(
        self, trial: Trial, other: Trial | None = None, is_optional: bool = False
    ) -> Passes[tuple[bool, Gain]]:
        """Learn a candidate, which replaces the model if it predicts well enough.

        Than `other`, by default the model. Returns whether it does, and its gain.
        Raises NoPassesLeft if passes are too few; if the trial `is_optional`, the
        search is complete.
        """
        if self.passes_left < self.length + self.n_final_passes:
            self.is_complete = is_optional
            raise NoPassesLeft
        yield from self._learn(trial)
        gain = self._gain(trial, other or self.model)
        accepted = self._is_accepted(trial, gain)
        what = "tables" if trial.kind == "tables" else f"{trial.n_topics} topics"
        self.monitor.report(
            f"trial of {what} {'accepted' if accepted else 'rejected'}: "
            f"held-out documents gain {gain.mean:.4f} +- {gain.error:.4f} nats"
        )
        is_reduction = trial.kind == "reduction"
        is_less = is_reduction or trial.kind == "merge of all"
        if is_less and (accepted or trial.n_topics not in self.path):
            self.path[trial.n_topics] = trial.logs[trial.n_passes]
        if accepted:
            is_sure = gain.mean > SURE_ERRORS * gain.error and not self.penalty
            if trial.kind != "tables" and (is_sure or not is_reduction):
                self._adopt(trial.learner)
            # Otherwise the posterior, which is as good, stays until the end.
            self.model = trial
        return accepted, gain

    def _record(self, trial: Trial, result: Prediction) -> None:
        """Record a prediction and its log probabilities after the passes made."""
        trial.result = result
        trial.logs[trial.n_passes] = self.held_out.log_probability(result)

    def _choose_prior(self, trial: Trial) -> None:
        """Set the topic prior in place to what predicts best, if it is learned."""
        posterior, executor = trial.posterior, trial.executor
        with commit():
            posterior.global_stats.topic_words.trim()
        if not self.folds:
            return
        if trial.kind == "merge of all":  # as words have been judged
            _, prior = self.held_out.log_probability_of_words(
                posterior.state.burstiness, posterior, executor, learns_prior=True
            )
            posterior.set_state(topic_word_prior=prior)
        else:
            has_grown = trial.kind in ("continuation", "reduction", "tables")
            limit = HIGHEST if has_grown else self.prior_limit
            trial.prior_falls = priors.choose_prior(
                self.folds, posterior, limit, executor
            )

    def _predict_by_best(self, trial: Trial, repeats: bool) -> Prediction:
        """Set the best concentration and, if `repeats`, burstiness; predict."""
        return priors.choose_priors(
            self.held_out, trial.posterior, trial.executor, repeats=repeats
        )

    def _choose_and_predict(self, trial: Trial) -> Prediction:
        """Set the best parameters in place, and predict held-out documents."""
        if trial.kind == "start" and trial.n_passes < self.length:  # topics form first
            return self.held_out.predict(trial.posterior, trial.executor)
        self._choose_prior(trial)
        # Where topics have a penalty, one with repeats would replace them at last.
        may_learn = not self.penalty or trial.posterior.state.burstiness is not None
        repeats = self.knows_repeats and may_learn
        return self._predict_by_best(trial, repeats)

    def _gain(self, trial: Trial, other: Trial) -> Gain:
        """Held-out gain over another trial after as many passes, less the penalty.

        The penalty is of reductions alone: births that bring less end in these.
        """
        goes_on = trial.kind in ("continuation", "tables")
        is_less = trial.kind in ("reduction", "merge of all")
        n_passes = max(other.logs) if goes_on else trial.n_passes
        new, old = trial.logs[trial.n_passes], other.logs[n_passes]
        judges = SECOND_HALF if trial.kind == "reduction" else slice(None)
        gain = compare(new[judges], old[judges], self.n_tokens[judges])
        n_more = trial.n_topics - other.n_topics if is_less else 0
        return gain._replace(mean=gain.mean - self.penalty * n_more)

    def _is_accepted(self, trial: Trial, gain: Gain) -> bool:
        """Whether a trial gains enough or, with fewer topics, loses little.

        Or replaces topics that documents gain nothing by.
        """
        if trial.kind == "merge of all" and self._is_matched_by_mean(self.model):
            return True
        if trial.kind == "births":
            n_twice = np.log2(max(trial.n_topics / self.model.n_topics, 1.0))
            error = MARGIN_ERRORS * gain.error
            is_better = gain.mean > max(error, GAIN_OF_TWICE * n_twice)
            return trial.n_passes == self.length and bool(is_better)
        if trial.kind == "continuation":
            return gain.mean > margin(gain)
        if trial.kind == "tables" and trial.n_passes < self.length:
            return False
        return gain.mean >= -self._cost(trial, gain)

    def _cost(self, trial: Trial, gain: Gain) -> float:
        """Loss, nats per token, that fewer topics may have; none if topics cost."""
        if self.penalty and trial.kind == "reduction":
            return 0.0
        is_bursty = trial.posterior.state.burstiness is not None
        if is_bursty and trial.kind == "reduction":
            return max(min(FEWER_ERRORS * gain.error, FEWER_COST), MARGIN)
        return margin(gain)

    def _judge_anew(self, trial: Trial) -> None:
        """Score a trial again as reductions are scored, once births have ended.

        The topic prior is no longer limited, and burstiness is learned. Births must not
        learn it: one topic with repeats explains as much as a few topics.
        """
        posterior = trial.posterior
        is_at_limit = posterior.state.topic_word_prior >= self.prior_limit
        is_limited = trial.kind != "continuation" and is_at_limit
        learns_prior = bool(self.folds) and (is_limited or trial.prior_falls)
        is_first = self.learns_burstiness and not self.knows_repeats
        self.knows_repeats = self.learns_burstiness
        if trial.result is None or not (learns_prior or is_first):
            return
        for _ in range(MOST_STEPS if learns_prior else 0):
            if not priors.choose_prior(self.folds, posterior, HIGHEST, trial.executor):
                break
        result = self._predict_by_best(trial, self.knows_repeats)
        if is_first and self.held_out.first_uses(result) < FEWEST_FIRST_USES:
            self.learns_burstiness = self.knows_repeats = False
            posterior.set_state(burstiness=None)
            result = self.held_out.predict(posterior, trial.executor)
        self._record(trial, result)
        self.gains = []  # those so far are of states without repeats
        self._record_gain(trial)

    def _record_gain(self, trial: Trial) -> None:
        """Record what the topics of a trial gain over one, if topics have a penalty."""
        if self.min_gain:
            trial.over_words = self._gain_over_words(trial)
            self.gains.append((trial.n_topics, trial.over_words.mean))

    def _is_matched_by_words(self, trial: Trial) -> bool:
        """Whether one topic of all words predicts about as well as those of a trial.

        Or the topics by their mean shares.
        """
        if self._is_matched_by_mean(trial):
            return True
        return self.held_out.is_matched_by_words(*self._given_words(trial))

    def _is_matched_by_mean(self, trial: Trial) -> bool:
        """Whether documents gain a standard error at most by their own shares."""
        given = trial.posterior, trial.executor
        mean, logs = self.held_out.log_probability_of_mean(*given), max(trial.logs)
        gain = compare(trial.logs[logs], mean, self.n_tokens)
        return gain.mean < max(priors.WORDS_LOSS, gain.error)

    def _gain_over_words(self, trial: Trial) -> Gain:
        """Gain of a trial over one topic with the same repeats of words."""
        return self.held_out.gain_over_words(*self._given_words(trial))

    def _given_words(self, trial: Trial) -> tuple[HDPPosterior, Array, Executor, bool]:
        """What comparisons of a trial with one topic of all words read."""
        logs = trial.logs[trial.n_passes]
        return trial.posterior, logs, trial.executor, self.folds_words

    def _equivalent_numbers(self) -> list[int]:
        """Numbers of topics, of those that reductions compared, as good as the best."""
        n_tokens, size = self.n_tokens[SECOND_HALF], self.penalty
        nets = {
            n: logs[SECOND_HALF] - size * n * n_tokens for n, logs in self.path.items()
        }
        best = max(nets, key=lambda n: nets[n].sum(), default=None)
        if best is None or len(n_tokens) < 2:  # passes, or judges, were too few
            return [self.model.n_topics]
        return equivalent_numbers(nets, best, n_tokens)

    def _adopt(self, learner: Learner) -> None:
        """Replace the model's globals by those of a learner, which then learns them."""
        posterior = self.posterior
        with commit():
            posterior.adopt(learner.posterior, self.monitor)
            posterior.step_origin = posterior.n_steps - learner.n_updates
        learner.posterior = posterior

    # -- proposals --------------------------------------------------------------------

    def _births(self, trial: Trial) -> Trial | None:
        """Return a trial with three times as many topics, unless many have died."""
        now, train = self.posterior, self.held_out.train
        most, started = train.n_docs, (trial.n_started, trial.prior_started)
        n_births = held_out_moves.number_of_births(trial.posterior, most, *started)
        may_add = self.moves.births and trial.posterior.state.burstiness is None
        may_add &= n_births * self.min_gain < 1.0  # or they cost more than all gain
        if n_births < 1 or not may_add:
            return None
        rng = stream(now.seed_entropy, Purpose.MOVE, now.n_steps, self.n_trials)
        posterior = held_out_moves.propose_births(now, train, n_births, rng)
        return self._new_trial("births", trial.learner, posterior, n_births, True)

    def _reduction(
        self, trial: Trial, limit: int | None = None, n_tried: int = 0
    ) -> Trial | None:
        """Return a trial without topics that prediction does not need, or None.

        With one topic, if word frequencies predict as well as all topics. After a
        rejected reduction, `limit` is the largest number of changes. Of the cheapest,
        the first `n_tried` are left out.
        """
        proposal, trial.result = trial.result, None
        if proposal is None and limit is not None:
            proposal = self.held_out.predict(trial.posterior, trial.executor)
        if proposal is None or trial.n_topics < 2:
            return None
        kind: Kind = "reduction"
        posterior = trial.posterior.copy()
        if self._is_matched_by_words(trial):
            kind, n_changes = "merge of all", held_out_moves.merge_all(posterior)
        else:
            choosers = self.held_out.half(0, proposal)
            del proposal
            cheapest = held_out_moves.reductions(posterior, *choosers)[n_tried:]
            del choosers
            least = max(int(LEAST_REDUCED * trial.n_topics), 1) if self.penalty else 1
            n_changes = held_out_moves.reduce(posterior, cheapest, BUDGET, limit, least)
        if n_changes == 0:
            return None
        # A model that has gone on keeps its step sizes.
        is_young = trial.learner.n_passes <= self.length
        return self._new_trial(kind, trial.learner, posterior, n_changes, is_young)

    def _new_trial(
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
        return Trial(kind, learner, size, eta, n_changes)


def equivalent_numbers(nets: dict[int, Array], best: int, n_tokens: Array) -> list[int]:
    """Numbers of topics within one standard error of the best one, and this itself.

    `nets` are log probabilities of documents by number, less penalties, (n_docs,).
    """
    losses = {n: compare(nets[best], net, n_tokens) for n, net in nets.items()}
    return [n for n, loss in losses.items() if loss.mean <= loss.error]
