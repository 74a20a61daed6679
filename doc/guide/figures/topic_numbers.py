"""Numbers of topics of the same abstracts, by what decides."""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt

results = Path(sys.argv[0]).resolve().parents[3] / "benchmarks" / "results"


def rows_of(name):
    """Read the rows of a benchmark."""
    return json.loads((results / f"{name}.json").read_text())["rows"]


ranges = []  # label, smallest, largest number, and of large topics where known
result = [
    row["topics"]
    for row in rows_of("hdp_starts")
    if (row["recipe"], row["seed"]) == ("online", "median")
]
label = "HDP, mean field, by held-out documents, prior 0.05"
ranges.append((label, min(result), max(result), None))
(row,) = [
    row
    for row in rows_of("hdp_topic_numbers")
    if "topics from 1" in row and row["corpus"] == "ap" and row["method"] == "online"
]
result = [row[f"topics from {start}"] for start in (1, 10, 100, 300)]
label = "HDP (default): by held-out documents, prior learned (0.02)"
ranges.append((label, min(result), max(result), None))
sampled = rows_of("gibbs_topic_prior")
for row in sorted(sampled, key=lambda row: row["topics"]):
    if row["model"].startswith("GibbsHDP"):
        prior = f"{row['prior']:.2g}"
        learned = " (learned)" if "learned" in row["model"] else ""
        label = f"GibbsHDP: posterior, prior {prior}{learned}"
        shared = row["topics"] - row["one document's"]
        ranges.append((label, row["topics"], row["topics"], shared))

figure, ax = plt.subplots(figsize=(8.8, 3.2), layout="constrained")
for y, (_, least, most, shared) in enumerate(ranges):
    if shared is None:
        ax.barh(y, most, 0.5, color="#2171b5")
        text = f"{least:.0f} to {most:.0f}, by the start"
    else:
        ax.barh(y, shared, 0.5, color="#d94801")
        ax.barh(y, most - shared, 0.5, left=shared, color="#fdd0a2")
        text = f"{most:,}, of which {most - shared:,} are of one document"
    ax.text(most + 25, y, text, va="center", fontsize=8.5)
ax.set_yticks(range(len(ranges)), [label for label, *_ in ranges], fontsize=9)
ax.invert_yaxis()
ax.set(xlim=(0, 2.3 * max(most for _, _, most, _ in ranges)), xlabel="topics")
ax.spines[["top", "right"]].set_visible(False)
