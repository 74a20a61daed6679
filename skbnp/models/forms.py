"""The classes that files of estimators and checkpoints can hold: these, and no others.

A tag says what is saved, whatever module its class is in. Where fields get other names,
or another meaning, the version of the tag goes up.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.known_topics import KnownWordTopics, TopicPriors
from skbnp.components.seen_words import SeenWords
from skbnp.components.statistics import WordRows, WordTopics
from skbnp.components.tree_moves import TreeMoves
from skbnp.components.tree_sticks import LevelPriors
from skbnp.inference.edits import Lineage
from skbnp.inference.engine import Learner
from skbnp.inference.memory import DocumentMemory, DocumentStarts, RunningAverage
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, Moves
from skbnp.inference.schedules import BatchSchedule, OnlineSchedule
from skbnp.inference.shards import World
from skbnp.inference.trials import Rejections
from skbnp.models.dependent_slices.chain import TreeChainState
from skbnp.models.dependent_slices.directions import Directions
from skbnp.models.dependent_slices.sample import TreeSample
from skbnp.models.dependent_trees.epoch import ClosedEpoch, EpochModel, EpochPosterior
from skbnp.models.dependent_trees.local import Drift, Memo, Naturals, NodeTable
from skbnp.models.dependent_trees.memory import LastVisit
from skbnp.models.dependent_trees.model import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.moves import records
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.models.dependent_trees.shard_tasks import Edit, Sight
from skbnp.models.hca import model as hca
from skbnp.models.hca.frame import Frame
from skbnp.models.hca.local import Memo as ComponentMemo
from skbnp.models.hca.memory import RowMemory
from skbnp.models.hca.moves.online import RecentRows
from skbnp.models.hca.moves.proposals import Proposal as ComponentProposal
from skbnp.models.hca.moves.structure import ComponentEdits, Rival
from skbnp.models.hdp.bound_trials import BoundTrials, Run
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.collapsed_model import CollapsedHDP, CollapsedStats
from skbnp.models.hdp.fold_in import MeanTopics
from skbnp.models.hdp.held_out import HeldOut, Prediction, fold_words
from skbnp.models.hdp.held_out_trials import HeldOutTrials, Trial
from skbnp.models.hdp.memory import CollapsedMemory, Holdings, MeanFieldMemory
from skbnp.models.hdp.memory import Memo as MeanFieldMemo
from skbnp.models.hdp.memory import Statistics as CollapsedMemo
from skbnp.models.hdp.model import DirectHDP, HDPState, HDPStats
from skbnp.models.hdp.moves.memory import Evidence, MoveMemory
from skbnp.models.hdp.moves.printed import PrintedMoves
from skbnp.models.hdp.moves.repeats import LearnBurstiness
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.moves.structure import EndUnused, ExactMoves, MinibatchMoves
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.models.hdp.reservoir import Reservoir
from skbnp.models.hdp.shards import (
    BlockHoldings,
    BlockSchedule,
    Cut,
    Sent,
    ShardCorpus,
    WholeSchedule,
)
from skbnp.models.hdp_franchise.chain import FranchiseState
from skbnp.models.hdp_franchise.model import (
    Concentrations,
    FranchiseSample,
    TableAssignments,
)
from skbnp.models.hdp_sticks.local import Tables
from skbnp.models.hdp_sticks.model import StickHDP, StickState, StickStats
from skbnp.models.nested_crp.local import DocPaths
from skbnp.models.nested_crp.memory import PathMemory, TreeCorpus
from skbnp.models.nested_crp.model import NestedModel, PathStats, TopicTree
from skbnp.models.nested_crp.moves.online import OnlineTreeEdits
from skbnp.models.nested_crp.moves.structure import TreeEdits
from skbnp.models.nested_crp_walks.chain import NestedState
from skbnp.models.nested_crp_walks.model import Paths
from skbnp.models.nested_crp_walks.sample import NestedSample
from skbnp.models.nested_hdp.model import MixedTree, NestedHDPModel, NestedStats
from skbnp.trees import Tree, TreeView
from skbnp.utils.plain import from_plain, register, to_plain

__all__ = ["from_plain", "to_plain"]

Array = NDArray[np.float64]
Ints = NDArray[np.intp]


def _any(*names: str) -> dict[str, Any]:
    """Fields of a class of its driver's process, of whatever types."""
    return dict.fromkeys(names, object)


def _csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> sp.csr_array:
    """Return a sparse array of just these; SciPy makes integers as short as it can."""
    made = sp.csr_array((data, indices, indptr), shape)
    made.data, made.indices, made.indptr = data, indices, indptr
    if indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all():
        _ = made.has_canonical_format  # noted, so that evaluation does not write it
    return made


def _state_of_trials(trials: HeldOutTrials) -> dict[str, Any]:
    """Return trials without folds of words, which follow from held-out documents."""
    return {**vars(trials), "folds_words": bool(trials.folds)}


def _trials(*, folds_words: bool, **parts: Any) -> HeldOutTrials:
    trials = object.__new__(HeldOutTrials)
    vars(trials).update(parts, folds=fold_words(parts["held"]) if folds_words else [])
    return trials


def _state_of_corpus(corpus: TreeCorpus) -> dict[str, Any]:
    names = ("X", "size", "scale", "memos")
    return {name: getattr(corpus, name) for name in names}


def _tree_corpus(
    X: sp.csr_array, size: int | None, scale: float, memos: list[DocPaths]
) -> TreeCorpus:
    corpus = TreeCorpus(X, size, scale)
    corpus.memos = memos
    return corpus


def _state_of_generator(generator: np.random.RandomState) -> dict[str, Any]:
    return dict(generator.get_state(legacy=False))


def _generator(**state: Any) -> np.random.RandomState:
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


# So that a file needs no class of another package.
CSR = {
    "data": np.ndarray,
    "indices": NDArray[np.int64],
    "indptr": NDArray[np.int64],
    "shape": tuple[int, int],
}
register("csr/1", sp.csr_array, CSR, make=_csr)
register(
    "random-state/1",
    np.random.RandomState,
    _any("bit_generator", "state", "has_gauss", "gauss"),
    make=_generator,
    state=_state_of_generator,
)

# Trees, and settings of users: their constructors check them.
TREE = {"ids": Ints, "depth": Ints, "next_id": int}
VIEW = {"parent": Ints, "weight": Array, "ids": Ints, "in_use": NDArray[np.bool_]}
register("tree/1", Tree, TREE, make=Tree)
register("tree-view/1", TreeView, VIEW, make=TreeView)
register("split-merge/1", SplitMerge, make=SplitMerge)
register("tree-moves/1", TreeMoves, make=TreeMoves)
register("epoch-moves/1", EpochMoves, make=EpochMoves)

# What models have learned.
TABLE = {"_values": Array, "seen": SeenWords, "_scale": float, "total": Array}
register("lineage/1", Lineage)
register("posterior/1", Posterior)
register("seen-words/1", SeenWords)
register("word-topics/2", WordTopics, TABLE, state=WordTopics.__getstate__)
register("topic-priors/1", TopicPriors)
register(
    "known-word-topics/1",
    KnownWordTopics,
    TABLE | {"known": TopicPriors},
    state=KnownWordTopics.__getstate__,
)
register("level-priors/1", LevelPriors)
register("hdp-posterior/1", HDPPosterior)
register("hdp-burstiness/1", Burstiness)
register("hdp-state/3", HDPState)
register("hdp-collapsed/1", CollapsedHDP)
register("hdp-collapsed-stats/1", CollapsedStats)
register("hdp-mean-field/1", DirectHDP)
register("hdp-mean-field-stats/1", HDPStats)
register("hdp-reservoir/1", Reservoir)
register("hdp-move-memory/1", MoveMemory)
register("hdp-merge-evidence/1", Evidence)
register("hdp-sticks/1", StickHDP)
register("hdp-sticks-state/1", StickState)
register("hdp-sticks-stats/1", StickStats)
register("nested-crp/1", NestedModel)
register("nested-crp-state/1", TopicTree)
register("nested-crp-stats/1", PathStats)
register("nested-hdp/1", NestedHDPModel)
register("nested-hdp-state/1", MixedTree)
register("nested-hdp-stats/1", NestedStats)
register("hca/1", hca.Model)
register("hca-frame/1", Frame)
register("hca-recent-rows/1", RecentRows)
register("hca-state/1", hca.State)
register("hca-stats/1", hca.Stats)
register("dependent-trees/1", EpochModel)
register("dependent-trees-priors/1", TreePriors)
register("dependent-trees-posterior/1", EpochPosterior)
register("dependent-trees-state/1", EpochState)
register("dependent-trees-stats/1", EpochStats)
register("dependent-trees-closed-epoch/1", ClosedEpoch)

# Chains of samplers, and what they keep.
register("franchise-chain/1", FranchiseState)
register("franchise-tables/2", TableAssignments)
register("franchise-concentrations/2", Concentrations)
register("franchise-sample/2", FranchiseSample)
register("nested-chain/1", NestedState)
register("nested-paths/1", Paths)
register("nested-sample/1", NestedSample)
register("slice-chain/1", TreeChainState)
register("slice-directions/1", Directions)
register("slice-sample/1", TreeSample)

# What a fit that goes on has learned, and what its moves and trials wait for.
LEARNER = "posterior schedule moves corpus visitor memory warm_up n_passes"
TRIALS = (
    "posterior held moves prior_limit length passes_left finish n_tokens "
    "n_trials n_accepted final is_complete n_final n_final_passes model run best "
    "learns_burstiness knows_repeats tries_tables"
)
MONITOR = (
    "verbose _told history criterion parts_name unit tol change n_passes _last _start"
)
VALUES = {"_values": Array, "_scale": float}
BLOCKS = {
    "_times": Holdings,
    "_times_of_newcomers": Holdings,
    "_n_blocks": int,
    "_newcomers": tuple[Ints, ...] | list[Ints],
}
register("learner/1", Learner, _any(*LEARNER.split()))
register("monitor/1", Monitor, _any(*MONITOR.split()))
register("no-moves/1", Moves, {})
register("end-unused/1", EndUnused, {"moves": SplitMerge})
register("learn-burstiness/1", LearnBurstiness, {"moves": Moves})
register("bound-moves/1", ExactMoves, _any("moves", "pairs", "apart"))
register("minibatch-moves/1", MinibatchMoves, _any("moves", "_has_looked"))
PRINTED = ("moves", "_is_looking", "_columns", "_weights")
register("printed-moves/1", PrintedMoves, _any(*PRINTED))
register("rejections/1", Rejections, _any("_waits"))
register("tree-edits/1", TreeEdits, _any("moves", "rejections", "ends_idle"))
register("online-tree-edits/1", OnlineTreeEdits, _any("moves", "_held"))
EDITS = (
    "moves rejections tol grows has_grown n_refused has_ended best has_begun rival "
    "groups_only"
)
register("component-edits/1", ComponentEdits, _any(*EDITS.split()))
register("component-rival/1", Rival)
register("component-proposal/1", ComponentProposal)
register("no-memory/1", DocumentMemory, {})
register("document-starts/1", DocumentStarts, {"_starts": dict[int, object]})
register("hdp-tables/1", Tables)
register("running-average/1", RunningAverage, {"documents": DocumentMemory})
REMEMBERED = _any("n_forgetful", "n_passes", "memos")
register("word-rows/1", WordRows)
register("hdp-collapsed-memory/1", CollapsedMemory, REMEMBERED | _any("holdings"))
register("hdp-collapsed-memo/1", CollapsedMemo)
register("hdp-mean-field-memory/1", MeanFieldMemory, REMEMBERED)
register("hdp-mean-field-memo/1", MeanFieldMemo)
register("path-memory/1", PathMemory, _any("corpus", "others", "_is_exact"))
register("path-memo/1", DocPaths)
register("component-memory/1", RowMemory, _any("scale", "others", "memo"))
register("component-memo/1", ComponentMemo)
register("corpus/1", Corpus, {"X": object})
TREE_CORPUS = {"X": object, "size": int | None, "scale": float, "memos": list[DocPaths]}
register(
    "tree-corpus/1",
    TreeCorpus,
    TREE_CORPUS,
    make=_tree_corpus,
    state=_state_of_corpus,
)
register("batch-schedule/1", BatchSchedule)
register("online-schedule/1", OnlineSchedule)
register("block-schedule/1", BlockSchedule)
register("whole-schedule/1", WholeSchedule)
register("holdings/1", Holdings, VALUES)
register("block-holdings/1", BlockHoldings, BLOCKS)
register("cut/1", Cut)
register("shard-corpus/1", ShardCorpus)
register("sent/1", Sent, {}, make=Sent)
register("held-out/1", HeldOut)
register("held-out-prediction/2", Prediction)
register("held-out-topics/1", MeanTopics)
register(
    "held-out-trials/2",
    HeldOutTrials,
    _any("folds_words", *TRIALS.split()),
    make=_trials,
    state=_state_of_trials,
)
register("held-out-trial/1", Trial, _any(*Trial.__dataclass_fields__))
BOUND_TRIALS = (
    "run moves passes_left posterior candidate candidate_passes n_trials n_rejected"
)
register("bound-trials/1", BoundTrials, _any(*BOUND_TRIALS.split()))
register("bound-trial/1", Run, _any(*Run.__dataclass_fields__))
register("world/1", World, {"content": object, "name": str})
register("row-visit/1", LastVisit)
register("row-memo/1", Memo)
register("row-edit/1", Edit)
register("row-sight/1", Sight)
register("row-drift/1", Drift)
register("row-nodes/1", NodeTable)
register("row-naturals/1", Naturals)
for _record in (
    records.Attach,
    records.Birth,
    records.Exchange,
    records.Merge,
    records.Remove,
    records.Reverse,
    records.Sort,
):
    register(f"row-edit-{_record.__name__.lower()}/1", _record)
