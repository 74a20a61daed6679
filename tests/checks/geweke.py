"""Geweke's test of samplers: data and everything else, drawn together or in turn."""

import numpy as np

#: Of a correct sampler one z in 16,000 is beyond; there are some 25 statistics a run.
FARTHEST = 4.0
#: Statistics that must not be constant.
LEAST = 18
#: Means of so many stretches of the chain tell its error.
N_BATCHES = 40


def check_joint_distribution(draw, statistics, move, n_draws, seed, least=LEAST):
    """Raise unless moves, with words drawn anew between them, keep the prior.

    Geweke (2004): draws of everything from the prior against a chain that moves and
    draws words in turn, read after the move.

    Parameters
    ----------
    draw : callable
        Draws a state (hyperparameters, latent state and words) from a generator; it has
        a method `draw_words`, which draws the words given all else.
    statistics : callable
        Statistics of a state by name.
    move : callable
        Returns the next state of the sampler, from a state and a generator.
    n_draws : int
        Multiple of 40.
    """
    rng = np.random.default_rng(seed)
    prior = np.array([list(statistics(draw(rng)).values()) for _ in range(n_draws)])
    state, chain = draw(rng), []
    for _ in range(n_draws):
        state = move(state, rng)
        chain.append(list(statistics(state).values()))
        state.draw_words(rng)
    names = list(statistics(state))
    batches = np.array(chain).reshape(N_BATCHES, -1, len(names)).mean(axis=1)
    variance = prior.var(axis=0) / n_draws + batches.var(axis=0, ddof=1) / N_BATCHES
    error = np.sqrt(variance)
    error[np.ptp(np.concatenate([prior, chain]), axis=0) == 0.0] = np.inf  # constant
    z = (prior.mean(axis=0) - batches.mean(axis=0)) / error
    far = {n: round(x, 1) for n, x in zip(names, z, strict=True) if abs(x) > FARTHEST}
    assert not far, far
    assert np.isfinite(error).sum() >= least
