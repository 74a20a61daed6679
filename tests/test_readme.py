"""The code at the top of the README runs, and prints what stands below it."""

import re
import warnings
from pathlib import Path

import pytest

from skbnp import datasets

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


#: Facts of moves and of other numbers of topics, if there were any.
OF_TRIALS = {"moves", "why", "more", "fewer", "as"}


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)[1]


def layout(text):
    """Names of facts, and whether each topic has a number and a weight."""
    facts, topics = re.split(
        r"^topic +weight +terms\n", text.strip(), flags=re.MULTILINE
    )
    names = [line.split()[0] for line in facts.splitlines()[1:] if line]
    heading = "in more than half of the documents"
    rows = [line for line in topics.splitlines() if line != heading]
    rows = [line for line in rows if not line.startswith(" " * 16)]
    return (
        [name for name in names if name not in OF_TRIALS],
        [bool(re.match(r" *\d+ +\d+\.\d %  \w", line)) for line in rows[:8]],
    )


def test_printed_account_has_the_layout_of_the_one_shown(monkeypatch, capsys):
    load = datasets.load_docstrings

    def some(**options):
        bunch = load(**options)
        bunch.data = bunch.data[::10]
        return bunch

    monkeypatch.setattr(datasets, "load_docstrings", some)
    with warnings.catch_warnings(action="ignore"):
        exec(block("python"), {})
    shown, printed = block("text"), capsys.readouterr().out
    assert layout(printed) == layout(shown)


@pytest.mark.parametrize("language", ["python", "text"])
def test_lines_fit_a_terminal(language):
    assert max(map(len, block(language).splitlines())) <= 88
