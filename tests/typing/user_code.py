"""Code as users write it: `mypy` and `basedpyright` read it, nothing runs it."""

from typing import assert_type

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline

import skbnp.dask
from skbnp import (
    HDP,
    DependentTrees,
    GibbsDependentTrees,
    GibbsHDP,
    GibbsNestedCRP,
    HierarchicalComponentAnalysis,
    NestedCRP,
    StickBreakingHDP,
    reduce_topics,
)
from skbnp.callbacks import HeldOutMonitor
from skbnp.datasets import load_docstrings, make_bars
from skbnp.inspection import (
    TopicGroups,
    TopicGroupsDisplay,
    TopicTermsDisplay,
    TopicTreeDisplay,
    summary,
    top_documents,
    top_terms,
    topic_groups,
)
from skbnp.metrics import perplexity, split_tokens

texts = ["one text", "and another"]
X = CountVectorizer().fit_transform(texts)
counts = sp.csr_array(np.eye(3))
dense = np.eye(3)

# -- topics ----------------------------------------------------------------------------
hdp = HDP(n_components=20, doc_concentration=0.5, n_jobs=2, random_state=0).fit(X)
assert_type(hdp, HDP)
assert_type(HDP().partial_fit(counts).fit(dense, None), HDP)
assert_type(hdp.transform(X), np.ndarray)
assert_type(HDP().fit_transform(X), np.ndarray)
assert_type(hdp.score(X), float)
assert_type(hdp.perplexity(X), float)
assert_type(hdp.components_, np.ndarray)
assert_type(hdp.topic_weights_, np.ndarray)
assert_type(hdp.component_ids_, np.ndarray)
assert_type(hdp.get_feature_names_out(), np.ndarray)
assert_type(hdp.n_components_, int)
assert_type(hdp.n_iter_, int)
assert_type(hdp.converged_, bool)
assert_type(hdp.corpus_concentration_, float)
assert_type(hdp.elbo_terms(X), dict[str, float])
assert_type(hdp.merge_components([1, 2]), HDP)
assert_type(reduce_topics(hdp, 2), HDP)
for step, kind, parents, children in hdp.lineage_:
    print(step, kind, len(parents), len(children), hdp.history_["n_components"][0])

sticks = StickBreakingHDP(random_state=np.random.RandomState(0)).fit(X)
assert_type(sticks, StickBreakingHDP)
gibbs = GibbsHDP(n_chains=2, max_iter=10).fit(X)
assert_type(gibbs, GibbsHDP)
assert_type(gibbs.n_components_posterior_, dict[int, float])
assert_type(gibbs.log_joint_, float)
print(gibbs.samples_[0])

# -- trees -----------------------------------------------------------------------------
nested = NestedCRP(max_depth=3, topic_word_prior=[1.0, 0.5, 0.1]).fit(X)
assert_type(nested, NestedCRP)
assert_type(nested.apply(X), np.ndarray)
assert_type(nested.decision_path(X), sp.csr_array)
assert_type(nested.level_prior_, np.ndarray)
print(nested.tree_.to_text(), nested.tree_.children(0)[0])
assert_type(GibbsNestedCRP(random_state=0).fit(X), GibbsNestedCRP)

hca = HierarchicalComponentAnalysis(random_state=0).fit(dense)
assert_type(hca, HierarchicalComponentAnalysis)
assert_type(hca.inverse_transform(hca.transform(dense)), np.ndarray)
assert_type(hca.score_samples(dense), np.ndarray)
assert_type(hca.mean_, np.ndarray)

years = [2001, 2002, 2002]
trees = DependentTrees(vmf_concentration=30.0).fit(counts, epochs=years)
assert_type(trees, DependentTrees)
assert_type(trees.transform(counts, epochs=years), np.ndarray | sp.csr_array)
assert_type(trees.vmf_concentration_, float)
assert_type(trees.score(counts, epochs=years), float)
print(trees.epochs_[2001].n_samples, trees.tree_.max_depth)
assert_type(GibbsDependentTrees().fit(counts, epochs=years), GibbsDependentTrees)

# -- clusters --------------------------------------------------------------------------
assert_type(skbnp.dask.HDP(n_components=5).fit(counts), skbnp.dask.HDP)
on_cluster = skbnp.dask.DependentTrees().fit(counts, epochs=years)
assert_type(on_cluster, skbnp.dask.DependentTrees)
assert_type(on_cluster.n_components_, int)

# -- with scikit-learn -----------------------------------------------------------------
pipeline = make_pipeline(CountVectorizer(), HDP(random_state=0))
pipeline.fit(texts)
Pipeline([("count", CountVectorizer()), ("topics", NestedCRP())]).fit_transform(texts)
search = GridSearchCV(HDP(), {"topic_word_prior": [0.01, 0.1]}, cv=3).fit(X)
cross_val_score(HDP(), X).mean()
hdp.set_params(max_iter=3).set_callbacks(HeldOutMonitor(X)).fit(X)

# -- reading ---------------------------------------------------------------------------
assert_type(top_terms(hdp, n=5), list[list[str]])
assert_type(summary(pipeline, n_components=8), str)
assert_type(summary(search.best_estimator_), str)
documents = top_documents(hdp, X, n=3)
assert_type(documents, np.ndarray)
rows, their_shares = top_documents(hdp, X, return_shares=True)
assert_type(their_shares, np.ndarray)
groups = topic_groups(hdp, X, n_groups=2)
assert_type(groups, TopicGroups)
print(topic_groups(dense, doc_topic=counts).linkage.shape, groups.gain + 1.0)
assert_type(TopicGroupsDisplay(groups=groups).plot(), TopicGroupsDisplay)
display = TopicTermsDisplay.from_estimator(hdp, ["one", "two"])
assert_type(display, TopicTermsDisplay)
display.figure_.savefig("topics.png")
TopicTreeDisplay.from_estimator(nested).ax_.set_title("Tree")
assert_type(perplexity(hdp, X), float)
observed, unseen = split_tokens(X, random_state=0)
assert_type(observed, sp.csr_array)
print(load_docstrings(), make_bars(10).data)
