"""Creates and removes folders atomically, locks a folder against a second writer, and makes folders for spill files.

A spill folder is removed at the end, and by the next writer where its owner was killed: the owner holds a lock inside
its folder, and the system releases that lock when the process dies, however it dies.
"""

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import InputError, printable
from pipeline.storage import file_sha256, sync_folder

LOCK = ".lock"
_TRIES = 100
_DRAFT = ".draft-"
_DROPPED = ".dropped-"
SPILL_PREFIX = ".walltime-spill-"
_FILES = "files"
_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, after waiting for it; the folder is created if it is missing."""
    handle = acquire(folder, fcntl.LOCK_EX)
    assert handle is not None  # nosec B101 # for the type checker
    try:
        yield
    finally:
        handle.close()


def acquire(folder: Path, how: int) -> BinaryIO | None:
    """The locked lock file of the folder; None where `how` is non-blocking and another process holds the lock.

    A previous holder may have removed the file in the meantime; then the current file is locked.
    """
    while True:
        handle = _opened(folder)
        if holds(handle, folder / LOCK, how):
            return handle
        was_removed = not _is_same_file(handle, folder / LOCK)
        handle.close()
        if not was_removed:
            return None


def _opened(folder: Path) -> BinaryIO:
    """The opened lock file of the folder; InputError where the folder cannot be created."""
    for _ in range(_TRIES):
        # Another run may remove the folder between the two calls.
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)
            return _opened_lock(folder / LOCK)
    found = "a folder that cannot be created"
    raise InputError(printable(str(folder)), found, "a writable folder", "choose another output folder")


def _opened_lock(path: Path) -> BinaryIO:
    """The lock file, made where it is missing; InputError for a link, because a holder writes into the file."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666), "ab")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        where, do = printable(str(path)), "remove it if no run is in progress"
        raise InputError(where, "a symbolic link", "a file", do) from None


def holds(handle: BinaryIO, path: Path, how: int) -> bool:
    """Whether the opened lock file is locked now, and still the one at the path; OSError where files have no locks."""
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        return False
    return _is_same_file(handle, path)


def _is_same_file(handle: BinaryIO, path: Path) -> bool:
    """Whether the opened file is still the one at the path."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(handle.fileno())
    return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)


@contextmanager
def scratch(target: Path) -> Iterator[Path]:
    """An empty folder beside `target`, removed at the end if it still exists; `remove_leftovers` knows its name."""
    draft = target.with_name(f"{_DRAFT}{target.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """A draft folder beside `target` to fill; flushed and renamed to `target` at the end, or removed on failure."""
    with scratch(target) as draft:
        yield draft
        sync_folder(draft)
        draft.rename(target)
    sync_folder(target.parent)


def drop_folder(folder: Path) -> None:
    """Rename a folder and then remove it, so that its name is free at once."""
    dropped = folder.with_name(f"{_DROPPED}{folder.name}-{os.getpid()}")
    with suppress(FileNotFoundError):
        folder.rename(dropped)
    shutil.rmtree(dropped, ignore_errors=True)


def leftovers(folder: Path) -> list[Path]:
    """Drafts and renamed folders below `folder`; they belong to a living writer or were left by a dead one."""
    found = list(folder.iterdir()) if folder.is_dir() else []
    return sorted(path for path in found if path.name.startswith((_DRAFT, _DROPPED)))


def remove_leftovers(folder: Path) -> None:
    """Remove drafts and renamed folders of writers that died; the caller must hold the exclusive lock of the folder."""
    for path in leftovers(folder):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def drafts_of(path: Path) -> list[Path]:
    """The drafts of the file `path` in its folder."""
    draft = re.compile(rf"\.{re.escape(path.name)}\.\d+\.draft")
    return sorted(other for other in path.parent.iterdir() if draft.fullmatch(other.name))


def remove_drafts_of(path: Path) -> None:
    """Remove the drafts of `path` that killed writers left in its folder."""
    for other in drafts_of(path):
        other.unlink(missing_ok=True)


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file's bytes and flush them to disk."""
    shutil.copyfile(source, target)
    with target.open("rb") as copied:
        os.fsync(copied.fileno())


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    """SHA-256 by name."""
    return {name: file_sha256(path) for name, path in files.items()}


@contextmanager
def spill_folder(parent: Path) -> Iterator[Path]:
    """An empty folder below `parent` that is removed at the end; folders of dead owners beside it are removed first."""
    sweep_spill_folders(parent)
    folder, lock = _made(parent)
    try:
        files = folder / _FILES
        files.mkdir()
        yield files
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def sweep_spill_folders(parent: Path) -> None:
    """Remove the spill folders below `parent` whose owners are dead; one that cannot be removed stays."""
    for folder in sorted(parent.glob(f"{SPILL_PREFIX}*")):
        try:
            lock = acquire(folder, _NOW)
        except OSError:
            # Another user's folder.
            continue
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()


def _made(parent: Path) -> tuple[Path, BinaryIO]:
    """A new folder and its lock, held. A sweep may take a folder before its lock is held: then another is made."""
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=SPILL_PREFIX, dir=parent))
        except FileNotFoundError:
            if not parent.is_dir():
                raise
            # What the file systems of /proc and the like answer.
            found, expected = "a folder in which no file can be made", "a folder that can be written"
            raise InputError(printable(str(parent), 1000), found, expected, "choose another path") from None
        lock = acquire(folder, _NOW)
        if lock is not None:
            return folder, lock
