"""How this folder's kernels are compiled: they count no references to arrays, and so make none.

Counting took 60% of a replay's time, as the kernels pass a dozen arrays in calls of some nanoseconds each.
"""

from typing import Any, cast

from pipeline.core.compiled import F, cached

# numba's name for it: code that neither counts references nor allocates. All arrays come from the caller.
_UNCOUNTED: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_INLINED = _UNCOUNTED | {"forceinline": True, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """A function compiled into the kernels that call it."""
    from numba import njit  # noqa: PLC0415  (a third of a second, which a program that replays nothing need not wait for)

    return cast(F, njit(**_INLINED)(function))


def entry_kernel(function: F) -> F:
    """A kernel that Python calls; see cached."""
    return cached(function, **_UNCOUNTED)
