"""Dependent trees: the bound, its updates, rows, epochs, merges."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from checks.epochs import (
    DIMENSION,
    PRIORS,
    TREE,
    pairs_of,
    pasts_of,
    random_rows,
    random_state,
    stats_of,
    unit,
)
from reference import dependent_trees as reference
from skbnp.distributions import log_normaliser
from skbnp.models.dependent_trees.epoch import EpochModel
from skbnp.models.dependent_trees.local import NodeTable, log_gain, update_local
from skbnp.models.dependent_trees.moves import merge_gain, merged
from skbnp.models.dependent_trees.state import (
    EpochState,
    next_epoch,
    no_past,
    objective,
    prior_concentrations,
    sort_siblings,
    windowed,
)
from skbnp.models.dependent_trees.updates import (
    learn_concentration,
    learn_past_weight,
    learn_prior_concentration,
    natural_of,
    update_means,
    update_rows,
    update_sticks,
)
from skbnp.trees import Tree


def random_stats(rng, state):
    """Of rows that do not fit the state."""
    X = random_rows(rng)
    q = rng.dirichlet(np.full(len(state.tree), 0.3), size=X.shape[0])
    return stats_of(q, X.toarray())


def value(state, stats, priors=PRIORS):
    return sum(objective(state, stats, priors).values())


# The bound ----------------------------------------------------------------------------


@pytest.mark.parametrize("past", [False, True])
def test_terms_are_those_of_the_reference(past, seed):
    rng = np.random.default_rng(seed)
    state = random_state(rng, past=past)
    stats = random_stats(rng, state)
    result = objective(state, stats, PRIORS)
    children = reference.children_of(TREE.parent.tolist())
    sticks = (children, state.masses, state.history, 0.4, 0.7)
    beta = state.concentration
    rows = stats.masses @ reference.log_weights(*sticks)
    rows += stats.masses.sum() * reference.log_normaliser(beta, DIMENSION)
    rows += beta * (stats.sums.toarray() * state.means).sum()
    assert_allclose(result["rows"], rows, rtol=1e-11)
    assert_allclose(result["sticks"], reference.stick_terms(*sticks), rtol=1e-10)
    directions = reference.direction_terms(
        TREE.parent,
        state.means,
        pasts_of(state),
        state.above,
        state.prior_concentration,
        1.1,
        0.8,
    )
    uniform = gammaln(DIMENSION / 2) - np.log(2.0) - DIMENSION / 2 * np.log(np.pi)
    directions += reference.log_normaliser(beta, DIMENSION) - uniform
    directions += beta * state.centroid @ state.means[0]
    assert_allclose(result["directions"], directions, rtol=1e-9)
    assert result["entropy"] == stats.entropies.sum()


def test_bound_is_the_evidence_of_one_row_at_one_node(seed):
    """One node, one row: log of the integral of C(beta) exp(beta theta'x) p(theta)."""
    rng = np.random.default_rng(seed)
    above = unit(rng.standard_normal(DIMENSION))
    row = unit(rng.standard_normal(DIMENSION))
    state = EpochState(
        Tree(),
        np.ones(1),
        np.zeros(1),
        np.zeros((1, DIMENSION)),
        np.ones(1),
        *no_past(1, DIMENSION),
        above,
        np.zeros(DIMENSION),
        30.0,
        12.0,
    )
    stats = stats_of(np.ones((1, 1)), row[None])
    state = update_means(state, stats, PRIORS)
    natural = 30.0 * row + 12.0 * 1.1 * above
    evidence = reference.log_normaliser(30.0, DIMENSION)
    evidence += reference.log_normaliser(12.0 * 1.1, DIMENSION)
    evidence -= reference.log_normaliser(np.linalg.norm(natural), DIMENSION)
    stay = 1.0 / (1.0 + PRIORS.stop_concentration)
    # Here q(theta) and q(nu) are the exact posteriors.
    assert_allclose(value(state, stats), evidence + np.log(stay), rtol=1e-10)


# Updates ------------------------------------------------------------------------------


def one_round(state, X, *, first=True):
    """All updates in turn; the objective after each, by name."""
    _, stats = update_local(NodeTable.of(state, PRIORS), X)
    yield "update_local", state, stats
    state = update_sticks(state, stats)
    yield "sticks", state, stats
    state = update_means(state, stats, PRIORS)
    yield "means", state, stats
    state = learn_concentration(state, stats)
    yield "concentration", state, stats
    state = learn_prior_concentration(state, PRIORS)
    yield "prior concentration", state, stats
    if first:
        state, stats = sort_siblings(state, stats)
        yield "order", state, stats


def check_ascent(state, X, n_rounds=6, *, first=True):
    """No update lowers the objective; returns the last state."""
    before = -np.inf
    for _ in range(n_rounds):
        for name, *after in one_round(state, X, first=first):
            bound = value(*after)
            assert bound >= before - 1e-9 * abs(bound), name
            before = bound
        state, stats = after
    return state, stats


def fresh_state(rng, X, dimension=DIMENSION):
    """A first epoch: nodes begin near some rows."""
    state = random_state(rng, dimension=dimension, past=False)
    rows = X.toarray()[rng.choice(np.arange(1, X.shape[0]), len(TREE))]
    state.means[:] = 0.9 * rows
    return replace(
        state,
        masses=np.zeros(len(TREE)),
        above=np.zeros(dimension),
        centroid=unit(rows.mean(axis=0).astype(float)),
    )


def epochs(rng, n_epochs, dimension=DIMENSION, window=2):
    """Learn some epochs in turn; checks the ascent within each."""
    topics = unit(rng.standard_normal((5, dimension)) + 1.0)
    X = random_rows(rng, dimension=dimension, topics=topics)
    state, past = fresh_state(rng, X, dimension), []
    for epoch in range(n_epochs):
        state, stats = check_ascent(state, X, first=epoch == 0)
        past.append((state.tree.ids, stats.masses))
        topics = unit(topics + 0.1 * rng.standard_normal(topics.shape))
        X = random_rows(rng, dimension=dimension, topics=topics)
        history = windowed(state.tree, past[-window:])
        state = next_epoch(state, history)
    return state


def test_no_update_lowers_the_bound_of_one_epoch(seed):
    epochs(np.random.default_rng(seed), 1)


def test_no_update_lowers_the_bound_of_later_epochs(seed):
    epochs(np.random.default_rng(seed), 4)


def printed_pull(state, priors, places):
    """The constant of the supplement, a = 3 (V/2 - 1) kappa0 k1 k2 / rho."""
    rho = prior_concentrations(state, priors)[places]
    k0 = state.prior_concentration
    a = 3.0 * (state.dimension / 2 - 1) * k0 * priors.parent_weight
    a *= priors.past_weight / rho
    return np.where(state.past[places] >= 0, k0 * a, 0.0)


def test_means_of_a_level_are_at_their_maximum(seed):
    """In a first epoch; others only climb, by a tangent."""
    rng = np.random.default_rng(seed)
    state = random_state(rng, past=False)
    stats = random_stats(rng, state)
    rows = TREE.levels[1]
    update_rows(state, stats, PRIORS, rows)
    best = value(state, stats)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(5):
            means = state.means.copy()
            means[rows] += scale * rng.standard_normal(means[rows].shape)
            means[rows] /= np.maximum(1.0, np.linalg.norm(means[rows], axis=1) + 0.01)[
                :, None
            ]
            assert value(replace(state, means=means), stats) < best
    # As if the direction of a node did not hang on its parent's.
    natural = np.array([natural_of(state, stats, PRIORS, int(row)) for row in rows])
    lengths = np.linalg.norm(natural, axis=1, keepdims=True)
    means = state.means.copy()
    means[rows] = natural / lengths * reference.bessel_ratio(lengths, DIMENSION)
    assert value(replace(state, means=means), stats) < best


def test_pull_of_the_past_is_the_slope_of_the_normaliser(seed):
    rng = np.random.default_rng(seed)
    state = random_state(rng)
    children = np.flatnonzero(TREE.parent == 0)

    def normalisers(step):
        moved = state.means.copy()
        moved[0] += step
        other = replace(state, means=moved)
        rho = prior_concentrations(other, PRIORS)[children]
        return log_normaliser(rho, DIMENSION)

    past = state.past.copy()
    past[children] = -1
    stats, without = random_stats(rng, state), replace(state, past=past)
    bent = natural_of(state, stats, PRIORS, 0) - natural_of(without, stats, PRIORS, 0)
    steps = 1e-5 * np.eye(DIMENSION)
    slopes = [(normalisers(h).sum() - normalisers(-h).sum()) / 2e-5 for h in steps]
    assert_allclose(bent, slopes, rtol=1e-5, atol=1e-6)
    printed = printed_pull(state, PRIORS, children) @ pasts_of(state)[children]
    assert not np.allclose(printed, slopes, rtol=0.5)


@pytest.mark.parametrize("past", [False, True])
def test_concentrations_are_at_their_maximum(past, seed):
    rng = np.random.default_rng(seed)
    X = random_rows(rng)
    state = fresh_state(rng, X)
    state, stats = check_ascent(state, X, 2)
    if past:
        history = windowed(state.tree, [(state.tree.ids, stats.masses)])
        state = next_epoch(state, history)
        state, stats = check_ascent(state, X, 2, first=False)
    state = learn_concentration(state, stats)
    state = learn_prior_concentration(state, PRIORS)
    best = value(state, stats)
    for name in ("concentration", "prior_concentration"):
        for factor in (0.5, 0.99, 1.01, 2.0):
            moved = {name: factor * getattr(state, name)}
            if name == "concentration" or moved[name] >= 0.01 * DIMENSION:
                assert value(replace(state, **moved), stats) < best


def drifted_state(rng):
    """A state with a past at the optimum of all but the past weight."""
    X = random_rows(rng)
    state, stats = check_ascent(fresh_state(rng, X), X, 2)
    history = windowed(state.tree, [(state.tree.ids, stats.masses)])
    return check_ascent(next_epoch(state, history), X, 2, first=False)


def test_past_weight_is_at_its_maximum(seed):
    rng = np.random.default_rng(seed)
    state, stats = drifted_state(rng)
    noise = unit(rng.standard_normal(state.previous.shape))
    state = replace(state, previous=unit(state.previous + 0.8 * noise))
    learned = learn_past_weight(state, PRIORS)
    assert replace(learned, past_weight=PRIORS.past_weight) == PRIORS
    least = 0.01 * DIMENSION / state.prior_concentration
    assert learned.past_weight > 1.01 * least
    best = value(state, stats, learned)
    for factor in (0.5, 0.99, 1.01, 2.0):
        other = replace(learned, past_weight=factor * learned.past_weight)
        assert value(state, stats, other) < best


@pytest.mark.parametrize(("sign", "weight"), [(1.0, 0.8), (-1.0, 0.01)])
@pytest.mark.parametrize("learns_prior_concentration", [True, False])
def test_bound_rises_as_priors_are_learned(
    sign, weight, learns_prior_concentration, seed
):
    """Of a past that says nothing, too: kappa0 falls, and with it what this weighs."""
    state, stats = drifted_state(np.random.default_rng(seed))
    state = replace(state, previous=sign * state.previous)
    epoch = EpochModel(
        replace(PRIORS, past_weight=weight),
        learns_prior_concentration=learns_prior_concentration,
        is_first=False,
    )
    before, given = value(state, stats, epoch.priors), state.prior_concentration
    for _ in range(5):
        epoch, state = epoch.learn_priors(state, stats)
        bound = value(state, stats, epoch.priors)
        assert bound >= before - 1e-9 * abs(bound)
        before = bound
    assert (state.prior_concentration != given) == learns_prior_concentration


def test_prior_concentration_of_a_first_epoch_has_the_mean_product(seed):
    rng = np.random.default_rng(seed)
    X = random_rows(rng)
    state, _ = check_ascent(fresh_state(rng, X), X, 3)
    state = learn_prior_concentration(state, PRIORS)
    k, rows = state.prior_concentration * PRIORS.parent_weight, np.arange(1, 7)
    parents, lengths = state.parents(rows), np.linalg.norm(state.means[rows], axis=1)
    products = np.einsum("ij,ij->i", parents, state.means[rows])
    shortfall = 1.0 - np.linalg.norm(parents, axis=1) ** 2
    given = zip(lengths, k**2 * shortfall, strict=True)
    slopes = np.array([reference.pull_on_length(*one, DIMENSION) for one in given])
    mean = (products + k * slopes * shortfall).mean()
    assert mean > 1.001 * products.mean()  # independent directions have less
    least = 0.01 * DIMENSION * PRIORS.parent_weight
    wanted = max(mean, reference.bessel_ratio(least, DIMENSION))
    assert_allclose(reference.bessel_ratio(k, DIMENSION), wanted, rtol=1e-9)


def test_no_order_of_siblings_is_better(seed):
    rng = np.random.default_rng(seed)
    state = random_state(rng, past=False)
    stats = random_stats(rng, state)
    state = update_sticks(state, stats)
    ordered, follows = sort_siblings(state, stats)
    best = value(ordered, follows)
    assert best >= value(state, stats)
    for keys in permutations(range(3)):
        key = np.zeros(len(TREE))
        key[[1, 4, 6]] = keys
        tree = TREE.sort_siblings(key)
        places = TREE.positions(tree.ids)
        other = state.reordered(tree, places)
        assert value(other, stats.taken(places)) <= best + 1e-9


# Rows ---------------------------------------------------------------------------------


def test_visit_is_that_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), random_rows(rng)
    memo, stats = update_local(NodeTable.of(state, PRIORS), X)
    q = reference.local_step(
        X.toarray(), state.log_weights(PRIORS), state.means, state.concentration
    )
    wanted = stats_of(q, X.toarray())
    assert_allclose(stats.masses, wanted.masses, rtol=1e-4, atol=1e-5)
    assert_allclose(stats.sums.toarray(), wanted.sums.toarray(), atol=1e-3)
    assert_allclose(stats.entropies, wanted.entropies, atol=1e-3)
    assert_allclose(stats.masses.sum(), X.shape[0] - 1, rtol=1e-14)
    assert (memo.weights[0] == 0.0).all()
    wrong = reference.local_step(X.toarray(), np.zeros(7), state.means, 30.0)
    assert not np.allclose(stats.masses, wrong.sum(axis=0), rtol=1e-4, atol=1e-5)


# Predictive density -------------------------------------------------------------------


def circle(n):
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)]), np.full(n, 2 * np.pi / n)


def density_of(state, X):
    """Density of new rows, directions and sticks integrated out."""
    uniform = log_normaliser(0.0, state.dimension)
    return np.exp(log_gain(state, PRIORS, X) + uniform)


def test_predictive_density_integrates_to_one(seed):
    rng = np.random.default_rng(seed)
    state = random_state(rng, dimension=2)
    points, weights = circle(2000)
    density = density_of(state, sp.csr_array(points))
    assert_allclose(weights @ density, 1.0, rtol=1e-9)
    wrong = replace(state, concentrations=1.1 * state.concentrations)
    other = density_of(wrong, sp.csr_array(points))
    assert np.abs(np.log(other / density)).max() > 1e-3


# Epochs -------------------------------------------------------------------------------


def test_next_epoch_remembers_directions_and_masses(seed):
    rng = np.random.default_rng(seed)
    state = random_state(rng)
    history = rng.gamma(1.0, size=7)
    new = next_epoch(state, history)
    places = new.tree.positions(TREE.ids)
    assert_allclose(pasts_of(new)[places], unit(state.means))
    assert_array_equal(new.history[places], history)
    through = new.tree.accumulate(new.history)
    for parent in range(7):
        own = through[new.tree.parent == parent]
        assert (np.diff(own) <= 0.0).all()


# Merges -------------------------------------------------------------------------------


@pytest.mark.parametrize("past", [False, True])
def test_merge_gain_is_the_difference_of_the_bound(past, seed):
    rng = np.random.default_rng(seed)
    state = random_state(rng, past=past)
    stats = random_stats(rng, state)
    state = update_sticks(state, stats)
    before = value(state, stats)
    n_pairs = n_other = 0
    for source, target in pairs_of(TREE):
        new, kept = merged(state, stats, PRIORS, source, target)
        result = merge_gain(state, stats, PRIORS, source, target)
        assert_allclose(kept.entropies.sum(), stats.entropies.sum())
        assert_allclose(kept.masses.sum(), stats.masses.sum())
        assert_allclose(result.gain, value(new, kept) - before, atol=1e-8)
        n_pairs += 1
        places = TREE.positions([source, target])
        if (state.past[places] >= 0).all():  # the other past may be kept
            pasts = state.past.copy()
            pasts[places] = pasts[places[::-1]]
            other = replace(state, past=pasts)
            after = merged(other, stats, PRIORS, source, target)
            swapped = merge_gain(state, stats, PRIORS, source, target, past_of="source")
            assert_allclose(swapped.gain, value(*after) - before, atol=1e-8)
            n_other += abs(swapped.gain - result.gain) > 1e-6
    assert n_pairs == 14
    assert (n_other > 0) == past
