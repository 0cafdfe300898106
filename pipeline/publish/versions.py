"""The versions in a folder: publishing one, going back, keeping and pinning; which there are, and reading one.

A publication makes the version's folder atomically, replaces the manifest in one step, then removes old versions. A
reader that starts from the manifest sees one complete version, during a publish and after a crash in any step. The
files of a version never change. A `current` symlink would not suffice, because a reader opens several files.

A version is named by the time at which it was made and the start of its run's id, so that names sort by time. Versions
stay on disk by age: all at first, then the newest of each day, then the newest of each week.

A reader holds a shared lock on a version while it reads, and such a version is not removed. The lock file lies in the
folder of the version and is made with it, so that a reader needs no right to write.
"""

import fcntl
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from pipeline.errors import InputError, printable
from pipeline.publish.manifest import (
    DATAPACKAGE,
    FORMAT_VERSION,
    MANIFEST,
    OWN_MANIFEST,
    VERSIONS,
    LogEntry,
    Manifest,
    RunFacts,
    VersionEntry,
    entries_of,
    is_plain_name,
    load_manifest,
    load_version,
    manifest_or_none,
    opened_rows,
    package_text,
    read_manifest,
)
from pipeline.publish.mirror import is_mirrored
from pipeline.publish.store import (
    LOCK,
    add_name,
    check_no_link,
    damage,
    drafted,
    drop_folder,
    locked,
    locks,
    remove_leftovers,
)
from pipeline.report import Report
from pipeline.storage import sync_folder, write_text
from pipeline.tables import OBSERVATIONS, TABLES

PIN = "pin.json"
OWN_FILES = {OWN_MANIFEST, LOCK, PIN, DATAPACKAGE}
"""Files beside the tables of a version. A folder with any other file is not ours, and is never removed."""

ID_CHARS = 8
DAY_S = 86_400
_FIRST_MONDAY = 3
"""Days from a Monday to 1970-01-01, a Thursday."""

_TRIES = 100
"""Of opening a version that others remove meanwhile."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long versions stay. `newest`: so many stay whatever their age, the published one included."""

    newest: int
    all_days: float = 0.0
    daily_days: float = 0.0
    weekly_weeks: float = 0.0
    named_days: float = 0.0
    """Days that a version with a name stays which was never published."""

    grace_s: float = 0.0
    """Seconds that a version stays after another one was published, for readers that hold no lock."""


RETENTION = Retention(newest=7, all_days=7, daily_days=7, weekly_weeks=520, named_days=28, grace_s=3600)
"""What a site has unless it sets another `newest` or `daily_days`: the weeks of ten years are one version each."""


@dataclass(frozen=True)
class StoredVersion:
    """A version on disk. Its manifest is read when it is asked for: a night lists hundreds of versions.

    `place`: 0 for the published version, 1 for the one published before, and so on; None: it was never published.
    """

    path: Path
    place: int | None = None
    entry: VersionEntry | None = None
    is_pinned: bool = False

    @cached_property
    def manifest(self) -> Manifest | None:
        """What its own manifest says; None where none can be read, or a table is missing or cut."""
        return manifest_or_none(self.path.parents[1], self.folder)

    @property
    def known(self) -> Any:
        """What the history of publications says of it, or its own manifest; None where nothing does."""
        return self.entry or self.manifest

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return self.path.name

    @property
    def name(self) -> str:
        """The name that a user gave; empty where none was given."""
        given = self.entry.name if self.entry else None
        return given if given is not None else self.manifest.name if self.manifest else ""

    @property
    def created_s(self) -> int:
        """When it was made, UTC epoch seconds; 0 where that is unknown."""
        return self.known.created_s if self.known else 0

    @property
    def run_id(self) -> str:
        """The id of the run that made it; empty where it is unknown."""
        return self.known.run_id if self.known else ""

    @property
    def is_withdrawn(self) -> bool:
        """Whether a rollback took it back."""
        return self.entry is not None and self.entry.is_withdrawn


def publish(staged: Mapping[str, Path], made: Manifest, retention: Retention) -> Path:
    """Publish the staged tables, of which `made` is the manifest, as the current version; returns the manifest's path.

    Several processes may publish to one folder. A version of the same run with the same bytes is reused. Versions that
    `retention` does not keep are removed. InputError where a rollback has withdrawn a version of the same run: the same
    logs, settings and code give the same tables.
    """
    with _writing(made.root) as before:
        earlier = before.previous if before else ()
        back = [one.folder for one in earlier if one.is_withdrawn and one.run_id == made.run_id]
        if back:
            found = f"the tables of version {back[0]} again, which a rollback has withdrawn"
            do = f"`walltime versions promote {back[0]}` publishes it, and nothing is published before"
            raise InputError(printable(str(made.root)), found, "other logs, settings or code", do)
        own = _placed(staged, made)
        # Without a manifest before, nobody knows which versions were published: none is removed.
        _make_current(own, before, made.created_s, retention=retention if before else None)
    return made.root / MANIFEST


def keep_unpublished(staged: Mapping[str, Path], made: Manifest) -> Manifest:
    """Make a version of its own of the staged tables under the name in `made`; what is published does not change.

    InputError where another version has that name.
    """
    with _writing(made.root):
        check_name_free(made.root, made.name, made.run_id)
        return _placed(staged, made)


def promote(output_dir: Path, text: str, now_s: int) -> Manifest:
    """Publish a version that is on disk; its tables are compared with their digests first."""
    with _writing(output_dir, creates=False) as before:
        return _published_again(named_manifest(output_dir, text), before, now_s)


def rollback(output_dir: Path, now_s: int) -> Manifest:
    """Publish the version again that was published before and pin it, and withdraw the current one."""
    with _writing(output_dir, creates=False) as before:
        earlier = [one for one in stored_versions(output_dir) if one.place and not one.is_withdrawn]
        if before is None or not earlier:
            where = printable(str(output_dir))
            raise InputError(where, "no version that was published before", "one to go back to")
        own = load_version(output_dir, earlier[0].folder)
        restored = _published_again(own, before, now_s, withdraws=True)
        _write_pin(earlier[0].path, now_s)
        return restored


def pin(output_dir: Path, text: str, now_s: int) -> StoredVersion:
    """Pin a version, so that it stays whatever its age."""
    with _writing(output_dir, creates=False):
        found = find_version(output_dir, text)
        _write_pin(found.path, now_s)
    return found


def _write_pin(version: Path, now_s: int) -> None:
    write_text(version / PIN, json.dumps({"since_s": now_s}) + "\n")


def unpin(output_dir: Path, text: str) -> StoredVersion:
    """Unpin a version; it may go with a later publication."""
    with _writing(output_dir, creates=False):
        found = find_version(output_dir, text)
        (found.path / PIN).unlink(missing_ok=True)
        sync_folder(found.path)
    return found


@contextmanager
def _writing(output_dir: Path, *, creates: bool = True) -> Iterator[Manifest | None]:
    """Hold the lock of all writers, after removal of what dead ones have left; gives the published version.

    Without `creates` InputError where there are no versions, and nothing is made.
    """
    versions, where = output_dir / VERSIONS, printable(str(output_dir))
    if (not creates and not versions.is_dir()) or is_mirrored(output_dir):
        raise InputError(where, "no versions", "the folder to which a run has published", "run first")
    with locked(check_no_link(versions, "a folder", f"make {where} itself the link")):
        remove_leftovers(versions)
        remove_leftovers(output_dir / MANIFEST)
        before = None
        with suppress(InputError):
            before = read_manifest(output_dir)
        yield before


def _published_again(own: Manifest, before: Manifest | None, now_s: int, *, withdraws: bool = False) -> Manifest:
    if before is not None and own.folder == before.folder:
        return before
    for name in own.tables:
        own.path(name)
    return _make_current(own, before, now_s, withdraws=withdraws)


def _make_current(
    own: Manifest, before: Manifest | None, now_s: int, *, withdraws: bool = False, retention: Retention | None = None
) -> Manifest:
    """Replace the manifest by that of a version, with the history of publications; then remove old versions.

    A version in use stays until a later publication. Other files and folders always stay.
    """
    output_dir = own.root
    if before is None:
        # Without a readable manifest all versions without a name count as published.
        known = [one.manifest for one in stored_versions(output_dir) if one.manifest and not one.name]
        entries = [replace(one.history[0], until_s=now_s) for one in known]
        entries.sort(key=lambda entry: -entry.created_s)
    else:
        newest, *rest = before.history
        entries = [replace(newest, until_s=now_s, is_withdrawn=withdraws), *rest]
    history = [one for one in entries if one.folder != own.folder and (output_dir / VERSIONS / one.folder).is_dir()]
    stored = stored_versions(output_dir, [own.history[0], *history])
    gone = expired(stored, retention, now_s) if retention else set()
    # With the names in it, no later listing reads the manifests of versions for them.
    names = {one.folder: one.name for one in stored}
    kept = tuple(replace(one, name=names.get(one.folder)) for one in history if one.folder not in gone)
    manifest = replace(own, previous=kept, published_s=now_s)
    write_text(output_dir / MANIFEST, manifest.to_json())
    for folder in sorted(gone):
        _drop_unused(output_dir / VERSIONS / folder)
    return manifest


def _placed(staged: Mapping[str, Path], made: Manifest) -> Manifest:
    """The manifest of the version: of an existing one of this run with these bytes, else of a new one."""
    wanted_name, versions = version_name(made.created_s, made.run_id), made.root / VERSIONS
    shas = {name: entry.sha256 for name, entry in made.tables.items()}
    for folder in sorted(versions.glob(f"*Z-{made.run_id[:ID_CHARS]}*")):
        own = manifest_or_none(made.root, folder.name) if _is_version(folder) else None
        if own is not None and (own.run_id, own.name) == (made.run_id, made.name):
            has_bytes = {name: entry.sha256 for name, entry in own.tables.items()} == shas
            if has_bytes and not any(damage(own.place(name), sha256) for name, sha256 in shas.items()):
                return own
    names = (wanted_name if n == 1 else f"{wanted_name}-{n}" for n in range(1, 1_000_000))
    folder = next(folder for name in names if not (folder := versions / name).exists())
    tables = {name: replace(one, path=f"{VERSIONS}/{folder.name}/{one.path}") for name, one in made.tables.items()}
    manifest = replace(made, folder=folder.name, tables=tables)
    with drafted(folder) as draft:
        for name, source in staged.items():
            add_name(source, draft / f"{name}.parquet")
        write_text(draft / DATAPACKAGE, package_text(manifest))
        (draft / LOCK).touch()
        write_text(draft / OWN_MANIFEST, manifest.to_json())
    return manifest


def made_manifest(
    staged: Mapping[str, Path], reports: Sequence[Report], facts: RunFacts, output_dir: Path, created_s: int
) -> Manifest:
    """The manifest of staged tables that are to be published in `output_dir`, before they have a folder there."""
    newest_end_s = None
    if OBSERVATIONS.name in staged:
        with opened_rows(staged[OBSERVATIONS.name]) as rows:
            newest_end_s = pc.max(rows.to_table(columns=["last_end_s"])["last_end_s"]).as_py()
    return Manifest(
        FORMAT_VERSION, facts.run_id, "", created_s, newest_end_s, facts.site, facts.code, dict(facts.settings),
        tuple(LogEntry(*log) for log in facts.logs), entries_of(staged), tuple(one.as_dict() for one in reports), (),
        output_dir, facts.name, *facts.window_s,
    )  # fmt: skip


def version_name(created_s: int, run_id: str) -> str:
    """The name of a version, as in 2026-11-22T0310Z-0a1b2c3d (UTC); InputError for an id that is no name of a file."""
    if not re.fullmatch(r"\w[\w-]*", run_id):
        raise InputError("publish", f"run id {run_id!r}", "letters, digits, - and _")
    return f"{datetime.fromtimestamp(created_s, UTC):%Y-%m-%dT%H%MZ}-{run_id[:ID_CHARS]}"


def check_given_name(name: str) -> str:
    """The name that a user gives to a version; InputError for one that a terminal or a shell could misread."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        expected = "up to 64 letters, digits, dots, - and _, as in try-7"
        raise InputError("--name", printable(name) or "nothing", expected)
    return name


def check_name_free(output_dir: Path, name: str, run_id: str) -> None:
    """InputError where the name cannot be given, or where a version of another run has it."""
    check_given_name(name)
    taken = [one for one in stored_versions(output_dir) if name in (one.name, one.folder) and one.run_id != run_id]
    if taken:
        found = f"{printable(name)}, the name of version {taken[0].folder}"
        raise InputError("--name", found, "a name that no version has")


def expired(versions: Sequence[StoredVersion], retention: Retention, now_s: int) -> set[str]:
    """The folders of the versions that may go. The published version and pinned versions always stay.

    A version without a name that was never published is what a killed run left: it goes. One that was never published
    and whose manifest cannot be read stays: nobody knows what it is.
    """
    published = [one for one in versions if one.place is not None and not one.is_withdrawn]
    days, weeks = _newest_of_each(published, 1), _newest_of_each(published, 7)
    return {one.folder for one in versions if not _stays(one, retention, now_s, days, weeks)}


def _stays(one: StoredVersion, retention: Retention, now_s: int, days: set[str], weeks: set[str]) -> bool:
    if one.is_pinned or one.place == 0:
        return True
    # A time ahead of a clock that went back counts as now.
    age_days = max(now_s - one.created_s, 0) / DAY_S
    if one.place is None:
        return one.manifest is None or (bool(one.name) and age_days < retention.named_days)
    until_s = one.entry.until_s if one.entry else None
    is_recent = until_s is not None and max(now_s - until_s, 0) < retention.grace_s
    if is_recent or one.place < retention.newest or age_days < retention.all_days:
        return True
    daily_until = retention.all_days + retention.daily_days
    if one.folder in days and age_days < daily_until:
        return True
    return one.folder in weeks and age_days < daily_until + 7 * retention.weekly_weeks


def _newest_of_each(versions: Iterable[StoredVersion], n_days: int) -> set[str]:
    """The folder of the newest version of every day (UTC), or of every week from Monday on."""
    ordered = sorted(versions, key=lambda one: (one.created_s, one.folder))
    return set({(one.created_s // DAY_S + _FIRST_MONDAY) // n_days: one.folder for one in ordered}.values())


def stored_versions(output_dir: Path, history: Sequence[VersionEntry] | None = None) -> list[StoredVersion]:
    """The versions on disk: those that were published, latest publication first, then the others, newest first.

    `history`: the published version and those before it, latest first; None: as the manifest says.
    """
    if history is None:
        history = []
        with suppress(InputError):
            history = read_manifest(output_dir).history
    known = {entry.folder: (place, entry) for place, entry in enumerate(history)}
    found: list[StoredVersion] = []
    for folder in (output_dir / VERSIONS).glob("[!.]*"):
        if _is_version(folder):
            place, entry = known.get(folder.name, (None, None))
            found.append(StoredVersion(folder, place, entry, (folder / PIN).exists()))
    published = sorted((one for one in found if one.place is not None), key=lambda one: one.place or 0)
    others = sorted((one for one in found if one.place is None), key=lambda one: (-one.created_s, one.folder))
    return published + others


def _is_version(folder: Path) -> bool:
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
    versions, where = stored_versions(output_dir), printable(str(output_dir))
    for matches in (
        [one for one in versions if one.folder == text],
        [one for one in versions if text and text in (one.name, one.run_id)],
        [one for one in versions if text and one.folder.startswith(text)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            listed = ", ".join(one.folder for one in matches[:5])
            raise InputError(where, f"{len(matches)} versions named {printable(text)}", f"one of them, as in {listed}")
    listed = ", ".join(one.name or one.folder for one in versions[:5]) or "a folder with versions"
    found = f"no version {printable(text) or '(an empty name)'}"
    raise InputError(where, found, f"one of {listed}", "`walltime versions list` lists them")


def named_manifest(output_dir: Path, text: str) -> Manifest:
    """The manifest of the version that a name means; InputError where it has none, or where a table is damaged."""
    return load_version(output_dir, find_version(output_dir, text).folder)


def version_as_of(output_dir: Path, as_of_s: int | None = None) -> Manifest:
    """The published version, or of those that were published the newest one made by `as_of_s` (UTC epoch seconds).

    A version that a rollback took back, or that was never published, is no answer. InputError where none is so old.
    """
    current = load_manifest(output_dir)
    if as_of_s is None:
        return current
    candidates = [entry for entry in current.history if not entry.is_withdrawn]
    old_enough = [entry for entry in candidates if entry.created_s <= as_of_s]
    if not old_enough:
        asked, oldest = (
            f"{datetime.fromtimestamp(one_s, UTC):%Y-%m-%dT%H:%MZ}"
            for one_s in (as_of_s, min(entry.created_s for entry in candidates))
        )
        expected = f"{oldest} or later, when the oldest version was made"
        raise InputError(f"--as-of {asked}", "no version so old", expected)
    chosen = max(old_enough, key=lambda entry: entry.created_s)
    return current if chosen.folder == current.folder else load_version(output_dir, chosen.folder)


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
        except InputError:
            # Its files may have been removed after the manifest was read; then another manifest is there by now.
            if _stamp(output_dir) == stamp:
                raise
            continue
        if lock := _shared_lock(output_dir / VERSIONS / manifest.folder):
            with lock:
                yield manifest
            return
    found = "versions that are removed faster than they are opened"
    raise InputError(printable(str(output_dir)), found, "a version to read", "try again")


def _stamp(output_dir: Path) -> tuple[int, int] | None:
    """What distinguishes one manifest from the next; None where there is none."""
    with suppress(OSError):
        status = (output_dir / MANIFEST).stat()
        return status.st_ino, status.st_mtime_ns
    return None


def _shared_lock(folder: Path) -> AbstractContextManager[object] | None:
    """A reader's lock on a version, which does nothing where there are no locks; None where the version is removed."""
    with suppress(OSError):
        handle = (folder / LOCK).open("rb")
        if locks(handle, folder / LOCK, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return handle
        handle.close()
        return None
    return nullcontext() if folder.is_dir() or is_mirrored(folder.parents[1]) else None


def _drop_unused(folder: Path) -> None:
    """Remove a version unless a reader holds its lock."""
    with suppress(OSError), (folder / LOCK).open("rb") as handle:
        if not locks(handle, folder / LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return
        drop_folder(folder)
        return
    drop_folder(folder)
