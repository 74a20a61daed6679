"""Survey of the counts of a corpus before learning: whether they are word counts."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.arrays import rows_of
from skbnp.utils.random import splitmix64
from skbnp.utils.typing import Array, Ints

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
    scaled = values / _least(values, some.indices)
    return not any(map(_are_whole, (SIMPLE * values, DECIMAL * values, scaled)))


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


# Units of counts, and rows that hold much of all tokens: how much each row may weigh.
#
# What a row tells of the structure of a corpus grows with its tokens. Rows in which
# each token counts several times (counts per million, counts times a constant) are
# divided by the value of one token. A row that is much longer than all others, whose
# words of its own would remain divided among many topics, is thinned to twice their
# mean length.


#: Value of a token in the median row from which rows are divided.
LARGEST_UNIT = 2.0
#: Share of rows that must be multiples of a unit.
MOST_ROWS = 0.8
#: The least value of a row is at most so many tokens.
MOST_LEAST = 60
#: Values, besides the least, that show the unit of a row of rounded values.
FEWEST_VALUES = 6
#: Sum of percentages.
PERCENT = 100.0
#: Equal sums that are no numbers of tokens, if values are no whole numbers.
LARGE_SUM = 1_000.0
#: An outlying row is so many times as long as the mean, outlying rows counted as the
#: longest that is none, and has such a share of all tokens. Of 13 corpora the longest
#: are 2.5 to 7.7 times the mean; those above 5 times have a share of 0.4 % at most.
OUTLYING, OUTLYING_SHARE = 5.0, 0.01
#: It is longer than twice the longest usual one: many long rows are usual, more than
#: this share of the rows, and than so many. Outlying rows are thinned to twice the mean
#: of the others, or to the longest usual one. (Planted: with 3 times the mean 5 topics
#: become 9 or 11 in some fits, with 1 and 2 times alike.)
TWICE, USUAL_SHARE, FEWEST_LONG = 2.0, 0.05, 3
#: Rows that can be outlying, given that share; and rows of a chunk whose mean counts.
MOST_OUTLYING, FEWEST_OF_CHUNK = 100, 5


class Outlying(NamedTuple):
    """Rows that are much longer than all others."""

    rows: Ints  # the longest first
    shares: Array  # of all tokens
    length: float  # tokens that each is thinned to


def units_of(counts: sp.csr_array) -> Array | None:
    """Value of one token in each row, (n_rows,); None if it is one, or not known.

    One unit for all rows if all values are multiples of it. Otherwise that of a row is
    its least value, or a simple fraction of this, of which its values are multiples.
    """
    values, (row, least, sums) = counts.data, _by_row(counts)
    if len(least) < FEWEST_ROWS or counts.nnz < 2 * FEWEST_ROWS:
        return None
    if np.median(least) < LARGEST_UNIT:
        return None
    have_equal_sums = np.ptp(sums) < SUM_RANGE * sums.mean()
    if have_equal_sums and sums.mean() < (1.0 + SUM_RANGE) * PERCENT:
        return None
    units = np.ones(counts.shape[0])
    is_whole = not (values != np.rint(values)).any()
    unit = float(least.min())
    if is_whole and values.max() < 2.0**53:
        unit = float(np.gcd.reduce(values.astype(np.int64)))
    ratios = values / unit  # large ones are as exact as single precision
    slack = ROUNDING * np.maximum(1.0, ROUNDING * ratios)
    if unit >= LARGEST_UNIT and (np.abs(ratios - np.rint(ratios)) <= slack).all():
        units[:] = unit
        return units
    of_rows = _units_of_rows(values, row, least, is_whole and have_equal_sums)
    if of_rows is None or np.median(of_rows) < LARGEST_UNIT:
        return None
    units[np.diff(counts.indptr) > 0] = of_rows
    return units


def _by_row(counts: sp.csr_array) -> tuple[Ints, Array, Array]:
    """Row of each value, of those that have some; least value and sum of each row."""
    begin = counts.indptr[:-1][np.diff(counts.indptr) > 0]
    least = np.minimum.reduceat(counts.data, begin)
    row = rows_of(np.append(begin, counts.nnz))
    return row, least, np.add.reduceat(counts.data, begin)


def _units_of_rows(
    values: Array, row: Ints, least: Array, are_rounded: bool
) -> Array | None:
    """Unit of each row with values; None if the values of many rows have none.

    `row` is that of each value. Values may have been `are_rounded` to whole numbers.
    """
    n_rows = len(least)
    units, open_ = np.full(n_rows, np.nan), np.ones(n_rows, bool)
    ratios = values / least[row]
    decides = np.bincount(row, ratios > 1.0 + ROUNDING, n_rows) > 0
    open_ &= decides
    for times in range(1, MOST_LEAST + 1):
        some = open_[row]
        if not some.any():
            break
        at, scaled = row[some], times * ratios[some]
        slack = ROUNDING * np.maximum(1.0, ROUNDING * scaled)
        if are_rounded:
            slack += 0.51 * (times / least[at]) * (1.0 + ratios[some])
        shows = (slack < 0.05) & (ratios[some] > 1.0 + ROUNDING)
        off = shows & (np.abs(scaled - np.rint(scaled)) > slack)
        fewest = FEWEST_VALUES if are_rounded else 1
        fits = np.bincount(at, shows, n_rows) >= fewest
        fits &= np.bincount(at, off, n_rows) == 0
        fits &= open_
        units[fits] = least[fits] / times
        open_ &= ~fits
    # A row of equal values may be of one token each, or of that many.
    if 2 * decides.sum() < n_rows or open_.sum() > (1.0 - MOST_ROWS) * decides.sum():
        return None
    if np.nanmedian(units) < LARGEST_UNIT:
        return None
    units[~decides] = least[~decides]  # equal values are of one token each
    units[open_] = np.nanmedian(units)
    return units


def _are_shares(counts: sp.csr_array) -> bool:
    """Whether rows are shares times a large constant, of which nothing tells the unit.

    All rows have one sum then, and values are no multiples of whole numbers.
    """
    row, least, sums = _by_row(counts)
    if len(sums) < FEWEST_ROWS or np.ptp(sums) > SUM_RANGE * sums.mean():
        return False
    if sums.mean() < LARGE_SUM or not (counts.data != np.rint(counts.data)).any():
        return False
    return _units_of_rows(counts.data, row, least, are_rounded=False) is None


class Scales(NamedTuple):
    """Scales of rows, which `plus` combines over parts of a corpus."""

    n_rows: int
    n_docs: int  # with tokens
    n_tokens: float  # once rows are divided by their units
    longest: tuple[tuple[float, int], ...]  # tokens and row, the longest first
    #: Value of one token in the median row; None: too few rows to decide.
    unit: float | None
    #: Sum of each row if it is one constant that is no number of tokens; else 0.
    row_sum: float | None

    @classmethod
    def of(cls, counts: sp.csr_array) -> "Scales":
        """Scales of rows, divided by their units."""
        return scaled(counts)[1]

    def plus(self, other: "Scales") -> "Scales":
        """Combine the scales of two parts of a corpus, the second one below."""
        below = [(length, self.n_rows + row) for length, row in other.longest]
        longest = sorted([*self.longest, *below], key=lambda pair: (-pair[0], pair[1]))
        units = [one.unit for one in (self, other) if one.unit is not None]
        sums = [one.row_sum for one in (self, other) if one.row_sum is not None]
        is_one = bool(sums) and max(sums) - min(sums) <= SUM_RANGE * max(sums)
        return Scales(
            self.n_rows + other.n_rows,
            self.n_docs + other.n_docs,
            self.n_tokens + other.n_tokens,
            tuple(longest[:MOST_OUTLYING]),
            min(units) if units else None,
            (sums[0] if is_one else 0.0) if sums else None,
        )

    def outlying(self, n_before: float = 0.0) -> Outlying | None:
        """Rows that hold an outlying share of all tokens, or None.

        `n_before` documents of a stream came before, as if these had the mean length
        of the rows that are not outlying.
        """
        n_all = self.n_docs + n_before
        if n_all < FEWEST_ROWS or self.n_docs < FEWEST_OF_CHUNK:
            return None
        lengths = np.array([length for length, _ in self.longest])
        place = max(FEWEST_LONG, int(USUAL_SHARE * self.n_docs))
        usual = lengths[min(place, len(lengths) - 1)]
        number = np.arange(1, min(len(lengths), self.n_docs - 1) + 1)
        lengths = lengths[: len(number)]
        share = max(OUTLYING / n_all, OUTLYING_SHARE)
        # m rows count as c = share (rest + m c): the longest that is not outlying.
        mean = (self.n_tokens - np.cumsum(lengths)) / (self.n_docs - number)
        left = np.maximum(1.0 - share * number, 1e-9)
        is_longer = left * lengths > share * mean * (n_all - number)
        is_longer &= lengths > TWICE * usual
        n_outlying = int(np.cumprod(is_longer).sum())
        if n_outlying == 0:
            return None
        rows = np.array([row for _, row in self.longest[:n_outlying]])
        shares = lengths[:n_outlying] / self.n_tokens
        length = max(TWICE * mean[n_outlying - 1], usual)
        return Outlying(rows, shares, float(length))


def scaled(counts: sp.csr_array) -> tuple[sp.csr_array, Scales]:
    """Return counts of single tokens, and the scales of rows."""
    units, has_rows = units_of(counts), counts.shape[0] >= FEWEST_ROWS
    unit, row_sum = (1.0, 0.0) if has_rows else (None, None)
    if units is not None:
        counts = divided(counts, units)
        unit = float(np.median(units[np.diff(counts.indptr) > 0]))
    elif has_rows and _are_shares(counts):
        row_sum = float(counts.sum()) / int((np.diff(counts.indptr) > 0).sum())
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    order = np.argsort(-lengths, kind="stable")[:MOST_OUTLYING]
    return counts, Scales(
        counts.shape[0],
        int((lengths > 0.0).sum()),
        float(lengths.sum()),
        tuple(zip(lengths[order].tolist(), order.tolist(), strict=True)),
        unit,
        row_sum,
    )


def divided(counts: sp.csr_array, units: Array) -> sp.csr_array:
    """Divide rows by their units; whole numbers of tokens become exactly whole."""
    values = counts.data / np.repeat(units, np.diff(counts.indptr))
    whole = np.maximum(np.rint(values), 1.0)
    # Rounded values are off by half a unit of theirs.
    near = np.abs(values - whole) <= 0.05
    values = np.where(near, whole, values)
    return sp.csr_array((values, counts.indices, counts.indptr), counts.shape)


def thinned(counts: sp.csr_array, outlying: Outlying) -> sp.csr_array:
    """Thin rows evenly over their tokens; whole counts remain whole."""
    values = counts.data.copy()
    for row in outlying.rows.tolist():
        part = slice(counts.indptr[row], counts.indptr[row + 1])
        given = values[part]
        scaled = given * (outlying.length / given.sum())
        if not (given != np.rint(given)).any():
            scaled = np.diff(np.floor(np.cumsum(scaled) + 0.5), prepend=0.0)
        values[part] = scaled
    result = sp.csr_array(
        (values, counts.indices.copy(), counts.indptr.copy()), counts.shape
    )
    result.eliminate_zeros()
    return result


# Digests of the rows that a model has learned from, by which it knows them again.


Hashes = NDArray[np.uint64]

#: Hashes that are kept: those of all rows or, of more rows, the smallest.
MOST_HASHES = 4096


def hashes_of(counts: sp.csr_array) -> Hashes:
    """Hashes of the rows that have entries, whatever the order of these, (n,)."""
    columns = counts.indices.astype(np.uint64)
    values = np.asarray(counts.data, np.float64) + 0.0
    mixed = splitmix64(splitmix64(columns) + values.view(np.uint64))
    rows = counts.indptr[:-1][np.diff(counts.indptr) > 0]
    return splitmix64(np.add.reduceat(mixed, rows)) if len(rows) else mixed


def joined(hashes: Hashes, more: Hashes) -> Hashes:
    """Return the digest of the rows of both, the smallest hashes in order."""
    return np.union1d(hashes, more)[:MOST_HASHES]


def share_known(digest: Hashes, counts: sp.csr_array) -> float:
    """Share of the rows with entries that a digest has; 0 if it cannot tell."""
    hashes = hashes_of(counts)
    if len(digest) == MOST_HASHES:
        hashes = hashes[hashes <= digest[-1]]
    return float(np.isin(hashes, digest).mean()) if len(hashes) else 0.0
