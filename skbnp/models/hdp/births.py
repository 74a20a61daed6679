"""Births and reductions of topics of an HDP, proposed for held-out documents to judge.

Births: converged topics take the documents back from new ones, so all start again, old
ones nearly as blurred as the new, and learn as a fit does from its start. Reductions:
the loss of merges and ends of topics is predicted from held-out documents, with
proportions and topics fixed; the cheapest are made together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from skbnp.inference import protocols
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior, keep_heaviest
from skbnp.inference.protocols import Collected, Corpus, Moves, Round
from skbnp.kernels._moves import add_losses
from skbnp.models.hdp.burstiness import N_DOCS, evenly, learn_burstiness
from skbnp.models.hdp.fold_in import MeanTopics, fold_in
from skbnp.models.hdp.held_out import HeldOut, Prediction
from skbnp.models.hdp.local import MAX_ITER, TOL, CollapsedStep
from skbnp.models.hdp.model import SMALLEST_WEIGHT
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.rows.batch import Batch
from skbnp.utils.arrays import column_sums, row_parts, rows_of
from skbnp.utils.random import gamma_noise
from skbnp.utils.typing import Array, Flags, Ints

#: Of a topic that starts again: the share that was its own, and of a new one that of
#: a document. The rest is the corpus, with noise.
OLD_SHARE, NEW_SHARE = 0.2, 0.4
#: Births for each present topic, and at least.
BIRTH_RATE, FEWEST_BIRTHS = 2.0, 10
#: Births are tried while so large a share of the topics that began are alive. In the
#: mean-field family many die while others still stand for two topics each.
ALIVE, ALIVE_MEAN_FIELD = 0.8, 0.5
#: The share of a document where all topics start from documents.
DOC_SHARE = 0.2
#: Documents of a stream for each topic before unused ones end.
DOCS_PER_TOPIC = 10
#: Topics that are weighed for a merge with each one.
N_NEAREST = 3
#: Of a topic that ends, the share of its proportion that falls to topics which the
#: document has none of: a document of that topic alone must go somewhere.
ELSEWHERE = 0.01
#: Held-out tokens that must speak of a topic, or such a share where there are few; or
#: it is not judged.
FEWEST_TOKENS, FEWEST_SHARE = 2.0, 0.01
#: Share of a topic's tokens from which it is of one document. By half of them the near
#: copies of `reuters395` lose .004 nats per token, by .9 .001; planted ones none.
OF_ONE = 0.9


def blur(topics: Array, share: float, corpus: Array, rng: np.random.Generator) -> Array:
    """Mix topics, (V, K), with noisy word frequencies; columns sum to one.

    `share` is that of the topic itself, the remainder that of `corpus`, (V,), each word
    times gamma noise.
    """
    mixed = np.empty(topics.shape)
    _blend(mixed, lambda words: topics[words], topics.sum(axis=0), share, corpus, rng)
    return mixed


def _blend(
    mixed: Array,
    topics: Callable[[slice], Array],
    global_stats: Array,
    share: float,
    corpus: Array,
    rng: np.random.Generator,
) -> None:
    """Write the mixtures of `blur` to `mixed`, in place.

    `topics` returns the rows of a slice of words, and `global_stats` are sums of
    topics.
    """
    gamma_noise(mixed.shape, rng, out=mixed)
    mixed *= corpus[:, None]
    mixed *= (1.0 - share) / mixed.sum(axis=0)
    scale = share / global_stats
    for words in row_parts(mixed.shape):
        mixed[words] += topics(words) * scale


def number_of_births(
    posterior: HDPPosterior, most: int, n_started: int, prior_started: float
) -> int:
    """Number of births to propose, twice that of the topics; 0 if many have died.

    At most `most`. `n_started` and `prior_started` are the number of topics and the
    topic prior that the posterior started from.
    """
    state, n_topics = posterior.state, posterior.state.n_components
    wanted = max(int(BIRTH_RATE * n_topics), FEWEST_BIRTHS)
    n_births = min(wanted, most, posterior.max_components - n_topics)
    was_tried = n_births < wanted and n_topics + n_births <= n_started
    alive = ALIVE_MEAN_FIELD if posterior.model.has_bound else ALIVE
    # As many times more would live as the topic prior has become smaller.
    fall = max(prior_started / state.topic_word_prior, 1.0)
    live = min(fall * n_topics / n_started, 1.0)
    return 0 if was_tried or live < alive else int(max(n_births, 0))


def propose_births(
    posterior: HDPPosterior,
    train: Corpus,
    n_births: int,
    rng: np.random.Generator,
    n_old: int | None = None,
    old_share: float = OLD_SHARE,
    new_share: float = NEW_SHARE,
) -> HDPPosterior:
    """Return a posterior that starts again from its first topics and from new ones.

    The first `n_old` topics, by default all, and documents of `train` as `n_births` new
    ones are mixed with the corpus as by `blur`. All have equal size and weight.
    """
    drawn = rng.choice(train.n_docs, n_births, replace=train.n_docs < n_births)
    old, corpus = posterior.global_stats.topic_words, train.word_counts()
    n_old = old.shape[1] if n_old is None else n_old
    seen = old.seen.with_words(np.flatnonzero(corpus))
    corpus, new = corpus[seen.words], train.fetch(drawn)[:, seen.words]
    n_topics = n_old + len(drawn)
    kept = np.arange(min(n_topics, old.shape[1]))  # ids: topics have no order
    topics = np.empty((len(corpus), n_topics))
    if n_old > 0:
        _blend(
            topics[:, :n_old],
            lambda rows: old.rows(seen.words[rows])[:, :n_old],
            column_sums(old.parts(), old.shape[1])[:n_old],
            old_share,
            corpus,
            rng,
        )
    some = [new[rows].T.toarray().sum(axis=0) for rows in row_parts(new.shape)]
    by_word = new.T.tocsr()
    _blend(
        topics[:, n_old:],
        lambda words: by_word[words].toarray(),
        np.concatenate([np.zeros(0), *some]),  # there may be known topics alone
        new_share,
        corpus,
        rng,
    )
    topics *= corpus.sum() / n_topics
    weights = np.full(n_topics + 1, 1.0 / (n_topics + 1))
    words = old.remade(topics, seen, kept)
    return posterior.restarted(words, weights, kept)


def start_again(
    posterior: HDPPosterior, train: Corpus, distr: sp.csr_array, shares: Array
) -> HDPPosterior:
    """Return a posterior that starts again from topics of given shares.

    `distr` are distributions over all words, (K, V), and `shares` of all tokens, (K,).
    """
    old, corpus = posterior.global_stats.topic_words, train.word_counts()
    seen = old.seen.with_words(np.flatnonzero(corpus))
    topics = np.ascontiguousarray(distr[:, seen.words].T.toarray())
    topics *= corpus.sum() * shares / topics.sum(axis=0)
    kept = np.arange(min(len(shares), old.shape[1]))  # ids: topics have no order
    weights = np.maximum(np.append(shares, 1.0 - shares.sum()), SMALLEST_WEIGHT)
    words = old.remade(topics, seen, kept)
    return posterior.restarted(words, weights / weights.sum(), kept)


def add_topics(posterior: HDPPosterior, topics: sp.csr_array, shares: Array) -> None:
    """Add topics to a posterior in place, with shares of all tokens, (T,).

    `topics` are counts, (T, V); of words that are not seen, they are left out.
    """
    columns = topics[:, posterior.global_stats.topic_words.seen.words].toarray()
    columns /= columns.sum(axis=1, keepdims=True)
    posterior.add(columns, shares)


class Reduction(NamedTuple):
    """The end of a topic, or its merge into another, with the predicted loss."""

    loss: float  # nats per held-out token
    source: int  # column that goes
    target: int | None  # column that takes its words; None if it ends


def reductions(
    posterior: HDPPosterior, held_out: HeldOut, results: Prediction
) -> list[Reduction]:
    """Predict the loss of each end and each merge of topics, the cheapest first."""
    words, eta = posterior.global_stats.topic_words, posterior.state.topic_word_prior
    n_words, n_topics = words.shape
    pairs = _nearest(results.word_topic)
    one, other = np.ascontiguousarray(pairs.T, np.int64)
    # After a merge, phi = (eta + S_one + S_other) / (V eta + sum of both).
    norm = words.total + n_words * eta
    joint = norm[one] + norm[other] - n_words * eta
    merged = one, other, norm[one] / joint, norm[other] / joint, eta / joint
    weights, counts = posterior.state.weights[:-1], held_out.held_out
    ends, merges, tokens = np.zeros(n_topics), np.zeros(len(pairs)), np.zeros(n_topics)
    rows = rows_of(counts.indptr).astype(np.int64)
    for part in row_parts((counts.nnz, n_topics)):  # (n,) entries
        row = rows[part]
        first, last = int(row[0]), int(row[-1]) + 1
        theta = results.tokens[first:last].toarray() + results.prior
        theta /= results.total[first:last, None]
        topics = results.word_topic[counts.indices[part]]  # (n, K), phi_kw
        add_losses(
            counts.data[part],
            row - first,
            theta,
            topics,
            results.rest[row] / n_words,
            results.repeated[part],
            results.fresh[row],
            np.einsum("nk,k->n", topics, weights),
            ELSEWHERE,
            *merged,
            ends,
            tokens,
            merges,
        )
    n_tokens, mass = held_out.held_out.sum(), words.total
    is_known, is_fixed = words.is_known, words.is_fixed
    judged = tokens >= min(FEWEST_TOKENS, FEWEST_SHARE * n_tokens)
    ends, merges = ends / n_tokens, merges / n_tokens
    ending = np.flatnonzero(judged & ~is_known).tolist()
    all_ends = [Reduction(ends[k], k, None) for k in ending]
    rank = list(zip(is_known.tolist(), mass.tolist(), strict=True))
    all_merges = [
        Reduction(loss, *((k, n) if rank[k] <= rank[n] else (n, k)))
        for loss, (k, n) in zip(merges.tolist(), pairs.tolist(), strict=True)
        if judged[k] and judged[n]
    ]
    all_merges = [
        r for r in all_merges if not is_known[r.source] and not is_fixed[r.target]
    ]
    return sorted(all_ends + all_merges, key=lambda r: r.loss)


def _nearest(topics: MeanTopics) -> Ints:
    """Pairs (k, n), k < n, of topics of which one is among the nearest of the other."""
    unseen, n_topics = np.sqrt(topics.eta / topics.norm), len(topics.norm)
    overlap = topics.counts.seen.n_unseen * np.outer(unseen, unseen)
    for counts in topics.counts.parts():
        roots = np.sqrt((counts + topics.eta) / topics.norm)
        overlap += roots.T @ roots
    np.fill_diagonal(overlap, -1.0)
    n_nearest = min(N_NEAREST, n_topics - 1)
    nearest = np.argsort(-overlap, axis=1, kind="stable")[:, :n_nearest]
    one = np.repeat(np.arange(n_topics), n_nearest)
    pairs = np.sort(np.column_stack([one, nearest.ravel()]), axis=1)
    return np.unique(pairs, axis=0).reshape(-1, 2)


def reduce(
    posterior: HDPPosterior,
    results: list[Reduction],
    budget: float,
    limit: int | None = None,
    least: int = 0,
) -> int:
    """Merge and end topics in place, the cheapest first; return the number of changes.

    At most half of the topics, and at most `limit`, change, each once. The sum of
    predicted losses is at most `budget`; gains are not subtracted from it. If these are
    fewer than half of `least`, then `least` changes are made even if they cost more:
    what the other topics learn from them is not predicted.
    """
    n_topics, busy, spent = posterior.state.n_components, set[int](), 0.0
    is_dear = False
    most, chosen = min(max(n_topics // 2, 1), n_topics - 1), list[Reduction]()
    most = most if limit is None else min(most, limit)
    for candidate in results:
        cost = max(candidate.loss, 0.0)
        topics = {n for n in candidate[1:] if n is not None}
        if not is_dear and spent + cost > budget:
            is_dear, n_free = True, len(chosen)
            most = min(most, n_free if 2 * n_free >= least else least)
        if len(chosen) >= most:
            break
        if busy.isdisjoint(topics):
            spent += cost
            busy |= topics
            chosen.append(candidate)
    ids = posterior.ids.tolist()
    merges = [(ids[r.source], ids[r.target]) for r in chosen if r.target is not None]
    ends = [ids[r.source] for r in chosen if r.target is None]
    if merges:
        posterior.merge(merges)
    if ends:
        posterior.remove(ends)
    return len(chosen)


def join_topics_of_one_document(
    posterior: HDPPosterior, train: Corpus, executor: Executor
) -> int:
    """Merge topics in place that are mostly of the same document; return how many.

    The words that one document alone has remain divided among those topics that began
    with them: no held-out document uses these, so that no reduction joins them.
    """
    words, state = posterior.global_stats.topic_words, posterior.state.for_prediction
    topics = MeanTopics.of(words, state.topic_word_prior)
    tokens = fold_in(topics, state.doc_prior, train.X, executor).tocsc()
    names, joined = posterior.ids.tolist(), dict[int, list[int]]()
    for column in np.flatnonzero(~words.is_known & (np.diff(tokens.indptr) > 0)):
        part = slice(tokens.indptr[column], tokens.indptr[column + 1])
        of_docs = tokens.data[part]
        if of_docs.max() > OF_ONE * of_docs.sum():
            doc = int(tokens.indices[part][of_docs.argmax()])
            joined.setdefault(doc, []).append(int(column))
    merges = list[tuple[int, int]]()
    for columns in joined.values():
        target = max(columns, key=lambda column: words.total[column])
        merges += [(names[n], names[target]) for n in columns if n != target]
    for merge in merges:
        posterior.merge([merge])
    return len(merges)


def merge_all(posterior: HDPPosterior) -> int:
    """Merge all topics but known ones in place; return the number of merges."""
    words = posterior.global_stats.topic_words
    names = posterior.ids[~words.is_known].tolist()
    if not names:
        return 0
    target = names[int(np.argmax(words.total[~words.is_known]))]
    sources = [name for name in names if name != target]
    for source in sources:
        posterior.merge([(source, target)])
    return len(sources)


@dataclass(eq=False)
class EndUnused(Moves):
    """Moves that only end topics without tokens; trials choose the number of others.

    Online after each round, with a cache after each pass. Online, topics that have the
    words of a known topic join it.
    """

    joins_known: ClassVar[bool] = True

    moves: SplitMerge

    def end_round(
        self, learner: Learner, round: Round, results: Sequence[Collected]
    ) -> None:
        """End topics with hardly a token, by running averages."""
        posterior = learner.posterior
        n_enough = DOCS_PER_TOPIC * posterior.state.n_components
        is_early = learner.is_stream and posterior.n_seen < n_enough
        if not (learner.cache.holds_corpus or is_early):
            tokens = posterior.global_stats.topic_words.tokens
            prune(learner, tokens < self.moves.prune_tokens)

    def end_pass(self, learner: Learner, monitor: Monitor) -> bool:
        """End topics with hardly a token, by sums of the corpus."""
        cache, posterior = learner.cache, learner.posterior
        if cache.holds_corpus:
            words = posterior.global_stats.topic_words
            ending = words.tokens < self.moves.prune_tokens
            if cache.is_complete and prune(learner, ending):
                cache.refresh(posterior)
        return True


def prune(learner: Learner, ending: Flags) -> int:
    """Remove marked topics in place, but no known one nor all; return how many."""
    posterior, cache = learner.posterior, learner.cache
    words = posterior.global_stats.topic_words
    ending = keep_heaviest(ending & ~words.is_known, words.tokens)
    columns = np.flatnonzero(ending).tolist()
    if columns:
        if cache.holds_corpus:
            cache.drop(columns)
        posterior.remove(posterior.ids[columns].tolist())
    return len(columns)


# Burstiness of an HDP, learned during a fit from the training documents themselves.
#
# Each token is predicted from all others of its document, whose own tokens are
# subtracted from the topics. If held-out documents judge trials, burstiness is learned
# from these instead, see `held_out_trials`.


#: Passes over tokens before topics explain tables: from a cold start these are slower.
PLAIN_PASSES = 15
#: Passes between two searches of the parameters.
SPACING = 3


def update_burstiness(corpus: Corpus, posterior: Posterior, executor: Executor) -> None:
    """Set in place the burstiness of documents that totals contain once."""
    X = corpus.fetch(evenly(corpus.n_docs, N_DOCS))
    batch = Batch.from_counts(X, posterior.state.n_components)
    stop = protocols.LocalStop(MAX_ITER, TOL)
    visit = protocols.Visit(remembered=np.ones(batch.n_docs))
    given = protocols.StepInput(posterior, batch, stop, executor, visit)
    step = CollapsedStep.prepare(given)
    burstiness = learn_burstiness(
        X, lambda b: step.seat(b, batch, executor), posterior.state.burstiness
    )
    posterior.set_state(burstiness=burstiness)


@dataclass(eq=False)
class LearnBurstiness(Moves):
    """Moves that learn burstiness, then let topics explain tables."""

    moves: Moves  # those that end topics, or none

    def end_round(
        self, learner: Learner, round: Round, results: Sequence[Collected]
    ) -> None:
        """End topics without tokens after a round."""
        self.moves.end_round(learner, round, results)

    def end_pass(self, learner: Learner, monitor: Monitor) -> bool:
        """Learn burstiness if it is due; return whether to test convergence."""
        has_stayed = self.moves.end_pass(learner, monitor)
        posterior, n_passes = learner.posterior, learner.n_passes
        if n_passes == 1 or n_passes % SPACING == 0:
            update_burstiness(learner.corpus, posterior, learner.local_step.executor)
            posterior.set_state(by_tables=n_passes >= PLAIN_PASSES)
        is_due = posterior.state.burstiness is None or n_passes > PLAIN_PASSES
        return has_stayed and is_due
