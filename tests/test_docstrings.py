"""Docstrings: examples run, and sections are complete."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.validate import validate

import skbnp

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
