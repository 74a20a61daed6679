"""The EM step of late topics, against its slow twin."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from reference import late_topics as reference
from skbnp.kernels._moves import late_topics_step

N_DOCS, N_WORDS = 9, 14


def draw(n_topics, seed=0):
    """Counts with an empty document, and a random mixture."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.8, (N_DOCS, N_WORDS)) * rng.gamma(2.0, 0.7)
    counts[4] = 0.0
    old = rng.dirichlet(np.ones(N_WORDS), N_DOCS)
    shares = rng.dirichlet(np.ones(1 + n_topics), N_DOCS)
    topics = rng.dirichlet(np.ones(N_WORDS), n_topics)
    return counts, old, shares, topics


def step(counts, old, shares, topics, *, by_word=True, changes=()):
    """Call the kernel; `changes` replace arguments by name."""
    X = sp.csr_array(counts)
    tokens = np.full_like(shares, np.nan)
    sums = np.full((N_WORDS if by_word else 0, len(topics)), np.nan)
    arguments = {
        "indptr": X.indptr.astype(np.int32),
        "words": X.indices.astype(np.int32),
        "counts": X.data,
        "old": old[counts > 0.0],
        "shares": shares,
        "topics": np.ascontiguousarray(topics.T),
        "tokens": tokens,
        "sums": sums,
    }
    arguments.update(changes)
    late_topics_step(*arguments.values())
    return tokens, sums.T


@pytest.mark.parametrize("n_topics", [1, 2, 7])
def test_the_step_is_that_of_the_slow_twin(n_topics):
    mixture = draw(n_topics)
    tokens, sums = step(*mixture)
    tokens_wanted, sums_wanted = reference.expected_counts(*mixture)
    assert_allclose(tokens, tokens_wanted, rtol=1e-13)
    assert_allclose(sums, sums_wanted, rtol=1e-13)
    assert_allclose(tokens.sum(), mixture[0].sum(), rtol=1e-13)
    assert_array_equal(step(*mixture, by_word=False)[0], tokens)
    if n_topics > 1:  # a control: the order of topics matters
        counts, old, shares, topics = mixture
        other, _ = step(counts, old, shares, topics[::-1])
        assert not np.allclose(other, tokens_wanted)


def test_words_that_topics_lack_are_refused():
    mixture = draw(3)
    words = np.full(np.count_nonzero(mixture[0]), N_WORDS, dtype=np.int32)
    step(*mixture, changes={"words": words - 1})
    with pytest.raises(ValueError, match="rows of topics"):
        step(*mixture, changes={"words": words})
