"""Slow reference for the birth of a branch for one document, in a tree of topics.

Transcription of beta_nk = B_nk(lambda_new) - sum KL(Dir(lambda_new) || Dir(eta)) + e_k,
for one inner stub: topics are whole rows, also of words that the document lacks.
"""

import numpy as np
from scipy.special import psi

from reference.ncrp_topics import document_bound, log_paths, topics_term


def divergence(topic, eta):
    """KL(Dir(topic) || Dir(eta, .., eta))."""
    return -topics_term(topic[None] - eta, [eta])


def birth(counts, log_topics, nodes, log_prior, alpha, eta, n_iterations):
    """Score of a branch and x phi, (n_levels, n_words).

    `counts` are of all words, `log_topics` (n_words, n_nodes) and `log_prior` e_k;
    levels whose node is -1 get topics of their own.
    """
    used = np.flatnonzero(counts)
    x, n_levels = counts[used], len(nodes)
    phi = np.tile((alpha / alpha.sum())[:, None], len(used))
    for _ in range(n_iterations):
        topics, levels, logs = globals_of(phi, used, counts, log_topics, nodes, eta)
        a = alpha + levels
        log_phi = (psi(a) - psi(a.sum()))[:, None] + logs
        phi = np.exp([log_paths(column) for column in log_phi.T]).T
    topics, levels, logs = globals_of(phi, used, counts, log_topics, nodes, eta)
    score = log_prior + document_bound(x, logs, phi, alpha + levels, alpha)
    for level in range(n_levels):
        if nodes[level] < 0:
            score -= divergence(topics[level], eta[level])
    return score, phi * x


def globals_of(phi, used, counts, log_topics, nodes, eta):
    """Topics of one document alone, its tokens of each level, and E log W."""
    topics, logs = {}, []
    for level, node in enumerate(nodes):
        topics[level] = np.full(len(counts), eta[level])
        topics[level][used] += counts[used] * phi[level]
        own = psi(topics[level]) - psi(topics[level].sum())
        logs.append((own if node < 0 else log_topics[:, node])[used])
    return topics, phi @ counts[used], np.array(logs)
