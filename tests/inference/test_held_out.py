"""Held-out documents, and reductions that they predict."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.corpora import topic_counts
from checks.posteriors import posterior_of
from reference import held_out as reference
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import Corpus
from skbnp.metrics import held_out_log_likelihood
from skbnp.models.hdp import births as moves
from skbnp.models.hdp import held_out
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.fold_in import SHORT_STOP, MixturePredictor
from skbnp.models.hdp.held_out import SECOND_HALF, choose_burstiness, compare, hold_out
from skbnp.models.hdp.model import CollapsedHDP, HDPState

N_DOCS, N_WORDS, N_TOPICS, ETA = 60, 30, 5, 0.05
#: Of the tokens of a document in single precision, and decisions closer than this may
#: fall otherwise there.
SINGLE, CLEAR = 1e-4, 2e-4


@pytest.fixture(scope="module")
def X():
    return topic_counts(N_DOCS, N_WORDS, n_topics=4)


@pytest.fixture(scope="module")
def held(X):
    return hold_out(X, np.random.default_rng(0))


def make_posterior(X, *, seed=0, n_topics=N_TOPICS):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_topics + 1))
    state = HDPState(weights, 1.5, 1.0, ETA)
    topics = rng.dirichlet(np.full(N_WORDS, 0.3), size=n_topics).T * X.sum() / n_topics
    return posterior_of(state, topics)


def predict(held, posterior):
    with Executor(None) as executor:
        return held.predict(posterior, executor)


def theta_of(result):
    """Expected topic proportions, (n_rows, K)."""
    return (result.tokens.toarray() + result.prior) / result.total[:, None]


# The split ----------------------------------------------------------------------------


def test_parts_sum_to_the_counts(X, held):
    judges = np.setdiff1d(np.arange(N_DOCS), held.rows)
    assert_array_equal(held.train.X.toarray(), X[held.rows].toarray())
    for doc, judge in enumerate(judges):
        counts = X[[judge]].toarray().ravel()
        rows = held.docs == doc
        assert 1 <= rows.sum() <= held_out.N_FOLDS
        assert_allclose(held.held_out[rows].sum(axis=0), counts, rtol=0, atol=1e-12)
        both = (held.observed + held.held_out)[rows].toarray()
        assert_allclose(both, np.tile(counts, (rows.sum(), 1)), rtol=1e-12)


@pytest.mark.parametrize(
    ("n_docs", "length", "expected"),
    [
        (1, 10, 0),
        (19, 10, 0),
        (20, 10, 5),
        (200, 10, 50),
        (400, 10, 100),
        (2000, 10, 400),
        (5000, 500, 100),
    ],
)
def test_so_many_documents_are_held_out(n_docs, length, expected):
    """A fifth; more of few, and fewer of many documents."""
    words = np.random.default_rng(0).integers(0, N_WORDS, (n_docs, 2))
    counts = sp.csr_array(np.eye(N_WORDS)[words].sum(axis=1) * length / 2)
    parts = hold_out(counts, np.random.default_rng(0))
    if expected == 0:
        assert parts is None
        return
    assert len(np.unique(parts.docs)) == expected
    assert parts.train.n_docs == n_docs - expected


def test_fractional_counts_are_split_into_equal_units():
    counts = sp.csr_array(np.full((40, N_WORDS), 2.5))
    parts = hold_out(counts, np.random.default_rng(0))
    assert set(np.round(parts.held_out.data * 6 / 5, 9)) <= {1.0, 2.0, 3.0}


# Prediction ---------------------------------------------------------------------------


def test_documents_that_judge_are_iterated_until_they_settle(X, held):
    posterior = make_posterior(X)
    state, words = posterior.state, posterior.global_stats.topic_words.dense()
    given = reference.mean_topics(words, ETA).T, state.doc_prior
    n_tokens = held.observed.sum(axis=1)[:, None]

    def error(stop):
        """In tokens of a document, of those that hang on no rounding error."""
        want, margin = reference.fold_in(*given, held.observed.toarray(), stop)
        result = predict(held, posterior).tokens.toarray()
        clear = margin >= CLEAR
        assert clear.mean() > 0.5
        return np.abs((result - want) / n_tokens)[clear].max()

    assert error(reference.JUDGE) < SINGLE < error(reference.SCORE)


def test_prediction_is_that_of_the_metric(X, held, monkeypatch):
    """But for when the iteration of a document ends."""
    monkeypatch.setattr(held_out, "JUDGE_STOP", SHORT_STOP)
    posterior = make_posterior(X)
    state, words = posterior.state, posterior.global_stats.topic_words.dense()
    prior = state.doc_concentration * state.weights
    expected = held_out_log_likelihood(
        reference.mean_topics(words, ETA).T,
        prior,
        held.observed,
        held.held_out,
        repeats=False,
    )
    logs = held.log_probability(predict(held, posterior))
    assert_allclose(logs.sum() / held.held_out.sum(), expected, rtol=1e-12)


def test_log_probability_is_that_of_the_reference(X, held):
    result = predict(held, make_posterior(X))
    rows = reference.log_probability(
        theta_of(result), result.rest, result.word_topic[:], held.held_out.toarray()
    )
    expected = [rows[held.docs == doc].sum() for doc in range(held.docs.max() + 1)]
    assert_allclose(held.log_probability(result), expected, rtol=1e-12)


@pytest.mark.parametrize("eta", [ETA, 3.0])
def test_words_alone_predict_as_one_topic_does(X, eta, held):
    """Another topic prior gives another answer, and so do repeats."""
    words, posterior = held.train.word_counts().reshape(-1, 1), make_posterior(X)
    topic, parts = reference.mean_topics(words, eta).T, (held.observed, held.held_out)

    def logs(eta, burstiness=None):
        posterior.state = replace(
            posterior.state, topic_word_prior=eta, burstiness=burstiness
        )
        with Executor(None) as executor:
            return held.log_probability_of_words(burstiness, posterior, executor)[0]

    one = held_out_log_likelihood(topic, [1e-9], *parts, repeats=False)
    assert_allclose(logs(eta).sum() / held.n_tokens.sum(), one, rtol=1e-9)
    assert len(logs(eta)) == len(held.n_tokens)
    assert abs(logs(2 * eta).sum() - logs(eta).sum()) > 1e-3
    repeats = replace(
        MixturePredictor.of_topics(topic, np.ones(1)),
        repeats=True,
        burstiness=Burstiness(0.4, 9.0),
    )
    with Executor(None) as executor:
        want = repeats.log_likelihood(*parts, executor)
    assert_allclose(logs(eta, Burstiness(0.4, 9.0)).sum(), want, rtol=1e-4)
    assert abs(logs(eta).sum() - want) > 1.0


@pytest.mark.parametrize("start", [None, Burstiness(0.5, 1.0)])
@pytest.mark.parametrize("repeats", [1.0, 3.0])
def test_burstiness_predicts_better_than_none_by_two_errors_or_is_none(
    start, repeats, X
):
    posterior = make_posterior(X)
    held = hold_out(sp.csr_array(repeats * X), np.random.default_rng(0))
    posterior.state = replace(posterior.state, burstiness=start)
    with Executor(None) as executor:
        predicted = choose_burstiness([(held, posterior)], executor)
        (predicted,) = predicted or [held.predict(posterior, executor)]
        states = [replace(posterior.state, burstiness=b) for b in (None, start)]
        others = [held.predict(posterior, executor, state) for state in states]
        again = held.predict(posterior, executor)
    logs, of_none, of_start = map(held.log_probability, (predicted, *others))
    assert_array_equal(logs, held.log_probability(again))
    gain = compare(logs, of_none, held.n_tokens)
    if posterior.state.burstiness is None:
        assert repeats == 1.0
        gain = compare(of_start, of_none, held.n_tokens)
        assert gain.mean <= 2.0 * gain.error
    else:
        assert gain.mean > 2.0 * gain.error
        assert logs.sum() >= of_start.sum()


def test_several_posteriors_have_one_burstiness_that_predicts_all_documents(X):
    """A twin of two splits alike is the same as one; another split moves it."""
    pairs = []
    for counts in (3.0 * X, 3.0 * X, sp.csr_array(X).power(2)):
        held = hold_out(sp.csr_array(counts), np.random.default_rng(0))
        pairs.append((held, make_posterior(X)))
    with Executor(None) as executor:
        choose_burstiness(pairs[:1], executor)
        alone = pairs[0][1].state.burstiness
        for some in (pairs[:2], pairs[1:]):
            for _, posterior in some:
                posterior.set_state(burstiness=None)
            results = choose_burstiness(some, executor)
            assert len(results) == len(some)
            (both,) = {posterior.state.burstiness for _, posterior in some}
            for result, (held, posterior) in zip(results, some, strict=True):
                again = held.log_probability(held.predict(posterior, executor))
                assert_array_equal(held.log_probability(result), again)
            near = abs(np.log(both.concentration / alone.concentration)) < 0.1
            assert near == (some[0] is pairs[0])


def test_the_error_of_a_gain_is_that_of_repeated_draws():
    rng, gains = np.random.default_rng(0), []
    for _ in range(2000):
        n_tokens = rng.integers(1, 9, size=50).astype(float)
        new = 0.02 * n_tokens + rng.normal(scale=np.sqrt(n_tokens))
        gains.append(compare(new, np.zeros(50), n_tokens))
    means, errors = np.transpose(gains)
    # 2000 draws tell a standard deviation to 1.6 %.
    assert_allclose(errors.mean(), means.std(), rtol=0.06)
    assert abs(means.mean() - 0.02) < 4 * means.std() / np.sqrt(2000)


# The topic prior ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def folds(held):
    return held_out.fold_words(held)


def whole_documents(held):
    rows = [np.flatnonzero(held.docs == n)[0] for n in range(len(held.n_tokens))]
    return sp.csr_array(held.observed + held.held_out)[rows]


def test_folds_share_out_words_and_every_document(X, held, folds):
    whole = whole_documents(held).toarray()
    words = np.concatenate([fold.words for fold in folds])
    assert_array_equal(np.sort(words), np.arange(N_WORDS))
    for fold in folds:
        is_of = np.isin(np.arange(N_WORDS), fold.words)
        assert_array_equal(fold.held_out.toarray(), whole * is_of)
        assert_array_equal(fold.observed.toarray(), whole * ~is_of)
        assert_array_equal(fold.n_tokens, whole.sum(axis=1))
        assert fold.held_out.nnz == np.count_nonzero(whole * is_of)
        assert fold.observed.nnz == np.count_nonzero(whole * ~is_of)
    counts = [whole[:, fold.words].sum() for fold in folds]
    assert max(counts) - min(counts) <= whole.sum(axis=0).max()


def chosen(folds, posterior, highest=1e4, n_steps=1):
    """Prior after some steps."""
    with Executor(None) as executor:
        for _ in range(n_steps):
            held_out.choose_prior(folds, posterior, highest, executor)
    return posterior.state.topic_word_prior


def log_likelihood(folds, posterior, eta):
    """Of all folds under another topic prior, expected tokens as they are."""
    state, words = posterior.state, posterior.global_stats.topic_words.dense()
    phi = reference.mean_topics(words, state.topic_word_prior)
    prior = np.append(state.doc_prior, state.doc_concentration * state.weights[-1])
    other, total = reference.mean_topics(words, eta), 0.0
    for fold in folds:
        share = np.append(phi[fold.words].sum(axis=0), len(fold.words) / N_WORDS)
        scale = 1.0 - share[:-1] + state.doc_concentration / fold.n_tokens.mean()
        with Executor(None) as executor:
            tokens = held_out.fold_in_by_mean_field(
                phi / scale, state.doc_prior, fold.observed, executor
            )
        means = reference.mean_proportions(tokens, prior, fold.n_tokens, share)
        total += reference.fold_log_likelihood(
            means, other, fold.n_tokens, fold.words, fold.held_out.toarray()
        )
    return total


def log_posterior(folds, posterior, eta):
    """With the log-normal prior, of median .05 and deviation log 4."""
    prior = -0.5 * (np.log(eta / 0.05) / np.log(4.0)) ** 2
    return log_likelihood(folds, posterior, eta) + prior


def test_log_likelihoods_of_folds_are_those_of_the_reference(folds):
    posterior = make_posterior(folds[0].held_out)
    topics = held_out.MeanTopics.of(posterior.global_stats.topic_words, ETA)
    priors = ETA * np.array([0.5, 1.0, 3.0])
    with Executor(None) as executor:
        given = topics, posterior.state, priors, executor
        result = sum(held_out._log_likelihoods(fold, *given) for fold in folds)
    expected = [log_likelihood(folds, posterior, eta) for eta in priors]
    assert_allclose(result, expected, rtol=1e-7)  # weights are in single precision


def test_a_step_says_whether_the_prior_may_fall_further(X, folds):
    """Where it fell by more than the differences of its derivatives."""
    best, stats = chosen(folds, make_posterior(X), n_steps=12), set()
    for at in best * np.exp([-3.0, -0.7, -0.2, 0.0, 0.2, 0.7, 3.0]):
        posterior = make_posterior(X)
        posterior.state = replace(posterior.state, topic_word_prior=at)
        with Executor(None) as executor:
            leads = held_out.choose_prior(folds, posterior, 1e4, executor)
        fall = np.log(at / posterior.state.topic_word_prior)
        assert leads == (fall > held_out.PRIOR_DIFFERENCE)
        stats.add((leads, bool(fall > 1e-3), bool(fall < -1.0)))
    cases = {(True, True, False), (False, True, False), (False, False, True)}
    assert cases <= stats


@pytest.mark.parametrize("start", [1e-3, 0.05, 5.0])
def test_steps_lead_to_the_prior_that_predicts_best(start, X, folds):
    posterior = make_posterior(X)
    posterior.state = replace(posterior.state, topic_word_prior=start)
    eta = chosen(folds, posterior, n_steps=12)
    others = eta * np.geomspace(0.3, 3.0, 21)
    logs = [log_posterior(folds, posterior, other) for other in others]
    assert 0.8 < others[np.argmax(logs)] / eta < 1.25


def test_a_prior_is_learned_from_topics_alone(X, folds):
    """Nothing else of the posterior changes."""
    posterior, untouched = make_posterior(X), make_posterior(X)
    assert chosen(folds, posterior) != ETA
    words = posterior.global_stats.topic_words.dense()
    assert_array_equal(words, untouched.global_stats.topic_words.dense())
    state = replace(posterior.state, topic_word_prior=ETA)
    assert_array_equal(state.weights, untouched.state.weights)
    assert state.doc_prior.sum() == untouched.state.doc_prior.sum()


# Reductions ---------------------------------------------------------------------------


def tokens_by_document(held):
    return as_tuples(whole_documents(held))


def as_tuples(counts):
    return list(map(tuple, counts.toarray()))


def test_those_that_choose_reductions_and_the_others_are_all_documents(X, held):
    result = predict(held, make_posterior(X))
    choosers, stats = held.half(0, result)
    every = tokens_by_document(held)
    others = every[SECOND_HALF]
    assert abs(len(choosers.n_tokens) - len(others)) <= 1
    assert sorted(tokens_by_document(choosers) + others) == sorted(every)
    assert_allclose(choosers.n_tokens, held.n_tokens[::2])
    logs = held.log_probability(result)
    assert_allclose(choosers.log_probability(stats), logs[::2])
    assert not np.allclose(choosers.log_probability(stats), logs[: len(logs[::2])])


def all_reductions(X, held, posterior):
    result = predict(held, posterior)
    return result, moves.reductions(posterior, held, result)


def expected_loss(reduction, posterior, held, result, *, eta=ETA):
    counts = held.held_out.toarray()
    if reduction.target is None:
        weights = posterior.state.weights[:-1]
        return reference.loss_of_end(
            reduction.source,
            theta_of(result),
            result.rest,
            result.word_topic[:],
            weights,
            counts,
            moves.ELSEWHERE,
        )
    return reference.loss_of_merge(
        reduction.source,
        reduction.target,
        theta_of(result),
        result.rest,
        posterior.global_stats.topic_words.dense(),
        eta,
        counts,
    )


@pytest.mark.parametrize("seed", range(3))
def test_losses_are_those_of_the_reference(seed, X, held):
    posterior = make_posterior(X, seed=seed)
    result, reductions = all_reductions(X, held, posterior)
    assert sum(r.target is None for r in reductions) == N_TOPICS
    assert sum(r.target is not None for r in reductions) >= N_TOPICS - 1
    for reduction in reductions:
        expected = expected_loss(reduction, posterior, held, result)
        assert_allclose(reduction.loss, expected, rtol=1e-9, atol=1e-12)
    losses = [r.loss for r in reductions]
    assert losses == sorted(losses)


def test_reductions_are_disjoint_and_within_the_budget(X):
    posterior = make_posterior(X)
    result = [
        moves.Reduction(-0.1, 0, 1),
        moves.Reduction(0.0, 1, None),  # taken already
        moves.Reduction(0.2, 2, None),
        moves.Reduction(0.9, 3, None),
    ]
    before = posterior.global_stats.topic_words.dense()
    assert moves.reduce(posterior, result, 1.0) == 2
    assert sorted(posterior.ids.tolist()) == [1, 3, 4]
    at = posterior.ids.tolist().index(1)
    merged = posterior.global_stats.topic_words.column(at)
    assert_allclose(merged, before[:, 0] + before[:, 1], rtol=1e-12)


# Births -------------------------------------------------------------------------------


def test_all_topics_are_merged_into_the_heaviest(X):
    posterior = make_posterior(X)
    words, ids = posterior.global_stats.topic_words.dense(), posterior.ids.copy()
    heaviest = int(ids[np.argmax(words.sum(axis=0))])
    assert moves.merge_all(posterior) == N_TOPICS - 1
    assert posterior.ids.tolist() == [heaviest]
    merged = posterior.global_stats.topic_words.dense()
    assert_allclose(merged[:, 0], words.sum(axis=1))
    logged = [
        set(entry.parents) for entry in posterior.lineage if entry.kind == "merge"
    ]
    assert set.union(*logged) == set(ids.tolist())


def test_births_start_afresh_beside_the_old(X):
    posterior = make_posterior(X)
    candidate = moves.propose_births(posterior, Corpus(X), 7, np.random.default_rng(0))
    words = candidate.global_stats.topic_words.dense()
    assert words.shape == (N_WORDS, N_TOPICS + 7)
    assert_allclose(words.sum(axis=0), X.sum() / 12, rtol=1e-9)
    assert_allclose(candidate.state.weights, 1.0 / 13)
    assert candidate.ids.tolist() == list(range(12))
    born = [entry.children for entry in candidate.lineage if entry.kind == "birth"]
    assert born == [(name,) for name in range(5, 12)]
    # Old topics are more like what they were than like others.
    overlap = np.corrcoef(posterior.global_stats.topic_words.dense().T, words.T)[
        :5, 5:10
    ]
    others = (overlap.sum() - np.trace(overlap)) / 20
    assert np.trace(overlap) / 5 > others + 0.1
    assert posterior.state.n_components == N_TOPICS


def test_one_document_decides_nothing():
    n_tokens = np.full(20, 100.0)
    usual = np.random.default_rng(0).normal(0.5, 1.0, 20)
    without = compare(usual[1:], np.zeros(19), n_tokens[1:])
    for gain in (-500.0, 500.0):
        logs = np.append(usual[1:], gain)
        assert_allclose(compare(logs, np.zeros(20), n_tokens), without)
        mean = compare(logs[-9:], np.zeros(9), n_tokens[:9]).mean  # too few
        assert abs(mean) > 0.5
    assert compare(usual, np.zeros(20), n_tokens).mean == usual.mean() / 100.0


@pytest.mark.parametrize("n_shared", [0, 12])
def test_topics_of_one_document_are_joined(n_shared):
    """Not those that a near copy of it has, too."""
    X = np.zeros((31, 12))
    X[:30, :6] = np.random.default_rng(0).poisson(4.0, (30, 6))
    X[30, 6:], X[29, 6:] = 30.0, n_shared
    topics = np.full((12, 3), 1e-3)
    topics[:6, 0], topics[6:9, 1], topics[9:, 2] = 120.0, 30.0, 30.0
    model = CollapsedHDP(learn_concentrations=False, learn_topic_prior=False)
    state = HDPState(np.array([0.7, 0.1, 0.1, 0.1]), 1.0, 1.0, 0.05)
    posterior = posterior_of(state, topics, model, seed_entropy=0)
    corpus = Corpus(sp.csr_array(X))
    n_joined = moves.join_topics_of_one_document(posterior, corpus, Executor(1))
    assert n_joined == (1 if n_shared == 0 else 0)
    assert posterior.state.n_components == 3 - n_joined
    assert moves.join_topics_of_one_document(posterior, corpus, Executor(1)) == 0
