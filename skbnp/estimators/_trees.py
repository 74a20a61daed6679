"""Base of the nested CRP estimators: paths, levels and nodes of documents."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin

from skbnp.components.statistics import Supports
from skbnp.components.tree_sticks import LevelPriors
from skbnp.estimators._base import TopicModelMixin
from skbnp.inference.executor import Executor
from skbnp.models.nested_crp.local import DocPaths, PathPredictor
from skbnp.models.nested_crp.model import PathGlobals
from skbnp.rows.survey import ENOUGH_DOCS
from skbnp.trees import TreeView
from skbnp.utils.arrays import at_columns, rows_of
from skbnp.utils.typing import Ints32, MatrixLike
from skbnp.utils.validation import check_is_fitted, check_per_level
from skbnp.utils.warnings import warn_caller


def check_depth(estimator: Any, n_levels: int) -> None:
    """Raise if a fit goes on with a tree of another depth."""
    if estimator.max_depth != n_levels:
        raise ValueError(
            f"max_depth={estimator.max_depth}, but the fit goes on with a tree of "
            f"{n_levels} levels."
        )


def is_bare_path(estimator: Any) -> bool:
    """Whether a fitted tree is one path although moves could have added branches."""
    could_branch = estimator.max_depth > 1 and bool(estimator.structure_moves)
    return could_branch and len(estimator.tree_.leaves) == 1


def fitted_priors(priors: LevelPriors) -> dict[str, Any]:
    """Return the fitted attributes that priors of a topic tree determine."""
    eta = priors.topic_prior
    return {
        "child_concentration_": priors.concentration,
        "level_prior_": priors.level_prior.copy(),
        "topic_word_prior_": float(eta[0]) if (eta == eta[0]).all() else eta.copy(),
    }


class PathsMixin(ABC):
    """Base of estimators whose rows take a path of a tree: which nodes they pass."""

    n_components_: int

    @abstractmethod
    def _paths_of(self, X: Any, method: str) -> tuple[Supports, Ints32, np.dtype]:
        """Posterior of paths, stubs by row of `tree_`; nodes on paths; dtype."""

    def apply(self, X: MatrixLike) -> np.ndarray:
        """Find the node where the most probable path of each row ends.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.

        Returns
        -------
        nodes : ndarray of int of shape (n_samples,)
            Rows of `tree_` and `components_`. An inner node means that the path leaves
            the tree below it.
        """
        memo, _, _ = self._paths_of(X, "apply")
        return memo.stubs[memo.best].astype(np.intp)

    def decision_path(self, X: MatrixLike) -> sp.csr_array:
        """Mark the nodes on the most probable path of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.

        Returns
        -------
        indicator : csr_array of shape (n_samples, n_components_)
            One where the path passes the node.
        """
        memo, stub_nodes, _ = self._paths_of(X, "decision_path")
        nodes = stub_nodes[memo.stubs[memo.best]]
        ones = np.ones(nodes.shape, dtype=np.intp)
        return at_columns(nodes, ones, self.n_components_)

    def doc_paths(self, X: MatrixLike) -> sp.csr_array:
        """Infer where the paths of rows end.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.

        Returns
        -------
        path_distr : csr_array of shape (n_samples, n_components_)
            Probability that the path of a row ends at a node, q(c), or that it leaves
            the tree there, if the node is not at the last level. Rows sum to one; paths
            less probable than about 2e-9 are left out.
        """
        memo, _, dtype = self._paths_of(X, "doc_paths")
        shape = (memo.n_rows, self.n_components_)
        shares = memo.shares.astype(dtype, copy=False)
        return sp.csr_array((shares, memo.stubs, memo.limits), shape=shape)


@dataclass(kw_only=True, eq=False, repr=False)
class LevelParameters:
    """Parameters of nested CRPs of documents."""

    child_concentration: float = 1.0
    level_prior: ArrayLike = 1.0
    topic_word_prior: ArrayLike = 0.3
    learn_priors: bool | str = "concentrations"
    child_concentration_prior: Sequence[float] = (1.0, 1.0)


class TopicTreeMixin(TopicModelMixin, TransformerMixin, PathsMixin):
    """Base of estimators whose documents take a path of a tree: evaluation.

    They have `LevelParameters`.
    """

    # Fitted
    tree_: TreeView
    child_concentration_: float
    level_prior_: np.ndarray
    topic_word_prior_: float | np.ndarray

    @property
    def _n_enough_docs(self) -> int:
        """Number of distinct documents that suffice: all judge, none is held out."""
        return ENOUGH_DOCS // 5

    @abstractmethod
    def _predictor(self) -> PathPredictor:
        """Return the predictor of tokens, the first sample being the one shown."""

    def _level_priors(self) -> LevelPriors:
        """Return the priors given by parameters; raise unless one per level."""
        level, topic = (
            check_per_level(name, getattr(self, name), self.max_depth)
            for name in ("level_prior", "topic_word_prior")
        )
        return LevelPriors(float(self.child_concentration), level, topic)

    def _warn_of_one_path(self, n_docs: float, n_tokens: float) -> None:
        """Warn that all documents take one path, and name what may help."""
        length = n_tokens / max(n_docs, 1e-300)
        prior = float(np.sum(self.level_prior_))
        eta = float(np.mean(self.topic_word_prior_))
        cure = (
            "Documents may share their topics; if not, a smaller topic_word_prior than "
            f"{eta:.3g}, or more documents, allow more branches."
        )
        if self.learn_priors is False and 0.0 < length < prior:
            cure = (
                f"level_prior counts like {prior:.3g} words of a document, and "
                f"documents have {length:.3g}: smaller values, and a smaller "
                "topic_word_prior, leave room for branches."
            )
        warn_caller(
            "The tree is a single path: apply gives one node for all documents. No "
            f"branch raises the bound for {n_docs:.0f} documents of {length:.3g} "
            f"words. {cure}"
        )

    # -- evaluation: reads the model, writes nothing, draws nothing --------------------

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Infer the proportions of nodes in documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        doc_topic_distr : {ndarray, csr_array} of shape (n_samples, n_components_)
            Expected proportions of the nodes of `tree_`; rows sum to one, the mass of
            topics that are not in the tree left out. A document without tokens gets the
            prior proportions. Sparse if `sparse_output`. float32 if `X` is, otherwise
            float64.
        """
        docs, tree, dtype = self._infer(X, "transform")
        distr = docs.proportions(tree.stub_nodes)
        distr /= distr.sum(axis=1, keepdims=True)
        distr = distr.astype(dtype, copy=False)
        return sp.csr_array(distr) if self.sparse_output else distr

    def _node_tokens(self, counts: sp.csr_array) -> tuple[np.ndarray, ...]:
        """Stored counts, nodes, expected tokens, and shares in `transform`, aligned."""
        docs, tree, _ = self._infer(counts, "transform")
        at, nodes, tokens, parts = docs.word_tokens(counts, tree.stub_nodes)
        at, k = self._predictor().order(counts)[at], self.n_components_
        pairs, entry = np.unique(at * k + nodes, return_inverse=True)
        on_tree = docs.proportions(tree.stub_nodes).sum(axis=1)
        at, nodes = np.divmod(pairs, k)
        on_tree = on_tree[rows_of(counts.indptr)[at]]
        sums = (np.bincount(entry, values) for values in (tokens, parts))
        tokens, parts = (values.astype(np.float64) for values in sums)
        return at, nodes, tokens, parts / on_tree

    def doc_levels(self, X: MatrixLike) -> np.ndarray:
        """Infer the proportions of levels in documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        level_distr : ndarray of shape (n_samples, max_depth)
            Expected proportions E[theta], averaged over paths, the root first; rows sum
            to one. float32 if `X` is, otherwise float64.
        """
        docs, _, dtype = self._infer(X, "doc_levels")
        theta = docs.levels / docs.levels.sum(axis=1, keepdims=True)
        distr = np.zeros((docs.n_rows, theta.shape[1]))
        np.add.at(distr, docs.row, docs.shares[:, None] * theta)
        return distr.astype(dtype, copy=False)

    def _paths_of(self, X: Any, method: str) -> tuple[Supports, Ints32, np.dtype]:
        docs, tree, dtype = self._infer(X, method)
        return docs, tree.stub_nodes, dtype

    def _infer(self, X, method: str) -> tuple[DocPaths, PathGlobals, np.dtype]:
        """Infer paths and levels under the tree shown.

        Return that and the dtype too.
        """
        counts, dtype = self._check_counts(X, method)
        predictor = self._predictor()
        tree = predictor.samples[0]
        with Executor(self.n_jobs) as executor:
            return predictor.infer(tree, counts, executor), tree, dtype


def check_tree(init: Any, n_features: int, n_levels: int) -> None:
    """Raise unless a model to start from is a fitted topic tree that fits."""
    check_is_fitted(init)
    if not isinstance(getattr(init, "tree_", None), TreeView):
        raise ValueError("init must be a fitted topic tree; it has no such tree_.")
    if init.n_features_in_ != n_features:
        raise ValueError(
            f"X has {n_features} features, but init has {init.n_features_in_}."
        )
    if init.tree_.max_depth >= n_levels:
        raise ValueError(
            f"max_depth={n_levels}, but the tree of init has "
            f"{init.tree_.max_depth + 1} levels."
        )
