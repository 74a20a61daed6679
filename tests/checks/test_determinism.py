"""The same seed gives the same bits, whoever does the work."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import joblib
import pytest
from sklearn.base import clone

from checks.corpora import topic_counts
from checks.estimators import (
    DOORS,
    EVALUATIONS,
    FEW,
    FIRST,
    INSTANCES,
    LEARNING,
    OF_EACH_CLASS,
    every_estimator,
    every_kind,
    every_method,
    fresh,
    instance,
    mean_field_hdp,
    rows_of,
    takes_counts_only,
)
from checks.long import daily
from checks.states import (
    assert_same,
    check_leaves_global_random_state,
    differences,
    learned,
)
from skbnp import HDP, DependentTrees, GibbsDependentTrees, GibbsHDP
from skbnp.datasets import make_bars, make_dependent_trees
from skbnp.estimators import SplitMerge
from skbnp.models.dependent_trees import local as dependent_trees_local
from skbnp.models.dependent_trees import updates as dependent_trees_start
from skbnp.models.dependent_trees import updates as dependent_trees_updates
from skbnp.models.hca import state as hca_frame
from skbnp.rows import batch
from skbnp.rows.batch import Batch

#: One of each class that draws: a tree of directions starts from principal ones, and
#: draws candidates of moves alone.
DRAWING = OF_EACH_CLASS | {
    "HierarchicalComponentAnalysis": INSTANCES["HierarchicalComponentAnalysis-moves"]
}
every_drawing = every_estimator(among=DRAWING, daily=FEW)


@pytest.fixture
def many(estimator):
    return rows_of(estimator, topic_counts(120, 30))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of some hundred counts, or of some rows, as large corpora have them."""
    monkeypatch.setattr(batch, "BLOCK_SIZE", 150)
    monkeypatch.setattr(hca_frame, "BLOCK", 16)
    monkeypatch.setattr(dependent_trees_local, "ROWS_PER_BLOCK", 16)
    monkeypatch.setattr(dependent_trees_start, "ROWS", 16)
    monkeypatch.setattr(dependent_trees_updates, "ENTRIES_OF_TASK", 16)


def parallel(estimator, **changes):
    """Large minibatches, so that there is something to share out."""
    return fresh(estimator, batch_size=100, max_iter=2, **changes)


def check_jobs_do_not_matter(estimator, run, n_jobs):
    """Raise unless `run` of the estimator gives the same bits with so many jobs."""
    one = run(parallel(estimator, n_jobs=1))
    assert_same(one, run(parallel(estimator, n_jobs=n_jobs)))


def are_all_same(results):
    """Whether all results are equal bit by bit; stops at one that is not."""
    first = next(results)
    return not any(any(differences(first, other)) for other in results)


def check_seed_matters(estimator, run):
    """Raise unless another seed gives another result.

    A start may be drawn from no generator, but candidates of moves alone: of these most
    seeds, not all, find others.
    """
    seeds = range(2 if takes_counts_only(estimator) else 5)
    assert not are_all_same(run(fresh(estimator, random_state=s)) for s in seeds)


@every_estimator(takes_counts_only)
def test_batches_have_several_blocks(estimator, many, small_blocks):
    rows = parallel(estimator).get_params().get("batch_size", len(many.indptr) - 1)
    assert len(Batch.from_counts(many[:rows]).blocks) > 3
    assert len(Batch.from_counts(many).blocks) > 3


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        instance(name, e, method, daily=FEW)
        for name, e in INSTANCES.items()
        for method in LEARNING
        if method == "fit" or name in FIRST
    ],
    indirect=["estimator"],
)
def test_learning_does_not_depend_on_the_number_of_jobs(
    estimator, method, many, small_blocks, seed
):
    estimator.set_params(random_state=seed)
    check_jobs_do_not_matter(estimator, lambda e: learned(getattr(e, method)(many)), 3)


#: What trials, moves and births lead to, from planted data.
LEADS = {
    "trials": HDP(3, random_state=0),
    "printed moves": mean_field_hdp(
        3, split_merge=SplitMerge.paper(), max_iter=10, random_state=0
    ),
    "memoized": mean_field_hdp(3, learning_method="memoized", random_state=0),
    "known topics": HDP(topic_word_prior={"a": [1, 2], "b": [3]}, random_state=0),
    "known topics, sampled": GibbsHDP(
        6, topic_word_prior={"a": [1, 2], "b": [3]}, max_iter=6, random_state=0
    ),
}
EPOCH_LEADS = {
    "trees": DependentTrees(batch_size=25, max_iter=6, random_state=0),
    "sampled trees": GibbsDependentTrees(max_iter=4, random_state=0),
}


@pytest.mark.parametrize("name", daily(1, LEADS))
def test_fits_and_streams_of_many_moves_do_not_depend_on_the_number_of_jobs(name):
    X, results = make_bars(200, side=5, n_words=60, random_state=0).data, []
    for n_jobs in (1, 3):
        fit, stream = (clone(LEADS[name]).set_params(n_jobs=n_jobs) for _ in range(2))
        for begin in range(0, 200, 100):
            stream.partial_fit(X[begin : begin + 100])
        results.append([learned(fit.fit(X)), learned(stream)])
    assert_same(*results)
    assert len(fit.lineage_) > 1


@pytest.mark.parametrize("name", daily(1, EPOCH_LEADS))
def test_epochs_do_not_depend_on_the_number_of_jobs(name, small_blocks):
    corpus, results = make_dependent_trees(60, n_epochs=2, random_state=0), []
    for n_jobs in (1, 3):
        trees = clone(EPOCH_LEADS[name]).set_params(n_jobs=n_jobs)
        results.append(learned(trees.fit(corpus.data, epochs=corpus.epochs)))
    assert_same(*results)
    assert len(trees.lineage_) > 1


@every_method(*EVALUATIONS, among=OF_EACH_CLASS, daily=FEW)
def test_evaluation_does_not_depend_on_the_number_of_jobs(fitted, method, small_blocks):
    X = rows_of(fitted, topic_counts(120, 24))
    one = getattr(fitted, method)(X)
    assert_same(one, getattr(fitted.set_params(n_jobs=3), method)(X))


@every_kind()
def test_number_of_jobs_may_change_in_a_stream(estimator, many, small_blocks):
    one, two = parallel(estimator, n_jobs=1), parallel(estimator, n_jobs=2)
    for part, n_jobs in [(many[:50], 3), (many[50:90], 1), (many[90:], 2)]:
        one.partial_fit(part)
        two.set_params(n_jobs=n_jobs).partial_fit(part)
    assert_same(learned(one), learned(two))


@every_drawing
def test_fits_of_two_threads_do_not_disturb_each_other(estimator, many, small_blocks):
    """They begin at once, and learn the bits of one at a time."""
    estimators = [parallel(estimator, random_state=s, n_jobs=1 + s) for s in (0, 1)]
    alone, both = [learned(clone(one).fit(many)) for one in estimators], Barrier(2)

    def fit(one):
        both.wait(timeout=60)
        return learned(one.fit(many))

    with ThreadPoolExecutor(2) as pool:
        assert_same(alone, [*pool.map(fit, estimators)])


@every_estimator(among=DOORS, daily=["HDP-online"])
def test_processes_of_joblib_give_the_same_bits(estimator, many):
    X = many[:60]
    one = parallel(estimator).fit(X)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        two = parallel(estimator).fit(X)
        distr, score = two.transform(X), two.score(X)
    assert_same(learned(one), learned(two))
    assert_same((one.transform(X), one.score(X)), (distr, score))


@every_kind()
def test_fit_transform_equals_fit_and_transform(estimator, fitted, rows):
    assert_same(fitted.transform(rows), estimator.fit_transform(rows))


@every_drawing
def test_another_seed_gives_another_result(estimator, rows):
    check_seed_matters(estimator, lambda e: e.fit(rows).transform(rows))


@every_method(*LEARNING, among=FIRST)
def test_learning_with_a_seed_leaves_global_random_states(estimator, method, rows):
    check_leaves_global_random_state(lambda: getattr(estimator, method)(rows))
