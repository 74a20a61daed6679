"""Documents in parts, each with what it said about the paths of a tree."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.documents import LocalStop
from skbnp.inference.executor import Executor
from skbnp.inference.paths import DocPaths, visit_paths
from skbnp.models.ncrp_collapsed import LevelPriors
from skbnp.models.ncrp_topics import PathStats, TopicTree, path_globals, stub_nodes
from skbnp.trees import Tree

__all__ = ["PathVisitor", "Rows", "TreeCorpus", "some_rows", "sums_of"]

#: Nats below the best of a document at which a path is not taken up: all of them
#: together would raise its bound by a per cent of a nat or so, and fill the memory.
ENTER = 6.0
#: Stored counts of a part, about.
PART = 1 << 16
#: Documents of each part, in increasing order.
Rows = Sequence[NDArray[np.intp]]


@dataclass(frozen=True, slots=True)
class PathVisitor:
    """Visits documents: by which family, until when, on which threads."""

    stop: LocalStop
    executor: Executor
    factorised: bool = False

    def visit(
        self,
        topics: TopicTree,
        priors: LevelPriors,
        X: sp.csr_array,
        memo: DocPaths | None = None,
    ) -> DocPaths:
        """Visit documents under the present globals; stubs are called by their ids.

        They start from a memo too, and keep the better.
        """
        tree = topics.tree
        starts = None
        if memo is not None:
            known = np.isin(memo.stubs, tree.ids)
            place = np.where(known, memo.stubs, tree.ids[0])
            places = np.where(known, tree.positions(place), -1)
            starts = memo.starts(places)
        found = visit_paths(
            path_globals(topics, priors),
            X,
            self.stop,
            self.executor,
            factorised=self.factorised,
            starts=starts,
            enter=ENTER,
        )
        return found.renamed(tree.ids[found.stubs])


class TreeCorpus:
    """A corpus in parts of some rows, whose documents remember what they said.

    Parameters
    ----------
    X : csr_array
        Canonical counts, no empty rows.
    size : int or None
        Rows of a part at the most; parts are of equal size. By default they have about
        `PART` stored counts.
    scale : float
        Documents behind each.
    """

    def __init__(self, X: sp.csr_array, size: int | None = None, scale: float = 1.0):
        self.scale = scale
        n_docs = X.shape[0]
        n_parts = -(-X.nnz // PART) if size is None else -(-n_docs // size)
        n_parts = min(max(n_parts, 1), n_docs)
        self.limits = np.arange(n_parts + 1) * n_docs // max(n_parts, 1)
        self.parts = [
            X[a:b] for a, b in zip(self.limits, self.limits[1:], strict=False)
        ]
        self.memos: list[DocPaths] = []
        self.n_words = X.shape[1]

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return int(self.limits[-1])

    def sums(self, tree: Tree, n_levels: int, rows: Rows | None = None) -> PathStats:
        """Sum what some documents said; by default all."""
        total = PathStats.zero(len(tree), self.n_words, n_levels)
        nodes = stub_nodes(tree, n_levels)
        for place, (X, memo) in enumerate(zip(self.parts, self.memos, strict=True)):
            if rows is not None:
                X, memo = X[rows[place]], memo.take(rows[place])
            known = memo.renamed(tree.positions(memo.stubs))
            total = known.add_to(total, X, nodes)
        return total if self.scale == 1.0 else total.times(self.scale)

    def sums_of(
        self, memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int
    ) -> PathStats:
        """Sum what documents say, each so many times."""
        total = sums_of(memo, X, tree, n_levels)
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

    def put(self, rows: Rows, found: DocPaths) -> list[DocPaths]:
        """Return memos in which some documents say something else."""
        memos, first = list(self.memos), 0
        for place, docs in enumerate(rows):
            if len(docs):
                new = found.take(np.arange(first, first + len(docs)))
                memos[place] = memos[place].replaced(docs, new)
                first += len(docs)
        return memos


def some_rows(X: sp.csr_array, most: int, rng: np.random.Generator) -> sp.csr_array:
    """Return random rows in their order, all if there are no more than so many."""
    n_rows = X.shape[0]
    if n_rows <= most:
        return X
    return X[np.sort(rng.choice(n_rows, most, replace=False))]


def sums_of(memo: DocPaths, X: sp.csr_array, tree: Tree, n_levels: int) -> PathStats:
    """Sum what documents said, stubs by id."""
    known = memo.renamed(tree.positions(memo.stubs))
    return known.sums(X, stub_nodes(tree, n_levels))
