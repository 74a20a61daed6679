"""What merged topics of one fit predict, beside fits that are made for the number.

    SKBNP_DATA=... python benchmarks/fewer_topics.py [--AXIS VALUE ...]

`sweep.py` has the options.
"""

import copy
import warnings
from functools import lru_cache

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
from sweep import Case, Fit, fitted, main

from skbnp import HDP, reduce_topics
from skbnp.components import topic_groups
from skbnp.metrics import topic_coherence, topic_diversity
from skbnp.utils.fitted import token_shares


@lru_cache(maxsize=1)
def default_fit(corpus, seed):
    """Fit of a corpus that finds the number of topics."""
    with warnings.catch_warnings(action="ignore"):
        return fitted(HDP(random_state=seed, min_gain=0), documents(corpus))


def documents(corpus):
    """Training and test documents."""
    return corpora.Documents(*corpora.load(corpus))


def with_settings(estimator, n, **settings):
    """Reduce topics by other constants."""
    usual = {name: getattr(topic_groups, name) for name in settings}
    vars(topic_groups).update(settings)
    try:
        return reduce_topics(estimator, n)
    finally:
        vars(topic_groups).update(usual)


def merged_at_random(estimator, n, seed):
    """Merge the topics of a fit into groups at random; each has one at the least."""
    rng, k = np.random.default_rng(seed), estimator.n_components_
    group = rng.permutation(np.append(np.arange(n), rng.integers(0, n, k - n)))
    names, result = estimator.component_ids_, copy.copy(estimator)
    for members in (names[group == g] for g in range(n)):
        if len(members) > 1:
            result.merge_components(members)
    return result


#: Ways to n topics, given documents, the fit that finds a number, n, and a seed.
WAYS = {
    "merged": lambda docs, fit, n, _: reduce_topics(fit, n),
    "merged, prior .01": lambda docs, fit, n, _: with_settings(fit, n, PRIOR=0.01),
    "merged, prior 1": lambda docs, fit, n, _: with_settings(fit, n, PRIOR=1.0),
    "merged, one path": lambda docs, fit, n, _: with_settings(fit, n, N_GROUPS=1),
    "merged, 30 groups": lambda docs, fit, n, _: with_settings(fit, n, N_GROUPS=30),
    "merged, 5 candidates": lambda docs, fit, n, _: with_settings(fit, n, N_NEAREST=5),
    "merged, 30 candidates": lambda docs, fit, n, _: with_settings(
        fit, n, N_NEAREST=30
    ),
    "merged at random": lambda docs, fit, n, seed: merged_at_random(fit, n, seed),
    "fitted": lambda docs, fit, n, seed: fixed(n, seed).fit(docs.train),
    "fitted, from merged": lambda docs, fit, n, seed: fixed(
        n, seed, init=reduce_topics(fit, n)
    ).fit(docs.train),
}


def fixed(n, seed, **more):
    """Return a model of n topics."""
    return HDP(n, split_merge=False, random_state=seed, **more)


def learn(docs, corpus, seed, n, way):
    """Yield a model of n topics; of None, the fit that finds the number."""
    whole = default_fit(corpus, seed)
    if n is None:
        if way == "fitted":
            yield whole
    elif n < whole.n_topics():
        with warnings.catch_warnings(action="ignore"):
            make = WAYS[way]
            yield Fit(
                docs, *common.cpu_seconds(lambda: make(docs, whole.model, n, seed))
            )


def over_seeds(rows):
    """Medians over seeds, and by how much their scores are apart."""
    by = "corpus", "n", "way"
    apart = [
        float(np.ptp([row["score"] for row in same]))
        for _, same in common.groups(rows, by)
    ]
    table = common.medians(rows, by)
    return [line | {"apart": own} for line, own in zip(table, apart, strict=True)]


CASE = Case(
    axes={
        "corpus": ("ap", "docstrings", "kos", "nips_abstracts"),
        "seed": (0, 1, 2),
        "n": (None, 10, 20, 40),
        "way": tuple(WAYS),
    },
    documents=documents,
    learn=learn,
    records={
        "score": lambda fit: fit.model.score(fit.docs.test),
        "coherence": lambda fit: float(
            np.nanmean(topic_coherence(fit.model, fit.docs.train))
        ),
        "diversity": lambda fit: topic_diversity(fit.model),
        "heaviest": lambda fit: float(token_shares(fit.model).max()),
    },
    summary=over_seeds,
    over="seed",
    keeps=("corpus", "seed", "n", "way"),
)


if __name__ == "__main__":
    main(__doc__, {"fewer_topics": CASE})
