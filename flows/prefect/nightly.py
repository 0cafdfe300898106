"""The nightly run and the rerun as Prefect flows: a task per step reads Parquet, calls one stage and writes Parquet.

Tasks pass paths, never tables. A step is reused by our own key (inputs, settings, code), and Prefect only shows that. A
run makes about two dozen tasks, because a local server stalls at thousands. No server is needed: without
PREFECT_API_URL Prefect starts a temporary one.

A process that is killed, or a machine that stops, leaves its flow run in the state Running for ever, and the temporary
server that Prefect started for it goes on. Each run therefore keeps a file in the work folder while it holds the lock
of that folder: the name has the flow run's id, the text names the server's process. A record that is there when another
run takes the lock is that of a killed run, which is then reported to Prefect as Crashed.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import UUID

import httpx
from prefect import flow, get_run_logger, tags, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Crashed, Failed
from prefect.tasks import Task

from flows.pages.markdown import facts_markdown, report_markdown
from flows.prefect.session import artifact_key, connect, nightly_run_name, site_tags
from flows.services.files.os_errors import os_failure
from flows.services.files.process_guards import deny_world_writing
from flows.services.progress import listening
from flows.services.run.prepare import Rerun
from flows.services.run.publishing import BlockedVersionError
from flows.services.run.running import (
    Results,
    Runner,
    compute_step,
    rerun_and_keep,
    run_and_publish,
    run_steps,
)
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.publish import Manifest, load_manifest
from pipeline.report import Report, StepResult
from pipeline.run import STEPS, Run

PREFIX = "flow_run-"
_KEPT_S = 30 * 86_400
"""How long a record is kept whose flow run this API does not know: the next run may use the API that does."""

_MESSAGE = "The process ended without reporting a state; the next run of the site found this by its record."


@contextmanager
def recorded_flow_run(work: Path) -> Iterator[None]:
    """Mark killed runs of this work folder as Crashed, and keep a record of the current flow run meanwhile."""
    if flow_run.id is None:
        yield
        return
    mark_killed_runs(work)
    record = work / f"{PREFIX}{flow_run.id}"
    try:
        record.write_text(json.dumps(_server_process()), encoding="utf-8")
        yield
    finally:
        record.unlink(missing_ok=True)


def mark_killed_runs(work: Path) -> list[str]:
    """Report the runs that have a record in `work` as Crashed; returns the ids of those that were in progress.

    The caller holds the lock of `work`, so that all these runs are over.
    """
    marked: list[str] = []
    for path in sorted(work.glob(f"{PREFIX}*")):
        if _is_settled(path, marked):
            path.unlink(missing_ok=True)
    return marked


def _is_settled(path: Path, marked: list[str]) -> bool:
    """Whether the record is settled; a run that Prefect takes to be in progress is reported as Crashed."""
    try:
        run_id = UUID(path.name.removeprefix(PREFIX))
    except ValueError:
        return False
    _end_server(path.read_bytes())
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(run_id).state
            if state is not None and not state.is_final():
                client.set_flow_run_state(run_id, Crashed(message=_MESSAGE))
                marked.append(str(run_id))
                get_run_logger().warning("flow run %s was killed: it is marked as Crashed", run_id)
    except ObjectNotFound:
        return time.time() - path.stat().st_mtime > _KEPT_S
    except (PrefectHTTPStatusError, httpx.HTTPError) as error:
        get_run_logger().warning("flow run %s was killed, but cannot be marked: %s", run_id, error)
        return False
    return True


def _server_process() -> tuple[int, str]:
    """The id and command of the temporary server that Prefect has started for this process; 0 where there is none."""
    if PREFECT_API_URL.value():
        return 0, ""
    from prefect.server.api.server import SubprocessASGIServer  # noqa: PLC0415 - slow; it is imported by now

    server = SubprocessASGIServer().server_process
    return (server.pid, _command_of(server.pid)) if server else (0, "")


def _end_server(record: bytes) -> None:
    """End the temporary server of a killed run, unless its process id belongs to another command by now."""
    with suppress(OSError, ValueError, TypeError):
        pid, command = json.loads(record)
        if command and _command_of(pid) == command:
            os.kill(pid, signal.SIGTERM)


def _command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")


T = TypeVar("T")

SACCT_PAUSES_S = (30.0, 60.0, 120.0)
"""How long to wait before sacct is asked again, s: slurmdbd is back within minutes of a restart."""


def _night_name() -> str:
    return nightly_run_name(flow_run.parameters, flow_run.scheduled_start_time)


def _rerun_name() -> str:
    return f"rerun {printable(str(flow_run.parameters.get('name')))}"


@flow(name="nightly", flow_run_name=_night_name, retries=0, persist_result=False)
def nightly(config: str, logs: list[str] | None = None, site: str | None = None, output_dir: str | None = None) -> str:
    """Run every step over the config's logs and publish the tables; returns the path of the manifest.

    `config` is the path of a TOML file; `logs` (paths or globs), `site` and `output_dir` override it. An expected
    failure, as of a bad config, is a Failed run whose message is one sentence.
    """
    return _ended(lambda: _published(run_and_publish(config, logs, site, output_dir, TaskRunner())))


@flow(name="rerun", flow_run_name=_rerun_name, retries=0, persist_result=False)
def rerun(
    config: str,
    name: str,
    changes: list[str] | None = None,
    begin: str | None = None,
    end: str | None = None,
    logs: list[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
) -> str:
    """Run every step over the jobs of a window with changed settings; returns the folder of the version `name`.

    `changes` are settings as in group.template=user; `begin` and `end` are months, days or instants. The other
    arguments are those of the nightly flow. An expected failure is a Failed run whose message is one sentence.
    """
    asked = Rerun(Path(config), name, changes or (), begin, end, logs or (), site, output_dir)
    return _ended(lambda: _kept(rerun_and_keep(asked, TaskRunner()), name))


def _ended(call: Callable[[], str]) -> str:
    """What a flow returns: the result of the call, or after an expected failure a Failed run with one sentence.

    Prefect would log the traceback of an exception. It takes a returned state as the run's, and raises its data.
    """
    # A worker starts the flow without the command line.
    deny_world_writing()
    try:
        return call()
    except (WalltimeError, OSError) as error:
        if isinstance(error, BlockedVersionError):
            _show_checks(error.report, error.site)
        failure = os_failure(error) if isinstance(error, OSError) else error
        return cast("str", Failed(message=str(failure), data=failure))


def _published(path: str) -> str:
    manifest = load_manifest(Path(path).parent)
    _show_checks(Report.from_dict(manifest.reports[-1]), manifest.site)
    _show_tables(manifest, "summary", "Published", {"run": manifest.run_id})
    return path


def _kept(manifest: Manifest, name: str) -> str:
    _show_tables(manifest, "rerun", "Kept, not published", {"version": manifest.folder, "name": name})
    return manifest.folder


def run_flow(called: Any, arguments: Mapping[str, Any], site: str) -> str:
    """Call a flow from the command line, with the tags that a deployment of the site has."""
    connect()
    with tags(*site_tags(site)):
        return str(called(**arguments))


class TaskRunner(Runner):
    """Does the parts of a run as tasks, with an artifact for each report."""

    def following(self, work: Path) -> AbstractContextManager[object]:
        """Keep a record of the flow run, by which the next run knows that this one was killed."""
        return recorded_flow_run(work)

    def part(self, name: str, call: Callable[[], T]) -> T:
        """The result of a task of this name; only sacct is asked again where it fails."""
        pauses_s = SACCT_PAUSES_S if name == "sacct" else ()
        named = task(
            name=name, task_run_name=name, persist_result=False, cache_policy=NO_CACHE, retries=len(pauses_s),
            retry_delay_seconds=list(pauses_s), retry_condition_fn=_may_pass,
        )  # fmt: skip
        return named(call)()

    def compute(self, run: Run, work: Path) -> Results:
        """The results of all steps, with one task and one artifact each; Prefect shows a reused one as Cached.

        Where the settings name several processes or a Dask scheduler, the steps are computed there first.
        """
        elsewhere: dict[str, StepResult[Path]] = {}
        if run.settings.run.dask or run.settings.run.processes > 1:
            elsewhere = {step.name: one for step, one in zip(STEPS, super().compute(run, work), strict=True)}

        def submit(name: str, run: Run, reads: Mapping[str, Path], folder: Path) -> Future[StepResult[Path]]:
            found: Future[StepResult[Path]] = Future()

            def step() -> State[None]:
                result = elsewhere.get(name) or compute_step(name, run, reads, folder)
                found.set_result(result)
                get_run_logger().info("%s: %s", "reused" if result.is_reused else "written", folder)
                _show_report(result.report, run.settings.site.name, name, f"Report of {name}")
                return Completed(name="Cached" if result.is_reused else "Completed")

            self.part(name, step)
            return found

        with listening(None) if elsewhere else nullcontext():
            return run_steps(run, work, submit)

    def say(self, sentence: str) -> None:
        """Write the sentence to the log of the flow run."""
        get_run_logger().info("%s", printable(sentence, 2000))


def _may_pass(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    """Whether asking sacct again may help: not where a setting is wrong, or a disk full."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, InputError) and not isinstance(error, ConfigError)


def _show_checks(report: Report, site: str) -> None:
    """The night's checks as an artifact, and a warning in the log for each that failed."""
    for note in report.notes:
        get_run_logger().warning("%s", printable(note, 2000))
    _show_report(report, site, "checks", "Checks before publication")


def _show_report(report: Report, site: str, name: str, description: str) -> None:
    create_markdown_artifact(report_markdown(report), key=artifact_key(site, name), description=description)


def _show_tables(manifest: Manifest, name: str, title: str, facts: dict[str, object]) -> None:
    """The facts of a version and the rows of its tables as an artifact."""
    rows = {f"{table} (rows)": entry.rows for table, entry in manifest.tables.items()}
    text = facts_markdown(title, {**facts, "site": manifest.site, "code": manifest.code, **rows})
    create_markdown_artifact(text, key=artifact_key(manifest.site, name), description=f"{title}: tables")
