"""Start of the sampler of the nested CRP: good leaves, grouped in many ways.

Documents that draw paths and levels together, one after another, find good leaves in a
few sweeps, but not the nodes above: the words of a node keep its documents there. So
leaves are grouped in many ways, from one path for all to a parent for each leaf; levels
are drawn again in each tree, and the tree with the highest probability of each document
given all others is kept. The log joint of a state would prefer trees of too many nodes,
whose levels are the sharpest.
"""

from operator import itemgetter

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_sticks import LevelPriors
from skbnp.inference.monitor import SILENT, Reporter
from skbnp.kernels._nested_crp import LEVELS, TOGETHER
from skbnp.models.nested_crp_walks.model import NestedPriors, Paths, Walks
from skbnp.rows.tokens import Tokens
from skbnp.utils.arrays import members
from skbnp.utils.clusters import kmeans, ward_cuts
from skbnp.utils.typing import Array, Ints

#: Times that documents find leaves from nothing.
N_STARTS = 4
#: Sweeps in which documents find leaves, and in which they move in a new tree.
LEAF_SWEEPS, TREE_SWEEPS = 8, 4
#: Sweeps over levels alone in a new tree.
LEVEL_SWEEPS = 20
#: Such sweeps from one draw of the priors to the next.
LEARN_EVERY = 8
#: Levels that the probability of a document is averaged over.
N_TRIES = 4
#: Times that leaves are grouped again, at most.
MOST_ROUNDS = 5
#: Groups that are compared, and further ones by this factor.
GROUPS, FURTHER = 8, 2.0
#: Documents that trees are compared on, at most.
MOST_DOCS = 600
#: Levels whose numbers of nodes are compared; the others go evenly to the leaves.
MOST_SEARCHED = 2
#: Of a word's frequency below a node, the least share that a level may have.
LEAST_SHARE = 0.02


def start_walks(
    tokens: Tokens,
    priors: LevelPriors,
    learned: NestedPriors,
    rng: np.random.Generator,
    reporter: Reporter = SILENT,
) -> Walks:
    """Return walks of all documents on the tree that is best for some of them."""
    n_docs = len(tokens.begin) - 1
    some = np.sort(rng.permutation(n_docs)[:MOST_DOCS])
    walks, _ = find_start(tokens.take(some), priors, learned, rng, reporter)
    if len(some) == n_docs:
        return walks
    paths = Paths.at_random(tokens, walks.priors, rng)
    result = walks.paths()
    paths.node[some] = result.node
    is_known = np.isin(tokens.doc, some)
    paths.level[is_known] = result.level
    walks = Walks(tokens, walks.priors, paths)
    for doc in np.flatnonzero(paths.node[:, 0] < 0).tolist():
        walks.sweep(doc, doc + 1, rng, TOGETHER)
    return walks


def find_start(
    tokens: Tokens,
    priors: LevelPriors,
    learned: NestedPriors,
    rng: np.random.Generator,
    reporter: Reporter = SILENT,
) -> tuple[Walks, float]:
    """Return the best walks of several trees, and the log probability of documents.

    That is the sum over documents of log p(words, path | all other documents).
    """
    best = Walks(tokens, priors, rng=rng), -np.inf
    if tokens.begin[-1] == 0:
        return best

    def compare(walks: Walks) -> float:
        """Score walks by leaving one document out; put them into `best` if better."""
        nonlocal best
        score = float(walks.leave_one_out(rng, N_TRIES).sum())
        if score > best[1]:
            best = walks, score
        n_nodes = len(walks.columns)
        reporter.remind(f"start: {n_nodes} nodes, {best[1] / len(tokens):.4f} at best")
        return score

    def explore(labels: Ints) -> None:
        """Compare trees of walks over given leaves, level by level."""
        sizes = [1] * priors.n_levels
        sizes[1:] = [int(labels.max()) + 1] * (priors.n_levels - 1)
        forest = Forest(tokens, labels)
        # Level by level, each with the best number of nodes above.
        for level in range(1, min(max(priors.n_levels - 1, 2), MOST_SEARCHED + 1)):
            scores: dict[tuple[int, ...], float] = {}
            for n in numbers_between(sizes[level - 1], sizes[-1]):
                tried = level_sizes(sizes[:level], n, priors.n_levels, sizes[-1])
                if tuple(tried) in scores:
                    continue
                walks = Walks(tokens, best[0].priors, forest.paths(tried, rng))
                for sweep in range(LEVEL_SWEEPS):
                    walks.sweep(0, walks.n_docs, rng, LEVELS)
                    if sweep % LEARN_EVERY == 0:
                        learned.resample(walks, rng)
                scores[tuple(tried)] = compare(walks)
            sizes = list(max(scores.items(), key=itemgetter(1))[0])

    for _ in range(N_STARTS):
        walks = Walks(tokens, priors, rng=rng)
        _sweep(walks, learned, rng, LEAF_SWEEPS)
        compare(walks)
        if priors.n_levels == 1:
            return best
        explore(_leaves(walks))
    explore(np.zeros(walks.n_docs, dtype=np.intp))
    explore(kmeans(_counts(tokens), usual_leaves(walks.n_docs), rng))
    for _ in range(MOST_ROUNDS):
        before = best[1]
        walks = Walks(tokens, best[0].priors, best[0].paths())
        _sweep(walks, learned, rng, TREE_SWEEPS)
        compare(walks)
        explore(_leaves(walks))
        if best[1] <= before:
            break
    return best


def _sweep(
    walks: Walks, learned: NestedPriors, rng: np.random.Generator, n_sweeps: int
) -> None:
    """Make `n_sweeps` sweeps of walks and hyperparameters, in place."""
    for _ in range(n_sweeps):
        walks.sweep(0, walks.n_docs, rng, TOGETHER)
        walks.tidy()
        learned.resample(walks, rng)


def _leaves(walks: Walks) -> Ints:
    return np.unique(walks.path[:, -1], return_inverse=True)[1].ravel()


def _counts(tokens: Tokens) -> sp.csr_array:
    """Document-term matrix of tokens, without words that do not occur."""
    words = np.unique(tokens.words, return_inverse=True)[1].ravel()
    counts = sp.csr_array((np.ones(len(tokens)), words, tokens.begin.copy()))
    counts.sum_duplicates()
    return counts


def usual_leaves(n_docs: int) -> int:
    """Number of clusters of `n_docs` documents, more than the leaves expected."""
    return int(max(2, min(4.0 * np.sqrt(n_docs / 2.0), n_docs / 10.0)))


def numbers_between(least: int, most: int) -> list[int]:
    """Numbers of nodes to compare: all small ones, then a geometric series."""
    numbers = [*range(least, min(most, least + GROUPS - 1) + 1)]
    while (more := round(FURTHER * numbers[-1])) < most:
        numbers.append(more)
    return sorted({*numbers, most})


def level_sizes(above: list[int], n: int, n_levels: int, n_leaves: int) -> list[int]:
    """Nodes of each level: those of `above`, then `n`, then evenly to the leaves."""
    n_below = n_levels - len(above)
    if n_below == 1:
        return [*above, n_leaves]
    sizes = np.rint(np.geomspace(n, n_leaves, n_below))
    return [*above, *sizes.astype(int).tolist()]


class Forest:
    """Trees over the same leaves, whose nodes are cut from Ward's tree of these.

    Leaves are compared by the square roots of word frequencies.

    `labels` are the leaves of documents, (n_docs,), numbered without gaps.
    """

    def __init__(self, tokens: Tokens, labels: Ints):
        """Count the words of the leaves, and cluster the leaves."""
        self.labels, self.leaf = labels, labels[tokens.doc]
        words, word = np.unique(tokens.words, return_inverse=True)
        self.word = word.ravel()
        self.pooled = np.zeros((int(labels.max()) + 1, len(words)))
        np.add.at(self.pooled, (self.leaf, self.word), 1.0)
        frequent = self.pooled + 0.5 / len(words)
        self.logs = np.log(frequent / frequent.sum(axis=1, keepdims=True))

    def paths(self, sizes: list[int], rng: np.random.Generator) -> Paths:
        """Put documents on paths of a tree with `sizes` nodes on each level.

        Tokens draw levels by the excess of the frequency of their word at a node over
        that of its parent, see `_shares`.
        """
        cuts = ward_cuts(self.pooled, sizes)
        cuts = np.column_stack(
            [np.unique(cut, return_inverse=True)[1].ravel() for cut in cuts.T]
        )
        limits = np.cumsum(_shares(self.logs, cuts), axis=0)[:-1, self.leaf, self.word]
        level = (rng.random(len(self.leaf)) > limits).sum(axis=0)
        return Paths(cuts[self.labels].astype(np.int32), level.astype(np.uint8))


def _shares(logs: Array, cuts: Ints) -> Array:
    """Shares of levels in the words of each leaf, (n_levels, n_leaves, n_words).

    The frequency of a word at a node is the geometric mean over its leaves, minus that
    at its parent. Logarithms of the frequencies of leaves are given.
    """
    common = []
    for cut in cuts.T:
        size = np.bincount(cut)
        member = members(cut, len(size))
        common.append(np.exp((member @ logs) / size[:, None])[cut])
    lowest = np.minimum.accumulate(np.array(common)[::-1], axis=0)[::-1]
    parts = np.diff(lowest, axis=0, prepend=0.0) + LEAST_SHARE * lowest[-1]
    return parts / parts.sum(axis=0)
