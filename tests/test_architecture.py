"""Imports point down, and each outside library comes in through its door."""

import ast
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
    "models": 3,
    "datasets": 4,
    "inference": 4,
    "metrics": 4,
    "models/": 5,  # folders of models that hold how they learn, too
    "callbacks": 6,
    "estimators": 6,
    "dask": 7,
    "inspection": 7,
}
#: The one way between two parts of one layer.
SIDEWAYS = {("metrics", "inference")}
#: Where scikit-learn may be met.
SKLEARN = {"estimators", "callbacks", "datasets", "inspection", "metrics", "utils"}
#: scikit-learn's helpers for parallel work, which the executor is for.
SKLEARN_EXCEPTIONS = {("inference", "sklearn.utils.parallel")}
#: Where its private names may be.
PRIVATE_DOORS = {Path("utils/validation.py")}


def python_files(root):
    return sorted(path.relative_to(root) for path in root.rglob("*.py"))


def part_of(path):
    part = path.parts[0].removesuffix(".py")
    return "models/" if part == "models" and len(path.parts) > 2 else part


def is_folder_of_a_model(pieces):
    """Whether the pieces of a name are of a package below `skbnp.models`."""
    folder = PACKAGE.joinpath(*pieces[1:3])
    return pieces[1] == "models" and len(pieces) > 2 and folder.is_dir()


def imports(source):
    """Absolute names of all modules that a source file imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def check_points_down(path, names):
    part = part_of(path)
    if part == "__init__":
        return
    for name in names:
        pieces = name.split(".")
        if pieces[0] != "skbnp" or len(pieces) < 2:
            continue
        other = "models/" if is_folder_of_a_model(pieces) else pieces[1]
        if other == part:
            continue
        assert other in LAYERS, f"{path} imports {name}"
        down = LAYERS[other] < LAYERS[part] or (part, other) in SIDEWAYS
        assert down, f"{path} imports {name}, which is not below it"


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


FILES = python_files(PACKAGE)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_point_down(path):
    check_points_down(path, imports((PACKAGE / path).read_text()))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_sklearn_comes_in_through_its_doors(path):
    check_sklearn_door(path, imports((PACKAGE / path).read_text()))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_part_has_a_layer(path):
    assert part_of(path) == "__init__" or part_of(path) in LAYERS


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("models/a.py", "from skbnp.inference.engine import learn"),
        ("models/a.py", "from skbnp.models.hca.model import State"),
        ("models/hca/a.py", "from skbnp.estimators import HDP"),
        ("inference/a.py", "import skbnp.metrics"),
        ("utils/a.py", "def f():\n    from skbnp.kernels import x"),
    ],
)
def test_the_check_of_layers_tells_an_upward_import(path, source):
    with pytest.raises(AssertionError, match="not below"):
        check_points_down(Path(path), imports(source))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("models/a.py", "from sklearn.base import BaseEstimator"),
        ("estimators/a.py", "from sklearn.utils._param_validation import Interval"),
    ],
)
def test_the_check_of_doors_tells_a_wrong_import(path, source):
    with pytest.raises(AssertionError, match="imports"):
        check_sklearn_door(Path(path), imports(source))
