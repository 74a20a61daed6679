"""Starts of a nested CRP: clusters of documents, a sampler, or one by one."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.tree_sticks import LevelPriors, stub_nodes
from skbnp.inference.monitor import SILENT, Reporter
from skbnp.models.nested_crp.local import PathLocalStep, update_paths
from skbnp.models.nested_crp.model import (
    NestedModel,
    PathGlobals,
    PathStats,
    TopicTree,
    path_globals,
    score_branches,
    update_globals,
)
from skbnp.models.nested_crp_walks import NestedPriors, level_sizes, start_walks
from skbnp.rows.batch import Tokens
from skbnp.trees import Tree
from skbnp.utils.arrays import members
from skbnp.utils.clusters import ward_cuts
from skbnp.utils.typing import Array, Ints

#: Rounds in which documents stay in their clusters.
CLAMPED_ROUNDS = 15
#: A topic starts with a third of the words of its documents, weighed by how much more
#: frequent they are than above, at most that many times.
SHARE, MOST_EXCESS = 1.0 / 3.0, 5.0
#: Tokens that the sampler visits; of larger corpora, a part of each count.
MOST_TOKENS = 5e5
#: Sweeps of the sampler from its start.
N_SWEEPS = 200


def excess(counts: Array, above: Array | None) -> Array:
    """Words that a node's topic starts with, given those of documents and parent."""
    if above is None:
        return SHARE * counts
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (counts / counts.sum()) / (above / above.sum())
    return SHARE * counts * np.minimum(np.nan_to_num(ratio), MOST_EXCESS)


def by_clusters(
    X: sp.csr_array,
    label: NDArray,
    model: NestedModel,
    local_step: PathLocalStep,
    n_groups: list[int],
) -> Iterator[TopicTree]:
    """Yield trees of clusters of documents, one for each number of groups.

    Leaves are the clusters, numbered without gaps; groups of them are cut from Ward's
    tree.
    """
    n_levels, n_leaves = model.priors.n_levels, int(label.max()) + 1
    pooled = (members(label, n_leaves) @ X).toarray()
    masses_of, groups = np.bincount(label), [X[label == k] for k in range(n_leaves)]

    def clamped(tree: Tree, leaf: Ints) -> TopicTree:
        """Fit topics of a tree to documents whose leaves are fixed."""
        counts = np.zeros((len(tree), X.shape[1]))
        masses = np.zeros(len(tree))
        np.add.at(counts, leaf, pooled)
        np.add.at(masses, leaf, masses_of)
        counts = tree.accumulate(counts)
        above = [None, *counts[tree.parent[1:]]]
        words = np.array([excess(*both) for both in zip(counts, above, strict=True)])
        topics = TopicTree(tree, words, masses)
        nodes, depth = stub_nodes(tree, n_levels), np.arange(n_levels)
        for _ in range(CLAMPED_ROUNDS):
            total = PathStats.zero(len(tree), X.shape[1], n_levels)
            for at, rows in zip(leaf, groups, strict=True):
                path = PathGlobals(
                    topics.word_counts[nodes[at]],
                    depth,
                    depth[None].astype(np.int32),
                    np.zeros(1),
                    model.priors.level_prior,
                    model.priors.topic_prior,
                    is_mean=False,
                    n_unseen=model.priors.n_unseen,
                )
                result = update_paths(path, rows, local_step.stop, local_step.executor)
                result = result.renamed(np.full(len(result.stubs), at))
                total = result.add_to(total, rows, nodes)
            topics = total.globals_on(tree)
        return update_globals(tree, total)[0]

    if n_levels < 3:
        n_groups = n_groups[:1]
    done = set()
    for n in n_groups:
        sizes = level_sizes([1], min(n, n_leaves), n_levels, n_leaves)
        if tuple(sizes) in done:
            continue
        done.add(tuple(sizes))
        yield clamped(*_tree_of(ward_cuts(pooled, sizes)))


def _tree_of(cuts: NDArray) -> tuple[Tree, Ints]:
    """Return the tree of nested partitions (n_leaves, n_levels), and its leaves."""
    parent, first, above = [-1], 0, np.zeros(len(cuts), dtype=np.intp)
    for level in range(1, cuts.shape[1]):
        _, start, at = np.unique(cuts[:, level], return_index=True, return_inverse=True)
        first = len(parent)
        parent.extend(above[start].tolist())
        above = first + at
    tree = Tree.from_parents(parent)
    return tree, tree.positions(above)


def by_gibbs(
    X: sp.csr_array,
    priors: LevelPriors,
    learned: NestedPriors,
    rng: np.random.Generator,
    reporter: Reporter = SILENT,
) -> tuple[TopicTree, LevelPriors]:
    """Return topics of a state of the collapsed sampler, fractional counts rounded up.

    And the priors of that state. If the topic prior is fixed, level priors are kept
    until leaves are grouped: under a topic prior smoother than the topics, a level
    would lose its tokens before its topics have formed.
    """
    share = min(1.0, MOST_TOKENS / X.sum())
    counts = sp.csr_array((np.ceil(share * X.data), X.indices, X.indptr), X.shape)
    tokens = Tokens.from_counts(counts)
    learns_levels = learned.learn_level_prior and learned.learn_topic_prior
    searched = replace(learned, learn_level_prior=learns_levels)
    walks = start_walks(tokens, priors, searched, rng, reporter)
    for sweep in range(N_SWEEPS):
        reporter.remind(f"start by sampling: sweep {sweep} of {N_SWEEPS}")
        walks.sweep(0, walks.n_docs, rng)
        walks.tidy()
        learned.resample(walks, rng)
    tree, columns = walks.tree()
    counts, docs = walks.counts.T[columns], walks.docs[columns]
    return topics_of_paths(tree.depth, counts, docs), walks.priors


def topics_of_paths(depth: Ints, counts: NDArray, docs: NDArray) -> TopicTree:
    """Return topics from counts of words at nodes and of documents through them."""
    tree, masses = Tree(np.arange(len(depth)), depth), np.zeros(len(depth))
    masses[tree.leaves] = docs[tree.leaves]
    return TopicTree(tree, np.ascontiguousarray(counts, dtype=np.float64), masses)


def one_by_one(
    X: sp.csr_array,
    model: NestedModel,
    local_step: PathLocalStep,
    rng: np.random.Generator,
    reporter: Reporter = SILENT,
) -> TopicTree:
    """Build a tree by documents in random order, each on the best path or a new one."""
    topics = TopicTree(Tree(), np.zeros((1, X.shape[1])), np.zeros(1))
    for number, row in enumerate(rng.permutation(X.shape[0])):
        n_nodes = len(topics.tree)
        reporter.remind(f"start: {number} of {X.shape[0]} documents, {n_nodes} nodes")
        topics = _join(X[[row]], topics, model.priors, local_step)
    return topics


def _join(
    x: sp.csr_array, topics: TopicTree, priors: LevelPriors, local_step: PathLocalStep
) -> TopicTree:
    """Return the topics with one more document, on the best path or a new branch."""
    n_levels, given = priors.n_levels, path_globals(topics, priors)
    result = update_paths(given, x, local_step.stop, local_step.executor)
    full = given.stub_nodes[result.stubs][:, -1] >= 0
    best, score = -1, -np.inf
    if full.any():
        with np.errstate(divide="ignore"):
            scores = np.where(full, result.bounds[0] + np.log(result.shares), -np.inf)
        best, score = int(np.argmax(scores)), float(scores.max())
    opened = score_branches(given, given.log_topics(x.indices), x.data)
    tree = topics.tree
    if len(opened.stubs) and opened.scores.max() > score:
        k = int(np.argmax(opened.scores))
        node = int(tree.ids[opened.stubs[k]])
        grown = tree.add(node, depth=n_levels - 1)
        stub, tokens = grown.next_id - 1, opened.tokens[k]
    else:
        stub, grown = int(tree.ids[result.stubs[best]]), tree
        n = len(x.data)
        tokens = result.tokens[best * n : (best + 1) * n]
    stats = PathStats.of_topics(topics, n_levels).reindex_to(tree, grown)
    at = grown.positions(grown.path_to(stub))
    stats.word_counts[at[:, None], x.indices] += tokens.T
    stats.stub_masses[at[-1]] += 1.0
    return update_globals(grown, stats)[0]
