"""Checks of the states of saved estimators, before compiled code reads them.

Learning keeps shapes, types and ranges, which classes declare with their attributes; a
file may be damaged. So types and ranges are checked when an object is made from a file
(`skbnp.utils.plain`), and here, when the state of an estimator is set, whether sizes
and parts go together.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from numbers import Real
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from skbnp.components.known_topics import TopicPriors
from skbnp.components.word_topics import SeenWords, WordTopics
from skbnp.trees import Tree
from skbnp.utils.ranges import LARGE, LARGE_SQUARE, MOST_IDS, MOST_STEPS, Sized, fits

#: What updates of totals may round off, relative to one count or to the totals: those
#: of a stream of a million steps differ by 1e-10.
ROUNDED = 1e-6
#: What a fit may lack, though its class declares it.
OPTIONAL = {"feature_names_in_", "topic_names_"}


def check_fitted(estimator: Any) -> None:
    """Raise unless an estimator has what its class declares, of the types declared.

    What has a value without a fit, or is computed, may be absent.
    """
    kind, attributes = type(estimator), vars(estimator)
    hints = _hints_of(kind)
    hints = {name: hints[name] for name in hints if "_" in (name[0], name[-1])}
    for name in sorted(hints.keys() - attributes.keys() - OPTIONAL):
        if not hasattr(kind, name):
            raise ValueError(f"The saved estimator is damaged: it has no {name}.")
    for name in hints.keys() & attributes.keys():
        value = attributes[name]
        check_type(name, value, hints[name])
        if hints[name] not in (float, np.ndarray, float | np.ndarray):
            continue
        if not isinstance(value, np.ndarray):
            check_number(name, value, least=0, most=LARGE_SQUARE)
        elif value.dtype.kind == "f":
            check_type(name, value, Annotated[np.ndarray, Sized(*value.shape)])
    check_ids("component_ids_", estimator.component_ids_, MOST_IDS)
    check_sizes(estimator, {"n_components": estimator.n_components_})


def check_sizes(owner: object, sizes: dict[str, int]) -> None:
    """Raise unless arrays of an object, and of its parts, have the declared sizes.

    `sizes` are known ones; others, those of the first array that has them, are added.
    """
    for name, hint in _hints_of(type(owner)).items():
        value: Any = getattr(owner, name, None)
        if value is None or hint is Any:
            continue
        for declared in _sized_in(hint):
            for size, actual in zip(declared.sizes, value.shape, strict=True):
                wanted = size
                if isinstance(size, str):
                    wanted = sizes.setdefault(size, actual)
                if actual != wanted:
                    raise damaged(name, f"has {actual}, not {wanted} {size}")
        if is_dataclass(value):
            check_sizes(value, sizes)


def _hints_of(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _sized_in(hint: Any) -> Iterator[Sized]:
    """Yield the sizes that a type hint declares."""
    if get_origin(hint) is Annotated:
        yield from (one for one in get_args(hint) if isinstance(one, Sized))
    elif get_origin(hint) in (Union, UnionType):
        for one in get_args(hint):
            yield from _sized_in(one)


def check_history(history: dict[str, list], names: Iterable[str]) -> None:
    """Raise unless the trace has these columns, of numbers, all of one length."""
    if history.keys() != set(names) or len({len(one) for one in history.values()}) > 1:
        raise damaged("history_", "has other columns than a fit writes")
    for name, values in history.items():
        if name == "epoch":
            continue  # labels
        is_whole = name in ("step", "n_components")
        hint = list[int] if is_whole else list[float | tuple[float, ...]]
        if not fits(values, hint):
            raise damaged("history_", f"has no numbers in column {name}")
        if name == "step":
            for value in (min(values, default=0), max(values, default=0)):
                check_number("history_", value, least=0, most=MOST_STEPS)


def check_ids(name: str, values: np.ndarray, most: int) -> None:
    """Raise unless numbers from 0 to `most` are each there once."""
    check_type(name, values, Annotated[np.ndarray, Sized(values.size, most=most)])
    if len(np.unique(values)) < len(values):
        raise damaged(name, "names one twice")


def check_posterior(
    posterior: Any, n_features: int, **kinds: type | tuple[type, ...]
) -> dict[str, int]:
    """Raise unless parts of a posterior have their classes and go together.

    Return the sizes of its arrays, by name.
    """
    for name, kind in kinds.items():
        check_type(name, getattr(posterior, name), kind)
    steps = posterior.n_steps
    check_number("step_origin", posterior.step_origin, least=-MOST_STEPS, most=steps)
    check_ids("ids", posterior.ids, MOST_IDS)
    n = posterior.state.n_components
    sizes = {"n_components": n, "n_nodes": n, "n_features": n_features}
    check_sizes(posterior, sizes)
    if not np.array_equal(
        posterior.ids, getattr(posterior.state, "ids", posterior.ids)
    ):
        raise damaged("tree_", "has other ids than the posterior")
    words = getattr(posterior.global_stats, "topic_words", None)
    if words is not None:
        check_topic_words(words, sizes, posterior.state.topic_word_prior)
    return sizes


def check_doc_counts(counts: Any, tree: Tree) -> None:
    """Raise unless each node has at least the documents of its children together.

    So none of a level has more than the root, and sums of a level are counts.
    """
    below = np.zeros(len(tree), dtype=np.int64)
    np.add.at(below, tree.parent[1:], counts[1:].astype(np.int64))
    if (below > counts).any() or (counts[1:] < 1).any():
        raise damaged("doc_counts", "has nodes with other documents than their paths")


def check_seen_words(seen: SeenWords, n_features: int) -> None:
    """Raise unless the rows of a table are distinct words of a vocabulary."""
    if seen.n_vocabulary != n_features:
        raise damaged("seen words", f"is not of {n_features} features")
    check_ids("seen words", seen.words, n_features - 1)


def check_known_topics(
    known: TopicPriors, n_topics: int, n_features: int, eta: float
) -> None:
    """Raise unless known topics fit a table of `n_topics` and `n_features`."""
    check_sizes(known, {})
    check_ids("known topics", known.columns, n_topics - 1)
    check_ids("known words", known.words, n_features - 1)
    if (np.diff(known.words) <= 0).any() or known.eta != eta:
        raise damaged("known topics", "is not of these topics and words")


def check_topic_words(table: Any, sizes: dict[str, int], eta: float) -> None:
    """Raise unless a table of words is one of topics whose prior is `eta`."""
    check_type("topic_words", table, WordTopics)
    n_topics, n_features = sizes["n_components"], sizes["n_features"]
    check_sizes(table, sizes)
    check_seen_words(table.seen, n_features)
    # The table has rows and columns in reserve; those of rows are empty.
    n_seen, (n_rows, width) = len(table.seen), table._values.shape
    least = n_seen + (n_seen < n_features)
    check_number("topic_words", n_rows, least=least, most=n_features)
    check_number("topic_words", width, least=max(n_topics, 1), most=np.inf)
    values, lowest = table._values[:n_seen], 0.0
    if len(table.known):
        check_known_topics(table.known, n_topics, n_features, eta)
        lowest = -eta / table._scale
    if values.min(initial=0.0) < lowest or table._values[n_seen:].any():
        raise damaged("topic_words", "has counts out of range")
    # Counts are entries times the scale.
    most = values.max(initial=0.0) * table._scale
    check_number("topic_words", most, least=0.0, most=LARGE)
    sums = values[:, :n_topics].sum(axis=0) * table._scale
    if (np.abs(table.total - sums) > ROUNDED * (1.0 + np.abs(sums))).any():
        raise damaged("topic_words", "has other totals than counts")
    if not (eta * n_features + table.total > 0.0).all():
        raise damaged("topic_words", "has a topic without mass")


def check_type(name: str, value: object, hint: Any) -> None:
    """Raise unless a value has the type and range of a hint."""
    if not fits(value, hint):
        raise damaged(name, f"is {value!r:.80}, not {hint}")


def check_number(name: str, value: Any, *, least: float, most: float) -> None:
    """Raise unless a number is in range."""
    if not (isinstance(value, Real) and least <= float(value) <= most):
        raise damaged(name, f"is {value!r}, not in [{least:g}, {most:g}]")


def check_places(name: str, places: np.ndarray, n: int, *, least: int) -> None:
    """Raise unless numbers are positions among n things, or from `least` on."""
    check_number(name, places.min(initial=0), least=least, most=np.inf)
    check_number(name, places.max(initial=least), least=least, most=n - 1)


def check_levels(n_levels: int, tree: Tree, most: int) -> None:
    """Raise unless a tree has at most `n_levels` levels, which are at most `most`."""
    check_number("max_depth", n_levels, least=1, most=most)
    check_number("tree_", tree.max_depth, least=0, most=n_levels - 1)


def damaged(name: str, how: str) -> ValueError:
    """Return the error of a damaged file."""
    return ValueError(f"The saved {name} is damaged: it {how}.")
