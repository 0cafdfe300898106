"""Records of flow runs in progress, by which the next run reports those that were killed to Prefect as Crashed.

A process that is killed, or a machine that stops, leaves its flow run in the state Running for ever, and the temporary
server that Prefect started for it goes on. Each run therefore keeps a file in the work folder, named by its flow run's
id, and holds a lock on it; the file names the server's process. The lock ends with the process. A record without a lock
is that of a killed run.
"""

import fcntl
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
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed

from pipeline.publish.folders import is_same_file

PREFIX = "flow_run-"
_DRAFT = ".draft-flow_run-"
_KEPT_S = 30 * 86_400
"""How long a record is kept whose flow run this API does not know: the next run may use the API that does."""

_MESSAGE = "The process ended without reporting a state; the next run of the site found this by its record."


@contextmanager
def recorded_flow_run(work: Path) -> Iterator[None]:
    """Mark killed runs of this work folder as Crashed, and keep a record of the current flow run meanwhile."""
    own = flow_run.id
    if own is None:
        yield
        return
    mark_killed_runs(work)
    path, draft = work / f"{PREFIX}{own}", work / f"{_DRAFT}{own}"
    try:
        with draft.open("w") as handle:
            handle.write(json.dumps(_server_process()))
            handle.flush()
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Only a locked file gets the record's name, so that no other run takes this one for killed.
            draft.rename(path)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    finally:
        draft.unlink(missing_ok=True)


def mark_killed_runs(work: Path) -> list[str]:
    """Report the killed runs that have a record in `work`; returns the ids of those that are Crashed from now on."""
    marked: list[str] = []
    for path in sorted(work.glob(f"{PREFIX}*")):
        try:
            with path.open("rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A run removes its record before it releases the lock.
                if is_same_file(handle, path) and _is_settled(path, marked):
                    path.unlink(missing_ok=True)
        except (FileNotFoundError, BlockingIOError):
            continue
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
            if _is_in_progress(client, run_id):
                client.set_flow_run_state(run_id, Crashed(message=_MESSAGE))
                marked.append(str(run_id))
                get_run_logger().warning("flow run %s was killed: it is marked as Crashed", run_id)
    except ObjectNotFound:
        return time.time() - path.stat().st_mtime > _KEPT_S
    except (PrefectHTTPStatusError, httpx.HTTPError) as error:
        get_run_logger().warning("flow run %s was killed, but cannot be marked: %s", run_id, error)
        return False
    return True


def _is_in_progress(client: SyncPrefectClient, run_id: UUID) -> bool:
    state = client.read_flow_run(run_id).state
    return state is not None and not state.is_final()


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
