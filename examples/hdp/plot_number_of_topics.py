"""
How many topics are there?
==========================

A sampler of the hierarchical Dirichlet process does not answer with one number. It
visits seatings of the corpus with more and with fewer topics, and the share of sweeps
that a number of topics gets is its posterior probability. Here the truth is known: a
synthetic corpus of five topics of equal weight.
"""

# %%
# A corpus and its posterior
# --------------------------
# Two hundred documents of some 50 words each, and four chains that start from 100
# topics. Half of their 400 sweeps are burn-in. The summary tells the median number of
# topics, and whether the chains agree: R-hat near 1, and an effective sample size (ESS)
# that is not tiny.

import matplotlib.pyplot as plt

from skbnp import GibbsHDP
from skbnp.datasets import make_hdp
from skbnp.inspection import ComponentsPosteriorDisplay, TopicTraceDisplay, summary

corpus = make_hdp(
    200,
    n_features=100,
    n_words=50,
    n_components=5,
    doc_concentration=1.0,
    topic_word_prior=0.1,
    random_state=0,
)
settings = {"topic_word_prior": 0.1, "max_iter": 400, "random_state": 0}
hdp = GibbsHDP(n_chains=4, **settings).fit(corpus.data)
print(summary(hdp, corpus.feature_names))

# %%
# From one topic to five
# ----------------------
# A second fit starts from a single topic and keeps every sweep from the first on. It
# makes no split-merge proposals, so that topics come one at a time. The trace shows the
# largest topic's share of the tokens, that of the two largest, and so on up to all.
trace = GibbsHDP(1, split_merge=False, burn_in=0, thin=1, **settings).fit(corpus.data)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ComponentsPosteriorDisplay.from_estimator(hdp, ax=left)
left.set_title("four chains, after burn-in")
TopicTraceDisplay.from_estimator(trace, ax=right)
right.set_title("one chain, from a single topic on")
plt.show()

# %%
# On the left, five topics are the most probable number, and some probability is left
# for more. On the right, each new line is a topic that has come off a larger one, until
# the lines stand near 0.2, 0.4, 0.6, 0.8 and 1. What the posterior has beyond five are
# topics of a few tokens, which the corpus neither needs nor rules out: they thicken the
# line at 1. With split-merge proposals, the default, the five are there after the first
# sweeps.
