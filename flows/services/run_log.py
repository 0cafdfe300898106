"""Follows a run: its log on stderr, and at its end its record and its metrics.

The log is sentences for people, or one JSON object a line. A JSON line has the same keys in every event. It holds
counts and names of steps, never a value of a job. A failure's sentence is that of the command; of a fault of Walltime
only its kind is named, because its text may quote a log.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from flows.services.files.os_errors import os_failure
from flows.services.progress import StageEvent, listening
from flows.services.run.run_record import (
    LAST_RUN,
    RUNNING,
    LastRun,
    StepFacts,
    ending_of,
    write_run,
)
from pipeline.errors import WalltimeError, printable
from pipeline.publish.store import Announce, RunInProgressError
from pipeline.settings import RunSettings
from pipeline.storage import write_text

_SENTENCE_CHARS = 2_000
_KEYS = ("step", "state", "seconds", "rows", "kept", "unit", "reason", "exit_code", "message")
"""Keys that are null in events that have nothing to say about them."""


@dataclass(slots=True)
class RunLog:
    """Where a run's events go. `is_quiet`: only warnings and failures; `site`, `run_id`: empty until they are known."""

    stream: TextIO
    is_json: bool = False
    """Whether events are JSON lines."""
    is_quiet: bool = False
    waits: bool = False
    """Whether the run waits for one that publishes to the same folder, instead of ending at once."""
    clock: Callable[[], float] = time.time
    site: str = ""
    run_id: str = ""
    is_anonymous: bool = False
    has_ended: bool = False
    run: LastRun | None = None
    """The record of the run that is followed; None: no run is."""

    @contextmanager
    def running(self, work: Path) -> Iterator[None]:
        """The run inside has a record in its locked work folder, in place of that of a killed run before it."""
        self._record(work)
        try:
            yield
        finally:
            with suppress(OSError):
                (work / RUNNING).unlink()

    def begin(self, work: Path, run_id: str) -> None:
        """The steps begin: the logs are known, and by them the run's id."""
        self.run_id = run_id
        if self.run is not None:
            self.run = replace(self.run, run_id=run_id)
        self._record(work)
        self._event("run_started")

    def _record(self, work: Path) -> None:
        if self.run is not None:
            write_run(work / RUNNING, self.run)

    def stage(self, event: StageEvent) -> None:
        """A step began or ended; what it took is kept in the record."""
        if event.state == "started":
            self._event("step_started", step=event.stage)
            return
        counts: dict[str, Any] = {"rows": None}
        if event.report is not None:
            counts = {"rows": event.report.seen.rows, "kept": event.report.kept.rows, "unit": event.report.unit}
        if self.run is not None:
            self.run.steps[event.stage] = StepFacts(event.seconds, counts["rows"], event.state == "reused")
        self._event("step_ended", step=event.stage, state=event.state, seconds=round(event.seconds, 6), **counts)

    def warn(self, sentence: str) -> None:
        """Say something that does not end the run, and keep it in the record."""
        self._say(sentence)
        if self.run is not None:
            self.run = replace(self.run, warnings=(*self.run.warnings, sentence))

    def _say(self, sentence: str) -> None:
        if self.is_json:
            self._event("warning", "warning", message=printable(sentence, _SENTENCE_CHARS))
        else:
            self._write(f"walltime: {printable(sentence, _SENTENCE_CHARS)}\n")

    @property
    def announce(self) -> Announce | None:
        """Told before the run waits; None: it does not wait."""
        return self.waiting if self.waits else None

    def waiting(self, sentence: str) -> None:
        """The run waits for another one; the sentence names the user of that one's process."""
        hides = self.is_json and self.is_anonymous
        self._say("waiting for another run, which publishes to the same folder." if hides else sentence)

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


run_log: ContextVar[RunLog | None] = ContextVar("run_log", default=None)


@contextmanager
def logging_to(log: RunLog) -> Iterator[RunLog]:
    """The runs inside write their events to this log, which a command has chosen; else a run chooses by its config."""
    token = run_log.set(log)
    try:
        yield log
    finally:
        run_log.reset(token)


@contextmanager
def recorded_run(settings: RunSettings) -> Iterator[RunLog]:
    """Follow the run inside: write its events, and at its end its record and its metrics, however it ends.

    A run that does not begin because another one is in progress leaves the other one's record alone.
    """
    log = run_log.get() or RunLog(sys.stderr, settings.run.log_format == "json")
    log.site, log.is_anonymous = settings.site.name, settings.site.anonymise
    now_s, me = float(time.time()), os.getpid()
    log.run = LastRun(settings.site.name, "", "running", "none", None, now_s, None, me, {})
    began, failure = time.monotonic(), None
    try:
        with listening(log.stage):
            yield log
    except BaseException as error:
        failure = error
        raise
    finally:
        if not isinstance(failure, RunInProgressError):
            state, reason, code = ending_of(failure)
            ended = replace(log.run, state=state, reason=reason, exit_code=code, ended_s=float(time.time()))
            write_run(Path(settings.output_dir) / LAST_RUN, ended)
            if settings.run.metrics_file is not None:
                _write_metrics(Path(settings.run.metrics_file), Path(settings.output_dir), ended, log)
        log.ended(time.monotonic() - began, failure)


def _write_metrics(path: Path, folder: Path, run: LastRun, log: RunLog) -> None:
    """Write the file of metrics that the settings name. Whatever fails is a warning: the tables are there."""
    try:
        from flows.services.metrics import folder_metrics  # noqa: PLC0415  (most runs write none)

        write_text(path, folder_metrics(folder, time.time(), run))
    except OSError as error:
        log.warn(f"the metrics were not written: {os_failure(error)}")
    except Exception as error:
        log.warn(f"the metrics were not written, by a fault of Walltime ({type(error).__name__}).")
