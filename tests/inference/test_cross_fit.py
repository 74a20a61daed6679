"""Numbers of topics of few documents, judged by all of them."""

import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import skbnp
from checks.corpora import topic_counts
from checks.lineages import check_lineage
from checks.long import daily
from skbnp import HDP
from skbnp.callbacks import Checkpoint
from skbnp.estimators import SplitMerge
from skbnp.estimators._cautions import warn_if_unsure
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inspection import summary
from skbnp.models.hdp.cross_fit import (
    FINE,
    NUMBERS,
    CrossFittedTrials,
    _is_sure,
    at_number,
    hold_out_each,
    number_below,
    result_of,
    share_of_unseen,
)
from skbnp.models.hdp.held_out import (
    Gain,
    has_few_judges,
    has_few_tokens,
    has_short_documents,
    hold_out,
)
from skbnp.models.hdp.held_out_trials import HeldOutTrials

pytestmark = pytest.mark.usefixtures("all_splits_in_module")


def titles(n_docs, n_topics, rng, length=6):
    """Short documents of words of which most are rare, as in titles."""
    ranks = 1.0 / np.arange(1, 1501)
    topics = np.array([rng.permutation(ranks) for _ in range(n_topics)])
    topics = topics**1.2 / (topics**1.2).sum(axis=1, keepdims=True)
    X = np.array([rng.multinomial(length, topics[j % n_topics]) for j in range(n_docs)])
    return sp.csr_array(X[:, X.sum(axis=0) > 0], dtype=float)


def permuted(X, rng):
    """Deal the words of all documents out anew."""
    X = sp.coo_array(X)
    n = X.data.astype(int)
    words = rng.permutation(np.repeat(X.coords[1], n))
    rows = np.repeat(X.coords[0], n)
    return sp.csr_array((np.ones(len(rows)), (rows, words)), shape=X.shape)


def unigram(X, rest):
    """Score of the best smoothed frequencies of words."""
    counts, held = X.sum(axis=0), rest.sum(axis=0)
    scores = [
        held @ np.log((counts + eta) / (counts + eta).sum()) / held.sum()
        for eta in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    ]
    return max(scores)


@pytest.mark.parametrize("n_docs", [30, 103])
def test_each_document_judges_once_what_is_learned_from_all_others(n_docs, seed):
    X = topic_counts(n_docs, 12)
    splits = hold_out_each(X, np.random.default_rng(seed))
    left = [np.setdiff1d(np.arange(n_docs), one.rows) for one in splits]
    assert np.sort(np.concatenate(left)).tolist() == list(range(n_docs))
    for one, judges in zip(splits, left, strict=True):
        assert (one.train.X != X[one.rows]).nnz == 0
        whole = one.whole(one.first_parts)
        assert whole.sum() <= X[judges].sum()


def test_words_that_are_not_learned_from_judge_where_new_words_have_columns(seed):
    X = titles(200, 3, np.random.default_rng(seed))
    wide = sp.csr_array((X.data, X.indices, X.indptr), (200, 9 * X.shape[1]))
    assert share_of_unseen(X) == 0.0
    assert share_of_unseen(wide) == 1.0
    for counts, expected in ((X, False), (wide, True)):
        (one, *_) = hold_out_each(counts, np.random.default_rng(seed))
        unseen = np.asarray(one.train.X.sum(axis=0)).ravel() == 0.0
        assert (one.held_out.sum(axis=0)[unseen] > 0.0).any() is np.bool_(expected)


def test_each_split_selects_its_columns_as_those_of_all_documents_were(seed):
    X = titles(200, 3, np.random.default_rng(seed))
    n_docs = np.bincount(X.indices, minlength=X.shape[1])
    for fewest in (1, 2, 3):
        selected = sp.csr_array(X[:, np.flatnonzero(n_docs >= fewest)])
        for one in hold_out_each(selected, np.random.default_rng(seed)):
            learned = np.bincount(one.train.X.indices, minlength=selected.shape[1])
            share = len(one.rows) / selected.shape[0]
            assert learned[learned > 0].min() >= fewest * share
            assert learned[one.held_out.indices].min() >= fewest * share


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_frequent_words_are_never_left_out(share, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 9, (200, 7)) * (rng.random((200, 7)) < share)
    X = sp.csr_array(X, dtype=float)
    for one in hold_out_each(X, rng):
        assert (one.train.X != X[one.rows]).nnz == 0


def test_few_tokens_and_enough():
    X = topic_counts(60, 12)
    assert has_few_tokens(X)
    assert not has_few_tokens(X * 1000.0)
    ones = sp.csr_array(np.ones((1000, 30)))
    assert has_few_tokens(ones[:, :9])
    assert not has_few_tokens(ones[:, :10])
    assert has_short_documents(ones[:, :10])
    assert not has_short_documents(ones[:, :20])  # too long
    assert not has_short_documents(sp.csr_array(np.ones((20000, 15))))  # too many
    assert has_few_judges(sp.csr_array(np.ones((399, 300))))
    assert has_few_judges(sp.csr_array(np.ones((3000, 26))))  # 78,000 tokens
    assert not has_few_judges(sp.csr_array(np.ones((400, 200))))
    assert len(hold_out_each(ones[:, :12], np.random.default_rng(0))) == 3
    assert len(hold_out_each(ones[:, :8], np.random.default_rng(0))) == 10
    assert hold_out_each(X[:19], np.random.default_rng(0)) == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("start", daily(1, [1, 300]))
def test_titles_are_predicted_better_than_by_words_alone(start):
    """By one split they are worse than these, and topics 1 to 130 by the seed."""
    rng = np.random.default_rng(0)
    X = titles(1300, 4, rng)
    few = X[:300]
    words = np.asarray(few.sum(axis=0)).ravel() > 0
    few, rest = few[:, words], X[300:][:, words]
    hdp = HDP(start, random_state=start).fit(few)
    assert hdp.n_components_ > 1
    assert hdp.score(rest) > unigram(few, rest) + 0.1
    low, high = hdp.n_components_range_
    assert low <= hdp.n_components_ <= high


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_titles_have_one_number_of_topics_whatever_the_seed():
    X = titles(120, 4, np.random.default_rng(2))
    fits = [HDP(random_state=seed).fit(X) for seed in range(3)]
    assert fits[0].n_components_ > 1
    assert len({fit.n_components_ for fit in fits}) == 1
    assert len({fit.n_components_range_ for fit in fits}) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_thirty_lines_are_predicted_as_by_words_alone():
    X = titles(600, 4, np.random.default_rng(1))
    words = np.asarray(X[:30].sum(axis=0)).ravel() > 0
    few, rest = X[:30][:, words], X[30:][:, words]
    hdp = HDP(random_state=0).fit(few)
    assert hdp.score(rest) > unigram(few, rest) - 0.03


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_docs", daily(1, [200, 2_500]))
def test_one_topic_where_words_are_permuted_is_a_result(n_docs):
    """Few tokens, and so many that one split judges."""
    rng = np.random.default_rng(0)
    X = permuted(titles(n_docs, 4, rng), rng)
    hdp = HDP(10, random_state=0).fit(X)
    assert hdp.n_components_ == 1
    assert "words alone predict held-out documents as well" in summary(hdp)
    assert "words alone" not in summary(HDP(1, split_merge=False).fit(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("start", daily(1, [20, 1]))
def test_the_log_leads_to_the_topics(start, seed):
    X = topic_counts(60, 24, n_topics=4, seed=seed)
    hdp = HDP(start, random_state=seed).fit(X)
    assert hdp._posterior.is_cross_fitted
    check_lineage(hdp)


def test_numbers_that_predict_equally_well_warn_where_they_differ():
    with pytest.warns(ConvergenceWarning, match="3 to 80 .*split_merge=False"):
        warn_if_unsure(5, (3, 80), 300)
    with pytest.warns(ConvergenceWarning, match="one topic is left.*split_merge=False"):
        warn_if_unsure(1, (1, 1), 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for numbers, n_docs in (((9, 12), 300), (None, 300), ((3, 80), 60)):
            warn_if_unsure(5, numbers, n_docs)


def test_a_model_without_trials_has_no_range(counts):
    hdp = HDP(3, split_merge=False).fit(counts)
    assert hdp.n_components_range_ is None
    assert "as good" not in summary(hdp)


def test_numbers_within_a_standard_error_of_the_best_are_equivalent():
    """By the documents that judge reductions, net of the penalty, in any order."""
    rng, n_tokens = np.random.default_rng(0), np.full(400, 10.0)
    base, noise = rng.normal(size=400), rng.normal(size=(4, 400))
    losses = np.array([0.0, 0.5, 2.0, 0.5])  # standard errors, of half of the documents
    noise -= noise[:, 1::2].mean(axis=1, keepdims=True)
    noise /= noise[:, 1::2].std(axis=1, ddof=1, keepdims=True)
    logs = base + noise - losses[:, None] / np.sqrt(200)
    logs[0] = base
    trials = object.__new__(HeldOutTrials)
    penalty = 0.001
    path = dict(zip((8, 5, 12, 20), logs, strict=True))
    path = {n: log + penalty * n * n_tokens for n, log in path.items()}
    vars(trials).update(path=path, n_tokens=n_tokens, min_gain=0.1)
    vars(trials).update(gains=[(8, 10 * penalty)])
    assert sorted(trials._equivalent_numbers()) == [5, 8, 20]


@pytest.mark.parametrize("wanted", [1, 2, 9, 10, 12, 40, 128])
def test_numbers_below_the_chosen_one_are_halved(wanted):
    """Down to a third more than the fewest that suffice; each number once."""
    tried, number = list(NUMBERS), max(NUMBERS)
    while number is not None:
        chosen = min(number for number in tried if number >= wanted)
        number = number_below(chosen, tried)
        assert number not in tried
        tried += [] if number is None else [number]
    assert wanted <= chosen <= max(FINE * wanted, wanted + 1)
    assert len(tried) <= len(NUMBERS) + 2
    assert max(np.array(NUMBERS[1:]) / NUMBERS[:-1]) > FINE  # without halving


@pytest.mark.parametrize("moves", [True, SplitMerge(births=False)])
def test_the_largest_number_that_is_allowed_is_compared(moves):
    """Numbers between powers of two; without a limit there are more."""
    X = topic_counts(120, 40, n_topics=6, seed=0)
    limit = {"max_components": 6} if moves is True else {}
    fits = [
        HDP(start, split_merge=some, random_state=0, **more).fit(X)
        for start, some, more in ((6, moves, limit), (6, True, {}))
    ]
    numbers = [{n for n, _ in fit._posterior.gains} for fit in fits]
    assert max(numbers[0]) == 6
    assert max(numbers[1]) == 32
    assert fits[0].n_components_ > 4


@pytest.mark.parametrize("family", ["collapsed", "mean_field"])
def test_few_documents_are_saved_and_resumed(family, tmp_path):
    """Several topics that surely gain over one: the gain is in the file."""
    X = topic_counts(60, 40, n_topics=4, seed=0)
    hdp = HDP(variational_family=family, random_state=0)
    kept = tmp_path / "kept.skbnp"
    hdp.set_callbacks(Checkpoint(kept)).fit(X)
    assert hdp.n_components_ > 1
    assert hdp._posterior.held_out_gain is not None
    skbnp.save(hdp, tmp_path / "fit.skbnp")
    for path in (kept, tmp_path / "fit.skbnp"):
        loaded = skbnp.load(path)
        assert_array_equal(loaded.components_, hdp.components_)
        assert loaded._posterior.held_out_gain == hdp._posterior.held_out_gain


def test_few_short_documents_learn_burstiness_from_all_splits(seed):
    """Ten documents of a split are too few; without repeats there is none."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(200, 0.5))
    p = rng.dirichlet(8.0 * words, 100)
    bursty, plain = (
        np.array([rng.multinomial(20, row) for row in rows], dtype=float)
        for rows in (p, np.tile(words, (100, 1)))
    )
    fits = [HDP(random_state=0).fit(sp.csr_array(X)) for X in (bursty, plain)]
    assert fits[0]._posterior.state.by_tables
    assert 2.0 < fits[0].word_concentration_ < 40.0
    assert fits[1].word_concentration_ > 100.0
    test = np.array(
        [rng.multinomial(20, row) for row in rng.dirichlet(8.0 * words, 99)]
    )
    assert fits[0].score(test) > fits[1].score(test) + 0.1


def test_one_topic_is_judged_under_its_own_prior(seed):
    """That of many topics leaves too much, or too little, to words that none has."""
    rng = np.random.default_rng(seed)
    X = titles(300, 3, rng)
    held = hold_out(X, rng)
    model = HDP(8, topic_word_prior=2.0, random_state=0)
    posterior = model._start(model._make_model(), X, 0, 300)
    executor = Executor(1)
    kept, eta = held.log_probability_of_words(None, posterior, executor)
    assert eta == 2.0
    best, own = held.log_probability_of_words(
        None, posterior, executor, learns_prior=True
    )
    assert own != 2.0
    assert best.sum() > kept.sum()


@pytest.mark.parametrize("n_shared", [1, 2])
def test_documents_without_words_for_others_do_not_judge(n_shared):
    """Each word is of one document, or of two: no split can predict any."""
    X = np.kron(np.eye(40 // n_shared), np.ones((n_shared, 4)))
    assert hold_out_each(sp.csr_array(X), np.random.default_rng(0)) == []
    assert HDP(random_state=0, max_iter=20).fit(X).n_components_ >= 1


@pytest.mark.parametrize(
    ("mean", "n_docs", "is_sure"),
    [(0.09, 300, True), (0.09, 30, False), (0.11, 30, True), (0.04, 300, False)],
)
def test_few_documents_need_a_gain_of_two_errors(mean, n_docs, is_sure):
    """Of many, .03 nats and one standard error suffice."""
    assert _is_sure(Gain(mean, 0.05), n_docs) == is_sure


@pytest.mark.parametrize("length", [20.0, 300.0])
def test_splits_that_run_side_by_side_have_the_bits_of_one_after_another(length):
    """Of few tokens fixed numbers are compared, of more the trials of splits."""
    X = topic_counts(60, 40, n_topics=4, length=length)
    assert has_few_judges(X)
    assert has_few_tokens(X) == (length == 20.0)
    threads = set()
    one, two = HDP(12, random_state=0, n_jobs=1), HDP(12, random_state=0, n_jobs=2)
    one.fit(X)
    with pytest.MonkeyPatch.context() as patch:
        one_pass = Learner.one_pass

        def noted(learner, monitor):
            threads.add(threading.get_ident())
            return one_pass(learner, monitor)

        patch.setattr(Learner, "one_pass", noted)
        two.fit(X)
    assert len(threads) == 2
    assert_array_equal(one.components_, two.components_)
    assert one.n_components_range_ == two.n_components_range_


@pytest.mark.long
def test_trials_of_all_splits_choose_where_few_documents_have_many_tokens(monkeypatch):
    """By a formula of its own over the recorded paths; the seed does not count."""
    begun, chosen = [], []
    begin, choose = CrossFittedTrials._begin, CrossFittedTrials._choose_trials

    def note_begun(*args):
        begun.append(begin(*args))
        return begun[-1]

    def note_chosen(*args):
        result = choose(*args)
        numbers = [result_of(one).state.n_components for one in begun[-1]]
        chosen.append((numbers, begun[-1].index(result)))
        return result

    monkeypatch.setattr(CrossFittedTrials, "_begin", note_begun)
    monkeypatch.setattr(CrossFittedTrials, "_choose_trials", note_chosen)
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), 8)
    weights = 1.0 / np.arange(1.0, 9.0)
    shares = rng.dirichlet(weights / weights.sum(), 120)
    X = sp.csr_array(rng.multinomial(100, shares @ topics).astype(float))
    assert has_few_judges(X)
    assert not has_few_tokens(X)
    fits = [HDP(40, random_state=seed).fit(X) for seed in (0, 1)]
    assert len({(hdp.n_components_, hdp.n_components_range_) for hdp in fits}) == 1
    (trials, _), (numbers, place), n_judged = begun, chosen[0], 0
    assert len(trials) == 3
    penalty = 0.005 * np.mean([max(gain for _, gain in one.gains) for one in trials])
    nets = dict.fromkeys(numbers, 0.0)
    for one in trials:
        n_judged += len(one.n_tokens)
        sizes = np.array(sorted(one.path))
        logs = np.array([one.path[size][1::2] for size in sizes])
        for number in nets:
            for doc, n_tokens in zip(logs.T, one.n_tokens[1::2], strict=True):
                value = np.interp(np.log(number), np.log(sizes), doc)
                nets[number] += value - penalty * number * n_tokens
    assert n_judged == 120
    assert numbers[place] == max(nets, key=nets.get) != numbers[0]
    low, high = fits[0].n_components_range_
    assert low <= fits[0].n_components_ <= high
    assert not HDP(40, min_gain=0, random_state=0).fit(X)._posterior.is_cross_fitted


def test_log_probabilities_between_two_numbers_of_topics():
    path = {8: np.array([2.0, 0.0]), 2: np.array([0.0, 1.0])}
    for number, expected in (
        *((1, [0.0, 1.0]), (2, [0.0, 1.0]), (4, [1.0, 0.5])),
        *((8, [2.0, 0.0]), (9, [2.0, 0.0])),
    ):
        np.testing.assert_allclose(at_number(path, number), expected, rtol=1e-12)
