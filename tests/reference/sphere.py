"""Slow references for scores of rows under directions on the sphere."""

import numpy as np


def score_table(rows, directions, prior, strength):
    """Scores (n_rows, n_nodes) of dense rows."""
    return prior + strength * rows @ directions.T


def best_nodes(scores, n_best):
    """The best nodes and their scores, of equal ones the lower number first."""
    nodes = np.full((len(scores), n_best), -1)
    best = np.full((len(scores), n_best), -np.inf)
    for row, own in enumerate(scores):
        order = sorted(np.flatnonzero(own > -np.inf), key=lambda k: (-own[k], k))
        top = order[:n_best]
        nodes[row, : len(top)], best[row, : len(top)] = top, own[top]
    return nodes, best
