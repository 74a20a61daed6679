"""Slow references for words that a document repeats, by a Pitman-Yor restaurant.

Letters: ``discount`` d and ``concentration`` c of the restaurant of a document, ``n``
tokens of a word at ``t`` tables, ``mass`` m of a new table of the word, ``base`` p the
probability of the word under the topics. All values are in nats.

References
----------
[BM14] W. Buntine and S. Mishra. Experiments with non-parametric topic models. Knowledge
Discovery and Data Mining, 2014.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

Array = NDArray[np.float64]


def log_stirling(discount: float, n: int) -> Array:
    """Log of S_d(n, t), t = 0 .. n.

    S_d(n + 1, t) = S_d(n, t - 1) + (n - d t) S_d(n, t).
    """
    logs = np.array([-np.inf, 0.0])
    for m in range(1, n):
        longer = np.full(m + 2, -np.inf)
        with np.errstate(divide="ignore"):
            factor = np.log(np.maximum(m - discount * np.arange(m + 1), 0.0))
        longer[: m + 1] = logs + factor
        longer[1:] = np.logaddexp(longer[1:], logs)
        logs = longer
    return logs


def expected_tables(n: int, mass: float, discount: float) -> float:
    """E[t] under p(t) ~ S_d(n, t) m^t."""
    t = np.arange(1, int(n) + 1)
    logs = log_stirling(discount, int(n))[1:] + t * np.log(mass)
    return float(np.exp(logs - logsumexp(logs)) @ t)


def partitions(n: int) -> Iterator[list[list[int]]]:
    """All ways to seat customers 0 .. n - 1 at tables."""
    if n == 0:
        yield []
        return
    for tables in partitions(n - 1):
        for table in range(len(tables)):
            yield [
                [*seated, n - 1] if i == table else seated
                for i, seated in enumerate(tables)
            ]
        yield [*tables, [n - 1]]


def seating_weight(tables: Sequence[Sequence[int]], discount: float) -> float:
    """Product over tables of (1 - d) (2 - d) .. (size - 1 - d)."""
    sizes = np.array([len(table) for table in tables])
    return float(np.exp((gammaln(sizes - discount) - gammaln(1.0 - discount)).sum()))


def expected_tables_by_seatings(n: int, mass: float, discount: float) -> float:
    """E[t] by all seatings of n customers."""
    total = mean = 0.0
    for tables in partitions(n):
        weight = seating_weight(tables, discount) * mass ** len(tables)
        total += weight
        mean += weight * len(tables)
    return mean / total


def leave_one_out(
    counts: Array,
    tables: Array,
    base: Array,
    discount: float,
    concentration: float,
) -> Array:
    """n log p(w | all other tokens) of the words of one document."""
    logs = np.zeros(len(counts))
    for w, n in enumerate(counts):
        others = tables.sum() - tables[w]
        before = 0.0
        if n > 1:
            mass = (concentration + discount * others) * base[w]
            before = expected_tables(int(n) - 1, mass, discount)
        share = max(n - 1.0 - discount * before, 0.0)
        share += (concentration + discount * (others + before)) * base[w]
        logs[w] = n * np.log(share / (concentration + counts.sum() - 1.0))
    return logs
