"""The extension modules; everything else is declared in pyproject.toml."""

import os
import sys
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

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
    "_merge",
    "_ncrp_local",
    "_nested_crp",
    "_seating",
    "_special",
    "_sphere",
    "_split_merge",
    "_sticks",
    "_tables",
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

setup(
    options={"build": {"build_base": BUILD}},
    ext_modules=cythonize(
        [
            Extension(
                f"skbnp.kernels.{name}",
                [] if name == SHARED else [f"skbnp/kernels/{name}.pyx"],
                depends=sorted(map(str, Path("skbnp/kernels/src").glob("*.h"))),
                include_dirs=["skbnp/kernels", np.get_include()],
                define_macros=[("SKBNP_PORTABLE", "1")] if PORTABLE else [],
                extra_compile_args=flags,
                extra_link_args=watch,
            )
            for name in [*KERNELS, SHARED]
        ],
        shared_utility_qualified_name=f"skbnp.kernels.{SHARED}",
        # Generated C goes to build/, so that the tree holds sources only, and into a
        # cache where Cython is told of one: it is the same for several builds.
        build_dir=BUILD,
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
