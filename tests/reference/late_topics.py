"""Slow twin of the EM step of late topics, one token type at a time."""

import numpy as np


def expected_counts(counts, old, shares, topics):
    """Expected counts of components by document, and of late topics by word.

    `counts` and `old`, the probability under the topics before, are (n_docs, n_words),
    `shares` (n_docs, 1 + T), `topics` (T, n_words).
    """
    tokens, sums = np.zeros_like(shares), np.zeros_like(topics)
    for doc, word in np.argwhere(counts > 0.0):
        joint = shares[doc] * np.append(old[doc, word], topics[:, word])
        expected = counts[doc, word] * joint / joint.sum()
        tokens[doc] += expected
        sums[:, word] += expected[1:]
    return tokens, sums
