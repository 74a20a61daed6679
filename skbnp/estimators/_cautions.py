"""Warnings of a fit about its rows, and about what it has learned."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from skbnp.distributions import bessel_ratio
from skbnp.models.hdp.held_out import MOST_SAMPLED
from skbnp.rows import survey as surveys
from skbnp.utils.warnings import warn_caller

#: Topics for each document. Of 100 to 300 documents, planted topics are at most a
#: quarter of these, and topics of text that is too little are three quarters.
MOST_SHARE = 0.5
#: Numbers of topics that predict equally well, the largest by the smallest.
MOST_SPREAD = 2.0
#: Tokens of a document, on average, that say enough however small each weight is:
#: half of what percentages sum to.
SHORT = 50.0
#: Share of tokens that may connect no two documents: of 300 titles with all their words
#: it is .36, of 2,000 .17, of 300 paragraphs .14.
#: Of the first 20 documents of a stream it may be half.
MOST_ALONE, MOST_ALONE_IN_CHUNK = 0.5, 0.9


def warn_if_few_documents(survey: surveys.CountSurvey, n_enough: int) -> None:
    """Warn of a fit to too few documents to learn topics, or their number.

    `n_enough` distinct documents suffice for the number; 0 if it is not learned.
    """
    if survey.n_docs < 2:
        what = "no token" if survey.n_docs == 0 else "one document with tokens"
        warn_caller(f"X has {what}: the topics of this fit say nothing.")
    elif len(survey.different) < n_enough:
        n_different = len(survey.different)
        warn_caller(
            f"X has few documents, {n_different} different ones (copies count once): "
            f"fewer than {n_enough} do not tell how many topics there are, which then "
            "follows from the start, random_state and priors. Fit more documents (long "
            "ones by paragraphs), or choose the number: "
            f"HDP(n_components={max(2, n_different // 10)}, split_merge=False).",
            ConvergenceWarning,
        )


def warn_if_many_topics(n_topics: int, n_docs: float) -> None:
    """Warn of more topics than half the documents.

    `fit` warns before of few documents.
    """
    if n_docs >= surveys.ENOUGH_DOCS and n_topics > MOST_SHARE * n_docs:
        warn_caller(
            f"X has few documents for its vocabulary: {n_topics} topics were learned "
            f"from {n_docs:g}, so that most are of one document or two. Fit more "
            "documents, leave out rare words (CountVectorizer(min_df=5)), or choose "
            "the number: HDP(n_components=20, split_merge=False).",
            ConvergenceWarning,
        )


def warn_if_first_documents_are_few(n_topics: int, n_docs: int, n_enough: int) -> None:
    """Warn if the first call of a stream has too few documents for a number."""
    if n_docs < n_enough:
        warn_caller(
            f"A stream that begins with {n_docs} documents cannot tell how many topics "
            f"there are: it begins with {n_topics}, and tries more at each doubling. "
            f"Pass {n_enough} documents or more in the first call.",
            ConvergenceWarning,
        )


def warn_if_total_is_ignored(total_samples: float | None) -> None:
    """Warn of a number of documents of a stream that learning does not read."""
    if total_samples is not None:
        warn_caller(
            f"total_samples={total_samples:g} has no effect: documents that the stream "
            "keeps judge its topics, and choose priors for the documents so far. Leave "
            "it out, or set split_merge=False."
        )


def warn_if_unsure(
    n_topics: int, numbers: tuple[int, int] | None, n_docs: float
) -> None:
    """Warn of documents by which very different numbers of topics predict equally well.

    Or of one topic, because no others predict clearly better.
    """
    low, high = numbers or (1, 1)
    if n_docs >= surveys.ENOUGH_DOCS and n_topics == 1:
        warn_caller(
            f"X has few documents, {n_docs:g}, or short ones: several topics do not "
            "predict held-out documents clearly better than word frequencies do, so "
            "that one topic is left. Fit more or longer documents, or choose the "
            "number: HDP(n_components=20, split_merge=False).",
            ConvergenceWarning,
        )
    elif n_docs >= surveys.ENOUGH_DOCS and high > MOST_SPREAD * low:
        warn_caller(
            f"X has few documents, {n_docs:g}, or short ones, which do not tell how "
            f"many topics there are: {low} to {high} predict held-out documents "
            "equally well, within one standard error (n_components_range_). Fit more "
            "documents, or choose the number: HDP(n_components=20, split_merge=False).",
            ConvergenceWarning,
        )


def warn_if_one_topic(n_docs: float) -> None:
    """Warn of one topic where documents are many, so that others could be expected."""
    warn_caller(
        f"One topic is left of {n_docs:g} documents: several do not predict held-out "
        "documents clearly better than word frequencies do. If you expect others, "
        "choose the number: HDP(n_components=20, split_merge=False). Short documents "
        f"of more than {MOST_SAMPLED:,} tokens in all may show topics that start from "
        "a sampler: init=GibbsHDP(max_iter=200).fit(X).",
        ConvergenceWarning,
    )


def warn_if_empty_topics(n_empty: int, n_topics: int) -> None:
    """Warn of a number of topics, chosen by the user, that documents do not fill.

    Topics of less than a token are the prior of words: all alike.
    """
    if n_empty > 1:
        warn_caller(
            f"{n_empty} of {n_topics} topics have less than one token and are equal: "
            f"the documents fill {n_topics - n_empty}. Fit with "
            f"n_components={max(n_topics - n_empty, 1)}, or with split_merge=True, "
            "which finds the number.",
            ConvergenceWarning,
        )


def warn_of_values(survey: surveys.CountSurvey, *, are_rounded: bool) -> None:
    """Warn of values other than counts, which change the topics.

    If they are rounded, the rounding warns of small weights itself.
    """
    mean = survey.n_tokens / max(survey.n_stored, 1)
    length = survey.n_tokens / max(survey.n_docs, 1)
    is_small = survey.n_stored > 0 and mean < 1.0 and length < SHORT
    is_tf_idf = is_small and survey.form == "tf-idf"
    if survey.form not in ("", "flat", None) and not is_tf_idf:
        warn_caller(
            f"The values in X are counts x, or shares of them, that went through "
            f"{survey.form}: sums of such values mean nothing, and topics may come "
            "out too many. Give the counts themselves (percentages will do, too)."
        )
    elif is_small and not are_rounded:
        warn_caller(
            f"The weights in X are {mean:.2g} on average, as of tf-idf or of shares, "
            "but stand for tokens: a document of small weights tells little of its "
            "topics. Use counts (CountVectorizer), or percentages of shares."
        )
    elif survey.form == "flat":
        warn_caller(
            f"The values in X, {mean:.3g} on average, are no whole numbers, and vary "
            "less than half as much as counts would, as measurements or logarithms do: "
            "topics would tell rows apart that differ by noise. Give counts; "
            "HierarchicalComponentAnalysis takes measurements."
        )


def warn_of_scales(
    scales: surveys.Scales, n_before: float = 0.0, *, is_mended: bool = True
) -> None:
    """Warn of rows in which tokens count several times, and of outlying rows.

    `n_before` documents of a stream came before; `is_mended` is whether such rows are
    divided and thinned.
    """
    unit = scales.unit or 1.0
    if unit > 1.0:
        learned = (
            "Rows were divided by what one token counts for in them, as topics would "
            "come out too many; score and transform take values as they are."
            if is_mended
            else "Topics may come out too many."
        )
        warn_caller(
            f"The values in X are multiples of counts: one token counts {unit:.3g} "
            "times in the median row, as where rows are scaled to counts per million. "
            f"{learned} Give the counts themselves."
        )
    elif scales.row_sum:
        warn_caller(
            f"All rows of X sum to {scales.row_sum:.4g}, and values are no multiples "
            "of whole numbers: each row counts as so many tokens, on whatever scale "
            "it was measured, so that topics may come out too many. Give the counts "
            "themselves, or percentages: 100 * X / X.sum(axis=1, keepdims=True)."
        )
    outlying = scales.outlying(n_before)
    if outlying is not None:
        row, share = int(outlying.rows[0]), outlying.shares[0]
        more = len(outlying.rows) - 1
        others = f" ({more} more rows are as long)" if more else ""
        learned = (
            f"In learning each counts as {outlying.length:.0f} tokens, twice the mean "
            "of the others, as their own words would be divided among many topics."
            if is_mended
            else "Their own words may be divided among many topics."
        )
        warn_caller(
            f"Row {row} of X holds {share:.1%} of all tokens{others}, so that one "
            f"document would decide what topics there are. {learned} Thin long rows or "
            "divide them into parts, or leave them out of fit and transform them then."
        )


def warn_of_columns(
    survey: surveys.CountSurvey,
    words: surveys.WordUses,
    names: Sequence[str] | None,
    *,
    in_fit: bool,
) -> None:
    """Warn of columns that are not words: row numbers, totals, nearly all tokens.

    And of columns that connect no two documents.
    """
    counts = words.counts
    for column in sorted(survey.labels or ()):
        share = counts[column] / counts.sum()
        warn_caller(
            f"{_name(column, names)} of X numbers the rows, or holds their totals, and "
            f"counts as {share:.0%} of all tokens. Leave it out."
        )
    heavy = None if survey.labels else surveys.heaviest_column(counts)
    if heavy is not None and survey.n_docs > 1:
        column, share = heavy
        warn_caller(
            f"{_name(column, names)} of X holds {share:.0%} of all tokens: topics are "
            "of this column. Leave it out if it is a number of the row or a total, or "
            "a word that all rows have."
        )
    share = words.share_alone
    most = MOST_ALONE if in_fit else MOST_ALONE_IN_CHUNK
    if share > most and survey.n_docs >= surveys.FEWEST_ROWS:
        warn_caller(
            f"{share:.0%} of the tokens in X connect no two documents: their columns "
            "occur in one document alone, or are all that the document has, so that "
            "topics cannot be learned from them. Divide texts into words "
            '(CountVectorizer\'s tokenizer; analyzer="char", ngram_range=(2, 3) for '
            "texts without spaces), leave out identifiers, and rare words by min_df=2."
        )


def _name(column: int, names: Sequence[str] | None) -> str:
    return f"Column {column}" if names is None else f"Column {names[column]!r}"


# Learned concentrations that describe single rows, not topics -------------------------
#
# A von Mises-Fisher density is unbounded: equal rows let the concentration grow without
# limit, and nodes of one row each. Rows of few features lie on a lattice: nodes of rows
# that share nearly all of these predict best, and are many. Neither can be seen from
# the bound, which rises.

#: Share of rows that are copies of others from which these make the concentration.
MOST_COPIES = 0.05
#: Features of a row, in the median, up to which rows are short, and as a share of all.
FEW_FEATURES, SPARSE = 15, 1 / 3
#: Cosine of rows and their nodes above which short rows share nearly all features. Of
#: titles it is 0.4 to 0.5, of abstracts 0.4.
NEAR = 0.65
#: Nodes, as a multiple of the square root of the number of rows, that are many.
MANY = 1.5
#: Concentration near the largest that is learned.
LARGEST = 1e8


def share_of_copies(rows: sp.csr_array) -> float:
    """Share of the rows of length one that are copies of other rows."""
    n_rows, n_features = rows.shape
    rng = np.random.default_rng(0)
    places = rows @ rng.standard_normal((n_features, 2))
    return 1.0 - len(np.unique(np.round(places, 5), axis=0)) / max(n_rows, 1)


def warn_of_narrow_nodes(
    rows: sp.csr_array | None, n_features: int, n_nodes: int, concentration: float
) -> None:
    """Warn if a learned concentration is due to equal or short rows.

    `rows` have length one, or zero; None if they are elsewhere.
    """
    copies, is_short = 0.0, False
    if rows is not None:
        sizes = np.diff(rows.indptr)
        rows, sizes = rows[sizes > 0], sizes[sizes > 0]
        copies = share_of_copies(rows)
        size = float(np.median(sizes)) if len(sizes) else np.inf
        is_short = size <= min(FEW_FEATURES, SPARSE * n_features)
        is_short &= bool(bessel_ratio(concentration, n_features) > NEAR)
        is_short &= n_nodes > MANY * np.sqrt(len(sizes))
    learned = f"vmf_concentration={concentration:.3g} was learned"
    if copies >= MOST_COPIES or concentration >= LARGEST:
        share = f"{copies:.0%} of the rows of X are" if copies else "rows of X may be"
        warn_caller(
            f"{learned} while {share} copies of others, which make it larger: nodes "
            f"({n_nodes}) may be single rows. Drop duplicates, or set "
            "vmf_concentration."
        )
    elif is_short:
        warn_caller(
            f"{learned} from rows of {size:.0f} features in the median: rows of a node "
            f"share nearly all of them, and there are {n_nodes} nodes. For fewer and "
            f"wider topics set vmf_concentration={concentration / 4:.2g} or so."
        )
