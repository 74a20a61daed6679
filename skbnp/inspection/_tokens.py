"""Topics of the tokens of documents, and texts in the colours of these."""

import re
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer

from skbnp.inspection._displays import COLOURS as LINES
from skbnp.inspection._terms import check_shares, doc_counts, doc_prior, transformed
from skbnp.utils import fitted as read
from skbnp.utils.arrays import largest, rows_of
from skbnp.utils.lazy import import_pandas
from skbnp.utils.typing import Array, DataFrame, Ints
from skbnp.utils.validation import check_counts, validated

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

    def to_frame(self) -> DataFrame:
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
        return import_pandas().DataFrame(
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


@validated()
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
    model = read.model_of_words(estimator, "`apply` gives the node of each row")
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


#: Of topics in turn; further topics are grey.
COLOURS, GREY = (*LINES, "#F0E442"), "#969696"
#: Opacity of a word that is of its topic for certain, and of one that is hardly.
OPAQUE, PALE = 0.6, 0.1
#: Where sentences end.
SENTENCES = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
#: Expected tokens of a topic from which a sentence is evidence of it.
LEAST_TOKENS = 0.5
PLAIN_WORDS = r"(?u)\b\w+\b"


@dataclass(frozen=True, eq=False)
class TopicText:
    """A text with the topic of each word; notebooks show words in colours.

    Best made with :meth:`from_estimator`.

    Parameters
    ----------
    text : str
        The text.
    spans : ndarray of int of shape (n_words, 2)
        Where each word of the vocabulary begins and ends in the text.
    probabilities : ndarray of shape (n_words, n_components)
        Probability that the word is of each topic.
    numbers : ndarray of int of shape (n_components,)
        What topics are called, as `summary` shows them.
    names : list of str
        What the legend calls them.
    n_topics : int, default=6
        Topics with a colour: those with most words in the text.

    See Also
    --------
    token_topics : The same for many documents, as arrays.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skbnp import HDP
    >>> from skbnp.inspection import TopicText
    >>> texts = ["Sun, sun, rain.", "Sun. Rain!", "Oil and coal, coal & oil."] * 12
    >>> hdp = HDP(n_components=2, random_state=0)
    >>> model = make_pipeline(CountVectorizer(), hdp).fit(texts)
    >>> text = TopicText.from_estimator(model, "Rain. Sun & rain! Coal <b>oil</b>?")
    >>> of_weather = int(text.numbers[text.probabilities[0].argmax()])
    >>> text.sentences(of_weather)
    ['Sun & rain!', 'Rain.']
    >>> "<b>" in text.to_html()
    False
    """

    text: str
    spans: Ints
    probabilities: Array
    numbers: Ints
    names: list[str]
    n_topics: int = 6

    @classmethod
    @validated(text=[str])
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        text: str,
        feature_names: ArrayLike | None = None,
        *,
        n_topics: int = 6,
    ) -> Self:
        """Share the words of a text out among the topics of a fitted model.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            What :func:`token_topics` takes. In a Pipeline the vectorizer says what a
            word is; otherwise columns are named by words in lower case.
        text : str
            One document.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        n_topics : int, default=6
            Topics with a colour: those with most words in the text.

        Returns
        -------
        text : TopicText
            The text with the topics of its words. Columns that are no single word, as
            bigrams, count for the topics of the document and have no colour.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        TypeError
            If components are directions, or `transform` returns no shares.
        """
        components = read.fitted(estimator, "components_")
        n_features = components.shape[1]
        names = read.column_names(estimator, n_features, feature_names)
        column = {name: at for at, name in enumerate(names)}
        vectorizer = _vectorizer(estimator)
        spans, columns = [], []
        analyze = vectorizer.build_analyzer()
        for match in re.finditer(_pattern(vectorizer), text):
            group = 1 if match.re.groups == 1 else 0
            known = [column[str(t)] for t in analyze(match[group]) if str(t) in column]
            if known:
                spans.append(match.span(group))
                columns.append(known[0])
        rows: Any = [text]
        if len(getattr(read.unwrap(estimator), "steps", [None])) == 1:  # no texts
            rows = np.bincount(columns, minlength=n_features)[None].astype(float)
        tokens = token_topics(estimator, rows, feature_names)
        of_column = np.zeros((n_features, len(components)))
        of_column[tokens.words, tokens.topics] = tokens.probabilities
        given = read.topic_names(estimator, len(components))
        return cls(
            text=text,
            spans=np.array(spans, dtype=np.intp).reshape(-1, 2),
            probabilities=of_column[np.array(columns, dtype=np.intp)],
            numbers=tokens.numbers,
            names=[
                name or f"topic {number}"
                for name, number in zip(given, tokens.numbers, strict=True)
            ],
            n_topics=n_topics,
        )

    @validated()
    def sentences(self, topic: int, n: int = 3) -> list[str]:
        """Choose the sentences with most tokens of a topic.

        Parameters
        ----------
        topic : int
            Number of the topic.
        n : int, default=3
            Sentences at most.

        Returns
        -------
        sentences : list of str
            Those with most expected tokens of the topic, half a token at least, most
            first; ties are in the order of the text.

        Raises
        ------
        ValueError
            If no topic has this number.
        """
        row = row_of(self.numbers, topic)
        ends = [match.span() for match in SENTENCES.finditer(self.text)]
        starts = [0, *(end for _, end in ends)]
        stops = [*(begin for begin, _ in ends), len(self.text)]
        at = np.searchsorted(starts, self.spans[:, 0], side="right") - 1
        tokens = np.bincount(at, self.probabilities[:, row], len(starts))
        best = largest(tokens, n)
        return [
            self.text[starts[k] : stops[k]].strip()
            for k in best[tokens[best] >= LEAST_TOKENS]
        ]

    def to_html(self) -> str:
        """Write the text as HTML, its words on the colours of their topics.

        Returns
        -------
        html : str
            A `div` with a legend; the text is escaped. The stronger a colour, the more
            probable the topic; the title of each word lists further topics.
        """
        sums = self.probabilities.sum(axis=0)
        coloured = largest(sums, self.n_topics)
        coloured = coloured[sums[coloured] >= LEAST_TOKENS]
        colour = dict(zip(coloured.tolist(), COLOURS, strict=False))
        legend = "".join(
            f'<span style="{_background(colour.get(k, GREY), 1.0)}">'
            f"{escape(self.names[k])}</span> {sums[k]:.0f} &ensp; "
            for k in coloured.tolist()
        )
        parts, last = [], 0
        for (begin, end), of in zip(
            self.spans.tolist(), self.probabilities, strict=True
        ):
            best = int(of.argmax())
            title = ", ".join(
                f"{self.names[k]} {of[k]:.0%}" for k in largest(of, 3) if of[k] >= 0.05
            )
            style = _background(colour.get(best, GREY), of[best] if of.any() else 0.0)
            word = escape(self.text[begin:end])
            parts += [
                escape(self.text[last:begin]),
                f'<span style="{style}" title="{escape(title)}">{word}</span>',
            ]
            last = end
        parts.append(escape(self.text[last:]))
        return (
            '<div class="skbnp-text" style="color:#111;background:#fff;padding:.6em;'
            'line-height:1.6">'
            f'<div style="font-size:85%;margin-bottom:.5em">{legend}</div>'
            f'<div style="white-space:pre-wrap">{"".join(parts)}</div></div>'
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def _background(colour: str, probability: float) -> str:
    """Return the CSS background of a colour for a probability."""
    opacity = round(255 * (PALE + (OPAQUE - PALE) * probability))
    return f"background:{colour}{opacity:02x};border-radius:2px"


def _vectorizer(estimator: Any) -> Any:
    """Return the step of a Pipeline that converts texts to counts."""
    for _, step in getattr(read.unwrap(estimator), "steps", []):
        if hasattr(step, "build_analyzer"):
            return step
    return CountVectorizer(token_pattern=PLAIN_WORDS)


def _pattern(vectorizer: Any) -> str:
    """Return the pattern of words; the tokenizer is applied to each later."""
    pattern = getattr(vectorizer, "token_pattern", None)
    is_own = getattr(vectorizer, "tokenizer", None) is not None
    is_words = getattr(vectorizer, "analyzer", "word") == "word"
    return pattern if pattern and is_words and not is_own else PLAIN_WORDS
