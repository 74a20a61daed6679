"""A stream of abstracts by date: number of topics, score, seconds."""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt

root = Path(sys.argv[0]).resolve().parents[3]
results = root / "benchmarks" / "results" / "hdp_stream.json"
rows = json.loads(results.read_text())["rows"]
RUNS = {
    (2, True): ("from 2 topics", "#2171b5", "-"),
    (300, True): ("from 300 topics", "#d94801", "-"),
    (300, False): ("300 topics, split_merge=False", "#777777", "--"),
}
figure, panels = plt.subplots(1, 3, figsize=(9.0, 3.1), layout="constrained")
for (start, moves), (label, colour, style) in RUNS.items():
    run = [row for row in rows if (row["start"], row["moves"]) == (start, moves)]
    seen = [row["documents"] / 1000 for row in run]
    for panel, name in zip(panels, ("topics", "score", "CPU s"), strict=True):
        values = [row[name] for row in run]
        panel.plot(seen, values, style, marker=".", color=colour, label=label)
titles = (
    "topics",
    "score (nats per held-out token)",
    "processor seconds so far",
)
for panel, title in zip(panels, titles, strict=True):
    panel.set(xscale="log", xlabel="thousand documents", title=title)
    panel.set_xticks((1, 10, 100), (1, 10, 100))
    panel.title.set_size(10)
panels[0].legend(fontsize=8, loc="upper left")
panels[0].set_ylim(0, 1.4 * max(row["topics"] for row in rows))  # for the legend
