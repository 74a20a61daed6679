"""
Which word, which topic
=======================

A document is a mixture, and each of its words has a topic.
:class:`skbnp.inspection.TopicText` colours them, :func:`skbnp.inspection.token_topics`
has them as arrays, and :func:`skbnp.inspection.report` writes all there is to read to
one page.
"""

import tempfile
from pathlib import Path

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import TopicText, report, token_topics

texts = load_docstrings(remove=("code", "references")).data[::4]
vectorizer = CountVectorizer(stop_words="english", min_df=5, max_df=0.3)
model = make_pipeline(vectorizer, HDP(random_state=0)).fit(texts)

# %%
# The beginning of a text, in the colours of its topics: the stronger, the more certain.
# Words without a colour are not in the vocabulary.
start = max(texts[:200], key=len)[:1500]
text = TopicText.from_estimator(model, start)
text  # noqa: B018

# %%
# Sentences that speak for its largest topic:
largest = int(text.numbers[text.probabilities.sum(axis=0).argmax()])
for sentence in text.sentences(largest, 2):
    print("-", " ".join(sentence.split()))

# %%
# The same of many documents, an entry for each document, word and topic. Shares of
# words sum to those of ``transform``, but for the part of the prior.
entries = token_topics(model, texts[:100])
print(entries.to_frame().sort_values("tokens", ascending=False).head(8))
print(abs(entries.doc_topic_distr() - model.transform(texts[:100])).max() < 1e-6)

# %%
# One page of HTML, which needs no network: themes, topics, documents, intervals,
# settings, and a paragraph for a methods section.
with tempfile.TemporaryDirectory() as folder:
    path = report(model, texts[:300], Path(folder) / "report.html", n_components=10)
    print(f"{path.stat().st_size / 1000:.0f} kB")
