"""Documents in parts, each with what it said about the paths of a tree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.tree_sticks import LevelPriors, stub_nodes
from skbnp.components.word_topics import Weighting
from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.local import BlockHook, LocalStop
from skbnp.inference.memory import learn_priors
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, StatisticsCache
from skbnp.inference.schedules import BatchSchedule, Part, Round, even_limits
from skbnp.models.nested_crp.local import DocPaths, LocalFamily, update_paths
from skbnp.models.nested_crp.model import (
    PathStats,
    TopicTree,
    path_globals,
    update_globals,
)
from skbnp.trees import Tree

__all__ = [
    "PathCache",
    "PathLocalStep",
    "PathResult",
    "Rows",
    "TreeCorpus",
    "some_rows",
    "sum_documents",
]

#: Nats below the best of a document at which a path is not taken up: all of them
#: together would raise its bound by a per cent of a nat or so, and fill the memory.
ENTER = 6.0
#: Stored counts of a part, about.
PART = 1 << 16
#: Documents of each part, in increasing order.
Rows = Sequence[NDArray[np.intp]]


@dataclass(frozen=True, slots=True)
class PathLocalStep:
    """Visits documents: by which family, until when, on which threads."""

    stop: LocalStop
    executor: Executor
    family: LocalFamily = "conditional"

    def update_local(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        *,
        weighting: Weighting = Weighting.EXPECTED_LOG,
        remembered: DocPaths | None = None,
        block_hook: BlockHook | None = None,
    ) -> "PathResult":
        """Run the local step under the present globals of a posterior."""
        del weighting, block_hook  # trees know no warm-up, and no move reads blocks
        topics, priors = posterior.state, posterior.model.priors
        result = self.update_paths(topics, priors, X, remembered)
        return PathResult(result, X, topics.tree, priors.n_levels)

    def update_paths(
        self,
        topics: TopicTree,
        priors: LevelPriors,
        X: sp.csr_array,
        memo: DocPaths | None = None,
        open_to: NDArray[np.intp] | None = None,
    ) -> DocPaths:
        """Visit documents under given topics; stubs are called by their ids.

        They start from a memo too, and keep the better. `open_to` are the ids of stubs
        that a document may take besides the root and those of its memo, by default all.
        """
        tree = topics.tree
        starts = is_open = None
        if memo is not None:
            known, place = tree.find(memo.stubs.astype(np.intp))
            starts = memo.starts(np.where(known, place, -1))
        if open_to is not None:
            is_open = np.zeros(len(tree), dtype=np.uint8)
            is_open[tree.positions(open_to)] = is_open[0] = 1
        result = update_paths(
            path_globals(topics, priors),
            X,
            self.stop,
            self.executor,
            family=self.family,
            starts=starts,
            enter=ENTER,
            is_open=is_open,
        )
        return result.renamed(tree.ids[result.stubs])


@dataclass(frozen=True, slots=True)
class PathResult:
    """What the documents of a part say; summed when asked: sums are large."""

    cache: DocPaths
    X: sp.csr_array
    tree: Tree
    n_levels: int

    @property
    def stats(self) -> PathStats:
        """Sums over the documents."""
        return sum_documents(self.cache, self.X, self.tree, self.n_levels)


class TreeCorpus(Corpus):
    """A corpus in parts of some rows, whose documents remember what they said.

    Parameters
    ----------
    X : csr_array
        Canonical counts, no empty rows.
    size : int or None
        Rows of a part at most; parts are of equal size. By default they have about
        `PART` stored counts.
    scale : float
        Documents behind each.
    """

    def __init__(self, X: sp.csr_array, size: int | None = None, scale: float = 1.0):
        super().__init__(X)
        self.size, self.scale, n_docs = size, scale, X.shape[0]
        n_parts = -(-X.nnz // PART) if size is None else -(-n_docs // size)
        n_parts = min(max(n_parts, 1), n_docs)
        self.limits = even_limits(n_docs, n_parts)
        self.parts = [X[a:b] for a, b in pairwise(self.limits)]
        self.memos: list[DocPaths] = []
        self.n_words = X.shape[1]

    def schedule(self, n_joint: float = np.inf) -> BatchSchedule:
        """Return passes over the parts, see `BatchSchedule`."""
        return BatchSchedule(self.n_docs, len(self.parts), self.scale, n_joint)

    def documents(self, part: Part) -> sp.csr_array:
        """Counts of a part."""
        return self.parts[part.number]

    def sums(
        self,
        tree: Tree,
        n_levels: int,
        memos: list[DocPaths] | None = None,
    ) -> PathStats:
        """Sum what all documents said, or would say."""
        total = PathStats.zero(len(tree), self.n_words, n_levels)
        nodes = stub_nodes(tree, n_levels)
        for X, memo in zip(self.parts, memos or self.memos, strict=True):
            known = memo.renamed(tree.positions(memo.stubs))
            total = known.add_to(total, X, nodes)
        return total if self.scale == 1.0 else total.times(self.scale)

    def sum_part(
        self, memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int
    ) -> PathStats:
        """Sum what documents say, each so many times."""
        total = sum_documents(memo, X, tree, n_levels)
        return total if self.scale == 1.0 else total.times(self.scale)

    def document(self, doc: int) -> tuple[sp.csr_array, float]:
        """Words of a document, and its bound when it was last visited."""
        place = int(np.searchsorted(self.limits, doc, side="right")) - 1
        row = doc - int(self.limits[place])
        return self.parts[place][[row]], float(self.memos[place].bounds[row])

    def shares(self, tree: Tree) -> sp.csc_array:
        """Shares of documents in stubs, (n_docs, n_stubs)."""
        shape = (self.n_docs, len(tree))
        limits = np.concatenate([[0], *(np.diff(m.limits) for m in self.memos)])
        stubs = tree.positions(np.concatenate([memo.stubs for memo in self.memos]))
        shares = np.concatenate([memo.shares for memo in self.memos])
        return sp.csr_array((shares, stubs, np.cumsum(limits)), shape).tocsc()

    def words(self, rows: Rows) -> NDArray[np.float64]:
        """Sum the word counts of some documents."""
        total = np.zeros(self.n_words)
        for X, docs in zip(self.parts, rows, strict=True):
            if len(docs):
                total += X[docs].sum(axis=0)
        return total

    def touching(self, ids: NDArray[np.intp]) -> Rows:
        """Documents that have a share of any of some stubs."""
        return [memo.touching(np.isin(memo.stubs, ids)) for memo in self.memos]

    def take(self, rows: Rows) -> tuple[sp.csr_array, DocPaths]:
        """Put some documents together, and what they said."""
        used = [place for place, docs in enumerate(rows) if len(docs)]
        words = [self.parts[place][rows[place]] for place in used]
        memos = [self.memos[place].take(rows[place]) for place in used]
        X = sp.vstack(words, format="csr") if words else self.parts[0][:0]
        return sp.csr_array(X), DocPaths.joined(memos, self.memos[0].levels.shape[1])

    def put(self, rows: Rows, results: DocPaths) -> list[DocPaths]:
        """Return memos in which some documents say something else."""
        memos, first = list(self.memos), 0
        for place, docs in enumerate(rows):
            if len(docs):
                new = results.take(np.arange(first, first + len(docs)))
                memos[place] = memos[place].replaced(docs, new)
                first += len(docs)
        return memos


class PathChange(NamedTuple):
    """What a round changes of a memory."""

    memos: list[DocPaths]
    old: PathStats | None  # of what is taken out of the totals; None: of everything
    new: PathStats


class PathCache(StatisticsCache):
    """Totals hold each document of a corpus once, with what it said at its last visit.

    A round of all parts makes them their sum; one of some exchanges what these said.

    Parameters
    ----------
    corpus : TreeCorpus
        Keeps what its documents say.
    others : PathStats or None
        What documents said that are not visited again, by the present tree.
    """

    corpus: TreeCorpus
    others: PathStats | None
    _is_exact: bool  # the totals are the sum

    def __init__(self, corpus: TreeCorpus, others: PathStats | None = None):
        self.corpus, self.others, self._is_exact = corpus, others, True

    def initial_local(self, part: Part) -> DocPaths | None:
        """Return what the documents of a part said."""
        return self.corpus.memos[part.number] if self.corpus.memos else None

    def prepare(
        self, posterior: Posterior, round: Round, results: Sequence[PathResult]
    ) -> PathChange:
        """Sum what documents say, and what they said where some are visited."""
        tree, corpus = posterior.state.tree, self.corpus
        n_levels = posterior.model.priors.n_levels
        if len(round.parts) == len(corpus.parts):
            memos = [result.cache for result in results]
            return PathChange(memos, None, corpus.sums(tree, n_levels, memos=memos))
        (part,), (result,), memos = round.parts, results, list(corpus.memos)
        old = corpus.sum_part(memos[part.number], result.X, tree, n_levels)
        memos[part.number] = result.cache
        return PathChange(memos, old, result.stats.times(round.scale))

    def stochastic_update(
        self, posterior: Posterior, round: Round, change: PathChange
    ) -> None:
        """Let the totals hold what the documents say now."""
        state, tree = posterior.state, posterior.state.tree
        self.corpus.memos, self._is_exact = change.memos, change.old is None
        if change.old is None:
            posterior.replace_globals(*self._updated(tree, change.new))
            return
        topics, stats = posterior.model.incremental_update(
            state, posterior.global_stats, change.old, change.new
        )
        self.follow(tree, topics.tree)
        posterior.replace_globals(topics, stats)

    def end_pass(self, posterior: Posterior) -> None:
        """Sum afresh where parts were exchanged, and learn priors."""
        if not self._is_exact:
            tree, n_levels = posterior.state.tree, posterior.model.priors.n_levels
            stats = self.corpus.sums(tree, n_levels)
            with commit():  # rounding errors of the exchanges are gone
                posterior.replace_globals(*self._updated(tree, stats))
            self._is_exact = True
        learn_priors(posterior)

    def _updated(self, tree: Tree, stats: PathStats) -> tuple[TopicTree, PathStats]:
        if self.others is not None:
            stats = stats.plus(self.others)
        topics, stats = update_globals(tree, stats)
        self.follow(tree, topics.tree)
        return topics, stats

    def follow(
        self, old: Tree, new: Tree, merged_into: Mapping[int, int] | None = None
    ) -> None:
        """Let what others said stand as in another tree."""
        if self.others is not None:
            self.others = self.others.follow(old, new, merged_into)


def some_rows(X: sp.csr_array, most: int, rng: np.random.Generator) -> sp.csr_array:
    """Return random rows in their order, all if there are no more than so many."""
    n_rows = X.shape[0]
    if n_rows <= most:
        return X
    return X[np.sort(rng.choice(n_rows, most, replace=False))]


def sum_documents(
    memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int
) -> PathStats:
    """Sum what documents said, stubs by id."""
    known = memo.renamed(tree.positions(memo.stubs))
    total = PathStats.zero(len(tree), X.shape[1], n_levels)
    return known.add_to(total, X, stub_nodes(tree, n_levels))
