"""What streams of each estimator keep, and what ids of their topics mean."""

from itertools import pairwise

import numpy as np
import pytest

from skbnp import DependentTrees, NestedCRP, NestedHDP, StickBreakingHDP
from skbnp.datasets import make_bars

X = make_bars(180, side=4, random_state=0).data
#: Ends of calls: beyond 125 documents `NestedHDP` fits anew.
ENDS = (60, 110, 130, 180)
MODELS = {
    "sticks": StickBreakingHDP(30, random_state=0),
    "nested": NestedHDP(random_state=0),
    "crp": NestedCRP(max_depth=2, random_state=0),
    "trees": DependentTrees(random_state=0),
}


@pytest.fixture(scope="module", params=MODELS)
def stream(request):
    """The name of a model, and after each call its ids, log and number of documents."""
    model, calls = MODELS[request.param], []
    for night, (begin, end) in enumerate(zip((0, *ENDS), ENDS, strict=False)):
        options = {"epochs": night} if request.param == "trees" else {}
        model.partial_fit(X[begin:end], **options)
        kept = getattr(model._posterior, "documents", None)
        n_kept = 0 if kept is None else kept.shape[0]
        calls.append((set(model.component_ids_.tolist()), list(model.lineage_), n_kept))
    return request.param, model, calls


def unexplained(calls):
    """Ids that begin or end between calls without an entry of the log."""
    result = set()
    for (before, old, _), (now, log, _) in pairwise(calls):
        entries = log[len(old) :]
        begun = {name for entry in entries for name in entry.children}
        ended = {name for entry in entries for name in entry.parents}
        result |= (now - before - begun) | (before - now - ended)
    return result


def test_ids_begin_and_end_by_the_log_alone(stream):
    _, _, calls = stream
    assert not unexplained(calls)
    hidden = [
        (ids | {10**6} if k == 3 else ids, log, n)
        for k, (ids, log, n) in enumerate(calls)
    ]
    assert unexplained(hidden) == {10**6}


def test_the_log_is_continued_and_new_ids_are_new(stream):
    _, _, calls = stream
    for (_, old, _), (_, log, _) in pairwise(calls):
        assert log[: len(old)] == old
        named = {name for entry in old for name in entry.children}
        begun = {name for entry in log[len(old) :] for name in entry.children} - named
        assert min(begun, default=max(named) + 1) > max(named)


def test_ids_change_where_the_guide_says(stream):
    name, _, calls = stream
    ids = [of for of, _, _ in calls]
    same = [len(a & b) / len(a) for a, b in pairwise(ids)]
    if name == "sticks":  # never
        assert ids == [set(range(30))] * len(ids)
        assert len(calls[-1][1]) == 1
    elif name == "nested":  # all, in fits of all documents; else none
        assert same == [1.0, 0.0, 1.0]
    else:  # of some nodes
        assert min(same) > 0.0


def test_streams_keep_what_the_guide_says(stream):
    name, model, calls = stream
    n_kept = [n for _, _, n in calls]
    assert n_kept == (list(ENDS) if name == "nested" else [0] * len(ENDS))
    if name == "trees":
        assert list(model.epochs_) == list(range(len(ENDS)))
        for record, (ids, _, _) in zip(model.epochs_.values(), calls, strict=True):
            assert set(record.component_ids.tolist()) == ids


def test_a_node_of_dependent_trees_is_the_same_topic_in_all_epochs():
    """By its direction, which later epochs move little here."""
    model = DependentTrees(random_state=0)
    for night in range(3):
        model.partial_fit(X[60 * night : 60 * (night + 1)], epochs=night)
    first, last = model.epochs_[0], model.epochs_[2]
    _, a, b = np.intersect1d(
        first.component_ids, last.component_ids, return_indices=True
    )
    assert len(a) > 3
    own = np.asarray(first.components[a].multiply(last.components[b]).sum(axis=1))
    others = (first.components[a] @ last.components[b].T).toarray()
    assert (others.argmax(axis=1) == np.arange(len(a))).mean() > 0.8
    assert np.median(own) > 0.8
