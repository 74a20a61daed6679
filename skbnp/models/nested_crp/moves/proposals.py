"""Proposals to change the topic tree of a nested CRP, the most promising first.

Each kind lists candidates as tuples of ids, by which rejected ones are recorded, and
makes a proposal of a candidate, whose first node is still there, or None.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_moves import TreeMoves
from skbnp.inference import trials
from skbnp.inference.trials import Ids, Kind, Proposal, propose_prune
from skbnp.models.nested_crp.branch_scores import score_branches
from skbnp.models.nested_crp.memory import Rows, TreeCorpus
from skbnp.models.nested_crp.model import TopicTree, log_topic_evidence, path_globals
from skbnp.models.nested_crp.start import excess
from skbnp.trees import Tree
from skbnp.utils.clusters import kmeans, ward_cuts
from skbnp.utils.typing import Array, Ints

#: Cosine of the shares of two paths above which the paper merges them, and sum of the
#: shares of a path below which it ends it.
ALIKE, LEAST_SHARES = 0.95, 1e-6
#: Pairs of siblings whose merge is weighed.
MOST_PAIRS = 200
#: Documents per node that the paper's growth opens, and most nodes relative to those
#: there are.
DOCS_PER_GROWTH, MOST_GROWTH = 100, 0.25
#: Share of a new topic that is spread like the words above.
BROAD = 0.2
#: Documents whose gain by a branch of their own is computed, and that propose one.
N_SCORED, N_KEPT = 20, 3
#: Share of the documents below a node that may join a new branch.
NEIGHBOURS = 0.15


@dataclass(frozen=True, slots=True)
class Context(trials.Context):
    """What proposals read: the posterior, its documents and their paths."""

    corpus: TreeCorpus

    def edited(
        self, tree: Tree, merged_into: Mapping[int, int] | None = None
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
            Kind("prune", _list_empty_leaves, propose_prune, ignores_bound=True),
            Kind("merge", _list_similar_leaves, _merge_paths, ignores_bound=True),
            Kind("grow", _draw_growth_nodes, _propose_growth, ignores_bound=True),
        ]
    kinds = [
        Kind("prune", trials.list_leaves, propose_prune),
        Kind("merge", _list_siblings, trials.propose_merge),
    ]
    if moves.reattach:
        kinds.append(Kind("reattach", _list_attachments, trials.propose_attachment))
    if moves.split:
        kinds.append(Kind("split", _list_divisible_nodes, _propose_split, grows=True))
        kinds.append(
            Kind("split_leaf", _list_divisible_leaves, _propose_leaf_split, grows=True)
        )
        kinds.append(
            Kind("branch", trials.list_inner_nodes, _propose_branch, grows=True)
        )
    kinds.append(Kind("grow", _list_poor_fits, _propose_own_branch, grows=True))
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
    alone = log_topic_evidence(words, eta, n_unseen)
    proposals: list[tuple[float, int, int]] = []
    for parent in range(len(tree)):
        siblings = np.flatnonzero(tree.parent == parent)
        one, other = siblings[_pair_similar_rows(words[siblings])].T
        gains = log_topic_evidence(words[one] + words[other], eta[one], n_unseen)
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
    pairs = np.argwhere(np.triu(cosines > ALIKE, 1) & (depth == depth[:, None]))
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
    given = path_globals(posterior.state, posterior.model.priors)

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
    return Proposal("split", (node,), (node, fresh), topics, rows)


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
    goes = side == np.argmin(np.bincount(side))
    return _open_branch(context, node, X[goes], rows)


def _list_poor_fits(context: Context) -> list[Ids]:
    """Candidates to branch: nodes and the documents that gain most by a branch."""
    posterior, corpus, tree = context.posterior, context.corpus, context.tree
    priors = posterior.model.priors
    if priors.n_levels == 1:
        return []
    given = path_globals(posterior.state, priors)
    candidates = []
    n_scored = min(N_SCORED, corpus.n_docs)
    for doc in context.rng.choice(corpus.n_docs, n_scored, replace=False).tolist():
        x, bound = corpus.document(doc)
        opened = score_branches(given, given.log_topics(x.indices), x.data)
        best = int(np.argmax(opened.scores))
        gain = float(opened.scores[best]) - bound
        candidates.append((-gain, int(tree.ids[opened.stubs[best]]), doc))
    return [(node, doc) for _, node, doc in sorted(candidates)[:N_KEPT]]


def _propose_own_branch(context: Context, node: int, doc: int) -> Proposal | None:
    """Propose a branch for a document and those similar to it."""
    corpus = context.corpus
    x, _ = corpus.document(doc)
    rows = _select_similar_documents(context, node, x)
    X, _ = corpus.take(rows)
    if X.shape[0] == 0:
        return None
    return _open_branch(context, node, X, rows)


def _open_branch(context: Context, node: int, X: sp.csr_array, rows: Rows) -> Proposal:
    """Propose a branch that starts with the words of documents; it touches `rows`."""
    topics, fresh = _add_branch(context, node)
    at, scale = topics.tree.positions(fresh), context.corpus.scale
    words = scale * _blend_with_parent(X.sum(axis=0), context.words_below(node))
    topics.word_counts[at] = words / len(at)
    topics.stub_masses[at[-1]] = scale * X.shape[0]
    return Proposal("birth", (node,), (node, *fresh.tolist()), topics, rows)


def _add_branch(context: Context, node: int) -> tuple[TopicTree, Ints]:
    """Return the topics with an empty branch below a node, and its ids."""
    tree, n_levels = context.tree, context.n_levels
    new = tree.add(node, depth=n_levels - 1)
    return context.edited(new), np.arange(tree.next_id, new.next_id)


def _select_similar_documents(context: Context, node: int, x: sp.csr_array) -> Rows:
    """Documents below a node that are most similar to a given one."""
    rows, corpus = context.below(node), context.corpus
    likeness = []
    for X, docs in zip(corpus.parts, rows, strict=True):
        length = np.sqrt(np.maximum(X[docs].sum(axis=1), 1e-300))
        likeness.append((X[docs].sqrt() @ x.sqrt().T).toarray()[:, 0] / length)
    joined = np.concatenate(likeness)
    n = max(5, int(NEIGHBOURS * len(joined)))
    if n >= len(joined):
        return rows
    least = np.partition(joined, -n)[-n]
    return [docs[own >= least] for docs, own in zip(rows, likeness, strict=True)]


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
    return Proposal("birth", (node,), children, topics, rows)
