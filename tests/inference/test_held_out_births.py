"""Births of topics from held-out documents, judged by others of these."""

import numpy as np
import pytest
import scipy.sparse as sp

from checks.states import assert_same
from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.inference.executor import Executor
from skbnp.models.hdp import births as held_out_moves
from skbnp.models.hdp import held_out, held_out_trials
from skbnp.models.hdp.held_out import compare

pytestmark = pytest.mark.usefixtures("one_split")


def twins(n_topics=200, n_words=2000, length=60, n_docs=2):
    """Documents of one topic each, which so many share."""
    rng = np.random.default_rng(0)
    topics = np.repeat(rng.dirichlet(np.full(n_words, 0.01), n_topics), n_docs, axis=0)
    return sp.csr_array(rng.multinomial(length, topics) * 1.0)


def births_of_fit(X, monkeypatch, add=held_out_moves.add_document_births, **given):
    """Fit, and return the posterior before and after births, and their number."""
    births = []

    def note(posterior, held_out, *others):
        before = posterior.copy()
        n_births = add(posterior, held_out, *others)
        births.append((before, posterior.copy(), n_births, held_out))
        return n_births

    monkeypatch.setattr(held_out_trials, "add_document_births", note)
    hdp = HDP(**{"min_gain": 0, "random_state": 0} | given).fit(X)
    return hdp, *births[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_documents_whose_topics_no_other_has_give_births(monkeypatch):
    hdp, before, after, n_births, judges = births_of_fit(twins(), monkeypatch)
    n_before = before.state.n_components
    assert n_births == np.ceil(100 * n_before / 300)
    assert after.state.n_components == n_before + n_births
    assert after.state.weights.sum() == pytest.approx(1.0)
    assert n_before < 200 <= hdp.n_components_ <= 220
    # They are the documents that are predicted worst.
    logs = judges.log_probability(predict(judges, before)) / judges.n_tokens
    whole = judges.whole(judges.first_parts).toarray()
    worst = whole[np.argsort(logs, kind="stable")[:n_births]]
    words = after.global_stats.topic_words.dense()[:, n_before:].T
    np.testing.assert_allclose(
        words / words.sum(axis=1, keepdims=True),
        worst / worst.sum(axis=1, keepdims=True),
        atol=1e-12,
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", ["bars", "mean_field", "gain", "penalty"])
def test_no_births(case, monkeypatch):
    X, begin = twins(), held_out_moves.add_document_births
    given = {"variational_family": "mean_field"} if case == "mean_field" else {}
    if case == "bars":
        X = make_bars(300, random_state=0).data
    elif case in ("gain", "penalty"):

        def begin(posterior, judges, least_gain, penalty, executor):
            least = (5.0, 0.0) if case == "gain" else (0.0, 1.0)
            return held_out_moves.add_document_births(
                posterior, judges, *least, executor
            )

    _, before, after, n_births, _ = births_of_fit(X, monkeypatch, begin, **given)
    assert n_births == 0
    assert_same(before.state, after.state)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("limit", "n_topics", "n_docs"),
    [
        pytest.param("FEWEST_JUDGES", 58, 2, id="few judges", marks=pytest.mark.weekly),
        pytest.param("BIRTHS_FROM", 100, 6, id="shared topics"),
    ],
)
def test_no_births_where_few_judge_or_topics_are_shared(
    limit, n_topics, n_docs, monkeypatch
):
    """Topics that the documents learned from have, too, would only be cut in parts."""
    X = twins(n_topics, n_docs=n_docs)
    *_, n_births, _ = births_of_fit(X, monkeypatch)
    assert n_births == 0
    monkeypatch.setattr(held_out_moves, limit, 0)
    *_, n_births, _ = births_of_fit(X, monkeypatch)
    assert n_births > 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_births_have_the_share_of_their_documents(monkeypatch):
    """Of all tokens, also if topics explain tables."""

    def begin(posterior, *others):
        posterior.set_state(by_tables=True)
        posterior.global_stats.topic_words.decay(0.5)
        return held_out_moves.add_document_births(posterior, *others)

    _, _, after, n_births, judges = births_of_fit(twins(), monkeypatch, begin)
    words = after.global_stats.topic_words.dense()
    n_new = 60.0 * n_births
    share = words[:, -n_births:].sum() / words.sum()
    assert share == pytest.approx(n_new / (judges.train.n_tokens + n_new), rel=0.02)


def predict(judges, posterior):
    with Executor(None) as executor:
        return judges.predict(posterior, executor)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_documents_do_not_judge_their_own_births(monkeypatch):
    """Single documents gain by topics of their own, and no other document does."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), 200)
    X = sp.csr_array(rng.multinomial(100, topics) * 1.0)
    judges = held_out.hold_out(X, rng)
    hdp = HDP(10, split_merge=False, max_iter=10, random_state=0).fit(judges.train.X)
    posterior, own = hdp._posterior.copy(), hdp._posterior.copy()
    monkeypatch.setattr(held_out_moves, "BIRTHS_FROM", 0.0)
    with Executor(None) as executor:
        begin = held_out_moves.add_document_births
        assert begin(posterior, judges, 0.0, 0.0, executor) == 0
    whole = judges.whole(judges.first_parts)
    shares = np.full(whole.shape[0], 1.0 / X.shape[0])
    held_out_moves.add_topics(own, whole, shares)
    gain = compare(
        judges.log_probability(predict(judges, own)),
        judges.log_probability(predict(judges, posterior)),
        judges.n_tokens,
    )
    assert gain.mean > 10.0 * gain.error
