"""Reads a tar or zip of logs as its members, each of which is a Source; nothing of it is written to disk.

A tar is read from its front. Members that are asked for in its order, and twice only at their beginning, cost one pass.
"""

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from pipeline.errors import InputError, printable
from pipeline.ingest.sources import (
    ARROW,
    DAMAGED,
    PARQUET,
    ReadOnce,
    Source,
    head,
    kind_of,
    text_of,
    unpacked,
    unreadable,
)

MOST_MEMBERS = 100_000
MOST_RATIO, LEAST_BYTES = 1_000, 1 << 26
"""An archive of logs unpacks to some 5 to 100 times its size; one that says more than this was made to do harm."""

_MOST_NAME_BYTES = 1 << 16
_LONG_NAMES = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.SOLARIS_XHDTYPE
)  # fmt: skip
_ZIP_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
Entry = tuple[str, int, str]
"""Of an archive: name, bytes, and why it is passed over (empty: it is a log, maybe)."""


def with_members(sources: Sequence[Source]) -> tuple[list[Source], list[str]]:
    """The sources, with its members instead of each archive; and a sentence for each member that is passed over.

    InputError for an archive that is damaged, holds no file, or was made to fill a disk.
    """
    logs, passed_over = list[Source](), list[str]()
    for source in sources:
        kind = "" if source.opened else kind_of(head(source, is_empty_ok=True))
        if not kind:
            logs.append(source)
            continue
        try:
            archive = _Zip(source.path) if kind == "zip" else _Tar(source.path)
            members = list(_members(source, archive.entries(), archive.open))
        except DAMAGED as error:
            raise unreadable(source, 1, error) from None
        if not members:
            found = f"a {kind} archive without a file"
            raise InputError(printable(source.label), found, "an archive of logs", "check how it was made")
        for member, refusal in members:
            if why := refusal or _no_log(head(member, is_empty_ok=True)):
                passed_over.append(f"{printable(member.label)} is {why} and is passed over")
            else:
                logs.append(member)
    return logs, passed_over


def _members(
    source: Source, entries: Iterator[Entry], opened: Callable[[int], BinaryIO]
) -> Iterator[tuple[Source, str]]:
    """Each member that is no hidden file, as a Source, and why it is passed over."""
    most, total = MOST_RATIO * source.path.stat().st_size + LEAST_BYTES, 0
    for number, (name, n_bytes, refusal) in enumerate(entries):
        total += n_bytes
        if total > most or number >= MOST_MEMBERS:
            found = f"an archive of more than {most:,} bytes or {MOST_MEMBERS:,} members"
            raise InputError(printable(source.label), found, "an archive of logs", "unpack it and give the folder")
        parts = PurePosixPath(name).parts
        leads_out = "an entry whose name leads out of its folder" if {"..", "/"} & set(parts) else ""
        if not any(part.startswith(".") and part != ".." for part in parts):
            member = Source(source.path, f"{source.label}:{text_of(name)}", False, partial(opened, number))
            yield member, refusal or leads_out


def _no_log(start: bytes) -> str:
    """Why a member that begins so is not read: what needs to be read from its end, or holds other members."""
    if start.startswith((PARQUET, ARROW)):
        return "a binary table in an archive"
    return f"a {kind_of(start)} archive in an archive" if kind_of(start) else ""


class _Zip:
    """The members of a zip by number."""

    def __init__(self, path: Path) -> None:
        self._file = zipfile.ZipFile(path)
        self._infos = [info for info in self._file.infolist() if not info.is_dir()]

    def entries(self) -> Iterator[Entry]:
        for info in self._infos:
            why = "encrypted" if info.flag_bits & 1 else ""
            is_known = info.compress_type in _ZIP_PACKINGS
            yield info.filename, info.file_size, why or ("" if is_known else "packed in an unknown way")

    def open(self, number: int) -> BinaryIO:
        return unpacked(io.BufferedReader(cast(Any, self._file.open(self._infos[number]))))


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


class _Tar:
    """The members of a tar by number, read from the front: one that lies behind the last one read costs a new pass."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, -1
        self._stream: BinaryIO | None = None
        self._member: ReadOnce | None = None
        self._begin()

    def __del__(self) -> None:
        if self._stream:
            self._stream.close()

    def _begin(self) -> None:
        self.__del__()
        self._at, self._member, self._stream = -1, None, unpacked(self._path)
        self._tar = tarfile.open(fileobj=self._stream, mode="r|", bufsize=1 << 18, tarinfo=_Header)  # noqa: SIM115
        self._infos = (info for info in self._tar if not info.isdir())

    def entries(self) -> Iterator[Entry]:
        for info in self._infos:
            self._at += 1
            yield info.name, info.size, "" if info.isreg() and not info.issparse() else "no plain file"

    def open(self, number: int) -> BinaryIO:
        """The member's bytes, decompressed where it is itself packed."""
        if number < self._at or (number == self._at and (self._member is None or self._member.is_past)):
            self._begin()
        if self._at < number:
            for _ in range(number - self._at):
                info = next(self._infos)
            self._at, self._member = number, ReadOnce(cast(BinaryIO, self._tar.extractfile(info)))
        assert self._member is not None  # nosec B101 # for the type checker
        return unpacked(io.BufferedReader(self._member.view()))
