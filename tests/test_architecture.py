"""Imports point down, and each outside library comes in through its door."""

import ast
import sys
from pathlib import Path

import pytest
from sklearn.base import clone

import skbnp
from checks.estimators import EVALUATIONS, FIRST, rows_of
from checks.long import daily
from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.metrics import document_completion_score, split_tokens

PACKAGE = Path(skbnp.__file__).parent

#: Files and functions of the package that a default fit of `HDP` runs, trials included.
N_FILES, N_FUNCTIONS = 36, 316
#: Lines of a module of models or of inference, at most.
MOST_LINES = 500
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
PRIVATE_DOORS = {Path("utils/validation.py")}


def python_files(root, pattern="*.py"):
    return sorted(path.relative_to(root) for path in root.rglob(pattern))


def part_of(path):
    return path.parts[0].removesuffix(".py")


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


def watched(watch, function, *given):
    """Call a function under a profiler."""
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        function(*given)
    finally:
        sys.setprofile(before)


def calls_between_parts(function, *given):
    """Pairs of parts of the package, of which one calls the other in a call."""
    pairs = set()

    def part(frame):
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(PACKAGE):
            return None
        return part_of(path.relative_to(PACKAGE))

    def watch(frame, event, _):
        if event != "call" or part(frame) is None:
            return
        caller = frame.f_back
        while caller is not None and part(caller) is None:
            caller = caller.f_back
        if caller is not None:
            pairs.add((part(caller), part(frame)))

    watched(watch, function, *given)
    return pairs


def functions_called(function, *given):
    """Functions of the package that a call runs, by file; inner ones do not count."""
    called = set()

    def watch(frame, event, _):
        code = frame.f_code
        is_own = event == "call" and code.co_filename.startswith(str(PACKAGE))
        if is_own and "<" not in code.co_qualname:
            called.add((code.co_filename, code.co_qualname))

    watched(watch, function, *given)
    return called


def check_evaluation_goes_one_way(estimator, method, X):
    pairs = calls_between_parts(getattr(estimator, method), X)
    asked = {called for caller, called in pairs if caller in ("estimators", "metrics")}
    assert asked & {"inference", "models"}
    if method in ("score", "perplexity"):
        assert ("metrics", "estimators") not in pairs, "metrics call estimators"
    else:
        assert "metrics" not in {callee for _, callee in pairs}, "metrics are called"


FILES = python_files(PACKAGE)


def test_every_part_has_a_layer():
    assert {part_of(path) for path in FILES} - {"__init__"} <= LAYERS.keys()


def is_on_the_map(path, text):
    names = (path.stem, path.as_posix(), (Path("skbnp") / path).as_posix())
    return path.stem == "__init__" or any(f"`{name}`" in text for name in names)


def test_each_file_is_on_the_map():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in [*FILES, *python_files(PACKAGE / "kernels", "*.pyx")]:
        assert is_on_the_map(path, text), path
    assert not is_on_the_map(Path("utils/nothing.py"), text)


def long_modules(root):
    """Modules of models and inference of more than `MOST_LINES` lines."""
    return [
        path
        for path in python_files(root)
        if path.parts[0] in ("models", "inference")
        and len((root / path).read_text(encoding="utf-8").splitlines()) > MOST_LINES
    ]


def test_modules_of_models_and_inference_are_short(tmp_path):
    assert long_modules(PACKAGE) == []
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "long.py").write_text("\n" * (MOST_LINES + 1))
    assert long_modules(tmp_path) == [Path("models/long.py")]


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


@pytest.mark.usefixtures("one_split")
@pytest.mark.parametrize("name", daily(2, FIRST))
def test_evaluation_goes_one_way(name):
    X = rows_of(FIRST[name], make_bars(30, random_state=0).data)
    estimator = clone(FIRST[name]).fit(X)
    for method in (name for name in EVALUATIONS if hasattr(estimator, name)):
        check_evaluation_goes_one_way(estimator, method, X)


def test_a_fit_walks_through_few_files_and_functions():
    """What a reader of `HDP.fit` has to read; lower the numbers, never raise them."""
    X = make_bars(60, random_state=0).data
    HDP(max_iter=1, random_state=0).fit(X)
    called = functions_called(HDP(max_iter=30, random_state=0).fit, X)
    n_files, n_functions = len({file for file, _ in called}), len(called)
    assert 30 < n_files <= N_FILES
    assert 200 < n_functions <= N_FUNCTIONS


# -- negative controls -----------------------------------------------------------------


class AsksBack(HDP):
    """Has metrics ask the estimator."""

    def score(self, X, y=None):
        return document_completion_score(self, X)


class ComputesInMetrics(HDP):
    """Looks at documents by means of metrics."""

    def transform(self, X):
        return super().transform(split_tokens(X)[0])


@pytest.mark.parametrize(
    ("wrong", "method"), [(AsksBack, "score"), (ComputesInMetrics, "transform")]
)
def test_the_check_of_evaluation_tells_a_detour(wrong, method):
    X = make_bars(30, random_state=0).data
    estimator = wrong(4, max_iter=1, random_state=0).fit(X)
    with pytest.raises(AssertionError, match="metrics"):
        check_evaluation_goes_one_way(estimator, method, X)


@pytest.mark.parametrize(
    "source",
    [
        "from skbnp.metrics import a\ndef transform(self, X):\n    return a(X)",
        "from skbnp.metrics._held_out import a as b\nf = b",
        "import skbnp.metrics._held_out as m",
    ],
)
def test_the_check_of_estimators_tells_another_use_of_metrics(source):
    with pytest.raises(AssertionError):
        check_metrics_score_alone("a.py", source)


def test_the_check_of_estimators_accepts_a_score():
    check_metrics_score_alone(
        "a.py",
        "from skbnp.metrics import a\ndef score(self, X):\n    return a(self, X)",
    )


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("inference/a.py", "from skbnp.models.hdp.model import DirectHDP"),
        ("components/a.py", "from skbnp.inference.engine import learn"),
        ("inference/a.py", "import skbnp.metrics"),
        ("metrics/a.py", "from skbnp.estimators._trees import TopicTreeMixin"),
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


def test_no_two_modules_import_each_other():
    assert circles(modules()) == []


def test_a_circle_is_noticed():
    chain = {"a": {"b"}, "b": {"c"}, "c": set()}
    assert circles(chain) == []
    assert circles({**chain, "c": {"b"}}) == ["b", "c"]
