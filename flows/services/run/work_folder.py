"""The folder of intermediate results: one folder per step, named by a digest of its inputs, complete or absent."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import naming_path
from flows.services.run.run_lock import take_run_lock
from pipeline.errors import WalltimeError
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.publish.folders import LOCK, digests, drafted, drop_folder, remove_leftovers
from pipeline.report import Report
from pipeline.run import STEP_TABLES, STEPS, Step, StepResult
from pipeline.storage import file_sha256, write_table, write_text
from pipeline.version import code_version

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


def record_run(work: Path, run_id: str, results: Sequence[StepResult[Path]]) -> None:
    """Record the step folders of a run; those of the last two runs are kept."""
    others = [entry for entry in _recent(work) if entry["run_id"] != run_id]
    entry = {"run_id": run_id, "folders": sorted({path.parent.name for one in results for path in one.tables.values()})}
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


def keep_step(
    folder: Path, compute: Callable[[Path], tuple[Mapping[str, LargeTable], Report]]
) -> StepResult[Path]:
    """Write a step's folder atomically; the caller holds the lock of the work folder, and no such folder is there.

    `compute` gives the tables and the report; it writes large tables into the folder that it is called with. The bytes
    of the others depend only on their content and the code version.
    """
    with drafted(folder) as draft:
        tables, report = compute(draft)
        paths = {name: _written(draft, name, table) for name, table in tables.items()}
        stored = {"report": report.as_dict(), "sha256": digests(paths)}
        write_text(draft / _REPORT, json.dumps(stored, indent=1) + "\n")
    return StepResult(_paths(folder, tables), report)


def _written(folder: Path, name: str, table: LargeTable) -> Path:
    if isinstance(table, StoredTable):
        return table.path
    return write_table(folder / f"{name}.parquet", table, STEP_TABLES[name], {"code": code_version()})


def find_step(folder: Path, step: Step) -> StepResult[Path] | None:
    """The stored result of a step if its tables are intact; a damaged one is removed."""
    if not folder.is_dir():
        return None
    with suppress(OSError, ValueError, KeyError, TypeError, WalltimeError):
        if set(_stored(folder)["sha256"]) == set(step.writes) and is_step_intact(folder):
            return read_step(folder, step)
    drop_folder(folder)
    return None


def read_step(folder: Path, step: Step) -> StepResult[Path]:
    """The stored result of a step whose tables are known to be intact."""
    report = Report.from_dict(_stored(folder)["report"]).check()
    return StepResult(_paths(folder, step.writes), report, is_reused=True)


def _paths(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    return {name: folder / f"{name}.parquet" for name in names}


def is_step_folder(folder: Path) -> bool:
    """Whether a folder of the work folder is the result of a step, by its name; drafts are not."""
    return folder.is_dir() and folder.name.partition("-")[0] in {step.name for step in STEPS}


def is_step_intact(folder: Path) -> bool:
    """Whether the files of a finished step are those that were written with its report."""
    try:
        sums = _stored(folder)["sha256"].items()
        return all(file_sha256(folder / f"{name}.parquet") == digest for name, digest in sums)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _stored(folder: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
    return stored
