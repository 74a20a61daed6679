"""What dependent trees cost: a model fitted to measured passes, and what it predicts.

    SKBNP_DATA=... python benchmarks/dependent_trees_cost.py [--machines N ...]

Measured are passes over some rows, nodes and words of `arxiv_large`, a part for each V
rows, all nodes scored, and moves after a pass. Processor seconds are fitted by sums of

    visits     stored words x nodes, stored words, rounds x nodes x V (tables),
    updates    rounds x nodes x V, stored words (sums),
    merges     nodes^2 x V, nodes x V, stored words,

coefficients not below zero, relative errors least; births, whose rounds and rows vary,
by powers of stored words, nodes and V, and pairs of a node and a word that it has rows
of by powers of stored words and nodes. A larger run, which they are not
fitted to, is predicted. Then they are read for many more documents: rows are cut evenly
over machines; each machine updates all directions by itself, once in a pass, on one
core; visits and births are on all cores. Up and down go sums, 12 bytes a pair.
"""

import argparse
import time

import common  # before NumPy: it pins the threads
import numpy as np
import scipy.sparse as sp
from dependent_trees import unit_rows
from scipy.optimize import nnls

from skbnp import DependentTrees
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import Monitor, new_history
from skbnp.models.dependent_trees import structure
from skbnp.models.dependent_trees.structure import LEAST_BIRTHS
from skbnp.models.dependent_trees.updates import nearest_centres, start_tree

#: Rows, nodes, words; the last is predicted.
CASES = [
    (8000, 100, 3000),
    (8000, 400, 3000),
    (16000, 200, 3000),
    (32000, 100, 3000),
    (32000, 400, 3000),
    (8000, 200, 11849),
    (16000, 400, 11849),
    (32000, 200, 11849),
    (60000, 400, 11849),
    (90000, 800, 11849),
    (110000, 1200, 11849),
]
#: What is read: documents, nodes, words; stored words of a document; passes.
DOCUMENTS, NODES, WORDS, STORED, N_PASSES = 8_400_000, 10_000, 70_000, 51.5, 200
CORES = 8  # of a machine
N_TIMED = 2


def learner_of(X, n_nodes, executor):
    """Begin with rows that are nearest to some of them."""
    trees = DependentTrees(random_state=0)
    rows = trees._read(X, reset=True, method="fit")
    model = trees._make_model()
    rng = np.random.default_rng(0)
    n_centres = min(n_nodes - 1, rows.shape[0])
    drawn = rng.choice(rows.shape[0], size=n_centres, replace=False)
    centres = rows.X[np.sort(drawn)].toarray().astype(np.float64)
    labels = np.unique(nearest_centres(rows.X, centres), return_inverse=True)[1]
    trees._first_tree = lambda model, X, entropy: start_tree(X, labels, model.priors)
    posterior = trees._start(model, rows, 0, rows.shape[0])
    posterior.n_open = rows.shape[0]
    around = trees._around(posterior, rows.X, executor)
    return trees._make_learner(posterior, around, False)


def measured(X, n_rows, n_nodes, n_words):
    """Processor seconds of visits, updates, merges and births."""
    order = np.random.default_rng(1).permutation(X.shape[0])[:n_rows]
    most = np.argsort(-np.asarray((X > 0).sum(axis=0)).ravel(), kind="stable")
    X = sp.csr_array(X[np.sort(order)][:, np.sort(most[:n_words])])
    seconds = dict.fromkeys(("visits", "updates", "merges", "births"), 0.0)
    with Executor(None) as executor:
        learner = learner_of(X, n_nodes, executor)
        moves, learner.moves = learner.moves, structure.EpochEdits(learner.moves.moves)
        learner.moves.end_pass = lambda *given: True
        monitor = Monitor(new_history())
        learner.one_pass(monitor)  # of all rows: not as later ones
        visit, visited = learner.local_step.update_local, []

        def timed(*given, **settings):
            begin = time.process_time()
            result = visit(*given, **settings)
            visited.append(time.process_time() - begin)
            return result

        learner.local_step.update_local = timed
        begin = time.process_time()
        for _ in range(N_TIMED):
            learner.one_pass(monitor)
        passed = (time.process_time() - begin) / N_TIMED
        seconds["visits"] = sum(visited) / N_TIMED
        seconds["updates"] = passed - seconds["visits"]
        n_nodes = len(learner.posterior.state.tree)
        pairs = learner.posterior.global_stats.sums.nnz
        for name, kind in (("merges", moves._merge), ("births", moves._propose_births)):
            begin = time.process_time()
            kind(learner)
            seconds[name] = time.process_time() - begin
    return {
        "rows": n_rows,
        "nodes": n_nodes,
        "words": n_words,
        "stored": X.nnz,
        "rounds": max(n_rows // n_words, 1),
        "targets": max(int(structure.BIRTH_SHARE * n_nodes), LEAST_BIRTHS),
        "pairs": pairs,
        "seconds": seconds,
    }


def terms(case):
    """What each kind of seconds is proportional to, in billions."""
    stored, nodes, words = case["stored"], case["nodes"], case["words"]
    return {
        "visits": [
            stored * nodes / 1e9,
            stored / 1e9,
            case["rounds"] * nodes * words / 1e9,
        ],
        "updates": [case["rounds"] * nodes * words / 1e9, stored / 1e9],
        "merges": [nodes**2 * words / 1e9, nodes * words / 1e9, stored / 1e9],
    }


def sizes(case):
    """Logarithms of e, and of what births are powers of."""
    return np.log([np.e, case["stored"], case["nodes"], case["words"]])


def fitted(cases):
    """Coefficients of each kind, and of the logarithm of pairs."""
    births = np.log([case["seconds"]["births"] for case in cases])
    powers = np.array([sizes(case) for case in cases])
    result = {"births": np.linalg.lstsq(powers, births, rcond=None)[0]}
    for kind in terms(cases[0]):
        A = np.array([terms(case)[kind] for case in cases])
        y = np.array([case["seconds"][kind] for case in cases])
        result[kind] = nnls(A / y[:, None], np.ones(len(y)))[0]
    logs = np.log([[np.e, case["stored"], case["nodes"]] for case in cases])
    pairs = np.log([case["pairs"] for case in cases])
    return result, np.linalg.lstsq(logs, pairs, rcond=None)[0]


def predicted(case, result):
    seconds = {kind: float(np.dot(t, result[kind])) for kind, t in terms(case).items()}
    return seconds | {"births": float(np.exp(sizes(case) @ result["births"]))}


def pairs_of(case, power):
    logs = np.log([np.e, case["stored"], case["nodes"]])
    most = min(case["stored"], case["nodes"] * case["words"])
    return float(min(np.exp(logs @ power), most))


def reading(machines, result, power):
    """What a pass over many documents takes on so many machines."""
    case = {
        "stored": DOCUMENTS * STORED,
        "nodes": NODES,
        "words": WORDS,
        "rounds": 1,
        "targets": structure.BIRTH_SHARE * NODES,
    }
    rows = []
    for n_machines in machines:
        local = {**case, "stored": case["stored"] / n_machines}
        seconds = predicted(local, result)
        alone = {**local, "rounds": 1}
        births = predicted(case, result)["births"] / (n_machines * CORES)
        passed = (
            seconds["visits"] / CORES
            + predicted(alone, result)["updates"]
            + seconds["merges"] / CORES
            + births
        )
        pairs = pairs_of(case, power)
        memory = (
            local["stored"] * 8
            + DOCUMENTS / n_machines * 104  # memos
            + NODES * WORDS * (2 * 4 + 3 * 8)  # tables; means, a copy, their pasts
            + 2 * 12 * pairs
        )
        rows.append(
            {
                "machines": n_machines,
                "cores": n_machines * CORES,
                "seconds a pass": round(passed, 1),
                f"hours, {N_PASSES} passes": round(N_PASSES * passed / 3600, 2),
                "GB a machine": round(memory / 1e9, 1),
                "GB up and down a pass": round(2 * 12 * pairs * n_machines / 1e9, 1),
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, nargs="+", default=[1, 2, 4, 8])
    given = parser.parse_args()
    X, _ = unit_rows("arxiv_large")
    cases = []
    for case in CASES:
        cases.append(measured(X, *case))
        print(cases[-1], flush=True)
    result, power = fitted(cases[:-1])
    rows = []
    for case in cases:
        guess = predicted(case, result)
        row = {name: case[name] for name in ("rows", "nodes", "words")}
        for kind, seconds in case["seconds"].items():
            row[kind] = f"{seconds:.2f} ({guess[kind]:.2f})"
        total = sum(case["seconds"].values())
        row["all"] = f"{total:.2f} ({sum(guess.values()):.2f})"
        row["off by"] = f"{100 * (sum(guess.values()) / total - 1):+.0f} %"
        pairs = pairs_of(case, power)
        row["pairs"] = f"{case['pairs']:,} ({round(pairs):,})"
        rows.append(row)
        print(row, flush=True)
    text = ", ".join(f"{kind} {values.round(4)}" for kind, values in result.items())
    common.save(
        "dependent_trees_cost",
        rows,
        list(rows[0]),
        "Processor seconds of a pass and of its moves, in brackets what the model "
        "predicts. It is fitted to all lines but the last. Seconds for each billion of "
        "its terms (`terms` in the script), of births powers of e, stored words, nodes "
        f"and words: {text}.",
    )
    rows = reading(given.machines, result, power)
    common.save(
        "dependent_trees_cost_reading",
        rows,
        list(rows[0]),
        f"The model read for {DOCUMENTS:,} documents of {STORED} stored words, "
        f"{NODES:,} nodes, {WORDS:,} words, machines of {CORES} cores. Nothing of this "
        "size was run. Wanted: 18 hours on 64 cores at the most.",
    )
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
