"""The nested HDP: each document mixes over the whole tree."""

import matplotlib.pyplot as plt
import numpy as np

LEAVES = np.array([0.0, 1.0, 2.2, 3.2, 4.2])
MIDDLE = {0: (0, 1), 1: (2, 3, 4)}
X = [2.0, *(LEAVES[list(leaves)].mean() for leaves in MIDDLE.values()), *LEAVES]
Y = np.array([2.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
PARENT = [-1, 0, 0, 1, 1, 2, 2, 2]
WORDS = (
    "results, new",
    "energy, field",
    "prove, finite",
    "plasma, laser",
    "spin, phase",
    "group, free",
    "graph, vertex",
    "operator",
)
SHARES = {
    "a paper of physics": (0.2, 0.25, 0.02, 0.35, 0.15, 0.0, 0.0, 0.03),
    "a paper of both": (0.15, 0.15, 0.2, 0.0, 0.2, 0.05, 0.0, 0.25),
}
COLOURS = ("#d94801", "#2171b5")

figure, axes = plt.subplots(1, 2, figsize=(8.8, 3.2), layout="constrained")
for ax, (name, shares), colour in zip(axes, SHARES.items(), COLOURS, strict=True):
    for node, above in enumerate(PARENT[1:], 1):
        ax.plot([X[node], X[above]], [Y[node], Y[above]], color="#bbbbbb", zorder=1)
    area = 3200 * np.array(shares)
    ax.scatter(X, Y, s=area, color="white", linewidths=0, zorder=2)
    ax.scatter(X, Y, s=area, color=colour, alpha=0.6, linewidths=0, zorder=3)
    white = {"fc": "white", "ec": "none", "pad": 0.6}
    for x, y, words in zip(X, Y, WORDS, strict=True):
        words = words.replace(", ", ",\n")
        ax.text(x, y - 0.28, words, ha="center", va="top", size=9, bbox=white)
    ax.set_title(f"{name}: shares of its words", fontsize=10)
    ax.set(xlim=(-0.6, 4.8), ylim=(-0.8, 2.4))
    ax.axis("off")
plt.show()
