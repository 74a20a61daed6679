"""
Watch topics come apart
=======================

A Gibbs sampler that starts from a single topic has to find the others. The trace of a
chain shows how: at each sweep the tokens are divided among the topics, and a topic that
comes off another takes its tokens with it. The corpus has five topics of equal weight.
"""

# %%
# With and without splits and merges
# ----------------------------------
# Two chains from one topic, every sweep kept from the first on (`burn_in`, `thin`). One
# reassigns tokens one at a time; the other also proposes to split or merge whole
# topics, as chains do by default during their burn-in. With no burn-in `fit` warns that
# the halves of a chain disagree: here it is the way to the posterior that is looked at.

import warnings

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from skbnp import GibbsHDP
from skbnp.datasets import make_hdp
from skbnp.inspection import TopicTraceDisplay

corpus = make_hdp(
    200,
    n_features=100,
    n_words=50,
    n_components=5,
    doc_concentration=1.0,
    topic_word_prior=0.1,
    random_state=0,
)
warnings.simplefilter("ignore", ConvergenceWarning)
settings = {
    "n_components": 1,
    "topic_word_prior": 0.1,
    "max_iter": 200,
    "burn_in": 0,
    "thin": 1,
    "random_state": 0,
}
token_by_token = GibbsHDP(split_merge=False, **settings).fit(corpus.data)
with_moves = GibbsHDP(split_merge_sweeps=200, **settings).fit(corpus.data)

# %%
# The lowest line is the share of the largest topic, the next that of the two largest
# together, and so on up to all tokens. Each new line is a topic that has come off a
# larger one, until the lines stand near 0.2, 0.4, 0.6, 0.8 and 1. Token by token this
# takes some tens of sweeps for each topic; with splits and merges the five topics are
# there after the first sweeps. The thick line at 1 is topics of a few tokens, which
# come and go.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, sampler, title in zip(
    axes,
    (token_by_token, with_moves),
    ("token by token", "with splits and merges"),
    strict=True,
):
    TopicTraceDisplay.from_estimator(sampler, ax=ax)
    ax.set_title(title)
plt.show()
