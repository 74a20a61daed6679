"""Names of scikit-learn that are private, or that versions before 1.9 lack.

Many estimators outside scikit-learn use the names below that it keeps private, but they
may move; they are imported here and nowhere else.
"""

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from sklearn import __version__
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _get_feature_names as get_feature_names

__all__ = ["HasMethods", "Interval", "Options", "StrOptions"]
__all__ += ["CallbackContext", "CallbackSupportMixin", "fit_context"]
__all__ += ["check_sample_weight", "get_feature_names", "validate_params"]

#: Whether scikit-learn has callbacks, and reads the names of frames of all kinds.
IS_NEW = find_spec("sklearn.callback") is not None

if TYPE_CHECKING:
    from sklearn.callback import CallbackContext, CallbackSupportMixin

    Method = TypeVar("Method", bound=Callable)

    def fit_context(
        *, prefer_skip_nested_validation: bool
    ) -> Callable[[Method], Method]:
        """Scikit-learn's decorator that checks parameters, with the method's type."""

    def validate_params(parameter_constraints: dict) -> Callable[[Method], Method]:
        """Return scikit-learn's decorator of functions, with the function's type."""

else:
    from sklearn.base import _fit_context as fit_context
    from sklearn.utils import _param_validation

    def validate_params(constraints):
        """Return scikit-learn's decorator that checks parameters of functions.

        In the function, numbers too small for a float are zero, also where a user's
        code makes NumPy raise (of fits and predictions the executor sees to that).
        """
        check = _param_validation.validate_params(
            constraints, prefer_skip_nested_validation=False
        )

        def decorate(function):
            @wraps(function)
            def run(*args, **kwargs):
                with np.errstate(under="ignore"):
                    return function(*args, **kwargs)

            return check(run)

        return decorate

    if IS_NEW:
        from sklearn.callback import CallbackContext, CallbackSupportMixin
    else:

        class CallbackContext:
            """A task of a fit without callbacks."""

            def subcontext(self, task_name="", **how):
                """Return the task of a part."""
                return self

            def call_on_fit_task_begin(self, **arguments):
                """Do nothing."""

            def call_on_fit_task_end(self, **arguments):
                """Return that the fit goes on."""
                return False

        class CallbackSupportMixin:
            """Estimators that have checkpoints, which they write, and no callbacks."""

            def set_callbacks(self, *callbacks):
                """Set checkpoints, which need no callbacks of scikit-learn.

                Parameters
                ----------
                *callbacks : Checkpoint
                    None removes those there are.

                Returns
                -------
                self : estimator instance
                    The estimator itself.

                Raises
                ------
                ImportError
                    If others are given, which need scikit-learn 1.9 or later.
                """
                if not all(hasattr(callback, "file") for callback in callbacks):
                    raise ImportError(
                        "Callbacks other than skbnp.callbacks.Checkpoint need "
                        f"scikit-learn 1.9 or later, {__version__} is installed. "
                        'Update it with `pip install "scikit-learn>=1.9"`.'
                    )
                self._skl_callbacks = list(callbacks)
                if not callbacks:
                    del self._skl_callbacks
                return self

            def __sklearn_clone__(self):
                """Return a clone, with the same callbacks."""
                checkpoints = getattr(self, "_skl_callbacks", ())
                return super().__sklearn_clone__().set_callbacks(*checkpoints)

            def _init_callback_context(self, task_name="fit", **how):
                return CallbackContext()
