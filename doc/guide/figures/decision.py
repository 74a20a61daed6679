"""Which estimator: questions from top to bottom, narrow enough for a phone."""

import matplotlib.pyplot as plt

QUESTION = {"boxstyle": "round,pad=0.4", "fc": "#f2f2f2", "ec": "#777777"}
ANSWER = {"boxstyle": "round,pad=0.35", "fc": "#dbe9f6", "ec": "#2171b5"}
OTHER = {"boxstyle": "round,pad=0.35", "fc": "#fdebd9", "ec": "#d9731a"}
#: Each question with its answers; the last line leads to the next question.
STEPS = (
    (
        "What are the rows of your data?",
        (
            ("measurements", "HierarchicalComponentAnalysis", ANSWER),
            ("dated texts whose\ntopics change", "DependentTrees", ANSWER),
        ),
        "texts, or other counts",
    ),
    (
        "One list of topics, or a tree?",
        (
            ("tree; a document\nmixes all themes", "NestedHDP", ANSWER),
            ("tree; a document\nhas one theme", "NestedCRP, GibbsNestedCRP", ANSWER),
        ),
        "a list",
    ),
    (
        "Do you know how many topics?",
        (
            (
                "yes",
                "HDP(n, split_merge=False) or\nLatentDirichletAllocation",
                OTHER,
            ),
        ),
        "no",
    ),
    (
        "What matters most?",
        (
            ("reading, speed,\nstreams", "HDP", ANSWER),
            ("how sure the\nnumber is", "GibbsHDP", ANSWER),
            ("the algorithm\nof gensim", "StickBreakingHDP", ANSWER),
        ),
        "",
    ),
)
SPINE, END, LINE = 0.15, 1.75, 0.62

figure, ax = plt.subplots(figsize=(4.4, 6.6))
y = 0.0
for question, answers, leads_on in STEPS:
    ax.text(0.0, y, question, va="center", size=9.5, weight="bold", bbox=QUESTION)
    top = y - 0.22
    for what, name, style in answers:
        y -= LINE
        arrow = {"arrowstyle": "-|>", "color": "#555555", "lw": 1.2, "shrinkB": 5}
        ax.annotate("", (END, y), (SPINE, y), arrowprops=arrow)
        white = {"fc": "white", "ec": "none", "pad": 0.5}
        ax.text(0.3, y, what, va="center", size=8.5, color="#333333", bbox=white)
        size = 8.5 if style is ANSWER else 8.0
        ax.text(END, y, name, va="center", size=size, weight="bold", bbox=style)
    bottom = y
    if leads_on:
        y -= 1.35 * LINE
        bottom = y + 0.25
        ax.text(0.3, y + 0.55 * LINE, leads_on, va="center", size=8.5, color="#333333")
        arrow = {"arrowstyle": "-|>", "color": "#555555", "lw": 1.2}
        ax.annotate("", (SPINE, bottom), (SPINE, top), arrowprops=arrow)
    else:
        ax.plot([SPINE, SPINE], [top, bottom], color="#555555", lw=1.2)
ax.set(xlim=(-0.15, 4.25), ylim=(y - 0.4, 0.4))
ax.axis("off")
figure.subplots_adjust(0, 0, 1, 1)
