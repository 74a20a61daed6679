"""Where sampling of the nested CRP starts, and its samples as prediction reads them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from reference import nested_crp as reference
from skbnp.components.tree_sticks import LevelPriors
from skbnp.datasets import make_tree
from skbnp.models.nested_crp.start import by_gibbs
from skbnp.models.nested_crp_walks import (
    Forest,
    NestedPriors,
    NestedSample,
    Paths,
    Walks,
    find_start,
)
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


# The start ----------------------------------------------------------------------------


LEARN = NestedPriors(True, False, learn_level_prior=True)


def priors_of(n_levels, eta=0.3):
    return LevelPriors(1.0, np.ones(n_levels), np.full(n_levels, eta))


def tokens_of(X):
    return Tokens.from_counts(sp.csr_array(X))


def test_planted_tree_is_found(seed):
    corpus = make_tree(200, branching=(2, 3), random_state=3)
    rng = np.random.default_rng(seed)
    walks, _ = find_start(tokens_of(corpus.data), priors_of(3), LEARN, rng)
    for level, least in ((1, 0.95), (2, 0.9)):
        score = adjusted_rand_score(corpus.path[:, level], walks.path[:, level])
        assert score >= least
    # Documents one after the other do not find it.
    walks = Walks(tokens_of(corpus.data), priors_of(3), rng=rng)
    for _ in range(20):
        walks.sweep(0, walks.n_docs, rng)
    assert adjusted_rand_score(corpus.path[:, 1], walks.path[:, 1]) < 0.95


@pytest.mark.long
def test_level_priors_are_learned_in_the_search_with_the_topic_prior():
    """As planted; where they are kept, strong ones give too many inner nodes."""
    corpus = make_tree(200, random_state=2)
    priors = replace(priors_of(3), level_prior=np.array([50.0, 20.0, 10.0]))
    learned = NestedPriors(True, True, learn_level_prior=True)
    rng = np.random.default_rng(1)
    topics, _ = by_gibbs(corpus.data, priors, learned, rng)
    assert np.bincount(topics.tree.depth).tolist() == [1, 3, 9]


def test_score_is_the_probability_of_a_document_given_all_others(seed):
    docs, gamma, alpha, eta = [[0, 0, 1], [0, 2], [1, 1]], 0.8, (2.0, 1.0), (1.0, 0.5)
    begin = np.cumsum([0, *map(len, docs)])
    tokens = Tokens(np.concatenate(docs).astype(np.int32), begin, 3)
    priors = LevelPriors(gamma, np.array(alpha), np.array(eta))
    node = np.array([[0, 0], [0, 0], [0, 1]], dtype=np.int32)
    level = np.array([0, 1, 1, 0, 1, 1, 0], dtype=np.uint8)
    walks = Walks(tokens, priors, Paths(node, level))
    result = walks.leave_one_out(np.random.default_rng(seed), 20_000)
    np.testing.assert_array_equal(walks.level, level)
    np.testing.assert_array_equal(walks.paths().node, node)
    paths, hyper = node.tolist(), (gamma, alpha, eta, 3)
    for doc, words in enumerate(docs):
        others = [i for i in range(3) if i != doc]
        own = slice(begin[doc], begin[doc + 1])

        def log_joint(rows, levels):
            state = reference.canonical([tuple(paths[i]) for i in rows]), levels
            return reference.log_joint(state, [docs[i] for i in rows], *hyper)

        held = tuple(np.delete(level, own).tolist())
        each = [
            log_joint([*others, doc], (*held, *own_levels))
            for own_levels in np.ndindex(*(2,) * len(words))
        ]
        expected = logsumexp(each) - log_joint(others, held)
        assert result[doc] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("n_levels", [2, 3, 5])
def test_trees_are_nested_over_the_leaves(n_levels, seed):
    corpus = make_tree(60, random_state=1)
    rng, labels = np.random.default_rng(seed), corpus.target - corpus.target.min()
    labels = np.unique(labels, return_inverse=True)[1]
    sizes = [1, *np.linspace(2, 9, n_levels - 1).astype(int)]
    paths = Forest(tokens_of(corpus.data), labels).paths(sizes, rng)
    if n_levels > 2:
        assert adjusted_rand_score(paths.node[:, -1], labels) == 1.0
    for above, below in zip(paths.node.T, paths.node.T[1:], strict=False):
        pairs = np.unique(np.column_stack([above, below]), axis=0)
        assert len(pairs) == below.max() + 1  # each node has one parent
    assert paths.level.max() < n_levels
