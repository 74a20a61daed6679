"""What an estimator has learned as containers, numbers and arrays, and back.

A saved estimator speaks of no class but its own and, by name, of those of `HOMES`, so
that whoever loads it has one class to trust.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

__all__ = ["from_plain", "to_plain"]

#: Modules whose classes are taken apart.
HOMES = ("skbnp.components.", "skbnp.inference.", "skbnp.models.", "skbnp.trees.")
#: Key of a dict that stands for something else; its value says what.
IS, HOLDS, NUMBER = "__is__", "__holds__", "__number__"
#: What is never taken apart.
ATOMS = (str, bytes, int, float, type(None))


def to_plain(value: object, outside: Sequence[object] = ()) -> Any:
    """Take objects of the package apart; the same object becomes the same dict.

    What is not of the package, such as an array or an estimator, stays as it is. An
    object that holds itself, by others, is named by a number there; objects `outside`,
    such as threads and connections, are named by their place, and left out.
    """
    seen: dict[int, tuple[object, Any]] = {}
    whole: dict[int, dict] = {}  # objects that are being taken apart
    for place, item in enumerate(outside):
        seen[id(item)] = item, {IS: "outside", HOLDS: place}

    def walk(value: Any) -> Any:
        if isinstance(value, ATOMS):
            return value
        if id(value) in whole:
            node = whole[id(value)]
            node.setdefault(NUMBER, len(seen))
            return {IS: "again", HOLDS: node[NUMBER]}
        if id(value) not in seen:
            # With the value, so that nothing else gets its id meanwhile.
            whole[id(value)] = node = {}
            made = _taken_apart(value, walk)
            if node:
                made[NUMBER] = node[NUMBER]
            del whole[id(value)]
            seen[id(value)] = value, made
        return seen[id(value)][1]

    return walk(value)


def from_plain(value: object, outside: Sequence[object] = ()) -> Any:
    """Put together what `to_plain` has taken apart, around other objects `outside`.

    Raises
    ------
    ValueError
        If an object is none of `HOMES`, or does not consist of what it should.
    """
    seen: dict[int, tuple[object, Any]] = {}
    numbered: dict[int, object] = {}

    def walk(value: Any) -> Any:
        if isinstance(value, ATOMS):
            return value
        if id(value) not in seen:
            seen[id(value)] = value, _put_together(value, walk, numbered, outside)
        return seen[id(value)][1]

    return walk(value)


def _taken_apart(value: Any, walk: Callable[[Any], Any]) -> Any:
    if type(value) is list and value and all(_is_record(item) for item in value):
        kind = type(value[0])
        if all(type(item) is kind for item in value):  # a log: one dict for all
            return {IS: f"list of {_name_of(kind)}", HOLDS: [tuple(v) for v in value]}
    if type(value) in (list, tuple):
        return type(value)(walk(item) for item in value)
    if type(value) is dict:
        plain = {key: walk(item) for key, item in value.items()}
        if all(isinstance(key, str) for key in plain) and IS not in plain:
            return plain
        return {IS: "dict", HOLDS: [walk(item) for item in value.items()]}
    if isinstance(value, type) and _is_ours(value):
        return {IS: "type", HOLDS: _name_of(value)}
    kind = type(value)
    if not _is_ours(kind):
        return value
    holds: Any
    if kind.__reduce__ is not object.__reduce__:
        holds = list(value.__reduce__()[1])
    elif isinstance(value, tuple):
        holds = list(value)
    elif is_dataclass(value):
        holds = {item.name: getattr(value, item.name) for item in fields(value)}
    else:
        holds = value.__getstate__() or {}
    return {IS: _name_of(kind), HOLDS: walk(holds)}


def _put_together(
    value: Any,
    walk: Callable[[Any], Any],
    numbered: dict[int, object],
    outside: Sequence[object],
) -> Any:
    if type(value) in (list, tuple):
        return type(value)(walk(item) for item in value)
    if type(value) is not dict:
        return value
    if IS not in value:
        return {key: walk(item) for key, item in value.items()}
    name: Any = value[IS]
    holds: Any = value.get(HOLDS)
    try:
        if name == "again":
            return numbered[holds]
        if name == "outside":
            return outside[holds]
        if name == "dict":
            return dict(walk(holds))
        if name == "type":
            return _class_of(holds)
        if name.startswith("list of "):
            kind = _class_of(name.removeprefix("list of "))
            return [kind(*item) for item in walk(holds)]
        kind = _class_of(name)
        if isinstance(holds, list):
            return kind(*walk(holds))
        names = {item.name for item in fields(kind)} if is_dataclass(kind) else None
        if names is not None and names != holds.keys():
            raise TypeError(f"it has {sorted(holds)}")
        made: Any = object.__new__(kind)
        numbered[value.get(NUMBER, -1)] = made
        for item, part in holds.items():
            object.__setattr__(made, item, walk(part))
    except (AttributeError, ImportError, LookupError, TypeError) as error:
        raise ValueError(f"The saved {name} is damaged: {error}") from error
    return made


def _is_record(value: object) -> bool:
    return isinstance(value, tuple) and _is_ours(type(value))


def _is_ours(kind: type) -> bool:
    return f"{kind.__module__}.".startswith(HOMES)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _class_of(name: str) -> type:
    module, _, kind = name.rpartition(".")
    found = None
    if f"{module}.".startswith(HOMES):
        found = getattr(import_module(module), kind, None)
    if not isinstance(found, type) or not _is_ours(found):
        raise ValueError(f"A saved estimator holds no {name!r}.")
    return found
