"""
Shares by group, and with covariates
====================================

How much of a topic do groups of documents have, how do groups differ, and how sure is
that? :class:`skbnp.inspection.TopicSharesDisplay` draws shares, differences and
coefficients of several covariates with intervals.
"""

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicSharesDisplay, topic_shares

# %%
# Docstrings of three packages, every third of them.
docs = load_docstrings(remove=("code", "references"))
texts = docs.data[::3]
subpackages = np.array(docs.target_names)[docs.target[::3]]
packages = np.array([name.split(".")[0] for name in subpackages])
vectorizer = CountVectorizer(stop_words="english", min_df=5, max_df=0.3)
model = make_pipeline(vectorizer, HDP(random_state=0)).fit(texts)

# %%
# The topics whose shares differ most. Intervals come from a Bayesian bootstrap over
# documents, and over draws of the topics and of the topic of each token.
display = TopicSharesDisplay.from_estimator(model, texts, packages)

# %%
# The other way round, topics on the axis and groups as colours. These are differences
# from the first package; its share is subtracted in each draw.
shares = topic_shares(model, texts, packages)
display = TopicSharesDisplay(shares=shares.differences()).plot()

# %%
# A table to paste, in Markdown; ``shares.to_frame()`` has the numbers.
print(shares.differences().to_text(n_components=5))

# %%
# Does the share grow with the length of a docstring, the package being equal? Several
# covariates are a frame, whose texts become an indicator of each value but the first.
# Coefficients are differences of shares: these are of packages, and of a docstring ten
# times as long. (``link="logit"`` has log odds ratios instead, where no package lacks a
# topic.) With formulaic installed, ``formula="package * log_length"`` combines columns.
lengths = np.asarray(model[:-1].transform(texts).sum(axis=1)).ravel()
covariates = pd.DataFrame(
    {"package": packages, "log10 length": np.log10(np.maximum(lengths, 1.0))}
)
effects = topic_shares(model, texts, covariates)
display = TopicSharesDisplay(shares=effects).plot(n_components=8)

# %%
# Docstrings of one module are written by few people. If modules, not docstrings, count
# as drawn, standard errors are larger by these factors.
clustered = topic_shares(model, texts, covariates, clusters=subpackages)
growth = pd.DataFrame(clustered.std / effects.std, index=effects.groups)
print(growth.median(axis=1).round(1).to_string())
