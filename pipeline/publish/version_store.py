"""The versions in a folder: which there are, which one a name or a date means, which are pinned, and which are read.

A reader holds a shared lock on a version while it reads, and such a version is not removed. The lock file lies in the
folder of the version and is made with it, so that a reader needs no right to write. The system releases the lock of a
reader that dies.
"""

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import InputError, printable
from pipeline.publish.folders import LOCK, drop_folder, holds, locked
from pipeline.publish.manifest import (
    DATAPACKAGE,
    MANIFEST,
    OWN_MANIFEST,
    VERSIONS,
    Manifest,
    VersionEntry,
    check_no_link,
    is_plain_name,
    load_manifest,
    load_version,
    or_none,
    read_manifest,
)
from pipeline.storage import sync_folder, write_text
from pipeline.tables import TABLES

PIN = "pin.json"
OWN_FILES = {OWN_MANIFEST, LOCK, PIN, DATAPACKAGE}
"""Files beside the tables of a version. A folder with any other file is not ours, and is never removed."""
_TRIES = 100
"""Of opening a version that others remove meanwhile."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version on disk. `manifest`: None where none can be read, or a table is damaged.

    `place`: 0 for the published version, 1 for the one published before, and so on; None: it was never published.
    """

    folder: str
    created_s: int | None
    place: int | None
    manifest: Manifest | None
    entry: VersionEntry | None
    is_pinned: bool
    bytes: int

    @property
    def name(self) -> str:
        """The name that a user gave; empty where none was given."""
        return self.manifest.name if self.manifest else ""

    @property
    def is_withdrawn(self) -> bool:
        """Whether a rollback took it back."""
        return self.entry is not None and self.entry.is_withdrawn

    @property
    def run_id(self) -> str:
        """The id of the run that made it; empty where it is unknown."""
        known = self.manifest or self.entry
        return known.run_id if known else ""


def stored_versions(output_dir: Path, history: Sequence[VersionEntry] | None = None) -> list[StoredVersion]:
    """The versions on disk: those that were published, latest publication first, then the others, newest first.

    `history`: the published version and those before it, latest first; None: as the manifest says.
    """
    current = or_none(read_manifest, output_dir) if history is None else None
    entries = history or (history_of(current) if current else ())
    places = {entry.folder: place for place, entry in enumerate(entries)}
    folders = output_dir / VERSIONS
    found = [
        _stored(folder, entries[place] if (place := places.get(folder.name)) is not None else None, place)
        for folder in (sorted(folders.iterdir()) if folders.is_dir() else ())
        if is_version(folder)
    ]
    return sorted(found, key=lambda one: (one.place is None, one.place or 0, -(one.created_s or 0), one.folder))


def history_of(current: Manifest) -> list[VersionEntry]:
    """The published version and those published before it, latest first."""
    newest = VersionEntry(run_id=current.run_id, folder=current.folder, created_s=current.created_s)
    return [newest, *(entry for entry in current.previous if entry.folder != current.folder)]


def _stored(folder: Path, entry: VersionEntry | None, place: int | None) -> StoredVersion:
    manifest = or_none(load_version, folder.parents[1], folder.name)
    known = manifest or entry
    n_bytes = 0
    for file in folder.iterdir():
        with suppress(OSError):
            n_bytes += file.stat().st_size
    created_s = known.created_s if known else None
    return StoredVersion(folder.name, created_s, place, manifest, entry, (folder / PIN).exists(), n_bytes)


def is_version(folder: Path) -> bool:
    """Whether a folder holds the tables of a version and nothing else; drafts and symbolic links do not count."""
    if not is_plain_name(folder.name) or folder.is_symlink() or not folder.is_dir():
        return False
    names = [path.name for path in folder.iterdir()]
    return bool(names) and all(
        name in OWN_FILES or name.endswith(".draft") or (name.endswith(".parquet") and name[:-8] in TABLES)
        for name in names
    )


def find_version(output_dir: Path, text: str) -> StoredVersion:
    """The version with this folder, given name or run id, or the only one whose folder begins so; else InputError."""
    versions = stored_versions(output_dir)
    for matches in (
        [one for one in versions if one.folder == text],
        [one for one in versions if text and text in (one.name, one.run_id)],
        [one for one in versions if text and one.folder.startswith(text)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            listed = ", ".join(one.folder for one in matches[:5])
            found, expected = f"{len(matches)} versions named {printable(text)}", f"one of them, as in {listed}"
            raise InputError(printable(str(output_dir)), found, expected)
    listed = ", ".join(one.name or one.folder for one in versions[:5]) or "a folder with versions"
    found = f"no version {printable(text) or '(an empty name)'}"
    raise InputError(printable(str(output_dir)), found, f"one of {listed}", "`walltime versions list` lists them")


def named_manifest(output_dir: Path, text: str) -> Manifest:
    """The manifest of the version that a name means; InputError where it has none, or where a table is damaged."""
    found = find_version(output_dir, text)
    return found.manifest or load_version(output_dir, found.folder)


def version_as_of(output_dir: Path, as_of_s: int | None = None) -> Manifest:
    """The published version, or of those that were published the newest one made by `as_of_s` (UTC epoch seconds).

    A version that a rollback took back, or that was never published, is no answer. InputError where none is so old.
    """
    current = load_manifest(output_dir)
    if as_of_s is None:
        return current
    candidates = [entry for entry in history_of(current) if not entry.is_withdrawn]
    old_enough = [entry for entry in candidates if entry.created_s <= as_of_s]
    if not old_enough:
        oldest = min(entry.created_s for entry in candidates)
        where = f"--as-of {_utc(as_of_s)}"
        found = "no version so old"
        raise InputError(where, found, f"{_utc(oldest)} or later, when the oldest version was made")
    chosen = max(old_enough, key=lambda entry: entry.created_s)
    return current if chosen.folder == current.folder else load_version(output_dir, chosen.folder)


def _utc(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"


def pin(output_dir: Path, text: str, now_s: int) -> StoredVersion:
    """Pin a version, so that it stays whatever its age."""
    with locked_versions(output_dir):
        found = find_version(output_dir, text)
        write_pin(output_dir / VERSIONS / found.folder, now_s)
    return found


def write_pin(folder: Path, now_s: int) -> None:
    """Mark a version's folder as pinned; the lock must be held."""
    write_text(folder / PIN, json.dumps({"since_s": now_s}) + "\n")


def unpin(output_dir: Path, text: str) -> StoredVersion:
    """Unpin a version; it may go with a later publication."""
    with locked_versions(output_dir):
        found = find_version(output_dir, text)
        folder = output_dir / VERSIONS / found.folder
        (folder / PIN).unlink(missing_ok=True)
        sync_folder(folder)
    return found


def locked_versions(output_dir: Path) -> AbstractContextManager[None]:
    """The lock of all writers of a folder with versions; InputError where there are none, and nothing is created."""
    if not (output_dir / VERSIONS).is_dir():
        where = printable(str(output_dir))
        raise InputError(where, "no versions", "the folder to which a run has published", "run first")
    return locked(check_no_link(output_dir / VERSIONS))


class _RemovedError(Exception):
    """The version is being removed, or has been."""


@contextmanager
def reading(output_dir: Path, as_of_s: int | None = None, name: str | None = None) -> Iterator[Manifest]:
    """The published version, or the newest one made by `as_of_s`, with its manifest; it stays on disk meanwhile.

    With a `name` the version that it means, published or not (`find_version`). InputError where there is no such
    version. On a file system without locks the grace period of the retention protects the reader.
    """
    for _ in range(_TRIES):
        stamp = _stamp(output_dir)
        try:
            manifest = version_as_of(output_dir, as_of_s) if name is None else named_manifest(output_dir, name)
            handle = _shared(output_dir / VERSIONS / manifest.folder)
        except _RemovedError:
            continue
        except InputError:
            # Its files may have been removed after the manifest was read; then another manifest is there by now.
            if _stamp(output_dir) == stamp:
                raise
            continue
        with handle or nullcontext():
            yield manifest
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
        if holds(handle, folder / LOCK, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return handle
    except OSError:
        handle.close()
        return None
    handle.close()
    raise _RemovedError


def drop_unused(folder: Path) -> None:
    """Remove a version unless a reader holds its lock."""
    try:
        handle = (folder / LOCK).open("rb")
    except OSError:
        drop_folder(folder)
        return
    with handle:
        if holds(handle, folder / LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB):
            drop_folder(folder)
