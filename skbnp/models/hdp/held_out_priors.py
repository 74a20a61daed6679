"""Priors of an HDP under which held-out documents are predicted best, given its topics.

Held-out documents choose the topic prior (`suit_prior`), the burstiness
(`suit_burstiness`), and a concentration of documents for prediction, apart from that of
learning. Topics were shaped by the documents that they were learned from, whose
proportions are sharper than those of other documents: of titles, the concentration
alpha that is learned with the topics is several times too small to predict unseen ones.
So they choose another one,

    a = argmax_{a >= alpha} sum_jw n_jw log [ (sum_k N_jk phi_kw + a b_w) / (N_j + a) ],
    b_w = sum_k beta_k phi_kw + beta_rest / V,

with n_jw the held-out tokens and N the expected counts of the observed ones, by which
the judges of trials, `score` and `transform` predict. Learning keeps alpha: under a
larger one topics blur. Then they choose the weight by which `score` moves the prior of
topics from equal words to the mean topic b (see `fold_in.background`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from skbnp.inference.executor import Executor, commit
from skbnp.inference.posterior import Posterior
from skbnp.models.hdp import burstiness as bursts
from skbnp.models.hdp.fold_in import (
    PART_SIZE,
    MeanTopics,
    fold_in_by_mean_field,
    fold_in_tables,
    mix,
)
from skbnp.models.hdp.held_out import (
    N_FOLDS,
    SMALLEST_PRIOR,
    HeldOut,
    Prediction,
    compare,
)
from skbnp.models.hdp.model import HDPState
from skbnp.utils.arrays import column_sums, csr, row_parts, rows_of, with_values
from skbnp.utils.typing import Array, Ints

#: Change of log eta by which derivatives are found; the largest step at a time: what
#: topics hold follows.
PRIOR_DIFFERENCE, PRIOR_STEP = float(np.log(1.5)), float(np.log(3.0))
#: The topic prior has a log-normal density of this median and deviation: words of few
#: short documents ask for any value, or one without end.
PRIOR_MEDIAN, PRIOR_DEVIATION = 0.05, float(np.log(4.0))
#: Relative differences of log probabilities that are rounding errors.
FLAT = 1e-10
#: Largest concentration: documents of fewer tokens have the weights of the corpus.
HIGHEST_CONCENTRATION = 1e4
#: Expected counts follow the concentration: rounds, where it moves by such a factor.
N_ROUNDS, MOVES_BY = 2, 1.2
#: Of the logarithm of the concentration.
TOL = 1e-2


def suit_prediction(
    pairs: Sequence[tuple[HeldOut, Posterior]], executor: Executor
) -> None:
    """Set in place the parameters of prediction under which held-out tokens are likely.

    One concentration of documents and one weight of the mean topic for all posteriors,
    each of which predicts the documents that were held out of its own learning.
    """
    bounds = np.log([1e-6, HIGHEST_CONCENTRATION])
    for _ in range(N_ROUNDS):
        before = [p.state.for_prediction.doc_concentration for _, p in pairs]
        losses = [_loss(held_out, posterior, executor) for held_out, posterior in pairs]

        def total(log: float, losses: list = losses) -> float:
            return sum(loss(np.exp(log), 0.0) for loss in losses)

        search = minimize_scalar(total, bounds=bounds, options={"xatol": TOL})
        best = float(np.exp(search.x))
        after = [max(best, p.state.doc_concentration) for _, p in pairs]
        with commit():
            for (_, posterior), value in zip(pairs, after, strict=True):
                posterior.set_state(prediction_concentration=value)
        moves = (max(*ab) / min(*ab) for ab in zip(after, before, strict=True))
        if max(moves) < MOVES_BY:
            break

    def total_of(weight: float) -> float:
        return sum(loss(a, weight) for loss, a in zip(losses, after, strict=True))

    search = minimize_scalar(total_of, bounds=(0.0, 1.0), options={"xatol": TOL})
    weight = float(search.x) if search.fun < total_of(0.0) else 0.0
    with commit():
        for _, posterior in pairs:
            posterior.set_state(background_weight=weight)


def _loss(
    held_out: HeldOut, posterior: Posterior, executor: Executor
) -> Callable[[float, float], float]:
    """Negative log probability of held-out tokens, as a function of two parameters.

    They are the concentration of documents and the weight of the mean topic.
    """
    predicted = held_out.predict(posterior, executor)
    state = posterior.state.for_prediction
    weights, concentration = state.weights, state.doc_concentration
    counts = held_out.held_out
    rows, n_words = rows_of(counts.indptr), counts.shape[1]
    once = csr(
        np.ones(counts.nnz), counts.indices, np.array([0, counts.nnz]), (1, n_words)
    )
    base = mix(weights[None, :-1], predicted.word_topic, once)
    base += weights[-1] / n_words
    total, opens = predicted.total[rows], predicted.opens[rows]
    of_counts = held_out.mixed(predicted) * total - concentration * base
    n_counts, shown = total - concentration, predicted.shown

    shares = predicted.word_topic.prior_shares
    of_prior = (predicted.tokens @ shares)[rows]
    base_of_prior = (weights[:-1] * shares).sum() + weights[-1]

    def loss(a: float, weight: float) -> float:
        change = weight * (of_prior + a * base_of_prior) * (base - 1.0 / n_words)
        mixed = np.maximum(of_counts + a * base + change, 1e-300) / (n_counts + a)
        return -float((counts.data * np.log(shown + opens * mixed)).sum())

    return loss


class WordFold(NamedTuple):
    """Words of a fold of the vocabulary, and held-out documents by these and others."""

    words: Ints
    observed: sp.csr_array  # (n_docs, V) counts of words that are not of the fold
    held_out: sp.csr_array  # (n_docs, V) counts of words that are
    n_tokens: Array  # (n_docs,) n, of whole documents


def fold_words(held_out: HeldOut) -> list[WordFold]:
    """Divide the vocabulary into folds of equal shares of tokens."""
    whole = held_out.whole(held_out.first_parts)
    order = np.argsort(-np.asarray(whole.sum(axis=0)).ravel(), kind="stable")
    n_tokens, folds = np.asarray(whole.sum(axis=1)).ravel(), list[WordFold]()
    for place in range(N_FOLDS):
        words = np.sort(order[place::N_FOLDS])
        is_held = np.isin(whole.indices, words)
        rest, fold = with_values(whole, whole.data * ~is_held, whole.data * is_held)
        folds.append(WordFold(words, rest, fold, n_tokens))
    return folds


def suit_prior(
    folds: list[WordFold], posterior: Posterior, highest: float, executor: Executor
) -> bool:
    """Move the topic prior in place towards that which predicts words best.

    One step of Newton's method in log eta, no longer than `PRIOR_STEP` and to `highest`
    at most, towards the largest posterior density: the log probability of counts of
    the words of each fold given those of all others, and a log-normal prior of eta,
    under topics phi_kw = (eta + S_kw) / (V eta + S_k), with
    S and proportions as they are. No word is predicted from itself: tokens of words
    that the document has shown speak of how often it repeats words. Returns whether the
    prior fell by more than the differences that derivatives are found by; then it may
    fall further. (It may rise without end where words are alike, and is left behind.)

    With proportions lambda_jk ~ Gamma(alpha beta_k, alpha) and Poisson counts of means
    n_j lambda_jk phi_kw, counts of words in a fold and of others are independent given
    the proportions, and with Phi_k the sum of phi_kw over the fold

        E lambda_jk = (alpha beta_k + N_jk) / (alpha + n_j [1 - Phi_k]),

    N_jk the expected tokens of words of other folds, by mean field: these are of fewer
    topics than they should be, and a larger prior makes up for that. (To zero order
    they are of more, so that flat topics would have a prior next to nothing.) Log
    probabilities are Poisson's with mean proportions. Where they are flat, the prior
    stays.
    """
    state, eta = posterior.state, posterior.state.topic_word_prior
    topics = MeanTopics.of(posterior.global_stats.topic_words, eta)
    priors = eta * np.exp([-PRIOR_DIFFERENCE, 0.0, PRIOR_DIFFERENCE])
    logs = [_log_likelihoods(fold, topics, state, priors, executor) for fold in folds]
    below, here, above = np.sum(logs, axis=0)
    if abs(above - below) <= FLAT * abs(here):
        return False
    deviations = np.log(priors / PRIOR_MEDIAN) / PRIOR_DEVIATION
    below, here, above = (below, here, above) - np.square(deviations) / 2.0
    slope = (above - below) / (2.0 * PRIOR_DIFFERENCE)
    bend = (above - 2.0 * here + below) / PRIOR_DIFFERENCE**2
    step = -slope / bend if bend < 0.0 else np.copysign(PRIOR_STEP, slope)
    new = float(eta * np.exp(np.clip(step, -PRIOR_STEP, PRIOR_STEP)))
    new = float(np.clip(new, SMALLEST_PRIOR, highest))
    posterior.set_state(topic_word_prior=new)
    return bool(np.log(eta / new) > PRIOR_DIFFERENCE)


def suit_burstiness(
    held_out: HeldOut, posterior: Posterior, executor: Executor
) -> Prediction | None:
    """Set the burstiness that predicts held-out tokens best, with topics as they are.

    A search of `learn_burstiness` ends where tables and topics of documents agree with
    their discount and concentration: with few tables topics are inferred from little,
    and repeats seem to be needed. So its end, if that is elsewhere, competes with
    present values, and with none. Returns the best prediction, if one of all held-out
    documents was made.
    """
    state = posterior.state.for_prediction
    first = held_out.first_parts
    whole = held_out.whole(first[bursts.evenly(len(first), bursts.N_DOCS)])
    word_topic = MeanTopics.of(
        posterior.global_stats.topic_words, state.topic_word_prior
    )
    rest = state.doc_concentration * state.weights[-1]

    def seat(burstiness: bursts.Burstiness) -> tuple[Array, Array]:
        """Expected tables and base probabilities of the tokens under a burstiness."""
        prior, n_words = state.doc_prior, whole.shape[1]
        seated = fold_in_tables(
            word_topic, prior, rest, whole, burstiness, executor, n_words
        )
        return seated.tables, seated.base

    end = bursts.learn_burstiness(whole, seat, state.burstiness)
    if end != state.burstiness:
        some = held_out.sample()
        results = {
            one: some.predict(posterior, executor, replace(state, burstiness=one))
            for one in dict.fromkeys((None, state.burstiness, end))
        }
        logs = {one: some.log_probability(result) for one, result in results.items()}
        best = max(logs, key=lambda one: logs[one].sum())
        gain = compare(logs[best], logs[None], some.n_tokens)
        is_needed = gain.mean > max(bursts.ERRORS * gain.error, bursts.LEAST_GAIN)
        best = best if is_needed else None
        posterior.set_state(burstiness=best)
        if some is held_out:
            return results[best]
    return None


def _log_likelihoods(
    fold: WordFold,
    topics: MeanTopics,
    state: HDPState,
    priors: Array,
    executor: Executor,
) -> Array:
    """Log probability of a fold under each topic prior, nats, but for constants."""
    alpha, n_tokens = state.doc_concentration, fold.n_tokens
    rows, (n_words, n_topics) = rows_of(fold.held_out.indptr), topics.counts.shape
    seen = topics.counts.seen.among(fold.words)
    parts = row_parts((len(seen), n_topics), PART_SIZE)
    sums = (topics.counts.rows(seen[some]) for some in parts)
    counts, size = column_sums(sums, n_topics), len(fold.words) / n_words

    def shares(topics: MeanTopics) -> Array:
        """Share Phi_k of the words of the fold in each topic."""
        return (counts + len(fold.words) * topics.eta) / topics.norm

    other_words = 1.0 - shares(topics)
    # Mean field weighs topics by alpha beta_k + N_jk, or by exp(psi) of it. Over the
    # denominators of E lambda, here those of a document of mean length, these are the
    # weights of E lambda_jk.
    scale = other_words + alpha / n_tokens.mean()
    weighed = replace(topics, norm=topics.norm * scale)
    theta = fold_in_by_mean_field(weighed, state.doc_prior, fold.observed, executor)
    theta += state.doc_prior
    theta /= alpha + n_tokens[:, None] * other_words
    rest = alpha * state.weights[-1] / (alpha + n_tokens * (1.0 - size))
    logs = np.empty(len(priors))
    for at, eta in enumerate(priors.tolist()):
        other = topics.under(eta)
        means = mix(theta, other, fold.held_out) + rest[rows] / n_words
        in_fold = np.einsum("nk,k->n", theta, shares(other)) + rest * size
        # No BLAS, whose sums depend on its threads.
        logs[at] = (fold.held_out.data * np.log(means)).sum() - (
            n_tokens * in_fold
        ).sum()
    return logs
