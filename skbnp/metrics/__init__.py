"""Scores of fitted models: held-out likelihood and perplexity."""

from skbnp.metrics._held_out import (
    document_completion_score,
    held_out_log_likelihood,
    perplexity,
    split_tokens,
)

__all__ = [
    "document_completion_score",
    "held_out_log_likelihood",
    "perplexity",
    "split_tokens",
]
