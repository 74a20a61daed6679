"""
Topics of a collection of texts
===============================

From texts to topics in four steps: count words, fit, look, predict. The texts are the
docstrings of NumPy, SciPy and scikit-learn, which are on your machine already; any list
of strings takes their place.
"""

# %%
# Count words
# -----------
# A topic model reads a document-term matrix of counts. scikit-learn makes it; words
# that are in more than 30 % of the documents, or in fewer than five, are left out. A
# tenth of the documents is kept for the end.

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicTermsDisplay, summary, top_terms
from skbnp.metrics import perplexity

docs = load_docstrings(remove=("code", "references"))
texts, new_texts = train_test_split(docs.data, test_size=0.1, random_state=0)
vectorizer = CountVectorizer(
    stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
)
X = vectorizer.fit_transform(texts)
print(f"{X.shape[0]} documents, {X.shape[1]} terms, {X.sum():.0f} tokens")

# %%
# Fit
# ---
# How many topics there are is found by the fit. The summary lists the heaviest ones: a
# topic's number, its share of the corpus, and its most probable terms.
hdp = HDP(random_state=0).fit(X)
terms = vectorizer.get_feature_names_out()
print(summary(hdp, terms, n_components=8))

# %%
# Look
# ----
# Each panel is a topic, a bar the share that a term has of the topic's tokens. The
# heavy topics are about what most docstrings speak of; `n_components` asks for lighter
# ones, which are about a subject.
TopicTermsDisplay.from_estimator(hdp, terms)
plt.show()

# %%
# Predict
# -------
# ``transform`` gives the topics of documents, here of one that the fit has not seen.
# Its rows sum to one, its columns are named by the topics' numbers.
X_new = vectorizer.transform(new_texts)
shares = hdp.transform(X_new)
names = hdp.get_feature_names_out()
number = new_texts.index(max(new_texts, key=len))
print(new_texts[number][:200], "...\n")
words = top_terms(hdp, terms, n=6)
for column in shares[number].argsort()[::-1][:3]:
    print(f"{names[column]}  {shares[number, column]:.0%}  {', '.join(words[column])}")

# %%
# ``score`` predicts a part of each document from the rest of it. It is the mean log
# probability of a held-out token, in nats: larger is better, and its exponential is the
# probability. A model without topics, in which all documents have the same words, is
# below it.
one_topic = HDP(1, split_merge=False, random_state=0).fit(X)
for model in (hdp, one_topic):
    print(
        f"{model.n_components_:3} topics: {model.score(X_new):.2f} nats per token, "
        f"perplexity {perplexity(model, X_new):.0f}"
    )
