"""The README and the guide are easy to read, by Flesch's formula."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "doc" / "index.rst",
    *sorted((ROOT / "doc" / "guide").glob("*.rst")),
]
#: Reading ease of plain English; papers of this field are at 20 to 30.
LEAST = 50.0
#: Blocks that are no sentences: code, directives, tables, titles; links to their text.
BLOCKS = re.compile(
    r"^```(?:.|\n)*?^```$"  # code of Markdown
    r"|^ *>>> (?:.|\n)*?(?:\n\s*\n|\Z)"  # an example, to the next blank line
    r"|^ *\.\. .*\n(?:(?:   .*)?\n)*"  # a directive, with what is indented below
    r"|^[|!].*$|^#+ .*$|^([=~-])\1{2,}$|^=+ [= ]+$",
    re.MULTILINE,
)
ROLE = re.compile(r":[\w:]+:`~?([^<`]*?)(?:\s*<[^>]*>)?`")
ITEM = re.compile(r"^ *(?:[-*]|\d\.) ", re.MULTILINE)


def sentences(text):
    """Split the prose of a page into sentences; an item of a list ends one."""
    text = ROLE.sub(r"\1", BLOCKS.sub("\n\n", text))
    for paragraph in re.split(r"\n\s*\n", ITEM.sub("\n\n", text)):
        yield from re.split(r"[.!?:]\s+", paragraph + " ")


def syllables(word):
    """Count groups of vowels, but for a silent e in the end."""
    return max(1, len(re.findall(r"[aeiouy]+", re.sub(r"e$", "", word.lower()))))


def reading_ease(text):
    """Return 206.8 - 1.015 words per sentence - 84.6 syllables per word."""
    all_words = [re.findall(r"[A-Za-z]+", sentence) for sentence in sentences(text)]
    all_words = [words for words in all_words if words]
    words = [word for words in all_words for word in words]
    per_word = sum(map(syllables, words)) / len(words)
    return 206.835 - 1.015 * len(words) / len(all_words) - 84.6 * per_word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_easy_to_read(page):
    assert reading_ease(page.read_text(encoding="utf-8")) >= LEAST


def test_a_page_in_long_words_is_reported():
    text = (
        "Simultaneous variational approximation of hierarchical nonparametric "
        "posterior distributions necessitates sophisticated initialisation "
        "methodology. Computational considerations determine truncation."
    )
    assert reading_ease(text) < LEAST
