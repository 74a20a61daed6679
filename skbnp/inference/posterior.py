"""What learning changes and inference reads: the global variational parameters."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.batch import Batch
from skbnp.inference.documents import (
    Documents,
    DocumentStep,
    Look,
    sum_words,
    visit_blocks,
)
from skbnp.inference.edits import Lineage
from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor

__all__ = ["Collected", "LocalStop", "Posterior", "Visitor", "per_token"]


@dataclass(frozen=True, slots=True)
class LocalStop:
    """When the iteration of a document ends."""

    max_iter: int
    tol: float


@dataclass(slots=True)
class Collected:
    """What the documents of a batch say under one set of globals."""

    stats: Any  # with WordRows
    doc_topic: sp.csr_array  # (n_docs, K) N; exact zeros off the support
    n_tokens: NDArray[np.float64]  # (n_docs,)
    seen: list[Any]  # by the look, block by block; None if there was none


@dataclass(slots=True)
class Posterior:
    """Global variational parameters, and the account of what they have seen."""

    model: Any
    state: Any
    totals: Any
    ids: NDArray[np.intp]  # (K,) stable name of each component
    lineage: list[Lineage]  # where each id came from
    entropy: int = 0  # of its random streams
    n_steps: int = 0  # updates
    n_seen: int = 0  # documents with tokens, each counted once
    is_warm: bool = False  # the warm-up lies behind
    stale: float = 1.0  # share of the totals from the start and the warm-up
    max_components: float = np.inf  # that moves may reach
    moving: Any = field(default=None)  # what moves remember between minibatches

    @property
    def n_named(self) -> int:
        """Ids given so far; also the next one."""
        return 1 + max(max(entry.children, default=-1) for entry in self.lineage)

    @property
    def n_moves(self) -> dict[str, int]:
        """Births, splits and merges accepted so far."""
        kinds = [entry.kind for entry in self.lineage]
        return {f"n_{kind}s": kinds.count(kind) for kind in ("birth", "split", "merge")}

    @property
    def columns(self) -> dict[int, int]:
        """Column of each living id."""
        return {int(name): column for column, name in enumerate(self.ids)}

    def copy(self) -> "Posterior":
        """Return one that learns by itself."""
        words = self.totals.topic_words.copy()
        return replace(self, totals=replace(self.totals, topic_words=words))

    def adopt(self, rival: "Posterior") -> None:
        """Take over what a rival that began as this one has learned: an update.

        Its log goes on from here; ids that came and went meanwhile are left out.
        """
        log = rival.lineage[len(self.lineage) :]
        born = {entry.children for entry in log if entry.kind == "birth"}
        gone = {entry.parents for entry in log if entry.kind == "prune"}
        merged = {n for entry in log if entry.kind == "merge" for n in entry.parents}
        passing = {name for (name,) in born & gone} - merged
        log = [
            entry._replace(step=self.n_steps + 1)
            for entry in log
            if passing.isdisjoint(entry.parents + entry.children)
        ]
        with commit():
            self.state, self.totals, self.ids = rival.state, rival.totals, rival.ids
            self.stale = rival.stale
            self.n_steps += 1
            self.lineage = [*self.lineage, *log]

    def follow_order(self, names: NDArray[np.intp]) -> None:
        """Let the columns stand in the order of their ids in `names`, others behind."""
        place = {name: at for at, name in enumerate(names.tolist())}
        places = [place.get(name, len(place)) for name in self.ids.tolist()]
        order = np.argsort(places, kind="stable")
        with commit():
            self.state, self.totals = self.model.reorder(self.state, self.totals, order)
            self.ids = self.ids[order]

    def document_step(
        self,
        batch: Batch,
        stop: LocalStop,
        *,
        mean: bool = False,
        remembered: sp.csr_array | None = None,
        executor: Executor | None = None,
    ) -> DocumentStep:
        """Prepare the document step of a batch under the present globals."""
        run: Any = map
        if executor is not None and executor.shares_memory:
            run = executor.map
        return DocumentStep(
            weights=self.model.word_weights(
                self.state,
                self.totals.topic_words,
                batch.words,
                mean=mean,
                run=run,
            ),
            prior=self.state.doc_prior,
            share=self.model.cold_share(self.state),
            # Mean weights do not climb the bound that a remembered start would keep.
            remembered=None if mean else remembered,
            max_iter=stop.max_iter,
            tol=stop.tol,
        )

    def collect(
        self,
        step: DocumentStep,
        batch: Batch,
        executor: Executor,
        look: Look | None = None,
    ) -> Collected:
        """Visit a batch: its statistics, expected counts and document lengths."""
        visits = list(visit_blocks(step, batch, executor, look))
        documents = Documents.joined([found for found, _ in visits])
        doc_topic = documents.matrix(documents.tokens, self.state.n_components)
        n_tokens = np.concatenate(
            [np.zeros(0), *(block.n_tokens for block in batch.blocks)]
        )
        rows, entropy = sum_words(step, batch, documents, executor)
        stats = self.model.statistics(self.state, rows, entropy, doc_topic, n_tokens)
        return Collected(stats, doc_topic, n_tokens, [seen for _, seen in visits])

    def record(self, monitor: Monitor) -> None:
        """Add an update to the trace."""
        monitor.record(self.n_steps, self.state.n_components, self.n_moves)

    def objective(self) -> dict[str, float]:
        """Named terms of the bound of what the totals hold, in nats per token."""
        terms = self.model.objective(self.state, self.totals)
        return per_token(terms, self.totals.n_tokens)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Visits documents: when their iteration ends, and on which threads."""

    stop: LocalStop
    executor: Executor

    def visit(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        *,
        mean: bool = False,
        remembered: sp.csr_array | None = None,
        look: Look | None = None,
    ) -> Collected:
        """Visit documents under the present globals."""
        batch = Batch.from_counts(X, posterior.state.n_components)
        step = posterior.document_step(
            batch,
            self.stop,
            mean=mean,
            remembered=remembered,
            executor=self.executor,
        )
        return posterior.collect(step, batch, self.executor, look)


def per_token(terms: dict[str, float], n_tokens: float) -> dict[str, float]:
    """Divide the terms of a bound by a number of tokens; without any, they are zero."""
    if n_tokens == 0:
        return dict.fromkeys(terms, 0.0)
    return {name: float(value / n_tokens) for name, value in terms.items()}
