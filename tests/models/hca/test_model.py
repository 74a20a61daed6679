"""The globals of component trees: transcriptions, exact steps, evidence, limits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import subspace_angles
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from reference import hca as reference
from reference.ncrp_topics import sticks_term
from skbnp.components.tree_sticks import log_stub_priors, stick_parameters
from skbnp.inference.executor import Executor
from skbnp.models.hca import local
from skbnp.models.hca import state as frames
from skbnp.models.hca.local import PRUNE, coordinates, log_density, sums, update_local
from skbnp.models.hca.model import (
    Model,
    convert,
    coordinate_ascent,
    expand,
    update_centres,
    update_masses,
    update_means,
    update_noise,
    update_variances,
)
from skbnp.models.hca.moves import path_of_directions
from skbnp.models.hca.state import (
    Frame,
    State,
    Stats,
    elbo_terms,
    equations,
    mean_paths,
    paths,
)
from skbnp.trees import Tree

#: 0 above 1, 2, 3; 1 above 4, 5; 2 above 6; nothing below 3. Siblings 5, 4.
TREE = Tree([0, 1, 5, 4, 2, 6, 3], [0, 1, 2, 2, 1, 2, 1])
N_FEATURES = 4
#: Many masses and a tree with stubs of all depths.
FRAME = Frame(np.full(N_FEATURES, 0.5), 1.0)
MODEL = Model(3, 0.7, 5.0, FRAME, noise_shape=2.0, noise_rate=1.5)
SERIAL = Executor(1)


@pytest.fixture(autouse=True)
def all_stubs(monkeypatch):
    """Leave no stub out."""
    monkeypatch.setattr(local, "PRUNE", np.inf)


def names_of(tree):
    """Nodes as tuples of ids from the root."""
    return [tuple(tree.path_to(node).tolist()) for node in tree.ids]


def random_state(rng, tree=TREE, n_features=N_FEATURES):
    n = len(tree)
    return State(
        tree,
        rng.normal(size=(n, n_features)),
        rng.gamma(2.0, 0.1, size=n),
        rng.gamma(0.5, 4.0, size=n),
        np.append(0.0, 2.0 * rng.normal(size=n - 1)),
        np.append(0.0, rng.gamma(2.0, 0.1, size=n - 1)),
        rng.normal(size=n_features),
        0.3,
        7.0,
        4.0,
    )


def data(rng, n_rows=9, n_features=N_FEATURES):
    """Rows along one of three directions, on one side of the mean."""
    directions = rng.normal(size=(3, n_features)) * 3.0
    rows = rng.exponential(size=(n_rows, 1)) * directions[rng.integers(3, size=n_rows)]
    return rows + rng.normal(size=rows.shape) * 0.5


def say(model, state, X):
    """What rows say, and its sums."""
    memo = update_local(paths(model, state), state.tree, X, model.frame, SERIAL)
    return memo, sums(memo, X, state.tree, model.frame, SERIAL)


def slow_parts(model, state):
    """Names of stubs, their paths, their log priors, mean and noise, as in the twin."""
    names = names_of(state.tree)
    pairs = zip(state.loadings, state.loading_variances, strict=True)
    loadings = dict(zip(names, pairs, strict=True))
    routes = reference.stub_loadings(
        names, loadings, model.n_levels, model.loading_variance
    )
    a, b = stick_parameters(state.tree, state.stub_masses, model.concentration)
    log_prior = log_stub_priors(
        state.tree, a, b, model.concentration, model.n_levels
    )  # compared with all their paths in test_ncrp_topics
    mean, noise = (
        (state.mean, state.mean_variance),
        (state.noise_shape, state.noise_rate),
    )
    pairs = zip(state.centres, state.centre_variances, strict=True)
    centres = reference.stub_centres(
        names,
        dict(zip(names, pairs, strict=True)),
        model.n_levels,
        model.centre_variance,
    )
    return names, loadings, routes, centres, log_prior, mean, noise


def slow_steps(model, state, X):
    _, _, routes, centres, log_prior, mean, noise = slow_parts(model, state)
    return [
        reference.row_step(row, routes, centres, log_prior, mean, noise)
        for row in model.frame.enter(X)
    ]


# Transcriptions -----------------------------------------------------------------------


def test_rows_say_what_the_transcription_says(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng)
    memo, _ = say(MODEL, state, X)
    one, other = np.triu_indices(3)
    for n, (q, moments, bound) in enumerate(slow_steps(MODEL, state, X)):
        entries = slice(memo.limits[n], memo.limits[n + 1])
        assert memo.stubs[entries].tolist() == TREE.ids.tolist()
        assert_allclose(memo.shares[entries], q, rtol=1e-9)
        assert_allclose(memo.bounds[n], bound, rtol=1e-11)
        for mean, second, (x, cov) in zip(
            memo.means[entries], memo.moments[entries], moments, strict=True
        ):
            assert_allclose(mean, x, atol=1e-11)
            assert_allclose(second, (cov + np.outer(x, x))[one, other], atol=1e-11)


def test_terms_equal_their_transcriptions(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng)
    memo, stats = say(MODEL, state, X)
    a, b = stick_parameters(TREE, state.stub_masses, MODEL.concentration)
    held = zip(state.loadings, state.loading_variances, strict=True)
    s0 = MODEL.loading_variance
    expected = {
        "loadings": sum(reference.gaussian_term(m, s, s0) for m, s in held),
        "centres": sum(
            reference.gaussian_term([c], r, MODEL.centre_variance)
            for c, r in zip(state.centres[1:], state.centre_variances[1:], strict=True)
        ),
        "mean": reference.gaussian_term(state.mean, state.mean_variance, s0),
        "noise": reference.gamma_term(
            state.noise_shape, state.noise_rate, MODEL.noise_shape, MODEL.noise_rate
        ),
        "sticks": sticks_term(zip(a[1:], b[1:], strict=True), MODEL.concentration),
        "rows": sum(bound for _, _, bound in slow_steps(MODEL, state, X)),
    }
    terms = elbo_terms(MODEL, state, stats)
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        assert_allclose(terms[name], value, rtol=1e-10, err_msg=name)
    assert_allclose(terms["rows"], memo.bounds.sum(), rtol=1e-10)
    # A bound without sum q m is another one.
    wrong = replace(stats, coordinates=np.zeros_like(stats.coordinates))
    assert abs(elbo_terms(MODEL, state, wrong)["rows"] - expected["rows"]) > 0.1


def test_the_bound_holds_for_statistics_of_other_globals(seed):
    """Old statistics say what q(x | c) was, and the bound of it needs no row."""
    rng = np.random.default_rng(seed)
    state, other, X = random_state(rng), random_state(rng), data(rng)
    _, stats = say(MODEL, state, X)
    expected = 0.0
    _, _, routes, centres, log_prior, mean, noise = slow_parts(MODEL, other)
    for row, (q, moments, _) in zip(
        MODEL.frame.enter(X), slow_steps(MODEL, state, X), strict=True
    ):
        for share, e, path, centre, result in zip(
            q, log_prior, routes, centres, moments, strict=True
        ):
            value = reference.row_evidence(row, path, centre, mean, noise, *result)
            expected += share * (e + value - np.log(share))
    assert_allclose(elbo_terms(MODEL, other, stats)["rows"], expected, rtol=1e-10)


# Exact steps --------------------------------------------------------------------------


def test_means_are_the_fixed_point_of_single_updates(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng)
    _, stats = say(MODEL, state, X)
    names, loadings, _, _, _, mean, noise = slow_parts(MODEL, state)
    rows, steps = MODEL.frame.enter(X), slow_steps(MODEL, state, X)
    s0 = MODEL.loading_variance
    for _ in range(400):
        for name in names:
            loadings[name] = reference.loading_update(
                name, names, rows, steps, loadings, mean, noise, s0
            )
        mean = reference.mean_update(names, rows, steps, loadings, noise, s0)
    sums_ = equations(TREE, stats)
    new = update_variances(MODEL, update_means(MODEL, state, sums_), sums_)
    new = update_centres(MODEL, new, sums_)
    for place, name in enumerate(names[1:], start=1):
        centre = reference.centre_update(name, names, steps, MODEL.centre_variance)
        held = new.centres[place], new.centre_variances[place]
        assert_allclose(held, centre, rtol=1e-9, atol=1e-9)
    assert_allclose(new.loadings, [loadings[name][0] for name in names], atol=1e-7)
    variances = [loadings[name][1] for name in names]
    assert_allclose(new.loading_variances, variances, rtol=1e-10)
    assert_allclose(new.mean, mean[0], atol=1e-7)
    assert_allclose(new.mean_variance, mean[1], rtol=1e-10)
    # The mean cannot move without sum q m.
    wrong = equations(
        TREE, replace(stats, coordinates=np.zeros_like(stats.coordinates))
    )
    with pytest.raises(AssertionError):
        assert_allclose(update_means(MODEL, state, wrong).mean, mean[0], atol=1e-3)


def bounds_of_steps(rng, change=lambda stats: stats, n_passes=8):
    """Bounds after each exact step, one list."""
    state, X = random_state(rng), data(rng, 40)
    result = []
    for _ in range(n_passes):
        _, stats = say(MODEL, state, X)
        result.append(MODEL.bound(state, stats))
        wrong = change(stats)
        state = replace(state, stub_masses=wrong.stub_masses)
        result.append(MODEL.bound(state, stats))
        for step in (update_means, update_variances, update_centres):
            state = step(MODEL, state, equations(state.tree, wrong))
            result.append(MODEL.bound(state, stats))
        held = equations(state.tree, wrong)
        state = update_noise(MODEL, state, wrong, held)
        result.append(MODEL.bound(state, stats))
        state, stats = update_masses(state, stats)
        result.append(MODEL.bound(state, stats))
    return np.array(result)


def test_no_exact_step_lowers_the_bound(seed):
    result = bounds_of_steps(np.random.default_rng(seed))
    assert np.diff(result).min() > -1e-9 * np.abs(result).max()


def test_expansion_does_not_lower_the_bound_and_keeps_its_promise(seed):
    """Its bound is that of rows with other coordinates; a visit can only raise it."""
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng, 40)
    gains = []
    for _ in range(5):
        _, stats = say(MODEL, state, X)
        state, stats = coordinate_ascent(MODEL, state, stats)
        before = MODEL.bound(state, stats)
        result = expand(MODEL, state, stats)
        _, fresh = say(MODEL, result, X)
        gains.append(MODEL.bound(result, fresh) - before)
        _, plain = say(MODEL, state, X)
        gains.append(MODEL.bound(result, fresh) - MODEL.bound(state, plain))
        state = result
    assert min(gains[::2]) > -1e-9 * abs(before)
    assert max(gains[1::2]) > 0.1  # faster than without


def test_conversion_does_not_lower_the_bound_and_needs_no_visit(seed):
    """Statistics in other coordinates are those of rows in other coordinates."""
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng, 40)
    memo, stats = say(MODEL, state, X)
    state, stats = coordinate_ascent(MODEL, state, stats)
    result, changed, change = convert(MODEL, state, stats)
    assert MODEL.bound(result, changed) > MODEL.bound(state, stats) + 0.1
    text = memo.changed(state.tree, change)
    again = sums(text, X, state.tree, MODEL.frame, SERIAL)
    for name in Stats.__slots__:
        held = getattr(again, name)
        assert_allclose(
            getattr(changed, name), held, rtol=1e-9, atol=1e-9, err_msg=name
        )
    # The bound is that of rows whose q(x | c) is another.
    expected = 0.0
    _, _, routes, centres, log_prior, mean, noise = slow_parts(MODEL, result)
    one, other = np.triu_indices(3)
    for n, row in enumerate(MODEL.frame.enter(X)):
        for entry in range(text.limits[n], text.limits[n + 1]):
            (stub,) = result.tree.positions([text.stubs[entry]])
            second = np.zeros((3, 3))
            second[one, other] = second[other, one] = text.moments[entry]
            x = text.means[entry]
            value = reference.row_evidence(
                row,
                routes[stub],
                centres[stub],
                mean,
                noise,
                x,
                second - np.outer(x, x),
            )
            share = text.shares[entry]
            expected += share * (log_prior[stub] + value - np.log(share))
    assert_allclose(elbo_terms(MODEL, result, changed)["rows"], expected, rtol=1e-9)


# Evidence and limits ------------------------------------------------------------------


def fitted(model, state, X, n_passes=200):
    for _ in range(n_passes):
        _, stats = say(model, state, X)
        state, stats = coordinate_ascent(model, state, stats)
        state = expand(model, state, stats)
    _, stats = say(model, state, X)
    state, stats = coordinate_ascent(model, state, stats)
    return state, stats


def test_bound_is_below_the_evidence_of_one_path(seed):
    """One level, one feature: the evidence is an integral over loading and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3, 1)) * 2.0 + 1.0
    model = Model(1, 1.0, 4.0, Frame(np.zeros(1), 1.0), noise_shape=2.0, noise_rate=1.0)
    state, stats = fitted(model, path_of_directions(model, X, rng), X)
    w = np.linspace(-12.0, 12.0, 801)[:, None]
    log_tau = np.linspace(-7.0, 5.0, 601)[None]
    tau = np.exp(log_tau)
    spread = w**2 + 1.0 / tau  # given loading and noise; the mean adds s0 11'
    t, n = X[:, 0], len(X)
    quadratic = t @ t / spread - 4.0 * t.sum() ** 2 / (spread * (spread + 4.0 * n))
    log_p = -0.5 * (quadratic + (n - 1) * np.log(spread) + np.log(spread + 4.0 * n))
    log_p -= 0.5 * n * np.log(2.0 * np.pi)
    log_p += -0.5 * w**2 / 4.0 - 0.5 * np.log(2.0 * np.pi * 4.0)
    log_p += reference.log_noise(tau, 2.0, 1.0) + log_tau
    steps = (w[1, 0] - w[0, 0]) * (log_tau[0, 1] - log_tau[0, 0])
    evidence = logsumexp(log_p) + np.log(steps)
    bound = model.bound(state, stats)
    assert evidence - 3.0 < bound < evidence


def test_one_path_is_pca_in_the_limit(seed):
    """Many rows: the space of PPCA is that of PCA, its noise what PCA leaves."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 8)) * 3.0 + 7.0
    X += rng.normal(size=X.shape) * 0.5
    model = Model(3, 1.0, 50.0, Frame.of_rows(X))
    start = path_of_directions(model, X, rng)
    state, _ = fitted(model, start, X, 50)
    rest = X - X.mean(axis=0)
    _, lengths, axes = np.linalg.svd(rest, full_matrices=False)
    angles = subspace_angles(state.loadings.T, axes[:3].T)
    assert angles.max() < 1e-3
    left = np.sum(lengths[3:] ** 2) / len(X) / (8 - 3) / model.frame.scale**2
    assert_allclose(1.0 / state.precision, left, rtol=5e-3)
    assert_allclose(state.mean, 0.0, atol=1e-3)
    # The covariance of rows is that of the model.
    rest /= model.frame.scale
    fit = state.loadings.T @ state.loadings + np.eye(8) / state.precision
    assert_allclose(fit, rest.T @ rest / len(X), atol=0.02 * np.abs(fit).max())


def test_density_of_new_rows_is_a_mixture_of_gaussians(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng)
    result = log_density(mean_paths(MODEL, state), X, MODEL.frame, SERIAL)
    a, b = stick_parameters(TREE, state.stub_masses, MODEL.concentration)
    mean = a / (a + b)
    logs, weights = [], []
    for place, name in enumerate(names_of(TREE)):
        weight = 1.0
        for node in name[1:]:
            (at,) = TREE.positions([node])
            siblings = np.flatnonzero(TREE.parent == TREE.parent[at])
            weight *= mean[at] * np.prod(1.0 - mean[siblings[siblings < at]])
        if len(name) < 3:
            weight *= np.prod(1.0 - mean[place == TREE.parent])
        loadings = state.loadings[TREE.positions(list(name))]
        cov = loadings.T @ loadings + np.eye(N_FEATURES) / state.precision
        own = state.centres[TREE.positions(list(name))]
        centre = state.mean + MODEL.frame.shift + own @ loadings
        logs.append(np.log(weight) + multivariate_normal(centre, cov).logpdf(X))
        weights.append(weight)
    assert_allclose(sum(weights), 1.0, rtol=1e-12)
    assert_allclose(result, logsumexp(logs, axis=0), rtol=1e-10)


# Memos and blocks ---------------------------------------------------------------------


def assert_stats_equal(one, other, rtol=1e-9):
    for name in Stats.__slots__:
        held = getattr(other, name)
        near = {"rtol": rtol, "atol": rtol * max(np.abs(held).max(), 1e-300)}
        assert_allclose(getattr(one, name), held, **near, err_msg=name)


def test_exchange_of_memos_keeps_totals(seed):
    """Totals less what rows said, and what they say now, are those of a fresh visit."""
    rng = np.random.default_rng(seed)
    state, other, X = random_state(rng), random_state(rng), data(rng, 50)
    memo, global_stats = say(MODEL, state, X)
    chosen = np.arange(10, 30)
    stats = sums(memo.take(chosen), X[chosen], TREE, FRAME, SERIAL)
    fresh, now = say(MODEL, other, X[chosen])
    global_stats = global_stats.plus(stats, -1.0).plus(now)
    memo = memo.replaced(chosen, fresh)
    assert_stats_equal(global_stats, sums(memo, X, TREE, FRAME, SERIAL))


def test_stubs_that_cannot_matter_are_left_out(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), 5.0 * data(rng, 50)
    full, all_stats = say(MODEL, state, X)
    monkeypatch.setattr(local, "PRUNE", PRUNE)
    memo, stats = say(MODEL, state, X)
    assert len(memo.stubs) < len(full.stubs) == len(X) * len(TREE)
    assert_allclose(np.add.reduceat(memo.shares, memo.limits[:-1]), 1.0, rtol=1e-12)
    assert_stats_equal(stats, all_stats, rtol=1e-7)
    assert (memo.bounds <= full.bounds + 1e-12).all()


def test_blocks_say_what_all_rows_say(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng, 50)
    _, whole = say(MODEL, state, X)
    monkeypatch.setattr(frames, "BLOCK", 7)
    _, parts = say(MODEL, state, X)
    assert_stats_equal(parts, whole)


def test_coordinates_are_least_squares_on_the_best_path(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng, 50)
    memo, _ = say(MODEL, state, X)
    given = paths(MODEL, state)
    best, result = coordinates(given, memo, X, TREE, FRAME, SERIAL)
    for row, stub, own in zip(X, best, result, strict=True):
        path = TREE.positions(TREE.path_to(int(TREE.ids[stub])))
        rest = FRAME.enter(row) - state.mean
        fit = np.linalg.lstsq(state.loadings[path].T, rest, rcond=None)[0]
        assert_allclose(own[: len(path)], fit, rtol=1e-7)
        assert (own[len(path) :] == 0.0).all()


# Statistics ---------------------------------------------------------------------------


def test_statistics_follow_an_edit_of_the_tree(seed):
    rng = np.random.default_rng(seed)
    state, X = random_state(rng), data(rng, 30)
    _, stats = say(MODEL, state, X)
    merged = stats.reindex_to(TREE, TREE.merge(4, 5), {4: 5})
    (into,), (gone, kept) = TREE.merge(4, 5).positions([5]), TREE.positions([4, 5])
    assert_allclose(merged.moments[into], stats.moments[gone] + stats.moments[kept])
    assert_allclose(merged.products[into], stats.products[gone] + stats.products[kept])
    pruned = stats.reindex_to(TREE, TREE.remove(6))
    (above,), (old, leaf) = TREE.remove(6).positions([2]), TREE.positions([2, 6])
    assert_allclose(
        pruned.stub_masses[above], stats.stub_masses[old] + stats.stub_masses[leaf]
    )
    assert_allclose(pruned.products[above, 2], 0.0)
    assert_allclose(
        pruned.products[above, :2],
        stats.products[old, :2] + stats.products[leaf, :2],
    )
    for moved in (merged, pruned):
        assert_allclose(moved.stub_masses.sum(), len(X))
        assert moved.n_rows == len(X)
