"""Differences of the bound that moves are judged by, against full objectives."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import psi

from reference import hdp_direct as reference
from skbnp.components.word_topics import WordTopics
from skbnp.distributions.dirichlet import log_growth
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Lineage
from skbnp.inference.protocols import DocumentLocalStep, LocalStop
from skbnp.kernels._merge import compare_merges
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.model import DirectHDP, HDPState
from skbnp.models.hdp.moves import merge as hdp_merge
from skbnp.models.hdp.moves import split as hdp_split
from skbnp.models.hdp.posterior import HDPPosterior

EXACT = LocalStop(50, 1e-9)
SCALES = pytest.mark.parametrize("scale", [1.0, 7.5])


class Seen:
    """A visit of some documents, with what the looks at its blocks saw."""

    def __init__(self, posterior, counts, block_hook=None):
        looks = [copy.copy] if block_hook is None else [copy.copy, block_hook]
        with Executor(1) as executor:
            result = DocumentLocalStep(EXACT, executor, DocumentStep).update_local(
                posterior,
                sp.csr_array(counts),
                block_hook=lambda visit: [one(visit) for one in looks],
            )
        self.result, self.counts = result, counts
        self.blocks = [block[0] for block in result.seen]
        self.looked = [block[-1] for block in result.seen]

    @property
    def r(self):
        """Responsibilities of all documents, (n_docs, n_words, K)."""
        n_topics = self.result.doc_topic.shape[1]
        r = np.zeros((*self.counts.shape, n_topics))
        for visit in self.blocks:
            block = visit.block
            weights = visit.doc_weights[visit.row] * visit.word_weights[block.indices]
            rows = np.arange(len(r))[block.rows][visit.row]
            r[rows, block.words[block.indices]] = (
                weights / visit.documents.norms[:, None]
            )
        return r


def visited(rng, n_topics=4, n_docs=10, n_words=12, init_fraction=1.0, block_hook=None):
    """A posterior, a visit of random documents under it, and their counts."""
    counts = rng.poisson(1.2, size=(n_docs, n_words)).astype(float)
    counts[:, 0] += counts.sum(axis=1) == 0
    state = HDPState(
        weights=rng.dirichlet(np.full(n_topics + 1, 2.0)),
        doc_concentration=rng.gamma(2.0) + 0.1,
        corpus_concentration=1.3,
        topic_word_prior=float(rng.choice([0.05, 0.5])),
    )
    model = DirectHDP(learn_concentrations=False, learn_topic_prior=False)
    topics = WordTopics(init_fraction * rng.gamma(0.6, 3.0, size=(n_words, n_topics)))
    ids = np.arange(n_topics)
    log = [Lineage(0, "init", (), tuple(ids.tolist()))]
    posterior = HDPPosterior(model, state, model.start(state, topics), ids, log)
    return posterior, Seen(posterior, counts, block_hook), counts


def profile(counts, r, state, weights, scale=1.0):
    """Bound of `scale` copies of the documents, theta and lambda at their optimum."""
    terms = reference.profile_terms(
        counts,
        list(r),
        weights,
        state.doc_concentration,
        state.corpus_concentration,
        state.topic_word_prior,
    )
    # Copies multiply documents and entropy; the words see scaled sums.
    sums = scale * np.einsum("jw,jwk->kw", counts, r)
    words = reference.topic_part(sums, state.topic_word_prior)
    return scale * (terms["assignments"] + terms["entropy"]) + words + terms["weights"]


# Visit --------------------------------------------------------------------------------


def check_factors(seen):
    """The factors are responsibilities, and the sums are theirs."""
    r, counts, stats = seen.r, seen.counts, seen.result.stats
    assert_allclose(r.sum(axis=2)[counts > 0], 1.0, rtol=1e-12)
    assert_allclose(
        seen.result.doc_topic.toarray(),
        np.einsum("jw,jwk->jk", counts, r),
        rtol=1e-10,
        atol=1e-14,
    )
    sums = np.einsum("jw,jwk->wk", counts, r)[stats.topic_words.words]
    assert_allclose(stats.topic_words.values.toarray(), sums, rtol=1e-10, atol=1e-14)
    log_r = np.log(np.where(r > 0, r, 1.0))
    entropy = -np.einsum("jw,jwk,jwk->k", counts, r, log_r)
    assert_allclose(stats.entropy, entropy, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_topics", [1, 4, 17])
def test_factors_of_a_visit_are_responsibilities(n_topics, seed):
    _, seen, _ = visited(np.random.default_rng(seed), n_topics)
    assert len(seen.blocks) > 1
    check_factors(seen)


# Merge --------------------------------------------------------------------------------


def joined(r, one, other):
    """Responsibilities after topic `other` has become `one`."""
    r = r.copy()
    r[..., one] += r[..., other]
    return np.delete(r, other, axis=2)


def joined_weights(weights, one, other):
    weights = weights.copy()
    weights[one] += weights[other]
    return np.delete(weights, other)


def exact_merge(posterior, seen, one, other):
    """Difference of two full bounds, everything at its optimum given r."""
    state, r, counts = posterior.state, seen.r, seen.counts
    return profile(
        counts, joined(r, one, other), state, joined_weights(state.weights, one, other)
    ) - profile(counts, r, state, state.weights)


def check_difference(got, exact, size=1.0):
    assert abs(got - exact) <= 1e-8 * max(abs(exact), size), f"{got} is not {exact}"


PAIRS = [(0, 1), (2, 0), (1, 3)]


def merge_gain(seen, sums, state, pair, spoil=1.0):
    """The difference as memoized learning puts it together."""
    counts = sp.csc_array(seen.result.doc_topic)
    words = np.einsum("jw,jwk->wk", seen.counts, seen.r)
    gain = hdp_merge.documents_gain(state.doc_prior, counts, *pair) - spoil * sums[0]
    return gain + hdp_merge.words_gain(WordTopics(words), state.topic_word_prior, *pair)


@pytest.mark.parametrize("case", range(20))
def test_gain_of_a_merge_is_the_difference_of_two_objectives(case, seed):
    block_hook = hdp_merge.MergeComparison(np.array(PAIRS, dtype=np.int32))
    posterior, seen, _ = visited(
        np.random.default_rng([seed, case]), block_hook=block_hook
    )
    for pair, sums in zip(PAIRS, sum(seen.looked), strict=True):
        exact = exact_merge(posterior, seen, *pair)
        check_difference(merge_gain(seen, sums, posterior.state, pair), exact)
        # What online learning adds up: the documents' part, losses included.
        words = merge_gain(seen, sums, posterior.state, pair)
        words -= hdp_merge.documents_gain(
            posterior.state.doc_prior, sp.csc_array(seen.result.doc_topic), *pair
        )
        check_difference(sums[1] + words + sums[0], exact)


def test_the_comparison_of_merges_tells_a_wrong_loss(seed):
    block_hook = hdp_merge.MergeComparison(np.array(PAIRS, dtype=np.int32))
    posterior, seen, _ = visited(np.random.default_rng(seed), block_hook=block_hook)
    sums = sum(seen.looked)[0]
    got = merge_gain(seen, sums, posterior.state, (0, 1), spoil=1.001)
    with pytest.raises(AssertionError, match="is not"):
        check_difference(got, exact_merge(posterior, seen, 0, 1))


# Candidates ---------------------------------------------------------------------------


def candidates(doc_topic, words):
    return hdp_merge.candidates(sp.csr_array(doc_topic), sp.csr_array(words))


def test_topics_of_one_mind_are_candidates_by_their_documents():
    """Other words, always in the same documents."""
    rng = np.random.default_rng(0)
    both = rng.gamma(1.0, 5.0, size=40)
    doc_topic = np.column_stack([both, both.max() - both, 2.0 * both])
    words = np.diag([1.0, 1.0, 1.0])
    assert candidates(doc_topic, words) == [(0, 2)]
    assert candidates(np.column_stack([both, both.max() - both]), words[:, :2]) == []


@pytest.mark.parametrize("n_topics", [1, 2, 3, 9, 40])
def test_candidates_are_few_distinct_and_ordered_by_column(n_topics, seed):
    rng = np.random.default_rng([seed, n_topics])
    pairs = candidates(
        rng.gamma(0.3, 5.0, size=(50, n_topics)), rng.gamma(2.0, size=(30, n_topics))
    )
    assert len(pairs) == len(set(pairs)) <= 3 * n_topics
    assert all(0 <= one < other < n_topics for one, other in pairs)


def test_best_pairs_come_first_and_share_no_member():
    pairs = [(0, 1), (1, 2), (3, 4), (2, 5), (6, 7)]
    assert hdp_merge.best_disjoint(pairs, [1.0, 3.0, 0.0, 2.0, -1.0]) == [1]
    assert hdp_merge.best_disjoint(pairs, [4.0, 3.0, 1.0, 2.0, 1.0]) == [0, 3, 2, 4]
    assert hdp_merge.best_disjoint([], []) == []


# Split --------------------------------------------------------------------------------


def parts_of(seen, column):
    """The tokens of one topic, as a move collects them."""
    blocks = [hdp_split.Collection([column])(visit)[0] for visit in seen.blocks]
    return hdp_split.Parts.joined(blocks, np.arange(len(seen.counts)))


def parent_of(posterior, seen, column, chosen, n_docs):
    return hdp_split.Parent.among(
        parts_of(seen, column),
        float(posterior.state.doc_prior[column]),
        posterior.global_stats.topic_words.column(column),
        chosen,
        n_docs,
    )


def children_of(posterior, seen, column, rng):
    everyone = np.ones(len(seen.counts), dtype=bool)
    parent = parent_of(posterior, seen, column, everyone, len(everyone))
    for _ in range(20):
        children = hdp_split.start(parent, "mixed", rng)
        if children is not None:
            eta = posterior.state.topic_word_prior
            return hdp_split.fit_children(parent, children, eta)
    raise AssertionError("no start broke the symmetry")


def split_responsibilities(posterior, seen, column, children, chosen):
    """Responsibilities with the children of a topic, the second at the end."""
    r = seen.r
    parent = parent_of(posterior, seen, column, chosen, chosen.sum())
    share, _, _ = hdp_split._assign(parent, children, posterior.state.topic_word_prior)
    parted = np.concatenate([r, np.zeros_like(r[..., [column]])], axis=2)
    at = (parent.rows, parent.words)
    parted[(*at, -1)] = r[(*at, column)] * share[1]
    parted[(*at, column)] = r[(*at, column)] * share[0]
    return parted


def split_weights(weights, column, shares):
    weights = np.insert(weights, len(weights) - 1, weights[column] * shares[1])
    weights[column] *= shares[0]
    return weights


def exact_split(posterior, seen, column, children, chosen, scale):
    """Difference of two full bounds, topics held fixed, on the chosen documents."""
    state, counts = posterior.state, seen.counts[chosen]
    parted = split_responsibilities(posterior, seen, column, children, chosen)
    topics = posterior.global_stats.topic_words.dense().T
    split_topics = np.vstack([topics, children.topics[1]])
    split_topics[column] = children.topics[0]

    def bound(r, weights, topics):
        lam = topics + state.topic_word_prior
        x = state.doc_concentration * weights
        tokens, _ = reference.sufficient_statistics(counts, list(r))
        theta = np.column_stack([tokens, np.zeros(len(tokens))]) + x
        terms = reference.elbo_terms(
            counts,
            list(r),
            theta,
            lam,
            weights,
            state.doc_concentration,
            state.corpus_concentration,
            state.topic_word_prior,
        )
        return scale * (terms["z"] + terms["pi"]) + terms["phi"] + terms["beta"]

    weights = split_weights(state.weights, column, children.shares)
    return bound(parted[chosen], weights, split_topics) - bound(
        seen.r[chosen], state.weights, topics
    )


@SCALES
@pytest.mark.parametrize("case", range(10))
def test_gain_of_a_split_is_the_difference_of_two_objectives(case, scale, seed):
    """For stale topics too, on documents that the children were not fitted to."""
    rng = np.random.default_rng([seed, case])
    posterior, seen, _ = visited(rng, init_fraction=2.0)
    column = int(np.argmax(seen.result.doc_topic.sum(axis=0)))
    children = children_of(posterior, seen, column, rng)
    chosen = np.arange(10) % 2 == 0
    judge = parent_of(posterior, seen, column, chosen, scale * chosen.sum())
    got, _ = hdp_split.gain(judge, children, posterior.state.topic_word_prior, 0.0)
    check_difference(got, exact_split(posterior, seen, column, children, chosen, scale))


@pytest.mark.parametrize("case", range(10))
def test_a_split_and_the_merge_of_its_children_cancel(case, seed):
    """The merge gains what the split has lost, and the objective returns."""
    rng = np.random.default_rng([seed, case])
    posterior, seen, counts = visited(rng)
    state, column = posterior.state, int(rng.integers(4))
    children, everyone = children_of(posterior, seen, column, rng), np.ones(10, bool)
    parted = split_responsibilities(posterior, seen, column, children, everyone)
    weights = split_weights(state.weights, column, children.shares)
    before = profile(counts, seen.r, state, state.weights)
    lost = before - profile(counts, parted, state, weights)

    # Of the counts of each topic, as a visit would hand them to the kernel.
    pair = np.ascontiguousarray(parted[..., [column, -1]])
    rows, words = np.nonzero(counts)
    n, x = np.einsum("jw,jwk->jk", counts, pair), state.doc_concentration * weights
    x = x[[column, len(weights) - 2]]
    sums = np.zeros((1, 3))
    for j in range(10):  # each document with words of its own: any r is a product
        here = np.flatnonzero(rows == j)
        compare_merges(
            np.array([0, len(here)], dtype=np.int32),
            np.arange(len(here), dtype=np.int32),
            counts[j, words[here]],
            np.ascontiguousarray(pair[j, words[here]]),
            np.ones((1, 2)),
            np.ones(len(here)),
            n[[j]],
            log_growth(x, n[[j]]),
            x,
            np.array([[0, 1]], dtype=np.int32),
            sums,
        )
    held = np.einsum("jw,jwk->wk", counts, pair)
    gained = sums[0, 1]
    gained += hdp_merge.words_gain(WordTopics(held), state.topic_word_prior, 0, 1)
    check_difference(gained, lost, abs(before) * 1e-2)
    again = profile(
        counts,
        joined(parted, column, 4),
        state,
        joined_weights(weights, column, 4),
    )
    assert_allclose(again, before, rtol=1e-12)


def test_error_of_a_split_is_the_spread_of_its_documents(seed):
    """A document's gain by itself is its contribution and a constant."""
    rng = np.random.default_rng(seed)
    posterior, seen, _ = visited(rng, n_docs=30)
    children, eta = children_of(posterior, seen, 0, rng), 0.05
    alone = [
        hdp_split.gain(
            parent_of(posterior, seen, 0, np.arange(30) == j, 1.0), children, eta, -1.0
        )[0]
        for j in range(30)
    ]
    everyone = np.ones(30, dtype=bool)
    judge = parent_of(posterior, seen, 0, everyone, 3.0 * 30)
    _, error = hdp_split.gain(judge, children, eta, 0.0)
    assert_allclose(error, 3.0 * np.sqrt(30) * np.std(alone), rtol=1e-6)


def test_words_term_is_expected_likelihood_less_divergence(seed):
    rng = np.random.default_rng(seed)
    topics, sums = rng.gamma(0.5, 4.0, size=(2, 1, 9))
    lam, eta = 0.2 + topics, 0.2
    log_phi = psi(lam) - psi(lam.sum())
    divergence = -reference.log_multivariate_beta(lam[0])
    divergence += reference.log_multivariate_beta(np.full(9, eta))
    divergence += ((lam - eta) * log_phi).sum()
    expected = (sums * log_phi).sum() - divergence
    assert_allclose(hdp_split.words_term(eta, topics, sums), [expected], rtol=1e-10)
