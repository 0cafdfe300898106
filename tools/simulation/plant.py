"""Anomalies as small functions: jobs in, jobs out, every planted job named in its `planted` field.

`BEFORE` are planted in submitted jobs, because they change what the machine does; `AFTER` in scheduled and numbered
ones, because they only change what the log says.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tools.simulation.workload import DAY_S, ROUND_REQUESTS_S, Job, with_request

Change = Callable[[Job, np.random.Generator], Job]
Inject = Callable[[list[Job], np.random.Generator, int, int], list[Job]]

FLURRY = Job(0, 0, 2, 300, 524_288, 15, 91, requested_procs=2, user_group=4)
PROBE = Job(0, 0, 1, 300, 65_536, 98, 92, requested_procs=1, user_group=9)
CRON = Job(0, 0, 4, 900, 262_144, 99, 93, requested_procs=4, user_group=9)


def inject(
    jobs: Sequence[Job],
    rng: np.random.Generator,
    count: int,
    *,
    kind: str,
    change: Change,
    fits: Callable[[Job], bool] = lambda job: True,
) -> list[Job]:
    """The jobs with `count` clean ones that fit, drawn at random, changed and marked as `kind`."""
    candidates = [i for i, job in enumerate(jobs) if not job.planted and fits(job)]
    if len(candidates) < count:
        raise ValueError(f"{kind}: {count} jobs wanted, {len(candidates)} fit")
    changed = list(jobs)
    for i in rng.choice(candidates, size=count, replace=False):
        changed[i] = replace(change(jobs[i], rng), planted=kind)
    return changed


# in submitted jobs


def inject_flurry(jobs: list[Job], rng: np.random.Generator, count: int, days: int) -> list[Job]:
    """Adds `count` near-identical jobs of a minute or so, a minute apart, from a Tuesday afternoon on."""
    submit_s = (days // 2 // 7 * 7 + 1) * DAY_S + 14 * 3600
    burst = []
    for _ in range(count):
        submit_s += int(rng.integers(15, 90))
        burst.append(replace(FLURRY, submit_s=submit_s, runtime_s=int(rng.integers(35, 50)), planted="flurry"))
    return jobs + burst


def inject_probe(jobs: list[Job], rng: np.random.Generator, count: int, days: int) -> list[Job]:
    """Adds `count` one-processor checks of some seconds, evenly over the whole log."""
    step_s = days * DAY_S / count
    marks = [int(k * step_s) + int(rng.integers(0, 120)) for k in range(count)]
    return jobs + [replace(PROBE, submit_s=t, runtime_s=int(rng.integers(4, 10)), planted="probe") for t in marks]


def inject_cron(jobs: list[Job], rng: np.random.Generator, count: int, days: int) -> list[Job]:
    """Adds `count` jobs, five a night between three and four o'clock."""
    marks = [(k // 5) * DAY_S + 3 * 3600 + 300 + 660 * (k % 5) for k in range(count)]
    if marks and marks[-1] >= days * DAY_S:
        raise ValueError(f"cron: {count} jobs, five a night, do not fit in {days} days")
    return jobs + [replace(CRON, submit_s=t, runtime_s=int(rng.integers(100, 140)), planted="cron") for t in marks]


def _fail_at_start(job: Job, rng: np.random.Generator) -> Job:
    return replace(job, runtime_s=int(rng.integers(1, 11)), status=0)


def _hang(job: Job, rng: np.random.Generator) -> Job:
    runtime_s = int(job.runtime_s * rng.uniform(12, 30))
    # Its user cancels it: one killed at its limit has a runtime that is a lower bound.
    return with_request(replace(job, runtime_s=runtime_s, status=5), runtime_s)


def _cancel_running(job: Job, rng: np.random.Generator) -> Job:
    return replace(job, runtime_s=int(job.runtime_s * rng.uniform(0.05, 0.9)), status=5)


def _run_past_request(job: Job, rng: np.random.Generator) -> Job:
    shorter = [t for t in ROUND_REQUESTS_S if t < job.runtime_s]
    return with_request(job, shorter[-1])


def _simple(kind: str, change: Change, fits: Callable[[Job], bool] = lambda job: True) -> Inject:
    def plant(jobs: list[Job], rng: np.random.Generator, count: int, days: int) -> list[Job]:
        return inject(jobs, rng, count, kind=kind, change=change, fits=fits)

    plant.__doc__ = f"Turns `count` clean jobs into records of the kind {kind}."
    return plant


inject_failed_starts = _simple("failed_start", _fail_at_start, lambda job: job.runtime_s >= 300)
inject_hangs = _simple("hang", _hang, lambda job: 300 <= job.runtime_s <= 14_400)
inject_cancelled_running = _simple("cancelled_running", _cancel_running, lambda job: job.runtime_s >= 300)
inject_past_request = _simple("past_request", _run_past_request, lambda job: job.runtime_s > ROUND_REQUESTS_S[0])

# in scheduled jobs


NOT_MEASURED = {"cpu_s": -1, "used_mem_kib": -1}


def _cancel_waiting(job: Job, rng: np.random.Generator) -> Job:
    shape = int(rng.integers(0, 3))
    if shape == 0:  # the wait says how long it stood in the queue
        return replace(job, wait_s=int(rng.integers(5, 50_000)), runtime_s=-1, procs=-1, status=5, **NOT_MEASURED)
    if shape == 1:
        return replace(job, wait_s=-1, runtime_s=-1, status=5, **NOT_MEASURED)
    return replace(job, runtime_s=0, status=5, **NOT_MEASURED)


def _zero(job: Job, rng: np.random.Generator) -> Job:
    return replace(job, runtime_s=0, cpu_s=0, status=int(rng.integers(0, 2)))


def _negative(job: Job, rng: np.random.Generator) -> Job:
    return replace(job, runtime_s=-int(rng.integers(2, 3600)))


def _never_started(job: Job, rng: np.random.Generator) -> Job:
    return replace(job, wait_s=-1, runtime_s=-1, status=0, **NOT_MEASURED)


inject_cancelled_before_start = _simple("cancelled_before_start", _cancel_waiting)
inject_zero_runtimes = _simple("zero_runtime", _zero)
inject_negative_runtimes = _simple("negative_runtime", _negative)
inject_never_started = _simple("never_started", _never_started)
inject_no_submit = _simple("no_submit", lambda job, rng: replace(job, submit_s=-1))
inject_starts_before_submit = _simple(
    "starts_before_submit", lambda job, rng: replace(job, wait_s=-int(rng.integers(2, 300)))
)
inject_no_procs = _simple("no_procs", lambda job, rng: replace(job, procs=-1, requested_procs=-1))
inject_allocation_unknown = _simple("allocation_unknown", lambda job, rng: replace(job, procs=-1))
inject_wait_unknown = _simple("wait_unknown", lambda job, rng: replace(job, wait_s=-1))


def inject_partial_executions(jobs: list[Job], rng: np.random.Generator, count: int, days: int) -> list[Job]:
    """Turns `count` clean jobs into checkpointed ones: after the summary line, two to four lines of its parts."""
    marked = inject(
        jobs, rng, count, kind="checkpointed", change=lambda job, _: job, fits=lambda job: job.runtime_s >= 600
    )
    lines: list[Job] = []
    for job in marked:
        lines.append(job)
        if job.planted == "checkpointed":
            lines += _parts(job, rng)
    return lines


def inject_repeated_numbers(jobs: list[Job], rng: np.random.Generator, count: int, days: int) -> list[Job]:
    """Gives `count` clean jobs the number of the clean job before them, as a counter that started again does."""
    clean = [i for i, job in enumerate(jobs) if not job.planted]
    changed = list(jobs)
    for k in rng.choice(len(clean) // 2, size=count, replace=False):
        earlier, later = clean[2 * k], clean[2 * k + 1]
        changed[later] = replace(jobs[later], job_id=jobs[earlier].job_id, planted="repeated_number")
    return changed


def _parts(job: Job, rng: np.random.Generator) -> list[Job]:
    n_parts = int(rng.integers(2, 5))
    cuts = sorted(int(job.runtime_s * (k + rng.uniform(-0.3, 0.3)) / n_parts) for k in range(1, n_parts))
    ends = [*cuts, job.runtime_s]
    parts = []
    for k, (begin, end) in enumerate(zip([0, *cuts], ends, strict=True)):
        is_last = k == n_parts - 1
        status = (3 if rng.random() < 0.7 else 4) if is_last else 2
        part = replace(job, runtime_s=end - begin, status=status, planted="partial_execution")
        parts.append(part if k == 0 else replace(part, submit_s=-1, wait_s=int(rng.integers(30, 900))))
    return parts


def cut_at_end(jobs: Sequence[Job], end_s: int) -> list[Job]:
    """The log as it stands at `end_s`: running jobs have no runtime yet, waiting ones are not in it."""
    seen = [job for job in jobs if job.submit_s + job.wait_s < end_s]
    return [_unfinished(job) if job.submit_s + job.wait_s + job.runtime_s > end_s else job for job in seen]


def _unfinished(job: Job) -> Job:
    return replace(job, runtime_s=-1, status=-1, planted="unfinished")


BEFORE: dict[str, Inject] = {
    "failed_start": inject_failed_starts,
    "hang": inject_hangs,
    "cancelled_running": inject_cancelled_running,
    "past_request": inject_past_request,
    "flurry": inject_flurry,
    "probe": inject_probe,
    "cron": inject_cron,
}
AFTER: dict[str, Inject] = {
    "cancelled_before_start": inject_cancelled_before_start,
    "zero_runtime": inject_zero_runtimes,
    "negative_runtime": inject_negative_runtimes,
    "never_started": inject_never_started,
    "no_submit": inject_no_submit,
    "starts_before_submit": inject_starts_before_submit,
    "no_procs": inject_no_procs,
    "allocation_unknown": inject_allocation_unknown,
    "wait_unknown": inject_wait_unknown,
    "checkpointed": inject_partial_executions,
    "repeated_number": inject_repeated_numbers,
}
