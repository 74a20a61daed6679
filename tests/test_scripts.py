"""Benchmarks and examples run, on tiny corpora and with few passes.

One runs every day, further examples with what takes long, benchmarks each week.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from checks.corpora import topic_counts
from skbnp import GibbsHDP

ROOT = Path(__file__).parents[1]
RUNNER = Path(__file__).parent / "script_runner.py"

EXAMPLES = [path.relative_to(ROOT) for path in sorted(ROOT.glob("examples/**/*.py"))]
#: The one of each day.
FIRST = "plot_seed_words.py"
#: Arguments of each script, or of each case of one.
WEEKLY = {
    "benchmarks/builds.py": ["--runs", "1"],
    "benchmarks/burstiness.py burstiness": ["--corpus", "jacm", "--seed", "0"],
    "benchmarks/burstiness.py burstiness_numbers": ["--at_most", "80", "--seed", "0"],
    "benchmarks/burstiness.py burstiness_passes": ["--corpus", "ap", "draw"],
    "benchmarks/burstiness.py burstiness_planted": ["--c", "20.0", "--draw", "0"],
    "benchmarks/burstiness.py burstiness_streams": [
        *("--corpus", "ap", "--chunk", "100", "--seed", "0"),
    ],
    "benchmarks/burstiness_cost.py": ["--runs", "1", "--share", "0.1"],
    "benchmarks/dask_hdp.py": [
        *("quality", "traffic", "--corpora", "nips_abstracts"),
        *("--rounds", "8", "--seeds", "0"),
    ],
    "benchmarks/dependent_trees.py": [
        *("planted", "drift", "text", "large"),
        *("--corpora", "sotu", "--seeds", "0", "--minutes", "0.01"),
    ],
    "benchmarks/dask_scaling.py": ["model"],
    "benchmarks/digests.py": ["record", "hdp-fixed", "trees"],
    "benchmarks/dependent_trees_cost.py": [],
    "benchmarks/sphere.py": ["--runs", "1"],
    "benchmarks/components.py": ["planted", "noise", "--seeds", "200"],
    "benchmarks/estimators.py": ["single", "--runs", "1", "--share", "0.02"],
    "benchmarks/fit_shares.py": ["100 short documents", "--runs", "1"],
    "benchmarks/fold_in.py": ["5 flat topics", "--seeds", "0"],
    "benchmarks/kernels.py": ["--runs", "1"],
    "benchmarks/nested.py": ["fits", "--runs", "1", "--documents", "60"],
    "benchmarks/planted_trees.py": [
        *("--recipes", "gibbs", "--settings", "balanced-1"),
        *("--seeds", "1"),
    ],
    "benchmarks/shares_coverage.py": [
        *("--models", "HDP", "--tokens", "60", "--seeds", "0", "0"),
    ],
    "benchmarks/signature_recipes.py": [
        *("--recipes", "HDP, mean field", "--seeds", "0", "0"),
    ],
    "benchmarks/speed_targets.py": ["jacm", "--runs", "1"],
    "benchmarks/groups.py groups_planted": [
        *("--concentration", "20", "--flattest", "1", "--labels", "own", "--seed", "0"),
    ],
    "benchmarks/stream_nights.py": [
        *("--corpus", "ap", "--order", "in order", "--seed", "0"),
    ],
    "benchmarks/stream_alerts.py stream_300_nights": [],
    "benchmarks/stream_alerts.py stream_alerts": [
        *("--stream", "planted", "--rate", "120", "--seed", "0"),
    ],
    "benchmarks/stream_alerts.py stream_alerts_quiet": [
        *("--stream", "ap", "--seed", "0"),
    ],
    "benchmarks/stream_alerts.py stream_alerts_settings": [
        *("--stream", "planted, shared words", "--rate", "20", "--seed", "0"),
    ],
    "benchmarks/topic_numbers.py few_signatures": ["--draw", "0", "1"],
    "benchmarks/topic_numbers.py short_documents": [
        *("--corpus", "mixtures 3", "--documents", "1000", "--sample", "0"),
    ],
    "benchmarks/topic_numbers.py gibbs_topic_prior": [],
    "benchmarks/topic_numbers.py hdp_starts": [],
    "benchmarks/topic_numbers.py hdp_stream": [],
    "benchmarks/topic_numbers.py hdp_stream_late": [
        *("--documents", "4000", "--begin", "0.5", "--chunk", "500"),
    ],
    "benchmarks/topic_numbers.py hdp_stream_planted": ["--corpus", "bars 5x5, 300"],
    "benchmarks/topic_numbers.py hdp_stream_quiet": ["--chunk", "20", "--start", "2"],
    "benchmarks/topic_numbers.py hdp_topic_numbers": [
        *("--corpus", "ap", "bars 5x5, 300", "--method", "online"),
        *("--start", "10", "--seed", "0"),
    ],
    "benchmarks/fewer_topics.py": ["--corpus", "jacm", "--n", "5"],
    "benchmarks/topic_quality.py": ["jacm", "--fits", "2"],
    "benchmarks/papers/bryant2012_bars.py": ["--starts", "2", "--seeds", "0"],
    "benchmarks/papers/bryant2012_nips.py": [
        *("curves", "split", "--seconds", "0.2", "--updates", "8"),
    ],
    "benchmarks/papers/departures.py": [
        "--what",
        "BS12, concentrations",
        "--seed",
        "0",
    ],
    "benchmarks/papers/hu2015.py": [
        *("table", "curves", "threads", "growth", "tree", "planted"),
        *("--corpora", "sotu", "--seeds", "0", "--sweeps", "4", "--rows", "20"),
    ],
    "benchmarks/papers/wang2009.py": ["tree", "digits", "--seeds", "1"],
    "benchmarks/papers/wang2011.py": [
        *("stream", "grid", "--seconds", "0.01", "--share", "0.02"),
    ],
    "benchmarks/papers/wang2012.py": ["--runs", "1", "--sweeps", "5"],
}
#: These need other packages with topic models.
PACKAGES = ("gensim", "tomotopy")
PEERS = {
    "benchmarks/equal_topics.py": [
        *("--corpus", "jacm", "--K", "None", "20", "--seconds", "0.2", "--most", "2"),
    ],
    "benchmarks/gibbs.py": [
        *("speed", "quality", "scaling", "--seconds", "0.5", "--runs", "1"),
    ],
    "benchmarks/nested_hdp.py": ["jacm", "--seeds", "2"],
    "benchmarks/peers.py": [
        *("ap", "--seeds", "0", "--seconds", "0.2", "--sizes", "20"),
    ],
    "benchmarks/sticks.py": ["loop", "--runs", "1"],
    "benchmarks/topic_numbers.py few_documents": [
        *("--corpus", "jacm", "--split", "0", "1", "--limit", "0.2"),
        *("--model", "HDP", "tomotopy LDA"),
    ],
    "benchmarks/topic_numbers.py few_short_texts": [
        *("--documents", "30", "--sample", "0", "--limit", "0.2"),
    ],
}
HAS_PEERS = all(map(find_spec, PACKAGES))
#: Run by `clusters/test_faults.py`, and by those who may make networks.
ELSEWHERE = {"benchmarks/dask_faults.py", "benchmarks/dask_hosts.py"}
#: No scripts.
SHARED = {
    f"benchmarks/{name}.py"
    for name in ("common", "corpora", "draws", "hlda", "pages", "sweep")
}


def test_every_benchmark_is_known():
    paths = (ROOT / "benchmarks").rglob("*.py")
    result = {path.relative_to(ROOT).as_posix() for path in paths}
    listed = {*WEEKLY, *PEERS, *ELSEWHERE, *SHARED}
    assert result == {command.split(" ")[0] for command in listed}


@pytest.fixture(scope="module")
def runner():
    """A process that has made the imports of all scripts, and runs each in a copy."""
    with subprocess.Popen(
        [sys.executable, RUNNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def run(runner, script, arguments, folder):
    command = [str(folder), *script.split(" "), *arguments]
    print(json.dumps(command), file=runner.stdin, flush=True)
    status = runner.stdout.readline()
    assert status == "0\n", (folder / "log.txt").read_text()[-2000:]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(one.as_posix(), marks=[pytest.mark.long] * (one.name != FIRST))
        for one in EXAMPLES
    ],
)
def test_example_runs(script, runner, tmp_path):
    run(runner, script, [], tmp_path)


@pytest.mark.weekly
@pytest.mark.parametrize("script", [*WEEKLY, *(PEERS if HAS_PEERS else [])])
def test_benchmark_runs(script, runner, tmp_path):
    run(runner, script, (WEEKLY | PEERS)[script], tmp_path)


@pytest.mark.long
def test_run_of_a_sampler_is_the_fit_sweep_by_sweep(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from common import GibbsRun

    counts = topic_counts(30, 20)
    hdp = GibbsHDP(max_iter=4, random_state=0)
    run = GibbsRun(hdp, counts)
    joints = [run.step()["log_joint"] for _ in range(4)]
    assert joints == hdp.fit(counts).history_["log_joint"]
