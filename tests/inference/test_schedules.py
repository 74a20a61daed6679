"""Laws of the schedules: order of rows, step sizes, scales."""

from dataclasses import replace

import numpy as np
import pytest

from checks.estimators import each_family
from checks.long import along_diagonal
from skbnp import HDP
from skbnp.datasets import make_bars
from skbnp.inference.protocols import BatchSchedule, OnlineSchedule

ONLINE = OnlineSchedule(
    n_rows=23, batch_size=5, offset=3.0, decay=0.7, seed_entropy=11, total_samples=23
)
STREAM = replace(ONLINE, seed_entropy=None, total_samples=None)


def rounds(schedule, *passes):
    return [round for number in passes for round in schedule.one_pass(number)]


def rows_of(schedule, number):
    return np.concatenate([round.rows for round in schedule.one_pass(number)])


# Step sizes ---------------------------------------------------------------------------


def check_step_sizes(schedule, n_passes, first_step=0):
    """Step rho_t = (tau + t)^-kappa, scale D / |S|."""
    for number, round in enumerate(rounds(schedule, *range(n_passes))):
        t = first_step + number + 1
        rho = (schedule.offset + t) ** -schedule.decay
        assert round.step == pytest.approx(rho, rel=1e-14)
        assert round.scale == schedule.total_samples / len(round.rows)


@pytest.mark.parametrize(("offset", "decay"), [(0.0, 0.5), (1.0, 0.6), (64.0, 1.0)])
def test_step_sizes_start_at_one_and_run_on_over_passes(offset, decay):
    check_step_sizes(replace(ONLINE, offset=offset, decay=decay), n_passes=3)


def final_weights(schedule, n_passes):
    """What each minibatch counts for in the end."""
    steps = np.array([round.step for round in rounds(schedule, *range(n_passes))])
    kept = np.append(np.cumprod(1.0 - steps[:0:-1])[::-1], 1.0)
    return steps * kept


@pytest.mark.parametrize("first_step", [0, 7])
def test_minibatches_count_alike_when_nothing_is_forgotten(first_step):
    schedule = replace(ONLINE, first_step=first_step, n_forgetting=2)
    n_before = 2 * schedule.n_batches
    before = rounds(replace(schedule, n_forgetting=np.inf), 0, 1)
    assert [r.step for r in rounds(schedule, 0, 1)] == [r.step for r in before]
    weights = final_weights(schedule, 5)[n_before:]
    np.testing.assert_allclose(weights, weights[0], rtol=1e-12)
    forgetting = final_weights(replace(schedule, n_forgetting=np.inf), 5)[n_before:]
    assert forgetting[0] < 0.7 * forgetting[-1]


@pytest.mark.parametrize("decay", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("batch_size", [1, 10, 400])
def test_a_share_of_a_pass_is_remembered(batch_size, decay):
    """Where steps as from a start would leave less of it."""
    share, n_passes = 1.0 / 3.0, 2
    plain = OnlineSchedule(
        400, batch_size, 1.0, decay, seed_entropy=0, n_forgetting=n_passes
    )
    schedule = plain.remembering(share)
    n_before = n_passes * plain.n_batches
    last = rounds(schedule, *range(n_passes))[-1].step
    would = rounds(plain, *range(n_passes))[-1].step
    largest = 1.0 / (share * plain.n_batches)
    if would <= largest:
        assert schedule == plain
    else:  # and no more than needed
        assert last <= largest < schedule.step_size(n_before + schedule.first_step - 1)


# Order --------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [ONLINE, STREAM], ids=["fit", "stream"])
@pytest.mark.parametrize("batch_size", [1, 5, 22, 23, 24, 1000])
def test_every_row_is_visited_once_in_a_pass(schedule, batch_size):
    rows = rows_of(replace(schedule, batch_size=batch_size), 1)
    np.testing.assert_array_equal(np.sort(rows), np.arange(23))


@pytest.mark.parametrize("batch_size", [1, 5, 11, 22, 23, 1000])
def test_minibatches_are_few_and_of_equal_size(batch_size):
    sizes = [
        len(round.rows) for round in rounds(replace(ONLINE, batch_size=batch_size), 0)
    ]
    assert len(sizes) == -(-23 // batch_size)
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size


def test_batches_are_joint_in_the_first_passes():
    schedule = BatchSchedule.of_rows(23, 5, scale=2.0, n_joint=2)
    for number, n_rounds in enumerate([1, 1, 5, 5]):
        result = rounds(schedule, number)
        assert len(result) == n_rounds
        np.testing.assert_array_equal(rows_of(schedule, number), np.arange(23))
        assert {(round.step, round.scale) for round in result} == {(1.0, 2.0)}
        sizes = [len(part.rows) for round in result for part in round.parts]
        assert sorted(sizes) == [4, 4, 5, 5, 5]


def test_order_is_new_in_every_pass():
    orders = {tuple(rows_of(ONLINE, number)) for number in range(5)}
    assert len(orders) == 5


def test_order_depends_on_entropy_and_pass_alone():
    np.testing.assert_array_equal(
        rows_of(ONLINE, 2), rows_of(replace(ONLINE, batch_size=7, first_step=9), 2)
    )
    assert (rows_of(ONLINE, 2) != rows_of(replace(ONLINE, seed_entropy=12), 2)).any()


# The form of a stream -----------------------------------------------------------------


def scales(schedule):
    return [round.scale * len(round.rows) for round in rounds(schedule, 0)]


def test_stream_of_unknown_length_counts_the_documents_seen_so_far():
    np.testing.assert_allclose(
        scales(replace(STREAM, n_seen=100)), [104, 109, 113, 118, 123]
    )


def test_stream_of_known_length_scales_by_it():
    np.testing.assert_allclose(
        scales(replace(STREAM, n_seen=100, total_samples=1e6)), [1e6] * 5
    )


# Batch --------------------------------------------------------------------------------


def test_batch_pass_is_one_round_of_all_rows_that_forgets_the_old_totals():
    (round,) = BatchSchedule.of_rows(7).one_pass(3)
    np.testing.assert_array_equal(round.rows, np.arange(7))
    assert (round.step, round.scale) == (1.0, 1.0)


def test_order_stays_where_batches_are_remembered():
    fixed = replace(ONLINE, reshuffle=False)
    orders = {tuple(rows_of(fixed, number)) for number in range(5)}
    assert orders == {tuple(rows_of(ONLINE, 0))}


def fit_both(**settings):
    """Without memory there is nothing to refresh: `warm_up` 1 is online learning."""
    X = make_bars(200, side=4, n_words=40, random_state=0).data
    still = {"split_merge": False, "max_iter": 1, "tol": 0, "random_state": 0}
    settings = still | settings
    online = HDP(
        8, learning_method="online", learning_offset=0, batch_size=200, **settings
    ).fit(X)
    return online, HDP(8, learning_method="batch", **settings).fit(X)


@each_family
@along_diagonal(("warm_up", "learn_priors"), [0, 1], [True, False, "concentrations"])
def test_one_online_step_on_the_corpus_has_the_topics_of_a_batch_update(
    warm_up, learn_priors, family, monkeypatch
):
    """rho = 1 and D/|S| = 1. Rows are summed in another order: 1e-12, not bits."""
    # Batch learning alone moves its tangents.
    monkeypatch.setattr("skbnp.models.hdp.posterior.N_REFRESHES", 0)
    online, batch = fit_both(
        warm_up=warm_up, learn_priors=learn_priors, variational_family=family
    )
    np.testing.assert_allclose(online.components_, batch.components_, rtol=1e-12)
    if family == "mean_field":
        weights = online.topic_weights_, batch.topic_weights_
        np.testing.assert_allclose(*weights, rtol=1e-9)
