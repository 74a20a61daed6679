"""The layout of trees is tidy."""

import numpy as np
import pytest

from skbnp.inspection._trees import tidy


def random_parents(n_nodes, seed):
    rng = np.random.default_rng(seed)
    reach = int(rng.integers(1, 30))
    return [-1, *(int(rng.integers(max(0, i - reach), i)) for i in range(1, n_nodes))]


def depths(parent):
    result = [0]
    for above in parent[1:]:
        result.append(result[above] + 1)
    return np.array(result)


def in_order(parent):
    """Rows depth first."""
    order, stack = [], [0]
    while stack:
        order.append(stack.pop())
        children = [i for i, above in enumerate(parent) if above == order[-1]]
        stack.extend(reversed(children))
    return order


def test_neighbours_stand_in_order_at_least_one_apart():
    for seed in range(100):
        parent = random_parents(2 + seed % 60, seed)
        place, depth = tidy(parent), depths(parent)
        for level in range(depth.max() + 1):
            row = [place[i] for i in in_order(parent) if depth[i] == level]
            assert (np.diff(row) > 1 - 1e-9).all(), seed


@pytest.mark.parametrize("seed", range(20))
def test_parents_stand_amid_their_children(seed):
    parent = random_parents(40, seed)
    place = tidy(parent)
    assert place.min() == 0.0
    for i in set(parent[1:]):
        children = place[np.array(parent) == i]
        assert place[i] == pytest.approx((children[0] + children[-1]) / 2)
