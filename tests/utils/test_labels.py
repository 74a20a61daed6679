"""Labels of time: types, order, what was fitted, and what is warned of."""

import warnings
from datetime import date, datetime, timedelta, timezone

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from skbnp.utils.labels import (
    NEW,
    check_after,
    check_groups,
    check_labels,
    fitted_places,
    sort_labels,
    warn_if_few_rows,
    warn_if_y_is_labels,
    warn_of_newest,
)

MONTHS = ["jan", "feb", "mar", "apr"]
DAYS = tuple(np.array(["2001-02-01", "NaT", "2001-02-03"], "M8[D]"))


def ordered(labels, categories=MONTHS):
    return pd.Categorical(labels, categories=categories, ordered=True)


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ([2, 1, 2], [1, 2]),
        (pd.DataFrame({"year": [2, 1, 2]}), [1, 2]),
        (np.array([2, 1, 2], dtype=object), [1, 2]),
        (np.array([1e30, 10**25, 1e30], dtype=object), None),
        (da.from_array(np.array([2, 1, 2])), [1, 2]),
        (pd.PeriodIndex(["2001-03", "2001-02", "2001-03"], freq="M"), None),
        (ordered(["mar", "feb", "mar"]), ["feb", "mar"]),
        (pd.Categorical(["10", "9", "10"]), ["9", "10"]),
        (pl.Series(["feb", "jan", "feb"], dtype=pl.Enum(MONTHS)), ["jan", "feb"]),
        (
            pd.IntervalIndex.from_tuples([(0, 1), (-1, 0), (0, 1)]),
            ["(-1, 0]", "(0, 1]"],
        ),
        (np.array(["10", "9", "10"], np.dtypes.StringDType()), ["9", "10"]),
        (pd.Series(["week 10", "week 9", "week 10"]), ["week 9", "week 10"]),
        (pl.Series(["2001-10", "2001-09", "2001-10"]), ["2001-09", "2001-10"]),
        ([date(2001, 2, 1), date(2001, 1, 1), date(2001, 2, 1)], None),
        (pd.to_datetime(["2001-02-01", "2001-01-01", "2001-02-01"]), None),
    ],
)
def test_labels_of_all_types_have_their_order(given, kinds):
    labels = check_labels(given, 3)
    assert_array_equal(labels.codes, [1, 0, 1])
    assert_array_equal(labels.values(), np.array(labels.distinct)[[1, 0, 1]])
    assert [rows.tolist() for rows in labels.rows()] == [[1], [0, 2]]
    if kinds is not None:
        assert labels.distinct == kinds
    # What outlasts JSON and arrays without objects.
    assert all(
        isinstance(kind, (int, float, str, np.datetime64)) for kind in labels.distinct
    )


def test_dates_are_one_label_whatever_their_type():
    stamps = pd.Series(pd.to_datetime(["2001-02-01"]))
    zone = timezone(timedelta(hours=2))
    for given in (
        date(2001, 2, 1),
        np.datetime64("2001-02-01T00:00"),
        stamps,
        stamps.dt.tz_localize("Europe/Berlin"),
        [datetime(2001, 2, 1, tzinfo=zone)],
    ):
        assert check_labels(given, 1).distinct == [np.datetime64("2001-02-01")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pd.array([1, None], dtype="Int64"), "missing"),
        (pd.PeriodIndex(["2001", "NaT"], freq="Y"), "missing"),
        (np.ma.masked_array([1, 2], [False, True]), "missing"),
        ([0, "a"], "all of one kind, got int, str"),
        ([b"a", b"b"], "got bytes"),
        ([pd.Period("2001"), pd.Period("2001-01")], "one frequency"),
        (np.zeros((2, 2)), r"got shape \(2, 2\)"),
        ([1, 2, 3], "each of 2 rows"),
        ([10**20, 10**20 + 1], r"2\*\*63"),
    ],
)
def test_what_has_no_order_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        check_labels(given, 2)


@pytest.mark.parametrize(
    ("texts", "is_evident"),
    [
        (["9", "10", "11"], True),
        (["2001Q4", "2002Q1"], True),
        (["1990s", "2000s"], True),
        (["2001-2002", "2002-2003"], True),
        (["200", "1,000", "30,000"], True),
        (["20011231", "20020101"], True),
        (["1.5", "1.25"], False),  # numbers, or versions
        (["jan", "feb"], False),
        (["Q1 2001", "Q2 2000"], False),
        (["01/02/2003", "02/01/2001"], False),
        (["'99", "'00"], False),
        (["FY99/00", "FY00/01"], False),
        (["01.02.03", "02.01.03"], False),
        (["31121999", "01012000"], False),
    ],
)
def test_an_order_of_texts_that_does_not_show_is_named(texts, is_evident):
    kinds = sort_labels(texts[::-1])
    if is_evident:
        assert kinds == texts
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_after(kinds, None)
        return
    with pytest.warns(UserWarning, match="order taken is") as caught:
        check_after(kinds, None)
    assert ", ".join(map(repr, kinds)) in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_after(texts, tuple(texts))  # as categories


def test_labels_follow_the_open_epoch_in_the_same_order():
    check_after(["10"], None, ["9"])
    for kinds, order, known, message in (
        (["9"], None, ["10"], "older than the open epoch, '10', got '9'"),
        (["feb"], None, ["jan"], "ordered pandas Categorical"),
        (["feb"], None, ["jan", "feb", "mar"], "older"),
        (["apr"], None, ["jan", "feb", "mar"], "all of them as categories"),
        (["apr"], ("apr", "may"), ["jan"], "categories lack 'jan'"),
        ([1], None, ["jan"], "labels like 'jan'"),
    ):
        with pytest.raises(ValueError, match=message):
            check_after(kinds, order, known)
    check_after(["mar"], None, ["jan", "feb", "mar"])
    check_after(["feb"], tuple(MONTHS), ["jan"])
    with pytest.warns(UserWarning, match="order taken is 'apr', 'jan'"):
        check_after(["jan"], None, ["apr"])


@pytest.mark.parametrize(
    ("given", "known", "place", "message"),
    [
        (1995, [1990, 2000], 0, "1995 by 1990"),
        (2010, [1990, 2000], 1, "2010 by 2000"),
        ("10", ["9", "11"], 0, "10 by 9"),
        (np.datetime64("2001-03-05"), [np.datetime64("2001-03")], 0, "by 2001-03"),
        (ordered(["mar"]), ["jan", "feb", "apr"], 1, "mar by feb"),
        (ordered(["apr"]), ["jan", "feb"], 1, "apr by feb"),
    ],
)
def test_labels_that_were_not_fitted_take_the_latest_before(
    given, known, place, message
):
    with pytest.warns(UserWarning, match=message) as caught:
        assert fitted_places(check_labels(given, 1), known) == [place]
    assert len(caught) == 1


def test_fitted_labels_are_no_matter_for_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted_places(check_labels(["mar", "jan"], 2), MONTHS) == [0, 2]
        warn_of_newest([1990])
    with pytest.warns(UserWarning, match="newest of 2 fitted epochs, 2000"):
        warn_of_newest([1990, 2000])


@pytest.mark.parametrize(
    ("given", "known", "message"),
    [
        (1980, [1990, 2000], "first fitted epoch, 1990"),
        ("new", [1990], "labels like those of fitted epochs, 1990"),
        ("may", MONTHS, "ordered pandas Categorical"),
        (ordered(["jan"]), ["feb"], "first fitted epoch, 'feb'"),
    ],
)
def test_labels_before_all_that_was_fitted_are_refused(given, known, message):
    with pytest.raises(ValueError, match=message):
        fitted_places(check_labels(given, 1), known)


def test_time_stamps_are_named():
    with pytest.warns(UserWarning, match=r"300 .* for 300 .* labels // 10"):
        warn_if_few_rows([1] * 300, range(300))
    dates = list(np.datetime64("2001-01-01") + np.arange(3))
    with pytest.warns(UserWarning, match="to_period"):
        warn_if_few_rows([3, 3, 100], dates)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_few_rows([4] * 300, range(300))
        warn_if_few_rows([1, 40, 40], range(3))
        warn_if_few_rows([1, 1], range(2))


def test_labels_given_as_y_are_named():
    for y in ([1, 2], np.array([[0], [1]]), pd.Series(["q1", "q2"]), da.arange(2)):
        with pytest.warns(UserWarning, match=r"epochs=.*set_fit_request\(epochs=True"):
            warn_if_y_is_labels(y, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_y_is_labels([1, 2], 0)
        for y in (None, [1, 1], [], ["a", "b"], [0.5, 1.5], [True, False]):
            warn_if_y_is_labels(y, None)


# Labels of groups, some of which are missing ------------------------------------------


@pytest.mark.parametrize(
    ("value", "labels", "codes"),
    [
        (["b", None, "a"], ("a", "b"), [1, -1, 0]),
        ([2.0, np.nan, 1.0], (1.0, 2.0), [1, -1, 0]),
        (np.ma.masked_array([2, 9, 1], [0, 1, 0]), (1, 2), [1, -1, 0]),
        (pd.Series([2, pd.NA, 1], dtype="Int64"), (1, 2), [1, -1, 0]),
        (pd.Series(["b", None, "a"], dtype="category"), ("a", "b"), [1, -1, 0]),
        (np.array([*DAYS[::-1]], "M8[ns]"), DAYS[::2], [1, -1, 0]),
        (iter([True, None, False]), (False, True), [1, -1, 0]),
        ([None, None, None], (), [-1, -1, -1]),
    ],
)
def test_missing_labels_of_groups_have_a_code(value, labels, codes):
    groups = check_groups(value, 3)
    assert groups.labels == (labels,)
    assert_array_equal(groups.codes[:, 0], codes)
    assert groups.names == ("0",)


@pytest.mark.parametrize("library", [pd, pl])
def test_columns_of_a_frame_are_factors_by_name(library):
    frame = library.DataFrame({"arm": ["b", "a"], "year": [2002, 2001]})
    groups = check_groups(frame, 2)
    assert groups.names == ("arm", "year")
    assert groups.labels == (("a", "b"), (2001, 2002))
    known = groups.codes_in(("year", "arm"), [(2002,), ("b", "a")])
    assert_array_equal(known, [[0, 0], [NEW, 1]])
    assert_array_equal(groups.taken(np.array([1])).codes, [[0, 0]])
