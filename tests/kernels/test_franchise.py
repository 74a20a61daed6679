"""The sampler over tables and dishes against enumeration, which finds planted bugs."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from checks.frequencies import check_frequencies
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
#: Draws, in which bugs are found.
N_DRAWS = 6_000
CONCENTRATIONS = [0.3, 1.3, 5.0]
#: Document and corpus concentration, topic prior.
SETTINGS = 0.5, 2.0, 0.1
#: The same where tables are many, and few dishes.
MANY_TABLES = 20.0, 1.0, 0.1


def seat(docs, alpha, gamma, eta, tables=None):
    counts = sp.csr_array([np.bincount(doc, minlength=N_WORDS) for doc in docs])
    tokens = Tokens.from_counts(counts)
    return Seating(tokens, Concentrations(gamma, alpha, eta), tables)


def make_sweep(seating, rng, meal_part):
    doc, n_docs = 0, len(seating.n_tables)
    while doc < n_docs:
        work = seating.workspace
        doc = sweep(seating, work, doc, n_docs, meal_part, rng.bit_generator)
        if doc < n_docs:
            seating.make_places()


def number(seating):
    dishes = seating.dish[seating.begin[seating.tokens.doc] + seating.table]
    return SEATINGS[reference.canonical_of(seating.begin, seating.table, dishes)]


def posterior(docs, alpha, gamma, eta):
    """Probability of every seating."""
    log_p = [
        reference.log_prior(s, alpha, gamma)
        + reference.log_evidence_of_counts(s, docs, eta, N_WORDS)
        for s in SEATINGS
    ]
    return softmax(log_p)


def check_draws(drawn, docs, *settings):
    """Raise unless draws have the frequencies that enumeration gives."""
    p = posterior(docs, *settings)
    check_frequencies(drawn, p)
    check_frequencies(drawn, p, KIND)


def kernel_draws(steps, docs, *settings, seed):
    """Numbers of the seatings after each sweep."""
    seating, rng, drawn = seat(docs, *settings), np.random.default_rng(seed), []
    parts = {"one token proposes": 1, "two tokens propose": 2}
    meal_part = {"dishes": MEAL_PART, "all": MEAL_PART, **parts}.get(steps, 0)

    for _ in range(N_DRAWS):
        if steps in ("split-merge", "scans", "all") and seating.n_all_tables:
            propose_moves(seating, 1, rng, 2 if steps == "scans" else 0)
        make_sweep(seating, rng, meal_part)
        if seating.n_served > 50:
            seating.tidy()
        drawn.append(number(seating))
    return drawn


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
    check_draws(kernel_draws(steps, DOCS, *settings, seed=seed), DOCS, *settings)


@pytest.mark.parametrize("docs", [REPEATED, DOCS], ids=["repeated words", "mixed"])
@pytest.mark.parametrize(
    "steps",
    ["tokens", "one token proposes", "two tokens propose", "split-merge", "scans"],
)
def test_frequencies_of_each_kind_of_step_are_those_of_the_posterior(steps, docs, seed):
    # Steps of tokens come with all of them: alone, the others do not reach all states.
    check_draws(kernel_draws(steps, docs, *SETTINGS, seed=seed), docs, *SETTINGS)


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
    return seat(DOCS, *MANY_TABLES, tables)


def kernel_proposal(n_scans):
    starts = {}

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


def check_balance(n_scans, seed, *settings):
    """Raise unless proposals go from one seating to another as often as back."""
    rng, propose = np.random.default_rng(seed), kernel_proposal(n_scans)
    starts = rng.choice(len(SEATINGS), N_DRAWS, p=posterior(DOCS, *settings))
    ends = np.array([propose(state, rng) for state in starts.tolist()])
    flows = np.zeros((len(SEATINGS), len(SEATINGS)))
    np.add.at(flows, (starts, ends), 1.0)
    both = np.triu(flows + flows.T, 1)
    often = both >= 8.0
    assert often.sum() >= 8
    square = ((flows - flows.T)[often] ** 2 / both[often]).sum()
    assert square < often.sum() + 5.0 * np.sqrt(2.0 * often.sum())


@pytest.mark.parametrize("n_scans", daily(2, [0, 1, 3]))
def test_proposals_go_as_often_as_back(n_scans, seed):
    check_balance(n_scans, seed, *MANY_TABLES)


# -- negative controls -----------------------------------------------------------------


def test_check_finds_wrong_concentrations():
    drawn = kernel_draws("all", DOCS, *SETTINGS, seed=0)
    for factors in np.where(np.eye(3), 1.5, 1.0):
        with pytest.raises(AssertionError):
            check_draws(drawn, DOCS, *factors * SETTINGS)


def test_balance_tells_another_posterior():
    alpha, gamma, eta = MANY_TABLES
    with pytest.raises(AssertionError):
        check_balance(2, 0, alpha, 2.0 * gamma, eta)
