"""The posterior of an HDP, and what its moves and trials keep between updates."""

from dataclasses import dataclass, field, replace

from skbnp.inference.posterior import Posterior
from skbnp.models.hdp.moves.memory import MoveMemory
from skbnp.models.hdp.reservoir import Reservoir

__all__ = ["HDPPosterior"]


@dataclass(slots=True)
class HDPPosterior(Posterior):
    """Globals, the account of what they have seen, and of other numbers of topics."""

    trials_ended: bool = False  # of other numbers of topics
    move_memory: MoveMemory = field(default_factory=MoveMemory)  # between minibatches
    reservoir: Reservoir | None = None  # documents of a stream that are kept

    def copy(self) -> "HDPPosterior":
        """Return one that learns by itself."""
        words = self.totals.topic_words.copy()
        return replace(self, totals=replace(self.totals, topic_words=words))
