"""Independent calls on several threads, and memory given back to the system."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")

_threads: ContextVar[int] = ContextVar("threads", default=1)


@contextmanager
def using_threads(n_threads: int) -> Iterator[None]:
    """Let the calls of `together` inside use up to this many threads."""
    token = _threads.set(n_threads)
    try:
        yield
    finally:
        _threads.reset(token)


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls that do not depend on each other, in their order."""
    n_threads = min(_threads.get(), len(calls))
    if n_threads <= 1:
        return [call() for call in calls]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda call: call(), calls))


def return_free_memory() -> None:
    """Give memory that no table and no array uses back to the system, where the C library can."""
    pa.default_memory_pool().release_unused()
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
