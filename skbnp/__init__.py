"""Bayesian nonparametric models with a scikit-learn interface."""

from skbnp.estimators import HDP

__all__ = ["HDP", "__version__"]

__version__ = "0.1.0.dev0"
