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
from skbnp.inspection._summary import Account, next_steps
from skbnp.inspection._terms import relevant_columns, signed, texts_of, top_documents
from skbnp.inspection._tokens import TopicText
from skbnp.utils import fitted as read
from skbnp.utils.archive import written
from skbnp.utils.validation import validated

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
h3, h4 { font-size: 1rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0 .8rem; max-width: 48rem; }
.soft { color: var(--soft); }
a { color: var(--blue); text-decoration: none; }
a:hover { text-decoration: underline; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
nav a { white-space: nowrap; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { width: 14rem; font-weight: 400; color: var(--soft); }
.cards { display: grid; gap: 1rem; margin-bottom: 1.4rem;
  grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .8rem .9rem; }
.card p { margin: .3rem 0; }
.terms { display: grid; grid-template-columns: fit-content(60%) 1fr; gap: 1px .6rem;
  align-items: center; font-size: .9rem; }
.terms span { overflow-wrap: anywhere; }
.bar { background: var(--blue); height: .6rem; border-radius: 2px; min-width: 1px; }
.share { position: relative; height: .8rem; margin: .35rem 0; background: #f3f5f7;
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
@media (max-width: 34rem) { th { width: 48%; font-size: .87rem; } }
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


def paragraph(text: str, kind: str = "soft") -> str:
    """Return a paragraph of a class of the style sheet."""
    return f'<p class="{kind}">{escape(text)}</p>'


def table(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names, which are escaped, and values, which are HTML."""
    cells = (f"<tr><th>{escape(name)}</th><td>{of}</td></tr>" for name, of in rows)
    return f"<table>{''.join(cells)}</table>"


def bar(share: float, low: float, high: float, most: float) -> str:
    """Return a bar of a share with its interval; `most` has the full width."""
    left, width, end = (100.0 * of / max(most, 1e-300) for of in (low, share, high))
    return (
        f'<div class="share"><i style="width:{width:.1f}%"></i>'
        f'<b style="left:{left:.1f}%;width:{max(end - left, 0.0):.1f}%"></b></div>'
    )


#: Letters of a document, and of a value, that are written.
EXCERPT = 240
#: Lines below headings and the like, which excerpts leave out.
RULES = re.compile(r"([-=~_*#.^+])\1{4,}")
CONFIDENCE = 0.9


@validated(title=[str, None])
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

    The page has the sections of :func:`summary`, with intervals of the shares of topics
    and documents of each, all parameters, and a paragraph for a methods section. It
    needs no network and no other file.

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
    X, texts = texts_of(X, documents)
    account = _Page(estimator, X, feature_names, n_components, epochs)
    noun, n_rows = account.noun, read.n_rows_of(X)
    heading = title or f"Topics of {type(account.model).__name__}"
    cards = account.cards(n_terms, n_documents, texts, documents is None)
    sections = {
        "facts": ("Fit", account.fit()),
        "topics": (f"{noun.capitalize()}s", account.topics(cards)),
        "methods": ("Methods", account.methods(n_rows)),
        "settings": ("Settings", account.settings()),
    }
    links = "".join(f'<a href="#{key}">{sections[key][0]}</a>' for key in sections)
    described = f"{len(account.listed)} of {len(account.shares)} {noun}s described"
    parts = [
        f"<h1>{escape(heading)}</h1>",
        paragraph(f"{counted(n_rows, account.row)}, {described}"),
        f"<nav>{links}</nav>",
    ]
    for key, (name, content) in sections.items():
        parts += [f'<section id="{key}">\n<h2>{name}</h2>', *content, "</section>"]
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
        if self.has_shares:
            labels = ["0"] * read.n_rows_of(X)
            of = {"confidence": CONFIDENCE, "merge_similarity": 1.0, "epochs": epochs}
            self.intervals = topic_shares(estimator, X, labels, feature_names, **of)

    def fit(self) -> list[str]:
        """Return the sections of cautions, of facts, and of what to do next."""
        parts = [paragraph(text, "warning") for text in self.cautions]
        for heading, facts in self.sections.items():
            rows = ((name, escape(fact)) for name, fact in facts.items())
            parts += [f"<h3>{heading}</h3>", table(rows)]
        items = "".join(f"<li>{escape(text)}</li>" for text in next_steps(self))
        return [*parts, f"<h3>What to do next</h3><ul>{items}</ul>" * bool(items)]

    def topics(self, cards: dict[int, str]) -> list[str]:
        """Return the section of topics in their groups."""
        parts, groups = [], self.groups()
        if len(groups) == 1:
            text = f"The {self.row}s are evidence of no groups of {self.noun}s."
            if hasattr(self.model, "tree_"):
                text = f"The {self.noun}s have a tree, in which themes are branches."
            parts.append(paragraph(text))
        if self.has_shares:
            what = f"{self.row}s, {self.noun}s as they are"
            if hasattr(self.model, "samples_"):
                what = f"kept samples and {self.row}s"
            text = f"Bars: mean share of a {self.row}, and its interval of "
            text += f"{CONFIDENCE:.0%} by bootstrap over {what}."
            parts.append(paragraph(text))
        for title, rows in groups:
            head = escape(title.strip() or f"All {self.noun}s")
            content = "".join(cards[int(k)] for k in rows)
            parts.append(f'<h3>{head}</h3><div class="cards">{content}</div>')
        return parts

    def cards(self, n_terms, n_documents, texts, are_texts) -> dict[int, str]:
        """Return terms, shares and documents of each topic."""
        best = own = np.full((len(self.shares), 0), -1)
        if self.has_shares:
            given = self.estimator, self.X, n_documents
            best, own = top_documents(*given, epochs=self.epochs, return_shares=True)
        columns, cards = relevant_columns(self.estimator, n_terms), {}
        for k in self.listed.tolist():
            number, name = self.numbers[k], self.called[k]
            head = f"{self.noun.capitalize()} {number}" + (f": {name}" if name else "")
            parts = [f"<h4>{escape(head)}</h4>", self._share(k)]
            parts.append(self._terms(self.distr[k], columns[k]))
            parts += [
                self._document(k, row, share, texts, are_texts)
                for row, share in zip(best[k], own[k], strict=True)
                if row >= 0
            ]
            text = "\n".join(parts)
            cards[k] = f'<article class="card" id="topic-{number}">{text}</article>'
        return cards

    def _share(self, k) -> str:
        """Return the share of topic k, and its interval."""
        text = f"share {100 * self.shares[k]:.1f} %"
        if not self.has_shares:
            return paragraph(text)
        of = self.intervals
        mean, low, high = of.mean[0], of.low[0], of.high[0]
        most = np.fmax(mean, high)[self.listed].max()
        text += f"; of a {self.row} {mean[k]:.2%}, {CONFIDENCE:.0%} interval "
        text += f"{low[k]:.2%} – {high[k]:.2%}"
        begin, end = np.nan_to_num([low[k], high[k]]).tolist()
        return paragraph(text) + bar(mean[k], begin, end, most)

    def _terms(self, values, columns) -> str:
        """Return terms and bars of their values as HTML."""
        most = np.abs(values[columns]).max(initial=0.0)
        names = signed(values, columns, self.names)
        lines = "".join(
            f"<span>{escape(name)}</span>"
            f'<div class="bar" style="width:{100 * abs(values[j]) / most:.0f}%" '
            f'title="{values[j]:.4f}"></div>'
            for name, j in zip(names, columns, strict=True)
        )
        return f'<div class="terms">{lines}</div>'

    def _document(self, k, row, share, texts, are_texts) -> str:
        """Return a document of topic k, with its share, as HTML."""
        head, text = f"<cite>{self.row} {row}, {share:.0%}</cite>", ""
        if texts is not None:
            text = texts[row]
            if are_texts:
                given = self.estimator, text, self.feature_names
                document = TopicText.from_estimator(*given)
                sentences = document.sentences(int(self.numbers[k]), 2)
                text = " … ".join(sentences) or text
            text = shortened(" ".join(RULES.sub(" ", text).split()), EXCERPT)
        return f"<blockquote>{head}{escape(text)}</blockquote>"

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
        rows = []
        for name, value in self.model.get_params(deep=False).items():
            code = f"<code>{escape(shortened(repr(value), EXCERPT))}</code>"
            is_default = repr(value) == repr(parameters[name].default)
            rows.append((name, code if is_default else f"<b>{code}</b>"))
        steps = getattr(read.unwrap(self.estimator), "steps", [])
        before = [
            f"<p>Before it in the Pipeline: <code>{escape(repr(step))}</code></p>"
            for _, step in steps[:-1]
        ]
        return [paragraph("Bold: not the default."), *before, table(rows)]


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
