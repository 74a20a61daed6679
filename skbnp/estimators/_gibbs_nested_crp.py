"""Estimator of the nested CRP by collapsed Gibbs sampling."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from numbers import Real
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skbnp.estimators import _base, _trees
from skbnp.estimators._base import are_in_use
from skbnp.estimators._known_topics import check_names
from skbnp.estimators._samplers import SamplerParameters, TokenCorpus, TopicSampler
from skbnp.estimators._saved import check_doc_counts, check_levels, check_number
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop
from skbnp.kernels._nested_crp import MAX_LEVELS
from skbnp.models import nested_crp_walks
from skbnp.models.nested_crp.local import PathPredictor
from skbnp.models.nested_crp_walks import NestedPriors, NestedSample
from skbnp.trees import TreeView
from skbnp.utils import validation as valid
from skbnp.utils.arrays import evenly_spaced
from skbnp.utils.ranges import NotEmpty
from skbnp.utils.typing import Array, Ints, Ints32
from skbnp.utils.warnings import warn_caller

#: Agreement of chains below which a fit warns.
LEAST_AGREEMENT = 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    max_depth: int = field(default=3, kw_only=False)
    init: Any = None


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(SamplerParameters, _trees.LevelParameters, _Own):
    """Parameters of GibbsNestedCRP."""


class GibbsNestedCRP(_Parameters, _trees.TopicTreeMixin, TopicSampler):
    """Nested Chinese restaurant process topic model, by Markov chain Monte Carlo.

    Learns a tree of topics, general ones near the root and special ones at the leaves,
    of fixed depth and with as many branches as the documents need. A document takes
    a path from the root to a leaf, at each node a child in proportion to the documents
    that took it, or a new one in proportion to gamma; it mixes the L topics on its path
    in proportions theta ~ Dirichlet(alpha), and topics are beta ~ Dirichlet(eta).

    Topics and proportions are integrated out. A sweep draws for each document its path
    given the levels of its tokens, then each of these levels given the path, and all
    else (section 5 of [1]_), and then hyperparameters: see
    :doc:`/derivations/nested_crp`. [2]_ compares its algorithm with this sampler.

    Parameters
    ----------
    max_depth : int, default=3
        Levels of the tree (L), 1 to 50, the root included. 1 is a single topic.
    init : fitted topic tree, "sequential" or None, default=None
        Where chains start. None: on the best of many trees over the same leaves, one
        path for all among them, by the probability of each of up to 600 documents
        given all others. "sequential": documents take a path one after the other. A
        fitted tree: each document starts on its `decision_path`. Wrap it in
        `sklearn.frozen.FrozenEstimator` where the estimator will be cloned.
    child_concentration : float, default=1.0
        Concentration of the children of a node (gamma), in [1e-100, 1e10].
    level_prior : float or array-like of shape (max_depth,), default=1.0
        Dirichlet parameter of proportions of levels (alpha), each in [1e-100, 1e10],
        the root first, in words of a document. Where priors are learned, a first value.
    topic_word_prior : float or array-like of shape (max_depth,), default=0.3
        Dirichlet parameter of topics over terms (eta), each in [1e-100, 1e10]. Smaller
        values make more and more specific topics, and larger trees.
    learn_priors : bool or "concentrations", default="concentrations"
        Whether to draw the concentration of children, the level prior and the topic
        prior of each level in every sweep (True), all but the topic priors, which in
        text become so small that a leaf has few documents, or nothing (False).
    child_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma prior of `child_concentration`, both > 0.
    max_iter : int, default=500
        Sweeps of each chain; in `partial_fit`, over each chunk.
    burn_in : int or None, default=None
        First sweeps of a chain, of which no sample is kept, below `max_iter`; None
        means half of `max_iter`.
    thin : int, default=25
        Sweeps from one kept sample to the next; the last states where none is kept.
    n_chains : int, default=1
        Independent chains, 1 to 1000, which run side by side on `n_jobs` threads.
    sparse_output : bool, default=False
        Whether `transform` returns a csr_array.
    n_jobs : int or None, default=None
        Threads for chains and for prediction; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Names the draws. The same int gives the same bits.
    verbose : int, default=0
        Sweeps between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())`` (scikit-learn 1.9 or later).
    warm_start : bool, default=False
        Whether `fit` goes on. On the same documents chains continue exactly, as one
        longer fit with that burn-in (None is what it was); on others, or after
        `partial_fit`, new chains start on the present tree. Priors go on, too.

    Attributes
    ----------
    samples_ : list of samples
        Kept states of all chains: `component_ids`, `depth`, `topic_word_counts`
        (csr_array), `doc_counts`, documents through each node, priors, `log_joint`
        (nats per token), `chain` and `step`. Before the first is kept, and after
        `partial_fit`, the present states.
    tree_ : TreeView
        The tree of the sample with the highest log joint, siblings by decreasing
        documents: `parent`, `depth`, `ids`, and `weight`, the probability that a
        further document passes the node; what children lack to their parent is of new
        branches. This and the next attributes speak of that sample alone.
    components_ : ndarray of shape (n_components_, n_features)
        Counts plus topic prior, a row for each node of `tree_`. Made at each access.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Computed at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Share of tokens at each node.
    n_components_ : int
        Number of nodes, the root included.
    component_ids_ : ndarray of shape (n_components_,)
        Names of the nodes in `lineage_`, stable within their chain; all else calls a
        node by its row.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id of that sample came from: the start, then "birth" and "prune" of
        each sweep. Ended ids never return.
    n_active_components_ : int
        Nodes with at least max(1, 1e-4 of all) tokens.
    child_concentration_ : float
        Value of that sample.
    level_prior_ : ndarray of shape (max_depth,)
        Value for each level.
    chain_agreement_ : ndarray of shape (max_depth - 1,)
        Adjusted Rand index of the documents' nodes at each level below the root, the
        mean over pairs of chains; empty with one chain, and after `partial_fit`.
    topic_word_prior_ : float or ndarray of shape (max_depth,)
        Value of that sample, for each level where they differ.
    n_components_posterior_ : dict of int to float
        Number of nodes -> share of the sweeps after burn-in that had it, all chains.
    log_joint_ : float
        Log joint probability of words, paths, levels and learned hyperparameters after
        the last sweep, in nats per token; after `partial_fit` that of the last chunk.
    history_ : dict of lists
        One entry per sweep and chain, burn-in included: `step`, `chain`, `seconds`
        (elapsed wall time), `n_components`, `n_leaves`, `log_joint` (nats per token),
        `child_concentration`, `topic_word_prior` (a tuple, by level).
        Streams keep 10,000 entries at most, fewer of the older half.
    n_iter_ : int
        Sweeps made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Size of the vocabulary.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the terms, if `X` had them.

    See Also
    --------
    NestedCRP : Variational learning of the same model, faster and for streams.
    GibbsHDP : Topics without a tree, by the same means.
    skbnp.inspection.TopicTreeDisplay : Draws the tree.

    Notes
    -----
    `score` averages probabilities over `samples_`, by the document step of `NestedCRP`
    at the mean topics of each; `transform`, `apply` and the others use the sample with
    the highest log joint. A sweep takes some 0.1 to 0.2 microseconds per token with a
    hundred nodes; memory is 4 bytes for each term and node, and some 30 bytes per
    token, for each chain. Only chains run side by side. Large branches move slowly:
    `chain_agreement_` of several chains tells whether a tree has settled.

    The papers' algorithm is ``init="sequential"`` with ``level_prior=(50, 20, 10)``,
    ``topic_word_prior=1.0`` and ``learn_priors=False``. All departures are listed in
    :doc:`/derivations/nested_crp`.

    References
    ----------
    .. [1] David M. Blei, Thomas L. Griffiths and Michael I. Jordan, "The Nested Chinese
       Restaurant Process and Bayesian Nonparametric Inference of Topic Hierarchies",
       Journal of the ACM 57, 2010.
    .. [2] Chong Wang and David M. Blei, "Variational Inference for the Nested Chinese
       Restaurant Process", NIPS 2009.

    Examples
    --------
    >>> from skbnp import GibbsNestedCRP
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(100, random_state=0).data
    >>> crp = GibbsNestedCRP(max_iter=20, thin=5, random_state=0).fit(X)
    >>> [sample.step for sample in crp.samples_]
    [15, 20]
    >>> crp.transform(X).shape == (100, crp.n_components_)
    True
    """

    samples_: Annotated[list[NestedSample], NotEmpty]
    _kept: list[NestedSample]
    _chains: tuple[nested_crp_walks.NestedState, ...] | None

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        topic_word_prior=[Real, "array-like"],
        init=[
            valid.HasMethods(["decision_path"]),
            valid.StrOptions({"sequential"}),
            None,
        ],
    )

    # -- learning ---------------------------------------------------------------------

    _columns = nested_crp_walks.COLUMNS

    def _check_consistency(self, goes_on: bool) -> None:
        """Check priors of levels, and the depth of a warm start."""
        self._priors()
        self._level_priors()
        if goes_on:
            _trees.check_depth(self, len(self._best().level_prior))

    def _priors(self) -> NestedPriors:
        return NestedPriors(
            learn_concentration=self.learn_priors is not False,
            learn_topic_prior=self.learn_priors is True,
            learn_level_prior=self.learn_priors is not False,
            concentration=valid.check_gamma_prior(self, "child_concentration_prior"),
        )

    def _check_init(self, X, n_features: int) -> None:
        if self.init is not None and not isinstance(self.init, str):
            check_names(self.init, X)
            _trees.check_tree(self.init, n_features, self.max_depth)

    def _make_chain(
        self, data, seed_entropy, start, number, *, burn_in=None, before=None
    ):
        return nested_crp_walks.NestedChain(
            data.tokens,
            self._priors(),
            seed_entropy,
            start,
            number=number,
            before=before,
        )

    def _start(self, goes_on: bool) -> nested_crp_walks.NestedStart:
        """Return a start without paths: documents take paths one by one."""
        if not goes_on:
            return nested_crp_walks.NestedStart(
                priors=self._level_priors(), is_sought=self.init is None
            )
        return nested_crp_walks.NestedStart(
            priors=self._best().priors,
            ended=self.component_ids_,
            lineage=self.lineage_,
            next_id=self._next_id,
            step=self._latest_step(),
        )

    def _starts(
        self, data: TokenCorpus, seed_entropy: int, goes_on: bool
    ) -> Iterator[nested_crp_walks.NestedStart]:
        start = self._start(goes_on)
        if goes_on:
            node, rows = _walk_by(self, data.counts, self.max_depth)
            start = replace(start, node=node, ids=self.component_ids_[rows])
        elif self.init is not None and not isinstance(self.init, str):
            node, _ = _walk_by(self.init, data.counts, self.max_depth)
            start = replace(start, node=node)
        yield from [start] * self.n_chains

    def _attributes_of(self, best: NestedSample) -> dict[str, Any]:
        return {
            "tree_": TreeView(
                best.tree.parent,
                np.exp(best.log_weights),
                best.component_ids,
                are_in_use(best.n_tokens),
            ),
            "n_components_": len(best.component_ids),
            "component_ids_": best.component_ids.copy(),
            "topic_weights_": best.topic_weights,
            **_trees.fitted_priors(best.priors),
        }

    def _check_sample(self, sample: NestedSample, sizes: dict[str, int]) -> None:
        tree = sample.tree
        tree.check()
        check_levels(sizes["n_levels"], tree, MAX_LEVELS)
        check_doc_counts(sample.doc_counts, tree)

    def _check_chain(self, state: nested_crp_walks.NestedState) -> None:
        check_number("max_depth", state.priors.n_levels, least=1, most=MAX_LEVELS)

    def _warn_if_chains_disagree(self) -> None:
        """Warn if chains put documents on different paths, or all on one."""
        super()._warn_if_chains_disagree()
        agreement = self.chain_agreement_
        if len(agreement) and (low := float(agreement.min())) < LEAST_AGREEMENT:
            level = int(agreement.argmin()) + 2
            warn_caller(
                f"The chains put documents on different paths: at level {level} their "
                f"adjusted Rand index is {low:.2f}, and should be near 1. Increase "
                "max_iter, or trust only the levels that agree (chain_agreement_).",
                ConvergenceWarning,
            )
        best = self._best()
        n_docs, n_tokens = float(best.doc_counts[0]), float(best.n_tokens.sum())
        if self.max_depth > 1 and len(self.tree_.leaves) == 1 and n_docs > 1.5:
            self._warn_of_one_path(n_docs, n_tokens)

    # -- evaluation: reads samples, writes nothing, draws nothing ----------------------

    @property
    def chain_agreement_(self) -> np.ndarray:
        """Adjusted Rand index of documents' nodes at each level below the root.

        The mean over pairs of chains, of their last states, (max_depth - 1,); empty
        where there are no two chains that can go on.
        """
        valid.check_is_fitted(self)
        states: Any = self._chains or ()
        nodes = [state.paths.node for state in states]
        if len(nodes) < 2 or len(nodes[0]) == 0:
            return np.zeros(0)
        pairs = [
            [
                adjusted_rand_score(a, b)
                for a, b in zip(one.T[1:], two.T[1:], strict=True)
            ]
            for one, two in combinations(nodes, 2)
        ]
        return np.mean(pairs, axis=0)

    @property
    def components_(self) -> np.ndarray:
        """Counts plus topic prior of the best sample, (n_components_, V)."""
        best = self._best()
        eta = best.topic_word_prior[best.depth]
        return best.topic_word_counts.toarray() + eta[:, None]

    def _predictor(self) -> PathPredictor:
        best = self._best()
        others = [sample for sample in self.samples_ if sample is not best]
        trees = [sample.for_prediction() for sample in (best, *others)]
        return PathPredictor(trees, LocalStop(100, 1e-3))

    def _sample_uses(
        self, counts: sp.csr_array, n_samples: int
    ) -> Iterator[tuple[sp.csr_array, Ints, Array]]:
        """Yield words and depths of nodes in kept samples, and uses of nodes.

        At most `n_samples` samples, evenly spaced.
        """
        n_tokens = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
        with Executor(self.n_jobs) as executor:
            predictor = self._predictor()
            for sample in evenly_spaced(self.samples_, n_samples):
                tree = sample.for_prediction()
                docs = predictor.infer(tree, counts, executor)
                uses = docs.proportions(tree.stub_nodes) * n_tokens
                yield sample.topic_word_counts, sample.depth, uses


def _walk_by(model: Any, counts: sp.csr_array, n_levels: int) -> tuple[Ints32, Ints]:
    """Nodes on the most probable path of each document under a model, as in `Paths`.

    Documents whose path leaves the tree have none. Returns also the rows of these nodes
    in the tree, level by level.
    """
    if counts.shape[0] == 0:  # no token anywhere
        return np.full((0, n_levels), -1, np.int32), np.zeros(1, np.intp)
    with warnings.catch_warnings():  # names were checked; counts have none
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        steps = sp.csr_array(model.decision_path(counts))
    stays = np.diff(steps.indptr) == n_levels
    # Nodes of a path stand by depth: parents come before their children.
    paths = np.sort(steps[stays].indices.reshape(-1, n_levels), axis=1)
    node = np.full((counts.shape[0], n_levels), -1, dtype=np.int32)
    node[stays, 0], rows = 0, [np.zeros(1, dtype=np.intp)]
    for level in range(1, n_levels):
        used, number = np.unique(paths[:, level], return_inverse=True)
        node[stays, level] = number.ravel()
        rows.append(used)
    return node, np.concatenate(rows)
