"""Merge two topics of the HDP (section 3.2 of Bryant and Sudderth 2012).

r_k = r_k' + r_k'', theta, beta and S likewise, so lambda = lambda' + lambda'' - eta
(the paper's lambda' + lambda'' counts the prior twice).
"""

import numpy as np
from numpy.typing import NDArray

from skbnp.distributions.dirichlet import log_growth, log_marginal_gain
from skbnp.inference.visit import Visit
from skbnp.models.hdp_direct import HDPState

__all__ = ["candidates", "gain", "propose"]

Array = NDArray[np.float64]

#: Differences closer to zero than this count as ties, and ties merge.
TIE = 1e-8
#: Pairs tried per topic.
PAIRS_PER_TOPIC = 3


def propose(
    state: HDPState, visit: Visit, n_words: int, scale: float
) -> list[tuple[int, int]]:
    """Disjoint pairs of topics (target, source) whose merge raises the bound."""
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for one, other in candidates(state, visit):
        if one in taken or other in taken:
            continue
        if gain(state, visit, one, other, n_words, scale) > -TIE:
            pairs.append((one, other))
            taken |= {one, other}
    return pairs


def candidates(state: HDPState, visit: Visit) -> list[tuple[int, int]]:
    """Pairs of positively correlated theta_jk, best first, at most 3 K."""
    theta = state.doc_prior + visit.doc_topic
    theta = theta - theta.mean(axis=0)
    length = np.sqrt((theta**2).sum(axis=0))
    theta = np.divide(theta, length, out=np.zeros_like(theta), where=length > 0.0)
    one, other = np.triu_indices(theta.shape[1], 1)
    correlation = np.einsum("jk,jl->kl", theta, theta)[one, other]
    best = np.argsort(-correlation, kind="stable")[: PAIRS_PER_TOPIC * theta.shape[1]]
    best = best[correlation[best] > 0.0]
    return list(zip(one[best].tolist(), other[best].tolist(), strict=True))


def gain(
    state: HDPState, visit: Visit, one: int, other: int, n_words: int, scale: float
) -> float:
    """Exact difference of the bound for the scaled documents of the visit, in nats."""
    x, pair = state.doc_prior, [one, other]
    tokens = visit.doc_topic[:, pair]
    documents = log_growth(x[pair].sum(), tokens.sum(axis=1)).sum()
    documents -= log_growth(x[pair], tokens).sum()
    lost = visit.entropy[pair].sum() - visit.joint_entropy(one, other)
    sums = scale * visit.sums[:, pair]
    sums = np.column_stack([sums, sums.sum(axis=1)])
    words = _words(state.topic_word_prior, sums, n_words)
    return float(scale * (documents - lost) + words[2] - words[0] - words[1])


def _words(prior: float, sums: Array, n_words: int) -> Array:
    """log_marginal_gain of topics whose other words have no counts."""
    total = sums.sum(axis=0)
    seen = log_marginal_gain(prior, sums, total)
    return (
        seen + log_growth(len(sums) * prior, total) - log_growth(n_words * prior, total)
    )
