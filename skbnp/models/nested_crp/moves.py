"""Moves of the topic tree of a nested CRP, judged by the collapsed bound of the corpus.

The totals contain each document once, with the paths of its last local step. A move
runs the local step under the edited tree for the documents that it touches; all others
keep their paths. The edit is accepted if the collapsed bound of the corpus rises.

Moves of a topic tree that learns online, judged by the documents available.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_sticks import TreeMoves
from skbnp.inference import trials
from skbnp.inference.engine import Learner, RunningAverage
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Corpus, CountingMoves
from skbnp.inference.trials import NO_MERGES, Ids, Kind, Proposal
from skbnp.models.nested_crp import local, model
from skbnp.models.nested_crp.local import DocPaths, Rows
from skbnp.models.nested_crp.model import PathStats, TopicTree
from skbnp.trees import Tree
from skbnp.utils.matching import kmeans, ward_cuts
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.typing import Array, Ints

# Proposals to change the topic tree of a nested CRP, the most promising first.
#
# Each kind lists candidates as tuples of ids, by which rejected ones are recorded, and
# makes a proposal of a candidate, whose first node is still there, or None.


#: Cosine of the shares of two paths above which the paper merges them, and sum of the
#: shares of a path below which it ends it.
SIMILAR, LEAST_SHARES = 0.95, 1e-6
#: Pairs of siblings whose merge is weighed.
MOST_PAIRS = 200
#: Documents per node that the paper's growth opens, and most nodes relative to those
#: there are.
DOCS_PER_GROWTH, MOST_GROWTH = 100, 0.25
#: A topic starts with a third of the words of its documents, weighed by how much more
#: frequent they are than above, at most that many times.
SHARE, MOST_EXCESS = 1.0 / 3.0, 5.0
#: Share of a new topic that is spread like the words above.
BROAD = 0.2


@dataclass(frozen=True, slots=True)
class Context(trials.Context):
    """What proposals read: the posterior, its documents and their paths."""

    corpus: local.TreeCorpus

    def edited(
        self, tree: Tree, merged_into: Mapping[int, int] = NO_MERGES
    ) -> TopicTree:
        """Return the topics re-indexed to an edited tree; new nodes have zeros."""
        return self.posterior.global_stats.reindex_to(
            self.tree, tree, merged_into
        ).globals_on(tree)

    def touching(self, ids: Ints) -> Rows:
        """Documents with a share in any of some stubs, by part."""
        return self.corpus.touching(ids)

    def words_below(self, node: int) -> Array:
        """Word counts of the documents with a share of a node, (n_words,)."""
        return self.corpus.words(self.below(node))


def kinds_of(moves: TreeMoves) -> list[Kind]:
    """The kinds of moves of the nested CRP that settings ask for, in their order."""
    if moves.algorithm == "paper":
        return [
            Kind("prune", _list_empty_leaves, trials.propose_prune, ignores_bound=True),
            Kind("merge", _list_similar_leaves, _merge_paths, ignores_bound=True),
            Kind("grow", _draw_growth_nodes, _propose_growth, ignores_bound=True),
        ]
    kinds = [
        Kind("prune", trials.list_leaves, trials.propose_prune),
        Kind("merge", _list_siblings, trials.propose_merge),
    ]
    if moves.reattach:
        kinds.append(Kind("reattach", _list_attachments, trials.propose_attachment))
    if moves.split:
        kinds += [
            Kind("split", _list_divisible_nodes, _propose_split, grows=True),
            Kind("split_leaf", _list_divisible_leaves, _propose_leaf_split, grows=True),
            Kind("branch", trials.list_inner_nodes, _propose_branch, grows=True),
        ]
    return kinds


# Fewer nodes --------------------------------------------------------------------------


def _list_empty_leaves(context: Context) -> list[Ids]:
    """Candidates to prune: leaves in which no document has a notable share."""
    least = LEAST_SHARES * context.corpus.scale
    return [(leaf,) for leaf in trials.idle_leaves(context.posterior, least)]


def _list_siblings(context: Context) -> list[Ids]:
    """Candidates to merge: siblings, by the gain of their topics."""
    tree, words = context.tree, context.posterior.global_stats.word_counts
    priors = context.posterior.model.priors
    eta, n_unseen = priors.topic_prior[tree.depth], priors.n_unseen
    alone = model.log_topic_evidence(words, eta, n_unseen)
    proposals: list[tuple[float, int, int]] = []
    for parent in range(len(tree)):
        siblings = np.flatnonzero(tree.parent == parent)
        one, other = siblings[_pair_similar_rows(words[siblings])].T
        gains = model.log_topic_evidence(words[one] + words[other], eta[one], n_unseen)
        gains -= alone[one] + alone[other]
        names = tree.ids[one].tolist(), tree.ids[other].tolist()
        proposals += zip((-gains).tolist(), *names, strict=True)
    return [(one, other) for _, one, other in sorted(proposals)]


def _pair_similar_rows(words: Array) -> Ints:
    """Pairs of rows (n_pairs, 2): all, or those of the largest cosines if many."""
    pairs = np.column_stack(np.triu_indices(len(words), 1))
    if len(pairs) <= MOST_PAIRS:
        return pairs
    rows = words / np.maximum(np.linalg.norm(words, axis=1, keepdims=True), 1e-300)
    cosines = (rows @ rows.T)[pairs[:, 0], pairs[:, 1]]
    return pairs[np.sort(np.argsort(-cosines, kind="stable")[:MOST_PAIRS])]


def _list_similar_leaves(context: Context) -> list[Ids]:
    """Candidates to merge: leaves of equal depth that share their documents."""
    tree, shares = context.tree, context.corpus.shares(context.tree)
    leaves = tree.leaves[tree.leaves > 0]
    products = (shares.T @ shares).toarray()[np.ix_(leaves, leaves)]
    lengths = np.sqrt(np.maximum(np.diag(products), 1e-300))
    cosines = products / lengths / lengths[:, None]
    depth = tree.depth[leaves]
    pairs = np.argwhere(np.triu(cosines > SIMILAR, 1) & (depth == depth[:, None]))
    return [tuple(tree.ids[leaves[pair]].tolist()) for pair in pairs]


def _merge_paths(context: Context, target: int, source: int) -> Proposal | None:
    """Propose to merge the path of a leaf into another path of the tree."""
    tree = context.tree
    if target not in tree or source not in tree:
        return None
    new = tree.remove_upwards(source)
    pairs = zip(
        tree.path_to(target).tolist(), tree.path_to(source).tolist(), strict=True
    )
    ended = [(stays, ends) for stays, ends in pairs if ends not in new][::-1]
    merged_into = {ends: stays for stays, ends in ended}
    touched = [node for pair in ended for node in pair]
    stays = [stays for stays, _ in ended]
    return context.propose("merge", touched, stays, new, touched, merged_into)


# Other parents ------------------------------------------------------------------------


def _list_attachments(context: Context) -> list[Ids]:
    """Candidates to move: nodes and new parents, by the cost of their words there."""
    tree, posterior = context.tree, context.posterior
    given = model.path_globals(posterior.state, posterior.model.priors)

    def fits(place: int, parents: Ints) -> Array:
        """Mean log probability of the words below a node in topics of a level above."""
        counts = context.words_below(int(tree.ids[place]))
        words = np.flatnonzero(counts)
        logs = counts[words] @ given.log_topics(words)[:, parents]
        return logs / max(counts.sum(), 1.0)

    return trials.list_attachments(context, fits)


# More nodes ---------------------------------------------------------------------------


def _list_divisible_nodes(context: Context) -> list[Ids]:
    """Candidates to split: inner nodes with several children."""
    tree = context.tree
    n_children = np.bincount(tree.parent[1:], minlength=len(tree))
    inner = np.flatnonzero((tree.depth > 0) & (n_children > 1))
    return context.at_random(inner, tree.accumulate(context.masses))


def _propose_split(context: Context, node: int) -> Proposal | None:
    """Propose to split an inner node: cluster its children by their words."""
    tree = context.tree
    children = tree.children_of(node)
    words = np.array([context.words_below(int(child)) for child in children])
    used = words.sum(axis=1) > 0 if len(words) else np.zeros(0, bool)
    if used.sum() < 2:
        return None
    children, words = children[used], words[used]
    stays = ward_cuts(words, [2])[:, 0] == 0
    moved = children[~stays].tolist()
    return _propose_parts(context, node, moved, words[stays], words[~stays])


def _propose_parts(
    context: Context, node: int, moved: list[int], stays: Array, goes: Array
) -> Proposal:
    """Propose that a node and a new sibling, with children `moved`, share documents."""
    tree, fresh = context.tree, context.tree.next_id
    parent = tree.parent_of(node)
    assert parent is not None
    new = tree.add(parent)
    for child in moved:
        new = new.move(child, fresh)
    topics, above = context.edited(new), context.words_below(parent)
    for name, words in ((node, stays), (fresh, goes)):
        (at,) = new.positions([name])
        topics.word_counts[at] = context.corpus.scale * _blend_with_parent(
            words.sum(axis=0), above
        )
    rows = context.below(node)
    both = (node, fresh)
    return Proposal(topics, rows, kind="split", parents=(node,), children=both)


def excess(counts: Array, above: Array) -> Array:
    """Words that a node's topic starts with, given those of documents and parent."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (counts / counts.sum()) / (above / above.sum())
    return SHARE * counts * np.minimum(np.nan_to_num(ratio), MOST_EXCESS)


def _blend_with_parent(words: Array, above: Array) -> Array:
    """Start words of a topic: excess over its parent, zeros filled by the parent's."""
    own = excess(words, above)
    return (1.0 - BROAD) * own + BROAD * own.sum() * above / above.sum()


def _list_divisible_leaves(context: Context) -> list[Ids]:
    """Candidates to split: leaves with several documents."""
    tree = context.tree
    leaves = tree.leaves[(tree.leaves > 0) & (context.masses[tree.leaves] > 2.0)]
    return context.at_random(leaves, context.masses)


def _propose_leaf_split(context: Context, node: int) -> Proposal | None:
    """Propose to split a leaf: cluster its documents by their words."""
    tree = context.tree
    if len(tree.children_of(node)):
        return None
    X, _ = context.corpus.take(context.below(node))
    if X.shape[0] < 3:
        return None
    side = kmeans(X, 2, context.rng)
    if not side.any():
        return None
    parts = [X[side == k].sum(axis=0)[None] for k in (0, 1)]
    proposal = _propose_parts(context, node, [], *parts)
    topics = proposal.state
    at = topics.tree.positions([node, tree.next_id])
    topics.stub_masses[at] = context.masses[tree.positions(node)] * np.bincount(side)
    topics.stub_masses[at] /= len(side)
    return proposal


def _propose_branch(context: Context, node: int) -> Proposal | None:
    """Propose a branch below a node, for the smaller cluster of its documents."""
    rows = context.below(node)
    X, _ = context.corpus.take(rows)
    if X.shape[0] < 3:
        return None
    side = kmeans(X, 2, context.rng)
    if not side.any():
        return None
    mine = X[side == np.argmin(np.bincount(side))]
    topics, fresh = _add_branch(context, node)
    at, scale = topics.tree.positions(fresh), context.corpus.scale
    words = scale * _blend_with_parent(mine.sum(axis=0), context.words_below(node))
    topics.word_counts[at] = words / len(at)
    topics.stub_masses[at[-1]] = scale * mine.shape[0]
    children = (node, *fresh.tolist())
    return Proposal(topics, rows, kind="birth", parents=(node,), children=children)


def _add_branch(context: Context, node: int) -> tuple[TopicTree, Ints]:
    """Return the topics with an empty branch below a node, and its ids."""
    tree, n_levels = context.tree, context.n_levels
    new = tree.add(node, depth=n_levels - 1)
    return context.edited(new), np.arange(tree.next_id, new.next_id)


def _draw_growth_nodes(context: Context) -> list[Ids]:
    """Candidates to grow: inner stubs that single documents draw, and one of all."""
    tree, n_levels = context.tree, context.n_levels
    n_docs = context.corpus.n_docs
    most = min(-(-n_docs // DOCS_PER_GROWTH), int(MOST_GROWTH * len(tree)) + 1)
    shares = context.corpus.shares(tree).tocsr()
    candidates: list[Ids] = []
    for doc in context.rng.choice(n_docs, min(most, n_docs), replace=False):
        own = shares[[doc]]
        until = own.data.cumsum()
        at = np.searchsorted(until, until[-1] * context.rng.random(), side="right")
        place = own.indices[at]
        if tree.depth[place] < n_levels - 1:
            candidates.append((int(tree.ids[place]),))
    inner = np.flatnonzero((tree.depth < n_levels - 1) & (context.masses > 0.0))
    if len(inner):
        weights = context.masses[inner] / context.masses[inner].sum()
        candidates.append((int(tree.ids[context.rng.choice(inner, p=weights)]),))
    return candidates


def _propose_growth(context: Context, node: int) -> Proposal:
    """Propose a branch of topics as the prior of the nested CRP draws it.

    It takes its expected share of the documents that leave the tree there, so that the
    bound does not fall: 1 - exp E log(1 - v) of those that remain, at each level.
    """
    topics, fresh = _add_branch(context, node)
    goes = -np.expm1(-1.0 / context.posterior.model.priors.concentration)
    shares = goes ** np.arange(len(fresh) + 1)
    shares[:-1] -= shares[1:]
    mass = context.masses[context.tree.positions(node)]
    topics.stub_masses[topics.tree.positions([node, *fresh])] = mass * shares
    rows = context.corpus.touching(np.array([node]))
    children = (node, *fresh.tolist())
    return Proposal(topics, rows, kind="birth", parents=(node,), children=children)


TreeLearner = Learner[Posterior, local.TreeCorpus, local.PathLocalStep, local.PathCache]

#: Accepted moves of other kinds after which a tree does not grow, too.
SHRINKING = 5
#: Documents below which a leaf that has stayed may end at once.
LEAST_MASS = 0.1
#: The same in the end, and nats that this may cost then.
TIDY_MASS, TIDY_COST = 0.5, 1.0


class TreeEdits(trials.EditMoves):
    """Moves of a nested CRP after each pass, judged by the collapsed bound.

    With `ends_idle`, leaves with hardly a document are removed after passes without
    moves.
    """

    ends_idle: bool

    def __init__(self, moves: TreeMoves, *, ends_idle: bool = False):
        super().__init__(moves)
        self.ends_idle = ends_idle and moves.algorithm == "default"

    def end_pass(self, learner: TreeLearner, monitor: Monitor) -> bool:
        """Try moves; return whether none was accepted, so the fit may converge."""
        posterior = learner.posterior
        rng = stream(posterior.seed_entropy, Purpose.MOVE, posterior.n_steps)
        context = Context(posterior, rng, learner.corpus)
        n_accepted = self._try_kinds(learner, context, monitor)
        if n_accepted == 0 and self.ends_idle:
            n_accepted = self._end_idle(learner, context)
        self._present = None  # frees its statistics
        if n_accepted:
            with commit():
                monitor.record(posterior)
        return n_accepted == 0

    def _try_kinds(
        self, learner: TreeLearner, context: Context, monitor: Monitor
    ) -> int:
        """Try moves of each kind; return the number of accepted ones."""
        for leaf in trials.idle_leaves(learner.posterior, LEAST_MASS):
            for key in (("prune",), ("prune", leaf)):
                self.rejections.forget(key)
        n_accepted = 0
        for kind in kinds_of(self.moves):
            if kind.grows and n_accepted >= SHRINKING:
                continue  # there are too many nodes as it is
            n_made = self.try_kind(learner, kind, context, monitor)
            n_accepted += n_made * (not (kind.ignores_bound and kind.name == "grow"))
        return n_accepted

    def try_kind(
        self, learner: Learner, kind: trials.Kind, context: Context, monitor: Monitor
    ) -> int:
        """Try the candidates of a kind; it waits if all of them are rejected.

        Once a tree has converged, trials at each pass would take ten times its time.
        """
        key, now = (kind.name,), learner.n_passes
        if not self.rejections.is_over(key, now):
            return 0
        n_accepted = super().try_kind(learner, kind, context, monitor)
        if n_accepted:
            self.rejections.forget(key)
        elif not kind.ignores_bound:
            self.rejections.add(key, now)
        return n_accepted

    def _end_idle(self, learner: TreeLearner, context: Context) -> int:
        """Remove leaves of less than half a document; return their number."""
        n_ended = 0
        for leaf in trials.idle_leaves(learner.posterior, TIDY_MASS):
            proposal = trials.propose_prune(context, leaf)
            if proposal is not None:
                n_ended += self.attempt(learner, proposal, least=-TIDY_COST)
        return n_ended

    def attempt(
        self, learner: TreeLearner, proposal: trials.Proposal, **settings: Any
    ) -> bool:
        """Try a proposal, unless it touches no document that could judge it."""
        is_judged = learner.cache.others is None or any(map(len, proposal.rows))
        return is_judged and super().attempt(learner, proposal, **settings)

    def least_gain(self, learner: TreeLearner, new: Tree) -> float:
        """Nats by which the bound must rise for a tree in the place of the present."""
        n_more = len(new) - len(learner.posterior.state.tree)
        if n_more < 0 or (n_more == 0 and learner.cache.others is None):
            return -trials.ROUNDING * abs(self.bound(learner.posterior))
        return trials.LEAST_GAIN

    def prepare(
        self, learner: TreeLearner, proposal: trials.Proposal
    ) -> tuple[PathStats, trials.LocalUpdate]:
        """Statistics of documents that a move does not touch; the step of others."""
        posterior, corpus = learner.posterior, learner.corpus
        priors, local_step = posterior.model.priors, learner.local_step
        X, paths = corpus.take(proposal.rows)
        old_stats = corpus.sum_part(paths, X, posterior.state.tree, priors.n_levels)

        def update(
            topics: TopicTree, last: PathStats | None, memo: DocPaths, rest: PathStats
        ) -> trials.Result:
            # Documents that a node has lost may go anywhere, others to what changes.
            is_first, tree, open_to = last is None, topics.tree, None
            if proposal.children or not is_first:
                below = map(tree.subtree_of, proposal.children)
                open_to = np.concatenate([tree.ids[:0], *below])
            memo = paths if is_first else memo
            memo = local_step.update_paths(topics, priors, X, memo, open_to)
            stats = corpus.sum_part(memo, X, tree, priors.n_levels).plus(rest)
            return *model.update_globals(tree, stats), memo

        return posterior.global_stats.plus(old_stats, -1.0).clipped(), update


#: The tree changes by so many documents at least, in so many passes at most.
LEAST_DOCS, MOST_PASSES = 20, 3
#: Documents by which the tree changes, at most.
MOST_DOCS = 2000
#: Documents behind each of them where moves are judged: a branch grows if it would pay
#: for itself among so many times as many. With 1, branches of a few documents per call
#: hardly ever grow; with 3, noise does.
AHEAD = 2.0


OnlineTreeLearner = Learner[Posterior, Corpus, local.PathLocalStep, RunningAverage]


class OnlineTreeEdits(CountingMoves):
    """Moves of a nested CRP after passes 1, 2, 4, .. of a stream, or after a chunk.

    Some documents that were learned from judge them. These stand for those that the
    pass has in the totals; the statistics of all others are fixed. Changes of their
    statistics are scaled to that number in the totals.
    """

    moves: TreeMoves

    def __init__(self, moves: TreeMoves):
        self.moves, self._n_counted = moves, 0.0

    def end_pass(self, learner: OnlineTreeLearner, monitor: Monitor) -> bool:
        """Try moves if they are due; return whether the tree is unchanged."""
        posterior, X, n_passes = learner.posterior, learner.corpus.X, learner.n_passes
        if n_passes & (n_passes - 1) or X.shape[0] < LEAST_DOCS:
            return True
        n_logged = len(posterior.lineage)
        rng = stream(posterior.seed_entropy, Purpose.SOME_DOCS, posterior.n_steps)
        X = X[some_rows(np.arange(X.shape[0]), rng, MOST_DOCS)]
        self._learn(posterior, X, learner.local_step)
        _end_idle(posterior)
        if len(posterior.lineage) == n_logged:
            return True
        with commit():
            monitor.record(posterior)
        return False

    def _learn(
        self, posterior: Posterior, X: sp.csr_array, local_step: local.PathLocalStep
    ) -> None:
        """Learn documents with moves, and adopt the tree if moves changed it."""
        mass = float(posterior.global_stats.stub_masses.sum())
        known = max(mass / X.shape[0], 1.0)
        ahead, others = min(AHEAD, known), None
        if known > ahead:
            others = posterior.global_stats.times(1.0 - ahead / known)
        chunk, corpus = replace(posterior, lineage=[]), local.TreeCorpus(X, scale=ahead)
        cache, schedule = local.PathCache(corpus, others), corpus.schedule()
        learner = Learner(chunk, corpus, schedule, local_step, cache)
        n_levels = posterior.model.n_levels
        trials.learn_by_moves(learner, 1)
        old = chunk.state.tree
        old_stats = corpus.sums(old, n_levels)
        learner.moves = TreeEdits(self.moves)
        trials.learn_by_moves(learner, MOST_PASSES)
        if not chunk.lineage:
            return
        new = chunk.state.tree
        merged_into = {
            ends: stays
            for entry in chunk.lineage
            if entry.kind == "merge"
            for stays, ends in zip(entry.parents[::2], entry.parents[1::2], strict=True)
        }
        change = corpus.sums(new, n_levels).plus(
            old_stats.reindex_to(old, new, merged_into), -1.0
        )
        stats = posterior.global_stats.reindex_to(
            posterior.state.tree, new, merged_into
        )
        stats = stats.plus(change, self._n_counted / (ahead * X.shape[0])).clipped()
        stats = stats.times(mass / stats.stub_masses.sum())
        trials.adopt(posterior, *model.update_globals(new, stats), chunk.lineage)


def _end_idle(posterior: Posterior) -> None:
    """Remove leaves with hardly a document in the totals, in place."""
    new = tree = posterior.state.tree
    for leaf in trials.idle_leaves(posterior, LEAST_MASS):
        new = new.remove_upwards(leaf)
    if new is not tree:
        gone = tuple(np.setdiff1d(tree.ids, new.ids).tolist())
        stats = posterior.global_stats.reindex_to(tree, new)
        log = [Lineage(posterior.n_steps, "prune", gone, ())]
        trials.adopt(posterior, *model.update_globals(new, stats), log)
