"""Training and test documents of the corpora of text."""

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

from skbnp.datasets import load_docstrings

#: Shares of a corpus in use and of its test documents, where they are not 1 and 0.1.
SHARES = {
    "nips": (1.0, 0.2),
    "arxiv_large_30": (0.3, 0.1),
    **dict.fromkeys(("jacm", "bbc_tech", "reuters395"), (1.0, 0.25)),
}
#: Test documents at the most, unless more tokens are asked for.
MOST_TEST = 2000


def load(name, least_tokens=0):
    """Training documents, and test documents of so many tokens, if there are."""
    share, test_share = SHARES.get(name, (1.0, 0.1))
    if name == "docstrings":
        counts = docstring_counts()
    else:
        counts = common.load_corpus(name.removesuffix("_30"))
    if share < 1.0:
        rows = np.random.default_rng(1).permutation(counts.shape[0])
        counts = counts[np.sort(rows[: int(share * counts.shape[0])])]
    train, test = common.standard_split(counts, test_share)
    n_enough = np.searchsorted(np.cumsum(test.sum(axis=1)), least_tokens) + 1
    return train, test[: max(MOST_TEST, n_enough)]


def docstring_counts():
    """The corpus of the quick start, as it counts the terms."""
    docs = load_docstrings(remove=("code", "references"))
    vectorizer = CountVectorizer(
        stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
    )
    return sp.csr_array(vectorizer.fit_transform(docs.data).astype(np.float64))
