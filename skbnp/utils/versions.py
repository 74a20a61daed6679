"""Versions of the machine and the packages, for bug reports."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

#: Packages that skbnp needs, and those that it can use.
PACKAGES = (
    "skbnp",
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "arviz-stats",
    "threadpoolctl",
    "Cython",
    "matplotlib",
    "pandas",
    "networkx",
    "skops",
)


def show_versions() -> None:
    """Print the versions of Python, of the system and of packages, for an issue."""
    facts = {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
    }
    for name in PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    width = max(map(len, facts))
    for name, fact in facts.items():
        print(f"{name:>{width}}: {fact}")
