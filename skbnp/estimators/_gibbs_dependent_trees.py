"""Estimator of dependent trees over epochs, by Gibbs sampling."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from skbnp.components.word_topics import SeenWords
from skbnp.estimators import _base, _saved
from skbnp.estimators._epoch_trees import EpochTreeMixin, TreeParameters, check_state
from skbnp.estimators._samplers import Sampler, SamplerParameters
from skbnp.inference.executor import Executor
from skbnp.models.dependent_slices import chain as slices
from skbnp.models.dependent_slices.model import Rows, TreeSample
from skbnp.models.dependent_trees import updates
from skbnp.models.dependent_trees.epoch import ClosedEpoch
from skbnp.models.dependent_trees.local import NodeTable, log_gain, update_local
from skbnp.models.dependent_trees.state import TreePriors
from skbnp.utils.archive import digest_of, rows_digest
from skbnp.utils.arrays import rows_of
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import NotEmpty


@dataclass(frozen=True, slots=True)
class _EpochCorpus:
    """Non-zero rows, epoch by epoch; the first epoch has some, if any has."""

    epochs: list[slices.EpochRows]
    n_features: int

    def __len__(self) -> int:
        return sum(len(epoch.rows) for epoch in self.epochs)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n_features

    @property
    def digest(self) -> str:
        """Digest of rows and labels."""
        epochs = [f"{one.label!r} {rows_digest(one.rows.X)}" for one in self.epochs]
        return digest_of([*epochs, str(self.n_features)])


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    n_components: int | None = field(default=None, kw_only=False)
    split_merge: bool = True
    n_split_merge: int = 5


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(SamplerParameters, TreeParameters, _Own):
    """Parameters of GibbsDependentTrees."""

    max_iter: int = 200
    thin: int = 10


class GibbsDependentTrees(_Parameters, EpochTreeMixin, Sampler):
    """Dependent nonparametric trees, by Markov chain Monte Carlo.

    The model of `DependentTrees`: in each epoch rows on the unit sphere stand at the
    nodes of a tree, which has as many as they need; children are like their parents,
    and each node is like itself in the epoch before. Each row is at one node, and a
    sweep draws it given the nodes of all others, by slices of the infinite tree. This
    is the baseline of [1]_, the parallel sampler of [2]_, in a form that moves rows
    when there are thousands of features. The equations are in
    :doc:`/derivations/dependent_trees`.

    Parameters
    ----------
    n_components : int or None, default=None
        Clusters below the root from which chains start. None is the number of
        `DependentTrees`.
    split_merge : bool, default=True
        Whether nodes are split, merged, and put under other parents, by proposals that
        are accepted or not. Without, only single rows change the tree.
    n_split_merge : int, default=5
        Proposals in each sweep to split a node or to merge two, and as many of another
        parent.
    child_concentration : float, default=0.5
        Concentration of the children of a node (gamma), in [1e-100, 1e10]; larger
        values make more branches.
    stop_concentration : float, default=0.5
        Concentration of staying at a node (alpha), in [1e-100, 1e10]; larger values
        send more rows down.
    vmf_concentration : float or "auto", default="auto"
        Concentration of rows around their node (beta), > 0. "auto" sets it to its
        maximum, given nodes and directions, after each sweep.
    prior_concentration : float or "auto", default="auto"
        Concentration of directions around parent and past (kappa_0), > 0; larger values
        make fewer nodes. "auto" sets it to its maximum after each sweep.
    parent_weight : float, default=1.0
        Share of the parent in the prior of a direction (kappa_1), >= 0.
    past_weight : float or "auto", default="auto"
        Share of the past in the prior of a direction (kappa_2), >= 0. "auto" sets it to
        its maximum after each sweep, from 1 in the second epoch.
    window : int, default=1
        Past epochs whose rows count for the sticks (h), 1 or more. A node that had no
        rows in them ends.
    max_iter : int, default=200
        Sweeps of each chain over each epoch.
    burn_in : int or None, default=None
        First sweeps of an epoch, of which no sample is kept, below `max_iter`; None
        means half of `max_iter`.
    thin : int, default=10
        Sweeps from one kept sample to the next. Where none is kept, the last states of
        the chains are the samples.
    n_chains : int, default=1
        Independent chains, 1 to 1000. The first starts from the clusters from which
        `DependentTrees` starts with the same `random_state`.
    sparse_output : bool, default=False
        Whether `transform` returns a sparse array: a row has at most eight entries.
    n_jobs : int or None, default=None
        Threads for rows of a sweep, for chains and for prediction, as in scikit-learn.
        Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Names the draws. The same int gives the same bits.
    verbose : int, default=0
        Sweeps between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())`` (scikit-learn 1.9 or later).
    warm_start : bool, default=False
        Whether `fit` goes on. On the same rows and epochs chains continue exactly in
        the newest epoch, as one longer fit with that burn-in (None is what it was); on
        others new chains start in the present tree. Concentrations go on, too.

    Attributes
    ----------
    samples_ : list of samples
        Kept states of the newest epoch, all chains: `component_ids` and `masses`
        (n_components,), rows at each node, `label`, `log_joint` (nats per row), `chain`
        and `step`. Before the first is kept, the present states.
    tree_ : TreeView
        The tree of the sample with the highest log joint: `parent`, `depth`, `ids`, and
        `weight`, the share of rows that are at the node or below. Nodes are not aligned
        between chains, so this and the next attributes speak of that sample alone, and
        of the epochs that its chain has gone through.
    components_ : ndarray of shape (n_components_, n_features)
        Mean directions of the nodes in the newest epoch, of length one.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected shares of the rows of the newest epoch at the nodes themselves; they
        sum to one where there are rows.
    epochs_ : dict of label to EpochRecord
        What was learned of each epoch, in order: `tree`, `components`, `component_ids`,
        `masses`, `n_samples`.
    vmf_concentration_, prior_concentration_, past_weight_ : float
        Values of that sample.
    n_components_ : int
        Number of nodes of the newest tree, the root included.
    component_ids_ : ndarray of shape (n_components_,)
        Name of each node, kept from epoch to epoch within the chain, in texts, tables
        and figures. `apply` has rows: ``component_ids_[apply(X)]`` has the names.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id of that sample came from: the start, then "birth" and "prune" of
        each sweep. Ended ids never return.
    n_active_components_ : int
        Nodes of the newest tree with at least max(1, 1e-4 of all) rows at or below.
    n_components_posterior_ : dict of int to float
        Number of nodes -> share of the newest epoch's sweeps after burn-in.
    log_joint_ : float
        Log probability of rows and nodes of the newest epoch after the last sweep, in
        nats per row; densities are with respect to the uniform one.
    history_ : dict of lists
        One entry per sweep and chain, burn-in included: `step`, `chain`, `seconds`
        (elapsed wall time), `epoch`, `n_components`, `max_depth`, `log_joint` (nats per
        row), `vmf_concentration`, `prior_concentration`, `past_weight`.
    n_iter_ : int
        Sweeps made by the last `fit`, of all epochs.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` had them.

    See Also
    --------
    DependentTrees : Variational learning of the same model, faster and for streams.
    GibbsNestedCRP : Sampling of trees whose documents mix the topics on a path.
    skbnp.datasets.make_dependent_trees : Rows from such trees.

    Notes
    -----
    Rows of zeros are legal: they teach nothing and are not scored. An epoch is sampled
    given the last state of its chain in the one before, which never changes again.
    `score` averages densities over the samples of an epoch, `transform`, `apply` and
    the others use one tree. Time is in proportion to the words of all rows times a
    dozen of nodes, and to nodes times features; memory is some 60 bytes for each node
    and feature, per chain, and 8 for each in a sample.

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
    >>> from skbnp import GibbsDependentTrees
    >>> from skbnp.datasets import make_dependent_trees
    >>> corpus = make_dependent_trees(200, random_state=0)
    >>> trees = GibbsDependentTrees(max_iter=40, random_state=0).fit(corpus.data)
    >>> [sample.step for sample in trees.samples_]
    [30, 40]
    >>> trees.transform(corpus.data).shape == (200, trees.n_components_)
    True
    """

    samples_: Annotated[list[TreeSample], NotEmpty]
    _kept: list[TreeSample]
    _chains: tuple[slices.TreeChainState, ...] | None
    _last: tuple[slices.TreeChainState, ...]  # of the chains

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters, n_components=[_base.NUMBER, None]
    )

    # -- learning ---------------------------------------------------------------------

    _columns = slices.COLUMNS

    def _read(
        self, X, *, reset: bool, method: str, epochs=None, sample_weight=None
    ) -> _EpochCorpus:
        """Check rows and labels; return rows on the unit sphere by epoch."""
        given = X, epochs, sample_weight
        rows, groups = self._read_epochs(*given, reset=reset, method=method)
        parts = [
            slices.EpochRows(label, Rows.of(rows[numbers])) for label, numbers in groups
        ]
        while len(parts) > 1 and len(parts[0].rows) == 0:
            parts.pop(0)
        return _EpochCorpus(parts, rows.shape[1])

    def _describe(self, rows) -> str:
        return f"nodes of {super()._describe(rows)}"

    def _n_sweeps(self, data, *, goes_on: bool) -> int:
        return self.max_iter * (1 if goes_on else len(data.epochs))

    def _tree_priors(self) -> TreePriors:
        return self._given_priors()

    def _make_chain(
        self, data, seed_entropy, start, number, *, burn_in=None, before=None
    ):
        epochs = data.epochs
        if start is None:  # the first chunk
            (start,) = islice(self._starts(data, seed_entropy, False), 1)
        elif before is not None and epochs[0].label != before.label:
            nobody = slices.EpochRows(before.label, epochs[0].rows.none())
            epochs = [nobody, *epochs]
        settings = slices.TreeSettings(
            self._tree_priors(),
            self.vmf_concentration == "auto",
            self.prior_concentration == "auto",
            self.past_weight == "auto",
            self.window,
            self.n_split_merge if self.split_merge else 0,
            self.max_iter,
        )
        return slices.SliceChain(epochs, settings, seed_entropy, start, number=number)

    def _start(self, goes_on: bool) -> slices.TreeChainState | None:
        """Return the state of the newest epoch without rows; None for none."""
        if not goes_on:
            return None
        chain = self._best().chain
        (state,) = (one for one in self._last if one.number == chain)
        return replace(self._given(state), next_id=self._next_id).without_rows()

    def _starts(
        self, data: _EpochCorpus, seed_entropy: int, goes_on: bool
    ) -> Iterator[slices.TreeStart]:
        """Yield starts of chains: clusters below a root, or nodes of the last fit."""
        rows = data.epochs[0].rows
        if goes_on:
            state = self._given(self._best().epoch.state)
            memo, _ = update_local(NodeTable.of(state, self._tree_priors()), rows.X)
            start = slices.TreeStart(
                state=replace(state, history=np.zeros(len(state.tree))),
                place=state.tree.positions(np.maximum(memo.nodes[:, 0], 0)).astype(
                    np.int32
                ),
                lineage=self.lineage_,
                next_id=self._next_id,
                step=self._latest_step(),
            )
            yield from [start] * self.n_chains
            return
        for number in range(self.n_chains):
            name = (number,) if number else ()
            rng = stream(seed_entropy, Purpose.START, *name)
            with Executor(self.n_jobs) as executor:
                run, priors = executor.run, self._tree_priors()
                labels = updates.spherical_kmeans(
                    rows.X, self._n_clusters(len(rows)), rng, run=run
                )
                state, _ = updates.start_tree(rows.X, labels, priors, run)
            place = state.tree.positions(labels + 1).astype(np.int32)
            yield slices.TreeStart(state=self._given(state), place=place)

    def _n_clusters(self, n_rows: int) -> int:
        return min(self.n_components or updates.n_clusters_for(n_rows), n_rows)

    def _shown(self, kept, chains) -> list[Any]:
        """Kept samples of the newest epoch."""
        newest = chains[0].trace()["epoch"]
        return [sample for sample in kept if sample.label == newest]

    def _still_kept(self, before: int) -> list[Any]:
        newest = self._best().label
        return [s for s in self._kept if s.label != newest or s.step > before]

    def _fitted_attributes(self, chains, kept, history, before, seed_entropy):
        return {
            **super()._fitted_attributes(chains, kept, history, before, seed_entropy),
            "_last": tuple(chain.saved_state() for chain in chains),
        }

    def _attributes_of(self, best: TreeSample) -> dict[str, Any]:
        return self._tree_attributes(best.epoch.state, best.past_weight)

    # -- loading ----------------------------------------------------------------------

    def _check_sample(self, sample: TreeSample, sizes: dict[str, int]) -> None:
        check_state(sample.epoch.state, self.n_features_in_, self.n_features_in_)

    def _saved_chains(self) -> tuple[slices.TreeChainState, ...]:
        return (*super()._saved_chains(), *self._last)

    def _check_chain(self, state: slices.TreeChainState) -> None:
        for epoch in state.closed:
            check_state(epoch.state, self.n_features_in_, self.n_features_in_)
        n, directions = len(state.tree), state.directions
        sizes = {"n_nodes": n, "n_features": self.n_features_in_}
        _saved.check_sizes(state, sizes)
        _saved.check_places("directions", directions.row, n, least=0)
        _saved.check_places("past", state.past, sizes["n_before"], least=-1)
        _saved.check_places("place", state.place, n, least=0)
        masses = state.gone + np.bincount(state.place, minlength=n)
        # `power` of SciPy would sort the entries, and sums round in their order.
        squares = np.square(state.sums.data)
        norms = np.sqrt(np.bincount(rows_of(state.sums.indptr), squares, n))
        if (norms > masses + 1e-6 * masses.max()).any():
            raise _saved.damaged("sums", "is longer than its rows together")

    # -- evaluation: reads samples, writes nothing, draws nothing ----------------------

    def _seen_columns(self) -> SeenWords:
        return SeenWords.all(self.n_features_in_)

    def _known_epochs(self) -> list[ClosedEpoch]:
        """All epochs of the best sample, the newest last."""
        best = self._best()
        for state in self._last:
            if state.number == best.chain:
                return [*state.closed, best.epoch]
        return [best.epoch]

    def _log_gain(
        self, epoch: ClosedEpoch, rows: sp.csr_array, run: Callable[..., Iterable[Any]]
    ) -> np.ndarray:
        """Log of the mean density over the samples of an epoch."""
        drawn = [
            s.epoch for s in (*self.samples_, *self._kept) if s.label == epoch.label
        ]
        if not drawn:
            drawn = [
                one
                for state in self._last
                for one in state.closed
                if one.label == epoch.label
            ]
        drawn = list({id(one): one for one in drawn}.values()) or [epoch]
        priors = self._tree_priors()
        gains = [log_gain(one.state, priors, rows, run=run) for one in drawn]
        return np.asarray(logsumexp(gains, axis=0)) - np.log(len(gains))
