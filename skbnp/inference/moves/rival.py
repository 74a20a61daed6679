"""Trial births of online learning: a rival learns beside the model, and may replace it.

The rival starts from some of the topics and from documents that they explain badly,
learns from the same minibatches, first with mean weights, and is then judged on
minibatches that neither has absorbed yet: it replaces the model if the bound of a
corpus of such documents is higher by more than the noise.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from skbnp.inference.documents import Collected
from skbnp.inference.interrupts import commit
from skbnp.inference.moves import hdp_birth
from skbnp.inference.moves.split_merge import SplitMerge
from skbnp.inference.posterior import Posterior
from skbnp.utils.random import Purpose, stream

__all__ = ["Rival", "decide", "documents", "may_begin", "propose"]


#: Last minibatches that judge, and minibatches between looks at the verdict.
WINDOW, EVERY = 10, 5
#: Minibatches that judge, at the most.
LONGEST = 40
#: The warm-up lasts until the start has a smaller share of the totals.
STARTED = 0.05
#: And at least so many minibatches.
SHORTEST = 30


@dataclass(slots=True)
class Rival:
    """A posterior on trial."""

    posterior: Posterior
    start: float = 1.0  # share of the totals from its start
    age: int = 0  # minibatches learned from
    gains: list[float] = field(default_factory=list)  # nats, of the judging minibatches
    n_docs: list[int] = field(default_factory=list)  # documents of each
    last: float = -np.inf  # gain when last looked at
    is_pruned: bool = False  # of topics that the warm-up left without documents

    def step(self, n_tokens: float) -> float:
        """Step size of a fit that began with the rival, or smaller.

        Minibatches of so many tokens, weighted with the step sizes, shall hold more
        tokens than the prior of the topics: else they would be forgotten too soon.
        """
        words, eta = self.posterior.totals.topic_words, self.posterior.state
        prior = words.shape[0] * words.shape[1] * eta.topic_word_prior
        return min((2.0 + self.age) ** -0.6, n_tokens / (2.0 * prior))

    @property
    def is_warming_up(self) -> bool:
        """Whether it learns with mean weights."""
        return self.start > STARTED or self.age < SHORTEST

    def gain(self, posterior: Posterior, n_docs: float) -> tuple[float, float]:
        """By how much the bound of a corpus is higher, and its standard error, nats."""
        gains, sizes = np.array(self.gains[-WINDOW:]), np.array(self.n_docs[-WINDOW:])
        each = gains / sizes
        total = n_docs * gains.sum() / sizes.sum()
        total += _prior_terms(self.posterior) - _prior_terms(posterior)
        error = n_docs * each.std(ddof=1) / np.sqrt(len(each))
        return float(total), float(error)


def documents(posterior: Posterior, found: Collected) -> float:
    """Bound of documents that have been visited, but not absorbed, nats."""
    words = posterior.totals.topic_words
    terms = posterior.model.documents_bound(posterior.state, words, found.stats)
    return terms["words"] + terms["assignments"] + terms["entropy"]


def _prior_terms(posterior: Posterior) -> float:
    state, words = posterior.state, posterior.totals.topic_words
    prior = state.corpus_concentration * np.log(state.weights[-1])
    return float(prior - posterior.model.divergence(state, words))


def may_begin(moves: SplitMerge, posterior: Posterior) -> bool:
    """Whether nothing else goes on, and rejections lie far enough back."""
    moving, step = posterior.moving, posterior.n_steps
    if not moves.births or moving.rival is not None or step < moving.rest_until:
        return False
    return step - max(moving.began, posterior.lineage[-1].step) >= moves.quiet


def propose(
    posterior: Posterior, X: sp.csr_array, doc_topic: sp.csr_array, n_docs: float
) -> Rival:
    """Begin a trial with documents of a minibatch that has just been absorbed."""
    moving = posterior.moving
    plan = hdp_birth.plan(moving.n_trials, posterior.state.n_components)
    rng = stream(posterior.entropy, Purpose.MOVE, posterior.n_steps)
    moving.n_trials += 1
    return Rival(hdp_birth.propose(posterior, X, doc_topic, plan, n_docs, rng))


def decide(moves: SplitMerge, posterior: Posterior, n_docs: float) -> None:
    """Let the rival replace the posterior once its bound is higher, or forget it."""
    moving, rival = posterior.moving, posterior.moving.rival
    n_judged = len(rival.gains)
    if n_judged < WINDOW or n_judged % EVERY:
        return
    gained, error = rival.gain(posterior, n_docs)
    fits = rival.posterior.state.n_components <= posterior.max_components
    is_better = fits and gained > moves.confidence * error
    if not is_better:
        left = LONGEST - n_judged
        rise = (gained - rival.last) / EVERY  # per minibatch, and slowing down
        rival.last = gained
        if left > 0 and gained + left * max(rise, 0.0) > 0.0:
            return
    with commit():  # it must not learn beside itself
        moving.rival = None
        moving.n_rejected = 0 if is_better else moving.n_rejected + 1
        rest = moves.rest * min(2**moving.n_rejected - 1, 8)
        moving.rest_until = posterior.n_steps + rest
        if is_better:
            posterior.adopt(rival.posterior)
            moving.start_afresh()
