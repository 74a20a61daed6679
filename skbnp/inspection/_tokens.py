"""Topics of the tokens of documents, by document and word."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from skbnp.inspection._over_time import _pandas
from skbnp.inspection._terms import check_shares, doc_counts, doc_prior, transformed
from skbnp.utils import fitted as read
from skbnp.utils.arrays import rows_of
from skbnp.utils.validation import check_counts, validate_params

if TYPE_CHECKING:
    from pandas import DataFrame

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

#: Updates at most, the part of a document's tokens that may be at another topic where
#: they end, and the least probability of a topic that is listed.
UPDATES, RESIDUE, LEAST = 200, 1e-6, 1e-9
#: Entries that are updated together.
ENTRIES = 1 << 18


@dataclass(frozen=True, eq=False)
class TokenTopics:
    """Topics of the words of documents, one entry for each document, word and topic.

    Entries are in the order of documents, then of words, then of topics.

    Parameters
    ----------
    documents, words, topics : ndarray of int of shape (n_entries,)
        Row and column of `X`, and row of `components_`.
    probabilities : ndarray of shape (n_entries,)
        Probability that a token of the word in the document is of the topic; those of a
        word in a document sum to one.
    tokens : ndarray of shape (n_entries,)
        Expected tokens, the count of the word times the probability.
    shares : ndarray of shape (n_entries,)
        What the word adds to the share that `transform` gives the topic in the
        document. Where documents repeat words (`burstiness`), first uses alone count.
    prior : ndarray of shape (n_docs, n_components)
        What the prior adds to these shares: all of it in documents without tokens.
    shape : tuple of int
        Documents, words, topics.
    numbers : ndarray of int of shape (n_components,)
        What topics are called, as `summary` shows them.
    names : ndarray of str of shape (n_features,)
        What words are called.
    """

    documents: Ints
    words: Ints
    topics: Ints
    probabilities: Array
    tokens: Array
    shares: Array
    prior: Array
    shape: tuple[int, int, int]
    numbers: Ints
    names: NDArray[np.object_]

    def doc_topic_distr(self) -> Array:
        """Sum shares over the words of documents, with the prior.

        Returns
        -------
        doc_topic_distr : ndarray of shape (n_docs, n_components)
            What `transform` returns, but for its rounding.
        """
        return self.prior + self._sums(self.shares)

    def counts(self, topic: int) -> sp.csr_array:
        """Return the expected tokens of one topic as a document-term matrix.

        Parameters
        ----------
        topic : int
            Number of the topic, as `summary` shows it.

        Returns
        -------
        counts : csr_array of shape (n_docs, n_features)
            Expected tokens; over all topics they sum to the counts in `X`.
        """
        own = self.topics == row_of(self.numbers, topic)
        places = self.documents[own], self.words[own]
        return sp.csr_array((self.tokens[own], places), shape=self.shape[:2])

    def to_frame(self) -> "DataFrame":
        """List the entries.

        Returns
        -------
        frame : pandas DataFrame
            "document", row of `X`; "word", its name; "topic", its number;
            "probability", "tokens" and "share".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return _pandas().DataFrame(
            {
                "document": self.documents,
                "word": self.names[self.words],
                "topic": self.numbers[self.topics],
                "probability": self.probabilities,
                "tokens": self.tokens,
                "share": self.shares,
            }
        )

    def _sums(self, values: Array) -> Array:
        """Sum values of entries by document and topic, (n_docs, n_components)."""
        n_docs, _, n_topics = self.shape
        at = self.documents * n_topics + self.topics
        sums: Array = np.bincount(at, values, n_docs * n_topics).astype(np.float64)
        return sums.reshape(n_docs, n_topics)


def row_of(numbers: Ints, topic: int) -> int:
    """Return the position of a topic among `numbers`; raise for other numbers."""
    row = np.flatnonzero(numbers == topic)
    if len(row) == 0:
        some = ", ".join(map(str, numbers[:5].tolist()))
        raise ValueError(f"topic must be the number of one, as {some}, got {topic!r}.")
    return int(row[0])


@validate_params({})
def token_topics(
    estimator: BaseEstimator, X: Any, feature_names: ArrayLike | None = None
) -> TokenTopics:
    """Share the words of documents out among topics.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with `components_` of words whose `transform` returns the share of each
        topic in each document.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        Documents; raw ones for a text Pipeline.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.

    Returns
    -------
    entries : TokenTopics
        Arrays `documents`, `words`, `topics`, `probabilities`, `tokens` and `shares`,
        one entry for each word of a document and topic that it may be of. With the
        `prior`, shares sum to what `transform` returns.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If components are directions, or `transform` returns no shares.
    ValueError
        If `X` has another number of columns, or `feature_names` does not name each.

    See Also
    --------
    TopicText : The words of a text, coloured by their topics.
    topic_shares : Shares by group or time.

    Notes
    -----
    Trees share words out among nodes themselves. In other models the probability of
    topic k for word w of document j is r_jwk ~ u_jk phi_kw, where phi are the topics,
    and u_jk such that the sums over the words are the expected tokens of
    the topics in the document: of all ways to share the words out that have the shares
    of `transform`, the nearest to the topics (iterative proportional fitting). The step
    of variational inference is of this form.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import token_topics
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> entries = token_topics(hdp, X[:2], ["rain", "snow", "sun"])
    >>> entries.to_frame().query("probability > 0.5")[["document", "word", "topic"]]
       document  word  topic
    0         0   sun      1
    1         1  rain      0
    2         1  snow      0
    >>> bool(abs(entries.doc_topic_distr() - hdp.transform(X[:2])).max() < 1e-6)
    True
    """
    read.fitted(estimator, "transform")
    model = read.fitted_model(estimator)
    if read.are_directions(model):
        raise TypeError(
            f"estimator must have topics of words, {type(model).__name__} has "
            "directions: `apply` gives the node of each row."
        )
    rows = read.model_rows(estimator, X)
    counts = check_counts(rows, whom="token_topics")
    shares = transformed(model, rows)
    check_shares(model, shares)
    n_topics = shares.shape[1]
    names = read.column_names(estimator, counts.shape[1], feature_names)
    if hasattr(model, "_node_tokens"):
        at, topics, tokens, parts = model._node_tokens(counts)
    else:
        at, topics, tokens, parts = _fitted_tokens(
            model, read.distributions(estimator), counts, shares
        )
    totals = np.bincount(at, tokens, counts.nnz)
    entries = TokenTopics(
        documents=rows_of(counts.indptr)[at],
        words=counts.indices[at].astype(np.intp),
        topics=topics,
        probabilities=tokens / totals[at],
        tokens=counts.data[at] * tokens / totals[at],
        shares=parts,
        prior=shares,
        shape=(*counts.shape, n_topics),
        numbers=read.topic_numbers(estimator, n_topics),
        names=names,
    )
    shares -= entries._sums(parts)  # what is left is the prior's
    return entries


def _fitted_tokens(model, topics, counts, shares):
    """Fit shares of words to topics, (n_topics, n_features), and shares of documents.

    Returns stored counts, topics, uses of words and shares of entries.
    """
    prior = doc_prior(model, len(topics)).sum()
    if hasattr(model, "_expected_uses"):
        wanted, weights = model._expected_uses(counts)
    else:
        wanted, weights = doc_counts(model, counts, shares)[0], counts.data
    wanted = sp.csr_array(wanted, copy=True)
    totals = np.asarray(wanted.sum(axis=1)).ravel()
    wanted.data[wanted.data <= LEAST * totals[rows_of(wanted.indptr)]] = 0.0
    wanted.eliminate_zeros()
    wanted.sort_indices()
    pairs = np.diff(counts.indptr).astype(np.int64) * np.diff(wanted.indptr)
    limits, blocks, begin = np.concatenate([[0], np.cumsum(pairs)]), [], 0
    while begin < len(pairs):
        end = int(np.searchsorted(limits, limits[begin] + ENTRIES, side="right")) - 1
        end = max(end, begin + 1)
        blocks.append(_fit_block(topics, counts, weights, wanted, slice(begin, end)))
        begin = end
    at, of, uses = (np.concatenate(part) for part in zip(*blocks, strict=True))
    docs = rows_of(counts.indptr)[at]
    if hasattr(model, "tree_"):  # shares of nodes are of their branches, no ratios
        entry = docs * len(topics) + of
        parts = uses / np.bincount(entry, uses)[entry] * shares[docs, of]
    else:
        parts = uses / (totals + prior)[docs]
    return at, of, uses, parts


def _fit_block(topics, counts, weights, wanted, docs):
    """Fit the shares of words of some documents to the wanted uses of topics."""
    rows = slice(counts.indptr[docs.start], counts.indptr[docs.stop])
    columns = slice(wanted.indptr[docs.start], wanted.indptr[docs.stop])
    doc = rows_of(counts.indptr)[rows]
    begins, n_used = wanted.indptr[doc] - columns.start, np.diff(wanted.indptr)[doc]
    entry = np.repeat(np.arange(len(doc)), n_used)  # of the words of the block
    ends = np.cumsum(n_used)
    place = np.arange(len(entry)) - np.repeat(ends - n_used - begins, n_used)
    of = wanted.indices[columns][place].astype(np.intp)
    values = topics[of, counts.indices[rows][entry]]
    goal, given = wanted.data[columns], weights[rows]
    totals = np.bincount(rows_of(wanted.indptr)[columns] - docs.start, goal)
    most = RESIDUE * totals[rows_of(wanted.indptr)[columns] - docs.start]
    factors = goal.copy()
    for _ in range(UPDATES):
        uses = values * factors[place]
        norms = np.bincount(entry, uses, len(doc))
        uses *= (given / np.where(norms > 0.0, norms, 1.0))[entry]
        sums = np.bincount(place, uses, len(goal))
        ratios = goal / np.where(sums > 0.0, sums, 1.0)
        if (abs(sums - goal) <= most).all():
            break
        factors *= ratios
    uses *= ratios[place]
    is_listed = uses > LEAST * given[entry]
    return (rows.start + entry)[is_listed], of[is_listed], uses[is_listed]
