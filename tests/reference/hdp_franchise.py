"""The Chinese restaurant franchise, written from its definition.

A seating is a pair: for each document the table of each token, and for each table
(document, number) its dish. Tables and dishes are named by the order in which they
appear, so that equal seatings are equal tuples.
"""

from collections import Counter, defaultdict
from itertools import product
from math import exp, lgamma, log

#: In the place of the group of a document that has none.
NO_GROUP = None


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


def log_prior_in_groups(
    seating, groups, doc_concentration, group_concentration, corpus_concentration
):
    """Log probability of a seating if documents have groups, by all seatings of these.

    Tables of the documents of a group are customers of its restaurant, whose tables are
    customers of the corpus; so are tables of documents without a group.
    """
    tables, dishes = seating
    alpha, a, gamma = doc_concentration, group_concentration, corpus_concentration
    total, first, served = 0.0, 0, defaultdict(list)
    for of_doc, group in zip(tables, groups, strict=True):
        sizes = Counter(of_doc)
        total += len(sizes) * log(alpha) + sum(lgamma(n) for n in sizes.values())
        total += lgamma(alpha) - lgamma(alpha + len(of_doc))
        served[group] += dishes[first : first + len(sizes)]
        first += len(sizes)
    direct = served.pop(NO_GROUP, [])
    mass = 0.0
    # A table of a group serves one dish: partitions that mix dishes are impossible.
    for each in product(*(tuple(partitions(len(own))) for own in served.values())):
        log_p, customers = 0.0, Counter(direct)
        for own, of_group in zip(served.values(), each, strict=True):
            pairs = set(zip(of_group, own, strict=True))
            if len(pairs) > len(set(of_group)):
                break
            sizes = Counter(of_group)
            log_p += len(sizes) * log(a) + sum(lgamma(n) for n in sizes.values())
            log_p += lgamma(a) - lgamma(a + len(own))
            customers.update(dish for _, dish in pairs)
        else:
            log_p += len(customers) * log(gamma)
            log_p += sum(lgamma(m) for m in customers.values())
            log_p += lgamma(gamma) - lgamma(gamma + sum(customers.values()))
            mass += exp(log_p)
    return total + log(mass)


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


# -- words that documents repeat -------------------------------------------------------


def word_tables(docs):
    """All ways to put the tokens of each word of each document at tables of the word.

    Of each document a label per token: the first token of its table.
    """
    of_docs = []
    for words in docs:
        of_doc = [{}]
        for word in dict.fromkeys(words):
            at = [i for i, other in enumerate(words) if other == word]
            of_doc = [
                {**held, **{at[i]: at[part.index(part[i])] for i in range(len(at))}}
                for held in of_doc
                for part in partitions(len(at))
            ]
        of_docs.append([tuple(held[i] for i in range(len(words))) for held in of_doc])
    yield from product(*of_docs)


def openers(words, labels):
    """Words of the tokens that open a table, by document."""
    return [
        [word for i, word in enumerate(own) if of_doc[i] == i]
        for own, of_doc in zip(words, labels, strict=True)
    ]


def log_prior_of_repeats(labels, discount, concentration):
    """Log probability of the tables of words, by the urn, token after token."""
    total = 0.0
    for of_doc in labels:
        sizes = Counter()
        for n, label in enumerate(of_doc):
            mass = concentration + discount * len(sizes)
            if label in sizes:
                mass = sizes[label] - discount
            total += log(mass / (concentration + n))
            sizes[label] += 1
    return total
