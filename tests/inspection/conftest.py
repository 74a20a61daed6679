"""Small fakes of fitted models, and figures that close themselves."""

import matplotlib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

matplotlib.use("Agg")


class FakeHDP(TransformerMixin, BaseEstimator):
    """Three topics over five words, with the attributes of a fitted HDP.

    Without learned priors, as if `fit` had run; rows of `transform` are shares of X.
    """

    def __init__(self, n_components=3):
        self.n_components = n_components

    def fit(self, X=None, y=None):
        self.components_ = np.array(
            [[4.0, 2.0, 2.0, 1.0, 1.0], [1.0, 1.0, 6.0, 1.0, 1.0], [1, 2, 3, 4, 10]]
        )
        self.topic_weights_ = np.array([0.2, 0.5, 0.25])
        self.n_components_ = self.n_active_components_ = 3
        self.n_features_in_ = 5
        self.doc_concentration_ = 1.25
        self.corpus_concentration_ = 2.5
        self.topic_word_prior_ = 0.05
        self.history_ = {
            "step": [1, 2, 3, 4],
            "seconds": [0.5, 1.0, 1.5, 2.25],
            "n_components": [2, 2, 4, 3],
            "elbo": [np.nan, -2.5, np.nan, -2.0],
        }
        self.elbo_, self.converged_, self.n_iter_ = -2.0, True, 2
        return self

    @property
    def topic_word_distr_(self):
        return self.components_ / self.components_.sum(axis=1, keepdims=True)

    def transform(self, X):
        X = np.asarray(X, dtype=float)[:, :3] + 1e-9
        return X / X.sum(axis=1, keepdims=True)


@pytest.fixture
def model():
    return FakeHDP().fit()


@pytest.fixture
def unfitted():
    return FakeHDP()


@pytest.fixture
def words():
    return ["sun", "rain", "snow", "wind", "hail"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
