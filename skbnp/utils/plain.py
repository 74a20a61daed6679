"""Learned objects as containers, numbers and arrays, by tags of classes, and back.

Objects are saved by the tag of their class, which has the folder of a model and no
module, and by their fields. A file names no class of the package but that of the
estimator, so that a reader has one class to trust; it can make only classes that
`register` names, and no number of a file decides how much memory is allocated.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial
from inspect import get_annotations
from typing import Any, get_type_hints

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp.utils.ranges import fits

#: Key of a dict that stands for another object; its value is the tag.
IS, HOLDS, NUMBER = "__is__", "__holds__", "__number__"
#: What is never taken apart.
ATOMS = (str, bytes, int, float, type(None))
#: Before the tag of records, which a list holds one after the other.
LIST = "list of "
#: Containers in one another, at most: a state has some 30.
MOST_DEPTH = 100


@dataclass(frozen=True)
class Form:
    """How objects of a class are saved: attributes and types; see `register`."""

    kind: type
    attributes: Sequence[str]
    declared: Mapping[str, Any] | None
    make: Callable[..., object] | None
    state: Callable[[Any], Mapping[str, object]] | None

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """Type hints of the attributes."""
        hints = self.declared
        if hints is None:
            hints = get_type_hints(self.kind, include_extras=True)
        return {name: hints[name] for name in self.attributes}

    @property
    def is_record(self) -> bool:
        """Whether objects are named tuples."""
        return issubclass(self.kind, tuple)

    def fields_of(self, value: object) -> dict[str, object]:
        """Return the attributes of an object to save."""
        read: Callable[[str], object] = partial(getattr, value)
        if self.state is not None:
            read = self.state(value).__getitem__
        return {name: read(name) for name in self.attributes}

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
    attributes = _attributes(kind) if types is None else tuple(types)
    _FORMS[tag] = Form(kind, attributes, types, make, state)
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
    """Return registered objects as dicts of their fields; one object is one dict.

    Values that are not registered, such as arrays or estimators, are kept. An object
    that contains itself is replaced by a number there; objects `outside`, such as
    threads and connections, are replaced by their position.
    """
    _register_all()
    seen: dict[int, tuple[object, Any]] = {}
    whole: dict[int, dict] = {}  # objects that are being taken apart
    for place, item in enumerate(outside):
        seen[id(item)] = item, {IS: "outside", HOLDS: place}

    def walk(value: Any) -> Any:
        """Convert one value and its members."""
        if isinstance(value, ATOMS):
            return value
        if id(value) in whole:
            node = whole[id(value)]
            node.setdefault(NUMBER, len(seen))
            return {IS: "again", HOLDS: node[NUMBER]}
        if id(value) not in seen:
            # With the value, so that nothing else gets its id meanwhile.
            whole[id(value)] = node = {}
            made = taken_apart(value)
            if node:
                made[NUMBER] = node[NUMBER]
            del whole[id(value)]
            seen[id(value)] = value, made
        return seen[id(value)][1]

    def taken_apart(value: Any) -> Any:
        """Convert the members of a container."""
        kind = type(value)
        if kind is list and value and _is_log(value):
            tag = f"{LIST}{_TAGS[type(value[0])]}"  # one dict for all
            return {IS: tag, HOLDS: [tuple(record) for record in value]}
        if kind in (list, tuple):
            return kind(walk(item) for item in value)
        if kind is dict:
            plain = {key: walk(item) for key, item in value.items()}
            if all(isinstance(key, str) for key in plain) and IS not in plain:
                return plain
            return {IS: "dict", HOLDS: [walk(item) for item in value.items()]}
        if kind not in _TAGS:
            return value
        tag = _TAGS[kind]
        return {IS: tag, HOLDS: walk(_FORMS[tag].fields_of(value))}

    return walk(value)


def _is_log(values: list) -> bool:
    """Whether all items of a list are named tuples of one registered class."""
    kind = type(values[0])
    is_record = kind in _TAGS and _FORMS[_TAGS[kind]].is_record
    return is_record and all(type(item) is kind for item in values)


def from_plain(value: object, outside: Sequence[object] = ()) -> Any:
    """Make objects of the dicts of `to_plain`, with other objects `outside`.

    Raises
    ------
    ValueError
        If an object is of no registered class, has other fields than it should or
        fields of other types, or for any other damage.
    """
    _register_all()
    seen: dict[int, tuple[object, Any]] = {}
    numbered: dict[int, object] = {}

    def walk(value: Any, depth: int) -> Any:
        """Convert one value and its members back."""
        if isinstance(value, ATOMS):
            return value
        if depth > MOST_DEPTH:
            raise ValueError(
                f"What was saved is damaged: it has more than {MOST_DEPTH} containers "
                "in one another."
            )
        if id(value) not in seen:
            seen[id(value)] = value, put_together(value, depth + 1)
        return seen[id(value)][1]

    def put_together(value: Any, depth: int) -> Any:
        """Convert the members of a container back."""
        if type(value) in (list, tuple):
            return type(value)(walk(item, depth) for item in value)
        if type(value) is not dict:
            return value
        if IS not in value:
            return {key: walk(item, depth) for key, item in value.items()}
        tag: Any = value[IS]
        try:
            if not {IS, HOLDS} <= value.keys() <= {IS, HOLDS, NUMBER}:
                raise ValueError(f"it has {', '.join(map(str, value))}")
            return made(tag, value[HOLDS], value.get(NUMBER), depth)
        except _DamageError:
            raise
        except Exception as error:
            how = error if isinstance(error, ValueError) else repr(error)
            raise _DamageError(f"The saved {tag!s:.80} is damaged: {how}.") from error

    def made(tag: Any, holds: Any, number: int | None, depth: int) -> Any:
        """Make a registered object from its tag and fields."""
        if tag == "again":
            return numbered[holds]
        if tag == "outside":
            return outside[holds]
        if tag == "dict":
            return dict(walk(holds, depth))
        if not isinstance(tag, str) or tag.removeprefix(LIST) not in _FORMS:
            raise _DamageError(f"A saved estimator holds no {tag!r:.80}.")
        form = _FORMS[tag.removeprefix(LIST)]
        if tag.startswith(LIST):
            return [_record(form, item) for item in walk(holds, depth)]
        if not isinstance(holds, dict):
            raise ValueError("it has no fields")
        result: Any = None
        if form.make is None and not form.is_record:
            result = object.__new__(form.kind)
            if number is not None:
                numbered[number] = result
        parts = walk(holds, depth)
        form.check(parts)
        if result is None:
            return (form.make or form.kind)(**parts)
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


def _record(form: Form, values: Any) -> object:
    """Make a named tuple from its values."""
    if not form.is_record or not isinstance(values, (list, tuple)):
        raise ValueError("an entry is no record")
    form.check(dict(zip(form.attributes, values, strict=True)))
    return form.kind(*values)


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
