"""The sampler over tables and dishes against enumeration, which finds planted bugs.

Alone, with groups of documents, and where documents repeat words. A bug is planted in
the law: draws of the kernel must not have the frequencies of a wrong one.
"""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from checks.frequencies import check_frequencies
from checks.long import along_diagonal, daily
from reference import hdp_franchise as reference
from reference.hdp_franchise import NO_GROUP
from skbnp.kernels._franchise import sweep
from skbnp.kernels._seating import MEAL_PART
from skbnp.models.hdp_franchise.chain import propose_moves
from skbnp.models.hdp_franchise.model import Concentrations, Seating, TableAssignments
from skbnp.rows.batch import Tokens

#: Two documents of three tokens: 712 seatings. Three of two tokens: 409.
DOCS, REPEATED = [[0, 0, 1], [0, 1, 2]], [[0, 0, 0], [0, 0, 1]]
OF_GROUPS = [[0, 0], [0, 1], [1, 2]]
N_WORDS = 3
#: Draws, in which bugs are found.
N_DRAWS, N_OF_GROUPS, N_OF_REPEATS = 6_000, 4_000, 3_000
#: Tokens that propose the dish of a table; of all others all do.
PARTS = {"tokens": 0, "one token proposes": 1, "two tokens propose": 2}
PARTS |= {"split-merge": 0, "scans": 0}
#: Document and corpus concentration, topic prior.
SETTINGS = 0.5, 2.0, 0.1
#: The same where tables are many, and few dishes.
MANY_TABLES = 20.0, 1.0, 0.1


@cache
def numbered(lengths):
    """All seatings of documents of these lengths, and their numbers."""
    return {seating: i for i, seating in enumerate(reference.seatings(lengths))}


def kinds_of(states):
    """Kinds of states by their numbers of tables and dishes."""
    kinds = [(len(dishes), len(set(dishes))) for _, dishes in states]
    return np.unique(kinds, axis=0, return_inverse=True)[1].ravel()


def probabilities(logs):
    """Probabilities of states, given logarithms up to a constant."""
    p = np.exp(np.array(logs) - np.max(logs))
    return p / p.sum()


def tokens_of(docs):
    X = sp.csr_array([np.bincount(doc, minlength=N_WORDS) for doc in docs])
    return Tokens.from_counts(X)


def seating_of(seating):
    """The seating of the kernel as the reference has it."""
    dishes = seating.dish[seating.begin[seating.tokens.doc] + seating.table]
    split = seating.begin[1:-1]
    tables = [own.tolist() for own in np.split(seating.table, split)]
    served = [own.tolist() for own in np.split(dishes, split)]
    of_table = [
        dict(zip(*pair, strict=True)) for pair in zip(tables, served, strict=True)
    ]
    return reference.canonical(tables, of_table)


def make_sweep(seating, rng, steps):
    """Sweep the documents by some steps; sizes of the work space grow with them."""
    meal_part = PARTS.get(steps, MEAL_PART)
    for doc, stop in seating.parts(0, len(seating.n_tables)):
        while doc < stop:
            work = seating.workspace
            doc = sweep(seating, work, doc, stop, meal_part, rng.bit_generator)
            if doc < stop:
                seating.make_places()
    if steps in ("split-merge", "scans", "all") and seating.n_all_tables:
        propose_moves(seating, 1, rng, 2 if steps == "scans" else 0)
    seating.tidy()


def check_both(drawn, p, kinds):
    """States have their frequencies, and kinds of states, which are fewer."""
    check_frequencies(drawn, p)
    check_frequencies(drawn, p, kinds)


def check_tells(drawn, wrong, kinds):
    """The frequencies are not those of a wrong law."""
    with pytest.raises(AssertionError):
        check_both(drawn, wrong, kinds)


# -- seatings --------------------------------------------------------------------------


def posterior(docs, alpha, gamma, eta):
    """Probability of every seating."""
    return probabilities(
        [
            reference.log_prior(s, alpha, gamma)
            + reference.log_evidence_of_counts(s, docs, eta, N_WORDS)
            for s in numbered((3, 3))
        ]
    )


@cache
def draws(steps, repeated, settings, seed):
    """Numbers of the seatings after each sweep, as a chain makes them."""
    alpha, gamma, eta = settings
    tokens = tokens_of(REPEATED if repeated else DOCS)
    seating = Seating(tokens, Concentrations(gamma, alpha, eta))
    rng, drawn = np.random.default_rng(seed), []
    for _ in range(N_DRAWS):
        make_sweep(seating, rng, steps)
        drawn.append(numbered((3, 3))[seating_of(seating)])
    return np.array(drawn)


def check_draws(steps, repeated, settings, seed):
    docs = REPEATED if repeated else DOCS
    drawn = draws(steps, repeated, settings, seed)
    check_both(drawn, posterior(docs, *settings), kinds_of(numbered((3, 3))))


@pytest.mark.parametrize("concentration", daily(2, [0.3, 5.0, 1.3]))
@pytest.mark.parametrize("steps", daily(1, ["all", "dishes"]))
def test_frequencies_are_those_of_the_posterior(steps, concentration, seed):
    check_draws(steps, False, (concentration, concentration, 0.5), seed)


@along_diagonal(("steps", "repeated"), PARTS, [False, True])
def test_frequencies_of_each_kind_of_step_are_those_of_the_posterior(
    steps, repeated, seed
):
    # Steps of tokens come with all of them: alone, the others do not reach all states.
    check_draws(steps, repeated, SETTINGS, seed)


@pytest.mark.parametrize("place", range(3), ids=["alpha", "gamma", "eta"])
def test_check_finds_a_wrong_concentration(place):
    wrong = list(SETTINGS)
    wrong[place] *= 1.5
    drawn = draws("tokens", False, SETTINGS, 0)
    check_tells(drawn, posterior(DOCS, *wrong), kinds_of(numbered((3, 3))))


# -- detailed balance ------------------------------------------------------------------


def seated(state):
    """A seating by its number, as arrays."""
    of_docs, dishes = list(numbered((3, 3)))[state]
    sizes = [np.bincount(own) for own in of_docs]
    tables = TableAssignments(
        np.concatenate(of_docs),
        np.array([len(own) for own in sizes], np.int32),
        np.concatenate(sizes).astype(np.int32),
        np.array(dishes, np.int32),
    )
    alpha, gamma, eta = MANY_TABLES
    return Seating(tokens_of(DOCS), Concentrations(gamma, alpha, eta), tables)


def check_balance(n_scans, p, n_draws, seed):
    """Raise unless proposals go from one seating to another as often as back."""
    rng, known = np.random.default_rng(seed), {}
    numbers = numbered((3, 3))
    starts = rng.choice(len(p), n_draws, p=p)
    flows = np.zeros((len(p), len(p)))
    for state in starts.tolist():
        if state not in known:
            seating = seated(state)
            known[state] = seating, seating.tables()
        seating, tables = known[state]
        end = state
        if seating.n_all_tables > 1 and propose_moves(seating, 1, rng, n_scans):
            seating.tidy()
            end = numbers[seating_of(seating)]
            seating.restore(tables)
        flows[state, end] += 1.0
    both = np.triu(flows + flows.T, 1)
    often = both >= 8.0
    assert often.sum() >= 8
    square = ((flows - flows.T)[often] ** 2 / both[often]).sum()
    assert square < often.sum() + 5.0 * np.sqrt(2.0 * often.sum())


# By half as many, splits without their probability are found by one of four seeds.
@pytest.mark.parametrize("n_scans", daily(1, [1, 0, 3]))
def test_proposals_go_as_often_as_back(n_scans, seed):
    check_balance(n_scans, posterior(DOCS, *MANY_TABLES), 2 * N_DRAWS, seed)


def test_balance_tells_proposals_for_another_law():
    alpha, gamma, eta = MANY_TABLES
    wrong = posterior(DOCS, alpha, 2.0 * gamma, eta)
    with pytest.raises(AssertionError):
        check_balance(1, wrong, N_DRAWS, 0)


# -- groups of documents ---------------------------------------------------------------

#: Groups of the documents: in order, those without one last.
GROUPS = {
    "two of one": (0, 0, 1),
    "one of none": (0, 1, NO_GROUP),
    "two of none": (0, NO_GROUP, NO_GROUP),
}
#: Concentrations of documents, groups and corpus, and the topic prior: many tables, and
#: groups that tell much of their dishes.
GROUPED = {"many tables": (6.0, 1.5, 1.0, 0.3), "few tables": (1.0, 0.3, 2.0, 0.5)}
#: Steps of a sweep, groups, and settings.
CASES = daily(
    2,
    [
        ("dishes", "two of one", "many tables"),
        ("split-merge", "one of none", "few tables"),
        ("dishes", "one of none", "few tables"),
        ("dishes", "two of none", "many tables"),
        ("split-merge", "two of one", "many tables"),
        ("split-merge", "two of none", "many tables"),
        ("scans", "one of none", "many tables"),
        ("tokens", "two of one", "few tables"),
        ("one token proposes", "two of one", "many tables"),
    ],
)


@cache
def posterior_in_groups(groups, alpha, a, gamma, eta):
    """Probability of every seating."""
    return probabilities(
        [
            reference.log_prior_in_groups(s, groups, alpha, a, gamma)
            + reference.log_evidence_of_counts(s, OF_GROUPS, eta, N_WORDS)
            for s in numbered((2, 2, 2))
        ]
    )


@cache
def draws_in_groups(steps, groups, settings, seed):
    """Numbers of the seatings after each sweep, as a chain makes them."""
    alpha, a, gamma, eta = settings
    n_groups = len({*groups} - {NO_GROUP})
    codes = [n_groups if group is NO_GROUP else group for group in groups]
    limits = np.searchsorted(codes, np.arange(n_groups + 2))
    concentrations = Concentrations(gamma, alpha, eta, group_concentration=a)
    seating = Seating(tokens_of(OF_GROUPS), concentrations, None, None, limits)
    rng, drawn = np.random.default_rng(seed), []
    seating.seat_groups()
    seating.draw_weights()
    for _ in range(N_OF_GROUPS):
        make_sweep(seating, rng, steps)
        seating.seat_groups(rng)
        seating.draw_weights(rng)
        assert seating.weights.sum() == pytest.approx(1.0)
        drawn.append(numbered((2, 2, 2))[seating_of(seating)])
    return np.array(drawn)


@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_frequencies_in_groups_are_those_of_the_posterior(case, seed):
    steps, groups, settings = case
    given = GROUPS[groups], GROUPED[settings]
    drawn = draws_in_groups(steps, *given, seed)
    check_frequencies(drawn, posterior_in_groups(given[0], *given[1]))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_check_finds_a_wrong_concentration_of_groups(factor):
    groups, (alpha, a, gamma, eta) = GROUPS["two of one"], GROUPED["many tables"]
    drawn = draws_in_groups("dishes", groups, (alpha, a, gamma, eta), 0)
    wrong = posterior_in_groups(groups, alpha, factor * a, gamma, eta)
    with pytest.raises(AssertionError):
        check_frequencies(drawn, wrong)


# -- documents that repeat words -------------------------------------------------------

#: Two documents, of words that come again: some thousand states.
OF_REPEATS = [[0, 0, 0], [0, 1, 1]]
#: Document and corpus concentration, topic prior, discount and concentration of words.
REPEATS = {
    "discount": (0.5, 2.0, 0.1, 0.6, 1.5),
    "hardly any": (0.5, 2.0, 0.1, 1e-6, 2.0),
    "strong": (1.3, 1.3, 0.5, 0.95, 0.3),
}


@cache
def states_of_repeats():
    """Tables of words with seatings of the tokens that open these."""
    return {
        state: i
        for i, state in enumerate(
            (labels, seating)
            for labels in reference.word_tables(OF_REPEATS)
            for seating in reference.seatings(
                [len(words) for words in reference.openers(OF_REPEATS, labels)]
            )
        )
    }


def kinds_of_repeats():
    """Kinds of states by their numbers of openers, tables and dishes."""
    kinds = [
        (*map(len, reference.openers(OF_REPEATS, labels)), len(dishes), len({*dishes}))
        for labels, (_, dishes) in states_of_repeats()
    ]
    return np.unique(kinds, axis=0, return_inverse=True)[1].ravel()


def posterior_of_repeats(alpha, gamma, eta, discount, concentration):
    """Probability of every state."""
    return probabilities(
        [
            reference.log_prior_of_repeats(labels, discount, concentration)
            + reference.log_prior(seating, alpha, gamma)
            + reference.log_evidence_of_counts(
                seating, reference.openers(OF_REPEATS, labels), eta, 2
            )
            for labels, seating in states_of_repeats()
        ]
    )


def state_of(seating, rng):
    """Give tokens of a word its tables at random; a seating has the sizes alone."""
    labels, tables, dishes = [], [], []
    for doc, words in enumerate(OF_REPEATS):
        begin = int(seating.begin[doc])
        size = seating.word_size[begin : begin + len(words)]
        table = seating.table[begin : begin + len(words)]
        of_doc, of_openers = [None] * len(words), {}
        for word in set(words):
            at = np.flatnonzero(np.equal(words, word))
            opened = rng.permutation(np.repeat(at, size[at]))
            for opener in set(opened.tolist()):
                own = at[opened == opener].tolist()
                for i in own:
                    of_doc[i] = own[0]
                of_openers[own[0]] = int(table[opener])
        labels.append(tuple(of_doc))
        tables.append([of_openers[i] for i in sorted(of_openers)])
        dishes.append(
            dict(enumerate(seating.dish[begin : begin + len(words)].tolist()))
        )
    return tuple(labels), reference.canonical(tables, dishes)


@cache
def draws_of_repeats(steps, settings, seed):
    """Numbers of the states after each sweep, as a chain makes them."""
    alpha, gamma, *others = settings
    words = np.concatenate(OF_REPEATS).astype(np.int32)
    tokens = Tokens(words, np.cumsum([0, *map(len, OF_REPEATS)]), 2)
    seating = Seating(tokens, Concentrations(gamma, alpha, *others))
    rng, drawn = np.random.default_rng(seed), []
    for _ in range(N_OF_REPEATS):
        make_sweep(seating, rng, steps)
        drawn.append(states_of_repeats()[state_of(seating, rng)])
    return np.array(drawn)


@along_diagonal(("settings", "steps"), REPEATS, ["dishes", "all"])
def test_frequencies_of_repeats_are_those_of_the_posterior(steps, settings, seed):
    settings = REPEATS[settings]
    drawn = draws_of_repeats(steps, settings, seed)
    check_both(drawn, posterior_of_repeats(*settings), kinds_of_repeats())


@pytest.mark.parametrize(("place", "factor"), [(3, 0.8), (4, 1.3)])
def test_check_finds_wrong_repeats(place, factor):
    settings = REPEATS["discount"]
    wrong = list(settings)
    wrong[place] *= factor
    drawn = draws_of_repeats("dishes", settings, 0)
    check_tells(drawn, posterior_of_repeats(*wrong), kinds_of_repeats())
