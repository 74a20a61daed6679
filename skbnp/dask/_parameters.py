"""Signatures and docstrings of estimators on a cluster, from the local ones."""

import re
from collections.abc import Callable, Collection
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, TypeVar

Kind = TypeVar("Kind")

#: The title of a section of a docstring, and the line below it.
TITLE = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)


def parameters_of(
    local: Any, *, without: Collection[str] = ()
) -> Callable[[type[Kind]], type[Kind]]:
    """Return a decorator that adds the parameters of a local estimator to a class.

    The class gets the signature of `local` with the keywords of its first base behind
    it, and their constraints. Its docstring has entries of parameters and attributes
    that differ; all others are those of the first base and of `local`, `without` some
    attributes, and its references are those of `local`.
    """

    def extend(kind: type[Kind]) -> type[Kind]:
        """Set signature, constraints and docstring of a class."""
        more: Any = kind.__bases__[0]

        def __init__(self: Any, *args: Any, **parameters: Any) -> None:
            more.__init__(self, *args, **parameters)

        keywords = [
            one
            for one in signature(more.__init__).parameters.values()
            if one.kind is Parameter.KEYWORD_ONLY
        ]
        of_local = signature(local.__init__).parameters.values()
        __init__.__signature__ = Signature([*of_local, *keywords])  # type: ignore[attr-defined]
        constraints = [one._parameter_constraints for one in (local, more)]
        changes: dict[str, Any] = {
            "__init__": __init__,
            "_local_class": local,
            "_parameter_constraints": constraints[0] | constraints[1],
        }
        if kind.__doc__ is not None:  # python -OO
            docs = [str(one.__doc__) for one in (local, more, kind)]
            changes["__doc__"] = merged_docs(*docs, without=without)
        for name, value in changes.items():
            setattr(kind, name, value)
        return kind

    return extend


def merged_docs(*docs: str, without: Collection[str] = ()) -> str:
    """Return the last docstring, with the entries of the ones before it.

    An entry stands where it comes first, as it is written last.
    """
    sections = [_sections(text) for text in docs]
    result = dict(sections[-1])
    for title in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for one in sections:
            entries |= _entries(one.get(title, ""))
        result[title] = "\n".join(
            entry for name, entry in entries.items() if name not in without
        )
    result["References"] = sections[0]["References"]
    order = [title for title in sections[0] if title in result]
    parts = [
        f"{title}\n{'-' * len(title)}\n{result[title]}" for title in order if title
    ]
    return "\n\n".join([result[""], *parts]) + "\n"


def _sections(text: str) -> dict[str, str]:
    """Return the text of each section by its title, that before the first by ""."""
    parts = TITLE.split(cleandoc(text))
    texts = [part.strip("\n") for part in parts[::2]]
    return dict(zip(["", *parts[1::2]], texts, strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return entries by the names that they begin with."""
    entries = re.split(r"\n(?=\S)", section) if section else []
    return {entry.partition(" : ")[0]: entry for entry in entries}
