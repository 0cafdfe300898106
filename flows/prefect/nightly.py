"""The nightly run as a Prefect flow: one task per step, which reads Parquet, calls one stage and writes Parquet.

Tasks pass paths, never tables. A finished step is reused by our own key (inputs, settings, code) and not by Prefect's
cache, which would miss a change in the stages' source. A run makes about a dozen tasks, because the embedded API
stalls at thousands. No server is needed: without PREFECT_API_URL Prefect starts a temporary one.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from prefect import flow, get_run_logger, tags, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.runtime import flow_run
from prefect.states import Failed
from prefect.tasks import Task

from flows.pages.markdown import facts_markdown, report_markdown
from flows.prefect.run_records import recorded_flow_run
from flows.prefect.server_guard import guard_embedded_server
from flows.services.files.file_modes import deny_world_writing
from flows.services.files.os_errors import os_failure
from flows.services.progress import listening, running_stage
from flows.services.run.checking import HeldNightError
from flows.services.run.kept_states import kept_states
from flows.services.run.nothing_new import published_run
from flows.services.run.prepare import listed_paths, prepare_run, run_settings, sacct_table
from flows.services.run.publishing import publish_run
from flows.services.run.run_names import artifact_key, nightly_run_name, site_tags
from flows.services.run.run_record import RecordedRun, recorded_run
from flows.services.run.step_executors import compute_steps, step_executor
from flows.services.run.step_results import StepFolders, step_result
from flows.services.run.work_folder import StepResult, record_run, work_folder
from pipeline.core.errors import ConfigError, InputError, WalltimeError
from pipeline.core.report import Report
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable
from pipeline.publish import load_manifest
from pipeline.run import PUBLISHED, STEPS, Run

guard_embedded_server()


def _run_name() -> str:
    return nightly_run_name(flow_run.parameters, flow_run.scheduled_start_time)


@flow(name="nightly", flow_run_name=_run_name, retries=0, persist_result=False)
def nightly(config: str, logs: list[str] | None = None, site: str | None = None, output_dir: str | None = None) -> str:
    """Run every step over the config's logs and publish the tables; returns the path of the manifest.

    `config` is the path of a TOML file; `logs` (paths or globs), `site` and `output_dir` override it. An expected
    failure, as of a bad config, is a Failed run whose message is one sentence.
    """
    # A worker starts the flow without the command line.
    deny_world_writing()
    try:
        return _night(Path(config), logs or [], site, output_dir)
    except (WalltimeError, OSError) as error:
        return failed_run(error)


def failed_run(error: WalltimeError | OSError) -> str:
    """What a flow returns after an expected failure: the state of a Failed run whose message is one sentence.

    Prefect would log the traceback of an exception. It takes a returned state as the run's, and raises its data.
    """
    failure = os_failure(error) if isinstance(error, OSError) else error
    return cast("str", Failed(message=str(failure), data=failure))


def run_nightly(arguments: Mapping[str, Any], site: str) -> str:
    """Call the flow from the command line, with the tags that a deployment of the site has."""
    with tags(*site_tags(site)):
        return str(nightly(**arguments))


def _night(config: Path, logs: list[str], site: str | None, output_dir: str | None) -> str:
    settings = run_settings(config, site, output_dir)
    with recorded_run(settings) as record:
        return _run_and_publish(settings, listed_paths(settings, config, logs), record)


def _run_and_publish(settings: RunSettings, paths: list[Path] | None, record: RecordedRun) -> str:
    folder = Path(settings.output_dir)
    with ExitStack() as stack:
        work = stack.enter_context(work_folder(folder))
        stack.enter_context(recorded_flow_run(work))
        run = prepare_run(settings, [Path(asked_sacct(settings))] if paths is None else paths)
        stack.enter_context(record.running(work, run.run_id))
        get_run_logger().info("run %s over %s", run.run_id, ", ".join(printable(label) for label in run.log_labels))
        if same := published_run(run, folder):
            get_run_logger().info("nothing new: the logs, settings and code are those of the published tables")
            return _published(run, *same, folder)
        results = run_steps(replace(run, states=kept_states(work, run)), work)
        tables = {name: path for result in results for name, path in result.tables.items()}
        manifest = _published(run, tables, [result.report for result in results], folder)
        record_run(work, run.run_id, [result.folder for result in results])
    return manifest


def _published(run: Run, tables: Mapping[str, Path], reports: Sequence[Report], folder: Path) -> str:
    with running_stage("publish"):
        paths, plain = {name: str(tables[name]) for name in PUBLISHED}, [report.as_dict() for report in reports]
        return publish_tables(run, paths, plain, str(folder))


def asked_sacct(settings: RunSettings) -> str:
    """The path of the table of sacct's jobs, from a task that is tried again as the settings say."""
    delays: list[float] = [settings.source.retry_delay_s * 2**n for n in range(settings.source.retries)]
    return read_sacct.with_options(retries=len(delays), retry_delay_seconds=delays)(settings)


def _may_pass(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    """Whether asking sacct again may help: not where a setting is wrong, or a disk full."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, InputError) and not isinstance(error, ConfigError)


@task(
    name="sacct", task_run_name="sacct", persist_result=False, cache_policy=NO_CACHE, retry_condition_fn=_may_pass,
)  # fmt: skip
def read_sacct(settings: RunSettings) -> str:
    """Add sacct's new records to the table of jobs, and return its path; the only task that is tried again."""
    return str(sacct_table(settings))


def run_steps(run: Run, work: Path) -> list[StepResult]:
    """The results of all steps, with one task and one artifact each.

    Where the settings name several processes or a Dask scheduler, the steps are computed there first, and the tasks
    find their results.
    """
    with step_executor(run.settings.run) as executor:
        computed = compute_steps(run, work, executor) if executor else None
    with listening(None) if computed else nullcontext():
        return _step_tasks(run, work)


def _step_tasks(run: Run, work: Path) -> list[StepResult]:
    results: list[StepResult] = []
    folders = StepFolders(run, work)
    for step in STEPS:
        named = run_step.with_options(name=step.name, task_run_name=step.name)
        with running_stage(step.name) as stage:
            result, stage.is_reused = named(step.name, run, folders.reads(step.name), folders.folder(step.name))
            stage.report = result.report
        results.append(result)
        folders.add(step.name, result)
    return results


@task(retries=0, persist_result=False, cache_policy=NO_CACHE)
def run_step(name: str, run: Run, reads: Mapping[str, str], folder: str) -> tuple[StepResult, bool]:
    """Run one step, or reuse its stored result; returns the result, and whether it was reused."""
    result, is_reused = step_result(name, run, reads, folder)
    get_run_logger().info("%s: %s", "reused" if is_reused else "written", result.folder)
    key = artifact_key(run.settings.site.name, name)
    create_markdown_artifact(report_markdown(result.report), key=key, description=f"Report of {name}")
    return result, is_reused


@task(name="publish", task_run_name="publish", retries=0, persist_result=False, cache_policy=NO_CACHE)
def publish_tables(run: Run, tables: Mapping[str, str], reports: list[dict[str, Any]], output_dir: str) -> str:
    """Publish the tables of a run; returns the path of the manifest."""
    staged = {name: Path(path) for name, path in tables.items()}
    try:
        path = publish_run(
            run, staged, [Report.from_dict(plain) for plain in reports], Path(output_dir), int(time.time())
        )
    except HeldNightError as held:
        _show_checks(held.report, run.settings.site.name)
        raise
    manifest = load_manifest(path.parent)
    _show_checks(Report.from_dict(manifest.reports[-1]), manifest.site)
    rows: dict[str, object] = {"run": manifest.run_id, "site": manifest.site, "code": manifest.code}
    rows |= {f"{name} (rows)": entry.rows for name, entry in manifest.tables.items()}
    key = artifact_key(manifest.site, "summary")
    create_markdown_artifact(facts_markdown("Published", rows), key=key, description="Published tables")
    return str(path)


def _show_checks(report: Report, site: str) -> None:
    """The night's checks as an artifact, and a warning in the log for each that failed."""
    for note in report.notes:
        get_run_logger().warning("%s", printable(note, 2000))
    key = artifact_key(site, "checks")
    create_markdown_artifact(report_markdown(report), key=key, description="Checks before publication")
