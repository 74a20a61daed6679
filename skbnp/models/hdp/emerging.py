"""Topics of a stream of an HDP that are new since a call, and topics that have faded.

A two-sample test of the documents that a stream keeps, before a call and since, in
two halves, each of which judges topics that the other has proposed:
`doc/derivations/hdp.rst` has the equations. If documents repeat words, their first uses
count, as in the model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from skbnp.inference.executor import Executor
from skbnp.models.hdp import stream_trials
from skbnp.models.hdp.fold_in import MeanTopics, fold_in, mix
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.models.hdp.stream_trials import SAME, CandidateDocuments, LateMixture
from skbnp.utils.arrays import deal_tokens, kernel_arrays, largest, rows_of
from skbnp.utils.matching import cosines
from skbnp.utils.random import Purpose, some_rows, stream
from skbnp.utils.typing import Array, Flags, Ints

#: Probability that a call on a stream without new topics lists any.
FALSE_ALARMS = 0.01
#: Kinds of changes that share it: new and faded.
N_KINDS = 2
#: Share of documents that have a new topic before it begins, over that since, at most;
#: for one that has faded the other way.
MOST_BEFORE = 0.2
#: Share of tokens of a topic before a call, over that since, from which it is older:
#: others are proposed anew.
OLDER = 0.5
#: Topics that are proposed by each part, rounds of their EM algorithm, and documents of
#: either kind that are compared in pairs, at most.
MOST_PROPOSED, ROUNDS, MOST_COMPARED = 8, 10, 2000
#: Cosine of unexplained words from which a document begins a topic with another.
LEAST_SIMILARITY = 0.2
#: Steps s of the bound of a p-value; each gives one.
STEPS = np.geomspace(0.05, 50.0, 40)

# Shares of a topic in documents that have it, and their weights: uniform, by Gauss and
# Legendre.
_nodes, _weights = np.polynomial.legendre.leggauss(5)
SHARES, LOG_WEIGHTS = 0.5 * (_nodes + 1.0), np.log(0.5 * _weights)


@dataclass(frozen=True, slots=True)
class Change:
    """A topic that is new since a call, or that has faded."""

    kind: str  # "new" or "faded"
    begin: int  # the first call with it, or without
    topic: int  # id of the present topic like it; -1 if there is none yet
    columns: Ints  # words of documents kept, (n_some,)
    words: Array  # (n_some,) their probability
    mean: Array  # (n_some,) that under all older topics
    n_documents: float  # with it, expected number, since it began or before it faded
    n_kept: int  # documents kept of that time
    gain: float  # of documents that judged, nats; nan of one that has faded
    error: float  # standard error of the gain
    p_value: float
    nearest: int = -1  # id of the older topic that is most similar
    cosine: float = np.nan

    def leading(self, n_terms: int) -> Ints:
        """Columns by which the topic differs most from all older ones.

        Those with the largest parts in its divergence from their mean.
        """
        ratio = self.words / np.maximum(self.mean, 1e-300)
        return self.columns[largest(self.words * np.log(ratio), n_terms)]

    def is_like(self, other: "Change") -> bool:
        """Whether another change is of the same kind and of such a topic."""
        words = np.zeros((2, int(max(self.columns[-1], other.columns[-1])) + 1))
        words[0, self.columns], words[1, other.columns] = self.words, other.words
        return self.kind == other.kind and cosines(words[:1], words[1:])[0, 0] >= SAME

    def line(self, terms: Sequence[str], name: str | None = None) -> str:
        """Describe the change in one line, for a log."""
        topic = f"topic {self.topic}" if self.topic >= 0 else "no topic of its own yet"
        share = self.n_documents / self.n_kept
        parts = [
            f"{self.kind} since call {self.begin}: {name or topic}",
            f"{self.n_documents:.0f} of {self.n_kept} documents ({share:.1%})",
        ]
        if self.kind == "new":
            parts.append(f"{self.gain:.0f} +- {self.error:.0f} nats")
            parts.append(f"nearest older topic {self.nearest} ({self.cosine:.2f})")
        parts.append(f"p {self.p_value:.1g}")
        return f"{', '.join(parts)}: {', '.join(terms)}"


@dataclass(frozen=True, slots=True)
class Kept:
    """Documents that a stream keeps, with the calls in which they came."""

    counts: sp.csr_array  # (n_docs, n_some) of the words that any document has
    calls: Ints  # (n_docs,)
    part: Flags  # (n_docs,) which of the two

    @classmethod
    def of(cls, posterior: HDPPosterior) -> tuple["Kept", Ints]:
        """Return the documents of a stream, and their words."""
        reservoir = posterior.kept
        X, keys = reservoir.counts, reservoir.keys
        is_full = np.diff(X.indptr) > 0
        X, keys = X[is_full], keys[is_full]
        some, places = np.unique(X.indices, return_inverse=True)
        values = X.data
        if posterior.state.burstiness is not None:
            values = np.minimum(values, 1.0)
        arrays = values, places.astype(np.int32), X.indptr
        counts = sp.csr_array(arrays, (X.shape[0], len(some)))
        part = (keys & np.uint64(1)) == 1
        return cls(counts, reservoir.calls[is_full].astype(np.intp), part), some


class Topics(NamedTuple):
    """Fixed topics over the words of the documents, and the prior of a document."""

    ids: Ints  # (K,)
    words: Array  # (n_some, K), what they lack to one are other words
    prior: Array  # (K,)
    rest: float  # prior of all topics that are not represented
    eta: float
    n_features: int

    @classmethod
    def present(cls, posterior: HDPPosterior, some: Ints) -> "Topics":
        """Return the topics of a posterior."""
        state, counts = posterior.state.for_prediction, posterior.global_stats
        eta = state.topic_word_prior
        words = MeanTopics.of(counts.topic_words, eta)[some]
        rest = state.doc_concentration * state.weights[-1]
        n_features = counts.topic_words.shape[0]
        numbers = float(rest), float(eta), n_features
        return cls(posterior.ids, words, state.doc_prior, *numbers)

    def probability(
        self, observed: sp.csr_array, X: sp.csr_array, executor: Executor
    ) -> tuple[Array, Array]:
        """Probability of each entry of `X`, given `observed` words of its documents.

        And the Dirichlet parameters of documents, (n_docs, K).
        """
        counts = fold_in(self.words, self.prior, observed, executor)
        theta = counts.toarray() + self.prior
        mixed = mix(theta, self.words, X) + self.rest / self.n_features
        total = theta.sum(axis=1) + self.rest
        return mixed / total[rows_of(X.indptr)], theta

    def until(
        self,
        X: sp.csr_array,
        is_after: Flags,
        rng: np.random.Generator,
        executor: Executor,
    ) -> "Topics":
        """Return the older topics, as documents before a call use them: by one EM step.

        Those of which there is much more since are older if documents before the call
        need them: if the gain of these by the topic is not small beside that since.
        """
        probability, theta = self.probability(X, X, executor)
        shares = theta / (theta.sum(axis=1, keepdims=True) + self.rest)
        before, after = (shares[of].mean(axis=0) for of in (~is_after, is_after))
        is_older = (before > OLDER * after) | (before == before.max())
        rows, observed, held_out = next(deal_tokens(X, 2, rng))
        for column in np.flatnonzero(~is_older).tolist():
            gains = np.zeros(X.shape[0])
            gains[rows] = self._gains(column, observed, held_out, executor)
            before, after = gains[~is_after].mean(), gains[is_after].mean()
            is_older[column] = before > MOST_BEFORE * max(after, 0.0)
        ratio = sp.csr_array((X.data / probability, X.indices, X.indptr), X.shape)
        counts = self.words * (ratio[~is_after].T @ shares[~is_after])
        counts = counts[:, is_older]
        tokens = np.maximum(counts.sum(axis=0), 1e-12)
        prior = self.prior.sum() * tokens / tokens.sum()
        words, ids = self.normalised(counts.T).T, self.ids[is_older]
        return self._replace(ids=ids, words=words, prior=prior)

    def _gains(
        self,
        column: int,
        observed: sp.csr_array,
        held_out: sp.csr_array,
        executor: Executor,
    ) -> Array:
        """Gain of documents by one of the topics beside the others, nats, (n_docs,)."""
        prior = self.prior.copy()
        prior[column] = 0.0
        whole, _ = self.probability(observed, held_out, executor)
        others = self._replace(prior=prior)
        part, _ = others.probability(observed, held_out, executor)
        logs = held_out.data * np.log(whole / part)
        rows = rows_of(held_out.indptr)
        return np.bincount(rows, logs, held_out.shape[0]).astype(np.float64)

    @property
    def mean(self) -> Array:
        """Mean of the topics, (n_some,)."""
        total = self.prior.sum() + self.rest
        return (self.words @ self.prior + self.rest / self.n_features) / total

    def normalised(self, counts: Array) -> Array:
        """Topics of expected counts, (..., n_some)."""
        total = counts.sum(axis=-1, keepdims=True) + self.eta * self.n_features
        return (counts + self.eta) / total


class Explained(NamedTuple):
    """Documents, and the probability of their words under older topics."""

    X: sp.csr_array
    old: Array  # (nnz,)

    def take(self, some: Flags) -> "Explained":
        """Return some of the documents."""
        return Explained(self.X[some], self.old[some[rows_of(self.X.indptr)]])

    def evidence(self, topic: Array) -> Array:
        """Log ratio of probabilities with shares of a topic and without, (n_docs, S).

        Weights of the shares included.
        """
        X, excess = self.X, topic[self.X.indices] / self.old - 1.0
        result = np.empty((X.shape[0], len(SHARES)))
        for place, share in enumerate(SHARES):
            logs = X.data * np.log1p(share * excess)
            result[:, place] = np.bincount(rows_of(X.indptr), logs, X.shape[0])
        return result + LOG_WEIGHTS


def _have_topic(evidence: Array, share: float) -> Array:
    """Probability that documents have a topic that `share` of all have, (n_docs,)."""
    odds = logsumexp(evidence, axis=1) + np.log(share / (1.0 - share))
    return 1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0)))


def _mean_shares(evidence: Array) -> Array:
    """Expected share of a topic in documents that have it, (n_docs,)."""
    return np.exp(evidence - logsumexp(evidence, axis=1, keepdims=True)) @ SHARES


def _share_of_documents(evidence: Array) -> float:
    """Share of documents that have a topic, by EM."""
    share, change = 0.05, np.inf
    while change > 1e-3 * share:
        new = float(np.clip(_have_topic(evidence, share).mean(), 1e-9, 0.5))
        share, change = new, abs(new - share)
    return share


# -- proposals ----------------------------------------------------------------------


def _compared(
    residual: sp.csr_array, is_after: Flags, rng: np.random.Generator
) -> tuple[Ints, Array, Array]:
    """Compare documents by the words that older topics leave unexplained.

    Returns documents after a call that may begin a topic, (n,), cosines of their words,
    (n, n), 0 with themselves, and how many more are similar after the call than before
    it, (n,).
    """
    n_docs = residual.shape[0]
    n_with = np.bincount(residual.indices[residual.data > 0.0], minlength=1)
    values = np.sqrt(residual.data)
    values *= np.log((n_docs + 1.0) / (n_with[residual.indices] + 1.0))
    unit = sp.csr_array((values, residual.indices, residual.indptr), residual.shape)
    norm = np.sqrt(np.asarray(unit.multiply(unit).sum(axis=1)).ravel())
    unit = sp.csr_array(sp.diags_array(1.0 / np.maximum(norm, 1e-300)) @ unit)
    after, before = (
        some_rows(np.flatnonzero(of), rng, MOST_COMPARED)
        for of in (is_after, ~is_after)
    )
    similarity = (unit[after] @ unit[after].T).toarray()
    np.fill_diagonal(similarity, 0.0)
    others = np.square((unit[after] @ unit[before].T).toarray()).mean(axis=1)
    own = np.square(similarity).sum(axis=1) / max(len(after) - 1, 1)
    return after, similarity, own - others


def propose(
    docs: Explained, is_after: Flags, older: Topics, rng: np.random.Generator
) -> list[Array]:
    """Propose topics for what is similar after a call, and less so before it.

    Each begins with a document that is unlike those of the topics before, and has none.
    """
    X, prior = docs.X, (older.n_features, older.eta)
    mixture = LateMixture(*kernel_arrays(X), docs.old)
    _, values = CandidateDocuments(mixture, X.shape[1], *prior).residual()
    residual = sp.csr_array((values, X.indices, X.indptr), X.shape)
    rows, similarities, witness = _compared(residual, is_after, rng)
    free, topics = np.ones(len(rows)), list[Array]()
    for _ in range(MOST_PROPOSED):
        seed = int(np.argmax(witness * free))
        similarity = similarities[seed]
        if witness[seed] * free[seed] <= 0.0:
            break
        weights = np.where(similarity >= LEAST_SIMILARITY, np.square(similarity), 0.0)
        weights[seed] = 1.0
        free *= 1.0 - np.minimum(2.0 * similarity, 1.0)
        free[seed] = 0.0
        counts, share = _learn(weights @ residual[rows], docs, is_after, older)
        if counts.any():
            topics.append(older.normalised(counts))
            compared = np.isin(np.arange(docs.X.shape[0]), rows)
            evidence = docs.take(compared).evidence(topics[-1])
            free *= 1.0 - _have_topic(evidence, share)
    return _distinct(topics)


def _learn(
    counts: Array, docs: Explained, is_after: Flags, topics: Topics
) -> tuple[Array, float]:
    """Learn a proposed topic by EM from expected counts, (n_some,).

    Counts of documents before the call are subtracted, at the ratio of their numbers.
    Returns the counts, zeros if they are few, and the share of documents after the call
    that have the topic.
    """
    sign = np.where(is_after, 1.0, -is_after.sum() / max((~is_after).sum(), 1))
    share = 0.05
    for place in range(ROUNDS):
        topic = topics.normalised(counts)
        evidence = docs.evidence(topic)
        has_topic = _have_topic(evidence, share)
        if place == 0:  # the others never have it
            some = has_topic > 1e-9
            docs, sign = docs.take(some), sign[some]
            evidence, has_topic = evidence[some], has_topic[some]
        share = float(np.clip(has_topic[sign > 0.0].sum() / is_after.sum(), 1e-6, 0.5))
        rows, mean = rows_of(docs.X.indptr), _mean_shares(evidence)
        ratio = topic[docs.X.indices] / docs.old
        part = mean[rows] * ratio / (1.0 - mean[rows] + mean[rows] * ratio)
        weights = docs.X.data * part * (has_topic * sign)[rows]
        counts = np.maximum(np.bincount(docs.X.indices, weights, len(topic)), 0.0)
        if counts.sum() < stream_trials.FEWEST_TOKENS:
            return np.zeros(len(topic)), 0.0
    return counts, share


# -- tests --------------------------------------------------------------------------


def log_tail(weights: Array, share: float, total: float) -> float:
    """Bound of the log probability that random documents have `total` of the weights.

    Each document is one of them with probability `share`; (n_docs,) weights >= 0.
    """
    weights = weights[weights > 0.0]
    if total <= share * weights.sum():
        return 0.0
    grown = np.expm1(np.minimum(np.outer(STEPS / weights.max(), weights), 700.0))
    bounds = np.log1p(share * grown).sum(axis=1) - STEPS / weights.max() * total
    return float(min(bounds.min(), 0.0))


def _change(
    weights: Array, calls: Ints, since: int, *, fades: bool = False
) -> tuple[float, int]:
    """Return the log p-value that weights change after a call, and the next call.

    The bound is the least one of all calls from `since` on at which the share of
    documents changes enough, times their number; 0 if it does at none.
    """
    numbers, places = np.unique(calls, return_inverse=True)
    n_docs = np.cumsum(np.bincount(places)).astype(np.float64)
    sums = np.cumsum(np.bincount(places, weights))
    best, begin = 0.0, -1
    splits = np.flatnonzero(numbers[:-1] >= since)
    for place in splits.tolist():
        before = sums[place], n_docs[place]
        after = sums[-1] - sums[place], n_docs[-1] - n_docs[place]
        low, high = (after, before) if fades else (before, after)
        if low[0] / low[1] > MOST_BEFORE * high[0] / high[1]:
            continue
        bound = log_tail(weights, high[1] / n_docs[-1], high[0])
        if bound < best:
            best, begin = bound, int(numbers[place + 1])
    return best + np.log(max(len(splits), 1)), begin


def _gain(
    posterior: HDPPosterior,
    older: Topics,
    topic: Array,
    X: sp.csr_array,
    share: float,
    executor: Executor,
) -> tuple[float, float]:
    """Gain of documents by a topic beside all older ones, in nats, and its error.

    Words of one half of each, predicted from the other half.
    """
    rng = stream(posterior.seed_entropy, Purpose.SPLIT_TOKENS, posterior.n_steps, 2)
    _, observed, held_out = next(deal_tokens(X, 2, rng))
    if observed.shape[0] == 0:
        return 0.0, 0.0
    old, _ = older.probability(observed, observed, executor)
    evidence = Explained(observed, old).evidence(topic)
    shares = _have_topic(evidence, share) * _mean_shares(evidence)
    old, _ = older.probability(observed, held_out, executor)
    excess = topic[held_out.indices] / old - 1.0
    rows = rows_of(held_out.indptr)
    logs = held_out.data * np.log1p(shares[rows] * excess)
    gains = np.bincount(rows, logs, held_out.shape[0])
    return float(gains.sum()), float(gains.std() * np.sqrt(len(gains)))


def new_topics(posterior: HDPPosterior, since: int, executor: Executor) -> list[Change]:
    """Return the topics that are new since a call, the least p-value first."""
    kept, columns = Kept.of(posterior)
    present = Topics.present(posterior, columns)
    result = list[Change]()
    for part in (False, True):
        learns = kept.part == part
        is_after, are_after = kept.calls[learns] > since, kept.calls[~learns] > since
        if len({*is_after}) < 2 or len({*are_after}) < 2:
            continue
        rng = stream(posterior.seed_entropy, Purpose.SPLIT_TOKENS, posterior.n_steps, 3)
        older = present.until(kept.counts[learns], is_after, rng, executor)
        old, _ = older.probability(kept.counts, kept.counts, executor)
        docs = Explained(kept.counts, old)
        proposed = propose(docs.take(learns), is_after, older, rng)
        for topic in proposed:
            evidence = docs.evidence(topic)
            share = _share_of_documents(evidence[~learns])
            have_topic = _have_topic(evidence, share)
            weights = have_topic * _mean_shares(evidence)
            bound, begin = _change(weights[~learns], kept.calls[~learns], since)
            bound += np.log(N_KINDS * 2 * len(proposed))
            if bound > np.log(FALSE_ALARMS):
                continue
            is_since = kept.calls >= begin
            given = older, topic, kept.counts[~learns & is_since], share
            gain, error = _gain(posterior, *given, executor)
            if gain <= max(stream_trials.LEAST_GAIN, stream_trials.ERRORS * error):
                continue
            before = cosines(topic[None], older.words.T)[0]
            now = cosines(topic[None], present.words.T)[0]
            own = int(present.ids[now.argmax()]) if now.max() >= SAME else -1
            before[older.ids == own] = 0.0  # what it was before is no other topic
            result.append(
                Change(
                    kind="new",
                    begin=begin,
                    topic=own,
                    columns=columns,
                    words=topic,
                    mean=older.mean,
                    n_documents=float(have_topic[is_since].sum()),
                    n_kept=int(is_since.sum()),
                    gain=gain,
                    error=error,
                    p_value=float(np.exp(bound)),
                    nearest=int(older.ids[before.argmax()]),
                    cosine=float(before.max()),
                )
            )
    result.sort(key=lambda change: change.p_value)
    topics = _distinct(change.words for change in result)
    return [one for one in result if any(one.words is words for words in topics)]


def _distinct(topics: Iterable[Array]) -> list[Array]:
    """Topics without those that are like an earlier one."""
    chosen = list[Array]()
    for topic in topics:
        if not chosen or cosines(topic[None], np.array(chosen)).max() < SAME:
            chosen.append(topic)
    return chosen


def faded_topics(
    posterior: HDPPosterior, since: int, executor: Executor
) -> list[Change]:
    """Return the topics that have faded since a call, the least p-value first."""
    kept, columns = Kept.of(posterior)
    present = Topics.present(posterior, columns)
    counts = fold_in(present.words, present.prior, kept.counts, executor)
    lengths = np.asarray(kept.counts.sum(axis=1)).ravel()
    shares = sp.csc_array(sp.diags_array(1.0 / lengths) @ counts)
    result = list[Change]()
    for column, topic in enumerate(posterior.ids.tolist()):
        weights = shares[:, [column]].toarray().ravel()
        bound, begin = _change(weights, kept.calls, since, fades=True)
        bound += np.log(N_KINDS * shares.shape[1])
        if bound > np.log(FALSE_ALARMS):
            continue
        is_before = kept.calls < begin
        result.append(
            Change(
                kind="faded",
                begin=begin,
                topic=topic,
                columns=columns,
                words=present.words[:, column],
                mean=present.mean,
                n_documents=float(weights[is_before].sum()),
                n_kept=int(is_before.sum()),
                gain=np.nan,
                error=np.nan,
                p_value=float(np.exp(bound)),
            )
        )
    return sorted(result, key=lambda change: change.p_value)
