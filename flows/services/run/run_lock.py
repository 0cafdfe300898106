"""One run at a time publishes to a folder: a lock that the system releases when its holder dies, however it dies.

The lock is a flock on a file of the work folder. The holder writes into that file who it is, so that a second run can
say what it waits for. The text of a dead holder stays there; it counts only while the lock is held.
"""

import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pipeline.dataclass_reader import read_dataclass
from pipeline.errors import InputError, printable
from pipeline.publish.folders import LOCK, acquire

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

_announce: ContextVar[Announce | None] = ContextVar("announce", default=None)


@contextmanager
def waiting_for_other_runs(announce: Announce | None) -> Iterator[None]:
    """Let the runs inside wait for a run that publishes to the same folder, instead of ending at once.

    `announce` is called with a sentence before a run waits; None: no run waits.
    """
    token = _announce.set(announce)
    try:
        yield
    finally:
        _announce.reset(token)


def take_run_lock(work: Path) -> BinaryIO:
    """The lock of a work folder, held until the handle is closed; RunInProgressError where another run holds it."""
    for _ in range(_TRIES):
        handle = acquire(work, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if handle is not None:
            return _signed(handle)
        # `is_held` of another process holds the lock for an instant.
        time.sleep(_PAUSE_S)
    _announce_or_refuse(work)
    handle = acquire(work, fcntl.LOCK_EX)
    assert handle is not None  # nosec B101 # for the type checker
    return _signed(handle)


def check_no_other_run(work: Path) -> None:
    """Return when no other run holds the lock; RunInProgressError unless this run is to wait. Nothing is created."""
    if is_held(work):
        _announce_or_refuse(work)
        with suppress(OSError), (work / LOCK).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH)


def _announce_or_refuse(work: Path) -> None:
    announce, holder = _announce.get(), holder_name(holder_of(work))
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
            return read_dataclass(Holder, json.loads(file.read(_HOLDER_BYTES)))
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
