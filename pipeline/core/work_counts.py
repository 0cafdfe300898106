"""Counts of what a long computation has done, for whoever waits for it; no result depends on them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Counter = Callable[[str, int], None]
"""Called with a unit, as in "lines", and the number of units done since the last call."""

_counter: ContextVar[Counter | None] = ContextVar("counter", default=None)


@contextmanager
def counting(counter: Counter | None) -> Iterator[None]:
    """Pass the counts of the computations inside to `counter`."""
    token = _counter.set(counter)
    try:
        yield
    finally:
        _counter.reset(token)


def count_done(unit: str, n: int = 1) -> None:
    """Pass to the counter, if there is one, that `n` more units are done."""
    counter = _counter.get()
    if counter is not None:
        counter(unit, n)
