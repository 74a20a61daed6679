"""Topics that users give: known ones, and those of a fitted model to start from.

Known topics are seed words, priors, and fixed topics. A start are the topics of a
fitted model of any class and their weights: `topic_word_distr_` and `topic_weights_` of
this package, nodes of trees included, or `components_` of any model of counts. `HDP`,
`StickBreakingHDP` and `GibbsHDP` start from them; for starts of trees see `_trees`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from skbnp.components import known_topics
from skbnp.utils.fitted import are_directions, fitted_model, topics
from skbnp.utils.plain import register
from skbnp.utils.typing import Array, Ints, MatrixLike
from skbnp.utils.validation import check_is_fitted, feature_names_of
from skbnp.utils.warnings import warn_caller

#: Range of the entries of a prior, and of that of all other topics.
SMALLEST, LARGEST = 1e-100, 1e10
#: Prior of topics that are not known.
DEFAULT_PRIOR = 0.05
#: A prior of so many times the tokens of documents leaves these no say in a topic.
OUTWEIGHS = 2.0
#: The form of seed words.
SEEDS = 'Seed words are a dict, with a name for each topic: {"cars": ["engine", ...]}.'
#: Documents that a topic of seed words starts from.
N_DENSEST = 3


@dataclass(frozen=True, eq=False)
class KnownTopics:
    """Topics that are known before a fit, for `topic_word_prior`.

    A mapping or an array alone stands for ``KnownTopics(topics)``.

    Parameters
    ----------
    topics : mapping of str to sequence, or array-like of shape (n_known, n_features)
        Seed words: a name of each topic, with its terms (feature names; column numbers
        where `X` has none). Or Dirichlet parameters of each known topic over the terms,
        > 0, its prior; with `frozen`, its words themselves, >= 0: `components_` of
        another fit, or probabilities. Columns of a data frame are taken by their names.
    frozen : bool, default=False
        Whether topics given as an array stay as they are, while others are found beside
        them: their rows of `components_` are those given, bit by bit.
    weight : float, default=0.1
        What seed words weigh: the topic's prior has so many tokens of each seed word
        for each token of it in the corpus (in a stream, the first chunk; without
        trials, as many times as that goes into `total_samples`), at least one. > 0.
    prior : float, default=0.05
        Dirichlet parameter of all other topics, and of words that are not seed words,
        in [1e-100, 1e10].

    See Also
    --------
    HDP : Its `topic_word_prior` takes these.

    Notes
    -----
    With boosts b_kw of known topics, zero for all others, phi_k ~ Dir(prior + b_k).
    Known topics are the first: their `component_ids_` are 0, 1, ..., and their order
    changes nothing else. They never end, split or join another; others may join them,
    but no frozen one. A topic to which documents have given their words, at least twice
    as much of these as they have themselves, becomes the known topic. A learned topic
    prior follows from topics that are not known: prior + b_k moves with it for seed
    words, and stays for arrays.

    Examples
    --------
    >>> from skbnp import HDP, KnownTopics
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(200, random_state=0).data
    >>> known = KnownTopics({"first row": [0, 1]}, weight=0.5)
    >>> hdp = HDP(n_components=20, topic_word_prior=known, random_state=0).fit(X)
    >>> hdp.get_feature_names_out()[0]
    'first row'
    """

    topics: Mapping[str, Sequence] | ArrayLike
    frozen: bool = False
    weight: float = 0.1
    prior: float = DEFAULT_PRIOR

    def __post_init__(self) -> None:
        """Check the settings."""
        _check_number("weight", self.weight, 0.0)
        _check_number("prior", self.prior, SMALLEST)
        if not isinstance(self.frozen, (bool, np.bool_)):
            raise ValueError(f"frozen must be a bool, got {self.frozen!r}.")
        if self.frozen and isinstance(self.topics, Mapping):
            raise ValueError(
                "frozen=True needs the words of topics as an array: seed words are not "
                "all words of a topic."
            )


register(
    KnownTopics,
    types=dict.fromkeys(("topics", "frozen", "weight", "prior"), object),
    make=KnownTopics,
)


def _check_number(name: str, value: object, least: float) -> None:
    """Raise unless a setting is a number of at least `least`."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    if not least <= float(value) <= LARGEST or float(value) == 0.0:
        low = "> 0" if least == 0.0 else f">= {least:g}"
        raise ValueError(f"{name} must be {low} and <= {LARGEST:g}, got {value!r}.")


def _as_known(prior: Any) -> KnownTopics:
    """Return the known topics of a `topic_word_prior` that is no number."""
    return prior if isinstance(prior, KnownTopics) else KnownTopics(prior)


def base_prior(prior: Any) -> float:
    """Dirichlet parameter of topics that are not known."""
    return float(prior if isinstance(prior, Real) else _as_known(prior).prior)


def names_of(prior: Any) -> list[str]:
    """Names of known topics, in their order; [] if they have none."""
    topics = None if isinstance(prior, Real) else _as_known(prior).topics
    return [str(name) for name in topics] if isinstance(topics, Mapping) else []


def given_names(estimator: Any, ids: Ints) -> dict[str, dict[int, str]]:
    """Return the fitted attribute of names from seed words, for topics `ids`."""
    names = enumerate(names_of(estimator.topic_word_prior))
    given = {topic: name for topic, name in names if topic in ids}
    before = getattr(estimator, "topic_names_", {})
    return {"topic_names_": given | before} if given else {}


def seed_columns(
    known: KnownTopics, names: Sequence | NDArray | None, columns: range
) -> tuple[list[list[int]], list[list[Any]]]:
    """Columns of the seed words of each topic within a range, and missing words."""
    result: list[list[int]] = []
    missing: list[list[Any]] = []
    place = None
    if names is not None:
        place = {names[column]: column for column in columns}
    for name, terms in known.topics.items():  # type: ignore[union-attr]
        if isinstance(terms, str) or not isinstance(terms, (Sequence, np.ndarray)):
            raise ValueError(
                f"topic_word_prior: the seed words of {name!r} must be a list of "
                f"terms, got {terms!r}."
            )
        if len(terms) == 0:
            raise ValueError(f"topic_word_prior: {name!r} has no seed words.")
        if place is None:
            for term in terms:
                if not isinstance(term, (int, np.integer)) or isinstance(term, bool):
                    raise ValueError(
                        f"topic_word_prior: the seed word {term!r} of {name!r} is no "
                        "column number, and X has no feature names. Give a data frame "
                        "with terms as columns, or numbers of columns."
                    )
                if not 0 <= term < columns.stop:
                    raise ValueError(
                        f"topic_word_prior: the seed word {term} of {name!r} is no "
                        f"column of X, which has {columns.stop}."
                    )
            result.append(sorted({int(term) for term in terms} & set(columns)))
            missing.append([])
        else:
            result.append(sorted({place[term] for term in terms if term in place}))
            missing.append([term for term in terms if term not in place])
    return result, missing


def new_boosts(
    prior: Any, ids: Ints, names: NDArray, n_before: int, counts: Array
) -> tuple[Ints, Array] | None:
    """Boosts of seed words among new columns, (n, G), for their tokens, (V,).

    None if known topics `ids` are not all, or have no seed words.
    """
    if len(names_of(prior)) != len(ids):
        return None
    known = _as_known(prior)
    result, _ = seed_columns(known, names, range(n_before, len(names)))
    words = np.unique(np.concatenate([np.zeros(0, int), *result]).astype(np.intp))
    if len(words) == 0:
        return None
    values = np.zeros((len(words), len(result)))
    for topic, columns in enumerate(result):
        at = np.searchsorted(words, columns)
        values[at, topic] = np.maximum(known.weight * counts[columns], 1.0)
    return words, values[:, ids]


#: What `topic_word_prior` takes: a number is of all topics alike.
TopicPriorLike = ArrayLike | Mapping[str, Sequence[Any]] | KnownTopics


@dataclass(kw_only=True, eq=False, repr=False)
class HDPPriors:
    """Parameters of the priors of an HDP of documents."""

    doc_concentration: float = 1.0
    corpus_concentration: float = 1.0
    topic_word_prior: TopicPriorLike = 0.05
    corpus_concentration_prior: Sequence[float] = (1.0, 1.0)
    doc_concentration_prior: Sequence[float] = (1.0, 1.0)


@dataclass(frozen=True)
class Resolved:
    """Known topics by columns of the vocabulary, before any document."""

    words: Ints
    values: Array  # (n, G) boosts in units of tokens of words, or Dirichlet parameters
    order: Ints  # (G,) place of each topic among those given
    is_fixed: bool
    is_whole: bool
    eta: float
    weight: float

    @property
    def n_topics(self) -> int:
        """Number of known topics, G."""
        return self.values.shape[1]

    def boosts(self, words: Ints, counts: Array) -> Array:
        """Boosts of some words for their tokens in the corpus, (n, G)."""
        here = np.searchsorted(self.words, words)
        return self.values[here] * np.maximum(self.weight * counts, 1.0)[:, None]

    def known(self, counts: Array) -> known_topics.TopicPriors:
        """Return the priors of the table of counts, for tokens of each word, (V,)."""
        values = self.values
        if not self.is_whole:
            values = self.boosts(self.words, counts[self.words])
        n = self.n_topics
        return known_topics.TopicPriors(
            np.arange(n),
            self.words,
            np.ascontiguousarray(values),
            np.full(n, self.is_fixed),
            self.is_whole,
            self.eta,
            np.zeros((2, n)),
        )

    def document(self, corpus: Any, words: Ints) -> Array:
        """Counts of some words in the start of each known topic, (n_words, G).

        As other topics start from a document: a topic of seed words half from the
        documents in which these are densest and half from these words; others as a
        document of mean length.
        """
        n_docs, counts = max(corpus.n_docs, 1), corpus.word_counts()
        if self.is_whole:
            own = self.values[np.searchsorted(self.words, words)] + 1e-300
            return own * (corpus.n_tokens / n_docs / own.sum(axis=0))
        seeds = np.zeros((corpus.n_features, self.n_topics))
        seeds[self.words] = self.values
        own = np.empty((len(words), self.n_topics))
        for topic, rows in enumerate(corpus.densest(seeds, N_DENSEST)):
            of = counts
            if len(rows):
                of = np.asarray(corpus.fetch(rows).sum(axis=0)).ravel()
            own[:, topic] = of[words] / max(len(rows), 1)
        # As many tokens again of the seed words alone, in proportion to the corpus.
        pull = seeds[words] * counts[words][:, None]
        return own + pull * (own.sum(axis=0) / np.maximum(pull.sum(axis=0), 1e-300))


def resolve(
    prior: Any,
    n_features: int,
    names: Sequence | NDArray | None,
    n_components: int | None,
    *,
    may_come: bool,
) -> Resolved | None:
    """Check a value of `topic_word_prior` against a vocabulary.

    Parameters
    ----------
    prior : float, mapping, array-like or KnownTopics
    n_features : int
    names : sequence of str or None
        Of the features, if they have any.
    n_components : int or None
        Topics of the start, which known ones are among; None: any number.
    may_come : bool
        Whether terms that are missing may come later.

    Returns
    -------
    resolved : Resolved or None
        None if no topic is known.

    Raises
    ------
    ValueError
        If it does not go with the vocabulary, or is no prior.
    """
    if isinstance(prior, Real):
        return None
    known = _as_known(prior)
    if isinstance(known.topics, Mapping):
        result, missing = seed_columns(known, names, range(n_features))
        n_known = len(result)
        _check_size(n_known, n_components)
        if not may_come:
            _refuse_missing(known, result, missing)
        words = np.unique(np.concatenate([np.zeros(0, int), *result]).astype(np.intp))
        values = np.zeros((len(words), n_known))
        for topic, columns in enumerate(result):
            values[np.searchsorted(words, columns), topic] = 1.0
        is_fixed = is_whole = False
    else:
        values = _as_rows(known, n_features, names).T
        _check_size(values.shape[1], n_components)
        words, is_fixed, is_whole = np.arange(n_features), known.frozen, True
    # The order of a dict changes names alone.
    order = np.lexsort(values[::-1]) if len(values) else np.arange(values.shape[1])
    eta, weight = float(known.prior), float(known.weight)
    return Resolved(words, values[:, order], order, is_fixed, is_whole, eta, weight)


def _check_size(n_known: int, n_components: int | None) -> None:
    """Raise if there are more known topics than components."""
    if n_known == 0:
        raise ValueError("topic_word_prior must have a topic, got none.")
    if n_components is not None and n_known > n_components:
        raise ValueError(
            f"topic_word_prior has {n_known} topics, but a fit starts from "
            f"{n_components}: increase that number."
        )


def _refuse_missing(
    known: KnownTopics, result: list[list[int]], missing: list[list[Any]]
) -> None:
    """Raise if a topic lacks all its seed words; warn of missing ones."""
    topics: Mapping[str, Sequence] = known.topics  # type: ignore[assignment]
    for name, columns, terms in zip(topics, result, missing, strict=True):
        if not columns:
            raise ValueError(
                f"topic_word_prior: none of the seed words of {name!r} is a feature of "
                f"X: {list(terms)[:5]!r}. Is the spelling that of the vectorizer?"
            )
    lost = [term for terms in missing for term in terms]
    if lost:
        shown = ", ".join(repr(term) for term in lost[:5])
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        warn_caller(
            f"topic_word_prior: seed words that are no features of X are left out: "
            f"{shown}{more}.",
            UserWarning,
        )


def warn_of_heavy_priors(prior: Any, ids: Ints, boosts: Array, tokens: Array) -> None:
    """Warn if priors of seed words outweigh the documents of their topics `ids`.

    `boosts` and `tokens` are the tokens of the priors, and of documents, (n_known,).
    The strength of arrays is taken as intended.
    """
    names, known = names_of(prior), _as_known(prior)
    heavy = np.flatnonzero(boosts > OUTWEIGHS * tokens)
    if len(names) != len(boosts) or len(heavy) == 0:
        return
    shown = ", ".join(
        f"{names[ids[k]]!r} ({boosts[k]:.0f} of the prior, {tokens[k]:.0f} of "
        "documents)"
        for k in heavy[:3]
    )
    more = f" and {len(heavy) - 3} more" if len(heavy) > 3 else ""
    warn_caller(
        f"topic_word_prior: the prior of seed words has more than {OUTWEIGHS:g} times "
        f"the tokens that documents gave the topic: {shown}{more}. Such a topic keeps "
        "the seed words alone, and the rest of it is in other topics. Use a smaller "
        f"weight than {known.weight:g} (KnownTopics(seeds, weight=...)), more of the "
        "words of each topic, or fewer that belong to others too.",
        UserWarning,
    )


def _as_rows(
    known: KnownTopics, n_features: int, names: Sequence | NDArray | None
) -> Array:
    """Return topics given as an array, (G, V)."""
    columns = getattr(known.topics, "columns", None)
    try:
        given = np.array(known.topics, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"topic_word_prior is no array of numbers. {SEEDS}") from None
    if given.ndim != 2:
        raise ValueError(
            "topic_word_prior must be a number, seed words by topic, or an array of "
            f"shape (n_known, n_features), got one of {given.ndim} dimension(s)."
        )
    if columns is not None and names is not None:
        place = {str(name): at for at, name in enumerate(columns)}
        lost = [name for name in names if name not in place]
        if lost or len(place) != n_features:
            raise ValueError(
                f"topic_word_prior has other columns than X: {len(place)}, {n_features}"
                f" of X; missing: {lost[:5]!r}."
            )
        given = given[:, [place[name] for name in names]]
    if given.shape[1] != n_features:
        raise ValueError(
            f"topic_word_prior has {given.shape[1]} columns, X has {n_features} "
            f"features. {SEEDS}"
        )
    least = 0.0 if known.frozen else SMALLEST
    wrong = ~(np.isfinite(given) & (given >= least) & (given <= 1e100))
    if not known.frozen:
        wrong |= given > LARGEST
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        low = ">= 0" if known.frozen else f"in [{SMALLEST:g}, {LARGEST:g}]"
        raise ValueError(
            f"topic_word_prior[{row}, {column}] must be {low}, got "
            f"{given[row, column]!r}."
        )
    empty = np.flatnonzero(given.sum(axis=1) <= 0.0)
    if len(empty):
        raise ValueError(f"topic_word_prior[{empty[0]}] is zero everywhere.")
    return given


# Topics to start from -----------------------------------------------------------------


class StartTopics(NamedTuple):
    """Topics of a fitted model, and their shares."""

    distr: Array | sp.csr_array  # (K, V)
    weights: Array  # (K,) which lack of one what topics not represented have
    doc_concentration: float | None  # alpha, where the model has one

    def tokens(self, words: Ints, n_tokens: float) -> Array:
        """Distribute tokens of a corpus over topics and some words, (n_words, K)."""
        distr: Any = self.distr[:, words]
        topics = np.ascontiguousarray(
            distr.T.toarray() if sp.issparse(distr) else distr.T
        )
        total = np.maximum(topics.sum(axis=0), 1e-300)
        shares = self.weights / max(self.weights.sum(), 1e-300)
        topics *= n_tokens * shares / total
        return topics

    def heaviest(self, n_topics: int | None) -> "StartTopics":
        """At most so many topics, which have the shares of all."""
        most = np.sort(np.argsort(-self.weights, kind="stable")[:n_topics])
        shares = self.weights[most] * (self.weights.sum() / self.weights[most].sum())
        return self._replace(distr=self.distr[most], weights=shares)


def given_topics(init: Any, n_features: int) -> StartTopics:
    """Return the topics of a fitted model, with `n_features` columns.

    Raises
    ------
    ValueError
        If the model has directions, or no topics, or those of other columns.
    """
    check_is_fitted(init)
    model = fitted_model(init)
    name = type(model).__name__
    if not hasattr(model, "components_") or are_directions(model):
        raise ValueError(f"init must be a fitted topic model; {name} has no topics.")
    weights, distr = topics(model)
    if distr.shape[1] != n_features:
        raise ValueError(f"X has {n_features} features, but init has {distr.shape[1]}.")
    concentration = getattr(model, "doc_concentration_", None)
    return StartTopics(distr, weights, concentration)


def n_given(init: Any) -> int:
    """Return the number of topics of a fitted model."""
    check_is_fitted(init)
    return len(getattr(fitted_model(init), "components_", ()))


def check_names(init: Any, X: MatrixLike) -> None:
    """Raise if columns of a frame have other names than those of a fitted model."""
    known = getattr(fitted_model(init), "feature_names_in_", None)
    names = feature_names_of(X, fitted_model(init))
    if known is None or names is None or len(names) != len(known):
        return
    other = np.flatnonzero(names != known)
    if len(other):
        column = int(other[0])
        raise ValueError(
            "X must have the columns that init was fitted on, in their order, got "
            f"{names[column]!r} for column {column}, expected {known[column]!r}. Use "
            "X[init.feature_names_in_]."
        )
