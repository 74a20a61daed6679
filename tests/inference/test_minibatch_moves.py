"""Moves that minibatches judge by the bound: evidence, waits and limits."""

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
from checks.states import assert_same
from skbnp.components.word_topics import WordRows
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.memory import RunningAverage
from skbnp.inference.monitor import Monitor, new_history
from skbnp.inference.protocols import Corpus, DocumentLocalStep, LocalStop
from skbnp.inference.schedules import BatchSchedule, Part, Round
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.moves import merge as hdp_merge
from skbnp.models.hdp.moves import minibatch
from skbnp.models.hdp.moves import split as hdp_split
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.moves.structure import MinibatchMoves
from skbnp.models.hdp.posterior import CREDIT, Evidence, MoveRecords

MOVES = SplitMerge(criterion="bound")
LOCAL_STEP = DocumentLocalStep(LocalStop(30, 1e-4), Executor(1), DocumentStep)
N_DOCS = 300.0


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Splits are tried whenever a topic does not wait."""
    monkeypatch.setattr("skbnp.models.hdp.moves.structure.MOST_INIT", 0.3)
    monkeypatch.setattr(minibatch, "EARNED", CREDIT)


@pytest.fixture(scope="module")
def X():
    return topic_counts(300, 40, n_topics=5)


def stream(X, n_components=3, **settings):
    """A posterior amid a stream, past its warm-up, before any move."""
    hdp = mean_field_hdp(n_components, warm_up=0, split_merge=False, batch_size=30)
    hdp.set_params(total_samples=N_DOCS, random_state=0, **settings)
    posterior = hdp.partial_fit(X[:150])._posterior
    posterior.move_records = MoveRecords()
    return posterior


def go_on(posterior, X, moves, n_rounds=1, begin=0):
    """Learn from minibatches of 30, in order."""
    monitor, memory = Monitor(new_history()), RunningAverage()
    edits, corpus = MinibatchMoves(moves), Corpus(X)
    learner = Learner(posterior, corpus, BatchSchedule(0), LOCAL_STEP, memory, edits)
    for number in range(begin, begin + n_rounds):
        rows = np.arange(30 * number, 30 * number + 30) % X.shape[0]
        step = (2.0 + posterior.n_steps) ** -0.6
        learner.learn_round(Round((Part(0, rows),), step, N_DOCS / 30), monitor)
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
    evidence = Evidence()
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
    evidence, looks = Evidence(), []
    for number in range(16):
        evidence.add(30, np.zeros(3))
        if evidence.is_due:
            looks.append(number)
            evidence.check_at = 2 * evidence.n_docs
    assert looks == [0, 1, 3, 7, 15]


@pytest.mark.parametrize(
    ("n_words", "n_looks"), [(1000, 9), (100_000, 2), (10_000_000, 1)]
)
def test_few_pairs_are_looked_at_where_there_are_many_words(n_words, n_looks):
    """The newest come first; those that must wait are looked at the next time."""
    pairs = {(k, k + 1): Evidence(n_docs=90) for k in range(9)}
    for k, evidence in enumerate(pairs.values()):
        evidence.check_at = 10 * (k % 3 + 1)
    pairs[9, 10] = Evidence(n_docs=90, check_at=91)
    rows = WordRows(np.arange(10_000), sp.csr_array((10_000, 200)))
    result = SimpleNamespace(stats=SimpleNamespace(topic_words=rows))
    due = minibatch._due(pairs, result, n_words)
    order = [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert [pair[0] for pair, _ in due] == order[:n_looks]


def test_evidence_of_documents_is_what_they_gain(X):
    """What a stream adds up is the sum over its documents."""
    posterior = stream(X, 4)
    block_hook = hdp_merge.MergeComparison(np.array([(0, 1), (2, 3)], dtype=np.int32))
    parts = [
        sum(LOCAL_STEP.update_local(posterior, X[rows], block_hook=block_hook).seen)
        for rows in (slice(0, 50), slice(50, 51), slice(51, 120))
    ]
    whole = sum(LOCAL_STEP.update_local(posterior, X[:120], block_hook=block_hook).seen)
    assert_allclose(sum(parts), whole, rtol=1e-9)


# Merges and splits --------------------------------------------------------------------


def test_pairs_told_apart_are_not_compared_again_before_their_time(X, monkeypatch):
    monkeypatch.setattr(minibatch, "LONGEST_WAIT", 5)
    moves = replace(MOVES, max_tries=0, prune_tokens=0.0)
    posterior, text = stream(X, 6), {}
    for _ in go_on(posterior, X, moves, 40):
        moving = posterior.move_records
        for pair, until in moving.pairs_on_hold.items():
            assert pair not in moving.pairs
            if pair not in text or text[pair] <= posterior.n_steps - 1:
                text[pair] = until
            assert text[pair] == until <= posterior.n_steps + 5

    assert len(text) > 0


def test_a_pair_comes_back_when_its_time_is_over(X, monkeypatch):
    """The control: it is the list that keeps it away."""
    posterior = stream(X, 6)
    moves = replace(MOVES, max_tries=0, prune_tokens=0.0)
    run(posterior, X, moves, 8)
    moving = posterior.move_records
    assert moving.pairs_on_hold
    on_hold = set(moving.pairs_on_hold)
    run(posterior, X, moves, 1, 8)
    assert on_hold.isdisjoint(moving.pairs)
    moving.pairs_on_hold = {}
    run(posterior, X, moves, 1, 9)
    assert not on_hold.isdisjoint(moving.pairs)


def test_rejected_splits_wait_longer_and_longer(X, monkeypatch):
    monkeypatch.setattr(hdp_split, "gain", lambda *arguments: (-1.0, 0.0))
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    moves = replace(MOVES, prune_tokens=0.0)
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
    run(posterior, X, replace(MOVES, prune_tokens=0.0), 3)
    other = copy.deepcopy(posterior)
    # Visits with a look take one more exact step; let both have it.
    run(posterior, X, replace(MOVES, prune_tokens=0.0), 4, 3)
    monkeypatch.setattr(minibatch, "split", lambda *arguments: None)
    monkeypatch.setattr(minibatch, "prune", lambda *arguments: None)
    run(other, X, MOVES, 4, 3)
    assert_same(
        (other.state, other.global_stats), (posterior.state, posterior.global_stats)
    )
    assert other.lineage == posterior.lineage
    assert posterior.move_records.waits != other.move_records.waits


@pytest.mark.parametrize("max_splits", [1, 10])
@pytest.mark.parametrize("limit", [3, 4, 6])
def test_splits_stay_within_the_limit(limit, max_splits, X, monkeypatch):
    monkeypatch.setattr(hdp_split, "gain", lambda *arguments: (1.0, 0.0))
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    posterior = stream(X, 3, max_components=limit)
    moves = replace(MOVES, max_splits=max_splits, prune_tokens=0.0)
    sizes = [one.state.n_components for one in go_on(posterior, X, moves, 6)]
    assert max(sizes) == limit


def test_without_a_limit_splits_go_on(X, monkeypatch):
    monkeypatch.setattr(hdp_split, "gain", lambda *arguments: (1.0, 0.0))
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    posterior = stream(X, 3)
    run(posterior, X, replace(MOVES, prune_tokens=0.0), 6)
    assert posterior.state.n_components == 9


def idle_stream(X, monkeypatch, idle, patience=3, least_docs=0):
    """Sizes over minibatches in which topics are idle or not."""
    monkeypatch.setattr(minibatch, "IDLE_DOCS", least_docs)
    monkeypatch.setattr(hdp_merge, "candidates", lambda *arguments: [])
    posterior, sizes = stream(X, 4), []
    for number, tokens in enumerate(idle):
        moves = replace(
            MOVES, max_tries=0, prune_tokens=tokens, prune_patience=patience
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


# Estimator ----------------------------------------------------------------------------


def streaming(**settings):
    options = {"warm_up": 0, "batch_size": 30, "total_samples": N_DOCS}
    return mean_field_hdp(3, split_merge=MOVES, random_state=0, **options, **settings)


def test_pickling_between_chunks_changes_nothing(X):
    one, two, n_waits = streaming(), streaming(), 0
    for number in range(30):
        chunk = X[30 * (number % 10) : 30 * (number % 10) + 30]
        one.partial_fit(chunk)
        two = pickle.loads(pickle.dumps(two)).partial_fit(chunk)
        moving = one._posterior.move_records
        n_waits += 0 if moving is None else len(moving.waits)
    assert n_waits > 0
    assert_same(one._posterior, two._posterior)


@pytest.mark.parametrize("edit", ["merge_components", "drop_components"])
def test_a_stream_goes_on_after_any_edit(edit, X):
    """Of ids that moves remember: what has ended does not return."""
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
