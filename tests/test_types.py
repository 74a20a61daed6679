"""Types that checkers of users' code read are declared.

`.ci/run` has mypy and basedpyright read `tests/typing/user_code.py`.
"""

import importlib
import inspect
from numbers import Integral, Real

import pytest
from numpydoc.docscrape import ClassDoc

import skbnp
import skbnp.dask

KINDS = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (skbnp, skbnp.dask)
    for name in module.__all__
    if hasattr(getattr(module, name), "fit")
}


def undeclared_attributes(kind):
    """Attributes that a docstring lists and no class declares with a type."""
    declared = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
    listed = {
        name
        for entry in ClassDoc(kind)["Attributes"]
        for name in entry.name.split(", ")
    }
    return {
        name
        for name in listed - declared
        if "return" not in getattr(vars_of(kind, name), "__annotations__", {})
    }


def vars_of(kind, name):
    result = inspect.getattr_static(kind, name, None)
    return result.fget if isinstance(result, property) else result


def untyped_methods(kind):
    """Public methods of ours that do not say what they return."""
    return {
        name
        for base in kind.__mro__
        if base.__module__.startswith("skbnp")
        for name, value in vars(base).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and "return" not in inspect.unwrap(value).__annotations__
    }


def is_wider(constraint, default):
    """Whether a constraint takes values of other types than the default is."""
    kind = type(default)
    if constraint in ("boolean", "verbose", "random_state"):
        return kind not in (bool, int)
    if hasattr(constraint, "options"):
        return kind is not str
    number = getattr(constraint, "type", constraint)
    if number is Integral:
        return kind is not int
    if number is Real:
        return kind is not float
    return True


def misread_parameters(kind):
    """Parameters whose type a checker would guess by their default, and wrongly."""
    return {
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.annotation is parameter.empty and parameter.default is not None
        for constraint in kind._parameter_constraints[name]
        if is_wider(constraint, parameter.default)
    }


@pytest.mark.parametrize("name", KINDS)
def test_an_estimator_declares_its_types(name):
    assert not undeclared_attributes(KINDS[name])
    assert not untyped_methods(KINDS[name])
    assert not misread_parameters(KINDS[name])


@pytest.mark.parametrize(
    "module",
    ["skbnp.callbacks", "skbnp.datasets", "skbnp.inspection", "skbnp.metrics"],
)
def test_a_public_function_says_what_it_returns(module):
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        value = getattr(loaded, name)
        if inspect.isclass(value):
            assert not untyped_methods(value), name
        else:
            assert "return" in inspect.unwrap(value).__annotations__, name
