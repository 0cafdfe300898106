"""Publishes a version: creates its folder atomically, replaces the manifest in one step, then removes old versions.

A reader that starts from the manifest sees one complete version, during a publish and after a crash in any step. The
files of a version never change. A `current` symlink would not suffice, because a reader opens several files.

A version is named by the time at which it was made and the start of its run's id, so that names sort by time.

Versions stay on disk by age: all at first, then the newest of each day, then the newest of each week.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import InputError, printable
from pipeline.publish.folders import LOCK, copy_durably, digests, drafted, locked, remove_drafts_of, remove_leftovers
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
    check_no_link,
    load_version,
    or_none,
    package_text,
    read_manifest,
)
from pipeline.publish.table_facts import entries_of, newest_end_s
from pipeline.publish.version_store import (
    StoredVersion,
    drop_unused,
    history_of,
    is_version,
    locked_versions,
    named_manifest,
    stored_versions,
    write_pin,
)
from pipeline.report import Report
from pipeline.storage import write_text
from pipeline.tables import OBSERVATIONS

ID_CHARS = 8
_RUN_ID = re.compile(r"\w[\w-]*")
_GIVEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


DAY_S = 86_400
_FIRST_MONDAY = 3
"""Days from a Monday to 1970-01-01, a Thursday."""


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


def expired(versions: Sequence[StoredVersion], retention: Retention, now_s: int) -> set[str]:
    """The folders of the versions that may go. The published version and pinned versions always stay.

    A version without a name that was never published is what a killed run left: it goes. One that was never published
    and whose manifest cannot be read stays: nobody knows what it is.
    """
    published = [one for one in versions if one.place is not None and not one.is_withdrawn]
    days = _newest_of_each(published, 1)
    weeks = _newest_of_each(published, 7)
    return {one.folder for one in versions if not _stays(one, retention, now_s, days, weeks)}


def _stays(one: StoredVersion, retention: Retention, now_s: int, days: set[str], weeks: set[str]) -> bool:
    # A time ahead of a clock that went back counts as now.
    age_days = max(now_s - (one.created_s or 0), 0) / DAY_S
    if one.is_pinned or one.place == 0:
        return True
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
    newest: dict[int, StoredVersion] = {}
    for one in sorted(versions, key=lambda one: (one.created_s or 0, one.folder)):
        newest[((one.created_s or 0) // DAY_S + _FIRST_MONDAY) // n_days] = one
    return {one.folder for one in newest.values()}


def version_name(created_s: int, run_id: str) -> str:
    """The name of a version, as in 2026-11-22T0310Z-0a1b2c3d (UTC); InputError for an id that is no name of a file."""
    if not _RUN_ID.fullmatch(run_id):
        raise InputError("publish", f"run id {run_id!r}", "letters, digits, - and _")
    return f"{datetime.fromtimestamp(created_s, UTC):%Y-%m-%dT%H%MZ}-{run_id[:ID_CHARS]}"


def check_given_name(name: str) -> str:
    """The name that a user gives to a version; InputError for one that a terminal or a shell could misread."""
    if not _GIVEN.fullmatch(name):
        expected = "up to 64 letters, digits, dots, - and _, as in try-7"
        raise InputError("--name", printable(name) or "nothing", expected)
    return name


def made_manifest(
    staged: Mapping[str, Path], reports: Sequence[Report], facts: RunFacts, output_dir: Path, created_s: int
) -> Manifest:
    """The manifest of staged tables that are to be published in `output_dir`, before they have a folder there."""
    return Manifest(
        format_version=FORMAT_VERSION,
        run_id=facts.run_id,
        folder="",
        created_s=created_s,
        data_newest_end_s=newest_end_s(staged[OBSERVATIONS.name]) if OBSERVATIONS.name in staged else None,
        site=facts.site,
        code=facts.code,
        settings=dict(facts.settings),
        logs=tuple(LogEntry(name=name, sha256=sha) for name, sha in facts.logs),
        tables=entries_of(staged),
        reports=tuple(report.as_dict() for report in reports),
        previous=(),
        root=output_dir,
        name=facts.name,
        from_s=facts.window_s[0],
        to_s=facts.window_s[1],
    )


def publish(staged: Mapping[str, Path], made: Manifest, retention: Retention) -> Path:
    """Publish the staged tables, of which `made` is the manifest, as the current version; returns the manifest's path.

    Several processes may publish to one folder. A version of the same run with the same bytes is reused. Versions that
    `retention` does not keep are removed. InputError where a rollback has withdrawn a version of the same run: the same
    logs, settings and code give the same tables.
    """
    output_dir = made.root
    with locked(check_no_link(output_dir / VERSIONS)):
        before = _tidied(output_dir)
        _check_not_withdrawn(before, made)
        own = _placed(staged, made)
        # Without a manifest before, nobody knows which versions were published: none is removed.
        _make_current(output_dir, own, before, made.created_s, retention=retention if before is not None else None)
    return output_dir / MANIFEST


def _check_not_withdrawn(before: Manifest | None, made: Manifest) -> None:
    back = [one.folder for one in (before.previous if before else ()) if one.is_withdrawn and one.run_id == made.run_id]
    if back:
        found = f"the tables of version {back[0]} again, which a rollback has withdrawn"
        do = f"`walltime versions promote {back[0]}` publishes it, and nothing is published before"
        raise InputError(printable(str(made.root)), found, "other logs, settings or code", do)


def keep_unpublished(staged: Mapping[str, Path], made: Manifest) -> Manifest:
    """Make a version of its own of the staged tables under the name in `made`; what is published does not change.

    InputError where another version has that name.
    """
    with locked(check_no_link(made.root / VERSIONS)):
        _tidied(made.root)
        check_name_free(made.root, made.name, made.run_id)
        return _placed(staged, made)


def check_name_free(output_dir: Path, name: str, run_id: str) -> None:
    """InputError where the name cannot be given, or where a version of another run has it."""
    check_given_name(name)
    taken = [one for one in stored_versions(output_dir) if name in (one.name, one.folder) and one.run_id != run_id]
    if taken:
        found = f"{printable(name)}, the name of version {taken[0].folder}"
        raise InputError("--name", found, "a name that no version has")


def promote(output_dir: Path, text: str, now_s: int) -> Manifest:
    """Publish a version that is on disk; its tables are compared with their digests first."""
    with locked_versions(output_dir):
        before = _tidied(output_dir)
        own = named_manifest(output_dir, text)
        return _published_again(output_dir, own, before, now_s)


def rollback(output_dir: Path, now_s: int) -> Manifest:
    """Publish the version again that was published before and pin it, and withdraw the current one."""
    with locked_versions(output_dir):
        before = _tidied(output_dir)
        stored = stored_versions(output_dir)
        earlier = [one for one in stored if one.place and not one.is_withdrawn]
        if before is None or not earlier:
            where = printable(str(output_dir))
            raise InputError(where, "no version that was published before", "one to go back to")
        own = named_manifest(output_dir, earlier[0].folder)
        restored = _published_again(output_dir, own, before, now_s, withdraws=True)
        write_pin(output_dir / VERSIONS / restored.folder, now_s)
        return restored


def _published_again(
    output_dir: Path, own: Manifest, before: Manifest | None, now_s: int, *, withdraws: bool = False
) -> Manifest:
    if before is not None and own.folder == before.folder:
        return before
    for name in own.tables:
        own.path(name)
    return _make_current(output_dir, own, before, now_s, withdraws=withdraws)


def _tidied(output_dir: Path) -> Manifest | None:
    """The published version, after removal of what writers that died have left; the lock must be held."""
    remove_leftovers(output_dir / VERSIONS)
    remove_drafts_of(output_dir / MANIFEST)
    return or_none(read_manifest, output_dir)


def _make_current(
    output_dir: Path,
    own: Manifest,
    before: Manifest | None,
    now_s: int,
    *,
    withdraws: bool = False,
    retention: Retention | None = None,
) -> Manifest:
    """Replace the manifest by that of a version, with the history of publications; then remove old versions.

    A version in use stays until a later publication. Other files and folders always stay.
    """
    history = _history(output_dir, own.folder, before, now_s, withdraws=withdraws)
    current = VersionEntry(own.run_id, own.folder, own.created_s)
    gone = expired(stored_versions(output_dir, (current, *history)), retention, now_s) if retention else set()
    kept = tuple(entry for entry in history if entry.folder not in gone)
    manifest = replace(own, previous=kept, published_s=now_s, root=output_dir)
    write_text(output_dir / MANIFEST, manifest.to_json())
    for folder in sorted(gone):
        drop_unused(output_dir / VERSIONS / folder)
    return manifest


def _history(
    output_dir: Path, current: str, before: Manifest | None, now_s: int, *, withdraws: bool
) -> tuple[VersionEntry, ...]:
    """The versions that were published before, latest first; without a readable manifest all without a name."""
    if before is None:
        own = [one for one in stored_versions(output_dir) if one.manifest is not None and not one.name]
        entries = [VersionEntry(one.run_id, one.folder, one.created_s or 0, now_s) for one in own]
        entries.sort(key=lambda entry: -entry.created_s)
    else:
        newest, *rest = history_of(before)
        entries = [replace(newest, until_s=now_s, is_withdrawn=withdraws), *rest]
    return tuple(e for e in entries if e.folder != current and (output_dir / VERSIONS / e.folder).is_dir())


def _placed(staged: Mapping[str, Path], made: Manifest) -> Manifest:
    """The manifest of the version: of an existing one of this run with these bytes, else of a new one."""
    wanted_name, versions = version_name(made.created_s, made.run_id), made.root / VERSIONS
    shas = {name: entry.sha256 for name, entry in made.tables.items()}
    for folder in sorted(versions.iterdir()):
        is_like = made.run_id[:ID_CHARS] in folder.name and is_version(folder)
        own = or_none(load_version, made.root, folder.name) if is_like else None
        if own is not None and (own.run_id, own.name) == (made.run_id, made.name) and _has_bytes(folder, shas):
            return own
    names = (wanted_name if n == 1 else f"{wanted_name}-{n}" for n in range(1, 1_000_000))
    folder = next(folder for name in names if not (folder := versions / name).exists())
    tables = {name: replace(one, path=f"{VERSIONS}/{folder.name}/{one.path}") for name, one in made.tables.items()}
    manifest = replace(made, folder=folder.name, tables=tables)
    with drafted(folder) as draft:
        for name, source in staged.items():
            copy_durably(source, draft / f"{name}.parquet")
        write_text(draft / DATAPACKAGE, package_text(manifest))
        (draft / LOCK).touch()
        write_text(draft / OWN_MANIFEST, manifest.to_json())
    return manifest


def _has_bytes(folder: Path, shas: Mapping[str, str]) -> bool:
    files = {path.stem: path for path in folder.glob("*.parquet")}
    return set(files) == set(shas) and digests(files) == shas
