"""A chain of the Chinese restaurant franchise: what one sweep consists of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skbnp.inference.edits import Lineage
from skbnp.inference.moves.table_split_merge import propose_moves
from skbnp.kernels._franchise import sweep
from skbnp.models.hdp_franchise import (
    Concentrations,
    FranchiseSample,
    Priors,
    Seating,
    Tables,
    Tokens,
)
from skbnp.utils.random import Purpose, stream

__all__ = ["COLUMNS", "ChainState", "FranchiseChain", "Start"]

#: Columns of the history of a fit.
COLUMNS = (
    "step",
    "chain",
    "seconds",
    "n_components",
    "n_tables",
    "log_joint",
    "n_splits",
    "n_merges",
    "doc_concentration",
    "corpus_concentration",
    "topic_word_prior",
)
#: Tokens of a piece of a sweep, about: some 20 ms.
TOKENS_PER_PIECE = 1 << 17


@dataclass(frozen=True, slots=True)
class Start:
    """Where a chain starts, and what has been before."""

    concentrations: Concentrations
    tables: Tables | None  # None: tokens are seated one by one
    ids: NDArray[np.intp] | None = None  # names of the tables' dishes; None: new ones
    lineage: Sequence[Lineage] = ()
    next_id: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class ChainState:
    """A chain between two sweeps: all that the next one needs."""

    number: int
    step: int  # sweeps made
    tables: Tables
    concentrations: Concentrations
    ids: NDArray[np.intp]  # (n_dishes,) names of the dishes
    next_id: int
    n_splits: int
    n_merges: int
    lineage: list[Lineage]  # grows with the chain
    begin: int  # sweeps made by others before
    log_joint: float  # nats per token


class FranchiseChain:
    """Gibbs sweeps, split-merge proposals and hyperparameters, of one chain.

    Streams are named by the number of the chain and of the sweep, and a sweep depends
    on nothing but the state before: a chain goes on alike from a copy of its state.

    Parameters
    ----------
    tokens : Tokens
    priors : Priors
        What is learned of the hyperparameters.
    entropy : int
        Of the fit.
    start : Start or ChainState
        Where to go on.
    number : int
        Of the chain, where it starts.
    n_proposals : int
        Split-merge proposals per sweep.
    proposal_sweeps : int
        Sweeps that make proposals.
    before : FranchiseSample or None
        Counts of documents that are gone.
    """

    def __init__(
        self,
        tokens: Tokens,
        priors: Priors,
        entropy: int,
        start: Start | ChainState,
        *,
        number: int = 0,
        n_proposals: int = 0,
        proposal_sweeps: int = 0,
        before: FranchiseSample | None = None,
    ):
        self.priors, self.entropy = priors, entropy
        self.n_proposals, self.proposal_sweeps = n_proposals, proposal_sweeps
        places = None if before is None else before.places()
        self.seating = Seating(tokens, start.concentrations, start.tables, places)
        self.pieces = _pieces(tokens)
        self._staged: ChainState | None = None
        self._staged_log: list[Lineage] = []
        if isinstance(start, ChainState):
            self.state = replace(start, lineage=list(start.lineage))
            return
        if start.tables is None:
            self._seat(stream(entropy, Purpose.START, number, start.step))
        known = np.zeros(0, np.intp) if start.ids is None else start.ids
        if before is not None:
            known = before.component_ids[before.n_tokens > 0]
        next_id = start.next_id
        new = np.arange(next_id, next_id + self.seating.n_served - len(known))
        if start.lineage:
            log = [*start.lineage, *_births(start.step, new)]
        else:
            # An empty corpus has a topic, too, which no token has.
            next_id += len(new) == 0
            names = new.tolist() or [0]
            log = [Lineage(start.step, "init", (), tuple(names))]
        if before is not None and len(known) + len(new) > 0:
            gone = before.component_ids[before.n_tokens == 0].tolist()
            log += [Lineage(start.step, "prune", tuple(gone), ())] if gone else []
        self.state = ChainState(
            number=number,
            step=start.step,
            tables=self.seating.tables(),
            concentrations=start.concentrations,
            ids=np.concatenate([known, new]),
            next_id=next_id + len(new),
            n_splits=0,
            n_merges=0,
            lineage=log,
            begin=start.step,
            log_joint=self._log_joint(),
        )

    def _seat(self, rng: np.random.Generator) -> None:
        """Seat all tokens by those before them."""
        for begin, stop in self.pieces:
            self._sweep(begin, stop, 0, rng)
        self.seating.tidy()

    def _sweep(
        self, begin: int, stop: int, meal_part: int, rng: np.random.Generator
    ) -> None:
        seating = self.seating
        while begin < stop:
            work = seating.workspace
            begin = sweep(seating, work, begin, stop, meal_part, rng.bit_generator)
            if begin < stop:
                seating.make_places()

    # -- one sweep --------------------------------------------------------------------

    @property
    def n_pieces(self) -> int:
        """Pieces of a sweep, a fraction of a second each."""
        return len(self.pieces)

    def run(self, piece: int) -> None:
        """Run one piece; the last ends the sweep."""
        if piece == 0:
            state = self.state
            self._rng = stream(
                self.entropy, Purpose.SWEEP, state.number, state.step + 1
            )
            self._meal_part = self.seating.meal_part
        self._sweep(*self.pieces[piece], self._meal_part, self._rng)
        if piece == len(self.pieces) - 1:
            self._staged = self._end()

    def _end(self) -> ChainState:
        """Name the dishes, propose moves, draw hyperparameters."""
        state, seating, rng = self.state, self.seating, self._rng
        step = state.step + 1
        ids, next_id, log = self._rename(state.ids, state.next_id, step)
        n_splits, n_merges = state.n_splits, state.n_merges
        if step - state.begin <= self.proposal_sweeps and self.n_proposals > 0:
            moves = propose_moves(seating, self.n_proposals, rng)
            for is_split, stays, comes in moves:
                if is_split:
                    ids = np.append(ids, next_id) if comes == len(ids) else ids
                    ids[comes], next_id = next_id, next_id + 1
                    one = int(ids[stays])
                    log.append(Lineage(step, "split", (one,), (one, int(ids[comes]))))
                    n_splits += 1
                else:
                    one, other = int(ids[stays]), int(ids[comes])
                    log.append(Lineage(step, "merge", (one, other), (one,)))
                    n_merges += 1
            if moves:
                places, _ = seating.tidy()
                ids = ids[places]
        self.priors.resample(seating, rng)
        self._staged_log = log
        return replace(
            state,
            step=step,
            tables=seating.tables(),
            concentrations=seating.concentrations,
            ids=ids,
            next_id=next_id,
            n_splits=n_splits,
            n_merges=n_merges,
            log_joint=self._log_joint(),
        )

    def _rename(
        self, ids: NDArray[np.intp], next_id: int, step: int
    ) -> tuple[NDArray[np.intp], int, list[Lineage]]:
        """Names of the dishes after a sweep, in their new places."""
        places, is_new = self.seating.tidy()
        names = np.full(int(places.max(initial=-1)) + 1, -1, dtype=np.intp)
        n_known = min(len(ids), len(names))
        names[:n_known] = ids[:n_known]
        names = names[places]
        n_new = int(is_new.sum())
        names[is_new] = np.arange(next_id, next_id + n_new)
        log = _births(step, names[is_new])
        ended = np.setdiff1d(ids, names)
        if len(ended):
            log.append(Lineage(step, "prune", tuple(ended.tolist()), ()))
        return names, next_id + n_new, log

    def _log_joint(self) -> float:
        total = self.seating.log_joint() + self.priors.log_density(self.seating)
        return total / max(len(self.seating.words), 1)

    def accept(self) -> None:
        """Let the sweep that was run be the last complete one."""
        assert self._staged is not None
        self.state = self._staged
        self.state.lineage.extend(self._staged_log)

    def rewind(self) -> None:
        """Go back to the last complete sweep."""
        self.seating.concentrations = self.state.concentrations
        self.seating.restore(self.state.tables)

    # -- what it tells ----------------------------------------------------------------

    def trace(self) -> dict[str, Any]:
        """Tell about the last complete sweep, by columns of the history."""
        state = self.state
        return {
            "step": state.step,
            "chain": state.number,
            "n_components": max(len(state.ids), 1),
            "n_tables": self.seating.n_all_tables,
            "log_joint": state.log_joint,
            "n_splits": state.n_splits,
            "n_merges": state.n_merges,
            "doc_concentration": state.concentrations.doc,
            "corpus_concentration": state.concentrations.corpus,
            "topic_word_prior": state.concentrations.topic_word_prior,
        }

    def sample(self) -> FranchiseSample:
        """Copy what prediction needs of the present state."""
        state, seating = self.state, self.seating
        return FranchiseSample.of(
            seating,
            component_ids=state.ids,
            log_joint=state.log_joint,
            chain=state.number,
            step=state.step,
        )


def _pieces(tokens: Tokens) -> list[tuple[int, int]]:
    """Ranges of documents, a fraction of a second of work each."""
    ends = np.searchsorted(
        tokens.begin, np.arange(TOKENS_PER_PIECE, len(tokens), TOKENS_PER_PIECE)
    )
    limits = np.unique([0, *ends.tolist(), len(tokens.begin) - 1]).tolist()
    return list(pairwise(limits)) or [(0, 0)]


def _births(step: int, ids: NDArray[np.intp]) -> list[Lineage]:
    return [Lineage(step, "birth", (), tuple(ids.tolist()))] if len(ids) else []
