"""
The genealogy of topics
=======================

By the moves of Bryant and Sudderth (2012) a topic that holds two subjects is split, and
two topics with one subject are merged. Each topic keeps its number for life, and
``lineage_`` tells where it came from. The data are bars: the cells of a 5 x 5 board are
words, and the ten topics are its five columns and five rows.
"""

# %%
# Two topics become ten
# ---------------------
# A stream of 4,000 documents, 100 at a time, and a start from two topics. The bound of
# each minibatch judges the moves, once the first topics have settled, after 500
# documents. The monitor (scikit-learn 1.9 or later) records the terms of the topics
# after each call. Cells are named as in chess: column e, row 5 is "e5".

import matplotlib.pyplot as plt

from skbnp import HDP
from skbnp.callbacks import TopicTermsMonitor
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge
from skbnp.inspection import LineageDisplay

X = make_bars(4000, side=5, n_words=100, random_state=0).data
names = [f"{column}{row}" for row in range(5, 0, -1) for column in "abcde"]

hdp = HDP(
    2,
    variational_family="mean_field",
    split_merge=SplitMerge.paper(),
    warm_up=1,
    total_samples=500,
    random_state=0,
)
monitor = TopicTermsMonitor(n_terms=5)
hdp.set_callbacks(monitor)
for start in range(0, X.shape[0], 100):
    hdp.partial_fit(X[start : start + 100])
print(hdp.lineage_[:3])

# %%
# Time runs to the right, in updates. A lane is a topic: it begins where the topic comes
# off another, ends where it is merged into one, and lists its five most probable cells
# where they have changed. The two lanes that begin at 0 hold several bars each. At the
# right end each topic is a column, such as b1 to b5, or a row.
LineageDisplay.from_estimator(
    hdp, names, ids=hdp.component_ids_, terms=monitor, n_terms=5
)
plt.show()

# %%
# The topics as boards, heaviest first: the darker a cell, the more probable. Where a
# row and a column cross, the cell is a word of both.
order = hdp.topic_weights_.argsort()[::-1]
figure, axes = plt.subplots(2, 5, figsize=(7, 3.2), layout="constrained")
for ax in axes.flat:
    ax.set_axis_off()
for ax, row in zip(axes.flat, order, strict=False):
    ax.imshow(hdp.topic_word_distr_[row].reshape(5, 5), cmap="gray_r", vmin=0, vmax=0.2)
    ax.set(title=f"topic {hdp.component_ids_[row]}", xticks=[], yticks=[])
    ax.set_axis_on()
plt.show()
