"""Models with Dirichlet topics over words: bound, updates of globals, topic prior.

phi_k ~ Dir(eta), q(phi_k) = Dir(lambda_k), lambda_kw = eta + S_kw, S_kw the expected
tokens of word w in topic k.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from scipy.special import gammaln, psi

from skbnp.components.known_topics import SMALLEST_SHARE
from skbnp.components.statistics import State, WordStats
from skbnp.components.word_topics import Weighting, WordRows, WordTopics
from skbnp.distributions import inverse_digamma, log_growth
from skbnp.kernels._special import log_gamma
from skbnp.utils.typing import Array


class TopicState(State, Protocol):
    """Protocol: globals of a model of topics."""

    @property
    def topic_word_prior(self) -> float:
        """Dirichlet parameter of topics, eta."""


StateT = TypeVar("StateT", bound=TopicState)
StatsT = TypeVar("StatsT", bound=WordStats)

#: Range of learned concentrations and of the topic prior.
LOWEST, HIGHEST = 1e-4, 1e4
#: Smallest topic prior in the document step: psi stays finite in single precision.
SMALLEST_PRIOR = 1e-18
#: Entries handled at a time where an expression would copy a whole (word, topic) table.
CHUNK = 1 << 18


def word_norm(topic_words: WordTopics, eta: float, weighting: Weighting) -> Array:
    """Normaliser of topics: log for E[log phi_kw], divisor for E[phi_kw], (K,)."""
    total = topic_words.shape[0] * eta + topic_words.total
    return total if weighting is Weighting.MEAN else psi(total)


def log_marginal(topic_words: WordTopics, eta: float) -> Array:
    """logB(eta + S_k) - logB(eta) of each topic, (K,), in nats; reads all words."""
    growth, _ = topic_words.growth(eta)
    result = growth - log_growth(topic_words.shape[0] * eta, topic_words.total)
    result[topic_words.known.columns] = known_terms(topic_words)[0]
    return result


def divergence(topic_words: WordTopics, eta: float) -> float:
    """KL(q(phi) || p(phi)) of all topics, in nats; reads all words."""
    prior, total = topic_words.shape[0] * eta, topic_words.total
    growth, moment = topic_words.growth(eta)
    expected = moment - total * psi(prior + total)
    result = expected - growth + log_growth(prior, total)
    result[topic_words.known.columns] = known_terms(topic_words)[1]
    return float(result.sum())


def known_terms(topic_words: WordTopics) -> Array:
    """Log marginals and divergences, as above, of the known topics, (2, G), in nats.

    Those of fixed topics are the log probability of their tokens, and zero.
    """
    known, seen = topic_words.known, topic_words.seen.words
    terms = np.zeros((2, len(known)))
    terms[0] = known.fixed_stats[1]
    for place in np.flatnonzero(~known.is_fixed).tolist():
        prior, posterior = np.full((2, topic_words.shape[0]), known.eta)
        prior[known.words] = known.parameters[:, place]
        posterior[seen] += topic_words.column(known.columns[place])
        posterior = np.maximum(posterior, SMALLEST_SHARE**2 * known.eta)
        growth = (gammaln(posterior) - gammaln(prior)).sum()
        of_sum = gammaln(posterior.sum()) - gammaln(prior.sum())
        expected = psi(posterior) - psi(posterior.sum())
        divergence = ((posterior - prior) * expected).sum() - growth + of_sum
        terms[:, place] = growth - of_sum, divergence
    return terms


def expected_log(topic_words: WordTopics, eta: float, rows: WordRows) -> Array:
    """E[log p(words | topics)] of the counts in some rows, by topic, in nats."""
    values = rows.values
    norm = psi(topic_words.shape[0] * eta + topic_words.total)
    counts_and_prior = eta + topic_words.entries(rows)
    log_phi = np.empty_like(counts_and_prior)
    log_gamma(counts_and_prior, np.empty_like(counts_and_prior), log_phi)
    log_phi -= norm[values.indices]
    sums = np.bincount(values.indices, log_phi * values.data, values.shape[1])
    return sums.astype(np.float64)


def with_blended_concentrations(old: StateT, new: StateT, step: float) -> StateT:
    """Return the new state, its concentrations stepped from the old in logarithms.

    Those that are the same stay so, bit by bit.
    """
    blended = {}
    for name in ("doc_concentration", "corpus_concentration"):
        low, high = getattr(old, name), getattr(new, name)
        if low != high:
            log = (1.0 - step) * np.log(low) + step * np.log(high)
            blended[name] = float(np.exp(log))
    return replace(new, **blended)


def update_topic_prior(topic_words: WordTopics, eta: float) -> float:
    """Return the topic prior of a higher bound: one exact tangent step.

    Known topics, whose prior is not eta alone, are left out; eta is unchanged if the
    bound would fall for them.

    With tangents at the present eta, n the (word, topic) pairs in use, the maximum is
    psi^-1( (sum psi(eta + S_kw) - V sum_k [psi(V eta + S_k) - psi(V eta)]) / n ), sums
    over the pairs in use.
    """
    n_words = topic_words.shape[0]
    others = ~topic_words.is_known
    n_pairs, slope = 0, 0.0
    for part in topic_words.parts(CHUNK):
        part = part[(part > 0.0) & others]
        n_pairs += part.size
        slope += psi(eta + part).sum()
    if n_pairs == 0:
        return eta
    norm = (psi(n_words * eta + topic_words.total[others]) - psi(n_words * eta)).sum()
    learned = inverse_digamma(np.array([(slope - n_words * norm) / n_pairs]))[0]
    learned = float(np.clip(learned, LOWEST, HIGHEST))
    if not others.all():
        moved = topic_words.frozen()
        moved.rebase(learned)
        rise = log_marginal(moved, learned).sum() - log_marginal(topic_words, eta).sum()
        learned = learned if rise >= 0.0 else eta
    return learned


class WordTopicModel(Generic[StateT, StatsT]):
    """Base of models whose totals have the words of topics as `WordTopics`: updates."""

    __slots__ = ()
    #: Whether `objective` is a bound of the evidence, and its name.
    has_bound: ClassVar[bool] = True
    criterion: ClassVar[str] = "elbo"
    parts_name: ClassVar[str] = "topics"
    unit: ClassVar[str] = "token"
    learn_topic_prior: bool  # `topic_word_prior` of a state
    start: Callable[..., StatsT]  # totals that hold topics and no document
    update: Callable[..., StateT]
    blend: Callable[..., StateT]
    _terms: Callable[..., dict[str, float]]  # of a bound, given those of the words

    def stochastic_update(
        self,
        state: StateT,
        global_stats: StatsT,
        stats: StatsT,
        step: float,
        scale: float,
    ) -> tuple[StateT, StatsT]:
        """Step from the globals towards their optimum for scaled statistics.

        Eqs. (6) and (7) of Bryant and Sudderth (2012). Totals change in place.
        """
        optimum = self.update(state, stats, scale)
        global_stats.decay(1.0 - step)
        global_stats.add(stats, step * scale)
        return self.blend(state, optimum, step), global_stats

    def incremental_update(
        self, state: StateT, global_stats: StatsT, old: StatsT, new: StatsT
    ) -> tuple[StateT, StatsT]:
        """Subtract old statistics from totals and add new ones, in place."""
        global_stats.exchange(old, new)
        return self.update(state, global_stats), global_stats

    def learn_priors(self, state: StateT, global_stats: StatsT) -> tuple[Self, StateT]:
        """Return model and state with the topic prior updated, if it is learned."""
        if self.learn_topic_prior:
            eta = update_topic_prior(global_stats.topic_words, state.topic_word_prior)
            state = replace(state, topic_word_prior=eta)
        return self, state

    def objective(self, state: StateT, global_stats: StatsT) -> dict[str, float]:
        """Named terms of the criterion, in nats."""
        words = log_marginal(global_stats.topic_words, state.topic_word_prior)
        return self._terms(state, global_stats, words)

    def bound(
        self, state: StateT, topic_words: WordTopics, fresh: StatsT
    ) -> dict[str, float]:
        """Named terms of the bound of other documents under frozen topics, in nats.

        `words` is then E[log p(w | assignments, phi)] - KL(q(phi) || p(phi)).
        """
        eta = state.topic_word_prior
        words = expected_log(topic_words, eta, fresh.topic_words)
        terms = self._terms(state, fresh, words)
        terms["words"] -= divergence(topic_words, eta)
        return terms
