"""The posterior of a nested HDP, with the documents of a short stream."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.sparse as sp

from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.models.nested_hdp.model import MixedTree, NestedHDPModel, NestedStats
from skbnp.trees import Tree
from skbnp.utils.ranges import Sized


@dataclass(slots=True)
class NestedPosterior(Posterior[NestedHDPModel, MixedTree, NestedStats]):
    """Globals of a nested HDP, and documents that its tree may start again from."""

    #: All documents of a stream; None if they are too many, or after a fit.
    documents: (
        Annotated[sp.csr_array, Sized("n_docs", "n_features", least=0)] | None
    ) = None

    def adopt(self, other: "NestedPosterior", n_docs: int, monitor: Monitor) -> None:
        """Replace the tree in place by that of a fit of all `n_docs`: one update.

        The first tree keeps its ids; all nodes of a later one are new.
        """
        state, step = other.state, self.n_steps + 1
        log = [entry._replace(step=min(entry.step, step)) for entry in other.lineage]
        if self.n_seen > 0:
            ids = self.n_named + np.arange(len(state.tree))
            state = replace(state, tree=Tree(ids, state.tree.depth))
            ended = [Lineage(step, "prune", (n,), ()) for n in self.ids.tolist()]
            born = [Lineage(step, "birth", (), (n,)) for n in ids.tolist()]
            log = [*self.lineage, *ended, *born]
        with commit():
            self.replace_globals(state, other.global_stats)
            self.lineage, self.documents = log, other.documents
            self.n_steps, self.n_seen = step, n_docs
            self.step_origin = step + other.step_origin
            self.init_fraction = other.init_fraction
            monitor.record(self)
