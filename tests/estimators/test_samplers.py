"""What samplers of counts promise of their chains, whatever the model."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from checks.failures import Failure, failing_visit
from checks.long import along_diagonal
from checks.states import NOTES, TIMES, assert_same, learned
from skbnp import GibbsHDP, GibbsNestedCRP
from skbnp.datasets import make_bars, make_tree

#: Chains whose sweeps do not depend on how many are made.
CHAIN = {"max_iter": 12, "n_chains": 2, "burn_in": 4, "thin": 2, "random_state": 0}
SAMPLERS = {
    "GibbsHDP": GibbsHDP(None, split_merge_sweeps=6, burstiness=False, **CHAIN),
    "GibbsHDP-repeats": GibbsHDP(20, split_merge_sweeps=6, **CHAIN),
    "GibbsNestedCRP": GibbsNestedCRP(
        level_prior=4.0, topic_word_prior=0.1, init="sequential", **CHAIN
    ),
}
BARS = sp.csr_array(make_bars(120, random_state=0).data)
DOCS = {name: BARS for name in SAMPLERS}
DOCS["GibbsNestedCRP"] = sp.csr_array(make_tree(60, random_state=2).data)
#: Learned with the concentrations, and with all priors.
LEARNED = {
    "GibbsHDP": ("doc_concentration", "corpus_concentration"),
    "GibbsNestedCRP": ("child_concentration", "level_prior_"),
}
#: What a fit that ends twice calls topics: by their weights at the first end.
NAMED = {"component_ids", "ids", "lineage", "next_id", "component_ids_", "lineage_"}
NAMED |= {"_next_id", "topic_weights_"}

each_sampler = pytest.mark.parametrize("name", SAMPLERS)


def assert_same_but_for_names(one, two):
    """The same state of chains; of topics, but not of nodes, names may be others."""
    assert_same(one, two, TIMES | NOTES | NAMED)
    assert_same(*(np.sort(fit["topic_weights_"]) for fit in (one, two)))
    of_chains = {}
    for a, b in zip(one["samples_"], two["samples_"], strict=True):
        ids = zip(a.component_ids.tolist(), b.component_ids.tolist(), strict=True)
        of_chains.setdefault(a.chain, set()).update(ids)
    for pairs in of_chains.values():  # each topic has one name in all samples
        names, others = zip(*pairs, strict=True)
        assert len(set(names)) == len(pairs) == len(set(others))


@each_sampler
def test_predictions_of_samples_are_averaged(name):
    fit = clone(SAMPLERS[name]).fit(DOCS[name])
    samples, single = fit.samples_, []
    whole = fit.score(DOCS[name])
    for sample in samples:
        fit.samples_ = [sample]
        single.append(fit.score(DOCS[name]))
    # Averages of probabilities are above those of their logarithms.
    assert len(set(single)) == len(single)
    assert np.mean(single) < whole < max(single) + 0.1


@along_diagonal(("learn", "name"), [False, True, "concentrations", False], LEARNED)
def test_hyperparameters_are_learned_as_asked(name, learn):
    fit = clone(SAMPLERS[name]).set_params(learn_priors=learn, max_iter=6, burn_in=None)
    fit.fit(DOCS[name])
    for prior in (*LEARNED[name], "topic_word_prior"):
        is_learned = learn is True or (learn is not False and prior in LEARNED[name])
        of_levels = prior == "level_prior_"  # its values differ once they are learned
        values = fit.level_prior_ if of_levels else fit.history_[prior]
        assert (len(set(values)) > 1) == is_learned, prior


@along_diagonal(("name", "learn"), SAMPLERS, ["concentrations", True])
def test_warm_start_continues_the_chains_exactly(name, learn):
    whole = clone(SAMPLERS[name]).set_params(learn_priors=learn, n_jobs=2)
    whole.fit(DOCS[name])
    parts = clone(whole).set_params(max_iter=5, warm_start=True, n_jobs=1)
    parts = pickle.loads(pickle.dumps(parts.fit(DOCS[name])))
    parts.set_params(max_iter=7).fit(DOCS[name])
    one, two = learned(whole), learned(parts)
    assert (one.pop("n_iter_"), two.pop("n_iter_")) == (12, 7)
    assert_same_but_for_names(one, two)


@along_diagonal(("name", "error"), SAMPLERS, [Failure, KeyboardInterrupt])
def test_warm_start_continues_after_an_interrupt(name, error):
    whole = clone(SAMPLERS[name]).set_params(max_iter=9).fit(DOCS[name])
    parts = clone(whole).set_params(max_iter=5, warm_start=True)
    with failing_visit(5, error), pytest.raises(error):
        parts.fit(DOCS[name])
    assert parts.history_["step"][-1] == 4
    parts.fit(DOCS[name])
    one, two = learned(whole), learned(parts)
    assert (one.pop("n_iter_"), two.pop("n_iter_")) == (9, 5)
    assert_same_but_for_names(one, two)


@pytest.mark.parametrize("name", LEARNED)
def test_chunks_add_up(name):
    docs = DOCS[name]
    fit = clone(SAMPLERS[name]).set_params(max_iter=5, burn_in=None, n_chains=1, thin=5)
    for chunk in (docs[:40], docs[40:50], docs[50:]):
        fit.partial_fit(chunk)
    (sample,) = fit.samples_
    np.testing.assert_array_equal(
        sample.topic_word_counts.sum(axis=0), docs.sum(axis=0)
    )
    assert fit.history_["step"] == list(range(1, 16))
    assert fit.n_iter_ == 3
    assert fit.n_components_posterior_ == {fit.n_components_: 1.0}


@along_diagonal(("name", "n_sweeps"), SAMPLERS, [2, 0])
def test_failure_in_a_chunk_leaves_the_complete_sweeps(name, n_sweeps):
    fit = clone(SAMPLERS[name]).fit(DOCS[name])
    other = pickle.loads(pickle.dumps(fit))
    with failing_visit(n_sweeps + 1), pytest.raises(Failure):
        fit.partial_fit(DOCS[name][:10])
    if n_sweeps:
        other.set_params(max_iter=n_sweeps, burn_in=1).partial_fit(DOCS[name][:10])
    left, right = learned(fit), learned(other)
    assert_same(left["samples_"], right["samples_"])
    assert_same(left["history_"], right["history_"])
