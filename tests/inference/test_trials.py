"""When a candidate is followed on, and when a rejected one is tried again."""

import pytest

from skbnp.inference.trials import WAIT, Rejections, run_rounds

#: Bound without the edit, and the rise that is asked for.
BOUND, LEAST = -100.0, 1.0


@pytest.mark.parametrize(
    ("values", "n_rounds", "n_at_most", "n_made"),
    [
        # With one round left and 9.9 nats missing, after a rise of 10.1; of 9.9.
        ([-150.0, -119.0, -108.9, -98.0], 4, 4, 4),
        ([-150.0, -119.0, -109.1, -98.0], 4, 4, 3),
        # With two rounds left: twice the last rise is a little more, and less.
        ([-150.0, -132.9, -132.0, -98.0], 4, 4, 3),
        ([-150.0, -133.1, -120.0, -98.0], 4, 4, 2),
        # Behind after its rounds: on, until it is ahead.
        ([-150.0, -110.0, -105.0, -98.0, -97.0], 2, 5, 4),
        ([-150.0, -120.0, -105.0, -98.0, -97.0], 2, 2, 2),
        # Many rounds left, but the last one made up for less than a tenth; for more.
        ([-150.0, -110.0, -109.1, -98.0], 2, 20, 3),
        ([-150.0, -110.0, -108.9, -98.0], 2, 20, 4),
        # At most so many rounds.
        ([-150.0, -130.0, -115.0, -106.9, -104.0, -98.0], 2, 5, 5),
        # Ahead before its rounds are over: these are made.
        ([-98.0, -97.0, -96.0, -95.0], 3, 9, 3),
        # Ahead of the bound, not of what is asked for: that is what is missing.
        ([-150.0, -99.5, -99.3, -98.0], 4, 4, 3),
    ],
)
def test_candidates_are_followed_while_equal_rises_would_do(
    values, n_rounds, n_at_most, n_made
):
    rounds = ((value, number) for number, value in enumerate(values, start=1))
    value, number = run_rounds(rounds, BOUND, LEAST, n_rounds, n_at_most)
    assert (value, number) == (values[n_made - 1], n_made)


def test_rejected_proposals_wait_twice_as_long_each_time():
    rejections, key, tried = Rejections(), ("merge", 3, 4), []
    for n_passes in range(1, 60):
        if rejections.is_over(key, n_passes):
            tried.append(n_passes)
            rejections.add(key, n_passes)
    assert tried == [1, 1 + WAIT, 1 + 3 * WAIT, 1 + 7 * WAIT]
    assert rejections.is_over(("merge", 4, 3), 1)  # of itself alone
    rejections.forget(key)
    assert rejections.is_over(key, 1)
