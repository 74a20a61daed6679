"""A posterior that learned beside another takes its place."""

from skbnp.inference.interrupts import commit
from skbnp.inference.monitor import Monitor
from skbnp.models.hdp.moves.memory import MoveRecords
from skbnp.models.hdp.posterior import HDPPosterior

__all__ = ["adopt"]


def adopt(posterior: HDPPosterior, candidate: HDPPosterior, monitor: Monitor) -> None:
    """Take over what a candidate that began as a posterior has learned: an update.

    Its log goes on from here; ids that came and went meanwhile are left out.
    """
    log = candidate.lineage[len(posterior.lineage) :]
    born = {entry.children for entry in log if entry.kind == "birth"}
    gone = {entry.parents for entry in log if entry.kind == "prune"}
    merged = {n for entry in log if entry.kind == "merge" for n in entry.parents}
    passing = {name for (name,) in born & gone} - merged
    log = [
        entry._replace(step=posterior.n_steps + 1)
        for entry in log
        if passing.isdisjoint(entry.parents + entry.children)
    ]
    with commit():
        posterior.replace_globals(candidate.state, candidate.global_stats)
        posterior.ids, posterior.init_fraction = candidate.ids, candidate.init_fraction
        posterior.move_records = MoveRecords()  # its topics are others
        posterior.n_steps += 1
        posterior.lineage = [*posterior.lineage, *log]
        posterior.record(monitor)
