"""Checks of the states of saved estimators, before compiled code reads them.

Learning keeps shapes, types and ranges; a file may be damaged. So they are checked
once, when the state of an estimator is set.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import fields
from numbers import Real
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from skbnp.components.known_topics import KnownWordTopics, TopicPriors
from skbnp.components.seen_words import SeenWords
from skbnp.components.word_topics import WordTopics
from skbnp.inference.chains import ChainState
from skbnp.inference.posterior import Lineage, Posterior
from skbnp.kernels._nested_crp import MAX_LEVELS
from skbnp.trees import Tree, TreeView
from skbnp.utils.hints import fits
from skbnp.utils.ranges import (
    LARGE,
    LARGE_SQUARE,
    MOST,
    MOST_IDS,
    MOST_STEPS,
    Entropy,
    Id,
    In,
    Steps,
)
from skbnp.utils.typing import Array, Ints

#: Least mass at a node: what rounding leaves of none.
LEAST_MASS = -0.5
#: What updates of totals may round off, relative to one count or to the totals: those
#: of a stream of a million steps differ by 1e-10.
ROUNDED = 1e-6

Array, Ints = Array, Ints
#: Types of what `fit` leaves, by name; no name means two things.
FITTED: dict[str, Any] = {
    "_burnt": Steps,
    "_chains": tuple[ChainState, ...] | None,
    "_data": bytes | None,
    "_seed_entropy": Entropy,
    "_kept": list[object],
    "_last": tuple[ChainState, ...],
    "_n_seen": Steps,
    "_next_id": Id,
    "_posterior": Posterior,
    "_seen": SeenWords,
    "child_concentration_": float,
    "component_ids_": Ints,
    "components_": Array,
    "converged_": bool,
    "corpus_concentration_": float,
    "doc_concentration_": float,
    "history_": dict[str, list],
    "level_concentration_": Array,
    "level_prior_": Array,
    "lineage_": list[Lineage],
    "loading_variance_": float,
    "mean_": Array,
    "n_active_components_": int,
    "n_components_": Annotated[int, In(1, MOST)],
    "n_components_posterior_": dict[int, float],
    "n_features_in_": Annotated[int, In(1, MOST)],
    "n_iter_": Steps,
    "noise_variance_": float,
    "past_weight_": float,
    "prior_concentration_": float,
    "samples_": list[object],
    "topic_names_": dict[int, str],
    "topic_weights_": Array,
    "topic_word_prior_": float | Array,
    "tree_": TreeView,
    "vmf_concentration_": float,
}


def check_needed(attributes: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise unless fitted attributes exist."""
    for name in names:
        if name not in attributes:
            raise ValueError(f"The saved estimator is damaged: it has no {name}.")


def check_fitted(attributes: Mapping[str, Any]) -> None:
    """Raise unless fitted attributes exist and have their types."""
    for name, hint in FITTED.items():
        if name in attributes and not fits(attributes[name], hint):
            raise _damaged(name, f"is {attributes[name]!r:.80}, not {hint}")
    check_lineage("lineage_", attributes["lineage_"])
    for name in FITTED.keys() & attributes.keys():
        value, is_number = attributes[name], fits(attributes[name], float)
        if is_number:
            check_number(name, value, least=0, most=LARGE_SQUARE)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            check_array(name, value, value.shape, least=-LARGE)
    shape = (attributes["n_components_"],)
    if "component_ids_" in attributes:
        check_ids("component_ids_", attributes["component_ids_"], shape)
    if "topic_weights_" in attributes:
        weights = attributes["topic_weights_"]
        check_array("topic_weights_", weights, shape, most=1.0 + 1e-6)


def check_history(history: dict[str, list], names: Iterable[str]) -> None:
    """Raise unless the trace has these columns, of numbers, all of one length."""
    if history.keys() != set(names) or len({len(one) for one in history.values()}) > 1:
        raise _damaged("history_", "has other columns than a fit writes")
    for name, values in history.items():
        if name == "epoch":
            continue  # labels
        is_whole = name in ("step", "n_components")
        hint = list[int] if is_whole else list[float | tuple[float, ...]]
        if not fits(values, hint):
            raise _damaged("history_", f"has no numbers in column {name}")
        if name == "step":
            for value in (min(values, default=0), max(values, default=0)):
                check_number("history_", value, least=0, most=MOST_STEPS)


def check_lineage(name: str, lineage: list[Lineage]) -> None:
    """Raise unless a log has entries."""
    if not lineage:
        raise _damaged(name, "is empty")


def check_ids(name: str, ids: Any, shape: tuple[int, ...]) -> None:
    """Raise unless an array has ids of components, each once."""
    check_array(name, ids, shape, kind="i", most=MOST_IDS)
    if len(np.unique(ids)) < len(ids):
        raise _damaged(name, "names a component twice")


def check_kinds(owner: object, **kinds: type | tuple[type, ...]) -> None:
    """Raise unless attributes have their classes."""
    for name, kind in kinds.items():
        check_kinds_of(getattr(owner, name), kind, name)


def check_posterior(
    posterior: Posterior, most: float, **kinds: type | tuple[type, ...]
) -> None:
    """Raise unless parts of a posterior have their classes, and numbers are in range.

    `most` is the largest number in the model and in totals.
    """
    check_kinds(posterior, **kinds)
    origin = posterior.step_origin
    check_number("step_origin", origin, least=-MOST_STEPS, most=posterior.n_steps)
    check_lineage("lineage", posterior.lineage)
    check_ids("ids", posterior.ids, (len(posterior.ids),))
    check_numbers(posterior.model, most)
    check_numbers(posterior.global_stats, most)


def check_numbers(owner: Any, most: float = LARGE) -> None:
    """Raise unless the numbers among the fields of an object are in range."""
    for item in fields(owner):
        value = getattr(owner, item.name)
        numbers = value if isinstance(value, tuple) else (value,)
        for number in numbers:
            if isinstance(number, Real):
                check_number(item.name, number, least=-most, most=most)


def check_array(
    name: str,
    array: Any,
    shape: tuple[int, ...],
    *,
    kind: str = "f",
    least: float = 0,
    most: float | None = None,
) -> None:
    """Raise unless an array has a given shape and numbers in range.

    Doubles ("f") are at most `LARGE` without `most`, integers of any size ("i") `MOST`.
    """
    types = "iu" if kind == "i" else "f"
    if not isinstance(array, np.ndarray) or array.shape != shape:
        raise _damaged(name, f"is no array of shape {shape}")
    if array.dtype.kind not in types or (kind == "f" and array.dtype != np.float64):
        raise _damaged(name, f"has dtype {array.dtype}")
    if not (array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned):
        raise _damaged(name, "is not laid out as it was saved")
    if most is None:
        most = MOST if kind == "i" else LARGE
    if array.size and not (array.min() >= least and array.max() <= most):
        raise _damaged(name, f"has entries out of [{least:g}, {most:g}]")


def check_doc_counts(counts: Any, tree: Tree) -> None:
    """Raise unless each node has at least the documents of its children together.

    So none of a level has more than the root, and sums of a level are counts.
    """
    check_array("doc_counts", counts, (len(tree),), kind="i")
    below = np.zeros(len(tree), dtype=np.int64)
    np.add.at(below, tree.parent[1:], counts[1:].astype(np.int64))
    if (below > counts).any() or (counts[1:] < 1).any():
        raise _damaged("doc_counts", "has nodes with other documents than their paths")


def check_counts(name: str, counts: Any, shape: tuple[int, int]) -> None:
    """Raise unless a sparse array of whole counts has a shape and canonical order."""
    check_sparse(name, counts, shape, kind="i")
    if counts.data.dtype != np.int32 or counts.data.sum(dtype=np.int64) > MOST:
        raise _damaged(name, "holds something else than counts of a corpus")


def check_sparse(name: str, counts: Any, shape: tuple[int, int], *, kind: str) -> None:
    """Raise unless a sparse array of numbers >= 0 has a shape and canonical order.

    `kind` is that of `check_array`.
    """
    if not isinstance(counts, sp.csr_array) or counts.shape != shape:
        raise _damaged(name, f"is no csr_array of shape {shape}")
    kinds = {"indptr": "i", "indices": "i", "data": kind}
    for part, its_kind in kinds.items():
        values = getattr(counts, part)
        if not isinstance(values, np.ndarray):
            raise _damaged(name, "does not consist of arrays")
        check_array(name, values, (values.size,), kind=its_kind)
    limits, n_stored = counts.indptr, counts.indices.size
    if not (limits.size == shape[0] + 1 and counts.data.size == n_stored):
        raise _damaged(name, "has arrays of other lengths")
    # SciPy allows for entries behind the last limit; kernels do not.
    if limits[0] != 0 or limits[-1] != n_stored or (np.diff(limits) < 0).any():
        raise _damaged(name, "has other limits of rows than it has entries")
    if n_stored and counts.indices.max() >= shape[1]:
        raise _damaged(name, f"has an index beyond {shape[1]} columns")


def check_signed(name: str, values: Any, shape: tuple[int, int]) -> None:
    """Raise unless a sparse array of doubles of any sign has a given shape."""
    if not (isinstance(values, sp.csr_array) and isinstance(values.data, np.ndarray)):
        raise _damaged(name, f"is no csr_array of shape {shape}")
    magnitudes = copy(values)
    if values.data.dtype.kind == "f":
        magnitudes.data = np.abs(values.data)
    check_sparse(name, magnitudes, shape, kind="f")


def check_seen_words(seen: Any, n_features: int) -> int:
    """Raise unless the rows of a table are distinct words; return their number."""
    words: Any = getattr(seen, "words", None)
    check_array("seen words", words, (np.size(words),), kind="i")
    if words.dtype != np.intp or seen.n_vocabulary != n_features:
        raise _damaged("seen words", f"is not of {n_features} features")
    check_number("seen words", words.max(initial=0), least=0, most=n_features - 1)
    if len(np.unique(words)) < len(words):
        raise _damaged("seen words", "names a word twice")
    return len(words)


def check_known_topics(known: Any, n_topics: int, n_features: int, eta: float) -> None:
    """Raise unless known topics fit a table of `n_topics` and `n_features`."""
    check_kinds_of(known, TopicPriors, "known topics")
    words, columns = known.words, known.columns
    check_array("known topics", columns, (np.size(columns),), kind="i")
    check_array("known words", words, (np.size(words),), kind="i")
    check_number("known topics", columns.max(initial=0), least=0, most=n_topics - 1)
    check_number("known words", words.max(initial=0), least=0, most=n_features - 1)
    if len(np.unique(columns)) < len(columns) or (np.diff(words) <= 0).any():
        raise _damaged("known topics", "names a topic or a word twice")
    check_array("known topics", known.values, (len(words), len(columns)))
    check_array("known topics", known.fixed_stats, (2, len(columns)), least=-LARGE)
    fixed = known.is_fixed
    is_mask = isinstance(fixed, np.ndarray) and fixed.dtype == bool
    if not is_mask or fixed.shape != columns.shape or known.eta != eta:
        raise _damaged("known topics", "is not of these topics")


def check_topic_words(global_stats: Any, n: int, n_features: int, eta: float) -> None:
    """Raise unless totals have a table of words of `n` topics; `eta` is their prior."""
    check_kinds(global_stats, topic_words=WordTopics)
    table = global_stats.topic_words
    check_kinds(table, seen=SeenWords)
    n_seen = check_seen_words(table.seen, n_features)
    # The table has rows and columns in reserve; those of rows are empty.
    n_rows, width = np.shape(table._values)
    least = n_seen + (n_seen < n_features)
    check_number("topic_words", n_rows, least=least, most=n_features)
    check_number("topic_words", width, least=max(n, 1), most=np.inf)
    lowest = 0.0
    if isinstance(table, KnownWordTopics):
        check_known_topics(table.known, n, n_features, eta)
        lowest = -eta / max(table._scale, 1e-300)
    check_array("topic_words", table._values, (n_rows, width), least=lowest)
    reserve = table._values[n_seen:]
    check_array("topic_words", reserve, reserve.shape, most=0.0)
    check_number("topic_words", table._scale, least=1e-300, most=LARGE)
    # Counts are entries times the scale.
    most = table._values.max(initial=0.0) * table._scale
    check_number("topic_words", most, least=0.0, most=LARGE)
    check_array("topic_words", table.total, (n,), least=-LARGE)
    sums = table._values[:n_seen, :n].sum(axis=0) * table._scale
    if (np.abs(table.total - sums) > ROUNDED * (1.0 + np.abs(sums))).any():
        raise _damaged("topic_words", "has other totals than counts")
    if not (eta * n_features + table.total > 0.0).all():
        raise _damaged("topic_words", "has a topic without mass")


def check_kinds_of(value: object, kind: type | tuple[type, ...], name: str) -> None:
    """Raise unless a value has its class."""
    if not isinstance(value, kind):
        raise _damaged(name, f"is of a wrong type, {_kind(value)}")


def check_type(name: str, value: object, hint: Any) -> None:
    """Raise unless a value has the type of a hint."""
    if not fits(value, hint):
        raise _damaged(name, f"is of a wrong type, {_kind(value)}")


def check_number(name: str, value: Any, *, least: float, most: float) -> None:
    """Raise unless a number is in range."""
    if not (isinstance(value, Real) and least <= float(value) <= most):
        raise _damaged(name, f"is {value!r}, not in [{least:g}, {most:g}]")


def check_level_priors(priors: Any) -> int:
    """Raise unless priors of a topic tree are one per level; return the depth."""
    n_levels = len(priors.level_prior)
    check_number("max_depth", n_levels, least=1, most=MAX_LEVELS)
    for name in ("level_prior", "topic_prior"):
        check_array(name, getattr(priors, name), (n_levels,), least=1e-300)
    return n_levels


def _kind(value: object) -> str:
    return type(value).__name__


def _damaged(name: str, how: str) -> ValueError:
    return ValueError(f"The saved {name} is damaged: it {how}.")
