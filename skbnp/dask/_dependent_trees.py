"""Estimator of dependent trees over epochs, for rows on a Dask cluster."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from dask.delayed import Delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.components.word_topics import SeenWords
from skbnp.dask import _base
from skbnp.dask._inputs import Labels, NpzFile, RowBlock, is_lazy
from skbnp.estimators._base import files_of
from skbnp.estimators._dependent_trees import DependentTrees as LocalTrees
from skbnp.inference.protocols import BatchSchedule, Part
from skbnp.models.dependent_trees.assignments import ROWS_PER_CLUSTER, SAMPLE, draw_rows
from skbnp.models.dependent_trees.memory import RowLocalStep, seen_columns
from skbnp.utils import labels as row_labels
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_directions


def read_directions(
    X: MatrixLike, labels: Labels, *, default: row_labels.Label, n_features: int | None
) -> dict[row_labels.Label, sp.csr_array]:
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
    checked = row_labels.check_labels(labels, rows.shape[0])
    if checked.order is not None:
        raise ValueError(
            "epochs in lazy blocks must not be an ordered Categorical: blocks do not "
            "know each other's order. Pass its codes, or labels in memory."
        )
    numbers = [of[used[of]] for of in checked.rows()]
    return {
        label: rows[of] for label, of in zip(checked.distinct, numbers, strict=True)
    }


@dataclass(frozen=True)
class EpochRows:
    """Shards of the rows of one epoch."""

    session: _base.Session
    label: row_labels.Label
    shape: tuple[int, int]
    seen: SeenWords


@dataclass(frozen=True)
class SessionRows:
    """Rows by epoch, in the order of epochs, with the session they are in."""

    session: _base.Session
    sizes: dict[row_labels.Label, int]
    seen: SeenWords  # by rows of this session, or before

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, zero ones included, and of features."""
        n_rows = sum(description.n_rows for description in self.session.descriptions)
        return n_rows, self.session.n_features

    @property
    def digest(self) -> str:
        """Digest of the blocks."""
        return _base.data_digest(self.session)

    @property
    def epochs(self) -> list[row_labels.Label]:
        """Labels of the epochs, in order."""
        return list(self.sizes)

    def __iter__(self) -> Iterator[tuple[row_labels.Label, EpochRows]]:
        """Yield labels and rows of epochs."""
        for label, size in self.sizes.items():
            shape = size, self.session.n_features
            yield label, EpochRows(self.session, label, shape, self.seen)


@_base.extended
@dataclass(eq=False, repr=False)
class DependentTrees(_base.ShardedMixin, LocalTrees):
    """Dependent nonparametric trees of rows that stay where they are.

    What `skbnp.DependentTrees` is, for blocks of rows on the workers of a Dask cluster:
    the same model [2]_, parameters and fitted attributes [1]_. Local steps run on
    workers; the tree, its directions and its moves are this process's.

    Parameters
    ----------
    structure_moves : bool or EpochMoves, default=True
        Whether the tree changes within an epoch. Rows for which new nodes are tried
        travel to this process, at most `EpochMoves.birth_rows` of each target.
    batch_size : int or None, default=None
        Without effect: updates follow `shards_per_round` shards.
    random_state : int, RandomState instance or None, default=None
        Which rows begin, their clusters, the order in which they choose their nodes,
        and where births are tried. The same int gives the same bits, for the same
        blocks, on however many workers of one kind of CPU.
    shards_per_round : int or None, default=None
        Shards after which all directions are updated, in passes but the first of an
        epoch. None is all: a pass is one exact step. Results depend on it, and on how
        rows are cut into blocks, but not on which workers have them.

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
        epochs : array-like, dask.array.Array or scalar, default=None
            Labels of the epochs of rows, as of `skbnp.DependentTrees`: one for each
            row, if sizes of blocks are known; in a list of blocks like those of `X`; or
            one for each block, or for all. Lazy ones are computed. Files may have them,
            as an array `epochs`. None is one epoch, 0.

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
        with self._with_checkpoints():
            return super().fit(X, y, epochs=epochs)

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
        epochs : array-like, dask.array.Array or scalar, default=None
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

    def _read(
        self, X, *, reset: bool, method: str, epochs=None, sample_weight: None = None
    ) -> Any:
        """Open a session of rows; check features and labels."""
        default = 0 if reset else self._posterior.label
        n_features = None if reset else self.n_features_in_
        read = partial(read_directions, default=default, n_features=n_features)
        session = self._open(X, epochs, read)
        sizes = _base.sizes_by_label(session)
        known = [] if reset else self._labels
        row_labels.check_after(list(sizes), session.order, known)
        row_labels.warn_if_few_rows(list(sizes.values()), list(sizes))
        self._check_features(session, X, reset=reset)
        if method == "fit":
            self._warn_of_few_rows(sum(sizes.values()))
        seen = self._seen_with(_find_columns(session, sizes), reset=reset)
        return SessionRows(session, sizes, seen)

    def _rows_at_hand(self, X, rng):
        """Return a random sample of the rows, sent to this process."""
        return X.seen.compact(draw_rows(self._shards_of(X, map), rng))

    def _n_clusters(self, n_rows):
        most = max(min(n_rows, SAMPLE) // ROWS_PER_CLUSTER, 1)
        return min(super()._n_clusters(n_rows), most)

    def _shards(self, X, executor):
        """Return the shards of an epoch as they are."""
        return self._shards_of(X, executor.map)

    def _shards_of(self, X: EpochRows, run):
        is_lasting = not files_of(self)
        return X.session.shards(X.label, run, is_lasting=is_lasting)

    def _local_step(self, posterior, shards):
        return RowLocalStep(shards, posterior.seen)

    def _rounds(self, shards) -> BatchSchedule:
        parts = tuple(map(Part, range(len(shards.n_rows))))
        n_together = self.shards_per_round or max(len(parts), 1)
        return BatchSchedule(parts, n_joint=1, n_together=n_together)

    def _warn_of_narrow_nodes(self, X):
        """Warn of narrow nodes; rows of lazy blocks are not searched for copies."""
        super()._warn_of_narrow_nodes(None if is_lazy(X) else X)

    # -- evaluation: lazy where rows are ----------------------------------------------

    def _resolved(self, blocks: list[RowBlock]) -> list[RowBlock]:
        """Replace labels in memory by fitted labels."""
        if any(isinstance(block.rows, NpzFile) for block in blocks):
            if any(block.labels is None for block in blocks):
                return blocks  # files may have labels
        known, given = self._labels, [block.labels for block in blocks]
        if all(labels is None for labels in given):
            row_labels.warn_of_newest(known)
            return [replace(block, labels=known[-1]) for block in blocks]
        if any(labels is None or isinstance(labels, Delayed) for labels in given):
            return blocks
        sizes = [np.size(labels) for labels in given]
        filled = [np.atleast_1d(labels) for labels in given if np.size(labels)]
        values = np.concatenate(filled or [np.empty(0)])
        checked = replace(row_labels.check_labels(values, None), order=blocks[0].order)
        names = np.asarray(known)[row_labels.fitted_places(checked, known)][
            checked.codes
        ]
        parts = np.split(names, np.cumsum(sizes)[:-1])
        return [
            replace(block, labels=part if np.ndim(block.labels) else part[0])
            for block, part in zip(blocks, parts, strict=True)
        ]

    def _by_block(self, method: str, X, epochs, of_no_rows) -> Any:
        """Evaluate rows by a method of the local estimator, lazily if they are lazy."""
        if not is_lazy(X):
            return getattr(super(), method)(X, epochs=epochs)
        return self._lazy_rows(
            X,
            epochs,
            lambda local, X, labels: getattr(local, method)(X, epochs=labels),
            of_no_rows,
        )

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
        return self._by_block("transform", X, epochs, _base.no_shares)

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
        return self._by_block("apply", X, epochs, lambda _: np.empty(0, np.intp))

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
        return self._by_block(
            "decision_path",
            X,
            epochs,
            lambda own: sp.csr_array((0, own.n_components_), dtype=np.intp),
        )

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
        return self._by_block("score_samples", X, epochs, lambda _: np.empty(0))

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
        return self._lazy_mean(X, epochs, _score)


def _find_columns(
    session: _base.Session, sizes: dict[row_labels.Label, int]
) -> np.ndarray:
    """Columns in which some row of some label has a value."""
    seen = np.zeros(session.n_features, dtype=bool)
    for label in filter(sizes.get, sizes):
        shards = session.shards(label, map, is_lasting=False)
        seen |= shards.total(seen_columns, range(len(shards.n_rows))).n_docs > 0
    return np.flatnonzero(seen)


def _score(local: BaseEstimator, X: MatrixLike, labels: Labels) -> tuple[float, int]:
    """Sum of log densities of rows that are not zero, and their number."""
    gains = local.score_samples(X, epochs=labels)
    rows, _ = local._rows(X, "score")
    return float(gains.sum()), int((np.diff(rows.indptr) > 0).sum())
