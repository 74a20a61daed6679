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


class Franchise:
    """Gibbs sampling and split-merge by Wang and Blei (2012), one step after the other.

    ``docs`` are lists of words. Tables of a document are lists [dish, tokens]; a dish
    is a number that never returns. Each quantity has a method, so that a test may
    plant an error in it.
    """

    def __init__(self, docs, n_words, alpha, gamma, eta, rng):
        self.docs, self.n_words, self.rng = [list(doc) for doc in docs], n_words, rng
        self.alpha, self.gamma, self.eta = alpha, gamma, eta
        self.tables = [[] for _ in docs]  # [dish, [token, ...]]
        self.counts, self.m, self.next_dish = {}, Counter(), 0
        for doc, words in enumerate(self.docs):
            for token in range(len(words)):
                self.draw_token(doc, token)

    # -- quantities -------------------------------------------------------------------

    def predictive(self, dish, words):
        """f_k(words), the probability of words under a dish, others given."""
        held = self.counts.get(dish, Counter())
        n, seen, probability = sum(held.values()), Counter(), 1.0
        for i, word in enumerate(words):
            probability *= self.word_mass(held[word], seen[word])
            probability /= n + self.n_words * self.eta + i
            seen[word] += 1
        return probability

    def word_mass(self, held, seen):
        return held + seen + self.eta

    def new_probability(self, words):
        """f of a dish that nobody has."""
        return self.predictive(None, words)

    def dish_masses(self, words):
        """Masses of dishes for a table, {dish or None: mass}."""
        masses = {k: m * self.predictive(k, words) for k, m in self.m.items()}
        masses[None] = self.gamma * self.new_probability(words)
        return masses

    def table_mass(self, table, word):
        return len(table[1]) * self.predictive(table[0], [word])

    def new_table_mass(self, word):
        total = sum(self.dish_masses([word]).values())
        return self.alpha * total / (sum(self.m.values()) + self.gamma)

    # -- Gibbs ------------------------------------------------------------------------

    def pick(self, masses):
        keys = list(masses)
        x = self.rng.random() * sum(masses.values())
        for key in keys:
            x -= masses[key]
            if x < 0:
                return key
        return keys[-1]

    def add(self, dish, words, sign=1):
        held = self.counts.setdefault(dish, Counter())
        for word in words:
            held[word] += sign

    def serve(self, dish):
        if dish is None:
            dish, self.next_dish = self.next_dish, self.next_dish + 1
        self.m[dish] += 1
        return dish

    def clear(self, dish):
        self.m[dish] -= 1
        if self.m[dish] == 0:
            del self.m[dish], self.counts[dish]

    def take_token(self, doc, token):
        for table in self.tables[doc]:
            if token in table[1]:
                table[1].remove(token)
                self.add(table[0], [self.docs[doc][token]], -1)
                if not table[1]:
                    self.tables[doc].remove(table)
                    self.clear(table[0])
                return

    def draw_token(self, doc, token):
        word = self.docs[doc][token]
        self.take_token(doc, token)
        masses = {
            t: self.table_mass(table, word) for t, table in enumerate(self.tables[doc])
        }
        masses[None] = self.new_table_mass(word)
        t = self.pick(masses)
        if t is None:
            dish = self.serve(self.pick(self.dish_masses([word])))
            self.tables[doc].append([dish, []])
            t = -1
        self.tables[doc][t][1].append(token)
        self.add(self.tables[doc][t][0], [word])

    def take_table(self, table, words):
        self.add(table[0], words, -1)
        self.clear(table[0])

    def draw_dish(self, doc, table):
        words = [self.docs[doc][token] for token in table[1]]
        self.take_table(table, words)
        table[0] = self.serve(self.pick(self.dish_masses(words)))
        self.add(table[0], words)

    def sweep(self):
        for doc, words in enumerate(self.docs):
            for token in range(len(words)):
                self.draw_token(doc, token)
            for table in list(self.tables[doc]):
                self.draw_dish(doc, table)

    # -- split-merge ------------------------------------------------------------------

    def log_marginal(self, counts):
        """F, log probability of the words of one dish."""
        n, v_eta = sum(counts.values()), self.n_words * self.eta
        total = lgamma(v_eta) - lgamma(v_eta + n)
        return total + sum(
            lgamma(self.eta + c) - lgamma(self.eta) for c in counts.values()
        )

    def log_prior_of_split(self, m1, m2):
        return log(self.gamma) + lgamma(m1) + lgamma(m2) - lgamma(m1 + m2)

    def log_allocation(self, log_forward):
        return log_forward

    #: Intermediate restricted Gibbs scans of Jain and Neal (2004) in proposals; without
    #: any, the tables are allocated in turn.
    n_scans = 0

    def launch_sides(self, present):
        """Where a launch state has the tables before scans."""
        return [int(self.rng.random() < 0.5) for _ in present]

    def taken_out(self, group, words):
        """Words of a side without those of a table."""
        return group - Counter(words)

    def split_merge(self):
        """One proposal: sequential allocation, section 3 of the paper, or scans."""
        pairs = [(doc, table) for doc, own in enumerate(self.tables) for table in own]
        if len(pairs) < 2:
            return
        first, second = self.rng.permutation(len(pairs))[:2]
        a, b = pairs[first], pairs[second]
        dishes = (a[1][0], b[1][0])
        is_split = dishes[0] == dishes[1]
        rest = [
            pair
            for pair in pairs
            if pair[1][0] in dishes and pair[1] is not a[1] and pair[1] is not b[1]
        ]
        rest = [rest[i] for i in self.rng.permutation(len(rest))]
        present = [int(pair[1][0] == dishes[1]) for pair in rest]
        groups, m = [Counter(self.words(a)), Counter(self.words(b))], [1, 1]
        sides, log_forward, kept = [None] * len(rest), 0.0, self.counts
        if self.n_scans > 0:
            sides = self.launch_sides(present)
            for pair, side in zip(rest, sides, strict=True):
                groups[side].update(self.words(pair))
                m[side] += 1
        for scan in range(self.n_scans + 1):
            is_last = scan == self.n_scans
            for i, pair in enumerate(rest):
                words, masses = self.words(pair), {}
                if sides[i] is not None:
                    groups[sides[i]] = self.taken_out(groups[sides[i]], words)
                    m[sides[i]] -= 1
                for side in (0, 1):
                    self.counts = {side: groups[side]}
                    masses[side] = m[side] * self.predictive(side, words)
                self.counts = kept
                is_drawn = is_split or not is_last
                sides[i] = self.pick(masses) if is_drawn else present[i]
                if is_last:
                    log_forward += log(masses[sides[i]] / sum(masses.values()))
                groups[sides[i]].update(words)
                m[sides[i]] += 1
        goes = zip(rest, sides, strict=True)
        moved = [b[1], *(pair[1] for pair, side in goes if side == 1)]
        log_ratio = self.log_prior_of_split(*m) - self.log_allocation(log_forward)
        log_ratio += self.log_marginal(groups[0]) + self.log_marginal(groups[1])
        log_ratio -= self.log_marginal(groups[0] + groups[1])
        if log(1.0 - self.rng.random()) >= (log_ratio if is_split else -log_ratio):
            return
        new = None if is_split else dishes[0]
        targets = moved if is_split else [t for _, t in pairs if t[0] == dishes[1]]
        for doc, table in pairs:
            if any(table is target for target in targets):
                words = self.words((doc, table))
                self.take_table(table, words)
                new = table[0] = self.serve(new)
                self.add(new, words)

    def words(self, pair):
        return [self.docs[pair[0]][token] for token in pair[1][1]]

    def seating(self):
        """Canonical, see `canonical`."""
        tables = []
        dishes = []
        for doc, words in enumerate(self.docs):
            of = [None] * len(words)
            for t, table in enumerate(self.tables[doc]):
                for token in table[1]:
                    of[token] = t
            tables.append(of)
            dishes.append({t: table[0] for t, table in enumerate(self.tables[doc])})
        return canonical(tables, dishes)


# -- groups of documents ---------------------------------------------------------------


class GroupedFranchise(Franchise):
    """The same where documents have groups: the direct assignment of Teh et al. (2006).

    The corpus weights of dishes, and of all others together, are numbers; each change
    of them has a method. Tables of a group are drawn by their urns, one by one.
    """

    def __init__(self, docs, groups, n_words, alpha, a, gamma, eta, rng):
        self.groups, self.a, self.of_doc = groups, a, 0
        self.weights, self.rest = {}, 1.0
        super().__init__(docs, n_words, alpha, gamma, eta, rng)

    def own_tables(self, group, dish):
        """Tables of the documents of a group that serve a dish."""
        return sum(
            table[0] == dish and len(table[1]) > 0
            for other, own in zip(self.groups, self.tables, strict=True)
            for table in own
            if other == group and table is not self.taken
        )

    taken = None  # a table that draws its dish

    def prior_masses(self, group):
        """Masses of dishes for a table, and of a new one: those of the urn."""
        if group is NO_GROUP:
            return {**self.weights, None: self.rest}
        masses = {k: self.a * weight for k, weight in self.weights.items()}
        for dish in masses:
            masses[dish] += self.own_tables(group, dish)
        return {**masses, None: self.a * self.rest}

    def dish_masses(self, words):
        masses = self.prior_masses(self.groups[self.of_doc])
        return {k: mass * self.predictive(k, words) for k, mass in masses.items()}

    def new_table_mass(self, word):
        total = sum(self.prior_masses(self.groups[self.of_doc]).values())
        return self.alpha * sum(self.dish_masses([word]).values()) / total

    def share_of_new(self):
        return self.rng.beta(1.0, self.gamma)

    def serve(self, dish):
        is_new = dish is None
        dish = super().serve(dish)
        if is_new:
            self.weights[dish] = self.rest * self.share_of_new()
            self.rest -= self.weights[dish]
        return dish

    def clear(self, dish):
        super().clear(dish)
        if dish not in self.m:
            self.rest += self.weights.pop(dish)

    def draw_token(self, doc, token):
        self.of_doc = doc
        super().draw_token(doc, token)

    def draw_dish(self, doc, table):
        self.of_doc, self.taken = doc, table
        super().draw_dish(doc, table)
        self.taken = None

    def opening_mass(self, dish):
        return self.a * self.weights[dish]

    def customers(self):
        """Customers of the corpus by dish: tables of groups, drawn one by one."""
        customers = Counter()
        for group in set(self.groups):
            served = [
                table[0]
                for other, own in zip(self.groups, self.tables, strict=True)
                for table in own
                if other == group
            ]
            seen = Counter()
            for dish in served:
                mass = self.opening_mass(dish)
                if group is NO_GROUP or self.rng.random() * (mass + seen[dish]) < mass:
                    customers[dish] += 1
                seen[dish] += 1
        return customers

    def draw_weights(self):
        customers = self.customers()
        drawn = self.rng.dirichlet([*customers.values(), self.gamma])
        self.weights = dict(zip(customers, drawn[:-1], strict=True))
        self.rest = drawn[-1]

    def sweep(self):
        super().sweep()
        self.draw_weights()


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


class RepeatingFranchise(Franchise):
    """The same where documents repeat words, by a restaurant over words in each.

    A table of a word is [opener, tokens]; `opener` is a token of the word that the
    franchise knows it by, which may have gone to another table since.
    """

    def __init__(self, docs, n_words, alpha, gamma, eta, discount, concentration, rng):
        self.discount, self.concentration = discount, concentration
        self.word_tables = [[[i, [i]] for i in range(len(doc))] for doc in docs]
        super().__init__(docs, n_words, alpha, gamma, eta, rng)

    def seated_word_mass(self, table):
        return len(table[1]) - self.discount

    def opening_mass(self, doc):
        n_seated = sum(len(table[1]) for table in self.tables[doc])
        return self.concentration + self.discount * n_seated

    def word_probability(self, doc, word):
        n_seated = sum(len(table[1]) for table in self.tables[doc])
        mass = sum(self.table_mass(table, word) for table in self.tables[doc])
        return (mass + self.new_table_mass(word)) / (n_seated + self.alpha)

    def draw_word(self, doc, token):
        word, own = self.docs[doc][token], self.word_tables[doc]
        table = next(table for table in own if token in table[1])
        table[1].remove(token)
        if not table[1]:
            own.remove(table)
            self.take_token(doc, table[0])
        of_word = [t for t in own if self.docs[doc][t[0]] == word]
        masses = {i: self.seated_word_mass(t) for i, t in enumerate(of_word)}
        masses[None] = self.opening_mass(doc) * self.word_probability(doc, word)
        i = self.pick(masses)
        if i is not None:
            of_word[i][1].append(token)
            return
        taken = {t[0] for t in of_word}
        spare = (j for j, other in enumerate(self.docs[doc]) if other == word)
        opener = next(j for j in spare if j not in taken)
        own.append([opener, [token]])
        self.draw_token(doc, opener)

    def sweep(self):
        for doc, words in enumerate(self.docs):
            for token in range(len(words)):
                self.draw_word(doc, token)
            for opener, _ in self.word_tables[doc]:
                self.draw_token(doc, opener)
            for table in list(self.tables[doc]):
                self.draw_dish(doc, table)

    def state(self):
        """Labels of tokens, as of `word_tables`, and the seating of openers."""
        labels, tables, dishes = [], [], []
        for doc, words in enumerate(self.docs):
            at = {i: t for t, table in enumerate(self.tables[doc]) for i in table[1]}
            of_doc, of_openers = [None] * len(words), {}
            for opener, tokens in self.word_tables[doc]:
                for i in tokens:
                    of_doc[i] = min(tokens)
                of_openers[min(tokens)] = at[opener]
            labels.append(tuple(of_doc))
            tables.append([of_openers[i] for i in sorted(of_openers)])
            dishes.append({t: table[0] for t, table in enumerate(self.tables[doc])})
        return tuple(labels), canonical(tables, dishes)
