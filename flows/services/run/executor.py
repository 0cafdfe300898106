"""Computes the steps of a run, each into a folder of its own: in this process, in several, or on workers of Dask.

A task of Prefect, a process of a pool and a worker of Dask call the same `compute_step`: all give the same bytes.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from flows.services.progress import StageEvent, notify
from flows.services.run.work_folder import find_step, keep_step
from pipeline.errors import ConfigError, InputError, printable
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.report import Report
from pipeline.run import ON_DISK, STEP_TABLES, STEPS, Run, Step, StepResult, compute_steps, finished, step_key
from pipeline.settings import ExecutionSettings
from pipeline.storage import read_table
from pipeline.workers import return_free_memory, using_threads

Results = list[StepResult[Path]]
Submit = Callable[[str, Run, Mapping[str, Path], Path], Future[StepResult[Path]]]
"""Begins `compute_step` somewhere."""

DASK_RETRIES = 3
"""How often a step is given to another worker where one dies."""

STEP_THREADS = 2
"""Threads of a step, for the parts of the estimator and for its look-up table; no table depends on it."""

_CONNECT_S = 30
STEPS_BY_NAME = {step.name: step for step in STEPS}


def run_steps(run: Run, work: Path, submit: Submit) -> Results:
    """The results of all steps of a run, in their order, in folders below `work` that are reused."""
    began: dict[str, float] = {}

    def begin(step: Step, reads: Mapping[str, Path]) -> Future[StepResult[Path]]:
        notify(StageEvent(step.name, "started"))
        began[step.name] = time.monotonic()
        # The folder of a table has the key of the step that wrote it in its name.
        key = step_key(step, run, [path.parent.name for path in reads.values()])
        return submit(step.name, run, reads, work / f"{step.name}-{key}")

    results: dict[str, StepResult[Path]] = {}
    for step, result in compute_steps(begin):
        results[step.name] = result
        spent_s = time.monotonic() - began[step.name]
        notify(StageEvent(step.name, "reused" if result.is_reused else "done", spent_s, result.report))
    return [results[step.name] for step in STEPS]


def compute_step(name: str, run: Run, reads: Mapping[str, Path], folder: Path) -> StepResult[Path]:
    """The result of a step on the tables at these paths; its folder is reused where it is there already."""
    step = STEPS_BY_NAME[name]
    if found := find_step(folder, step):
        return found
    kinds = {table: STEP_TABLES[table] for table in step.reads}
    inputs = [
        StoredTable(reads[table], kind) if table in ON_DISK else read_table(reads[table], kind)
        for table, kind in kinds.items()
    ]

    def compute(draft: Path) -> tuple[Mapping[str, LargeTable], Report]:
        with using_threads(STEP_THREADS):
            *tables, report = step.call(replace(run, folder=draft), *inputs)
        return dict(zip(step.writes, tables, strict=True)), report.check()

    result = keep_step(folder, compute)
    # A process that waits for its next step would keep the memory of this one from the others.
    return_free_memory()
    return result


@contextmanager
def step_executor(settings: ExecutionSettings) -> Iterator[Submit]:
    """Where the steps are computed as the settings say: by default in this process, one after another."""
    if settings.dask:
        with _dask_client(settings.dask) as client:
            executor = client.get_executor(pure=False, retries=DASK_RETRIES)
            yield lambda *arguments: executor.submit(compute_step, *arguments)
    elif settings.processes > 1:
        # A forked process would inherit locks of threads that it does not have.
        with ProcessPoolExecutor(settings.processes, mp_context=get_context("spawn")) as pool:
            try:
                yield lambda *arguments: pool.submit(compute_step, *arguments)
            except BrokenProcessPool:
                raise InputError(
                    "a process of the run", "that it was killed", "processes that live as long as the run",
                    "see that there is enough memory, or set run.processes to 1",
                ) from None  # fmt: skip
    else:
        yield lambda *arguments: finished(compute_step(*arguments))


def _dask_client(address: str) -> Any:
    try:
        from distributed import Client  # noqa: PLC0415  (an extra)
    except ImportError:
        found, do = "no package distributed", "install it with pip install 'walltime[dask]'"
        raise ConfigError("run.dask", found, "the extra dask", do) from None
    try:
        return Client(address, timeout=_CONNECT_S)
    except (OSError, TimeoutError, ValueError) as error:
        found = f"no answer at {printable(address)} ({printable(str(error), 200)})"
        raise InputError("run.dask", found, "the address of a Dask scheduler", "start it, or remove run.dask") from None
