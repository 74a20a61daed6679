"""Which estimator: a tree of questions."""

import matplotlib.pyplot as plt

QUESTION = {"boxstyle": "round,pad=0.4", "fc": "#f2f2f2", "ec": "#777777"}
ANSWER = {"boxstyle": "round,pad=0.4", "fc": "#dbe9f6", "ec": "#2171b5"}
OTHER = {"boxstyle": "round,pad=0.4", "fc": "#fdebd9", "ec": "#d9731a"}

figure, ax = plt.subplots(figsize=(9.6, 5.6))


def box(x, y, text, style):
    """Draw a question or an answer."""
    weight = "bold" if style is ANSWER else "normal"
    ax.text(
        x, y, text, ha="center", va="center", fontsize=9.5, bbox=style, weight=weight
    )


def arrow(start, end, text=""):
    """Draw what leads from one box to another."""
    ax.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": "#555555", "lw": 1.2}
    )
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    white = {"fc": "white", "ec": "none", "pad": 1.2}
    if text:
        ax.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            fontsize=9,
            color="#333333",
            bbox=white,
        )


def reason(x, y, text):
    """Write what speaks for an answer."""
    ax.text(x, y, text, ha="center", va="top", fontsize=8.5, color="#333333")


box(4.4, 9.4, "What are the rows of your matrix?", QUESTION)
arrow((5.6, 9.05), (8.2, 8.15), "dense numbers\nof either sign")
box(8.5, 7.8, "HierarchicalComponentAnalysis", ANSWER)
arrow((2.95, 9.4), (0.95, 9.4), "with dates")
box(0.1, 9.4, "DependentTrees", ANSWER)
reason(0.1, 9.0, "topics over time")
arrow((4.2, 9.05), (3.3, 8.15), "counts (words, mutations, ...)")
box(3.3, 7.8, "Do you know how many topics you want?", QUESTION)
arrow((4.1, 7.45), (7.2, 6.5), "yes")
box(
    8.1,
    6.1,
    "scikit-learn's LatentDirichletAllocation,\n"
    "or HDP(n_components=K, split_merge=False)",
    OTHER,
)
arrow((3.2, 7.45), (3.2, 6.45), "no")
box(3.2, 6.1, "Topics side by side, or in a tree?", QUESTION)
arrow((4.0, 5.75), (8.3, 4.75), "in a tree")
box(8.4, 4.4, "What matters most?", QUESTION)
arrow((3.0, 5.75), (2.7, 4.75), "side by side")
box(2.7, 4.4, "What matters most?", QUESTION)

for x, name, why in (
    (0.2, "HDP", "speed, streams, pipelines;\na number of topics\nthat predicts best"),
    (2.7, "GibbsHDP", "the best prediction;\nhow sure the number\nof topics is"),
    (
        5.1,
        "StickBreakingHDP",
        "the algorithm of\ngensim's HdpModel;\ntables of documents",
    ),
):
    arrow((2.7 + 0.3 * (x - 2.7), 4.05), (x, 2.75))
    box(x, 2.4, name, ANSWER)
    reason(x, 1.9, why)
for x, name, why in (
    (7.4, "NestedCRP", "levels of the tree that\nare right; streams"),
    (9.6, "GibbsNestedCRP", "samples of trees, whose\npredictions are averaged"),
):
    arrow((8.4 + 0.3 * (x - 8.4), 4.05), (x, 2.75))
    box(x, 2.4, name, ANSWER)
    reason(x, 1.9, why)

ax.set(xlim=(-0.9, 10.6), ylim=(0.5, 9.8))
ax.axis("off")
figure.tight_layout(pad=0.2)
