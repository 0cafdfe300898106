"""What is known of a run while it goes on and afterwards: its record in the folder.

A run that ends writes `last_run.json` beside the manifest. While it runs there is `running.json` in the work folder, so
that a killed run is known by that file and a lock that nobody holds. A failed first run leaves no folder and no file.

Where `walltime serve` has served the site, each record is also put into its folder, until Prefect has the run's end.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from pipeline.errors import ConfigError, WalltimeError
from pipeline.publish.store import WORK, RunInProgressError, holder_of, is_held, remove_leftovers
from pipeline.report import Report, parsed_json, read_dataclass
from pipeline.storage import write_text

BLOCKED_EXIT_CODE = 4
LAST_RUN = "last_run.json"
RUNNING = "running.json"

SERVING = "serve"
"""The folder in the output folder with the lock of `walltime serve`, and the records that it has to report."""
SERVED = "served.json"
_UNREPORTED = "unreported-"
_KEPT = 400
"""Records that wait for `walltime serve`, where nobody serves the site any more."""


class BlockedVersionError(WalltimeError):
    """A check blocked the publication; the report of all checks, and the site."""

    exit_code = BLOCKED_EXIT_CODE

    def __init__(self, sentence: str, report: Report, site: str) -> None:
        super().__init__(sentence)
        self.report, self.site = report, site


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
    warnings: tuple[str, ...] = ()
    """Sentences on what failed and did not end the run."""
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


def write_ended(folder: Path, run: LastRun) -> None:
    """Write the record of a run that has ended, once as the last one and once for `walltime serve` to report."""
    write_run(folder / LAST_RUN, run)
    if (folder / SERVING).is_dir():
        write_run(folder / SERVING / f"{_UNREPORTED}{run.began_s:.3f}-{run.pid}.json", run)
        for old in sorted((folder / SERVING).glob(f"{_UNREPORTED}*"))[:-_KEPT]:
            old.unlink(missing_ok=True)


def unreported(folder: Path) -> dict[Path, LastRun]:
    """The runs whose end Prefect may not know, by the files that wait for their report, the earliest first."""
    found = {path: read_run(path) for path in sorted((folder / SERVING).glob(f"{_UNREPORTED}*.json"))}
    return {path: run for path, run in found.items() if run is not None}


def settle_killed(folder: Path) -> None:
    """Make a run that was killed one that has ended."""
    last = read_last_run(folder)
    if last is not None and last.state == RunState.KILLED and (folder / WORK / RUNNING).exists():
        write_ended(folder, last)
        (folder / WORK / RUNNING).unlink(missing_ok=True)


def read_last_run(folder: Path) -> LastRun | None:
    """The run in progress, else a killed one, else the last that ended; None where no record can be read."""
    work = folder / WORK
    own = read_run(work / RUNNING)
    if own is None:
        return read_run(folder / LAST_RUN)
    holder = holder_of(work)
    if is_held(work) and holder is not None and holder.pid == own.pid:
        return own
    return replace(own, state=RunState.KILLED, reason=Reason.SIGNAL)


def read_run(path: Path) -> LastRun | None:
    """The record in a file; None where there is none that can be read."""
    try:
        return read_dataclass(LastRun, parsed_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
