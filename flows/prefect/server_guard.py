"""Stops Prefect's embedded API when the run that started it is killed; it would go on for ever otherwise.

A child process waits until a pipe that only this process holds is closed, and then stops the server. (The kernel's
parent-death signal does not help: it is sent when the thread that started the server ends.)
"""

import os
import subprocess  # nosec B404 # lists of arguments, no shell
import sys
from typing import Any

_GUARD = """
import os, signal, sys
server = os.pidfd_open(int(sys.argv[1]))
sys.stdin.read()
try:
    signal.pidfd_send_signal(server, signal.SIGTERM)
except ProcessLookupError:
    pass
"""


def guard_embedded_server() -> None:
    """Make every embedded API that Prefect starts from now on end with this process; Linux only.

    Where an address of an API is set, Prefect starts none.
    """
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415

    if PREFECT_API_URL.value():
        return
    from prefect.server.api.server import SubprocessASGIServer  # noqa: PLC0415 - slow

    start = getattr(SubprocessASGIServer, "_run_uvicorn_command", None)
    if start is None or not hasattr(os, "pidfd_open") or getattr(start, "is_guarded", False):
        return

    def guarded(server: Any) -> Any:
        process = start(server)
        process.guard = watch(process.pid)
        return process

    guarded.is_guarded = True  # type: ignore[attr-defined]
    SubprocessASGIServer._run_uvicorn_command = guarded  # type: ignore[method-assign, assignment]


def watch(pid: int) -> subprocess.Popen[bytes]:
    """Start a guard that stops process `pid` when this process ends for any reason, or when the guard is dropped."""
    return subprocess.Popen(  # noqa: S603 # nosec B603 # constant arguments
        [sys.executable, "-I", "-S", "-c", _GUARD, str(pid)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
