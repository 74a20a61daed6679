"""The sampler where documents repeat words, against enumeration, which finds bugs."""

import numpy as np
import pytest

from reference import hdp_franchise as reference
from skbnp.kernels._franchise import sweep
from skbnp.kernels._seating import MEAL_PART
from skbnp.models.hdp_franchise.chain import propose_moves
from skbnp.models.hdp_franchise.model import Concentrations, Seating
from skbnp.rows.batch import Tokens

#: Two documents, of words that come again: some thousand states.
DOCS, N_WORDS = [[0, 0, 0], [0, 1, 1]], 2
STATES = {
    (labels, seating): i
    for i, (labels, seating) in enumerate(
        (labels, seating)
        for labels in reference.word_tables(DOCS)
        for seating in reference.seatings(
            [len(words) for words in reference.openers(DOCS, labels)]
        )
    )
}


def kind_of(labels, seating):
    """Numbers of openers of each document, of tables and of dishes."""
    n_openers = tuple(len(words) for words in reference.openers(DOCS, labels))
    return n_openers, len(seating[1]), len(set(seating[1]))


KINDS = {key: i for i, key in enumerate(sorted({kind_of(*s) for s in STATES}))}
KIND = np.array([KINDS[kind_of(*state)] for state in STATES])
#: Draws, and the total variation that states and kinds may have in so many. Independent
#: draws have 0.031 and 0.008, and draws of the chain as much.
N_REFERENCE, VARIATION, VARIATION_OF_KINDS = 100_000, 0.04, 0.013
#: Draws in which bugs are found; with fewer the noise grows with the root.
N_FEW = 3_000
#: Document and corpus concentration, topic prior, discount and concentration of words.
SETTINGS = {
    "discount": (0.5, 2.0, 0.1, 0.6, 1.5),
    "hardly any": (0.5, 2.0, 0.1, 1e-6, 2.0),
    "strong": (1.3, 1.3, 0.5, 0.95, 0.3),
}


def posterior(alpha, gamma, eta, discount, concentration):
    """Probability of every state."""
    log_p = np.array(
        [
            reference.log_prior_of_repeats(labels, discount, concentration)
            + reference.log_prior(seating, alpha, gamma)
            + reference.log_evidence_of_counts(
                seating, reference.openers(DOCS, labels), eta, N_WORDS
            )
            for labels, seating in STATES
        ]
    )
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def check_frequencies(draw, n_draws, settings):
    """Raise unless draws have the frequencies that enumeration gives."""
    result = np.bincount([draw() for _ in range(n_draws)], minlength=len(STATES))
    differences = result / n_draws - posterior(*settings)
    noise = (N_REFERENCE / n_draws) ** 0.5
    assert np.abs(differences).sum() / 2 < VARIATION * noise
    of_kinds = np.abs(np.bincount(KIND, differences)).sum() / 2
    assert of_kinds < VARIATION_OF_KINDS * noise


def seat(alpha, gamma, eta, discount, concentration):
    words = np.concatenate(DOCS).astype(np.int32)
    tokens = Tokens(words, np.cumsum([0, *map(len, DOCS)]), N_WORDS)
    concentrations = Concentrations(gamma, alpha, eta, discount, concentration)
    return Seating(tokens, concentrations)


def state_of(seating, rng):
    """Give tokens of a word its tables at random; a seating has the sizes alone."""
    labels, tables, dishes = [], [], []
    for doc, words in enumerate(DOCS):
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


def kernel_draws(split_merge, settings, seed):
    seating, rng = seat(*settings), np.random.default_rng(seed)

    def draw():
        if split_merge and seating.n_all_tables:
            propose_moves(seating, 1, rng)
        generator = rng.bit_generator
        sweep(seating, seating.workspace, 0, len(DOCS), MEAL_PART, generator)
        if seating.n_served > 50:
            seating.tidy()
        return STATES[state_of(seating, rng)]

    return draw


@pytest.mark.parametrize("settings", SETTINGS)
def test_tables_of_words_have_mass_one(settings):
    discount, concentration = SETTINGS[settings][3:]
    # All tokens are of one word: every partition is a state.
    mass = sum(
        np.exp(reference.log_prior_of_repeats(labels, discount, concentration))
        for labels in reference.word_tables([[0] * 5])
    )
    assert mass == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("split_merge", [False, True], ids=["gibbs", "split-merge"])
def test_frequencies_are_those_of_the_posterior(split_merge, settings, seed):
    draw = kernel_draws(split_merge, SETTINGS[settings], seed)
    check_frequencies(draw, N_FEW, SETTINGS[settings])


# -- planted bugs ----------------------------------------------------------------------


class LeavesOpenersOut(reference.RepeatingFranchise):
    """Tokens that repeat another one never open a table again."""

    def draw_word(self, doc, token):
        if all(opener != token for opener, _ in self.word_tables[doc]):
            return
        super().draw_word(doc, token)


def reference_draws(cls, settings, seed):
    rng = np.random.default_rng(seed)
    franchise = cls(DOCS, N_WORDS, *settings, rng)

    def draw():
        franchise.split_merge()
        franchise.sweep()
        return STATES[franchise.state()]

    return draw


@pytest.mark.weekly
def test_the_reference_has_the_frequencies_of_the_posterior():
    settings = SETTINGS["discount"]
    draw = reference_draws(reference.RepeatingFranchise, settings, 0)
    check_frequencies(draw, N_FEW, settings)


def test_check_finds_a_planted_bug():
    settings = SETTINGS["discount"]
    with pytest.raises(AssertionError):
        check_frequencies(
            reference_draws(LeavesOpenersOut, settings, 0), N_FEW, settings
        )
