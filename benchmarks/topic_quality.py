"""What the measures of the guide's page on quality are on ordinary texts.

SKBNP_DATA=... python benchmarks/topic_quality.py [CORPUS ...] [--seeds N ...]
    [--fits N]
"""

import argparse
import warnings

import common  # before NumPy: it pins the threads
import corpora
import numpy as np
import scipy.sparse as sp

from skbnp import HDP
from skbnp.inspection import stability
from skbnp.metrics import topic_coherence, topic_diversity

NAMES = (
    *("ap", "kos", "reuters395", "bbc_tech", "docstrings", "sotu", "nips_abstracts"),
    *("arxiv2000", "jacm", "citeulike_titles"),
)
N_TOPICS, MOST_DOCUMENTS = 20, 2500
#: A term is in three documents at the least, and in 30 % of them at the most.
LEAST_DOCUMENTS, LARGEST_SHARE = 3, 0.3
COLUMNS = (
    *("corpus", "documents", "words each", "coherence", "least", "median", "most"),
    *("diversity", "agreement", "in all fits", "gain", "gain, topics alone"),
    *("seeds", "apart"),
)


def documents(name):
    """Some documents of a corpus, with the words that a vectorizer would keep."""
    counts = corpora.load_counts(name)
    rows = np.random.default_rng(0).permutation(counts.shape[0])[:MOST_DOCUMENTS]
    counts = sp.csr_array(counts)[np.sort(rows)]
    shown = (counts > 0).sum(axis=0)
    used = (shown >= LEAST_DOCUMENTS) & (shown < LARGEST_SHARE * counts.shape[0])
    return common.standard_split(counts[:, used])


def measure(name, seed, n_fits):
    """All measures of a corpus, of fits with one seed; of the first, stability."""
    train, test = documents(name)
    topics = HDP(N_TOPICS, split_merge=False, random_state=seed)
    row = {"corpus": name, "seed": seed}
    if seed == 0:
        again = stability(topics, train, n_fits=n_fits)
        recurrence = again.consensus.to_frame()["recurrence"]
        row["agreement"] = float(again.score)
        row["in all fits"] = int((recurrence > 1 - 1e-9).sum())
    topics.fit(train)
    one = HDP(1, split_merge=False, random_state=seed).fit(train)
    everything = sp.vstack([train, test])
    coherence = topic_coherence(topics, everything)
    row |= {"documents": everything.shape[0]}
    row["words each"] = float(everything.sum() / everything.shape[0])
    reads = {
        "coherence": np.nanmean,
        "least": np.nanmin,
        "median": np.nanmedian,
        "most": np.nanmax,
    }
    row |= {column: float(read(coherence)) for column, read in reads.items()}
    row["diversity"] = float(topic_diversity(topics))
    for column, alone in (("gain", {}), ("gain, topics alone", {"repeats": False})):
        row[column] = float(topics.score(test, **alone) - one.score(test, **alone))
    return row


def main():
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="*", default=NAMES)
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    rows = []
    for name in given.corpora:
        for seed in given.seeds:
            with warnings.catch_warnings(action="ignore"):
                rows.append(measure(name, seed, given.fits))
            print(rows[-1], flush=True)
    table = common.medians(rows, ("corpus",))
    for line, (_, same) in zip(table, common.groups(rows, ("corpus",)), strict=True):
        gains = [row["gain"] for row in same]
        line |= {"seeds": len(same), "apart": float(np.ptp(gains))}
    common.save("topic_quality", [*table, *rows], COLUMNS, n_shown=len(table))


if __name__ == "__main__":
    main()
