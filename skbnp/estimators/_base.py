"""What all topic models share. Thin and stateless."""

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from skbnp.metrics._held_out import score_completion
from skbnp.utils.validation import check_documents, check_is_fitted

__all__ = ["TopicModelMixin"]

try:
    _VERSION = version("skbnp")
except PackageNotFoundError:  # used from a source tree that is not installed
    _VERSION = "unknown"


class TopicModelMixin(ClassNamePrefixFeaturesOutMixin):
    """Scores, output names, tags and pickles of topic models."""

    _doc_link_module = "skbnp"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def topic_word_distr_(self) -> np.ndarray:
        """Expected topics, rows of `components_` normalised, (n_components_, V)."""
        distr = self.components_
        distr /= distr.sum(axis=1, keepdims=True)
        return distr

    def score(self, X: Any, y: Any = None) -> float:
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

        Returns
        -------
        score : float
            Nats per held-out token; 0.0 if no token can be scored.

        See Also
        --------
        skbnp.metrics.document_completion_score : The same with other splits.
        """
        check_is_fitted(self)
        counts, _ = check_documents(self, X, reset=False, method="score")
        return score_completion(self, counts)

    def perplexity(self, X: Any) -> float:
        """Held-out perplexity, exp(-score).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        perplexity : float
            Smaller is better.
        """
        return float(np.exp(-self.score(X)))

    def __getstate__(self):
        return {**super().__getstate__(), "_skbnp_version": _VERSION}

    def __setstate__(self, state):
        written = state.pop("_skbnp_version", _VERSION)
        if written != _VERSION:
            warnings.warn(
                f"This {type(self).__name__} was saved by skbnp {written} and is "
                f"loaded by skbnp {_VERSION}; its results may be invalid.",
                UserWarning,
                stacklevel=2,
            )
        super().__setstate__(state)
