"""The extension modules; everything else is declared in pyproject.toml."""

import ast
import os
import re
import sys
from pathlib import Path

DEBUG = os.environ.get("SKBNP_DEBUG", "0") == "1"
#: One version of each loop, for the instruction set that the compiler assumes.
PORTABLE = os.environ.get("SKBNP_PORTABLE", "0") == "1"
#: Every read, write and conversion is watched; run with libasan preloaded.
SANITIZE = os.environ.get("SKBNP_SANITIZE", "0") == "1"
MSVC = sys.platform == "win32"

KERNELS = [
    "_assignments",
    "_births",
    "_collapsed",
    "_directions",
    "_franchise",
    "_hdp_local",
    "_interrupts",
    "_moves",
    "_ncrp_local",
    "_nested",
    "_nested_crp",
    "_restaurant",
    "_seating",
    "_special",
    "_sphere",
    "_split_merge",
    "_sticks",
    "_tables",
    "_topic_groups",
    "_tree_directions",
    "_tree_rows",
    "_trees",
    "_word_topics",
]

#: Extension module with Cython's code of memory views, which all kernels share.
SHARED = "_memory_views"

if MSVC:
    flags = ["/Od" if DEBUG else "/O2"]
elif DEBUG:
    flags = ["-O1", "-g", "-UNDEBUG"]
else:
    flags = ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]

watch = (
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if SANITIZE else []
)
if SANITIZE:
    flags += ["-O1", "-g1", "-fno-omit-frame-pointer", *watch]

# Apart: setuptools keeps what is newer than its source, whatever the flags were.
BUILD = f"build/{'debug' if DEBUG else 'release'}"
BUILD += "-portable" * PORTABLE + "-watched" * SANITIZE

#: What a source of a kernel takes in: headers, and the `.pxd` of other kernels.
TAKEN = re.compile(
    r'''^ *(?:cdef extern from|\#include) "(?:src/)?(?P<header>\w+\.h)"'''
    r"|^ *from skbnp\.kernels\.(?P<kernel>\w+) cimport",
    re.MULTILINE,
)


def headers_of(name, kernels=Path("skbnp/kernels")):
    """Return the paths of all headers that a kernel takes in, by whatever way."""
    seen, waiting = set(), [kernels / f"{name}.pyx", kernels / f"{name}.pxd"]
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for match in TAKEN.finditer(path.read_text(encoding="utf-8")):
            if match["header"]:
                waiting.append(kernels / "src" / match["header"])
            else:
                waiting.append(kernels / f"{match['kernel']}.pxd")
    return sorted(path.as_posix() for path in seen if path.suffix == ".h")


# -- stubs of kernels, for type checkers -----------------------------------------------

#: Types of C, as those of Python and, in arrays, of NumPy.
TYPES = {
    "bint": ("bool", "NDArray[bool_]"),
    "double": ("float", "NDArray[float64]"),
    "float": ("float", "NDArray[float32]"),
    "floating": ("float", "NDArray[float32] | NDArray[float64]"),
    "Py_ssize_t": ("int", "NDArray[intp]"),
    **{
        f"{name}_t": ("int", f"NDArray[{name}]")
        for name in ("int8", "uint8", "int32", "int64")
    },
}
IMPORTS = """
from threading import Event
from typing import Any
from numpy import bool_, float32, float64, int8, int32, int64, intp, uint8
from numpy.random import BitGenerator
from numpy.typing import NDArray
"""
#: Public functions and classes, and constants.
SEEN = re.compile(
    r"^ *def (?:[a-z]|__init__)\w*\(.*?\)(?: -> .*?)?:$|^cdef class [A-Z]\w*:$"
    r"|^[A-Z][A-Z_, ]* = [^\n]*$",
    re.MULTILINE | re.DOTALL,
)
FUSED = re.compile(r"^ctypedef fused (\w+):((?:\n +\w+)+)", re.MULTILINE)
TAKEN_NAMES = re.compile(r"^from (\S+) cimport ([^(]+?$|[^)]+)", re.MULTILINE)
ARGUMENT = re.compile(r"(?:const )?\b(?!def )(\w+)(\[[^]]*\])? (\w+)(=None)?")


def stub_of(source):
    """Return the stub of a kernel, from the types and annotations of its source."""
    source = re.sub(r" *#[^\n]*| not None\b", "", source)
    types = dict(TYPES)
    for name, kinds in FUSED.findall(source):
        hints = zip(*(TYPES[kind] for kind in kinds.split()), strict=True)
        types[name] = tuple(" | ".join(both) for both in hints)
    classes, lines = set(), []

    def hinted(match):
        kind, is_array, name, none = match.groups()
        if kind not in types:
            classes.add(kind)
        hint = types.get(kind, (kind,))[bool(is_array)]
        return f"{name}: {hint}" + (" | None = None" if none else "")

    for seen in SEEN.findall(source):
        if seen.startswith("cdef "):
            lines.append(seen.removeprefix("cdef "))
        elif "def " in seen:
            lines.append(ARGUMENT.sub(hinted, seen) + " ...")
        else:
            names, values = (text.split(", ") for text in seen.split(" = "))
            for name, value in zip(names, values, strict=True):
                is_float = re.match(r"\d.*[.e]", value)
                lines.append(f"{name}: {'float' if is_float else 'int'}")
    for module, names in TAKEN_NAMES.findall(source):
        taken = classes & {*re.findall(r"\w+", names)}
        lines[:0] = [f"from {module} import {name}" for name in taken]
    tree = ast.parse(IMPORTS + "\n".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = node.returns or ast.Constant(None)
            for argument in node.args.args:
                if argument.annotation is None and argument.arg != "self":
                    argument.annotation = ast.Name("Any")
            for i, value in enumerate(node.args.defaults):
                if not isinstance(value, ast.Constant):
                    node.args.defaults[i] = ast.Constant(...)
    return ast.unparse(tree) + "\n"


def write_stubs(kernels=Path("skbnp/kernels")):
    """Write the stubs of all kernels next to their sources."""
    for path in kernels.glob("*.pyi"):
        if not path.with_suffix(".pyx").exists():
            path.unlink()
    for path in kernels.glob("*.pyx"):
        stub, target = (
            stub_of(path.read_text(encoding="utf-8")),
            path.with_suffix(".pyi"),
        )
        if not target.exists() or target.read_text(encoding="utf-8") != stub:
            target.write_text(stub, encoding="utf-8")


def long_description():
    """Return the README without links to figures and pages, which a checkout has."""
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(
        r"!\[(.*?)\]\((.*?)\)",
        r"(Figure `\2` of the source distribution: \1.)",
        text,
    )
    return re.sub(r"\[([^]]*)\]\((?!https?://)(.*?)\)", r"\1: `\2`", text)


def project_urls():
    """Return links of the metadata, which has none as long as no page is there."""
    source = Path("skbnp/utils/lazy.py").read_text(encoding="utf-8")
    site = re.search(r'^SITE = "(.*)"$', source, re.MULTILINE)[1]
    return {"Documentation": site} if site else {}


def count_processors():
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# The processes of `cythonize` read this file, too, where they are not forked.
if __name__ == "__main__":
    import numpy as np
    from Cython.Build import cythonize
    from setuptools import Extension, setup
    from setuptools.command.build_ext import build_ext

    class BuildExt(build_ext):
        """Compile for the source tree what has changed since this was last done."""

        def run(self):
            if self.inplace:  # `pip install -e` starts from an empty folder otherwise
                self.build_lib = f"{BUILD}/in-place"
            super().run()

        def copy_extensions_to_source(self):
            self.force = True  # what is there may be newer, of other flags
            super().copy_extensions_to_source()

    write_stubs()
    setup(
        cmdclass={"build_ext": BuildExt},
        long_description=long_description(),
        long_description_content_type="text/markdown",
        project_urls=project_urls(),
        options={
            "build": {"build_base": BUILD},
            "build_ext": {"parallel": count_processors()},
        },
        ext_modules=cythonize(
            [
                Extension(
                    f"skbnp.kernels.{name}",
                    [] if name == SHARED else [f"skbnp/kernels/{name}.pyx"],
                    depends=headers_of(name),
                    include_dirs=["skbnp/kernels", np.get_include()],
                    define_macros=[("SKBNP_PORTABLE", "1")] if PORTABLE else [],
                    extra_compile_args=flags,
                    extra_link_args=watch,
                )
                for name in [*KERNELS, SHARED]
            ],
            shared_utility_qualified_name=f"skbnp.kernels.{SHARED}",
            # Generated C goes to build/, so that the tree has sources only, and into
            # the cache of Cython if one is named: it is the same for several builds.
            build_dir=BUILD,
            nthreads=count_processors(),
            cache="CYTHON_CACHE_DIR" in os.environ,
            compiler_directives={
                "language_level": 3,
                "boundscheck": DEBUG,
                "wraparound": False,
                "initializedcheck": DEBUG,
                "cdivision": not DEBUG,
                "embedsignature": True,
                "freethreading_compatible": True,
                "annotation_typing": False,  # annotations are for stubs
            },
        ),
    )
