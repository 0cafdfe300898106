"""Who listens while a run goes on: a progress bar, plain lines, or nobody."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from pipeline.core.report import Report

State = Literal["started", "done", "reused"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to a stage; the report is there once it is done."""

    stage: str
    state: State
    seconds: float = 0.0
    report: Report | None = None


Listener = Callable[[Moment], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Tell `listener` of every stage of the runs made inside."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(slots=True)
class Stage:
    """One stage while it runs; set `is_reused` and `report` before it ends."""

    name: str
    is_reused: bool = False
    report: Report | None = None
    began: float = field(default_factory=time.monotonic)


@contextmanager
def staging(name: str) -> Iterator[Stage]:
    """Tell the listener that a stage starts and, unless it fails, that it is done."""
    tell(Moment(name, "started"))
    stage = Stage(name)
    yield stage
    state: State = "reused" if stage.is_reused else "done"
    tell(Moment(name, state, time.monotonic() - stage.began, stage.report))


def tell(moment: Moment) -> None:
    """Pass a moment on, if anybody listens."""
    listener = _listener.get()
    if listener is not None:
        listener(moment)
