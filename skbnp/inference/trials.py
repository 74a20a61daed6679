"""Trials of edits of trees: a proposal learns for some rounds, and is kept or rejected.

Rows that it touches get a local step under the edited components; all others keep their
statistics. A kind of move lists its candidates, the most promising first, as tuples of
ids by which rejected ones are recorded, and makes proposals of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skbnp.components.tree_sticks import TreeMoves
from skbnp.inference.engine import Learner
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor, discarding
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Moves
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints

Ids = tuple[int, ...]
T = TypeVar("T")

#: Of edits by which no node ends.
NO_MERGES: Mapping[int, int] = {}

#: Nats by which a move must raise the bound that adds components.
LEAST_GAIN = 1.0
#: Relative rounding errors of a bound: a move that removes some may lose so much.
ROUNDING = 1e-10
#: A trial ends when a round makes up for less than this part of what is missing.
LEAST_RISE = 0.1
#: Passes until a rejected move is tried again, doubled with each rejection.
WAIT = 4


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TreeEdit:
    """A change of a tree, by ids of its nodes."""

    kind: str | None = None  # name of the move in the log; None: not in the log
    parents: Ids = ()  # ids that it changes or ends
    children: Ids = ()  # ids that live on, or begin
    #: Node that takes what each node has that ends or is renamed; -1: none.
    merged_into: Mapping[int, int] = field(default_factory=dict)

    def entry(self, step: int) -> Lineage | None:
        """Return the entry of the change in the lineage."""
        if self.kind is None:
            return None
        return Lineage(step, self.kind, self.parents, self.children)


@dataclass(frozen=True, eq=False, slots=True)
class Proposal(TreeEdit):
    """An edited tree with the globals that it starts from, and the rows it touches."""

    state: Any
    rows: Any

    @property
    def tree(self) -> Tree:
        """The edited tree."""
        return self.state.tree

    def reindexed(self, stats: Any, old: Tree) -> Any:
        """Re-index statistics from the old tree's nodes to the new tree's."""
        return stats.reindex_to(old, self.tree, self.merged_into)


@dataclass(frozen=True, slots=True)
class Context:
    """Base of what proposals read: the learner and its present tree."""

    posterior: Posterior
    rng: np.random.Generator

    proposal: ClassVar[type[Proposal]] = Proposal

    @property
    def tree(self) -> Tree:
        """The present tree."""
        return self.posterior.state.tree

    @property
    def masses(self) -> Array:
        """Expected rows of each stub, (n_nodes,)."""
        return self.posterior.global_stats.stub_masses

    @property
    def n_levels(self) -> int:
        """Depth of the tree, root included."""
        return self.posterior.model.n_levels

    @abstractmethod
    def touching(self, ids: Ints) -> Any:
        """Rows with a share in any of some stubs."""

    @abstractmethod
    def edited(self, tree: Tree, merged_into: Mapping[int, int] = NO_MERGES) -> Any:
        """Return the globals re-indexed to an edited tree; new nodes have zeros."""

    def below(self, node: int) -> Any:
        """Rows with a share of a node."""
        return self.touching(self.tree.subtree_of(node))

    def has_room(self, tree: Tree) -> bool:
        """Whether a tree has at most the largest number of nodes."""
        return len(tree) <= max(self.posterior.max_components, len(self.tree))

    def at_random(self, places: Ints, weights: NDArray) -> list[Ids]:
        """Candidates of single nodes in random order, by their weights."""
        waits = self.rng.standard_exponential(len(places))
        order = np.argsort(waits / np.maximum(weights[places], 1e-9))
        return [(node,) for node in self.tree.ids[places[order]].tolist()]

    def propose(
        self,
        kind: str,
        parents: Iterable[int],
        children: Iterable[int],
        tree: Tree,
        touched: ArrayLike,
        merged_into: Mapping[int, int] = NO_MERGES,
    ) -> Any:
        """Propose an edited tree, for the rows of the stubs that it touches."""
        return self.proposal(
            self.edited(tree, merged_into),
            self.touching(np.array(touched)),
            kind=kind,
            parents=tuple(parents),
            children=tuple(children),
            merged_into=merged_into,
        )


#: Globals, statistics of all rows, and the memo of the rows that a move touches.
Result = tuple[Any, Any, Any]
#: A result and the statistics of all other rows, to the next result.
LocalUpdate = Callable[[Any, Any, Any, Any], Result]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of move: its candidates, and the proposal of a candidate."""

    name: str
    candidates: Callable[..., list[Ids]]
    make: Callable[..., Proposal | None]
    grows: bool = False
    ignores_bound: bool = False  # all candidates are made, whatever the bound


class Rejections:
    """Numbers of passes that rejected proposals wait; doubled by each rejection."""

    _waits: dict[tuple, tuple[int, int]]  # pass to wait for, how long

    def __init__(self) -> None:
        self._waits = {}

    def is_over(self, key: tuple, n_passes: int) -> bool:
        """Whether a proposal may be tried in pass `n_passes`."""
        return self._waits.get(key, (0, 0))[0] <= n_passes

    def add(self, key: tuple, n_passes: int) -> None:
        """Record that a proposal was rejected in pass `n_passes`."""
        wait = max(2 * self._waits.get(key, (0, 0))[1], WAIT)
        self._waits[key] = n_passes + wait, wait

    def forget(self, key: tuple) -> None:
        """Remove the record of a proposal, which may be tried again."""
        self._waits.pop(key, None)


def run_rounds(
    rounds: Iterator[tuple[float, T]],
    bound: float,
    least: float,
    n_rounds: int,
    n_at_most: int,
) -> tuple[float, T]:
    """Run the rounds of a candidate while its bound may still rise enough.

    `rounds` yields the bound after each round, and the result. The bound without the
    edit is `bound`, and `least` the nats by which it must rise. A candidate that is
    behind after `n_rounds`, but still gains enough, continues until it is ahead or has
    made `n_at_most`. One that would stay behind if each round left raised its bound as
    much as the last one did ends there, as rises decrease. Returns the last bound and
    result.
    """
    value = -np.inf
    for n_done in range(1, n_at_most + 1):
        before, (value, result) = value, next(rounds)
        is_ahead = value > bound + least
        needed = max(LEAST_RISE, 1.0 / max(n_at_most - n_done, 1))
        if value - before < needed * (bound + least - value):
            break
        if is_ahead and n_done >= n_rounds:
            break
    return value, result


class Judge(Moves):
    """Base of moves that are made if the bound of all rows rises."""

    #: Globals whose bound was computed last, and that bound: rejected moves leave it.
    _present: tuple[Any, Any, Any, float] | None = None

    def bound(self, posterior: Posterior) -> float:
        """Bound of the present globals, cached for many proposals."""
        seen = posterior.model, posterior.state, posterior.global_stats
        last = self._present
        if last is None or any(a is not b for a, b in zip(last, seen, strict=False)):
            self._present = last = (*seen, bound_of(posterior))
        return last[3]


class EditMoves(Judge):
    """Base of moves of trees after passes, each judged by itself."""

    #: Rounds of a trial that still gains, at most, in numbers of its usual rounds.
    overtime: ClassVar[int] = 1

    moves: TreeMoves
    rejections: Rejections

    def __init__(self, moves: TreeMoves):
        self.moves, self.rejections = moves, Rejections()

    @abstractmethod
    def least_gain(self, learner: Learner, new: Tree) -> float:
        """Nats by which the bound must rise for a tree in the place of the present."""

    @abstractmethod
    def prepare(self, learner: Learner, proposal: Any) -> tuple[Any, LocalUpdate]:
        """Statistics of the rows that a proposal does not touch; the step of others.

        The step updates the touched rows, then the globals, given the result before and
        the statistics of all other rows.
        """

    def try_kind(
        self, learner: Learner, kind: Kind, context: Any, monitor: Monitor
    ) -> int:
        """Try the candidates of a kind; return the number of accepted ones."""
        n_accepted, n_tries, now = 0, 0, learner.n_passes
        for ids in kind.candidates(context):
            key = (kind.name, *ids)
            is_enough = n_tries == self.moves.max_tries and not kind.ignores_bound
            has_ended = ids[0] not in context.tree  # by an earlier move
            if is_enough or has_ended or not self.rejections.is_over(key, now):
                continue
            proposal = kind.make(context, *ids)
            if proposal is None or not context.has_room(proposal.tree):
                continue
            n_tries += 1
            monitor.remind(f"pass {now}: tries moves ({kind.name})")
            if self.attempt(learner, proposal, ignores_bound=kind.ignores_bound):
                n_accepted += 1
            else:
                self.rejections.add(key, now)
        return n_accepted

    def attempt(
        self,
        learner: Learner,
        proposal: Any,
        *,
        least: float | None = None,
        ignores_bound: bool = False,
    ) -> bool:
        """Run local steps of the rows of a proposal; make it if the bound rises.

        By at least `least` nats, by default `least_gain`, unless it `ignores_bound`.
        """
        gain, result = self.judge(learner, proposal, least)
        if not (ignores_bound or gain > 0.0):
            return False
        self.make(learner, proposal, result)
        return True

    def judge(
        self, learner: Learner, proposal: Any, least: float | None = None
    ) -> tuple[float, Result]:
        """Rise of the bound by a proposal, less the rise that it needs; the result."""
        bound, n_rounds = self.bound(learner.posterior), self.moves.max_rounds
        if least is None:
            least = self.least_gain(learner, proposal.tree)
        rounds, n_at_most = self._rounds(learner, proposal), self.overtime * n_rounds
        value, result = run_rounds(rounds, bound, least, n_rounds, n_at_most)
        return value - bound - least, result

    def _rounds(
        self, learner: Learner, proposal: Any
    ) -> Iterator[tuple[float, Result]]:
        """Yield the bound, and the result, after each update of the touched rows."""
        model, tree = learner.posterior.model, proposal.tree
        rest, update = self.prepare(learner, proposal)
        rest = proposal.reindexed(rest, learner.posterior.state.tree)
        result: Result = proposal.state, None, None
        while True:
            result = update(*result, rest)
            yield model.bound(*result[:2]), result
            if not np.array_equal(result[0].tree.ids, tree.ids):
                rest = rest.reindex_to(tree, result[0].tree)
                tree = result[0].tree

    def make(self, learner: Learner, proposal: Any, result: Result) -> None:
        """Write a proposal into globals, cache and log, in one commit."""
        cache, posterior = learner.cache, learner.posterior
        (state, stats, memo), others = result, cache.others
        if others is not None:
            others = proposal.reindexed(others, posterior.state.tree)
            others = others.reindex_to(proposal.tree, state.tree)
        with commit():
            cache.put(proposal.rows, memo)
            cache.others = others
            adopt(posterior, state, stats, [proposal.entry(0)])


def bound_of(posterior: Posterior) -> float:
    """Bound of all rows, in nats."""
    return posterior.model.bound(posterior.state, posterior.global_stats)


def idle_leaves(posterior: Posterior, least: float) -> list[int]:
    """Ids of leaves with fewer than `least` rows, except the root."""
    tree, masses = posterior.state.tree, posterior.global_stats.stub_masses
    leaves = tree.leaves[tree.leaves > 0]
    return tree.ids[leaves[masses[leaves] < least]].tolist()


@commit()
def adopt(
    posterior: Posterior, state: Any, global_stats: Any, log: Iterable[Lineage]
) -> None:
    """Replace the globals, and log what has changed at the present step, in place."""
    now = [entry._replace(step=posterior.n_steps) for entry in log]
    posterior.replace_globals(state, global_stats)
    posterior.lineage = [*posterior.lineage, *now]


def learn_by_moves(
    learner: Learner, n_passes: int, begin_pass: Callable[[], None] = lambda: None
) -> None:
    """Make passes until moves have ended, at most `n_passes`, without a trace."""
    quiet = discarding()
    for _ in range(n_passes):
        begin_pass()
        if learner.one_pass(quiet):
            break


def make_in_halves(
    make: Callable[[Sequence[T]], bool],
    moves: Sequence[T],
    is_possible: Callable[[T], bool] = lambda move: True,
) -> int:
    """Make moves together, in halves if these are rejected; return how many are made.

    Of the second half those that are possible once the first has been made.
    """
    if not moves:
        return 0
    if make(moves):
        return len(moves)
    if len(moves) == 1:
        return 0
    half = len(moves) // 2
    n_made = make_in_halves(make, moves[:half], is_possible)
    rest = [move for move in moves[half:] if is_possible(move)]
    return n_made + make_in_halves(make, rest, is_possible)


def without_overlap(moves: Iterable[T], nodes_of: Callable[[T], set[int]]) -> list[T]:
    """Return moves of which no two touch the same node, in their order."""
    used: set[int] = set()
    chosen = []
    for move in moves:
        nodes = nodes_of(move)
        if not used & nodes:
            used |= nodes
            chosen.append(move)
    return chosen


# Proposals that models share ----------------------------------------------------------


def list_leaves(context: Context) -> list[Ids]:
    """Candidates to prune: leaves, the lightest first."""
    tree = context.tree
    leaves = tree.leaves[tree.leaves > 0]
    order = np.argsort(context.masses[leaves], kind="stable")
    return [(leaf,) for leaf in tree.ids[leaves[order]].tolist()]


def propose_prune(context: Context, leaf: int) -> Any:
    """Propose to remove a leaf, and the nodes above that have no other leaf."""
    tree = context.tree
    if leaf not in tree or len(tree.children_of(leaf)):
        return None
    new = tree.remove_upwards(leaf)
    gone = np.setdiff1d(tree.ids, new.ids)
    return context.propose("prune", gone.tolist(), (), new, gone)


def propose_merge(context: Context, target: int, source: int) -> Any:
    """Propose to merge a node into its sibling, with the children of both."""
    tree, both = context.tree, (target, source)
    are_there = target in tree and source in tree
    if not are_there or tree.parent_of(target) != tree.parent_of(source):
        return None
    touched = np.concatenate([tree.subtree_of(node) for node in both])
    new, merged_into = tree.merge(source, target), {source: target}
    return context.propose("merge", both, (target,), new, touched, merged_into)


def propose_attachment(context: Context, node: int, parent: int) -> Any:
    """Propose to move a node, with the nodes below it, to another parent."""
    tree, both = context.tree, (node, parent)
    new = tree.reattach(node, parent)
    if new is None:
        return None
    gone = np.setdiff1d(tree.ids, new.ids)
    touched = np.union1d(tree.subtree_of(node), gone)
    return context.propose("reattach", (*both, *gone.tolist()), both, new, touched)


def list_inner_nodes(context: Context) -> list[Ids]:
    """Candidates to branch: inner nodes in random order, weighted by their rows."""
    tree = context.tree
    inner = np.flatnonzero(tree.depth < context.n_levels - 1)
    return context.at_random(inner, tree.accumulate(context.masses))


def list_attachments(
    context: Context, fits: Callable[[int, Ints], NDArray | None]
) -> list[Ids]:
    """Candidates to move: nodes and other parents, the largest gain of fit first.

    `fits` are those of the rows below a node, by position, below each of some parents;
    None where there are no rows.
    """
    tree, candidates = context.tree, []
    for place in np.flatnonzero(tree.depth > 1).tolist():
        parents = tree.levels[tree.depth[place] - 1]
        values = fits(place, parents) if len(parents) > 1 else None
        if values is None:
            continue
        own, names = parents == tree.parent[place], tree.ids[parents]
        costs = (values[own] - values)[~own].tolist()
        node = int(tree.ids[place])
        for cost, name in zip(costs, names[~own].tolist(), strict=True):
            candidates.append((cost, node, name))
    return [(node, parent) for _, node, parent in sorted(candidates)]
