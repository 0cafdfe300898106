"""Publishes a version: creates its folder atomically, replaces the manifest in one step, then removes old versions.

A reader that starts from the manifest sees one complete version, during a publish and after a crash in any step. The
files of a version never change. A `current` symlink would not suffice, because a reader opens several files.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.core import compute as pc
from pipeline.core.errors import InputError
from pipeline.core.report import Report
from pipeline.core.store import read_table, write_text
from pipeline.core.table_kind import TableKind
from pipeline.core.tables import OBSERVATIONS, TABLES
from pipeline.publish.folders import (
    copy_durably,
    digests,
    drafted,
    drop_folder,
    locked,
    remove_drafts_of,
    remove_leftovers,
)
from pipeline.publish.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    ColumnEntry,
    LogEntry,
    Manifest,
    RunFacts,
    TableEntry,
    VersionEntry,
    load_manifest,
)

VERSIONS = "versions"


def publish(
    staged: Mapping[str, Path],
    reports: Sequence[Report],
    facts: RunFacts,
    *,
    output_dir: Path,
    created_s: int,
    keep_versions: int,
) -> Path:
    """Publish the staged tables as the current version; returns the manifest's path.

    Several processes may publish to one folder. A version with the same bytes is reused.
    """
    versions = output_dir / VERSIONS
    with locked(versions):
        remove_leftovers(versions)
        remove_drafts_of(output_dir / MANIFEST)
        before = _current(output_dir)
        folder = _placed(staged, versions, facts.run_id)
        kept = _kept(before, folder, versions, keep_versions)
        manifest = _manifest(folder, tuple(staged), reports=reports, facts=facts, created_s=created_s, previous=kept)
        write_text(output_dir / MANIFEST, manifest.to_json())
        if before is not None:
            _drop_all_but({folder.name, *(entry.folder for entry in kept)}, versions)
    return output_dir / MANIFEST


def _current(output_dir: Path) -> Manifest | None:
    try:
        return load_manifest(output_dir)
    except InputError:
        return None


def _placed(staged: Mapping[str, Path], versions: Path, run_id: str) -> Path:
    """The folder of the version: an existing one with these bytes, else a new one under the first free name."""
    if not re.fullmatch(r"\w[\w-]*", run_id):
        raise InputError("publish", f"run id {run_id!r}", "letters, digits, - and _")
    wanted = {f"{name}.parquet": digest for name, digest in digests(staged).items()}
    names = (run_id if n == 1 else f"{run_id}-{n}" for n in range(1, 1_000_000))
    folder = next(f for name in names if not (f := versions / name).exists() or _holds(f, wanted))
    if not folder.exists():
        with drafted(folder) as draft:
            for name, source in staged.items():
                copy_durably(source, draft / f"{name}.parquet")
    return folder


def _holds(folder: Path, wanted: Mapping[str, str]) -> bool:
    files = {path.name: path for path in folder.iterdir()} if folder.is_dir() else {}
    return set(files) == set(wanted) and digests(files) == wanted


def _kept(before: Manifest | None, current: Path, versions: Path, keep_versions: int) -> tuple[VersionEntry, ...]:
    """Earlier versions that are kept, newest first."""
    if before is None:
        return ()
    newest = VersionEntry(run_id=before.run_id, folder=before.folder, created_s=before.created_s)
    older = [entry for entry in (newest, *before.previous) if entry.folder != current.name]
    return tuple(entry for entry in older if (versions / entry.folder).is_dir())[: keep_versions - 1]


def _drop_all_but(kept: set[str], versions: Path) -> None:
    """Remove version folders that the manifest no longer names; other files and folders stay."""
    for folder in sorted(versions.iterdir()):
        if folder.is_dir() and folder.name not in kept and is_version(folder):
            drop_folder(folder)


def is_version(folder: Path) -> bool:
    """Whether a folder holds tables and nothing else."""
    holds_tables = all(f.suffix == ".parquet" and f.stem in TABLES for f in folder.iterdir())
    return holds_tables and not folder.name.startswith(".")


def _manifest(
    folder: Path,
    names: Sequence[str],
    *,
    reports: Sequence[Report],
    facts: RunFacts,
    created_s: int,
    previous: tuple[VersionEntry, ...],
) -> Manifest:
    files = {name: folder / f"{name}.parquet" for name in names}
    shas = digests(files)
    return Manifest(
        format_version=FORMAT_VERSION,
        run_id=facts.run_id,
        folder=folder.name,
        created_s=created_s,
        data_newest_end_s=_newest_end_s(files),
        site=facts.site,
        code=facts.code,
        settings=dict(facts.settings),
        logs=tuple(LogEntry(name=name, sha256=sha) for name, sha in facts.logs),
        tables={name: _entry(path, TABLES[name], shas[name]) for name, path in files.items()},
        reports=tuple(report.as_dict() for report in reports),
        previous=previous,
        root=folder.parents[1],
    )


def _entry(path: Path, kind: TableKind, sha256: str) -> TableEntry:
    return TableEntry(
        path=f"{VERSIONS}/{path.parent.name}/{path.name}",
        rows=pq.read_metadata(path).num_rows,
        bytes=path.stat().st_size,
        sha256=sha256,
        key=kind.key,
        columns=tuple(
            ColumnEntry(name=c.name, type=str(c.field(on_disk=True).type), unit=c.unit, meaning=c.meaning)
            for c in kind.columns
        ),
    )


def _newest_end_s(files: Mapping[str, Path]) -> int | None:
    """The latest end of the observed jobs."""
    if OBSERVATIONS.name not in files:
        return None
    newest: int | None = pc.max(read_table(files[OBSERVATIONS.name], OBSERVATIONS).column("last_end_s")).as_py()
    return newest
