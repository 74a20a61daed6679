"""The documentation names all that is public, its examples run, and links lead home."""

import doctest
import importlib
import re
import warnings
from pathlib import Path

import pytest

from skbnp import datasets

pytestmark = pytest.mark.usefixtures("all_splits_in_module")

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"
PUBLIC_MODULES = [
    "skbnp",
    "skbnp.callbacks",
    "skbnp.dask",
    "skbnp.datasets",
    "skbnp.inspection",
    "skbnp.metrics",
]
#: What is built, and kept out of version control.
BUILT = {"_build", "auto_examples", "generated", "backreferences"}


def sources(*suffixes):
    return sorted(
        path
        for path in DOC.rglob("*")
        if path.suffix in suffixes and not BUILT & set(path.relative_to(DOC).parts)
    )


# -- the reference is complete ---------------------------------------------------------


def listed(text):
    """Full names in the tables of a page, and those it describes itself."""
    names, module, in_table = set(), "", False
    for line in text.splitlines():
        directive = re.match(r"\.\. (?:py:)?([\w-]+):: *(\S*)", line)
        if directive:
            in_table = directive[1] == "autosummary"
            if directive[1] == "currentmodule":
                module = directive[2]
            elif directive[1] == "data":
                names.add(f"{module}.{directive[2]}")
        elif in_table and re.fullmatch(r"   \w[\w.]*", line):
            names.add(f"{module}.{line.strip()}")
        elif line and not line.startswith(" "):
            in_table = False
    return names


@pytest.fixture(scope="module")
def reference():
    return (DOC / "api" / "index.rst").read_text(encoding="utf-8")


def test_reference_lists_the_public_names(reference):
    public = {
        f"{module}.{name}"
        for module in PUBLIC_MODULES
        for name in importlib.import_module(module).__all__
    }
    others = {  # what functions return, and settings of estimators
        name
        for name in listed(reference) - public
        if name.rpartition(".")[0] not in ("skbnp.estimators", "skbnp.trees")
    }
    assert public <= listed(reference)
    assert others == {"skbnp.inspection.TopicGroups"}


# -- pages -----------------------------------------------------------------------------


def failures(page):
    """How many examples of a page print something else."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.testfile(str(page), False, report=False, optionflags=options).failed


@pytest.mark.long
@pytest.mark.parametrize("page", sources(".rst"), ids=lambda p: str(p.relative_to(DOC)))
def test_examples_of_a_page_run(page):
    assert not failures(page)


def test_start_page_and_readme_show_the_same_lines():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    shown = re.sub(r"^(?=.)", "   ", lines, flags=re.MULTILINE)
    assert shown in (DOC / "index.rst").read_text(encoding="utf-8")


# -- examples --------------------------------------------------------------------------


@pytest.mark.parametrize("script", sorted((ROOT / "examples").rglob("plot_*.py")))
def test_gallery_example_has_title_and_stands_in_a_folder_with_a_header(script):
    first = script.read_text(encoding="utf-8").split('"""')[1].strip().splitlines()
    assert re.fullmatch("=+", first[1])
    assert len(first[0]) == len(first[1])
    assert (script.parent / "GALLERY_HEADER.rst").is_file()


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
        bunch.data = bunch.data[::25]
        return bunch

    monkeypatch.setattr(datasets, "load_docstrings", some)
    with warnings.catch_warnings(action="ignore"):
        exec(block("python"), {})
    shown, printed = block("text"), capsys.readouterr().out
    assert layout(printed) == layout(shown)


@pytest.mark.parametrize("language", ["python", "text"])
def test_lines_fit_a_terminal(language):
    assert max(map(len, block(language).splitlines())) <= 88
