"""The nested CRP: documents take paths, and mix the topics on them."""

import matplotlib.pyplot as plt
import numpy as np

COLOURS = ("#d94801", "#2171b5", "#238b45")
LEAVES = np.array([0.0, 1.0, 2.0, 3.4, 4.4, 5.8])
MIDDLE = {0: (0, 1, 2), 1: (3, 4), 2: (5,)}
middle = {node: LEAVES[list(leaves)].mean() for node, leaves in MIDDLE.items()}
root = np.mean(list(middle.values()))
WORDS = {
    "root": "can, use, one, given",
    0: "array, shape, axis",
    1: "matrix, linear, solve",
    2: "fit, sample, feature",
    "leaves": ("ufunc, out", "dtype, cast", "random, draw", "eigen, norm", "lu, qr",
               "tree, leaf"),
}  # fmt: skip
DOCUMENTS = {"document 1": (0, 1), "document 2": (1, 3), "document 3": (2, 5)}
SHARES = ((0.5, 0.3, 0.2), (0.25, 0.6, 0.15), (0.4, 0.15, 0.45))

figure, (ax, bars) = plt.subplots(
    1, 2, figsize=(8.8, 3.9), width_ratios=(3.4, 1), layout="constrained"
)
for node, leaves in MIDDLE.items():
    ax.plot([root, middle[node]], [2, 1], color="#bbbbbb", zorder=1)
    for leaf in leaves:
        ax.plot([middle[node], LEAVES[leaf]], [1, 0], color="#bbbbbb", zorder=1)
for shift, (name, (node, leaf)) in enumerate(DOCUMENTS.items()):
    x = np.array([root, middle[node], LEAVES[leaf]]) + 0.05 * (shift - 1)
    ax.plot(x, [2, 1, 0], color=COLOURS[shift], lw=2.5, zorder=2, label=name)


def label(x, y, text, size=8.5):
    """Write the words of a node."""
    style = {"boxstyle": "round,pad=0.3", "fc": "white", "ec": "#777777"}
    ax.text(x, y, text, ha="center", va="center", fontsize=size, bbox=style, zorder=3)


label(root, 2, WORDS["root"])
for node, x in middle.items():
    label(x, 1, WORDS[node].replace(", ", ",\n", 1))
for x, words in zip(LEAVES, WORDS["leaves"], strict=True):
    label(x, 0, words.replace(", ", ",\n"), 8)
ax.plot([root, root + 3.0], [2, 1.35], ":", color="#999999", zorder=1)
ax.text(root + 3.1, 1.38, "branches that no\ndocument has yet", fontsize=8.5)
ax.legend(loc="upper left", fontsize=8.5, frameon=False)
ax.set(xlim=(-0.7, 7.2), ylim=(-0.4, 2.35))
ax.axis("off")

levels = np.arange(3)
for shift, shares in enumerate(SHARES):
    bars.barh(levels + 0.27 * (shift - 1), shares, 0.24, color=COLOURS[shift])
bars.set(yticks=levels, yticklabels=("root", "level 2", "leaf"))
bars.invert_yaxis()
bars.set_title("shares of a document's\nwords by level", fontsize=9.5)
bars.tick_params(labelsize=8.5)
