"""Online learning: one update of the globals per minibatch, and moves."""

from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

import scipy.sparse as sp

from skbnp.inference.collapsed import Holdings
from skbnp.inference.documents import Collected
from skbnp.inference.edits import Remove, apply
from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves import minibatch, rival
from skbnp.inference.moves.split_merge import SplitMerge, end_unused
from skbnp.inference.posterior import Posterior, Visitor
from skbnp.inference.schedules import Round, Schedule
from skbnp.models.statistics import absorb
from skbnp.utils.random import Purpose, stream

__all__ = ["Online", "advance"]

#: Totals of which mean weights gave a larger share are too blurred to judge topics by.
STALE = 0.1
#: Documents of a stream for each topic before collapsed learning ends any.
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
    for moves: each is written by itself. There are none during the warm-up. `n_new` of
    the documents are seen for the first time. `holdings` are those of the corpus.
    """
    look, trial, moves = None, None, None if mean else moves
    judged = moves is not None and posterior.model.has_bound
    if judged:
        if posterior.moving is None:
            posterior.moving = minibatch.Moving(posterior.n_steps)
        trial = posterior.moving.rival
    is_clear = trial is None and posterior.stale < STALE
    if judged and is_clear:
        look = minibatch.comparison(posterior)
    held = None if holdings is None else holdings.of(round.rows)
    found = visitor.visit(posterior, X, mean=mean, remembered=held, look=look)
    optimum = posterior.model.update(posterior.state, found.stats, round.scale)
    lesson = None
    if trial is not None:
        lesson = _lesson(trial, posterior, X, found, round, visitor)
    with commit():
        _absorb(posterior, found, optimum, round, mean)
        if holdings is not None:
            keep, gain = 1.0 - round.step, round.step * round.scale
            holdings.absorb(round.rows, keep=keep, gain=gain)
        posterior.n_seen += n_new
        posterior.record(monitor)
        if trial is not None and lesson is not None:
            _learn(trial, lesson)
    if moves is not None and judged:
        if trial is not None:
            _prune_after_warm_up(moves, trial)
        n_docs = round.scale * X.shape[0]
        _move(moves, posterior, X, found, n_docs, round.step, visitor, is_clear)
    elif moves is not None and _has_seen_enough(posterior, holdings):
        end_unused(moves, posterior)
        monitor.recount(posterior.state.n_components)


def _has_seen_enough(posterior: Posterior, holdings: Holdings | None) -> bool:
    """Whether a topic without tokens is one that nobody uses: a stream goes on."""
    n_needed = DOCS_PER_TOPIC * posterior.state.n_components
    return holdings is not None or posterior.n_seen >= n_needed


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


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What a rival takes from a minibatch."""

    found: Collected
    optimum: Any
    round: Round
    mean: bool
    gain: float  # of the minibatch's bound, nats; nan while the rival is not judged


def _lesson(
    trial: rival.Rival,
    posterior: Posterior,
    X: sp.csr_array,
    found: Collected,
    round: Round,
    visitor: Visitor,
) -> _Lesson:
    """Let the rival visit a minibatch that has not been absorbed; change nothing."""
    other, mean = trial.posterior, trial.is_warming_up
    theirs = visitor.visit(other, X, mean=mean)
    optimum = other.model.update(other.state, theirs.stats, round.scale)
    step = max(round.step, trial.step(found.stats.n_tokens))
    gain = nan
    if other.stale < STALE:
        gain = rival.documents(other, theirs) - rival.documents(posterior, found)
    return _Lesson(theirs, optimum, replace(round, step=step), mean, gain)


def _learn(trial: rival.Rival, lesson: _Lesson) -> None:
    found, round = lesson.found, lesson.round
    _absorb(trial.posterior, found, lesson.optimum, round, lesson.mean)
    trial.start *= 1.0 - round.step
    trial.age += 1
    if not isnan(lesson.gain):
        trial.gains.append(lesson.gain)
        trial.n_docs.append(len(found.n_tokens))


def _prune_after_warm_up(moves: SplitMerge, trial: rival.Rival) -> None:
    """End the rival's topics that have not found any documents."""
    other = trial.posterior
    if trial.is_pruned or trial.is_warming_up:
        return
    trial.is_pruned = True
    ending = other.ids[moves.light(other.totals.topic_words.total)].tolist()
    if ending:
        apply(Remove(ending), other)


def _move(
    moves: SplitMerge,
    posterior: Posterior,
    X: sp.csr_array,
    found: Collected,
    n_docs: float,
    step_size: float,
    visitor: Visitor,
    is_clear: bool,
) -> None:
    """Change topics after a minibatch of a corpus of `n_docs` documents.

    `is_clear` says that the totals were fit to judge the present topics by.
    """
    moving = posterior.moving
    if moving.rival is not None:
        rival.decide(moves, posterior, n_docs)
    elif rival.may_begin(moves, posterior):
        moving.rival = rival.propose(posterior, X, found.doc_topic, n_docs)
        moving.start_afresh()
    elif is_clear:
        columns = posterior.columns
        used = found.stats.topic_words.total
        idle = posterior.ids[used < moves.prune_tokens].tolist()
        minibatch.merge(moves, posterior, found, n_docs)
        minibatch.prune(moves, posterior, idle, X.shape[0])
        rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
        minibatch.split(
            moves,
            posterior,
            X,
            found.doc_topic,
            columns,
            n_docs,
            step_size,
            visitor,
            rng,
        )
