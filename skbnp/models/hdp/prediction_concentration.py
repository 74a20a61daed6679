"""Concentration of documents for prediction, apart from that of learning.

Topics have been shaped by the documents that they were learned from, whose proportions
are therefore sharper than those of other documents: of titles, the concentration alpha
that is learned with the topics is several times too small to predict unseen ones. So
held-out documents choose another one,

    a = argmax_{a >= alpha} sum_jw n_jw log [ (sum_k N_jk phi_kw + a b_w) / (N_j + a) ],
    b_w = sum_k beta_k phi_kw + beta_rest / V,

with n_jw the held-out tokens and N the expected counts of the observed ones, by which
the judges of trials, `score` and `transform` predict. Learning keeps alpha: under a
larger one topics blur.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.posterior import Posterior
from skbnp.models.hdp.held_out import HeldOut
from skbnp.rows.word_sums import rows_of

__all__ = ["HIGHEST", "suit_joint_concentration", "suit_prediction_concentration"]

#: Largest concentration: documents of fewer tokens have the weights of the corpus.
HIGHEST = 1e4
#: Expected counts follow the concentration: rounds, where it moves by such a factor.
N_ROUNDS, MOVES_BY = 2, 1.2
#: Of the logarithm of the concentration.
TOL = 1e-2


def suit_prediction_concentration(
    held_out: HeldOut, posterior: Posterior, executor: Executor
) -> None:
    """Set the concentration that predicts held-out tokens best, topics as they are."""
    suit_joint_concentration([(held_out.sample(), posterior)], executor)


def suit_joint_concentration(
    pairs: Sequence[tuple[HeldOut, Posterior]], executor: Executor
) -> None:
    """Set one concentration, that which predicts the held-out tokens of all best.

    Each posterior predicts the documents that were held out of its own learning.
    """
    for _ in range(N_ROUNDS):
        before = [p.state.for_prediction.doc_concentration for _, p in pairs]
        losses = [_loss(held_out, posterior, executor) for held_out, posterior in pairs]
        best = _minimum(losses)
        after = [max(best, p.state.doc_concentration) for _, p in pairs]
        with commit():
            for (_, posterior), value in zip(pairs, after, strict=True):
                posterior.state = replace(
                    posterior.state, prediction_concentration=value
                )
        moves = (max(*ab) / min(*ab) for ab in zip(after, before, strict=True))
        if max(moves) < MOVES_BY:
            return


def _loss(
    held_out: HeldOut, posterior: Posterior, executor: Executor
) -> Callable[[float], float]:
    """Negative log probability of held-out tokens, expected counts as they are."""
    predicted = held_out.predict(posterior, executor)
    state = posterior.state.for_prediction
    weights, concentration = state.weights, state.doc_concentration
    counts = held_out.held_out
    rows, n_words = rows_of(counts.indptr), counts.shape[1]
    base = predicted.word_topic.mixture(weights[:-1], counts.indices)
    base += weights[-1] / n_words
    total, opens = predicted.total[rows], predicted.opens[rows]
    of_counts = held_out.mixed(predicted) * total - concentration * base
    n_counts, shown = total - concentration, predicted.shown

    def loss(a: float) -> float:
        mixed = np.maximum(of_counts + a * base, 1e-300) / (n_counts + a)
        return -float((counts.data * np.log(shown + opens * mixed)).sum())

    return loss


def _minimum(losses: list[Callable[[float], float]]) -> float:
    def total(log: float) -> float:
        return sum(loss(np.exp(log)) for loss in losses)

    bounds = np.log([1e-6, HIGHEST])
    return float(
        np.exp(minimize_scalar(total, bounds=bounds, options={"xatol": TOL}).x)
    )
