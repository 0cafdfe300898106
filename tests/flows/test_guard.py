"""`walltime guard` over a fake squeue and scontrol: hostile names, exact arguments, failures, signals, withdrawal."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.services.guard import Guard
from flows.services.logs import run_settings
from flows.services.published.published_folder import live_pointer
from flows.services.schedulers import SLURM, limits_s
from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import HEARTBEAT_FILE, LOOKUP_FILE
from pipeline.ingest.slurm_texts import asked_s_of, limit_comment, set_s_of
from pipeline.publish.store import new_table
from pipeline.storage import write_table
from pipeline.tables import STARTS
from tests.flows.fake_programs import Program, Scontrol
from tests.flows.support import Outcome
from tests.unit.export.slurm_plugin import of_user, table_of

Walltime = Callable[..., Outcome]
HOSTILE = '$(reboot) `id` "; rm -rf / #\n7|8\x1b[31m\u202e --yes JobId=1'
SAY = "sys.stdout.write(open({!r}).read())"
SQUEUE = r"""
said = open({!r}).read()
if "--json" in sys.argv:
    print(said)
    sys.exit(0)
for job in json.loads(said)["jobs"]:
    tasks, task = job["array_task_string"], job["array_task_id"]
    part = "_[%s]" % tasks if tasks else "" if task is None else "_%d" % task
    days, minutes = divmod(job["time_limit"], 1440)
    limit = "%d:%02d:00" % divmod(minutes, 60)
    job_id = str(job["array_job_id"] or job["job_id"]) + part
    print(job["job_id"], job_id, "%d-%s" % (days, limit) if days else limit)
"""
SET = limit_comment("limit", "stamp=ab", 60, 600)
SEEN = limit_comment("limit", "stamp=ab", None, 600)


def slurm_job(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "job_id": number, "array_job_id": 0, "array_task_string": "", "array_task_id": None, "het_job_id": 0,
        "het_job_offset": 0, "name": "solver", "user_name": "ada", "group_name": HOSTILE, "comment": HOSTILE,
        "account": "phys", "partition": "long", "qos": "normal", "time_limit": 600, "cpus": 4, "memory_per_cpu": 100,
        "submit_time": 5, "job_state": "PENDING", "admin_comment": SEEN, "batch_flag": True,
    } | changes  # fmt: skip


def running(number: int, left_s: float = 600.0, **changes: Any) -> dict[str, Any]:
    now_s = int(time.time())
    plain = {"job_state": ["RUNNING"], "time_limit": 60, "admin_comment": SET, "start_time": now_s - 60}
    return slurm_job(number, **plain | {"end_time": now_s + int(left_s)} | changes)


class Site:
    """A look-up beside a slurm.conf, and the programs of a scheduler."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.heartbeat, self.out = folder, folder / HEARTBEAT_FILE, folder / "out"
        (folder / LOOKUP_FILE).write_bytes(lookup_file(table_of(of_user("ada", 3600.0), of_user("bob", 3600.0)), {}))
        self.out.mkdir()
        self.scontrol, self.said = Scontrol(folder), folder / "squeue.said"
        self.squeue = Program(folder, "squeue", SQUEUE.format(str(self.said)))
        self.lines = folder / "sacct.said"
        self.sacct = Program(folder, "sacct", SAY.format(str(self.lines)))
        self.queue()

    def queue(self, *jobs: dict[str, Any]) -> None:
        self.said.write_text(json.dumps({"meta": {}, "errors": [], "jobs": jobs}))
        self.lines.write_text("".join(f"{job['job_id']}|sbatch x.sh\n" for job in jobs))

    def config(self, mode: str = "limit", export: str = "") -> Path:
        path = self.folder / "site.toml"
        path.write_text(f"output_dir = '{self.out}'\n[export]\nmode = '{mode}'\n{export}")
        return path

    def jobs(self) -> dict[int, dict[str, Any]]:
        return {job["job_id"]: job for job in json.loads(self.said.read_text())["jobs"]}

    def limits(self) -> dict[int, int]:
        return {number: job["time_limit"] for number, job in self.jobs().items()}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Site(tmp_path)


def guarded(walltime: Walltime, site: Site, *how: str, code: int = 0, **config: str) -> dict[str, Any]:
    shown = walltime("guard", site.config(**config), *(how or ("--once",)), "--json")
    assert shown.code == code, shown.err
    return json.loads(shown.out)


def test_one_round_raises_and_sets_by_calls_without_a_shell(walltime: Walltime, site: Site) -> None:
    site.queue(slurm_job(7), running(8), running(9, left_s=2000.0), slurm_job(10, user_name="new"))
    found = guarded(walltime, site)
    assert (found["running"], found["ours"], found["waiting"]) == (2, 2, 2) and found["complaints"] == []
    raise_, set_ = site.scontrol.updates
    # The estimate has no runtime beyond an hour: the first increment.
    assert raise_ == ["JobId=8", "TimeLimit=75"], "running jobs come first, and keep their comment"
    assert set_[:2] == ["JobId=7", "TimeLimit=60"] and len(set_) == 3
    comment = set_[2].partition("=")[2]
    assert (asked_s_of(comment), set_s_of(comment)) == (36_000.0, 3600.0)
    assert site.limits() == {7: 60, 8: 75, 9: 60, 10: 600}
    verified = ["--all", "--noheader", "--format=%A %i %l"]
    assert site.squeue.calls == [["--all", "--json"], verified, verified], "once to see, and after each call"
    assert all("reboot" not in word for update in site.scontrol.updates for word in update)
    assert abs(int(site.heartbeat.read_text()) - time.time()) < 60
    assert guarded(walltime, site)["changes"] == [], "nothing is done twice"


def test_many_changes_are_one_call(walltime: Walltime, site: Site) -> None:
    site.queue(*(running(n) for n in range(1, 41)))
    assert len(guarded(walltime, site)["changes"]) == 40
    assert len([call for call in site.scontrol.calls if not call]) == 1 and set(site.limits().values()) == {75}


def test_a_task_that_runs_is_raised_alone(walltime: Walltime, site: Site) -> None:
    """The number of one of the tasks is that of the array."""
    site.queue(running(4, array_job_id=4, array_task_id=9), slurm_job(4, array_job_id=4, array_task_string="10-12%2"))
    guarded(walltime, site)
    assert [update[:2] for update in site.scontrol.updates] == [
        ["JobId=4_9", "TimeLimit=75"], ["JobId=4_[10-12]", "TimeLimit=60"],
    ]  # fmt: skip


def test_a_signal_in_the_submit_line_gives_the_request_back(walltime: Walltime, site: Site) -> None:
    site.queue(running(7, left_s=3000.0), slurm_job(8), slurm_job(9), slurm_job(11, submit_line="sbatch --sig=USR1 x"))
    site.lines.write_text("7|sbatch --signal=B:USR1@30 x\n8|sbatch\tx\nrm|9|--signal\n9|sbatch x\n10|--signal\n11|x\n")
    guarded(walltime, site)
    assert site.limits() == {7: 600, 8: 60, 9: 60, 11: 600}


@pytest.mark.parametrize("program", ["sacct", "lookup", "reservation"])
def test_what_is_not_known_sets_no_limit_and_raises_running_jobs(walltime: Walltime, site: Site, program: str) -> None:
    site.queue(running(7), slurm_job(8))
    if program == "sacct":
        Program(site.folder, "sacct", "sys.exit('slurmdbd is not there')")
    elif program == "lookup":
        whole = (site.folder / LOOKUP_FILE).read_bytes()
        (site.folder / LOOKUP_FILE).write_bytes(whole.replace(b"\t3600\t", b"\t3000\t"))
    else:
        (site.folder / "reservation.shown").unlink()
    found = guarded(walltime, site)
    assert site.limits() == {7: 75, 8: 600} and len(found["complaints"]) == 1


def test_a_reservation_to_come_gives_waiting_jobs_their_requests(walltime: Walltime, site: Site) -> None:
    site.queue(slurm_job(7), slurm_job(8, time_limit=60, admin_comment=SET))
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 8 * 3600))
    (site.folder / "reservation.shown").write_text(
        f"ReservationName=x StartTime={start} EndTime=2099-01-01T00:00:00 Duration=9 Nodes=n[1-3] NodeCnt=3\n\n"
    )
    guarded(walltime, site)
    assert site.limits() == {7: 600, 8: 600} and set_s_of(site.jobs()[8]["admin_comment"]) is None
    (site.folder / "reservation.shown").write_text("")
    guarded(walltime, site)
    assert site.limits() == {7: 60, 8: 60}, "set again when it is gone"


@pytest.mark.parametrize(("late_s", "limits"), [(7300, {7: 600, 8: 600, 9: 60}), (7100, {7: 60, 8: 60, 9: 60})])
def test_while_a_job_waits_too_long_those_of_its_partition_have_their_requests(
    walltime: Walltime, site: Site, late_s: int, limits: dict[int, int]
) -> None:
    """The start that was expected first counts: two hours later a job of ten hours has waited too long."""
    now_s = int(time.time())
    made, expected = [now_s - 20_000, now_s - 60], [float(now_s - late_s), now_s + 9000.0]
    rows = STARTS.build(
        site=["x"] * 2,
        job_id=["7"] * 2,
        made_s=made,
        start_s_q50=expected,
        answered_by=["draws"] * 2,
        is_newest=[False, True],
    )
    with new_table(live_pointer(site.out, "starts")) as draft:
        write_table(draft, rows, STARTS)
    site.queue(slurm_job(7), running(8, 3000.0), running(9, 3000.0, partition="short"))
    guarded(walltime, site)
    assert site.limits() == limits


@pytest.mark.parametrize(
    "changes",
    [
        {"comment": "x Walltime = OFF"}, {"time_minimum": {"set": True, "number": 20}}, {"deadline": 2_000_000_000},
        {"resv_name": "course"}, {"restart_cnt": 1}, {"preempt_time": 9}, {"batch_flag": False},
    ],
)  # fmt: skip
def test_a_job_that_is_to_have_its_request_gets_it_back(
    walltime: Walltime, site: Site, changes: dict[str, Any]
) -> None:
    site.queue(running(7, left_s=3000.0, **changes), slurm_job(8, time_limit=60, admin_comment=SET, **changes))
    found = guarded(walltime, site)
    assert {one["to_s"] for one in found["changes"]} == {36_000.0} and len(found["changes"]) == 2


def test_a_dry_run_says_the_same_and_changes_nothing(walltime: Walltime, site: Site) -> None:
    site.queue(slurm_job(7), running(8))
    found = guarded(walltime, site, "--dry-run")
    assert [(one["job_id"], one["to_s"]) for one in found["changes"]] == [("8", 4500.0), ("7", 3600.0)]
    assert found["dry_run"] and site.scontrol.updates == [] and not site.heartbeat.exists()
    shown = walltime("guard", site.config(), "--dry-run")
    assert "2 would be changed" in shown.out and "8 (ada, runs)" in shown.out


def test_the_mode_dry_run_gives_back_what_an_earlier_mode_set(walltime: Walltime, site: Site) -> None:
    site.queue(running(7, left_s=3000.0), slurm_job(8))
    site.heartbeat.write_text("1")
    found = guarded(walltime, site, mode="dry_run")
    assert site.limits() == {7: 600, 8: 600} and not site.heartbeat.exists()
    assert [one["to_s"] for one in found["changes"]] == [36_000.0, 3600.0], "and says what it would set"


@pytest.mark.parametrize(("how", "mode"), [(("--withdraw",), "limit"), (("--once",), "off")])
def test_withdrawal_leaves_no_trace(walltime: Walltime, site: Site, how: tuple[str, ...], mode: str) -> None:
    comment = f"ticket 12; {SET}"
    site.queue(running(7, admin_comment=comment), slurm_job(8, time_limit=60, admin_comment=comment), slurm_job(9))
    site.heartbeat.write_text("1")
    guarded(walltime, site, *how, mode=mode)
    assert site.limits() == {7: 600, 8: 600, 9: 600} and not site.heartbeat.exists()
    assert [job["admin_comment"] for job in site.jobs().values()] == ["ticket 12", "ticket 12", SEEN]


def test_a_refused_change_is_named_and_does_not_stop_the_others(walltime: Walltime, site: Site) -> None:
    site.scontrol = Scontrol(site.folder, refuses=("7",))
    site.queue(running(7), running(8))
    found = guarded(walltime, site, code=1)
    assert site.limits() == {7: 60, 8: 75}
    assert [bool(one["refused"]) for one in found["changes"]] == [True, False]
    assert "Access denied" in found["changes"][0]["refused"] and "\x1b" not in found["changes"][0]["refused"]
    assert "NOT CHANGED" in walltime("guard", site.config(), "--once").out


def test_a_full_disk_does_not_stop_the_raising(walltime: Walltime, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipeline.storage.os.fsync", full)
    site.queue(running(7))
    found = guarded(walltime, site)
    assert site.limits() == {7: 75} and found["complaints"][0].startswith(str(site.heartbeat))


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_the_clock_of_slurmctld_counts(walltime: Walltime, site: Site, off_s: int) -> None:
    """By ours, an hour behind, the job would have more than an hour left, and would not be raised."""
    its_s = int(time.time()) + off_s
    site.scontrol.shows(f"Configuration data as of {time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(its_s))}")
    site.queue(running(7, start_time=its_s - 60, end_time=its_s + 600), running(8, end_time=its_s + 1000))
    found = guarded(walltime, site)
    assert site.limits() == {7: 75, 8: 60} and abs(int(site.heartbeat.read_text()) - its_s) < 60
    assert "clock" in found["complaints"][0]


def test_the_margin_follows_slurm_conf_from_round_to_round(site: Site) -> None:
    site.queue(running(7))
    site.scontrol.shows("OverTimeLimit           = 20 min")
    guard = Guard(lambda: run_settings(site.config()), os.environ, is_dry_run=False)
    assert guard.run_round(time.time())["changes"] == [], "ten minutes are left, and Slurm lets it run on for twenty"
    site.scontrol.shows("OverTimeLimit           = 0 min")
    assert [one["to_s"] for one in guard.run_round(time.time())["changes"]] == [4500.0]


@pytest.mark.parametrize(
    ("said", "given", "shown"), [("20 min", "20", ""), ("20 min", "0", "20"), ("UNLIMITED", "15", "inf")]
)
def test_a_setting_that_differs_from_slurm_conf_is_named_when_the_guard_starts(
    walltime: Walltime, site: Site, said: str, given: str, shown: str
) -> None:
    """Else queries, replays and an export without Slurm plan with another margin than the guard has."""
    site.scontrol.shows(f"OverTimeLimit           = {said}")
    export = f"over_time_limit_min = {given}\n"
    for how in ("--once", "--dry-run"):
        found = guarded(walltime, site, how, export=export)["complaints"]
        assert len(found) == bool(shown)
        if shown:
            assert f"export.over_time_limit_min is {given}, " in found[0] and f"set it to {shown}" in found[0]
    site.config(export=f"over_time_limit_min = {shown or given}\n")
    assert "OverTimeLimit" not in walltime("guard", site.folder / "site.toml", "--once").out
    guard = Guard(lambda: run_settings(site.config(export=export)), os.environ, is_dry_run=False)
    n_said = [len(guard.run_round(time.time())["complaints"]) for _ in range(3)]
    assert n_said == [bool(shown), 0, 0], "not each round"


def test_the_guard_begins_while_slurmctld_is_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    Program(site.folder, "scontrol", "sys.exit('Unable to contact slurm controller')")
    monkeypatch.setenv("SLURM_CONF", str(site.folder / "slurm.conf"))
    assert Guard(lambda: run_settings(site.config()), os.environ, is_dry_run=False).folder == site.folder


def test_jobs_that_sacct_does_not_know_after_a_minute_get_their_requests(site: Site, walltime: Walltime) -> None:
    now_s = time.time()
    ours = {"admin_comment": SET, "time_limit": 60}
    site.queue(running(7, 3000.0), running(8, 3000.0, submit_time=now_s), slurm_job(9, **ours),
               slurm_job(10, **ours, submit_time=now_s))  # fmt: skip
    Program(site.folder, "sacct", "sys.exit('slurmdbd is not there')")
    guarded(walltime, site)
    assert site.limits() == {7: 600, 8: 60, 9: 600, 10: 60}


def test_neither_a_missing_version_nor_a_folder_without_a_lock_keeps_the_guard_from_raising(
    walltime: Walltime, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("flows.services.guard.take_run_lock", read_only)
    site.queue(running(7))
    config = site.config(export="[source]\nkind = 'sacct'\nsince = '2020-01-01'\n")
    shown = walltime("guard", config, "--once")
    assert "Trying again" not in shown.err
    assert site.limits() == {7: 75} and "read-only disk" in shown.err and "manifest" in shown.err


def test_requests_are_given_back_once_slurmctld_is_there_again(site: Site) -> None:
    """A guard that is told to end while the controller is away leaves no job behind with a limit that nobody raises."""
    site.queue(running(7, left_s=3000.0))
    command = [sys.executable, "-m", "flows.cli", "guard", str(site.config())]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": "."}, stdout=subprocess.PIPE, text=True) as guard:
        end = time.monotonic() + 60
        while not site.heartbeat.exists() and time.monotonic() < end:
            time.sleep(0.1)
        Program(site.folder, "squeue", "sys.exit('Unable to contact slurm controller')")
        guard.send_signal(signal.SIGTERM)
        time.sleep(2)
        assert guard.poll() is None
        Program(site.folder, "squeue", SQUEUE.format(str(site.said)))
        assert guard.wait(60) == 0
    assert site.limits() == {7: 600}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("sys.exit('slurm_load_jobs error: Unable to contact slurm controller')", "Unable to contact"),
        ("print('no JSON')", "no list of jobs"), ("print('{\"jobs\": 3}')", "no list of jobs"),
    ],
)  # fmt: skip
def test_a_failing_squeue_is_one_sentence(walltime: Walltime, site: Site, body: str, sentence: str) -> None:
    Program(site.folder, "squeue", body)
    shown = walltime("guard", site.config(), "--once")
    assert shown.code == 1 and sentence in shown.err and shown.err.count("\n") == 1
    assert site.scontrol.updates == [] and not site.heartbeat.exists()


def test_a_signal_ends_the_loop_and_gives_requests_back(site: Site) -> None:
    site.queue(running(7), slurm_job(8))
    command = [sys.executable, "-m", "flows.cli", "guard", str(site.config())]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": "."}, stdout=subprocess.PIPE, text=True) as guard:
        end = time.monotonic() + 60
        while not site.heartbeat.exists() and time.monotonic() < end:
            time.sleep(0.1)
        assert site.limits() == {7: 75, 8: 60}
        second = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": "."}, capture_output=True, text=True, check=False
        )
        assert second.returncode == 75 and "stop the other one first" in second.stderr
        guard.send_signal(signal.SIGTERM)
        assert guard.wait(60) == 0
    assert site.limits() == {7: 600, 8: 600} and not site.heartbeat.exists()


def test_one_thing_at_a_time_and_only_for_slurm(walltime: Walltime, site: Site) -> None:
    for words in (("--once", "--dry-run"), ("--withdraw", "--dry-run")):
        assert walltime("guard", site.config(), *words).code == 2
    config = site.config(export="[guard]\nscheduler = 'pbs'\n")
    shown = walltime("guard", config, "--dry-run")
    assert shown.code == 2 and "OpenPBS extends soft_walltime by itself" in shown.err


@pytest.mark.parametrize(
    ("changes", "job_id", "fault"),
    [
        ({"array_job_id": 4, "array_task_string": "1-9%2"}, "4_[1-9]", ""),
        ({"array_job_id": {"set": True, "number": 4}, "array_task_string": "1,3-9:2"}, "4_[1,3-9:2]", ""),
        ({"array_job_id": 4, "array_task_string": "1,3,5,..."}, "4_[1,3,5,...]", "its list of tasks is cut"),
        ({"array_job_id": 4, "array_task_id": {"set": True, "number": 0}}, "4_0", ""),
        ({"array_job_id": 0, "array_task_id": {"set": False, "number": 0}}, "7", ""),
        ({"het_job_id": 5, "het_job_offset": 1, "job_id": 6}, "6", "it is a part of a heterogeneous job"),
        ({"job_id": "1 2"}, "0", "it has no number"),
    ],
)
def test_an_id_names_the_tasks_meant(site: Site, changes: dict[str, Any], job_id: str, fault: str) -> None:
    site.queue(slurm_job(7, **changes))
    (job,) = SLURM.queued({**os.environ, "SQUEUE_STATES": "RUNNING"})
    assert (job.job_id, job.fault) == (job_id, fault)


def test_a_limit_is_found_by_the_name_that_changes_a_job(site: Site) -> None:
    said = site.folder / "limits.said"
    said.write_text("7 7 10:00\n6 5+1 1-00:30:00\n4 4_[1,3-9:2%2] 1:00:00\n12 4_0 UNLIMITED\n")
    Program(site.folder, "squeue", SAY.format(str(said)))
    found = limits_s(os.environ)
    assert [found[one] for one in ("7", "6", "4_[1,3-9:2]", "4_0")] == [600.0, 88_200.0, 3600.0, math.inf]
