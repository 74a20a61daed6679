"""Flat fits with fewer topics: groups by the evidence of documents, and merges."""

import copy
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from skbnp.components.topic_groups import Grouping, TopicCounts, cut, group_topics
from skbnp.estimators._merges import merges_of, merges_to
from skbnp.inference.executor import Executor
from skbnp.inspection import _terms
from skbnp.inspection._displays import COLOURS, FONT, GREY, MARGIN, MAX_WIDTH, Display
from skbnp.metrics import document_completion_score, topic_coherence
from skbnp.models.hdp.fold_in import MixturePredictor
from skbnp.rows.survey import share_known
from skbnp.utils import fitted as read
from skbnp.utils.arrays import largest, members, rows_of
from skbnp.utils.lazy import import_pandas
from skbnp.utils.typing import Array, DataFrame, Ints, MatrixLike
from skbnp.utils.validation import POSITIVE, check_counts, validated

WIDTH = 80


class Section(NamedTuple):
    """A group in an outline, or all topics that are groups by themselves."""

    group: int  # -1: topics by themselves
    listed: Ints  # rows, heaviest first
    left_out: Ints


def counted(number: int, noun: str, plural: str = "s") -> str:
    """Return a number with a noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else plural)


def fold(groups: "TopicGroups", n_lines: int) -> list[Section]:
    """Choose the sections of an outline of `n_lines` lines."""
    sizes = np.bincount(groups.labels[groups.labels >= 0], minlength=groups.n_groups)
    several = np.flatnonzero(sizes > 1)
    rows = {int(g): groups.members(int(g)) for g in several}
    alone = np.flatnonzero((groups.labels >= 0) & ~np.isin(groups.labels, several))
    if len(alone):
        rows[-1] = alone[largest(groups.topic_weights[alone], len(alone))]
    kept = list(rows)
    if 3 * len(kept) > n_lines:  # a heading, a topic and a line of lighter ones each
        kept = kept[: max((n_lines - 1) // 3, 1)]
        n_lines -= 1
    listed = {g: min(len(rows[g]), 3) for g in kept}

    def cost():
        sizes = ((n, len(rows[g])) for g, n in listed.items())
        return sum(1 + min(n + (n < size), size) for n, size in sizes)

    if cost() > n_lines:
        listed = dict.fromkeys(kept, 1)
    more = [(g, k) for g in kept for k in rows[g][listed[g] :]]
    for g, _ in sorted(more, key=lambda pair: -groups.topic_weights[pair[1]]):
        listed[g] += 1
        if cost() > n_lines:
            listed[g] -= 1
            break
    # A line that says that one topic is left out has room for it.
    ends = {g: n + (n == len(rows[g]) - 1) for g, n in listed.items()}
    return [Section(g, rows[g][:n], rows[g][n:]) for g, n in ends.items()]


class Line(NamedTuple):
    """A line of an outline."""

    start: str
    terms: Sequence[str] = ()
    group: int = -1  # -1: none
    topic: int = -1  # its row; -1: none
    level: int = 0  # 1: a heading, 2: below it


def outline(groups: "TopicGroups", sections: list[Section]) -> list[Line]:
    """List the lines of an outline: the message, groups, topics, what is left out."""
    lines = [Line(part) for part in textwrap.wrap(groups.message, WIDTH)]

    def weight(rows):
        return f"{100 * groups.topic_weights[rows].sum():.1f} %"

    lighter = groups.labels >= 0  # in groups that are left out
    for g, listed, left_out in sections:
        rows = [*listed, *left_out]
        lighter[rows] = False
        if not groups._is_one:
            start, terms = f"group {g}", groups.terms[g]
            if g < 0:
                start, terms = "by themselves", []
            lines.append(Line(f"{start}, {weight(rows)}", terms, g, level=1))
        lines += [Line("", groups.topic_terms[k], g, int(k), 2) for k in listed]
        if n := len(left_out):
            text = f"and {n:,} lighter, {weight(left_out)}"
            lines.append(Line(text, group=g, level=2))
    if n := len(np.unique(groups.labels[lighter])):
        text = f"and {counted(n, 'lighter group')}, {weight(lighter)}"
        lines.append(Line(text, level=1))
    return lines


def title(groups: "TopicGroups", group: int, weight: float) -> str:
    """Return a group in a line: its number, weight and terms."""
    start = f"group {group}, {100 * weight:.1f} %: "
    return joined(start, groups.terms[group])


def joined(start: str, terms: Sequence[str]) -> str:
    """Join as many terms as fit into a line."""
    line = start
    for i, term in enumerate(terms):
        more = f", {term}" if i else term
        if len(line) + len(more) > WIDTH:
            break
        line += more
    return line


#: What the probability of a term in a group counts where these are ranked, beside its
#: ratio to that in all: lambda of Sievert and Shirley, who take 0.6 for single topics.
RELEVANCE = 0.3


@dataclass(frozen=True, eq=False)
class TopicGroups:
    """Groups of topics, heaviest first.

    ``print(groups)`` shows an outline of about 20 lines.

    Parameters
    ----------
    labels : ndarray of int of shape (n_components,)
        Group of each row of `components_`, 0 the heaviest; -1 of topics that no
        document has tokens of.
    n_groups : int
        Number of groups; a topic that fits no other is one by itself.
    weights : ndarray of shape (n_groups,)
        Summed weights of the topics of each group.
    components : ndarray of shape (n_groups, n_features)
        Mean topic of each group, rows sum to 1.
    terms : list of list of str
        Terms of each mean topic, those that distinguish the group first.
    linkage : ndarray of shape (n_components - 1, 4)
        All merges, as :func:`scipy.cluster.hierarchy.dendrogram` takes them: topics
        within groups, then groups; topics of label -1 join last. Heights are those of
        `gains`, the largest at zero, and never fall.
    gains : ndarray of shape (n_components - 1,)
        What each merge gains, at the concentrations of the end, in nats per document.
    gain : float
        Log evidence less that of no groups, in nats per document; where topics were
        grouped by themselves, per term.
    concentrations : tuple of float
        Those of groups in documents and of topics in groups.
    message : str
        Why a result is not to be trusted as it is; else "".
    topic_weights : ndarray of shape (n_components,)
        Weights of topics: shares of tokens, of `X` where it was given.
    topic_ids : ndarray of int of shape (n_components,)
        Numbers of topics, as `component_ids_`.
    topic_terms : list of list of str
        Terms of each topic, those that tell it apart first.
    above : TopicGroups or None
        The next level, of fewer groups, which these are parts of.

    See Also
    --------
    TopicGroupsDisplay : The outline as a figure.
    """

    labels: Ints
    n_groups: int
    weights: Array
    components: Array
    terms: list[list[str]]
    linkage: Array
    gains: Array
    gain: float
    concentrations: tuple[float, float]
    message: str
    topic_weights: Array
    topic_ids: Ints
    topic_terms: list[list[str]]
    above: "TopicGroups | None" = None

    def members(self, group: int) -> Ints:
        """Return the rows of the topics of a group, heaviest first.

        Parameters
        ----------
        group : int
            Number of the group; -1 for topics without tokens.

        Returns
        -------
        rows : ndarray of int
            Rows of `components_`.
        """
        rows = np.flatnonzero(self.labels == group)
        return rows[largest(self.topic_weights[rows], len(rows))]

    @validated()
    def to_text(self, n_lines: int = 20) -> str:
        """Print groups with their topics below.

        Parameters
        ----------
        n_lines : int, default=20
            Lines at most, 4 or more, beside those of the message and of levels above;
            lighter topics, then lighter groups are left out.

        Returns
        -------
        text : str
            Lines of at most 80 characters; the message comes first.
        """
        lines, before = [], [-1] * len(self._levels)
        sections = fold(self, n_lines)
        sections.sort(key=lambda section: self._place(section.group))
        for line in outline(self, sections):
            here = self._place(line.group)[1:] if line.group >= 0 else before
            for level, group, last in zip(self._levels, here, before, strict=True):
                if group != last:
                    weight = f"{100 * level.weights[group]:.1f} %"
                    start = f"theme {group} of {level.n_groups}, {weight}: "
                    lines.append(joined(start, level.terms[group]))
            before = list(here)
            start = line.start + ": " * bool(line.terms)
            if line.topic >= 0:
                weight = 100 * self.topic_weights[line.topic]
                start = f"{self.topic_ids[line.topic]:5}  {weight:5.1f} %  "
                if line.group < 0:
                    for level in self._levels:
                        start += f"theme {level.labels[line.topic]}: "
            elif line.level == 2:
                start = " " * 16 + start
            lines.append(joined(start, line.terms))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()

    @property
    def _levels(self) -> "list[TopicGroups]":
        """Levels above, that of the fewest groups first."""
        return [*self.above._levels, self.above] if self.above is not None else []

    def _place(self, group: int) -> list[int]:
        """Where a group stands: those by themselves last, then groups above it."""
        if group < 0:
            return [1] + [0] * len(self._levels)
        topic = int(self.members(group)[0])
        return [0, *(int(level.labels[topic]) for level in self._levels)]

    @property
    def _is_one(self) -> bool:
        """Whether there is one group because documents are no evidence of more."""
        return self.n_groups == 1 and bool(self.message)


@validated(n_groups=[POSITIVE, "array-like", None])
def topic_groups(
    estimator: Any,
    X: Any = None,
    n_groups: int | Sequence[int] | None = None,
    *,
    doc_topic: MatrixLike | None = None,
    feature_names: ArrayLike | None = None,
    n_terms: int = 8,
) -> TopicGroups:
    """Group the topics of a flat fit: the outline of what there is to read.

    Topics that occur in the same documents belong together. Groups are those under
    which the expected counts of topics in documents have the most evidence, where the
    tokens of a document fall on groups, and those of a group on its topics, by a
    Dirichlet distribution each.

    Parameters
    ----------
    estimator : fitted topic model, Pipeline that ends in one, or array-like of shape \
            (n_components, n_features)
        Anything with non-negative `components_`, or topics as an array, also of other
        packages.
    X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
            default=None
        Documents, those of the fit or others: what `estimator.transform` takes. With
        `None`, and without `doc_topic`, topics are grouped by themselves, as words
        share them: each term counts as a document.
    n_groups : int or array-like of int, default=None
        Number of groups; `None` finds it by the evidence. Several numbers are levels:
        the largest is found by the evidence, and the groups of each other are merged
        from these, in the order of `linkage`, so that levels are nested.
    doc_topic : array-like or sparse of shape (n_samples, n_components), default=None
        Expected tokens of topics in documents, in the place of `X`; with `X`, shares
        of topics, instead of those of `transform`.
    feature_names : array-like of str of shape (n_features,), default=None
        As in :func:`top_terms`.
    n_terms : int, default=8
        Terms of each group and topic.

    Returns
    -------
    groups : TopicGroups
        Labels, weights, mean topics, merges; ``print(groups)`` shows an outline. Where
        the evidence is for no groups at all, all topics are in one, and its `message`
        says so.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If the model has a tree already, or components that are not topics.
    ValueError
        If there are no tokens, shapes disagree, there are fewer topics with tokens than
        `n_groups`, or topics are probabilities and there are no documents.

    See Also
    --------
    TopicGroupsDisplay : The outline as a figure.
    summary : Prints groups, too, where it is given documents.
    skbnp.NestedCRP : A tree of topics that is learned as one.

    Notes
    -----
    The start of the tree of [1]_, where a document mixes over a whole tree: two levels,
    with fixed counts of topics. Partitions are compared at concentrations
    with the most evidence each. Starting from average linkage by the correlation of
    topics' presence, single topics move as long as the evidence rises, which finds a
    local maximum; the same input gives the same groups. Groups are only reported if the
    evidence for them is larger than the logarithm of the number of such partitions.
    Time grows with documents' topics and with n_components squared: a second or two for
    500 topics and 3,000 documents. See :doc:`/derivations/topic_groups`.

    Terms of groups are ranked by relevance [2]_ with lambda = 0.3, which tells
    groups apart where 0.6 leaves words that all of them use.

    References
    ----------
    .. [1] John Paisley, Chong Wang, David M. Blei and Michael I. Jordan, "Nested
       Hierarchical Dirichlet Processes", IEEE Transactions on Pattern Analysis and
       Machine Intelligence 37(2), 2015.
    .. [2] Carson Sievert and Kenneth E. Shirley, "LDAvis: A Method for Visualizing and
       Interpreting Topics", Workshop on Interactive Language Learning, Visualization,
       and Interfaces, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from skbnp.inspection import topic_groups
    >>> rng = np.random.default_rng(0)
    >>> topics = rng.dirichlet(np.full(30, 0.1), size=6)
    >>> shares = np.zeros((200, 6))
    >>> shares[:100, :3] = rng.dirichlet([1, 1, 1], size=100)
    >>> shares[100:, 3:] = rng.dirichlet([1, 1, 1], size=100)
    >>> groups = topic_groups(topics, doc_topic=rng.poisson(50 * shares))
    >>> groups.n_groups, groups.labels
    (2, array([1, 1, 1, 0, 0, 0]))
    """
    model, X = read.fitted_model(estimator), read.documents_of(X)
    if hasattr(model, "tree_"):
        raise TypeError(
            f"estimator must be a flat model, {type(model).__name__} has a tree: "
            "TopicTreeDisplay draws it, `tree_.to_text` prints it."
        )
    distr = read.distributions(estimator)
    names = read.column_names(estimator, distr.shape[1], feature_names)
    counts, unit = _counts(estimator, model, X, doc_topic)
    tokens = np.asarray(counts.sum(axis=0)).ravel()
    used = np.flatnonzero(tokens)
    if len(used) == 0:
        raise ValueError("Documents must have tokens of the topics, got none.")
    numbers: list[Any] = [None] if n_groups is None else np.unique(n_groups).tolist()
    if n_groups is not None and not all(
        isinstance(of, int) and 1 <= of <= len(used) for of in numbers
    ):
        raise ValueError(
            f"n_groups must be at most {len(used)}, the number of topics with tokens, "
            f"and whole, got {n_groups}."
        )
    most = numbers[-1]
    counts = sp.csr_array(counts[:, used])
    result = group_topics(TopicCounts.of(counts[np.diff(counts.indptr) > 0]), most)
    weights = tokens / tokens.sum()
    if not read.is_array(estimator):
        weights = _terms.rank_topics(estimator, X if doc_topic is None else None).shares
    n_rows = int((np.diff(counts.indptr) > 0).sum())
    message = _message(result, n_rows, unit, most, len(tokens) - len(used))
    one = most is None and not result.is_worth_it
    n = len(tokens)
    tree = _with_unused(result.merges, used, n) * [1.0, 1.0, 1.0 / n_rows, 1.0]
    gains = np.append(result.gains, np.zeros(n - len(used))) / n_rows
    n_found = len(np.unique(result.labels))
    topic_terms = _terms.relevant_terms(estimator, names, n_terms)
    levels: list[TopicGroups] = []
    for number in numbers:
        is_last = number == most
        labels = result.labels * (not one) if is_last else cut(result.merges, number)
        labels, sums, means = _means_of(labels, weights[used], distr[used])
        whole = np.full(n, -1)
        whole[used] = labels
        overall = (sums / sums.sum() if sums.any() else np.ones_like(sums)) @ means
        columns = _terms.columns_by_relevance(means, overall, n_terms, RELEVANCE)
        lost = gains[len(used) - n_found : len(used) - len(sums)].sum()
        groups = TopicGroups(
            labels=whole,
            n_groups=len(sums),
            weights=sums,
            components=means,
            terms=[names[of].tolist() for of in columns],
            linkage=tree,
            gains=gains,
            gain=0.0 if one else result.gain / n_rows + float(lost) * (not is_last),
            concentrations=(result.outer, result.inner),
            message=message if is_last else "",
            topic_weights=weights,
            topic_ids=read.topic_numbers(model, n),
            topic_terms=topic_terms,
            above=levels[-1] if levels else None,
        )
        levels.append(groups)
    return levels[-1]


def _means_of(labels, weights, distr) -> tuple[Ints, Array, Array]:
    """Number groups by weight; return numbers, weights and mean topics.

    Ties are numbered by their first topics.
    """
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    order = np.lexsort([first, -np.bincount(labels, weights)])
    labels = np.argsort(order)[labels]
    sums = np.bincount(labels, weights).astype(np.float64)
    means = members(labels, len(sums)) @ (np.maximum(weights, 1e-300)[:, None] * distr)
    return labels, sums, means / means.sum(axis=1, keepdims=True)


def _counts(estimator, model, X, doc_topic) -> tuple[sp.csr_array, str]:
    """Return expected tokens of topics in documents, or in terms without these."""
    components = np.asarray(read.in_memory(model.components_), dtype=np.float64)
    n = len(components)
    if doc_topic is not None:
        given = check_counts(doc_topic, name="doc_topic", whom="topic_groups")
        if given.shape[1] != n:
            raise ValueError(
                f"doc_topic must have a column for each of {n} topics, got "
                f"{given.shape[1]}."
            )
        sums = np.asarray(given.sum(axis=1)).ravel()
        are_shares = np.abs(sums[sums > 0.0] - 1.0) < _terms.UNIT_TOL
        if X is None and len(are_shares) and are_shares.all():
            raise ValueError(
                "doc_topic must hold expected tokens of topics, but its rows sum to 1: "
                "give the documents, X, too, or multiply each row by the tokens of its "
                "document."
            )
        if X is not None:
            rows = read.model_rows(estimator, X)
            totals = check_counts(rows, whom="topic_groups").sum(axis=1)
            if len(totals) != len(sums):
                raise ValueError(
                    f"X and doc_topic must have equally many rows, got {len(totals)} "
                    f"and {len(sums)}."
                )
            scale = np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0.0)
            given = sp.csr_array(sp.diags_array(scale) @ given)
        return _without_traces(given), "document"
    if X is not None:
        rows, has_own = read.model_rows(estimator, X), hasattr(model, "transform")
        given = counts_of(model, rows) if has_own else _folded_in(components, rows)
        return _without_traces(given), "document"
    prior = getattr(model, "topic_word_prior_", 0.0)
    if components.sum(axis=1).max() < 1.0 + _terms.UNIT_TOL:
        raise ValueError(
            "Topics that are probabilities do not tell of how many tokens they are: "
            "give X or doc_topic, or multiply each topic by its tokens."
        )
    return _without_traces(sp.csr_array(np.maximum(components - prior, 0.0).T)), "term"


def counts_of(model, rows) -> Array:
    """Expected tokens of topics in documents by the model's own `transform`."""
    return _terms.doc_counts(model, rows, _terms.doc_shares(model, rows))[0]


def _folded_in(components, X) -> sp.csr_array:
    """Expected tokens of given topics in documents, with a prior of one token."""
    counts, n = check_counts(X, whom="topic_groups"), len(components)
    if counts.shape[1] != components.shape[1]:
        raise ValueError(
            f"X must have a column for each of {components.shape[1]} terms of the "
            f"topics, got {counts.shape[1]}."
        )
    prior = np.full(n, 1.0 / n)
    predictor = MixturePredictor.of_topics(components, prior)
    with Executor(None) as executor:
        return predictor.infer_counts(predictor.samples[0], counts, executor)


def _without_traces(counts: sp.csr_array) -> sp.csr_array:
    """Remove counts below half a token, in rows that have larger ones."""
    counts = sp.csr_array(counts, dtype=np.float64, copy=True)
    counts.sum_duplicates()
    rows = rows_of(counts.indptr)
    top = np.zeros(counts.shape[0])
    np.maximum.at(top, rows, counts.data)
    counts.data[counts.data < np.minimum(_terms.LEAST_TOKENS, top[rows])] = 0.0
    counts.eliminate_zeros()
    return counts


def _message(result: Grouping, n_rows, unit, n_groups, n_unused) -> str:
    """Return the text on missing evidence, and on topics without tokens."""
    noun = counted(n_rows, unit)
    parts = []
    if not result.is_worth_it:
        what = "any groups" if n_groups is None else f"these {n_groups} groups"
        text = f"The {noun} give no evidence for {what} of topics"
        if result.gain > 0.0:
            text += (
                f" (a log evidence of {result.gain:.1f}, where more than "
                f"{result.cost:.1f} is needed)"
            )
        is_flat = n_groups is not None and n_groups in (1, len(result.labels))
        if not is_flat:
            parts.append(text + ".")
        if n_groups is None:
            parts.append("All are in one group; more documents may show some.")
    if n_unused:
        noun = "topic has" if n_unused == 1 else "topics have"
        parts.append(f"{n_unused} {noun} no tokens, and label -1.")
    return " ".join(parts)


def _with_unused(tree: Array, used: Ints, n: int) -> Array:
    """Extend a linkage to rows of `components_`; topics without tokens join last."""
    m = len(used)
    names = np.concatenate([used, n + np.arange(max(m - 1, 0))])
    tree = tree.copy()
    tree[:, :2] = np.sort(names[tree[:, :2].astype(int)], axis=1)
    top, unused = tree[-1, 2] if len(tree) else 0.0, np.setdiff1d(np.arange(n), used)
    k = len(unused)
    partners = np.append(names[-1], n + m - 1 + np.arange(k))[:k]
    pairs, sizes = np.sort([unused, partners], axis=0), m + 1.0 + np.arange(k)
    return np.vstack([tree, np.column_stack([*pairs, np.full(k, top), sizes])])


#: In sizes of the type: a line, more above a heading, the indent of topics, the key.
LEADING, SPACE, INDENT, KEY = 1.5, 0.6, 1.5, 1.5
#: The least size of type, and the share of the width that merges have.
SMALLEST, SHARE = 5.0, 0.22
#: Largest width of merges on a page, in sizes of the type.
WIDEST = 12.0


@dataclass(kw_only=True, eq=False, repr=False)
class TopicGroupsDisplay(Display):
    """The topics of a flat fit in groups: what they are about, and how they merge.

    Best made with :meth:`from_estimator`. Each group has a colour, a line of the terms
    that tell it apart, and its heaviest topics below, with their numbers and weights.
    The tree on the left merges groups of several topics: the farther to the left, the
    less a merge gains. :func:`scipy.cluster.hierarchy.dendrogram` draws that of all
    topics, from the `linkage` of the groups.

    Parameters
    ----------
    groups : TopicGroups
        What :func:`topic_groups` returns.

    Attributes
    ----------
    texts_ : list of matplotlib Text
        The lines, from the top.
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.

    See Also
    --------
    topic_groups : The groups themselves; prints the same outline.
    TopicTreeDisplay : Draws models that are trees.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skbnp.inspection import TopicGroupsDisplay, topic_groups
    >>> rng = np.random.default_rng(0)
    >>> topics = rng.dirichlet(np.full(30, 0.1), size=6)
    >>> shares = np.zeros((200, 6))
    >>> shares[:100, :3] = rng.dirichlet([1, 1, 1], size=100)
    >>> shares[100:, 3:] = rng.dirichlet([1, 1, 1], size=100)
    >>> groups = topic_groups(topics, doc_topic=rng.poisson(50 * shares))
    >>> display = TopicGroupsDisplay(groups=groups).plot()
    >>> len(display.texts_)
    8
    >>> plt.show()
    """

    groups: TopicGroups

    @classmethod
    def from_estimator(
        cls, estimator, feature_names=None, *, X=None, n_groups=None, ax=None, **kwargs
    ) -> Self:
        """Group the topics of a fitted model and draw the groups.

        Parameters
        ----------
        estimator : fitted topic model, Pipeline that ends in one, or array-like
            As in :func:`topic_groups`.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        X : array-like or sparse of shape (n_samples, n_features), or iterable of str, \
                default=None
            Documents, as in :func:`topic_groups`.
        n_groups : int or array-like of int, default=None
            Number of groups, as in :func:`topic_groups`; levels are in the tree of
            merges.
        ax : matplotlib Axes, default=None
            Axes to draw in; type shrinks where they are too small for it. `None` makes
            a figure of fitting size.
        **kwargs : dict
            Handed to :meth:`plot`.

        Returns
        -------
        display : TopicGroupsDisplay
            The drawn display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        groups = topic_groups(estimator, X, n_groups, feature_names=feature_names)
        return cls(groups=groups).plot(ax, **kwargs)

    @validated()
    def plot(self, ax=None, *, n_lines=20) -> Self:
        """Draw the outline.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As in :meth:`from_estimator`.
        n_lines : int, default=20
            Lines at most, 4 or more; lighter topics, then lighter groups are left out.

        Returns
        -------
        display : TopicGroupsDisplay
            This object.
        """
        sections = fold(self.groups, n_lines)
        _, order = self._merges([section.group for section in sections])
        sections.sort(key=lambda section: [*order, -1].index(section.group))
        lines = outline(self.groups, sections)
        height = KEY + sum(LEADING + SPACE * (line.level == 1) for line in lines)
        self._begin(ax)
        size = FONT
        if ax is None:
            self._resize((MAX_WIDTH - 2 * MARGIN, height * FONT / 72))
        else:
            size = min(FONT, self._room()[1] / height)
        self._draw(lines, max(size, SMALLEST))
        return self

    def _draw(self, lines, size):
        """Draw the lines of the outline, and the tree of merges."""
        ax = self.ax_
        width = self._extent[0]
        left = min(SHARE * width, WIDEST * size)
        places: dict[int, tuple] = {}  # of groups: y of the first line and the last
        y, self.texts_ = 0.0, []
        colors: dict[int, str] = {-1: GREY}
        for line in lines:
            is_heading, n = line.level == 1, len(colors) - 1
            own = colors.setdefault(line.group, COLOURS[n % len(COLOURS)])
            y += SPACE * is_heading
            middle = y + LEADING / 2
            y += LEADING
            x = left + (0.5 if is_heading else 0.5 + INDENT) * size
            weight, color = "bold" if is_heading else "normal", own
            if not is_heading:
                color = "black" if line.terms else GREY
            texts = [line.start]
            if (k := line.topic) >= 0:
                share = 100 * self.groups.topic_weights[k]
                texts = [f"{self.groups.topic_ids[k]}, {share:.1f} %"]
            for i, term in enumerate(line.terms):
                texts.append(texts[-1] + (", " if i else ": ") + term)
            text = self._longest(texts, width - x, size, weight)
            style = {"color": color, "size": size, "weight": weight}
            self.texts_.append(self._write(x / width, middle, text, **style))
            if line.group >= 0:
                first = places.get(line.group, (middle,))[0]
                places[line.group] = first, middle, own
        ax.set_ylim(y + KEY, 0.0)
        self._draw_merges(places, left / width, size)

    def _merges(self, groups):
        """Return merges of drawn groups, (one, other, height), and their order.

        The members of a merge are lists of groups, the heavier first.
        """
        ends = {k: [g] for k, g in enumerate(self.groups.labels.tolist())}
        n, merges = len(ends), []
        for row, (first, other, height, _) in enumerate(self.groups.linkage):
            one, two = (ends.pop(int(i)) for i in (first, other))
            one, two = ([g for g in part if g in groups] for part in (one, two))
            if one and two and one != two:
                heavy = sorted(
                    (one, two), key=lambda part: -self.groups.weights[part].sum()
                )
                merges.append((*heavy, height))
                ends[n + row] = [*heavy[0], *heavy[1]]
            else:
                ends[n + row] = one or two
        return merges, ends[n + len(self.groups.linkage) - 1] if n > 1 else list(groups)

    def _draw_merges(self, places, share, size):
        """Draw the tree of merges of these groups, its root on the left."""
        ax, style = self.ax_, {"lw": 1.2 * size / FONT, "solid_joinstyle": "miter"}
        merges, _ = self._merges(list(places))
        top = max((height for *_, height in merges), default=0.0)
        ends = {(g,): (0.0, place[0]) for g, place in places.items()}
        for one, two, height in merges:
            (x0, y0), (x1, y1) = ends[tuple(one)], ends[tuple(two)]
            ax.plot([x0, height, height, x1], [y0, y0, y1, y1], color=GREY, **style)
            ends[tuple(one + two)] = height, (y0 + y1) / 2
        for middle, last, color in places.values():
            ax.plot([0.0, 0.0], [middle, last], color=color, **style)
        ax.set_axis_off()
        top = top or 1.0
        ax.set_xlim(1.04 * top, 1.04 * top - 1.04 * top / share)
        if merges:
            unit = 10.0 ** np.floor(np.log10(top))
            unit *= max(step for step in (1, 2, 5) if step * unit <= top)
            y = ax.get_ylim()[0] - LEADING / 2
            ax.plot([0.0, unit], [y, y], color=GREY, **style)
            noun = "nat" if unit == 1.0 else "nats"
            what = f"this length: {unit:g} {noun} of gain per document"
            self._write(
                share + 0.5 * size / self._extent[0], y, what, color=GREY, size=size
            )


# The path of a fit from its number of topics down to one.


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
        numbers of topics; 0 where the fit has no record of its documents, as on a
        cluster.
    n_best : int or None
        Of all numbers that trials of the fit compared (`n_components_gains_`), the one
        that predicted best; None if `min_gain` was 0.

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

    def to_frame(self) -> DataFrame:
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
        finite = coherence[np.isfinite(coherence)]
        result[place, 0] = document_completion_score(model, rows)
        result[place, 1] = finite.mean() if len(finite) else np.nan
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

    @validated(n=[POSITIVE, None])
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
        style = self._line_style(kwargs, len(at), color=COLOURS[0])
        (self.line_,) = ax.plot(at, values, **style)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        marks = [(len(path.component_ids), GREY, "in the fit")]
        if path.n_best not in (None, len(path.component_ids)):
            marks.append((path.n_best, COLOURS[2], "predict best (min_gain=0)"))
        if n is not None:
            path.labels(n)  # raises if there is no such number
            marks.append((n, COLOURS[1], "chosen"))
        self.marks_ = [
            ax.axvline(number, color=color, lw=1.2, ls="--", label=f"{number:,} {what}")
            for number, color, what in marks
        ]
        self._legend(self.marks_)
        self._finish(ax, xlabel="topics", ylabel=f"{label} ({unit})")
        return self
