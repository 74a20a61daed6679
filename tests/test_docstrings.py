"""Docstrings: examples run, and sections are complete."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import skbnp
from skbnp import HDP, GibbsHDP, GibbsNestedCRP, NestedCRP, StickBreakingHDP

MODULES = [m.name for m in pkgutil.walk_packages(skbnp.__path__, "skbnp.")]
PUBLIC_MODULES = [
    "skbnp",
    "skbnp.callbacks",
    "skbnp.datasets",
    "skbnp.inspection",
    "skbnp.metrics",
]
#: numpydoc's checks of order, summary, parameters and returns.
CHECKED = {"GL03", "GL06", "GL07", "GL08", "SS02", "SS03", "SS05"}
CHECKED |= {"PR01", "PR02", "PR03", "PR04", "PR07", "PR10", "RT01", "RT03"}


def public_objects():
    for module in PUBLIC_MODULES:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            thing = getattr(loaded, name)
            if not callable(thing):
                continue
            yield f"{module}.{name}"
            if inspect.isclass(thing):
                for method, value in vars(thing).items():
                    if not method.startswith("_") and callable(value):
                        yield f"{module}.{name}.{method}"


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", sorted(set(public_objects())))
def test_docstring_is_complete(name):
    errors = [error for error in validate(name)["errors"] if error[0] in CHECKED]
    assert not errors


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
            "doc_concentration_, corpus_concentration_, topic_word_prior_",
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
    (found,) = (item for item in entries if item.name == name)
    return found


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
