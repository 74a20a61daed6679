"""Search for groups of topics: merges and exchanges of topics that raise the evidence.

Symbols, and the evidence F of a partition, are those of `topic_evidence`. F is a sum
over groups, so that a merge of two gains what depends on these alone. Sums over
documents of r(A0 b, N_jg), and of r(A1 b_k / b, N_jk), are functions of the weight b of
a group. They are analytic in log b in a strip of half-width pi, and tabulated for each
group on Chebyshev nodes; what is left is a sum over the documents that have tokens of
both groups.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import average
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, psi, xlogy

from skbnp.distributions import expected_tables
from skbnp.kernels._special import log_gamma
from skbnp.kernels._topic_groups import merge_gains, rising_sums
from skbnp.utils.arrays import one_blas_thread
from skbnp.utils.fitted import normalised_rows
from skbnp.utils.typing import Array, Ints, Ints32

# Evidence for groups of topics, from documents' expected counts of topics.
#
# Symbols: N_jk expected tokens of topic k in document j, N_j all of the document, N_jg
# those of the topics of group g; b_k weights of topics, b_g their sum in a group. Given
# a partition, the tokens of a document fall on groups by a Dirichlet distribution, and
# those of a group on its topics by another,
#
#     Dir(A0 b_1, A0 b_2, ...),    Dir(A1 b_k / b_g: k in g).
#
# The logarithm of a rising factorial of an expected count is taken as if the count were
# Poisson, zero with probability 1 - P, and at its mean otherwise,
#
#     r(x, N) = P [lnG(x + N / P) - lnG(x)],    P = 1 - exp(-N),
#
# so that the log evidence of all documents is
#
#     F = sum_j { sum_g r(A0 b_g, N_jg) - r(A0, N_j)
#                 + sum_g [ sum_(k in g) r(A1 b_k / b_g, N_jk) - r(A1, N_jg) ] }.
#
# A group of one topic adds nothing to the second line. One group with A1 = A, and a
# group for each topic with A0 = A, are the same model, no groups at all; weights b_k
# are those for which that has the most evidence.


#: Where concentrations are looked for, and the error of their logarithms.
LOWEST, HIGHEST, LOG_TOL = 1e-3, 1e4, 1e-6
#: Rounds in which weights of topics are found, and their change at the end.
MAX_FLAT_ROUNDS, WEIGHT_TOL = 50, 1e-5


class Moments(NamedTuple):
    """Mean of a Poisson count given that it is positive, and that probability."""

    means: Array  # N / P
    some: Array  # P

    @classmethod
    def of(cls, tokens: Array) -> "Moments":
        """Return the moments for expected tokens > 0."""
        some = -np.expm1(-tokens)
        return cls(tokens / some, some)


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """Expected tokens of topics in documents, each topic with some; topic weights."""

    by_doc: sp.csr_array  # (n_docs, K) N, entries > 0
    by_topic: sp.csc_array  # the same, documents ascending
    weights: Array  # (K,) b

    @classmethod
    def of(cls, counts: sp.csr_array) -> "TopicCounts":
        """Return the counts N, with the weights of the most evidence for no groups.

        As in the fixed point of `CollapsedHDP`, b_k is proportional to expected tables.
        """
        counts = sp.csr_array(counts, dtype=np.float64)
        indices, indptr = (
            a.astype(np.int32, copy=False) for a in (counts.indices, counts.indptr)
        )
        counts = sp.csr_array((counts.data, indices, indptr), counts.shape)
        totals = Moments.of(_row_sums(counts))
        weights = np.asarray(counts.sum(axis=0)).ravel()
        weights, alpha = weights / weights.sum(), 1.0
        for _ in range(MAX_FLAT_ROUNDS):
            before = weights
            tables = expected_tables(alpha * weights[counts.indices], counts.data)
            growth = totals.some @ (psi(alpha + totals.means) - psi(alpha))
            alpha = np.clip(tables.sum() / growth, LOWEST, HIGHEST)
            weights = np.bincount(counts.indices, tables, counts.shape[1])
            weights = weights / weights.sum()
            if np.abs(weights - before).sum() < WEIGHT_TOL:
                break
        by_topic = sp.csc_array(counts)
        by_topic.sort_indices()
        return cls(counts, by_topic, weights)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.by_doc.shape[0]

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return len(self.weights)

    def of_topic(self, k: int) -> tuple[Ints32, Array]:
        """Return the documents with tokens of a topic, and N_jk."""
        part = slice(*self.by_topic.indptr[k : k + 2])
        return self.by_topic.indices[part], self.by_topic.data[part]


def _row_sums(counts: sp.csr_array) -> Array:
    sums = np.asarray(counts.sum(axis=1)).ravel()
    return sums[sums > 0.0]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Log evidence F of a partition of topics at its best concentrations."""

    labels: Ints32  # (K,) groups, without gaps
    outer: float  # A0
    inner: float  # A1; that of all topics where no group has two
    value: float  # F, nats

    @classmethod
    def of(cls, counts: TopicCounts, labels: NDArray) -> "Evidence":
        """Maximise F over A0 and A1, of which it is a sum of separate functions."""
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)
        sizes = np.bincount(labels)
        shares = np.bincount(labels, counts.weights)
        tokens, topics = counts.by_doc.data, counts.by_doc.indices
        at = counts.by_doc.indptr
        groups = sp.csr_array((tokens, labels[topics], at), (counts.n_docs, len(sizes)))
        groups = groups.copy()
        groups.sum_duplicates()
        totals = Moments.of(_row_sums(counts.by_doc))
        ratios, of_groups = shares[groups.indices], Moments.of(groups.data)
        outer, value = Concentration(ratios, of_groups, totals).best()
        many, more = sizes[labels[topics]] > 1, 0.0
        inner = outer
        if many.any():
            ratios = (counts.weights / shares[labels])[topics[many]]
            of_groups = Moments.of(groups.data[sizes[groups.indices] > 1])
            of_topics = Moments.of(tokens[many])
            inner, more = Concentration(ratios, of_topics, of_groups).best()
        return cls(labels, outer, inner, value + more)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True, slots=True)
class Concentration:
    """sum_i r(A s_i, n_i) - sum_i r(A, m_i), a function of A."""

    shares: Array  # s
    tokens: Moments  # n
    totals: Moments  # m

    def __call__(self, concentration: float) -> float:
        """Value of the function at a concentration, in nats."""
        bases, sums = concentration * self.shares, np.zeros(1)
        rising_sums(*self.totals, np.array([concentration]), sums)
        x = np.concatenate([bases + self.tokens.means, bases])
        log_gammas = np.empty_like(x)
        log_gamma(x, log_gammas, np.empty_like(x))
        high, low = np.split(log_gammas, 2)
        return float(self.tokens.some @ (high - low) - sums[0])

    def best(self) -> tuple[float, float]:
        """Return the best concentration A, and the value there in nats."""
        result = minimize_scalar(
            lambda log_a: -self(np.exp(log_a)),
            bounds=np.log([LOWEST, HIGHEST]),
            method="bounded",
            options={"xatol": LOG_TOL},
        )
        return float(np.exp(result.x)), float(-result.fun)


_NONE = np.zeros(0, dtype=np.int32)
#: Relative error of what is read from tables.
TABLE_TOL = 1e-12
#: Nats that a move gains at least: more than errors of rounding.
LEAST_GAIN = 1e-6
#: Numbers of groups at starts, the three largest that there can be, and the nats per
#: document that rounds from there gain.
STARTS, N_STARTS, START_TOL = (2, 3, 6, 12, 24), 3, 1e-3
#: Passes over all topics at given concentrations, and rounds with others.
MAX_PASSES, MAX_ROUNDS = 2, 20
#: Share of the tokens of a document that is an error of rounding.
ROUNDING = 1e-9


@dataclass(slots=True)
class Nodes:
    """Chebyshev nodes in log b, from the weight of the lightest topic up to 1."""

    smallest: float
    at: Array = field(init=False)  # (n,) log b
    factors: NDArray = field(init=False)  # (n,) of the barycentric form
    b: Array = field(init=False)

    def __post_init__(self):
        """Compute the nodes and the weights of interpolation."""
        half = (1e-3 - np.log(self.smallest)) / 2.0
        rate = np.arcsinh(np.pi / half)  # of an ellipse as high as the strip
        n = int(np.ceil(-np.log(TABLE_TOL) / rate)) + 2
        angles = np.pi * (np.arange(n) + 0.5) / n
        self.at = half * (np.cos(angles) - 1.0)
        self.factors = (-1.0) ** np.arange(n) * np.sin(angles)
        self.b = np.exp(self.at)

    def value(self, table: Array, b: float) -> float:
        """Interpolate a tabulated function at the weight b."""
        distance = min(np.log(b), 0.0) - self.at
        weights = self.factors / np.where(distance == 0.0, 1e-290, distance)
        return float(weights @ table / weights.sum())


class _Tables(NamedTuple):
    """Tabulated sums over the documents of one group, as functions of its weight."""

    weight: float  # b_g
    table: Array  # (n_nodes,)
    of_tokens: float  # -sum_j r(A1, N_jg)
    value: float  # its part of F


class Groups:
    """Groups of topics at given concentrations, which merge and exchange topics.

    The value of a group is its part of F. The last place is for a topic that moves.
    """

    def __init__(
        self, counts: TopicCounts, outer: float, inner: float, labels: NDArray
    ):
        """Tabulate each group of a partition."""
        n = counts.n_topics
        self.counts, self.outer, self.inner = counts, outer, inner
        self.nodes, self.spare = Nodes(counts.weights.min()), n
        n_nodes = len(self.nodes.at)
        self.labels = np.array(labels, dtype=np.int32)
        self.members: list[list[int]] = [[] for _ in range(n + 1)]
        for k in range(n):
            self.members[labels[k]].append(k)
        self.weights, self.values = np.zeros(n + 1), np.zeros(n + 1)
        self.of_tokens = np.zeros(n + 1)  # -sum_j r(A1, N_jg)
        self.offsets = np.zeros(n + 1)  # this less the value
        self.tables = np.zeros((n + 1, n_nodes))
        self.topic_tables = np.zeros((n, n_nodes))
        self._sums, self._seen = np.zeros(n + 1), np.empty(n + 1, dtype=np.int32)
        self.alone: list[_Tables] = []  # of each topic
        for k in range(n):
            tokens = Moments.of(counts.of_topic(k)[1])
            bases = inner * counts.weights[k] / self.nodes.b
            rising_sums(*tokens, bases, self.topic_tables[k])
            self.alone.append(self._tables([k], counts.of_topic(k)[1]))
        self.tokens: list[tuple[Ints32, Array]] = [(_NONE, np.zeros(0))] * (n + 1)
        for g in range(n):
            if self.members[g]:
                parts = [counts.of_topic(k) for k in self.members[g]]
                self._put(g, self._sum(parts))

    @property
    def present(self) -> Ints:
        """Positions of the groups that are not empty."""
        return np.flatnonzero(self.weights[: self.spare])

    def _sum(self, parts: Iterable[tuple[Ints32, Array]]) -> tuple[Ints32, Array]:
        """Sum tokens by document; return documents, ascending, and sums."""
        sums = np.zeros(self.counts.n_docs)
        for docs, tokens in parts:
            sums[docs] += tokens
        docs = np.flatnonzero(sums).astype(np.int32)
        return docs, sums[docs]

    def _tables(self, members: list[int], tokens: Array) -> "_Tables":
        """Tabulate the sums over documents of a group with these tokens."""
        moments, minus = Moments.of(tokens), np.zeros(1)
        table = self.topic_tables[members].sum(axis=0)
        weight = float(self.counts.weights[members].sum())
        rising_sums(*moments, self.outer * self.nodes.b, table)
        rising_sums(*moments, np.array([self.inner]), minus)
        value = self.nodes.value(table, weight) - float(minus[0])
        return _Tables(weight, table, -float(minus[0]), value)

    def _put(
        self, g: int, tokens: tuple[Ints32, Array], tables: "_Tables | None" = None
    ) -> None:
        """Set the tokens of group g in place, and tabulate it."""
        tables = self._tables(self.members[g], tokens[1]) if tables is None else tables
        self.tokens[g], self.tables[g] = tokens, tables.table
        self.weights[g], self.of_tokens[g] = tables.weight, tables.of_tokens
        self.values[g] = tables.value
        self.offsets[g] = tables.of_tokens - tables.value

    def gains(self, g: int, among: NDArray | None = None) -> Array:
        """Gains in nats of merges of group g with each other; -inf if impossible.

        `among` are the groups to compare with, (K + 1,) of bool.
        """
        weights = self.weights if among is None else np.where(among, self.weights, 0.0)
        counts, gains = self.counts.by_doc, np.empty(len(self.weights))
        merge_gains(
            *self.tokens[g],
            counts.indptr,
            counts.indices,
            counts.data,
            self.labels,
            g,
            self.outer,
            self.inner,
            weights,
            self.tables,
            self.offsets,
            self.nodes.at,
            self.nodes.factors,
            self._sums,
            self._seen,
            gains,
        )
        return gains

    def merge(self, g: int, h: int) -> None:
        """Move all topics of group h to group g, in place."""
        self.labels[self.members[h]] = g
        self.members[g] = sorted(self.members[g] + self.members[h])
        tokens = self._sum([self.tokens[g], self.tokens[h]])
        self.members[h], self.weights[h] = [], 0.0
        self._put(g, tokens)

    def agglomerate(self, n_groups: int, *, blocks: NDArray | None = None) -> list:
        """Merge the two groups of the largest gain until `n_groups` are left, in place.

        With `blocks`, a label of each group, only groups of one label merge. Returns
        (gain, first group, other group) of each merge; the first takes the topics. Ties
        go to the first groups.
        """
        blocks = np.zeros(self.spare, dtype=int) if blocks is None else blocks
        gains = np.full((self.spare, self.spare), -np.inf)

        def compare(g):
            """Compute the gains of merges of group g with all others."""
            among = np.append(blocks == blocks[g], False)
            result = self.gains(g, among)[: self.spare]
            gains[g, g + 1 :], gains[:g, g] = result[g + 1 :], result[:g]

        for g in self.present:
            compare(g)
        merges = []
        for _ in range(len(self.present) - n_groups):
            g, h = map(int, np.unravel_index(gains.argmax(), gains.shape))
            merges.append((float(gains[g, h]), g, h))
            self.merge(g, h)
            gains[h], gains[:, h] = -np.inf, -np.inf
            compare(g)
        return merges

    def regroup(self, *, keep_number: bool = False) -> None:
        """Move single topics to other groups, or to none, while evidence rises."""
        for _ in range(MAX_PASSES):
            if not sum(self._move(k, keep_number) for k in range(self.spare)):
                break

    def _move(self, k: int, keep_number: bool) -> bool:
        """Move topic k to the group of largest gain; return whether it moved."""
        g = int(self.labels[k])
        if len(self.members[g]) == 1:
            gains = self.gains(g)
            best = int(gains.argmax())
            if keep_number or gains[best] <= LEAST_GAIN:
                return False
            self.merge(best, g)
            return True
        # Topic k is a group by itself in the last place, its label unchanged.
        self.labels[k], self.members[self.spare] = self.spare, [k]
        self._put(self.spare, self.counts.of_topic(k), self.alone[k])
        gains = self.gains(self.spare)
        gains[g] = self._gain_of(k, g)
        best = int(gains.argmax())
        stays_alone = not keep_number and gains[best] < 0.0
        is_better = (0.0 if stays_alone else gains[best]) > gains[g] + LEAST_GAIN
        self.labels[k] = g
        self.members[self.spare], self.weights[self.spare] = [], 0.0
        if not is_better:
            return False
        docs, tokens = self.counts.of_topic(k)
        left, sums = self.tokens[g][1].copy(), self.tokens[g][0]
        at = np.searchsorted(sums, docs)
        left[at] -= tokens
        left[at[left[at] <= ROUNDING * tokens]] = 0.0
        own = self.members[: self.spare].index([])
        self.members[g].remove(k)
        self.members[own], self.labels[k] = [k], own
        self._put(g, (sums[left > 0.0], left[left > 0.0]))
        self._put(own, (docs, tokens), self.alone[k])
        if not stays_alone:
            self.merge(best, own)
        return True

    def _gain_of(self, k: int, g: int) -> float:
        """Gain of topic k, alone in the last place, by its return to group g."""
        docs, tokens = self.counts.of_topic(k)
        left = self.weights[g] - self.counts.weights[k]
        before = self.tokens[g][1][np.searchsorted(self.tokens[g][0], docs)]
        after = before - tokens
        bases = np.array([self.outer * left, self.inner])
        with_it, without = np.zeros(2), np.zeros(2)
        rising_sums(*Moments.of(before), bases, with_it)
        rising_sums(*Moments.of(after[after > ROUNDING * tokens]), bases, without)
        change = without - with_it
        rest = self.nodes.value(self.tables[g] - self.topic_tables[k], left)
        rest += self.of_tokens[g] + change[0] - change[1]
        return float(self.values[g] - rest - self.values[self.spare])


@dataclass(frozen=True, slots=True)
class Grouping:
    """A partition of topics, its tree, and how it compares with no groups."""

    labels: Ints32  # (K,)
    outer: float  # A0
    inner: float  # A1
    gain: float  # F less that of no groups, nats
    cost: float  # logarithm of the number of such partitions
    merges: Array  # (K - 1, 4) as SciPy's linkage, heights in nats
    gains: Array  # (K - 1,) of each merge, nats

    @property
    def is_worth_it(self) -> bool:
        """Whether the evidence exceeds the cost of choosing among partitions."""
        return self.gain > self.cost


def group_topics(counts: TopicCounts, n_groups: int | None = None) -> Grouping:
    """Search for the partition into `n_groups` groups with the most evidence.

    Starts are cuts of the average-linkage tree by correlation of topics' presence in
    documents, P_jk; from each, single topics move, with concentrations updated in
    between.
    """
    n = counts.n_topics
    best = flat = Evidence.of(counts, np.arange(n))
    if n > 2 or n_groups == 1:
        distances = 1.0 - presence_correlations(counts.by_doc)
        tree, free = average(distances[np.triu_indices(n, 1)]), n_groups is None
        numbers = [m for m in STARTS if m < n][-N_STARTS:]
        if n_groups is not None:
            numbers = [n_groups, min(2 * n_groups, n)]
        starts = [_start(counts, cut(tree, m), n_groups) for m in numbers]
        ends = [
            _regroup_in_rounds(counts, start, START_TOL, free=free) for start in starts
        ]
        best = max(ends, key=lambda end: end.value)
        best = _regroup_in_rounds(counts, best, LEAST_GAIN, free=free)
    m = best.n_groups
    cost = float(n * np.log(m) - gammaln(m + 1)) if 1 < m < n else 0.0
    gain = best.value - flat.value
    tree, gains = linkage(counts, best)
    return Grouping(best.labels, best.outer, best.inner, gain, cost, tree, gains)


def _start(counts: TopicCounts, labels: NDArray, n_groups: int | None) -> Evidence:
    """Return the evidence of a partition, groups merged if there are too many."""
    start = Evidence.of(counts, labels)
    if n_groups is None or start.n_groups == n_groups:
        return start
    groups = Groups(counts, start.outer, start.inner, start.labels)
    groups.agglomerate(n_groups)
    return Evidence.of(counts, groups.labels)


def _regroup_in_rounds(
    counts: TopicCounts, start: Evidence, tol: float, *, free: bool
) -> Evidence:
    """Move topics while each round gains at least `tol` nats per document."""
    best = start
    for _ in range(MAX_ROUNDS):
        groups = Groups(counts, best.outer, best.inner, best.labels)
        groups.regroup(keep_number=not free)
        result = Evidence.of(counts, groups.labels)
        gain = result.value - best.value
        best = result if gain > 0.0 else best
        if gain <= tol * counts.n_docs:
            break
    return best


def presence_correlations(doc_topic: sp.csr_array) -> Array:
    """Correlations of P_jk, that topic k is present in document j, (K, K)."""
    present = doc_topic.copy()
    present.data = -np.expm1(-present.data)
    means = np.asarray(present.mean(axis=0)).ravel()
    products = (present.T @ present).toarray() / max(doc_topic.shape[0], 1)
    return normalised(products - np.outer(means, means))


def normalised(products: Array) -> Array:
    """Divide products of vectors by their lengths."""
    scales = np.sqrt(np.maximum(np.diag(products), 1e-300))
    return products / np.outer(scales, scales)


def cut(tree: NDArray, n_groups: int) -> Ints:
    """Label the leaves of a linkage tree cut into `n_groups` groups."""
    n = len(tree) + 1
    names, labels = list(range(n)), np.arange(n)
    for first, other, *_ in tree[: n - n_groups]:
        g, h = names[int(first)], names[int(other)]
        labels[labels == h] = g
        names.append(g)
    return labels


def linkage(counts: TopicCounts, evidence: Evidence) -> tuple[Array, Array]:
    """Merge topics within groups, then the groups: SciPy's linkage, and gains.

    Heights are the largest gain minus the gain, and never fall.
    """
    n, labels = counts.n_topics, evidence.labels
    groups = Groups(counts, evidence.outer, evidence.inner, np.arange(n))
    within = groups.agglomerate(evidence.n_groups, blocks=labels)
    steps = within + groups.agglomerate(1)
    gains = np.array([gain for gain, *_ in steps])
    heights = np.maximum.accumulate(gains.max(initial=0.0) - gains)
    if 0 < len(within) < len(steps):  # a cut between has this number of groups
        separate = heights[len(within) - 1] * (1.0 + 1e-9) + 1e-9
        heights[len(within) :] = np.maximum(heights[len(within) :], separate)
    tree, names, sizes = np.zeros((n - 1, 4)), list(range(n)), np.ones(n)
    for row, (_, g, h) in enumerate(steps):
        sizes[g] += sizes[h]
        tree[row] = *sorted((names[g], names[h])), heights[row], sizes[g]
        names[g] = n + row
    return tree, gains


# A path of merges from all topics to one, chosen by the evidence of their words.
#
# Topics are counts n_kw of words, of a vocabulary of V, under Dir(eta). With N_k the
# sums of the counts, the log evidence of the words of a topic is
#
#     E(n) = sum_w [lnG(eta + n_w) - lnG(eta)] - lnG(V eta + N) + lnG(V eta),
#
# and a merge of topics a and b loses E(a) + E(b) - E(a + b) nats.
#
# The cheapest of some candidate pairs is merged: the `N_NEAREST` of each topic by the
# affinity of Bhattacharyya, sum_w sqrt(p_aw p_bw), with losses by the formula.
# (Candidates by an estimate of the loss are worse: a light topic is cheap to merge with
# anything, and all would list the lightest.) A topic that was merged lists candidates
# afresh.
#
# Early merges are chosen without regard to late ones. So the path is made twice: at
# `N_GROUPS` the first one gives groups, between which single topics move while that
# raises the evidence; the second one merges within these groups, then the groups.
#
# What users see of a merge is the mutual information of words with topics that it
# loses, I(a) + I(b) - I(a + b), I(n) = sum_w n_w log n_w - N log N. It is the loss of
# evidence by the frequencies of words in the place of a prior.


# Measured in `benchmarks/results/fewer_topics.md`.
#: Dirichlet parameter of words, eta. By a much smaller one many topics join one of all
#: that is left; by information alone weights are more equal, and topics less coherent.
PRIOR = 0.1
#: Candidates of a topic.
N_NEAREST = 15
#: Groups between which topics move, and passes over all topics.
N_GROUPS, MAX_PATH_PASSES = 20, 3


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
    for _ in range(MAX_PATH_PASSES):
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
