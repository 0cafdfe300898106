"""A night from its config to its published tables: lock, read, compute, check and publish, record. A rerun likewise.

Here it is done by plain calls. `flows.prefect` does the same night with each call as a task, which may be computed in
other processes or on workers of Dask: all give the same bytes.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.services.progress import StageEvent, notify, running_stage
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
from flows.services.run_log import recorded_run
from pipeline.large_tables import LargeTable, StoredTable
from pipeline.publish import Manifest
from pipeline.publish.manifest import made_manifest
from pipeline.publish.store import find_step, keep_step, keep_steps, step_folders, work_folder
from pipeline.publish.versions import check_name_free, keep_unpublished
from pipeline.report import Report, StepResult
from pipeline.run import (
    ON_DISK,
    PUBLISHED,
    STEP_TABLES,
    STEPS,
    STEPS_BY_NAME,
    WRITER,
    Run,
    start_run,
    step_key,
)
from pipeline.storage import read_table
from pipeline.workers import return_free_memory, using_threads

Results = Mapping[str, StepResult[Path]]
"""The results of steps by the name of the step."""

Call = Callable[..., Any]
"""Calls a function with its arguments, as itself or as a task: `sacct_table`, `publish_checked`, `keep_unpublished`."""

Compute = Callable[[Run, Path], Results]
"""Computes all steps of a run, each into a folder in the work folder."""

STEP_THREADS = 2
"""Threads of a step, for the parts of the estimator and for its look-up table; no table depends on it."""


def call_plainly(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the function."""
    return function(*arguments)


def compute_plainly(run: Run, work: Path) -> Results:
    """The results of all steps, computed in this process one after another."""
    results: dict[str, StepResult[Path]] = {}
    for name, folder in folders_of_steps(run, work).items():
        notify(StageEvent(name, "started"))
        results[name] = compute_step(name, run, folder, results)
        notify_end(name, results[name])
    return results


def run_and_publish(
    config: str,
    logs: list[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
    call: Call = call_plainly,
    compute: Compute = compute_plainly,
    flow_run: str = "",
) -> str:
    """Run every step over the config's logs and publish the tables; returns the path of the manifest.

    `flow_run` is the id of Prefect's flow run, for the record.
    """
    settings = run_settings(Path(config), site, output_dir)
    folder = Path(settings.output_dir)
    with recorded_run(settings, flow_run) as record:
        paths = listed_paths(settings, Path(config), logs or ())
        with work_folder(folder, record.log.announce) as work:
            run = prepare_run(settings, paths or [call(sacct_table, settings)])
            with record.running(work, run.run_id):
                # The steps of the published version are not computed again. Its checks are, as some depend on the time.
                staged, results = published_run(run, folder), None
                if staged is None:
                    results = compute(run, work)
                    staged = staged_tables(results)
                with running_stage("publish"):
                    made = made_manifest(*staged, run_facts(run), folder, int(time.time()))
                    manifest = call(publish_checked, staged[0], made, run.settings)
                if results:
                    keep_steps(work, {path.name for path in folders_of_steps(run, work).values()})
                if failure := mirror_failure(folder, run.settings.publish.mirror):
                    record.warn(failure)
                return str(manifest)


def rerun_and_keep(asked: Rerun, call: Call = call_plainly, compute: Compute = compute_plainly) -> Manifest:
    """Run every step over the jobs of a window and keep the tables as a version of that name; returns its manifest.

    The template is chosen from these jobs alone, whatever the published version uses. What is published stays, and so
    do its steps. InputError where another version has the name.
    """
    changed = check_rerun(asked)
    # Changed settings must not enter the table of jobs that the nightly runs continue.
    settings, folder = run_settings(asked.config, asked.site, asked.output_dir), Path(changed.output_dir)
    paths = listed_paths(settings, asked.config, asked.logs)
    run = start_run(changed, paths or [call(sacct_table, settings)])
    run = replace(run, window_s=window_of(asked.begin, asked.end, changed.site.timezone))
    check_name_free(folder, asked.name, run.run_id)
    with work_folder(folder) as work:
        steps_of_night = step_folders(work)
        tables, reports = staged_tables(compute(run, work))
        with running_stage("publish"):
            made = made_manifest(tables, reports, run_facts(run, asked.name), folder, int(time.time()))
            kept: Manifest = call(keep_unpublished, tables, made)
        keep_steps(work, steps_of_night)
        return kept


def folders_of_steps(run: Run, work: Path) -> dict[str, Path]:
    """The folder of each step, named by the key of all that its result depends on, in the order of STEPS."""
    folders: dict[str, Path] = {}
    for step in STEPS:
        upstream = [folders[WRITER[table]].name for table in step.reads]
        folders[step.name] = work / f"{step.name}-{step_key(step, run, upstream)}"
    return folders


def compute_step(name: str, run: Run, folder: Path, upstream: Results) -> StepResult[Path]:
    """The result of a step on the tables of the steps before it; its folder is reused where it is there already."""
    began, step = time.monotonic(), STEPS_BY_NAME[name]
    result = find_step(folder)
    if result is None:
        paths = {table: upstream[WRITER[table]].tables[table] for table in step.reads}
        inputs = [
            StoredTable(path, STEP_TABLES[table]) if table in ON_DISK else read_table(path, STEP_TABLES[table])
            for table, path in paths.items()
        ]

        def compute(draft: Path) -> tuple[Mapping[str, LargeTable], Report]:
            with using_threads(STEP_THREADS):
                *tables, report = step.call(replace(run, folder=draft), *inputs)
            return dict(zip(step.writes, tables, strict=True)), report.check()

        result = keep_step(folder, compute, STEP_TABLES)
        # A process that waits for its next step would keep the memory of this one from the others.
        return_free_memory()
    return replace(result, seconds=time.monotonic() - began)


def notify_end(name: str, result: StepResult[Path]) -> None:
    """Pass the end of a step to the listener."""
    notify(StageEvent(name, "reused" if result.is_reused else "done", result.seconds, result.report))


def staged_tables(results: Results) -> tuple[dict[str, Path], list[Report]]:
    """The paths of the tables that are published, and the reports of the steps."""
    paths = {name: results[WRITER[name]].tables[name] for name in PUBLISHED}
    return paths, [results[step.name].report for step in STEPS]
