"""Fits to next to nothing: they succeed, with a warning."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from checks.corpora import topic_counts
from checks.estimators import INSTANCES, every_kind, rows_of
from checks.long import along_diagonal
from skbnp import HDP, GibbsHDP, GibbsNestedCRP, NestedCRP, StickBreakingHDP
from skbnp.datasets import make_bars, make_hdp
from skbnp.estimators import SplitMerge
from skbnp.inspection import summary
from skbnp.rows.survey import ENOUGH_DOCS

pytestmark = pytest.mark.usefixtures("all_splits_in_module")

NAMES = ("HDP-online", "StickBreakingHDP-batch", "NestedCRP-batch", "GibbsHDP")
WARNING = "the topics of this fit say nothing"


@pytest.mark.parametrize("name", [*NAMES, "GibbsNestedCRP"])
def test_fit_to_nothing_warns(name):
    for X in (np.zeros((4, 6)), [[0, 2, 0, 1, 0, 3]]):
        estimator = clone(INSTANCES[name])
        with pytest.warns(UserWarning, match=WARNING) as caught:
            estimator.fit(X)
        assert caught[0].filename == __file__
        np.testing.assert_allclose(estimator.transform(X).sum(axis=1), 1.0)


FEW = {
    "HDP": HDP(max_iter=20, random_state=0),
    "mean-field HDP": HDP(
        5,
        variational_family="mean_field",
        split_merge=SplitMerge.paper(),
        max_iter=2,
        random_state=0,
    ),
    "NestedCRP": NestedCRP(init="sequential", max_iter=1, random_state=0),
    **{name: INSTANCES[name] for name in (NAMES[1], NAMES[3], "GibbsNestedCRP")},
}


@along_diagonal(("name", "copies"), FEW, [3, 40])
def test_copies_of_few_documents_do_not_tell_how_many_topics_there_are(name, copies):
    few = topic_counts(3, 12).toarray()
    with pytest.warns(ConvergenceWarning, match="documents, 3 .*split_merge=False"):
        clone(FEW[name]).fit(np.repeat(few, copies, axis=0))


def test_a_given_number_of_topics_and_a_chunk_of_a_stream_may_be_of_few(counts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HDP(3, split_merge=False, tol=0, max_iter=2).fit(counts)
        HDP(3, split_merge=False).partial_fit(counts[:20]).partial_fit(counts[20:])
    with pytest.warns(ConvergenceWarning, match="begins with 20 documents"):
        hdp = HDP(3, random_state=0).partial_fit(counts[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hdp.partial_fit(counts[20:])


@pytest.mark.long
def test_a_topic_for_each_document_is_no_finding():
    """Documents of words that hardly another one has."""
    rng = np.random.default_rng(0)
    X = rng.poisson(0.02, (120, 3_000)) * rng.integers(4, 7, (120, 3_000))
    with pytest.warns(ConvergenceWarning, match="few documents, 120, .* one topic is"):
        hdp = HDP(burstiness=False, random_state=0).fit(X)
    assert hdp.n_components_ == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HDP(random_state=0).fit(make_bars(120, random_state=0).data)


def test_topics_that_no_document_fills_are_named():
    one = make_hdp(200, n_features=30, n_components=1, random_state=0).data
    with pytest.warns(ConvergenceWarning, match="of 20 topics .* the documents fill"):
        hdp = HDP(20, split_merge=False, random_state=0).fit(one)
    tokens = hdp.components_.sum(axis=1) - 30 * hdp.topic_word_prior_
    assert (tokens < 1.0).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        HDP(1, split_merge=False, random_state=0).fit(one)


@pytest.mark.long
def test_sticks_that_hold_their_start_say_so():
    """After twenty small steps, and not after two hundred."""
    X = np.tile(topic_counts(1, 12, length=100.0).toarray(), (120, 1))
    hdp = StickBreakingHDP(150, random_state=0)
    with pytest.warns(ConvergenceWarning, match="After 20 updates 21% of .* start"):
        hdp.fit(X)
    assert hdp.n_active_components_ == 150
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "X has few documents")
        hdp.set_params(max_iter=200).fit(X)
    assert hdp.n_active_components_ < 20


MODELS = [HDP(3, max_iter=2, random_state=0), GibbsHDP(3, max_iter=2, random_state=0)]


def warnings_of(call):
    """Messages of a call, but for those of fits that are short and of few documents."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if w.category is UserWarning]


@pytest.mark.parametrize("method", ["fit", "fit_transform", "partial_fit"])
@pytest.mark.parametrize("model", MODELS)
def test_logarithms_of_counts_warn_and_name_the_cure(model, method):
    counts = topic_counts(60, 12, length=300.0).toarray()
    (message,) = warnings_of(lambda: getattr(clone(model), method)(np.log1p(counts)))
    assert "np.log1p" in message
    assert "Give the counts" in message
    shares = 100.0 * counts / counts.sum(axis=1, keepdims=True)
    assert not warnings_of(lambda: getattr(clone(model), method)(shares))


@pytest.mark.parametrize("model", MODELS)
def test_columns_that_are_no_words_are_named(model, counts):
    frame = pd.DataFrame(counts.toarray()).add_prefix("w")
    for column in (np.arange(60.0), np.full(60, 2001.0)):
        X = frame.assign(document=column)
        (message,) = warnings_of(lambda X=X: clone(model).fit(X))
        assert "'document'" in message
        (message,) = warnings_of(lambda X=X: clone(model).fit(X.to_numpy()))
        assert "Column 24 " in message
    assert not warnings_of(lambda: clone(model).fit(frame))


@pytest.mark.parametrize("model", [GibbsHDP(), GibbsNestedCRP()])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_samplers_refuse_shares_and_name_the_cure(model, method, counts):
    shares = counts.toarray() / counts.sum(axis=1)[:, None]
    shares = shares[:20]
    for X in (shares, shares / 100.0, np.tile([[0.9, 0.1]], (9, 1))):
        with pytest.raises(ValueError, match=r"rounding leaves.*multiply.*tokens"):
            getattr(clone(model), method)(X)
    model = clone(model).set_params(max_iter=2)
    with pytest.warns(DataConversionWarning, match="rounded"):
        getattr(model, method)(100.0 * shares)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_weights_that_are_no_counts_warn_and_name_the_cure(method, counts):
    weights = counts * 0.1
    with pytest.warns(UserWarning, match="tf-idf.*CountVectorizer"):
        getattr(HDP(3, max_iter=2), method)(weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        getattr(HDP(3, max_iter=2), method)(counts)


@every_kind(indirect=False)
def test_a_summary_says_whether_documents_are_too_few(estimator):
    """Of a stream a first chunk may be small: no warning, but a line."""
    model, noted = clone(estimator), ": too few to judge the number of"
    X = rows_of(model, topic_counts(30, 24))
    model.partial_fit(X[:10])
    held_out = isinstance(model, HDP)  # some documents of a stream
    assert model.n_samples_seen_ == 10 or (held_out and 5 <= model.n_samples_seen_ < 10)
    asked = model._n_enough_docs > 0
    assert (noted in summary(model)) is asked
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[10:])
    assert again.n_samples_seen_ == 30 or (held_out and again.n_samples_seen_ >= 20)
    fitted = clone(estimator).fit(rows_of(model, topic_counts(ENOUGH_DOCS, 24)))
    assert fitted.n_samples_seen_ == ENOUGH_DOCS
    assert noted not in summary(fitted)


@pytest.mark.parametrize("name", ["GibbsHDP", "GibbsNestedCRP"])
def test_a_warm_start_counts_the_documents_of_the_stream_before(name, counts):
    model = clone(INSTANCES[name]).set_params(warm_start=True)
    model.partial_fit(counts[:20]).fit(counts[:10])
    assert model.n_samples_seen_ == 20
    assert model.fit(counts[:25]).n_samples_seen_ == 25


@pytest.mark.parametrize(("n_docs", "n_topics"), [(12, 2), (60, 6)])
def test_the_number_that_a_warning_proposes_goes_with_the_documents(n_docs, n_topics):
    advice = rf"HDP\(n_components={n_topics}, split_merge=False\)"
    X = topic_counts(n_docs, 24)
    with pytest.warns(ConvergenceWarning, match=rf"{n_docs} different ones.*{advice}"):
        HDP(max_iter=2, random_state=0).fit(X)
