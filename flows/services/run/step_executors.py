"""Computes the steps of a run at the same time where none waits for another: in processes, or on workers of Dask."""

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from flows.services.progress import StageEvent, notify
from flows.services.run.step_results import StepFolders, step_result
from flows.services.run.work_folder import StepResult
from pipeline.core.errors import ConfigError, InputError
from pipeline.core.execution_settings import ExecutionSettings
from pipeline.core.text import printable
from pipeline.run import STEPS, Run

DASK_RETRIES = 3
"""How often a step is given to another worker where one dies."""

_CONNECT_S = 30


@contextmanager
def step_executor(settings: ExecutionSettings) -> Iterator[Executor | None]:
    """Where the steps are computed as the settings say; None: in this process, one after another."""
    if settings.dask:
        with _dask_executor(settings.dask) as executor:
            yield executor
    elif settings.processes > 1:
        # A forked process would inherit locks of threads that it does not have.
        with ProcessPoolExecutor(settings.processes, mp_context=get_context("spawn")) as executor:
            yield executor
    else:
        yield None


@contextmanager
def _dask_executor(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client  # noqa: PLC0415  (an extra)
    except ImportError:
        found, do = "no package distributed", "install it with pip install 'walltime[dask]'"
        raise ConfigError("run.dask", found, "the extra dask", do) from None
    try:
        client = Client(address, timeout=_CONNECT_S)
    except (OSError, TimeoutError, ValueError) as error:
        found = f"no answer at {printable(address)} ({printable(str(error), 200)})"
        raise InputError("run.dask", found, "the address of a Dask scheduler", "start it, or remove run.dask") from None
    with client:
        yield client.get_executor(pure=False, retries=DASK_RETRIES)


def compute_steps(run: Run, work: Path, executor: Executor) -> list[StepResult]:
    """The results of all steps, in their order; each step begins as soon as the tables it reads are there.

    The first failure of a step is raised when the steps that have begun are over.
    """
    folders, waiting = StepFolders(run, work), [step.name for step in STEPS]
    running: dict[Future[tuple[StepResult, bool]], tuple[str, float]] = {}
    results: dict[str, StepResult] = {}
    try:
        while waiting or running:
            for name in [name for name in waiting if folders.is_ready(name)]:
                waiting.remove(name)
                notify(StageEvent(name, "started"))
                future = executor.submit(step_result, name, run, folders.reads(name), folders.folder(name))
                running[future] = name, time.monotonic()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name, began = running.pop(future)
                result, is_reused = future.result()
                folders.add(name, result)
                results[name] = result
                spent_s = time.monotonic() - began
                notify(StageEvent(name, "reused" if is_reused else "done", spent_s, result.report))
    except BrokenProcessPool:
        raise InputError(
            "a process of the run", "that it was killed", "processes that live as long as the run",
            "see that there is enough memory, or set run.processes to 1",
        ) from None  # fmt: skip
    finally:
        for future in running:
            future.cancel()
        wait(running)
    return [results[step.name] for step in STEPS]
