"""Fits of several corpora as one, without their documents."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skbnp.components.topic_groups import merge_path
from skbnp.components.word_topics import SeenWords, WordTopics
from skbnp.estimators._base import ComponentEditsMixin, features_of
from skbnp.estimators._hdp import HDP
from skbnp.inference.monitor import new_history
from skbnp.inference.posterior import Lineage
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.groups import Groups
from skbnp.models.hdp.posterior import HDPPosterior, Reservoir
from skbnp.utils import validation as valid
from skbnp.utils.arrays import padded, rows_by_id
from skbnp.utils.fitted import fitted, fitted_model, unwrap
from skbnp.utils.matching import cosines, matched
from skbnp.utils.typing import Array, Ints
from skbnp.utils.warnings import warn_caller

#: Rounds in which weights and concentrations follow from added statistics.
N_ROUNDS = 20


@valid.validated(estimators=[list, tuple], min_similarity=[valid.UNIT])
def merge_fits(estimators: Sequence[HDP], *, min_similarity: float = 0.5) -> HDP:
    """Merge fits of several corpora, such as two periods or hospitals, into one.

    No documents are needed: topics are aligned, and what the fits have summed up of
    their documents is added. A topic that one fit has and another does not stays as it
    is; the result has all terms of all fits. It is fitted: `transform`, `score` and
    `partial_fit` go on from there.

    Parameters
    ----------
    estimators : list or tuple of HDP
        Two or more fits of one `variational_family`. Terms are matched by
        `feature_names_in_`; fits without names must have as many features.
    min_similarity : float, default=0.5
        Cosine of expected topics from which two topics are the same, in [0, 1]; pairs
        have the largest sum of cosines, as in
        :func:`skbnp.inspection.align_components`.

    Returns
    -------
    merged : HDP
        A new estimator with the parameters of the first; the fits stay as they are. Its
        topics are those of the first, then those that the others add, numbered from 0.
        A topic with two names has both, "cars / traffic"; a name that two topics have
        gets a number in the second, "cars (2)".

    Raises
    ------
    ValueError
        If fits are of another kind, have topics known from before a fit
        (:class:`skbnp.KnownTopics`), or terms that cannot be matched.

    Warns
    -----
    UserWarning
        If some fits have groups of documents, and the result has none.

    See Also
    --------
    skbnp.inspection.align_components : Which topics of two fits are the same.

    Notes
    -----
    Statistics of a variational posterior are sums over documents [1]_; online fits hold
    estimates of those of their whole corpora. Weights and concentrations follow from
    the sums; the topic prior is the geometric mean, by tokens. No other number of
    topics is tried, here or by `partial_fit` afterwards: documents that a stream keeps
    are left out, and those that come would judge topics of documents that they know
    nothing of. To search for the number again, fit all documents, with `init=merged`.

    Groups of documents are merged where all fits have labels of the same factors and
    kinds: tables of a label that several fits have are added. Otherwise the result has
    no groups, with a warning.

    References
    ----------
    .. [1] Trevor Campbell, Julian Straub, John W. Fisher III and Jonathan P. How,
       "Streaming, Distributed Variational Inference for Bayesian Nonparametrics",
       Advances in Neural Information Processing Systems 28, 2015.

    Examples
    --------
    >>> from skbnp import HDP, merge_fits
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(400, random_state=0).data
    >>> one = HDP(n_components=20, random_state=0).fit(X[:200])
    >>> other = HDP(n_components=20, random_state=1).fit(X[200:])
    >>> merge_fits([one, other]).transform(X[:2]).shape[0]
    2
    """
    _check_kinds(estimators)
    vocabulary, columns = _joint_vocabulary(estimators)
    merged = clone(estimators[0])
    result, places = _merge_posteriors(merged, estimators, columns, min_similarity)
    vars(merged).update(result | vocabulary)
    names = _joint_names(estimators, places)
    if names:
        merged.topic_names_ = names
    return merged


def _joint_names(estimators: Sequence[Any], places: list[dict]) -> dict[int, str]:
    """Return the names of the joint topics: all that the fits gave, each once."""
    parts: dict[int, dict[str, None]] = {}
    for estimator, place in zip(estimators, places, strict=True):
        for topic, name in getattr(estimator, "topic_names_", {}).items():
            if topic in place:
                parts.setdefault(place[topic], {})[name] = None
    result: dict[int, str] = {}
    for topic, names in sorted(parts.items()):
        name = joint = " / ".join(names)
        number = 1
        while joint in result.values():  # columns need names of their own
            number += 1
            joint = f"{name} ({number})"
        result[topic] = joint
    return result


def _check_kinds(estimators: Sequence[Any]) -> None:
    """Raise unless all fits are of one class and comparable."""
    if len(estimators) < 2:
        raise ValueError(f"estimators must be two or more, got {len(estimators)}.")
    kinds = {type(estimator) for estimator in estimators}
    if len(kinds) > 1 or not isinstance(estimators[0], HDP):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"estimators must all be HDP, got {names}.")
    families = {type(e._fitted_posterior.model) for e in estimators}
    known = [len(e._known_ids) > 0 for e in estimators]
    if len(families) > 1:
        raise ValueError("estimators must be of one variational_family.")
    if any(known):
        raise ValueError(
            f"estimators[{known.index(True)}] has known topics (topic_word_prior), "
            "whose prior would count twice: merge fits without, or go on with "
            "partial_fit."
        )


def _joint_vocabulary(estimators: Sequence[Any]) -> tuple[dict[str, Any], list[Ints]]:
    """Fitted attributes of all features, and the columns of each fit in these."""
    names: list[Any] = [getattr(e, "feature_names_in_", None) for e in estimators]
    sizes = [e.n_features_in_ for e in estimators]
    given = [name for of in names if of is not None for name in of]
    if given and all(map(str.isdecimal, given)):  # beside them positions are names
        names = [
            valid.names_of_positions(size) if name is None else name
            for name, size in zip(names, sizes, strict=True)
        ]
    if all(name is None for name in names):
        if len(set(sizes)) > 1:
            raise ValueError(
                f"estimators have {sizes} features and no names of these: fit data "
                "frames, so that terms can be matched."
            )
        return {"n_features_in_": sizes[0]}, [np.arange(sizes[0])] * len(sizes)
    if any(name is None for name in names):
        at = [name is None for name in names].index(True)
        raise ValueError(
            f"estimators[{at}] has no feature names, others do: fit data frames, so "
            "that terms can be matched."
        )
    columns, joint = [np.arange(sizes[0])], names[0]
    for name in names[1:]:
        vocabulary = valid.Vocabulary.extended(joint, name)
        joint = vocabulary.names
        columns.append(vocabulary.columns)
    whole = valid.Vocabulary(np.asarray(joint, dtype=object), columns[0])
    return features_of(whole), columns


class _Joint(NamedTuple):
    """Topics of several fits in one numbering, and the sums of their counts."""

    counts: Array  # (n_words, K)
    places: list[Ints]  # of each fit, the number of each of its columns
    names: list[dict[int, int]]  # and that of each of its ids
    tokens: Array  # of each fit
    eta: float  # topic prior

    @classmethod
    def of(
        cls,
        fits: Sequence[Any],
        topics: Iterable[Array],
        ids: Sequence[Ints],
        columns: list[Ints],
        tokens: Sequence[float],
        least: float,
    ) -> "_Joint":
        """Align the topics of each fit, (V, K), with the sums so far.

        `fits` have a `topic_word_prior`; `columns` are places of words. Topics of a
        cosine of at least `least` are one, others are new; those of the first fit are
        in the order in which users see them.
        """
        weights = np.maximum(np.array(tokens, dtype=np.float64), 1e-300)
        eta = _geometric(fits, "topic_word_prior", weights)
        places = list[Ints]()
        total = np.zeros((1 + max(int(words.max()) for words in columns), 0))
        for own, names, words in zip(topics, ids, columns, strict=True):
            counts = np.zeros((len(total), own.shape[1]))
            counts[words] = own
            place = np.argsort(rows_by_id(names))
            if places:
                place = np.full(own.shape[1], -1)
                similarity = cosines((total + eta).T, (counts + eta).T)
                rows, partners = matched(similarity, least)
                place[partners] = rows
                alone = np.flatnonzero(place < 0)
                place[alone] = total.shape[1] + np.arange(len(alone))
            total = padded(total, max(int(place.max()) + 1, total.shape[1]))
            total[:, place] += counts
            places.append(place)
        pairs = zip(ids, places, strict=True)
        named = [dict(zip(*map(np.ndarray.tolist, one), strict=True)) for one in pairs]
        return cls(total, places, named, weights, eta)

    @property
    def n_topics(self) -> int:
        """Number of topics of the merged fit."""
        return self.counts.shape[1]

    def sum(self, values: Iterable[NDArray]) -> Array:
        """Sum numbers of the topics of each fit, (K,)."""
        total = np.zeros(self.n_topics)
        for own, place in zip(values, self.places, strict=True):
            total[place] += own
        return total

    def geometric(self, states: Sequence[Any], name: str) -> float:
        """Geometric mean of an attribute, by tokens."""
        return _geometric(states, name, self.tokens)

    def mean(self, states: Sequence[Any], name: str) -> float:
        """Mean of an attribute, by tokens."""
        values = [getattr(state, name) for state in states]
        return float(np.average(values, weights=self.tokens))


def _geometric(states: Sequence[Any], name: str, tokens: Array) -> float:
    """Geometric mean of an attribute, by tokens."""
    values = [getattr(state, name) for state in states]
    return float(np.exp(np.log(values) @ tokens / tokens.sum()))


def _merge_posteriors(
    merged: HDP, estimators: Sequence[HDP], columns: list[Ints], least: float
) -> tuple[dict[str, Any], list[dict[int, int]]]:
    """Add the totals of topics that match, and merge their weights."""
    posteriors = [e._posterior for e in estimators]
    states, stats = [p.state for p in posteriors], [p.global_stats for p in posteriors]
    topics = (one.topic_words.dense() for one in stats)
    given = [p.ids for p in posteriors], columns, [one.n_tokens for one in stats]
    joint = _Joint.of(states, topics, *given, least)
    seen = SeenWords.of(joint.counts.sum(axis=1))
    sums: dict[str, Any] = {"topic_words": WordTopics(joint.counts[seen.words], seen)}
    for name in stats[0].sums:
        values = [one.sums[name] for one in stats]
        sums[name] = joint.sum(values) if name in stats[0].columns else sum(values)
    shares = joint.tokens / joint.tokens.sum()
    weighed = list(zip(shares, states, strict=True))
    weights = joint.sum(share * state.topic_weights for share, state in weighed)
    rest = sum(share * state.weights[-1] for share, state in weighed)
    weights = np.append(weights, rest)
    burstiness, prediction = None, 0.0
    if all(state.burstiness is not None for state in states):
        each = [state.burstiness for state in states]
        discount, concentration = joint.mean(each, "discount"), "concentration"
        burstiness = Burstiness(discount, joint.geometric(each, concentration))
    if all(state.prediction_concentration > 0.0 for state in states):
        prediction = joint.geometric(states, "prediction_concentration")
    model, first, n_topics = merged._make_model(), posteriors[0], joint.n_topics
    state = replace(
        first.state,
        weights=weights / weights.sum(),
        doc_concentration=joint.geometric(states, "doc_concentration"),
        corpus_concentration=joint.geometric(states, "corpus_concentration"),
        prediction_concentration=prediction,
        background_weight=joint.mean(states, "background_weight"),
        topic_word_prior=joint.eta,
        burstiness=burstiness,
        by_tables=all(state.by_tables for state in states),
    )
    global_stats = type(first.global_stats)(**sums)
    for _ in range(N_ROUNDS):
        state = model.update(state, global_stats)
    ids, n_seen = np.arange(n_topics), sum(p.n_seen for p in posteriors)
    posterior = HDPPosterior(
        model,
        state,
        global_stats,
        ids,
        [Lineage(0, "init", (), tuple(ids.tolist()))],
        seed_entropy=first.seed_entropy,
        n_steps=sum(p.n_steps for p in posteriors),
        step_origin=sum(p.step_origin for p in posteriors),
        n_seen=n_seen,
        is_warm=all(p.is_warm for p in posteriors),
        init_fraction=max(p.init_fraction for p in posteriors),
        max_components=max(merged._component_limit(), n_topics),
        trials_ended=True,
        reservoir=Reservoir.empty(len(joint.counts), n_seen, has_trials=False),
        groups=_merge_groups(posteriors, joint.places, ids),
    )
    n_iter = sum(e.n_iter_ for e in estimators)
    history = new_history(model.criterion)
    return merged._fitted_attributes(posterior, history, n_iter), joint.names


def _merge_groups(
    posteriors: Sequence[HDPPosterior], places: list[Ints], ids: Ints
) -> Groups | None:
    """Add the groups of fits that have the same factors; warn if some have others."""
    fits = [p.groups and p.groups.following(p) for p in posteriors]
    given = [groups for groups in fits if groups is not None]
    kinds = {
        frozenset(
            (name, *{type(label) for label in labels})
            for name, labels in zip(groups.names, groups.labels, strict=True)
        )
        for groups in given
    }
    if not given:
        return None
    if len(given) < len(fits) or len(kinds) > 1 or any(g.are_latent for g in given):
        warn_caller(
            "Groups of the fits are left out: they are merged if all are labels of the "
            "same factors. HDP(init=merged, split_merge=False).fit(X, groups=labels) "
            "learns them of documents."
        )
        return None
    pairs = zip(given, places, strict=True)
    placed = [groups.placed(columns, ids) for groups, columns in pairs]
    return reduce(Groups.plus, placed)


# Fewer topics of a fit: merges of topics that have their words in common.


EstimatorT = TypeVar("EstimatorT")


class Merges(NamedTuple):
    """Merges of the topics of a fit in turn."""

    ids: Ints  # (n_components,) of the topics of the fit
    pairs: Ints  # (n_merges, 2) ids: the topic that ends, the one that it joins
    losses: Array  # (n_merges,) nats per token


def merges_of(estimator: Any) -> Merges:
    """Return the merges of the topics of a fitted model; raise if it has no such."""
    model = fitted_model(estimator)
    if not isinstance(model, ComponentEditsMixin):
        raise TypeError(
            "estimator must be an HDP, a GibbsHDP or a StickBreakingHDP, got "
            f"{type(model).__name__}."
        )
    may_merge = ~np.isin(model.component_ids_, model._frozen_ids)
    ids = model.component_ids_[may_merge]
    prior = fitted(estimator, "topic_word_prior_")
    counts = np.maximum(fitted(estimator, "components_") - prior, 0.0)[may_merge]
    path = merge_path(counts, np.isin(ids, model._known_ids))
    losses = path.losses / max(counts.sum(), 1.0)
    return Merges(model.component_ids_, ids[path.pairs], losses)


def merges_to(n: int, n_components: int, pairs: Ints) -> list[tuple[int, int]]:
    """Return the first merges, which leave `n` topics; raise if none do."""
    least = n_components - len(pairs)
    if not least <= n <= n_components:
        known = "; topics known from before a fit stay apart" * (least > 1)
        raise ValueError(f"n must be from {least} to {n_components}, got {n}{known}.")
    return [(source, target) for source, target in pairs[: n_components - n].tolist()]


@valid.validated()
def reduce_topics(estimator: EstimatorT, n: int) -> EstimatorT:
    """Reduce the topics of a fit to a number that can be read.

    Topics that have their words in common are merged, one pair after the other. A topic
    of the result is a sum of topics of the fit: so are its words, its weight and, but
    for the inference of each document, its shares in `transform`. This takes a second
    or two, and no documents.

    Parameters
    ----------
    estimator : fitted HDP, GibbsHDP or StickBreakingHDP, or Pipeline that ends in one
        It stays as it is.
    n : int
        Number of topics, from 1 to `n_components_`.

    Returns
    -------
    reduced : estimator
        A fitted copy with `n` topics; of a Pipeline, one with the same steps before it.
        Of two topics the heavier keeps its number in `component_ids_`, and its name;
        merges are recorded in `lineage_`. `partial_fit` goes on from these topics, and
        with ``split_merge=True`` it may find others beside them.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If it is no flat topic model of this package.
    ValueError
        If `n` is larger than the number of topics, or smaller than that of the topics
        that are known (:class:`skbnp.KnownTopics`).

    See Also
    --------
    skbnp.inspection.topic_path : What each number of topics loses.
    HDP : Its `merge_components` merges topics of your choice.

    Notes
    -----
    The merge is made that loses least evidence of words, the log probability of their
    counts under Dirichlet topics of parameter 0.1, among pairs of each topic and the 15
    nearest to it. From more than 20 topics the path is made twice: single topics
    move between the 20 groups of the first path while that raises the evidence, and the
    second path merges within these groups first. The same fit gives the same path.

    A fit made for the number, ``HDP(n, split_merge=False)``, predicts unseen documents
    better by .02 to .05 nats per token for 10 topics, .01 to .03 for 20, and as well
    for 40; one that starts from the reduced topics, with `init=reduced` as well, mostly
    by .01 more (``benchmarks/results/fewer_topics.md``).

    Known topics stay: others join them, they do not merge with each other, and frozen
    ones are not merged at all. What a fit has found out about other numbers of topics
    (`n_components_range_`) does not hold for the result.

    Of a `GibbsHDP` the sample with the highest log joint is reduced, that of
    `components_`, as by `merge_components`: topics of different samples are not the
    same. `samples_` has this sample alone, and `score` averages over no others.

    Examples
    --------
    >>> from skbnp import HDP, reduce_topics
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(200, random_state=0).data
    >>> hdp = HDP(10, split_merge=False, random_state=0).fit(X)
    >>> five = reduce_topics(hdp, 5)
    >>> five.n_components_, five.transform(X).shape
    (5, (200, 5))
    """
    ids, pairs, _ = merges_of(estimator)
    merges = merges_to(n, len(ids), pairs)
    whole: Any = unwrap(estimator)
    model: Any = fitted_model(estimator)
    reduced = copy.copy(model)._merge_all(merges)
    if not hasattr(whole, "steps"):
        return reduced
    result = copy.copy(whole)
    result.steps = [*whole.steps[:-1], (whole.steps[-1][0], reduced)]
    return result
