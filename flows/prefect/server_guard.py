"""The end of Prefect's embedded API when the run that started it is killed: it would serve nobody for ever.

A child process waits for the end of a pipe that only this process holds, and then stops the server. (The kernel's
signal at a parent's death would not do: it comes when the thread that started the server ends.)
"""

import os
import subprocess
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
    """Have every embedded API that Prefect starts from here on end with this process; Linux only."""
    from prefect.server.api.server import SubprocessASGIServer  # noqa: PLC0415 - slow

    start = getattr(SubprocessASGIServer, "_run_uvicorn_command", None)
    if start is None or not hasattr(os, "pidfd_open") or getattr(start, "is_guarded", False):
        return

    def guarded(server: Any) -> Any:
        process = start(server)
        process.guard = watch(process.pid)
        return process

    guarded.is_guarded = True  # type: ignore[attr-defined]
    SubprocessASGIServer._run_uvicorn_command = guarded  # type: ignore[method-assign]


def watch(pid: int) -> subprocess.Popen[bytes]:
    """Stop the process `pid` once this one has ended, however it ended, or once what is returned is dropped."""
    return subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-I", "-S", "-c", _GUARD, str(pid)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
