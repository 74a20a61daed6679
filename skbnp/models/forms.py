"""Registry of all classes that files of estimators and checkpoints can contain.

A tag names what is saved, whatever module its class is in. If attributes are added,
removed, renamed or change their meaning, the version of the tag is raised.
"""

from typing import Any, get_type_hints

import scipy.sparse as sp

from skbnp.components.known_topics import TopicPriors
from skbnp.components.tree_sticks import LevelPriors, TreeMoves
from skbnp.components.word_topics import SeenWords, WordRows, WordTopics
from skbnp.inference.engine import (
    DocumentCache,
    DocumentStarts,
    DocumentWeights,
    Learner,
    RunningAverage,
)
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import BatchSchedule, Corpus, Moves, OnlineSchedule, Part
from skbnp.inference.shards import Broadcast
from skbnp.inference.trials import Rejections
from skbnp.models.dependent_slices.chain import TreeChainState
from skbnp.models.dependent_slices.model import Directions, TreeSample
from skbnp.models.dependent_trees import records
from skbnp.models.dependent_trees.epoch import (
    ClosedEpoch,
    EpochModel,
    EpochMoves,
    EpochPosterior,
)
from skbnp.models.dependent_trees.local import Drift, Memo, Naturals, NodeTable
from skbnp.models.dependent_trees.memory import (
    Edit,
    EpochCache,
    EpochGlobals,
    EpochLearner,
    LastBroadcast,
    RowLocalStep,
)
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.dependent_trees.structure import TreeEdits as EpochEdits
from skbnp.models.hca import state as hca
from skbnp.models.hca.local import Memo as ComponentMemo
from skbnp.models.hca.local import RowCache
from skbnp.models.hca.model import Model as ComponentModel
from skbnp.models.hca.moves import ComponentEdits, RecentRows, Rival
from skbnp.models.hca.moves import Proposal as ComponentProposal
from skbnp.models.hca.state import Frame
from skbnp.models.hdp.births import EndUnused, LearnBurstiness
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.cross_fit import CrossFittedTrials
from skbnp.models.hdp.fold_in import MeanTopics
from skbnp.models.hdp.groups import Groups
from skbnp.models.hdp.held_out import Gain, HeldOut, Prediction
from skbnp.models.hdp.held_out_trials import HeldOutTrials, Trial
from skbnp.models.hdp.model import (
    CollapsedHDP,
    CollapsedStats,
    DirectHDP,
    HDPState,
    HDPStats,
)
from skbnp.models.hdp.moves import PrintedMoves, SplitMerge
from skbnp.models.hdp.posterior import (
    HDPPosterior,
    Outliers,
    PartCache,
    Proposal,
    Reservoir,
)
from skbnp.models.hdp.posterior import Memo as PartMemo
from skbnp.models.hdp.shards import (
    Block,
    BlockDocumentWeights,
    BlockSchedule,
    Cut,
    Sent,
    ShardCorpus,
)
from skbnp.models.hdp.stream_trials import PausedTrials, StreamTrials
from skbnp.models.hdp_franchise.chain import FranchiseState
from skbnp.models.hdp_franchise.model import (
    Concentrations,
    FranchiseSample,
    TableAssignments,
)
from skbnp.models.hdp_sticks import (
    BoundMerges,
    StickHDP,
    StickState,
    StickStats,
    Tables,
)
from skbnp.models.nested_crp.local import DocPaths, PathCache, TreeCorpus
from skbnp.models.nested_crp.model import NestedModel, PathStats, TopicTree
from skbnp.models.nested_crp.moves import OnlineTreeEdits, TreeEdits
from skbnp.models.nested_crp_walks import NestedSample, NestedState, Paths
from skbnp.models.nested_hdp import (
    MixedTree,
    NestedHDPModel,
    NestedPosterior,
    NestedStats,
)
from skbnp.trees import Tree, TreeView
from skbnp.utils.plain import register
from skbnp.utils.ranges import Steps
from skbnp.utils.typing import Array, Flags, Ints


def _tree_corpus(
    X: sp.csr_array, size: int | None, scale: float, memos: list[DocPaths]
) -> TreeCorpus:
    """Restore a saved corpus of a topic tree, with the paths of its documents."""
    corpus = TreeCorpus(X, size, scale)
    corpus.memos = memos
    return corpus


# Trees, and settings of users: their constructors check them.
TREE = {"ids": Ints, "depth": Ints, "next_id": int}
VIEW: dict[str, Any] = {"parent": Ints, "weight": Array, "ids": Ints}
VIEW |= {"in_use": Flags, "by_id": bool}
register("tree/1", Tree, types=TREE, make=Tree)
register("tree-view/1", TreeView, types=VIEW, make=TreeView)
register("split-merge/1", SplitMerge, make=SplitMerge)
register("tree-moves/1", TreeMoves, make=TreeMoves)
register("epoch-moves/1", EpochMoves, make=EpochMoves)

# What models have learned.
register("lineage/1", Lineage)
register("posterior/1", Posterior)
register("seen-words/1", SeenWords)
register("word-topics/2", WordTopics, state=WordTopics.__getstate__)
register("topic-priors/1", TopicPriors)
register("level-priors/1", LevelPriors)
register("hdp-posterior/2", HDPPosterior)
register("hdp-groups/1", Groups, make=Groups)
register("hdp-surprises/1", Outliers)
register("hdp-proposal/1", Proposal)
register("hdp-burstiness/1", Burstiness)
register("hdp-state/1", HDPState)
register("hdp-collapsed/1", CollapsedHDP)
register("hdp-collapsed-stats/1", CollapsedStats)
register("hdp-mean-field/1", DirectHDP)
register("hdp-mean-field-stats/1", HDPStats)
register("hdp-reservoir/1", Reservoir)
register("hdp-sticks/1", StickHDP)
register("hdp-sticks-state/1", StickState)
register("hdp-sticks-stats/1", StickStats)
register("nested-crp/1", NestedModel)
register("nested-crp-state/1", TopicTree)
register("nested-crp-stats/1", PathStats)
register("nested-hdp/1", NestedHDPModel)
register("nested-hdp-posterior/1", NestedPosterior)
register("nested-hdp-state/1", MixedTree)
register("nested-hdp-stats/1", NestedStats)
register("hca/1", ComponentModel)
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
register("franchise-tables/1", TableAssignments)
register("franchise-concentrations/1", Concentrations)
register("franchise-sample/1", FranchiseSample)
register("nested-chain/1", NestedState)
register("nested-paths/1", Paths)
register("nested-sample/1", NestedSample)
register("slice-chain/1", TreeChainState)
register("slice-directions/1", Directions)
register("slice-sample/1", TreeSample)

TREE_CORPUS = {"X": object, "size": int | None, "scale": float, "memos": list[DocPaths]}
# What a fit that goes on has learned, and what its moves and trials wait for.
# Trials of a stream have no local step between calls.
LEARNER = get_type_hints(Learner) | {"local_step": object}
LEARNER.pop("is_stream")
register("learner/1", Learner, types=LEARNER)
register("row-learner/1", EpochLearner, types=LEARNER)
register("monitor/1", Monitor)
register("no-moves/1", Moves)
register("prune-unused/1", EndUnused)
register("learn-burstiness/1", LearnBurstiness)
register("printed-moves/1", PrintedMoves)
register("bound-merges/1", BoundMerges)
register("rejections/1", Rejections)
register("tree-edits/1", TreeEdits)
register("online-tree-edits/1", OnlineTreeEdits)
register("row-edits/1", EpochEdits, make=EpochEdits.restored)
register("component-edits/1", ComponentEdits)
register("component-rival/1", Rival)
register("component-proposal/1", ComponentProposal)
register("no-cache/1", DocumentCache)
register("document-starts/1", DocumentStarts)
register("hdp-tables/1", Tables)
register("running-average/1", RunningAverage)
register("word-rows/1", WordRows)
register("part-cache/1", PartCache)
register("part-statistics/1", PartMemo)
register("path-cache/1", PathCache)
register("path-assignments/1", DocPaths)
register("component-cache/1", RowCache)
register("row-cache/1", EpochCache)
register("row-local-step/1", RowLocalStep)
register("component-assignments/1", ComponentMemo)
register("corpus/1", Corpus, types={"X": object})  # counts, or an array
register(
    "tree-corpus/1",
    TreeCorpus,
    types=TREE_CORPUS,
    make=_tree_corpus,
    state=lambda corpus: {name: getattr(corpus, name) for name in TREE_CORPUS},
)
register("batch-schedule/1", BatchSchedule)
register("online-schedule/1", OnlineSchedule)
register("block-schedule/1", BlockSchedule)
register("part/1", Part)
register("block/1", Block)
register("document-weights/1", DocumentWeights)
register("block-weights/1", BlockDocumentWeights)
register("cut/1", Cut)
register("shard-corpus/1", ShardCorpus)
register("last-sent/1", Sent, types={}, make=Sent)
register("held-out/1", HeldOut)
register("held-out-prediction/1", Prediction)
register("held-out-gain/1", Gain)
register("held-out-topics/1", MeanTopics)
register("held-out-trials/1", HeldOutTrials)
register("stream-trials/1", StreamTrials)
register(
    "paused-trials/1",
    PausedTrials,
    types={"trials": StreamTrials, "n_steps": Steps},
    make=PausedTrials,
)
register("cross-fitted-trials/1", CrossFittedTrials)
register("held-out-trial/1", Trial)
register("broadcast/1", Broadcast)
register("row-broadcast/1", LastBroadcast)
register("row-assignments/1", Memo)
register("row-edit/1", Edit)
register("row-inputs/1", EpochGlobals)
register("row-drift/1", Drift)
register("row-nodes/1", NodeTable)
register("row-naturals/1", Naturals)
register("row-edit-attach/1", records.Attach)
register("row-edit-birth/1", records.Birth)
register("row-edit-exchange/1", records.Exchange)
register("row-edit-merge/1", records.Merge)
register("row-edit-remove/1", records.Remove)
register("row-edit-reverse/1", records.Reverse)
register("row-edit-sort/1", records.Sort)
