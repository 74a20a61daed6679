"""Gain of a document of the nested CRP by a branch of its own."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi, xlogy

from skbnp.models.nested_crp.model import PathGlobals
from skbnp.utils.typing import Array, Ints

#: Iterations that fit new topics to a document.
N_ITERATIONS = 10


@dataclass(frozen=True, slots=True)
class BranchScores:
    """Scores and topics of branches below inner stubs, fitted to one document."""

    stubs: Ints  # (n_inner,)
    scores: Array  # (n_inner,) bound of the document, less what the topics cost
    tokens: Array  # (n_inner, n_words, n_levels) x phi


def score_branches(
    paths: PathGlobals, log_topics: Array, counts: Array
) -> BranchScores:
    """Score a branch below each inner stub for a document.

    For each, the topics of the missing levels are those of the document alone,
    Dirichlet(eta + x phi), and

        score_k = log_prior_k + B_k - sum_l KL(q(W_l) || p(W_l)),

    the bound of the document if the branch were opened, less what it costs.

    `log_topics` are E log W of the words of the document, (n_unique, n_nodes), and
    `counts` x.
    """
    nodes, alpha, eta = paths.stub_nodes, paths.level_prior, paths.topic_prior
    n_words = paths.n_words
    stubs = np.flatnonzero(nodes[:, -1] < 0)
    is_new = (nodes[stubs] < 0)[:, None, :]  # (n_inner, 1, n_levels)
    known = np.concatenate([log_topics, np.zeros((len(counts), 1))], axis=1)
    known = known[:, nodes[stubs]].transpose(1, 0, 2)  # (n_inner, n_unique, n_levels)
    x = counts[None, :, None]
    share = np.broadcast_to(alpha / alpha.sum(), known.shape)
    for _ in range(N_ITERATIONS):
        tokens = x * share
        global_stats = tokens.sum(axis=1, keepdims=True)
        own = psi(eta + tokens) - psi(n_words * eta + global_stats)
        logs = np.where(is_new, own, known) + psi(alpha + global_stats)
        share = np.exp(logs - logs.max(axis=2, keepdims=True))
        share /= share.sum(axis=2, keepdims=True)
    tokens = x * share
    global_stats = tokens.sum(axis=1)
    seed_entropy = -xlogy(tokens, share).sum(axis=(1, 2))
    evidence = (gammaln(eta + tokens) - gammaln(eta)).sum(axis=1)
    evidence += gammaln(n_words * eta) - gammaln(n_words * eta + global_stats)
    words = np.where(is_new[:, 0], evidence, (tokens * known).sum(axis=1)).sum(axis=1)
    levels = gammaln(alpha + global_stats).sum(axis=1) - gammaln(alpha).sum()
    levels += gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum())
    scores = paths.log_prior[stubs] + words + seed_entropy + levels
    return BranchScores(stubs, scores, tokens)
