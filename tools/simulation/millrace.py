"""One simulated day of a small cluster, Millrace, whose jobs are written as SWF, as `sacct -P` and as PBS accounting.

A JobAttempt is one execution of a job in terms that all three formats have words for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tools.simulation.laws import amdahl, constant, downey_low, noisy
from tools.simulation.log import UNIX_START_S, SimulatedLog, swf_of
from tools.simulation.scheduler import scheduled
from tools.simulation.workload import DAY_S, Application, Job, submitted_jobs, with_request

SEED = 18
MAX_PROCS = 64
PROCS_PER_NODE = 16
FIRST_NUMBER = 1001
N_ARRAY_TASKS = 6
REQUEUE_WAIT_S = 120

USERS = {1: "mira", 2: "tomas", 3: "ines", 4: "jonas"}
GROUPS = {2: "physics", 3: "chem", 4: "bio", 5: "staff"}
"""Groups by the numbers that `submitted_jobs` gives: 1 + user % 6."""

SWF_STATUS = {"COMPLETED": 1, "FAILED": 0, "CANCELLED": 5, "RUNNING": -1, "REQUEUED": 0}
"""SWF has no word for a requeued job: its first attempt counts as failed."""

HEAT = (1, 2, 4, 8, 16)
APPLICATIONS = (
    Application(1, 1, 1_048_576, downey_low(3_600, 8, 0.4), HEAT, 0.03),
    Application(1, 2, 2_097_152, downey_low(14_400, 16, 0.4), HEAT, 0.03),
    Application(2, 3, 1_048_576, amdahl(9_000, 0.05), (2, 4, 8, 16), 0.04),
    Application(3, 4, 524_288, constant(900), (1,), 0.05),
)
ARRAY_APPLICATIONS = (
    Application(3, 5, 262_144, constant(700), (1,), 0.04),
    Application(2, 6, 262_144, constant(300), (1,), 0.04),
)
NAMES = {
    1: "heat-n512.sh", 2: "heat-n1024.sh", 3: "cfd-n64.sh", 4: "plot.post", 5: "mcarlo-n1000.sh", 6: "dock-n20.sh",
    7: "",
}  # fmt: skip
"""Job names by executable: the number after -n is the problem size; the jobs of executable 7 have hostile names."""

LATE_JOBS = [
    Job(80_000 + 1_800 * k, 9_000, 4, 14_400, 1_048_576, 2, 3, requested_procs=4, user_group=3) for k in range(2)
]
"""Jobs that run when the day ends."""

HOSTILE_NAMES = (
    "<script>alert(1)</script>", "a|b|c", "=1+cmd!A0", '"quoted" name', "x; DROP TABLE jobs; --", "../../etc/passwd",
    "$(reboot)`id`", "\u202egnp.exe", "na\u00efve-\u540d.sh", "[red]bold[/red] %s {0}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """One execution of a job, with UTC epoch seconds; `end_s` is None for a job that runs when the day ends."""

    job: Job
    name: str
    state: str
    submit_s: int
    start_s: int | None
    end_s: int | None
    restart: int = 0
    is_last: bool = True
    queued_s: int | None = None
    """When it was queued again; None for a first attempt."""

    array_first: int | None = None
    """The number of the array's first task."""

    @property
    def number(self) -> int:
        """The job's number, which its attempts share."""
        return self.job.job_id

    @property
    def user(self) -> str:
        """The submitter's name."""
        return USERS[self.job.user]

    @property
    def group(self) -> str:
        """The submitter's group."""
        return GROUPS[self.job.user_group]

    @property
    def runtime_s(self) -> int | None:
        """Seconds it ran; None while it runs and where it never started."""
        return None if self.start_s is None or self.end_s is None else self.end_s - self.start_s

    @property
    def array_index(self) -> int | None:
        """Its place in its array, from 0."""
        return None if self.array_first is None else self.number - self.array_first


def simulated_millrace() -> tuple[JobAttempt, ...]:
    """The day, always the same: attempts in order of number and restart."""
    rng = np.random.default_rng(SEED)
    jobs = submitted_jobs(APPLICATIONS, 100, 1, rng) + _hostile(rng) + LATE_JOBS
    for application in ARRAY_APPLICATIONS:
        jobs += _array(application, rng)
    ran = [job for job in scheduled(jobs, MAX_PROCS) if job.submit_s + job.wait_s < DAY_S]
    numbered = [replace(job, job_id=FIRST_NUMBER + place) for place, job in enumerate(ran)]
    attempts = [_attempt(job, numbered) for job in numbered]
    return tuple(_with_requeued(_with_cancelled(attempts, rng), rng))


def swf_log(attempts: Sequence[JobAttempt]) -> SimulatedLog:
    """The day as SWF. A job that was requeued has a line for each attempt, with one number."""
    jobs = [_swf_job(one) for one in attempts]
    return swf_of(jobs, (), max_procs=MAX_PROCS, days=1, computer="Millrace, a simulated cluster")


def _swf_job(one: JobAttempt) -> Job:
    queued_s = one.submit_s if one.queued_s is None else one.queued_s
    return replace(
        one.job,
        submit_s=queued_s - UNIX_START_S,
        wait_s=-1 if one.start_s is None else one.start_s - queued_s,
        runtime_s=-1 if one.runtime_s is None else one.runtime_s,
        status=SWF_STATUS[one.state],
    )


def day_truth(attempts: Sequence[JobAttempt]) -> dict[str, Any]:
    """What made the day, and every attempt in the order of the files; times are UTC epoch seconds."""
    return {
        "logs": {"swf": "millrace.swf", "sacct": "millrace.sacct.txt", "pbs": "millrace.pbs", "table": "millrace.csv"},
        "seed": SEED,
        "max_procs": MAX_PROCS,
        "procs_per_node": PROCS_PER_NODE,
        "users": {str(number): name for number, name in USERS.items()},
        "jobs": len({one.number for one in attempts}),
        "applications": [
            {"executable": app.executable, "job_name": NAMES[app.executable], "law": app.law.name, **app.law.params()}
            for app in (*APPLICATIONS, *ARRAY_APPLICATIONS)
        ],
        "attempts": [
            {
                "number": one.number, "restart": one.restart, "array_index": one.array_index, "user": one.user,
                "job_name": one.name, "state": one.state, "procs": one.job.procs, "requested_s": one.job.requested_s,
                "submit_s": one.submit_s, "queued_s": one.queued_s, "start_s": one.start_s, "end_s": one.end_s,
            }
            for one in attempts
        ],
    }  # fmt: skip


def _hostile(rng: np.random.Generator) -> list[Job]:
    """A job for each hostile name, an hour and a half apart; its place is kept in `think_s` until it is named."""
    begin = Job(0, 0, 2, 0, 131_072, 4, 7, requested_procs=2, user_group=5)
    return [
        with_request(replace(begin, submit_s=4_000 + 5_400 * k, runtime_s=int(rng.integers(60, 240)), think_s=k), 600)
        for k in range(len(HOSTILE_NAMES))
    ]


def _array(application: Application, rng: np.random.Generator) -> list[Job]:
    """The tasks of an array, submitted in one second."""
    at_s = 36_000 + 7_200 * application.executable % DAY_S
    return [
        with_request(
            Job(
                at_s, round(noisy(application.law.runtime_s(1), application.log_sd, rng)), 1, 0,
                application.requested_mem_kib, application.user, application.executable, requested_procs=1,
                user_group=1 + application.user % 6,
            ),
            1_800,
        )
        for _ in range(N_ARRAY_TASKS)
    ]  # fmt: skip


def _attempt(job: Job, jobs: Sequence[Job]) -> JobAttempt:
    submit_s = UNIX_START_S + job.submit_s
    start_s = submit_s + job.wait_s
    is_over = start_s + job.runtime_s <= UNIX_START_S + DAY_S
    arrays = {one.executable for one in ARRAY_APPLICATIONS}
    tasks = [one.job_id for one in jobs if one.executable == job.executable] if job.executable in arrays else []
    return JobAttempt(
        replace(job, think_s=-1),
        NAMES[job.executable] or HOSTILE_NAMES[job.think_s],
        "COMPLETED" if is_over else "RUNNING",
        submit_s, start_s, start_s + job.runtime_s if is_over else None,
        array_first=min(tasks, default=None),
    )  # fmt: skip


def _with_cancelled(attempts: list[JobAttempt], rng: np.random.Generator) -> list[JobAttempt]:
    """Two jobs failed after some seconds, two were cancelled while they ran, and two before they started."""
    chosen = _drawn(attempts, 6, rng)
    changed = list(attempts)
    for place in chosen[:2]:
        changed[place] = _ended(attempts[place], int(rng.integers(2, 10)), "FAILED")
    for place in chosen[2:4]:
        runtime_s = attempts[place].runtime_s or 0
        changed[place] = _ended(attempts[place], round(runtime_s * rng.uniform(0.2, 0.8)), "CANCELLED")
    for place in chosen[4:]:
        gave_up_s = attempts[place].submit_s + int(rng.integers(60, 900))
        changed[place] = replace(attempts[place], state="CANCELLED", start_s=None, end_s=gave_up_s)
    return changed


def _with_requeued(attempts: list[JobAttempt], rng: np.random.Generator) -> list[JobAttempt]:
    """Three jobs lost their node, were queued again and then ran to their end."""
    chosen = set(_drawn(attempts, 3, rng))
    made: list[JobAttempt] = []
    for place, one in enumerate(attempts):
        if place not in chosen:
            made.append(one)
            continue
        lost = _ended(one, round((one.runtime_s or 0) * rng.uniform(0.2, 0.6)), "REQUEUED")
        assert lost.end_s is not None
        again_s = lost.end_s + REQUEUE_WAIT_S
        made.append(replace(lost, is_last=False))
        made.append(replace(one, queued_s=lost.end_s, start_s=again_s, end_s=again_s + (one.runtime_s or 0), restart=1))
    return made


def _drawn(attempts: Sequence[JobAttempt], count: int, rng: np.random.Generator) -> list[int]:
    """Places of ordinary jobs of at most four processors that ended before the evening, drawn at random."""
    evening_s = UNIX_START_S + 20 * 3_600
    candidates = [
        place
        for place, one in enumerate(attempts)
        if one.state == "COMPLETED" and one.job.executable <= 3 and one.job.procs <= 4 and (one.end_s or 0) < evening_s
    ]
    return [int(place) for place in rng.choice(candidates, size=count, replace=False)]


def _ended(one: JobAttempt, runtime_s: int, state: str) -> JobAttempt:
    assert one.start_s is not None
    return replace(one, state=state, end_s=one.start_s + max(runtime_s, 1))
