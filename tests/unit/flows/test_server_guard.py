"""A killed run takes the server it started with it."""

import os

import pytest

from tests.unit.flows.killed_runs import ends_with_its_run

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
    assert ends_with_its_run(RUN)
