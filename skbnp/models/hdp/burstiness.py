"""Burstiness of the HDP: a Pitman-Yor process in each document repeats its words.

With the mixture H_j = sum_k pi_jk phi_k of the topics of document j,

    G_j ~ PYP(d, c, H_j),    tokens of j ~ G_j,

the n_jw tokens of word w sit at t_jw tables, each of which is drawn from H_j: topics
explain tables, and the restaurant explains how often a word comes again (Buntine and
Mishra [1]; with d = 0 Doyle and Elkan [2], after Madsen et al. [3]). Expected tables
are

    E[t | n, m],    m = (c + d [T_j - t_jw]) p_jw,

with T_j the tables of the document and p_jw the probability of the word under the
topics of all its other tables. Discount d and concentration c maximise the probability
of each token given all others of its document.

References
----------
.. [1] Buntine and Mishra, "Experiments with Non-parametric Topic Models", KDD 2014.
.. [2] Doyle and Elkan, "Accounting for Burstiness in Topic Models", ICML 2009.
.. [3] Madsen, Kauchak and Elkan, "Modeling Word Burstiness Using the Dirichlet
   Distribution", ICML 2005.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from skbnp.kernels import _restaurant as kernel
from skbnp.utils.arrays import rows_of
from skbnp.utils.ranges import In
from skbnp.utils.typing import Array, Ints

#: Range of c: below one a document hardly shows a word that it has not had; at the
#: upper end no document of fewer than a million tokens repeats.
LEAST_CONCENTRATION, MOST_CONCENTRATION = 1.0, 1e8
#: Largest discount.
MOST_DISCOUNT = 0.98
#: Documents from which both are learned, at most.
N_DOCS = 600
#: So few documents say nothing of all others.
FEWEST_DOCS = 10
#: Where the search begins: all pairs of these.
DISCOUNTS, CONCENTRATIONS = (0.0, 0.3, 0.6, 0.8), (1.0, 10.0, 100.0, 1e3, 1e5)
#: Steps of log c and d that a search begins with, from afar and from present values.
STEPS, STEPS_NEAR = (0.7, 0.1), (0.2, 0.04)
#: Nats per token that a search must gain over present values, and over none.
LEAST_GAIN = 1e-4
#: Standard errors by which repeats must be better predicted than by topics alone.
ERRORS = 2.0
#: Rounds of expected tables of all words of a document, given those of the others.
N_SEATINGS = 10
#: Discounts are rounded to so many decimals: a process makes the grid of each but once.
DECIMALS = 2
_grid = lru_cache(maxsize=2 * 10**DECIMALS)(kernel.expected_tables_grid)


@dataclass(frozen=True, slots=True)
class Burstiness:
    """Discount and concentration of the Pitman-Yor processes of all documents."""

    discount: Annotated[float, In(0, MOST_DISCOUNT)]  # d, in [0, 1)
    concentration: Annotated[float, In(0.5, 2.0 * MOST_CONCENTRATION)]  # c > 0

    def grid(self, most: float) -> NDArray[np.float32]:
        """Expected tables of up to `most` tokens, see `expected_tables_grid`."""
        return _grid(self.discount, kernel.n_grid_rows(most))

    def arguments(self, n_features: float, most: float) -> tuple[Any, ...]:
        """Return V, grid, d and c: the last arguments of both collapsed kernels."""
        grid = self.grid(most)
        return float(n_features), grid, self.discount, self.concentration

    def tables(self, X: sp.csr_array, base: Array) -> Array:
        """Expected tables of stored counts, (nnz,), given `base` probabilities p."""
        rows, tables = rows_of(X.indptr), np.minimum(X.data, 1.0)
        grid = self.grid(X.data.max(initial=1.0))
        for _ in range(N_SEATINGS):
            others = np.bincount(rows, tables, X.shape[0])[rows] - tables
            mass = (self.concentration + self.discount * others) * base
            tables = kernel.tables_of(X.data, mass, grid, self.discount)
        return tables

    def repeats(
        self, observed: sp.csr_array, tables: Array, held_out: sp.csr_array
    ) -> tuple[Array, Array]:
        """The probabilities of held-out words by repeats, and the mass of first uses.

        Given expected `tables` t of `observed` counts, and topics that give a word the
        probability q, p(w | j) = repeated + fresh q with

            repeated = [n - d t]_+ / (c + N), (nnz of `held_out`,),
            fresh = (c + d T) / (c + N), (n_docs,).
        """
        d, c, rows = self.discount, self.concentration, rows_of(held_out.indptr)
        n_tokens = np.asarray(observed.sum(axis=1)).ravel()
        n_tables = np.bincount(rows_of(observed.indptr), tables, observed.shape[0])
        left = np.maximum(observed.data - d * tables, 0.0)
        own = sp.csr_array((left, observed.indices, observed.indptr), observed.shape)
        repeated = np.zeros(held_out.nnz)
        if own.nnz and held_out.nnz:
            # A copy: SciPy cannot broadcast arrays over the bytes of a pickle.
            columns = held_out.indices.astype(np.intp)
            repeated = np.asarray(own[rows, columns]).ravel()
        return repeated / (c + n_tokens)[rows], (c + d * n_tables) / (c + n_tokens)


#: Where learning begins, and its rounds: expected tables follow the parameters.
START, N_ROUNDS = Burstiness(0.5, 20.0), 3
#: That of documents that repeat no word for reasons of their own.
NO_BURSTINESS = Burstiness(0.0, np.inf)


def evenly(n_docs: int, most: int) -> Ints:
    """At most `most` of the row numbers below `n_docs`, evenly spread, increasing."""
    return np.unique(np.linspace(0, max(n_docs - 1, 0), most).astype(np.intp))[:n_docs]


def learn_burstiness(
    X: sp.csr_array,
    seat: Callable[[Burstiness], tuple[Array, Array]],
    start: Burstiness | None = None,
) -> Burstiness | None:
    """Learn discount and concentration: alternate tables and `maximise_burstiness`.

    `seat` returns the expected tables and base probabilities of the stored counts of
    `X`. With a `start`, one round is made, as topics change between calls.
    """
    if start is not None:
        return maximise_burstiness(X, *seat(start), start)
    burstiness: Burstiness | None = START
    for n_made in range(N_ROUNDS):
        if burstiness is not None:
            near = burstiness if n_made else None
            burstiness = maximise_burstiness(X, *seat(burstiness), near)
    return burstiness


def maximise_burstiness(
    X: sp.csr_array, tables: Array, base: Array, start: Burstiness | None = None
) -> Burstiness | None:
    """Maximise the probability of each token given all others of its document.

    `X` are tokens n, and each stored count has expected `tables` t and, of its word
    under the topics, a probability `base`. The search begins at `start`, which is
    returned if the gain is next to nothing; if None, from afar. Returns None if repeats
    are hardly better predicted than by topics alone.
    """
    n_docs, rows = X.shape[0], rows_of(X.indptr)
    some = np.isin(rows, evenly(n_docs, N_DOCS))
    n, rows, t, p = X.data[some], rows[some], tables[some], base[some]
    if len(n) == 0 or n.max() <= 1.0:
        return None
    n_all = n.sum()
    n_tables = np.bincount(rows, t, n_docs).astype(np.float64)
    n_tokens = np.bincount(rows, n, n_docs).astype(np.float64)
    # All words that occur once in a document are replaced by one word and their number:
    # their log probabilities differ by log p alone, so p is their geometric mean.
    once = n == 1.0
    docs, at, times = np.unique(rows[once], return_inverse=True, return_counts=True)
    logs_once = np.bincount(at, np.log(np.maximum(p[once], 1e-300)), len(docs)) / times
    n, t = (np.append(values[~once], np.ones(len(docs))) for values in (n, t))
    p, rows = np.append(p[~once], np.exp(logs_once)), np.append(rows[~once], docs)
    times = np.append(np.ones(len(n) - len(docs)), times)
    sums = n_tables[rows], n_tokens[rows]

    def logs(concentration: float, discount: float) -> Array:
        """Log probability of each count given the rest of its document, nats."""
        grid = Burstiness(discount, concentration).grid(X.data.max())
        at = discount, concentration
        return times * kernel.leave_one_out(n, t, p, *sums, grid, *at)

    def loss(point: Array) -> float:
        discount = round(float(point[1]), DECIMALS)
        return -float(logs(float(np.exp(point[0])), discount).sum() / n_all)

    # Where hardly a word comes again, discounts do not differ: no search gets away.
    if start is None or start.concentration >= max(CONCENTRATIONS):
        starts = [np.array([np.log(c), d]) for c in CONCENTRATIONS for d in DISCOUNTS]
        first, (wide, high) = min(starts, key=loss), STEPS
    else:
        first = np.array([np.log(start.concentration), start.discount])
        wide, high = STEPS_NEAR
    bounds = np.log([LEAST_CONCENTRATION, MOST_CONCENTRATION]), (0.0, MOST_DISCOUNT)
    high = high if first[1] < 0.8 else -high
    wide = wide if first[0] + wide < bounds[0][1] else -wide
    result = minimize(
        loss,
        first,
        method="Nelder-Mead",
        bounds=bounds,
        options={
            "initial_simplex": first + np.array([[0.0, 0.0], [wide, 0.0], [0.0, high]]),
            "xatol": 5e-3,
            "fatol": 1e-6,
        },
    )
    best = Burstiness(round(float(result.x[1]), DECIMALS), float(np.exp(result.x[0])))
    if start is not None:
        present = np.array([np.log(start.concentration), start.discount])
        best = start if loss(present) - result.fun <= LEAST_GAIN else best
    gains = logs(best.concentration, best.discount) - logs(MOST_CONCENTRATION, 0.0)
    by_doc = np.bincount(rows, gains, n_docs)[np.unique(rows)]
    if len(by_doc) < FEWEST_DOCS:
        return None
    error = np.sqrt(len(by_doc)) * by_doc.std(ddof=1)
    return best if by_doc.sum() > max(ERRORS * error, LEAST_GAIN * n_all) else None
