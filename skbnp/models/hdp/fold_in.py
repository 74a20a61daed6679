"""Fold-in of documents given fixed topics of an HDP: expected counts, probabilities.

By the zero-order collapsed step (CVB0) of Asuncion et al. (2009),

    r_jwk ~ (alpha beta_k + [N_jk - min(n_jw, 1) r_jwk]_+) phi_kw,
    N_jk = sum_w n_jw r_jwk,

over the topics that a document uses, and for a few iterations, as in learning, or as
long as is requested; counts are extrapolated between iterations (see the kernel). It is
mostly nearer to posterior means than mean field, where exp(psi(a)) ~ exp(-1 / a) of a
topic of small prior a is next to nothing; not where topics share most words, or
documents repeat few words, where more iterations are needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.topics import word_norm
from skbnp.components.word_topics import Weighting, WordTopics
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalStop
from skbnp.kernels._collapsed import N_START, infer_zero_order
from skbnp.models.hdp import local as collapsed
from skbnp.models.hdp.burstiness import N_DOCS, Burstiness, evenly, learn_burstiness
from skbnp.models.hdp.local import DocumentStep, expected_counts
from skbnp.rows.batch import Batch, Block
from skbnp.utils.arrays import csr, rows_of
from skbnp.utils.typing import Array, Ints
from skbnp.utils.validation import SMALLEST_PRIOR


class Choice(NamedTuple):
    """How the topics in use of a document are found."""

    n_start: int  # iterations over all topics
    active: float  # tokens of a topic in use


#: A few more topics than learning needs; documents that have a prior of their own start
#: near what they use, see `benchmarks/results/groups.md`.
SHARED, OWN = Choice(N_START, 0.1), Choice(1, 0.1)
#: When the iteration of a document ends: as in learning, but it is extrapolated here.
SHORT_STOP = LocalStop(collapsed.MAX_ITER, collapsed.TOL)
#: A fold-in by mean field ends at this mean change per token, or after so many steps.
MEAN_FIELD_TOL, MEAN_FIELD_MAX_ITER = 1e-3, 100
#: Iterations before, with mean weights of topics: no word would ever find those of
#: small priors otherwise.
N_MEAN = 5


@dataclass(frozen=True, slots=True)
class MeanTopics:
    """Mean topics (eta + S_kw) / (V eta + S_k), made for the words that are requested.

    `MeanTopics[words]` is (n, K); as an array it would take as much as the counts.
    """

    counts: WordTopics  # S, which share the table of a posterior as long as that stays
    eta: float | Array  # or of each topic, (K,)
    norm: Array  # (K,)

    @classmethod
    def of(cls, topic_words: WordTopics, eta: float) -> "MeanTopics":
        """Return the mean topics of a posterior."""
        norm = word_norm(topic_words, eta, Weighting.MEAN)
        return cls(topic_words.frozen(), eta, norm)

    @classmethod
    def given(cls, word_topic: "Array | MeanTopics") -> "MeanTopics":
        """Return mean topics, from an array (V, K) if they are not such already."""
        if isinstance(word_topic, MeanTopics):
            return word_topic
        counts = WordTopics(np.asarray(word_topic, np.float64))
        return cls(counts, 0.0, np.ones(word_topic.shape[1]))

    def under(self, eta: float) -> "MeanTopics":
        """Return the mean topics of the same counts under another topic prior."""
        new = np.where(self.counts.follows_prior, eta, self.eta)
        more = self.counts.shape[0] * (new - self.eta)
        return replace(self, eta=new, norm=self.norm + more)

    @property
    def prior_shares(self) -> Array:
        """Share V eta / (V eta + S_k) of the prior in each topic, (K,).

        Known topics have none.
        """
        shares = self.counts.shape[0] * self.eta / self.norm
        return np.where(self.counts.is_known, 0.0, shares)

    def __getitem__(self, words: Ints | slice) -> Array:
        topics = self.counts.rows(words)
        topics += self.eta
        topics /= self.norm
        return topics


class Seated(NamedTuple):
    """Result of the fold-in with burstiness: counts of topics, and tables of words."""

    doc_topic: sp.csr_array  # (n_docs, K) tokens of each topic, or tables
    tables: Array  # (nnz,) of each stored count; (0,) if words have none
    base: Array  # (nnz,) probability of its word under the topics of all others


def _infer(
    batch: Batch,
    weights: NDArray[np.float32],
    prior: Array,
    executor: Executor,
    stop: LocalStop,
    restaurant: tuple[Any, ...] = (),
    choice: Choice | None = None,
) -> Seated:
    """Infer the topics of documents, and tables of words if there is a `restaurant`.

    `weights` are relative ones of the words of the batch, (n_words, stride), `prior` is
    (K,) or of each document (n_docs, K), and `restaurant` are the scale of the weights,
    `rest`, V, grid, d and c.
    """
    choice = choice or (OWN if prior.ndim > 1 else SHARED)
    given = weights, np.atleast_2d(prior), choice, stop, restaurant
    infer = partial(_infer_block, *given)
    result = executor.map_all(infer, batch.blocks)
    tables, base = (
        np.concatenate([np.zeros(0), *(array for one in result for array in one[at])])
        for at in (slice(3, 4), slice(4, 5))
    )
    shape = batch.n_docs, prior.shape[-1]
    return Seated(collapsed.doc_topic_matrix(result, shape), tables, base)


def _infer_block(
    weights: NDArray[np.float32],
    prior: Array,
    choice: Choice,
    stop: LocalStop,
    restaurant: tuple[Any, ...],
    block: Block,
) -> tuple[Any, ...]:
    own = block.rows if len(prior) > 1 else slice(None)
    if restaurant:
        tops, rest, *words = restaurant
        restaurant = tops, np.atleast_1d(rest)[own], *words
    return infer_zero_order(
        *block.arrays, weights, prior[own], *choice, *stop, *restaurant
    )


def fold_in(
    word_topic: Array | MeanTopics,
    prior: Array,
    X: sp.csr_array,
    executor: Executor,
    stop: LocalStop = SHORT_STOP,
) -> sp.csr_array:
    """Infer the expected tokens N of each topic in each document, (n_docs, K).

    Topics (V, K) are fixed; words of which no topic has counts are ignored. `prior` is
    (K,), or of each document (n_docs, K).
    """
    batch, table, _ = _weighed(word_topic, prior.shape[-1], X)
    return _infer(batch, table, prior, executor, stop).doc_topic


def fold_in_tables(
    word_topic: Array | MeanTopics,
    prior: Array,
    rest: float | Array,
    X: sp.csr_array,
    burstiness: Burstiness,
    executor: Executor,
    n_features: int,
    stop: LocalStop = SHORT_STOP,
) -> Seated:
    """Infer expected tables of topics and of words with burstiness, given fixed topics.

    `rest` is the prior mass of all unrepresented topics, each of `n_features` words
    having the same probability under these. Both priors may be of each document:
    (n_docs, K) and (n_docs,).
    """
    batch, weights, tops = _weighed(word_topic, prior.shape[-1], X)
    words = burstiness.arguments(n_features, X.data.max(initial=1.0))
    seated = _infer(batch, weights, prior, executor, stop, (tops, rest, *words))
    if len(batch.counts) == X.nnz:
        return seated
    # Words that no topic has come from the others alone, a table for each.
    tables = np.minimum(X.data, 1.0)
    of_rest = rest / n_features / (prior.sum(axis=-1) + rest)
    base = np.broadcast_to(of_rest, X.shape[:1])[rows_of(X.indptr)]
    is_in = np.isin(X.indices, batch.words)
    tables[is_in], base[is_in] = seated.tables, seated.base
    return Seated(seated.doc_topic, tables, base)


class Documents(NamedTuple):
    """Documents, with the mean topics of a posterior at their words."""

    state: Any
    batch: Batch
    weights: NDArray[np.float32]
    words: tuple[Any, ...]  # scale of the weights and burstiness, if words have tables

    @classmethod
    def of(
        cls, posterior: Posterior, X: sp.csr_array, executor: Executor
    ) -> "Documents":
        """Read the words of documents, (n_docs, n_features)."""
        state = posterior.state.for_prediction
        batch = Batch.from_counts(X, state.n_components)
        weights, tops, norm, _ = collapsed.mean_weights(posterior, batch, executor)
        words: tuple[Any, ...] = ()
        if state.burstiness is not None:
            n_features = posterior.global_stats.topic_words.shape[0]
            words = state.burstiness.arguments(n_features, X.data.max(initial=1.0))
            words = tops / norm.max(), *words
        return cls(state, batch, weights, words)

    def infer(
        self,
        executor: Executor,
        priors: Array | None = None,
        stop: LocalStop = SHORT_STOP,
        choice: Choice | None = None,
    ) -> Seated:
        """Infer topics; documents may have `priors` of their own, (n_docs, K + 1).

        Counts are of tokens or, with burstiness, of tables: the first uses of words.
        """
        state, words = self.state, self.words
        prior, rest = state.doc_prior, state.doc_concentration * state.weights[-1]
        if priors is not None:
            prior, rest = np.ascontiguousarray(priors[:, :-1]), priors[:, -1].copy()
        if words:
            words = words[0], rest, *words[1:]
        return _infer(self.batch, self.weights, prior, executor, stop, words, choice)


def fold_in_posterior(
    posterior: Posterior, X: sp.csr_array, executor: Executor
) -> Seated:
    """Infer the topics of documents under the mean topics of a posterior."""
    return Documents.of(posterior, X, executor).infer(executor)


def score_documents(
    posterior: Posterior,
    X: sp.csr_array,
    executor: Executor,
    without_topics: Sequence[int] = (),
) -> Array:
    """Log probability of the tokens of documents, nats per token.

    Documents without tokens are left out. The proportions of a document are inferred
    from the same tokens, so that scores are optimistic, equally for all documents that
    were not learned from. `without_topics` are columns that are left out.
    """
    mixed = word_probabilities(
        posterior, posterior.state, X, X, executor, without_topics
    )
    rows = rows_of(X.indptr)
    logs = X.data * np.log(np.maximum(mixed, 1e-300))
    n_tokens = np.asarray(X.sum(axis=1)).ravel()
    has_tokens = n_tokens > 0.0
    return np.bincount(rows, logs, X.shape[0])[has_tokens] / n_tokens[has_tokens]


def word_probabilities(
    posterior: Posterior,
    state: Any,
    observed: sp.csr_array,
    predicted: sp.csr_array,
    executor: Executor,
    without_topics: Sequence[int] = (),
) -> Array:
    """Probability of each entry of `predicted`, given `observed` tokens, (nnz,).

    Uses mean topics and expected proportions under the priors of `state`, which may be
    others than those of `posterior`; topics of columns `without_topics` are left out.
    """
    topic_words, prior = posterior.global_stats.topic_words, state.doc_prior
    topics = MeanTopics.of(topic_words, state.topic_word_prior)
    if without_topics:
        prior = prior.copy()
        prior[list(without_topics)] = 0.0
    theta = fold_in(topics, prior, observed, executor).toarray() + prior
    rest = state.doc_concentration * state.weights[-1]
    total, rows = theta.sum(axis=1) + rest, rows_of(predicted.indptr)
    mixed = mix(theta, topics, predicted) + rest / predicted.shape[1]
    return mixed / total[rows]


def fold_in_by_mean_field(
    word_topic: Array | MeanTopics, prior: Array, X: sp.csr_array, executor: Executor
) -> Array:
    """Infer Dirichlet parameters of proportions by mean field, given topics.

    Used where the topic prior is learned, which the collapsed step would not suit.
    """
    batch, table, _ = _weighed(word_topic, len(prior), X)
    step = DocumentStep(
        weights=table,
        prior=prior,
        share=prior / prior.sum(),
        remembered=None,
        stop=LocalStop(MEAN_FIELD_MAX_ITER, MEAN_FIELD_TOL),
        n_mean=N_MEAN,
    )
    return expected_counts(step, batch, executor).toarray()


def _weighed(
    word_topic: Array | MeanTopics, n_topics: int, X: sp.csr_array
) -> tuple[Batch, NDArray[np.float32], Array]:
    """A batch of words that any topic has, weights of topics, and their scale.

    Weights of a word are relative to its largest one, which is its scale.
    """
    topics, batch = MeanTopics.given(word_topic), Batch.from_counts(X, n_topics)
    eta, norm, tops = topics.eta, topics.norm, np.empty(len(batch.words))
    if isinstance(eta, np.ndarray):
        raise TypeError("topics of priors of their own are not folded in")
    table = topics.counts.weights(
        batch.words, norm, eta, Weighting.MEAN, tops=tops, stays_shared=True
    )
    tops /= norm.max(initial=1e-300)
    possible = tops > 0.0
    if possible.all():
        return batch, table, tops
    holds = np.zeros(X.shape[1])
    holds[batch.words[possible]] = 1.0
    X = X @ sp.diags_array(holds, format="csr")
    X.eliminate_zeros()
    X.sort_indices()
    return _weighed(topics, n_topics, X)


def mix(theta: Array, word_topic: Array | MeanTopics, X: sp.csr_array) -> Array:
    """sum_k theta_jk phi_kw of each stored entry (j, w)."""
    topics, theta = MeanTopics.given(word_topic), np.ascontiguousarray(theta)
    return topics.counts.mixed(theta, X, topics.eta, topics.norm)


def background(
    theta: Array,
    rest: Array,
    word_topic: Array | MeanTopics,
    prior: Array,
    prior_rest: float,
    X: sp.csr_array,
) -> Array:
    """Change of `mix` and rest / V if priors of topics follow the mean topic, (nnz,).

    If the prior of topics is V eta b_w for word w, with b_w the mean topic under the
    Dirichlet parameters `prior` and `prior_rest`, in place of eta:

        (b_w - 1 / V) (sum_k theta_jk V eta / (V eta + S_k) + rest_j).
    """
    topics, n_words = MeanTopics.given(word_topic), X.shape[1]
    words, at = np.unique(X.indices, return_inverse=True)
    once = csr(np.ones(len(words)), words, np.array([0, len(words)]), (1, n_words))
    mean = mix(prior[None], topics, once) + prior_rest / n_words
    mean /= prior.sum() + prior_rest
    mass = np.einsum("nk,k->n", theta, topics.prior_shares) + rest
    return (mean[at] - 1.0 / n_words) * mass[rows_of(X.indptr)]


# Prediction by an HDP: documents mix fixed topics.


@dataclass(frozen=True, slots=True)
class FixedTopics:
    """Fixed topics and the prior of a document, for prediction."""

    topic_word_distr: Array  # (n_components, n_words)
    doc_prior: Array  # (n_components + 1,)

    def word_topic(self, words: NDArray | slice = slice(None)) -> Array:
        """phi_kw of some words, (n_words, K)."""
        return np.ascontiguousarray(self.topic_word_distr[:, words].T)


@dataclass(frozen=True, slots=True)
class OrderedTopics:
    """Mean topics of an HDP in the order of users, computed for words on demand."""

    topics: MeanTopics
    columns: Ints  # (K,)
    doc_prior: Array  # (K + 1,)


#: Topics of a model, with all that prediction needs: `OrderedTopics`, or with a
#: `doc_prior` and `word_topic(words)` as `FixedTopics` have.
Sample = Any


@dataclass(frozen=True, slots=True)
class MixturePredictor:
    """Predictor of documents that mix topics, averaged over samples of topics."""

    samples: Sequence[Sample]
    repeats: bool = False  # whether a document predicts its own words
    burstiness: Burstiness | None = None  # of the model
    background_weight: float = 0.0  # of the mean topic, see `background`
    learns: bool = False  # whether it is learned where the model has none
    #: Makes the priors of documents of their own, (n_docs, K + 1), in model order.
    doc_priors: Callable[[Any, sp.csr_array, Executor], Array] | None = None

    @classmethod
    def of_topics(
        cls, topics: Array, doc_prior: Array, repeats: bool = False
    ) -> "MixturePredictor":
        """Return a predictor by topics (K, V) and a prior as of `doc_prior_of`."""
        topics = topics / topics.sum(axis=1, keepdims=True)
        return cls(
            [FixedTopics(topics, with_rest(doc_prior, len(topics)))],
            repeats,
            learns=True,
        )

    def infer(self, sample: Sample, X: sp.csr_array, executor: Executor) -> Array:
        """Infer the Dirichlet parameters of the proportions, (n_docs, K)."""
        counts = self.infer_counts(sample, X, executor)
        return counts.toarray() + sample.doc_prior[:-1]

    def infer_counts(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> sp.csr_array:
        """Infer expected tokens of topics, or first uses, in documents, (n_docs, K).

        First uses if a sample has learned how often documents repeat words.
        """
        return self.infer_uses(sample, X, executor)[0]

    def infer_uses(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> tuple[sp.csr_array, Array]:
        """Infer tokens of topics, and tokens or first uses of words, (nnz,)."""
        repeats = self.repeats and X.nnz > 0
        burstiness = getattr(sample, "burstiness", None) if repeats else None
        (counts, uses, _), _, _ = self._infer(sample, X, burstiness, executor)
        if isinstance(sample, OrderedTopics):
            counts = counts[:, sample.columns]
        return counts, uses

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability in nats of all held-out tokens, given the observed ones.

        Topics that are not represented predict all words equally.
        """
        n_words, rows = X_held.shape[1], rows_of(X_held.indptr)
        probability = np.zeros(X_held.nnz)
        for sample in self.samples:
            burstiness = self._burstiness(sample, X_observed, executor)
            topics, corpus_prior, held_out = _given(sample, X_held)
            given = sample, X_observed, burstiness, executor
            seated, prior, rest = self._infer(*given)
            theta = seated.doc_topic.toarray()
            theta += prior
            rest = np.broadcast_to(rest, len(theta))
            mixed = mix(theta, topics, held_out) + rest[rows] / n_words
            if self.background_weight > 0.0:
                corpus = corpus_prior, sample.doc_prior[-1]
                change = background(theta, rest, topics, *corpus, held_out)
                mixed += self.background_weight * change
            mixed /= (theta.sum(axis=1) + rest)[rows]
            if burstiness is not None:
                repeated, fresh = burstiness.repeats(X_observed, seated.tables, X_held)
                mixed = repeated + fresh[rows] * mixed
            probability += mixed
        # Rounding must not make a certain word more than certain.
        probability = np.minimum(probability / len(self.samples), 1.0)
        with np.errstate(divide="ignore"):
            return (X_held.data * np.log(probability)).sum()

    def _infer(
        self,
        sample: Sample,
        X: sp.csr_array,
        burstiness: Burstiness | None,
        executor: Executor,
    ) -> tuple[Seated, Array, Array]:
        """Infer tokens of topics, or tables of topics and words, in model order.

        And the priors of topics, and of all others together, which may be of documents.
        """
        topics, prior, counts = _given(sample, X)
        rest = sample.doc_prior[-1:]
        if self.doc_priors is not None:
            priors = self.doc_priors(sample, X, executor)
            prior, rest = np.ascontiguousarray(priors[:, :-1]), priors[:, -1].copy()
        if burstiness is None:
            doc_topic = fold_in(topics, prior, counts, executor)
            return Seated(doc_topic, X.data, np.zeros(0)), prior, rest
        given = counts, burstiness, executor, X.shape[1]
        return fold_in_tables(topics, prior, rest, *given), prior, rest

    def _burstiness(
        self, sample: Sample, X: sp.csr_array, executor: Executor
    ) -> Burstiness | None:
        """Burstiness of the model, or of observed tokens; None: no repeats."""
        if not self.repeats or X.nnz == 0:
            return None
        burstiness = getattr(sample, "burstiness", self.burstiness)
        if burstiness is not None or not self.learns:
            return burstiness
        some = X[evenly(X.shape[0], N_DOCS)]
        return learn_burstiness(
            some, lambda b: self._infer(sample, some, b, executor)[0][1:]
        )


def _given(
    sample: Sample, X: sp.csr_array
) -> tuple[Array | MeanTopics, Array, sp.csr_array]:
    """Return topics, their priors (K,) and the counts `X`, with words in one order.

    Topics of a posterior keep all words; of others the words of `X` are read.
    """
    if isinstance(sample, OrderedTopics):
        prior = np.empty(len(sample.columns))
        prior[sample.columns] = sample.doc_prior[:-1]
        return sample.topics, prior, X
    words, at = np.unique(X.indices, return_inverse=True)
    counts = sp.csr_array((X.data, at.ravel(), X.indptr), (X.shape[0], len(words)))
    return sample.word_topic(words), sample.doc_prior[:-1], counts


def with_rest(doc_prior: Array, n_topics: int) -> Array:
    """Append 0, the prior of all unrepresented topics, if it is missing, (K + 1,)."""
    return np.append(doc_prior, np.zeros(n_topics + 1 - len(doc_prior)))


def doc_prior_of(concentration: float, weights: Array) -> Array:
    """Dirichlet parameters of the topics in a document, given corpus-level weights.

    If weights sum to less than one, a last entry is that of all unrepresented topics.
    """
    rest = max(1.0 - weights.sum(), 0.0)
    shares = np.append(weights, rest) if rest > 0.0 else weights
    # Weights far down the sticks are products of many small numbers.
    return np.maximum(concentration * shares, SMALLEST_PRIOR)
