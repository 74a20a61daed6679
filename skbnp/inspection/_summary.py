"""Summary of a fit as plain text, and the account that a page shows too."""

import math
import textwrap
from collections.abc import Iterable
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from skbnp.inspection import _groups
from skbnp.inspection._terms import rank_topics, relevant_terms, texts_of
from skbnp.metrics import document_completion_score, split_tokens
from skbnp.rows.survey import share_known
from skbnp.utils import fitted as read
from skbnp.utils.arrays import largest
from skbnp.utils.fitted import best_sample, has_mixed, is_sampler, mixing
from skbnp.utils.typing import Ints
from skbnp.utils.validation import check_counts, validated

#: Tokens of a document for which repeats are counted.
SAMPLE_LENGTH = 100
#: Share of the tokens from which a topic of a sample is large.
LARGE = 0.01

#: What a fit is followed by: its attribute, name and unit.
CRITERIA = {
    "elbo_": ("bound", "nats per {}"),
    "log_predictive_": (
        "log probability",
        "nats per training {}, each given all others",
    ),
    "log_joint_": ("log joint", "nats per {}"),
}


def has_shares(model):
    """Whether `transform` returns topic proportions."""
    return read.unit_of(model) == "token" and hasattr(model, "transform")


def facts_of(estimator, n_components, n_features, X) -> dict[str, dict[str, str]]:
    """Return the facts of a fit by title, under the headings of a summary."""
    model = read.fitted_model(estimator)
    unit = read.unit_of(model)
    columns = ("features", "column") if unit == "row" else ("vocabulary", "term")
    found = {
        columns[0]: _groups.counted(n_features, columns[1]),
        **seen_of(model, unit),
        **components_of(model, n_components),
        **_worth_of(model, n_components),
        **repeats_of(model),
        **groups_of(model),
    }
    sure = certainty_of(model, n_components) | course_of(model, unit)
    sure |= {} if X is None else score_of(estimator, X, unit)
    headings = {"Found": found, "How sure": sure}
    headings["Settings in force"] = settings_of(model)
    return {heading: facts for heading, facts in headings.items() if facts}


def seen_of(model, unit):
    """Return a sentence if documents are too few for the number of topics."""
    n_seen = getattr(model, "n_samples_seen_", None)
    if n_seen is None or n_seen >= getattr(model, "_n_enough_docs", 0):
        return {}
    what = f"too few to judge the number of {read.noun_of(model)}s"
    far = " so far" * read.is_stream(model)
    return {"rows" if unit == "row" else "documents": f"{n_seen:,}{far}: {what}"}


def components_of(model, n_components):
    """Return the number of topics; of a sampler, of all draws and of the best one."""
    n_active = int(getattr(model, "n_active_components_", n_components))
    has_idle, noun = n_active != n_components, read.noun_of(model)
    posterior = getattr(model, "n_components_posterior_", None)
    if not posterior:
        result = f"{n_active:,} in use of {n_components:,} represented"
        return {f"{noun}s": result if has_idle else f"{n_components:,}"}
    low, median, high = quantiles(posterior, (0.05, 0.5, 0.95))
    interval = f"median {median:,}, 90 % interval {low:,} to {high:,}"
    if len(posterior) == 1:
        interval = f"{median:,} in every sweep after burn-in"
    best = best_sample(model)
    result = _groups.counted(n_components, noun) + f", {n_active:,} in use" * has_idle
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


def _worth_of(model, n_components):
    """Return why trials kept this number of topics, and the gains of other numbers."""
    gains = getattr(model, "n_components_gains_", {})
    share = 100.0 * getattr(model, "min_gain", 0.0)
    if not share or len(gains) < 2 or n_components < 2:
        return {}
    facts = {"why so many": f"each brings at least {share:g} % of what all gain"}
    number, most = max(gains.items(), key=lambda pair: pair[1])
    now = gains.get(n_components)
    if now is None:
        return facts
    if number > n_components and most > now:
        gain = f"{most - now:.3f} nats per held-out token"
        facts["more"] = f"{number:,} would gain {gain} (min_gain=0)"
    fewer = [number for number in gains if number < n_components]
    if fewer and gains[max(fewer)] < now:
        loss = f"{now - gains[max(fewer)]:.3f} nats"
        facts["fewer"] = f"{max(fewer):,} would lose {loss}"
    if 2.0 * n_components * share >= 100.0:
        limit = f"at most {100.0 / share:,.0f} topics can each bring so much"
        facts["limit"] = f"{limit}: decrease min_gain to try more"
    return facts


def quantiles(posterior, levels):
    """Smallest values with these cumulative shares of a posterior {value: share}."""
    values = np.array(sorted(posterior))
    masses = np.cumsum([posterior[value] for value in values])
    # Sums of shares are off by some roundings.
    at = np.searchsorted(masses, np.asarray(levels) * masses[-1] * (1.0 - 1e-12))
    return values[at].tolist()


def course_of(model, unit):
    """Return the course of a fit: passes or sweeps, seconds, moves, what it reached."""
    history, best, parts = getattr(model, "history_", {}), best_sample(model), []
    chains = np.array(history.get("chain", [0] * len(history.get("step", ()))))
    numbers = np.unique(chains).tolist()
    if is_sampler(model):
        parts.append(_groups.counted(len(set(history["step"])), "sweep"))
        parts += [_groups.counted(len(numbers), "chain")] * (len(numbers) > 1)
        parts.append(_groups.counted(len(getattr(model, "samples_", [])), "sample"))
    elif hasattr(model, "n_iter_"):
        parts.append(_groups.counted(model.n_iter_, "pass", "es"))
    if hasattr(model, "converged_"):
        how = "a stream" if read.is_stream(model) else "not converged"
        parts.append("converged" if model.converged_ else how)
    if history.get("seconds"):
        parts.append(f"{history['seconds'][-1]:,.1f} seconds")
    facts = {"fit": ", ".join(parts)} if parts else {}
    moves = {
        kind: sum(max(np.array(history[f"n_{kind}s"])[chains == k]) for k in numbers)
        for kind in ("birth", "split", "merge")
        if f"n_{kind}s" in history
    }
    if any(moves.values()):
        counts = (_groups.counted(int(number), kind) for kind, number in moves.items())
        facts["moves"] = ", ".join(counts) + " accepted"
    for attribute, (name, measure) in CRITERIA.items():
        value = getattr(model, attribute, math.nan)
        if best is not None:
            value = getattr(best, attribute.removesuffix("_"), value)
        if math.isfinite(value):
            facts[name] = f"{value:.4f} {measure.format(unit)}"
    agreement = getattr(model, "chain_agreement_", ())
    if len(agreement):
        levels = (f"{value:.2f} (level {i + 2})" for i, value in enumerate(agreement))
        facts["chains agree"] = ", ".join(levels)
    traces = _traces(model) if is_sampler(model) else {}
    mixed = {name: mixing(values) for name, values in traces.items()}
    if mixed := {name: of for name, of in mixed.items() if not math.isnan(of[0])}:
        r_hats = (f"{of:.2f} ({name})" for name, (of, _) in mixed.items())
        sizes = (f"{of:,.0f} ({name})" for name, (_, of) in mixed.items())
        facts["R-hat"] = ", ".join(r_hats)
        sweeps = _groups.counted(traces["log joint"].size, "sweep")
        facts["bulk ESS"] = f"{', '.join(sizes)} of {sweeps} after burn-in"
    return facts


def _traces(model):
    """Return traces of chains after burn-in, by name; none if they are short."""
    names = {f"{read.noun_of(model)}s": "n_components", "log joint": "log_joint"}
    traces = {name: has_mixed(model, column) for name, column in names.items()}
    return {} if any(values is None for values in traces.values()) else traces


def repeats_of(model):
    """Return the share of tokens that repeat words of their document."""
    if getattr(model, "burstiness", False) is False:
        return {}
    n = repeated(SAMPLE_LENGTH, model.word_discount_, model.word_concentration_)
    result = "none beyond what topics explain"
    if n >= 0.5:
        result = f"{n:.0f} of the first {SAMPLE_LENGTH} tokens, beyond its topics"
    return {"a document repeats": result}


def groups_of(model):
    """Return the groups of documents, and whether they predict better than none."""
    groups = getattr(getattr(model, "_posterior", None), "groups", None)
    if groups is None:
        return {}
    numbers = [f"{len(labels):,}" for labels in groups.labels]
    if groups.are_latent:
        numbers = [_groups.counted(len(groups.n_docs), "kind")]
    if len(groups.names) > 1:
        pairs = zip(numbers, groups.names, strict=True)
        numbers = [f"{number} of {name}" for number, name in pairs]
    use = "the priors of their documents" if groups.are_kept else "without effect"
    gain, why = groups.gain, "no documents have judged"
    if math.isfinite(gain.error):
        why = f"held-out tokens gain {gain.mean:.4f} nats by them"
        why += " where a fifth is seen" if groups.are_latent else ""
        why += f" (standard error {gain.error:.4f})"
    return {"groups of documents": f"{', '.join(numbers)}; {use}: {why}"}


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
        tokens = read.in_memory(model._row_totals(X))
        score, gain, learned = read.in_memory(model.score(X)), {}, 0.0
    else:
        counts = check_counts(X, whom="summary")
        tokens, score = counts.sum(axis=1), document_completion_score(model, X)
        gain = _gain(model, X, counts)
        learned = share_known(model._digest, counts) if hasattr(model, "_digest") else 0
    n_docs = int((tokens > 0.0).sum())
    n_empty = len(tokens) - n_docs
    empty = f"; {_groups.counted(n_empty, 'document')} without tokens" * (n_empty > 0)
    facts = {
        "documents scored": f"{_groups.counted(n_docs, 'document')}, "
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


#: R-hat above which chains are too far apart to be read.
MOST_R_HAT = 1.1
#: Topics that are too many to read one by one, and to which they may be merged.
MANY, ENOUGH = 60, 20
#: Topics that documents as few as these can distinguish.
FEW_TOPICS, FEW_DOCUMENTS = 10, 1000


def cautions_of(model) -> list[str]:
    """List sentences on why a fit is not to be trusted as it is."""
    if getattr(model, "converged_", True) is False and not read.is_stream(model):
        return ["Increase max_iter: the fit has not converged."] * (model.n_iter_ > 0)
    if not is_sampler(model):
        return []
    if not (traces := _traces(model)):
        return ["Increase max_iter: there are too few sweeps to compare."]
    if any(mixing(values)[0] > MOST_R_HAT for values in traces.values()):
        return [
            "Increase max_iter: the chains disagree, and other sweeps would show "
            f"other {read.noun_of(model)}s."
        ]
    if len(set(model.history_["chain"])) == 1:
        return ["Fit with n_chains=4: one chain cannot show that it has settled."]
    return []


def next_steps(account: "Account") -> list[str]:
    """List at most three sentences on what helps most to trust and to read a fit."""
    model, X, noun = account.model, account.X, account.noun
    is_flat = not hasattr(model, "tree_")
    is_words, has_many = account.unit == "token", account.n_active > MANY
    steps = list(account.cautions)
    if is_sampler(model) and is_flat and len(getattr(model, "samples_", ())) > 1:
        if not steps:
            steps.append("See with consensus_components which topics all samples have.")
    n_seen = getattr(model, "n_samples_seen_", None)
    if n_seen is not None and n_seen < getattr(model, "_n_enough_docs", 0):
        rows = "documents" if is_words else "rows"
        steps.append(
            f"Fit more {rows}: {n_seen:,} do not tell how many {noun}s there are."
        )
    if is_flat and has_many and getattr(model, "split_merge", False):
        n = FEW_TOPICS if n_seen is not None and n_seen < FEW_DOCUMENTS else ENOUGH
        steps.append(
            f"For {n} topics, which are easier to read: reduce_topics(..., {n})."
        )
    if X is None and is_words:
        more = f"groups of {noun}s, " * is_flat
        steps.append(
            f"Give documents, summary(..., X=X): adds {more}a document for each {noun} "
            "and a score."
        )
    if X is not None and is_words:
        steps.append(
            f"Read more documents of a {noun} with top_documents, then name it with "
            "set_topic_names."
        )
    if hasattr(model, "component_ids_") and not is_sampler(model) and is_flat:
        steps.append("Fit other seeds, and see with stability which topics come again.")
    return steps[:3]


class Account:
    """What is reported of a fit, as text and on a page: facts, topics, next steps."""

    def __init__(self, estimator, X, feature_names, n_components, epochs=None):
        """Compute what the sections read."""
        self.estimator, self.X, self.epochs = estimator, X, epochs
        self.model = model = read.fitted_model(estimator)
        self.noun, self.unit = read.noun_of(model), read.unit_of(model)
        _, self.distr = read.topics(estimator)
        n = len(self.distr)
        self.names = read.column_names(estimator, self.distr.shape[1], feature_names)
        self.numbers = read.topic_numbers(estimator, n)
        self.called = read.topic_names(estimator, n)
        self.n_active = int(getattr(model, "n_active_components_", n))
        self.sections = facts_of(estimator, n, len(self.names), X)
        self.facts = dict(chain(*(facts.items() for facts in self.sections.values())))
        self.cautions = cautions_of(model)
        is_here = X is not None and not hasattr(model, "_row_totals")
        is_ranked = is_here and has_shares(model)
        self.ranking = rank_topics(estimator, X if is_ranked else None, epochs)
        self.shares = self.ranking.shares
        n_listed = n_components or min(self.n_active, MAX_TOPICS)
        self.listed = self.ranking.heaviest(n_listed)

    def groups(self) -> list[tuple[str, Ints]]:
        """Return groups of the topics listed, if documents give evidence of any.

        Topics of most documents come last.
        """
        order, is_common = self.listed, self.ranking.is_common
        common = order[is_common[order]]
        last = []
        if 0 < len(common) < len(order):
            order = order[: -len(common)]
            last = [("in more than half of the documents", common)]
        groups = self._topic_groups()
        if groups is None:
            return [("", order), *last]
        labels = groups.labels[order]
        sizes = np.bincount(groups.labels[groups.labels >= 0])
        several = [g for g in range(groups.n_groups) if g in labels and sizes[g] > 1]
        weights = [self.shares[groups.labels == g].sum() for g in several]
        sections = [
            (_groups.title(groups, several[i], weights[i]), order[labels == several[i]])
            for i in largest(np.array(weights), len(weights))
        ]
        alone = order[~np.isin(labels, several)]
        sections += [("by themselves", alone)] * (len(alone) > 0)
        return sections + last

    def _topic_groups(self) -> _groups.TopicGroups | None:
        """Group topics by some documents; None if there is no evidence of groups.

        Topics of most documents are in no group.
        """
        model, X = self.model, self.X if self.epochs is None else None
        is_flat = not hasattr(model, "tree_") and has_shares(model)
        if X is None or not is_flat or hasattr(model, "_row_totals"):
            return None
        rows = read.model_rows(self.estimator, X)
        step = max(-(-check_counts(rows, whom="summary").shape[0] // MAX_GROUPED), 1)
        if step > 1:  # rows of a frame keep the names of columns
            rows = getattr(rows, "iloc", check_counts(rows, whom="summary"))[::step]
        counts = _groups.counts_of(model, rows) * ~self.ranking.is_common
        if not counts.sum():
            return None
        groups = _groups.topic_groups(model, doc_topic=counts, feature_names=self.names)
        return groups if groups.n_groups > 1 else None


#: Topics printed by default: about one screen.
MAX_TOPICS = 20
#: Documents that topics are grouped by, spread over all that are given.
MAX_GROUPED = 3000


@validated()
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
        has is listed: concentrations, history, convergence, bound, or, where there is
        no bound, the log probability of training tokens, each given all others.
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
        those of the sample with the highest log joint. The convergence of chains is
        measured by R-hat and the bulk effective sample size (ESS) of [1]_, of the
        number of topics and of the log joint over the sweeps of the last `fit` after
        burn-in: R-hat should be near 1 (below 1.01 by [1]_), and the ESS is the number
        of independent draws that the sweeps of all chains are worth. Both are left out
        of what never changes, and with fewer than 8 sweeps. "chains agree" is the
        adjusted Rand index of the documents' nodes in the last states of chains over
        trees, by level.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If `feature_names` does not name every column, or `documents` every row.

    See Also
    --------
    TopicTermsDisplay : The same topics as a figure.
    topic_groups : Groups of topics alone, with their evidence.
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
        1   39.6 %  sun, rain
    in more than half of the documents
        0   60.4 %  rain, snow
    <BLANKLINE>
    What to do next
    - Give documents, summary(..., X=X): adds groups of topics, a document for each
      topic and a score.
    - Fit other seeds, and see with stability which topics come again.
    """
    X, texts = texts_of(X, documents)
    account = Account(estimator, X, feature_names, n_components)
    noun, shares, listed = account.noun, account.shares, account.listed
    width = max(map(len, account.facts))
    lines = wrapped(repr(account.model))
    for heading, facts in account.sections.items():
        lines += ["", heading, *(f"{name:{width}}  {facts[name]}" for name in facts)]
    lines += ["", f"{noun:>5}   weight  terms"]
    terms = relevant_terms(estimator, account.names, n_terms)
    for name, rows in account.groups():
        lines += [name] if name else []
        for k in rows:
            number, called = account.numbers[k], account.called[k]
            lines += _topic(number, shares[k], terms[k], called)
            if (row := account.ranking.examples[k]) >= 0:
                lines.append(_example(row, texts))
    if (n_more := account.n_active - len(listed)) > 0:
        more = shares[largest(shares, account.n_active)].sum() - shares[listed].sum()
        more = f"{100 * more:.1f} % together"
        lines.append(f"and {_groups.counted(n_more, f'lighter {noun}')}, {more}")
    steps = next_steps(account)
    lines += ["", "What to do next"] if steps else []
    wrapper = textwrap.TextWrapper(_groups.WIDTH, "- ", "  ")
    lines += [line for step in steps for line in wrapper.wrap(step)]
    return "\n".join(lines)


def _example(row, texts):
    """Return a line with a document that has much of a topic."""
    if texts is None:
        return f"{' ' * 16}document {row}"
    text = " ".join(texts[row].split())
    return f'{" " * 16}"{_cut(text, _groups.WIDTH - 18)}"'


def _cut(text, n_letters):
    """Shorten a text between words; the marks are those that all terminals have."""
    if len(text) <= n_letters:
        return text
    kept = text[: n_letters - 3]
    return (kept.rsplit(" ", 1)[0] if " " in kept else kept) + "..."


def wrapped(text):
    """Break lines that scikit-learn leaves too long: parameters with settings."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(line, _groups.WIDTH, subsequent_indent=indent)
    return lines


def _topic(number, share, terms, name=None):
    """Return the lines of one topic; long lists continue below the first term."""
    # A term of several words stays together.
    glued = ", ".join(term.replace(" ", "\xa0") for term in terms)
    if name is not None:
        glued = f"{name}: {glued}"
    lines = textwrap.wrap(
        glued,
        width=_groups.WIDTH,
        initial_indent=f"{number:5}  {100 * share:5.1f} %  ",
        subsequent_indent=" " * 16,
        break_on_hyphens=False,
    )
    return [line.replace("\xa0", " ") for line in lines]
