"""Moves of online learning: evidence, waits, limits, and rivals on trial."""

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from checks.corpora import topic_counts
from checks.estimators import mean_field_hdp
from checks.states import assert_same, differences
from skbnp.inference.documents import LocalStop
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.moves import hdp_merge, hdp_split, minibatch, rival
from skbnp.inference.moves.split_merge import SplitMerge
from skbnp.inference.online import advance
from skbnp.inference.posterior import Visitor
from skbnp.inference.schedules import Round
from skbnp.models.statistics import WordRows

QUICK = SplitMerge(quiet=2, rest=3)
#: Minibatches of a trial, as `quick` makes them: warm ones, then those that judge.
WARM, JUDGING = 2, 3
VISITOR = Visitor(LocalStop(30, 1e-4), Executor(1))
N_DOCS = 300.0


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short trials, and splits tried whenever a topic does not wait."""
    monkeypatch.setattr(rival, "SHORTEST", WARM)
    monkeypatch.setattr(rival, "STARTED", 1.0)
    monkeypatch.setattr(rival, "WINDOW", JUDGING)
    monkeypatch.setattr(rival, "LONGEST", JUDGING)
    monkeypatch.setattr(rival, "EVERY", 1)
    monkeypatch.setattr("skbnp.inference.online.STALE", 0.3)
    monkeypatch.setattr(minibatch, "EARNED", minibatch.CREDIT)


@pytest.fixture(scope="module")
def X():
    return topic_counts(300, 40, n_topics=5)


def stream(X, n_components=3, **settings):
    """A posterior amid a stream, past its warm-up, before any move."""
    hdp = mean_field_hdp(n_components, warm_up=0, split_merge=False, batch_size=30)
    hdp.set_params(total_samples=N_DOCS, random_state=0, **settings)
    posterior = hdp.partial_fit(X[:150])._posterior
    posterior.moving = None
    return posterior


def go_on(posterior, X, moves, n_rounds=1, begin=0):
    """Learn from minibatches of 30, in order."""
    monitor = Monitor(new_history())
    for number in range(begin, begin + n_rounds):
        rows = np.arange(30 * number, 30 * number + 30) % X.shape[0]
        round = Round(rows, (2.0 + posterior.n_steps) ** -0.6, N_DOCS / 30, False)
        advance(posterior, X[rows], round, VISITOR, monitor, mean=False, moves=moves)
        yield posterior


def run(posterior, X, moves, n_rounds, begin=0):
    for _ in go_on(posterior, X, moves, n_rounds, begin):
        pass


# Evidence -----------------------------------------------------------------------------


def check_evidence(evidence_of, gains):
    """Mean and standard error of a corpus against numbers of documents one by one."""
    evidence = evidence_of(gains)
    gain, error = evidence.of_corpus(1000.0)
    everyone = np.concatenate(gains)
    assert evidence.n_docs == len(everyone)
    assert_allclose(gain, 1000.0 * everyone.mean(), rtol=1e-12)
    assert_allclose(error, 1000.0 * everyone.std() / np.sqrt(len(everyone)), rtol=1e-9)


def gathered(gains):
    evidence = minibatch.Evidence()
    for part in gains:
        evidence.add(len(part), np.array([7.0, part.sum(), (part**2).sum()]))
    return evidence


def without_squares(gains):
    evidence = gathered(gains)
    evidence.square = 0.0
    return evidence


def of_the_losses(gains):
    evidence = gathered(gains)
    evidence.gain = 7.0 * len(gains)
    return evidence


def test_evidence_is_the_mean_of_documents_and_its_error(seed):
    rng = np.random.default_rng(seed)
    check_evidence(gathered, [rng.normal(-0.3, 2.0, size=n) for n in (30, 17, 55)])


@pytest.mark.parametrize("wrong", [without_squares, of_the_losses])
def test_the_check_of_evidence_tells_a_wrong_one(wrong, seed):
    rng = np.random.default_rng(seed)
    with pytest.raises(AssertionError):
        check_evidence(wrong, [rng.normal(-0.3, 2.0, size=n) for n in (30, 17)])


def test_equal_gains_have_no_error():
    gain, error = gathered([np.full(30, 0.1)] * 3).of_corpus(100.0)
    assert_allclose([gain, error], [10.0, 0.0], atol=1e-5)


def test_evidence_is_looked_at_whenever_it_has_doubled():
    evidence, looks = minibatch.Evidence(), []
    for number in range(16):
        evidence.add(30, np.zeros(3))
        if evidence.is_due:
            looks.append(number)
            evidence.look_at = 2 * evidence.n_docs
    assert looks == [0, 1, 3, 7, 15]


@pytest.mark.parametrize(
    ("n_words", "n_looks"), [(1000, 9), (100_000, 2), (10_000_000, 1)]
)
def test_few_pairs_are_looked_at_where_there_are_many_words(n_words, n_looks):
    """The newest come first; those that must wait are looked at the next time."""
    pairs = {(k, k + 1): minibatch.Evidence(n_docs=90) for k in range(9)}
    for k, evidence in enumerate(pairs.values()):
        evidence.look_at = 10 * (k % 3 + 1)
    pairs[9, 10] = minibatch.Evidence(n_docs=90, look_at=91)
    rows = WordRows(np.arange(10_000), sp.csr_array((10_000, 200)))
    found = SimpleNamespace(stats=SimpleNamespace(topic_words=rows))
    due = minibatch._due(pairs, found, (n_words, 200))
    order = [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert [pair[0] for pair, _ in due] == order[:n_looks]


def test_evidence_of_documents_is_what_they_gain(X):
    """What a stream adds up is the sum over its documents."""
    posterior = stream(X, 4)
    look = hdp_merge.Comparison(np.array([(0, 1), (2, 3)], dtype=np.int32))
    parts = [
        sum(VISITOR.visit(posterior, X[rows], look=look).seen)
        for rows in (slice(0, 50), slice(50, 51), slice(51, 120))
    ]
    whole = sum(VISITOR.visit(posterior, X[:120], look=look).seen)
    assert_allclose(sum(parts), whole, rtol=1e-9)


# Merges and splits --------------------------------------------------------------------


def test_pairs_told_apart_are_not_compared_again_before_their_time(X, monkeypatch):
    monkeypatch.setattr(minibatch, "LONGEST_WAIT", 5)
    moves = replace(QUICK, max_tries=0, quiet=1000, prune_tokens=0.0)
    posterior, told = stream(X, 6), {}
    for _ in go_on(posterior, X, moves, 40):
        moving = posterior.moving
        for pair, until in moving.apart.items():
            assert pair not in moving.pairs
            if pair not in told or told[pair] <= posterior.n_steps - 1:
                told[pair] = until
            assert told[pair] == until <= posterior.n_steps + 5

    assert len(told) > 0


def test_a_pair_comes_back_when_its_time_is_over(X, monkeypatch):
    """The control: it is the list that keeps it away."""
    posterior = stream(X, 6)
    moves = replace(QUICK, max_tries=0, quiet=1000, prune_tokens=0.0)
    run(posterior, X, moves, 8)
    moving = posterior.moving
    assert moving.apart
    apart = set(moving.apart)
    run(posterior, X, moves, 1, 8)
    assert apart.isdisjoint(moving.pairs)
    moving.apart = {}
    run(posterior, X, moves, 1, 9)
    assert not apart.isdisjoint(moving.pairs)


def test_rejected_splits_wait_longer_and_longer(X, monkeypatch):
    monkeypatch.setattr(hdp_split, "gain", lambda *arguments: (-1.0, 0.0))
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    moves = replace(QUICK, quiet=1000, prune_tokens=0.0)
    posterior, tried = stream(X, 3), {}
    original = minibatch._tried

    def note(moves, posterior, rng):
        columns = original(moves, posterior, rng)
        for name in posterior.ids[columns].tolist():
            tried.setdefault(name, []).append(posterior.n_steps)
        return columns

    monkeypatch.setattr(minibatch, "_tried", note)
    run(posterior, X, moves, 40)
    for steps in tried.values():
        assert np.diff(steps).tolist() == [2, 3, 5, 9, 17][: len(steps) - 1]
        assert len(steps) == 6
    assert len(tried) == 3


def test_a_rejected_move_changes_nothing_but_waits(X, monkeypatch):
    """Moves that are all rejected, and no moves: the same bits."""
    monkeypatch.setattr(hdp_split, "gain", lambda *arguments: (-1.0, 0.0))
    monkeypatch.setattr(hdp_merge, "words_gain", lambda *arguments: -1e9)
    posterior = stream(X, 4)
    run(posterior, X, replace(QUICK, quiet=1000, prune_tokens=0.0), 3)
    other = copy.deepcopy(posterior)
    # Visits with a look take one more exact step; let both have it.
    run(posterior, X, replace(QUICK, quiet=1000, prune_tokens=0.0), 4, 3)
    monkeypatch.setattr(minibatch, "split", lambda *arguments: None)
    monkeypatch.setattr(minibatch, "prune", lambda *arguments: None)
    run(other, X, replace(QUICK, quiet=1000), 4, 3)
    assert_same((other.state, other.totals), (posterior.state, posterior.totals))
    assert other.lineage == posterior.lineage
    assert posterior.moving.waits != other.moving.waits


@pytest.mark.parametrize("max_splits", [1, 10])
@pytest.mark.parametrize("limit", [3, 4, 6])
def test_splits_stay_within_the_limit(limit, max_splits, X, monkeypatch):
    monkeypatch.setattr(hdp_split, "gain", lambda *arguments: (1.0, 0.0))
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    posterior = stream(X, 3, max_components=limit)
    moves = replace(QUICK, max_splits=max_splits, prune_tokens=0.0, quiet=1000)
    sizes = [one.state.n_components for one in go_on(posterior, X, moves, 6)]
    assert max(sizes) == limit


def test_without_a_limit_splits_go_on(X, monkeypatch):
    monkeypatch.setattr(hdp_split, "gain", lambda *arguments: (1.0, 0.0))
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    posterior = stream(X, 3)
    run(posterior, X, replace(QUICK, prune_tokens=0.0, quiet=1000), 6)
    assert posterior.state.n_components == 9


def idle_stream(X, monkeypatch, idle, patience=3, least_docs=0):
    """Sizes over minibatches in which topics are idle or not."""
    monkeypatch.setattr(minibatch, "IDLE_DOCS", least_docs)
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    posterior, sizes = stream(X, 4), []
    for number, tokens in enumerate(idle):
        moves = SplitMerge(
            max_tries=0, quiet=1000, prune_tokens=tokens, prune_patience=patience
        )
        run(posterior, X, moves, 1, number)
        sizes.append(posterior.state.n_components)
    return posterior, sizes


def test_idle_topics_end_when_patience_does(X, monkeypatch):
    posterior, sizes = idle_stream(X, monkeypatch, [1e9, 1e9, 1e9, 1e9])
    assert sizes == [4, 4, 1, 1]  # the last topic never ends
    assert [entry.kind for entry in posterior.lineage[1:]] == ["prune"] * 3


def test_topics_are_not_idle_before_enough_documents(X, monkeypatch):
    """Minibatches of fewer documents than patience asks for do not end a topic."""
    _, sizes = idle_stream(X, monkeypatch, [1e9] * 4, least_docs=1000)
    assert sizes == [4] * 4


def test_use_in_between_resets_patience(X, monkeypatch):
    _, sizes = idle_stream(X, monkeypatch, [1e9, 1e9, 0.0, 1e9, 1e9])
    assert sizes == [4] * 5


# Rivals -------------------------------------------------------------------------------


def at_trial(X, n_components=3, **settings):
    """A posterior whose rival has just been proposed, and the next minibatch."""
    posterior = stream(X, n_components, **settings)
    for number, _ in enumerate(go_on(posterior, X, QUICK, 60)):
        if posterior.moving.rival is not None:
            return posterior, number + 1
    raise AssertionError("there was no trial")


def end_trial(posterior, X, number):
    """Learn until the verdict; how many minibatches it took."""
    for count in range(1, 30):
        run(posterior, X, QUICK, 1, number + count - 1)
        if posterior.moving.rival is None:
            return count
    raise AssertionError("there was no verdict")


def test_a_rejected_rival_leaves_no_trace(X, monkeypatch):
    """A run that has no rival and no moves has the same bits while it lives."""
    monkeypatch.setattr(rival.Rival, "gain", lambda *arguments: (-1.0, 0.0))
    posterior, number = at_trial(X)
    other = copy.deepcopy(posterior)
    other.moving = None
    n_rounds = end_trial(posterior, X, number)
    run(other, X, None, n_rounds, number)
    assert posterior.moving.n_rejected == 1
    posterior.moving = None
    assert_same(other, posterior)


def test_the_comparison_tells_a_rival_that_was_accepted(X, monkeypatch):
    monkeypatch.setattr(rival.Rival, "gain", lambda *arguments: (1.0, 0.0))
    posterior, number = at_trial(X)
    other = copy.deepcopy(posterior)
    run(other, X, None, end_trial(posterior, X, number), number)
    posterior.moving = other.moving = None
    assert list(differences(other, posterior))


def test_an_accepted_rival_is_recorded(X, monkeypatch):
    monkeypatch.setattr(rival.Rival, "gain", lambda *arguments: (1.0, 0.0))
    posterior, number = at_trial(X)
    log, other = list(posterior.lineage), posterior.moving.rival.posterior
    end_trial(posterior, X, number)
    assert posterior.state is other.state
    assert posterior.lineage[: len(log)] == log
    fresh = posterior.lineage[len(log) :]
    assert {entry.kind for entry in fresh} <= {"birth", "prune"}
    assert {entry.step for entry in fresh} == {posterior.n_steps}
    alive = set()
    for entry in posterior.lineage:
        assert set(entry.parents) <= alive
        alive = (alive - set(entry.parents)) | set(entry.children)
    assert alive == set(posterior.ids.tolist())


def test_a_rival_is_judged_by_minibatches_that_neither_has_absorbed(X, monkeypatch):
    """Its gain is the difference of two bounds of fresh documents."""
    posterior, number = at_trial(X)
    trial = posterior.moving.rival
    while not trial.gains:
        ahead = copy.deepcopy(posterior)
        run(posterior, X, QUICK, 1, number)
        number += 1
    posterior, trial = ahead, ahead.moving.rival
    assert trial.age >= 1
    assert trial.gains == []
    number -= 1
    rows = np.arange(30 * number, 30 * number + 30) % 300
    pair = [copy.deepcopy(one) for one in (posterior, trial.posterior)]
    bounds = []
    for one in pair:
        found = VISITOR.visit(one, X[rows])
        words = one.totals.topic_words
        terms = one.model.bound(one.state, words, found.stats)
        divergence = one.model.divergence(one.state, words)
        bounds.append(terms["words"] + divergence + terms["assignments"])
        bounds[-1] += terms["entropy"]
    run(posterior, X, QUICK, 1, number)
    assert_allclose(trial.gains, [bounds[1] - bounds[0]], rtol=1e-9)
    assert trial.n_docs == [30]


def test_gain_of_a_rival_is_that_of_a_corpus(X):
    posterior, _ = at_trial(X)
    trial = posterior.moving.rival
    trial.gains, trial.n_docs = [3.0, 8.0, 1.0], [30, 20, 10]
    gained, error = trial.gain(posterior, N_DOCS)
    prior = rival._prior_terms(trial.posterior) - rival._prior_terms(posterior)
    assert_allclose(gained, N_DOCS * 12.0 / 60.0 + prior)
    assert_allclose(error, N_DOCS * np.std([0.1, 0.4, 0.1], ddof=1) / np.sqrt(3))


def test_after_rejections_there_is_a_rest(X, monkeypatch):
    monkeypatch.setattr(rival.Rival, "gain", lambda *arguments: (-1.0, 0.0))
    posterior, number = at_trial(X)
    end_trial(posterior, X, number)
    assert posterior.moving.rest_until == posterior.n_steps + QUICK.rest
    assert not rival.may_begin(QUICK, posterior)


@pytest.mark.parametrize("limit", [3, 4])
def test_rivals_stay_within_the_limit(limit, X):
    posterior, _ = at_trial(X, max_components=limit)
    assert posterior.moving.rival.posterior.state.n_components <= limit


# Estimator ----------------------------------------------------------------------------


def streaming(**settings):
    options = {"warm_up": 0, "batch_size": 30, "total_samples": N_DOCS}
    return mean_field_hdp(3, split_merge=QUICK, random_state=0, **options, **settings)


def has_rival(hdp):
    moving = hdp._posterior.moving
    return moving is not None and moving.rival is not None


def test_pickling_with_a_living_rival_changes_nothing(X):
    one, two, alive = streaming(), streaming(), 0
    for number in range(30):
        chunk = X[30 * (number % 10) : 30 * (number % 10) + 30]
        one.partial_fit(chunk)
        two = pickle.loads(pickle.dumps(two)).partial_fit(chunk)
        alive += has_rival(one)
    assert alive > 3
    assert_same(one._posterior, two._posterior)


@pytest.mark.parametrize("edit", ["merge_components", "drop_components"])
def test_a_stream_goes_on_after_any_edit(edit, X):
    """Of ids that moves remember, and amid a trial: what has ended does not return."""
    hdp, ended = streaming(), set()
    for number in range(40):
        hdp.partial_fit(X[30 * (number % 10) : 30 * (number % 10) + 30])
        alive = set(hdp.component_ids_.tolist())
        assert ended.isdisjoint(alive)
        log = set()
        for entry in hdp.lineage_:
            assert set(entry.parents) <= log
            log = (log - set(entry.parents)) | set(entry.children)
        assert log == alive
        if len(alive) > 2 and number % 3 == 2:
            names = sorted(alive)[:2] if edit == "merge_components" else [min(alive)]
            getattr(hdp, edit)(names)
            ended |= alive - set(hdp.component_ids_.tolist())
    assert ended


def amid_a_trial(X, monkeypatch):
    """A stream whose rival will replace the model at the next verdict."""
    monkeypatch.setattr(rival.Rival, "gain", lambda *arguments: (1.0, 0.0))
    hdp = streaming()
    for number in range(40):
        hdp.partial_fit(X[30 * (number % 10) : 30 * (number % 10) + 30])
        if has_rival(hdp) and hdp.n_components_ > 2:
            return hdp, number + 1
    raise AssertionError("there was no trial")


def check_goes_on(hdp, X, begin, n_rounds=12):
    """The log grows, and tells what lives; what has ended does not return."""
    log, alive = list(hdp.lineage_), set(hdp.component_ids_.tolist())
    ended = {name for entry in log for name in entry.children} - alive
    for number in range(begin, begin + n_rounds):
        hdp.partial_fit(X[30 * (number % 10) : 30 * (number % 10) + 30])
        assert hdp.lineage_[: len(log)] == log
        alive = set()
        for entry in hdp.lineage_:
            assert set(entry.parents) <= alive
            alive = (alive - set(entry.parents)) | set(entry.children)
        assert alive == set(hdp.component_ids_.tolist())
        assert ended.isdisjoint(alive)


def test_an_edit_amid_a_trial_is_not_undone(X, monkeypatch):
    hdp, number = amid_a_trial(X, monkeypatch)
    hdp.merge_components(hdp.component_ids_[-2:])
    assert not has_rival(hdp)
    check_goes_on(hdp, X, number)


def test_without_an_edit_the_rival_takes_over(X, monkeypatch):
    """The control of what follows an edit: there is something to undo."""
    hdp, number = amid_a_trial(X, monkeypatch)
    n_births = hdp._posterior.n_moves["n_births"]
    check_goes_on(hdp, X, number)
    assert hdp._posterior.n_moves["n_births"] > n_births


@pytest.mark.parametrize("method", ["memoized", "batch"])
def test_a_fit_of_another_kind_amid_a_trial_is_not_undone(method, X, monkeypatch):
    """Memoized learning changes topics that the stream remembers."""
    hdp, number = amid_a_trial(X, monkeypatch)
    hdp.set_params(learning_method=method, warm_start=True, max_iter=12, tol=0)
    hdp.fit(X)
    fitted = hdp._posterior.state
    hdp.partial_fit(X[:30])
    assert not has_rival(hdp)
    assert fitted is not hdp._posterior.state
    check_goes_on(hdp, X, number)


def test_a_limit_set_amid_a_trial_holds(X, monkeypatch):
    hdp, number = amid_a_trial(X, monkeypatch)
    limit = hdp.n_components_
    hdp.set_params(max_components=max(limit, 3))
    check_goes_on(hdp, X, number)
    assert hdp.n_components_ <= max(limit, 3)
