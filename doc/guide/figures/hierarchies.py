"""Three hierarchies: groups of topics, a tree that is mixed, a tree of paths."""

import matplotlib.pyplot as plt
import numpy as np

LEAVES = np.arange(5.0)
MIDDLE = {0: (0, 1), 1: (2, 3, 4)}
X = [2.0, *(LEAVES[list(leaves)].mean() for leaves in MIDDLE.values()), *LEAVES]
Y = np.array([2.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
PARENT = [-1, 0, 0, 1, 1, 2, 2, 2]
#: Shares of one document, root first.
PANELS = {
    "topic_groups\ntopics side by side, in groups": (0, 0, 0, 0.45, 0.1, 0, 0.1, 0.35),
    "NestedHDP\na document mixes the tree": (0.2, 0.2, 0.15, 0.2, 0.05, 0, 0.05, 0.15),
    "NestedCRP\na document takes one path": (0.35, 0.25, 0, 0.4, 0, 0, 0, 0),
}
COLOURS = ("#2171b5", "#238b45", "#d94801")

figure, axes = plt.subplots(1, 3, figsize=(9.0, 2.7), layout="constrained")
for ax, (title, shares), colour in zip(axes, PANELS.items(), COLOURS, strict=True):
    is_flat = not any(shares[:3])
    for node, above in enumerate(PARENT[1:], 1):
        if not is_flat:
            ends = [X[node], X[above]], [Y[node], Y[above]]
            ax.plot(*ends, color="#cccccc", zorder=1)
    if is_flat:
        for leaves in MIDDLE.values():
            left, right = LEAVES[leaves[0]] - 0.4, LEAVES[leaves[-1]] + 0.4
            ends = [left, left, right, right], [0.55, 0.7, 0.7, 0.55]
            ax.plot(*ends, color="#888888")
    shown = slice(3, None) if is_flat else slice(None)
    ax.scatter(X[shown], Y[shown], s=14, color="#aaaaaa", zorder=2)
    size = 2400 * np.array(shares[shown])
    ax.scatter(X[shown], Y[shown], s=size, color=colour, alpha=0.65, zorder=3)
    ax.set_title(title, fontsize=10)
    ax.set(xlim=(-0.7, 4.7), ylim=(-0.6, 2.5))
    ax.axis("off")
plt.show()
