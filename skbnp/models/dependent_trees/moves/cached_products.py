"""Cache of products of directions of dependent trees, valid for the last state."""

from weakref import ref

from skbnp.models.dependent_trees.epoch import EpochPosterior
from skbnp.models.dependent_trees.moves.exchanges import past_gains
from skbnp.models.dependent_trees.moves.products import Products
from skbnp.models.dependent_trees.state import EpochState
from skbnp.utils.typing import Array


class CachedProducts:
    """Products of all pairs of nodes, and gains by other pasts, of the last state."""

    def __init__(self) -> None:
        """Start without products."""
        self._products: tuple[ref[EpochState], Products] | None = None
        self._pasts: tuple[Array, Array] | None = None  # those, and their products
        self._gains: tuple[Products, Array] | None = None  # by other pasts

    def clear(self) -> None:
        """Remove what depends on the state; products of pasts stay in an epoch."""
        self._products = self._gains = None

    def of(self, posterior: EpochPosterior) -> Products:
        """Return products of all pairs, cached for the state of the last call."""
        state, last = posterior.state, self._products
        if last is not None and last[0]() is state:
            return last[1]
        known = None if last is None else last[1]
        products = Products.of(state, posterior.model.priors, known)
        self._products = ref(state), products
        return products

    def past_gains(self, posterior: EpochPosterior) -> Array:
        """Return the gains of directions by other pasts, cached likewise."""
        state, products, last = posterior.state, self.of(posterior), self._gains
        if last is None or last[0] is not products:
            gains = past_gains(state, products, self.of_pasts(state))
            self._gains = last = products, gains
        return last[1]

    def of_pasts(self, state: EpochState) -> Array:
        """Return products of previous directions, which are fixed in an epoch."""
        if self._pasts is None or self._pasts[0] is not state.previous:
            self._pasts = state.previous, state.previous @ state.previous.T
        return self._pasts[1]
