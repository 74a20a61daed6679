"""Bars that the tests of several estimators learn from."""

import pytest
import scipy.sparse as sp

from skbnp.datasets import make_bars


@pytest.fixture(scope="module")
def bars():
    return make_bars(600, random_state=0)


@pytest.fixture(scope="module")
def X(bars):
    return sp.csr_array(bars.data[:500])


@pytest.fixture(scope="module")
def X_test(bars):
    return sp.csr_array(bars.data[500:])
