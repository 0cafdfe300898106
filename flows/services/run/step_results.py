"""One step on tables that stand on disk: reads them, calls the stage, writes its folder; or reuses that folder.

A task of Prefect, a process of a pool and a worker of Dask call the same function, so that all give the same bytes.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from flows.services.run.work_folder import StepResult, find_step, keep_step
from pipeline.core.free_memory import return_free_memory
from pipeline.core.report import Report
from pipeline.core.store import read_table
from pipeline.core.stored_table import LargeTable, StoredTable
from pipeline.core.workers import using_threads
from pipeline.run import ON_DISK, STEP_TABLES, STEPS, Run, Step, step_key

STEPS_BY_NAME = {step.name: step for step in STEPS}


def step_result(name: str, run: Run, reads: Mapping[str, str], folder: str) -> tuple[StepResult, bool]:
    """The result of a step, and whether its folder was there already; `reads` are the paths of the tables it reads."""
    step = STEPS_BY_NAME[name]
    found = find_step(Path(folder), step)
    if found:
        return found, True
    result = _computed(step, run, reads, Path(folder))
    # A process that waits for its next step would keep the memory of this one from the others.
    return_free_memory()
    return result, False


def _computed(step: Step, run: Run, reads: Mapping[str, str], folder: Path) -> StepResult:
    inputs = [_opened(table, Path(reads[table])) for table in step.reads]

    def compute(draft: Path) -> tuple[Mapping[str, LargeTable], Report]:
        with using_threads(run.settings.run.threads):
            *tables, report = step.call(replace(run, folder=draft), *inputs)
        return dict(zip(step.writes, tables, strict=True)), report.check()

    return keep_step(folder, compute)


def _opened(name: str, path: Path) -> LargeTable:
    kind = STEP_TABLES[name]
    return StoredTable(path, kind) if name in ON_DISK else read_table(path, kind)


class StepFolders:
    """The keys and paths of the steps that are done, from which those of the next ones follow."""

    def __init__(self, run: Run, work: Path) -> None:
        self._run, self._work = run, work
        self._keys: dict[str, str] = {}
        self._paths: dict[str, str] = {}

    def is_ready(self, name: str) -> bool:
        """Whether all tables that a step reads are there."""
        return set(STEPS_BY_NAME[name].reads) <= set(self._paths)

    def reads(self, name: str) -> dict[str, str]:
        """The paths of the tables that a step reads."""
        return {table: self._paths[table] for table in STEPS_BY_NAME[name].reads}

    def folder(self, name: str) -> str:
        """The folder of a step, named by all that its result depends on."""
        return str(self._work / f"{name}-{self._key(name)}")

    def add(self, name: str, result: StepResult) -> None:
        """Note that a step is done."""
        self._keys |= dict.fromkeys(STEPS_BY_NAME[name].writes, self._key(name))
        self._paths |= {table: str(path) for table, path in result.tables.items()}

    def _key(self, name: str) -> str:
        step = STEPS_BY_NAME[name]
        return step_key(step, self._run, [self._keys[table] for table in step.reads])
