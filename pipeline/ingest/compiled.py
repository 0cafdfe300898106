"""How this room's kernels are compiled: GIL released, cached on disk under the digest of the room's sources."""

from pathlib import Path
from typing import Any, cast

from numba import njit

from pipeline.core.compiled import F, sources_digest


def kernel(function: F, **options: Any) -> F:
    """A function compiled once per machine and version of its folder's sources; options are numba's.

    A division by zero raises, as in Python: counts here are whole numbers.
    """
    # Cached even where only kernels call it: most are called from several files, and each is compiled alone.
    function.__qualname__ = f"{function.__qualname__}_{sources_digest(Path(function.__code__.co_filename).parent)}"
    try:
        return cast(F, njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # no folder to cache in: a read-only installation without a home
        return cast(F, njit(nogil=True, **options)(function))
