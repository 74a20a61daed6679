"""The table behind the defaults of `HDP`: one parameter changed at a time.

SKBNP_DATA=... python benchmarks/hdp_defaults.py
"""

from common import cpu_seconds, load_corpus, save, standard_split

from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.estimators import SplitMerge

VARIANTS = {
    "defaults": {},
    "learning_method='memoized'": {"learning_method": "memoized"},
    "learning_method='batch'": {"learning_method": "batch"},
    "split_merge=False": {"split_merge": False},
    "births=False": {"split_merge": SplitMerge(births=False)},
    "variational_family='mean_field'": {"variational_family": "mean_field"},
    "n_components=20": {"n_components": 20},
    "n_components=300": {"n_components": 300},
    "warm_up=0": {"warm_up": 0},
    "warm_up=10": {"warm_up": 10},
    "batch_size=128": {"batch_size": 128},
    "batch_size=512": {"batch_size": 512},
    "learning_decay=0.5": {"learning_decay": 0.5},
    "learning_decay=0.7": {"learning_decay": 0.7},
    "topic_word_prior=0.02": {"topic_word_prior": 0.02},
    "topic_word_prior=0.1": {"topic_word_prior": 0.1},
    "learn_priors=False": {"learn_priors": False},
    "learn_priors=True": {"learn_priors": True},
    "init='random'": {"init": "random"},
}
CORPORA = ("ap", "kos", "sotu", "bars", "nips")
#: `nips` takes a minute a run: these alone.
ON_NIPS = (
    "defaults",
    "learning_method='memoized'",
    "split_merge=False",
    "n_components=20",
    "n_components=300",
    "topic_word_prior=0.02",
    "learn_priors=True",
)


def load(name):
    if name == "bars":
        data = make_bars(2200, random_state=0).data
        return data[:2000], data[2000:]
    return standard_split(load_corpus(name))


def run(name, train, test, variant):
    options = {"tol": 0, "random_state": 0, **VARIANTS[variant]}
    hdp, seconds = cpu_seconds(lambda: HDP(**options).fit(train))
    return {
        "corpus": name,
        "variant": variant,
        "score": hdp.score(test),
        "topics": hdp.n_components_,
        "CPU s": seconds,
    }


def side_by_side(rows):
    table = []
    for variant in VARIANTS:
        row = {"variant": variant}
        for name in CORPORA:
            for one in rows:
                if (one["corpus"], one["variant"]) == (name, variant):
                    row[name] = (
                        f"{one['score']:.3f} ({one['topics']}, {one['CPU s']:.0f} s)"
                    )
        table.append(row)
    return table


READING = """
Score in nats per held-out token (topics at the end, CPU seconds of the fit), 20 passes,
seed 0; 90 % of the documents to learn from. Differences below 0.01 are noise.
"""


if __name__ == "__main__":
    rows = []
    for name in CORPORA:
        train, test = load(name)
        for variant in ON_NIPS if name == "nips" else VARIANTS:
            rows.append(run(name, train, test, variant))
            print(rows[-1], flush=True)
    save("hdp_defaults", side_by_side(rows), ["variant", *CORPORA], READING)
