"""Learning from batches that remember what they said: the exact bound of the corpus.

A visit takes the batch's old statistics out of the totals and puts the new ones in, so
that the totals are always those of the whole corpus, each document counted once; the
bound never falls. One batch makes this the classic batch algorithm. The passes before
there is something to remember are those of online learning.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.edits import Merge, Remove, apply, sparing
from skbnp.inference.interrupts import commit
from skbnp.inference.memory import Memo, doc_topic, refreshed, resummed
from skbnp.inference.monitor import Monitor
from skbnp.inference.moves import hdp_merge
from skbnp.inference.moves.split_merge import SplitMerge
from skbnp.inference.posterior import Posterior, Visitor
from skbnp.inference.schedules import Round, Schedule
from skbnp.models.statistics import absorb, exchange

__all__ = ["Memoized"]

#: Updates of the weights after a pass, each with fresh tangents.
N_REFRESHES = 3
#: Passes until a pair of topics that were told apart is compared again.
WAIT = 8


class Memoized:
    """Passes over a corpus in batches, each with a memo.

    Parameters
    ----------
    posterior : Posterior
        Learned in place; consistent at any moment at which an exception can arrive.
    X : csr_array
        Canonical counts, no empty rows.
    schedule : Schedule
        The same batches in every pass; its steps are those of passes without memory.
    visitor : Visitor
    warm_up : int
        First passes, with mean weights.
    moves : SplitMerge or None

    Attributes
    ----------
    memos : list of Memo
        One per batch; empty until they are complete. An exception in a pass leaves them
        behind the posterior.
    bound : float
        Of the corpus after the last pass, nats per token; minus infinity before.
    rise : float
        By how much the last pass raised it.
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
    ):
        self.posterior, self.X = posterior, X
        self.schedule, self.visitor = schedule, visitor
        self.warm_up, self.moves = warm_up, moves
        self.n_forgetful = max(warm_up, 1)  # passes that begin without memory
        self.n_passes = 0
        self.memos: list[Memo] = []
        self.pairs: list[tuple[int, int]] = []  # ids, compared in the present pass
        self.apart: dict[tuple[int, int], int] = {}  # ids, not compared before a pass
        self.bound, self.rise = -np.inf, np.inf

    @property
    def n_updates(self) -> int:
        """Updates made, by which the steps of passes without memory have decreased."""
        return self.schedule.n_updates(self.n_passes)

    def one_pass(self, monitor: Monitor) -> bool:
        """Make one pass; whether it was exact, so that the bound can settle."""
        posterior, number = self.posterior, self.n_passes
        mean, exact = number < self.warm_up, number >= self.n_forgetful
        remembers = number >= self.n_forgetful - 1
        moves = self.moves if mean and remembers else None
        if moves is not None and moves.criterion == "bound":
            self.prune(moves.light(posterior.totals.topic_words.total))
        memos = list(self.memos)
        for index, round in enumerate(self.schedule.one_pass(number)):
            memo = self._visit(round, mean, memos[index] if exact else None, monitor)
            if exact:
                memos[index] = memo
            elif remembers:
                memos.append(memo)
        self.n_passes += 1
        if memos:
            self._end_pass(memos)
            posterior.recount(monitor)
        return exact

    def _visit(
        self, round: Round, mean: bool, memo: Memo | None, monitor: Monitor
    ) -> Memo:
        posterior, model = self.posterior, self.posterior.model
        columns, look = posterior.columns, None
        if self.pairs:
            pairs = [(columns[one], columns[other]) for one, other in self.pairs]
            look = hdp_merge.Comparison(np.array(pairs, dtype=np.int32))
        found = self.visitor.visit(
            posterior,
            self.X[round.rows],
            mean=mean,
            remembered=None if memo is None else memo.doc_topic,
            look=look,
        )
        losses = np.zeros(len(self.pairs))
        if look is not None:
            losses = sum((seen[:, 0] for seen in found.seen), losses)
        with commit():
            if memo is None:
                optimum = model.update(posterior.state, found.stats, round.scale)
                gain = round.step * round.scale
                absorb(posterior.totals, found.stats, keep=1 - round.step, gain=gain)
                posterior.state = model.blend(posterior.state, optimum, round.step)
            else:
                exchange(posterior.totals, memo.stats, found.stats)
                posterior.state = model.update(posterior.state, posterior.totals)
            posterior.n_steps += 1
            posterior.record(monitor)
        return Memo.of(found, losses)

    def _end_pass(self, memos: list[Memo]) -> None:
        """Sum the totals afresh, make the bound exact, merge what it says."""
        posterior, model = self.posterior, self.posterior.model
        shape = posterior.totals.topic_words.shape
        words = resummed((memo.stats for memo in memos), *shape)
        with commit():
            posterior.totals = replace(posterior.totals, topic_words=words)
            posterior.stale = 0.0  # nothing is left of the start
            self.memos = memos
        self._refresh()
        if self.moves is not None:
            n_changed = self._merge()
            ending = doc_topic(self.memos).sum(axis=0) == 0.0
            if self.moves.criterion == "held_out":
                ending |= posterior.totals.topic_words.total < self.moves.prune_tokens
            n_changed += self.prune(ending)
            if n_changed:
                self._refresh()
            if self.moves.criterion == "bound":
                self._choose_pairs()
        posterior.state = model.update_topic_prior(posterior.state, posterior.totals)
        bound = sum(posterior.objective().values())
        self.bound, self.rise = bound, bound - self.bound

    def _refresh(self) -> None:
        posterior = self.posterior
        for _ in range(N_REFRESHES):
            totals, self.memos = refreshed(posterior, self.memos)
            state = posterior.model.update(posterior.state, totals)
            with commit():
                posterior.state, posterior.totals = state, totals
        posterior.totals, self.memos = refreshed(posterior, self.memos)

    # -- moves ------------------------------------------------------------------------

    def _choose_pairs(self) -> None:
        """Pairs of topics to compare in the next pass."""
        posterior = self.posterior
        counts = sp.csr_array(doc_topic(self.memos))
        words = sp.csr_array(posterior.totals.topic_words.dense())
        pairs = hdp_merge.candidates(counts, words)
        names, now = posterior.ids.tolist(), self.n_passes
        self.apart = {p: until for p, until in self.apart.items() if until > now}
        named = [(names[one], names[other]) for one, other in pairs]
        self.pairs = [pair for pair in named if pair not in self.apart]

    def _merge(self) -> int:
        """Merge the pairs whose exact gain is positive, best first, disjoint."""
        if not self.pairs:
            return 0
        posterior, columns = self.posterior, self.posterior.columns
        counts, words = doc_topic(self.memos), posterior.totals.topic_words
        prior, eta = posterior.state.doc_prior, posterior.state.topic_word_prior
        gains = -np.sum([memo.losses for memo in self.memos], axis=0)
        for index, pair in enumerate(self.pairs):
            one, other = (columns[name] for name in pair)
            gains[index] += hdp_merge.documents_gain(prior, counts, one, other)
            gains[index] += hdp_merge.words_gain(words, eta, one, other)
            if gains[index] < 0.0:
                self.apart[pair] = self.n_passes + WAIT
        chosen = hdp_merge.best_disjoint(self.pairs, gains)
        if chosen:
            pairs = [self.pairs[index][::-1] for index in chosen]
            places = [(columns[source], columns[target]) for source, target in pairs]
            self.memos = [m.merged(places, m.losses[chosen]) for m in self.memos]
            apply(Merge(pairs), posterior)
        return len(chosen)

    def prune(self, ending: NDArray[np.bool_]) -> int:
        """End topics. What documents hold of them is gone, until the next visit."""
        mass = self.posterior.totals.topic_words.total
        columns = np.flatnonzero(sparing(ending, mass)).tolist()
        if len(columns):
            self.memos = [memo.without(columns) for memo in self.memos]
            apply(Remove(self.posterior.ids[columns].tolist()), self.posterior)
        return len(columns)
