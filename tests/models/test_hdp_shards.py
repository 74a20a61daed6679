"""Learning from documents in shards, against learning from a matrix."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.corpora import topic_counts
from checks.posteriors import posterior_of
from skbnp.components.word_topics import Weighting, WordRows
from skbnp.inference.engine import (
    NOTHING,
    DocumentWeights,
    Learner,
    RunningAverage,
    SearchLearner,
)
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import discarding
from skbnp.inference.protocols import (
    FIRST_VISIT,
    BatchSchedule,
    DocumentLocalStep,
    LocalStop,
    OnlineSchedule,
    Part,
    Visit,
)
from skbnp.inference.shards import LocalShards, ProcessCache
from skbnp.models import forms  # noqa: F401 (classes of files)
from skbnp.models.hdp import held_out
from skbnp.models.hdp.births import EndUnused
from skbnp.models.hdp.held_out_trials import HeldOutTrials
from skbnp.models.hdp.local import CollapsedStep, DocumentStep
from skbnp.models.hdp.model import CollapsedHDP, DirectHDP, HDPState
from skbnp.models.hdp.moves import SplitMerge
from skbnp.models.hdp.shards import (
    BlockDocumentWeights,
    BlockSchedule,
    ChangedWords,
    ShardCorpus,
    Survey,
    parts_of,
)
from skbnp.utils.plain import to_plain

N_DOCS, N_WORDS, N_TOPICS, ENTROPY = 90, 40, 6, 5
STOP = LocalStop(20, 1e-4)
FAMILIES = [(CollapsedHDP, CollapsedStep), (DirectHDP, DocumentStep)]


@pytest.fixture(scope="module")
def X():
    counts = topic_counts(N_DOCS, N_WORDS).toarray()
    counts[[3, 50]] = 0.0
    return sp.csr_array(counts)


def shards_of(X, limits=(0, 20, 20, 55, 90), run=map):
    blocks = [X[begin:end] for begin, end in pairwise(limits)]
    return LocalShards(blocks, X.shape[1], run=run)


def corpus_of(X, n=3, **keywords):
    return ShardCorpus.of(Survey.of(shards_of(X, **keywords)), ENTROPY, n)


def random_posterior(model_class, X):
    rng = np.random.default_rng(0)
    state = HDPState(rng.dirichlet(np.ones(N_TOPICS + 1)), 1.5, 1.0, 0.1)
    topics = rng.dirichlet(np.full(N_WORDS, 0.3), N_TOPICS).T * X.sum() / N_TOPICS
    model = model_class(learn_concentrations=True, learn_topic_prior=False)
    return posterior_of(state, topics, model, seed_entropy=ENTROPY)


def rows_of(corpus, parts):
    """Rows of the matrix, with empty ones left out, in the blocks of a round."""
    n_docs = corpus.sizes.sum(axis=1) + [len(rows) for rows in corpus.left_out]
    first, rows = np.cumsum(n_docs) - n_docs, []
    for part in parts:
        limits = corpus.cut.limits(n_docs[part.shard])
        order = corpus.cut.order(part.shard, n_docs[part.shard])
        here = order[limits[part.place] : limits[part.place + 1]]
        rows.append(first[part.shard] + np.setdiff1d(here, corpus.left_out[part.shard]))
    return rows


def schedule_of(corpus, n_groups=1, **settings):
    plan = {"offset": 1.0, "decay": 0.5, "seed_entropy": ENTROPY, **settings}
    steps = OnlineSchedule(n_groups * corpus.cut.n_blocks, 1, **plan)
    return BlockSchedule(corpus.sizes, n_groups, steps)


# Rounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_groups", [1, 2, 4])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_pass_visits_each_document_once(X, n, n_groups):
    corpus = corpus_of(X, n)
    rounds = list(schedule_of(corpus, n_groups).one_pass(0))
    parts = [part for round in rounds for part in round.parts]
    rows = np.concatenate(rows_of(corpus, parts))
    assert_array_equal(np.sort(rows), np.arange(N_DOCS - 2))
    assert len({part.number for part in parts}) == len(parts)
    assert [part.n_docs for part in parts] == [
        len(rows) for rows in rows_of(corpus, parts)
    ]
    for round in rounds:
        assert round.scale * round.n_docs == pytest.approx(N_DOCS - 2)
        assert len({part.shard for part in round.parts}) == len(round.parts)


def test_steps_are_those_of_minibatches(X):
    corpus = corpus_of(X, 5)
    schedule = schedule_of(corpus, first_step=4, n_forgetting=2)
    plain = OnlineSchedule(
        n_rows=5,
        batch_size=1,
        offset=1.0,
        decay=0.5,
        seed_entropy=1,
        first_step=4,
        n_forgetting=2,
    )
    for number in range(4):
        steps = [round.step for round in schedule.one_pass(number)]
        assert steps == [round.step for round in plain.one_pass(number)]
    assert schedule.n_updates(3) == plain.n_updates(3)
    assert next(schedule.reset().one_pass(0)).step == 2**-0.5
    many = schedule_of(corpus_of(X, 50), n_forgetting=2)
    assert many.remembering(1.0).steps == many.steps.remembering(1.0)
    assert many.remembering(1.0) != many


# Visits -------------------------------------------------------------------------------


def assert_same_statistics(one, other):
    for name in type(one).__slots__:
        first, second = getattr(one, name), getattr(other, name)
        if isinstance(first, WordRows):
            used = np.isin(first.words, second.words)
            assert first.values[~used].nnz == 0
            first, second = first.values[used].toarray(), second.values.toarray()
        assert_allclose(first, second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("model", "step"), FAMILIES)
@pytest.mark.parametrize("weighting", list(Weighting))
def test_a_round_says_what_its_documents_say(X, model, step, weighting):
    corpus, posterior = corpus_of(X), random_posterior(model, X)
    round = next(schedule_of(corpus).one_pass(0))
    counts = X[np.flatnonzero(X.sum(axis=1))]
    rows = rows_of(corpus, round.parts)
    document_weights = BlockDocumentWeights(corpus.sizes.size)
    document_weights.keep(replace(round, parts=round.parts[:1]), [])
    held = [document_weights.initial_local(part) for part in round.parts]
    times = np.concatenate(
        [np.full(len(r), h.times) for r, h in zip(rows, held, strict=True)]
    )
    is_collapsed = model is CollapsedHDP
    with Executor(1) as executor:
        local_step = DocumentLocalStep(STOP, executor, step)
        visits = [Visit(weighting, one if is_collapsed else None) for one in held]
        (result,) = corpus.update_local(local_step, posterior, round, visits)
        expected = local_step.update_local(
            posterior,
            counts[np.concatenate(rows)],
            Visit(weighting, times if is_collapsed else None),
        )
        assert_same_statistics(result.stats, expected.stats)
        if is_collapsed:  # how often totals hold documents matters
            wrong = local_step.update_local(posterior, counts[np.concatenate(rows)])
            with pytest.raises(AssertionError):
                assert_same_statistics(result.stats, wrong.stats)


# How often totals hold documents ------------------------------------------------------


@pytest.mark.parametrize("n_groups", [1, 3])
def test_holdings_of_blocks_are_those_of_their_documents(X, n_groups):
    corpus = corpus_of(X)
    blocks, plain = BlockDocumentWeights(corpus.sizes.size), DocumentWeights(N_DOCS)
    for number in range(3):
        for round in schedule_of(corpus, n_groups).one_pass(number):
            rows = np.concatenate(rows_of(corpus, round.parts))
            gain = round.step * round.scale
            plain.decay_and_add(rows, keep=1.0 - round.step, gain=gain)
            blocks.keep(round, [])
    for part in round.parts:
        (rows,) = rows_of(corpus, [part])
        expected = plain.initial_local(Part(part.number, rows))
        assert_allclose(expected, blocks.initial_local(part).times, rtol=1e-12)
    assert blocks.empty().initial_local(part).times == 0.0
    copy, before = blocks.copy(), blocks.initial_local(part).times
    copy.keep(round, [])
    assert blocks.initial_local(part).times == before != copy.initial_local(part).times


# Documents that travel ----------------------------------------------------------------


def test_held_out_documents_are_not_learned_from(X):
    corpus = corpus_of(X)
    held = corpus.hold_out(0)
    n_held = len(held.n_tokens)
    assert n_held == held_out.n_held_out(88, np.full(88, 30.0)) == 22
    assert held.train.n_docs == 88 - n_held
    assert held.held_out.sum() + held.train.n_tokens == X.sum()
    posterior = random_posterior(CollapsedHDP, X)
    with Executor(1) as executor:
        local_step = DocumentLocalStep(STOP, executor, CollapsedStep)
        (round,) = BatchSchedule(parts_of(held.train.sizes)).one_pass(0)
        (local_stats,) = held.train.update_local(
            local_step, posterior, round, [FIRST_VISIT] * len(round.parts)
        )
    assert local_stats.stats.n_tokens == held.train.n_tokens
    other = corpus.hold_out(1)
    assert any(
        len(np.setdiff1d(*rows)) for rows in zip(held.rows, other.rows, strict=True)
    )


# Trials, stopped and resumed ----------------------------------------------------------


def learner_of(posterior, corpus, local_step, documents):
    return Learner(
        posterior,
        corpus,
        schedule_of(corpus),
        local_step,
        RunningAverage(documents),
        EndUnused(SplitMerge()),
        warm_up=2.0 * corpus.n_docs * posterior.model.has_bound,
    )


def trials_of(X, family, executor, shards=None):
    """Return trials of documents in shards."""
    model, step = family
    corpus = ShardCorpus.of(Survey.of(shards or shards_of(X)), ENTROPY, 3)
    local_step = DocumentLocalStep(STOP, executor, step)

    def documents(corpus):
        is_collapsed = model is CollapsedHDP
        return BlockDocumentWeights(corpus.sizes.size) if is_collapsed else NOTHING

    def finish(held, posterior, last):
        known = last.cache.documents
        if isinstance(known, BlockDocumentWeights):
            known = known.spread(held.rows, corpus.n_docs)
        return learner_of(posterior, corpus, local_step, known)

    held = corpus.hold_out(0)
    start = learner_of(
        random_posterior(model, X), held.train, local_step, documents(corpus)
    )
    return HeldOutTrials(start, held, SplitMerge(), 40, finish, n_final_passes=4)


@pytest.mark.parametrize(
    "family", [FAMILIES[0], pytest.param(FAMILIES[1], marks=pytest.mark.long)]
)
def test_after_trials_totals_have_each_document_once(X, family):
    with Executor(1) as executor:
        trials = trials_of(X, family, executor)
        posterior, beside = trials.posterior, discarding()
        learner = SearchLearner(posterior, trials.passes())
        assert not learner.is_saved
        while not learner.has_ended:
            learner.one_pass(beside)
    assert trials.n_trials >= 2
    assert posterior.trials_ended
    words = posterior.global_stats.topic_words
    assert_allclose(words.total.sum(), X.sum(), rtol=0.02)
    rare = np.asarray(X.sum(axis=0)).ravel() > 0.0
    assert (words.dense().sum(axis=1)[rare] > 0.0).all()


def state_of(trials):
    """All that a fit publishes, and how far its trials are."""
    posterior = trials.posterior
    return [
        posterior.global_stats.topic_words.dense().tobytes(),
        posterior.state.weights.tobytes(),
        posterior.lineage,
        (trials.n_trials, trials.passes_left, posterior.n_steps),
    ]


def test_no_array_of_the_driver_has_an_entry_for_each_document():
    X = sp.csr_array(np.tile(np.eye(4, 8), (1000, 1)) * 10.0)
    corpus = ShardCorpus.of(Survey.of(shards_of(X, (0, 1000, 4000))), ENTROPY, 4)
    held = corpus.hold_out(0)
    weights = BlockDocumentWeights(corpus.sizes.size)
    parts = [held.rows, held.observed, held.held_out, held.train.sizes, weights]
    plain = to_plain(parts, [corpus.shards])
    sizes, queue = [], [plain]
    while queue:
        value = queue.pop()
        if isinstance(value, np.ndarray):
            sizes.append(value.size)
        elif sp.issparse(value):
            sizes.append(value.shape[0])
        elif isinstance(value, (dict, list, tuple)):
            queue += value.values() if isinstance(value, dict) else value
    assert 0 < max(sizes) < 4000


# Processes that follow the words of topics --------------------------------------------


class Processes(LocalShards):
    """Shards of several processes, to which everything is sent; some are lost."""

    def __init__(self, blocks, n_features, n_processes, loss=0.0):
        super().__init__(blocks, n_features, is_lasting=False)
        self.n_processes, self.loss, self.n_bytes = n_processes, loss, []
        self.rng = np.random.default_rng(0)
        self.caches = [ProcessCache() for _ in range(n_processes)]

    def _send(self, broadcast):
        content = pickle.dumps(broadcast)
        self.n_bytes.append(len(content))
        broadcasts = [pickle.loads(content) for _ in range(self.n_processes)]
        for at in np.flatnonzero(self.rng.random(self.n_processes) < self.loss):
            self.caches[at] = ProcessCache()
        for shard in self._shards:
            shard.process = self.caches[shard.number % self.n_processes]
        return lambda number: broadcasts[number % self.n_processes]

    def _ask(self, task, numbers, broadcast, argument, *, adds_up):
        sent = self._send(broadcast)

        def at_home(shard, broadcast, argument):
            return task(shard, sent(shard.number), argument)

        return super()._ask(at_home, numbers, broadcast, argument, adds_up=adds_up)


def processes_of(X, **settings):
    shards = shards_of(X)._shards
    return Processes([shard.X for shard in shards], X.shape[1], **settings)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "settings", [(3, 0.3), pytest.param((2, 0.0), marks=pytest.mark.long)]
)
def test_bits_do_not_depend_on_processes(X, family, settings):
    n_processes, loss = settings
    shards = processes_of(X, n_processes=n_processes, loss=loss)
    with Executor(1) as executor:
        both = [trials_of(X, family, executor, some) for some in (None, shards)]
        learners = [SearchLearner(one.posterior, one.passes()) for one in both]
        while not learners[0].has_ended:
            for learner in learners:
                learner.one_pass(discarding())
            one, other = (state_of(trials) for trials in both)
            assert one == other


def test_what_has_changed_is_checked_against_the_sums(X, monkeypatch):
    """A process whose words are others, or an unknown edit, costs a round more."""
    shards = processes_of(X, n_processes=2)
    with Executor(1) as executor:
        both = [trials_of(X, FAMILIES[0], executor, some) for some in (None, shards)]
        learners = [trials.model.learner for trials in both]

        def learn(factor):
            for learner in learners:
                learner.posterior.global_stats.topic_words.decay(factor)  # nobody tells
                learner.one_pass(discarding())
            one, other = (learner.posterior.global_stats for learner in learners)
            return np.array_equal(one.topic_words.dense(), other.topic_words.dense())

        assert learn(1.0)
        assert learn(0.5)
        monkeypatch.setattr(ChangedWords, "made", made_unchecked)
        assert not learn(0.5)


def made_unchecked(self, name, held):
    if held is None:
        return None
    held.decay(self.keep)
    held.add(self.rows, self.gain)
    held.drop(self.gone)
    return held
