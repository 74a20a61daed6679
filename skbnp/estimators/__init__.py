"""Estimators in scikit-learn's manner: parameters, validation, fitted attributes."""

from skbnp.estimators import _forms  # noqa: F401
from skbnp.estimators._dependent_trees import DependentTrees, EpochMoves
from skbnp.estimators._gibbs_dependent_trees import GibbsDependentTrees
from skbnp.estimators._gibbs_hdp import GibbsHDP
from skbnp.estimators._gibbs_nested_crp import GibbsNestedCRP
from skbnp.estimators._hca import HierarchicalComponentAnalysis
from skbnp.estimators._hdp import HDP, SplitMerge
from skbnp.estimators._known_topics import KnownTopics
from skbnp.estimators._merge_fits import merge_fits
from skbnp.estimators._nested_crp import NestedCRP, TreeMoves
from skbnp.estimators._nested_hdp import NestedHDP
from skbnp.estimators._stick_breaking_hdp import StickBreakingHDP

__all__ = [
    "HDP",
    "DependentTrees",
    "EpochMoves",
    "GibbsDependentTrees",
    "GibbsHDP",
    "GibbsNestedCRP",
    "HierarchicalComponentAnalysis",
    "KnownTopics",
    "NestedCRP",
    "NestedHDP",
    "SplitMerge",
    "StickBreakingHDP",
    "TreeMoves",
    "merge_fits",
]
