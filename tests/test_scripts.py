"""Benchmarks and examples run, on tiny corpora and with few passes.

Left out are scripts that need other packages or minutes (`LONG`); the quick start is
run by `.ci/run`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from checks.corpora import topic_counts
from skbnp import GibbsHDP

ROOT = Path(__file__).parents[1]
RUNNER = Path(__file__).parent / "script_runner.py"

SCRIPTS = {
    "benchmarks/hdp_against_lda.py": ["ap"],
    "benchmarks/hdp_moves_cost.py": [],
    "benchmarks/hdp_starts.py": [],
    "benchmarks/hdp_stream.py": ["dates"],
    "benchmarks/kernels.py": ["--runs", "1"],
    "benchmarks/papers/bryant2012_nips.py": ["0.2"],
    "benchmarks/papers/wang2011.py": ["stream", "--seconds", "0.2"],
    "benchmarks/papers/wang2012.py": ["similarity", "--sweeps", "5"],
    "examples/hdp/plot_number_of_topics.py": [],
}
LONG = {
    "benchmarks/estimators.py",
    "benchmarks/gibbs.py",
    "benchmarks/hdp_defaults.py",
    "benchmarks/hdp_topic_numbers.py",
    "benchmarks/nested.py",
    "benchmarks/peers.py",
    "benchmarks/planted_trees.py",
    "benchmarks/sticks.py",
    "benchmarks/papers/bryant2012_bars.py",
    "benchmarks/papers/wang2009.py",
    "examples/quickstart.py",
    "examples/trees/plot_docstring_tree.py",
}
#: No scripts.
SHARED = {"benchmarks/common.py", "benchmarks/corpora.py", "benchmarks/hlda.py"}


def test_every_script_is_known():
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert found == {*SCRIPTS, *LONG, *SHARED}


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_runs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, RUNNER, tmp_path, script, *SCRIPTS[script]],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_run_of_a_sampler_is_the_fit_sweep_by_sweep(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from common import GibbsRun

    counts = topic_counts(30, 20)
    hdp = GibbsHDP(max_iter=4, random_state=0)
    run = GibbsRun(hdp, counts)
    joints = [run.step()["log_joint"] for _ in range(4)]
    assert joints == hdp.fit(counts).history_["log_joint"]
