"""A tree of directions: where rows have coordinates."""

import matplotlib.pyplot as plt
import numpy as np

from skbnp import HierarchicalComponentAnalysis
from skbnp.datasets import make_subspace_tree

rows = make_subspace_tree(900, n_features=30, random_state=0).data
hca = HierarchicalComponentAnalysis(random_state=0).fit(rows)
tree, coordinates = hca.tree_, hca.transform(rows)
leaf = hca.apply(rows)
order = np.argsort(leaf, kind="stable")

figure, (ax, image) = plt.subplots(
    2, 1, figsize=(7.6, 5.6), height_ratios=(1, 2.2), layout="constrained", sharex=True
)
places = np.zeros(len(tree.parent))
for node in reversed(range(len(tree.parent))):
    children = np.flatnonzero(np.asarray(tree.parent) == node)
    children = children[children != node]
    places[node] = node
    for child in children:
        ax.plot([node, child], [-tree.depth[node], -tree.depth[child]], color="#999999")
ax.plot(places, -np.asarray(tree.depth), "o", ms=15, color="#dbe9f6", mec="#2171b5")
for node, depth in enumerate(tree.depth):
    ax.text(node, -depth, str(node), ha="center", va="center", fontsize=9)
ax.set_title(
    "the tree that was found; nodes are directions in 30 dimensions", fontsize=10
)
ax.set(ylim=(-2.4, 0.5))
ax.axis("off")

largest = np.abs(coordinates).max()
drawn = image.imshow(
    coordinates[order], aspect="auto", cmap="RdBu", vmin=-largest, vmax=largest,
    interpolation="nearest",
)  # fmt: skip
image.set(xlabel="node", ylabel="rows, ordered by the end of their path")
image.set_title("transform(X): a row has coordinates on its path alone", fontsize=10)
image.set_xticks(range(len(places)))
figure.colorbar(drawn, ax=image, label="coordinate", pad=0.01)
