"""Choice of the start of a nested CRP: each learns for some passes, a bound decides."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.executor import commit
from skbnp.inference.monitor import SILENT, Reporter, discarding
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import NO_MOVES
from skbnp.inference.trials import LEAST_GAIN, bound_of
from skbnp.models.nested_crp.memory import PathCache, PathLocalStep, TreeCorpus
from skbnp.models.nested_crp.model import NestedModel, PathStats, TopicTree
from skbnp.models.nested_crp.moves.structure import TreeEdits
from skbnp.models.nested_crp.start import by_clusters, by_gibbs, one_by_one
from skbnp.models.nested_crp_walks.model import NestedPriors
from skbnp.models.nested_crp_walks.start import usual_leaves
from skbnp.trees import Tree
from skbnp.utils.clusters import kmeans
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.typing import Ints

#: Passes after which starts are compared, if they rise by so much, relatively.
N_PASSES, LEAST_RISE = 20, 1e-5
#: Documents that a start is made from, at most.
MOST_DOCS = 1500
#: Groups of clusters that are compared.
GROUPS = [2, 3, 4, 5, 6, 7, 8]


@dataclass(frozen=True, slots=True)
class Run:
    """Result of a start after some passes of learning."""

    bound: float  # collapsed
    posterior: Posterior
    ends: Ints  # id of the node where each document ends


def start_posterior(
    model: NestedModel, topics: TopicTree, seed_entropy: int, max_nodes: float = np.inf
) -> Posterior:
    """Return a posterior of given topics, with at most `max_nodes` nodes."""
    stats = PathStats.of_topics(topics, model.priors.n_levels)
    old, kept = topics.tree, _lightened(topics, max_nodes)
    tree = Tree(np.arange(len(kept)), kept.depth)
    stats = stats.reindex_to(old, kept)
    return Posterior(
        model,
        stats.globals_on(tree),
        stats,
        tree.ids,
        [Lineage(0, "init", (), tuple(tree.ids.tolist()))],
        seed_entropy=seed_entropy,
        max_components=max_nodes,
    )


def _lightened(topics: TopicTree, max_nodes: float) -> Tree:
    """Remove the lightest leaves of topics until at most `max_nodes` nodes are left."""
    tree, masses = topics.tree, topics.stub_masses
    while len(tree) > max_nodes:
        at = topics.tree.positions(tree.ids[tree.leaves])
        lightest = int(topics.tree.ids[at[np.argmin(masses[at])]])
        tree = tree.remove(lightest)
    return tree


def choose_start(
    posterior: Posterior,
    X: sp.csr_array,
    local_step: PathLocalStep,
    *,
    init: str | TopicTree,
    n_leaves: int | None,
    moves: TreeMoves | None,
    keep_best: bool,
    reporter: Reporter = SILENT,
) -> None:
    """Set the globals in place to the start of the best bound on some documents.

    With `keep_best`, an interrupt leaves the best start so far.
    """
    n_docs = X.shape[0]
    if n_docs == 0:
        return
    if isinstance(init, TopicTree):
        _begin_with(posterior, init, 1.0)
        return
    rng = stream(posterior.seed_entropy, Purpose.START)
    X = X[some_rows(np.arange(X.shape[0]), rng, MOST_DOCS)]
    race, scale = Race(posterior, X, local_step, reporter), n_docs / X.shape[0]
    reporter.report(f"start: compares trees of {X.shape[0]} of {n_docs} documents")
    try:
        topics = race.start_topics(init, n_leaves, moves, rng)
    except BaseException:
        if keep_best and race.best is not None:  # an unfinished start
            best = race.best.posterior
            stats = best.global_stats.times(scale)
            with commit():
                posterior.replace_globals(stats.globals_on(best.state.tree), stats)
                posterior.n_steps, posterior.lineage = best.n_steps, best.lineage
        raise
    _begin_with(posterior, topics, scale)


def _begin_with(posterior: Posterior, topics: TopicTree, scale: float) -> None:
    """Replace globals, ids and lineage in place by topics times `scale`."""
    words, masses = scale * topics.word_counts, scale * topics.stub_masses
    topics, limit = TopicTree(topics.tree, words, masses), posterior.max_components
    start = start_posterior(posterior.model, topics, posterior.seed_entropy, limit)
    with commit():
        posterior.replace_globals(start.state, start.global_stats)
        posterior.lineage = start.lineage


@dataclass(slots=True)
class Race:
    """Starts that learn for some passes from the same documents, and the best."""

    posterior: Posterior
    X: sp.csr_array
    local_step: PathLocalStep
    reporter: Reporter = SILENT
    best: Run | None = None

    def enter(self, topics: TopicTree, moves: TreeMoves | None) -> Run:
        """Learn from given topics until convergence, for at most some passes."""
        given, corpus = self.posterior, TreeCorpus(self.X)
        own = start_posterior(
            given.model, topics, given.seed_entropy, given.max_components
        )
        schedule, cache = corpus.schedule(), PathCache(corpus)
        edits = NO_MOVES if moves is None else TreeEdits(moves)
        learner = Learner(own, corpus, schedule, self.local_step, cache, edits)
        monitor, before = discarding(), -np.inf
        for n_passes in range(N_PASSES):
            n_nodes = len(own.state.tree)
            self.reporter.remind(f"start: {n_nodes} nodes after {n_passes} passes")
            is_quiet = learner.one_pass(monitor)
            bound = bound_of(own)
            if is_quiet and bound - before < LEAST_RISE * abs(bound):
                break
            before = bound
        ends = np.concatenate([memo.best for memo in corpus.memos])
        run = Run(bound, own, ends)
        if self.best is None or run.bound > self.best.bound:
            self.best = run
        self.reporter.report(
            f"start: {len(own.state.tree)} nodes, collapsed bound {run.bound:.1f}, "
            f"best {self.best.bound:.1f}"
        )
        return run

    def groupings(self, label: NDArray) -> tuple[Run, Run]:
        """Enter clusters of documents, grouped in several ways, without moves.

        Returns the run with the best bound, and that with the most nodes.
        """
        trees = by_clusters(
            self.X, label, self.posterior.model, self.local_step, GROUPS
        )
        last = best = self.enter(next(trees), None)
        for topics in trees:
            last = self.enter(topics, None)
            if last.bound > best.bound:
                best = last
        return best, last

    def start_topics(
        self, init: str, n_leaves: int | None, moves: TreeMoves | None, rng: Generator
    ) -> TopicTree:
        """Return the best topics among the starts that `init` names."""
        X, model = self.X, self.posterior.model
        if init == "sequential":
            return one_by_one(X, model, self.local_step, rng, reporter=self.reporter)
        if init in ("auto", "gibbs"):
            learned = NestedPriors(
                model.learn_concentration,
                model.learn_topic_prior,
                model.concentration,
                model.topic,
                learn_level_prior=model.learn_concentration,
            )
            topics, priors = by_gibbs(X, model.priors, learned, rng, self.reporter)
            if model.learn_concentration:
                priors = replace(priors, seen=model.priors.seen)
                self.posterior.model = replace(model, priors=priors)
            return topics
        n_leaves = min(n_leaves or usual_leaves(X.shape[0]), X.shape[0])
        best, last = self.groupings(kmeans(X, n_leaves, rng))
        if moves is None:
            return best.posterior.state
        starts = [best] if last is best else [best, last]  # which leaves most to merge
        runs = (self.enter(one.posterior.state, moves) for one in starts)
        best = max(runs, key=lambda run: run.bound)
        return self._regrouped(best, moves).posterior.state

    def _regrouped(self, best: Run, moves: TreeMoves) -> Run:
        """Group the leaves of a tree anew as long as the bound rises.

        Moves change one group at a time, whose topics keep words of the old one.
        """
        while True:
            result, _ = self.groupings(np.unique(best.ends, return_inverse=True)[1])
            candidate = self.enter(result.posterior.state, moves)
            if candidate.bound < best.bound + LEAST_GAIN:
                return best
            best = candidate
