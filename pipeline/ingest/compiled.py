"""How this room's kernels are compiled: each cached on disk, whoever calls it."""

from pathlib import Path
from typing import Any

from pipeline.core.compiled import F, cached

_SPANS = Path(__file__).parent / "spans"
"""Kernels of every format call those of spans: a change there renews them all."""


def kernel(function: F, **options: Any) -> F:
    """A function compiled once per machine and version of its folder's sources; options are numba's.

    A division by zero raises, as in Python: counts here are whole numbers.
    """
    # Cached even where only kernels call it: most are called from several files, and each is compiled alone.
    return cached(function, calls=_SPANS, **options)
