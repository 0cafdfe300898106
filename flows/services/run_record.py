"""What is known of a run while it goes on and afterwards: its record in the folder, its log on stderr, its metrics.

A run that ends writes `last_run.json` beside the manifest. While it runs there is `running.json` in the work folder, so
that a killed run is known by that file and a lock that nobody holds. A failed first run leaves no folder and no file.

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
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from flows.services.files.os_errors import sentence_of
from flows.services.progress import StageEvent, listening
from pipeline.errors import WalltimeError, printable
from pipeline.publish.store import WORK, RunInProgressError, holder_of, is_held, remove_leftovers
from pipeline.report import Report, parsed_json, read_dataclass
from pipeline.settings import RunSettings
from pipeline.storage import write_text

BLOCKED_EXIT_CODE = 4
LAST_RUN = "last_run.json"
RUNNING = "running.json"

SERVING = "serve"
"""The folder in the output folder with the lock of `walltime serve`, and what it serves."""
SERVED = "served.json"


RunState = Literal["running", "succeeded", "failed", "stopped", "killed"]
"""How a run stands: still going on, or how it ended."""

Reason = Literal["none", "done", "blocked", "busy", "config", "input", "system", "signal", "fault"]
"""Why a run ended as it did. `signal`: Ctrl-C, SIGTERM or Prefect's cancellation; `fault`: an error of Walltime."""


class BlockedVersionError(WalltimeError):
    """A check blocked the publication; the report of all checks, and the site."""

    exit_code, reason = BLOCKED_EXIT_CODE, "blocked"

    def __init__(self, sentence: str, report: Report, site: str) -> None:
        super().__init__(sentence)
        self.report, self.site = report, site


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
    state: str = "running"
    reason: str = "none"
    exit_code: int | None = None
    began_s: float = 0.0
    ended_s: float | None = None
    pid: int = 0
    steps: dict[str, StepFacts] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Sentences on what failed and did not end the run."""


def ending_of(error: BaseException | None) -> tuple[RunState, str, int | None]:
    """State, reason and exit code of a run that ended with an error, or without; a signal's code is not known here."""
    if error is None:
        return "succeeded", "done", 0
    if not isinstance(error, Exception):
        return "stopped", "signal", None
    if isinstance(error, WalltimeError):
        return "failed", error.reason, error.exit_code
    return ("failed", "system", 2) if isinstance(error, OSError) else ("failed", "fault", 1)


def write_run(path: Path, run: LastRun) -> None:
    """Write the record of a run as LAST_RUN or RUNNING; nothing where its folder is gone or cannot be written.

    A disk that is full, or renames nothing, still takes it in place of the record before.
    """
    text = json.dumps(asdict(run), indent=1) + "\n"
    with suppress(OSError):
        try:
            # A run that was killed while it wrote has left a draft.
            remove_leftovers(path)
            write_text(path, text)
        except OSError:
            if not path.is_symlink():
                path.write_text(text, encoding="utf-8")


def read_last_run(folder: Path) -> LastRun | None:
    """The run in progress, else the one that began last, killed or ended; None where no record can be read."""
    work = folder / WORK
    own, ended = read_run(work / RUNNING), read_run(folder / LAST_RUN)
    if own is None:
        return ended
    if is_held(work) and holder_of(work).pid == own.pid:
        return own
    # A run that fails before it takes the lock leaves the record of a killed one.
    if ended is not None and ended.began_s > own.began_s:
        return ended
    return replace(own, state="killed", reason="signal")


def read_run(path: Path) -> LastRun | None:
    """The record in a file; None where there is none that can be read."""
    try:
        return read_dataclass(LastRun, parsed_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


_SENTENCE_CHARS = 2_000
_KEYS = ("step", "state", "seconds", "rows", "kept", "unit", "reason", "exit_code", "message")
"""Keys that are null in events that have nothing to say about them."""


@dataclass(slots=True)
class RunLog:
    """A run's record, and where its events go. `is_quiet`: only warnings and failures."""

    stream: TextIO
    is_json: bool = False
    """Whether events are JSON lines."""
    is_quiet: bool = False
    is_anonymous: bool = False
    clock: Callable[[], float] = time.time
    has_ended: bool = False
    run: LastRun = field(default_factory=lambda: LastRun("", ""))

    @contextmanager
    def running(self, work: Path) -> Iterator[None]:
        """The run inside has a record in its locked work folder, in place of that of a killed run before it."""
        write_run(work / RUNNING, self.run)
        try:
            yield
        finally:
            with suppress(OSError):
                (work / RUNNING).unlink()

    def begin(self, work: Path, run_id: str) -> None:
        """The steps begin: the logs are known, and by them the run's id."""
        self.run = replace(self.run, run_id=run_id)
        write_run(work / RUNNING, self.run)
        self._event("run_started")

    def stage(self, event: StageEvent) -> None:
        """A step began or ended; what it took is kept in the record."""
        if event.state == "started":
            self._event("step_started", step=event.stage)
            return
        counts: dict[str, Any] = {"rows": None}
        if event.report is not None:
            counts = {"rows": event.report.seen.rows, "kept": event.report.kept.rows, "unit": event.report.unit}
        self.run.steps[event.stage] = StepFacts(event.seconds, counts["rows"], event.state == "reused")
        self._event("step_ended", step=event.stage, state=event.state, seconds=round(event.seconds, 6), **counts)

    def warn(self, sentence: str) -> None:
        """Say something that does not end the run, and keep it in the record."""
        self.run = replace(self.run, warnings=(*self.run.warnings, sentence))
        if self.is_json:
            self._event("warning", "warning", message=printable(sentence, _SENTENCE_CHARS))
        else:
            self._write(f"walltime: {printable(sentence, _SENTENCE_CHARS)}\n")

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
        if isinstance(error, WalltimeError | OSError):
            return printable(sentence_of(error), _SENTENCE_CHARS)
        return None if error is None else type(error).__name__

    def _event(self, name: str, level: str = "info", **facts: Any) -> None:
        if not self.is_json or (self.is_quiet and level == "info"):
            return
        now = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {"time": now, "level": level, "event": name, "site": self.run.site, "run_id": self.run.run_id or None}
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
    log.is_anonymous = settings.site.anonymise
    log.run = LastRun(settings.site.name, "", began_s=time.time(), pid=os.getpid())
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
            ended = replace(log.run, state=state, reason=reason, exit_code=code, ended_s=time.time())
            write_run(Path(settings.output_dir) / LAST_RUN, ended)
            if settings.run.metrics_file is not None:
                _write_metrics(Path(settings.run.metrics_file), Path(settings.output_dir), ended, log)
        log.ended(time.monotonic() - began, failure)


def _write_metrics(path: Path, folder: Path, run: LastRun, log: RunLog) -> None:
    """Write the file of metrics that the settings name. Whatever fails is a warning: the tables are there."""
    try:
        from flows.services.metrics import folder_metrics  # noqa: PLC0415  (most runs write none)

        write_text(path, folder_metrics(folder, time.time(), run))
    except Exception as error:
        why = sentence_of(error) if isinstance(error, OSError) else f"a fault of Walltime ({type(error).__name__})."
        log.warn(f"the metrics were not written: {why}")
