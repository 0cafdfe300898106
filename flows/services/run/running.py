"""A night from its config to its published tables: lock, read, compute, check and publish, record. A rerun likewise.

Steps are computed in this process, in several, or on workers of Dask, each into a folder of its own. A task of Prefect,
a process of a pool and a worker of Dask call the same `compute_step`: all give the same bytes.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from flows.services.files.os_errors import naming_path, os_failure
from flows.services.metrics import folder_metrics
from flows.services.progress import StageEvent, also_listening, notify, running_stage
from flows.services.run.prepare import (
    Rerun,
    check_rerun,
    listed_paths,
    prepare_run,
    run_settings,
    sacct_table,
    window_of,
)
from flows.services.run.publishing import mirror_failure, publish_checked, published_run, run_facts
from flows.services.run.run_record import (
    LAST_RUN,
    LastRun,
    Reason,
    RecordedRun,
    RunLog,
    RunState,
    run_log,
    write_run,
)
from pipeline.errors import ConfigError, InputError, printable
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.publish import Manifest
from pipeline.publish.manifest import made_manifest
from pipeline.publish.store import RunInProgressError, find_step, keep_step, keep_steps, step_folders, work_folder
from pipeline.publish.versions import check_name_free, keep_unpublished
from pipeline.report import Report, StepResult
from pipeline.run import ON_DISK, PUBLISHED, STEP_TABLES, STEPS, Run, Step, compute_steps, finished, start_run, step_key
from pipeline.settings import ExecutionSettings, RunSettings
from pipeline.storage import read_table, write_text
from pipeline.workers import return_free_memory, using_threads

T = TypeVar("T")
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
    if found := find_step(folder, step.writes):
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

    result = keep_step(folder, compute, STEP_TABLES)
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


@contextmanager
def recorded_run(settings: RunSettings) -> Iterator[RecordedRun]:
    """Follow the run inside: write its events, and at its end its record and its metrics, however it ends.

    A run that does not begin because another one is in progress leaves the other one's record alone.
    """
    log = run_log.get() or RunLog(sys.stderr, settings.run.log_format)
    log.site, log.is_anonymous = settings.site.name, settings.site.anonymise
    now_s = float(time.time())
    started = LastRun(settings.site.name, "", RunState.RUNNING, Reason.NONE, None, now_s, None, os.getpid(), {})
    found, began = RecordedRun(log, started), time.monotonic()
    failure: BaseException | None = None
    try:
        with also_listening(found.follow):
            yield found
    except BaseException as error:
        failure = error
        raise
    finally:
        if not isinstance(failure, RunInProgressError):
            ended = found.run.with_end(failure, float(time.time()))
            write_run(Path(settings.output_dir) / LAST_RUN, ended)
            _write_metrics(settings, ended, log)
        log.ended(time.monotonic() - began, failure)


def _write_metrics(settings: RunSettings, run: LastRun, log: RunLog) -> None:
    """Write the file of metrics that the settings name. Whatever fails is a warning: the tables are there."""
    if settings.run.metrics_file is None:
        return
    path = Path(settings.run.metrics_file)
    try:
        with naming_path(path):
            write_text(path, folder_metrics(Path(settings.output_dir), time.time(), run))
    except OSError as error:
        log.warn(f"the metrics were not written: {os_failure(error)}")
    except Exception as error:
        log.warn(f"the metrics were not written, by a fault of Walltime ({type(error).__name__}).")


class Runner:
    """Does the parts of a run by plain calls; flows.prefect does them as tasks of a flow."""

    def following(self, work: Path) -> AbstractContextManager[object]:
        """Entered while the run holds the lock of its work folder."""
        del work
        return nullcontext()

    def part(self, name: str, call: Callable[[], T]) -> T:
        """The result of a part of the run that is no step: sacct, publish or keep."""
        del name
        return call()

    def compute(self, run: Run, work: Path) -> Results:
        """The results of all steps, in their order."""
        with step_executor(run.settings.run) as submit:
            return run_steps(run, work, submit)

    def say(self, sentence: str) -> None:
        """Log what the run finds; the log of a plain run has other sentences."""


def run_and_publish(
    config: str,
    logs: list[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
    runner: Runner | None = None,
) -> str:
    """Run every step over the config's logs and publish the tables; returns the path of the manifest."""
    runner, settings = runner or Runner(), run_settings(Path(config), site, output_dir)
    folder = Path(settings.output_dir)
    with recorded_run(settings) as record:
        paths = listed_paths(settings, Path(config), logs or ())
        with work_folder(folder, record.log.announce) as work, runner.following(work):
            run = prepare_run(settings, paths or [runner.part("sacct", lambda: sacct_table(settings))])
            with record.running(work, run.run_id):
                runner.say(f"run {run.run_id} over {', '.join(run.log_labels)}")
                manifest = _publish_night(run, folder, work, runner)
                if failure := mirror_failure(folder, run.settings.publish.mirror):
                    record.warn(failure)
                return str(manifest)


def _publish_night(run: Run, folder: Path, work: Path, runner: Runner) -> Path:
    results: Results = []
    staged = published_run(run, folder)
    if staged:
        runner.say("nothing new: the logs, settings and code are those of the published tables")
    else:
        results = runner.compute(run, work)
        staged = staged_tables(results)
    with running_stage("publish"):
        made = made_manifest(*staged, run_facts(run), folder, int(time.time()))
        manifest = runner.part("publish", lambda: publish_checked(staged[0], made, run.settings))
    if results:
        keep_steps(work, {path.parent.name for result in results for path in result.tables.values()})
    return manifest


def rerun_and_keep(asked: Rerun, runner: Runner | None = None) -> Manifest:
    """Run every step over the jobs of a window and keep the tables as a version of that name; returns its manifest.

    The template is chosen from these jobs alone, whatever the published version uses. What is published stays, and so
    do its steps. InputError where another version has the name.
    """
    runner, changed = runner or Runner(), check_rerun(asked)
    # Changed settings must not enter the table of jobs that the nightly runs continue.
    settings, folder = run_settings(asked.config, asked.site, asked.output_dir), Path(changed.output_dir)
    paths = listed_paths(settings, asked.config, asked.logs)
    run = start_run(changed, paths or [runner.part("sacct", lambda: sacct_table(settings))])
    run = replace(run, window_s=window_of(asked.begin, asked.end, changed.site.timezone))
    check_name_free(folder, asked.name, run.run_id)
    runner.say(f"rerun {run.run_id} over {', '.join(run.log_labels)}")
    with work_folder(folder) as work, runner.following(work):
        steps_of_night = step_folders(work)
        tables, reports = staged_tables(runner.compute(run, work))
        with running_stage("publish"):
            made = made_manifest(tables, reports, run_facts(run, asked.name), folder, int(time.time()))
            kept = runner.part("keep", lambda: keep_unpublished(tables, made))
        keep_steps(work, steps_of_night)
        return kept


def staged_tables(results: Results) -> tuple[dict[str, Path], list[Report]]:
    """The paths of the tables that are published, and the reports of the steps."""
    paths = {name: path for result in results for name, path in result.tables.items()}
    return {name: paths[name] for name in PUBLISHED}, [result.report for result in results]
