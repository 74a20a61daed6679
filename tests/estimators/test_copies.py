"""Copies of estimators, and how notebooks show them."""

import copy

import pytest
from sklearn.base import clone

from checks.estimators import INSTANCES
from checks.states import assert_same, snapshot
from skbnp import HDP, GibbsHDP
from skbnp.callbacks import HeldOutMonitor


@pytest.mark.parametrize("name", ["HDP-online", "StickBreakingHDP-batch", "GibbsHDP"])
def test_copy_learns_by_itself(name, counts):
    fitted = clone(INSTANCES[name]).fit(counts)
    before = snapshot(fitted)
    copied = copy.copy(fitted)
    assert_same(before, vars(copied), ignore=())
    copied.partial_fit(counts[:30])
    assert_same(before, vars(fitted), ignore=())


def test_copy_shares_parameters_and_callbacks(counts):
    start, monitor = HDP(3, max_iter=2), HeldOutMonitor(counts)
    fitted = GibbsHDP(max_iter=2, init=start.fit(counts)).set_callbacks(monitor)
    copied = copy.copy(fitted)
    assert copied.init is fitted.init
    copied.fit(counts)
    assert len(monitor.history_["score"]) == 2


@pytest.mark.parametrize("name", ["HDP-online", "NestedCRP-batch", "GibbsHDP"])
def test_html_links_to_no_page_of_another_project(name):
    assert "/modules/generated/skbnp" not in INSTANCES[name]._repr_html_()
