"""Learned objects as trees of containers, atoms and arrays, by tags of classes.

Objects are saved by the tag of their class, which has the folder of a model and no
module, and by their fields. A file names no class of the package but that of the
estimator, so that a reader has one class to trust; it can make only classes that
`register` names, and no number of a file decides how much memory is allocated.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from inspect import get_annotations
from itertools import count
from typing import Any, get_type_hints

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.ranges import fits

#: Keys of a dict that stands for another value: what that is, what it holds, and a
#: number where the value occurs again.
IS, HOLDS, NUMBER = "__is__", "__holds__", "__number__"
#: What a tree has as it is.
ATOMS = {bool, int, float, str, type(None)}
#: Containers in one another, at most: a state has some 30.
MOST_DEPTH = 100


@dataclass(frozen=True)
class Form:
    """How objects of a class are saved: attributes and types; see `register`."""

    kind: type
    declared: Mapping[str, Any] | None
    make: Callable[..., object] | None
    state: Callable[[Any], Mapping[str, object]] | None

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """Type hints of the attributes."""
        if self.declared is not None:
            return self.declared
        hints = get_type_hints(self.kind, include_extras=True)
        return {name: hints[name] for name in _attributes(self.kind)}

    def fields_of(self, value: object) -> dict[str, object]:
        """Return the attributes of an object to save."""
        if self.state is None:
            return {name: getattr(value, name) for name in self.types}
        state = self.state(value)
        return {name: state[name] for name in self.types}

    def check(self, parts: Mapping[str, object]) -> None:
        """Raise unless the fields of a file have the right names and types."""
        wrong = parts.keys() ^ self.types.keys()
        names = ", ".join(sorted(map(str, wrong)))
        if names:
            raise ValueError(f"{names}: missing, or unknown")
        for name, hint in self.types.items():
            if not fits(parts[name], hint):
                raise ValueError(f"{name} is {parts[name]!r:.80}, not {hint}")


_FORMS: dict[str, Form] = {}
_TAGS: dict[type, str] = {}
#: Modules that register classes of all models.
_MODULES: set[str] = set()


def register(
    kind: type,
    *,
    tag: str | None = None,
    types: Mapping[str, Any] | None = None,
    make: Callable[..., object] | None = None,
    state: Callable[[Any], Mapping[str, object]] | None = None,
) -> None:
    """Let objects of a class be saved, and made again.

    Parameters
    ----------
    kind : type
    tag : str or None
        Name of the class in files; None: that of its folder, and its own.
    types : mapping of str to type hint or None
        Attributes. None: fields of a dataclass or a named tuple; of another class, the
        attributes that it and its bases annotate without a value.
    make : callable or None
        Makes an object from its attributes, passed by keyword, and checks them; it
        must not allocate by the numbers among them. None: the attributes are set,
        nothing is called.
    state : callable or None
        Returns what is saved of an object, by attribute; None: its attributes.

    Raises
    ------
    ValueError
        If the tag or the class is registered already.
    """
    if tag is None:
        *_, folder = kind.__module__.replace(".models", "").split(".")[:2]
        tag = f"{folder}.{kind.__name__}"
    if tag in _FORMS or kind in _TAGS:
        raise ValueError(f"{tag!r}, or {kind.__name__}, is registered already.")
    if issubclass(kind, tuple):  # attributes of a record cannot be set
        make = kind
    _FORMS[tag] = Form(kind, types, make, state)
    _TAGS[kind] = tag


def _attributes(kind: type) -> tuple[str, ...]:
    """Attributes of an object, in the order in which its class declares them."""
    if is_dataclass(kind):
        return tuple(item.name for item in fields(kind))
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", ())
    bases = reversed(kind.__mro__)
    names = [name for base in bases for name in get_annotations(base)]
    return tuple(name for name in dict.fromkeys(names) if not hasattr(kind, name))


def register_when_needed(module: str) -> None:
    """Let a module register its classes when something is first saved or read.

    So that an estimator is imported without the models of all others.
    """
    _MODULES.add(module)


def _register_all() -> None:
    for module in _MODULES:
        importlib.import_module(module)


def registered() -> dict[str, Form]:
    """Return the registered forms of classes, by tag."""
    _register_all()
    return dict(_FORMS)


def to_plain(value: object, outside: Sequence[object] = ()) -> Any:
    """Return a value as a tree of lists, dicts, atoms and arrays.

    Registered objects are dicts of their fields, and so are arrays, tuples and other
    data. An object or array that occurs again, in itself perhaps, is a number there;
    objects `outside`, such as threads and connections, are replaced by their position.
    What is no data, such as an estimator, is kept, and no file can have it.
    """
    _register_all()
    # With each value, so that nothing else gets its id meanwhile.
    seen: dict[int, tuple[object, dict]] = {
        id(item): (item, {IS: "outside", HOLDS: place})
        for place, item in enumerate(outside)
    }
    numbers = count()

    def walk(value: Any) -> Any:
        """Convert one value and its members."""
        kind = type(value)
        if kind in ATOMS:
            return value
        if id(value) in seen:
            node = seen[id(value)][1]
            if node[IS] == "outside":
                return dict(node)
            if NUMBER not in node:
                node[NUMBER] = next(numbers)
            return {IS: "again", HOLDS: node[NUMBER]}
        if kind is list:
            return [walk(item) for item in value]
        if kind is dict and IS not in value and all(type(key) is str for key in value):
            return {key: walk(item) for key, item in value.items()}
        name, holds, is_whole = _described(value)
        node = {IS: name}
        seen[id(value)] = value, node
        node[HOLDS] = holds if is_whole else walk(holds)
        return node

    return walk(value)


def _described(value: Any) -> tuple[str, Any, bool]:
    """Name of what a value is, what it holds, and whether that stays as it is."""
    kind = type(value)
    if kind in _TAGS:
        return _TAGS[kind], _FORMS[_TAGS[kind]].fields_of(value), False
    if kind is tuple:
        return "tuple", list(value), False
    if kind is dict:
        return "dict", [list(item) for item in value.items()], False
    if kind is bytes:
        return "bytes", value.hex(), True
    if isinstance(value, np.generic):
        return "scalar", np.asarray(value), True
    if kind is np.ndarray and value.dtype.hasobject and value.ndim == 1:
        if all(type(one) is str for one in value):
            return "texts", value.tolist(), True
    return "array" if kind is np.ndarray else "object", value, True


def from_plain(value: object, outside: Sequence[object] = ()) -> Any:
    """Return the value of a tree of `to_plain`, with other objects `outside`.

    Raises
    ------
    ValueError
        If an object is of no registered class, has other fields than it should or
        fields of other types, or for any other damage.
    """
    _register_all()
    numbered: dict[int, object] = {}

    def walk(value: Any, depth: int) -> Any:
        """Convert one node and its members back."""
        if type(value) not in (list, dict):
            return value
        if depth > MOST_DEPTH:
            raise ValueError(
                f"What was saved is damaged: it has more than {MOST_DEPTH} containers "
                "in one another."
            )
        depth += 1
        if type(value) is list:
            return [walk(item, depth) for item in value]
        if IS not in value:
            return {key: walk(item, depth) for key, item in value.items()}
        tag: Any = value[IS]
        try:
            if not {IS, HOLDS} <= value.keys() <= {IS, HOLDS, NUMBER}:
                raise ValueError(f"it has {', '.join(map(str, value))}")
            result = made(tag, value[HOLDS], value.get(NUMBER), depth)
        except _DamageError:
            raise
        except Exception as error:
            how = error if isinstance(error, ValueError) else repr(error)
            raise _DamageError(f"The saved {tag!s:.80} is damaged: {how}.") from error
        if NUMBER in value:
            numbered[value[NUMBER]] = result
        return result

    def made(tag: Any, holds: Any, number: int | None, depth: int) -> Any:
        """Make a value from its name, and what it holds."""
        if tag in ("again", "outside"):
            return numbered[holds] if tag == "again" else outside[holds]
        if tag in _DATA:
            return _DATA[tag](walk(holds, depth))
        if tag not in _FORMS:
            raise _DamageError(f"A saved estimator holds no {tag!r:.80}.")
        form = _FORMS[tag]
        if not isinstance(holds, dict):
            raise ValueError("it has no fields")
        result: Any = None
        if form.make is None:
            result = object.__new__(form.kind)
            if number is not None:
                numbered[number] = result
        parts = walk(holds, depth)
        form.check(parts)
        if form.make is not None:
            return form.make(**parts)
        for name, part in parts.items():
            object.__setattr__(result, name, part)
        return result

    try:
        return walk(value, 0)
    except (RecursionError, MemoryError) as error:
        raise ValueError(
            f"What was saved cannot be put together: {type(error).__name__}."
        ) from error


class _DamageError(ValueError):
    """Error that names the innermost damaged object."""


#: What makes data that are neither atoms nor registered, by name.
_DATA: dict[str, Callable[[Any], Any]] = {
    "array": lambda holds: holds,
    "bytes": bytes.fromhex,
    "dict": dict,
    "object": lambda holds: holds,
    "scalar": lambda holds: holds[()],
    "texts": lambda holds: np.array(holds, dtype=object),
    "tuple": tuple,
}


def _csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> sp.csr_array:
    """Return a sparse array of just these arrays; SciPy would narrow their integers."""
    made = sp.csr_array((data, indices, indptr), shape)
    made.data, made.indices, made.indptr = data, indices, indptr
    if indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all():
        _ = made.has_canonical_format  # noted, so that evaluation does not write it
    return made


def _generator(**state: Any) -> np.random.RandomState:
    """Restore a saved random generator of NumPy."""
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


# So that a file needs no class of another package.
CSR = {
    "data": np.ndarray,
    "indices": NDArray[np.int64],
    "indptr": NDArray[np.int64],
    "shape": tuple[int, int],
}
register(sp.csr_array, tag="csr", types=CSR, make=_csr)
register(
    np.random.RandomState,
    tag="random-state",
    types=dict.fromkeys(("bit_generator", "state", "has_gauss", "gauss"), object),
    make=_generator,
    state=lambda generator: dict(generator.get_state(legacy=False)),
)
