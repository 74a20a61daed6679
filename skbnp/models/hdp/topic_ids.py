"""Ids of the topics of a stream that started again, and the log of changes.

A topic is the same if it explains the same tokens: similarities are cosines of the
responsibilities of topics, r_k for each token of a sample of documents. Topics with the
largest sum of similarities keep their ids, one to one. The tokens of the others tell
where they came from and where they went.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Lineage
from skbnp.models.hdp.fold_in import MeanTopics, fold_in
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.arrays import row_parts, rows_of
from skbnp.utils.matching import matched
from skbnp.utils.typing import Array, Ints

#: Similarity of two topics that are the same, at least.
SAME = 0.5
#: Responsibilities that are computed together.
PART_SIZE = 1 << 18


def aligned_ids(
    old: HDPPosterior, new: HDPPosterior, X: sp.csr_array, executor: Executor
) -> tuple[Ints, list[Lineage]]:
    """Return ids for the topics of `new`, (K,), and the log from those of `old`.

    Known topics keep their ids. `X` are documents of both. A topic without its like of
    before is split off the topic that explained most of its tokens, or born if none
    did; one without its like of after merges, or ends.
    """
    overlap, squares, others = shared_tokens(old, new, X, executor)
    similarity = overlap / np.sqrt(np.maximum(np.outer(squares, others), 1e-300))
    words = new.global_stats.topic_words
    known = np.flatnonzero(words.is_known)
    columns = old.columns
    pairs = [(columns[int(new.ids[k])], k) for k in known if int(new.ids[k]) in columns]
    for k, n in pairs:
        similarity[k], similarity[:, n] = 0.0, 0.0
    before, after = (
        np.concatenate([some, found]).astype(np.intp)
        for some, found in zip(
            np.array(pairs, dtype=np.intp).reshape(-1, 2).T,
            matched(similarity, SAME),
            strict=True,
        )
    )
    ids = np.full(len(new.ids), -1, dtype=old.ids.dtype)
    ids[after] = old.ids[before]
    fresh = np.flatnonzero(ids < 0)
    fresh = fresh[np.argsort(-words.tokens[fresh], kind="stable")]
    ids[fresh] = old.n_named + np.arange(len(fresh))
    log, step = list[Lineage](), old.n_steps
    for k in fresh.tolist():
        parent, name = _majority(overlap[:, k]), int(ids[k])
        if parent is None:
            log.append(Lineage(step, "birth", (), (name,)))
        else:
            source = int(old.ids[parent])
            log.append(Lineage(step, "split", (source,), (source, name)))
    for k in np.setdiff1d(np.arange(len(old.ids)), before).tolist():
        child, name = _majority(overlap[k]), int(old.ids[k])
        if child is None:
            log.append(Lineage(step, "prune", (name,), ()))
        else:
            target = int(ids[child])
            log.append(Lineage(step, "merge", (target, name), (target,)))
    return ids, log


def _majority(tokens: Array) -> int | None:
    """Position of more than half of some tokens, or None."""
    most = int(np.argmax(tokens))
    return most if tokens[most] > 0.5 * tokens.sum() else None


def shared_tokens(
    old: HDPPosterior, new: HDPPosterior, X: sp.csr_array, executor: Executor
) -> tuple[Array, Array, Array]:
    """Expected tokens that two topics explain, sum over tokens of r_k r'_n, (K, K').

    And sums of squares, of r_k^2, (K,), and of r'_n^2, (K',).
    """
    responsibilities = [_responsibilities(one, X, executor) for one in (old, new)]
    shape = len(old.ids), len(new.ids)
    overlap, squares, others = np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[1])
    for entries in row_parts((X.nnz, sum(shape)), PART_SIZE):
        counts, (one, other) = X.data[entries], (of(entries) for of in responsibilities)
        overlap += (counts[:, None] * one).T @ other
        squares += counts @ np.square(one)
        others += counts @ np.square(other)
    return overlap, squares, others


def _responsibilities(
    posterior: HDPPosterior, X: sp.csr_array, executor: Executor
) -> Callable[[slice], Array]:
    """Return responsibilities of topics for some stored counts, (n, K), on demand."""
    state, rows = posterior.state.for_prediction, rows_of(X.indptr)
    words = posterior.global_stats.topic_words
    topics = MeanTopics.of(words, state.topic_word_prior)
    tokens = fold_in(topics, state.doc_prior, X, executor)
    shares = tokens.toarray() + state.doc_prior

    def of(entries: slice) -> Array:
        some = topics[X.indices[entries]] * shares[rows[entries]]
        return some / some.sum(axis=1, keepdims=True)

    return of
