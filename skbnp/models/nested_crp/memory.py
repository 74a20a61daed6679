"""Corpus of the nested CRP in parts, and the cache of the paths of its documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_sticks import LevelPriors, stub_nodes
from skbnp.inference.executor import Executor, commit
from skbnp.inference.memory import learn_priors
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import (
    FIRST_VISIT,
    Corpus,
    LocalStop,
    StatisticsCache,
    Visit,
)
from skbnp.inference.schedules import BatchSchedule, Part, Round, even_limits
from skbnp.models.nested_crp.local import DocPaths, LocalFamily, update_paths
from skbnp.models.nested_crp.model import (
    PathStats,
    TopicTree,
    path_globals,
    update_globals,
)
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints

#: Nats below the best of a document at which a path is not taken up: all of them
#: together would raise its bound by a per cent of a nat or so, and fill the memory.
ENTER = 6.0
#: Stored counts of a part, about.
PART = 1 << 16
#: Documents of each part, in increasing order.
Rows = Sequence[Ints]


@dataclass(frozen=True, slots=True)
class PathLocalStep:
    """Local step of documents on paths, with its family, stopping rule and executor."""

    stop: LocalStop
    executor: Executor
    family: LocalFamily = "conditional"

    def update_local(
        self, posterior: Posterior, X: sp.csr_array, visit: Visit = FIRST_VISIT
    ) -> "PathResult":
        """Run the local step under the present globals of a posterior."""
        topics, priors = posterior.state, posterior.model.priors
        result = self.update_paths(topics, priors, X, visit.remembered)
        return PathResult(result, X, topics.tree, priors.n_levels)

    def update_paths(
        self,
        topics: TopicTree,
        priors: LevelPriors,
        X: sp.csr_array,
        memo: DocPaths | None = None,
        open_to: Ints | None = None,
    ) -> DocPaths:
        """Infer paths under given topics; stubs are numbered by their ids.

        The step starts also from a memo, and the better result is kept. `open_to` are
        ids of the stubs that a document may take besides the root and those of its
        memo; by default all.
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
    """Paths of the documents of a part; their large sums are computed on demand."""

    cache: DocPaths
    X: sp.csr_array
    tree: Tree
    n_levels: int

    @property
    def stats(self) -> PathStats:
        """Sums over the documents."""
        return sum_documents(self.cache, self.X, self.tree, self.n_levels)


class TreeCorpus(Corpus):
    """Corpus in parts, with the paths of documents at their last local step.

    Of canonical counts without empty rows; parts are of equal size, of at most
    `size` rows, by default of about `PART` stored counts. `scale` is the number of
    documents behind each.
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
        """Return a schedule of passes over the parts, see `BatchSchedule`."""
        return BatchSchedule.of_rows(self.n_docs, len(self.parts), self.scale, n_joint)

    def documents(self, part: Part) -> sp.csr_array:
        """Counts of a part."""
        return self.parts[part.number]

    def sums(
        self, tree: Tree, n_levels: int, memos: list[DocPaths] | None = None
    ) -> PathStats:
        """Sum the statistics of all documents by their memos."""
        total = PathStats.zero(len(tree), self.n_words, n_levels)
        nodes = stub_nodes(tree, n_levels)
        for X, memo in zip(self.parts, memos or self.memos, strict=True):
            known = memo.renamed(tree.positions(memo.stubs))
            total = known.add_to(total, X, nodes)
        return total if self.scale == 1.0 else total.times(self.scale)

    def sum_part(
        self, memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int
    ) -> PathStats:
        """Sum the statistics of documents times `scale`."""
        total = sum_documents(memo, X, tree, n_levels)
        return total if self.scale == 1.0 else total.times(self.scale)

    def document(self, doc: int) -> tuple[sp.csr_array, float]:
        """Counts of a document, and its bound at the last local step."""
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

    def words(self, rows: Rows) -> Array:
        """Sum the word counts of some documents."""
        total = np.zeros(self.n_words)
        for X, docs in zip(self.parts, rows, strict=True):
            if len(docs):
                total += X[docs].sum(axis=0)
        return total

    def touching(self, ids: Ints) -> Rows:
        """Documents with a share in any of some stubs, by part."""
        return [memo.touching(ids) for memo in self.memos]

    def take(self, rows: Rows) -> tuple[sp.csr_array, DocPaths]:
        """Concatenate counts and paths of some documents."""
        used = [place for place, docs in enumerate(rows) if len(docs)]
        words = [self.parts[place][rows[place]] for place in used]
        memos = [self.memos[place].take(rows[place]) for place in used]
        X = sp.vstack(words, format="csr") if words else self.parts[0][:0]
        none = self.memos[0].take(np.arange(0))
        return sp.csr_array(X), DocPaths.joined([none, *memos])


class PathChange(NamedTuple):
    """Paths and statistics that a round changes in the cache."""

    memos: list[DocPaths]
    old: PathStats | None  # of what is taken out of the totals; None: of everything
    new: PathStats


class PathCache(StatisticsCache):
    """Cache of the paths of all documents; totals contain each document once.

    If a round updates all parts, their sum replaces the totals; else old statistics of
    the part are subtracted and new ones added.

    The corpus has the paths of its documents; `others` are statistics of documents
    that are not updated again, by the present tree.
    """

    corpus: TreeCorpus
    others: PathStats | None
    _is_exact: bool  # the totals are the sum

    def __init__(self, corpus: TreeCorpus, others: PathStats | None = None):
        self.corpus, self.others, self._is_exact = corpus, others, True

    def initial_local(self, part: Part) -> DocPaths | None:
        """Return the paths of the documents of a part."""
        return self.corpus.memos[part.number] if self.corpus.memos else None

    def prepare(
        self, posterior: Posterior, round: Round, results: Sequence[PathResult]
    ) -> PathChange:
        """Sum the new statistics, and the old ones unless all parts are updated."""
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
        """Put the new statistics into totals and cache, in place."""
        state, tree = posterior.state, posterior.state.tree
        self.corpus.memos, self._is_exact = change.memos, change.old is None
        if change.old is None:
            posterior.replace_globals(*self._updated(tree, change.new))
            return
        topics, stats = posterior.model.incremental_update(
            state, posterior.global_stats, change.old, change.new
        )
        self.reindex_to(tree, topics.tree)
        posterior.replace_globals(topics, stats)

    def end_pass(self, posterior: Posterior) -> None:
        """Sum all statistics again if parts were exchanged, and learn priors."""
        if not self._is_exact:
            tree, n_levels = posterior.state.tree, posterior.model.priors.n_levels
            stats = self.corpus.sums(tree, n_levels)
            with commit():  # rounding errors of the exchanges are gone
                posterior.replace_globals(*self._updated(tree, stats))
            self._is_exact = True
        learn_priors(posterior)

    def _updated(self, tree: Tree, stats: PathStats) -> tuple[TopicTree, PathStats]:
        """Return topics and totals of summed statistics, siblings sorted."""
        if self.others is not None:
            stats = stats.plus(self.others)
        topics, stats = update_globals(tree, stats)
        self.reindex_to(tree, topics.tree)
        return topics, stats

    def reindex_to(self, old: Tree, new: Tree) -> None:
        """Re-index the statistics of other documents to another tree, in place."""
        if self.others is not None:
            self.others = self.others.reindex_to(old, new)

    def put(self, rows: Rows, memo: DocPaths) -> None:
        """Replace the paths of some documents, in place."""
        memos, first = list(self.corpus.memos), 0
        for place, docs in enumerate(rows):
            if len(docs):
                new = memo.take(np.arange(first, first + len(docs)))
                memos[place] = memos[place].replaced(docs, new)
                first += len(docs)
        self.corpus.memos = memos


def sum_documents(
    memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int
) -> PathStats:
    """Sum the statistics of documents from their paths, with stubs by id."""
    known = memo.renamed(tree.positions(memo.stubs))
    total = PathStats.zero(len(tree), X.shape[1], n_levels)
    return known.add_to(total, X, stub_nodes(tree, n_levels))
