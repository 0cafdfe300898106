"""How this room's kernels are compiled: each cached on disk, whoever calls it."""

from typing import Any

from pipeline.core.compiled import F, cached


def kernel(function: F, **options: Any) -> F:
    """A function compiled once per machine and version of the sources it calls; options are numba's.

    A division by zero raises, as in Python: counts here are whole numbers.
    """
    # Cached even where only kernels call it: most are called from several files, and each is compiled alone.
    return cached(function, **options)
