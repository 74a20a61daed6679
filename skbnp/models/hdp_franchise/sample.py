"""Samples of the franchise: what prediction reads of a seating."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.inference.chains import ChainState
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp_franchise.model import Concentrations, Places, Seating
from skbnp.models.hdp_franchise.repeats import NONE
from skbnp.utils.ranges import Log, Positive, Sized, Steps, Tokens
from skbnp.utils.typing import Array, Ints, Ints32


@dataclass(frozen=True, slots=True)
class FranchiseSample:
    """What prediction reads of a seating; topics are not aligned between samples."""

    # int32
    topic_word_counts: Annotated[sp.csr_array, Tokens("n_components", "n_features")]
    table_counts: Annotated[Ints32, Sized("n_components", least=1)]
    component_ids: Annotated[Ints, Sized("n_components")]
    doc_concentration: Positive  # alpha
    corpus_concentration: Positive  # gamma
    topic_word_prior: Positive  # eta
    log_joint: Log  # nats per token
    chain: Steps
    step: Steps  # sweeps made
    word_discount: float = NONE[0]  # d
    word_concentration: float = NONE[1]  # c

    @classmethod
    def of(cls, seating: Seating, state: ChainState) -> "FranchiseSample":
        """Copy topics of a seating, most tables first; one empty topic if none."""
        counts, tables = seating.dish_counts(), seating.dish_tables[: seating.n_served]
        order = np.argsort(-tables, kind="stable")
        if len(order):
            counts, tables, ids = counts[order], tables[order], state.ids[order]
        else:
            counts = sp.csr_array((1, seating.tokens.n_words), dtype=np.int32)
            tables, ids = np.ones(1, np.int32), np.array([state.next_id - 1])
        return cls(
            counts,
            tables,
            ids,
            seating.doc_concentration,
            seating.corpus_concentration,
            seating.topic_word_prior,
            state.log_joint,
            state.number,
            state.step,
            seating.word_discount,
            seating.word_concentration,
        )

    @classmethod
    def of_prior(
        cls, counts: sp.csr_array, ids: Ints, concentrations: Concentrations
    ) -> "FranchiseSample":
        """Return topics with prior tokens `counts`, each with one table."""
        return cls(
            counts,
            np.ones(len(ids), np.int32),
            ids,
            concentrations.doc,
            concentrations.corpus,
            concentrations.topic_word_prior,
            log_joint=0.0,
            chain=0,
            step=0,
        )

    @property
    def has_repeats(self) -> bool:
        """Whether documents repeat words by tables of words."""
        return bool(np.isfinite(self.word_concentration))

    @property
    def burstiness(self) -> Burstiness | None:
        """How documents repeat words, or None."""
        burstiness = Burstiness(self.word_discount, self.word_concentration)
        return burstiness if self.has_repeats else None

    @property
    def n_tokens(self) -> NDArray:
        """Tokens of each topic without repeats, (K,)."""
        return np.asarray(self.topic_word_counts.sum(axis=1)).ravel()

    @property
    def topic_weights(self) -> Array:
        """Expected corpus-level weights, m_k / (m + gamma)."""
        return self.table_counts / (self.table_counts.sum() + self.corpus_concentration)

    @property
    def doc_prior(self) -> Array:
        """Dirichlet parameters of a document; the last is of all other topics."""
        weights = self.topic_weights
        rest = self.corpus_concentration / (
            self.table_counts.sum() + self.corpus_concentration
        )
        return self.doc_concentration * np.append(weights, rest)

    def word_topic(self, words: NDArray | slice = slice(None)) -> Array:
        """E[phi_kw] = (n_kw + eta) / (n_k + V eta) of some words, (n_words, K)."""
        eta, n_words = self.topic_word_prior, self.topic_word_counts.shape[1]
        stored = self.topic_word_counts[:, words].T.toarray().astype(np.float64)
        stored += eta
        stored /= self.n_tokens + n_words * eta
        return stored

    def places(self) -> Places:
        """Return tables and counts, from which a seating of new documents starts."""
        used = np.flatnonzero(self.n_tokens > 0)
        return Places(self.topic_word_counts[used], self.table_counts[used])
