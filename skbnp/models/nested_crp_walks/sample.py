"""Samples of the nested CRP: what prediction reads of a state of the sampler."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.tree_sticks import LevelPriors, stub_nodes
from skbnp.models.nested_crp.model import PathGlobals
from skbnp.models.nested_crp_walks.model import Nodes, Walks
from skbnp.trees import Tree
from skbnp.utils.ranges import Log, Sized, Steps, Tokens
from skbnp.utils.typing import Array, Ints, Ints32


@dataclass(frozen=True, slots=True)
class NestedSample:
    """Tree and counts of a state, by position; siblings by decreasing documents."""

    component_ids: Annotated[Ints, Sized("n_nodes")]  # names, depth first
    depth: Annotated[Ints, Sized("n_nodes")]
    topic_word_counts: Annotated[sp.csr_array, Tokens("n_nodes", "n_features")]  # int32
    doc_counts: Annotated[Ints32, Sized("n_nodes")]  # documents through each node
    child_concentration: float  # gamma
    level_prior: Annotated[Array, Sized("n_levels", least=1e-300)]  # alpha
    topic_word_prior: Annotated[Array, Sized("n_levels", least=1e-300)]  # eta
    log_joint: Log  # nats per token
    chain: Steps
    step: Steps  # sweeps made

    @classmethod
    def of(
        cls, walks: Walks, ids: Ints, log_joint: float, chain: int, step: int
    ) -> "NestedSample":
        """Copy from tidy walks, whose nodes have ids, level by level."""
        tree, columns = walks.tree()
        priors, counts = walks.priors, sp.csr_array(walks.counts.T[columns])
        counts.sum_duplicates()  # notes that there are none, before anybody asks
        return cls(
            component_ids=ids[tree.ids],
            depth=tree.depth.copy(),
            topic_word_counts=counts,
            doc_counts=walks.docs[columns],
            child_concentration=priors.concentration,
            level_prior=priors.level_prior.copy(),
            topic_word_prior=priors.topic_prior.copy(),
            log_joint=log_joint,
            chain=chain,
            step=step,
        )

    @property
    def priors(self) -> LevelPriors:
        """Hyperparameters in force."""
        return LevelPriors(
            self.child_concentration, self.level_prior, self.topic_word_prior
        )

    @property
    def tree(self) -> Tree:
        """The tree of node ids, in the order of the arrays."""
        return Tree(self.component_ids, self.depth)

    @property
    def n_tokens(self) -> NDArray:
        """Tokens of each node."""
        return np.asarray(self.topic_word_counts.sum(axis=1)).ravel()

    @property
    def topic_weights(self) -> Array:
        """Share of tokens of each node."""
        return self.n_tokens / max(self.n_tokens.sum(), 1)

    @property
    def log_weights(self) -> Array:
        """Log probability that the path of a further document passes each node.

        Sum of log d_i / (d_parent + gamma) from the root down.
        """
        docs, tree = self.doc_counts.astype(np.float64), self.tree
        own, above = np.zeros(len(docs)), docs[tree.parent[1:]]
        own[1:] = np.log(docs[1:]) - np.log(above + self.child_concentration)
        return tree.distribute(own)

    @property
    def log_stub_priors(self) -> Array:
        """Log p(stub) of a further document, (n_nodes,); they sum to one.

        A node of the last level is a path, any other stands for all paths that leave
        the tree below it: gamma / (d_i + gamma) of those that pass it.
        """
        gamma = self.child_concentration
        docs = self.doc_counts.astype(np.float64)
        leaves = np.log(gamma) - np.log(docs + gamma)
        is_inner = self.depth < len(self.level_prior) - 1
        return self.log_weights + np.where(is_inner, leaves, 0.0)

    def for_prediction(self) -> PathGlobals:
        """Return what the local step of new documents reads."""
        return PathGlobals(
            word_counts=self.topic_word_counts,
            depth=self.depth,
            stub_nodes=stub_nodes(self.tree, len(self.level_prior)),
            log_prior=self.log_stub_priors,
            level_prior=self.level_prior,
            topic_prior=self.topic_word_prior,
            is_mean=True,
        )

    def nodes(self) -> Nodes:
        """Return counts level by level, from which walks of new documents start."""
        order = self.level_order
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        parent = self.tree.parent[order]
        return Nodes(
            depth=self.depth[order],
            parent=np.where(parent < 0, -1, place[parent]),
            docs=self.doc_counts[order],
            counts=self.topic_word_counts[order],
        )

    @property
    def level_order(self) -> Ints:
        """Positions of nodes level by level."""
        return np.argsort(self.depth, kind="stable")
