"""The same estimators for rows that stay on the workers of a Dask cluster.

They need ``pip install "skbnp[dask]"``; nothing else of skbnp imports Dask.
"""

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        'skbnp.dask needs Dask: pip install "skbnp[dask]" installs it.'
    ) from error

from skbnp.dask._dependent_trees import DependentTrees
from skbnp.dask._hdp import HDP
from skbnp.dask._shards import WorkersLostError

__all__ = ["HDP", "DependentTrees", "WorkersLostError"]
