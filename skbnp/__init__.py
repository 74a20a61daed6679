"""Bayesian nonparametric models with a scikit-learn interface."""

from skbnp.estimators import (
    HDP,
    GibbsHDP,
    GibbsNestedCRP,
    NestedCRP,
    StickBreakingHDP,
)

__all__ = [
    "HDP",
    "GibbsHDP",
    "GibbsNestedCRP",
    "NestedCRP",
    "StickBreakingHDP",
    "__version__",
]

__version__ = "0.1.0.dev0"
