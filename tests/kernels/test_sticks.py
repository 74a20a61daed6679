"""Sticks of a tree against the reference, which walks it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from reference import dependent_trees as reference
from skbnp.kernels._sticks import beta_parameters, expected_log_weights, merge_gains
from skbnp.models.dependent_trees.state import TreePriors, stick_evidence
from skbnp.trees import Tree


def random_tree(rng, n_nodes):
    parents = [-1, *(int(rng.integers(node)) for node in range(1, n_nodes))]
    return Tree.from_parents(parents)


def weights_of(parent, masses, stop, child):
    given, result = np.empty((4, len(parent))), np.empty(len(parent))
    beta_parameters(parent, masses, stop, child, given)
    expected_log_weights(parent, given, np.empty((6, len(parent))), result)
    return given, result


@pytest.mark.parametrize("n_nodes", [1, 2, 40])
def test_expected_logs_are_those_of_the_reference(n_nodes, seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_nodes)
    masses = rng.gamma(0.3, 100.0, size=n_nodes)
    nothing = np.zeros(n_nodes)
    for stop, child in ((0.4, 0.7), (1e-6, 50.0)):
        given, result = weights_of(tree.parent, masses, stop, child)
        children = reference.children_of(tree.parent.tolist())
        sticks = children, masses, nothing, stop, child
        wanted = reference.log_weights(*sticks)
        assert_allclose(result, wanted, rtol=1e-12, atol=1e-13)
        stops, chosen = reference.stick_parameters(*sticks)
        for node, (q, _) in stops.items():
            assert_allclose(given[:2, node], q, rtol=1e-13, atol=1e-12)
        for node, (q, _) in chosen.items():
            assert_allclose(given[2:, node], q, rtol=1e-13, atol=1e-12)


def gains_of(tree, pairs, masses, history, stop=0.4):
    sources, targets = np.array(pairs).T
    result, work = np.empty(len(pairs)), np.empty((2, len(tree)))
    places = tree.positions(sources), tree.positions(targets)
    given = *tree.child_lists, masses, history, stop, 0.7
    merge_gains(*places, tree.parent, *given, work, result)
    return result


@pytest.mark.parametrize("stop", [0.4, 1e-100])
def test_merges_gain_the_evidence_of_the_merged_tree(stop, seed):
    """Of all nodes into their parents and siblings, with rows of epochs before.

    Beside a tiny prior any row that rounding leaves below a node would count.
    """
    rng = np.random.default_rng(seed)
    tree, priors = random_tree(rng, 25), TreePriors(0.7, stop)
    masses, history = rng.gamma(0.3, 100.0, size=(2, 25))
    history[rng.random(25) < 0.5] = 0.0

    def evidence(tree, source=None, target=None):
        values = np.zeros((2, len(tree)))
        for name, *own in zip(ids, masses, history, strict=True):
            merged_target = target if name == source else name
            values[:, tree.positions(merged_target)] += own
        return stick_evidence(tree, *values, priors)

    ids, pairs = tree.ids.tolist(), []
    for source in ids[1:]:
        parent = tree.parent_of(source)
        others = [parent, *tree.children_of(parent).tolist()]
        pairs += [(source, other) for other in others if other != source]
    before = evidence(tree)
    wanted = [evidence(tree.merge(*pair), *pair) - before for pair in pairs]
    assert_allclose(
        gains_of(tree, pairs, masses, history, stop), wanted, rtol=1e-9, atol=1e-8
    )
    wrong = gains_of(tree, pairs, masses, np.zeros(25), stop)
    assert not np.allclose(wrong, wanted, atol=1e-3)
