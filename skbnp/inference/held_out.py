"""Tokens held out of training documents, and how well topics predict them.

No bound ranks numbers of topics as prediction does, and what tokens that were learned
from say is optimistic. So trials are judged by tokens that nobody learns from until the
trials have ended. Documents are folded in as `score` does it: what the collapsed step
says of a document is too sure of itself where topics are many. (The start of a fit is
drawn from whole documents.)
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.batch import Batch
from skbnp.inference.documents import DocumentStep, expected_counts
from skbnp.inference.executor import Executor
from skbnp.kernels._hdp_local import SMALLEST_WORD_WEIGHT
from skbnp.models.statistics import weight_table

__all__ = [
    "Gain",
    "HeldOut",
    "Prediction",
    "compare",
    "fold_in",
    "hold_out",
    "mix",
    "split_tokens",
    "stored_rows",
]

Array = NDArray[np.float64]

#: The fold-in of a document ends at this mean change per token, or after so many steps.
FOLD_IN_TOL, FOLD_IN_MAX_ITER = 1e-3, 100
#: Iterations before, with mean weights of topics: exp(psi(a)) ~ exp(-1 / a) of a topic
#: of small prior weight a is next to nothing, so that no word would ever find it.
FOLD_IN_MEAN = 5
#: Share of a document's tokens that are held out...
SHARE = 0.1
#: ...of so many documents that about so many tokens are. Standard errors are then some
#: thousandths of a nat.
N_TOKENS = 20_000
#: Documents that tokens are held out of, at the least.
FEWEST_DOCS = 1000
#: Units that a count is split into, at the most.
MOST_UNITS = 10**8
#: Stored counts that are predicted at a time.
PART_SIZE = 1 << 12


def fold_in(
    word_topic: Array, prior: Array, X: sp.csr_array, executor: Executor
) -> Array:
    """Expected tokens of each topic in each document, topics (V, K) held fixed."""
    possible = word_topic.max(axis=1) > 0.0
    if not possible.all():  # such words say nothing about the proportions
        X = X @ sp.diags_array(possible.astype(np.float64), format="csr")
        X.eliminate_zeros()
        X.sort_indices()
    batch = Batch.from_counts(X, len(prior))
    weights = word_topic[batch.words]
    table = weight_table(*weights.shape)
    table[:, len(prior) :] = 0.0
    if len(weights):
        weights /= weights.max(axis=1, keepdims=True)
        np.maximum(weights, SMALLEST_WORD_WEIGHT, out=weights)
        table[:, : len(prior)] = weights
    step = DocumentStep(
        weights=table,
        prior=prior,
        share=prior / prior.sum(),
        remembered=None,
        max_iter=FOLD_IN_MAX_ITER,
        tol=FOLD_IN_TOL,
        n_mean=FOLD_IN_MEAN,
    )
    return expected_counts(step, batch, executor)


def mix(theta: Array, word_topic: Array, X: sp.csr_array) -> Array:
    """sum_k theta_jk phi_kw of each stored entry (j, w), some at a time."""
    rows, mixed = stored_rows(X), np.empty(X.nnz)
    for begin in range(0, X.nnz, PART_SIZE):
        part = slice(begin, begin + PART_SIZE)
        mixed[part] = np.einsum(
            "nk,nk->n", theta[rows[part]], word_topic[X.indices[part]]
        )
    return mixed


def stored_rows(X: sp.csr_array) -> NDArray[np.intp]:
    """Row of each stored entry."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


class Gain(NamedTuple):
    """By how much one state predicts better than another, nats per token."""

    mean: float
    error: float  # standard


class Prediction(NamedTuple):
    """What a state says of the documents with held-out tokens."""

    theta: Array  # (n_rows, K) proportions
    rest: Array  # (n_rows,) those of all topics not represented
    word_topic: Array  # (V, K) mean topics


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Training documents without some tokens, and these."""

    observed: sp.csr_array  # (n_docs, V)
    rows: NDArray[np.intp]  # (n_rows,) documents that some are held out of
    held: sp.csr_array  # (n_rows, V)

    @property
    def n_tokens(self) -> Array:
        """Held-out tokens of each document, (n_rows,)."""
        return np.asarray(self.held.sum(axis=1)).ravel()

    def predict(self, posterior: Any, executor: Executor) -> Prediction:
        """Fold in the observed tokens of the documents."""
        state = posterior.state
        word_topic = posterior.totals.topic_words.dense()
        word_topic += state.topic_word_prior
        word_topic /= word_topic.sum(axis=0)
        prior = state.doc_prior
        theta = fold_in(word_topic, prior, self.observed[self.rows], executor) + prior
        rest = state.doc_concentration * state.weights[-1]
        total = theta.sum(axis=1) + rest
        return Prediction(theta / total[:, None], rest / total, word_topic)

    def log_probability(self, found: Prediction) -> Array:
        """Log probability of the held-out tokens of each document, (n_rows,)."""
        rows, n_words = stored_rows(self.held), self.held.shape[1]
        mixed = mix(found.theta, found.word_topic, self.held)
        logs = np.log(mixed + found.rest[rows] / n_words)
        sums = np.bincount(rows, self.held.data * logs, len(self.rows))
        return sums.astype(np.float64)


def compare(new: Array, old: Array, n_tokens: Array) -> Gain:
    """Gain of log probabilities of documents over others, paired by document."""
    gains, total = new - old, n_tokens.sum()
    mean = gains.sum() / total
    error = np.sqrt(np.square(gains - mean * n_tokens).sum()) / total
    return Gain(float(mean), float(error))


def hold_out(X: sp.csr_array, rng: np.random.Generator) -> HeldOut | None:
    """Hold out a tenth of the tokens of some documents; None if that leaves nothing.

    Less than a tenth where documents are long: the error of a comparison is that
    between documents.
    """
    n_docs, n_tokens = X.shape[0], np.ceil(np.minimum(X.data, MOST_UNITS)).sum()
    n_chosen = int(np.ceil(n_docs * min(1.0, N_TOKENS / max(SHARE * n_tokens, 1.0))))
    n_chosen = min(max(n_chosen, FEWEST_DOCS), n_docs)
    rows = np.sort(rng.permutation(n_docs)[:n_chosen])
    chosen = X[rows]
    share = min(SHARE, N_TOKENS / max(_units(chosen).sum(), 1))
    data = _draw_held_out(chosen, share, rng)
    held = sp.csr_array((data, chosen.indices, chosen.indptr), chosen.shape)
    observed = X.copy()
    begins = X.indptr[rows] - chosen.indptr[:-1]
    stored = np.arange(chosen.nnz) + np.repeat(begins, np.diff(chosen.indptr))
    observed.data[stored] = chosen.data - data
    held.eliminate_zeros()
    observed.eliminate_zeros()
    some = np.flatnonzero(np.diff(held.indptr))
    return HeldOut(observed, rows[some], held[some]) if len(some) else None


def split_tokens(
    X: sp.csr_array, share: float | Array, rng: np.random.Generator
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return counts without a share of the tokens of each document, and these.

    Documents keep a token. A fractional count c is split into ceil(c) equal units.
    """
    data = _draw_held_out(X, share, rng)
    observed, held = X.copy(), X.copy()
    observed.data -= data
    held.data = data
    observed.eliminate_zeros()
    held.eliminate_zeros()
    return observed, held


def _units(X: sp.csr_array) -> NDArray[np.int64]:
    return np.ceil(np.minimum(X.data, MOST_UNITS)).astype(np.int64)


def _draw_held_out(
    X: sp.csr_array, share: float | Array, rng: np.random.Generator
) -> Array:
    """Of each stored count, what is held out."""
    units, rows = _units(X), stored_rows(X)
    drawn = rng.binomial(units, np.broadcast_to(share, X.shape[:1])[rows])
    # The last stored count of a document that would lose all stays.
    left = np.bincount(rows, drawn < units, X.shape[0])
    drawn[(X.indptr[1:] - 1)[left == 0]] = 0
    return np.where(drawn == units, X.data, X.data * (drawn / units))
