"""Summary of a fit as plain text."""

import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skbnp.inspection._chains import is_sampler
from skbnp.inspection._groups import (
    WIDTH,
    counted,
    counts_of,
    shortened,
    title,
    topic_groups,
)
from skbnp.inspection._names import rank_topics
from skbnp.inspection._summary_facts import (
    OF_CERTAINTY,
    facts_of,
    has_shares,
    settings_of,
)
from skbnp.inspection._terms import relevant_terms
from skbnp.utils import fitted as read
from skbnp.utils.containers import texts_in
from skbnp.utils.fitted import fitted_model, is_stream, noun_of, unit_of
from skbnp.utils.mixing import has_mixed, mixing
from skbnp.utils.ordering import largest
from skbnp.utils.validation import POSITIVE, check_counts, validate_params

#: R-hat above which chains are too far apart to be read.
MOST_R_HAT = 1.1
#: Topics of which an outline is of use.
MANY = 20
#: Topics that can be told apart by documents as few as these.
FEW_TOPICS, FEW_DOCUMENTS = 10, 1000


def next_steps(estimator: Any, X: Any, n_active: int) -> list[str]:
    """List at most three sentences on what helps most to trust and to read a fit."""
    model = fitted_model(estimator)
    noun, is_flat = noun_of(model), not hasattr(model, "tree_")
    steps = []
    if getattr(model, "converged_", True) is False and model.n_iter_ > 0:
        steps.append(
            "Follow the score of held-out documents from call to call (HeldOutMonitor):"
            " a stream has no last pass that could converge."
            if is_stream(model)
            else "Increase max_iter: the fit has not converged."
        )
    if is_sampler(model):
        steps += _of_chains(model, noun)
    n_seen = getattr(model, "n_samples_seen_", None)
    if n_seen is not None and n_seen < getattr(model, "_n_enough_docs", 0):
        steps.append(
            f"Fit more rows: {n_seen:,} do not tell how many {noun}s there are."
        )
    if is_flat and n_active > MANY and getattr(model, "split_merge", False):
        n = FEW_TOPICS if n_seen is not None and n_seen < FEW_DOCUMENTS else MANY
        steps.append(
            f"For {n} topics, which are easier to read: {type(model).__name__}("
            f"n_components={n}, split_merge=False)."
        )
    may_ask = not is_flat and getattr(model, "n_themes", 0) is None
    if may_ask and (model.tree_.parent == 0).sum() == 1:
        steps.append(
            "Ask for themes, n_themes=8: the documents alone tell no two apart."
        )
    if X is None and unit_of(model) == "token":
        more = f"groups of {noun}s, " * is_flat
        steps.append(
            f"Give documents, summary(..., X=X): adds {more}a document for each {noun} "
            "and a score."
        )
    elif is_flat and n_active > MANY:
        steps.append(
            "Draw all groups with TopicGroupsDisplay, and join topics that are one to "
            "you with merge_components."
        )
    elif not is_flat:
        steps.append("Draw the tree with TopicTreeDisplay.")
    if X is not None and unit_of(model) == "token":
        steps.append(
            f"Read more documents of a {noun} with top_documents, then name it with "
            "set_topic_names."
        )
    if hasattr(model, "component_ids_") and not is_sampler(model) and is_flat:
        steps.append("Fit other seeds, and see with stability which topics come again.")
    return steps[:3]


def _of_chains(model, noun):
    """Return advice on chains that have not mixed, or are too few."""
    for name in ("n_components", "log_joint"):
        traces = has_mixed(model, name)
        if traces is None:
            return ["Increase max_iter: there are too few sweeps to compare."]
        if mixing(traces)[0] > MOST_R_HAT:
            return [
                "Increase max_iter: the chains disagree, and other sweeps would show "
                f"other {noun}s."
            ]
    if len(set(model.history_["chain"])) == 1:
        return ["Fit with n_chains=4: one chain cannot show that it has settled."]
    if not hasattr(model, "tree_") and len(getattr(model, "samples_", ())) > 1:
        return ["See with consensus_components which topics all samples have."]
    return []


#: Topics printed by default: about one screen.
MAX_TOPICS = 20
#: Documents that topics are grouped by, spread over all that are given.
MAX_GROUPED = 3000


@validate_params({"n_components": [POSITIVE, None], "n_terms": [POSITIVE]})
def summary(
    estimator: BaseEstimator,
    feature_names: ArrayLike | None = None,
    *,
    X: Any = None,
    documents: Iterable[str] | None = None,
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
        these are evidence of any; below each topic stands the document that has most
        of it, and little else.
    documents : iterable of str of length n_samples, default=None
        Titles or texts of the rows of `X`. `None` takes `X` if it is texts, else
        numbers of rows.
    n_components : int, default=None
        The heaviest topics to print. `None` prints those in use, but at most 20.
    n_terms : int, default=8
        Terms of each topic, most relevant first, as ``top_terms(relevance=0.6)``.

    Returns
    -------
    text : str
        Lines of at most 80 characters: what was found, how sure that is, the settings
        in force, topics, and what to do next. Bounds and scores are in nats per token,
        times in seconds of wall clock. Topics are called by their number in
        `component_ids_`, nodes of a tree by their row, of a tree over epochs by their
        id; names from :func:`set_topic_names` stand before the terms. Weights are
        shares of tokens (of `X`; without it, where documents repeat words, of first
        uses). Topics that
        tell most of the words of a document stand first: weight times divergence from
        the mean of all topics; those of more than half of the documents stand last.

        Of a sampler the number of topics is a posterior: its median and an interval
        that holds 90 % of the sweeps after burn-in. Topics, log joint and settings are
        those of the sample with the highest log joint. Whether the chains have settled
        is told by R-hat and the bulk effective sample size (ESS) of [1]_, of the number
        of topics and of the log joint over the sweeps of the last `fit` after burn-in:
        R-hat should be near 1 (below 1.01, says [1]_), and the ESS says how many
        independent draws the sweeps of all chains are worth. Both are left out of what
        never changes, and with fewer than 8 sweeps. "chains agree" is the adjusted Rand
        index of the documents' nodes in the last states of chains over trees, by level.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If `feature_names` does not name every column, or `documents` every row.

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
    >>> hdp = HDP(2, split_merge=False, random_state=0).fit(X)
    >>> print(summary(hdp, ["rain", "snow", "sun"]))  # doctest: +ELLIPSIS
    HDP(n_components=2, random_state=0, split_merge=False)
    <BLANKLINE>
    Found
    vocabulary                3 terms
    topics                    2
    a document repeats        94 of the first 100 tokens, beyond its topics
    <BLANKLINE>
    How sure
    fit                       ... passes, converged, ... seconds
    log probability           -0.58... nats per training token, each given all others
    <BLANKLINE>
    Settings in force
    corpus_concentration      0.34...
    doc_concentration         0.09...
    prediction_concentration  0.09...
    topic_word_prior          0.05
    <BLANKLINE>
    topic   weight  terms
        1   39.6 %  sun, rain, snow
    in more than half of the documents
        0   60.4 %  rain, snow, sun
    <BLANKLINE>
    What to do next
    - Give documents, summary(..., X=X): adds groups of topics, a document for each
      topic and a score.
    - Fit other seeds, and see with stability which topics come again.
    """
    model = read.fitted_model(estimator)
    noun = read.noun_of(model)
    _, distr = read.topics(estimator)
    names = read.column_names(estimator, distr.shape[1], feature_names)
    X, texts = texts_of(X, documents)
    n_active = int(getattr(model, "n_active_components_", len(distr)))
    facts = facts_of(estimator, len(distr), len(names), X)
    is_here = X is not None and not hasattr(model, "_row_totals")
    ranking = rank_topics(estimator, X if is_here and has_shares(model) else None)
    shares = ranking.shares
    shown = largest(shares, n_components or min(n_active, MAX_TOPICS))
    width = max(map(len, facts))
    lines = wrapped(repr(model))
    settings = settings_of(model)
    for heading, has_place in (
        ("Found", lambda name: name not in OF_CERTAINTY and name not in settings),
        ("How sure", OF_CERTAINTY.__contains__),
        ("Settings in force", settings.__contains__),
    ):
        part = [name for name in facts if has_place(name)]
        lines += ["", heading] if part else []
        lines += [f"{name:{width}}  {facts[name]}" for name in part]
    lines += ["", f"{noun:>5}   weight  terms"]
    numbers = read.topic_numbers(estimator, len(distr))
    called = read.topic_names(estimator, len(distr))
    terms = relevant_terms(estimator, names, n_terms)
    for name, rows in sections_of(estimator, X, names, ranking, shown):
        lines += [shortened(name)] if name else []
        for k in rows:
            lines += _topic(numbers[k], shares[k], terms[k], called[k])
            if (row := ranking.examples[k]) >= 0:
                lines.append(_example(row, texts))
    if (n_more := n_active - len(shown)) > 0:
        more = shares[largest(shares, n_active)].sum() - shares[shown].sum()
        more = f"{100 * more:.1f} % together"
        lines.append(f"and {counted(n_more, f'lighter {noun}')}, {more}")
    steps = next_steps(estimator, X, n_active)
    lines += ["", "What to do next"] if steps else []
    wrapper = textwrap.TextWrapper(WIDTH, "- ", "  ")
    lines += [line for step in steps for line in wrapper.wrap(step)]
    return "\n".join(lines)


def n_rows_of(X) -> int:
    """Return the number of rows of a matrix or an iterable; 0 of None."""
    return 0 if X is None else X.shape[0] if hasattr(X, "shape") else len(X)


def texts_of(X, documents):
    """Return rows, and what to show of them: texts, titles or None."""
    X = X if X is None or hasattr(X, "shape") or hasattr(X, "__len__") else list(X)
    if documents is None:
        return X, texts_in(X)
    texts = [str(document) for document in documents]
    n_rows = n_rows_of(X)
    if X is None or len(texts) != n_rows:
        raise ValueError(
            f"documents must have an entry for each of {n_rows} rows of X, got "
            f"{len(texts)}."
        )
    return X, texts


def _example(row, texts):
    """Return a line with a document that has much of a topic."""
    if texts is None:
        return f"{' ' * 16}document {row}"
    text = " ".join(texts[row].split())
    return f'{" " * 16}"{_cut(text, WIDTH - 18)}"'


def _cut(text, n_letters):
    """Shorten a text between words; the marks are those that all terminals have."""
    if len(text) <= n_letters:
        return text
    kept = text[: n_letters - 3]
    return (kept.rsplit(" ", 1)[0] if " " in kept else kept) + "..."


def sections_of(estimator, X, names, ranking, shown):
    """Return groups of the topics shown, if documents give evidence of any.

    Topics of most documents come last.
    """
    order = ranking.order[np.isin(ranking.order, shown)]
    common = order[ranking.is_common[order]]
    if 0 < len(common) < len(order):
        order = order[: -len(common)]
        last = [("in more than half of the documents", common)]
    else:
        last = []
    groups = _groups_of(estimator, X, names, ranking.is_common)
    if groups is None:
        return [("", order), *last]
    labels = groups.labels[order]
    sizes = np.bincount(groups.labels[groups.labels >= 0])
    several = [g for g in range(groups.n_groups) if g in labels and sizes[g] > 1]
    weights = [ranking.shares[groups.labels == g].sum() for g in several]
    sections = [
        (title(groups, several[i], weights[i]), order[labels == several[i]])
        for i in largest(np.array(weights), len(weights))
    ]
    alone = order[~np.isin(labels, several)]
    return [*sections, *([("by themselves", alone)] if len(alone) else []), *last]


def _groups_of(estimator, X, names, is_common):
    """Group topics by some documents; None if there is no evidence of groups.

    Topics of most documents are in no group.
    """
    model = read.fitted_model(estimator)
    is_flat = not hasattr(model, "tree_") and has_shares(model)
    if X is None or not is_flat or hasattr(model, "_row_totals"):
        return None
    rows = read.model_rows(estimator, X)
    step = max(-(-check_counts(rows, whom="summary").shape[0] // MAX_GROUPED), 1)
    if step > 1:  # rows of a frame keep the names of columns
        rows = getattr(rows, "iloc", check_counts(rows, whom="summary"))[::step]
    counts = counts_of(model, rows) * ~is_common
    if not counts.sum():
        return None
    groups = topic_groups(model, doc_topic=counts, feature_names=names)
    return groups if groups.n_groups > 1 else None


def wrapped(text):
    """Break lines that scikit-learn leaves too long: parameters with settings."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent)
    return lines


def _topic(number, share, terms, name=None):
    """Return the lines of one topic; long lists continue below the first term."""
    # A term of several words stays together.
    glued = ", ".join(term.replace(" ", "\xa0") for term in terms)
    if name is not None:
        glued = f"{name}: {glued}"
    lines = textwrap.wrap(
        glued,
        width=WIDTH,
        initial_indent=f"{number:5}  {100 * share:5.1f} %  ",
        subsequent_indent=" " * 16,
        break_on_hyphens=False,
    )
    return [line.replace("\xa0", " ") for line in lines]
