"""Each command of a page is run by `.ci/run`, or there is a reason why not."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READER = runpy.run_path(str(ROOT / ".ci" / "page_commands.py"))
RUNNER = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "doc").glob("*.rst")),
    *sorted((ROOT / "doc" / "guide").rglob("*.rst")),
    *sorted((ROOT / "doc" / "developer").rglob("*.rst")),
]
#: Commands that `.ci/run` does not take from their page, and what runs them instead.
HOSTS = "several machines: `benchmarks/dask_hosts.py` starts hosts with these options"
ELSEWHERE = {
    "dask scheduler --host 10.0.0.1 --port 8786": HOSTS,
    "dask worker tcp://10.0.0.1:8786 --nworkers 4 --nthreads 1 --memory-limit 16GiB": (
        HOSTS
    ),
    "dask scheduler --protocol tls --tls-ca-file ca.pem --tls-cert me.pem "
    "--tls-key me.key": HOSTS,
    "dask worker tls://10.0.0.1:8786 --tls-ca-file ca.pem --tls-cert me.pem "
    "--tls-key me.key": HOSTS,
    "sphinx-build -W --keep-going doc doc/_build/html": (
        "the README's with warnings as errors; `.github/workflows/docs.yml` runs it"
    ),
    "sphinx-build -W --keep-going -D plot_gallery=0 doc doc/_build/html": (
        "what `.ci/run` makes of the README's"
    ),
    "pytest tests/test_docs.py tests/test_docstrings.py": "a part of `pytest`",
    "pytest -n auto -m long": "`.ci/run`, in the environment of the README",
    "SKBNP_PORTABLE=1 pip install": "`.ci/run` builds the wheel so",
}
TOOLS = r"(?:(?:\w+=\S+ )*(?:python3? (?:-m|\S+\.py)|pip|pytest|sphinx-build|dask))"


def split(text):
    """Return the commands of a few lines, without comments, pip by its short name."""
    return [
        re.sub(r"^python -m pip ", "pip ", command.strip())
        for line in text.splitlines()
        for command in line.split("  #")[0].split(" && ")
    ]


def commands(path):
    """Return the commands of a page, those within its sentences included."""
    text = path.read_text(encoding="utf-8")
    within = re.findall(rf"(?<!`)`{{1,2}}({TOOLS}\s[^`]+)`{{1,2}}", text)
    return {
        command
        for block in [*READER["blocks"](path).values(), *within]
        for command in split(block.replace("\n", " ") if block in within else block)
    }


def run_blocks(runner):
    """Return the blocks that a runner takes from pages: page, section and number."""
    return [
        (page, section, int(number))
        for _, page, section, number in map(
            shlex.split, re.findall(r'\bblock \S+ (?:"[^"]+"|\S+) \d+', runner)
        )
    ]


def are_run(runner):
    return {
        command
        for page, section, number in run_blocks(runner)
        for command in split(READER["blocks"](ROOT / page)[section, number])
    }


def left_out(path, runner=RUNNER):
    return commands(path) - are_run(runner) - ELSEWHERE.keys()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_of_a_page_is_run(path):
    assert not left_out(path)


def test_every_reason_is_for_a_command_of_a_page():
    assert ELSEWHERE.keys() <= set().union(*map(commands, PAGES))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_command_of_a_page_stands_where_it_is_not_read(path):
    """In a block of another language, or of none."""
    text = path.read_text(encoding="utf-8")
    known = set("\n".join(READER["blocks"](path).values()).splitlines())
    lines = {line.strip() for line in re.findall(rf"^ *\$? *{TOOLS} .*", text, re.M)}
    sentences = {line for line in lines if "`" in line}
    assert lines - sentences <= known


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "# Title\n\n```sh\npytest --unknown\n```\n"),
        ("page.md", "Write `pytest --unknown`.\n"),
        ("page.rst", "Title\n=====\n\n.. code-block:: bash\n\n   pytest --unknown\n"),
        ("page.rst", "Write ``pytest\n--unknown``.\n"),
    ],
)
def test_a_command_that_nothing_runs_is_found(tmp_path, name, text):
    page = tmp_path / name
    page.write_text(text)
    assert left_out(page) == {"pytest --unknown"}


def test_a_block_that_the_runner_drops_is_found():
    without = RUNNER.replace('block README.md "Documentation" 1', "true")
    assert 'pip install -e ".[docs]"' in left_out(ROOT / "README.md", without)
