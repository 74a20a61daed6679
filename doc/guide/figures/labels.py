"""Shares of twenty topics, named by hand or by their words, in SciPy's subpackages."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import top_terms

docs = load_docstrings(remove=("code", "references"))
is_scipy = np.char.startswith(docs.names, "scipy.")
texts = np.array(docs.data, dtype=object)[is_scipy]
groups = np.array(docs.target_names)[docs.target[is_scipy]]
topics = make_pipeline(
    CountVectorizer(
        stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
    ),
    HDP(20, split_merge=False, random_state=0),
).fit(texts)
shares = topics.transform(texts)
labels = [", ".join(terms) for terms in top_terms(topics, n=3, relevance=0.6)]

names, sizes = np.unique(groups, return_counts=True)
names = names[sizes >= 20]
means = np.array([shares[groups == name].mean(axis=0) for name in names])
order = np.argsort(means.argmax(axis=0), kind="stable")  # blocks along the diagonal

figure, axes = plt.subplots(figsize=(7.8, 5.4), layout="constrained")
image = axes.imshow(means[:, order].T, cmap="Blues", vmin=0, vmax=0.8, aspect="auto")
axes.set_xticks(range(len(names)), [name.partition(".")[2] for name in names])
axes.tick_params(axis="x", labelrotation=60)
axes.set_yticks(range(len(order)), [labels[k] for k in order], fontsize=8)
axes.tick_params(length=0)
axes.set_xlabel("subpackage of SciPy, which the fit does not know")
bar = figure.colorbar(image, ax=axes, shrink=0.5, format="{x:.0%}")
bar.set_label("share of its text")
