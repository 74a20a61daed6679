"""Bayesian nonparametric models with a scikit-learn interface."""

import importlib
from types import ModuleType

from skbnp.estimators import (
    HDP,
    DependentTrees,
    GibbsDependentTrees,
    GibbsHDP,
    GibbsNestedCRP,
    HierarchicalComponentAnalysis,
    KnownTopics,
    NestedCRP,
    NestedHDP,
    StickBreakingHDP,
    merge_fits,
)
from skbnp.saving import load, save
from skbnp.utils.versions import show_versions

__all__ = [
    "HDP",
    "DependentTrees",
    "GibbsDependentTrees",
    "GibbsHDP",
    "GibbsNestedCRP",
    "HierarchicalComponentAnalysis",
    "KnownTopics",
    "NestedCRP",
    "NestedHDP",
    "StickBreakingHDP",
    "__version__",
    "load",
    "merge_fits",
    "save",
    "show_versions",
]

__version__ = "0.1.0.dev0"

_SUBMODULES = {"callbacks", "datasets", "inspection", "metrics", "trees"}


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:  # imported when first asked for
        return importlib.import_module(f"skbnp.{name}")
    raise AttributeError(f"module 'skbnp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
