"""
A tree of handwritten digits
============================

Principal component analysis describes all rows by the same few directions. Hierarchical
component analysis puts directions on a tree: each row is described by those on a path
from the root to a leaf, so that the root has what all rows share and a leaf what some
of them have in addition. Here the rows are scikit-learn's digits, 8 x 8 pixels; nobody
says which digit they show.
"""

# %%
# The tree
# --------
# Three levels, and no more than 20 nodes, to have a tree that fits a page: without this
# limit it grows to about 90, since hardly any cluster of images is a Gaussian in three
# dimensions.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skbnp import HierarchicalComponentAnalysis

X, digit = load_digits(return_X_y=True)
hca = HierarchicalComponentAnalysis(max_components=20, random_state=0).fit(X)
tree = hca.tree_

# %%
# ``decision_path`` gives the nodes on the most probable path of each image, as of a
# decision tree. Below, each node is drawn as the mean of the images that pass it; above
# it stand its number and how many they are. Below the leaves stand the digits that make
# up at least a fifth of their images, most frequent first: the tree has not seen them.
# Zeros, fours and sixes have a leaf each, threes, fives and sevens two; ones share
# leaves with twos, and eights with nines, whose images differ less at this size.
passes = hca.decision_path(X).toarray() > 0
is_leaf = ~np.isin(np.arange(len(tree.parent)), tree.parent)

# Leaves side by side, siblings next to each other, parents in the middle of children.
place = np.zeros(len(tree.parent))
place[is_leaf] = np.arange(is_leaf.sum())
for node in np.flatnonzero(~is_leaf)[::-1]:  # children have larger numbers
    place[node] = place[tree.parent == node].mean()

figure, ax = plt.subplots(figsize=(11, 4.2), layout="constrained")
step, half = 1.8, 0.42  # between levels, and half the side of an image
for node, parent in enumerate(tree.parent):
    x, y = place[node], -step * tree.depth[node]
    if parent >= 0:
        ax.plot([place[parent], x], [y + step - half, y + half + 0.3], color="0.75")
    image = X[passes[:, node]].mean(axis=0).reshape(8, 8)
    extent = (x - half, x + half, y - half, y + half)
    ax.imshow(image, cmap="gray_r", vmin=0, vmax=16, extent=extent, zorder=2)
    title = f"{node}: {passes[:, node].sum()}" + " images" * (node == 0)
    ax.text(x, y + half + 0.06, title, ha="center", va="bottom", fontsize=8)
    if is_leaf[node]:
        counts = np.bincount(digit[passes[:, node]], minlength=10)
        often = [d for d in np.argsort(-counts) if counts[d] >= 0.2 * counts.sum()]
        text = ", ".join(map(str, often))
        ax.text(x, y - half - 0.1, text, ha="center", va="top", fontsize=9)
ax.set(xlim=(-0.7, is_leaf.sum() - 0.3), ylim=(-2 * step - 1.0, 0.9), aspect="equal")
ax.set_axis_off()
plt.show()

# %%
# What directions do
# ------------------
# A digit is the mean of all, plus its coordinates times the directions on its path:
# ``inverse_transform(transform(X))``. Three numbers and a path say more of it than
# three principal components, which are the same for all digits.
pca = PCA(3).fit(X)
reconstructed = {
    "image": X,
    "tree": hca.inverse_transform(hca.transform(X)),
    "PCA": pca.inverse_transform(pca.transform(X)),
}
for name, rows in reconstructed.items():
    print(
        f"{name:6} squared error per image {((X - rows) ** 2).sum(axis=1).mean():.1f}"
    )

figure, axes = plt.subplots(3, 10, figsize=(9, 3), layout="constrained")
for line, (name, rows) in zip(axes, reconstructed.items(), strict=True):
    line[0].set_ylabel(name)
    for ax, row in zip(line, rows[:10], strict=True):
        ax.imshow(row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
plt.show()
