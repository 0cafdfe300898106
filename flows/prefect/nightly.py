"""The nightly run and the rerun as Prefect flows, their parts as tasks, and what they leave: artifacts and an event.

A run makes about two dozen tasks (sacct, each step, publish or keep), because a local server stalls at thousands. A
task takes and returns plain values: names, settings, paths, reports; never a table. Steps get the results of the steps
that they read from, so that Prefect knows the edges of the graph, the times, and which task failed. They are reused by
their own key (inputs, settings, code), which names their folder: Prefect shows a reused one as Cached. No result is
stored a second time. The settings say where steps are computed: in this process one after another, in a pool of
processes, or on Dask.

A night leaves three artifacts (how well it predicts and its checks, what changed, a link to the site's page) and the
event `walltime.version.published`, by which other deployments can be started. A run of a deployment that has published
while Prefect's API is away waits for it, so that its artifacts, its event and its end arrive. A run from the command
line leaves them out with a warning.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import httpx
from prefect import flow, get_run_logger, tags, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import RunInput, State, TaskRun, TaskRunResult
from prefect.events import emit_event
from prefect.events.filters import EventFilter
from prefect.exceptions import FailedRun
from prefect.runtime import deployment, flow_run
from prefect.states import Completed, Failed
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner
from prefect.tasks import Task

from flows.pages.markdown import changed_rows, checks_markdown, version_markdown
from flows.prefect import server_address
from flows.services.files.os_errors import deny_world_writing, os_failure
from flows.services.initialising import site_slug
from flows.services.logs import run_settings, sacct_table
from flows.services.run import running
from flows.services.run_record import BlockedVersionError
from pipeline.arrays import DAY_S
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.publish import Manifest
from pipeline.publish.manifest import manifest_or_none
from pipeline.publish.versions import keep_unpublished
from pipeline.report import Report, StepResult
from pipeline.run import STEPS_BY_NAME, WRITER, Run
from pipeline.settings import ExecutionSettings

PUBLISHED = "walltime.version.published"

PAUSES_S = [30.0, 60.0, 120.0]
"""How long to wait before sacct is asked again, s: slurmdbd is back within minutes of a restart."""

UNKEPT: dict[str, Any] = {"persist_result": False, "cache_policy": NO_CACHE}
"""Results are files of a store, whose paths tasks return."""

ANSWER_S = 10.0
_KILLED = InputError(
    "a process of the run", "that it was killed", "processes that live as long as the run",
    "see that there is enough memory, or set run.processes to 1",
)  # fmt: skip

_failures: ContextVar[list[WalltimeError] | None] = ContextVar("failures", default=None)
"""Where a flow leaves its failure for the command that called it; None: a worker did."""


def night_name() -> str:
    """The site and the time of a run, as in `riverbend 2026-11-22 02:15`: the site's time at the scheduled start.

    A config that cannot be read gives its file's name and the time in UTC; the run itself reports the fault.
    """
    given = flow_run.parameters
    config = Path(str(given.get("config", "")))
    name, zone = config.stem, "UTC"
    with suppress(WalltimeError, OSError, ValueError):
        site = run_settings(config, given.get("site")).site
        name, zone = site.name, site.timezone
    return f"{printable(name)} {flow_run.scheduled_start_time.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}"


@flow(name="nightly", flow_run_name=night_name, persist_result=False)
def nightly(
    config: str,
    logs: list[str] | None = None,
    site: str | None = None,
    output_dir: str | None = None,
    page: str | None = None,
) -> str:
    """Run every step over the config's logs and publish the tables; returns the folder of the published version.

    An expected failure, as of a bad config, is a Failed run whose message is one sentence.

    Args:
        config: Path of the site's TOML file.
        logs: Paths or globs that replace those of the config.
        site: Name of the site that replaces that of the config.
        output_dir: Folder that replaces that of the config.
        page: Address of the site's page, to which the run links.
    """

    return _ended("night", page, lambda: running.run_and_publish(config, logs, site, output_dir, Tasks()))


@flow(name="rerun", flow_run_name="rerun {name}", persist_result=False)
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

    An expected failure is a Failed run whose message is one sentence.

    Args:
        config: Path of the site's TOML file.
        name: Name of the version, as in try-7; no other version may have it.
        changes: Settings for this rerun alone, as in group.template=user.
        begin: First month, day or instant of the window, as in 2024-03 or 2024-03-01.
        end: Last month or day of the window, which is included, or the instant before which it ends.
        logs: Paths or globs that replace those of the config.
        site: Name of the site that replaces that of the config.
        output_dir: Folder that replaces that of the config.
    """
    asked = (config, name, changes, begin, end, logs, site, output_dir)
    return _ended("rerun", None, lambda: running.rerun_and_keep(*asked, Tasks()))


def _ended(kind: str, page: str | None, call: Callable[[], Manifest]) -> str:
    """What a flow returns: the version that the call made, or after an expected failure a Failed run with one sentence.

    Prefect would log the traceback of an exception. It takes a returned state as the run's, and raises its data.
    """
    # A worker starts the flow without the command line.
    deny_world_writing()
    try:
        made = call()
    except (WalltimeError, OSError) as error:
        failure = os_failure(error) if isinstance(error, OSError) else error
        if (failures := _failures.get()) is not None:
            failures.append(failure)
        if isinstance(failure, BlockedVersionError):
            show(show_blocked, failure)
        return cast("str", Failed(message=str(failure), data=failure))
    show(show_version, made, kind, page)
    return made.folder


def run_flow(called: Any, arguments: dict[str, Any], site: str) -> str:
    """Call a flow from the command line, with the tags that a deployment of the site has."""
    failures: list[WalltimeError] = []
    _failures.set(failures)
    with tags(*site_tags(site)):
        try:
            return str(called(**arguments))
        except FailedRun as error:
            # A slow API is told of the end twice, and answers with its own copy of it, which has no error.
            raise (failures or [WalltimeError(str(error))])[-1] from None


def site_tags(site: str) -> list[str]:
    """The tags of a site's deployment and of its runs."""
    return ["walltime", f"site:{printable(site)}"]


class Tasks(running.Plainly):
    """The tasks of one flow run; later ones know the earlier ones as those that they wait for."""

    def __init__(self) -> None:
        self._ended: list[State[Any]] = []

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the function, called as its task."""
        return TASKS[function](*arguments, wait_for=self._ended)

    def compute(self, run: Run, folders: Mapping[str, Path]) -> running.Results:
        """The results of all steps, with a task each; the first failure in the order of the steps is raised."""
        get_run_logger().info("run %s over %s", run.run_id, printable(", ".join(run.log_labels), 2000))
        begun: dict[str, Any] = {}  # the states of steps that ended here, or the futures of submitted ones

        def begin(name: str) -> None:
            upstream = {WRITER[table]: begun[WRITER[table]] for table in STEPS_BY_NAME[name].reads}
            arguments = {"name": name, "run": run, "folder": folders[name], "upstream": upstream}
            if runner is None:
                begun[name] = _called(arguments)
            else:
                # A pool resolves futures before it hands them over: it has to be told what they were.
                edges: set[RunInput] = {TaskRunResult(id=one.task_run_id) for one in upstream.values()}
                begun[name] = runner.submit(step, arguments, dependencies={"upstream": edges})

        def end(name: str) -> StepResult[Path]:
            if name not in begun:
                begin(name)
            return cast("StepResult[Path]", begun[name].result())

        with task_runner(run.settings.run) as runner:
            try:
                for name in () if runner is None else folders:
                    begin(name)
                results = {name: running.followed(name, partial(end, name)) for name in folders}
            except BrokenProcessPool:
                raise _KILLED from None
            self._ended += [one.state if runner else one for one in begun.values()]
        return results


def _called(arguments: dict[str, Any]) -> State[Any]:
    """The end of a step that is called here. Prefect itself fails over a Ctrl-C before the task run is known to it."""
    try:
        return step(**arguments, return_state=True)
    except ValueError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


@task(task_run_name="{name}", **UNKEPT)
def step(name: str, run: Run, folder: Path, upstream: running.Results) -> State[StepResult[Path]]:
    """The result of a step, in its folder."""
    result = running.compute_step(name, run, folder, upstream)
    done, report = "reused" if result.is_reused else "written", result.report
    get_run_logger().info("%s: %s", done, folder)
    counts = f"{done}: {report.kept.rows:,} of {report.seen.rows:,} {report.unit}s kept"
    return Completed(name="Cached" if result.is_reused else "Completed", message=counts, data=result)


def _may_pass(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    """Whether asking sacct again may help: not where a setting is wrong, or a disk full."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, InputError) and not isinstance(error, ConfigError)


def _task_of(function: Callable[..., Any], name: str, **more: Any) -> Task[..., Any]:
    return task(name=name, task_run_name=name, **UNKEPT, **more)(function)


retried = {"retries": len(PAUSES_S), "retry_delay_seconds": PAUSES_S, "retry_condition_fn": _may_pass}
sacct = _task_of(sacct_table, "sacct", **retried)
publish, keep = _task_of(running.publish_checked, "publish"), _task_of(keep_unpublished, "keep")
TASKS: dict[Any, Task[..., Any]] = {sacct_table: sacct, running.publish_checked: publish, keep_unpublished: keep}


def task_runner(settings: ExecutionSettings) -> AbstractContextManager[TaskRunner[Any] | None]:
    """Where steps are submitted to as the settings say; None: they are called in this process."""
    if settings.dask:
        return _dask_runner(settings.dask)
    return ProcessPoolTaskRunner(max_workers=settings.processes) if settings.processes > 1 else nullcontext()


@contextmanager
def _dask_runner(address: str) -> Iterator[TaskRunner[Any]]:
    try:
        from prefect_dask import DaskTaskRunner  # noqa: PLC0415  (an extra)
    except ImportError:
        found, do = "no package prefect-dask", "install it with pip install 'walltime[dask]'"
        raise ConfigError("run.dask", found, "the extra dask", do) from None
    with ExitStack() as stack:
        try:
            runner = stack.enter_context(DaskTaskRunner(address=address, client_kwargs={"timeout": 30}))
            runner.client  # noqa: B018 - it connects
        except (OSError, TimeoutError, ValueError) as error:
            found, expected = f"no answer at {printable(address)} ({error})", "the address of a Dask scheduler"
            raise InputError("run.dask", printable(found, 400), expected, "start it, or remove run.dask") from None
        yield runner


def show(call: Callable[..., None], *arguments: Any) -> None:
    """Tell Prefect's API something. A run of a deployment waits for it, one from the command line warns in its log."""
    log = get_run_logger()
    if deployment.id:
        wait_for_api(str(server_address()), log.warning)
    try:
        call(*arguments)
    except (httpx.HTTPError, RuntimeError) as error:
        log.warning("not shown, because Prefect's API is away: %s", printable(str(error)))


def wait_for_api(address: str, say: Callable[[str], None]) -> None:
    """Return when a Prefect server answers there; Prefect's own client would ask one that hangs for minutes.

    `/ready` asks the database too; `/health` is well while PostgreSQL is stopped.
    """
    for n_tries in count():
        with suppress(httpx.HTTPError):
            if httpx.get(f"{address}/ready", timeout=ANSWER_S).status_code < 500:
                return
        if n_tries == 0:
            say(f"Prefect's API at {printable(address)} does not answer. This process waits for it.")
        time.sleep(ANSWER_S)


def show_version(manifest: Manifest, kind: str, page: str | None) -> None:
    """The artifacts of a version and, of a night, the event that it is published."""
    checks = manifest.report("checks")
    _warn(Report.from_dict(checks).notes if checks else ())
    before = manifest_or_none(manifest.root, manifest.previous[0].folder) if manifest.previous else None
    link = page or manifest.place("predictions").parent.absolute().as_uri()
    about = f"of the version {printable(manifest.folder)}"
    key = f"walltime-{site_slug(manifest.site)}-{kind}"
    create_markdown_artifact(version_markdown(manifest, link), f"{key}-summary", f"Accuracy and checks {about}")
    create_table_artifact(changed_rows(manifest, before), f"{key}-changes", f"Rows of the tables {about}")
    create_link_artifact(link, "the site's page" if page else "the tables", f"{key}-page", f"Where to look {about}")
    if kind == "night":
        announce(manifest)


def show_blocked(error: BlockedVersionError) -> None:
    """The checks of a blocked version as an artifact."""
    _warn(error.report.notes)
    key = f"walltime-{site_slug(error.site)}-night-summary"
    create_markdown_artifact(checks_markdown(error.report), key, "The checks that blocked the version")


def _warn(notes: tuple[str, ...]) -> None:
    for note in notes:
        get_run_logger().warning("%s", printable(note, 2000))


def announce(manifest: Manifest) -> None:
    """Emit the event of each version of the last day that has none: also of a run that was killed before its own."""
    site, root = printable(manifest.site), str(manifest.root.absolute())
    resource = {"prefect.resource.id": f"walltime.site.{site_slug(manifest.site)}"}
    asked = {"event": {"name": [PUBLISHED]}, "resource": {"id": [resource["prefect.resource.id"]]}}
    with get_client(sync_client=True) as client:
        told = client.read_events(EventFilter.model_validate(asked), limit=50).events
    known = {(event.payload.get("folder"), event.payload.get("version")) for event in told}
    # Fewer than the events that are read, so that none of these is emitted again.
    for one in reversed(manifest.history[:20]):
        if (root, one.folder) not in known and one.created_s > manifest.created_s - DAY_S:
            facts = {"site": site, "folder": root, "version": one.folder, "run_id": one.run_id}
            emit_event(PUBLISHED, {**resource, "prefect.resource.name": site}, payload=facts)
