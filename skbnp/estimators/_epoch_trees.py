"""Dependent trees over epochs: records of epochs, checks of rows, evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin

from skbnp.components.word_topics import SeenWords
from skbnp.estimators._cautions import warn_of_narrow_nodes
from skbnp.estimators._saved import check_number, check_places, check_sizes
from skbnp.inference.executor import Executor
from skbnp.models.dependent_trees.epoch import ClosedEpoch, rows_by_epoch
from skbnp.models.dependent_trees.local import Memo, NodeTable, log_gain, update_local
from skbnp.models.dependent_trees.state import EpochState, TreePriors
from skbnp.rows.survey import ENOUGH_DOCS
from skbnp.trees import TreeView
from skbnp.utils import labels as row_labels
from skbnp.utils import validation as valid
from skbnp.utils.arrays import at_columns, one_blas_thread
from skbnp.utils.typing import MatrixLike
from skbnp.utils.warnings import warn_caller

#: Share of the length of a direction below which entries are not shown.
SHOWN = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class EpochRecord:
    """What was learned of one epoch: tree, directions, weights.

    Attributes
    ----------
    tree : TreeView
        The tree at the end of the epoch.
    components : csr_array of shape (n_nodes, n_features)
        Mean directions, rows of `tree`; entries below 1e-4 are left out.
    component_ids : ndarray of int of shape (n_nodes,)
        Ids of the nodes: a topic keeps its id over the epochs.
    masses : ndarray of shape (n_nodes,)
        Expected rows at each node itself.
    n_samples : int
        Non-zero rows of the epoch.
    first_step : int
        Updates before the epoch: the `step` of its records in `lineage_` is not lower.
    n_records : int
        Records of `lineage_` up to the end of the epoch: these lead to `component_ids`.
    """

    tree: TreeView
    components: sp.csr_array
    component_ids: np.ndarray
    masses: np.ndarray
    n_samples: int
    first_step: int
    n_records: int

    def __repr__(self) -> str:
        return f"EpochRecord(n_samples={self.n_samples}, tree={self.tree!r})"


def directions_of(state: EpochState) -> np.ndarray:
    lengths = np.linalg.norm(state.means, axis=1, keepdims=True)
    return state.means / np.maximum(lengths, 1e-300)


def view_of(state: EpochState) -> TreeView:
    """Return the tree for users, with the share of rows at or below each node."""
    tree, total = state.tree, float(state.masses.sum())
    through = tree.accumulate(state.masses)
    weight = through / through[0] if total > 0.0 else np.eye(1, len(tree))[0]
    in_use = through >= max(1.0, 1e-4 * total)
    return TreeView(tree.parent, weight, tree.ids, in_use, by_id=True)


def check_state(state: EpochState, n_features: int, n_seen: int) -> None:
    """Raise if a saved epoch is unfit for compiled code; it has `n_seen` columns."""
    sizes = {"n_nodes": len(state.tree)}
    check_sizes(state, sizes)
    width = n_features - state.n_unseen
    check_number("n_unseen", width, least=0, most=n_seen)
    check_number("means", sizes["n_seen"], least=width, most=width)
    check_places("past", state.past, sizes["n_before"], least=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class TreeParameters:
    """Parameters of all estimators of dependent trees."""

    child_concentration: float = 0.5
    stop_concentration: float = 0.5
    vmf_concentration: float | str = "auto"
    prior_concentration: float | str = "auto"
    parent_weight: float = 1.0
    past_weight: float | str = "auto"
    window: int = 1


class EpochTreeMixin(TransformerMixin, ABC):
    """Base of estimators of dependent trees, with `TreeParameters`.

    Evaluation writes nothing, draws nothing.
    """

    # Fitted
    tree_: TreeView
    vmf_concentration_: float
    prior_concentration_: float
    past_weight_: float
    n_active_components_: int

    # Of the classes that learn, which come later
    _fit: Callable[..., Any]
    _partial_fit: Callable[..., Any]
    _forget: Callable[..., None]

    def __sklearn_tags__(self):
        """Return tags of scikit-learn: sparse rows of any sign."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @valid.fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: object = None,
        epochs: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn a tree of each epoch, in their order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere, such as counts; signs are legal.
        y : None
            Ignored, but handed on to callbacks; labels of time go to `epochs`.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, in any order of rows, or of all: numbers,
            texts, dates or periods, which are sorted, numbers in texts as numbers, an
            ordered Categorical by its categories. None is one epoch, 0. Periods are
            known by their texts.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            step as a whole.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update, or sweep.

        Raises
        ------
        ValueError
            If `X` has infinite or missing values, no rows or fewer than two columns,
            `epochs` has not one label for each row, or a parameter is outside its
            range.

        Warns
        -----
        ConvergenceWarning
            If the bound of an epoch still changes by `tol` after `max_iter` passes; of
            a sampler, if R-hat of the number of nodes or of the log joint is above 1.1
            over the sweeps of the newest epoch after burn-in (at least eight of them).
        UserWarning
            If `vmf_concentration` is learned from rows of which many are copies of
            others, or that share nearly all of their few features with their node.
        """
        row_labels.warn_if_y_is_labels(y, epochs)
        with one_blas_thread():
            self._fit(X, y, epochs=epochs, sample_weight=sample_weight)
            self._warn_of_narrow_nodes(X)
            return self

    @valid.fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: MatrixLike,
        y: object = None,
        epochs: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from further rows, of the open epoch or of later ones.

        The first call fixes the features. Rows of the open epoch join those that it
        has, which keep the nodes that they are at. A later label closes the open epoch:
        its tree is the past of the next one. A sampler continues the chain of the
        sample with the highest log joint, for `max_iter` sweeps. A failed call leaves
        the estimator as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        y : None
            Ignored, but handed on to callbacks.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all. None is the open epoch.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            step as a whole.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has infinite or missing values, no rows or another number of columns
            than before, or a label is older than the open epoch.
        """
        row_labels.warn_if_y_is_labels(y, epochs)
        with one_blas_thread():
            self._partial_fit(X, y, epochs=epochs, sample_weight=sample_weight)
            self._warn_of_narrow_nodes(X)
            return self

    def fit_transform(
        self,
        X: MatrixLike,
        y: object = None,
        epochs: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> np.ndarray | sp.csr_array:
        """Fit, and infer the proportions of nodes in the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        y : None
            Ignored, but handed on to callbacks.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all.
        sample_weight : array-like of shape (n_samples,), default=None
            Of `fit`.

        Returns
        -------
        node_distr : {ndarray, csr_array} of shape (n_samples, n_components_)
            As of `transform`.
        """
        # Rows in blocks have no weights.
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        fitted = self.fit(X, y, epochs=epochs, **weights)
        return fitted.transform(X, epochs=epochs)

    def _seen_with(self, columns: np.ndarray, *, reset: bool) -> SeenWords:
        """Return the columns seen before, then new ones; at least one."""
        nothing = SeenWords(np.empty(0, np.intp), self.n_features_in_)
        before = nothing if reset else self._seen_columns()
        seen = before.with_words(columns.astype(np.intp))
        return seen if len(seen) else seen.with_words(np.zeros(1, np.intp))

    def _describe(self, rows) -> str:
        n_epochs = len(rows.epochs)
        epochs = "1 epoch" if n_epochs == 1 else f"{n_epochs} epochs"
        return f"{rows.shape[0]} rows of {rows.shape[1]} features in {epochs}"

    def _given_priors(self) -> TreePriors:
        """Return the priors before anything is learned."""
        return TreePriors(
            float(self.child_concentration),
            float(self.stop_concentration),
            float(self.parent_weight),
            1.0 if self.past_weight == "auto" else float(self.past_weight),
        )

    def _given(self, state: Any) -> Any:
        """Set the concentrations of a state that are given, not learned."""
        for name, value in (
            ("concentration", self.vmf_concentration),
            ("prior_concentration", self.prior_concentration),
        ):
            if value != "auto":
                state = replace(state, **{name: float(value)})
        return state

    @abstractmethod
    def _n_clusters(self, n_rows: int) -> int:
        """Number of clusters from which a first epoch of `n_rows` rows starts."""

    @abstractmethod
    def _seen_columns(self) -> SeenWords:
        """Columns of the newest epoch; earlier epochs have the first of them."""

    @abstractmethod
    def _known_epochs(self) -> list[ClosedEpoch]:
        """All epochs, the newest last."""

    @abstractmethod
    def _tree_priors(self) -> TreePriors:
        """Priors of sticks and directions."""

    def _log_gain(
        self, epoch: ClosedEpoch, rows: sp.csr_array, run: Callable[..., Iterable[Any]]
    ) -> np.ndarray:
        """Log density of rows in an epoch less the uniform one, (n_rows,)."""
        return log_gain(epoch.state, self._tree_priors(), rows, run=run)

    @property
    def _labels(self) -> list[row_labels.Label]:
        """Labels of all epochs, in order."""
        return [epoch.label for epoch in self._known_epochs()]

    def _read_epochs(
        self, X, epochs, sample_weight, *, reset: bool, method: str
    ) -> tuple[sp.csr_array, list[tuple[row_labels.Label, np.ndarray]]]:
        """Return rows on the unit sphere, and non-zero rows by epoch."""
        forget = reset and not hasattr(self, "n_features_in_")
        rows, _ = valid.check_directions(self, X, reset=reset, method=method)
        try:
            is_first = reset or method == "fit"
            groups = self._rows_of_epochs(rows, epochs, is_first=is_first)
            if sample_weight is not None:
                copies = valid.check_copies(sample_weight, rows)
                rows = rows[copies]
                groups = [(label, np.isin(copies, one)) for label, one in groups]
                groups = [(label, np.flatnonzero(is_in)) for label, is_in in groups]
                groups = [group for group in groups if len(group[1])]
        except ValueError:
            if forget:
                self._forget("n_features_in_", "feature_names_in_")
            raise
        if method == "fit":
            self._warn_of_few_rows(sum(len(numbers) for _, numbers in groups))
        return rows, groups

    def _warn_of_few_rows(self, n_rows: int) -> None:
        """Warn of a fit to fewer than two non-zero rows."""
        if n_rows < 2:
            what = "no row" if n_rows == 0 else "one row"
            warn_caller(f"X has {what} with a direction: this fit has learned nothing.")

    def _tree_attributes(self, state: EpochState, past_weight: float) -> dict[str, Any]:
        """Return the fitted attributes of the newest tree."""
        view = view_of(state)
        return {
            "tree_": view,
            "n_components_": len(state.tree),
            "component_ids_": state.tree.ids.copy(),
            "vmf_concentration_": float(state.concentration),
            "prior_concentration_": float(state.prior_concentration),
            "past_weight_": float(past_weight),
            "n_active_components_": int(view.in_use.sum()),
        }

    def _rows_of_epochs(
        self, rows: sp.csr_array, epochs: Any, *, is_first: bool
    ) -> list[tuple[row_labels.Label, np.ndarray]]:
        """Numbers of the non-zero rows by epoch, in order.

        Except in the first call, no label may be before the open epoch, which is that
        of all rows if `epochs` is None.
        """
        known = [] if is_first else self._labels
        used = np.diff(rows.indptr) > 0
        if epochs is None:
            return [(known[-1] if known else 0, np.flatnonzero(used))]
        labels = row_labels.check_labels(epochs, rows.shape[0])
        row_labels.check_after(labels.distinct, labels.order, known)
        numbers = [of[used[of]] for of in labels.rows()]
        row_labels.warn_if_few_rows(list(map(len, numbers)), labels.distinct)
        return list(zip(labels.distinct, numbers, strict=True))

    @property
    def components_(self) -> np.ndarray:
        """Mean directions of the nodes in the newest epoch."""
        directions = directions_of(self._known_epochs()[-1].state)
        seen = self._seen_columns()
        if seen.is_whole:
            return directions
        result = np.zeros((len(directions), seen.n_vocabulary))
        result[:, seen.words] = directions
        return result

    @property
    def _n_enough_docs(self) -> int:
        """Number of rows of all epochs that suffice, as for trees of topics."""
        return ENOUGH_DOCS // 5

    @property
    def n_samples_seen_(self) -> int:
        """Rows of all epochs that have a direction."""
        return sum(int(epoch.n_rows) for epoch in self._known_epochs())

    @property
    def topic_weights_(self) -> np.ndarray:
        """Expected shares of the rows of the newest epoch at the nodes themselves."""
        masses = self._known_epochs()[-1].state.masses
        return masses / max(float(masses.sum()), 1e-300)

    @property
    def epochs_(self) -> dict[Any, EpochRecord]:
        """What was learned of each epoch, in order."""
        result, known = {}, self._known_epochs()
        seen = self._seen_columns()
        for epoch in known:
            directions = directions_of(epoch.state)
            directions[np.abs(directions) < SHOWN] = 0.0
            tree = epoch.state.tree
            result[epoch.label] = EpochRecord(
                view_of(epoch.state),
                seen.spread(sp.csr_array(directions)),
                tree.ids.copy(),
                epoch.state.masses.copy(),
                epoch.n_rows,
                epoch.first_step,
                epoch.n_records,
            )
        return result

    def transform(self, X: MatrixLike, epochs: Any = None) -> np.ndarray | sp.csr_array:
        """Infer the proportions of nodes in rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all: a row is explained by the tree of
            its epoch; if that was not fitted, by the latest fitted before it, with a
            warning. None is the newest, with a warning where there are several.

        Returns
        -------
        node_distr : {ndarray, csr_array} of shape (n_samples, n_components_)
            Probability that a row is at each node of `tree_`, q(z); rows sum to one.
            What is at nodes that have ended since is at the nearest above that lives.
            A row of zeros gets the expected shares. float32 if `X` is, otherwise
            float64.

        Raises
        ------
        ValueError
            If a label is earlier than all epochs.
        """
        rows, dtype = self._rows(X, "transform")
        n, k = rows.shape[0], self.n_components_
        parts = []
        for number, memo, places in self._visited(rows, epochs):
            shares = memo.shares()
            at, column = np.nonzero(shares)
            parts.append((number[at], places[at, column], shares[at, column]))
        empty = np.flatnonzero(np.diff(rows.indptr) == 0)
        state, priors = self._known_epochs()[-1].state, self._tree_priors()
        weights = state.sticks(priors).mean_weights(state.tree)
        weights /= weights.sum()
        parts.append(
            (
                np.repeat(empty, k),
                np.tile(np.arange(k), len(empty)),
                np.tile(weights, len(empty)),
            )
        )
        at, nodes, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        result = sp.csr_array((values, (at, nodes)), shape=(n, k)).astype(dtype)
        return result if self.sparse_output else result.toarray()

    def apply(self, X: MatrixLike, epochs: Any = None) -> np.ndarray:
        """Find the most probable node of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all, as in `transform`.

        Returns
        -------
        nodes : ndarray of int of shape (n_samples,)
            Rows of `tree_` and `components_`; a row of zeros is at the root.
        """
        rows, _ = self._rows(X, "apply")
        nodes = np.zeros(rows.shape[0], dtype=np.intp)
        for number, _, places in self._visited(rows, epochs):
            nodes[number] = places[:, 0]
        nodes[np.diff(rows.indptr) == 0] = 0
        return nodes

    def decision_path(self, X: MatrixLike, epochs: Any = None) -> sp.csr_array:
        """Mark the nodes between the root and the most probable node of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all, as in `transform`.

        Returns
        -------
        indicator : csr_array of shape (n_samples, n_components_)
            One at the nodes of the path, both ends included.
        """
        nodes = self.apply(X, epochs=epochs)
        paths = self._known_epochs()[-1].state.tree.paths(nodes)
        ones = np.ones(paths.shape, dtype=np.intp)
        return at_columns(paths, ones, self.n_components_)

    def score_samples(self, X: MatrixLike, epochs: Any = None) -> np.ndarray:
        """Log density of each row, less that of the uniform density.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all, as in `transform`.

        Returns
        -------
        gain : ndarray of shape (n_samples,)
            Nats, with directions and sticks integrated out; zero for a row of zeros.
        """
        rows, _ = self._rows(X, "score_samples")
        gains, known = np.zeros(rows.shape[0]), self._known_epochs()
        with Executor(self.n_jobs) as executor, one_blas_thread():
            for epoch, number in rows_by_epoch(known, epochs, rows.shape[0]):
                gains[number] = self._log_gain(epoch, rows[number], executor.map)
        gains[np.diff(rows.indptr) == 0] = 0.0
        return gains

    def score(
        self,
        X: MatrixLike,
        y: object = None,
        epochs: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean log density of rows, less that of the uniform density.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        y : None
            Ignored.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all, as in `transform`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the mean. Pipelines ask for it where metadata are
            routed.

        Returns
        -------
        score : float
            Nats per row that is not zero, see `score_samples`; larger is better. 0.0 if
            there is none.
        """
        gains = self.score_samples(X, epochs=epochs)
        rows, _ = self._rows(X, "score")
        used = np.diff(rows.indptr) > 0
        if sample_weight is None:
            weights = used.astype(np.float64)
        else:
            weights = valid.check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
            weights = np.where(used, weights, 0.0)
        total = weights.sum()
        return float(weights @ gains / total) if total > 0.0 else 0.0

    def _warn_of_narrow_nodes(self, X: Any) -> None:
        """Warn if equal or short rows determine the learned concentration.

        `X` is None if rows are elsewhere.
        """
        if self.vmf_concentration != "auto":
            return
        rows = None if X is None else self._rows(X, "fit")[0]
        n_nodes, n_features = self.n_components_, self.n_features_in_
        warn_of_narrow_nodes(rows, n_features, n_nodes, self.vmf_concentration_)

    def _rows(self, X, method: str) -> tuple[sp.csr_array, np.dtype]:
        """Normalise rows, in the columns of the newest epoch."""
        valid.check_is_fitted(self)
        rows, dtype = valid.check_directions(self, X, reset=False, method=method)
        return self._seen_columns().compact(rows), dtype

    def _visited(
        self, rows: sp.csr_array, epochs: Any
    ) -> Iterator[tuple[np.ndarray, Memo, np.ndarray]]:
        """Yield row numbers by epoch, their memo, and its nodes as rows of `tree_`."""
        priors, known = self._tree_priors(), self._known_epochs()
        newest = known[-1].state.tree
        with Executor(self.n_jobs) as executor, one_blas_thread():
            for epoch, number in rows_by_epoch(known, epochs, rows.shape[0]):
                table = NodeTable.of(epoch.state, priors)
                memo, _ = update_local(table, rows[number], run=executor.map)
                tree = epoch.state.tree
                living = np.isin(tree.ids, newest.ids)
                places = np.zeros(len(tree), dtype=np.intp)
                places[living] = newest.positions(tree.ids[living])
                for node in np.flatnonzero(~living[1:]).tolist():  # parents come first
                    places[node + 1] = places[tree.parent[node + 1]]
                at = tree.positions(np.where(memo.nodes >= 0, memo.nodes, tree.ids[0]))
                yield number, memo, places[at]
