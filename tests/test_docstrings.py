"""Docstrings: examples run, and sections are complete."""

import doctest
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest
from numpydoc.validate import ERROR_MSGS, validate

import skbnp
from checks.long import daily

pytestmark = pytest.mark.usefixtures("all_splits_in_module")

PACKAGE = Path(skbnp.__file__).parent
#: Modules with examples.
MODULES = [
    ".".join(["skbnp", *path.relative_to(PACKAGE).with_suffix("").parts])
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
#: Whose examples take seconds.
SLOW = (
    "skbnp.estimators._gibbs_nested_crp",
    "skbnp.estimators._hca",
    "skbnp.estimators._merges",
    "skbnp.estimators._nested_crp",
    "skbnp.estimators._nested_hdp",
    "skbnp.estimators._stick_breaking_hdp",
    "skbnp.inspection._over_time",
    "skbnp.inspection._groups",
    "skbnp.inspection._compared",
)
PUBLIC_MODULES = [
    "skbnp",
    "skbnp.callbacks",
    "skbnp.datasets",
    "skbnp.inspection",
    "skbnp.metrics",
]
#: What is public below these modules: settings of estimators, what `tree_` is.
PUBLIC_CLASSES = [
    "skbnp.estimators.SplitMerge",
    "skbnp.estimators.TreeMoves",
    "skbnp.inspection.TopicGroups",
    "skbnp.trees.TreeView",
]


def checked():
    """numpydoc's checks that are on: all but those that pyproject.toml names."""
    path = Path(__file__).parents[1] / "pyproject.toml"
    everything, *left_out = tomllib.loads(path.read_text(encoding="utf-8"))["tool"][
        "numpydoc_validation"
    ]["checks"]
    assert everything == "all"
    return set(ERROR_MSGS) - set(left_out)


CHECKED = checked()


def public_objects():
    """Public functions, classes and their methods, those of our mixins included."""
    names = [
        f"{m}.{n}" for m in PUBLIC_MODULES for n in importlib.import_module(m).__all__
    ]
    for name in names + PUBLIC_CLASSES:
        module, _, last = name.rpartition(".")
        thing = getattr(importlib.import_module(module), last)
        if not callable(thing):
            continue
        yield name
        for method, value in (
            inspect.getmembers(thing) if inspect.isclass(thing) else ()
        ):
            ours = str(getattr(value, "__module__", None)).startswith("skbnp.")
            if ours and callable(value) and not method.startswith("_"):
                yield f"{name}.{method}"


@pytest.mark.parametrize(
    "name", daily(-len(SLOW), sorted(MODULES, key=SLOW.__contains__))
)
def test_examples_run(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("name", sorted(set(public_objects())))
def test_docstring_is_complete(name):
    errors = [error for error in validate(name)["errors"] if error[0] in CHECKED]
    assert not errors
