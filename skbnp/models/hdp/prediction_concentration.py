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

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from skbnp.inference.executor import Executor
from skbnp.inference.interrupts import commit
from skbnp.inference.posterior import Posterior
from skbnp.models.hdp.held_out import HeldOut, Prediction
from skbnp.rows.word_sums import rows_of

__all__ = ["HIGHEST", "suit_prediction_concentration"]

Array = NDArray[np.float64]

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
    held_out = held_out.sample()
    for _ in range(N_ROUNDS):
        state = posterior.state.for_prediction
        before = state.doc_concentration
        predicted = held_out.predict(posterior, executor)
        best = _maximise(held_out, predicted, state.weights, before)
        best = max(best, posterior.state.doc_concentration)
        with commit():
            posterior.state = replace(posterior.state, prediction_concentration=best)
        if max(best, before) < MOVES_BY * min(best, before):
            return


def _maximise(
    held_out: HeldOut, predicted: Prediction, weights: Array, concentration: float
) -> float:
    """Maximise the log probability of held-out tokens, expected counts as they are."""
    counts = held_out.held_out
    rows, n_words = rows_of(counts.indptr), counts.shape[1]
    words, at = np.unique(counts.indices, return_inverse=True)
    base = (predicted.word_topic[words] @ weights[:-1])[at] + weights[-1] / n_words
    total, opens = predicted.total[rows], predicted.opens[rows]
    of_counts = held_out.mixed(predicted) * total - concentration * base
    n_counts = total - concentration

    def loss(log: float) -> float:
        a = np.exp(log)
        mixed = np.maximum(of_counts + a * base, 1e-300) / (n_counts + a)
        return -float((counts.data * np.log(predicted.shown + opens * mixed)).sum())

    bounds = np.log([1e-6, HIGHEST])
    return float(np.exp(minimize_scalar(loss, bounds=bounds, options={"xatol": TOL}).x))
