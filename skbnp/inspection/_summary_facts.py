"""Sentences of a summary: data seen, course of the fit, uncertainty, score."""

import math
from numbers import Real

import numpy as np
from scipy.special import gammaln

from skbnp.inspection._chains import best_sample, is_sampler
from skbnp.inspection._groups import counted
from skbnp.metrics import document_completion_score, split_tokens
from skbnp.rows.digests import share_known
from skbnp.utils import fitted as read
from skbnp.utils.mixing import has_mixed, mixing
from skbnp.utils.validation import check_counts

#: Tokens of a document for which repeats are counted.
SAMPLE_LENGTH = 100
#: Share of the tokens from which a topic of a sample is large.
LARGE = 0.01

OF_CERTAINTY = {
    *("one topic", "as good", "fit", "moves", "bound", "log probability", "log joint"),
    *("R-hat", "bulk ESS", "chains agree", "documents scored", "score"),
    *("topics gain", "nodes gain"),
}
#: What a variational fit is followed by: its attribute, name and unit.
CRITERIA = {
    "elbo_": ("bound", "nats per {}"),
    "log_predictive_": (
        "log probability",
        "nats per training {}, each given all others",
    ),
}


def has_shares(model):
    """Whether `transform` returns topic proportions."""
    return read.unit_of(model) == "token" and hasattr(model, "transform")


def facts_of(estimator, n_components, n_features, X=None) -> dict[str, str]:
    """Return the facts of a fit by title, in the order of a summary."""
    model = read.fitted_model(estimator)
    n_active = int(getattr(model, "n_active_components_", n_components))
    unit = read.unit_of(model)
    columns = ("features", "column") if unit == "row" else ("vocabulary", "term")
    facts = {
        columns[0]: counted(n_features, columns[1]),
        **seen_of(model, unit),
        **components_of(model, n_active, n_components),
        **(chains_of(model, unit) if is_sampler(model) else course_of(model, unit)),
        **repeats_of(model),
        **settings_of(model),
    }
    return facts if X is None else facts | score_of(estimator, X, unit)


def seen_of(model, unit):
    """Return a sentence if documents are too few for the number of topics."""
    n_seen = getattr(model, "n_samples_seen_", None)
    if n_seen is None or n_seen >= getattr(model, "_n_enough_docs", 0):
        return {}
    what = f"too few to judge the number of {read.noun_of(model)}s"
    return {"rows" if unit == "row" else "documents": f"{n_seen:,} so far: {what}"}


def components_of(model, n_active, n_components):
    """Return the number of topics; of a sampler, of all draws and of the shown."""
    has_idle, noun = n_active != n_components, read.noun_of(model)
    posterior = getattr(model, "n_components_posterior_", None)
    if not posterior:
        result = f"{n_active:,} in use of {n_components:,} represented"
        result = result if has_idle else f"{n_components:,}"
        return {f"{noun}s": result, **certainty_of(model, n_components)}
    low, median, high = quantiles(posterior, (0.05, 0.5, 0.95))
    interval = f"median {median:,}, 90 % interval {low:,} to {high:,}"
    if len(posterior) == 1:
        interval = f"{median:,} in every sweep after burn-in"
    best = best_sample(model)
    result = counted(n_components, noun) + f", {n_active:,} in use" * has_idle
    result += f"; sweep {best.step:,}"
    if len(set(model.history_.get("chain", []))) > 1:
        result += f" of chain {best.chain}"
    return {f"{noun}s": interval, **_large(model, noun), "sample shown": result}


def _large(model, noun):
    """Count the topics of kept samples with more than a few tokens."""
    kept = getattr(model, "samples_", [])
    samples = [s for s in kept if hasattr(s, "topic_word_counts")]
    if not samples or hasattr(model, "tree_"):
        return {}
    tokens = [np.asarray(s.topic_word_counts.sum(axis=1)).ravel() for s in samples]
    counts = [int((row >= LARGE * row.sum()).sum()) for row in tokens]
    low, high = min(counts), max(counts)
    result = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return {f"large {noun}s": f"{result}, with {100 * LARGE:g} % of the tokens or more"}


def certainty_of(model, n_components):
    """Return the other numbers of topics that predict as well."""
    low, high = getattr(model, "n_components_range_", None) or (0, 0)
    facts = {}
    if n_components == low == 1:
        facts["one topic"] = "words alone predict held-out documents as well"
    if low < high:
        facts["as good"] = f"{low:,} to {high:,}, within one standard error"
    return facts


def quantiles(posterior, levels):
    """Smallest values with these cumulative shares of a posterior {value: share}."""
    values = np.array(sorted(posterior))
    masses = np.cumsum([posterior[value] for value in values])
    # Sums of shares are off by some roundings.
    at = np.searchsorted(masses, np.asarray(levels) * masses[-1] * (1.0 - 1e-12))
    return values[at].tolist()


def course_of(model, unit):
    """Return the course of a fit: passes, seconds, moves, bound."""
    history, facts, parts = getattr(model, "history_", {}), {}, []
    if hasattr(model, "n_iter_"):
        parts.append(counted(model.n_iter_, "pass", "es"))
    if hasattr(model, "converged_"):
        how = "a stream" if read.is_stream(model) else "not converged"
        parts.append("converged" if model.converged_ else how)
    if history.get("seconds"):
        parts.append(f"{history['seconds'][-1]:,.1f} seconds")
    if parts:
        facts["fit"] = ", ".join(parts)
    moves = {
        kind: int(history[f"n_{kind}s"][-1])
        for kind in ("birth", "split", "merge")
        if history.get(f"n_{kind}s")
    }
    if any(moves.values()):
        counts = (counted(number, kind) for kind, number in moves.items())
        facts["moves"] = ", ".join(counts) + " accepted"
    for attribute, (name, measure) in CRITERIA.items():
        value = getattr(model, attribute, math.nan)
        if math.isfinite(value):
            facts[name] = f"{value:.4f} {measure.format(unit)}"
    return facts


def chains_of(model, unit):
    """Return the course of sampling: sweeps, seconds, moves, log joint, mixing."""
    history, samples = model.history_, getattr(model, "samples_", [])
    chains = np.array(history["chain"])
    numbers = np.unique(chains).tolist()
    parts = [counted(len(set(history["step"])), "sweep")]
    if len(numbers) > 1:
        parts.append(counted(len(numbers), "chain"))
    parts.append(counted(len(samples), "sample"))
    if numbers:
        parts.append(f"{history['seconds'][-1]:,.1f} seconds")
    facts = {"fit": ", ".join(parts)}
    moves = {
        kind: sum(max(np.array(history[f"n_{kind}s"])[chains == k]) for k in numbers)
        for kind in ("split", "merge")
        if f"n_{kind}s" in history
    }
    if any(moves.values()):
        counts = (counted(number, kind) for kind, number in moves.items())
        facts["moves"] = ", ".join(counts) + " accepted"
    best = best_sample(model)
    log_joint = model.log_joint_ if best is None else best.log_joint
    if math.isfinite(log_joint):
        facts["log joint"] = f"{log_joint:.4f} nats per {unit}"
    agreement = getattr(model, "chain_agreement_", ())
    if len(agreement):
        levels = (f"{value:.2f} (level {i + 2})" for i, value in enumerate(agreement))
        facts["chains agree"] = ", ".join(levels)
    return facts | _mixing(model)


def _mixing(model):
    """Return the agreement within and between chains."""
    r_hats, sizes = [], []
    numbers = f"{read.noun_of(model)}s"
    for name, what in (("n_components", numbers), ("log_joint", "log joint")):
        traces = has_mixed(model, name)
        if traces is None:
            return {}
        n_sweeps = traces.size
        r_hat, size = mixing(traces)
        if not math.isnan(r_hat):
            r_hats.append(f"{r_hat:.2f} ({what})")
            sizes.append(f"{size:,.0f} ({what})")
    if not r_hats:
        return {}
    sweeps = counted(n_sweeps, "sweep")
    return {
        "R-hat": ", ".join(r_hats),
        "bulk ESS": f"{', '.join(sizes)} of {sweeps} after burn-in",
    }


def repeats_of(model):
    """Return the share of tokens that repeat words of their document."""
    if getattr(model, "burstiness", False) is False:
        return {}
    n = repeated(SAMPLE_LENGTH, model.word_discount_, model.word_concentration_)
    result = "none beyond what topics explain"
    if n >= 0.5:
        result = f"{n:.0f} of the first {SAMPLE_LENGTH} tokens, beyond its topics"
    return {"a document repeats": result}


def repeated(n_tokens, discount, concentration):
    """Expected tokens of a Pitman-Yor process that are not first at their table."""
    d, c = max(discount, 1e-9), concentration
    if math.isinf(c):
        return 0.0
    growth = gammaln(c + d + n_tokens) - gammaln(c + d)
    growth -= gammaln(c + n_tokens) - gammaln(c)
    return n_tokens - float(c / d * np.expm1(growth))


def settings_of(model):
    """Return concentrations and priors, learned or given."""
    values = {
        name[:-1]: getattr(model, name, None)
        for name in dir(model)
        if name.endswith(("concentration_", "prior_", "variance_", "past_weight_"))
        and name[0] != "_"
        and name != "word_concentration_"
    }
    return {k: f"{value:.4g}" for k, value in values.items() if isinstance(value, Real)}


def score_of(estimator, X, unit):
    """Return the held-out score of documents, and its gain over word frequencies."""
    model, X = read.fitted_model(estimator), read.model_rows(estimator, X)
    if unit == "row":
        return {"score": f"{read.in_memory(model.score(X)):.4f} nats per row of X"}
    if hasattr(model, "_row_totals"):  # on a cluster
        tokens, score = (
            read.in_memory(model._row_totals(X)),
            read.in_memory(model.score(X)),
        )
        gain, learned = {}, 0.0
    else:
        counts = check_counts(X, whom="summary")
        tokens, score = counts.sum(axis=1), document_completion_score(model, X)
        gain = _gain(model, X, counts)
        learned = share_known(model._digest, counts) if hasattr(model, "_digest") else 0
    n_docs = int((tokens > 0.0).sum())
    n_empty = len(tokens) - n_docs
    empty = f"; {counted(n_empty, 'document')} without tokens" * (n_empty > 0)
    facts = {
        "documents scored": f"{counted(n_docs, 'document')}, "
        f"{tokens.sum():,.0f} tokens{empty}"
    }
    if learned > 0.0:
        share = "all" if learned == 1.0 else f"{learned:.0%}"
        facts["... of the fit"] = f"{share}: their score flatters, take others"
        gain = _gains_of_fit(model, gain)
    facts["score"] = (
        f"{score:.4f} nats per held-out token (perplexity {math.exp(-score):,.1f})"
    )
    return facts | gain


def _gains_of_fit(model, gain):
    """Return the gain by documents that a fit held out, and that of its own."""
    facts = {f"{name}, of the fit": value for name, value in gain.items()}
    judged = getattr(getattr(model, "_posterior", None), "held_out_gain", None)
    if judged is not None:
        mean, error = judged
        facts["... by held-out ones"] = (
            f"{mean:.2f} (standard error {error:.2f}) nats per token"
        )
    return facts


def _gain(model, X, counts):
    """Compare the prediction by topics with that by word frequencies."""
    _observed, held_out = split_tokens(counts)
    n_tokens = held_out.sum()
    if not (n_tokens and hasattr(model, "components_")):
        return {}
    shares, (_, distr) = read.token_shares(model), read.topics(model)
    frequency = np.maximum((shares / shares.sum()) @ distr, 1e-300)
    alone = float((held_out @ np.log(frequency)).sum() / n_tokens)
    gain = document_completion_score(model, X, repeats=False) - alone
    name = f"{read.noun_of(model)}s gain"
    if not gain > 0.0:
        return {name: "nothing: frequencies of words predict as well"}
    return {name: f"{gain:.2f} nats per held-out token over word frequencies"}
