import pickle
import re

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from checks.long import daily
from skbnp import HDP, GibbsHDP, NestedCRP, StickBreakingHDP
from skbnp.datasets import make_bars
from skbnp.inspection import summary, token_topics
from skbnp.inspection._summary import quantiles
from skbnp.metrics import document_completion_score

ACCOUNT = """\
FakeHDP()

Found
vocabulary            5 terms
topics                3

How sure
fit                   2 passes, converged, 2.2 seconds
bound                 -2.0000 nats per token

Settings in force
corpus_concentration  2.5
doc_concentration     1.25
topic_word_prior      0.05

topic   weight  terms
    2   25.0 %  hail, wind, rain, snow, sun
    1   50.0 %  snow, rain, wind, sun, hail
    0   20.0 %  sun, rain, snow, wind, hail

What to do next
- Give documents, summary(..., X=X): adds groups of topics, a document for each
  topic and a score."""


ACCOUNT_OF_CHAINS = """\
FakeSampler(max_iter=20)

Found
vocabulary            5 terms
topics                median 3, 90 % interval 3 to 5
large topics          3, with 1 % of the tokens or more
sample shown          3 topics; sweep 8 of chain 1

How sure
fit                   20 sweeps, 2 chains, 4 samples, 5.0 seconds
moves                 3 splits, 1 merge accepted
log joint             -8.0000 nats per token
"""


def rows_of_topics(text):
    table = text.split(" terms\n")[-1].splitlines()
    return [line for line in table if line[:5].strip().isdigit()]


def test_account_of_a_fit(model, words):
    assert summary(model, words) == ACCOUNT


def test_missing_facts_are_left_out(model):
    for name in ("history_", "converged_", "n_iter_", "elbo_", "doc_concentration_"):
        delattr(model, name)
    assert list(facts_of(summary(model))) == [
        "vocabulary",
        "topics",
        "corpus_concentration",
        "topic_word_prior",
    ]


def test_log_probability_is_told_where_there_is_no_bound(model):
    del model.elbo_
    model.log_predictive_ = -1.75
    text = summary(model)
    assert "bound" not in text
    line = "-1.7500 nats per training token, each given all others"
    assert f"log probability       {line}\n" in text


def test_idle_topics_are_counted_but_not_printed(model):
    model.n_active_components_ = 2
    text = summary(model)
    assert "2 in use of 3 represented" in text
    assert len(rows_of_topics(text)) == 2


def test_weights_without_an_attribute_are_shares_of_tokens():
    lda = LatentDirichletAllocation(2, random_state=0).fit(np.eye(2) * [[30], [10]])
    lda.components_ = np.array([[30.0, 0.0], [0.0, 10.0]]) + lda.topic_word_prior_
    weights = {row.split()[1] for row in rows_of_topics(summary(lda))}
    assert weights == {"75.0", "25.0"}


@pytest.mark.parametrize(
    "model",
    [HDP(5, max_iter=3, random_state=0), LatentDirichletAllocation(5, max_iter=3)],
)
def test_score_is_that_of_document_completion(model):
    model = clone(model).fit(make_bars(60, random_state=0).data)
    X = make_bars(20, random_state=1).data
    score, text = document_completion_score(model, X), summary(model, X=X)
    assert f"20 documents, {X.sum():,.0f} tokens" in text
    assert f"{score:.4f} nats per held-out token" in text


def test_gain_of_topics_is_over_frequencies_of_words():
    """Of planted topics, and of words that are drawn alike for all documents."""
    X = make_bars(300, side=3, random_state=0).data
    model = HDP(6, split_merge=False, random_state=0).fit(X[:200])
    facts = facts_of(summary(model, X=X[200:]))
    one = HDP(1, split_merge=False, burstiness=False, random_state=0).fit(X[:200])
    expected = document_completion_score(model, X[200:], repeats=False)
    expected -= document_completion_score(one, X[200:])
    assert abs(float(facts["topics gain"].split()[0]) - expected) < 0.03
    X = np.random.default_rng(0).multinomial(20, np.full(9, 1 / 9), size=300)
    model = HDP(6, split_merge=False, random_state=0).fit(X[:200])
    assert facts_of(summary(model, X=X[200:]))["topics gain"].startswith("nothing")


@pytest.mark.parametrize(
    "model", [HDP(random_state=0), GibbsHDP(8, max_iter=9, random_state=0)]
)
def test_documents_of_the_fit_are_known_again(model):
    """They are not held out: their gain is that of documents that trials held out."""
    X = make_bars(160, side=3, random_state=0).data
    model = clone(model).fit(X[:120])
    judged = isinstance(model, HDP)
    for _ in range(2):
        facts = facts_of(summary(model, X=X[:120][::-2]))
        assert facts["... of the fit"].endswith("their score flatters, take others")
        assert ("... by held-out ones" in facts) == judged
        assert "topics gain" not in facts
        assert "topics gain, of the fit" in facts
        assert "43%: their score" in summary(model, X=X[90:].toarray())
        assert "of the fit" not in summary(model, X=X[120:])
        model = pickle.loads(pickle.dumps(model))
    if judged:
        gain, error = model._posterior.held_out_gain
        new = float(facts_of(summary(model, X=X[120:]))["topics gain"].split()[0])
        assert abs(gain - new) < 3.0 * error + 0.05
    model.partial_fit(X[120:140])
    assert "55%: their score" in summary(model, X=X[116:])[:2000]


@pytest.mark.filterwarnings("error:X does not have valid feature names")
@pytest.mark.parametrize("read", [summary, token_topics])
def test_frames_keep_their_names(read):
    X = pd.DataFrame(make_bars(100, side=3, random_state=0).data.toarray())
    X.columns = [f"cell {j}" for j in X.columns]
    model = HDP(6, split_merge=False, max_iter=3, random_state=0).fit(X)
    assert read(model, X=X) is not None


def test_unfitted_models_have_no_account(unfitted):
    with pytest.raises(NotFittedError):
        summary(unfitted)


@pytest.mark.parametrize("name", ["n_components", "n_terms"])
def test_numbers_are_positive(model, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of summary"):
        summary(model, **{name: 0})


# -- samplers --------------------------------------------------------------------------


@pytest.fixture
def chains(sampler):
    """A sampler of twenty sweeps, in which the number of topics and the chains vary."""
    steps, rng = np.arange(1, 21).repeat(2), np.random.default_rng(0)
    sampler.history_ |= {
        "step": steps.tolist(),
        "chain": [0, 1] * 20,
        "seconds": (steps / 4).tolist(),
        "n_components": rng.integers(3, 6, 40).tolist(),
        "log_joint": rng.normal(-8.0, 0.1, 40).tolist(),
        "n_splits": [0, 0] * 19 + [2, 1],
        "n_merges": [0, 0] * 19 + [0, 1],
    }
    sampler.n_iter_ = 20
    return sampler.set_params(max_iter=20)


def facts_of(text):
    lines = text.split("\ntopic ")[0].splitlines()
    facts = [re.split("  +", line, maxsplit=1) for line in lines if line[:1] != " "]
    return dict(fact for fact in facts if len(fact) == 2)


def test_account_of_chains(chains, words):
    assert summary(chains, words).startswith(ACCOUNT_OF_CHAINS)


def test_mixing_is_that_of_the_sweeps_after_burn_in(chains):
    facts = facts_of(summary(chains))
    for name, what in (("n_components", "topics"), ("log_joint", "log joint")):
        traces = np.reshape(chains.history_[name], (20, 2)).T[:, 10:]
        assert f"{array_stats.rhat(traces):.2f} ({what})" in facts["R-hat"]
        assert f"{array_stats.ess(traces):.0f} ({what})" in facts["bulk ESS"]
    assert facts["bulk ESS"].endswith("of 20 sweeps after burn-in")


def test_mixing_of_what_never_changes_is_left_out(chains):
    chains.history_["n_components"] = [5] * 40
    chains.n_components_posterior_ = {5: 1.0}
    facts = facts_of(summary(chains))
    assert facts["topics"] == "5 in every sweep after burn-in"
    assert "topics" not in facts["R-hat"] + facts["bulk ESS"]


def test_large_topics_are_those_of_all_kept_samples():
    X = make_bars(100, side=3, random_state=0).data
    gibbs = GibbsHDP(8, max_iter=20, thin=2, random_state=0).fit(X)
    tokens = [s.topic_word_counts.sum(axis=1) for s in gibbs.samples_]
    counts = {int((row >= 0.01 * row.sum()).sum()) for row in tokens}
    words = facts_of(summary(gibbs))["large topics"].split(",")[0].split(" to ")
    assert {int(word) for word in words} == {min(counts), max(counts)}


@pytest.mark.parametrize(
    ("posterior", "expected"),
    [
        ({5: 1.0}, [5, 5, 5]),
        ({9: 0.05, 4: 0.05, 6: 0.9}, [4, 6, 6]),
        ({k: 0.1 for k in range(10)}, [0, 4, 9]),
        ({k: 1 / 3 for k in (1, 2, 3)}, [1, 2, 3]),
    ],
    ids=["one", "unordered", "even", "thirds"],
)
def test_quantiles_are_the_smallest_values_that_hold_their_share(posterior, expected):
    assert quantiles(posterior, (0.05, 0.5, 0.95)) == expected


# -- what is of use --------------------------------------------------------------------


def corpus_of(n_docs=300):
    """Documents of two of six topics of ten words each, and of one that all have."""
    rng = np.random.default_rng(0)
    X = np.zeros((n_docs, 70), dtype=int)
    for row in X:
        row[:10] = rng.multinomial(rng.integers(20, 41), np.full(10, 0.1))
        for k in rng.choice(6, 2, replace=False):
            row[10 + 10 * k + np.arange(10)] = rng.multinomial(10, np.full(10, 0.1))
    return X


@pytest.fixture(scope="module")
def with_boilerplate():
    X = corpus_of()
    seeds = {f"of {k}": list(range(10 * k, 10 * k + 10)) for k in range(7)}
    hdp = HDP(7, topic_word_prior=seeds, split_merge=False, random_state=0)
    return hdp.fit(X), X, [f"w{j}" for j in range(X.shape[1])]


@pytest.mark.parametrize("is_given", [False, True])
def test_what_stands_in_most_documents_comes_last(with_boilerplate, is_given):
    hdp, X, names = with_boilerplate
    text = summary(hdp, names, X=X if is_given else None)
    head, last = text.split("in more than half of the documents")
    assert set(re.findall(r"\bw\d\b", last)) < {f"w{j}" for j in range(10)}
    assert not re.findall(r"\bw\d\b", head.split("weight  terms")[1])
    assert hdp.transform(X).mean(axis=0).argmax() == 0  # though it is the heaviest
    assert "\n    0 " in last


def test_weights_are_shares_of_tokens_of_the_documents(with_boilerplate):
    hdp, X, names = with_boilerplate
    rows = rows_of_topics(summary(hdp, names, X=X))
    weight = {int(row.split()[0]): float(row.split()[1]) for row in rows}
    tokens = X.sum(axis=1)
    expected = 100 * (hdp.transform(X)[:, 0] @ tokens) / tokens.sum()
    assert abs(weight[0] - expected) < 2.0
    assert abs(100 * hdp.topic_weights_[0] - expected) > 4.0  # these are of tables


def test_each_topic_has_a_document_that_is_about_it(with_boilerplate):
    hdp, X, names = with_boilerplate
    sums = X[:, 10:].reshape(len(X), 6, 10).sum(axis=2)
    titles = [f"about {np.flatnonzero(row)}" for row in sums]
    text = summary(hdp, names, X=X, documents=titles)
    entries = re.findall(r"%  of \d: (w[1-6]\d.*)\n *\"about \[(\d) (\d)\]\"", text)
    assert len(entries) == 6
    for terms, *topics in entries:
        (topic,) = {str(int(word[1:]) // 10 - 1) for word in terms.split(", ")}
        assert topic in topics
    assert text.count('"about') == 7
    assert "document " in summary(hdp, names, X=X)
    with pytest.raises(ValueError, match="documents must have an entry for each of"):
        summary(hdp, names, X=X, documents=titles[:-1])


def test_texts_stand_for_themselves():
    texts = ["sun sun rain rain sun", "oil coal oil coal coal"] * 5
    pipeline = make_pipeline(CountVectorizer(), HDP(2, max_iter=3, random_state=0))
    text = summary(pipeline.fit(texts), X=texts)
    assert '"sun sun rain rain sun"' in text
    for column in (
        np.array(texts),
        pd.Series(texts, index=range(10, 20)),
        tuple(texts),
    ):
        assert summary(pipeline, X=column) == text


def test_what_to_do_next_follows_from_what_is_missing(model, chains):
    model.converged_ = False
    assert "- Increase max_iter: the fit has not converged." in summary(model)
    model.converged_ = True
    assert "Increase max_iter" not in summary(model)
    chains.history_["n_components"] = [5] * 40
    chains.history_["log_joint"] = [-8.0 - 1e-3 * (k // 2 * 7 % 11) for k in range(40)]
    assert "disagree" not in summary(chains)
    chains.history_["log_joint"] = [-8.0 - k % 2 + 1e-3 * (k % 7) for k in range(40)]
    assert "- Increase max_iter: the chains disagree" in summary(chains)


def test_many_topics_can_be_asked_to_be_fewer():
    """As many as documents can tell apart; not where the number was chosen."""
    rng = np.random.default_rng(0)
    X = rng.multinomial(30, rng.dirichlet(np.full(60, 0.1), size=70), size=(6, 70))
    X = X.reshape(420, 60)
    many = HDP(90, max_iter=2, tol=0.0, random_state=0).fit(X)
    assert many.n_active_components_ > 60
    assert "reduce_topics(..., 10)" in " ".join(summary(many).split())
    more = HDP(90, max_iter=2, tol=0.0, random_state=0).fit(np.tile(X, (3, 1)))
    assert "reduce_topics(..., 20)" in " ".join(summary(more).split())
    many.split_merge = False
    assert "easier to read" not in summary(many)


@pytest.mark.parametrize("make", daily(1, [HDP, StickBreakingHDP, NestedCRP]))
def test_a_stream_is_not_advised_to_make_more_passes(make):
    X = make_bars(120, side=4, n_words=40, random_state=0).data
    model = make(max_iter=1, random_state=0)
    assert "Increase max_iter" in summary(model.fit(X))
    for text in (summary(model.partial_fit(X)), summary(clone(model).partial_fit(X))):
        assert "max_iter:" not in text
        assert "not converged" not in text
