"""The sampler over tables and dishes against enumeration, which finds planted bugs."""

import numpy as np
import pytest
import scipy.sparse as sp

from checks.long import daily
from reference import hdp_franchise as reference
from skbnp.kernels._franchise import sweep
from skbnp.kernels._seating import MEAL_PART
from skbnp.models.hdp_franchise.chain import propose_moves
from skbnp.models.hdp_franchise.model import Concentrations, Seating, TableAssignments
from skbnp.rows.batch import Tokens

#: Two documents of three tokens: 712 seatings.
DOCS, REPEATED = [[0, 0, 1], [0, 1, 2]], [[0, 0, 0], [0, 0, 1]]
N_WORDS = 3
SEATINGS = {s: i for i, s in enumerate(reference.seatings([3, 3]))}
#: The same by the numbers of their tables and dishes: 20 kinds.
KINDS = {
    key: i
    for i, key in enumerate(
        sorted({(len(dishes), len(set(dishes))) for _, dishes in SEATINGS})
    )
}
KIND = np.array([KINDS[len(dishes), len(set(dishes))] for _, dishes in SEATINGS])
#: Draws, and the total variation that seatings and kinds may have in so many.
#: Independent draws have 0.028 and 0.005 at the most (n states of equal probability:
#: sqrt(n / (2 pi draws))); neighbours in a chain resemble each other.
N_REFERENCE, VARIATION, VARIATION_OF_KINDS = 100_000, 0.04, 0.015
#: Draws in which bugs are found; with fewer the noise grows with the root.
N_FEW = 6_000
CONCENTRATIONS = [0.3, 1.3, 5.0]
#: Document and corpus concentration, topic prior.
SETTINGS = 0.5, 2.0, 0.1
#: The same where tables are many, and few dishes.
MANY_TABLES = 20.0, 1.0, 0.1


def counts_of(docs, n_words):
    return sp.csr_array([np.bincount(doc, minlength=n_words) for doc in docs])


def seat(docs, n_words, alpha, gamma, eta):
    tokens = Tokens.from_counts(counts_of(docs, n_words))
    return Seating(tokens, Concentrations(gamma, alpha, eta))


def make_sweep(seating, rng, meal_part):
    doc, n_docs = 0, len(seating.n_tables)
    while doc < n_docs:
        work = seating.workspace
        doc = sweep(seating, work, doc, n_docs, meal_part, rng.bit_generator)
        if doc < n_docs:
            seating.make_places()


def dish_of_tokens(seating):
    return seating.dish[seating.begin[seating.tokens.doc] + seating.table]


class Numbers:
    """Numbers of seatings; those met before are looked up."""

    def __init__(self):
        self.known = {}

    def __call__(self, seating):
        dishes = dish_of_tokens(seating)
        key = seating.table.tobytes() + dishes.tobytes()
        if key not in self.known:
            split = seating.begin[1:-1]
            tables = [own.tolist() for own in np.split(seating.table, split)]
            served = [own.tolist() for own in np.split(dishes, split)]
            of_table = [
                dict(zip(*pair, strict=True))
                for pair in zip(tables, served, strict=True)
            ]
            self.known[key] = SEATINGS[reference.canonical(tables, of_table)]
        return self.known[key]


def posterior(docs, alpha, gamma, eta):
    """Probability of every seating."""
    log_p = np.array(
        [
            reference.log_prior(s, alpha, gamma)
            + reference.log_evidence_of_counts(s, docs, eta, N_WORDS)
            for s in SEATINGS
        ]
    )
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def check_frequencies(draw, n_draws, docs, *settings):
    """Raise unless draws have the frequencies that enumeration gives."""
    result = np.bincount([draw() for _ in range(n_draws)], minlength=len(SEATINGS))
    differences = result / n_draws - posterior(docs, *settings)
    noise = (N_REFERENCE / n_draws) ** 0.5
    assert np.abs(differences).sum() / 2 < VARIATION * noise
    of_kinds = np.abs(np.bincount(KIND, differences)).sum() / 2
    assert of_kinds < VARIATION_OF_KINDS * noise


def kernel_draws(steps, docs, *settings, seed):
    seating = seat(docs, N_WORDS, *settings)
    rng, number = np.random.default_rng(seed), Numbers()
    parts = {"one token proposes": 1, "two tokens propose": 2}
    meal_part = {"dishes": MEAL_PART, "all": MEAL_PART, **parts}.get(steps, 0)

    def draw():
        if steps in ("split-merge", "scans", "all") and seating.n_all_tables:
            propose_moves(seating, 1, rng, 2 if steps == "scans" else 0)
        make_sweep(seating, rng, meal_part)
        if seating.n_served > 50:
            seating.tidy()
        return number(seating)

    return draw


def test_there_are_712_seatings_of_mass_one():
    assert len(SEATINGS) == 712
    assert len(KINDS) == 20
    for concentration in CONCENTRATIONS:
        mass = sum(np.exp(reference.log_prior(s, concentration, 2.0)) for s in SEATINGS)
        assert mass == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("concentration", CONCENTRATIONS)
@pytest.mark.parametrize("steps", daily(1, ["all", "dishes"]))
def test_frequencies_are_those_of_the_posterior(steps, concentration, seed):
    settings = concentration, concentration, 0.5
    draw = kernel_draws(steps, DOCS, *settings, seed=seed)
    check_frequencies(draw, N_FEW, DOCS, *settings)


@pytest.mark.parametrize("docs", [REPEATED, DOCS], ids=["repeated words", "mixed"])
@pytest.mark.parametrize(
    "steps",
    ["tokens", "one token proposes", "two tokens propose", "split-merge", "scans"],
)
def test_frequencies_of_each_kind_of_step_are_those_of_the_posterior(steps, docs, seed):
    # Steps of tokens come with all of them: alone, the others do not reach all states.
    draw = kernel_draws(steps, docs, *SETTINGS, seed=seed)
    check_frequencies(draw, N_FEW, docs, *SETTINGS)


# -- detailed balance ------------------------------------------------------------------


def seated(state):
    """A seating by its number, as arrays."""
    of_docs, dishes = list(SEATINGS)[state]
    sizes = [np.bincount(own) for own in of_docs]
    tables = TableAssignments(
        np.concatenate(of_docs),
        np.array([len(own) for own in sizes], np.int32),
        np.concatenate(sizes).astype(np.int32),
        np.array(dishes, np.int32),
    )
    tokens = Tokens.from_counts(counts_of(DOCS, N_WORDS))
    alpha, gamma, eta = MANY_TABLES
    return Seating(tokens, Concentrations(gamma, alpha, eta), tables)


def kernel_proposal(n_scans):
    number, starts = Numbers(), {}

    def propose(state, rng):
        if state not in starts:
            starts[state] = seated(state)
        seating = starts[state]
        if seating.n_all_tables > 1:
            tables = seating.tables()
            moved = propose_moves(seating, 1, rng, n_scans)
            seating.tidy()
            if moved:
                state = number(seating)
                seating.restore(tables)
        return state

    return propose


def reference_proposal(cls):
    def propose(state, rng):
        franchise = cls([[], []], N_WORDS, *MANY_TABLES, rng)
        franchise.docs = DOCS
        of_docs, dishes = list(SEATINGS)[state]
        first = 0
        for doc, own in enumerate(of_docs):
            for table in range(max(own) + 1):
                tokens = [i for i, t in enumerate(own) if t == table]
                dish = franchise.serve(dishes[first + table])
                franchise.tables[doc].append([dish, tokens])
                franchise.add(dish, [DOCS[doc][i] for i in tokens])
            first += max(own) + 1
        franchise.next_dish = max(dishes) + 1
        franchise.split_merge()
        return SEATINGS[franchise.seating()]

    return propose


def check_balance(propose, n_draws, seed):
    """Raise unless proposals go from one seating to another as often as back."""
    rng = np.random.default_rng(seed)
    starts = rng.choice(len(SEATINGS), n_draws, p=posterior(DOCS, *MANY_TABLES))
    ends = np.array([propose(state, rng) for state in starts.tolist()])
    flows = np.zeros((len(SEATINGS), len(SEATINGS)))
    np.add.at(flows, (starts, ends), 1.0)
    both = np.triu(flows + flows.T, 1)
    often = both >= 8.0
    assert often.sum() >= 8
    square = ((flows - flows.T)[often] ** 2 / both[often]).sum()
    assert square < often.sum() + 5.0 * np.sqrt(2.0 * often.sum())


# By half as many, splits without their probability are found by one of four seeds.
@pytest.mark.parametrize("n_scans", daily(1, [1, 0, 3]))
def test_proposals_go_as_often_as_back(n_scans, seed):
    check_balance(kernel_proposal(n_scans), 2 * N_FEW, seed)


# -- planted bugs ----------------------------------------------------------------------


class ForgetsRepeatedWords(reference.Franchise):
    def word_mass(self, held, seen):
        return held + self.eta


class ScansWithoutHastings(reference.Franchise):
    n_scans = 2

    def log_allocation(self, log_forward):
        return 0.0


def reference_draws(cls, docs, *settings, seed):
    rng = np.random.default_rng(seed)
    franchise = cls(docs, N_WORDS, *settings, rng)

    def draw():
        franchise.split_merge()
        franchise.sweep()
        franchise.split_merge()
        return SEATINGS[franchise.seating()]

    return draw


@pytest.mark.weekly
@pytest.mark.parametrize("docs", [DOCS, REPEATED], ids=["mixed", "repeated words"])
def test_the_reference_has_the_frequencies_of_the_posterior(docs):
    draw = reference_draws(reference.Franchise, docs, *SETTINGS, seed=0)
    check_frequencies(draw, N_FEW, docs, *SETTINGS)


@pytest.mark.weekly
def test_check_finds_a_subtle_bug():
    draw = reference_draws(ForgetsRepeatedWords, REPEATED, *SETTINGS, seed=0)
    with pytest.raises(AssertionError):
        check_frequencies(draw, N_FEW, REPEATED, *SETTINGS)


def test_balance_tells_wrong_proposals():
    with pytest.raises(AssertionError):
        check_balance(reference_proposal(ScansWithoutHastings), N_FEW, 0)
