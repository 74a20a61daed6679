"""The evidence for groups of topics, written from the two Dirichlet distributions."""

import numpy as np
from scipy.special import gammaln


def rising(x, n):
    """Return P [lnG(x + n / P) - lnG(x)], P = 1 - exp(-n), of one expected count."""
    if n == 0.0:
        return 0.0
    some = -np.expm1(-n)
    return some * (gammaln(x + n / some) - gammaln(x))


def polya(counts, parameters):
    """Log evidence of one document's counts under a Dirichlet distribution."""
    total = -rising(sum(parameters), sum(counts))
    for count, parameter in zip(counts, parameters, strict=True):
        total += rising(parameter, count)
    return total


def evidence(counts, weights, labels, outer, inner):
    """Log evidence of dense counts (n_docs, K): groups first, then topics in groups."""
    groups = [np.flatnonzero(labels == g) for g in np.unique(labels)]
    total = 0.0
    for row in counts:
        sums = [row[members].sum() for members in groups]
        total += polya(sums, [outer * weights[members].sum() for members in groups])
        for members in groups:
            shares = weights[members] / weights[members].sum()
            total += polya(row[members], inner * shares)
    return total


def partitions(n):
    """Yield the labels of every partition of n topics."""
    if n == 0:
        yield []
        return
    for labels in partitions(n - 1):
        for g in range(max(labels, default=-1) + 2):
            yield [*labels, g]
