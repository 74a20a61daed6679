"""Hyperparameters of the Chinese restaurant franchise, drawn given a seating."""

from dataclasses import dataclass

import numpy as np

from skbnp.components import hyperparameters as draws
from skbnp.components.hyperparameters import GammaPrior
from skbnp.models.hdp_franchise.model import Seating
from skbnp.models.hdp_franchise.repeats import VAGUE, Repeats


@dataclass(frozen=True, slots=True)
class Priors:
    """Gamma(shape, rate) priors of the hyperparameters that are learned."""

    learn_concentrations: bool
    learn_topic_prior: bool
    corpus: GammaPrior
    doc: GammaPrior
    topic: GammaPrior = (1.0, 1.0)
    word: GammaPrior = VAGUE  # of what documents repeat, which is always learned

    def resample(self, seating: Seating, rng: np.random.Generator) -> None:
        """Draw the hyperparameters that are learned, in place, given the seating."""
        if self.learn_concentrations:
            self._resample_corpus(seating, rng)
            self._resample_doc(seating, rng)
        if self.learn_topic_prior:
            self._resample_topic(seating, rng)
            seating.set_rates()
        repeats = seating.repeats()
        if repeats is not None:
            self._resample_repeats(seating, repeats, rng)

    def log_density(self, seating: Seating) -> float:
        """Log prior density of the hyperparameters that are learned."""
        total = 0.0
        if self.learn_concentrations:
            total += draws.log_gamma_density(seating.corpus_concentration, self.corpus)
            total += draws.log_gamma_density(seating.doc_concentration, self.doc)
        if self.learn_topic_prior:
            total += draws.log_gamma_density(seating.topic_word_prior, self.topic)
        if seating.word_size is not None:
            total += draws.log_gamma_density(seating.word_concentration, self.word)
        return total

    def _resample_corpus(self, seating: Seating, rng: np.random.Generator) -> None:
        m = seating.n_all_tables
        seating.corpus_concentration = draws.draw_concentration(
            seating.corpus_concentration,
            np.array([m] if m > 0 else []),
            seating.n_dishes if m > 0 else 0,
            self.corpus,
            rng,
        )

    def _resample_doc(self, seating: Seating, rng: np.random.Generator) -> None:
        lengths = seating.n_seated
        seating.doc_concentration = draws.draw_concentration(
            seating.doc_concentration,
            lengths[lengths > 0],
            seating.n_tables.sum(),
            self.doc,
            rng,
        )

    def _resample_topic(self, seating: Seating, rng: np.random.Generator) -> None:
        counted = seating.count_of_counts()
        seating.topic_word_prior = draws.draw_by_slice(
            seating.topic_word_prior,
            lambda eta: seating.log_evidence(eta, counted),
            self.topic,
            rng,
        )

    def _resample_repeats(
        self, seating: Seating, repeats: Repeats, rng: np.random.Generator
    ) -> None:
        """Draw discount and concentration of repeats, in place."""
        now = seating.word_discount, seating.word_concentration
        drawn = repeats.draw(*now, self.word, rng)
        seating.word_discount, seating.word_concentration = drawn
