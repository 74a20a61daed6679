"""Estimators in scikit-learn's manner: parameters, validation, fitted attributes."""

from skbnp.estimators._hdp import HDP, SplitMerge

__all__ = ["HDP", "SplitMerge"]
