"""One thread for BLAS: our threads divide the work, and sums keep their order."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def libraries() -> ThreadpoolController:
    """Libraries with their own threads; finding them takes some milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while the lines inside run."""
    with libraries().limit(limits=1, user_api="blas"):
        yield
