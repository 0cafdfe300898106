"""Kills a run with -9, for tests of the processes that are to end with it."""

import os
import select
import signal
import subprocess
import sys


def ends_with_its_run(script: str) -> bool:
    """Whether the process whose id the script prints ends within 20 s after the script is killed."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        process = os.pidfd_open(int(run.stdout.readline()))
        run.send_signal(signal.SIGKILL)
    return bool(select.select([process], [], [], 20)[0])
