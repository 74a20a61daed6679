"""Names of a package that are imported when they are first asked for."""

import importlib
import sys
from collections.abc import Callable, Mapping
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
        raise ImportError(
            f"{need}; install it with `pip install {install}`."
        ) from error


def import_pandas() -> Any:
    """Import pandas for a frame."""
    return import_optional("pandas", "This frame needs pandas", "pandas")
