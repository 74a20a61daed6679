"""A damaged file gives a ValueError or an answer, never the end of the process."""

import os
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from checks.corpora import topic_counts
from checks.damage_runner import OUTCOMES
from checks.estimators import INSTANCES, evaluate, every_estimator, every_kind, rows_of
from checks.states import assert_same, snapshot
from skbnp import HDP
from skbnp.components.tree_sticks import LevelPriors
from skbnp.estimators import _base
from skbnp.models.nested_crp_walks import Walks
from skbnp.rows.batch import Tokens

TESTS = Path(__file__).parents[1]
#: States for each; SKBNP_TEST_DAMAGES asks for more.
N_STATES = int(os.environ.get("SKBNP_TEST_DAMAGES", "15"))
#: Whose states are damaged.
DAMAGED = (
    "HDP-online",
    "HDP-mean-field-online",
    "StickBreakingHDP-online",
    "NestedCRP-batch",
    "GibbsHDP-chains",
    "GibbsNestedCRP-chains",
    "HierarchicalComponentAnalysis-moves",
    "DependentTrees",
    "GibbsDependentTrees-chains",
    "DependentTrees/wide",
    "GibbsDependentTrees-chains/wide",
)


@pytest.mark.weekly
def test_damaged_state_neither_crashes_nor_hangs(seed):
    runner = [sys.executable, "-m", "checks.damage_runner"]
    first = seed * N_STATES
    done = subprocess.run(
        [*runner, str(first), str(first + N_STATES), *DAMAGED],
        cwd=TESTS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    for name, line in zip(DAMAGED, lines, strict=True):
        counts = dict(zip(OUTCOMES, map(int, line.split()[1:]), strict=True))
        assert sum(counts.values()) == N_STATES, line
        assert counts["escaped"] == 0, done.stderr
        # Numbers in range that no fit has.
        assert counts["unexpected"] <= N_STATES // 100, done.stderr
        assert counts["refused"] > 0, name  # shapes and ranges
        assert counts["answered"] > 0, name  # what does not matter


@pytest.mark.parametrize("name", ["GibbsHDP", "GibbsNestedCRP"])
def test_damaged_seats_of_a_chain_are_refused_when_it_goes_on(name, counts):
    fitted = clone(INSTANCES[name]).set_params(warm_start=True).fit(counts)
    state = fitted._chains[0]
    seats = state.tables.dish if name == "GibbsHDP" else state.paths.level
    seats[0] = 100
    with pytest.raises(ValueError, match="of a chain are damaged"):
        pickle.loads(pickle.dumps(fitted)).fit(counts)


def _recent(fitted):
    fitted.partial_fit(np.ones((5, fitted.n_features_in_)))
    fitted._recent.rows[2, 0] = 1e100


def _name(fitted):
    log = fitted._posterior.lineage
    log[0] = log[0]._replace(children=(*log[0].children, 2**31))


def entry(path, index, value):
    """Return what puts a value, or what it makes of the old one, at a place of a fit.

    In an array or a list, or, where `index` is none, in the place of the whole.
    """
    *above, last = path.split(".")

    def damage(fitted):
        holder = fitted
        for name in above:
            is_list = isinstance(holder, (list, dict))
            holder = holder[int(name)] if is_list else getattr(holder, name)
        held = getattr(holder, last, None)
        new = value(held) if callable(value) else value
        if index is None:
            object.__setattr__(holder, last, new)
        else:
            held[index] = new

    return damage


@cache
def saved(name):
    estimator = clone(INSTANCES[name])
    return pickle.dumps(estimator.fit(rows_of(estimator, topic_counts(60, 24))))


_EVERY, _FAR = slice(None), 2**31 - 1
_WORDS = "_posterior.global_stats.topic_words"
_COUNTS = "samples_.-1.topic_word_counts"
_MOMENTS, _NOISE = "_posterior.global_stats.moments", "_posterior.model.noise_rate"
_CENTRE = "_posterior.state.centre"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("HDP-online", entry(f"{_WORDS}.total", 0, -1.0)),
        ("HDP-mean-field-online", entry(f"{_WORDS}.total", 0, -1.0)),
        ("StickBreakingHDP-online", entry(f"{_WORDS}.total", 0, -1.0)),
        ("NestedHDP-online", entry(f"{_WORDS}.total", 0, -1.0)),
        ("HDP-online", _name),
        ("NestedCRP-batch", _name),
        ("DependentTrees", _name),
        ("HDP-online", entry("_posterior.ids", _EVERY, 0)),
        ("HDP-mean-field-online", entry("_posterior.ids", None, np.arange(100))),
        ("HDP-online", entry("n_features_in_", None, np.int64(1000))),
        ("HDP-online", entry("topic_names_", None, {"sun": 3})),
        ("GibbsHDP-chains", entry("_next_id", None, 2**31)),
        ("HDP-online", entry("_posterior.state.weights", -1, 0.0)),
        ("HDP-mean-field-online", entry("_posterior.state.weights", -1, 0.0)),
        ("NestedCRP-batch", entry("_posterior.state.word_counts", _EVERY, np.negative)),
        ("HierarchicalComponentAnalysis-moves", entry(_MOMENTS, (0, 0, 1), 2.0**31)),
        ("HierarchicalComponentAnalysis-moves", entry(f"{_CENTRE}_variances", -1, 0.0)),
        ("HierarchicalComponentAnalysis-moves", entry(f"{_CENTRE}s", 0, 1.0)),
        ("HierarchicalComponentAnalysis-moves", entry(f"{_CENTRE}s", -1, 1e9)),
        ("HierarchicalComponentAnalysis-moves", _recent),
        ("HierarchicalComponentAnalysis-moves", entry(_NOISE, None, 0)),
        ("DependentTrees", entry("_posterior.state.means", None, lambda x: x[:, :3])),
        ("GibbsHDP-chains", lambda fit: fit.history_["n_components"].insert(1, ())),
        ("GibbsHDP", entry(f"{_COUNTS}.indptr", None, np.zeros(0, int))),
        ("GibbsHDP", entry(f"{_COUNTS}.indices", 0, 10**6)),
        ("GibbsNestedCRP", entry(f"{_COUNTS}.indptr", None, np.zeros(0, int))),
        ("GibbsNestedCRP", entry(f"{_COUNTS}.indptr", -1, 0)),
        ("GibbsNestedCRP", entry("samples_.-1.doc_counts", _EVERY, _FAR)),
        ("GibbsNestedCRP", entry("samples_.-1.doc_counts", -1, _FAR)),
    ],
)
def test_numbers_that_no_fit_has_are_refused(name, damage):
    fitted = pickle.loads(saved(name))
    damage(fitted)
    with pytest.raises(ValueError, match=r"The saved [\w. -]+ (is|are) damaged"):
        pickle.loads(pickle.dumps(fitted))


@every_kind()
def test_a_state_without_what_users_read_is_refused(estimator, fitted):
    state = fitted.__getstate__()
    learned = state.keys() - estimator.get_params(deep=False)
    public = {name for name in learned if name.endswith("_")}
    # Without samples there is no fit, and nothing else counts.
    some = {"feature_names_in_", "samples_", "word_concentration_", "word_discount_"}
    for name in sorted(public - some):
        rest = {key: value for key, value in state.items() if key != name}
        with pytest.raises(ValueError, match=f"it has no {name}"):
            type(estimator).__new__(type(estimator)).__setstate__(rest)


def test_priors_of_a_file_may_be_whole(counts):
    fitted = clone(INSTANCES["GibbsHDP"]).fit(counts)
    fitted.topic_word_prior_ = 2**40
    assert pickle.loads(pickle.dumps(fitted)).components_.min() >= 2**40


# Sums that overflow though no count does ----------------------------------------------


@pytest.mark.parametrize("name", ["GibbsHDP", "GibbsNestedCRP"])
def test_a_stream_of_too_many_tokens_is_refused(name, counts):
    fitted = clone(INSTANCES[name]).fit(counts)
    sample = fitted.samples_[-1]
    if name == "GibbsHDP":
        sample.table_counts[0] = 2**31 - 1
    else:
        sample.doc_counts[0] = 2**31 - 1
    del fitted.samples_[:-1]
    loaded = pickle.loads(pickle.dumps(fitted))  # roots may have more than their nodes
    assert loaded.transform(counts).shape[0]
    before = snapshot(loaded)
    with pytest.raises(ValueError, match="counts up to 2147483647"):
        loaded.partial_fit(counts)
    assert_same(before, vars(loaded))


def test_a_tree_without_weights_is_an_error_of_the_kernel(counts):
    tokens = Tokens.from_counts(counts.astype(int))
    priors = LevelPriors(1.0, np.ones(3), np.full(3, 0.1))
    walks = Walks(tokens, priors)
    rng = np.random.default_rng(0)
    walks.sweep(0, walks.n_docs, rng)
    walks.docs[walks.docs > 0] = -5
    with pytest.raises(ValueError, match="no path has weight"):
        walks.sweep(0, walks.n_docs, rng)


# Whole states of the wrong kind -------------------------------------------------------


@every_kind()
def test_a_state_of_another_class_is_refused(estimator, fitted):
    others = {type(other) for other in INSTANCES.values()} - {type(estimator)}
    state = fitted.__getstate__()
    for kind in others:
        with pytest.raises(ValueError, match="is of another class than"):
            kind.__new__(kind).__setstate__(state)


@pytest.mark.parametrize("state", [None, 5, [], "HDP", {}, {"max_iter": 1}], ids=repr)
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(ValueError, match=r"The saved (HDP|state) is"):
        HDP.__new__(HDP).__setstate__(state)


@pytest.mark.parametrize("how", ["damaged", "interrupted"])
def test_an_estimator_stays_if_a_state_cannot_be_loaded(how, counts, monkeypatch):
    hdp = HDP(4, max_iter=1, random_state=0).fit(counts)
    before, state, error = snapshot(hdp), hdp.__getstate__(), ValueError
    state["n_components_"] = -1
    if how == "interrupted":
        error = KeyboardInterrupt

        def interrupt(attributes):
            raise KeyboardInterrupt

        monkeypatch.setattr(_base, "check_fitted", interrupt)
    with pytest.raises(error):
        hdp.__setstate__(state)
    assert_same(before, vars(hdp))


@every_estimator()
def test_what_is_checked_is_true_of_every_fit(estimator, fitted, rows):
    """Also of one that has learned from next to nothing."""
    again = clone(estimator).fit(rows[:2])
    assert_same(vars(again), vars(pickle.loads(pickle.dumps(again))))
    again = pickle.loads(pickle.dumps(fitted))
    assert_same(evaluate(fitted, rows), evaluate(again, rows))
