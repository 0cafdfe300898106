"""The work folder: a folder for each finished step, named by a digest of its inputs, and the States of earlier nights.

A folder of a step is complete or absent. What is kept here saves time; a damaged or missing file changes no byte of
what is published.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import naming_path
from flows.services.run.run_lock import take_run_lock
from pipeline.errors import InputError, WalltimeError
from pipeline.estimate.checkpoints import Checkpoint
from pipeline.estimate.estimate_rules import ESTIMATE_RULES, rules_text
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.publish.folders import LOCK, digests, drafted, drop_folder, remove_leftovers
from pipeline.report import Report
from pipeline.run import STEP_TABLES, STEPS, Run, Step, StepResult
from pipeline.storage import file_sha256, read_table, write_table, write_text
from pipeline.tables import STATE
from pipeline.version import code_version

WORK = "work"
_REPORT = "report.json"
_STATES = "states"


@contextmanager
def work_folder(output_dir: Path) -> Iterator[Path]:
    """The work folder of `output_dir`, locked against a second run; leftovers of dead runs are removed.

    RunInProgressError where another run holds the lock, unless this one is to wait (`run_lock`).
    Folders created here that are empty at the end are removed too, so that a failed first run leaves nothing behind.
    """
    created = [folder for folder in (output_dir, *output_dir.parents) if not folder.exists()]
    work = output_dir / WORK
    try:
        with naming_path(output_dir), take_run_lock(work):
            try:
                remove_leftovers(work)
                yield work
            finally:
                remove_leftovers(work)
                with suppress(OSError):
                    if [path.name for path in work.iterdir()] == [LOCK]:
                        (work / LOCK).unlink()
                        work.rmdir()
    finally:
        for folder in created:
            with suppress(OSError):
                folder.rmdir()


def step_folders(work: Path) -> set[str]:
    """The names of the folders of finished steps."""
    return {path.name for path in work.iterdir() if is_step_folder(path)}


def keep_steps(work: Path, names: Collection[str]) -> None:
    """Remove the folders of all other steps. A failed run removes none, so that the next one goes on from them."""
    for name in sorted(step_folders(work) - set(names)):
        drop_folder(work / name)


def keep_step(folder: Path, compute: Callable[[Path], tuple[Mapping[str, LargeTable], Report]]) -> StepResult[Path]:
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


@dataclass(frozen=True, slots=True)
class KeptStates:
    """The States of one site, settings and code at earlier times, so that the next night learns only what is new.

    The name of a file has the time, the digest of the jobs and that of its own bytes.
    """

    folder: Path

    def earlier(self) -> list[Checkpoint]:
        """The checkpoints of earlier nights; a damaged one is found when it is read."""
        return [Checkpoint(*key, partial(_intact_state, path)) for key, path in self._files().items()]

    def keep(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Keep these checkpoints, and remove all other States of the work folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        there = self._files()
        kept = {there.get((one.as_of_s, one.digest)) or self._write(one) for one in checkpoints}
        for path in set(self.folder.iterdir()) - kept:
            path.unlink(missing_ok=True)
        for other in set(self.folder.parent.iterdir()) - {self.folder}:
            shutil.rmtree(other, ignore_errors=True)

    def _write(self, checkpoint: Checkpoint) -> Path:
        path = write_table(self.folder / "new.parquet", checkpoint.read(), STATE, {"code": code_version()})
        name = f"{checkpoint.as_of_s!r}_{checkpoint.digest}_{file_sha256(path)}.parquet"
        return path.rename(self.folder / name)

    def _files(self) -> dict[tuple[float, str], Path]:
        found = {}
        for path in self.folder.glob("*_*_*.parquet"):
            with suppress(ValueError):
                as_of_s, digest, _ = path.stem.split("_")
                found[float(as_of_s), digest] = path
        return found


def kept_states(work: Path, run: Run) -> KeptStates:
    """The checkpoints that fit a run's site, settings and code, in its work folder."""
    site = run.settings.site
    parts = [site.name, site.timezone, run.names, rules_text(ESTIMATE_RULES), code_version()]
    return KeptStates(work / _STATES / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24])


def _intact_state(path: Path) -> pa.Table | None:
    try:
        return read_table(path, STATE) if file_sha256(path) == path.stem.rpartition("_")[2] else None
    except (OSError, InputError):
        return None
