"""The nested Chinese restaurant process, written from its definition."""

from collections import Counter, defaultdict
from itertools import product
from math import lgamma, log


def canonical(paths):
    """Paths (one tuple of node names per document) with names by first appearance."""
    names, result = {}, []
    for path in paths:
        walked, prefix = [], ()
        for node in path:
            prefix = (*prefix, node)
            siblings = names.setdefault(prefix[:-1], {})
            walked.append(siblings.setdefault(node, len(siblings)))
        result.append(tuple(walked))
    return tuple(result)


def trees(n_docs, n_levels):
    """All ways of walking, up to names; the root is the first of each path."""
    result = {()}
    for _ in range(n_docs):
        grown = set()
        for paths in result:
            widths = range(len(paths) + 1)
            for below in product(widths, repeat=n_levels - 1):
                grown.add(canonical((*paths, (0, *below))))
        result = grown
    return sorted(result)


def states(lengths, n_levels):
    """All states: paths, and a level for each token of each document."""
    for paths in trees(len(lengths), n_levels):
        for levels in product(range(n_levels), repeat=sum(lengths)):
            yield paths, levels


def log_joint(state, docs, gamma, alpha, eta, n_words):
    """Log p(paths) + log p(levels) + log p(words | both); eta by level."""
    paths, flat = state
    total, n_levels = 0.0, len(alpha)
    through = Counter(path[: i + 1] for path in paths for i in range(n_levels))
    children = defaultdict(list)
    for prefix, n in through.items():
        if len(prefix) > 1:
            children[prefix[:-1]].append(n)
    for sizes in children.values():
        total += len(sizes) * log(gamma) + sum(lgamma(n) for n in sizes)
        total += lgamma(gamma) - lgamma(gamma + sum(sizes))
    counts, at = defaultdict(Counter), 0
    for words, path in zip(docs, paths, strict=True):
        own = flat[at : at + len(words)]
        at += len(words)
        total += lgamma(sum(alpha)) - lgamma(sum(alpha) + len(words))
        for level, n in Counter(own).items():
            total += lgamma(alpha[level] + n) - lgamma(alpha[level])
        for word, level in zip(words, own, strict=True):
            counts[path[: level + 1]][word] += 1
    for prefix, held in counts.items():
        prior, n = eta[len(prefix) - 1], sum(held.values())
        total += lgamma(n_words * prior) - lgamma(n_words * prior + n)
        total += sum(lgamma(prior + c) - lgamma(prior) for c in held.values())
    return total
