"""The parts of a night as tasks of Prefect: sacct, each step, publish or keep.

A task takes and returns plain values: names, settings, paths, reports; never a table. Steps get the results of the
steps that they read from, so that Prefect knows the edges of the graph, the times, and which task failed. They are
reused by their own key (inputs, settings, code), which names their folder: Prefect shows a reused one as Cached. No
result is stored a second time.

The settings say where steps are computed: in this process one after another, in a pool of processes, or on Dask.
"""

from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import RunInput, State, TaskRun, TaskRunResult
from prefect.states import Completed
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner
from prefect.tasks import Task

from flows.services.progress import StageEvent, notify
from flows.services.run.prepare import sacct_table
from flows.services.run.publishing import publish_checked
from flows.services.run.running import Results, compute_step, folders_of_steps, notify_end
from pipeline.errors import ConfigError, InputError, printable
from pipeline.publish.versions import keep_unpublished
from pipeline.report import StepResult
from pipeline.run import STEPS_BY_NAME, WRITER, Run
from pipeline.settings import ExecutionSettings

SACCT_PAUSES_S = [30.0, 60.0, 120.0]
"""How long to wait before sacct is asked again, s: slurmdbd is back within minutes of a restart."""

CONNECT_S = 30
_KILLED = InputError(
    "a process of the run", "that it was killed", "processes that live as long as the run",
    "see that there is enough memory, or set run.processes to 1",
)  # fmt: skip


class NightTasks:
    """The tasks of one flow run; later ones know the earlier ones as those that they wait for."""

    def __init__(self) -> None:
        self._ended: list[State[Any]] = []

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the function, called as its task."""
        return TASKS[function](*arguments, wait_for=self._ended)

    def compute(self, run: Run, work: Path) -> Results:
        """The results of all steps, with a task each; the first failure in the order of the steps is raised."""
        get_run_logger().info("run %s over %s", run.run_id, printable(", ".join(run.log_labels), 2000))
        folders, begun, results = folders_of_steps(run, work), dict[str, Any](), dict[str, StepResult[Path]]()
        with task_runner(run.settings.run) as runner:

            def begin(name: str) -> None:
                """Call or submit a step with what the steps before it give: states here, futures elsewhere."""
                upstream = {WRITER[table]: begun[WRITER[table]] for table in STEPS_BY_NAME[name].reads}
                arguments = {"name": name, "run": run, "folder": folders[name], "upstream": upstream}
                if runner is None:
                    begun[name] = _called(arguments)
                else:
                    # A pool resolves futures before it hands them over: it has to be told what they were.
                    edges: set[RunInput] = {TaskRunResult(id=one.task_run_id) for one in upstream.values()}
                    begun[name] = runner.submit(step, arguments, dependencies={"upstream": edges})

            if runner:
                for name in folders:
                    begin(name)
            for name in folders:
                notify(StageEvent(name, "started"))
                if not runner:
                    begin(name)
                try:
                    results[name] = begun[name].result()
                except BrokenProcessPool:
                    raise _KILLED from None
                notify_end(name, results[name])
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


@task(task_run_name="{name}", persist_result=False, cache_policy=NO_CACHE)
def step(name: str, run: Run, folder: Path, upstream: Results) -> State[StepResult[Path]]:
    """The result of a step, in its folder."""
    result = compute_step(name, run, folder, upstream)
    done, report = "reused" if result.is_reused else "written", result.report
    get_run_logger().info("%s: %s", done, folder)
    counts = f"{done}: {report.kept.rows:,} of {report.seen.rows:,} {report.unit}s kept"
    return Completed(name="Cached" if result.is_reused else "Completed", message=counts, data=result)


def _may_pass(_: Task[..., Any], __: TaskRun, state: State[Any]) -> bool:
    """Whether asking sacct again may help: not where a setting is wrong, or a disk full."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, InputError) and not isinstance(error, ConfigError)


sacct = task(
    name="sacct", task_run_name="sacct", persist_result=False, cache_policy=NO_CACHE,
    retries=len(SACCT_PAUSES_S), retry_delay_seconds=SACCT_PAUSES_S, retry_condition_fn=_may_pass,
)(sacct_table)  # fmt: skip
publish = task(name="publish", task_run_name="publish", persist_result=False, cache_policy=NO_CACHE)(publish_checked)
keep = task(name="keep", task_run_name="keep", persist_result=False, cache_policy=NO_CACHE)(keep_unpublished)
TASKS: dict[Callable[..., Any], Task[..., Any]] = {sacct_table: sacct, publish_checked: publish, keep_unpublished: keep}


@contextmanager
def task_runner(settings: ExecutionSettings) -> Iterator[TaskRunner[Any] | None]:
    """Where steps are submitted to as the settings say; None: they are called in this process."""
    with ExitStack() as stack:
        if settings.dask:
            yield _dask_runner(settings.dask, stack)
        elif settings.processes > 1:
            yield stack.enter_context(ProcessPoolTaskRunner(max_workers=settings.processes))
        else:
            yield None


def _dask_runner(address: str, stack: ExitStack) -> TaskRunner[Any]:
    try:
        from prefect_dask import DaskTaskRunner  # noqa: PLC0415  (an extra)
    except ImportError:
        found, do = "no package prefect-dask", "install it with pip install 'walltime[dask]'"
        raise ConfigError("run.dask", found, "the extra dask", do) from None
    try:
        runner = stack.enter_context(DaskTaskRunner(address=address, client_kwargs={"timeout": CONNECT_S}))
        runner.client  # noqa: B018 - it connects
    except (OSError, TimeoutError, ValueError) as error:
        found = f"no answer at {printable(address)} ({printable(str(error), 200)})"
        raise InputError("run.dask", found, "the address of a Dask scheduler", "start it, or remove run.dask") from None
    return cast("TaskRunner[Any]", runner)
