"""Shared locks on versions: a reader holds one while it reads, and a version with a reader is not removed.

The lock file lies in the folder of the version and is made with it, so that a reader needs no right to write. The
system releases the lock of a reader that dies.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.publish.folders import LOCK, drop_folder, is_same_file
from pipeline.publish.manifest import MANIFEST, VERSIONS, Manifest
from pipeline.publish.version_store import find_version, readable_manifest, version_as_of

_TRIES = 100


class _RemovedError(Exception):
    """The version is being removed, or has been."""


@contextmanager
def reading(output_dir: Path, as_of_s: int | None = None) -> Iterator[Manifest]:
    """The published version, or the newest one made by `as_of_s`, with its manifest; it stays on disk meanwhile.

    InputError where there is no such version. Without a lock file (earlier releases) or on a file system without
    locks the grace period of the retention protects the reader.
    """
    with _reading(output_dir, lambda: version_as_of(output_dir, as_of_s)) as manifest:
        yield manifest


@contextmanager
def reading_version(output_dir: Path, text: str) -> Iterator[Manifest]:
    """The same of the version that a name means, published or not."""
    with _reading(output_dir, lambda: readable_manifest(output_dir, find_version(output_dir, text))) as manifest:
        yield manifest


@contextmanager
def _reading(output_dir: Path, find: Callable[[], Manifest]) -> Iterator[Manifest]:
    for _ in range(_TRIES):
        stamp = _stamp(output_dir)
        try:
            manifest = find()
        except InputError:
            # Its files may have been removed after the manifest was read; then another manifest is there by now.
            if _stamp(output_dir) == stamp:
                raise
            continue
        try:
            handle = _shared(output_dir / VERSIONS / manifest.folder)
        except _RemovedError:
            continue
        try:
            yield manifest
        finally:
            if handle is not None:
                handle.close()
        return
    found = "versions that are removed faster than they are opened"
    raise InputError(printable(str(output_dir)), found, "a version to read", "try again")


def _stamp(output_dir: Path) -> tuple[int, int] | None:
    """What distinguishes one manifest from the next; None where there is none."""
    try:
        status = (output_dir / MANIFEST).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _shared(folder: Path) -> BinaryIO | None:
    """The locked lock file of a version; None where it cannot be locked."""
    try:
        handle = (folder / LOCK).open("rb")
    except OSError:
        if folder.is_dir():
            return None
        raise _RemovedError from None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise _RemovedError from None
    except OSError:
        handle.close()
        return None
    if is_same_file(handle, folder / LOCK):
        return handle
    handle.close()
    raise _RemovedError


def drop_unused(folder: Path) -> bool:
    """Remove a version unless a reader holds its lock; returns whether it is gone."""
    try:
        handle = (folder / LOCK).open("rb")
    except OSError:
        drop_folder(folder)
        return True
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        drop_folder(folder)
    return True
