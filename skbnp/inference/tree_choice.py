"""Which start of a topic tree is best: each learns for a while, a bound decides."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.edits import Lineage
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.moves.tree_moves import TreeMoves
from skbnp.inference.posterior import Posterior
from skbnp.inference.tree_corpus import PathVisitor, TreeCorpus, some_rows
from skbnp.inference.tree_learning import LEAST_GAIN, TreeLearner
from skbnp.inference.tree_starts import by_clusters, by_gibbs, one_by_one
from skbnp.models.ncrp_topics import NestedModel, PathStats, TopicTree
from skbnp.trees import Tree
from skbnp.utils.clusters import kmeans
from skbnp.utils.random import Purpose, stream

__all__ = ["Race", "choose_start", "collapsed_bound_of", "start_posterior"]

#: Passes after which starts are compared, if they rise by so much, relatively.
N_PASSES, LEAST_RISE = 20, 1e-5
#: Documents that a start is made from, at the most.
MOST_DOCS = 1500
#: Groups of clusters that are compared.
GROUPS = [2, 3, 4, 5, 6, 7, 8]
#: Sweeps of the sampler: at least, at most, and tokens to visit in between.
LEAST_SWEEPS, MOST_SWEEPS, TOKEN_VISITS = 200, 2000, 1e8


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
    """Let a posterior begin with the best topics that some documents suggest.

    An interrupt leaves the best so far.
    """
    n_docs = X.shape[0]
    if n_docs == 0:
        return
    if isinstance(init, TopicTree):
        _begin_with(posterior, init, 1.0)
        return
    rng = stream(posterior.entropy, Purpose.START)
    X = some_rows(X, MOST_DOCS, rng)
    race, scale = Race(posterior, X, visitor), n_docs / X.shape[0]
    try:
        topics = _found(race, init, n_leaves, moves, rng)
    except BaseException:
        if race.learners:
            best = max(race.learners, key=collapsed_bound_of)
            _begin_with(posterior, best.posterior.state, scale)
        raise
    _begin_with(posterior, topics, scale)


def _begin_with(posterior: Posterior, topics: TopicTree, scale: float) -> None:
    words, masses = scale * topics.word_counts, scale * topics.stub_masses
    topics, limit = TopicTree(topics.tree, words, masses), posterior.max_components
    start = start_posterior(posterior.model, topics, posterior.entropy, limit)
    with commit():
        posterior.state, posterior.totals = start.state, start.totals
        posterior.ids, posterior.lineage = start.ids, start.lineage


def collapsed_bound_of(learner: TreeLearner) -> float:
    """Collapsed bound of what a learner has reached."""
    posterior = learner.posterior
    return posterior.model.collapsed_bound(posterior.state.tree, posterior.totals)


class Race:
    """Starts that have learned for a while from the same documents."""

    def __init__(self, posterior: Posterior, X: sp.csr_array, visitor: PathVisitor):
        self.posterior, self.X, self.visitor = posterior, X, visitor
        self.learners: list[TreeLearner] = []

    def enter(self, topics: TopicTree, moves: TreeMoves | None) -> TreeLearner:
        """Let topics learn until they have settled, or for some passes."""
        given, corpus = self.posterior, TreeCorpus(self.X)
        own = start_posterior(given.model, topics, given.entropy, given.max_components)
        learner = TreeLearner(own, corpus, self.visitor, memoized=False, moves=moves)
        monitor, before = Monitor(new_history()), -np.inf
        for _ in range(N_PASSES):
            is_quiet, bound = learner.one_pass(monitor), collapsed_bound_of(learner)
            if is_quiet and bound - before < LEAST_RISE * abs(bound):
                break
            before = bound
        self.learners.append(learner)
        return learner

    def groupings(self, label: NDArray) -> list[TreeLearner]:
        """Enter clusters of documents, grouped in several ways, without moves."""
        trees = by_clusters(self.X, label, self.posterior.model, self.visitor, GROUPS)
        return [self.enter(topics, None) for topics in trees]


def _found(
    race: Race,
    init: str,
    n_leaves: int | None,
    moves: TreeMoves | None,
    rng: np.random.Generator,
) -> TopicTree:
    X, model, found = race.X, race.posterior.model, []
    if init == "sequential":
        return one_by_one(X, model, race.visitor, rng)
    if init in ("auto", "agglomerative"):
        n_leaves = min(n_leaves or _usual_leaves(X.shape[0]), X.shape[0])
        found += _promising(race.groupings(kmeans(X, n_leaves, rng)), moves)
    if init in ("auto", "gibbs"):
        rate = TOKEN_VISITS / max(X.sum(), 1.0)
        n_sweeps = int(np.clip(rate, LEAST_SWEEPS, MOST_SWEEPS))
        found.append(by_gibbs(X, model.priors, n_sweeps, rng))
    if init == "gibbs" or (init == "agglomerative" and moves is None):
        return found[0]
    best = max((race.enter(one, moves) for one in found), key=collapsed_bound_of)
    if moves is not None:
        best = _regrouped(best, race, moves)
    return best.posterior.state


def _usual_leaves(n_docs: int) -> int:
    return int(max(2, min(4.0 * np.sqrt(n_docs / 2.0), n_docs / 10.0)))


def _promising(learners: list[TreeLearner], moves: TreeMoves | None) -> list[TopicTree]:
    """The best tree as it stands, and the one that leaves moves the most to merge."""
    best = int(np.argmax([collapsed_bound_of(learner) for learner in learners]))
    chosen = {best} if moves is None else {best, len(learners) - 1}
    return [learners[place].posterior.state for place in sorted(chosen)]


def _regrouped(best: TreeLearner, race: Race, moves: TreeMoves) -> TreeLearner:
    """Group the leaves of a tree afresh, as long as that makes it better.

    Moves change one group at a time, whose words remember the old one for long.
    """
    while True:
        ends = np.concatenate([memo.best for memo in best.corpus.memos])
        label = np.unique(ends, return_inverse=True)[1]
        found = max(race.groupings(label), key=collapsed_bound_of)
        rival = race.enter(found.posterior.state, moves)
        if collapsed_bound_of(rival) < collapsed_bound_of(best) + LEAST_GAIN:
            return best
        best = rival
