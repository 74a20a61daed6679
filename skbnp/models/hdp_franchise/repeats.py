"""Repeated words of a seating: a Pitman-Yor process of words in each document.

The model is that of `skbnp.models.hdp.burstiness`, with the papers, G_j ~ PYP(d, c,
H_j). The tokens of a word sit at tables of the word; the first one of each is drawn
from H_j and seated by the topics, the others repeat it. Of N_j tokens at T_j tables of
words, of sizes s, with (c | d)_T = c (c + d) ... (c + [T - 1] d),

    p(tables of words) = prod_j (c | d)_{T_j} / (c | 1)_{N_j} prod_s (1 - d | 1)_{s - 1}
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from skbnp.components import hyperparameters as draws
from skbnp.components.hyperparameters import GammaPrior
from skbnp.utils.typing import Array, Ints

#: Discount and concentration of no repeats, and those that learning starts from.
NONE, START = (0.0, np.inf), (0.5, 100.0)
#: Range of the discount, which is uniform there. Near one the kernel draws many
#: tables of a word before it accepts one; near zero nothing depends on it.
DISCOUNTS = 1e-6, 0.98
#: Prior of the concentration, shape and rate: flat, so that where documents show no
#: repeats of their own there are hardly any.
VAGUE: GammaPrior = (1.0, 1e-8)
#: Numbers up to this are counted by a table.
COMMON = 4096
#: Width of the steps of a slice of the discount.
WIDTH = 0.1

#: Values, and how often each occurs.
Counted = tuple[Array, Ints]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Statistics of the tables of words, for their discount and concentration."""

    sizes: Counted  # of tables of two tokens and more
    n_tables: Counted  # of each document
    n_tokens: Counted  # likewise

    @classmethod
    def of(cls, word_size: NDArray, n_tables: NDArray, n_tokens: NDArray) -> Self:
        """Count the sizes of tables, and the tables and tokens of documents."""
        return cls(
            _counted(word_size[word_size > 1]),
            _counted(n_tables[n_tables > 0]),
            _counted(n_tokens[n_tokens > 0]),
        )

    def log_probability(self, discount: float, concentration: float) -> float:
        """Log p(tables of words), nats."""
        return (
            self._log_openings(discount, concentration)
            + self._log_sizes(discount)
            - self._log_tokens(concentration)
        )

    def draw(
        self,
        discount: float,
        concentration: float,
        prior: GammaPrior,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """Draw the concentration and then the discount, given all else."""
        c = draws.draw_by_slice(
            concentration,
            lambda c: self._log_openings(discount, c) - self._log_tokens(c),
            prior,
            rng,
        )
        d = draws.draw_in_range(
            discount,
            lambda d: self._log_openings(d, c) + self._log_sizes(d),
            DISCOUNTS,
            WIDTH,
            rng,
        )
        return d, c

    def _log_openings(self, discount: float, concentration: float) -> float:
        """Log (c | d)_T summed over documents: probability of all new tables."""
        n, times = self.n_tables
        logs = draws.log_rising(concentration / discount, n) + n * np.log(discount)
        return float((times * logs).sum())

    def _log_sizes(self, discount: float) -> float:
        n, times = self.sizes
        return float((times * draws.log_rising(1.0 - discount, n - 1.0)).sum())

    def _log_tokens(self, concentration: float) -> float:
        n, times = self.n_tokens
        return float((times * draws.log_rising(concentration, n)).sum())


def _counted(values: NDArray) -> Counted:
    """Values that occur, and their frequencies; zeros are left out."""
    if values.max(initial=0) < COMMON:
        all_times = np.bincount(values)
        result = np.flatnonzero(all_times)
        times = all_times[result]
    else:
        result, times = np.unique(values, return_counts=True)
    return result.astype(np.float64), times
