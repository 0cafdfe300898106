"""What is known of a run while it goes on and afterwards: its record in the folder.

A run that ends writes `last_run.json` beside the manifest. While it runs there is `running.json` in the work folder, so
that a killed run is known by that file and a lock that nobody holds. A failed first run leaves no folder and no file.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pipeline.errors import WalltimeError
from pipeline.publish.store import WORK, holder_of, is_held, remove_leftovers
from pipeline.report import Report, parsed_json, read_dataclass
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
    state: str
    reason: str
    exit_code: int | None
    began_s: float
    ended_s: float | None
    pid: int
    steps: dict[str, StepFacts]
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
