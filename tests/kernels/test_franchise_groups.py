"""The sampler of documents in groups against enumeration, which finds planted bugs."""

import numpy as np
import pytest
import scipy.sparse as sp

from checks.frequencies import check_frequencies
from checks.long import daily
from reference import hdp_franchise as reference
from reference.hdp_franchise import NO_GROUP
from skbnp.kernels._franchise import sweep
from skbnp.kernels._seating import MEAL_PART
from skbnp.models.hdp_franchise.chain import propose_moves
from skbnp.models.hdp_franchise.model import Concentrations, Seating
from skbnp.rows.batch import Tokens

#: Three documents of two tokens: 409 seatings.
DOCS, N_WORDS = [[0, 0], [0, 1], [1, 2]], 3
SEATINGS = {s: i for i, s in enumerate(reference.seatings([2, 2, 2]))}
#: Groups of the documents: in order, those without one last.
GROUPS = {
    "two of one": (0, 0, 1),
    "one of none": (0, 1, NO_GROUP),
    "two of none": (0, NO_GROUP, NO_GROUP),
}
#: Concentrations of documents, groups and corpus, and the topic prior: many tables, and
#: groups that tell much of their dishes.
SETTINGS = {"many tables": (6.0, 1.5, 1.0, 0.3), "few tables": (1.0, 0.3, 2.0, 0.5)}
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
#: Draws, in which bugs are found.
N_DRAWS = 4_000


def posterior(groups, alpha, a, gamma, eta):
    """Probability of every seating."""
    log_p = np.array(
        [
            reference.log_prior_in_groups(s, groups, alpha, a, gamma)
            + reference.log_evidence_of_counts(s, DOCS, eta, N_WORDS)
            for s in SEATINGS
        ]
    )
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def seat(groups, alpha, a, gamma, eta):
    X = sp.csr_array([np.bincount(doc, minlength=N_WORDS) for doc in DOCS])
    n_groups = len({*groups} - {NO_GROUP})
    codes = [n_groups if group is NO_GROUP else group for group in groups]
    limits = np.searchsorted(codes, np.arange(n_groups + 2))
    concentrations = Concentrations(gamma, alpha, eta, group=a)
    return Seating(Tokens.from_counts(X), concentrations, None, None, limits)


def number(seating):
    """Number of a seating."""
    dishes = seating.dish[seating.begin[seating.tokens.doc] + seating.table]
    split = seating.begin[1:-1]
    tables = [own.tolist() for own in np.split(seating.table, split)]
    served = [own.tolist() for own in np.split(dishes, split)]
    of_table = [
        dict(zip(*pair, strict=True)) for pair in zip(tables, served, strict=True)
    ]
    return SEATINGS[reference.canonical(tables, of_table)]


def kernel_draws(n_draws, groups, settings, steps, seed):
    """Numbers of the seatings after each sweep, as a chain makes them."""
    seating, rng = seat(groups, *settings), np.random.default_rng(seed)
    seating.seat_groups()
    seating.draw_weights()
    meal_part = {"tokens": 0, "one token proposes": 1}.get(steps, MEAL_PART)
    drawn = []
    for _ in range(n_draws):
        for doc, stop in seating.parts(0, len(DOCS)):
            while doc < stop:
                work = seating.workspace
                doc = sweep(seating, work, doc, stop, meal_part, rng.bit_generator)
                if doc < stop:
                    seating.make_places()
        seating.tidy()
        if steps in ("split-merge", "scans"):
            propose_moves(seating, 2, rng, 2 if steps == "scans" else 0)
            seating.tidy()
        seating.seat_groups(rng)
        seating.draw_weights(rng)
        assert seating.weights.sum() == pytest.approx(1.0)
        drawn.append(number(seating))
    return drawn


@pytest.mark.parametrize("groups", GROUPS)
def test_priors_of_seatings_have_mass_one(groups):
    for settings in SETTINGS.values():
        logs = [
            reference.log_prior_in_groups(s, GROUPS[groups], *settings[:3])
            for s in SEATINGS
        ]
        assert np.exp(logs).sum() == pytest.approx(1.0, rel=1e-12)


def test_prior_of_groups_that_follow_the_corpus_is_that_without():
    seating = list(SEATINGS)[200]
    expected = reference.log_prior(seating, 2.0, 1.5)
    result = reference.log_prior_in_groups(seating, (0, 0, 1), 2.0, 1e7, 1.5)
    assert result == pytest.approx(expected, abs=1e-5)
    alone = reference.log_prior_in_groups(seating, [NO_GROUP] * 3, 2.0, 0.1, 1.5)
    assert alone == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_frequencies_are_those_of_the_posterior(case, seed):
    steps, groups, settings = case
    given = GROUPS[groups], SETTINGS[settings]
    drawn = kernel_draws(N_DRAWS, *given, steps, seed)
    check_frequencies(drawn, posterior(given[0], *given[1]))


# -- planted bugs ----------------------------------------------------------------------


def test_check_finds_a_wrong_concentration_of_groups():
    groups, (alpha, a, gamma, eta) = GROUPS["two of one"], SETTINGS["many tables"]
    drawn = kernel_draws(N_DRAWS, groups, (alpha, a, gamma, eta), "dishes", 0)
    check_frequencies(drawn, posterior(groups, alpha, a, gamma, eta))
    for wrong in (a / 2.0, 2.0 * a):
        with pytest.raises(AssertionError):
            check_frequencies(drawn, posterior(groups, alpha, wrong, gamma, eta))


class ForgetsTablesOfItsGroup(reference.GroupedFranchise):
    def own_tables(self, group, dish):
        return 0


def reference_draws(cls, groups, settings, n_draws, seed):
    alpha, a, gamma, eta = settings
    rng = np.random.default_rng(seed)
    franchise = cls(DOCS, groups, N_WORDS, alpha, a, gamma, eta, rng)
    drawn = []
    for _ in range(n_draws):
        franchise.sweep()
        drawn.append(SEATINGS[franchise.seating()])
    return drawn


@pytest.mark.weekly
@pytest.mark.parametrize("groups", GROUPS)
def test_the_reference_has_the_frequencies_of_the_posterior(groups):
    given = GROUPS[groups], SETTINGS["many tables"]
    drawn = reference_draws(reference.GroupedFranchise, *given, N_DRAWS, 0)
    check_frequencies(drawn, posterior(given[0], *given[1]))


@pytest.mark.weekly
def test_check_finds_a_bug_of_the_tables_of_groups():
    given = GROUPS["two of one"], SETTINGS["many tables"]
    drawn = reference_draws(ForgetsTablesOfItsGroup, *given, N_DRAWS, 0)
    with pytest.raises(AssertionError):
        check_frequencies(drawn, posterior(given[0], *given[1]))
