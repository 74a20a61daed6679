"""The Chinese restaurant franchise, written from its definition.

A seating is a pair: for each document the table of each token, and for each table
(document, number) its dish. Tables and dishes are named by the order in which they
appear, so that equal seatings are equal tuples.
"""

from collections import Counter, defaultdict
from itertools import product
from math import lgamma, log

__all__ = ["canonical", "log_evidence_of_counts", "log_prior", "seatings"]


def partitions(n):
    """All partitions of n things, as labels by first appearance."""
    if n == 0:
        yield ()
        return
    for part in partitions(n - 1):
        for label in range(max(part, default=-1) + 2):
            yield (*part, label)


def canonical(tables, dishes):
    """Seating from tables of tokens (one list per document) and dishes of tables."""
    names, seating, served = {}, [], []
    for doc, of_doc in enumerate(tables):
        order = {}
        for table in of_doc:
            if table not in order:
                order[table] = len(order)
                dish = dishes[doc][table]
                served.append(names.setdefault(dish, len(names)))
        seating.append(tuple(order[table] for table in of_doc))
    return tuple(seating), tuple(served)


def seatings(lengths):
    """All seatings of documents of these lengths."""
    for tables in product(*(tuple(partitions(n)) for n in lengths)):
        n_tables = sum(max(of_doc, default=-1) + 1 for of_doc in tables)
        for dishes in partitions(n_tables):
            yield tables, dishes


def log_prior(seating, doc_concentration, corpus_concentration):
    """Log probability of a seating: Eqs. (5) and (6) of Wang and Blei (2012)."""
    tables, dishes = seating
    alpha, gamma = doc_concentration, corpus_concentration
    total = 0.0
    for of_doc in tables:
        sizes = Counter(of_doc)
        total += len(sizes) * log(alpha) + sum(lgamma(n) for n in sizes.values())
        total += lgamma(alpha) - lgamma(alpha + len(of_doc))
    served = Counter(dishes)
    total += len(served) * log(gamma) + sum(lgamma(m) for m in served.values())
    return total + lgamma(gamma) - lgamma(gamma + len(dishes))


def log_evidence_of_counts(seating, docs, topic_word_prior, n_words):
    """Log probability of the words given a seating, topics integrated out."""
    tables, dishes = seating
    eta, counts, first = topic_word_prior, defaultdict(Counter), 0
    for of_doc, words in zip(tables, docs, strict=True):
        for table, word in zip(of_doc, words, strict=True):
            counts[dishes[first + table]][word] += 1
        first += max(of_doc, default=-1) + 1
    total = 0.0
    for held in counts.values():
        n = sum(held.values())
        total += lgamma(n_words * eta) - lgamma(n_words * eta + n)
        total += sum(lgamma(eta + c) - lgamma(eta) for c in held.values())
    return total
