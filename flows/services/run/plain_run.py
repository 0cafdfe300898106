"""The nightly run without Prefect: the same steps in memory, with the same published bytes."""

import time
from collections.abc import Sequence
from pathlib import Path

from flows.services.progress import running_stage
from flows.services.run.prepare import prepare_run, resolve_paths, run_settings
from flows.services.run.publishing import publish_run
from flows.services.run.run_record import recorded_run
from flows.services.run.work_folder import work_folder, write_tables
from pipeline.core.report import Report
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
        reports = run_steps(run, staging_dir)
        with running_stage("publish"):
            staged = {name: staging_dir / f"{name}.parquet" for name in PUBLISHED}
            return publish_run(run, staged, reports, folder, int(time.time()))


def run_steps(run: Run, folder: Path) -> list[Report]:
    """Run every step in memory and write the published tables to the folder; returns the steps' reports."""
    reports: list[Report] = []
    steps = run_plain(run)
    for step in STEPS:
        with running_stage(step.name) as stage:
            _, tables, stage.report = next(steps)
            write_tables(folder, {name: table for name, table in tables.items() if name in PUBLISHED})
        reports.append(stage.report)
    return reports
