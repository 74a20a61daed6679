"""Print what a reader may want to change: words, commands, long modules.

``python tests/report.py`` prints lists, and never fails: a correct change may add to
them. A workflow runs it each week.
"""

import ast
import re
import runpy
import shlex
from pathlib import Path

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

#: Lines of a module of models or of inference.
LONG_MODULE = 1_000


def long_modules():
    """Modules of models and inference of more than `LONG_MODULE` lines."""
    for part in ("models", "inference"):
        for path in sorted((PACKAGE / part).rglob("*.py")):
            n_lines = len(path.read_text(encoding="utf-8").splitlines())
            if n_lines > LONG_MODULE:
                yield f"{path.relative_to(ROOT)}: {n_lines}"


def _constants(path):
    """Yield names in capitals of a module, their numbers, and whether it has a `#:`."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets for part in ast.walk(target)]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        numbers = [
            part.value
            for part in ast.walk(node.value)
            if isinstance(part, ast.Constant) and type(part.value) in (int, float)
        ]
        if numbers and all(name.strip("_").isupper() for name in names):
            yield names, numbers, lines[node.lineno - 2].startswith("#:")


def numbers_of_modules():
    """Numbers that constants of modules have, by folder; constants without comment."""
    total, without = {}, []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        for names, numbers, has_comment in _constants(path):
            for key in ("all", str(place.parent)):
                n_names, n_numbers = total.get(key, (0, 0))
                total[key] = n_names + len(names), n_numbers + len(numbers)
            if not has_comment:
                without.append(f"without comment: {place}: {', '.join(names)}")
    for key, (n_names, n_numbers) in total.items():
        yield f"{key}: {n_numbers} numbers, {n_names} names"
    yield from without


def main():
    """Print all lists."""
    for make in (
        unknown_names,
        commands_that_nothing_runs,
        long_modules,
        numbers_of_modules,
    ):
        try:
            lines = [str(line) for line in make()]
        except Exception as error:
            lines = [f"not made: {type(error).__name__}: {error}"]
        title = make.__doc__.partition("\n")[0]
        print(f"\n{title}", *(lines or ["none"]), sep="\n  ")


if __name__ == "__main__":
    main()
