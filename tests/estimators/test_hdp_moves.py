"""Mean-field HDP with moves: the number of topics is found from any start."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from checks.estimators import each_family, mean_field_hdp
from checks.long import along_diagonal
from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge
from skbnp.metrics import held_out_log_likelihood, split_tokens

PAPER = SplitMerge.paper()
OPTIONS = {
    "split_merge": PAPER,
    "batch_size": 200,
    "learning_offset": 1,
    "learning_decay": 0.5,
    "topic_word_prior": 0.1,
    "learn_priors": False,
    "warm_up": 0,
    "tol": 0,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def bars():
    return make_bars(2200, random_state=0)


@pytest.fixture(scope="module")
def X(bars):
    return sp.csr_array(bars.data[:2000])


def n_found(hdp, bars):
    gap = bars.topic_word_distr[:, None] - hdp.topic_word_distr_[None]
    distance = np.abs(gap).sum(axis=2) / 2
    return int((distance[linear_sum_assignment(distance)] < 0.3).sum())


#: Passes that each way to learn needs, and settings of its own.
METHODS = {
    "online": {"max_iter": 10},
    "memoized": {"max_iter": 20, "split_merge": True},
    "batch": {"max_iter": 30, "warm_up": 5, "split_merge": True},
}
each_method = pytest.mark.parametrize("method", METHODS)


def bars_model(n_components, method, **settings):
    options = OPTIONS | METHODS[method] | {"learning_method": method} | settings
    return mean_field_hdp(n_components, **options)


def check_bars(hdp, bars):
    assert hdp.n_components_ in (20, 21)
    assert n_found(hdp, bars) == 20
    test = bars.data[2000:]
    truth = held_out_log_likelihood(bars.topic_word_distr, 0.1, *split_tokens(test))
    assert abs(hdp.score(test) - truth) < 0.03


@pytest.mark.long
@along_diagonal(("n_components", "method"), [2, 60], METHODS)
def test_held_out_documents_find_all_bars_from_any_start(n_components, method, bars, X):
    hdp = mean_field_hdp(n_components, learning_method=method, random_state=0)
    with warnings.catch_warnings(action="error"):
        hdp.fit(X)
    check_bars(hdp, bars)
    assert hdp.converged_


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_components", "family"), [(1, "mean_field"), (100, "collapsed")]
)
def test_one_topic_is_found_in_noise(n_components, family):
    """Of equal words for all documents: mean-field topics alone share the words out."""
    rng = np.random.default_rng(0)
    noise = sp.csr_array(rng.multinomial(80, np.full(500, 1 / 500), size=1000))
    hdp = HDP(n_components, variational_family=family, random_state=0)
    with pytest.warns(ConvergenceWarning, match="One topic is left of 1000 documents"):
        hdp.fit(noise)
    assert hdp.n_components_ == 1
    if n_components > 1:  # at once, not half of them and half of them again
        assert hdp.n_iter_ <= 20


@pytest.mark.long
def test_moves_of_the_paper_find_all_bars(bars, X):
    hdp = bars_model(2, "online", max_iter=6).fit(X)
    check_bars(hdp, bars)
    assert hdp.n_components_ == 20


@pytest.mark.parametrize(
    ("family", "method"),
    [("collapsed", "online"), ("mean_field", "memoized"), ("mean_field", "batch")],
)
def test_moves_of_the_paper_are_those_of_online_mean_field_fits(family, method, X):
    hdp = HDP(3, split_merge=PAPER, variational_family=family, learning_method=method)
    for learn in (hdp.fit, hdp.partial_fit):
        with pytest.raises(ValueError, match=r"mean_field.*online"):
            learn(X[:40])


@pytest.mark.long
@along_diagonal(("family", "method"), ["collapsed", "mean_field"], METHODS)
def test_without_moves_two_topics_stay_two(method, family, bars, X):
    hdp = bars_model(2, method, split_merge=False, max_iter=8)
    hdp.set_params(variational_family=family).fit(X)
    assert hdp.n_components_ == 2
    assert n_found(hdp, bars) == 0


@pytest.fixture(scope="module")
def grown(X):
    return mean_field_hdp(3, max_iter=3, **OPTIONS).fit(X[:1000])


def test_history_counts_accepted_moves(grown):
    history = grown.history_
    assert history["n_components"][-1] == grown.n_components_
    kinds = [entry.kind for entry in grown.lineage_]
    for kind in ("birth", "split", "merge"):
        counted = history[f"n_{kind}s"]
        assert (np.diff(counted) >= 0).all()
        assert counted[-1] == kinds.count(kind)
    assert history["n_splits"][-1] > 5


@each_method
@pytest.mark.parametrize("limit", [3, 8])
def test_the_limit_is_never_exceeded(method, limit, X):
    hdp = bars_model(3, method, max_components=limit, max_iter=16).fit(X[:500])
    assert max(hdp.history_["n_components"]) <= limit
    assert hdp.n_components_ <= limit


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_fit_starts_from_as_many_topics_as_are_allowed(method, X):
    """The default start, of 300, is larger."""
    hdp = HDP(max_components=12, max_iter=3, random_state=0)
    getattr(hdp, method)(X[:400])
    assert max(hdp.history_["n_components"]) <= 12
    assert hdp.n_components_ <= 12
    entry = hdp.lineage_[0]
    assert (entry.kind, len(entry.children)) == ("init", 12)


@pytest.mark.long
def test_a_stream_keeps_learning_topics(X):
    """Half of the bars first, then all of them."""
    half = X[np.asarray(X[:, :50].sum(axis=1) > 0.9 * X.sum(axis=1)).ravel()]
    hdp = mean_field_hdp(2, batch_size=50, random_state=0)
    hdp.partial_fit(half)
    few = hdp.n_components_
    for _ in range(3):
        hdp.partial_fit(X)
    assert hdp.n_components_ > few


@pytest.mark.long
@each_family
def test_documents_one_by_one_do_not_end_good_topics(family, bars, X):
    """A topic is absent from most single documents."""
    hdp = HDP(20, batch_size=40, max_iter=25, min_gain=0, random_state=0)
    hdp.set_params(variational_family=family).fit(X[:400])
    n_logged, score = len(hdp.lineage_), hdp.score(bars.data[2000:])
    mass = hdp._posterior.global_stats.topic_words.total
    good = set(hdp.component_ids_[mass > 0.1 * mass.mean()].tolist())
    assert len(good) == 20
    for row in range(60):
        hdp.partial_fit(X[row : row + 1])
    ended = [entry for entry in hdp.lineage_[n_logged:] if entry.kind == "prune"]
    assert good.isdisjoint(n for entry in ended for n in entry.parents)
    assert hdp.score(bars.data[2000:]) > score - 0.2


def test_an_edit_is_seen_in_the_bound(X):
    hdp = mean_field_hdp(20, max_iter=8, random_state=0).fit(X[:400])
    before = hdp.elbo_
    hdp.drop_components(hdp.component_ids_[1:])
    assert hdp.elbo_ < before
    assert_allclose(hdp.elbo_, sum(hdp._posterior.objective().values()), rtol=1e-12)


@each_method
def test_the_only_move_of_collapsed_learning_ends_unused_topics(method, X):
    """Fewer tokens of the corpus than `prune_tokens`."""
    moves = SplitMerge(prune_tokens=200.0)
    hdp = HDP(60, learning_method=method, split_merge=moves, max_iter=8, tol=0)
    hdp.set_params(random_state=0).fit(X[:400])
    kinds = {entry.kind for entry in hdp.lineage_[1:]}
    assert kinds == {"prune"}
    assert hdp.n_components_ == 60 - len(hdp.lineage_[1:])
    tokens = hdp.components_ - hdp.topic_word_prior_
    assert (tokens.sum(axis=1) >= 200.0).all()
    assert set(hdp.history_["n_births"] + hdp.history_["n_splits"]) == {0}


def test_with_memory_topics_end_that_hold_too_few_tokens(X):
    moves = SplitMerge(births=False, prune_tokens=200.0)
    hdp = mean_field_hdp(40, learning_method="memoized", split_merge=moves, warm_up=2)
    hdp.set_params(max_iter=15, random_state=0).fit(X[:400])
    tokens = hdp.components_.sum(axis=1) - 100 * hdp.topic_word_prior_
    assert 1 < hdp.n_components_ < 40
    assert (tokens >= 200.0).all()


@pytest.mark.parametrize("warm_up", [5, 12])
def test_what_follows_trials_is_exact_in_the_end(warm_up, X):
    hdp = mean_field_hdp(8, warm_up=warm_up, random_state=0).fit(X[:400])
    assert hdp.converged_
    assert hdp._posterior.init_fraction < 0.5


def test_where_nothing_can_be_held_out_there_are_no_trials(X):
    hdp = mean_field_hdp(3, max_iter=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        warnings.filterwarnings("ignore", "X has few documents")
        assert hdp.fit(X[:6]).converged_
        hdp.set_params(max_iter=10, tol=0.1).fit(X[:6])
