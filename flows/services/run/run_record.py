"""What is known of a run while it goes on and afterwards: its log on stderr, and its record in the folder.

The log is sentences for people, or one JSON object a line. A JSON line has the same keys in every event. It holds
counts and names of steps, never a value of a job. A failure's sentence is that of the command; of a fault of Walltime
only its kind is named, because its text may quote a log.

A run that ends writes `last_run.json` beside the manifest. While it runs there is `running.json` in the work folder, so
that a killed run is known by that file and a lock that nobody holds. A failed first run leaves no folder and no file.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TextIO

from flows.services.files.os_errors import naming_path, os_failure
from flows.services.progress import StageEvent, also_listening
from flows.services.run.publishing import BlockedVersionError
from flows.services.run.work_folder import WORK, Announce, RunInProgressError, holder_of, is_held
from pipeline.errors import ConfigError, WalltimeError, printable
from pipeline.publish.folders import remove_drafts_of
from pipeline.report import parsed_json, read_dataclass
from pipeline.settings import RunSettings
from pipeline.storage import write_text

LAST_RUN = "last_run.json"
RUNNING = "running.json"

SERVING = "serve"
"""The folder in the output folder with the lock of `walltime serve`, and its two files."""
SERVED, UNREPORTED = "served.json", "unreported.json"


class RunState(StrEnum):
    """How a run stands: still going on, or how it ended."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    KILLED = "killed"


class Reason(StrEnum):
    """Why a run ended as it did. `signal`: Ctrl-C, SIGTERM or Prefect's cancellation; `fault`: an error of Walltime."""

    NONE = "none"
    DONE = "done"
    BLOCKED = "blocked"
    BUSY = "busy"
    CONFIG = "config"
    INPUT = "input"
    SYSTEM = "system"
    SIGNAL = "signal"
    FAULT = "fault"


_REASONS: tuple[tuple[type[Exception], Reason], ...] = (
    (BlockedVersionError, Reason.BLOCKED),
    (RunInProgressError, Reason.BUSY),
    (ConfigError, Reason.CONFIG),
    (WalltimeError, Reason.INPUT),
    (OSError, Reason.SYSTEM),
    (Exception, Reason.FAULT),
)
"""The reason of an error: that of the first class that it belongs to."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a step took: wall-clock seconds, the rows that it saw (None: it counts none), and whether it was reused."""

    seconds: float
    rows: int | None
    is_reused: bool


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run: its state, reason and exit code, when it began and ended (UTC epoch seconds), and its steps."""

    site: str
    run_id: str
    state: str
    reason: str
    exit_code: int | None
    began_s: float
    ended_s: float | None
    pid: int
    steps: dict[str, StepFacts]
    flow_run: str = ""
    """The id of its flow run in Prefect; empty where it was run without."""

    def with_end(self, error: BaseException | None, ended_s: float) -> "LastRun":
        """The same run after its end with an error, or with None."""
        state, reason, code = ending_of(error)
        return replace(self, state=state, reason=reason, exit_code=code, ended_s=ended_s)


def ending_of(error: BaseException | None) -> tuple[RunState, Reason, int | None]:
    """State, reason and exit code of a run that ended with an error, or without; a signal's code is not known here."""
    if error is None:
        return RunState.SUCCEEDED, Reason.DONE, 0
    if not isinstance(error, Exception):
        return RunState.STOPPED, Reason.SIGNAL, None
    reason = next(reason for kind, reason in _REASONS if isinstance(error, kind))
    code = error.exit_code if isinstance(error, WalltimeError) else 1 if reason is Reason.FAULT else 2
    return RunState.FAILED, reason, code


def write_run(path: Path, run: LastRun) -> None:
    """Write the record of a run as LAST_RUN or RUNNING; nothing where its folder is gone or cannot be written."""
    with suppress(OSError):
        # A run that was killed while it wrote has left a draft.
        remove_drafts_of(path)
        write_text(path, json.dumps(asdict(run), indent=1) + "\n")


def read_last_run(folder: Path) -> LastRun | None:
    """The run in progress, else a killed one, else the last that ended; None where no record can be read."""
    work = folder / WORK
    own = _read(work / RUNNING)
    if own is None:
        return _read(folder / LAST_RUN)
    holder = holder_of(work)
    if is_held(work) and holder is not None and holder.pid == own.pid:
        return own
    return replace(own, state=RunState.KILLED, reason=Reason.SIGNAL)


def _read(path: Path) -> LastRun | None:
    try:
        return read_dataclass(LastRun, parsed_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


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
    waits: bool = False
    """Whether the run waits for one that publishes to the same folder, instead of ending at once."""
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

    @property
    def announce(self) -> Announce | None:
        """Told before the run waits; None: it does not wait."""
        return self.waiting if self.waits else None

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


@dataclass(slots=True)
class RecordedRun:
    """A run that is followed; `running` is to be entered with the lock of its work folder."""

    log: RunLog
    run: LastRun

    @contextmanager
    def running(self, work: Path, run_id: str) -> Iterator[None]:
        """The steps of the run, with a record in its work folder for as long as they run."""
        self.run, self.log.run_id = replace(self.run, run_id=run_id), run_id
        write_run(work / RUNNING, self.run)
        self.log.started()
        try:
            yield
        finally:
            with suppress(OSError):
                (work / RUNNING).unlink()

    def follow(self, event: StageEvent) -> None:
        """Write the event to the log, and keep what an ended step took."""
        self.log.stage(event)
        if event.state != "started":
            rows = event.report.seen.rows if event.report else None
            self.run.steps[event.stage] = StepFacts(event.seconds, rows, event.state == "reused")


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
def recorded_run(settings: RunSettings, flow_run: str = "") -> Iterator[RecordedRun]:
    """Follow the run inside: write its events, and at its end its record and its metrics, however it ends.

    A run that does not begin because another one is in progress leaves the other one's record alone.
    """
    log = run_log.get() or RunLog(sys.stderr, settings.run.log_format)
    log.site, log.is_anonymous = settings.site.name, settings.site.anonymise
    now_s, me = float(time.time()), os.getpid()
    started = LastRun(settings.site.name, "", RunState.RUNNING, Reason.NONE, None, now_s, None, me, {}, flow_run)
    found, began = RecordedRun(log, started), time.monotonic()
    failure: BaseException | None = None
    try:
        with also_listening(found.follow):
            yield found
    except BaseException as error:
        failure = error
        raise
    finally:
        if not isinstance(failure, RunInProgressError):
            ended = found.run.with_end(failure, float(time.time()))
            write_run(Path(settings.output_dir) / LAST_RUN, ended)
            _write_metrics(settings, ended, log)
        log.ended(time.monotonic() - began, failure)


def _write_metrics(settings: RunSettings, run: LastRun, log: RunLog) -> None:
    """Write the file of metrics that the settings name. Whatever fails is a warning: the tables are there."""
    from flows.services.metrics import folder_metrics  # noqa: PLC0415 - it reads this module's records

    if settings.run.metrics_file is None:
        return
    path = Path(settings.run.metrics_file)
    try:
        with naming_path(path):
            write_text(path, folder_metrics(Path(settings.output_dir), time.time(), run))
    except OSError as error:
        log.warn(f"the metrics were not written: {os_failure(error)}")
    except Exception as error:
        log.warn(f"the metrics were not written, by a fault of Walltime ({type(error).__name__}).")
