"""Detects a log that changed while a run read it."""

import hashlib
from pathlib import Path

from pipeline.errors import InputError, printable
from pipeline.storage import FileStamp, file_stamp

_BLOCK_BYTES = 1 << 20
_DO = "run again when its writer is done, or give the run a copy of it"


def sha256_of_first(path: Path, n_bytes: int) -> str:
    """SHA-256 of the first bytes of a file, or of all where it is shorter."""
    digest, left = hashlib.sha256(), n_bytes
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def check_unchanged(path: Path, label: str, before: FileStamp, sha256: str) -> None:
    """InputError where what the file was is no longer its beginning, or where it is gone.

    A file may grow: a scheduler adds to its accounting file all day, and the next run reads the rest. `before` has to
    be taken before the digest of its bytes. The digest is taken again only where the state differs.
    """
    try:
        now = file_stamp(path)
        if now == before or (now.bytes >= before.bytes and sha256_of_first(path, before.bytes) == sha256):
            return
    except FileNotFoundError:
        found = "a file that was removed while it was read"
    else:
        found = f"a file that {_change(before.bytes, now.bytes)} while it was read"
    raise InputError(printable(label), found, "a log that stays as it is during a run", _DO) from None


def _change(before: int, now: int) -> str:
    if now < before:
        return f"shrank from {before:,} to {now:,} bytes"
    return f"got other content in its first {before:,} bytes"
