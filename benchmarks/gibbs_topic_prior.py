"""What the number of topics owes to the topic prior: `GibbsHDP`, and `HDP` beside it.

SKBNP_DATA=... python benchmarks/gibbs_topic_prior.py [--sweeps N]
"""

import argparse

import common  # before NumPy: it pins the threads
import numpy as np

from skbnp import HDP, GibbsHDP
from skbnp.rows.tokens import Tokens

READING = """
`ap`, standard split, one chain of {sweeps} sweeps (`GibbsHDP` with its defaults but for
`topic_word_prior` and `max_iter`), and `HDP` with its defaults but for the prior, which
it does not learn here.
"learned" draws the topic prior in every sweep; "prior" is its value in the end.

"topics" are those of the last state; "median" is that of the posterior, over the second
half of the sweeps. "large": with at least a thousandth of the tokens. "one document's":
more than half of the tokens of the topic are in one document, and the share of all
tokens that these topics have. Score: nats per held-out token of unseen documents,
averaged over samples; "log joint" in nats per training token, not to be compared
between priors that are given and one that is learned. One run.

Found: the smaller the prior, the more topics, of which ever more belong to one
document; topics of a thousandth of the tokens hardly get more. Predictions of a sampler
gain by small priors to the end. A prior that is learned goes down to 0.002. One of
these chains alone has settled, with R-hat below 1.1: that at 0.2.
"""
SEED = 0


def whose(doc, topic, n_topics):
    """Tokens of each topic, and the share of its first document in them."""
    pairs, counts = np.unique(topic * (doc.max() + 1) + doc, return_counts=True)
    most, size = np.zeros((2, n_topics))
    owner = pairs // (doc.max() + 1)
    np.maximum.at(most, owner, counts)
    np.add.at(size, owner, counts)
    return size, most / np.maximum(size, 1.0)


def sample(train, test, prior, sweeps):
    given = {"learn_priors": True} if prior is None else {"topic_word_prior": prior}
    hdp = GibbsHDP(max_iter=sweeps, random_state=SEED, **given)
    _, seconds = common.cpu_seconds(lambda: hdp.fit(train))
    tables = hdp._chains[0].tables
    doc = Tokens.from_counts(train).doc
    first = np.concatenate([[0], np.cumsum(tables.n_tables)[:-1]])
    topic = tables.dish[first[doc] + tables.table].astype(np.int64)
    size, share = whose(doc, topic, int(topic.max()) + 1)
    single = share > 0.5
    numbers, shares = zip(*sorted(hdp.n_components_posterior_.items()), strict=True)
    middle = numbers[int(np.searchsorted(np.cumsum(shares), 0.5))]
    return {
        "model": "GibbsHDP" if prior is not None else "GibbsHDP, learned",
        "prior": hdp.history_["topic_word_prior"][-1],
        "topics": len(size),
        "median": middle,
        "large": int((size >= 1e-3 * size.sum()).sum()),
        "one document's": int(single.sum()),
        "their tokens": float(size[single].sum() / size.sum()),
        "score": hdp.score(test, repeats=False),
        "log joint": hdp.log_joint_,
        "CPU s": seconds,
    }


def fit(train, test, prior):
    given = {"topic_word_prior": prior, "learn_priors": "concentrations"}
    hdp = HDP(**given, random_state=SEED)
    _, seconds = common.cpu_seconds(lambda: hdp.fit(train))
    size = hdp.components_.sum(axis=1) - prior * train.shape[1]
    return {
        "model": "HDP",
        "prior": prior,
        "topics": hdp.n_components_,
        "large": int((size >= 1e-3 * size.sum()).sum()),
        "score": hdp.score(test, repeats=False),
        "CPU s": seconds,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=1000)
    options = parser.parse_args()
    train, test = common.standard_split(common.load_corpus("ap"))
    rows = []
    for prior in (0.01, 0.05, 0.2, None):
        rows.append(sample(train, test, prior, options.sweeps))
        print(rows[-1], flush=True)
    for prior in (0.01, 0.05, 0.2):
        rows.append(fit(train, test, prior))
        print(rows[-1], flush=True)
    reading = READING.format(sweeps=options.sweeps)
    common.save("gibbs_topic_prior", rows, list(rows[0]), reading)


if __name__ == "__main__":
    main()
