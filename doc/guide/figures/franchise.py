"""The Chinese restaurant franchise: tokens at tables, tables that share dishes."""

import matplotlib.pyplot as plt
import numpy as np

ALPHA, GAMMA = 1.5, 1.5
COLOURS = plt.get_cmap("tab10").colors
rng = np.random.default_rng(8)

dish_tables = []  # tables that serve each dish, in all documents
documents = []
for n_tokens in (14, 11, 16):
    sizes, dishes = [], []
    for _ in range(n_tokens):
        weights = np.append(sizes, ALPHA)
        table = rng.choice(len(weights), p=weights / weights.sum())
        if table == len(sizes):
            weights = np.append(dish_tables, GAMMA)
            dish = rng.choice(len(weights), p=weights / weights.sum())
            if dish == len(dish_tables):
                dish_tables.append(0)
            dish_tables[dish] += 1
            sizes.append(0)
            dishes.append(dish)
        sizes[table] += 1
    documents.append((sizes, dishes))

figure, ax = plt.subplots(figsize=(8.6, 4.2), layout="constrained")
for row, (sizes, dishes) in enumerate(documents):
    y = 2.6 * (2 - row)
    ax.text(-0.4, y, f"document {row + 1}", ha="right", va="center", fontsize=9.5)
    for at, (size, dish) in enumerate(zip(sizes, dishes, strict=True)):
        x = 1.0 + 2.6 * at
        ax.add_patch(plt.Circle((x, y), 0.62, color=COLOURS[dish], alpha=0.85))
        ax.text(x, y, f"topic {dish + 1}", ha="center", va="center", fontsize=8)
        for token in range(size):
            angle = np.pi / 2 - 2 * np.pi * token / max(size, 6)
            place = (x + 0.88 * np.cos(angle), y + 0.88 * np.sin(angle))
            ax.add_patch(plt.Circle(place, 0.12, color="#444444"))
most = max(len(sizes) for sizes, _ in documents)
counts = ", ".join(f"topic {dish + 1}: {n}" for dish, n in enumerate(dish_tables))
ax.text(-0.4, -1.7, f"tables by topic, all documents: {counts}", fontsize=9.5)
ax.text(
    -0.4,
    6.75,
    "dots: tokens at their tables; colour: the topic that a table serves",
    fontsize=9.5,
)
ax.set(xlim=(-2.2, 2.6 * most + 0.2), ylim=(-2.0, 7.1), aspect="equal")
ax.axis("off")
