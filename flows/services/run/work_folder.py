"""The work folder: a folder for each finished step, named by a digest of its inputs.

A folder of a step is complete or absent. What is kept here saves time; a damaged or missing file changes no byte of
what is published.

One run at a time publishes: a run holds a flock on a file here, which the system releases when its holder dies, however
it dies. The holder writes into it who it is, for the message of a second run. That text counts only under the lock.
"""

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from flows.services.files.os_errors import naming_path
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.publish.folders import LOCK, acquire, digests, drafted, drop_folder, remove_leftovers
from pipeline.report import Report, parsed_json, read_dataclass
from pipeline.run import STEP_TABLES, STEPS, Step, StepResult
from pipeline.storage import file_sha256, write_table, write_text
from pipeline.version import code_version

BUSY_EXIT = 75
"""EX_TEMPFAIL of sysexits.h: nothing is wrong, and a later try may succeed."""

_HOLDER_BYTES = 4096
_TRIES = 6
_PAUSE_S = 0.05


class RunInProgressError(InputError):
    """Another run publishes to the same folder."""

    exit_code = BUSY_EXIT


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the lock of a work folder."""

    pid: int
    host: str
    user: str
    since_s: int
    """The instant at which it took the lock, in seconds since 1970 UTC."""

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return printable(f"process {self.pid} of {self.user} on {self.host}, since {since}", 300)


Announce = Callable[[str], None]
"""Told a sentence before a run waits for another one; without one a run ends instead."""


def take_run_lock(work: Path, announce: Announce | None = None) -> BinaryIO:
    """The lock of a work folder, held until the handle is closed; RunInProgressError where another run holds it."""
    for _ in range(_TRIES):
        if handle := acquire(work, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return _signed(handle)
        # `is_held` of another process holds the lock for an instant.
        time.sleep(_PAUSE_S)
    _announce_or_refuse(work, announce)
    handle = acquire(work, fcntl.LOCK_EX)
    assert handle is not None  # nosec B101 # for the type checker
    return _signed(handle)


def check_no_other_run(work: Path, announce: Announce | None = None) -> None:
    """Return when no other run holds the lock; RunInProgressError unless this run is to wait. Nothing is created."""
    if is_held(work):
        _announce_or_refuse(work, announce)
        with suppress(OSError), (work / LOCK).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH)


def _announce_or_refuse(work: Path, announce: Announce | None) -> None:
    holder = holder_name(holder_of(work))
    if announce is None:
        found = f"another run that publishes here ({holder})"
        where, do = printable(str(work.parent), 1000), "try again later, or wait for it with --wait"
        raise RunInProgressError(where, found, "one run at a time", do)
    announce(f"waiting for {holder}, which publishes to the same folder.")


def is_held(work: Path) -> bool:
    """Whether a living process holds the lock of the work folder; a folder without a lock file is not held.

    A lock file that cannot be opened tells nothing and counts as not held.
    """
    try:
        handle = (work / LOCK).open("rb")
    except OSError:
        return False
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def holder_of(work: Path) -> Holder | None:
    """Who wrote the lock file last; None where nobody has, or where it cannot be read."""
    try:
        with (work / LOCK).open("rb") as file:
            return read_dataclass(Holder, parsed_json(file.read(_HOLDER_BYTES)))
    except (OSError, ValueError, TypeError):
        return None


def holder_name(holder: Holder | None) -> str:
    """Who holds a lock, as messages say it."""
    return str(holder) if holder else "a process that has not given its name"


def _signed(handle: BinaryIO) -> BinaryIO:
    """The handle, after this process has written who it is; closed where that fails, as on a full disk."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        user = str(os.getuid())
    me = Holder(os.getpid(), socket.gethostname(), user, int(time.time()))
    try:
        os.ftruncate(handle.fileno(), 0)
        os.write(handle.fileno(), json.dumps(asdict(me)).encode())
    except OSError:
        handle.close()
        raise
    return handle


WORK = "work"
_REPORT = "report.json"


@contextmanager
def work_folder(output_dir: Path, announce: Announce | None = None) -> Iterator[Path]:
    """The work folder of `output_dir`, locked against a second run; leftovers of dead runs are removed.

    RunInProgressError where another run holds the lock, unless this one is to wait (`Announce`).
    Folders created here that are empty at the end are removed too, so that a failed first run leaves nothing behind.
    """
    created = [folder for folder in (output_dir, *output_dir.parents) if not folder.exists()]
    work = output_dir / WORK
    try:
        with naming_path(output_dir), take_run_lock(work, announce):
            try:
                remove_leftovers(work)
                yield work
            finally:
                remove_leftovers(work)
                with suppress(OSError):
                    if [path.name for path in work.iterdir()] == [LOCK]:
                        (work / LOCK).unlink()
                        work.rmdir()
    finally:
        for folder in created:
            with suppress(OSError):
                folder.rmdir()


def step_folders(work: Path) -> set[str]:
    """The names of the folders of finished steps."""
    return {path.name for path in work.iterdir() if is_step_folder(path)}


def keep_steps(work: Path, names: Collection[str]) -> None:
    """Remove the folders of all other steps. A failed run removes none, so that the next one goes on from them."""
    for name in sorted(step_folders(work) - set(names)):
        drop_folder(work / name)


def keep_step(folder: Path, compute: Callable[[Path], tuple[Mapping[str, LargeTable], Report]]) -> StepResult[Path]:
    """Write a step's folder atomically; the caller holds the lock of the work folder, and no such folder is there.

    `compute` gives the tables and the report; it writes large tables into the folder that it is called with. The bytes
    of the others depend only on their content and the code version.
    """
    with drafted(folder) as draft:
        tables, report = compute(draft)
        facts = {"code": code_version()}
        paths = {
            name: table.path
            if isinstance(table, StoredTable)
            else write_table(draft / f"{name}.parquet", table, STEP_TABLES[name], facts)
            for name, table in tables.items()
        }
        stored = {"report": report.as_dict(), "sha256": digests(paths)}
        write_text(draft / _REPORT, json.dumps(stored, indent=1) + "\n")
    return StepResult(_paths(folder, tables), report)


def find_step(folder: Path, step: Step) -> StepResult[Path] | None:
    """The stored result of a step if its tables are intact; a damaged one is removed."""
    if not folder.is_dir():
        return None
    with suppress(OSError, ValueError, KeyError, TypeError, WalltimeError):
        if set(_stored(folder)["sha256"]) == set(step.writes) and is_step_intact(folder):
            report = Report.from_dict(_stored(folder)["report"]).check()
            return StepResult(_paths(folder, step.writes), report, is_reused=True)
    drop_folder(folder)
    return None


def _paths(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    return {name: folder / f"{name}.parquet" for name in names}


def is_step_folder(folder: Path) -> bool:
    """Whether a folder of the work folder is the result of a step, by its name; drafts are not."""
    return folder.is_dir() and folder.name.partition("-")[0] in {step.name for step in STEPS}


def is_step_intact(folder: Path) -> bool:
    """Whether the files of a finished step are those that were written with its report."""
    try:
        sums = _stored(folder)["sha256"].items()
        return all(file_sha256(folder / f"{name}.parquet") == digest for name, digest in sums)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _stored(folder: Path) -> Any:
    return parsed_json((folder / _REPORT).read_text(encoding="utf-8"))
