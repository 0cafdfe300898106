"""The folder of intermediate results: one folder per step, named by a digest of its inputs, complete or absent."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import naming_path
from flows.services.run.run_lock import take_run_lock
from pipeline.core.errors import WalltimeError
from pipeline.core.report import Report
from pipeline.core.store import file_sha256, write_table, write_text
from pipeline.core.stored_table import LargeTable, StoredTable
from pipeline.core.version import code_version
from pipeline.publish.folders import LOCK, digests, drafted, drop_folder, remove_leftovers
from pipeline.run import STEP_TABLES, STEPS, Step

WORK = "work"
_REPORT = "report.json"
_RECENT = "recent.json"


@contextmanager
def work_folder(output_dir: Path) -> Iterator[Path]:
    """The work folder of `output_dir`, locked against a second run; leftovers of dead runs are removed.

    RunInProgressError where another run holds the lock, unless this one is to wait (`run_lock`).
    Folders created here that are empty at the end are removed too, so that a failed first run leaves nothing behind.
    """
    created = [folder for folder in (output_dir, *output_dir.parents) if not folder.exists()]
    work = output_dir / WORK
    is_done = False
    try:
        with naming_path(output_dir), take_run_lock(work):
            try:
                remove_leftovers(work)
                yield work
                is_done = True
            finally:
                _tidy(work, prune=is_done)
    finally:
        for folder in created:
            with suppress(OSError):
                folder.rmdir()


def _tidy(work: Path, *, prune: bool) -> None:
    """Remove the drafts of this run, and the folder if nothing else is in it; the caller holds the lock.

    Only a successful run prunes, so that the next run can reuse the finished steps of a failed one.
    """
    remove_leftovers(work)
    if prune:
        _prune(work)
    with suppress(OSError):
        if [path.name for path in work.iterdir()] == [LOCK]:
            (work / LOCK).unlink()
            work.rmdir()


def record_run(work: Path, run_id: str, folders: Sequence[Path]) -> None:
    """Record the step folders of a run; those of the last two runs are kept."""
    others = [entry for entry in _recent(work) if entry["run_id"] != run_id]
    entry = {"run_id": run_id, "folders": sorted(folder.name for folder in folders)}
    write_text(work / _RECENT, json.dumps([entry, *others[:1]], indent=1) + "\n")


def _recent(work: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads((work / _RECENT).read_text(encoding="utf-8"))
        return [{"run_id": str(e["run_id"]), "folders": [str(f) for f in e["folders"]]} for e in entries]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _prune(work: Path) -> None:
    """Remove step folders that neither of the last two runs used; none if no run is recorded."""
    recent = _recent(work)
    used = {name for entry in recent for name in entry["folders"]}
    for folder in sorted(work.iterdir()):
        if recent and folder.is_dir() and folder.name not in used and (folder / _REPORT).exists():
            drop_folder(folder)


@dataclass(frozen=True, slots=True)
class StepResult:
    """A finished step: its folder, the paths of its tables, its report."""

    folder: Path
    tables: Mapping[str, Path]
    report: Report


def write_tables(folder: Path, tables: Mapping[str, LargeTable]) -> dict[str, Path]:
    """Write those of a step's tables that are in memory; their bytes depend only on their content and the code version.

    Returns the paths of all of them.
    """
    metadata = {"code": code_version()}
    return {
        name: table.path
        if isinstance(table, StoredTable)
        else write_table(folder / f"{name}.parquet", table, STEP_TABLES[name], metadata)
        for name, table in tables.items()
    }


def keep_step(folder: Path, compute: Callable[[Path], tuple[Mapping[str, LargeTable], Report]]) -> StepResult:
    """Write a step's folder atomically; the caller holds the lock of the work folder, and no such folder is there.

    `compute` gives the tables and the report; it writes large tables into the folder that it is called with.
    """
    with drafted(folder) as draft:
        tables, report = compute(draft)
        paths = write_tables(draft, tables)
        stored = {"report": report.as_dict(), "sha256": digests(paths)}
        write_text(draft / _REPORT, json.dumps(stored, indent=1) + "\n")
    return StepResult(folder, {name: folder / f"{name}.parquet" for name in tables}, report)


def find_step(folder: Path, step: Step) -> StepResult | None:
    """The stored result of a step if its tables are intact; a damaged one is removed."""
    if not folder.is_dir():
        return None
    tables = {name: folder / f"{name}.parquet" for name in step.writes}
    with suppress(OSError, ValueError, KeyError, TypeError, WalltimeError):
        stored = _stored(folder)
        if set(stored["sha256"]) == set(tables) and _has_its_digests(folder, stored):
            return StepResult(folder, tables, Report.from_dict(stored["report"]).check())
    drop_folder(folder)
    return None


def is_step_folder(folder: Path) -> bool:
    """Whether a folder of the work folder is the result of a step, by its name; drafts are not."""
    return folder.is_dir() and folder.name.partition("-")[0] in {step.name for step in STEPS}


def is_step_intact(folder: Path) -> bool:
    """Whether the files of a finished step are those that were written with its report."""
    try:
        return _has_its_digests(folder, _stored(folder))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _stored(folder: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
    return stored


def _has_its_digests(folder: Path, stored: Mapping[str, Any]) -> bool:
    return all(file_sha256(folder / f"{name}.parquet") == digest for name, digest in stored["sha256"].items())
