"""The variational loop: visit documents, absorb what they say, update the globals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.batch import Batch
from skbnp.inference.documents import DocumentStep, visit
from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.schedules import BatchSchedule, OnlineSchedule, Round
from skbnp.models.statistics import WordRows, absorb

__all__ = ["LocalStop", "Posterior", "learn", "update"]

#: Updates of the weights after a visit of all documents, each with fresh tangents;
#: the second is within 1e-8 nats of the optimum already.
N_REFRESHES = 3


@dataclass(frozen=True, slots=True)
class LocalStop:
    """When the iteration of a document ends."""

    max_iter: int
    tol: float


@dataclass(slots=True)
class Posterior:
    """Global variational parameters: all that learning changes and inference reads."""

    model: Any
    state: Any
    totals: Any
    n_steps: int = 0  # updates
    n_seen: int = 0  # documents with tokens, each counted once

    def document_step(
        self,
        batch: Batch,
        stop: LocalStop,
        *,
        mean: bool = False,
        remembered: sp.csr_array | None = None,
    ) -> DocumentStep:
        """Prepare the document step of a batch under the present globals."""
        return DocumentStep(
            weights=self.model.word_weights(
                self.state, self.totals.topic_words, batch.words, mean=mean
            ),
            prior=self.state.doc_prior,
            share=self.model.cold_share(self.state),
            # Mean weights do not climb the bound that a remembered start would keep.
            remembered=None if mean else remembered,
            max_iter=stop.max_iter,
            tol=stop.tol,
        )

    def collect(
        self, step: DocumentStep, batch: Batch, executor: Executor
    ) -> tuple[Any, sp.csr_array, NDArray[np.float64]]:
        """Visit a batch: its statistics, expected counts and document lengths."""
        n_topics = self.state.n_components
        sums = np.zeros((len(batch.words), n_topics))
        entropy = np.zeros(n_topics)
        counts = [sp.csr_array((0, n_topics))]
        lengths = [np.zeros(0)]
        for block, doc_topic, word_topic, block_entropy in visit(step, batch, executor):
            sums[block.slots] += word_topic
            entropy += block_entropy
            counts.append(sp.csr_array(doc_topic))
            lengths.append(block.n_tokens)
        doc_topic, n_tokens = sp.vstack(counts, format="csr"), np.concatenate(lengths)
        rows = WordRows(batch.words, sums)
        fresh = self.model.statistics(self.state, rows, entropy, doc_topic, n_tokens)
        return fresh, doc_topic, n_tokens

    def absorb(self, fresh: Any, round: Round) -> None:
        """One update: totals, then globals."""
        optimum = self.model.update(self.state, fresh, round.scale)
        state = self.model.blend(self.state, optimum, round.step)
        keep, gain = 1.0 - round.step, round.step * round.scale
        with commit():
            absorb(self.totals, fresh, keep=keep, gain=gain)
            self.state = state
            self.n_steps += 1

    def refresh(self, doc_topic: sp.csr_array, n_tokens: NDArray[np.float64]) -> None:
        """Move the tangents of all documents to the present globals, and update."""
        for last in [False] * (N_REFRESHES - 1) + [True]:
            totals = self.model.statistics(
                self.state,
                self.totals.topic_words,
                self.totals.entropy,
                doc_topic,
                n_tokens,
            )
            state = self.state if last else self.model.update(self.state, totals)
            with commit():
                self.totals, self.state = totals, state

    def update_topic_prior(self) -> None:
        """Learn the topic prior from the totals, if the model does."""
        self.state = self.model.update_topic_prior(self.state, self.totals)

    def objective(self) -> dict[str, float]:
        """Named terms of the bound of what the totals hold, in nats per token."""
        n_tokens = max(self.totals.n_tokens, 1e-300)
        terms = self.model.objective(self.state, self.totals)
        return {name: float(value / n_tokens) for name, value in terms.items()}


def update(
    posterior: Posterior,
    batch: Batch,
    round: Round,
    stop: LocalStop,
    executor: Executor,
    *,
    mean: bool,
    remembered: sp.csr_array | None = None,
    remember: bool = False,
) -> sp.csr_array:
    """One round: visit the documents, then update the globals.

    Returns the expected counts of the documents. Nothing is written before all of them
    have been visited.
    """
    step = posterior.document_step(batch, stop, mean=mean, remembered=remembered)
    fresh, doc_topic, n_tokens = posterior.collect(step, batch, executor)
    posterior.absorb(fresh, round)
    if remember:
        posterior.refresh(doc_topic, n_tokens)
    return doc_topic


def learn(
    posterior: Posterior,
    X: sp.csr_array,
    schedule: BatchSchedule | OnlineSchedule,
    stop: LocalStop,
    executor: Executor,
    monitor: Monitor,
    *,
    n_passes: int,
    warm_up: int,
    begin_pass: Callable[[], None] = lambda: None,
    end_pass: Callable[[], bool] = lambda: False,
) -> bool:
    """Visit the documents `n_passes` times, or until the bound has settled.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : csr_array
        Canonical counts, no empty rows.
    schedule, stop, executor, monitor
        Order and weight of visits; end of a document's iteration; threads; trace.
    n_passes, warm_up : int
        Passes over the data; the first of them that use mean weights.
    begin_pass, end_pass : callable
        Called around each pass; the latter may ask to stop.

    Returns
    -------
    converged : bool
    """
    n_topics = posterior.state.n_components
    whole = Batch.from_counts(X, n_topics) if schedule.remembers else None
    remembered = None
    for number in range(n_passes):
        begin_pass()
        mean = number < warm_up
        for round in schedule.one_pass(number):
            batch = whole or Batch.from_counts(X[round.rows], n_topics)
            doc_topic = update(
                posterior,
                batch,
                round,
                stop,
                executor,
                mean=mean,
                remembered=remembered,
                remember=schedule.remembers,
            )
            remembered = doc_topic if schedule.remembers else None
            if not round.ends_pass:
                monitor.record(posterior.n_steps, posterior.state.n_components)
        posterior.update_topic_prior()
        elbo = sum(posterior.objective().values())
        monitor.record(posterior.n_steps, posterior.state.n_components, elbo)
        converged = monitor.end_pass(elbo, settling=not mean)
        if end_pass() or converged:
            return converged
    return False
