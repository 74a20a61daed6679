"""The log of edits leads to the components of every estimator, whatever was called."""

import pytest
import scipy.sparse as sp

import skbnp.dask
from checks.corpora import topic_counts
from checks.estimators import FIRST, every_estimator, fresh, rows_of, takes_warm_start
from checks.lineages import check_lineage, replay
from skbnp import DependentTrees
from skbnp.datasets import make_dependent_trees
from skbnp.inference.posterior import Lineage

INIT = Lineage(0, "init", (), (0, 1))
END = Lineage(1, "prune", (1,), ())
BACK = Lineage(2, "revive", (0,), (1,))


@pytest.mark.parametrize(
    "record",
    [
        Lineage(2, "reattach", (1, 0), (1, 0)),
        Lineage(2, "birth", (), (1,)),
        Lineage(2, "revive", (0,), (2,)),
        Lineage(2, "init", (), (2,)),
    ],
)
def test_a_log_that_uses_an_ended_id_cannot_be_replayed(record):
    assert replay([INIT, END, BACK]) == {1}
    with pytest.raises(AssertionError):
        replay([INIT, END, record])


def corpora(estimator):
    """Two corpora of several topics, and one without tokens."""
    some, others = (topic_counts(50, 24, n_topics=6, seed=seed) for seed in (0, 1))
    return [rows_of(estimator, X) for X in (some, others, sp.csr_array((9, 24)))]


@every_estimator()
def test_the_log_leads_to_the_components_of_a_stream(estimator):
    some, others, none = corpora(estimator)
    for X in (none, some, none, others):
        check_lineage(estimator.partial_fit(X))


@every_estimator(takes_warm_start, among=FIRST)
def test_the_log_leads_to_the_components_of_a_warm_start(estimator):
    some, others, none = corpora(estimator)
    estimator = fresh(estimator, warm_start=True)
    for X in (some, others, none, some):
        check_lineage(estimator.fit(X))
    check_lineage(estimator.partial_fit(none))


@every_estimator(lambda estimator: hasattr(estimator, "merge_components"))
def test_the_log_leads_to_the_components_after_edits(estimator):
    some, others, _ = corpora(estimator)
    fresh(estimator, warm_start=True).fit(some)
    check_lineage(estimator.fit(some))
    check_lineage(estimator.merge_components(estimator.component_ids_[:2]))
    check_lineage(estimator.partial_fit(others))
    check_lineage(estimator.drop_components(estimator.component_ids_[:1]))
    if takes_warm_start(estimator):
        check_lineage(estimator.set_params(warm_start=True).fit(others))


DRAWN = make_dependent_trees(
    50, n_epochs=8, n_features=20, past_weight=0.3, random_state=1
)


@pytest.mark.long
def test_the_log_of_topics_that_come_back_leads_to_the_nodes_of_each_epoch():
    trees = DependentTrees(random_state=0).fit(DRAWN.data, epochs=DRAWN.epochs)
    check_lineage(trees)
    assert "revive" in {record.kind for record in trees.lineage_}


@pytest.mark.long
def test_the_log_of_epochs_on_shards_leads_to_their_nodes():
    trees = skbnp.dask.DependentTrees(max_iter=5, tol=0.0, random_state=0)
    check_lineage(trees.fit(DRAWN.data, epochs=DRAWN.epochs))


@pytest.mark.long
def test_the_log_of_epochs_that_come_one_by_one_leads_to_their_nodes():
    trees = DependentTrees(max_iter=5, tol=0.0, random_state=0)
    for epoch in range(4):
        rows = DRAWN.data[DRAWN.epochs == epoch]
        for chunk in (rows[:30], rows[30:], 0.0 * rows):
            check_lineage(trees.partial_fit(chunk, epochs=epoch))
