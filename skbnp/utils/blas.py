"""One thread for BLAS: our own threads split the work, and sums keep their order."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@cache
def _libraries() -> ThreadpoolController:
    """Libraries with threads of their own; to find them takes some milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread while the lines inside run."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
