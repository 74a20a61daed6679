"""Records of changes of the tree of an epoch of dependent trees, to be replayed.

A record names nodes by id and contains all that replaying needs. Replaying draws
nothing and judges nothing: the same records lead to the same tree, see `Tree.digest`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import numpy as np
import scipy.sparse as sp

from skbnp.inference.trials import Ids, TreeEdit
from skbnp.models.dependent_trees import state as bound
from skbnp.models.dependent_trees.epoch import NO_ROWS
from skbnp.models.dependent_trees.local import Memo, Naturals
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.updates import update_nodes, update_own_nodes
from skbnp.trees import Tree
from skbnp.utils.arrays import entries_of, rows_of
from skbnp.utils.typing import Array, Flags, Ints


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Record(TreeEdit):
    """A change of the tree of an epoch, and the nodes whose directions follow."""

    edit: Callable[[Tree], Tree]
    #: Nodes whose direction is updated, by their names after the change.
    touched: Ids = ()
    #: Those whose direction is updated before the directions of all that are touched.
    first: Ids = ()
    #: Nodes whose statistics change, the new one included, and these changes.
    change: tuple[Ints, EpochStats] | None = None

    @property
    def is_exchange(self) -> bool:
        """Whether names are exchanged."""
        return self.kind in ("exchange", "revive")

    def is_possible(self, tree: Tree) -> bool:
        """Whether the change can still be made after others have changed the tree."""
        try:
            self.edit(tree)
        except ValueError:
            return False
        return True


def birth(target: int, new: int, ids: Ints, change: EpochStats) -> Record:
    """Return the birth of the next node below a target, after its children.

    It takes rows from other nodes: `change` are the statistics of nodes `ids` with
    them less those before, so that rows are never counted twice.
    """
    return Record(
        kind="birth",
        parents=(target,),
        children=(target, new),
        edit=partial(Tree.add, parent=target),
        touched=(target, new),
        first=(new,),
        change=(ids, change),
    )


def merge(source: int, target: int) -> Record:
    """Return a merge: a sibling or the parent takes rows and children of a node."""
    return Record(
        kind="merge",
        parents=(target, source),
        children=(target,),
        merged_into={source: target},
        edit=partial(Tree.merge, source=source, target=target),
        touched=(target,),
    )


def attach(node: int, old: int, parent: int) -> Record:
    """Return a move of a node, with all below it, to another parent."""
    return Record(
        kind="reattach",
        parents=(node, parent),
        children=(node, parent),
        edit=partial(Tree.move, node=node, parent=parent),
        touched=(node, old, parent),
        first=(node,),
    )


def reverse(node: int, parent: int) -> Record:
    """Return the reversal of an edge: the parent of a node goes below it."""
    both = (node, parent)
    edit = partial(Tree.reverse, node=node, parent=parent)
    return Record(
        kind="reattach",
        parents=both,
        children=both,
        edit=edit,
        touched=both,
        first=both,
    )


def exchange(nodes: Ids, names: Ids) -> Record:
    """Return an exchange of names, pasts and shares of past rows; rows stay.

    One of the names may be that of a node that has ended, and is revived; then one of
    the nodes that began since ends.
    """
    return Record(
        kind="exchange" if set(names) == set(nodes) else "revive",
        parents=nodes,
        children=names,
        merged_into=dict(zip(nodes, names, strict=True)),
        edit=partial(Tree.rename, nodes=nodes, names=names),
        touched=names,
    )


def remove(node: int) -> Record:
    """Return the end of a leaf without rows."""
    edit = partial(Tree.remove, node=node)
    return Record(kind="prune", parents=(node,), merged_into={node: -1}, edit=edit)


def sort(ids: Ints) -> Record:
    """Return an order of siblings, that of all ids."""
    return Record(edit=partial(Tree.sorted_as, ids=ids))


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
    if any(record.is_exchange for record in records):
        return _in_turns(state, stats, priors, records)
    tree = state.tree
    for record in records:
        tree = record.edit(tree)
    merged_into = merged_into_of(records)
    changes = [record.change for record in records if record.change is not None]
    kept = stats.reindexed(state.tree, tree, merged_into)
    if changes:
        kept = _with_births(kept, tree, changes, merged_into)
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
    for exchanges, group in groupby(records, lambda one: one.is_exchange):
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
    stats: EpochStats,
    tree: Tree,
    of_births: Sequence[tuple[Ints, EpochStats]],
    merged_into: Mapping[int, int],
) -> EpochStats:
    """Return statistics with the rows of births at new nodes."""
    ids = [node for nodes, _ in of_births for node in nodes.tolist()]
    places = tree.positions([merged_into.get(node, node) for node in ids])
    changes = [change for _, change in of_births]
    masses = np.concatenate([change.masses for change in changes])
    entropies = np.concatenate([change.entropies for change in changes])
    sums = sp.csr_array(sp.vstack([change.sums for change in changes], format="csr"))
    stats = stats.plus(EpochStats(masses, sums, entropies).spread(places, len(tree)))
    return replace(stats, masses=np.maximum(stats.masses, 0.0))


def propose_removals(state: EpochState, stats: EpochStats) -> list[Record]:
    """Propose to remove leaves without rows, none in the window either."""
    tree = state.tree
    is_leaf = np.bincount(tree.parent[1:], minlength=len(tree)) == 0
    idle = is_leaf & (stats.masses < NO_ROWS) & (state.history <= 0.0)
    idle[0] = False
    return [remove(node) for node in tree.ids[idle].tolist()]


def replay_memo(memo: Memo, merged_into: Mapping[int, int]) -> Memo:
    """Move rows to the targets of their nodes; shares without a target are dropped.

    A row with weights at a node and at its target has their sum in one entry.
    """
    gone = np.array(sorted(merged_into), dtype=np.int32)
    is_gone = np.isin(memo.nodes, gone)
    rows = np.flatnonzero(is_gone.any(axis=1))
    if len(rows) == 0:
        return memo
    names = np.array([merged_into[node] for node in gone.tolist()], dtype=np.int32)
    nodes, weights = memo.nodes[rows], memo.weights[rows]
    there = is_gone[rows]
    nodes[there] = names[np.searchsorted(gone, nodes[there])]
    weights[nodes < 0] = 0.0
    n_best = nodes.shape[1]
    for one in range(n_best):
        for other in range(one + 1, n_best):
            same = (nodes[:, one] == nodes[:, other]) & (nodes[:, one] >= 0)
            weights[same, one] += weights[same, other]
            weights[same, other], nodes[same, other] = 0.0, -1
    order = np.argsort(-weights, axis=1, kind="stable")
    nodes = np.take_along_axis(nodes, order, axis=1)
    return memo.replaced(rows, Memo(nodes, np.take_along_axis(weights, order, axis=1)))


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
        at, places, new = _known_places(last, state)
        means = np.empty((len(state.tree), len(state.tree) + 1))
        means[:, -1] = state.means @ state.above
        if last is not None:
            for now, was in zip(at.tolist(), places.tolist(), strict=True):
                means[now, at] = last.means[was, places]  # no copy of all of them
        of_new = _products(state.means, state.means, new)
        means[:, new], means[new, :-1] = of_new, of_new.T
        of_previous = past = None
        if len(state.previous):
            of_previous = np.empty((len(state.previous), means.shape[1]))
            of_previous[:, -1] = state.previous @ state.above
            if last is not None and last.of_previous is not None:
                of_previous[:, at] = last.of_previous[:, places]
            of_previous[:, new] = _products(state.previous, state.means, new)
            past, old = np.zeros_like(means), state.places_with_past
            past[old] = of_previous[state.past[old]]
        rho = bound.prior_concentrations(state, priors)
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
            bound.log_normaliser_gain(rho**2, state.dimension),
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
        children, limits = self.tree.child_lists
        entries, ends = entries_of(limits, np.ravel([sources, targets], order="F"))
        below, pair = children[entries], rows_of(ends[::2])
        below, pair = (one[below != sources[pair]] for one in (below, pair))
        ends = np.searchsorted(pair, np.arange(len(sources) + 1))
        given = naturals, spreads[targets], lengths[below], ends, self._pull
        gains, _ = bound.best_worths(*given, dimension)
        losses = bound.conjugate(lengths, spreads, dimension)
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
            gain[other] += bound.log_normaliser_gain(rho, self.dimension)
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
            gain += bound.log_normaliser_gain(rho**2, dimension)
            gain -= self.prior_worth[c][:, None]
        return gain


def _known_places(last: Products | None, state: EpochState) -> tuple[Ints, Ints, Ints]:
    """Places of nodes whose means are those of another state, those there, all others.

    Without another state there are none.
    """
    if last is None:
        none = np.empty(0, dtype=np.intp)
        return none, none, np.arange(len(state.tree))
    is_there, was = last.tree.find(state.tree.ids)
    is_there &= state.concentrations == last.concentrations[was]
    at = np.flatnonzero(is_there)
    return at, was[at], np.flatnonzero(~is_there)


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
    return np.asarray(-bound.log_normaliser_gain(counts, dimension) / shares)
