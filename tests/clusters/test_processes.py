"""Clusters of processes: the guide's example, and faults that nobody scripts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.weekly
def test_the_example_of_the_guide_runs(tmp_path):
    text = (ROOT / "doc" / "guide" / "cluster.rst").read_text()
    block = re.search(r"\.\. code-block:: python\n\n((?:(?:   .*)?\n)+)", text)
    lines = [line[3:] for line in block[1].splitlines()]
    script = tmp_path / "example.py"
    script.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 (100.0 %)")
    assert done.stdout.count("%") == 10  # nodes


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("name", "kind", "n_drivers"), [("DependentTrees", "wake", 1), ("HDP", "kill", 0)]
)
def test_lost_workers_and_drivers_change_no_bit(name, kind, n_drivers):
    script = ROOT / "benchmarks" / "dask_faults.py"
    command = [sys.executable, script, name, "--fits", "1", "--kinds", kind]
    command += ["--drivers", str(n_drivers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "False" not in done.stdout
