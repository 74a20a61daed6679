"""Laws of the named random streams."""

import numpy as np
import pytest

from skbnp.utils.arrays import row_parts
from skbnp.utils.random import Purpose, draw_seed_entropy, gamma_noise, stream

NAMES = [
    (0, Purpose.START),
    (1, Purpose.START),
    (2**127 + 5, Purpose.START),
    (0, Purpose.ORDER),
    (0, Purpose.ORDER, 0),
    (0, Purpose.ORDER, 1),
    (1, Purpose.ORDER, 0),
    (0, Purpose.ORDER, 0, 0),
    (0, Purpose.ORDER, 0, 1),
    (0, Purpose.ORDER, 1, 0),
    (0, Purpose.SPLIT_TOKENS, 0),
]


def draws(name):
    return tuple(stream(*name).integers(2**63, size=4).tolist())


def test_streams_of_different_names_differ():
    made = [number for name in NAMES for number in draws(name)]
    assert made == [number for name in NAMES for number in draws(name)]
    assert len(set(made)) == len(made)


def test_entropy_has_128_bits():
    entropies = [draw_seed_entropy(seed) for seed in range(50)]
    assert len(set(entropies)) == 50
    assert all(0 <= entropy < 2**128 for entropy in entropies)
    assert max(entropies) >= 2**120  # 50 draws below it: probability 2^-400


@pytest.mark.parametrize("bad", ["0", -1, 1.5, np.random.default_rng(0)])
def test_what_is_no_random_state_is_refused(bad):
    with pytest.raises((ValueError, TypeError)):
        draw_seed_entropy(bad)


def test_noise_in_parts_is_that_of_one_draw():
    shape = 3001, 701  # of several parts
    assert len(list(row_parts(shape))) > 1
    noise = gamma_noise(shape, np.random.default_rng(0))
    whole = np.random.default_rng(0).standard_gamma(1.0, shape)
    np.testing.assert_array_equal(noise, whole)
