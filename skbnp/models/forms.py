"""Registry of all classes that files of estimators and checkpoints can contain.

A tag names what is saved, whatever module its class is in, and lists the names of its
fields in files, in the order of the attributes of the class. So classes and attributes
may be renamed freely. If fields are added, removed or change their meaning, the version
of the tag is raised.
"""

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.components.known_topics import KnownWordTopics, TopicPriors
from skbnp.components.seen_words import SeenWords
from skbnp.components.tree_moves import TreeMoves
from skbnp.components.tree_sticks import LevelPriors
from skbnp.components.word_topics import WordRows, WordTopics
from skbnp.inference.engine import Learner
from skbnp.inference.memory import (
    DocumentCache,
    DocumentStarts,
    DocumentWeights,
    RunningAverage,
)
from skbnp.inference.monitor import Monitor
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.inference.protocols import Corpus, Moves
from skbnp.inference.schedules import BatchSchedule, OnlineSchedule
from skbnp.inference.shards import Broadcast
from skbnp.inference.trials import Rejections
from skbnp.models.dependent_slices.chain_state import TreeChainState
from skbnp.models.dependent_slices.directions import Directions
from skbnp.models.dependent_slices.sample import TreeSample
from skbnp.models.dependent_trees.epoch import ClosedEpoch, EpochModel, EpochPosterior
from skbnp.models.dependent_trees.local import Memo
from skbnp.models.dependent_trees.memory import LastBroadcast
from skbnp.models.dependent_trees.moves import records
from skbnp.models.dependent_trees.moves.settings import EpochMoves
from skbnp.models.dependent_trees.node_table import Drift, Naturals, NodeTable
from skbnp.models.dependent_trees.shard_tasks import Edit, EpochGlobals
from skbnp.models.dependent_trees.state import EpochState, EpochStats, TreePriors
from skbnp.models.hca import state as hca
from skbnp.models.hca.frame import Frame
from skbnp.models.hca.local import Memo as ComponentMemo
from skbnp.models.hca.memory import RowCache
from skbnp.models.hca.model import Model as ComponentModel
from skbnp.models.hca.moves.online import RecentRows
from skbnp.models.hca.moves.proposals import Proposal as ComponentProposal
from skbnp.models.hca.moves.structure import ComponentEdits, Rival
from skbnp.models.hdp.bound_trials import BoundTrials, Run
from skbnp.models.hdp.burstiness import Burstiness
from skbnp.models.hdp.collapsed_model import CollapsedHDP, CollapsedStats
from skbnp.models.hdp.cross_fit import CrossFittedTrials
from skbnp.models.hdp.fold_in import MeanTopics
from skbnp.models.hdp.held_out import HeldOut, Prediction
from skbnp.models.hdp.held_out_trials import HeldOutTrials, Trial
from skbnp.models.hdp.memory import CollapsedCache, MeanFieldCache
from skbnp.models.hdp.memory import Memo as MeanFieldMemo
from skbnp.models.hdp.memory import Statistics as CollapsedMemo
from skbnp.models.hdp.model import DirectHDP, HDPState, HDPStats
from skbnp.models.hdp.moves.held_out import EndUnused
from skbnp.models.hdp.moves.printed import PrintedMoves
from skbnp.models.hdp.moves.repeats import LearnBurstiness
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.moves.structure import ExactMoves, MinibatchMoves
from skbnp.models.hdp.outliers import Outliers, Proposal
from skbnp.models.hdp.posterior import Evidence, HDPPosterior, MoveRecords
from skbnp.models.hdp.reservoir import Reservoir
from skbnp.models.hdp.shard_corpus import BlockDocumentWeights, Sent, ShardCorpus
from skbnp.models.hdp.shard_schedules import BlockSchedule, WholeSchedule
from skbnp.models.hdp.shard_tasks import Cut
from skbnp.models.hdp.stream_trials import PausedTrials, StreamTrials
from skbnp.models.hdp_franchise.chain import FranchiseState
from skbnp.models.hdp_franchise.model import Concentrations, TableAssignments
from skbnp.models.hdp_franchise.sample import FranchiseSample
from skbnp.models.hdp_sticks.local import Tables
from skbnp.models.hdp_sticks.model import StickHDP, StickState, StickStats
from skbnp.models.nested_crp.local import DocPaths
from skbnp.models.nested_crp.memory import PathCache, TreeCorpus
from skbnp.models.nested_crp.model import NestedModel, PathStats, TopicTree
from skbnp.models.nested_crp.moves.online import OnlineTreeEdits
from skbnp.models.nested_crp.moves.structure import TreeEdits
from skbnp.models.nested_crp_walks.chain import NestedState
from skbnp.models.nested_crp_walks.model import Paths
from skbnp.models.nested_crp_walks.sample import NestedSample
from skbnp.models.nested_hdp.model import MixedTree, NestedHDPModel, NestedStats
from skbnp.models.nested_hdp.posterior import NestedPosterior
from skbnp.trees import Tree, TreeView
from skbnp.utils.plain import register

Array = NDArray[np.float64]
Ints = NDArray[np.intp]


def _tree_corpus(
    X: sp.csr_array, size: int | None, scale: float, memos: list[DocPaths]
) -> TreeCorpus:
    """Restore a saved corpus of a topic tree, with the paths of its documents."""
    corpus = TreeCorpus(X, size, scale)
    corpus.memos = memos
    return corpus


# Trees, and settings of users: their constructors check them.
TREE = {"ids": Ints, "depth": Ints, "next_id": int}
VIEW = {"parent": Ints, "weight": Array, "ids": Ints, "in_use": NDArray[np.bool_]}
register("tree/1", Tree, types=TREE, make=Tree)
register(
    "tree-view/2",
    TreeView,
    types=VIEW | {"by_id": bool},
    make=TreeView,
    older={"tree-view/1": {"by_id": False}},
)
register("split-merge/1", SplitMerge, make=SplitMerge)
register("tree-moves/1", TreeMoves, make=TreeMoves)
register("epoch-moves/1", EpochMoves, make=EpochMoves)

# What models have learned.
register("lineage/1", Lineage, "step kind parents children")
POSTERIOR = (
    "model state global_stats ids lineage seed_entropy n_steps step_origin n_seen "
    "is_warm init_fraction max_components"
)
register("posterior/1", Posterior, POSTERIOR)
register("seen-words/1", SeenWords, "words n_vocabulary")
register(
    "word-topics/2",
    WordTopics,
    "values seen scale total",
    state=WordTopics.__getstate__,
)
register(
    "topic-priors/1",
    TopicPriors,
    "columns words values is_fixed is_whole topic_word_prior fixed_stats",
)
register(
    "known-word-topics/1",
    KnownWordTopics,
    "values seen scale total known",
    state=KnownWordTopics.__getstate__,
)
register("level-priors/1", LevelPriors, "concentration level_prior topic_prior seen")
NO_TRIALS = {"surprises": None, "trials": None, "missed": None}
register(
    "hdp-posterior/4",
    HDPPosterior,
    POSTERIOR + " trials_ended move_records reservoir alike "
    "is_cross_fitted surprises trials missed",
    older={
        "hdp-posterior/1": {"alike": None, "is_cross_fitted": False, **NO_TRIALS},
        "hdp-posterior/2": NO_TRIALS,
        "hdp-posterior/3": {"missed": None},
    },
)
register(
    "hdp-surprises/2",
    Outliers,
    "counts n_new n_wait proposal born young",
    older={"hdp-surprises/1": {"young": ()}},
)
register("hdp-proposal/1", Proposal, "topics n_judges gains squares shares")
register("hdp-burstiness/1", Burstiness, "discount concentration")
register(
    "hdp-state/4",
    HDPState,
    "weights doc_concentration corpus_concentration topic_word_prior burstiness "
    "by_tables prediction_concentration background_weight",
    older={"hdp-state/3": {"background_weight": 0.0}},
)
HDP_PRIORS = "learn_concentrations learn_topic_prior corpus_prior doc_prior"
register("hdp-collapsed/1", CollapsedHDP, HDP_PRIORS)
register(
    "hdp-collapsed-stats/1",
    CollapsedStats,
    "topic_words tables length_slope log_predictive n_tokens",
)
register("hdp-mean-field/1", DirectHDP, HDP_PRIORS)
register(
    "hdp-mean-field-stats/1",
    HDPStats,
    "topic_words entropy n_docs_using weight_slope weight_offset length_slope "
    "length_offset n_tokens",
)
register(
    "hdp-reservoir/1",
    Reservoir,
    "keys counts last_key last_held_out_key n_before n_next n_last n_scored "
    "mean_score score_spread surprise",
)
register("hdp-move-records/1", MoveRecords, "idle pairs pairs_on_hold waits credit")
register("hdp-merge-evidence/1", Evidence, "n_docs gain square check_at")
register("hdp-sticks/1", StickHDP, "n_tables " + HDP_PRIORS)
register(
    "hdp-sticks-state/1",
    StickState,
    "tables doc_concentration corpus_concentration topic_word_prior last",
)
register(
    "hdp-sticks-stats/1",
    StickStats,
    "topic_words tables table_entropy entropy n_sticks log_left stick_offset n_tokens",
)
register(
    "nested-crp/1",
    NestedModel,
    "priors learn_concentration learn_topic_prior concentration topic",
)
register("nested-crp-state/1", TopicTree, "tree word_counts stub_masses")
register(
    "nested-crp-stats/1",
    PathStats,
    "word_counts word_variances stub_masses stub_variances off_tree_tokens entropy",
)
register(
    "nested-hdp/1",
    NestedHDPModel,
    "stop_prior go_prior learn_concentrations learn_topic_prior child_prior doc_prior",
)
register("nested-hdp-posterior/1", NestedPosterior, POSTERIOR + " documents")
register(
    "nested-hdp-state/2",
    MixedTree,
    "tree weights concentrations child_concentration topic_word_prior burstiness "
    "by_tables",
    older={"nested-hdp-state/1": {"by_tables": False}},
)
register(
    "nested-hdp-stats/1",
    NestedStats,
    "topic_words tables growth log_predictive n_tokens",
)
register(
    "hca/1",
    ComponentModel,
    "n_levels concentration loading_variance frame noise_shape noise_rate "
    "centre_variance learn_loading_variance",
)
register("hca-frame/1", Frame, "shift scale")
register("hca-recent-rows/1", RecentRows, "rows mass n_new n_last")
register(
    "hca-state/1",
    hca.State,
    "tree loadings loading_variances stub_masses centres centre_variances mean "
    "mean_variance noise_shape noise_rate",
)
register(
    "hca-stats/1",
    hca.Stats,
    "stub_masses moments coordinates products total square n_rows entropy",
)
register(
    "dependent-trees/1",
    EpochModel,
    "priors learns_concentration learns_prior_concentration learns_past_weight "
    "is_first",
)
register(
    "dependent-trees-priors/1",
    TreePriors,
    "child_concentration stop_concentration parent_weight past_weight",
)
register(
    "dependent-trees-posterior/1",
    EpochPosterior,
    POSTERIOR + " label first_step window n_open unconverged seen closed",
)
register(
    "dependent-trees-state/1",
    EpochState,
    "tree masses history means concentrations previous previous_rows above "
    "centroid concentration prior_concentration previous_ids n_unseen",
)
register("dependent-trees-stats/1", EpochStats, "masses sums entropies")
register(
    "dependent-trees-closed-epoch/1",
    ClosedEpoch,
    "label state n_rows first_step n_records",
)

# Chains of samplers, and what they keep.
register(
    "franchise-chain/1",
    FranchiseState,
    "number step ids next_id lineage begin log_joint tables concentrations "
    "n_splits n_merges",
)
register("franchise-tables/2", TableAssignments, "table n_tables size dish word_size")
register(
    "franchise-concentrations/2",
    Concentrations,
    "corpus doc topic_word_prior word_discount word_concentration",
)
register(
    "franchise-sample/2",
    FranchiseSample,
    "topic_word_counts table_counts component_ids doc_concentration "
    "corpus_concentration topic_word_prior log_joint chain step word_discount "
    "word_concentration",
)
register(
    "nested-chain/1",
    NestedState,
    "number step ids next_id lineage begin log_joint paths priors",
)
register("nested-paths/1", Paths, "node level")
register(
    "nested-sample/1",
    NestedSample,
    "component_ids depth topic_word_counts doc_counts child_concentration "
    "level_prior topic_word_prior log_joint chain step",
)
register(
    "slice-chain/1",
    TreeChainState,
    "number step ids next_id lineage begin log_joint number_of_epoch tree node "
    "directions history previous_rows previous concentration prior_concentration "
    "past_weight sums earlier_masses earlier_sums closed",
)
register("slice-directions/1", Directions, "drawn row n_unseen n_axes n_used")
register("slice-sample/1", TreeSample, "epoch log_joint chain step past_weight")

TREE_CORPUS = {"X": object, "size": int | None, "scale": float, "memos": list[DocPaths]}
# What a fit that goes on has learned, and what its moves and trials wait for.
learned = partial(register, checked=False)
learned(
    "learner/1",
    Learner,
    "posterior corpus schedule local_step statistics_cache moves warm_up n_passes",
)
learned(
    "monitor/1",
    Monitor,
    "verbose last_message history criterion parts_name unit tol size least_change "
    "change n_passes last start",
)
register("no-moves/1", Moves, "")
register("prune-unused/1", EndUnused, "moves")
register("learn-burstiness/1", LearnBurstiness, "moves")
learned("bound-moves/1", ExactMoves, "moves pairs pairs_on_hold")
learned("minibatch-moves/1", MinibatchMoves, "moves compares_pairs")
learned("printed-moves/1", PrintedMoves, "moves compares_pairs columns weights")
learned("rejections/1", Rejections, "waits")
learned("tree-edits/1", TreeEdits, "moves rejections ends_idle")
learned("online-tree-edits/1", OnlineTreeEdits, "n_docs_counted moves")
learned(
    "component-edits/1",
    ComponentEdits,
    "moves rejections groups_only tol grows has_grown n_refused has_ended best "
    "has_begun rival",
)
register(
    "component-rival/1", Rival, "posterior assignments rest_stats proposal attempted"
)
register(
    "component-proposal/1",
    ComponentProposal,
    "kind parents children state rows merged_into top new_node flipped_node",
)
register("no-cache/1", DocumentCache, "")
register("document-starts/1", DocumentStarts, "starts")
register("hdp-tables/1", Tables, "limits tokens table_limits topics phi zeta")
register("running-average/1", RunningAverage, "documents")
register("word-rows/1", WordRows, "words values")
learned(
    "hdp-collapsed-cache/1",
    CollapsedCache,
    "n_forgetting n_passes parts document_weights",
)
register(
    "hdp-collapsed-part/1",
    CollapsedMemo,
    "stats",
    types={"stats": CollapsedStats | NestedStats},
)
learned("hdp-mean-field-cache/1", MeanFieldCache, "n_forgetting n_passes parts")
register("hdp-mean-field-part/1", MeanFieldMemo, "stats doc_topic n_tokens losses")
learned("path-cache/1", PathCache, "corpus rest_stats is_exact")
register(
    "path-assignments/1",
    DocPaths,
    "limits stubs shares levels pairs tokens entropies bounds",
)
learned("component-cache/1", RowCache, "scale rest_stats assignments")
register(
    "component-assignments/1",
    ComponentMemo,
    "limits stubs shares means moments entropies bounds",
)
learned("corpus/1", Corpus, "X")
register(
    "tree-corpus/1",
    TreeCorpus,
    "X size scale assignments",
    TREE_CORPUS,
    make=_tree_corpus,
    state=lambda corpus: {name: getattr(corpus, name) for name in TREE_CORPUS},
)
register("batch-schedule/1", BatchSchedule, "n_rows n_parts scale n_joint")
register(
    "online-schedule/2",
    OnlineSchedule,
    "n_rows batch_size offset decay seed_entropy first_step total_samples "
    "least_samples n_seen reshuffle n_forgetting full_size",
    older={"online-schedule/1": {"full_size": 1}},
)
register("block-schedule/1", BlockSchedule, "sizes n_groups steps")
register("whole-schedule/1", WholeSchedule, "sizes")
register("document-weights/1", DocumentWeights, "values scale")
register(
    "block-weights/1",
    BlockDocumentWeights,
    "weights newcomer_weights n_blocks newcomers",
)
register("cut/1", Cut, "seed_entropy n_blocks")
register("shard-corpus/1", ShardCorpus, "shards cut sizes words n_tokens left_out sent")
register("last-sent/1", Sent, types={}, make=Sent)
register("held-out/1", HeldOut, "train rows docs observed held_out")
register(
    "held-out-prediction/2",
    Prediction,
    "tokens prior total rest word_topic shown opens",
)
register("held-out-topics/1", MeanTopics, "counts eta norm")
TRIALS = (
    "held_out moves passes_left finish n_final_passes folds_words prior_limit "
    "learn_burstiness length posterior n_tokens n_trials n_accepted final is_complete "
    "n_final model run best uses_burstiness tries_tables alike is_halving may_reduce "
    "n_rejected"
)
REDUCES: dict[str, Any] = {"may_reduce": True, "n_rejected": 0}
register(
    "held-out-trials/5",
    HeldOutTrials,
    TRIALS,
    checked=False,
    older={
        "held-out-trials/2": {"alike": [], "is_halving": False} | REDUCES,
        "held-out-trials/3": {"is_halving": False} | REDUCES,
        "held-out-trials/4": {"n_rejected": 0},
    },
)
register(
    "stream-trials/3",
    StreamTrials,
    TRIALS + " missed suited n_shared n_logged",
    checked=False,
    older={
        "stream-trials/1": dict(suited=None, n_shared=0, n_logged=None, n_rejected=0),
        "stream-trials/2": {"n_rejected": 0},
    },
)
register(
    "paused-trials/1",
    PausedTrials,
    types={"trials": StreamTrials, "n_steps": int},
    make=PausedTrials,
)
learned(
    "cross-fitted-trials/1",
    CrossFittedTrials,
    "posterior held_out make moves n_carried trials",
)
learned(
    "held-out-trial/2",
    Trial,
    "kind learner monitor n_started prior_started n_changes prior_falls n_passes "
    "gain logs prediction",
    older={"held-out-trial/1": {"gain": 0.0}},
)
learned(
    "bound-trials/1",
    BoundTrials,
    "run moves passes_left posterior candidate candidate_passes n_trials n_rejected",
)
learned("bound-trial/1", Run, "learner bound rise")
learned("broadcast/1", Broadcast, "content name")
register("row-broadcast/1", LastBroadcast, "broadcast edits")
register("row-assignments/1", Memo, "nodes weights scores rest step")
register("row-edit/1", Edit, "records rows assignments")
register("row-inputs/1", EpochGlobals, "table drift seen")
register("row-drift/1", Drift, "step sums")
register(
    "row-nodes/1", NodeTable, "tree ids directions log_weights concentration naturals"
)
register(
    "row-naturals/1", Naturals, "lengths mean_lengths shares spreads slopes dimension"
)
register("row-edit-attach/1", records.Attach, "node old parent")
register("row-edit-birth/1", records.Birth, "target new ids change")
register("row-edit-exchange/1", records.Exchange, "nodes names")
register("row-edit-merge/1", records.Merge, "source target")
register("row-edit-remove/1", records.Remove, "node")
register("row-edit-reverse/1", records.Reverse, "node parent")
register("row-edit-sort/1", records.Sort, "ids")
