"""Merges, ends and splits of topics of an HDP during online learning, by the bound.

Algorithm 2 of Bryant and Sudderth (2012), except that

- a minibatch alone does not decide about a merge: gains of documents are summed over
  minibatches until the sum is clear, and the gain of words is that of the totals;
- splits are tried on a new local step under the updated topics, and judged on documents
  that they were not fitted to.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from skbnp.inference.posterior import Merge, Remove, Split, apply, sparing
from skbnp.inference.protocols import Collected, DocumentLocalStep
from skbnp.models.hdp.moves import merge as hdp_merge
from skbnp.models.hdp.moves import split as hdp_split
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.posterior import CREDIT, Evidence, HDPPosterior, Pair
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Ints

#: Minibatches until a topic whose split was rejected is tried again: 1, 2, 4...
LONGEST_WAIT = 64
#: Visits of a whole minibatch that splits earn by one; see `CREDIT`.
EARNED = 0.05
#: What a try costs, in such visits.
TRY = 0.1
#: Pairs of topics that are compared at a time, for each topic.
PAIRS_PER_TOPIC = 1
#: Entries of the table that looks at pairs may read at each minibatch: a share of those
#: that its visit reads, or so many.
LOOKED, AT_LEAST = 0.25, 1 << 18
#: Minibatches between choices of pairs.
EVERY = 3
#: Documents of a minibatch, at least, for each step of patience with an idle topic:
#: rare topics are absent from a few documents.
IDLE_DOCS = 50
#: A document with fewer expected tokens of a topic is not looked at for its split.
USED = 0.01


def merge(
    moves: SplitMerge, posterior: HDPPosterior, results: Collected, n_docs: float
) -> None:
    """Merge pairs with a clear gain in place, and choose new pairs to compare."""
    records, columns = posterior.move_records, posterior.columns
    words, eta = posterior.global_stats.topic_words, posterior.state.topic_word_prior
    sums, gains = np.zeros((len(records.pairs), 3)), dict[Pair, float]()
    if records.pairs:
        sums = sum(results.seen, sums)
    for evidence, row in zip(records.pairs.values(), sums, strict=True):
        evidence.add(len(results.n_tokens), row)
    for pair, evidence in _due(records.pairs, results, len(words.seen)):
        evidence.check_at = 2 * evidence.n_docs
        gained, error = evidence.of_corpus(n_docs)
        gained += hdp_merge.words_gain(words, eta, *(columns[name] for name in pair))
        if gained > moves.confidence * error:
            gains[pair] = gained
        elif gained < -moves.confidence * error or evidence.n_docs >= n_docs:
            del records.pairs[pair]
            records.pairs_on_hold[pair] = posterior.n_steps + LONGEST_WAIT
    pairs = list(gains)
    best = hdp_merge.best_disjoint(pairs, list(gains.values()))
    chosen = [pairs[index][::-1] for index in best]
    if chosen:
        apply(Merge(chosen), posterior)
        records.forget({name for pair in chosen for name in pair})
    for _, target in chosen:  # what this minibatch says of it is out of date
        records.waits[target] = (posterior.n_steps + 1, 0)
    _choose_pairs(posterior, results, columns)


def _due(
    pairs: dict[Pair, Evidence], results: Collected, n_words: int
) -> list[tuple[Pair, Evidence]]:
    """Pairs to decide about now, the newest first: few, if many words have been seen.

    Each decision reads two topics of `n_words`. All of them together read at most a
    share of what the local step has read.
    """
    fresh = results.stats.topic_words
    read = len(fresh.words) * fresh.values.shape[1]
    n_looks = int(max(LOOKED * read, AT_LEAST)) // (2 * n_words)
    due = [item for item in pairs.items() if item[1].is_due]
    return sorted(due, key=lambda item: item[1].check_at)[: max(n_looks, 1)]


def _choose_pairs(
    posterior: HDPPosterior, results: Collected, columns: dict[int, int]
) -> None:
    """Put similar pairs that are not on hold among those to compare, in place."""
    records, living = posterior.move_records, posterior.columns
    if len(records.pairs) > len(living) // 2 or posterior.n_steps % EVERY:
        return
    names = {column: name for name, column in columns.items()}
    step = posterior.n_steps
    records.pairs_on_hold = {
        p: until for p, until in records.pairs_on_hold.items() if until > step
    }
    fresh = results.stats.topic_words
    pairs = hdp_merge.candidates(results.doc_topic, fresh.values)
    for one, other in hdp_merge.sparing(pairs, posterior.global_stats.topic_words):
        if len(records.pairs) >= PAIRS_PER_TOPIC * len(living):
            return
        pair = (names[one], names[other])
        if living.keys() >= set(pair) and pair not in records.pairs_on_hold:
            records.pairs.setdefault(pair, Evidence())


def prune(
    moves: SplitMerge, posterior: HDPPosterior, idle: list[int], n_docs: int
) -> None:
    """End topics idle for several minibatches, in place; this one has `n_docs` rows."""
    records, living = posterior.move_records, posterior.columns
    before = records.idle
    records.idle = {}
    for name in idle:
        if name in living:
            times, docs = before.get(name, (0, 0))
            records.idle[name] = (times + 1, docs + n_docs)
    least = IDLE_DOCS * moves.prune_patience
    is_ending = []
    for name in posterior.ids.tolist():
        times, docs = records.idle.get(name, (0, 0))
        is_ending.append(times >= moves.prune_patience and docs >= least)
    words = posterior.global_stats.topic_words
    may_end = np.array(is_ending) & ~words.is_known
    ending = posterior.ids[sparing(may_end, words.tokens)].tolist()
    if ending:
        apply(Remove(ending), posterior)
        records.forget(set(ending))


def split(
    moves: SplitMerge,
    posterior: HDPPosterior,
    X: sp.csr_array,
    doc_topic: sp.csr_array,
    columns: dict[int, int],
    n_docs: float,
    local_step: DocumentLocalStep,
) -> None:
    """Try to split topics drawn by their mass; make splits that raise the bound.

    Changes `posterior` in place. `doc_topic` are expected counts before this
    minibatch's merges; `columns` are the columns of topic ids in these.
    """
    state, step = posterior.state, posterior.n_steps
    rng = stream(posterior.seed_entropy, Purpose.MOVE, step)
    tried = _tried(moves, posterior, rng)
    names = posterior.ids[tried].tolist()
    using = doc_topic[:, [columns[name] for name in names]] >= USED
    rows = np.flatnonzero(using.sum(axis=1))
    records = posterior.move_records
    records.credit = min(records.credit + EARNED, CREDIT)
    if len(rows) < 2 or records.credit < 0.0 or moves.max_splits == 0:
        return
    records.credit -= X[rows].sum() / X.sum() + TRY * len(tried)
    block_hook = hdp_split.Collection(tried.tolist())
    collected = local_step.update_local(posterior, X[rows], block_hook=block_hook).seen
    fitted = np.ones(X.shape[0], dtype=bool)
    if moves.judge == "others":
        fitted[rng.permutation(X.shape[0])[X.shape[0] // 2 :]] = False
    n_accepted = 0
    for index, (name, column) in enumerate(zip(names, tried.tolist(), strict=True)):
        parts = hdp_split.Parts.joined([block[index] for block in collected], rows)
        words = posterior.global_stats.topic_words
        parts = replace(parts, words=words.seen.rows_of(parts.words))
        prior, topic = float(state.doc_prior[column]), words.column(column)
        rest = n_docs, words.seen.n_unseen
        train = judge = hdp_split.Parent.among(parts, prior, topic, fitted, *rest)
        if moves.judge == "others":
            judge = hdp_split.Parent.among(parts, prior, topic, ~fitted, *rest)
        children = hdp_split.start(train, moves.start, rng)
        if split_topic(moves, posterior, name, children, train, judge):
            posterior.move_records.waits.pop(name, None)
            records.credit = CREDIT
            n_accepted += 1
            is_full = len(posterior.ids) >= posterior.max_components
            if n_accepted == moves.max_splits or is_full:
                return
        else:
            _, wait = posterior.move_records.waits.get(name, (0, 0))
            wait = min(max(2 * wait, 1), LONGEST_WAIT)
            posterior.move_records.waits[name] = (step + 1 + wait, wait)


def split_topic(
    moves: SplitMerge,
    posterior: HDPPosterior,
    name: int,
    children: hdp_split.Children | None,
    train: hdp_split.Parent,
    judge: hdp_split.Parent,
) -> bool:
    """Split a topic in place if its fitted children raise the bound of `judge`."""
    if children is None:
        return False
    eta = posterior.state.topic_word_prior
    children = hdp_split.fit_children(train, children, eta)
    gained, error = hdp_split.gain(judge, children, eta, moves.min_child_tokens)
    if not gained > moves.confidence * error:
        return False
    apply(Split(name, posterior.n_named, children.topics, children.shares), posterior)
    return True


def _tried(
    moves: SplitMerge, posterior: HDPPosterior, rng: np.random.Generator
) -> Ints:
    """Draw columns of topics to split by their mass, none that was rejected lately."""
    waits, step = posterior.move_records.waits, posterior.n_steps
    words = posterior.global_stats.topic_words
    mass = words.total.copy()
    mass[words.is_known] = 0.0
    waiting = [waits.get(name, (0, 0))[0] > step for name in posterior.ids.tolist()]
    mass[np.array(waiting)] = 0.0
    n_tries = min(moves.max_tries, int((mass > 0.0).sum()))
    if n_tries == 0 or len(mass) >= posterior.max_components:
        return np.zeros(0, dtype=np.intp)
    return rng.choice(len(mass), n_tries, replace=False, p=mass / mass.sum())
