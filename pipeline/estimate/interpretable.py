"""Kernels that run compiled, or as plain Python for a few queries.

Loading numba and the compiled kernels takes a second, too long for one query. Both ways give the same bits: kernels
call the C library's functions on single numbers (module math) and add in loops.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from pipeline import kernels as compiled

F = TypeVar("F", bound=Callable[..., Any])

_INNER: set[Any] = set()
_IS_INTERPRETED = ContextVar("is_interpreted", default=False)


def kernel(function: F) -> F:
    """The function itself, which is compiled into the entry kernels that call it."""
    _INNER.add(function)
    return function


def entry_kernel(function: F) -> F:
    """A kernel that Python calls: compiled, or interpreted within `interpreted`."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return (function if _IS_INTERPRETED.get() else _compiled(function))(*arguments)

    return cast(F, call)


@contextmanager
def interpreted() -> Iterator[None]:
    """Within it kernels run as plain Python."""
    token = _IS_INTERPRETED.set(True)
    try:
        # In compiled kernels a division by zero gives inf or NaN without a warning.
        with np.errstate(all="ignore"):
            yield
    finally:
        _IS_INTERPRETED.reset(token)


@cache
def _compiled(function: F) -> F:
    return compiled.entry_kernel(cast(F, _calling_compiled(function)))


@cache
def _inner(function: F) -> F:
    return compiled.kernel(cast(F, _calling_compiled(function)))


def _calling_compiled(function: Any) -> Any:
    """A copy of the function that calls the compiled versions of this package's kernels."""
    found = function.__globals__
    # Not every global of a module is hashable; functions are.
    used = {name: found[name] for name in function.__code__.co_names if isinstance(found.get(name), FunctionType)}
    inner = {name: _inner(value) for name, value in used.items() if value in _INNER}
    clone = FunctionType(function.__code__, found | inner, function.__name__, function.__defaults__)
    clone.__qualname__ = function.__qualname__
    return clone
