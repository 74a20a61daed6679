"""Held-out documents of an HDP, and how well topics predict them.

Bounds do not rank numbers of topics as prediction does, and scores of documents that
were learned from are optimistic, even if some of their tokens are held out: topics that
no two documents share predict these well. So trials are judged by documents that are
not learned from until the trials have ended. Their topics are folded in as by `score`,
but until expected counts converge: with few iterations, trials kept up to 26 topics for
20 planted ones of 5,000 documents.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from skbnp.components.topics import HIGHEST
from skbnp.inference.executor import Executor, commit
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, LocalStop
from skbnp.models.hdp import burstiness as bursts
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.fold_in import (
    MeanTopics,
    fold_in,
    fold_in_by_mean_field,
    fold_in_tables,
    mix,
)
from skbnp.models.hdp.model import HDPState
from skbnp.utils import arrays
from skbnp.utils.arrays import csr, deal_tokens, row_parts, rows_of, take_rows
from skbnp.utils.typing import Array, Ints

#: Share of the documents that are held out...
SHARE = 0.2
#: ...but no more than hold so many tokens: standard errors are then some thousandths
#: of a nat.
N_TOKENS = 40_000
#: Tokens to predict that choose a few parameters as well as all would.
ENOUGH_TOKENS = 5_000
#: Documents that are held out at least, but no more than a quarter.
FEWEST_DOCS = 100
#: Tokens of which a fifth has standard errors of some hundredths of a nat...
FEW_TOKENS = 10_000
#: Documents are short that have fewer tokens, on average. Topics of at most so many
#: tokens in all start from a sampler, whose time grows with them.
SHORT, MOST_SAMPLED = 20, 300_000
#: So few judge nothing.
FEWEST_JUDGES = 5
#: Held-out documents that judge reductions: those that choose them would flatter them.
SECOND_HALF = slice(1, None, 2)
#: Parts of a held-out document, and of the vocabulary; each is predicted from others.
N_FOLDS = 5
#: Share of the differences of all documents, of so many, that one may have.
MOST_OF_ONE, FEWEST_COMPARED = 0.5, 10
#: When the iteration of a document that judges ends.
JUDGE_STOP = LocalStop(max_iter=100, tol=1e-3)
#: Nats per token that word frequencies may lose: half of what a merge of all may.
WORDS_LOSS = 0.001
#: Concentration by which the shares of each document are those of the corpus.
MEAN_SHARES = 1e9
#: Smallest topic prior that is learned: under smaller ones topics hardly take up words.
SMALLEST_PRIOR = 1e-3


class Gain(NamedTuple):
    """Mean difference of held-out log probability, nats per token, and its error."""

    mean: float
    error: float  # standard


class Prediction(NamedTuple):
    """Prediction of held-out documents by a state."""

    tokens: sp.csr_array  # (n_rows, K) expected, few topics in each row
    prior: Array  # (K,), or of each row (n_rows, K)
    total: Array  # (n_rows,) Dirichlet parameters of all topics together
    rest: Array  # (n_rows,) proportions of all topics not represented
    word_topic: MeanTopics  # (V, K)
    repeated: Array  # (nnz,) of the probability of each word, what repeats have
    fresh: Array  # (n_rows,) share of first uses, which topics predict


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Training documents, and held-out documents with their tokens split into parts."""

    train: Any  # Corpus
    rows: Ints | tuple[Ints, ...]  # that `train` has
    docs: Ints  # (n_rows,) held-out document, counted from 0
    observed: sp.csr_array  # (n_rows, V) counts to fold in
    held_out: sp.csr_array  # (n_rows, V) counts to predict

    @property
    def n_tokens(self) -> Array:
        """Tokens to predict of each held-out document, (n_docs,)."""
        n_tokens = np.asarray(self.held_out.sum(axis=1)).ravel()
        return np.bincount(self.docs, n_tokens).astype(np.float64)

    def first_uses(self, result: "Prediction") -> float:
        """Share of the probability of held-out tokens that topics have, not repeats."""
        n_tokens = np.asarray(self.held_out.sum(axis=1)).ravel()
        return float(result.fresh @ n_tokens / n_tokens.sum())

    def half(self, number: int, result: "Prediction") -> tuple["HeldOut", "Prediction"]:
        """Return every other document, from `number` on, and their prediction.

        The first half chooses reductions, `SECOND_HALF` judges them. Topics of few
        documents are chosen to end where the choosing documents happen not to use them,
        so that the score of the same documents afterwards is optimistic.
        """
        rows = self.docs % 2 == number
        observed, held_out = self.observed[rows], self.held_out[rows]
        some = replace(
            self, docs=self.docs[rows] // 2, observed=observed, held_out=held_out
        )
        repeated = result.repeated[rows[rows_of(self.held_out.indptr)]]
        names = "tokens", "total", "rest", "fresh"
        others = {name: getattr(result, name)[rows] for name in names}
        return some, result._replace(repeated=repeated, **others)

    @property
    def first_parts(self) -> Ints:
        """Row of the first part of each document, (n_docs,)."""
        return np.unique(self.docs, return_index=True)[1]

    def whole(self, rows: Ints) -> sp.csr_array:
        """Counts of the documents of some rows, observed and held out together."""
        observed = take_rows(self.observed, rows)
        return sp.csr_array(observed + take_rows(self.held_out, rows))

    def sample(self) -> "HeldOut":
        """Return one part of each document, if these have tokens enough."""
        first = self.first_parts
        if self.held_out[first].sum() < ENOUGH_TOKENS:
            return self
        return replace(
            self,
            docs=np.arange(len(first)),
            observed=self.observed[first],
            held_out=self.held_out[first],
        )

    def predict(
        self,
        posterior: Posterior,
        executor: Executor,
        state: HDPState | None = None,
        priors: Array | None = None,
    ) -> Prediction:
        """Fold in the observed counts; `state` replaces that of the posterior.

        Rows may have `priors` of their own, (n_rows, K + 1).
        """
        state = (state or posterior.state).for_prediction
        prior, rest = state.doc_prior, state.doc_concentration * state.weights[-1]
        if priors is not None:
            prior, rest = np.ascontiguousarray(priors[:, :-1]), priors[:, -1].copy()
        word_topic = MeanTopics.of(
            posterior.global_stats.topic_words, state.topic_word_prior
        )
        tokens, repeated, fresh = self._fold_in(
            word_topic, prior, rest, state.burstiness, executor
        )
        sums = [
            (take_rows(tokens, rows).toarray() + np.atleast_2d(prior)[own]).sum(axis=1)
            for rows in row_parts(tokens.shape)
            for own in [slice(None) if priors is None else rows]
        ]
        total = np.concatenate([np.zeros(0), *sums]) + rest
        return Prediction(
            tokens, prior, total, rest / total, word_topic, repeated, fresh
        )

    def _fold_in(
        self,
        word_topic: Array | MeanTopics,
        prior: Array,
        rest: float | Array,
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
        fresh = result.fresh[rows_of(self.held_out.indptr)]
        return self._by_document(np.log(result.repeated + fresh * self.mixed(result)))

    def mixed(self, result: Prediction) -> Array:
        """Probability of held-out entries under the topics without repeats, (nnz,)."""
        rows, n_words = rows_of(self.held_out.indptr), self.held_out.shape[1]
        theta = result.tokens.toarray()
        theta += result.prior
        theta /= result.total[:, None]
        mixed = mix(theta, result.word_topic, self.held_out)
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
        """Return the log probability under one topic, the word frequencies of training.

        And its topic prior: the present one or, if `learns_prior`, the one that
        predicts best, since several topics give unseen words more probability than one
        topic does.
        """
        state, counts = posterior.state, self.train.word_counts()
        eta, prior = state.topic_word_prior, np.array([state.doc_concentration])

        def words(eta: float) -> Array:
            return (counts + eta) / (counts.sum() + len(counts) * eta)

        _, repeated, fresh = self._fold_in(
            words(eta)[:, None], prior, 0.0, burstiness, executor
        )
        fresh = fresh[rows_of(self.held_out.indptr)]

        def logs(eta: float) -> Array:
            return np.log(repeated + fresh * words(eta)[self.held_out.indices])

        if learns_prior:
            bounds = np.log([SMALLEST_PRIOR, HIGHEST])
            best = minimize_scalar(
                lambda log: -float(self.held_out.data @ logs(np.exp(log))),
                bounds=bounds,
            )
            eta = float(np.exp(best.x))
        return self._by_document(logs(eta)), eta

    def gain_over_words(
        self, posterior: Posterior, logs: Array, executor: Executor, learns_prior: bool
    ) -> Gain:
        """Gain over one topic with the same repeats of words, nats per token.

        `logs` are log probabilities of documents under all topics.
        """
        words, _ = self.log_probability_of_words(
            posterior.state.burstiness, posterior, executor, learns_prior=learns_prior
        )
        return compare(logs, words, self.n_tokens)

    def log_probability_of_mean(
        self, posterior: Posterior, executor: Executor
    ) -> Array:
        """Log probability of each document by the mean shares of all, (n_docs,).

        What its own shares do not gain over these is smoothing of word frequencies,
        not topics.
        """
        state = replace(posterior.state, prediction_concentration=MEAN_SHARES)
        return self.log_probability(self.predict(posterior, executor, state))

    def is_matched_by_words(
        self, posterior: Posterior, logs: Array, executor: Executor, learns_prior: bool
    ) -> bool:
        """Whether one topic of all words loses less than `WORDS_LOSS`.

        `logs` are log probabilities of documents under all topics. If documents explain
        their repeats, without these, too: long documents have shown all their words.
        """
        state = posterior.state
        for burstiness in dict.fromkeys((state.burstiness, None)):
            words, _ = self.log_probability_of_words(
                burstiness, posterior, executor, learns_prior=learns_prior
            )
            if burstiness != state.burstiness:
                other = replace(state, burstiness=burstiness)
                logs = self.log_probability(self.predict(posterior, executor, other))
            if compare(words, logs, self.n_tokens).mean <= -WORDS_LOSS:
                return False
        return True

    def _by_document(self, logs: Array) -> Array:
        """Sum log probabilities of held-out entries over documents, (n_docs,)."""
        docs = self.docs[rows_of(self.held_out.indptr)]
        return np.bincount(docs, self.held_out.data * logs).astype(np.float64)


def compare(new: Array, old: Array, n_tokens: Array) -> Gain:
    """Mean difference of log probabilities, paired by document, and its error.

    A document that has more than half of all differences is left out: what one
    document shows, such as words that no other has, is no evidence of structure.
    """
    gains = new - old
    sizes = np.abs(gains)
    if len(gains) >= FEWEST_COMPARED and sizes.max() > MOST_OF_ONE * sizes.sum():
        others = np.delete(np.arange(len(gains)), sizes.argmax())
        gains, n_tokens = gains[others], n_tokens[others]
    total = n_tokens.sum()
    mean = gains.sum() / total
    spread = np.square(gains - mean * n_tokens).sum() * len(gains) / (len(gains) - 1)
    error = np.sqrt(spread) / total
    return Gain(float(mean), float(error))


def has_few_tokens(X: sp.csr_array) -> bool:
    """Whether documents are too few for one split to choose the number of topics."""
    return bool(X.sum() < FEW_TOKENS)


def has_short_documents(X: sp.csr_array) -> bool:
    """Whether documents are short on average, and not too many.

    Fractions count as one token: a sampler takes them for whole ones.
    """
    limit = min(SHORT * X.shape[0], MOST_SAMPLED)
    return bool(X.sum() < limit and np.ceil(X.data).sum() < limit)


def has_few_judges(X: sp.csr_array) -> bool:
    """Whether one split has too few documents to judge a minimum gain of topics.

    Fewer than `FEWEST_DOCS` documents judge, or all have fewer tokens than twice those
    that judge large corpora.
    """
    return bool(X.shape[0] // 4 < FEWEST_DOCS or X.sum() < 2.0 * N_TOKENS)


def hold_out(X: sp.csr_array, rng: np.random.Generator) -> HeldOut | None:
    """Hold out a share of the documents; None if too few can be predicted."""
    order = rng.permutation(X.shape[0])
    lengths = np.asarray(X.sum(axis=1)).ravel()
    n_held = n_held_out(X.shape[0], lengths[order])
    return None if n_held == 0 else split(X, np.sort(order[:n_held]), rng)


def n_held_out(n_docs: int, lengths: Array) -> int:
    """Number of documents to hold out of `n_docs`; 0 if too few could be predicted.

    `lengths` are the numbers of tokens of documents in random order, at least of the
    first.
    """
    n_held = min(int(np.ceil(SHARE * n_docs)), n_judges(lengths))
    n_held = max(n_held, min(FEWEST_DOCS, n_docs // 4))
    return 0 if n_held < FEWEST_JUDGES else n_held


def n_judges(lengths: Array) -> int:
    """Number of documents, from the first of these lengths, that suffice to judge."""
    return max(int((np.cumsum(lengths) <= N_TOKENS).sum()), FEWEST_DOCS)


def split(X: sp.csr_array, judges: Ints, rng: np.random.Generator) -> HeldOut | None:
    """Hold out the documents `judges`; None if too few of them can be predicted."""
    folds = deal(X[judges], rng)
    if folds is None:
        return None
    is_train = np.ones(X.shape[0], bool)
    is_train[judges] = False
    rows = np.flatnonzero(is_train)
    return HeldOut(Corpus(X[rows]), rows, *folds)


#: Documents that are held out, and what to fold in and to predict, see `HeldOut`.
Folds = tuple[Ints, sp.csr_array, sp.csr_array]


def deal(
    whole: sp.csr_array, rng: np.random.Generator, fewest: int = FEWEST_JUDGES
) -> Folds | None:
    """Split the tokens of documents at random into observed and held-out parts.

    None if the tokens of fewer than `fewest` documents can be predicted. Tokens are
    held out one by one, not all tokens of a word: these would not be missing at random,
    and with a small vocabulary would ask for many more topics than the documents were
    drawn from. (The folds of `fold_words` are of the vocabulary, whatever words a
    document has.)
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


# Priors of an HDP under which held-out documents are predicted best, given its topics.
#
# Held-out documents choose the topic prior (`choose_prior`), the burstiness
# (`choose_burstiness`), and a concentration of documents for prediction, apart from
# that of learning. Topics were shaped by the documents that they were learned from,
# whose proportions are sharper than those of other documents: of titles, the
# concentration alpha that is learned with the topics is several times too small to
# predict unseen ones. So they choose another one,
#
#     a = argmax_{a >= alpha} sum_jw n_jw log [ (sum_k N_jk phi_kw + a b_w) / (N_j + a)
#     ],
#     b_w = sum_k beta_k phi_kw + beta_rest / V,
#
# with n_jw the held-out tokens and N the expected counts of the observed ones, by which
# the judges of trials, `score` and `transform` predict. Learning keeps alpha: under a
# larger one topics blur. Then they choose the weight by which `score` moves the prior
# of topics from equal words to the mean topic b (see `fold_in.background`).


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


def choose_prediction(
    pairs: Sequence[tuple[HeldOut, Posterior]], executor: Executor
) -> None:
    """Set in place the parameters of prediction under which held-out tokens are likely.

    One concentration of documents and one weight of the mean topic for all posteriors,
    each of which predicts the documents that were held out of its own learning.
    """
    bounds = np.log([1e-6, HIGHEST_CONCENTRATION])
    for _ in range(N_ROUNDS):
        before = [p.state.for_prediction.doc_concentration for _, p in pairs]
        losses = executor.map_here(lambda pair: _loss(*pair, executor), pairs)

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
    total, fresh = predicted.total[rows], predicted.fresh[rows]
    of_counts = held_out.mixed(predicted) * total - concentration * base
    n_counts, repeated = total - concentration, predicted.repeated

    shares = predicted.word_topic.prior_shares
    of_prior = (predicted.tokens @ shares)[rows]
    base_of_prior = (weights[:-1] * shares).sum() + weights[-1]

    def loss(a: float, weight: float) -> float:
        mixed = of_counts + a * base
        if weight > 0.0:
            mixed += weight * (of_prior + a * base_of_prior) * (base - 1.0 / n_words)
        mixed = np.maximum(mixed, 1e-300) / (n_counts + a)
        return -float((counts.data * np.log(repeated + fresh * mixed)).sum())

    return loss


def choose_priors(
    held_out: HeldOut,
    posterior: Posterior,
    executor: Executor,
    folds: Sequence["WordFold"] = (),
    *,
    repeats: bool,
) -> Prediction:
    """Set priors in place under which held-out tokens are likely; predict these.

    The topic prior if there are `folds` of words, and burstiness if `repeats`.
    """
    if folds:
        choose_prior(folds, posterior, HIGHEST, executor)
    if not posterior.model.has_bound:
        choose_prediction([(held_out.sample(), posterior)], executor)
    pairs = [(held_out, posterior)]
    results = choose_burstiness(pairs, executor) if repeats else []
    return results[0] if results else held_out.predict(posterior, executor)


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
        rest, fold = arrays.with_values(
            whole, whole.data * ~is_held, whole.data * is_held
        )
        folds.append(WordFold(words, rest, fold, n_tokens))
    return folds


def choose_prior(
    folds: Sequence[WordFold], posterior: Posterior, highest: float, executor: Executor
) -> bool:
    """Move the topic prior in place towards that which predicts words best.

    One step of Newton's method in log eta, no longer than `PRIOR_STEP` and to `highest`
    at most, towards the largest posterior density: the log probability of counts of
    the words of each fold given those of all others, and a log-normal prior of eta,
    under topics phi_kw = (eta + S_kw) / (V eta + S_k), with
    S and proportions as they are. No word is predicted from itself: tokens of words
    that the document has shown speak of how often it repeats words. Returns whether the
    prior fell by more than the differences that derivatives are found by; then it may
    fall further. (It may rise without end where words are equally probable, and is left
    behind.)

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


#: Expected tables of stored counts under a burstiness; probabilities of their words.
_Seat = Callable[[Burstiness], tuple[Array, Array]]


def choose_burstiness(
    pairs: Sequence[tuple[HeldOut, Posterior]], executor: Executor
) -> list[Prediction]:
    """Set the burstiness that predicts held-out tokens best, with topics as they are.

    One for all posteriors, each of which predicts the documents that were held out of
    its own learning; its present one is that of all. A search of `learn_burstiness`
    ends where tables and topics of documents agree with their discount and
    concentration: with few tables topics are inferred from little, and repeats seem to
    be needed. So its end, if that is elsewhere, competes with present values, and with
    none. Returns the best predictions, if those of all held-out documents were made.
    """
    present = pairs[0][1].state.burstiness
    seats, wholes = list[_Seat](), list[sp.csr_array]()
    for held_out, posterior in pairs:
        first = held_out.first_parts
        rows = first[bursts.evenly(len(first), bursts.N_DOCS // len(pairs))]
        wholes.append(held_out.whole(rows))
        seats.append(_seat(wholes[-1], posterior, executor))

    def seat(burstiness: Burstiness) -> tuple[Array, Array]:
        """Expected tables and base probabilities of the tokens under a burstiness."""
        tables, base = zip(*(one(burstiness) for one in seats), strict=True)
        return np.concatenate(tables), np.concatenate(base)

    whole = sp.vstack(wholes, format="csr")
    end = bursts.learn_burstiness(whole, seat, present)
    if end == present:
        return []
    samples = [(held_out.sample(), posterior) for held_out, posterior in pairs]
    results, logs = dict[Burstiness | None, list[Prediction]](), dict[Any, Array]()
    for one in dict.fromkeys((None, present, end)):
        results[one], of_all = [], list[Array]()
        for some, posterior in samples:
            state = replace(posterior.state, burstiness=one)
            results[one].append(some.predict(posterior, executor, state))
            of_all.append(some.log_probability(results[one][-1]))
        logs[one] = np.concatenate(of_all)
    best = max(logs, key=lambda one: logs[one].sum())
    n_tokens = np.concatenate([some.n_tokens for some, _ in samples])
    gain = compare(logs[best], logs[None], n_tokens)
    is_needed = gain.mean > max(bursts.ERRORS * gain.error, bursts.LEAST_GAIN)
    best = best if is_needed else None
    for _, posterior in pairs:
        posterior.set_state(burstiness=best)
    are_whole = all(s[0] is p[0] for s, p in zip(samples, pairs, strict=True))
    return results[best] if are_whole else []


def _seat(X: sp.csr_array, posterior: Posterior, executor: Executor) -> _Seat:
    """How tokens of documents sit at tables under the topics of a posterior."""
    state = posterior.state.for_prediction
    word_topic = MeanTopics.of(
        posterior.global_stats.topic_words, state.topic_word_prior
    )
    prior, rest = state.doc_prior, state.doc_concentration * state.weights[-1]

    def seat(burstiness: Burstiness) -> tuple[Array, Array]:
        seated = fold_in_tables(
            word_topic, prior, rest, X, burstiness, executor, X.shape[1]
        )
        return seated.tables, seated.base

    return seat


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
    parts = row_parts((len(seen), n_topics))
    sums = (topics.counts.rows(seen[some]) for some in parts)
    counts, size = arrays.column_sums(sums, n_topics), len(fold.words) / n_words

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
