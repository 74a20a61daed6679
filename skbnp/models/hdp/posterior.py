"""The posterior of an HDP with the records of its trials between updates."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.word_topics import WordTopics
from skbnp.inference.executor import commit
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.models.hdp.collapsed_model import CollapsedStats
from skbnp.models.hdp.model import HDPModel, HDPState, HDPStats
from skbnp.models.hdp.outliers import Outliers
from skbnp.models.hdp.reservoir import Reservoir
from skbnp.utils.ranges import Count, Number, Sized
from skbnp.utils.typing import Array

Totals = HDPStats[WordTopics] | CollapsedStats[WordTopics]


@dataclass(slots=True)
class HDPPosterior(Posterior[HDPModel, HDPState, Totals]):
    """Globals of an HDP, and records of trials and documents of a stream."""

    trials_ended: bool = False  # of other numbers of topics
    reservoir: Reservoir | None = None  # documents of a stream that are kept
    #: Smallest and largest number of topics that predict as well as the best.
    alike: tuple[Count, Count] | None = None
    is_cross_fitted: bool = False  # whether each document has judged them
    #: Gain over word frequencies by documents that trials held out, nats per token, and
    #: its standard error.
    held_out_gain: tuple[Number, Number] | None = None
    #: Numbers of topics that trials compared, and the gain of each, nats per token.
    gains: tuple[tuple[Count, Number], ...] = ()
    outliers: Outliers | None = None  # documents of a stream predicted badly
    trials: Any = None  # PausedTrials that go on in the next call
    #: Documents of a stream that topics of trials have missed, to be learned.
    missed: Annotated[sp.csr_array, Sized("n_missed", "n_features", least=0)] | None = (
        None
    )

    @property
    def n_missed(self) -> int:
        """Number of documents of a stream that are to be learned again."""
        return 0 if self.missed is None else self.missed.shape[0]

    def restarted(
        self, topics: WordTopics, weights: Array, kept: NDArray
    ) -> "HDPPosterior":
        """Return a posterior that starts again from some topics and from new ones.

        `topics` begin with those of the columns `kept`; `weights`, (K + 1,).
        """
        names = self.n_named + np.arange(topics.shape[1] - len(kept))
        gone, step = np.delete(self.ids, kept).tolist(), self.n_steps
        log = [Lineage(step, "prune", (name,), ()) for name in gone]
        log += [Lineage(step, "birth", (), (name,)) for name in names.tolist()]
        state = replace(self.state, weights=weights)
        return replace(
            self,
            state=state,
            global_stats=self.model.start(state, topics),
            ids=np.concatenate([self.ids[kept], names]),
            init_fraction=1.0,
            lineage=[*self.lineage, *log],
        )

    def adopt(
        self, candidate: "HDPPosterior", monitor: Monitor, n_logged: int | None = None
    ) -> None:
        """Replace globals and ids in place by those of a candidate: one update.

        The log of changes continues after `n_logged` entries that both have in common;
        topics that began and ended meanwhile are left out.
        """
        log = candidate.lineage[len(self.lineage) if n_logged is None else n_logged :]
        born = {entry.children for entry in log if entry.kind == "birth"}
        gone = {entry.parents for entry in log if entry.kind == "prune"}
        merged = {n for entry in log if entry.kind == "merge" for n in entry.parents}
        passing = {name for (name,) in born & gone} - merged
        log = [
            entry._replace(step=self.n_steps + 1)
            for entry in log
            if passing.isdisjoint(entry.parents + entry.children)
        ]
        if n_logged is not None:  # it may have changed meanwhile
            alive, kept = set(self.ids.tolist()), set(candidate.ids.tolist())
            log = continued(log, alive, kept, self.n_steps + 1)
        with commit():
            self.replace_globals(candidate.state, candidate.global_stats)
            self.ids, self.init_fraction = candidate.ids, candidate.init_fraction
            self.n_steps += 1
            self.lineage = [*self.lineage, *log]
            monitor.record(self)

    def copy(self) -> "HDPPosterior":
        """Return an independent copy."""
        words = self.global_stats.topic_words.copy()
        return replace(self, global_stats=replace(self.global_stats, topic_words=words))


def continued(
    log: list[Lineage], alive: set[int], kept: set[int], step: int
) -> list[Lineage]:
    """Return a log from ids alive to ids kept; those that ended here are revived."""
    result = list[Lineage]()

    def revive(ended: set[int]) -> None:
        result.extend(Lineage(step, "revive", (), (name,)) for name in sorted(ended))
        alive.update(ended)

    for entry in log:
        ended = set(entry.parents) - alive
        if ended and entry.kind == "prune":
            continue
        revive(ended)
        alive = (alive - set(entry.parents)) | set(entry.children)
        result.append(entry)
    revive(kept - alive)
    return result
