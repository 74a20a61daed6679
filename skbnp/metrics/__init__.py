"""Scores of fitted models: held-out likelihood, perplexity, coherence of topics."""

from typing import TYPE_CHECKING

from skbnp.utils.lazy import importer

if TYPE_CHECKING:
    from skbnp.metrics._directions import plug_in_gain
    from skbnp.metrics._evidence import evidence_bound
    from skbnp.metrics._held_out import (
        document_completion_score,
        fold_in_score,
        held_out_log_likelihood,
        perplexity,
        split_tokens,
    )
    from skbnp.metrics._topics import (
        topic_coherence,
        topic_diversity,
        topic_exclusivity,
    )

__all__ = [
    "document_completion_score",
    "evidence_bound",
    "fold_in_score",
    "held_out_log_likelihood",
    "perplexity",
    "plug_in_gain",
    "split_tokens",
    "topic_coherence",
    "topic_diversity",
    "topic_exclusivity",
]

_MODULES = {
    "document_completion_score": "_held_out",
    "evidence_bound": "_evidence",
    "fold_in_score": "_held_out",
    "held_out_log_likelihood": "_held_out",
    "perplexity": "_held_out",
    "plug_in_gain": "_directions",
    "split_tokens": "_held_out",
    "topic_coherence": "_topics",
    "topic_diversity": "_topics",
    "topic_exclusivity": "_topics",
}

__getattr__ = importer(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
