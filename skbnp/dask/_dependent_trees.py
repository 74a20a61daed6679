"""Trees of topics that grow and drift over epochs, for rows on a cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from dask.delayed import Delayed, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.components.seen_words import SeenWords
from skbnp.dask._base import CLUSTER_PARAMETERS, ShardedMixin, no_shares
from skbnp.dask._checkpoints import Checkpoints, ShardRecord
from skbnp.dask._inputs import Block, NpzFile, is_lazy
from skbnp.dask._labels import Labels
from skbnp.dask._sessions import Session, sizes_by_label
from skbnp.estimators._dependent_trees import DependentTrees as LocalTrees
from skbnp.inference.schedules import ShardSchedule
from skbnp.models.dependent_trees.memory import RowLocalStep
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.models.dependent_trees.row_samples import (
    ROWS_PER_CLUSTER,
    SAMPLE,
    draw_rows,
)
from skbnp.models.dependent_trees.shard_tasks import seen_columns
from skbnp.utils.epochs import (
    Label,
    check_after,
    check_epochs,
    fitted_places,
    warn_if_few_rows,
    warn_of_newest,
)
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_directions, check_is_fitted

__all__ = ["DependentTrees"]


def read_directions(
    X: MatrixLike, labels: Labels, *, default: Label, n_features: int | None
) -> dict[Label, sp.csr_array]:
    """Normalise rows, drop zero rows, and group the rest by epoch label.

    Check the number of features, if it is given.
    """
    trees, is_first = LocalTrees(), n_features is None
    if n_features is not None:
        trees.n_features_in_ = n_features
    method = "fit" if is_first else "partial_fit"
    rows, _ = check_directions(trees, X, reset=is_first, method=method)
    used = np.diff(rows.indptr) > 0
    if labels is None:
        return {default: rows[used]}
    checked = check_epochs(labels, rows.shape[0])
    if checked.order is not None:
        raise ValueError(
            "epochs in lazy blocks must not be an ordered Categorical: blocks do not "
            "know each other's order. Pass its codes, or labels in memory."
        )
    numbers = [of[used[of]] for of in checked.rows()]
    return {kind: rows[of] for kind, of in zip(checked.kinds, numbers, strict=True)}


@dataclass(frozen=True)
class EpochRows:
    """Rows of one epoch, where they are."""

    session: Session
    label: Label
    shape: tuple[int, int]
    seen: SeenWords


@dataclass
class SessionRows:
    """Rows by epoch, in the order of the epochs, and what is known of their fit."""

    session: Session
    sizes: dict[Label, int]
    seen: SeenWords  # by rows of this session, or before
    checkpoints: Checkpoints | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, those without a direction too, and features."""
        n_rows = sum(description.n_rows for description in self.session.descriptions)
        return n_rows, self.session.n_features

    @property
    def epochs(self) -> list[Label]:
        """Labels."""
        return list(self.sizes)

    def __iter__(self) -> Iterator[tuple[Label, EpochRows]]:
        for label, size in self.sizes.items():
            shape = size, self.session.n_features
            yield label, EpochRows(self.session, label, shape, self.seen)


class DependentTrees(ShardedMixin, LocalTrees):
    """Dependent nonparametric trees of rows that stay where they are.

    What `skbnp.DependentTrees` is, for blocks of rows on the workers of a Dask cluster:
    the same model [2]_, parameters and fitted attributes [1]_. Local steps run on
    workers; the tree, its directions and its moves are this process's.

    Parameters
    ----------
    max_components : int or None, default=None
        Nodes at the most, the root included; None for no limit.
    child_concentration : float, default=0.5
        Concentration of the children of a node (gamma), in [1e-100, 1e10].
    stop_concentration : float, default=0.5
        Concentration of staying at a node (alpha), in [1e-100, 1e10].
    vmf_concentration : float or "auto", default="auto"
        Concentration of rows around their node (beta), > 0. "auto" maximises the bound.
    prior_concentration : float or "auto", default="auto"
        Concentration of directions around parent and past (kappa_0), > 0. "auto"
        maximises the bound.
    parent_weight : float, default=1.0
        Share of the parent in the prior of a direction (kappa_1), >= 0.
    past_weight : float or "auto", default="auto"
        Share of the past in the prior of a direction (kappa_2), >= 0. "auto" maximises
        the bound in each epoch, from 1 in the second one.
    window : int, default=1
        Past epochs whose rows count for the sticks (h), 1 or more.
    structure_moves : bool or EpochMoves, default=True
        Whether the tree changes within an epoch. Rows for which new nodes are tried
        travel to this process, `EpochMoves.birth_rows` of each target at the most.
    sparse_output : bool, default=False
        Whether `transform` returns sparse arrays.
    batch_size : int or None, default=None
        Without effect: updates follow `shards_per_round` shards.
    max_iter : int, default=100
        Passes over the rows of an epoch.
    tol : float, default=4e-3
        Learning of an epoch ends when the bound changes by less, relatively, between
        two passes, moves included.
    n_jobs : int or None, default=None
        Threads of this process. Workers use theirs.
    random_state : int, RandomState instance or None, default=None
        Which rows begin, their clusters, the order in which they choose their nodes,
        and where births are tried. The same int gives the same bits, for the same
        blocks, on however many workers of one kind of CPU.
    verbose : int, default=0
        Passes between messages; 0 for none.
    client : distributed.Client or None, default=None
        The cluster. None does the same in this process.
    checkpoint_dir : path-like or None, default=None
        Where what has been learned is written after each pass: arrays and JSON alone,
        renamed when they are whole; the newest two stay. `fit` alone writes them. What
        another fit has left there is removed, unless `resume` is set.
    resume : bool, default=False
        Whether `fit` continues from the newest checkpoint, if there is one: to the bits
        of a fit that nothing has stopped. It needs `checkpoint_dir`.
    shards_per_round : int or None, default=None
        Shards after which all directions are updated, in passes but the first of an
        epoch. None is all: a pass is one exact step. Results depend on it, and on how
        rows are cut into blocks, but not on which workers have them.
    timeout : float, default=30.0
        Seconds without a sign of life after which a worker is given up, and without any
        worker after which `fit` is.

    Attributes
    ----------
    tree_ : TreeView
        The tree of the newest epoch.
    components_ : ndarray of shape (n_components_, n_features)
        Mean directions of the nodes in the newest epoch, of length one.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected shares of the rows of the newest epoch at the nodes themselves; they
        sum to one where there are rows.
    epochs_ : dict of label to EpochRecord
        What was learned of each epoch, in order.
    vmf_concentration_, prior_concentration_, past_weight_ : float
        Values in force in the newest epoch.
    n_components_ : int
        Number of nodes of the newest tree.
    component_ids_ : ndarray of shape (n_components_,)
        Name of each node, kept from epoch to epoch: in texts, tables and figures, in
        `lineage_` and `epochs_`. Arrays and `apply` have rows.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from.
    n_active_components_ : int
        Nodes of the newest tree that have at least max(1, 1e-4 of all) expected rows of
        the newest epoch at them or below.
    elbo_ : float
        Bound of the newest epoch, given those before, in nats per row.
    converged_ : bool
        Whether `tol` ended the learning of each epoch of the last `fit`.
    history_ : dict of lists
        One entry per update.
    n_iter_ : int
        Passes made by the last `fit`, of all epochs.
    n_features_in_ : int
        Number of columns.

    See Also
    --------
    skbnp.DependentTrees : The same for rows in memory, with notes on the model.

    Notes
    -----
    Rows stay on workers, in single precision. In each pass a worker is sent the
    directions of all nodes once, four bytes for each node and feature, and returns sums
    of its rows, as many numbers as there are pairs of a node and a feature in use.

    A lost worker costs the time in which others read its blocks, and no bit of the
    result. Errors of the data are raised at once.

    The start differs from that of the local estimator: in each epoch 20,000 rows at the
    most are sent to this process, where they choose their nodes; all others go to the
    nodes that these leave.

    References
    ----------
    .. [1] Zhiting Hu, Qirong Ho, Avinava Dubey and Eric P. Xing, "Large-scale
       Distributed Dependent Nonparametric Trees", International Conference on Machine
       Learning, 2015.
    .. [2] Avinava Dubey, Qirong Ho, Sinead Williamson and Eric P. Xing, "Dependent
       nonparametric trees for dynamic hierarchical clustering", NIPS 2014.

    Examples
    --------
    >>> from skbnp.dask import DependentTrees
    >>> from skbnp.datasets import make_dependent_trees
    >>> import dask.array as da
    >>> corpus = make_dependent_trees(300, n_epochs=2, random_state=0)
    >>> X = da.from_array(corpus.data, chunks=(100, -1))
    >>> epochs = da.from_array(corpus.epochs, chunks=100)
    >>> trees = DependentTrees(random_state=0).fit(X, epochs=epochs)
    >>> trees.transform(X, epochs=epochs).shape[0]
    600
    """

    _local_class = LocalTrees
    _parameter_constraints: dict = {
        **LocalTrees._parameter_constraints,
        **CLUSTER_PARAMETERS,
    }

    def __init__(
        self,
        max_components=None,
        *,
        child_concentration=0.5,
        stop_concentration=0.5,
        vmf_concentration: float | str = "auto",
        prior_concentration: float | str = "auto",
        parent_weight=1.0,
        past_weight: float | str = "auto",
        window=1,
        structure_moves: bool | EpochMoves = True,
        sparse_output=False,
        batch_size=None,
        max_iter=100,
        tol=4e-3,
        n_jobs=None,
        random_state=None,
        verbose=0,
        client=None,
        checkpoint_dir=None,
        resume=False,
        shards_per_round=None,
        timeout=30.0,
    ):
        super().__init__(
            max_components,
            child_concentration=child_concentration,
            stop_concentration=stop_concentration,
            vmf_concentration=vmf_concentration,
            prior_concentration=prior_concentration,
            parent_weight=parent_weight,
            past_weight=past_weight,
            window=window,
            structure_moves=structure_moves,
            sparse_output=sparse_output,
            batch_size=batch_size,
            max_iter=max_iter,
            tol=tol,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.client = client
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.shards_per_round = shards_per_round
        self.timeout = timeout

    # -- learning ---------------------------------------------------------------------

    def fit(  # type: ignore[override]
        self, X: MatrixLike, y: object = None, epochs: Any = None
    ) -> Self:
        """Learn a tree of each epoch, in their order.

        Parameters
        ----------
        X : dask.array.Array, dask.bag.Bag, list of Delayed or of matrices, str or \
                list of path-like
            Rows that are put on the unit sphere, in blocks: chunks of an array, which
            may be sparse, of unknown size, or empty; partitions of a bag of rows or of
            matrices; `.npz` files of `scipy.sparse.save_npz`, by name or pattern, which
            workers read. An array or a sparse matrix is one block.
        y : None
            Ignored, but handed on to callbacks.
        epochs : array-like, dask.array.Array, dask.bag.Bag or scalar, default=None
            Labels of the epochs of rows, as of `skbnp.DependentTrees`: one for each
            row, lazy or in memory, if sizes of blocks are known; in blocks like those
            of `X`; or one for each block, or for all. Files may have them, as an array
            `epochs`. None is one epoch, 0.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update.

        Raises
        ------
        ValueError
            If `X` has infinite or missing values, no rows or fewer than two columns,
            `epochs` does not go with it, a parameter is outside its range, or a
            checkpoint is of another fit.
        WorkersLostError
            If there has been no worker for `timeout` seconds.
        """
        try:
            return super().fit(X, y, epochs=epochs)
        finally:
            self._close()

    def partial_fit(  # type: ignore[override]
        self, X: MatrixLike, y: object = None, epochs: Any = None
    ) -> Self:
        """Learn from further rows, of the open epoch or of later ones.

        Parameters
        ----------
        X : dask.array.Array, dask.bag.Bag, list of Delayed or of matrices, str or \
                list of path-like
            Rows in blocks, as in `fit`.
        y : None
            Ignored, but handed on to callbacks.
        epochs : array-like, dask.array.Array, dask.bag.Bag or scalar, default=None
            Labels of the epochs of rows, as in `fit`. None is the open epoch.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has infinite or missing values, no rows or another number of columns
            than before, or a label is older than the open epoch.
        WorkersLostError
            If there has been no worker for `timeout` seconds.
        """
        try:
            return super().partial_fit(X, y, epochs=epochs)
        finally:
            self._close()

    def _read(  # type: ignore[override]
        self, X, *, reset: bool, method: str, epochs=None
    ) -> Any:
        default = 0 if reset else self._posterior.label
        n_features = None if reset else self.n_features_in_
        read = partial(read_directions, default=default, n_features=n_features)
        session = self._open(X, epochs, read)
        sizes = sizes_by_label(session)
        check_after(list(sizes), session.order, [] if reset else self._labels)
        warn_if_few_rows(list(sizes.values()), list(sizes))
        self._check_features(session, X, reset=reset)
        if method == "fit":
            self._warn_of_few_rows(sum(sizes.values()))
        seen = self._seen_with(_find_columns(session, sizes), reset=reset)
        rows = SessionRows(session, sizes, seen)
        if method == "fit":
            rows.checkpoints = self._checkpoints(session)
        return rows

    def _rows_at_hand(self, X, rng):
        """Have some rows sent here."""
        return X.seen.compact(draw_rows(self._shards_of(X, map), rng))

    def _n_clusters(self, n_rows):
        most = max(min(n_rows, SAMPLE) // ROWS_PER_CLUSTER, 1)
        return min(super()._n_clusters(n_rows), most)

    def _shards(self, X, executor):
        """Return the rows of an epoch as they are cut."""
        return self._shards_of(X, executor.map)

    def _shards_of(self, X: EpochRows, run):
        is_lasting = self.checkpoint_dir is None
        return X.session.shards(X.label, run, is_lasting=is_lasting)

    def _local_step(self, posterior, shards, n_rounds):
        return RowLocalStep(shards, n_rounds, posterior.seen)

    def _rounds(self, shards) -> ShardSchedule:
        n_shards = len(shards.n_rows)
        return ShardSchedule(n_shards, self.shards_per_round or max(n_shards, 1))

    def _warn_of_narrow_nodes(self, X):
        """Judge by the concentration alone where rows are elsewhere."""
        super()._warn_of_narrow_nodes(None if is_lazy(X) else X)

    # -- checkpoints ------------------------------------------------------------------

    def _record(self, rows, goes_on: bool) -> ShardRecord:
        super()._record(rows, goes_on)  # refuses callbacks that write files
        checkpoints = rows.checkpoints
        if checkpoints is None or self.resume:
            account = None if checkpoints is None else checkpoints.read()
            return ShardRecord(checkpoints, account)
        checkpoints.clear()
        return ShardRecord(checkpoints, None)

    # -- evaluation: lazy where rows are ----------------------------------------------

    def _resolved(self, blocks: list[Block]) -> list[Block]:
        """Replace labels in memory by fitted labels."""
        if any(isinstance(block.rows, NpzFile) for block in blocks):
            if any(block.labels is None for block in blocks):
                return blocks  # files may have labels
        known, given = self._labels, [block.labels for block in blocks]
        if all(labels is None for labels in given):
            warn_of_newest(known)
            return [replace(block, labels=known[-1]) for block in blocks]
        if any(labels is None or isinstance(labels, Delayed) for labels in given):
            return blocks
        sizes = [np.size(labels) for labels in given]
        filled = [np.atleast_1d(labels) for labels in given if np.size(labels)]
        values = np.concatenate(filled or [np.empty(0)])
        checked = replace(check_epochs(values, None), order=blocks[0].order)
        names = np.asarray(known)[fitted_places(checked, known)][checked.codes]
        parts = np.split(names, np.cumsum(sizes)[:-1])
        return [
            replace(block, labels=part if np.ndim(block.labels) else part[0])
            for block, part in zip(blocks, parts, strict=True)
        ]

    def transform(
        self, X: MatrixLike, epochs: Any = None
    ) -> np.ndarray | sp.csr_array | DaskArray:
        """Infer the proportions of nodes in rows.

        Parameters
        ----------
        X : array-like, or rows in blocks as in `fit`
            Rows that are put on the unit sphere.
        epochs : array-like, labels in blocks as in `fit`, or scalar, default=None
            Labels of the epochs of rows: a row is explained by the tree of its epoch,
            or of the latest fitted before it, with a warning. None is the newest.

        Returns
        -------
        node_distr : {ndarray, csr_array, dask.array.Array} of shape \
                (n_samples, n_components_)
            Probability that a row is at each node of `tree_`; lazy where `X` is.
        """
        if not is_lazy(X):
            return super().transform(X, epochs=epochs)
        check_is_fitted(self)
        return self._lazy_rows(X, epochs, _transform, no_shares(self))

    def apply(self, X: MatrixLike, epochs: Any = None) -> np.ndarray | DaskArray:  # type: ignore[override]
        """Find the most probable node of each row.

        Parameters
        ----------
        X : array-like, or rows in blocks as in `fit`
            Rows that are put on the unit sphere.
        epochs : array-like, labels in blocks as in `fit`, or scalar, default=None
            Labels of the epochs of rows, as in `transform`.

        Returns
        -------
        nodes : {ndarray, dask.array.Array} of int of shape (n_samples,)
            Rows of `tree_` and `components_`; lazy where `X` is.
        """
        if not is_lazy(X):
            return super().apply(X, epochs=epochs)
        check_is_fitted(self)
        return self._lazy_rows(X, epochs, _apply, np.empty(0, dtype=np.intp))

    def decision_path(
        self, X: MatrixLike, epochs: Any = None
    ) -> sp.csr_array | DaskArray:
        """Mark the nodes between the root and the most probable node of each row.

        Parameters
        ----------
        X : array-like, or rows in blocks as in `fit`
            Rows that are put on the unit sphere.
        epochs : array-like, labels in blocks as in `fit`, or scalar, default=None
            Labels of the epochs of rows, as in `transform`.

        Returns
        -------
        indicator : {csr_array, dask.array.Array} of shape (n_samples, n_components_)
            One at the nodes of the path, both ends included; lazy, in blocks that are
            sparse, where `X` is.
        """
        if not is_lazy(X):
            return super().decision_path(X, epochs=epochs)
        check_is_fitted(self)
        meta = sp.csr_array((0, self.n_components_), dtype=np.intp)
        return self._lazy_rows(X, epochs, _decision_path, meta)

    def score_samples(  # type: ignore[override]
        self, X: MatrixLike, epochs: Any = None
    ) -> np.ndarray | DaskArray:
        """Log density of each row, less that of the uniform density.

        Parameters
        ----------
        X : array-like, or rows in blocks as in `fit`
            Rows that are put on the unit sphere.
        epochs : array-like, labels in blocks as in `fit`, or scalar, default=None
            Labels of the epochs of rows, as in `transform`.

        Returns
        -------
        gain : {ndarray, dask.array.Array} of shape (n_samples,)
            Nats; zero for a row of zeros; lazy where `X` is.
        """
        if not is_lazy(X):
            return super().score_samples(X, epochs=epochs)
        check_is_fitted(self)
        return self._lazy_rows(X, epochs, _score_samples, np.empty(0))

    def score(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: object = None,
        epochs: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float | DaskArray:
        """Mean log density of rows, less that of the uniform density.

        Parameters
        ----------
        X : array-like, or rows in blocks as in `fit`
            Rows that are put on the unit sphere.
        y : None
            Ignored.
        epochs : array-like, labels in blocks as in `fit`, or scalar, default=None
            Labels of the epochs of rows, as in `transform`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the mean, for rows in memory.

        Returns
        -------
        score : float or dask.array.Array of shape ()
            Nats per row that is not zero; larger is better; lazy where `X` is.

        Raises
        ------
        ValueError
            If there are weights of rows in blocks.
        """
        if not is_lazy(X):
            return super().score(X, y, epochs=epochs, sample_weight=sample_weight)
        if sample_weight is not None:
            raise ValueError("sample_weight is for rows in memory.")
        check_is_fitted(self)
        parts = list(self._blockwise(X, epochs, _score))
        return da.from_delayed(delayed(_mean)(parts), (), dtype=np.float64)


def _find_columns(session: Session, sizes: dict[Label, int]) -> np.ndarray:
    """Find the columns in which some row of some label has a value."""
    seen = np.zeros(session.n_features, dtype=bool)
    for label in filter(sizes.get, sizes):
        shards = session.shards(label, map, is_lasting=False)
        seen |= shards.total(seen_columns, range(len(shards.n_rows))).mask
    return np.flatnonzero(seen)


def _transform(local: BaseEstimator, X: MatrixLike, labels: Labels) -> MatrixLike:
    return local.transform(X, epochs=labels) if X.shape[0] else no_shares(local)


def _apply(local: BaseEstimator, X: MatrixLike, labels: Labels) -> MatrixLike:
    return local.apply(X, epochs=labels) if X.shape[0] else np.empty(0, dtype=np.intp)


def _decision_path(local: BaseEstimator, X: MatrixLike, labels: Labels) -> MatrixLike:
    if X.shape[0] == 0:
        return sp.csr_array((0, local.n_components_), dtype=np.intp)
    return local.decision_path(X, epochs=labels)


def _score_samples(local: BaseEstimator, X: MatrixLike, labels: Labels) -> MatrixLike:
    return local.score_samples(X, epochs=labels) if X.shape[0] else np.empty(0)


def _score(local: BaseEstimator, X: MatrixLike, labels: Labels) -> tuple[float, int]:
    """Sum of log densities of rows that are not zero, and their number."""
    if X.shape[0] == 0:
        return 0.0, 0
    gains = local.score_samples(X, epochs=labels)
    rows, _ = local._rows(X, "score")
    return float(gains.sum()), int((np.diff(rows.indptr) > 0).sum())


def _mean(parts: Iterable[tuple[float, int]]) -> np.float64:
    global_stats, counts = zip(*parts, strict=True)
    return np.float64(sum(global_stats) / max(sum(counts), 1))
