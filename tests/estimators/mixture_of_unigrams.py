"""A mixture of unigrams: the least that a new estimator needs, in the written way.

Each document has one topic: z_d ~ w, w ~ Dir(gamma / K), its words are drawn from
phi_z, phi_k ~ Dir(eta). With r_dk = q(z_d = k), N_k their sum and S_kw the expected
tokens, q(w) and q(phi) at their optimum, the bound is

    L = logB(gamma / K + N) - logB(gamma / K) + sum_k { logB(eta + S_k) - logB(eta) }
      - sum_dk r_dk log r_dk.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp, psi, xlogy

from skbnp.components import topics
from skbnp.components.statistics import WordStats
from skbnp.components.word_topics import WordRows
from skbnp.estimators._base import NUMBER, constraints_of
from skbnp.estimators._variational import VariationalTopicModel
from skbnp.inference.engine import Learner, RunningAverage
from skbnp.inference.protocols import BatchSchedule, Collected, Corpus, StepInput
from skbnp.rows.batch import Batch


@dataclass(frozen=True)
class MixtureState:
    """Globals beside the topics; replaced as a whole."""

    documents: np.ndarray  # (K,) N
    topic_word_prior: float  # eta
    corpus_concentration: float = 1.0  # gamma
    doc_concentration: float = 1e-2  # documents of one topic are the limit of 0

    @property
    def n_components(self):
        return len(self.documents)

    @property
    def topic_weights(self):
        prior = self.documents + self.corpus_concentration / len(self.documents)
        return prior / prior.sum()

    @property
    def doc_prior(self):
        return self.doc_concentration * self.topic_weights


@dataclass
class MixtureStats(WordStats):
    """Additive statistics."""

    documents: np.ndarray  # (K,)
    entropy: float
    n_tokens: float

    columns: ClassVar[tuple[str, ...]] = ("documents",)


@dataclass(frozen=True)
class Mixture(topics.WordTopicModel):
    """Model: updates of the globals, and the bound."""

    learn_topic_prior: bool = False

    def start(self, state, words):
        return MixtureStats(words, np.zeros(state.n_components), 0.0, 0.0)

    def update(self, state, stats, scale=1.0):
        return replace(state, documents=scale * stats.documents)

    def blend(self, old, new, step):
        documents = (1.0 - step) * old.documents + step * new.documents
        return replace(new, documents=documents)

    def _terms(self, state, stats, words):
        prior = state.corpus_concentration / state.n_components
        rises = gammaln(prior + stats.documents).sum()
        rises -= state.n_components * gammaln(prior)
        total = state.corpus_concentration
        rises += gammaln(total) - gammaln(total + stats.documents.sum())
        return {"words": words.sum(), "classes": rises, "entropy": stats.entropy}


class MixtureStep:
    """Local step of documents: r_dk ~ exp(E log w_k + sum_w n_dw E log phi_kw)."""

    @staticmethod
    def prepare(given):
        return MixtureStep()

    def collect(self, given):
        batch, state = given.batch, given.posterior.state
        words, eta = given.posterior.global_stats.topic_words, state.topic_word_prior
        shape = batch.n_docs, len(batch.words)
        counts = sp.csr_array((batch.counts, batch.indices, batch.indptr), shape=shape)
        logs = psi(eta + words.rows(batch.words))
        logs -= psi(words.shape[0] * eta + words.total)
        prior = state.corpus_concentration / state.n_components + state.documents
        logits = counts @ logs + psi(prior)
        r = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        stats = MixtureStats(
            WordRows(batch.words, sp.csr_array(counts.T @ r)),
            r.sum(axis=0),
            -xlogy(r, r).sum(),
            batch.n_tokens.sum(),
        )
        result = Collected(stats, batch.n_tokens, [])
        result.doc_topic = sp.csr_array(r * batch.n_tokens[:, None])
        return result


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters:
    n_components: int = field(default=8, kw_only=False)
    learning_method: str = "batch"
    topic_word_prior: float = 0.1
    batch_size: int = 64
    max_iter: int = 50
    tol: float = 1e-5
    n_jobs: int | None = None
    random_state: Any = None


class MixtureOfUnigrams(_Parameters, VariationalTopicModel):
    """Mixture of unigrams, variational, in batches or minibatches."""

    _parameter_constraints = constraints_of(_Parameters, n_components=[NUMBER])
    _evaluation_step = MixtureStep
    _saved_parts: ClassVar = {
        "model": Mixture,
        "state": MixtureState,
        "global_stats": MixtureStats,
    }
    # What users do not set.
    learn_priors, init, warm_up, warm_start, sparse_output = False, "docs", 0, False, 0
    verbose, total_samples, learning_offset, learning_decay = 0, None, 1.0, 0.6
    max_doc_update_iter, mean_change_tol = 1, 0.0

    def _make_model(self):
        return Mixture()

    def _start_state(self, n_docs, shares):
        even = np.full(self.n_components, n_docs / self.n_components)
        return MixtureState(even, self.topic_word_prior)

    def _make_learner(self, posterior, around, goes_on):
        (counts, local_step), corpus = around, Corpus(around[0])
        is_batch = self.learning_method == "batch"
        batch = BatchSchedule.of_rows(counts.shape[0])
        schedule = batch if is_batch else self._schedule(posterior, corpus)
        return Learner(posterior, corpus, schedule, local_step, RunningAverage())

    def _infer_counts(self, posterior, counts, executor):
        batch = Batch.from_counts(counts, posterior.state.n_components)
        given = StepInput(posterior, batch, self._local_stop(), executor)
        return MixtureStep().collect(given).doc_topic

    def elbo_terms(self, X):
        return self._elbo_terms(X)
