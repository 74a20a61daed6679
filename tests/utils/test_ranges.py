"""Types, ranges and sizes that classes declare, and what a damaged file has instead."""

from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, TypeVar

import numpy as np
import pytest
import scipy.sparse as sp

from skbnp.estimators._saved import check_sizes
from skbnp.utils.ranges import LARGE, MOST, Sized, TokenCounts, fits
from skbnp.utils.typing import Array, Ints

COUNTS = Annotated[sp.csr_array, TokenCounts("n", "m")]
WEIGHTS = Annotated[Array, Sized("n", least=0)]
PLACES = Annotated[Ints, Sized("n", least=-1)]


def csr(data=(1, 2), indices=(0, 1), indptr=(0, 1, 2), number=np.int32):
    made = sp.csr_array((2, 2), dtype=number)
    made.data = np.array(data, number)
    made.indices, made.indptr = np.array(indices), np.array(indptr)
    return made


def test_arrays_of_a_fit_fit():
    assert fits(np.array([0.0, LARGE]), WEIGHTS)
    assert fits(np.array([-1, MOST]), PLACES)
    assert fits(csr(), COUNTS)
    assert fits(np.zeros(0), WEIGHTS)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (None, WEIGHTS),
        (np.array([-1e-9]), WEIGHTS),
        (np.array([2.0 * LARGE]), WEIGHTS),
        (np.zeros((1, 1)), WEIGHTS),
        (np.zeros(1, np.float32), WEIGHTS),
        (np.zeros(1, ">f8"), WEIGHTS),
        (np.zeros(4)[::2], WEIGHTS),
        (np.array([MOST + 1]), PLACES),
        (csr(number=np.float64), COUNTS),
        (csr(data=(-1, 2)), COUNTS),
        (csr(indices=(0, 2)), COUNTS),
        (csr(indptr=(0, 1)), COUNTS),
        (csr(indptr=(0, 3, 2)), COUNTS),
        (csr(indptr=(1, 1, 2)), COUNTS),
    ],
)
def test_arrays_that_no_kernel_may_read_do_not_fit(value, hint):
    assert not fits(value, hint)


Number = TypeVar("Number")


class NamedArray:
    """What `type NamedArray[Number] = ndarray[...]` makes, from Python 3.12 on."""

    __value__ = np.ndarray[Any, np.dtype[Number]]


def test_a_named_hint_is_what_it_stands_for():
    doubles = GenericAlias(NamedArray, (np.float64,))
    for hint in (doubles, doubles | None, Annotated[doubles, Sized(1)], NamedArray):
        assert fits(np.zeros(1), hint)
        assert not fits("a text", hint)
    assert not fits(np.zeros(1, int), doubles)
    assert fits(np.zeros(1, int), NamedArray)
    assert not fits(None, doubles)
    assert not fits(np.zeros((1, 1)), Annotated[doubles, Sized(1)])


@dataclass
class Inner:
    table: Annotated[Array, Sized("n", 2)]


@dataclass
class Outer:
    weights: WEIGHTS
    inner: Inner
    places: Annotated[Ints, Sized("m")] | None = None


def test_one_name_is_one_number_in_a_state():
    sizes = {}
    check_sizes(Outer(np.zeros(3), Inner(np.zeros((3, 2))), np.zeros(5, int)), sizes)
    assert sizes == {"n": 3, "m": 5}


@pytest.mark.parametrize(
    ("outer", "sizes"),
    [
        (Outer(np.zeros(3), Inner(np.zeros((4, 2)))), {}),
        (Outer(np.zeros(3), Inner(np.zeros((3, 1)))), {}),
        (Outer(np.zeros(3), Inner(np.zeros((3, 2)))), {"n": 4}),
    ],
)
def test_other_sizes_are_refused(outer, sizes):
    with pytest.raises(ValueError, match=r"The saved (weights|table) is damaged"):
        check_sizes(outer, sizes)
