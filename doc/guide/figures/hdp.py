"""Bars: documents are mixtures of topics, which are found with their weights."""

import matplotlib.pyplot as plt
import numpy as np

from skbnp import HDP
from skbnp.datasets import make_bars

bars = make_bars(500, side=5, random_state=0)
hdp = HDP(random_state=0).fit(bars.data)
shares = hdp.transform(bars.data)
order = np.argsort(-hdp.topic_weights_)
documents = np.argsort(-(shares > 0.15).sum(axis=1), kind="stable")[:4]

figure = plt.figure(figsize=(8.6, 3.9), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=(1.35, 1))
top.suptitle(
    "Four of 500 documents: counts of 25 words, and the topics that each mixes",
    fontsize=10,
)
panels = top.subplots(1, 8, width_ratios=(1.25, 1) * 4)
counts = np.asarray(bars.data[documents].todense())
for number, document in enumerate(documents):
    image, pie = panels[2 * number : 2 * number + 2]
    image.imshow(counts[number].reshape(5, 5), cmap="Greys")
    image.set(xticks=[], yticks=[])
    share = shares[document, order]
    pie.barh(np.arange(len(order)), share, color="#2171b5")
    pie.set(xlim=(0, 1), xticks=[0, 1], yticks=np.arange(len(order)))
    pie.invert_yaxis()
    pie.tick_params(labelsize=6, length=2)
    pie.set_yticklabels(hdp.component_ids_[order])
    pie.set_xlabel("share", fontsize=7, labelpad=0)
bottom.suptitle(
    "The topics found (started from 300), with their numbers and corpus weights",
    fontsize=10,
)
panels = bottom.subplots(1, len(order))
for panel, topic in zip(panels, order, strict=True):
    panel.imshow(hdp.topic_word_distr_[topic].reshape(5, 5), cmap="Blues")
    panel.set(xticks=[], yticks=[])
    number, weight = hdp.component_ids_[topic], hdp.topic_weights_[topic]
    panel.set_title(f"{number}", fontsize=9)
    panel.set_xlabel(f"{100 * weight:.0f} %", fontsize=9)
