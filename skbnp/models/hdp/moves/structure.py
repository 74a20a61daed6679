"""Moves of an HDP between updates: when topics end, merge or split."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from skbnp.inference.engine import Learner
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Merge, apply
from skbnp.inference.protocols import Collected, Corpus, DocumentLocalStep, Moves
from skbnp.inference.schedules import Round
from skbnp.models.hdp.memory import MeanFieldCache, doc_topic
from skbnp.models.hdp.moves import merge as hdp_merge
from skbnp.models.hdp.moves import minibatch
from skbnp.models.hdp.moves.held_out import prune
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.posterior import HDPPosterior

ExactLearner = Learner[HDPPosterior, Corpus, DocumentLocalStep, MeanFieldCache]

#: Totals of which mean weights gave a larger share are too blurred to judge topics by.
MOST_INIT = 0.1
#: Passes until a rejected pair of topics is compared again.
WAIT = 8


@dataclass(eq=False)
class MinibatchMoves(Moves):
    """Merges, ends and splits of online learning, by the bound of minibatches."""

    moves: SplitMerge
    _has_looked: bool = False

    def block_hook(self, learner: Learner) -> hdp_merge.MergeComparison | None:
        """Compare pairs on record, once few totals are those of the start."""
        posterior, records = learner.posterior, learner.posterior.move_records
        self._has_looked = posterior.init_fraction < MOST_INIT
        if not self._has_looked:
            return None
        at, old = posterior.columns, records.pairs
        # An edit of a fitted model, or an interrupt in a move, may have ended some.
        records.pairs = {p: e for p, e in old.items() if at.keys() >= set(p)}
        pairs = [(at[one], at[other]) for one, other in records.pairs]
        return hdp_merge.comparison(pairs)

    def end_round(
        self, learner: Learner, round: Round, results: Sequence[Collected]
    ) -> None:
        """Merge, prune and split topics by the bound of a minibatch."""
        if not self._has_looked:
            return
        self._has_looked = False
        (part,), (result,), posterior = round.parts, results, learner.posterior
        X, n_docs = learner.corpus.documents(part), round.scale * round.n_docs
        moves, columns = self.moves, posterior.columns
        used = result.stats.topic_words.total
        idle = posterior.ids[used < moves.prune_tokens].tolist()
        minibatch.merge(moves, posterior, result, n_docs)
        minibatch.prune(moves, posterior, idle, X.shape[0])
        doc_topic, step = result.doc_topic, learner.local_step
        minibatch.split(moves, posterior, X, doc_topic, columns, n_docs, step)


@dataclass(eq=False)
class ExactMoves(Moves):
    """Moves of batch and memoized learning: merge and end topics by the exact bound."""

    moves: SplitMerge
    pairs: list[tuple[int, int]] = field(default_factory=list)  # ids, of this pass
    #: Pairs of ids, and the pass before which they are not compared again.
    pairs_on_hold: dict[tuple[int, int], int] = field(default_factory=dict)

    def begin_pass(self, learner: ExactLearner) -> None:
        """End the lightest topics before the last pass with mean weights."""
        cache, posterior = learner.cache, learner.posterior
        is_last = cache.n_passes + 1 == cache.n_forgetful
        if learner.is_warming_up and is_last:
            light = self.moves.light(posterior.global_stats.topic_words.tokens)
            prune(learner, light)

    def block_hook(self, learner: ExactLearner) -> hdp_merge.MergeComparison | None:
        """Return a hook that compares the chosen pairs of topics, or None."""
        columns = learner.posterior.columns
        return hdp_merge.comparison([(columns[k], columns[n]) for k, n in self.pairs])

    def end_pass(self, learner: ExactLearner, monitor: Monitor) -> bool:
        """Merge and end topics by the exact bound; choose pairs to compare."""
        cache = learner.cache
        if cache.is_complete:
            n_changed = self._merge(learner)
            ending = doc_topic(cache.memos).sum(axis=0) == 0.0
            n_changed += prune(learner, ending)
            if n_changed:
                cache.refresh(learner.posterior)
            self._choose_pairs(learner)
        return True

    def _choose_pairs(self, learner: ExactLearner) -> None:
        """Choose pairs of similar topics, not on hold, to compare in the next pass."""
        posterior = learner.posterior
        counts = sp.csr_array(doc_topic(learner.cache.memos))
        words = sp.csr_array(posterior.global_stats.topic_words.seen_counts())
        pairs = hdp_merge.candidates(counts, words)
        pairs = hdp_merge.sparing(pairs, posterior.global_stats.topic_words)
        names, now = posterior.ids.tolist(), learner.n_passes
        self.pairs_on_hold = {
            p: until for p, until in self.pairs_on_hold.items() if until > now
        }
        named = [(names[one], names[other]) for one, other in pairs]
        self.pairs = [pair for pair in named if pair not in self.pairs_on_hold]

    def _merge(self, learner: ExactLearner) -> int:
        """Merge disjoint pairs of positive exact gain, best first; return how many."""
        if not self.pairs:
            return 0
        posterior, cache = learner.posterior, learner.cache
        columns, words = posterior.columns, posterior.global_stats.topic_words
        counts = doc_topic(cache.memos)
        prior, eta = posterior.state.doc_prior, posterior.state.topic_word_prior
        gains = -np.sum([memo.losses for memo in cache.memos], axis=0)
        for index, pair in enumerate(self.pairs):
            one, other = (columns[name] for name in pair)
            gains[index] += hdp_merge.documents_gain(prior, counts, one, other)
            gains[index] += hdp_merge.words_gain(words, eta, one, other)
            if gains[index] < 0.0:
                self.pairs_on_hold[pair] = learner.n_passes + WAIT
        chosen = hdp_merge.best_disjoint(self.pairs, gains)
        if chosen:
            pairs = [self.pairs[index][::-1] for index in chosen]
            places = [(columns[source], columns[target]) for source, target in pairs]
            cache.memos = [m.merged(places, m.losses[chosen]) for m in cache.memos]
            apply(Merge(pairs), posterior)
        return len(chosen)
