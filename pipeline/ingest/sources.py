"""Finds and opens logs (files, folders, globs; plain or compressed), and reads them in blocks of whole lines.

A log that a run reads is read as it was when its digest was taken, and one that changed meanwhile is an error.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from io import BufferedReader, RawIOBase
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import pyarrow as pa

from pipeline.errors import InputError, printable
from pipeline.storage import FileStamp, file_stamp

BLOCK_BYTES = 1 << 22
"""Decompressed bytes read at a time: what bounds a reader's memory. Larger ones each need fresh pages."""

LEAST_LINE_BYTES, MANY_LINES = 8, 1 << 16
"""A record has at least 10 bytes. Many lines that are shorter on average are blank or rubbish, and each costs time."""

MAX_LINE_BYTES = 1 << 20
"""A longer line is no accounting record; its middle is not even kept in memory."""

HEAD_BYTES = 1 << 16
_STEP_BYTES = 1 << 9
_BOM = b"\xef\xbb\xbf"
PARQUET, ARROW = b"PAR1", b"ARROW1"
"""What files of Parquet and of Arrow (Feather) begin with."""


def _raw(given: Path | BufferedReader) -> Any:
    return given.open("rb", buffering=0) if isinstance(given, Path) else given


_PACKINGS: Mapping[str, tuple[bytes, Callable[[Any], Any]]] = {
    "gzip": (b"\x1f\x8b", gzip.open),
    "xz": (b"\xfd7zXZ\x00", lzma.open),
    "bzip2": (b"BZh", bz2.open),
    "zstd": (b"\x28\xb5\x2f\xfd", lambda given: pa.CompressedInputStream(_raw(given), "zstd")),
    "plain": (b"", _raw),
}
"""What a packed file begins with, and what opens it."""
DAMAGED = (
    OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException, tarfile.TarError, zipfile.BadZipFile
)  # fmt: skip
"""What reading a file that is cut off or damaged may raise."""


@dataclass(frozen=True, slots=True)
class Source:
    """One log file. `label` names it in tables and messages; `is_named` where the user gave this very path.

    opened: where the log is no file, gives its bytes from the first on, and may be called more than once.
    """

    path: Path
    label: str
    is_named: bool = True
    opened: Callable[[], BinaryIO] | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a decompressed source (the last may lack its newline), how many, and where the first stands.

    line: from 1; offset: bytes from 0. n_dropped: bytes of a line too long to be kept, beside `data`.
    """

    data: bytes
    line: int
    offset: int
    n_lines: int
    n_dropped: int = 0


def find_sources(paths: Sequence[Path | Source]) -> list[Source]:
    """The files behind paths, folders (searched in depth, hidden names left out) and globs, each once, by name.

    A label is the path relative to the folder given, else the file's name; where two would be the same, as many
    parents are added as tell them apart. A Source stays as it is. InputError where a path leads to no file.
    """
    found: dict[Path, tuple[Path, bool]] = {}
    ready = [given for given in paths if isinstance(given, Source)]
    for given in (given for given in paths if not isinstance(given, Source)):
        for path, relative, is_named in _expand(Path(given)):
            found.setdefault(path.resolve(), (relative, is_named))
    if not found and not ready:
        raise InputError("the list of logs", "no path", "at least one", "give a log, a folder or a glob")
    labels = _distinct_labels({path: relative for path, (relative, _) in found.items()})
    sources = [Source(path, labels[path], is_named) for path, (_, is_named) in found.items()]
    return sorted([*ready, *sources], key=lambda source: source.label)


def head(source: Source, *, is_empty_ok: bool = False) -> bytes:
    """The first 64 KiB of a source, decompressed, without a UTF-8 mark; InputError where it is damaged, or empty and
    may not be."""
    start = next(_fresh_bytes(source, HEAD_BYTES), b"")
    if not start and not is_empty_ok:
        raise empty_source(source)
    return start.removeprefix(_BOM)


class Reading(RawIOBase):
    """A stream of what is read by place and size, from the first byte on; fewer bytes are given only at the end."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._bytes_at, self._place = read, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer but for the end; how many bytes."""
        data = self._bytes_at(self._place, len(buffer))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


class ReadOnce:
    """A stream that is read once, and may be looked at before: every view sees its first bytes.

    The one view that asks for more than these goes on with the stream. Another that does is an error of the caller.
    """

    AGAIN_BYTES = 1 << 21

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._start, self._n_read = stream, bytearray(), 0

    def view(self) -> Reading:
        """The bytes from the first on; closing it leaves the stream alone."""
        return Reading(self._bytes_at)

    def _bytes_at(self, place: int, size: int) -> bytes:
        kept = bytes(self._start[place : place + size])
        if len(kept) < size:
            if place + len(kept) != self._n_read:
                raise ValueError("a stream that is read once was read twice")
            fresh = self._stream.read(size - len(kept))
            self._start += fresh[: max(0, self.AGAIN_BYTES - self._n_read)]
            self._n_read += len(fresh)
            kept += fresh
        return kept


BEGINNING_BYTES = 1 << 20


def beginning(source: Source) -> tuple[Source, bool]:
    """The source's first bytes, decompressed, up to the end of a line; and whether they are all."""
    first = next(byte_blocks(source, BEGINNING_BYTES + 1), b"")
    is_whole = len(first) <= BEGINNING_BYTES
    shown = first if is_whole else first[: first.rfind(b"\n") + 1] or first
    return replace(source, opened=lambda: io.BytesIO(shown)), is_whole


def empty_source(source: Source) -> InputError:
    """The error for a source without a byte."""
    return InputError(f"{printable(source.label)}, line 1", "an empty file", "a log", "check that the export ran")


def check_is_text(source: Source, start: bytes) -> None:
    """InputError where a source's first bytes are text in UTF-16, have no line feed, or are nothing but zeros."""
    where = f"{printable(source.label)}, line 1"
    n_pairs = len(start) // 2
    zeros = [start[first::2].count(b"\0") for first in (0, 1)]
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or (n_pairs and max(zeros) > 0.4 * n_pairs and not min(zeros)):
        do = "convert it, as with: iconv -f UTF-16 -t UTF-8"
        raise InputError(where, "text in UTF-16", "text in UTF-8 or ASCII", do)
    if start.count(b"\r") > 1 and b"\n" not in start:
        do = r"convert them, as with: tr '\r' '\n'"
        raise InputError(where, "lines that end with a carriage return alone", "lines that end with a line feed", do)
    if start and not start.strip(b"\0"):
        do = "copy or export the log again: a crash or a full disk leaves such a file"
        raise InputError(where, f"nothing but zero bytes in its first {len(start)}", "a log", do)


def line_blocks(
    source: Source, block_bytes: int = BLOCK_BYTES, end_of_whole: Callable[[bytes], int] | None = None
) -> Iterator[Block]:
    """A source's decompressed bytes in blocks that end with a line, however the reads fell; a UTF-8 mark is dropped.

    end_of_whole: where the whole records of some bytes end, by default after the last line; what comes behind them goes
    to the next block, up to MAX_LINE_BYTES. A line longer than MAX_LINE_BYTES keeps just over that many bytes.
    InputError, with the line reached, where the compressed data is cut off or damaged.
    """
    line, offset, carry, dropped = 1, 0, b"", 0
    for fresh in _without_mark(_fresh_bytes(source, block_bytes)):
        data = fresh
        if dropped:
            end = fresh.find(b"\n") + 1
            if not end:
                dropped += len(fresh)
                continue
            yield Block(carry + b"\n", line, offset, 1, dropped + end - 1)
            line, offset = line + 1, offset + len(carry) + dropped + end
            carry, dropped, data = b"", 0, fresh[end:]
        data = carry + data if carry else data
        cut = end_of_whole(data) if end_of_whole else 0
        if not end_of_whole or len(data) - cut > MAX_LINE_BYTES:
            cut = data.rfind(b"\n") + 1
        if cut:
            whole = data if cut == len(data) else data[:cut]
            n_lines = whole.count(b"\n")
            if n_lines > MANY_LINES and len(whole) < LEAST_LINE_BYTES * n_lines:
                where = f"{printable(source.label)}, line {line}"
                found = f"{n_lines:,} lines in {len(whole):,} bytes, most of them blank"
                do = "remove the blank lines, as with: grep -v '^[[:space:]]*$'"
                raise InputError(where, found, "a log of records", do)
            yield Block(whole, line, offset, n_lines)
            line, offset = line + n_lines, offset + cut
        carry = data[cut : cut + MAX_LINE_BYTES + 1]
        dropped = len(data) - cut - len(carry)
    if carry:
        yield Block(carry, line, offset, carry.count(b"\n") + (not carry.endswith(b"\n")), dropped)


def byte_blocks(source: Source, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """A source's decompressed bytes, cut anywhere, for formats that are not made of lines; a UTF-8 mark is blanked."""
    return _without_mark(_fresh_bytes(source, block_bytes))


def _without_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes with a leading UTF-8 mark blanked, which keeps every offset true."""
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= len(_BOM) or not _BOM.startswith(start):
            yield b"   " + start[3:] if start.startswith(_BOM) else start
            yield from chunks
            return
    if start:
        yield start


def _fresh_bytes(source: Source, size: int) -> Iterator[bytes]:
    """Decompressed bytes, `size` at a time or a little less."""
    try:
        with _opened(source) as stream:
            while data := stream.read(size):
                yield data
    except DAMAGED as error:
        # The line in which reading fails is found by reading again in small steps, where that can be.
        line = 1
        try:
            with _opened(source) as stream:
                while data := stream.read(_STEP_BYTES):
                    line += data.count(b"\n")
        except DAMAGED:
            pass
        except ValueError:
            line = 0
        raise unreadable(source, line, error) from None


def _opened(source: Source) -> BinaryIO:
    return source.opened() if source.opened else unpacked(source.path)


def unreadable(source: Source, line: int, error: Exception) -> InputError:
    """The error for a source whose reading fails in this line, or of which not even the first line was seen."""
    label, expected = printable(source.label), "a log that can be read"
    match error:
        case PermissionError():
            do = f"ask for permission to read {printable(str(source.path), 1000)}"
            return InputError(label, "a file that you may not read", expected, do)
        case FileNotFoundError():
            do = "see that nothing moves or deletes a log while it is read"
            return InputError(label, "a file that is gone", expected, do)
        case IsADirectoryError():
            return InputError(label, "a folder that has taken a file's place", expected, "check the path")
    where = f"{label}, line {line}" if line else label
    said = ("ended before", "Truncated", "unexpected end")
    if isinstance(error, EOFError) or any(words in str(error) for words in said):
        found = "a compressed file that ends in the middle"
    else:
        found = f"compressed data that is damaged ({printable(str(error))})"
    return InputError(where, found, "a whole file", "copy or export the log again")


def compression_of(source: Source) -> str:
    """How a source is packed, told by its first bytes: gzip, xz, bzip2, zstd or plain."""
    try:
        return "plain" if source.opened else _packing_of(source.path)
    except OSError as error:
        raise unreadable(source, 1, error) from None


def kind_of(start: bytes) -> str:
    """Whether decompressed bytes begin an archive: tar, zip or nothing."""
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    try:
        tarfile.TarInfo.frombuf(start[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return ""
    return "tar"


def is_table(source: Source) -> bool:
    """Whether a source is a Parquet table that Walltime wrote; one of others is a log."""
    from pipeline.storage import read_metadata  # noqa: PLC0415  (pyarrow.parquet, which logs of text do without)

    try:
        is_parquet = not source.opened and _first_bytes(source.path).startswith(PARQUET)
        return is_parquet and "table" in read_metadata(source.path)
    except (OSError, pa.ArrowException):
        # The reader of logs says what is wrong with the file.
        return False


def unpacked(given: Path | BufferedReader) -> BinaryIO:
    """A file's bytes, decompressed; `read(n)` gives less than n bytes only at the end."""
    _, opens = _PACKINGS[_packing_of(given)]
    return cast(BinaryIO, opens(given))


def _packing_of(given: Path | BufferedReader) -> str:
    start = _first_bytes(given) if isinstance(given, Path) else given.peek(8)
    return next(kind for kind, (magic, _) in _PACKINGS.items() if start.startswith(magic))


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as peek:
        return peek.read(8)


def _expand(given: Path) -> Iterator[tuple[Path, Path, bool]]:
    """Each file behind a path: the file, its name relative to what was given, whether it was given itself."""
    shown = printable(str(given))
    try:
        is_folder, is_file = given.is_dir(), given.is_file()
    except (OSError, ValueError) as error:
        raise InputError(shown, f"a path that cannot be used ({error})", "a log, a folder or a glob") from None
    if is_file:
        yield given, Path(given.name), True
    elif is_folder:
        found = [(path, path.relative_to(given)) for path in sorted(given.rglob("*"))]
        found = [own for own in found if not any(part.startswith(".") for part in own[1].parts) and own[0].is_file()]
        if not found:
            raise InputError(shown, "a folder without a file", "a folder that holds logs", "check the path")
        yield from ((*own, False) for own in found)
    elif given.exists():
        raise InputError(shown, "a path that is neither a file nor a folder", "a log, a folder or a glob")
    else:
        # Path.glob takes no absolute pattern.
        is_pattern = any(c in str(given) for c in "*?[")
        matches = sorted(glob(str(given), recursive=True)) if is_pattern else []  # noqa: PTH207
        if not matches:
            raise InputError(shown, "no such file or folder", "a log, a folder or a glob", "check the path")
        for match in map(Path, matches):
            yield from ((p, rel, False) for p, rel, _ in _expand(match))


def _distinct_labels(relative: dict[Path, Path]) -> dict[Path, str]:
    """Label by path; a label that two paths would share takes as many parents as needed to differ."""
    depth = {path: len(short.parts) for path, short in relative.items()}
    while True:
        # A symbolic link is named as it was given, until its name alone does not tell it apart.
        names = {
            path: relative[path] if depth[path] == len(relative[path].parts) else Path(*path.parts[-depth[path] :])
            for path in relative
        }
        shared = Counter(names.values())
        clashing = [path for path, name in names.items() if shared[name] > 1]
        if not clashing:
            return {path: text_of(name.as_posix()) for path, name in names.items()}
        for path in clashing:
            depth[path] += 1


def text_of(name: str) -> str:
    """A file name as text, also where its bytes are no UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


# ---------------- logs that grow
# Reads a log as it was when its digest was taken, and detects one that changed meanwhile.

_DIGEST_BYTES = 1 << 20


def sha256_of_first(path: Path, n_bytes: int) -> str:
    """SHA-256 of the first bytes of a file, or of all where it is shorter."""
    digest, left = hashlib.sha256(), n_bytes
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, _DIGEST_BYTES))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


def first_bytes_of(source: Source, n_bytes: int) -> Source:
    """The log without what is added to it later; a packed log or a table stays as it is, and has to stay whole."""
    if source.opened or not _may_grow(source.path):
        return source
    return replace(source, opened=lambda: cast(BinaryIO, pa.OSFile(str(source.path)).get_stream(0, n_bytes)))


def _may_grow(path: Path) -> bool:
    """Whether a file is plain text, to whose end a scheduler adds lines."""
    with path.open("rb") as file:
        start = file.read(tarfile.BLOCKSIZE)
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
        change = f"got other content in its first {before.bytes:,} bytes"
        if not is_long:
            change = f"{'shrank' if now.bytes < before.bytes else 'grew'} from {before.bytes:,} to {now.bytes:,} bytes"
    except FileNotFoundError:
        change = "was removed"
    found, do = (
        f"a file that {change} while it was read",
        "run again when its writer is done, or give the run a copy of it",
    )
    raise InputError(printable(label), found, "a log that stays as it is during a run", do)


# ---------------- archives
# Reads a tar or zip of logs as its members, each of which is a Source; nothing of it is written to disk.

MOST_MEMBERS = 100_000
MOST_RATIO, LEAST_BYTES = 1_000, 1 << 26
"""An archive of logs unpacks to some 5 to 100 times its size; one that says more than this was made to do harm."""

_MOST_NAME_BYTES = 1 << 16
_LONG_NAMES = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.SOLARIS_XHDTYPE
)  # fmt: skip
_ZIP_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
Member = tuple[str, int, str, Callable[[], Any]]
"""Of an archive: name, bytes, why it is passed over (empty: it is a log, maybe), and what opens it."""


def with_members(sources: Sequence[Source], passed_over: list[str]) -> Iterator[Source]:
    """The sources, with its members instead of each archive; a sentence for each member that is passed over is added.

    A tar is read from its front, in one pass: a member is to be read before the next source is asked for, and once but
    for its beginning. InputError for an archive that is damaged, holds no file, or was made to fill a disk.
    """
    for source in sources:
        kind = "" if source.opened else kind_of(head(source, is_empty_ok=True))
        if not kind:
            yield source
            continue
        n_bytes, n_members = 0, 0
        most = MOST_RATIO * source.path.stat().st_size + LEAST_BYTES
        try:
            for number, (name, size, refusal, opened) in enumerate(_MEMBERS[kind](source.path)):
                n_bytes += size
                if n_bytes > most or number >= MOST_MEMBERS:
                    found = f"an archive of more than {most:,} bytes or {MOST_MEMBERS:,} members"
                    raise InputError(printable(source.label), found, "an archive of logs", "unpack it, give the folder")
                parts = PurePosixPath(name).parts
                if any(part.startswith(".") and part != ".." for part in parts):
                    continue
                n_members += 1
                member = Source(source.path, f"{source.label}:{text_of(name)}", False, partial(_unpacked, opened))
                leads_out = "an entry whose name leads out of its folder" if {"..", "/"} & set(parts) else ""
                if why := refusal or leads_out or _no_log(head(member, is_empty_ok=True)):
                    passed_over.append(f"{printable(member.label)} is {why} and is passed over")
                else:
                    yield member
        except DAMAGED as error:
            raise unreadable(source, 1, error) from None
        if not n_members:
            found = f"a {kind} archive without a file"
            raise InputError(printable(source.label), found, "an archive of logs", "check how it was made")


def _unpacked(opened: Callable[[], Any]) -> BinaryIO:
    return unpacked(BufferedReader(opened()))


def _no_log(start: bytes) -> str:
    """Why a member that begins so is not read: what needs to be read from its end, or holds other members."""
    if start.startswith((PARQUET, ARROW)):
        return "a binary table in an archive"
    return f"a {kind_of(start)} archive in an archive" if kind_of(start) else ""


def _zip_members(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as file:
        for info in (info for info in file.infolist() if not info.is_dir()):
            why = "" if info.compress_type in _ZIP_PACKINGS else "packed in an unknown way"
            yield info.filename, info.file_size, "encrypted" if info.flag_bits & 1 else why, partial(file.open, info)


class _Header(tarfile.TarInfo):
    """A member's header; a damaged one is an error, where tarfile takes it for the archive's end."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str | None, errors: str) -> "_Header":
        try:
            found = super().frombuf(buf, cast(str, encoding), errors)
        except tarfile.HeaderError as error:
            if not any(buf):
                raise
            raise tarfile.ReadError(f"a member's header: {error}") from None
        if found.type in _LONG_NAMES and found.size > _MOST_NAME_BYTES:
            raise tarfile.ReadError(f"a member's name of {found.size:,} bytes")
        return found


def _tar_members(path: Path) -> Iterator[Member]:
    with unpacked(path) as stream, tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 18, tarinfo=_Header) as file:
        for info in (info for info in file if not info.isdir()):
            is_plain = info.isreg() and not info.issparse()
            opened = ReadOnce(cast(BinaryIO, file.extractfile(info))).view if is_plain else io.BytesIO
            yield info.name, info.size, "" if is_plain else "no plain file", opened


_MEMBERS = {"zip": _zip_members, "tar": _tar_members}
