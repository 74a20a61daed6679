"""Report of a fit as a page of HTML."""

import inspect
import os
import platform
import re
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.inspection._displays import shortened
from skbnp.inspection._groups import counted
from skbnp.inspection._shares import topic_shares
from skbnp.inspection._summary import Account, n_rows_of, texts_of
from skbnp.inspection._terms import (
    leading,
    relevant_terms,
    signed,
    terms_of,
    top_documents,
)
from skbnp.inspection._tokens import TopicText
from skbnp.utils import fitted as read
from skbnp.utils.archive import written
from skbnp.utils.validation import POSITIVE, validate_params

STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --blue: #0072b2;
  --pale: #cfe3f0; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  color: var(--ink); background: #fff; max-width: 68rem; margin: 0 auto;
  padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .7rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0 .8rem; max-width: 48rem; }
.soft { color: var(--soft); }
a { color: var(--blue); text-decoration: none; }
a:hover { text-decoration: underline; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
nav a { white-space: nowrap; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
th.number { text-align: right; }
.facts th { width: 14rem; font-weight: 400; color: var(--soft); }
.scroll { overflow-x: auto; }
.cards { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .8rem .9rem; }
.card p { margin: .3rem 0; }
.terms { display: grid; grid-template-columns: fit-content(60%) 1fr; gap: 1px .6rem;
  align-items: center; font-size: .9rem; }
.terms span { overflow-wrap: anywhere; }
.bar { background: var(--blue); height: .6rem; border-radius: 2px; min-width: 1px; }
.share { position: relative; height: .8rem; min-width: 7rem; margin-top: .35rem;
  background: #f3f5f7;
  border-radius: 2px; }
.share i { position: absolute; left: 0; top: 0; bottom: 0; background: var(--pale);
  border-radius: 2px; }
.share b { position: absolute; top: 35%; bottom: 35%; background: var(--blue);
  min-width: 2px; }
blockquote { margin: .4rem 0; padding: .1rem 0 .1rem .7rem; font-size: .88rem;
  border-left: 3px solid var(--line); color: var(--soft); overflow-wrap: anywhere; }
blockquote cite { font-style: normal; color: var(--ink); display: block; }
.methods { background: #f6f8fa; border-radius: 8px; padding: .8rem 1rem;
  max-width: none; }
.warning { background: #fff4e5; border-left: 4px solid #d55e00; padding: .5rem .8rem;
  max-width: none; }
code { font: .88rem ui-monospace, Consolas, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
b code { font-weight: 700; }
@media (max-width: 34rem) { .facts th { width: 48%; white-space: normal;
  font-size: .87rem; } }
@media print { nav { display: none; } .card { break-inside: avoid; } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page that needs no other file."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def section(name: str, title: str, parts: Iterable[str]) -> str:
    """Return a section with a heading that links can name."""
    head = f'<section id="{name}">\n<h2>{escape(title)}</h2>'
    return "\n".join([head, *parts, "</section>"])


def paragraph(text: str, kind: str = "soft") -> str:
    """Return a paragraph of a class of the style sheet."""
    return f'<p class="{kind}">{escape(text)}</p>'


def cell(value: object, *, is_number: bool = False) -> str:
    """Return a cell of a table."""
    kind = ' class="number"' if is_number else ""
    return f"<td{kind}>{escape(str(value))}</td>"


def table(heads: dict[str, bool], rows: Iterable[str], kind: str = "") -> str:
    """Return a table; `heads` map titles to whether columns have numbers."""
    kinds = ("", ' class="number"')
    titles = "".join(f"<th{kinds[heads[head]]}>{escape(head)}</th>" for head in heads)
    top = f"<thead><tr>{titles}</tr></thead>" if heads else ""
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    rows_of = f"{top}<tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{rows_of}</table></div>'


def bar(share: float, low: float, high: float, most: float) -> str:
    """Return a bar of a share with its interval; `most` has the full width."""
    scale = 100.0 / most if most > 0.0 else 0.0
    left, width = low * scale, max(high - low, 0.0) * scale
    return (
        f'<div class="share"><i style="width:{min(share * scale, 100):.1f}%"></i>'
        f'<b style="left:{left:.1f}%;width:{min(width, 100 - left):.1f}%"></b></div>'
    )


#: Letters of a document, and of a value, that are written.
EXCERPT = 240
#: Lines below headings and the like, which say nothing on a page.
RULES = re.compile(r"([-=~_*#.^+])\1{4,}")
CONFIDENCE = 0.9


@validate_params(
    {
        "path": [str, os.PathLike],
        "title": [str, None],
        "n_components": [POSITIVE, None],
        "n_terms": [POSITIVE],
        "n_documents": [POSITIVE],
    }
)
def report(
    estimator: BaseEstimator,
    X: Any,
    path: str | os.PathLike,
    feature_names: ArrayLike | None = None,
    *,
    documents: Iterable[str] | None = None,
    title: str | None = None,
    n_components: int | None = None,
    n_terms: int = 10,
    n_documents: int = 3,
    epochs: Any = None,
) -> Path:
    """Write an account of a fit as one page of HTML.

    The page has themes, topics with their terms and documents, intervals of their
    shares, settings, and a paragraph for a methods section. It needs no network and no
    other file.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        What :func:`summary` takes.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        Documents, best such that were not in the fit; raw ones for a text Pipeline.
    path : str or path-like
        File that is written, or written over.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    documents : array-like of str of shape (n_samples,), default=None
        Titles or texts of documents, which the page shows the beginnings of. None takes
        `X` if it has texts, and numbers of rows otherwise.
    title : str or None, default=None
        Title of the page; None names the model.
    n_components : int or None, default=None
        Topics to describe, heaviest first. None describes those in use, but at most 20.
    n_terms, n_documents : int, default=10, 3
        Terms and documents of each topic.
    epochs : array-like of shape (n_samples,) or scalar, default=None
        Labels of the epochs of rows, for an estimator whose `transform` takes them.

    Returns
    -------
    path : Path
        The file.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If `documents` has not one entry for each row of `X`, or `feature_names` does
        not name every column.

    See Also
    --------
    summary : The same as plain text.

    Examples
    --------
    >>> import tempfile
    >>> from skbnp import HDP
    >>> from skbnp.inspection import report
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 9
    >>> hdp = HDP(n_components=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = report(hdp, X, f"{folder}/report.html", ["rain", "snow", "sun"])
    ...     "Methods" in path.read_text(encoding="utf-8")
    True
    """
    X, shown_as = texts_of(X, documents)
    n_rows = n_rows_of(X)
    texts = shown_as if documents is None else None
    account = _Page(estimator, X, feature_names, n_components, epochs)
    model, noun = account.model, account.noun
    heading = title or f"Topics of {type(model).__name__}"
    cards = account.cards(n_terms, n_documents, shown_as, texts)
    sections = {
        "facts": ("Fit", account.fit()),
        "themes": ("Themes", account.themes()),
        "topics": (f"{noun.capitalize()}s", [cards]),
        "uncertainty": ("Uncertainty", account.uncertainty()),
        "methods": ("Methods", account.methods(n_rows)),
        "settings": ("Settings", account.settings()),
    }
    links = "".join(f'<a href="#{key}">{sections[key][0]}</a>' for key in sections)
    n_shown = f"{len(account.shown)} of {len(account.shares)} {noun}s described"
    parts = [
        f"<h1>{escape(heading)}</h1>",
        paragraph(f"{counted(n_rows, account.row)}, {n_shown}"),
        f"<nav>{links}</nav>",
        *(section(key, *sections[key]) for key in sections),
    ]
    path = Path(path)
    with written(path) as file:
        file.write(page(heading, parts).encode())
    return path


class _Page(Account):
    """Contents of the page of a fit, section by section."""

    def __init__(self, estimator, X, feature_names, n_components, epochs):
        """Compute what all sections read."""
        super().__init__(estimator, X, feature_names, n_components, epochs)
        self.feature_names = feature_names
        self.row = "document" if self.unit == "token" else "row"
        self.has_shares = not hasattr(self.model, "inverse_transform")
        self.intervals: Any = None
        if self.has_shares:
            labels = ["0"] * n_rows_of(X)
            of = {"confidence": CONFIDENCE, "merge_similarity": 1.0, "epochs": epochs}
            self.intervals = topic_shares(estimator, X, labels, feature_names, **of)

    def name(self, k) -> str:
        name = f"{self.noun.capitalize()} {self.numbers[k]}"
        return f"{name}: {self.called[k]}" if self.called[k] else name

    def fit(self) -> list[str]:
        """Return the section of cautions and facts."""
        parts = [paragraph(text, "warning") for text in self.cautions]
        for heading, facts in self.facts_by_heading().items():
            rows = (f"<th>{escape(name)}</th>{cell(facts[name])}" for name in facts)
            parts += [f"<h3>{heading}</h3>", table({}, rows, "facts")]
        return parts

    def themes(self) -> list[str]:
        """Return the section of groups of topics."""
        parts, sections = [], self.groups()
        for title, rows in sections:
            links = ", ".join(map(self._link, rows))
            head = title.strip() or f"All {self.noun}s"
            parts.append(f"<h3>{escape(head)}</h3><p>{links}</p>")
        if len(sections) == 1:
            text = f"The {self.row}s are evidence of no groups of {self.noun}s."
            if hasattr(self.model, "tree_"):
                text = f"The {self.noun}s have a tree, in which themes are branches."
            parts.insert(0, paragraph(text))
        return parts

    def _link(self, k) -> str:
        """Return a link to a topic, by its name or number and some terms."""
        terms = " ".join(terms_of(self.distr[k], self.names, 3))
        text = escape(f"{self.called[k] or self.numbers[k]} {terms}")
        return f'<a href="#topic-{self.numbers[k]}">{text}</a>'

    def cards(self, n_terms, n_documents, shown_as, texts) -> str:
        """Return the section of topics with terms and documents."""
        best = own = np.full((len(self.shares), 0), -1)
        if self.has_shares:
            given = self.estimator, self.X, n_documents
            best, own = top_documents(*given, epochs=self.epochs, return_shares=True)
        relevant: list[list[str]] = []
        if self.unit != "row":
            names, n = self.feature_names, min(n_terms, 6)
            relevant = relevant_terms(self.estimator, names, n)
        cards = []
        for k in self.shown:
            parts = [
                f"<h3>{escape(self.name(k))}</h3>",
                paragraph(f"share {100 * self.shares[k]:.1f} %"),
                self._terms(k, n_terms),
            ]
            parts += [paragraph(f"Its own: {', '.join(of)}") for of in relevant[k:][:1]]
            parts += [
                self._document(k, row, share, shown_as, texts)
                for row, share in zip(best[k], own[k], strict=True)
                if row >= 0
            ]
            article = f'<article class="card" id="topic-{self.numbers[k]}">'
            cards.append("\n".join(parts).join([article, "</article>"]))
        return f'<div class="cards">{"".join(cards)}</div>'

    def _terms(self, k, n_terms) -> str:
        """Return the terms of topic k as HTML."""
        values = self.distr[k]
        columns = leading(values, n_terms)
        most = np.abs(values[columns]).max(initial=0.0)
        shown = signed(values, columns, self.names)
        lines = "".join(
            f"<span>{escape(name)}</span>"
            f'<div class="bar" style="width:{100 * abs(values[j]) / most:.0f}%" '
            f'title="{values[j]:.4f}"></div>'
            for name, j in zip(shown, columns, strict=True)
        )
        return f'<div class="terms">{lines}</div>'

    def _document(self, k, row, share, shown_as, texts) -> str:
        """Return a document of topic k, with its share, as HTML."""
        head = f"{self.row} {row}, {share:.0%}"
        if shown_as is None:
            return f"<blockquote><cite>{head}</cite></blockquote>"
        text = shown_as[row]
        if texts is shown_as:
            given = self.estimator, text, self.feature_names
            document = TopicText.from_estimator(*given)
            sentences = document.sentences(int(self.numbers[k]), 2)
            text = " … ".join(sentences) or text
        text = shortened(" ".join(RULES.sub(" ", text).split()), EXCERPT)
        return f"<blockquote><cite>{head}</cite>{escape(text)}</blockquote>"

    def uncertainty(self) -> list[str]:
        """Return the section of intervals of shares."""
        parts = []
        posterior = getattr(self.model, "n_components_posterior_", None)
        if posterior:
            number = escape(self.facts[f"{self.noun}s"])
            text = f"The number of {self.noun}s in sweeps of the chains is: {number}."
            parts.append(f"<p>{text}</p>")
        if self.intervals is None:
            text = "Rows have coordinates, not shares: there are no intervals."
            return [*parts, f"<p>{text}</p>"]
        what = "kept samples and documents"
        if not hasattr(self.model, "samples_"):
            what = f"{self.row}s, topics as they are"
        parts.append(
            f"<p>Mean share of each {self.noun} in the {self.row}s given, and its "
            f"{CONFIDENCE:.0%} interval by bootstrap over {what}.</p>"
        )
        mean, low, high = (
            getattr(self.intervals, of)[0] for of in ("mean", "low", "high")
        )
        limits = np.nan_to_num(np.array([low, high]))
        most = max(limits[1][self.shown].max(initial=0.0), mean[self.shown].max())
        rows = [
            f"<td>{self._link(k)}</td>"
            + cell(f"{mean[k]:.2%}", is_number=True)
            + cell(f"{low[k]:.2%} – {high[k]:.2%}", is_number=True)
            + f"<td>{bar(mean[k], limits[0][k], limits[1][k], most)}</td>"
            for k in self.shown
        ]
        heads = {self.noun: False, "share": True, f"{CONFIDENCE:.0%} interval": True}
        heads[""] = False
        return [*parts, table(heads, rows)]

    def methods(self, n_rows) -> list[str]:
        """Return the paragraph for a methods section."""
        model = self.model
        kind, reference = _described(model)
        name, columns = type(model).__name__, len(self.names)
        learned = f"{self.facts[self.noun + 's']} {self.noun}s"
        if hasattr(model, "samples_"):
            n = len(self.shares)
            learned += f"; the best sample, with {n:,}, is described"
        seed, changed = getattr(model, "random_state", None), _changed(model)
        settings = f"Parameters that differ from the defaults: {changed}."
        over, tokens, version = "columns", "", sys.modules["skbnp"].__version__
        if self.row == "document":
            scored = self.facts.get("documents scored", "")
            over, tokens = "terms", f" of {scored.split(', ', 1)[-1].split(';')[0]}"
        seeded = f"random_state was {seed!r}."
        if seed is None:
            seeded = "No random_state was set: the fit cannot be made again."
        text = (
            f"We fitted a {kind} [1], with {name} of skbnp {version} (scikit-learn "
            f"{sklearn.__version__}, Python {platform.python_version()}), over "
            f"{columns:,} {over}. "
            f"{settings if changed else 'All parameters had their defaults.'} "
            f"The fit took {self.facts.get('fit', 'one call')}, and has {learned}. "
            f"Shares of {self.noun}s were inferred in {counted(n_rows, self.row)}"
            f"{tokens}. {seeded}"
        )
        if "score" in self.facts:
            text += f" The score of these is {self.facts['score']}."
        return [paragraph(text, "methods") + paragraph(f"[1] {reference}")]

    def settings(self) -> list[str]:
        """Return the table of parameters, with changed ones in bold."""
        parameters = inspect.signature(type(self.model)).parameters
        defaults = {name: one.default for name, one in parameters.items()}
        rows = []
        for name, value in self.model.get_params(deep=False).items():
            shown = f"<code>{escape(shortened(repr(value), EXCERPT))}</code>"
            if repr(value) != repr(defaults.get(name)):
                shown = f"<b>{shown}</b>"
            rows.append(f"<th>{escape(name)}</th><td>{shown}</td>")
        steps = getattr(read.unwrap(self.estimator), "steps", [])
        before = [
            f"<p>Before it in the Pipeline: <code>{escape(repr(step))}</code></p>"
            for _, step in steps[:-1]
        ]
        return [paragraph("Bold: not the default."), *before, table({}, rows, "facts")]


def _described(model) -> tuple[str, str]:
    """Return the name of a model and its paper, by its docstring."""
    text = inspect.getdoc(type(model)) or type(model).__name__
    kind = text.splitlines()[0].rstrip(".")
    kind = kind[:1].lower() + kind[1:] if not kind[:2].isupper() else kind
    reference = re.search(r"\.\. \[1\] (.*?)(?:\n\.\. \[2\]|\n\n|\Z)", text, re.S)
    result = " ".join(reference[1].split()) if reference else type(model).__name__
    return kind, result


def _changed(model) -> str:
    """Return the parameters that differ from defaults, seed and threads apart."""
    text = " ".join(model.__repr__(N_CHAR_MAX=10_000).split())
    inside = text[text.index("(") + 1 : text.rindex(")")].rstrip(",")
    kept = re.sub(r"(^|, )(random_state|n_jobs|verbose)=[^,]*", "", inside)
    return kept.strip(", ")
