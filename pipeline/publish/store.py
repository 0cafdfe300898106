"""The files of a store: one lock, folders and files that are whole or absent, one test of their bytes, finished steps.

A folder is filled as a draft and renamed; a file is written beside its place and renamed. A table that a step and some
versions hold is one file under several names (hard links): the file system counts the names, so that nothing has to be
swept. A table that is replaced often has its digest in its name, and a small JSON file, replaced in one step, names it.

The lock is a flock on a file of the folder. The system releases it when its holder dies, however it dies. The holder
writes into it who it is; that text counts only under the lock.
"""

import fcntl
import getpass
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pipeline import code_version, storage
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Report, StepResult, parsed_json, read_dataclass
from pipeline.schema import TableKind

LOCK = ".lock"
WORK = "work"
BUSY_EXIT = 75
"""EX_TEMPFAIL of sysexits.h: nothing is wrong, and a later try may succeed."""

KEPT_TABLES = 3
"""Tables under one pointer that stay on disk, for those who still read an earlier one."""

_REPORT = "report.json"
_HOLDER_BYTES = 4096
_TRIES = 100


class RunInProgressError(InputError):
    """Another run publishes to the same folder."""

    exit_code = BUSY_EXIT
    reason = "busy"


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock, and since when (UTC epoch seconds); pid 0: one that has not written who it is."""

    pid: int = 0
    host: str = ""
    user: str = ""
    since_s: int = 0

    def __str__(self) -> str:
        if not self.pid:
            return "a process that has not given its name"
        since = datetime.fromtimestamp(self.since_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return printable(f"process {self.pid} of {self.user} on {self.host}, since {since}", 300)


def acquire(folder: Path) -> BinaryIO | None:
    """The lock of a folder, which is made where it is missing, until the handle is closed; None where another holds it.

    InputError where the folder cannot be made. A holder may remove the file, or the folder, between any two calls here.
    """
    where, path = printable(str(folder)), folder / LOCK
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)
            # A holder writes into the file, and a link would lead it elsewhere.
            if path.is_symlink():
                raise InputError(
                    printable(str(path)), "a symbolic link", "a file", "remove it if no run is in progress"
                )
            handle = try_lock(path, fcntl.LOCK_EX, "ab")
            if handle is not None:
                _sign(handle)
            return handle
    raise InputError(where, "a folder that cannot be created", "a writable folder", "choose another output folder")


def try_lock(path: Path, how: int, mode: Literal["rb", "ab"] = "rb") -> BinaryIO | None:
    """An opened lock file, which is locked; None where another process has it, or has just replaced it.

    OSError where there is no such file, or files have no locks.
    """
    handle = path.open(mode)
    with suppress(BlockingIOError):
        fcntl.flock(handle, how | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
            return handle
    handle.close()
    return None


def _sign(handle: BinaryIO) -> None:
    """Write into a lock file who holds it, and since when; without a name where the disk is full."""
    user = str(os.getuid())
    with suppress(OSError, KeyError):  # a user id without a name
        user = getpass.getuser()
    with suppress(OSError):
        os.ftruncate(handle.fileno(), 0)
        me = Holder(os.getpid(), socket.gethostname(), user, int(os.fstat(handle.fileno()).st_mtime))
        os.write(handle.fileno(), json.dumps(asdict(me)).encode())


def holder_of(folder: Path) -> Holder:
    """Who wrote the lock file of a folder last; pid 0 where nobody has, or where it cannot be read."""
    with suppress(OSError, ValueError, TypeError), (folder / LOCK).open("rb") as file:
        return read_dataclass(Holder, parsed_json(file.read(_HOLDER_BYTES)))
    return Holder()


def is_held(folder: Path) -> bool:
    """Whether a living process holds the lock; a lock file that cannot be opened or locked tells nothing: not held."""
    with suppress(OSError):
        if (handle := try_lock(folder / LOCK, fcntl.LOCK_SH)) is None:
            return True
        handle.close()
    return False


def drop_folder(folder: Path) -> None:
    """Rename a folder to a draft of it and then remove that, so that its name is free at once."""
    dropped = storage.draft_of(folder)
    with suppress(FileNotFoundError):
        folder.rename(dropped)
    storage.remove(dropped)


def leftovers(place: Path) -> list[Path]:
    """All drafts in a folder, or those of a file; of a living writer, or left by a dead one."""
    # Release 0.2.0 named the drafts of folders otherwise. A draft may be written by way of a draft of its own.
    folder, pattern = place, r"\.+.+(\.\d+\.draft)+|\.(draft|dropped)-.+"
    if not place.is_dir():
        folder, pattern = place.parent, rf"\.+{re.escape(place.name)}(\.\d+\.draft)+"
    return sorted(path for path in folder.iterdir() if re.fullmatch(pattern, path.name, re.DOTALL))


def remove_leftovers(place: Path) -> None:
    """Remove what writers that died have left; the caller must be the only writer."""
    for path in leftovers(place):
        storage.remove(path)


def holds_tables(folder: Path, beside: Collection[str]) -> bool:
    """Whether a folder holds tables, perhaps files with these names, and nothing else; only such a folder is ours."""
    names = [] if folder.is_symlink() or not folder.is_dir() else [path.name for path in folder.iterdir()]
    return bool(names) and all(name in beside or name.endswith((".parquet", ".draft")) for name in names)


def add_name(source: Path, target: Path) -> None:
    """Give a flushed file another name; where the disk has no hard links, or is another one, its bytes are copied."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        storage.sync(target)


def damage(path: Path, sha256: str = "", n_bytes: int | None = None) -> str:
    """What is wrong with a file that is to have so many bytes, and a digest that begins so; empty where it is whole.

    Without a digest it is not read. A process reads a file once, and again when its size, times or inode differ.
    """
    try:
        stamp = storage.file_stamp(path)
        if n_bytes not in (None, stamp.bytes):
            return f"{stamp.bytes} bytes"
        found = storage.sha256_once(path, stamp) if sha256 else ""
    except (FileNotFoundError, NotADirectoryError):
        return "no such file"
    except OSError as error:
        found = error.strerror or "an error of the disk"
    return "" if found.startswith(sha256) else f"damaged bytes ({printable(found, 24)})"


@contextmanager
def new_table(pointer: Path) -> Iterator[Path]:
    """A draft to write, which becomes the table that a pointer names, a JSON file."""
    draft = storage.draft_of(pointer)
    try:
        yield draft
        keep_tables(pointer, {pointer.stem: draft})
    finally:
        draft.unlink(missing_ok=True)


def keep_tables(pointer: Path, drafts: Mapping[str, Path], facts: Mapping[str, Any] | None = None) -> Path:
    """Give drafts names with the digest of the first one, and let the pointer name that; returns its path.

    The tables before stay for those who still read them, KEPT_TABLES in all; other files of this name, and drafts, go.
    """
    (name, draft), *others = drafts.items()
    path = pointer.with_name(f"{name}-{storage.file_sha256(draft)[:16]}.parquet")
    for other, beside in others:
        beside.replace(path.with_suffix(f".{other}.parquet"))
    draft.replace(path)
    storage.sync(path.parent)
    tables = list(dict.fromkeys([path.name, *named_tables(pointer)]))[:KEPT_TABLES]
    storage.write_text(pointer, json.dumps({**(facts or {}), "table": path.name, "tables": tables}, indent=1) + "\n")
    remove_leftovers(pointer)
    kept = {pointer.name, *(table.partition(".")[0] for table in tables)}
    for one in path.parent.glob(f"{name}[-.]*"):
        if not kept & {one.name, one.name.partition(".")[0]}:
            one.unlink(missing_ok=True)
    return path


def named_tables(pointer: Path) -> list[str]:
    """The names of the tables under a pointer, newest first; none where there is no such pointer."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        names = parsed_json(pointer.read_text(encoding="utf-8"))["tables"]
        return [name for name in names if re.fullmatch(r"[\w-]+-[0-9a-f]{16}\.parquet", name)]
    return []


def kept_table(pointer: Path) -> Path | None:
    """The table that a pointer names; None where there is no pointer, and InputError where the table is damaged."""
    if not pointer.exists():
        return None
    names = named_tables(pointer)
    path = pointer.with_name(names[0]) if names else pointer
    if found := damage(path, path.stem[-16:]) if names else "text that names no table":
        expected, do = "a table and its SHA-256 in its name", "remove the file: it is written anew"
        raise InputError(printable(str(path)), found, expected, do)
    return path


def take_run_lock(
    folder: Path,
    *,
    waits: bool = False,
    found: str = "another run that publishes here",
    do: str = "try again when it has ended",
) -> BinaryIO:
    """The lock of a folder, held until the handle is closed; where another process holds it, this may wait for it.

    Else RunInProgressError, in which `found` and `do` are words of the sentence.
    """
    while (handle := acquire(folder)) is None:
        # `is_held` of another process holds the lock for an instant: then no run is found, and this one tries again.
        if not is_held(folder):
            continue
        if not waits:
            where = printable(str(folder.parent), 1000)
            raise RunInProgressError(where, f"{found} ({holder_of(folder)})", "one at a time", do)
        with suppress(OSError), (folder / LOCK).open("rb") as waited:
            fcntl.flock(waited, fcntl.LOCK_SH)
    return handle


@contextmanager
def locked(folder: Path, *, waits: bool = True) -> Iterator[Path]:
    """A folder under its lock, without the leftovers of dead writers.

    RunInProgressError where another process holds the lock and this does not wait for it. At the end the folder is
    removed if it is empty, and so are those above it that were made here: a failed first run leaves nothing behind.
    """
    created = [one for one in folder.parents if not one.exists()]
    try:
        with take_run_lock(folder, waits=waits):
            try:
                remove_leftovers(folder)
                yield folder
            finally:
                remove_leftovers(folder)
                with suppress(OSError):
                    if [path.name for path in folder.iterdir()] == [LOCK]:
                        (folder / LOCK).unlink()
                        folder.rmdir()
    finally:
        for one in created:
            with suppress(OSError):
                one.rmdir()


def work_folder(output_dir: Path) -> AbstractContextManager[Path]:
    """The work folder of `output_dir` under its lock; RunInProgressError where another run holds it."""
    return locked(output_dir / WORK, waits=False)


def keep_step(
    folder: Path, compute: Callable[[Path], tuple[Mapping[str, LargeTable], Report]], kinds: Mapping[str, TableKind]
) -> StepResult[Path]:
    """Write a step's folder atomically, in place of a damaged one; the caller holds the lock of the work folder.

    `compute` gives the tables and the report; it writes large tables into the folder that it is called with. The bytes
    of the others depend only on their content and the code version.
    """
    drop_folder(folder)
    with storage.drafted(folder) as draft:
        draft.mkdir()
        tables, report = compute(draft)
        sums = {}
        for name, table in tables.items():
            path = draft / f"{name}.parquet"
            if not isinstance(table, StoredTable):
                storage.write_table(path, table, kinds[name], {"code": code_version()})
            sums[name] = storage.file_sha256(path)
        storage.write_text(draft / _REPORT, json.dumps({"report": report.as_dict(), "sha256": sums}, indent=1) + "\n")
    return StepResult({name: folder / f"{name}.parquet" for name in tables}, report)


def find_step(folder: Path) -> StepResult[Path] | None:
    """The stored result of a step; None unless its files are those that were written with its report."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, WalltimeError):
        stored = parsed_json((folder / _REPORT).read_text(encoding="utf-8"))
        paths = {name: folder / f"{name}.parquet" for name in stored["sha256"]}
        if not any(damage(paths[name], sha256) for name, sha256 in stored["sha256"].items()):
            return StepResult(paths, Report.from_dict(stored["report"]).check(), is_reused=True)
    return None


def step_folders(work: Path) -> set[str]:
    """The names of the folders of finished steps; drafts are none."""
    return {folder.name for folder in work.glob("[!.]*-*") if holds_tables(folder, {_REPORT})}


def keep_steps(work: Path, names: Collection[str]) -> None:
    """Remove the folders of all other steps. A failed run removes none, so that the next one goes on from them."""
    for name in sorted(step_folders(work) - set(names)):
        drop_folder(work / name)
