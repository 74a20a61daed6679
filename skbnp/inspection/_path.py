"""Path of a fit from its number of topics down to one, and its figure."""

import copy
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skbnp.estimators._merge_fits import merges_of, merges_to
from skbnp.inspection._displays import BLUE, COLOURS, GREY, VERMILION, Display
from skbnp.inspection._history import FEW
from skbnp.metrics import document_completion_score, topic_coherence
from skbnp.rows.survey import share_known
from skbnp.utils import fitted as read
from skbnp.utils.lazy import import_pandas
from skbnp.utils.typing import Array, Ints
from skbnp.utils.validation import POSITIVE, check_counts, validate_params

if TYPE_CHECKING:
    from pandas import DataFrame

#: Numbers of topics that are all scored, and the ratio of larger ones.
ALL_SCORED, RATIO = 20, 1.25


@dataclass(frozen=True, eq=False)
class TopicPath:
    """Numbers of topics of one fit, from its own down, and what each loses.

    Parameters
    ----------
    sizes : ndarray of int of shape (n_merges + 1,)
        Numbers of topics: that of the fit, and one less after each merge, down to one
        or to the number of known topics.
    component_ids : ndarray of int of shape (n_components,)
        Numbers of the topics of the fit, rows of its `components_`.
    merges : ndarray of int of shape (n_merges, 2)
        Numbers of two topics that merge: the one that ends, the one that it joins.
        Merge i leads from ``sizes[i]`` to ``sizes[i + 1]``.
    lost : ndarray of shape (n_merges + 1,)
        Information on words that is lost at each of `sizes`, in nats per token of the
        fit; where documents repeat words, per first use.
    scored : ndarray of int of shape (n_scored,)
        Numbers of topics, decreasing, with a score; empty without documents.
    scores : ndarray of shape (n_scored,)
        Log probability per held-out token, by document completion.
    coherences : ndarray of shape (n_scored,)
        Mean NPMI coherence of topics in the documents.
    share_of_fit : float
        Share of the documents that the model was fitted to, whose scores flatter large
        numbers of topics; 0 where the fit does not know its documents, as on a cluster.
    n_best : int or None
        Of all numbers that trials of the fit compared (`n_components_gains_`), the one
        that predicted best; None if topics had no price (`min_gain`).

    See Also
    --------
    topic_path : Makes it.
    TopicPathDisplay : Draws it.
    """

    sizes: Ints
    component_ids: Ints
    merges: Ints
    lost: Array
    scored: Ints
    scores: Array
    coherences: Array
    share_of_fit: float
    n_best: int | None = None

    def __repr__(self) -> str:
        first, last = self.sizes[[0, -1]].tolist()
        return f"TopicPath({first} to {last} topics, {len(self.scored)} scored)"

    def labels(self, n: int) -> Ints:
        """Return the topic that each topic of the fit joins on the way to `n` topics.

        Parameters
        ----------
        n : int
            Number of topics, one of `sizes`.

        Returns
        -------
        labels : ndarray of int of shape (n_components,)
            For each row of `components_`, the number of a topic of
            ``reduce_topics(estimator, n)`` in its `component_ids_`.

        Raises
        ------
        ValueError
            If there is no such number on the path.
        """
        labels = self.component_ids.copy()
        for source, target in merges_to(n, len(labels), self.merges):
            labels[labels == source] = target
        return labels

    def to_frame(self) -> "DataFrame":
        """List the path.

        Returns
        -------
        frame : pandas DataFrame
            A row for each number of topics: "n_components", "ended" and "joined" (the
            topics of the merge that led there, -1 in the first row), "lost", "score"
            and "coherence" (nan where it has none).

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        ended, joined = np.vstack([[[-1, -1]], self.merges]).T
        columns = {"score": self.scores, "coherence": self.coherences}
        for name, values in columns.items():
            columns[name] = np.full(len(self.sizes), np.nan)
            columns[name][self.sizes[0] - self.scored] = values
        return import_pandas().DataFrame(
            {
                "n_components": self.sizes,
                "ended": ended,
                "joined": joined,
                "lost": self.lost,
                **columns,
            }
        )


def topic_path(estimator: Any, X: Any = None) -> TopicPath:
    """Merge the topics of one fit step by step, and measure what each number loses.

    Parameters
    ----------
    estimator : fitted HDP, GibbsHDP or StickBreakingHDP, or Pipeline that ends in one
        It stays as it is.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents to score, best such that were not in the fit; raw ones for a text
        Pipeline. None scores nothing.

    Returns
    -------
    path : TopicPath
        Numbers of topics, which topics merge, and the information lost; with `X` the
        score and coherence of all numbers to 20, of some larger ones, each a quarter
        more, and of that of the fit.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If it is no flat topic model of this package.
    ValueError
        If `X` has no tokens or another number of columns.

    See Also
    --------
    skbnp.reduce_topics : The fitted model at one of these numbers, and how topics are
        merged.
    TopicPathDisplay : The path as a figure.

    Notes
    -----
    Scores are those of the reduced model: ``reduce_topics(estimator, n).score(X)``. Of
    a `GibbsHDP` they are of one sample, that of the fit's own number too. Terms of a
    topic that occur in no document of `X` are left out of its coherence.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import topic_path
    >>> X = make_bars(400, random_state=0).data
    >>> hdp = HDP(20, split_merge=False, random_state=0).fit(X[:300])
    >>> path = topic_path(hdp, X[300:])
    >>> path
    TopicPath(20 to 1 topics, 20 scored)
    >>> bool(path.scores[path.scored == 10] > path.scores[path.scored == 5])
    True
    >>> len(set(path.labels(5)))
    5
    """
    ids, pairs, losses = merges_of(estimator)
    model: Any = read.fitted_model(estimator)
    gains = getattr(model, "n_components_gains_", {})
    sizes = len(ids) - np.arange(len(pairs) + 1)
    scored, scores, share = sizes[:0], np.zeros((0, 2)), 0.0
    if X is not None:
        rows = read.model_rows(estimator, read.documents_of(X))
        counts = check_counts(rows, whom="topic_path")
        if not counts.sum() > 0.0:
            raise ValueError("X must have a document with tokens, got none.")
        if hasattr(model, "_digest"):
            share = share_known(model._digest, counts)
        scored = _to_score(sizes)
        scores = _scores(model, pairs, scored, rows)
    return TopicPath(
        sizes=sizes,
        component_ids=ids,
        merges=pairs,
        lost=np.append(0.0, np.cumsum(losses)),
        scored=scored,
        scores=scores[:, 0],
        coherences=scores[:, 1],
        share_of_fit=share,
        n_best=max(gains, key=lambda n: gains[n], default=None),
    )


def _to_score(sizes: Ints) -> Ints:
    """Return the numbers of topics that are scored, the largest first."""
    n_steps = max(np.log(sizes[0] / ALL_SCORED) / np.log(RATIO), 0.0)
    large = np.round(ALL_SCORED * RATIO ** np.arange(n_steps)).astype(int)
    is_scored = (sizes <= ALL_SCORED) | np.isin(sizes, large)
    is_scored[0] = True
    return sizes[is_scored]


def _scores(model: Any, pairs: Ints, scored: Ints, rows: Any) -> Array:
    """Return score and coherence of the model at some numbers, (n_scored, 2)."""
    model, result, done = copy.copy(model), np.empty((len(scored), 2)), 0
    for place, n in enumerate(scored.tolist()):
        end = scored[0] - n
        model._merge_all(pairs[done:end].tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of terms absent in the rows
            coherence = topic_coherence(model, rows)
        known = coherence[np.isfinite(coherence)]
        result[place, 0] = document_completion_score(model, rows)
        result[place, 1] = known.mean() if len(known) else np.nan
        done = end
    return result


@dataclass(kw_only=True, eq=False, repr=False)
class TopicPathDisplay(Display):
    """Score of one fit against its number of topics, from its own down.

    Best made with :meth:`from_estimator`. The horizontal axis is logarithmic; lines
    mark the number of the fit, the one that predicted best before topics had to bring
    a share (`min_gain`), and a chosen one, if given. Of a path without scores the
    information that is lost is drawn.

    Parameters
    ----------
    path : TopicPath
        What :func:`topic_path` returns.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The scores.
    marks_ : list of matplotlib Line2D
        The number of the fit, the one that predicted best if it is another, and the
        chosen one.
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.

    See Also
    --------
    topic_path : The numbers themselves.
    skbnp.reduce_topics : The model with the number that you choose.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> from skbnp.inspection import TopicPathDisplay
    >>> X = make_bars(400, random_state=0).data
    >>> hdp = HDP(20, split_merge=False, random_state=0).fit(X[:300])
    >>> display = TopicPathDisplay.from_estimator(hdp, X=X[300:], n=10)
    >>> len(display.marks_)
    2
    >>> plt.show()
    """

    path: TopicPath

    @classmethod
    def from_estimator(
        cls, estimator, feature_names=None, *, X=None, ax=None, **kwargs
    ) -> Self:
        """Merge the topics of a fitted model step by step, and draw the path.

        Parameters
        ----------
        estimator : fitted HDP, GibbsHDP or StickBreakingHDP, or Pipeline
            As in :func:`topic_path`.
        feature_names : None
            Ignored; all displays take it.
        X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
                default=None
            Documents to score, as in :func:`topic_path`.
        ax : matplotlib Axes, default=None
            Axes to draw in. `None` makes a figure.
        **kwargs : dict
            Handed to :meth:`plot`.

        Returns
        -------
        display : TopicPathDisplay
            The drawn display.
        """
        return cls(path=topic_path(estimator, X)).plot(ax, **kwargs)

    @validate_params({"n": [POSITIVE, None]})
    def plot(self, ax=None, *, n=None, **kwargs) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As in :meth:`from_estimator`.
        n : int, default=None
            Number of topics to mark.
        **kwargs : dict
            Handed to matplotlib's `plot` for the scores.

        Returns
        -------
        display : TopicPathDisplay
            This object.
        """
        path = self.path
        ax = self._begin(ax, layout="constrained")
        from matplotlib.ticker import NullFormatter, StrMethodFormatter

        at, values, label = path.sizes, path.lost, "information on words lost"
        unit = "nats per token"
        if len(path.scored):
            at, values, label = path.scored, path.scores, "score"
            if path.share_of_fit > 0.0:
                unit += f"; {path.share_of_fit:.0%} of documents are of the fit"
        marker = "o" * (len(at) < FEW)
        style = self._line_style(kwargs, color=BLUE, marker=marker, markersize=4)
        (self.line_,) = ax.plot(at, values, **style)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        marks = [(len(path.component_ids), GREY, "in the fit")]
        if path.n_best not in (None, len(path.component_ids)):
            marks.append((path.n_best, COLOURS[2], "predict best (min_gain=0)"))
        if n is not None:
            path.labels(n)  # raises if there is no such number
            marks.append((n, VERMILION, "chosen"))
        self.marks_ = [
            ax.axvline(number, color=color, lw=1.2, ls="--", label=f"{number:,} {what}")
            for number, color, what in marks
        ]
        self._legend(self.marks_)
        self._finish(ax, xlabel="topics", ylabel=f"{label} ({unit})")
        return self
