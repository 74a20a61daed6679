"""State of a Gibbs chain of dependent trees between two sweeps, and its settings."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from skbnp.inference.chains import ChainStart, ChainState
from skbnp.models.dependent_slices.directions import Directions
from skbnp.models.dependent_slices.model import Rows, SlicedTree
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.state import EpochState, TreePriors
from skbnp.trees import Tree
from skbnp.utils.arrays import padded, with_columns
from skbnp.utils.labels import Label
from skbnp.utils.ranges import Amount, LeastAmount, Sized
from skbnp.utils.typing import Array, Ints, Ints32


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Settings of a chain: priors, and which of them are learned."""

    priors: TreePriors
    learns_concentration: bool
    learns_prior_concentration: bool
    learns_past_weight: bool
    window: int
    n_proposals: int  # of splits or merges in a sweep, and as many of parents
    sweeps: int  # of an epoch but the last


@dataclass(frozen=True, slots=True)
class EpochRows:
    """Rows of an epoch that have a direction."""

    label: Label
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStart(ChainStart):
    """Start of a chain: an epoch whose rows are at nodes."""

    state: EpochState
    place: Ints32  # (n_rows,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChainState(ChainState):
    """State of a chain between two sweeps; arrays as in `SlicedTree`.

    `begin` is the number of sweeps before the open epoch.
    """

    number_of_epoch: int
    tree: Tree
    place: Annotated[Ints32, Sized("n_rows")]
    directions: Directions
    history: Annotated[Array, Sized("n_nodes", least=0)]
    past: Annotated[Ints, Sized("n_nodes", least=-1)]
    previous: Annotated[Array, Sized("n_before", "n_seen")]
    concentration: LeastAmount
    prior_concentration: LeastAmount
    past_weight: Amount
    sums: Annotated[sp.csr_array, Sized("n_nodes", "n_seen")]  # of all rows
    gone: Annotated[Array, Sized("n_nodes", least=0)]
    gone_sums: Annotated[sp.csr_array, Sized("n_nodes", "n_seen")]
    closed: tuple[ClosedEpoch, ...]

    def with_columns(self, n_seen: int, rng: np.random.Generator) -> "TreeChainState":
        """Append columns that no row had before, `n_seen` in all."""
        return replace(
            self,
            directions=self.directions.with_columns(n_seen, rng),
            previous=padded(self.previous, n_seen),
            sums=with_columns(self.sums, n_seen),
            gone_sums=with_columns(self.gone_sums, n_seen),
        )

    def without_rows(self) -> "TreeChainState":
        """Fix the nodes of all rows, and go on with none of them."""
        masses = self.gone + np.bincount(self.place, minlength=len(self.tree))
        return replace(
            self,
            begin=self.step,
            number_of_epoch=0,
            place=np.zeros(0, dtype=np.int32),
            gone=masses,
            gone_sums=self.sums,
        )


def fields_of(state: SlicedTree, sums: sp.csr_array) -> dict[str, Any]:
    """Fields of a state that record the nodes of rows."""
    weight = state.priors.past_weight
    return shared_fields(state) | {"past_weight": weight, "sums": sums}


def shared_fields(state: SlicedTree | TreeChainState) -> dict[str, Any]:
    """Fields that the state of a sampler and that of its chain have both."""
    names = [item.name for item in fields(SlicedTree) if item.init]
    return {name: getattr(state, name) for name in names[2:]}  # rows and priors aside


def check_places(state: TreeChainState, epochs: Sequence[EpochRows]) -> None:
    """Raise ValueError if saved nodes of rows do not fit these epochs."""
    number, place, tree = state.number_of_epoch, state.place, state.tree
    is_sound = (
        isinstance(number, int)
        and 0 <= number < len(epochs)
        and isinstance(place, np.ndarray)
        and (place.dtype, place.shape) == (np.int32, (len(epochs[number].rows),))
        and (len(place) == 0 or (place.min() >= 0 and place.max() < len(tree)))
    )
    if is_sound:
        masses = np.bincount(place, minlength=len(tree))
        has_rows = tree.accumulate(masses + state.gone) > 0
        has_rows |= tree.accumulate((state.past >= 0).astype(int)) > 0
        is_sound = bool(has_rows[1:].all())
    if not is_sound:
        raise ValueError("The saved nodes of the rows of a chain are damaged.")
