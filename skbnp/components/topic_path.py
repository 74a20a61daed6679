"""A path of merges from all topics to one, chosen by the evidence of their words.

Topics are counts n_kw of words, of a vocabulary of V, under Dir(eta). With N_k the sums
of the counts, the log evidence of the words of a topic is

    E(n) = sum_w [lnG(eta + n_w) - lnG(eta)] - lnG(V eta + N) + lnG(V eta),

and a merge of topics a and b loses E(a) + E(b) - E(a + b) nats.

The cheapest of some candidate pairs is merged: the `N_NEAREST` of each topic by the
affinity of Bhattacharyya, sum_w sqrt(p_aw p_bw), with losses by the formula.
(Candidates by an estimate of the loss are worse: a light topic is cheap to merge with
anything, and all would list the lightest.) A topic that was merged lists candidates
afresh.

Early merges are chosen without regard to late ones. So the path is made twice: at
`N_GROUPS` the first one gives groups, between which single topics move while that
raises the evidence; the second one merges within these groups, then the groups.

What users see of a merge is the mutual information of words with topics that it loses,
I(a) + I(b) - I(a + b), I(n) = sum_w n_w log n_w - N log N. It is the loss of evidence
by the frequencies of words in the place of a prior.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from skbnp.kernels._special import log_gamma
from skbnp.utils.blas import one_blas_thread
from skbnp.utils.fitted import normalised_rows
from skbnp.utils.typing import Array, Ints

# Measured in `benchmarks/results/fewer_topics.md`.
#: Dirichlet parameter of words, eta. By a much smaller one many topics join one of all
#: that is left; by information alone weights are more equal, and topics less coherent.
PRIOR = 0.1
#: Candidates of a topic.
N_NEAREST = 15
#: Groups between which topics move, and passes over all topics.
N_GROUPS, MAX_PASSES = 20, 3


class MergePath(NamedTuple):
    """Merges in turn, and what each loses."""

    pairs: Ints  # (n, 2) rows of topics: the one that ends, the one that it joins
    losses: Array  # (n,) information, nats


def merge_path(counts: Array, is_known: NDArray) -> MergePath:
    """Merge topics, (K, n_words), until no pair is left that may merge.

    The heavier of two topics goes on, the first of equals. Known topics go on, and do
    not merge with each other.
    """
    one = np.zeros(len(counts), dtype=np.intp)
    with one_blas_thread():
        groups = Topics(counts, is_known).merge_within(one, N_GROUPS)
        topics = Topics(counts, is_known)
        topics.merge_within(exchanged(counts, groups, is_known))
        topics.merge_within(one)
    pairs = np.array(topics.pairs, dtype=np.intp).reshape(-1, 2)
    return MergePath(pairs, information_lost(counts, pairs))


def information_lost(counts: Array, pairs: Ints) -> Array:
    """Information that merges lose in turn, (n,), nats."""
    counts, losses = counts.copy(), np.empty(len(pairs))
    for place, (source, target) in enumerate(pairs.tolist()):
        parts = [counts[source], counts[target], counts[source] + counts[target]]
        values = [xlogy(n, n).sum() - xlogy(n.sum(), n.sum()) for n in parts]
        losses[place] = max(values[0] + values[1] - values[2], 0.0)
        counts[target] = parts[2]
    return losses


class Counts:
    """Counts of topics, (K, n_words), that change in place, and losses of merges."""

    def __init__(self, values: Array):
        """Copy counts."""
        self.values, self.tokens = values.copy(), values.sum(axis=1)
        self.growths = growth(PRIOR, values)

    def add(self, row: int, topic: Array) -> None:
        """Add counts, or subtract them, which leaves rounding errors of either sign."""
        self.values[row] = np.maximum(self.values[row] + topic, 0.0)
        self.tokens[row] = self.values[row].sum()
        self.growths[row] = growth(PRIOR, self.values[row])

    def losses(self, topic: Array, rows: Ints) -> Array:
        """Evidence that merges of a topic, (n_words,), with some rows lose, nats."""
        words = np.flatnonzero(topic)  # of others the terms cancel
        own = topic[words]
        result = self.growths[rows][:, words].sum(axis=1)
        result -= growth(PRIOR, own + self.values[rows][:, words]).sum(axis=1)
        result += growth(PRIOR, own).sum()
        n, prior = self.tokens[rows], len(topic) * PRIOR
        result += gammaln(prior + n + own.sum()) - gammaln(prior + n)
        return result - gammaln(prior + own.sum()) + gammaln(prior)


def growth(prior: float, counts: Array) -> Array:
    """Log rising factorial of a prior, lnG(prior + n) - lnG(prior), of each count."""
    raised = prior + counts.ravel()
    result = np.empty_like(raised)
    log_gamma(raised, result, np.empty_like(raised))
    return (result - gammaln(prior)).reshape(counts.shape)


def roots_of(counts: Array) -> Array:
    """Square roots of the shares of words in topics; zeros in one without tokens."""
    return np.sqrt(normalised_rows(counts, instead=0.0))


class Topics:
    """Topics that merge, and the merges so far."""

    def __init__(self, counts: Array, is_known: NDArray):
        """Copy counts, (K, n_words)."""
        self.counts, self.is_known = Counts(counts), is_known
        self.is_alive = np.ones(len(counts), dtype=bool)
        self.pairs = list[tuple[int, int]]()
        self.roots = roots_of(counts).astype(np.float32)

    def merge_within(self, groups: Ints, n: int = 1) -> Ints:
        """Merge topics of one group in turn while more than `n` topics are left.

        Returns the topic that each has joined, itself if none.
        """
        affinity = self.roots @ self.roots.T
        version, heap = np.zeros(len(groups), dtype=np.intp), list[tuple]()

        def list_candidates(k: int) -> None:
            may_join = self.is_alive & (groups == groups[k])
            may_join &= ~(self.is_known & self.is_known[k])
            may_join[k] = False
            rows = np.flatnonzero(may_join)
            rows = rows[np.argsort(-affinity[k, rows], kind="stable")[:N_NEAREST]]
            losses = self.counts.losses(self.counts.values[k], rows)
            for other, loss in zip(rows.tolist(), losses.tolist(), strict=True):
                a, b = sorted((k, other))
                heappush(heap, (loss, a, b, version[a], version[b]))

        for k in np.flatnonzero(self.is_alive).tolist():
            list_candidates(k)
        joined = np.arange(len(groups))
        while heap and self.is_alive.sum() > n:
            _, a, b, *versions = heappop(heap)
            if versions != [version[a], version[b]]:
                continue
            ranks = [(self.is_known[k], self.counts.tokens[k]) for k in (a, b)]
            source, target = (b, a) if ranks[0] >= ranks[1] else (a, b)
            self.counts.add(target, self.counts.values[source])
            self.roots[target] = roots_of(self.counts.values[[target]])[0]
            affinity[target] = self.roots @ self.roots[target]
            self.is_alive[source] = False
            self.pairs.append((source, target))
            joined[joined == source] = target
            version[[source, target]] += 1
            list_candidates(target)
        return joined


def exchanged(counts: Array, groups: Ints, is_known: NDArray) -> Ints:
    """Move topics one by one to the groups in which they lose least, (K,) numbers.

    Known topics stay, and so do topics by themselves.
    """
    names, labels = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(names), counts.shape[1]))
    np.add.at(sums, labels, counts)
    of_groups, sizes = Counts(sums), np.bincount(labels)
    for _ in range(MAX_PASSES):
        before = labels.copy()
        for k in np.flatnonzero(~is_known).tolist():
            own = labels[k]
            if sizes[own] == 1:
                continue
            of_groups.add(own, -counts[k])
            losses = of_groups.losses(counts[k], np.arange(len(names)))
            best = int(losses.argmin())
            labels[k] = best if losses[best] < losses[own] else own
            of_groups.add(labels[k], counts[k])
            sizes[[own, labels[k]]] += -1, 1
        if (labels == before).all():
            break
    return names[labels]
