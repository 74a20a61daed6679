"""Held-out scores of HDP and of the best setting of other packages, against time."""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt

root = Path(sys.argv[0]).resolve().parents[3]
results = root / "benchmarks" / "results" / "peers.json"
rows = [
    row for row in json.loads(results.read_text())["rows"] if row["seed"] == "median"
]
MODELS = {
    "skbnp HDP": ("#2171b5", "o-"),
    "tomotopy LDAModel": ("#d94801", "s-"),
    "tomotopy HDPModel": ("#fdae6b", "s--"),
    "scikit-learn LDA": ("#238b45", "^-"),
    "gensim LdaModel": ("#756bb1", "v-"),
}
SECONDS = (2, 5, 15, 30, 60)
corpora = list(dict.fromkeys(row["corpus"] for row in rows))
figure, panels = plt.subplots(3, 4, figsize=(9.4, 6.9), layout="constrained")
for panel, corpus in zip(panels.flat, corpora, strict=True):
    best = {}
    for name, (colour, style) in MODELS.items():
        same = [row for row in rows if (row["corpus"], row["model"]) == (corpus, name)]
        known = {
            second: max(row[f"{second} s"] for row in same if f"{second} s" in row)
            for second in SECONDS
            if any(f"{second} s" in row for row in same)
        }
        best[name] = known
        panel.plot(known.keys(), known.values(), style, color=colour, ms=4, label=name)
    top = max(value for known in best.values() for value in known.values())
    panel.set(title=corpus, xscale="log", ylim=(top - 0.6, top + 0.06))
    panel.set_xticks(SECONDS, SECONDS)
    panel.minorticks_off()
    panel.tick_params(labelsize=7.5)
    panel.title.set_size(9.5)
figure.supylabel("score (nats per held-out token), higher is better", fontsize=9)
figure.supxlabel("seconds of the processor", fontsize=9)
handles, labels = panels[0, 0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside upper center", ncols=5, fontsize=8)
