"""Scores of fitted models: held-out likelihood, perplexity, coherence of topics."""

from typing import TYPE_CHECKING

from skbnp.metrics._held_out import (
    document_completion_score,
    fold_in_score,
    held_out_log_likelihood,
    perplexity,
    split_tokens,
)
from skbnp.metrics._topics import topic_coherence, topic_diversity
from skbnp.utils.lazy import importer

if TYPE_CHECKING:
    from skbnp.metrics._evidence import evidence_bound

__all__ = [
    "document_completion_score",
    "evidence_bound",
    "fold_in_score",
    "held_out_log_likelihood",
    "perplexity",
    "split_tokens",
    "topic_coherence",
    "topic_diversity",
]

__getattr__ = importer(__name__, {"evidence_bound": "_evidence"})


def __dir__() -> list[str]:
    return __all__
