"""Is the mean-field HDP's held-out score below scikit-learn's LDA, all else equal?

Same corpus, split, number of topics, topic prior, passes and step sizes, in the same
run, on one thread; both libraries' topics are scored by the same fold-in.

    SKBNP_DATA=... python benchmarks/hdp_against_lda.py [corpus ...]
"""

import sys

from common import (
    cpu_seconds,
    load_corpus,
    save,
    standard_score,
    standard_split,
)
from sklearn.decomposition import LatentDirichletAllocation

from skbnp import HDP

#: corpus: topics, share of test documents, passes
CORPORA = {"ap": (100, 0.1, 20), "nips": (300, 0.2, 10)}
TOPIC_PRIOR, BATCH_SIZE, OFFSET, DECAY = 0.05, 256, 1.0, 0.6


def fit_hdp(train, n_topics, n_passes, method, warm_up):
    model = HDP(
        n_topics,
        variational_family="mean_field",
        learning_method=method,
        topic_word_prior=TOPIC_PRIOR,
        batch_size=BATCH_SIZE,
        learning_offset=OFFSET,
        learning_decay=DECAY,
        max_iter=n_passes,
        tol=0.0,
        warm_up=warm_up,
        random_state=0,
    )
    model, seconds = cpu_seconds(lambda: model.fit(train))
    leftover = 1.0 - model.topic_weights_.sum()
    prior = model.doc_concentration_ * model.topic_weights_
    return {
        "topics": model.topic_word_distr_,
        "prior": [*prior, model.doc_concentration_ * leftover],
        "seconds": seconds,
        "n_active": model.n_active_components_,
        "elbo": model.elbo_,
    }


def fit_lda(train, n_topics, n_passes, method):
    model = LatentDirichletAllocation(
        n_topics,
        learning_method=method,
        topic_word_prior=TOPIC_PRIOR,
        batch_size=BATCH_SIZE,
        learning_offset=OFFSET,
        learning_decay=DECAY,
        max_iter=n_passes,
        random_state=0,
    )
    model, seconds = cpu_seconds(lambda: model.fit(train))
    return {"topics": model.components_, "prior": 1.0 / n_topics, "seconds": seconds}


def compare(corpus):
    n_topics, test_share, n_passes = CORPORA[corpus]
    train, test = standard_split(load_corpus(corpus), test_share)
    setting = (train, n_topics, n_passes)
    for method in ("online", "batch"):
        for name, fit, *options in (
            ("HDP", fit_hdp, 5),
            ("HDP without warm-up", fit_hdp, 0),
            ("LDA", fit_lda),
        ):
            fitted = fit(*setting, method, *options)
            score = standard_score(fitted.pop("topics"), fitted.pop("prior"), test)
            row = {"corpus": corpus, "method": method, "model": name, "score": score}
            row |= {"n_topics": n_topics, "n_passes": n_passes, **fitted}
            print(row, flush=True)
            yield row


READING = """
Held-out score (nats per token, larger is better) by document completion: the same
80/20 split of the tokens of the same test documents, the same fold-in.

Number of topics, topic prior 0.05, passes and step sizes (offset 1, decay 0.6,
minibatches of 256) are the same for all; LDA's document prior is 1/K. Seconds are
processor time of the fit, one thread. The warm-up (5 passes with mean topics) is part
of HDP's defaults; without it the topics of a large vocabulary freeze, in HDP more than
in LDA, whose prior keeps all alike.
"""


if __name__ == "__main__":
    rows = [row for corpus in sys.argv[1:] or CORPORA for row in compare(corpus)]
    columns = ["corpus", "method", "model", "score", "seconds", "n_topics", "n_active"]
    save("hdp_against_lda", rows, [*columns, "n_passes"], READING)
