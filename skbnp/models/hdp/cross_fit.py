"""Numbers of topics of an HDP with few documents, by cross-validation over splits.

One held-out sample of a few hundred documents is too small to choose the number of
topics. So each document is held out in one of several splits, and each split scores
what is learned from its other documents: where tokens are few fits of fixed numbers of
topics, under the topic prior, the concentration and the burstiness that predict the
held-out tokens of all splits best; where they are many trials as for large corpora.
Sums of log probabilities over splits decide, with standard errors of paired
differences. The chosen number learns on by tables in place of tokens where words are
repeated, under priors chosen again.

Held-out words without counts in the training documents of a split count by the share of
unseen words that have columns: 0 if each column has counts, since then a document
has no words but those of `X`. Columns of words that at least m documents have were
often selected by these documents (`min_df`): a word of m of them is then more probable
in a document that is held out than in a new one. So each split selects its columns
likewise: it leaves out the words that a smaller share of its documents has.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.inference.engine import MadePass, Passes
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.protocols import Corpus
from skbnp.models.hdp import held_out as judging
from skbnp.models.hdp.births import DOC_SHARE, propose_births, start_again
from skbnp.models.hdp.held_out import Gain, HeldOut, compare, deal
from skbnp.models.hdp.held_out_trials import MARGIN, HeldOutTrials, equivalent_numbers
from skbnp.models.hdp.model import HDPState
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array

#: Splits of documents with at least `FEW_TOKENS`.
FEWER_SPLITS = 3
#: Of fewer documents nothing is held out.
FEWEST_DOCS = 4 * judging.FEWEST_JUDGES
#: Splits of the documents: by five, topics of few documents are missed.
N_SPLITS = 10
#: Documents of the rarest word, and their share, up to which it was selected by them: a
#: word of m of them has a share that is too large by about 1 / m. Larger numbers are
#: often of few words that are all frequent.
MOST_OF_MIN_DF, RARE = 5, 0.05
#: Numbers of topics of fits that are compared, up to a third of the documents.
NUMBERS = (1, 2, 4, 8, 16, 32, 64, 128)
DOCS_PER_TOPIC = 3
#: Below the chosen one numbers are halved until they differ by no larger factor.
FINE = 1.34
#: Starts of the chosen number of topics: of documents of two kinds, those that two
#: topics start from are of one kind in half of all draws.
N_STARTS = 4
#: Seed of the splits and of the fits that are compared: few documents say one number.
OF_ALL_FITS = 0
#: Priors of a number of topics that are chosen by prediction.
LEARNED_PRIORS = (
    "topic_word_prior",
    "prediction_concentration",
    "background_weight",
    "burstiness",
)
#: Passes of such a fit, and of the chosen one by tables.
N_PASSES, N_TABLE_PASSES = 6, 3
#: Topic priors under which tokens are predicted.
PRIORS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
#: More topics than one must gain a standard error; two, unless they gain so many nats
#: per token, by at least so many documents: of words without topics the best of ten
#: numbers gains more than one, and of few documents the errors are uncertain.
SURE_GAIN, SURE_ERRORS, FEWEST_SURE = 0.03, 2.0, 100


def hold_out_each(
    X: sp.csr_array, rng: np.random.Generator, n_splits: int = N_SPLITS
) -> list[HeldOut]:
    """Hold each document out in one split; [] if too few would learn or judge."""
    order, held_out = rng.permutation(X.shape[0]), list[HeldOut]()
    if X.shape[0] < FEWEST_DOCS:
        return held_out
    n_splits = n_splits if X.sum() < judging.FEW_TOKENS else FEWER_SPLITS
    unseen, n_docs = share_of_unseen(X), np.bincount(X.indices, minlength=X.shape[1])
    # Documents of the rarest column, if columns were selected by these.
    fewest = n_docs.min()
    if fewest > min(MOST_OF_MIN_DF, RARE * X.shape[0]):
        fewest = 0
    for place in range(n_splits):
        judges = np.sort(order[place::n_splits])
        rows = np.sort(np.delete(order, np.s_[place::n_splits]))
        whole, train = X[judges], X[rows]
        n_docs = np.bincount(train.indices, minlength=X.shape[1])
        is_rare = n_docs < fewest * len(rows) / X.shape[0]
        weight = np.where(n_docs > 0, 1.0, unseen)
        for part in (whole, train):
            part.data = part.data * np.where(is_rare, 0.0, weight)[part.indices]
            part.eliminate_zeros()
        folds = deal(whole, rng, fewest=0)
        assert folds is not None
        has_tokens = np.diff(train.indptr) > 0
        held_out.append(HeldOut(Corpus(train[has_tokens]), rows[has_tokens], *folds))
    are_full = all(one.train.n_docs > 0 for one in held_out)
    are_full &= any(len(one.n_tokens) > 0 for one in held_out)
    return held_out if are_full else []


def share_of_unseen(X: sp.csr_array) -> float:
    """Share of the words that documents have not shown for which there are columns.

    How many words there are that none of the documents has is estimated from those of
    one document and of two, f_1^2 / (2 f_2) (Chao 1984).
    """
    n_docs = np.bincount(X.indices, minlength=X.shape[1])
    none, once, twice = np.bincount(n_docs, minlength=3)[:3].tolist()
    return min(1.0, none / max(once**2 / (2.0 * max(twice, 1)), 1.0))


class Candidate(NamedTuple):
    """Fits of one number of topics in all splits, and their held-out scores."""

    number: int  # of topics
    trials: list[HeldOutTrials]
    logs: Array  # (n_docs,) log probabilities of held-out documents
    cost: Array | float = 0.0  # (n_docs,) penalty of its topics

    @property
    def net(self) -> Array:
        """Log probabilities less the penalty of the topics, (n_docs,)."""
        return self.logs - self.cost


@dataclass(eq=False, repr=False)
class CrossFittedTrials:
    """Cross-validation of the number of topics, then the trials of the best."""

    posterior: HDPPosterior  # at its start
    held_out: list[HeldOut]  # each document is held out in one of these
    #: Makes the trials of a posterior and what is held out.
    make: Callable[[HDPPosterior, HeldOut], HeldOutTrials]
    moves: SplitMerge
    n_carried: int  # topics that are given: each fit begins with these
    min_gain: float = 0.0  # least share of the gain of all topics that one must bring
    _: KW_ONLY
    compares_fixed: bool = True  # whether tokens are few; else trials alone
    place: int = PRIORS.index(0.03)  # of the last best topic prior
    #: Samples topics of training documents by a seed, if fits start from these.
    sample: Callable[[Corpus, int], Any] | None = None
    samples: dict[tuple[int, int], Any] = field(default_factory=dict)

    def passes(self) -> Passes[None]:
        """Choose a number of topics before the first pass; make those over all."""
        monitor = yield MadePass()
        choose = self._choose if self.compares_fixed else self._choose_trials
        trials, posterior = choose(monitor), self.posterior
        n_logged = len(trials.posterior.lineage)
        posterior.adopt(trials.posterior, monitor)
        final = trials.final
        if final is not None and final.posterior is not trials.posterior:
            more = final.posterior.lineage[n_logged:]
            final.posterior.lineage = [*posterior.lineage, *more]
        trials.posterior = trials.model.learner.posterior = posterior
        posterior.is_cross_fitted, self.held_out, self.samples = True, [], {}
        passes = trials.learn_all()
        next(passes)
        while True:
            monitor = yield passes.send(monitor)

    # -- candidates -------------------------------------------------------------------

    def _begin(self, n_topics: int) -> list[HeldOutTrials]:
        """Trials of each split, the same ones whatever the seed of the fit."""
        every = replace(self.posterior, seed_entropy=OF_ALL_FITS)
        n_splits = len(self.held_out)
        return [self._begin_one(every, place, n_topics) for place in range(n_splits)]

    def _begin_one(
        self, posterior: HDPPosterior, place: int, n_topics: int, start: int = 0
    ) -> HeldOutTrials:
        """Trials of a split, from topics that start from training documents.

        Or from topics that are sampled, at most so many.
        """
        held_out, n_old = self.held_out[place], self.n_carried
        if self.sample is not None:
            topics = self._sample(posterior.seed_entropy, place).heaviest(n_topics)
            given = held_out.train, topics.distr, topics.weights
            return self.make(start_again(posterior, *given), held_out)
        key = (place, n_topics, start) if start else (place, n_topics)
        rng = stream(posterior.seed_entropy, Purpose.MOVE, *key)
        begun = propose_births(
            posterior, held_out.train, n_topics - n_old, rng, n_old, 1.0, DOC_SHARE
        )
        return self.make(begun, held_out)

    def _sample(self, seed_entropy: int, place: int) -> Any:
        """Topics that are sampled from the training documents of a split."""
        if (seed_entropy, place) not in self.samples:
            assert self.sample is not None
            train = self.held_out[place].train
            self.samples[seed_entropy, place] = self.sample(train, seed_entropy)
        return self.samples[seed_entropy, place]

    def _fixed(self, n_topics: int) -> Candidate:
        """Learn `n_topics` topics in each split, and score its held-out documents."""
        trials = self._begin(n_topics)
        learn_fixed(trials)
        self._choose_priors(trials)
        return Candidate(n_topics, trials, self._choose_repeats(trials))

    def _numbers(self) -> list[int]:
        """Return the fixed numbers of topics to compare, few if documents are few.

        With the largest number that is allowed, if it is among them in size.
        """
        posterior, n_docs = self.posterior, len(self.n_tokens)
        most = n_docs / DOCS_PER_TOPIC if n_docs >= judging.FEWEST_JUDGES else 1
        limit = posterior.max_components
        if not self.moves.births:
            limit = posterior.state.n_components
        if self.sample is not None:
            places = range(len(self.held_out))
            sizes = [len(self._sample(OF_ALL_FITS, one).weights) for one in places]
            limit = min(limit, *sizes)
        least, most = max(self.n_carried, 1), max(min(most, NUMBERS[-1]), 1)
        numbers = {n for n in NUMBERS if n < limit} | {min(limit, most + 1)}
        return sorted(int(n) for n in numbers if least <= n <= most)

    @property
    def n_tokens(self) -> Array:
        """Number of held-out tokens of each document, over all splits, (n_docs,)."""
        return np.concatenate([one.n_tokens for one in self.held_out])

    def _choose_priors(self, trials: list[HeldOutTrials]) -> None:
        """Set the priors in place that predict held-out tokens of all splits best.

        A grid of topic priors is searched from the last best value, downwards first.
        """
        posteriors = [result_of(one) for one in trials]
        executor = executor_of(trials)
        few = [one.held_out.sample() for one in trials]
        pairs = list(zip(few, posteriors, strict=True))
        values, states = dict[int, float](), dict[int, list[HDPState]]()

        def value(place: int) -> float:
            """Log posterior density of the topic prior at a grid position."""
            if not 0 <= place < len(priors):
                return -np.inf
            if place not in values:
                for one in posteriors:
                    one.set_state(
                        topic_word_prior=priors[place],
                        prediction_concentration=0.0,
                        background_weight=0.0,
                    )
                if not posteriors[0].model.has_bound:
                    judging.choose_prediction(pairs, executor)
                states[place] = [posterior.state for posterior in posteriors]
                deviation = (
                    np.log(priors[place] / judging.PRIOR_MEDIAN)
                    / judging.PRIOR_DEVIATION
                )
                logs = _log_probability(pairs, executor).sum()
                values[place] = float(logs - deviation**2 / 2.0)
            return values[place]

        is_learned = trials[0].folds_words
        priors = PRIORS if is_learned else (posteriors[0].state.topic_word_prior,)
        place = self.place if is_learned else 0
        for step in (1, -1):
            while value(place + step) > value(place):
                place += step
        self.place = place if is_learned else self.place
        for posterior, state in zip(posteriors, states[place], strict=True):
            posterior.state = state
            posterior.follow_prior()

    def _choose_repeats(self, trials: list[HeldOutTrials]) -> Array:
        """Set one burstiness in place, if it is learned, by all held-out documents.

        Returns the log probability of each of these.
        """
        executor = executor_of(trials)
        pairs = [(one.held_out, result_of(one)) for one in trials]
        results = list[judging.Prediction]()
        if trials[0].learns_burstiness:
            results = judging.choose_burstiness(pairs, executor)
        return _log_probability(pairs, executor, results)

    # -- decisions --------------------------------------------------------------------

    def _choose(self, monitor: Monitor) -> HeldOutTrials:
        """Compare fixed numbers of topics; return trials of the best, of one split.

        Their `equivalent` are the numbers that predict as well as the best, by one
        standard error.
        """
        fixed = self._compare_numbers(monitor)
        while True:
            candidates, gains = self._penalised(fixed)
            chosen, gain = self._smallest(candidates)
            number = number_below(chosen.number, [one.number for one in fixed])
            if number is None:
                break
            fixed.append(self._fixed(number))
            fixed.sort(key=lambda one: one.number)
        nets = {one.number: one.net for one in candidates}
        best = max(nets, key=lambda number: nets[number].sum())
        equal = equivalent_numbers(nets, best, self.n_tokens)
        self._explain_tables(chosen.trials)
        result = self._learn_again(chosen)
        result.gain, result.gains = gain, list(gains.items())
        result.keep_number()
        result.equivalent = sorted({chosen.number, *equal})
        monitor.report(
            f"{len(chosen.trials)} splits: {chosen.number} topics, "
            f"{result.equivalent[0]} to {result.equivalent[-1]} predict as well"
        )
        return result

    def choose_number(self, monitor: Monitor, least: int = 1) -> tuple[int, HDPState]:
        """Compare fixed numbers of topics alone; return the best, and its priors.

        The fewest topics, and numbers from `least` on.
        """
        candidates, _ = self._penalised(self._compare_numbers(monitor, least))
        chosen, _ = self._smallest(candidates)
        self._explain_tables(chosen.trials)
        return chosen.number, result_of(chosen.trials[0]).state

    def _compare_numbers(self, monitor: Monitor, least: int = 1) -> list[Candidate]:
        """Fits of fixed numbers of topics.

        All of them: a few topics of short texts may predict worse than one, and many
        better.
        """
        fixed = list[Candidate]()
        numbers = self._numbers() or [max(self.n_carried, 1)]
        if least > 1:  # the fewest, this one, and more
            numbers = sorted({*numbers[:1], least, *(n for n in numbers if n > least)})
        for n_topics in numbers:
            monitor.remind(f"trial of {n_topics} topics beside each of the splits")
            fixed.append(self._fixed(n_topics))
        return fixed

    def _penalised(
        self, candidates: list[Candidate]
    ) -> tuple[list[Candidate], dict[int, float]]:
        """Candidates with the penalty of their topics, and the gains of all.

        Of each number over the fewest topics, if topics have a penalty.
        """
        fewest, n_tokens, gains = candidates[0].logs, self.n_tokens, dict[int, float]()
        if self.min_gain:
            gains = {
                one.number: compare(one.logs, fewest, n_tokens).mean
                for one in candidates
            }
        penalty = self.min_gain * max(gains.values(), default=0.0)
        return [
            one._replace(cost=penalty * one.number * n_tokens) for one in candidates
        ], gains

    def _smallest(
        self, candidates: list[Candidate]
    ) -> tuple[Candidate, tuple[float, float] | None]:
        """The fewest topics that predict as well as the best, less their penalty.

        And their gain over one topic, which must be sure, and its error; if one topic
        is no candidate, or the best, None. What documents gain by their own shares
        over mean ones must be sure, too: topics of different sizes smooth word
        frequencies better than one.
        """
        fewest, n_tokens = candidates[0], self.n_tokens
        best = max(candidates, key=lambda one: one.net.sum())
        for one in candidates:
            gain = compare(one.net, best.net, n_tokens)
            if gain.mean < -max(MARGIN, gain.error):
                continue
            if fewest.number > 1 or one.number == 1:
                return one, None
            gain = compare(one.logs, fewest.logs, n_tokens)
            gains = gain, self._gain_over_mean(one)
            if all(_is_sure(each, len(n_tokens)) for each in gains):
                return one, (gain.mean, gain.error)
        return fewest, None

    def _gain_over_mean(self, candidate: Candidate) -> Gain:
        """Gain of the documents' own shares of topics over their mean shares."""
        executor = executor_of(candidate.trials)

        def mean(one: HeldOutTrials) -> Array:
            """Log probability of each document of a split by mean shares."""
            return one.held_out.log_probability_of_mean(result_of(one), executor)

        logs = np.concatenate(executor.map_here(mean, candidate.trials))
        return compare(candidate.logs, logs, self.n_tokens)

    def _choose_trials(self, monitor: Monitor) -> HeldOutTrials:
        """Run trials of each split; return those whose number is best for all splits.

        Of other numbers than a split has tried, its log probabilities are interpolated.
        """
        trials = self._begin(self.posterior.state.n_components)

        def search(one: HeldOutTrials) -> None:
            """Make the passes of one split."""
            monitor.remind("trials beside each of the splits")
            passes, beside = one.search(), discarding()
            with suppress(StopIteration):
                next(passes)
                while True:
                    passes.send(beside)

        executor_of(trials).run([partial(search, one) for one in trials])
        for one in trials:
            if not one.path:  # the passes have ended before the first reduction
                one.path[result_of(one).state.n_components] = _held_out_logs(one)
        largest = [max((gain for _, gain in one.gains), default=0.0) for one in trials]
        penalty = self.min_gain * float(np.mean(largest))
        n_tokens = np.concatenate([one.n_tokens[judging.SECOND_HALF] for one in trials])

        def net(number: int) -> Array:
            logs = [at_number(one.path, number)[judging.SECOND_HALF] for one in trials]
            return np.concatenate(logs) - penalty * number * n_tokens

        numbers = [result_of(one).state.n_components for one in trials]
        best = max(numbers, key=lambda number: net(number).sum())
        result = trials[numbers.index(best)]
        nets = {n: net(n) for one in trials for n in (best, *one.path)}
        result.equivalent = equivalent_numbers(nets, best, n_tokens)
        monitor.report(
            f"trials beside {len(trials)} splits: {best} topics, "
            f"{min(result.equivalent)} to {max(result.equivalent)} predict as well"
        )
        return result

    def _explain_tables(self, trials: list[HeldOutTrials]) -> None:
        """Learn on by tables in place, if words are repeated; choose priors again."""
        if result_of(trials[0]).state.burstiness is not None:
            for one in trials:
                result_of(one).set_state(by_tables=True)
            learn_fixed(trials, N_TABLE_PASSES)
            self._choose_priors(trials)
            self._choose_repeats(trials)

    def _learn_again(self, chosen: Candidate) -> HeldOutTrials:
        """Learn a fixed number of topics by the seed of the fit, in the largest split.

        From several starts, of which the one that predicts best is kept, that of the
        comparison among them: topics that begin from few documents may be mixed.
        """
        place = int(np.argmax([len(one.n_tokens) for one in self.held_out]))
        first, number = chosen.trials[place], chosen.number
        found = result_of(first).state
        learned = {name: getattr(found, name) for name in LEARNED_PRIORS}
        n_starts = N_STARTS if number > 1 else 1
        if self.sample is not None:
            sample = self._sample(self.posterior.seed_entropy, place)
            n_starts = int(len(sample.weights) >= number)
        fits = [
            self._begin_one(self.posterior, place, number, start)
            for start in range(n_starts)
        ]
        learn_fixed(fits)
        for one in fits:
            result_of(one).set_state(**learned, by_tables=found.by_tables)
        if found.by_tables:
            learn_fixed(fits, N_TABLE_PASSES)
        return max([*fits, first], key=lambda one: _held_out_logs(one).sum())


def number_below(chosen: int, tried: list[int]) -> int | None:
    """Number of topics halfway from `chosen` to the next smaller one tried, in logs.

    None if there is no smaller one, none between, or if the two are near.
    """
    below = max((number for number in tried if number < chosen), default=chosen)
    number = round(np.sqrt(chosen * below))
    return number if chosen > FINE * below and number > below else None


def _held_out_logs(trials: HeldOutTrials) -> Array:
    """Log probability of each held-out document, by the present state."""
    prediction = trials.held_out.predict(result_of(trials), trials.model.executor)
    return trials.held_out.log_probability(prediction)


def at_number(path: dict[int, Array], number: int) -> Array:
    """Log probabilities of documents at a number of topics, (n_docs,).

    Between two numbers of `path` linear in the logarithm of the number; beyond these
    those of the last one.
    """
    sizes = sorted(path)
    place = float(np.interp(np.log(number), np.log(sizes), np.arange(len(sizes))))
    low, share = int(place), place % 1.0
    high = min(low + 1, len(sizes) - 1)
    return (1.0 - share) * path[sizes[low]] + share * path[sizes[high]]


def learn_fixed(trials: Sequence[HeldOutTrials], n_passes: int = N_PASSES) -> None:
    """Make passes of fixed numbers of topics, splits side by side."""

    def learn(one: HeldOutTrials) -> None:
        """Make the passes of one split."""
        beside = discarding()
        for _ in range(n_passes):
            one.model.learner.one_pass(beside)
        result_of(one).global_stats.topic_words.trim()

    executor_of(trials).run([partial(learn, one) for one in trials])


def executor_of(trials: Sequence[HeldOutTrials]) -> Executor:
    """Return the executor that trials have in common."""
    return trials[0].model.executor


def result_of(trials: HeldOutTrials) -> HDPPosterior:
    """Return the posterior of trials so far, before it learns from everything."""
    return (trials.final or trials.model.learner).posterior


def _log_probability(
    pairs: Sequence[tuple[HeldOut, HDPPosterior]],
    executor: Executor,
    results: Sequence[judging.Prediction] = (),
) -> Array:
    """Log probability of each document that a split holds out, nats, (n_docs,).

    `results` are predictions, if they have been made.
    """
    results = results or executor.map_here(
        lambda pair: pair[0].predict(pair[1], executor), pairs
    )
    scored = zip(pairs, results, strict=True)
    return np.concatenate([one.log_probability(result) for (one, _), result in scored])


def _is_sure(gain: Gain, n_docs: int) -> bool:
    """Whether the gain of several topics over one, by `n_docs`, is large enough."""
    enough = SURE_GAIN if n_docs >= FEWEST_SURE else np.inf
    least = max(gain.error, min(SURE_ERRORS * gain.error, enough), MARGIN / 2.0)
    return bool(gain.mean > least)
