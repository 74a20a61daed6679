"""Online learning: one update of the globals per minibatch, and moves."""

from typing import Any

import scipy.sparse as sp

from skbnp.inference.collapsed import Holdings
from skbnp.inference.documents import Collected
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves import minibatch
from skbnp.inference.moves.split_merge import SplitMerge, end_unused
from skbnp.inference.posterior import Posterior, Visitor
from skbnp.inference.schedules import Round, Schedule
from skbnp.models.statistics import absorb

__all__ = ["Online", "advance"]

#: Totals of which mean weights gave a larger share are too blurred to judge topics by.
STALE = 0.1
#: Documents of a stream for each topic before topics that nobody uses end.
DOCS_PER_TOPIC = 10


class Online:
    """Passes over a corpus in minibatches of random documents.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : csr_array
        Canonical counts, no empty rows.
    schedule : Schedule
    visitor : Visitor
    warm_up : int
        First passes, with mean weights.
    moves : SplitMerge or None
    holdings : Holdings or None
        How often the totals hold these documents; the collapsed document step takes
        them out.
    """

    has_ended = False

    def __init__(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        schedule: Schedule,
        visitor: Visitor,
        *,
        warm_up: int,
        moves: SplitMerge | None,
        holdings: Holdings | None = None,
    ):
        self.posterior, self.X = posterior, X
        self.schedule, self.visitor = schedule, visitor
        self.warm_up, self.moves = warm_up, moves
        self.n_passes = 0
        self.holdings = holdings

    def restart(self, posterior: Posterior, *, keep_holdings: bool = False) -> "Online":
        """Return one that learns another posterior, with steps as from the start.

        `keep_holdings` says that its totals hold the documents as those of this do.
        """
        holdings = self.holdings
        if holdings is not None:
            holdings = holdings.copy() if keep_holdings else Holdings(self.X.shape[0])
        return Online(
            posterior,
            self.X,
            self.schedule.afresh(),
            self.visitor,
            warm_up=self.warm_up,
            moves=self.moves,
            holdings=holdings,
        )

    @property
    def n_updates(self) -> int:
        """Updates made, by which its steps have decreased."""
        return self.schedule.n_updates(self.n_passes)

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether it was exact, so that the bound can settle."""
        mean = self.n_passes < self.warm_up
        for round in self.schedule.one_pass(self.n_passes):
            advance(
                self.posterior,
                self.X[round.rows],
                round,
                self.visitor,
                monitor,
                mean=mean,
                moves=self.moves,
                holdings=self.holdings,
            )
        self.n_passes += 1
        return not mean


def advance(
    posterior: Posterior,
    X: sp.csr_array,
    round: Round,
    visitor: Visitor,
    monitor: Monitor,
    *,
    mean: bool,
    moves: SplitMerge | None = None,
    n_new: int = 0,
    holdings: Holdings | None = None,
) -> None:
    """One online round: visit the documents, absorb them, move the globals.

    Nothing is written before all documents have been visited, and then everything, but
    for moves: each is written by itself. Those that the bound judges wait for the end
    of the warm-up. `n_new` of the documents are seen for the first time, by a stream.
    `holdings` are those of the corpus.
    """
    criterion, look = None if moves is None else moves.criterion, None
    is_clear = not mean and posterior.stale < STALE
    if criterion == "bound" and is_clear:
        look = minibatch.comparison(posterior)
    held = None if holdings is None else holdings.of(round.rows)
    found = visitor.visit(posterior, X, mean=mean, remembered=held, look=look)
    optimum = posterior.model.update(posterior.state, found.stats, round.scale)
    with commit():
        _absorb(posterior, found, optimum, round, mean)
        if holdings is not None:
            keep, gain = 1.0 - round.step, round.step * round.scale
            holdings.absorb(round.rows, keep=keep, gain=gain)
        posterior.n_seen += n_new
        posterior.record(monitor)
    if moves is None:
        return
    if criterion == "bound" and is_clear:
        n_docs = round.scale * X.shape[0]
        minibatch.move(moves, posterior, X, found, n_docs, round.step, visitor)
    elif criterion == "held_out" and (n_new == 0 or _has_seen_enough(posterior)):
        end_unused(moves, posterior)
    posterior.recount(monitor)


def _has_seen_enough(posterior: Posterior) -> bool:
    """Whether a topic without tokens is one that nobody uses: a stream goes on."""
    return posterior.n_seen >= DOCS_PER_TOPIC * posterior.state.n_components


def _absorb(
    posterior: Posterior, found: Collected, optimum: Any, round: Round, mean: bool
) -> None:
    """Eqs. (6) and (7)."""
    model, keep, gain = posterior.model, 1.0 - round.step, round.step * round.scale
    absorb(posterior.totals, found.stats, keep=keep, gain=gain)
    posterior.state = model.blend(posterior.state, optimum, round.step)
    posterior.n_steps += 1
    posterior.stale = keep * posterior.stale + (round.step if mean else 0.0)
    if round.ends_pass:
        posterior.state = model.update_topic_prior(posterior.state, posterior.totals)
