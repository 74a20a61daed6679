"""Held-out scores, most by completion: a part of each document by its other part."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from skbnp.inference.executor import Executor
from skbnp.inference.protocols import Predictor
from skbnp.models.hdp.burstiness import learn_burstiness
from skbnp.models.hdp.fold_in import MeanTopics, MixturePredictor, doc_prior_of, mix
from skbnp.utils import fitted as read
from skbnp.utils.arrays import MOST_UNITS, rows_of, with_values
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, MatrixLike, RandomStateLike
from skbnp.utils.validation import check_counts, check_documents


def split_tokens(
    X: MatrixLike, *, observed: float = 0.8, random_state: RandomStateLike = 0
) -> tuple[sp.csr_array, sp.csr_array]:
    """Split the tokens of each document into an observed and a held-out part.

    Of N tokens, ``clip(floor((1 - observed) * N + 1/2), 1, N - 1)`` are held out,
    drawn without replacement; documents of fewer than two tokens are all observed. A
    fractional count c is split into ceil(c) equal units, a document of more than
    10^8 tokens into units of several tokens.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Non-negative counts.
    observed : float, default=0.8
        Share of tokens observed, in (0, 1).
    random_state : int, RandomState instance or None, default=0
        Names the split. With an int, the split of a document depends on the int and the
        content of its row alone, not on its position or on other rows.

    Returns
    -------
    X_observed, X_held : csr_array of shape (n_samples, n_features)
        Their sum is `X`.

    Raises
    ------
    ValueError
        If `observed` is not inside (0, 1) or `X` holds no valid counts.

    Examples
    --------
    >>> from skbnp.metrics import split_tokens
    >>> X_observed, X_held = split_tokens([[3, 0, 7], [1, 0, 0]])
    >>> X_observed.sum(axis=1), X_held.sum(axis=1)
    (array([8., 1.]), array([2., 0.]))
    """
    if not 0.0 < observed < 1.0:
        raise ValueError(f"observed must be inside (0, 1), got {observed!r}.")
    counts = check_counts(X, whom="split_tokens")
    if isinstance(random_state, (int, np.integer)):
        seed = int(random_state)
        check_random_state(seed)
    else:
        seed = int(check_random_state(random_state).randint(2**31))
    kept = counts.data - _hold_out(counts, 1.0 - observed, seed)
    # A difference is exact, so that the parts sum to the counts.
    X_observed, X_held = with_values(counts, kept, counts.data - kept)
    return X_observed, X_held


def _hold_out(X: sp.csr_array, share: float, seed: int) -> Array:
    """Held-out part of each stored count."""
    limits, counts = X.indptr.tolist(), X.data
    n_tokens = np.zeros(X.shape[0])
    for row, (begin, end) in enumerate(pairwise(limits)):
        n_tokens[row] = counts[begin:end].sum()
    grain = np.maximum(1.0, n_tokens / MOST_UNITS)[rows_of(X.indptr)]
    units = np.ceil(counts / grain).astype(np.int64)
    before = np.append(0, units.cumsum())
    n_units = before[limits[1:]] - before[limits[:-1]]
    drawn = np.zeros_like(units)
    words = X.indices.astype("<i8")
    written = counts.astype("<f8", copy=False)
    for row in np.flatnonzero(n_units > 1).tolist():
        part, n = slice(limits[row], limits[row + 1]), int(n_units[row])
        n_held = min(max(int(share * n + 0.5 + 1e-9), 1), n - 1)
        content = hashlib.blake2b(words[part], digest_size=16)
        content.update(written[part])
        entropy = int.from_bytes(content.digest(), "little")
        generator = stream(entropy, Purpose.SPLIT_TOKENS, seed)
        drawn[part] = generator.multivariate_hypergeometric(units[part], n_held)
    return np.where(drawn == units, counts, drawn * (counts / np.maximum(units, 1)))


def held_out_log_likelihood(
    topic_word_distr: ArrayLike,
    doc_prior: ArrayLike,
    X_observed: MatrixLike,
    X_held: MatrixLike,
    *,
    repeats: bool = False,
    n_jobs: int | None = None,
) -> float:
    """Mean log probability of held-out tokens under anybody's topics.

    Each document's topic proportions are inferred from its observed tokens with topics
    and Dirichlet prior held fixed, to zero order of collapsed variational inference
    [1]_: all words of a document at once,

        r_jwk ~ (prior_k + [N_jk - min(n_jw, 1) r_jwk]_+) phi_kw,
        N_jk = sum_w n_jw r_jwk,

    over the topics that have a tenth of a token (or 2 % of the tokens, if that is less)
    after three steps over all with r_jwk ~ (prior_k + N_jk) phi_kw from the prior
    proportions; until counts change by less than 0.01 per token, at most ten times.
    With pibar_jk ~ prior_k + N_jk it is then

        sum_jw held_jw log( sum_k pibar_jk phi_kw ) / sum_jw held_jw,

    the metric of section 4 of [2]_, in nats per token. Where
    documents are drawn from the model, it is at most .04 below what exact posterior
    means score; mean field (Eqs. (3) and (4) of [2]_) is up to .09 below, for topics of
    small prior weight are out of its reach. (Of few topics that share most words, mean
    field is nearer, by .007; of long documents as near.) Text is predicted .03 to .04
    better than by exact posterior means (``benchmarks/results/fold_in.md``).

    Parameters
    ----------
    topic_word_distr : array-like of shape (n_components, n_features)
        Topics; rows are normalised.
    doc_prior : float or array-like of shape (n_components,) or (n_components + 1,)
        Dirichlet parameters of a document's proportions. An additional last entry is
        the mass of all topics not represented; it predicts ``1 / n_features``.
    X_observed, X_held : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts, for example from :func:`split_tokens`.
    repeats : bool, default=False
        Whether a document predicts its own words, too: words that it has shown come
        again more often than topics tell. Its tokens are those of a Pitman-Yor process
        [3]_ of discount d and concentration c over the mixture of its topics, which
        explain the t_jw of its n_jw tokens that open a table,

            p(w | j) = ([n_jw - d t_jw]_+ + [c + d T_j] sum_k pibar_jk phi_kw)
                       / (c + N_j);

        d and c maximise the probability of each observed token given all others of its
        document. Where documents do not repeat words, this changes nothing.
    n_jobs : int or None, default=None
        Threads, as in scikit-learn. The result does not depend on it.

    Returns
    -------
    score : float
        Nats per held-out token; 0.0 if there is none. ``-inf`` if a held-out word has
        probability zero under all topics.

    Raises
    ------
    ValueError
        If shapes disagree, a topic has no mass, or values are negative or not finite.

    References
    ----------
    .. [1] Asuncion, Welling, Smyth and Teh, "On Smoothing and Inference for Topic
       Models", UAI 2009.
    .. [2] Bryant and Sudderth, "Truly Nonparametric Online Variational Inference for
       Hierarchical Dirichlet Processes", NIPS 2012.
    .. [3] Buntine and Mishra, "Experiments with Non-parametric Topic Models", KDD 2014.

    Examples
    --------
    >>> from skbnp.metrics import held_out_log_likelihood
    >>> topics = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    >>> round(held_out_log_likelihood(topics, 0.1, [[5, 5, 0]], [[1, 1, 0]]), 3)
    -0.703
    """
    predictor = _check_mixture(topic_word_distr, doc_prior, repeats)
    shape = np.shape(topic_word_distr)
    X_observed = check_counts(X_observed, name="X_observed", whom="X_observed")
    X_held = check_counts(X_held, name="X_held", whom="X_held")
    if X_observed.shape != X_held.shape or X_held.shape[1] != shape[1]:
        raise ValueError(
            f"X_observed {X_observed.shape}, X_held {X_held.shape} and "
            f"topic_word_distr {shape} disagree."
        )
    return _mean_log_likelihood(predictor, X_observed, X_held, n_jobs)


def _check_mixture(
    topic_word_distr: ArrayLike, doc_prior: ArrayLike, repeats: bool = False
) -> MixturePredictor:
    """Check topics and document prior given as arrays; return a predictor by them."""
    phi = check_array(topic_word_distr, dtype=np.float64, input_name="topic_word_distr")
    if (phi < 0).any() or not (phi.sum(axis=1) > 0).all():
        raise ValueError(
            "topic_word_distr must be non-negative with positive row sums."
        )
    n_topics, prior = len(phi), np.asarray(doc_prior, dtype=np.float64)
    if prior.ndim == 0:
        prior = np.full(n_topics, prior)
    if prior.shape not in ((n_topics,), (n_topics + 1,)):
        raise ValueError(
            f"doc_prior must be a number or have {n_topics} or {n_topics + 1} entries, "
            f"got shape {prior.shape}."
        )
    if not (np.isfinite(prior) & (prior > 0)).all():
        raise ValueError("doc_prior must be positive and finite.")
    return MixturePredictor.of_topics(phi, prior, bool(repeats))


def _mean_log_likelihood(
    predictor: Predictor,
    X_observed: sp.csr_array,
    X_held: sp.csr_array,
    n_jobs: int | None,
) -> float:
    """Mean log probability of held-out tokens; 0.0 if there are none."""
    with Executor(n_jobs) as executor:
        total = predictor.log_likelihood(X_observed, X_held, executor)
    n_tokens = X_held.sum()
    return float(total / n_tokens) if n_tokens > 0 else 0.0


def _proportions(rows: ArrayLike, name: str) -> Array:
    """Rows that sum to one; a row without mass becomes uniform."""
    rows = np.asarray(rows, dtype=np.float64)
    if not (rows >= 0.0).all():
        raise ValueError(f"{name} must not hold negative values or NaN.")
    return read.normalised_rows(rows)


def document_completion_score(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: object = None,
    *,
    observed: float = 0.8,
    random_state: RandomStateLike = 0,
    repeats: bool | str = True,
    groups: ArrayLike | None = None,
) -> float:
    """Mean log probability of held-out tokens given the rest of their documents.

    Parameters
    ----------
    estimator : estimator instance
        A fitted topic model. If it has `doc_concentration_` and `topic_weights_`, its
        `topic_word_distr_` are scored by :func:`held_out_log_likelihood` under the
        document prior ``doc_concentration_ * topic_weights_``; what the weights lack to
        one predicts ``1 / n_features``. If it has `samples_` of a posterior, the
        probabilities are averaged over these. Under a topic tree the held-out tokens of
        a document share their path, see :func:`fold_in_score`. Any other estimator
        needs `components_` and `transform`: ``transform(X_observed)`` mixes the
        normalised `components_`. The model may be the last step of a Pipeline.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts.
    y : None
        Ignored; so the function can serve as `scoring`.
    observed : float, default=0.8
        Share of each document's tokens that is observed.
    random_state : int, RandomState instance or None, default=0
        Names the split, see :func:`split_tokens`.
    repeats : bool or "learn", default=True
        Whether a document predicts words that it has shown beyond what topics tell, see
        :func:`held_out_log_likelihood`: by the discount and concentration that a model
        has learned (`word_discount_`, `word_concentration_`); models without have
        topics alone. "learn": by those of the observed tokens of `X` for any mixture of
        topics without its own, to compare such with models that have. (It does not tell
        how many topics there should be: repeats stand in for them.) Topic trees have no
        such part. False: topics alone.
    groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
        Labels of the documents, for an estimator whose `fit` had some.

    Returns
    -------
    score : float
        Nats per held-out token; larger is better. 0.0 if no token can be scored.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    ValueError
        If `X` holds no valid counts or has another number of features.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.metrics import document_completion_score
    >>> X = make_bars(100, random_state=0).data
    >>> hdp = HDP(n_components=5, max_iter=2, random_state=0).fit(X)
    >>> document_completion_score(hdp, X) == hdp.score(X)
    True
    """
    estimator, X = unwrap(estimator, X)
    if hasattr(estimator, "n_features_in_"):
        X, _ = check_documents(estimator, X, reset=False, method="score")
    n_jobs = getattr(estimator, "n_jobs", None)
    if groups is None:
        predictor = _predictor_of(estimator)
    elif hasattr(estimator, "_check_known_groups"):
        predictor = estimator._predictor(estimator._check_known_groups(X, groups))
    else:
        raise ValueError(f"groups must be None: {type(estimator).__name__} has none.")
    return score_completion(predictor, X, n_jobs, observed, random_state, repeats)


def unwrap(estimator: BaseEstimator, X: MatrixLike) -> tuple[BaseEstimator, MatrixLike]:
    """Return the last step of a Pipeline, and X transformed by the steps before."""
    if not isinstance(estimator, Pipeline):
        return estimator, X
    return estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X


def score_completion(
    predictor: Any,  # a Predictor, and a dataclass
    X: sp.csr_array,
    n_jobs: int | None,
    observed: float = 0.8,
    random_state: RandomStateLike = 0,
    repeats: bool | str = True,
) -> float:
    """Score the predictor of a model on documents that have been checked."""
    predictor = replace(predictor, repeats=bool(repeats), learns=repeats == "learn")
    parts = split_tokens(X, observed=observed, random_state=random_state)
    return _mean_log_likelihood(predictor, *parts, n_jobs)


def _predictor_of(estimator: BaseEstimator) -> Predictor:
    """Return the predictor of an estimator; of other packages, by `transform`."""
    if hasattr(estimator, "_predictor"):
        return estimator._predictor()
    names = ("doc_concentration_", "topic_weights_")
    if all(hasattr(estimator, name) for name in names):
        prior = doc_prior_of(read.concentration_of(estimator), estimator.topic_weights_)
        return _check_mixture(estimator.topic_word_distr_, prior)
    return _Transformer(estimator)


@dataclass(frozen=True)
class _Transformer:
    """Predictor by the `transform` and `components_` of other estimators."""

    estimator: BaseEstimator
    repeats: bool = False
    learns: bool = False

    def log_likelihood(
        self, X_observed: sp.csr_array, X_held: sp.csr_array, executor: Executor
    ) -> float:
        """Log probability of all held-out tokens, given the observed ones."""
        with warnings.catch_warnings():  # names were checked; the parts have none
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            theta = self.estimator.transform(X_observed)
        theta = _proportions(theta, "transform(X)")
        topics = _proportions(self.estimator.components_, "components_")
        word_topic = MeanTopics.given(topics.T)
        mixed = mix(theta, word_topic, X_held)
        if self.learns and X_observed.nnz:
            base = mix(theta, word_topic, X_observed)
            burstiness = learn_burstiness(
                X_observed, lambda b: (b.tables(X_observed, base), base)
            )
            if burstiness is not None:
                tables = burstiness.tables(X_observed, base)
                repeats, first_uses = burstiness.repeats(X_observed, tables, X_held)
                mixed = repeats + first_uses[rows_of(X_held.indptr)] * mixed
        with np.errstate(divide="ignore"):
            return (X_held.data * np.log(mixed)).sum()


def fold_in_score(estimator: BaseEstimator, X: MatrixLike, y: object = None) -> float:
    """Test likelihood of a topic tree, by folding in whole documents.

    With the topics held fixed, path c, levels theta and assignments of a document are
    fitted to all of its tokens, and the same tokens are scored:

        sum_n log sum_k q(c_n = k) prod_j sum_l E[theta_nkl] E[W_k(l), w_nj] / sum_n N_n

    in nats per token, averaged over `samples_` of a posterior where there are any. This
    is the test likelihood of section 4.1 of [1]_, its sum over levels and words read as
    a sum inside a product. Words are scored that the fit has seen: the score is
    optimistic, and more so the more freely a model explains a document; compare trees
    of one depth by it, and anything else by :func:`document_completion_score`.

    Parameters
    ----------
    estimator : estimator instance
        A fitted `NestedCRP` or `GibbsNestedCRP`, or a Pipeline that ends with one.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts.
    y : None
        Ignored; so the function can serve as `scoring`.

    Returns
    -------
    score : float
        Nats per token; larger is better. 0.0 if there are no tokens.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    ValueError
        If `X` holds no valid counts or has another number of features, or the estimator
        is no topic tree.

    References
    ----------
    .. [1] Chong Wang and David M. Blei, "Variational Inference for the Nested Chinese
       Restaurant Process", NIPS 2009.
    """
    from skbnp.models.nested_crp.local import PathPredictor  # of trees alone

    estimator, X = unwrap(estimator, X)
    predictor = _predictor_of(estimator)
    if not isinstance(predictor, PathPredictor):
        raise ValueError(
            f"fold_in_score is for topic trees, got {type(estimator).__name__}."
        )
    counts, _ = check_documents(estimator, X, reset=False, method="fold_in_score")
    return _mean_log_likelihood(predictor, counts, counts, estimator.n_jobs)


def perplexity(
    estimator: BaseEstimator,
    X: MatrixLike,
    *,
    observed: float = 0.8,
    random_state: RandomStateLike = 0,
    repeats: bool | str = True,
    groups: ArrayLike | None = None,
) -> float:
    """Held-out perplexity, the exponential of the negative score of a token.

    Parameters
    ----------
    estimator : estimator instance
        As in :func:`document_completion_score`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts.
    observed : float, default=0.8
        As in :func:`document_completion_score`, like the rest.
    random_state : int, RandomState instance or None, default=0
        Split of the tokens.
    repeats : bool or "learn", default=True
        Whether documents predict the words that they have shown.
    groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
        Labels of the documents.

    Returns
    -------
    perplexity : float
        Smaller is better; the number of features for a uniform prediction.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.metrics import perplexity
    >>> X = make_bars(100, random_state=0).data
    >>> hdp = HDP(n_components=5, max_iter=2, random_state=0).fit(X)
    >>> 0 < perplexity(hdp, X) <= 110
    True
    """
    score = document_completion_score(
        estimator,
        X,
        observed=observed,
        random_state=random_state,
        repeats=repeats,
        groups=groups,
    )
    return float(np.exp(-score))
