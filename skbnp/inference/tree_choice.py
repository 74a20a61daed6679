"""Which start of a topic tree is best: each learns for a while, a bound decides."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.inference.edits import Lineage
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.moves.tree_moves import TreeMoves
from skbnp.inference.posterior import Posterior
from skbnp.inference.tree_corpus import PathVisitor, TreeCorpus
from skbnp.inference.tree_learning import LEAST_GAIN, TreeLearner
from skbnp.inference.tree_starts import by_clusters, by_gibbs, one_by_one
from skbnp.models.ncrp_topics import NestedModel, PathStats, TopicTree
from skbnp.trees import Tree
from skbnp.utils.clusters import kmeans
from skbnp.utils.random import Purpose, stream

__all__ = ["choose_start", "start_posterior"]

#: Passes after which starts are compared, if they rise by so much, relatively.
N_PASSES, LEAST_RISE = 20, 1e-5
#: Documents that a start is made from, at the most.
MOST_DOCS = 1500
#: Groups of clusters that are compared.
GROUPS = [2, 3, 4, 5, 6, 7, 8]
#: Sweeps of the sampler: at least, at most, and tokens to visit in between.
LEAST_SWEEPS, MOST_SWEEPS, TOKEN_VISITS = 200, 1000, 2e7


def start_posterior(
    model: NestedModel, topics: TopicTree, entropy: int, max_nodes: float = np.inf
) -> Posterior:
    """Return a posterior that begins with some topics, its nodes named afresh."""
    topics = _lightened(topics, max_nodes)
    tree = Tree(np.arange(len(topics.tree)), topics.tree.depth)
    topics = replace(topics, tree=tree)
    return Posterior(
        model,
        topics,
        PathStats.held_by(topics, model.priors.n_levels),
        tree.ids,
        [Lineage(0, "init", (), tuple(tree.ids.tolist()))],
        entropy=entropy,
        max_components=max_nodes,
    )


def _lightened(topics: TopicTree, max_nodes: float) -> TopicTree:
    """Leave out the lightest leaves, where there are too many nodes."""
    tree, masses = topics.tree, topics.stub_masses
    while len(tree) > max_nodes:
        at = topics.tree.positions(tree.ids[tree.leaves])
        lightest = int(topics.tree.ids[at[np.argmin(masses[at])]])
        tree = tree.remove(lightest)
    at = topics.tree.positions(tree.ids)
    return TopicTree(tree, topics.word_counts[at], masses[at])


def choose_start(
    posterior: Posterior,
    X: sp.csr_array,
    visitor: PathVisitor,
    *,
    init: str | TopicTree,
    n_leaves: int | None,
    moves: TreeMoves | None,
) -> None:
    """Let a posterior begin with the best topics that some documents suggest."""
    n_docs, model = X.shape[0], posterior.model
    if n_docs == 0:
        return
    rng = stream(posterior.entropy, Purpose.START)
    if n_docs > MOST_DOCS:
        X = X[np.sort(rng.choice(n_docs, MOST_DOCS, replace=False))]
    found = [init] if isinstance(init, TopicTree) else []
    if init in ("auto", "agglomerative"):
        n_leaves = min(n_leaves or _usual_leaves(X.shape[0]), X.shape[0])
        label = kmeans(X, n_leaves, rng)
        trees = by_clusters(X, label, model, visitor, GROUPS)
        found += _promising(list(trees), posterior, X, visitor, moves)
    if init in ("auto", "gibbs"):
        rate = TOKEN_VISITS / max(X.sum(), 1.0)
        n_sweeps = int(np.clip(rate, LEAST_SWEEPS, MOST_SWEEPS))
        found.append(by_gibbs(X, model.priors, n_sweeps, rng))
    if init == "sequential":
        found.append(one_by_one(X, model, visitor, rng))
    topics = found[0]
    if len(found) > 1 or (init == "agglomerative" and moves is not None):
        rivals = [_improved(one, posterior, X, visitor, moves) for one in found]
        best = max(rivals, key=_bound)
        if moves is not None:
            best = _regrouped(best, X, visitor, moves)
        topics = best.posterior.state
    if not isinstance(init, TopicTree):
        scale = n_docs / X.shape[0]
        words, masses = scale * topics.word_counts, scale * topics.stub_masses
        topics = TopicTree(topics.tree, words, masses)
    start = start_posterior(model, topics, posterior.entropy, posterior.max_components)
    posterior.state, posterior.totals = start.state, start.totals
    posterior.ids, posterior.lineage = start.ids, start.lineage


def _usual_leaves(n_docs: int) -> int:
    return int(max(2, min(4.0 * np.sqrt(n_docs / 2.0), n_docs / 10.0)))


def _promising(
    trees: list[TopicTree],
    posterior: Posterior,
    X: sp.csr_array,
    visitor: PathVisitor,
    moves: TreeMoves | None,
) -> list[TopicTree]:
    """The best tree as it stands, and the one that leaves moves the most to merge."""
    rivals = [_improved(tree, posterior, X, visitor, None) for tree in trees]
    best = int(np.argmax([_bound(rival) for rival in rivals]))
    chosen = {best} if moves is None else {best, len(trees) - 1}
    return [rivals[place].posterior.state for place in sorted(chosen)]


def _regrouped(
    best: TreeLearner, X: sp.csr_array, visitor: PathVisitor, moves: TreeMoves
) -> TreeLearner:
    """Group the leaves of a tree afresh, as long as that makes it better.

    Moves change one group at a time, whose words remember the old one for long.
    """
    while True:
        ends = np.concatenate([memo.best for memo in best.corpus.memos])
        label = np.unique(ends, return_inverse=True)[1]
        trees = by_clusters(X, label, best.posterior.model, visitor, GROUPS)
        rivals = [_improved(one, best.posterior, X, visitor, None) for one in trees]
        topics = max(rivals, key=_bound).posterior.state
        rival = _improved(topics, best.posterior, X, visitor, moves)
        if _bound(rival) < _bound(best) + LEAST_GAIN:
            return best
        best = rival


def _improved(
    topics: TopicTree,
    posterior: Posterior,
    X: sp.csr_array,
    visitor: PathVisitor,
    moves: TreeMoves | None,
) -> TreeLearner:
    """Let a start learn for some passes, or until it has settled."""
    rival = start_posterior(
        posterior.model, topics, posterior.entropy, posterior.max_components
    )
    learner = TreeLearner(rival, TreeCorpus(X), visitor, memoized=False, moves=moves)
    monitor = Monitor(new_history())
    before = -np.inf
    for _ in range(N_PASSES):
        is_quiet, bound = learner.one_pass(monitor), _bound(learner)
        if is_quiet and bound - before < LEAST_RISE * abs(bound):
            break
        before = bound
    return learner


def _bound(learner: TreeLearner) -> float:
    posterior = learner.posterior
    return posterior.model.collapsed_bound(posterior.state.tree, posterior.totals)
