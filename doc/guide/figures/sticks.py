"""Two levels of sticks: of the corpus, and of documents whose tables serve topics."""

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(3)
COLOURS = plt.get_cmap("tab10").colors


def break_stick(concentration, n):
    """Weights of a stick that is broken n - 1 times; the last piece is the rest."""
    shares = np.append(rng.beta(1.0, concentration, n - 1), 1.0)
    left = np.cumprod(np.append(1.0, 1.0 - shares[:-1]))
    return shares * left


beta = break_stick(2.0, 8)
figure, ax = plt.subplots(figsize=(8.6, 3.6), layout="constrained")
rows = [("corpus\n(topics)", beta, np.arange(8), 4.4)]
for number, y in enumerate((2.8, 1.7, 0.6)):
    tables = break_stick(1.5, 5)
    served = rng.choice(8, size=5, p=beta)
    rows.append((f"document {number + 1}\n(tables)", tables, served, y))
for label, weights, topics, y in rows:
    left = np.append(0.0, np.cumsum(weights)[:-1])
    colours = [COLOURS[topic] for topic in topics]
    ax.barh(y, weights, left=left, color=colours, edgecolor="white", height=0.7)
    for at, width, topic in zip(left, weights, topics, strict=True):
        if width > 0.035:
            text = f"topic {topic + 1}" if width > 0.1 else f"{topic + 1}"
            ax.text(at + width / 2, y, text, ha="center", va="center", fontsize=8.5)
    ax.text(-0.015, y, label, ha="right", va="center", fontsize=9)
ax.set(xlim=(-0.14, 1.0), ylim=(0.1, 5.6))
ax.text(0.0, 5.15, r"weights of topics, $\beta_k$: K = 8 pieces", fontsize=9.5)
ax.text(
    0.0,
    3.45,
    r"weights of tables, $\pi_{jt}$: T = 5 pieces; each table draws its topic "
    r"from $\beta$",
    fontsize=9.5,
)
ax.axis("off")
