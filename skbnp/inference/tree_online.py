"""Online learning of a topic tree: one update per minibatch, and moves."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.inference.edits import Lineage
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves.tree_moves import TreeMoves
from skbnp.inference.moves.tree_proposals import Proposal, Scene, kinds_of
from skbnp.inference.paths import DocPaths
from skbnp.inference.posterior import Posterior
from skbnp.inference.schedules import OnlineSchedule, Round
from skbnp.inference.tree_corpus import PathVisitor, TreeCorpus, sums_of
from skbnp.models.ncrp_topics import divergences, settle
from skbnp.utils.random import Purpose, stream

__all__ = ["OnlineTree", "advance_tree"]

#: Moves of a kind that a minibatch tries.
MOST_TRIES = 2
#: A leaf of fewer documents ends.
LEAST_MASS = 0.1
#: Nats by which a move that adds nodes must raise the bound.
LEAST_GAIN = 1.0


class OnlineTree:
    """Passes over a corpus in minibatches of random documents.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : csr_array
        Canonical counts, no empty rows.
    schedule : OnlineSchedule
    visitor : PathVisitor
    moves : TreeMoves or None
    """

    def __init__(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        schedule: OnlineSchedule,
        visitor: PathVisitor,
        moves: TreeMoves | None,
    ):
        self.posterior, self.X, self.schedule = posterior, X, schedule
        self.visitor, self.moves = visitor, moves
        self.n_passes = 0

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; it is exact, so that the bound can settle."""
        for round in self.schedule.one_pass(self.n_passes):
            rows = self.X[round.rows]
            advance_tree(self.posterior, rows, round, self.visitor, monitor, self.moves)
        self.n_passes += 1
        return True


def advance_tree(
    posterior: Posterior,
    X: sp.csr_array,
    round: Round,
    visitor: PathVisitor,
    monitor: Monitor,
    moves: TreeMoves | None,
    n_new: int = 0,
) -> None:
    """Visit a minibatch, absorb what it says, and change the tree where that helps."""
    model, tree = posterior.model, posterior.state.tree
    found = visitor.visit(posterior.state, model.priors, X)
    fresh = sums_of(found, X, tree, model.priors.n_levels)
    stats = posterior.totals.blended(fresh, 1.0 - round.step, round.step * round.scale)
    with commit():
        posterior.state, posterior.totals = settle(tree, stats)
        posterior.ids = posterior.state.tree.ids
        posterior.n_steps += 1
        posterior.n_seen += n_new
        if round.ends_pass:
            posterior.model = model.learned(posterior.state.tree, posterior.totals)
        posterior.record(monitor)
    if moves is not None:
        _move(posterior, X, found, visitor, moves, round.scale)


def _move(
    posterior: Posterior,
    X: sp.csr_array,
    found: DocPaths,
    visitor: PathVisitor,
    moves: TreeMoves,
    scale: float,
) -> None:
    """Try moves of each kind on a minibatch; end nodes that nobody visits any more."""
    rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
    corpus = TreeCorpus(X, X.shape[0])
    for kind in kinds_of(moves):
        corpus.memos = [found]
        scene, n_tries = Scene(posterior, corpus, rng, scale), 0
        for ids in kind.candidates(scene):
            if n_tries == MOST_TRIES:
                break
            if kind.name == "prune" and scene.mass_of(*ids) >= LEAST_MASS:
                break
            proposal = kind.make(scene, *ids)
            if proposal is None or not scene.has_room(proposal):
                continue
            n_tries += 1
            by_rule = proposal.by_rule or kind.name == "prune"
            if by_rule or _is_better(proposal, scene, visitor, moves.confidence):
                _accept(proposal, posterior)
                found = _visited(posterior, X, found, visitor, proposal)
                corpus.memos = [found]


def _is_better(
    proposal: Proposal, scene: Scene, visitor: PathVisitor, confidence: float
) -> bool:
    """Judge a move by the documents of the minibatch that it touches.

    They stand for so many of the corpus each, but those that it was made from for
    themselves alone.
    """
    posterior = scene.posterior
    priors = posterior.model.priors
    X, memo = scene.corpus.take(proposal.rows)
    here = visitor.visit(posterior.state, priors, X, memo).bounds
    there = visitor.visit(proposal.topics, priors, X, memo).bounds
    counts = np.full(len(here), scene.scale)
    counts[np.asarray(proposal.seeds, dtype=np.intp)] = 1.0
    gains = counts * (there - here)
    price = sum(divergences(proposal.topics, priors).values())
    price -= sum(divergences(posterior.state, priors).values())
    error = np.sqrt(len(gains)) * gains.std() if len(gains) else 0.0
    least = LEAST_GAIN if len(proposal.topics.tree) > len(scene.tree) else 0.0
    return bool(gains.sum() + price > confidence * error + least)


def _accept(proposal: Proposal, posterior: Posterior) -> None:
    topics, totals = proposal.topics, posterior.totals
    stats = replace(
        totals, word_counts=topics.word_counts, stub_masses=topics.stub_masses
    )
    topics, stats = settle(topics.tree, stats)
    entry = Lineage(
        posterior.n_steps, proposal.kind, proposal.parents, proposal.children
    )
    with commit():
        posterior.state, posterior.totals = topics, stats
        posterior.ids = topics.tree.ids
        posterior.lineage = [*posterior.lineage, entry]


def _visited(
    posterior: Posterior,
    X: sp.csr_array,
    found: DocPaths,
    visitor: PathVisitor,
    proposal: Proposal,
) -> DocPaths:
    """Let documents of a minibatch follow a move."""
    (docs,) = proposal.rows
    if len(docs) == 0:
        return found
    new = visitor.visit(
        posterior.state, posterior.model.priors, X[docs], found.take(docs)
    )
    return found.replaced(docs, new)
