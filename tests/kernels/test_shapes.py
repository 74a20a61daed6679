"""Arrays of which one has an entry too many or too few are refused by the kernels."""

import numpy as np
import pytest

from checks.failures import of_case
from skbnp.kernels import (
    _collapsed,
    _hdp_local,
    _moves,
    _ncrp_local,
    _restaurant,
    _special,
    _sphere,
    _tables,
    _topic_groups,
    _word_topics,
)

I4, F4 = np.int32, np.float32
ONE, TWO, THREE = np.ones(1), np.ones(2), np.ones(3)
#: Two documents of one word each, and a table of their words, for three topics.
DOCS = {
    "indptr": np.array([0, 1, 2], I4),
    "words": np.array([0, 1], I4),
    "counts": TWO,
}
TABLE, LIMITS = np.ones((2, 8), F4), np.array([0, 1, 2])
PATHS = {
    **DOCS,
    "log_weights": np.zeros((2, 1)),
    "off_tree": ONE,
    "stub_nodes": np.zeros((1, 1), I4),
    "level_prior": ONE,
}

SAYS = r"disagree|must|there is no start"
#: By kernel: arguments that agree, and those of its arrays that may be longer.
CASES = {
    _collapsed.infer_collapsed: (
        DOCS
        | {"weights": TABLE, "tops": TWO, "norm": THREE, "eta": 0.1, "prior": THREE}
        | {"held": TWO, "rest": 0.1, "share": THREE / 3, "max_iter": 3, "tol": 0.01},
        [],
    ),
    _collapsed.infer_zero_order: (
        DOCS
        | {"weights": TABLE, "prior": np.ones((2, 3)), "n_start": 3}
        | {"active": 0.1, "max_iter": 3, "tol": 0.01},
        ["weights", "prior"],
    ),
    _collapsed.collapsed_sums: (
        {"begin": 0, "end": 2, "columns": LIMITS.astype(I4), "stored": LIMITS[:2]}
        | {"limits": LIMITS, "topics": DOCS["words"], "sums": TWO, "n_topics": 3},
        ["columns"],
    ),
    _hdp_local.infer_documents: (
        DOCS
        | {"weights": TABLE, "prior": THREE, "share": THREE / 3, "starts": TABLE}
        | {"remembered": False, "max_iter": 5, "tol": 0.0, "support": 0.0},
        ["weights"],
    ),
    _hdp_local.word_sums: (
        {"begin": 0, "end": 2, "columns": DOCS["indptr"], "docs": DOCS["words"]}
        | {"ratios": TWO, "log_ratios": TWO, "limits": DOCS["indptr"]}
        | {"doc_topics": DOCS["words"], "doc_weights": TWO, "weights": TABLE}
        | {"n_topics": 3},
        ["columns", "weights"],
    ),
    _hdp_local.word_weights: (
        {"sums": np.ones((2, 3)), "scale": 1.0, "words": LIMITS[:2], "norm": THREE}
        | {"eta": 0.1, "mean": False, "table": TABLE.copy()},
        ["sums", "norm"],
    ),
    _moves.compare_merges: (
        DOCS
        | {"word_weights": np.ones((2, 3), np.float32), "doc_weights": np.ones((2, 3))}
        | {"norms": TWO, "doc_topic": np.ones((2, 3)), "growth": np.ones((2, 3))}
        | {"prior": THREE, "pairs": np.array([[0, 1]], I4), "sums": np.zeros((1, 2))},
        ["words", "counts", "word_weights", "norms", "growth", "prior"],
    ),
    _ncrp_local.infer_paths: (
        PATHS | {"log_prior": ONE, "max_iter": 5, "tol": 0.0, "prune": np.inf},
        ["log_weights"],
    ),
    _ncrp_local.share_words: (
        PATHS
        | {"limits": DOCS["indptr"], "stubs": np.zeros(2, I4), "shares": TWO}
        | {"weights": np.ones((2, 1)), "factorised": False},
        ["log_weights", "stub_nodes"],
    ),
    _ncrp_local.sum_words: (
        {"indptr": LIMITS, "words": DOCS["words"], "counts": TWO, "limits": LIMITS}
        | {"stubs": np.zeros(2, I4), "shares": TWO, "pairs": LIMITS}
        | {"tokens": np.ones((2, 1)), "stub_nodes": np.zeros((1, 1), I4)}
        | {"word_sums": np.zeros((1, 2)), "variances": np.zeros((1, 2))}
        | {"masses": np.zeros(1), "off_tokens": np.zeros(1)},
        [],
    ),
    _restaurant.tables_of: (
        {"counts": TWO, "mass": TWO, "discount": 0.5}
        | {"grid": _restaurant.expected_tables_grid(0.5, 5)},
        ["grid"],
    ),
    _special.log: ({"x": TWO, "out": TWO.copy()}, []),
    _special.log_gamma: (
        {"x": TWO, "log_gammas": TWO.copy(), "digammas": TWO.copy()},
        [],
    ),
    _sphere.score_rows: (
        {"indptr": DOCS["indptr"], "words": DOCS["words"], "values": TWO.astype(F4)}
        | {"table": np.zeros((1, 4, _sphere.TILE), F4), "prior": np.zeros(_sphere.TILE)}
        | {"strength": 1.0, "nodes": np.zeros((2, 2), I4), "scores": np.zeros((2, 2))},
        [],
    ),
    _tables.infer_tables: (
        DOCS
        | {"logs": np.zeros((2, 8), F4), "log_beta": np.zeros(3), "concentration": 1.0}
        | {"n_tables": 2, "remembered": None, "max_iter": 5, "tol": 1e-3},
        ["logs", "log_beta"],
    ),
    _topic_groups.rising_sums: (
        {"means": TWO, "some": TWO, "bases": ONE, "sums": np.zeros(1)},
        [],
    ),
    _word_topics.expected_growth: (
        {"means": np.ones((2, 3)), "variances": np.ones((2, 3))}
        | {"eta": TWO, "totals": TWO.copy()},
        [],
    ),
}


@pytest.mark.parametrize("kernel", CASES, ids=lambda kernel: kernel.__name__)
def test_arrays_that_disagree_are_refused(kernel):
    given, free = CASES[kernel]
    kernel(**given)
    for name, array in given.items():
        if not isinstance(array, np.ndarray) or name in free:
            continue
        longer = np.concatenate([array, array[-1:]])  # of limits: nothing comes last
        for wrong in (array[:-1], longer)[: 1 if name in ("indptr", "limits") else 2]:
            refused = pytest.raises(ValueError, match=SAYS)
            with of_case(name, wrong.shape), refused:
                kernel(**{**given, name: wrong})
