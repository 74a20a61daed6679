"""How many of ten planted topics are found, by number and length of documents."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.pairwise import cosine_similarity

from skbnp import HDP
from skbnp.datasets import make_bars

NUMBERS, LENGTHS = (30, 100, 300, 1000), (5, 20, 80)


def n_found(n_documents, n_words, seed):
    """Return how many planted topics are among those of a fit."""
    bars = make_bars(n_documents, side=5, n_words=n_words, random_state=seed)
    with warnings.catch_warnings(action="ignore"):  # of few documents
        hdp = HDP(random_state=seed).fit(bars.data)
    similarity = cosine_similarity(bars.topic_word_distr, hdp.topic_word_distr_)
    return (similarity.max(axis=1) > 0.9).sum()


figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
styles = zip(LENGTHS, ("#D55E00", "#009E73", "#0072B2"), "sDo", strict=True)
for length, colour, mark in styles:
    found = [
        np.mean([n_found(number, length, seed) for seed in range(2)])
        for number in NUMBERS
    ]
    axes.plot(NUMBERS, found, color=colour, marker=mark, label=f"{length} words each")
axes.set_xscale("log")
axes.set_xticks(NUMBERS, [f"{number:,}" for number in NUMBERS])
axes.minorticks_off()
axes.set(xlabel="documents", ylabel="topics found, of ten", ylim=(-0.3, 10.5))
axes.legend(frameon=False, loc="lower right")
for side in ("top", "right"):
    axes.spines[side].set_visible(False)
