"""Learning from batches that remember their statistics, without a bound.

A visit takes the batch's old statistics out of the totals and puts the new ones in, so
that the totals count each document once. One batch makes this the classic batch
algorithm.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from skbnp.inference.collapsed import Holdings
from skbnp.inference.interrupts import commit
from skbnp.inference.memory import dropped, resummed
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves.split_merge import SplitMerge, end_unused
from skbnp.inference.posterior import Posterior, Visitor
from skbnp.inference.schedules import Schedule
from skbnp.models.statistics import absorb, exchange

__all__ = ["Incremental"]


class Incremental:
    """Passes over a corpus in batches, each with its statistics.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : csr_array
        Canonical counts, no empty rows.
    schedule : Schedule
        The same batches in every pass; its steps are those of the first pass.
    visitor : Visitor
    moves : SplitMerge or None
    holdings : Holdings
        How often the totals hold these documents, from an earlier fit.

    Attributes
    ----------
    memos : list
        Statistics of each batch; empty until they are complete. An exception in a pass
        leaves them behind the posterior.
    """

    has_ended = False

    def __init__(
        self,
        posterior: Posterior,
        X: sp.csr_array,
        schedule: Schedule,
        visitor: Visitor,
        *,
        moves: SplitMerge | None,
        holdings: Holdings,
    ):
        self.posterior, self.X = posterior, X
        self.schedule, self.visitor, self.moves = schedule, visitor, moves
        self.n_passes, self.holdings = 0, holdings
        self.memos: list[Any] = []

    @property
    def n_updates(self) -> int:
        """Updates made, by which step sizes have decreased."""
        return self.schedule.n_updates(self.n_passes)

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether the totals counted each document once before it."""
        posterior, model = self.posterior, self.posterior.model
        remembers, memos = len(self.memos) > 0, list(self.memos)
        for index, round in enumerate(self.schedule.one_pass(self.n_passes)):
            rows = self.X[round.rows]
            held = self.holdings.of(round.rows)
            if remembers:
                held = np.ones_like(held)
            found = self.visitor.visit(posterior, rows, remembered=held)
            with commit():
                if remembers:
                    exchange(posterior.totals, memos[index], found.stats)
                    posterior.state = model.update(posterior.state, posterior.totals)
                    memos[index] = found.stats
                else:
                    optimum = model.update(posterior.state, found.stats, round.scale)
                    keep, gain = 1.0 - round.step, round.step * round.scale
                    absorb(posterior.totals, found.stats, keep=keep, gain=gain)
                    posterior.state = model.blend(posterior.state, optimum, round.step)
                    memos.append(found.stats)
                posterior.n_steps += 1
                posterior.record(monitor)
        self.n_passes += 1
        if memos:
            self._end_pass(memos)
            posterior.recount(monitor)
        return remembers

    def _end_pass(self, memos: list[Any]) -> None:
        """Sum the totals afresh, and end topics that nobody uses."""
        posterior, model = self.posterior, self.posterior.model
        totals = posterior.totals
        small = {
            item.name: sum(getattr(memo, item.name) for memo in memos)
            for item in fields(totals)
            if item.name != "topic_words"
        }
        words = resummed(memos, *totals.topic_words.shape)
        with commit():
            posterior.totals = replace(totals, topic_words=words, **small)
            posterior.state = model.update(posterior.state, posterior.totals)
            posterior.stale = 0.0  # nothing is left of the start
            self.memos = memos
        if self.moves is not None:
            gone = end_unused(self.moves, posterior)
            self.memos = [dropped(memo, gone) for memo in memos] if gone else memos
        posterior.state = model.update_topic_prior(posterior.state, posterior.totals)
