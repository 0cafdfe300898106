"""The plug-in and the guard on a real Slurm, compressed: limits of two minutes, and a margin of one."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.services.guard import Guard
from pipeline.errors import InputError
from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import HEARTBEAT_FILE, LOOKUP_FILE, PLUGIN_FILE, plugin
from pipeline.limits.soft import SoftRules
from pipeline.settings import ExportSettings, RunSettings
from tests.slurm.commands import call, queue_and_log, submit
from tests.slurm.conftest import LOOP_SHAPE, first_port, running, started
from tests.unit.export.slurm_plugin import of_user, table_of

RULES = SoftRules(margin_s=60.0, least_saved_s=60.0, increments_s=(60.0, 120.0))
LIMIT = ExportSettings(mode="limit")
PAUSE_S = 5.0
"""Between two rounds: a sixth of what a site has, for margins that are a fifteenth."""
OPTED_OUT = (
    ("--comment=x Walltime=OFF",), ("--signal=B:USR1@30",), ("--time-min=3",), ("--deadline=now+2hours",),
)  # fmt: skip


@dataclass
class Cluster:
    """A Slurm with the plug-in, its look-up, and a guard."""

    environment: Mapping[str, str]
    guard: Guard
    export: ExportSettings = LIMIT

    def settings(self) -> RunSettings:
        return RunSettings(export=self.export, output_dir="/nonexistent")

    def round(self) -> dict[str, Any]:
        return self.guard.run_round(time.time())

    def rounds(self, seconds: float) -> list[dict[str, Any]]:
        """Rounds for so long; those that fail, because Slurm does not answer, are left out."""
        end, found = time.monotonic() + seconds, []
        while time.monotonic() < end:
            with suppress(InputError):
                found.append(self.round())
            time.sleep(PAUSE_S)
        return found

    def minutes(self) -> dict[str, int]:
        """The limits of all jobs, by number and by task of an array."""
        jobs = json.loads(call(self.environment, "squeue", "--json"))["jobs"]
        return {str(job["job_id"]): job["time_limit"] for job in jobs}

    def states(self, *ids: str) -> list[str]:
        said = call(self.environment, "sacct", "-a", "-X", "-n", "-P", "-j", ",".join(ids), "--format=State")
        return said.splitlines()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    port = first_port() + 80
    with running(LOOP_SHAPE, port) as environment:
        work, file = Path(environment["SLURM_WORK"]), tmp_path_factory.mktemp("plugin") / PLUGIN_FILE
        file.write_text(plugin(LIMIT, has_own_name_rules=False, rules=RULES))
        rows = [of_user(name, 90.0, newest_end_s=int(time.time())) for name in ("alice", "bob")]
        (work / "etc" / LOOKUP_FILE).write_bytes(lookup_file(table_of(*rows), {}))
        assert not started(work, {"SLURM_LUA": str(file)}, port)
        known = {"PATH": os.environ["PATH"], **environment}
        found = Cluster(environment, guard=None)  # type: ignore[arg-type]
        found.guard = Guard(found.settings, known, is_dry_run=False, rules=RULES)
        yield found


def test_without_a_heartbeat_the_plug_in_sets_nothing_and_with_it_it_does(cluster: Cluster) -> None:
    held = submit(cluster.environment, "-t20", "-H")
    assert cluster.minutes()[held] == 20
    assert cluster.round()["complaints"] == []
    other = submit(cluster.environment, "-t20", "-H")
    assert cluster.minutes()[other] == 2, queue_and_log(cluster.environment)
    heartbeat = cluster.guard.folder / HEARTBEAT_FILE
    heartbeat.write_text(f"{time.time() - 240:.0f}\n")
    stale = submit(cluster.environment, "-t20", "-H")
    assert cluster.minutes()[stale] == 20
    # The next round sets what waits, once sacct knows its submit line.
    time.sleep(5)
    cluster.rounds(15)
    assert [cluster.minutes()[one] for one in (held, other, stale)] == [2, 2, 2]
    cluster.export = ExportSettings(mode="off")
    cluster.round()
    assert [cluster.minutes()[one] for one in (held, other, stale)] == [20, 20, 20] and not heartbeat.exists()
    comments = [job["admin_comment"] for job in json.loads(call(cluster.environment, "squeue", "--json"))["jobs"]]
    assert not any("walltime" in comment for comment in comments), comments
    cluster.export = LIMIT
    call(cluster.environment, "scancel", held, other, stale)


def test_jobs_that_need_their_request_keep_it(cluster: Cluster) -> None:
    cluster.round()
    ids = [submit(cluster.environment, "-t20", "-H", *own) for own in OPTED_OUT]
    script = cluster.guard.folder / "signal.sh"
    script.write_text("#!/bin/sh\n#SBATCH --signal=B:USR1@30\nsleep 1\n")
    script.chmod(0o755)
    command = ("sbatch", "--parsable", "-o", "/dev/null", "-t20", "-H", str(script))
    ids.append(call(cluster.environment, *command, user="alice"))
    het = submit(cluster.environment, "-t20", "-H", "-n1", ":", "-t20", "-n1")
    # A signal of the submit line is not seen by the plug-in, but by the guard.
    time.sleep(5)
    cluster.rounds(15)
    found = cluster.minutes()
    assert [found[one] for one in ids] == [20] * len(ids), queue_and_log(cluster.environment)
    assert found[het] == found[str(int(het) + 1)] == 20
    call(cluster.environment, "scancel", *ids, het)


def test_a_reservation_gives_waiting_jobs_their_requests(cluster: Cluster) -> None:
    cluster.round()
    held = submit(cluster.environment, "-t60", "-H")
    assert cluster.minutes()[held] == 2
    call(cluster.environment, "scontrol", "create", "reservation", "ReservationName=service", "StartTime=now+30minutes",
         "Duration=60", "Users=root", "Nodes=ALL", "Flags=MAINT,IGNORE_JOBS")  # fmt: skip
    try:
        time.sleep(5)
        cluster.rounds(1)
        later = submit(cluster.environment, "-t60", "-H")
        assert (cluster.minutes()[held], cluster.minutes()[later]) == (60, 60)
        early = submit(cluster.environment, "-t10", "-H")
        assert cluster.minutes()[early] == 2, "it would end before"
    finally:
        call(cluster.environment, "scontrol", "delete", "ReservationName=service")
    call(cluster.environment, "scancel", "--state=PENDING", "--user=alice")


def test_no_job_ends_by_us_while_the_guard_and_the_controller_are_away(cluster: Cluster) -> None:
    """Jobs of 30 s to 4 min with 2 min; the controller is stopped for 40 s; a task of an array runs as long."""
    environment = cluster.environment
    cluster.round()
    options = ("-n1", "-t20")
    ids = [submit(environment, *options, script=f"sleep {seconds}") for seconds in (30, 100, 150, 200, 240) * 4]
    array = submit(environment, *options, "--array=0-3", script="sleep 170")
    limits = cluster.minutes()
    assert {limits[one] for one in ids} == {2}
    rounds = cluster.rounds(70)
    call(environment, "scontrol", "shutdown", "slurmctld")
    rounds += cluster.rounds(40)
    assert not started(Path(environment["SLURM_WORK"]), {}, first_port() + 80)
    rounds += cluster.rounds(170)
    raised = [one for found in rounds for one in found["changes"] if one["is_running"]]
    assert cluster.states(*ids, array) == ["COMPLETED"] * (len(ids) + 4), queue_and_log(environment)
    # 30 s need none; a round in which the controller goes away waits for it.
    assert 16 <= len(raised) <= 60 and sorted(found["took_s"] for found in rounds)[len(rounds) // 2] < 2


def test_a_withdrawal_gives_running_jobs_their_requests(cluster: Cluster) -> None:
    cluster.round()
    ids = [submit(cluster.environment, "-n1", "-t20", script="sleep 60") for _ in range(3)]
    time.sleep(10)
    cluster.guard.is_leaving = True
    cluster.round()
    assert [cluster.minutes()[one] for one in ids] == [20, 20, 20]
    call(cluster.environment, "scancel", *ids)
