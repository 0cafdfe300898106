"""Records of flow runs in progress, by which the next run reports those that were killed to Prefect as Crashed.

A process that is killed, or a machine that stops, leaves its flow run in the state Running for ever, and the temporary
server that Prefect started for it goes on. Each run therefore keeps a file in the work folder while it holds the lock
of that folder: the name has the flow run's id, the text names the server's process. A record that is there when another
run takes the lock is that of a killed run.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import httpx
from prefect import get_run_logger
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed

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
