"""What `skbnp.dask.HDP` predicts beside `HDP`, and what its passes cost.

    SKBNP_DATA=... python benchmarks/dask_hdp.py quality [--corpora NAME ...]
        [--rounds N ...] [--seeds SEED ...]
    SKBNP_DATA=... python benchmarks/dask_hdp.py traffic [--corpora NAME ...]

`quality`: scores of test documents of fits with defaults, in eight shards, by rounds
of a pass at the most; 0 is `HDP`. `traffic`: bytes of a pass with all topics, down to
workers and up from them, by documents, shards and workers; and processor seconds of a
pass, of the workers, of the busiest, and of the driver. Workers are sites in this
process, which are sent everything as bytes.
"""

import argparse
import pickle
import time
import warnings
from concurrent.futures import Future
from functools import partial
from itertools import pairwise
from unittest import mock

import common  # before NumPy: it pins the threads
import numpy as np
from common import cpu_seconds, save, standard_score
from corpora import load
from distributed import Client

import skbnp
from skbnp.dask import HDP, _shards
from skbnp.dask._shards import Presence, Site
from skbnp.models.hdp import shards

FAMILIES = ("collapsed", "mean_field")


def score(hdp, test):
    """Score test documents as other packages are scored."""
    prior = common.hdp_prior(hdp)
    return standard_score(hdp.topic_word_distr_, prior, test)


def blocks(counts, n_shards):
    """Consecutive documents."""
    limits = np.linspace(0, counts.shape[0], n_shards + 1).astype(int)
    return [counts[begin:end] for begin, end in pairwise(limits)]


def quality(options):
    """Fit with defaults in eight shards, and score; 0 rounds stand for `HDP`."""
    rows = []
    for name in options.corpora or ("nips_abstracts", "ap", "sotu"):
        train, test = load(name)
        for family in FAMILIES:
            for n_rounds in (0, *options.rounds):
                for seed in options.seeds:
                    settings = {"variational_family": family, "random_state": seed}
                    shards.MOST_ROUNDS, kind, X = (
                        n_rounds,
                        HDP,
                        blocks(train, 8),
                    )
                    if n_rounds == 0:
                        kind, X = skbnp.HDP, train
                    model = kind(**settings)
                    hdp, seconds = cpu_seconds(partial(model.fit, X))
                    rows.append(
                        {
                            "corpus": name,
                            "family": family,
                            "rounds": n_rounds,
                            "seed": seed,
                            "score": score(hdp, test),
                            "topics": hdp.n_components_,
                            "passes": hdp.n_iter_,
                            "CPU s": seconds,
                        }
                    )
                    print(rows[-1], flush=True)
    save("dask_hdp_quality", rows, list(rows[0]), quality.__doc__)


class SitePool:
    """Workers in this process, and what they are sent, say and take."""

    def __init__(self, n_workers):
        self.sites = {f"worker {n}": Site(1) for n in range(n_workers)}
        self.seconds = dict.fromkeys(self.sites, 0.0)
        self.n_down = self.n_up = 0

    def present(self):
        """All."""
        return {name: Presence(1, time.monotonic(), 0) for name in self.sites}

    def submit(self, worker, method, *args):
        """Answer at once."""
        self.n_down += sum(len(one) for one in args if isinstance(one, bytes))
        begin = time.process_time()
        stats = pickle.dumps(getattr(self.sites[worker], method)(*args), protocol=5)
        self.seconds[worker] += time.process_time() - begin
        self.n_up += len(stats)
        reply = Future()
        reply.set_result(pickle.loads(stats))
        return reply

    clock, sleep = staticmethod(time.monotonic), staticmethod(time.sleep)

    def send(self, content, workers):
        """Send it with each call."""
        return content

    def close(self, workers):
        """Do nothing."""


def measured(X, n_workers, n_passes, **settings):
    """Bytes down and up, and seconds of workers, the busiest and all."""
    pool = SitePool(n_workers)
    client = mock.create_autospec(Client, instance=True)
    client.asynchronous, client.status = False, "running"
    with mock.patch.object(_shards, "ClientPool", return_value=pool):
        hdp = HDP(client=client, split_merge=False, tol=0.0, random_state=0, **settings)
        begin = time.process_time()
        hdp.set_params(max_iter=n_passes, timeout=1e9).fit(X)
    seconds = list(pool.seconds.values())
    spent = time.process_time() - begin
    return np.array([pool.n_down, pool.n_up, sum(seconds), max(seconds), spent])


def traffic(options):
    """Bytes and processor seconds of a pass beyond the fourth, with 300 topics."""
    rows = []
    for name in options.corpora or ("arxiv_titles", "arxiv_large"):
        counts, _ = load(name)
        n = counts.shape[0]
        cases = [(n // 4, 8, 2), (n // 2, 8, 2), (n, 8, 2), (n, 32, 2), (n, 8, 1)]
        for n_docs, n_shards, n_workers in [*cases, (n, 8, 4)]:
            X = blocks(counts[:n_docs], n_shards)
            before, after = (measured(X, n_workers, passes) for passes in (4, 6))
            down, up, work, busiest, spent = (after - before) / 2.0
            rows.append(
                {
                    "corpus": name,
                    "documents": n_docs,
                    "shards": n_shards,
                    "workers": n_workers,
                    "MB down": down / 1e6,
                    "MB up": up / 1e6,
                    "workers CPU s": work,
                    "busiest": busiest,
                    "driver": spent - work,
                }
            )
            print(rows[-1], flush=True)
    save("dask_hdp_traffic", rows, list(rows[0]), traffic.__doc__)


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="+", choices=["quality", "traffic"])
    parser.add_argument("--corpora", nargs="+")
    parser.add_argument("--rounds", nargs="+", type=int, default=[8, 16, 32, 64])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if "quality" in options.tasks:
        quality(options)
    if "traffic" in options.tasks:
        traffic(options)


if __name__ == "__main__":
    main()
