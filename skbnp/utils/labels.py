"""Labels of rows, of time or of groups: their types, their order, their rows.

Labels of any form are converted to numbers, texts or dates of NumPy, which files can
contain. Periods and intervals become their texts.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skbnp.utils.typing import Array, Ints
from skbnp.utils.warnings import warn_caller

#: A number, a text or a date of NumPy; those of all rows are of one kind.
Label = Any
#: All labels in the order that an ordered Categorical has, or None for that of values.
Order = tuple[Label, ...] | None

#: In the place of the number of a label: there is none, or one that is not known.
MISSING, NEW = -1, -2
#: Rows below which epochs are too small: with three in each of 12 epochs two topics
#: without a common word, four, and ten planted ones were taken for fewer in some draw;
#: with four, two topics were distinguished in all.
LEAST_ROWS = 4
#: Labels that a message lists at most.
N_SHOWN = 5
#: Days of a year, the unit of dates on a scale.
YEAR = 365.25

_DIGITS = re.compile(r"(\d{1,300})")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
_VERSION = re.compile(r"\d+\.\d+")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
#: Numbers of eight digits, which may end in a year, and those that begin with one.
_EIGHT, _EARLY_YEAR = re.compile(r"\d{8}"), re.compile(r"(1[5-9]|20)\d{6}")


@dataclass(frozen=True, slots=True)
class RowLabels:
    """Labels of rows, checked.

    Attributes
    ----------
    distinct : list of labels
        Distinct labels, in order.
    codes : ndarray of int of shape (n_rows,)
        Place in `distinct` of the label of each row.
    order : tuple of labels or None
        Order of more labels, those of an ordered Categorical; None where the values
        of labels order them.
    scale : ndarray of shape (n_distinct,) or None
        Numbers of distinct labels, of dates and of the starts of periods in years since
        1970; None if labels are of another kind, or not in the order of their numbers.
    """

    distinct: list[Label]
    codes: Ints
    order: Order = None
    scale: Array | None = None

    def values(self) -> NDArray:
        """Return the label of each row."""
        return np.asarray(self.distinct)[self.codes]

    def rows(self) -> list[Ints]:
        """Return the numbers of the rows of each label."""
        turns = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.distinct)))
        return np.split(turns, ends[:-1])


def check_labels(
    value: ArrayLike, n_rows: int | None, name: str = "epochs", unit: str = "row"
) -> RowLabels:
    """Check labels, one for each row; of epochs, or one for all.

    Parameters
    ----------
    value : array-like of shape (n_rows,) or (n_rows, 1), or scalar
        Numbers, texts, dates, periods or intervals, all of one kind, of Python, NumPy,
        pandas, polars or Dask. An ordered Categorical has the order of its categories.
    n_rows : int or None
        Rows that must have a label; None takes any number.
    name : str
        The parameter, for messages. Only "epochs" may be one label for all rows.
    unit : str
        What a row is, for messages.

    Returns
    -------
    labels : RowLabels
        Numbers are in their order, texts in that of the numbers in them.

    Raises
    ------
    ValueError
        If labels are missing, infinite, of several kinds, or not one for each row.
    """
    values, categories = _values_of(value, name)
    may_be_one = name == "epochs"
    if values.ndim == 0 and may_be_one and n_rows is not None:
        values = np.full(n_rows, values)
    if values.ndim != 1 or (n_rows is not None and len(values) != n_rows):
        each = f"each {unit}" if n_rows is None else f"each of {n_rows} {unit}s"
        raise ValueError(
            f"{name} must {'be one label, or ' if may_be_one else ''}have a label for "
            f"{each}, got "
            f"{len(values) if values.ndim == 1 else f'shape {values.shape}'}."
        )
    plain, order = _plain(values, name)
    if categories is not None:
        order = tuple(label_of(one) for one in _plain(categories, name)[0])
    kinds, first, codes = np.unique(plain, return_index=True, return_inverse=True)
    labels = [label_of(kind) for kind in kinds]
    turns = _turns(labels, order)
    places = np.empty(len(turns), dtype=np.intp)
    places[turns] = np.arange(len(turns))
    distinct = [labels[turn] for turn in turns]
    scale = _scale(np.asarray(distinct), values[first[turns]])
    return RowLabels(distinct, places[codes], order, scale)


@dataclass(frozen=True, slots=True)
class Factors:
    """Labels of documents by one or more factors, some of which may be missing."""

    names: tuple[str, ...]
    are_named: bool  # whether users have named them
    labels: tuple[tuple[Label, ...], ...]  # distinct ones of each factor, in order
    codes: Ints  # (n_rows, n_factors) places in `labels`, or MISSING

    def taken(self, rows: NDArray | slice) -> "Factors":
        """Return the labels of some rows."""
        return replace(self, codes=self.codes[rows])

    def columns_of(self, names: Sequence[str]) -> list[int]:
        """Return the column of each factor of a fit; raise if one is missing."""
        if len(names) != len(self.names):
            raise ValueError(
                f"groups must have the {len(names)} factors of the fit, "
                f"{_listed(names)}, got {len(self.names)}."
            )
        if not self.are_named or set(names) == set(map(str, range(len(names)))):
            return list(range(len(names)))
        absent = [name for name in names if name not in self.names]
        if absent:
            raise ValueError(
                f"groups must have the factors of the fit, {_listed(names)}, got "
                f"{_listed(self.names)}."
            )
        return [self.names.index(name) for name in names]

    def codes_in(self, names: Sequence[str], labels: Sequence[Sequence[Label]]) -> Ints:
        """Return the places of labels among those of a fit, (n_rows, n_factors).

        MISSING where there is none, NEW where the fit had no such label.
        """
        result = []
        for column, known in zip(self.columns_of(names), labels, strict=True):
            places = {label: place for place, label in enumerate(known)}
            own = [places.get(label, NEW) for label in self.labels[column]]
            result.append(np.array([*own, MISSING])[self.codes[:, column]])
        return np.stack(result, axis=1)


def check_groups(value: Any, n_rows: int | None) -> Factors:
    """Check labels of groups, one for each document in each factor.

    Parameters
    ----------
    value : array-like or frame of shape (n_rows,) or (n_rows, n_factors)
        Labels as in `check_labels`, but None, nan and NA are missing ones. Columns of a
        frame are factors by name.
    n_rows : int or None
        Number of documents; None takes any number.

    Raises
    ------
    ValueError
        If there is not one for each document, or labels are of several kinds.
    """
    if hasattr(value, "__dask_graph__"):
        value = value.compute()
    are_named = hasattr(value, "columns")
    if are_named:
        names = [str(name) for name in value.columns]
        columns = [np.asarray(value[name]) for name in value.columns]
    else:
        values = _objects(value)
        if values.ndim not in (1, 2):
            raise ValueError(
                "groups must have a label for each document, or a column of labels for "
                f"each factor, got shape {values.shape}."
            )
        columns = list(values.T) if values.ndim == 2 else [values]
        names = [str(place) for place in range(len(columns))]
    if not columns:
        raise ValueError("groups must have a column of labels, got none.")
    labels, codes = [], []
    n_rows = len(columns[0]) if n_rows is None else n_rows
    for name, column in zip(names, columns, strict=True):
        what = f"groups[{name!r}]" if are_named else "groups"
        if len(column) != n_rows:
            raise ValueError(
                f"{what} must have a label for each of {n_rows} documents, got "
                f"{len(column)}."
            )
        if column.dtype.kind in "OT":
            missing = np.array([_is_none(label) for label in column.tolist()], bool)
        else:
            missing = column != column
        given = column[~missing]
        some = given.tolist() if given.dtype.kind == "O" else given
        checked = check_labels(some, None, what, "document")
        own = np.full(n_rows, MISSING)
        own[~missing] = checked.codes
        labels.append(tuple(checked.distinct))
        codes.append(own)
    return Factors(tuple(names), are_named, tuple(labels), np.stack(codes, axis=1))


def _objects(value: Any) -> NDArray:
    """Return labels as an array whose masked entries are None."""
    if isinstance(value, Iterator):
        value = list(value)
    if isinstance(value, (list, tuple)):
        value = np.array(value, dtype=object)
    if np.ma.is_masked(value):
        labels = np.array(value.data, dtype=object)
        labels[np.ma.getmaskarray(value)] = None
        return labels
    return np.asarray(value)


def label_of(value: Any) -> Label:
    """Return a label as a number, a text or a date of NumPy."""
    return value if isinstance(value, np.datetime64) else value.item()


# -- types -----------------------------------------------------------------------------


def _values_of(value: Any, name: str) -> tuple[NDArray, NDArray | None]:
    """Return labels as an array, and all categories in order if they have one."""
    if hasattr(value, "__dask_graph__"):
        value = value.compute()
    if isinstance(value, Iterator):
        value = list(value)
    if len(getattr(value, "shape", ())) == 2 and value.shape[1] == 1:
        value = value.iloc[:, 0] if hasattr(value, "iloc") else value[:, 0]
    if np.ma.is_masked(value):
        raise _missing(name, np.flatnonzero(np.ma.getmaskarray(value)))
    dtype, categories = getattr(value, "dtype", None), None
    if getattr(dtype, "ordered", type(dtype).__name__ == "Enum"):
        categories = np.asarray(getattr(dtype, "categories"))  # noqa: B009
    if isinstance(value, (list, tuple)):
        # NumPy would make texts of numbers.
        kinds = {isinstance(label, str) for label in value}
        return np.asarray(value, dtype=object if len(kinds) > 1 else None), None
    return np.asarray(value), categories


def _plain(values: NDArray, name: str) -> tuple[NDArray, Order]:
    """Return numbers, texts or dates, and the order of former intervals."""
    order: Order = None
    if values.dtype.kind in "OT":  # objects, and texts of any length
        missing = [row for row, label in enumerate(values.tolist()) if _is_none(label)]
        if missing:
            raise _missing(name, missing)
        values, order = _plain_objects(values, name)
    if values.dtype.kind not in "biufUM":
        names = {type(label).__name__ for label in values.tolist()}
        raise ValueError(
            f"{name} must be numbers, texts, dates or periods, all of one kind, got "
            f"{', '.join(sorted(names))}."
        )
    if values.dtype.kind in "fM" and (values != values).any():
        raise _missing(name, np.flatnonzero(values != values))
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError(
            f"{name} must be finite, got {values[np.isinf(values)][0]} for row "
            f"{np.flatnonzero(np.isinf(values))[0]}. Texts may be any label."
        )
    if values.dtype.kind == "M":
        values = _whole_days(values)
    return values, order


def _is_none(label: Any) -> bool:
    """Whether an object stands for a missing label: None, nan, NA, NaT."""
    if isinstance(label, (Real, np.datetime64)):
        return bool(label != label)
    return type(label).__name__ in ("NAType", "NaTType", "NoneType")


def _missing(name: str, rows: Sequence[int] | Ints) -> ValueError:
    return ValueError(
        f"{name} must have no missing labels, got {len(rows)}, the first in row "
        f"{rows[0]}. Leave these rows out, or give them a label of their own."
    )


def _plain_objects(values: NDArray, name: str) -> tuple[NDArray, Order]:
    """Return objects as numbers, texts or dates, and the order of intervals."""
    listed = values.tolist()
    kinds = {type(label) for label in listed}
    if not kinds:
        return np.empty(0), None
    if all(issubclass(kind, str) for kind in kinds):
        return np.array(listed, dtype=str), None
    if all(issubclass(kind, Real) for kind in kinds):
        whole = np.array(listed)  # integers, where all are and none is too large
        is_whole = whole.dtype.kind in "bi"
        if not is_whole and len(set(listed)) != len(set(map(float, listed))):
            raise ValueError(f"{name} must be integers below 2**63 in size.")
        return whole if is_whole else values.astype(np.float64), None
    if all(issubclass(kind, (date, np.datetime64)) for kind in kinds):
        return _dates(listed, name), None
    names = {kind.__name__ for kind in kinds}
    if names == {"Period"}:
        if len({label.freqstr for label in listed}) > 1:
            raise ValueError(f"{name} must be periods of one frequency.")
        return np.array([str(label) for label in listed]), None
    if names == {"Interval"}:
        order = tuple(str(label) for label in sorted(set(listed)))
        return np.array([str(label) for label in listed]), order
    return values, None


def _scale(distinct: NDArray, given: NDArray) -> Array | None:
    """Return labels as numbers in increasing order, else None."""
    if len(given) and hasattr(given[0], "start_time"):  # periods
        distinct = np.array([period.start_time for period in given], "datetime64[us]")
    if distinct.dtype.kind not in "iufM":
        return None
    if distinct.dtype.kind == "M":
        days = distinct.astype("datetime64[s]").astype(np.int64) / 86400.0
        distinct = days / YEAR
    numbers = distinct.astype(np.float64)
    return numbers if (np.diff(numbers) >= 0.0).all() else None


def _dates(listed: Sequence[Any], name: str) -> NDArray:
    """Return dates of Python as NumPy's; with one time zone, in its local time."""
    # Those of pytz have an object for summer, one for winter, and one name.
    zones = {str(label.tzinfo) for label in listed if isinstance(label, datetime)}
    if len(zones) > 1:
        raise ValueError(f"{name} must be dates of one time zone.")
    if zones - {"None"}:
        listed = [label.replace(tzinfo=None) for label in listed]
    return np.array(listed, dtype="datetime64[us]")


def _whole_days(values: NDArray) -> NDArray:
    """Return dates in days if they are whole, else in at most microseconds."""
    days = values.astype("datetime64[D]")
    if np.datetime_data(values.dtype)[0] in "YMWD":
        return values
    is_whole = (days == values).all()
    return days if is_whole else values.astype("datetime64[us]")


# -- order -----------------------------------------------------------------------------


def sort_labels(labels: Iterable[Label], order: Order = None) -> list[Label]:
    """Sort labels; if there is an order, all must be in it.

    Raises
    ------
    ValueError
        If labels are of several kinds, or the order lacks one.
    """
    given = list(labels)
    return [given[turn] for turn in _turns(given, order)]


def _turns(labels: Sequence[Label], order: Order) -> list[int]:
    """Positions of labels in time order."""
    key = _key_of(order)
    kinds = {_kind(label) for label in labels}
    if len(kinds) > 1:
        names = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(f"epochs must be of one kind in all blocks, got {names}.")
    return sorted(range(len(labels)), key=lambda place: key(labels[place]))


def _key_of(order: Order) -> Callable[[Label], Any]:
    """Return the sort key of labels for an order."""
    if order is None:
        return _key
    ranks = {label: rank for rank, label in enumerate(order)}

    def rank_of(label: Label) -> int:
        """Position of a label in the order."""
        if label not in ranks:
            raise ValueError(
                f"epochs are an ordered Categorical, whose categories lack {label!r}."
            )
        return ranks[label]

    return rank_of


def _kind(label: Label) -> str:
    """Kind of a label in messages: number, text or date."""
    if isinstance(label, str):
        return "text"
    return "date" if isinstance(label, np.datetime64) else "number"


def _key(label: Label) -> Any:
    """Sort key of a label without an order."""
    if isinstance(label, str):
        return _text_key(label), label
    if isinstance(label, np.datetime64):
        return int(label.astype("datetime64[us]").astype(np.int64))
    return label


def _text_key(text: str) -> tuple[tuple[str, float], ...]:
    """Sort key of a text by its numbers: pairs of preceding text and number."""
    text = _without_commas(text)
    if _NUMBER.fullmatch(text):
        return (("", float(text)),)
    words, numbers = _split(text)
    pairs: list[tuple[str, float]] = [
        (word, int(number)) for word, number in zip(words, numbers, strict=False)
    ]
    return (*pairs, (words[-1], -1)) if words[-1] else tuple(pairs)


def _without_commas(text: str) -> str:
    """Return a text in lower case; a number without the commas of its thousands."""
    text = text.strip().casefold()
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


def _split(text: str) -> tuple[list[str], list[str]]:
    parts = _DIGITS.split(text.strip().casefold())
    return parts[::2], parts[1::2]


def _is_evident(texts: Sequence[str]) -> bool:
    """Whether the numbers in texts determine their order beyond doubt.

    They differ in one number, or begin to differ at or after a year of four digits.
    """
    if len(texts) < 2:
        return True
    if any("'" in text for text in texts):  # years of two digits
        return False
    plain = list(map(_without_commas, texts))
    rows = [_split(text) for text in texts]
    if all(map(_EIGHT.fullmatch, plain)):
        return all(map(_EARLY_YEAR.fullmatch, plain))
    if all(map(_VERSION.fullmatch, plain)):
        by_parts = [tuple(map(int, numbers)) for _, numbers in rows]
        return all(one <= other for one, other in pairwise(by_parts))
    if all(map(_NUMBER.fullmatch, plain)):
        return True
    frames = [tuple(words[:-1] if not words[-1] else words) for words, _ in rows]
    longest = max(frames, key=len)
    if any(frame != longest[: len(frame)] for frame in frames):
        return False
    columns = [set(column) for column in zip(*(row for _, row in rows), strict=False)]
    differ = [place for place, column in enumerate(columns) if len(column) > 1]
    if len(differ) < 2:
        return len(columns) > 0
    leading = columns[: differ[0] + 1]
    return any(all(len(number) == 4 for number in column) for column in leading)


def _warn_if_unclear(labels: Sequence[Label]) -> None:
    """Warn if texts are sorted, and their order is not evident."""
    texts = [label for label in labels if isinstance(label, str)]
    if not _is_evident(texts):
        warn_caller(
            f"epochs are texts whose order does not show; the order taken is "
            f"{_listed(texts)}. Pass an ordered pandas Categorical, numbers, dates or "
            "texts such as '2001-03' to have another."
        )


# -- labels compared with those that are known -----------------------------------------


def check_after(
    kinds: Sequence[Label], order: Order, known: Sequence[Label] = ()
) -> None:
    """Raise unless labels in order may follow the known ones, the last one open.

    Warns if the order of texts is not evident.
    """
    if not known:
        if order is None:
            _warn_if_unclear(kinds)
        return
    first, newest = kinds[0], known[-1]
    if _kind(first) != _kind(newest):
        raise ValueError(f"epochs must be labels like {newest!r}, got {first!r}.")
    others = [kind for kind in kinds if kind != newest]
    if not others:
        return
    if order is None and not _are_sorted(known) and first not in known:
        raise _without_order(first, known)
    key = _key_of(order)
    if key(first) < key(newest) or first in known[:-1]:
        cure = "epochs that are closed learn nothing more."
        if isinstance(newest, str):
            cure += " An ordered pandas Categorical gives texts another order."
        raise ValueError(
            f"epochs must not be older than the open epoch, {newest!r}, got {first!r}: "
            f"{cure}"
        )
    if order is None:
        _warn_if_unclear([newest, *others])


def fitted_places(labels: RowLabels, known: Sequence[Label]) -> list[int]:
    """Find for each label the fitted epoch that explains its rows.

    That is its own, or the latest before it, with one warning for all labels.

    Raises
    ------
    ValueError
        If a label comes before all fitted epochs, or cannot be compared with them.
    """
    own = {label: place for place, label in enumerate(known)}
    places: list[int] = []
    borrowed = []
    for kind in labels.distinct:
        place = own.get(kind)
        if place is None:
            place = _latest_before(kind, labels.order, known)
            borrowed.append(f"{kind!s} by {known[place]!s}")
        places.append(place)
    if borrowed:
        warn_caller(
            "epochs has labels that were not fitted; rows of each are explained by the "
            f"latest fitted epoch before it: {_listed(borrowed, str)}."
        )
    return places


def _latest_before(kind: Label, order: Order, known: Sequence[Label]) -> int:
    """Position of the latest known label that is not after a label."""
    fitted = _listed(known)
    if _kind(kind) != _kind(known[0]):
        raise ValueError(
            f"epochs must be labels like those of fitted epochs, {fitted}, got "
            f"{kind!r}."
        )
    places = list(range(len(known)))
    if order is not None:
        places = [place for place in places if known[place] in order]
    elif not _are_sorted(known):
        raise _without_order(kind, known)
    key = _key_of(order)
    before = bisect_right([key(known[place]) for place in places], key(kind))
    if before == 0:
        raise ValueError(
            f"epochs must not be earlier than the first fitted epoch, {known[0]!r}, "
            f"got {kind!r}: no tree explains its rows. Fitted: {fitted}."
        )
    return places[before - 1]


def _are_sorted(known: Sequence[Label]) -> bool:
    keys = [_key(label) for label in known]
    return all(one < other for one, other in pairwise(keys))


def _without_order(label: Label, known: Sequence[Label]) -> ValueError:
    return ValueError(
        f"epochs must be labels of fitted epochs, {_listed(known)}, whose order is not "
        f"that of their values, got {label!r}. Pass an ordered pandas Categorical with "
        "all of them as categories."
    )


def warn_of_newest(known: Sequence[Label]) -> None:
    """Warn if rows have no label and there are several trees."""
    if len(known) > 1:
        warn_caller(
            f"epochs is None: all rows are explained by the newest of {len(known)} "
            f"fitted epochs, {known[-1]!s}. Pass one label for each row, or one for "
            "all, as epochs=."
        )


# -- numbers of rows, and labels in another place --------------------------------------


def warn_if_few_rows(sizes: Sequence[int], labels: Sequence[Label]) -> None:
    """Warn if most epochs have too few rows to learn from."""
    n_small = sum(size < LEAST_ROWS for size in sizes)
    if len(sizes) < 3 or n_small <= len(sizes) / 2:
        return
    cure = "Group labels to wider epochs"
    if isinstance(labels[0], (np.datetime64, str)):
        cure += ', such as months or years by .dt.to_period("M") of pandas'
    else:
        cure += ", such as labels // 10"
    warn_caller(
        f"epochs has {len(sizes)} distinct labels for {sum(sizes)} rows that are not "
        f"zero; {n_small} labels have fewer than {LEAST_ROWS} rows, and the tree of an "
        f"epoch needs dozens. {cure}."
    )


def warn_if_y_is_labels(y: object, epochs: object) -> None:
    """Warn if `y` has several values, but no labels of time are given."""
    if y is None or epochs is not None:
        return
    if not hasattr(y, "__dask_graph__"):
        values = np.asarray(y, dtype=object).ravel()
        if not any(bool(value != values[0]) for value in values[1:]):
            return
        if not all(map(_may_be_time, values)):
            return  # classes, or targets of a regression
    warn_caller(
        "y is ignored, and epochs is None: all rows are of one epoch. Pass labels of "
        "time as epochs=; in a Pipeline, a search or cross_validate by metadata "
        "routing: sklearn.set_config(enable_metadata_routing=True), and "
        "set_fit_request(epochs=True) and set_score_request(epochs=True) of the "
        "estimator."
    )


def _may_be_time(value: Any) -> bool:
    """Whether values are dates, whole numbers or texts with digits."""
    if isinstance(value, str):
        return bool(_DIGITS.search(value))
    if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)):
        return bool(value == value // 1)
    return not isinstance(value, (bool, np.bool_))


def _listed(values: Sequence[Any], show: Callable[[Any], str] = repr) -> str:
    """Return a text of the first few values and the last one."""
    shown = [show(value) for value in values[:N_SHOWN]]
    if len(values) > N_SHOWN:
        shown += ["...", show(values[-1])]
    return ", ".join(shown)
