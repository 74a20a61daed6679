"""Files of skops: whoever loads one has a class to trust, or two."""

import pickle
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import skops.io as sio
from sklearn.base import clone

from checks.estimators import INSTANCES, evaluate, rows_of
from checks.long import daily
from checks.states import TIMES, assert_same, learned
from skbnp.models.forms import from_plain, to_plain
from skbnp.utils.plain import register, registered

README = Path(__file__).parents[2] / "README.md"

#: What stands in the README, estimator by estimator.
TRUSTED = {
    "HDP": ["skbnp.estimators._hdp.HDP"],
    "DependentTrees": ["skbnp.estimators._dependent_trees.DependentTrees"],
    "StickBreakingHDP": ["skbnp.estimators._stick_breaking_hdp.StickBreakingHDP"],
    "NestedCRP": ["skbnp.estimators._nested_crp.NestedCRP"],
    "GibbsHDP": ["skbnp.estimators._gibbs_hdp.GibbsHDP"],
    "GibbsNestedCRP": ["skbnp.estimators._gibbs_nested_crp.GibbsNestedCRP"],
    "HierarchicalComponentAnalysis": [
        "skbnp.estimators._hca.HierarchicalComponentAnalysis"
    ],
}
#: Samples of both samplers.
SPARSE = "scipy.sparse._csr.csr_array"
#: What sparse arrays note about their entries; skops writes the entries alone.
NOTES = {"_has_canonical_format", "_has_sorted_indices"}
#: One of each, HDP of both families.
SAVED = (
    "HDP-online",
    "DependentTrees",
    "HDP-mean-field-online",
    "StickBreakingHDP-batch",
    "NestedCRP-batch",
    "GibbsHDP-chains",
    "GibbsNestedCRP",
    "HierarchicalComponentAnalysis",
)


@pytest.mark.parametrize("name", daily(3, SAVED))
def test_file_of_skops_holds_the_whole_estimator_and_few_types(name, counts):
    rows = rows_of(INSTANCES[name], counts)
    estimator = clone(INSTANCES[name]).fit(rows)
    trusted = [*TRUSTED[type(estimator).__name__], SPARSE]
    saved = sio.dumps(estimator)
    assert set(sio.get_untrusted_types(data=saved)) <= set(trusted)
    loaded = sio.loads(saved, trusted=trusted)
    assert_same(learned(estimator), learned(loaded), ignore=TIMES | NOTES)
    assert_same(evaluate(estimator, rows), evaluate(loaded, rows))
    estimator.partial_fit(rows[:20])
    loaded.partial_fit(rows[:20])
    assert_same(learned(estimator), learned(loaded), ignore=TIMES | NOTES)


def test_readme_names_the_types():
    text = README.read_text()
    missing = {n for names in TRUSTED.values() for n in names if n not in text}
    assert not missing
    assert SPARSE in text


@dataclass
class Knot:
    """Holds itself, by others."""

    ends: dict[int, object]
    credit: float = 0.0
    kind: Literal["loose", "tight"] = "loose"


register("test-knot/1", Knot)
KNOT = {"ends": {}, "credit": 1.0, "kind": "loose"}


def saved(tag, holds, **more):
    return {"__is__": tag, "__holds__": holds, **more}


@pytest.mark.parametrize(
    "state",
    [
        saved("builtins.exec", ["raise SystemExit"]),
        saved("type", "subprocess.Popen"),
        saved("skbnp.components.statistics.np.load", []),
        saved("skbnp.models.hdp.memory.Holdings", [10**9]),
        saved("holdings/1", [10**9]),
        saved("holdings/1", {"n_docs": 10**9}),
        saved("holdings/1", {"_values": 10**9, "_scale": 1.0}),
        saved("tree/1", {"ids": 10**9, "depth": 10**9, "next_id": 1}),
        saved("test-knot/1", {"ends": {}, "credit": 1.0}),
        saved("test-knot/1", {**KNOT, "more": 1}),
        saved("test-knot/1", {**KNOT, "credit": "much"}),
        saved("test-knot/1", {**KNOT, "ends": {"a": 1}}),
        saved("test-knot/1", {**KNOT, "kind": "other"}),
        saved("test-knot/1", KNOT, more=1),
        saved("test-knot/2", KNOT),
        saved("list of test-knot/1", [(1,)]),
        saved("list of lineage/1", [(1, "init", ())]),
        saved("list of lineage/1", [(1, "init", (), ("a",))]),
        saved("again", 5),
        saved("outside", 0),
        saved("dict", [1]),
        saved([], []),
        {"__is__": "test-knot/1"},
    ],
    ids=repr,
)
def test_state_makes_nothing_but_objects_as_they_were_written(state):
    assert from_plain(saved("test-knot/1", KNOT)) == Knot(**KNOT)
    with pytest.raises(ValueError, match=r"holds no|is damaged"):
        from_plain([state])


def _nested(n):
    nest = []
    for _ in range(n):
        nest = [nest]
    return nest


def _holding_itself():
    nest = []
    nest.append({"a": nest})
    return nest


@pytest.mark.parametrize("state", [_nested(10**5), _nested(150), _holding_itself()])
def test_depth_of_a_state_is_bounded(state):
    assert from_plain(_nested(50)) == _nested(50)
    with pytest.raises(ValueError, match="100 containers"):
        from_plain(state)


def test_tags_and_classes_are_registered_once():
    for tag, kind in (("test-knot/1", int), ("test-other/1", Knot)):
        with pytest.raises(ValueError, match="registered already"):
            register(tag, kind)
    tags = registered()
    assert len(set(tags.values())) == len(tags)
    assert all(re.fullmatch(r"[a-z-]+/[0-9]+", tag) for tag in tags)


def test_plain_state_keeps_what_is_one_object_one():
    shared = [1.0]
    twice = from_plain(to_plain({"one": shared, "other": {(1, 2): shared}}))
    assert twice == {"one": shared, "other": {(1, 2): shared}}
    assert twice["one"] is twice["other"][1, 2]


def test_plain_state_keeps_what_holds_itself():
    knot = Knot({}, credit=3.0)
    knot.ends[0] = [Knot({1: knot})]
    again = from_plain(pickle.loads(pickle.dumps(to_plain([knot])))[:])[0]
    assert again.ends[0][0].ends[1] is again
    assert again.credit == 3.0
    assert sio.get_untrusted_types(data=sio.dumps(to_plain(knot))) == []


def test_what_is_outside_is_named_by_its_place():
    lock, memory = threading.Lock(), Knot({})
    memory.ends = {0: lock, 1: memory}
    plain = to_plain([memory, lock], (None, lock))
    other = threading.Lock()
    again, beside = from_plain(pickle.loads(pickle.dumps(plain)), (None, other))
    assert again.ends[0] is beside is other
    assert again.ends[1] is again
    with pytest.raises(ValueError, match="damaged"):
        from_plain(plain)
