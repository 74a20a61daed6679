"""Files of estimators and of unfinished fits: arrays and JSON, no code."""

import os
from importlib import import_module
from typing import Any

from sklearn.base import BaseEstimator

import skbnp.estimators
from skbnp.callbacks import Checkpoint
from skbnp.estimators._checkpoints import content_of, kind_label, saved_in
from skbnp.utils.archive import FitFile

__all__ = ["load", "save"]


def save(estimator: BaseEstimator, path: str | os.PathLike) -> None:
    """Write an estimator to a file that :func:`skbnp.load` reads.

    The file holds arrays and JSON alone, and is written under another name and then
    renamed: whatever ends the process leaves the file of before, or the new one.

    Parameters
    ----------
    estimator : estimator instance
        Of this package, fitted or not. A Pipeline is written by joblib.
    path : path-like
        A file that is there is replaced.

    Raises
    ------
    TypeError
        If the estimator is of no class of `skbnp`, or a parameter is no data.
    """
    name = type(estimator).__name__
    if _classes().get(name) is not type(estimator):
        raise TypeError(
            f"estimator must be an estimator of skbnp ({', '.join(_classes())}), got "
            f"{name}. Save the estimator in a Pipeline or a search, pipeline[-1] or "
            "search.best_estimator_, or write all of it with joblib.dump."
        )
    file, state = FitFile(path, every=1), vars(estimator)
    file.write(kind_label(estimator), content_of(estimator, state, None, 1))


def load(path: str | os.PathLike) -> Any:
    """Read an estimator from a file of :func:`skbnp.save` or of a checkpoint.

    Nothing of the file is executed, and what it holds is checked.

    Parameters
    ----------
    path : path-like
        A file that :func:`skbnp.save` or :class:`skbnp.callbacks.Checkpoint` has
        written.

    Returns
    -------
    estimator : estimator instance
        As it was. If its `fit` had not ended, it is fitted so far, and `fit` with the
        same data goes on to the bits of the unbroken fit, with the same checkpoint;
        other data are refused. `sklearn.base.clone` has the parameters alone.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, or of another kind, and no older one is beside it.

    See Also
    --------
    skbnp.callbacks.Checkpoint : Writes a fit while it goes on.

    Examples
    --------
    >>> import skbnp, tempfile
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(200, side=4, random_state=0).data
    >>> hdp = skbnp.HDP(random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skbnp.save(hdp, f"{folder}/hdp.skbnp")
    ...     loaded = skbnp.load(f"{folder}/hdp.skbnp")
    >>> bool((loaded.transform(X) == hdp.transform(X)).all())
    True
    """
    kinds: list[type] = []
    result = FitFile(path, every=1).read(
        lambda content: saved_in(content, kinds[0]),
        lambda label: kinds.append(_kind_of(label)),
    )
    if result is None:
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if result.account is not None:
        checkpoint = Checkpoint(path, every=result.every)
        checkpoint.file.is_loaded = True
        result.estimator.set_callbacks(checkpoint)
    return result.estimator


def _classes(module: Any = skbnp.estimators) -> dict[str, type]:
    """Return the classes that files can be of, by name."""
    kinds = [getattr(module, name) for name in module.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type)]
    return {kind.__name__: kind for kind in kinds if issubclass(kind, BaseEstimator)}


def _kind_of(label: Any) -> type:
    """Return the class that the label of a file names."""
    place, _, name = str(label.get("class")).rpartition(".")
    module = import_module("skbnp.dask") if place == "dask" else skbnp.estimators
    kind = _classes(module).get(name)
    if kind is None or place not in ("", "dask"):
        raise ValueError(
            f"The file is of {label.get('class')!r}, which is no estimator of skbnp: "
            f"{', '.join(_classes())}."
        )
    return kind
