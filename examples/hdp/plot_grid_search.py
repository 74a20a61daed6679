"""
Choose settings by prediction
=============================

``score`` is the log probability of held-out tokens, larger is better, so that
scikit-learn's searches choose the settings that predict unseen documents best. Here it
is the topic prior: small values make topics of few words each, and more of them.
(`HDP` learns it, unless `learn_priors="concentrations"` keeps the one that is given.)
"""

# %%
# A search over a pipeline
# ------------------------
# The steps of a pipeline are named by their class in lower case. Three folds, six
# values, on 400 docstrings of SciPy. Settings of the vectorizer are no candidates: with
# another vocabulary other tokens are predicted, and scores cannot be compared. So it
# has a fixed vocabulary, that of all texts.

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings

docs = load_docstrings(remove=("code", "references"))
texts = [
    text
    for text, name in zip(docs.data, docs.names, strict=True)
    if name.startswith("scipy.")
][::4]
counter = CountVectorizer(
    stop_words="english", min_df=3, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
).fit(texts)
pipeline = make_pipeline(
    CountVectorizer(vocabulary=counter.vocabulary_),
    HDP(learn_priors="concentrations", random_state=0),
)
search = GridSearchCV(
    pipeline,
    {"hdp__topic_word_prior": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]},
    cv=KFold(3, shuffle=True, random_state=0),
)
search.fit(texts)
print(search.best_params_, f"{search.best_score_:.3f} nats per token")
print(search.best_estimator_["hdp"].n_components_, "topics")

# %%
# What the search saw
# -------------------
# Folds differ in how well they can be predicted, but agree on where the best prior is:
# between 0.003 and 0.01, an order of magnitude below the default, on these few and
# short texts. The number of topics depends on the prior, too: it is no property of the
# texts alone.
results = search.cv_results_
priors = results["param_hdp__topic_word_prior"].astype(float)
X = counter.transform(texts)
hdp = HDP(learn_priors="concentrations", random_state=0)
n_topics = [
    hdp.set_params(topic_word_prior=prior).fit(X).n_components_ for prior in priors
]
learned = HDP(random_state=0).fit(X)
print(f"learned: {learned.topic_word_prior_:.4f}, {learned.n_components_} topics")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for fold in range(3):
    scores = results[f"split{fold}_test_score"]
    left.plot(priors, scores, color="0.7", label="one fold" if fold == 0 else None)
left.plot(priors, results["mean_test_score"], marker="o", label="mean of the folds")
left.legend()
left.set(ylabel="held-out score (nats per token)")
right.plot(priors, n_topics, marker="o")
right.set(ylabel="topics", ylim=(0, None))
for ax in (left, right):
    ax.set(xscale="log", xlabel="topic_word_prior")
plt.show()
