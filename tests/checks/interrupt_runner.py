"""Interrupt fits in a process of their own, and print what happened as JSON.

Arguments are cases: a scenario, the name of an instance in `checks.estimators` and a
number of jobs, with colons between them.
"""

import json
import signal
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from checks.corpora import topic_counts
from checks.estimators import (
    INSTANCES,
    criterion,
    fresh,
    gives_proportions,
    is_variational,
    rows_of,
    still,
)
from checks.failures import fit_updates
from checks.states import differences, learned

#: Learned between passes, a step that is complete by itself.
BETWEEN_PASSES = ".burstiness", ".word_discount_", ".word_concentration_"


def report(estimator, X, reference, sound=None):
    """Say whether the estimator is usable and equals its uninterrupted twin.

    Twins that are in `sound` have been found usable: what is equal to one is so, too.
    """
    result = [
        one
        for one in differences(comparable(estimator), comparable(reference))
        if not any(name in one for name in BETWEEN_PASSES)
    ]
    known = not result and sound is not None
    if known and id(reference) in sound:
        usable = True
    else:
        usable = is_usable(estimator, X[:9])
        if known and usable:
            sound.add(id(reference))
    history = estimator.history_
    n_chains = estimator.get_params().get("n_chains", 1)  # an entry for each
    return {
        "n_updates": n_complete(estimator),
        "history_steps": list(history["step"])[::n_chains],
        "history_lengths": sorted({len(t) / n_chains for t in history.values()}),
        "n_components": estimator.n_components_,
        "usable": usable,
        "differences": result[:3],
    }


def is_usable(estimator, X):
    """Whether `transform` gives proportions, or numbers, and `score` a number."""
    result = estimator.transform(X)
    if gives_proportions(estimator) and not np.allclose(result.sum(axis=1), 1.0):
        return False
    return bool(np.isfinite(result).all() and np.isfinite(estimator.score(X)))


def n_complete(estimator):
    """Updates, or sweeps, that the estimator has made."""
    if is_variational(estimator):
        return estimator._posterior.n_steps
    return max(estimator.history_["step"])


def comparable(estimator):
    """Leave out what the end of a pass adds: its number and its bound."""
    state, last = learned(estimator), criterion(estimator)
    if last != "log_joint":
        history = state["history_"].items()
        state["history_"] = {n: v for n, v in history if n != last}
    return {name: value for name, value in state.items() if name != "n_iter_"}


def interrupt_every_line(estimator, n_jobs, *, method):
    """Ctrl-C at each line of the engine: at the first visit of one line, or, if there
    is one, at the third of the next.
    """
    X = rows_of(estimator, topic_counts(40, 12))
    estimator = fresh(still(estimator), n_jobs=n_jobs, max_iter=3)
    if method == "partial_fit":
        estimator.partial_fit(X)
    twins, result, sound = {}, [], set()
    places = by_turns(list_lines(estimator, method, X))
    for place in places:
        victim = again(estimator, method, X)
        raised = run_until(place, lambda: getattr(victim, method)(X))  # noqa: B023
        if not victim.__sklearn_is_fitted__():
            result.append([*place[:2], "not fitted"])
            continue
        n_updates = victim._posterior.n_steps
        if n_updates not in twins:
            twins[n_updates] = twin(estimator, method, X, n_updates)
        seen = report(victim, X, twins[n_updates], sound)
        lengths = [len(seen["history_steps"])]
        if seen["history_steps"] != list(range(1, n_updates + 1)):
            result.append(
                [*place[:2], f"{n_updates} updates, {lengths} in the history"]
            )
        elif seen["history_lengths"] != lengths:
            result.append([*place[:2], "traces of several lengths"])
        elif seen["differences"] or not seen["usable"]:
            result.append([*place[:2], *seen["differences"]])
        elif not raised:
            result.append([*place[:2], "no KeyboardInterrupt"])
    return {"n_places": len(places), "found": result}


def again(estimator, method, X):
    """Return what the call begins from: a new estimator, or one amid a stream."""
    victim = fresh(estimator)
    return victim.partial_fit(X) if method == "partial_fit" else victim


def twin(estimator, method, X, n_updates):
    """Return the estimator after so many complete updates."""
    other = again(estimator, method, X)
    begun = other._posterior.n_steps if method == "partial_fit" else 0
    try:
        return fit_updates(other, X, n_updates - begun, method)
    except AssertionError:  # there are no more
        return other


#: Functions between which a fit moves from update to update. Before and after the loop
#: nothing is learned; compiled code and helpers are interrupted on their way back.
WATCHED = {
    ("engine.py", "learn"),
    ("engine.py", "one_pass"),
    ("engine.py", "learn_round"),
    ("engine.py", "stochastic_update"),
    ("engine.py", "decay_and_add"),
    ("engine.py", "blend"),
    ("engine.py", "end_pass"),
    ("posterior.py", "end_pass"),
    ("posterior.py", "stochastic_update"),
    ("engine.py", "learn_priors"),
    ("posterior.py", "_recompute_sums"),
    ("posterior.py", "refresh"),
    ("local.py", "collect"),
    ("monitor.py", "record"),
    ("monitor.py", "end_pass"),
    ("statistics.py", "decay"),
    ("statistics.py", "add"),
    ("protocols.py", "one_pass"),
}


def walk(on_line, call):
    """Call with `on_line(file, line)` before each line of the watched functions."""

    names = {}  # of files, by their paths

    def local(frame, event, argument):
        if event == "line":
            on_line(names[frame.f_code.co_filename], frame.f_lineno)
        return local

    def trace(frame, event, argument):
        code = frame.f_code
        path = code.co_filename
        if path not in names:
            names[path] = Path(path).name
        return local if (names[path], code.co_name) in WATCHED else None

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)


def list_lines(estimator, method, X):
    """List (file, line, how often before) of the first and the third visit of lines."""
    visits = {}

    def note(*place):
        visits[place] = visits.get(place, 0) + 1

    victim = again(estimator, method, X)
    walk(note, lambda: getattr(victim, method)(X))
    return [
        (*place, number)
        for place, total in visits.items()
        for number in (0, 2)
        if number < total
    ]


def by_turns(places):
    """Return one place of each line: first visits and last ones by turns."""
    lines = {}
    for place in places:
        lines.setdefault(place[:2], []).append(place)
    return [visits[-(at % 2)] for at, visits in enumerate(lines.values())]


def run_until(place, call):
    """Send SIGINT before the line; whether KeyboardInterrupt came out."""
    visits = [0]

    def strike(*here):
        if here == place[:2]:
            if visits[0] == place[2]:
                signal.raise_signal(signal.SIGINT)
            visits[0] += 1

    try:
        walk(strike, call)
    except KeyboardInterrupt:
        return True
    return False


SCENARIOS = {
    "lines-fit": lambda e, n_jobs: interrupt_every_line(e, n_jobs, method="fit"),
    "lines-partial_fit": lambda e, n_jobs: interrupt_every_line(
        e, n_jobs, method="partial_fit"
    ),
}

if __name__ == "__main__":
    seen = {}
    for case in sys.argv[1:]:
        scenario, name, n_jobs = case.split(":")
        seen[case] = SCENARIOS[scenario](INSTANCES[name], int(n_jobs))
    print(json.dumps(seen))
