"""Text with words coloured by their topics, for notebooks."""

import re
from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer

from skbnp.inspection._tokens import row_of, token_topics
from skbnp.utils.fitted import column_names, fitted, topic_names, unwrap
from skbnp.utils.ordering import largest
from skbnp.utils.validation import POSITIVE, validate_params

#: Of Okabe and Ito, red, green and blue; further topics are grey.
COLOURS = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (240, 228, 66),
    (204, 121, 167),
    (213, 94, 0),
    (0, 114, 178),
)
GREY = (150, 150, 150)
#: Opacity of a word that is of its topic for certain, and of one that is hardly.
OPAQUE, PALE = 0.6, 0.1
#: Where sentences end.
SENTENCES = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
#: Expected tokens of a topic from which a sentence speaks for it.
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
        Where each word that the model knows begins and ends in the text.
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
    spans: NDArray[np.intp]
    probabilities: NDArray[np.float64]
    numbers: NDArray[np.intp]
    names: list[str]
    n_topics: int = 6

    @classmethod
    @validate_params({"text": [str], "n_topics": [POSITIVE]})
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
        components = fitted(estimator, "components_")
        n_features = components.shape[1]
        names = column_names(estimator, n_features, feature_names)
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
        if len(getattr(unwrap(estimator), "steps", [None])) == 1:  # no texts
            rows = np.bincount(columns, minlength=n_features)[None].astype(float)
        tokens = token_topics(estimator, rows, feature_names)
        of_column = np.zeros((n_features, len(components)))
        of_column[tokens.words, tokens.topics] = tokens.probabilities
        given = topic_names(estimator, len(components))
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

    @validate_params({"n": [POSITIVE]})
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
            probable the topic; others stand in the title of each word.
        """
        sums = self.probabilities.sum(axis=0)
        shown = largest(sums, self.n_topics)
        shown = shown[sums[shown] >= LEAST_TOKENS]
        colour = dict(zip(shown.tolist(), COLOURS, strict=False))
        legend = "".join(
            f'<span style="{_background(colour.get(k, GREY), 1.0)}">'
            f"{escape(self.names[k])}</span> {sums[k]:.0f} &ensp; "
            for k in shown.tolist()
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


def _background(colour: tuple[int, int, int], probability: float) -> str:
    """Return the CSS background of a colour for a probability."""
    opacity = PALE + (OPAQUE - PALE) * probability
    red, green, blue = colour
    return f"background:rgba({red},{green},{blue},{opacity:.2f});border-radius:2px"


def _vectorizer(estimator: Any) -> Any:
    """Return the step of a Pipeline that converts texts to counts."""
    for _, step in getattr(unwrap(estimator), "steps", []):
        if hasattr(step, "build_analyzer"):
            return step
    return CountVectorizer(token_pattern=PLAIN_WORDS)


def _pattern(vectorizer: Any) -> str:
    """Return the pattern of words; the tokenizer is applied to each later."""
    pattern = getattr(vectorizer, "token_pattern", None)
    is_own = getattr(vectorizer, "tokenizer", None) is not None
    is_words = getattr(vectorizer, "analyzer", "word") == "word"
    return pattern if pattern and is_words and not is_own else PLAIN_WORDS
