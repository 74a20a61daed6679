"""Held-out documents of an HDP, and how well topics predict them.

Bounds do not rank numbers of topics as prediction does, and scores of documents that
were learned from are optimistic, even if some of their tokens are held out: topics that
no two documents share predict these well. So trials are judged by documents that are
not learned from until the trials have ended. Their topics are folded in as by `score`,
but until expected counts converge: with few iterations, trials kept up to 26 topics for
20 planted ones of 5,000 documents.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from skbnp.components.topics import HIGHEST
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, LocalStop
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.fold_in import PART_SIZE, MeanTopics, fold_in, fold_in_tables, mix
from skbnp.models.hdp.model import HDPState
from skbnp.utils.arrays import deal_tokens, row_parts, rows_of, take_rows
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
#: ...or tokens of documents that have fewer than `SHORT`, on average.
SHORT, FEW_SHORT_TOKENS = 20, 25_000
#: So few judge nothing.
FEWEST_JUDGES = 5
#: Held-out documents that judge reductions: those that choose them would flatter them.
OTHERS = slice(1, None, 2)
#: Parts of a held-out document, and of the vocabulary; each is predicted from others.
N_FOLDS = 5
#: Share of the differences of all documents, of so many, that one may have.
MOST_OF_ONE, FEWEST_COMPARED = 0.5, 10
#: When the iteration of a document that judges ends.
JUDGE_STOP = LocalStop(max_iter=100, tol=1e-3)
#: Smallest topic prior that is learned: under smaller ones topics hardly take up words.
SMALLEST_PRIOR = 1e-3


class Gain(NamedTuple):
    """Mean difference of held-out log probability, nats per token, and its error."""

    mean: float
    error: float  # standard


class Prediction(NamedTuple):
    """Prediction of held-out documents by a state."""

    tokens: sp.csr_array  # (n_rows, K) expected, few topics in each row
    prior: Array  # (K,)
    total: Array  # (n_rows,) Dirichlet parameters of all topics together
    rest: Array  # (n_rows,) proportions of all topics not represented
    word_topic: MeanTopics  # (V, K)
    shown: Array  # (nnz,) of the probability of each word, what repeats have
    opens: Array  # (n_rows,) share of first uses, which topics predict


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

    def half(self, number: int, result: "Prediction") -> tuple["HeldOut", "Prediction"]:
        """Return every other document, from `number` on, and their prediction.

        The first half chooses reductions, `OTHERS` judge them. Topics of few documents
        are chosen to end where the choosing documents happen not to use them, so that
        the score of the same documents afterwards is optimistic.
        """
        rows = self.docs % 2 == number
        observed, held_out = self.observed[rows], self.held_out[rows]
        some = replace(
            self, docs=self.docs[rows] // 2, observed=observed, held_out=held_out
        )
        shown = result.shown[rows[rows_of(self.held_out.indptr)]]
        names = "tokens", "total", "rest", "opens"
        others = {name: getattr(result, name)[rows] for name in names}
        return some, result._replace(shown=shown, **others)

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
        self, posterior: Posterior, executor: Executor, state: HDPState | None = None
    ) -> Prediction:
        """Fold in the observed counts; `state` replaces that of the posterior."""
        state = (state or posterior.state).for_prediction
        prior = state.doc_prior
        word_topic = MeanTopics.of(
            posterior.global_stats.topic_words, state.topic_word_prior
        )
        rest = state.doc_concentration * state.weights[-1]
        tokens, shown, opens = self._fold_in(
            word_topic, prior, rest, state.burstiness, executor
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

    def is_matched_by_words(
        self,
        posterior: Posterior,
        logs: Array,
        executor: Executor,
        loss: float,
        *,
        learns_prior: bool,
    ) -> bool:
        """Whether one topic of all words loses less than `loss` nats per token.

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
            if compare(words, logs, self.n_tokens).mean <= -loss:
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
    n_tokens = X.sum()
    is_short = n_tokens < SHORT * X.shape[0]
    return bool(n_tokens < (FEW_SHORT_TOKENS if is_short else FEW_TOKENS))


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
