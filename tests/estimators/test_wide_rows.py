"""Trees store columns that rows have shown, and are those of all columns."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from checks.long import daily
from skbnp import DependentTrees, GibbsDependentTrees
from skbnp.components.word_topics import SeenWords
from skbnp.dask import DependentTrees as DaskTrees
from skbnp.datasets import make_dependent_trees

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:vmf_concentration:UserWarning",
)

CORPUS = make_dependent_trees(40, n_epochs=3, random_state=1)
N_FEATURES, N_SEEN = 1500, CORPUS.data.shape[1]
SHOWN = np.sort(np.random.default_rng(0).choice(N_FEATURES, N_SEEN, replace=False))
HIDDEN = np.setdiff1d(np.arange(N_FEATURES), SHOWN)


def wide(rows, columns=SHOWN):
    result = np.zeros((len(rows), N_FEATURES))
    result[:, columns] = rows
    return sp.csr_array(result)


X, EPOCHS = wide(CORPUS.data), CORPUS.epochs
SETTINGS = {"max_iter": 4, "random_state": 0}
FITS = {
    "variational": DependentTrees(**SETTINGS),
    "parts": DependentTrees(batch_size=20, **SETTINGS),
    "sampler": GibbsDependentTrees(**SETTINGS),
    "dask": DaskTrees(**SETTINGS),
}
VARIATIONAL = [name for name in FITS if name != "sampler"]


def fitted(name, rows=X, epochs=EPOCHS, method="fit", fit=None):
    fit = clone(FITS[name]) if fit is None else fit
    if name == "dask":
        rows = da.from_array(rows.toarray(), chunks=(35, rows.shape[1]))
        rows = rows.map_blocks(sp.csr_array, meta=sp.csr_array((0, N_FEATURES)))
    return getattr(fit, method)(rows, epochs=epochs)


def new_rows():
    """Rows with columns that no row had before, one with these alone, and a zero."""
    rows = X[::7].toarray()
    rows[:, HIDDEN[::40]] = 0.1
    rows[0, SHOWN] = rows[1] = 0.0
    return sp.csr_array(rows)


def evaluations(fit, epoch):
    rows = new_rows()
    return {
        "components": fit.components_,
        "epoch": fit.epochs_[epoch].components.toarray(),
        "transform": fit.transform(rows, epochs=epoch),
        "apply": fit.apply(rows, epochs=epoch),
        "score": fit.score_samples(rows, epochs=epoch),
    }


def assert_same(one, other, epochs):
    """Scores of rows, some thousands, are in single precision."""
    assert one.lineage_ == other.lineage_
    assert_array_equal(one.tree_.parent, other.tree_.parent)
    for name in ("vmf_concentration_", "prior_concentration_", "past_weight_"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)
    for epoch in epochs:
        result, expected = evaluations(one, epoch), evaluations(other, epoch)
        for name, value in expected.items():
            atol = 1e-3 if name == "transform" else 1e-6
            assert_allclose(result[name], value, rtol=1e-6, atol=atol, err_msg=name)
    terms = other.elbo_terms(new_rows())
    assert one.elbo_terms(new_rows()) == pytest.approx(terms, rel=1e-6, abs=1e-3)


def store_all(monkeypatch):
    """Let all columns count as seen, in their order."""
    monkeypatch.setattr(
        DependentTrees,
        "_seen_with",
        lambda self, columns, *, reset: SeenWords.all(self.n_features_in_),
    )


@pytest.mark.parametrize("name", daily(1, VARIATIONAL))
def test_trees_of_all_columns_are_the_same(name, monkeypatch):
    seen = fitted(name)
    assert seen._posterior.state.means.shape[1] == N_SEEN
    assert seen.n_components_ > 5
    store_all(monkeypatch)
    whole = fitted(name)
    assert whole._posterior.state.means.shape[1] == N_FEATURES
    assert_same(seen, whole, [0, 2])
    assert not np.delete(seen.components_, SHOWN, axis=1).any()
