"""Estimators in scikit-learn's manner: parameters, validation, fitted attributes.

A class is imported when it is first asked for, without the models of the others.
"""

from typing import TYPE_CHECKING

from skbnp.utils.lazy import importer
from skbnp.utils.plain import register_when_needed

if TYPE_CHECKING:
    from skbnp.estimators._dependent_trees import DependentTrees, EpochMoves
    from skbnp.estimators._gibbs_dependent_trees import GibbsDependentTrees
    from skbnp.estimators._gibbs_hdp import GibbsHDP
    from skbnp.estimators._gibbs_nested_crp import GibbsNestedCRP
    from skbnp.estimators._hca import HierarchicalComponentAnalysis
    from skbnp.estimators._hdp import HDP, SplitMerge
    from skbnp.estimators._known_topics import KnownTopics
    from skbnp.estimators._merges import reduce_topics
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
    "reduce_topics",
]

_MODULES = {
    "HDP": "_hdp",
    "DependentTrees": "_dependent_trees",
    "EpochMoves": "_dependent_trees",
    "GibbsDependentTrees": "_gibbs_dependent_trees",
    "GibbsHDP": "_gibbs_hdp",
    "GibbsNestedCRP": "_gibbs_nested_crp",
    "HierarchicalComponentAnalysis": "_hca",
    "KnownTopics": "_known_topics",
    "NestedCRP": "_nested_crp",
    "NestedHDP": "_nested_hdp",
    "SplitMerge": "_hdp",
    "StickBreakingHDP": "_stick_breaking_hdp",
    "TreeMoves": "_nested_crp",
    "reduce_topics": "_merges",
}

register_when_needed("skbnp.estimators._forms")

__getattr__ = importer(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
