"""Estimator of dependent trees over epochs, by variational inference."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from skbnp.components.word_topics import SeenWords
from skbnp.estimators import _base
from skbnp.estimators._base import files_of
from skbnp.estimators._epoch_trees import EpochTreeMixin, TreeParameters, check_state
from skbnp.estimators._saved import check_seen_words, check_type
from skbnp.estimators._variational import BoundMixin, VariationalEstimator
from skbnp.inference.executor import Executor, commit
from skbnp.inference.posterior import Lineage, per_token
from skbnp.inference.protocols import NO_MOVES, BatchSchedule, Part, even_limits
from skbnp.inference.shards import LocalShards, Shards
from skbnp.inference.trials import adopt
from skbnp.models.dependent_trees import epoch as trees
from skbnp.models.dependent_trees import memory, updates
from skbnp.models.dependent_trees.assignments import Assigned, assign_rows
from skbnp.models.dependent_trees.epoch import EpochMoves
from skbnp.models.dependent_trees.local import NodeTable, update_local
from skbnp.models.dependent_trees.moves import merged
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.structure import EpochEdits
from skbnp.utils.archive import digest_of, rows_digest
from skbnp.utils.arrays import one_blas_thread
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import MatrixLike, RandomStateLike
from skbnp.utils.warnings import warn_caller

#: Change of the bound of all rows of an epoch that decides nothing: a birth gains 7. A
#: bound of few rows may be near zero, and would change relatively for long.
NEGLIGIBLE_NATS = 0.5
#: Updates in a pass, at most, where `batch_size` is None: each takes a fixed time.
MOST_PARTS = 32


@dataclass(frozen=True)
class _Rows:
    """Rows of length one by epoch, in the order of the epochs."""

    X: sp.csr_array  # by columns that are seen
    epochs: list[tuple[Any, np.ndarray]]  # label, numbers of rows
    seen: SeenWords  # by these rows, or before

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.seen.n_vocabulary

    def __iter__(self) -> Iterator[tuple[Any, sp.csr_array]]:
        for label, rows in self.epochs:
            yield label, self.X[rows]

    @property
    def digest(self) -> str:
        """Digest of rows and labels of epochs."""
        labels = [f"{label!r} {rows_digest(rows)}" for label, rows in self.epochs]
        return digest_of([rows_digest(self.X), rows_digest(self.seen.words), *labels])


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(TreeParameters):
    """Parameters of DependentTrees."""

    max_components: int | None = field(default=None, kw_only=False)
    structure_moves: bool | EpochMoves = True
    sparse_output: bool = False
    batch_size: int | None = None
    max_iter: int = 100
    tol: float = 4e-3
    n_jobs: int | None = None
    random_state: RandomStateLike = None
    verbose: int = 0


class DependentTrees(_Parameters, EpochTreeMixin, BoundMixin, VariationalEstimator):
    """Dependent nonparametric trees: topics that branch, drift, begin and end.

    Rows are directions, such as documents whose counts are put on the unit sphere. In
    each epoch they stand at the nodes of a tree, which has as many as they need;
    children are like their parents, and each node is like itself in the epoch before.
    With the symbols of [1]_, in epoch t:

    - a row stays at node e with probability nu_e, else goes to one of its children by
      their sticks psi; masses of the last `window` epochs are part of the priors of
      both (section 2 of [1]_; the model is that of [2]_);
    - directions theta_e ~ vMF of natural parameter
      kappa_0 (kappa_1 theta_parent + kappa_2 theta_e^(t-1)), Eq. (1), the root
      without a parent;
    - rows x ~ vMF(theta_z, beta), z the node of the row.

    Parameters
    ----------
    max_components : int or None, default=None
        Largest number of nodes, the root included; None for no limit.
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
    parent_weight : float, default=1.0
        Share of the parent in the prior of a direction (kappa_1), >= 0.
    past_weight : float or "auto", default="auto"
        Share of the past in the prior of a direction (kappa_2), >= 0. "auto" maximises
        the bound in each epoch, from 1 in the second one.
    window : int, default=1
        Past epochs whose rows count for the sticks (h), 1 or more. A node that had no
        rows in them, and has none now, ends.
    structure_moves : bool or EpochMoves, default=True
        Whether the tree changes within an epoch: nodes merge, go to other parents, end,
        and are born, if the bound rises. An `EpochMoves` has the details. If False, the
        nodes of the first epoch stay.
    sparse_output : bool, default=False
        Whether `transform` returns a sparse array: a row has at most eight entries.
    batch_size : int or None, default=None
        Rows after which all directions are updated, in passes but the first of an
        epoch. None is one update for as many rows as there are features, by which an
        update takes no longer than the visits of these rows, but no more than 32 in a
        pass.
    max_iter : int, default=100
        Passes over the rows of an epoch.
    tol : float, default=4e-3
        Learning of an epoch ends when the bound changes by less, relatively, between
        two passes, moves included. With 0, all `max_iter` passes are made.
    n_jobs : int or None, default=None
        Threads of the row step, as in scikit-learn. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        The clusters of the start, the order in which rows choose their nodes, and where
        births are tried. The same int gives the same bits.
    verbose : int, default=0
        Passes between messages; 0 for none.

    Attributes
    ----------
    tree_ : TreeView
        The tree of the newest epoch: `parent`, `depth`, `ids`, and `weight`, the share
        of rows that are at the node or below.
    components_ : ndarray of shape (n_components_, n_features)
        Mean directions of the nodes in the newest epoch, of length one.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected shares of the rows of the newest epoch at the nodes themselves; they
        sum to one where there are rows.
    epochs_ : dict of label to EpochRecord
        What was learned of each epoch, in order: `tree`, `components`, `component_ids`,
        `masses`, `n_samples`.
    vmf_concentration_, prior_concentration_, past_weight_ : float
        Values in force in the newest epoch.
    n_components_ : int
        Number of nodes of the newest tree.
    component_ids_ : ndarray of shape (n_components_,)
        Name of each node, kept from epoch to epoch, in texts, tables and figures.
        `apply` has rows: ``component_ids_[apply(X)]`` has the names.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from: the start, then every accepted "birth" (a child of the
        parent named), "merge", "reattach" (the node, then its new parent, or the parent
        whose place it took), "prune", "exchange", after which the nodes named first
        have the names, pasts and shares of past rows of the second ones (one before a
        merge says that the other past was kept), and "revive": an exchange by which a
        node that ended at most three epochs ago comes back, in the place of one that
        began since, as its topic was taken for another one. Parents of a record are
        alive before it, children after it; no other record uses an id that has ended.
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
        Streams keep 10,000 entries at most, fewer of the older half.
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
    Rows of zeros are allowed; they are not learned from and not scored. Square roots or
    tf-idf give rare words more weight than counts do.

    A pass takes time in proportion to the words of all rows times nodes. Memory is that
    of `X` in single precision, and some 20 bytes for each node and feature, 40 while
    rows choose their nodes; each epoch that lies behind keeps eight. Streams keep no
    rows, but the trees of all epochs; a node has its id until `lineage_` ends it.

    Departures from the paper are listed in `doc/derivations/dependent_trees.rst`.

    References
    ----------
    .. [1] Zhiting Hu, Qirong Ho, Avinava Dubey and Eric P. Xing, "Large-scale
       Distributed Dependent Nonparametric Trees", International Conference on Machine
       Learning, 2015.
    .. [2] Avinava Dubey, Qirong Ho, Sinead Williamson and Eric P. Xing, "Dependent
       nonparametric trees for dynamic hierarchical clustering", NIPS 2014.

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

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        structure_moves=["boolean", EpochMoves],
        batch_size=[_base.NUMBER, None],
    )
    #: How `fit` learns; there is no other way.
    learning_method = "batch"
    warm_start = False
    total_samples = None

    # -- learning ---------------------------------------------------------------------

    def _read(
        self, X, *, reset: bool, method: str, epochs=None, sample_weight=None
    ) -> Any:
        """Check rows and labels; return rows on the unit sphere by epoch."""
        given = X, epochs, sample_weight
        rows, groups = self._read_epochs(*given, reset=reset, method=method)
        seen = self._seen_with(np.unique(rows.indices), reset=reset)
        return _Rows(seen.compact(rows), groups, seen)

    def _make_model(self) -> trees.EpochModel:
        return trees.EpochModel(
            self._given_priors(),
            self.vmf_concentration == "auto",
            self.prior_concentration == "auto",
            self.past_weight == "auto",
        )

    def _start(self, model, rows, seed_entropy, n_rows) -> trees.EpochPosterior:
        """Return a posterior of clusters of the first epoch below a root."""
        label, X = next(iter(rows))
        state, stats = self._first_tree(model, X, seed_entropy)
        ids = state.tree.ids
        return trees.EpochPosterior(
            model,
            state,
            stats,
            ids,
            [Lineage(0, "init", (), tuple(np.sort(ids).tolist()))],
            seed_entropy=seed_entropy,
            max_components=self._component_limit(),
            label=label,
            window=self.window,
            seen=rows.seen,
        )

    def _first_tree(self, model, X, seed_entropy) -> tuple[EpochState, EpochStats]:
        """Return clusters below a root, after rows have chosen nodes one by one."""
        rng, limit = stream(seed_entropy, Purpose.START), self._component_limit()
        rows = self._rows_at_hand(X, rng)
        labels = updates.spherical_kmeans(rows, self._n_clusters(X.shape[0]), rng)
        n_unseen = self.n_features_in_ - rows.shape[1]
        state, stats = updates.start_tree(rows, labels, model.priors, n_unseen=n_unseen)
        if limit == 1 and len(state.tree) == 2:
            state, stats = merged(state, stats, model.priors, 1, 0)
        if not (model.learns_concentration and model.learns_prior_concentration):
            state = updates.update_means(self._given(state), stats, model.priors)
        none = EpochStats.zero(len(state.tree), state.width)
        result = assign_rows(model, state, none, rows, self._moves(), limit, rng)
        return result.state, result.stats

    def _rows_at_hand(self, X, rng) -> sp.csr_array:
        """Return the rows that choose their nodes one by one."""
        return X

    def _n_clusters(self, n_rows: int) -> int:
        return int(
            min(updates.n_clusters_for(n_rows), max(self._component_limit() - 1, 1))
        )

    def _moves(self) -> EpochMoves | None:
        """Return the moves of the tree, or None."""
        moves = self.structure_moves
        if isinstance(moves, EpochMoves):
            return moves
        return EpochMoves() if moves else None

    def _resumed(self, model, *, in_fit: bool) -> trees.EpochPosterior:
        posterior = self._posterior
        if model.learns_past_weight:
            known = posterior.model.priors.past_weight
            model = replace(model, priors=replace(model.priors, past_weight=known))
        model = replace(model, is_first=posterior.model.is_first)
        return replace(
            super()._resumed(model, in_fit=in_fit),
            state=self._given(posterior.state),
            window=self.window,
            unsettled=(),
        )

    def _make_learner(self, posterior, around, goes_on, others=None):
        """Return the learner of the open epoch; `others` are its earlier rows."""
        (corpus, shards, run), moves = around, self._moves()
        if others is None:
            others = EpochStats.zero(len(posterior.ids), posterior.state.width)
        schedule = self._rounds(shards)
        return memory.EpochLearner(
            posterior,
            corpus,
            schedule,
            self._local_step(posterior, shards),
            memory.EpochCache(shards, others, run),
            NO_MOVES if moves is None else EpochEdits(moves),
        )

    def _local_step(self, posterior, shards) -> memory.RowLocalStep:
        """Return the local step of rows in the columns of the state."""
        return memory.RowLocalStep(shards)

    def _shards(self, X, executor) -> Shards:
        """Cut the rows of an epoch into shards, each followed by an update."""
        n_rows, n_columns = X.shape
        if self.batch_size is None:
            n_parts = min(max(n_rows // self.n_features_in_, 1), MOST_PARTS)
        else:
            n_parts = max(-(-n_rows // self.batch_size), 1)
        limits = even_limits(n_rows, n_parts)
        blocks = [X[begin:end] for begin, end in pairwise(limits)]
        # Where a fit goes on from a file, what shards know is made again.
        is_lasting = not files_of(self)
        return LocalShards(blocks, n_columns, executor.map, is_lasting=is_lasting)

    def _rounds(self, shards) -> BatchSchedule:
        """Return the schedule: all shards, then an update after each."""
        return BatchSchedule(tuple(map(Part, range(len(shards.n_rows)))), n_joint=1)

    def _n_further_passes(self, rows) -> int:
        return self.max_iter * (len(rows.epochs) - 1)

    def _learn_all(self, posterior, session) -> bool:
        """Learn all epochs; return whether the bound of the last has converged."""
        posterior.extend_columns(session.rows.seen)
        self._learn_epochs(posterior, session)
        return not posterior.unsettled

    def _n_chunk_passes(self, rows) -> int:
        return self.max_iter * len(rows.epochs)

    def _learn_stream(self, posterior, session) -> None:
        session.monitor.tol = self.tol
        self._learn_all(posterior, session)

    def _learn_epochs(self, posterior, session) -> None:
        """Learn epoch by epoch, from where a file says; skip those without rows."""
        rows, monitor, account = session.rows, session.monitor, session.record.account
        is_learned = account is not None  # before the epoch of the file
        for label, X in rows:
            if is_learned and label != posterior.label:
                continue
            if is_learned:
                opened, is_learned = session.record.restored, False
                if account["has_converged"]:
                    posterior.unsettled = posterior.unsettled[:-1]
            else:
                opened = self._open_epoch(posterior, label, X, session.executor)
                if opened is not None:
                    monitor.forget()
            if opened is None:
                continue
            if len(rows.epochs) > 1:
                monitor.report(f"epoch {label}: {X.shape[0]} rows")
            self._learn_epoch(session, *opened)

    def _around(self, posterior, rows, executor) -> tuple[Any, ...]:
        """Return the rows of an epoch in shards, and threads."""
        shards = self._shards(rows, executor)
        return memory.ShardCorpus(shards), shards, executor.map

    def _restored(self, rows, executor, account, before) -> Any:
        before._posterior.extend_columns(rows.seen)
        (X,) = [X for label, X in rows if label == before._posterior.label]
        return super()._restored(X, executor, account, before)

    def _open_epoch(
        self, posterior, label, X, executor
    ) -> tuple[memory.EpochLearner, tuple[Any, ...]] | None:
        """Close the epoch before, if it is another; None if there are no rows.

        Return the learner of the epoch, and what it has of rows and threads.
        """
        around, is_late = self._around(posterior, X, executor), label != posterior.label
        if is_late:
            trees.close_epoch(posterior, label)
        if X.shape[0] == 0:
            return None
        goes_on, result = posterior.n_open > 0, None
        if posterior.n_steps == 0 and posterior.closed:
            self._start_late(posterior, X)
        elif is_late or goes_on:
            result = self._assign(posterior, X, executor.map)
        step, tree = posterior.n_steps, posterior.state.tree
        with commit():
            if result is not None:
                posterior.model = result.model
                log = result.lineage_since(tree, step)
                adopt(posterior, result.state, result.stats, log)
            posterior.n_open += X.shape[0]
            posterior.unsettled = (*posterior.unsettled, label)
        others = None if result is None else result.others
        return self._make_learner(posterior, around, goes_on, others), around

    def _assign(self, posterior, X, run) -> Assigned:
        """Let rows choose their nodes."""
        rng = stream(posterior.seed_entropy, Purpose.START, posterior.n_steps)
        rows = self._rows_at_hand(X, rng)
        given = posterior.model, posterior.state, posterior.global_stats, rows
        return assign_rows(*given, self._moves(), self._component_limit(), rng, run)

    def _learn_epoch(self, session, learner, around) -> None:
        posterior = learner.posterior
        session.monitor.least_change = NEGLIGIBLE_NATS / max(posterior.n_open, 1)
        if session.learn(learner, around, self.max_iter - learner.n_passes):
            posterior.unsettled = posterior.unsettled[:-1]

    def _start_late(self, posterior, X) -> None:
        """Begin with clusters where no epoch has had rows so far."""
        model = replace(posterior.model, is_first=True)
        state, stats = self._first_tree(model, X, posterior.seed_entropy)
        first = Lineage(0, "init", (), tuple(np.sort(state.tree.ids).tolist()))
        with commit():
            posterior.model = model
            posterior.replace_globals(state, stats)
            posterior.lineage = [first]

    def _warn_if_not_converged(self, monitor) -> None:
        """Warn if the bound of the newest epoch has not converged."""
        unsettled = self._posterior.unsettled
        if self.tol > 0 and unsettled:
            which = ", ".join(map(str, unsettled[:5]))
            which += ", ..." if len(unsettled) > 5 else ""
            epochs = f"epoch {which}"
            if len(unsettled) > 1:
                epochs = f"{len(unsettled)} epochs ({which})"
            warn_caller(
                f"The bound of {epochs} still changed in the last of "
                f"{self.max_iter} passes, tol={self.tol:g}. Increase max_iter or tol.",
                ConvergenceWarning,
            )

    def _fitted_attributes(self, posterior, *given):
        past_weight = posterior.model.priors.past_weight
        return {
            **super()._fitted_attributes(posterior, *given),
            **self._tree_attributes(posterior.state, past_weight),
        }

    # -- loading ----------------------------------------------------------------------

    _saved_parts = {
        "model": trees.EpochModel,
        "state": EpochState,
        "global_stats": EpochStats,
    }

    def _check_saved(self) -> dict[str, int]:
        sizes, posterior = super()._check_saved(), self._posterior
        check_type("seen words", posterior.seen, SeenWords)
        check_seen_words(posterior.seen, self.n_features_in_)
        check_state(posterior.state, self.n_features_in_, sizes["n_seen"])
        for epoch in posterior.closed:
            check_state(epoch.state, self.n_features_in_, sizes["n_seen"])
        return sizes

    # -- evaluation: reads the posterior, writes nothing, draws nothing ----------------

    def _known_epochs(self) -> list[trees.ClosedEpoch]:
        return self._fitted_posterior.epochs

    def _seen_columns(self) -> SeenWords:
        return self._posterior.seen

    def _tree_priors(self) -> TreePriors:
        return self._posterior.model.priors

    def elbo_terms(self, X: MatrixLike) -> dict[str, float]:
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
        model = self._posterior.model
        state = self._posterior.state.with_columns(rows.shape[1])
        with Executor(self.n_jobs) as executor, one_blas_thread():
            table = NodeTable.of(state, model.priors)
            _, fresh = update_local(table, rows, run=executor.map)
        return per_token(model.objective(state, fresh), fresh.n_tokens)
