"""Commands of a real OpenPBS: start, submit, wait, and read back what became of the jobs."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UP_TIMEOUT_S = 1800
USERS = ("alice", "bob", "carol", "dave", "erin")
STOPPED_AT_LIMIT = -29
"""Exit_status of a job that OpenPBS killed at its walltime."""


@dataclass(frozen=True)
class Cluster:
    """An OpenPBS whose files are under `work`, built into `prefix`."""

    scripts: Path
    work: Path
    prefix: str
    port: int

    @property
    def home(self) -> Path:
        return self.work / "home"

    @property
    def accounting(self) -> Path:
        return self.home / "server_priv" / "accounting"

    @property
    def environment(self) -> dict[str, str]:
        """What a command of OpenPBS needs."""
        path = f"{self.prefix}/bin:{self.prefix}/sbin:{os.environ['PATH']}"
        conf = self.work / "etc" / "pbs.conf"
        return os.environ | {"PATH": path, "PBS_CONF_FILE": str(conf), "PBS_HOME": str(self.home)}

    def up(self, **options: str) -> str:
        """Start it, or apply options to the running one; what the script complained of, where it failed."""
        given = {
            "PBS_PREFIX": self.prefix, "PBS_PORT": str(self.port), "PBS_USERS": " ".join(USERS),
            "TZ": "UTC", "PBS_NODES": "4", "PBS_CPUS": "8", "PBS_ITERATION": "2", "PBS_JOBS": "1",
        }  # fmt: skip
        command = ["nice", "bash", str(self.scripts / "up.sh"), str(self.work)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PBS_")}
        try:
            done = subprocess.run(
                command, check=False, env=environment | given | options, capture_output=True, timeout=UP_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return f"nothing after {UP_TIMEOUT_S} s"
        return (done.stderr.decode("utf-8", "replace").strip()[-3000:] or "no word") if done.returncode else ""

    def kill_server(self) -> None:
        """End pbs_server without a chance to tidy up."""
        pid = int((self.work / "run" / "pbs_server.up").read_text("ascii").split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_for("the server's end", 10, lambda: not Path(f"/proc/{pid}").exists())

    def call(self, *command: str, user: str | None = None, folder: Path | None = None) -> str:
        """What a command printed; it has to succeed."""
        done = self.tried(*command, user=user, folder=folder)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout.strip()

    def tried(
        self, *command: str, user: str | None = None, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The end of a command, whatever it is."""
        words = ["runuser", "-u", user, "--", *command] if user else list(command)
        return subprocess.run(
            words, check=False, env=self.environment, capture_output=True, text=True, errors="replace", timeout=120,
            cwd=folder or self.work / "jobs",
        )  # fmt: skip

    def submit(self, user: str, name: str, select: str, walltime_s: int, runs_s: float, *options: str) -> str:
        """The id of a new job that sleeps."""
        asked = ["-N", name, "-l", f"select={select}", "-l", f"walltime={walltime_s}"]
        return self.call("qsub", *asked, *options, "--", "/bin/sleep", f"{runs_s:g}", user=user)

    def job(self, job_id: str) -> dict[str, Any]:
        """One job, ended or not."""
        # A line end in an account is written as it is, into the JSON and into the accounting files.
        said = self.call("qstat", "-x", "-f", "-F", "json", job_id)
        (found,) = json.loads(said, strict=False)["Jobs"].values()
        return dict(found)

    def wait(self, ids: Sequence[str], seconds: float) -> dict[str, dict[str, str]]:
        """The E records of these jobs, when all have ended."""
        wait_for("the jobs", seconds, lambda: not set(ids) & set(self.call("qselect").split()))
        wait_for("the accounting", 30, lambda: set(ids) <= set(self.ended()))
        ended = self.ended()
        return {job_id: ended[job_id] for job_id in ids}

    def ended(self) -> dict[str, dict[str, str]]:
        """The last E record of each job that has ended, as the accounting files have it."""
        found = {}
        for file in sorted(self.accounting.iterdir()):
            for line in file.read_text("utf-8", "replace").splitlines():
                if ";E;" in line:
                    _, _, job_id, values = line.split(";", 3)
                    found[job_id] = dict(word.partition("=")[::2] for word in values.split())
        return found

    def log_lines(self, text: str) -> list[str]:
        """Lines of the server's log that hold a text."""
        logs = sorted((self.home / "server_logs").iterdir())
        return [line for log in logs for line in log.read_text("utf-8", "replace").splitlines() if text in line]


def wait_for(what: str, seconds: float, is_so: Callable[[], bool]) -> None:
    """Return when it is so; an error after the seconds."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what} took longer than {seconds:g} s"
        time.sleep(0.5)


def seconds_of(text: str) -> int:
    """Seconds of `01:02:03`."""
    hours, minutes, seconds = map(int, text.split(":"))
    return 3600 * hours + 60 * minutes + seconds
