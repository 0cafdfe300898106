"""The versions in a folder: which there are, which one a name or a date means, and which are on hold."""

import json
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.store import sync_folder, write_text
from pipeline.core.tables import TABLES
from pipeline.core.text import printable
from pipeline.publish.datapackage import DATAPACKAGE
from pipeline.publish.folders import LOCK, locked
from pipeline.publish.manifest import (
    OWN_MANIFEST,
    VERSIONS,
    Manifest,
    VersionEntry,
    load_manifest,
    load_version,
    read_manifest,
)
from pipeline.publish.store_paths import check_no_link, is_plain_name

HOLD = "hold.json"
OWN_FILES = {OWN_MANIFEST, LOCK, HOLD, DATAPACKAGE}
"""Files beside the tables of a version. A folder with any other file is not ours, and is never removed."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version on disk. `manifest`: None for an older version of an earlier release, whose tables alone are there.

    `place`: 0 for the published version, 1 for the one published before, and so on; None: it was never published.
    """

    folder: str
    created_s: int | None
    place: int | None
    manifest: Manifest | None
    entry: VersionEntry | None
    is_held: bool
    bytes: int

    @property
    def name(self) -> str:
        """The name that a user gave; empty where none was given."""
        return self.manifest.name if self.manifest else ""

    @property
    def run_id(self) -> str:
        """The id of the run that made it; empty where it is unknown."""
        known = self.manifest or self.entry
        return known.run_id if known else ""


def published_version(output_dir: Path) -> Manifest | None:
    """The published version, intact or damaged; None where no manifest can be read."""
    try:
        return read_manifest(output_dir)
    except InputError:
        return None


def stored_versions(output_dir: Path) -> list[StoredVersion]:
    """The versions on disk: those that were published, latest publication first, then the others, newest first."""
    current = published_version(output_dir)
    entries = history_of(current) if current else []
    places = {entry.folder: place for place, entry in enumerate(entries)}
    folders = output_dir / VERSIONS
    found = [
        _stored(folder, current, entries[place] if (place := places.get(folder.name)) is not None else None, place)
        for folder in (sorted(folders.iterdir()) if folders.is_dir() else ())
        if is_version(folder)
    ]
    return sorted(found, key=lambda one: (one.place is None, one.place or 0, -(one.created_s or 0), one.folder))


def history_of(current: Manifest) -> list[VersionEntry]:
    """The published version and those published before it, latest first."""
    newest = VersionEntry(run_id=current.run_id, folder=current.folder, created_s=current.created_s)
    return [newest, *(entry for entry in current.previous if entry.folder != current.folder)]


def _stored(folder: Path, current: Manifest | None, entry: VersionEntry | None, place: int | None) -> StoredVersion:
    manifest = own_manifest(folder, current)
    known = manifest or entry
    n_bytes = 0
    for file in folder.iterdir():
        with suppress(OSError):
            n_bytes += file.stat().st_size
    created_s = known.created_s if known else None
    return StoredVersion(folder.name, created_s, place, manifest, entry, (folder / HOLD).exists(), n_bytes)


def own_manifest(folder: Path, current: Manifest | None) -> Manifest | None:
    """The manifest of a version's folder; None where it has none that can be read, or a table is damaged."""
    try:
        return load_version(folder.parents[1], folder.name)
    except InputError:
        # An earlier release wrote no manifest of the version, but the published version has one.
        has_none = not (folder / OWN_MANIFEST).exists()
        return current if has_none and current is not None and current.folder == folder.name else None


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
    raise InputError(printable(str(output_dir)), found, f"one of {listed}", "`walltime versions` lists them")


def readable_manifest(output_dir: Path, found: StoredVersion) -> Manifest:
    """The manifest of a version; InputError where it has none, or where a table is damaged."""
    if found.manifest is not None:
        return found.manifest
    if (output_dir / VERSIONS / found.folder / OWN_MANIFEST).exists():
        return load_version(output_dir, found.folder)  # raises, and says what is wrong
    where = printable(str(output_dir / VERSIONS / found.folder))
    found_there = "tables of an earlier release without a manifest of their own"
    raise InputError(where, found_there, f"a version with {OWN_MANIFEST}", "read its Parquet files, or run again")


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
    return current if chosen.folder == current.folder else _manifest_of(output_dir, chosen, current)


def _manifest_of(output_dir: Path, entry: VersionEntry, current: Manifest) -> Manifest:
    folder = output_dir / VERSIONS / entry.folder
    return readable_manifest(output_dir, _stored(folder, current, entry, None)) if folder.is_dir() else _gone(folder)


def _gone(folder: Path) -> Manifest:
    raise InputError(printable(str(folder)), "no such folder", "a version that the manifest names", "try again")


def _utc(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"


def hold(output_dir: Path, text: str, now_s: int) -> StoredVersion:
    """Put a version on hold, so that it stays whatever its age."""
    with locked_versions(output_dir):
        found = find_version(output_dir, text)
        write_text(output_dir / VERSIONS / found.folder / HOLD, json.dumps({"since_s": now_s}) + "\n")
    return found


def release(output_dir: Path, text: str) -> StoredVersion:
    """End the hold of a version; it may go with a later publication."""
    with locked_versions(output_dir):
        found = find_version(output_dir, text)
        folder = output_dir / VERSIONS / found.folder
        (folder / HOLD).unlink(missing_ok=True)
        sync_folder(folder)
    return found


def locked_versions(output_dir: Path) -> AbstractContextManager[None]:
    """The lock of all writers of a folder with versions; InputError where there are none, and nothing is created."""
    if not (output_dir / VERSIONS).is_dir():
        where = printable(str(output_dir))
        raise InputError(where, "no versions", "the folder to which a run has published", "run first")
    return locked(check_no_link(output_dir / VERSIONS))
