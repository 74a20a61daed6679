"""The document step beside scikit-learn's: `transform` with trained topics.

    SKBNP_DATA=... python benchmarks/kernels.py

Both get the same topics, the same float64 counts and the same prior, so that they solve
the same problem; the bound says how well. scikit-learn is run to its own default
tolerance; ours ends where the change per token is as small.
"""

import time

import numpy as np
import scipy.sparse as sp
from common import load_corpus, save, standard_split
from scipy.special import digamma, gammaln
from sklearn.decomposition import LatentDirichletAllocation

from skbnp import HDP
from skbnp.inference.batch import Batch
from skbnp.inference.documents import DocumentStep, expected_counts
from skbnp.inference.executor import Executor
from skbnp.kernels._hdp_local import SMALLEST_WORD_WEIGHT

N_RUNS = 5
CASES = [("ap", 50), ("ap", 150), ("ap", 500), ("nips", 150), ("nips", 500)]


def trained(counts, n_topics):
    """Topics of an LDA with a symmetric prior, by a short fit without moves."""
    hdp = HDP(n_topics, split_merge=False, max_iter=8, tol=0, random_state=0)
    return hdp.fit(counts).components_


def ours(components, prior, X, tol):
    """Expected counts by the package's document step."""
    batch = Batch.from_counts(X, len(components))
    log_topics = digamma(components) - digamma(components.sum(axis=1))[:, None]
    tile = log_topics.T[batch.words]
    tile = np.exp(tile - tile.max(axis=1, keepdims=True))
    step = DocumentStep(
        weights=np.maximum(tile, SMALLEST_WORD_WEIGHT),
        prior=np.full(len(components), prior),
        share=np.full(len(components), 1.0 / len(components)),
        remembered=None,
        max_iter=100,
        tol=tol,
    )
    with Executor(1) as executor:
        return expected_counts(step, batch, executor)


def bound(components, prior, X, doc_topic):
    """Bound of the documents at their best given expected counts, nats per token."""
    log_topics = digamma(components) - digamma(components.sum(axis=1))[:, None]
    theta, value = doc_topic + prior, 0.0
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        words, counts = X.indices[part], X.data[part]
        e = digamma(theta[row])
        joint = log_topics[:, words] + e[:, None]
        top = joint.max(axis=0)
        norms = top + np.log(np.exp(joint - top).sum(axis=0))
        new = (counts * np.exp(joint - norms)).sum(axis=1)
        value += counts @ norms - new @ e
        value += (gammaln(prior + new) - gammaln(prior)).sum()
    return float(value / X.sum())


def run(name, n_topics):
    train, _ = standard_split(load_corpus(name), 0.2 if name == "nips" else 0.1)
    components = trained(train, n_topics)
    X, prior = sp.csr_array(train[:1000]), 1.0 / n_topics
    lda = LatentDirichletAllocation(n_topics, doc_topic_prior=prior)
    lda.fit(X[:2])  # to be able to transform
    lda.components_ = components
    lda.exp_dirichlet_component_ = np.exp(
        digamma(components) - digamma(components.sum(axis=1))[:, None]
    )
    # The sum of scikit-learn's mean change is over topics, per document.
    tol = lda.mean_change_tol * n_topics / X.sum(axis=1).mean()
    theirs_s, ours_s = [], []
    for _ in range(N_RUNS):
        begin = time.process_time()
        theirs = lda._unnormalized_transform(X) - prior
        theirs_s.append(time.process_time() - begin)
        begin = time.process_time()
        mine = ours(components, prior, X, tol)
        ours_s.append(time.process_time() - begin)
    ratios = np.array(theirs_s) / np.array(ours_s)
    return {
        "corpus": name,
        "tokens per document": float(X.sum() / X.shape[0]),
        "K": n_topics,
        "scikit-learn s": float(np.median(theirs_s)),
        "skbnp s": float(np.median(ours_s)),
        "ratio": float(np.median(ratios)),
        "scikit-learn bound": bound(components, prior, X, theirs),
        "skbnp bound": bound(components, prior, X, mine),
    }


READING = """
`transform` of 1000 documents, one thread, medians of five runs side by side; the bound
of the documents is in nats per token, higher is better. Both stop when a document's
expected counts change, on average over its topics, by less than 0.001.
"""


if __name__ == "__main__":
    rows = []
    for case in CASES:
        rows.append(run(*case))
        print(rows[-1], flush=True)
    save("kernels", rows, list(rows[0]), READING)
