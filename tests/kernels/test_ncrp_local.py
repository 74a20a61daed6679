"""The document step on a tree of topics against its slow twin."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import psi

from checks.long import along_diagonal, daily
from reference import ncrp_topics as reference
from skbnp.kernels._ncrp_local import (
    CHEAP_ITERATIONS,
    infer_paths,
    share_words,
)
from skbnp.models.nested_crp.local import DocPaths
from skbnp.models.nested_crp.model import PathStats

#: Nodes of stubs, by name; the tree of three levels has its leaves in the last.
STUBS = {
    "three-levels": [
        [0, -1, -1],
        [0, 1, -1],
        [0, 1, 2],
        [0, 1, 3],
        [0, 4, -1],
        [0, 4, 5],
        [0, 6, -1],
    ],
    "one-level": [[0]],
    "one-stub": [[0, -1, -1, -1]],
    "two-levels": [[0, -1], [0, 1], [0, 2]],
}


def sparse(counts):
    """CSR arrays of a dense corpus."""
    counts = np.atleast_2d(np.asarray(counts, dtype=float))
    rows, words = np.nonzero(counts)
    indptr = np.searchsorted(rows, np.arange(len(counts) + 1)).astype(np.int32)
    return indptr, words.astype(np.int32), counts[rows, words]


def problem(
    seed=0, shape="three-levels", *, eta=0.5, prior=(5.0, 2.0, 1.0, 1.0), tokens=1.0
):
    """A corpus with an empty document and one of a single word, and globals."""
    rng = np.random.default_rng([seed, len(shape)])
    nodes = np.array(STUBS[shape], dtype=np.int32)
    n_words, n_nodes, n_levels = 23, nodes.max() + 1, nodes.shape[1]
    counts = rng.poisson(1.0, size=(9, n_words)) * tokens
    counts[2] = 0.0
    counts[5] = 0.0
    counts[5, 7] = 3.0 * tokens
    held = eta + rng.gamma(0.1, 40.0, size=(n_words, n_nodes)) * (
        rng.random((n_words, n_nodes)) < 0.4
    )
    return {
        "counts": counts,
        "log_weights": psi(held) - psi(held.sum(axis=0)),
        "off_tree": np.full(n_levels, psi(eta) - psi(n_words * eta)),
        "stub_nodes": nodes,
        "log_prior": np.log(rng.dirichlet(np.ones(len(nodes)))),
        "level_prior": np.array(prior[:n_levels]),
    }


def infer(given, *, max_iter=1000, tol=1e-12, prune=np.inf, **options):
    """What the kernel finds, the corpus dense."""
    rest = {name: given[name] for name in list(given)[1:]}
    arrays = sparse(given["counts"])
    return infer_paths(
        *arrays, **rest, max_iter=max_iter, tol=tol, prune=prune, **options
    )


def dense(given, result):
    """q (n_docs, n_stubs) and a (n_docs, n_stubs, n_levels), zero off the support."""
    limits, stubs, shares, levels, _, _ = result
    n_docs, (n_stubs, n_levels) = len(limits) - 1, given["stub_nodes"].shape
    doc = np.repeat(np.arange(n_docs), np.diff(limits))
    q, a = np.zeros((n_docs, n_stubs)), np.zeros((n_docs, n_stubs, n_levels))
    q[doc, stubs], a[doc, stubs] = shares, levels
    return q, a


def add(given, result, *, factorised=False):
    """Sums of the kernel: S, R, m, O and U."""
    n_words, n_levels = len(given["log_weights"]), given["stub_nodes"].shape[1]
    limits, stubs, shares, _, weights, _ = result
    corpus = sparse(given["counts"])
    tokens, entropies = share_words(
        *corpus,
        given["log_weights"],
        given["off_tree"],
        given["stub_nodes"],
        given["level_prior"],
        limits,
        stubs,
        shares,
        weights,
        factorised,
    )
    pairs = np.cumsum([0, *(np.diff(corpus[0]) * np.diff(limits))])
    docs = DocPaths(
        limits.astype(np.int64), stubs, shares, weights, pairs, tokens, entropies, None
    )
    X = sp.csr_array((corpus[2], corpus[1], corpus[0]), given["counts"].shape)
    total = PathStats.zero(len(given["log_prior"]), n_words, n_levels)
    total = docs.add_to(total, X, given["stub_nodes"])
    words, variances = total.word_counts.T, total.word_variances.T
    return words, variances, total.stub_masses, total.off_tree_tokens, total.entropy


def twin(given, max_iter=1000, *, factorised=False):
    """(q, phis, levels, bound) of each document by the slow reference."""
    rest = [given[name] for name in list(given)[1:]]
    words = given["log_weights"]
    result = []
    for row in given["counts"]:
        if factorised:
            q, phi, a, bound = reference.factorised_step(row, words, *rest[1:], 200)
            copies = (len(q), 1, 1)
            result.append((q, np.tile(phi, copies), np.tile(a, copies[:2]), bound))
        else:
            step = reference.conditional_step(row, words, *rest[1:], max_iter, 1e-12)
            result.append(step)
    return result


def slow_sums(given, result):
    """S, R, m and O from responsibilities."""
    n_words, n_nodes = given["log_weights"].shape
    n_stubs, n_levels = given["stub_nodes"].shape
    sums, variances = np.zeros((2, n_words, n_nodes))
    masses, off_tokens = np.zeros(n_stubs), np.zeros(n_levels)
    for row, (q, phis, _, _) in zip(given["counts"], result, strict=True):
        masses += q
        for k, path in enumerate(given["stub_nodes"]):
            for level, node in enumerate(path):
                tokens = q[k] * row * phis[k, level]
                if node < 0:
                    off_tokens[level] += tokens.sum()
                else:
                    sums[:, node] += tokens
                    variances[:, node] += tokens * (1.0 - phis[k, level])
    return sums, variances, masses, off_tokens


def check_equal(given, result, expected, *, factorised=False):
    """The result and its sums are those of the twin."""
    q, a = dense(given, result)
    near = {"rtol": 1e-7, "atol": 1e-9}
    assert_allclose(q, [one[0] for one in expected], **near)
    levels = np.array([one[2] for one in expected])
    assert_allclose(a, np.where(q[:, :, None] > 0.0, levels, 0.0), **near)
    assert_allclose(result[5], [one[3] for one in expected], rtol=1e-9, atol=1e-9)
    sums = add(given, result, factorised=factorised)[:4]
    for got, wanted in zip(sums, slow_sums(given, expected), strict=True):
        assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


def check_sums(given, result, *, factorised=False):
    """Mass is conserved, and the bounds can be rebuilt from sums."""
    sums, variances, masses, off_tokens, entropy = add(
        given, result, factorised=factorised
    )
    counts = given["counts"]
    assert_allclose(sums.sum() + off_tokens.sum(), counts.sum(), rtol=1e-12)
    assert (sums.sum(axis=1) <= counts.sum(axis=0) * (1 + 1e-12)).all()
    assert (variances >= -1e-15 * sums).all()
    assert (variances <= sums).all()
    assert_allclose(masses.sum(), len(counts), rtol=1e-13)
    rebuilt = entropy + masses @ given["log_prior"]
    rebuilt += np.vdot(sums, given["log_weights"]) + off_tokens @ given["off_tree"]
    bounds = result[5].sum()
    assert_allclose(rebuilt, bounds, rtol=1e-11, atol=1e-11)


@along_diagonal(("shape", "factorised"), STUBS, [False, True])
@pytest.mark.parametrize("tokens", daily(1, [0.3, 1.0]))
def test_the_document_step_equals_its_twin(shape, factorised, tokens, seed):
    given = problem(seed, shape, tokens=tokens)
    options = {"max_iter": 200, "tol": 0.0} if factorised else {}
    result = infer(given, factorised=factorised, **options)
    check_equal(
        given, result, twin(given, factorised=factorised), factorised=factorised
    )
    check_sums(given, result, factorised=factorised)


@pytest.mark.parametrize("change", ["off_tree"])
def test_the_twin_tells_a_wrong_argument(change):
    given = problem()
    wrong = {**given, change: given[change].copy()}
    wrong[change][1:2] += 1e-3
    with pytest.raises(AssertionError):
        check_equal(given, infer(wrong), twin(given))


@pytest.mark.parametrize("factorised", [False, True])
@pytest.mark.parametrize("eta", [0.01, 1e-3, 100.0])
@pytest.mark.parametrize("tokens", [1e-3, 1.0, 1e9])
def test_any_size_is_finite_and_conserved(eta, tokens, factorised, seed):
    given = problem(seed, eta=eta, tokens=tokens)
    result = infer(given, factorised=factorised, max_iter=50, tol=1e-6)
    for array in result:
        assert np.isfinite(array).all()
    q, _ = dense(given, result)
    assert_allclose(q.sum(axis=1), 1.0, rtol=1e-14)
    check_sums(given, result, factorised=factorised)


@pytest.mark.parametrize("max_iter", [1, 2, CHEAP_ITERATIONS, 7])
@pytest.mark.parametrize("factorised", [False, True])
def test_an_unfinished_result_is_a_bound_of_its_own(max_iter, factorised, seed):
    given = problem(seed)
    result = infer(given, max_iter=max_iter, tol=0.0, factorised=factorised)
    check_sums(given, result, factorised=factorised)


@pytest.mark.parametrize("factorised", [False, True])
def test_a_start_is_never_left_for_less(factorised, seed):
    given = problem(seed)
    result = infer(given, factorised=factorised)
    again = infer(given, max_iter=1, factorised=factorised, starts=result[:4])
    assert (again[5] >= result[5] - 1e-10).all()
    # A start at which one level has all words, and nothing else does.
    odd = list(result[:4])
    odd[3] = np.full_like(odd[3], 1e-2)
    odd[3][:, 0] = 1e3
    better = infer(given, max_iter=3, factorised=factorised, starts=tuple(odd))
    if not factorised:
        cold = infer(given, max_iter=3)
        assert (better[5] >= cold[5] - 1e-10).all()
    check_sums(given, better, factorised=factorised)


def test_leaving_stubs_out_costs_next_to_nothing(seed):
    given = problem(seed, tokens=4.0)
    every = infer(given, tol=1e-8)
    some = infer(given, tol=1e-8, prune=20.0)
    assert len(some[1]) < len(every[1])
    assert (some[5] <= every[5] + 1e-12 * np.abs(every[5])).all()
    assert_allclose(some[5], every[5], atol=len(given["log_prior"]) * np.exp(-20.0))
    q, _ = dense(given, some)
    assert_allclose(q.sum(axis=1), 1.0, rtol=1e-14)
    check_sums(given, some)


def test_closed_stubs_are_for_documents_that_start_there(seed):
    given = problem(seed)
    is_open = np.arange(len(given["log_prior"])) % 2 == 0
    part = {name: given[name][is_open] for name in ("stub_nodes", "log_prior")}
    closed = infer(given, is_open=is_open.astype(np.uint8))
    alone = infer({**given, **part})
    assert_allclose(dense(given, closed)[0][:, is_open], dense(given | part, alone)[0])
    assert_allclose(closed[5], alone[5], rtol=1e-12)
    check_sums(given, closed)
    every = infer(given)  # a start that names all stubs opens them
    again = infer(given, starts=every[:4], is_open=is_open.astype(np.uint8))
    assert_allclose(again[5], every[5], rtol=1e-9)
    assert (every[5] > closed[5]).all()
