"""Folders for spill files, removed at the end, and by the next owner where theirs was killed.

The owner holds a lock inside its folder, and the system releases that lock when the process dies, however it dies.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import InputError, printable
from pipeline.publish.store import acquire

SPILL_PREFIX = ".walltime-spill-"


@contextmanager
def spill_folder(parent: Path) -> Iterator[Path]:
    """An empty folder below `parent` that is removed at the end; folders of dead owners beside it are removed first."""
    for old in sorted(parent.glob(f"{SPILL_PREFIX}*")):
        try:
            left = acquire(old)
        except OSError:
            # Another user's folder.
            continue
        if left is not None:
            shutil.rmtree(old, ignore_errors=True)
            left.close()
    folder, lock = _made(parent)
    try:
        files = folder / "files"
        files.mkdir()
        yield files
    finally:
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
        if lock := acquire(folder):
            return folder, lock
