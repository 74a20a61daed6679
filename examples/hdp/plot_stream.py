"""
Topics of a stream
==================

Documents that arrive bit by bit are learned from by ``partial_fit``, and the number of
topics grows while new documents show more. The stream is made of the docstrings of
NumPy, SciPy and scikit-learn in random order.
"""

# %%
# The stream
# ----------
# The vocabulary is fixed before the stream begins: a model has one column for each
# term. Documents come in chunks of 100; a part of all is kept apart and predicted
# after each chunk.

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from skbnp import HDP
from skbnp.datasets import load_docstrings

docs = load_docstrings(remove=("code", "references"))
vectorizer = CountVectorizer(
    stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
)
X = vectorizer.fit_transform(docs.data)
stream, kept_apart = train_test_split(X, test_size=0.07, random_state=0)

hdp = HDP(10, random_state=0)
n_seen, n_topics, scores = [], [], []
for start in range(0, stream.shape[0], 100):
    chunk = stream[start : start + 100]
    hdp.partial_fit(chunk)
    n_seen.append(start + chunk.shape[0])
    n_topics.append(hdp.n_components_)
    scores.append(hdp.score(kept_apart))

# %%
# More documents, more topics
# ---------------------------
# Other numbers of topics are tried after 250 documents and whenever the stream has
# doubled since the last trials. A trial is kept if it predicts better documents that it
# has not learned from. Between trials the number hardly changes, and so predictions
# improve in steps, too.
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(7, 5), layout="constrained", sharex=True
)
top.plot(n_seen, n_topics, marker="o", markersize=4)
top.set(ylabel="topics", ylim=(0, None))
bottom.plot(n_seen, scores, marker="o", markersize=4)
bottom.set(ylabel="score of documents kept apart\n(nats per token)")
bottom.set(xlabel="documents seen", xlim=(0, None))
plt.show()
