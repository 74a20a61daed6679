"""Docstrings of SciPy and their topics in two dimensions, by t-SNE of the shares."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.manifold import TSNE
from sklearn.pipeline import make_pipeline

from skbnp import HDP
from skbnp.datasets import load_docstrings
from skbnp.inspection import top_terms

docs = load_docstrings(remove=("code", "references"))
groups = np.array(docs.target_names)[docs.target]
shown = ["linalg", "signal", "sparse", "spatial", "special", "stats"]
rows = np.isin(groups, [f"scipy.{name}" for name in shown])
texts = np.array(docs.data, dtype=object)[rows]
topics = make_pipeline(
    CountVectorizer(
        stop_words="english", min_df=5, max_df=0.3, token_pattern=r"\b[a-z]{3,}\b"
    ),
    HDP(20, split_merge=False, random_state=0),
).fit(texts)
shares = topics.transform(texts)
places = TSNE(random_state=0).fit_transform(np.sqrt(shares))
centres = (shares / shares.sum(axis=0)).T @ places

figure, axes = plt.subplots(figsize=(7.8, 6.0), layout="constrained")
for name in shown:
    x, y = places[groups[rows] == f"scipy.{name}"].T
    axes.plot(x, y, ".", markersize=3, alpha=0.6, label=name)
heaviest = np.argsort(-shares.sum(axis=0))[:12]
labels = top_terms(topics, n=2, relevance=0.6)
for k in heaviest:
    axes.annotate(
        "\n".join(labels[k]), centres[k], ha="center", va="center", fontsize=8
    ).set_bbox({"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 1})
axes.set_axis_off()
figure.legend(title="subpackage of SciPy", loc="outside right upper", markerscale=3)
