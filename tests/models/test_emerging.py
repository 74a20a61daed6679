"""Topics that are new since a call of a stream: evidence, bound, and documents kept."""

from functools import lru_cache
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad

from skbnp import HDP
from skbnp.models.hdp import emerging
from skbnp.models.hdp.posterior import Reservoir, document_keys
from skbnp.utils.matching import cosines

N_TOPICS, N_WORDS = 6, 120


def nights(n_nights, begin, share=0.15, end=None, n_docs=100, seed=0):
    """Nights of documents, and a further topic that begins on a night, or ends."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(N_WORDS, 0.1), N_TOPICS + 1)
    result = []
    for night in range(n_nights):
        is_there = begin <= night < (end or n_nights)
        shares = rng.dirichlet(np.full(N_TOPICS, 0.3), n_docs)
        shares = np.column_stack([shares, np.zeros(n_docs)])
        late = np.arange(n_docs) < share * n_docs * is_there
        shares[late] = 0.3 * shares[late]
        shares[late, -1] = 0.7
        lengths = 10 + rng.poisson(40, n_docs)
        result.append(sp.csr_array(rng.multinomial(lengths, shares @ topics) * 1.0))
    return result, topics[-1]


def learned(chunks, seed=0):
    """A stream that has learned some chunks."""
    hdp = HDP(random_state=seed)
    for X in chunks:
        hdp.partial_fit(X)
    return hdp


@lru_cache(maxsize=1)
def stream():
    """A stream of 8 calls, its last topic from call 7 on, and that topic."""
    chunks, topic = nights(8, begin=6)
    return learned(chunks), topic


# -- the bound ----------------------------------------------------------------------


def exceeded(log_tail):
    """Whether a bound is below the probability by enumeration anywhere."""
    rng = np.random.default_rng(0)
    for share, n_docs in product((0.1, 0.5, 0.8), (1, 4, 9)):
        weights = rng.uniform(size=n_docs) ** 2
        labels = np.array([*product((0, 1), repeat=n_docs)])
        chance = (share**labels * (1.0 - share) ** (1 - labels)).prod(axis=1)
        totals = labels @ weights
        for total in totals:
            exact = chance[totals >= total - 1e-12].sum()
            if exact > np.exp(log_tail(weights, share, total)) * (1.0 + 1e-9):
                return True
    return False


def test_the_bound_is_no_smaller_than_the_probability():
    assert not exceeded(emerging.log_tail)
    assert exceeded(lambda w, share, total: emerging.log_tail(w, 0.8 * share, total))
    assert exceeded(lambda w, share, total: emerging.log_tail(w, share, 1.1 * total))


def test_the_bound_is_near_the_probability_of_equal_weights():
    """That of n documents which all are after a call: n log q."""
    assert emerging.log_tail(np.full(20, 0.3), 0.25, 6.0) == pytest.approx(
        20 * np.log(0.25), abs=1e-6
    )
    assert emerging.log_tail(np.full(20, 0.3), 0.25, 1.4) == 0.0


def test_labels_at_random_have_p_values_that_are_no_smaller():
    rng = np.random.default_rng(1)
    calls = np.repeat(np.arange(1, 9), 25)
    weights = [rng.permutation(rng.uniform(size=200) ** 8) for _ in range(300)]
    p_values = np.exp([emerging._change(w, calls, 4)[0] for w in weights])
    for level in (0.05, 0.2, 0.5):
        assert (p_values <= level).mean() <= level


def test_a_change_is_dated_by_its_call():
    calls, weights = np.repeat(np.arange(1, 9), 25), np.zeros(200)
    weights[calls >= 7] = 0.8
    assert emerging._change(weights, calls, 4)[1] == 7
    assert emerging._change(weights, calls, 4, fades=True) == (np.log(4), -1)
    assert emerging._change(weights[::-1], calls, 1, fades=True)[1] == 3
    assert emerging._change(weights + 0.2, calls, 4) == (np.log(4), -1)  # had before


# -- evidence -----------------------------------------------------------------------


def test_evidence_is_the_integral_over_shares():
    """The ratio of nine tokens or fewer is a polynomial that the nodes integrate."""
    rng = np.random.default_rng(2)
    X = sp.csr_array(rng.multinomial(7, np.full(5, 0.2), size=4) * 1.0)
    old, topic = rng.uniform(0.1, 0.5, X.nnz), rng.dirichlet(np.ones(5))
    evidence = emerging.Explained(X, old).evidence(topic)
    for row in range(4):
        some = slice(X.indptr[row], X.indptr[row + 1])
        ratio = topic[X.indices[some]] / old[some]

        def density(share, ratio=ratio, some=some):
            return np.prod((1.0 - share + share * ratio) ** X.data[some])

        exact = quad(density, 0, 1)[0]
        assert np.exp(evidence[row]).sum() == pytest.approx(exact)
        mean = quad(lambda s, f=density: s * f(s), 0, 1)[0] / exact
        assert emerging._mean_shares(evidence[[row]])[0] == pytest.approx(mean)


def test_older_topics_are_those_that_documents_until_the_call_use():
    hdp, topic = stream()
    kept, columns = emerging.Kept.of(hdp._posterior)
    present = emerging.Topics.present(hdp._posterior, columns)
    is_after = kept.calls > 6
    with emerging.Executor(None) as executor:
        rng = np.random.default_rng(0)
        older = present.until(kept.counts, is_after, rng, executor)
    late = topic[columns][None]
    assert cosines(late, present.words.T).max() > 0.8
    assert cosines(late, older.words.T).max() < 0.6
    assert older.prior.sum() == pytest.approx(present.prior.sum())
    assert (older.words.sum(axis=0) <= 1.0 + 1e-9).all()


# -- documents kept -----------------------------------------------------------------


def test_documents_kept_know_their_calls():
    rng, reservoir, call_of = np.random.default_rng(3), Reservoir.empty(30, 0), {}
    for call in range(1, 31):
        X = sp.csr_array(rng.poisson(0.4, (100, 30)) * 1.0)
        for key in document_keys(X, 7).tolist():
            call_of.setdefault(key, call)
        reservoir, _ = reservoir.add(X, 6000, 7, call)
    assert 0 < len(reservoir.keys) < 2000  # some are no longer kept
    assert reservoir.calls.tolist() == [call_of[key] for key in reservoir.keys.tolist()]
    wrong = np.roll(reservoir.calls, 100)
    assert wrong.tolist() != [call_of[key] for key in reservoir.keys.tolist()]


def test_calls_are_numbered_as_n_iter():
    chunks, _ = nights(3, begin=9, n_docs=60)
    hdp = HDP(max_iter=14, random_state=0).fit(chunks[0])
    first = hdp.n_iter_ + 1
    hdp.partial_fit(chunks[1]).partial_fit(chunks[2])
    assert np.unique(hdp._kept_documents[1]).tolist() == [first, first + 1]
    assert hdp.n_iter_ == first + 1


# -- changes ------------------------------------------------------------------------


def test_a_topic_that_begins_is_listed_in_its_first_call():
    chunks, topic = nights(7, begin=6)
    (change,) = learned(chunks)._changes(6)
    assert (change.kind, change.begin) == ("new", 7)
    words = topic[change.columns][None]
    assert cosines(words, change.words[None])[0, 0] > 0.9
    assert change.p_value < 1e-6
    assert 12 <= change.n_documents <= 18  # of 15
    assert change.gain > 10 * 15  # more than ten nats for each
    assert change.n_kept == 100


def test_a_topic_that_ends_is_listed():
    chunks, topic = nights(9, begin=0, end=5)
    hdp = learned(chunks)
    (change,) = hdp._changes(4)
    assert (change.kind, change.begin) == ("faded", 6)
    words = hdp.topic_word_distr_[hdp.component_ids_ == change.topic]
    assert cosines(words, topic[None])[0, 0] > 0.8


def test_a_quiet_stream_has_no_changes():
    chunks, _ = nights(8, begin=9)
    assert learned(chunks)._changes(None) == []


def test_the_same_topic_is_one_change_whatever_its_id():
    """Words decide: trials may have given it another."""
    hdp, _ = stream()
    one, other = (hdp._changes(since)[0] for since in (5, 6))
    assert one.is_like(other)
    (quiet,) = learned(nights(9, begin=0, end=5)[0])._changes(4)
    assert not one.is_like(quiet)
