"""A night from its config to its published tables: lock, read, compute, check and publish, record. A rerun likewise."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from flows.services.progress import running_stage
from flows.services.run.executor import Results, run_steps, step_executor
from flows.services.run.prepare import listed_paths, prepare_run, run_settings, sacct_table
from flows.services.run.publishing import publish_run, published_run, run_facts
from flows.services.run.run_log import recorded_run
from flows.services.run.work_folder import keep_steps, kept_states, step_folders, work_folder
from pipeline.publish import Manifest
from pipeline.publish.versions import keep_unpublished
from pipeline.report import Report
from pipeline.run import PUBLISHED, Run

T = TypeVar("T")


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
        with work_folder(folder) as work, runner.following(work):
            if paths is None:
                paths = [runner.part("sacct", lambda: sacct_table(settings))]
            run = prepare_run(settings, paths)
            with record.running(work, run.run_id):
                runner.say(f"run {run.run_id} over {', '.join(run.log_labels)}")
                return str(_publish_night(run, folder, work, runner))


def _publish_night(run: Run, folder: Path, work: Path, runner: Runner) -> Path:
    results: Results = []
    staged = published_run(run, folder)
    if staged:
        runner.say("nothing new: the logs, settings and code are those of the published tables")
    else:
        results = runner.compute(replace(run, states=kept_states(work, run)), work)
        staged = staged_tables(results)
    with running_stage("publish"):
        manifest = runner.part("publish", lambda: publish_run(run, *staged, folder, int(time.time())))
    if results:
        keep_steps(work, {path.parent.name for result in results for path in result.tables.values()})
    return manifest


def run_and_keep(run: Run, folder: Path, name: str, runner: Runner) -> Manifest:
    """Run every step and keep the tables as a version of this name; what is published stays, and so do its steps."""
    with work_folder(folder) as work, runner.following(work):
        steps_of_night = step_folders(work)
        tables, reports = staged_tables(runner.compute(run, work))
        facts, now_s = run_facts(run, name), int(time.time())
        with running_stage("publish"):
            kept = runner.part(
                "keep", lambda: keep_unpublished(tables, reports, facts, output_dir=folder, created_s=now_s)
            )
        keep_steps(work, steps_of_night)
        return kept


def staged_tables(results: Results) -> tuple[dict[str, Path], list[Report]]:
    """The paths of the tables that are published, and the reports of the steps."""
    paths = {name: path for result in results for name, path in result.tables.items()}
    return {name: paths[name] for name in PUBLISHED}, [result.report for result in results]
