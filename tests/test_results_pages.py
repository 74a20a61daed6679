"""Pages of results name how they were made, and those that are older than the code."""

import ast
import importlib
import re
import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
# Not on the path of modules, on which it hides folders of tests of the same names.
pages = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "pages.py")))
CASES = [
    page
    for _, scripts, listed in pages.rows()
    for page in listed
    if scripts == ["topic_numbers.py"]
]


def test_every_page_is_in_the_index_and_names_how_it_was_made():
    indexed = [page for _, _, listed in pages.rows() for page in listed]
    assert sorted(indexed) == sorted(
        path.stem for path in (ROOT / "benchmarks" / "results").glob("*.md")
    )
    for page in indexed:
        assert {"machine", "commit", "command", "date"} <= {*pages.environment(page)}


def test_the_index_has_the_days_of_its_pages():
    lines = pages.INDEX.read_text(encoding="utf-8").splitlines()
    for number, _, listed in pages.rows():
        assert lines[number] == pages.dated(lines[number], listed)


def test_every_page_and_figure_of_the_papers_is_listed():
    folder = ROOT / "benchmarks" / "papers"
    names = tuple({path.stem.split("_")[0] for path in folder.glob("*.py")})
    text = (folder / "README.md").read_text(encoding="utf-8")
    listed = {*re.findall(r"\(\.\./results/([\w.]+)\)", text)}
    made = {
        path.name
        for path in (ROOT / "benchmarks" / "results").iterdir()
        if path.suffix in (".md", ".png")
    }
    assert listed <= made
    assert {name for name in made if name.startswith(names)} <= listed
    rows = [line.strip("|").split("|") for line in text.splitlines() if line[:1] == "|"]
    assert all(cell.strip() for row in rows for cell in row)


STATES = "as printed", "changed", "not run", "added", "no result"


def states(text):
    """Second cell of each row of the tables of a text, without their heads."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line[:1] == "|"]
    return [row[1].strip() for row in rows if row[1].strip() not in ("here", "---")]


def test_every_algorithm_table_and_figure_of_the_papers_has_a_state():
    text = (ROOT / "benchmarks" / "papers" / "README.md").read_text(encoding="utf-8")
    found = states(text)
    assert len(found) > 80
    assert [state for state in found if not state.startswith(STATES)] == []
    assert not states("| x | nearly |")[0].startswith(STATES)


def test_samplers_of_the_papers_have_no_burstiness():
    """Which is on by default, and in none of the papers."""
    script = ROOT / "benchmarks" / "papers" / "wang2012.py"
    made = [
        {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "GibbsHDP"
    ]
    assert len(made) == 3
    assert {keywords.get("burstiness") for keywords in made} == {"False"}


def test_pages_depend_on_what_their_scripts_import():
    files = pages.depends_on(["papers/wang2012.py"])
    for name in ("chain", "model"):
        assert f"skbnp/models/hdp_franchise/{name}.py" in files
    assert {"benchmarks/common.py", "skbnp/kernels/_franchise.pyx"} <= {*files}
    assert not any("models/hca" in name for name in files)
    assert not any(name.startswith(pages.APART) for name in files)


@pytest.fixture
def topic_numbers(monkeypatch):
    """Imported when it is needed: it sets numbers of threads."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("topic_numbers")


def test_cases_are_listed(topic_numbers):
    assert {*CASES} == topic_numbers.CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_the_page_of_a_case_follows_from_its_text_and_its_rows(
    name, topic_numbers, tmp_path, monkeypatch
):
    stored = ROOT / "benchmarks" / "results"
    for suffix in ("json", "md"):
        shutil.copy(stored / f"{name}.{suffix}", tmp_path)
    path, old = tmp_path / f"{name}.md", (stored / f"{name}.md").read_bytes()
    path.write_bytes(b"".join(old.partition(b"\n(python ")[:2]))
    monkeypatch.setattr(topic_numbers.common, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["topic_numbers.py", name, "--write"])
    topic_numbers.main("", topic_numbers.CASES)
    assert path.read_bytes() == old
