"""Which pages of results are older than the code that they measure.

`README.md` is the index: each row names a script and its pages. A page depends on its
script, on the modules of the package that the script imports, and on all that these
import. `pages.py outdated` counts, for each page, the later commits that changed one of
these files; `pages.py dates` writes the last column of the index, the day on which the
oldest page of a row was measured.
"""

import argparse
import ast
import json
import re
import subprocess
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
INDEX = HERE / "README.md"
#: What a page names: where, from what, how, when and at what cost it was measured.
NAMED = ("machine", "commit", "command", "date", "CPU s")
#: Files, forms and messages, which no measured number depends on. The forms import all
#: models.
APART = (
    "skbnp/callbacks.py",
    "skbnp/estimators/_cautions.py",
    "skbnp/estimators/_checkpoints.py",
    "skbnp/estimators/_saved.py",
    "skbnp/inspection/",
    "skbnp/models/forms.py",
    "skbnp/saving.py",
    "skbnp/utils/",
)


def rows():
    """Yield (line number, scripts, pages) of each row of the index."""
    for number, line in enumerate(INDEX.read_text(encoding="utf-8").splitlines()):
        pages = re.findall(r"\(results/(\w+)\.md\)", line)
        if line.startswith("|") and pages:
            yield number, re.findall(r"`([\w/]+\.py)[^`]*`", line.split("|")[2]), pages


def environment(page):
    """What a page names of its making; of pages without JSON, its line in brackets."""
    path = HERE / "results" / f"{page}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))["environment"]
    text = path.with_suffix(".md").read_text(encoding="utf-8").replace("\n", " ")
    listed = re.search(r"\((python \d[^)]*)\)", text)
    named = listed[1].split(", ") if listed else []
    return {
        key: entry.removeprefix(f"{key} ")
        for key in NAMED
        for entry in named
        if entry.startswith(f"{key} ")
    }


# -- what a page depends on ------------------------------------------------------------


def _file_of(module):
    """File of a module of the package or of the benchmarks, or None."""
    for root in (ROOT, HERE):
        path = root.joinpath(*module.split("."))
        for file in (path.with_suffix(".py"), path.with_suffix(".pyx")):
            if file.exists():
                return file
    return None


@cache
def _lazy():
    """Module of each public name of the package, which imports them when asked."""
    init = ast.parse((ROOT / "skbnp/estimators/__init__.py").read_text("utf-8"))
    return {
        alias.name: node.module
        for node in ast.walk(init)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@cache
def imports(file):
    """Files that a file imports, anywhere in it; of packages, those of the names."""
    found = set()
    if file.suffix == ".pyx":
        names = re.findall(r"skbnp\.kernels\.(\w+) cimport", file.read_text("utf-8"))
        return {file.with_name(f"{name}.pyx") for name in names} & set(
            file.parent.glob("*.pyx")
        )
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                module = node.module
                if module in ("skbnp", "skbnp.estimators"):
                    module = _lazy().get(alias.name, module)
                found |= {_file_of(module), _file_of(f"{module}.{alias.name}")}
        elif isinstance(node, ast.Import):
            found |= {_file_of(alias.name) for alias in node.names}
    return found - {None}


def depends_on(scripts):
    """Files of the repository that results of some scripts follow from."""
    waiting, names = [HERE / script for script in scripts], set()
    while waiting:
        file = waiting.pop()
        name = file.relative_to(ROOT).as_posix()
        if name not in names and not name.startswith(APART):
            names.add(name)
            waiting += imports(file)
    return sorted(names)


# -- what has changed since ------------------------------------------------------------


def git(*arguments):
    """Lines that git prints."""
    command = ["git", "-C", str(ROOT), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def changes(commit, files):
    """Subjects of the commits since one that changed some files; None if unknown."""
    name = commit.removeprefix("before ").removesuffix("+")
    try:
        return git("log", "--format=%h %s", f"{name}..HEAD", "--", *files)
    except subprocess.CalledProcessError:
        return None


def outdated():
    """List (page, commit, changes since, what it lacks), most changes first."""
    result = []
    for _, scripts, pages in rows():
        files = depends_on(scripts)
        for page in pages:
            known = environment(page)
            since = changes(known.get("commit", "unknown"), files)
            lacks = [name for name in NAMED if name not in known]
            if since is None or since or lacks:
                result.append((page, known.get("commit"), since, lacks))
    return sorted(result, key=lambda entry: -len(entry[2] or ()))


def dated(line, pages):
    """A row of the index with the day of its oldest page in the last column."""
    days = [environment(page).get("date", "unknown") for page in pages]
    cells = line.strip().strip("|").split("|")[:3]
    return f"|{'|'.join(cells)}| {min(days)} |"


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["outdated", "dates"])
    if parser.parse_args().what == "dates":
        lines = INDEX.read_text(encoding="utf-8").splitlines()
        for number, _, pages in rows():
            lines[number] = dated(lines[number], pages)
        INDEX.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    for page, commit, since, lacks in outdated():
        number = "unknown" if since is None else len(since)
        without = f", does not name {', '.join(lacks)}" if lacks else ""
        print(f"{page}: {number} changes since {commit}{without}")


if __name__ == "__main__":
    main()
