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

import skbnp.dask as sharded
from checks.estimators import INSTANCES, evaluate, rows_of
from checks.long import daily
from checks.states import assert_same, learned
from skbnp.utils.plain import from_plain, register, registered, to_plain

ROOT = Path(__file__).parents[2]
#: The page that lists the trusted types, estimator by estimator.
PAGE = "doc/guide/saving.rst"
#: A row of its table, and what stands between quotes in it.
ROW = re.compile(r"\n   \* - (.*)\n     - (.*(?:\n       .*)*)")
QUOTED = re.compile(r"`+([\w.]+)`+")
#: One of each, HDP of both families.
SAVED = (
    "HDP-online",
    "DependentTrees",
    "HDP-mean-field-online",
    "StickBreakingHDP-batch",
    "NestedCRP-batch",
    "GibbsHDP-chains",
    "GibbsNestedCRP",
    "GibbsDependentTrees",
    "HierarchicalComponentAnalysis-moves",
)
#: On workers; what they have learned is what the others have.
SHARDED = {
    "skbnp.dask.HDP": sharded.HDP(4, max_iter=1, random_state=0),
    "skbnp.dask.DependentTrees": sharded.DependentTrees(4, max_iter=1, random_state=0),
}


def trusted_types(page):
    """Trusted types of each estimator, as a page lists them."""
    cells = [
        (QUOTED.findall(name), QUOTED.findall(types))
        for name, types in ROW.findall(page)
    ]
    is_class = re.compile(r"skbnp\.\w+\._").match
    return {names[0]: types for names, types in cells if any(map(is_class, types))}


def name_of(estimator):
    kind = type(estimator)
    is_sharded = kind.__module__.startswith("skbnp.dask")
    return f"skbnp.dask.{kind.__name__}" if is_sharded else kind.__name__


@pytest.fixture
def trusted():
    return trusted_types((ROOT / PAGE).read_text())


@pytest.mark.parametrize("name", daily(3, SAVED))
def test_file_of_skops_holds_the_whole_estimator_and_one_type(name, trusted, counts):
    rows = rows_of(INSTANCES[name], counts)
    estimator = clone(INSTANCES[name]).fit(rows)
    types = trusted[name_of(estimator)]
    loaded = sio.loads(sio.dumps(estimator), trusted=types)
    assert_same(learned(estimator), learned(loaded))
    assert_same(evaluate(estimator, rows), evaluate(loaded, rows))
    estimator.partial_fit(rows[:20])
    loaded.partial_fit(rows[:20])
    assert_same(learned(estimator), learned(loaded))


@pytest.mark.parametrize("name", [*SAVED, *SHARDED])
def test_types_that_skops_asks_for_are_those_of_the_page(name, trusted, counts):
    estimator = clone((INSTANCES | SHARDED)[name])
    rows = rows_of(estimator, counts)
    for learn in ("set_params", "fit", "partial_fit"):
        if hasattr(estimator, learn):
            getattr(estimator, learn)(*[rows] * (learn != "set_params"))
        asked = sio.get_untrusted_types(data=sio.dumps(estimator))
        assert asked == trusted[name_of(estimator)]


def test_page_lists_all_estimators_and_no_others(trusted):
    local = {type(estimator).__name__ for estimator in INSTANCES.values()}
    assert trusted.keys() == local | SHARDED.keys()


@dataclass
class Knot:
    """Holds itself, by others."""

    ends: dict[int, object]
    load: float = 0.0
    kind: Literal["loose", "tight"] = "loose"


register(Knot, tag="test.Knot")


KNOT = {"ends": {}, "load": 1.0, "kind": "loose"}


def saved(tag, holds, **more):
    return {"__is__": tag, "__holds__": holds, **more}


@pytest.mark.parametrize(
    "state",
    [
        saved("builtins.exec", ["raise SystemExit"]),
        saved("type", "subprocess.Popen"),
        saved("skbnp.models.hdp.posterior.DocumentWeights", [10**9]),
        saved("inference.DocumentWeights", {"_values": 10**9, "_scale": 1.0}),
        saved("trees.Tree", {"ids": 10**9, "depth": 10**9, "next_id": 1}),
        saved("test.Knot", {"ends": {}, "load": 1.0}),
        saved("test.Knot", {**KNOT, "more": 1}),
        saved("test.Knot", {**KNOT, "load": "much"}),
        saved("test.Knot", {**KNOT, "kind": "other"}),
        saved("test.Knot", KNOT, more=1),
        saved("test.Knots", KNOT),
        saved(
            "inference.Lineage",
            {"step": 1, "kind": "init", "parents": (), "children": ("a",)},
        ),
        saved("scalar", 5),
        saved("again", 5),
        saved("dict", [1]),
        {"__is__": "test.Knot"},
    ],
    ids=repr,
)
def test_state_makes_nothing_but_objects_as_they_were_written(state):
    assert from_plain(saved("test.Knot", KNOT)) == Knot(**KNOT)
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
    for tag, kind in (("test.Knot", int), ("test.Other", Knot)):
        with pytest.raises(ValueError, match="registered already"):
            register(kind, tag=tag)
    tags = registered()
    assert len(tags) == len({form.kind for form in tags.values()})
    assert all(re.fullmatch(r"([a-z_]+\.[A-Z]|[a-z])[A-Za-z-]+", tag) for tag in tags)


def test_plain_state_keeps_what_holds_itself():
    knot = Knot({}, load=3.0)
    knot.ends[0] = [Knot({1: knot})]
    again = from_plain(pickle.loads(pickle.dumps(to_plain([knot])))[:])[0]
    assert again.ends[0][0].ends[1] is again
    assert again.load == 3.0
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
