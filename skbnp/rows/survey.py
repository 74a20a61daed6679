"""Survey of the counts of a corpus before learning: whether they are word counts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.arrays import rows_of
from skbnp.utils.typing import Array

#: Different documents from which a number of topics can be judged: the largest of six
#: starts and seeds is typically 3.4 times the smallest with 50, 1.9 times with 100.
ENOUGH_DOCS = 100
#: Rows of which columns are compared with labels and totals: fewer may be so by chance.
FEWEST_ROWS = 20
#: Rows whose values are examined, and values of these.
SAMPLE_ROWS, SAMPLE_VALUES = 2_000, 200_000
#: Share of the values that must fit, and how far a value may be from a whole number.
MOST, ROUNDING = 0.99, 1e-3
#: Relative range of the sums of shares, which may be rounded, and of what has been
#: transformed back.
SUM_RANGE, EXACT_SUM_RANGE = 1e-2, 1e-3
#: What undoes a transformation, and the name of the transformation.
#: (Equal sums of squares are rows of one length, not roots of shares.)
INVERSES: dict[str, tuple[Callable[[NDArray], NDArray], float]] = {
    "np.log1p(x)": (np.expm1, EXACT_SUM_RANGE),
    "np.log2(1 + x)": (lambda x: np.exp2(x) - 1.0, EXACT_SUM_RANGE),
    "np.log10(1 + x)": (lambda x: 10.0**x - 1.0, EXACT_SUM_RANGE),
    "1 + np.log(x)": (lambda x: np.exp(x - 1.0), EXACT_SUM_RANGE),
    "np.sqrt(x)": (np.square, 0.0),
}
#: Larger ones may be off by hundredths, if they went through single precision.
LARGEST_WHOLE = 1e4
#: Larger values are no logarithms of counts.
LARGEST_LOG = 25.0
#: Times that each value of a function of counts comes, on average, and denominators of
#: others that may come so often: of shared reads, and of rounded weights.
FEWEST_COPIES, SIMPLE, DECIMAL = 20, 60.0, 1_000.0
#: Share of the values beside units of their rows or columns that must fit: the least
#: of a row may be no single count.
MOST_SCALED = 0.8
#: What a value is of the count it was made from, its unit being that of a single one.
SCALED: dict[str, Callable[[NDArray], NDArray]] = {
    "np.log1p(x) and scales of rows or columns": lambda v: np.exp2(v) - 1.0,
    "1 + np.log(x) and scales of rows or columns": lambda v: np.exp(v - 1.0),
}
#: Values that vary less than this share of what counts of their mean would.
FLAT = 0.5
#: A column with so many of the tokens, and with so many times its even share.
HEAVY, EVEN_SHARES = 0.5, 10.0


class CountSurvey(NamedTuple):
    """Properties of documents, which `plus` combines over parts of a corpus."""

    n_docs: int
    n_tokens: float
    n_stored: int
    different: frozenset[float]  # keys of different documents, `ENOUGH_DOCS` at most
    #: Columns that number the rows or hold their totals; None: too few rows to decide.
    labels: frozenset[int] | None
    #: What the values are of counts: "", a transformation, or "flat"; None: no values.
    form: str | None

    @classmethod
    def of(cls, counts: sp.csr_array) -> "CountSurvey":
        """Survey canonical counts; documents without tokens are left out."""
        used = np.diff(counts.indptr) > 0
        n_given = counts.shape[0]
        counts = counts if used.all() else counts[used]
        return cls(
            counts.shape[0],
            float(counts.sum()),
            counts.nnz,
            _different(counts),
            _labels(counts),
            _form(counts, n_given),
        )

    def plus(self, other: "CountSurvey") -> "CountSurvey":
        """Combine the surveys of two parts of a corpus.

        Label columns are those of both parts; the form is "" if the parts differ.
        """
        labels, form = self.labels, self.form
        if labels is None or other.labels is None:
            labels = other.labels if labels is None else labels
        else:
            labels &= other.labels
        if form is None or other.form is None:
            form = other.form if form is None else form
        elif form != other.form:
            form = ""
        return CountSurvey(
            self.n_docs + other.n_docs,
            self.n_tokens + other.n_tokens,
            self.n_stored + other.n_stored,
            frozenset(sorted(self.different | other.different)[:ENOUGH_DOCS]),
            labels,
            form,
        )


class WordUses(NamedTuple):
    """Uses of each word, additive over documents."""

    counts: Array  # (n_features,) tokens
    n_docs: Array  # (n_features,) documents that have the word
    linked: Array  # (n_features,) tokens in documents of several words

    @classmethod
    def of(cls, counts: sp.csr_array) -> "WordUses":
        """Uses of the words of some documents."""
        n_words, sizes = counts.shape[1], np.diff(counts.indptr)
        has_others = np.repeat(sizes > 1, sizes)

        def sums(values: NDArray | None) -> Array:
            return np.bincount(counts.indices, values, n_words).astype(np.float64)

        return cls(sums(counts.data), sums(None), sums(counts.data * has_others))

    def plus(self, other: "WordUses") -> "WordUses":
        """Add the uses of words in other documents."""
        return WordUses(*(one + more for one, more in zip(self, other, strict=True)))

    @property
    def share_alone(self) -> float:
        """Share of the tokens that connect no two documents.

        They are of words of one document, or of documents of one word.
        """
        return 1.0 - self.linked[self.n_docs > 1].sum() / max(self.counts.sum(), 1e-300)


def heaviest_column(words: Array) -> tuple[int, float] | None:
    """Return a column with most of the tokens, and its share; None if there is none.

    In a text with stop words the most frequent one has 7 % of the tokens.
    """
    total, n_words = words.sum(), len(words)
    share = words.max() / total if total > 0.0 else 0.0
    is_heavy = share > max(HEAVY, EVEN_SHARES / n_words)
    return (int(words.argmax()), float(share)) if is_heavy else None


def _different(counts: sp.csr_array) -> frozenset[float]:
    """Keys of distinct documents."""
    weights = np.random.default_rng(0).random(counts.shape[1])
    keys: set[float] = set()
    begin, size = 0, 2 * ENOUGH_DOCS
    while begin < counts.shape[0] and len(keys) < ENOUGH_DOCS:
        rows = counts[begin : begin + size]
        keys.update(np.unique(rows @ weights).tolist())
        begin, size = begin + size, 4 * size
    return frozenset(sorted(keys)[:ENOUGH_DOCS])


def _labels(counts: sp.csr_array) -> frozenset[int] | None:
    """Columns of row numbers, time stamps and identifiers, or of the rows' totals."""
    n_rows, n_words = counts.shape
    if n_rows < FEWEST_ROWS or n_words < 2:
        return None
    stored = np.bincount(counts.indices, minlength=n_words)
    result = set()
    columns = np.flatnonzero(stored >= n_rows - 1)
    head = counts[:FEWEST_ROWS][:, columns].toarray()
    totals = np.asarray(counts.sum(axis=1)).ravel()
    ordered = np.sort(head, axis=0)
    may_be = (ordered[1:] > ordered[:-1]).all(axis=0)
    is_total = np.isclose(2.0 * head, totals[:FEWEST_ROWS, None], rtol=1e-9)
    may_be |= is_total.all(axis=0) & (np.diff(counts.indptr).mean() > 3.0)
    for column in columns[may_be].tolist():
        values = counts[:, [column]].toarray().ravel()
        if _are_labels(values) or np.allclose(2.0 * values, totals, rtol=1e-9):
            result.add(column)
    return frozenset(result)


def _are_labels(values: Array) -> bool:
    """Whether values label rows: in order, or all different."""
    if (np.diff(values) > 0.0).all() or (np.diff(values) < 0.0).all():
        return True
    if (values != np.rint(values)).any() or len(np.unique(values)) < len(values):
        return False
    # Were they drawn from so many numbers, none would come twice with probability
    # exp(-n^2 / 2 m), here of e^-20.
    return bool(len(values) ** 2 > 40.0 * (np.ptp(values) + 1.0))


@np.errstate(over="ignore")  # ratios of values; large ones are not examined
def _form(counts: sp.csr_array, n_given: int) -> str | None:
    """Name the form of values: counts, shares or multiples of these, or weights."""
    if counts.nnz == 0:
        return None
    if not (counts.data != np.rint(counts.data)).any():
        return ""
    some = _sample(counts)
    if _are_proportional(some, some.data, 0.0):
        return ""
    name = _transformation_of_counts(some, _idfs(counts, n_given))
    if name is not None:
        return name
    if _are_proportional(some, some.data, SUM_RANGE):
        return ""
    for name, (inverse, sum_range) in INVERSES.items():
        if name == "np.sqrt(x)" or some.data.max() < LARGEST_LOG:
            result = inverse(some.data)
            if result.min() > ROUNDING and _are_proportional(some, result, sum_range):
                return name
    if _are_repeated(some):
        return "some transformation"
    return "flat" if _are_flat(some) else ""


def _transformation_of_counts(some: sp.csr_array, idfs: list[NDArray]) -> str | None:
    """Name the form: counts, logarithms of them, in units by row or column, or tf-idf.

    Counts with units by column are weighted words, "". None: none of these.
    """
    rows = rows_of(some.indptr)
    result = [(some.data / idf[some.indices], rows, "tf-idf") for idf in idfs]
    result += [(some.data, some.indices, ""), (some.data, rows, "")]
    for values, groups, name in result:
        scaled = values / _least(values, groups)
        scaled = scaled[scaled > 1.0 + ROUNDING]
        if len(scaled) < max(FEWEST_ROWS, (1.0 - MOST) * len(values)):
            continue
        if _are_whole(scaled, MOST_SCALED):
            return name
        small = scaled[scaled < LARGEST_LOG]
        if len(small) < MOST * len(scaled):
            continue
        for transformed, inverse in SCALED.items():
            if _are_whole(inverse(small), MOST_SCALED):
                return transformed
    return None


def _idfs(counts: sp.csr_array, n_docs: int) -> list[NDArray]:
    """Weights of columns by scikit-learn's tf-idf of all documents, smoothed and not.

    Those without tokens are among its `n_docs`.
    """
    used = np.maximum(np.bincount(counts.indices, minlength=counts.shape[1]), 1)
    return [np.log((1 + n_docs) / (1 + used)) + 1.0, np.log(n_docs / used) + 1.0]


def _least(values: NDArray, groups: NDArray) -> NDArray:
    """Least value of the group of each entry, (n,)."""
    least = np.full(groups.max() + 1, np.inf)
    np.minimum.at(least, groups, values)
    return least[groups]


def _are_repeated(some: sp.csr_array) -> bool:
    """Whether values are a function of counts: few distinct ones, no simple fractions.

    And no multiples of whole numbers by columns, as of weighted words.
    """
    values = some.data
    if len(np.unique(values.round(6))) > len(values) / FEWEST_COPIES:
        return False
    least = np.full(some.shape[1], np.inf)
    np.minimum.at(least, some.indices, values)
    scaled = (SIMPLE * values, DECIMAL * values, values / least[some.indices])
    return not any(map(_are_whole, scaled))


def _sample(counts: sp.csr_array) -> sp.csr_array:
    """Evenly spaced rows, few enough to examine."""
    n_rows = counts.shape[0]
    n_some = int(min(SAMPLE_ROWS, 1 + SAMPLE_VALUES * n_rows / counts.nnz))
    if n_some >= n_rows:
        return counts
    return counts[np.linspace(0, n_rows - 1, n_some).astype(np.intp)]


def _are_proportional(some: sp.csr_array, values: Array, sum_range: float) -> bool:
    """Whether values are whole, or rows are multiples of whole numbers or shares.

    Shares are rows of equal sums. Rows of one value alone decide nothing.
    """
    if _are_whole(values):
        return True
    n_stored, begin = np.diff(some.indptr), some.indptr[:-1]
    sums = np.add.reduceat(values, begin)
    if len(sums) > 1 and np.ptp(sums) < sum_range * sums.mean():
        return True
    least, most = np.minimum.reduceat(values, begin), np.maximum.reduceat(values, begin)
    tells = np.repeat(most > (1.0 + ROUNDING) * least, n_stored)
    return bool(tells.any()) and _are_whole(
        (values / np.repeat(least, n_stored))[tells]
    )


def _are_whole(values: Array, most: float = MOST) -> bool:
    """Whether values are whole numbers; large ones are too inexact to decide."""
    some = values[values < LARGEST_WHOLE]
    if len(some) < len(values) / 2:
        return False
    slack = ROUNDING * np.maximum(1.0, 1e-3 * some)
    is_whole = (np.abs(some - np.rint(some)) <= slack) & (some > 0.5)
    return bool(is_whole.mean() >= most)


def _are_flat(some: sp.csr_array) -> bool:
    """Whether columns vary much less than Poisson counts of their means."""
    n_rows = some.shape[0]
    if n_rows < FEWEST_ROWS:
        return False
    sums = np.asarray(some.sum(axis=0)).ravel()
    squares = np.bincount(some.indices, some.data**2, minlength=some.shape[1])
    variance = (squares - sums**2 / n_rows).sum() / (n_rows - 1)
    # Rows of a fixed sum would vary less by the sum of the squares of their shares.
    mean = sums.sum() / n_rows
    expected = mean * (1.0 - np.square(sums / sums.sum()).sum())
    return bool(variance < FLAT * expected)
