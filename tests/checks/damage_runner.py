"""Load damaged states and use them: `python damage_runner.py FIRST LAST NAME ...`.

A process of its own, since what is looked for ends or stops the process. Prints, for
each name, how many states had each of `OUTCOMES`.
"""

import copy
import faulthandler
import sys
import traceback
import warnings
from collections import Counter

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from checks.corpora import topic_counts
from checks.estimators import EVALUATIONS, INSTANCES, rows_of, takes_warm_start

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None

#: Seconds that the use of a state may take.
PATIENCE = 30
#: Bytes that it may ask for.
MEMORY = 4 << 30
#: ValueError when it is loaded, or another error then; ValueError when it is used, or
#: another error or a RuntimeWarning then; an answer to all.
OUTCOMES = ("refused", "escaped", "failed", "unexpected", "answered")
#: What stands in the place of anything.
ODD = (
    None, -1, 0, 1, 2**31, 2**40, -(2**63), 1e300, -1.0, np.nan, np.inf, "", b"",
    2**31 - 1, 2**63 - 1, 1e308, -1e308, 1e-320,
    (), [], {}, np.zeros(0), np.zeros((1, 1), dtype=np.int32),
)  # fmt: skip
#: What becomes of an array.
ON_ARRAYS = {
    "empty": lambda a, rng: a[:0],
    "short": lambda a, rng: a[:-1],
    "long": lambda a, rng: np.concatenate([a, a]),
    "reversed": lambda a, rng: a[::-1],
    "transposed": lambda a, rng: a.T[::2],
    "flat": lambda a, rng: a.ravel()[:-1],
    "deep": lambda a, rng: a[None],
    "text": lambda a, rng: a.astype(str),
    "objects": lambda a, rng: a.astype(object),
    "single": lambda a, rng: a.astype(np.float32),
    "short integers": lambda a, rng: a.astype(np.int8),
    "swapped bytes": lambda a, rng: a.astype(a.dtype.newbyteorder()),
    **{
        f"an entry {value}": lambda a, rng, value=value: _with_entry(a, rng, value)
        for value in (-1, 10**6, 2**31 - 1, 2**62, np.nan, np.inf, 1e308, -1e308)
    },
    # Sums overflow, no entry does.
    "all at the limit": lambda a, rng: np.full_like(a, _limit_of(a)),
    "all at half the limit": lambda a, rng: np.full_like(a, _limit_of(a) / 2),
    "all at the limit of counts": lambda a, rng: np.full_like(a, 2**31 - 1),
    "all alike": lambda a, rng: np.full_like(a, a.flat[0]),
    # Parents are children, limits fall, names change places.
    "rolled": lambda a, rng: np.roll(a, 1),
    "shuffled": lambda a, rng: rng.permutation(a.ravel()).reshape(a.shape),
    "negated": lambda a, rng: -a,
    "an entry of another": lambda a, rng: _with_entry(a, rng, rng.choice(a.ravel())),
}


def _limit_of(array):
    kind = np.iinfo if array.dtype.kind in "iu" else np.finfo
    return kind(array.dtype).max


def _with_entry(array, rng, value):
    array = array.copy()
    with np.errstate(invalid="ignore"):
        array.flat[rng.integers(max(array.size, 1))] = value
    return array


def places(state, path=()):
    """Yield the path to all that a state holds, containers included."""
    if path:
        yield path
    if isinstance(state, dict):
        for key in state:
            yield from places(state[key], (*path, key))
    elif isinstance(state, (list, tuple)):
        for at in range(min(len(state), 4)):
            yield from places(state[at], (*path, at))
    elif sp.issparse(state):
        for name in ("data", "indices", "indptr", "_shape"):
            yield from places(getattr(state, name), (*path, name))


def damaged(state, rng):
    """Return a copy with one thing changed, and what it was."""
    paths = [path for path in places(state) if path[0] != "_skbnp_version"]
    is_array = [isinstance(_at(state, path), np.ndarray) for path in paths]
    weights = np.where(is_array, 4.0, 1.0)
    path = paths[rng.choice(len(paths), p=weights / weights.sum())]
    value = _at(state, path)
    if isinstance(path[-1], str) and not sp.issparse(_at(state, path[:-1])):
        if rng.random() < 0.03:
            return _without(state, path), (".".join(map(str, path)), "gone")
    if isinstance(value, np.ndarray) and rng.random() < 0.9:
        how = rng.choice(list(ON_ARRAYS))
        try:
            new = ON_ARRAYS[how](value, rng)
        except (IndexError, OverflowError, ValueError):
            new = np.zeros(0)
    else:
        new = ODD[rng.integers(len(ODD))]
        how = repr(new)
    return _with(state, path, new), (".".join(map(str, path)), str(how))


def _at(state, path):
    for key in path:
        state = getattr(state, key) if sp.issparse(state) else state[key]
    return state


def _without(state, path):
    above = {**_at(state, path[:-1])}
    del above[path[-1]]
    return _with(state, path[:-1], above)


def _with(state, path, new):
    if not path:
        return new
    key, rest = path[0], path[1:]
    if sp.issparse(state):
        state = state.copy()
        vars(state)[key] = _with(getattr(state, key), rest, new)
        return state
    if isinstance(state, dict):
        return {**state, key: _with(state[key], rest, new)}
    return type(state)(
        _with(item, rest, new) if at == key else item for at, item in enumerate(state)
    )


def use(state, kind, rows):
    """Load a state and ask for all that it says; return what came of it."""
    estimator = kind.__new__(kind)
    try:
        estimator.__setstate__(copy.deepcopy(state))
    except ValueError:
        return "refused"
    except Exception as error:
        return _reported("escaped", error)
    worst = "answered"
    calls = [
        *(lambda name=name: getattr(estimator, name)(rows) for name in EVALUATIONS
          if hasattr(kind, name)),
        lambda: estimator.components_,
        lambda: estimator.n_active_components_,
        lambda: copy.deepcopy(estimator).partial_fit(rows[:20]),
        lambda: _going_on(copy.deepcopy(estimator)).fit(rows),
    ]  # fmt: skip
    for call in calls:
        try:
            call()
        except ValueError:
            worst = "failed" if worst == "answered" else worst
        except Exception as error:
            worst = _reported("unexpected", error)
    return worst


def _going_on(estimator):
    if takes_warm_start(estimator):
        estimator.set_params(warm_start=True)
    return estimator


def _reported(outcome, error):
    at = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error} ({at.filename}:{at.lineno})"
    print("   ", outcome, what, flush=True, file=sys.stderr)
    return outcome


def main(name, first, last):
    """Damage a state of an estimator of the list, once for each seed.

    In turns that after `fit`, in which chains can go on, and that of a stream. Behind
    a name "/wide" asks for rows of which most columns are empty, and others later.
    """
    estimator, _, is_wide = name.partition("/")
    estimator = INSTANCES[estimator]
    rows = later = rows_of(estimator, topic_counts(60, 24))
    if is_wide:
        parts = rows.data, 3 * rows.indices, rows.indptr
        rows = sp.csr_array(parts, (60, 72))
        later = sp.csr_array((rows.data, rows.indices + 1, rows.indptr), (60, 72))
    with warnings.catch_warnings(action="ignore"):
        fits = [clone(estimator).fit(rows) for _ in range(2)]
        fits[1].partial_fit(later[:30])
    parameters, result = fits[0].get_params(deep=False), Counter()
    for seed in range(first, last):
        state = fits[seed % 2].__getstate__()
        learned = {key: state[key] for key in state.keys() - parameters.keys()}
        learned = dict(sorted(learned.items()))
        with warnings.catch_warnings(action="ignore"):
            mutant, what = damaged(learned, np.random.default_rng(seed))
        print(name, seed, *what, flush=True, file=sys.stderr)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        whole = {**state, **mutant}
        kept = [key for key in state if key in parameters or key in mutant]
        result[use({key: whole[key] for key in kept}, type(fits[0]), rows)] += 1
        faulthandler.cancel_dump_traceback_later()
    print(name, *(result[outcome] for outcome in OUTCOMES), flush=True)


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", RuntimeWarning)
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name in sys.argv[3:]:
        main(name, int(sys.argv[1]), int(sys.argv[2]))
