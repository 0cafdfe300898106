"""Opens log files, compressed or plain, as streams of plain bytes, and detects one that changed meanwhile."""

import bz2
import hashlib
import io
import lzma
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from pipeline.errors import InputError, printable

_RAW_BYTES = 1 << 18
_LEAST_RAW_BYTES = 1 << 12
_GZIP = 31
"""zlib's number for its largest window in a gzip wrapper, whose checksum and length it then checks itself."""

_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"))

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)
"""What reading a file that is cut off or damaged may raise."""


def packing_of(path: Path) -> str:
    """How a file is packed, told by its first bytes: gzip, xz, bzip2, zstd or plain."""
    with path.open("rb") as peek:
        start = peek.read(8)
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), "plain")


def unpacked(path: Path) -> BinaryIO:
    """A file's bytes, decompressed; `read(n)` gives less than n bytes only at the end."""
    match packing_of(path):
        case "gzip":
            return cast(BinaryIO, _Gzip(path))
        case "xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        case "bzip2":
            return cast(BinaryIO, bz2.open(path, "rb"))
        case "zstd":
            return cast(BinaryIO, _Zstd(path))
        case _:
            return path.open("rb", buffering=0)


class _Gzip(io.RawIOBase):
    """A gzip file of one or more members, zeros after them left alone.

    Python's own module copies every byte once more, in pieces of 8 KiB, which takes as long as unpacking them.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._member = zlib.decompressobj(_GZIP)
        self._raw, self._step = b"", _RAW_BYTES

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; EOFError where the file ends within a member, zlib.error where it is damaged."""
        parts: list[bytes] = []
        # Packed bytes that this reading does not use are copied by zlib each time: a small one takes few.
        self._step = min(max(size // 4, _LEAST_RAW_BYTES), _RAW_BYTES)
        while size > 0 and self._is_in_member():
            fresh = self._member.decompress(self._raw, size)
            if not (fresh or self._raw or self._member.eof):
                raise EOFError("the file ended before its end-of-stream marker")
            self._raw = self._member.unconsumed_tail or self._member.unused_data
            size -= len(fresh)
            parts.append(fresh)
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _is_in_member(self) -> bool:
        """Have packed data at hand, of the next member where one has ended; False where none follows."""
        while self._member.eof:
            self._raw = self._raw.lstrip(b"\0")
            if self._raw:
                self._member = zlib.decompressobj(_GZIP)
            else:
                self._raw = self._file.read(self._step)
                if not self._raw:
                    return False
        self._raw = self._raw or self._file.read(self._step)
        return True


class _Zstd(io.RawIOBase):
    """A zstd file."""

    def __init__(self, path: Path) -> None:
        self._stream = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


_BLOCK_BYTES = 1 << 20
_DO = "run again when its writer is done, or give the run a copy of it"


class ChangedLogError(InputError):
    """A log that changed while a run read it."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The state of a file at one instant; any change of the file changes it."""

    bytes: int
    modified_ns: int
    changed_ns: int
    inode: int


def file_stamp(path: Path) -> FileStamp:
    """The state of a file now."""
    now = path.stat()
    return FileStamp(now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)


def sha256_of_first(path: Path, n_bytes: int) -> str:
    """SHA-256 of the first bytes of a file, or of all where it is shorter."""
    digest, left = hashlib.sha256(), n_bytes
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def check_unchanged(path: Path, label: str, before: FileStamp, sha256: str) -> None:
    """ChangedLogError where what the file was is no longer its beginning, or where it is gone.

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
    raise ChangedLogError(printable(label), found, "a log that stays as it is during a run", _DO) from None


def _change(before: int, now: int) -> str:
    if now < before:
        return f"shrank from {before:,} to {now:,} bytes"
    return f"got other content in its first {before:,} bytes"
