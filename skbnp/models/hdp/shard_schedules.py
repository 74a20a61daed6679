"""Schedules of an HDP over blocks of documents in shards: rounds of a pass.

A block is a random part of a shard, drawn once by the entropy of the fit; a round
updates a block of each of some shards. How many there are follows from the data and
from parameters, never from where the shards are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from skbnp.inference.schedules import OnlineSchedule, Part, Round, Schedule, even_limits
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Ints

#: Rounds of a pass, at most, unless minibatches are asked for: totals travel to the
#: shards and back in each.
MOST_ROUNDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Part):
    """A random part of the documents of a shard; `number` counts all blocks."""

    shard: int
    place: int  # in the shard
    size: int

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return self.size


def n_blocks(n_docs: int, batch_size: int | None, least: int, n_groups: int) -> int:
    """Blocks of each shard, of `n_docs` documents of all.

    A round has `batch_size` documents; if None, as many as leave `MOST_ROUNDS` in a
    pass, but `least`. It takes `n_groups` rounds to visit a block of each shard.
    """
    n_rounds = -(-n_docs // (least if batch_size is None else batch_size))
    if batch_size is None:
        n_rounds = min(n_rounds, MOST_ROUNDS)
    return max(-(-n_rounds // n_groups), 1)


@dataclass(frozen=True, slots=True)
class BlockSchedule(Schedule):
    """Rounds over a block of each shard, or of each of some shards at a time.

    Groups of shards, and which blocks of theirs go together, are drawn anew for each
    pass.
    """

    sizes: Ints  # (n_shards, n_blocks) documents of each block
    n_groups: int  # of shards
    steps: OnlineSchedule  # of which rows are rounds, and the entropy names the order

    def one_pass(self, number: int) -> Iterator[Round]:
        """Yield the rounds of one pass over the data."""
        n_shards, n_blocks = self.sizes.shape
        rng = stream(self.steps.seed_entropy or 0, Purpose.ORDER, number)
        shards = rng.permutation(n_shards)
        blocks = rng.permuted(np.tile(np.arange(n_blocks), (n_shards, 1)), axis=1)
        groups = [
            shards[begin:end]
            for begin, end in pairwise(even_limits(n_shards, self.n_groups))
        ]
        rounds = [(group, place) for place in range(n_blocks) for group in groups]
        first = self.steps.n_updates(number)
        for position, at in enumerate(rng.permutation(len(rounds)).tolist()):
            group, place = rounds[at]
            chosen = [(shard, blocks[shard, place]) for shard in sorted(group.tolist())]
            parts = parts_of(self.sizes, chosen)
            if parts:
                n_docs = sum(part.n_docs for part in parts)
                yield Round(
                    parts,
                    step=self.steps.step_size(first + position + 1),
                    scale=int(self.sizes.sum()) / n_docs,
                )

    def n_updates(self, n_passes: int) -> int:
        """Updates by which steps have decreased after `n_passes` passes."""
        return self.steps.n_updates(n_passes)

    def remembering(self, share: float) -> "BlockSchedule":
        """Return the schedule after more updates, see `OnlineSchedule`."""
        return replace(self, steps=self.steps.remembering(share))

    def reset(self) -> "BlockSchedule":
        """Return the schedule of a posterior without updates."""
        return replace(self, steps=self.steps.reset())


def parts_of(
    sizes: Ints, chosen: Iterable[tuple[int, ...]] | None = None
) -> tuple[Block, ...]:
    """Return the non-empty blocks among the chosen (shard, place), or of all."""
    n_blocks = sizes.shape[1]
    chosen = np.ndindex(*sizes.shape) if chosen is None else chosen
    return tuple(
        Block(int(shard * n_blocks + place), shard=shard, place=place, size=size)
        for shard, place in chosen
        if (size := int(sizes[shard, place]))
    )
