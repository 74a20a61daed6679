"""The franchise's joint probability, hyperparameters and samples; the Geweke test."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from scipy.special import gammaln

from checks.geweke import check_joint_distribution
from reference import hdp_franchise as reference
from skbnp.inference.chains import ChainState
from skbnp.kernels._franchise import sweep
from skbnp.kernels._seating import MEAL_PART
from skbnp.models.hdp_franchise import model as franchise
from skbnp.models.hdp_franchise.chain import Priors, propose_moves
from skbnp.models.hdp_franchise.model import (
    DISCOUNTS,
    Concentrations,
    FranchiseSample,
    Places,
    Repeats,
    Seating,
    TableAssignments,
)
from skbnp.rows.batch import Tokens

LENGTHS, N_WORDS = (3, 4, 2, 6, 1), 4
#: Light tails, so that means of statistics are soon known.
CORPUS_PRIOR, DOC_PRIOR, TOPIC_PRIOR = (4.0, 3.0), (5.0, 4.0), (6.0, 8.0)
WORD_PRIOR, GROUP_PRIOR = (5.0, 2.0), (4.0, 3.0)
#: Groups of the documents, None: of no group; and where each begins.
GROUPS, LIMITS = (0, 0, 1, 1, None), np.array([0, 2, 4, 5])


@dataclass
class SamplerState:
    """Hyperparameters, a seating and words, drawn together or in turn."""

    concentrations: Concentrations
    openers: list  # of each document: tokens at the table of a word that each opened
    tables: list  # of each document: the table of each opener
    dishes: list  # of each document: the dish of each table
    docs: list  # words of openers
    weights: np.ndarray | None = None  # of the corpus, where documents have groups

    @classmethod
    def draw(cls, rng, fixed=None, groups=None):
        """Everything from the prior, token by token."""
        c = fixed or Concentrations(
            *(
                rng.gamma(shape, 1.0 / rate)
                for shape, rate in (CORPUS_PRIOR, DOC_PRIOR, TOPIC_PRIOR)
            ),
            rng.uniform(*DISCOUNTS),
            rng.gamma(WORD_PRIOR[0], 1.0 / WORD_PRIOR[1]),
            np.inf if groups is None else rng.gamma(GROUP_PRIOR[0], 1 / GROUP_PRIOR[1]),
        )
        openers = [draw_openers(rng, length, c) for length in LENGTHS]
        alpha, gamma = c.doc_concentration, c.corpus_concentration
        served, tables, dishes = [], [], []
        in_groups = {group: ([], []) for group in groups or ()}  # sizes, dishes
        for of_doc, group in zip(openers, groups or [None] * len(openers), strict=True):
            sizes, own, of_table = [], [], []
            for _ in of_doc:
                t = pick(rng, [*sizes, alpha])
                if t == len(sizes):
                    sizes.append(0)
                    if group is None:
                        k = draw_dish(rng, served, gamma)
                    else:
                        others, dish = in_groups[group]
                        at = pick(rng, [*others, c.group_concentration])
                        if at == len(others):
                            others.append(0)
                            dish.append(draw_dish(rng, served, gamma))
                        others[at] += 1
                        k = dish[at]
                    of_table.append(k)
                sizes[t] += 1
                own.append(t)
            tables.append(own)
            dishes.append(of_table)
        weights = None if groups is None else rng.dirichlet([*served, gamma])
        state = cls(c, openers, tables, dishes, [], weights)
        state.draw_words(rng)
        return state

    def draw_words(self, rng):
        """Words given everything else: Polya urns."""
        held = {}
        self.docs = []
        for own, of_table in zip(self.tables, self.dishes, strict=True):
            words = []
            for t in own:
                eta = [self.concentrations.topic_word_prior] * N_WORDS
                counts = held.setdefault(of_table[t], eta)
                word = pick(rng, counts)
                counts[word] += 1.0
                words.append(word)
            self.docs.append(words)

    @property
    def seating(self):
        of_table = [dict(enumerate(own)) for own in self.dishes]
        return reference.canonical(self.tables, of_table)


def draw_dish(rng, served, gamma):
    """The dish of a customer of the corpus, which is counted."""
    k = pick(rng, [*served, gamma])
    if k == len(served):
        served.append(0)
    served[k] += 1
    return k


def draw_openers(rng, length, concentrations):
    """Sizes of the tables of words of a document, each token a repeat or not."""
    d, c = concentrations.word_discount, concentrations.word_concentration
    if not concentrations.has_repeats:
        return [1] * length
    sizes = []
    for _ in range(length):
        t = pick(rng, [*(n - d for n in sizes), c + d * len(sizes)])
        if t == len(sizes):
            sizes.append(0)
        sizes[t] += 1
    return sizes


def pick(rng, masses):
    x = rng.random() * sum(masses)
    for i, mass in enumerate(masses):
        x -= mass
        if x < 0.0:
            return i
    return len(masses) - 1


def seat(state):
    """The same as arrays; tokens of a document by word, repeats after their opener."""
    begin = np.cumsum([0, *map(sum, state.openers)])
    words, table, size, dish, word_size = [], [], [], [], []
    for doc, own, of_table, sizes in zip(
        state.docs, state.tables, state.dishes, state.openers, strict=True
    ):
        for i in np.argsort(doc, kind="stable"):
            words += [doc[i]] * sizes[i]
            table += [own[i]] + [0] * (sizes[i] - 1)
            word_size += [sizes[i]] + [0] * (sizes[i] - 1)
        size += np.bincount(own, minlength=len(of_table)).tolist()
        dish += of_table
    tokens = Tokens(np.array(words, np.int32), begin, N_WORDS)
    tables = TableAssignments(
        np.array(table),
        np.array([len(own) for own in state.dishes], np.int32),
        np.array(size, np.int32),
        np.array(dish, np.int32),
        np.array(word_size) if state.concentrations.has_repeats else None,
    )
    if state.weights is None:
        return Seating(tokens, state.concentrations, tables)
    seating = Seating(tokens, state.concentrations, tables, None, LIMITS)
    seating.set_weights(state.weights)
    return seating


def unseat(seating):
    openers, tables, dishes, docs = [], [], [], []
    sizes = seating.word_size
    sizes = np.ones(len(seating.words), int) if sizes is None else sizes
    for doc, (begin, end) in enumerate(
        zip(seating.begin[:-1], seating.begin[1:], strict=True)
    ):
        opens = begin + np.flatnonzero(sizes[begin:end])
        openers.append(sizes[opens].tolist())
        tables.append(seating.table[opens].tolist())
        dishes.append(seating.dish[begin : begin + seating.n_tables[doc]].tolist())
        docs.append(seating.words[opens].tolist())
    weights = seating.weights if seating.has_groups else None
    return SamplerState(seating.concentrations, openers, tables, dishes, docs, weights)


def statistics(state):
    """What the two ways of drawing must agree on."""
    sizes = [np.bincount(own).tolist() for own in state.tables]
    tables = [n for own in sizes for n in own]
    served = np.bincount([k for own in state.dishes for k in own])
    served = served[served > 0]
    c, openers = state.concentrations, np.concatenate(state.openers)
    gamma, alpha, eta = c.corpus_concentration, c.doc_concentration, c.topic_word_prior
    log_p = reference.log_prior(state.seating, alpha, gamma)
    log_x = reference.log_evidence_of_counts(state.seating, state.docs, eta, N_WORDS)
    of_words = {}
    if c.has_repeats:
        of_words = {
            "discount": c.word_discount,
            "word concentration": c.word_concentration,
            "openers": len(openers),
            "largest table of a word": openers.max(),
            "openers by tables": len(openers) * len(tables),
        }
    of_groups = {}
    if state.weights is not None:
        tables_of = np.zeros((3, len(state.weights) - 1))
        for row, own in zip([0, 0, 1, 1, 2], state.dishes, strict=True):
            np.add.at(tables_of[row], own, 1)
        log_p = log_x  # the prior of a seating alone is that without groups
        a = c.group_concentration
        of_groups = {
            "group concentration": a,
            "rest": state.weights[-1],
            "squares of weights": (state.weights**2).sum(),
            "squares in groups": (tables_of[:2] ** 2).sum(),
            "dishes in groups": (tables_of[:2] > 0).sum(),
            "dishes in both": (tables_of[0] * tables_of[1] > 0).sum(),
            "tables by weights": (tables_of[:2] * state.weights[:-1]).sum(),
            "direct tables by weights": tables_of[2] @ state.weights[:-1],
            "concentration by dishes": a * (tables_of[:2] > 0).sum(),
        }
    words = words_of(state)
    first = {state.dishes[0][t] for t in state.tables[0]}
    fourth = {state.dishes[3][t] for t in state.tables[3]}
    tokens = np.zeros(int(max(max(own) for own in state.dishes)) + 1)
    for own, of_table in zip(state.tables, state.dishes, strict=True):
        for t in own:
            tokens[of_table[t]] += 1
    return {
        **of_words,
        **of_groups,
        "gamma": gamma,
        "alpha": alpha,
        "eta": eta,
        "log likelihood": log_x,
        "log prior": log_p,
        "tables": len(tables),
        "dishes": len(served),
        "largest table": max(tables),
        "tables of one dish": served.max(),
        "squares of dishes": (tokens**2).sum(),
        "dishes in common": len(first & fourth),
        "squares of words": (words**2).sum(),
        "alpha by tables": alpha * len(tables),
    }


def words_of(state):
    """Openers of each word."""
    return np.bincount(np.concatenate(state.docs).astype(int), minlength=N_WORDS)


def check_geweke(move, n_draws, seed, groups=None):
    check_joint_distribution(
        lambda rng: SamplerState.draw(rng, None, groups),
        statistics,
        move,
        n_draws,
        seed,
    )


def make_move(priors, *, split_merge, n_scans=0, meal_part=MEAL_PART):
    def move(state, rng):
        seating = seat(state)
        for part in seating.parts(0, len(LENGTHS)):
            sweep(seating, seating.workspace, *part, meal_part, rng.bit_generator)
        seating.tidy()
        if split_merge:
            propose_moves(seating, 3, rng, n_scans)
            seating.tidy()
        priors.resample(seating, rng)
        return unseat(seating)

    return move


PRIORS = CORPUS_PRIOR, DOC_PRIOR, TOPIC_PRIOR, GROUP_PRIOR, WORD_PRIOR
LEARN = Priors(True, True, *PRIORS)
FIXED = {c: Concentrations(c, c, 0.4) for c in (0.3, 1.3, 5.0)}
#: Draws in which bugs are found.
N_FEW = 2_000
STEPS = {
    "gibbs": {"split_merge": False},
    "split-merge": {"split_merge": True},
    "intermediate scans": {"split_merge": True, "n_scans": 3},
    "part of a table proposes": {"split_merge": False, "meal_part": 2},
}


@pytest.mark.weekly
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["no groups", "groups"])
@pytest.mark.parametrize("steps", STEPS)
def test_geweke_with_hyperparameters(steps, groups, seed):
    check_geweke(make_move(LEARN, **STEPS[steps]), N_FEW, seed, groups)


# -- planted bugs ----------------------------------------------------------------------


class CountsTablesOfDocuments(Priors):
    """In the place of the tables of groups."""

    def resample(self, seating, rng):
        seat_groups = seating.seat_groups

        def count(rng):
            seat_groups(rng)
            seating.n_group_tables = int(seating.group_tables()[:-1].sum())

        seating.seat_groups = count
        Priors.resample(self, seating, rng)


@pytest.mark.weekly
def test_geweke_finds_a_planted_bug_of_the_concentration_of_groups():
    wrong = CountsTablesOfDocuments(True, True, *PRIORS)
    with pytest.raises(AssertionError):
        check_geweke(make_move(wrong, split_merge=False), N_FEW, 0, GROUPS)


# -- probabilities ---------------------------------------------------------------------


@pytest.mark.parametrize("number", range(5))
def test_log_joint_is_that_of_the_reference(number):
    state = SamplerState.draw(np.random.default_rng(number))
    c = state.concentrations
    given = c.doc_concentration, c.corpus_concentration
    expected = reference.log_prior(state.seating, *given)
    expected += reference.log_evidence_of_counts(
        state.seating, state.docs, c.topic_word_prior, N_WORDS
    )
    labels = [np.repeat(np.arange(len(sizes)), sizes) for sizes in state.openers]
    of_words = c.word_discount, c.word_concentration
    expected += reference.log_prior_of_repeats(labels, *of_words)
    assert seat(state).log_joint() == pytest.approx(expected, rel=1e-12)


def test_log_joint_of_groups_integrates_to_that_of_the_reference(seed):
    """Over log ratios of the corpus weights of one and of two dishes."""
    rng, left = np.random.default_rng(seed), {1, 2}
    while left:
        state = SamplerState.draw(rng, None, GROUPS)
        c, n_dishes = state.concentrations, len(state.weights) - 1
        if n_dishes not in left:
            continue
        left.remove(n_dishes)
        seating, total = seat(state), 0.0
        grid = np.linspace(-36.0, 36.0, 61)
        for ratios in product(grid, repeat=n_dishes):
            weights = np.exp([*ratios, 0.0])
            seating.set_weights(weights / weights.sum())
            total += np.exp(seating.log_joint()) * (grid[1] - grid[0]) ** n_dishes
        given = c.doc_concentration, c.group_concentration, c.corpus_concentration
        expected = reference.log_prior_in_groups(state.seating, GROUPS, *given)
        expected += reference.log_evidence_of_counts(
            state.seating, state.docs, c.topic_word_prior, N_WORDS
        )
        labels = [np.repeat(np.arange(len(sizes)), sizes) for sizes in state.openers]
        of_words = c.word_discount, c.word_concentration
        expected += reference.log_prior_of_repeats(labels, *of_words)
        assert np.log(total) == pytest.approx(expected, abs=1e-3)


def test_log_joint_of_documents_given_others_is_a_difference(seed):
    state = SamplerState.draw(np.random.default_rng(seed), FIXED[1.3])
    # Dishes by first appearance, so that those of the first documents come first.
    names = {}
    for own in state.dishes:
        own[:] = [names.setdefault(k, len(names)) for k in own]
    first, rest = (
        SamplerState(
            FIXED[1.3],
            state.openers[p],
            state.tables[p],
            state.dishes[p],
            state.docs[p],
        )
        for p in (slice(2), slice(2, None))
    )
    first, rest, whole = seat(first), seat(rest), seat(state)
    n = first.n_served
    before = Places(first.dish_counts(), first.dish_tables[:n])
    later = Seating(rest.tokens, rest.concentrations, rest.tables(), before)
    expected = whole.log_joint() - first.log_joint()
    assert later.log_joint() == pytest.approx(expected, rel=1e-12)
    assert abs(rest.log_joint() - expected) > 0.01  # not as if they were alone


@pytest.mark.parametrize("discount", [1e-6, 0.3, 0.9])
@pytest.mark.parametrize("concentration", [1e-3, 2.0, 1e8])
def test_log_probability_of_repeats_is_that_of_the_urn(discount, concentration):
    sizes = [[3, 1], [1], [2, 2, 1], []]
    labels = [np.repeat(np.arange(len(own)), own) for own in sizes]
    n_tables, n_tokens = (np.array([f(own) for own in sizes]) for f in (len, sum))
    of_all = np.array([n for own in sizes for n in own])
    repeats = Repeats.of(of_all, n_tables, n_tokens)
    expected = reference.log_prior_of_repeats(labels, discount, concentration)
    result = repeats.log_probability(discount, concentration)
    assert result == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["corpus", "doc", "topic"])
def test_hyperparameters_are_drawn_from_their_posterior(name, seed):
    """Against the density of their logarithm on a grid, by Kolmogorov and Smirnov."""
    rng = np.random.default_rng(seed)
    seating = seat(SamplerState.draw(rng, FIXED[1.3]))
    priors, drawn = Priors(name != "topic", name == "topic", *PRIORS), []
    for _ in range(6000):
        priors.resample(seating, rng)
        value = "topic_word_prior" if name == "topic" else f"{name}_concentration"
        drawn.append(getattr(seating, value))
    logs = np.linspace(-9.0, 3.0, 4001)
    x, m, lengths = np.exp(logs), seating.n_all_tables, np.diff(seating.begin)
    (shape, rate), log_p = {
        "corpus": (CORPUS_PRIOR, seating.n_dishes * logs + gammaln(x) - gammaln(x + m)),
        "doc": (
            DOC_PRIOR,
            m * logs + (gammaln(x) - gammaln(lengths[:, None] + x)).sum(axis=0),
        ),
        "topic": (TOPIC_PRIOR, np.array([seating.log_evidence(one) for one in x])),
    }[name]
    log_p = log_p + shape * logs - rate * x
    cdf = np.cumsum(np.exp(log_p - log_p.max()))
    cdf /= cdf[-1]
    # Every sixth draw is nearly independent.
    result = stats.kstest(np.log(drawn[::6]), lambda v: np.interp(v, logs, cdf))
    assert result.pvalue > 1e-4


# -- samples ---------------------------------------------------------------------------


def test_sample_holds_the_counts_of_the_seating(seed):
    sampler_state = SamplerState.draw(np.random.default_rng(seed))
    seating = seat(sampler_state)
    seating.tidy()
    n = seating.n_served
    state = ChainState(
        number=0,
        step=0,
        ids=np.arange(n),
        next_id=n,
        lineage=[],
        begin=0,
        log_joint=0.0,
    )
    sample = FranchiseSample.of(seating, state)
    expected = np.zeros((n, N_WORDS))
    for words, own, of_table in zip(
        sampler_state.docs, sampler_state.tables, sampler_state.dishes, strict=True
    ):
        for word, t in zip(words, own, strict=True):
            expected[of_table[t], word] += 1
    result = sample.topic_word_counts.toarray()
    np.testing.assert_array_equal(result[np.argsort(sample.component_ids)], expected)
    assert (np.diff(sample.table_counts) <= 0).all()
    alpha = sampler_state.concentrations.doc_concentration
    assert sample.doc_prior.sum() == pytest.approx(alpha)
    np.testing.assert_allclose(sample.word_topic().sum(axis=0), 1.0)


def test_a_copy_of_the_tables_is_the_whole_seating(seed):
    rng = np.random.default_rng(seed)
    seating = seat(SamplerState.draw(rng))
    sweep(seating, seating.workspace, 0, len(LENGTHS), MEAL_PART, rng.bit_generator)
    seating.tidy()
    copied = Seating(seating.tokens, seating.concentrations, seating.tables())
    for one in (seating, copied):
        generator = np.random.default_rng(7).bit_generator
        sweep(one, one.workspace, 0, len(LENGTHS), MEAL_PART, generator)
        one.tidy()
    for name in ("table", "size", "dish"):
        one, two = (getattr(s.tables(), name) for s in (seating, copied))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("size", [1, 7, 1 << 17])
def test_one_table_per_dish_of_documents_in_parts(size, monkeypatch):
    monkeypatch.setattr(franchise, "TOKENS_PER_PART", size)
    rng = np.random.default_rng(0)
    lengths = np.array([3, 0, 9, 1, 0, 6])
    begin = np.append(0, np.cumsum(lengths))
    tokens = Tokens(np.zeros(lengths.sum(), np.int32), begin, N_WORDS)
    dish = rng.choice([2, 5, 9], lengths.sum())
    seating, served = TableAssignments.one_per_dish(tokens, dish)
    first = np.cumsum(seating.n_tables) - seating.n_tables
    at = np.repeat(first, lengths) + seating.table
    assert_array_equal(served[seating.dish[at]], dish)
    assert_array_equal(np.bincount(at), seating.size)
    parts = np.split(dish, begin[1:-1])
    assert_array_equal(seating.n_tables, [len(set(part.tolist())) for part in parts])
