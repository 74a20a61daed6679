"""Merges of topics that lose little evidence, written from the definition."""

import numpy as np
from scipy.special import gammaln


def information(n):
    """Return I(n) = sum_w n_w log n_w - N log N."""
    values = [*n[n > 0.0].tolist()]
    total = sum(values)
    return sum(x * np.log(x) for x in values) - (total and total * np.log(total))


def evidence(n, eta=0.1):
    """Return the log evidence of the words of a topic under Dir(eta)."""
    total = gammaln(eta * len(n)) - gammaln(eta * len(n) + n.sum())
    return total + sum(gammaln(eta + x) - gammaln(eta) for x in n.tolist())


def loss(a, b, of=evidence):
    """Nats that the merge of two topics loses."""
    return of(a) + of(b) - of(a + b)


def affinity(a, b):
    """Affinity of Bhattacharyya of two topics."""
    return np.sqrt(a * b).sum() / np.sqrt(max(a.sum() * b.sum(), 1e-300))


def merges(counts, is_known, groups, n=1, n_nearest=15):
    """Return the merges within groups, and the counts left.

    A merge is (source, target, information lost).
    """
    counts, is_known = dict(enumerate(counts)), dict(enumerate(is_known))
    candidates, result = set(), []

    def add_candidates(k):
        others = [
            other
            for other in counts
            if other != k
            and groups[other] == groups[k]
            and not (is_known[k] and is_known[other])
        ]
        others.sort(key=lambda other: -affinity(counts[k], counts[other]))
        candidates.update(frozenset((k, other)) for other in others[:n_nearest])

    for k in counts:
        add_candidates(k)
    while candidates and len(counts) > n:
        a, b = min(
            (sorted(pair) for pair in candidates),
            key=lambda pair: (loss(counts[pair[0]], counts[pair[1]]), pair),
        )
        cost = loss(counts[a], counts[b], of=information)
        target = max((a, b), key=lambda k: (is_known[k], counts[k].sum(), -k))
        source = a if target == b else b
        counts[target] = counts[target] + counts.pop(source)
        result.append((source, target, cost))
        candidates = {pair for pair in candidates if not pair & {a, b}}
        add_candidates(target)
    return result, counts


def exchange(counts, labels, is_known, n_passes=3):
    """Move topics between groups while that raises the evidence of the groups."""
    labels = np.array(labels)
    for _ in range(n_passes):
        for k in range(len(counts)):
            if is_known[k] or (labels == labels[k]).sum() == 1:
                continue
            totals = {}
            for group in np.unique(labels):
                moved = labels.copy()
                moved[k] = group
                totals[group] = sum(
                    evidence(counts[moved == g].sum(axis=0)) for g in set(moved)
                )
            labels[k] = max(totals, key=totals.get)
    return labels


def path(counts, is_known, n_groups=20):
    """Return all merges, within groups first."""
    one = np.zeros(len(counts), dtype=int)
    first, _ = merges(counts, is_known, one, n_groups)
    labels = np.arange(len(counts))
    for source, target, _ in first:
        labels[labels == source] = target
    labels = exchange(counts, labels, is_known)
    within, left = merges(counts, is_known, labels)
    rows = sorted(left)
    last, _ = merges([left[row] for row in rows], is_known[rows], one)
    return within + [(rows[s], rows[t], cost) for s, t, cost in last]
