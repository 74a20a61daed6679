"""A fit in words."""

import math
import textwrap
from numbers import Real

from skbnp.inspection._terms import (
    POSITIVE,
    column_names,
    fitted_model,
    largest,
    topic_weights,
    topic_word_distr,
    unwrap,
)
from skbnp.utils.validation import check_counts, validate_params

WIDTH = 80
#: Topics printed when nobody says how many: about one screen.
MAX_TOPICS = 20


@validate_params(
    {"n_components": [POSITIVE, None], "n_terms": [POSITIVE]},
    prefer_skip_nested_validation=False,
)
def summary(estimator, feature_names=None, *, X=None, n_components=None, n_terms=8):
    """Describe a fitted topic model in a page of plain text.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything with non-negative `components_`. What else it has is told: weights,
        concentrations, history, convergence, bound.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents, best such that were not in the fit, to describe and to score; raw
        documents for a text Pipeline.
    n_components : int, default=None
        Topics to print, heaviest first. `None` prints those in use, but at most 20.
    n_terms : int, default=8
        Terms of each topic.

    Returns
    -------
    text : str
        Lines of at most 80 characters. Bounds and scores are in nats per token, times
        in seconds of wall clock. Topics are called by their row in `components_`.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If `feature_names` does not name every column.

    See Also
    --------
    TopicTermsDisplay : The same topics as a figure.

    Examples
    --------
    >>> from sklearn.decomposition import LatentDirichletAllocation
    >>> from skbnp.inspection import summary
    >>> X = [[0, 0, 9], [5, 1, 0], [1, 0, 7], [9, 2, 0], [5, 0, 4]] * 2
    >>> lda = LatentDirichletAllocation(n_components=2, random_state=0).fit(X)
    >>> print(summary(lda, ["rain", "snow", "sun"]))
    LatentDirichletAllocation(n_components=2, random_state=0)
    <BLANKLINE>
      vocabulary        3 terms
      topics            2
      fit               10 passes
      doc_topic_prior   0.5
      topic_word_prior  0.5
    <BLANKLINE>
      topic  weight  terms
          1  53.6 %  rain, snow, sun
          0  46.4 %  sun, rain, snow
    """
    model = fitted_model(estimator, "components_")
    names = column_names(estimator, feature_names)
    facts = {"vocabulary": f"{_count(len(names), 'term')}", "topics": _found(model)}
    facts |= _course(model) | _settings(model)
    if X is not None:
        facts |= _score(unwrap(estimator), model, X)
    lines = [repr(model), "", *_facts(facts), ""]
    if n_components is None:
        n_components = min(_n_active(model), MAX_TOPICS)
    lines += _topics(model, names, n_components, n_terms)
    return "\n".join(line.rstrip() for line in lines)


def _count(number, noun):
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _n_active(model):
    return int(getattr(model, "n_active_components_", len(model.components_)))


def _found(model):
    n_active, n_components = _n_active(model), len(model.components_)
    if n_active == n_components:
        return f"{n_components:,}"
    return f"{n_active:,} in use, {n_components:,} represented"


def _course(model):
    """How the fit went: passes, seconds, moves, bound."""
    history = getattr(model, "history_", {})
    parts, facts = [], {}
    if hasattr(model, "n_iter_"):
        parts.append(f"{model.n_iter_:,} pass" + ("" if model.n_iter_ == 1 else "es"))
    if hasattr(model, "converged_"):
        parts.append("converged" if model.converged_ else "not converged")
    if len(history.get("seconds", [])):
        parts.append(f"{history['seconds'][-1]:,.1f} seconds")
    if parts:
        facts["fit"] = ", ".join(parts)
    moves = [
        _count(int(history[f"n_{kind}s"][-1]), kind)
        for kind in ("split", "birth", "merge")
        if len(history.get(f"n_{kind}s", []))
    ]
    if moves:
        facts["moves"] = ", ".join(moves) + " accepted"
    if math.isfinite(getattr(model, "elbo_", math.nan)):
        facts["bound"] = f"{model.elbo_:.4f} nats per token"
    return facts


def _settings(model):
    """Concentrations and priors in force: what the fit learnt or was given."""
    values = {
        name.rstrip("_").removeprefix("_"): getattr(model, name, None)
        for name in dir(model)
        if name.endswith(("concentration_", "prior_")) and not name.startswith("_")
    }
    return {
        name: f"{value:.4g}"
        for name, value in values.items()
        if isinstance(value, Real)
    }


def _score(estimator, model, X):
    counts = X if model is estimator else estimator[:-1].transform(X)
    n_samples, n_tokens = counts.shape[0], check_counts(counts, whom="summary").sum()
    score = model.score(counts)
    return {
        "given documents": f"{_count(n_samples, 'document')}, {n_tokens:,.0f} tokens",
        "held-out score": f"{score:.4f} nats per token "
        f"(perplexity {math.exp(-score):,.1f})",
    }


def _facts(facts):
    width = max(map(len, facts))
    return [f"  {name:{width}}  {value}" for name, value in facts.items()]


def _topics(model, names, n_components, n_terms):
    """One row per topic, heaviest first; what is left out is summed up."""
    weights, distr = topic_weights(model), topic_word_distr(model)
    shown = largest(weights, n_components)
    lines = ["  topic  weight  terms"]
    for k in shown:
        terms = ", ".join(names[largest(distr[k], n_terms)])
        lines += textwrap.wrap(
            # A term of several words stays together.
            terms.replace(" ", "\xa0").replace(",\xa0", ", "),
            width=WIDTH,
            initial_indent=f"  {k:5}  {weights[k]:6.1%}  ".replace("%", " %"),
            subsequent_indent=" " * 17,
            break_on_hyphens=False,
        )
    return [line.replace("\xa0", " ") for line in lines]
