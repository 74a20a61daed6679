"""Files of skops: whoever loads one has a class to trust, or two."""

import pickle
import threading
from pathlib import Path

import pytest
import skops.io as sio
from sklearn.base import clone

from checks.estimators import INSTANCES, evaluate, rows_of
from checks.long import daily
from checks.states import TIMES, assert_same, learned
from skbnp.models.hdp.moves.memory import MoveMemory
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.utils.plain import from_plain, to_plain

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


@pytest.mark.parametrize(
    "state",
    [
        {"__is__": "builtins.exec", "__holds__": ["raise SystemExit"]},
        {"__is__": "type", "__holds__": "subprocess.Popen"},
        {"__is__": "skbnp.components.statistics.np.load", "__holds__": []},
        {"__is__": "skbnp.components.topics.Iterable", "__holds__": {}},
        {"__is__": "skbnp.inference.posterior.Posterior", "__holds__": {"model": 1}},
    ],
    ids=lambda state: state["__is__"],
)
def test_state_makes_nothing_but_objects_of_the_package(state):
    with pytest.raises(ValueError, match=r"holds no|is damaged"):
        from_plain(state)


def test_plain_state_keeps_what_is_one_object_one():
    shared = [1.0]
    twice = from_plain(to_plain({"one": shared, "other": {(1, 2): shared}}))
    assert twice == {"one": shared, "other": {(1, 2): shared}}
    assert twice["one"] is twice["other"][1, 2]


def test_plain_state_keeps_what_holds_itself():
    moving = MoveMemory(credit=3.0)
    moving.idle[0] = HDPPosterior(None, None, None, None, [], move_memory=moving)
    again = from_plain(pickle.loads(pickle.dumps(to_plain([moving])))[:])[0]
    assert again.idle[0].move_memory is again
    assert again.credit == 3.0
    assert sio.get_untrusted_types(data=sio.dumps(to_plain(moving))) == []


def test_what_is_outside_is_named_by_its_place():
    lock, memory = threading.Lock(), MoveMemory()
    memory.idle = {0: lock, 1: memory}
    plain = to_plain([memory, lock], (None, lock))
    other = threading.Lock()
    again, beside = from_plain(pickle.loads(pickle.dumps(plain)), (None, other))
    assert again.idle[0] is beside is other
    assert again.idle[1] is again
    with pytest.raises(ValueError, match="damaged"):
        from_plain(plain)
