"""Records of changes of the tree of an epoch of dependent trees, to be replayed.

A record names nodes by id and contains all that replaying needs. Replaying draws
nothing and judges nothing: the same records lead to the same tree, see `Tree.digest`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from skbnp.inference.posterior import Lineage
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.moves.settings import NO_ROWS
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.updates import update_nodes, update_own_nodes
from skbnp.trees import Tree
from skbnp.utils.typing import Ints


class Record:
    """A change of the tree of an epoch; fields of subclasses are ids of nodes."""

    __slots__ = ()
    #: Name of the change in the lineage; None where users do not see it.
    kind: ClassVar[str | None] = None
    #: Fields that name nodes whose direction is updated, by names after the change.
    updated: ClassVar[tuple[str, ...]] = ()
    #: Those whose direction is updated before the directions of all of `updated`.
    updated_first: ClassVar[tuple[str, ...]] = ()
    #: Parents and children of the entry in the lineage; by default those of `updated`.
    logged: ClassVar[tuple[tuple[str, ...], tuple[str, ...]] | None] = None
    #: Method of trees that makes the change, and the fields that it reads.
    made_by: ClassVar[tuple[Callable[..., Tree], tuple[str, ...]]]

    def _ids(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Ids of nodes in some fields."""
        return tuple(getattr(self, name) for name in names)

    @property
    def touched(self) -> tuple[int, ...]:
        """Nodes whose direction is updated, by their names after the change."""
        return self._ids(self.updated)

    @property
    def first(self) -> tuple[int, ...]:
        """Nodes whose direction is updated before those of all that are touched."""
        return self._ids(self.updated_first)

    @property
    def merged_into(self) -> dict[int, int]:
        """Node that takes the rows of each node that ends or is renamed; -1 is none."""
        return {}

    @property
    def nodes_concerned(self) -> set[int]:
        """Nodes that are touched, renamed or ended, by names before and after."""
        moved = self.merged_into
        return {*self.touched, *moved, *moved.values()} - {-1}

    @property
    def lineage(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Parents and children of the entry in the lineage."""
        parents, children = self.logged or (self.updated, self.updated)
        return self._ids(parents), self._ids(children)

    def is_possible(self, tree: Tree) -> bool:
        """Whether the change can still be made after others have changed the tree."""
        return True

    def edit(self, tree: Tree) -> Tree:
        """Return the changed tree."""
        make, names = self.made_by
        return make(tree, *self._ids(names))

    def entry(self, step: int) -> Lineage | None:
        """Return the entry of the change in the lineage."""
        return None if self.kind is None else Lineage(step, self.kind, *self.lineage)


@dataclass(frozen=True, slots=True)
class Birth(Record):
    """A new child of the target, after its siblings, with rows from other nodes.

    The former statistics of each row that it takes are subtracted in the same update,
    so that rows are never counted twice.
    """

    kind: ClassVar[str] = "birth"
    updated = ("target", "new")
    updated_first = ("new",)
    logged = (("target",), ("target", "new"))
    target: int
    new: int
    ids: Ints  # nodes whose statistics change, the new one included
    change: EpochStats  # in the order of `ids`

    def edit(self, tree: Tree) -> Tree:
        """Return the changed tree."""
        return tree.add(self.target, first_id=self.new)


@dataclass(frozen=True, slots=True)
class Merge(Record):
    """The target, a sibling or the parent, takes rows and children of the source."""

    kind: ClassVar[str] = "merge"
    updated = ("target",)
    logged = (("target", "source"), ("target",))
    made_by = Tree.merge, ("source", "target")
    source: int
    target: int

    @property
    def merged_into(self) -> dict[int, int]:
        """Node that takes the rows of each node that ends or is renamed; -1 is none."""
        return {self.source: self.target}

    def is_possible(self, tree: Tree) -> bool:
        """Whether the change can still be made after others have changed the tree."""
        return self.source in tree and self.target in tree


@dataclass(frozen=True, slots=True)
class Attach(Record):
    """A node, with all below it, goes below another parent."""

    kind: ClassVar[str] = "reattach"
    updated = ("node", "old", "parent")
    updated_first = ("node",)
    logged = (("node", "parent"), ("node", "parent"))
    made_by = Tree.move, ("node", "parent")
    node: int
    old: int
    parent: int

    def is_possible(self, tree: Tree) -> bool:
        """Whether the change can still be made after others have changed the tree."""
        return not tree.is_ancestor(self.node, self.parent)


@dataclass(frozen=True, slots=True)
class Reverse(Record):
    """A node takes the place of its parent, which goes below it."""

    kind: ClassVar[str] = "reattach"
    updated = updated_first = ("node", "parent")
    made_by = Tree.reverse, ("node",)
    node: int
    parent: int

    def is_possible(self, tree: Tree) -> bool:
        """Whether the change can still be made after others have changed the tree."""
        return tree.parent_of(self.node) == self.parent


@dataclass(frozen=True, slots=True)
class Exchange(Record):
    """Nodes exchange names, pasts and shares of past rows; rows stay.

    One of the names may be that of a node that has ended, and is revived; then one of
    the nodes that began since ends.
    """

    nodes: tuple[int, ...]
    names: tuple[int, ...]  # that they have then

    @property
    def touched(self) -> tuple[int, ...]:
        """Nodes whose direction is updated, by their new names."""
        return self.names

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Name of the change in the lineage."""
        return "revive" if self.brings_back else "exchange"

    @property
    def brings_back(self) -> bool:
        """Whether a node that has ended comes back."""
        return set(self.names) != set(self.nodes)

    @property
    def merged_into(self) -> dict[int, int]:
        """Node that takes the rows of each node that ends or is renamed; -1 is none."""
        return dict(zip(self.nodes, self.names, strict=True))

    @property
    def lineage(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Parents and children of the entry in the lineage."""
        return self.nodes, self.names

    def edit(self, tree: Tree) -> Tree:
        """Return the changed tree."""
        ids = tree.ids.copy()
        ids[tree.positions(self.nodes)] = self.names
        return Tree(ids, tree.depth, next_id=tree.next_id)


@dataclass(frozen=True, slots=True)
class Remove(Record):
    """A leaf without rows is removed."""

    kind: ClassVar[str] = "prune"
    logged = (("node",), ())
    made_by = Tree.remove, ("node",)
    node: int

    @property
    def merged_into(self) -> dict[int, int]:
        """Node that takes the rows of each node that ends or is renamed; -1 is none."""
        return {self.node: -1}


@dataclass(frozen=True, slots=True)
class Sort(Record):
    """Siblings are sorted in the order of the ids in the record."""

    ids: Ints

    def edit(self, tree: Tree) -> Tree:
        """Return the changed tree."""
        rank = np.empty(len(tree), dtype=np.intp)
        rank[tree.positions(self.ids)] = np.arange(len(tree))
        return tree.sort_siblings(rank)


def merged_into_of(records: Iterable[Record]) -> dict[int, int]:
    """Return the node that takes the rows of each that ended or was renamed; or -1."""
    merged_into: dict[int, int] = {}
    for record in records:
        moved = record.merged_into
        later = {one: moved.get(has, has) for one, has in merged_into.items()}
        merged_into = {**moved, **later}
    return merged_into


def replay(
    state: EpochState, stats: EpochStats, priors: TreePriors, records: Sequence[Record]
) -> tuple[EpochState, EpochStats]:
    """Apply records to tree and statistics, one after another.

    Then sticks and directions are updated: first those of new nodes and of nodes that
    moved, then those of all touched nodes, from the root down. Nothing is drawn and
    nothing is judged.
    """
    if not records:
        return state, stats
    if any(isinstance(record, Exchange) for record in records):
        return _in_turns(state, stats, priors, records)
    tree = state.tree
    for record in records:
        tree = record.edit(tree)
    merged_into = merged_into_of(records)
    births = [record for record in records if isinstance(record, Birth)]
    kept = stats.reindexed(state.tree, tree, merged_into)
    if births:
        kept = _with_births(kept, tree, births, merged_into)
    new = state.resized(tree)
    for gone, target in merged_into.items():
        if target >= 0 and gone in state.tree:
            at = state.tree.positions(gone)
            new.history[tree.positions(target)] += state.history[at]
    new = replace(new, masses=kept.masses)
    moved = {node for record in records for node in record.first}
    first = {merged_into.get(node, node) for node in moved} - {-1}
    new = update_own_nodes(new, kept, priors, np.array(sorted(first), dtype=np.intp))
    touched = {node for record in records for node in record.touched}
    ids = np.array(
        sorted(merged_into.get(node, node) for node in touched), dtype=np.intp
    )
    return update_own_nodes(new, kept, priors, ids), kept


def _in_turns(
    state: EpochState, stats: EpochStats, priors: TreePriors, records: Sequence[Record]
) -> tuple[EpochState, EpochStats]:
    """Replay records of which some exchange names; adjacent exchanges count as one."""
    for exchanges, group in groupby(records, lambda one: isinstance(one, Exchange)):
        some = list(group)
        if exchanges:
            touched = np.unique([name for one in some for name in one.touched])
            state = update_nodes(_exchanged(state, some), stats, priors, touched)
        else:
            state, stats = replay(state, stats, priors, some)
    return state, stats


def _exchanged(state: EpochState, records: Sequence[Record]) -> EpochState:
    """Return the state with names and pasts exchanged, also with ended nodes.

    Ended nodes have no past rows: the targets of their merges have those of this epoch.
    """
    tree = state.tree
    for record in records:
        tree = record.edit(tree)
    there = np.isin(tree.ids, state.tree.ids)
    places = state.tree.positions(tree.ids[there])
    history, past = np.zeros(len(tree)), np.empty(len(tree), dtype=np.intp)
    history[there], past[there] = state.history[places], state.past[places]
    rows = {name: row for row, name in enumerate(state.past_ids.tolist())}
    past[~there] = [rows[name] for name in tree.ids[~there].tolist()]
    return replace(state, tree=tree, history=history, past=past)


def _with_births(
    stats: EpochStats, tree: Tree, births: Sequence[Birth], merged_into: dict[int, int]
) -> EpochStats:
    """Return statistics with the rows of births at new nodes."""
    ids = [node for birth in births for node in birth.ids.tolist()]
    places = tree.positions([merged_into.get(node, node) for node in ids])
    changes = [birth.change for birth in births]
    masses = np.concatenate([change.masses for change in changes])
    entropies = np.concatenate([change.entropies for change in changes])
    sums = sp.csr_array(sp.vstack([change.sums for change in changes], format="csr"))
    stats = stats.plus(EpochStats(masses, sums, entropies).spread(places, len(tree)))
    return replace(stats, masses=np.maximum(stats.masses, 0.0))


def propose_removals(state: EpochState, stats: EpochStats) -> list[Remove]:
    """Propose to remove leaves without rows, none in the window either."""
    tree = state.tree
    is_leaf = np.bincount(tree.parent[1:], minlength=len(tree)) == 0
    idle = is_leaf & (stats.masses < NO_ROWS) & (state.history <= 0.0)
    idle[0] = False
    return [Remove(node) for node in tree.ids[idle].tolist()]


def replay_memo(memo: Memo, records: Sequence[Record]) -> Memo:
    """Move rows to the targets of their nodes; shares without a target are dropped.

    A row with weights at a node and at its target has their sum in one entry.
    """
    merged_into = merged_into_of(records)
    gone = np.array(sorted(merged_into), dtype=np.int32)
    is_gone = np.isin(memo.nodes, gone)
    rows = np.flatnonzero(is_gone.any(axis=1))
    if len(rows) == 0:
        return memo
    names = np.array([merged_into[node] for node in gone.tolist()], dtype=np.int32)
    nodes, weights, scores = memo.nodes[rows], memo.weights[rows], memo.scores[rows]
    there = is_gone[rows]
    nodes[there] = names[np.searchsorted(gone, nodes[there])]
    weights[nodes < 0] = 0.0
    n_best = nodes.shape[1]
    for one in range(n_best):
        for other in range(one + 1, n_best):
            same = (nodes[:, one] == nodes[:, other]) & (nodes[:, one] >= 0)
            weights[same, one] += weights[same, other]
            scores[same, one] = np.maximum(scores[same, one], scores[same, other])
            weights[same, other], nodes[same, other] = 0.0, -1
    order = np.argsort(-weights, axis=1, kind="stable")
    changed = {}
    for name, new in (("nodes", nodes), ("weights", weights), ("scores", scores)):
        values = getattr(memo, name).copy()
        values[rows] = np.take_along_axis(new, order, axis=1)
        changed[name] = values
    return replace(memo, **changed)
