"""Ctrl-C ends a fit soon, and leaves the state of the last complete update."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import skbnp
from checks.interrupt_runner import WATCHED

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a thread cannot interrupt the main thread there"
)

RUNNER = Path(__file__).with_name("interrupt_runner.py")


def run(*cases):
    """Return what was seen, case by case, in one process for all of them."""
    done = subprocess.run(
        [sys.executable, str(RUNNER), *cases],
        capture_output=True,
        text=True,
        timeout=60 * len(cases),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.weekly
def test_interrupt_at_any_line_leaves_the_last_complete_update():
    result = run(
        "lines-fit:HDP-online:1",
        "lines-partial_fit:HDP-mean-field-online:1",
        "lines-fit:HierarchicalComponentAnalysis-moves:1",
    )
    for case, seen in result.items():
        assert seen["n_places"] > 50, case
        assert not seen["found"], (case, seen["found"][:10])


def is_defined(file, name):
    """Whether a function of that name is in a file of that name."""
    paths = Path(skbnp.__file__).parent.rglob(file)
    return any(f"def {name}(" in path.read_text(encoding="utf-8") for path in paths)


def test_all_watched_functions_exist():
    assert [pair for pair in WATCHED if not is_defined(*pair)] == []
    assert not is_defined("engine.py", "nothing")
