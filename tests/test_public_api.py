"""The public names, and what is promised for all of them."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from importlib.metadata import version

import pytest

import skbnp
from test_docs import PUBLIC_MODULES

#: What takes long to import, and `HDP` does not need.
LATE = [
    "dask",
    "distributed",
    "matplotlib",
    "scipy.cluster",
    "skbnp.callbacks",
    "skbnp.inspection",
    "skbnp.metrics._evidence",
    "sklearn.cluster",
    "sklearn.manifold",
    "sklearn.neighbors",
]


def test_every_module_imports_and_says_what_it_is():
    generated = "skbnp.kernels._memory_views"  # all of it by Cython
    for module in pkgutil.walk_packages(skbnp.__path__, "skbnp."):
        result = importlib.import_module(module.name)
        assert result.__doc__ or module.name == generated, module.name


def test_version_is_that_of_the_distribution():
    assert skbnp.__version__ == version("skbnp")


def test_estimator_parameters_after_the_first_are_keyword_only():
    parameters = list(inspect.signature(skbnp.HDP).parameters.values())
    assert parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[1:])


@pytest.mark.parametrize("kind", [skbnp.HDP, skbnp.NestedCRP])
def test_errors_of_constructors_name_the_estimator(kind):
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__\(\) got"):
        kind(n_topics=3)


def test_importing_needs_no_optional_library():
    blocked = [
        "matplotlib",
        "networkx",
        "pandas",
        "polars",
        "rich",
        "dask",
        "distributed",
        "Cython",
    ]
    modules = [module for module in PUBLIC_MODULES if module != "skbnp.dask"]
    code = (
        "import sys\n"
        f"for name in {blocked}: sys.modules[name] = None\n"
        "import skbnp\n"
        "skbnp.inspection.summary; skbnp.metrics.perplexity\n"
        f"for name in {modules}: __import__(name)\n"
        "try: import skbnp.dask\n"
        "except ImportError as error: assert 'skbnp[dask]' in str(error)\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_types_are_shipped():
    from importlib.resources import files

    assert (files("skbnp") / "py.typed").is_file()
    assert (files("skbnp") / "kernels" / "_hdp_local.pyi").is_file()


def test_other_names_are_no_submodules():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        skbnp.nonsense  # noqa: B018


def test_modules_are_imported_when_they_are_asked_for():
    """The package is one module; an estimator needs no other library's estimators."""
    code = (
        "import sys, skbnp\n"
        "first = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not first & {'numpy', 'scipy', 'sklearn'}\n"
        "assert [m for m in sys.modules if m.startswith('skbnp')] == ['skbnp']\n"
        "skbnp.show_versions\n"
        "assert 'skbnp.estimators' not in sys.modules\n"
        "from skbnp import HDP\n"
        f"late = [name for name in {LATE} if name in sys.modules]\n"
        "assert not late, late\n"
        "models = {name.split('.')[2] for name in sys.modules"
        " if name.startswith('skbnp.models.')}\n"
        "assert models == {'hdp'}, models\n"
        "from skbnp import load\n"
        "assert skbnp.HDP is HDP is skbnp.estimators.HDP and skbnp.load is load\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


@pytest.mark.parametrize(
    "module", ["skbnp", "skbnp.callbacks", "skbnp.estimators", "skbnp.metrics"]
)
def test_dir_lists_public_names(module):
    imported = importlib.import_module(module)
    listed = set(dir(imported))
    assert listed >= set(imported.__all__)
    assert not listed & {"np", "time", "importlib", "ModuleType", "estimators"}


def test_show_versions_names_what_an_issue_needs(capsys):
    skbnp.show_versions()
    shown = capsys.readouterr().out
    for name in ("skbnp", "numpy", "scipy", "scikit-learn"):
        assert f"{name}: {version(name)}\n" in shown
    assert sys.executable in shown
