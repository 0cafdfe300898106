"""How kernels are compiled: inner functions at need, entry points cached on disk under their sources' digest."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """A function compiled into the kernels that call it; division by zero gives inf or NaN, as in numpy."""
    from numba import njit  # noqa: PLC0415  (a third of a second, which a program that compiles nothing need not wait for)

    # Inlined, because a call that passes arrays counts references: 1.9 microseconds a fit instead of 0.2 in high mode.
    return cast(F, njit(error_model="numpy", forceinline=True)(function))


def called_kernel(function: F) -> F:
    """A kernel of the same arithmetic that others call and do not take in: the larger a function, the slower its
    compilation, and the fewer of its loops work on several numbers at a time. Worth its call from a microsecond on."""
    from numba import njit  # noqa: PLC0415

    return cast(F, njit(error_model="numpy")(function))


def entry_kernel(function: F) -> F:
    """A kernel that Python calls, of the same arithmetic; see cached."""
    return cached(function, error_model="numpy")


def cached(function: F, calls: Path | None = None, **options: Any) -> F:
    """A function compiled once per machine and version of its folder's sources, GIL released; options are numba's.

    calls: another folder whose kernels the function calls; a change of its sources renews the function too.
    """
    # numba renews a cached kernel only when the kernel's own file changes, not when a function it calls does: the
    # digest in the name is part of the cache's key.
    from numba import njit  # noqa: PLC0415

    folders = {Path(function.__code__.co_filename).parent, calls or Path(function.__code__.co_filename).parent}
    function.__qualname__ = "_".join([function.__qualname__, *map(_sources_digest, sorted(folders))])
    try:
        return cast(F, njit(nogil=True, cache=True, **options)(function))
    except RuntimeError:  # no folder to cache in: a read-only installation without a home
        return cast(F, njit(nogil=True, **options)(function))


@cache
def _sources_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
