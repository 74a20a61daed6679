"""Looking at fitted topic models: terms, documents, a printed account, figures."""

from skbnp.inspection._compared import (
    Alignment,
    Consensus,
    Matches,
    Stability,
    align_components,
    consensus_components,
    match_components,
    stability,
)
from skbnp.inspection._exchange import to_lda, to_pyldavis
from skbnp.inspection._groups import TopicGroups as TopicGroups
from skbnp.inspection._groups import (
    TopicGroupsDisplay,
    TopicPath,
    TopicPathDisplay,
    topic_groups,
    topic_path,
)
from skbnp.inspection._history import (
    ComponentsPosteriorDisplay,
    HistoryDisplay,
    TopicTraceDisplay,
)
from skbnp.inspection._lineage import LineageDisplay
from skbnp.inspection._over_time import (
    EpochTreeDisplay,
    emerging_topics,
    topics_over_time,
)
from skbnp.inspection._report import report
from skbnp.inspection._shares import TopicShares, TopicSharesDisplay, topic_shares
from skbnp.inspection._summary import summary
from skbnp.inspection._terms import (
    TopicTermsDisplay,
    set_topic_names,
    top_documents,
    top_terms,
    topics_to_frame,
)
from skbnp.inspection._tokens import TokenTopics, TopicText, token_topics
from skbnp.inspection._trees import TopicTreeDisplay

__all__ = [
    "Alignment",
    "ComponentsPosteriorDisplay",
    "Consensus",
    "EpochTreeDisplay",
    "HistoryDisplay",
    "LineageDisplay",
    "Matches",
    "Stability",
    "TokenTopics",
    "TopicGroupsDisplay",
    "TopicPath",
    "TopicPathDisplay",
    "TopicShares",
    "TopicSharesDisplay",
    "TopicTermsDisplay",
    "TopicText",
    "TopicTraceDisplay",
    "TopicTreeDisplay",
    "align_components",
    "consensus_components",
    "emerging_topics",
    "match_components",
    "report",
    "set_topic_names",
    "stability",
    "summary",
    "to_lda",
    "to_pyldavis",
    "token_topics",
    "top_documents",
    "top_terms",
    "topic_groups",
    "topic_path",
    "topic_shares",
    "topics_over_time",
    "topics_to_frame",
]
