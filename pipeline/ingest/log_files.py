"""Reads a log as it was when its digest was taken, and detects one that changed meanwhile."""

import hashlib
from dataclasses import replace
from functools import partial
from io import FileIO
from pathlib import Path

from pipeline.errors import InputError, printable
from pipeline.ingest.archives import BLOCKSIZE, kind_of
from pipeline.ingest.sources import ARROW, PARQUET, Source, compression_of
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


class _FirstBytes(FileIO):
    """The first bytes of a file, whatever is added to it meanwhile."""

    def __init__(self, path: Path, n_bytes: int) -> None:
        super().__init__(path)
        self._n_left = n_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes: fewer than asked for only at the end."""
        wanted = self._n_left if size is None or size < 0 else min(size, self._n_left)
        data = super().read(wanted) or b""
        self._n_left -= len(data)
        return data


def first_bytes_of(source: Source, n_bytes: int) -> Source:
    """The log without what is added to it later; a packed log or a table stays as it is, and has to stay whole."""
    if source.opened or not _may_grow(source.path):
        return source
    return replace(source, opened=partial(_FirstBytes, source.path, n_bytes))


def _may_grow(path: Path) -> bool:
    """Whether a file is plain text, to whose end a scheduler adds lines."""
    with path.open("rb") as file:
        start = file.read(BLOCKSIZE)
    is_text = not start.startswith((PARQUET, ARROW)) and not kind_of(start)
    return is_text and compression_of(Source(path, path.name)) == "plain"


def check_unchanged(path: Path, label: str, before: FileStamp, sha256: str) -> None:
    """InputError where what the file was is no longer its beginning, or where it is gone.

    A text may grow: a scheduler adds to its accounting file all day, and the next run reads the rest. `before` has to
    be taken before the digest of its bytes. The digest is taken again only where the state differs.
    """
    try:
        now = file_stamp(path)
        is_long = now.bytes == before.bytes or (now.bytes > before.bytes and _may_grow(path))
        if now == before or (is_long and sha256_of_first(path, before.bytes) == sha256):
            return
    except FileNotFoundError:
        found = "a file that was removed while it was read"
    else:
        found = f"a file that {_change(path, before.bytes, now.bytes)} while it was read"
    raise InputError(printable(label), found, "a log that stays as it is during a run", _DO) from None


def _change(path: Path, before: int, now: int) -> str:
    if now < before or (now > before and not _may_grow(path)):
        return f"{'shrank' if now < before else 'grew'} from {before:,} to {now:,} bytes"
    return f"got other content in its first {before:,} bytes"
