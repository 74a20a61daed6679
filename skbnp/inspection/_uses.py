"""Expected tokens of topics in documents, from which shares by group are computed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.executor import Executor
from skbnp.inspection._draws import draw_of_sample
from skbnp.inspection._terms import (
    NOT_BURSTY,
    check_shares,
    doc_counts,
    doc_prior,
    transformed,
)
from skbnp.models.hdp.prediction import MixturePredictor
from skbnp.utils.fitted import distributions, fitted_model, in_memory
from skbnp.utils.ordering import evenly_spaced
from skbnp.utils.validation import SMALLEST_PRIOR, check_counts

Array = NDArray[np.float64]

#: Kept samples of a chain that are used, evenly spaced, at most.
SAMPLES = 20
#: Cosine from which two topics may be the same one.
SIMILAR = 0.7
#: Updates of the means of groups.
MEANS = 2


class Uses(NamedTuple):
    """Expected tokens, or first uses, of topics in documents."""

    samples: list[sp.csr_array | Array]  # (n_docs, n_components), one for each sample
    words: sp.csr_array | None  # (n_docs, n_features) that they add up to, if available


def uses_of(
    estimator: Any, model: Any, rows: Any, epochs: Any, parts: NDArray[np.intp]
) -> Uses:
    """Infer tokens of topics in documents, with group means as their prior."""
    is_here = not hasattr(model, "_row_totals")
    if is_here and hasattr(model, "_sample_uses") and len(model.samples_) > 1:
        counts = check_counts(rows, whom="topic_shares")
        return Uses(_sample_uses(model, counts, parts), counts)
    if is_here and hasattr(model, "_expected_uses"):
        counts = check_counts(rows, whom="topic_shares")
        if getattr(model, "word_concentration_", np.inf) < NOT_BURSTY:
            uses, data = model._expected_uses(counts)
            parts_of = (data, counts.indices, counts.indptr)
            return Uses([uses], sp.csr_array(parts_of, counts.shape))
        distr = distributions(estimator)
        prior = doc_prior(fitted_model(estimator), len(distr))
        return Uses([_by_group(distr, prior, counts, parts)], counts)
    shares = transformed(model, rows, epochs)
    check_shares(model, shares)
    counts = None
    if is_here and hasattr(model, "topic_word_prior_"):
        counts = check_counts(rows, whom="topic_shares")
    return Uses([doc_counts(model, rows, shares)[0]], counts)


def _sample_uses(
    model: Any, counts: sp.csr_array, parts: NDArray[np.intp]
) -> list[sp.csr_array]:
    """Re-index topics of samples to the most similar ones of the best sample."""
    components, result = model.components_, []
    topics = unit(components - components.min(axis=1, keepdims=True))
    for values, depth, uses in _uses_by_sample(model, counts, parts):
        similar = topics @ unit(values).T
        if depth is not None:
            similar[model.tree_.depth[:, None] != depth] = 0.0
        best = similar.argmax(axis=0)
        is_one = similar[best, np.arange(len(best))] >= SIMILAR
        onto = sp.csr_array(
            (np.ones(is_one.sum()), (np.flatnonzero(is_one), best[is_one])),
            shape=(len(best), len(topics)),
        )
        result.append(sp.csr_array(uses) @ onto)
    return result


def _uses_by_sample(
    model: Any, counts: sp.csr_array, parts: NDArray[np.intp]
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield words of topics, their depth or None, and tokens in documents."""
    is_bursty = getattr(model, "word_concentration_", np.inf) < NOT_BURSTY
    if hasattr(model, "tree_") or is_bursty:
        yield from model._sample_uses(counts, SAMPLES)
        return
    for sample in evenly_spaced(model.samples_, SAMPLES):
        draw = draw_of_sample(sample)
        assert draw.prior is not None  # no tree
        yield draw.values, None, _by_group(draw.distr(), draw.prior, counts, parts)


def _by_group(
    distr: Array, prior: Array, counts: sp.csr_array, parts: NDArray[np.intp]
) -> Array:
    """Infer tokens of topics, with documents shrunk towards means of their group."""
    prior = np.maximum(prior, SMALLEST_PRIOR)
    uses = np.zeros((counts.shape[0], len(distr)))
    with Executor(None) as executor:
        for own in (np.flatnonzero(parts == part) for part in np.unique(parts)):
            of_group = prior
            for _ in range(1 + MEANS):
                predictor = MixturePredictor.of_topics(distr, of_group)
                tokens = predictor.infer_counts(
                    predictor.samples[0], counts[own], executor
                )
                shares, totals = shares_of_tokens(tokens)
                if not totals.any():
                    break
                mean = shares[totals > 0.0].mean(axis=0)
                of_group = np.maximum(prior.sum() * mean, SMALLEST_PRIOR)
            uses[own] = tokens.toarray()
    return uses


def shares_of_tokens(uses: sp.csr_array | Array) -> tuple[Array, Array]:
    """Return shares of topics in documents, and their numbers of tokens."""
    uses = np.asarray(in_memory(uses), dtype=np.float64)
    totals = uses.sum(axis=1)
    return uses / np.maximum(totals, 1e-300)[:, None], totals


def unit(values: Array) -> Array:
    """Scale rows to length one."""
    values = np.asarray(in_memory(values), dtype=np.float64)
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-300)
