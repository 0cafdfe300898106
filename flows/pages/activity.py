"""A line on stderr about a command that takes longer than two seconds: what it does, and how much it has done.

On a terminal the line is written over, with the stages that are done of a command that says how many it has. In a log a
line follows after ten seconds, after twenty, after forty; of a command with stages, one after each stage.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flows.services.progress import StageEvent, listening
from pipeline.report import counting

PATIENCE_S = 2.0
"""Time after which a terminal shows the line, s."""

LOG_PATIENCE_S = 10.0
"""Time after which a log gets the first line, s; each further one comes after twice the time."""

REFRESH_S = 0.25


class Activity:
    """Counts of a running command by unit, and the thread that shows them."""

    def __init__(self, name: str, *, is_terminal: bool) -> None:
        self.name = name
        self.is_terminal = is_terminal
        self.began = time.monotonic()
        self.n_stages = 0
        self.n_done = 0
        self.stages: list[str] = []
        self.counts: dict[str, int] = {}
        self._has_line = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to wait for the time of the first line, unless that has begun."""
        if not self._thread.is_alive():
            self._thread.start()

    def count(self, unit: str, n: int) -> None:
        """Add `n` units."""
        self.counts[unit] = self.counts.get(unit, 0) + n

    def enter(self, event: StageEvent) -> None:
        """Take in that a stage has started or ended."""
        if event.state == "started":
            self.stages = [*self.stages, event.stage]
            if self.n_stages:
                # A stage has counts of its own.
                self.counts = {}
        else:
            self.stages = [name for name in self.stages if name != event.stage]
            self.n_done += 1

    def end_line(self) -> None:
        """Show no line any more, and remove the one that stands on the terminal; the counts go on."""
        with self._lock:
            if self._has_line:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
            self._is_over.set()
            self._has_line = False

    def _show(self) -> None:
        wait_s = PATIENCE_S if self.is_terminal else LOG_PATIENCE_S
        while not self._is_over.wait(wait_s):
            with self._lock:
                if not self._is_over.is_set():
                    self._write_line()
            wait_s = REFRESH_S if self.is_terminal else time.monotonic() - self.began

    def _write_line(self) -> None:
        spent = f"walltime {self.name}: {time.monotonic() - self.began:.0f} s"
        done = f"{min(self.n_done, self.n_stages)} of {self.n_stages} done" if self.n_stages else ""
        counted = "; ".join(f"{n:,} {unit}" for unit, n in tuple(self.counts.items()) if n)
        line = "; ".join(part for part in (spent, done, ", ".join(self.stages), counted) if part)
        if self.is_terminal:
            self._has_line = True
            sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


_current: ContextVar[Activity | None] = ContextVar("activity", default=None)
"""The activity of the running command; None where it is to show none, as with --quiet."""


def is_quiet() -> bool:
    """Whether the running command shows no progress."""
    return _current.get() is None


@contextmanager
def showing_activity(name: str, *, has_line: bool = True) -> Iterator[Activity]:
    """Count what the command inside does, and show it in a line if it takes long and has no other progress."""
    # A service that builds and tests shows no line that is written over, whatever its stderr claims to be.
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
    activity = Activity(name, is_terminal=is_terminal)
    token = _current.set(activity)
    if has_line:
        activity.start()
    try:
        with counting(activity.count), listening(activity.enter):
            yield activity
    finally:
        activity.end_line()
        _current.reset(token)


@contextmanager
def showing_stages(n_stages: int) -> Iterator[None]:
    """Show the stages inside as they begin and end: on a terminal in the command's line, in a log one a line."""
    activity = _current.get()
    if activity is None:
        yield
        return
    if activity.is_terminal:
        activity.n_stages = n_stages
        activity.start()
        yield
        return
    activity.end_line()
    with listening(_print_stage):
        yield


def _print_stage(event: StageEvent) -> None:
    """Write what an ended stage took, and the rows that it has seen."""
    if event.state == "started":
        return
    seen = f"{event.report.seen.rows:>12,} {event.report.unit}s seen" if event.report is not None else ""
    how = " (reused)" if event.state == "reused" else ""
    sys.stderr.write(f"{event.stage:<12} {event.seconds:8.2f} s {seen}{how}\n")
    sys.stderr.flush()


def end_activity_line() -> None:
    """Make room for an answer."""
    activity = _current.get()
    if activity is not None:
        activity.end_line()
