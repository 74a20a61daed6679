"""The fast iteration of documents beside the plain one, on corpora."""

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop, StepInput
from skbnp.kernels._hdp_local import infer_documents
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.model import log_growth
from skbnp.rows.batch import Batch

N_DOCS, SUPPORT = 400, 1e-9


def bounds(hdp, counts, tol):
    """Bound of the documents per token by the plain iteration and by the fast one."""
    posterior, stop = hdp._posterior, LocalStop(200, tol)
    batch = Batch.from_counts(counts, hdp.n_components_)
    step = DocumentStep.prepare(StepInput(posterior, batch, stop, Executor(1)))
    result = []
    for plain in (True, False):
        limits, topics, tokens, e, norms = infer_documents(
            batch.indptr.astype(np.int32),
            batch.indices,
            batch.counts,
            step.weights,
            step.prior,
            step.share,
            np.empty((batch.n_docs, step.weights.shape[1]), dtype=np.float32),
            False,
            stop.max_iter,
            stop.tol,
            SUPPORT,
            plain,
        )
        assert len(limits) == batch.n_docs + 1
        value = batch.counts @ np.log(norms) - tokens @ np.log(e)
        value += log_growth(step.prior[topics], tokens).sum()
        result.append(value / counts.sum())
    return result


def check_is_not_lower(plain, fast):
    assert fast >= plain - 1e-6


def fitted(counts, n_components):
    hdp = HDP(n_components, split_merge=False, max_iter=4, tol=0, random_state=0)
    return hdp.fit(counts)


def check_corpus(counts, n_components):
    counts = sp.csr_array(counts.astype(float))
    hdp = fitted(counts, n_components)
    for tol in (1e-3, 1e-5):
        check_is_not_lower(*bounds(hdp, counts, tol))


@pytest.mark.parametrize("n_components", [20, 60])
def test_fast_iteration_is_not_worse_on_bars(n_components, seed):
    check_corpus(make_bars(N_DOCS, random_state=seed).data, n_components)


@pytest.mark.weekly
@pytest.mark.parametrize("n_components", [50, 200])
@pytest.mark.parametrize("name", ["ap", "nips", "citeulike_titles"])
def test_fast_iteration_is_not_worse_on(name, n_components, corpus):
    counts = corpus(name)
    assert (np.diff(counts.indptr) == 0).any() == (name == "citeulike_titles")
    rows = np.random.default_rng(0).permutation(counts.shape[0])[:N_DOCS]
    if name == "citeulike_titles":
        rows = np.append(rows, np.flatnonzero(np.diff(counts.indptr) == 0)[:5])
    check_corpus(counts[np.sort(rows)], n_components)
