"""Expected tokens of topics in documents, and topics that count as one.

A fit to few documents may give a topic twice, each part with words of its own documents
by chance. Their cosine is below that of near copies, but the documents are more
probable if all these tokens have one topic.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri, polygamma, stdtrit, xlogy
from sklearn.base import BaseEstimator

from skbnp.distributions import log_growth
from skbnp.inference.executor import Executor
from skbnp.inspection import _terms
from skbnp.inspection._compared import SAMPLES, DocumentDraws, TopicCounts, duplicates
from skbnp.inspection._displays import COLOURS, GREY, Display
from skbnp.models.hdp.fold_in import MixturePredictor, mix
from skbnp.utils import fitted as read
from skbnp.utils import validation as valid
from skbnp.utils.arrays import largest, members, row_parts, rows_of
from skbnp.utils.labels import RowLabels, check_labels
from skbnp.utils.lazy import import_optional, import_pandas
from skbnp.utils.matching import best_disjoint, cosines
from skbnp.utils.random import Purpose, draw_seed_entropy, stream
from skbnp.utils.typing import Array, DataFrame, Flags, Ints
from skbnp.utils.warnings import warn_caller

#: Cosine from which a topic of a sample is one of the best sample.
SIMILAR = 0.7
#: Updates of the means of groups.
MEANS = 2


def uses_of(
    estimator: Any,
    rows: Any,
    epochs: Any,
    parts: Ints,
    merge_similarity: float,
    rng: Any,
) -> tuple[Iterable[Array], sp.csr_array]:
    """Infer tokens of topics in documents, with group means as their prior.

    Topics that count as one are joined, and topics drawn with their tokens. Returns
    tokens, or first uses, (n_docs, n_topics), of one draw or sample after the other, an
    indicator of the topics that count as one, (n_components, n_topics).
    """
    model = read.fitted_model(estimator)
    is_here = not hasattr(model, "_row_totals")
    is_flat, n = not hasattr(model, "tree_"), len(model.components_)
    has_samples = is_here and not is_flat and hasattr(model, "_sample_uses")
    is_bursty = getattr(model, "word_concentration_", np.inf) < _terms.NOT_BURSTY
    words = infer = None
    if is_here and (has_samples or hasattr(model, "topic_word_prior_")):
        words = valid.check_counts(rows, whom="topic_shares")
    onto = members(np.arange(n), n)
    if has_samples and len(model.samples_) > 1:
        return _sample_uses(model, words), onto
    if words is None or not hasattr(model, "_expected_uses"):
        shares = _terms.transformed(model, rows, epochs)
        _terms.check_shares(model, shares)
        tokens = _terms.doc_counts(model, rows, shares)[0]
    elif is_bursty:
        tokens, first = model._expected_uses(words)
        words = sp.csr_array((first, words.indices, words.indptr), words.shape)
    else:
        infer = partial(_by_group, counts=words, parts=parts)
        tokens = infer(read.distributions(estimator), _terms.doc_prior(model, n))
    tokens = np.asarray(read.in_memory(tokens), dtype=np.float64)
    if not tokens.any():
        raise ValueError("X must have a document with tokens, got none.")
    if not is_flat:
        return [tokens], onto
    eta = _topic_prior(model)
    if merge_similarity < 1.0:
        onto, tokens = joined(estimator, eta, merge_similarity, tokens, words, infer)
    if words is None or not eta:
        return [tokens], onto
    return _drawn_uses(estimator, onto, words, parts, rng), onto


def _topic_prior(model: Any) -> float:
    """Return the Dirichlet parameter of topics, 0 of models that have none."""
    state = getattr(getattr(model, "_posterior", None), "state", None)
    eta = getattr(state, "topic_word_prior", getattr(model, "topic_word_prior_", 0.0))
    return float(np.median(eta))


def _drawn_uses(
    estimator: Any, onto: sp.csr_array, words: sp.csr_array, parts: Ints, rng: Any
) -> Iterator[Array]:
    """Yield tokens of topics, which are drawn with them, in documents."""
    model, distr = read.fitted_model(estimator), read.distributions(estimator)
    weights = read.weights_of(estimator, model.components_)
    topics = onto.T @ (distr * np.maximum(weights, 1e-300)[:, None])
    prior = np.maximum(_terms.doc_prior(model, len(distr)), valid.SMALLEST_PRIOR) @ onto
    eta = np.broadcast_to(model.topic_word_prior_, model.components_.shape)
    given = TopicCounts.of(model.components_, eta, words)
    is_fixed = np.zeros(len(distr), dtype=bool)
    if hasattr(model, "_frozen_ids"):
        is_fixed = np.isin(model.component_ids_, model._frozen_ids)
    given = given._replace(
        counts=onto.T @ given.counts, is_fixed=onto.T @ is_fixed > 0.0
    )
    # The order of parts is that of documents, whatever labels are called.
    _, first, at = np.unique(parts, return_index=True, return_inverse=True)
    parts = np.argsort(np.argsort(first))[at]
    # First uses are no whole numbers.
    words.data = np.floor(words.data + rng.random(words.nnz))
    draws = DocumentDraws(words).with_topics(
        read.normalised_rows(topics), given, prior, parts, SAMPLES, rng
    )
    for _, tokens, _ in draws:
        yield tokens


def _sample_uses(model: Any, counts: Any) -> Iterator[Array]:
    """Yield tokens of the nodes of samples that are most similar to the best one's."""
    components, n = model.components_, len(model.components_)
    topics = components - components.min(axis=1, keepdims=True)
    # Of each sample words of nodes, their depth, and tokens.
    for values, depth, uses in model._sample_uses(counts, SAMPLES):
        similar = cosines(topics, np.asarray(read.in_memory(values), np.float64))
        similar[model.tree_.depth[:, None] != depth] = 0.0
        best = similar.argmax(axis=0)
        is_other = similar[best, np.arange(len(best))] < SIMILAR
        best[is_other] = n + np.arange(is_other.sum())
        sums = members(best, n + is_other.sum())
        yield (sp.csr_array(uses) @ sums.T[:, :n]).toarray()


def _by_group(distr: Array, prior: Array, counts: sp.csr_array, parts: Ints) -> Array:
    """Infer tokens of topics, with documents shrunk towards means of their group."""
    prior = np.maximum(prior, valid.SMALLEST_PRIOR)
    uses = np.zeros((counts.shape[0], len(distr)))
    with Executor(None) as executor:
        for own in (np.flatnonzero(parts == part) for part in np.unique(parts)):
            of_group = prior
            for _ in range(1 + MEANS):
                predictor = MixturePredictor.of_topics(distr, of_group)
                tokens = predictor.infer_counts(
                    predictor.samples[0], counts[own], executor
                )
                shares, totals = shares_of_tokens(tokens)
                if not totals.any():
                    break
                mean = shares[totals > 0.0].mean(axis=0)
                of_group = np.maximum(prior.sum() * mean, valid.SMALLEST_PRIOR)
            uses[own] = tokens.toarray()
    return uses


def shares_of_tokens(uses: sp.csr_array | Array) -> tuple[Array, Array]:
    """Return shares of topics in documents, and their numbers of tokens."""
    uses = np.asarray(read.in_memory(uses), dtype=np.float64)
    totals = uses.sum(axis=1)
    return uses / np.maximum(totals, 1e-300)[:, None], totals


def joined(
    estimator: Any,
    eta: float,
    merge_similarity: float,
    tokens: Array,
    words: sp.csr_array | None,
    infer: Any,
) -> tuple[sp.csr_array, Array]:
    """Join topics that count as one: (n_components, n_topics) of ones, and tokens.

    Copies of a cosine of `merge_similarity` first. Then, in rounds, each topic and that
    which is most similar to it, if the evidence of the documents is larger for one;
    tokens of joined topics are inferred before the next round, by `infer` if there is
    one. `eta` is the prior of topics, 0 for none, `tokens` (n_docs, n_components),
    `words` (n_docs, n_features).
    """
    model, distr = read.fitted_model(estimator), read.distributions(estimator)
    weights = read.weights_of(estimator, model.components_)
    values = distr * np.maximum(weights, 1e-300)[:, None]
    prior = np.maximum(_terms.doc_prior(model, len(distr)), valid.SMALLEST_PRIOR)
    of = duplicates(distr, weights, merge_similarity)
    while True:
        onto = members(of, of.max() + 1).T.tocsr()
        topics = read.normalised_rows(onto.T @ values, 0.0)
        is_same = len(topics) == len(distr)
        uses = tokens if is_same else tokens @ onto
        if infer is not None and not is_same:
            uses = infer(topics, prior @ onto)
        if len(topics) == 1 or not eta or words is None:
            return onto, uses
        similar = cosines(topics, topics)
        np.fill_diagonal(similar, -1.0)
        nearest = np.column_stack([np.arange(len(topics)), similar.argmax(axis=1)])
        pairs = np.unique(np.sort(nearest, axis=1), axis=0)
        gains = evidence_of_one(topics, prior @ onto, eta, words, uses, pairs)
        best = pairs[best_disjoint(pairs.tolist(), gains)]
        if len(best) == 0:
            return onto, uses
        target = np.arange(len(topics))
        target[best[:, 1]] = best[:, 0]
        of = np.unique(target[of], return_inverse=True)[1]


#: Documents of a block, and pairs of topics.
DOCS, PAIRS = 512, 256
#: The largest responsibility below one.
ALL = np.nextafter(1.0, 0.0)


def evidence_of_one(
    topics: Array,
    prior: Array,
    eta: float,
    words: sp.csr_array,
    uses: Array,
    pairs: Ints,
) -> Array:
    """Gain of the evidence if two topics are one, in nats, (n_pairs,).

    `topics` (n_topics, n_features), `prior` (n_topics,) of the topics of a document,
    `eta` of topics over words, `words` (n_docs, n_features), `uses` n_jk (n_docs,
    n_topics), `pairs` (n_pairs, 2). Of each pair, the change of

        E_q[sum_k log DirMult(S_k | eta) + sum_jk [lnG(a_k + N_jk) - lnG(a_k)]] + H[q],

    a the prior of documents. Tokens of word w in document j are of topic k by
    q ~ (a_k + n_jk) phi_kw; S_kw and N_jk are their sums. A joint topic has the tokens
    and the prior of both. Expectations are to the second order about the mean of N
    given N > 0 (Teh, Newman and Welling 2007): topics that overlap have tokens of much
    variance, and to the first order one topic has more evidence than two that were
    planted.
    """
    if len(pairs) > PAIRS:
        parts = np.array_split(pairs, -(-len(pairs) // PAIRS))
        some = (evidence_of_one(topics, prior, eta, words, uses, p) for p in parts)
        return np.concatenate([*some])
    used, places = np.unique(pairs, return_inverse=True)
    places = places.reshape(pairs.shape)
    # Columns of `used` that count as one topic: each alone, then pairs.
    groups = [[k] for k in range(len(used))] + [list(pair) for pair in places]
    priors = [prior[used[group]].sum() for group in groups]
    values = np.zeros(len(groups))
    moments = np.zeros((len(groups), 3, topics.shape[1]))
    by_word = np.ascontiguousarray(topics.T)
    for begin in range(0, words.shape[0], DOCS):
        X = words[begin : begin + DOCS]
        shares = prior + uses[begin : begin + DOCS]
        # Shares of tokens among all topics, also those that are in no pair.
        norm = 1.0 / np.maximum(mix(shares, by_word, X), 1e-300)
        q = shares[rows_of(X.indptr)][:, used] * by_word[X.indices][:, used]
        q *= norm[:, None]
        ones, entries = np.ones(X.nnz), np.arange(X.nnz)
        in_docs = sp.csr_array((ones, entries, X.indptr))
        of_words = sp.csr_array((ones, (X.indices, entries)), (X.shape[1], X.nnz))
        for k, group in enumerate(groups):
            part = np.minimum(q[:, group].sum(axis=1), ALL)
            tokens = X.data * part
            of_entries = np.stack(
                [tokens, tokens * (1.0 - part), X.data * np.log1p(-part)], axis=1
            )
            moments[k] += (of_words @ of_entries).T
            values[k] += expected_growth(priors[k], *(in_docs @ of_entries).T).sum()
            values[k] -= xlogy(tokens, part).sum()
    for k, of_topic in enumerate(moments):
        values[k] += expected_growth(eta, *of_topic).sum()
        whole = of_topic.sum(axis=1, keepdims=True)
        values[k] -= expected_growth(topics.shape[1] * eta, *whole).sum()
    return values[len(used) :] - values[places].sum(axis=1)


def expected_growth(
    prior: float, mean: Array, variance: Array, log_none: Array
) -> Array:
    """E[lnG(prior + N) - lnG(prior)] of sums N of indicators, to the second order.

    By their mean, their variance, and the log probability that all are 0.
    """
    some = np.maximum(-np.expm1(log_none), 1e-300)  # probability that N > 0
    given = mean / some
    spread = np.maximum((variance + mean**2) / some - given**2, 0.0)
    curvature = 0.5 * polygamma(1, prior + given)
    return some * (log_growth(prior, given) + curvature * spread)


def members_of(onto: sp.csr_array, weights: Array) -> list[Ints]:
    """Return the topics of each group of copies, the heaviest first."""
    order = np.argsort(-weights, kind="stable")
    of = onto.indices[order]
    return [order[of == k] for k in range(onto.shape[1])]


#: Groups whose documents have a mean of their own.
GROUPS = 50
#: Weights of documents in draws that are made together.
WEIGHTS = 1 << 22
#: Steps of a fit with a link, at most, and the change at which it ends.
STEPS, STEP_TOL = 50, 1e-8
#: Link of a share that is zero or one, at most.
FARTHEST = 30.0
#: Name of a coefficient of all documents.
INTERCEPT = "Intercept"
#: What an estimate is, by link.
MEASURES = {
    "identity": ("share", "change of the share", "difference of shares"),
    "logit": ("log odds", "log odds ratio", "log odds ratio"),
    "log": ("log share", "log ratio", "log ratio of shares"),
}
SHARES: dict[str, list] = {
    "formula": [str, None],
    "per": [valid.StrOptions({"document", "token"})],
    "link": [valid.StrOptions(set(MEASURES))],
    "confidence": [valid.CONFIDENCE],
    "n_draws": [valid.at_least(20)],
    "merge_similarity": [valid.Interval(Real, 0, 1, closed="right")],
}


@dataclass(frozen=True, eq=False, repr=False)
class TopicShares:
    """Shares of topics in groups of documents, their differences, or coefficients.

    ``print(shares)`` shows a table in Markdown.

    Parameters
    ----------
    groups : ndarray of shape (n_groups,)
        Labels, in order: numbers and dates by value, texts by the numbers in them, an
        ordered Categorical by its categories; periods and intervals are texts. Of
        several covariates the names of coefficients, of differences both labels.
    topics : ndarray of int of shape (n_components,)
        Numbers of the topics, as `summary` shows them; of those that count as one, that
        of the heaviest.
    members : list of list of int
        Numbers of the topics that count as one, the heaviest first.
    mean : ndarray of shape (n_groups, n_components)
        Mean shares, rows sum to one; or differences, or coefficients.
    std : ndarray of shape (n_groups, n_components)
        Their standard errors, nan in groups with one document.
    low, high : ndarray of shape (n_groups, n_components)
        Limits of their intervals.
    n_documents : ndarray of int of shape (n_groups,)
        Documents with tokens; of a covariate those in which it is not zero.
    slope, slope_low, slope_high : ndarray of shape (n_components,) or None
        Change of the share per unit of the label, of dates and periods per year, by
        least squares or by the link, and its interval, nan of two documents; None if
        labels are neither numbers nor dates nor periods, or categories in another
        order.
    terms : list of list of str
        Terms of the topics, most relevant first.
    names : list of str
        Names of the topics, empty without one.
    confidence : float
        Probability of the intervals.
    draws : ndarray of shape (n_draws, n_groups, n_components)
        Draws of `mean`, whose spread is the standard error.
    freedom : ndarray of int of shape (n_groups,)
        Degrees of freedom: documents, or clusters, less numbers fitted.
    measure : str
        What `mean` is: "share", "difference of shares", "change of the share", or
        another by the link.

    See Also
    --------
    topic_shares : Makes them.
    TopicSharesDisplay : Draws them.
    """

    groups: NDArray
    topics: Ints
    members: list[list[int]]
    mean: Array
    std: Array
    low: Array
    high: Array
    n_documents: Ints
    slope: Array | None
    slope_low: Array | None
    slope_high: Array | None
    terms: list[list[str]]
    names: list[str]
    confidence: float
    draws: Array
    freedom: Ints
    measure: str

    def __repr__(self) -> str:
        n_groups, n = self.mean.shape
        return f"TopicShares(n_groups={n_groups}, n_components={n})"

    def __str__(self) -> str:
        return self.to_text()

    def to_frame(self) -> DataFrame:
        """List the shares.

        Returns
        -------
        frame : pandas DataFrame
            A row for each topic in each group: "group", "topic", "share" (or
            difference, or coefficient), "std", "low", "high", "n_documents", "name",
            "members", "terms".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        n_groups, k = self.mean.shape
        return import_pandas().DataFrame(
            {
                "group": np.repeat(self.groups, k),
                "topic": np.tile(self.topics, n_groups),
                "share": self.mean.ravel(),
                "std": self.std.ravel(),
                "low": self.low.ravel(),
                "high": self.high.ravel(),
                "n_documents": np.repeat(self.n_documents, k),
                "name": self.names * n_groups,
                "members": self.members * n_groups,
                "terms": self.terms * n_groups,
            }
        )

    def differences(self, reference: Any = None) -> "TopicShares":
        """Subtract the shares of one group from those of each other group.

        Parameters
        ----------
        reference : label, default=None
            The group that is subtracted; None is the first.

        Returns
        -------
        differences : TopicShares
            A row for each other group, named "group - reference".

        Raises
        ------
        ValueError
            If there is no such group, or no other; of coefficients.
        """
        names = self.groups.tolist()
        if INTERCEPT in names or not self._are_levels:
            raise ValueError(
                f"by must be one column of labels for differences of groups, got "
                f"{names[:10]}, which are differences already. `contrasts` weighs them."
            )
        base = names[0 if reference is None else self._place(reference)]
        if len(names) < 2:
            raise ValueError(
                "by must have two groups or more for differences, got one."
            )
        return self.contrasts(
            {f"{k} - {base}": {k: 1.0, base: -1.0} for k in names if k != base}
        )

    def contrasts(self, weights: Mapping[str, Mapping[Any, float]]) -> "TopicShares":
        """Return weighted sums of the shares of groups, or of coefficients.

        Parameters
        ----------
        weights : dict of str to dict of label to float
            Of each sum its name, and the weights of groups; 0 of those left out.

        Returns
        -------
        contrasts : TopicShares
            A row for each sum. Degrees of freedom are the least of its groups.

        Raises
        ------
        ValueError
            If there is no such group.
        """
        matrix = np.zeros((len(weights), len(self.groups)))
        for row, of in zip(matrix, weights.values(), strict=True):
            for label, weight in of.items():
                row[self._place(label)] = weight
        used = matrix != 0.0
        freedom = np.where(used, self.freedom, self.freedom.max()).min(axis=1)

        def summed(values):
            """Sum groups; nan where one has none, as draws of one document."""
            sums = matrix @ np.nan_to_num(values)
            return np.where(used @ np.isnan(values), np.nan, sums)

        mean, draws = summed(self.mean), summed(self.draws)
        std, low, high = _limits(mean, draws, freedom, self.confidence)
        kinds = next(of for of in MEASURES.values() if self.measure in of)
        return replace(
            self,
            groups=np.array(list(weights)),
            mean=mean,
            std=std,
            low=low,
            high=high,
            n_documents=used @ self.n_documents,
            draws=draws,
            freedom=freedom,
            measure=kinds[2] if self.measure == kinds[0] else self.measure,
            slope=None,
            slope_low=None,
            slope_high=None,
        )

    def _place(self, label):
        """Return the row of a group."""
        names = self.groups.tolist()
        for place, name in enumerate(names):
            if name == label or self.groups[place] == label:
                return place
        raise ValueError(f"groups must be among {names[:10]}, got {label!r}.")

    @valid.validated(n_components=[valid.POSITIVE])
    def to_text(self, n_components: int = 20, n_terms: int = 3) -> str:
        """Return a table in Markdown: a line for each topic, a column for each group.

        Parameters
        ----------
        n_components : int, default=20
            Topics at most: those that differ most between groups, the heaviest first.
        n_terms : int, default=3
            Terms of each topic.

        Returns
        -------
        text : str
            Estimates with their intervals, in per cent of shares and their differences;
            not the intercept of covariates.
        """
        is_percent = self.measure in MEASURES["identity"]
        unit, scale, digits = (" (%)", 100.0, 1) if is_percent else ("", 1.0, 2)
        level = f"{100 * self.confidence:g} %"
        rows = np.flatnonzero(self.groups != INTERCEPT)
        heads = [
            f"{self.measure}{unit}, {level} interval",
            *map(str, self.groups[rows]),
        ]
        lines = [heads, ["---", *["---:"] * len(rows)]]
        for k in self._chosen(n_components):
            name = self.names[k] or str(self.topics[k])
            cells = [f"{name}: {' '.join(self.terms[k][:n_terms])}"]
            for row in rows:
                values = self.mean[row, k], self.low[row, k], self.high[row, k]
                mean, low, high = (f"{scale * one:.{digits}f}" for one in values)
                limits = "-" if low == "nan" else f"{low} to {high}"
                cells.append(f"{mean} ({limits})")
            lines.append(cells)
        return "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
            for line in lines
        )

    @property
    def _are_levels(self) -> bool:
        """Whether rows are shares of groups, and not differences or coefficients."""
        return any(self.measure == of[0] for of in MEASURES.values())

    def _chosen(self, n_components: int) -> Ints:
        """Choose topics: those that differ most between groups, the heaviest first.

        Of differences and coefficients those that are most standard errors from zero.
        """
        if not self._are_levels:
            used = self.groups != INTERCEPT
            with np.errstate(divide="ignore", invalid="ignore"):
                score = np.nan_to_num(np.abs(self.mean / self.std))[used].max(axis=0)
            return largest(score, n_components)
        least = min(2, self.n_documents.max())  # one document is little evidence
        means = np.where(self.n_documents[:, None] >= least, self.mean, np.nan)
        spread = np.nan_to_num(np.nanmax(means, axis=0) - np.nanmin(means, axis=0))
        chosen = largest(spread, n_components)
        return chosen[np.argsort(-np.nanmean(means, axis=0)[chosen], kind="stable")]


@valid.validated(**SHARES)
def topic_shares(
    estimator: BaseEstimator,
    X: Any,
    by: Any,
    feature_names: ArrayLike | None = None,
    *,
    formula: str | None = None,
    per: str = "document",
    link: str = "identity",
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    confidence: float = 0.9,
    n_draws: int = 1000,
    merge_similarity: float = 0.9,
    epochs: Any = None,
    random_state: Any = 0,
) -> TopicShares:
    """Estimate shares of topics by group, time or covariates, with intervals.

    Parameters
    ----------
    estimator : fitted topic model or Pipeline that ends in one
        Anything whose `transform` returns the share of each topic in each document.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str
        Documents; raw ones for a text Pipeline.
    by : array-like of shape (n_samples,), or frame, dict of columns or array of shape \
            (n_samples, n_covariates)
        Label of each document: groups, numbers, dates or periods, all of one kind. An
        ordered Categorical has the order of its categories. Several columns are the
        covariates of a regression, an intercept is added: numbers as they are, dates
        in years, and of other labels an indicator of each but the first. A product of
        two columns is an interaction.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    formula : str, default=None
        Formula of covariates, such as "arm * center(year)", of the columns of `by`:
        coefficients of a factor are where the numbers beside it are 0. Needs the
        package formulaic. The design of `patsy.dmatrix` is a frame for `by`.
    per : {"document", "token"}, default="document"
        Whether each document or each token counts as one.
    link : {"identity", "logit", "log"}, default="identity"
        Function of the expected share that is linear: estimates, slopes and
        differences are on its scale. "identity" is least squares, "logit" the
        fractional logit [2]_, "log" has ratios of shares.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each document in the population, such as that of a survey.
    clusters : array-like of shape (n_samples,), default=None
        Label of the unit that each document comes from, such as its author. Units are
        drawn as a whole; None takes documents as independent.
    confidence : float, default=0.9
        Probability of the intervals, in (0, 1).
    n_draws : int, default=1000
        Draws that intervals are made of, 20 or more.
    merge_similarity : float, default=0.9
        Flat topics whose cosine is at least this are copies of one, among which its
        share is divided at will; they count as one. So does a topic and the one that it
        is most like if the evidence of `X` is larger for one topic than for two. 1
        keeps all apart.
    epochs : array-like of shape (n_samples,) or scalar, default=None
        Labels of the epochs of rows, for an estimator whose `transform` takes them.
    random_state : int, RandomState instance or None, default=0
        Names the draws.

    Returns
    -------
    shares : TopicShares
        `mean`, `std`, `low` and `high`, one row for each label in `groups` or each
        coefficient; slopes, if labels are numbers, dates or periods. Its `to_frame`
        lists them, `differences` compares groups.

    Raises
    ------
    ImportError
        If there is a `formula`, and formulaic is not installed.
    NotFittedError
        If the model is not fitted.
    TypeError
        If `transform` does not return shares.
    ValueError
        If `by` has not one label for each document, labels are of several kinds, or one
        is missing or infinite; if covariates determine each other; if no document has
        tokens, or weights are negative.

    Warns
    -----
    UserWarning
        If groups have one document or cluster each, or none, or with a link if a topic
        is in all or none of the documents of a group, whose coefficient is not finite.

    See Also
    --------
    topics_over_time : When topics begin.
    TopicSharesDisplay : The shares as a figure.

    Notes
    -----
    Shares are those of the tokens of documents, or of first uses where documents repeat
    words: the prior, which draws the shares of `transform` in short documents together,
    is taken out, and documents without tokens are left out. Which topic a token has is
    uncertain, as topics are, so that both are imputed 20 times [3]_: by Gibbs sampling
    from the topics of the fit, given their number (see `with_topics` of
    ``inspection/_compared.py``). Topics are drawn from the words of `X` and of the
    other documents of the fit; those of a document have the mean of its group as their
    prior (of 50 groups in order, where there are more; of the combinations of
    covariates that are no numbers). In trees, and in models without
    `topic_word_prior_`, topics are taken as given.

    Fits to few documents, and truncated ones, may have a topic in several shapes that
    differ by accidents of their documents. The evidence of one topic is that of a
    Dirichlet prior for its words and for the topics of documents; a model needs a
    `topic_word_prior_` for it. That there may be more or fewer topics is not in the
    intervals: where two topics are one by mistake, their shares are wrong.

    Draws are Bayesian bootstrap samples of documents [1]_, or of clusters, which are
    taken as independent draws of their group; with a link, one step of weighted Fisher
    scoring from the estimate each; in turns from each imputation, or of trees from each
    kept sample of a chain (20 at most), whose nodes are put to the most similar one of
    the best sample. Limits are those of Student's t, as many degrees of freedom as
    documents less numbers fitted. Intervals are of one number each: of 40
    topics without any difference, four have an interval of 90 % without zero.

    References
    ----------
    .. [1] Donald B. Rubin, "The Bayesian Bootstrap", Annals of Statistics 9, 1981.
    .. [2] Leslie E. Papke and Jeffrey M. Wooldridge, "Econometric Methods for
       Fractional Response Variables With an Application to 401(k) Plan Participation
       Rates", Journal of Applied Econometrics 11, 1996.
    .. [3] Donald B. Rubin, "Multiple Imputation for Nonresponse in Surveys", 1987.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.inspection import topic_shares
    >>> X = [[9, 4, 0, 0], [5, 8, 0, 0], [0, 0, 8, 6], [0, 0, 4, 9]] * 9
    >>> hdp = HDP(n_components=2, split_merge=False, random_state=0).fit(X)
    >>> shares = topic_shares(hdp, X, ["old", "old", "new", "new"] * 9)
    >>> shares.groups.tolist(), shares.mean.round(1).max(axis=1).tolist()
    (['new', 'old'], [1.0, 1.0])
    >>> shares.differences().groups.tolist()
    ['old - new']
    """
    read.fitted(estimator, "transform")
    rng = stream(draw_seed_entropy(random_state), Purpose.INTERVALS, 0)
    model, rows = read.fitted_model(estimator), read.model_rows(estimator, X)
    terms = _terms.relevant_terms(estimator, feature_names, 5)
    n_rows = read.n_rows_of(rows)
    if formula is not None:
        need = "formula needs formulaic"
        formulaic = import_optional("formulaic", need, "formulaic")
        by = formulaic.model_matrix(formula, by, na_action="raise")
    asked = _asked(by, n_rows)
    weights = _weights(sample_weight, n_rows)
    units = np.arange(n_rows)
    if clusters is not None:
        units = check_labels(clusters, n_rows, "clusters", "document").codes
    tokens, onto = uses_of(estimator, rows, epochs, asked.parts, merge_similarity, rng)
    # Drawn tokens are in few topics of many.
    drawn = [sp.csr_array(of) for of in tokens]
    totals = np.array([of.sum(axis=1) for of in drawn])
    # Documents with tokens in every sample.
    is_used = (totals > 0.0).all(axis=0) & (weights > 0.0)
    if not is_used.any():
        raise ValueError("X must have a document with tokens, got none.")
    drawn = [of[is_used] for of in drawn]
    weights = weights[is_used] * (totals[0][is_used] if per == "token" else 1.0)
    models, n_documents = asked.models(is_used)
    estimates, draws, freedom, farthest = _estimated(
        models, drawn, weights / weights.mean(), units[is_used], n_draws, rng, link
    )
    std, low, high = _limits(estimates, draws, freedom, confidence)
    if farthest >= FARTHEST:
        warn_caller(
            f"link={link!r} has no finite estimate where a topic is in none or all of "
            "the documents of a group. Use coarser groups, or link='identity'."
        )
    n, has_slope = len(asked.names), len(estimates) > len(asked.names)
    if asked.codes is not None:
        if link == "identity":
            low[:n], high[:n] = np.clip(low[:n], 0.0, 1.0), np.clip(high[:n], 0.0, 1.0)
        alone = int((freedom[:n] < 1).sum())
        if alone:
            has_limits = has_slope and not np.isnan(low[-1]).all()
            unit = "document" if clusters is None else "cluster"
            warn_caller(
                f"{alone} of {n} groups in by have one {unit} each, or none: their "
                "intervals are nan. Use coarser groups"
                + (", or slopes, which need none." if has_limits else ".")
            )
    topics = read.topic_numbers(estimator, len(terms))
    parts = members_of(onto, read.weights_of(estimator, model.components_))
    first = [of[0] for of in parts]
    given = read.topic_names(estimator, len(terms))
    return TopicShares(
        groups=asked.names,
        topics=topics[first],
        members=[topics[of].tolist() for of in parts],
        mean=estimates[:n],
        std=std[:n],
        low=low[:n],
        high=high[:n],
        n_documents=n_documents,
        slope=estimates[-1] if has_slope else None,
        slope_low=low[-1] if has_slope else None,
        slope_high=high[-1] if has_slope else None,
        terms=[terms[k] for k in first],
        names=[given[k] or "" for k in first],
        confidence=float(confidence),
        draws=draws[:, :n],
        freedom=freedom[:n],
        measure=MEASURES[link][asked.codes is None],
    )


class Asked(NamedTuple):
    """What shares are estimated of: groups of documents, or covariates."""

    names: NDArray  # of groups or coefficients
    parts: Ints  # (n_docs,) documents that share a mean
    codes: Ints | None  # (n_docs,) groups
    scale: Array | None  # (n_groups,) numbers
    design: Array  # (n_docs, n_fitted), of groups a column of ones

    def models(self, is_used: Flags) -> tuple[list[tuple[Ints, Array]], Ints]:
        """Return rows and design of each model of some documents, and their numbers.

        Of groups each is one, and the last is that of slopes, if there are any.
        """
        design, rows = self.design[is_used], np.arange(is_used.sum())
        if self.codes is None:
            _check_rank(design, self.names)
            return [(rows, design)], (design != 0.0).sum(axis=0)
        codes = self.codes[is_used]
        n_documents = np.bincount(codes, minlength=len(self.names))
        groups = [np.flatnonzero(codes == g) for g in range(len(self.names))]
        models = [(own, design[own]) for own in groups]
        if self.scale is not None and (n_documents > 0).sum() > 1:
            models.append((rows, np.column_stack([design, self.scale[codes]])))
        return models, n_documents


def _asked(by: Any, n_rows: int) -> Asked:
    """Read labels or covariates."""
    columns = _covariates(by)
    if columns is not None:
        return _design(columns, n_rows)
    labels = check_labels(by, n_rows, "by", "document")
    names, ones = np.asarray(labels.distinct), np.ones((n_rows, 1))
    return Asked(names, _coarse(labels), labels.codes, labels.scale, ones)


def _check_rank(design: Array, names: NDArray) -> None:
    """Raise if columns of a design determine each other."""
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    if np.linalg.matrix_rank(design / scale) < len(names):
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        raise ValueError(
            f"by must have columns that do not determine each other, and fewer than "
            f"there are documents, got {names[:10].tolist()}{more}."
        )


def _weights(sample_weight: ArrayLike | None, n_rows: int) -> Array:
    """Check weights of documents."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = np.asarray(sample_weight, dtype=np.float64)
    is_good = weights.shape == (n_rows,) and np.isfinite(weights).all()
    if not is_good or weights.min() < 0.0 or not weights.any():
        raise ValueError(
            f"sample_weight must have a weight for each of {n_rows} documents, none "
            "negative or missing, some positive."
        )
    return weights


def _covariates(by: Any) -> dict[str, Any] | None:
    """Return columns by name, or None of labels, which are one column."""
    if isinstance(by, Mapping):
        return {str(name): column for name, column in by.items()}
    if len(getattr(by, "shape", ())) != 2 or by.shape[1] == 1:
        return None
    if hasattr(by, "columns"):
        return {str(name): by[name] for name in by.columns}
    return {f"x{k}": column for k, column in enumerate(np.asarray(by).T)}


def _design(columns: dict[str, Any], n_rows: int) -> Asked:
    """Make a design of covariates, with an intercept unless columns sum to one."""
    names, values, parts = [], list[Array](), np.zeros(n_rows, dtype=np.intp)
    for name, column in columns.items():
        labels = check_labels(column, n_rows, f"by[{name!r}]", "document")
        distinct, codes, scale = np.asarray(labels.distinct), labels.codes, labels.scale
        if distinct.dtype.kind == "b":
            scale = distinct.astype(np.float64)
        if scale is not None:
            names.append(name)
            values.append(scale[codes])
        else:
            for code, label in enumerate(labels.distinct[1:], 1):
                names.append(f"{name}: {label}")
                values.append((codes == code).astype(np.float64))
        if scale is None or len(distinct) == 2:
            parts = np.unique(parts * len(distinct) + codes, return_inverse=True)[1]
    ones, design = np.ones(n_rows), np.column_stack([np.zeros((n_rows, 0)), *values])
    scaled = design / np.maximum(np.abs(design).max(axis=0, initial=0.0), 1e-300)
    residuals = ones - scaled @ np.linalg.lstsq(scaled, ones, rcond=None)[0]
    if np.abs(residuals).max() > 1e-9:
        names, design = [INTERCEPT, *names], np.column_stack([ones, design])
    _check_rank(design, np.array(names))
    if parts.max() >= GROUPS:
        parts = np.zeros_like(parts)
    return Asked(np.array(names), parts, None, None, design)


def _coarse(labels: RowLabels) -> Ints:
    """Return at most `GROUPS` groups of documents with separate means."""
    codes = labels.codes
    if len(labels.distinct) <= GROUPS:
        return codes
    if labels.scale is None:
        return np.zeros_like(codes)
    ranks = np.argsort(np.argsort(codes, kind="stable"), kind="stable")
    return ranks * GROUPS // len(codes)


def _moments(values: Array, link: str) -> tuple[Array, Array]:
    """Return expected shares and their derivative by the linear predictor."""
    values = np.clip(values, -FARTHEST, FARTHEST)
    if link == "identity":
        return values, np.ones_like(values)
    mean = expit(values) if link == "logit" else np.exp(values)
    return mean, mean * (1.0 - mean) if link == "logit" else mean


def _step(weights: Array, shares: Array, design: Array, start: Array, link: str):
    """Make a step of weighted Fisher scoring, (n_draws, n_fitted, n_components).

    Exact in one step of least squares. `weights` (n_draws, n_docs), `design` (n_docs,
    n_fitted), `start` (n_fitted, n_components).
    """
    n_fitted = design.shape[1]
    mean, derivative = _moments(design @ start, link)
    score = np.stack(
        [(weights * column) @ (shares - mean) for column in design.T], axis=1
    )
    squares = (design[:, :, None] * design[:, None]).reshape(len(design), -1)

    def solved(of, right):
        information = (weights @ (squares * of)).reshape(-1, n_fitted, n_fitted)
        return np.linalg.solve(information, right)

    if link == "identity":
        return start + solved(1.0, score)
    each = [
        solved(derivative[:, [k]], score[:, :, [k]]) for k in range(shares.shape[1])
    ]
    return start + np.concatenate(each, axis=2)


def _fitted(weights: Array, shares: Array, design: Array, link: str) -> Array:
    """Fit coefficients, (n_fitted, n_components)."""
    result = np.zeros((design.shape[1], shares.shape[1]))
    for _ in range(STEPS):
        before, result = result, _step(weights[None], shares, design, result, link)[0]
        values = design @ result
        if link == "identity" or np.abs(design @ (result - before)).max() < STEP_TOL:
            break
        if np.abs(values).max() > FARTHEST:
            break
    return result


def _estimated(
    models: list[tuple[Ints, Array]],
    tokens: list[sp.csr_array],
    weights: Array,
    units: Ints,
    n_draws: int,
    rng: Any,
    link: str,
) -> tuple[Array, Array, Ints, float]:
    """Return coefficients of models, (n, n_components), their draws, and freedom.

    And the linear predictor that is farthest from zero. `tokens` are draws of those of
    topics in documents; models are pairs of rows and a design, nan without rows. Draws
    with exponential weights of units have the variance (n - p) / (n + 1) times too
    small, of n units and p numbers fitted.
    """
    units = np.unique(units, return_inverse=True)[1]
    mean = np.zeros(tokens[0].shape)
    for of in tokens:
        mean += shares_of_tokens(of)[0] / len(tokens)
    n_units, n, fits = units.max() + 1, 0, []
    for rows, design in models:
        place, n = slice(n, n + design.shape[1]), n + design.shape[1]
        if len(rows):
            # Columns of a scale of their own, such as years, are solved for as well.
            q, r = np.linalg.qr(design)
            fits.append((place, rows, q, np.linalg.inv(r)))
    draws = np.full((n_draws, n, mean.shape[1]), np.nan)
    for number, of in enumerate(tokens):
        shares, own = shares_of_tokens(of)[0], np.arange(number, n_draws, len(tokens))
        starts = [
            _fitted(weights[rows], shares[rows], q, link) for _, rows, q, _ in fits
        ]
        for some in row_parts((len(own), len(weights)), WEIGHTS):
            part = own[some]
            drawn = rng.standard_exponential((len(part), n_units))[:, units] * weights
            for (place, rows, q, inverse), start in zip(fits, starts, strict=True):
                step = _step(drawn[:, rows], shares[rows], q, start, link)
                draws[part, place] = inverse @ step
    estimates, freedom = np.full(draws.shape[1:], np.nan), np.zeros(n, dtype=np.intp)
    farthest = 0.0
    for place, rows, q, inverse in fits:
        fitted = _fitted(weights[rows], mean[rows], q, link)
        estimates[place] = inverse @ fitted
        farthest = max(farthest, float(np.abs(q @ fitted).max()))
        n_own = len(np.unique(units[rows]))
        freedom[place] = left = n_own - q.shape[1]
        deviations = draws[:, place] - draws[:, place].mean(axis=0)
        wider = np.sqrt((n_own + 1) / left) if left > 0 else np.nan
        draws[:, place] = estimates[place] + wider * deviations
    return estimates, draws, freedom, farthest


def _limits(estimates, draws, freedom, confidence):
    """Return standard errors and limits, wider if documents are few.

    By the ratio of quantiles of Student's t to those of a normal distribution.
    """
    ends = np.array([0.5 - confidence / 2, 0.5 + confidence / 2])
    tails = stdtrit(np.maximum(freedom, 1), ends[1]) / ndtri(ends[1])
    low, high = np.quantile(draws, ends, axis=0) - estimates
    tails = tails[:, None]
    return draws.std(axis=0), estimates + tails * low, estimates + tails * high


#: Markers of topics that share a colour, and in black and white.
MARKS = "os^Dv<"
#: Part of the distance of two groups over which their topics are spread.
SPREAD = 0.5
#: Groups from which intervals are bands, where labels are numbers or dates.
MANY = 8
#: Part of axes that are given which the names of topics take, at most.
HIGHEST = 0.6
#: Dates that are drawn one by one, at most.
DATES = 60
#: Letters of labels of groups from which they are turned.
LONG = 30


@dataclass(kw_only=True, eq=False, repr=False)
class TopicSharesDisplay(Display):
    """Shares of topics in groups or over time, with their intervals.

    Best made with :meth:`from_estimator`. Groups stand side by side, in their order;
    numbers and dates stand where they are, and topics have a line, over periods too.
    Of a forest topics stand one below the other, and groups are the colours; so do
    differences and coefficients, with a line at zero.

    Parameters
    ----------
    shares : TopicShares
        What is drawn.
    noun : str, default="topic"
        What components are called.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The plot.
    figure_ : matplotlib Figure
        The figure.
    topics_ : ndarray of int
        Numbers of the topics that are drawn.

    See Also
    --------
    topic_shares : The same as arrays and frames.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import HDP
    >>> from skbnp.inspection import TopicSharesDisplay
    >>> X = [[9, 0], [5, 1], [0, 8], [1, 9]] * 9
    >>> hdp = HDP(n_components=2, random_state=0).fit(X)
    >>> years = [2001, 2001, 2002, 2002] * 9
    >>> display = TopicSharesDisplay.from_estimator(hdp, X, years)
    >>> plt.show()
    """

    shares: TopicShares
    noun: str = "topic"

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        by,
        feature_names=None,
        *,
        topics=None,
        n_components=None,
        kind="auto",
        ax=None,
        **kwargs,
    ) -> Self:
        """Draw the shares of topics by group or time.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            What :func:`topic_shares` takes.
        X : array-like or sparse of shape (n_samples, n_features), or iterable of str
            Documents; raw ones for a text Pipeline.
        by : array-like of shape (n_samples,)
            Label of each document, as of :func:`topic_shares`. More than 60 different
            dates are drawn by month, or by year where these are as many months. Of
            several covariates the coefficients are drawn.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        topics : array-like of int or str, default=None
            Numbers or names of the topics to draw. None draws those whose shares differ
            most between groups.
        n_components : int, default=None
            Topics to draw where `topics` is None: None draws 6, in a forest 12.
        kind : {"auto", "groups", "forest"}, default="auto"
            What is on the axis, groups or topics. "auto" draws a forest of differences
            and coefficients, and groups of shares.
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to :func:`topic_shares`.

        Returns
        -------
        display : TopicSharesDisplay
            The drawn display.
        """
        name = getattr(by, "name", None)  # of a column of a frame
        by, unit = _spans(by)
        shares = topic_shares(estimator, X, by, feature_names, **kwargs)
        display = cls(shares=shares, noun=read.noun_of(read.fitted_model(estimator)))
        display.plot(ax, topics=topics, n_components=n_components, kind=kind)
        if display.ax_.get_xlabel() == "":
            name = f"{name or 'date'}, by {unit}" if unit else name
            display.ax_.set_xlabel(name or "", parse_math=False)
        return display

    @valid.validated(kind=[valid.StrOptions({"auto", "groups", "forest"})])
    def plot(self, ax=None, *, topics=None, n_components=None, kind="auto") -> Self:
        """Draw the shares.

        Parameters
        ----------
        ax, topics, n_components, kind : matplotlib Axes, array-like, int, str
            As in :meth:`from_estimator`.

        Returns
        -------
        display : TopicSharesDisplay
            This object.

        Raises
        ------
        ValueError
            If no topic has one of the numbers or names.
        """
        is_made, is_forest = ax is None, kind == "forest"
        if kind == "auto":
            is_forest = not self.shares._are_levels
        columns = self._columns(topics, n_components or (12 if is_forest else 6))
        self.topics_ = self.shares.topics[columns]
        if is_forest:
            self._draw_forest(ax, columns)
        else:
            self._draw_groups(ax, columns)
        if is_made:
            at: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
            self._legend(fontsize="small", **at)
            return self
        loc = "best" if is_forest else "upper left"
        key = self._legend(fontsize="x-small", loc=loc)
        if not is_forest:  # above the lines
            height = self._room()[1] / 72 * self.figure_.dpi
            part = min(key.get_window_extent().height / height, HIGHEST)
            self.ax_.set_ylim(top=self.ax_.get_ylim()[1] / (1.0 - part))
        return self

    def _draw_forest(self, ax, columns):
        """Draw topics one below the other, groups as colours."""
        shares = self.shares
        rows = np.flatnonzero(shares.groups != INTERCEPT)
        height = 0.8 + len(columns) * max(0.3, 0.14 * len(rows))
        ax = self._begin(ax, figsize=(8.0, max(height, 2.0)), layout="constrained")
        places = np.arange(len(columns))
        for rank, row in enumerate(rows):
            mean, reach = self._intervals((row, columns))
            style = self._style(rank, str(shares.groups[row]))
            offset = SPREAD * ((rank + 0.5) / len(rows) - 0.5)
            style |= {"linestyle": "", "elinewidth": 1.2}
            ax.errorbar(mean, places + offset, xerr=reach, **style)
        if shares._are_levels and shares.measure == "share":
            ax.set_xlim(left=0.0)
        else:
            ax.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
        names = [self._name(k) for k in columns]
        ax.set_yticks(places, names, parse_math=False)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(columns) - 0.5, -0.5)
        self._name_values(ax.xaxis)
        ax.spines["left"].set_visible(False)
        for place in places[:-1] + 0.5:
            ax.axhline(place, color=GREY, alpha=0.2, linewidth=0.8)

    def _draw_groups(self, ax, columns):
        """Draw groups side by side, topics as colours."""
        shares = self.shares
        is_scale = shares.slope is not None
        has_places = is_scale and shares.groups.dtype.kind in "iufM"
        width = 8.0 if is_scale else min(max(0.15 * len(shares.groups), 8.0), 16.0)
        ax = self._begin(ax, figsize=(width, 4.0), layout="constrained")
        places: Any = shares.groups if has_places else np.arange(len(shares.groups))
        for rank, k in enumerate(columns):
            at, of = places, (slice(None), k)
            mean, reach = self._intervals(of)
            style = self._style(rank, self._name(k)) | {"linewidth": 1.2}
            if is_scale and len(places) >= MANY:
                ax.plot(places, mean, **style)
                band: dict[str, Any] = {"color": style["color"], "alpha": 0.2}
                ax.fill_between(at, shares.low[of], shares.high[of], lw=0, **band)
                continue
            if not is_scale:
                at = places + SPREAD * ((rank + 0.5) / len(columns) - 0.5)
                style["linestyle"] = ""
            ax.errorbar(at, mean, yerr=reach, capsize=2, **style)
        if not has_places:
            labels = [str(label) for label in shares.groups]
            turn = sum(map(len, labels)) > LONG
            size = 9.0 if len(labels) <= MANY else max(5.0, 90.0 / len(labels))
            style = {"rotation": 90 if turn else 0, "fontsize": size}
            ax.set_xticks(places, labels, parse_math=False, **style)
        elif shares.groups.dtype.kind in "iu" and len(places) < MANY:
            ax.set_xticks(places)
        if shares.measure == "share":
            ax.set_ylim(bottom=0.0)
        self._name_values(ax.yaxis)
        ax.grid(axis="y", color=GREY, alpha=0.2)

    @staticmethod
    def _style(rank, label) -> dict[str, Any]:
        """Return colour and marker of a line, by its rank."""
        turn, color = divmod(rank, len(COLOURS))
        marker = {"marker": MARKS[turn % len(MARKS)], "markersize": 4}
        return {"color": COLOURS[color], "label": label, **marker}

    def _intervals(self, of):
        """Return means, and the lengths of their intervals to both sides."""
        mean, shares = self.shares.mean[of], self.shares
        # Quantiles of few documents may leave the mean out.
        reach = np.maximum([mean - shares.low[of], shares.high[of] - mean], 0.0)
        return mean, np.nan_to_num(reach)

    def _name_values(self, axis):
        """Name the axis of shares, with the probability of intervals."""
        if self.shares.measure in MEASURES["identity"]:
            self._in_percent(axis)
        level = f"{100 * self.shares.confidence:g} %"
        axis.set_label_text(f"{self.shares.measure}, with {level} intervals")
        self._finish(self.ax_)

    def _columns(self, topics, n_components):
        """Choose topics: given ones, or those whose shares differ most, by weight."""
        shares = self.shares
        if topics is None:
            return shares._chosen(n_components)
        wanted = np.atleast_1d(topics).tolist()
        place: dict[Any, int] = {name: k for k, name in enumerate(shares.names) if name}
        known = [*shares.topics.tolist()[:10], *list(place)[:10]]
        place |= {number: k for k, of in enumerate(shares.members) for number in of}
        unknown = [number for number in wanted if number not in place]
        if unknown:
            raise ValueError(f"topics must be among {known}, got {unknown[0]!r}.")
        return [place[number] for number in wanted]

    def _name(self, k):
        """Return number, name and terms of topic k."""
        shares = self.shares
        number = f"{self.noun} {shares.topics[k]}"
        terms = " ".join(shares.terms[k][:3])
        return f"{self._topic_label(shares.names[k], number)}: {terms}"


def _spans(by):
    """Group many dates by month or year: labels, and the span of a label."""
    if _covariates(by) is not None:
        return by, ""
    by = list(by) if isinstance(by, Iterator) else by
    labels = check_labels(by, None, "by", "document")
    dates = labels.values()
    if dates.dtype.kind != "M" or len(labels.distinct) <= DATES:
        return by, ""
    months = dates.astype("datetime64[M]")
    if len(np.unique(months)) <= DATES:
        return months, "month"
    return dates.astype("datetime64[Y]"), "year"
