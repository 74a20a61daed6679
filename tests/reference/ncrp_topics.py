"""Slow references for the variational nested CRP of Wang and Blei (2009).

Transcriptions of formulas: a tree is a dict of the children of each node, in order, and
nodes are tuples of numbers; paths that leave the tree are written out, many of them.
"""

import numpy as np
from scipy.special import betaln, gammaln, logsumexp, polygamma, psi


def log_beta(a):
    return gammaln(a).sum() - gammaln(np.sum(a))


# Paths --------------------------------------------------------------------------------


def stub_expansion(sticks, children, node, n_levels, gamma, width):
    """Log of the sum of exp E log p(c) over the paths of a stub, one by one.

    `sticks` maps a node to (a, b), others have the prior; `width` children that are not
    in the tree are written out below each node.
    """

    def steps(parent):
        """E log p of all children of a node, in the tree or not."""
        known, passed = children.get(parent, []), 0.0
        for name in [*known, *((*parent, "new", i) for i in range(width))]:
            a, b = sticks.get(name, (1.0, gamma))
            yield name, passed + psi(a) - psi(a + b)
            passed += psi(b) - psi(a + b)

    log_p = 0.0
    for depth in range(1, len(node)):
        log_p += dict(steps(node[:depth]))[node[: depth + 1]]
    # Below: all children that are not known, and all of theirs.
    walks = [(node, log_p)]
    for _ in range(n_levels - len(node)):
        walks = [
            (name, log_p + step)
            for parent, log_p in walks
            for name, step in list(steps(parent))[len(children.get(parent, [])) :]
        ]
    return logsumexp([log_p for _, log_p in walks])


# Documents ----------------------------------------------------------------------------


def stub_logs(log_weights, off_tree, nodes):
    """E log W of each level of a stub: (n_levels, n_words of the document)."""
    n_words = len(log_weights)
    return np.array(
        [
            log_weights[:, node] if node >= 0 else np.full(n_words, off_tree[level])
            for level, node in enumerate(nodes)
        ]
    )


def log_paths(scores):
    return scores - logsumexp(scores)


def document_bound(counts, logs, phi, a, prior):
    """General form: any phi (n_levels, n_words) and a."""
    log_theta = psi(a) - psi(a.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(phi > 0.0, -phi * np.log(phi), 0.0)
    words = (counts * (phi * (log_theta[:, None] + logs) + entropy)).sum()
    return words + log_beta(a) - log_beta(prior) + ((prior - a) * log_theta).sum()


def iterate(counts, logs, prior, a, max_iter, tol):
    for _ in range(max_iter):
        log_phi = (psi(a) - psi(a.sum()))[:, None] + logs
        phi = np.exp(log_phi - logsumexp(log_phi, axis=0))
        after = prior + phi @ counts
        change = np.abs(after - a).sum()
        a = after
        if change <= tol * counts.sum():
            break
    return phi, a


def cold_start(counts, prior):
    return prior * (1 + counts.sum() / prior.sum())


def conditional_step(
    counts, log_weights, off_tree, stub_nodes, log_prior, prior, max_iter, tol
):
    """q(c), phi and a of each stub, and the document's bound."""
    phis, levels, scores = [], [], []
    for nodes, e in zip(stub_nodes, log_prior, strict=True):
        logs = stub_logs(log_weights, off_tree, nodes)
        a = cold_start(counts, prior)
        phi, a = iterate(counts, logs, prior, a, max_iter, tol)
        phis.append(phi)
        levels.append(a)
        scores.append(e + document_bound(counts, logs, phi, a, prior))
    q = np.exp(log_paths(np.array(scores)))
    return q, np.array(phis), np.array(levels), logsumexp(scores)


def factorised_step(
    counts, log_weights, off_tree, stub_nodes, log_prior, prior, max_iter
):
    """q(c), one phi and one a for all stubs, and the document's bound."""
    all_logs = np.array(
        [stub_logs(log_weights, off_tree, nodes) for nodes in stub_nodes]
    )
    q, a = np.exp(log_paths(log_prior)), cold_start(counts, prior)
    for i in range(max_iter + 1):
        phi, a = iterate(counts, np.tensordot(q, all_logs, 1), prior, a, 1, 0.0)
        if i < max_iter:
            scores = log_prior + (counts * phi * all_logs).sum(axis=(1, 2))
            q = np.exp(log_paths(scores))
    used = q > 0
    bound = document_bound(counts, np.tensordot(q, all_logs, 1), phi, a, prior)
    bound += (q[used] * (log_prior[used] - np.log(q[used]))).sum()
    return q, phi, a, bound


def documents_term(counts, log_weights, off_tree, stub_nodes, log_prior, prior, result):
    """Documents' part of the ELBO, term by term, from (q, phis, levels) of each."""
    total = 0.0
    for row, (q, phis, levels) in zip(counts, result, strict=True):
        for k in np.flatnonzero(q):
            logs = stub_logs(log_weights, off_tree, stub_nodes[k])
            bound = document_bound(row, logs, phis[k], levels[k], prior)
            total += q[k] * (log_prior[k] + bound - np.log(q[k]))
    return total


def log_predictive(counts, topics, stub_nodes, result):
    """Log probability of words of a document, given what some of it says.

    `topics` (n_words, n_nodes) are mean topics, `result` the (q, phis, levels) that it
    says; off the tree all words are as probable.
    """
    q, _, levels = result
    total = []
    for share, a, nodes in zip(q, levels, stub_nodes, strict=True):
        if share > 0.0:
            words = [
                topics[:, node] if node >= 0 else np.full(len(counts), 1 / len(counts))
                for node in nodes
            ]
            mixed = (a / a.sum()) @ np.array(words)
            total.append(np.log(share) + (counts * np.log(mixed)).sum())
    return logsumexp(total)


# Globals ------------------------------------------------------------------------------


def topics_term(word_counts, eta):
    """Sum over topics of E log p(W) - E log q(W); eta by topic."""
    total = 0.0
    for row, own in zip(word_counts, eta, strict=True):
        posterior = own + row
        log_topic = psi(posterior) - psi(posterior.sum())
        total += log_beta(posterior) - log_beta(np.full(len(row), own))
        total += ((own - posterior) * log_topic).sum()
    return total


def expected_log_rise(probabilities, eta):
    """E log Gamma(eta + n) - log Gamma(eta), n a sum of independent 0s and 1s."""
    chances = np.ones(1)
    for p in probabilities:
        chances = np.convolve(chances, [1.0 - p, p])
    rises = gammaln(eta + np.arange(len(chances))) - gammaln(eta)
    return chances @ rises


def log_none_of(mean, variance):
    """Log probability that a binomial count is zero."""
    if variance >= mean:
        return -mean
    if variance <= 0.0:
        return -np.inf
    return mean**2 / (mean - variance) * np.log(variance / mean)


def collapsed_rise(mean, variance, eta):
    """The same for binomial n, to second order where n > 0."""
    if variance <= 0.0 or mean < 1e-12:
        return gammaln(eta + mean) - gammaln(eta)
    some = 1.0 - np.exp(log_none_of(mean, variance))
    first, second = mean / some, (variance + mean**2) / some
    rise = gammaln(eta + first) - gammaln(eta)
    spread = max(second - first**2, 0.0)  # there may be less than one trial
    return some * (rise + 0.5 * spread * polygamma(1, eta + first))


def paths_term(through, spread, leaving, gamma):
    """E log p of the children of a node by the restaurant process, counts binomial.

    `through` are the expected documents in each child, `spread` their variances,
    `leaving` the documents in none of them.
    """
    total = gammaln(gamma) - gammaln(gamma + sum(through) + leaving)
    total += leaving * np.log(gamma)
    for mean, variance in zip(through, spread, strict=True):
        if mean > 0.0:
            some = min(mean, 1.0 - np.exp(log_none_of(mean, variance)))
            total += some * (np.log(gamma) + gammaln(mean / some))
    return total


def collapsed_terms(tree, priors, stats):
    """What the collapsed bound has instead of the evidence of topics and sticks."""
    total, through = 0.0, tree.accumulate(stats.stub_masses)
    spread = tree.accumulate(stats.stub_variances)
    rows = zip(tree.depth, stats.word_counts, stats.word_variances, strict=True)
    for node, (level, counts, variances) in enumerate(rows):
        eta = priors.topic_prior[level]
        pairs = zip(counts, variances, strict=True)
        total += sum(collapsed_rise(*pair, eta) for pair in pairs)
        total -= collapsed_rise(counts.sum(), variances.sum(), len(counts) * eta)
        if level < priors.n_levels - 1:
            below = [k for k in range(1, len(tree)) if tree.parent[k] == node]
            leaving, gamma = stats.stub_masses[node], priors.concentration
            total += paths_term(through[below], spread[below], leaving, gamma)
    return total


def sticks_term(sticks, gamma):
    """Sum over sticks of E log p(v) - E log q(v)."""
    total = 0.0
    for a, b in sticks:
        stay, leave = psi(a) - psi(a + b), psi(b) - psi(a + b)
        total += betaln(a, b) - betaln(1.0, gamma)
        total += (1.0 - a) * stay + (gamma - b) * leave
    return total
