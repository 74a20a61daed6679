"""Starts of a nested CRP: a sampler, or documents one by one."""

from dataclasses import replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.tree_sticks import LevelPriors
from skbnp.inference.executor import commit
from skbnp.inference.monitor import SILENT, Reporter
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.models.nested_crp import model as trees
from skbnp.models.nested_crp.local import PathLocalStep, update_paths
from skbnp.models.nested_crp.model import NestedModel, PathStats, TopicTree
from skbnp.models.nested_crp_walks import NestedPriors, start_walks
from skbnp.rows.batch import Tokens
from skbnp.trees import Tree
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.typing import Ints

#: Documents that a start is made from, at most.
MOST_DOCS = 1500
#: Tokens that the sampler visits; of larger corpora, a part of each count.
MOST_TOKENS = 5e5
#: Sweeps of the sampler from its start.
N_SWEEPS = 200


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
    init: Literal["gibbs", "sequential"] | TopicTree,
    reporter: Reporter = SILENT,
) -> None:
    """Set the globals in place to given topics, or to a tree of some documents."""
    n_docs = X.shape[0]
    if n_docs == 0:
        return
    if isinstance(init, TopicTree):
        _begin_with(posterior, init, 1.0)
        return
    rng, model = stream(posterior.seed_entropy, Purpose.START), posterior.model
    X = X[some_rows(np.arange(n_docs), rng, MOST_DOCS)]
    reporter.report(f"start: learns a tree of {X.shape[0]} of {n_docs} documents")
    if init == "sequential":
        topics = one_by_one(X, model, local_step, rng, reporter)
    else:
        learned = NestedPriors(
            model.learn_concentration,
            model.learn_topic_prior,
            model.concentration,
            model.topic,
            learn_level_prior=model.learn_concentration,
        )
        topics, priors = by_gibbs(X, model.priors, learned, rng, reporter)
        if model.learn_concentration:
            priors = replace(priors, seen=model.priors.seen)
            posterior.model = replace(model, priors=priors)
    _begin_with(posterior, topics, n_docs / X.shape[0])


def _begin_with(posterior: Posterior, topics: TopicTree, scale: float) -> None:
    """Replace globals, ids and lineage in place by topics times `scale`."""
    words, masses = scale * topics.word_counts, scale * topics.stub_masses
    topics, limit = TopicTree(topics.tree, words, masses), posterior.max_components
    start = start_posterior(posterior.model, topics, posterior.seed_entropy, limit)
    with commit():
        posterior.replace_globals(start.state, start.global_stats)
        posterior.lineage = start.lineage


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
    n_levels, given = priors.n_levels, trees.path_globals(topics, priors)
    result = update_paths(given, x, local_step.stop, local_step.executor)
    full = given.stub_nodes[result.stubs][:, -1] >= 0
    best, score = -1, -np.inf
    if full.any():
        with np.errstate(divide="ignore"):
            scores = np.where(full, result.bounds[0] + np.log(result.shares), -np.inf)
        best, score = int(np.argmax(scores)), float(scores.max())
    opened = trees.score_branches(given, given.log_topics(x.indices), x.data)
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
    return trees.update_globals(grown, stats)[0]
