"""What all benchmarks share: corpora, the standard split, versions, results."""

import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

import numpy as np
import scipy.sparse as sp

from skbnp.metrics import held_out_log_likelihood, split_tokens

RESULTS = Path(__file__).parent / "results"


def load_corpus(name):
    """Counts of a corpus in the folder that SKBNP_DATA names."""
    folder = os.environ.get("SKBNP_DATA")
    if not folder:
        raise SystemExit("SKBNP_DATA must name the folder of the corpora.")
    counts = sp.load_npz(Path(folder) / f"{name}.npz")
    return sp.csr_array(counts.astype(np.float64))


def standard_split(counts, test_share=0.1):
    """Training and test rows: at least 5 tokens, columns with a training token."""
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 5]
    order = np.random.default_rng(0).permutation(counts.shape[0])
    n_test = int(test_share * counts.shape[0])
    train, test = counts[order[n_test:]], counts[order[:n_test]]
    used = np.asarray(train.sum(axis=0)).ravel() > 0
    return train[:, used], test[:, used]


def standard_score(topic_word_distr, doc_prior, test):
    """Score anybody's topics on the same 80/20 split of tokens, by the same fold-in."""
    return held_out_log_likelihood(
        topic_word_distr, doc_prior, *split_tokens(test, random_state=0)
    )


def cpu_seconds(function):
    """Run a function; return its result and the processor time it took."""
    begin = time.process_time()
    result = function()
    return result, time.process_time() - begin


def environment():
    """Versions and machine, for the record."""
    names = ("skbnp", "scikit-learn", "numpy", "scipy")
    model = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "python": platform.python_version(),
        "machine": f"{model[0] if model else platform.processor()}, one thread",
        **{name: version(name) for name in names},
    }


def save(name, rows, columns, reading):
    """Write rows and the environment as JSON, and some columns as a page to read."""
    RESULTS.mkdir(exist_ok=True)
    content = {"environment": environment(), "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    versions = ", ".join(f"{key} {value}" for key, value in environment().items())
    lines = [f"# {name}", "", reading.strip(), "", f"({versions})", ""]
    lines += [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for row in rows:
        cells = (row.get(column, "") for column in columns)
        texts = (
            f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells
        )
        lines.append(f"| {' | '.join(texts)} |")
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
