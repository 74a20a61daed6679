"""Registry of all classes that files of estimators and checkpoints can contain.

A tag has the folder of the model and the name of the class, whatever module of the
folder the class is in. If attributes change their meaning, `archive.FORMAT` is raised.
"""

from dataclasses import fields
from importlib import import_module
from typing import Any, get_type_hints

import scipy.sparse as sp

from skbnp.components.word_topics import WordTopics
from skbnp.inference.engine import Learner
from skbnp.models.dependent_trees.memory import EpochLearner
from skbnp.models.nested_crp.local import DocPaths, TreeCorpus
from skbnp.trees import Tree, TreeView
from skbnp.utils.plain import register
from skbnp.utils.typing import Array, Flags, Ints

#: Classes whose attributes are saved, by module.
CLASSES = {
    "components.known_topics": "TopicPriors",
    "components.tree_sticks": "LevelPriors",
    "components.word_topics": "SeenWords WordRows",
    "inference.engine": "DocumentCache DocumentStarts DocumentWeights RunningAverage",
    "inference.monitor": "Monitor",
    "inference.posterior": "Lineage Posterior",
    "inference.protocols": "BatchSchedule Corpus Moves OnlineSchedule Part",
    "inference.shards": "Broadcast",
    "inference.trials": "Rejections",
    "models.dependent_slices.chain": "TreeChainState",
    "models.dependent_slices.model": "Directions TreeSample",
    "models.dependent_trees.epoch": "ClosedEpoch EpochModel EpochPosterior",
    "models.dependent_trees.local": "Memo Naturals NodeTable",
    "models.dependent_trees.memory": (
        "Edit EpochCache EpochGlobals LastBroadcast RowLocalStep"
    ),
    "models.dependent_trees.state": "EpochState EpochStats TreePriors",
    "models.dependent_trees.structure": "EpochEdits",
    "models.hca.local": "Memo RowCache",
    "models.hca.model": "Model",
    "models.hca.moves": "ComponentEdits Proposal RecentRows Rival",
    "models.hca.state": "Frame State Stats",
    "models.hdp.births": "EndUnused LearnBurstiness",
    "models.hdp.burstiness": "Burstiness",
    "models.hdp.fold_in": "MeanTopics",
    "models.hdp.model": "CollapsedHDP CollapsedStats DirectHDP HDPState HDPStats",
    "models.hdp.moves": "PrintedMoves",
    "models.hdp.posterior": (
        "HDPPosterior Outliers PartCache PartMemo Proposal Reservoir"
    ),
    "models.hdp.shards": (
        "Block BlockDocumentWeights BlockSchedule Cut Sent ShardCorpus"
    ),
    "models.hdp.stream_trials": "Restart",
    "models.hdp_franchise.chain": "FranchiseState",
    "models.hdp_franchise.model": "Concentrations FranchiseSample TableAssignments",
    "models.hdp_sticks": "BoundMerges StickHDP StickState StickStats Tables",
    "models.nested_crp.local": "DocPaths PathCache",
    "models.nested_crp.model": "NestedModel PathStats TopicTree",
    "models.nested_crp.moves": "OnlineTreeEdits TreeEdits",
    "models.nested_crp_walks": "NestedSample NestedState Paths",
    "models.nested_hdp": "MixedTree NestedHDPModel NestedPosterior NestedStats",
}
#: Settings of users, whose constructors check them.
SETTINGS = {
    "components.tree_sticks": "TreeMoves",
    "models.dependent_trees.epoch": "EpochMoves",
    "models.hdp.groups": "Groups",
    "models.hdp.moves": "SplitMerge",
}
for _classes in (CLASSES, SETTINGS):
    for _module, _names in _classes.items():
        for _name in _names.split():
            _kind = getattr(import_module(f"skbnp.{_module}"), _name)
            register(_kind, make=_kind if _classes is SETTINGS else None)

TREE = {"ids": Ints, "depth": Ints, "next_id": int}
VIEW: dict[str, Any] = {"parent": Ints, "weight": Array, "ids": Ints}
VIEW |= {"in_use": Flags, "by_id": bool}
register(Tree, types=TREE, make=Tree)
register(TreeView, types=VIEW, make=TreeView)
register(WordTopics, state=WordTopics.__getstate__)

# Local steps are of several classes; `Learner.check` asks whether there is one.
LEARNER = {one.name: get_type_hints(Learner)[one.name] for one in fields(Learner)}
LEARNER["local_step"] = object
register(Learner, types=LEARNER)
register(EpochLearner, types=LEARNER)
TREE_CORPUS = {"X": object, "size": int | None, "scale": float, "memos": list[DocPaths]}


def _tree_corpus(
    X: sp.csr_array, size: int | None, scale: float, memos: list[DocPaths]
) -> TreeCorpus:
    """Restore a saved corpus of a topic tree, with the paths of its documents."""
    corpus = TreeCorpus(X, size, scale)
    corpus.memos = memos
    return corpus


register(
    TreeCorpus,
    types=TREE_CORPUS,
    make=_tree_corpus,
    state=lambda corpus: {name: getattr(corpus, name) for name in TREE_CORPUS},
)
