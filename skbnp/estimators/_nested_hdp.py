"""Estimator of the nested HDP, whose documents mix nodes of a whole tree."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from skbnp.components.word_topics import SeenWords, WordTopics
from skbnp.estimators import _base
from skbnp.estimators._base import are_in_use
from skbnp.estimators._hdp import FULL_SIZE, HDP
from skbnp.estimators._known_topics import DEFAULT_PRIOR, check_names
from skbnp.estimators._saved import check_number
from skbnp.estimators._trees import check_depth
from skbnp.estimators._variational import CountModel, DocumentParameters
from skbnp.inference import engine, protocols
from skbnp.inference.executor import Executor, commit
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.trials import adopt
from skbnp.models import nested_hdp
from skbnp.models.hdp.burstiness import NO_BURSTINESS
from skbnp.models.hdp.fold_in import fold_in_posterior
from skbnp.models.hdp.posterior import PartCache, has_doubled
from skbnp.trees import Tree, TreeView
from skbnp.utils import validation as valid
from skbnp.utils.arrays import with_columns
from skbnp.utils.ranges import Unlimited
from skbnp.utils.typing import MatrixLike

#: The topic prior of a tree over that of the flat fit, unless topics explain tables:
#: general words go up, so that topics are sharper.
PRIOR_SHARE = 0.6
#: Tokens, and stored counts, of the documents of a stream that are kept.
MOST_KEPT = 1_500_000
#: Passes in which minibatches are forgotten; all later ones are averaged.
FORGETTING_PASSES = 2
#: Share of a pass that the last minibatches of the first step stand for: what the start
#: knows is not forgotten at once.
REMEMBERED = 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    max_depth: int = field(default=3, kw_only=False)
    n_themes: int | None = None
    max_components: int | None = None
    min_gain: float = 0.0
    learning_method: str = "online"
    stop_prior: Sequence[float] = (0.3, 0.3)
    child_concentration: float = 1.0
    doc_concentration: float = 1.0
    topic_word_prior: float | str = "auto"
    learn_priors: bool = True
    child_concentration_prior: Sequence[float] = (1.0, 1.0)
    doc_concentration_prior: Sequence[float] = (1.0, 1.0)
    burstiness: bool | str = "auto"
    init: Any = "auto"
    batch_size: int | str = "auto"


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(DocumentParameters, _Own):
    """Parameters of NestedHDP."""

    learning_decay: float = 0.5
    max_iter: int = 5


class NestedHDP(_Parameters, CountModel):
    """Nested hierarchical Dirichlet process topic model, by variational inference.

    Learns a tree of topics over which each document mixes freely [1]_: it predicts as a
    flat `HDP` does, and its upper levels are what people read. At each inner node a
    token of a document stops with a share V ~ Beta(s, g) of the document's own, or goes
    on to a child by proportions ~ DP(A, beta) of its own, where the weights of children
    beta ~ GEM(gamma) are those of all documents; its word comes from the topic of the
    node where it stops, phi ~ Dirichlet(eta). The tree starts from a flat `HDP`, whose
    topics are grouped. The equations are in :doc:`/derivations/nested_hdp`.

    Parameters
    ----------
    max_depth : int, default=3
        Levels of the tree, 1 to 50, the root included. 1 is a single topic, 2 topics
        below a background, 3 groups of topics; from 4 on the heaviest topics, about 40
        in all, stand above those that are most like them, and take words from them.
    n_themes : int or None, default=None
        Children of the root; None for groups of topics by the evidence of documents.
    max_components : int or None, default=None
        Largest number of nodes, the root included; None for the limit of `HDP`.
    min_gain : float, default=0
        Share of the gain of all topics that a topic of the flat fit must bring, in
        [0, 0.5], see `HDP`. 0: all that predict, as groups of them are read.
    learning_method : {"online", "memoized", "batch"}, default="online"
        How the tree is learned after the start. "online": one update per minibatch,
        as `partial_fit` does. "memoized": one per minibatch, which replaces its former
        statistics. "batch": the same with the corpus as one minibatch.
    stop_prior : (float, float), default=(0.3, 0.3)
        Parameters of the Beta prior of the share that stops at an inner node (s, g),
        each in [1e-100, 1e10]; a larger first one puts more into upper topics.
    child_concentration : float, default=1.0
        Concentration of the children of a node (gamma), in [1e-100, 1e10].
    doc_concentration : float, default=1.0
        Concentration of a document's children of a node (A), in [1e-100, 1e10].
    topic_word_prior : float or "auto", default="auto"
        Dirichlet parameter of topics over terms (eta), in [1e-100, 1e10]. "auto": what
        the flat fit has learned, or 0.6 of that without burstiness.
    learn_priors : bool, default=True
        Whether both concentrations are learned, from the values given.
    child_concentration_prior, doc_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma priors of the concentrations, both > 0.
    burstiness : "auto" or False, default="auto"
        Whether documents repeat words for reasons of their own, as in `HDP`: topics
        then explain first uses of words. "auto" learns how much.
    init : "auto" or fitted HDP, default="auto"
        The flat fit that the tree starts from, with its burstiness; "auto" makes one.
        Wrap a fitted one in `sklearn.frozen.FrozenEstimator` for clones.
    batch_size : int or "auto", default="auto"
        Documents of a minibatch at most; "auto": as :class:`HDP` chooses.
    learning_offset : float, default=1.0
        Offset of the step sizes rho_t = (learning_offset + t)^-learning_decay, >= 0.
    learning_decay : float, default=0.5
        Decay of the step sizes, in [0.5, 1].
    total_samples : float or None, default=None
        Documents of the stream that `partial_fit` learns from with a fitted `init`,
        > 0. None means those seen so far, as without.
    max_iter : int, default=5
        Passes over the data in `fit` after the start; more of them mostly fit noise.
    tol : float, default=1e-4
        `fit` ends when `log_predictive_` changes by less than `tol`, relatively,
        between two passes. 0 always makes `max_iter` passes.
    sparse_output : bool, default=False
        Whether `transform` returns a csr_array.
    n_jobs : int or None, default=None
        Threads of the document step, as in scikit-learn. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Start and order of documents. The same int gives the same bits.
    verbose : int, default=0
        Passes between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())`` (scikit-learn 1.9 or later).
    warm_start : bool, default=False
        Whether `fit` goes on from the present tree.
    max_doc_update_iter : int, default=100
        Iterations for one document, at most 10.
    mean_change_tol : float, default=1e-3
        They end when expected counts change by less than this per token, or than 0.01.

    Attributes
    ----------
    tree_ : TreeView
        The tree: `parent`, `depth`, `ids`, and `weight`, the expected share of a node
        and all below, of tokens or with burstiness of first uses of words.
    components_ : ndarray of shape (n_components_, n_features)
        Dirichlet parameters of the topics, a row for each node of `tree_`: expected
        counts of each term (with burstiness, of first uses) plus the topic prior. Made
        anew at each access.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Made anew at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected share of each node itself; they sum to one.
    n_components_ : int
        Number of nodes, the root included.
    component_ids_ : ndarray of shape (n_components_,)
        Name of each node in `lineage_`; all else calls a node by its row.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from: the start, then each "merge" of a leaf with the node
        above.
    n_active_components_ : int
        Nodes with at least max(1, 1e-4 of all) expected tokens.
    child_concentration_ : float
        Value in force.
    level_concentration_ : ndarray of shape (n_levels - 1,)
        Concentration of a document's children (A) in force, for nodes of each level of
        the tree but the last.
    topic_word_prior_ : float
        Value in force.
    word_discount_, word_concentration_ : float
        Discount and concentration of the words that a document repeats, as of `HDP`.
    log_predictive_ : float
        Log probability of the training tokens, each given all others, in nats per
        token; after online learning that of recent documents. It is no held-out score.
    converged_ : bool
        Whether `tol` ended the last `fit`.
    history_ : dict of lists
        One entry per update: `step`, `seconds` (elapsed wall time, start included),
        `n_components`, `log_predictive` (nats per token; evaluated once per pass of
        `fit`, nan in between and in `partial_fit`), `n_births`, `n_splits`, `n_merges`.
        Streams keep 10,000 entries at most, fewer of the older half.
    n_iter_ : int
        Passes made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Size of the vocabulary.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the terms, if `X` had them.

    See Also
    --------
    HDP : Topics without a tree.
    NestedCRP : Each document takes a single path of a tree.
    skbnp.inspection.topic_groups : Groups the topics of a fitted HDP.
    skbnp.inspection.TopicTreeDisplay : Draws the tree.

    Notes
    -----
    When `fit` ends, leaves of less than half a table join the nodes above them.
    `partial_fit` keeps the documents of a short stream; nodes have new ids whenever it
    fits them anew, and the same ones in between. Departures from the paper are listed
    in `doc/derivations/nested_hdp.rst`.

    References
    ----------
    .. [1] John Paisley, Chong Wang, David M. Blei and Michael I. Jordan, "Nested
       Hierarchical Dirichlet Processes", IEEE Transactions on Pattern Analysis and
       Machine Intelligence 37(2), 2015.

    Examples
    --------
    >>> from skbnp import NestedHDP
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(300, random_state=0).data
    >>> nested = NestedHDP(random_state=0).fit(X)
    >>> nested.transform(X).shape == (300, nested.tree_.n_nodes)
    True
    """

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        topic_word_prior=[_base.PRIOR, _base.AUTO],
        learn_priors=["boolean"],
        init=[_base.AUTO, valid.HasMethods(["merge_components"])],
        batch_size=[_base.NUMBER, _base.AUTO],
    )

    # Fitted
    tree_: TreeView
    child_concentration_: float
    level_concentration_: np.ndarray
    topic_word_prior_: float
    word_discount_: float
    word_concentration_: Unlimited

    # -- learning ---------------------------------------------------------------------

    def _make_model(self) -> nested_hdp.NestedHDPModel:
        stop, go = valid.check_gamma_prior(self, "stop_prior")
        return nested_hdp.NestedHDPModel(
            stop=stop,
            go=go,
            learn_concentrations=self.learn_priors,
            child_prior=valid.check_gamma_prior(self, "child_concentration_prior"),
            doc_prior=valid.check_gamma_prior(self, "doc_concentration_prior"),
        )

    def _accept(self, counts, X, *, reset, method):
        begun = not reset and self._can_continue()
        if not begun and not isinstance(self.init, str):
            check_names(self.init, X)
            _check_flat(self.init, counts.shape[1])
        return counts

    def _start(self, model, counts, seed_entropy, n_docs) -> nested_hdp.NestedPosterior:
        """Return a posterior of a root without words; `_find_start` finds the tree."""
        nothing = SeenWords(np.empty(0, np.intp), counts.shape[1])
        eta = self.topic_word_prior
        state = nested_hdp.MixedTree(
            Tree(),
            np.ones(1),
            np.full(1, float(self.doc_concentration)),
            float(self.child_concentration),
            DEFAULT_PRIOR if isinstance(eta, str) else float(eta),
        )
        return nested_hdp.NestedPosterior(
            model,
            state,
            model.start(state, WordTopics(np.zeros((0, 1)), nothing)),
            state.ids,
            [Lineage(0, "init", (), (0,))],
            seed_entropy=seed_entropy,
            max_components=self._component_limit(),
        )

    def _start_stream(
        self, model, rows, seed_entropy, n_rows
    ) -> nested_hdp.NestedPosterior:
        """Return a root without words, and without documents so far."""
        nothing = sp.csr_array((0, rows.shape[1]))
        posterior = self._start(model, rows, seed_entropy, n_rows)
        return replace(posterior, documents=nothing)

    def _can_continue(self) -> bool:
        return len(self._posterior.global_stats.topic_words.seen) > 0

    def _resumed(self, model, *, in_fit: bool) -> nested_hdp.NestedPosterior:
        state = self._posterior.state
        check_depth(self, max(self.max_depth, state.tree.max_depth + 1))
        if self.burstiness != "auto":
            state = replace(state, burstiness=None, by_tables=False)
        result = replace(super()._resumed(model, in_fit=in_fit), state=state)
        return replace(result, documents=None) if in_fit else result

    def _widened(self, posterior, rows, vocabulary):
        """Return the posterior with new columns, kept documents included."""
        words = posterior.global_stats.topic_words.copy()
        words.widen(vocabulary.size)
        documents = posterior.documents
        if documents is not None:
            documents = with_columns(documents, vocabulary.size)
        stats = replace(posterior.global_stats, topic_words=words)
        return replace(posterior, global_stats=stats, documents=documents)

    def partial_fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from a chunk of a stream: a fit of all documents so far, or an update.

        The documents of a stream are kept up to 1.5 million tokens (and stored counts).
        The first call, and each in which their number passes 125, 250 or a further
        doubling, fits all of them as `fit` does; nodes have new ids then. Other calls
        make one online update per `batch_size` documents, as do all calls after `fit`,
        with a fitted `init`, or beyond that size. A call that is refused, or fails in a
        fit, leaves the estimator as it was; one that fails later keeps its updates.
        Columns of data frames go by their names: new ones extend the topics, absent
        ones are zeros.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of the chunk; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns, or
            is a matrix with another number of columns than before.
        """
        return super().partial_fit(X, y, sample_weight=sample_weight)

    def _needs_start(self, posterior) -> bool:
        return len(posterior.global_stats.topic_words.seen) == 0

    def _find_start(self, posterior, counts, executor, monitor) -> None:
        """Set the globals in place to a tree of the topics of a flat fit."""
        if counts.shape[0] == 0:
            return
        flat = self._flat_posterior(counts, posterior, executor, monitor)
        doc_topic = fold_in_posterior(flat, counts, executor).doc_topic
        burstiness = flat.state.burstiness if self.burstiness == "auto" else None
        by_tables = burstiness is not None and flat.state.by_tables
        eta = self.topic_word_prior
        if isinstance(eta, str):
            eta = flat.state.topic_word_prior
            eta *= 1.0 if by_tables else PRIOR_SHARE
        start = nested_hdp.grouped_start(
            posterior.model,
            flat.global_stats.topic_words,
            doc_topic,
            float(eta),
            self.max_depth,
            self.n_themes,
            (float(self.child_concentration), float(self.doc_concentration)),
            posterior.max_components,
        )
        ids = start.state.ids
        # Steps as after so many minibatches that the start is not forgotten at once.
        n_batches = REMEMBERED * counts.shape[0] / self._batch_size(counts)
        with commit():
            posterior.replace_globals(*start)
            posterior.set_state(burstiness=burstiness, by_tables=by_tables)
            posterior.lineage = [Lineage(0, "init", (), tuple(ids.tolist()))]
            posterior.step_origin = -self._n_updates_of(n_batches)

    def _flat_posterior(self, counts, posterior, executor, monitor):
        """Learn topics of a flat HDP, or return those of the given fit."""
        if not isinstance(self.init, str):
            return self.init._posterior
        limit = posterior.max_components
        most = None if np.isinf(limit) else int(limit)
        flat = HDP(
            max_components=most, min_gain=self.min_gain, burstiness=self.burstiness
        )
        monitor.report("start: learns topics without a tree")
        return flat._learn_anew(counts, posterior.seed_entropy, executor, monitor)

    def _local_step(self, executor: Executor) -> protocols.DocumentLocalStep:
        step: Any = nested_hdp.NestedStep
        return protocols.DocumentLocalStep(self._local_stop(), executor, step)

    def _make_learner(self, posterior, around, goes_on):
        """Return the learner of `fit`: running averages over documents."""
        corpus, local_step = protocols.Corpus(around[0]), around[1]
        weights = engine.DocumentWeights(corpus.n_docs, 1.0)  # the start has each once
        cache: Any = PartCache(document_weights=weights)
        if self.learning_method == "online":
            cache = engine.RunningAverage(weights)
        schedule = self._fit_schedule(posterior, corpus, FORGETTING_PASSES)
        return engine.Learner(posterior, corpus, schedule, local_step, cache)

    def _learn_all(self, posterior, session) -> bool:
        """Make the passes of `fit`, then prune the tree."""
        result = super()._learn_all(posterior, session)
        _prune(posterior)
        return result

    def _learn_chunk(self, posterior, counts, executor, monitor) -> None:
        """Learn a chunk of a stream by online updates, or fit all of the stream.

        The tree starts again from all documents whenever these have doubled, as long as
        they are at most `MOST_KEPT` tokens and stored counts.
        """
        documents = None
        if posterior.documents is not None and isinstance(self.init, str):
            documents = sp.csr_array(sp.vstack([posterior.documents, counts]))
            if documents.nnz <= MOST_KEPT:  # whatever the indices of `X`
                documents.indices = documents.indices.astype(np.int32, copy=False)
                documents.indptr = documents.indptr.astype(np.int32, copy=False)
            is_first, n_now = self._needs_start(posterior), documents.shape[0]
            n_before = n_now - counts.shape[0]
            is_kept = max(documents.sum(), documents.nnz) <= MOST_KEPT
            if n_now > 0 and (is_first or (is_kept and has_doubled(n_before, n_now))):
                kept = documents if is_kept else None
                self._fit_stream(posterior, documents, kept, executor, monitor)
                return
            if not is_kept:
                documents = None
        if self._needs_start(posterior):
            self._find_start(posterior, counts, executor, monitor)
        schedule = self._stream_schedule(posterior, counts, full_size=FULL_SIZE)
        if isinstance(self.init, str):
            schedule = replace(schedule, total_samples=None)
        is_kept = documents is not None and counts.shape[0] > 0
        if is_kept:  # each step is the share of a minibatch in all documents so far
            size = counts.shape[0] / schedule.n_batches
            share = {"offset": 0.0, "decay": 1.0, "first_step": posterior.n_seen / size}
            schedule = replace(schedule, full_size=1, **share)
        engine.StreamLearner(
            posterior,
            protocols.Corpus(counts),
            schedule,
            self._local_step(executor),
            engine.RunningAverage(),
        ).one_pass(monitor)
        if is_kept:
            n_updates = self._n_updates_of(posterior.n_seen / size)
            posterior.step_origin = posterior.n_steps - n_updates
        posterior.documents = documents

    def _n_updates_of(self, n_batches: float) -> int:
        """Number of updates after which a step is 1 / `n_batches`."""
        return int(n_batches ** (1.0 / self.learning_decay))

    def _fit_stream(self, posterior, documents, kept, executor, monitor) -> None:
        """Fit all documents of a stream and adopt the tree, with documents to keep."""
        n_docs = documents.shape[0]
        fitted = self._learn_anew(documents, posterior.seed_entropy, executor, monitor)
        _prune(fitted)
        n_batches = n_docs / min(self._batch_size(documents), n_docs)
        fitted.step_origin = -self._n_updates_of(n_batches)
        fitted.documents = kept
        posterior.adopt(fitted, n_docs, monitor)

    def _why_not_converged(self) -> str:
        return "leaves no two passes to compare."

    @property
    def _n_enough_docs(self) -> int:
        return 0 if not isinstance(self.init, str) else super()._n_enough_docs

    def _fitted_attributes(self, posterior, *given):
        state, tokens = posterior.state, posterior.global_stats.topic_words.total
        tokens = np.maximum(tokens, 0.0)
        weights = tokens / max(tokens.sum(), 1e-300)
        if not weights.any():
            weights = np.full(len(tokens), 1.0 / len(tokens))
        tree = state.tree
        through = np.minimum(tree.accumulate(weights), 1.0)
        burstiness = state.burstiness or NO_BURSTINESS
        return {
            **super()._fitted_attributes(posterior, *given),
            "tree_": TreeView(tree.parent, through, tree.ids, are_in_use(tokens)),
            "topic_weights_": weights,
            "child_concentration_": state.child_concentration,
            "level_concentration_": state.concentrations.copy(),
            "topic_word_prior_": state.topic_word_prior,
            "word_discount_": burstiness.discount,
            "word_concentration_": burstiness.concentration,
        }

    # -- loading ----------------------------------------------------------------------

    _saved_parts = {
        "model": nested_hdp.NestedHDPModel,
        "state": nested_hdp.MixedTree,
        "global_stats": nested_hdp.NestedStats,
    }

    def _check_saved(self) -> dict[str, int]:
        sizes, n_inner = super()._check_saved(), self._posterior.state.tree.max_depth
        n_levels = max(n_inner, 1)
        check_number(
            "max_depth", sizes["n_inner_levels"], least=n_levels, most=n_levels
        )
        return sizes

    # -- evaluation: reads the posterior, writes nothing, draws nothing ----------------

    @property
    def log_predictive_(self) -> float:
        """Log probability of training tokens given all others, nats per token."""
        return self._last("log_predictive")

    @property
    def components_(self) -> np.ndarray:
        """Dirichlet parameters of the topics, (n_components_, V)."""
        held = self._fitted_posterior.global_stats.topic_words.dense()
        held += self.topic_word_prior_
        return np.ascontiguousarray(held.T)

    @property
    def n_active_components_(self) -> int:
        """Nodes with at least max(1, 1e-4 of all) expected tokens."""
        return int(
            are_in_use(self._fitted_posterior.global_stats.topic_words.total).sum()
        )

    def _predictor(self) -> nested_hdp.NestedPredictor:
        return nested_hdp.NestedPredictor(self._fitted_posterior, self._local_stop())

    def transform(self, X: MatrixLike) -> np.ndarray | sp.csr_array:
        """Infer the proportions of nodes in documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        doc_topic_distr : ndarray or csr_array of shape (n_samples, n_components_)
            Expected shares of the nodes of `tree_`, each without those below it; rows
            sum to one, the mass of topics that are not in the tree left out. A document
            without tokens gets the prior shares. float32 if `X` is, otherwise float64.
        """
        shares, dtype = self._shares(X, "transform")
        shares = (shares / shares.sum(axis=1, keepdims=True)).astype(dtype, copy=False)
        return sp.csr_array(shares) if self.sparse_output else shares

    def _shares(self, X: MatrixLike, method: str) -> tuple[np.ndarray, np.dtype]:
        """Infer shares of nodes in documents."""
        counts, dtype = self._check_counts(X, method)
        with Executor(self.n_jobs) as executor:
            return self._predictor().infer(counts, executor)[0], dtype

    def _expected_uses(self, counts: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
        """Expected tokens of nodes in documents, (n_docs, n_components_), and words."""
        with Executor(self.n_jobs) as executor:
            return self._predictor().counts(counts, executor)

    def apply(self, X: MatrixLike) -> np.ndarray:
        """Find the main branch of each document.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        nodes : ndarray of int of shape (n_samples,)
            Rows of `tree_` and `components_`: the child of the root that has, with all
            nodes below it, the largest share of the document by `transform`; 0, the
            root, where the tree has no other node. What share that is, summed over the
            branch, tells how well one branch describes a document.
        """
        (shares, _), tree = self._shares(X, "apply"), self._posterior.state.tree
        branches = np.flatnonzero(tree.depth == 1)
        if len(branches) == 0:
            return np.zeros(len(shares), dtype=np.intp)
        through = tree.accumulate(np.ascontiguousarray(shares.T))
        return branches[through[branches].argmax(axis=0)]


def _prune(posterior: Posterior) -> None:
    """Merge leaves that no document uses into their parents, in place."""
    state, stats, pairs = nested_hdp.prune(
        posterior.model, posterior.state, posterior.global_stats
    )
    if not pairs:
        return
    log = [Lineage(posterior.n_steps, "merge", (to, leaf), (to,)) for leaf, to in pairs]
    adopt(posterior, state, stats, log)


def _check_flat(init: Any, n_features: int) -> None:
    """Raise unless a model to start from is a fitted HDP of these columns."""
    valid.check_is_fitted(init)
    flat = getattr(init, "_posterior", None)
    if not isinstance(init, HDP) and not isinstance(getattr(init, "estimator", 0), HDP):
        raise ValueError(f"init must be a fitted HDP, got {type(init).__name__}.")
    if flat is None or not flat.state.n_components:
        raise ValueError("init must be a fitted HDP; it has no topics.")
    if init.n_features_in_ != n_features:
        raise ValueError(
            f"X has {n_features} features, but init has {init.n_features_in_}."
        )
