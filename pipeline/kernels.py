"""How kernels run: compiled by numba at need and cached on disk, or as Python for a few rows."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dis import get_instructions
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_KERNELS: dict[Any, tuple[FunctionType, dict[str, Any]]] = {}
"""By kernel the function that is compiled, and numba's options."""
_IS_INTERPRETED = ContextVar("is_interpreted", default=False)


def kernel(function: F) -> F:
    """A function that kernels call, compiled into each of them; see `called_kernel`."""
    # A call that passes arrays counts references: 1.9 microseconds a fit instead of .2 in Downey's high mode.
    return called_kernel(function, forceinline=True)


def called_kernel(function: F, **options: Any) -> F:
    """A kernel that others call and do not take in: the larger a function, the slower its compilation. Worth its call
    from a microsecond on. In all kernels a division by zero gives inf or NaN, as in numpy."""
    _KERNELS[function] = cast(FunctionType, function), options
    return function


def entry_kernel(function: F, **options: Any) -> F:
    """A kernel that Python calls: compiled at its first call and kept on disk, or interpreted; see `interpreted`."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return (function if _IS_INTERPRETED.get() else compiled(call))(*arguments)

    _KERNELS[call] = cast(FunctionType, function), options | {"cache": True, "nogil": True}
    return cast(F, call)


def uncounted_kernel(function: F) -> F:
    """An entry kernel that makes no array, and neither do those it calls: references to arrays are not counted.

    With them Downey's fit takes twice as long, and the replay of 80,000 jobs under EASY three times.
    """
    return entry_kernel(function, _nrt=False)


@contextmanager
def interpreted() -> Iterator[None]:
    """Within it entry kernels run as plain Python, for a few rows: loading numba and compiled kernels takes a second.

    Both ways give the same bits where kernels call the C library's functions on single numbers of 64 bits (module math)
    and add in loops.
    """
    token = _IS_INTERPRETED.set(True)
    try:
        # In compiled kernels a division by zero gives inf or NaN without a warning.
        with np.errstate(all="ignore"):
            yield
    finally:
        _IS_INTERPRETED.reset(token)


FEW_ROWS = 8
"""Interpreted, a row takes .3 CPU-seconds; compiling the kernels takes 28, and loading them 1."""


def compiling_for_many(n_rows: int) -> AbstractContextManager[None]:
    """Within it, kernels are interpreted where few counts were measured.

    It depends on the rows alone: the average's screens add 32-bit numbers, and interpreted they differ in the ninth
    digit, so that a second call could give other bytes than the first.
    """
    return interpreted() if n_rows <= FEW_ROWS else nullcontext()


def compiles() -> bool:
    """Whether this process has loaded numba."""
    return "numba" in sys.modules


@cache
def compiled(function: Any, **inherited: Any) -> Any:
    """numba's version of a kernel, which calls the compiled versions of the kernels that it names."""
    from numba import njit  # noqa: PLC0415  (a third of a second, which a program that compiles nothing need not wait for)

    plain, own = _KERNELS[function]
    # What an uncounted kernel calls counts no references either.
    inherited |= {name: value for name, value in own.items() if name == "_nrt"}
    inner = {name: compiled(one, **inherited) for name, one in _named(plain).items() if _is_kernel(one)}
    clone = FunctionType(plain.__code__, plain.__globals__ | inner, plain.__name__, plain.__defaults__)
    # numba renews a cached kernel only when the kernel's own file changes, not when what it calls does: the digest in
    # the name is a part of the cache's key.
    clone.__qualname__ = f"{plain.__qualname__}_{_digest(plain)}"
    options = {"error_model": "numpy"} | own | inherited
    try:
        return njit(**options)(clone)
    except RuntimeError:  # no folder to cache in: a read-only installation without a home
        return njit(**options | {"cache": False})(clone)


def _named(function: FunctionType) -> dict[str, Any]:
    """The globals that a function reads."""
    # Names of attributes are among the code's names too; `start` may be both.
    names = (one.argval for one in get_instructions(function) if one.opname == "LOAD_GLOBAL")
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _is_kernel(value: Any) -> bool:
    # Not every global of a module is hashable; functions are.
    return isinstance(value, FunctionType) and value in _KERNELS


@cache
def _digest(function: FunctionType) -> str:
    """Of a kernel's code, of the constants and kernels that it names, and of the fields of the tuples it is given."""
    code = function.__code__
    parts = [code.co_code.hex(), repr(code.co_consts), repr(code.co_names)]
    for name, value in _named(function).items():
        if _is_kernel(value):
            parts.append(f"{name} {_digest(_KERNELS[value][0])}")
        elif isinstance(value, bool | int | float | str | tuple):
            parts.append(f"{name} {value!r}")
        elif isinstance(value, np.ndarray | np.generic):
            parts.append(f"{name} {value.dtype} {value.tolist()}")
    parts += [repr(getattr(kind, "_fields", kind)) for kind in function.__annotations__.values()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


_GAPS = (
    510_774_509, 227_010_893, 100_893_730, 44_841_658, 19_929_626, 8_857_612, 3_936_717, 1_749_652, 777_623, 345_610,
    153_605, 68_269, 30_342, 13_485, 5_993, 2_663, 1_184, 526, 301, 132, 57, 23, 10, 4, 1,
)  # fmt: skip
"""Each about 2.25 of the next."""


@kernel
def sort_in_place(values: Any, carried: Any) -> None:
    """Sort numbers by insertion with shrinking gaps, and put `carried` into the same order (Shell 1959, Ciura 2001).

    Without another array give the numbers themselves. np.sort, argsort, median and the like are not for kernels: numba
    gives different ones of them one symbol's name in different processes, and the linker takes the wrong one from the
    cache (signal 11).
    """
    for gap in _GAPS:
        for place in range(gap, len(values)):
            value, other, to = values[place], carried[place], place
            while to >= gap and values[to - gap] > value:
                values[to], carried[to] = values[to - gap], carried[to - gap]
                to -= gap
            values[to], carried[to] = value, other


@kernel
def place_in(ordered: Any, value: float, after_equal: bool) -> int:
    """np.searchsorted of one value, for kernels; `after_equal`: behind the numbers that equal it, else before them."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        is_behind = ordered[middle] > value if after_equal else ordered[middle] >= value
        low, high = (low, middle) if is_behind else (middle + 1, high)
    return low


@called_kernel
def sort_numbers(values: Any) -> None:
    """Sort numbers in place."""
    sort_in_place(values, values)


@called_kernel
def set_order(order: Any, values: Any, is_bound: Any) -> None:
    """Set `order` to codes of the places of positive `values`, ascending, of equal ones those that are no bound first.

    The place is the code's last nine bits, `code & 511`. Bits of positive floats are ordered as they are; the last ten
    are given up for the place and the bound.
    """
    bits = values.view(np.int64)
    for place in range(len(order)):
        order[place] = (bits[place] & ~1023) | (512 if is_bound[place] else 0) | place
    sort_numbers(order)
