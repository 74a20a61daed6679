"""Batch learning by coordinate ascent: all documents, then the globals."""

from typing import Any

import scipy.sparse as sp

from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior, Visitor
from skbnp.models.statistics import absorb

__all__ = ["CoordinateAscent"]


class CoordinateAscent:
    """Passes over a whole corpus, whose documents remember what they said.

    After the warm-up the bound does not fall: a document starts afresh and from what it
    said before, and keeps the better.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : csr_array
        Canonical counts, no empty rows.
    visitor : Visitor
    warm_up : int
        First passes, with mean weights.
    """

    has_ended = False

    def __init__(
        self, posterior: Posterior, X: sp.csr_array, visitor: Visitor, *, warm_up: int
    ):
        self.posterior, self.X, self.visitor = posterior, X, visitor
        self.warm_up, self.n_passes = warm_up, 0
        self.memory: Any = None

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether it was exact, so that the bound can settle."""
        mean = self.n_passes < self.warm_up
        posterior, model = self.posterior, self.posterior.model
        if self.X.shape[0]:
            found = self.visitor.visit(
                posterior, self.X, mean=mean, remembered=self.memory
            )
            with commit():
                absorb(posterior.totals, found.stats, keep=0.0, gain=1.0)
                posterior.state = model.update(posterior.state, posterior.totals)
                posterior.state = model.update_topic_prior(
                    posterior.state, posterior.totals
                )
                posterior.stale = 1.0 if mean else 0.0
                posterior.n_steps += 1
                posterior.record(monitor)
            self.memory = None if mean else found.memory
        self.n_passes += 1
        return not mean
