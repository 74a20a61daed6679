"""A copy of the package in which internal classes and fields have other names."""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import scipy.sparse as sp

from checks.estimators import INSTANCES
from skbnp.estimators._saved import PRIVATE
from skbnp.trees import Tree, TreeView
from skbnp.utils.plain import registered

__all__ = ["rename_internals"]

#: Attributes of these keep their names: they are not the package's.
OTHERS = (np, np.ndarray, np.random, np.random.Generator, np.linalg, sp, sp.csr_array)
OTHERS += (
    np.dtype,
    dict,
    list,
    tuple,
    set,
    str,
    int,
    float,
    Path,
    type,
    slice,
    Tree,
    TreeView,
)
#: Modules and arguments of other packages, and keys of archives.
TAKEN = ("bound", "cache", "closed", "content", "label", "offset", "stats")
SUFFIX = "_renamed"
#: Texts with fields and without, comments, names.
TOKEN = re.compile(r'f?"""(?s:.*?)"""|f?"(?:\\.|[^"\\\n])*"|#.*|\b[A-Za-z_]\w*')
#: A text that is the name of an attribute or of a class, or an annotation.
QUOTED = re.compile(r'"(\w+|\w+\[\w+\]|\w+ \| None)"')


def rename_internals(package, columns):
    """Rename registered classes and their attributes in all files of a package.

    Names that users or other packages know stay, and those of arguments of kernels, of
    modules and of `columns` of traces. Returns the names of classes and of attributes
    that were changed.
    """
    forms = [form for form in registered().values() if form.make is None]
    forms = [form for form in forms if form.kind.__module__.startswith("skbnp")]
    sources = list(package.rglob("*.py"))
    known = set().union(*(dir(one) for one in OTHERS), _of_users(), _words(package))
    known.update(columns, TAKEN, PRIVATE.values())
    known.update(*(path.with_suffix("").parts for path in sources))
    classes = {form.kind.__name__ for form in forms}
    fields = {name for form in forms for name in form.attributes} - known
    for path in sources:
        lists_names_of_files = path.name == "forms.py"
        quoted = classes if lists_names_of_files else classes | fields
        path.write_text(_renamed(path.read_text(), classes | fields, quoted))
    return classes, fields


def _of_users():
    """Yield names of parameters and of fitted attributes, and of settings."""
    for estimator in INSTANCES.values():
        yield from estimator.get_params()
        yield from dir(estimator)
    for form in registered().values():
        if form.make is not None:
            yield from form.attributes
            for hint in form.types.values():  # choices, too
                yield from (one for one in get_args(hint) if isinstance(one, str))


def _words(package):
    """Yield words of the interfaces of compiled modules."""
    for path in package.rglob("*.pyi"):
        yield from re.findall(r"\w+", path.read_text())


def _renamed(source, names, quoted):
    """Rename what stands as a name, and what stands in quotes."""

    def renamed(token):
        text, known = token[0], names
        if text.startswith('"'):
            known = quoted if QUOTED.fullmatch(text) else ()
        if text.startswith("#") or not known:
            return text
        return re.sub(r"\w+", lambda word: word[0] + SUFFIX * (word[0] in known), text)

    return TOKEN.sub(renamed, source)
