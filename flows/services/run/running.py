"""A night from its config to its published tables, and a rerun to its kept ones, by whatever does their parts."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from flows.services.progress import running_stage
from flows.services.run.executor import Results, run_steps, step_executor
from flows.services.run.kept_states import kept_states
from flows.services.run.prepare import listed_paths, prepare_run, run_settings, sacct_table
from flows.services.run.publishing import publish_run, published_run, run_facts
from flows.services.run.run_log import recorded_run
from flows.services.run.work_folder import record_run, work_folder
from pipeline.publish import Manifest
from pipeline.publish.versions import keep_unpublished
from pipeline.report import Report
from pipeline.run import PUBLISHED, Run
from pipeline.settings import RunSettings


class Runner:
    """Does the parts of a run by plain calls; flows.prefect does them as tasks of a flow."""

    def following(self, work: Path) -> AbstractContextManager[object]:
        """Entered while the run holds the lock of its work folder."""
        del work
        return nullcontext()

    def ask_sacct(self, settings: RunSettings) -> Path:
        """The path of the table of sacct's jobs."""
        return sacct_table(settings)

    def compute(self, run: Run, work: Path) -> Results:
        """The results of all steps, in their order."""
        with step_executor(run.settings.run) as submit:
            return run_steps(run, work, submit)

    def publish(self, run: Run, tables: Mapping[str, Path], reports: Sequence[Report], folder: Path) -> Path:
        """Check and publish the tables; returns the path of the manifest."""
        return publish_run(run, tables, reports, folder, int(time.time()))

    def keep(
        self, run: Run, name: str, tables: Mapping[str, Path], reports: Sequence[Report], folder: Path
    ) -> Manifest:
        """Keep the tables as a version of this name that is not published; returns its manifest."""
        facts, now_s = run_facts(run, name), int(time.time())
        return keep_unpublished(tables, reports, facts, output_dir=folder, created_s=now_s)

    def say(self, sentence: str) -> None:
        """Log what the run finds; the log of a plain run has other sentences."""


def run_and_publish(
    config: str,
    logs: Sequence[str] | None = None,
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
            run = prepare_run(settings, [runner.ask_sacct(settings)] if paths is None else paths)
            with record.running(work, run.run_id):
                runner.say(f"run {run.run_id} over {', '.join(run.log_labels)}")
                return str(_publish_night(run, folder, work, runner))


def _publish_night(run: Run, folder: Path, work: Path, runner: Runner) -> Path:
    if same := published_run(run, folder):
        runner.say("nothing new: the logs, settings and code are those of the published tables")
        with running_stage("publish"):
            return runner.publish(run, *same, folder)
    results = runner.compute(replace(run, states=kept_states(work, run)), work)
    with running_stage("publish"):
        manifest = runner.publish(run, *staged(results), folder)
    record_run(work, run.run_id, results)
    return manifest


def run_and_keep(run: Run, folder: Path, name: str, runner: Runner) -> Manifest:
    """Run every step and keep the tables as a version of this name; what is published stays.

    The steps are not recorded as those of a night are: those that no night used are removed at the end.
    """
    with work_folder(folder) as work, runner.following(work):
        results = runner.compute(run, work)
        with running_stage("publish"):
            return runner.keep(run, name, *staged(results), folder)


def staged(results: Results) -> tuple[dict[str, Path], list[Report]]:
    """The paths of the tables that are published, and the reports of the steps."""
    paths = {name: path for result in results for name, path in result.tables.items()}
    return {name: paths[name] for name in PUBLISHED}, [result.report for result in results]
