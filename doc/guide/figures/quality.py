"""Coherence of twenty topics of SciPy's docstrings, with the words of each."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import top_terms
from skbnp.metrics import topic_coherence

docs = load_docstrings(remove=("code", "references"))
texts = [
    text
    for name, text in zip(docs.names, docs.data, strict=True)
    if name.startswith("scipy.")
]
topics = make_pipeline(
    CountVectorizer(
        stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
    ),
    HDP(20, split_merge=False, random_state=0),
).fit(texts)
coherence = topic_coherence(topics, texts)
terms = top_terms(topics, n=5, relevance=0.6)

order = np.argsort(coherence)
colours = np.where(
    coherence[order] < np.quantile(coherence, 0.25), "#D55E00", "#0072B2"
)
figure, axes = plt.subplots(figsize=(7.2, 5.2), layout="constrained")
axes.barh(range(len(order)), coherence[order], color=colours)
axes.set_yticks(range(len(order)), [", ".join(terms[k]) for k in order], fontsize=8)
axes.set_xlabel("coherence: how much its words occur together (NPMI)")
axes.margins(y=0.01)
for side in ("top", "right", "left"):
    axes.spines[side].set_visible(False)
axes.tick_params(axis="y", length=0)
