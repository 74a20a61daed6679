"""Topics that begin in a stream are named soon, and quiet streams have none."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import skbnp
from skbnp import HDP, StickBreakingHDP
from skbnp.callbacks import AlertMonitor
from skbnp.inspection import emerging_topics, set_topic_names

N_TOPICS, SHARE, START = 6, 0.15, 20


def chunks(seed, n_chunks, planted, n_docs=100, topics_of=None):
    """Chunks of documents; a further topic has a share from chunk 20 on, if planted.

    `topics_of` is the seed of which other chunks have the same topics.
    """
    rng = np.random.default_rng(seed if topics_of is None else topics_of)
    topics = rng.dirichlet(np.full(100, 0.1), N_TOPICS + 1)
    usual = np.append(rng.dirichlet(np.full(N_TOPICS, 5.0)), 0.0)
    if topics_of is not None:
        rng = np.random.default_rng(seed)
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


@lru_cache(maxsize=1)
def late_stream():
    """A stream of data frames, its last topic from call 7 on, and that topic."""
    hdp, words = HDP(random_state=0), [f"w{word}" for word in range(100)]
    nights = [X for X, _ in chunks(0, 6, planted=False)]
    topics = [*chunks(0, START + 2, planted=True)][START:]
    for X in (*nights, *(X for X, _ in topics)):
        hdp.partial_fit(pd.DataFrame(X, columns=words))
    return hdp, topics[0][1]


def test_a_stream_lists_its_new_topics_without_rows():
    """And none by the frame of one night, which lacks columns, others in disorder."""
    hdp, late = late_stream()
    frame = emerging_topics(hdp, n_terms=3, since=6)
    new = frame.iloc[0]
    assert frame["kind"].tolist() == ["new"]
    assert new["epoch"] == 7
    best = {f"w{word}" for word in np.argsort(-late)[:12]}
    assert len(new["terms"]) == 3
    assert set(new["terms"]) <= best
    assert new["nearest"] != new["topic"]
    assert new["cosine"] < 0.8
    assert new["gain"] > 10 * new["error"] ** 0.5 > 0.0
    assert new["p_value"] <= 0.01
    assert new["documents"] == []
    shown = (
        "new since call 7",
        "nats",
        new["terms"][0],
        f"({new['cosine']:.2f})",
    )
    assert all(text in new["line"] for text in shown)
    assert "\n" not in new["line"]
    assert emerging_topics(hdp, since=6, min_samples=1000).empty
    night = pd.DataFrame(np.ones((2, 99)), columns=hdp.feature_names_in_[:0:-1])
    assert emerging_topics(hdp, night, np.zeros(len(night))).empty


def test_alerts_survive_a_file(tmp_path):
    hdp, _ = late_stream()
    skbnp.save(hdp, tmp_path / "stream.skbnp")
    frame = emerging_topics(skbnp.load(tmp_path / "stream.skbnp"), since=6)
    pd.testing.assert_frame_equal(frame, emerging_topics(hdp, since=6))


def test_alerts_use_names_of_columns_and_of_topics():
    """Of a topic that ends after the fourth night."""
    hdp = HDP(random_state=0)
    for X in [X for X, _ in chunks(0, START + 4, planted=True)][START:]:
        hdp.partial_fit(X)
    for X, _ in chunks(1, 3, planted=False, topics_of=0):
        hdp.partial_fit(X)
    faded = emerging_topics(hdp, since=4).iloc[0]
    assert (faded["kind"], faded["epoch"]) == ("faded", 5)
    assert faded["line"].startswith(f"faded since call 5: topic {faded['topic']}, ")
    assert faded["nearest"] == -1
    assert np.isnan([faded["gain"], faded["error"], faded["cosine"]]).all()
    set_topic_names(hdp, {faded["topic"]: "floods"})
    names = [f"name {word}" for word in range(100)]
    frame = emerging_topics(hdp, feature_names=names, since=4)
    assert frame["line"][0].startswith("faded since call 5: floods, ")
    assert all(term.startswith("name ") for term in frame["terms"][0])


def test_since_is_a_call_that_has_documents_before_and_after():
    hdp, _ = late_stream()
    for since in (8, 9):
        with pytest.raises(ValueError, match=r"since must be a call from 1, .* to 7"):
            emerging_topics(hdp, since=since)
    with pytest.raises(ValueError, match="since"):
        emerging_topics(hdp, since=0)
    first = HDP(random_state=0).partial_fit(next(chunks(0, 1, planted=False))[0])
    assert emerging_topics(first).empty


def test_streams_without_documents_need_rows():
    X = next(chunks(0, 1, planted=False))[0]
    for model in (
        StickBreakingHDP(5, max_iter=2).fit(X),
        HDP(5, split_merge=False, random_state=0).partial_fit(X),
    ):
        with pytest.raises(TypeError, match="pass rows X"):
            emerging_topics(model)


def test_a_monitor_records_each_alert_once():
    lines = list[str]()
    monitor = AlertMonitor(n_calls=3, report=lines.append, n_terms=3)
    hdp = HDP(random_state=0).set_callbacks(monitor)
    nights = [X for X, _ in chunks(0, 6, planted=False)]
    late = [X for X, _ in chunks(0, START + 2, planted=True)][START:]
    for X in (*nights, *late):
        hdp.partial_fit(X)
    history = monitor.history_
    assert history["kind"] == ["new"]
    assert history["begin"] == history["call"] == [7]
    assert history["line"] == lines
    assert lines[0].endswith(", ".join(f"column {j}" for j in history["terms"][0]))
    before = {name: list(values) for name, values in history.items()}
    hdp.partial_fit(late[0])  # copies of documents raise no alert
    assert monitor.history_ == before
    hdp.fit(nights[0])
    assert monitor.history_["line"] == []
    with pytest.raises(TypeError, match="AlertMonitor must be set on an HDP"):
        StickBreakingHDP(5).set_callbacks(AlertMonitor()).fit(late[0])


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
