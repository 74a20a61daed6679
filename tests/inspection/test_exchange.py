"""Fits in the containers of AnnData and ArviZ."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from checks.corpora import topic_counts
from checks.estimators import FIRST, each_class, fresh, rows_of
from skbnp import HDP, GibbsDependentTrees, GibbsHDP, GibbsNestedCRP
from skbnp.inspection import set_topic_names, to_anndata, to_arviz

X = topic_counts(60, 24)


def without(monkeypatch, *names):
    """Let imports of packages fail, as where they are not installed."""
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


# -- AnnData ---------------------------------------------------------------------------


def annotated(rows, **layers):
    return SimpleNamespace(X=rows, obsm={}, varm={}, uns={}, layers=layers)


@each_class
def test_topics_and_shares_are_written_beside_the_rows(name):
    rows = rows_of(FIRST[name], X)
    adata = annotated(rows)
    model = fresh(FIRST[name]).fit(adata.X)
    assert to_anndata(model, adata) is adata
    assert_array_equal(adata.obsm["X_topics"], model.transform(rows))
    k = model.n_components_
    assert adata.varm["topics"].shape == (24, k)
    facts = adata.uns["topics"]
    assert len(facts["numbers"]) == len(facts["names"]) == len(facts["weights"]) == k
    assert facts["model"] == type(model).__name__


def test_names_layers_and_sparse_shares_are_kept():
    hdp = HDP(n_components=4, sparse_output=True, random_state=0).fit(X)
    set_topic_names(hdp, [f"name {k}" for k in range(hdp.n_components_)])
    adata = annotated(np.log1p(X.toarray()), counts=X)
    to_anndata(hdp, adata, layer="counts", key="hdp")
    assert sp.issparse(adata.obsm["X_hdp"])
    assert_array_equal(adata.obsm["X_hdp"].toarray(), hdp.transform(X).toarray())
    assert adata.uns["hdp"]["names"][0] == "name 0"
    assert_allclose(adata.varm["hdp"].sum(axis=0), 1.0)
    with pytest.raises(ValueError, match="layer must be one of"):
        to_anndata(hdp, adata, layer="other")


def test_rows_alone_need_anndata(monkeypatch):
    hdp = HDP(n_components=4, random_state=0).fit(X)
    with pytest.raises(TypeError, match="layer must be None"):
        to_anndata(hdp, X, layer="counts")
    module = ModuleType("anndata")
    module.AnnData = annotated
    monkeypatch.setitem(sys.modules, "anndata", module)
    assert to_anndata(hdp, X).obsm["X_topics"].shape == (60, hdp.n_components_)
    without(monkeypatch, "anndata")
    with pytest.raises(ImportError, match="pip install anndata"):
        to_anndata(hdp, X)


# -- ArviZ -----------------------------------------------------------------------------

SAMPLERS = [
    GibbsHDP(max_iter=40, n_chains=2, random_state=0),
    GibbsNestedCRP(max_iter=20, n_chains=2, random_state=0),
    GibbsDependentTrees(max_iter=20, n_chains=2, random_state=0),
]


@pytest.fixture
def arviz(monkeypatch):
    """Let a module that keeps what it gets stand for a version of ArviZ."""

    def install(name, from_dict):
        without(monkeypatch, *{"arviz", "arviz_base"} - {name})
        module = ModuleType(name)
        module.from_dict = from_dict
        monkeypatch.setitem(sys.modules, name, module)

    return install


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_chains_have_the_draws_of_their_history(sampler, arviz):
    model = fresh(sampler).fit(X)
    arviz("arviz_base", lambda data: data)
    data = to_arviz(model)
    history, last = model.history_, model.max_iter // 2
    for chain in (0, 1):
        own = np.array(history["chain"]) == chain
        for group, name, old in (
            ("posterior", "n_components", "n_components"),
            ("sample_stats", "lp", "log_joint"),
        ):
            trace = np.array(history[old])[own][-last:]
            assert_array_equal(data[group][name][chain], trace)
    for values in [*data["posterior"].values(), *data["sample_stats"].values()]:
        assert values.shape[:2] == (2, last)
    arviz("arviz", lambda posterior, sample_stats: (posterior, sample_stats))
    old = to_arviz(model)
    assert old[0].keys() == data["posterior"].keys()
    assert "log_joint" not in old[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_chains_that_are_short_or_missing_are_refused(monkeypatch):
    with pytest.raises(TypeError, match="samples_"):
        to_arviz(HDP(n_components=4, random_state=0).fit(X))
    with pytest.raises(ValueError, match="increase max_iter"):
        to_arviz(GibbsHDP(max_iter=4, random_state=0).fit(X))
    without(monkeypatch, "arviz", "arviz_base")
    with pytest.raises(ImportError, match="pip install arviz-base"):
        to_arviz(GibbsHDP(max_iter=20, random_state=0).fit(X))
