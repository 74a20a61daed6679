"""Differences of the bound that moves are judged by, against full objectives."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import psi

from checks.posteriors import posterior_of, responsibilities
from reference import hdp_direct as reference
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import DocumentLocalStep, LocalStop, Visit
from skbnp.models.hdp import moves as hdp_merge
from skbnp.models.hdp import moves as hdp_split
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.model import DirectHDP, HDPState
from skbnp.utils.matching import best_disjoint

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
                Visit(block_hook=lambda block: [one(block) for one in looks]),
            )
        self.result, self.counts = result, counts
        self.blocks = [block[0] for block in result.seen]
        self.looked = [block[-1] for block in result.seen]

    @property
    def r(self):
        """Responsibilities of all documents, (n_docs, n_words, K)."""
        n_topics = self.result.doc_topic.shape[1]
        return responsibilities(self.blocks, self.counts.shape, n_topics)


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
    topics = init_fraction * rng.gamma(0.6, 3.0, size=(n_words, n_topics))
    posterior = posterior_of(state, topics, model)
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


def merge_gain(seen, sums, state, pair):
    """What documents gain, and the words, everything at its optimum given r."""
    words = np.einsum("jw,jwk->kw", seen.counts, seen.r)[list(pair)]
    together, eta = words.sum(axis=0, keepdims=True), state.topic_word_prior
    gained = reference.topic_part(together, eta) - reference.topic_part(words, eta)
    return sums[1] + gained


@pytest.mark.parametrize("case", range(6))
def test_gain_of_a_merge_is_the_difference_of_two_objectives(case, seed):
    pairs = [(0, 1), (2, 0), (1, 3)]
    posterior, seen, _ = visited(
        np.random.default_rng([seed, case]),
        block_hook=hdp_merge.MergeComparison(np.array(pairs, dtype=np.int32)),
    )
    state, r, counts = posterior.state, seen.r, seen.counts
    before = profile(counts, r, state, state.weights)
    for pair, sums in zip(pairs, sum(seen.looked), strict=True):
        after = joined(r, *pair), state, joined_weights(state.weights, *pair)
        exact = profile(counts, *after) - before
        check_difference(merge_gain(seen, sums, state, pair), exact)
        with pytest.raises(AssertionError, match="is not"):
            check_difference(merge_gain(seen, 1.001 * sums, state, pair), exact)


def check_difference(got, exact, size=1.0):
    assert abs(got - exact) <= 1e-8 * max(abs(exact), size), f"{got} is not {exact}"


def test_best_pairs_come_first_and_share_no_member():
    pairs = [(0, 1), (1, 2), (3, 4), (2, 5), (6, 7)]
    assert best_disjoint(pairs, [1.0, 3.0, 0.0, 2.0, -1.0]).tolist() == [1]
    assert best_disjoint(pairs, [4.0, 3.0, 1.0, 2.0, 1.0]).tolist() == [0, 3, 2, 4]
    assert best_disjoint([], []).tolist() == []


# Split --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def children_of_any_size(monkeypatch):
    monkeypatch.setattr(hdp_split, "LEAST_TOKENS", 0.0)


def parts_of(seen, column):
    """The tokens of one topic, as a move collects them."""
    blocks = [hdp_split.Collection([column])(visit)[0] for visit in seen.blocks]
    return hdp_split.Parts.joined(blocks)


def parent_of(posterior, seen, column, n_docs):
    return hdp_split.Parent.among(
        parts_of(seen, column),
        float(posterior.state.doc_prior[column]),
        posterior.global_stats.topic_words.column(column),
        (len(seen.counts), n_docs),
    )


def children_of(posterior, seen, column):
    parent = parent_of(posterior, seen, column, len(seen.counts))
    share = np.random.default_rng(0).random(len(parent.topic))
    topics = np.stack([share, 1.0 - share]) * parent.topic
    children = hdp_split.Children(topics, np.array([0.4, 0.6]))
    return hdp_split.fit_children(parent, children, posterior.state.topic_word_prior)


def split_responsibilities(posterior, seen, column, children):
    """Responsibilities with the children of a topic, the second at the end."""
    r = seen.r
    parent = parent_of(posterior, seen, column, len(seen.counts))
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


def exact_split(posterior, seen, column, children, scale):
    """Difference of two full bounds, topics held fixed."""
    state, counts = posterior.state, seen.counts
    parted = split_responsibilities(posterior, seen, column, children)
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
    return bound(parted, weights, split_topics) - bound(seen.r, state.weights, topics)


@SCALES
@pytest.mark.parametrize("case", range(4))
def test_gain_of_a_split_is_the_difference_of_two_objectives(case, scale, seed):
    """For stale topics too."""
    rng = np.random.default_rng([seed, case])
    posterior, seen, _ = visited(rng, init_fraction=2.0)
    column = int(np.argmax(seen.result.doc_topic.sum(axis=0)))
    children = children_of(posterior, seen, column)
    parent = parent_of(posterior, seen, column, scale * 10)
    got = hdp_split.gain(parent, children, posterior.state.topic_word_prior)
    check_difference(got, exact_split(posterior, seen, column, children, scale))


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
