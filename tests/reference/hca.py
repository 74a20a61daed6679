"""Slow references for hierarchical component analysis of Wang and Blei (2009).

Transcriptions of the model of section 4.2: loops over rows, stubs, levels and features.
A loading is a pair of a mean vector and a variance, also where it is the prior's.
"""

import numpy as np
from scipy.special import gammaln, logsumexp, psi


def stub_loadings(names, loadings, n_levels, prior):
    """For each stub, the loading of each level; off the tree it is the prior's.

    `names` are nodes as tuples from the root, `loadings` maps them to (mean, variance).
    """
    n_features = len(next(iter(loadings.values()))[0])
    nothing = np.zeros(n_features), prior
    return [
        [
            loadings[name[: level + 1]] if level < len(name) else nothing
            for level in range(n_levels)
        ]
        for name in names
    ]


def stub_centres(names, centres, n_levels, prior):
    """For each stub, the centre of each level: that of the root is zero, and known.

    `centres` maps nodes to (mean, variance) as `loadings` do.
    """
    return [
        [
            centres[name[: level + 1]] if level < len(name) else (0.0, prior)
            for level in range(n_levels)
        ]
        for name in names
    ]


def squared_residual(row, path, mean, x_mean, x_cov):
    """E |t - sum_l w_l x_l - mu|^2, feature by feature."""
    total = 0.0
    second = x_cov + np.outer(x_mean, x_mean)
    for d in range(len(row)):
        rest = row[d] - mean[0][d]
        total += rest**2 + mean[1]
        for one, (w, s) in enumerate(path):
            total -= 2.0 * rest * w[d] * x_mean[one]
            for other, (v, _) in enumerate(path):
                both = w[d] * v[d] + (s if one == other else 0.0)
                total += both * second[one, other]
    return total


def row_posterior(row, path, centres, mean, noise):
    """q(x | c): its mean and covariance."""
    n_levels, n_features = len(path), len(row)
    precision = np.eye(n_levels)
    target = np.array([centre for centre, _ in centres])
    tau = noise[0] / noise[1]
    for one, (w, s) in enumerate(path):
        target[one] += tau * w @ (row - mean[0])
        precision[one, one] += tau * n_features * s
        for other, (v, _) in enumerate(path):
            precision[one, other] += tau * w @ v
    covariance = np.linalg.inv(precision)
    return covariance @ target, covariance


def row_evidence(row, path, centres, mean, noise, x_mean, x_cov):
    """E log p(t, x | c) - E log q(x | c), for any Gaussian q(x | c)."""
    n_levels, n_features = len(path), len(row)
    tau = noise[0] / noise[1]
    log_tau = psi(noise[0]) - np.log(noise[1])
    log_row = 0.5 * n_features * (log_tau - np.log(2.0 * np.pi))
    log_row -= 0.5 * tau * squared_residual(row, path, mean, x_mean, x_cov)
    log_x = -0.5 * n_levels * np.log(2.0 * np.pi)
    for x, variance, centre in zip(x_mean, np.diag(x_cov), centres, strict=True):
        log_x -= 0.5 * (variance + (x - centre[0]) ** 2 + centre[1])
    entropy = 0.5 * np.linalg.slogdet(2.0 * np.pi * np.e * x_cov)[1]
    return log_row + log_x + entropy


def row_step(row, paths, centres, log_prior, mean, noise):
    """q(c), the moments of q(x | c) and the bound of a row."""
    routes = list(zip(paths, centres, strict=True))
    result = [row_posterior(row, *route, mean, noise) for route in routes]
    scores = [
        e + row_evidence(row, *route, mean, noise, *moments)
        for e, route, moments in zip(log_prior, routes, result, strict=True)
    ]
    bound = logsumexp(scores)
    return np.exp(scores - bound), result, bound


def gaussian_term(mean, variance, prior):
    """E log p - E log q of a vector, entry by entry."""
    total = 0.0
    for m in mean:
        total += -0.5 * np.log(2.0 * np.pi * prior) - 0.5 * (m**2 + variance) / prior
        total += 0.5 * np.log(2.0 * np.pi * np.e * variance)
    return total


def log_noise(tau, shape, rate):
    """Log density of a Gamma distribution."""
    return (
        shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(tau) - rate * tau
    )


def gamma_term(shape, rate, prior_shape, prior_rate):
    """E log p - E log q of the noise precision, from E tau and E log tau."""
    mean, log_mean = shape / rate, psi(shape) - np.log(rate)

    def expected(a, b):
        return a * np.log(b) - gammaln(a) + (a - 1.0) * log_mean - b * mean

    return expected(prior_shape, prior_rate) - expected(shape, rate)


def loading_update(name, names, rows, steps, loadings, mean, noise, prior):
    """q(w) of a node, all other loadings held fixed."""
    level, tau = len(name) - 1, noise[0] / noise[1]
    precision, target = 1.0 / prior, np.zeros(rows.shape[1])
    for row, (q, moments, _) in zip(rows, steps, strict=True):
        for share, (x_mean, x_cov), stub in zip(q, moments, names, strict=True):
            if stub[: level + 1] != name:
                continue
            second = x_cov + np.outer(x_mean, x_mean)
            precision += tau * share * second[level, level]
            part = x_mean[level] * (row - mean[0])
            for other in range(len(stub)):
                if other != level:
                    part = part - second[level, other] * loadings[stub[: other + 1]][0]
            target += tau * share * part
    return target / precision, 1.0 / precision


def mean_update(names, rows, steps, loadings, noise, prior):
    """q(mu), the loadings held fixed."""
    tau = noise[0] / noise[1]
    precision, target = 1.0 / prior, np.zeros(rows.shape[1])
    for row, (q, moments, _) in zip(rows, steps, strict=True):
        precision += tau
        for share, (x_mean, _), stub in zip(q, moments, names, strict=True):
            fit = sum(x_mean[i] * loadings[stub[: i + 1]][0] for i in range(len(stub)))
            target += tau * share * (row - fit)
    return target / precision, 1.0 / precision


def centre_update(name, names, steps, prior):
    """q(a) of a node that is not the root."""
    level = len(name) - 1
    precision, target = 1.0 / prior, 0.0
    for q, moments, _ in steps:
        for share, (x_mean, _), stub in zip(q, moments, names, strict=True):
            if stub[: level + 1] == name:
                precision += share
                target += share * x_mean[level]
    return target / precision, 1.0 / precision
