"""When topics are merged, pruned and split during online learning.

Algorithm 2 of Bryant and Sudderth (2012), except that splits are tried on a fresh
document step under the updated topics, and judged on documents they were not fitted to.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skbnp.inference.edits import Merge, Remove, Split, apply
from skbnp.inference.moves import hdp_merge, hdp_split
from skbnp.inference.visit import Visit

__all__ = ["SplitMerge", "merge_and_prune", "split"]


@dataclass(frozen=True, slots=True)
class SplitMerge:
    """What an expert may set of the moves of a topic model.

    Parameters
    ----------
    max_tries, max_splits : int
        Topics that a minibatch tries to split, and splits at the most.
    confidence : float
        Standard errors by which a split must raise the bound. Minibatches are noisy: on
        a synthetic corpus useful splits had 2 and more, superfluous ones below 1.3.
    min_child_tokens : float
        Expected corpus tokens that each child must hold.
    prune_tokens : float
        A topic with fewer expected tokens in a minibatch is idle.
    prune_patience : int
        Minibatches in a row that end an idle topic.
    """

    max_tries: int = 20
    max_splits: int = 1
    confidence: float = 1.5
    min_child_tokens: float = 1.0
    prune_tokens: float = 1.0
    prune_patience: int = 3


def merge_and_prune(
    moves: SplitMerge, posterior: Any, visit: Visit, scale: float
) -> Visit:
    """Merge what the visit shows to be one topic, end what it shows to be idle."""
    n_words = posterior.totals.topic_words.shape[0]
    pairs = hdp_merge.propose(posterior.state, visit, n_words, scale)
    ids = posterior.ids.copy()
    for target, source in pairs:
        apply(Merge(int(ids[source]), int(ids[target])), posterior)
        visit = visit.merged(source, target)
    visit = visit.without([source for _, source in pairs])

    idle = visit.doc_topic.sum(axis=0) < moves.prune_tokens
    names = posterior.ids[idle].tolist()
    posterior.idle = {name: posterior.idle.get(name, 0) + 1 for name in names}
    ending = [n for n in names if posterior.idle[n] >= moves.prune_patience]
    ending = ending[: len(posterior.ids) - 1]
    columns = np.flatnonzero(np.isin(posterior.ids, ending))
    for name in ending:
        apply(Remove(name), posterior)
    return visit.without(columns)


def split(
    moves: SplitMerge,
    posterior: Any,
    visit: Visit,
    n_docs: float,
    rng: np.random.Generator,
) -> None:
    """Try to split topics drawn by their mass, and keep what raises the bound."""
    state, eta = posterior.state, posterior.state.topic_word_prior
    mass = visit.doc_topic.sum(axis=0)
    n_tries = min(moves.max_tries, int((mass > 0.0).sum()))
    if n_tries == 0 or len(visit.doc_topic) < 2:
        return
    tried = rng.choice(len(mass), n_tries, replace=False, p=mass / mass.sum())
    fitted = np.zeros(len(visit.doc_topic), dtype=bool)
    fitted[rng.permutation(len(fitted))[: len(fitted) // 2]] = True
    n_accepted = 0
    for column in tried.tolist():
        topic = posterior.totals.topic_words.column(column)
        parent = (state, topic, visit, column)
        train = hdp_split.Parent.of(*parent, fitted, n_docs)
        children = hdp_split.start(train, rng)
        if children is None:
            continue
        children = hdp_split.fit_children(train, children, eta)
        judge = hdp_split.Parent.of(*parent, ~fitted, n_docs)
        gained, error = hdp_split.gain(judge, children, eta, moves.min_child_tokens)
        if gained > moves.confidence * error:
            name = int(posterior.ids[column])
            apply(Split(name, posterior.n_named, children), posterior)
            n_accepted += 1
            if n_accepted == moves.max_splits:
                return
