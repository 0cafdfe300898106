"""A cron of every minute on a real Slurm while jobs flow, with everything killed and started again in the middle.

`walltime init` writes the config, `walltime serve` runs it under a Prefect server of its own. Looks at the published
tables, at the runs and at the memory of serve are kept all the time. In the middle, while a run is in progress, the
daemons of Slurm, its database, its jobs, the server, serve and its run are killed with -9, and are started again at the
same time, so that the first runs after it may find no sacct. WALLTIME_HOUR_MINUTES says how long all of it takes.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows.services.run_record import read_last_run
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from tests.prefect_server.conftest import PREFECT, ROOT, Server, free_port, process, wait_for
from tests.slurm.commands import ENDED, call, states
from tests.slurm.conftest import first_port, running, started
from tests.slurm.freshness import Look, growth_mib, keep, say, table, worst_by_minute
from tests.slurm.job_mix import Submitter
from tests.slurm.kill_processes import daemons_of, jobs_of, kill_all, resident_mib, tree_of

SHAPE = {
    "SLURM_NODES": "8", "SLURM_CPUS": "4", "SLURM_MEM": "4000", "SLURM_GPUS": "0",
    "SLURM_USERS": "alice bob carol dave", "SLURM_CLUSTER": "hour",
}  # fmt: skip
MINUTES = float(os.environ.get("WALLTIME_HOUR_MINUTES", "60"))
SUBMIT_EVERY_S, LOOK_EVERY_S = 4.0, 10.0
DOWN_S = 20.0
SITE = "hour"
OLDEST_S, GROWTH_MIB, SETTLE_S = 180.0, 10.0, 120.0
"""What is allowed: the age of tables, and the growth of serve, of which its first minutes are left out."""

IN_PROGRESS = ("RUNNING", "PENDING", "CANCELLING", "PAUSED")
WALLTIME = [sys.executable, "-m", "flows.cli"]
FIELDS = ("JobID", "State", "End")


@dataclass(frozen=True)
class Reboot:
    """When all was killed, was up again, and had published tables again, in seconds since the first look."""

    killed_s: float
    up_s: float
    fresh_s: float
    n_processes: int
    killed_run: str


@dataclass(frozen=True)
class Hour:
    """What the hour left."""

    began_s: float
    """The first look, in UTC epoch seconds."""
    looks: list[Look]
    runs: list[dict[str, Any]]
    reboot: Reboot
    accounting: Counter[tuple[str, ...]]
    """The finished records of sacct: job, state and end (UTC epoch seconds)."""
    jobs: Counter[tuple[str, ...]]
    """The same of the table JOBS."""
    n_submitted: int
    n_refused: int


@dataclass
class Site:
    """A folder with a config, a server and serve, which can be killed and started again."""

    slurm: Mapping[str, str]
    slurm_port: int
    folder: Path
    server: Server
    began_s: float = field(default_factory=time.time)
    processes: ExitStack = field(default_factory=ExitStack)
    serving: "subprocess.Popen[bytes] | None" = None
    standing: "subprocess.Popen[bytes] | None" = None
    is_up: bool = False
    looks: list[Look] = field(default_factory=list)

    @property
    def tables(self) -> Path:
        return self.folder / "my-site-tables"

    @property
    def at_s(self) -> float:
        return time.time() - self.began_s

    def start_server(self) -> None:
        command = [str(PREFECT), "server", "start", "--port", self.server.address.rpartition(":")[2]]
        self.standing = self._start(command, "prefect.log")

    def serve(self) -> None:
        """Start to serve; it waits for the server by itself."""
        command = [*WALLTIME, "serve", "my-site.toml", "--cron", "* * * * *"]
        self.serving = self._start(command, "serve.log")

    def _start(self, command: list[str], log: str) -> "subprocess.Popen[bytes]":
        inside = process(command, self.folder / log, self.server.environment, self.folder)
        return self.processes.enter_context(inside)

    def run_in_progress(self) -> str:
        """The id of the flow run whose record says that it is running; empty where none runs."""
        found = read_last_run(self.tables)
        if found is None or found.state != "running":
            return ""
        return next((run["id"] for run in self.server.runs("my-site") if run["state_name"] == "Running"), "")

    def look(self) -> Look:
        """What is to be seen now."""
        run_id, n_jobs, table_age, data_age = "", 0, None, None
        try:
            manifest = load_manifest(self.tables)
            run_id, n_jobs = manifest.run_id, manifest.tables["jobs"].rows
            table_age = time.time() - manifest.created_s
            mark = json.loads((self.tables / "source" / "watermark.json").read_text())
            data_age = time.time() - mark["until_s"]
        except (InputError, OSError):
            # No version is there yet. After the first one this makes the look one without an age, which fails.
            pass
        memory = [resident_mib(one.pid) if one and one.poll() is None else 0.0 for one in (self.serving, self.standing)]
        return Look(round(self.at_s, 1), table_age, data_age, run_id, n_jobs, memory[0], memory[1], self.is_up)

    def look_until(self, is_so: Callable[[], bool], seconds: float = 300.0) -> None:
        """Keep looks until something is so, at most some seconds; one look a minute is told."""
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, f"not so after {seconds:.0f} s; see {self.folder}"
            self.looks.append(self.look())
            one = self.looks[-1]
            if len(self.looks) < 2 or one.at_s // 60 != self.looks[-2].at_s // 60:
                age = "none" if one.table_age_s is None else f"{one.table_age_s:.0f} s old"
                say(f"minute {one.at_s / 60:.0f}: tables {age}, {one.n_jobs} jobs, serve {one.serve_mib:.0f} MiB\n")
            time.sleep(LOOK_EVERY_S)

    def version_since(self, run_id: str) -> bool:
        """Whether another version is published than that of a run."""
        try:
            return load_manifest(self.tables).run_id != run_id
        except InputError:
            return False


@pytest.fixture(scope="module")
def hour() -> Iterator[Hour]:
    """All of it; the looks and logs stay below WALLTIME_HOUR_OUT, where that is set."""
    port = first_port() + 80
    with running(SHAPE, port) as slurm, site_of(slurm | {"TZ": "UTC"}, port) as site:
        result = lived(site)
        say(told(result))
        yield result


@contextmanager
def site_of(slurm: Mapping[str, str], port: int) -> Iterator[Site]:
    """A site with a config of `walltime init`; nothing is started yet."""
    kept = os.environ.get("WALLTIME_HOUR_OUT")
    folder = Path(kept or tempfile.mkdtemp(prefix="walltime-hour-"))
    folder.mkdir(parents=True, exist_ok=True)
    address = f"http://127.0.0.1:{free_port()}"
    clean = {name: value for name, value in slurm.items() if not name.startswith("PREFECT_")}
    environment = clean | {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"{address}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PYTHONPATH": str(ROOT),
    }
    subprocess.run([*WALLTIME, "init", "--out", "my-site.toml"], env=environment, cwd=folder, check=True, timeout=120)
    site = Site(slurm, port, folder, Server(address, environment, folder))
    with site.processes:
        yield site


def lived(site: Site) -> Hour:
    """The hour: two halves with a reboot between them, then the end of all jobs and a last version."""
    submitter = Submitter(site.slurm, SUBMIT_EVERY_S, random.Random(15))
    submitter.start()
    try:
        site.start_server()
        site.serve()
        site.look_until(lambda: site.version_since(""))
        site.began_s, site.is_up, site.looks = time.time(), True, []
        half = MINUTES * 60 / 2
        site.look_until(lambda: site.at_s >= half, half + 60)
        reboot = rebooted(site)
        site.look_until(lambda: site.at_s >= 2 * half, half + 60)
    finally:
        submitter.stop()
        keep(site.looks, site.folder / "looks.jsonl")
    finish_jobs(site.slurm)
    wait_for_last_version(site)
    runs = site.server.ask("/flow_runs/filter", sort="START_TIME_ASC", limit=200, flow_runs=begun_runs())
    (site.folder / "runs.json").write_text(json.dumps(runs))
    return Hour(
        site.began_s, site.looks, runs, reboot, finished_records(site.slurm), jobs_in(site.tables),
        submitter.n_submitted, submitter.n_refused,
    )  # fmt: skip


def begun_runs() -> dict[str, Any]:
    states = ["COMPLETED", "FAILED", "CRASHED", "CANCELLED", *IN_PROGRESS]
    return {"state": {"type": {"any_": states}}}


def rebooted(site: Site) -> Reboot:
    """Kill everything while a run is in progress, wait, start it again, and look until tables are published again."""
    wait_for("a run in progress", site.run_in_progress, 180)
    time.sleep(1.0)
    site.is_up = False
    killed_run, before, killed_s = site.run_in_progress(), load_manifest(site.tables).run_id, site.at_s
    work = Path(site.slurm["SLURM_WORK"])
    assert site.serving is not None and site.standing is not None
    own = [*tree_of(site.serving.pid), *tree_of(site.standing.pid)]
    n_killed = kill_all([*own, *daemons_of(work), *jobs_of(work)])
    n_killed += kill_all([*jobs_of(work), *daemons_of(work)])
    site.processes.close()
    end_s = site.at_s + DOWN_S
    site.look_until(lambda: site.at_s >= end_s)
    complaints: list[str] = []
    slurm = threading.Thread(target=lambda: complaints.append(started(work, SHAPE, site.slurm_port)))
    slurm.start()
    site.start_server()
    site.serve()
    site.look_until(lambda: not slurm.is_alive())
    assert complaints == [""], complaints
    up_s = site.at_s
    site.look_until(lambda: site.version_since(before))
    site.is_up = True
    return Reboot(killed_s, up_s, site.at_s, n_killed, killed_run)


def finish_jobs(environment: Mapping[str, str]) -> None:
    """Cancel all jobs, and return when they have ended and the accounting knows it.

    Slurm takes minutes to notice that a job is gone which was killed together with the daemon of its node.
    """
    for user in SHAPE["SLURM_USERS"].split():
        call(environment, "scancel", f"--user={user}")
    wait_for("the end of the jobs", lambda: not call(environment, "squeue", "-h"), 300)
    wait_for("the accounting", lambda: set(states(environment)) <= ENDED, 120)


def wait_for_last_version(site: Site) -> None:
    """Return when a version is published of a reading that began after now, and nothing runs any more."""
    now_s = time.time()

    def is_read() -> bool:
        mark = json.loads((site.tables / "source" / "watermark.json").read_text())
        return bool(mark["until_s"] > now_s and not site.run_in_progress())

    wait_for("the last version", is_read, 300)
    known = site.server.deployment(SITE)
    site.server.ask(f"/deployments/{known['id']}/pause_deployment")
    wait_for("the end of the last run", lambda: not unfinished(site), 180)


def unfinished(site: Site) -> list[dict[str, Any]]:
    found = site.server.ask("/flow_runs/filter", limit=200, flow_runs={"state": {"type": {"any_": list(IN_PROGRESS)}}})
    return list(found)


def finished_records(environment: Mapping[str, str]) -> Counter[tuple[str, ...]]:
    """Each finished record of sacct, with those of restarts."""
    said = call(environment, "sacct", "-a", "-X", "-D", "-n", "-P", "-S2020-01-01", f"--format={','.join(FIELDS)}")
    rows = [line.split("|") for line in said.splitlines()]
    return Counter(
        (job_id, state.split()[0], str(epoch_s(end))) for job_id, state, end in rows if state.split()[0] in ENDED
    )


def epoch_s(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def jobs_in(tables: Path) -> Counter[tuple[str, ...]]:
    """Each finished record of JOBS in the same form."""
    rows = pq.read_table(load_manifest(tables).path("jobs"), columns=["job_id", "state", "end_s"]).to_pylist()
    return Counter((row["job_id"], row["state"], str(row["end_s"])) for row in rows if row["state"] in ENDED)


def told(hour: Hour) -> str:
    """The table of the hour, and the reboot in a sentence."""
    reboot = hour.reboot
    states = Counter(run["state_name"] for run in hour.runs)
    return (
        f"\n{table(hour.looks, ends_of(hour))}\n"
        f"{hour.n_submitted} submissions, {hour.n_refused} refused; {sum(hour.accounting.values())} finished records "
        f"in sacct, {sum(hour.jobs.values())} in JOBS. Runs: {dict(states)}.\n"
        f"At {reboot.killed_s:.0f} s {reboot.n_processes} processes were killed; Slurm was up at {reboot.up_s:.0f} s, "
        f"tables were published again at {reboot.fresh_s:.0f} s. Growth of serve: {growth_mib(hour.looks, SETTLE_S)}\n"
    )


def ends_of(hour: Hour) -> list[tuple[float, str]]:
    """When each run ended, in seconds since the first look, and in which state."""
    ended = [(run["end_time"], run["state_name"].lower()) for run in hour.runs if run["end_time"]]
    return [(datetime.fromisoformat(end).timestamp() - hour.began_s, how) for end, how in ended]


def test_tables_are_fresh_in_every_minute_outside_the_reboot(hour: Hour) -> None:
    assert all(look.table_age_s is not None for look in hour.looks if look.is_up)
    worst = worst_by_minute(hour.looks)
    down = set(range(int(hour.reboot.killed_s // 60), int(hour.reboot.fresh_s // 60) + 1))
    assert set(worst) | down == set(range(int(hour.looks[-1].at_s // 60) + 1))
    assert {minute: age for minute, age in worst.items() if age > OLDEST_S} == {}


def test_after_the_reboot_tables_are_published_within_minutes(hour: Hour) -> None:
    assert hour.reboot.fresh_s - hour.reboot.up_s <= OLDEST_S


def test_every_finished_record_of_sacct_is_once_in_jobs(hour: Hour) -> None:
    assert hour.accounting.total() > 5 * MINUTES
    assert (hour.accounting - hour.jobs, hour.jobs - hour.accounting) == (Counter(), Counter())


def test_no_run_is_left_in_progress_and_only_the_reboot_made_runs_fail(hour: Hour) -> None:
    found = {run["id"]: run["state_name"] for run in hour.runs}
    assert {run_id for run_id, state in found.items() if state == "Crashed"} == {hour.reboot.killed_run}
    assert set(found.values()) <= {"Completed", "Crashed", "Failed"}
    low, high = (hour.began_s + at_s for at_s in (hour.reboot.killed_s, hour.reboot.fresh_s))
    failed = [run for run in hour.runs if run["state_name"] == "Failed"]
    assert all(low <= datetime.fromisoformat(run["end_time"]).timestamp() <= high for run in failed)
    assert Counter(found.values())["Completed"] >= MINUTES / 2


def test_the_memory_of_serve_stays_flat(hour: Hour) -> None:
    assert len(growth_mib(hour.looks, SETTLE_S)) == 2
    assert all(growth <= GROWTH_MIB for growth in growth_mib(hour.looks, SETTLE_S))
