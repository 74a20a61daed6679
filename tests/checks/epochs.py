"""What tests read of an epoch of dependent trees."""

import numpy as np

from skbnp.distributions.von_mises_fisher import expansion
from skbnp.kernels import _directions as kernels

__all__ = ["optimal_length", "pasts_of"]


def pasts_of(state):
    """Directions in the epoch before, as `means`, zero of new nodes."""
    result, old = np.zeros_like(state.means), state.places_with_past
    result[old] = state.previous[state.past[old]]
    return result


def optimal_length(natural, spread, lengths_below, pull, dimension):
    """|E| of a node that maximises the bound, with those of its children fixed.

    Of n e - h*(e; v) - sum_c h*(e_c; K^2 (1 - e^2)), n being `natural`, v `spread`, and
    K `pull`.
    """
    below = np.array(lengths_below, dtype=np.float64).reshape(-1)
    given = below, pull, expansion(dimension)
    return float(kernels.optimal_length(natural, spread, *given))
