"""Start of chains of the Chinese restaurant franchise: topics of tokens."""

import numpy as np
import scipy.sparse as sp

from skbnp.inference.executor import Executor
from skbnp.models.hdp.prediction import FixedTopics, MixturePredictor
from skbnp.models.hdp_franchise.sample import FranchiseSample
from skbnp.rows.tokens import Tokens
from skbnp.utils.typing import Ints32

#: Products of tokens and topics at a time, where a fitted model seats tokens.
PRODUCTS = 1 << 22


def draw_topics(
    tokens: Tokens,
    counts: sp.csr_array,
    topics: FixedTopics | FranchiseSample,
    rng: np.random.Generator,
    executor: Executor,
) -> Ints32:
    """Draw a topic for each token given its document and fixed topics, (n_tokens,)."""
    dish = np.empty(len(tokens), dtype=np.int32)
    n_topics = len(topics.doc_prior) - 1
    per_part = max(PRODUCTS // n_topics, 1)
    docs = max(per_part * counts.shape[0] // max(len(tokens), 1), 1)
    predictor, word_topic = MixturePredictor([topics]), topics.word_topic()
    for first in range(0, counts.shape[0], docs):
        last = min(first + docs, counts.shape[0])
        theta = predictor.infer(topics, counts[first:last], executor)
        for begin in range(tokens.begin[first], tokens.begin[last], per_part):
            part = slice(begin, min(begin + per_part, tokens.begin[last]))
            doc = np.searchsorted(
                tokens.begin, np.arange(part.start, part.stop), side="right"
            )
            masses = theta[doc - 1 - first] * word_topic[tokens.words[part]]
            np.cumsum(masses, axis=1, out=masses)
            x = rng.random(len(masses)) * masses[:, -1]
            drawn = (masses <= x[:, None]).sum(axis=1)
            dish[part] = np.minimum(drawn, n_topics - 1)
    return dish
