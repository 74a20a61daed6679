"""Base classes of all estimators: names of topics, copies, edits, callbacks."""

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)

from skbnp.estimators import _cautions
from skbnp.estimators._known_topics import KnownTopics
from skbnp.estimators._saved import check_fitted
from skbnp.inference.executor import commit
from skbnp.inference.posterior import Log
from skbnp.inference.protocols import Predictor
from skbnp.metrics._held_out import score_completion
from skbnp.rows import survey as surveys
from skbnp.utils import validation as valid
from skbnp.utils.archive import FitFile
from skbnp.utils.arrays import rows_of
from skbnp.utils.fitted import topic_numbers
from skbnp.utils.labels import NEW, Factors, Label, check_groups
from skbnp.utils.lazy import SITE
from skbnp.utils.plain import from_plain, to_plain
from skbnp.utils.ranges import MOST_IDS, Size, Sized, Steps
from skbnp.utils.sklearn import CallbackSupportMixin
from skbnp.utils.typing import MatrixLike
from skbnp.utils.warnings import warn_caller

#: How names begin of what scikit-learn keeps of callbacks in an estimator.
OF_CALLBACKS = "_skl_", "_callback_", "_parent_callback_"
#: Values of parameters: a number of things, a prior or a concentration.
NUMBER = valid.at_least(1)
PRIOR = valid.Interval(Real, 1e-100, 1e10, closed="both")
NOT_NEGATIVE = valid.at_least(0, Real)
AUTO = valid.StrOptions({"auto"})
#: Levels of a tree: each multiplies what a document may choose from, and a tree of 255,
#: which the kernels could take, would be learned for minutes and read by nobody.
MOST_LEVELS = 50
#: What parameters may be, by their names.
PARAMETERS: dict[str, list] = {
    "max_iter batch_size max_doc_update_iter thin n_split_merge window": [NUMBER],
    "max_components n_themes": [NUMBER, None],
    "max_depth": [valid.Interval(Integral, 1, MOST_LEVELS, closed="both")],
    "learning_method": [valid.StrOptions({"batch", "memoized", "online"})],
    "doc_concentration corpus_concentration": [PRIOR],
    "child_concentration stop_concentration": [PRIOR],
    "topic_word_prior": [PRIOR, dict, KnownTopics, "array-like"],
    "level_prior": [Real, "array-like"],
    "corpus_concentration_prior doc_concentration_prior": [tuple, list],
    "child_concentration_prior stop_prior": [tuple, list],
    "vmf_concentration prior_concentration": [
        valid.Interval(Real, 1e-3, 1e9, closed="both"),
        AUTO,
    ],
    "parent_weight": [valid.Interval(Real, 0, 1e6, closed="both")],
    "past_weight": [valid.Interval(Real, 0, 1e6, closed="both"), AUTO],
    "learn_priors": ["boolean", valid.StrOptions({"concentrations"})],
    "burstiness": [AUTO, valid.Options(bool, {False})],
    "min_gain": [valid.Interval(Real, 0, 0.5, closed="both")],
    "learning_offset tol mean_change_tol": [NOT_NEGATIVE],
    "learning_decay": [valid.Interval(Real, 0.5, 1, closed="both")],
    "total_samples": [valid.Interval(Real, 0, np.inf, closed="neither"), None],
    "warm_up split_merge_scans": [valid.at_least(0)],
    "burn_in split_merge_sweeps": [valid.at_least(0), None],
    "n_chains": [valid.Interval(Integral, 1, 1000, closed="both")],
    "init": [valid.StrOptions({"docs", "random"}), valid.HasMethods(["transform"])],
    "split_merge sparse_output warm_start": ["boolean"],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}
PARAMETERS = {name: of for names, of in PARAMETERS.items() for name in names.split()}


def constraints_of(parameters: Any, **own: list) -> dict[str, list]:
    """Return what the parameters that a dataclass declares may be, with its `own`."""
    given = PARAMETERS | own
    return {parameter.name: given[parameter.name] for parameter in fields(parameters)}


class _Absent:
    """Attribute that classes lack although a base of theirs has it."""

    def __get__(self, *owners: object) -> Any:
        raise AttributeError


def hide_fields(kind: Any) -> None:
    """Let a class with the constructor of a dataclass be none.

    Dask names and copies instances of dataclasses by their fields alone, without what
    they have learned.
    """
    kind.__dataclass_fields__ = _Absent()


try:
    _VERSION = version("skbnp")
except PackageNotFoundError:  # used from a source tree that is not installed
    _VERSION = "unknown"


class ComponentModel(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """Base of all estimators: output names, copies, pickles, files."""

    def __init_subclass__(cls, **given: Any) -> None:
        """Give the constructor of declared parameters the name of the estimator."""
        super().__init_subclass__(**given)
        declared = cls.__bases__[0]
        if not issubclass(declared, BaseEstimator) and is_dataclass(declared):
            constructor: Any = vars(declared)["__init__"]
            constructor.__qualname__ = f"{cls.__qualname__}.__init__"
        hide_fields(cls)

    #: What scikit-learn's drawing of an estimator links to, if it is there.
    _doc_link_module = "skbnp"
    _doc_link_template = SITE and f"{SITE}/api/index.html"

    # Fitted
    n_components_: Size
    component_ids_: Annotated[np.ndarray, Sized("n_components", most=MOST_IDS)]
    lineage_: Log
    history_: dict[str, list]
    n_iter_: Steps
    n_features_in_: Size
    feature_names_in_: NDArray[np.object_]
    topic_names_: dict[int, str]  # by id, where users have given some

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def _n_enough_docs(self) -> int:
        """Number of distinct documents that suffice to learn the number of topics.

        0 if the number is given.
        """
        return surveys.ENOUGH_DOCS

    @property
    def _topic_numbers(self) -> np.ndarray:
        """Numbers in the names of the rows of `components_`, (n_components_,)."""
        return topic_numbers(self, self.n_components_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns of `transform` by their topics.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Only used to validate feature names with the names seen in `fit`.

        Returns
        -------
        feature_names_out : ndarray of str objects of shape (n_components_,)
            The class in lower case and the number of the topic: "hdp12" is topic 12.
            The number is that of `component_ids_`; in a tree, but for one over
            epochs, the row of the node.
            Topics that :func:`skbnp.inspection.set_topic_names` has named have their
            names.
        """
        super().get_feature_names_out(input_features)  # refuses what it must
        prefix = type(self).__name__.lower()
        given = getattr(self, "topic_names_", {})
        pairs = zip(self.component_ids_.tolist(), self._topic_numbers, strict=True)
        names = [given.get(name, f"{prefix}{number}") for name, number in pairs]
        return np.array(names, dtype=object)

    def _forget(self, *names: str) -> None:
        """Remove fitted attributes, if there are any."""
        for name in names:
            self.__dict__.pop(name, None)

    def _take_names(self, other: "ComponentModel") -> None:
        """Copy the names of topics from another estimator, if it has any."""
        self._forget("topic_names_")
        names = getattr(other, "topic_names_", None)
        self.__dict__.update({} if names is None else {"topic_names_": names})

    def __copy__(self):
        """Return a copy with its own learned state; parameters are shared."""
        # What was learned is copied, or the copy would learn into the counts of the
        # original. Parameters, callbacks and their tasks are shared: scikit-learn
        # copies after each pass, a callback may hold a corpus, and other fits of a
        # search add to the tasks.
        parameters = self.get_params(deep=False)
        learned = {
            name: value
            for name, value in vars(self).items()
            if name not in parameters and not name.startswith(OF_CALLBACKS)
        }
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.__dict__.update(copy.deepcopy(learned))
        return other

    def __getstate__(self):
        # No class but this one: a file of it can be read by who trusts this one alone.
        return to_plain(self._state())

    def _state(self) -> dict[str, Any]:
        """Return parameters and fitted attributes to save."""
        return {**super().__getstate__(), "_skbnp_version": _VERSION}

    def __setstate__(self, state):
        """Restore and check a pickled state."""
        name = type(self).__name__
        if not isinstance(state, dict):
            kind = type(state).__name__
            raise ValueError(f"The saved {name} is damaged: its state is a {kind}.")
        written = state.get("_skbnp_version", _VERSION)
        if written != _VERSION:
            warnings.warn(
                f"This {name} was saved by skbnp {written} and is loaded by skbnp "
                f"{_VERSION}; its results may be invalid.",
                UserWarning,
                stacklevel=2,
            )
        plain = {key: state[key] for key in state if key != "_skbnp_version"}
        try:
            loaded = self._loaded(plain)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(f"The saved {name} is damaged: {error!r}.") from error
        self.__dict__.update(vars(loaded))  # all at once, or nothing

    def _loaded(self, plain: dict[str, Any]) -> Self:
        """Return an estimator of a state that has been checked."""
        name, loaded = type(self).__name__, object.__new__(type(self))
        missing = set(self._get_param_names()) - plain.keys()
        if missing:
            raise ValueError(
                f"The saved state is of another class than {name}, or damaged: it has "
                f"no {', '.join(sorted(missing))}."
            )
        super(ComponentModel, loaded).__setstate__(from_plain(plain))
        if loaded.__sklearn_is_fitted__():
            with np.errstate(all="ignore"):  # what overflows is out of range
                check_fitted(loaded)
                loaded._check_saved()
        return loaded

    def _check_saved(self) -> Any:
        """Raise if a saved state is unfit for compiled code."""

    # -- learning ---------------------------------------------------------------------

    @abstractmethod
    def _read(self, X, *, reset: bool, method: str) -> Any:
        """Check rows and return those to learn from; `reset` in a first call.

        Keywords are the further arguments of `fit` and `partial_fit`. Of a sampler,
        their `len` is the amount of data, and chains continue if `digest` is equal.
        """

    @abstractmethod
    def _describe(self, rows) -> str:
        """Return the number and size of rows as a text."""

    def _extended(self, X) -> valid.Vocabulary | None:
        """Return the vocabulary that a chunk of a stream extends, or None."""
        return None

    def _widened(self, learned, rows, vocabulary: valid.Vocabulary) -> Any:
        """Return a posterior with new columns; the present one is not changed.

        Of a sampler, a sample, and the fitted attributes of these columns.
        """
        raise TypeError(f"{type(self).__name__} cannot learn new columns of X.")

    def _warn_of_components(self) -> None:
        """Warn of uncertain components after a fit."""


class TopicModelMixin(ComponentModel):
    """Base of all models of counts: checks of documents, `transform`, `score`, tags."""

    n_jobs: int | None
    sparse_output: bool
    #: Whether fractional counts are rounded to whole tokens.
    _rounds_counts = False

    def __sklearn_tags__(self):
        """Return tags of scikit-learn: sparse, non-negative input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @abstractmethod
    def _predictor(self) -> Predictor:
        """Return the predictor of tokens; raise if the estimator is not fitted."""

    def _accept(self, counts: sp.csr_array, X, *, reset: bool, method: str):
        """Check counts of `X` against parameters; return what is learned of them."""
        return counts

    def _read(self, X, *, reset: bool, method: str, sample_weight=None) -> Any:
        return drop_empty(self._read_counts(X, reset, method, sample_weight))

    def _read_counts(
        self, X: MatrixLike, reset: bool, method: str, sample_weight: ArrayLike | None
    ) -> sp.csr_array:
        """Check documents to learn from, as `check_documents`.

        Rows are divided by the value of one token, and outlying ones are thinned, see
        `skbnp.rows.survey`; documents are repeated by their weights. Warns of that in
        every call, and in `fit` and in the first call of a stream of documents with
        little information on topics and of values other than counts.
        """
        given: list[sp.csr_array] = []  # before samplers round them
        measured: list[tuple[surveys.Scales, surveys.WordUses]] = []
        is_first = reset or method == "fit"
        n_before = 0.0 if is_first else self._n_docs_before

        def keep(counts: sp.csr_array) -> sp.csr_array:
            """Scale documents, and repeat them by their weights."""
            copies = None
            if sample_weight is not None:
                copies = valid.check_copies(sample_weight, counts)
            given.append(counts if copies is None else counts[copies])
            counts, scales = surveys.scaled(counts)
            outlying = scales.outlying(n_before)
            if outlying is not None:
                counts = surveys.thinned(counts, outlying)
            measured.append((scales, surveys.WordUses.of(counts)))
            counts = counts if copies is None else counts[copies]
            return self._accept(counts, X, reset=reset, method=method)

        counts, _ = valid.check_documents(
            self,
            X,
            reset=reset,
            method=method,
            accept=keep,
            vocabulary=self._extended(X) if method == "partial_fit" else None,
        )
        scales, words = measured[0]
        if is_first:
            survey = surveys.CountSurvey.of(given[0])
            self._warn_of(survey, scales, words, in_fit=method == "fit")
        else:
            _cautions.warn_of_scales(scales, n_before)
        digest = surveys.hashes_of(given[0])
        if method == "partial_fit" and not reset:
            digest = np.concatenate([digest, getattr(self, "_digest", digest)])
        self._digest = surveys.joined(digest, digest)
        return counts

    @property
    def _n_docs_before(self) -> float:
        """Number of documents of a stream so far."""
        posterior = getattr(self, "_posterior", None)
        return float(getattr(posterior, "n_seen", getattr(self, "_n_seen", 0)))

    def _extended(self, X: MatrixLike) -> valid.Vocabulary | None:
        return valid.vocabulary_of(self, X) if self.__sklearn_is_fitted__() else None

    def _warn_of(
        self,
        survey: surveys.CountSurvey,
        scales: surveys.Scales,
        words: surveys.WordUses,
        *,
        in_fit: bool,
        is_mended: bool = True,
    ) -> None:
        """Warn of documents to learn from; a chunk of a stream may be small.

        `is_mended` is whether rows are learned in their scales.
        """
        if in_fit:
            _cautions.warn_if_few_documents(survey, self._n_enough_docs)
        _cautions.warn_of_values(survey, are_rounded=self._rounds_counts)
        _cautions.warn_of_scales(scales, is_mended=is_mended)
        names = getattr(self, "feature_names_in_", None)
        _cautions.warn_of_columns(survey, words, names, in_fit=in_fit)

    # Fitted
    topic_weights_: Annotated[np.ndarray, Sized("n_components", least=0, most=1 + 1e-6)]

    if TYPE_CHECKING:  # the type of scikit-learn's; of the classes with flat topics

        def fit_transform(
            self, X: MatrixLike, y: object = None, **fit_params: Any
        ) -> np.ndarray: ...

        def _doc_topics(
            self, counts: sp.csr_array
        ) -> tuple[Any, np.ndarray, np.ndarray]:
            """Infer expected counts of topics in documents, (n_docs, K).

            Returns these, the prior of proportions, (K,) or (n_docs, K), and the
            columns in user order.
            """
            ...

    def _check_counts(
        self, X: MatrixLike, method: str
    ) -> tuple[sp.csr_array, np.dtype]:
        """Check documents to evaluate, as `check_documents`."""
        valid.check_is_fitted(self)
        return valid.check_documents(self, X, reset=False, method=method)

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Infer the topic proportions of documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        doc_topic_distr : {ndarray, csr_array} of shape (n_samples, n_components_)
            Expected proportions; rows sum to one, the mass of topics not represented
            left out, and with `sparse_output` that of topics of which the document has
            no tokens. A document without tokens gets the corpus-level weights. float32
            if `X` is, otherwise float64.
        """
        counts, dtype = self._check_counts(X, "transform")
        return self._proportions(*self._doc_topics(counts), dtype)

    def _proportions(
        self, counts: Any, prior: np.ndarray, columns: np.ndarray, dtype: np.dtype
    ) -> np.ndarray:
        """Expected proportions from the results of `_doc_topics`."""
        if not self.sparse_output:
            distr = counts.toarray()
            distr += prior
            distr /= distr.sum(axis=1, keepdims=True)
            return distr[:, columns].astype(dtype, order="C", copy=False)
        counts = sp.csr_array(counts, copy=True)
        counts.eliminate_zeros()
        prior, at = np.broadcast_to(prior, counts.shape), rows_of(counts.indptr)
        n_tokens, n_prior = np.asarray(counts.sum(axis=1)).ravel(), prior.sum(axis=1)
        counts.data += prior[at, counts.indices]
        counts.data /= (n_tokens + n_prior)[at]
        empty = np.flatnonzero(n_tokens <= 0.0)
        of_prior = sp.csr_array(prior[empty] / n_prior[empty][:, None])
        order = np.arange(counts.shape[0])
        order[empty] = counts.shape[0] + np.arange(len(empty))
        result = sp.csr_array(sp.vstack([counts, of_prior], format="csr")[order])
        result = result[:, columns].astype(dtype)
        result.sort_indices()
        return result

    @property
    def topic_word_distr_(self) -> np.ndarray:
        """Expected topics, rows of `components_` normalised, (n_components_, V)."""
        distr = self.components_
        distr /= distr.sum(axis=1, keepdims=True)
        return distr

    def score(self, X: MatrixLike, y: object = None, *, repeats: bool = True) -> float:
        """Mean log probability of held-out tokens, by document completion.

        80 % of each document's tokens are observed, the other 20 % are predicted; the
        split depends on the content of the row alone. Larger is better, and documents
        of different corpora or folds can be compared.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.
        y : None
            Ignored.
        repeats : bool, default=True
            Whether a document predicts words that it has shown beyond what topics
            tell, where the fit has learned how much, see
            :func:`skbnp.metrics.document_completion_score`. False: topics alone.

        Returns
        -------
        score : float
            Nats per held-out token; 0.0 if no token can be scored.

        See Also
        --------
        skbnp.metrics.document_completion_score : The same with other splits.
        """
        counts, _ = self._check_counts(X, "score")
        predictor = self._predictor()
        return score_completion(predictor, counts, self.n_jobs, repeats=repeats)

    def perplexity(self, X: MatrixLike, *, repeats: bool = True) -> float:
        """Held-out perplexity, exp(-score).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.
        repeats : bool, default=True
            As in `score`.

        Returns
        -------
        perplexity : float
            Smaller is better.
        """
        return float(np.exp(-self.score(X, repeats=repeats)))


def labels_of(X: MatrixLike, groups: Any) -> Factors:
    """Check labels of groups of documents, one for each row."""
    return check_groups(groups, X.shape[0] if hasattr(X, "shape") else len(X))


class LabelledDocumentsMixin(TopicModelMixin):
    """Base of models of documents that may have labels of groups."""

    @abstractmethod
    def _check_groups(self, X: MatrixLike, groups: Any) -> Factors | None:
        """Check labels of documents, if there are any."""

    @abstractmethod
    def _known_groups(self) -> tuple[Sequence[str], Sequence[Sequence[Label]]] | None:
        """Names of the factors of a fit, and labels of each, or None."""

    def _check_known_groups(self, X: MatrixLike, groups: Any) -> Factors | None:
        """Check labels of documents to evaluate; warn if a fit has none of them."""
        factors = self._check_groups(X, groups)
        if factors is None:
            return None
        known = self._known_groups()
        if known is None:
            raise ValueError("groups must have been given to fit, too.")
        codes = factors.codes_in(*known)
        if len(codes) and (codes == NEW).all():
            warn_caller(
                "groups has no label that fit had: all documents have the topic "
                "weights of the corpus. GroupKFold tests on such documents alone if it "
                "divides these by the same labels."
            )
        return factors

    def transform(
        self, X: MatrixLike, *, groups: ArrayLike | None = None
    ) -> np.ndarray:
        """Infer the topic proportions of documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents as in `fit`, if that had some. A missing one is
            inferred from the document, and one that `fit` did not have stands for the
            corpus.

        Returns
        -------
        doc_topic_distr : {ndarray, csr_array} of shape (n_samples, n_components_)
            Expected proportions; rows sum to one, the mass of topics not represented
            left out, and with `sparse_output` that of topics of which the document has
            no tokens. A document without tokens gets the weights of its groups, or the
            corpus-level ones. float32 if `X` is, otherwise float64.
        """
        counts, dtype = self._check_counts(X, "transform")
        factors, model = self._check_known_groups(X, groups), cast(Any, self)
        result, prior, columns = model._doc_topics(counts, factors)
        return self._proportions(result, prior, columns, dtype)

    def fit_transform(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> np.ndarray:
        """Learn from all documents, and infer their topic proportions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            As in `fit`.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents, for both.

        Returns
        -------
        doc_topic_distr : {ndarray, csr_array} of shape (n_samples, n_components_)
            What `transform` returns.
        """
        self.fit(X, y, sample_weight, groups=groups)
        return self.transform(
            X, groups=None if isinstance(groups, Integral) else groups
        )

    def score(
        self,
        X: MatrixLike,
        y: object = None,
        *,
        repeats: bool = True,
        groups: ArrayLike | None = None,
    ) -> float:
        """Mean log probability of held-out tokens, by document completion.

        80 % of each document's tokens are observed, the other 20 % are predicted; the
        split depends on the content of the row alone. Larger is better, and documents
        of different corpora or folds can be compared.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.
        y : None
            Ignored.
        repeats : bool, default=True
            Whether a document predicts words that it has shown beyond what topics
            tell, where the fit has learned how much, see
            :func:`skbnp.metrics.document_completion_score`. False: topics alone.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents as in `transform`.

        Returns
        -------
        score : float
            Nats per held-out token; 0.0 if no token can be scored.

        See Also
        --------
        skbnp.metrics.document_completion_score : The same with other splits.
        """
        counts, _ = self._check_counts(X, "score")
        predictor = cast(Any, self)._predictor(self._check_known_groups(X, groups))
        return score_completion(predictor, counts, self.n_jobs, repeats=repeats)

    def perplexity(
        self, X: MatrixLike, *, repeats: bool = True, groups: ArrayLike | None = None
    ) -> float:
        """Held-out perplexity, exp(-score).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.
        repeats : bool, default=True
            As in `score`.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents as in `score`.

        Returns
        -------
        perplexity : float
            Smaller is better.
        """
        return float(np.exp(-self.score(X, repeats=repeats, groups=groups)))


class ComponentEditsMixin(ABC):
    """Base of flat topic models: merges and drops of fitted topics by their ids."""

    component_ids_: np.ndarray
    n_components_: Size

    @property
    @abstractmethod
    def _known_ids(self) -> np.ndarray:
        """Ids of topics known before the fit."""

    @property
    @abstractmethod
    def _frozen_ids(self) -> np.ndarray:
        """Ids of topics whose words are fixed."""

    @abstractmethod
    def _merge(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Merge pairs of topics (source, target) in turn, in place."""

    @abstractmethod
    def _drop(self, ids: list[int]) -> None:
        """Remove topics, in place."""

    @abstractmethod
    def _publish_edits(self) -> None:
        """Update the fitted attributes after an edit."""

    def merge_components(self, ids: ArrayLike) -> Self:
        """Merge topics of a fitted model into the first of them.

        Counts and weights add up. The other ids end; the merge is recorded in
        `lineage_`, and `partial_fit` or a warm start goes on from the merged topics.

        Parameters
        ----------
        ids : array-like of int
            Two or more of `component_ids_`, as `summary` and figures show them.

        Returns
        -------
        self : object
            The edited estimator.

        Raises
        ------
        ValueError
            If an id is unknown or repeated, or there are fewer than two.
        """
        target, *sources = names = self._check_ids(ids, at_least=2)
        if fixed := [name for name in names if name in self._frozen_ids]:
            raise ValueError(f"ids must be of topics that are not frozen, got {fixed}.")
        return self._merge_all([(source, target) for source in sources])

    @commit()
    def _merge_all(self, pairs: Sequence[tuple[int, int]]) -> Self:
        """Merge pairs of topics (source, target) in turn; publish the result."""
        self._merge(pairs)
        self._publish_edits()
        return self

    def drop_components(self, ids: ArrayLike) -> Self:
        """Drop topics of a fitted model.

        Their counts are forgotten. Their weights go to the topics not represented, or
        to all others where those have no share of their own: where all topics are
        represented, and in samples of a posterior. The end of each is recorded in
        `lineage_`.

        Parameters
        ----------
        ids : array-like of int
            One or more of `component_ids_`, as `summary` and figures show them, not all
            of them.

        Returns
        -------
        self : object
            The edited estimator.

        Raises
        ------
        ValueError
            If an id is unknown or repeated, or no topic would be left.
        """
        dropped = self._check_ids(ids, at_least=1)
        if len(dropped) == self.n_components_:
            raise ValueError("ids must leave at least one topic.")
        with commit():
            self._drop(dropped)
            self._publish_edits()
        return self

    def _check_ids(self, ids, at_least: int) -> list[int]:
        """Return at least `at_least` distinct ids of present topics, or raise."""
        valid.check_is_fitted(self)
        names = np.asarray(ids)
        if names.ndim != 1 or names.dtype.kind not in "iu" or len(names) < at_least:
            raise ValueError(f"ids must be {at_least} or more integers, got {ids!r}.")
        unknown = np.setdiff1d(names, self.component_ids_)
        if len(unknown) or len(np.unique(names)) < len(names):
            raise ValueError(
                "ids must be distinct and among component_ids_, got "
                f"{names.tolist()}; unknown: {unknown.tolist()}."
            )
        return names.tolist()


def send_new_ids(estimator: BaseEstimator, names: np.ndarray) -> None:
    """Tell callbacks that record ids of topics the new ids.

    `names` are the new ids of the ids given so far.
    """
    for callback in getattr(estimator, "_skl_callbacks", ()):
        if hasattr(callback, "rename_components"):
            callback.rename_components(names)


def files_of(estimator: BaseEstimator) -> list[FitFile]:
    """Return the checkpoint files of the callbacks of an estimator."""
    callbacks = getattr(estimator, "_skl_callbacks", ())
    result = [getattr(callback, "file", None) for callback in callbacks]
    return [file for file in result if isinstance(file, FitFile)]


def features_of(vocabulary: valid.Vocabulary) -> dict[str, Any]:
    """Return the fitted attributes that a vocabulary determines."""
    names = vocabulary.names
    return {"feature_names_in_": names, "n_features_in_": len(names)}


def are_in_use(tokens: np.ndarray) -> np.ndarray:
    """Whether topics have at least max(1, 1e-4 of all) expected tokens, (K,)."""
    return tokens >= max(1.0, 1e-4 * tokens.sum())


def drop_empty(counts: sp.csr_array) -> sp.csr_array:
    """Return the documents that have tokens."""
    used = np.diff(counts.indptr) > 0
    return counts if used.all() else counts[used]
