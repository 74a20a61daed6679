"""tomotopy's HLDAModel beside `GibbsNestedCRP`: the same priors, its state as ours."""

import numpy as np
import tomotopy

from skbnp.models.nested_crp_walks import NestedSample, Paths, Walks
from skbnp.rows.batch import Tokens


class Tomotopy:
    """A model of tomotopy; a step is a few sweeps, or one of a large corpus."""

    def __init__(self, train, model):
        self.model, self.n_words = model, train.shape[1]
        self.n_sweeps = 5 if train.sum() < 1e6 else 1
        names = np.array([str(word) for word in range(self.n_words)])
        for row in range(train.shape[0]):
            part = slice(train.indptr[row], train.indptr[row + 1])
            counts = train.data[part].astype(np.int64)
            model.add_doc(np.repeat(names[train.indices[part]], counts).tolist())

    def step(self):
        self.model.train(self.n_sweeps, workers=1)

    def alive(self):
        return range(self.model.k)

    def topic_words(self):
        """Topics with words in the order of the columns."""
        columns = [int(name) for name in self.model.used_vocabs]
        topics = np.zeros((len(self.alive()), self.n_words))
        for row, topic in enumerate(self.alive()):
            topics[row, columns] = self.model.get_topic_word_dist(topic)
        return topics


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
