"""The local step of the HDP with sticks in documents: blocks in, statistics out."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.word_topics import WordRows
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import Collected, LocalStop, StepInput
from skbnp.kernels._special import log
from skbnp.kernels._tables import infer_tables, table_sums
from skbnp.rows.batch import Batch, Block, joined, joined_limits, sum_word_ranges
from skbnp.utils.arrays import rows_of
from skbnp.utils.typing import Array, Ints, Ints32

#: Stored counts whose seats are held at a time.
PART_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of some documents and their topics, as `infer_tables` returns them."""

    limits: Ints32  # (n_docs + 1,) of the documents in `tokens`
    tokens: Array  # (n_used,) n_jt
    served: Ints  # (n_used + 1,) limits of the tables in the next two
    topics: Ints32
    phi: Array
    zeta: Array  # word by word of each document, for each of its tables

    @classmethod
    def joined(cls, parts: list["Tables"]) -> "Tables":
        """Concatenate the tables of several blocks."""
        return cls(
            joined_limits([part.limits for part in parts]).astype(np.int32),
            joined(parts, "tokens"),
            joined_limits([part.served for part in parts]),
            joined(parts, "topics", np.int32),
            joined(parts, "phi"),
            joined(parts, "zeta"),
        )

    def of_documents(self, rows: slice) -> "Tables":
        """Return the tables of adjacent documents, without zeta."""
        limits = self.limits[rows.start : rows.stop + 1]
        tables = slice(limits[0], limits[-1])
        served = self.served[limits[0] : limits[-1] + 1]
        entries = slice(served[0], served[-1])
        return Tables(
            limits - limits[0],
            self.tokens[tables],
            served - served[0],
            self.topics[entries],
            self.phi[entries],
            np.zeros(0),
        )

    def with_columns(self, columns: Ints) -> "Tables":
        """Return tables whose topic k is in column `columns[k]`; equal ones add up."""
        served = sp.csr_array(
            (self.phi, columns[self.topics], self.served),
            shape=(len(self.tokens), columns.max() + 1),
            copy=True,
        )
        served.sum_duplicates()
        topics = served.indices.astype(np.int32)
        limits = served.indptr.astype(np.intp)
        return replace(self, served=limits, topics=topics, phi=served.data)

    def by_document(self, n_tables: int) -> Array:
        """Expected tokens of tables n_jt, (n_docs, T)."""
        rows, values = rows_of(self.limits), np.zeros((len(self.limits) - 1, n_tables))
        values[rows, np.arange(len(rows)) - self.limits[rows]] = self.tokens
        return values


@dataclass(frozen=True, slots=True)
class TableStep:
    """What all documents of a batch read in the local step, and its stopping rule."""

    logs: NDArray[np.float32]  # (n_words, stride) of the batch, see `log_weights`
    log_beta: Array  # (K,)
    concentration: float
    n_tables: int
    remembered: Tables | None  # to start from
    stop: LocalStop

    @classmethod
    def prepare(cls, given: StepInput) -> "TableStep":
        """Prepare the local step of a batch from the globals of a posterior."""
        posterior, executor = given.posterior, given.executor
        model, state = posterior.model, posterior.state
        return cls(
            logs=model.log_word_weights(
                state,
                posterior.global_stats.topic_words,
                given.batch.words,
                given.visit.weighting,
                run=executor.map_all if executor.shares_memory else map,
            ),
            log_beta=state.log_weights,
            concentration=state.doc_concentration,
            n_tables=model.n_tables,
            remembered=given.to_start_from,
            stop=given.stop,
        )

    def collect(self, given: StepInput) -> Collected:
        """Run the local step; return statistics and document lengths."""
        posterior, batch, executor = given.posterior, given.batch, given.executor
        shape = (len(batch.words), len(self.log_beta))
        sums, entropy, result = sp.csr_array(shape), 0.0, list[Tables]()
        for part in batch.parts(PART_SIZE):
            first = len(result)
            result += self.visit(part.blocks, executor)
            tables = Tables.joined(result[first:])
            entropy += _entropy(part, tables)
            sums = sums + _sum_words(part, tables, shape[1], executor)
            result[first:] = [replace(one, zeta=np.zeros(0)) for one in result[first:]]
        tables = Tables.joined(result)
        stats = posterior.model.statistics(
            posterior.state,
            WordRows(batch.words, sums),
            tables.by_document(self.n_tables)[batch.n_tokens > 0.0],
            len(tables.tokens),
            (tables.topics, tables.phi),
            entropy,
        )
        return Collected(stats, batch.n_tokens, [], cache=tables)

    def visit(self, blocks: list[Block], executor: Executor) -> Iterator[Tables]:
        """Run the local step block by block."""
        starts: list[Tables | None] = [None] * len(blocks)
        if self.remembered is not None:
            for place, block in enumerate(blocks):
                start = self.remembered.of_documents(block.rows)
                if np.diff(start.limits).max() <= len(self.log_beta):
                    starts[place] = start  # no document has more tables than topics
        # Another process needs the memory of its block alone.
        step = replace(self, remembered=None)
        return executor.map(step._run, list(zip(blocks, starts, strict=True)))

    def _run(self, work: tuple[Block, Tables | None]) -> Tables:
        """Run the local step of one block, from its tables of the pass before."""
        block, start = work
        parts = "limits", "tokens", "served", "topics", "phi"
        first = None if start is None else tuple(getattr(start, n) for n in parts)
        return Tables(
            *infer_tables(
                block.indptr,
                block.indices,
                block.counts,
                self.logs,
                self.log_beta,
                self.concentration,
                self.n_tables,
                first,
                self.stop.max_iter,
                self.stop.tol,
            )
        )


def _entropy(batch: Batch, tables: Tables) -> float:
    """Entropy of zeta over all tokens, in nats."""
    n_used = np.diff(tables.limits)[rows_of(batch.indptr)]
    logs = np.empty_like(tables.zeta)
    log(tables.zeta, logs)
    # A product of vectors would depend on the threads of BLAS.
    return -float((np.repeat(batch.counts, n_used) * tables.zeta * logs).sum())


def _sum_words(
    batch: Batch, tables: Tables, n_topics: int, executor: Executor
) -> sp.csr_array:
    """Sum n zeta phi over documents, (n_words, K)."""
    by_word, n_used = batch.by_word(), np.diff(tables.limits)[rows_of(batch.indptr)]
    places = np.cumsum(n_used) - n_used
    return sum_word_ranges(
        table_sums,
        by_word,
        by_word.indices.astype(np.int32),
        batch.counts[by_word.data],
        places[by_word.data].astype(np.intp),
        tables.zeta,
        tables.limits,
        tables.served,
        tables.topics,
        tables.phi,
        n_topics=n_topics,
        n_ranges=len(batch.blocks),
        run=executor.map_all,
    )[0]
