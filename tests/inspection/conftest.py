"""Small fakes of fitted models, and figures that close themselves."""

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp
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


class FakeSampler(FakeHDP):
    """Two chains of ten sweeps, the first half burn-in, samples at sweeps 8 and 10.

    The sample with the highest log joint is that of chain 1 at sweep 8.
    """

    def __init__(self, n_components=3, burn_in=None, max_iter=10):
        super().__init__(n_components)
        self.burn_in, self.max_iter = burn_in, max_iter

    def fit(self, X=None, y=None):
        super().fit()
        del self.elbo_, self.converged_
        steps = np.arange(1, 11).repeat(2)
        self.history_ = {
            "step": steps.tolist(),
            "chain": [0, 1] * 10,
            "seconds": (steps / 4).tolist(),
            "n_components": (steps % 3 + [3, 4] * 10).tolist(),
            "log_joint": (np.sin(steps) + [-9.0, -8.0] * 10).tolist(),
            "n_splits": [0, 0] * 9 + [2, 1],
            "n_merges": [0, 0] * 9 + [0, 1],
        }
        self.log_joint_, self.n_iter_ = -8.5, 10
        counts = np.array([[1, 0, 0, 0, 0], [0, 5, 1, 0, 0], [0, 0, 0, 0, 3]])
        self.samples_ = [
            SimpleNamespace(
                topic_word_counts=sp.csr_array(counts * (step if chain else 1)),
                component_ids=np.array([0, 2, 5]),
                log_joint=-8.0 if (step, chain) == (8, 1) else -9.0,
                chain=chain,
                step=step,
            )
            for step in (8, 10)
            for chain in (0, 1)
        ]
        self.n_components_posterior_ = {3: 0.5, 4: 0.25, 5: 0.2, 6: 0.05}
        return self


@pytest.fixture
def sampler():
    return FakeSampler().fit()


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
