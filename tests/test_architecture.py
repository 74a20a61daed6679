"""Imports point down, and each outside library comes in through its door."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import skbnp

PACKAGE = Path(skbnp.__file__).parent

#: Layer of each part of the package; a part imports from lower layers or within itself.
LAYERS = {
    "utils": 0,
    "kernels": 1,
    "distributions": 2,
    "trees": 2,
    "rows": 2,
    "components": 3,
    "inference": 4,
    "datasets": 5,
    "models": 5,
    "metrics": 6,
    "callbacks": 7,
    "estimators": 7,
    "dask": 8,
    "inspection": 8,
    "saving": 8,
}
#: Where scikit-learn may be met.
SKLEARN = {
    "callbacks",
    "dask",
    "datasets",
    "estimators",
    "inspection",
    "metrics",
    "saving",
    "utils",
}
#: scikit-learn's helpers for parallel work, which the executor is for.
SKLEARN_EXCEPTIONS = {("inference", "sklearn.utils.parallel")}
#: Where its private names may be.
PRIVATE_DOORS = {Path("utils/sklearn.py")}


def python_files(root, pattern="*.py"):
    return sorted(path.relative_to(root) for path in root.rglob(pattern))


def part_of(path):
    return path.parts[0].removesuffix(".py")


@cache
def imports(source):
    """Absolute names of all modules that a source file imports, anywhere in it."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [node.module]
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def check_points_down(path, names):
    part = part_of(path)
    if part == "__init__":
        return
    for name in names:
        pieces = name.split(".")
        if pieces[0] != "skbnp" or len(pieces) < 2 or pieces[1] == part:
            continue
        other = pieces[1]
        assert other in LAYERS, f"{path} imports {name}"
        is_below = LAYERS[other] < LAYERS[part]
        assert is_below, f"{path} imports {name}, which is not below it"


def circles(graph):
    """Modules that are reached from themselves, given what each one imports."""

    def reached(start):
        seen, ahead = set(), list(graph[start])
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead += graph.get(name, ())
        return seen

    return sorted(name for name in graph if name in reached(name))


def modules():
    """What each module of the package imports of its own modules, packages apart."""
    named = {
        ".".join(("skbnp", *path.with_suffix("").parts)): PACKAGE / path
        for path in python_files(PACKAGE)
        if path.name != "__init__.py"
    }
    return {
        name: set(imports(path.read_text("utf-8"))) & named.keys()
        for name, path in named.items()
    }


def check_sklearn_door(path, names):
    part = part_of(path)
    for name in names:
        if name.split(".")[0] != "sklearn":
            continue
        allowed = part in SKLEARN or any(
            part == exempt and name.startswith(module)
            for exempt, module in SKLEARN_EXCEPTIONS
        )
        assert allowed, f"{path} imports {name}"
        private = any(piece.startswith("_") for piece in name.split("."))
        assert not private or path in PRIVATE_DOORS, f"{path} imports private {name}"


def check_metrics_score_alone(path, source):
    """Raise unless what a file imports from metrics is used in `score` alone."""
    tree, imported, allowed = ast.parse(source), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skbnp.metrics"):
            imported.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef) and node.name == "score":
            allowed.update(ast.walk(node))
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            is_whole = any(name.startswith("skbnp.metrics") for name in names)
            assert not is_whole, f"{path} imports metrics as a whole"
    for node in ast.walk(tree):
        is_used = isinstance(node, ast.Name) and node.id in imported
        is_allowed = not is_used or node in allowed
        assert is_allowed, f"{path} uses {node.id} outside of score"


#: A variable of C, or of a module, that functions change: two threads would share it.
SHARED = re.compile(
    r"^\s*static\s+(?!.*\bconst\b)[^()]*[;=\[]|^\s*global\s", re.MULTILINE
)


def check_has_no_state(path, source):
    found = SHARED.search(source)
    assert not found, f"{path}: {found[0].strip()} ... is shared by threads"


FILES = python_files(PACKAGE)


def test_every_part_has_a_layer():
    assert {part_of(path) for path in FILES} - {"__init__"} <= LAYERS.keys()


def test_imports_point_down():
    for path in FILES:
        check_points_down(path, imports((PACKAGE / path).read_text()))


def test_sklearn_comes_in_through_its_doors():
    for path in FILES:
        check_sklearn_door(path, imports((PACKAGE / path).read_text()))


def test_estimators_ask_metrics_for_scores_alone():
    for path in FILES:
        if part_of(path) == "estimators":
            check_metrics_score_alone(path, (PACKAGE / path).read_text())


def test_kernels_have_no_state():
    kernels = PACKAGE / "kernels"
    for pattern in ("*.pyx", "*.pxd", "*.h"):
        for path in python_files(kernels, pattern):
            check_has_no_state(path, (kernels / path).read_text())


# -- negative controls -----------------------------------------------------------------


def test_the_check_of_estimators_tells_another_use_of_metrics():
    source = "from skbnp.metrics import a\ndef transform(self, X):\n    return a(X)"
    check_metrics_score_alone("a.py", source.replace("transform", "score"))
    with pytest.raises(AssertionError):
        check_metrics_score_alone("a.py", source)


def test_state_of_a_kernel_is_noticed():
    check_has_no_state("a.h", "static const double TABLE[2] = {1.0, 2.0};")
    for source in ("static int n_calls = 0;", "cdef f():\n    global n\n    n += 1"):
        with pytest.raises(AssertionError, match="shared by threads"):
            check_has_no_state("a.h", source)


@pytest.mark.parametrize(
    ("check", "path", "source", "message"),
    [
        (check_points_down, "inference/a.py", "import skbnp.models.hdp", "not below"),
        (check_sklearn_door, "models/a.py", "import sklearn.base", "imports"),
        (check_sklearn_door, "estimators/a.py", "import sklearn.utils._a", "imports"),
    ],
)
def test_a_wrong_import_is_named(check, path, source, message):
    with pytest.raises(AssertionError, match=message):
        check(Path(path), imports(source))


def test_no_two_modules_import_each_other():
    assert circles(modules()) == []


def test_a_circle_is_noticed():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
