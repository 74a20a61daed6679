"""Scores of fitted models: held-out likelihood, perplexity, coherence of topics."""

from skbnp.metrics._coherence import topic_coherence
from skbnp.metrics._directions import plug_in_gain
from skbnp.metrics._distinctness import topic_diversity, topic_exclusivity
from skbnp.metrics._evidence import evidence_bound
from skbnp.metrics._held_out import (
    document_completion_score,
    fold_in_score,
    held_out_log_likelihood,
    perplexity,
    split_tokens,
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
