"""Section 3.2 of Wang and Blei (2009), from the paper: rules for q(c_n), and no bound.

``shares`` (n_docs, n_nodes) are q(c_n = path to the node), where an inner node stands
for all paths that leave the tree there. A tree is a dict of the parent of each node.
"""

import numpy as np


def leaves_of(parent):
    return [node for node in parent if node not in parent.values() and node != 0]


def ended(parent, shares):
    """Prune: paths whose sum of q is below 1e-6."""
    return [node for node in leaves_of(parent) if sum(shares[node]) < 1e-6]


def similar_paths(parent, shares):
    """Merge: pairs of paths whose cosine J(i, j) exceeds 0.95."""
    result, leaves = [], leaves_of(parent)
    for at, one in enumerate(leaves):
        for other in leaves[at + 1 :]:
            p, q = np.array(shares[one]), np.array(shares[other])
            lengths = np.sqrt(p @ p) * np.sqrt(q @ q)
            if lengths > 0.0 and p @ q / lengths > 0.95:
                result.append((one, other))
    return result


def expected_growth(parent, shares, n_docs, n_drawn):
    """Grow: how often each inner node is opened, by both heuristics together."""
    leaves = leaves_of(parent)
    inner = {node: sum(own) for node, own in shares.items() if node not in leaves}
    whole = sum(inner.values())
    return {
        node: n_drawn * mass / n_docs + mass / whole for node, mass in inner.items()
    }
