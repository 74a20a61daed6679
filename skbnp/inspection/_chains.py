"""Samples of a sampler for figures and summaries: the one that is shown."""


def best_sample(model):
    """Return the kept sample that a sampler's attributes are of, or None."""
    samples = getattr(model, "samples_", None)
    return max(samples, key=lambda sample: sample.log_joint) if samples else None


def is_sampler(model):
    """Whether a history is that of Markov chains."""
    return "log_joint" in getattr(model, "history_", {})
