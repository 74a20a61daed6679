"""Documents held out of training, and how well topics predict them.

No bound ranks numbers of topics as prediction does, and what documents that were
learned from say is optimistic, even of tokens held out of them: topics that no document
shares predict these well. So trials are judged by documents that nobody learns from
until the trials have ended. They are folded in as `score` does it, but until expected
counts settle: by a few iterations alone, trials kept up to 26 topics for 20 planted
ones of 5,000 documents.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from skbnp.components.topics import HIGHEST
from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.local import LocalStop
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus
from skbnp.models.hdp.burstiness import (
    ERRORS,
    LEAST_GAIN,
    N_DOCS,
    Burstiness,
    evenly,
    learn_burstiness,
)
from skbnp.models.hdp.fold_in import (
    PART_SIZE,
    MeanTopics,
    fold_in,
    fold_in_by_mean_field,
    fold_in_tables,
    mix,
)
from skbnp.models.hdp.model import HDPState
from skbnp.rows.splits import deal_tokens, with_values
from skbnp.rows.word_sums import rows_of
from skbnp.utils.parts import column_sums, row_parts
from skbnp.utils.sparse import take_rows

__all__ = [
    "OTHERS",
    "Gain",
    "HeldOut",
    "Prediction",
    "WordFold",
    "compare",
    "deal",
    "fold_words",
    "hold_out",
    "n_held_out",
    "n_judges",
    "split",
    "suit_burstiness",
    "suit_prior",
]

Array = NDArray[np.float64]

#: Share of the documents that are held out...
SHARE = 0.2
#: ...but no more than hold so many tokens: standard errors are then some thousandths
#: of a nat.
N_TOKENS = 40_000
#: Tokens to predict that choose a few parameters as well as all would.
ENOUGH_TOKENS = 5_000
#: Documents that are held out at the least, but no more than a quarter.
FEWEST_DOCS = 100
#: So few judge nothing.
FEWEST_JUDGES = 5
#: Held-out documents that judge reductions: those that choose them would flatter them.
OTHERS = slice(1, None, 2)
#: Parts of a held-out document, and of the vocabulary; each is predicted from others.
N_FOLDS = 5
#: When the iteration of a document that judges ends.
JUDGE_STOP = LocalStop(max_iter=100, tol=1e-3)
#: Smallest topic prior that is learned: under smaller ones topics hardly take up words.
SMALLEST_PRIOR = 1e-3
#: Change of log eta by which derivatives are found; the largest step at a time: what
#: topics hold follows.
PRIOR_DIFFERENCE, PRIOR_STEP = float(np.log(1.5)), float(np.log(3.0))
#: The topic prior has a log-normal density of this median and deviation: words of few
#: short documents ask for any value, or one without end.
PRIOR_MEDIAN, PRIOR_DEVIATION = 0.05, float(np.log(4.0))
#: Relative differences of log probabilities that are rounding errors.
FLAT = 1e-10


class Gain(NamedTuple):
    """By how much one state predicts better than another, nats per token."""

    mean: float
    error: float  # standard


class Prediction(NamedTuple):
    """What a state says of held-out documents."""

    tokens: sp.csr_array  # (n_rows, K) expected, few topics in each row
    prior: Array  # (K,)
    total: Array  # (n_rows,) Dirichlet parameters of all topics together
    rest: Array  # (n_rows,) proportions of all topics not represented
    word_topic: MeanTopics  # (V, K)
    shown: Array  # (nnz,) of the probability of each word, what repeats have
    opens: Array  # (n_rows,) share of first uses, which topics predict

    @property
    def theta(self) -> Array:
        """Proportions, (n_rows, K); made anew."""
        theta = self.tokens.toarray()
        theta += self.prior
        theta /= self.total[:, None]
        return theta

    def of(self, rows: NDArray[np.bool_], held_out: sp.csr_array) -> "Prediction":
        """Return the same of some rows of the counts `held_out` that are predicted."""
        return self._replace(
            tokens=self.tokens[rows],
            total=self.total[rows],
            rest=self.rest[rows],
            shown=self.shown[rows[rows_of(held_out.indptr)]],
            opens=self.opens[rows],
        )


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Documents to learn from, and others: each a row for each of its parts."""

    train: Any  # Corpus
    rows: NDArray[np.intp] | tuple[NDArray[np.intp], ...]  # that `train` has
    docs: NDArray[np.intp]  # (n_rows,) held-out document, counted from 0
    observed: sp.csr_array  # (n_rows, V) counts to fold in
    held_out: sp.csr_array  # (n_rows, V) counts to predict

    @property
    def n_tokens(self) -> Array:
        """Tokens to predict of each held-out document, (n_docs,)."""
        n_tokens = np.asarray(self.held_out.sum(axis=1)).ravel()
        return np.bincount(self.docs, n_tokens).astype(np.float64)

    def choosers(self, result: "Prediction") -> tuple["HeldOut", "Prediction"]:
        """Every other document, from which reductions are chosen, and its prediction.

        Topics that few documents speak of are chosen to end where these happen to speak
        of none of them; what the same documents say afterwards is too good.
        """
        rows = self.docs % 2 == 0
        observed, held_out = self.observed[rows], self.held_out[rows]
        some = replace(
            self, docs=self.docs[rows] // 2, observed=observed, held_out=held_out
        )
        return some, result.of(rows, self.held_out)

    @property
    def first_parts(self) -> NDArray[np.intp]:
        """A row of each document, (n_docs,)."""
        return np.unique(self.docs, return_index=True)[1]

    def whole(self, rows: NDArray[np.intp]) -> sp.csr_array:
        """All counts of the documents of some rows."""
        observed = take_rows(self.observed, rows)
        return sp.csr_array(observed + take_rows(self.held_out, rows))

    def sample(self) -> "HeldOut":
        """Return one part of each document, if that is enough to choose parameters."""
        first = self.first_parts
        if self.held_out[first].sum() < ENOUGH_TOKENS:
            return self
        return replace(
            self,
            docs=np.arange(len(first)),
            observed=self.observed[first],
            held_out=self.held_out[first],
        )

    def predict(self, posterior: Posterior, executor: Executor) -> Prediction:
        """Fold in the observed counts."""
        return self.predict_under(posterior.state.burstiness, posterior, executor)

    def predict_under(
        self, burstiness: Burstiness | None, posterior: Posterior, executor: Executor
    ) -> Prediction:
        """Fold in the observed counts under another burstiness."""
        state = posterior.state.for_prediction
        prior = state.doc_prior
        word_topic = MeanTopics.of(
            posterior.global_stats.topic_words, state.topic_word_prior
        )
        rest = state.doc_concentration * state.weights[-1]
        tokens, shown, opens = self._fold_in(
            word_topic, prior, rest, burstiness, executor
        )
        sums = [
            (take_rows(tokens, rows).toarray() + prior).sum(axis=1)
            for rows in row_parts(tokens.shape, PART_SIZE)
        ]
        total = np.concatenate([np.zeros(0), *sums]) + rest
        return Prediction(tokens, prior, total, rest / total, word_topic, shown, opens)

    def _fold_in(
        self,
        word_topic: Array | MeanTopics,
        prior: Array,
        rest: float,
        burstiness: Burstiness | None,
        executor: Executor,
    ) -> tuple[sp.csr_array, Array, Array]:
        """Return expected counts of topics, and the repeats of words."""
        X, stop = self.observed, JUDGE_STOP
        if burstiness is None:
            tokens = fold_in(word_topic, prior, X, executor, stop)
            return tokens, np.zeros(self.held_out.nnz), np.ones(X.shape[0])
        n_words = X.shape[1]
        seated = fold_in_tables(
            word_topic, prior, rest, X, burstiness, executor, n_words, stop
        )
        return seated.doc_topic, *burstiness.repeats(X, seated.tables, self.held_out)

    def log_probability(self, result: Prediction) -> Array:
        """Log probability of the tokens of each held-out document, (n_docs,)."""
        opens = result.opens[rows_of(self.held_out.indptr)]
        return self._by_document(np.log(result.shown + opens * self.mixed(result)))

    def mixed(self, result: Prediction) -> Array:
        """Probability of each stored entry to predict under the topics alone."""
        rows, n_words = rows_of(self.held_out.indptr), self.held_out.shape[1]
        mixed = mix(result.theta, result.word_topic, self.held_out)
        mixed += result.rest[rows] / n_words
        return mixed

    def log_probability_of_words(
        self,
        burstiness: Burstiness | None,
        posterior: Posterior,
        executor: Executor,
        *,
        learns_prior: bool = False,
    ) -> tuple[Array, float]:
        """Return the same under one topic, that of all documents to learn from.

        And its topic prior: the present one, or that under which it predicts best. Many
        topics leave more to words that none of them has shown than one does.
        """
        state, counts = posterior.state, self.train.word_counts()
        eta, prior = state.topic_word_prior, np.array([state.doc_concentration])

        def words(eta: float) -> Array:
            return (counts + eta) / (counts.sum() + len(counts) * eta)

        _, shown, opens = self._fold_in(
            words(eta)[:, None], prior, 0.0, burstiness, executor
        )
        opens = opens[rows_of(self.held_out.indptr)]

        def logs(eta: float) -> Array:
            return np.log(shown + opens * words(eta)[self.held_out.indices])

        if learns_prior:
            bounds = np.log([SMALLEST_PRIOR, HIGHEST])
            best = minimize_scalar(
                lambda log: -float(self.held_out.data @ logs(np.exp(log))),
                bounds=bounds,
            )
            eta = float(np.exp(best.x))
        return self._by_document(logs(eta)), eta

    def first_uses(self, result: Prediction) -> float:
        """Mean share of topics in the probabilities of tokens; 1.0 without repeats."""
        n_tokens = np.asarray(self.held_out.sum(axis=1)).ravel()
        return float(result.opens @ n_tokens / n_tokens.sum())

    def _by_document(self, logs: Array) -> Array:
        """Sum log probabilities of the stored entries to predict over documents."""
        docs = self.docs[rows_of(self.held_out.indptr)]
        return np.bincount(docs, self.held_out.data * logs).astype(np.float64)


class WordFold(NamedTuple):
    """Words of a fold of the vocabulary, and held-out documents by these and others."""

    words: NDArray[np.intp]
    observed: sp.csr_array  # (n_docs, V) counts of words that are not of the fold
    held_out: sp.csr_array  # (n_docs, V) counts of words that are
    n_tokens: Array  # (n_docs,) n, of whole documents


def fold_words(held_out: HeldOut) -> list[WordFold]:
    """Deal words out in the order of their counts, so that folds weigh alike."""
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
    """Move the topic prior towards the one that predicts words from others best.

    One step of Newton's method in log eta, no longer than `PRIOR_STEP` and to `highest`
    at the most, towards the largest posterior density: the log probability of counts of
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
    with commit():
        posterior.state = replace(state, topic_word_prior=new)
        posterior.follow_prior()
    return bool(np.log(eta / new) > PRIOR_DIFFERENCE)


def suit_burstiness(
    held_out: HeldOut, posterior: Posterior, executor: Executor
) -> Prediction:
    """Set the burstiness that predicts held-out tokens best, with topics as they are.

    A search of `learn_burstiness` ends where tables and topics of documents agree with
    their discount and concentration: with few tables topics are inferred from little,
    and repeats seem to be needed. So its end, if that is elsewhere, competes with
    present values, and with none. Returns the best prediction.
    """
    state = posterior.state.for_prediction
    first = held_out.first_parts
    whole = held_out.whole(first[evenly(len(first), N_DOCS)])
    word_topic = MeanTopics.of(
        posterior.global_stats.topic_words, state.topic_word_prior
    )
    rest = state.doc_concentration * state.weights[-1]

    def seat(burstiness: Burstiness) -> tuple[Array, Array]:
        prior, n_words = state.doc_prior, whole.shape[1]
        seated = fold_in_tables(
            word_topic, prior, rest, whole, burstiness, executor, n_words
        )
        return seated.tables, seated.base

    end = learn_burstiness(whole, seat, state.burstiness)
    if end != state.burstiness:
        some = held_out.sample()
        results = {
            one: some.predict_under(one, posterior, executor)
            for one in dict.fromkeys((None, state.burstiness, end))
        }
        logs = {one: some.log_probability(result) for one, result in results.items()}
        best = max(logs, key=lambda one: logs[one].sum())
        gain = compare(logs[best], logs[None], some.n_tokens)
        is_needed = gain.mean > max(ERRORS * gain.error, LEAST_GAIN)
        best = best if is_needed else None
        with commit():
            posterior.state = replace(posterior.state, burstiness=best)
        if some is held_out:
            return results[best]
    return held_out.predict(posterior, executor)


def _log_likelihoods(
    fold: WordFold,
    topics: MeanTopics,
    state: HDPState,
    priors: Array,
    executor: Executor,
) -> Array:
    """Log probability of counts in a fold under some priors, but for constants."""
    alpha, n_tokens = state.doc_concentration, fold.n_tokens
    rows, (n_words, n_topics) = rows_of(fold.held_out.indptr), topics.shape
    seen = topics.counts.seen.among(fold.words)
    parts = row_parts((len(seen), n_topics), PART_SIZE)
    sums = (topics.counts.rows(seen[some]) for some in parts)
    counts, size = column_sums(sums, n_topics), len(fold.words) / n_words

    def shares(topics: MeanTopics) -> Array:
        """Phi_k."""
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


def compare(new: Array, old: Array, n_tokens: Array) -> Gain:
    """Gain of log probabilities of documents over others, paired by document."""
    gains, total = new - old, n_tokens.sum()
    mean = gains.sum() / total
    spread = np.square(gains - mean * n_tokens).sum() * len(gains) / (len(gains) - 1)
    error = np.sqrt(spread) / total
    return Gain(float(mean), float(error))


def hold_out(X: sp.csr_array, rng: np.random.Generator) -> HeldOut | None:
    """Hold out a fifth of the documents; None if that leaves nothing to judge by.

    More where documents are few, and fewer where they are many.
    """
    order = rng.permutation(X.shape[0])
    lengths = np.asarray(X.sum(axis=1)).ravel()
    n_held = n_held_out(X.shape[0], lengths[order])
    return None if n_held == 0 else split(X, np.sort(order[:n_held]), rng)


def n_held_out(n_docs: int, lengths: Array) -> int:
    """Documents to hold out of so many; 0 if too few to judge by.

    `lengths` are those of documents in random order, the first ones at the least.
    """
    n_held = min(int(np.ceil(SHARE * n_docs)), n_judges(lengths))
    n_held = max(n_held, min(FEWEST_DOCS, n_docs // 4))
    return 0 if n_held < FEWEST_JUDGES else n_held


def n_judges(lengths: Array) -> int:
    """Documents at the head, of these lengths, that are enough to judge by."""
    return max(int((np.cumsum(lengths) <= N_TOKENS).sum()), FEWEST_DOCS)


def split(
    X: sp.csr_array, judges: NDArray[np.intp], rng: np.random.Generator
) -> HeldOut | None:
    """Hold out some documents; None if the tokens of hardly any can be predicted."""
    folds = deal(X[judges], rng)
    if folds is None:
        return None
    is_train = np.ones(X.shape[0], bool)
    is_train[judges] = False
    rows = np.flatnonzero(is_train)
    return HeldOut(Corpus(X[rows]), rows, *folds)


#: Documents that are held out, and what to fold in and to predict, see `HeldOut`.
Folds = tuple[NDArray[np.intp], sp.csr_array, sp.csr_array]


def deal(
    whole: sp.csr_array, rng: np.random.Generator, fewest: int = FEWEST_JUDGES
) -> Folds | None:
    """Deal the tokens of documents out to their parts at random.

    None if the tokens of fewer than `fewest` can be predicted. Words that a document
    has are not left out with all their tokens: they would not be missing at random, and
    of a small vocabulary ask for many more topics than the documents were drawn with.
    (The folds of `suit_prior` are of the vocabulary, whatever words a document has.)
    """
    docs, held_out, observed = zip(*deal_tokens(whole, N_FOLDS, rng), strict=True)
    numbers = np.concatenate(docs)
    if len(np.unique(numbers)) < fewest:
        return None
    return (
        np.unique(numbers, return_inverse=True)[1],
        sp.vstack(observed, format="csr"),
        sp.vstack(held_out, format="csr"),
    )
