"""How this folder's kernels are compiled: they count no references to arrays, and so make none.

With plain `njit` numba counts them in every call that hands on arrays: 80,000 jobs under EASY then take 3 times as
long, with one argument for all arrays or an argument an array, and with `inline="always"` still twice as long.
"""

from typing import Any, cast

from pipeline.kernels import F, cached

# numba's name for it: code that neither counts references nor allocates. All arrays come from the caller.
_UNCOUNTED: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_INLINED = _UNCOUNTED | {"forceinline": True}


def kernel(function: F) -> F:
    """A function compiled into the kernels that call it."""
    from numba import njit  # noqa: PLC0415  (a third of a second, which a program that replays nothing need not wait for)

    return cast(F, njit(**_INLINED)(function))


def entry_kernel(function: F) -> F:
    """A kernel that Python calls; see cached."""
    return cached(function, **_UNCOUNTED)
