"""Slow references for the collapsed nested HDP, to zero order.

Transcriptions of formulas by recursion and plain loops; nothing is shared with the
package.

Letters: ``children`` lists the children of each node, node 0 is the root; ``weights``
beta, ``total`` A of the children of each node, ``stop`` and ``go`` the parameters s and
g of the Beta prior of the share that stops; ``tokens`` (n_nodes,) n_u of a document at
nodes themselves. All values are in nats.

References
----------
J. Paisley, C. Wang, D. M. Blei and M. I. Jordan. Nested hierarchical Dirichlet
processes. IEEE TPAMI 37(2), 2015.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln, psi

from reference import restaurant

N_START, ACTIVE_SHARE, LEAST = 3, 0.02, 1e-3


@dataclass
class Tree:
    """A tree, and what documents know of it."""

    children: list
    weights: np.ndarray
    total: np.ndarray
    stop: float
    go: float

    def below(self, tokens, node):
        """Tokens at a node and below."""
        return tokens[node] + sum(self.below(tokens, c) for c in self.children[node])

    def log_evidence(self, tokens):
        """Log probability of tokens, in some order, shares and proportions gone.

        Children that are not in the tree have none.
        """
        value = 0.0
        for node, children in enumerate(self.children):
            if not children:
                continue
            a, further = self.total[node], self.below(tokens, node) - tokens[node]
            value += betaln(self.stop + tokens[node], self.go + further)
            value -= betaln(self.stop, self.go)
            value += gammaln(a) - gammaln(a + further)
            for c in children:
                at, n = a * self.weights[c], self.below(tokens, c)
                value += gammaln(at + n) - gammaln(at)
        return value

    def shares(self, tokens, used=None):
        """Probability of each node for one more token, and of none of them.

        None of the children in the tree of a node that is `used`; all are by default.
        """
        shares, left = np.zeros(len(tokens)), 0.0

        def walk(node, weight):
            nonlocal left
            children = self.children[node]
            if not children:
                shares[node] = weight
                return
            a, here = self.total[node], max(tokens[node], 0.0)
            further = max(self.below(tokens, node) - here, 0.0)
            stops = (here + self.stop) / (here + further + self.stop + self.go)
            shares[node] = weight * stops
            onward = weight * (1.0 - stops) / (further + a)
            if used is None or used[node]:
                left += onward * a * (1.0 - sum(self.weights[c] for c in children))
            for c in children:
                mass = max(self.below(tokens, c), 0.0) + a * self.weights[c]
                walk(c, onward * mass)

        walk(0, 1.0)
        return shares, left


@dataclass
class Repeats:
    """Words that a document repeats; ``tables`` is E[t | n, m, d]."""

    discount: float
    concentration: float
    tables: Callable[[float, float, float], float] = restaurant.expected_tables


@dataclass
class Document:
    """The step of one document: the words are those of the vocabulary."""

    shares: np.ndarray  # (V, n_nodes) r
    tokens: np.ndarray  # (n_nodes,) n_u, of tables if words repeat
    log_predictive: float
    tables: np.ndarray  # (V,) t
    base: np.ndarray  # (V,) p


def local_step(
    tree, counts, topic_words, eta, held, *, whole, active, max_iter, tol, repeats=None
):
    """Responsibilities of nodes in one document.

    `topic_words` (V, n_nodes) are S, `counts` (V,) those of the document. With
    `repeats` the tables of words take the place of their tokens.
    """
    n_vocabulary, n_nodes = topic_words.shape
    norm = n_vocabulary * eta + topic_words.sum(axis=0)
    words = np.flatnonzero(counts)
    tables = counts if repeats is None else np.minimum(counts, 1.0)
    n_tables, base = tables.sum(), np.zeros(n_vocabulary)
    phi = (topic_words + eta) / norm
    tokens = np.zeros(n_nodes)
    for _ in range(N_START):
        e, _ = tree.shares(tokens)
        new = np.zeros(n_nodes)
        for w in words:
            new += tables[w] * e * phi[w] / (e @ phi[w])
        change, tokens = np.abs(new - tokens).sum(), new
        if change < tol * n_tables:
            break
    used = tokens >= min(active, ACTIVE_SHARE * n_tables)
    used[0] = used[tokens.argmax()] = True
    for node in range(n_nodes - 1, -1, -1):
        used[node] |= any(used[c] for c in tree.children[node])
    tokens = np.where(used, tokens, 0.0)
    # Nodes that are not in use keep their prior, but get nothing.
    r = np.zeros((n_vocabulary, n_nodes))
    for n_made in range(max_iter):
        fresh, new, seated = np.zeros(n_nodes), np.zeros_like(r), tables.copy()
        for w in words:
            taken = tables[w] if whole else min(tables[w], 1.0)
            shares, left = tree.shares(tokens - taken * r[w], used)
            p = np.maximum(phi[w] - held * tables[w] * r[w] / norm, eta / norm)
            joint = np.where(used, shares * p, 0.0)
            base[w] = joint.sum() + left / n_vocabulary
            if repeats is not None and counts[w] > 1.0:
                mass = repeats.discount * (tables.sum() - tables[w])
                mass = (mass + repeats.concentration) * base[w]
                seated[w] = repeats.tables(counts[w], mass, repeats.discount)
            new[w] = joint / joint.sum()
            fresh += seated[w] * new[w]
        change, tokens, r = np.abs(fresh - tokens).sum(), fresh, new
        tables = seated
        if change < tol * tables.sum() and n_made > 0:
            break
    if repeats is None:
        logs = counts[words] * np.log(base[words])
    else:
        at = repeats.discount, repeats.concentration
        logs = restaurant.leave_one_out(counts[words], tables[words], base[words], *at)
    least = min(LEAST, 0.5 / used.sum())
    r[r < least] = 0.0
    r[words] /= r[words].sum(axis=1, keepdims=True)
    return Document(r, tables @ r, logs.sum(), tables, base)


def tables(tree, doc_nodes):
    """M_c of each node, and sum_j psi(A + F_ji) - psi(A) of each inner one."""
    result, growth = np.zeros(len(tree.children)), np.zeros(len(tree.children))
    for tokens in doc_nodes:
        for node, children in enumerate(tree.children):
            a = tree.total[node]
            if children:
                further = tree.below(tokens, node) - tokens[node]
                growth[node] += psi(a + further) - psi(a)
            for c in children:
                n, at = tree.below(tokens, c), a * tree.weights[c]
                if n > 0.0:
                    some = 1.0 - np.exp(-n)
                    result[c] += some * at * (psi(at + n / some) - psi(at))
    return result, growth
