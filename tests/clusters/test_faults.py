"""What comes over a fit on workers, and ends it, changes no bit."""

import pickle
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from checks.long import daily
from checks.worker_pools import FAULTS, ScriptedPool, scripted_workers
from clusters.fits import COUNTS, FITS, X, assert_same_fit, undisturbed
from skbnp.utils.archive import FitFile

BOTH = "HDP", "DependentTrees"
EACH = *BOTH, "HDP-mean-field"


@pytest.mark.parametrize("place", daily(2, [(2, 1), (None, 4), (2, 4), (None, 1)]))
@pytest.mark.parametrize("name", EACH)
def test_bits_do_not_depend_on_workers(name, place):
    shards_per_round, n_workers = place
    pool = ScriptedPool(n_workers, n_threads=n_workers)
    with scripted_workers(pool) as client:
        fit = FITS[name](shards_per_round=shards_per_round, client=client)
    assert_same_fit(fit, undisturbed(name, shards_per_round=shards_per_round))
    assert pool.is_closed
    assert {entry.kind for entry in fit.lineage_} > {"init"}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", BOTH)
def test_faults_change_no_bit(name, order):
    """All kinds in one fit; `test_shards` has each call of a conversation."""
    pool = ScriptedPool(4, dict(zip(range(3, 60, 7), FAULTS[::order], strict=False)))
    with scripted_workers(pool) as client:
        assert_same_fit(FITS[name](client=client), undisturbed(name))
    assert not pool.script


# -- files -----------------------------------------------------------------------------


class KilledError(BaseException):
    """The driver has died."""


def stopped_after(n_passes, fit, **settings):
    """Whether a fit that is killed after so many checkpoints was."""
    write, n_written = FitFile.write, []

    def write_some(self, *args):
        write(self, *args)
        n_written.append(None)
        if len(n_written) == n_passes:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FitFile, "write", write_some)
        try:
            fit(**settings)
        except KilledError:
            return True
    return False


@pytest.mark.weekly
@pytest.mark.parametrize("shards_per_round", [None, 2])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_goes_on_from_any_checkpoint(tmp_path, name, shards_per_round):
    """As if nothing had stopped it, in this process or on workers."""
    settings = {"shards_per_round": shards_per_round}
    alone = undisturbed(name, **settings)
    settings |= {"path": tmp_path / "fit"}
    for number in count(1):
        if not stopped_after(number, FITS[name], **settings):
            break
        if number % 2:
            fit = FITS[name](**settings)
        else:
            with scripted_workers(ScriptedPool(2)) as client:
                fit = FITS[name](**settings, client=client)
        assert_same_fit(fit, alone)
    assert number > 3


@pytest.mark.parametrize("name", BOTH)
def test_saved_estimators_have_no_client(name):
    with scripted_workers(ScriptedPool(1)) as client:
        again = pickle.loads(pickle.dumps(FITS[name](client=client)))
    assert again.client is None
    assert_same_fit(again, undisturbed(name))
    rows = COUNTS if name == "HDP" else X
    assert len(again.transform(rows)) == rows.shape[0]


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
