"""Folders for spill files: removed at the end, and by the next writer where their owner was killed.

The owner holds a lock inside its folder, and the system releases that lock when the process dies, however it dies. So a
folder whose lock is free has no owner any more.
"""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.publish.folders import acquire

PREFIX = ".walltime-spill-"
_FILES = "files"
_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB


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
    for folder in sorted(parent.glob(f"{PREFIX}*")):
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
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except FileNotFoundError:
            if not parent.is_dir():
                raise
            # What the file systems of /proc and the like answer.
            found, expected = "a folder in which no file can be made", "a folder that can be written"
            raise InputError(printable(str(parent), 1000), found, expected, "choose another path") from None
        lock = acquire(folder, _NOW)
        if lock is not None:
            return folder, lock
