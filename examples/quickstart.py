"""Find the topics of a documentation corpus.

The corpus is on every machine that runs this: the docstrings of NumPy, SciPy and
scikit-learn. A hierarchical Dirichlet process (HDP) finds how many topics are worth
reading and how much weight each deserves, and is compared with scikit-learn's latent
Dirichlet allocation (LDA) of as many topics, five passes over all documents, on those
that neither has seen. Run it with

    python examples/quickstart.py [figure.png]
"""

import sys
import time
from importlib.util import find_spec

import matplotlib
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicGroupsDisplay, summary
from skbnp.metrics import held_out_log_likelihood, split_tokens

matplotlib.use("Agg")


def show(text):
    """Print at once, also where the output is a file or a pipe."""
    print(text, flush=True)


def main(figure_path="quickstart.png"):
    show("Reading the docstrings of NumPy, SciPy and scikit-learn ...")
    docs = load_docstrings(remove=("code", "references"))
    vectorizer = CountVectorizer(
        stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
    )
    X = vectorizer.fit_transform(docs.data)
    X_train, X_test = train_test_split(X, test_size=0.1, random_state=0)
    show(
        f"{X_train.shape[0]} documents to learn from, {X_test.shape[0]} to test on, "
        f"{X.shape[1]} terms, {X.sum():.0f} tokens\n"
        "Fitting an HDP ..."
    )

    started = time.perf_counter()
    hdp = HDP(random_state=0)
    if find_spec("sklearn.callback"):  # scikit-learn 1.9 or later
        from sklearn.callback import ProgressBar

        hdp.set_callbacks(ProgressBar())
    hdp.fit(X_train)
    hdp_seconds = time.perf_counter() - started

    names = vectorizer.get_feature_names_out()
    show(f"\n{summary(hdp, names, n_components=15)}\n")

    show("Fitting scikit-learn's LDA of as many topics, five passes ...")
    started = time.perf_counter()
    lda = LatentDirichletAllocation(
        hdp.n_components_,
        topic_word_prior=0.05,
        learning_method="batch",
        max_iter=5,
        max_doc_update_iter=20,
        random_state=0,
    ).fit(X_train)
    lda_seconds = time.perf_counter() - started
    alone, repeated = (
        held_out_log_likelihood(
            lda.components_,
            lda.doc_topic_prior_,
            *split_tokens(X_test),
            repeats=repeats,
        )
        for repeats in (False, True)
    )
    show(
        "\nLog likelihood of held-out tokens of the test documents, nats per token,\n"
        "by topics alone, and by topics and the words that a document repeats:\n"
        f"  skbnp HDP          {hdp.score(X_test, repeats=False):.3f}   "
        f"{hdp.score(X_test):.3f}   ({hdp_seconds:.0f} s)\n"
        f"  scikit-learn LDA   {alone:.3f}   {repeated:.3f}   ({lda_seconds:.0f} s)"
    )

    display = TopicGroupsDisplay.from_estimator(
        hdp, names, X=X_train, n_groups=7, n_lines=45
    )
    display.figure_.savefig(figure_path, dpi=150)
    show(f"\nThe topics in groups, as a picture: {figure_path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
