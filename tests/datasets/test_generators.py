"""Laws of the generators. A z-score beyond 5 has probability 6e-7 if the law holds."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from checks.states import assert_same
from skbnp.datasets import (
    _loaders,
    make_bars,
    make_dependent_trees,
    make_hdp,
    make_subspace_tree,
    make_tree,
)
from skbnp.datasets._generators import _Topics
from skbnp.distributions import bessel_ratio

OF_COUNTS = {
    make_bars: {"n_samples": 6, "side": 3, "n_words": 8},
    make_hdp: {"n_samples": 6, "n_features": 9, "n_words": 8},
    make_tree: {"n_samples": 6, "n_features": 9, "n_words": 8},
}
SMALL = OF_COUNTS | {
    make_dependent_trees: {"n_samples": 6, "n_epochs": 1, "n_features": 9},
    make_subspace_tree: {"n_samples": 6},
}
generators = pytest.mark.parametrize("make", SMALL)


def z_score(sample):
    """Mean of independent draws in units of its standard error."""
    return np.mean(sample) / (np.std(sample, ddof=1) / np.sqrt(len(sample)))


def alignment(counts, probabilities):
    """z-score of sum_jw p_jw (n_jw - N_j p_jw), zero on average for n_j ~ Mult(p_j).

    Its variance is sum_j N_j (sum_w p_jw^3 - (sum_w p_jw^2)^2).
    """
    p, length = probabilities, counts.sum(axis=1)
    excess = (p * (counts - length[:, None] * p)).sum()
    variance = length @ ((p**3).sum(axis=1) - (p**2).sum(axis=1) ** 2)
    return excess / np.sqrt(variance)


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_samples=2000, random_state=0)


@pytest.fixture(scope="module")
def hdp():
    return make_hdp(n_samples=2000, n_features=50, random_state=0)


@pytest.fixture(scope="module")
def finite():
    return make_hdp(n_samples=2000, n_features=50, n_components=20, random_state=0)


@pytest.fixture(scope="module")
def tree():
    return make_tree(2000, branching=(2, 3), level_prior=(2, 4, 10), random_state=0)


# What holds for every generator


@generators
def test_same_seed_gives_same_corpus(make):
    first, second, other = (make(**SMALL[make], random_state=k) for k in (3, 3, 4))
    assert_same({**first}, {**second})
    assert (first.data != other.data).sum() > 0


@generators
def test_first_rows_do_not_depend_on_n_samples(make):
    few = make(**SMALL[make], random_state=0)
    many = make(**{**SMALL[make], "n_samples": 60}, random_state=0)
    assert_same(few.data, many.data[:6])


@pytest.mark.parametrize("make", OF_COUNTS)
@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"sparse_interface": "sparray"}, sp.csr_array),
        ({"sparse_interface": "spmatrix"}, sp.csr_matrix),
        ({}, sp.csr_matrix),  # of scikit-learn before 1.9
    ],
)
def test_counts_are_canonical_int64_of_the_configured_family(
    make, config, family, monkeypatch
):
    monkeypatch.setattr(_loaders, "get_config", lambda: config)
    data = make(**SMALL[make], random_state=0).data
    assert type(data) is family
    assert data.dtype == np.int64
    assert data.indices.dtype == np.int32
    assert data.has_canonical_format
    assert data.data.min() > 0


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        *((make, "n_samples", 0) for make in SMALL),
        *((make, "random_state", "seed") for make in SMALL),
        *((make, "n_words", 0) for make in OF_COUNTS),
        (make_dependent_trees, "n_epochs", 0),
        (make_dependent_trees, "n_features", 1),
        (make_dependent_trees, "concentration", -1.0),
        (make_dependent_trees, "prior_concentration", "high"),
        (make_dependent_trees, "past_weight", -0.1),
        *((make_subspace_tree, name, 0) for name in ("loading_std", "noise_std")),
    ],
)
def test_parameter_outside_its_domain_is_refused_by_name(make, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of {make.__name__}"):
        make(**{name: value})


# Bars


def test_first_bars_are_rows_and_last_are_columns():
    topics = make_bars(n_samples=1, side=4, random_state=0).topic_word_distr
    grid = (topics > 0).reshape(8, 4, 4)
    for bar in range(4):
        assert grid[bar, bar, :].all()
        assert grid[4 + bar, :, bar].all()


@pytest.mark.parametrize("corpus", ["bars", "tree"])
def test_words_follow_the_proportions_of_their_document(corpus, request):
    corpus = request.getfixturevalue(corpus)
    probabilities = corpus.doc_topic_distr @ corpus.topic_word_distr
    assert abs(alignment(corpus.data.toarray(), probabilities)) < 5


def test_bars_proportions_have_the_moments_of_the_dirichlet(bars):
    # E theta_k = 1/20, E sum_k theta_k^2 = (0.1 + 1) / (20 * 0.1 + 1).
    shares = bars.doc_topic_distr
    assert max(abs(z_score(shares[:, k] - 0.05)) for k in range(20)) < 5
    assert abs(z_score((shares**2).sum(axis=1) - 1.1 / 3)) < 5


# The hierarchical Dirichlet process


def test_hdp_topic_counts_add_up_to_the_tokens_of_each_document(hdp):
    tokens = np.asarray(hdp.data.sum(axis=1)).ravel()
    np.testing.assert_array_equal(hdp.doc_topic_counts.sum(axis=1), tokens)


def test_hdp_lengths_have_mean_and_variance_of_the_poisson(hdp):
    # The variance of the sample variance of a Poisson(100) is about 2 * 100^2 / n.
    tokens = np.asarray(hdp.data.sum(axis=1)).ravel()
    assert abs(tokens.mean() - 100) < 5 * np.sqrt(100 / 2000)
    assert abs(tokens.var() - 100) < 5 * np.sqrt(2 * 100**2 / 2000)


@pytest.mark.parametrize("corpus", ["hdp", "finite"])
def test_hdp_words_follow_the_topics_of_their_document(corpus, request):
    corpus = request.getfixturevalue(corpus)
    counts, topics = corpus.doc_topic_counts, corpus.topic_word_distr
    weight = counts @ topics  # any weight will do: it depends on the topics alone
    excess = (weight * (corpus.data.toarray() - counts @ topics)).sum()
    variance = (counts * (weight**2 @ topics.T - (weight @ topics.T) ** 2)).sum()
    assert abs(excess / np.sqrt(variance)) < 5


@pytest.mark.parametrize("corpus", ["hdp", "finite"])
def test_hdp_proportions_have_the_moments_of_the_dirichlet_process(corpus, request):
    # E pi = beta, E pi^2 = beta (1 + alpha beta) / (1 + alpha), here alpha = 1.
    corpus = request.getfixturevalue(corpus)
    for k in np.argsort(corpus.topic_weights)[-5:]:
        beta, shares = corpus.topic_weights[k], corpus.doc_topic_distr[:, k]
        assert abs(z_score(shares - beta)) < 5
        assert abs(z_score(shares**2 - beta * (1 + beta) / 2)) < 5


def test_sticks_are_broken_by_beta_shares():
    topics = _Topics(1, 1.0, 4.0, None)
    shares, rng = [], np.random.RandomState(0)
    for _ in range(1000):
        before = topics.remaining
        topics.grow(rng)
        shares.append(topics.weights[-1] / before)
    assert stats.kstest(shares, stats.beta(1, 4).cdf).pvalue > 1e-6


@pytest.mark.parametrize(
    ("make", "topics"),
    [(make_hdp, {"n_components": 500}), (make_tree, {"branching": (499,)})],
)
def test_topics_have_the_second_moment_of_the_dirichlet(make, topics):
    # E sum_w phi_w^2 = (eta + 1) / (V eta + 1).
    corpus = make(1, n_features=50, topic_word_prior=0.2, random_state=0, **topics)
    moments = (corpus.topic_word_distr**2).sum(axis=1)
    assert abs(z_score(moments - 1.2 / 11)) < 5


# Trees of topics


@pytest.mark.parametrize(
    ("branching", "parent"),
    [
        ((3,), [-1, 0, 0, 0]),
        ([2, 1, 2], [-1, 0, 1, 2, 2, 0, 5, 6, 6]),
        (np.array([2, 3]), [-1, 0, 1, 1, 1, 0, 5, 5, 5]),
    ],
)
def test_tree_has_the_given_branching_depth_first(branching, parent):
    corpus = make_tree(2, branching=branching, random_state=0)
    np.testing.assert_array_equal(corpus.tree.parent, parent)


def test_documents_take_paths_of_the_tree_to_its_leaves(tree):
    assert set(tree.target) == set(tree.tree.leaves)
    for leaf, path in zip(tree.target, tree.path, strict=True):
        np.testing.assert_array_equal(path, tree.tree.path(leaf))


def test_weight_of_a_node_is_the_share_of_documents_that_pass_it(tree):
    shares = [np.mean((tree.path == i).any(axis=1)) for i in range(9)]
    np.testing.assert_allclose(tree.tree.weight, shares)


def test_proportions_by_nodes_are_those_by_levels_on_the_path(tree):
    on_path = np.take_along_axis(tree.doc_topic_distr, tree.path, axis=1)
    np.testing.assert_array_equal(on_path, tree.level_proportions)
    assert ((tree.doc_topic_distr > 0).sum(axis=1) == 3).all()


def test_level_proportions_have_the_moments_of_the_dirichlet(tree):
    # With a = (2, 4, 10), A = 16: E theta = a / A, E theta^2 = a (a + 1) / A (A + 1).
    for share, a in zip(tree.level_proportions.T, (2, 4, 10), strict=True):
        assert abs(z_score(share - a / 16)) < 5
        assert abs(z_score(share**2 - a * (a + 1) / (16 * 17))) < 5


FEW = {"n_samples": 20, "n_epochs": 2, "n_features": 6, "branching": (2, 2)}


def test_first_rows_of_an_epoch_do_not_depend_on_n_samples():
    few = make_dependent_trees(**FEW, random_state=0)
    more = make_dependent_trees(**{**FEW, "n_samples": 50}, random_state=0)
    assert_array_equal(few.directions, more.directions)
    for epoch in (0, 1):
        first = more.data[more.epochs == epoch][:20]
        assert_array_equal(few.data[few.epochs == epoch], first)


def test_rows_have_the_mean_length_around_their_direction(seed):
    """A cosine has a standard deviation below one: five errors of 4000."""
    corpus = make_dependent_trees(2000, n_epochs=2, n_features=8, random_state=seed)
    cosines = np.einsum(
        "ij,ij->i", corpus.data, corpus.directions[corpus.epochs, corpus.target]
    )
    expected = bessel_ratio(120.0, 8)
    error = cosines.std() / np.sqrt(len(cosines))
    assert abs(cosines.mean() - expected) < 5 * error
    assert abs(cosines.mean() - bessel_ratio(100.0, 8)) > 5 * error


def test_children_are_near_their_parents_and_their_past(seed):
    corpus = make_dependent_trees(
        1,
        n_epochs=2,
        n_features=8,
        branching=(2000,),
        past_weight=2.0,
        prior_concentration=20.0,
        random_state=seed,
    )
    root, children = corpus.directions[:, 0], corpus.directions[:, 1:]
    first = children[0] @ root[0]
    error = first.std() / np.sqrt(2000)
    assert abs(first.mean() - bessel_ratio(20.0, 8)) < 5 * error
    # Of the second epoch the mean direction is that of the natural parameter.
    natural = 20.0 * (root[1] + 2.0 * children[0])
    strength = np.linalg.norm(natural, axis=1)
    along = np.einsum("ij,ij->i", children[1], natural) / strength
    expected = bessel_ratio(strength, 8)
    assert abs((along - expected).mean()) < 5 * (along - expected).std() / np.sqrt(2000)
    assert abs((along - first).mean()) > 5 * error


def test_nodes_are_there_in_their_lifetimes():
    spans = np.array([[0, 3], [0, 1], [2, 3]])
    corpus = make_dependent_trees(
        40, n_epochs=4, branching=(2,), lifetimes=spans, random_state=0
    )
    for node, (first, last) in enumerate(spans):
        epochs = corpus.epochs[corpus.target == node]
        assert_array_equal(np.unique(epochs), np.arange(first, last + 1))
        lengths = np.linalg.norm(corpus.directions[:, node], axis=1)
        there = np.isin(np.arange(4), np.arange(first, last + 1))
        assert_allclose(lengths, there.astype(float))


@pytest.mark.parametrize(
    "lifetimes",
    [
        [[0, 1]],
        [[0, 1], [1, 0], [0, 1]],
        [[1, 1], [1, 1], [1, 1]],
        [[0, 1], [-1, 0], [0, 1]],
        [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]],
    ],
)
def test_lifetimes_must_be_those_of_a_tree(lifetimes):
    with pytest.raises(ValueError, match="lifetimes must hold"):
        make_dependent_trees(5, n_epochs=2, branching=(2,), lifetimes=lifetimes)


@pytest.fixture(scope="module")
def drawn():
    return make_subspace_tree(4000, n_features=12, branching=(2, 3), random_state=0)


def test_paths_are_those_of_the_tree(drawn):
    assert "\n9 nodes, 6 of them leaves" in drawn.DESCR
    assert_array_equal(drawn.tree.parent, [-1, 0, 1, 1, 1, 0, 5, 5, 5])
    assert_array_equal(drawn.tree.parent[drawn.path[:, 1:]], drawn.path[:, :-1])
    assert_array_equal(drawn.path[:, -1], drawn.target)
    assert_array_equal(np.unique(drawn.target), drawn.tree.leaves)
    passes = np.bincount(drawn.path.ravel(), minlength=9) / 4000
    assert_allclose(drawn.tree.weight, passes)


def residuals(drawn, coordinates):
    fit = np.einsum("il,ilj->ij", coordinates, drawn.components[drawn.path])
    return drawn.data - drawn.mean - fit


def test_rows_are_their_coordinates_on_the_path_and_noise(drawn):
    rest = residuals(drawn, drawn.coordinates)
    # 48,000 values: five standard errors of their standard deviation.
    assert abs(rest.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * rest.size)
    assert abs(rest.mean()) < 5 * 0.5 / np.sqrt(rest.size)
    assert residuals(drawn, drawn.coordinates[:, ::-1]).std() > 2.0
