"""Groups of topics: what is read of models and arrays, and what is shown."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster.hierarchy import dendrogram, fcluster
from sklearn.base import clone
from sklearn.decomposition import NMF, PCA, LatentDirichletAllocation
from sklearn.metrics import adjusted_rand_score

from checks.long import daily
from skbnp import HDP, GibbsHDP, StickBreakingHDP
from skbnp.inspection import TopicGroupsDisplay, summary, topic_groups

N_GROUPS, N_EACH, N_WORDS = 5, 4, 10


class Corpus:
    """Documents about one or two of five subjects, each with four topics of its own."""

    def __init__(self, seed, n_docs=400, length=120, *, is_grouped=True):
        rng, n = np.random.default_rng(seed), N_GROUPS * N_EACH
        self.labels = np.repeat(np.arange(N_GROUPS), N_EACH)
        self.topics = np.kron(np.eye(n), rng.dirichlet(np.ones(N_WORDS)))
        if is_grouped:
            groups = rng.dirichlet(np.full(N_GROUPS, 0.1), size=n_docs)
            parts = rng.dirichlet(np.full(N_EACH, 0.5), size=(n_docs, N_GROUPS))
            shares = (groups[:, :, None] * parts).reshape(n_docs, n)
        else:
            shares = rng.dirichlet(np.full(n, 0.1), size=n_docs)
        self.doc_topic = np.array([rng.multinomial(length, row) for row in shares])
        self.X = np.array([self._words(rng, row) for row in self.doc_topic])
        self.names = [f"t{k}w{j}" for k in range(n) for j in range(N_WORDS)]

    def _words(self, rng, tokens):
        pairs = zip(tokens, self.topics, strict=True)
        return sum(rng.multinomial(n, topic) for n, topic in pairs)


@pytest.fixture(scope="module")
def corpus():
    return Corpus(0)


@pytest.fixture(scope="module")
def hdp(corpus):
    return HDP(20, split_merge=False, random_state=0).fit(corpus.X)


def subject_of(components):
    """Subject of each topic: that of most of its tokens."""
    by_topic = components.reshape(len(components), -1, N_WORDS * N_EACH).sum(axis=2)
    return by_topic.argmax(axis=1)


@pytest.mark.parametrize(
    "estimator",
    daily(
        1,
        [
            HDP(30, random_state=0),
            StickBreakingHDP(30, max_iter=30, random_state=0),
            GibbsHDP(max_iter=30, random_state=0),
            LatentDirichletAllocation(20, random_state=0),
            NMF(20, random_state=0, max_iter=500),
        ],
    ),
    ids=lambda estimator: type(estimator).__name__,
)
def test_planted_groups_are_found_in_a_fit(estimator, corpus):
    fitted = clone(estimator).fit(corpus.X)
    groups = topic_groups(fitted, corpus.X)
    heavy = groups.topic_weights > 0.02  # lighter ones may mix subjects
    labels, subjects = groups.labels[heavy], subject_of(fitted.components_)[heavy]
    assert adjusted_rand_score(labels, subjects) >= 0.8
    assert not groups.message.startswith("The")


def test_topics_that_share_words_are_grouped_without_documents():
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.full(60, 0.1), size=3)
    labels = np.repeat(np.arange(3), 4)
    topics = np.array([rng.dirichlet(20.0 * base[g] + 1e-3) for g in labels])
    groups = topic_groups(5000.0 * topics)
    assert adjusted_rand_score(groups.labels, labels) == 1.0


def test_independent_topics_are_in_one_group_and_a_sentence_says_so():
    corpus = Corpus(1, is_grouped=False)
    groups = topic_groups(corpus.topics, doc_topic=corpus.doc_topic)
    assert groups.n_groups == 1
    assert groups.gain == 0.0
    assert "no evidence for any groups" in groups.message
    assert " ".join(str(groups).split()).startswith(groups.message)


@pytest.mark.parametrize("n_groups", [1, 5, 20])
def test_there_are_as_many_groups_as_asked(corpus, n_groups):
    groups = topic_groups(corpus.topics, None, n_groups, doc_topic=corpus.doc_topic)
    assert groups.n_groups == n_groups == len(np.unique(groups.labels))
    assert len(groups.components) == len(groups.terms) == n_groups


def test_groups_are_ordered_by_weight_and_add_up(hdp, corpus):
    groups = topic_groups(hdp, corpus.X)
    assert (np.diff(groups.weights) <= 0.0).all()
    tokens = corpus.X.sum(axis=1)
    weights = tokens @ hdp.transform(corpus.X) / tokens.sum()
    assert_allclose(groups.topic_weights, weights, atol=0.01)
    assert_allclose(groups.topic_weights.sum(), 1.0)
    weights = groups.topic_weights
    for g in range(groups.n_groups):
        rows = groups.members(g)
        assert_allclose(groups.weights[g], weights[rows].sum())
        mean = weights[rows] @ hdp.topic_word_distr_[rows]
        assert_allclose(groups.components[g], mean / mean.sum(), atol=1e-12)


def test_linkage_is_that_of_scipy(hdp, corpus):
    groups = topic_groups(hdp, corpus.X)
    assert len(dendrogram(groups.linkage, no_plot=True)["leaves"]) == 20
    n_unused = int((groups.labels < 0).sum())
    leaves = fcluster(groups.linkage, groups.n_groups + n_unused, "maxclust")
    used = groups.labels >= 0
    assert adjusted_rand_score(leaves[used], groups.labels[used]) == 1.0
    assert len(groups.gains) == len(groups.linkage)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give X or doc_topic"),
        ({"doc_topic": np.ones((3, 4))}, "a column for each of 20 topics, got 4"),
        ({"doc_topic": np.zeros((3, 20))}, "must have tokens"),
        ({"doc_topic": np.full((3, 20), 0.05)}, "rows sum to 1"),
        ({"doc_topic": np.ones((3, 20)), "n_groups": 21}, "at most 20"),
        ({"X": np.ones((3, 7))}, "a column for each of 200 terms"),
        ({"X": np.ones((2, 200)), "doc_topic": np.ones((3, 20))}, "equally many rows"),
        ({"doc_topic": np.ones((3, 20)), "feature_names": ["a"]}, "200 names"),
    ],
)
def test_wrong_input_is_refused_by_name(corpus, arguments, message):
    with pytest.raises(ValueError, match=message):
        topic_groups(corpus.topics, **arguments)


def test_components_with_signs_are_refused():
    X = np.random.default_rng(0).normal(size=(20, 5))
    with pytest.raises(TypeError, match="must not be negative"):
        topic_groups(PCA(2).fit(X), X)


@pytest.mark.parametrize("n_lines", [4, 7, 12, 20, 100])
def test_outline_has_so_many_lines_and_leaves_out_the_lightest(hdp, corpus, n_lines):
    groups = topic_groups(hdp, corpus.X, feature_names=corpus.names)
    lines = groups.to_text(n_lines).splitlines()
    assert len(lines) <= n_lines + (groups.message != "")
    assert max(map(len, lines)) <= 80
    heads = [line for line in lines if line[0] != " " and "%" in line]
    top = [float(line.split(" %")[0].split()[-1]) for line in heads]
    weights = groups.topic_weights[groups.labels >= 0]
    assert_allclose(sum(top), 100.0 * weights.sum(), atol=0.5)


def test_summary_prints_topics_below_their_groups(hdp, corpus):
    text = summary(hdp, corpus.names, X=corpus.X)
    groups = topic_groups(hdp, corpus.X, feature_names=corpus.names)
    for g in range(3):
        (weight,) = re.findall(rf"\ngroup {g}, (\d+\.\d) %: ", text)
        assert abs(float(weight) - 100 * groups.weights[g]) < 1.0
    assert "group 0" not in summary(hdp, corpus.names)


@pytest.mark.parametrize("made", [True, False])
def test_figure_shows_the_outline(hdp, corpus, made):
    import matplotlib.pyplot as plt

    ax = None if made else plt.figure(figsize=(5, 3)).add_subplot()
    display = TopicGroupsDisplay.from_estimator(hdp, corpus.names, X=corpus.X, ax=ax)
    display.figure_.draw_without_rendering()
    texts = [text.get_text() for text in display.texts_]
    outline = topic_groups(hdp, corpus.X, feature_names=corpus.names).to_text()
    assert len(texts) == len(outline.splitlines()) <= 21
    heads = {text.split(",")[0] for text in texts if text.startswith("group")}
    assert {f"group {g}" for g in range(3)} <= heads
    frame = display.ax_.get_window_extent()
    for text in display.texts_:
        box = text.get_window_extent()
        assert box.x1 <= frame.x1 + 1.0
        assert frame.y0 - 1.0 <= box.y0
        assert box.y1 <= frame.y1 + 1.0


def test_levels_are_nested_and_printed_with_their_themes():
    rng = np.random.default_rng(0)
    pair, theme = np.arange(12) // 3, np.arange(12) // 6
    of = rng.integers(0, 4, 600)
    alpha = np.where(theme == of[:, None] // 2, 0.15, 0.005)
    alpha[pair == of[:, None]] = 1.0
    shares = np.array([rng.dirichlet(row) for row in alpha])
    topics, counts = rng.dirichlet(np.full(60, 0.1), 12), rng.poisson(60 * shares)
    groups = topic_groups(topics, doc_topic=counts, n_groups=[4, 2])
    assert groups.n_groups == 4
    assert groups.above.n_groups == 2
    assert groups.above.above is None
    for level, truth in ((groups, pair), (groups.above, theme)):
        pairs = set(zip(level.labels.tolist(), truth.tolist(), strict=True))
        assert len(pairs) == level.n_groups
        sums = np.bincount(level.labels, level.topic_weights)
        assert_allclose(level.weights, sums)
    assert groups.above.gain < groups.gain
    lines = str(groups).splitlines()
    themes = [i for i, line in enumerate(lines) if line.startswith("theme")]
    assert [lines[i].split(" %")[0] for i in themes] == [
        f"theme {g} of 2, {100 * weight:.1f}"
        for g, weight in enumerate(groups.above.weights)
    ]
    for begin, end, g in ((themes[0], themes[1], 0), (themes[1], len(lines), 1)):
        below = [line for line in lines[begin:end] if line.startswith("group")]
        numbers = {int(line.split()[1].rstrip(",")) for line in below}
        assert numbers == set(groups.labels[groups.above.labels == g].tolist())
    lone = topic_groups(topics, doc_topic=counts, n_groups=[2, 12])
    below = [line.split() for line in lone.to_text(40).splitlines()[-12:]]
    for number, _, _, noun, of, *_ in below:
        assert (noun, of) == ("theme", f"{lone.above.labels[int(number)]}:")
    alone = topic_groups(topics, doc_topic=counts, n_groups=4)
    assert_array_equal(alone.labels, groups.labels)
    assert alone.above is None
    for bad in ([2, 13], [0, 2], [2.5]):
        with pytest.raises(ValueError, match="n_groups must be at most 12"):
            topic_groups(topics, doc_topic=counts, n_groups=bad)
