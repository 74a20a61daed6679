"""Trees of topics that grow and drift over epochs, by variational inference."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from skbnp.estimators._saved import HUGE, check_array, check_number, check_sparse
from skbnp.estimators._variational import VariationalEstimator
from skbnp.inference.edits import Lineage
from skbnp.inference.engine import Learner, learn
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import per_token
from skbnp.inference.protocols import NO_MOVES, Corpus
from skbnp.inference.schedules import BatchSchedule
from skbnp.models.dependent_trees.epoch import (
    EpochModel,
    EpochPosterior,
    centroid_of,
    close_epoch,
    plain_label,
    rows_by_epoch,
)
from skbnp.models.dependent_trees.local import Memo, NodeTable, log_gain, visit
from skbnp.models.dependent_trees.memory import EpochMemory, RowVisitor
from skbnp.models.dependent_trees.model import (
    EpochState,
    EpochStats,
    TreePriors,
    merged,
    update_means,
)
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.models.dependent_trees.moves.structure import TreeEdits
from skbnp.models.dependent_trees.start import (
    n_clusters_for,
    spherical_kmeans,
    start_tree,
)
from skbnp.trees import TreeView
from skbnp.utils.blas import one_blas_thread
from skbnp.utils.random import Purpose, stream
from skbnp.utils.validation import (
    Interval,
    StrOptions,
    check_directions,
    check_is_fitted,
    check_labels,
    check_sample_weight,
    fit_context,
)
from skbnp.utils.warnings import warn_caller

__all__ = ["DependentTrees", "EpochMoves", "EpochRecord"]

#: Share of the length of a direction below which entries are not shown.
SHOWN = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class EpochRecord:
    """What was learned of an epoch, to be read.

    Attributes
    ----------
    tree : TreeView
        The tree at the end of the epoch.
    components : csr_array of shape (n_nodes, n_features)
        Mean directions, rows of `tree`; entries below 1e-4 are left out.
    component_ids : ndarray of int of shape (n_nodes,)
        Names of the nodes: a topic keeps its name over the epochs.
    masses : ndarray of shape (n_nodes,)
        Expected rows at each node itself.
    n_samples : int
        Rows of the epoch that have a direction.
    first_step : int
        Updates before the epoch: the `step` of its records in `lineage_` is not lower.
    """

    tree: TreeView
    components: sp.csr_array
    component_ids: np.ndarray
    masses: np.ndarray
    n_samples: int
    first_step: int

    def __repr__(self) -> str:
        return f"EpochRecord(n_samples={self.n_samples}, tree={self.tree!r})"


@dataclass(frozen=True)
class _Rows:
    """Rows of length one by epoch, in the order of the epochs."""

    X: sp.csr_array
    epochs: list[tuple[Any, np.ndarray]]  # label, numbers of rows

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def __iter__(self) -> Iterator[tuple[Any, sp.csr_array]]:
        for label, rows in self.epochs:
            yield label, self.X[rows]


class DependentTrees(VariationalEstimator):
    """Dependent nonparametric trees: topics that branch, drift, begin and end.

    Rows are directions, such as documents whose counts are put on the unit sphere. In
    each epoch they stand at the nodes of a tree, which has as many as they ask for;
    children are like their parents, and each node is like itself in the epoch before.
    With the symbols of [1]_, in epoch t:

    - a row stays at node e with probability nu_e, else goes to one of its children by
      their sticks psi; masses of the last `window` epochs are part of the priors of
      both, Eqs. (1) and (2);
    - directions theta_e ~ vMF of natural parameter
      kappa_0 (kappa_1 theta_parent + kappa_2 theta_e^(t-1)), the parent of the root
      being the mean direction of the rows;
    - rows x ~ vMF(theta_z, beta), z the node of the row.

    Parameters
    ----------
    max_components : int or None, default=None
        Nodes at the most, the root included; None for no limit.
    child_concentration : float, default=0.5
        Concentration of the children of a node (gamma), in [1e-100, 1e10]; larger
        values make more branches.
    stop_concentration : float, default=0.5
        Concentration of staying at a node (alpha), in [1e-100, 1e10]; larger values
        send more rows down.
    vmf_concentration : float or "auto", default="auto"
        Concentration of rows around their node (beta), > 0. "auto" maximises the bound.
    prior_concentration : float or "auto", default="auto"
        Concentration of directions around parent and past (kappa_0), > 0; larger values
        make fewer nodes. "auto" maximises the bound.
    parent_weight, past_weight : float, default=1.0
        Shares of parent (kappa_1) and past (kappa_2) in the prior of a direction, >= 0.
    window : int, default=1
        Past epochs whose rows count for the sticks (h), 1 or more. A node that had no
        rows in them, and has none now, ends.
    structure_moves : bool or EpochMoves, default=True
        Whether the tree changes within an epoch: nodes merge, go to other parents, end,
        and are born, if the bound rises. An `EpochMoves` says more. Without, the nodes
        of the first epoch stay.
    sparse_output : bool, default=False
        Whether `transform` returns a sparse array: a row has at most eight entries.
    batch_size : int or None, default=None
        Rows after which all directions are updated, in passes but the first of an
        epoch. None is one update for as many rows as there are features: so an update
        takes no longer than the visits of these rows.
    max_iter : int, default=100
        Passes over the rows of an epoch.
    tol : float, default=1e-5
        Learning of an epoch ends when the bound changes by less, relatively, between
        two passes, and no move changes the tree. With 0, all `max_iter` passes are
        made.
    n_jobs : int or None, default=None
        Threads that visit rows, as in scikit-learn. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        The clusters of the start, and where births are tried. The same int gives the
        same bits.
    verbose : int, default=0
        Passes between messages; 0 for none.

    Attributes
    ----------
    tree_ : TreeView
        The tree of the newest epoch: `parent`, `depth`, `ids`, and `weight`, the share
        of rows that are at the node or below.
    components_ : ndarray of shape (n_components_, n_features)
        Mean directions of the nodes in the newest epoch, of length one.
    epochs_ : dict of label to EpochRecord
        What was learned of each epoch, in order: `tree`, `components`, `component_ids`,
        `masses`, `n_samples`.
    vmf_concentration_, prior_concentration_ : float
        Values in force in the newest epoch.
    n_components_ : int
        Number of nodes of the newest tree.
    component_ids_ : ndarray of shape (n_components_,)
        Name of each node in `lineage_` and `epochs_`, kept from epoch to epoch. All
        else calls a node by its row, as trees of scikit-learn do.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from: the start, then every accepted "birth" (a child of the
        parent named), "merge", "reattach" and "prune". Ended ids never return.
    n_active_components_ : int
        Nodes of the newest tree that have at least max(1, 1e-4 of all) expected rows of
        the newest epoch at them or below.
    elbo_ : float
        Bound of the newest epoch, given those before, in nats per row; densities are
        with respect to the uniform one, so that it compares with `score`.
    converged_ : bool
        Whether `tol` ended the learning of each epoch of the last `fit`.
    history_ : dict of lists
        One entry per update: `step`, `seconds`, `n_components`, `elbo` (nats per row,
        evaluated once per pass, nan in between), `n_births`, `n_splits` (always 0),
        `n_merges` (accepted so far).
    n_iter_ : int
        Passes made by the last `fit`, of all epochs; calls of `partial_fit` add one.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` had them.

    See Also
    --------
    NestedCRP : Trees whose documents mix the topics on a path; no epochs.
    skbnp.datasets.make_dependent_trees : Rows from such trees.

    Notes
    -----
    Rows of zeros are legal: they teach nothing and are not scored. Counts need no
    weights; square roots or tf-idf let rare words say more.

    A pass takes time in proportion to the words of all rows times nodes. Memory is that
    of `X` in single precision, and some 20 bytes for each node and feature; each epoch
    that lies behind keeps eight.

    **Departures from the paper**

    - E theta is A_V(eta) mu where the supplement of [1]_ has mu, and the pull of the
      past on a parent is the slope of log C_V, where it has another sign and size:
      with these all updates ascend one bound.
    - beta is one for all nodes, and learned, as kappa_0 is, which [1]_ sets to 100:
      this decides how many nodes rows can pay for.
    - Rows keep their eight most probable nodes.
    - Merges take off the entropy that rows lose, of which the supplement has the sign
      wrong: its test, `EpochMoves(merge="lax")`, can lower the bound. All pairs are
      ranked, instead of some drawn.
    - A new node begins from rows near one that is far from the target; the direction of
      [1]_ may be far from all rows. It is kept if the bound rises, for which its rows
      leave other nodes at once: [1]_ counts them twice until the next pass is over.
    - Nodes go to other parents if the bound rises, without which they stay where they
      were born.
    - The start is a flat tree of spherical k-means clusters.

    References
    ----------
    .. [1] Zhiting Hu, Qirong Ho, Avinava Dubey and Eric P. Xing, "Large-scale
       Distributed Dependent Nonparametric Trees", International Conference on Machine
       Learning, 2015.

    Examples
    --------
    >>> from skbnp import DependentTrees
    >>> from skbnp.datasets import make_dependent_trees
    >>> corpus = make_dependent_trees(300, n_epochs=2, random_state=0)
    >>> trees = DependentTrees(random_state=0).fit(corpus.data, epochs=corpus.epochs)
    >>> trees.tree_
    TreeView(n_nodes=10, n_leaves=6, max_depth=2)
    >>> {epoch: record.n_samples for epoch, record in trees.epochs_.items()}
    {0: 300, 1: 300}
    """

    _parameter_constraints: dict = {
        "max_components": [Interval(Integral, 1, None, closed="left"), None],
        "child_concentration": [Interval(Real, 1e-100, 1e10, closed="both")],
        "stop_concentration": [Interval(Real, 1e-100, 1e10, closed="both")],
        "vmf_concentration": [
            Interval(Real, 1e-3, 1e9, closed="both"),
            StrOptions({"auto"}),
        ],
        "prior_concentration": [
            Interval(Real, 1e-3, 1e9, closed="both"),
            StrOptions({"auto"}),
        ],
        "parent_weight": [Interval(Real, 0, 1e6, closed="both")],
        "past_weight": [Interval(Real, 0, 1e6, closed="both")],
        "window": [Interval(Integral, 1, None, closed="left")],
        "structure_moves": ["boolean", EpochMoves],
        "sparse_output": ["boolean"],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, np.inf, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    #: How `fit` learns; there is no other way.
    learning_method = "batch"
    warm_start = False
    total_samples = None

    def __init__(
        self,
        max_components=None,
        *,
        child_concentration=0.5,
        stop_concentration=0.5,
        vmf_concentration="auto",
        prior_concentration="auto",
        parent_weight=1.0,
        past_weight=1.0,
        window=1,
        structure_moves=True,
        sparse_output=False,
        batch_size=None,
        max_iter=100,
        tol=1e-5,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.max_components = max_components
        self.child_concentration = child_concentration
        self.stop_concentration = stop_concentration
        self.vmf_concentration = vmf_concentration
        self.prior_concentration = prior_concentration
        self.parent_weight = parent_weight
        self.past_weight = past_weight
        self.window = window
        self.structure_moves = structure_moves
        self.sparse_output = sparse_output
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # -- learning ---------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, epochs=None):
        """Learn a tree of each epoch, in their order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere, such as counts; signs are legal.
        y : None
            Ignored, but handed on to callbacks.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, in any order of rows, or of all: numbers,
            texts or dates, which are sorted. None is one epoch, 0.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update.

        Raises
        ------
        ValueError
            If `X` has infinite or missing values, no rows or fewer than two columns,
            `epochs` has not one label for each row, or a parameter is outside its
            range.
        """
        with one_blas_thread():
            return self._fit(X, y, epochs=epochs)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, epochs=None):
        """Learn from further rows, of the open epoch or of later ones.

        The first call fixes the features. Rows of the open epoch join those that it
        has, which keep the nodes that they are at. A later label closes the open epoch:
        its tree is the past of the next one. A failed call leaves the estimator as it
        was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        y : None
            Ignored.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all. None is the open epoch.

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
        with one_blas_thread():
            return self._partial_fit(X, y, epochs=epochs)

    def fit_transform(self, X, y=None, epochs=None):
        """Fit, and infer the proportions of nodes in the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        y : None
            Ignored, but handed on to callbacks.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all.

        Returns
        -------
        node_distr : {ndarray, csr_array} of shape (n_samples, n_components_)
            As of `transform`.
        """
        return self.fit(X, y, epochs=epochs).transform(X, epochs=epochs)

    def _read(self, X, *, reset: bool, method: str, epochs=None) -> _Rows:
        forget = reset and not hasattr(self, "n_features_in_")
        rows, _ = check_directions(self, X, reset=reset, method=method)
        try:
            groups = self._grouped(rows, epochs, reset)
        except ValueError:
            if forget:
                self._forget_features()
            raise
        n_used = int((np.diff(rows.indptr) > 0).sum())
        if method == "fit" and n_used < 2:
            what = "no row" if n_used == 0 else "one row"
            warn_caller(f"X has {what} with a direction: this fit says nothing.")
        return _Rows(rows, groups)

    def _grouped(
        self, rows: sp.csr_array, epochs: Any, reset: bool
    ) -> list[tuple[Any, np.ndarray]]:
        """Rows that have a direction by epoch; refuses epochs that lie behind."""
        used = np.diff(rows.indptr) > 0
        if epochs is None:
            label = 0 if reset else self._posterior.label
            return [(label, np.flatnonzero(used))]
        labels = check_labels("epochs", epochs, rows.shape[0])
        kinds = [plain_label(label) for label in np.unique(labels)]
        if not reset:
            self._check_order(kinds[0])
        return [(kind, np.flatnonzero((labels == kind) & used)) for kind in kinds]

    def _check_order(self, label: Any) -> None:
        newest = self._posterior.label
        try:
            is_older = label < newest
        except TypeError:
            raise ValueError(
                f"epochs must be labels like {newest!r}, got {label!r}."
            ) from None
        if is_older:
            raise ValueError(
                f"epochs must not be older than the open epoch, {newest!r}, got "
                f"{label!r}: epochs that are closed learn nothing more."
            )

    def _describe(self, rows) -> str:
        n_epochs = len(rows.epochs)
        epochs = "1 epoch" if n_epochs == 1 else f"{n_epochs} epochs"
        return f"{rows.shape[0]} rows of {rows.shape[1]} features in {epochs}"

    def _limit(self) -> float:
        return np.inf if self.max_components is None else self.max_components

    def _make_model(self) -> EpochModel:
        priors = TreePriors(
            float(self.child_concentration),
            float(self.stop_concentration),
            float(self.parent_weight),
            float(self.past_weight),
        )
        return EpochModel(
            priors,
            self.vmf_concentration == "auto",
            self.prior_concentration == "auto",
        )

    def _start(self, model, rows, entropy, n_rows) -> EpochPosterior:
        """Clusters of the first epoch, below a root."""
        label, X = next(iter(rows))
        state, stats = self._first_tree(model, X, entropy)
        ids = state.tree.ids
        return EpochPosterior(
            model,
            state,
            stats,
            ids,
            [Lineage(0, "init", (), tuple(np.sort(ids).tolist()))],
            entropy=entropy,
            max_components=self._limit(),
            label=label,
            window=self.window,
        )

    def _first_tree(self, model, X, entropy) -> tuple[EpochState, EpochStats]:
        n_clusters = min(n_clusters_for(X.shape[0]), max(self._limit() - 1, 1))
        rng = stream(entropy, Purpose.START)
        labels = spherical_kmeans(X, int(n_clusters), rng)
        state, stats = start_tree(X, labels, model.priors)
        if self._limit() == 1 and len(state.tree) == 2:
            state, stats = merged(state, stats, model.priors, 1, 0)
        if not (model.learns_concentration and model.learns_prior_concentration):
            state = update_means(self._given(state), stats, model.priors)
        return state, stats

    def _given(self, state: EpochState) -> EpochState:
        """Set the concentrations that are not learned."""
        if self.vmf_concentration != "auto":
            state = replace(state, concentration=float(self.vmf_concentration))
        if self.prior_concentration != "auto":
            value = float(self.prior_concentration)
            state = replace(state, prior_concentration=value)
        return state

    def _resumed(self, model, *, in_fit: bool) -> EpochPosterior:
        posterior = self._posterior
        return replace(
            posterior,
            model=replace(model, is_first=posterior.model.is_first),
            state=self._given(posterior.state),
            max_components=self._limit(),
            window=self.window,
            unsettled=(),
        )

    def _make_learner(self, posterior, rows, executor, goes_on):
        """Learn rows of the open epoch, which `goes_on` with those that it has."""
        moves = self.structure_moves
        if not isinstance(moves, EpochMoves):
            moves = EpochMoves() if moves else None
        n_rows, n_features = rows.shape
        size = n_features if self.batch_size is None else self.batch_size
        n_parts = max(-(-n_rows // size) if self.batch_size else n_rows // size, 1)
        others = EpochStats.zero(len(posterior.ids), n_features)
        if goes_on:
            others = posterior.totals
        corpus = Corpus(rows)
        return Learner(
            posterior,
            corpus,
            BatchSchedule(n_rows, n_parts, n_joint=1),
            RowVisitor(executor),
            EpochMemory(corpus, n_parts, others, executor),
            NO_MOVES if moves is None else TreeEdits(moves),
        )

    def _n_further_passes(self, rows) -> int:
        return self.max_iter * (len(rows.epochs) - 1)

    def _learn_all(self, posterior, rows, executor, monitor, tasks, goes_on) -> bool:
        passes = {"begin_pass": tasks.begin_pass, "end_pass": tasks.end_pass}
        self._learn_epochs(posterior, rows, executor, monitor, **passes)
        return not posterior.unsettled

    def _learn_chunk(self, posterior, rows, executor, monitor) -> None:
        monitor.tol = self.tol
        self._learn_epochs(posterior, rows, executor, monitor)

    def _learn_epochs(self, posterior, rows, executor, monitor, **passes) -> None:
        """Learn epoch by epoch; one without rows is passed over."""
        for label, X in rows:
            if label != posterior.label:
                close_epoch(posterior, label, X)
            if X.shape[0] == 0:
                continue
            if posterior.n_steps == 0 and posterior.closed:
                self._start_late(posterior, X)
            goes_on = posterior.n_open > 0
            if goes_on:
                centroid = centroid_of(X, posterior.state, posterior.totals)
                posterior.state = replace(posterior.state, centroid=centroid)
            learner = self._make_learner(posterior, X, executor, goes_on)
            posterior.n_open += X.shape[0]
            monitor.forget()
            if len(rows.epochs) > 1:
                monitor.report(f"epoch {label}: {X.shape[0]} rows")
            settled = posterior.unsettled
            posterior.unsettled = (*settled, label)
            if learn(learner, monitor, n_passes=self.max_iter, **passes):
                posterior.unsettled = settled

    def _start_late(self, posterior, X) -> None:
        """Begin with clusters where no epoch has had rows so far."""
        state, stats = self._first_tree(posterior.model, X, posterior.entropy)
        posterior.model = replace(posterior.model, is_first=True)
        posterior.replace_globals(state, stats)
        first = Lineage(0, "init", (), tuple(np.sort(state.tree.ids).tolist()))
        posterior.lineage = [first]

    def _warn_if_not_converged(self, monitor) -> None:
        unsettled = self._posterior.unsettled
        if self.tol > 0 and unsettled:
            which = ", ".join(map(str, unsettled[:5]))
            which += ", ..." if len(unsettled) > 5 else ""
            warn_caller(
                f"The bound of {len(unsettled)} epochs ({which}) still changed, or the "
                f"tree, in the last of {self.max_iter} passes, tol={self.tol:g}. "
                "Increase max_iter or tol.",
                ConvergenceWarning,
            )

    def _fitted_attributes(self, posterior, history, n_iter, converged=False):
        state = posterior.state
        view = _view(state)
        return {
            "_posterior": posterior,
            "tree_": view,
            "n_components_": len(state.tree),
            "component_ids_": state.tree.ids.copy(),
            "lineage_": list(posterior.lineage),
            "vmf_concentration_": float(state.concentration),
            "prior_concentration_": float(state.prior_concentration),
            "n_active_components_": int(view.in_use.sum()),
            "history_": history,
            "n_iter_": n_iter,
            "converged_": converged,
        }

    # -- loading ----------------------------------------------------------------------

    def _check_saved(self) -> None:
        posterior, n_features = self._posterior, self.n_features_in_
        for epoch in posterior.closed:
            _check_state(epoch.state, n_features)
        state, totals = posterior.state, posterior.totals
        _check_state(state, n_features)
        n = len(state.tree)
        check_array("masses", totals.masses, (n,))
        check_array("entropies", totals.entropies, (n,), least=-HUGE)
        magnitudes = totals.sums.copy() if sp.issparse(totals.sums) else totals.sums
        if sp.issparse(magnitudes):
            magnitudes.data = np.abs(magnitudes.data)
        check_sparse("sums", magnitudes, (n, n_features), kind="f")
        if not np.array_equal(posterior.ids, state.tree.ids):
            raise ValueError("The saved tree_ is damaged: its ids disagree.")

    # -- evaluation: reads the posterior, writes nothing, draws nothing ----------------

    @property
    def _topic_numbers(self) -> np.ndarray:
        return np.arange(self.n_components_)

    @property
    def components_(self) -> np.ndarray:
        """Mean directions of the nodes in the newest epoch."""
        check_is_fitted(self)
        return _directions(self._posterior.state)

    @property
    def epochs_(self) -> dict[Any, EpochRecord]:
        """What was learned of each epoch, in order."""
        check_is_fitted(self)
        found = {}
        for epoch in self._posterior.epochs:
            directions = _directions(epoch.state)
            directions[np.abs(directions) < SHOWN] = 0.0
            tree = epoch.state.tree
            found[epoch.label] = EpochRecord(
                _view(epoch.state),
                sp.csr_array(directions),
                tree.ids.copy(),
                epoch.state.masses.copy(),
                epoch.n_rows,
                epoch.first_step,
            )
        return found

    @property
    def elbo_(self) -> float:
        """Bound of the newest epoch, nats per row."""
        return self._last("elbo")

    def transform(self, X, epochs=None):
        """Infer the proportions of nodes in rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.
        epochs : array-like of shape (n_samples,) or scalar, default=None
            Label of the epoch of each row, or of all: a row is explained by the tree of
            its epoch, one of a later epoch by the newest, as is None.

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
            If a label is neither that of an epoch nor later.
        """
        rows, dtype = self._rows(X, "transform")
        n, k = rows.shape[0], self.n_components_
        parts = []
        for number, memo, places in self._visited(rows, epochs):
            shares = memo.shares()
            at, column = np.nonzero(shares)
            parts.append((number[at], places[at, column], shares[at, column]))
        empty = np.flatnonzero(np.diff(rows.indptr) == 0)
        state, priors = self._posterior.state, self._posterior.model.priors
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
        found = sp.csr_array((values, (at, nodes)), shape=(n, k)).astype(dtype)
        return found if self.sparse_output else found.toarray()

    def apply(self, X, epochs=None):
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

    def decision_path(self, X, epochs=None):
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
        paths = self._posterior.state.tree.paths(nodes)
        known = paths >= 0
        limits = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        ones = np.ones(limits[-1], dtype=np.intp)
        shape = (len(paths), self.n_components_)
        return sp.csr_array((ones, paths[known], limits), shape=shape)

    def score_samples(self, X, epochs=None):
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

        See Also
        --------
        skbnp.metrics.plug_in_gain : The same at the mean directions, as in the paper.
        """
        rows, _ = self._rows(X, "score_samples")
        gains = np.zeros(rows.shape[0])
        priors = self._posterior.model.priors
        with Executor(self.n_jobs) as executor, one_blas_thread():
            for epoch, number in rows_by_epoch(self._posterior, epochs, rows.shape[0]):
                own = rows[number]
                gains[number] = log_gain(epoch.state, priors, own, run=executor.map)
        gains[np.diff(rows.indptr) == 0] = 0.0
        return gains

    def score(self, X, y=None, epochs=None, sample_weight=None):
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
            weights = check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
            weights = np.where(used, weights, 0.0)
        total = weights.sum()
        return float(weights @ gains / total) if total > 0.0 else 0.0

    def elbo(self, X):
        """Evidence lower bound of rows under the newest tree.

        The posterior of the tree is held fixed, and its divergence from the prior
        counts in full: the bound is that of an epoch that consists of `X`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.

        Returns
        -------
        elbo : float
            Nats per row that is not zero, see `elbo_`.
        """
        return sum(self.elbo_terms(X).values())

    def elbo_terms(self, X):
        """Evidence lower bound by its terms, see `elbo`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that are put on the unit sphere.

        Returns
        -------
        terms : dict of str to float
            In nats per row of `X` that is not zero:

            - "rows": E log p(x, z);
            - "entropy": of q(z);
            - "directions": -KL(q(theta) || p(theta));
            - "sticks": -KL of all sticks.
        """
        rows, _ = self._rows(X, "elbo")
        model, state = self._posterior.model, self._posterior.state
        with Executor(self.n_jobs) as executor, one_blas_thread():
            table = NodeTable.of(state, model.priors)
            _, fresh = visit(table, rows, run=executor.map)
        return per_token(model.objective(state, fresh), fresh.n_tokens)

    def _rows(self, X, method: str) -> tuple[sp.csr_array, np.dtype]:
        check_is_fitted(self)
        return check_directions(self, X, reset=False, method=method)

    def _visited(
        self, rows: sp.csr_array, epochs: Any
    ) -> Iterator[tuple[np.ndarray, Memo, np.ndarray]]:
        """Rows by epoch, where they are, and their nodes as rows of `tree_`."""
        priors, newest = self._posterior.model.priors, self._posterior.state.tree
        with Executor(self.n_jobs) as executor, one_blas_thread():
            for epoch, number in rows_by_epoch(self._posterior, epochs, rows.shape[0]):
                table = NodeTable.of(epoch.state, priors)
                memo, _ = visit(table, rows[number], run=executor.map)
                tree = epoch.state.tree
                living = np.isin(tree.ids, newest.ids)
                above = np.arange(len(tree))
                for place in np.flatnonzero(~living).tolist():  # parents come first
                    above[place] = above[tree.parent[place]]
                place = newest.positions(tree.ids[above])
                at = tree.positions(np.where(memo.nodes >= 0, memo.nodes, 0))
                yield number, memo, place[at]


def _directions(state: EpochState) -> np.ndarray:
    lengths = np.linalg.norm(state.means, axis=1, keepdims=True)
    return state.means / np.maximum(lengths, 1e-300)


def _view(state: EpochState) -> TreeView:
    """Show a tree, with the share of rows at each node or below."""
    tree, total = state.tree, float(state.masses.sum())
    through = tree.accumulate(state.masses)
    weight = through / through[0] if total > 0.0 else np.eye(1, len(tree))[0]
    return TreeView(tree.parent, weight, tree.ids, through >= max(1.0, 1e-4 * total))


def _check_state(state: EpochState, n_features: int) -> None:
    state.tree.check()
    n = len(state.tree)
    for name in ("masses", "history", "concentrations"):
        check_array(name, getattr(state, name), (n,))
    for name, shape in (
        ("means", (n, n_features)),
        ("previous", (n, n_features)),
        ("centroid", (n_features,)),
    ):
        value = getattr(state, name)
        if name == "previous" and isinstance(value, np.ndarray) and n:
            value = np.ascontiguousarray(value)
        check_array(name, value, shape, least=-HUGE)
    for name in ("concentration", "prior_concentration"):
        check_number(name, getattr(state, name), least=1e-300, most=HUGE)
