"""One thread for BLAS: our own threads split the work, and sums keep their order."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["libraries", "one_blas_thread"]


@cache
def libraries() -> ThreadpoolController:
    """Libraries with threads of their own; to find them takes some milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread while the lines inside run."""
    with libraries().limit(limits=1, user_api="blas"):
        yield
