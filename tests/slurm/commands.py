"""Commands of a real Slurm, and waiting for what they say."""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED", "DEADLINE"}


def call(environment: Mapping[str, str], *command: str, user: str | None = None) -> str:
    words = ["runuser", "-u", user, "--", *command] if user else list(command)
    done = subprocess.run(words, check=False, env=environment, capture_output=True, timeout=60, cwd="/")
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout.decode("utf-8", "replace").strip()


def submit(environment: Mapping[str, str], *options: str, script: str = "sleep 1", user: str = "alice") -> str:
    return call(
        environment, "sbatch", "--parsable", "-o", "/dev/null", *options, f"--wrap={script}", user=user
    ).partition(";")[0]


def wait_for(what: str, seconds: float, is_so, said=lambda: "") -> None:
    """Wait until something is so; where it takes too long, the error ends with what `said` says."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what} took longer than {seconds:g} s\n{said()}"
        time.sleep(0.5)


def queue_and_log(environment: Mapping[str, str]) -> str:
    """The queue, the nodes, and the last lines of slurmctld's log."""
    log = Path(environment["SLURM_WORK"]) / "log" / "slurmctld.log"
    queue, nodes = call(environment, "squeue", "-l"), call(environment, "sinfo", "-R")
    return "\n".join([queue, nodes, *log.read_text("utf-8", "replace").splitlines()[-60:]])


def states(environment: Mapping[str, str]) -> list[str]:
    said = call(environment, "sacct", "-a", "-X", "-n", "-P", "-S2020-01-01", "--format=State")
    return [line.split()[0] for line in said.splitlines() if line]
