"""Branches for one document: a transcription, an explicit construction, a bound."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from reference import ncrp_births as reference
from reference.ncrp_topics import log_beta
from skbnp.components.tree_sticks import LevelPriors, log_geometric_sum
from skbnp.models.nested_crp.model import (
    N_ITERATIONS,
    PathStats,
    TopicTree,
    elbo_terms,
    path_globals,
    score_branches,
)
from skbnp.trees import Tree

#: 0 above 1, 2, 3; 1 above 4, 5; 2 above 6; nothing below 3.
TREE = Tree([0, 1, 5, 4, 2, 6, 3], [0, 1, 2, 2, 1, 2, 1])
PRIORS = LevelPriors(0.7, np.array([3.0, 2.0, 1.0]), np.array([1.0, 0.5, 0.25]))
N_WORDS = 12


def random_topics(rng, tree=TREE):
    masses = np.where(tree.depth == 2, rng.gamma(0.5, 9.0, size=len(tree)), 0.0)
    return TopicTree(tree, rng.gamma(0.3, 9.0, size=(len(tree), N_WORDS)), masses)


def document(rng, *, fractions=False):
    """Counts of all words; about half of them are zero."""
    counts = rng.poisson(4.0, size=N_WORDS) * (rng.random(N_WORDS) < 0.5)
    counts[rng.integers(N_WORDS)] += 3
    return counts * (rng.random(N_WORDS) if fractions else 1.0)


def births_of(x, topics, priors=PRIORS):
    given, words = path_globals(topics, priors), np.flatnonzero(x)
    return score_branches(given, given.log_topics(words), x[words])


def transcribed(x, topics, priors, stub, n_iterations=N_ITERATIONS):
    given = path_globals(topics, priors)
    return reference.birth(
        x,
        given.log_topics(np.arange(len(x))),
        given.stub_nodes[stub],
        given.log_prior[stub],
        priors.level_prior,
        priors.topic_prior,
        n_iterations,
    )


def branched(topics, node, tokens):
    """The tree with a branch below a node whose topics are a document's alone.

    `tokens` (n_words, n_levels); returns the place of the new leaf, too.
    """
    old, n_levels = topics.tree, tokens.shape[1]
    new = old.add(node, depth=n_levels - 1)
    stats = PathStats.of_topics(topics, n_levels)
    stats = stats.reindex_to(old, new)
    for fresh in range(old.next_id, new.next_id):
        place = new.positions(fresh)
        stats.word_counts[place] = tokens[:, new.depth[place]]
    leaf = int(new.positions(new.next_id - 1))
    return TopicTree(new, stats.word_counts, stats.stub_masses), leaf


def spread(tokens, x):
    """Tokens of the words of a document as those of all words."""
    wide = np.zeros((len(x), tokens.shape[1]))
    wide[np.flatnonzero(x)] = tokens
    return wide


@pytest.mark.parametrize("case", range(6))
def test_births_equal_their_transcription(case, seed):
    rng = np.random.default_rng([seed, case])
    topics, x = random_topics(rng), document(rng, fractions=case % 2 == 1)
    result = births_of(x, topics)
    inner = np.flatnonzero(TREE.depth < 2)
    assert_array_equal(result.stubs, inner)
    for stub, score, tokens in zip(*vars_of(result), strict=True):
        expected, phi = transcribed(x, topics, PRIORS, stub)
        assert_allclose(score, expected, rtol=1e-11)
        assert_allclose(tokens, phi.T, rtol=1e-9, atol=1e-12)
        one_less, _ = transcribed(x, topics, PRIORS, stub, N_ITERATIONS - 1)
        assert score >= one_less - 1e-10 * abs(score)


def vars_of(result):
    return result.stubs, result.scores, result.tokens


def best_elbo(tree, stats):
    """ELBO once the globals have taken over the statistics."""
    topics = TopicTree(tree, stats.word_counts, stats.stub_masses)
    return sum(elbo_terms(topics, PRIORS, stats).values())


@pytest.mark.parametrize("case", range(5))
def test_bound_of_a_corpus_gains_the_score_at_least(case, seed):
    """Whatever the others are: their topics and sticks only improve by one document.

    Sticks of the branch hold one document: 1 / (1 + gamma) at each new level, where
    those of the stub have the sum of the series.
    """
    rng = np.random.default_rng([seed, case])
    topics, x = random_topics(rng), document(rng)
    others = PathStats.of_topics(topics, 3)
    gamma, alpha = PRIORS.concentration, PRIORS.level_prior
    result = births_of(x, topics)
    for stub, score, tokens in zip(*vars_of(result), strict=True):
        grown, leaf = branched(topics, int(TREE.ids[stub]), spread(tokens, x))
        nodes = path_globals(grown, PRIORS).stub_nodes[leaf]
        phi = tokens / x[x > 0][:, None]
        entropy = -(tokens * np.where(phi > 0.0, np.log(phi), 0.0)).sum()
        entropy += log_beta(alpha + tokens.sum(axis=0)) - log_beta(alpha)
        stats = replace(PathStats.of_topics(grown, 3), entropy=entropy)
        for level in range(TREE.depth[stub] + 1):  # new topics have their words
            stats.word_counts[nodes[level]] += spread(tokens, x)[:, level]
        stats.stub_masses[leaf] += 1.0
        gain = best_elbo(grown.tree, stats) - best_elbo(TREE, others)
        missing = 2 - TREE.depth[stub]
        text = missing * (log_geometric_sum(gamma) + np.log1p(gamma))
        assert gain >= score - text - 1e-9
