"""The nightly run without Prefect: the same steps, in memory or in several processes, with the same published bytes."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flows.services.progress import running_stage
from flows.services.run.kept_states import kept_states
from flows.services.run.nothing_new import published_run
from flows.services.run.prepare import prepare_run, resolve_paths, run_settings
from flows.services.run.publishing import publish_run
from flows.services.run.run_record import recorded_run
from flows.services.run.step_executors import compute_steps, step_executor
from flows.services.run.work_folder import work_folder, write_tables
from pipeline.core.report import Report
from pipeline.core.workers import using_threads
from pipeline.publish.folders import scratch
from pipeline.run import PUBLISHED, STEPS, Run, run_plain


def run_and_publish(
    config: str, logs: Sequence[str] | None = None, site: str | None = None, output_dir: str | None = None
) -> str:
    """Run every step over the config's logs and publish the tables; returns the path of the manifest."""
    settings = run_settings(Path(config), site, output_dir)
    with recorded_run(settings) as record:
        folder = Path(settings.output_dir)
        run = prepare_run(settings, resolve_paths(settings, Path(config), logs or ()))
        with work_folder(folder) as work, record.running(work, run.run_id):
            return str(_publish_steps(run, folder, work))


def _publish_steps(run: Run, folder: Path, work: Path) -> Path:
    with scratch(work / run.run_id) as staging_dir:
        same = published_run(run, folder)
        tables, reports = same or run_steps(replace(run, states=kept_states(work, run)), staging_dir)
        with running_stage("publish"):
            staged = {name: tables[name] for name in PUBLISHED}
            return publish_run(run, staged, reports, folder, int(time.time()))


def run_steps(run: Run, folder: Path) -> tuple[dict[str, Path], list[Report]]:
    """Run every step, and write at least the published tables below the folder; returns their paths, and reports."""
    with step_executor(run.settings.run) as executor:
        if executor is not None:
            folder.mkdir(parents=True, exist_ok=True)
            results = compute_steps(run, folder, executor)
            return {n: path for one in results for n, path in one.tables.items()}, [one.report for one in results]
    return _steps_in_memory(run, folder)


def _steps_in_memory(run: Run, folder: Path) -> tuple[dict[str, Path], list[Report]]:
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[str, Path] = {}
    reports: list[Report] = []
    steps = run_plain(replace(run, folder=folder))
    for step in STEPS:
        with running_stage(step.name) as stage, using_threads(run.settings.run.threads):
            _, tables, stage.report = next(steps)
            paths |= write_tables(folder, {name: table for name, table in tables.items() if name in PUBLISHED})
        reports.append(stage.report)
    return paths, reports
