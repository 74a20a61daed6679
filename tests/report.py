"""Print what a reader may want to change: words, long pages.

``python tests/report.py`` prints lists, and never fails: a correct change may add to
them. A workflow runs it each week.
"""

import ast
import inspect
import re
import runpy
import shlex
import sys
import warnings
from pathlib import Path

from numpydoc.docscrape import NumpyDocString

import skbnp
from skbnp import HDP
from skbnp.datasets import make_bars

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "skbnp"

# -- names of the glossary -------------------------------------------------------------


def _names(path):
    """Yield identifiers of a file, and the lines where they stand."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        for field in ("id", "attr", "arg", "name", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name, getattr(node, "lineno", 0)


def unknown_names():
    """Identifiers of the glossary that are not in the code."""
    page = (ROOT / "doc/developer/glossary.rst").read_text("utf-8")
    cells = re.findall(r"\* - (``.*)\n", page)
    listed = {name for cell in cells for name in re.findall(r"``(\w+)``", cell)}
    used = {name for path in PACKAGE.rglob("*.py") for name, _ in _names(path)}
    yield from sorted(listed - used)


# -- pages -----------------------------------------------------------------------------

PAGES = [
    ROOT / "README.md",
    ROOT / "doc" / "index.rst",
    *sorted((ROOT / "doc" / "guide").rglob("*.rst")),
]
#: Reading ease of plain English; papers of this field are at 20 to 30.
LEAST_EASE = 50.0
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


def _sentences(text):
    """Split the prose of a page into sentences; an item of a list ends one."""
    text = ROLE.sub(r"\1", BLOCKS.sub("\n\n", text))
    for paragraph in re.split(r"\n\s*\n", ITEM.sub("\n\n", text)):
        yield from re.split(r"[.!?:]\s+", paragraph + " ")


def _syllables(word):
    """Count groups of vowels, but for a silent e in the end."""
    return max(1, len(re.findall(r"[aeiouy]+", re.sub(r"e$", "", word.lower()))))


def _reading_ease(text):
    """Return 206.8 - 1.015 words per sentence - 84.6 syllables per word (Flesch)."""
    all_words = [re.findall(r"[A-Za-z]+", sentence) for sentence in _sentences(text)]
    all_words = [words for words in all_words if words]
    words = [word for words in all_words for word in words]
    per_word = sum(map(_syllables, words)) / len(words)
    return 206.835 - 1.015 * len(words) / len(all_words) - 84.6 * per_word


def hard_pages():
    """Pages of users whose reading ease is below `LEAST_EASE`."""
    for page in PAGES:
        ease = _reading_ease(page.read_text(encoding="utf-8"))
        if ease < LEAST_EASE:
            yield f"{page.relative_to(ROOT)}: {ease:.0f}"


#: What begins a command; commands that `.ci/run` runs in another form.
TOOLS = r"(?:(?:\w+=\S+ )*(?:python3? (?:-m|\S+\.py)|pip|pytest|sphinx-build|dask))"
IN_ANOTHER_FORM = {
    "sphinx-build -W --keep-going doc doc/_build/html",
    "sphinx-build -W --keep-going -D plot_gallery=0 doc doc/_build/html",
    "pytest tests/test_docs.py tests/test_docstrings.py",
    "pytest -n auto -m long",
    "SKBNP_PORTABLE=1 pip install",
}


def _split(text):
    """Return the commands of a few lines, without comments, pip by its short name."""
    return {
        re.sub(r"^python -m pip ", "pip ", command.strip())
        for line in text.splitlines()
        for command in line.split("  #")[0].split(" && ")
    }


def commands_that_nothing_runs():
    """Commands of pages that `.ci/run` does not run (several hosts cannot be had)."""
    blocks = runpy.run_path(str(ROOT / ".ci" / "page_commands.py"))["blocks"]
    runner, run = (ROOT / ".ci" / "run").read_text(encoding="utf-8"), IN_ANOTHER_FORM
    for call in re.findall(r'\bblock \S+ (?:"[^"]+"|\S+) \d+', runner):
        _, page, section, number = shlex.split(call)
        run = run | _split(blocks(ROOT / page)[section, int(number)])
    developers = sorted((ROOT / "doc" / "developer").rglob("*.rst"))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", *developers]:
        text = page.read_text(encoding="utf-8")
        within = re.findall(rf"(?<!`)`{{1,2}}({TOOLS}\s[^`]+)`{{1,2}}", text)
        within = [command.replace("\n", " ") for command in within]
        shown = set().union(*map(_split, [*blocks(page).values(), *within]))
        for command in sorted(shown - run):
            if "10.0.0.1" not in command and "--protocol tls" not in command:
                yield f"{page.relative_to(ROOT)}: {command}"


# -- code ------------------------------------------------------------------------------

#: Lines of a module of models or of inference, and of a docstring of an estimator.
LONG_MODULE, LONG_DOCSTRING = 1_000, 150


def long_modules():
    """Modules of models and inference of more than `LONG_MODULE` lines."""
    for part in ("models", "inference"):
        for path in sorted((PACKAGE / part).rglob("*.py")):
            n_lines = len(path.read_text(encoding="utf-8").splitlines())
            if n_lines > LONG_MODULE:
                yield f"{path.relative_to(ROOT)}: {n_lines}"


def called_in_a_fit():
    """How many files and functions a default fit of `HDP` runs, trials included."""
    X = make_bars(60, random_state=0).data
    HDP(max_iter=1, random_state=0).fit(X)
    called = set()

    def watch(frame, event, _):
        code = frame.f_code
        is_own = event == "call" and code.co_filename.startswith(str(PACKAGE))
        if is_own and "<" not in code.co_qualname:
            called.add((code.co_filename, code.co_qualname))

    sys.setprofile(watch)
    try:
        HDP(max_iter=30, random_state=0).fit(X)
    finally:
        sys.setprofile(None)
    yield f"{len({file for file, _ in called})} files, {len(called)} functions"


def _estimators():
    return [getattr(skbnp.estimators, name) for name in skbnp.estimators.__all__]


def long_docstrings():
    """Docstrings of estimators of more than `LONG_DOCSTRING` lines."""
    for estimator in _estimators():
        n_lines = len(inspect.cleandoc(estimator.__doc__).splitlines())
        if n_lines > LONG_DOCSTRING:
            yield f"{estimator.__name__}: {n_lines}"


def entries_in_several_wordings():
    """Parameters and attributes of estimators with the most texts."""
    texts = {}
    for estimator in _estimators():
        sections = NumpyDocString(inspect.cleandoc(estimator.__doc__))
        for item in sections["Parameters"] + sections["Attributes"]:
            texts.setdefault(item.name, []).append(" ".join(item.desc))
    several = {name: (len({*some}), len(some)) for name, some in texts.items()}
    for name, (n_texts, n) in sorted(several.items(), key=lambda pair: -pair[1][0])[
        :12
    ]:
        yield f"{name}: {n_texts} texts in {n} estimators"


def main():
    """Print all lists."""
    for make in (
        unknown_names,
        hard_pages,
        commands_that_nothing_runs,
        long_modules,
        called_in_a_fit,
        long_docstrings,
        entries_in_several_wordings,
    ):
        try:
            with warnings.catch_warnings(action="ignore"):
                lines = [str(line) for line in make()]
        except Exception as error:
            lines = [f"not made: {type(error).__name__}: {error}"]
        title = make.__doc__.partition("\n")[0]
        print(f"\n{title}", *(lines or ["none"]), sep="\n  ")


if __name__ == "__main__":
    main()
