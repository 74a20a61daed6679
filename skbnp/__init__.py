"""Bayesian nonparametric models with a scikit-learn interface."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        reduce_topics,
    )
    from skbnp.saving import load, save
    from skbnp.utils.lazy import show_versions

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
    "reduce_topics",
    "save",
    "show_versions",
]

__version__ = "0.1.0.dev0"

_SUBMODULES = {"callbacks", "datasets", "inspection", "metrics", "trees"}
_ELSEWHERE = {
    "load": "skbnp.saving",
    "save": "skbnp.saving",
    "show_versions": "skbnp.utils.lazy",
}


def __getattr__(name: str) -> Any:
    """Import a submodule, estimator or function when it is first used."""
    if name in _SUBMODULES or name == "estimators":
        return importlib.import_module(f"skbnp.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'skbnp' has no attribute {name!r}")
    module = importlib.import_module(_ELSEWHERE.get(name, "skbnp.estimators"))
    return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
