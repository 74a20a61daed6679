"""Estimator of the nested CRP, by variational inference."""

from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from skbnp.components.tree_sticks import TreeMoves, passing_probabilities
from skbnp.components.word_topics import SeenWords
from skbnp.estimators import _base, _saved, _trees
from skbnp.estimators._base import are_in_use, drop_empty
from skbnp.estimators._variational import BoundMixin, CountModel, DocumentParameters
from skbnp.inference.engine import Learner, RunningAverage, StreamLearner
from skbnp.inference.executor import Executor, commit
from skbnp.inference.posterior import Posterior, per_token
from skbnp.inference.protocols import NO_MOVES, Corpus
from skbnp.kernels._nested_crp import MAX_LEVELS
from skbnp.models.nested_crp import local
from skbnp.models.nested_crp import model as ncrp
from skbnp.models.nested_crp.local import PathPredictor
from skbnp.models.nested_crp.moves import OnlineTreeEdits, TreeEdits
from skbnp.models.nested_crp.start import choose_start, start_posterior, topics_of_paths
from skbnp.trees import Tree, TreeView
from skbnp.utils import validation as valid
from skbnp.utils.typing import MatrixLike


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    max_depth: int = field(default=3, kw_only=False)
    max_components: int | None = None
    learning_method: str = "batch"
    structure_moves: bool | TreeMoves = True
    local_family: Literal["conditional", "factorised"] = "conditional"
    init: Any = "gibbs"
    batch_size: int = 256


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(DocumentParameters, _trees.LevelParameters, _Own):
    """Parameters of NestedCRP."""

    tol: float = 1e-5


class NestedCRP(_Parameters, _trees.TopicTreeMixin, BoundMixin, CountModel):
    """Nested Chinese restaurant process topic model, by variational inference.

    Learns a tree of topics, general ones near the root and special ones at the leaves,
    of fixed depth and with as many branches as the documents need. A document takes
    a path from the root to a leaf, mixes the L topics on it in proportions of its own,
    theta ~ Dirichlet(alpha), and each word comes from one of these topics, W_i ~
    Dirichlet(eta). The tree is infinite; the posterior knows a finite part, which moves
    let grow and shrink where a lower bound of the evidence rises [1]_. The equations
    are in :doc:`/derivations/nested_crp`.

    Parameters
    ----------
    max_depth : int, default=3
        Levels of the tree (L), 1 to 50, the root included. 1 is a single topic.
    max_components : int or None, default=None
        Maximum number of nodes, the root included; None for no limit.
    learning_method : {"batch", "online", "memoized"}, default="batch"
        "batch": one update per pass over all documents. "memoized": one per batch of
        documents, whose former statistics are taken out first. "online": one per
        minibatch, with decreasing steps; for large corpora, and as `partial_fit` does.
    structure_moves : bool or TreeMoves, default=True
        Whether leaves end, siblings merge, nodes go to other parents or split, and
        branches grow, each if the collapsed bound rises, or as a `TreeMoves` says.
    local_family : {"conditional", "factorised"}, default="conditional"
        Whether the posterior of a document has levels for each path that it may take,
        q(c) q(theta, z | c), or the same for all, q(c) q(theta) q(z).
    init : {"gibbs", "sequential"} or fitted GibbsNestedCRP, default="gibbs"
        Where the tree starts, by 1,500 random documents at most. "gibbs": the collapsed
        sampler, 200 sweeps after its own start. "sequential": documents one by one. A
        fitted sampler gives its sample with the highest log joint; wrap it in
        `sklearn.frozen.FrozenEstimator` where the estimator will be cloned.
    batch_size : int, default=256
        Documents of a batch or minibatch at most.
    child_concentration : float, default=1.0
        Concentration of the children of a node (gamma), in [1e-100, 1e10].
    level_prior : float or array-like of shape (max_depth,), default=1.0
        Dirichlet parameter of proportions of levels (alpha), each in [1e-100, 1e10],
        the root first, in words of a document. Where priors are learned, a first value.
    topic_word_prior : float or array-like of shape (max_depth,), default=0.3
        Dirichlet parameter of topics over terms (eta), each in [1e-100, 1e10]. Smaller
        values make more and more specific topics, and larger trees.
    learn_priors : bool or "concentrations", default="concentrations"
        Whether to learn concentration and topic prior of each level (True), the former
        alone, or nothing (False). Level priors are learned at the start alone.
    child_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma prior of `child_concentration`, both > 0.
    learning_offset : float, default=1.0
        Offset of the step sizes rho_t = (learning_offset + t)^-learning_decay, >= 0.
    learning_decay : float, default=0.6
        Decay of the step sizes, in [0.5, 1]. Convergence theory asks for more than 0.5.
    total_samples : float or None, default=None
        Documents of the stream of `partial_fit`, > 0. None means those seen so far.
    max_iter : int, default=100
        Passes over the data in `fit`; those of starts do not count.
    tol : float, default=1e-5
        `fit` ends at a smaller relative change of the bound in a pass without moves.
    sparse_output : bool, default=False
        Whether `transform` returns a csr_array.
    n_jobs : int or None, default=None
        Threads of the document step, as in scikit-learn. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Starts, moves and order of documents. The same int gives the same bits.
    verbose : int, default=0
        Passes between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())`` (scikit-learn 1.9 or later).
    warm_start : bool, default=False
        Whether `fit` goes on from the present tree.
    max_doc_update_iter : int, default=100
        Iterations for a path of a document at most.
    mean_change_tol : float, default=1e-3
        They end when the expected tokens of levels change by less than this per token.

    Attributes
    ----------
    tree_ : TreeView
        The known part of the tree, siblings by decreasing mass: `parent`, `depth`,
        `ids`, and `weight`, the probability that a path passes the node; what children
        lack to their parent is of branches that are not in the tree.
    components_ : ndarray of shape (n_components_, n_features)
        Dirichlet parameters of the topics, a row for each node of `tree_`: expected
        counts plus the topic prior. Made anew at each access.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Computed at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected share of tokens at each node; the rest is not in the tree.
    n_components_ : int
        Number of nodes, the root included.
    component_ids_ : ndarray of shape (n_components_,)
        Name of each node in `lineage_`; all else calls a node by its row.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from: the start, then every accepted "birth", "split",
        "merge", "reattach" (of the first parent below the second) and "prune".
    n_active_components_ : int
        Nodes with at least max(1, 1e-4 of all) expected tokens.
    child_concentration_ : float
        Value in force.
    level_prior_ : ndarray of shape (max_depth,)
        Value for each level.
    topic_word_prior_ : float or ndarray of shape (max_depth,)
        Value in force, for each level where they differ.
    elbo_ : float
        Bound of the training data (online: recent documents) in nats per token.
    converged_ : bool
        Whether `tol` ended the last `fit`.
    history_ : dict of lists
        One entry per update and per round of moves that changed the tree: `step`,
        `seconds` (elapsed), `n_components`, `elbo` (nats per token; nan between passes
        and in `partial_fit`), `n_births`, `n_splits`, `n_merges` (accepted so far).
        Streams keep 10,000 entries at most, fewer of the older half.
    n_iter_ : int
        Passes made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Size of the vocabulary.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the terms, if `X` had them.

    See Also
    --------
    GibbsNestedCRP : The same model by Markov chain Monte Carlo.
    skbnp.inspection.TopicTreeDisplay : Draws the tree.

    Notes
    -----
    Expect a flat `HDP` to predict better, and choose a tree for what it shows.
    `partial_fit` changes the tree by the documents of each call, 2,000 of them at the
    most: more documents at a time find more branches, and fewer than 20 only move
    topics. It keeps no documents; a node has its id until `lineage_` ends it. Memory is
    16 bytes for each term and node, in learning ten times as much.

    Trees of different size are compared by a *collapsed bound*: the expected evidence
    of words and paths, topics and sticks integrated out [2]_. Departures from the paper
    are listed in :doc:`/derivations/nested_crp`.

    References
    ----------
    .. [1] Chong Wang and David M. Blei, "Variational Inference for the Nested Chinese
       Restaurant Process", NIPS 2009.
    .. [2] Yee Whye Teh, Kenichi Kurihara and Max Welling, "Collapsed Variational
       Inference for HDP", NIPS 2007.

    Examples
    --------
    >>> from skbnp import NestedCRP
    >>> from skbnp.datasets import make_tree
    >>> X = make_tree(100, random_state=0).data
    >>> crp = NestedCRP(init="sequential", random_state=0).fit(X)
    >>> crp.transform(X).shape == (100, crp.tree_.n_nodes)
    True
    """

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        topic_word_prior=[Real, "array-like"],
        structure_moves=["boolean", TreeMoves],
        local_family=[valid.StrOptions({"conditional", "factorised"})],
        init=[
            valid.StrOptions({"gibbs", "sequential"}),
            valid.HasMethods(["decision_path"]),
        ],
    )

    # -- learning ---------------------------------------------------------------------

    def _local_step(self, executor: Executor) -> local.PathLocalStep:
        return local.PathLocalStep(self._local_stop(), executor, self.local_family)

    def _moves(self) -> TreeMoves | None:
        """Return the moves of the tree, or None."""
        if isinstance(self.structure_moves, TreeMoves):
            return self.structure_moves
        return TreeMoves() if self.structure_moves else None

    def _make_model(self) -> ncrp.NestedModel:
        return ncrp.NestedModel(
            self._level_priors(),
            learn_concentration=self.learn_priors is not False,
            learn_topic_prior=self.learn_priors is True,
            concentration=valid.check_gamma_prior(self, "child_concentration_prior"),
        )

    @property
    def _n_enough_docs(self) -> int:
        return 0 if self._moves() is None else super()._n_enough_docs

    def _start(self, model, counts, seed_entropy, n_docs) -> Posterior:
        """Return a posterior of a root, before a start is chosen."""
        root = ncrp.TopicTree(Tree(), np.zeros((1, 0)), np.zeros(1))
        nothing = SeenWords(np.empty(0, np.intp), counts.shape[1])
        model = _with_seen(model, nothing)
        return start_posterior(model, root, seed_entropy, self._component_limit())

    def _resumed(self, model, *, in_fit: bool) -> Posterior:
        _trees.check_depth(self, self._posterior.model.priors.n_levels)
        learned = self._posterior.model.priors
        names = ["seen"]
        names += ["concentration", "level_prior"] if model.learn_concentration else []
        names += ["topic_prior"] if model.learn_topic_prior else []
        kept = {name: getattr(learned, name) for name in names}
        model = replace(model, priors=replace(model.priors, **kept))
        return super()._resumed(model, in_fit=in_fit)

    def _widened(self, posterior, rows, vocabulary):
        seen = posterior.model.priors.seen
        seen = replace(seen, n_vocabulary=len(vocabulary.names))
        return replace(posterior, model=_with_seen(posterior.model, seen))

    def _why_not_converged(self) -> str:
        return "left no two passes to compare between which the tree stayed."

    def _accept(self, counts, X, *, reset, method):
        begun = not reset and self._posterior.n_steps > 0
        if not begun and not isinstance(self.init, str):
            _trees.check_tree(self.init, counts.shape[1], self.max_depth)
            if not hasattr(self.init, "samples_"):
                raise ValueError(
                    "init must be a fitted GibbsNestedCRP; it has no samples_."
                )
        return counts

    def _begin(self, posterior, counts, local_step, monitor) -> None:
        """Choose the start of a posterior, in place, by some documents."""
        init = self.init
        if not isinstance(init, str):
            best = max(init.samples_, key=lambda sample: sample.log_joint)
            topic_counts = best.topic_word_counts
            seen = _learn_words(
                posterior, np.concatenate([topic_counts.indices, counts.indices])
            )
            words = topic_counts[:, seen.words].toarray()
            init = topics_of_paths(best.depth, words, best.doc_counts)
        counts = _compact(posterior, counts)
        choose_start(posterior, counts, local_step, init, monitor)

    def _warn_if_not_converged(self, monitor) -> None:
        """Warn if the bound has not converged, or if all documents take one path."""
        super()._warn_if_not_converged(monitor)
        stats = self._posterior.global_stats
        room = self._component_limit() > self.max_depth
        n_docs = stats.stub_masses.sum()
        if _trees.is_bare_path(self) and room and n_docs > 1.5 and stats.n_tokens > 0.0:
            self._warn_of_one_path(n_docs, stats.n_tokens)

    def _needs_start(self, posterior) -> bool:
        return posterior.n_steps == 0

    def _find_start(self, posterior, counts, executor, monitor) -> None:
        self._begin(posterior, counts, self._local_step(executor), monitor)

    def _around(self, posterior, counts, executor):
        return super()._around(posterior, _compact(posterior, counts), executor)

    def _make_learner(self, posterior, around, goes_on):
        """Return the learner of `fit`: batch or online, with moves."""
        (counts, local_step), moves = around, self._moves()
        if self.learning_method == "online":
            schedule = self._schedule(posterior, Corpus(counts))
            given = posterior, counts, schedule, local_step
            return self._online_learner(Learner, *given)
        memoized = self.learning_method == "memoized"
        corpus = local.TreeCorpus(counts, self.batch_size if memoized else None)
        parts = corpus.schedule(n_joint=1 if memoized else np.inf)
        edits = NO_MOVES if moves is None else TreeEdits(moves, ends_idle=True)
        cache = local.PathCache(corpus)
        return Learner(posterior, corpus, parts, local_step, cache, edits)

    def _online_learner(self, kind, posterior, counts, schedule, local_step):
        """Return a learner by running averages."""
        moves, corpus = self._moves(), Corpus(counts)
        edits = NO_MOVES if moves is None else OnlineTreeEdits(moves)
        return kind(posterior, corpus, schedule, local_step, RunningAverage(), edits)

    def _learn_chunk(self, posterior, counts, executor, monitor) -> None:
        """Learn a chunk of a stream by online updates, then try moves."""
        local_step = self._local_step(executor)
        if posterior.n_steps == 0:
            self._begin(posterior, counts, local_step, monitor)
        counts = _compact(posterior, counts)
        given = posterior, counts, self._stream_schedule(posterior, counts), local_step
        self._online_learner(StreamLearner, *given).one_pass(monitor)

    def _fitted_attributes(self, posterior, *given):
        topics, priors = posterior.state, posterior.model.priors
        tree = topics.tree
        tokens = posterior.global_stats.word_counts.sum(axis=1)
        n_tokens = posterior.global_stats.n_tokens
        passing = passing_probabilities(
            tree, topics.stub_masses, priors.concentration, priors.n_levels
        )
        return {
            **super()._fitted_attributes(posterior, *given),
            "tree_": TreeView(tree.parent, passing, tree.ids, are_in_use(tokens)),
            "topic_weights_": tokens / n_tokens if n_tokens > 0 else tokens,
            **_trees.fitted_priors(priors),
        }

    # -- loading ----------------------------------------------------------------------

    _saved_parts = {
        "model": ncrp.NestedModel,
        "state": ncrp.TopicTree,
        "global_stats": ncrp.PathStats,
    }

    def _check_saved(self) -> dict[str, int]:
        sizes, topics = super()._check_saved(), self._posterior.state
        priors, tree = self._posterior.model.priors, topics.tree
        _saved.check_levels(priors.n_levels, tree, MAX_LEVELS)
        _saved.check_type("seen words", priors.seen, SeenWords)
        _saved.check_seen_words(priors.seen, self.n_features_in_)
        # Parameters of the topics' Dirichlet posteriors, but for rounding.
        parameters = topics.word_counts + priors.topic_prior[tree.depth][:, None]
        _saved.check_number(
            "word_counts", parameters.min(initial=0), least=-1e-6, most=_saved.LARGE
        )
        return sizes

    # -- evaluation: reads the posterior, writes nothing, draws nothing ----------------

    @property
    def components_(self) -> np.ndarray:
        """Variational Dirichlet parameters of the topics, (n_components_, V)."""
        topics, priors = self._fitted_posterior.state, self._posterior.model.priors
        eta = priors.topic_prior[topics.tree.depth][:, None]
        components = np.repeat(eta, priors.seen.n_vocabulary, axis=1)
        components[:, priors.seen.words] += topics.word_counts
        return components

    @property
    def n_active_components_(self) -> int:
        """Nodes with at least max(1, 1e-4 of all) expected tokens."""
        tokens = self._fitted_posterior.global_stats.word_counts.sum(axis=1)
        return int(are_in_use(tokens).sum())

    def _predictor(self) -> PathPredictor:
        priors = self._fitted_posterior.model.priors
        tree = ncrp.path_globals(self._posterior.state, priors, is_mean=True)
        stop, family = self._local_stop(), self.local_family
        return PathPredictor([tree], stop, family, priors.seen)

    def elbo_terms(self, X: MatrixLike) -> dict[str, float]:
        """Evidence lower bound by its terms, see `elbo`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        terms : dict of str to float
            In nats per token of `X`:

            - "topics": -KL(q(W) || p(W));
            - "sticks": -KL(q(v) || p(v));
            - "documents": all terms of paths, levels and words;
            - "child_concentration", "topic_word_prior": their log priors up to a
              constant, where they are learned.
        """
        counts, _ = self._check_counts(X, "elbo")
        posterior = replace(self._posterior)  # which gets the words of X
        counts = _compact(posterior, counts)
        model, topics = posterior.model, posterior.state
        with Executor(self.n_jobs) as executor:
            counts = drop_empty(counts)
            result = self._local_step(executor).update_paths(
                topics, model.priors, counts
            )
        fresh = local.sum_documents(result, counts, topics.tree, model.priors.n_levels)
        terms = model.objective(topics, fresh)
        return per_token(terms, fresh.n_tokens)


def _with_seen(model: ncrp.NestedModel, seen: SeenWords | None) -> ncrp.NestedModel:
    return replace(model, priors=replace(model.priors, seen=seen))


def _learn_words(posterior: Posterior, words: np.ndarray) -> SeenWords:
    """Add columns for new words to the topics, in place; return all words seen."""
    model, tree = posterior.model, posterior.state.tree
    seen = model.priors.seen.with_words(np.unique(words).astype(np.intp))
    if seen is not model.priors.seen:
        global_stats = posterior.global_stats.with_words(len(seen))
        with commit():
            posterior.model = _with_seen(model, seen)
            posterior.replace_globals(global_stats.globals_on(tree), global_stats)
    return seen


def _compact(posterior: Posterior, counts: sp.csr_array) -> sp.csr_array:
    """Counts in the columns of the topics, which have one for each word of them."""
    return _learn_words(posterior, counts.indices).compact(counts)
