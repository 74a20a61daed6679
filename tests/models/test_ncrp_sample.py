"""Samples of the collapsed nested CRP, as prediction reads them."""

import numpy as np
import pytest

from reference import nested_crp as reference
from skbnp.components.tree_sticks import LevelPriors
from skbnp.models.nested_crp_walks import NestedSample, Walks
from skbnp.rows.batch import Tokens

N_WORDS = 5


def sample_of(n_docs=30, n_levels=3, gamma=0.7, n_sweeps=5):
    """Walks, and a sample of them whose nodes are called by ten times their place."""
    rng = np.random.default_rng(0)
    words = np.sort(rng.integers(0, N_WORDS, (n_docs, 8)), axis=1).ravel()
    begin = 8 * np.arange(n_docs + 1)
    tokens = Tokens(words.astype(np.int32), begin, N_WORDS)
    alpha, eta = np.linspace(2.0, 1.0, n_levels), np.linspace(1.0, 0.2, n_levels)
    priors = LevelPriors(gamma, alpha, eta)
    walks = Walks(tokens, priors, rng=rng)
    for _ in range(n_sweeps):
        walks.sweep(0, n_docs, rng)
    walks.tidy()
    ids = 10 * np.arange(len(walks.columns))
    return walks, NestedSample.of(walks, ids, log_joint=-1.5, chain=2, step=7)


@pytest.mark.parametrize("n_levels", [1, 2, 3, 6])
@pytest.mark.parametrize("gamma", [1e-100, 0.7, 1e10])
def test_priors_of_stubs_sum_to_one(n_levels, gamma):
    for n_docs in (0, 1, 30):
        _, sample = sample_of(n_docs, n_levels, gamma)
        assert np.exp(sample.log_stub_priors).sum() == pytest.approx(1.0, rel=1e-9)
        assert sample.log_weights[0] == 0.0


def test_priors_of_stubs_are_those_of_a_further_document():
    walks, sample = sample_of()
    paths = [tuple(path) for path in walks.path.tolist()]
    known = list(dict.fromkeys(path for path in paths))

    def log_p(paths):
        state = reference.canonical(paths), ()
        silent = [[] for _ in paths]
        return reference.log_joint(state, silent, 0.7, (1.0,) * 3, (1.0,) * 3, N_WORDS)

    place = {10 * i: column for i, column in enumerate(walks.columns.tolist())}
    prefixes = {
        column: path[: level + 1] for path in known for level, column in enumerate(path)
    }
    for name, result in zip(
        sample.component_ids.tolist(), sample.log_stub_priors, strict=True
    ):
        prefix = prefixes[place[name]]
        new = (*prefix, *(-1 for _ in range(3 - len(prefix))))
        expected = log_p([*paths, new]) - log_p(paths)
        assert result == pytest.approx(expected, rel=1e-9)


def test_nodes_are_those_of_the_sample_level_by_level():
    _, sample = sample_of()
    nodes, order = sample.nodes(), sample.level_order
    assert (np.diff(nodes.depth) >= 0).all()
    np.testing.assert_array_equal(nodes.docs, sample.doc_counts[order])
    names = sample.component_ids[order]
    tree = sample.tree
    for name, parent in zip(names[1:], nodes.parent[1:], strict=True):
        assert tree.parent_of(name) == names[parent]
    for depth in range(3):
        number = nodes.number[nodes.depth == depth]
        np.testing.assert_array_equal(number, np.arange(len(number)))


def test_documents_compare_words_with_mean_topics():
    _, sample = sample_of()
    reading, words = sample.for_prediction(), np.array([0, 3, 4])
    held = (
        sample.topic_word_counts.toarray()
        + sample.topic_word_prior[sample.depth][:, None]
    )
    expected = np.log(held / held.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(reading.log_topics(words), expected[:, words].T)
    np.testing.assert_allclose(reading.off_tree, np.full(3, -np.log(N_WORDS)))
    np.testing.assert_array_equal(reading.stub_nodes, sample.tree.paths())
    np.testing.assert_array_equal(reading.log_prior, sample.log_stub_priors)
