"""Names of a package that are imported when they are first asked for."""

import importlib
import platform
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def importer(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names are in some of its modules.

    `modules` are the modules by name, relative to the package.
    """

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{modules[name]}")
        return vars(sys.modules[package]).setdefault(name, getattr(module, name))

    return __getattr__


def import_optional(module: str, need: str, install: str) -> Any:
    """Import a module that `need` names, or raise ImportError with advice."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        is_absent = getattr(error, "name", None) == module.partition(".")[0]
        raise ImportError(f"{need}; install it with `pip install {install}`.") from (
            None if is_absent else error
        )


def import_pandas() -> Any:
    """Import pandas for a frame."""
    return import_optional("pandas", "This frame needs pandas", "pandas")


#: Address of the published pages, "" while there are none; `.ci/release` fills it in.
#: Links of the metadata, of drawings of estimators and of the pages begin with it.
SITE = ""


# Versions of the machine and the packages, for bug reports.


#: Packages that skbnp needs, and those that it can use.
PACKAGES = (
    "skbnp numpy scipy scikit-learn joblib threadpoolctl Cython matplotlib pandas "
    "networkx skops"
).split()


def show_versions() -> None:
    """Print the versions of Python, of the system and of packages, for an issue."""
    facts = {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
    }
    for name in PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    width = max(map(len, facts))
    for name, fact in facts.items():
        print(f"{name:>{width}}: {fact}")
