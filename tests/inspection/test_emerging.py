"""Topics that begin in a stream are named soon, and quiet streams have none."""

import numpy as np
import pandas as pd
import pytest

from skbnp import HDP, StickBreakingHDP
from skbnp.inspection import emerging_topics

N_TOPICS, SHARE, START = 6, 0.15, 20


def chunks(seed, n_chunks, planted, n_docs=100):
    """Chunks of documents; a further topic has a share from chunk 20 on, if planted."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(100, 0.1), N_TOPICS + 1)
    usual = np.append(rng.dirichlet(np.full(N_TOPICS, 5.0)), 0.0)
    for place in range(n_chunks):
        weights = usual.copy()
        if planted and place >= START:
            weights = np.append((1.0 - SHARE) * usual[:-1], SHARE)
        theta = [rng.dirichlet(np.maximum(2 * weights, 1e-9)) for _ in range(n_docs)]
        lengths = 1 + rng.poisson(50, n_docs)
        pairs = zip(theta, lengths, strict=True)
        yield np.array([rng.multinomial(n, t @ topics) for t, n in pairs]), topics[-1]


def alarms(seed, n_chunks, planted):
    """Chunk after which the planted topic was named first, and all else that was."""
    hdp, rows, first, others = HDP(random_state=seed), [], None, set()
    for place, (X, topic) in enumerate(chunks(seed, n_chunks, planted)):
        hdp.partial_fit(X)
        rows.append(X)
        if place < (START if planted else 1):
            continue
        epochs = np.repeat(np.arange(place + 1), [len(part) for part in rows])
        frame = emerging_topics(hdp, np.vstack(rows), epochs)
        ids = hdp.component_ids_.tolist()
        for name, epoch in zip(frame["topic"], frame["epoch"], strict=True):
            distr = hdp.topic_word_distr_[ids.index(name)]
            cosine = distr @ topic / np.linalg.norm(distr) / np.linalg.norm(topic)
            if planted and epoch >= START and cosine > 0.8:
                first = place if first is None else first
            else:
                others.add((name, epoch))
    return first, others


@pytest.mark.long
def test_a_planted_topic_is_named_within_three_chunks():
    """In two of three streams, where 9 of 10 are expected."""
    first = [alarms(seed, START + 3, planted=True)[0] for seed in range(3)]
    assert sum(place is not None for place in first) >= 2


def test_a_stream_names_its_births_without_rows():
    """And by the frame of one night, which lacks columns, others in another order."""
    hdp, words = HDP(random_state=0), [f"w{word}" for word in range(100)]
    nights = list(chunks(0, START + 5, planted=True))
    late = nights[0][1]
    for X, _ in nights:
        frame = pd.DataFrame(X, columns=words)
        hdp.partial_fit(frame)
    born = emerging_topics(hdp, n_terms=3)
    assert born["topic"].tolist() == hdp.emerged_component_ids_.tolist()
    assert born["documents"].tolist() == [[]] * len(born)
    place = [hdp.component_ids_.tolist().index(name) for name in born["topic"]]
    distr = hdp.topic_word_distr_[place]
    similar = distr @ late / np.linalg.norm(distr, axis=1) / np.linalg.norm(late)
    best = born.iloc[similar.argmax()]
    assert similar.max() > 0.8
    assert START <= best["epoch"] <= hdp.history_["step"][-1]
    assert best["share"] == hdp.topic_weights_[place[similar.argmax()]]
    assert len(best["terms"]) == 3
    night = frame[words[:0:-1]]
    assert emerging_topics(hdp, night, np.zeros(len(night))).empty
    with pytest.raises(TypeError, match="pass rows X"):
        emerging_topics(StickBreakingHDP(5, max_iter=2).fit(X))


@pytest.mark.long
def test_a_quiet_stream_has_no_alarm():
    assert len(alarms(0, 30, planted=False)[1]) <= 1


@pytest.mark.weekly
def test_most_planted_topics_are_named_within_three_chunks():
    """Of ten, 9 are expected: 7 are two standard errors below."""
    first = [alarms(seed, START + 3, planted=True)[0] for seed in range(3, 13)]
    assert sum(place is not None for place in first) >= 7


@pytest.mark.weekly
@pytest.mark.parametrize("seed", [1, 2])
def test_quiet_streams_have_one_alarm_at_most(seed):
    assert len(alarms(seed, 50, planted=False)[1]) <= 1
