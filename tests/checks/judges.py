"""Documents that judge trials are not learned from: not at the start either."""

import numpy as np
import scipy.sparse as sp

from skbnp.estimators import _hdp
from skbnp.models.hdp.held_out_trials import HeldOutTrials


def with_own_words(X):
    """Append a word for each document that no other has, twice there."""
    X = sp.csr_array(X)
    return sp.hstack([X, 2.0 * sp.eye_array(X.shape[0])], format="csr")


def note_trials(monkeypatch):
    """List the topics that trials begin with, and what is held out, of each fit."""
    begun = []

    class Noted(HeldOutTrials):
        def __init__(self, learner, held, *given, **named):
            start = learner.posterior.global_stats.topic_words.dense().copy()
            begun.append((start, held))
            super().__init__(learner, held, *given, **named)

    monkeypatch.setattr(_hdp, "HeldOutTrials", Noted)
    return begun


def words_of_none(X):
    """Words that no document has."""
    return np.asarray(X.sum(axis=0)).ravel() == 0.0
