"""The extension modules; everything else is declared in pyproject.toml."""

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
    "_attachments",
    "_births",
    "_collapsed",
    "_directions",
    "_franchise",
    "_hdp_local",
    "_interrupts",
    "_late_topics",
    "_merge",
    "_ncrp_local",
    "_nested",
    "_nested_crp",
    "_reductions",
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


def long_description():
    """Return the README without links to figures and pages, which a checkout has."""
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(
        r"!\[(.*?)\]\((.*?)\)",
        r"(Figure `\2` of the source distribution: \1.)",
        text,
    )
    return re.sub(r"\[([^]]*)\]\((?!https?://)(.*?)\)", r"\1: `\2`", text)


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

    setup(
        cmdclass={"build_ext": BuildExt},
        long_description=long_description(),
        long_description_content_type="text/markdown",
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
            },
        ),
    )
