"""The loop of benchmarks whose pages are cases: a grid of fits, and what is recorded.

    SKBNP_DATA=... python benchmarks/SCRIPT.py PAGE [PAGE ...] [--AXIS VALUE ...]
        [--write]

A script with one page needs no name of it. An option gives an axis other values; of
names that vary together it keeps those with such a value. `--write` runs nothing: it
writes the tables of pages from stored rows. The text above a table is written by hand,
in the page, and stays.
"""

import argparse
import ast
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, product
from typing import Any

import common  # before NumPy: it pins the threads

from skbnp.metrics import held_out_log_likelihood, split_tokens


@dataclass
class Fit:
    """A model, the documents that it has learned from, and what this took.

    Attributes
    ----------
    model : estimator, or a tuple of its topics, document prior, number of topics
    seconds : float, of a processor
    more : dict of columns that other fits of the case do not have
    """

    docs: Any
    model: Any
    seconds: float = 0.0
    more: dict = field(default_factory=dict)

    def topics(self):
        """Topics, the document prior to predict by, number of topics."""
        is_known = isinstance(self.model, tuple)
        return self.model if is_known else common.topics_of(self.model)

    def n_topics(self):
        """Number of topics."""
        is_known = isinstance(self.model, tuple)
        return self.model[2] if is_known else self.model.n_components_


def fitted(model, docs, **more):
    """Fit a model."""
    _, seconds = common.cpu_seconds(lambda: model.fit(docs.train))
    return Fit(docs, model, seconds, more)


def completion(fit, repeats=True):
    """Nats per token by document completion."""
    topics, prior, _ = fit.topics()
    parts = split_tokens(fit.docs.test, random_state=0)
    return held_out_log_likelihood(topics, prior, *parts, repeats=repeats)


def type_score(fit):
    """Nats per word type that a document has not shown."""
    topics, prior, _ = fit.topics()
    return common.type_score(topics, prior, *common.split_types(fit.docs.test))


@dataclass(frozen=True)
class Case:
    """What one page is of; functions take the columns of a point that they name.

    Parameters
    ----------
    axes : dict of values by column, in the order of loops; columns that vary together
        are joined by ", "
    documents : function (columns), documents
    learn : function (documents, columns), yields fits
    records : dict of a function of a fit by column, between topics and seconds
    summary : function of the rows, returns a table to show
    over : column of integers that the table does not have
    shows_rows : bool, whether the page has the rows below the table
    keeps : columns by which a row replaces a stored one; others are kept
    """

    axes: dict[str, Collection]
    documents: Callable
    learn: Callable
    records: dict[str, Callable] = field(default_factory=dict)
    summary: Callable = list
    over: str = ""
    shows_rows: bool = False
    keeps: Collection[str] = ()

    def points(self, given):
        """Yield the points of the grid, with other values of some axes."""
        names, values = [], []
        for joined, axis in self.axes.items():
            columns = joined.split(", ")
            if len(columns) == 1:
                axis = [(value,) for value in given.get(joined) or axis]
            for place, column in enumerate(columns):
                some = given.get(column) or [value[place] for value in axis]
                axis = [value for value in axis if value[place] in some]
            names += columns
            values.append(axis)
        for parts in product(*values):
            yield dict(zip(names, chain(*parts), strict=True))

    def run(self, given):
        """Yield rows of each point, one for each fit."""
        documents = lru_cache(maxsize=1)(self.documents)
        for point in self.points(given):
            docs, rows = _call(documents, point), []
            for fit in _call(self.learn, {"docs": docs, **point}):
                row = point | {"topics": fit.n_topics()} | fit.more
                row |= {name: record(fit) for name, record in self.records.items()}
                rows.append(row | {"CPU s": fit.seconds})
                print(rows[-1], flush=True)
            yield rows

    def write(self, page, rows, environment=None):
        """Write rows and the page, or with a stored environment the page alone."""
        table = self.summary(rows) if self.over else []
        shown = [*table, *rows] if self.shows_rows or not table else table
        columns = dict.fromkeys(chain(*shown))
        if environment is None:
            environment = common.environment()
            common.write_rows(page, environment, [*table, *rows])
        columns = sorted(columns, key="commit".__eq__)  # the last
        common.write_page(page, environment, shown, columns)

    def stored(self, page):
        """Environment and rows of a page without its table."""
        environment, rows = common.stored(page)
        if self.over:
            rows = [row for row in rows if isinstance(row.get(self.over), int)]
        return environment, rows


def _call(function, columns):
    """Call a function with the columns that it names."""
    names = inspect.signature(function).parameters.keys() & columns
    return function(**{name: columns[name] for name in names})


def _key(row, columns):
    """What identifies a row: some columns, or itself."""
    return tuple(row[column] for column in columns) or id(row)


def _value(text):
    """A number, or a name."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def main(description, cases):
    """Run some of the cases, or write their pages."""
    parser = argparse.ArgumentParser(description=description)
    some = {"nargs": "+"} if len(cases) > 1 else {"nargs": "*", "default": [*cases]}
    parser.add_argument("pages", metavar="PAGE", **some)
    parser.add_argument("--write", action="store_true")
    axes = chain(*(case.axes for case in cases.values()))
    for name in dict.fromkeys(chain(*(joined.split(", ") for joined in axes))):
        parser.add_argument(f"--{name}", nargs="+", type=_value, metavar="VALUE")
    given = vars(parser.parse_args())
    if unknown := {*given["pages"]} - cases.keys():
        parser.error(f"pages are {', '.join(cases)}; not {', '.join(unknown)}")
    for page in given["pages"]:
        case = cases[page]
        environment, rows = case.stored(page)
        if given["write"]:
            case.write(page, rows, environment)
            continue
        rows = {_key(row, case.keeps): row for row in rows if case.keeps}
        for new in case.run(given):
            rows |= {_key(row, case.keeps): row for row in new}
            case.write(page, [*rows.values()])
