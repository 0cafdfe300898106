"""Applications and the jobs their users submit: sizes, runtimes, requests, arrivals by hour and weekday."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tools.simulation.laws import Law, amdahl, constant, downey_high, downey_low, noisy

DAY_S = 86_400
ROUND_REQUESTS_S = (
    300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 28_800, 36_000, 43_200, 57_600, 64_800, 86_400,
    129_600, 172_800, 259_200, 345_600, 432_000, 604_800,
)  # fmt: skip
HOUR_WEIGHTS = (2, 1, 1, 1, 1, 1, 2, 4, 8, 11, 12, 12, 9, 10, 12, 12, 11, 9, 6, 5, 4, 4, 3, 3)
WEEKDAY_WEIGHTS = (10, 11, 11, 10, 9, 3, 2)
SHORT_QUEUE_LIMIT_S = 14_400
MIN_JOBS_PER_SIZE = 6


@dataclass(frozen=True, slots=True)
class Application:
    """What one user runs: one law, the sizes it runs on, the noise of its repeats, the memory always requested."""

    user: int
    executable: int
    requested_mem_kib: int
    law: Law
    sizes: tuple[int, ...]
    log_sd: float
    weight: float = 1.0

    @property
    def reach(self) -> str:
        """What its sizes can tell of its law: one_size, two_sizes, bend_inside, tail_open, or all (no bend to find)."""
        if len(self.sizes) <= 2:
            return "one_size" if len(self.sizes) == 1 else "two_sizes"
        if not self.law.name.startswith("downey"):
            return "all"
        return "bend_inside" if self.sizes[-1] > self.law.bend_procs else "tail_open"


@dataclass(frozen=True, slots=True)
class Job:
    """One record in the format's own terms (-1: unknown; submit since the log's start) and what was planted."""

    submit_s: int
    runtime_s: int
    procs: int
    requested_s: int
    requested_mem_kib: int
    user: int
    executable: int
    job_id: int = 0
    wait_s: int = -1
    cpu_s: int = -1
    used_mem_kib: int = -1
    requested_procs: int = -1
    status: int = 1
    user_group: int = -1
    queue: int = 1
    partition: int = 1
    preceding_job: int = -1
    think_s: int = -1
    planted: str = ""


def submitted_jobs(applications: Sequence[Application], n_jobs: int, days: int, rng: np.random.Generator) -> list[Job]:
    """About `n_jobs` jobs of these applications over `days` days, in order of submit; none started yet."""
    total = sum(app.weight for app in applications)
    jobs: list[Job] = []
    for app in applications:
        jobs += _jobs_of(app, round(n_jobs * app.weight / total), days, rng)
    return sorted(jobs, key=lambda job: (job.submit_s, job.user, job.executable, job.procs))


def _jobs_of(app: Application, n_jobs: int, days: int, rng: np.random.Generator) -> list[Job]:
    sizes = _drawn_sizes(app, max(n_jobs, MIN_JOBS_PER_SIZE * len(app.sizes)), rng)
    overestimate = rng.uniform(1.3, 6.0)
    jobs: list[Job] = []
    for procs in sizes:
        near_last = jobs and rng.random() < 0.3
        submit_s = jobs[-1].submit_s + int(rng.integers(20, 900)) if near_last else arrival_s(days, rng)
        jobs.append(_one_job(app, procs, submit_s, overestimate, rng))
    return [job for job in jobs if job.submit_s < days * DAY_S]


def _drawn_sizes(app: Application, n_jobs: int, rng: np.random.Generator) -> list[int]:
    """Every size a few times, the rest by a popularity that falls off from a favourite."""
    favourite = int(len(app.sizes) * 0.45)
    popularity = np.array([0.55 ** abs(i - favourite) for i in range(len(app.sizes))])
    rest = n_jobs - MIN_JOBS_PER_SIZE * len(app.sizes)
    drawn = list(app.sizes) * MIN_JOBS_PER_SIZE
    drawn += [int(n) for n in rng.choice(app.sizes, size=rest, p=popularity / popularity.sum())]
    return [drawn[i] for i in rng.permutation(len(drawn))]


def _one_job(app: Application, procs: int, submit_s: int, overestimate: float, rng: np.random.Generator) -> Job:
    runtime_s = max(1, round(noisy(app.law.runtime_s(procs), app.log_sd, rng)))
    hoped_s = app.law.runtime_s(procs) * overestimate * (1.5 if rng.random() < 0.15 else 1.0)
    return with_request(
        Job(
            submit_s, runtime_s, procs, 0, app.requested_mem_kib, app.user, app.executable,
            requested_procs=procs, user_group=1 + app.user % 6,
        ),
        max(hoped_s, runtime_s),
    )  # fmt: skip


def with_request(job: Job, at_least_s: float) -> Job:
    """The job asking for the smallest round time of `at_least_s` or more, in the queue that time belongs to."""
    place = min(bisect_left(ROUND_REQUESTS_S, at_least_s), len(ROUND_REQUESTS_S) - 1)
    requested_s = ROUND_REQUESTS_S[place]
    return replace(job, requested_s=requested_s, queue=1 if requested_s <= SHORT_QUEUE_LIMIT_S else 2)


def arrival_s(days: int, rng: np.random.Generator) -> int:
    """A second in `days` days from a Monday midnight, likelier in working hours."""
    limit = max(HOUR_WEIGHTS) * max(WEEKDAY_WEIGHTS)
    while True:
        second = int(rng.integers(0, days * DAY_S))
        weight = HOUR_WEIGHTS[second % DAY_S // 3600] * WEEKDAY_WEIGHTS[second // DAY_S % 7]
        if rng.random() * limit < weight:
            return second


def random_applications(n: int, max_procs: int, rng: np.random.Generator) -> tuple[Application, ...]:
    """`n` applications of every kind of law in turn, on powers of two up to `max_procs`."""
    top = max_procs.bit_length()
    found = []
    for k in range(n):
        first = int(rng.integers(0, max(1, top - 4)))
        sizes = tuple(2**i for i in range(first, min(top, first + int(rng.integers(3, 8)))))
        law = _random_law(k % 4, sizes, rng)
        memory_kib = 1024 * int(rng.integers(256, 4096))
        found.append(Application(1 + k // 2, 1 + k, memory_kib, law, sizes, float(rng.uniform(0.02, 0.1))))
    return tuple(found)


def _random_law(kind: int, sizes: tuple[int, ...], rng: np.random.Generator) -> Law:
    t1_s = float(rng.uniform(1, 8)) * 3600 * sizes[0]
    avg_parallelism = max(2.0, float(rng.uniform(0.2, 0.8)) * sizes[-1])
    if kind == 0:
        return constant(float(rng.uniform(600, 7200)))
    if kind == 1:
        return amdahl(t1_s, float(rng.uniform(0.002, 0.2)))
    if kind == 2:
        return downey_low(t1_s, avg_parallelism, float(rng.uniform(0, 1)))
    return downey_high(t1_s, avg_parallelism, float(rng.uniform(1, 4)))
