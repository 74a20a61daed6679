"""What bounds gain where nodes go below others, against a slow twin."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernels.test_directions import PRIORS, TREE, given_to_twins, random_epoch
from reference import dependent_trees as reference
from skbnp.models.dependent_trees.moves import attachment_gains
from skbnp.models.dependent_trees.state import stick_evidence

#: All nodes but the root, and others that are not below them.
PAIRS = [
    (node, into)
    for node in range(1, len(TREE))
    for into in range(len(TREE))
    if not node <= into < node + TREE.size[node]
]


def random_case(seed, dimension, past):
    state, stats = random_epoch(seed, dimension, past)
    history = past * np.random.default_rng(seed).gamma(1.0, 3.0, size=len(TREE))
    history[1], state.masses[2] = 0.0, 0.0
    return replace(state, history=history, above=0.3 * state.centroid), stats


def gains_of(state, stats, pairs):
    nodes, parents = np.array(pairs, dtype=np.intp).reshape(-1, 2).T.copy()
    return attachment_gains(state, stats, PRIORS, nodes, parents)


def twin(state, stats, node, into):
    given = (
        *given_to_twins(state, stats),
        state.masses,
        state.history,
        PRIORS.stop_concentration,
        PRIORS.child_concentration,
    )
    after = reference.attached_worth(node, into, *given)
    return after - reference.attached_worth(node, None, *given)


@pytest.mark.parametrize(("dimension", "past"), [(3, True), (60, False)])
def test_gains_are_those_of_the_twin(dimension, past, seed):
    state, stats = random_case(seed, dimension, past)
    result = gains_of(state, stats, PAIRS)
    wanted = [twin(state, stats, *pair) for pair in PAIRS]
    assert_allclose(result, wanted, rtol=1e-6, atol=1e-5)
    # Sticks, and pasts of the node or of its children, are parts of it.
    no_rows = replace(state, masses=0.0 * state.masses)
    assert abs(gains_of(no_rows, stats, PAIRS) - wanted).max() > 0.1
    if past:
        for one in (1, 3):  # a node without children, and a child of another
            forgets = state.past.copy()
            forgets[one] = -1
            other = gains_of(replace(state, past=forgets), stats, PAIRS)
            assert abs(other - wanted).max() > 0.1


def test_a_node_goes_behind_the_children_of_its_parent(seed):
    """The sticks alone change, and not at all where it is the last one."""
    state, stats = random_case(seed, 7, True)
    pairs = [(node, int(TREE.parent[node])) for node in range(1, len(TREE))]
    result = gains_of(state, stats, pairs)
    assert_allclose(result, [twin(state, stats, *pair) for pair in pairs], atol=1e-5)
    is_last = np.isin(TREE.ids[1:], [6, 4, 3])
    assert_allclose(result[is_last], 0.0, atol=1e-12)
    assert abs(result[~is_last]).min() > 1e-3


def test_rounding_leaves_no_rows_beside_tiny_priors(seed):
    """Where the rows below a node, or behind it, go away, there are none."""
    state, stats = random_case(seed, 3, True)
    state = replace(state, masses=1e3 * state.masses)
    nodes, parents = np.array(PAIRS, dtype=np.intp).T.copy()

    def evidence(priors):
        result = []
        for tree in (TREE, *(TREE.move(*TREE.ids[[*pair]].tolist()) for pair in PAIRS)):
            at = TREE.positions(tree.ids)
            rows = state.masses[at], state.history[at]
            result.append(stick_evidence(tree, *rows, priors))
        return np.array(result[1:]) - result[0]

    tiny = replace(PRIORS, stop_concentration=1e-100, child_concentration=1e-100)
    result = attachment_gains(state, stats, tiny, nodes, parents)
    result -= attachment_gains(state, stats, PRIORS, nodes, parents)
    assert_allclose(result, evidence(tiny) - evidence(PRIORS), rtol=1e-9, atol=1e-7)
    assert abs(result).max() > 1.0
