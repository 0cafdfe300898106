"""A killed run takes the server it started with it."""

import os
import signal
import subprocess
import sys

import pytest

RUN = """
import subprocess, sys, time
from flows.prefect.server_guard import watch
server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL)
guard = watch(server.pid)
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux only")
def test_the_server_ends_with_a_killed_run() -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        server = os.pidfd_open(int(run.stdout.readline()))
        run.send_signal(signal.SIGKILL)
    import select

    ended, _, _ = select.select([server], [], [], 20)
    assert ended
