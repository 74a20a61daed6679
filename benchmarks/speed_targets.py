"""The targets of speed beside scikit-learn, and what is reached.

    SKBNP_DATA=... python benchmarks/speed_targets.py [part ...] [--runs N]

Parts: "import", "100 short documents", and corpora, of each a default fit of `HDP`:
`transform` and `score` beside LDA's, one row, and the share of compiled loops. Rows of
other parts stay on the page, with their commits.
"""

import argparse

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from fit_shares import beside_lda, few_words, import_seconds, shares
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer

from skbnp import HDP
from skbnp.datasets import load_docstrings

PARTS = ("import", "100 short documents")
PARTS += ("ap", "kos", "sotu", "nips", "arxiv_large_30")
PARTS += ("jacm", "arxiv2000", "nips_abstracts")
N_TEXTS = 100
COLUMNS = ["what", "corpus", "K", "target", "measured", "commit"]


def of_imports(part, n_runs):
    """Row of an import."""
    measured = import_seconds("from skbnp import HDP", n_runs)["CPU s"]
    return [_row("from skbnp import HDP, s", part, "", 0.15, measured)]


def of_few(part, n_runs):
    """Row of fits of few short documents."""
    X = few_words()
    seconds, theirs = [], []
    for _ in range(n_runs):
        hdp, one = common.cpu_seconds(lambda: HDP(random_state=0, min_gain=0).fit(X))
        lda = LatentDirichletAllocation(hdp.n_components_, random_state=0)
        _, other = common.cpu_seconds(lambda lda=lda: lda.fit(sp.csr_matrix(X)))
        seconds.append(one)
        theirs.append(other)
    ratio = float(np.median(np.array(theirs) / seconds))
    return [_row("fit", part, hdp.n_components_, 3.0, ratio)]


def of_corpus(name, n_runs):
    """Rows of a default fit and of what it answers."""
    hdp, train, test, row = shares(name)
    K = hdp.n_components_
    beside = beside_lda(hdp, train, test, n_runs)
    rows = [
        _row("fit, kernels", name, K, 0.7, row["kernels"]),
        _row("fit, by two threads", name, K, 1.6, row["predicted by 2 threads"]),
        _row("transform", name, K, 12.0, beside["transform"]),
        _row("score", name, K, 12.0, beside["score"]),
        _row("one row, ms", name, K, 1.0, beside["one row ms"]),
    ]
    if name == "docstrings":
        rows.append(_row("one text, ms", name, K, 1.0, _text_ms(hdp, n_runs)))
    return rows


def _text_ms(hdp, n_runs):
    """Milliseconds of counting the words of a text and `transform`."""
    texts = load_docstrings(remove=("code", "references")).data
    vectorizer = CountVectorizer(
        stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
    ).fit(texts)

    def one_by_one():
        for text in texts[:N_TEXTS]:
            hdp.transform(vectorizer.transform([text]))

    one_by_one()
    runs = [common.cpu_seconds(one_by_one)[1] for _ in range(n_runs)]
    return 1e3 * float(np.median(runs)) / N_TEXTS


def _row(what, corpus, K, target, measured):
    row = {"what": what, "corpus": corpus, "K": K}
    row |= {"target": float(target), "measured": float(measured)}
    return row | {"commit": common.environment()["commit"]}


def save(rows):
    """Put rows on the page, in the place of those of the same part."""
    parts = {row["corpus"] for row in rows}
    others = [
        row for row in common.stored("speed_targets")[1] if row["corpus"] not in parts
    ]
    common.save("speed_targets", others + rows, COLUMNS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for part in options.parts:
        measure = {"import": of_imports, "100 short documents": of_few}
        rows = measure.get(part, of_corpus)(part, options.runs)
        save(rows)
        print(*rows, sep="\n", flush=True)
