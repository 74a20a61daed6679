"""Posteriors of the HDP by their topics, and what visits say of its documents."""

import numpy as np

from skbnp.components.word_topics import WordTopics
from skbnp.inference.posterior import Lineage
from skbnp.models.hdp.model import CollapsedHDP
from skbnp.models.hdp.posterior import HDPPosterior

COLLAPSED = CollapsedHDP(learn_concentrations=True, learn_topic_prior=False)


def posterior_of(state, topics, model=COLLAPSED, **given):
    """Posterior of expected counts of words, (n_words, n_topics)."""
    ids = np.arange(topics.shape[1])
    log = [Lineage(0, "init", (), tuple(ids.tolist()))]
    totals = model.start(state, WordTopics(topics))
    return HDPPosterior(model, state, totals, ids, log, **given)


def responsibilities(blocks, shape, n_topics):
    """Those of visits, (n_docs, n_words, n_topics), from their factors."""
    r = np.zeros((*shape, n_topics))
    for visit in blocks:
        block = visit.block
        weights = visit.doc_weights[visit.row] * visit.word_weights[block.indices]
        rows = np.arange(len(r))[block.rows][visit.row]
        r[rows, block.words[block.indices]] = weights / visit.documents.norms[:, None]
    return r
