"""How kernels run: compiled at need and cached on disk under their sources' digest, or as Python for a few rows."""

import hashlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_ROOT = Path(__file__).parents[1]
_IMPORT = re.compile(r"^ *(?:from|import) +([\w.]+)", re.MULTILINE)
_KERNEL = re.compile(r"\bkernels import\b|\bimport kernels\b|^def kernel\b|\bNamedTuple\b", re.MULTILINE)
"""What a file has of which kernels are made: kernels, or the fields of what they are given."""
# Nothing in C calls a kernel: without the function that numba adds for it, Downey's fit compiles in 7 % less.
_NOT_FROM_C: dict[str, Any] = {"no_cfunc_wrapper": True}
# numba's name for it is code that neither counts references nor allocates: all arrays come from the caller.
_UNCOUNTED: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
_INNER: dict[Any, dict[str, Any]] = {}
"""By function that only kernels call: numba's options."""
_ENTRIES: dict[Any, Any] = {}
"""By entry kernel: the function it was made of, and numba's options."""


_IS_INTERPRETED = ContextVar("is_interpreted", default=False)


def kernel(function: F) -> F:
    """The function itself, which is compiled into the kernels that call it; there a division by zero gives inf or NaN,
    as in numpy."""
    # Inlined, because a call that passes arrays counts references: 1.9 microseconds a fit instead of 0.2 in high mode.
    _INNER[function] = {"forceinline": True}
    return function


def called_kernel(function: F) -> F:
    """A kernel of the same arithmetic that others call and do not take in: the larger a function, the slower its
    compilation, and the fewer of its loops work on several numbers at a time. Worth its call from a microsecond on."""
    _INNER[function] = {}
    return function


def entry_kernel(function: F) -> F:
    """A kernel that Python calls, of the same arithmetic: compiled at its first call, or interpreted; see cached."""

    return _entered(function, {})


def uncounted_kernel(function: F) -> F:
    """An entry kernel that makes no array, and neither do those it calls; see uncounted."""
    return _entered(function, _UNCOUNTED)


def _entered(function: F, options: dict[str, Any]) -> F:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        return (function if _IS_INTERPRETED.get() else compiled(call))(*arguments)

    _ENTRIES[call] = function, options
    return cast(F, call)


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
    cache (signal 11). They also make arrays, which an uncounted kernel may not.
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


def compiled(function: Any) -> Any:
    """numba's dispatcher of a kernel, of whichever kind."""
    return _dispatcher(function, False)


@cache
def _dispatcher(function: Any, is_uncounted: bool) -> Any:
    """The same; `is_uncounted`: for a caller that is."""
    if function in _INNER:
        options = _INNER[function] | (_UNCOUNTED if is_uncounted else {})
        return _inner(_calling_compiled(function, is_uncounted=is_uncounted), **options)
    if function in _ENTRIES:
        plain, options = _ENTRIES[function]
        return cached(_calling_compiled(plain, is_uncounted=bool(options)), **{"error_model": "numpy", **options})
    return function


def _calling_compiled(function: Any, *, is_uncounted: bool) -> Any:
    """A copy of the function that calls the compiled versions of the kernels that it names."""
    found = function.__globals__
    # Not every global of a module is hashable; functions are.
    used = {name: found[name] for name in function.__code__.co_names if isinstance(found.get(name), FunctionType)}
    inner = {
        name: _dispatcher(value, is_uncounted)
        for name, value in used.items() if value in _INNER or value in _ENTRIES
    }  # fmt: skip
    clone = FunctionType(function.__code__, found | inner, function.__name__, function.__defaults__)
    clone.__qualname__ = function.__qualname__
    return clone


def _inner(function: F, **options: Any) -> F:
    from numba import njit  # noqa: PLC0415  (a third of a second, which a program that compiles nothing need not wait for)

    return cast(F, njit(**{"error_model": "numpy", **_NOT_FROM_C, **options})(function))


def cached(function: F, **options: Any) -> F:
    """A function compiled once per machine and version of what it calls, GIL released; options are numba's."""
    # numba renews a cached kernel only when the kernel's own file changes, not when a function it calls does: the
    # digest in the name is part of the cache's key. It is not of the whole folder, most of which no kernel reads.
    function.__qualname__ = f"{function.__qualname__}_{_sources_digest(Path(function.__code__.co_filename))}"
    try:
        return _entry(function, cache=True, **options)
    except RuntimeError:  # no folder to cache in: a read-only installation without a home
        return _entry(function, **options)


def uncounted(function: F) -> F:
    """The same of a function that makes no array, and neither do those it calls: references to arrays are not counted,
    which takes longer than what is done with a few bytes of them."""
    return cached(function, **_UNCOUNTED)


def inner_uncounted(function: F) -> F:
    """A function compiled into the uncounted kernels that call it: with references counted in every call, 80,000 jobs
    under EASY take three times as long."""
    from numba import njit  # noqa: PLC0415

    return cast(F, njit(**_UNCOUNTED, forceinline=True)(function))


def _entry(function: F, **options: Any) -> F:
    from numba import njit  # noqa: PLC0415

    return cast(F, njit(nogil=True, **_NOT_FROM_C, **options)(function))


@cache
def _sources_digest(source: Path) -> str:
    """Of what a file's kernels are made of: its text, the texts of the kernels that it imports, and their constants."""
    digest = hashlib.sha256(_text(Path(__file__)).encode())
    modules = {getattr(module, "__file__", None): module for module in list(sys.modules.values())}
    for path in sorted(_reached(source)):
        digest.update(_text(path).encode())
        # A constant may come from a file without kernels, which is not read.
        names = vars(modules[str(path)]) if str(path) in modules else {}
        digest.update(repr(_constants(names)).encode())
    return digest.hexdigest()[:12]


def _constants(names: dict[str, Any]) -> list[tuple[str, Any]]:
    plain = (bool, int, float, str, tuple)
    return sorted((name, repr(value)) for name, value in names.items() if type(value) in plain and name[:2] != "__")


def _reached(source: Path) -> set[Path]:
    """The file and those with kernels that it imports, directly or through others with kernels."""
    found, to_read = {source}, [source]
    while to_read:
        fresh = {path for path in _imported(to_read.pop()) if _KERNEL.search(_text(path))} - found
        found |= fresh
        to_read += fresh
    return found


def _imported(source: Path) -> set[Path]:
    """The files that the import lines of a file name; of a package all its files, as a name may be one of them."""
    found: set[Path] = set()
    for name in _IMPORT.findall(_text(source)):
        for folder in (source.parent, _ROOT):
            path = folder.joinpath(*name.split("."))
            found |= set(path.glob("*.py")) or {path.with_suffix(".py")}
    return {path for path in found if path.is_file()}


@cache
def _text(source: Path) -> str:
    # A function typed at a prompt has no file.
    return source.read_text(encoding="utf-8") if source.is_file() else ""
