"""
Shares by group, and with covariates
====================================

How much of a topic do groups of documents have, and how sure is that?
:class:`skbnp.inspection.TopicSharesDisplay` draws shares with intervals; regressions on
several covariates are statsmodels' work.
"""

import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicSharesDisplay, token_topics, topic_shares

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
# documents; those of a sampler go over its kept samples, too.
display = TopicSharesDisplay.from_estimator(model, texts, packages)

# %%
# The same as a frame:
shares = topic_shares(model, texts, packages)
frame = shares.to_frame()
print(frame[frame["topic"] == display.topics_[0]].drop(columns=["terms", "members"]))

# %%
# Does the share grow with the length of a docstring, the package being equal? A
# fractional logit: shares are the response of a binomial model, and standard errors are
# robust, for shares are no counts. Those of tokens, without the prior, are not drawn
# towards the mean where texts are short.
topic = display.topics_[0]
words = np.asarray(token_topics(model, texts).counts(topic).sum(axis=1)).ravel()
lengths = np.asarray(model[:-1].transform(texts).sum(axis=1)).ravel()
used = lengths > 0
covariates = pd.get_dummies(pd.Series(packages[used]), drop_first=True, dtype=float)
covariates["log_length"] = np.log(lengths[used])
fit = sm.GLM(
    words[used] / lengths[used],
    sm.add_constant(covariates),
    family=sm.families.Binomial(),
).fit(cov_type="HC1")
print(" ".join(shares.terms[shares.topics.tolist().index(topic)]))
print(fit.summary().tables[1])
