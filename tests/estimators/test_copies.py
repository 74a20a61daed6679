"""Copies of estimators, and how notebooks show them."""

import copy

import pytest
from sklearn.base import clone

from checks.estimators import INSTANCES
from checks.states import assert_same, snapshot


@pytest.mark.parametrize("name", ["HDP-online", "StickBreakingHDP-batch", "GibbsHDP"])
def test_copy_learns_by_itself(name, counts):
    fitted = clone(INSTANCES[name]).fit(counts)
    before = snapshot(fitted)
    copied = copy.copy(fitted)
    assert_same(before, vars(copied), ignore=())
    copied.partial_fit(counts[:30])
    assert_same(before, vars(fitted), ignore=())


@pytest.mark.parametrize("name", ["HDP-online", "NestedCRP-batch", "GibbsHDP"])
def test_html_links_to_no_page_of_another_project(name):
    assert "/modules/generated/skbnp" not in INSTANCES[name]._repr_html_()
