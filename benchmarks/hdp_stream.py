"""A stream in the order of its dates: topics are born until its end, memory is bounded.

SKBNP_DATA=... python benchmarks/hdp_stream.py
"""

import resource
import sys
import time

from common import load_corpus, save

from skbnp import HDP

CHUNK = 1000


def resident():
    """Resident memory now and at its peak, MB."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[1]) * resource.getpagesize()
    return now / 2**20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def run(counts, seed):
    hdp = HDP(random_state=seed)
    begin, rows = time.process_time(), []
    chunks = range(0, counts.shape[0], CHUNK)
    for number, first in enumerate(chunks, start=1):
        hdp.partial_fit(counts[first : first + CHUNK])
        if number in (10, 25, 50, 75, 100) or first == chunks[-1]:
            now, peak = resident()
            kinds = [entry.kind for entry in hdp.lineage_]
            rows.append(
                {
                    "seed": seed,
                    "chunk": number,
                    "topics": hdp.n_components_,
                    **{f"{k}s": kinds.count(k) for k in ("birth", "split", "merge")},
                    "components_ MB": hdp.components_.nbytes / 2**20,
                    "resident MB": now,
                    "peak MB": peak,
                    "CPU s": time.process_time() - begin,
                }
            )
            print(rows[-1], flush=True)
    steps = hdp.history_["step"][-1]
    late = [e for e in hdp.lineage_ if e.step > 2 * steps / 3]
    rows[-1]["births and splits in the last third"] = sum(
        entry.kind in ("birth", "split") for entry in late
    )
    print(rows[-1])
    return rows


READING = """
Documents of `arxiv_large` by date, `partial_fit` in chunks of 1000, default parameters.
"""


if __name__ == "__main__":
    counts = load_corpus("arxiv_large")
    seeds = [int(s) for s in sys.argv[1:]] or [0]
    rows = [row for seed in seeds for row in run(counts, seed)]
    save("hdp_stream", rows, list(rows[-1]), READING)
