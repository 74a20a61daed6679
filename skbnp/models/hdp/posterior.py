"""The posterior of an HDP, and what its moves and trials keep between updates."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skbnp.components.word_topics import WordTopics
from skbnp.inference.interrupts import commit
from skbnp.inference.lineage import Lineage
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.models.hdp.collapsed_model import CollapsedStats
from skbnp.models.hdp.model import HDPModel, HDPState, HDPStats
from skbnp.models.hdp.moves.memory import MoveRecords
from skbnp.models.hdp.reservoir import Reservoir
from skbnp.models.hdp.surprises import Surprises

__all__ = ["HDPPosterior"]

Totals = HDPStats[WordTopics] | CollapsedStats[WordTopics]


@dataclass(slots=True)
class HDPPosterior(Posterior[HDPModel, HDPState, Totals]):
    """Globals, the account of what they have seen, and of other numbers of topics."""

    trials_ended: bool = False  # of other numbers of topics
    move_records: MoveRecords = field(
        default_factory=MoveRecords
    )  # between minibatches
    reservoir: Reservoir | None = None  # documents of a stream that are kept
    #: Smallest and largest number of topics that predict as well as the best.
    alike: tuple[int, int] | None = None
    is_cross_fitted: bool = False  # whether each document has judged them
    surprises: Surprises | None = None  # documents of a stream predicted badly
    trials: Any = None  # StreamTrials that go on in the next call

    def restarted(
        self, topics: WordTopics, weights: NDArray[np.float64], kept: NDArray
    ) -> "HDPPosterior":
        """Return one that starts afresh from some of its topics and from new ones.

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

    def rename(self, names: NDArray[np.intp]) -> None:
        """Give each id another name, in what moves remember, too."""
        Posterior.rename(self, names)  # slots hide `super`
        self.move_records = self.move_records.renamed(names)

    def adopt(self, candidate: "HDPPosterior", monitor: Monitor) -> None:
        """Take over what a candidate, that began as this, has learned: an update.

        Its log continues from here; ids that came and went meanwhile are left out.
        """
        log = candidate.lineage[len(self.lineage) :]
        born = {entry.children for entry in log if entry.kind == "birth"}
        gone = {entry.parents for entry in log if entry.kind == "prune"}
        merged = {n for entry in log if entry.kind == "merge" for n in entry.parents}
        passing = {name for (name,) in born & gone} - merged
        log = [
            entry._replace(step=self.n_steps + 1)
            for entry in log
            if passing.isdisjoint(entry.parents + entry.children)
        ]
        with commit():
            self.replace_globals(candidate.state, candidate.global_stats)
            self.ids, self.init_fraction = candidate.ids, candidate.init_fraction
            self.move_records = MoveRecords()  # its topics are others
            self.n_steps += 1
            self.lineage = [*self.lineage, *log]
            self.record(monitor)

    def copy(self) -> "HDPPosterior":
        """Return one that learns by itself."""
        words = self.global_stats.topic_words.copy()
        return replace(self, global_stats=replace(self.global_stats, topic_words=words))
