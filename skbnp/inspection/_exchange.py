"""Export of fits to containers of other packages: AnnData and ArviZ."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skbnp.utils import fitted as read
from skbnp.utils.mixing import FEWEST, has_mixed

#: What a history has besides what was drawn, and what ArviZ calls it, if it has a use.
STATISTICS = {
    "log_joint": "lp",
    "n_splits": "n_splits",
    "n_merges": "n_merges",
    "epoch": "epoch",
    "chain": "",
    "step": "",
    "seconds": "",
}


def to_anndata(
    estimator: BaseEstimator,
    X: Any,
    *,
    layer: str | None = None,
    key: str = "topics",
    epochs: Any = None,
) -> Any:
    """Write topics and their shares into an AnnData.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Fitted to `X.X`, to the `layer`, or to rows with the same columns.
    X : AnnData, or array-like or sparse of shape (n_samples, n_features)
        What is written to, or rows of which an AnnData is made.
    layer : str or None, default=None
        Counts in `X.layers` in the place of `X.X`.
    key : str, default="topics"
        Names what is written.
    epochs : array-like of shape (n_samples,) or scalar, default=None
        Labels of the epochs of rows, for an estimator whose `transform` takes them.

    Returns
    -------
    adata : AnnData
        `X`, or a new one, with ``obsm["X_" + key]``, what `transform` returns,
        ``varm[key]``, the probabilities of columns in topics, (n_features,
        n_components), or their directions, and ``uns[key]``, a dict of their "numbers",
        "names" and "weights" and of the name of the "model".

    Raises
    ------
    ImportError
        If `X` is no AnnData, and anndata is not installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If `layer` is given and `X` is no AnnData.
    ValueError
        If `X` has no such layer, or another number of columns.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from skbnp import HDP
    >>> from skbnp.inspection import to_anndata
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> adata = SimpleNamespace(X=X, obsm={}, varm={}, uns={}, layers={})  # an AnnData
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(adata.X)
    >>> to_anndata(hdp, adata).obsm["X_topics"].shape, adata.varm["topics"].shape
    ((36, 2), (3, 2))
    """
    read.fitted(estimator, "transform")
    model = read.fitted_model(estimator)
    is_given = hasattr(X, "obsm") and hasattr(X, "uns")
    if not is_given:
        if layer is not None:
            raise TypeError(
                f"layer must be None where X is no AnnData, got {layer!r} and a "
                f"{type(X).__name__}."
            )
        try:
            from anndata import AnnData
        except ImportError as error:
            raise ImportError(
                "An AnnData of rows needs anndata; install it with "
                "`pip install anndata`, or pass an AnnData."
            ) from error
    elif layer is not None and layer not in X.layers:
        raise ValueError(
            f"layer must be one of {sorted(X.layers)[:10]}, got {layer!r}."
        )
    counts = X
    if is_given:
        counts = X.X if layer is None else X.layers[layer]
    counts = read.model_rows(estimator, counts)
    given = {} if epochs is None else {"epochs": epochs}
    shares = model.transform(counts, **given)
    shares = shares.compute() if hasattr(shares, "compute") else shares
    weights, distr = read.topics(estimator)
    names = read.topic_names(estimator, len(weights))
    adata = X if is_given else AnnData(counts)
    adata.obsm[f"X_{key}"] = shares
    adata.varm[key] = np.ascontiguousarray(np.asarray(read.in_memory(distr)).T)
    adata.uns[key] = {
        "numbers": read.topic_numbers(estimator, len(weights)),
        "names": np.array([name or "" for name in names], dtype=str),
        "weights": np.asarray(weights),
        "model": type(model).__name__,
    }
    return adata


def to_arviz(estimator: BaseEstimator) -> Any:
    """Return the chains of a sampler as data of ArviZ.

    Parameters
    ----------
    estimator : fitted sampler, or Pipeline that ends in one
        With `samples_` and a `history_` of its chains.

    Returns
    -------
    data : DataTree or InferenceData
        What ArviZ 1 or 0 takes, a draw for each sweep after burn-in: "posterior", the
        number of topics, and concentrations and priors; "sample_stats", the log joint
        in nats per token or row, "lp", and the number of moves.

    Raises
    ------
    ImportError
        If neither arviz-base nor ArviZ is installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model is no sampler.
    ValueError
        If there are fewer than eight sweeps after burn-in.

    See Also
    --------
    TopicTraceDisplay : The largest topics of each sample, drawn.

    Notes
    -----
    Topics have no order that chains agree on, so their own weights are left out:
    :func:`consensus_components` says which topics recur.
    """
    posterior, statistics = chain_arrays(estimator)
    groups = {"posterior": posterior, "sample_stats": statistics}
    try:
        import arviz_base
    except ImportError:
        try:
            import arviz
        except ImportError as error:
            raise ImportError(
                "Data of ArviZ need it; install it with `pip install arviz-base`."
            ) from error
        return arviz.from_dict(**groups)
    return arviz_base.from_dict(groups)


def chain_arrays(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return draws and statistics of sweeps of chains, (n_chains, n_draws, ...)."""
    read.fitted(estimator, "samples_")
    model = read.fitted_model(estimator)
    traces = {name: has_mixed(model, name) for name in model.history_}
    if traces["log_joint"] is None:
        raise ValueError(
            f"estimator must have chains of {FEWEST} sweeps or more after burn-in: "
            "increase max_iter, or decrease burn_in."
        )
    posterior = {name: traces[name] for name in traces if name not in STATISTICS}
    statistics = {new: traces[old] for old, new in STATISTICS.items() if old in traces}
    return posterior, {name: trace for name, trace in statistics.items() if name}
