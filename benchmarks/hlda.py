"""tomotopy's HLDAModel beside `GibbsNestedCRP`: the same priors, its state as ours."""

import numpy as np
import tomotopy
from peers import Tomotopy

from skbnp.models.nested_crp_walks.model import Paths, Walks
from skbnp.models.nested_crp_walks.sample import NestedSample
from skbnp.rows.tokens import Tokens


class HLDA(Tomotopy):
    """The model with the priors of ours; all levels have the same topic prior."""

    def __init__(self, counts, priors, seed):
        model = tomotopy.HLDAModel(
            depth=priors.n_levels,
            alpha=priors.level_prior.tolist(),
            eta=float(priors.topic_prior[0]),
            gamma=priors.concentration,
            seed=seed,
        )
        model.optim_interval = 0  # its priors stay as they are
        super().__init__(counts, model)
        self.tokens, self.priors = Tokens.from_counts(counts), priors

    def paths(self):
        """Where its documents and tokens are."""
        docs = list(self.model.docs)
        topics = np.array([doc._path for doc in docs])  # `paths` fails in 0.14
        node = [np.unique(at, return_inverse=True)[1].ravel() for at in topics.T]
        level = np.array([self.model.level(topic) for topic in range(self.model.k)])
        at = level[np.concatenate([doc.topics for doc in docs])]
        return Paths(np.column_stack(node).astype(np.int32), at.astype(np.uint8))

    def sample(self):
        """Tell what prediction needs of its state."""
        walks = Walks(self.tokens, self.priors, self.paths())
        return NestedSample.of(
            walks,
            np.arange(len(walks.columns)),
            log_joint=walks.log_joint() / len(self.tokens),
            chain=0,
            step=self.model.global_step,
        )
