"""Returns freed memory to the system: Arrow and the C library keep it for later, which a run of many steps adds up."""

import ctypes
from functools import lru_cache
from typing import Any

import pyarrow as pa


def return_free_memory() -> None:
    """Give memory that no table and no array uses back to the system, where the C library can."""
    pa.default_memory_pool().release_unused()
    if trim := _trim():
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> Any:
    """`malloc_trim` of the GNU C library; None with another one."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
