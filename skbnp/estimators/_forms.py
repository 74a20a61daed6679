"""Registry of estimators that are parameters of others, for files."""

from functools import partial
from typing import Any

from sklearn.frozen import FrozenEstimator

from skbnp.estimators._gibbs_hdp import GibbsHDP
from skbnp.estimators._gibbs_nested_crp import GibbsNestedCRP
from skbnp.estimators._hdp import HDP
from skbnp.estimators._nested_crp import NestedCRP
from skbnp.estimators._stick_breaking_hdp import StickBreakingHDP
from skbnp.models import forms  # noqa: F401
from skbnp.utils.plain import register


def _state_of(estimator: Any) -> dict[str, Any]:
    return {"state": estimator.__getstate__()}


def _made(kind: type, state: dict) -> Any:
    """Restore an estimator of a class from its state."""
    estimator: Any = object.__new__(kind)
    estimator.__setstate__(state)
    return estimator


register(
    FrozenEstimator,
    tag="frozen-estimator",
    types={"estimator": object},
    make=FrozenEstimator,
    state=vars,
)
for _kind in (GibbsHDP, GibbsNestedCRP, HDP, NestedCRP, StickBreakingHDP):
    register(_kind, types={"state": dict}, make=partial(_made, _kind), state=_state_of)
