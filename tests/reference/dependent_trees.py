"""Slow references for dependent trees of Hu et al. (2015), in small dimensions.

Transcriptions of formulas: nodes are numbers, `children` lists of those of each node in
order, and Bessel functions are SciPy's.
"""

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaln, ive, psi


def log_normaliser(k, dimension):
    v = dimension / 2 - 1
    return v * np.log(k) - np.log(ive(v, k)) - k - dimension / 2 * np.log(2 * np.pi)


def bessel_ratio(k, dimension):
    return ive(dimension / 2, k) / ive(dimension / 2 - 1, k)


def children_of(parent):
    return [
        [c for c, p in enumerate(parent) if p == node] for node in range(len(parent))
    ]


def below(children, values, node):
    """Sum of values strictly below a node."""
    return sum(values[c] + below(children, values, c) for c in children[node])


def stick_parameters(children, masses, history, stop, child):
    """Pairs of posterior and prior of the stop sticks and of the child sticks."""
    both = masses + history

    def through(values, node):
        return values[node] + below(children, values, node)

    stops, chosen = {}, {}
    for node in range(len(masses)):
        stops[node] = [
            (1 + values[node], stop + below(children, values, node))
            for values in (both, history)
        ]
        for place, one in enumerate(children[node]):
            later = children[node][place + 1 :]
            chosen[one] = [
                (
                    1 + through(values, one),
                    child + sum(through(values, other) for other in later),
                )
                for values in (both, history)
            ]
    return stops, chosen


def logs(a, b):
    return psi(a) - psi(a + b), psi(b) - psi(a + b)


def log_weights(children, masses, history, stop, child):
    """E log pi of each node, along its path."""
    stops, chosen = stick_parameters(children, masses, history, stop, child)
    result = np.zeros(len(masses))

    def walk(node, log_reach):
        stay, leave = logs(*stops[node][0])
        result[node] = log_reach + stay
        passed = 0.0
        for one in children[node]:
            take, skip = logs(*chosen[one][0])
            walk(one, log_reach + leave + passed + take)
            passed += skip

    walk(0, 0.0)
    return result


def stick_terms(children, masses, history, stop, child):
    """Sum over sticks of E log p - E log q."""
    stops, chosen = stick_parameters(children, masses, history, stop, child)
    total = 0.0
    for q, p in [*stops.values(), *chosen.values()]:
        taken, left = logs(*q)
        total += (p[0] - 1) * taken + (p[1] - 1) * left - betaln(*p)
        total -= (q[0] - 1) * taken + (q[1] - 1) * left - betaln(*q)
    return total


def direction_terms(parent, means, previous, above, prior_concentration, k1, k2):
    """Sum over nodes of E log p(theta) - E log q(theta), given their parents."""
    dimension, total = len(above), 0.0
    for node, over in enumerate(parent):
        around = above if over < 0 else means[over]
        weight = k1 if np.any(around) else 0.0
        past = previous[node]
        square = weight**2
        if np.any(past):
            square += k2**2 + 2 * weight * k2 * around @ past
        rho = prior_concentration * np.sqrt(square)
        total += log_normaliser(rho, dimension)
        total += prior_concentration * (weight * around + k2 * past) @ means[node]
        spread = (prior_concentration * weight) ** 2 * (1 - around @ around)
        total -= conjugate(np.linalg.norm(means[node]), spread, dimension)
    return total


def local_step(rows, log_weights, means, concentration):
    """q(z) of dense rows, (n_rows, n_nodes); rows of zeros are at no node."""
    q = np.zeros((len(rows), len(means)))
    for at, row in enumerate(rows):
        if np.any(row):
            scores = log_weights + concentration * means @ row
            q[at] = np.exp(scores - scores.max())
            q[at] /= q[at].sum()
    return q


def loss(one, other):
    """Entropy that rows lose when two of their nodes are one."""

    def f(x):
        return x * np.log(x) if x > 0 else 0.0

    pairs = zip(one, other, strict=True)
    return sum(f(a + b) - f(a) - f(b) for a, b in pairs)


def spread_normaliser(y, spread, dimension):
    """h(y; v)."""
    return -log_normaliser(np.sqrt(y * y + spread), dimension)


def longest(length, spread, dimension):
    """Some y with g(y^2 + v) y above a length."""
    y, k = 1.0, np.hypot(1.0, spread**0.5)
    while bessel_ratio(k, dimension) * y <= length * k:
        y *= 2.0
        k = np.hypot(y, spread**0.5)
    return y


def natural_length(length, spread, dimension):
    """The y with g(y^2 + v) y = e."""
    spread = max(spread, 0.0)

    def excess(y):
        k = np.hypot(y, spread**0.5)
        return bessel_ratio(k, dimension) * y / k - length

    top = longest(length, spread, dimension)
    return brentq(excess, 1e-9 * top, top, xtol=1e-14 * top, rtol=1e-14)


def pull_on_length(length, spread, dimension):
    """Return g(u) = A(k) / k where g(u) y = e, u = k^2 = y^2 + v."""
    k = np.hypot(natural_length(length, spread, dimension), max(spread, 0.0) ** 0.5)
    return bessel_ratio(k, dimension) / k


def conjugate(length, spread, dimension):
    """h*(e; v), the maximum of y e - h(y; v) over y."""
    spread = max(spread, 0.0)
    top = longest(length, spread, dimension)
    result = minimize_scalar(
        lambda y: spread_normaliser(y, spread, dimension) - y * length,
        bounds=(0.0, top),
        method="bounded",
        options={"xatol": 1e-10 * top},
    )
    return -result.fun


def prior_slope(kappa, lengths, products, mean_lengths, spreads, dimension):
    """Slope in kappa of sum log C(kappa r) + kappa d - h*(|E|; kappa^2 w)."""
    total = 0.0
    for r, d, e, w in zip(lengths, products, mean_lengths, spreads, strict=True):
        total += d - r * bessel_ratio(kappa * r, dimension)
        total += kappa * w * pull_on_length(e, kappa**2 * w, dimension)
    return total


def worth_above(natural, spread, lengths_below, pull, dimension):
    """n e - h*(e; v) - sum_c h*(e_c; K^2 (1 - e^2)) at its maximum over e."""
    return best_worth(natural, spread, lengths_below, pull, dimension)[0]


def best_worth(natural, spread, lengths_below, pull, dimension):
    """Do as `worth_above`, and return the length e, too."""

    def loss(e):
        own = natural * e - conjugate(e, spread, dimension)
        spread_below = pull**2 * (1.0 - e**2)
        return -own + sum(conjugate(c, spread_below, dimension) for c in lengths_below)

    options = {"xatol": 1e-9}
    bounds = 1e-4, 1.0 - 1e-6
    best = minimize_scalar(loss, bounds=bounds, method="bounded", options=options)
    return -best.fun, best.x


def collapsed_step(rows, log_weights, means, naturals, shares, spreads, concentration):
    """q(z) of dense rows, their own parts left out of natural parameters."""
    dimension = means.shape[1]
    own = local_step(rows, log_weights, means, concentration)

    def h(vectors):
        return spread_normaliser(
            shares * np.linalg.norm(vectors, axis=1), spreads, dimension
        )

    q = np.zeros_like(own)
    for at, row in enumerate(rows):
        if np.any(row):
            without = naturals - concentration * np.outer(own[at], row)
            gain = h(without + concentration * row) - h(without)
            scores = log_weights + gain / shares
            q[at] = np.exp(scores - scores.max())
            q[at] /= q[at].sum()
    return q


def natural_parameter(
    node, parent, means, previous, above, centroid, sums, beta, k0, k1, k2
):
    """What priors, rows and children say in the direction of a node."""
    dimension = means.shape[1]
    up = above if node == 0 else means[parent[node]]
    total = k0 * (k1 * up + k2 * previous[node]) + beta * sums[node]
    if node == 0:
        total = total + beta * centroid
    for child in np.flatnonzero(np.asarray(parent) == node):
        total = total + k0 * k1 * means[child]
        if previous[child].any():
            both = k1 * means[node] @ previous[child] * k2
            rho = k0 * np.sqrt(k1**2 + k2**2 + 2.0 * both)
            slope = bessel_ratio(rho, dimension) / rho
            total = total - slope * k0**2 * k1 * k2 * previous[child]
    return total


def attached_worth(
    node,
    into,
    parent,
    means,
    previous,
    above,
    centroid,
    sums,
    beta,
    k0,
    k1,
    k2,
    masses,
    history,
    stop,
    child,
):
    """Terms of the bound where a node goes behind the children of a parent.

    That is, beta s'E + directions + log evidence of the sticks, once the direction of
    the node has followed. If it stays where it is, `into` is None.
    """
    dimension, parent, means = len(above), list(parent), means.copy()
    children = children_of(parent)
    if into is not None:
        children[parent[node]].remove(node)
        children[into].append(node)
        parent[node] = into
    given = parent, means, previous, above, centroid, sums, beta, k0, k1, k2
    natural, up = natural_parameter(node, *given), means[parent[node]]
    spread = (k0 * k1) ** 2 * (1 - up @ up)
    size, below = np.linalg.norm(natural), means[children[node]]
    lengths = np.linalg.norm(below, axis=1)
    length = best_worth(size, spread, lengths, k0 * k1, dimension)[1]
    means[node] = length * natural / size
    total = beta * np.sum(sums * means)
    total += direction_terms(parent, means, previous, above, k0, k1, k2)
    sticks = stick_parameters(children, masses, history, stop, child)
    for q, p in [pair for kind in sticks for pair in kind.values()]:
        total += betaln(*q) - betaln(*p)
    return total


def ranked_merges(parent, nodes, units, heavy, gains, n_targets, least):
    """Pairs of nodes whose merge is judged, by sources, those of most gain first.

    Each into a sibling that is heavier, or as heavy and earlier, or into a parent of
    its unit that is no lighter; the best of each, if they gain more than `least`.
    """
    result = []
    for node in sorted(set(nodes) - {0}):
        above, targets = parent[node], []
        if units[node] == units[above] and heavy[node] <= heavy[above]:
            targets.append(above)
        for other in nodes:
            is_sibling = other not in (0, node) and parent[other] == above
            if is_sibling and (heavy[node], -node) < (heavy[other], -other):
                targets.append(other)
        targets.sort(key=lambda target: (-gains[node, target], target))
        best = targets[:n_targets]
        result += [(node, target) for target in best if gains[node, target] > least]
    return result
