"""The extension modules; everything else is declared in pyproject.toml."""

import os
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("SKBNP_DEBUG", "0") == "1"
MSVC = sys.platform == "win32"

KERNELS = ["_hdp_local", "_merge"]

if MSVC:
    flags = ["/Od" if DEBUG else "/O2"]
elif DEBUG:
    flags = ["-O1", "-g", "-UNDEBUG"]
else:
    flags = ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math"]

# Apart: setuptools keeps what is newer than its source, whatever the flags were.
BUILD = "build/debug" if DEBUG else "build/release"

setup(
    options={"build": {"build_base": BUILD}},
    ext_modules=cythonize(
        [
            Extension(
                f"skbnp.kernels.{name}",
                [f"skbnp/kernels/{name}.pyx"],
                extra_compile_args=flags,
            )
            for name in KERNELS
        ],
        # Generated C goes to build/, so that the tree holds sources only.
        build_dir=BUILD,
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
