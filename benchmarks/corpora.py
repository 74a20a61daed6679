"""Training and test documents of corpora of text, and of samples of these."""

from collections import namedtuple

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
#: The same of a sample, which a share of it tests, and of one of short texts.
MOST_SAMPLE_TEST, SAMPLE_TEST_SHARE, MOST_OTHERS = 1000, 0.2, 3000

#: `truth`: topics and a document prior, or shares of topics in each document.
Documents = namedtuple("Documents", "train test truth", defaults=(None, None))


def load(name, least_tokens=0, test_share=None):
    """Training documents, and test documents of so many tokens, if there are."""
    share, known_share = SHARES.get(name, (1.0, 0.1))
    counts = load_counts(name.removesuffix("_30"))
    if share < 1.0:
        rows = np.random.default_rng(1).permutation(counts.shape[0])
        counts = counts[np.sort(rows[: int(share * counts.shape[0])])]
    train, test = common.standard_split(counts, test_share or known_share)
    n_enough = np.searchsorted(np.cumsum(test.sum(axis=1)), least_tokens) + 1
    return train, test[: max(MOST_TEST, n_enough)]


def load_counts(name):
    """Counts of all documents of a corpus."""
    if name == "docstrings":
        docs = load_docstrings(remove=("code", "references")).data
        return counted(docs, min_df=5, token_pattern=r"\b[a-z]{3,}\b")
    if name == "first lines of docstrings":
        return counted([text.split("\n\n")[0] for text in load_docstrings().data])
    return common.load_corpus(name)


def counted(docs, **options):
    """Counts of terms, of docstrings with `options` of the quick start."""
    vectorizer = CountVectorizer(stop_words="english", max_df=0.3, **options)
    return sp.csr_array(vectorizer.fit_transform(docs).astype(np.float64))


def sample(corpus, split):
    """Documents for the words of those that train; "kos:400" are 400 of `kos`."""
    name, _, n_docs = corpus.partition(":")
    counts = load_counts(name)
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 5]
    rows = np.random.default_rng(split).permutation(counts.shape[0])
    rows = rows[: int(n_docs or len(rows))]
    n_test = min(int(SAMPLE_TEST_SHARE * len(rows)), MOST_SAMPLE_TEST)
    return _for_words(counts[rows[n_test:]], counts[rows[:n_test]])


def short_sample(corpus, documents, min_df, sample):
    """Some documents, and others, for the terms in `min_df` of the former."""
    counts = load_counts(corpus)
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() > 0]
    rows = np.random.default_rng(sample).permutation(counts.shape[0])
    others = rows[documents : documents + MOST_OTHERS]
    return _for_words(counts[rows[:documents]], counts[others], min_df)


def thin_sample(corpus, documents, tokens, sample):
    """Some documents of at most so many tokens drawn from each, and as short others."""
    counts = load_counts(corpus)
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 8]
    rng = np.random.default_rng(100 + sample)
    rows = rng.permutation(counts.shape[0])
    train = thinned(counts[rows[:documents]], tokens, rng)
    docs = _for_words(
        train, thinned(counts[rows[documents:][:MOST_SAMPLE_TEST]], tokens, rng)
    )
    has_parts = np.asarray(docs.test.sum(axis=1)).ravel() >= 5
    return docs._replace(test=docs.test[has_parts])


def thinned(counts, tokens, rng):
    """At most so many tokens of each document, drawn without replacement."""
    rows = [
        row if row.sum() <= tokens else rng.multivariate_hypergeometric(row, tokens)
        for row in (
            counts[[j]].toarray()[0].astype(int) for j in range(len(counts.indptr) - 1)
        )
    ]
    return sp.csr_array(np.array(rows, dtype=float))


def _for_words(train, test, min_df=1):
    used = np.asarray((train > 0).sum(axis=0)).ravel() >= min_df
    return Documents(train[:, used], test[:, used])


def by_date(name, n_test, seed):
    """Documents in order, and at most `n_test` from anywhere among them."""
    counts = load_counts(name)
    rows = np.random.default_rng(seed).permutation(counts.shape[0])
    n_test = min(n_test, len(rows) // 10)
    return Documents(counts[np.sort(rows[n_test:])], counts[np.sort(rows[:n_test])])
