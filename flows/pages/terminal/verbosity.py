"""How much a command prints beside its answer: with --quiet errors only, with --verbose also times and tracebacks."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class Verbosity(Enum):
    """What is printed beside errors."""

    SILENT = "--quiet of a command that acts: nothing, unless --json asks for it"
    QUIET = "--quiet of a command that answers: the answer, and no progress"
    NORMAL = "the answer, and progress"
    VERBOSE = "--verbose: also how long it took, and where a failure arose"


_chosen: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity.NORMAL)


def verbosity() -> Verbosity:
    """What the command in this context prints."""
    return _chosen.get()


def is_quiet() -> bool:
    """Whether progress is not to be shown."""
    return _chosen.get() in (Verbosity.SILENT, Verbosity.QUIET)


@contextmanager
def printing(chosen: Verbosity) -> Iterator[None]:
    """Print that much inside."""
    token = _chosen.set(chosen)
    try:
        yield
    finally:
        _chosen.reset(token)
