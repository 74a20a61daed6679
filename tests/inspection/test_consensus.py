"""The consensus of chains and fits has the planted topics, and honest intervals."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from checks.estimators import FIRST, each_class, fresh, rows_of
from checks.long import daily
from skbnp import HDP, GibbsHDP
from skbnp.datasets import make_bars, make_hdp
from skbnp.inspection import (
    align_components,
    consensus_components,
    stability,
    top_terms,
)
from skbnp.inspection._compared import (
    DocumentDraws,
    Draws,
    TopicCounts,
    matched_draws,
)


def planted(seed, n_docs, n_topics, n_words, length):
    """Draw documents of sparse signatures: counts, signatures, shares."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(n_words, 0.2), n_topics)
    theta = rng.dirichlet(np.full(n_topics, 0.1), n_docs)
    lengths = np.exp(rng.uniform(*np.log(length), n_docs)).astype(int)
    drawn = zip(lengths, theta @ phi, strict=True)
    return np.array([rng.multinomial(n, p) for n, p in drawn]), phi, theta


def check_consensus(consensus, phi, theta, least=0.98):
    """Raise unless topics are the planted ones, and intervals have their coverage."""
    result = align_components(phi, consensus.components_, min_similarity=least)
    assert consensus.n_components_ == len(phi) == len(result.pairs)
    order = result.pairs[np.argsort(result.pairs[:, 0]), 1]
    low, high = consensus.doc_topic_interval_[:, :, order]
    covered = ((theta >= low) & (theta <= high)).mean()
    assert 0.85 <= covered <= 0.95, covered
    assert 0.0 <= low.min()
    assert (low <= high).all()
    assert high.max() <= 1.0


@pytest.fixture(scope="module")
def chains():
    X, phi, theta = planted(0, 200, 5, 40, (60, 200))
    hdp = GibbsHDP(8, max_iter=80, thin=4, n_chains=2, random_state=0).fit(X)
    return hdp, X, phi, theta


@pytest.fixture(scope="module")
def of_chains(chains):
    hdp, X, _, _ = chains
    return consensus_components(hdp, X)


def test_consensus_of_chains_is_what_was_planted(chains, of_chains):
    hdp, _, phi, theta = chains
    assert max(len(sample.component_ids) for sample in hdp.samples_) > 5
    check_consensus(of_chains, phi, theta)
    assert of_chains.n_draws_ == len(hdp.samples_)
    assert (of_chains.recurrence_ >= 0.8).all()
    assert_allclose(of_chains.components_.sum(axis=1), 1.0)
    assert (of_chains.doc_topic_distr_.sum(axis=1) <= 1.0 + 1e-9).all()
    assert np.abs(of_chains.doc_topic_distr_.sum(axis=1) - 1.0).mean() < 0.02
    assert (np.diff(of_chains.topic_weights_) <= 0.0).all()


def test_intervals_of_terms_cover_the_planted_ones(chains, of_chains):
    _, _, phi, _ = chains
    pairs = align_components(phi, of_chains.components_).pairs
    order = pairs[np.argsort(pairs[:, 0]), 1]
    low, high = of_chains.components_interval_[:, order]
    covered = (phi >= low) & (phi <= high)
    # A planted Dirichlet of 0.2 has terms below all that 0.05 tells of zero counts.
    assert 0.80 <= covered[phi > 1e-3].mean() <= 0.97


def test_the_seed_names_the_draws_and_blocks_change_nothing(chains, monkeypatch):
    hdp, X, _, _ = chains
    first, again, other = (
        consensus_components(hdp, X[:30], random_state=seed) for seed in (0, 0, 1)
    )
    for name in ("components_", "components_interval_", "doc_topic_interval_"):
        assert_array_equal(getattr(first, name), getattr(again, name))
    assert_array_equal(first.components_, other.components_)
    assert not np.array_equal(first.doc_topic_interval_, other.doc_topic_interval_)
    sparse = consensus_components(hdp, sp.csr_array(X[:30]))
    assert_array_equal(sparse.doc_topic_interval_, first.doc_topic_interval_)


def test_shares_are_drawn_from_their_posterior():
    """One word of two topics: theta is a mixture of Dirichlet distributions."""
    topics = np.array([[0.7, 0.3], [0.2, 0.8]])
    prior, n = np.array([0.5, 1.5]), np.array([4, 3])
    grid = (np.arange(20_000) + 0.5) / 20_000
    density = grid ** (prior[0] - 1.0) * (1.0 - grid) ** (prior[1] - 1.0)
    for word in range(2):
        density *= (grid * topics[0, word] + (1.0 - grid) * topics[1, word]) ** n[word]
    mean = (grid * density).sum() / density.sum()
    spread = np.sqrt((grid**2 * density).sum() / density.sum() - mean**2)
    documents = DocumentDraws(sp.csr_array(np.tile(n, (400, 1))))
    theta = documents.mode(topics, prior)
    rng = np.random.default_rng(0)
    drawn = np.array([t[:, 0] for t in documents.after(theta, topics, prior, 100, rng)])
    assert drawn[20:].mean() == pytest.approx(mean, abs=0.01)
    assert drawn[20:].std() == pytest.approx(spread, abs=0.01)


def drawn_with_topics(X, topics, prior, is_fixed=False, n=40):
    """Draws of the shares of documents, and their mean concentration."""
    rng, words = np.random.default_rng(0), sp.csr_array(X)
    given = TopicCounts(0.05, np.zeros(topics.shape), np.full(len(topics), is_fixed))
    one, draws = np.zeros(len(X), dtype=np.intp), DocumentDraws(words)
    drawn = list(draws.with_topics(topics, given, prior, one, n, rng))
    shares = [rng.standard_gamma(own[0] + tokens) for _, tokens, own in drawn]
    shares = [of / of.sum(axis=1, keepdims=True) for of in shares]
    alpha = np.mean([own.sum() for *_, own in drawn])
    return np.array(shares), alpha


@pytest.mark.parametrize("start", [0.3, 6.0])
def test_concentration_of_documents_is_learned(start):
    """Of 200 documents of ten topics, 1.0; topics in other documents have another."""
    X, phi, _ = planted(0, 200, 10, 40, (60, 200))
    prior = np.full(10, start / 10)
    assert drawn_with_topics(X, phi, prior)[1] == pytest.approx(1.0, rel=0.2)
    mixed = X[:100] + X[100:]
    assert drawn_with_topics(mixed, phi, prior)[1] > 1.5


def test_drawn_topics_widen_intervals_of_shares_to_their_probability():
    """Topics start a tenth off the planted ones, which they find; fixed ones miss."""
    X, phi, theta = planted(0, 200, 10, 40, (300, 900))
    start, prior = 0.9 * phi + 0.1 / phi.shape[1], np.full(10, 0.2)
    coverage = {}
    for is_fixed in (False, True):
        shares, _ = drawn_with_topics(X, start, prior, is_fixed, 80)
        low, high = np.quantile(shares, [0.05, 0.95], axis=0, method="weibull")
        coverage[is_fixed] = ((low <= theta) & (theta <= high)).mean()
    assert 0.85 <= coverage[False] <= 0.95
    assert coverage[True] < 0.8


# -- other models ----------------------------------------------------------------------


@each_class
def test_equal_fits_of_every_estimator_are_their_consensus(name):
    X = make_hdp(80, n_features=24, n_components=4, random_state=0).data
    model = fresh(FIRST[name]).fit(rows_of(FIRST[name], X))
    used = model.n_active_components_
    if hasattr(model, "samples_") and hasattr(model.samples_[0], "topic_word_counts"):
        model.samples_ = [max(model.samples_, key=lambda s: s.log_joint)]
    result = consensus_components([model, model, model], merge_similarity=1.0)
    assert 0 < result.n_components_ <= used
    assert_allclose(result.recurrence_, 1.0)
    assert_allclose(result.similarity_, 1.0)
    if model.components_.min() >= 0.0:
        assert align_components(model, result.components_).similarity.min() > 0.95


def test_vocabularies_are_matched_by_name():
    texts = ["sun rain sun", "rain sun", "oil coal", "coal coal oil"] * 30
    fits = [
        make_pipeline(CountVectorizer(), HDP(2, random_state=0)).fit(more + texts)
        for more in ([], ["aa sun"] * 3)
    ]
    result = consensus_components(fits, texts[:3], n_draws=20)
    assert set(result.feature_names_in_) == {"sun", "rain", "oil", "coal", "aa"}
    assert sorted(map(sorted, top_terms(result, n=2))) == [
        ["coal", "oil"],
        ["rain", "sun"],
    ]
    low, high = result.doc_topic_interval_
    warm = [terms[0] for terms in top_terms(result, n=1)].index("sun")
    assert low[0, warm] > 0.3
    assert high[2, warm] < 0.9


@pytest.mark.parametrize(
    ("estimators", "X", "error", "says"),
    [
        ([], None, ValueError, "or a list of models"),
        ([[[1.0, 2.0]]], None, ValueError, "two draws or more"),
        (
            [np.eye(2), np.eye(2)],
            np.eye(2),
            TypeError,
            "X must be None for GivenTopics",
        ),
        ([np.eye(2), np.eye(3)], None, ValueError, "no names to match"),
    ],
)
def test_what_has_no_consensus_is_named(estimators, X, error, says):
    with pytest.raises(error, match=says):
        consensus_components(estimators, X)


def test_fits_that_do_not_agree_are_named():
    with pytest.warns(UserWarning, match="No topic recurs in 80 % of 2 draws"):
        result = consensus_components([np.eye(4)[:2], np.eye(4)[2:]])
    assert result.n_components_ == 0


# -- stability -------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("resampling", daily(1, ["subsample", None]))
def test_planted_topics_are_stable_and_noise_is_not(resampling):
    bars = make_bars(200, random_state=0).data
    hdp = HDP(min_gain=0, random_state=0)
    given = {"n_fits": 2, "resampling": resampling}
    result = stability(hdp, bars, min_recurrence=1.0, **given)
    assert result.consensus.n_components_ == 20
    assert result.score > 0.95
    assert_array_equal(np.diag(result.agreement), 1.0)
    assert_array_equal(result.agreement, result.agreement.T)
    assert len(result.estimators) == 2
    assert not hasattr(hdp, "components_")
    shuffled = np.random.default_rng(0).permuted(sp.csr_array(bars).toarray(), axis=1)
    lda = LatentDirichletAllocation(20, max_iter=5)
    assert stability(lda, shuffled, **given, min_recurrence=0.0).score < 0.6


def test_fits_have_seeds_and_documents_of_their_own():
    texts = ["sun rain sun", "rain sun", "oil coal", "coal coal oil"] * 30
    pipeline = make_pipeline(CountVectorizer(), HDP(2, max_iter=3))
    result, again = (
        stability(pipeline, (text for text in texts), 2, resampling="bootstrap")
        for _ in range(2)
    )
    seeds = [fit[-1].random_state for fit in result.estimators]
    assert seeds[0] != seeds[1]
    assert seeds == [fit[-1].random_state for fit in again.estimators]
    assert_array_equal(result.agreement, again.agreement)
    for column in (pd.Index(texts), pd.Series(texts, index=range(120, 0, -1))):
        other = stability(pipeline, column, 2, resampling="bootstrap")
        assert_array_equal(result.agreement, other.agreement)
    bars = make_bars(60, random_state=0).data
    frame = pd.DataFrame(sp.csr_array(bars).toarray()).add_prefix("w")
    fits = stability(HDP(4, max_iter=3), frame, 2).estimators
    assert fits[0].feature_names_in_.tolist() == frame.columns.tolist()


def test_one_topic_under_two_shapes_is_one_though_no_draw_has_both():
    """Shapes too far for a match, and near enough to be one topic."""
    shapes = np.array([[0.6, 0.4, 0.0], [0.5, 0.4, 0.1]])
    other, weights = np.array([[0.0, 0.1, 0.9]]), np.array([0.5, 0.5])
    values = np.vstack([np.vstack([shape, other]) for shape in shapes])
    of_topics = np.tile(weights, 2), np.full(4, np.nan), np.zeros(4, dtype=bool)
    draws = Draws(values, *of_topics, np.array([0, 0, 1, 1]))
    for merge_similarity, n_topics in ((0.9, 2), (1.0, 3)):  # cosine .98
        _, topic = matched_draws(draws, 0.99, merge_similarity)
        assert topic.shape == (4,)
        assert len(np.unique(topic)) == n_topics
