"""Edits of topics of a fit: fewer topics, merges, ends, and the log of these."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP, GibbsHDP, KnownTopics, StickBreakingHDP, reduce_topics
from skbnp.datasets import make_bars
from skbnp.inspection import set_topic_names, topic_path

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
#: Topics of the fits at least, kinds of words that they are of.
N_KINDS = 6
FITS = {
    "HDP": lambda **more: HDP(25, split_merge=False, max_iter=15, **more),
    "HDP-mean-field": lambda **more: HDP(
        25, split_merge=False, variational_family="mean_field", max_iter=15, **more
    ),
    "GibbsHDP": lambda **more: GibbsHDP(
        25, split_merge=False, max_iter=15, thin=2, **more
    ),
    "StickBreakingHDP": lambda **more: StickBreakingHDP(25, max_iter=15, **more),
}


def planted(n_docs=300, seed=0):
    """Documents of topics that are variations of `N_KINDS` kinds."""
    rng = np.random.default_rng(seed)
    kinds = np.kron(np.eye(N_KINDS), np.full(10, 0.1))
    topics = np.array(
        [rng.dirichlet(10.0 * row + 1e-3) for row in np.tile(kinds, (4, 1))]
    )
    shares = rng.dirichlet(np.full(len(topics), 0.1), n_docs)
    return np.array([rng.multinomial(60, share @ topics) for share in shares])


@pytest.fixture(scope="module")
def X():
    return planted()


@pytest.fixture(scope="module")
def fits(X):
    return {name: make(random_state=0).fit(X[:250]) for name, make in FITS.items()}


@pytest.fixture(params=FITS)
def fit(request, fits):
    return fits[request.param]


def words_of(model):
    return model.components_ - model.topic_word_prior_


def joined(model, n):
    """Matrix that adds up topics as the path does, (n_components_, n)."""
    labels = topic_path(model).labels(n)
    ids = reduce_topics(model, n).component_ids_
    return (labels[:, None] == ids).astype(float)


def test_words_and_weights_are_sums_of_those_of_the_fit(fit):
    n = N_KINDS
    reduced, sums = reduce_topics(fit, n), joined(fit, n)
    assert_array_equal(sums.sum(axis=1), 1.0)
    assert reduced.n_components_ == n == len(reduced.components_)
    assert_allclose(words_of(reduced), sums.T @ words_of(fit), atol=1e-8)
    if not isinstance(fit, StickBreakingHDP):  # whose weights depend on their order
        assert_allclose(reduced.topic_weights_, fit.topic_weights_ @ sums, rtol=1e-9)


def test_the_fit_stays_as_it_is(fit):
    before = pickle.dumps(fit)
    reduced = reduce_topics(fit, 3)
    reduced.merge_components(reduced.component_ids_[:2])
    assert pickle.dumps(fit) == before


def test_merges_are_recorded_and_the_heavier_keeps_its_number(fit):
    n = fit.n_components_
    reduced, path = reduce_topics(fit, n - 3), topic_path(fit)
    log = [entry[1:] for entry in reduced.lineage_[len(fit.lineage_) :]]
    steps = path.merges[:3].tolist()
    assert log == [("merge", (other, one), (other,)) for one, other in steps]
    left = np.setdiff1d(fit.component_ids_, path.merges[:3, 0])
    assert_array_equal(np.sort(reduced.component_ids_), left)


def test_the_number_of_the_fit_leaves_topics_alone(fit):
    same = reduce_topics(fit, fit.n_components_)
    assert_array_equal(same.components_, fit.components_)
    assert_array_equal(same.component_ids_, fit.component_ids_)


def test_a_stream_goes_on_from_the_merged_topics(fit, X):
    reduced = reduce_topics(fit, 8)
    ids, tokens = set(reduced.component_ids_), words_of(reduced).sum()
    reduced.partial_fit(X[250:])
    assert ids >= set(reduced.component_ids_) or isinstance(fit, GibbsHDP)
    assert words_of(reduced).sum() != pytest.approx(tokens)
    assert np.isfinite(reduced.score(X))
    assert len(reduced.transform(X)) == len(X)


def test_a_fit_with_trials_can_be_reduced_and_go_on(X):
    hdp = HDP(random_state=0).fit(X)
    few = reduce_topics(hdp, 3)
    assert few.n_components_range_ is None
    assert few.partial_fit(X).n_components_ >= 1


def test_a_reduced_sample_is_the_best_one_alone(fits):
    reduced = reduce_topics(fits["GibbsHDP"], 5)
    assert len(fits["GibbsHDP"].samples_) > 1
    assert [len(sample.component_ids) for sample in reduced.samples_] == [5]
    assert reduced.n_components_posterior_ == {5: 1.0}


# -- names and known topics ------------------------------------------------------------


def test_a_name_stays_with_the_number(fits):
    fit = copy.copy(fits["HDP"])
    set_topic_names(fit, [f"topic {number}" for number in fit.component_ids_])
    reduced = reduce_topics(fit, 4)
    names = [f"topic {number}" for number in reduced.component_ids_]
    assert reduced.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("name", FITS)
def test_known_topics_stay_apart_and_keep_names_and_priors(name, X):
    seeds = {"first": [0, 1], "second": [10, 11], "third": [20, 21]}
    fit = FITS[name](random_state=0, topic_word_prior=seeds).fit(X)
    reduced = reduce_topics(fit, 3)
    assert_array_equal(reduced.component_ids_, [0, 1, 2])
    assert reduced.get_feature_names_out().tolist() == list(seeds)
    assert_allclose(reduced.topic_word_prior_, fit.topic_word_prior_[:3])
    assert_allclose(words_of(reduced).sum(), words_of(fit).sum())
    assert reduced.partial_fit(X[:50]).get_feature_names_out()[1] == "second"
    assert topic_path(fit).sizes[-1] == 3
    with pytest.raises(
        ValueError, match=r"n must be from 3 to \d+, got 2; topics known"
    ):
        reduce_topics(fit, 2)


@pytest.mark.parametrize("name", ["HDP", "GibbsHDP"])
def test_frozen_topics_take_no_part(name, X):
    given = np.kron(np.eye(N_KINDS), np.full(10, 0.1))[:2] + 1e-4
    known = KnownTopics(given, frozen=True)
    fit = FITS[name](random_state=0, topic_word_prior=known).fit(X)
    reduced = reduce_topics(fit, 3)
    assert_array_equal(reduced.components_[:2], given)
    assert not set(topic_path(fit).merges.ravel()) & {0, 1}
    frozen, other = 0, int(fit.component_ids_[-1])
    with pytest.raises(ValueError, match=r"not frozen, got \[0\]"):
        fit.merge_components([other, frozen])


# -- input -----------------------------------------------------------------------------


def test_a_pipeline_of_texts_keeps_its_steps():
    texts = ["sun rain snow", "rain snow", "oil coal gas", "coal gas gas"] * 10
    model = make_pipeline(CountVectorizer(), HDP(6, split_merge=False, random_state=0))
    model.fit(texts)
    reduced = reduce_topics(model, 2)
    assert reduced.transform(texts).shape == (40, 2)
    assert reduced[0] is model[0]
    assert model.transform(texts).shape == (40, 6)
    frame = pd.DataFrame(model[0].transform(texts).toarray())
    assert reduced[-1].transform(frame.to_numpy()).shape == (40, 2)


@pytest.mark.parametrize("n", [26, 0, 2.5, "3"])
def test_other_numbers_are_refused(fits, n):
    with pytest.raises(ValueError, match=r"n.* must be .*[gG]ot"):
        reduce_topics(fits["HDP"], n)


def test_models_without_flat_topics_are_refused(X):
    with pytest.raises(TypeError, match=r"must be an HDP, a GibbsHDP or .* got Latent"):
        reduce_topics(LatentDirichletAllocation(2, max_iter=1).fit(X), 1)
    with pytest.raises(NotFittedError):
        reduce_topics(HDP(), 1)


# Merges, ends, and the log ------------------------------------------------------------


@pytest.fixture(scope="module")
def documents():
    return sp.csr_array(make_bars(200, side=5, random_state=0).data)


@pytest.fixture(params=["collapsed", "mean_field"])
def hdp(request, documents):
    return HDP(8, variational_family=request.param, max_iter=3, random_state=0).fit(
        documents
    )


def prior_free(hdp):
    return hdp.components_ - hdp.topic_word_prior_


def test_a_fit_names_its_topics_and_their_start(hdp):
    assert_array_equal(hdp.component_ids_, np.arange(8))
    [(step, kind, parents, children)] = hdp.lineage_
    assert (step, kind, parents) == (0, "init", ())
    assert sorted(children) == list(range(8))
    assert hdp.lineage_[0].kind == "init"


def test_merge_adds_counts_and_weights_to_the_first(hdp):
    counts, weights = prior_free(hdp), hdp.topic_weights_
    assert hdp.merge_components([5, 1, 7]) is hdp
    assert_array_equal(hdp.component_ids_, [0, 6, 2, 3, 4, 5])
    assert hdp.n_components_ == 6
    assert_allclose(prior_free(hdp)[5], counts[[5, 1, 7]].sum(axis=0), rtol=1e-9)
    assert_allclose(prior_free(hdp)[:5], counts[[0, 6, 2, 3, 4]], rtol=1e-9)
    assert_allclose(hdp.topic_weights_[5], weights[[5, 1, 7]].sum())


def test_drop_forgets_counts_and_frees_weights(hdp):
    counts, weights = prior_free(hdp), hdp.topic_weights_
    hdp.drop_components(np.array([3, 0]))
    kept = [6, 1, 2, 7, 4, 5]
    assert_array_equal(hdp.component_ids_, kept)
    assert_allclose(prior_free(hdp), counts[kept], rtol=1e-9)
    assert_allclose(hdp.topic_weights_, weights[kept])
    assert [entry[1:] for entry in hdp.lineage_[1:]] == [
        ("prune", (3,), ()),
        ("prune", (0,), ()),
    ]


@pytest.mark.parametrize(
    ("method", "ids"),
    [
        ("merge_components", [1]),
        ("merge_components", [1, 1]),
        ("merge_components", [1, 8]),
        ("merge_components", [1.0, 2.0]),
        ("merge_components", [[1, 2]]),
        ("merge_components", "12"),
        ("drop_components", []),
        ("drop_components", [-1]),
        ("drop_components", range(8)),
        ("drop_components", None),
    ],
)
def test_ids_that_name_no_edit_are_refused_and_change_nothing(hdp, method, ids):
    before = pickle.dumps(hdp)
    with pytest.raises(ValueError, match="ids must"):
        getattr(hdp, method)(ids)
    assert pickle.dumps(hdp) == before
