"""The trial of soft limits: 300 jobs of 20 kinds on a real Slurm, with everything failing in turn.

The kinds are those of the KTH SP2's log with most jobs that ask for 3 to 10 hours. Of each the earlier half gives the
look-up, and 15 jobs are drawn from the later half. Runtimes and requests are compressed 60 times, so that an hour is a
minute. Slurm's limits are whole minutes: margin and increments (tests/slurm/short_guard.py) are compressed less, 15
times. Each job is submitted twice, to two partitions of equal nodes, of which one has opted out: it shows what would
have been. The guard is `walltime guard` in a process of its own.

While they run, the guard is killed with -9, slurmctld and slurmdbd are stopped, the guard's disk is full, the look-up
is stale, broken and missing, the guard's clock is wrong by an hour, and a maintenance reservation is made.
WALLTIME_TRIAL_TRUE=1 does it with OverTimeLimit=15, as the how-to recommends, and has only the guard away for ten
minutes, slurmctld for five, and the reservation.
"""

import gzip
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.services.schedulers import controller
from pipeline.export.lookup_file import lookup_file
from pipeline.export.scheduler_files import HEARTBEAT_FILE, LOOKUP_FILE, PLUGIN_FILE, plugin
from pipeline.ingest.limit_comment import asked_s_of, set_s_of
from pipeline.limits.soft import planned_limits
from pipeline.settings import QUANTILES, ExportSettings, Whose
from tests.slurm.commands import ENDED, call, queue_and_log, states, submit, wait_for
from tests.slurm.conftest import first_port, running, started
from tests.slurm.short_guard import RULES
from tests.unit.export.slurm_plugin import table_of

IS_TRUE = bool(os.environ.get("WALLTIME_TRIAL_TRUE"))
AWAY_S, CONTROLLER_S = (600.0, 300.0) if IS_TRUE else (40.0, 40.0)
# Until the guard's first round after a true absence the heartbeat is old, and jobs keep their requests.
CALM_AFTER_S = 120.0 if IS_TRUE else 10.0
LOG = Path(__file__).resolve().parents[3] / "shared" / "data" / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"
FASTER, N_KINDS, N_EACH, EVERY_S = 60.0, 20, 15, 3.0 if IS_TRUE else 1.9
SHAPE = {
    "SLURM_NODES": "20", "SLURM_CPUS": "64", "SLURM_MEM": "70000", "SLURM_GPUS": "0",
    "SLURM_USERS": "alice bob carol dave", "SLURM_CLUSTER": "trial",
    "SLURM_EXTRA": r"PartitionName=soft Nodes=n[01-10] State=UP\nPartitionName=plain Nodes=n[11-20] State=UP"
    + (r"\nOverTimeLimit=15" if IS_TRUE else ""),
}  # fmt: skip
USERS = SHAPE["SLURM_USERS"].split()
APPLICATIONS = ("relax", "sweep", "fields", "mesh", "render")
EXPORT = ExportSettings(mode="limit", opt_out=Whose(partitions=("plain",)))
CONFIG = """output_dir = '{disk}/out'
[export]
mode = 'limit'
opt_out = {{ partitions = ['plain'] }}
"""
LATE_S = 35.0
"""Slurm ends a job up to so long after its limit."""


@dataclass(frozen=True)
class Kind:
    """A user's application, with what it asks for and how long its jobs run (s, compressed)."""

    user: str
    application: str
    procs: int
    request_s: float
    earlier_s: np.ndarray
    later_s: np.ndarray

    @property
    def minutes(self) -> int:
        return round(self.request_s / 60)

    @property
    def quantiles_s(self) -> list[float]:
        return [float(one) for one in np.quantile(self.earlier_s, QUANTILES)]

    @property
    def planned_s(self) -> float:
        """The first limit; NaN where the request stands."""
        quantile_s = self.quantiles_s[QUANTILES.index(EXPORT.quantile)]
        return float(planned_limits(np.array([quantile_s]), np.array([60.0 * self.minutes]), RULES)[0])


@cache
def kinds() -> list[Kind]:
    found = defaultdict[tuple[str, float, int], list[float]](list)
    with gzip.open(LOG, "rt", encoding="ascii") as lines:
        for row in (line.split() for line in lines if not line.startswith(";")):
            run_s, procs, request_s, user = float(row[3]), int(row[7]), float(row[8]), row[11]
            if run_s >= 0 and 10_800 <= request_s <= 36_000:
                found[user, request_s, procs].append(run_s / FASTER)
    most = sorted(found, key=lambda key: -len(found[key]))[:N_KINDS]
    made = []
    for n, (key, (_, request_s, procs)) in enumerate(zip(most, most, strict=True)):
        half = len(found[key]) // 2
        # Requests are whole minutes in Slurm, and a job that ran longer had ended by its request.
        minutes = np.ceil(request_s / FASTER / 60)
        early, late = (np.minimum(part, 60.0 * minutes) for part in (found[key][:half], found[key][half:]))
        made.append(Kind(USERS[n % 4], APPLICATIONS[n // 4], procs, 60.0 * minutes, early, late))
    return made


def most_shortened() -> Kind:
    """The kind whose first limit is the smallest share of its request."""
    return min((one for one in kinds() if one.planned_s > 0), key=lambda one: one.planned_s / one.request_s)


@dataclass(frozen=True)
class Submitted:
    """A job in both partitions, and what Slurm had of it right after its submit."""

    kind: Kind
    runs_s: float
    soft: str
    plain: str
    at_s: float
    limit_min: int
    comment: str


@dataclass
class Trial:
    """A Slurm with both partitions, the guard's process, and what happened."""

    environment: Mapping[str, str]
    port: int
    folder: Path
    disk: Path
    jobs: list[Submitted] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    """Jobs with something of their own, by what it is."""
    phases: list[tuple[str, float, float]] = field(default_factory=list)
    """Names of what failed, from when and until when, s since 1970."""
    guard: "subprocess.Popen[bytes] | None" = None
    notes: dict[str, Any] = field(default_factory=dict)
    """What was seen on the way."""

    @property
    def etc(self) -> Path:
        return Path(self.environment["SLURM_CONF"]).parent

    @property
    def work(self) -> Path:
        return Path(self.environment["SLURM_WORK"])

    def start_guard(self) -> None:
        command = [sys.executable, "-m", "tests.slurm.short_guard", str(self.folder / "site.toml"), str(self.clock)]
        with (self.folder / "guard.out").open("ab") as out:
            self.guard = subprocess.Popen(command, env=self.environment, stdout=out, stderr=out)

    def end_guard(self, how: int) -> int:
        assert self.guard is not None and self.guard.poll() is None, (self.folder / "guard.out").read_text()[-3000:]
        self.guard.send_signal(how)
        return self.guard.wait(60)

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    def rounds(self) -> list[dict[str, Any]]:
        """The rounds that the guard has printed."""
        lines = (self.folder / "guard.out").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def fails(self, name: str, begin: Callable[[], object], seconds: float, end: Callable[[], object]) -> None:
        """Let something fail for so long."""
        from_s = time.time()
        begin()
        time.sleep(seconds)
        end()
        self.phases.append((name, from_s, time.time()))
        time.sleep(20.0)

    def write_lookup(self, age_days: float = 0.0, is_cut: bool = False) -> None:
        newest_end_s = int(time.time() - 86_400 * age_days)
        rows = []
        for kind in kinds():
            quantiles = {f"runtime_s_q{round(100 * q)}": s for q, s in zip(QUANTILES, kind.quantiles_s, strict=True)}
            key = {"template": "who+what", "chain_rank": 3, "who": kind.user, "what": kind.application}
            rows.append(key | quantiles | {"newest_end_s": newest_end_s, "n_jobs": len(kind.earlier_s)})
        draft = self.etc / ".walltime.lookup.new"
        draft.write_bytes(lookup_file(table_of(*rows), {})[: -100 if is_cut else None])
        draft.rename(self.etc / LOOKUP_FILE)

    def shown(self, job_id: str) -> str:
        return call(self.environment, "scontrol", "show", "job", "-o", job_id)

    def is_calm(self, at_s: float) -> bool:
        """Whether nothing was failing or had just failed on which a first limit depends."""
        names = ["guard away", "stale look-up", "broken look-up", "no look-up", "reservation"]
        names += ["slurmctld"] if IS_TRUE else []
        failing = [(from_s - 10, until_s + CALM_AFTER_S) for name, from_s, until_s in self.phases if name in names]
        return not any(from_s < at_s < until_s for from_s, until_s in failing)


pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    if not LOG.exists():
        pytest.skip("no shared/data/swf beside this checkout: the trial has no runtimes")
    folder, port = tmp_path_factory.mktemp("trial"), first_port()
    disk = folder / "disk"
    disk.mkdir()
    with running(SHAPE, port) as slurm:
        environment = {**slurm, "PYTHONPATH": str(Path.cwd()), "TZ": "UTC"}
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
        found = Trial(environment, port, folder, disk)
        try:
            (folder / "site.toml").write_text(CONFIG.format(disk=disk))
            found.write_lookup()
            file = folder / PLUGIN_FILE
            file.write_text(plugin(EXPORT, has_own_name_rules=False, rules=RULES))
            assert not started(found.work, {"SLURM_LUA": str(file)}, port)
            lived(found)
            yield found
        finally:
            if found.guard and found.guard.poll() is None:
                found.guard.kill()
                found.guard.wait()
            subprocess.run(["umount", str(disk)], check=False)


def lived(trial: Trial) -> None:
    """All of it, in a quarter of an hour; with the true times in half an hour."""
    trial.start_guard()
    wait_for("the guard", 60, (trial.etc / HEARTBEAT_FILE).exists)
    preempt(trial)
    submitter = threading.Thread(target=submit_all, args=(trial,))
    submitter.start()
    submit_others(trial)
    time.sleep(30.0)
    trial.fails("guard away", lambda: trial.end_guard(signal.SIGKILL), AWAY_S, trial.start_guard)
    stop, start = ("scontrol", "shutdown", "slurmctld"), lambda: up(trial)
    trial.fails("slurmctld", lambda: call(trial.environment, *stop), CONTROLLER_S, start)
    if not IS_TRUE:
        fail_more(trial)
    reserve(trial)
    submitter.join()
    seen = lambda: queue_and_log(trial.environment)  # noqa: E731
    wait_for("the jobs", 1500, lambda: not call(trial.environment, "squeue", "-h"), seen)
    wait_for("the accounting", 120, lambda: set(states(trial.environment)) <= ENDED)
    withdraw(trial)


def fail_more(trial: Trial) -> None:
    """What takes as long with the true times."""
    trial.fails("slurmdbd", lambda: kill_daemon(trial, "slurmdbd"), 75.0, lambda: up(trial))
    trial.fails("full disk", lambda: fill(trial), 30.0, (trial.disk / "filler").unlink)
    trial.fails("stale look-up", lambda: trial.write_lookup(age_days=30.0), 20.0, trial.write_lookup)
    trial.fails("broken look-up", lambda: trial.write_lookup(is_cut=True), 20.0, trial.write_lookup)
    trial.fails("no look-up", (trial.etc / LOOKUP_FILE).unlink, 10.0, trial.write_lookup)
    trial.fails("clock ahead", lambda: trial.clock.write_text("3600"), 20.0, trial.clock.unlink)
    trial.fails("clock behind", lambda: trial.clock.write_text("-3600"), 90.0, trial.clock.unlink)


def submit_all(trial: Trial) -> None:
    """Submit each job to both partitions, in an order that no kind has a part of its own in."""
    rng = np.random.default_rng(43)
    drawn = [(kind, float(s)) for kind in kinds() for s in rng.choice(kind.later_s, N_EACH, replace=False)]
    # Long jobs in the first half, so that the trial does not wait for them alone.
    order = rng.permutation(len(drawn)) * [0.5 if runs_s > 300 else 1.0 for _, runs_s in drawn]
    for n in np.argsort(order, kind="stable"):
        kind, runs_s = drawn[n]
        ids = []
        for partition in ("soft", "plain"):
            while True:
                # While slurmctld is away a user would try again, too.
                with suppress(AssertionError, subprocess.TimeoutExpired):
                    ids.append(submit_job(trial, kind, runs_s, f"-p{partition}"))
                    break
                time.sleep(2.0)
        shown = ""
        while "TimeLimit=" not in shown:
            with suppress(AssertionError, subprocess.TimeoutExpired):
                shown = trial.shown(ids[0])
        trial.jobs.append(Submitted(kind, runs_s, *ids, time.time(), limit_min_of(shown), comment_of(shown)))
        time.sleep(EVERY_S)


def submit_job(trial: Trial, kind: Kind, runs_s: float, *options: str) -> str:
    name = f"--job-name={kind.application}_{round(runs_s)}.sh"
    asks = (name, f"-n{kind.procs}", f"-t{kind.minutes}", *options)
    return submit(trial.environment, *asks, script=f"sleep {runs_s:.1f}", user=kind.user)


def limit_min_of(shown: str) -> int:
    """The limit in a line of `scontrol show job -o`, min."""
    days, _, clock = shown.partition("TimeLimit=")[2].split()[0].rpartition("-")
    hours, minutes, _ = map(int, clock.split(":"))
    return 1440 * int(days or 0) + 60 * hours + minutes


def comment_of(shown: str) -> str:
    return shown.partition("AdminComment=")[2].partition(" Mem")[0] if "AdminComment=" in shown else ""


def up(trial: Trial) -> None:
    """Start what has ended of the Slurm."""
    for _ in range(3):
        if not (complaint := started(trial.work, {}, trial.port)):
            return
    raise AssertionError(complaint)


def kill_daemon(trial: Trial, name: str) -> None:
    os.kill(int((trial.work / "run" / f"{name}.up").read_text().split()[0]), signal.SIGTERM)


def fill(trial: Trial) -> None:
    """Fill the guard's disk, and start the guard on it."""
    with suppress(OSError), (trial.disk / "filler").open("wb") as file:
        while True:
            file.write(b"x" * 65_536)
            file.flush()
    trial.end_guard(signal.SIGKILL)
    trial.start_guard()


def preempt(trial: Trial) -> None:
    """A job of low quality of service is preempted by one of high: it is requeued, and gets its request back."""
    kind = most_shortened()
    low = submit_job(trial, kind, 20.0, "-psoft", "-N10", "-n10", "--exclusive", "--qos=low", "-t30")
    trial.notes["preempted limit"] = limit_min_of(trial.shown(low))
    wait_for("a start", 60, lambda: "JobState=RUNNING" in trial.shown(low))
    high = submit(trial.environment, "-psoft", "-N10", "--exclusive", "--qos=high", "-t2", script="sleep 15")
    wait_for("the preemption", 60, lambda: "Restarts=1" in trial.shown(low))
    wait_for("the request", 60, lambda: limit_min_of(trial.shown(low)) == 30)
    call(trial.environment, "scancel", low, high)


def submit_others(trial: Trial) -> None:
    """Jobs to which a shorter limit would do harm, and an array and a job that is requeued."""
    kind = most_shortened()
    work = trial.work / "jobs"
    for name, how in (("signal option", ("--signal=B:USR1@60",)), ("signal in script", ())):
        script = work / f"{name.replace(' ', '-')}.sh"
        line = "" if how else "#SBATCH --signal=B:USR1@60\n"
        script.write_text(
            f"#!/bin/bash\n{line}trap 'date +%s > {script}.got; exit 0' USR1\ndate +%s > {script}.began\n"
            "for n in $(seq 400); do sleep 1; done\n"
        )
        script.chmod(0o755)
        command = ("sbatch", "--parsable", "-o", "/dev/null", "-psoft", "-t5", f"--job-name={kind.application}_1.sh")
        trial.others[name] = call(trial.environment, *command, *how, str(script), user=kind.user)
    for name, how in {
        "comment": ("--comment=please WALLTIME: off now",), "time-min": (f"--time-min={kind.minutes - 1}",),
        "deadline": ("--deadline=now+3hours",), "array": ("--array=0-3",), "requeued": ("--requeue",),
    }.items():  # fmt: skip
        trial.others[name] = submit_job(trial, kind, 150.0, "-psoft", "-n1", *how)
    trial.others["het"] = submit_job(trial, kind, 150.0, "-psoft", "-n1", ":", "-psoft", "-n1", f"-t{kind.minutes}")
    again = trial.others["requeued"]
    trial.notes["others planned"] = kind.planned_s / 60
    trial.notes["others request"] = kind.minutes
    wait_for("a start", 120, lambda: "JobState=RUNNING" in trial.shown(again))
    trial.notes["requeued limit"] = limit_min_of(trial.shown(again))
    call(trial.environment, "scontrol", "requeue", again)
    call(trial.environment, "scontrol", "update", f"JobId={again}", "StartTime=now")


def reserve(trial: Trial) -> None:
    """A maintenance reservation in four minutes, taken back: jobs that would run into it have their requests."""

    def make() -> None:
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 240))
        call(trial.environment, "scontrol", "create", "reservation", "ReservationName=service", f"StartTime={start}",
             "Duration=60", "Users=root", "Nodes=ALL", "Flags=MAINT,IGNORE_JOBS")  # fmt: skip
        trial.notes["reservation start"] = time.time() + 240

    def look_and_end() -> None:
        jobs = json.loads(call(trial.environment, "squeue", "--json"))["jobs"]
        trial.notes["waiting before it"] = [
            (job["job_id"], job["time_limit"], asked_s_of(job["admin_comment"]), set_s_of(job["admin_comment"]))
            for job in jobs if "PENDING" in job["job_state"] and job["partition"] == "soft"
        ]  # fmt: skip
        call(trial.environment, "scontrol", "delete", "ReservationName=service")

    trial.fails("reservation", make, 45.0, look_and_end)


def withdraw(trial: Trial) -> None:
    """SIGTERM gives jobs that wait and run their requests, and leaves no comment."""
    kind = most_shortened()
    trial.write_lookup()
    ids = [submit_job(trial, kind, 100.0, "-psoft", "-n1", *how) for how in ((), (), ("-H",), ("-H",))]
    wait_for("starts", 60, lambda: call(trial.environment, "squeue", "-h", "-tR", "-o%i").count("\n") == 1)
    before = [limit_min_of(trial.shown(one)) for one in ids]
    code = trial.end_guard(signal.SIGTERM)
    after = [(limit_min_of(trial.shown(one)), comment_of(trial.shown(one))) for one in ids]
    trial.notes["withdrawal"] = before, code, after, (trial.etc / HEARTBEAT_FILE).exists(), kind
    call(trial.environment, "scancel", *ids)


Row = dict[str, str]


@pytest.fixture(scope="module")
def rows(trial: Trial) -> dict[str, Row]:
    """The accounting by job; of requeued jobs the last record."""
    names = ("JobID", "State", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw")
    said = call(trial.environment, "sacct", "-a", "-X", "-n", "-P", "-S2020-01-01", f"--format={','.join(names)}")
    found = {line.split("|")[0]: dict(zip(names, line.split("|"), strict=True)) for line in said.splitlines()}
    told(trial, found)
    return found


def instant_s(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def wait_s(row: Row) -> float:
    return instant_s(row["Start"]) - instant_s(row["Submit"])


def extensions(trial: Trial) -> Counter[str]:
    """By job how often the guard raised it below or to its request."""
    made = [one for found in trial.rounds() for one in found["changes"] if one["is_running"] and not one["refused"]]
    return Counter(one["job_id"] for one in made if one["to_s"] > one["from_s"])


def told(trial: Trial, rows: Mapping[str, Row]) -> None:
    """The figures of the trial."""
    n_raised, waits = extensions(trial), [(wait_s(rows[one.soft]), wait_s(rows[one.plain])) for one in trial.jobs]
    planned = [one for one in trial.jobs if set_s_of(one.comment)]
    took = sorted(found["took_s"] for found in trial.rounds())
    soft, plain = (statistics.mean(part) for part in zip(*waits, strict=True))
    lines = [
        f"{len(trial.jobs)} jobs of {N_KINDS} kinds, {len(planned)} planned shorter; "
        f"states {dict(Counter(rows[one.soft]['State'] for one in trial.jobs))}, "
        f"without limits {dict(Counter(rows[one.plain]['State'] for one in trial.jobs))}",
        f"{sum(n_raised[one.soft] for one in planned)} extensions, "
        f"{sum(n_raised[one.soft] for one in planned) / len(planned):.2f} a planned job, "
        f"most {max(n_raised.values(), default=0)}; {sum(n_raised[one.soft] == 0 for one in planned)} needed none",
        f"mean wait {soft:.1f} s against {plain:.1f} s without; earlier {sum(a < b - 2 for a, b in waits)}, "
        f"later {sum(a > b + 2 for a, b in waits)}; longest {max(a for a, _ in waits):.0f} against "
        f"{max(b for _, b in waits):.0f} s",
        f"{len(took)} rounds, median {took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s",
        f"phases {[(name, round(until_s - from_s)) for name, from_s, until_s in trial.phases]}",
    ]
    sys.stderr.write("\n" + "\n".join(lines) + "\n")


def test_no_job_ends_before_its_request_by_us(trial: Trial, rows: dict[str, Row]) -> None:
    assert len(trial.jobs) == N_KINDS * N_EACH
    wrong = []
    for one in trial.jobs:
        row, request_s = rows[one.soft], 60.0 * one.kind.minutes
        is_by_request = one.runs_s > request_s - LATE_S and float(row["ElapsedRaw"]) >= request_s - 1
        if not (row["State"] == "COMPLETED" or (row["State"] == "TIMEOUT" and is_by_request)):
            wrong.append((one.soft, one.runs_s, request_s, row))
    assert not wrong, queue_and_log(trial.environment)


def test_what_the_plug_in_plans_is_what_the_replay_plans(trial: Trial) -> None:
    """Job by job: the limit and the comment right after the submit equal `planned_limits` of the look-up's estimate."""
    wrong, n_calm = [], 0
    for one in trial.jobs:
        planned_s, request_s = one.kind.planned_s, 60.0 * one.kind.minutes
        wanted_s = planned_s if planned_s > 0 else request_s
        is_so = (60.0 * one.limit_min, set_s_of(one.comment)) == (wanted_s, planned_s if planned_s > 0 else None)
        is_so &= asked_s_of(one.comment) == request_s
        n_calm += trial.is_calm(one.at_s)
        is_left = 60.0 * one.limit_min == request_s
        if not is_so and (trial.is_calm(one.at_s) or not is_left):
            wrong.append((one.soft, one.kind.user, one.kind.application, one.limit_min, wanted_s / 60, one.comment))
    assert not wrong
    assert n_calm > (30 if IS_TRUE else 150)


@pytest.mark.skipif(IS_TRUE, reason="with true absences jobs come too slowly to queue: nothing to start earlier")
def test_jobs_start_earlier_than_without(trial: Trial, rows: dict[str, Row]) -> None:
    soft = statistics.mean(wait_s(rows[one.soft]) for one in trial.jobs)
    assert soft < statistics.mean(wait_s(rows[one.plain]) for one in trial.jobs)


@pytest.mark.skipif(IS_TRUE, reason="OverTimeLimit=15 lets every job of this trial run on while the guard is away")
def test_every_limit_was_raised_by_the_guard_in_time(trial: Trial, rows: dict[str, Row]) -> None:
    n_raised, n_long = extensions(trial), 0
    for one in trial.jobs:
        row, first_s = rows[one.soft], set_s_of(one.comment)
        if first_s and float(row["ElapsedRaw"]) > first_s:
            n_long += 1
            assert n_raised[one.soft] or row["TimelimitRaw"] == str(one.kind.minutes), row
    assert n_long > 30


def test_slurm_refused_no_change(trial: Trial) -> None:
    changes = [one for found in trial.rounds() for one in found["changes"]]
    assert len(changes) > 30 and all(one["refused"] is None for one in changes)


def test_jobs_that_need_their_limit_have_it(trial: Trial, rows: dict[str, Row]) -> None:
    request = str(trial.notes["others request"])
    for name in ("comment", "deadline"):
        row = rows[trial.others[name]]
        assert (row["State"], row["TimelimitRaw"]) == ("COMPLETED", request), name
    assert int(rows[trial.others["time-min"]]["TimelimitRaw"]) >= int(request) - 1, "Slurm itself may shorten it"
    for part in ("+0", "+1"):
        assert rows[trial.others["het"] + part]["TimelimitRaw"] == request
    assert {rows[f"{trial.others['array']}_{n}"]["State"] for n in range(4)} == {"COMPLETED"}
    for name in ("signal-option", "signal-in-script"):
        script = trial.work / "jobs" / f"{name}.sh"
        began_s, got_s = (int(Path(f"{script}.{what}").read_text()) for what in ("began", "got"))
        assert 240 - LATE_S <= got_s - began_s <= 240 + LATE_S, (name, got_s - began_s)


def test_requeued_and_preempted_jobs_get_their_requests(trial: Trial, rows: dict[str, Row]) -> None:
    assert trial.notes["requeued limit"] == trial.notes["others planned"] < trial.notes["others request"]
    row = rows[trial.others["requeued"]]
    assert (row["State"], row["TimelimitRaw"]) == ("COMPLETED", str(trial.notes["others request"]))
    assert trial.notes["preempted limit"] < 30


def test_nothing_runs_into_a_reservation_that_would_not_have(trial: Trial, rows: dict[str, Row]) -> None:
    (from_s, until_s) = next((a, b) for name, a, b in trial.phases if name == "reservation")
    start_s = trial.notes["reservation start"]
    for _, limit_min, asked_s, set_s in trial.notes["waiting before it"]:
        if asked_s and until_s + asked_s > start_s:
            assert (60.0 * limit_min, set_s) == (asked_s, None)
    # The guard needs a round to see it.
    for one in trial.jobs:
        began_s = instant_s(rows[one.soft]["Start"])
        if from_s + 12 < began_s < until_s - 2:
            assert began_s + 60.0 * one.kind.minutes <= start_s + 60, one


def test_a_withdrawal_leaves_no_trace(trial: Trial) -> None:
    before, code, after, has_heartbeat, kind = trial.notes["withdrawal"]
    assert before == [round(kind.planned_s / 60)] * 4 and code == 0 and not has_heartbeat
    assert [minutes for minutes, _ in after] == [kind.minutes] * 4
    assert not any("walltime" in comment for _, comment in after)
    assert controller(trial.environment).cluster == "trial"
