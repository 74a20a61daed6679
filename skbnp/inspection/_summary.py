"""A fit in words."""

import math
import textwrap
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from skbnp.inspection._chains import best_sample, is_sampler
from skbnp.inspection._groups import topic_groups
from skbnp.inspection._outline import WIDTH, shortened, title
from skbnp.inspection._terms import (
    POSITIVE,
    column_names,
    fitted_model,
    in_memory,
    model_rows,
    noun_of,
    terms_of,
    topic_numbers,
    topics,
    unit_of,
)
from skbnp.metrics import document_completion_score
from skbnp.utils.fitted import topic_names
from skbnp.utils.mixing import has_mixed, mixing
from skbnp.utils.ordering import largest
from skbnp.utils.validation import check_counts, validate_params

#: Topics printed unless asked otherwise: about one screen.
MAX_TOPICS = 20
#: Tokens of a document for which repeats are counted.
SAMPLE_LENGTH = 100
#: Documents that topics are grouped by, spread over all that are given.
MAX_GROUPED = 3000
#: What a variational fit is followed by: its attribute, name and unit.
CRITERIA = {
    "elbo_": ("bound", "nats per {}"),
    "log_predictive_": (
        "log probability",
        "nats per training {}, each given all others",
    ),
}


@validate_params(
    {"n_components": [POSITIVE, None], "n_terms": [POSITIVE]},
    prefer_skip_nested_validation=False,
)
def summary(
    estimator: BaseEstimator,
    feature_names: ArrayLike | None = None,
    *,
    X: Any = None,
    n_components: int | None = None,
    n_terms: int = 8,
) -> str:
    """Describe a fitted topic model in a page of plain text.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with `topic_weights_`, or with non-negative `components_`. What else it
        has is told: concentrations, history, convergence, bound, or, where there is no
        bound, the log probability of training tokens, each given all others.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents, best such that were not in the fit, to describe and to score; raw
        documents for a text Pipeline. Topics of a model without a tree are printed in
        groups, those of :func:`topic_groups` by up to 3,000 of the documents, where
        these are evidence of any.
    n_components : int, default=None
        Topics to print, heaviest first. `None` prints those in use, but at most 20.
    n_terms : int, default=8
        Terms of each topic.

    Returns
    -------
    text : str
        Lines of at most 80 characters. Bounds and scores are in nats per token, times
        in seconds of wall clock. Topics are called by their number in
        `component_ids_`, nodes of a tree by their row; names from
        :func:`set_topic_names` stand before the terms.

        Of a sampler the number of topics is a posterior: its median and an interval
        that holds 90 % of the sweeps after burn-in. Topics, log joint and settings are
        those of the sample with the highest log joint. Whether the chains have settled
        is told by R-hat and the bulk effective sample size (ESS) of [1]_, of the number
        of topics and of the log joint over the sweeps of the last `fit` after burn-in:
        R-hat should be near 1 (below 1.01, says [1]_), and the ESS says how many
        independent draws the sweeps of all chains are worth. Both are left out of what
        never changes, and with fewer than 8 sweeps.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If `feature_names` does not name every column.

    See Also
    --------
    TopicTermsDisplay : The same topics as a figure.
    topic_groups : Groups of topics alone, with what they rest on.
    ComponentsPosteriorDisplay : The posterior of their number.

    References
    ----------
    .. [1] Aki Vehtari, Andrew Gelman, Daniel Simpson, Bob Carpenter and Paul-Christian
       Bürkner, "Rank-Normalization, Folding, and Localization: An Improved R-hat for
       Assessing Convergence of MCMC", Bayesian Analysis 16, 2021.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import summary
    >>> X = [[0, 0, 9], [5, 3, 0], [1, 0, 7], [9, 6, 0]] * 25
    >>> hdp = HDP(n_components=2, random_state=0).fit(X)
    >>> print(summary(hdp, ["rain", "snow", "sun"]))  # doctest: +ELLIPSIS
    HDP(n_components=2, random_state=0)
    <BLANKLINE>
    vocabulary                3 terms
    topics                    2
    fit                       ... passes, converged, ... seconds
    moves                     10 births, 0 splits, 3 merges accepted
    log probability           -0.83... nats per training token, each given all others
    a document repeats        none beyond what topics explain
    corpus_concentration      0.32...
    doc_concentration         0.35...
    prediction_concentration  0.57...
    topic_word_prior          0.046...
    <BLANKLINE>
    topic   weight  terms
        1   56.1 %  rain, snow, sun
       11   43.7 %  sun, rain, snow
    """
    model = fitted_model(estimator)
    weights, distr = topics(estimator)
    names = column_names(estimator, distr.shape[1], feature_names)
    n_active = int(getattr(model, "n_active_components_", len(weights)))
    facts = facts_of(estimator, len(weights), len(names), X)
    shown = largest(weights, n_components or min(n_active, MAX_TOPICS))
    width = max(map(len, facts))
    lines = [*_wrapped(repr(model)), ""]
    lines += [f"{name:{width}}  {value}" for name, value in facts.items()]
    numbers = topic_numbers(estimator, len(weights))
    lines += ["", f"{noun_of(model):>5}   weight  terms"]
    called = topic_names(estimator, len(weights))
    for name, rows in sections_of(estimator, X, names, shown):
        lines += [shortened(name)] if name else []
        for k in rows:
            terms = terms_of(distr[k], names, n_terms)
            lines += _topic(numbers[k], weights[k], terms, called[k])
    if (n_more := n_active - len(shown)) > 0:
        more = weights[largest(weights, n_active)].sum() - weights[shown].sum()
        more = f"{100 * more:.1f} % together"
        noun = f"lighter {noun_of(model)}"
        lines.append(f"and {_count(n_more, noun)}, {more}")
    return "\n".join(lines)


def facts_of(estimator, n_components, n_features, X=None) -> dict[str, str]:
    """Collect what there is to know of a fit, in the order of an account."""
    model = fitted_model(estimator)
    n_active = int(getattr(model, "n_active_components_", n_components))
    unit = unit_of(model)
    columns = ("features", "column") if unit == "row" else ("vocabulary", "term")
    facts = {
        columns[0]: _count(n_features, columns[1]),
        **_seen(model, unit),
        **_found(model, n_active, n_components),
        **(_chains(model, unit) if is_sampler(model) else _course(model, unit)),
        **_repeats(model),
        **_settings(model),
    }
    return facts if X is None else facts | _score(estimator, X, unit)


def sections_of(estimator, X, names, shown):
    """Put the topics that are shown into groups, if documents tell of some."""
    model = fitted_model(estimator)
    is_flat = not hasattr(model, "tree_") and unit_of(model) == "token"
    if X is None or not is_flat or hasattr(model, "_row_totals"):
        return [("", shown)]
    rows = model_rows(estimator, X)
    some = check_counts(rows, whom="summary")
    some = some[:: max(-(-some.shape[0] // MAX_GROUPED), 1)]
    if not some.nnz or not hasattr(model, "transform"):
        return [("", shown)]
    groups = topic_groups(model, some, feature_names=names)
    if groups.n_groups == 1:
        return [("", shown)]
    labels = groups.labels[shown]
    sizes = np.bincount(groups.labels[groups.labels >= 0])
    several = [g for g in np.unique(labels) if g >= 0 and sizes[g] > 1]
    sections = [(title(groups, g), shown[labels == g]) for g in several]
    alone = shown[~np.isin(labels, several)]
    return [*sections, *([("by themselves", alone)] if len(alone) else [])]


def _wrapped(text):
    """Break lines that scikit-learn leaves too long: of a parameter with settings."""
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        yield from textwrap.wrap(line, WIDTH, subsequent_indent=indent)


def _count(number, noun, plural="s"):
    return f"{number:,} {noun}" + ("" if number == 1 else plural)


def _seen(model, unit):
    """Tell of documents that are too few for what is learned of them."""
    n_seen = getattr(model, "n_samples_seen_", None)
    if n_seen is None or n_seen >= getattr(model, "_n_enough_docs", 0):
        return {}
    what = f"too few to judge the number of {noun_of(model)}s"
    return {"rows" if unit == "row" else "documents": f"{n_seen:,} so far: {what}"}


def _found(model, n_active, n_components):
    """Tell how many topics there are; of a sampler, in all draws and in one."""
    has_idle, noun = n_active != n_components, noun_of(model)
    posterior = getattr(model, "n_components_posterior_", None)
    if not posterior:
        result = f"{n_active:,} in use of {n_components:,} represented"
        return {f"{noun}s": result if has_idle else f"{n_components:,}"}
    low, median, high = quantiles(posterior, (0.05, 0.5, 0.95))
    interval = f"median {median:,}, 90 % interval {low:,} to {high:,}"
    if len(posterior) == 1:
        interval = f"{median:,} in every sweep after burn-in"
    best = best_sample(model)
    result = _count(n_components, noun) + f", {n_active:,} in use" * has_idle
    result += f"; sweep {best.step:,}"
    if len(set(model.history_.get("chain", []))) > 1:
        result += f" of chain {best.chain}"
    return {f"{noun}s": interval, "sample shown": result}


def quantiles(posterior, levels):
    """Smallest values that hold these shares of a posterior {value: share}."""
    values = np.array(sorted(posterior))
    masses = np.cumsum([posterior[value] for value in values])
    # Sums of shares are off by some roundings.
    at = np.searchsorted(masses, np.asarray(levels) * masses[-1] * (1.0 - 1e-12))
    return values[at].tolist()


def _course(model, unit):
    """Tell how the fit went: passes, seconds, moves, bound."""
    history, facts, parts = getattr(model, "history_", {}), {}, []
    if hasattr(model, "n_iter_"):
        parts.append(_count(model.n_iter_, "pass", "es"))
    if hasattr(model, "converged_"):
        parts.append("converged" if model.converged_ else "not converged")
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
        counts = (_count(number, kind) for kind, number in moves.items())
        facts["moves"] = ", ".join(counts) + " accepted"
    for attribute, (name, measure) in CRITERIA.items():
        value = getattr(model, attribute, math.nan)
        if math.isfinite(value):
            facts[name] = f"{value:.4f} {measure.format(unit)}"
    return facts


def _chains(model, unit):
    """Tell how sampling went: sweeps, seconds, moves, log joint, mixing."""
    history, samples = model.history_, getattr(model, "samples_", [])
    chains = np.array(history["chain"])
    numbers = np.unique(chains).tolist()
    parts = [_count(len(set(history["step"])), "sweep")]
    if len(numbers) > 1:
        parts.append(_count(len(numbers), "chain"))
    parts.append(_count(len(samples), "sample"))
    if numbers:
        parts.append(f"{history['seconds'][-1]:,.1f} seconds")
    facts = {"fit": ", ".join(parts)}
    moves = {
        kind: sum(max(np.array(history[f"n_{kind}s"])[chains == k]) for k in numbers)
        for kind in ("split", "merge")
        if f"n_{kind}s" in history
    }
    if any(moves.values()):
        counts = (_count(number, kind) for kind, number in moves.items())
        facts["moves"] = ", ".join(counts) + " accepted"
    best = best_sample(model)
    log_joint = model.log_joint_ if best is None else best.log_joint
    if math.isfinite(log_joint):
        facts["log joint"] = f"{log_joint:.4f} nats per {unit}"
    return facts | _mixing(model)


def _mixing(model):
    """Tell whether the chains agree, with themselves and each other."""
    r_hats, sizes = [], []
    topics = f"{noun_of(model)}s"
    for name, what in (("n_components", topics), ("log_joint", "log joint")):
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
    sweeps = _count(n_sweeps, "sweep")
    return {
        "R-hat": ", ".join(r_hats),
        "bulk ESS": f"{', '.join(sizes)} of {sweeps} after burn-in",
    }


def _repeats(model):
    """Tell how many tokens of a document repeat its own words."""
    if getattr(model, "burstiness", False) is False:
        return {}
    n = repeated(SAMPLE_LENGTH, model.word_discount_, model.word_concentration_)
    result = "none beyond what topics explain"
    if n >= 0.5:
        result = f"{n:.0f} of the first {SAMPLE_LENGTH} tokens, beyond its topics"
    return {"a document repeats": result}


def repeated(n_tokens, discount, concentration):
    """Tokens of a restaurant that are not the first of their table, expected."""
    d, c = max(discount, 1e-9), concentration
    if math.isinf(c):
        return 0.0
    growth = gammaln(c + d + n_tokens) - gammaln(c + d)
    growth -= gammaln(c + n_tokens) - gammaln(c)
    return n_tokens - float(c / d * np.expm1(growth))


def _settings(model):
    """Collect concentrations and priors in force, learned or given."""
    values = {
        name[:-1]: getattr(model, name, None)
        for name in dir(model)
        if name.endswith(("concentration_", "prior_", "variance_", "past_weight_"))
        and name[0] != "_"
        and name != "word_concentration_"
    }
    return {k: f"{value:.4g}" for k, value in values.items() if isinstance(value, Real)}


def _score(estimator, X, unit):
    model, X = fitted_model(estimator), model_rows(estimator, X)
    if unit == "row":
        return {"score": f"{in_memory(model.score(X)):.4f} nats per row of X"}
    if hasattr(model, "_row_totals"):  # on a cluster
        tokens, score = in_memory(model._row_totals(X)), in_memory(model.score(X))
    else:
        counts = check_counts(X, whom="summary")
        tokens, score = counts.sum(axis=1), document_completion_score(model, counts)
    n_docs = int((tokens > 0.0).sum())
    n_empty = len(tokens) - n_docs
    empty = f"; {_count(n_empty, 'document')} without" * (n_empty > 0)
    return {
        "documents scored": f"{_count(n_docs, 'document')}, "
        f"{tokens.sum():,.0f} tokens{empty}",
        "score": f"{score:.4f} nats per held-out token "
        f"(perplexity {math.exp(-score):,.1f})",
    }


def _topic(number, weight, terms, name=None):
    """Lines of one topic; long lists go on under the first term."""
    # A term of several words stays together.
    glued = ", ".join(term.replace(" ", "\xa0") for term in terms)
    if name is not None:
        glued = f"{name}: {glued}"
    lines = textwrap.wrap(
        glued,
        width=WIDTH,
        initial_indent=f"{number:5}  {100 * weight:5.1f} %  ",
        subsequent_indent=" " * 16,
        break_on_hyphens=False,
    )
    return [line.replace("\xa0", " ") for line in lines]
