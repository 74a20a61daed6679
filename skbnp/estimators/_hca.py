"""Estimator of hierarchical component analysis, by variational inference."""

from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skbnp.components.tree_sticks import TreeMoves, passing_probabilities
from skbnp.estimators import _base, _trees, _variational
from skbnp.estimators._saved import LARGE, check_levels, check_number, damaged
from skbnp.inference.engine import Learner, StreamLearner
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior, per_token
from skbnp.inference.protocols import NO_MOVES, BatchSchedule, Corpus
from skbnp.models.hca import local
from skbnp.models.hca import moves as hca_moves
from skbnp.models.hca import state as hca
from skbnp.models.hca.model import Model
from skbnp.trees import TreeView
from skbnp.utils import validation as valid
from skbnp.utils.arrays import at_columns, one_blas_thread
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Ints32, MatrixLike
from skbnp.utils.warnings import warn_caller

#: Moves of a kind that are tried after a pass, each by so many visits.
DEFAULT_MOVES = TreeMoves(max_tries=5, max_rounds=4)
#: Levels that need no caution, and columns that are many.
DEFAULT_DEPTH, WIDE = 3, 5_000
#: Rows of a stream that are evidence of branches where there are some clear groups.
ENOUGH_ROWS = 200
#: Part of the variance that other rows have beside one that hides them.
NOTHING_LEFT = 1e-4


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    max_depth: int = field(default=3, kw_only=False)
    max_components: int | None = None
    child_concentration: float = 1.0
    loading_variance: float | str = 50.0
    structure_moves: bool | TreeMoves = True
    batch_size: int = 1024


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(_variational.PassParameters, _Own):
    """Parameters of HierarchicalComponentAnalysis."""


class HierarchicalComponentAnalysis(
    _Parameters,
    _trees.PathsMixin,
    _variational.BoundMixin,
    _variational.VariationalEstimator,
):
    """Hierarchical component analysis: a tree of directions, by variational inference.

    A mixture of probabilistic principal component analyses that share directions: each
    row lies close to the space of the directions on a path of a tree, general ones near
    the root and special ones at the leaves. The tree has as many branches as the rows
    ask for. With the symbols of section 4.2 of [1]_, row n takes a path c and is
    t_n ~ N(mu + sum_l w_{c_l} x_l, I / tau), with directions w_i ~ N(0, s0 I), centres
    a_i ~ N(0, 10) of all nodes but the root, and coordinates x_l ~ N(a_{c_l}, 1).

    All priors are in units of `scale_`, the standard deviation of the data, so that
    ``fit(s * X + c)`` gives the same tree, `components_` times s, `noise_variance_`
    times s^2 and log densities less `n_features_in_` log s.

    Parameters
    ----------
    max_depth : int, default=3
        Levels of the tree (L), 1 to 50, the root included. 1 is a single direction.
    max_components : int or None, default=None
        Largest number of nodes, the root included; None for no limit. The first path is
        there in any case.
    child_concentration : float, default=1.0
        Concentration of the children of a node (gamma), in [1e-100, 1e10]; larger
        values make more branches.
    loading_variance : float or "auto", default=50.0
        Prior variance of the entries of directions and mean (s0), > 0, relative to the
        mean variance of a column, so that it has no unit; larger values cost a node
        more. The 10^3 of [1]_, in units of its digits, are 53. "auto" maximises the
        bound.
    structure_moves : bool or TreeMoves, default=True
        Whether the tree changes: branches grow, leaves end, siblings merge and nodes go
        to other parents, each if the bound rises. A `TreeMoves` has the details;
        its `grow` and `merge` keep their defaults.
    batch_size : int, default=1024
        Rows of a minibatch of `partial_fit`, at most.
    learning_offset : float, default=1.0
        Offset of the step sizes rho_t = (learning_offset + t)^-learning_decay of
        `partial_fit`, >= 0.
    learning_decay : float, default=0.6
        Decay of the step sizes, in [0.5, 1].
    total_samples : float or None, default=None
        Rows of the stream that `partial_fit` learns from, > 0. None means those seen so
        far.
    max_iter : int, default=100
        Passes over the data in `fit`.
    tol : float, default=1e-4
        A branch grows only if it raises the bound by this part of the nats of white
        noise, log(2 pi e) / 2 = 1.42 for each entry of `X`. Once moves have ended,
        `fit` ends when the bound changes by less than that between two passes. With 0,
        branches that raise it by a nat grow, and all `max_iter` passes are made.
    sparse_output : bool, default=False
        Whether `transform` returns a sparse array: a row has at most `max_depth`
        entries.
    n_jobs : int or None, default=None
        Threads of the row step, as in scikit-learn. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Rows that moves start from. The same int gives the same bits.
    verbose : int, default=0
        Passes between messages; 0 for none.
    warm_start : bool, default=False
        Whether `fit` goes on from the present tree.

    Attributes
    ----------
    tree_ : TreeView
        The known part of the tree, siblings by decreasing mass: `parent`, `depth`,
        `ids`, and `weight`, the probability that a path passes the node, from expected
        sticks: 1 at the root, and what children lack to their parent belongs to
        branches that are not in the tree.
    components_ : ndarray of shape (n_components_, n_features)
        Posterior mean of the direction of each node; their lengths are standard
        deviations of the data along them, and their largest entries are positive.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected share of the rows whose path ends at each node, or leaves the tree
        there; they sum to one. `tree_.weight` says which share of paths passes a node.
    centres_ : ndarray of shape (n_components_,)
        Posterior mean of the centre of the coordinates on each node, in standard
        deviations of these (a); 0 at the root.
    mean_ : ndarray of shape (n_features,)
        Posterior mean of the origin of all coordinates (mu).
    scale_ : float
        Unit of the priors: the root of the mean variance of the columns of `X`; in a
        stream, root mean square of all entries so far about the means of the first
        chunk. 0 as long as all rows are equal; the unit is 1 then.
    noise_variance_ : float
        Noise in each feature, 1 / E[tau], in squared units of `X`.
    loading_variance_ : float
        Value in force, in units of `scale_` squared.
    n_components_ : int
        Number of nodes, the root included.
    component_ids_ : ndarray of shape (n_components_,)
        Name of each node in `lineage_`, unchanged while rows move. All else calls a
        node by its row, as trees of scikit-learn do.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from: the start, then every accepted "split", "merge",
        "reattach" (of the first parent below the second) and "prune". Ended ids never
        return.
    n_active_components_ : int
        Nodes that at least max(1, 1e-4 of all) expected rows pass.
    elbo_ : float
        Bound of the training data in nats per row; after `partial_fit` that of recent
        rows, weighted as the step sizes weigh them.
    converged_ : bool
        Whether `tol` ended the last `fit`.
    history_ : dict of lists
        One entry per update and per round of moves that changed the tree: `step`,
        `seconds`, `n_components`, `elbo` (nats per row; evaluated once per pass of
        `fit`, nan in between and in `partial_fit`), `n_births` (always 0), `n_splits`,
        `n_merges` (accepted so far).
        Streams keep 10,000 entries at most, fewer of the older half.
    n_iter_ : int
        Passes made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` had them.

    See Also
    --------
    NestedCRP : Trees of topics, for counts.
    sklearn.decomposition.PCA : A single path without noise.

    Notes
    -----
    Without `max_components` trees of real data become large, as hardly any cluster is a
    Gaussian in few dimensions. `tol` ends the growth.

    A pass takes time in proportion to rows times nodes times columns. Memory is that of
    `X` and some 60 to 200 bytes for each row and path that it may take.

    Before a pass, coordinates are rotated and scaled, and loadings with them, if the
    bound rises [2]_.

    Departures from the paper are listed in `doc/derivations/component_analysis.rst`.

    References
    ----------
    .. [1] Chong Wang and David M. Blei, "Variational Inference for the Nested Chinese
       Restaurant Process", NIPS 2009.
    .. [2] Jaakko Luttinen and Alexander Ilin, "Transformations in Variational Bayesian
       Factor Analysis to Speed up Learning", Neurocomputing 73, 2010.

    Examples
    --------
    >>> from skbnp import HierarchicalComponentAnalysis
    >>> from skbnp.datasets import make_subspace_tree
    >>> X = make_subspace_tree(random_state=0).data
    >>> hca = HierarchicalComponentAnalysis(random_state=0).fit(X)
    >>> hca.tree_
    TreeView(n_nodes=13, n_leaves=9, max_depth=2)
    >>> hca.inverse_transform(hca.transform(X)).shape
    (900, 30)
    """

    # Fitted
    _recent: hca_moves.RecentRows = hca_moves.RecentRows()  # of a stream
    tree_: TreeView
    components_: np.ndarray
    mean_: np.ndarray
    centres_: np.ndarray
    scale_: float
    noise_variance_: float
    loading_variance_: float
    n_active_components_: int

    if TYPE_CHECKING:  # the type of scikit-learn's

        def fit_transform(
            self, X: MatrixLike, y: object = None, **fit_params: Any
        ) -> np.ndarray: ...

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        loading_variance=[
            valid.Interval(Real, 1e-100, 1e100, closed="both"),
            _base.AUTO,
        ],
        structure_moves=["boolean", TreeMoves],
    )
    #: How `fit` learns; there is no other way.
    learning_method = "batch"

    def __sklearn_tags__(self):
        """Return tags of scikit-learn: dense rows."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # -- learning ---------------------------------------------------------------------

    @valid.fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn a tree of directions from all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of numbers, dense.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            step as a whole.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update.

        Raises
        ------
        ValueError
            If `X` has infinite or missing values, no rows or no columns, or a parameter
            is outside its range.
        TypeError
            If `X` is sparse.

        Warns
        -----
        UserWarning
            If the tree is a single path, or if one Gaussian of any covariance explains
            the rows better than the tree, whose leaves may be parts of one cloud then.
        """
        with one_blas_thread():
            return self._fit(X, y, sample_weight=sample_weight)

    @valid.fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from a chunk of a stream: one online update per `batch_size` rows.

        The first call fixes the features, and centres the prior of the mean; priors
        are relative to the variance of all rows so far. The tree changes by the last
        1,024 rows (fewer of more than 4,096 columns), which are kept for that, or by
        those of a larger chunk, 4,096 random ones at most: at 20 rows, then whenever
        their number has doubled, then for each as many new ones. As long as these are
        all rows so far, it may start again from groups of them. A failed call leaves
        the estimator as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of the chunk, dense.
        y : None
            Ignored, but handed on to callbacks.
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
            If `X` has infinite or missing values, no rows or no columns, or another
            number of columns than before.
        TypeError
            If `X` is sparse.

        Warns
        -----
        UserWarning
            As `fit`, once: after 200 rows.
        """
        n_before = self._posterior.n_seen if self.__sklearn_is_fitted__() else 0
        with one_blas_thread():
            self._partial_fit(X, y, sample_weight=sample_weight)
        if not n_before < ENOUGH_ROWS <= self._posterior.n_seen:
            return self
        if len(self._recent.rows):
            with Executor(self.n_jobs) as executor, one_blas_thread():
                rows = self._recent.rows
                self._warn_of_one_cloud(self._posterior, rows, executor)
        if self._is_bare:
            warn_caller(
                "The tree is a single path: apply gives one node for all rows. "
                f"No branch raises the bound for the {self._posterior.n_seen} rows so "
                "far. Rows may be one Gaussian cloud; if not, columns of other units "
                "may hide groups (StandardScaler), and a smaller loading_variance or "
                "tol allows more branches."
            )
        return self

    def _read(self, X, *, reset: bool, method: str, sample_weight=None) -> np.ndarray:
        """Check rows, repeated by weights; raise if any is far from the fit's."""
        copies = None if sample_weight is None else valid.check_copies(sample_weight, X)
        rows = valid.check_rows(self, X, reset=reset, method=method)
        rows = rows if copies is None else rows[copies]
        if not reset:
            frame = self._fitted_posterior.model.frame
            row, size = frame.farthest(rows)
            if size > hca.FARTHEST:
                raise ValueError(
                    f"Row {row} of X is {size:.1e} standard deviations (scale_="
                    f"{frame.unit:.3g}) from the rows of the fit, expected at most "
                    f"{hca.FARTHEST:g}: scale X as those, or fit again."
                )
        return rows

    def _describe(self, rows) -> str:
        return f"{rows.shape[0]} rows of {rows.shape[1]} features"

    def _moves(self) -> TreeMoves | None:
        """Return the moves of the tree; raise for those of topic trees."""
        moves = self.structure_moves
        if not isinstance(moves, TreeMoves):
            return DEFAULT_MOVES if moves else None
        if moves.algorithm != "default":
            raise ValueError(
                "structure_moves.algorithm must be 'default' for directions, got "
                f"{moves.algorithm!r}."
            )
        return moves

    def _make_model(self) -> Model:
        """Return the model, before its priors are set by starting rows."""
        self._moves()
        is_auto = self.loading_variance == "auto"
        return Model(
            self.max_depth,
            float(self.child_concentration),
            1.0 if is_auto else float(self.loading_variance),
            hca.Frame(np.zeros(0), 0.0),
            learn_loading_variance=is_auto,
        )

    def _start(self, model, rows, seed_entropy, n_rows) -> Posterior:
        """Return a posterior of one path of principal directions."""
        frame = hca.Frame.of_rows(rows)
        row, left = frame.heaviest(rows)
        if left < NOTHING_LEFT and len(rows) > 2 and frame.scale:
            warn_caller(
                f"Row {row} of X has all but {max(left, 0.0):.0e} of the variance of "
                "X: beside it all other rows are alike. Remove or clip it, or take "
                "sklearn.preprocessing.RobustScaler."
            )
        model = replace(model, frame=frame)
        rng = stream(seed_entropy, Purpose.START)
        state = hca_moves.path_of_directions(model, rows, rng)
        ids = state.tree.ids
        return Posterior(
            model,
            state,
            hca.Stats.zero(len(ids), self.max_depth, rows.shape[1]),
            ids,
            [Lineage(0, "init", (), tuple(ids.tolist()))],
            seed_entropy=seed_entropy,
            max_components=self._component_limit(),
        )

    def _resumed(self, model, *, in_fit: bool) -> Posterior:
        learned = self._posterior.model
        _trees.check_depth(self, learned.n_levels)
        model = replace(model, frame=learned.frame)
        if model.learn_loading_variance:
            model = replace(model, loading_variance=learned.loading_variance)
        return super()._resumed(model, in_fit=in_fit)

    def _local_step(self, executor) -> local.RowLocalStep:
        return local.RowLocalStep(executor)

    def _around(self, posterior, rows, executor):
        self._recent = hca_moves.RecentRows()
        return super()._around(posterior, rows, executor)

    def _make_learner(self, posterior, around, goes_on):
        """Return the learner of `fit`, with its moves."""
        (rows, local_step), moves = around, self._moves()
        edits = NO_MOVES if moves is None else hca_moves.ComponentEdits(moves, self.tol)
        if goes_on:
            _put_in_frame(posterior, rows)
        self._warn_of_cost(*rows.shape)
        schedule, corpus = BatchSchedule.of_rows(len(rows)), Corpus(rows)
        return Learner(posterior, corpus, schedule, local_step, local.RowCache(), edits)

    def _warn_of_cost(self, n_rows: int, n_features: int) -> None:
        """Warn of long fits, and name the parameter, or step before, that helps."""
        n_directions = min(n_rows, n_features)
        if self.max_depth > max(DEFAULT_DEPTH, n_directions + 1):
            warn_caller(
                f"max_depth={self.max_depth}, but {n_rows} rows of {n_features} "
                f"columns have {n_directions} directions at most: more than "
                f"{n_directions + 1} levels explain nothing and take their time, which "
                "grows with the square of max_depth."
            )
        if n_features >= WIDE and n_features > 10 * n_rows:
            warn_caller(
                f"X has {n_features} columns for {n_rows} rows, and a fit takes time "
                "in proportion to columns: sklearn.decomposition.PCA(n_components="
                f"{max(n_rows - 1, 1)}) before it keeps all distances between rows."
            )

    def _learn_chunk(self, posterior, rows, executor, monitor) -> None:
        """Learn a chunk of a stream by online updates, then try moves."""
        if posterior.model.frame.scale == 0.0:  # nothing is known of it yet
            _put_in_frame(posterior, rows)
        moves = self._moves()
        recent, n_steps = self._recent, posterior.n_steps
        edits = (
            NO_MOVES
            if moves is None
            else hca_moves.StreamEdits(moves, self.tol, recent)
        )
        schedule = self._stream_schedule(posterior, rows)
        corpus, local_step = Corpus(rows), local.RowLocalStep(executor)
        cache = local.FramedAverage()
        learner = StreamLearner(posterior, corpus, schedule, local_step, cache, edits)
        try:
            learner.one_pass(monitor)
        finally:
            if posterior.n_steps > n_steps:
                self._recent = getattr(edits, "recent", hca_moves.RecentRows())

    def _learn_all(self, posterior, session) -> bool:
        """Make the passes of `fit`; return whether the bound has converged."""
        converged = super()._learn_all(posterior, session)
        self._warn_of_one_cloud(posterior, session.rows, session.executor)
        return converged

    def _warn_of_one_cloud(self, posterior, rows, executor) -> None:
        """Warn if leaves are parts of one Gaussian cloud, not groups."""
        tree, masses = posterior.state.tree, posterior.global_stats.stub_masses
        n_leaves = np.count_nonzero(masses[tree.leaves] >= 1.0)
        if n_leaves < 2:
            return
        step = local.RowLocalStep(executor)
        n_long = local.directions_of_one_cloud(posterior, step, rows)
        if n_long is not None:
            depth = max(self.max_depth + 1, n_long)
            warn_caller(
                f"One Gaussian cloud explains the rows better than this tree, whose "
                f"{n_leaves} leaves may be parts of it: do not take them for groups. "
                f"It may be long in more than max_depth={self.max_depth} directions: "
                f"try max_depth={depth}; columns of other units may hide groups, too "
                "(StandardScaler)."
            )

    @property
    def _is_bare(self) -> bool:
        """Whether the tree is a single path although it could have had branches."""
        return _trees.is_bare_path(self) and self._component_limit() > self.max_depth

    def _monitor(self, model, history, tol: float = 0.0) -> Monitor:
        """Return a monitor whose tolerance is relative to white noise."""
        monitor = super()._monitor(model, history, tol)
        monitor.size = hca.white_noise(1.0, self.n_features_in_)
        return monitor

    def _why_not_converged(self) -> str:
        return "left no two passes to compare between which the tree stayed."

    def _warn_if_not_converged(self, monitor) -> None:
        """Warn if the bound has not converged, or if the tree is one path."""
        super()._warn_if_not_converged(monitor)
        if not self._is_bare:
            return
        n_rows, varies = self._posterior.global_stats.n_rows, self.scale_ > 0.0
        warn_caller(
            "The tree is a single path: apply gives one node for all rows. "
            + (
                f"No branch raises the bound for {n_rows:.0f} rows of "
                f"{self.n_features_in_} columns. Rows may be one Gaussian cloud; if "
                "not, columns of other units may hide groups (StandardScaler), and a "
                "smaller loading_variance or tol, or more rows, allow more branches."
                if varies
                else "All rows of X are equal: there is nothing to tell them apart."
            )
        )

    def _fitted_attributes(self, posterior, *given):
        model, state = posterior.model, posterior.state
        tree = state.tree
        through = state.tree.accumulate(posterior.global_stats.stub_masses)
        in_use = through >= max(1.0, 1e-4 * posterior.global_stats.n_rows)
        unit, signs = model.frame.unit, _signs(state.loadings)
        passing = passing_probabilities(
            tree, state.stub_masses, model.concentration, model.n_levels
        )
        return {
            **super()._fitted_attributes(posterior, *given),
            "tree_": TreeView(tree.parent, passing, tree.ids, in_use),
            "components_": signs[:, None] * state.loadings * unit,
            "centres_": signs * state.centres,
            "mean_": state.mean * unit + model.frame.shift,
            "scale_": model.frame.scale,
            "noise_variance_": float(unit**2 / state.precision),
            "loading_variance_": model.loading_variance,
            "n_active_components_": int(in_use.sum()),
        }

    # -- loading ----------------------------------------------------------------------

    _saved_parts = {"model": Model, "state": hca.State, "global_stats": hca.Stats}

    def _check_saved(self) -> dict[str, int]:
        sizes, posterior = super()._check_saved(), self._posterior
        model, state = posterior.model, posterior.state
        global_stats, n_levels = posterior.global_stats, model.n_levels
        check_levels(n_levels, state.tree, _base.MOST_LEVELS)
        check_number("moments", sizes["n_levels"], least=n_levels, most=n_levels)
        variances = state.centre_variances[1:]  # 0 at the root, which has no centre
        check_number(
            "centre_variances", variances.min(initial=1.0), least=1e-300, most=LARGE
        )
        moments = global_stats.moments
        skewed = np.abs(moments - moments.transpose(0, 2, 1)).max(axis=(1, 2))
        roots, traces = np.linalg.eigvalsh(moments), np.trace(moments, axis1=1, axis2=2)
        if (np.maximum(skewed, -roots[:, 0]) > 1e-6 * (1.0 + traces)).any():
            raise damaged("moments", "is no sum of squares")
        # The mean coordinates of the rows that pass; the root has no centre.
        sums = hca.equations(state.tree, global_stats)
        means = np.abs(state.centre_variances * sums.left[:-1, -1])
        beyond = np.abs(state.centres[1:]) > 1.0 + 10.0 * means[1:]
        if state.centres[0] != 0.0 or beyond.any():
            raise damaged("centres", "has one far from all rows")
        recent = self._recent.rows
        if len(recent) and recent.shape[1] != self.n_features_in_:
            raise damaged("recent_rows", "has other columns")
        if len(recent) and model.frame.farthest(recent)[1] > hca.FARTHEST:
            raise damaged("recent_rows", "has one that is too far away")
        return sizes

    # -- evaluation: reads the posterior, writes nothing, draws nothing ----------------

    @property
    def _n_enough_docs(self) -> int:
        return 0 if self._moves() is None else super()._n_enough_docs

    @property
    def topic_weights_(self) -> np.ndarray:
        """Expected shares of the rows whose paths end at the nodes."""
        masses = self._fitted_posterior.global_stats.stub_masses
        return masses / max(float(masses.sum()), 1e-300)

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Express rows by the directions on their most probable paths.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of numbers, dense.

        Returns
        -------
        coordinates : ndarray or csr_array of shape (n_samples, n_components_)
            Least-squares coordinates of rows less `mean_` on the directions of the most
            probable path of each, zero elsewhere. Sparse if `sparse_output`. float32 if
            `X` is, otherwise float64.
        """
        rows, memo, given = self._visited(X, "transform")
        state, model = self._posterior.state, self._posterior.model
        with Executor(self.n_jobs) as executor, one_blas_thread():
            best, result = local.coordinates(
                given, memo, rows, state.tree, model.frame, executor
            )
        nodes = given.stub_nodes[best]
        result = (result * _signs(state.loadings)[nodes]).astype(rows.dtype)
        sparse = at_columns(nodes, result, self.n_components_)
        return sparse if self.sparse_output else sparse.toarray()

    def inverse_transform(self, X: MatrixLike) -> np.ndarray:
        """Put rows together from their coordinates.

        ``inverse_transform(transform(X))`` is the reconstruction whose error the paper
        reports.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_components_)
            Coordinates, as `transform` gives them.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            ``X @ components_ + mean_``. float32 if `X` is, otherwise float64.

        Raises
        ------
        ValueError
            If `X` has infinite or missing values, or another number of columns.
        """
        valid.check_is_fitted(self)
        X = valid.check_coordinates(self, X, n_columns=self.n_components_)
        rows = X @ self.components_ + self.mean_
        return rows.astype(np.float32) if X.dtype == np.float32 else rows

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log density of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of numbers, dense.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            Values of log sum_k E[p(c = k)] N(t; mu + M_k a_k, M_k M_k' + I / tau) in
            nats, M_k the known directions on path k and a_k the centres on them, all at
            their posterior means.
        """
        rows = self._read(X, reset=False, method="score_samples")
        model, state = self._posterior.model, self._posterior.state
        with Executor(self.n_jobs) as executor, one_blas_thread():
            paths = hca.mean_paths(model, state)
            return local.log_density(paths, rows, model.frame, executor)

    def score(self, X: MatrixLike, y: object = None) -> float:
        """Mean log density of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of numbers, dense.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Nats per row, see `score_samples`; larger is better.
        """
        return float(self.score_samples(X).mean())

    def elbo_terms(self, X: MatrixLike) -> dict[str, float]:
        """Evidence lower bound by its terms, see `elbo`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of numbers, dense.

        Returns
        -------
        terms : dict of str to float
            In nats per row of `X`:

            - "loadings": -KL(q(w) || p(w));
            - "centres": -KL(q(a) || p(a));
            - "mean": -KL(q(mu) || p(mu));
            - "noise": -KL(q(tau) || p(tau));
            - "sticks": -KL(q(v) || p(v));
            - "rows": all terms of paths, coordinates and rows.
        """
        rows = self._read(X, reset=False, method="elbo")
        model, state = self._posterior.model, self._posterior.state
        with Executor(self.n_jobs) as executor, one_blas_thread():
            _, fresh = local.RowLocalStep(executor).update_rows(model, state, rows)
        return per_token(model.objective(state, fresh), fresh.n_rows)

    def _visited(self, X, method: str) -> tuple[np.ndarray, local.Memo, hca.Paths]:
        """Run the local step of rows; return rows, memo and paths."""
        rows = self._read(X, reset=False, method=method)
        model, state = self._posterior.model, self._posterior.state
        given = hca.paths(model, state)
        with Executor(self.n_jobs) as executor, one_blas_thread():
            memo = local.update_local(given, state.tree, rows, model.frame, executor)
        return rows, memo, given

    def _paths_of(self, X, method: str) -> tuple[local.Memo, Ints32, np.dtype]:
        rows, memo, given = self._visited(X, method)
        places = self._posterior.state.tree.positions(memo.stubs)
        return memo.renamed(places), given.stub_nodes, rows.dtype


def _put_in_frame(posterior: Posterior, rows: np.ndarray) -> None:
    """Set the frame of the model in place by the variance of rows."""
    old = posterior.model
    model, state, global_stats = old.in_frame(
        replace(old.frame, scale=old.frame.spread(rows)),
        posterior.state,
        posterior.global_stats,
    )
    if old.frame.scale == 0.0:  # directions of length zero would stay so
        rng = stream(posterior.seed_entropy, Purpose.START)
        state = hca_moves.path_of_directions(model, rows, rng)
    posterior.model = model
    posterior.replace_globals(state, global_stats)


def _signs(loadings: np.ndarray) -> np.ndarray:
    """Signs that make the largest entries of loadings positive."""
    largest = np.abs(loadings).argmax(axis=1)
    return np.where(loadings[np.arange(len(loadings)), largest] < 0.0, -1.0, 1.0)
