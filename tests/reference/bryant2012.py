"""Algorithm 2 of Bryant and Sudderth (2012), from the paper: full bounds, no shortcuts.

Documents are rows of ``counts`` (n_docs, V), which stand for ``scale`` times as many;
``resp`` (n_docs, V, K) are their responsibilities, ``lam`` (K, V) and ``weights``
(K + 1,) the globals. What is printed but no difference of bounds is corrected as the
derivations say.
"""

import numpy as np
from scipy.special import psi

from reference import hdp_direct as reference


def theta_of(counts, resp, weights, alpha):
    """Eq. (4), (n_docs, K + 1)."""
    tokens = np.einsum("jw,jwk->jk", counts, resp)
    return np.column_stack([tokens, np.zeros(len(tokens))]) + alpha * weights


def bound(counts, resp, lam, weights, priors, scale):
    """Eq. (2) of a minibatch: terms of documents are multiplied by D / |S|."""
    theta = theta_of(counts, resp, weights, priors[0])
    terms = reference.elbo_terms(counts, list(resp), theta, lam, weights, *priors)
    return scale * (terms["z"] + terms["pi"]) + terms["phi"] + terms["beta"]


# Merges -------------------------------------------------------------------------------


def covarying(theta):
    """Pairs of positive covariance, and pairs with a topic without tokens."""
    covariance = np.cov(theta.T, bias=True)
    is_used = theta.var(axis=0) > 0.0
    return [
        (one, other)
        for one in range(theta.shape[1])
        for other in range(one + 1, theta.shape[1])
        if covariance[one, other] > 0 or not (is_used[one] and is_used[other])
    ]


def merged(resp, lam, weights, pair, eta):
    """Section 3.2: all parameters of two topics added up, the prior counted once."""
    one, other = pair
    resp, lam, weights = resp.copy(), lam.copy(), weights.copy()
    resp[..., one] += resp[..., other]
    lam[one] += lam[other] - eta
    weights[one] += weights[other]
    return (
        np.delete(resp, other, axis=2),
        np.delete(lam, other, axis=0),
        np.delete(weights, other),
    )


def merges(counts, resp, lam, weights, priors, scale):
    """Gains of all pairs that are compared, and the pairs that merge, best first."""
    theta = theta_of(counts, resp, weights, priors[0])[:, :-1]
    before = bound(counts, resp, lam, weights, priors, scale)
    gains = {
        pair: bound(counts, *merged(resp, lam, weights, pair, priors[2]), priors, scale)
        - before
        for pair in covarying(theta)
    }
    chosen, taken = [], set()
    for pair in sorted(gains, key=lambda pair: -gains[pair]):
        if gains[pair] > 0 and not taken & set(pair):
            chosen.append(pair)
            taken |= set(pair)
    return gains, chosen


# Splits -------------------------------------------------------------------------------


def split_of(counts, resp, lam, weights, priors, scale, topic, old_weight, step):
    """Section 3.1 for one topic: gain, statistics of the children, their weight shares.

    ``lam`` and ``weights`` are those after the update by a step, ``old_weight`` is the
    topic's before it; ``resp`` are those before it.
    """
    alpha, _, eta = priors
    of_topic = counts * resp[..., topic]  # n_jw r_jwk
    added = step * scale * of_topic.sum(axis=0)
    sums = np.stack([lam[topic] - eta - added, added])
    first = (1.0 - step) * old_weight / weights[topic]
    shares, x = np.array([first, 1.0 - first]), alpha * weights[topic]
    for _ in range(4):  # topics
        part, shares = assigned(of_topic, eta + sums, x, shares, learns=True)
        sums = scale * np.einsum("jw,jwg->gw", of_topic, part)
    part, _ = assigned(of_topic, eta + sums, x, shares, learns=False)
    parted = np.concatenate([resp, resp[..., [topic]] * part[..., [1]]], axis=2)
    parted[..., topic] *= part[..., 0]
    children = np.vstack([lam, eta + sums[1]])
    children[topic] = eta + sums[0]
    new = np.insert(weights, len(weights) - 1, weights[topic] * shares[1])
    new[topic] *= shares[0]
    gain = bound(counts, parted, children, new, priors, scale)
    return gain - bound(counts, resp, lam, weights, priors, scale), sums, shares


def assigned(of_topic, lam, x, shares, *, learns):
    """Six sweeps over (3) and (4) for two children, r' + r'' = r; shares of tokens.

    Where it ``learns``, shares of the weight follow the expected tables.
    """
    log_phi = reference.expected_log_topics(lam)
    tokens = np.tile(of_topic.sum(axis=1) / 2.0, (2, 1))
    for _ in range(6):
        priors = x * shares
        part = np.empty((*of_topic.shape, 2))
        for doc in range(len(of_topic)):
            weight = np.exp(log_phi + psi(priors + tokens[:, doc])[:, None])
            part[doc] = (weight / weight.sum(axis=0)).T
        tokens = np.einsum("jw,jwg->gj", of_topic, part)
        if learns:
            tables = [
                sum(p * (psi(p + n) - psi(p)) for n in own)
                for p, own in zip(priors, tokens, strict=True)
            ]
            shares = np.array(tables) / sum(tables)
    return part, shares
