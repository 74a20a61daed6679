"""Table of node scores that the local step of dependent trees reads, and their rise."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skbnp.kernels._sphere import TILE
from skbnp.models.dependent_trees.bound import lengths_and_spreads
from skbnp.models.dependent_trees.directions import (
    bessel_slope,
    natural_lengths,
    row_gains,
)
from skbnp.models.dependent_trees.state import EpochState, TreePriors
from skbnp.trees import Tree
from skbnp.utils.typing import Array, Ints

#: Relative rounding error of single precision.
UNIT = 2.0**-24
#: A score of which nothing is known.
ANYTHING = float(np.finfo(np.float32).max)
#: Tables since which it is known how far scores may have risen.
N_KEPT = 256


@dataclass(frozen=True, slots=True)
class Naturals:
    """Natural parameters of nodes as lengths along their means; columns go by id.

    If a node has children, a row moves its mean less: only a share of the natural
    parameter by priors and rows counts.
    """

    lengths: Array  # (n_nodes,) |n|, the share aside
    mean_lengths: Array  # (n_nodes,) |E|
    shares: Array  # (n_nodes,)
    spreads: Array  # (n_nodes,) v
    slopes: Array  # (n_nodes,) g
    dimension: int

    @classmethod
    def of(cls, state: EpochState, priors: TreePriors) -> "Naturals":
        """Compute natural parameters from the means of a state."""
        dimension = state.dimension
        lengths, spreads = lengths_and_spreads(state, priors)
        y = natural_lengths(lengths, spreads, dimension)
        slopes = bessel_slope(y * y + spreads, dimension)
        pull = state.prior_concentration * priors.parent_weight
        weights = np.bincount(
            state.tree.parent[1:], pull**2 * slopes[1:], len(state.tree)
        )
        shares = 1.0 / (1.0 + weights * slopes)
        places = cls(y / shares, lengths, shares, spreads, slopes, dimension)
        return places.taken(np.argsort(state.tree.ids))

    def taken(self, order: Ints) -> "Naturals":
        """Return the nodes in another order."""
        names = ("lengths", "mean_lengths", "shares", "spreads", "slopes")
        return replace(self, **{name: getattr(self, name)[order] for name in names})

    def by_position(self, tree: Tree) -> "Naturals":
        """Return the nodes in the order of the tree."""
        return self.taken(np.searchsorted(np.sort(tree.ids), tree.ids))

    def gains(self, columns: Ints, products: Array, own: Array, beta: float) -> Array:
        """Rise of the log normaliser of nodes if a row joins, (n_rows, n_columns).

        `products` are of rows and mean directions, `own` the shares of rows that are
        at the nodes already, and `beta` is the concentration of rows.
        """
        length = self.lengths[columns]
        scale = length / np.maximum(self.mean_lengths[columns], 1e-300)
        return row_gains(
            length**2,
            scale * products,
            own,
            beta,
            self.shares[columns],
            self.spreads[columns],
            self.dimension,
        )


@dataclass(frozen=True, slots=True)
class NodeTable:
    """What the local step reads of an epoch; columns go by id, new nodes last."""

    tree: Tree
    ids: Ints  # (n_nodes,) of columns, increasing
    directions: NDArray[np.float32]  # (n_tiles, n_columns, TILE) E
    log_weights: Array  # (n_tiles * TILE,) E log pi, -inf behind the last
    concentration: float  # beta
    naturals: "Naturals | None" = None  # for collapsed steps

    @classmethod
    def collapsed(cls, state: EpochState, priors: TreePriors) -> "NodeTable":
        """Return what rows read of an epoch in a collapsed step."""
        table = cls.of(state, priors)
        return replace(table, naturals=Naturals.of(state, priors))

    @classmethod
    def of(cls, state: EpochState, priors: TreePriors) -> "NodeTable":
        """Copy the means in single precision; unseen columns share one, of zeros."""
        n_nodes, n_columns = len(state.tree), state.n_columns
        places = np.argsort(state.tree.ids)
        n_tiles = -(-n_nodes // TILE)
        table = np.zeros((n_tiles, n_columns, TILE), dtype=np.float32)
        for tile in range(n_tiles):
            part = places[tile * TILE : (tile + 1) * TILE]
            table[tile, : state.width, : len(part)] = state.means[part].T
        log_weights = np.full(n_tiles * TILE, -np.inf)
        log_weights[:n_nodes] = state.log_weights(priors)[places]
        ids = state.tree.ids[places]
        return cls(state.tree, ids, table, log_weights, state.concentration)

    def columns(self, ids: NDArray[np.integer]) -> Ints:
        """Columns of nodes, -1 for those that are not there."""
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, at, -1)

    def rises(self, old: "NodeTable") -> Array:
        """Upper bound of the rise of scores of each node since an older table.

        |beta E - beta' E'| plus the rise of E log pi, for rows of length one, by
        column; infinite for new nodes. The error of single precision is added.
        """
        n_nodes, n_features = len(self.ids), self.directions.shape[1]
        rises, at_old = np.full(n_nodes, np.inf), old.columns(self.ids)
        beta, was_beta = np.float32(self.concentration), np.float32(old.concentration)
        relative = 1.0 + UNIT * n_features
        absolute = 4.0 * UNIT * float(max(beta, was_beta))
        for tile in range(len(self.directions)):
            part = slice(tile * TILE, min((tile + 1) * TILE, n_nodes))
            columns = part.start + np.flatnonzero(at_old[part] >= 0)
            was, lanes = at_old[columns], columns - part.start
            if len(was) and np.array_equal(was, columns):  # as they are stored
                now, then = self.directions[tile], old.directions[tile]
            else:
                now = self.directions[tile][:, lanes]
                then = old.directions[was // TILE, :, was % TILE].T
                lanes = np.arange(len(was))
            step = beta * now
            step -= was_beta * then
            squares = np.einsum("ij,ij->j", step, step)[lanes].astype(np.float64)
            weights = self.log_weights[columns] - old.log_weights[was]
            rises[columns] = relative * np.sqrt(squares) + absolute
            rises[columns] += np.maximum(weights, 0.0)
        return rises

    def by_tile(self, rises: Array) -> Array:
        """Return the largest value of each tile, (n_tiles,)."""
        padded = np.full(len(self.log_weights), -np.inf)
        padded[: len(rises)] = rises
        return np.asarray(padded.reshape(-1, TILE).max(axis=1))


@dataclass(frozen=True, slots=True)
class Drift:
    """Bounds of the rise of scores from table to table; the newest is table `step`.

    Sums by node start with the first table that has it, or has it again. Those of the
    latest `N_KEPT` tables are kept.
    """

    step: int = -1
    sums: tuple[tuple[Ints, Array], ...] = ()  # ids, rises; newest last

    def followed_by(self, table: NodeTable, last: NodeTable | None) -> "Drift":
        """Return the drift with one more table."""
        total, sums = np.zeros(len(table.ids)), self.sums
        if last is not None:
            rises, at_last = table.rises(last), last.columns(table.ids)
            known = at_last >= 0
            total[known] = sums[-1][1][at_last[known]] + rises[known]
            new = table.ids[~known]  # of one that comes back nothing is known
            sums = tuple(
                (ids, np.where(np.isin(ids, new), -np.inf, was)) for ids, was in sums
            )
        return Drift(self.step + 1, (*sums, (table.ids, total))[-N_KEPT:])

    def latest(self, n_tables: int) -> "Drift":
        """Return the drift with sums of the latest tables alone."""
        return Drift(self.step, self.sums[-n_tables:])

    def since(self, step: int, table: NodeTable) -> Array | None:
        """Most that scores of tiles rose since a step; None where unknown."""
        back = self.step - step
        if not 0 <= back < len(self.sums):
            return None
        (then, was), (ids, now) = self.sums[-1 - back], self.sums[-1]
        at = np.minimum(np.searchsorted(then, ids), len(then) - 1)
        return table.by_tile(np.where(then[at] == ids, now - was[at], np.inf))
