"""Sweeps of sampled dependent trees against enumeration on the circle, and Geweke's."""

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from checks.frequencies import check_frequencies
from checks.geweke import check_joint_distribution
from reference import dependent_slices as reference
from skbnp.distributions import draw_natural, log_normaliser
from skbnp.kernels._tree_directions import prior_products
from skbnp.models.dependent_slices import model, moves
from skbnp.models.dependent_slices.chain import Phase, best_past_weight, prior_cosines
from skbnp.models.dependent_slices.model import (
    Directions,
    Rows,
    SlicedTree,
    log_joint_of,
)
from skbnp.models.dependent_trees.state import TreePriors
from skbnp.trees import Tree

ALPHA, GAMMA, BETA, KAPPA = 0.7, 0.6, 2.0, 1.5
PRIORS = TreePriors(GAMMA, ALPHA, 1.0, 1.0)
ANGLES = (0.0, 0.6, 2.5)
AXIS = np.array([1.0, 0.0])
#: Past rows and directions of the old nodes, a root above two others.
HISTORY = {0: 1.0, 1: 2.0, 2: 0.5}
BELOW = {0: [1, 2], 1: [], 2: []}
PAST = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]])
#: Without a past, and with one: trees of so many nodes are enumerated, 98 and 429.
MOST_NODES = {"first": 4, "later": 5}
each_epoch = pytest.mark.parametrize(
    ("epoch", "n_draws"),
    [("first", 400), pytest.param("later", 800, marks=pytest.mark.long)],
)


def on_circle(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


def rows_of(x):
    return Rows.of(sp.csr_array(np.asarray(x, dtype=np.float32)))


def broadcast_of(epoch, x=None):
    """All rows at the root."""
    rows = rows_of(on_circle(ANGLES) if x is None else x)
    tree = Tree() if epoch == "first" else Tree.from_parents([-1, 0, 0])
    n, dimension = len(tree), rows.X.shape[1]
    axis = np.eye(1, dimension)[0]
    later = epoch == "later"
    return SlicedTree(
        rows,
        PRIORS,
        tree,
        np.zeros(len(rows), dtype=np.int32),
        Directions.of(np.tile(axis, (n, 1))),
        np.array(list(HISTORY.values())) if later else np.zeros(1),
        np.arange(n) if later else np.full(n, -1),
        PAST @ np.eye(2, dimension) if later else np.zeros((0, dimension)),
        BETA,
        KAPPA,
        np.zeros(n),
        sp.csr_array((n, dimension)),
    )


def run_phase(state, parity, rng):
    phase = Phase(state, parity, lambda *name: rng)
    for block in phase.blocks():
        phase.fill(block)
    for number, groups in enumerate(phase.groups()):
        phase.sweep(number, groups)
    for number, block in enumerate(phase.blocks_to_draw()):
        phase.draw_directions(number, block)
    return phase.close(state.tree.next_id)


def sweep(state, rng):
    for parity in (1, 0):
        state = run_phase(state, parity, rng)
    state = moves.propose_split_or_merge(state, rng)
    return moves.attach_some(state, 1, rng)


def state_of(state):
    """The tree as the reference has it."""
    names = np.where(state.is_old, state.tree.ids, -1).tolist()

    def node(at):
        children = [node(c) for c in np.flatnonzero(state.tree.parent == at)]
        rows = np.flatnonzero(state.place == at).tolist()
        name = names[at] if names[at] >= 0 else None
        return reference.canonical(name, rows, children)

    return node(0)


def circle(epoch, x):
    past = dict(enumerate(PAST)) if epoch == "later" else None
    return reference.Circle(x, BETA, KAPPA, past)


def start_of(epoch):
    if epoch == "first":
        return (None, (), ())
    return (0, (), ((1, (), ()), (2, (), ())))


def tree_log_prior(tree, epoch):
    past = (HISTORY, BELOW) if epoch == "later" else ({}, {})
    return reference.log_prior(tree, *past, ALPHA, GAMMA)


@cache
def posterior(epoch):
    """All trees with few nodes, and their probabilities given one of them."""
    states = reference.grow(len(ANGLES), MOST_NODES[epoch], start_of(epoch))
    density = circle(epoch, on_circle(ANGLES))
    log_p = [tree_log_prior(t, epoch) + density.log_evidence(t) for t in states]
    return states, np.exp(np.array(log_p) - logsumexp(log_p))


def run_chain(state, move, n_draws, seed):
    """States by the number of each draw."""
    rng, result = np.random.default_rng(seed), []
    for _ in range(n_draws):
        state = move(state, rng)
        result.append(state_of(state))
    return result


def check_trees(result, states, p):
    """Raise unless trees have their frequencies, one by one and by kinds.

    A kind has so many nodes, rows at the root and children of it.
    """
    number = {state: at for at, state in enumerate(states)}
    draws = np.array([number.get(state, -1) for state in result])
    check_frequencies(draws, p)
    kinds = [(reference.size(s), len(s[1]), len(s[2])) for s in states]
    check_frequencies(
        draws, p, np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
    )


# -- what the references say of each other ---------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("epoch", MOST_NODES)
def test_log_prior_is_that_of_rows_coming_one_by_one(epoch):
    rng, state = np.random.default_rng(0), broadcast_of(epoch)
    met = set()
    for number in range(200):
        state = run_phase(state, number % 2, rng)
        tree = state_of(state)
        met.add(tree)
        assert state.log_prior() == pytest.approx(tree_log_prior(tree, epoch), abs=1e-9)
    assert len(met) > 10


@pytest.mark.parametrize("epoch", MOST_NODES)
def test_log_joint_is_near_that_of_directions_on_a_grid(epoch):
    rng, state = np.random.default_rng(0), broadcast_of(epoch)
    density = circle(epoch, on_circle(ANGLES))
    n = len(ANGLES)
    errors = []
    for number in range(40):
        state = run_phase(state, number % 2, rng)
        tree = state_of(state)
        exact = tree_log_prior(tree, epoch) + density.log_evidence(tree)
        exact += n * np.log(2 * np.pi)
        errors.append(abs(n * log_joint_of(state) - exact))
    assert np.mean(errors) < 0.2
    assert min(errors) < 1e-3  # a tree whose root has everything is exact


def test_a_first_root_is_anywhere_and_a_later_one_near_its_past():
    first, later = (broadcast_of(epoch, on_circle([1.0])) for epoch in MOST_NODES)
    assert (first.prior_natural(0) == 0.0).all()
    np.testing.assert_allclose(later.prior_natural(0), KAPPA * PAST[0])
    # So one row is anywhere, too, and a root without a past tells nothing of kappa0.
    assert log_joint_of(first) == pytest.approx(first.log_prior(), abs=1e-6)
    nothing, one = np.zeros((1, 4)), PAST[0] @ later.directions[0]
    assert [result.tolist() for result in prior_cosines(nothing, PRIORS)] == [[0.0]] * 2
    lengths, products = prior_cosines(np.array([[0.0, one, 0.0, 1.0]]), PRIORS)
    assert (lengths[0], products[0]) == (1.0, one)


def test_past_weight_is_that_of_the_largest_density(seed):
    """The root has a past and no parent; a new node says nothing of the weight."""
    rng = np.random.default_rng(seed)
    state = broadcast_of("later")
    directions = on_circle(np.arctan2(*PAST.T[::-1]) + rng.normal(0.0, 0.6, size=3))
    state = replace(
        state,
        directions=Directions.of(directions),
        past=np.array([0, 1, -1]),
        priors=replace(PRIORS, parent_weight=2.0),
    )
    products = np.zeros((3, 4))
    given = state.directions.drawn, state.directions.row, state.tree.parent
    prior_products(np.arange(3), *given, state.previous, state.past, products)

    def log_density(weight):
        other = replace(state, priors=replace(state.priors, past_weight=weight))
        naturals = np.array([other.prior_natural(at) for at in range(3)])
        lengths = np.linalg.norm(naturals, axis=1)
        return (naturals * directions).sum() + log_normaliser(lengths, 2).sum()

    weight = best_past_weight(state, products)
    assert 0.02 / KAPPA * 1.01 < weight < 1e6
    best = log_density(weight)
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert log_density(factor * weight) < best


# -- sweeps ----------------------------------------------------------------------------


@each_epoch
def test_frequencies_are_those_of_the_posterior(n_draws, epoch, seed):
    """Trees have the frequencies that enumeration gives."""
    result = run_chain(broadcast_of(epoch), sweep, n_draws, seed)
    check_trees(result, *posterior(epoch))


def at_mode(natural, rng):
    return natural / np.linalg.norm(natural)


# -- proposals alone, the direction of the root given ----------------------------------


def in_children(parents, place, angles):
    """Rows at new nodes below a root without rows; all directions at the first axis."""
    tree = Tree.from_parents(parents)
    n = len(tree)
    return replace(
        broadcast_of("first", on_circle(angles)),
        tree=tree,
        place=np.array(place, dtype=np.int32),
        directions=Directions.of(np.tile(AXIS, (n, 1))),
        history=np.zeros(n),
        past=np.full(n, -1),
        gone=np.zeros(n),
        gone_sums=sp.csr_array((n, 2)),
    )


def check_proposals(state, propose, states, n_draws):
    """Raise unless trees have the frequencies that enumeration gives."""
    density = circle("first", state.rows.X.toarray())
    log_p = []
    for tree in states:
        result = tree_log_prior(tree, "first")
        for child in tree[2]:
            result += np.log(density.message(child, AXIS[None])[0])
        log_p.append(result)
    p = np.exp(np.array(log_p) - logsumexp(log_p))
    result = run_chain(state, propose, n_draws, 0)
    assert set(result) <= set(states)
    check_trees(result, states, p)


def partitions(rows):
    """All partitions of some rows."""
    if not rows:
        yield []
        return
    for parts in partitions(rows[1:]):
        yield [[rows[0]], *parts]
        for at, part in enumerate(parts):
            yield [*parts[:at], [rows[0], *part], *parts[at + 1 :]]


def labelled_trees(nodes):
    """All trees of a root and of nodes with one row each."""
    states = set()
    for parents in np.ndindex(*[len(nodes) + 1] * len(nodes)):
        try:
            tree = Tree.from_parents([-1, *parents])
        except ValueError:  # a cycle
            continue
        rows = {int(name): int(name) - 1 for name in tree.ids if name}

        def built(at, tree=tree, rows=rows):
            children = [built(c) for c in np.flatnonzero(tree.parent == at)]
            own = [rows[int(tree.ids[at])]] if at else []
            return reference.canonical(None, own, children)

        states.add(built(0))
    return sorted(states, key=repr)


@pytest.mark.weekly
def test_splits_and_merges_have_the_frequencies_alone():
    state = in_children([-1, 0], [1] * 4, [0.0, 0.6, 2.5, 3.0])
    states = [
        reference.canonical(None, (), [(None, tuple(part), ()) for part in parts])
        for parts in partitions([0, 1, 2, 3])
    ]
    assert len(states) == 15
    check_proposals(state, moves.propose_split_or_merge, states, 800)


@pytest.mark.weekly
@pytest.mark.parametrize("n_proposals", [1, 3])
def test_attachments_have_the_frequencies_alone(n_proposals):
    state = in_children([-1, 0, 0, 0], [1, 2, 3], ANGLES)
    states = labelled_trees([1, 2, 3])
    assert len(states) == 16

    def propose(state, rng):
        return moves.attach_some(state, n_proposals, rng)

    check_proposals(state, propose, states, 800)


# -- directions whose children have a past ---------------------------------------------


def check_directions(draw, n_draws=3000):
    """Raise unless mean cosines are those of the density on a grid."""
    state = replace(broadcast_of("later"), prior_concentration=4.0)
    natural, past = np.array([1.0, 0.8]), PAST[1:]
    density = circle("later", state.rows.X.toarray())
    log_p = density.grid @ natural
    for one in past:
        k = 4.0 * np.linalg.norm(density.grid + one, axis=1)
        log_p -= np.log(reference.ive(0, k)) + k
    p = np.exp(log_p - logsumexp(log_p))
    rng, theta, draws = np.random.default_rng(0), AXIS, []
    for _ in range(n_draws):
        theta = draw(state, natural, past, theta, rng)
        draws.append(theta)
    for axis in range(2):
        values = np.array(draws)[:, axis]
        error = values.std() * np.sqrt(4.0 / n_draws)  # draws repeat
        assert abs(values.mean() - p @ density.grid[:, axis]) < 4.0 * error


def test_directions_have_the_density_alone():
    check_directions(model.accept_direction)


# -- Geweke ----------------------------------------------------------------------------


@dataclass
class SamplerState:
    """Everything that the model draws, in three dimensions."""

    tree: SlicedTree

    def draw_words(self, rng):
        theta = self.tree.directions[self.tree.place]
        x = [draw_natural(BETA * one, rng) for one in theta]
        self.tree = replace(self.tree, rows=rows_of(x))


def choose_child(rng, children, n_old, through):
    """Child that a row goes to, None of a new one; old ones stand first."""
    old = [child for child in children if child < n_old]
    for child in old:
        behind = sum(through[other] for other in children if other > child)
        if rng.random() < (1 + through[child]) / (1 + through[child] + GAMMA + behind):
            return child
    others = children[len(old) :]
    shares = np.array([*(through[child] for child in others), GAMMA])
    return [*others, None][rng.choice(len(shares), p=shares / shares.sum())]


def draw_state(rng, epoch="first", n_rows=4):
    """Rows walk down the tree one by one; directions follow."""
    state = broadcast_of(epoch, np.eye(3)[[0] * n_rows])
    n_old, parents = len(state.tree), state.tree.parent.tolist()
    here = state.history.tolist()
    through, at = state.tree.accumulate(state.history).tolist(), []
    for _ in range(n_rows):
        node = 0
        while rng.random() >= (1 + here[node]) / (1 + ALPHA + through[node]):
            through[node] += 1
            children = [child for child, above in enumerate(parents) if above == node]
            child = choose_child(rng, children, n_old, through)
            if child is None:
                child = len(parents)
                parents.append(node)
                through.append(0)
                here.append(0)
            node = child
        through[node] += 1
        here[node] += 1
        at.append(node)
    tree = Tree.from_parents(parents)
    state = state.edited(
        tree,
        tree.positions(np.array(at)).astype(np.int32),
        Directions.of(np.zeros((len(tree), 3))),
    )
    for node, above in enumerate(tree.parent.tolist()):
        natural = KAPPA * state.directions[above] if node else np.zeros(3)
        if state.past[node] >= 0:
            natural = natural + KAPPA * state.previous[state.past[node]]
        state.directions[node] = draw_natural(natural, rng)
    drawn = SamplerState(state)
    drawn.draw_words(rng)
    return drawn


def statistics(state):
    tree = state.tree
    theta, x = tree.directions[tree.place], tree.rows.X.toarray()
    depth, masses = tree.tree.depth, tree.masses
    same = (tree.place[:, None] == tree.place).sum()
    cosines = (theta * x).sum(axis=1)
    parents = tree.directions[np.maximum(tree.tree.parent, 0)]
    near = (tree.directions.gathered() * parents).sum(axis=1)  # one of the root
    root = tree.directions[0]  # its past, if it has one, is the first axis
    return {
        "nodes": len(tree.tree),
        "depth": depth.max(),
        "mean-depth": depth[tree.place].mean(),
        "same": same,
        "root": masses[0],
        "largest": masses.max(),
        "singletons": (masses == 1).sum(),
        "empty": (masses == 0).sum(),
        "cosine": cosines.mean(),
        "least-cosine": cosines.min(),
        "square-cosine": (cosines**2).mean(),
        "near": near.mean(),
        "far": near.min(),
        "root-axis": root[0],
        "root-square": root[0] ** 2,
        "root-other": root[1],
        "root-pull": (x @ root).mean(),
        "resultant": np.linalg.norm(x.sum(axis=0)),
        "axis": x[:, 0].mean(),
        "pairs": (x @ x.T).mean(),
        "leaves": len(tree.tree.leaves),
        "first": depth[tree.place[0]],
    }


def make_move(state, rng):
    return SamplerState(sweep(state.tree, rng))


def check_joint(epoch, n_draws, seed=0):
    draw = partial(draw_state, epoch=epoch)
    check_joint_distribution(draw, statistics, make_move, n_draws, seed)


@pytest.mark.weekly
@pytest.mark.parametrize("epoch", MOST_NODES)
def test_sweeps_keep_the_joint_distribution(epoch):
    check_joint(epoch, 800)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("wrong", "n_draws"),
    [((moves, "draw_natural", at_mode), 800)],
)
def test_wrong_sweeps_do_not_keep_it(wrong, n_draws, monkeypatch):
    monkeypatch.setattr(*wrong)
    with pytest.raises(AssertionError):
        check_joint("first", n_draws)
