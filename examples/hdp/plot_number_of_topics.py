"""
How many topics are there?
==========================

A sampler of the hierarchical Dirichlet process does not answer with one number. It
visits seatings of the corpus with more and with fewer topics, and the share of sweeps
that a number of topics gets is its posterior probability. Here the truth is known: a
synthetic corpus of five topics of equal weight.
"""

# %%
# Two chains
# ----------
# Two hundred documents of some 50 words each, and two chains that start from 100
# topics. Half of their 2,000 sweeps are burn-in. The summary tells the median number of
# topics, and whether the chains agree: R-hat near 1, and an effective sample size (ESS)
# that is not tiny.

import matplotlib.pyplot as plt

from skbnp import GibbsHDP
from skbnp.datasets import make_hdp
from skbnp.inspection import ComponentsPosteriorDisplay, HistoryDisplay, summary

corpus = make_hdp(
    200,
    n_features=100,
    n_words=50,
    n_components=5,
    doc_concentration=1.0,
    topic_word_prior=0.1,
    random_state=0,
)
hdp = GibbsHDP(n_chains=2, topic_word_prior=0.1, max_iter=2000, random_state=0)
hdp.fit(corpus.data)
print(summary(hdp, corpus.feature_names))

# %%
# The posterior
# -------------
# Five topics are the most probable number, and some probability is left for more:
# topics of a few tokens, which the corpus neither needs nor rules out. Each bar is made
# up of the shares of the two chains. If these disagreed, each chain would hold bars of
# its own, and their sum would be no posterior.
ComponentsPosteriorDisplay.from_estimator(hdp)
plt.show()

# %%
# The way there
# -------------
# The number of topics and the log joint probability in every sweep, burn-in included. A
# burn-in is long enough if both have settled before it ends, here long before sweep
# 1,000.
HistoryDisplay.from_estimator(hdp)
plt.show()
