"""Events of a run's stages, passed to listeners: a progress bar, plain lines, or none."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from pipeline.report import Report

State = Literal["started", "done", "reused"]


@dataclass(slots=True)
class StageEvent:
    """A stage started or ended; whoever runs it sets the report before it is done."""

    stage: str
    state: State
    seconds: float = 0.0
    report: Report | None = None


Listener = Callable[[StageEvent], None]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass the stage events of the runs inside to `listener` too, after the listeners that are there already."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


@contextmanager
def running_stage(name: str) -> Iterator[StageEvent]:
    """Notify whoever listens that a stage starts and, unless it raises, that it is done; yields the latter event."""
    notify(StageEvent(name, "started"))
    done, began = StageEvent(name, "done"), time.monotonic()
    yield done
    done.seconds = time.monotonic() - began
    notify(done)


def notify(event: StageEvent) -> None:
    """Pass an event to whoever listens."""
    for listener in _listeners.get():
        listener(event)
