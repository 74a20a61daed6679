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

from skbnp.distributions import expansion
from skbnp.inference.posterior import Lineage
from skbnp.kernels import _directions as kernels
from skbnp.models.dependent_trees.epoch import NO_ROWS
from skbnp.models.dependent_trees.local import Memo, Naturals
from skbnp.models.dependent_trees.state import (
    EpochState,
    EpochStats,
    TreePriors,
    conjugate,
    log_normaliser_gain,
    prior_concentrations,
)
from skbnp.models.dependent_trees.updates import update_nodes, update_own_nodes
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Flags, Ints


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


# Products of all pairs of directions of dependent trees, by which moves are ranked.
#
# With n the natural parameter of a node by priors, rows and children, its direction
# contributes h(|n|; v) + log C_V(rho): the values of a merged node, or of a node below
# another parent, follow from inner products alone. In rankings, the change of the
# spread of children with the length of their parent's mean is of first order; the
# effect of children with a past on their priors is left out. Moves are judged by exact
# differences.


#: Pairs whose logarithms are taken at a time, and rows of them.
PAIRS, ROWS = 1 << 17, 128
#: Share of the nodes from which products with all are made in single precision.
MANY = 0.25


@dataclass(frozen=True, slots=True)
class Products:
    """Inner products of means, and with the past and what is above the root.

    No reference to the state is kept: its directions are large.
    """

    tree: Tree
    concentrations: Array  # (n_nodes,)
    prior_concentration: float
    parent_weights: Array  # (n_nodes,) k1
    has_past: Flags  # (n_nodes,)
    dimension: int
    priors: TreePriors
    means: Array  # (n_nodes, n_nodes + 1) E_a'E_b; last: with what is above the root
    past: Array | None  # (n_nodes, n_nodes + 1) mu_a^(t-1)'E_b; last: as above
    of_previous: Array | None  # (n_before, n_nodes + 1) of those that ended too
    naturals: Naturals  # by position
    scale: Array  # (n_nodes,) |n| / |E|
    worth: Array  # (n_nodes,) h(s |n|; v) / s; without the value at zero
    prior_worth: Array  # (n_nodes,) log C_V(rho) - log C_V(0)

    @classmethod
    def of(
        cls, state: EpochState, priors: TreePriors, last: "Products | None" = None
    ) -> "Products":
        """Compute products of all pairs, except those known from another state.

        A node whose concentration is the same has the same mean.
        """
        known = _Known.of(last, state)
        means = _products_of_means(state, known)
        of_previous, past = _products_of_previous(state, known), None
        if of_previous is not None:
            past, old = np.zeros_like(means), state.places_with_past
            past[old] = of_previous[state.past[old]]
        rho = prior_concentrations(state, priors)
        naturals = Naturals.of(state, priors).by_position(state.tree)
        lengths, shares = naturals.lengths, naturals.shares
        np.fill_diagonal(means, naturals.mean_lengths**2)
        return cls(
            state.tree,
            state.concentrations,
            state.prior_concentration,
            state.parent_weights(state.places, priors),
            state.past >= 0,
            state.dimension,
            priors,
            means,
            past,
            of_previous,
            naturals,
            lengths / np.maximum(naturals.mean_lengths, 1e-300),
            _worth(lengths**2, shares, naturals.spreads, state.dimension),
            log_normaliser_gain(rho**2, state.dimension),
        )

    def merges(self, sources: Ints, targets: Ints) -> Array:
        """Approximate gains of directions if sources merge into targets, by pair.

        Targets are siblings of the sources, or their parents. Of two pasts the better
        one is kept.
        """
        gains = np.empty(len(sources))
        for begin in range(0, len(sources), PAIRS):
            some = slice(begin, begin + PAIRS)
            gains[some] = self._best(self._merges, sources[some], targets[some])
        return gains

    def _best(
        self, gains_of: Callable[[Ints, Ints, Ints], Array], a: Ints, b: Ints
    ) -> Array:
        """Gains by pair, with the past of a or of b, whichever is better."""
        gains = gains_of(a, b, a)
        both = np.flatnonzero(self.has_past[a] & self.has_past[b])
        if len(both):
            other = gains_of(a[both], b[both], b[both])
            gains[both] = np.maximum(gains[both], other)
        return gains

    def _merges(self, a: Ints, b: Ints, ended: Ints) -> Array:
        """Approximate gains by pair if the past of `ended` ends."""
        squares = self._merged_squares(a, b, ended)
        shares, spreads = self.naturals.shares[b], self.naturals.spreads[b]
        worth = _worth(squares, shares, spreads, self.dimension)
        worth -= self.worth[a] + self.worth[b]
        return worth + self._ended_priors(a, b, ended)

    def exact_merges(self, sources: Ints, targets: Ints) -> Array:
        """As `merges`, with updated spreads; lengths of children are fixed."""
        return self._best(self._exact_merges, sources, targets)

    def _exact_merges(self, sources: Ints, targets: Ints, ended: Ints) -> Array:
        """Gains by pair with updated spreads, if the past of `ended` ends."""
        parent, dimension = self.tree.parent, self.dimension
        spreads = self.naturals.spreads
        lengths = np.sqrt(np.diagonal(self.means))
        squares = self._merged_squares(sources, targets, ended)
        naturals = np.sqrt(np.maximum(squares, 0.0))
        gains, (children, limits) = np.empty(len(sources)), self.tree.child_lists
        kernels.merged_worths(
            sources,
            targets,
            naturals,
            spreads,
            lengths,
            children,
            limits,
            self._pull,
            np.empty(len(lengths)),
            gains,
            expansion(dimension),
        )
        losses = conjugate(lengths, spreads, dimension)
        below = np.bincount(parent[1:], losses[1:], len(lengths))
        along = self.scale * lengths**2
        gains -= along[sources] - below[sources]
        gains -= along[targets] - losses[targets] - below[targets]
        # The term of a child is among those of its parent already.
        gains += np.where(parent[sources] == targets, 0.0, losses[sources])
        return np.asarray(gains + self._ended_priors(sources, targets, ended))

    def _ended_priors(self, a: Ints, b: Ints, ended: Ints) -> Array:
        """Terms of the priors of sources, which end; also for merges into parents."""
        pulls = self._pull * (self.tree.parent[a] == b) * self.means[a, b]
        gain = pulls - self.prior_worth[a]
        other = np.flatnonzero(ended != a)
        if self.past is not None and len(other):  # of the target, with another past
            a, b, w2 = a[other], b[other], self.priors.past_weight
            w1 = self.parent_weights[b]
            rho = w1**2 + w2**2 + 2.0 * w1 * w2 * self.past[a, self.tree.parent[b]]
            rho = self.prior_concentration**2 * np.maximum(rho, 0.0)
            gain[other] += log_normaliser_gain(rho, self.dimension)
            gain[other] -= self.prior_worth[b]
        return np.asarray(gain)

    @property
    def _pull(self) -> float:
        return self.prior_concentration * self.priors.parent_weight

    def _merged_squares(self, a: Ints, b: Ints, ended: Ints) -> Array:
        """Squares of |n_a + n_b - p|, p the prior of a with the past of `ended`."""
        k0 = self.prior_concentration
        k1, k2 = k0 * self.priors.parent_weight, k0 * self.priors.past_weight
        up, E = self.tree.parent[a], self.means
        own = np.diagonal(E)
        # Terms between a target and a child that merges into it end.
        n_a, n_b = self.scale[a] - k1 * (up == b), self.scale[b]
        square = n_a**2 * own[a] + n_b**2 * own[b] + 2.0 * n_a * n_b * E[a, b]
        square += k1**2 * own[up]
        square -= 2.0 * k1 * (n_a * E[a, up] + n_b * E[b, up])
        if self.past is not None:
            P, there = self.past, self.has_past[ended]
            square += k2**2 * there + 2.0 * k1 * k2 * P[ended, up]
            square -= 2.0 * k2 * (n_a * P[ended, a] + n_b * P[ended, b])
        return np.asarray(square)

    def attachments(self, nodes: Ints, parents: Ints) -> Array:
        """Approximate gains of directions if each node goes below each parent."""
        gains = np.empty((len(nodes), len(parents)))
        for begin in range(0, len(nodes), ROWS):
            rows = slice(begin, begin + ROWS)
            gains[rows] = self._attachments(nodes[rows], parents)
        return gains

    def _attachments(self, c: Ints, b: Ints) -> Array:
        """Approximate gains if nodes c go below b, by pair."""
        k0, dimension = self.prior_concentration, self.dimension
        w1, w2 = self.priors.parent_weight, self.priors.past_weight
        k1, up, E = k0 * w1, self.tree.parent[c], self.means
        own = np.diagonal(E)
        at = np.ix_(c, b)
        n = self.scale[c][:, None]
        square = n**2 * own[c][:, None]
        square = square + 2.0 * k1 * n * (E[at] - E[c, up][:, None])
        separate = own[b][None] + own[up][:, None] - 2.0 * E[np.ix_(up, b)]
        square += k1**2 * np.maximum(separate, 0.0)
        spread = k1**2 * np.maximum(1.0 - own[b], 0.0)[None]
        gain = _worth(square, self.naturals.shares[c][:, None], spread, dimension)
        gain -= self.worth[c][:, None]
        if self.past is not None:
            there = np.asarray(self.past[c].any(axis=1))[:, None]
            rho = w1**2 + there * (w2**2 + 2.0 * w1 * w2 * self.past[at])
            rho = k0 * np.sqrt(np.maximum(rho, 0.0))
            gain += log_normaliser_gain(rho**2, dimension)
            gain -= self.prior_worth[c][:, None]
        return gain


@dataclass(frozen=True, slots=True)
class _Known:
    """Nodes whose means are those of another state of the epoch, if there is one."""

    last: Products | None
    at: Ints  # their places now
    places: Ints  # and there
    new: Ints  # places of all others

    @classmethod
    def of(cls, last: Products | None, state: EpochState) -> "_Known":
        """Compare the concentrations of two states."""
        if last is None:
            nodes = np.arange(len(state.tree))
            return cls(None, nodes[:0], nodes[:0], nodes)
        is_there, was = last.tree.find(state.tree.ids)
        is_there &= state.concentrations == last.concentrations[was]
        at, new = np.flatnonzero(is_there), np.flatnonzero(~is_there)
        return cls(last, at, was[at], new)


def _products_of_means(state: EpochState, known: _Known) -> Array:
    """Return products of means with each other and with what is above the root."""
    n_nodes, at, new = len(state.tree), known.at, known.new
    products = np.empty((n_nodes, n_nodes + 1))
    products[:, -1] = state.means @ state.above
    if known.last is not None:
        last = known.last.means
        for now, was in zip(at.tolist(), known.places.tolist(), strict=True):
            products[now, at] = last[was, known.places]  # no copy of all of them
    of_new = _products(state.means, state.means, new)
    products[:, new], products[new, :-1] = of_new, of_new.T
    return products


def _products_of_previous(state: EpochState, known: _Known) -> Array | None:
    """Return products of previous directions with these; None if there are none."""
    if len(state.previous) == 0:
        return None
    products = np.empty((len(state.previous), len(state.tree) + 1))
    products[:, -1] = state.previous @ state.above
    if known.last is not None and known.last.of_previous is not None:
        products[:, known.at] = known.last.of_previous[:, known.places]
    products[:, known.new] = _products(state.previous, state.means, known.new)
    return products


def _products(directions: Array, means: Array, nodes: Ints) -> Array:
    """Return products of directions with the means of some nodes.

    If nodes are many in single precision, which takes half of the time and has errors
    of 1e-7 of natural parameters: thousandths of a nat, but some nats between nodes of
    ten thousand rows. The products rank moves, which are judged exactly.
    """
    if len(nodes) < MANY * len(means):
        return np.asarray(directions @ means[nodes].T)
    one = directions.astype(np.float32)
    other = one if directions is means else means.astype(np.float32)
    return np.asarray(one @ (other if len(nodes) == len(means) else other[nodes]).T)


def _worth(squares: Array, shares: Array, spreads: Array, dimension: int) -> Array:
    """H of natural parameters by their squared lengths, of which a share counts.

    The constant h(0; 0), which is large, is left out.
    """
    counts = np.maximum(squares, 0.0) * shares**2 + spreads
    return np.asarray(-log_normaliser_gain(counts, dimension) / shares)
