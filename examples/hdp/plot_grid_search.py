"""
Choose settings by prediction
=============================

``score`` is the log probability of held-out tokens, larger is better, so that
scikit-learn's searches choose the settings that predict unseen documents best. Here it
is the topic prior: small values make topics of few words each. (`HDP` chooses it,
unless `learn_priors="concentrations"` keeps the one that is given.)
"""

# %%
# A search over a pipeline
# ------------------------
# The steps of a pipeline are named by their class in lower case. Three folds, five
# values, on 350 docstrings of SciPy, fifteen topics. Settings of the vectorizer are no
# candidates: with another vocabulary other tokens are predicted, and scores cannot be
# compared. So it has a fixed vocabulary, that of all texts.

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings

docs = load_docstrings(remove=("code", "references"))
texts = [
    text
    for text, name in zip(docs.data, docs.names, strict=True)
    if name.startswith("scipy.") and len(text) < 3000
][::3]
counter = CountVectorizer(
    stop_words="english", min_df=3, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
).fit(texts)
pipeline = make_pipeline(
    CountVectorizer(vocabulary=counter.vocabulary_),
    HDP(15, split_merge=False, learn_priors="concentrations", random_state=0),
)
folds = KFold(3, shuffle=True, random_state=0)
search = GridSearchCV(
    pipeline, {"hdp__topic_word_prior": [0.003, 0.01, 0.03, 0.1, 0.3]}, cv=folds
)
search.fit(texts)
print(search.best_params_, f"{search.best_score_:.3f} nats per token")

# %%
# What the search saw
# -------------------
# Folds differ in how well they can be predicted, but agree on where the best prior is,
# and both ends are .03 to .04 nats behind. The dashed line is of the priors that `HDP`
# chooses in each fold by itself, within .005 of the best: this search shows how one is
# made.
pipeline.set_params(hdp__learn_priors="auto")
chosen = cross_val_score(pipeline, texts, cv=folds).mean()
print(f"chosen by HDP: {chosen:.3f} nats per token")

results = search.cv_results_
priors = results["param_hdp__topic_word_prior"].astype(float)
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for fold in range(3):
    scores = results[f"split{fold}_test_score"]
    ax.plot(priors, scores, color="0.7", label="one fold" if fold == 0 else None)
ax.plot(priors, results["mean_test_score"], marker="o", label="mean of the folds")
ax.axhline(chosen, color="black", linestyle="--", label="chosen by HDP, mean")
ax.legend()
ax.set(xscale="log", xlabel="topic_word_prior")
ax.set(ylabel="held-out score (nats per token)")
plt.show()
