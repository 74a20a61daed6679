"""Stubs of kernels, which setup.py writes, are of the compiled functions."""

import ast
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")
stub_of = SETUP["stub_of"]


def source_of(name):
    return (ROOT / f"skbnp/kernels/{name}.pyx").read_text(encoding="utf-8")


def compiled(name):
    """Public functions of a kernel, with their arguments and which have defaults.

    Classes have none, constants their type.
    """
    kernel = importlib.import_module(f"skbnp.kernels.{name}")
    taken = re.findall(r"^from \S+ import (\w+)$", source_of(name), re.MULTILINE)
    seen = {}
    for key, value in vars(kernel).items():
        if key.isupper() and key not in taken:
            seen[key] = type(value).__name__
        elif key[0] != "_" and getattr(value, "__module__", "") == kernel.__name__:
            seen[key] = isinstance(value, type) or {
                one.name: one.default is not one.empty
                for one in inspect.signature(value).parameters.values()
            }
    return seen


def declared(stub):
    """The same of a stub."""
    seen = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.AnnAssign):
            seen[node.target.id] = node.annotation.id
        elif isinstance(node, ast.ClassDef):
            seen[node.name] = True
        elif isinstance(node, ast.FunctionDef):
            names = [one.arg for one in node.args.args]
            n_needed = len(names) - len(node.args.defaults)
            seen[node.name] = {one: i >= n_needed for i, one in enumerate(names)}
    return seen


@pytest.mark.parametrize("name", SETUP["KERNELS"])
def test_a_stub_has_what_the_compiled_kernel_has(name):
    assert declared(stub_of(source_of(name))) == compiled(name)


def test_stubs_are_written_next_to_their_sources(tmp_path):
    (tmp_path / "_a.pyx").write_text("def f(double x) -> float:\n    return x\n")
    SETUP["write_stubs"](tmp_path)
    text = (tmp_path / "_a.pyi").read_text(encoding="utf-8")
    assert declared(text) == {"f": {"x": False}}
    assert text.endswith("def f(x: float) -> float:\n    ...\n")
