"""The versions in a folder: publishing one, going back, keeping and pinning; which there are, and reading one.

A publication makes the version's folder atomically, replaces the manifest in one step, then removes old versions. A
reader that starts from the manifest sees one complete version, during a publish and after a crash in any step. The
files of a version never change. A `current` symlink would not suffice, because a reader opens several files.

A version is named by the time at which it was made and the start of its run's id, so that names sort by time. Versions
stay on disk by age: all at first, then the newest of each day, then the newest of each week.

A reader takes no lock, so that it needs no right to write and may be on another machine. A version stays for days
after another one was published, longer than any command reads.

A version that a check blocks is a whole published folder of its own, below `blocked/`, that any command reads. Nothing
of it is published. The newest few stay on disk.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from pipeline.arrays import DAY_S
from pipeline.errors import InputError, printable
from pipeline.publish import manifest as manifests
from pipeline.publish import store
from pipeline.publish.manifest import Manifest, VersionEntry, load_manifest, manifest_or_none, read_manifest
from pipeline.publish.mirror import is_mirrored
from pipeline.storage import drafted, sync, write_text

ID_CHARS = 8
_FIRST_MONDAY = 3
"""Days from a Monday to 1970-01-01, a Thursday."""

BLOCKED = "blocked"
KEPT_BLOCKED = 3
"""Blocked versions that stay on disk: enough to see whether a fault is new, and each takes the bytes of a version."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long versions stay.

    `newest`: so many stay whatever their age, the published one included. `all_days`: how long each stays after another
    one was published, and so for how long it can be read. `named_days`: how long one with a name stays which was never
    published.
    """

    newest: int
    all_days: float = 0.0
    daily_days: float = 0.0
    weekly_weeks: float = 0.0
    named_days: float = 0.0


RETENTION = Retention(newest=7, all_days=7, daily_days=7, weekly_weeks=520, named_days=28)
"""What a site has; `publish.keep_versions` replaces `newest`. The weeks of ten years are one version each."""


@dataclass(frozen=True, kw_only=True)
class StoredVersion(VersionEntry):
    """A version on disk: what the history of publications says of it, else its own manifest; empty texts for neither.

    `place`: 0 for the published version, 1 for the one published before, and so on; None: it was never published.
    """

    path: Path
    place: int | None = None
    is_pinned: bool = False

    @cached_property
    def manifest(self) -> Manifest | None:
        """Its own manifest, read when it is asked for; None where none can be read, or a table is missing or cut."""
        return manifest_or_none(self.path.parents[1], self.folder)


def publish(staged: Mapping[str, Path], made: Manifest, retention: Retention) -> Path:
    """Publish the staged tables, of which `made` is the manifest, as the current version; returns the manifest's path.

    Several processes may publish to one folder. A version of the same run with the same bytes is reused. Versions that
    `retention` does not keep are removed. InputError where a rollback has withdrawn a version of the same run: the same
    logs, settings and code give the same tables.
    """
    with _writing(made.root) as before:
        for one in before.previous if before else ():
            if one.is_withdrawn and one.run_id == made.run_id:
                found = f"the tables of version {one.folder} again, which a rollback has withdrawn"
                do = f"`walltime versions promote {one.folder}` publishes it, and nothing is published before"
                raise InputError(printable(str(made.root)), found, "other logs, settings or code", do)
        # Without a manifest before, nobody knows which versions were published: none is removed.
        _make_current(_placed(staged, made), before, made.created_s, retention=retention if before else None)
    return made.root / manifests.MANIFEST


def keep_unpublished(staged: Mapping[str, Path], made: Manifest) -> Manifest:
    """Make a version of its own of the staged tables under the name in `made`; what is published does not change.

    InputError where another version has that name.
    """
    with _writing(made.root):
        check_name(made.root, made.name, made.run_id)
        return _placed(staged, made)


def promote(output_dir: Path, text: str, now_s: int) -> Manifest:
    """Publish a version that is on disk; its tables are compared with their digests first."""
    with _writing(output_dir, creates=False) as before:
        return _make_current(_read_whole(find_version(output_dir, text)), before, now_s)


def rollback(output_dir: Path, now_s: int) -> Manifest:
    """Publish the version again that was published before and pin it, and withdraw the current one."""
    with _writing(output_dir, creates=False) as before:
        earlier = next((one for one in stored_versions(output_dir) if one.place and not one.is_withdrawn), None)
        if before is None or earlier is None:
            where = printable(str(output_dir))
            raise InputError(where, "no version that was published before", "one to go back to")
        restored = _make_current(_read_whole(earlier), before, now_s, withdraws=True)
        write_text(earlier.path / manifests.PIN, json.dumps({"since_s": now_s}) + "\n")
        return restored


def pin(output_dir: Path, text: str, since_s: int | None) -> StoredVersion:
    """Pin a version, so that it stays whatever its age; without a time unpin it, so that a later publication may."""
    with _writing(output_dir, creates=False):
        found = find_version(output_dir, text)
        if since_s is not None:
            write_text(found.path / manifests.PIN, json.dumps({"since_s": since_s}) + "\n")
        else:
            (found.path / manifests.PIN).unlink(missing_ok=True)
            sync(found.path)
    return found


def _read_whole(version: StoredVersion) -> Manifest:
    """The manifest of a version, whose tables were compared with their digests."""
    own = load_manifest(version.path.parents[1], version.folder)
    for name in own.tables:
        own.path(name)
    return own


@contextmanager
def _writing(output_dir: Path, *, creates: bool = True) -> Iterator[Manifest | None]:
    """Hold the lock that all writers share, remove what killed writers left, and yield the published version.

    Without `creates` InputError where there are no versions, and nothing is made.
    """
    versions = output_dir / manifests.VERSIONS
    if is_mirrored(output_dir) or not (creates or versions.is_dir()):
        expected = "the folder to which a run has published"
        raise InputError(printable(str(output_dir)), "no versions", expected, "run first")
    manifests.check_inside(output_dir, versions)
    with store.locked(versions):
        store.remove_leftovers(output_dir / manifests.MANIFEST)
        before = None
        with suppress(InputError):
            before = read_manifest(output_dir)
        yield before


def _make_current(
    own: Manifest, before: Manifest | None, now_s: int, *, withdraws: bool = False, retention: Retention | None = None
) -> Manifest:
    """Replace the manifest by that of a version, with the history of publications; then remove old versions.

    Other files and folders always stay.
    """
    versions = own.root / manifests.VERSIONS
    if before is None:
        # Without a readable manifest all versions without a name count as published.
        known = [one.manifest for one in stored_versions(own.root) if one.manifest and not one.name]
        entries = [replace(one.history[0], until_s=now_s) for one in known]
        entries.sort(key=lambda entry: -entry.created_s)
    else:
        newest, *rest = before.history
        entries = [replace(newest, until_s=now_s, is_withdrawn=withdraws), *rest]
    history = [one for one in entries if one.folder != own.folder and (versions / one.folder).is_dir()]
    stored = stored_versions(own.root, [own.history[0], *history])
    gone = expired(stored, retention, now_s) if retention else set()
    kept = tuple(one for one in history if one.folder not in gone)
    manifest = replace(own, previous=kept, published_s=now_s)
    write_text(own.root / manifests.MANIFEST, manifest.to_json())
    for folder in sorted(gone):
        store.drop_folder(versions / folder)
    return manifest


def _placed(staged: Mapping[str, Path], made: Manifest) -> Manifest:
    """The manifest of the version: of an existing one of this run with these bytes, else of a new one."""
    shas = {name: entry.sha256 for name, entry in made.tables.items()}
    for one in stored_versions(made.root):
        own = one.manifest if (one.run_id, one.name) == (made.run_id, made.name) else None
        has_bytes = own is not None and {name: entry.sha256 for name, entry in own.tables.items()} == shas
        if own is not None and has_bytes and not any(store.damage(own.place(name), sha) for name, sha in shas.items()):
            return own
    versions, wanted = made.root / manifests.VERSIONS, version_name(made.created_s, made.run_id)
    names = (wanted if n == 1 else f"{wanted}-{n}" for n in range(1, 1_000_000))
    folder = next(folder for name in names if not (folder := versions / name).exists())
    tables = {
        name: replace(one, path=f"{manifests.VERSIONS}/{folder.name}/{one.path}") for name, one in made.tables.items()
    }
    manifest = replace(made, folder=folder.name, tables=tables)
    with drafted(folder) as draft:
        draft.mkdir()
        for name, source in staged.items():
            store.add_name(source, draft / f"{name}.parquet")
        write_text(draft / manifests.OWN_MANIFEST, manifest.to_json())
    return manifest


def version_name(created_s: int, run_id: str) -> str:
    """The name of a version, as in 2026-11-22T0310Z-0a1b2c3d (UTC)."""
    return f"{datetime.fromtimestamp(created_s, UTC):%Y-%m-%dT%H%MZ}-{run_id[:ID_CHARS]}"


def check_name(output_dir: Path, name: str, run_id: str) -> None:
    """InputError for a name that a terminal or a shell could misread, or that a version of another run has."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        expected = "up to 64 letters, digits, dots, - and _, as in try-7"
        raise InputError("--name", printable(name) or "nothing", expected)
    taken = [one for one in stored_versions(output_dir) if name in (one.name, one.folder) and one.run_id != run_id]
    if taken:
        found = f"{printable(name)}, the name of version {taken[0].folder}"
        raise InputError("--name", found, "a name that no version has")


def expired(versions: Sequence[StoredVersion], retention: Retention, now_s: int) -> set[str]:
    """The folders of the versions that may go. The published version and pinned versions always stay.

    A version without a name that was never published is what a killed run left: it goes. One that was never published
    and whose manifest cannot be read stays: nobody knows what it is.
    """
    kept = {one.folder for one in versions if _stays(one, retention, now_s)}
    published = [one for one in versions if one.place is not None and not one.is_withdrawn]
    published.sort(key=lambda one: (one.created_s, one.folder))
    daily_until = retention.all_days + retention.daily_days
    for n_days, until_days in ((1, daily_until), (7, daily_until + 7 * retention.weekly_weeks)):
        # Days are those of UTC, and weeks begin on Monday.
        newest = {(one.created_s // DAY_S + _FIRST_MONDAY) // n_days: one for one in published}
        kept |= {one.folder for one in newest.values() if _days_since(one.created_s, now_s) < until_days}
    return {one.folder for one in versions} - kept


def _stays(one: StoredVersion, retention: Retention, now_s: int) -> bool:
    """Whether a version stays whatever others there are."""
    if one.is_pinned or one.place == 0:
        return True
    if one.place is None:
        return one.manifest is None or (bool(one.name) and _days_since(one.created_s, now_s) < retention.named_days)
    return one.place < retention.newest or _days_since(one.until_s or one.created_s, now_s) < retention.all_days


def _days_since(then_s: int, now_s: int) -> float:
    """The days since a time; one ahead of a clock that went back counts as now."""
    return max(now_s - then_s, 0) / DAY_S


def stored_versions(output_dir: Path, history: Sequence[VersionEntry] | None = None) -> list[StoredVersion]:
    """The versions on disk: those that were published, latest publication first, then the others, newest first.

    `history`: the published version and those before it, latest first; None: as the manifest says.
    """
    if history is None:
        history = []
        with suppress(InputError):
            history = read_manifest(output_dir).history
    places, found = {entry.folder: place for place, entry in enumerate(history)}, list[StoredVersion]()
    for path in sorted((output_dir / manifests.VERSIONS).glob("[!.]*")):
        if not store.holds_tables(path, manifests.OWN_FILES):
            continue
        # A night lists hundreds of versions: the manifests of those that were published are not read.
        if (place := places.get(path.name)) is not None:
            entry = history[place]
        else:
            own = manifest_or_none(output_dir, path.name)
            entry = own.history[0] if own else VersionEntry("", path.name, 0)
        found.append(StoredVersion(**asdict(entry), path=path, place=place, is_pinned=(path / manifests.PIN).exists()))
    return sorted(found, key=lambda one: (one.place is None, one.place or 0, -one.created_s, one.folder))


def find_version(output_dir: Path, text: str) -> StoredVersion:
    """The version with this folder, given name or run id, or the only one whose folder begins so; else InputError."""
    versions, where = stored_versions(output_dir), printable(str(output_dir))
    named = [one for one in versions if text and text in (one.folder, one.name, one.run_id)]
    matches = named or [one for one in versions if text and one.folder.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(one.name or one.folder for one in (matches or versions)[:5]) or "a folder with versions"
    found = f"{len(matches)} versions named" if matches else "no version"
    do = "`walltime versions list` lists them"
    raise InputError(where, f"{found} {printable(text) or '(an empty name)'}", f"one of {listed}", do)


def _folder_as_of(current: Manifest, as_of_s: int) -> str:
    """The folder of the newest version made by `as_of_s` (UTC epoch seconds) of those that were published.

    A version that a rollback took back is no answer. InputError where none is so old.
    """
    candidates = [entry for entry in current.history if not entry.is_withdrawn]
    old_enough = [entry for entry in candidates if entry.created_s <= as_of_s]
    if old_enough:
        return max(old_enough, key=lambda entry: entry.created_s).folder
    oldest_s = min(entry.created_s for entry in candidates)
    asked, oldest = (f"{datetime.fromtimestamp(one_s, UTC):%Y-%m-%dT%H:%MZ}" for one_s in (as_of_s, oldest_s))
    expected = f"{oldest} or later, when the oldest version was made"
    raise InputError(f"--as-of {asked}", "no version so old", expected)


def read_version(output_dir: Path, as_of_s: int | None = None, name: str | None = None) -> Manifest:
    """The manifest of the published version, or of the newest one made by `as_of_s`.

    With a `name` of the version that it means, published or not (`find_version`). InputError where there is no such
    version.
    """
    if name is not None:
        return load_manifest(output_dir, find_version(output_dir, name).folder)
    return load_manifest(output_dir, None if as_of_s is None else _folder_as_of(read_manifest(output_dir), as_of_s))


def keep_blocked(staged: Mapping[str, Path], made: Manifest) -> Path:
    """Store the staged tables as a blocked version, with the report of its checks; returns its folder.

    The caller holds the lock of the work folder.
    """
    folder = made.root / BLOCKED / made.run_id
    publish(staged, replace(made, root=folder), Retention(newest=2))
    store.remove_leftovers(folder.parent)
    others = [name for _, name in reversed(blocked_versions(made.root)) if name != made.run_id]
    for name in others[KEPT_BLOCKED - 1 :]:
        store.drop_folder(folder.with_name(name))
    return folder


def blocked_versions(output_dir: Path) -> list[tuple[int, str]]:
    """The blocked versions on disk: when each was made (UTC epoch seconds; 0: unknown), and its folder's name.

    Folders without a manifest are not ours to remove.
    """
    folders = [path.parent for path in (output_dir / BLOCKED).glob(f"*/{manifests.MANIFEST}")]
    return sorted((made.created_s if (made := manifest_or_none(one)) else 0, one.name) for one in folders)
