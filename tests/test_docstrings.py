"""Docstrings: examples run, and sections are complete."""

import doctest
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import ERROR_MSGS, validate

import skbnp
from checks.long import daily
from skbnp import (
    HDP,
    GibbsHDP,
    GibbsNestedCRP,
    NestedCRP,
    StickBreakingHDP,
)

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
    "skbnp.estimators._nested_crp",
    "skbnp.inspection._epochs",
    "skbnp.inspection._over_time",
    "skbnp.inspection._stability",
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


# -- estimators are described in a few screens -----------------------------------------

#: Lines of a docstring, at most. Equations, trials and departures from the papers are
#: on the pages of derivations.
MOST_LINES = 150


def too_long(text):
    return len(inspect.cleandoc(text).splitlines()) > MOST_LINES


@pytest.mark.parametrize(
    "estimator",
    [getattr(skbnp.estimators, name) for name in skbnp.estimators.__all__],
    ids=lambda estimator: estimator.__name__,
)
def test_docstring_of_an_estimator_is_short(estimator):
    assert not too_long(estimator.__doc__)


def test_a_long_docstring_is_reported():
    assert too_long("Summary.\n" + "    Line.\n" * MOST_LINES)


# -- what several estimators have is documented alike ----------------------------------

#: As scikit-learn does, each class says it in full: readers of the source, editors and
#: `help` see all of it.
ALIKE = [
    (
        (HDP, StickBreakingHDP, NestedCRP, GibbsHDP, GibbsNestedCRP),
        ("topic_word_distr_", "n_features_in_", "feature_names_in_"),
    ),
    ((HDP, StickBreakingHDP, NestedCRP), ("n_jobs", "verbose", "n_iter_")),
    (
        (HDP, StickBreakingHDP),
        (
            "topic_word_prior",
            "corpus_concentration_prior, doc_concentration_prior",
            "init",
            "random_state",
            "warm_start",
            "components_",
            "component_ids_",
            "n_active_components_",
            "doc_concentration_, corpus_concentration_",
            "topic_word_prior_",
        ),
    ),
    (
        (GibbsHDP, GibbsNestedCRP),
        (
            "max_iter",
            "burn_in",
            "thin",
            "n_chains",
            "n_jobs",
            "random_state",
            "verbose",
            "n_iter_",
        ),
    ),
    (
        (NestedCRP, GibbsNestedCRP),
        (
            "max_depth",
            "child_concentration",
            "level_prior",
            "topic_word_prior",
            "child_concentration_prior",
            "n_components_",
            "level_prior_",
        ),
    ),
]


def entry(estimator, name):
    """Type and text of a parameter or attribute."""
    sections = NumpyDocString(inspect.cleandoc(estimator.__doc__))
    entries = sections["Parameters"] + sections["Attributes"]
    (result,) = (item for item in entries if item.name == name)
    return result


def check_documented_alike(estimators, name):
    first, *others = (entry(estimator, name) for estimator in estimators)
    assert all(other == first for other in others), f"{name} is documented differently"


@pytest.mark.parametrize(
    ("estimators", "name"),
    [(group, name) for group, names in ALIKE for name in names],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_shared_parameters_and_attributes_are_documented_alike(estimators, name):
    check_documented_alike(estimators, name)


def test_the_check_of_shared_entries_tells_another_text():
    with pytest.raises(AssertionError, match="max_iter"):
        check_documented_alike((HDP, NestedCRP), "max_iter")
