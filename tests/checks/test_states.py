"""The exact comparison notices every difference that it is there to notice."""

from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp

from checks.estimators import every_kind, is_variational
from checks.states import assert_same, learned, snapshot


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


PAIRS = {
    "sign-of-zero": (0.0, -0.0),
    "type-of-number": (1.0, np.float64(1.0)),
    "int-and-bool": (1, True),
    "dtype": (np.zeros(2), np.zeros(2, np.float32)),
    "entry": (np.zeros(2), np.array([0.0, 1e-300])),
    "missing-key": ({"a": 1}, {"a": 1, "b": 2}),
    "nested": ({"a": [{"b": np.zeros(2)}]}, {"a": [{"b": np.ones(2)}]}),
    "slot": (Slotted(1.0), Slotted(2.0)),
    "object-array": (np.array([1, "a"], object), np.array([2, "a"], object)),
    "stored-zero": (sp.csr_array([[1.0]]), sp.csr_array(([1.0, 0.0], [0, 0], [0, 2]))),
    "random-state": (np.random.RandomState(0), np.random.RandomState(1)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_comparison_fails_on_different_objects(pair):
    with pytest.raises(AssertionError):
        assert_same(*pair)


@every_kind()
def test_comparison_fails_on_a_change_deep_inside_an_estimator(fitted):
    before = snapshot(fitted)
    held = learned(fitted)
    if is_variational(fitted) or hasattr(fitted, "_last"):
        posterior = getattr(fitted, "_posterior", None)
        state = fitted._last[0] if posterior is None else posterior.state
        held |= {item.name: getattr(state, item.name) for item in fields(state)}
    name, values = next(
        (name, value)
        for name, value in held.items()
        if isinstance(value, np.ndarray) and value.dtype == np.float64
    )
    values[-1] = np.nextafter(values[-1], np.inf)
    with pytest.raises(AssertionError, match=name):
        assert_same(before, vars(fitted))
