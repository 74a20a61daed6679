"""The document step beside scikit-learn's: `transform`, and a first epoch.

    SKBNP_DATA=... python benchmarks/kernels.py [--runs N]

Both get the same topics, the same float64 counts and the same prior, so that they solve
the same problem; the bound says how well. scikit-learn runs to its own default
tolerance; ours ends where the change per document is half of it, so that its bound is
not lower.
"""

import argparse
import time

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from scipy.special import digamma, gammaln
from sklearn.decomposition import LatentDirichletAllocation

from skbnp import HDP
from skbnp.components.word_topics import WordTopics
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import LocalStop, StepInput
from skbnp.models.hdp.local import DocumentStep, expected_counts
from skbnp.models.hdp.model import DirectHDP, HDPState
from skbnp.rows.batch import Batch

#: Corpus, number of topics, whether they are trained; least ratio to be reached.
CASES = [
    ("ap", 50, True, 10),
    ("ap", 150, True, 10),
    ("ap", 500, True, 10),
    ("nips", 150, True, 7),
    ("nips", 500, True, 7),
    ("nips", 150, False, 3),
    ("nips", 500, False, 3),
]
TEST_SHARE = {"ap": 0.1, "nips": 0.2}
N_DOCS, ETA, SHARE_OF_TOL = 1000, 0.05, 0.5


def topics_of(counts, n_topics, is_trained):
    """Dirichlet parameters of topics: of a short fit without moves, or random."""
    if not is_trained:
        shape = (n_topics, counts.shape[1])
        return np.random.default_rng(0).gamma(100.0, 0.01, size=shape) + ETA
    hdp = HDP(n_topics, split_merge=False, max_iter=8, tol=0, random_state=0)
    return hdp.set_params(topic_word_prior=ETA).fit(counts).components_


def make_theirs(components, prior):
    lda = LatentDirichletAllocation(len(components), doc_topic_prior=prior)
    lda.fit(np.ones((1, components.shape[1])))  # to be able to transform
    lda.components_ = components
    log_topics = digamma(components) - digamma(components.sum(axis=1))[:, None]
    lda.exp_dirichlet_component_ = np.exp(log_topics)
    return lda


def make_ours(components, prior):
    """A posterior with equal topic weights: documents have a symmetric prior."""
    n_topics = len(components)
    weights = np.append(np.full(n_topics, (1.0 - 1e-9) / n_topics), 1e-9)
    state = HDPState(weights, n_topics * prior, 1.0, ETA)
    model = DirectHDP(learn_concentrations=False, learn_topic_prior=False)
    totals = model.start(state, WordTopics(components.T - ETA))
    return Posterior(model, state, totals, np.arange(n_topics), [])


def transform(posterior, X, tol):
    """What `HDP.transform` does, but for checks: expected counts and proportions."""
    batch = Batch.from_counts(X, posterior.state.n_components)
    with Executor(1) as executor:
        given = StepInput(posterior, batch, LocalStop(100, tol), executor)
        step = DocumentStep.prepare(given)
        counts = expected_counts(step, batch, executor).toarray()
    distr = counts + posterior.state.doc_prior
    distr /= distr.sum(axis=1, keepdims=True)
    return counts


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


def run(name, n_topics, is_trained, target, n_runs):
    train, _ = common.standard_split(common.load_corpus(name), TEST_SHARE[name])
    components = topics_of(train, n_topics, is_trained)
    X, prior = sp.csr_array(train[:N_DOCS]), 1.0 / n_topics
    lda, posterior = make_theirs(components, prior), make_ours(components, prior)
    # scikit-learn's mean change is over topics, per document.
    tol = SHARE_OF_TOL * lda.mean_change_tol * n_topics / X.sum(axis=1).mean()
    seconds = np.empty((n_runs, 2))
    for number in range(n_runs):
        begin = time.process_time()
        theirs = lda._unnormalized_transform(X) - prior
        middle = time.process_time()
        mine = transform(posterior, X, tol)
        seconds[number] = middle - begin, time.process_time() - middle
    ratios = seconds[:, 0] / seconds[:, 1]
    return {
        "corpus": name,
        "tokens per document": float(X.sum() / X.shape[0]),
        "topics": "trained" if is_trained else "random",
        "K": n_topics,
        "scikit-learn s": float(np.median(seconds[:, 0])),
        "skbnp s": float(np.median(seconds[:, 1])),
        "ratio": float(np.median(ratios)),
        "least": float(ratios.min()),
        "target": target,
        "scikit-learn bound": bound(components, prior, X, theirs),
        "skbnp bound": bound(components, prior, X, mine),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    rows = []
    for case in CASES:
        rows.append(run(*case, options.runs))
        print(rows[-1], flush=True)
    common.save("kernels", rows, list(rows[0]))
