"""The log of a run on stderr: sentences for people, or one JSON object a line.

A JSON line has the same keys in every event. It holds counts and names of steps, never a value of a job. A failure's
sentence is that of the command; of a fault of Walltime only its kind is named, because its text may quote a log.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from flows.services.files.os_errors import os_failure
from flows.services.progress import StageEvent
from flows.services.run.last_run import ending_of
from flows.services.run.run_lock import RunInProgressError
from pipeline.core.errors import WalltimeError
from pipeline.core.text import printable

LogFormat = Literal["text", "json"]
_SENTENCE_CHARS = 2_000
_KEYS = ("step", "state", "seconds", "rows", "kept", "unit", "reason", "exit_code", "message")
"""Keys that are null in events that have nothing to say about them."""


@dataclass(slots=True)
class RunLog:
    """Where a run's events go. `is_quiet`: only warnings and failures; `site`, `run_id`: empty until they are known."""

    stream: TextIO
    log_format: LogFormat = "text"
    is_quiet: bool = False
    clock: Callable[[], float] = time.time
    site: str = ""
    run_id: str = ""
    is_anonymous: bool = False
    has_ended: bool = False

    @property
    def is_json(self) -> bool:
        """Whether events are JSON lines."""
        return self.log_format == "json"

    def started(self) -> None:
        """The logs of the run are known, and its steps begin."""
        self._event("run_started")

    def stage(self, event: StageEvent) -> None:
        """A step began or ended."""
        if event.state == "started":
            self._event("step_started", step=event.stage)
            return
        counts: dict[str, Any] = {}
        if event.report is not None:
            counts = {"rows": event.report.seen.rows, "kept": event.report.kept.rows, "unit": event.report.unit}
        self._event("step_ended", step=event.stage, state=event.state, seconds=round(event.seconds, 6), **counts)

    def warn(self, sentence: str) -> None:
        """Say something that does not end the run."""
        if self.is_json:
            self._event("warning", "warning", message=printable(sentence, _SENTENCE_CHARS))
        else:
            self._write(f"walltime: {printable(sentence, _SENTENCE_CHARS)}\n")

    def waiting(self, sentence: str) -> None:
        """The run waits for another one; the sentence names the user of that one's process."""
        hides = self.is_json and self.is_anonymous
        self.warn("waiting for another run, which publishes to the same folder." if hides else sentence)

    def ended(self, seconds: float | None, error: BaseException | None) -> None:
        """The run ended, with an error or without; a text log leaves the sentence to the command."""
        self.has_ended = True
        state, reason, code = ending_of(error)
        level = "info" if error is None else "error"
        facts = {"state": str(state), "reason": str(reason), "exit_code": code, "message": self._sentence(error)}
        self._event("run_ended", level, seconds=None if seconds is None else round(seconds, 6), **facts)

    def _sentence(self, error: BaseException | None) -> str | None:
        if isinstance(error, RunInProgressError) and self.is_anonymous:
            return "Another run publishes to the same folder."
        if isinstance(error, OSError):
            return str(os_failure(error))
        if isinstance(error, WalltimeError):
            return printable(str(error), _SENTENCE_CHARS)
        return None if error is None else type(error).__name__

    def _event(self, name: str, level: str = "info", **facts: Any) -> None:
        if not self.is_json or (self.is_quiet and level == "info"):
            return
        now = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {"time": now, "level": level, "event": name, "site": self.site, "run_id": self.run_id or None}
        self._write(json.dumps(known | dict.fromkeys(_KEYS) | facts) + "\n")

    def _write(self, line: str) -> None:
        # A run must not end because nobody reads its log any more.
        with suppress(OSError, ValueError):
            self.stream.write(line)
            self.stream.flush()


_log: ContextVar[RunLog | None] = ContextVar("run_log", default=None)


@contextmanager
def logging_to(log: RunLog) -> Iterator[RunLog]:
    """The runs inside write their events to this log."""
    token = _log.set(log)
    try:
        yield log
    finally:
        _log.reset(token)


def current_log() -> RunLog | None:
    """The log that a command has chosen; None where a run chooses by its config."""
    return _log.get()
