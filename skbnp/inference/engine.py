"""The variational loop: visit documents, absorb what they say, update the globals."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.batch import Batch
from skbnp.inference.documents import DocumentStep, expected_counts, visit_blocks
from skbnp.inference.edits import Lineage
from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves.split_merge import SplitMerge, merge_and_prune, split
from skbnp.inference.schedules import BatchSchedule, OnlineSchedule, Round
from skbnp.inference.visit import Visit
from skbnp.models.statistics import WordRows, WordTopics, absorb
from skbnp.utils.random import Purpose, stream

__all__ = ["LocalStop", "Posterior", "learn", "per_token", "update", "update_from_all"]

#: Updates of the weights after a visit of all documents, each with fresh tangents.
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
    ids: NDArray[np.intp]  # (K,) stable name of each component
    lineage: list[Lineage]  # where each id came from
    n_steps: int = 0  # updates
    n_seen: int = 0  # documents with tokens, each counted once
    is_warm: bool = False  # the warm-up lies behind
    idle: dict[int, int] = field(default_factory=dict)  # id: minibatches without use
    entropy: int = 0  # of the random streams of moves

    @property
    def n_named(self) -> int:
        """Ids given so far; also the next one."""
        return 1 + max(max(entry.children, default=-1) for entry in self.lineage)

    @property
    def n_moves(self) -> tuple[int, int]:
        """Splits and merges accepted so far."""
        kinds = [entry.kind for entry in self.lineage]
        return kinds.count("split"), kinds.count("merge")

    def look(
        self, X: sp.csr_array, batch: Batch, stop: LocalStop, executor: Executor
    ) -> Visit:
        """Visit documents and keep their responsibilities, for moves."""
        step = self.document_step(batch, stop)
        doc_topic = expected_counts(step, batch, executor)
        local = np.searchsorted(batch.words, X.indices)
        counts = sp.csr_array(
            (X.data, local, X.indptr), shape=(X.shape[0], len(batch.words))
        )
        return Visit.under(counts, batch.words, step.weights, step.prior, doc_topic)

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
        for block, doc_topic, word_topic, block_entropy in visit_blocks(
            step, batch, executor
        ):
            sums[block.slots] += word_topic
            entropy += block_entropy
            counts.append(sp.csr_array(doc_topic))
            lengths.append(block.n_tokens)
        doc_topic, n_tokens = sp.vstack(counts, format="csr"), np.concatenate(lengths)
        rows = WordRows(batch.words, sums)
        fresh = self.model.statistics(self.state, rows, entropy, doc_topic, n_tokens)
        return fresh, doc_topic, n_tokens

    def objective(self) -> dict[str, float]:
        """Named terms of the bound of what the totals hold, in nats per token."""
        terms = self.model.objective(self.state, self.totals)
        return per_token(terms, self.totals.n_tokens)


def per_token(terms: dict[str, float], n_tokens: float) -> dict[str, float]:
    """Divide the terms of a bound by a number of tokens; without any, they are zero."""
    if n_tokens == 0:
        return dict.fromkeys(terms, 0.0)
    return {name: float(value / n_tokens) for name, value in terms.items()}


def update(
    posterior: Posterior,
    X: sp.csr_array,
    round: Round,
    stop: LocalStop,
    executor: Executor,
    monitor: Monitor,
    *,
    mean: bool,
    moves: SplitMerge | None = None,
    n_new: int = 0,
) -> None:
    """One online round: visit the documents, absorb them, move the globals.

    Nothing is written before all documents have been visited, and then everything, but
    for moves: each is written by itself. There are none during the warm-up. `n_new` of
    the documents are seen for the first time.
    """
    model, moves = posterior.model, None if mean else moves
    batch = Batch.from_counts(X, posterior.state.n_components)
    if moves is None:
        step = posterior.document_step(batch, stop, mean=mean)
        fresh, _, _ = posterior.collect(step, batch, executor)
    else:
        visit = posterior.look(X, batch, stop, executor)
        visit = merge_and_prune(moves, posterior, visit, round.scale)
        fresh = model.statistics(
            posterior.state,
            WordRows(visit.words, visit.sums),
            visit.entropy,
            sp.csr_array(visit.doc_topic),
            visit.n_tokens,
        )
    optimum = model.update(posterior.state, fresh, round.scale)
    state = model.blend(posterior.state, optimum, round.step)
    keep, gain = 1.0 - round.step, round.step * round.scale
    with commit():
        absorb(posterior.totals, fresh, keep=keep, gain=gain)
        posterior.state = state
        posterior.n_steps += 1
        posterior.n_seen += n_new
        monitor.record(posterior.n_steps, state.n_components, posterior.n_moves)
    if round.ends_pass:
        posterior.state = model.update_topic_prior(state, posterior.totals)
    if moves is not None:
        visit = posterior.look(X, batch, stop, executor)
        rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
        split(moves, posterior, visit, round.scale * batch.n_docs, rng)


def update_from_all(
    posterior: Posterior,
    batch: Batch,
    stop: LocalStop,
    executor: Executor,
    monitor: Monitor,
    *,
    mean: bool,
    remembered: sp.csr_array | None,
) -> sp.csr_array:
    """One batch round: visit all documents, then update with fresh tangents.

    Returns the expected counts of the documents, to start from next time.
    """
    model, state = posterior.model, posterior.state
    step = posterior.document_step(batch, stop, mean=mean, remembered=remembered)
    fresh, doc_topic, n_tokens = posterior.collect(step, batch, executor)
    n_words = posterior.totals.topic_words.shape[0]
    topic_words = WordTopics.from_rows(fresh.topic_words, n_words)
    totals = replace(fresh, topic_words=topic_words)
    for _ in range(N_REFRESHES):
        state = model.update(state, totals)
        totals = model.statistics(
            state, topic_words, fresh.entropy, doc_topic, n_tokens
        )
    state = model.update_topic_prior(state, totals)
    with commit():
        posterior.state, posterior.totals = state, totals
        posterior.n_steps += 1
        monitor.record(posterior.n_steps, state.n_components, posterior.n_moves)
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
    moves: SplitMerge | None = None,
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
    moves : SplitMerge or None
        Moves of online learning.
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
        for round in schedule.one_pass(number) if X.shape[0] else ():
            if whole is None:
                update(
                    posterior,
                    X[round.rows],
                    round,
                    stop,
                    executor,
                    monitor,
                    mean=mean,
                    moves=moves,
                )
            else:
                remembered = update_from_all(
                    posterior,
                    whole,
                    stop,
                    executor,
                    monitor,
                    mean=mean,
                    remembered=remembered,
                )
        if X.shape[0] == 0:  # no round to record
            monitor.record(posterior.n_steps, n_topics)
        elbo = sum(posterior.objective().values())
        converged = monitor.end_pass(elbo, settling=not mean)
        if end_pass() or converged:
            return converged
    return False
