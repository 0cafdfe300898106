"""Detects that a file changed between two readings, at the cost of one look at its state."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.store import file_sha256
from pipeline.core.text import printable

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


def check_unchanged(path: Path, label: str, before: FileStamp, sha256: str) -> None:
    """ChangedLogError where the file is not what it was: another digest, or no such file.

    `before` has to be taken before the digest. The digest is taken again only where the state differs.
    """
    try:
        now = file_stamp(path)
        if now == before or (now.bytes == before.bytes and file_sha256(path) == sha256):
            return
    except FileNotFoundError:
        found = "a file that was removed while it was read"
    else:
        found = f"a file that {_change(before.bytes, now.bytes)} while it was read"
    raise ChangedLogError(printable(label), found, "a log that stays as it is during a run", _DO) from None


def _change(before: int, now: int) -> str:
    if now == before:
        return f"got other content of the same {now:,} bytes"
    return f"{'grew' if now > before else 'shrank'} from {before:,} to {now:,} bytes"
