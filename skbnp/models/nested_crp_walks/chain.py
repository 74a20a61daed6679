"""Gibbs chain of the collapsed nested CRP: the steps of one sweep."""

from dataclasses import dataclass, replace

import numpy as np

from skbnp.components.tree_sticks import LevelPriors
from skbnp.inference.chains import ChainStart, ChainState, GibbsChain, pieces_of, rename
from skbnp.inference.executor import RunTasks, run_in_turn
from skbnp.inference.posterior import Lineage
from skbnp.kernels._nested_crp import LEVELS, PATHS, TOGETHER
from skbnp.models.nested_crp_walks.model import NestedPriors, Paths, Walks
from skbnp.models.nested_crp_walks.sample import NestedSample
from skbnp.models.nested_crp_walks.start import start_walks
from skbnp.rows.tokens import Tokens
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Ints, Ints32

#: Columns of the history of a fit.
COLUMNS = (
    "step",
    "chain",
    "seconds",
    "n_components",
    "n_leaves",
    "log_joint",
    "child_concentration",
    "topic_word_prior",
)
#: Tokens of a piece of a sweep, about: 0.1 s where there are ten thousand nodes.
TOKENS_PER_PIECE = 1 << 14
#: Sweeps over levels alone, where documents start on paths that they are told.
LEVEL_SWEEPS = 50
#: Of so many sweeps one draws paths and levels together.
TOGETHER_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedStart(ChainStart):
    """Paths that a chain starts from, with the lineage until then.

    Documents start on the best tree of a search (`start_walks`), or tokens at random
    levels; then documents without a path take one, one after another, given those
    before.
    """

    priors: LevelPriors
    is_sought: bool = False  # whether a tree is looked for; not after a chunk
    node: Ints32 | None = None  # (n_docs, n_levels) as in `Paths`
    ids: Ints | None = None  # names of these nodes, level by level
    ended: Ints | None = None  # names that end if no node has them


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedState(ChainState):
    """State of a chain between two sweeps; its components are nodes, level by level."""

    paths: Paths
    priors: LevelPriors


class NestedChain(GibbsChain[NestedState]):
    """One Gibbs chain of the nested CRP: paths, levels and hyperparameters.

    `priors` are what is learned of the hyperparameters, `start` is where to go on,
    `number` that of the chain, where it starts, and `before` has counts of
    documents that are gone.
    """

    def __init__(
        self,
        tokens: Tokens,
        priors: NestedPriors,
        seed_entropy: int,
        start: NestedStart | NestedState,
        *,
        number: int = 0,
        before: NestedSample | None = None,
    ):
        """Restore a saved state, or start from paths, and name the nodes."""
        self.priors, self.seed_entropy = priors, seed_entropy
        self.pieces = pieces_of(tokens.begin, TOKENS_PER_PIECE)
        nodes = None if before is None else before.nodes()
        if isinstance(start, NestedState):
            _check_paths(start, tokens)
            self.walks = Walks(tokens, start.priors, start.paths, nodes)
            self.state = replace(start, lineage=list(start.lineage))
            return
        # Each document takes a path.
        rng = stream(seed_entropy, Purpose.START, number, start.step)
        if start.is_sought and nodes is None:
            self.walks = start_walks(tokens, start.priors, priors, rng)
        else:
            paths = Paths.at_random(tokens, start.priors, rng, start.node)
            self.walks = Walks(tokens, start.priors, paths, nodes)
        for _ in range(1 if start.node is None else LEVEL_SWEEPS):
            for begin, stop in self.pieces:
                self.walks.sweep(begin, stop, rng, LEVELS)
        ids = start.ids if before is None else before.component_ids[before.level_order]
        names = _named(self.walks.tidy(), ids)
        ended = np.zeros(0, np.intp) if start.ended is None else start.ended
        ids, next_id, log = rename(ended, names, start.next_id, start.step)
        if not start.lineage:
            log = [Lineage(start.step, "init", (), tuple(ids.tolist()))]
        self.state = NestedState(
            number=number,
            step=start.step,
            ids=ids,
            next_id=next_id,
            lineage=[*start.lineage, *log],
            begin=start.step,
            log_joint=self._log_joint(),
            paths=self.walks.paths(),
            priors=self.walks.priors,
        )

    # -- one sweep --------------------------------------------------------------------

    def _sweep(self, begin: int, stop: int, rng: np.random.Generator) -> None:
        """Resample paths and levels of one piece of the documents."""
        is_together = (self.state.step + 1) % TOGETHER_EVERY == 0
        self.walks.sweep(begin, stop, rng, TOGETHER if is_together else PATHS)

    def _end(self, rng: np.random.Generator) -> tuple[NestedState, list[Lineage]]:
        """Give nodes ids, draw hyperparameters; return the next state and its log."""
        state, walks = self.state, self.walks
        step, names = state.step + 1, _named(walks.tidy(), state.ids)
        ids, next_id, log = rename(state.ids, names, state.next_id, step)
        self.priors.resample(walks, rng)
        ended = replace(
            state,
            step=step,
            ids=ids,
            next_id=next_id,
            log_joint=self._log_joint(),
            paths=walks.paths(),
            priors=walks.priors,
        )
        return ended, log

    def _log_joint(self) -> float:
        total = self.walks.log_joint() + self.priors.log_density(self.walks)
        return total / max(len(self.walks.tokens), 1)

    def _restore(self, state: NestedState) -> None:
        self.walks.set_priors(state.priors)
        self.walks.restore(state.paths)

    # -- what it tells ----------------------------------------------------------------

    def trace(self) -> dict[str, object]:
        """Return the entries of the last complete sweep in the history."""
        priors, n_leaves = self.state.priors, int(self.walks.n_nodes[-1])
        return {
            **super().trace(),
            "n_leaves": max(n_leaves, 1),
            "child_concentration": priors.concentration,
            "topic_word_prior": tuple(priors.topic_prior.tolist()),
        }

    def sample(self, run: RunTasks = run_in_turn) -> NestedSample:
        """Copy what prediction reads of the present state."""
        state = self.state
        record = state.log_joint, state.number, state.step
        return NestedSample.of(self.walks, state.ids, *record)


def _named(former: Ints, ids: Ints | None) -> Ints:
    """Ids of nodes by their former numbers; -1 for new ones."""
    if ids is None:
        return np.full_like(former, -1)
    return np.where(former < 0, -1, ids[former])


def _check_paths(state: NestedState, tokens: Tokens) -> None:
    """Raise ValueError if saved paths are none of these documents."""
    node, level = state.paths.node, state.paths.level
    n_docs, n_levels = len(tokens.begin) - 1, state.priors.n_levels
    is_sound = (
        isinstance(node, np.ndarray)
        and isinstance(level, np.ndarray)
        and (node.dtype, node.shape) == (np.int32, (n_docs, n_levels))
        and (level.dtype, level.shape) == (np.uint8, (len(tokens),))
        and (level < n_levels).all()
        and all(
            (np.diff(np.unique(column), prepend=-1) == 1).all() for column in node.T
        )
        and len(state.ids) == max(int((node.max(axis=0, initial=-1) + 1).sum()), 1)
    )
    if not is_sound:
        raise ValueError("The saved paths of a chain are damaged.")
