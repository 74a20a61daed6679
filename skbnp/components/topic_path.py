"""A path of merges from all topics to one, which lose little information.

Topics are counts n_kw of words. With N_k their sums and

    I(n) = sum_w n_w log n_w - N log N,

the log likelihood of tokens under the frequencies of their topic, a merge of topics a
and b loses I(a) + I(b) - I(a + b) nats: the mutual information of words with these two
in their tokens. All merges together lose that of words with topics.

The cheapest of some candidate pairs is merged: the `N_NEAREST` of each topic by the
affinity of Bhattacharyya, sum_w sqrt(p_aw p_bw), with costs by the formula. (Candidates
by an estimate of the cost lose more: a light topic is cheap to merge with anything, and
all would list the lightest.) A topic that was merged lists candidates afresh.

Early merges are chosen without regard to late ones. So the path is made twice: at
`N_GROUPS` the first one gives groups, between which single topics move while that
raises the information; the second one merges within these groups, then the groups.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from skbnp.utils.blas import one_blas_thread
from skbnp.utils.typing import Array, Ints

#: Candidates of a topic.
N_NEAREST = 15
#: Groups between which topics move, and passes over all topics.
N_GROUPS, MAX_PASSES = 20, 3
TINY = 1e-300


class MergePath(NamedTuple):
    """Merges in turn, and what each loses."""

    pairs: Ints  # (n, 2) rows of topics: the one that ends, the one that it joins
    losses: Array  # (n,) nats


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
    return MergePath(pairs, np.array(topics.losses))


class Topics:
    """Counts of topics, which merge in place, and the merges so far."""

    def __init__(self, counts: Array, is_known: NDArray):
        """Copy counts, (K, n_words)."""
        self.counts, self.tokens = counts.copy(), counts.sum(axis=1)
        self.is_known, self.is_alive = is_known.copy(), np.ones(len(counts), bool)
        self.pairs, self.losses = list[tuple[int, int]](), list[float]()
        roots = np.sqrt(counts / np.maximum(self.tokens, TINY)[:, None])
        self.roots = roots.astype(np.float32)

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
            losses = merge_losses(self.counts[k], self.counts[rows])
            for other, loss in zip(rows.tolist(), losses.tolist(), strict=True):
                a, b = sorted((k, other))
                heappush(heap, (loss, a, b, version[a], version[b]))

        for k in np.flatnonzero(self.is_alive).tolist():
            list_candidates(k)
        joined = np.arange(len(groups))
        while heap and self.is_alive.sum() > n:
            loss, a, b, *versions = heappop(heap)
            if versions != [version[a], version[b]]:
                continue
            ranks = [(self.is_known[k], self.tokens[k]) for k in (a, b)]
            source, target = (b, a) if ranks[0] >= ranks[1] else (a, b)
            self._merge(source, target)
            self.losses.append(loss)
            joined[joined == source] = target
            version[[source, target]] += 1
            affinity[target] = self.roots @ self.roots[target]
            list_candidates(target)
        return joined

    def _merge(self, source: int, target: int) -> None:
        self.counts[target] += self.counts[source]
        self.tokens[target] += self.tokens[source]
        self.is_alive[source] = False
        scale = np.maximum(self.tokens[target], TINY)
        self.roots[target] = np.sqrt(self.counts[target] / scale)
        self.pairs.append((source, target))


def merge_losses(topic: Array, others: Array) -> Array:
    """Nats that merges of a topic, (n_words,), with others, (n, n_words), lose."""
    words = np.flatnonzero(topic)  # of others the terms cancel
    one, other = topic[words], others[:, words]
    joint = one + other
    gain = (joint * np.log(joint) - xlogy(one, one) - xlogy(other, other)).sum(axis=1)
    one, other = topic.sum(), others.sum(axis=1)
    total = xlogy(one + other, one + other) - xlogy(one, one) - xlogy(other, other)
    return np.maximum(total - gain, 0.0)


def exchanged(counts: Array, groups: Ints, is_known: NDArray) -> Ints:
    """Move topics one by one to the groups in which they lose least, (K,) numbers.

    Known topics stay, groups without others too.
    """
    names, labels = np.unique(groups, return_inverse=True)
    sums, sizes = np.zeros((len(names), counts.shape[1])), np.bincount(labels)
    np.add.at(sums, labels, counts)
    for _ in range(MAX_PASSES):
        before = labels.copy()
        for k in np.flatnonzero(~is_known).tolist():
            if sizes[labels[k]] == 1:
                continue
            own = labels[k]
            sums[own] = np.maximum(sums[own] - counts[k], 0.0)
            losses = merge_losses(counts[k], sums)
            best = int(losses.argmin())
            labels[k] = best if losses[best] < losses[own] else own
            sums[labels[k]] += counts[k]
            sizes[[own, labels[k]]] += -1, 1
        if (labels == before).all():
            break
    return names[labels]
